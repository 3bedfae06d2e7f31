/* test_sample.c -- compares the sampler with a plain implementation that sorts everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/run/sample.h"

enum { N = 500, DRAWS = 40000 };

static const struct forge_sample_options off = { .temp = 1, .top_k = 0, .top_p = 1, .min_p = 0, .repeat_penalty = 1, .seed = 7 };

static struct forge_sampler *open_sampler(const struct forge_sample_options *o, uint32_t n)
{
    struct forge_sampler *s;
    struct forge_error error;
    assert_int_equal(sampler_open(&s, o, n, 1024, &error), FORGE_OK);
    return s;
}

struct pair { float logit; int id; };

static int by_logit(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : x->id - y->id;
}

/* Probabilities after llama.cpp's chain of samplers. */
static void reference(double *p, const float *logits, const struct forge_sample_options *o)
{
    struct pair c[N];
    for (int i = 0; i < N; i++) c[i] = (struct pair){ logits[i], i };
    qsort(c, N, sizeof *c, by_logit);
    int n = o->top_k > 0 && o->top_k < N ? o->top_k : N;
    double total = 0, sum = 0;
    for (int i = 0; i < n; i++) total += exp((double)(c[i].logit - c[0].logit));
    if (o->top_p < 1)
        for (int i = 0; i < n; i++)
            if ((sum += exp((double)(c[i].logit - c[0].logit)) / total) >= (double)o->top_p) { n = i + 1; break; }
    if (o->min_p > 0)
        while (n > 1 && exp((double)(c[n - 1].logit - c[0].logit)) < (double)o->min_p) n--;
    total = 0;
    memset(p, 0, N * sizeof *p);
    for (int i = 0; i < n; i++) total += p[c[i].id] = exp((double)(c[i].logit - c[0].logit) / (double)o->temp);
    for (int i = 0; i < N; i++) p[i] /= total;
}

static void check(struct forge_sample_options o, uint64_t data_seed)
{
    float logits[N], copy[N];
    double p[N];
    int count[N] = { 0 };
    struct forge_random r;
    random_seed(&r, data_seed);
    for (int i = 0; i < N; i++) logits[i] = (float)(random_unit(&r) * 12 - 4);
    reference(p, logits, &o);
    struct forge_sampler *s = open_sampler(&o, N);
    for (int i = 0; i < DRAWS; i++) {
        memcpy(copy, logits, sizeof copy);
        count[sampler_draw(s, copy)]++;
    }
    sampler_close(s);
    for (int i = 0; i < N; i++) {
        const double expected = p[i] * (double)DRAWS;
        if (p[i] == 0) assert_int_equal(count[i], 0);
        else assert_true(fabs(count[i] - expected) < 6 * sqrt(expected) + 6);
    }
}

static void test_chain(void **state)
{
    (void)state;
    struct forge_sample_options o = off;
    check(o, 1);
    o.top_k = 10;                        check(o, 2);
    o.top_p = 0.8f;                      check(o, 3);
    o.min_p = 0.1f;                      check(o, 4);
    o.top_k = 0;                         check(o, 5);
    o.min_p = 0;                         check(o, 6);
    o.top_p = 1; o.min_p = 0.2f;         check(o, 7);
    o.temp = 0.5f;                       check(o, 8);
    o = off; o.top_k = 1;                check(o, 9);
    o = off; o.top_p = 0;                check(o, 10);
    o = off; o.top_k = N + 5; o.min_p = 1; check(o, 11);
}

static void test_greedy(void **state)
{
    (void)state;
    struct forge_sample_options o = off;
    o.temp = 0;
    struct forge_sampler *s = open_sampler(&o, 20);
    float x[20];
    for (int i = 0; i < 20; i++) x[i] = (float)(i % 7);
    assert_int_equal(sampler_draw(s, x), 6);
    for (int i = 0; i < 20; i++) x[i] = NAN;
    assert_in_range(sampler_draw(s, x), 0, 19);
    x[13] = -3;
    assert_int_equal(sampler_draw(s, x), 13);
    sampler_close(s);
}

static void test_seed(void **state)
{
    (void)state;
    int32_t first[50];
    for (int run = 0; run < 3; run++) {
        struct forge_sample_options o = off;
        o.seed = run == 2 ? 8 : 7;
        struct forge_sampler *s = open_sampler(&o, N);
        int same = 0;
        for (int i = 0; i < 50; i++) {
            float x[N];
            for (int j = 0; j < N; j++) x[j] = (float)(j % 13) * 0.3f;
            const int32_t id = sampler_draw(s, x);
            if (run == 0) first[i] = id;
            same += id == first[i];
        }
        if (run == 1) assert_int_equal(same, 50);
        if (run == 2) assert_true(same < 25);
        sampler_close(s);
    }
}

