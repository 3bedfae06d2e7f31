/* compare.c -- rounds alternate between the builds, so that what else the machine does meets all of them alike. */
#include "compare.h"
#include "counters.h"
#include "compiler/plan/kernel.h"
#include "least_times.h"
#include "pairs.h"
#include "compiler/build/program.h"
#include "compiler/front/reference.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIN_TIME 0.5
enum { ROUNDS = 7, MAX_ROUNDS = 100, LOGIT_TOKENS = 32, SIMULATED_TOKENS = 8 };
static const char *const level_name[] = { [FUSE_NONE] = "none", [FUSE_LAYER] = "layer" };

struct candidate {
    const char *name, *path;
    uint32_t    launches, launches_prefill;       /* of a GPU: with the one that draws the token */
    uint64_t    weight_bytes, weight_floor;       /* read per decoded token: as packed; as in the file */
    uint64_t    value_bytes;              /* what kernels leave for others, per decoded token */
    uint64_t    kv_per_token;             /* bytes a position has in the KV cache */
    uint64_t    score_bytes;              /* of that for every token before it: attention that keeps its scores */
    double      kv_bytes;                 /* KV cache read per decoded token, the mean over those of a round */
    double      decode[MAX_ROUNDS], prefill[MAX_ROUNDS], share[MAX_ROUNDS], bandwidth[MAX_ROUNDS];
    uint32_t    n_decode, n_prefill;
    double      decode_median, prefill_median, share_median, bandwidth_median;
    struct pairs decode_pairs, prefill_pairs;     /* with the first candidate */
    struct counters counters[2];  /* simulated: of the prompt, of all decoded tokens */
    const struct kernel_list *kernels;
    double      max_abs, max_abs_relative;        /* logits against the first candidate's, prompt and one-token kernels */
};

struct setup {
    const struct model   *model;
    struct runner         runner;
    const struct profile *profile;
    uint32_t              n_prompt, n_gen, rounds, n_threads, sample;
    double                min_time;
    uint32_t              n_tokens[2];           /* of logits: through prompt kernels, through one-token kernels */
};

/* ---- what the plan tells: launches, and values between kernels ---- */

/* Kernels other than its own that read a value. */
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

static void count_launches(struct candidate *c, const struct plan *p)
{
    const struct kernel_list *k = p->kernels;
    c->launches = k->n_decode + (p->gpu != NULL);
    c->launches_prefill = kernel_launches(k, k->prefill, k->n_prefill, p->chunk);
    c->kernels = k;
}

/* Written once and read once by each kernel that needs it; that lanes and groups read it several times is the caches' matter. */
static void read_plan(struct candidate *c, const struct plan *p)
{
    const struct graph *graph = p->fused->graph;
    count_launches(c, p);
    c->weight_bytes = p->read_bytes;
    c->kv_per_token = p->state_bytes_per_token;
    c->value_bytes = 2ull * 4 * p->model->n_vocab;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        if (plan_needs_buffer(p, graph->nodes[i]))
            c->value_bytes += 4ull * graph->nodes[i]->cols * (1 + reading_groups(p->fused, graph->nodes[i]));
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        /* scores, mask, softmax, weighted sum: three of them write, three read */
        if (p->gpu && p->fused->level == FUSE_NONE && g->kind == GROUP_ATTENTION) c->score_bytes += 6ull * 4 * g->node->heads;
        for (uint32_t k = 0; k < g->n_branches; k++) {
            const struct weight *w = g->branches[k].matmul ? g->branches[k].matmul->weight : NULL;
            if (w) c->weight_floor += w->rows * (w->cols / w->tensor->quant->block_weights) * w->tensor->quant->block_bytes;
        }
    }
}

static double number(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);
    if (!cJSON_IsNumber(item)) die("the program's --bench has no %s; this is a mistake in forgec, please report it", key);
    return item->valuedouble;
}

