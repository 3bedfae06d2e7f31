/* model.h -- the chat templates of a GGUF file as an image. */
#ifndef FORGEC_CHAT_MODEL_H
#define FORGEC_CHAT_MODEL_H
#include "compiler/front/gguf.h"
#include "template.h"

/* tokenizer.chat_template and those that tokenizer.chat_templates names (runtime/chat/image.h); path: not NULL: the file's text is the only
 * template.  A template of the model that cannot be compiled is left out with a warning; one of path dies.  data NULL: there is none. */
struct bytes chat_build(struct arena *a, const struct gguf *g, const char *path);
#endif
