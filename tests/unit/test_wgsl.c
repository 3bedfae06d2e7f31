/* test_wgsl.c -- WGSL modules from templates: the items, their order and names, and invalid texts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/format/format.h"
#include "compiler/web/small.h"
#include "compiler/web/wgsl.h"
#include "die_capture.h"
#include "scratch.h"

static struct arena *a;
static const char *directory;

static int setup(void **state)
{
    const int status = scratch_setup(state);
    const struct scratch *s = *state;
    a = s->arena;
    directory = s->directory;
    return status;
}

static const char *module(const struct wgsl *w)
{
    struct text t = { .arena = a };
    wgsl_write(w, &t);
    return text_str(&t);
}
/* The part of a text that one name needs. */
static const char *kept(const char *text, const char *name)
{
    struct wgsl *w = wgsl_new(a, NULL);
    wgsl_add_text(w, "text", text, NULL, 0);
    wgsl_want(w, name);
    return module(w);
}

static void uses_are_followed(void **state)
{
    (void)state;
    static const char text[] =
        "/* The head of the text: not of f. */\n\n/* Of f. */\n// And more.\nfn f() -> u32 { return N; }      /* behind it */\n"
        "const N = 2u;\nconst M = 3u;\nstruct s { f: t, g: u32 }\nalias t = u32;\n\n"
        "/* g is not used: /* this is */ only said. */\nfn h(x: s) -> u32 {\n    // M } g\n    return x.g; /* M */\n}\nfn g() { }\n"
        "@group(0) @binding(0) var<storage, read> data: array<s>;\n@compute @workgroup_size(N)\nfn main() { let y = h(data[0]); }\n";
    assert_string_equal(kept(text, "f"), "/* Of f. */\n// And more.\nfn f() -> u32 { return N; }      /* behind it */\nconst N = 2u;\n");
    assert_string_equal(kept(text, "h"), "struct s { f: t, g: u32 }\nalias t = u32;\n/* g is not used: /* this is */ only said. */\n"
                                         "fn h(x: s) -> u32 {\n    // M } g\n    return x.g; /* M */\n}\n");
    assert_non_null(strstr(kept(text, "main"),
                           "@group(0) @binding(0) var<storage, read> data: array<s>;\n@compute @workgroup_size(N)\nfn main"));
    assert_non_null(strstr(kept(text, "main"), "const N"));
    assert_null(strstr(kept(text, "main"), "const M"));
    assert_string_equal(kept("fn a() { b(); }\nfn b() { a(); }\n", "b"), "fn a() { b(); }\nfn b() { a(); }\n");
    assert_string_equal(kept("override n: u32 = 3u;\nvar<private> at = vec2u(1u, 2u);", "at"), "var<private> at = vec2u(1u, 2u);\n");
}

static void words_are_parts_of_names(void **state)
{
    (void)state;
    static const char text[] = "fn same() { }\n/* Of WEIGHTS. */\n"
                               "fn load_FORMAT_WEIGHTS() -> unit_FORMAT { same(); return WEIGHTS[FORMATS] + FORMAT2; }\n"
                               "struct unit_FORMAT { q: u32 }\n";
    const struct wgsl_word q[] = { { "FORMAT", "q4_K" }, { "WEIGHTS", "q" } }, k[] = { { "FORMAT", "q4_K" }, { "WEIGHTS", "k" } };
    struct wgsl *w = wgsl_new(a, NULL);
    wgsl_add_text(w, "text", text, q, 2);
    wgsl_add_text(w, "text", text, k, 2);
    wgsl_want(w, "load_q4_K_k");
    wgsl_want(w, "load_q4_K_q");
    wgsl_want(w, "load_q4_K_q");
    assert_string_equal(module(w), "fn same() { }\n/* Of q. */\nfn load_q4_K_q() -> unit_q4_K { same(); return q[FORMATS] + FORMAT2; }\n"
                                   "struct unit_q4_K { q: u32 }\n"
                                   "/* Of k. */\nfn load_q4_K_k() -> unit_q4_K { same(); return k[FORMATS] + FORMAT2; }\n");
}