static void measure(struct arena *a, const struct setup *s, struct candidate *c)
{
    const char *arguments[16] = { "--bench", "-o", "json", "-r", "1", "--min-time", arena_printf(a, "%g", s->min_time),
                                  "-p", arena_printf(a, "%u", s->n_prompt), "-n", arena_printf(a, "%u", s->n_gen) };
    if (s->n_threads) { arguments[11] = "-t"; arguments[12] = arena_printf(a, "%u", s->n_threads); }
    const struct bytes out = program_run(a, &s->runner, c->path, arguments);
    cJSON *rows = cJSON_ParseWithLength((const char *)out.data, out.size);
    if (!cJSON_IsArray(rows)) die("the program's --bench wrote no JSON list; this is a mistake in forgec, please report it");
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (number(row, "n_prompt") > 0) c->prefill[c->n_prefill++] = number(row, "median_ts");
        else {
            const double cache = number(row, "cache_gb_s");
            c->kv_bytes = number(row, "bytes_per_token") - (double)c->weight_bytes;
            c->bandwidth[c->n_decode] = cache > 0 ? cache : number(row, "memory_gb_s");
            c->share[c->n_decode] = number(row, "share_percent");
            c->decode[c->n_decode++] = number(row, "median_ts");
        }
    }
    cJSON_Delete(rows);
}

/* ---- the report ---- */

static double ratio(double x, double first) { return first > 0 ? x / first : 0; }

static double all_bytes(const struct candidate *c, uint32_t n_gen)
{
    return (double)c->weight_bytes + c->kv_bytes + (double)c->value_bytes + (double)c->score_bytes * (n_gen + 1) / 2;
}
static double floor_bytes(const struct candidate *c) { return (double)c->weight_floor + c->kv_bytes; }

static void print_pairs(const char *what, const struct pairs *p)
{
    printf("  %s %.2f (%.2f to %.2f)%s%s", what, p->median, p->least, p->most, p->distinguishable ? "" : ", ",
           p->distinguishable ? "" : pairs_verdict(p));
}

static void print_table(const struct compare_options *o, const struct setup *s, const struct candidate *c, uint32_t n)
{
    char prefill[32];
    snprintf(prefill, sizeof prefill, "prefill-%u tok/s", s->n_prompt);
    printf("%s on %s: %u round%s in turns, each of at least %g s\n", o->build.model_path, s->runner.target, s->rounds,
           s->rounds > 1 ? "s" : "", s->min_time);
    printf("%-6s %9s %10s %8s %13s %10s %21s %20s\n", "fuse", "launches", "MB/token", "x floor", "decode tok/s", "bandwidth", prefill,
           "largest logit diff.");
    for (uint32_t i = 0; i < n; i++) {
        const double bytes = all_bytes(&c[i], s->n_gen);
        printf("%-6s %9u %10.3f %8.3f %13.1f %8.1f %% %21.1f ", c[i].name, c[i].launches, bytes * 1e-6, ratio(bytes, floor_bytes(&c[i])),
               c[i].decode_median, c[i].share_median, c[i].prefill_median);
        if (i) printf("%20.2e\n", c[i].max_abs);
        else printf("%20s\n", "-");
    }
    for (uint32_t i = 1; i < n; i++) {
        printf("%s to %s:", c[i].name, c[0].name);
        print_pairs("decode", &c[i].decode_pairs);
        printf(";");
        print_pairs("prefill", &c[i].prefill_pairs);
        printf("\n");
    }
    const bool gpu = s->profile->kind == TARGET_GPU;
    printf("Speeds are medians, ratios the median (least to most) of those of one round; "
           "not distinguishable: equal programs scatter so in 5 %%\nof measurements or more (sign test; it takes %d rounds).  "
           "launches: per decoded token%s.  floor: weights as in the file, %.3f MB,\n"
           "and the KV cache of the tokens before, %.3f MB (mean of %u tokens from an empty context); "
           "MB/token adds padding and values between\nkernels.  "
           "bandwidth: share that weights and KV cache make of the %.1f GB/s that the same run measured (%s).\n",
           PAIRS_LEAST, gpu ? ", with the one that draws it" : "", (double)c[0].weight_floor * 1e-6, c[0].kv_bytes * 1e-6, s->n_gen,
           c[n - 1].bandwidth_median, gpu ? "a large copy on the device, read and written"
                                          : "reading memory, or a buffer of the weights' size that fits the cache");
}

