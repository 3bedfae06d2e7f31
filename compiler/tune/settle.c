/* settle.c -- compares the program with everything found and the planner's own: their logits, and their speed with the statistics of
 * compare. */
#include "parts.h"
#include "compiler/cli/bounds.h"
#include "compiler/cli/pairs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOGIT_TOKENS = 32 };

struct verdict { struct pairs pairs; double base, found; };

/* verdicts: for each depth, then for each prompt. Returns the number of rounds. */
static uint32_t compare_speeds(struct tune *t, const struct trial *found, struct verdict verdicts[2 * TUNE_SIZES])
{
    const uint32_t n = t->n_depths + t->n_prompts, rounds = pairs_least(n) + 1;
    double (*speeds)[2][PAIRS_ROUNDS_MOST] = arena_alloc(t->arena, n * sizeof *speeds);     /* of the planner's own program, of `found` */
    uint64_t state = 1;
    for (uint32_t r = 0; r < rounds; r++) {
        uint32_t order[2];
        pairs_order(order, 2, &state);
        for (uint32_t i = 0; i < n; i++) speeds[i][0][r] = speeds[i][1][r] = 1;
        for (uint32_t k = 0; k < 4; k++) {                /* in one order and back */
            const uint32_t which = order[k < 2 ? k : 3 - k];
            double values[2 * TUNE_SIZES];
            const char *name = arena_printf(t->arena, "%s of %s round %u", k < 2 ? "there" : "back", found->key, r);
            const bool ok = trials_measure(t->trials, which ? found : &t->base, name, values, n, take_speeds, t);
            for (uint32_t i = 0; i < n; i++) speeds[i][which][r] *= ok ? sqrt(values[i]) : 1e-9;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        verdicts[i].pairs = pairs_of(speeds[i][1], speeds[i][0], rounds, n);
        verdicts[i].base = median_of(speeds[i][0], rounds);
        verdicts[i].found = median_of(speeds[i][1], rounds);
    }
    return rounds;
}

static struct trial build_found(struct tune *t, bool decode, bool prefill)
{
    struct text y = { .arena = t->arena };
    put_head(&y, t);
    put_found(&y, t, decode, prefill);
    struct trial trial = { .yaml = text_str(&y) };
    trials_build(t->trials, &trial, 1);
    t->n_programs++;
    return trial;
}

/* True if both programs are within the bounds of verify; their logits are then within twice these bounds of each other. */
static bool logits_agree(struct tune *t, const struct trial *found)
{
    static const char *const prompt[] = { "--random-weights", NULL }, *const decode[] = { "--random-weights", "-ub", "0", NULL };
    const struct model *m = t->plan->model;
    const uint32_t n = t->plan->options.n_ctx < LOGIT_TOKENS ? t->plan->options.n_ctx : LOGIT_TOKENS;
    const int32_t *tokens = tokens_random(t->arena, n, m->n_vocab, 1);
    for (uint32_t i = 0; i < 2; i++) {
        const float *own = program_logits(t->arena, &t->runner, t->base.path, tokens, n, m->n_vocab, i ? decode : prompt);
        const float *other = program_logits(t->arena, &t->runner, found->path, tokens, n, m->n_vocab, i ? decode : prompt);
        const struct logits_difference d = logits_compare(t->arena, own, other, n, m->n_vocab);
        const struct bound b = bound_find(t->plan->fused->graph, t->plan->target, &t->plan->options, i ? 0 : n);
        if (d.n_not_finite || d.max_abs > 2 * b.most * d.largest || d.mean_kl > 2 * b.mean_kl) {
            fprintf(stderr, "forgec: the logits of the tuned program differ by %.2e (the largest logit is %.2e); its settings are left "
                    "out\n", d.max_abs, d.largest);
            return false;
        }
    }
    return true;
}

static void put_verdict(struct text *out, const char *what, const char *of, uint32_t n, const struct verdict *v)
{
    text_printf(out, "  - {%s: %u %s, own: %.1f, tuned: %.1f, ratio: %.4f, least: %.4f, most: %.4f}\n", what, n, of, v->base, v->found,
                v->pairs.ratio, v->pairs.least, v->pairs.most);
}

static bool is_verdict(const struct verdict *v, const char *what) { return strcmp(pairs_verdict(&v->pairs), what) == 0; }

static void print_verdict(struct tune *t, const char *what, uint32_t n, const struct verdict *v)
{
    printf("%-8s %6u %14.1f %14.1f %9.3f  (%.3f to %.3f)%s\n", what, n, v->base, v->found, v->pairs.ratio, v->pairs.least, v->pairs.most,
           is_verdict(v, "faster") ? "" : arena_printf(t->arena, ", %s", pairs_verdict(&v->pairs)));
}

/* "sm_90-llama-16x2048-Q4_K-Q6_K" */
/* Compares, drops the part that is no faster, and says so; false: nothing is left. */
bool settle(struct tune *t, struct trial *found, struct text *numbers)
{
    struct verdict v[2 * TUNE_SIZES];
    bool keeps[2] = { tune_found(t, false), tune_found(t, true) };          /* of decode, of prefill */
    if (!keeps[0] && !keeps[1]) return false;
    for (uint32_t turn = 0; turn < 2; turn++) {
        *found = build_found(t, keeps[0], keeps[1]);
        if (!found->path) die("the program with all settings found cannot be built: %s", found->why_not);
        if (!logits_agree(t, found)) return false;
        const uint32_t rounds = compare_speeds(t, found, v);
        bool faster[2] = { false, false }, slower[2] = { false, false };
        if (turn == 0) printf("%-8s %6s %14s %14s %9s   %u rounds\n", "", "tokens", "own, tok/s", "tuned, tok/s", "ratio", rounds);
        for (uint32_t i = 0; i < t->n_depths + t->n_prompts; i++) {
            const bool prefill = i >= t->n_depths;
            faster[prefill] |= is_verdict(&v[i], "faster");
            slower[prefill] |= is_verdict(&v[i], "slower");
            print_verdict(t, prefill ? "prefill" : "decode", prefill ? t->prompts[i - t->n_depths] : t->depths[i], &v[i]);
        }
        const bool good[2] = { faster[0] && !slower[0], faster[1] && !slower[1] };
        if ((good[0] || !keeps[0]) && (good[1] || !keeps[1])) break;
        keeps[0] &= good[0];
        keeps[1] &= good[1];
        if (turn == 1 || (!keeps[0] && !keeps[1])) return false;
        fprintf(stderr, "forgec: the settings found for %s are together no faster and are left out\n", keeps[0] ? "prefill" : "decode");
        trials_drop(t->trials, found, 1);
    }
    for (uint32_t i = 0; i < t->n_depths + t->n_prompts; i++) {
        const bool prefill = i >= t->n_depths;
        put_verdict(numbers, prefill ? "prefill" : "decode", prefill ? "tokens" : "tokens before",
                    prefill ? t->prompts[i - t->n_depths] : t->depths[i], &v[i]);
    }
    return true;
}
