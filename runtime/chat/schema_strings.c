/* schema_strings.c -- strings: patterns, formats and lengths, each alone or together. */
#include "schema_writer.h"
#include "pattern.h"

#define DATE "\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))"
#define HOUR "([01]\\d|2[0-3])"
#define TIME HOUR ":[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" HOUR ":[0-5]\\d)"
#define LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]{0,30}[a-zA-Z0-9])?"
#define WIDE_LABEL "[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?"
#define OCTET "(\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])"
#define H "[0-9a-fA-F]{1,4}"
#define NUMBER "\\d{1,4}"
#define CLOCK "T(" NUMBER "H(" NUMBER "M(" NUMBER "S)?)?|" NUMBER "M(" NUMBER "S)?|" NUMBER "S)"
#define URI_CHARACTER "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"

/* Formats that are enforced, with their patterns.  The patterns are somewhat narrower than the standards. */
#define EMAIL_PART "[a-zA-Z0-9_+-]"
static const struct { const char *name, *pattern; } formats[] = {
    { "date", "^" DATE "$" }, { "time", "^" TIME "$" }, { "date-time", "^" DATE "T" TIME "$" },
    { "uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
    { "ipv4", "^" OCTET "\\." OCTET "\\." OCTET "\\." OCTET "$" },
    { "ipv6", "^((" H ":){7}" H "|::(" H "(:" H "){0,6})?|" H "::(" H "(:" H "){0,5})?|(" H ":){2}:(" H "(:" H "){0,4})?|(" H ":){3}:(" H
              "(:" H "){0,3})?|(" H ":){4}:(" H "(:" H "){0,2})?|(" H ":){5}:(" H "(:" H ")?)?|(" H ":){6}:(" H ")?|(" H ":){7}:)$" },
    { "email", "^" EMAIL_PART "{1,20}(\\." EMAIL_PART "{1,20}){0,2}@" LABEL "(\\." LABEL "){1,4}$" },
    { "hostname", "^" LABEL "(\\." LABEL "){0,4}$" },
    { "duration", "^P((" NUMBER "D|" NUMBER "M(" NUMBER "D)?|" NUMBER "Y(" NUMBER "M(" NUMBER "D)?)?)(" CLOCK ")?|" CLOCK "|"
        "" NUMBER "W)$" },
    { "uri", "^[a-zA-Z][a-zA-Z0-9+.-]{0,15}:(//(" LABEL "\\.){0,4}[a-zA-Z]{2,20}(:[1-9]\\d{0,3})?(/" URI_CHARACTER "*)*|"
        "" URI_CHARACTER "+(/"
             URI_CHARACTER "+)*)(\\?(" URI_CHARACTER "|[/?])*)?(#(" URI_CHARACTER "|[/?])*)?$" },
    { "byte", "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$" },
    { "json-pointer", "^(/([^~/]|~[01])*)*$" },
};

/* Formats of the standard that are not enforced. */
static const char *const unenforced[] = { "idn-email", "idn-hostname", "uri-reference", "iri", "iri-reference", "uri-template",
                                          "relative-json-pointer", "regex" };

/* The number of a format that is enforced, else -1: JSON Schema then treats the format as an annotation, and any text satisfies it. */
static int format_of(const struct json *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) if (json_is(format, formats[i].name)) return (int)i;
    return -1;
}

static struct texts_out texts_to(struct schema_writer *w) { return (struct texts_out){ w->out, w->prefix, "char" }; }

/* A keyword's value, or several in a list that schema_merge made (its text is not NULL).  Calls add for each. */
static const struct json *values_of(const struct json *v, uint32_t *n)
{
    const bool list = v && v->kind == JSON_ARRAY && v->text;
    *n = list ? (uint32_t)v->n : v != NULL;
    return list ? v->first : v;
}

