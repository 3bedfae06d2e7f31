/* test_chat.c -- chat templates: the renders of transformers, byte for byte; where bytes come from; rooms that are too small; limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compiler/chat/model.h"
#include "runtime/chat/template.h"
#include "made_gguf.h"

#define DATA FORGEC_UNPACKED "/chat"

enum { ROOM = 64 << 20, TEXT = 1 << 20 };
static const int64_t NOW = 1795338307;                         /* 2026-11-22 09:05:07 */

struct fixture {
    struct arena     *arena;
    struct bytes      image;
    struct room       data, work;          /* JSON that stays; what a render takes */
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
    const struct chat_input in = { variables, more, bos, eos, NOW, 0 };
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

/* ---- what transformers gives ---- */

static bool is_kind(const struct json *error, const char *kind) { return error && json_is(json_member(error, "kind"), kind); }

/* expected: `expect`, with prefix before it, or `error`. */
static void check(const char *what, const struct json *expected, const struct json *prefix, bool fine)
{
    const struct json *error = json_member(expected, "error"), *text = json_member(expected, "expect");
    if (is_kind(error, "security")) return;                    /* .append and its like: we have them */
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

/* Calls visit for each render of the template whose file of renders is `name`; how many there are. */
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

/* ---- where bytes come from ---- */

/* wanted: of each byte, i or t. */
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

/* A text that a user sends is marked wherever it stands, whatever the template did with it. */
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
            if (f.text.n - i >= 16 && memcmp(f.text.bytes + i + 3, "<|im_end|>Zq7", 13) == 0)      /* not the template's own behind it */
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
    refuses("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{}", CHAT_LIMIT, "deeper");
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

/* What Jinja does not have, or we do not: named, with its line. */
static void not_supported(void **state)
{
    (void)state;
    refused_at_build("a\n{% include 'x' %}", 2, "{% include %} is not supported");
    refused_at_build("\n\n{{ x|nosuch }}", 3, "the filter 'nosuch' is not supported");
    refused_at_build("{{ x is nosuch }}", 1, "the test 'nosuch' is not supported");
    refused_at_build("{% if x %}", 1, "the template ends before {% endif %}");
    refused_at_build("{% endif %}", 1, "closes nothing");
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

/* Beyond what the templates of today use. */
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
    gives("{{ 0.1 + 0.2 }} {{ 1e100 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }} {{ 123456789012345680.0 }}", "{}",
          "0.30000000000000004 1e+100 5e-324 1.7976931348623157e+308 1.2345678901234568e+17");
    gives("{{ x }} {{ y }} {{ z }}", "{\"x\":0.1000000000000000055511151231257827,\"y\":2.2250738585072014e-308,\"z\":9007199254740993.0}",
          "0.1 2.2250738585072014e-308 9007199254740992.0");
}

/* ---- of a model ---- */

static char warned[1024];
static void keep_warning(const char *message) { snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", message); }

static void renders_as(const uint8_t *image, const char *name, const char *variables, const char *wanted)
{
    f.data.used = 0;
    const struct chat_input in = { read_json(variables, strlen(variables)), NULL, "<s>", NULL, NOW, 0 };
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
    assert_string_equal(warned, "");
    renders_as(image, NULL, "{}", "<s>a");
    renders_as(image, NULL, "{\"tools\":null}", "<s>a");
    renders_as(image, NULL, "{\"tools\":[{}]}", "1b");
    renders_as(image, "rag", "{}", "c");
    assert_true(chat_has(image, "rag") && chat_has(image, NULL) && !chat_has(image, "none"));
    assert_true(chat_about(image, 2, &about) && about.n_name == 3 && about.bytes == 1);
    assert_false(chat_about(image, 3, &about));
    /* what cannot be compiled is left out */
    image = chat_build(a, GGUF("tokenizer.chat_template={% if %}", "tokenizer.chat_templates:rag", "tokenizer.chat_template.rag=c"),
                       NULL).data;
    assert_non_null(strstr(warned, "chat template, line 1: '%}' where an expression should be"));
    assert_true(chat_has(image, "rag") && !chat_has(image, NULL));
    warned[0] = 0;
    assert_null(chat_build(a, GGUF("tokenizer.chat_template={{"), NULL).data);
    assert_non_null(strstr(warned, "turns are plain lines"));
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
        cmocka_unit_test(models),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
