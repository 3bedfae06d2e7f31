/* test_chat.c -- chat templates: the results of transformers, byte for byte; origin of bytes; rooms that are too small; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "compiler/chat/model.h"
#include "runtime/chat/template.h"
#include "made_gguf.h"

static size_t allocated;                                       /* by rendering.c */
static void *counted(size_t n) { allocated += n; return malloc(n); }
#define malloc counted
#include "runtime/run/rendering.c"
#undef malloc

#define DATA FORGEC_UNPACKED "/chat"

enum { ROOM = 64 << 20, TEXT = 1 << 20 };
static const int64_t NOW = 1795338307;                         /* 2026-11-22 09:05:07 */

struct fixture {
    struct arena     *arena;
    struct bytes      image;
    struct room       data, work;          /* data: JSON of all tests; work: memory of a render */
    struct chat_text  text;
    struct chat_error error;
    struct chat_warnings warnings;
    struct chat_problem  problem;
};
static struct fixture f;

static struct bytes image_of(const char *source, size_t n)
{
    const struct chat_source s = { NULL, { (const uint8_t *)source, n } };
    uint32_t at;
    f.warnings.n = 0;
    if (f.arena) arena_destroy(f.arena);
    f.arena = arena_create();
    return f.image = chat_compile(f.arena, &s, 1, &f.warnings, &f.problem, &at);
}
static bool compile(const char *source) { return image_of(source, strlen(source)).data != NULL; }

static const struct json *read_json(const char *text, size_t n)
{
    struct json_error error;
    const struct json *v = json_read(&f.data, text, n, &error);
    if (!v) fail_msg("%.60s: %s at %zu", text, error.why ? error.why : "no room", error.at);
    return v;
}

static const struct json *read_file(const char *path)
{
    const struct bytes b = file_read(f.arena ? f.arena : (f.arena = arena_create()), path);
    char *copy = room_take(&f.data, b.size + 1);
    assert_non_null(copy);
    memcpy(copy, b.data, b.size);
    return read_json(copy, b.size);
}

static bool render(const struct json *variables, const struct json *more, const char *bos, const char *eos)
{
    const struct chat_input in = { variables, more, bos, eos, NOW, 0, false };
    return chat_render(f.image.data, NULL, &in, &f.work, &f.text, &f.error);
}

static bool render_text(const char *source, const char *variables)
{
    if (!compile(source)) fail_msg("%s: line %u: %s", source, f.problem.line, f.problem.text);
    f.data.used = 0;
    return render(read_json(variables, strlen(variables)), NULL, NULL, NULL);
}

static void gives(const char *source, const char *variables, const char *wanted)
{
    if (!render_text(source, variables)) fail_msg("%s: line %u: %s", source, f.error.line, f.error.text);
    f.text.bytes[f.text.n] = 0;
    assert_string_equal(f.text.bytes, wanted);
}

static void refuses(const char *source, const char *variables, enum chat_fault fault, const char *sentence)
{
    if (render_text(source, variables)) fail_msg("%s: '%.*s'", source, (int)f.text.n, f.text.bytes);
    assert_int_equal(f.error.fault, fault);
    if (!strstr(f.error.text, sentence)) fail_msg("%s: '%s', not '%s'", source, f.error.text, sentence);
}

static void refused_at_build(const char *source, uint32_t line, const char *sentence)
{
    if (compile(source)) fail_msg("%s: it was taken", source);
    assert_int_equal(f.problem.line, line);
    if (!strstr(f.problem.text, sentence)) fail_msg("%s: '%s', not '%s'", source, f.problem.text, sentence);
}

/* ---- the results of transformers ---- */

static bool is_kind(const struct json *error, const char *kind) { return error && json_is(json_member(error, "kind"), kind); }

/* expected: `expect`, with prefix before it, or `error`. */
static void check(const char *what, const struct json *expected, const struct json *prefix, bool fine)
{
    const struct json *error = json_member(expected, "error"), *text = json_member(expected, "expect");
    if (is_kind(error, "security")) return;                    /* .append and the like, which forgec supports */
    if (error && fine) fail_msg("%s: '%.*s', and it should be refused", what, (int)f.text.n, f.text.bytes);
    if (error && !is_kind(error, "raise_exception")) return;
    if (error) {
        assert_int_equal(f.error.fault, CHAT_RAISED);
        if (!json_is(json_member(error, "message"), f.error.text)) fail_msg("%s: '%s'", what, f.error.text);
        return;
    }
    if (!fine) fail_msg("%s: line %u: %s", what, f.error.line, f.error.text);
    const size_t n = prefix ? prefix->n : 0;
    if (f.text.n != n + text->n || (n && memcmp(f.text.bytes, prefix->text, n) != 0) || memcmp(f.text.bytes + n, text->text, text->n) != 0)
        fail_msg("%s: '%.*s', not '%.*s%.*s'", what, (int)f.text.n, f.text.bytes, (int)n, prefix ? prefix->text : "", (int)text->n,
                 text->text);
}

static char *text_of(const struct json *s)
{
    if (!s || s->kind != JSON_STRING) return NULL;
    char *text = room_take(&f.data, s->n + 1);
    memcpy(text, s->text, s->n);
    text[s->n] = 0;
    return text;
}

static void semantics(void **state)
{
    (void)state;
    f.data.used = 0;
    const struct json *all = read_file(DATA "/semantics.json"), *variables = json_member(all, "variables");
    uint32_t n = 0;
    for (const struct json *s = json_member(all, "snippets")->first; s; s = s->next, n++) {
        const struct json *source = json_member(s, "template");
        const char *name = text_of(json_member(s, "name"));
        if (!image_of(source->text, source->n).data) {
            if (!is_kind(json_member(s, "error"), "compile")) fail_msg("%s: %s", name, f.problem.text);
            continue;
        }
        check(name, s, NULL, render(variables, NULL, NULL, NULL));
    }
    assert_int_equal(n, 126);
}

typedef void visitor(const char *what, const struct json *expected, const struct json *prefix, const struct json *variables,
                     const struct json *more, const char *bos, const char *eos);

/* Calls visit for each render in the file `name`; returns their number. */
static uint32_t each_render(const char *name, const struct json *cases, visitor *visit)
{
    char path[512], what[512];
    snprintf(path, sizeof path, DATA "/%s", name);
    const struct json *all = read_file(path), *prefixes = json_member(all, "prefixes");
    const char *bos = text_of(json_member(all, "bos_token")), *eos = text_of(json_member(all, "eos_token"));
    const char *file = text_of(json_member(all, "template"));
    uint32_t n = 0;
    snprintf(path, sizeof path, DATA "/templates/%s", file);
    struct arena *a = arena_create();
    const struct bytes source = file_read(a, path);
    if (!image_of((const char *)source.data, source.size).data) fail_msg("%s: line %u: %s", file, f.problem.line, f.problem.text);
    arena_destroy(a);
    for (const struct json *r = json_member(all, "renders")->first; r; r = r->next, n++) {
        const struct json *c = json_member(r, "case"), *prefix = json_member(r, "prefix");
        int64_t at = 0;
        if (prefix) assert_true(json_integer(prefix, 0, 1000, &at));
        snprintf(what, sizeof what, "%s %.*s", file, (int)c->n, c->text);
        char *key = text_of(c);
        visit(what, r, prefix ? json_at(prefixes, (size_t)at) : NULL, json_member(cases, key), json_member(r, "kwargs"), bos, eos);
    }
    return n;
}