static bool add_patterns(struct schema_writer *w, struct texts *t, const struct json *s, struct texts_node **all)
{
    uint32_t n;
    const char *why = NULL;
    const struct json *keyword = json_member(s, "pattern");
    for (const struct json *p = values_of(keyword, &n); n > 0; n--, p = p->next) {
        if (p->kind != JSON_STRING) return schema_fail_word(w, "pattern", "is not a string");
        struct texts_node *x = pattern_texts(t, p->text, p->n, &why);
        if (!x) return schema_fail_soft(w, "pattern", why);
        *all = texts_and(t, *all, x);
    }
    return true;
}

/* wide: with fewer states, for a text whose length is limited otherwise. */
static bool add_formats(struct schema_writer *w, struct texts *t, const struct json *s, bool wide, struct texts_node **all,
    uint32_t *n_formats)
{
    static const char wide_email[] = "^" EMAIL_PART "+(\\." EMAIL_PART "+)*@(" WIDE_LABEL "\\.)+[a-zA-Z]{2,}$";
    uint32_t n;
    const char *why;
    const struct json *keyword = json_member(s, "format");
    *n_formats = 0;
    for (const struct json *f = values_of(keyword, &n); n > 0; n--, f = f->next) {
        if (f->kind != JSON_STRING) return schema_fail_word(w, "format", "is not a string");
        const int number = format_of(f);
        if (number < 0) continue;
        const char *const pattern = wide && json_is(f, "email") ? wide_email : formats[number].pattern;
        struct texts_node *x = pattern_texts(t, pattern, text_bytes(pattern), &why);
        if (!x) return schema_fail_soft(w, "format", why);
        *all = texts_and(t, *all, x);
        ++*n_formats;
    }
    return true;
}

static bool add_lengths(struct schema_writer *w, struct texts *t, const struct json *s, struct texts_node **all, bool *narrows)
{
    uint64_t least, most;
    uint32_t shortest, longest;
    bool bounded;
    *narrows = false;
    if (!schema_lengths(w, s, "minLength", "maxLength", &least, &most, &bounded)) return false;
    if (least > GRAMMAR_MOST_REPEAT || (bounded && most > GRAMMAR_MOST_REPEAT))
        return schema_fail_soft(w, bounded && most > GRAMMAR_MOST_REPEAT ? "maxLength" : "minLength", "is beyond 1048576");
    texts_lengths(*all, &shortest, &longest);
    if (shortest >= least && (!bounded || longest <= most)) return true;
    *narrows = true;
    *all = texts_and(t, *all, texts_repeat(t, t->any, (uint32_t)least, bounded ? (uint32_t)most : TEXTS_ANY_NUMBER));
    return true;
}

bool schema_string_texts(struct schema_writer *w, struct texts *t, const struct json *s, struct texts_node **out)
{
    const struct json *list = json_member(s, "enum"), *one = json_member(s, "const");
    uint32_t n_formats;
    bool narrows;
    *out = t->all;
    if (!add_patterns(w, t, s, out) || !add_formats(w, t, s, false, out, &n_formats) || !add_lengths(w, t, s, out, &narrows)) return false;
    if (list || one) {
        struct texts_node *some = t->none;
        for (const struct json *v = list ? list->first : one; v; v = list ? v->next : NULL)
            if (v->kind == JSON_STRING && texts_have(t, *out, v->text, v->n) && (!list || !one || schema_same(w, one, v)))
                some = texts_or(t, some, texts_literal(t, v->text, v->n));
        *out = some;
    }
    return !t->failed || schema_fail_soft(w, list ? "enum" : "pattern", "is too large");
}

/* How a string is written. */
enum how { ANY_STRING, LENGTHS, FORMAT, OWN_RULES };
static enum how how_of(const struct schema_writer *w, const struct json *s, bool *narrows, int *format)
{
    const struct json *pattern = json_member(s, "pattern"), *f = json_member(s, "format");
    (void)w;
    *format = f && f->kind == JSON_STRING ? format_of(f) : -1;
    *narrows = json_member(s, "minLength") || json_member(s, "maxLength");
    if (pattern || (f && f->kind != JSON_STRING)) return OWN_RULES;
    if (*format < 0) return *narrows ? LENGTHS : ANY_STRING;
    return *narrows ? OWN_RULES : FORMAT;
}

