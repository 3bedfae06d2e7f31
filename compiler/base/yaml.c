/* yaml.c -- parses YAML text into a tree with places, with libyaml's event parser (https://pyyaml.org/wiki/LibYAML). libyaml's document
 * interface is not used: it resolves aliases, with which a small file can grow without bound. */
#include "yaml.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>
#ifndef YAML_H                     /* libyaml's own guard */
#  error "<yaml.h> is not libyaml's: put compiler/ on the path with -iquote, not -I"
#endif

enum { DEPTH_MAX = 32 };

struct builder {
    struct arena *arena;
    const char   *name;
    yaml_parser_t parser;
    yaml_event_t  event;           /* the current event; deleted by next() */
};

static struct place place_of(const struct builder *b, yaml_mark_t mark)
{
    return (struct place){ .file = b->name, .line = (uint32_t)mark.line + 1, .column = (uint32_t)mark.column + 1 };
}

/* Frees libyaml's memory first: in tests and fuzzers die_at() leaves by longjmp. */
static _Noreturn void fail(struct builder *b, yaml_mark_t mark, const char *fmt, ...) PRINTF_LIKE(3, 4);
static _Noreturn void fail(struct builder *b, yaml_mark_t mark, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    const struct place at = place_of(b, mark);
    yaml_event_delete(&b->event);
    yaml_parser_delete(&b->parser);
    die_at(at, "%s", message);
}

static void next(struct builder *b)
{
    yaml_event_delete(&b->event);
    memset(&b->event, 0, sizeof b->event);
    if (yaml_parser_parse(&b->parser, &b->event)) return;
    const yaml_parser_t *p = &b->parser;
    if (p->error == YAML_READER_ERROR) {                 /* a reader error has no mark, only a byte offset */
        const size_t offset = p->problem_offset;
        fail(b, p->mark, "not readable as YAML: %s at byte %zu; the file must be UTF-8 text", p->problem, offset);
    }
    if (p->error == YAML_MEMORY_ERROR) fail(b, p->mark, "out of memory");
    fail(b, p->problem_mark, "not valid YAML: %s%s%s; check the indentation and the quotes here", p->problem ? p->problem : "syntax error",
         p->context ? ", " : "", p->context ? p->context : "");
}

static void refuse_decoration(struct builder *b, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    if (anchor) fail(b, b->event.start_mark, "anchors (&%.60s) are not read here; write the value out", (const char *)anchor);
    if (tag) fail(b, b->event.start_mark, "tags (%.60s) are not read here; remove it", (const char *)tag);
}

/* Copies a scalar. Refuses characters that a terminal interprets or hides; only values may have line ends and tabs. */
static const char *copy_scalar(struct builder *b, bool key)
{
    const char  *text = (const char *)b->event.data.scalar.value;
    const size_t size = b->event.data.scalar.length;
    uint32_t used;
    for (size_t i = 0; i < size; i += used) {
        const uint32_t c = utf8_next(text + i, size - i, &used);
        if (is_visible(c) || (!key && (c == '\n' || c == '\t'))) continue;
        fail(b, b->event.start_mark, "this text contains U+%04" PRIX32 ", a control or another character that does not show; remove it", c);
    }
    return arena_strndup(b->arena, text, size);
}

static bool is_null_word(const char *s)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };       /* YAML 1.2, 10.3.2 */
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(s, words[i]) == 0) return true;
    return false;
}

static struct yaml *build_node(struct builder *b, uint32_t depth);

/* Makes room for one more value (and key): capacities are powers of two. */
static void grow(struct builder *b, struct yaml *y)
{
    const uint32_t n = y->count;
    if (n & (n - 1) || (n && n < 4)) return;              /* 0, 4, 8, 16, ... are full */
    const uint32_t capacity = n ? 2 * n : 4;
    struct yaml **items = arena_array(b->arena, struct yaml *, capacity);
    if (n) memcpy(items, y->items, n * sizeof *items);
    y->items = items;
    if (y->kind != YAML_MAP) return;
    const char **keys = arena_array(b->arena, const char *, capacity);
    struct place *places = arena_array(b->arena, struct place, capacity);
    if (n) memcpy(keys, y->keys, n * sizeof *keys);
    if (n) memcpy(places, y->key_places, n * sizeof *places);
    y->keys = keys;
    y->key_places = places;
}

struct key_order { const char *key; uint32_t index; };

