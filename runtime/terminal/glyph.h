/* glyph.h -- a character of an edited text, as the terminal shows it. */
#ifndef FORGE_GLYPH_H
#define FORGE_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes: in the text; shown: [n_shown] bytes for the terminal, which then is `columns` columns further to the right. */
struct glyph { size_t bytes, n_shown, columns; const char *shown; char own[8]; };

/* The glyph of the codepoint at text, n > 0 bytes.  Nothing that is shown can control the terminal: control characters become ^X, a tab
 * becomes spaces, and characters that change the direction of text are not shown.  glyph->shown is valid as long as text and glyph are. */
void glyph_of(struct glyph *glyph, const char *text, size_t n);

/* The bytes of the character at text, n > 0, including what the terminal combines with it: marks, joined characters, the second half of
 * a flag. */
size_t glyph_step(const char *text, size_t n);
/* The same for the last character. */
size_t glyph_step_back(const char *text, size_t n);

#endif