static void test_penalties(void **state)
{
    (void)state;
    const struct forge_bias bias = { 5, -100 };
    struct forge_sample_options o = off;
    o.temp = 0; o.repeat_penalty = 2; o.presence_penalty = 0.5f; o.frequency_penalty = 0.25f; o.repeat_last_n = 3;
    o.biases = &bias;
    o.n_biases = 1;
    struct forge_sampler *s = open_sampler(&o, 8);
    const int32_t tokens[] = { 0, 1, 1, 2 };             /* 0 has left the window of three */
    for (int i = 0; i < 4; i++) sampler_accept(s, tokens[i]);
    float x[8] = { 4, 4, -4, 1, 1, 50, 1, 1 };
    assert_int_equal(sampler_draw(s, x), 0);
    assert_true(x[0] == 4.0f && x[1] == 2 - 1.0f && x[2] == -8 - 0.75f && x[5] == -50.0f);
    sampler_accept(s, 1);
    sampler_accept(s, 4);                                /* 2, 1, 4 are left: 1 once */
    float y[8] = { 4, 4, 4, 1, 1, 1, 1, 1 };
    assert_int_equal(sampler_draw(s, y), 0);
    assert_true(y[1] == 2 - 0.75f && y[2] == 2 - 0.75f && y[4] == 0.5f - 0.75f);
    sampler_close(s);
}

/* The least probable token is dropped, at any place among the tokens that top-k reads first. */
static void test_top_k(void **state)
{
    (void)state;
    struct forge_sample_options o = off;
    o.temp = 50;
    for (o.top_k = 2; o.top_k < 9; o.top_k++)
        for (int32_t worst = 0; worst < o.top_k; worst++) {
            struct forge_sampler *s = open_sampler(&o, 16);
            for (int i = 0; i < 200; i++) {
                float x[16];
                for (int j = 0; j < 16; j++) x[j] = (float)(16 - j);
                x[worst] = -1;
                const int32_t id = sampler_draw(s, x);
                assert_true(id != worst && id <= o.top_k);
            }
            sampler_close(s);
        }
}

/* A token with minus infinity, from a bias or the model, is never drawn; a token with plus infinity always. */
static void test_infinite(void **state)
{
    (void)state;
    struct forge_bias biases[] = { { 3, -INFINITY }, { 4, -INFINITY }, { 5, INFINITY } };
    struct forge_sample_options o = off;
    o.biases = biases;
    for (o.top_k = 0; o.top_k <= 8; o.top_k += 4) {
        o.n_biases = 2;
        o.top_p = o.top_k == 4 ? 1 : 0.999f;
        struct forge_sampler *s = open_sampler(&o, 8);
        for (int i = 0; i < 2000; i++) {
            float x[8] = { 1, NAN, 1, 9, 9, 1, -INFINITY, 1 };
            const int32_t id = sampler_draw(s, x);
            assert_true(id == 0 || id == 2 || id == 5 || id == 7);
        }
        sampler_close(s);
        o.n_biases = 3;
        s = open_sampler(&o, 8);
        float x[8] = { 0 };
        assert_int_equal(sampler_draw(s, x), 5);
        sampler_close(s);
    }
}

/* repeat_last_n -1 remembers the whole context, 0 nothing. */
static void test_window(void **state)
{
    (void)state;
    for (int32_t last_n = -1; last_n <= 0; last_n++) {
        struct forge_sample_options o = off;
        o.temp = 0; o.presence_penalty = 5; o.repeat_last_n = last_n;
        struct forge_sampler *s = open_sampler(&o, 4);
        sampler_accept(s, 2);
        for (int i = 0; i < 1000; i++) sampler_accept(s, 3);             /* the test's context has 1024 positions */
        float x[4] = { 1, 2, 4, 0 };
        assert_int_equal(sampler_draw(s, x), last_n < 0 ? 1 : 2);
        sampler_close(s);
    }
}

/* The token that is most probable, biased, or left by the other samplers. */
static void test_suppressed(void **state)
{
    (void)state;
    static const uint32_t never[] = { 1, 2 };
    for (int i = 0; i < 200; i++) {
        struct forge_sample_options o = off;
        const struct forge_bias bias = { 2, 50 };
        o.temp = i % 2 ? 1.5f : 0;
        o.top_k = i % 3;
        o.seed = (uint64_t)i;
        o.biases = &bias;
        o.n_biases = 1;
        o.suppressed = never;
        o.n_suppressed = 2;
        struct forge_sampler *s = open_sampler(&o, 4);
        float x[4] = { 1, 9, 8, 2 };
        const int32_t id = sampler_draw(s, x);
        assert_true(id == 3 || (id == 0 && o.temp > 0 && o.top_k != 1));
        sampler_close(s);
    }
}

static void test_random(void **state)
{
    (void)state;
    /* xoshiro256** from state 1, 2, 3, 4: the reference implementation's first numbers */
    struct forge_random r = { { 1, 2, 3, 4 } };
    assert_true(random_next(&r) == 11520u);
    assert_true(random_next(&r) == 0u);
    assert_true(random_next(&r) == 1509978240u);
    assert_true(random_next(&r) == 1215971899390074240u);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_chain), cmocka_unit_test(test_greedy), cmocka_unit_test(test_seed),
                                        cmocka_unit_test(test_penalties), cmocka_unit_test(test_infinite), cmocka_unit_test(test_window),
                                        cmocka_unit_test(test_suppressed), cmocka_unit_test(test_random), cmocka_unit_test(test_top_k) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
