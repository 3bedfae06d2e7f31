/* filters.c -- Jinja's filters and tests (jinja2/filters.py and tests.py, 3.1), and tojson as in transformers. */
#include "value.h"
#include "runtime/text/unicode.h"

/* ---- arguments ---- */

const struct value *argument(const struct render *r, const struct arguments *args, uint32_t place, const char *name)
{
    if (place < args->n) return &args->at[place];
    for (uint32_t i = 0; i < args->n_named && name; i++) {
        const struct value have = image_string(r, args->names[2 * i]);
        if (string_is(&have, name)) return &args->named[i];
    }
    return NULL;
}

bool arguments_most(struct render *r, const struct arguments *args, uint32_t most, const char *of)
{
    return args->n <= most || fail_with(r, "too many arguments for %s", of, "");
}

bool argument_integer(struct render *r, const struct value *v, int64_t otherwise, int64_t *out)
{
    *out = otherwise;
    if (!v || v->kind == NONE) return true;
    if (!is_integer(v)) return fail_with(r, "an integer is needed, not '%s'", kind_name(v), "");
    *out = integer_of(v);
    return true;
}

bool argument_string(struct render *r, const struct value *v, const char *of)
{
    if (!v) return fail_with(r, "%s needs one more argument", of, "");
    return v->kind == STRING || fail_with(r, "%s needs text, not '%s'", of, kind_name(v));
}

static bool flag(const struct render *r, const struct arguments *args, uint32_t place, const char *name)
{
    const struct value *v = argument(r, args, place, name);
    return v && truth_of(v);
}

static bool find_name(const struct value *name, const char *const *names, uint32_t n, uint32_t *out)
{
    for (*out = 0; *out < n; ++*out) if (string_is(name, names[*out])) return true;
    return false;
}

#define NAMED(name) #name,
uint32_t filter_find(const struct value *name)
{
    static const char *const names[] = { CHAT_FILTERS(NAMED) };
    uint32_t id;
    return find_name(name, names, CHAT_F_COUNT, &id) ? id : CHAT_UNKNOWN;
}

uint32_t test_find(const struct value *name)
{
    static const char *const names[] = { CHAT_TESTS(NAMED) };
    static const struct { const char *sign; uint32_t id; } signs[] = {
        { "==", CHAT_T_eq }, { "!=", CHAT_T_ne }, { "<", CHAT_T_lt }, { "<=", CHAT_T_le }, { ">", CHAT_T_gt }, { ">=", CHAT_T_ge },
    };
    uint32_t id;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) if (string_is(name, signs[i].sign)) return signs[i].id;
    return find_name(name, names, CHAT_T_COUNT, &id) ? id : CHAT_UNKNOWN;
}
#undef NAMED

/* ---- attributes of items: "a.b.0" ---- */

static bool part_of(struct render *r, const struct value *item, const struct value *path, const struct value *otherwise, struct value *out)
{
    *out = *item;
    if (path->kind != STRING) {
        struct value whole = *out;
        if (!value_item(r, &whole, path, out)) return false;
    }
    for (size_t at = 0, end; path->kind == STRING && at <= path->n; at = end + 1) {
        for (end = at; end < path->n && path->text[end] != '.'; end++) { }
        if (!charge(r, 1) || !charge_letters(r, end - at)) return false;
        struct value part = string_part(path, at, end - at), whole = *out;
        int64_t number = 0;
        bool digits = part.n > 0 && part.n < 10;
        for (size_t i = 0; i < part.n && digits; i++) {
            digits = part.text[i] >= '0' && part.text[i] <= '9';
            number = number * 10 + (part.text[i] - '0');
        }
        if (digits) part = int_value(number);
        if (!value_item(r, &whole, &part, out)) return false;
        if (otherwise && out->kind == UNDEFINED) *out = *otherwise;
    }
    return true;
}

/* The keys by which items are compared: an attribute of them; text in lower case. */
static bool keys_of(struct render *r, const struct list *items, const struct value *attribute, bool exact, struct list **out)
{
    if (!list_new(r, items->n, out)) return false;
    for (size_t i = 0; i < items->n; i++) {
        struct value key = items->items[i];
        if (!charge(r, 1)) return false;
        if (attribute && attribute->kind != NONE) {
            const struct value item = key;
            if (!part_of(r, &item, attribute, NULL, &key)) return false;
        }
        const struct value s = key;
        if (!exact && s.kind == STRING && !string_case(r, &s, CASE_LOWER, &key)) return false;
        (*out)->items[(*out)->n++] = key;
    }
    return true;
}

static bool copy_items(struct render *r, const struct value *v, struct list **out)
{
    struct value from = *v;
    const struct list *items;
    if (!items_of(r, &from, &items) || !list_new(r, items->n, out) || !charge(r, items->n)) return false;
    if (items->n) memcpy((*out)->items, items->items, items->n * sizeof *items->items);
    (*out)->n = items->n;
    return true;
}

/* ---- filters of lists ---- */

static bool filter_sort(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *attribute = argument(r, args, 2, "attribute");
    struct list *l, *keys;
    if (attribute && attribute->kind == STRING && memchr(attribute->text, ',', attribute->n))
        return fail_text(r, CHAT_REFUSED, "sort: several attributes are not supported");
    if (!copy_items(r, v, &l) || !keys_of(r, l, attribute, flag(r, args, 1, "case_sensitive"), &keys)) return false;
    *out = list_value(l, LIST);
    return sort_values(r, l, keys, flag(r, args, 0, "reverse"));
}

