/* glyph.h -- a character of a text that is edited, as the terminal shows it. */
#ifndef FORGE_GLYPH_H
#define FORGE_GLYPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bytes: of the text; shown: [n_shown] what goes to the terminal, which then stands so many columns further on. */
struct glyph { size_t bytes, n_shown, columns; const char *shown; char own[8]; };

/* Of the codepoint that begins at text, n > 0 bytes.  Nothing that is shown drives the terminal: control characters are ^X, a tab is
 * blanks, what changes the direction of text is not shown.  glyph->shown is valid as long as text and glyph. */
void glyph_of(struct glyph *glyph, const char *text, size_t n);

/* The bytes of the character at text, n > 0, with what the terminal puts on it: marks, what a joiner joins, the second half of a flag. */
size_t glyph_step(const char *text, size_t n);
/* The same of the last one. */
size_t glyph_step_back(const char *text, size_t n);

#endif
