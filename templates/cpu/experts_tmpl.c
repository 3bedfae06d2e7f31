/* experts_tmpl.c -- the choice of experts, and sorting the tokens of a chunk by expert.
 * A choice is a row of floats: the shares of the `used` best experts, best first, then their numbers.  A pair is a token with one of its
 * experts, numbered token by token: pair / used is the token.  An order is [n_expert + 1] numbers: the row at which each expert begins and
 * the end of all rows; then `most` numbers, the pair of each row; then `most` numbers, the row of each pair. */
#include "activation_tmpl.c"

/* The index of the largest of x[n] that is not taken; of equal values the first.  Always finds an index, even if x has NaN. */
DEVICE uint32_t best_of(const float *x, const uint8_t *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) if (!taken[i] && (best == n || x[i] > x[best])) best = i;
    return best;
}

/* Marks all experts as taken except those in the groups with the largest sum of their two best scores.  score: scratch [n_group]. */
DEVICE void take_groups(uint8_t *taken, float *score, const float *select, uint32_t n_expert, uint32_t n_group, uint32_t n_group_used)
{
    const uint32_t size = n_expert / n_group;
    for (uint32_t g = 0; g < n_group; g++) {
        const float *x = select + g * size;
        const uint32_t first = x[1] > x[0];
        float best = x[first], second = x[1 - first];
        for (uint32_t i = 2; i < size; i++) {
            if (x[i] > best) second = best, best = x[i];
            else if (x[i] > second) second = x[i];
        }
        score[g] = best + second;
    }
    for (uint32_t i = 0; i < n_expert; i++) taken[i] = 1;
    for (uint32_t k = 0; k < n_group_used; k++) {
        uint32_t best = n_group;                                            /* an unchosen group's experts are all taken */
        for (uint32_t g = 0; g < n_group; g++) if (taken[g * size] && (best == n_group || score[g] > score[best])) best = g;
        for (uint32_t i = 0; i < size; i++) taken[best * size + i] = 0;
    }
}

/* gating: shares are 1: the softmax, 2: the sigmoid of the logits, 3: the softmax of the chosen logits.  bias: [n_expert], added for the
 * selection only, or NULL; without bias and groups the selection uses the logits, which have the order of the shares.  norm: shares are
 * divided by their sum; all are multiplied by `by`.  room: scratch [2 * n_expert + n_group], taken: scratch [n_expert]. */
DEVICE void route(float *choice, float *room, uint8_t *taken, const float *logits, const float *bias, uint32_t n_expert, uint32_t used,
                  uint32_t gating, uint32_t n_group, uint32_t n_group_used, uint32_t norm, float by)
{
    float *const share = room, *const select = room + n_expert;
    float top = logits[0], sum = 0, total = 0;
    for (uint32_t i = 1; i < n_expert; i++) if (logits[i] > top) top = logits[i];
    for (uint32_t i = 0; i < n_expert; i++) {
        share[i] = gating == 2 ? logits[i] : logits[i] - top;
        taken[i] = 0;
    }
    if (gating == 2) sigmoid(share, n_expert);
    else for (uint32_t i = 0; i < n_expert; i++) sum += share[i] = f32_exp(share[i]);
    if (gating == 1) for (uint32_t i = 0; i < n_expert; i++) share[i] /= sum;
    for (uint32_t i = 0; i < n_expert; i++) {
        const float plain = gating == 3 || (!bias && n_group == 1) ? logits[i] : share[i];
        select[i] = bias ? plain + bias[i] : plain;
    }
    if (n_group > 1) take_groups(taken, select + n_expert, select, n_expert, n_group, n_group_used);
    for (uint32_t k = 0; k < used; k++) {
        const uint32_t e = best_of(select, taken, n_expert);
        taken[e] = 1;
        choice[k] = share[e];
        choice[used + k] = (float)e;
        total += share[e];
    }
    const float divisor = gating == 3 ? total : norm ? (total > 0x1p-14f ? total : 0x1p-14f) : 1.0f;
    for (uint32_t k = 0; k < used; k++) choice[k] = choice[k] / divisor * by;
}

/* Orders tokens t0 .. n_tokens - 1; their choices lie `stride` floats apart. */
DEVICE void expert_order(uint32_t *order, const float *choices, uint64_t stride, uint32_t t0, uint32_t n_tokens, uint32_t n_expert,
                         uint32_t used, uint32_t most)
{
    uint32_t *const pair = order + n_expert + 1, *const row = pair + most;
    for (uint32_t e = 0; e <= n_expert; e++) order[e] = 0;
    for (uint32_t t = t0; t < n_tokens; t++)
        for (uint32_t k = 0; k < used; k++) order[(uint32_t)choices[t * stride + used + k] + 1]++;
    for (uint32_t e = 0; e < n_expert; e++) order[e + 1] += order[e];
    for (uint32_t t = t0; t < n_tokens; t++)                                 /* order[e] counts up to where e + 1 begins */
        for (uint32_t k = 0; k < used; k++) {
            const uint32_t j = order[(uint32_t)choices[t * stride + used + k]]++;
            pair[j] = t * used + k;
            row[t * used + k] = j;
        }
    for (uint32_t e = n_expert; e > 0; e--) order[e] = order[e - 1];
    order[0] = 0;
}

/* y += share * x */
DEVICE void add_share(float *y, const float *x, float share, uint32_t n)
{
    const vf s = vf_set1(share);
    uint32_t i = 0;
    for (; i + 16 <= n; i += 16) vf_store(y + i, vf_fma(vf_load(x + i), s, vf_load(y + i)));
    if (i < n) vf_store_n(y + i, vf_fma(vf_load_n(x + i, n - i), s, vf_load_n(y + i, n - i)), n - i);
}
DEVICE void clear(float *y, uint32_t n) { for (uint32_t i = 0; i < n; i++) y[i] = 0; }
DEVICE void copy_bytes(uint8_t *y, const uint8_t *x, uint64_t n) { __builtin_memcpy(y, x, n); }
