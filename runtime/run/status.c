/* status.c -- a sentence for what went wrong. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

enum forge_status error_set(struct forge_error *error, enum forge_status status, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->text, sizeof error->text, format, args);
        va_end(args);
    }
    return status;
}
