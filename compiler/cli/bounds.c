/* bounds.c -- the table of bounds: about three times the largest that was measured over all golden models, formats and targets
 * (GOLDEN_MEASURE=1 test_golden ... prints them). */
#include "bounds.h"
#include <math.h>

/* Steps between which values are rounded make a model a little chaotic: a value at the border of two steps falls either way, one step is
 * more than all other rounding together, and later positions read it from the cache.  The worst position then says less; at the best one
 * nothing fell the other way, and what is wrong everywhere (a scale, a rule of rounding) shows.  Where something fell before the first
 * position's K and V were stored there is no such position: the best one too is then held to what rounding moves it (bound_widen). */
enum row { EXACT, HALF_CACHE, DIGITS, INT8, PROMPT_BLOCKS, PROMPT_F16, PROMPT_BF16, ROWS_BF16, ATTENTION_BF16, INT8_CACHE, N_ROWS };
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
    [INT8_CACHE]  = { "int8 cache",                        6e-2,   1e-6,   2e-3 }, /* 1.6e-2, 2.4e-7, 3.0e-4: forgec verify --kv q8_0 */
};

/* Values of a token that are rounded: activations that matmuls with weights in blocks read, K and V. */
struct traits { bool blocks, f16, bf16; uint64_t activations, cached; uint32_t group; };      /* group: most heads of a KV head */

/* Rows that an operation multiplies with its weight, each w->cols wide: of experts those of the chosen ones. */
static uint64_t rows_read(const struct node *node)
{
    if (node->op == OP_matmul_heads) return node->weight->slices;
    return node->op == OP_expert_matmul ? node->inputs[0]->cols / node->weight->cols : 1;
}

static struct traits traits_of(const struct graph *g)
{
    struct traits t = { false, false, false, 0, 0, 0 };
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *node = g->nodes[i];
        const bool multiplies = node->op == OP_matmul || node->op == OP_matmul_heads || node->op == OP_expert_matmul;
        if (node->op == OP_attention && node->heads / node->inputs[1]->heads > t.group) t.group = node->heads / node->inputs[1]->heads;
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

/* Whose matmuls read bf16 on a CPU, and in steps of how many tokens attention does; compiler/cpu/choose.c decides. */
static void bf16_of(struct rounding *r, const struct profile *target, const struct plan_options *o, const struct traits *t, uint32_t step)
{
    const bool prompt = step > 0 && (!t->blocks || step > target->tile.prefill_few);
    if (o->exact || target->kind != TARGET_CPU || !target->matrix_unit) return;
    r->bf16 = BF16_OF_BF16 | (prompt ? BF16_OF_F16 : 0) | (prompt && target->matrix_unit == MATRIX_TILES ? BF16_OF_BLOCKS : 0);
    r->pairs = prompt && (uint64_t)step * t->group >= BF16_QUERIES ? step : 0;
}

/* The bounds of the row where they are wider. */
static void widen(struct bound *b, enum row row)
{
    b->most = fmax(b->most, table[row].most);
    b->least = fmax(b->least, table[row].least);
    b->mean_kl = fmax(b->mean_kl, table[row].mean_kl);
}

struct bound bound_find(const struct graph *g, const struct profile *target, const struct plan_options *o, uint32_t step)
{
    const struct traits t = traits_of(g);
    const bool halves = !o->exact && target->kind == TARGET_GPU && step > 0;
    struct rounding rounding = { .halves = halves, .cache = o->kv != KV_TYPE_F32, .kv = o->kv };
    bf16_of(&rounding, target, o, &t, step);
    const uint32_t bf16 = rounding.bf16;
    const bool rows_bf16 = (bf16 & BF16_OF_BLOCKS && t.blocks) || (bf16 & BF16_OF_F16 && t.f16) || (bf16 & BF16_OF_BF16 && t.bf16);
    const bool digits = target->kind == TARGET_GPU && target->activation_digits == 2;
    const uint32_t steps = o->exact || halves || !t.blocks || bf16 & BF16_OF_BLOCKS ? 0 : digits ? 32639 : 127;
    const enum row row = halves ? t.blocks ? PROMPT_BLOCKS : t.bf16 ? PROMPT_BF16 : PROMPT_F16 : rows_bf16 ? ROWS_BF16
        : steps == 127 ? INT8 : steps ? DIGITS : rounding.pairs ? ATTENTION_BF16 : o->kv == KV_TYPE_F32 ? EXACT : HALF_CACHE;
    rounding.steps = steps;
    struct bound b = { .name = table[row].name, .rounding = rounding };
    widen(&b, row);
    if (rounding.pairs) widen(&b, ATTENTION_BF16);
    if (row == ATTENTION_BF16 && o->kv != KV_TYPE_F32) widen(&b, HALF_CACHE);
    if (steps == 127) widen(&b, INT8);
    if (o->kv == KV_TYPE_Q8_0) {
        b.name = table[INT8_CACHE].name;
        widen(&b, INT8_CACHE);
    }
    /* With so many something falls the other way at every position; int8 activations hide what K and V do. */
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
        /* A divergence grows with the square of a distance; what one position does not use helps no other. */
        if (is_far || d->kl[t] > ordinary) b->mean_kl += fmin(d->kl[t], 4 * kl[t]) / d->n;
    }
}

bool bound_holds(const struct bound *b, const struct logits_difference *d)
{
    for (uint32_t t = 0; t < d->n; t++)
        if (d->max_abs_at[t] > fmax(b->most * d->largest, b->moved_at ? 2 * b->moved_at[t] : 0)) return false;
    return d->n_not_finite == 0 && d->least <= b->least * d->largest && d->mean_kl <= b->mean_kl;
}
