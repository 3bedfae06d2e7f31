/* test_document.c -- the items of a text that its user reaches: pasted names, conditions, shapes, and text that only looks like a use. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>
#include <sys/stat.h>

#include "compiler/source/document.h"
#include "compiler/source/paste.h"
#include "compiler/source/reach.h"
#include "scratch.h"

static struct arena *a;

static int setup(void **state)
{
    const int failed = scratch_setup(state);
    a                = ((struct scratch *)*state)->arena;
    return failed;
}

/* The lines of `library` that `user` needs; FORMAT is each of the formats in turn. */
static const char *kept(const char *library, const char *user, const char *const formats[])
{
    struct reach        *r = reach_new(a, NULL, NULL);
    const struct records l = scan(a, "library", library, strlen(library)), u = scan(a, "user", user, strlen(user));
    for (uint32_t i = 0; formats[i]; i++) {
        reach_known(r, "FORMAT", formats[i]);
        reach_read(r, l.list, l.n, false);
    }
    reach_read(r, u.list, u.n, true);
    reach_finish(r);
    struct text t = {.arena = a};
    for (uint32_t i = 0; i < l.n; i++)
        if ((l.list[i].kind == RECORD_CODE || l.list[i].kind == RECORD_DEFINE) && reach_needs(r, &l.list[i]))
            text_printf(&t, "%.*s\n", (int)l.list[i].size, l.list[i].text);
    return text_str(&t);
}

static const char *const one[] = {"q8_0", NULL}, *const two[] = {"q8_0", "f32", NULL};
#define KEPT(library, user, formats, wanted) assert_string_equal(kept(library, user, formats), wanted)

static void names_are_followed(void **state)
{
    (void)state;
    KEPT("static int f(void) { return 1; }\nstatic int g(void) { return f(); }\nstatic int h(void) { return 2; }\n",
         "int x(void) { return g(); }\n", one, "static int f(void) { return 1; }\nstatic int g(void) { return f(); }\n");
    KEPT("struct s { int a; };\nstruct t { struct s s; };\nenum { A = 1, B = A + 2 };\nenum { C };\ntypedef int word;\n",
         "struct t *p;\nint b = B;\n", one, "struct s { int a; };\nstruct t { struct s s; };\nenum { A = 1, B = A + 2 };\n");
    KEPT("typedef void sink(int);\nstatic void f(int x)\n{\n    (void)x;\n}\nstatic const float table[2] = {\n    1,\n    2,\n};\n",
         "sink *s = f;\nfloat y(void) { return table[0]; }\n", one,
         "typedef void sink(int);\nstatic void f(int x)\n{\n    (void)x;\n}\nstatic const float table[2] = {\n    1,\n    2,\n};\n");
}

static void names_are_pasted_as_the_compiler_does(void **state)
{
    (void)state;
    static const char library[] = "#define P_(a, b) a##_##b\n#define P(a, b) P_(a, b)\n#define F(name) P(name, FORMAT)\n"
                                  "static int F(load)(int x) { return x; }\nstatic int F(gemv)(int x) { return F(load)(x); }\nstatic int "
                                  "F(other)(int x) { return x; }\n";
    static const char wanted[]  = "#define P_(a, b) a##_##b\n#define P(a, b) P_(a, b)\n#define F(name) P(name, FORMAT)\n"
                                  "static int F(load)(int x) { return x; }\nstatic int F(gemv)(int x) { return F(load)(x); }\n";
    KEPT(library, "int x = gemv_q8_0(1);\n", one, wanted);
    KEPT(library, "int x = gemv_q4_K(1);\n", one, "");
    /* the first call expands to a macro, whose arguments follow */
    KEPT("#define J(a, b) a##b\n#define BYTES_q8(n) size(n)\nstatic int size(int n) { return n; }\n", "int x = J(BYTES_, q8)(4);\n", one,
         "#define J(a, b) a##b\n#define BYTES_q8(n) size(n)\nstatic int size(int n) { return n; }\n");
}

static void shapes_are_read_each(void **state)
{
    (void)state;
    static const char library[] =
        "#define J(a, b) a##b\n#define K(a, b) J(a, b)\n#define UNIT_q8_0 64\n#define UNIT_f32 4\nstatic int whole(void) { return 1; }\n"
        "static int small(void) { return 2; }\nstatic int K(dot_, FORMAT)(void)\n{\n#if K(UNIT_, FORMAT) == 64\n    return "
        "whole();\n#else\n"
        "    return small();\n#endif\n}\n";
    assert_null(strstr(kept(library, "int x = dot_q8_0();\n", one), "int small"));
    /* an item kept for one shape is compiled for the other shape too */
    assert_non_null(strstr(kept(library, "int x = dot_q8_0();\n", two), "int small"));
    assert_non_null(strstr(kept(library, "int x = dot_f32();\n", two), "int whole"));
    assert_non_null(strstr(kept(library, "int x = dot_f32() + dot_q8_0();\n", two), "int whole"));
}

