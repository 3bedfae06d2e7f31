/* model.c -- see model.h. */
#include "model.h"
#include <string.h>

enum { MOST_TEMPLATES = 64 };

static const char *place(struct arena *a, const struct chat_source *s, uint32_t line)
{
    const char *name = s->name ? arena_printf(a, " '%s'", printable(a, s->name, strlen(s->name))) : "";
    return line ? arena_printf(a, "chat template%s, line %u", name, line) : arena_printf(a, "chat template%s", name);
}

static void warn_all(struct arena *a, const char *path, const struct chat_warnings *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        warn("%s: chat template, %s; a conversation that comes there is refused", printable(a, path, strlen(path)), w->items[i].text);
}

static struct bytes of_file(struct arena *a, const char *path)
{
    input_remember(a, path);
    const struct chat_source s = { NULL, file_read_most(a, path, CHAT_MOST_BYTES) };
    struct chat_warnings warnings = { .n = 0 };
    struct chat_problem problem;
    uint32_t at;
    const struct bytes image = chat_compile(a, &s, 1, &warnings, &problem, &at);
    if (!image.data) die_at((struct place){ path, problem.line, 0 }, "--chat-template: %s", problem.text);
    warn_all(a, path, &warnings);
    return image;
}

static void add(struct chat_source *sources, uint32_t *n, const char *name, struct gguf_string s)
{
    if (*n < MOST_TEMPLATES) sources[(*n)++] = (struct chat_source){ name, { (const uint8_t *)s.data, s.size } };
}

static uint32_t sources_of(struct arena *a, const struct gguf *g, struct chat_source *sources)
{
    struct gguf_string s;
    uint32_t n = 0;
    if (gguf_get_string(g, "tokenizer.chat_template", &s)) add(sources, &n, NULL, s);
    const struct gguf_value *names = gguf_find(g, "tokenizer.chat_templates");
    if (!names || names->type != GGUF_ARRAY || names->item_type != GGUF_STRING) return n;
    for (uint64_t i = 0; i < names->count && n < MOST_TEMPLATES; i++) {
        const char *name = arena_strndup(a, names->strings[i].data, names->strings[i].size);
        if (gguf_get_string(g, arena_printf(a, "tokenizer.chat_template.%s", name), &s)) add(sources, &n, name, s);
    }
    return n;
}

struct bytes chat_build(struct arena *a, const struct gguf *g, const char *path)
{
    struct chat_source sources[MOST_TEMPLATES];
    struct chat_problem problem;
    if (path) return of_file(a, path);
    for (uint32_t n = sources_of(a, g, sources), at; n > 0; ) {
        struct chat_warnings warnings = { .n = 0 };
        const struct bytes image = chat_compile(a, sources, n, &warnings, &problem, &at);
        if (image.data) {
            warn_all(a, g->path, &warnings);
            return image;
        }
        warn("%s: %s: %s; %s (--chat-template FILE gives another one)", g->path, place(a, &sources[at], problem.line), problem.text,
             sources[at].name ? "it is left out" : "with -i the program's turns are plain lines");
        memmove(&sources[at], &sources[at + 1], (--n - at) * sizeof *sources);
    }
    return (struct bytes){ NULL, 0 };
}
