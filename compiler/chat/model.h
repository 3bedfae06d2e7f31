/* model.h -- compiles the chat templates of a GGUF file into an image. */
#ifndef FORGEC_CHAT_MODEL_H
#define FORGEC_CHAT_MODEL_H
#include "compiler/front/gguf.h"
#include "template.h"

/* Compiles tokenizer.chat_template and the templates that tokenizer.chat_templates names (runtime/chat/image.h). If path is not NULL, that
 * file is the only template instead. A template of the model that cannot be compiled is left out with a warning; for a template of path, it
 * dies. Returns data NULL if there is no template. */
struct bytes chat_build(struct arena *a, const struct gguf *g, const char *path);
#endif
