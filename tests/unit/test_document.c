/* test_document.c -- which items of a text its user reaches: pasted names, conditions, shapes, and what looks like a use and is none. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "compiler/source/reach.h"

static struct arena *a;

static int setup(void **state)
{
    (void)state;
    a = arena_create();
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    arena_destroy(a);
    return 0;
}

/* The lines of `library` that stay, when the items of `user` are wanted; FORMAT is each of the formats in turn. */
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
    /* what the first call gives is a macro that takes what follows */
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
    /* what stays for one shape is compiled in the other, too */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_followed),      cmocka_unit_test(names_are_pasted_as_the_compiler_does),
        cmocka_unit_test(shapes_are_read_each),    cmocka_unit_test(other_things_of_the_name_are_no_use),
        cmocka_unit_test(items_end_where_they_do), cmocka_unit_test(what_is_not_known_stays),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
