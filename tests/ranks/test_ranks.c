/* test_ranks.c -- the runtime of a model that two GPUs share, on fake_driver.c.  That driver ends the process if the host waits for a value
 * that cannot come, a number of a collective is left out, a value is lost, or a call is for a GPU that is not current.  Texts, logits and
 * states are compared with numbers.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

#include "numbers.h"
#include "runtime/device/gpu_state.h"
#include "runtime/model/state.h"
#include "runtime/run/sample.h"

extern const struct forge_program ranks_first;

static struct forge_error error;
#define WORKS(expression) do { if ((expression) != FORGE_OK) fail_msg("%s: %s", #expression, error.text); } while (0)

/* Makes the clock run faster while a test waits for a hang to be detected. */
static double hurry;
double __real_seconds_now(void);
double __wrap_seconds_now(void);
double __wrap_seconds_now(void)
{
    static double ahead;
    ahead += hurry;
    return __real_seconds_now() + ahead;
}

/* ---- expected results ---- */

static float sum_behind(const int32_t *tokens, uint32_t n)
{
    uint32_t h = 1;
    float sum = 0;
    for (uint32_t i = n < 5 ? 0 : n - 5; i < n; i++) h = mix(h, (uint32_t)tokens[i]);
    for (uint32_t layer = 0; layer < 2; layer++) sum = part_of(0, layer, h, sum) + part_of(1, layer, h, sum);
    return sum;
}

static void check_logits(const float *logits, const int32_t *tokens, uint32_t n)
{
    for (uint32_t v = 0; v < N_VOCAB; v++) assert_true(logits[v] == logit_of(sum_behind(tokens, n), v));
}

/* modulus: only its multiples are allowed tokens. */
static int32_t next_token(const int32_t *tokens, uint32_t n, uint32_t modulus)
{
    uint32_t best = 0;
    const float sum = sum_behind(tokens, n);
    for (uint32_t v = 0; v < N_VOCAB; v += modulus) if (logit_of(sum, v) > logit_of(sum, best)) best = v;
    return (int32_t)best;
}

/* ---- an engine ---- */

static struct forge_engine engine;
static const struct forge_random random_numbers = { { 1, 2, 3, 4 } };
static const struct forge_sample_options greedy = { .top_p = 1, .repeat_penalty = 1 };
static int32_t text[4][N_CTX + 1];
static float logits[CHUNK * N_VOCAB];

static void begin(bool plain)
{
    const struct forge_weights_source source = { 0 };
    WORKS(engine_open(&engine, &ranks_first, NULL, &source, 1, 0, 4, &error));
    engine.plain_launches = plain;
    for (uint32_t k = 0; k < 4; k++)
        for (uint32_t i = 0; i <= N_CTX; i++) text[k][i] = (int32_t)(mix(k, i) % N_VOCAB);
}

static struct forge_sequence *open_one(void)
{
    struct forge_sequence *q;
    WORKS(sequence_open(&q, &engine, &error));
    return q;
}

/* Draws tokens on the GPUs after the sequence's tokens, checks each and appends it to the text. */
static void draw(struct forge_sequence *q, int32_t *tokens, uint32_t n_past, int32_t first, uint32_t n)
{
    uint32_t n_tokens = n_past + (first >= 0);
    WORKS(engine_draw_begin(q, &greedy, &random_numbers, first, n, false, &error));
    for (uint32_t i = 0; i < n; i++) {
        int32_t token;
        WORKS(engine_draw_next(q, &token, &error));
        assert_int_equal(token, next_token(tokens, n_tokens, 1));
        tokens[n_tokens++] = token;
    }
    assert_int_equal(q->n_past + 1, n_tokens);
}

/* Steps of every kind, one after the other: numbers of collectives continue from each step to the next. */
static void all_steps(bool plain)
{
    begin(plain);
    struct forge_sequence *q = open_one();
    WORKS(forge_step(q, text[0], 7, 1, logits, &error));                         /* a prompt */
    check_logits(logits, text[0], 7);
    WORKS(forge_step(q, text[0] + 7, 1, 1, logits, &error));                     /* a token */
    check_logits(logits, text[0], 8);
    WORKS(forge_step(q, text[0] + 8, 10, 0, logits, &error));                    /* without logits: fewer collectives */
    WORKS(forge_step(q, text[0] + 18, 3, 3, logits, &error));                    /* columns */
    for (uint32_t i = 0; i < 3; i++) check_logits(logits + i * N_VOCAB, text[0], 19 + i);
    WORKS(forge_step(q, text[0] + 21, 11, 11, logits, &error));                  /* three parts of logits */
    for (uint32_t i = 0; i < 11; i++) check_logits(logits + i * N_VOCAB, text[0], 22 + i);
    draw(q, text[0], 32, -1, 9);                                                 /* from those logits */
    assert_true(sequence_rewind(q, 32));
    draw(q, text[0], 32, text[0][32], 20);                                       /* after a token; the tokens drawn ahead are discarded */
    WORKS(forge_step(q, text[0] + q->n_past, 2, 2, logits, &error));
    check_logits(logits + N_VOCAB, text[0], q->n_past);
    WORKS(forge_step(q, text[0] + q->n_past, 1, 1, logits, &error));
    check_logits(logits, text[0], q->n_past);
    draw(q, text[0], q->n_past, -1, 3);
    engine_close(&engine);
}

