/* test_pretokenize.c -- compares the splitting rules with the words of llama.cpp's regular expressions and of the models' own patterns in
 * the tokenizers library, and normalization form C with that library.
 * In cases.tar.xz are splits.txt, llama.cpp's, and own.txt, the library's: `text` is a text in hex; then for each rule `names`, the values
 * of tokenizer.ggml.pre that mean it with what else they switch on (+merges: a word that is a token stays whole, +bos), and
 * `starts`, a number in hex for each text: bit i is set where a word starts at codepoint i.  nfc.txt: texts and their form C, in hex.
 * tests/tokenizers/vectors.mjs wrote the latter two. */
#include "compiler/product/vocab.h"
#include "runtime/model/vocab.h"
#include "runtime/text/pretokenize.h"
#include "runtime/text/tokenize.h"
#include "runtime/text/vocabulary.h"
#include "made_gguf.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifndef FORGEC_TEST_DATA
#define FORGEC_TEST_DATA "tests/data"
#endif

enum { MAX_TEXTS = 256, MAX_UNITS = 64 };

static struct forge_class newer[256];              /* codepoints newer than llama.cpp's tables */
static uint32_t           n_newer;

struct sample { uint8_t *text; size_t n; };

static struct sample from_hex(struct arena *a, const char *hex)
{
    struct sample s = { arena_alloc(a, strlen(hex) / 2 + 1), 0 };
    for (; hex[0] && hex[1]; hex += 2) s.text[s.n++] = (uint8_t)strtoul((char[]){ hex[0], hex[1], 0 }, NULL, 16);
    return s;
}

/* Bit i: a word starts at unit i.  The buffers have their exact sizes, for sanitizers. */
static uint64_t starts_of(struct sample s, enum forge_pre pre, bool llama_cpp)
{
    uint32_t    *units = malloc(4 * s.n + 1);
    uint8_t     *text  = malloc(s.n + 1);
    uint64_t     bits  = 0;
    assert_true(units && text);
    memcpy(text, s.text, s.n);
    const size_t n = pretoken_decode(units, text, s.n);
    assert_true(n <= MAX_UNITS);
    pretoken_split(units, n, pre, llama_cpp, newer, llama_cpp ? n_newer : 0);
    for (size_t i = 0; i < n; i++) bits |= (uint64_t)(units[i] >> 31) << i;
    free(units);
    free(text);
    return bits;
}

/* The rule that a name means, through the compiler.  name: with its + marks, which are checked. */
static enum forge_pre rule_of(struct arena *a, const char *name, bool llama_cpp)
{
    struct forge_vocab_header h;
    const char *pure = arena_strndup(a, name, strcspn(name, "+"));
    const uint8_t *vocab = vocab_build_as(a, GGUF("tokenizer.ggml.model=gpt2", arena_printf(a, "tokenizer.ggml.pre=%s", pure),
                                                  "tokenizer.ggml.tokens:a|b", "tokenizer.ggml.merges:a b"), 0, llama_cpp, NULL).data;
    memcpy(&h, vocab, sizeof h);
    assert_int_equal((h.flags & FORGE_VOCAB_LLAMA_CPP) != 0, llama_cpp);
    if (llama_cpp) {
        assert_true(h.n_classes > 0 && h.n_classes <= COUNT_OF(newer) && !(h.flags & FORGE_VOCAB_NFC));
        memcpy(newer, vocab_view(vocab).classes, h.n_classes * sizeof newer[0]);
        n_newer = h.n_classes;
        return (enum forge_pre)h.pre;
    }
    assert_int_equal(h.n_classes, 0);
    return (enum forge_pre)h.pre;
}
/* And the other options that the name switches on. */
static void check_marks(struct arena *a, const char *name)
{
    struct forge_vocab_header h;
    const char *pure = arena_strndup(a, name, strcspn(name, "+"));
    memcpy(&h, vocab_build(a, GGUF("tokenizer.ggml.model=gpt2", arena_printf(a, "tokenizer.ggml.pre=%s", pure), "tokenizer.ggml.tokens:a|b",
                                   "tokenizer.ggml.merges:a b"), 0).data, sizeof h);
    if ((strstr(name, "+merges") != NULL) != ((h.flags & FORGE_VOCAB_IGNORE_MERGES) != 0)) fail_msg("%s: words that are tokens", pure);
    if ((strstr(name, "+bos") != NULL) != ((h.flags & FORGE_VOCAB_ADD_BOS) != 0)) fail_msg("%s: BOS", pure);
}