static void print_tree(cJSON *root)
{
    char *text = cJSON_Print(root);
    if (!text) die("out of memory for the report");
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void json_pairs(struct arena *a, cJSON *row, const char *what, const struct pairs *p)
{
    cJSON_AddNumberToObject(row, arena_printf(a, "%s_ratio", what), p->median);
    cJSON_AddNumberToObject(row, arena_printf(a, "%s_ratio_min", what), p->least);
    cJSON_AddNumberToObject(row, arena_printf(a, "%s_ratio_max", what), p->most);
    cJSON_AddStringToObject(row, arena_printf(a, "%s_verdict", what), pairs_verdict(p));
}

static void print_json(struct arena *a, const struct compare_options *o, const struct setup *s, const struct candidate *c, uint32_t n)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", o->build.model_path);
    cJSON_AddStringToObject(root, "target", s->runner.target);
    cJSON_AddNumberToObject(root, "n_prompt", s->n_prompt);
    cJSON_AddNumberToObject(root, "n_gen", s->n_gen);
    cJSON_AddNumberToObject(root, "rounds", s->rounds);
    cJSON_AddNumberToObject(root, "min_time_s", s->min_time);
    cJSON *list = cJSON_AddArrayToObject(root, "levels");
    for (uint32_t i = 0; i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "fuse", c[i].name);
        cJSON_AddNumberToObject(row, "launches_per_token", c[i].launches);
        cJSON_AddNumberToObject(row, "launches_per_prompt_step", c[i].launches_prefill);
        cJSON_AddNumberToObject(row, "weight_bytes_per_token", (double)c[i].weight_bytes);
        cJSON_AddNumberToObject(row, "kv_bytes_per_token", c[i].kv_bytes);
        cJSON_AddNumberToObject(row, "bytes_per_token", all_bytes(&c[i], s->n_gen));
        cJSON_AddNumberToObject(row, "floor_bytes_per_token", floor_bytes(&c[i]));
        cJSON_AddNumberToObject(row, "bytes_to_floor", ratio(all_bytes(&c[i], s->n_gen), floor_bytes(&c[i])));
        cJSON_AddNumberToObject(row, "decode_tok_s", c[i].decode_median);
        json_pairs(a, row, "decode", &c[i].decode_pairs);
        cJSON_AddNumberToObject(row, "bandwidth_gb_s", c[i].bandwidth_median);
        cJSON_AddNumberToObject(row, "bandwidth_percent", c[i].share_median);
        cJSON_AddNumberToObject(row, "prefill_tok_s", c[i].prefill_median);
        json_pairs(a, row, "prefill", &c[i].prefill_pairs);
        cJSON_AddNumberToObject(row, "logits_max_abs", c[i].max_abs);
        cJSON_AddNumberToObject(row, "logits_max_abs_relative", c[i].max_abs_relative);
        cJSON_AddItemToArray(list, row);
    }
    print_tree(root);
}

/* ---- the report of the simulator's counters, per decoded token ---- */

/* What kernels read by the plan: weights as packed, the KV cache of the tokens before,
 * values of other kernels (half of those bytes are written). */
static double planned_reads(const struct setup *s, const struct candidate *c)
{
    const double past = (s->n_tokens[1] - 1) / 2.0, kv = (double)c->kv_per_token * past;
    return (double)c->weight_bytes + kv + ((double)c->value_bytes + (double)c->score_bytes * (past + 1)) / 2;
}

/* run: 0 the prompt, 1 a decoded token. */
static struct step_times times_of(struct arena *a, const struct setup *s, const struct candidate *c, uint32_t run)
{
    return least_times(a, s->profile, &c->counters[run], run == 0 ? 1 : s->n_tokens[1]);
}

