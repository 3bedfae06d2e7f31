/* compare.c -- builds the candidates of `forgec compare`, compares their logits with the first one's, and measures them in turn or
 * counts. */
#include "comparison.h"
#include "compiler/front/reference.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIN_TIME 0.5
enum { LOGIT_TOKENS = 32, SIMULATED_TOKENS = 8, PROFILES = 3 };
#define COPIED_MOST ((off_t)64 << 20)

/* ---- facts from the plan: launches, and values between kernels ---- */

/* Number of kernels that read a value, except the kernel that computes it. */
static uint32_t reading_groups(const struct fused *f, const struct node *n)
{
    uint32_t seen[MAX_BRANCHES * 4], count = 0;
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const struct node *r = n->readers[i];
        const bool recomputed = fuse_group(f, r) == NO_GROUP;                 /* a norm that each of its readers computes */
        for (uint32_t k = 0; k < (recomputed ? r->n_readers : 1); k++) {
            const uint32_t group = fuse_group(f, recomputed ? r->readers[k] : r);
            uint32_t j = 0;
            while (j < count && seen[j] != group) j++;
            if (j == count && group != fuse_group(f, n) && count < COUNT_OF(seen)) seen[count++] = group;
        }
    }
    return count;
}

/* For a token in a context of as many tokens as are generated, which begins empty. */
static void count_launches(struct candidate *c, const struct plan *p, uint32_t n_gen)
{
    const struct kernel_list *k = p->kernels;
    c->launches = p->web ? 2 : p->gpu != NULL;
    const struct launches *decode = &k->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n; i++) c->launches += decode->list[i].past < n_gen;
    c->launches_prefill = kernel_launches(k, STEPS_PREFILL, p->chunk);
    c->kernels = k;
}

/* A value counts as written once, and as read once by each kernel that needs it. Repeated reads by lanes and workgroups are served by
 * caches. */
static void read_plan(struct candidate *c, const struct plan *p, uint32_t n_gen)
{
    const struct graph *graph = p->fused->graph;
    count_launches(c, p, n_gen);
    c->weight_bytes = p->read_bytes;
    c->kv_per_token = p->state_bytes_per_token;
    c->value_bytes = 2ull * 4 * p->model->n_vocab;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (plan_needs_buffer(p, graph->nodes[i]))
            c->value_bytes += 4ull * graph->nodes[i]->cols * (1 + reading_groups(p->fused, graph->nodes[i]));
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        /* scores, mask, softmax, weighted sum: three of the kernels write scores, three read them */
        if (p->gpu && p->fused->level == FUSE_NONE && g->kind == GROUP_ATTENTION) c->score_bytes += 6ull * 4 * g->node->heads;
        for (uint32_t k = 0; k < g->n_branches; k++) {
            const struct weight *w = g->branches[k].matmul ? g->branches[k].matmul->weight : NULL;
            if (w) c->weight_floor += w->rows * (w->cols / w->tensor->quant->block_weights) * w->tensor->quant->block_bytes;
        }
    }
}

/* ---- times ---- */

/* Puts a program into the place where all programs run; the path's length affects the stack, so it is the same for each. A small program is
 * copied for every run: the pages it gets determine how it lies in the caches, and one program must not keep lucky pages. */
