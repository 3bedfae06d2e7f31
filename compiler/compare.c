/* compare.c -- rounds alternate between the builds, so that what else the machine does meets all of them alike. */
#include "compare.h"
#include "program.h"
#include "reference.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 100, LOGIT_TOKENS = 32 };
static const char *const level_name[] = { [FUSE_NONE] = "none", [FUSE_LAYER] = "layer" };

struct candidate {
    const char *name, *path;
    uint32_t    launches, launches_prefill;
    uint64_t    read_bytes;               /* of weights, per decoded token */
    double      decode[MAX_ROUNDS], prefill[MAX_ROUNDS], share[MAX_ROUNDS];
    uint32_t    n_decode, n_prefill;
    double      decode_median, prefill_median, share_median;
    double      max_abs, max_abs_relative;        /* logits against the first candidate's */
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n)
{
    if (!n) return 0;
    qsort(x, n, sizeof *x, by_value);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* ---- what the program tells about itself ---- */

static const char *line_of(struct bytes text, const char *start)
{
    const char *at = strstr((const char *)text.data, start);
    if (!at) die("the program's --info has no line \"%s\"; this is a mistake in forgec, please report it", start);
    return at;
}

static void read_info(struct arena *a, const struct runner *r, struct candidate *c)
{
    static const char *const arguments[] = { "--info", NULL };
    const struct bytes info = program_run(a, r, c->path, arguments);
    unsigned long long bytes = 0;
    if (sscanf(line_of(info, "launches "), "launches %u per token, %u", &c->launches, &c->launches_prefill) != 2 ||
        sscanf(line_of(info, "read per token "), "read per token %llu", &bytes) != 1)
        die("the program's --info is not as expected; this is a mistake in forgec, please report it");
    c->read_bytes = bytes;
}

static double number(const cJSON *row, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, key);
    if (!cJSON_IsNumber(item)) die("the program's --bench has no %s; this is a mistake in forgec, please report it", key);
    return item->valuedouble;
}

static void measure(struct arena *a, const struct runner *r, struct candidate *c, uint32_t n_prompt, uint32_t n_gen, uint32_t n_threads)
{
    const char *arguments[16] = { "--bench", "-o", "json", "-r", "1", "-p", arena_printf(a, "%u", n_prompt), "-n", arena_printf(a, "%u", n_gen) };
    if (n_threads) { arguments[9] = "-t"; arguments[10] = arena_printf(a, "%u", n_threads); }
    const struct bytes out = program_run(a, r, c->path, arguments);
    cJSON *rows = cJSON_ParseWithLength((const char *)out.data, out.size);
    if (!cJSON_IsArray(rows)) die("the program's --bench wrote no JSON list; this is a mistake in forgec, please report it");
    const cJSON *row;
    cJSON_ArrayForEach(row, rows) {
        if (number(row, "n_prompt") > 0) c->prefill[c->n_prefill++] = number(row, "median_ts");
        else {
            c->share[c->n_decode] = number(row, "share_percent");
            c->decode[c->n_decode++] = number(row, "median_ts");
        }
    }
    cJSON_Delete(rows);
}

/* ---- the report ---- */

static double ratio(double x, double first) { return first > 0 ? x / first : 0; }

static void print_table(const struct candidate *c, uint32_t n, uint32_t n_prompt)
{
    char prefill[32];
    snprintf(prefill, sizeof prefill, "prefill-%u tok/s", n_prompt);
    printf("%-6s %9s %14s %13s %6s %10s %21s %6s %20s\n", "fuse", "launches", "weights/token", "decode tok/s", "ratio", "bandwidth", prefill, "ratio", "largest logit diff.");
    for (uint32_t i = 0; i < n; i++) {
        printf("%-6s %9u %11.2f MB %13.1f %6.2f %8.1f %% %21.1f %6.2f ", c[i].name, c[i].launches, (double)c[i].read_bytes * 1e-6, c[i].decode_median,
               ratio(c[i].decode_median, c[0].decode_median), c[i].share_median, c[i].prefill_median, ratio(c[i].prefill_median, c[0].prefill_median));
        if (i) printf("%20.2e\n", c[i].max_abs);
        else printf("%20s\n", "-");
    }
    puts("Medians; bandwidth: share of what the same run measured the memory or cache to give.");
}

