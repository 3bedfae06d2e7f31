/* methods.c -- the methods of text, lists, objects and loops, as in Python. */
#include "value.h"

enum { LOOP_CYCLE, LOOP_CHANGED };

#define NAMED(name) #name,
bool method_find(const struct value *v, const struct value *name, uint32_t *id)
{
    static const char *const of_text[] = { CHAT_TEXT_METHODS(NAMED) }, *const of_list[] = { CHAT_LIST_METHODS(NAMED) },
                      *const of_dict[] = { CHAT_DICT_METHODS(NAMED) }, *const of_loop[] = { "cycle", "changed" };
    const char *const *names = NULL;
    uint32_t n = 0;
    switch ((enum kind)v->kind) {
    case STRING: names = of_text; n = CHAT_S_COUNT; break;
    case LIST: case TUPLE: names = of_list; n = CHAT_L_COUNT; break;
    case DICT: names = of_dict; n = CHAT_D_COUNT; break;
    case LOOP: names = of_loop; n = 2; break;
    default: return false;
    }
    for (*id = 0; *id < n; ++*id)
        if (string_is(name, names[*id])) return v->kind != TUPLE || *id == CHAT_L_count || *id == CHAT_L_index;
    return false;
}
#undef NAMED

/* ---- text ---- */

/* The part of s between arguments 1 and 2, as in a slice; *before: the codepoints before it.  *none: it begins behind its end, and then
 * not even an empty text is in it. */
static bool window(struct render *r, const struct value *s, const struct arguments *args, struct value *out, int64_t *before, bool *none)
{
    int64_t from, to;
    *out = *s;
    *before = 0;
    *none = false;
    if (args->n < 2) return true;
    if (!charge_letters(r, s->n)) return false;
    const int64_t n = (int64_t)text_codepoints(s->text, s->n);
    if (!argument_integer(r, &args->at[1], 0, &from) || !argument_integer(r, args->n > 2 ? &args->at[2] : NULL, n, &to)) return false;
    if (from < 0) from = from + n < 0 ? 0 : from + n;
    if (to < 0) to = to + n < 0 ? 0 : to + n;
    if (to > n) to = n;
    *none = from > to;
    if (*none) return true;
    const size_t begin = text_offset(s->text, s->n, (size_t)from);
    *out = string_part(s, begin, text_offset(s->text + begin, s->n - begin, (size_t)(to - from)));
    *before = from;
    return true;
}

static bool starts_or_ends(struct render *r, const struct value *s, bool start, const struct value *with, bool *out)
{
    const struct value *parts = with;
    size_t n = 1;
    if (with && with->kind == TUPLE) { parts = with->list->items; n = with->list->n; }
    *out = false;
    for (size_t i = 0; i < n && !*out; i++) {
        const struct value *part = with ? &parts[i] : NULL;
        if (!argument_string(r, part, start ? "startswith" : "endswith") || !charge(r, 1) || !charge_bytes(r, part->n)) return false;
        *out = part->n <= s->n && memcmp(start ? s->text : s->text + s->n - part->n, part->text, part->n) == 0;
    }
    return true;
}

static bool starts_or_ends_within(struct render *r, const struct value *s, bool start, const struct arguments *args, struct value *out)
{
    struct value in;
    int64_t before;
    bool none, holds;
    if (!arguments_most(r, args, 3, start ? "startswith" : "endswith") || !window(r, s, args, &in, &before, &none)) return false;
    if (!starts_or_ends(r, &in, start, args->n ? &args->at[0] : NULL, &holds)) return false;
    *out = bool_value(holds && !none);
    return true;
}

/* find and rfind, index and rindex */
static bool find(struct render *r, const struct value *s, const struct arguments *args, bool from_right, bool must, struct value *out)
{
    const struct value *part = args->n ? &args->at[0] : NULL;
    struct value in;
    int64_t before;
    size_t at = 0;
    bool none;
    if (!argument_string(r, part, "find") || !arguments_most(r, args, 3, "find") || !window(r, s, args, &in, &before, &none)) return false;
    const bool found = !none && (from_right ? string_find_last(r, &in, part, in.n, &at) : string_find(r, &in, part, 0, &at));
    if (r->failed) return false;
    if (!found && must) return fail_text(r, CHAT_REFUSED, "substring not found");
    if (found && !charge_letters(r, at)) return false;
    *out = int_value(found ? before + (int64_t)text_codepoints(in.text, at) : -1);
    return true;
}

