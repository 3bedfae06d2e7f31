/* wgsl.c -- see wgsl.h. Items are found by counting brackets: an item ends with the ";" or "}" after which no bracket is open. */
#include "wgsl.h"
#include "compiler/base/resource.h"
#include <ctype.h>
#include <string.h>

enum { DEPTH_MOST = 16 };                        /* of includes */

struct item {
    const char *name, *text;                     /* text: with the comment above */
    bool        wanted;
};

struct wgsl {
    struct arena *arena;
    const char   *templates;
    struct item  *items;
    uint32_t      n_items, capacity;
    const char   *open[DEPTH_MOST];              /* the templates being read; each includes the next one */
    uint32_t      depth;
};

/* Reads a text after the replacement of words. */
struct wgsl_reader {
    struct wgsl            *w;
    const char             *file, *text, *at;
    const struct wgsl_word *words;
    uint32_t                n_words;
};

struct wgsl *wgsl_new(struct arena *a, const char *templates)
{
    struct wgsl *w = arena_new(a, struct wgsl);
    w->arena = a;
    w->templates = templates;
    return w;
}

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

static _Noreturn void mistake(const struct wgsl_reader *r, const char *what)
{
    uint32_t line = 1;
    for (const char *c = r->text; c < r->at; c++) line += *c == '\n';
    die_at((struct place){ r->file, line, 0 }, "%s; this is a mistake in forgec, please report it", what);
}

/* ---- words ---- */
static const struct wgsl_word *word_of(const struct wgsl_reader *r, const char *part, size_t n)
{
    for (uint32_t i = 0; i < r->n_words; i++)
        if (strlen(r->words[i].word) == n && !memcmp(r->words[i].word, part, n)) return &r->words[i];
    return NULL;
}
static const char *words_replaced(const struct wgsl_reader *r, const char *text)
{
    struct text t = { .arena = r->w->arena };
    while (*text) {
        size_t n = 0;
        while (isalnum((unsigned char)text[n])) n++;
        const struct wgsl_word *word = word_of(r, text, n);
        if (word) text_puts(&t, word->stands_for);
        else text_append(&t, text, n ? n : 1);
        text += n ? n : 1;
    }
    return text_str(&t);
}

/* ---- reading ---- */
const char *wgsl_comment_end(const char *c)
{
    if (c[0] == '/' && c[1] == '/') return c + strcspn(c, "\n");
    if (c[0] != '/' || c[1] != '*') return c;
    uint32_t depth = 0;
    do {
        if (!*c) return NULL;
        const bool opens = c[0] == '/' && c[1] == '*', closes = c[0] == '*' && c[1] == '/';
        depth += opens;
        depth -= closes;
        c += opens || closes ? 2 : 1;
    } while (depth);
    return c;
}
static const char *comment_end(const struct wgsl_reader *r, const char *c)
{
    const char *end = wgsl_comment_end(c);
    if (!end) mistake(r, "a comment has no end");
    return end;
}
/* The end of the line if only a comment follows c, else c. */
static const char *line_completed(const struct wgsl_reader *r, const char *c)
{
    const char *rest = c + strspn(c, " ");
    const char *end = comment_end(r, rest);
    return *end == '\n' || !*end ? end : c;
}
static const char *item_end(const struct wgsl_reader *r, const char *c)
{
    int32_t open = 0;
    while (*c) {
        const char *behind = comment_end(r, c);
        if (behind > c) { c = behind; continue; }
        open += *c == '{' || *c == '(' || *c == '[';
        open -= *c == '}' || *c == ')' || *c == ']';
        if (!open && (*c == ';' || *c == '}')) return line_completed(r, c + 1);
        c++;
    }
    mistake(r, "an item has no end");
}

