/* line.h -- a text of one or more lines, typed and edited on a terminal.  docs/chat.md describes the keys. */
#ifndef FORGE_LINE_H
#define FORGE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/run/status.h"

struct line;

enum line_result { LINE_TEXT, LINE_INTERRUPTED, LINE_ENDED, LINE_SIGNAL };

/* Most bytes of a text.  The limit of the tokenizer for files would be far more than anybody edits. */
enum { LINE_MOST_BYTES = 1 << 20 };

/* Can text be edited?  Only if stdin, stdout and stderr are terminals and TERM is a terminal with a movable cursor. */
bool line_possible(void);

/* history: a file with earlier texts, to which each text is added; NULL: none.  words: completions for Tab at the beginning of the text,
 * NULL-terminated. */
enum forge_status line_open(struct line **out, const char *history, const char *const *words, struct forge_error *error);
void line_close(struct line *line);                      /* NULL is allowed */

/* Edits a text after the prompt, on stderr, from column 0 on, and leaves the cursor at the beginning of the line below.  LINE_TEXT:
 * *text is the typed text, without zero bytes, valid until the next call.  LINE_INTERRUPTED: Ctrl-C without a text.  LINE_ENDED: Ctrl-D
 * without a text, or the terminal is gone.  LINE_SIGNAL: a signal that ends programs has arrived; the caller should raise *signal. */
enum line_result line_read(struct line *line, const char *prompt, const char **text, int *signal);

#endif
