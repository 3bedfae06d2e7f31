/* schema_objects.c -- objects: members in their order, other names than those, what may be left out. */
#include "schema_writer.h"

struct object {
    const struct json **property;        /* [n] schemas with their names; those only required have the schema of additional ones */
    bool     *required;                  /* [n] */
    uint32_t n;
    const struct json *additional;       /* NULL: none */
};

static int by_name(const struct json *a, const struct json *b)
{
    const size_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    return c ? c : a->n_name < b->n_name ? -1 : a->n_name > b->n_name;
}

/* Shell's sort. */
static void sort_names(const struct json **a, uint32_t n)
{
    uint32_t gap = 1;
    while (gap < n / 3) gap = gap * 3 + 1;
    for (; gap > 0; gap /= 3)
        for (uint32_t i = gap; i < n; i++) {
            const struct json *x = a[i];
            uint32_t k = i;
            for (; k >= gap && by_name(a[k - gap], x) > 0; k -= gap) a[k] = a[k - gap];
            a[k] = x;
        }
}

static int64_t find_name(const struct json **sorted, uint32_t n, const struct json *name)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int c = by_name(sorted[middle], name);
        if (c == 0) return middle;
        if (c < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

static const struct json anything = { .kind = JSON_TRUE };

/* What the object has; sorted: its properties by name. */
static bool read_object(struct writer *w, const struct json *s, struct object *o, const struct json ***sorted)
{
    const struct json *properties = json_member(s, "properties"), *required = json_member(s, "required");
    const struct json *additional = json_member(s, "additionalProperties");
    if (properties && properties->kind != JSON_OBJECT) return schema_fail_word(w, "properties", "is no object");
    if (required && required->kind != JSON_ARRAY) return schema_fail_word(w, "required", "is no list");
    const size_t most = (properties ? properties->n : 0) + (required ? required->n : 0);
    if (most > SCHEMA_MOST_PROPERTIES) return schema_fail(w, NULL, 0, "more than 4096 properties and required names");
    o->property = schema_take(w, (most + 1) * sizeof *o->property);
    o->required = schema_take(w, most + 1);
    *sorted = schema_take(w, (most + 1) * sizeof **sorted);
    bool *wanted = schema_take(w, most + 1);
    if (w->failed) return false;
    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next) (*sorted)[o->n] = o->property[o->n] = p, o->n++;
    const uint32_t n_own = o->n;
    sort_names(*sorted, n_own);
    o->additional = additional ? additional : n_own > 0 ? NULL : &anything;
    if (is_false(additional)) o->additional = NULL;
    for (const struct json *r = required ? required->first : NULL; r; r = r->next) {
        if (r->kind != JSON_STRING) return schema_fail_word(w, "required", "has something that is no text");
        const struct json name = { .name = r->text, .n_name = r->n };
        const int64_t at = find_name(*sorted, n_own, &name);
        if (at >= 0) { wanted[at] = true; continue; }
        if (is_false(additional)) return schema_fail(w, r->text, r->n, "is required, but no property, and others are excluded");
        bool there = false;
        for (uint32_t i = n_own; i < o->n && !there; i++) there = by_name(o->property[i], &name) == 0;
        if (there) continue;
        struct json *p = schema_take(w, sizeof *p);
        if (!p) return false;
        *p = additional ? *additional : anything;
        p->name = r->text;
        p->n_name = r->n;
        o->property[o->n] = p;
        o->required[o->n++] = true;
    }
    for (uint32_t i = 0; i < n_own; i++) o->required[i] = wanted[find_name(*sorted, n_own, o->property[i])];
    memcpy(*sorted, o->property, o->n * sizeof **sorted);
    sort_names(*sorted, o->n);
    return true;
}

static size_t character(const char *p, size_t n)
{
    const uint8_t c = (uint8_t)*p;
    const size_t want = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    return want < n ? want : n;
}

static void put_class_char(struct writer *w, const char *p, size_t n)
{
    if (n == 1 && (*p == ']' || *p == '[' || *p == '^' || *p == '-')) PUT("\\");
    text_out_put(w->out, p, n);
}

static bool is_plain(char c) { return (uint8_t)c >= 0x20 && c != '"' && c != '\\' && c != 0x7f; }

/* Names of additional properties are none of the others: a tree of these, from which a name leaves by a character that none of them has
 * there.  In the tree nothing is escaped, so each name has one spelling. */
struct branch { uint32_t first, last, depth; };              /* names first .. last - 1 begin with the same depth bytes */

