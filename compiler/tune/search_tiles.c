/* search_tiles.c -- searches tiles of the target that all kernels share: compares whole programs, one tile after the other. */
#include "parts.h"
#include "compiler/cli/pairs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tiles of the target, by whole programs ---- */

static void add_tile(struct tune *t, const char *name, uint32_t value) { t->tiles[t->n_tiles++] = (struct tile){ name, value, value }; }

void tiles_find(struct tune *t)
{
    const struct target *p = t->plan->target;
    add_tile(t, "prefill_chunk", p->tile.prefill_chunk);
    if (p->kind == TARGET_GPU) {
        add_tile(t, "gemm_unit_steps", p->gpu.gemm_unit_steps);
        return;
    }
    add_tile(t, "gemm_tokens", p->tile.gemm_tokens);
    add_tile(t, "gemm_groups", p->tile.gemm_groups);
    add_tile(t, "attention_block", p->tile.attention_block);
}

/* Other values of a tile to try. For prefill_chunk, without values beyond the context or below an eighth of the planned value. */
static uint32_t values_of(const struct tune *t, const struct tile *tile, uint32_t values[TUNE_CANDIDATES_MOST])
{
    static const uint32_t chunks[] = { 32, 64, 128, 256, 512, 1024, 2048, 4096 }, tokens[] = { 4, 6, 8, 10, 12, 16, 20, 24 },
                          groups[] = { 1, 2, 3, 4 }, blocks[] = { 64, 128, 256, 512 }, steps[] = { 1, 2 };
    const struct { const char *name; const uint32_t *list; size_t n; } all[] = {
        { "prefill_chunk", chunks, COUNT_OF(chunks) }, { "gemm_tokens", tokens, COUNT_OF(tokens) },
        { "gemm_groups", groups, COUNT_OF(groups) }, { "attention_block", blocks, COUNT_OF(blocks) },
        { "gemm_unit_steps", steps, COUNT_OF(steps) },
    };
    uint32_t n = 0;
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (size_t k = 0; strcmp(all[i].name, tile->name) == 0 && k < all[i].n && n < t->candidates; k++) {
            const uint32_t v = all[i].list[k];
            const bool far = strcmp(tile->name, "prefill_chunk") == 0 && (v > t->plan->options.n_ctx || v * 8 < tile->planned);
            if (v != tile->now && !far) values[n++] = v;
        }
    return n;
}

/* The prompts by which tiles are compared: those of the search, and one of several chunks. */
static uint32_t tile_prompts(const struct tune *t, uint32_t prompts[TUNE_SIZES + 1])
{
    const uint32_t longest = 2048 < t->plan->options.n_ctx ? 2048 : t->plan->options.n_ctx;
    uint32_t n = 0;
    for (; n < t->n_prompts; n++) prompts[n] = t->prompts[n];
    if (t->plan->gpu && longest > prompts[n - 1]) prompts[n++] = longest;
    return n;
}

/* How much faster a program reads prompts than the planner's own program, as a ratio. Both are measured in turn; the result is the
 * geometric mean, over the prompts, of the median of the rounds. 0 if the program fails, or is slower in some round. */
static double gain_of(struct tune *t, const struct trial *trial)
{
    uint32_t prompts[TUNE_SIZES + 1];
    const uint32_t n = tile_prompts(t, prompts);
    double gain = 1;
    for (uint32_t i = 0; i < n && trial->path; i++) {
        struct step step = { t, true, prompts[i] };
        double ratios[TUNE_ROUNDS_MOST], base, speed;
        for (uint32_t r = 0; r < t->rounds; r++) {
            const char *beside = step_text(t, &step, arena_printf(t->arena, "speed beside %s", trial->key), r);
            trials_measure(t->trials, &t->base, beside, &base, 1, take_speed, &step);
            if (!trials_measure(t->trials, trial, step_text(t, &step, "speed", r), &speed, 1, take_speed, &step)) return 0;
            ratios[r] = speed / base;
            if (ratios[r] < TUNE_BETTER) return 0;
        }
        gain *= median_of(ratios, t->rounds);
    }
    return trial->path ? pow(gain, 1.0 / n) : 0;
}

void search_tile(struct tune *t, struct tile *tile)
{
    uint32_t values[TUNE_CANDIDATES_MOST];
    struct trial trials[TUNE_CANDIDATES_MOST];
    const uint32_t n = values_of(t, tile, values);
    for (uint32_t k = 0; k < n; k++) {
        struct text y = { .arena = t->arena };
        put_head(&y, t);
        put_tiles(&y, t, tile->name, values[k]);
        trials[k] = (struct trial){ .yaml = text_str(&y) };
    }
    trials_build(t->trials, trials, n);
    t->n_programs += n;
    fprintf(stderr, "forgec: %s: %u programs, %u rounds\n", tile->name, n, t->rounds);
    double best = t->gain / TUNE_BETTER;
    for (uint32_t k = 0; k < n && !tune_late(t); k++) {
        const double gain = gain_of(t, &trials[k]);
        if (gain <= best) continue;
        t->gain = best = gain;
        tile->now = values[k];
    }
    if (tile->now != tile->planned)
        fprintf(stderr, "forgec:   %-28s %u, prompts %.1f %% faster with all tiles so far\n", tile->name, tile->now, 100 * (t->gain - 1));
    trials_drop(t->trials, trials, n);
}
