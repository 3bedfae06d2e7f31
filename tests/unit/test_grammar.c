/* test_grammar.c -- grammars: accepted and refused texts byte by byte, masks compared with every token tried alone, hostile grammars, and
 * too little memory.  FORGEC_GRAMMAR_BENCH=1 prints the time of masks with large vocabularies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "compiler/product/vocab.h"
#include "runtime/chat/mask.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"
#include "made_gguf.h"

enum { ROOM = 16 << 20 };
static uint8_t *block;                                       /* [ROOM], freed as a whole before each test */

static const uint8_t *load(struct arena *a, const char *name)
{
    return vocab_build(a, gguf_open(a, arena_printf(a, FORGEC_UNPACKED "/tokenizers/%s.gguf", name), true), 0).data;
}

static struct lexicon lexicon_of(struct arena *a, const uint8_t *vocab, uint32_t n_vocab)
{
    struct lexicon x;
    const size_t bytes = lexicon_room(vocab, n_vocab);
    struct room r = room_of(arena_alloc(a, bytes), bytes);
    assert_true(lexicon_make(&x, vocab, n_vocab, &r));
    return x;
}

static const struct grammar *grammar_of(const char *text, const uint8_t *vocab)
{
    struct room r = room_of(block, ROOM);
    struct grammar_error error;
    const size_t n = strlen(text);
    char *exact = malloc(n ? n : 1);                         /* sanitizers find a read past the end */
    memcpy(exact, text, n);
    const struct grammar *g = grammar_read(&r, exact, n, vocab, &error);
    if (!g) fail_msg("%u:%u: %s in\n%s", error.line, error.column, error.text, text);
    free(exact);
    return g;
}

/* ---- accepted texts ---- */

#define JSON_TEXT \
    "root ::= object\n" \
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n" \
    "object ::=\n  \"{\" ws (\n    string \":\" ws value\n    (\",\" ws string \":\" ws value)*\n  )? \"}\" ws\n" \
    "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws # comment\n" \
    "string ::=\n  \"\\\"\" (\n    [^\"\\\\\\x7F\\x00-\\x1F] |\n" \
    "    \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) # escapes\n  )* \"\\\"\" ws\n" \
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n" \
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"

#define SUMS_TEXT \
    "root  ::= (expr \"=\" ws term \"\\n\")+\n" \
    "expr  ::= term ([-+*/] term)*\n" \
    "term  ::= ident | num | \"(\" ws expr \")\" ws\n" \
    "ident ::= [a-z] [a-z0-9_]* ws\n" \
    "num   ::= [0-9]+ ws\n" \
    "ws    ::= [ \\t\\n]*\n"

#define GAME_TEXT \
    "# moves\nroot ::= (\n  # the first\n  \"1. \" move \" \" move \"\\n\"\n  ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n)\n" \
    "move ::= (pawn | nonpawn | castle) [+#]?\r\n" \
    "nonpawn ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\r\n" \
    "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n" \
    "castle ::= \"O-O\" \"-O\"?\n"

