/* status.h -- every function of the runtime that can fail returns a status and writes one sentence into an error.  Only run.c prints it
 * or ends the process. */
#ifndef FORGE_STATUS_H
#define FORGE_STATUS_H

#include <stddef.h>

enum forge_status {
#define STATUS(name, code, text) name = code,
#include "status.def"
#undef STATUS
};

struct forge_error { char text[512]; };

#define TRY(expr) do { enum forge_status s_ = (expr); if (s_ != FORGE_OK) return s_; } while (0)

/* Copies text into out, room > 0, cut to fit.  Characters that a terminal obeys, such as escape, newline and U+009B, become \xHH. */
void text_escape(char *out, size_t room, const char *text);

/* Writes the sentence, escaped by text_escape so that it is one line, and returns status, so that `return error_set(error, ...)` is one
 * line.  error may be NULL. */
__attribute__((format(printf, 3, 4)))
enum forge_status error_set(struct forge_error *error, enum forge_status status, const char *format, ...);

#endif
