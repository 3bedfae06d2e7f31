/* search_kernels.c -- searches settings of kernels. In a pass, program k has the k-th candidate of each kernel, and the time of each kernel
 * shows which candidate is best for it. The best of many measurements is also the luckiest, so the winners are measured once more, all in
 * one program, and only these new numbers count. That program's step must be shorter as well, because a kernel can gain what its neighbour
 * loses. */
#include "parts.h"
#include "compiler/cli/pairs.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The candidates of a unit. */
struct candidates {
    struct settings settings;
    double          ratio[TUNE_CANDIDATES_MOST], worst[TUNE_CANDIDATES_MOST];      /* of the planner's own time: median and worst round */
};

struct pass {
    struct tune       *tune;
    struct candidates *of;                       /* [n_units] */
    struct trial       trials[TUNE_CANDIDATES_MOST];
    double             step[TUNE_CANDIDATES_MOST];         /* as ratio, for the whole step */
    uint32_t           n;
    const char        *what;                     /* "pass", "again": part of the names of measurements */
};

static struct pass pass_new(struct tune *t, const char *what)
{
    struct pass p = { .tune = t, .of = arena_array(t->arena, struct candidates, t->n_units + 1), .what = what };
    for (uint32_t k = 0; k < TUNE_CANDIDATES_MOST; k++) {
        p.step[k] = 1;
        for (uint32_t i = 0; i < t->n_units; i++) p.of[i].ratio[k] = 1;
    }
    return p;
}

/* ---- programs ---- */

/* The settings with candidate k: for prefill, of steps of that size; for decode, together with the settings found so far. */
static const char *candidate_yaml(const struct pass *p, bool prefill, uint32_t k)
{
    const struct tune *t = p->tune;
    struct text y = { .arena = t->arena };
    put_head(&y, t);
    text_puts(&y, "kernels:\n");
    for (uint32_t i = 0; i < t->n_units; i++) {
        const struct unit *u = &t->units[i];
        const struct kernel_choice *set = k < p->of[i].settings.n ? &p->of[i].settings.list[k] : NULL;
        if (!unit_of_step(u, prefill)) continue;
        if (unit_is_gemm(u)) { if (set) put_range(&y, u, set, 1, CHUNK_MOST); }
        else if (set || u->changed) put_kernel(&y, u, set ? set : &u->now);
    }
    return text_str(&y);
}

/* For a build that failed with "kernel NAME ...", the unit of that kernel; NULL: unknown. */
static const struct unit *unit_named(const struct tune *t, const char *message, bool prefill)
{
    static const char begin[] = "kernel ";
    const struct unit *found = NULL;
    if (strncmp(message, begin, strlen(begin))) return NULL;
    for (uint32_t i = 0; i < t->n_units; i++) {
        const struct unit *u = &t->units[i];
        const char *name = u->kernel->group->name;
        if (unit_of_step(u, prefill) && strncmp(message + strlen(begin), name, strlen(name)) == 0 &&
            (!found || strlen(name) > strlen(found->kernel->group->name))) found = u;
    }
    return found;
}

static void drop_candidate(struct settings *s, uint32_t k)
{
    memmove(&s->list[k], &s->list[k + 1], (s->n - k - 1) * sizeof *s->list);
    s->n--;
}

/* Builds the programs; if some kernels do not fit the registers, once more without their candidates. */
static void build_candidates(struct pass *p, bool prefill)
{
    struct tune *t = p->tune;
    for (bool again = true; again; ) {
        again = false;
        p->n = 0;
        for (uint32_t i = 0; i < t->n_units; i++) if (p->of[i].settings.n > p->n) p->n = p->of[i].settings.n;
        for (uint32_t k = 0; k < p->n; k++) p->trials[k] = (struct trial){ .yaml = candidate_yaml(p, prefill, k) };
        trials_build(t->trials, p->trials, p->n);
        t->n_programs += p->n;
        for (uint32_t k = p->n; k-- > 0;) {
            const char *why = p->trials[k].why_not;
            const struct unit *u = why ? unit_named(t, why, prefill) : NULL;
            if (why && t->options->build.cc.spawn.verbose) fprintf(stderr, "forgec: %s\n", why);
            if (!u || k >= p->of[u - t->units].settings.n) continue;
            drop_candidate(&p->of[u - t->units].settings, k);
            again = true;
        }
        if (again) trials_drop(t->trials, p->trials, p->n);
    }
}