static bool count_text(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *part = args->n ? &args->at[0] : NULL;
    struct value in;
    int64_t n = 0, before;
    bool none;
    if (!argument_string(r, part, "count") || !arguments_most(r, args, 3, "count")) return false;
    if (!window(r, s, args, &in, &before, &none)) return false;
    if (part->n == 0) {
        if (!charge_letters(r, in.n)) return false;
        n = (int64_t)text_codepoints(in.text, in.n) + 1;
    } else for (size_t at = 0, hit; charge(r, 1) && string_find(r, &in, part, at, &hit); at = hit + part->n) n++;
    *out = int_value(none ? 0 : n);
    return !r->failed;
}

static bool partition(struct render *r, const struct value *s, const struct value *by, bool from_right, struct value *out)
{
    struct list *l;
    size_t at;
    if (!argument_string(r, by, "partition")) return false;
    if (by->n == 0) return fail_text(r, CHAT_REFUSED, "the separator is empty");
    const bool found = from_right ? string_find_last(r, s, by, s->n, &at) : string_find(r, s, by, 0, &at);
    if (r->failed || !list_new(r, 3, &l)) return false;
    const struct value nothing = string_part(s, 0, 0);
    l->n = 3;
    l->items[0] = found ? string_part(s, 0, at) : from_right ? nothing : *s;
    l->items[1] = found ? *by : nothing;
    l->items[2] = found ? string_part(s, at + by->n, s->n - at - by->n) : from_right ? *s : nothing;
    for (size_t i = 0; i < 3; i++) l->items[i].safe = s->safe;
    *out = list_value(l, TUPLE);
    return true;
}

static bool justify(struct render *r, const struct value *s, uint32_t method, const struct arguments *args, struct value *out)
{
    int64_t width;
    const struct value fill = args->n > 1 ? args->at[1] : method == CHAT_S_zfill ? WORDS("0") : WORDS(" ");
    if (!argument_integer(r, args->n ? &args->at[0] : NULL, 0, &width) || !argument_string(r, &fill, "filling")) return false;
    if (width > 10000) return fail_text(r, CHAT_REFUSED, "a text cannot be filled up to more than 10000 characters");
    if (fill.n == 0 || fill.n != text_step(fill.text, fill.n))
        return fail_text(r, CHAT_REFUSED, "the fill character must be exactly one character long");
    if (!charge_letters(r, s->n)) return false;
    const int64_t n = (int64_t)text_codepoints(s->text, s->n);
    const size_t more = width > n ? (size_t)(width - n) : 0;
    if (method == CHAT_S_zfill && s->n && (s->text[0] == '-' || s->text[0] == '+')) {
        const struct value head = string_part(s, 0, 1), tail = string_part(s, 1, s->n - 1);
        struct value padded;
        return string_pad(r, &tail, more, 0, &fill, &padded) && string_add(r, &head, &padded, out);
    }
    const size_t left = method == CHAT_S_ljust ? 0 : method == CHAT_S_center ? more / 2 + (more & (size_t)width & 1) : more;
    return string_pad(r, s, left, more - left, &fill, out);
}

static bool split(struct render *r, const struct value *s, const struct arguments *args, bool from_right, struct value *out)
{
    const struct value *by = argument(r, args, 0, "sep"), *most = argument(r, args, 1, "maxsplit");
    struct list *l;
    int64_t n;
    if (by && by->kind == NONE) by = NULL;
    if ((by && !argument_string(r, by, "split")) || !argument_integer(r, most, -1, &n)) return false;
    if (!string_split(r, s, by, n < 0 ? -1 : n, from_right, &l)) return false;
    *out = list_value(l, LIST);
    return true;
}

static bool strip(struct render *r, const struct value *s, const struct arguments *args, bool left, bool right, struct value *out)
{
    const struct value *chars = args->n && args->at[0].kind != NONE ? &args->at[0] : NULL;
    if (chars && !argument_string(r, chars, "strip")) return false;
    return string_strip(r, s, chars, left, right, out);
}

static bool replace(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *old = args->n ? &args->at[0] : NULL, *with = args->n > 1 ? &args->at[1] : NULL;
    int64_t most;
    struct value escaped;
    if (!argument_string(r, old, "replace") || !argument_string(r, with, "replace")) return false;
    if (!argument_integer(r, argument(r, args, 2, "count"), -1, &most)) return false;
    if (s->safe) { if (!string_escape(r, with, &escaped)) return false; with = &escaped; }
    return string_replace(r, s, old, with, most, out);
}

