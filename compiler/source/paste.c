/* paste.c -- see paste.h. */
#include "paste.h"
#include "compiler/base/resource.h"
#include <string.h>

static bool line_is(const char *line, size_t n, const char *text)
{
    return n >= strlen(text) && strncmp(line, text, strlen(text)) == 0 && (n == strlen(text) || line[strlen(text)] == ' ');
}

/* Defaults for compiling a template alone; an emitted source sets these itself. */
static bool is_default(const char *line, size_t n)
{
    static const char *const parameters[] = { "#ifndef FORMAT", "#ifndef KV", "#ifndef ROWS", "#ifndef LANES", "#ifndef GEMM_TOKENS", "#ifndef GEMM_ROWS", "#ifndef GEMM_THREADS" };
    for (uint32_t i = 0; i < COUNT_OF(parameters); i++) if (line_is(line, n, parameters[i])) return true;
    return false;
}

/* "vec.h" beside templates/cpu/norm_tmpl.c, else a path from the root of the sources. */
static const char *resolve(const struct paster *p, const char *from, const char *name, size_t n)
{
    const char *beside = arena_printf(p->arena, "%.*s%.*s", (int)(strrchr(from, '/') + 1 - from), from, (int)n, name), *whole = arena_strndup(p->arena, name, n);
    struct bytes found;
    if (p->machine && strcmp(beside, "templates/gpu/machine/choose.h") == 0) return p->machine;
    return resource_find(p->arena, p->templates, beside, &found) ? beside : whole;
}

/* Templates begin with defaults for being compiled alone ("#ifndef FORMAT ... #endif"); here the parameter is set, so that part is
 * left out.  Files with an include guard are pasted at their first #include, others (per format) whenever asked for. */
void emit_paste(struct paster *p, const char *path, bool once)
{
    for (uint32_t i = 0; i < p->n_pasted; i++) if (strcmp(p->pasted[i], path) == 0) return;
    if (once) {
        if (p->n_pasted == COUNT_OF(p->pasted)) die("%s: too many templates", path);
        p->pasted[p->n_pasted++] = path;
    }
    const struct bytes text = resource_get(p->arena, p->templates, path);
    text_printf(p->out, "/* ---- begin %s ---- */\n", path);
    uint32_t skipping = 0;
    for (const char *line = (const char *)text.data, *end = line + text.size; line < end; ) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t n = newline ? (size_t)(newline - line) : (size_t)(end - line);
        if (skipping) {
            if (strncmp(line, "#if", 3) == 0) skipping++;
            else if (line_is(line, n, "#endif")) skipping--;
        }
        else if (is_default(line, n)) skipping = 1;
        else if (n > 10 && strncmp(line, "#include \"", 10) == 0) {
            const char *name = line + 10, *quote = memchr(name, '"', n - 10);
            emit_paste(p, resolve(p, path, name, (size_t)((quote ? quote : line + n) - name)), true);
        }
        else {
            text_append(p->out, line, n);
            text_puts(p->out, "\n");
        }
        line += n + 1;
    }
    text_printf(p->out, "/* ---- end %s ---- */\n\n", path);
}
