/* status.c -- writes the sentence of an error. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

void text_escape(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (const unsigned char *c = (const unsigned char *)text; *c != 0; ) {
        const int bytes = *c < 0x20 || *c == 0x7f ? 1 : *c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0 ? 2 : 0;      /* C0, and C1 in UTF-8 */
        if (n + (bytes ? 4u * (unsigned)bytes : 1) >= room) break;
        if (bytes == 0) out[n++] = (char)*c++;
        for (int i = 0; i < bytes; i++) n += (size_t)snprintf(out + n, room - n, "\\x%02x", *c++);
    }
    out[n] = 0;
}

enum forge_status error_set(struct forge_error *error, enum forge_status status, const char *format, ...)
{
    if (error) {
        char text[sizeof error->text];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        text_escape(error->text, sizeof error->text, text);
    }
    return status;
}
