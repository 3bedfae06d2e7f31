/* test_session.c -- sequences and the text of a run, with a program whose one kernel says a given text: where a text ends, and what a
 * sequence keeps when it is emptied. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "compiler/front/gguf.h"
#include "compiler/product/vocab.h"
#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

enum { N_CTX = 16, FAR_FROM = 8, STATE_BYTES = 4096 };
static const char said[] = "xyabcdefghijklmnopqrstuvw";      /* a token for each letter; the prompt is the first */

static struct arena *a;
static const uint8_t *vocab;

/* The letter after each of the last n_logits tokens is the most probable token. */
static void say(const struct forge_args *args, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads)
{
    const uint32_t n_vocab = forge_vocab_n_tokens(vocab), first = args->n_past + args->n_tokens - args->n_logits;
    (void)launch, (void)thread, (void)n_threads;
    memset(args->state, 1, STATE_BYTES);
    for (uint32_t i = 0; i < args->n_logits; i++) {
        float *row = args->logits + (size_t)i * n_vocab;
        for (uint32_t id = 0; id < n_vocab; id++) row[id] = 0;
        row[forge_vocab_find(vocab, said + first + i + 1, 1)] = 1;
    }
}

/* The first state and the last one are zero before the first token. */
static const struct forge_state states[] = {
    { FORGE_STATE_RECURRENT, 0, 0, 512, 0, 0, 0, 0 }, { FORGE_STATE_KV, 1, 1024, 2 * N_CTX * 8, 2, N_CTX, 8, UINT32_MAX },
    { FORGE_STATE_CONV, 2, 2048, 24, 0, 0, 0, 0 },
};
static const struct forge_launch launches[] = { { .kernel = say, .name = "say", .layer = UINT32_MAX } };
static const char *const no_features[] = { NULL };
static struct forge_program program = {
    .abi_version = FORGE_ABI_VERSION, .n_ctx = N_CTX, .chunk = 4, .max_logits = 4, .max_threads = 1, .n_decode = 1, .n_prefill = 1,
    .decode = launches, .prefill = launches, .arena_bytes = 4096, .weights_bytes = 4096, .state_bytes = STATE_BYTES, .n_states = 3,
    .states = states, .features = no_features,
};
const struct forge_program *const forge_programs[] = { &program };
const uint32_t forge_n_programs = 1;
const char *const forge_edited_source = NULL;
const uint8_t *const forge_weights = NULL;

static int setup(void **state)
{
    (void)state;
    a = arena_create();
    vocab = vocab_build(a, gguf_open(a, FORGEC_UNPACKED "/tokenizers/gpt-2.gguf", true), 0).data;
    program.vocab = vocab;
    program.n_vocab = forge_vocab_n_tokens(vocab);
    return 0;
}

static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static void open_engine(struct forge_engine *e, const struct forge_program *p, uint32_t n_sequences)
{
    struct forge_error error;
    const struct forge_weights_source noise = { .random = true };
    if (engine_open(e, p, NULL, &noise, 1, 0, n_sequences, &error) != FORGE_OK) fail_msg("%s", error.text);
}

/* The text of up to n tokens after the prompt, with these stop texts. */
static void check_text(const char *const *stops, size_t n_stops, int64_t n, const char *text, enum forge_ending ends)
{
    static struct forge_options options;
    struct forge_engine e;
    struct forge_session s;
    struct forge_error error;
    volatile sig_atomic_t stop = 0;
    enum forge_ending ending;
    char got[64] = "";
    int to[2];
    options = (struct forge_options){ .n_stops = n_stops, .sample = { .top_p = 1, .repeat_penalty = 1 } };
    for (size_t i = 0; i < n_stops; i++) options.stops[i] = stops[i];
    open_engine(&e, &program, 1);
    assert_int_equal(session_open(&s, &options, &e, &stop, &error), FORGE_OK);
    assert_int_equal(pipe(to), 0);
    stream_open(&s.out, to[1]);
    const int32_t prompt = forge_vocab_find(vocab, said, 1);
    assert_int_equal(session_prompt(&s, &prompt, 1, &error), FORGE_OK);
    assert_int_equal(session_generate(&s, n, true, &ending, &error), FORGE_OK);
    close(to[1]);
    assert_true(read(to[0], got, sizeof got - 1) >= 0);
    close(to[0]);
    assert_string_equal(got, text);
    assert_int_equal(ending, ends);
    session_close(&s);
    engine_close(&e);
}
#define TEXT(n, text, ends, ...) do { static const char *const s_[] = { __VA_ARGS__ }; \
    check_text(s_, sizeof s_ / sizeof *s_, n, text, ends); } while (0)

