/* test_layers.c -- graphs of pipeline stages, executed one after the other by the reference, give exactly the logits of the whole graph:
 * for all golden models with enough layers, with two and three stages.  Also the choice of the cuts. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "compiler/front/reference.h"
#include "compiler/plan/layers.h"

enum { TOKENS = 5, MOST_PASSED = 16 };

/* Values between two GPUs, in the order in which they are sent and received. */
struct passing {
    struct arena       *arena;
    const struct graph *graph;
    const float        *sent[MOST_PASSED], *received[MOST_PASSED];
    uint32_t            sent_cols[MOST_PASSED], received_cols[MOST_PASSED], n_sent, n_received, taken;
    float              *logits;
};

static void seen(void *context, const struct node *n, const float *const *x, const float *y)
{
    struct passing *p = context;
    (void)x;
    if (n->op == OP_receive) {
        assert_true(p->taken < p->n_received);
        assert_int_equal(n->cols, p->received_cols[p->taken]);
        memcpy((float *)(uintptr_t)y, p->received[p->taken++], TOKENS * n->cols * sizeof *y);
    }
    if (n->op == OP_send) {
        float *copy = arena_array(p->arena, float, TOKENS * n->cols);
        memcpy(copy, y, TOKENS * n->cols * sizeof *copy);
        assert_true(p->n_sent < MOST_PASSED);
        p->sent_cols[p->n_sent] = n->cols;
        p->sent[p->n_sent++] = copy;
    }
    if (n == p->graph->output) memcpy(p->logits, y, TOKENS * n->cols * sizeof *y);
}

static void fill(const struct graph *g, int32_t tokens[TOKENS])
{
    for (uint32_t t = 0; t < TOKENS; t++) tokens[t] = (int32_t)((t * 37 + 11) % g->model->n_vocab);
}

static void check_cuts(struct arena *a, const struct graph *g, const struct layers_cuts *cuts, const float *whole)
{
    struct passing p = { .arena = a, .logits = arena_array(a, float, TOKENS * g->output->cols) };
    int32_t tokens[TOKENS];
    uint32_t layers = 0;
    fill(g, tokens);
    for (uint32_t r = 0; r < cuts->ranks; layers += cuts->layers[r++]) {
        memcpy(p.received, p.sent, sizeof p.sent);
        memcpy(p.received_cols, p.sent_cols, sizeof p.sent_cols);
        p.n_received = p.n_sent;
        p.n_sent = p.taken = 0;
        p.graph = layers_graph(a, g, cuts, r);
        assert_true(cuts->layers[r] > 0);
        assert_int_equal(p.graph->output != NULL, r + 1 == cuts->ranks);
        reference_values(a, p.graph, &(struct rounding){ 0 }, tokens, TOKENS, seen, &p);
        assert_int_equal(p.taken, p.n_received);
    }
    assert_int_equal(layers, g->model->n_layer);
    assert_memory_equal(p.logits, whole, TOKENS * g->output->cols * sizeof *whole);
}

/* Returns whether the model has enough layers. */
static bool check_model(const char *path, uint32_t ranks)
{
    static const double alike[LAYERS_RANKS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    struct arena *a = arena_create();
    const struct graph *g = graph_build(a, model_describe(a, gguf_open(a, path, false), &(struct model_options){ .directory = NULL }));
    const bool enough = g->model->n_layer >= ranks;
    if (enough) {
        float *whole = arena_array(a, float, TOKENS * g->output->cols);
        int32_t tokens[TOKENS];
        fill(g, tokens);
        reference_logits(a, g, &(struct rounding){ 0 }, tokens, TOKENS, whole);
        const struct layers_cuts cuts = layers_cut(a, g, ranks, NULL, alike);
        check_cuts(a, g, &cuts, whole);
    }
    arena_destroy(a);
    return enough;
}

static void check_models(const char *pattern, uint32_t ranks, uint32_t least)
{
    glob_t files;
    uint32_t n = 0;
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        if (strstr(files.gl_pathv[i], "-of-") && !strstr(files.gl_pathv[i], "-00001-of-")) continue;
        if (strstr(files.gl_pathv[i], "bert")) continue;                   /* rows of embeddings are not split */
        n += check_model(files.gl_pathv[i], ranks);
    }
    globfree(&files);
    if (n < least) fail_msg("%u models of %u layers", n, ranks);
}

static void golden(void **state)
{
    (void)state;
    check_models(FORGEC_TEST_DATA "/golden/*.gguf", 2, 15);
}

static void architectures(void **state)
{
    (void)state;
    check_models(FORGEC_UNPACKED "/golden/*.gguf", 2, 8);
    check_models(FORGEC_UNPACKED "/golden/*.gguf", 3, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden), cmocka_unit_test(architectures) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
