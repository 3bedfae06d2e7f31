/* status.h -- every function of the runtime that can fail returns a status and leaves one sentence in an error.
 * Nothing but run.c prints it or ends the process. */
#ifndef FORGE_STATUS_H
#define FORGE_STATUS_H

enum forge_status {
#define STATUS(name, code, text) name = code,
#include "status.def"
#undef STATUS
};

struct forge_error { char text[512]; };

#define TRY(expr) do { enum forge_status s_ = (expr); if (s_ != FORGE_OK) return s_; } while (0)

/* Writes the sentence and returns status, so that `return error_set(error, ...)` is one line. error may be NULL. */
__attribute__((format(printf, 3, 4)))
enum forge_status error_set(struct forge_error *error, enum forge_status status, const char *format, ...);

#endif