static const struct { const char *grammar; const char *accepted[8], *refused[8]; } forms[] = {
    { "root ::= \"a\"", { "a" }, { "", "b", "aa", "A" } },
    { "root ::= \"a\" | \"bc\" | \"\"", { "a", "bc", "" }, { "b", "abc", "c" } },
    { "root ::= x y\nx::=\"1\"\ny ::= \"2\"", { "12" }, { "1", "21", "122" } },
    { "root ::= [a-cx] [^a-c] .", { "axz", "xx\n", "c\xc3\xa9\xf0\x9f\x98\x80" }, { "aab", "dxx", "ax", "a\xc3\xa9", "a\xc3z" } },
    { "root ::= \"a\"* \"b\"+ \"c\"?", { "b", "aabbc", "bc", "ab" }, { "", "a", "bcc", "ac", "ba" } },
    { "root ::= \"a\"{3} \"b\"{2,} \"c\"{1,3} \"d\"{0}", { "aaabbc", "aaabbbbbccc" },
      { "aabbc", "aaabc", "aaabb", "aaabbcccc", "aaabbcd" } },
    { "root ::= ([0-9]{2} \":\"){0,2} \"x\"", { "x", "12:x", "12:34:x" }, { "1:x", "12:34:56:x", "12x" } },
    { "root ::= [a-z]{300} \"!\"", { NULL }, { "abc!" } },
    { "root ::= (\"ab\" | \"a\"){100,200} \".\"", { NULL }, { "ab.", "a" } },
    { "root ::= (\"ab\" | [0-9]{3,}){2,1000}", { "abab", "ab123", "123456", "1234" "56ab" }, { "ab", "123", "a", "12ab" } },
    { "root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\r\\\\\\\"\"", { "A\xc3\xa9\xf0\x9f\x98\x80\n\t\r\\\"" }, { "A", "A\xe9" } },
    { "root ::= [\\]\\[\\-\\^a-]+", { "][-^a-" }, { "b", "\\" } },
    { "root ::= [\xd0\x90-\xd1\x8f]+ [\xe4\xb8\x80-\xe9\xbe\xa0] [^\\x00-\xef\xbf\xbf]",
      { "\xd0\x90\xd1\x8f\xe4\xb8\xad\xf0\x9f\x98\x80" }, { "a\xe4\xb8\xad\xf0\x9f\x98\x80", "\xd0\x90\xe4\xb8\xad\xe4\xb8\xad" } },
    { "root ::= .", { "a", "\n", "\xc2\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "\xe0\xa0\x80" },
      { "", "\xc0\x80", "\xc1\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\xe0\x80\x80", "\x80" } },
    { "root ::= [^\xc3\xa9\xf0\x9f\x98\x80]", { "a", "\xc3\xa8", "\xc3\xaa", "\xf0\x9f\x98\x81" },
      { "\xc3\xa9", "\xf0\x9f\x98\x80", "\xc3" } },
    { "root ::= a\na ::= \"(\" a \")\" | \"x\"", { "x", "((x))" }, { "(x", "x)", "()" } },
    { "root ::= a a\na ::= \"x\"? \"y\"?", { "", "x", "xyxy", "yx", "yy", "xx" }, { "yxyx", "xxx" } },
    { "root ::= ((\"\")* (\"a\"?)*)* \"b\"", { "b", "aaab" }, { "a", "" } },
    { "root ::= \"a\" root | \"b\"", { "b", "aaaab" }, { "a", "bb" } },
    { "root ::= | \"a\" |\n  \"b\"", { "", "a", "b" }, { "ab" } },
    { "root ::= never | \"a\"\nnever ::= \"b\" never", { "a" }, { "b", "bb" } },
    { "root ::= [] | \"a\" []* \"b\"", { "ab" }, { "a", "b" } },
    { "root ::= \"a\"{ 1 , 2 } x_1-y\nx_1-y ::= \"-\"", { "a-", "aa-" }, { "-", "aaa-" } },
    { JSON_TEXT, { "{}", "{\"a\":1}", "{ \"a\":[1,2.5e+3,null ,true],\"b\":{\"c\":\"\\u00e9\\n\xc3\xa9\"}}\n    " },
      { "[]", "{\"a\":01}", "{\"a\"}", "{\"a\":1,}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}", "{}x" } },
    { SUMS_TEXT, { "1+2=3\n", "(a +b1) *2=c\n", "1=1\n2=2\n" }, { "1+=3\n", "1+2\n", "(1=2\n", "=1\n" } },
    { GAME_TEXT, { "1. e4 e5\n2. Nf3 Nc6+\n", "1. d4 d5\n10. O-O O-O-O#\n" }, { "1. e4 e5\n", "1. e9 e5\n2. a1 a1\n", "2. e4 e5\n" } },
};

static bool accepts(struct mask *m, const char *text, size_t n)
{
    size_t n_read = 99999;
    assert_int_equal(mask_restart(m), MASK_OK);
    const enum mask_status status = mask_text(m, text, n, &n_read);
    if (status == MASK_OK) assert_int_equal(n_read, n);
    else assert_true(status == MASK_REFUSED && n_read < n);
    return status == MASK_OK && mask_may_end(m);
}

static void forms_accept(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    void *memory = malloc(mask_usual(&x));
    struct mask m;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        const struct grammar *g = grammar_of(forms[i].grammar, NULL);
        assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
        for (size_t k = 0; k < 8 && forms[i].accepted[k]; k++)
            if (!accepts(&m, forms[i].accepted[k], strlen(forms[i].accepted[k])))
                fail_msg("'%s' refused by\n%s", forms[i].accepted[k], forms[i].grammar);
        for (size_t k = 0; k < 8 && forms[i].refused[k]; k++)
            if (accepts(&m, forms[i].refused[k], strlen(forms[i].refused[k])))
                fail_msg("'%s' accepted by\n%s", forms[i].refused[k], forms[i].grammar);
    }
    /* Counts are not expanded into copies. */
    char text[400];
    memset(text, 'a', sizeof text);
    assert_int_equal(mask_open(&m, grammar_of("root ::= [a-z]{300} \"!\"", NULL), &x, memory, mask_usual(&x)), MASK_OK);
    for (size_t n = 298; n < 303; n++) {
        text[n] = '!';
        assert_true(accepts(&m, text, n + 1) == (n == 300));
        text[n] = 'a';
    }
    assert_int_equal(mask_open(&m, grammar_of("root ::= (\"ab\" | \"a\"){100,200} \".\"", NULL), &x, memory, mask_usual(&x)), MASK_OK);
    for (size_t n = 98; n < 203; n += n == 101 ? 97 : 1) {
        text[n] = '.';
        assert_true(accepts(&m, text, n + 1) == (n >= 100 && n <= 200));
        text[n] = 'a';
    }
    free(memory);
    arena_destroy(a);
}