static bool join(struct render *r, const struct value *s, const struct value *items, struct value *out)
{
    const struct list *l;
    struct value from;
    if (!items) return fail_text(r, CHAT_REFUSED, "join needs one more argument");
    from = *items;
    return items_of(r, &from, &l) && string_join(r, s, l, false, out);
}

static bool text_method(struct render *r, uint32_t method, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *first = args->n ? &args->at[0] : NULL;
    struct list *l;
    bool holds;
    switch (method) {
    case CHAT_S_capitalize: return string_case(r, s, CASE_CAPITAL, out);
    case CHAT_S_casefold: return string_case(r, s, CASE_FOLD, out);
    case CHAT_S_lower: return string_case(r, s, CASE_LOWER, out);
    case CHAT_S_upper: return string_case(r, s, CASE_UPPER, out);
    case CHAT_S_title: return string_case(r, s, CASE_TITLE, out);
    case CHAT_S_swapcase: return string_case(r, s, CASE_SWAP, out);
    case CHAT_S_center: case CHAT_S_ljust: case CHAT_S_rjust: case CHAT_S_zfill: return justify(r, s, method, args, out);
    case CHAT_S_count: return count_text(r, s, args, out);
    case CHAT_S_startswith: case CHAT_S_endswith: return starts_or_ends_within(r, s, method == CHAT_S_startswith, args, out);
    case CHAT_S_find: case CHAT_S_index: return find(r, s, args, false, method == CHAT_S_index, out);
    case CHAT_S_rfind: case CHAT_S_rindex: return find(r, s, args, true, method == CHAT_S_rindex, out);
    case CHAT_S_format: return string_format(r, s, args, out);
    case CHAT_S_join: return join(r, s, first, out);
    case CHAT_S_lstrip: return strip(r, s, args, true, false, out);
    case CHAT_S_rstrip: return strip(r, s, args, false, true, out);
    case CHAT_S_strip: return strip(r, s, args, true, true, out);
    case CHAT_S_partition: case CHAT_S_rpartition: return partition(r, s, first, method == CHAT_S_rpartition, out);
    case CHAT_S_removeprefix: case CHAT_S_removesuffix:
        if (!argument_string(r, first, "removeprefix and removesuffix")) return false;
        if (!starts_or_ends(r, s, method == CHAT_S_removeprefix, first, &holds)) return false;
        *out = !holds ? *s : string_part(s, method == CHAT_S_removeprefix ? first->n : 0, s->n - first->n);
        return true;
    case CHAT_S_replace: return replace(r, s, args, out);
    case CHAT_S_rsplit: case CHAT_S_split: return split(r, s, args, method == CHAT_S_rsplit, out);
    case CHAT_S_splitlines:
        first = argument(r, args, 0, "keepends");
        if (!string_lines(r, s, first && truth_of(first), &l)) return false;
        *out = list_value(l, LIST);
        return true;
    case CHAT_S_encode: case CHAT_S_expandtabs: case CHAT_S_format_map: case CHAT_S_isidentifier: case CHAT_S_isnumeric:
    case CHAT_S_istitle: case CHAT_S_maketrans: case CHAT_S_translate:
        return fail_text(r, CHAT_REFUSED, "a method of text that is not supported");
    default:
        if (!string_is_class(r, s, (enum chat_text_method)method, &holds)) return false;
        *out = bool_value(holds);
        return true;
    }
}

/* ---- lists ---- */

static bool list_place(struct render *r, const struct list *l, const struct value *v, size_t *at)
{
    for (*at = 0; *at < l->n; ++*at) {
        bool same;
        if (!values_equal(r, &l->items[*at], v, &same)) return false;
        if (same) return true;
    }
    return true;
}

static bool list_take(struct render *r, struct list *l, size_t at, struct value *out)
{
    if (!charge(r, l->n / 8)) return false;
    *out = l->items[at];
    memmove(&l->items[at], &l->items[at + 1], (l->n - at - 1) * sizeof *l->items);
    l->n--;
    return true;
}

static bool list_insert(struct render *r, struct list *l, int64_t at, const struct value *v)
{
    if (!list_add(r, l, none_value()) || !charge(r, l->n / 8)) return false;
    const int64_t n = (int64_t)l->n - 1;
    if (at < 0) at += n;
    at = at < 0 ? 0 : at > n ? n : at;
    memmove(&l->items[at + 1], &l->items[at], (size_t)(n - at) * sizeof *l->items);
    l->items[at] = *v;
    return true;
}

static bool list_extend(struct render *r, struct list *l, const struct value *v)
{
    struct value from = *v;
    const struct list *items;
    if (!items_of(r, &from, &items)) return false;
    for (size_t i = 0, n = items->n; i < n; i++) if (!charge(r, 1) || !list_add(r, l, items->items[i])) return false;
    return true;
}

