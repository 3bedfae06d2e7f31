/* verify.c -- checks three things: prefill and decode give the reference's logits, they agree with each other, and greedy decoding follows
 * from them. */
#include "verify.h"
#include "judge.h"
#include "least_times.h"
#include "compiler/build/program.h"
#include "compiler/front/token_lists.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOKENS_LEAST = 32, TOKENS_MOST = 320, GREEDY_MOST = 16, TOKENS_SIMULATED = 8, GREEDY_SIMULATED = 4 };

struct result {                       /* for one target */
    const char *target, *place;       /* place: where it ran; NULL: this machine */
    struct judged prefill, decode;
    struct logits_difference paths;   /* prefill compared with decode; n 0: not compared */
    uint32_t n_greedy, greedy_reference;      /* tokens generated; tokens equal to the reference's choice */
    int32_t  greedy_broken;           /* first token that contradicts the program's own logits; -1: none */
    uint32_t columns;                 /* --columns; 0: not given */
    int32_t  columns_broken;          /* first position where steps of several tokens give other bits than decode; -1: none */
    bool     has_drafts, has_more_drafts;
    struct judged drafts;             /* the draft block, token by token */
    /* with --exact, where no step rounds differently: drafts after steps of a prompt, and drafts after drafts */
    struct logits_difference prompt_drafts, later_drafts;
    struct bound  prompt_bound;
    int32_t  drafts_broken;           /* as columns_broken, for drafts after such steps */
    bool     ok;
    const char *first_kernel;         /* with an edited source that fails: the first kernel whose output differs; NULL: not looked for */
    struct step_times prompt, token;  /* simulated: all tokens as a prompt; the mean token of decode */
};

static uint32_t parse_tokens(const struct bytes out, int32_t *tokens, uint32_t most)
{
    uint32_t n = 0;
    for (const char *p = (const char *)out.data; n < most; ) {
        char *end;
        const long id = strtol(p, &end, 10);
        if (end == p) break;
        tokens[n++] = (int32_t)id;
        p = end;
    }
    return n;
}

/* ---- progress ---- */

static const char *stage;                                         /* what is computed now; NULL: progress is not shown */
static uint32_t n_runs, percent_before;

/* Shows it on a terminal, and from then on how far the reference is. */
static void enter(struct arena *a, const char *target, const char *what)
{
    if (!stage) return;
    stage = arena_printf(a, "%s: %s", target, what);
    n_runs = percent_before = 0;
    progress_line("%s", stage);
}

static void show_percent(uint32_t percent)
{
    static struct timespec shown;
    struct timespec now;
    if (percent < percent_before || n_runs == 0) n_runs++;        /* a judgement may take several runs of the reference */
    percent_before = percent;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec == shown.tv_sec) return;                       /* a line each second suffices */
    shown = now;
    if (n_runs > 1) progress_line("%s: run %u of the reference: %u %%", stage, n_runs, percent);
    else progress_line("%s: the reference: %u %%", stage, percent);
}

/* ---- runs of program and reference ---- */

static const char *output_word(const struct model *m) { return m->pooling ? "rows" : "logits"; }

/* A program stops if its logits are not finite, so the file is checked for this before a program is built. One token is enough: an overflow
 * usually happens with any token. */
static void reference_must_be_finite(struct arena *a, const struct graph *g, int32_t token)
{
    const uint32_t columns = g->model->n_out;
    float *logits = arena_array(a, float, columns);
    reference_logits(a, g, &(struct rounding){ .kv = KV_TYPE_F32 }, &token, 1, logits);
    for (uint32_t v = 0; v < columns; v++)
        if (!isfinite(logits[v]))
            die("%s: the reference computes no finite %s either (%s of %s %u after token %d): weights or hyperparameters of the file "
                "overflow", g->model->gguf->path, output_word(g->model), isnan(logits[v]) ? "NaN" : "infinity",
                g->model->pooling ? "column" : "token", v, token);
}

