/* test_share.c -- graphs of GPUs that share a model, executed by the reference in parallel threads, give the logits of the whole graph: for
 * all golden models, with two, three and four GPUs.  Threads synchronise at the collectives. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "compiler/front/reference.h"
#include "compiler/plan/share.h"

enum { TOKENS = 5, RANKS = 4, COLUMNS = 16 };            /* the golden models are small */

struct side {
    struct meeting     *with;
    const struct graph *graph;
    struct arena       *arena;
    const float        *given;           /* the last value: [TOKENS][cols] */
    uint32_t            cols;
    float              *logits;
};
struct meeting { pthread_barrier_t gate; uint32_t ranks; struct side sides[RANKS]; int32_t tokens[TOKENS]; };

/* Exchanges a value between GPUs: waits until all have written their part, and until all have read every part. */
static void meet(struct side *s, const struct node *n, float *y)
{
    const struct meeting *m = s->with;
    pthread_barrier_wait(&s->with->gate);
    for (uint32_t t = 0; t < TOKENS; t++) {
        float *row = y + (size_t)t * n->cols;
        for (uint32_t r = 0, at = 0; r < m->ranks; at += m->sides[r++].cols) {
            const float *given = m->sides[r].given + (size_t)t * m->sides[r].cols;
            for (uint32_t c = 0; c < m->sides[r].cols; c++)
                if (n->op == OP_all_gather) row[at + c] = given[c];
                else row[c] = (r ? row[c] : 0) + given[c];
        }
    }
    pthread_barrier_wait(&s->with->gate);
}

static void seen(void *context, const struct node *n, const float *const *x, const float *y)
{
    struct side *s = context;
    (void)x;
    if (n->op == OP_push) {
        float *copy = arena_array(s->arena, float, TOKENS * n->cols);
        memcpy(copy, y, TOKENS * n->cols * sizeof *copy);
        s->given = copy;
        s->cols = n->cols;
    }
    if (n->op == OP_all_reduce || n->op == OP_all_gather) meet(s, n, (float *)(uintptr_t)y);
    if (n == s->graph->output) memcpy(s->logits, y, TOKENS * n->cols * sizeof *y);
}

static void *side_main(void *argument)
{
    struct side *s = argument;
    reference_values(s->arena, s->graph, &(struct rounding){ 0 }, s->with->tokens, TOKENS, seen, s);
    return NULL;
}

static uint32_t collectives(const struct graph *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n += g->nodes[i]->op == OP_push;
    return n;
}

/* The largest difference from `whole`, relative to the largest logit. */
static double shared(struct arena *a, const struct graph *g, const float *whole, uint32_t ranks, uint32_t *n_collectives)
{
    struct meeting m = { .ranks = ranks };
    pthread_t threads[RANKS];
    const uint32_t cols = g->output->cols;
    double most = 0, largest = 0;
    for (uint32_t t = 0; t < TOKENS; t++) m.tokens[t] = (int32_t)((t * 37 + 11) % g->model->n_vocab);
    pthread_barrier_init(&m.gate, NULL, ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        m.sides[r] = (struct side){ .with = &m, .graph = share_graph(a, g, r, ranks, COLUMNS), .arena = arena_create(),
                                    .logits = arena_array(a, float, TOKENS * cols) };
        assert_int_equal(collectives(m.sides[r].graph), collectives(m.sides[0].graph));
    }
    *n_collectives = collectives(m.sides[0].graph);
    for (uint32_t r = 0; r < ranks; r++) assert_int_equal(pthread_create(&threads[r], NULL, side_main, &m.sides[r]), 0);
    for (uint32_t r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&m.gate);
    for (uint32_t r = 0; r < ranks; r++) {
        assert_memory_equal(m.sides[r].logits, m.sides[0].logits, TOKENS * cols * sizeof *whole);
        arena_destroy(m.sides[r].arena);
    }
    for (uint32_t i = 0; i < TOKENS * cols; i++) {
        most = fmax(most, fabs((double)m.sides[0].logits[i] - (double)whole[i]));
        largest = fmax(largest, fabs((double)whole[i]));
    }
    return most / largest;
}

/* Returns the number of collectives. */
static uint32_t check_model(const char *path)
{
    struct arena *a = arena_create();
    const struct gguf *file = gguf_open(a, path, false);
    const struct graph *g = graph_build(a, model_describe(a, file, &(struct model_options){ .directory = NULL }));
    float *whole = arena_array(a, float, TOKENS * g->output->cols);
    int32_t tokens[TOKENS];
    uint32_t n = 0, all = 0;
    for (uint32_t t = 0; t < TOKENS; t++) tokens[t] = (int32_t)((t * 37 + 11) % g->model->n_vocab);
    reference_logits(a, g, &(struct rounding){ 0 }, tokens, TOKENS, whole);
    for (uint32_t ranks = 2; ranks <= RANKS; ranks++) {
        const double off = shared(a, g, whole, ranks, &n);
        if (!(off <= 2e-5)) fail_msg("%s by %u: %g of the largest logit off", path, ranks, off);
        all += n;
    }
    arena_destroy(a);
    return all;
}