static bool list_method(struct render *r, uint32_t method, const struct value *v, const struct arguments *args, struct value *out)
{
    struct list *l = v->list, *copy;
    const struct value *first = args->n ? &args->at[0] : NULL;
    int64_t i, n = 0;
    size_t at;
    bool same;
    *out = none_value();
    if (!first && (method == CHAT_L_append || method == CHAT_L_count || method == CHAT_L_extend || method == CHAT_L_index ||
                   method == CHAT_L_insert || method == CHAT_L_remove))
        return fail_text(r, CHAT_REFUSED, "a method of a list needs one more argument");
    if (method != CHAT_L_copy && method != CHAT_L_count && method != CHAT_L_index) r->kept++;
    switch (method) {
    case CHAT_L_append: return list_add(r, l, *first);
    case CHAT_L_clear: l->n = 0; return true;
    case CHAT_L_copy:
        if (!list_new(r, l->n, &copy)) return false;
        *out = list_value(copy, LIST);
        return list_extend(r, copy, v);
    case CHAT_L_count:
        for (size_t k = 0; k < l->n; k++) {
            if (!values_equal(r, &l->items[k], first, &same)) return false;
            n += same;
        }
        *out = int_value(n);
        return true;
    case CHAT_L_extend: return list_extend(r, l, first);
    case CHAT_L_index: case CHAT_L_remove:
        if (!list_place(r, l, first, &at)) return false;
        if (at == l->n) return fail_text(r, CHAT_REFUSED, "the list does not contain this value");
        if (method == CHAT_L_index) { *out = int_value((int64_t)at); return true; }
        if (!list_take(r, l, at, out)) return false;
        *out = none_value();
        return true;
    case CHAT_L_insert:
        if (args->n < 2) return fail_text(r, CHAT_REFUSED, "insert needs a place and a value");
        return argument_integer(r, first, 0, &i) && list_insert(r, l, i, &args->at[1]);
    case CHAT_L_pop:
        if (!argument_integer(r, first, -1, &i)) return false;
        if (i < 0) i += (int64_t)l->n;
        if (i < 0 || (uint64_t)i >= l->n) return fail_text(r, CHAT_REFUSED, "pop: the list has no such place");
        return list_take(r, l, (size_t)i, out);
    default:                                                   /* reverse */
        if (!charge(r, l->n)) return false;
        for (size_t k = 0; k < l->n / 2; k++) {
            const struct value x = l->items[k];
            l->items[k] = l->items[l->n - 1 - k];
            l->items[l->n - 1 - k] = x;
        }
        return true;
    }
}

/* ---- objects ---- */

static bool dict_view(struct render *r, const struct dict *d, enum view view, struct value *out)
{
    struct list *l;
    if (!charge(r, d->n) || !list_new(r, d->n, &l)) return false;
    for (size_t i = 0; i < d->n; i++) {
        struct list *pair;
        if (view != VIEW_ITEMS) { l->items[l->n++] = view == VIEW_KEYS ? d->pairs[i].key : d->pairs[i].value; continue; }
        if (!list_new(r, 2, &pair)) return false;
        pair->n = 2;
        pair->items[0] = d->pairs[i].key;
        pair->items[1] = d->pairs[i].value;
        l->items[l->n++] = list_value(pair, TUPLE);
    }
    *out = list_value(l, VIEW);
    out->id = view;
    return true;
}

bool dict_update(struct render *r, struct dict *d, const struct arguments *args)
{
    if (args->n) {
        const struct value *from = &args->at[0];
        if (from->kind == DICT)
            for (size_t i = 0, n = from->dict->n; i < n; i++)
                if (!charge(r, 1) || !dict_set(r, d, from->dict->pairs[i].key, from->dict->pairs[i].value)) return false;
        if (from->kind != DICT) {
            struct value all = *from;
            const struct list *items, *pair;
            if (!items_of(r, &all, &items)) return false;
            for (size_t i = 0; i < items->n; i++) {
                struct value item = items->items[i];
                if (!charge(r, 1) || !items_of(r, &item, &pair)) return false;
                if (pair->n != 2) return fail_text(r, CHAT_REFUSED, "an object can only be made from pairs");
                if (!dict_set(r, d, pair->items[0], pair->items[1])) return false;
            }
        }
    }
    for (uint32_t i = 0; i < args->n_named; i++) if (!dict_set(r, d, image_string(r, args->names[2 * i]), args->named[i])) return false;
    return true;
}