static void choices(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    static const char *const texts[] = { "yes", "no", "maybe \"so\"\\\n", "ye" };
    struct grammar_choice of[4];
    for (size_t i = 0; i < 4; i++) of[i] = (struct grammar_choice){ texts[i], strlen(texts[i]) };
    struct room r = room_of(block, ROOM);
    struct grammar_error error;
    const struct grammar *g = grammar_of_choices(&r, of, 4, &error);
    assert_non_null(g);
    void *memory = malloc(mask_usual(&x));
    struct mask m;
    assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
    for (size_t i = 0; i < 4; i++) assert_true(accepts(&m, texts[i], strlen(texts[i])));
    assert_false(accepts(&m, "y", 1) || accepts(&m, "yesno", 5) || accepts(&m, "", 0));
    free(memory);
    arena_destroy(a);
}

/* ---- refused grammars ---- */

static const struct { const char *grammar, *why; uint32_t line, column; } wrong[] = {
    { "", "root", 0, 0 }, { "a ::= \"b\"", "root", 0, 0 }, { "root ::= x", "not defined: 'x'", 1, 10 },
    { "root ::= \"a\"\nroot ::= \"b\"", "twice: 'root'", 2, 1 }, { "root = \"a\"", "::=", 1, 6 },
      { "root ::= \"a", "closing quote", 1, 10 },
    { "root ::= \"a\nb\"", "closing quote", 1, 10 }, { "root ::= [a", "has no closing ]", 1, 10 },
      { "root ::= (\"a\"\n", "has no closing )", 1, 10 },
    { "root ::= \"\\q\"", "unknown escape", 1, 11 }, { "root ::= \"\\x4\"", "two hex", 1, 14 },
      { "root ::= \"\\ud800\"", "Unicode", 1, 17 },
    { "root ::= \"\\U00110000\"", "Unicode", 1, 21 }, { "root ::= [z-a]", "before it begins", 1, 11 },
      { "root ::= [\xff]", "UTF-8", 1, 11 },
    { "root ::= \"\xc3\"", "UTF-8", 1, 11 }, { "root ::= \"a\"{", "number", 1, 14 }, { "root ::= \"a\"{2,1}", "minimum", 1, 13 },
    { "root ::= \"a\"{1", "has no closing }", 1, 13 }, { "root ::= \"a\"{1048577}", "1048576", 1, 20 },
      { "root ::= \"a\" )", "cannot stand in a rule", 1, 14 },
    { "root ::= *", "cannot stand in a rule", 1, 10 }, { "root ::= \"a\" \n | \"b\"", "expected the name of a rule", 2, 2 },
    { "root ::= root \"a\" | \"b\"", "left recursion", 1, 1 },
      { "root ::= a\na ::= b \"x\"\nb ::= \"\"? c\nc ::= a | \"y\"", "left recursion", 2, 1 },
    { "root ::= (\"x\"? root)*", "left recursion", 1, 1 }, { "root ::= \"a\" root", "never ends", 0, 0 },
    { "root ::= (\"a\"?){2,100000}", "may be empty", 0, 0 }, { "root ::= <[99999]>", "does not have", 1, 10 },
      { "root ::= <nothing>", "does not have", 1, 10 },
    { "root ::= \"a\"++++++++++", "four repetitions", 1, 18 }, { "root ::= !\"a\"", "expected <", 1, 11 },
};

static void refused(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    struct grammar_error error;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct room r = room_of(block, ROOM);
        if (grammar_read(&r, wrong[i].grammar, strlen(wrong[i].grammar), vocab, &error)) fail_msg("%s was read", wrong[i].grammar);
        assert_int_equal(r.used, 0);
        if (!strstr(error.text, wrong[i].why) || error.line != wrong[i].line || error.column != wrong[i].column)
            fail_msg("%s\n%u:%u %s", wrong[i].grammar, error.line, error.column, error.text);
    }
    arena_destroy(a);
}

/* ---- masks ---- */