/* ---- items ---- */
/* The position after blanks, comments and attributes such as @compute and @group(0). */
static const char *kind_at(const struct wgsl_reader *r, const char *c)
{
    for (;;) {
        const char *before = c;
        c += strspn(c, " \n");
        c = comment_end(r, c);
        if (*c == '@') {
            for (c++; in_name(*c); c++) { }
            if (*c == '(') c += strcspn(c, ")") + 1;
        }
        if (c == before) return c;
    }
}
/* The name of an item: it follows the keyword, and in a variable the <storage, read>. */
static const char *item_name(const struct wgsl_reader *r, const char *kind)
{
    static const char *const kinds[] = { "fn", "struct", "const", "alias", "override", "var" };
    const size_t n = strcspn(kind, " <");
    for (uint32_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strlen(kinds[i]) != n || memcmp(kinds[i], kind, n)) continue;
        const char *name = kind + n;
        if (*name == '<') name += strcspn(name, ">") + 1;
        name += strspn(name, " ");
        size_t length = 0;
        while (in_name(name[length])) length++;
        if (length) return arena_strndup(r->w->arena, name, length);
    }
    mistake(r, "this is neither fn, struct, const, alias, override nor var");
}
static struct item *item_find(const struct wgsl *w, const char *name, size_t n)
{
    for (uint32_t i = 0; i < w->n_items; i++)
        if (strlen(w->items[i].name) == n && !memcmp(w->items[i].name, name, n)) return &w->items[i];
    return NULL;
}
/* Reads the item that begins at `first` with the comment above it, or else with its code. */
static void item_read(struct wgsl_reader *r, const char *first)
{
    struct wgsl *w = r->w;
    const char *kind = kind_at(r, first), *name = item_name(r, kind), *end = item_end(r, kind);
    const char *text = arena_strndup(w->arena, first, (size_t)(end - first));
    const struct item *known = item_find(w, name, strlen(name));
    if (known && strcmp(known->text, text)) mistake(r, arena_printf(w->arena, "another template has another %s", name));
    if (!known) {
        arena_room(w->arena, w->items, w->n_items, w->capacity);
        w->items[w->n_items++] = (struct item){ .name = name, .text = text };
    }
    r->at = end;
}
static bool include(struct wgsl_reader *r, const char *comment, const char *end)
{
    static const char word[] = "// include ";
    if (strncmp(comment, word, sizeof word - 1)) return false;
    const char *path = comment + sizeof word - 1;
    wgsl_add(r->w, arena_strndup(r->w->arena, path, (size_t)(end - path)), r->words, r->n_words);
    return true;
}
/* Reads all items of a text. A comment before an empty line belongs to the text, not to an item. */
static void items_read(struct wgsl_reader *r)
{
    const char *above = NULL;                    /* the comments above the next item */
    while (*r->at) {
        const char *c = r->at, *end = comment_end(r, c);
        if (end > c) {
            if (!include(r, c, end) && !above) above = c;
            r->at = end;
            if (r->at[0] == '\n' && r->at[1] == '\n') above = NULL;
        }
        else if (*c == ' ' || *c == '\n') r->at++;
        else {
            item_read(r, above ? above : c);
            above = NULL;
        }
    }
}

void wgsl_add_text(struct wgsl *w, const char *file, const char *text, const struct wgsl_word *words, uint32_t n_words)
{
    struct wgsl_reader r = { .w = w, .file = file, .words = words, .n_words = n_words };
    r.text = r.at = words_replaced(&r, text);
    for (uint32_t i = 0; i < w->depth; i++)
        if (!strcmp(w->open[i], file)) mistake(&r, "this template includes itself");
    if (w->depth == DEPTH_MOST) mistake(&r, "includes are too deep");
    w->open[w->depth++] = file;
    items_read(&r);
    w->depth--;
}
void wgsl_add(struct wgsl *w, const char *path, const struct wgsl_word *words, uint32_t n_words)
{
    const struct bytes file = resource_get(w->arena, w->templates, path);
    wgsl_add_text(w, resource_place(w->arena, w->templates, path), arena_strndup(w->arena, (const char *)file.data, file.size), words,
                  n_words);
}

/* ---- items in use ---- */
/* Requests all items that an item uses. Members (names after a point) and declared names (before a colon) are not uses. Therefore the cases
 * of a switch have no colon. */
static void want_uses(struct wgsl *w, const struct item *item)
{
    const struct wgsl_reader r = { .w = w, .file = item->name, .text = item->text, .at = item->text };
    for (const char *c = item->text; *c;) {
        const char *behind = comment_end(&r, c);
        size_t n = 0;
        while (behind == c && in_name(c[n])) n++;
        struct item *used = n && c[n] != ':' && !(c > item->text && c[-1] == '.') ? item_find(w, c, n) : NULL;
        if (used && !used->wanted) {
            used->wanted = true;
            want_uses(w, used);
        }
        c = behind > c ? behind : c + (n ? n : 1);
    }
}
void wgsl_want(struct wgsl *w, const char *name)
{
    struct item *item = item_find(w, name, strlen(name));
    if (!item) die("no template of WGSL has %s; this is a mistake in forgec, please report it", name);
    item->wanted = true;
    want_uses(w, item);
}
void wgsl_write(const struct wgsl *w, struct text *out)
{
    for (uint32_t i = 0; i < w->n_items; i++) {
        if (!w->items[i].wanted) continue;
        text_puts(out, w->items[i].text);
        text_puts(out, "\n");
    }
}
