/* value.c -- values of templates: see value.h.  Refusals and printed forms follow Python. */
#include "value.h"
#include "runtime/text/unicode.h"

/* ---- failing ---- */

bool fail_text(struct render *r, enum chat_fault fault, const char *text)
{
    if (r->failed) return false;
    r->failed = true;
    struct chat_error *e = r->error;
    *e = (struct chat_error){ .fault = fault, .line = r->line };
    size_t n = text_bytes(text);
    if (n > sizeof e->text - 1) n = sizeof e->text - 1;
    memcpy(e->text, text, n);
    return false;
}

bool fail_with(struct render *r, const char *format, const char *a, const char *b)
{
    char text[sizeof r->error->text];
    struct text_out t = { text, sizeof text - 1, 0, false };
    for (const char *p = format; *p; p++) {
        if (p[0] != '%' || p[1] != 's') { text_out_char(&t, *p); continue; }
        size_t n = text_bytes(a);
        text_out_put(&t, a, n < 100 ? n : 100);
        a = b;
        p++;
    }
    text[t.n] = 0;
    return fail_text(r, CHAT_REFUSED, text);
}

bool fail_room(struct render *r) { return fail_text(r, CHAT_NO_ROOM, "the memory for the template is too small for this conversation"); }

bool charge(struct render *r, size_t n)
{
    if (r->steps < n) {
        r->steps = 0;
        return fail_text(r, CHAT_LIMIT, "the template takes more steps than are allowed");
    }
    r->steps -= n;
    return true;
}

bool deeper(struct render *r)
{
    if (++r->depth <= r->most_depth) return true;
    return fail_text(r, CHAT_LIMIT, "the template is nested too deeply: macros that call themselves, or values in values");
}

static void *take(struct render *r, size_t n)
{
    void *p = room_take(r->room, n);
    if (!p) fail_room(r);
    return p;
}

/* ---- making values ---- */

struct value image_string(const struct render *r, uint32_t id) { return string_value(r->text + r->strings[id].offset, r->strings[id].n); }

bool string_is(const struct value *v, const char *text)
{
    if (v->kind != STRING) return false;
    for (size_t i = 0; i < v->n; i++) if (!text[i] || v->text[i] != text[i]) return false;
    return !text[v->n];
}

const char *kind_name(const struct value *v)
{
    switch ((enum kind)v->kind) {
    case UNDEFINED: return "Undefined";
    case NONE: return "NoneType";
    case BOOL: return "bool";
    case INT: case BIG: return "int";
    case FLOAT: return "float";
    case STRING: return v->safe ? "Markup" : "str";
    case LIST: return "list";
    case TUPLE: return "tuple";
    case LAZY: return "generator";
    case VIEW: return v->id == VIEW_ITEMS ? "dict_items" : v->id == VIEW_KEYS ? "dict_keys" : "dict_values";
    case DICT: return "dict";
    case NAMESPACE: return "Namespace";
    case RANGE: return "range";
    case LOOP: return "LoopContext";
    case MACRO: return "Macro";
    case FUNCTION: return "function";
    case METHOD: return "builtin_function_or_method";
    case JOINER: return "Joiner";
    }
    return "object";
}

bool list_new(struct render *r, size_t most, struct list **out)
{
    struct list *l = take(r, sizeof *l);
    if (!l) return false;
    *l = (struct list){ .most = most };
    if (most && !(l->items = room_array(r->room, most, sizeof *l->items))) return fail_room(r);
    *out = l;
    return true;
}

bool list_add(struct render *r, struct list *l, struct value v)
{
    if (l->n == l->most) {
        const size_t most = l->most ? 2 * l->most : 8;
        struct value *items = room_array(r->room, most, sizeof *items);
        if (!items) return fail_room(r);
        if (l->n) memcpy(items, l->items, l->n * sizeof *items);
        l->items = items;
        l->most = most;
    }
    l->items[l->n++] = v;
    return true;
}

bool dict_new(struct render *r, size_t most, struct dict **out)
{
    struct dict *d = take(r, sizeof *d);
    if (!d) return false;
    *d = (struct dict){ .most = most };
    if (most && !(d->pairs = room_array(r->room, most, sizeof *d->pairs))) return fail_room(r);
    *out = d;
    return true;
}

/* The number of first bytes in which two texts are equal. */
static size_t texts_common(const struct value *a, const struct value *b)
{
    const size_t most = a->n < b->n ? a->n : b->n;
    size_t n = 0;
    while (n < most && a->text[n] == b->text[n]) n++;
    return n;
}

static bool texts_equal(struct render *r, const struct value *a, const struct value *b, bool *out)
{
    *out = false;
    if (a->n != b->n) return true;
    const size_t common = texts_common(a, b);
    *out = common == a->n;
    return charge_bytes(r, common);
}

struct value *dict_find(struct render *r, const struct dict *d, const struct value *key)
{
    if (!charge(r, d->n / 8)) return NULL;
    for (size_t i = 0; i < d->n; i++) {
        struct pair *p = &d->pairs[i];
        bool same;
        if (!(key->kind == STRING && p->key.kind == STRING ? texts_equal : values_equal)(r, key, &p->key, &same)) return NULL;
        if (same) return &p->value;
    }
    return NULL;
}