static void place(const char *path, const char *run_path)
{
    struct stat st;
    unlink(run_path);
    const int in = open(path, O_RDONLY | O_CLOEXEC);
    if (in < 0 || fstat(in, &st)) die("%s: cannot open it: %s", path, strerror(errno));
    if (st.st_size > COPIED_MOST) {
        if (symlink(strrchr(path, '/') + 1, run_path)) die("%s: cannot create the link: %s", run_path, strerror(errno));
        close(in);
        return;
    }
    const int out = open(run_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (out < 0) die("%s: cannot create it: %s", run_path, strerror(errno));
    for (off_t done = 0; done < st.st_size; ) {
        const ssize_t n = sendfile(out, in, NULL, (size_t)(st.st_size - done));
        if (n <= 0) die("%s: cannot copy it to %s: %s", path, run_path, strerror(n ? errno : EIO));
        done += n;
    }
    close(in);
    close(out);
}

/* Arguments of --bench for one round of both speeds. run.js of a folder for pages has one thread and no drafts. */
static const char *const *bench_arguments(struct arena *a, const struct comparison *p, const struct candidate *c)
{
    const char *const told[] = { "--bench", "-o", "json", "--min-time", arena_printf(a, "%g", p->min_time / 2),
                                 "-p", arena_printf(a, "%u", p->n_prompt), "-n", arena_printf(a, "%u", p->n_gen),
                                 c->target->web ? NULL : "-r", "1", "--spec", "none", p->options->n_threads ? "-t" : NULL,
                                 arena_printf(a, "%u", p->options->n_threads), NULL };
    const char **arguments = arena_array(a, const char *, COUNT_OF(told));
    memcpy(arguments, told, sizeof told);
    return arguments;
}

/* Measures the rates of one run; run: number of runs before. */
static void measure(struct arena *a, const struct comparison *p, struct candidate *c, const char *run_path, uint32_t run)
{
    const bool web = c->target->web;                      /* a folder is not copied: node compiles it at each start */
    if (!web) place(c->path, run_path);
    const struct bytes out = program_run(a, &c->runner, web ? c->path : run_path, bench_arguments(a, p, c));
    cJSON *rows = cJSON_ParseWithLength((const char *)out.data, out.size);
    if (!cJSON_IsArray(rows)) die("the program's --bench wrote no JSON list; this is a mistake in forgec, please report it");
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        const double rate = program_number(row, "median_ts");
        struct speed *speed = program_number(row, "n_prompt") > 0 ? &c->prefill : &c->decode;
        if (!(rate > 0)) die("the program's --bench measured %g tokens/s; this is a mistake in forgec, please report it", rate);
        speed->rounds[run / 2] = run % 2 ? sqrt(speed->rounds[run / 2] * rate) : rate;
        if (speed == &c->prefill) continue;
        if (web) { c->kv_bytes = (double)c->kv_per_token * (p->n_gen - 1) / 2; continue; }
        const double cache = program_number(row, "cache_gb_s");
        c->kv_bytes = program_number(row, "bytes_per_token") - (double)c->weight_bytes;
        c->bandwidths[run] = cache > 0 ? cache : program_number(row, "memory_gb_s");
        c->shares[run] = program_number(row, "share_percent");
    }
    cJSON_Delete(rows);
}

static void judge_speed(struct arena *a, const struct comparison *p, struct speed *s, const struct speed *first)
{
    s->median = median_of(arena_regrown(a, s->rounds, p->n_rounds, p->n_rounds, sizeof *s->rounds), p->n_rounds);
    s->pairs = pairs_of(s->rounds, first->rounds, p->n_rounds, p->comparisons);
}

static void measure_all(struct arena *a, struct comparison *p, struct workplace *w)
{
    const char *run_path = workplace_path(a, w, "program");
    uint32_t order[CANDIDATES_MOST];
    uint64_t chance;
    if (getrandom(&chance, sizeof chance, 0) != sizeof chance) die("cannot get a random number from the system: %s", strerror(errno));
    for (uint32_t i = 0; i < p->n; i++) {
        struct candidate *c = &p->candidates[i];
        c->decode.rounds = arena_array(a, double, p->n_rounds);
        c->prefill.rounds = arena_array(a, double, p->n_rounds);
        c->shares = arena_array(a, double, 2 * p->n_rounds);
        c->bandwidths = arena_array(a, double, 2 * p->n_rounds);
    }
    for (uint32_t round = 0; round < p->n_rounds; round++) {
        pairs_order(order, p->n, &chance);
        for (uint32_t i = 0; i < p->n; i++) measure(a, p, &p->candidates[order[i]], run_path, 2 * round);
        for (uint32_t i = p->n; i-- > 0; ) measure(a, p, &p->candidates[order[i]], run_path, 2 * round + 1);
    }
    for (uint32_t i = 0; i < p->n; i++) {
        struct candidate *c = &p->candidates[i];
        judge_speed(a, p, &c->decode, &p->candidates[0].decode);
        judge_speed(a, p, &c->prefill, &p->candidates[0].prefill);
        c->share = median_of(c->shares, 2 * p->n_rounds);
        c->bandwidth = median_of(c->bandwidths, 2 * p->n_rounds);
    }
}