/* A stop text of several tokens is found, wherever it begins, also beside a longer or shorter stop text. */
static void stops(void **state)
{
    (void)state;
    TEXT(9, "yabc", ENDED_STOP, "abc");
    TEXT(9, "yab", ENDED_STOP, "ab");
    TEXT(9, "ya", ENDED_STOP, "a");
    TEXT(9, "yabcd", ENDED_STOP, "yabcd");
    TEXT(9, "yabc", ENDED_STOP, "abd", "bc", "abcdef");
    TEXT(5, "yabcd", ENDED_LIMIT, "xya", "bd", "de");
}

/* A text ends with its limit, or with the context: the token after the last one in the context is printed, but not computed. */
static void limits(void **state)
{
    (void)state;
    TEXT(3, "yab", ENDED_LIMIT, "nothing");
    TEXT(N_CTX - 1, "yabcdefghijklmn", ENDED_LIMIT, "nothing");
    TEXT(-1, "yabcdefghijklmno", ENDED_CONTEXT, "nothing");
}

/* Every state that must be zero before the first token is, again after a reset; a short text is then computed as a short one. */
static void reset(void **state)
{
    (void)state;
    struct forge_program far = program;
    struct forge_engine e;
    struct forge_sequence *q;
    struct forge_error error;
    static float logits[1 << 20];
    int32_t tokens[FAR_FROM + 1];
    far.far_from = FAR_FROM;
    assert_true(far.n_vocab <= sizeof logits / sizeof *logits);
    for (uint32_t i = 0; i <= FAR_FROM; i++) tokens[i] = forge_vocab_find(vocab, said + i, 1);
    open_engine(&e, &far, 1);
    assert_int_equal(sequence_open(&q, &e, &error), FORGE_OK);
    assert_int_equal(sequence_end(q), FAR_FROM);
    assert_int_equal(forge_step(q, tokens, FAR_FROM + 1, 1, logits, &error), FORGE_OK);
    assert_int_equal(q->n_past, FAR_FROM + 1);
    assert_int_equal(sequence_end(q), N_CTX);
    assert_int_equal(sequence_reset(q, &error), FORGE_OK);
    assert_int_equal(q->n_past, 0);
    assert_int_equal(sequence_end(q), FAR_FROM);
    for (uint32_t i = 0; i < far.n_states; i++)
        for (uint64_t k = 0; k < states[i].bytes; k++) assert_int_equal(q->state[states[i].offset + k], states[i].kind == FORGE_STATE_KV);
    engine_close(&e);
}

/* Each sequence has states of its own; no more can be open than the engine has room for. */
static void sequences(void **state)
{
    (void)state;
    struct forge_engine e;
    struct forge_sequence *q[4];
    struct forge_error error;
    open_engine(&e, &program, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(sequence_open(&q[i], &e, &error), FORGE_OK);
        memset(q[i]->state, (int)i + 1, STATE_BYTES);
    }
    assert_int_equal(sequence_open(&q[3], &e, &error), FORGE_TOO_LONG);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < STATE_BYTES; k++) assert_int_equal(q[i]->state[k], i + 1);
    sequence_close(q[1]);
    assert_int_equal(sequence_open(&q[3], &e, &error), FORGE_OK);
    assert_ptr_equal(q[3], q[1]);
    engine_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(stops), cmocka_unit_test(limits), cmocka_unit_test(reset),
                                        cmocka_unit_test(sequences) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
