/* compare_md.c -- the report of `forgec compare` in Markdown. */
#include "comparison.h"
#include "table.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static void put_logits(struct table *t, const struct candidate *c)
{
    if (c->has_logits) table_cell(t, "%.2e", c->max_abs);
    else table_cell(t, "-");
}

static void put_pairs(struct table *t, const struct pairs *p)
{
    if (isinf(p->most)) table_cell(t, "%.3f; too few rounds to tell", p->ratio);
    else table_cell(t, "%s: %.3f (%.3f to %.3f)", pairs_verdict(p), p->ratio, p->least, p->most);
}

static void print_speeds(struct arena *a, const struct comparison *p)
{
    const char *const heads[] = { "program", ">launches", ">MB/token", ">x floor", ">decode tok/s", ">bandwidth", ">prefill tok/s",
                                  ">largest logit diff." };
    struct table t = table_of(a, heads, COUNT_OF(heads));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const double bytes = comparison_bytes(p, c);
        table_cell(&t, "%s", c->name);
        table_cell(&t, "%u", c->launches);
        table_cell(&t, "%.3f", bytes * 1e-6);
        table_cell(&t, "%.3f", comparison_ratio(bytes, comparison_floor(c)));
        table_cell(&t, "%.1f", c->decode.median);
        if (c->target->web) table_cell(&t, "-");
        else table_cell(&t, "%.1f %% of %.1f GB/s", c->share, c->bandwidth);
        table_cell(&t, "%.1f", c->prefill.median);
        put_logits(&t, c);
    }
    table_print(&t);
}

static void print_verdicts(struct arena *a, const struct comparison *p)
{
    const char *const heads[] = { arena_printf(a, "times %s", p->candidates[0].name), "decode", "prefill" };
    struct table t = table_of(a, heads, COUNT_OF(heads));
    for (uint32_t i = 1; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        table_cell(&t, "%s", c->name);
        put_pairs(&t, &c->decode.pairs);
        put_pairs(&t, &c->prefill.pairs);
    }
    printf("\n");
    table_print(&t);
}

static void print_notes(const struct comparison *p)
{
    bool cpu = false, gpu = false, web = false;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct target *t = p->candidates[i].target;
        *(t->web ? &web : t->kind == TARGET_GPU ? &gpu : &cpu) = true;
    }
    if (p->n > 1)
        printf("\nFaster and slower: by more than %.1f %%; equal programs are called so in at most %.0f %% of reports (signed-rank test\n"
               "of rounds in an order drawn by chance, intervals that hold all at once; %u programs take %u rounds or more).\n"
               "A ratio is taken of both speeds of each round, so it is not exactly that of the medians (docs/compare.md).\n",
               100 * PAIRS_MARGIN, 100 * PAIRS_LEVEL, p->n, pairs_least(p->comparisons));
    printf("\nSpeeds are medians of the rounds.  launches: per decoded token%s.  MB/token: weights as packed, the KV\n"
           "cache of the tokens before (mean of %u from an empty context) and values between kernels; floor: weights as in the\n"
           "file and that cache.  "
           "bandwidth: share that weights and KV cache make of what the same runs measured (%s%s%s%s%s).\n",
           gpu ? ", on a GPU with the launch that draws it" : "", p->n_gen,
           cpu ? "reading memory, or a buffer of the weights' size that fits the cache" : "", cpu && gpu ? "; GPU: " : "",
           gpu ? "a large copy on the device, read and written" : "", web && (cpu || gpu) ? "; " : "",
           web ? "in node nothing measures it" : "");
}

/* ---- the simulator's counters, per decoded token ---- */

static void print_counts(struct arena *a, const struct comparison *p)
{
    const char *const heads[] = { "program", ">launches", ">instructions", ">VALU", ">matrix", ">idle", ">loads, MB", ">unique, MB",
                                  ">plan, MB", ">lines", ">conflicts", ">in flight", ">largest logit diff." };
    struct table t = table_of(a, heads, COUNT_OF(heads));
    const double tokens = p->n_tokens[1];
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const struct counters *k = &c->counters[1];
        table_cell(&t, "%s", c->name);
        table_cell(&t, "%.1f", k->launches / tokens);
        table_cell(&t, "%.0f", k->instructions / tokens);
        table_cell(&t, "%.1f %%", 100 * comparison_ratio(k->valu, k->instructions));
        table_cell(&t, "%.1f %%", 100 * comparison_ratio(k->matrix, k->instructions));
        table_cell(&t, "%.1f %%", 100 * k->idle_lanes);
        table_cell(&t, "%.3f", k->loaded_bytes / tokens * 1e-6);
        table_cell(&t, "%.3f", k->unique_bytes / tokens * 1e-6);
        table_cell(&t, "%.3f", comparison_planned_reads(p, c) * 1e-6);
        table_cell(&t, "%.2fx", comparison_ratio(k->line_bytes, k->loaded_bytes));
        table_cell(&t, "%.2f", comparison_ratio(k->lds_conflicts, k->lds_accesses));
        table_cell(&t, "%.0f", k->loads_in_flight);
        put_logits(&t, c);
    }
    table_print(&t);
    printf("\ninstructions: of waves.  idle: lanes switched off in vector instructions.  loads: by lanes; unique: lines of 64 bytes\n"
           "that a launch reads at least once; plan: weights, KV cache and values of other kernels.  lines: bytes of the 128-byte\n"
           "lines that loads touch, to bytes loaded.  conflicts: LDS cycles that bank conflicts add to an access.  in flight: most\n"
           "loads of a wave before a wait.  Nothing here is a time.\n");
}

static void print_least_times(struct arena *a, const struct comparison *p)
{
    const char *sample = p->options->sample ? arena_printf(a, ", of a sample of %u group%s", p->options->sample,
                                                           p->options->sample > 1 ? "s" : "") : "";
    printf("\n```text");
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const struct step_times prompt = comparison_times(a, p, c, 0), token = comparison_times(a, p, c, 1);
        least_times_print(arena_printf(a, "%s, a prompt of %u tokens%s", c->name, p->n_tokens[0], sample), &prompt);
        least_times_print(arena_printf(a, "%s, a decoded token, the mean of %u", c->name, p->n_tokens[1]), &token);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t k = 0;
        while (strcmp(p->candidates[k].target->name, p->candidates[i].target->name)) k++;
        if (k == i) least_times_explain(p->candidates[i].target);
    }
    printf("```\n");
}

void comparison_md(struct arena *a, const struct comparison *p)
{
    if (p->options->simulate) {
        printf("# %s, in the simulator\n\n%u tokens decoded, numbers of one token%s\n\n", comparison_title(a, p), p->n_tokens[1],
               p->options->sample ? "; of the prompt a sample, its logits not compared" : "");
        print_counts(a, p);
        if (!p->missing) print_least_times(a, p);
        return;
    }
    printf("# %s\n\n%u round%s, there and back, of at least %g s for each speed; a prompt of %u tokens, %u generated\n\n",
           comparison_title(a, p), p->n_rounds, p->n_rounds > 1 ? "s" : "", p->min_time, p->n_prompt, p->n_gen);
    print_speeds(a, p);
    if (p->n > 1) print_verdicts(a, p);
    print_notes(p);
}
