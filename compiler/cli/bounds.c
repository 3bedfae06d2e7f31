/* bounds.c -- the table of bounds: about three times the largest value measured over all golden models, formats and targets
 * (GOLDEN_MEASURE=1 test_golden ... prints them). */
#include "bounds.h"
#include <math.h>

/* Rounding in steps makes a model slightly chaotic: a value at the border of two steps may fall either way, one step is larger than all
 * other rounding together, and later positions read the value from the cache. The worst position therefore says little. At the best
 * position no value fell the other way, so that position shows an error that is present everywhere (a scale, a rounding rule). If a value
 * fell the other way before the first position's K and V were stored, there is no such position; then the best position's bound is also
 * derived from what rounding moves (bound_widen). */
enum row {
    EXACT, HALF_CACHE, DIGITS, INT8, PROMPT_BLOCKS, PROMPT_F16, PROMPT_BF16, ROWS_BF16, ATTENTION_BF16, PARTS_BF16, HALF_PARTS,
    INT8_CACHE, N_ROWS
};
static const struct { const char *name; double most, least, mean_kl; } table[N_ROWS] = {
    /*                name                                 most    least  mean KL     largest measured */
    [EXACT]       = { "float activations and cache",       5e-5,   3e-6, 2.3e-10 }, /* 2.4e-5, 6.2e-7, 7.5e-11: gemma4-a; then
                                                                                     * llama-yarn-shard, 2.1e-11 */
    [HALF_CACHE]  = { "float activations, f16 cache",      1.8e-3, 5e-5,   1e-7 }, /* 5.7e-4, 1.5e-5, 3.5e-8: all formats in one model;
                                                                                    * golden models at best 3.7e-6 */
    [DIGITS]      = { "activations of 16 bits",            1.2e-3, 1.2e-4, 4e-7 }, /* 2.7e-4, 3.6e-5, 1.1e-7 */
    [INT8]        = { "int8 activations",                  6e-2,   3e-7,   2e-3 }, /* 2.1e-2, 9.7e-8, 6.9e-4 */
    [PROMPT_BLOCKS] = { "f16 activations and weights",     2.6e-2, 3e-3, 1.2e-4 }, /* 8.6e-3, 9.8e-4, 3.8e-5: Q2_K; the rounding of weights
                                                                                    * is not the reference's */
    [PROMPT_F16]  = { "f16 activations",                   6e-3, 1.2e-3, 1.5e-5 }, /* 2.0e-3, 4.0e-4, 4.9e-6 */
    [PROMPT_BF16] = { "bf16 activations",                  2.8e-2, 8e-7, 4.5e-4 }, /* 9.2e-3, 2.7e-7, 1.5e-4 */
    [ROWS_BF16]   = { "bf16 activations and weights",      6e-2,   8e-7,   2e-3 }, /* 2.1e-2, 4.0e-7, 6.9e-4 */
    [ATTENTION_BF16] = { "bf16 attention",                 5e-3,   9e-7,   7e-7 }, /* 1.8e-3, 2.8e-7, 2.2e-7 */
    [PARTS_BF16]  = { "two bf16 an activation",            2e-4,   4e-5,   1e-8 }, /* 3.5e-5, 7.9e-6, 2.1e-9: qwen3-a, llama-h288 */
    [HALF_PARTS]  = { "two bf16 an activation, f16 cache", 1.8e-3, 2.2e-4, 6.6e-7 }, /* 3.9e-4, 7.2e-5, 2.2e-7: llama-h288 of 7 seeds;
                                                                                      * K and V are off by 2^-18 before they are rounded */
    [INT8_CACHE]  = { "int8 cache",                        6e-2,   1e-6,   2e-3 }, /* 1.6e-2, 2.4e-7, 3.0e-4: forgec verify --kv q8_0 */
};

/* Counts of a token's values that are rounded: activations that matmuls with weights in blocks read; K and V. */
struct traits { bool blocks, f16, bf16; uint64_t activations, cached; };

/* Number of rows, each w->cols wide, that an operation multiplies with its weight; for experts, the rows of the chosen experts. */
static uint64_t rows_read(const struct node *node)
{
    if (node->op == OP_matmul_heads) return node->weight->slices;
    return node->op == OP_expert_matmul && node->attr.each ? node->inputs[1]->attr.used : 1;
}

static struct traits traits_of(const struct graph *g)
{
    struct traits t = { false, false, false, 0, 0 };
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *node = g->nodes[i];
        const bool multiplies = node->op == OP_matmul || node->op == OP_matmul_heads || node->op == OP_expert_matmul;
        if (node->op == OP_store_k || node->op == OP_store_v) t.cached += node->cols;
        if (!multiplies) continue;
        t.f16 |= node->weight->tensor->quant->id == QUANT_F16;
        t.bf16 |= node->weight->tensor->quant->id == QUANT_BF16;
        if (node->weight->tensor->quant->block_weights == 1) continue;
        t.blocks = true;
        t.activations += rows_read(node) * node->weight->cols;
    }
    return t;
}