/* ---- measuring ---- */

/* After the first round: true if some kernel of program k has gained so far. Other programs can no longer win, and large models take
 * seconds per run. */
static bool has_hope(const struct pass *p, uint32_t k, const double *first)
{
    const uint32_t n_units = p->tune->n_units;
    for (uint32_t u = 0; u < n_units; u++)
        if (k < p->of[u].settings.n && first[k * (n_units + 1) + u] <= TUNE_BETTER) return true;
    return false;
}

/* The candidates' times in a round, divided by the planner's own times before and after them: [n][n_units + 1], the last for the whole
 * step. first: the ratios of the first round; programs that are left out because of them get HUGE_VAL. */
static void measure_round(const struct pass *p, const struct step *step, uint32_t round, const double *first, double *ratios)
{
    struct tune *t = p->tune;
    const uint32_t n = t->n_units + 1;
    struct step at = *step;
    double *before = arena_array(t->arena, double, n), *behind = arena_array(t->arena, double, n);
    const char *timings = arena_printf(t->arena, "timings of %s", p->what),
        *base = arena_printf(t->arena, "%s %s", timings, p->trials[0].key);
    trials_measure(t->trials, &t->base, step_text(t, step, arena_printf(t->arena, "before %s", base), round), before, n, take_timings, &at);
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t k = round % 2 ? p->n - 1 - i : i;
        double *times = &ratios[k * n];
        if ((round && !has_hope(p, k, first)) ||
            !trials_measure(t->trials, &p->trials[k], step_text(t, step, timings, round), times, n, take_timings, &at))
            for (uint32_t u = 0; u < n; u++) times[u] = 0;
    }
    trials_measure(t->trials, &t->base, step_text(t, step, arena_printf(t->arena, "behind %s", base), round), behind, n, take_timings, &at);
    for (uint32_t k = 0; k < p->n; k++)
        for (uint32_t u = 0; u < n; u++) {
            const double mean = (before[u] + behind[u]) / 2, noise = fabs(before[u] - behind[u]) / (before[u] + behind[u]);
            double *ratio = &ratios[k * n + u];
            /* A part of a step that is shorter than the machine's disturbances can seem to take less than no time. */
            *ratio = *ratio > 0 && mean > 0 ? *ratio / mean + noise : HUGE_VAL;
        }
}

/* Multiplies the ratios by those of this step: a candidate must be good for all steps. */
static void measure_candidates(struct pass *p, const struct step *step)
{
    struct tune *t = p->tune;
    const uint32_t n = t->n_units + 1;
    double *all = arena_array(t->arena, double, (size_t)TUNE_ROUNDS_MOST * p->n * n + 1);
    uint32_t rounds = 0;
    for (; rounds < t->rounds && (rounds == 0 || !tune_late(t)); rounds++)
        measure_round(p, step, rounds, all, &all[(size_t)rounds * p->n * n]);
    for (uint32_t k = 0; k < p->n; k++)
        for (uint32_t u = 0; u < n; u++) {
            double ratios[TUNE_ROUNDS_MOST], *sum = u < t->n_units ? &p->of[u].ratio[k] : &p->step[k];
            for (uint32_t r = 0; r < rounds; r++) ratios[r] = all[((size_t)r * p->n + k) * n + u];
            *sum *= median_of(ratios, rounds);
            if (u < t->n_units) p->of[u].worst[k] = fmax(p->of[u].worst[k], ratios[rounds - 1]);
        }
}

static bool is_better(const struct candidates *c, uint32_t k, uint32_t n_steps)
{
    return pow(c->ratio[k], 1.0 / n_steps) <= TUNE_BETTER && c->worst[k] < 1;
}

static void report_choice(const struct tune *t, const struct unit *u, const struct kernel_choice *set, double ratio)
{
    struct text params = { .arena = t->arena };
    put_params(&params, set);
    fprintf(stderr, "forgec:   %-28s %s, %.1f %% less time\n", u->kernel->name, text_str(&params) + 1, 100 * (1 - ratio));
}

/* Measures the candidates, and once more the best candidate of each unit; keeps those that are better than the unit's setting. steps: [n];
 * size: index of prefill's step size in t->prompts. kept: [n_units], the ratio of each unit's setting; *whole: the ratio of the step. */