/* least: minimum number of models; least_deep: minimum number of models that share more than the logits. */
static void check_models(const char *pattern, uint32_t least, uint32_t least_deep)
{
    glob_t files;
    uint32_t n = 0, deep = 0;
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (strstr(files.gl_pathv[i], "-of-") && !strstr(files.gl_pathv[i], "-00001-of-")) continue;
        if (strstr(files.gl_pathv[i], "bert")) continue;                   /* rows of embeddings: nothing to gather */
        deep += check_model(files.gl_pathv[i]) > RANKS - 1;              /* one collective per number of ranks is for the logits */
        n++;
    }
    globfree(&files);
    if (n < least || deep < least_deep) fail_msg("%u models, of which %u share more than the logits", n, deep);
}

static void golden(void **state)
{
    (void)state;
    check_models(FORGEC_TEST_DATA "/golden/*.gguf", 15, 15);
}

static void architectures(void **state)
{
    (void)state;
    check_models(FORGEC_UNPACKED "/golden/*.gguf", 8, 8);
}

static void tiny(void **state)
{
    (void)state;
    check_models(FORGEC_UNPACKED "/tiny/*.gguf", 30, 30);
}

/* If attention and the feed-forward part are parallel, their sums are one collective. */
static void joined(void **state)
{
    static const struct { const char *name; uint32_t each; } models[] = {
        { "falcon", 1 }, { "falcon-40b", 1 }, { "phi2", 1 }, { "command-r-plus", 1 }, { "cohere2", 1 }, { "gptneox", 1 },
        { "stablelm-12b", 1 },
        { "gptneox-serial", 2 }, { "stablelm", 2 }, { "gpt2", 2 }, { "qwen3moe", 2 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct arena *a = arena_create();
        const char *path = arena_printf(a, FORGEC_UNPACKED "/tiny/%s.gguf", models[i].name);
        const struct graph *g = graph_build(a, model_describe(a, gguf_open(a, path, false), NULL));
        const uint32_t n = collectives(share_graph(a, g, 1, 2, COLUMNS)), wanted = models[i].each * g->model->n_layer + 1;
        if (n != wanted) fail_msg("%s: %u collectives, not %u", models[i].name, n, wanted);
        arena_destroy(a);
    }
}

/* The numbers of query heads and KV heads of a layer's attention on each GPU. */
static void heads(void **state)
{
    static const struct { const char *path; uint32_t layer, ranks; const char *expected; } shares[] = {
        { FORGEC_TEST_DATA "/golden/llama-fusedqkv.gguf", 0, 2, " 1/1 1/1" },              /* 2 of 2 */
        { FORGEC_TEST_DATA "/golden/llama-bias-a64.gguf", 0, 2, " 1/1 1/1" },              /* 2 of 1: the KV head is on both */
        { FORGEC_TEST_DATA "/golden/llama-bias-a64.gguf", 0, 3, " 2/1 2/1 2/1" },          /* fewer heads than GPUs: all are replicated */
        { FORGEC_TEST_DATA "/golden/qwen2-h224.gguf", 0, 2, " 3/1 4/1" },                  /* 7 of 1 */
        { FORGEC_TEST_DATA "/golden/qwen2-h224.gguf", 0, 4, " 1/1 2/1 2/1 2/1" },
        { FORGEC_UNPACKED "/golden/glm4moe-a.gguf", 0, 2, " 2/1 2/1" },                    /* 4 of 2 */
        { FORGEC_UNPACKED "/golden/glm4moe-a.gguf", 0, 3, " 1/1 1/1 2/1" },                /* two GPUs share the first KV head */
        { FORGEC_UNPACKED "/golden/glm4moe-a.gguf", 0, 4, " 1/1 1/1 1/1 1/1" },
        { FORGEC_UNPACKED "/golden/hunyuan-dense-a.gguf", 0, 4, " 4/2 4/2 4/2 4/2" },      /* 4 of 2, too short to cut between */
    };
    (void)state;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        struct arena *a = arena_create();
        struct text found = { .arena = a };
        const struct graph *g = graph_build(a, model_describe(a, gguf_open(a, shares[i].path, false), NULL));
        for (uint32_t r = 0; r < shares[i].ranks; r++) {
            const struct graph *part = share_graph(a, g, r, shares[i].ranks, COLUMNS);
            for (uint32_t k = 0; k < part->n_nodes; k++) {
                const struct node *n = part->nodes[k];
                if (n->op == OP_attention && n->layer == shares[i].layer) text_printf(&found, " %u/%u", n->heads, n->inputs[1]->heads);
            }
        }
        if (strcmp(text_str(&found), shares[i].expected))
            fail_msg("%s by %u: heads%s, not%s", shares[i].path, shares[i].ranks, text_str(&found), shares[i].expected);
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden), cmocka_unit_test(architectures), cmocka_unit_test(tiny),
                                        cmocka_unit_test(joined), cmocka_unit_test(heads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
