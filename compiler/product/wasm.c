/* wasm.c -- writes and rewrites relocatable objects of WebAssembly:
 *
 *     [ magic, version ][ section: id, bytes, contents ] ...   among them data (11) and the custom ones "linking" and "reloc.*"
 *
 * Numbers are LEB128.  Symbols are made local by a bit of their flags, which takes no more room; the segment of the weights is the last of
 * the section of data, so only that section's size and its own change. */
#include "wasm.h"
#include <string.h>

enum { SECTION_CUSTOM = 0, SECTION_IMPORT = 2, SECTION_DATA = 11, SUB_SEGMENTS = 5, SUB_SYMBOLS = 8 };
enum { SYMBOL_FUNCTION, SYMBOL_DATA, SYMBOL_GLOBAL, SYMBOL_SECTION, SYMBOL_TAG, SYMBOL_TABLE };
enum { FLAG_WEAK = 1, FLAG_LOCAL = 2, FLAG_HIDDEN = 4, FLAG_UNDEFINED = 16, FLAG_NAMED = 64 };
static const uint8_t magic[8] = { 0, 'a', 's', 'm', 1, 0, 0, 0 };

/* ---- writing ---- */

static void put_number(struct text *t, uint64_t n)
{
    do {
        const char byte = (char)((n & 127) | (n > 127 ? 128 : 0));
        text_append(t, &byte, 1);
    } while (n >>= 7);
}

/* Always in five bytes. */
static void put_wide(struct text *t, uint64_t n)
{
    for (int i = 0; i < 5; i++, n >>= 7) {
        const char byte = (char)((n & 127) | (i < 4 ? 128 : 0));
        text_append(t, &byte, 1);
    }
}

static void put_bytes(struct text *t, const void *data, size_t n) { text_append(t, data, n); }
static void put_name(struct text *t, const char *s) { put_number(t, strlen(s)); put_bytes(t, s, strlen(s)); }

static void put_section(struct text *t, int id, const struct text *contents)
{
    put_number(t, (uint64_t)id);
    put_wide(t, contents->size);
    put_bytes(t, contents->data, contents->size);
}

static uint32_t log2_of(uint64_t align)
{
    uint32_t n = 0;
    while (align >> n > 1) n++;
    return n;
}

struct bytes wasm_data_object(struct arena *a, const char *symbol, const char *segment, uint64_t align, struct bytes data)
{
    struct text t = { .arena = a }, import = { .arena = a }, section = { .arena = a }, linking = { .arena = a }, sub = { .arena = a };
    put_bytes(&t, magic, sizeof magic);
    put_number(&import, 1);
    put_name(&import, "env");
    put_name(&import, "__linear_memory");
    put_bytes(&import, "\x02\x00\x00", 3);                         /* a memory without minimum size */
    put_section(&t, SECTION_IMPORT, &import);
    put_number(&section, 1);
    put_bytes(&section, "\x00\x41\x00\x0b", 4);                    /* active, at i32.const 0 */
    put_wide(&section, data.size);
    put_bytes(&section, data.data, data.size);
    put_section(&t, SECTION_DATA, &section);

