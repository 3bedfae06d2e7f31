/* wgsl.h -- makes a WGSL module from templates: it takes only the items (fn, struct, const, alias, override, var) that are used, found by
 * their names.
 *
 * A template is WGSL. A comment
 *     // include templates/webgpu/unit.wgsl
 * on a separate line between items includes another template, with the same words. For an instance of a template, words are replaced. A
 * word is a part of a name between underscores: with { "WEIGHTS", "w0" } load_q4_K_WEIGHTS becomes load_q4_K_w0, also in comments. */
#ifndef FORGEC_WEB_WGSL_H
#define FORGEC_WEB_WGSL_H
#include "compiler/base/base.h"

struct wgsl_word { const char *word, *stands_for; };       /* { "WEIGHTS", "w0" }: the module has "w0" in place of "WEIGHTS" */

/* The end of the comment that begins at c (block comments may contain others); c: no comment begins there; NULL: it has no end. */
const char *wgsl_comment_end(const char *c);

struct wgsl;
/* templates: --templates DIR or NULL. */
struct wgsl *wgsl_new(struct arena *a, const char *templates);
/* Makes the items of the templates that a template includes known, and then its own. An item that is known with the same text is skipped.
 * Dies if an item is known with another text, if templates include each other, or if the text is not a list of items. */
void wgsl_add(struct wgsl *w, const char *path, const struct wgsl_word *words, uint32_t n_words);
/* The same for a text. file: its name in messages. */
void wgsl_add_text(struct wgsl *w, const char *file, const char *text, const struct wgsl_word *words, uint32_t n_words);
/* Requests an item by its name after the replacement of words. Dies if it is not known. */
void wgsl_want(struct wgsl *w, const char *name);
/* Appends all requested items and all items that they use, without duplicates and with the comments above them, in the order in which they
 * became known: an item stands before its users. */
void wgsl_write(const struct wgsl *w, struct text *out);
#endif