/* Profiles kernel by kernel, in turn: decode steps for the time of a round, prefill steps for 4 times as long with clocks, and as long
 * without. */
static void profile_all(struct arena *a, struct comparison *p)
{
    const uint32_t turns = p->n_rounds < PROFILES ? p->n_rounds : PROFILES;
    struct kernel_profile *taken = arena_array(a, struct kernel_profile, p->n * turns);
    for (uint32_t turn = 0; turn < turns; turn++)
        for (uint32_t i = 0; i < p->n; i++) {
            const struct candidate *c = &p->candidates[i];
            const double steps = fmin(fmax(c->decode.median * p->min_time, 32), 100000);
            const char *arguments[] = { "--profile", "-o", "json", "-n", arena_printf(a, "%.0f", steps),
                                        "--min-time", arena_printf(a, "%g", 4 * p->min_time),
                                        p->options->n_threads ? "-t" : NULL, arena_printf(a, "%u", p->options->n_threads), NULL };
            taken[i * turns + turn] = kernel_profile_read(a, program_run(a, &c->runner, c->path, arguments));
        }
    for (uint32_t i = 0; i < p->n; i++) p->candidates[i].profiled = kernel_profile_median(&taken[i * turns], turns);
}

/* ---- logits and counts ---- */

/* Completes counters of kernels of which only a sample of the workgroups ran: a launch reads all of its weights. */
static void complete_sample(const struct candidate *c, struct counters *counted)
{
    const struct kernel_list *list = c->kernels;
    for (uint32_t i = 0; i < counted->n_kernels; i++) {
        struct kernel_counters *k = &counted->kernels[i];
        double weights = 0, launches = 0;
        const struct launches *prefill = &list->of[STEPS_PREFILL];
        for (uint32_t j = 0; k->sampled && j < prefill->n; j++) {
            const struct kernel *launched = &list->kernels[prefill->list[j].kernel];
            if (strcmp(launched->name, k->name)) continue;
            weights += (double)launched->weight_bytes;
            launches++;
        }
        if (launches > 0 && weights / launches * k->launches > k->unique_bytes) k->unique_bytes = weights / launches * k->launches;
    }
}

/* Logits of prompt kernels or of one-token kernels. counters_path: file for the simulator's counters; or NULL. */
static const float *logits_of(struct arena *a, const struct comparison *p, struct candidate *c, const int32_t *tokens, uint32_t run,
                              const char *counters_path)
{
    static const char *const through_decode[] = { "-ub", "0", NULL };
    struct runner runner = c->runner;
    runner.counters = counters_path;
    runner.sample = run == 0 ? p->options->sample : 0;
    const float *logits = program_logits(a, &runner, c->path, tokens, p->n_tokens[run], c->model->n_vocab,
                                         run == 1 ? through_decode : NULL);
    if (!counters_path) return logits;
    c->counters[run] = counters_read(a, counters_path);
    complete_sample(c, &c->counters[run]);
    return logits;
}

/* True if both are the same model, possibly in different formats. Logits of different models are far apart, so comparing them says
 * nothing. */
static bool is_same_model(const struct model *x, const struct model *y)
{
    return strcmp(x->architecture, y->architecture) == 0 && x->n_vocab == y->n_vocab && x->n_embd == y->n_embd && x->n_layer == y->n_layer;
}

