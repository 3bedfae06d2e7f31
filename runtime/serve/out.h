/* out.h -- a text buffer that grows, for the server's output. */
#ifndef FORGE_OUT_H
#define FORGE_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "runtime/chat/json.h"

struct out { char *bytes; size_t n, room; bool failed; };     /* bytes: from malloc; failed: out of memory, text is missing */

void out_bytes(struct out *o, const char *bytes, size_t n);
void out_text(struct out *o, const char *text);
__attribute__((format(printf, 2, 3)))
void out_printf(struct out *o, const char *format, ...);
/* Appends text as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void out_string(struct out *o, const char *text, size_t n);
void out_json(struct out *o, const struct json *value);
void out_free(struct out *o);
#endif