static uint32_t each_template(visitor *visit)
{
    DIR *d = opendir(DATA);
    uint32_t n = 0;
    f.data.used = 0;
    const struct json *cases = read_file(DATA "/cases.json");
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)); ) {
        const char *end = strrchr(e->d_name, '.');
        if (!end || strcmp(end, ".json") != 0 || !strcmp(e->d_name, "cases.json") || !strcmp(e->d_name, "semantics.json")) continue;
        const size_t used = f.data.used;
        n += each_render(e->d_name, cases, visit);
        f.data.used = used;
    }
    closedir(d);
    return n;
}

static void same_as_transformers(const char *what, const struct json *expected, const struct json *prefix, const struct json *variables,
                                 const struct json *more, const char *bos, const char *eos)
{
    check(what, expected, prefix, render(variables, more, bos, eos));
    assert_int_equal(f.work.used, 0);
}

static void renders(void **state)
{
    (void)state;
    assert_int_equal(each_template(same_as_transformers), 4967);
}

/* ---- origin of bytes ---- */

/* wanted: i (input) or t (template) for each byte. */
static void comes_from(const char *source, const char *variables, const char *wanted_text, const char *wanted)
{
    gives(source, variables, wanted_text);
    for (size_t i = 0; i < f.text.n; i++) f.text.input[i] = f.text.input[i] ? 'i' : 't';
    f.text.input[f.text.n] = 0;
    assert_string_equal((const char *)f.text.input, wanted);
}

static void marks(void **state)
{
    (void)state;
    static const char v[] = "{\"u\":\"ab c\",\"l\":[\"x\",\"y\"],\"n\":12}";
    comes_from("<{{ u }}>", v, "<ab c>", "tiiiit");
    comes_from("{{ '<' + u + '>' }}", v, "<ab c>", "tiiiit");
    comes_from("{{ '<' ~ u ~ n }}", v, "<ab c12", "tiiiitt");
    comes_from("{{ ('<' + u)[0:3] }}", v, "<ab", "tii");
    comes_from("{{ ('<' + u)[::-1] }}", v, "c ba<", "iiiit");
    comes_from("{{ ('<' + u).upper() }}", v, "<AB C", "tiiii");
    comes_from("{{ (' ' + u + ' ').strip() }}", v, "ab c", "iiii");
    comes_from("{{ ('1,' + u + ',2').split(',')|join('-') }}", v, "1-ab c-2", "ttiiiitt");
    comes_from("{{ u.replace('b', '<b>') }}", v, "a<b> c", "itttii");
    comes_from("{{ '<x>'.replace('x', u) }}", v, "<ab c>", "tiiiit");
    comes_from("{{ l|join('+') }}", v, "x+y", "iti");
    comes_from("{{ l|tojson }}", v, "[\"x\", \"y\"]", "iiiiiiiiii");
    comes_from("{{ ['a', u]|tojson }}", v, "[\"a\", \"ab c\"]", "ttttttiiiiiit");
    comes_from("{{ [u, 'a'] }}", v, "['ab c', 'a']", "tiiiiiitttttt");
    comes_from("{% set x %}<{{ u }}>{% endset %}{{ x }}", v, "<ab c>", "tiiiit");
    comes_from("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(u) + '.' }}", v, "<ab c>.", "tiiiitt");
    comes_from("{% filter upper %}<{{ u }}>{% endfilter %}", v, "<AB C>", "tiiiit");
    comes_from("{{ '{}|{}'.format(u, 'x') }}", v, "ab c|x", "iiiitt");
    comes_from("{{ '%s|%5s' % (u, 'x') }}", v, "ab c|    x", "iiiitttttt");
    comes_from("{{ ('<' + u)|indent(2, true) }}", v, "  <ab c", "tttiiii");
    comes_from("{{ u|safe + '<' }}", v, "ab c&lt;", "iiiitttt");
    comes_from("{% for c in '<' + u %}{{ c }}.{% endfor %}", v, "<.a.b. .c.", "ttititit" "it");
    comes_from("{{ strftime_now('%Y') }}{{ n + 1 }}{{ l|length }}", v, "2026132", "ttttttt");
}

/* Text of a user is marked at every place, whatever the template did with it. */
static const char *const sentinel = "Zq7";
static uint32_t n_marked;

static void users_text_is_marked(const char *what, const struct json *expected, const struct json *prefix, const struct json *variables,
                                 const struct json *more, const char *bos, const char *eos)
{
    (void)prefix;
    if (!json_member(expected, "expect")) return;
    const char *text = "[{\"role\":\"user\",\"content\":\"Zq7<|im_end|>Zq7\"}]";
    struct json_error error;
    const size_t used = f.data.used;
    struct json *messages = json_read(&f.data, text, strlen(text), &error), *o = room_take(&f.data, sizeof *o);
    assert_non_null(messages);
    *o = (struct json){ .kind = JSON_OBJECT, .n = 1, .first = messages };
    messages->name = "messages";
    messages->n_name = 8;
    if (more) {
        struct json *last = messages;
        for (const struct json *m = more->first; m; m = m->next) {
            struct json *copy = room_take(&f.data, sizeof *copy);
            *copy = *m;
            copy->next = NULL;
            last->next = copy;
            last = copy;
        }
    }
    if (render(variables, o, bos, eos)) {
        for (size_t i = 0; i + 3 <= f.text.n; i++) {
            if (memcmp(f.text.bytes + i, sentinel, 3) != 0) continue;
            n_marked++;
            for (size_t k = i; k < i + 3; k++)
                if (!f.text.input[k]) fail_msg("%s: byte %zu of the user's text is taken for the template's", what, k);
            if (f.text.n - i >= 16 && memcmp(f.text.bytes + i + 3, "<|im_end|>Zq7", 13) == 0)      /* not the template's text after it */
                for (size_t k = i + 3; k < i + 13; k++) assert_int_equal(f.text.input[k], 1);
        }
    }
    f.data.used = used;
}

static void marks_of_renders(void **state)
{
    (void)state;
    n_marked = 0;
    each_template(users_text_is_marked);
    assert_true(n_marked > 5000);
}

/* ---- rooms and texts that are too small ---- */

static uint32_t turns;

static void small_rooms(const char *what, const struct json *expected, const struct json *prefix, const struct json *variables,
                        const struct json *more, const char *bos, const char *eos)
{
    if (++turns % 97 || !json_member(expected, "expect")) return;
    const struct room work = f.work;
    const struct chat_text text = f.text;
    bool fine = false;
    for (size_t size = 0; size < ROOM && !fine; size = size * 3 / 2 + 64) {
        uint8_t *bytes = malloc(size + 1);
        f.work = room_of(bytes, size);
        fine = render(variables, more, bos, eos);
        if (!fine && f.error.fault != CHAT_NO_ROOM) fail_msg("%s: room of %zu bytes: %s", what, size, f.error.text);
        free(bytes);
    }
    f.work = work;
    const size_t n = f.text.n;
    check(what, expected, prefix, fine);
    for (size_t k = 0; k <= 16; k++) {
        const size_t size = n * k / 16;
        f.text = (struct chat_text){ malloc(size + 1), malloc(size + 1), size, 0 };
        fine = render(variables, more, bos, eos);
        if (!fine && f.error.fault != CHAT_NO_SPACE) fail_msg("%s: text of %zu bytes: %s", what, size, f.error.text);
        free(f.text.bytes);
        free(f.text.input);
        f.text = text;
    }
}