static int compare_keys(const void *a, const void *b)
{
    const struct key_order *x = a, *y = b;
    const int order = strcmp(x->key, y->key);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Sorts the keys instead of comparing each pair: a megabyte of short keys would take minutes otherwise. */
static void refuse_duplicate_keys(struct builder *b, const struct yaml *y)
{
    struct key_order *sorted = arena_array(b->arena, struct key_order, y->count);
    for (uint32_t i = 0; i < y->count; i++) sorted[i] = (struct key_order){ y->keys[i], i };
    qsort(sorted, y->count, sizeof *sorted, compare_keys);
    for (uint32_t i = 1; i < y->count; i++) {
        if (strcmp(sorted[i - 1].key, sorted[i].key) != 0) continue;
        const struct place at = y->key_places[sorted[i].index], first = y->key_places[sorted[i - 1].index];
        fail(b, (yaml_mark_t){ .line = at.line - 1, .column = at.column - 1 },
             "key \"%.60s\" was already given in line %u; remove one of the two", sorted[i].key, first.line);
    }
}

static void build_map(struct builder *b, struct yaml *y, uint32_t depth)
{
    y->kind = YAML_MAP;
    for (next(b); b->event.type != YAML_MAPPING_END_EVENT; next(b)) {
        if (b->event.type == YAML_ALIAS_EVENT)
            fail(b, b->event.start_mark, "aliases (*%.60s) are not read here; write the key out", (const char *)b->event.data.alias.anchor);
        if (b->event.type != YAML_SCALAR_EVENT) fail(b, b->event.start_mark, "a key must be a word, not a list or a map");
        refuse_decoration(b, b->event.data.scalar.anchor, b->event.data.scalar.tag);
        const char *key = copy_scalar(b, true);
        if (!*key) fail(b, b->event.start_mark, "this key is empty; give it a name");
        grow(b, y);
        y->keys[y->count] = key;
        y->key_places[y->count] = place_of(b, b->event.start_mark);
        next(b);
        y->items[y->count] = build_node(b, depth + 1);
        y->count++;
    }
    refuse_duplicate_keys(b, y);
}

static void build_list(struct builder *b, struct yaml *y, uint32_t depth)
{
    y->kind = YAML_LIST;
    for (next(b); b->event.type != YAML_SEQUENCE_END_EVENT; next(b)) {
        grow(b, y);
        y->items[y->count] = build_node(b, depth + 1);
        y->count++;
    }
}

/* Builds the node that starts at the current event; its last event is then the current one. */
static struct yaml *build_node(struct builder *b, uint32_t depth)
{
    if (depth > DEPTH_MAX) fail(b, b->event.start_mark, "nested more than %d deep; make it flatter", DEPTH_MAX);
    struct yaml *y = arena_new(b->arena, struct yaml);
    y->at = place_of(b, b->event.start_mark);
    switch (b->event.type) {
    case YAML_SCALAR_EVENT:
        refuse_decoration(b, b->event.data.scalar.anchor, b->event.data.scalar.tag);
        y->scalar = copy_scalar(b, false);
        y->quoted = b->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        y->kind = !y->quoted && is_null_word(y->scalar) ? YAML_NULL : YAML_SCALAR;
        return y;
    case YAML_SEQUENCE_START_EVENT:
        refuse_decoration(b, b->event.data.sequence_start.anchor, b->event.data.sequence_start.tag);
        build_list(b, y, depth);
        return y;
    case YAML_MAPPING_START_EVENT:
        refuse_decoration(b, b->event.data.mapping_start.anchor, b->event.data.mapping_start.tag);
        build_map(b, y, depth);
        return y;
    case YAML_ALIAS_EVENT:
        fail(b, b->event.start_mark, "aliases (*%.60s) are not read here; write the value out", (const char *)b->event.data.alias.anchor);
    default:
        fail(b, b->event.start_mark, "a value is missing here");
    }
}

struct yaml *yaml_parse(struct arena *a, const char *name, const char *text, size_t size)
{
    struct builder b = { .arena = a, .name = name };
    if (size > YAML_MOST_BYTES) die("%s: the file has %zu bytes; forgec reads at most %d; split the file", name, size, YAML_MOST_BYTES);
    if (!yaml_parser_initialize(&b.parser)) die("out of memory reading %s", name);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)text, size);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);

    struct yaml *root = NULL;
    next(&b);                                             /* stream start */
    for (next(&b); b.event.type != YAML_STREAM_END_EVENT; next(&b)) {
        if (root) fail(&b, b.event.start_mark, "a second document starts here; one file holds one document");
        if (b.event.data.document_start.version_directive ||
            b.event.data.document_start.tag_directives.start != b.event.data.document_start.tag_directives.end)
            fail(&b, b.event.start_mark, "%%YAML and %%TAG directives are not read here; remove them");
        next(&b);
        root = build_node(&b, 1);
        next(&b);                                         /* document end */
    }
    if (!root) {                                          /* only comments */
        root = arena_new(a, struct yaml);
        root->at = (struct place){ .file = name, .line = 1, .column = 1 };
        root->scalar = "";
    }
    yaml_event_delete(&b.event);
    yaml_parser_delete(&b.parser);
    return root;
}