static bool is_hashable(struct render *r, const struct value *v, bool *out)
{
    *out = v->kind != LIST && v->kind != DICT;
    if (v->kind != TUPLE) return true;
    if (!charge(r, 1) || !deeper(r)) return false;
    for (size_t i = 0; i < v->list->n && *out; i++) if (!charge(r, 1) || !is_hashable(r, &v->list->items[i], out)) return false;
    r->depth--;
    return true;
}

bool check_hashable(struct render *r, const struct value *v)
{
    bool fine;
    return is_hashable(r, v, &fine) && (fine || fail_with(r, "unhashable type: '%s'", kind_name(v), ""));
}

bool dict_set(struct render *r, struct dict *d, struct value key, struct value v)
{
    if (!check_hashable(r, &key)) return false;
    struct value *old = dict_find(r, d, &key);
    if (r->failed) return false;
    if (old) { *old = v; return true; }
    if (d->n == d->most) {
        const size_t most = d->most ? 2 * d->most : 8;
        struct pair *pairs = room_array(r->room, most, sizeof *pairs);
        if (!pairs) return fail_room(r);
        if (d->n) memcpy(pairs, d->pairs, d->n * sizeof *pairs);
        d->pairs = pairs;
        d->most = most;
    }
    d->pairs[d->n++] = (struct pair){ key, v };
    return true;
}

static struct value input_string(const char *text, size_t n)
{
    return (struct value){ .kind = STRING, .from = FROM_INPUT, .text = text, .n = n };
}

static bool json_number(struct render *r, const struct json *j, struct value *out)
{
    int64_t i;
    if (!charge_letters(r, j->n)) return false;
    if (json_integer(j, INT64_MIN, INT64_MAX, &i)) { *out = int_value(i); return true; }
    *out = (struct value){ .kind = BIG, .text = j->text, .n = j->n };
    for (size_t k = 0; k < j->n; k++)
        if (j->text[k] == '.' || j->text[k] == 'e' || j->text[k] == 'E') {
            *out = float_value(number_read(j->text, j->n));
            return charge(r, NUMBER_STEPS);
        }
    return true;
}

bool json_to_value(struct render *r, const struct json *j, struct value *out)
{
    if (!charge(r, 1)) return false;
    switch (j->kind) {
    case JSON_NULL: *out = none_value(); return true;
    case JSON_FALSE: *out = bool_value(false); return true;
    case JSON_TRUE: *out = bool_value(true); return true;
    case JSON_NUMBER: return json_number(r, j, out);
    case JSON_STRING: *out = input_string(j->text, j->n); return true;
    case JSON_ARRAY: case JSON_OBJECT: break;
    }
    if (!deeper(r)) return false;
    struct list *l = NULL;
    struct dict *d = NULL;
    if (j->kind == JSON_ARRAY ? !list_new(r, j->n, &l) : !dict_new(r, j->n, &d)) return false;
    for (const struct json *m = j->first; m; m = m->next) {
        struct value v;
        if (!json_to_value(r, m, &v)) return false;
        if (l) l->items[l->n++] = v;
        else d->pairs[d->n++] = (struct pair){ input_string(m->name, m->n_name), v };
    }
    r->depth--;
    if (l) { l->input = true; *out = list_value(l, LIST); }
    else { d->input = true; *out = (struct value){ .kind = DICT, .dict = d }; }
    return true;
}

/* ---- properties of values ---- */

double number_of(struct render *r, const struct value *v)
{
    if (v->kind == FLOAT) return v->f;
    if (v->kind != BIG) return (double)integer_of(v);
    return charge_letters(r, v->n) && charge(r, NUMBER_STEPS) ? number_read(v->text, v->n) : 0;
}

bool float_to_integer(struct render *r, double f, struct value *out)
{
    char text[NUMBER_BYTES];
    if (f - f != 0) return false;
    if (f >= -9223372036854775808.0 && f < 9223372036854775808.0) { *out = int_value((int64_t)f); return true; }
    const size_t n = number_fixed(f, 0, text);                 /* has no fraction */
    char *copy = charge(r, DIGITS_STEPS) ? take(r, n) : NULL;
    if (!copy) return false;
    memcpy(copy, text, n);
    *out = (struct value){ .kind = BIG, .text = copy, .n = n };
    return true;
}

bool truth_of(const struct value *v)
{
    switch ((enum kind)v->kind) {
    case UNDEFINED: case NONE: return false;
    case BOOL: return v->b;
    case INT: return v->i != 0;
    case FLOAT: return v->f != 0;
    case STRING: return v->n > 0;
    case LIST: case TUPLE: case VIEW: return v->list->n > 0;
    case DICT: return v->dict->n > 0;
    case RANGE: return v->range->n > 0;
    case BIG: case LAZY: case NAMESPACE: case LOOP: case MACRO: case FUNCTION: case METHOD: case JOINER: return true;
    }
    return true;
}

static bool lists_equal(struct render *r, const struct list *a, const struct list *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && i < b->n && *out; i++)
        if (!values_equal(r, &a->items[i], &b->items[i], out)) return false;
    return true;
}