/* Compares the mask with every token tried alone, from the state of m. */
static void check_mask(struct mask *m, struct mask *other, const uint32_t *bits, const char *text, size_t n)
{
    const uint8_t *vocab = m->lexicon->vocab;
    assert_int_equal(mask_restart(other), MASK_OK);
    assert_int_equal(mask_text(other, text, n, NULL), MASK_OK);
    const uint16_t at = other->now;
    for (uint32_t id = 0; id < m->lexicon->n_vocab; id++) {
        char piece[256];
        const size_t n_piece = forge_token_text(vocab, (int32_t)id, false, piece, sizeof piece);
        bool wanted = n_piece > 0 && n_piece <= sizeof piece;
        if (forge_vocab_is_eog(vocab, (int32_t)id)) wanted = mask_may_end(m);
        else if (wanted) {
            if (other->n_places > other->most_places / 2) {
                assert_int_equal(mask_restart(other), MASK_OK);
                assert_int_equal(mask_text(other, text, n, NULL), MASK_OK);
            } else other->now = at;
            wanted = mask_text(other, piece, n_piece, NULL) == MASK_OK;
        }
        if (wanted != (bits[id / 32] >> id % 32 & 1))
            fail_msg("behind '%.*s' token %u '%.*s' is %s", (int)n, text, id, (int)n_piece, piece, wanted ? "missing" : "allowed");
        if (id % 1024 == 0) assert_int_equal(other->ended, false);
    }
}

static const char *const walked[] = {
    JSON_TEXT, SUMS_TEXT, GAME_TEXT, "root ::= .{0,40}", "root ::= ([^\"\\\\]{1,9} \"\\\"\"){2,}", "root ::= [a-zA-Z ,.]{3,30} \"\\n\"",
    "root ::= \"the \" (\"cat\" | \"castle\" | \"cats\" | \"\xf0\x9f\x98\x80\") .*",
    "root ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" [nt])* \"\\\"\"",
};

static uint32_t random_next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }

/* A random set bit. */
static int32_t random_token(const uint32_t *bits, uint32_t n_vocab, uint32_t *seed)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab; i++) n += bits[i / 32] >> i % 32 & 1;
    uint32_t pick = random_next(seed) % n;
    for (uint32_t i = 0; i < n_vocab; i++) if ((bits[i / 32] >> i % 32 & 1) && pick-- == 0) return (int32_t)i;
    return -1;
}

static void masks_are_right(void **state)
{
    (void)state;
    static const char *const names[] = { "tiny-llama-a", "tiny-gemma3-a", "fairytale", "tiny-gpt-oss-a" };
    uint32_t *bits = malloc(1 << 16);
    for (size_t v = 0; v < COUNT_OF(names); v++) {
        struct arena *a = arena_create();
        const uint8_t *vocab = load(a, names[v]);
        const uint32_t n_vocab = forge_vocab_n_tokens(vocab);
        const struct lexicon x = lexicon_of(a, vocab, n_vocab + 7);         /* the model has more tokens than the vocabulary */
        void *memory = malloc(mask_usual(&x)), *memory_other = malloc(mask_usual(&x));
        for (size_t i = 0; i < COUNT_OF(walked); i++) {
            const struct grammar *g = grammar_of(walked[i], vocab);
            for (uint32_t seed = 1, walk = 0; walk < 3; walk++) {
                struct mask m, other;
                char text[4096];
                size_t n = 0;
                assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
                assert_int_equal(mask_open(&other, g, &x, memory_other, mask_usual(&x)), MASK_OK);
                for (int step = 0; step < 16 && !m.ended; step++) {
                    assert_int_equal(mask_fill(&m, bits), MASK_OK);
                    check_mask(&m, &other, bits, text, n);
                    const int32_t id = random_token(bits, n_vocab + 7, &seed);
                    assert_int_equal(mask_token(&m, id), MASK_OK);
                    n += forge_token_text(vocab, id, false, text + n, sizeof text - n);
                    assert_true(n < sizeof text - 300);
                }
                if (m.ended) assert_int_equal(mask_token(&m, 5), MASK_REFUSED);
            }
        }
        free(memory);
        free(memory_other);
        arena_destroy(a);
    }
    free(bits);
}