/* ---- reading the tree ---- */

static const char *kind_name(const struct yaml *y)
{
    switch (y->kind) {
    case YAML_NULL:   return "nothing";
    case YAML_SCALAR: return y->quoted ? "quoted text" : "a word";
    case YAML_LIST:   return "a list";
    case YAML_MAP:    return "a map";
    }
    return "?";
}

struct yaml *yaml_get(const struct yaml *y, const char *key)
{
    if (!y || y->kind != YAML_MAP) return NULL;
    for (uint32_t i = 0; i < y->count; i++)
        if (strcmp(y->keys[i], key) == 0) return y->items[i];
    return NULL;
}

struct yaml *yaml_need(const struct yaml *y, const char *key)
{
    if (y->kind != YAML_MAP) die_at(y->at, "%s stands here; a map with the key \"%s\" is needed", kind_name(y), key);
    struct yaml *item = yaml_get(y, key);
    if (!item) die_at(y->at, "key \"%s\" is missing; add it", key);
    return item;
}

/* The plain word of a scalar; dies if y is anything else. */
static const char *plain(const struct yaml *y, const char *wanted)
{
    if (y->kind != YAML_SCALAR) die_at(y->at, "%s stands here; %s is needed", kind_name(y), wanted);
    if (y->quoted) die_at(y->at, "\"%.60s\" is quoted text; %s is needed, without quotes", y->scalar, wanted);
    return y->scalar;
}

uint64_t yaml_u64(const struct yaml *y)
{
    const char *s = plain(y, "a whole number");
    const bool hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    const char *digits = hex ? s + 2 : s;
    const bool all = *digits && digits[strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789")] == '\0';
    if (!all) die_at(y->at, "\"%.60s\" is not a whole number (decimal or 0x...)", s);
    /* YAML 1.1 reads 010 as eight, YAML 1.2 as ten. */
    if (!hex && s[0] == '0' && s[1]) die_at(y->at, "\"%.60s\" starts with a zero; write the number without it", s);
    errno = 0;
    const unsigned long long value = strtoull(digits, NULL, hex ? 16 : 10);
    if (errno == ERANGE) die_at(y->at, "\"%.60s\" is larger than %" PRIu64, s, UINT64_MAX);
    return value;
}

double yaml_f64(const struct yaml *y)
{
    const char *s = plain(y, "a number");
    char *end = NULL;
    const double value = strtod(s, &end);
    /* strtod also accepts "inf", "nan" and hexadecimal. */
    if (s[strspn(s, "0123456789+-.eE")] || !*s || *end) die_at(y->at, "\"%.60s\" is not a number", s);
    if (!isfinite(value)) die_at(y->at, "\"%.60s\" is too large for a double", s);
    return value;
}

bool yaml_bool(const struct yaml *y)
{
    const char *s = plain(y, "true or false");
    if (strcmp(s, "true") == 0) return true;
    if (strcmp(s, "false") == 0) return false;
    die_at(y->at, "\"%.60s\" is neither true nor false", s);
}

const char *yaml_string(const struct yaml *y)
{
    if (y->kind != YAML_SCALAR) die_at(y->at, "%s stands here; a text is needed", kind_name(y));
    return y->scalar;
}

void yaml_only(const struct yaml *y, const char *const *allowed)
{
    if (y->kind != YAML_MAP) die_at(y->at, "%s stands here; a map is needed", kind_name(y));
    for (uint32_t i = 0; i < y->count; i++) {
        bool known = false;
        for (const char *const *p = allowed; *p && !known; p++) known = strcmp(*p, y->keys[i]) == 0;
        if (known) continue;
        char list[512] = "";
        for (const char *const *p = allowed; *p; p++) {
            const size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", *p);
        }
        die_at(y->key_places[i], "key \"%.60s\" is unknown here; the known keys are: %s", y->keys[i], list);
    }
}