static void compare_logits(struct arena *a, const struct comparison *p, struct candidate *c, const float *first[2],
                           const char *counters_path)
{
    const uint32_t most = p->n_tokens[0] > p->n_tokens[1] ? p->n_tokens[0] : p->n_tokens[1];
    const int32_t *tokens = tokens_random(a, most, c->model->n_vocab, 1);
    const bool same = is_same_model(c->model, p->candidates[0].model);
    c->has_logits = same && c != p->candidates;
    if (!same && !counters_path) return;
    for (uint32_t i = 0; i < 2; i++) {
        const float *logits = logits_of(a, p, c, tokens, i, counters_path);
        if (!same || (i == 0 && p->options->sample)) continue;
        if (!first[i]) first[i] = logits;
        const struct logits_difference d = logits_compare(a, first[i], logits, p->n_tokens[i], c->model->n_vocab);
        if (d.max_abs >= c->max_abs) {
            c->max_abs = d.max_abs;
            c->max_abs_relative = d.largest > 0 ? d.max_abs / d.largest : 0;
        }
        if (d.n_not_finite) warn("%s: %llu logits are not finite", c->name, (unsigned long long)d.n_not_finite);
    }
}

/* ---- values for the reports ---- */

double comparison_ratio(double x, double y) { return y > 0 ? x / y : 0; }

double comparison_bytes(const struct comparison *p, const struct candidate *c)
{
    return (double)c->weight_bytes + c->kv_bytes + (double)c->value_bytes + (double)c->score_bytes * (p->n_gen + 1) / 2;
}

double comparison_floor(const struct candidate *c) { return (double)c->weight_floor + c->kv_bytes; }

/* Weights as packed, the KV cache of the tokens before, values of other kernels (half of the value bytes are writes). */
double comparison_planned_reads(const struct comparison *p, const struct candidate *c)
{
    const double past = (p->n_tokens[1] - 1) / 2.0, kv = (double)c->kv_per_token * past;
    return (double)c->weight_bytes + kv + ((double)c->value_bytes + (double)c->score_bytes * (past + 1)) / 2;
}

struct step_times comparison_times(struct arena *a, const struct comparison *p, const struct candidate *c, uint32_t run)
{
    return least_times(a, c->target, &c->counters[run], run == 0 ? 1 : p->n_tokens[1]);
}

const char *comparison_title(struct arena *a, const struct comparison *p)
{
    const char *model = p->candidates[0].program->build.model_path, *target = p->candidates[0].target->name;
    bool one_model = true, one_target = true;
    for (uint32_t i = 1; i < p->n; i++) {
        one_model &= strcmp(p->candidates[i].program->build.model_path, model) == 0;
        one_target &= strcmp(p->candidates[i].target->name, target) == 0;
    }
    return arena_printf(a, "%s%s%s", one_model ? printable(a, model, strlen(model)) : arena_printf(a, "%u programs", p->n),
                        one_target ? " on " : "", one_target ? target : "");
}

/* ---- the whole comparison ---- */

static void prepare_candidate(struct arena *a, struct candidate *c, const struct compare_program *program, enum compare_format format)
{
    const struct build_options *b = &program->build;
    *c = (struct candidate){ .program = program, .name = program->is.name };
    c->model = build_model(a, b, gguf_open(a, b->model_path, false));
    if (c->model->pooling)
        die("%s: compare does not support embedding models, which decode no tokens; --bench of the program measures how fast it reads",
            b->model_path);
    c->target = target_load_tuned(a, b->n_targets ? b->targets[0] : "native", b->targets_dir, b->tuned_path);
    if (c->target->web && format == COMPARE_HTML)
        die("--format html needs times of kernels, which a program for %s does not write as JSON; use md or json",
            c->target->name);
}