static size_t check_rules(const char *path, bool llama_cpp)
{
    struct arena      *a     = arena_create();
    const struct bytes file  = file_read(a, path);
    char              *line  = arena_strndup(a, (const char *)file.data, file.size), *names = NULL;
    struct sample      texts[MAX_TEXTS];
    size_t             n_texts = 0, n_rules = 0, n_names = 0;
    bool               seen[FORGE_PRE_COUNT] = { false };
    for (char *next; line && *line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = 0;
        char *item = strchr(line, ' ');
        assert_non_null(item);
        *item++ = 0;
        if (strcmp(line, "names") == 0) { names = item; continue; }
        if (strcmp(line, "text") == 0) {
            assert_true(n_texts < MAX_TEXTS);
            texts[n_texts++] = from_hex(a, item);
            continue;
        }
        assert_non_null(names);
        const enum forge_pre pre = rule_of(a, arena_strndup(a, names, strcspn(names, " ")), llama_cpp);
        if (llama_cpp && seen[pre]) fail_msg("%s: the rule of names before", names);
        seen[pre] = true;
        n_rules++;
        for (char *name = strtok(names, " "); name; name = strtok(NULL, " "), n_names++) {
            if (rule_of(a, name, llama_cpp) != pre) fail_msg("%s: another rule than the names before it", name);
            if (llama_cpp) check_marks(a, name);
        }
        for (size_t i = 0; i < n_texts; i++) {
            const uint64_t want = strtoull(item, &item, 16), got = starts_of(texts[i], pre, llama_cpp);
            if (got != want)
                fail_msg("%s: rule %d, text %zu: words start at %llx, not at %llx", path, (int)pre, i, (unsigned long long)got,
                         (unsigned long long)want);
        }
        assert_int_equal(*item, 0);
    }
    print_message("%s: %zu names of %zu rules, %zu texts\n", path, n_names, n_rules, n_texts);
    for (size_t i = 0; llama_cpp && i < FORGE_PRE_COUNT; i++)
        if (!seen[i]) fail_msg("rule %zu has no words in splits.txt", i);
    arena_destroy(a);
    return n_rules;
}

static void rules_split_as_llama_cpp(void **state)
{
    (void)state;
    check_rules(FORGEC_UNPACKED "/tokenizers/splits.txt", true);
}
static void rules_split_as_the_models(void **state)
{
    (void)state;
    assert_true(check_rules(FORGEC_UNPACKED "/tokenizers/own.txt", false) >= 18);
}