static bool pair_list(struct render *r, const struct dict *d, struct list **out)
{
    if (!list_new(r, d->n, out) || !charge(r, d->n)) return false;
    for (size_t i = 0; i < d->n; i++) {
        struct list *pair;
        if (!list_new(r, 2, &pair)) return false;
        pair->items[pair->n++] = d->pairs[i].key;
        pair->items[pair->n++] = d->pairs[i].value;
        (*out)->items[(*out)->n++] = list_value(pair, TUPLE);
    }
    return true;
}

static bool filter_dictsort(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *by = argument(r, args, 1, "by");
    struct list *l, *keys;
    const struct value place = int_value(by && string_is(by, "value"));
    if (v->kind != DICT) return fail_with(r, "'%s' has no items to sort", kind_name(v), "");
    if (by && !string_is(by, "key") && !string_is(by, "value"))
        return fail_text(r, CHAT_REFUSED, "You can only sort by either \"key\" or \"value\"");
    if (!pair_list(r, v->dict, &l) || !keys_of(r, l, &place, flag(r, args, 0, "case_sensitive"), &keys)) return false;
    *out = list_value(l, LIST);
    return sort_values(r, l, keys, flag(r, args, 2, "reverse"));
}

static bool filter_unique(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    struct list *l, *keys, *kept, *seen;
    if (!copy_items(r, v, &l) || !keys_of(r, l, argument(r, args, 1, "attribute"), flag(r, args, 0, "case_sensitive"), &keys)) return false;
    if (!list_new(r, l->n, &kept) || !list_new(r, l->n, &seen)) return false;
    for (size_t i = 0; i < l->n; i++) {
        bool found = false;
        if (!check_hashable(r, &keys->items[i])) return false;
        for (size_t k = 0; k < seen->n && !found; k++) if (!values_equal(r, &seen->items[k], &keys->items[i], &found)) return false;
        if (found) continue;
        seen->items[seen->n++] = keys->items[i];
        kept->items[kept->n++] = l->items[i];
    }
    *out = list_value(kept, LAZY);
    return true;
}

static bool filter_extreme(struct render *r, const struct value *v, const struct arguments *args, bool most, struct value *out)
{
    struct list *l, *keys;
    size_t best = 0;
    if (!copy_items(r, v, &l) || !keys_of(r, l, argument(r, args, 1, "attribute"), flag(r, args, 0, "case_sensitive"), &keys)) return false;
    *out = undefined_value(CHAT_NONE);
    for (size_t i = 1; i < l->n; i++) {
        int order;
        if (!values_order(r, &keys->items[i], &keys->items[best], most ? ">" : "<", &order)) return false;
        if (most ? order > 0 : order < 0) best = i;
    }
    if (l->n) *out = l->items[best];
    return true;
}

/* The arguments after the first n. */
static struct arguments rest_of(const struct arguments *args, uint32_t n)
{
    struct arguments rest = *args;
    n = n < args->n ? n : args->n;
    if (n) rest.at += n;
    rest.n -= n;
    return rest;
}

/* map, select and similar filters give an empty list for a value that is not true, without looking at their arguments. */
static bool none_of(struct render *r, const struct value *v, struct value *out, bool *done)
{
    struct list *l;
    *done = !truth_of(v);
    if (!*done) return true;
    if (!list_new(r, 0, &l)) return false;
    *out = list_value(l, LAZY);
    return true;
}

static bool filter_map(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *attribute = argument(r, args, UINT32_MAX, "attribute"), *otherwise = argument(r, args, UINT32_MAX, "default");
    struct list *l;
    uint32_t filter = CHAT_UNKNOWN;
    bool done;
    if (!none_of(r, v, out, &done) || done) return done;
    if (args->n) {
        if (args->at[0].kind == STRING) filter = filter_find(&args->at[0]);
        if (filter == CHAT_UNKNOWN) return fail_text(r, CHAT_REFUSED, "map() names a filter that is not supported");
    } else if (!attribute) return fail_text(r, CHAT_REFUSED, "map requires a filter argument");
    const struct arguments rest = rest_of(args, 1);
    if (!copy_items(r, v, &l)) return false;
    for (size_t i = 0; i < l->n; i++) {
        const struct value item = l->items[i];
        if (!charge(r, 1)) return false;
        if (args->n ? !filter_apply(r, filter, &item, &rest, &l->items[i]) : !part_of(r, &item, attribute, otherwise, &l->items[i]))
            return false;
    }
    *out = list_value(l, LAZY);
    return true;
}