/* Logits of n tokens, by prompt or one-token kernels; counters_path: file for the simulator's counters, or NULL. */
static const float *run_counted(struct arena *a, const struct runner *runner, const struct target *p, const char *program,
                                const int32_t *tokens, uint32_t n, uint32_t columns, bool decode, const char *counters_path,
                                struct step_times *times)
{
    static const char *const through_decode[] = { "-ub", "0", NULL };
    const bool asks = decode && n > 1;                            /* a single token goes there anyway */
    struct runner counting = *runner;
    counting.counters = counters_path;
    const float *logits = program_logits(a, &counting, program, tokens, n, columns, asks ? through_decode : NULL);
    if (!counters_path) return logits;
    struct counters *c = arena_new(a, struct counters);
    *c = counters_read(a, counters_path);
    *times = least_times(a, p, c, decode ? n : 1);
    return logits;
}

/* The first position at which steps of a few tokens do not give the same bits as decode; -1: none. */
static int32_t first_broken_column(struct arena *a, const struct runner *runner, const char *program, const int32_t *tokens, uint32_t n,
                                   uint32_t columns, uint32_t together, const float *decode)
{
    const char *const extra[] = { "-ub", arena_printf(a, "%u", together), NULL };
    const float *logits = program_logits(a, runner, program, tokens, n, columns, extra);
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(logits + (size_t)i * columns, decode + (size_t)i * columns, columns * sizeof *logits)) return (int32_t)i;
    return -1;
}

/* Logits of the draft block after each token: [n][columns]. In steps of `each` tokens, all tokens but the first count as drafts. */
static const float *run_drafts(struct arena *a, const struct runner *runner, const char *program, const int32_t *tokens, uint32_t n,
                               uint32_t columns, uint32_t each)
{
    const char *arguments[] = { "--tokens", tokens_text(a, tokens, n), "--draft-logits", "/proc/self/fd/1", "-ub",
                                arena_printf(a, "%u", each), "--print-tokens", "-n", "0", NULL };
    const struct bytes out = program_run(a, runner, program, arguments);
    const uint64_t bytes = (uint64_t)n * columns * sizeof(float);
    if (out.size != bytes)
        die("the program for %s wrote %zu bytes of drafts' logits instead of %llu; this is a mistake in forgec, please report it",
            runner->target, out.size,
            (unsigned long long)bytes);
    return (const float *)(const void *)out.data;
}

/* Compares drafts after tokens that were computed one by one with the reference; drafts after steps of a few tokens must have the same
 * bits. If there is no rounding on purpose, drafts after steps of a prompt, and drafts after drafts, must be as close. */
static void check_drafts(struct arena *a, const struct graph *g, const char *program, const struct runner *runner,
                         const struct plan_options *plan, const struct bound *decode, const struct bound *prompt, const int32_t *tokens,
                         uint32_t n, struct result *r)
{
    const uint32_t columns = g->model->n_out, few = plan->columns, many = 2 * few + 1;
    const float *logits = run_drafts(a, runner, program, tokens, n, columns, 1);
    r->has_drafts = true;
    r->drafts = judge(a, graph_of_drafts(a, g), decode, tokens, n, logits);
    const float *behind_few = run_drafts(a, runner, program, tokens, n, columns, few);
    for (uint32_t i = 0; i * few < n && r->drafts_broken < 0; i++)
        if (memcmp(behind_few + (size_t)i * few * columns, logits + (size_t)i * few * columns, columns * sizeof *logits))
            r->drafts_broken = (int32_t)(i * few);
    if (!plan->exact || n < few) return;
    const uint32_t n_rows = (n + many - 1) / many, first = n / few * few - few;
    const float *behind_many = run_drafts(a, runner, program, tokens, n, columns, many);
    float *truth = arena_array(a, float, (size_t)n_rows * columns), *rows = arena_array(a, float, (size_t)n_rows * columns),
          *later = arena_array(a, float, (size_t)few * columns);
    for (uint32_t i = 0; i < n_rows; i++) {
        memcpy(truth + (size_t)i * columns, r->drafts.truth + (size_t)i * many * columns, columns * sizeof *truth);
        memcpy(rows + (size_t)i * columns, behind_many + (size_t)i * many * columns, columns * sizeof *rows);
    }
    reference_drafts(a, g, &decode->rounding, tokens, first, first + few, later);
    r->has_more_drafts = true;
    r->prompt_bound = *prompt;
    r->prompt_drafts = logits_compare(a, truth, rows, n_rows, columns);
    r->later_drafts = logits_compare(a, later, behind_few + (size_t)first * columns, few, columns);
}

