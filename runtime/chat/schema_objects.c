/* schema_objects.c -- objects: members in the schema's order, additional names, optional members, numbers of members. */
#include "schema_writer.h"
#include "pattern.h"

/* Names that are not in `properties`, by the patterns that they match. */
enum { MOST_PATTERNS = 4, MOST_KINDS = 1 << MOST_PATTERNS };
struct names { const struct json *schema; char kind; };      /* the schema of their values; the names' rules are kind0, kind1 ... */

struct object {
    const struct json **property;        /* [n] schemas with their names; names that are only in `required` have the schema of additional
                                          * properties */
    bool     *required;                  /* [n] */
    uint32_t n;
    const struct json *additional;       /* NULL: no additional properties */
    const struct json *patterns, *names; /* patternProperties and propertyNames, NULL: none */
    uint64_t  least, most;               /* numbers of members */
    uint32_t  counted;                   /* members are counted up to this number; 0: not */
    bool      bounded;
    struct names others[MOST_KINDS];
    uint32_t  n_others;
};

static int by_name(const struct json *a, const struct json *b)
{
    const size_t n = a->n_name < b->n_name ? a->n_name : b->n_name;
    const int c = memcmp(a->name, b->name, n);
    return c ? c : a->n_name < b->n_name ? -1 : a->n_name > b->n_name;
}

/* Shell sort. */
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