static bool filter_select(struct render *r, const struct value *v, const struct arguments *args, bool wanted, bool of_attribute,
                          struct value *out)
{
    struct list *l;
    uint32_t test = CHAT_UNKNOWN, place = of_attribute;
    bool done;
    if (!none_of(r, v, out, &done) || done) return done;
    if (of_attribute && !args->n) return fail_text(r, CHAT_REFUSED, "selectattr and rejectattr need the name of an attribute");
    if (args->n > place) {
        if (args->at[place].kind == STRING) test = test_find(&args->at[place]);
        if (test == CHAT_UNKNOWN) return fail_text(r, CHAT_REFUSED, "select, reject: this test is not supported");
    }
    const struct arguments rest = rest_of(args, place + 1);
    if (!copy_items(r, v, &l)) return false;
    const size_t n = l->n;
    l->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct value item = l->items[i];
        struct value asked = item;
        bool holds;
        if (!charge(r, 1) || (of_attribute && !part_of(r, &item, &args->at[0], NULL, &asked))) return false;
        if (test == CHAT_UNKNOWN) holds = truth_of(&asked);
        else if (!test_apply(r, test, &asked, &rest, &holds)) return false;
        if (holds == wanted) l->items[l->n++] = item;
    }
    *out = list_value(l, LAZY);
    return true;
}

static bool filter_join(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *by = argument(r, args, 0, "d"), *attribute = argument(r, args, 1, "attribute");
    struct value plain = WORDS("");
    struct list *l;
    if (by && !value_text(r, by, &plain)) return false;
    if (!copy_items(r, v, &l)) return false;
    for (size_t i = 0; attribute && attribute->kind != NONE && i < l->n; i++) {
        const struct value item = l->items[i];
        if (!part_of(r, &item, attribute, NULL, &l->items[i])) return false;
    }
    return string_join(r, &plain, l, true, out);
}

static bool filter_sum(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *attribute = argument(r, args, 0, "attribute"), *start = argument(r, args, 1, "start");
    struct list *l;
    *out = start ? *start : int_value(0);
    if (!copy_items(r, v, &l)) return false;
    for (size_t i = 0; i < l->n; i++) {
        struct value item = l->items[i];
        const struct value whole = item;
        if (attribute && attribute->kind != NONE && !part_of(r, &whole, attribute, NULL, &item)) return false;
        if (!is_number(&item) || !is_number(out)) return fail_with(r, "sum: '%s' is not a number", kind_name(&item), "");
        if (is_integer(&item) && is_integer(out)) {
            int64_t sum;
            if (__builtin_add_overflow(integer_of(&item), integer_of(out), &sum))
                return fail_text(r, CHAT_REFUSED, "a number is too large");
            *out = int_value(sum);
        } else *out = float_value(number_of(r, &item) + number_of(r, out));
    }
    return true;
}

static bool filter_reverse(struct render *r, const struct value *v, struct value *out)
{
    struct list *l;
    if (v->kind == UNDEFINED) return fail_text(r, CHAT_REFUSED, "an undefined value is reversed");
    if (!copy_items(r, v, &l)) return false;
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct value x = l->items[i];
        l->items[i] = l->items[l->n - 1 - i];
        l->items[l->n - 1 - i] = x;
    }
    const struct value nothing = WORDS("");
    if (v->kind == STRING) return string_join(r, &nothing, l, true, out);
    *out = list_value(l, LAZY);
    return true;
}

/* first, last */
static bool filter_end(struct render *r, const struct value *v, bool last, struct value *out)
{
    struct value from = *v;
    const struct list *l;
    if (last && v->kind == LAZY) return fail_text(r, CHAT_REFUSED, "'generator' object is not reversible");
    if (last && v->kind == UNDEFINED) return fail_text(r, CHAT_REFUSED, "an undefined value is reversed");
    if (v->kind == LAZY) {                                     /* consumes one item of it */
        *out = undefined_value(CHAT_NONE);
        if (!v->list->n) return true;
        *out = v->list->items[0];
        v->list->items++;
        v->list->n--;
        v->list->most = v->list->n;
        return true;
    }
    if (!items_of(r, &from, &l)) return false;
    *out = l->n ? l->items[last ? l->n - 1 : 0] : undefined_value(CHAT_NONE);
    return true;
}

/* batch: rows of n; slice: n columns. */
static bool filter_rows(struct render *r, const struct value *v, const struct arguments *args, bool columns, struct value *out)
{
    struct list *l, *rows;
    int64_t count;
    const struct value *fill = argument(r, args, 1, "fill_with");
    if (!argument_integer(r, argument(r, args, 0, columns ? "slices" : "linecount"), 0, &count) || !copy_items(r, v, &l)) return false;
    if (count < 1 || count > CHAT_RANGE) return fail_text(r, CHAT_REFUSED, "batch and slice need a number of at least 1");
    const size_t n = (size_t)count, n_rows = columns ? n : (l->n + n - 1) / n, per = l->n / n, more = l->n % n;
    size_t at = 0;
    if (!list_new(r, n_rows, &rows)) return false;
    for (size_t i = 0; i < n_rows; i++) {
        struct list *row;
        const size_t wanted = columns ? per + (i < more) : n, left = l->n - at, take = wanted < left ? wanted : left;
        if (!charge(r, wanted + 1) || !list_new(r, wanted + 1, &row)) return false;
        for (size_t k = 0; k < take; k++) row->items[row->n++] = l->items[at++];
        const bool filled = columns ? i >= more : true;
        while (fill && fill->kind != NONE && filled && row->n < (columns ? per + 1 : n)) row->items[row->n++] = *fill;
        rows->items[rows->n++] = list_value(row, LIST);
    }
    *out = list_value(rows, LAZY);
    return true;
}