static void print_sums(const struct setup *s, const struct candidate *c, uint32_t n)
{
    printf("%-6s %9s %13s %7s %8s %8s %10s %10s %10s %9s %10s %10s %20s\n", "fuse", "launches", "instructions", "VALU", "matrix", "idle",
           "loads, MB", "unique, MB", "plan, MB", "lines", "conflicts", "in flight", "largest logit diff.");
    for (uint32_t i = 0; i < n; i++) {
        const struct counters *k = &c[i].counters[1];
        const double tokens = s->n_tokens[1];
        printf("%-6s %9.1f %13.0f %5.1f %% %6.1f %% %6.1f %% %10.3f %10.3f %10.3f %8.2fx %10.2f %10.0f ", c[i].name, k->launches / tokens,
               k->instructions / tokens, 100 * ratio(k->valu, k->instructions), 100 * ratio(k->matrix, k->instructions),
               100 * k->idle_lanes, k->loaded_bytes / tokens * 1e-6, k->unique_bytes / tokens * 1e-6, planned_reads(s, &c[i]) * 1e-6,
               ratio(k->line_bytes, k->loaded_bytes), ratio(k->lds_conflicts, k->lds_accesses), k->loads_in_flight);
        if (i) printf("%20.2e\n", c[i].max_abs);
        else printf("%20s\n", "-");
    }
    printf("instructions: of waves.  idle: lanes switched off in vector instructions.  "
           "loads: by lanes; unique: lines of 64 bytes that a launch reads at least once;\n"
           "plan: weights, KV cache and values of other kernels.  lines: bytes of the 128-byte lines that loads touch, to bytes loaded.  "
           "conflicts: LDS cycles that\nbank conflicts add to an access.  "
           "in flight: most loads of a wave before a wait.  Nothing here is a time.\n");
}

static void print_least_times(struct arena *a, const struct setup *s, const struct candidate *c)
{
    const struct step_times prompt = times_of(a, s, c, 0), token = times_of(a, s, c, 1);
    const char *sample = s->sample ? arena_printf(a, ", of a sample of %u group%s", s->sample, s->sample > 1 ? "s" : "") : "";
    least_times_print(arena_printf(a, "fuse %s, a prompt of %u tokens%s", c->name, s->n_tokens[0], sample), &prompt);
    least_times_print(arena_printf(a, "fuse %s, a decoded token, the mean of %u", c->name, s->n_tokens[1]), &token);
}

/* A rate that the target lacks for some kernel, or NULL. */
static const char *missing_rate(struct arena *a, const struct setup *s, const struct candidate *c, uint32_t n)
{
    for (uint32_t i = 0; i < 2 * n; i++) {
        const char *missing = times_of(a, s, &c[i / 2], i % 2).missing;
        if (missing) return missing;
    }
    return NULL;
}

static void print_simulated(struct arena *a, const struct compare_options *o, const struct setup *s, const struct candidate *c, uint32_t n,
                            bool times)
{
    printf("%s on %s, in the simulator: %u tokens decoded, numbers of one token%s\n", o->build.model_path, s->runner.target, s->n_tokens[1],
           s->sample ? "; of the prompt a sample, its logits not compared" : "");
    print_sums(s, c, n);
    for (uint32_t i = 0; times && i < n; i++) print_least_times(a, s, &c[i]);
    if (times) least_times_explain(s->profile);
}