static bool more_drafts_hold(const struct result *r)
{
    return !r->has_more_drafts || (bound_holds(&r->prompt_bound, &r->prompt_drafts) && bound_holds(&r->prompt_bound, &r->later_drafts));
}

static bool is_among(const struct token_list *list, uint32_t id)
{
    for (uint32_t i = 0; i < list->n; i++) if (list->ids[i] == id) return true;
    return false;
}

/* The token with the largest logit that greedy decoding may draw. */
static uint32_t greedy_choice(const float *row, uint32_t n_vocab, const struct token_list *never)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t id = 0; id < n_vocab; id++) if ((best == UINT32_MAX || row[id] > row[best]) && !is_among(never, id)) best = id;
    return best == UINT32_MAX ? 0 : best;
}

/* counters_path: file for the simulator's counters, or NULL. */
static struct result check_target(struct arena *a, const struct graph *g, const char *program, const struct runner *runner,
                                  const struct target *target, const struct plan_options *plan, const int32_t *prompt, uint32_t n_prompt,
                                  uint32_t n_greedy, const char *counters_path)
{
    const uint32_t n_vocab = g->model->n_vocab;
    struct result r = { .target = runner->target, .place = runner->simulator ? "the simulator" : runner->emulator, .greedy_broken = -1,
                        .columns = plan->columns, .columns_broken = -1, .drafts_broken = -1 };
    const struct bound bound_prefill = bound_find(g, target, plan, n_prompt + n_greedy), bound_decode = bound_find(g, target, plan, 0);
    int32_t *tokens = arena_array(a, int32_t, n_prompt + n_greedy);
    for (uint32_t i = 0; i < n_prompt; i++) tokens[i] = prompt[i];
    if (n_greedy) {
        enter(a, runner->target, "greedy tokens");
        const char *arguments[] = { "--tokens", tokens_text(a, prompt, n_prompt), "--print-tokens", "--temp", "0", "--repeat-penalty", "1",
                                    "--ignore-eos", "-n", arena_printf(a, "%u", n_greedy), NULL };
        r.n_greedy = parse_tokens(program_run(a, runner, program, arguments), tokens + n_prompt, n_greedy);
        if (r.n_greedy != n_greedy)
            die("the program for %s generated %u tokens instead of %u; this is a mistake in forgec, please report it", runner->target,
                r.n_greedy, n_greedy);
        for (uint32_t i = 0; i < n_greedy; i++)
            if (tokens[n_prompt + i] < 0 || (uint32_t)tokens[n_prompt + i] >= n_vocab)
                die("the program for %s generated token %d, which is not in the vocabulary; this is a mistake in forgec, please report it",
                    runner->target, tokens[n_prompt + i]);
    }
    /* If tokens see later tokens, one-token kernels only serve texts of one token. */
    const uint32_t n = n_prompt + n_greedy, columns = g->model->n_out, n_decode = g->model->causal ? n : 1;
    enter(a, runner->target, "a prompt");
    const float *prefill = run_counted(a, runner, target, program, tokens, n, columns, false, counters_path, &r.prompt);
    enter(a, runner->target, "single tokens");
    const float *decode = run_counted(a, runner, target, program, tokens, n_decode, columns, true, counters_path, &r.token);
    enter(a, runner->target, "judging the prompt");
    r.prefill = judge(a, g, &bound_prefill, tokens, n, prefill);
    enter(a, runner->target, "judging the single tokens");
    r.decode = judge(a, g, &bound_decode, tokens, n_decode, decode);
    if (n_decode == n) r.paths = logits_compare(a, decode, prefill, n, columns);
    const struct token_list never = suppressed_tokens(a, g->model->gguf);
    for (uint32_t i = 0; i < n_greedy; i++) {
        const uint64_t row = (uint64_t)(n_prompt - 1 + i) * n_vocab;
        const int32_t drawn = tokens[n_prompt + i];
        r.greedy_reference += greedy_choice(r.decode.truth + row, n_vocab, &never) == (uint32_t)drawn;
        /* Here the prompt went through prefill, and in the logits through decode: a tie within their difference may fall either way. */
        const float *own = decode + row;
        const double lead = (double)own[greedy_choice(own, n_vocab, &never)] - (double)own[drawn];
        if (r.greedy_broken < 0 && (lead > 4 * r.paths.max_abs + 1e-6 || is_among(&never, (uint32_t)drawn))) r.greedy_broken = (int32_t)i;
    }
    enter(a, runner->target, "the other checks");
    if (r.columns) r.columns_broken = first_broken_column(a, runner, program, tokens, n, columns, r.columns, decode);
    if (g->draft) check_drafts(a, g, program, runner, plan, &bound_decode, &bound_prefill, tokens, n, &r);
    r.ok = r.prefill.holds && r.decode.holds && r.greedy_broken < 0 && r.columns_broken < 0 && r.drafts_broken < 0 &&
           (!r.has_drafts || r.drafts.holds) && more_drafts_hold(&r);
    return r;
}

