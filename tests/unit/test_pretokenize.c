/* test_pretokenize.c -- the splitting rules against words that llama.cpp's regular expressions made.
 * tests/data/tokenizers/splits.txt: `text` is a text in hex; then for each rule `names`, the values of tokenizer.ggml.pre that mean it with
 * what else they switch on (+merges: a word that is a token stays whole, +bos), and `starts`, a number in hex for each text: bit i is set
 * where a word starts at codepoint i. */
#include "compiler/product/vocab.h"
#include "runtime/model/vocab.h"
#include "runtime/text/pretokenize.h"
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

struct sample { uint8_t *text; size_t n; };

static struct sample from_hex(struct arena *a, const char *hex)
{
    struct sample s = { arena_alloc(a, strlen(hex) / 2 + 1), 0 };
    for (; hex[0] && hex[1]; hex += 2) s.text[s.n++] = (uint8_t)strtoul((char[]){ hex[0], hex[1], 0 }, NULL, 16);
    return s;
}

/* Bit i: a word starts at unit i.  The buffers have their exact sizes, for sanitizers. */
static uint64_t starts_of(struct sample s, enum forge_pre pre)
{
    uint32_t    *units = malloc(4 * s.n + 1);
    uint8_t     *text  = malloc(s.n + 1);
    uint64_t     bits  = 0;
    assert_true(units && text);
    memcpy(text, s.text, s.n);
    const size_t n = pretoken_decode(units, text, s.n);
    assert_true(n <= MAX_UNITS);
    pretoken_split(units, n, pre);
    for (size_t i = 0; i < n; i++) bits |= (uint64_t)(units[i] >> 31) << i;
    free(units);
    free(text);
    return bits;
}

/* The rule that a name means, through the compiler.  name: with its + marks, which are checked. */
static enum forge_pre rule_of(struct arena *a, const char *name)
{
    struct forge_vocab_header h;
    const char *pure = arena_strndup(a, name, strcspn(name, "+"));
    memcpy(&h, vocab_build(a, GGUF("tokenizer.ggml.model=gpt2", arena_printf(a, "tokenizer.ggml.pre=%s", pure), "tokenizer.ggml.tokens:a|b",
                                   "tokenizer.ggml.merges:a b"), 0).data, sizeof h);
    if ((strstr(name, "+merges") != NULL) != ((h.flags & FORGE_VOCAB_IGNORE_MERGES) != 0)) fail_msg("%s: words that are tokens", pure);
    if ((strstr(name, "+bos") != NULL) != ((h.flags & FORGE_VOCAB_ADD_BOS) != 0)) fail_msg("%s: BOS", pure);
    return (enum forge_pre)h.pre;
}

static void rules_split_as_llama_cpp(void **state)
{
    (void)state;
    struct arena      *a     = arena_create();
    const struct bytes file  = file_read(a, FORGEC_TEST_DATA "/tokenizers/splits.txt");
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
        const enum forge_pre pre = rule_of(a, arena_strndup(a, names, strcspn(names, " ")));
        if (seen[pre]) fail_msg("%s: the rule of names before", names);
        seen[pre] = true;
        n_rules++;
        for (char *name = strtok(names, " "); name; name = strtok(NULL, " "), n_names++)
            if (rule_of(a, name) != pre) fail_msg("%s: another rule than the names before it", name);
        for (size_t i = 0; i < n_texts; i++) {
            const uint64_t want = strtoull(item, &item, 16), got = starts_of(texts[i], pre);
            if (got != want)
                fail_msg("rule %d, text %zu: words start at %llx, not at %llx", (int)pre, i, (unsigned long long)got,
                         (unsigned long long)want);
        }
        assert_int_equal(*item, 0);
    }
    print_message("%zu names of %zu rules, %zu texts\n", n_names, n_rules, n_texts);
    for (size_t i = 0; i < FORGE_PRE_COUNT; i++)
        if (!seen[i]) fail_msg("rule %zu has no words in splits.txt", i);
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
    pretoken_split(units, n, FORGE_PRE_JAIS2);
    for (size_t i = 1, k = 0; i < n; i++) {
        assert_int_equal(units[i] >> 31, k < COUNT_OF(ends) && ends[k] == i);
        k += units[i] >> 31;
    }
}

/* No rule takes quadratic time, and none loses a unit or leaves the text. */
static void long_texts(void **state)
{
    (void)state;
    static const char *const fill[] = { "a", " ", "\n", "1", "12 ", "<sentinel:", "IMGIMG",
                                        "\xe4\xb8\xad", "\xcc\x81", "A", "'", " \n", "/" };
    const size_t n = 1 << 18;
    uint8_t     *text  = malloc(n);
    uint32_t    *units = malloc(4 * n);
    assert_true(text && units);
    for (size_t i = 0; i < COUNT_OF(fill); i++)
        for (uint32_t pre = 0; pre < FORGE_PRE_COUNT; pre++) {
            for (size_t k = 0; k < n; k++) text[k] = (uint8_t)fill[i][k % strlen(fill[i])];
            const size_t n_units = pretoken_decode(units, text, n);
            assert_true(n_units > 0 && n_units <= n);
            pretoken_split(units, n_units, (enum forge_pre)pre);
            assert_true(units[0] & PRETOKEN_START);
        }
    free(text);
    free(units);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(rules_split_as_llama_cpp), cmocka_unit_test(blanks_in_halves),
                                        cmocka_unit_test(long_texts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