static struct comparison prepare(struct arena *a, const struct compare_options *o)
{
    struct comparison p = { .options = o, .n = o->n_programs, .candidates = arena_array(a, struct candidate, o->n_programs),
                            .comparisons = o->n_programs > 1 ? 2 * (o->n_programs - 1) : 1,
                            .min_time = o->min_time > 0 ? o->min_time : MIN_TIME };
    uint32_t n_ctx = UINT32_MAX;
    for (uint32_t i = 0; i < p.n; i++) {
        prepare_candidate(a, &p.candidates[i], &o->programs[i], o->format);
        const uint32_t holds = plan_context(p.candidates[i].model, &o->programs[i].build.plan);
        if (holds < n_ctx) n_ctx = holds;
    }
    const uint32_t usual[2] = { o->simulate ? SIMULATED_TOKENS : 128, o->sample ? 1 : o->simulate ? SIMULATED_TOKENS : 64 };
    p.n_prompt = o->n_prompt ? o->n_prompt : n_ctx < usual[0] ? n_ctx : usual[0];
    p.n_gen = o->n_gen ? o->n_gen : n_ctx < usual[1] ? n_ctx : usual[1];
    p.n_tokens[0] = o->simulate ? p.n_prompt : n_ctx < LOGIT_TOKENS ? n_ctx : LOGIT_TOKENS;
    p.n_tokens[1] = o->simulate ? p.n_gen : p.n_tokens[0];
    p.n_rounds = o->rounds ? o->rounds : pairs_least(p.comparisons) + 1;
    if (p.n_prompt > n_ctx || p.n_gen > n_ctx)
        die("-p %u and -n %u exceed the context of %u tokens; give fewer, or a larger --ctx", p.n_prompt, p.n_gen, n_ctx);
    for (struct candidate *c = p.candidates; c < p.candidates + p.n; c++)
        c->runner = o->simulate ? runner_simulate(a, &c->program->build, c->target) : runner_find(a, c->target, c->target->web);
    return p;
}

/* Writes the edited source, or the source that forgec emits, to path. */
static struct bytes source_of(struct arena *a, const struct build_options *options, const char *path)
{
    if (options->source) return file_read(a, options->source);
    struct build_options o = *options;
    o.emit = EMIT_SOURCE;
    o.out_path = path;
    build(a, &o);
    return file_read(a, path);
}

/* A rate that the target of some candidate lacks, or NULL. */
static const char *missing_rate(struct arena *a, const struct comparison *p)
{
    for (uint32_t i = 0; i < 2 * p->n; i++) {
        const char *missing = comparison_times(a, p, &p->candidates[i / 2], i % 2).missing;
        if (!missing) continue;
        warn("%s: no %s, so there are no least times; see docs/target.md", p->candidates[i / 2].target->path, missing);
        return missing;
    }
    return NULL;
}

static void print_report(struct arena *a, const struct comparison *p)
{
    if (p->options->format == COMPARE_MD) comparison_md(a, p);
    else if (p->options->format == COMPARE_JSON) puts(comparison_json(a, p));
    else comparison_html(a, p);
}

/* The report goes to standard output, which is the file meanwhile. */
static void write_report(struct arena *a, const struct comparison *p, const char *path)
{
    struct outfile f = outfile_open(a, path, 0666);
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    if (out < 0 || dup2(f.fd, STDOUT_FILENO) < 0) die("%s: cannot write the report: %s", path, strerror(errno));
    print_report(a, p);
    if (fflush(stdout) || ferror(stdout)) die("%s: cannot write the report: %s", path, strerror(errno));
    if (dup2(out, STDOUT_FILENO) < 0) die("cannot restore standard output: %s", strerror(errno));
    close(out);
    outfile_commit(&f);
    fprintf(stderr, "forgec: wrote %s\n", path);
}

int compare(struct arena *a, const struct compare_options *o)
{
    if (o->path) output_claim(a, o->path);
    struct comparison p = prepare(a, o);
    struct workplace *w = workplace_open(a);
    const char *counters = o->simulate ? workplace_path(a, w, "counters") : NULL, *source = workplace_path(a, w, "source");
    const float *first[2] = { NULL };
    for (uint32_t i = 0; i < p.n; i++) {
        struct candidate *c = &p.candidates[i];
        const struct build_options *b = &c->program->build;
        read_plan(c, build_plan(a, b, graph_build(a, c->model), c->target), p.n_gen);
        c->path = program_build(a, w, b, arena_printf(a, "%02u", i));
        compare_logits(a, &p, c, first, counters);
        if (o->format == COMPARE_HTML) c->source = source_of(a, b, source);
    }
    if (o->simulate) p.missing = missing_rate(a, &p);
    else measure_all(a, &p, w);
    if (!o->simulate && o->format == COMPARE_HTML) profile_all(a, &p);
    workplace_close(w);
    if (o->path) write_report(a, &p, o->path);
    else print_report(a, &p);
    return 0;
}
