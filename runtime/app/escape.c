/* escape.c -- see escape.h. */
#include "escape.h"

#include <stdio.h>
#include <string.h>

void print_escaped(const char *text, enum escape form)
{
    static const struct { const char *which, *before; } of[] = {
        [ESCAPE_JSON] = { "\"\\", "\\" }, [ESCAPE_CSV] = { "\"", "\"" }, [ESCAPE_MD] = { "|", "\\" }, [ESCAPE_HTML] = { "<>&\"", NULL },
    };
    for (; *text != 0; text++) {
        if (!strchr(of[form].which, *text)) putchar(*text);
        else if (of[form].before) printf("%s%c", of[form].before, *text);
        else printf("&#%d;", *text);
    }
}