/* Grammars that name tokens. */
static void named_tokens(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    int32_t control = 0, ends = 0;
    while (!forge_vocab_is_control(vocab, control) || forge_vocab_is_eog(vocab, control)) control++;
    while (!forge_vocab_is_eog(vocab, ends)) ends++;
    char text[200];
    snprintf(text, sizeof text, "root ::= <[%d]> (!<[%d]> | \"ab\") <[%d]>", control, 'x', control);
    const struct grammar *g = grammar_of(text, vocab);
    void *memory = malloc(mask_usual(&x));
    uint32_t *bits = malloc(x.n_words * 4);
    struct mask m;
    assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
    assert_int_equal(mask_fill(&m, bits), MASK_OK);
    for (uint32_t i = 0; i < x.n_vocab; i++) assert_true((bits[i / 32] >> i % 32 & 1) == (i == (uint32_t)control));
    assert_int_equal(mask_token(&m, 'x'), MASK_REFUSED);
    assert_int_equal(mask_token(&m, control), MASK_OK);
    assert_int_equal(mask_fill(&m, bits), MASK_OK);
    for (uint32_t i = 0; i < x.n_vocab; i++)
        assert_true((bits[i / 32] >> i % 32 & 1) == (i != 'x' && (x.text_bits[i / 32] >> i % 32 & 1)));
    assert_int_equal(mask_token(&m, 'x'), MASK_REFUSED);
    assert_int_equal(mask_token(&m, 'y'), MASK_OK);
    assert_false(mask_may_end(&m));
    assert_int_equal(mask_token(&m, control), MASK_OK);
    assert_true(mask_may_end(&m));
    assert_int_equal(mask_token(&m, ends), MASK_OK);
    assert_true(m.ended);
    free(bits);
    free(memory);
    arena_destroy(a);
}

/* ---- bounds ---- */

/* Wide and deep grammars: choices of many texts are read in one way, chains of rules take linear time, and what is too large is refused. */
static void large(void **state)
{
    enum { WIDE = 20000, DEEP = 60000, BYTES = 3 << 20 };
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    const size_t room = grammar_room(BYTES);
    void *memory = malloc(mask_usual(&x)), *big = malloc(room);
    uint32_t *bits = malloc(x.n_words * 4);
    char *text = malloc(BYTES), *at = text + sprintf(text, "root ::= \"<\" (");
    struct grammar_error error;
    struct mask m;
    for (int i = 0; i < WIDE; i++) at += sprintf(at, "%s\"word%d\"%s", i ? " | " : "", i * 7919 % WIDE, i * 7919 % WIDE % 3 ? ""
        : " [a-c]");
    at += sprintf(at, " | [x]) \">\"\n");
    struct room r = room_of(big, room);
    const struct grammar *g = grammar_read(&r, text, (size_t)(at - text), NULL, &error);
    if (!g) fail_msg("%s", error.text);
    assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
    static const struct { const char *text; bool good; } wide[] = {
        { "<word1>", true }, { "<word19999>", true }, { "<word3a>", true }, { "<x>", true }, { "<word3>", false }, { "<word20000>", false },
        { "<word>", false },
    };
    for (size_t i = 0; i < COUNT_OF(wide); i++) {
        size_t n_read;
        assert_int_equal(mask_restart(&m), MASK_OK);
        const bool good = mask_text(&m, wide[i].text, strlen(wide[i].text), &n_read) == MASK_OK && mask_may_end(&m);
        if (good != wide[i].good) fail_msg("%s", wide[i].text);
    }
    assert_int_equal(mask_restart(&m), MASK_OK);
    assert_int_equal(mask_text(&m, "<word1", 6, NULL), MASK_OK);
    assert_int_equal(mask_fill(&m, bits), MASK_OK);
    /* Each rule leads to the next; only the last shows that all of them end. */
    at = text + sprintf(text, "root ::= r0\n");
    for (int i = 0; i < DEEP; i++) at += sprintf(at, "r%d ::= \"a\" r%d\n", i, i + 1);
    at += sprintf(at, "r%d ::= \"b\"\n", DEEP);
    r = room_of(big, room);
    const clock_t begin = clock();
    g = grammar_read(&r, text, (size_t)(at - text), NULL, &error);
    if (!g) fail_msg("%s", error.text);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > 2) fail_msg("%g s", seconds);              /* quadratic: more than 3 s on a fast machine */
    /* Rules that are used once, in choices: written in place of each other, they would nest without end. */
    at = text + sprintf(text, "root ::= r0\n");
    for (int i = 0; i < DEEP / 2; i++) at += sprintf(at, "r%d ::= \"a\" (\"b\" | [c] | r%d)\n", i, i + 1);
    at += sprintf(at, "r%d ::= \"d\"\n", DEEP / 2);
    r = room_of(big, room);
    g = grammar_read(&r, text, (size_t)(at - text), NULL, &error);
    if (!g) fail_msg("%s", error.text);
    assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
    assert_true(mask_text(&m, "aaaaaaaac", 9, NULL) == MASK_OK && mask_may_end(&m));
    /* Objects that all begin alike, and differ in a name, in a value, or behind a rule: a text is read in one way. */
    for (int k = 0; k < 3; k++) {
        static const char *const bodies[] = { "ws \"\\\"p%d\\\":\" ws [0-9]+ end", "ws \"\\\"kind\\\":\" v%d end",
                                              "ws x ws o%d" };
        static const char *const values[] = { "v%d ::= \"u\"\n", "v%d ::= ws \"%d\"\n", "v%d ::= \"u\"\n" };
        at = text + sprintf(text, "ws ::= \" \"?\nend ::= ws \"}\"\nx ::= [x] \"y\"\nroot ::= ");
        for (int i = 0; i < WIDE; i++) at += sprintf(at, "%ss%d", i ? " | " : "", i);
        for (int i = 0; i < WIDE; i++) {
            at += sprintf(at, "\ns%d ::= \"{\" ", i);
            at += sprintf(at, bodies[k], i);
            at += sprintf(at, "\no%d ::= \"%d\" end\n", i, i);
            at += sprintf(at, values[k], i, i);
        }
        r = room_of(big, room);
        g = grammar_read(&r, text, (size_t)(at - text), NULL, &error);
        if (!g) fail_msg("%s", error.text);
        static const char *const good[] = { "{ \"p19999\": 12}", "{\"kind\": 19999 }", "{ xy 19999}" };
        assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
        assert_true(mask_text(&m, good[k], strlen(good[k]), NULL) == MASK_OK && mask_may_end(&m));
    }
    at = text + sprintf(text, "root ::= \"a\"\n");
    for (int i = 0; i <= GRAMMAR_MOST_RULES; i++) at += sprintf(at, "r%x::=.\n", i);
    r = room_of(big, room);
    assert_null(grammar_read(&r, text, (size_t)(at - text), NULL, &error));
    assert_non_null(strstr(error.text, "131072 rules"));
    at = text + sprintf(text, "root ::= \"b\"");
    for (int i = 0; i <= GRAMMAR_MOST_ALIKE; i++) at += sprintf(at, " | [a] \"%d\"", i);
    r = room_of(big, room);
    assert_null(grammar_read(&r, text, (size_t)(at - text), NULL, &error));
    assert_non_null(strstr(error.text, "2048 alternatives"));
    free(text);
    free(bits);
    free(memory);
    free(big);
    arena_destroy(a);
}