static bool dicts_equal(struct render *r, const struct dict *a, const struct dict *b, bool *out)
{
    *out = a->n == b->n;
    for (size_t i = 0; i < a->n && *out; i++) {
        const struct value *v = dict_find(r, b, &a->pairs[i].key);
        if (r->failed) return false;
        *out = v != NULL;
        if (v && !values_equal(r, &a->pairs[i].value, v, out)) return false;
    }
    return true;
}

bool values_equal(struct render *r, const struct value *a, const struct value *b, bool *out)
{
    if (!charge(r, 1)) return false;
    if (is_number(a) && is_number(b)) {
        if (is_integer(a) && is_integer(b)) *out = integer_of(a) == integer_of(b);
        else if (a->kind == BIG && b->kind == BIG) return texts_equal(r, a, b, out);
        else *out = (a->kind == FLOAT || b->kind == FLOAT) && number_of(r, a) == number_of(r, b);
        return !r->failed;
    }
    *out = false;
    if (a->kind != b->kind) return true;
    bool fine = true;
    switch ((enum kind)a->kind) {
    case UNDEFINED: case NONE: *out = true; return true;
    case STRING: return texts_equal(r, a, b, out);
    case LIST: case TUPLE: case VIEW:
        if (!deeper(r)) return false;
        fine = lists_equal(r, a->list, b->list, out);
        r->depth--;
        return fine;
    case DICT:
        if (!deeper(r)) return false;
        fine = dicts_equal(r, a->dict, b->dict, out);
        r->depth--;
        return fine;
    case RANGE:
        *out = a->range->n == b->range->n && (a->range->n == 0 || (a->range->start == b->range->start &&
                                                                  (a->range->n == 1 || a->range->step == b->range->step)));
        return true;
    case FUNCTION: *out = a->id == b->id; return true;
    case METHOD: *out = a->method == b->method; return true;
    default: *out = a->list == b->list; return true;         /* the same object */
    }
}

static int texts_order(struct render *r, const struct value *a, const struct value *b)
{
    const size_t n = texts_common(a, b);
    if (!charge_bytes(r, n)) return 0;
    if (n < a->n && n < b->n) return (uint8_t)a->text[n] < (uint8_t)b->text[n] ? -1 : 1;
    return (a->n > b->n) - (a->n < b->n);
}

static int big_sign(const struct value *v) { return v->kind != BIG ? 0 : v->text[0] == '-' ? -1 : 1; }

static int numbers_order(struct render *r, const struct value *a, const struct value *b)
{
    if (a->kind != FLOAT && b->kind != FLOAT) {
        const int x = big_sign(a), y = big_sign(b);
        if (!x && !y) return (integer_of(a) > integer_of(b)) - (integer_of(a) < integer_of(b));
        if (x != y) return x - y;
        return x * (a->n != b->n ? (a->n > b->n) - (a->n < b->n) : texts_order(r, a, b));
    }
    const double x = number_of(r, a), y = number_of(r, b);
    return (x > y) - (x < y);
}

bool values_order(struct render *r, const struct value *a, const struct value *b, const char *op, int *out)
{
    if (!charge(r, 1)) return false;
    if (is_number(a) && is_number(b)) { *out = numbers_order(r, a, b); return !r->failed; }
    if (a->kind == STRING && b->kind == STRING) { *out = texts_order(r, a, b); return !r->failed; }
    if (a->kind == UNDEFINED || b->kind == UNDEFINED) return fail_with(r, "an undefined value is compared by %s", op, "");
    if (a->kind != b->kind || (a->kind != LIST && a->kind != TUPLE)) {
        char text[160];
        struct text_out t = { text, sizeof text - 1, 0, false };
        TEXT_OUT_WORDS(&t, "'");
        text_out_put(&t, op, text_bytes(op));
        TEXT_OUT_WORDS(&t, "' is not supported between '%s' and '%s'");
        text[t.n] = 0;
        return fail_with(r, text, kind_name(a), kind_name(b));
    }
    if (!deeper(r)) return false;
    *out = 0;
    for (size_t i = 0; i < a->list->n && i < b->list->n; i++) {
        bool same;
        if (!values_equal(r, &a->list->items[i], &b->list->items[i], &same)) return false;
        if (same) continue;
        const bool fine = values_order(r, &a->list->items[i], &b->list->items[i], op, out);
        r->depth--;
        return fine;
    }
    r->depth--;
    *out = (a->list->n > b->list->n) - (a->list->n < b->list->n);
    return true;
}

bool value_in(struct render *r, const struct value *v, const struct value *container, bool *out)
{
    struct value c = *container;
    const struct list *l;
    size_t at;
    *out = false;
    switch ((enum kind)c.kind) {
    case STRING:
        if (v->kind != STRING) return fail_with(r, "'in' of text needs text on its left, not '%s'", kind_name(v), "");
        *out = string_find(r, &c, v, 0, &at);
        return !r->failed;
    case DICT:
        if (!check_hashable(r, v)) return false;
        *out = dict_find(r, c.dict, v) != NULL;
        return !r->failed;
    case UNDEFINED: return true;
    case LIST: case TUPLE: case LAZY: case VIEW: case RANGE:
        if (!items_of(r, &c, &l)) return false;
        for (size_t i = 0; i < l->n && !*out; i++) if (!values_equal(r, v, &l->items[i], out)) return false;
        return true;
    default: return fail_with(r, "'in' cannot look into '%s'", kind_name(container), "");
    }
}

