/* attention_wide_prefill.h -- attention_wide() of a prefill step: see attention_wide.h. */
#ifndef FORGE_ATTENTION_WIDE_PREFILL_H
#define FORGE_ATTENTION_WIDE_PREFILL_H
#include "attention_wide_fours.h"

/* Prefill, called after pdl_wait().  out: rows of [n_head][value_dim]; other parameters as in attention_wide_decode() and
 * attention_prefill(); causal 0 needs no window.  grid_x: ATTENTION_PREFILL_GROUPS times splits; tokens of a group: WIDE_PREFILL_TOKENS;
 * LDS: WIDE_PREFILL_BYTES.  fours: as there.  splits: 1, or with fours and without a window up to this many parts of the positions, each
 * of `least` or more; then parts: WIDE_FOURS_PART_BYTES for each group and split; counters: 4 bytes for each group, 0 before and after. */
DEVICE void attention_wide(const struct forge_kernel_args a, uint8_t *out, const uint64_t out_stride, const uint32_t kind, const uint8_t *q,
                           const uint64_t q_stride, const uint8_t *v, const uint32_t n_head, const uint32_t n_head_kv, const uint32_t dim,
                           const uint32_t value_dim, const uint32_t view, const uint32_t n_ctx, const float scale,
#ifdef ATTENTION_MORE
                           const float cap, const float *sinks,
#endif
                           float *parts, uint32_t *counters, const uint32_t splits, const uint32_t least, const uint32_t fours,
                           const uint32_t causal, const uint32_t window, const uint32_t ring)
{
    const struct prefill_out to = { out, out_stride, kind };
    struct wide w;
    struct prefill p;
    struct wide_sums x;
    struct wide_query query;
    struct wide_loads loads;
    p.n_head = n_head, p.n_head_kv = n_head_kv, p.head_dim = value_dim, p.n_ctx = kv_rows(n_ctx, ring), p.threads = WIDE_THREADS(FAMILY);
    p.causal = causal, p.window = window, p.ring = ring;
    p.heads = ATTENTION_PREFILL_HEADS(n_head, n_head_kv);
    p.tokens = WIDE_PREFILL_TOKENS(n_head, n_head_kv, dim, FAMILY);
    p.scale = scale * PREFILL_LOG2E;
#ifdef ATTENTION_MORE
    p.cap = cap * PREFILL_LOG2E;
    p.sinks = sinks;
#endif
    const uint32_t groups = ATTENTION_PREFILL_GROUPS(n_head, n_head_kv);
    if (!prefill_begin(&p, a, group_x() % groups)) return;
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
    if (fours) {
        const uint32_t unit = group_y() * groups + group_x() % groups;
        struct wide_fours_part part = { parts, counters + unit, 1, group_x() / groups };
        if (splits > 1) part.sums += (uint64_t)unit * splits * (WIDE_FOURS_PART_BYTES(value_dim, FAMILY) / 4);
        if (!wide_fours_cut(&part, &p, splits, least)) return;
        wide_fours_init(&w, dim, value_dim, view, kv_k(a), v);
        wide_k_begin(&loads.k, 0, &w, &p, p.begin);
        copy_commit();
        wide_queries(&w, &p, q, q_stride);
        wide_fours_run(&w, &p, &to, &part);
        return;
    }
#else
    (void)parts, (void)counters, (void)splits, (void)least, (void)fours;
#endif
    wide_init(&w, dim, value_dim, view, WIDE_PREFILL_ROWS(dim, FAMILY), WIDE_PREFILL_ROWS(dim, FAMILY), 1, 0, kv_k(a), v);
    wide_start(&loads, &w, &p);
    wide_queries(&w, &p, q, q_stride);
    wide_run(&x, &query, &loads, &w, &p, (p.end - p.begin + w.positions - 1) / w.positions);
    query.l = lanes_sum_f32(query.l, wide_team(&w));
#ifdef ATTENTION_MORE
    if (query.row < w.rows) query.l += prefill_sink(&p, query.row, query.m);
#endif
    barrier();                                   /* no wave reads the factors any more */
    if (thread_x() % wide_team(&w) == 0 && query.row < w.rows) wide_factors(&w)[query.row] = rcp_f32(query.l);
    barrier();
    const uint32_t tiles = wide_sum_tiles(&w), first = wide_slice(&w) * tiles * 16;
    UNROLL for (uint32_t t = 0; t < tiles && wide_slice(&w) < w.sum_slices; t++)
        UNROLL for (uint32_t g = 0; g < MMA_ROWS; g++) {
            const uint32_t m = first + 16 * t + mma_row(mma_of_row(g, 0)), column = prefill_head(&p, m) * value_dim;
            const float inverse = wide_factors(&w)[m];
            if (!prefill_has(&p, m)) continue;
            UNROLL for (uint32_t u = 0; u < w.turns; u++) {
                const struct mma_acc *o = &x.o[t][WIDE_FOURS * u];
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
                UNROLL for (uint32_t i = 0; i < WIDE_FOURS; i++)
                    UNROLL for (uint32_t n = 0; n < MMA_ACC / MMA_ROWS; n += 2) {
                        const uint32_t e = mma_of_row(g, n), of_head = wide_unit(&w, u) + wide_column(i, e);
                        if (of_head < value_dim)
                            prefill_put2(&to, prefill_token(&p, m), column + of_head, o[i].x[e] * inverse,
                                         o[i].x[(e + 1) % MMA_ACC] * inverse);
                    }
#else
                const f32x4 four = { o[0].x[g], o[1].x[g], o[2].x[g], o[3].x[g] };
                const uint32_t of_head = wide_unit(&w, u) + wide_column(0, g);
                if (of_head < value_dim) prefill_put4(&to, prefill_token(&p, m), column + of_head, four * inverse);
#endif
            }
        }
    prefill_pad(&p, &to);
}
#endif