/* Sets with which weights a CPU's matmuls read x and the weights as bf16, and whether attention reads bf16 (compiler/cpu/choose.c decides
 * both). True: some values are read as the sum of two bf16, which the reference does not round. */
static bool bf16_of(struct rounding *r, const struct graph *g, const struct target *target, const struct plan_options *o,
                    const struct traits *t, uint32_t step)
{
    const bool tiles = target->matrix_unit == MATRIX_TILES, prompt = step > 0 && (!t->blocks || step > target->tile.prefill_few);
    if (o->exact || target->kind != TARGET_CPU || !target->matrix_unit) return false;
    r->bf16 = BF16_OF_BF16 | (prompt && o->fast_bf16 ? BF16_OF_F16 : 0) | (prompt && tiles ? BF16_OF_BLOCKS : 0);
    r->pairs = step > 0 && (o->fast_bf16 || graph_in_blocks(g));
    return step > 0 && tiles && !o->fast_bf16;
}

/* Widens b to the bounds of the row. */
static void widen(struct bound *b, enum row row)
{
    b->most = fmax(b->most, table[row].most);
    b->least = fmax(b->least, table[row].least);
    b->mean_kl = fmax(b->mean_kl, table[row].mean_kl);
}

struct bound bound_find(const struct graph *g, const struct target *target, const struct plan_options *o, uint32_t step)
{
    const struct traits t = traits_of(g);
    const bool halves = !o->exact && target->kind == TARGET_GPU && step > 0;
    struct rounding rounding = { .halves = halves, .cache = o->kv != KV_TYPE_F32, .kv = o->kv };
    const bool parts = bf16_of(&rounding, g, target, o, &t, step);
    const uint32_t bf16 = rounding.bf16;
    const bool rows_bf16 = (bf16 & BF16_OF_BLOCKS && t.blocks) || (bf16 & BF16_OF_F16 && t.f16) || (bf16 & BF16_OF_BF16 && t.bf16);
    const bool digits = target->kind == TARGET_GPU && target->activation_digits == 2;
    const uint32_t steps = o->exact || halves || !t.blocks || bf16 & BF16_OF_BLOCKS ? 0 : digits ? 32639 : 127;
    const enum row row = halves ? t.blocks ? PROMPT_BLOCKS : t.bf16 ? PROMPT_BF16 : PROMPT_F16 : rows_bf16 ? ROWS_BF16
        : steps == 127 ? INT8 : steps ? DIGITS : rounding.pairs ? ATTENTION_BF16 : parts ? PARTS_BF16
        : o->kv == KV_TYPE_F32 ? EXACT : HALF_CACHE;
    rounding.steps = steps;
    struct bound b = { .name = table[row].name, .rounding = rounding, .rows_bf16 = rows_bf16 };
    widen(&b, row);
    if (rounding.pairs) widen(&b, ATTENTION_BF16);
    if (row == ATTENTION_BF16 && o->kv != KV_TYPE_F32) widen(&b, HALF_CACHE);
    if (row == PARTS_BF16 && o->kv != KV_TYPE_F32) widen(&b, HALF_PARTS);
    if (steps == 127) widen(&b, INT8);
    if (o->kv == KV_TYPE_Q8_0) {
        b.name = table[INT8_CACHE].name;
        widen(&b, INT8_CACHE);
    }
    /* With this many values, some value falls the other way at every position. int8 activations hide the effect of K and V. The same holds
     * for bf16 rows after values that are sums of two bf16: such values are off by 2^-18, floats only by 2^-24. */
    if (parts && rows_bf16 && !rounding.pairs) b.least = b.most;
    if (steps == 127 || rows_bf16 ? t.activations > 50000 : b.rounding.cache && t.cached > 1024) b.least = b.most;
    return b;
}

void bound_widen(struct bound *b, const struct logits_difference *d, const double *moved_at, const double *kl, double least)
{
    const double ordinary = b->mean_kl;
    b->moved_at = moved_at;
    b->least = fmin(b->most, fmax(b->least, 2 * least / d->largest));
    for (uint32_t t = 0; t < d->n; t++) {
        const bool is_far = d->max_abs_at[t] > b->most * d->largest;
        b->n_moved += is_far;
        /* The divergence grows with the square of the distance. A position's unused bound does not help other positions. */
        if (is_far || d->kl[t] > ordinary) b->mean_kl += fmin(d->kl[t], 4 * kl[t]) / d->n;
    }
}

bool bound_holds(const struct bound *b, const struct logits_difference *d)
{
    for (uint32_t t = 0; t < d->n; t++)
        if (d->max_abs_at[t] > fmax(b->most * d->largest, b->moved_at ? 2 * b->moved_at[t] : 0)) return false;
    return d->n_not_finite == 0 && d->least <= b->least * d->largest && d->mean_kl <= b->mean_kl;
}