/* ---- contents of values ---- */

static bool list_of_characters(struct render *r, const struct value *s, struct list **out)
{
    if (!charge(r, s->n) || !list_new(r, text_codepoints(s->text, s->n), out)) return false;
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        struct value *const c = &(*out)->items[(*out)->n++];
        *c = string_part(s, at, step);
        c->safe = 0;
    }
    return true;
}

bool items_of(struct render *r, struct value *v, const struct list **out)
{
    struct list *l = NULL;
    switch ((enum kind)v->kind) {
    case LIST: case TUPLE: case VIEW: *out = v->list; return true;
    case LAZY:
        if (!list_new(r, 0, &l)) return false;
        *l = *v->list;
        v->list->n = v->list->most = 0;
        v->list->items = NULL;
        break;
    case DICT:
        if (!list_new(r, v->dict->n, &l) || !charge(r, v->dict->n)) return false;
        for (size_t i = 0; i < v->dict->n; i++) l->items[l->n++] = v->dict->pairs[i].key;
        break;
    case STRING: if (!list_of_characters(r, v, &l)) return false; break;
    case RANGE:
        if (!charge(r, v->range->n) || !list_new(r, (size_t)v->range->n, &l)) return false;
        for (uint64_t i = 0; i < v->range->n; i++) l->items[l->n++] = int_value(v->range->start + (int64_t)i * v->range->step);
        break;
    case UNDEFINED: if (!list_new(r, 0, &l)) return false; break;
    default: return fail_with(r, "'%s' object is not iterable", kind_name(v), "");
    }
    *out = l;
    return true;
}

bool value_length(struct render *r, const struct value *v, size_t *out)
{
    switch ((enum kind)v->kind) {
    case STRING: *out = text_codepoints(v->text, v->n); return charge_letters(r, v->n);
    case LIST: case TUPLE: case VIEW: *out = v->list->n; return true;
    case DICT: *out = v->dict->n; return true;
    case RANGE: *out = (size_t)v->range->n; return true;
    case UNDEFINED: *out = 0; return true;
    case LOOP: *out = v->loop->items->n; return true;
    default: return fail_with(r, "object of type '%s' has no length", kind_name(v), "");
    }
}

/* Resolves an index, which may count from the end; false: out of range. */
static bool index_in(int64_t i, size_t n, size_t *out)
{
    if (i < 0) i += (int64_t)n;
    if (i < 0 || (uint64_t)i >= n) return false;
    *out = (size_t)i;
    return true;
}

static bool loop_attribute(struct render *r, const struct loop *l, const struct value *name, struct value *out)
{
    const int64_t n = (int64_t)l->items->n, at = (int64_t)l->at;
    *out = undefined_value(CHAT_NONE);
    if (string_is(name, "index")) *out = int_value(at + 1);
    else if (string_is(name, "index0")) *out = int_value(at);
    else if (string_is(name, "first")) *out = bool_value(at == 0);
    else if (string_is(name, "last")) *out = bool_value(at + 1 >= n);
    else if (string_is(name, "length")) *out = int_value(n);
    else if (string_is(name, "revindex")) *out = int_value(n - at);
    else if (string_is(name, "revindex0")) *out = int_value(n - at - 1);
    else if (string_is(name, "depth")) *out = int_value((int64_t)l->depth);
    else if (string_is(name, "depth0")) *out = int_value((int64_t)l->depth - 1);
    else if (string_is(name, "previtem") && at > 0) *out = l->items->items[at - 1];
    else if (string_is(name, "nextitem") && at + 1 < n) *out = l->items->items[at + 1];
    return !r->failed;
}

static bool attribute_of(struct render *r, struct value *v, const struct value *name, struct value *out)
{
    uint32_t id;
    if (method_find(v, name, &id)) {
        struct method *m = take(r, sizeof *m);
        if (!m) return false;
        *m = (struct method){ *v, id };
        *out = (struct value){ .kind = METHOD, .method = m };
        return true;
    }
    if (v->kind == NAMESPACE) {
        const struct value *found = dict_find(r, v->dict, name);
        if (found) *out = *found;
        return !r->failed;
    }
    if (v->kind == LOOP) return loop_attribute(r, v->loop, name, out);
    if (v->kind == MACRO && string_is(name, "name") && r->lists[r->nodes[v->macro->node].a] != CHAT_NONE)
        *out = image_string(r, r->lists[r->nodes[v->macro->node].a]);
    return true;
}

bool fail_undefined(struct render *r, const struct value *v)
{
    if (v->id == CHAT_NONE) return fail_text(r, CHAT_REFUSED, "the template uses an undefined value");
    char name[80];
    const struct value s = image_string(r, v->id);
    const size_t n = s.n < sizeof name - 1 ? s.n : sizeof name - 1;
    memcpy(name, s.text, n);
    name[n] = 0;
    return fail_with(r, "'%s' is undefined", name, "");
}