static void print_json(const struct compare_options *o, const struct runner *r, const struct candidate *c, uint32_t n, uint32_t n_prompt, uint32_t n_gen, uint32_t rounds)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", o->build.model_path);
    cJSON_AddStringToObject(root, "target", r->target);
    cJSON_AddNumberToObject(root, "n_prompt", n_prompt);
    cJSON_AddNumberToObject(root, "n_gen", n_gen);
    cJSON_AddNumberToObject(root, "rounds", rounds);
    cJSON *list = cJSON_AddArrayToObject(root, "levels");
    for (uint32_t i = 0; i < n; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "fuse", c[i].name);
        cJSON_AddNumberToObject(row, "launches_per_token", c[i].launches);
        cJSON_AddNumberToObject(row, "launches_per_prompt_step", c[i].launches_prefill);
        cJSON_AddNumberToObject(row, "weight_bytes_per_token", (double)c[i].read_bytes);
        cJSON_AddNumberToObject(row, "decode_tok_s", c[i].decode_median);
        cJSON_AddNumberToObject(row, "decode_ratio", ratio(c[i].decode_median, c[0].decode_median));
        cJSON_AddNumberToObject(row, "bandwidth_percent", c[i].share_median);
        cJSON_AddNumberToObject(row, "prefill_tok_s", c[i].prefill_median);
        cJSON_AddNumberToObject(row, "prefill_ratio", ratio(c[i].prefill_median, c[0].prefill_median));
        cJSON_AddNumberToObject(row, "logits_max_abs", c[i].max_abs);
        cJSON_AddNumberToObject(row, "logits_max_abs_relative", c[i].max_abs_relative);
        cJSON_AddItemToArray(list, row);
    }
    char *text = cJSON_Print(root);
    if (!text) die("out of memory for the report");
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

int compare(struct arena *a, const struct compare_options *o)
{
    const struct build_options *b = &o->build;
    const struct model *m = model_describe(a, gguf_open(a, b->model_path, false), b->models_dir);
    const uint32_t n_ctx = plan_context(m, &b->plan);
    const uint32_t n_prompt = o->n_prompt ? o->n_prompt : n_ctx < 128 ? n_ctx : 128, n_gen = o->n_gen ? o->n_gen : n_ctx < 64 ? n_ctx : 64;
    const uint32_t rounds = o->rounds ? o->rounds : 5, n_tokens = n_ctx < LOGIT_TOKENS ? n_ctx : LOGIT_TOKENS;
    if (n_prompt > n_ctx || n_gen > n_ctx) die("-p %u and -n %u: the context holds %u; give fewer, or a larger --ctx", n_prompt, n_gen, n_ctx);
    if (rounds > MAX_ROUNDS) die("-r %u: at most %d rounds", rounds, MAX_ROUNDS);
    if (b->n_targets > 1) die("compare takes one target; a program of several runs only the best of them");
    const struct runner r = runner_find(a, profile_load(a, b->n_targets ? b->targets[0] : "native", b->targets_dir), false);

    static struct candidate candidates[COUNT_OF(o->levels)];
    const uint32_t n = o->n_levels ? o->n_levels : (uint32_t)COUNT_OF(o->levels);
    struct workplace *w = workplace_open(a);
    const int32_t *tokens = tokens_random(a, n_tokens, m->n_vocab, 1);
    const float *first = NULL;
    for (uint32_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];
        struct build_options options = *b;
        options.fuse = o->n_levels ? o->levels[i] : (enum fuse_level)i;
        *c = (struct candidate){ .name = level_name[options.fuse] };
        c->path = program_build(a, w, &options, arena_printf(a, "%u-%s", i, c->name));
        read_info(a, &r, c);
        const float *logits = program_logits(a, &r, c->path, tokens, n_tokens, m->n_vocab, NULL);
        if (!first) first = logits;
        const struct logits_difference d = logits_compare(a, first, logits, n_tokens, m->n_vocab);
        c->max_abs = d.max_abs;
        c->max_abs_relative = d.largest > 0 ? d.max_abs / d.largest : 0;
        if (d.n_not_finite) warn("--fuse %s: %llu logits are not finite", c->name, (unsigned long long)d.n_not_finite);
    }
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < n; i++) measure(a, &r, &candidates[i], n_prompt, n_gen, o->n_threads);
    workplace_close(w);
    for (uint32_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];
        c->decode_median = median(c->decode, c->n_decode);
        c->prefill_median = median(c->prefill, c->n_prefill);
        c->share_median = median(c->share, c->n_decode);
    }
    if (o->json) print_json(o, &r, candidates, n, n_prompt, n_gen, rounds);
    else print_table(candidates, n, n_prompt);
    return 0;
}