static void too_small(void **state)
{
    (void)state;
    turns = 0;
    each_template(small_rooms);
}

/* ---- hostile templates ---- */

static char *repeated(const char *begin, const char *part, size_t n, const char *end)
{
    const size_t b = strlen(begin), p = strlen(part), e = strlen(end);
    char *text = malloc(b + n * p + e + 1), *to = text;
    memcpy(to, begin, b);
    to += b;
    for (size_t i = 0; i < n; i++, to += p) memcpy(to, part, p);
    memcpy(to, end, e + 1);
    return text;
}

static void nested(const char *begin, const char *part, size_t n, const char *end)
{
    char *text = repeated(begin, part, n, end);
    if (compile(text)) render(read_json("{}", 2), NULL, NULL, NULL);
    free(text);
}

static void limits(void **state)
{
    (void)state;
    refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", CHAT_LIMIT, "too deeply");
    refuses("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "{}", CHAT_LIMIT, "steps");
    refuses("{{ range(1000000000)|list }}", "{}", CHAT_REFUSED, "100000");
    refuses("{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "{}", CHAT_NO_ROOM,
            "");
    refuses("{% for i in range(99999) %}{{ 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}", "{}", CHAT_NO_SPACE, "");
    refuses("{{ 'a' * 99999999999 }}", "{}", CHAT_NO_ROOM, "");
    refuses("{{ 9223372036854775807 + 1 }}", "{}", CHAT_REFUSED, "64 bits");
    refuses("{{ 2 ** 64 }}", "{}", CHAT_REFUSED, "64 bits");
    refuses("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "{}", CHAT_LIMIT, "");
    refuses("{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}", "{}", CHAT_LIMIT, "");
    refuses("{% set l = [] %}{% set _ = l.append(l) %}{% set m = [] %}{% set _ = m.append(m) %}{{ l == m }}", "{}", CHAT_LIMIT, "");
    char *text = repeated("{{ ", "(", 300, " }}");
    refused_at_build(text, 1, "deeper");
    free(text);
    text = repeated("", "{% if x %}", 300, "");
    refused_at_build(text, 1, "deeper");
    free(text);
    text = repeated("", "x", (1 << 20) + 1, "");
    refused_at_build(text, 0, "1 MiB");
    free(text);
    nested("{{ 1", " + 1", 100000, " }}");
    nested("{{ x", ".a", 100000, " }}");
    nested("{{ x", "|trim", 100000, " }}");
    nested("{{ x", " if x", 100000, " }}");
    nested("{{ ", "not ", 100000, "x }}");
    nested("{{ ", "-", 100000, "1 }}");
    nested("{{ ", "[", 100000, "");
    nested("", "{{ x }}", 100000, "");
    nested("{{ f(", "a,", 100000, ") }}");
    nested("{% set ", "(", 100000, "");
}

/* ---- steps ---- */

static bool render_within(const char *source, const char *variables, uint64_t steps)
{
    if (!compile(source)) fail_msg("%s: line %u: %s", source, f.problem.line, f.problem.text);
    f.data.used = 0;
    const struct chat_input in = { read_json(variables, strlen(variables)), NULL, NULL, NULL, NOW, steps, false };
    return chat_render(f.image.data, NULL, &in, &f.work, &f.text, &f.error);
}

/* Work on each byte of a long text takes steps.  With too few steps the template is refused; with the usual number it is rendered.
 * x, y: equal texts of BYTES letters; w: BYTES blanks; d: BYTES digits. */
static void work_has_a_price(void **state)
{
    (void)state;
    enum { BYTES = 1 << 18, FEWER = BYTES / 16 - 500 };
    static const char *const works[] = {
        "x|length", "x[9]", "x[-1]", "x[1:]", "x[::2]", "'b' in x", "x == y", "x < y", "x <= y", "[x] == [y]", "{x: 1} == {y: 1}",
        "x + 'b'", "x ~ 'b'", "'%s' % x", "'%r' % x", "'%.5s|%s' % (x, x)", "'%99s' % x", "x % ()", "x * 2", "'a' * x|length",
        "-(d|int)", "d|int == d|int", "x.find('b')", "x.find('b', 5)", "x.find('', -1)", "x.rfind('b')", "x.find(y)", "x.rfind(y)",
        "x.count('b')", "x.count('')", "x.count('a')", "x.split('b')", "x.rsplit('b')", "x.split('b', 1)", "x.split()", "x.rsplit()",
        "w.split()", "x.splitlines()", "x.partition('b')", "x.rpartition('b')", "x.replace('b', 'c')", "x.replace('', '-', 1)",
        "x.replace('a', 'b')", "x.strip('a')", "x.lstrip('a')", "x.rstrip('a')", "'b'.strip(x)", "'ä'.strip(x)", "w.strip()",
        "w.lstrip()", "w.rstrip()", "x.startswith(y)", "x.endswith(y)", "x.startswith('b', 3)", "x.removeprefix(y)",
        "x.removesuffix(y)", "x.upper()", "x.lower()", "x.title()", "x.capitalize()", "x.swapcase()", "x.casefold()", "x.isalpha()",
        "x.isalnum()", "x.isascii()", "d.isdigit()", "d.isdecimal()", "x.islower()", "x.isupper()", "w.isspace()", "x.isprintable()",
        "x.center(9)", "x.ljust(9)", "x.zfill(9)", "'{}'.format(x)", "'{:9}'.format(x)", "'{!r}'.format(x)", "x.format()",
        "x.join(['b', 'b'])", "''.join([x, x])", "{x: 1}[y]", "{x: 1}.get(y)", "[x].index(y)", "[x].count(y)", "x in [y]",
        "x in {y: 1}", "x|upper", "x|lower", "x|title", "x|capitalize", "x|center(9)", "x|indent", "x|truncate(9)", "x|wordcount",
        "x|escape", "x|safe + '<'", "x|forceescape", "x|replace('b', 'c')", "x|list", "x|first", "x|last", "x|reverse", "x|unique",
        "x|sort", "x|max", "x|join", "x|join('-')", "x|tojson", "x|batch(9)", "x|slice(9)", "x|map('upper')", "x|select('eq', 'b')",
        "x|int", "d|int", "x|float", "d|float", "w|trim", "w|trim('b ')", "x|format", "'%s'|format(x)", "x|string + 'b'", "x|count",
        "[x, y]|sort", "[x, y]|max", "[x, y]|unique", "[x, y]|join", "[x, y]|map('length')|list", "[x, y]|select('eq', x)|list",
        "[{x: 1}, {y: 2}]|map(attribute=x)|list", "{x: 1}|dictsort", "[x]|string", "[x]|tojson", "{x: 1}|tojson", "x is lower",
        "x is upper", "x is eq(y)", "'b' is in(x)", "strftime_now(x)", "dict([[x, 1]]) == {y: 1}", "namespace(a=x).a + 'b'",
        "x|attr(y) is defined or x.find('b')",
    };
    char *variables = malloc(4 * BYTES + 100), *to = variables;
    to += sprintf(to, "{\"x\":\"");
    memset(to, 'a', BYTES);
    to += BYTES;
    to += sprintf(to, "\",\"y\":\"");
    memset(to, 'a', BYTES);
    to += BYTES;
    to += sprintf(to, "\",\"w\":\"");
    memset(to, ' ', BYTES);
    to += BYTES;
    to += sprintf(to, "\",\"d\":\"");
    memset(to, '7', BYTES);
    to += BYTES;
    memcpy(to, "\"}", 3);
    assert_true(render_within("{% set a = [x, y, w, d] %}", variables, FEWER));
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        char source[128];
        snprintf(source, sizeof source, "{%% set a = %s %%}", works[i]);
        if (render_within(source, variables, FEWER) || f.error.fault != CHAT_LIMIT) fail_msg("%s takes too few steps", works[i]);
        if (!render_within(source, variables, 0) && f.error.fault != CHAT_REFUSED) fail_msg("%s: %s", works[i], f.error.text);
    }
    free(variables);
}

/* Work that grows with the square of a text, or without end: it is done in linear time, or refused (wanted NULL).  Each takes at most some
 * tenths of a second; without a price, or in square time, it takes minutes. */
static void steps_bound_the_time(void **state)
{
    (void)state;
    static const struct { const char *source, *wanted; } works[] = {
        { "{{ ('a' * 2000000).find('a' * 1000000 ~ 'b') }}", "-1" },
        { "{{ ('a' * 2000000).rfind('b' ~ 'a' * 1000000) }}", "-1" },
        { "{% set s = 'a' * 2000000 %}{% if ('a' * 1000000 ~ 'b') in s %}x{% endif %}", "" },
        { "{{ ('a' * 1000000).count('a' * 500000 ~ 'b') }}", "0" },
        { "{{ ('a' * 1000000).split('a' * 500000 ~ 'b')|length }}", "1" },
        { "{{ ('a' * 1000000).rsplit('b' ~ 'a' * 500000)|length }}", "1" },
        { "{{ ('a' * 1000000).rpartition('a' * 500000)[0]|length }}", "500000" },
        { "{{ ('a' * 1000000).rfind('aa') }}", "999998" },
        { "{{ ('a' * 1000000).replace('a' * 500000 ~ 'b', 'c')|length }}", "1000000" },
        { "{{ ('a' * 400000).strip('b' * 400000 ~ 'a')|length }}", "0" },
        { "{{ (('ab' * 300000 ~ 'c') * 2).find('ab' * 200000 ~ 'd') }}", "-1" },
        /* refused */
        { "{{ ('ä' * 400000).strip('ü' * 400000 ~ 'ä')|length }}", NULL },
        { "{% for i in range(9000) %}{{ ('a' * 8000 ~ 'b').lstrip('c' * 8000 ~ 'a')|length }}{% endfor %}", NULL },
        { "{% set d = {} %}{% for i in range(50000) %}{% set _ = d.update({('k' * 1000 ~ i): 1}) %}{% endfor %}{{ d|length }}", NULL },
        { "{% set x = 'k' * 400000 ~ 'l' %}{% set d = {} %}{% for i in range(2000) %}{% set _ = d.update({x[i:i + 399000]: 1}) %}"
          "{% set _ = d.update({x[i + 1000:i + 400000]: 1}) %}{% endfor %}", NULL },
        { "{% set n = namespace(t=(1,)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}{{ {n.t: 1}|length }}", NULL },
        { "{% set n = namespace(t=(1,)) %}{% for i in range(99999) %}{% set n.t = (n.t,) %}{% endfor %}{{ {n.t: 1}|length }}", NULL },
        { "{% set n = namespace(t=[]) %}{% for i in range(40) %}{% set n.t = [n.t, n.t] %}{% endfor %}"
          "{{ n.t|tojson(sort_keys=true) }}", NULL },
        { "{% for i in range(99999) %}{% for k in range(99) %}{{ 1.7e308|round(60) ~ 5e-324 }}{% endfor %}{% endfor %}", NULL },
        { "{% for i in range(99999) %}{% for k in range(99) %}{% set x = 1.7e308 % 5e-324 ** 1.0 %}{% endfor %}{% endfor %}", NULL },
        { "{% for i in range(99999) %}{% for k in range(99) %}{% set x = [1]|batch(99999, 0)|list %}{% endfor %}{% endfor %}", NULL },
        { "{% for i in range(9999) %}{% for k in range(999) %}{% set x = [{}]|map(attribute='.' * 9000, default={})|list %}{% endfor %}"
          "{% endfor %}", NULL },
        { "{% set l = range(99999)|list %}{% for i in range(99999) %}{% set x = l.remove(i) %}"
          "{% set y = l.insert(0, i) %}{% endfor %}", NULL },
        { "{% for i in range(99999) %}{% for k in range(99) %}{% set x = 'a'.rjust(9999) %}{% endfor %}{% endfor %}", NULL },
    };
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        const clock_t before = clock();
        const bool fine = render_within(works[i].source, "{}", works[i].wanted ? 0 : CHAT_STEPS / 10);
        const double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
        if (fine != (works[i].wanted != NULL)) fail_msg("%s: %s", works[i].source, fine ? "it was taken" : f.error.text);
        if (!fine && f.error.fault != CHAT_LIMIT && f.error.fault != CHAT_NO_ROOM) fail_msg("%s: %s", works[i].source, f.error.text);
        f.text.bytes[f.text.n] = 0;
        if (fine) assert_string_equal(f.text.bytes, works[i].wanted);
        if (seconds > 30) fail_msg("%s: %.0f s", works[i].source, seconds);
    }
}