bool value_attribute(struct render *r, struct value *v, const struct value *name, uint32_t name_id, struct value *out)
{
    if (v->kind == UNDEFINED) return fail_undefined(r, v);
    *out = undefined_value(name_id);
    if (!attribute_of(r, v, name, out)) return false;
    if (out->kind != UNDEFINED || v->kind != DICT) return true;
    const struct value *found = dict_find(r, v->dict, name);
    if (found) *out = *found;
    return !r->failed;
}

bool value_item(struct render *r, struct value *v, const struct value *index, struct value *out)
{
    size_t at;
    bool hashable;
    *out = undefined_value(CHAT_NONE);
    if (v->kind == UNDEFINED) return fail_undefined(r, v);
    if (!is_hashable(r, index, &hashable)) return false;
    if (v->kind == DICT && hashable) {
        const struct value *found = dict_find(r, v->dict, index);
        if (r->failed) return false;
        if (found) { *out = *found; return true; }
    } else if (is_integer(index)) {
        if ((v->kind == LIST || v->kind == TUPLE) && index_in(integer_of(index), v->list->n, &at)) *out = v->list->items[at];
        if (v->kind == RANGE && index_in(integer_of(index), (size_t)v->range->n, &at))
            *out = int_value(v->range->start + (int64_t)at * v->range->step);
        if (v->kind == STRING) {
            if (!charge_letters(r, v->n)) return false;
            if (index_in(integer_of(index), text_codepoints(v->text, v->n), &at)) {
                const size_t begin = text_offset(v->text, v->n, at);
                *out = string_part(v, begin, text_step(v->text + begin, v->n - begin));
            }
        }
        return true;
    }
    return index->kind == STRING ? attribute_of(r, v, index, out) : true;
}

/* One bound of a slice, limited to low .. high; `otherwise` if it is not given. */
static bool slice_bound(struct render *r, const struct value *v, int64_t n, int64_t low, int64_t high, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (v->kind == NONE) return true;
    if (!is_integer(v)) return fail_with(r, "slice indices must be integers or None, not '%s'", kind_name(v), "");
    int64_t i = integer_of(v);
    if (i < 0) i += n;
    *out = i < low ? low : i > high ? high : i;
    return true;
}

bool value_slice(struct render *r, const struct value *v, const struct value part[3], struct value *out)
{
    int64_t step = 1, from, to;
    size_t length;
    if (v->kind == UNDEFINED) return fail_undefined(r, v);
    if (v->kind != STRING && v->kind != LIST && v->kind != TUPLE && v->kind != RANGE)
        return fail_with(r, "'%s' object has no slices", kind_name(v), "");
    struct value whole = *v;
    if (!value_length(r, v, &length)) return false;
    const int64_t n = (int64_t)length;
    if (part[2].kind != NONE) {
        if (!is_integer(&part[2])) return fail_with(r, "slice indices must be integers or None, not '%s'", kind_name(&part[2]), "");
        step = integer_of(&part[2]);
        if (step == 0) return fail_text(r, CHAT_REFUSED, "the step of a slice is zero");
        if (step > n) step = n + 1;
        if (step < -n) step = -n - 1;
    }
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    if (!slice_bound(r, &part[0], n, low, high, step < 0 ? high : low, &from)) return false;
    if (!slice_bound(r, &part[1], n, low, high, step < 0 ? low : high, &to)) return false;
    if (v->kind == STRING && step == 1) {
        if (!charge_letters(r, v->n)) return false;
        const size_t begin = text_offset(v->text, v->n, (size_t)from);
        *out = string_part(v, begin, to > from ? text_offset(v->text + begin, v->n - begin, (size_t)(to - from)) : 0);
        return true;
    }
    const struct list *items;
    struct list *l;
    if (!items_of(r, &whole, &items) || !list_new(r, 0, &l)) return false;
    for (int64_t i = from; step < 0 ? i > to : i < to; i += step) if (!charge(r, 1) || !list_add(r, l, items->items[i])) return false;
    *out = list_value(l, v->kind == TUPLE ? TUPLE : LIST);
    if (v->kind != STRING) return true;
    const struct value nothing = { .kind = STRING, .safe = v->safe, .text = "" };
    return string_join(r, &nothing, l, false, out);
}

/* ---- sorting: merges, stable ---- */

struct sorted { struct value item, key; };

static bool merge(struct render *r, struct sorted *to, const struct sorted *a, size_t n, const struct sorted *b, size_t m, bool reverse)
{
    while (n > 0 && m > 0) {
        int order;
        if (!values_order(r, &b->key, &a->key, "<", &order)) return false;
        if (reverse ? order > 0 : order < 0) { *to++ = *b++; m--; }
        else { *to++ = *a++; n--; }
    }
    if (n) memcpy(to, a, n * sizeof *a);
    if (m) memcpy(to, b, m * sizeof *b);
    return true;
}