static void steps_by_graphs(void **state) { (void)state; all_steps(false); }
static void steps_by_launches(void **state) { (void)state; all_steps(true); }

/* The host must not fill one stream and block before the other stream gets the launches for which the first stream waits. */
static void streams_that_are_full(void **state)
{
    (void)state;
    setenv("FAKE_QUEUE", "2", 1);
    all_steps(true);
    unsetenv("FAKE_QUEUE");
}

/* Several sequences in a step, with masks; some of them end. */
static void several(bool plain)
{
    struct forge_sequence *q[4];
    struct forge_column c[4];
    uint32_t mask[(N_VOCAB + 31) / 32] = { 0 };
    begin(plain);
    for (uint32_t v = 0; v < N_VOCAB; v += 3) mask[v / 32] |= (uint32_t)1 << v % 32;
    for (uint32_t k = 0; k < 4; k++) {
        q[k] = open_one();
        WORKS(forge_step(q[k], text[k], 5 + k, 0, logits, &error));
    }
    for (uint32_t k = 0; k < 4; k++)
        c[k] = (struct forge_column){ .sequence = q[k], .token = text[k][5 + k], .logits = logits + k * N_VOCAB };
    WORKS(engine_step(&engine, c, 4, &error));
    for (uint32_t k = 0; k < 4; k++) check_logits(logits + k * N_VOCAB, text[k], 6 + k);
    for (uint32_t round = 0; round < 12; round++) {
        /* Four sequences, three of a step begun with four, one alone; at the end other options in each round, after the running step. */
        const uint32_t n = round < 4 ? 4 : round < 8 ? 3 : 1;
        struct forge_sample_options options = greedy;
        if (round > 9) options.repeat_last_n = (int32_t)round;
        for (uint32_t k = 0; k < n; k++)
            c[k] = (struct forge_column){ .sequence = q[k], .token = text[k][q[k]->n_past], .options = &options, .random = &random_numbers,
                                          .guided = k == 1 || k == 0, .mask = mask };
        WORKS(engine_step_begin(&engine, c, n, &error));
        WORKS(engine_step_draw(&engine, c, n, round % 5 != 4, &error));
        for (uint32_t k = 0; k < n; k++) {
            assert_int_equal(c[k].drawn, next_token(text[k], q[k]->n_past, c[k].guided ? 3 : 1));
            text[k][q[k]->n_past] = c[k].drawn;
        }
    }
    WORKS(forge_step(q[3], text[3] + q[3]->n_past, 1, 1, logits, &error));       /* from its last position */
    check_logits(logits, text[3], q[3]->n_past);
    engine_close(&engine);
}

static void several_by_graphs(void **state) { (void)state; several(false); }
static void several_by_launches(void **state) { (void)state; several(true); }

/* ---- states ---- */

struct kept { uint8_t bytes[4096]; size_t n, at; };

static enum forge_status keep(void *context, uint8_t *bytes, size_t n, struct forge_error *e)
{
    struct kept *k = context;
    (void)e;
    assert_true(k->n + n <= sizeof k->bytes);
    memcpy(k->bytes + k->n, bytes, n);
    k->n += n;
    return FORGE_OK;
}

static enum forge_status bring(void *context, uint8_t *bytes, size_t n, struct forge_error *e)
{
    struct kept *k = context;
    (void)e;
    assert_true(k->at + n <= k->n);
    memcpy(bytes, k->bytes + k->at, n);
    k->at += n;
    return FORGE_OK;
}

