/* model.c -- see model.h. */
#include "model.h"
#include <string.h>
#include "runtime/chat/room.h"
#include "runtime/chat/template.h"

enum { MOST_TEMPLATES = 64 };

static const char *place(struct arena *a, const struct chat_source *s, uint32_t line)
{
    const char *name = s->name ? arena_printf(a, " '%s'", printable(a, s->name, strlen(s->name))) : "";
    return line ? arena_printf(a, "chat template%s, line %u", name, line) : arena_printf(a, "chat template%s", name);
}

static void warn_all(struct arena *a, const char *path, const struct chat_warnings *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        warn("%s: chat template, %s; a conversation that needs this is refused", printable(a, path, strlen(path)), w->items[i].text);
}

static void try_words(struct arena *a, const char *path, const uint8_t *image);

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
    try_words(a, path, image.data);
    return image;
}

static bool is_blank(struct gguf_string s)
{
    uint64_t i = 0;
    while (i < s.size && strchr(" \t\r\n", s.data[i]) && s.data[i]) i++;
    return i == s.size;
}

/* key: of the template in the file. */
static void add(struct chat_source *sources, uint32_t *n, const struct gguf *g, const char *key, const char *name)
{
    struct gguf_string s;
    if (*n == MOST_TEMPLATES || !gguf_get_string(g, key, &s)) return;
    if (is_blank(s)) warn("%s: '%s' is %s, which counts as no chat template", g->path, key, s.size ? "blank" : "empty");
    else sources[(*n)++] = (struct chat_source){ name, { (const uint8_t *)s.data, s.size } };
}

static bool has(const struct chat_source *sources, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (name ? sources[i].name && strcmp(sources[i].name, name) == 0 : !sources[i].name) return true;
    return false;
}

/* The unnamed template, then the named ones, whether tokenizer.chat_templates lists them or not. If there is no unnamed template, "default"
 * replaces it, else "tool_use", as in llama.cpp (common_chat_templates_init), else the first one. */
static uint32_t sources_of(struct arena *a, const struct gguf *g, struct chat_source *sources)
{
    static const char prefix[] = "tokenizer.chat_template.";
    uint32_t n = 0;
    add(sources, &n, g, "tokenizer.chat_template", NULL);
    for (uint64_t i = 0; i < g->n_pairs; i++)
        if (strncmp(g->pairs[i].key, prefix, sizeof prefix - 1) == 0 && g->pairs[i].value.type == GGUF_STRING)
            add(sources, &n, g, g->pairs[i].key, arena_printf(a, "%s", g->pairs[i].key + sizeof prefix - 1));
    if (n == 0 || n == MOST_TEMPLATES || has(sources, n, NULL)) return n;
    uint32_t from = 0;
    for (uint32_t i = n; i-- > 0; ) if (strcmp(sources[i].name, "tool_use") == 0) from = i;
    for (uint32_t i = n; i-- > 0; ) if (strcmp(sources[i].name, "default") == 0) from = i;
    sources[n] = (struct chat_source){ NULL, sources[from].text };
    return n + 1;
}

/* Warns if a rendered message lacks the user's words: the model would answer as if the user had said nothing. */
static void try_words(struct arena *a, const char *path, const uint8_t *image)
{
    static const char words[] = "What is the river's name?",
                      request[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"What is the river's name?\"}],"
                                  " \"add_generation_prompt\": true}";
    enum { ROOM = 4 << 20, MOST = 1 << 20 };
    struct room room = room_of(arena_alloc(a, ROOM), ROOM);
    struct json_error wrong;
    struct chat_error error;
    struct chat_text text = { arena_alloc(a, MOST), arena_alloc(a, MOST), MOST, 0 };
    const struct chat_input in = { .variables = json_read(&room, request, sizeof request - 1, &wrong), .bos = "", .eos = "",
                                   .family_variables = true };
    if (!in.variables || !chat_render(image, NULL, &in, &room, &text, &error)) return;      /* it may need other conversations */
    for (size_t i = 0; i + sizeof words - 1 <= text.n; i++) if (memcmp(text.bytes + i, words, sizeof words - 1) == 0) return;
    warn("%s: chat template: what it makes of a user's message does not contain the user's words", path);
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
            try_words(a, g->path, image.data);
            return image;
        }
        warn("%s: %s: %s; %s (--chat-template FILE gives another template)", g->path, place(a, &sources[at], problem.line), problem.text,
             sources[at].name ? "it is left out" : "with -i the program's turns are plain lines");
        memmove(&sources[at], &sources[at + 1], (--n - at) * sizeof *sources);
    }
    return (struct bytes){ NULL, 0 };
}
