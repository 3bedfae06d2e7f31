/* judge.c -- for positions where a program's logits exceed their bounds: finds out what rounding can do there, move the logits or tip a
 * router. */
#include "judge.h"
#include <math.h>
#include <string.h>

/* SAMPLES: samples of the effects of rounding; up to SAMPLES_MOST while some position moved farther than in earlier samples. TIES_MOST: per
 * position; with more ties there are too many combinations to try. */
enum { SAMPLES = 4, SAMPLES_MOST = 16, RUNS_MOST = 40, TIES_MOST = 8 };

struct tie { uint32_t router, dropped, taken; double margin; uint32_t *chosen; };      /* chosen: the experts of the other choice */

/* State of a position that is out of bounds. */
struct position {
    struct tie ties[TIES_MOST];
    uint32_t   n_ties, next;               /* next: the next tie to try */
    uint32_t   best;                       /* the tie with the smallest difference so far: */
    double     best_off;
    bool       looked, ended;              /* looked: its ties are known; ended: nothing is left to try */
};

struct judging {
    struct arena       *arena;
    const struct graph *graph;
    const struct bound *bound;
    const int32_t      *tokens;
    const float        *logits;
    uint32_t            n, columns, n_routers, n_runs;
    /* The reference with the experts of `given`: */
    float              *truth;
    struct routes      *given, *found;
    struct logits_difference difference;
    /* How far rounding moves: */
    double             *moved_at, *kl;     /* [n] the logits, and their divergence */
    double             *noise_at;          /* [n] the logits, in samples with noise alone */
    double             *moves;             /* [n_routers] scores by which experts are chosen, maximum */
    struct position    *positions;         /* [n] */
    double             *scores;            /* buffer for a router's scores: [n_expert] */
    uint32_t           *choice;            /* [used] */
};

/* ---- runs of the reference ---- */

static struct routes *routes_given(struct arena *a, const struct routes *like, const struct routes *from, uint32_t n)
{
    struct routes *r = arena_new(a, struct routes);
    *r = (struct routes){ like->n_routers, arena_array(a, struct router, like->n_routers) };
    for (uint32_t l = 0; l < r->n_routers; l++) {
        const uint32_t used = like->routers[l].rule.used;
        r->routers[l].chosen = arena_array(a, uint32_t, (size_t)n * used);
        for (uint32_t t = 0; t < n; t++) r->routers[l].chosen[t * used] = ROUTE_BEST;
        if (from) memcpy(r->routers[l].chosen, from->routers[l].chosen, (size_t)n * used * sizeof(uint32_t));
    }
    return r;
}

static struct routes *run(struct judging *j, const struct routes *given, float *truth, struct logits_difference *d)
{
    struct routes *found = reference_routed(j->arena, j->graph, &j->bound->rounding, j->tokens, j->n, given, 0, truth);
    *d = logits_compare(j->arena, truth, j->logits, j->n, j->columns);
    j->n_runs++;
    return found;
}

/* Takes one sample of the effects of rounding: compared with a run without rounding (dither 0), or with noise. is_free: [n] the positions
 * of interest, where routers may choose freely; NULL: all positions, with the reference's experts. */
static void sample(struct judging *j, uint64_t dither, const bool *is_free)
{
    static const struct rounding none = { .kv = KV_TYPE_F32 };
    struct arena *a = arena_create();
    float *other = arena_array(a, float, (size_t)j->n * j->columns);
    const struct routes *r = reference_routed(a, j->graph, dither ? &j->bound->rounding : &none, j->tokens, j->n, is_free ? NULL : j->found,
                                              dither, other);
    const struct logits_difference d = logits_compare(a, j->truth, other, j->n, j->columns);
    for (uint32_t t = 0; t < j->n; t++) {
        if (is_free && !is_free[t]) continue;
        j->moved_at[t] = fmax(j->moved_at[t], d.max_abs_at[t]);
        j->kl[t] = fmax(j->kl[t], d.kl[t]);
        if (dither && !is_free) j->noise_at[t] = fmax(j->noise_at[t], d.max_abs_at[t]);
    }
    for (uint32_t l = 0; !is_free && l < j->n_routers; l++)
        for (size_t i = 0; i < (size_t)j->n * r->routers[l].rule.n_expert; i++)
            j->moves[l] = fmax(j->moves[l], fabs(r->routers[l].select[i] - j->found->routers[l].select[i]));
    arena_destroy(a);
}

/* ---- near ties of routers ---- */