bool sort_values(struct render *r, struct list *l, const struct list *keys, bool reverse)
{
    struct sorted *from = room_array(r->room, l->n, sizeof *from), *to = room_array(r->room, l->n, sizeof *to);
    if (!from || !to) return fail_room(r);
    for (size_t i = 0; i < l->n; i++) from[i] = (struct sorted){ l->items[i], keys->items[i] };
    for (size_t width = 1; width < l->n; width *= 2) {
        for (size_t at = 0; at < l->n; at += 2 * width) {
            const size_t left = l->n - at, n = left < width ? left : width, m = left - n < width ? left - n : width;
            if (!merge(r, to + at, from + at, n, from + at + n, m, reverse)) return false;
        }
        struct sorted *other = from;
        from = to;
        to = other;
    }
    for (size_t i = 0; i < l->n; i++) l->items[i] = from[i].item;
    return true;
}

/* ---- building strings ---- */

void builder_begin(struct builder *b, struct render *r)
{
    struct room *room = r->room;
    const size_t left = room->size - room->used;
    *b = (struct builder){ .r = r, .bytes = (char *)room->bytes + room->used, .most = left / 2 };
    b->marks = room->bytes + room->used + b->most;
}

void builder_put(struct builder *b, const char *bytes, size_t n, bool input)
{
    if (b->failed) return;
    if (n > b->most - b->n) { b->failed = true; return; }
    if (n == 0) return;
    memcpy(b->bytes + b->n, bytes, n);
    memset(b->marks + b->n, input, n);
    b->n += n;
}

void builder_string(struct builder *b, const struct value *s)
{
    const size_t at = b->n;
    builder_put(b, s->text, s->n, s->from == FROM_INPUT);
    if (!b->failed && s->n && s->from == FROM_BOTH) memcpy(b->marks + at, s->marks, s->n);
}

bool builder_end(struct builder *b, struct value *out)
{
    struct render *r = b->r;
    if (r->failed) return false;
    if (b->failed) { r->room->full = true; return fail_room(r); }
    size_t n_input = 0;
    if (!charge_bytes(r, b->n)) return false;
    for (size_t i = 0; i < b->n; i++) n_input += b->marks[i];
    const bool both = n_input > 0 && n_input < b->n;
    *out = string_value(b->bytes, b->n);
    out->from = both ? FROM_BOTH : n_input ? FROM_INPUT : FROM_TEMPLATE;
    if (both) {
        memmove(b->bytes + b->n, b->marks, b->n);
        out->marks = (uint8_t *)b->bytes + b->n;
    }
    r->room->used += both ? 2 * b->n : b->n;
    return true;
}

static void put_hex(struct builder *b, char letter, uint32_t c, int digits, bool input)
{
    static const char hex[] = "0123456789abcdef";
    char text[10] = { '\\', letter };
    for (int i = 0; i < digits; i++) text[2 + i] = hex[c >> 4 * (digits - 1 - i) & 15];
    builder_put(b, text, 2 + (size_t)digits, input);
}

bool text_is_printable(uint32_t c)
{
    const enum unicode_class class = unicode_class(c);
    return c == ' ' || (class != UNICODE_OTHER && class != UNICODE_UNASSIGNED && class != UNICODE_SPACE);
}

static bool byte_is_input(const struct value *s, size_t at)
{
    return s->from == FROM_INPUT || (s->from == FROM_BOTH && s->marks[at]);
}

static void repr_string(struct builder *b, const struct value *s)
{
    if (!charge_letters(b->r, s->n)) { b->failed = true; return; }
    const bool single = s->n && memchr(s->text, '\'', s->n), both = single && memchr(s->text, '"', s->n);
    const char quote = single && !both ? '"' : '\'';
    if (s->safe) BUILDER_WORDS(b, "Markup(");
    builder_put(b, &quote, 1, s->from != FROM_TEMPLATE);
    for (size_t at = 0, step; at < s->n && !b->failed; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        const bool input = byte_is_input(s, at);
        const char simple = c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c == '\\' ? '\\' : c == (uint32_t)quote ? quote : 0;
        if (simple) builder_put(b, (const char[]){ '\\', simple }, 2, input);
        else if (c < 0x100 && !text_is_printable(c)) put_hex(b, 'x', c, 2, input);
        else if (!text_is_printable(c) && c < 0x10000) put_hex(b, 'u', c, 4, input);
        else if (!text_is_printable(c)) put_hex(b, 'U', c, 8, input);
        else builder_put(b, s->text + at, step, input);
    }
    builder_put(b, &quote, 1, s->from != FROM_TEMPLATE);
    if (s->safe) BUILDER_WORDS(b, ")");
}

static void put_words(struct builder *b, const char *words) { builder_put(b, words, text_bytes(words), false); }

static void repr_items(struct builder *b, const struct list *l, char open, char close, uint32_t depth)
{
    builder_put(b, &open, 1, l->input);
    for (size_t i = 0; i < l->n && !b->failed; i++) {
        if (i) builder_put(b, ", ", 2, l->input);
        builder_repr(b, &l->items[i], depth + 1);
    }
    if (open == '(' && l->n == 1) BUILDER_WORDS(b, ",");
    builder_put(b, &close, 1, l->input);
}

