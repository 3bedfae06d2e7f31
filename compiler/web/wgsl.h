/* wgsl.h -- a WGSL module from templates: of their items (fn, struct, const, alias, override, var) those that are needed, by name.
 *
 * A template is WGSL.  A comment
 *     // include templates/webgpu/unit.wgsl
 * on a line of its own between items brings another one, with the same words.  For an instance, words stand in for others: a word is a
 * part of a name between its underlines, so that with { "WEIGHTS", "w0" } load_q4_K_WEIGHTS is load_q4_K_w0, in comments too. */
#ifndef FORGEC_WEB_WGSL_H
#define FORGEC_WEB_WGSL_H
#include "compiler/base/base.h"

struct wgsl_word { const char *word, *stands_for; };       /* "w0" stands in the module where "WEIGHTS" stands in the template */

/* Behind a comment that begins at c; comments in slashes and stars may hold others.  Not behind a comment: c.  NULL: it has no end. */
const char *wgsl_comment_end(const char *c);

struct wgsl;
/* templates: --templates DIR or NULL. */
struct wgsl *wgsl_new(struct arena *a, const char *templates);
/* The items of a template and of what it includes, those first, become known.  Items that are known with the same text stay as they are;
 * dies where one has another text, where templates include each other, and where a text is no list of items. */
void wgsl_add(struct wgsl *w, const char *path, const struct wgsl_word *words, uint32_t n_words);
/* The same of a text; file: its name in messages. */
void wgsl_add_text(struct wgsl *w, const char *file, const char *text, const struct wgsl_word *words, uint32_t n_words);
/* Asks for an item, of any name as the module has it.  Dies where no template has it. */
void wgsl_want(struct wgsl *w, const char *name);
/* Appends the items that were asked for and all that they use, each once, with the comment above it, in the order in which they became
 * known: what is used before its user. */
void wgsl_write(const struct wgsl *w, struct text *out);
#endif