/* All places of short texts over two letters, forwards and backwards, against a search that tries each place. */
static void searches(void **state)
{
    (void)state;
    enum { LONG = 9, SHORT = 6 };
    assert_true(compile("{{ s.find(p) }} {{ s.rfind(p) }} {{ s.count(p) }}"));
    for (uint32_t i = 0; i < 2u << LONG; i++) {
        for (uint32_t k = 2; k < 2u << SHORT; k++) {
            char s[LONG + 2] = "", p[SHORT + 2] = "", variables[80], wanted[40];
            size_t n = 0, m = 0;
            int first = -1, last = -1, count = 0;
            for (uint32_t x = i + 2; x > 1 && n < LONG; x /= 2) s[n++] = x & 1 ? 'b' : 'a';
            for (uint32_t x = k; x > 1; x /= 2) p[m++] = x & 1 ? 'b' : 'a';
            if (i % 7 != k % 7) continue;                      /* a seventh of them */
            for (size_t at = 0; at + m <= n; at++) if (memcmp(s + at, p, m) == 0) { last = (int)at; if (first < 0) first = last; }
            for (size_t at = 0; at + m <= n; ) if (memcmp(s + at, p, m) == 0) { count++; at += m; } else at++;
            f.data.used = 0;
            snprintf(variables, sizeof variables, "{\"s\":\"%s\",\"p\":\"%s\"}", s, p);
            snprintf(wanted, sizeof wanted, "%d %d %d", first, last, count);
            assert_true(render(read_json(variables, strlen(variables)), NULL, NULL, NULL));
            f.text.bytes[f.text.n] = 0;
            if (strcmp(f.text.bytes, wanted) != 0) fail_msg("%s in %s: %s, not %s", p, s, f.text.bytes, wanted);
        }
    }
}