/* ---- which kernel ---- */

enum { TRACED_MOST = 32 };             /* tokens; every kernel's memory is hashed for each */

/* A line for each launch that reads the tokens, one by one or as a prompt: kernel, layer, tokens before, hash (--trace). */
static const char *run_trace(struct arena *a, const struct runner *runner, const char *program, const int32_t *tokens, uint32_t n,
                             bool decode)
{
    const char *arguments[] = { "--tokens", tokens_text(a, tokens, n), "--print-tokens", "-n", "0", "--trace", "/proc/self/fd/1",
                                decode ? "-ub" : NULL, "0", NULL };
    const struct bytes out = program_run(a, runner, program, arguments);
    return arena_strndup(a, (const char *)out.data, out.size);
}

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return text + (*text != 0);
}

static bool is_same_line(const char *x, const char *y)
{
    const size_t n = strcspn(x, "\n");
    return strcspn(y, "\n") == n && !strncmp(x, y, n);
}

/* The first kernel after which the memory of the edited program is not that of the program of the emitted source. NULL: there is no such
 * kernel. The emitted program runs twice: a kernel whose own runs differ, such as a list in the order of arrival, proves nothing. */
static const char *first_other_kernel(struct arena *a, struct workplace *w, const struct build_options *edited, const struct runner *runner,
                                      const char *program, const int32_t *tokens, uint32_t n, bool decode)
{
    struct build_options o = *edited;
    o.source = NULL;
    const uint32_t traced = n < TRACED_MOST ? n : TRACED_MOST;
    const char *first = program_build(a, w, &o, "emitted");
    const char *emitted = run_trace(a, runner, first, tokens, traced, decode), *again = run_trace(a, runner, first, tokens, traced, decode);
    const char *own = run_trace(a, runner, program, tokens, traced, decode);
    for (; *emitted && *again && *own; emitted = next_line(emitted), again = next_line(again), own = next_line(own)) {
        char name[128];
        int layer;
        unsigned n_past;
        if (!is_same_line(emitted, again) || is_same_line(emitted, own)) continue;
        if (sscanf(own, "%127s %d %u", name, &layer, &n_past) != 3) return NULL;
        return arena_printf(a, "%s%s, %s token %u", name, layer < 0 ? "" : arena_printf(a, " of layer %d", layer),
                            decode ? "at" : "in a prompt from", n_past);
    }
    return NULL;
}

