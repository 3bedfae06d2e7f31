/* test_prefix.c -- prefixes of libraries that would not compile, and similar prefixes that are valid. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/product/header.h"
#include <string.h>

static void check(const char *const *list, size_t n, const char *reason)
{
    struct arena *a = arena_create();
    for (size_t i = 0; i < n; i++) {
        const char *wrong = library_prefix_wrong(a, list[i]);
        if (!reason && wrong) fail_msg("\"%s\" is refused: %s", list[i], wrong);
        if (reason && !wrong) fail_msg("\"%s\" is taken", list[i]);
        if (reason && !strstr(wrong, reason)) fail_msg("\"%s\": %s", list[i], wrong);
    }
    arena_destroy(a);
}
#define CHECK(reason, ...) do { static const char *const list_[] = { __VA_ARGS__ }; check(list_, COUNT_OF(list_), reason); } while (0)

static void identifiers(void **state)
{
    (void)state;
    CHECK("not a C identifier", "", "1a", "a-b", "a b", "caf\xc3\xa9", "a.b", "9", "*/");
    CHECK("too many", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

/* ISO/IEC 9899:2011 and 2024, 6.4.1; ISO/IEC 14882:2024, [lex.key] and [lex.digraph]. */
static void words(void **state)
{
    (void)state;
    CHECK("word of C or C++", "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
          "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed", "sizeof", "static",
          "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "alignas", "alignof", "bool", "constexpr",
          "false", "nullptr", "static_assert", "thread_local", "true", "typeof", "typeof_unqual");
    CHECK("word of C or C++", "asm", "catch", "char8_t", "char16_t", "char32_t", "class", "concept", "consteval", "constinit", "const_cast",
          "co_await", "co_return", "co_yield", "decltype", "delete", "dynamic_cast", "explicit", "export", "friend", "mutable", "namespace",
          "new", "noexcept", "operator", "private", "protected", "public", "reinterpret_cast", "requires", "static_cast", "template",
          "this", "throw", "try", "typeid", "typename", "using", "virtual", "wchar_t");
    CHECK("word of C or C++", "and", "and_eq", "bitand", "bitor", "compl", "not", "not_eq", "or", "or_eq", "xor", "xor_eq");
}

static void reserved(void **state)
{
    (void)state;
    CHECK("underscore", "_", "__", "_Bool", "_Complex", "_Generic", "__attribute__", "_a", "_A", "__a", "a__b", "a_", "x__", "_Atomic",
          "_Static_assert");
}

static void names_of_headers(void **state)
{
    (void)state;
    CHECK("C's headers", "NULL", "EOF", "errno", "assert", "main", "offsetof", "stdin", "stdout", "stderr", "size_t", "ptrdiff_t",
          "max_align_t", "int8_t", "uint64_t", "int_fast16_t", "uint_least32_t", "intptr_t", "uintmax_t", "INT8_MIN", "INT32_MAX",
          "UINT64_MAX", "INT_LEAST8_MAX", "UINT_FAST64_MAX", "INTPTR_MIN", "UINTMAX_MAX", "SIZE_MAX", "PTRDIFF_MIN", "WCHAR_MAX",
          "WINT_MIN", "SIG_ATOMIC_MAX", "INT32_C", "UINTMAX_C", "INT_WIDTH", "SIZE_WIDTH", "I", "complex", "linux", "unix", "INFINITY",
          "NAN", "unreachable");
}

static void functions(void **state)
{
    (void)state;
    CHECK("C library", "sem", "mq", "shm", "aio", "iconv", "pthread", "gai");
    /* step_begin and scan_begin are functions of a CPU's runtime, the others of a GPU's */
    CHECK("forgec's own runtime", "step", "scan", "gpu", "device", "draw", "engine", "library_engine", "forge");
}

static void good(void **state)
{
    (void)state;
    CHECK(NULL, "model", "story", "Story", "STORY", "a", "A1", "a_b", "iffy", "integer", "newer", "classes", "concepts", "null", "Null",
          "eof", "INTERN", "i", "unix2", "tiny_llama", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(identifiers), cmocka_unit_test(words), cmocka_unit_test(reserved),
                                        cmocka_unit_test(names_of_headers), cmocka_unit_test(functions), cmocka_unit_test(good) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