static void template(const char *name, const char *text)
{
    const char *path = arena_printf(a, "%s/webgpu/%s", directory, name);
    directory_make(a, arena_printf(a, "%s/webgpu", directory));
    file_write(a, path, bytes_of(text));
}
static void includes_come_first_and_not_in_circles(void **state)
{
    (void)state;
    template("one.wgsl", "// include templates/webgpu/two.wgsl\n// include templates/webgpu/three.wgsl\nfn one_W() { two_W(); }\n");
    template("two.wgsl", "// include templates/webgpu/three.wgsl\n\nfn two_W() { three(); }\n");
    template("three.wgsl", "fn three() { }\n");
    template("circle.wgsl", "// include templates/webgpu/circle_2.wgsl\n");
    template("circle_2.wgsl", "\n// include templates/webgpu/circle.wgsl\n");
    const struct wgsl_word word = { "W", "x" };
    struct wgsl *w = wgsl_new(a, directory);
    wgsl_add(w, "templates/webgpu/one.wgsl", &word, 1);
    wgsl_want(w, "one_x");
    assert_string_equal(module(w), "fn three() { }\nfn two_x() { three(); }\nfn one_x() { two_x(); }\n");
    assert_dies(wgsl_add(wgsl_new(a, directory), "templates/webgpu/circle.wgsl", NULL, 0),
                "this template includes itself; this is a mistake in forgec");
    assert_dies(wgsl_add(wgsl_new(a, directory), "templates/webgpu/none.wgsl", NULL, 0), "none.wgsl");
}

static void mistakes_are_said(void **state)
{
    (void)state;
    assert_dies(kept("fn f() { }\n", "g"), "no template of WGSL has g; this is a mistake in forgec");
    assert_dies(kept("fn f() { }\nfn f() { return; }\n", "f"), "text:2: another template has another f; this is a mistake in forgec");
    assert_dies(kept("fn f() {\n", "f"), "an item has no end; this is a mistake in forgec");
    assert_dies(kept("/* /* */ fn f() { }\n", "f"), "a comment has no end; this is a mistake in forgec");
    assert_dies(kept("enable f16;\n", "f"), "neither fn, struct, const, alias, override nor var; this is a mistake in forgec");
    assert_dies(kept("fn () { }\n", "f"), "neither fn");
}

/* Every format has the items that its users need, and a module has no other items; two formats in one module do not repeat shared text. */
static void all_formats_are_there(void **state)
{
    (void)state;
    struct wgsl *all = wgsl_new(a, NULL);
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format *f = &format_table[i];
        const char *path = arena_printf(a, "templates/webgpu/formats/%s.wgsl", f->file);
        const struct wgsl_word word = { "WEIGHTS", "w0" };
        struct wgsl *w = wgsl_new(a, NULL);
        wgsl_add(w, path, &word, 1);
        wgsl_add(all, path, &word, 1);
        wgsl_want(w, arena_printf(a, "load_%s_w0", f->file));
        const char *loads = module(w);
        wgsl_want(w, arena_printf(a, f->coding ? "dot_%s" : "dotf_%s", f->file));
        wgsl_want(w, arena_printf(a, "values_%s", f->file));
        wgsl_want(w, arena_printf(a, "row_pieces_%s", f->file));
        wgsl_want(w, arena_printf(a, "UNIT_COLS_%s", f->file));
        wgsl_want(w, arena_printf(a, "PART_COLS_%s", f->file));
        assert_null(strstr(loads, "dot"));
        assert_null(strstr(module(w), "WEIGHTS"));
    }
}

static const char *small(const char *text)
{
    const struct bytes made = wgsl_small(a, (struct bytes){ (const uint8_t *)text, strlen(text) });
    return arena_strndup(a, (const char *)made.data, made.size);
}

static void what_is_served_has_no_comments(void **state)
{
    (void)state;
    assert_string_equal(small("/* a banner\n */\n// ==== one  two\nfn f() {  // why\n    let a = b/* c */d;\n\n\n}\n"),
                        "// ==== one  two\nfn f() {\nlet a = b d;\n}\n");
    assert_string_equal(small("/* /* inside */ still */const A = 1 / 2;  \n\t x\n"), "const A = 1 / 2;\nx\n");
    assert_string_equal(small("a // ==== b\n"), "a\n");
    assert_string_equal(small("a / b //"), "a / b ");
    assert_string_equal(small(""), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(uses_are_followed, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(words_are_parts_of_names, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(includes_come_first_and_not_in_circles, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(mistakes_are_said, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(what_is_served_has_no_comments, setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(all_formats_are_there, setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