    put_name(&linking, "linking");
    put_number(&linking, 2);
    put_number(&sub, 1);
    put_name(&sub, segment);
    put_number(&sub, log2_of(align));
    put_number(&sub, 0);
    put_section(&linking, SUB_SEGMENTS, &sub);
    sub = (struct text){ .arena = a };
    put_number(&sub, 1);
    put_number(&sub, SYMBOL_DATA);
    put_number(&sub, FLAG_HIDDEN);
    put_name(&sub, symbol);
    put_number(&sub, 0);
    put_number(&sub, 0);
    put_number(&sub, data.size);
    put_section(&linking, SUB_SYMBOLS, &sub);
    put_section(&t, SECTION_CUSTOM, &linking);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* ---- reading ---- */

struct wasm_reader { const char *name; const uint8_t *at, *end; };

_Noreturn static void damaged(const struct wasm_reader *r, const char *what)
{
    die("%s: its %s damaged; lld did not write it", r->name, what);
}

static uint64_t take_number(struct wasm_reader *r)
{
    uint64_t n = 0;
    for (uint32_t shift = 0; r->at < r->end && shift < 35; shift += 7) {
        const uint8_t byte = *r->at++;
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return n;
    }
    damaged(r, "numbers are");
}

static struct wasm_reader take_part(struct wasm_reader *r, uint64_t n)
{
    if (n > (uint64_t)(r->end - r->at)) damaged(r, "sections are");
    const struct wasm_reader part = { r->name, r->at, r->at + n };
    r->at += n;
    return part;
}

static struct wasm_reader take_text(struct wasm_reader *r) { return take_part(r, take_number(r)); }
static bool is_text(struct wasm_reader t, const char *s) { return (size_t)(t.end - t.at) == strlen(s) && !memcmp(t.at, s, strlen(s)); }
static bool begins(struct wasm_reader t, const char *s) { return (size_t)(t.end - t.at) >= strlen(s) && !memcmp(t.at, s, strlen(s)); }

static bool in_list(const char *const *list, struct wasm_reader name)
{
    for (; *list; list++) if (is_text(name, *list)) return true;
    return false;
}

/* ---- checks of the result ---- */

/* The object's symbols, in a copy that can be modified; found[i]: exported[i] is defined. */
struct symbols { const char *name; const char *const *exported, *const *needed; bool *found; };

static void change_symbol(const struct symbols *s, uint8_t *flags_at, uint64_t kind, uint64_t flags, struct wasm_reader name)
{
    if (kind == SYMBOL_SECTION || flags & FLAG_LOCAL) return;
    const int length = (int)(name.end - name.at);
    if (flags & FLAG_UNDEFINED) {
        const bool of_linker = kind == SYMBOL_GLOBAL || kind == SYMBOL_TABLE;
        if (!of_linker && !in_list(s->needed, name))
            die("%s: it needs %.*s but does not define it", s->name, length, (const char *)name.at);
        return;
    }
    for (size_t i = 0; s->exported[i]; i++) {
        if (!is_text(name, s->exported[i])) continue;
        s->found[i] = true;
        *flags_at &= (uint8_t)~FLAG_HIDDEN;
        return;
    }
    *flags_at = (uint8_t)((*flags_at & ~FLAG_WEAK) | FLAG_LOCAL);
}

static void change_symbols(const struct symbols *s, struct wasm_reader r, uint8_t *copy, const uint8_t *original)
{
    for (uint64_t n = take_number(&r); n > 0; n--) {
        const uint64_t kind = take_number(&r);
        uint8_t *flags_at = copy + (r.at - original);
        const uint64_t flags = take_number(&r);
        struct wasm_reader name = { r.name, r.at, r.at };
        if (kind > SYMBOL_TABLE) damaged(&r, "symbols are");
        if (kind == SYMBOL_DATA) {
            name = take_text(&r);
            if (!(flags & FLAG_UNDEFINED)) { take_number(&r); take_number(&r); take_number(&r); }
        } else {
            take_number(&r);
            if (kind != SYMBOL_SECTION && (!(flags & FLAG_UNDEFINED) || flags & FLAG_NAMED)) name = take_text(&r);
        }
        /* an import without its own name is known by the name of the import; such functions are not in the lists */
        if (kind == SYMBOL_FUNCTION && flags & FLAG_UNDEFINED && !(flags & FLAG_NAMED)) continue;
        change_symbol(s, flags_at, kind, flags, name);
    }
}

static void check_segments(struct wasm_reader r)
{
    for (uint64_t n = take_number(&r); n > 0; n--) {
        const struct wasm_reader name = take_text(&r);
        if (!begins(name, ".rodata") && !begins(name, ".data.rel.ro"))
            die("%s: segment %.*s holds variables; a library may have variables only in its workspace", r.name, (int)(name.end - name.at),
                (const char *)name.at);
        take_number(&r);
        take_number(&r);
    }
}

static void change_linking(const struct symbols *s, struct wasm_reader r, uint8_t *copy, const uint8_t *original)
{
    if (take_number(&r) != 2) damaged(&r, "version of \"linking\" is other than 2, or");
    while (r.at < r.end) {
        const uint64_t kind = take_number(&r);
        const struct wasm_reader sub = take_text(&r);
        if (kind == SUB_SEGMENTS) check_segments(sub);
        if (kind == SUB_SYMBOLS)  change_symbols(s, sub, copy, original);
    }
}

/* Checks the undefined functions that only have a name in the import section. */
static void check_imports(const struct symbols *s, struct wasm_reader r)
{
    for (uint64_t n = take_number(&r); n > 0; n--) {
        take_text(&r);
        const struct wasm_reader name = take_text(&r);
        const struct wasm_reader kind = take_part(&r, 1);
        if (*kind.at == 0 && !in_list(s->needed, name))
            die("%s: it needs %.*s but does not define it", s->name, (int)(name.end - name.at), (const char *)name.at);
        if (*kind.at == 0) take_number(&r);
        else if (*kind.at == 3) take_part(&r, 2);
        else {
            if (*kind.at == 1) take_part(&r, 1);
            const uint64_t limits = take_number(&r);
            take_number(&r);
            if (limits & 1) take_number(&r);
        }
    }
}

/* The data section up to the single byte of its last segment, with the sizes changed for the weights that replace this byte. */
static struct bytes grow_data(struct arena *a, struct wasm_reader r, uint64_t weights_bytes)
{
    struct text t = { .arena = a }, contents = { .arena = a };
    const uint8_t *const begin = r.at;
    const uint8_t *last = NULL;
    for (uint64_t n = take_number(&r); n > 0; n--) {
        if (take_number(&r) != 0) damaged(&r, "segments are");
        if (*take_part(&r, 1).at != 0x41) damaged(&r, "segments are");      /* i32.const N, end */
        take_number(&r);
        if (*take_part(&r, 1).at != 0x0b) damaged(&r, "segments are");
        last = r.at;
        take_text(&r);
    }
    if (!last || r.at != r.end || r.end[-1] != 0 || r.end - last < 2) damaged(&r, "segments are");
    put_bytes(&contents, begin, (size_t)(last - begin));
    put_wide(&contents, weights_bytes);
    put_number(&t, SECTION_DATA);
    put_wide(&t, contents.size + weights_bytes);
    put_bytes(&t, contents.data, contents.size);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

struct wasm_object wasm_rewrite(struct arena *a, const char *name, struct bytes object, const char *const *exported,
                                const char *const *needed, uint64_t weights_bytes)
{
    struct wasm_reader r = { name, object.data, object.data + object.size };
    size_t n = 0;
    while (exported[n]) n++;
    const struct symbols s = { name, exported, needed, arena_array(a, bool, n + 1) };
    uint8_t *copy = arena_alloc(a, object.size);
    memcpy(copy, object.data, object.size);
    struct text head = { .arena = a }, tail = { .arena = a };
    if (object.size < sizeof magic || memcmp(object.data, magic, sizeof magic)) damaged(&r, "head is");
    take_part(&r, sizeof magic);
    put_bytes(&head, magic, sizeof magic);
    bool grown = false;
    while (r.at < r.end) {
        const uint8_t *const from = r.at;
        const uint64_t id = take_number(&r);
        struct wasm_reader section = take_text(&r), contents = section;
        if (id == SECTION_IMPORT) check_imports(&s, contents);
        if (id == SECTION_CUSTOM && is_text(take_text(&contents), "linking")) change_linking(&s, contents, copy, object.data);
        if (id == SECTION_DATA && weights_bytes) {
            const struct bytes before = grow_data(a, section, weights_bytes);
            put_bytes(&head, before.data, before.size);
            grown = true;
        } else put_bytes(grown ? &tail : &head, copy + (from - object.data), (size_t)(r.at - from));
    }
    for (size_t i = 0; exported[i]; i++) if (!s.found[i]) die("%s: %s is not defined in it", name, exported[i]);
    if (weights_bytes && !grown) damaged(&r, "data is");
    return (struct wasm_object){ { (const uint8_t *)head.data, head.size }, { (const uint8_t *)tail.data, tail.size },
                                 head.size + weights_bytes + tail.size };
}