/* ---- filters of text ---- */

static bool filter_indent(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *width = argument(r, args, 0, "width");
    const bool first = flag(r, args, 1, "first"), blank = flag(r, args, 2, "blank");
    struct value with = WORDS("");
    const struct value space = WORDS(" ");
    struct list *lines;
    struct builder b;
    int64_t n = 4;
    if (width && width->kind == STRING) with = *width;
    else {
        if (!argument_integer(r, width, 4, &n)) return false;
        if (n > 10000) return fail_text(r, CHAT_REFUSED, "indent: the width is above 10000");
        if (!string_pad(r, &with, n > 0 ? (size_t)n : 0, 0, &space, &with)) return false;
    }
    const struct value newline = WORDS("\n");
    struct value whole;
    if (!string_add(r, s, &newline, &whole) || !string_lines(r, &whole, false, &lines)) return false;      /* as Jinja does */
    builder_begin(&b, r);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) BUILDER_WORDS(&b, "\n");
        if (i ? blank || lines->items[i].n : first) builder_string(&b, &with);
        builder_string(&b, &lines->items[i]);
    }
    if (!builder_end(&b, out)) return false;
    out->safe = s->safe;
    return true;
}

static bool filter_title(struct render *r, const struct value *s, struct value *out)
{
    struct list *words;
    const struct value nothing = WORDS("");
    if (!charge_letters(r, s->n) || !list_new(r, 0, &words)) return false;
    for (size_t at = 0; at < s->n; ) {
        size_t end = at, step = 1;
        bool gap = false;
        for (; end < s->n && (end == at || !gap); end += step) {
            step = text_step(s->text + end, s->n - end);
            const uint32_t c = text_codepoint(s->text + end, step);
            gap = text_is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
            if (gap && end > at) break;
        }
        struct value word = string_part(s, at, end - at), head, tail;
        const size_t lead = text_step(word.text, word.n);
        head = string_part(&word, 0, lead);
        tail = string_part(&word, lead, word.n - lead);
        if (!string_case(r, &head, CASE_UPPER, &head) || !string_case(r, &tail, CASE_LOWER, &tail)) return false;
        if (!list_add(r, words, head) || !list_add(r, words, tail)) return false;
        at = end;
    }
    return string_join(r, &nothing, words, true, out);
}

static bool filter_truncate(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    int64_t most, leeway;
    size_t length;
    const struct value *given = argument(r, args, 2, "end");
    const struct value end = given ? *given : WORDS("...");
    if (!value_length(r, s, &length)) return false;
    if (!argument_integer(r, argument(r, args, 0, "length"), 255, &most)) return false;
    if (!argument_integer(r, argument(r, args, 3, "leeway"), 5, &leeway) || !argument_string(r, &end, "truncate")) return false;
    if (!charge_letters(r, end.n)) return false;
    const int64_t n_end = (int64_t)text_codepoints(end.text, end.n);
    *out = *s;
    if (most < n_end) return fail_text(r, CHAT_REFUSED, "truncate: the length is less than that of the end");
    if (leeway < 0) return fail_text(r, CHAT_REFUSED, "truncate: the leeway is below 0");
    if ((int64_t)length <= most || (int64_t)length - most <= leeway) return true;
    if (s->kind != STRING) return fail_with(r, "truncate needs text, not '%s'", kind_name(s), "");
    size_t cut = text_offset(s->text, s->n, (size_t)(most - n_end));
    if (!flag(r, args, 1, "killwords"))
        for (size_t i = cut; i > 0; i--) if (s->text[i - 1] == ' ') { cut = i - 1; break; }
    const struct value head = string_part(s, 0, cut);
    return string_add(r, &head, &end, out);
}

static bool filter_wordcount(struct render *r, const struct value *s, struct value *out)
{
    int64_t n = 0;
    bool in = false;
    if (!charge_letters(r, s->n)) return false;
    for (size_t at = 0, step; at < s->n; at += step) {
        step = text_step(s->text + at, s->n - at);
        const uint32_t c = text_codepoint(s->text + at, step);
        const enum unicode_class class = unicode_class(c);
        const bool word = c == '_' || class == UNICODE_LETTER || class == UNICODE_NUMBER;
        n += word && !in;
        in = word;
    }
    *out = int_value(n);
    return true;
}

static bool filter_center(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    int64_t width;
    const struct value space = WORDS(" ");
    if (!argument_integer(r, argument(r, args, 0, "width"), 80, &width)) return false;
    if (width > 10000) return fail_text(r, CHAT_REFUSED, "center: the width is above 10000");
    if (!charge_letters(r, s->n)) return false;
    const int64_t n = (int64_t)text_codepoints(s->text, s->n);
    const size_t more = width > n ? (size_t)(width - n) : 0;
    const size_t left = more / 2 + (more & (size_t)width & 1);
    return string_pad(r, s, left, more - left, &space, out);
}

static bool filter_replace(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *old = argument(r, args, 0, "old"), *with = argument(r, args, 1, "new");
    struct value a, b;
    int64_t most;
    if (!old || !with) return fail_text(r, CHAT_REFUSED, "replace needs two texts");
    if (!argument_integer(r, argument(r, args, 2, "count"), -1, &most)) return false;
    return value_text(r, old, &a) && value_text(r, with, &b) && string_replace(r, s, &a, &b, most, out);
}