static void note_format(struct schema_writer *w, const struct json *s)
{
    for (size_t i = 0; i < sizeof unenforced / sizeof *unenforced; i++)
        if (json_is(json_member(s, "format"), unenforced[i])) schema_note(w, "format", "is one that is not enforced");
}

/* Rules p0, p1 ... */
static bool put_own_rules(struct schema_writer *w, const struct json *s)
{
    struct texts t;
    struct texts_node *all;
    const bool has_pattern = json_member(s, "pattern") != NULL;
    bool narrows;
    uint32_t n_formats;
    char name[64];
    struct text_out part = { name, sizeof name - 1, 0, false }, *const out = w->out;
    const struct texts_out to = texts_to(w);
    if (!texts_open(&t, w->room, w->work)) return schema_no_texts(w, has_pattern ? "pattern" : "format");
    for (uint32_t wide = 0; wide < 2; wide++) {
        all = t.all;
        if (!add_patterns(w, &t, s, &all) || !add_formats(w, &t, s, wide, &all, &n_formats) || !add_lengths(w, &t, s, &all, &narrows))
            return false;
        if (!narrows) break;
    }
    w->out = &part;
    schema_put_part(w, "p", 0);
    w->out = out;
    name[--part.n] = 0;                                      /* without the 0 */
    if (!all->mixed && !t.failed) {
        PUT("\n");
        schema_put_part(w, "p", 0);
        PUT(" ::= ");
        texts_put(&t, all, &to);
        return true;
    }
    const struct texts_automaton *a = t.failed ? NULL : texts_automaton(&t, all);
    if (!a) return schema_fail_soft(w, narrows ? json_member(s, "maxLength") ? "maxLength" : "minLength" : n_formats && has_pattern
        ? "format"
                                       : "pattern", "is too large, or too large together with the keywords beside it");
    if (texts_no_text(a)) {
        if (n_formats && has_pattern) return schema_fail_soft(w, "format", "and the pattern beside it exclude each other");
        return schema_fail(w, NULL, 0, "the pattern, format and lengths of a string exclude each other");
    }
    texts_put_rules(&t, a, &to, name);
    return true;
}

bool schema_string_rules(struct schema_writer *w, const struct json *s)
{
    const size_t mark = w->room->used;
    bool narrows;
    int format;
    note_format(w, s);
    if (how_of(w, s, &narrows, &format) != OWN_RULES) return true;
    const bool good = put_own_rules(w, s);
    w->room->used = mark;
    return good;
}

bool schema_put_string(struct schema_writer *w, const struct json *s)
{
    uint64_t least, most;
    bool bounded, narrows;
    int format;
    const enum how how = how_of(w, s, &narrows, &format);
    if (json_member(s, "format") && json_member(s, "format")->kind != JSON_STRING && !json_member(s, "format")->text)
        return schema_fail_word(w, "format", "is not a string");
    if (!schema_lengths(w, s, "minLength", "maxLength", &least, &most, &bounded)) return false;
    if (how == ANY_STRING || (how == LENGTHS && least == 0 && !bounded)) { schema_put_known(w, "string"); return true; }
    PUT("\"\\\"\" ");
    if (how == OWN_RULES) schema_put_part(w, "p", 0);
    else if (how == FORMAT) {
        schema_put_known(w, formats[format].name);
        w->formats |= 1u << format;
    } else {
        schema_put_known(w, "char");
        if (!schema_put_bounds(w, least, most, bounded)) return false;
    }
    PUT(" \"\\\"\"");
    return true;
}

void schema_put_formats(struct schema_writer *w)
{
    const struct texts_out to = texts_to(w);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct texts t;
        const char *why;
        const size_t mark = w->room->used;
        if (!(w->formats >> i & 1)) continue;
        uint32_t work = 1 << 16;
        struct texts_node *x = texts_open(&t, w->room, &work) ? pattern_texts(&t, formats[i].pattern, text_bytes(formats[i].pattern),
            &why) : NULL;
        PUT("\n");
        schema_put_known(w, formats[i].name);
        PUT(" ::= ");
        if (x) texts_put(&t, x, &to);
        else w->out->full = true;
        w->room->used = mark;
    }
}