static void states(void **state)
{
    (void)state;
    static struct kept kept;
    begin(false);
    struct forge_sequence *a = open_one(), *b = open_one(), *other = open_one();
    WORKS(forge_step(a, text[0], 20, 1, logits, &error));
    draw(a, text[0], 20, -1, 8);
    WORKS(sequence_save(a, keep, &kept, &error));
    assert_int_equal(kept.n, 32 * (ROW_BYTES_0 + ROW_BYTES_1));                  /* 27 tokens, rounded up to a multiple of 16 */
    assert_int_equal(kept.n, state_used_bytes(&ranks_first, a->n_past));
    for (uint32_t i = 0; i < a->n_past; i++) {                                   /* one GPU's state after the other's */
        assert_memory_equal(kept.bytes + i * ROW_BYTES_0, &text[0][i], 4);
        assert_memory_equal(kept.bytes + 32 * ROW_BYTES_0 + i * ROW_BYTES_1 + 8, &text[0][i], 4);
    }
    WORKS(sequence_copy(b, a, &error));                                          /* a fork continues like the original */
    draw(b, text[0], b->n_past, text[0][b->n_past], 5);
    const uint32_t n = a->n_past;
    sequence_close(a);
    sequence_close(b);
    WORKS(sequence_restore(other, text[0], n, n, 0, false, bring, &kept, &error));
    assert_int_equal(kept.at, kept.n);
    draw(other, text[0], n, text[0][n], 5);
    engine_close(&engine);
}

/* ---- the order of calls ---- */

/* The number of lines of the driver's log with both words. */
static uint32_t lines_with(const char *path, const char *one, const char *two)
{
    char line[128];
    uint32_t n = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) n += strstr(line, one) == line && strstr(line, two);
    fclose(file);
    return n;
}

static void order(void **state)
{
    (void)state;
    char path[] = "/tmp/ranks-XXXXXX", line[128], before[128] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    setenv("FAKE_LOG", path, 1);
    begin(true);
    struct forge_sequence *q = open_one();
    WORKS(forge_step(q, text[0], 1, 1, logits, &error));
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) {                                     /* each launch on one GPU is followed by the other GPU's */
        if (strstr(line, "launches") && *line == '1') assert_string_equal(line + 1, before + 1);
        if (strstr(line, "launches") && *line == '0') memcpy(before, line, sizeof line);
    }
    fclose(file);
    engine.plain_launches = false;
    const uint32_t launches = lines_with(path, "0 ", "launches");
    assert_int_equal(launches, 6);
    assert_int_equal(lines_with(path, "1 ", "launches"), 6);
    WORKS(forge_step(q, text[0] + 1, 1, 1, logits, &error));
    WORKS(forge_step(q, text[0] + 2, 1, 1, logits, &error));
    assert_int_equal(lines_with(path, "0 ", "captures"), 6);                     /* once on each GPU */
    assert_int_equal(lines_with(path, "1 ", "captures"), 6);
    assert_int_equal(lines_with(path, "0 ", "graph of 6"), 2);
    assert_int_equal(lines_with(path, "1 ", "graph of 6"), 2);
    uint32_t captured = 0;
    file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) {                                     /* all graphs are made before the first runs */
        captured += strstr(line, "captures") != NULL;
        if (strstr(line, "graph of")) assert_int_equal(captured, 12);
    }
    fclose(file);
    for (char rank[] = "0 "; *rank < '2'; ++*rank)
        for (uint32_t i = 1; i <= 6; i++) {
            char gives[16];
            snprintf(gives, sizeof gives, "gives %u\n", i);
            assert_int_equal(lines_with(path, rank, gives), 1);
        }
    engine_close(&engine);
    unsetenv("FAKE_LOG");
    unlink(path);
}

/* ---- errors ---- */

static void refused(enum forge_status wanted, const char *variable, const char *value, const struct forge_devices *devices,
                    const char *sentence)
{
    struct gpu *gpu;
    if (variable) setenv(variable, value, 1);
    assert_int_equal(ranks_first.gpu->runtime->open(&gpu, &ranks_first, devices, &error), wanted);
    if (!strstr(error.text, sentence)) fail_msg("'%s' lacks '%s'", error.text, sentence);
    assert_null(gpu);
    if (variable) unsetenv(variable);
}

static void refusals(void **state)
{
    (void)state;
    struct forge_devices one = { .n = 1, .number = { 0 } }, beyond = { .n = 2, .number = { 0, 2 } };
    refused(FORGE_USAGE, NULL, NULL, &one, "--devices names 1 GPU, ");
    refused(FORGE_NO_DEVICE, NULL, NULL, &beyond, "there is no GPU 2; this machine has 2");
    refused(FORGE_NO_MEMORY, "FAKE_MEMORY", "1,4000", NULL, "fake (GPU 1) has 0 MiB of 0 free, the program needs 0: weights 0, state 0");
    assert_non_null(strstr(error.text, ", collectives 0"));
    /* Enough memory, except for the rounding of allocations. */
    char bytes[32];
    snprintf(bytes, sizeof bytes, "1,%llu", (unsigned long long)gpu_bytes_needed(&ranks_first, ranks_first.gpu->ranks[1]) + 10);
    setenv("FAKE_MEMORY", bytes, 1);
    const struct forge_weights_source source = { 0 };
    assert_int_equal(engine_open(&engine, &ranks_first, NULL, &source, 1, 0, 1, &error), FORGE_NO_MEMORY);
    assert_non_null(strstr(error.text, "fake (GPU 1): 0.0 MiB for the "));
    assert_int_equal(engine_open(&engine, &ranks_first, NULL, &source, 1, 0, 2, &error), FORGE_NO_MEMORY);
    assert_non_null(strstr(error.text, "fake (GPU 1) has 0 MiB of 0 free, 2 sequences need 0"));
    unsetenv("FAKE_MEMORY");
    refused(FORGE_NO_DEVICE, "FAKE_DEVICES", "1", NULL, "the program needs 2 GPUs, number 2 of them ");
    assert_non_null(strstr(error.text, "this machine has 1, 1 that fits: fake"));
}

