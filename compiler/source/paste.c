/* paste.c -- see paste.h. */
#include "paste.h"
#include "compiler/base/resource.h"
#include <string.h>

/* #include "abi_gpu.h" in runtime/model/abi.h; NULL: the line is none. */
static const char *included(const struct paster *p, const char *from, const char *line, size_t n)
{
    static const char include[] = "#include \"";
    const size_t mark = sizeof include - 1;
    if (n <= mark || memcmp(line, include, mark)) return NULL;
    const char *quote = memchr(line + mark, '"', n - mark);
    const int folder = (int)(strrchr(from, '/') + 1 - from), name = (int)((quote ? quote : line + n) - (line + mark));
    return arena_printf(p->arena, "%.*s%.*s", folder, from, name, line + mark);
}

void emit_paste(struct paster *p, const char *path)
{
    for (uint32_t i = 0; i < p->n_pasted; i++) if (strcmp(p->pasted[i], path) == 0) return;
    if (p->n_pasted == COUNT_OF(p->pasted)) die("%s: too many headers", path);
    p->pasted[p->n_pasted++] = path;
    const struct bytes text = resource_get(p->arena, NULL, path);
    text_printf(p->out, "/* ---- begin %s ---- */\n", path);
    for (const char *line = (const char *)text.data, *end = line + text.size; line < end; ) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t n = newline ? (size_t)(newline - line) : (size_t)(end - line);
        const char *name = included(p, path, line, n);
        if (name) emit_paste(p, name);
        else {
            text_append(p->out, line, n);
            text_puts(p->out, "\n");
        }
        line += n + 1;
    }
    text_printf(p->out, "/* ---- end %s ---- */\n\n", path);
}