/* ---- the report ---- */

static void print_row(const char *name, const struct logits_difference *d, const char *verdict)
{
    printf("  %-18s %9.2e %9.2e %10.2e %9.2e %9.2e @ %-4u %5.1f %%", name, d->max_abs, d->least, d->rms_relative, d->mean_kl, d->worst_kl,
           d->worst_position, d->n ? 100.0 * d->argmax_agree / d->n : 0);
    if (d->n_not_finite) printf("  %llu logits are not finite", (unsigned long long)d->n_not_finite);
    puts(verdict);
}

static void print_judged(const char *name, const struct judged *j)
{
    const struct logits_difference *d = &j->difference;
    const struct bound *b = &j->bound;
    print_row(name, d, j->holds ? "" : "  OUT OF BOUNDS");
    printf("  %-18s %9.2e %9.2e %10s %9.2e  %s", "  at most", b->most * d->largest, b->least * d->largest, "", b->mean_kl, b->name);
    if (b->n_moved) printf("; %u position%s beyond, with twice the effect of rounding as bound", b->n_moved, b->n_moved > 1 ? "s" : "");
    putchar('\n');
    if (j->n_positions)
        printf("    %u position%s routed otherwise: a tie within the effect of rounding; compared with the reference given the other "
               "expert\n", j->n_positions, j->n_positions > 1 ? "s" : "");
}

static void print_result(const struct result *r)
{
    printf("\n%s%s%s\n", r->target, r->place ? " in " : "", r->place ? r->place : "");
    printf("  %-18s %9s %9s %10s %9s %9s   %-4s %7s\n", "against reference", "max abs", "at best", "rms/std", "mean KL", "worst KL", "pos.",
           "argmax");
    print_judged("prefill", &r->prefill);
    print_judged("decode", &r->decode);
    if (r->paths.n) print_row("prefill to decode", &r->paths, "");
    if (r->has_drafts) print_judged("drafts", &r->drafts);
    if (r->has_more_drafts) {
        print_row("drafts of a prompt", &r->prompt_drafts, bound_holds(&r->prompt_bound, &r->prompt_drafts) ? "" : "  OUT OF BOUNDS");
        print_row("drafts of drafts", &r->later_drafts, bound_holds(&r->prompt_bound, &r->later_drafts) ? "" : "  OUT OF BOUNDS");
    }
    if (r->n_greedy) printf("  greedy: %u of %u tokens are the reference's choice\n", r->greedy_reference, r->n_greedy);
    if (r->greedy_broken >= 0) printf("  greedy: token %d does not follow from the program's own logits\n", r->greedy_broken);
    if (r->columns && r->columns_broken < 0) printf("  steps of %u tokens: the bits of decode\n", r->columns);
    if (r->columns_broken >= 0)
        printf("  steps of %u tokens: the logits of position %d are not decode's\n", r->columns, r->columns_broken);
    if (r->drafts_broken >= 0)
        printf("  steps of %u tokens: the draft after position %d differs from decode's draft\n", r->columns, r->drafts_broken);
    if (r->first_kernel) printf("  the first kernel whose output is not the emitted source's: %s\n", r->first_kernel);
    printf("  %s\n", r->ok ? "ok" : "FAILED");
}

static const char *missing_rate(const struct result *r) { return r->prompt.missing ? r->prompt.missing : r->token.missing; }