static void print_simulated_json(struct arena *a, const struct compare_options *o, const struct setup *s, const struct candidate *c,
                                 uint32_t n, bool times)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", o->build.model_path);
    cJSON_AddStringToObject(root, "target", s->runner.target);
    cJSON_AddBoolToObject(root, "simulated", true);
    cJSON_AddNumberToObject(root, "n_tokens", s->n_tokens[1]);
    cJSON_AddNumberToObject(root, "n_prompt", s->n_tokens[0]);
    cJSON_AddNumberToObject(root, "sample", s->sample);
    cJSON *list = cJSON_AddArrayToObject(root, "levels");
    for (uint32_t i = 0; i < n; i++) {
        const struct counters *k = &c[i].counters[1];
        const struct { const char *key; double value; } rows[] = {
            { "launches", k->launches }, { "instructions", k->instructions }, { "instructions_valu", k->valu },
            { "instructions_matrix", k->matrix }, { "loaded_bytes", k->loaded_bytes },
            { "stored_bytes", k->stored_bytes }, { "unique_bytes", k->unique_bytes }, { "line_bytes", k->line_bytes },
            { "lds_accesses", k->lds_accesses }, { "lds_conflicts", k->lds_conflicts },
        };
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "fuse", c[i].name);
        for (size_t j = 0; j < COUNT_OF(rows); j++) cJSON_AddNumberToObject(row, rows[j].key, rows[j].value / s->n_tokens[1]);
        cJSON_AddNumberToObject(row, "planned_bytes", planned_reads(s, &c[i]));
        cJSON_AddNumberToObject(row, "idle_lanes", k->idle_lanes);
        cJSON_AddNumberToObject(row, "loads_in_flight_most", k->loads_in_flight);
        cJSON_AddNumberToObject(row, "channel_imbalance", channel_imbalance(k->channel_bytes, k->channel_busiest));
        cJSON_AddNumberToObject(row, "logits_max_abs", c[i].max_abs);
        const struct step_times prompt = times_of(a, s, &c[i], 0), token = times_of(a, s, &c[i], 1);
        if (times) {
            least_times_json(row, "prompt", &prompt);
            least_times_json(row, "decode", &token);
        }
        cJSON_AddItemToArray(list, row);
    }
    print_tree(root);
}

/* ---- all of it ---- */

/* Of kernels that only a sample of the groups ran of: a launch reads all of its weights. */
static void complete_sample(const struct candidate *c, struct counters *counted)
{
    const struct kernel_list *list = c->kernels;
    for (uint32_t i = 0; i < counted->n_kernels; i++) {
        struct kernel_counters *k = &counted->kernels[i];
        double weights = 0, launches = 0;
        for (uint32_t j = 0; k->sampled && j < list->n_prefill; j++) {
            const struct kernel *launched = &list->kernels[list->prefill[j].kernel];
            if (strcmp(launched->name, k->name)) continue;
            weights += (double)launched->weight_bytes;
            launches++;
        }
        if (launches > 0 && weights / launches * k->launches > k->unique_bytes) k->unique_bytes = weights / launches * k->launches;
    }
}

/* Prompt kernels, or one-token kernels.  counters_path: where the simulator counts; or NULL. */
static const float *logits_of(struct arena *a, const struct setup *s, struct candidate *c, const int32_t *tokens, uint32_t run,
                              const char *counters_path)
{
    static const char *const through_decode[] = { "-ub", "0", NULL };
    struct runner runner = s->runner;
    runner.counters = counters_path;
    runner.sample = run == 0 ? s->sample : 0;
    const float *logits = program_logits(a, &runner, c->path, tokens, s->n_tokens[run], s->model->n_vocab,
                                         run == 1 ? through_decode : NULL);
    if (!counters_path) return logits;
    c->counters[run] = counters_read(a, counters_path);
    complete_sample(c, &c->counters[run]);
    return logits;
}

static void compare_logits(struct arena *a, const struct setup *s, struct candidate *c, const int32_t *tokens, const float *first[2],
                           const char *counters_path)
{
    for (uint32_t i = 0; i < 2; i++) {
        const float *logits = logits_of(a, s, c, tokens, i, counters_path);
        if (i == 0 && s->sample) continue;
        if (!first[i]) first[i] = logits;
        const struct logits_difference d = logits_compare(a, first[i], logits, s->n_tokens[i], s->model->n_vocab);
        if (d.max_abs >= c->max_abs) {
            c->max_abs = d.max_abs;
            c->max_abs_relative = d.largest > 0 ? d.max_abs / d.largest : 0;
        }
        if (d.n_not_finite) warn("--fuse %s: %llu logits are not finite", c->name, (unsigned long long)d.n_not_finite);
    }
}