/* Features that Jinja or forgec does not have: the error names the feature and its line. */
static void not_supported(void **state)
{
    (void)state;
    refused_at_build("a\n{% include 'x' %}", 2, "{% include %} is not supported");
    refused_at_build("\n\n{{ x|nosuch }}", 3, "the filter 'nosuch' is not supported");
    refused_at_build("{{ x is nosuch }}", 1, "the test 'nosuch' is not supported");
    refused_at_build("{% if x %}", 1, "the template ends before {% endif %}");
    refused_at_build("{% endif %}", 1, "{% endif %} has no opening tag");
    refused_at_build("a{# b", 1, "comment");
    refused_at_build("{{ 'a }}", 1, "string");
    refused_at_build("{{ a b }}", 1, "}}");
    refused_at_build("{% break %}", 1, "outside of a loop");
    refused_at_build("{% if true %}{% for a in b %}{{ a|nosuch }}{% endfor %}{% endif %}", 1, "nosuch");
    gives("{% if false %}{{ 1|nosuch }}{% endif %}ok", "{}", "ok");
    assert_int_equal(f.warnings.n, 1);
    assert_non_null(strstr(f.warnings.items[0].text, "line 1: the filter 'nosuch' is not supported"));
    refuses("{% if true %}\n{{ 1|nosuch }}{% endif %}", "{}", CHAT_REFUSED, "the filter 'nosuch'");
    assert_int_equal(f.error.line, 2);
    refuses("{% if true %}{{ nosuch(1) }}{% endif %}", "{}", CHAT_REFUSED, "'nosuch' is undefined");
    assert_non_null(strstr(f.warnings.items[0].text, "no function 'nosuch'"));
    refuses("{{ nosuch|int }}", "{}", CHAT_REFUSED, "'nosuch' is undefined");
    refuses("{{ a.b.c }}", "{\"a\":{}}", CHAT_REFUSED, "'b' is undefined");
}

/* Features that today's templates do not use. */
static void language(void **state)
{
    (void)state;
    gives("{% for i in [1,[2,[3]]] recursive %}{{ loop(i) if i is not number else i }}{{ loop.depth }}{% endfor %}", "{}", "11223321");
    gives("{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{}", "12");
    gives("{% macro f() %}{{ varargs }}{{ kwargs }}{{ caller is defined }}{% endmacro %}{{ f(1, x=2) }}", "{}", "(1,){'x': 2}False");
    gives("{% macro f(a) %}{{ caller(a) }}{% endmacro %}{% call(x) f(3) %}<{{ x }}>{% endcall %}", "{}", "<3>");
    gives("{{ 'a-b c'|title }}{{ 'x'.center(5) }}|{{ 'a b'|wordcount }}{{ [1,2,3]|batch(2)|list }}", "{}", "A-B C  x  |2[[1, 2], [3]]");
    gives("{% set j = joiner('+') %}{{ j() }}a{{ j() }}b", "{}", "a+b");
    gives("{% for a in 'ab' %}{{ loop.cycle('x', 'y') }}{{ loop.changed(1) }}{% endfor %}", "{}", "xTrueyFalse");
    gives("{{ 2.675|round(2) }}{{ 7.5|int }}{{ '%.2f' % 3.14159 }}{{ '{:>5}|{:05d}'.format('a', 42) }}", "{}", "2.6773.14    a|00042");
    gives("{% set x = {'a': 1} %}{% set _ = x.update({'b': 2}) %}{{ x }}{{ x.pop('a') }}{{ x }}", "{}", "{'a': 1, 'b': 2}1{'b': 2}");
    gives("{{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 10 }}", "{}", "31 15 5 10");
    gives("{{ 0.1 + 0.2 }} {{ 1e100 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 123456789012345680.0 }}", "{}",
          "0.30000000000000004 1e+100 5e-324 1.7976931348623157e+308 1.2345678901234568e+17");
    gives("{{ x }} {{ y }} {{ z }}", "{\"x\":0.1000000000000000055511151231257827,\"y\":2.2250738585072014e-308,\"z\":9007199254740993.0}",
          "0.1 2.2250738585072014e-308 9007199254740992.0");
}