static void other_things_of_the_name_are_no_use(void **state)
{
    (void)state;
    static const char library[] = "static void scale(float *x) { *x = 0; }\n";
    KEPT(library, "float f(const float *scale) { const float y = scale[0]; return y * scale[1]; }\n", one, "");
    KEPT(library, "float f(struct p *p) { return p->scale; } /* scale( */\nconst char *s = \"scale(x)\";\n", one, "");
    KEPT(library, "void f(float *x) { scale(x); }\n", one, library);
    KEPT(library, "void (*f)(float *) = scale;\n", one, library);
    /* a struct of the function's name */
    KEPT("struct piece { int x; };\nstatic struct piece piece(void) { const struct piece p = { 1 }; return p; }\n",
         "int f(void) { const struct piece p = piece(); return p.x; }\n", one,
         "struct piece { int x; };\nstatic struct piece piece(void) { const struct piece p = { 1 }; return p; }\n");
}

static void items_end_where_they_do(void **state)
{
    (void)state;
    KEPT("static int f(void)\n{\n    /* } */\n    const char *s = \"}\";\n\n    return s[0] == '}';\n}\nstatic int g(void) { return 1; }\n",
         "int x = g();\n", one, "static int g(void) { return 1; }\n");
    KEPT("#define MANY(x) \\\n    do { \\\n    } while (0)\n#define NOTE 1 /* goes\n   on */\nstatic int g(void) { return 1; }\n",
         "int x = g() + NOTE;\n", one, "#define NOTE 1 /* goes\n   on */\nstatic int g(void) { return 1; }\n");
    KEPT("int f(void), h(void);   /* two\n   names */\nint g(void);\n", "int x = h();\n", one,
         "int f(void), h(void);   /* two\n   names */\n");
}

static void what_is_not_known_stays(void **state)
{
    (void)state;
    KEPT("#ifdef __clang__\n#define ROLL 1\n#else\n#define ROLL 2\n#endif\n", "int x = ROLL;\n", one, "#define ROLL 1\n#define ROLL 2\n");
    KEPT("__asm__(\".globl x\");\nint y;\n", "int x;\n", one, "__asm__(\".globl x\");\n");
    KEPT("enum { N = 4 };\n_Static_assert(N == 4, \"\");\n", "int x;\n", one, "");
    KEPT("enum { N = 4 };\n_Static_assert(N == 4, \"\");\n", "int x = N;\n", one, "enum { N = 4 };\n_Static_assert(N == 4, \"\");\n");
    KEPT("#ifndef GUARD_H\n#define GUARD_H\nint f(void);\n#endif\n", "int x = f();\n", one, "int f(void);\n");
}

/* templates/t/NAME in the folder. */
static void put_template(const struct scratch *s, const char *name, const char *text)
{
    const char *folder = arena_printf(a, "%s/t", s->directory), *path = arena_printf(a, "%s/%s", folder, name);
    mkdir(folder, 0755);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fputs(text, f) < 0, 0);
    assert_int_equal(fclose(f), 0);
}