static void repr_dict(struct builder *b, const struct dict *d, uint32_t depth)
{
    builder_put(b, "{", 1, d->input);
    for (size_t i = 0; i < d->n && !b->failed; i++) {
        if (i) builder_put(b, ", ", 2, d->input);
        builder_repr(b, &d->pairs[i].key, depth + 1);
        builder_put(b, ": ", 2, d->input);
        builder_repr(b, &d->pairs[i].value, depth + 1);
    }
    builder_put(b, "}", 1, d->input);
}

static void repr_range(struct builder *b, const struct range *g)
{
    char text[24];
    BUILDER_WORDS(b, "range(");
    builder_put(b, text, integer_text(g->start, text), false);
    BUILDER_WORDS(b, ", ");
    builder_put(b, text, integer_text(g->stop, text), false);
    if (g->step != 1) {
        BUILDER_WORDS(b, ", ");
        builder_put(b, text, integer_text(g->step, text), false);
    }
    BUILDER_WORDS(b, ")");
}

void builder_repr(struct builder *b, const struct value *v, uint32_t depth)
{
    char text[NUMBER_BYTES];
    if (depth > b->r->most_depth / 2) {
        fail_text(b->r, CHAT_LIMIT, "a value is nested too deeply to be printed");
        b->failed = true;
    }
    if (b->failed) return;
    if (!charge(b->r, v->kind == FLOAT ? DIGITS_STEPS : 1)) { b->failed = true; return; }
    switch ((enum kind)v->kind) {
    case UNDEFINED: BUILDER_WORDS(b, "Undefined"); break;
    case NONE: BUILDER_WORDS(b, "None"); break;
    case BOOL: put_words(b, v->b ? "True" : "False"); break;
    case INT: builder_put(b, text, integer_text(v->i, text), false); break;
    case FLOAT: builder_put(b, text, number_repr(v->f, text), false); break;
    case BIG: builder_put(b, v->text, v->n, false); break;
    case STRING: repr_string(b, v); break;
    case LIST: repr_items(b, v->list, '[', ']', depth); break;
    case TUPLE: repr_items(b, v->list, '(', ')', depth); break;
    case VIEW:
        put_words(b, kind_name(v));
        BUILDER_WORDS(b, "(");
        repr_items(b, v->list, '[', ']', depth);
        BUILDER_WORDS(b, ")");
        break;
    case DICT: repr_dict(b, v->dict, depth); break;
    case NAMESPACE:
        BUILDER_WORDS(b, "<Namespace ");
        repr_dict(b, v->dict, depth);
        BUILDER_WORDS(b, ">");
        break;
    case RANGE: repr_range(b, v->range); break;
    case LAZY: case LOOP: case MACRO: case FUNCTION: case METHOD: case JOINER:
        BUILDER_WORDS(b, "<");
        put_words(b, kind_name(v));
        BUILDER_WORDS(b, ">");
        break;
    }
}

bool value_text(struct render *r, const struct value *v, struct value *out)
{
    struct builder b;
    switch ((enum kind)v->kind) {
    case STRING:
        *out = *v;
        out->safe = 0;
        return true;
    case UNDEFINED: *out = WORDS(""); return true;
    case NONE: *out = WORDS("None"); return true;
    case BOOL: *out = v->b ? WORDS("True") : WORDS("False"); return true;
    default: break;
    }
    builder_begin(&b, r);
    builder_repr(&b, v, 0);
    return builder_end(&b, out);
}

/* ---- JSON ---- */

static void json_codepoint(struct builder *b, const struct tojson *how, const char *at, size_t step, bool input)
{
    const uint32_t c = text_codepoint(at, step);
    const char simple = c == '"' || c == '\\' ? (char)c : c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c == '\b' ? 'b'
                      : c == '\f' ? 'f' : 0;
    if (simple) builder_put(b, (const char[]){ '\\', simple }, 2, input);
    else if (c < 0x20 || (how->ascii && c > 0x7e && c < 0x10000)) put_hex(b, 'u', c, 4, input);
    else if (how->ascii && c >= 0x10000) {
        put_hex(b, 'u', 0xd800 + ((c - 0x10000) >> 10), 4, input);
        put_hex(b, 'u', 0xdc00 + ((c - 0x10000) & 0x3ff), 4, input);
    } else builder_put(b, at, step, input);
}

static void json_string(struct builder *b, const struct tojson *how, const struct value *s)
{
    if (!charge_letters(b->r, s->n)) { b->failed = true; return; }
    builder_put(b, "\"", 1, s->from != FROM_TEMPLATE);
    for (size_t at = 0, step; at < s->n && !b->failed; at += step) {
        step = text_step(s->text + at, s->n - at);
        json_codepoint(b, how, s->text + at, step, byte_is_input(s, at));
    }
    builder_put(b, "\"", 1, s->from != FROM_TEMPLATE);
}

static void json_separator(struct builder *b, const struct value *s, bool input)
{
    builder_put(b, s->text, s->n, input || s->from != FROM_TEMPLATE);
}

static void json_line(struct builder *b, const struct tojson *how, uint32_t depth)
{
    if (!how->indented) return;
    if (!charge_letters(b->r, depth * (how->indent + LETTERS_PER_STEP))) { b->failed = true; return; }
    BUILDER_WORDS(b, "\n");
    for (uint32_t i = 0; i < depth && !b->failed; i++) {
        if (how->indent_text.n) builder_string(b, &how->indent_text);
        for (size_t k = 0; k < how->indent && !b->failed; k++) BUILDER_WORDS(b, " ");
    }
}