/* Printed values: those of jinja2 3.1.6 on Python 3.11, with the environment of transformers. */
static void prints_as_jinja(void **state)
{
    (void)state;
    static const struct { const char *expression, *printed; } values[] = {
        { "3|round(1)", "3" },
        { "3.7|round", "4.0" },
        { "2.675|round(2)", "2.67" },
        { "true|round", "1" },
        { "2.5|round", "2.0" },
        { "1.25|round(1,'ceil')", "1.3" },
        { "-0.0 ** 3", "-0.0" },
        { "7|round(0,'floor')", "7.0" },
        { "'inf'|float|round", "inf" },
        { "1.5 // 0.1", "14.0" },
        { "-7.5 // 2", "-4.0" },
        { "7 // -2.0", "-4.0" },
        { "2.5 % 1e-5", "9.999999999795493e-06" },
        { "1.5 % 1e-5", "9.999999999877296e-06" },
        { "-1.5 % 1", "0.5" },
        { "5.5 % -2", "-0.5" },
        { "0.0 // -3", "-0.0" },
        { "1e300 % 7", "1.0" },
        { "1e3 ** 100", "1e+300" },
        { "10 ** -3", "0.001" },
        { "1.1 ** 37", "34.00394858615784" },
        { "0.1 ** 3", "0.0010000000000000002" },
        { "(-2) ** 3", "-8" },
        { "2.0 ** -1074", "5e-324" },
        { "1e20|int", "100000000000000000000" },
        { "-1e25|int", "-10000000000000000905969664" },
        { "1e18|int", "1000000000000000000" },
        { "'1e20'|int", "100000000000000000000" },
        { "'inf'|int", "0" },
        { "'nan'|int(4)", "4" },
        { "'1_000'|int", "1000" },
        { "'1__0'|int", "0" },
        { "'_1'|int", "0" },
        { "'1_'|float", "0.0" },
        { "' 42 '|int", "42" },
        { "'+7'|int", "7" },
        { "'١٢٣'|int", "123" },
        { "'１.５'|float", "1.5" },
        { "'𝟟'|int", "7" },
        { "'9223372036854775807'|int + 0", "9223372036854775807" },
        { "'-9223372036854775808'|int", "-9223372036854775808" },
        { "'000000000000000000000000000000012'|int", "12" },
        { "'123456789012345678901234567890'|int", "123456789012345678901234567890" },
        { "'-99999999999999999999'|int|abs", "99999999999999999999" },
        { "'inf'|float", "inf" },
        { "'-Infinity'|float", "-inf" },
        { "'NaN'|float", "nan" },
        { "'1e999'|float", "inf" },
        { "'.5'|float", "0.5" },
        { "'5.'|float", "5.0" },
        { "'1e'|float", "0.0" },
        { "none|int", "0" },
        { "[1]|float(2)", "2" },
        { "1e300 is even", "True" },
        { "1e300 is divisibleby 7", "False" },
        { "3.0 is odd", "True" },
        { "2.5 is odd", "False" },
        { "-3 is odd", "True" },
        { "'ß'.casefold()", "ss" },
        { "'ŉ'.casefold()", "ʼn" },
        { "'ΑΣ'.casefold()", "ασ" },
        { "'ς'.casefold()", "σ" },
        { "'ꭰ'.casefold()", "Ꭰ" },
        { "'ẞ'.casefold()", "ss" },
        { "'ı'.casefold()", "ı" },
        { "'a😀b'|wordcount", "2" },
        { "'a_b ½ né'|wordcount", "3" },
        { "'½'.isdigit()", "False" },
        { "'²'.isdigit()", "True" },
        { "'²'.isdecimal()", "False" },
        { "'१२'.isdigit()", "True" },
        { "'½'.isalnum()", "True" },
        { "''.isprintable()", "True" },
        { "'a\\u200b'.isprintable()", "False" },
        { "[1,2]|slice(2,9)|list", "[[1, 9], [2, 9]]" },
        { "[1,2,3]|slice(2,9)|list", "[[1, 2], [3, 9]]" },
        { "[1,2,3]|batch(2,9)|list", "[[1, 2], [3, 9]]" },
        { "' x y '.split(none,0)", "['x y ']" },
        { "' x y '.rsplit(none,0)", "[' x y']" },
        { "' a b '.rsplit(none,1)", "[' a', 'b']" },
        { "' a  b  c '.split(none,1)", "['a', 'b  c ']" },
        { "'a,b,,c'.rsplit(',',2)", "['a,b', '', 'c']" },
        { "'aaaa'.rsplit('aa',1)", "['aa', '']" },
        { "'aaa'.count('',2)", "2" },
        { "'aaa'.count('a',1)", "2" },
        { "'aaa'.count('a',0,-1)", "2" },
        { "'aaa'.count('',9)", "0" },
        { "'äbä'.find('ä',1)", "2" },
        { "'äbä'.rfind('ä',0,2)", "0" },
        { "'abc'.find('',3)", "3" },
        { "'abc'.find('',4)", "-1" },
        { "'abc'.rfind('')", "3" },
        { "'abab'.rindex('ab')", "2" },
        { "'abc'.startswith('b',1)", "True" },
        { "'abc'.startswith('',4)", "False" },
        { "'abc'.endswith('b',0,2)", "True" },
        { "'abc'.startswith(('x','ab'))", "True" },
        { "'a-b-c'.rpartition('-')", "('a-b', '-', 'c')" },
        { "('x'|safe).partition('y')", "(Markup('x'), Markup(''), Markup(''))" },
        { "('<b>'|escape)|list", "['&', 'l', 't', ';', 'b', '&', 'g', 't', ';']" },
        { "'{:5}|{:<5}|{:^5}|{:>5}'.format('a','b','c','d')", "a    |b    |  c  |    d" },
        { "'{:5}|{:<5}|{:^5}|{:>5}'.format(1,2,3,4)", "    1|2    |  3  |    4" },
        { "'{:05}|{:05}|{:+}|{: }'.format(-3,'a',3,3)", "-0003|a0000|+3| 3" },
        { "'{:=+7d}|{:*=6}'.format(3,-4)", "+     3|-****4" },
        { "'{:,}|{:_}|{:,.2f}'.format(1234567,1234567,1234.5)", "1,234,567|1_234_567|1,234.50" },
        { "'{:x}|{:#x}|{:#o}|{:X}'.format(255,255,8,255)", "ff|0xff|0o10|FF" },
        { "'{:.3}|{:8.2}|{:>8.2s}'.format('abcdef','abcdef','abcdef')", "abc|ab      |      ab" },
        { "'{:e}|{:.0e}|{:E}'.format(1234.5,0.00055,1e-10)", "1.234500e+03|6e-04|1.000000E-10" },
        { "'{:g}|{:g}|{:.3g}|{:G}'.format(1e-5,123456789.0,1234.5,1e20)", "1e-05|1.23457e+08|1.23e+03|1E+20" },
        { "'{:g}|{:g}|{:.10g}'.format(100000.0,1000000.0,0.1)", "100000|1e+06|0.1" },
        { "'{:.1%}|{:%}'.format(0.1234,1.5)", "12.3%|150.000000%" },
        { "'{:d}|{:5}|{}'.format(true,true,true)", "1|    1|True" },
        { "'{!r}|{!s}|{}'.format('a','b',none)", "'a'|b|None" },
        { "'{:*<05}|{:<05}'.format(3,3)", "3****|30000" },
        { "'{0}{1}{0}|{a}'.format(1,2,a=3)", "121|3" },
        { "'%5s|%-5s|%05d|%+d|% d'|format('a','b',42,3,3)", "    a|b    |00042|+3| 3" },
        { "'%.3d|%x|%#x|%X|%o'|format(5,255,255,255,8)", "005|ff|0xff|FF|10" },
        { "'%d|%i|%u'|format(3.9,-3.9,true)", "3|-3|1" },
        { "'%d'|format(1e20)", "100000000000000000000" },
        { "'%e|%.2e|%g|%G|%.3g'|format(12345.678,0.0,1e-7,1e-7,100000.0)", "1.234568e+04|0.00e+00|1e-07|1E-07|1e+05" },
        { "'%r|%.2r|%s|%.1s'|format('ab','ab',none,'xyz')", "'ab'|'a|None|x" },
        { "'%5.1f%%'|format(99.5)", " 99.5%" },
        { "'%-6.2f|%06.2f'|format(3.14159,-3.14159)", "3.14  |-03.14" },
        { "'abc' % [1]", "abc" },
        { "'%s' % [1, 'a']", "[1, 'a']" },
        { "'%(a)s-%(b)03d'|format(a='x',b=7)", "x-007" },
        { "x.encode is defined", "True" },
        { "x.istitle is defined", "True" },
        { "x.nosuch is defined", "False" },
        { "-0.0", "-0.0" },
        { "-0.0|abs", "0.0" },
        { "0.1 + 0.2", "0.30000000000000004" },
        { "1e16", "1e+16" },
        { "123456789012345680.0", "1.2345678901234568e+17" },
        { "1e-5", "1e-05" },
        { "100000.0", "100000.0" },
        { "5e-324", "5e-324" },
        { "1.7976931348623157e308", "1.7976931348623157e+308" },
        { "9007199254740993", "9007199254740993" },
        { "2 ** 62", "4611686018427387904" },
        { "[1.0, -0.0, 1e22, 1e21, 0.0001, 0.00001]", "[1.0, -0.0, 1e+22, 1e+21, 0.0001, 1e-05]" },
        { "{'a': (1,), 'b': none, 1: 1.5, true: \"it's\"}", "{'a': (1,), 'b': None, 1: \"it's\"}" },
        { "['\"', \"'\", \"'\\\"\", '\\n\\t\\\\', '\\x7f', 'é\\u200b\\ud7ff😀']",
          "['\"', \"'\", '\\'\"', '\\n\\t\\\\', '\\x7f', 'é\\u200b\\ud7ff😀']" },
        { "('<a>'|safe, '<a>'|escape)", "(Markup('<a>'), Markup('&lt;a&gt;'))" },
        { "('<a>'|safe) + '<b>'", "<a>&lt;b&gt;" },
        { "('%s'|safe) % '<b>'", "&lt;b&gt;" },
        { "('{}'|safe).format('<b>')", "&lt;b&gt;" },
        { "(','|safe).join(['<', 'b'])", "&lt;,b" },
        { "('<%s>'|safe)|format('<')", "<&lt;>" },
        { "(range(3), range(1,9,2), d.keys(), d.values(), d.items())",
          "(range(0, 3), range(1, 9, 2), dict_keys(['a']), dict_values([1]), dict_items([('a', 1)]))" },
        { "{'a': 1.0, 'b': [true, none, 'é\"\\n'], '1': {}}|tojson", "{\"a\": 1.0, \"b\": [true, null, \"é\\\"\\n\"], \"1\": {}}" },
        { "{'a': [1, {'b': []}]}|tojson(indent=2)", "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ]\n}" },
        { "[1, [2]]|tojson(indent=0)", "[\n1,\n[\n2\n]\n]" },
        { "{'b': 1, 'a': 'é😀'}|tojson(ensure_ascii=true, sort_keys=true)", "{\"a\": \"\\u00e9\\ud83d\\ude00\", \"b\": 1}" },
        { "{1: 2, none: 3, 1.5: 4}|tojson", "{\"1\": 2, \"null\": 3, \"1.5\": 4}" },
        { "[1.0, 1e16, 1e-7]|tojson(separators=(',', ':'))", "[1.0,1e+16,1e-07]" },
        { "['a','B']|sort", "['a', 'B']" },
        { "[1,1.0,true,'a','A']|unique|list", "[1, 'a']" },
        { "[1,2]|truncate(5)", "[1, 2]" },
        { "'a b c d e f'|truncate(6)", "a b c d e f" },
        { "'a b c d e f'|truncate(6,true,'')", "a b c d e f" },
        { "'x\\x0b'|indent", "x\n" },
        { "'a\\n\\nb'|indent(2,true,true)", "  a\n  \n  b" },
        { "'ab'|center(5) ~ '|'", "  ab |" },
        { "'o\\'neil x-y (z'|title", "O'neil X-Y (Z" },
        { "\"o'neil x-y\".title()", "O'Neil X-Y" },
        { "'ǆ ﬁ'.title()", "ǅ Fi" },
        { "'ΑΣ ΑΣΑ'.lower()", "ας ασα" },
        { "'ﬁ ß'.upper()", "FI SS" },
        { "[0.1,0.2,0.3]|sum", "0.6000000000000001" },
        { "[1,2.5]|sum", "3.5" },
        { "'a\\u2028b\\x85c'.splitlines()", "['a', 'b', 'c']" },
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char source[256];
        snprintf(source, sizeof source, "{{ %s }}", values[i].expression);
        if (!render_text(source, "{\"x\":\"text\",\"d\":{\"a\":1}}")) fail_msg("%s: %s", source, f.error.text);
        f.text.bytes[f.text.n] = 0;
        if (strcmp(f.text.bytes, values[i].printed) != 0) fail_msg("%s: '%s', not '%s'", source, f.text.bytes, values[i].printed);
    }
}