/* Form C of each text equals the library's, also for all texts joined with digits in between. */
static void composes(void **state)
{
    (void)state;
    struct arena      *a    = arena_create();
    const struct bytes file = file_read(a, FORGEC_UNPACKED "/tokenizers/nfc.txt");
    const uint8_t     *image = vocab_build(a, GGUF("tokenizer.ggml.model=gpt2", "tokenizer.ggml.pre=qwen2", "tokenizer.ggml.tokens:a|b",
                                                   "tokenizer.ggml.merges:a b"), 0).data;
    const struct vocab v = vocab_view(image);
    struct text in = { .arena = a }, out = { .arena = a };
    char *line = arena_strndup(a, (const char *)file.data, file.size);
    size_t n_cases = 0;
    for (char *next; line && *line; line = next) {
        if ((next = strchr(line, '\n'))) *next++ = 0;
        char *second = strchr(line, ' ');
        assert_non_null(second);
        *second++ = 0;
        const struct sample from = from_hex(a, line), to = from_hex(a, second);
        text_append(&in, (const char *)from.text, from.n);
        text_append(&out, (const char *)to.text, to.n);
        text_puts(&in, "0");
        text_puts(&out, "0");
        for (int whole = 0; whole < 2; whole++) {
            const uint8_t *text = whole ? (const uint8_t *)text_str(&in) : from.text;
            const uint8_t *want = whole ? (const uint8_t *)text_str(&out) : to.text;
            const size_t   n = whole ? in.size : from.n, n_want = whole ? out.size : to.n;
            struct scratch s = { .heap = malloc((6 * n + 6) * sizeof *s.heap), .units = malloc(2 * n * sizeof *s.units) };
            assert_true(s.heap && s.units);
            const size_t n_units = normal_form(&v, &s, pretoken_decode(s.units, text, n), true);
            assert_true(n_units <= n);
            struct text got = { .arena = a };
            for (size_t i = 0; i < n_units; i++) {
                uint8_t utf8[4];
                text_append(&got, (const char *)utf8, forge_utf8_put(utf8, s.units[i]));
            }
            if (got.size != n_want || memcmp(text_str(&got), want, n_want) != 0) fail_msg("form C of %s, %d", line, whole);
            free(s.heap);
            free(s.units);
        }
        n_cases++;
    }
    print_message("%zu texts in form C\n", n_cases);
    assert_true(n_cases >= 200);
    arena_destroy(a);
}

/* jais-2: blanks in powers of two from 512 down, the last of them with the next word. */
static void blanks_in_halves(void **state)
{
    (void)state;
    static const size_t ends[] = { 512, 768, 896, 898 };    /* of 899 blanks and a letter */
    uint8_t  text[900];
    uint32_t units[900];
    memset(text, ' ', 899);
    text[899] = 'x';
    const size_t n = pretoken_decode(units, text, 900);
    pretoken_split(units, n, FORGE_PRE_JAIS2, false, NULL, 0);
    for (size_t i = 1, k = 0; i < n; i++) {
        assert_int_equal(units[i] >> 31, k < COUNT_OF(ends) && ends[k] == i);
        k += units[i] >> 31;
    }
}

/* No rule takes quadratic time, loses a unit or reads beyond the text. */
static void long_texts(void **state)
{
    (void)state;
    static const char *const fill[] = { "a", " ", "\n", "1", "12 ", "<sentinel:", "IMGIMG",
                                        "\xe4\xb8\xad", "\xcc\x81", "A", "'", " \n", "/" };
    const size_t n = getenv("FORGEC_TEST_FEW") ? 1 << 16 : 1 << 18;
    uint8_t     *text  = malloc(n);
    uint32_t    *units = malloc(4 * n);
    assert_true(text && units);
    for (size_t i = 0; i < COUNT_OF(fill); i++)
        for (uint32_t pre = 0, llama_cpp = 0; pre < FORGE_PRE_COUNT; pre += llama_cpp, llama_cpp = !llama_cpp) {
            for (size_t k = 0; k < n; k++) text[k] = (uint8_t)fill[i][k % strlen(fill[i])];
            const size_t n_units = pretoken_decode(units, text, n);
            assert_true(n_units > 0 && n_units <= n);
            pretoken_split(units, n_units, (enum forge_pre)pre, llama_cpp, NULL, 0);
            assert_true(units[0] & PRETOKEN_START);
        }
    free(text);
    free(units);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rules_split_as_llama_cpp), cmocka_unit_test(rules_split_as_the_models),
                                        cmocka_unit_test(composes), cmocka_unit_test(blanks_in_halves),
                                        cmocka_unit_test(long_texts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
