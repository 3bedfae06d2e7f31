/* line.h -- a text of one or more lines, typed and edited on a terminal.  The keys: docs/chat.md. */
#ifndef FORGE_LINE_H
#define FORGE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/run/status.h"

struct line;

enum line_result { LINE_TEXT, LINE_INTERRUPTED, LINE_ENDED, LINE_SIGNAL };

/* Most bytes of a text: as the tokenizer takes of a file is far more than anybody edits. */
enum { LINE_MOST_BYTES = 1 << 20 };

/* Can stdin be edited?  It, stdout and stderr are terminals, and TERM is one that moves its cursor. */
bool line_possible(void);

/* history: a file with what was typed before, to which each text is added; NULL: none.  words: what Tab completes at the beginning of the
 * text, NULL-terminated. */
enum forge_status line_open(struct line **out, const char *history, const char *const *words, struct forge_error *error);
void line_close(struct line *line);                      /* NULL is allowed */

/* Edits a text behind the prompt, on stderr, from column 0 on, and leaves the cursor at the beginning of the line below it.  LINE_TEXT:
 * *text is what was typed, without zeros, valid until the next call.  LINE_INTERRUPTED: Ctrl-C where there was no text.  LINE_ENDED: Ctrl-D
 * there, or the terminal has gone.  LINE_SIGNAL: one that ends programs has come; *signal is to be raised. */
enum line_result line_read(struct line *line, const char *prompt, const char **text, int *signal);

#endif