static void run_pass(struct pass *p, const struct step *steps, uint32_t n, uint32_t size, double *kept, double *whole)
{
    struct tune *t = p->tune;
    const bool prefill = steps[0].prefill;
    build_candidates(p, prefill);
    for (uint32_t i = 0; i < n; i++) measure_candidates(p, &steps[i]);
    trials_drop(t->trials, p->trials, p->n);
    struct pass again = pass_new(t, "the best");
    for (uint32_t i = 0; i < t->n_units; i++) {
        const struct candidates *c = &p->of[i];
        uint32_t best = 0;
        for (uint32_t k = 1; k < c->settings.n; k++) if (c->ratio[k] < c->ratio[best]) best = k;
        if (c->settings.n && is_better(c, best, n)) again.of[i].settings = (struct settings){ &c->settings.list[best], 1 };
    }
    build_candidates(&again, prefill);
    for (uint32_t i = 0; again.n && i < n; i++) measure_candidates(&again, &steps[i]);
    trials_drop(t->trials, again.trials, again.n);
    const double step = pow(again.step[0], 1.0 / n);
    if (!again.n || step >= *whole) return;
    *whole = step;
    for (uint32_t i = 0; i < t->n_units; i++) {
        struct unit *u = &t->units[i];
        const double ratio = pow(again.of[i].ratio[0], 1.0 / n);
        if (!again.of[i].settings.n || !is_better(&again.of[i], 0, n) || ratio >= kept[i]) continue;
        const struct kernel_choice *set = &again.of[i].settings.list[0];
        kept[i] = ratio;
        if (unit_is_gemm(u)) { u->at[size] = *set; u->at_changed[size] = true; }
        else { u->now = *set; u->changed = true; }
        report_choice(t, u, set, ratio);
    }
}

static double *ratios_of_none(const struct tune *t)
{
    double *kept = arena_array(t->arena, double, t->n_units + 1);
    for (uint32_t i = 0; i < t->n_units; i++) kept[i] = 1;
    return kept;
}

static uint32_t most_candidates(const struct pass *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->tune->n_units; i++) if (p->of[i].settings.n > most) most = p->of[i].settings.n;
    return most;
}

void search_decode(struct tune *t)
{
    double *kept = ratios_of_none(t), whole = 1;
    struct step steps[TUNE_SIZES];
    for (uint32_t d = 0; d < t->n_depths; d++) steps[d] = (struct step){ t, false, t->depths[d] };
    for (enum settings_step step = 0; step < SETTINGS_STEPS && !tune_late(t); step++) {
        struct pass p = pass_new(t, settings_step_name[step]);
        for (uint32_t i = 0; i < t->n_units; i++)
            if (unit_of_step(&t->units[i], false))
                p.of[i].settings = settings_of(t->arena, t->plan, t->units[i].kernel, &t->units[i].now, step, 1, t->depths[0],
                                               t->candidates);
        fprintf(stderr, "forgec: decode, %s: %u programs, %u rounds\n", settings_step_name[step], most_candidates(&p), t->rounds);
        run_pass(&p, steps, t->n_depths, 0, kept, &whole);
    }
}

void search_prefill(struct tune *t)
{
    for (uint32_t size = t->n_prompts; size-- > 0 && !tune_late(t);) {
        const uint32_t tokens = t->prompts[size];
        const struct step step = { t, true, tokens };
        struct pass p = pass_new(t, "tiles");
        double *kept = ratios_of_none(t), whole = 1;
        for (uint32_t i = 0; i < t->n_units; i++) {
            struct unit *u = &t->units[i];
            if (!unit_of_step(u, true) || (!unit_is_gemm(u) && size + 1 < t->n_prompts)) continue;
            const struct kernel_choice now = unit_is_gemm(u) ? u->at[size] : u->now;
            p.of[i].settings = settings_of(t->arena, t->plan, u->kernel, &now, SETTINGS_GROUPS, tokens, 0, t->candidates);
        }
        fprintf(stderr, "forgec: prefill, steps of %u tokens: %u programs, %u rounds\n", tokens, most_candidates(&p), t->rounds);
        run_pass(&p, &step, 1, size, kept, &whole);
    }
}