static struct setup prepare(struct arena *a, const struct compare_options *o)
{
    const struct build_options *b = &o->build;
    struct setup s = { .model = build_model(a, b, gguf_open(a, b->model_path, false)), .n_threads = o->n_threads, .sample = o->sample,
                       .rounds = o->rounds ? o->rounds : ROUNDS, .min_time = o->min_time > 0 ? o->min_time : MIN_TIME };
    if (s.model->pooling)
        die("%s: a model of embeddings decodes nothing, which is what compare measures; a program's --bench tells how fast it reads",
            b->model_path);
    const uint32_t n_ctx = plan_context(s.model, &b->plan);
    const uint32_t usual[2] = { o->simulate ? SIMULATED_TOKENS : 128, o->sample ? 1 : o->simulate ? SIMULATED_TOKENS : 64 };
    s.n_prompt = o->n_prompt ? o->n_prompt : n_ctx < usual[0] ? n_ctx : usual[0];
    s.n_gen = o->n_gen ? o->n_gen : n_ctx < usual[1] ? n_ctx : usual[1];
    s.n_tokens[0] = o->simulate ? s.n_prompt : n_ctx < LOGIT_TOKENS ? n_ctx : LOGIT_TOKENS;
    s.n_tokens[1] = o->simulate ? s.n_gen : s.n_tokens[0];
    if (s.n_prompt > n_ctx || s.n_gen > n_ctx)
        die("-p %u and -n %u: the context holds %u; give fewer, or a larger --ctx", s.n_prompt, s.n_gen, n_ctx);
    if (s.rounds > MAX_ROUNDS) die("-r %u: at most %d rounds", s.rounds, MAX_ROUNDS);
    if (b->n_targets > 1) die("compare takes one target; a program of several runs only the best of them");
    s.profile = profile_load(a, b->n_targets ? b->targets[0] : "native", b->targets_dir);
    s.runner = o->simulate ? runner_simulate(a, s.profile) : runner_find(a, s.profile, false);
    return s;
}

/* Pairs first: medians sort. */
static void summarise(struct candidate *candidates, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];
        c->decode_pairs = pairs_of(c->decode, candidates[0].decode, c->n_decode);
        c->prefill_pairs = pairs_of(c->prefill, candidates[0].prefill, c->n_prefill);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];
        c->decode_median = median_of(c->decode, c->n_decode);
        c->prefill_median = median_of(c->prefill, c->n_prefill);
        c->share_median = median_of(c->share, c->n_decode);
        c->bandwidth_median = median_of(c->bandwidth, c->n_decode);
    }
}

int compare(struct arena *a, const struct compare_options *o)
{
    const struct setup s = prepare(a, o);
    static struct candidate candidates[COUNT_OF(o->levels)];
    const uint32_t n = o->n_levels ? o->n_levels : (uint32_t)COUNT_OF(o->levels);
    struct workplace *w = workplace_open(a);
    const int32_t *tokens = tokens_random(a, s.n_tokens[0] > s.n_tokens[1] ? s.n_tokens[0] : s.n_tokens[1], s.model->n_vocab, 1);
    const float *first[2] = { NULL };
    for (uint32_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];
        struct build_options options = o->build;
        options.fuse = o->n_levels ? o->levels[i] : (enum fuse_level)i;
        *c = (struct candidate){ .name = level_name[options.fuse] };
        read_plan(c, plan_make(a, graph_build(a, s.model), options.fuse, s.profile, &options.plan));
        c->path = program_build(a, w, &options, arena_printf(a, "%u-%s", i, c->name));
        compare_logits(a, &s, c, tokens, first, o->simulate ? workplace_path(a, w, arena_printf(a, "%u-counters", i)) : NULL);
    }
    if (o->simulate) {
        workplace_close(w);
        const char *missing = missing_rate(a, &s, candidates, n);
        if (missing) warn("%s: no %s, so there are no least times; see docs/target.md", s.profile->path, missing);
        if (o->json) print_simulated_json(a, o, &s, candidates, n, !missing);
        else print_simulated(a, o, &s, candidates, n, !missing);
        return 0;
    }
    for (uint32_t round = 0; round < s.rounds; round++)          /* there and back: who comes first has no advantage in the sum */
        for (uint32_t i = 0; i < n; i++) measure(a, &s, &candidates[round % 2 ? n - 1 - i : i]);
    workplace_close(w);
    summarise(candidates, n);
    if (o->json) print_json(a, o, &s, candidates, n);
    else print_table(o, &s, candidates, n);
    return 0;
}