static bool filter_format(struct render *r, const struct value *s, const struct arguments *args, struct value *out)
{
    struct list *l;
    struct dict *d;
    struct value all;
    if (args->n && args->n_named) return fail_text(r, CHAT_REFUSED, "format takes arguments with names or without, not both");
    if (args->n_named) {
        if (!dict_new(r, args->n_named, &d)) return false;
        for (uint32_t i = 0; i < args->n_named; i++) if (!dict_set(r, d, image_string(r, args->names[2 * i]), args->named[i])) return false;
        all = (struct value){ .kind = DICT, .dict = d };
    } else {
        if (!list_new(r, args->n, &l)) return false;
        for (uint32_t i = 0; i < args->n; i++) l->items[l->n++] = args->at[i];
        all = list_value(l, TUPLE);
    }
    return string_percent(r, s, &all, out);
}

static bool filter_tojson(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *ascii = argument(r, args, 0, "ensure_ascii"), *indent = argument(r, args, 1, "indent");
    const struct value *separators = argument(r, args, 2, "separators"), *sort = argument(r, args, 3, "sort_keys");
    struct tojson how = { .ascii = ascii && truth_of(ascii), .sort = sort && truth_of(sort), .item = WORDS(", "), .key = WORDS(": ") };
    if (indent && indent->kind != NONE) {
        how.indented = true;
        how.item = WORDS(",");
        if (indent->kind == STRING) how.indent_text = *indent;
        else if (!is_integer(indent)) return fail_with(r, "tojson: indent must be a number, not '%s'", kind_name(indent), "");
        else if (integer_of(indent) > 0) how.indent = integer_of(indent) < 1000 ? (size_t)integer_of(indent) : 1000;
    }
    if (separators && separators->kind != NONE) {
        if ((separators->kind != TUPLE && separators->kind != LIST) || separators->list->n != 2 ||
            separators->list->items[0].kind != STRING || separators->list->items[1].kind != STRING)
            return fail_text(r, CHAT_REFUSED, "tojson: separators must be two texts");
        how.item = separators->list->items[0];
        how.key = separators->list->items[1];
    }
    return value_tojson(r, v, &how, out);
}

/* ---- filters of numbers ---- */

/* The value of a decimal digit of any script: ten in a row, which begin at a multiple of 16 or 6 behind it, or are mathematical. */
static uint32_t digit_of(uint32_t c)
{
    if (c >= 0x1d7ce && c <= 0x1d7ff) return (c - 0x1d7ce) % 10;
    return unicode_fine_class(c & ~15u) == UNICODE_DIGIT ? c & 15 : (c & 15) - 6;
}

/* The text as int() and float() read it: without white space around it, digits in ASCII, without the underscores between them.  False: it
 * is no number, or failed. */
static bool plain_number(struct render *r, const struct value *s, struct value *out)
{
    struct value t;
    size_t n = 0;
    bool digit = false;                                        /* before `at` */
    if (!string_strip(r, s, NULL, true, true, &t) || !charge_letters(r, t.n)) return false;
    char *const to = room_take(r->room, t.n);
    if (!to) return fail_room(r);
    for (size_t at = 0, step; at < t.n; at += step) {
        step = text_step(t.text + at, t.n - at);
        const uint32_t c = text_codepoint(t.text + at, step);
        if (c == '_') {
            if (!digit || at + 1 == t.n || t.text[at + 1] == '_') return false;
            digit = false;
            continue;
        }
        const bool before = at > 0 && t.text[at - 1] == '_';
        digit = unicode_fine_class(c) == UNICODE_DIGIT;
        if ((before && !digit) || (c >= 0x80 && !digit)) return false;
        to[n++] = digit ? (char)('0' + digit_of(c)) : (char)c;
    }
    *out = string_value(to, n);
    return true;
}

static bool is_word(const char *text, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++) if ((text[i] | 32) != word[i]) return false;
    return !word[n];
}

/* Text that Python's int() or float() accepts.  False: other text, or failed. */
static bool integer_of_text(struct render *r, const struct value *s, struct value *out)
{
    enum { MOST_DIGITS = 4300 };                               /* of Python's int() */
    struct value t;
    if (!plain_number(r, s, &t)) return false;
    const bool minus = t.n && t.text[0] == '-';
    size_t at = minus || (t.n && t.text[0] == '+');
    uint64_t whole = 0;
    bool large = false;
    if (at == t.n || t.n - at > MOST_DIGITS) return false;
    for (size_t i = at; i < t.n; i++) if (t.text[i] < '0' || t.text[i] > '9') return false;
    while (at + 1 < t.n && t.text[at] == '0') at++;
    for (size_t i = at; i < t.n; i++) {
        large |= __builtin_mul_overflow(whole, 10, &whole);
        large |= __builtin_add_overflow(whole, (uint64_t)(t.text[i] - '0'), &whole);
    }
    if (!large && whole <= (uint64_t)INT64_MAX + minus) { *out = int_value((int64_t)(minus ? 0 - whole : whole)); return true; }
    char *const text = (char *)(uintptr_t)t.text;              /* from plain_number */
    if (minus) text[--at] = '-';
    *out = (struct value){ .kind = BIG, .text = text + at, .n = t.n - at };
    return true;
}