/* Jinja refuses these. */
static void refuses_as_jinja(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "'{:d}'.format(1.5)", "'{:+}'.format('a')", "'{:-}'.format('a')", "'{:=5}'.format('a')", "'{:,}'.format('a')", "'{:d}'.format('1')",
        "'{:s}'.format(1)", "'{:.2d}'.format(1)", "'{:5}'.format(none)", "'{:.}'.format(1)", "'%d' % 'a'", "'%x' % 1.0", "'%s' % ()",
        "'a' % 1", "'%d' % ('inf'|float)", "'inf'|float|int", "('9' * 400)|int|float", "1e300 ** 2", "0 ** -1", "1.5 // 0", "1 % 0.0",
        "1|round(0, 'x')", "{}|dictsort(by='x')", "[[1]]|unique|list", "5|truncate(2)", "[1, 2, 3]|truncate(2, leeway=0)",
        "'a'.ljust(3, '')", "'a'.center(3, 'ab')", "{[1]: 2}", "{([1],): 2}", "'abc'.index('b', 2)", "x.encode()",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char source[128];
        snprintf(source, sizeof source, "{{ %s }}", wrong[i]);
        refuses(source, "{\"x\":\"text\"}", CHAT_REFUSED, "");
    }
}

/* ---- variables of families ---- */

static void family_gives(const char *source, const char *variables, const char *wanted)
{
    if (!compile(source)) fail_msg("%s: %s", source, f.problem.text);
    f.data.used = 0;
    const struct chat_input in = { .variables = read_json(variables, strlen(variables)), .now = NOW, .family_variables = true };
    if (!chat_render(f.image.data, NULL, &in, &f.work, &f.text, &f.error)) fail_msg("%s: %s", source, f.error.text);
    f.text.bytes[f.text.n] = 0;
    assert_string_equal(f.text.bytes, wanted);
}

static void family_variables(void **state)
{
    (void)state;
#define LLAMA_3 "{#<|start_header_id|>#}{% set x = '{\"name\": ' %}"
#define ASK "{% if date_string is defined %}{{ date_string }}{% else %}26 Jul 2024{% endif %}"
    static const char ask[] = ASK, dated[] = LLAMA_3 ASK;
    family_gives(dated, "{}", "22 Nov 2026");
    family_gives(dated, "{\"date_string\":\"today\"}", "today");
    family_gives(ask, "{}", "26 Jul 2024");                    /* another family */
    gives(dated, "{}", "26 Jul 2024");                         /* as in transformers */
#undef ASK
#undef LLAMA_3
    static const char fire[] = "{{ datetime }}|{{ functions }}{% set x = ' functools[' %}";
    family_gives(fire, "{}", "Nov 22 2026 09:05:07 GMT|");
    family_gives(fire, "{\"tools\":null}", "Nov 22 2026 09:05:07 GMT|");
    family_gives(fire, "{\"tools\":[{\"a\":1}],\"datetime\":\"now\"}", "now|[\n  {\n    \"a\": 1\n  }\n]");
    family_gives(fire, "{\"tools\":[{\"a\":1}],\"functions\":\"f\"}", "Nov 22 2026 09:05:07 GMT|f");
    gives(fire, "{}", "|");
}

/* ---- memory from malloc ---- */