static void print_least_times(struct arena *a, const struct result *r, const struct target *p)
{
    least_times_print(arena_printf(a, "%s, a prompt of %u tokens", r->target, r->prefill.difference.n), &r->prompt);
    least_times_print(arena_printf(a, "%s, a decoded token, the mean of %u", r->target, r->decode.difference.n), &r->token);
    least_times_explain(p);
}

/* judged: the judgement with that difference, or NULL. */
static void json_difference(cJSON *parent, const char *name, const struct logits_difference *d, const struct judged *judged)
{
    cJSON *o = cJSON_AddObjectToObject(parent, name);
    cJSON_AddNumberToObject(o, "max_abs", d->max_abs);
    cJSON_AddNumberToObject(o, "max_abs_at_best", d->least);
    cJSON_AddNumberToObject(o, "rms", d->rms);
    cJSON_AddNumberToObject(o, "rms_relative", d->rms_relative);
    cJSON_AddNumberToObject(o, "mean_kl", d->mean_kl);
    cJSON_AddNumberToObject(o, "worst_kl", d->worst_kl);
    cJSON_AddNumberToObject(o, "worst_position", d->worst_position);
    cJSON_AddNumberToObject(o, "argmax_agree", d->argmax_agree);
    cJSON_AddNumberToObject(o, "largest_logit", d->largest);
    cJSON_AddNumberToObject(o, "not_finite", (double)d->n_not_finite);
    if (judged) {
        const struct bound *bound = &judged->bound;
        cJSON *at_most = cJSON_AddObjectToObject(o, "bound");
        cJSON_AddStringToObject(at_most, "name", bound->name);
        cJSON_AddNumberToObject(at_most, "max_abs", bound->most * d->largest);
        cJSON_AddNumberToObject(at_most, "max_abs_at_best", bound->least * d->largest);
        cJSON_AddNumberToObject(at_most, "mean_kl", bound->mean_kl);
        cJSON_AddNumberToObject(at_most, "positions_widened", bound->n_moved);
        cJSON_AddBoolToObject(o, "ok", judged->holds);
        cJSON_AddNumberToObject(o, "positions_routed_otherwise", judged->n_positions);
        cJSON *list = cJSON_AddArrayToObject(o, "routed_otherwise");
        for (uint32_t i = 0; i < judged->n_otherwise; i++) {
            const struct otherwise *w = &judged->otherwise[i];
            cJSON *tie = cJSON_CreateObject();
            cJSON_AddNumberToObject(tie, "position", w->position);
            cJSON_AddNumberToObject(tie, "router", w->router);
            cJSON_AddNumberToObject(tie, "dropped", w->dropped);
            cJSON_AddNumberToObject(tie, "taken", w->taken);
            cJSON_AddNumberToObject(tie, "margin", w->margin);
            cJSON_AddNumberToObject(tie, "rounding_moves", w->moves);
            cJSON_AddItemToArray(list, tie);
        }
    }
    cJSON_AddItemToObject(o, "kl", cJSON_CreateDoubleArray(d->kl, (int)d->n));
}