/* Reads the object's keywords; sorted: its properties by name. */
static bool read_object(struct schema_writer *w, const struct json *s, struct object *o, const struct json ***sorted)
{
    const struct json *properties = json_member(s, "properties"), *required = json_member(s, "required");
    const struct json *additional = json_member(s, "additionalProperties");
    if (properties && properties->kind != JSON_OBJECT) return schema_fail_word(w, "properties", "is not an object");
    if (required && required->kind != JSON_ARRAY) return schema_fail_word(w, "required", "is not an array");
    const size_t most = (properties ? properties->n : 0) + (required ? required->n : 0);
    if (most > SCHEMA_MOST_PROPERTIES) return schema_fail(w, NULL, 0, "there are more than 4096 properties and required names");
    o->property = schema_take(w, (most + 1) * sizeof *o->property);
    o->required = schema_take(w, most + 1);
    *sorted = schema_take(w, (most + 1) * sizeof **sorted);
    bool *wanted = schema_take(w, most + 1);
    if (w->failed) return false;
    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next) (*sorted)[o->n] = o->property[o->n] = p, o->n++;
    const uint32_t n_own = o->n;
    sort_names(*sorted, n_own);
    o->additional = additional ? additional : n_own > 0 || o->patterns ? NULL : &anything;
    if (is_false(additional)) o->additional = NULL;
    for (const struct json *r = required ? required->first : NULL; r; r = r->next) {
        if (r->kind != JSON_STRING) return schema_fail_word(w, "required", "has an item that is not a string");
        const struct json name = { .name = r->text, .n_name = r->n };
        const int64_t at = find_name(*sorted, n_own, &name);
        if (at >= 0) { wanted[at] = true; continue; }
        if (is_false(additional) && !o->patterns)
            return schema_fail(w, r->text, r->n, "is required but is not among the properties, and no others are allowed");
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

static void put_class_char(struct schema_writer *w, const char *p, size_t n)
{
    if (n == 1 && (*p == ']' || *p == '[' || *p == '^' || *p == '-')) PUT("\\");
    text_out_put(w->out, p, n);
}

static bool is_plain(char c) { return (uint8_t)c >= 0x20 && c != '"' && c != '\\'; }

/* The names of additional properties must differ from all others.  They are a tree of the other names, which a name leaves at the first
 * character that none of these has at that place.  Nothing in the tree is escaped, so each name has one spelling. */
struct branch { uint32_t first, last, depth; };              /* names first .. last - 1 begin with the same `depth` bytes */

/* The end of the names from number i on that have the same next `bytes` bytes. */
static uint32_t branch_end(const struct json **sorted, const struct branch *b, uint32_t i, size_t bytes)
{
    const char *p = sorted[i]->name + b->depth;
    for (uint32_t to = i + 1; to < b->last; to++)
        if (sorted[to]->n_name - b->depth < bytes || memcmp(sorted[to]->name + b->depth, p, bytes) != 0) return to;
    return b->last;
}

static bool put_other_names(struct schema_writer *w, const struct json **sorted, uint32_t n)
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
        PUT("[^\"\\\\\\x00-\\x1F");
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

/* The regular expression of a member of patternProperties. */
static struct texts_node *name_pattern(struct schema_writer *w, struct texts *t, const struct json *p)
{
    const char *why = NULL;
    struct texts_node *x = pattern_texts(t, p->name, p->n_name, &why);
    if (!x) schema_fail_soft(w, "patternProperties", why);
    return x;
}

/* a and b, where either may be NULL: anything. */
static const struct json *both(struct schema_writer *w, const struct json *a, const struct json *b)
{
    struct json *list = schema_json(w, JSON_ARRAY), *all = schema_json(w, JSON_OBJECT);
    if (!a || !b) return a ? a : b;
    if (!list || !all || !schema_add(w, list, a, NULL, 0) || !schema_add(w, list, b, NULL, 0) || !schema_add(w, all, list, "allOf", 5))
        return NULL;
    return all;
}

/* Properties that match a pattern of patternProperties must satisfy its schema, too; a name that is only required then has no other. */
static bool match_properties(struct schema_writer *w, struct object *o, uint32_t n_own, const struct json *additional)
{
    for (uint32_t i = 0; i < o->n && !w->failed; i++) {
        struct json *own = NULL;
        bool matched = false;
        for (const struct json *p = o->patterns->first; p && !w->failed; p = p->next) {
            struct texts t;
            const size_t mark = w->room->used;
            struct texts_node *x = texts_open(&t, w->room, w->work) || schema_no_texts(w, "patternProperties") ? name_pattern(w, &t,
                p) : NULL;
            const bool matches = x && texts_have(&t, x, o->property[i]->name, o->property[i]->n_name);
            w->room->used = mark;
            if (!matches) continue;
            const struct json *all = i < n_own || matched ? both(w, o->property[i], p) : p;
            if (!(own = schema_take(w, sizeof *own)) || !all) return false;
            *own = *all;
            own->name = o->property[i]->name;
            own->n_name = o->property[i]->n_name;
            o->property[i] = own;
            matched = true;
        }
        if (!matched && i >= n_own && is_false(additional))
            return schema_fail(w, o->property[i]->name, o->property[i]->n_name,
                               "is required but is not among the properties, and no others are allowed");
    }
    return !w->failed;
}

/* Writes the rules of names that are in none of properties and match exactly the patterns whose bits are set. */
static bool put_names(struct schema_writer *w, struct object *o, uint32_t bits, const struct json *schema)
{
    struct texts t;
    const size_t mark = w->room->used;
    uint32_t bit = 0;
    char name[64], kind[2] = { (char)('A' + o->n_others), 0 };
    struct text_out part = { name, sizeof name - 1, 0, false }, *const out = w->out;
    const struct texts_out to = { out, w->prefix, "char" };
    if (!texts_open(&t, w->room, w->work)) return schema_no_texts(w, o->patterns ? "patternProperties" : "propertyNames");
    struct texts_node *all = t.all;
    if (o->names && !is_anything(o->names) && !schema_string_texts(w, &t, o->names, &all)) return false;
    for (uint32_t i = 0; i < o->n; i++)
        all = texts_and(&t, all, texts_not(&t, texts_literal(&t, o->property[i]->name, o->property[i]->n_name)));
    for (const struct json *p = o->patterns ? o->patterns->first : NULL; p; p = p->next, bit++) {
        struct texts_node *x = name_pattern(w, &t, p);
        if (!x) return false;
        all = texts_and(&t, all, bits >> bit & 1 ? x : texts_not(&t, x));
    }
    const struct texts_automaton *a = texts_automaton(&t, all);
    if (!a) return schema_fail_soft(w, o->patterns ? "patternProperties" : "propertyNames", "is too large");
    if (!texts_no_text(a)) {
        w->out = &part;
        schema_put_part(w, kind, 0);
        w->out = out;
        name[--part.n] = 0;                                  /* without the 0 */
        texts_put_rules(&t, a, &to, name);
        o->others[o->n_others++] = (struct names){ schema, *kind };
    }
    w->room->used = mark;
    return true;
}

/* All names that are not in properties: for each set of patterns that a name can match, its values' schema. */
static bool put_other_kinds(struct schema_writer *w, struct object *o)
{
    const uint32_t n = o->patterns ? (uint32_t)o->patterns->n : 0;
    if (n > MOST_PATTERNS) return schema_fail_soft(w, "patternProperties", "has more than four patterns");
    for (uint32_t bits = 0; bits < 1u << n; bits++) {
        const struct json *schema = bits ? NULL : o->additional, *p = n ? o->patterns->first : NULL;
        if (!bits && !schema) continue;
        for (uint32_t i = 0; i < n; i++, p = p->next) if (bits >> i & 1 && !(schema = both(w, schema, p))) return false;
        if (!is_false(schema) && !put_names(w, o, bits, schema)) return false;
    }
    return true;
}

static void put_property(struct schema_writer *w, const struct json *p)
{
    schema_put_literal(w, p, ":");
    PUT(" ");
    schema_put_known(w, "sp");
    PUT(" ");
    schema_put(w, p, w->at, "properties", p->name, p->n_name);
}

/* A member whose name is not in properties. */
static void put_other(struct schema_writer *w, const struct object *o)
{
    PUT("(");
    for (uint32_t i = 0; i < o->n_others; i++) {
        const char kind[2] = { o->others[i].kind, 0 };
        if (i > 0) PUT(" | ");
        if (!*kind) schema_put_known(w, "string");
        else { PUT("\"\\\"\" "); schema_put_part(w, kind, 0); PUT(" \"\\\"\""); }
        PUT(" \":\" ");
        schema_put_known(w, "sp");
        PUT(" ");
        schema_put(w, o->others[i].schema, w->at, "additionalProperties", NULL, 0);
    }
    PUT(")");
}

/* Writes the name of f I or r I after `count` members. */
static void put_member_rule(struct schema_writer *w, const struct object *o, const char *kind, uint32_t i, uint32_t count)
{
    if (count > o->counted) count = o->counted;
    schema_put_part(w, kind, o->counted ? i * (o->counted + 1) + count : i);
}

static void put_comma(struct schema_writer *w)
{
    PUT("\",\" ");
    schema_put_known(w, "ws");
    PUT(" ");
}

/* The members from property i on if none came before. */
static void put_first(struct schema_writer *w, const struct object *o, uint32_t i)
{
    PUT("\n");
    put_member_rule(w, o, "f", i, 0);
    PUT(" ::= ");
    const bool room = !o->bounded || o->most > 0, may_lack = i < o->n ? !o->required[i] : o->least == 0;
    const bool more = room && (i < o->n || o->n_others > 0);
    if (more && i < o->n) put_property(w, o->property[i]);
    else if (more) put_other(w, o);
    if (more) {
        PUT(" ");
        put_member_rule(w, o, "r", i < o->n ? i + 1 : i, 1);
    }
    if (more && may_lack) PUT(" | ");
    if (!more && !may_lack) PUT("[]");
    if (may_lack && i < o->n) put_member_rule(w, o, "f", i + 1, 0);
    else if (may_lack) PUT("\"\"");
}

/* The same after `count` members. */
static void put_next(struct schema_writer *w, const struct object *o, uint32_t i, uint32_t count)
{
    const bool room = !o->bounded || count < o->most;
    PUT("\n");
    put_member_rule(w, o, "r", i, count);
    PUT(" ::= ");
    if (i < o->n && !o->counted) {
        PUT("(");
        put_comma(w);
        put_property(w, o->property[i]);
        put_text(w->out, o->required[i] ? ") " : ")? ");
        put_member_rule(w, o, "r", i + 1, count);
    } else if (i < o->n) {
        if (room) {
            put_comma(w);
            put_property(w, o->property[i]);
            PUT(" ");
            put_member_rule(w, o, "r", i + 1, count + 1);
        } else if (o->required[i]) PUT("[]");
        if (o->required[i]) return;
        if (room) PUT(" | ");
        put_member_rule(w, o, "r", i + 1, count);
    } else if (!o->counted) {
        if (o->n_others > 0) { PUT("("); put_comma(w); put_other(w, o); PUT(")* "); }
        schema_put_known(w, "ws");
    } else {
        const bool more = room && o->n_others > 0;
        if (count >= o->least) schema_put_known(w, "ws");
        if (count >= o->least && more) PUT(" | ");
        if (more) {
            put_comma(w);
            put_other(w, o);
            PUT(" ");
            put_member_rule(w, o, "r", i, count + 1);
        }
        if (!more && count < o->least) PUT("[]");
    }
}

static bool read_counts(struct schema_writer *w, const struct json *s, struct object *o)
{
    uint64_t required = 0;
    if (!schema_lengths(w, s, "minProperties", "maxProperties", &o->least, &o->most, &o->bounded)) return false;
    for (uint32_t i = 0; i < o->n; i++) required += o->required[i];
    if (o->least <= required) o->least = 0;
    if (o->bounded && !o->additional && !o->patterns && o->most >= o->n) o->bounded = false;
    const uint64_t most = o->bounded ? o->most : o->least;
    if (most > SCHEMA_MOST_COUNTED || most * (o->n + 1) > SCHEMA_MOST_RULES)
        return schema_fail_soft(w, o->bounded ? "maxProperties" : "minProperties", "is too large");
    o->counted = o->least > 0 || o->bounded ? (uint32_t)(most > 0 ? most : 1) : 0;
    return true;
}

/* propertyNames without what every name satisfies; NULL: an error. */
static const struct json *narrow_names(struct schema_writer *w, const struct json *names)
{
    const struct json *s = schema_whole(w, names);
    if (!s || is_anything(s)) return s;
    if (s->kind != JSON_OBJECT || json_member(s, "anyOf") || json_member(s, "oneOf") || json_member(s, "not")) {
        schema_fail_soft(w, "propertyNames", "is not enforced in this form");
        return NULL;
    }
    for (const struct json *m = s->first; m; m = m->next)
        if (!named(m, "type") && schema_kind_of(m) != ANNOTATION) return s;
    return &anything;
}

/* f I: the members from property I on if no member came before; r I: the same after other members, which are counted if need be. */
bool schema_object_rules(struct schema_writer *w, const struct json *s)
{
    struct object o = { .patterns = json_member(s, "patternProperties"), .names = json_member(s, "propertyNames") };
    const struct json **sorted = NULL;
    if (o.patterns && o.patterns->kind != JSON_OBJECT) return schema_fail_word(w, "patternProperties", "is not an object");
    if (o.patterns && o.patterns->n == 0) o.patterns = NULL;
    if (!read_object(w, s, &o, &sorted)) return false;
    const struct json *properties = json_member(s, "properties");
    if (o.patterns && !match_properties(w, &o, properties ? (uint32_t)properties->n : 0, json_member(s,
        "additionalProperties"))) return false;
    if (!read_counts(w, s, &o)) return false;
    if (o.names && !(o.names = narrow_names(w, o.names))) return false;
    if (o.patterns || (o.names && !is_anything(o.names))) {
        if (!put_other_kinds(w, &o)) return false;
    } else if (o.additional) {
        o.others[o.n_others++] = (struct names){ o.additional, o.n > 0 ? 'k' : 0 };
        if (o.n > 0 && !put_other_names(w, sorted, o.n)) return false;
    }
    bool first = true;                                       /* may all properties before it be absent? */
    for (uint32_t i = 0; i <= o.n && !w->failed; i++) {
        if (first) put_first(w, &o, i);
        for (uint32_t count = 1; count <= (o.counted ? o.counted : 1) && !w->failed; count++)
            if (i > 0 || (i == o.n && o.n_others > 0)) put_next(w, &o, i, count);
        first = first && i < o.n && !o.required[i];
    }
    return !w->failed;
}