/* Lowers the score of expert `dropped` and raises the score of `taken`, each by half of what rounding moves; stores the resulting choice in
 * j->choice. False if this is the original choice or one already known. */
static bool tips(const struct judging *j, uint32_t t, uint32_t l, uint32_t dropped, uint32_t taken)
{
    const struct router *r = &j->found->routers[l];
    const struct position *p = &j->positions[t];
    const uint32_t n_expert = r->rule.n_expert, used = r->rule.used;
    bool same = true;
    memcpy(j->scores, r->select + (size_t)t * n_expert, n_expert * sizeof *j->scores);
    j->scores[dropped] -= j->moves[l] / 2;
    j->scores[taken] += j->moves[l] / 2;
    route_choose_ref(j->choice, &r->rule, j->scores);
    for (uint32_t k = 0; k < used; k++) {
        bool found = false;
        for (uint32_t i = 0; i < used; i++) found |= r->chosen[t * used + i] == j->choice[k];
        same &= found;
    }
    for (uint32_t i = 0; i < p->n_ties && !same; i++)
        same = p->ties[i].router == l && memcmp(p->ties[i].chosen, j->choice, used * sizeof *j->choice) == 0;
    return !same;
}

/* Finds the ties of a position, those narrowest on their router's scale first; sets p->ended if there are too many. */
static void look(struct judging *j, uint32_t t)
{
    struct position *p = &j->positions[t];
    p->looked = true;
    p->n_ties = p->next = 0;
    p->best_off = INFINITY;
    for (uint32_t l = 0; l < j->n_routers; l++) {
        const struct router *r = &j->found->routers[l];
        const uint32_t n_expert = r->rule.n_expert, used = r->rule.used, *chosen = r->chosen + t * used;
        if (j->given->routers[l].chosen[t * used] != ROUTE_BEST) continue;
        for (uint32_t i = 0; i < used * n_expert; i++) {
            const uint32_t dropped = chosen[i / n_expert], taken = i % n_expert;
            const double margin = r->select[t * n_expert + dropped] - r->select[t * n_expert + taken];
            bool is_chosen = false;
            for (uint32_t k = 0; k < used; k++) is_chosen |= chosen[k] == taken;
            /* Scores of groups of experts may tie where scores of experts do not. */
            if (is_chosen || (margin > j->moves[l] && r->rule.n_group <= 1) || !tips(j, t, l, dropped, taken)) continue;
            if (p->n_ties == TIES_MOST) {
                p->ended = true;
                return;
            }
            uint32_t at = p->n_ties++;
            for (; at > 0 && p->ties[at - 1].margin / j->moves[p->ties[at - 1].router] > margin / j->moves[l]; at--)
                p->ties[at] = p->ties[at - 1];
            p->ties[at] = (struct tie){ l, dropped, taken, margin, arena_array(j->arena, uint32_t, used) };
            memcpy(p->ties[at].chosen, j->choice, used * sizeof *j->choice);
        }
    }
}

static double limit(const struct judging *j, uint32_t t)
{
    return fmax(j->bound->most * j->difference.largest, 2 * j->moved_at[t]);
}

static void give(struct judging *j, struct routes *given, uint32_t t, const struct tie *tie)
{
    const uint32_t used = j->found->routers[tie->router].rule.used;
    memcpy(given->routers[tie->router].chosen + t * used, tie->chosen, used * sizeof *tie->chosen);
}

static void accept(struct judging *j, struct judged *result, struct otherwise *list, uint32_t t, const struct tie *tie)
{
    bool first = true;
    for (uint32_t i = 0; i < result->n_otherwise; i++) first &= list[i].position != t;
    result->n_positions += first;
    list[result->n_otherwise++] = (struct otherwise){ t, tie->router, tie->dropped, tie->taken, tie->margin, j->moves[tie->router] };
    give(j, j->given, t, tie);
    j->positions[t] = (struct position){ 0 };
}

/* Tries the other choices at positions that are out of bounds, one choice per position in each run of the reference. A wrong choice changes
 * later positions, so only the first position that stays out of bounds is known to be wrong. */