static uint32_t times(const char *text, const char *what)
{
    uint32_t n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* The document of a model that includes these headers in order, preprocessed for a compiler that defines `flag`. */
static const char *compiled(const struct scratch *s, const char *const headers[], const char *model, const char *flag)
{
    struct document *d = document_new(a, s->directory);
    for (uint32_t i = 0; headers[i]; i++) document_use(d, headers[i]);
    const struct bytes text = document_print(d, "/* a model\n", model);
    const char *source = arena_printf(a, "%s/model.c", s->directory), *out = arena_printf(a, "%s/model.i", s->directory);
    FILE *f = fopen(source, "w");
    assert_int_equal(fwrite(text.data, 1, text.size, f), text.size);
    assert_int_equal(fclose(f), 0);
    const char *const argv[] = { "cc", "-E", "-P", flag, "-DSOURCE_NAME=\"model.c\"", source, "-o", out, NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    assert_int_equal(job.status, 0);
    static char all[65536];
    f = fopen(out, "r");
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    assert_int_equal(fclose(f), 0);
    return all;
}

/* If the first include of a header is in a branch that the compiler skips, the header must appear at its next include. */
static void a_header_in_a_branch_is_there_behind_it(void **state)
{
    const struct scratch *s = *state;
    put_template(s, "quarter.h", "#ifndef QUARTER_H\n#define QUARTER_H\n#include \"base.h\"\nint quarter(int x) { return base(x); }\n"
                                 "#endif\n");
    put_template(s, "base.h", "#ifndef BASE_H\n#define BASE_H\nint base(int x) { return x; }\n#endif\n");
    put_template(s, "maybe.h", "#ifndef MAYBE_H\n#define MAYBE_H\n#ifdef __MAYBE__\n#include \"quarter.h\"\nint maybe(int x) { return "
                               "quarter(x); }\n#else\nint maybe(int x) { return x; }\n#endif\n#endif\n");
    put_template(s, "other.h", "#ifndef OTHER_H\n#define OTHER_H\n#if defined(__OTHER__)\nint other(int x) { return -x; }\n#else\n"
                               "#include \"quarter.h\"\nint other(int x) { return quarter(x); }\n#endif\n#endif\n");
    put_template(s, "plain.h", "#include \"quarter.h\"\n#include \"base.h\"\nint plain(int x) { return quarter(base(x)); }\n");
    put_template(s, "twice.h", "#ifdef __MAYBE__\n#include \"quarter.h\"\n#include \"plain.h\"\n#include \"quarter.h\"\n#endif\n"
                               "int twice(int x) { return x; }\n");
    static const char *const flags[] = { "-D__MAYBE__", "-D__OTHER__", "-D__NEITHER__" };
    static const char model[] = "int use(int x) { return maybe(x) + other(x) + plain(x); }\n";
    static const char *const orders[][4] = {
        { "templates/t/maybe.h", "templates/t/other.h", "templates/t/plain.h" },
        { "templates/t/other.h", "templates/t/plain.h", "templates/t/maybe.h" },
        { "templates/t/plain.h", "templates/t/maybe.h", "templates/t/other.h" },
    };
    for (uint32_t i = 0; i < COUNT_OF(orders); i++)
        for (uint32_t k = 0; k < COUNT_OF(flags); k++) {
            const char *text = compiled(s, orders[i], model, flags[k]);
            static const char *const names[] = { "int base(", "int quarter(", "int maybe(", "int other(", "int plain(", "int use(" };
            for (uint32_t n = 0; n < COUNT_OF(names); n++) assert_int_equal(times(text, names[n]), 1);
            assert_true(strstr(text, "int base(") < strstr(text, "int quarter("));
            assert_true(strstr(text, "int quarter(") < strstr(text, "int plain("));
        }
    /* it appears inside its branch, and only once */
    struct document *d = document_new(a, s->directory);
    document_use(d, "templates/t/twice.h");
    const struct bytes text = document_print(d, "/* a model\n", "int use(int x) { return twice(x); }\n#ifdef __MAYBE__\n"
                                                                "int more(int x) { return plain(x); }\n#endif\n");
    assert_int_equal(times((const char *)text.data, "int quarter("), 1);
    assert_int_equal(times((const char *)text.data, "int plain("), 1);
}

static void a_pasted_header_in_a_branch_is_pasted_behind_it(void **state)
{
    const struct scratch *s = *state;
    put_template(s, "q.h", "#ifndef Q_H\n#define Q_H\nint q;\n#endif\n");
    put_template(s, "m.h", "#ifndef M_H\n#define M_H\n#ifdef __MAYBE__\n#include \"q.h\"\n#endif\n#include \"q.h\"\n"
                           "#include \"q.h\"\n#endif\n");
    struct text out = { .arena = a };
    emit_paste(&(struct paster){ .arena = a, .out = &out, .templates = s->directory }, "templates/t/m.h");
    assert_int_equal(times(text_str(&out), "int q;"), 2);
    assert_true(strstr(strstr(text_str(&out), "#endif\n/* ---- end templates/t/q.h"), "int q;") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_followed),      cmocka_unit_test(names_are_pasted_as_the_compiler_does),
        cmocka_unit_test(shapes_are_read_each),    cmocka_unit_test(other_things_of_the_name_are_no_use),
        cmocka_unit_test(items_end_where_they_do), cmocka_unit_test(what_is_not_known_stays),
        cmocka_unit_test(a_header_in_a_branch_is_there_behind_it),
        cmocka_unit_test(a_pasted_header_in_a_branch_is_pasted_behind_it),
    };
    return cmocka_run_group_tests(tests, setup, scratch_teardown);
}