/* In rooms that are too small, reading fails with an error; with little memory, masks are right or refused. */
static void small_rooms(void **state)
{
    (void)state;
    struct grammar_error error;
    bool read = false;
    for (size_t size = 0; !read; size += size / 16 + 40) {
        uint8_t *exact = malloc(size ? size : 1);
        struct room r = room_of(exact, size);
        read = grammar_read(&r, JSON_TEXT, sizeof JSON_TEXT - 1, NULL, &error) != NULL;
        if (!read) assert_true(strstr(error.text, "memory") && r.used == 0);
        free(exact);
        assert_true(size < 1 << 20);
    }
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "fairytale");
    struct lexicon x;
    for (size_t size = 0, step = lexicon_room(vocab, 4096) / 40; ; size += step) {
        uint8_t *exact = malloc(size ? size : 1);
        struct room r = room_of(exact, size);
        const bool made = lexicon_make(&x, vocab, 4096, &r);
        free(exact);
        if (made) break;
        assert_true(size <= lexicon_room(vocab, 4096));
    }
    x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    uint32_t *bits = malloc(x.n_words * 4);
    const struct grammar *g = grammar_of(JSON_TEXT, NULL);
    uint32_t refusals = 0, rights = 0;
    for (size_t bytes = mask_least(&x); bytes < mask_least(&x) + (1 << 19); bytes += bytes / 5) {
        void *memory = malloc(bytes), *memory_other = malloc(mask_usual(&x));
        struct mask m, other;
        char text[8192];
        size_t n = 0;
        uint32_t seed = 7;
        assert_int_equal(mask_open(&m, g, &x, memory, bytes), MASK_OK);
        assert_int_equal(mask_open(&other, g, &x, memory_other, mask_usual(&x)), MASK_OK);
        for (int step = 0; step < 60 && !m.ended; step++) {
            const enum mask_status status = mask_fill(&m, bits);
            if (status == MASK_TOO_MUCH) { refusals++; break; }
            assert_int_equal(status, MASK_OK);
            rights++;
            if (step % 8 == 0) check_mask(&m, &other, bits, text, n);
            const int32_t id = random_token(bits, x.n_vocab, &seed);
            assert_int_equal(mask_token(&m, id), MASK_OK);
            n += forge_token_text(vocab, id, false, text + n, sizeof text - n);
        }
        free(memory);
        free(memory_other);
    }
    assert_true(rights > 50);
    assert_int_equal(mask_open(&(struct mask){ 0 }, g, &x, bits, mask_least(&x) - 1), MASK_TOO_MUCH);
    (void)refusals;
    free(bits);
    arena_destroy(a);
}