/* pop; key NULL: the last one. */
static bool dict_pop(struct render *r, struct dict *d, const struct value *key, const struct value *otherwise, struct value *out)
{
    const struct value *found = key ? dict_find(r, d, key) : d->n ? &d->pairs[d->n - 1].value : NULL;
    if (r->failed) return false;
    if (!found && otherwise) { *out = *otherwise; return true; }
    if (!found) return fail_text(r, CHAT_REFUSED, "pop: the object has no such member");
    const size_t at = (size_t)((const struct pair *)(const void *)((const char *)found - offsetof(struct pair, value)) - d->pairs);
    if (!charge(r, (d->n - at) / 8)) return false;
    *out = *found;
    memmove(&d->pairs[at], &d->pairs[at + 1], (d->n - at - 1) * sizeof *d->pairs);
    d->n--;
    return true;
}

static bool dict_method(struct render *r, uint32_t method, const struct value *v, const struct arguments *args, struct value *out)
{
    struct dict *d = v->dict, *copy;
    struct list *pair;
    const struct value *first = args->n ? &args->at[0] : NULL, *second = args->n > 1 ? &args->at[1] : NULL, *found;
    *out = none_value();
    if (!first && (method == CHAT_D_get || method == CHAT_D_pop || method == CHAT_D_setdefault))
        return fail_text(r, CHAT_REFUSED, "a method of an object needs the name of a member");
    if (method == CHAT_D_clear || method == CHAT_D_pop || method == CHAT_D_popitem || method == CHAT_D_setdefault ||
        method == CHAT_D_update) r->kept++;
    switch (method) {
    case CHAT_D_clear: d->n = 0; return true;
    case CHAT_D_copy:
        if (!dict_new(r, d->n, &copy)) return false;
        if (d->n) memcpy(copy->pairs, d->pairs, d->n * sizeof *d->pairs);
        copy->n = d->n;
        *out = (struct value){ .kind = DICT, .dict = copy };
        return charge(r, d->n);
    case CHAT_D_get:
        if (first->kind == LIST || first->kind == DICT) return fail_with(r, "unhashable type: '%s'", kind_name(first), "");
        found = dict_find(r, d, first);
        if (found) *out = *found;
        else if (second) *out = *second;
        return !r->failed;
    case CHAT_D_items: return dict_view(r, d, VIEW_ITEMS, out);
    case CHAT_D_keys: return dict_view(r, d, VIEW_KEYS, out);
    case CHAT_D_values: return dict_view(r, d, VIEW_VALUES, out);
    case CHAT_D_pop: return dict_pop(r, d, first, second, out);
    case CHAT_D_popitem:
        if (!d->n) return fail_text(r, CHAT_REFUSED, "popitem: the object is empty");
        if (!list_new(r, 2, &pair)) return false;
        pair->n = 2;
        pair->items[0] = d->pairs[d->n - 1].key;
        if (!dict_pop(r, d, NULL, NULL, &pair->items[1])) return false;
        *out = list_value(pair, TUPLE);
        return true;
    case CHAT_D_setdefault:
        found = dict_find(r, d, first);
        if (found) *out = *found;
        else if (second) *out = *second;
        return !r->failed && (found || dict_set(r, d, *first, *out));
    default: return dict_update(r, d, args);                   /* update */
    }
}

/* ---- loops ---- */

static bool loop_method(struct render *r, uint32_t method, const struct value *v, const struct arguments *args, struct value *out)
{
    struct loop *l = v->loop;
    if (method == LOOP_CYCLE) {
        if (!args->n) return fail_text(r, CHAT_REFUSED, "no items for cycling given");
        *out = args->at[l->at % args->n];
        return true;
    }
    struct list *now;
    bool same = false;
    if (!list_new(r, args->n, &now)) return false;
    for (uint32_t i = 0; i < args->n; i++) now->items[now->n++] = args->at[i];
    const struct value all = list_value(now, TUPLE);
    if (l->changed_once && !values_equal(r, &l->changed, &all, &same)) return false;
    l->changed_once = true;
    l->changed = all;
    r->kept++;
    *out = bool_value(!same);
    return true;
}

bool method_call(struct render *r, const struct method *m, const struct arguments *args, struct value *out)
{
    switch ((enum kind)m->self.kind) {
    case STRING: return text_method(r, m->id, &m->self, args, out);
    case LIST: case TUPLE: return list_method(r, m->id, &m->self, args, out);
    case DICT: return dict_method(r, m->id, &m->self, args, out);
    default: return loop_method(r, m->id, &m->self, args, out);
    }
}