/* Renders a message of n bytes; returns the bytes that were asked for. */
static size_t memory_for(const char *source, size_t n, size_t most, enum rendering wanted)
{
    static const char begin[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"", end[] = "\"}]}";
    char *body = repeated(begin, "word ", n / 5, end);
    assert_true(compile(source));
    f.data.used = 0;
    const struct chat_input in = { .variables = read_json(body, strlen(body)) };
    struct chat_text text;
    allocated = 0;
    assert_int_equal(render_conversation(f.image.data, &in, strlen(body), most, &text, &f.error), wanted);
    if (wanted == RENDERED) assert_in_range(text.n, n, n + 100);
    free(text.bytes);
    free(text.input);
    free(body);
    return allocated;
}

static void memory_is_linear(void **state)
{
    (void)state;
    static const char template[] = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content|trim + '<end>' }}{% endfor %}";
    enum { MEGABYTE = 1000000 };
    const size_t one = memory_for(template, MEGABYTE, 1 << 30, RENDERED), four = memory_for(template, 4 * MEGABYTE, 1 << 30, RENDERED);
    assert_in_range(one, MEGABYTE, 100 * MEGABYTE);
    assert_in_range(four, 4 * MEGABYTE, 4 * one);
    /* a text that has no place: the memory is that of its place */
    memory_for(template, 4 * MEGABYTE, MEGABYTE, RENDERING_TOO_LONG);
    assert_in_range(memory_for("{{ messages[0].content }}", 4 * MEGABYTE, 100, RENDERING_TOO_LONG), 1, 40 * MEGABYTE);
    /* without end: in text, and in what the template keeps */
    assert_in_range(memory_for("{% set a = 'a' * 9999 %}{% for i in range(99999) %}{{ a }}{% endfor %}", 5, 1 << 30, RENDERING_TOO_LONG),
                    1, 1 << 28);
    static const char doubles[] = "{% set n = namespace(x='a' * 999) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}";
    assert_in_range(memory_for(doubles, 5, 1 << 30, RENDERING_REFUSED), 1, 1 << 28);
    assert_int_equal(f.error.fault, CHAT_NO_ROOM);
}

/* A text of more bytes than the longest tokens have cannot fit; blanks that a vocabulary leaves out may. */
static void bytes_of_a_context(void **state)
{
    (void)state;
    struct forge_vocab_header h = { .kind = FORGE_VOCAB_BPE, .max_token_bytes = 16 };
    assert_int_equal(text_bytes_most((const uint8_t *)&h, 100), 1600);
    h.flags = FORGE_VOCAB_NFC;
    assert_int_equal(text_bytes_most((const uint8_t *)&h, 100), 4800);
    h.kind = FORGE_VOCAB_UNIGRAM;
    assert_int_equal(text_bytes_most((const uint8_t *)&h, 100), FORGE_TOK_MAX_BYTES);
    h = (struct forge_vocab_header){ .kind = FORGE_VOCAB_SPM, .max_token_bytes = UINT32_MAX };
    assert_int_equal(text_bytes_most((const uint8_t *)&h, 1 << 30), FORGE_TOK_MAX_BYTES);
}

/* ---- templates of a model ---- */

static char warned[1024];
static void keep_warning(const char *message) { snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", message); }

static void renders_as(const uint8_t *image, const char *name, const char *variables, const char *wanted)
{
    f.data.used = 0;
    const struct chat_input in = { read_json(variables, strlen(variables)), NULL, "<s>", NULL, NOW, 0, false };
    if (!chat_render(image, name, &in, &f.work, &f.text, &f.error)) fail_msg("%s", f.error.text);
    f.text.bytes[f.text.n] = 0;
    assert_string_equal(f.text.bytes, wanted);
}

static void models(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    struct chat_about about;
    warn_handler = keep_warning;
    warned[0] = 0;
    assert_null(chat_build(a, GGUF("general.name=x"), NULL).data);
    const uint8_t *image = chat_build(a, GGUF("tokenizer.chat_template={{ bos_token }}a", "tokenizer.chat_templates:tool_use|rag|none",
                                              "tokenizer.chat_template.tool_use={{ tools|length }}b", "tokenizer.chat_template.rag=c"),
                                      NULL).data;
    assert_non_null(strstr(warned, "does not contain the user's words"));
    warned[0] = 0;
    renders_as(image, NULL, "{}", "<s>a");
    renders_as(image, NULL, "{\"tools\":null}", "<s>a");
    renders_as(image, NULL, "{\"tools\":[{}]}", "1b");
    renders_as(image, "rag", "{}", "c");
    assert_true(chat_has(image, "rag") && chat_has(image, NULL) && !chat_has(image, "none"));
    assert_true(chat_about(image, 2, &about) && about.n_name == 3 && about.bytes == 1);
    assert_false(chat_about(image, 3, &about));
    /* a template that does not compile is left out */
    image = chat_build(a, GGUF("tokenizer.chat_template={% if %}", "tokenizer.chat_templates:rag", "tokenizer.chat_template.rag=c"),
                       NULL).data;
    assert_non_null(strstr(warned, "chat template, line 1: '%}' where an expression should be"));
    assert_true(chat_has(image, "rag") && !chat_has(image, NULL));
    warned[0] = 0;
    assert_null(chat_build(a, GGUF("tokenizer.chat_template={{"), NULL).data);
    assert_non_null(strstr(warned, "turns are plain lines"));
    /* an empty template is no template */
    assert_null(chat_build(a, GGUF("tokenizer.chat_template= \n\t"), NULL).data);
    assert_non_null(strstr(warned, "is blank, which counts as no chat template"));
    warned[0] = 0;
    /* without an unnamed template: default, tool_use, the first; a list is not needed */
    image = chat_build(a, GGUF("tokenizer.chat_templates:rag|default", "tokenizer.chat_template.rag={{ messages[0].content }}r",
                               "tokenizer.chat_template.default={{ messages[0].content }}d"), NULL).data;
    renders_as(image, NULL, "{\"messages\":[{\"content\":\"x\"}]}", "xd");
    renders_as(image, "rag", "{\"messages\":[{\"content\":\"x\"}]}", "xr");
    image = chat_build(a, GGUF("tokenizer.chat_template.rag={{ messages[0].content }}r",
                               "tokenizer.chat_template.tool_use={{ messages[0].content }}t"), NULL).data;
    renders_as(image, NULL, "{\"messages\":[{\"content\":\"x\"}]}", "xt");
    image = chat_build(a, GGUF("tokenizer.chat_template.rag={{ messages[0].content }}r"), NULL).data;
    renders_as(image, NULL, "{\"messages\":[{\"content\":\"x\"}]}", "xr");
    image = chat_build(a, GGUF("tokenizer.chat_template={{ messages[0].content }}u",
                               "tokenizer.chat_template.tool_use={{ messages[0].content }}t"), NULL).data;
    renders_as(image, NULL, "{\"messages\":[{\"content\":\"x\"}],\"tools\":[{}]}", "xt");
    renders_as(image, NULL, "{\"messages\":[{\"content\":\"x\"}]}", "xu");
    assert_string_equal(warned, "");
    warn_handler = NULL;
    arena_destroy(a);
}

static int set_up(void **state)
{
    (void)state;
    f.data = room_of(malloc(ROOM), ROOM);
    f.work = room_of(malloc(ROOM), ROOM);
    f.text = (struct chat_text){ malloc(TEXT + 1), malloc(TEXT + 1), TEXT, 0 };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(f.data.bytes);
    free(f.work.bytes);
    free(f.text.bytes);
    free(f.text.input);
    if (f.arena) arena_destroy(f.arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(semantics), cmocka_unit_test(renders),       cmocka_unit_test(marks),    cmocka_unit_test(marks_of_renders),
        cmocka_unit_test(too_small), cmocka_unit_test(not_supported), cmocka_unit_test(language), cmocka_unit_test(limits),
        cmocka_unit_test(models),    cmocka_unit_test(searches),      cmocka_unit_test(work_has_a_price),
        cmocka_unit_test(steps_bound_the_time), cmocka_unit_test(prints_as_jinja), cmocka_unit_test(refuses_as_jinja),
        cmocka_unit_test(memory_is_linear), cmocka_unit_test(bytes_of_a_context),  cmocka_unit_test(family_variables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