/* When memory is full, unneeded states are freed and the others move: nested brackets, opened and closed. */
static void memory_is_reused(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "tiny-llama-a");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    void *memory = malloc(mask_least(&x));
    struct mask m;
    uint32_t depth = 1, seed = 3, forgotten = 0;
    const struct grammar *g = grammar_of("root ::= \"[\" (root (\",\" root)*)? \"]\"", NULL);
    assert_int_equal(mask_open(&m, g, &x, memory, mask_least(&x)), MASK_OK);
    assert_int_equal(mask_text(&m, "[", 1, NULL), MASK_OK);
    for (uint32_t step = 0, closed = 0; step < 4000 || depth > 0; step++) {
        const uint32_t before = m.n_stacks;
        const bool open = step < 4000 && (depth < 2 || (depth < 30 && random_next(&seed) % 64 < 33));
        if (open && closed) assert_int_equal(mask_text(&m, ",", 1, NULL), MASK_OK);
        assert_int_equal(mask_text(&m, open ? "[" : "]", 1, NULL), MASK_OK);
        depth = open ? depth + 1 : depth - 1;
        closed = !open;
        forgotten += m.n_stacks < before;
        assert_int_equal(mask_may_end(&m), depth == 0);
    }
    assert_true(forgotten > 2);
    free(memory);
    arena_destroy(a);
}