static bool float_of_text(struct render *r, const struct value *s, double *out)
{
    struct value t;
    if (!plain_number(r, s, &t) || !charge(r, NUMBER_STEPS)) return false;
    size_t at = t.n && (t.text[0] == '+' || t.text[0] == '-'), digits = 0;
    const size_t begin = at;
    const bool minus = begin && t.text[0] == '-';
    const double most = 1.7976931348623157e308;
    double f = 0;
    if (is_word(t.text + at, t.n - at, "inf") || is_word(t.text + at, t.n - at, "infinity")) f = most * 10;
    else if (is_word(t.text + at, t.n - at, "nan")) f = most * 10 - most * 10;
    else {
        for (; at < t.n && t.text[at] >= '0' && t.text[at] <= '9'; at++) digits++;
        if (at < t.n && t.text[at] == '.') for (at++; at < t.n && t.text[at] >= '0' && t.text[at] <= '9'; at++) digits++;
        if (!digits) return false;
        if (at < t.n && (t.text[at] | 32) == 'e') {
            size_t e = at + 1;
            if (e < t.n && (t.text[e] == '+' || t.text[e] == '-')) e++;
            const size_t from = e;
            while (e < t.n && t.text[e] >= '0' && t.text[e] <= '9') e++;
            if (e > from) at = e;
        }
        if (at < t.n) return false;
        f = number_read(t.text + begin, t.n - begin);
    }
    *out = minus ? -f : f;
    return true;
}

static bool filter_int(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *otherwise = argument(r, args, 0, "default"), *base = argument(r, args, 1, "base");
    double f = 0;
    if (base && !(is_integer(base) && integer_of(base) == 10))
        return fail_text(r, CHAT_REFUSED, "int: a base other than 10 is not supported");
    if (v->kind == FLOAT && v->f == v->f && v->f - v->f != 0)
        return fail_text(r, CHAT_REFUSED, "cannot convert float infinity to integer");
    if (is_integer(v)) *out = int_value(integer_of(v));
    else if (v->kind == BIG) *out = *v;
    else if (v->kind == FLOAT && float_to_integer(r, v->f, out)) return true;
    else if (v->kind == STRING && (integer_of_text(r, v, out) || (float_of_text(r, v, &f) && float_to_integer(r, f, out)))) return true;
    else *out = otherwise ? *otherwise : int_value(0);
    return !r->failed;
}

static bool filter_float(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *otherwise = argument(r, args, 0, "default");
    double f;
    if (is_number(v)) {
        f = number_of(r, v);
        if (v->kind == BIG && f - f != 0) return fail_text(r, CHAT_REFUSED, "int too large to convert to float");
        *out = float_value(f);
    } else if (v->kind == STRING && float_of_text(r, v, &f)) *out = float_value(f);
    else *out = otherwise ? *otherwise : float_value(0);
    return !r->failed;
}

static bool filter_round(struct render *r, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *method = argument(r, args, 1, "method");
    const bool common = !method || string_is(method, "common"), up = method && string_is(method, "ceil");
    int64_t places;
    char text[NUMBER_BYTES];
    if (!common && !up && !string_is(method, "floor")) return fail_text(r, CHAT_REFUSED, "method must be common, ceil or floor");
    if (!is_number(v)) return fail_with(r, "round: '%s' is not a number", kind_name(v), "");
    if (!argument_integer(r, argument(r, args, 0, "precision"), 0, &places) || !charge(r, DIGITS_STEPS)) return false;
    if (places < 0 || places > 60) return fail_text(r, CHAT_REFUSED, "round: the number of places must be from 0 to 60");
    if (common) {
        *out = v->kind == BOOL ? int_value(v->b) : *v;         /* integers and what is not finite */
        if (v->kind == FLOAT && v->f - v->f == 0) *out = float_value(number_read(text, number_fixed(v->f, (uint32_t)places, text)));
        return true;
    }
    memcpy(text, "1e", 2);
    const double scale = number_read(text, 2 + integer_text(places, text + 2));
    double x = number_of(r, v) * scale;
    if (x - x != 0) return fail_text(r, CHAT_REFUSED, "what is rounded up or down is not finite");
    if (x > -9e15 && x < 9e15) {
        const double whole = (double)(int64_t)x;
        x = up ? whole + (whole < x) : whole - (whole > x);
    }
    *out = float_value(x / scale);
    return !r->failed;
}

static bool filter_abs(struct render *r, const struct value *v, struct value *out)
{
    if (is_integer(v) && integer_of(v) != INT64_MIN) *out = int_value(integer_of(v) < 0 ? -integer_of(v) : integer_of(v));
    else if (v->kind == FLOAT) *out = float_value(v->f < 0 ? -v->f : v->f + 0.0);     /* -0.0 + 0.0 is 0.0 */
    else if (v->kind == BIG) {
        *out = *v;
        if (v->text[0] == '-') { out->text++; out->n--; }
    } else return fail_with(r, "abs: '%s' is not a number", kind_name(v), "");
    return true;
}

/* ---- table of filters ---- */

static bool to_soft(struct render *r, const struct value *v, struct value *out)       /* to text; Markup stays Markup */
{
    if (v->kind == STRING) { *out = *v; return true; }
    return value_text(r, v, out);
}