/* Behind the names from number i on that have the same `bytes` bytes next. */
static uint32_t branch_end(const struct json **sorted, const struct branch *b, uint32_t i, size_t bytes)
{
    const char *p = sorted[i]->name + b->depth;
    for (uint32_t to = i + 1; to < b->last; to++)
        if (sorted[to]->n_name - b->depth < bytes || memcmp(sorted[to]->name + b->depth, p, bytes) != 0) return to;
    return b->last;
}

static bool put_other_names(struct writer *w, const struct json **sorted, uint32_t n)
{
    size_t most = 1;
    for (uint32_t i = 0; i < n; i++) most += sorted[i]->n_name + 1;
    struct branch *queue = schema_take(w, most * sizeof *queue);
    if (!queue) return false;
    uint32_t n_queue = 1;
    queue[0] = (struct branch){ 0, n, 0 };
    for (uint32_t k = 0; k < n_queue && !w->failed; k++) {
        const struct branch b = queue[k];
        uint32_t first = b.first;
        bool may_end = true;
        PUT("\n");
        schema_put_part(w, "k", k);
        PUT(" ::= ");
        for (; first < b.last && sorted[first]->n_name == b.depth; first++) may_end = false;
        if (may_end) PUT("| ");
        const uint32_t from = first;
        for (uint32_t i = first, to; i < b.last; i = to) {
            const char *p = sorted[i]->name + b.depth;
            const size_t bytes = character(p, sorted[i]->n_name - b.depth);
            to = branch_end(sorted, &b, i, bytes);
            if (!is_plain(*p)) continue;
            PUT("[");
            put_class_char(w, p, bytes);
            PUT("] ");
            schema_put_part(w, "k", n_queue);
            PUT(" | ");
            queue[n_queue++] = (struct branch){ i, to, b.depth + (uint32_t)bytes };
        }
        PUT("[^\"\\\\\\x00-\\x1F\\x7F");
        for (uint32_t i = from, to; i < b.last; i = to) {
            const char *p = sorted[i]->name + b.depth;
            const size_t bytes = character(p, sorted[i]->n_name - b.depth);
            to = branch_end(sorted, &b, i, bytes);
            if (is_plain(*p)) put_class_char(w, p, bytes);
        }
        PUT("] ");
        schema_put_known(w, "char");
        PUT("*");
    }
    return !w->failed;
}

static void put_property(struct writer *w, const struct json *p)
{
    schema_put_literal(w, p, ":");
    PUT(" ");
    schema_put_known(w, "sp");
    PUT(" ");
    schema_put(w, p, w->at, "properties", p->name, p->n_name);
}

static void put_additional(struct writer *w, const struct object *o)
{
    if (o->n == 0) schema_put_known(w, "string");
    else { PUT("\"\\\"\" "); schema_put_part(w, "k", 0); PUT(" \"\\\"\""); }
    PUT(" \":\" ");
    schema_put_known(w, "sp");
    PUT(" ");
    schema_put(w, o->additional, w->at, "additionalProperties", NULL, 0);
}

/* The rules behind the object's own: f I: what comes from property I on while there was none; r I: the same behind others. */
bool schema_put_properties(struct writer *w, const struct json *s)
{
    struct object o = { 0 };
    const struct json **sorted = NULL;
    if (!read_object(w, s, &o, &sorted)) return false;
    bool first = true;                                       /* may all before it be left out? */
    for (uint32_t i = 0; i <= o.n && !w->failed; i++) {
        const bool end = i == o.n;
        if (first) {
            PUT("\n");
            schema_put_part(w, "f", i);
            PUT(" ::= ");
            if (!end) {
                put_property(w, o.property[i]);
                PUT(" ");
                schema_put_part(w, "r", i + 1);
                if (!o.required[i]) { PUT(" | "); schema_put_part(w, "f", i + 1); }
            } else if (o.additional) {
                PUT("(");
                put_additional(w, &o);
                PUT(" ");
                schema_put_part(w, "r", i);
                PUT(")?");
            } else PUT("\"\"");
        }
        if (i > 0 || (end && o.additional)) {
            PUT("\n");
            schema_put_part(w, "r", i);
            PUT(" ::= ");
            if (!end) {
                PUT("(\",\" ");
                schema_put_known(w, "ws");
                PUT(" ");
                put_property(w, o.property[i]);
                put_text(w->out, o.required[i] ? ") " : ")? ");
                schema_put_part(w, "r", i + 1);
            } else {
                if (o.additional) { PUT("(\",\" "); schema_put_known(w, "ws"); PUT(" "); put_additional(w, &o); PUT(")* "); }
                schema_put_known(w, "ws");
            }
        }
        first = first && !end && !o.required[i];
    }
    return !o.additional || o.n == 0 || put_other_names(w, sorted, o.n);
}
