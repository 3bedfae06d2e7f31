/* template.h -- compiles chat templates (Jinja) into the image that runtime/chat/render.c reads. */
#ifndef FORGEC_CHAT_TEMPLATE_H
#define FORGEC_CHAT_TEMPLATE_H
#include "compiler/base/base.h"
#include "lex.h"

struct chat_source { const char *name; struct bytes text; };        /* name NULL: the default template */

enum { CHAT_MOST_BYTES = 1 << 20, CHAT_MOST_NESTING = 200, CHAT_MOST_WARNINGS = 16 };

struct chat_warnings { struct chat_problem items[CHAT_MOST_WARNINGS]; uint32_t n; };

/* The templates as one image (runtime/chat/image.h), in the arena. data NULL: *problem says what is wrong, in template number *at. The
 * warnings, for all templates, name constructs that the renderer refuses when it reaches them. */
struct bytes chat_compile(struct arena *a, const struct chat_source *sources, uint32_t n, struct chat_warnings *warnings,
                          struct chat_problem *problem, uint32_t *at);
#endif