/* Programs of two GPUs that do not match are refused. */
static void broken_programs(void **state)
{
    (void)state;
    struct forge_program a = ranks_first, b = *ranks_first.gpu->ranks[1];
    struct forge_gpu first = *a.gpu, second = *b.gpu;
    const struct forge_program *ranks[] = { &a, &b };
    struct gpu *gpu;
    a.gpu = &first;
    b.gpu = &second;
    first.ranks = ranks;
    const struct { uint32_t *at, value; const char *sentence; } cases[] = {
        { &second.n_decode, 5, "GPUs 0 and 1 of the model do not belong together" },
        { &second.n_columns, 0, "do not belong together" },
        { &second.api, 7, "do not belong together" },
        { &b.n_states, 0, "do not belong together" },
        { &first.most_drafts, 3, "cannot speculate" },
        { &first.n_ranks, FORGE_GPU_MAX_RANKS + 1, "supports at most 8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint32_t before = *cases[i].at;
        *cases[i].at = cases[i].value;
        assert_int_equal(a.gpu->runtime->open(&gpu, &a, NULL, &error), FORGE_FAILED);
        if (!strstr(error.text, cases[i].sentence)) fail_msg("'%s' lacks '%s'", error.text, cases[i].sentence);
        *cases[i].at = before;
    }
    WORKS(a.gpu->runtime->open(&gpu, &a, NULL, &error));
    a.gpu->runtime->close(gpu);
}

/* Each fault runs in its own process, because the driver's GPUs do not recover. */
static void ends(const char *variable, const char *value, bool plain, const char *sentence)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(variable, value, 1);
        begin(plain);
        hurry = strcmp(variable, "FAKE_HANG") == 0 ? 0.5 : 0;
        struct forge_sequence *q = open_one();
        enum forge_status status = FORGE_OK;
        int32_t token;
        for (uint32_t i = 0; i < 3 && status == FORGE_OK; i++) status = forge_step(q, text[0] + q->n_past, 6, 1, logits, &error);
        if (status == FORGE_OK) status = engine_draw_begin(q, &greedy, &random_numbers, -1, 50, false, &error);
        while (status == FORGE_OK) status = engine_draw_next(q, &token, &error);
        engine_close(&engine);                                                   /* must not hang */
        if (write(pipes[1], error.text, strlen(error.text)) < 0) _exit(1);
        _exit((int)status);
    }
    close(pipes[1]);
    char said[600] = "";
    int code = 0;
    const ssize_t n = read(pipes[0], said, sizeof said - 1);
    close(pipes[0]);
    waitpid(child, &code, 0);
    if (n < 0 || !WIFEXITED(code) || WEXITSTATUS(code) != FORGE_DEVICE_FAULT || !strstr(said, sentence))
        fail_msg("%s=%s: %d, '%s' lacks '%s'", variable, value, code, said, sentence);
}

static void faults(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        ends("FAKE_FAULT", "1,9", plain, "fake (GPU 1): the GPU failed: ");
        ends("FAKE_FAULT", "1,9", plain, "; the launch that ran last: take of layer 0");
        ends("FAKE_FAULT", "0,3", plain, "fake (GPU 0): ");
        ends("FAKE_FAULT", "1,30", plain, "fake (GPU 1): the GPU failed: ");
        ends("FAKE_HANG", "1,8", plain, "the GPUs have not answered for 120 seconds; the launches that ran last: "
             "fake (GPU 0): take of layer 0; fake (GPU 1): give of layer 0");
        ends("FAKE_HANG", "0,40", plain, "the GPUs have not answered for 120 seconds");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults),            /* first: its child processes must begin with unused GPUs */
        cmocka_unit_test(refusals),          cmocka_unit_test(broken_programs),     cmocka_unit_test(order),
        cmocka_unit_test(steps_by_graphs),   cmocka_unit_test(steps_by_launches),   cmocka_unit_test(streams_that_are_full),
        cmocka_unit_test(several_by_graphs), cmocka_unit_test(several_by_launches), cmocka_unit_test(states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