static void json_value(struct builder *b, const struct tojson *how, const struct value *v, uint32_t depth);

/* "3", "true", "null", "1.5": in quotes if it is a key. */
static bool json_scalar(struct builder *b, const struct value *v)
{
    char text[NUMBER_BYTES];
    switch ((enum kind)v->kind) {
    case NONE: BUILDER_WORDS(b, "null"); return true;
    case BOOL: put_words(b, v->b ? "true" : "false"); return true;
    case INT: builder_put(b, text, integer_text(v->i, text), false); return true;
    case BIG: builder_put(b, v->text, v->n, false); return true;
    case FLOAT:
        if (!charge(b->r, DIGITS_STEPS)) { b->failed = true; return true; }
        if (v->f != v->f) BUILDER_WORDS(b, "NaN");
        else if (v->f - v->f != 0) put_words(b, v->f > 0 ? "Infinity" : "-Infinity");
        else builder_put(b, text, number_repr(v->f, text), false);
        return true;
    default: return false;
    }
}

static void json_fail(struct builder *b, const char *what, const struct value *v)
{
    fail_with(b->r, what, kind_name(v), "");
    b->failed = true;
}

static void json_dict(struct builder *b, const struct tojson *how, const struct dict *d, uint32_t depth)
{
    builder_put(b, "{", 1, d->input);
    for (size_t i = 0; i < d->n && !b->failed; i++) {
        const struct pair *p = &d->pairs[i];
        if (i) json_separator(b, &how->item, d->input);
        json_line(b, how, depth + 1);
        if (p->key.kind == STRING) json_string(b, how, &p->key);
        else {
            BUILDER_WORDS(b, "\"");
            if (!json_scalar(b, &p->key)) json_fail(b, "a key of JSON cannot be '%s'", &p->key);
            BUILDER_WORDS(b, "\"");
        }
        json_separator(b, &how->key, d->input);
        json_value(b, how, &p->value, depth + 1);
    }
    if (d->n) json_line(b, how, depth);
    builder_put(b, "}", 1, d->input);
}

static void json_value(struct builder *b, const struct tojson *how, const struct value *v, uint32_t depth)
{
    if (depth > b->r->most_depth / 2) {
        fail_text(b->r, CHAT_LIMIT, "a value is nested too deeply to become JSON");
        b->failed = true;
    }
    if (b->failed) return;
    if (!charge(b->r, 1)) { b->failed = true; return; }
    if (json_scalar(b, v)) return;
    if (v->kind == STRING) json_string(b, how, v);
    else if (v->kind == DICT) json_dict(b, how, v->dict, depth);
    else if (v->kind == LIST || v->kind == TUPLE) {
        builder_put(b, "[", 1, v->list->input);
        for (size_t i = 0; i < v->list->n && !b->failed; i++) {
            if (i) json_separator(b, &how->item, v->list->input);
            json_line(b, how, depth + 1);
            json_value(b, how, &v->list->items[i], depth + 1);
        }
        if (v->list->n) json_line(b, how, depth);
        builder_put(b, "]", 1, v->list->input);
    } else json_fail(b, "'%s' cannot become JSON", v);
}

/* A copy of the value in which the keys of objects are sorted. */
static bool sorted_copy(struct render *r, const struct value *v, struct value *out)
{
    *out = *v;
    if (v->kind != DICT && v->kind != LIST && v->kind != TUPLE) return true;
    if (!deeper(r) || !charge(r, 1 + (v->kind == DICT ? v->dict->n : v->list->n))) return false;
    if (v->kind == DICT) {
        struct dict *d;
        struct list *order, *keys;
        const size_t n = v->dict->n;
        if (!dict_new(r, n, &d) || !list_new(r, n, &order) || !list_new(r, n, &keys)) return false;
        for (size_t i = 0; i < n; i++) {
            order->items[order->n++] = int_value((int64_t)i);
            keys->items[keys->n++] = v->dict->pairs[i].key;
        }
        if (!sort_values(r, order, keys, false)) return false;
        for (size_t i = 0; i < n; i++) {
            struct pair p = v->dict->pairs[order->items[i].i];
            if (!sorted_copy(r, &p.value, &p.value)) return false;
            d->pairs[d->n++] = p;
        }
        d->input = v->dict->input;
        out->dict = d;
    } else {
        struct list *l;
        if (!list_new(r, v->list->n, &l)) return false;
        for (size_t i = 0; i < v->list->n; i++) if (!sorted_copy(r, &v->list->items[i], &l->items[l->n++])) return false;
        l->input = v->list->input;
        out->list = l;
    }
    r->depth--;
    return true;
}

bool value_tojson(struct render *r, const struct value *v, const struct tojson *how, struct value *out)
{
    struct builder b;
    struct value sorted;
    if (how->sort) {
        if (!sorted_copy(r, v, &sorted)) return false;
        v = &sorted;
    }
    builder_begin(&b, r);
    json_value(&b, how, v, 0);
    return builder_end(&b, out);
}