static bool text_filter(struct render *r, uint32_t filter, const struct value *s, const struct arguments *args, struct value *out)
{
    const struct value *chars;
    struct value plain = *s;
    switch (filter) {
    case CHAT_F_capitalize: return string_case(r, s, CASE_CAPITAL, out);
    case CHAT_F_center: return filter_center(r, s, args, out);
    case CHAT_F_format: return filter_format(r, s, args, out);
    case CHAT_F_indent: return filter_indent(r, s, args, out);
    case CHAT_F_lower: return string_case(r, s, CASE_LOWER, out);
    case CHAT_F_upper: return string_case(r, s, CASE_UPPER, out);
    case CHAT_F_title: return filter_title(r, s, out);
    case CHAT_F_wordcount: return filter_wordcount(r, s, out);
    case CHAT_F_string: *out = *s; return true;
    case CHAT_F_safe: *out = *s; out->safe = 1; return true;
    case CHAT_F_e: case CHAT_F_escape: return string_escape(r, s, out);
    case CHAT_F_forceescape: plain.safe = 0; return string_escape(r, &plain, out);
    case CHAT_F_replace: plain.safe = 0; return filter_replace(r, &plain, args, out);
    default:                                                   /* trim */
        chars = argument(r, args, 0, "chars");
        if (chars && chars->kind == NONE) chars = NULL;
        if (chars && !argument_string(r, chars, "trim")) return false;
        return string_strip(r, s, chars, true, true, out);
    }
}

bool filter_apply(struct render *r, uint32_t filter, const struct value *v, const struct arguments *args, struct value *out)
{
    const struct value *first = args->n ? &args->at[0] : NULL, *other;
    struct value text;
    struct list *l;
    size_t n;
    switch (filter) {
    case CHAT_F_abs: return filter_abs(r, v, out);
    case CHAT_F_attr:
        if (!first || first->kind != STRING) return fail_text(r, CHAT_REFUSED, "attr needs a name");
        text = *v;
        if (v->kind != DICT) return value_attribute(r, &text, first, CHAT_NONE, out);
        *out = undefined_value(CHAT_NONE);
        return true;
    case CHAT_F_batch: return filter_rows(r, v, args, false, out);
    case CHAT_F_slice: return filter_rows(r, v, args, true, out);
    case CHAT_F_length: case CHAT_F_count:
        if (!value_length(r, v, &n)) return false;
        *out = int_value((int64_t)n);
        return true;
    case CHAT_F_d: case CHAT_F_default:
        other = argument(r, args, 0, "default_value");
        *out = v->kind == UNDEFINED || (flag(r, args, 1, "boolean") && !truth_of(v)) ? other ? *other : WORDS("") : *v;
        return true;
    case CHAT_F_dictsort: return filter_dictsort(r, v, args, out);
    case CHAT_F_first: return filter_end(r, v, false, out);
    case CHAT_F_last: return filter_end(r, v, true, out);
    case CHAT_F_float: case CHAT_F_int:
        if (v->kind == UNDEFINED) return fail_undefined(r, v);
        return filter == CHAT_F_int ? filter_int(r, v, args, out) : filter_float(r, v, args, out);
    case CHAT_F_items:
        if (v->kind != DICT && v->kind != UNDEFINED) return fail_text(r, CHAT_REFUSED, "Can only get item pairs from a mapping.");
        if (v->kind == DICT ? !pair_list(r, v->dict, &l) : !list_new(r, 0, &l)) return false;
        *out = list_value(l, LAZY);
        return true;
    case CHAT_F_join: return filter_join(r, v, args, out);
    case CHAT_F_list:
        if (!copy_items(r, v, &l)) return false;
        *out = list_value(l, LIST);
        return true;
    case CHAT_F_map: return filter_map(r, v, args, out);
    case CHAT_F_max: return filter_extreme(r, v, args, true, out);
    case CHAT_F_min: return filter_extreme(r, v, args, false, out);
    case CHAT_F_reject: return filter_select(r, v, args, false, false, out);
    case CHAT_F_rejectattr: return filter_select(r, v, args, false, true, out);
    case CHAT_F_select: return filter_select(r, v, args, true, false, out);
    case CHAT_F_selectattr: return filter_select(r, v, args, true, true, out);
    case CHAT_F_reverse: return filter_reverse(r, v, out);
    case CHAT_F_round: return filter_round(r, v, args, out);
    case CHAT_F_sort: return filter_sort(r, v, args, out);
    case CHAT_F_sum: return filter_sum(r, v, args, out);
    case CHAT_F_tojson: return filter_tojson(r, v, args, out);
    case CHAT_F_truncate: return filter_truncate(r, v, args, out);
    case CHAT_F_unique: return filter_unique(r, v, args, out);
    case CHAT_UNKNOWN: return fail_text(r, CHAT_REFUSED, "this filter is not supported");
    default: break;
    }
    if (filter == CHAT_F_indent && v->kind != STRING) return fail_with(r, "indent needs text, not '%s'", kind_name(v), "");
    return to_soft(r, v, &text) && text_filter(r, filter, &text, args, out);
}

/* ---- tests ---- */