static void print_json(const struct verify_options *o, const struct model *m, const char *formats, const struct result *results,
                       uint32_t n_results, uint32_t n_prompt, bool ok)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", o->build.model_path);
    if (o->build.source) cJSON_AddStringToObject(root, "source", o->build.source);
    cJSON_AddStringToObject(root, "architecture", m->architecture);
    cJSON_AddStringToObject(root, "formats", formats);
    cJSON_AddBoolToObject(root, "ok", ok);
    cJSON_AddNumberToObject(root, "n_random_tokens", n_prompt);
    cJSON_AddNumberToObject(root, "seed", (double)o->seed);
    cJSON *ignored = cJSON_AddObjectToObject(root, "ignored");
    for (uint32_t i = 0; i < m->n_ignored; i++) cJSON_AddStringToObject(ignored, m->ignored[i].name, m->ignored[i].value);
    cJSON *list = cJSON_AddArrayToObject(root, "targets");
    for (uint32_t i = 0; i < n_results; i++) {
        const struct result *r = &results[i];
        cJSON *t = cJSON_CreateObject();
        cJSON_AddStringToObject(t, "target", r->target);
        cJSON_AddBoolToObject(t, "emulated", r->place != NULL);
        cJSON_AddBoolToObject(t, "simulated", o->simulate);
        cJSON_AddBoolToObject(t, "ok", r->ok);
        cJSON_AddNumberToObject(t, "n_positions", r->prefill.difference.n);
        cJSON_AddNumberToObject(t, "n_greedy", r->n_greedy);
        cJSON_AddNumberToObject(t, "greedy_as_reference", r->greedy_reference);
        cJSON_AddBoolToObject(t, "greedy_follows_logits", r->greedy_broken < 0);
        if (r->first_kernel) cJSON_AddStringToObject(t, "first_kernel", r->first_kernel);
        if (r->columns) cJSON_AddBoolToObject(t, "columns_as_decode", r->columns_broken < 0);
        json_difference(t, "prefill", &r->prefill.difference, &r->prefill);
        json_difference(t, "decode", &r->decode.difference, &r->decode);
        if (r->paths.n) json_difference(t, "prefill_to_decode", &r->paths, NULL);
        if (r->has_drafts) json_difference(t, "drafts", &r->drafts.difference, &r->drafts);
        if (r->has_drafts) cJSON_AddBoolToObject(t, "drafts_as_decode", r->drafts_broken < 0);
        if (r->has_more_drafts) json_difference(t, "drafts_of_a_prompt", &r->prompt_drafts, NULL);
        if (r->has_more_drafts) json_difference(t, "drafts_of_drafts", &r->later_drafts, NULL);
        if (o->simulate && !missing_rate(r)) {
            cJSON *times = cJSON_AddObjectToObject(t, "least_times");
            least_times_json(times, "prompt", &r->prompt);
            least_times_json(times, "decode", &r->token);
        }
        cJSON_AddItemToArray(list, t);
    }
    char *text = cJSON_Print(root);
    if (!text) die("out of memory for the report");
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void print_scope(const struct verify_options *o, const struct model *m, uint32_t n_positions)
{
    for (uint32_t i = 0; i < m->n_ignored; i++)
        printf("\nignored: %s = %s; neither the program nor the reference computes it%s", m->ignored[i].name, m->ignored[i].value,
               i + 1 < m->n_ignored ? "" : "\n");
    printf("\nchecked: %s at every position, prompt and one-token kernels%s%s.\n", output_word(m),
           m->pooling ? "" : ", greedy choice", o->simulate ? ";\n"
           "  by executing the chip's instructions: bounds, alignment, values never written, waits for loads, races in LDS and between\n"
           "  groups, stale caches" : "");
    printf("not checked: the tokenizer, %spositions beyond %u, %sand the reading of the model\n"
           "that program and reference share (GGUF keys, models/%s.yaml)%s.\n", m->pooling ? "pooling, " : "", n_positions,
           o->simulate ? "" : "other thread counts than the default, ", m->architecture,
           o->simulate ? "; time; AMD's driver and firmware;\nwhat docs/simulator.md lists as not modelled" : "");
}

/* More than one chunk, and more than attention processes in one part. Fewer for large models: the reference computes about 1e9 products per
 * second and core. */
static uint32_t usual_tokens(const struct model *m)
{
    const uint64_t affordable = 160000000000ull / (m->n_parameters ? m->n_parameters : 1);
    return affordable < TOKENS_LEAST ? TOKENS_LEAST : affordable > TOKENS_MOST ? TOKENS_MOST : (uint32_t)affordable;
}