/* Tokens of invalid UTF-8 bytes are not allowed where any text is allowed. */
static void broken_characters(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const struct gguf *made = GGUF("tokenizer.ggml.model=llama", "tokenizer.ggml.tokens:<unk>|<s>|</s>|a|\xc3\xa9|\xed\x9f\xbf|"
                                   "\xf4\x8f\xbf\xbf|\xc3|\xed\xa0\x80|\xed\xbf\xbf|\xe0\x9f\xbf|\xf0\x8f\xbf\xbf|\xf4\x90\x80\x80");
    const uint8_t *vocab = vocab_build(a, made, 0).data;
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    const struct grammar *g = grammar_of("root ::= ([^\"\\\\\\x7F\\x00-\\x1F])+", NULL);
    void *memory = malloc(mask_usual(&x));
    struct mask m;
    uint32_t bits[1];
    assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
    assert_int_equal(mask_fill(&m, bits), MASK_OK);
    assert_int_equal(bits[0] >> 3, 31);                      /* \xc3 may be continued */
    free(memory);
    arena_destroy(a);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Grammars that would take long: each is refused or answered in bounded time. */
static void hostile(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const uint8_t *vocab = load(a, "fairytale");
    const struct lexicon x = lexicon_of(a, vocab, forge_vocab_n_tokens(vocab));
    char *text = malloc(1 << 20), *at;
    void *memory = malloc(mask_usual(&x));
    uint32_t *bits = malloc(x.n_words * 4), stopped = 0;
    for (int kind = 0; kind < 12; kind++) {
        const double begin = seconds();
        at = text;
        switch (kind) {
        case 0: at += sprintf(at, "root ::= ((([a-z]{0,1000}){0,1000}){0,1000}){0,1000}"); break;
        case 1: at += sprintf(at, "root ::= (.{1,1000000}){1,1000000}"); break;
        case 2: at += sprintf(at, "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\""); break;
        case 3: for (int i = 0; i < 5000; i++) *at++ = '('; *at = 0; break;
        case 4:
            at += sprintf(at, "root ::= r0\n");
            for (int i = 0; i < 20000; i++) at += sprintf(at, "r%d ::= r%d r%d\n", i, i + 1, i + 1);
            at += sprintf(at, "r20000 ::= \"a\"");
            break;
        case 5:                                              /* each rule is twice the previous rule */
            at += sprintf(at, "root ::= r0\n");
            for (int i = 0; i < 60; i++) at += sprintf(at, "r%d ::= r%d | r%d r%d\n", i, i + 1, i + 1, i + 1);
            at += sprintf(at, "r60 ::= [a-z]");
            break;
        case 6:
            at += sprintf(at, "root ::= \"a\"");
            for (int i = 0; i < 60000; i++) at += sprintf(at, " | \"b%d\"", i);
            break;
        case 7:                                              /* in no order */
            at += sprintf(at, "root ::= r0\n");
            for (int i = 0; i < 30000; i++) at += sprintf(at, "r%d ::= r%d\n", (int)(i * 7919ll % 30011), (int)((i + 1) * 7919ll % 30011));
            at += sprintf(at, "r%d ::= \"a\"", (int)(30000 * 7919ll % 30011));
            break;
        case 8:
            at += sprintf(at, "root ::= ");
            for (int i = 0; i < 90; i++) at += sprintf(at, "(");
            at += sprintf(at, "[a-z]");
            for (int i = 0; i < 90; i++) at += sprintf(at, "){2,}");
            break;
        case 9: for (int i = 0; i < 1 << 18; i++) at += sprintf(at, "\n#"); break;
        case 10: at += sprintf(at, "root ::= "); for (int i = 0; i < 40; i++) at += sprintf(at, "([a-z]* [a-z]*)* "); break;
        case 11:
            at += sprintf(at, "root ::= [");
            for (uint32_t c = 0x100; c < 0x8000; c += 2) {
                char utf8[4];
                const size_t n = forge_utf8_put((uint8_t *)utf8, c);
                memcpy(at, utf8, n);
                at += n;
            }
            at += sprintf(at, "]*");
            break;
        }
        struct room r = room_of(block, ROOM);
        struct grammar_error error;
        struct mask m;
        uint32_t seed = 3;
        const struct grammar *g = grammar_read(&r, text, (size_t)(at - text), NULL, &error);
        if (getenv("FORGEC_GRAMMAR_BENCH"))
            print_message("hostile %d: read in %.3f s: %s\n", kind, seconds() - begin, g ? "read" : error.text);
        if (!g) { stopped++; continue; }
        enum mask_status status = mask_open(&m, g, &x, memory, mask_usual(&x));
        for (int step = 0; status == MASK_OK && step < 40 && !m.ended; step++) {
            status = mask_fill(&m, bits);
            if (status == MASK_OK) status = mask_token(&m, random_token(bits, x.n_vocab, &seed));
        }
        stopped += status == MASK_TOO_MUCH;
        if (getenv("FORGEC_GRAMMAR_BENCH")) print_message("hostile %d: status %d after %.3f s\n", kind, status, seconds() - begin);
        assert_true(status == MASK_OK || status == MASK_TOO_MUCH);
        assert_true(seconds() - begin < 60);
    }
    assert_true(stopped > 2);
    free(bits);
    free(memory);
    free(text);
    arena_destroy(a);
}

/* ---- speed ---- */

static void bench(void **state)
{
    (void)state;
    if (!getenv("FORGEC_GRAMMAR_BENCH")) return;
    static const char *const names[] = { "fairytale", "phi-3", "gpt-2", "deepseek-llm" };
    for (size_t v = 0; v < COUNT_OF(names); v++) {
        struct arena *a = arena_create();
        const uint8_t *vocab = load(a, names[v]);
        const uint32_t n_vocab = forge_vocab_n_tokens(vocab);
        double begin = seconds();
        const struct lexicon x = lexicon_of(a, vocab, n_vocab);
        print_message("%s: %u tokens, %u plain nodes, %u others, lexicon %.1f ms, %.1f MB of room\n", names[v], n_vocab, x.n_plain_nodes,
                      x.n_rest_nodes, (seconds() - begin) * 1e3, (double)lexicon_room(vocab, n_vocab) * 1e-6);
        void *memory = malloc(mask_usual(&x));
        uint32_t *bits = malloc(x.n_words * 4);
        for (size_t i = 0; i < COUNT_OF(walked); i++) {
            begin = seconds();
            const struct grammar *g = grammar_of(walked[i], vocab);
            const double read = seconds() - begin;
            double all = 0, worst = 0;
            uint32_t n = 0, seed = 11;
            for (int run = 0; run < 20; run++) {
                struct mask m;
                assert_int_equal(mask_open(&m, g, &x, memory, mask_usual(&x)), MASK_OK);
                for (int step = 0; step < 100 && !m.ended; step++) {
                    begin = seconds();
                    assert_int_equal(mask_fill(&m, bits), MASK_OK);
                    double took = seconds() - begin;
                    const int32_t id = random_token(bits, n_vocab, &seed);
                    begin = seconds();
                    assert_int_equal(mask_token(&m, id), MASK_OK);
                    took += seconds() - begin;
                    all += took;
                    n++;
                    if (took > worst) worst = took;
                }
            }
            print_message("  grammar %zu: read %.2f ms; %u tokens, %.1f us each, worst %.1f us\n", i, read * 1e3, n,
                          all / n * 1e6, worst * 1e6);
        }
        free(bits);
        free(memory);
        arena_destroy(a);
    }
}

int main(void)
{
    block = malloc(ROOM);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_accept), cmocka_unit_test(choices), cmocka_unit_test(refused), cmocka_unit_test(masks_are_right),
        cmocka_unit_test(named_tokens), cmocka_unit_test(large), cmocka_unit_test(small_rooms), cmocka_unit_test(memory_is_reused),
        cmocka_unit_test(broken_characters), cmocka_unit_test(hostile), cmocka_unit_test(bench),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