static bool is_callable(const struct value *v)
{
    return v->kind == MACRO || v->kind == FUNCTION || v->kind == METHOD || v->kind == JOINER || v->kind == LOOP;
}

static bool is_same(struct render *r, const struct value *a, const struct value *b, bool *out)
{
    *out = a->kind == b->kind;
    if (!*out) return true;
    if (a->kind == LIST || a->kind == TUPLE || a->kind == DICT || a->kind == NAMESPACE) { *out = a->list == b->list; return true; }
    return values_equal(r, a, b, out);
}

static bool test_number(struct render *r, uint32_t test, const struct value *v, const struct value *by, bool *out)
{
    if (!is_integer(v) && v->kind != FLOAT) return fail_with(r, "'%s' cannot be divided", kind_name(v), "");
    int64_t divisor = 2;
    if (test == CHAT_T_divisibleby && (!argument_integer(r, by, 0, &divisor))) return false;
    if (divisor == 0) return fail_text(r, CHAT_REFUSED, "division by zero");
    if (v->kind == FLOAT) {
        const double rest = number_remainder(v->f, (double)divisor);
        *out = test == CHAT_T_odd ? rest == 1 || rest == -1 : rest == 0;
        return charge(r, NUMBER_STEPS);
    }
    const int64_t rest = divisor == -1 ? 0 : integer_of(v) % divisor;
    *out = test == CHAT_T_odd ? rest != 0 : rest == 0;
    return true;
}

static bool test_order(struct render *r, uint32_t test, const struct value *v, const struct value *other, bool *out)
{
    int order;
    if (!other) return fail_text(r, CHAT_REFUSED, "a test needs one more argument");
    const bool less = test == CHAT_T_lt || test == CHAT_T_lessthan, more = test == CHAT_T_gt || test == CHAT_T_greaterthan;
    if (!values_order(r, v, other, less ? "<" : more ? ">" : test == CHAT_T_le ? "<=" : ">=", &order)) return false;
    *out = less ? order < 0 : more ? order > 0 : test == CHAT_T_le ? order <= 0 : order >= 0;
    return true;
}

bool test_apply(struct render *r, uint32_t test, const struct value *v, const struct arguments *args, bool *out)
{
    const struct value *other = args->n ? &args->at[0] : NULL;
    struct value text;
    const enum kind kind = (enum kind)v->kind;
    if (!other && (test == CHAT_T_eq || test == CHAT_T_equalto || test == CHAT_T_ne || test == CHAT_T_in || test == CHAT_T_sameas))
        return fail_text(r, CHAT_REFUSED, "a test needs one more argument");
    switch (test) {
    case CHAT_T_boolean: *out = kind == BOOL; return true;
    case CHAT_T_callable: *out = is_callable(v); return true;
    case CHAT_T_defined: *out = kind != UNDEFINED; return true;
    case CHAT_T_undefined: *out = kind == UNDEFINED; return true;
    case CHAT_T_divisibleby: case CHAT_T_even: case CHAT_T_odd: return test_number(r, test, v, other, out);
    case CHAT_T_eq: case CHAT_T_equalto: return values_equal(r, v, other, out);
    case CHAT_T_ne:
        if (!values_equal(r, v, other, out)) return false;
        *out = !*out;
        return true;
    case CHAT_T_ge: case CHAT_T_gt: case CHAT_T_greaterthan: case CHAT_T_le: case CHAT_T_lt: case CHAT_T_lessthan:
        return test_order(r, test, v, other, out);
    case CHAT_T_escaped: *out = kind == STRING && v->safe; return true;
    case CHAT_T_false: *out = kind == BOOL && !v->b; return true;
    case CHAT_T_true: *out = kind == BOOL && v->b; return true;
    case CHAT_T_filter: *out = kind == STRING && filter_find(v) != CHAT_UNKNOWN; return charge_letters(r, CHAT_F_COUNT);
    case CHAT_T_test: *out = kind == STRING && test_find(v) != CHAT_UNKNOWN; return charge_letters(r, CHAT_T_COUNT);
    case CHAT_T_float: *out = kind == FLOAT; return true;
    case CHAT_T_integer: *out = kind == INT || kind == BIG; return true;
    case CHAT_T_number: *out = is_number(v); return true;
    case CHAT_T_in: return value_in(r, v, other, out);
    case CHAT_T_iterable:
        *out = kind == UNDEFINED || kind == STRING || kind == LIST || kind == TUPLE || kind == LAZY || kind == VIEW || kind == DICT ||
               kind == RANGE || kind == LOOP;
        return true;
    case CHAT_T_sequence:
        *out = kind == UNDEFINED || kind == STRING || kind == LIST || kind == TUPLE || kind == DICT || kind == RANGE;
        return true;
    case CHAT_T_mapping: *out = kind == DICT; return true;
    case CHAT_T_none: *out = kind == NONE; return true;
    case CHAT_T_sameas: return is_same(r, v, other, out);
    case CHAT_T_string: *out = kind == STRING; return true;
    case CHAT_T_lower: case CHAT_T_upper:
        return value_text(r, v, &text) && string_is_class(r, &text, test == CHAT_T_lower ? CHAT_S_islower : CHAT_S_isupper, out);
    default: return fail_text(r, CHAT_REFUSED, "a test that is not supported");
    }
}