static void reroute(struct judging *j, struct judged *result)
{
    struct otherwise *list = arena_array(j->arena, struct otherwise, RUNS_MOST * (size_t)j->n);
    float *other = arena_array(j->arena, float, (size_t)j->n * j->columns);
    result->otherwise = list;
    while (j->n_runs < RUNS_MOST) {
        struct routes *trial = routes_given(j->arena, j->found, j->given, j->n);
        uint32_t n_tried = 0, n_accepted = 0, n_rejected = 0;
        bool again = false;
        for (uint32_t t = 0; t < j->n; t++) {
            struct position *p = &j->positions[t];
            if (p->ended || j->difference.max_abs_at[t] <= limit(j, t)) continue;
            if (!p->looked) look(j, t);
            if (p->next == p->n_ties && p->best_off < j->difference.max_abs_at[t] / 2) {      /* probably one of several ties */
                const struct tie tie = p->ties[p->best];
                accept(j, result, list, t, &tie);
                again = true;
                continue;
            }
            p->ended |= p->next == p->n_ties;
            if (p->ended) continue;
            give(j, trial, t, &p->ties[p->next]);
            n_tried++;
        }
        if (!again && !n_tried) return;
        if (again) {
            j->found = run(j, j->given, j->truth, &j->difference);
            continue;
        }
        struct logits_difference d;
        struct routes *found = run(j, trial, other, &d);
        for (uint32_t t = 0; t < j->n; t++) {
            struct position *p = &j->positions[t];
            if (p->ended || !p->looked || j->difference.max_abs_at[t] <= limit(j, t)) continue;
            if (d.max_abs_at[t] <= limit(j, t)) {
                const struct tie tie = p->ties[p->next];
                accept(j, result, list, t, &tie);
                n_accepted++;
            } else if (!n_rejected++) {
                if (d.max_abs_at[t] < p->best_off) {
                    p->best_off = d.max_abs_at[t];
                    p->best = p->next;
                }
                p->next++;
            }
        }
        if (!n_rejected) {
            memcpy(j->truth, other, (size_t)j->n * j->columns * sizeof *other);
            j->found = found;
            j->difference = d;
        } else if (n_accepted) {
            j->found = run(j, j->given, j->truth, &j->difference);
        }
    }
}

/* For positions with more ties than are tried: there, the effects of rounding include ties that fall the other way. */
static void sample_free(struct judging *j)
{
    bool *is_free = arena_array(j->arena, bool, j->n), some = false;
    for (uint32_t t = 0; t < j->n; t++) some |= is_free[t] = j->positions[t].ended && j->positions[t].n_ties == TIES_MOST;
    for (uint64_t i = 0; some && i < SAMPLES; i++) sample(j, i, is_free);
}

struct judged judge(struct arena *a, const struct graph *g, const struct bound *bound, const int32_t *tokens, uint32_t n,
                    const float *logits)
{
    const uint32_t columns = g->model->n_out;
    struct judged result = { .bound = *bound };
    struct judging j = { .arena = a, .graph = g, .bound = &result.bound, .tokens = tokens, .logits = logits, .n = n, .columns = columns,
                         .truth = arena_array(a, float, (size_t)n * columns) };
    j.found = run(&j, NULL, j.truth, &j.difference);
    result.truth = j.truth;
    result.difference = j.difference;
    result.holds = bound_holds(bound, &j.difference);
    if (result.holds || j.difference.n_not_finite) return result;

    j.n_routers = j.found->n_routers;
    j.given = routes_given(a, j.found, NULL, n);
    j.moved_at = arena_array(a, double, n);
    j.kl = arena_array(a, double, n);
    j.noise_at = arena_array(a, double, n);
    j.moves = arena_array(a, double, j.n_routers + 1);
    j.positions = arena_array(a, struct position, n);
    uint32_t most_experts = 1;
    for (uint32_t l = 0; l < j.n_routers; l++) most_experts = j.found->routers[l].rule.n_expert > most_experts
        ? j.found->routers[l].rule.n_expert : most_experts;
    j.scores = arena_array(a, double, most_experts);
    j.choice = arena_array(a, uint32_t, most_experts);
    for (uint64_t i = 0; i < SAMPLES; i++) sample(&j, i, NULL);
    if (j.n_routers) {
        reroute(&j, &result);
        sample_free(&j);
    }
    for (uint64_t i = SAMPLES;; i++) {
        double least = j.noise_at[0];
        for (uint32_t t = 1; t < n; t++) least = fmin(least, j.noise_at[t]);
        result.bound = *bound;
        bound_widen(&result.bound, &j.difference, j.moved_at, j.kl, least);
        result.difference = j.difference;
        result.holds = bound_holds(&result.bound, &j.difference);
        if (result.holds || i == SAMPLES_MOST) return result;
        sample(&j, i, NULL);
    }
}