int verify(struct arena *a, const struct verify_options *o)
{
    const struct build_options *b = &o->build;
    const struct gguf *file = gguf_open(a, b->model_path, false);
    const struct model *m = build_model(a, b, file);
    const struct graph *g = graph_build(a, m);
    const uint32_t n_ctx = plan_context(m, &b->plan);
    const uint32_t usual = o->simulate ? TOKENS_SIMULATED : usual_tokens(m);
    const uint32_t most_greedy = m->pooling ? 0 : o->simulate ? GREEDY_SIMULATED : GREEDY_MOST;
    const uint32_t n_prompt = o->n_tokens ? o->n_tokens : n_ctx < usual ? n_ctx : usual;
    if (n_prompt > n_ctx) die("--tokens %u is more than the context of %u tokens; give fewer, or a larger --ctx", n_prompt, n_ctx);
    /* Longer texts may use other rotations: then all tokens of the text must be on the same side of that limit. */
    const uint32_t far_from = graph_far_from(g), end = far_from && n_prompt <= far_from && far_from < n_ctx ? far_from : n_ctx;
    const uint32_t n_greedy = end - n_prompt < most_greedy ? end - n_prompt : most_greedy;

    struct runner runners[COUNT_OF(b->targets)];
    const struct target *targets[COUNT_OF(b->targets)];
    const uint32_t n = b->n_targets ? b->n_targets : 1;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = b->n_targets ? b->targets[i] : "native";
        const struct target *p = targets[i] = target_load_tuned(a, name, b->targets_dir, b->tuned_path);
        if (n > 1 && p->web) die("verify: a folder for pages is verified for one target at a time: give -t %s alone", p->name);
        runners[i] = o->simulate ? runner_simulate(a, b, p) : runner_find(a, p, true);
        runners[i].embeds = m->pooling != 0;
    }

    stage = o->quiet ? NULL : "";
    reference_progress = stage ? show_percent : NULL;
    enter(a, path_name(b->model_path), "building the program");
    struct workplace *w = workplace_open(a);
    const char *program = program_build(a, w, b, "program");
    const int32_t *prompt = tokens_random(a, n_prompt, m->n_vocab, o->seed);
    enter(a, path_name(b->model_path), "are its results finite?");
    reference_must_be_finite(a, g, prompt[0]);
    progress_line(NULL);
    const char *formats = model_formats(a, m);
    struct result results[COUNT_OF(b->targets)];
    bool ok = true;
    if (!o->json)
        printf("%s%s%s: %s, %.1f M parameters, %s\n%u random tokens (seed %llu)", b->model_path,
               b->source ? " with " : "", b->source ? b->source
               : "", m->architecture, (double)m->n_parameters * 1e-6, formats, n_prompt, (unsigned long long)o->seed);
    if (!o->json && n_greedy) printf(", then %u greedy ones", n_greedy);
    if (!o->json) putchar('\n');
    fflush(stdout);                   /* what follows takes minutes for a large model */
    for (uint32_t i = 0; i < n; i++) {
        const char *counters_path = o->simulate ? workplace_path(a, w, arena_printf(a, "%u-counters", i)) : NULL;
        results[i] = check_target(a, g, program, &runners[i], targets[i], &b->plan, prompt, n_prompt, n_greedy, counters_path);
        if (b->source && !results[i].ok && !targets[i]->web) {
            const bool decode = !results[i].decode.holds;
            enter(a, runners[i].target, "looking for the first kernel that differs");
            results[i].first_kernel = first_other_kernel(a, w, b, &runners[i], program, prompt, m->causal ? n_prompt : 1, decode);
        }
        ok = ok && results[i].ok;
        progress_line(NULL);
        if (!o->json) print_result(&results[i]);
        const char *missing = missing_rate(&results[i]);
        if (missing) warn("%s: no %s, so there are no least times; see docs/target.md", targets[i]->path, missing);
        else if (o->simulate && !o->json) print_least_times(a, &results[i], targets[i]);
    }
    workplace_close(w);
    if (o->json) print_json(o, m, formats, results, n, n_prompt, ok);
    else print_scope(o, m, n_prompt + n_greedy);
    return ok ? 0 : 1;
}
