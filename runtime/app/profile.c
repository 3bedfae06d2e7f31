/* profile.c -- --profile: where the time of a decode step and of a prefill step goes.  For each kernel: how often it is launched, its
 * time, the bytes it reads and the operations it computes, and how close it comes to the memory bandwidth.  The times are those of
 * run/timing.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "runtime/model/cost.h"
#include "runtime/run/timing.h"
#include "runtime/run/session.h"

/* The launches with one name. */
struct row {
    const char *name;
    uint32_t n;
    double   work, wait;                         /* seconds in a step, all launches together */
    double   bytes, operations;
};

struct report {
    const struct forge_engine *engine;
    const char *format;
    double      memory_gb_s, cache_gb_s;
    uint32_t    n_steps;                         /* printed so far */
    /* of the current step */
    const struct forge_timings *timings;
    struct row *rows;                            /* [timings->n] */
    uint32_t    n_rows, n_tokens, depth;
    double      sum;
};

/* ---- what the launches of a step must do ---- */

static struct row *row_of(struct report *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_rows; i++) if (strcmp(r->rows[i].name, name) == 0) return &r->rows[i];
    r->rows[r->n_rows] = (struct row){ .name = name };
    return &r->rows[r->n_rows++];
}

static int longest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const double difference = (y->work + y->wait) - (x->work + x->wait);
    return difference > 0 ? 1 : difference < 0 ? -1 : strcmp(x->name, y->name);
}

static void add_up(struct report *r)
{
    const struct forge_program *p = r->engine->program;
    r->n_rows = 0;
    r->sum = 0;
    for (uint32_t i = 0; i < r->timings->n; i++) {
        const struct cost_launch l = cost_launch(p, i, r->n_tokens, r->depth, 1, r->timings->n_threads);
        if (!l.runs) continue;
        struct row *row = row_of(r, l.name);
        row->n++;
        row->work += r->timings->launches[i].work;
        row->wait += r->timings->launches[i].wait;
        const struct cost_tokens t = cost_tokens(r->depth, r->n_tokens, 1, l.tail);
        row->bytes += (double)cost_bytes(p, l.cost, t);
        row->operations += (double)cost_operations(p, l.cost, t);
        r->sum += r->timings->launches[i].work + r->timings->launches[i].wait;
    }
    qsort(r->rows, r->n_rows, sizeof *r->rows, longest_first);
}

/* ---- the report ---- */

static double roof_of(const struct report *r) { return r->cache_gb_s > 0 ? r->cache_gb_s : r->memory_gb_s; }
static double time_of(const struct row *row) { return row->work + row->wait; }
static double gb_s_of(const struct row *row) { return time_of(row) > 0 ? row->bytes / time_of(row) * 1e-9 : 0; }
static double gop_s_of(const struct row *row) { return time_of(row) > 0 ? row->operations / time_of(row) * 1e-9 : 0; }
static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

/* What the time not included in the sum is. */
static const char *gap_text(const struct report *r)
{
    const bool more = r->timings->step >= r->sum;
    if (!r->engine->program->gpu)
        return more ? "starting the step and looking at its logits" : "the clocks themselves";
    if (r->n_tokens > 1) return more ? "starting the step" : "the events between kernels";
    return more ? "between two tokens" : "less than the sum: steps follow each other closer than their parts";
}

static void title(const struct report *r, char *out, size_t bytes)
{
    if (r->n_tokens == 1) snprintf(out, bytes, "decode, a token after %u", r->depth);
    else snprintf(out, bytes, "prefill, a step of %u tokens after %u", r->n_tokens, r->depth);
}

static void print_md(const struct report *r)
{
    const bool cpu = r->timings->n_threads > 0;
    char text[96];
    title(r, text, sizeof text);
    printf("%s### %s\n\n| kernel | launches | us | all, us | share |%s MB | GB/s | of %.0f GB/s | Gop/s |\n"
           "| --- | ---: | ---: | ---: | ---: |%s ---: | ---: | ---: | ---: |\n", r->n_steps > 0 ? "\n" : "", text,
           cpu ? " at barriers |" : "", roof_of(r), cpu ? " ---: |" : "");
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        printf("| %s | %u | %.2f | %.1f | %.1f %% |", row->name, row->n, 1e6 * time_of(row) / row->n, 1e6 * time_of(row),
               percent(time_of(row), r->sum));
        if (cpu) printf(" %.1f %% |", percent(row->wait, time_of(row)));
        printf(" %.3f | %.1f | %.0f %% | %.1f |\n", 1e-6 * row->bytes, gb_s_of(row), percent(gb_s_of(row), roof_of(r)), gop_s_of(row));
    }
    printf("\nSum %.1f us, the step as in use %.1f us: %.1f us (%.1f %%) %s.\n", 1e6 * r->sum, 1e6 * r->timings->step,
           1e6 * (r->timings->step - r->sum), percent(r->timings->step - r->sum, r->timings->step), gap_text(r));
    for (uint32_t i = 0; i < r->timings->n_threads; i++)
        printf("%s %u: %.1f us at work, %.1f at barriers%s", i > 0 ? "" : "Thread", i, 1e6 * r->timings->threads[i].work,
               1e6 * r->timings->threads[i].wait, i + 1 < r->timings->n_threads ? ";" : ".\n");
}

static void print_csv(const struct report *r)
{
    if (r->n_steps == 0)
        printf("step,n_tokens,n_depth,kernel,launches,us,wait_us,bytes,gb_s,share_of_limit_percent,operations,gop_s\n");
    const char *kind = r->n_tokens == 1 ? "decode" : "prefill";
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        printf("%s,%u,%u,%s,%u,%.6g,%.6g,%.0f,%.4g,%.4g,%.0f,%.4g\n", kind, r->n_tokens, r->depth, row->name, row->n, 1e6 * time_of(row),
               1e6 * row->wait, row->bytes, gb_s_of(row), percent(gb_s_of(row), roof_of(r)), row->operations, gop_s_of(row));
    }
    printf("%s,%u,%u,(sum),,%.6g,,,,,,\n%s,%u,%u,(step),,%.6g,,,,,,\n", kind, r->n_tokens, r->depth, 1e6 * r->sum, kind, r->n_tokens,
           r->depth, 1e6 * r->timings->step);
}

static void print_json(const struct report *r)
{
    printf("%s\n    {\"kind\": \"%s\", \"n_tokens\": %u, \"n_depth\": %u, \"n_measured\": %u, \"step_us\": %.6g, \"sum_us\": %.6g,"
           " \"gap_us\": %.6g, \"gap\": \"%s\",\n     \"kernels\": [", r->n_steps > 0 ? "," : "", r->n_tokens == 1 ? "decode" : "prefill",
           r->n_tokens, r->depth, r->timings->n_steps, 1e6 * r->timings->step, 1e6 * r->sum, 1e6 * (r->timings->step - r->sum),
           gap_text(r));
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        printf("%s\n      {\"name\": \"%s\", \"launches\": %u, \"us\": %.6g, \"wait_us\": %.6g, \"bytes\": %.0f, \"gb_s\": %.4g,"
               " \"share_of_limit_percent\": %.4g, \"operations\": %.0f, \"gop_s\": %.4g}", i > 0 ? "," : "", row->name, row->n,
               1e6 * time_of(row), 1e6 * row->wait, row->bytes, gb_s_of(row), percent(gb_s_of(row), roof_of(r)), row->operations,
               gop_s_of(row));
    }
    printf("],\n     \"launches\": [");
    for (uint32_t i = 0, n = 0; i < r->timings->n; i++) {
        const struct cost_launch l = cost_launch(r->engine->program, i, r->n_tokens, r->depth, 1, r->timings->n_threads);
        const struct forge_timing *timing = &r->timings->launches[i];
        if (!l.runs) continue;
        printf("%s%s{\"name\": \"%s\", \"us\": %.6g, \"wait_us\": %.6g, \"spill_bytes\": %u}", n > 0 ? "," : "", n % 4 ? " " : "\n      ",
               l.name, 1e6 * (timing->work + timing->wait), 1e6 * timing->wait, timing->spills);
        n++;
    }
    printf("],\n     \"threads\": [");
    for (uint32_t i = 0; i < r->timings->n_threads; i++)
        printf("%s{\"work_us\": %.6g, \"wait_us\": %.6g}", i > 0 ? ", " : "", 1e6 * r->timings->threads[i].work,
               1e6 * r->timings->threads[i].wait);
    printf("]}");
}

static void print_html(const struct report *r)
{
    const bool cpu = r->timings->n_threads > 0;
    char text[96];
    double most = 0;
    title(r, text, sizeof text);
    for (uint32_t i = 0; i < r->n_rows; i++) most = time_of(&r->rows[i]) > most ? time_of(&r->rows[i]) : most;
    printf("<h2>%s</h2>\n<table><thead><tr><th>kernel<th>launches<th>&micro;s<th>all, &micro;s<th>share<th class=\"bar\">%s%s<th>MB"
           "<th>GB/s<th>of %.0f GB/s<th>Gop/s</tr></thead>\n", text, cpu ? "at work, <i>at barriers</i>" : "time",
           cpu ? "<th>at barriers" : "", roof_of(r));
    for (uint32_t i = 0; i < r->n_rows; i++) {
        const struct row *row = &r->rows[i];
        printf("<tr><td>%s<td>%u<td>%.2f<td>%.1f<td>%.1f %%<td class=\"bar\"><b style=\"width:%.2f%%\"></b><i style=\"width:%.2f%%\"></i>",
               row->name, row->n, 1e6 * time_of(row) / row->n, 1e6 * time_of(row), percent(time_of(row), r->sum),
               percent(row->work > 0 ? row->work : 0, most), percent(row->wait, most));
        if (cpu) printf("<td>%.1f %%", percent(row->wait, time_of(row)));
        printf("<td>%.3f<td>%.1f<td>%.0f %%<td>%.1f</tr>\n", 1e-6 * row->bytes, gb_s_of(row), percent(gb_s_of(row), roof_of(r)),
               gop_s_of(row));
    }
    printf("</table>\n<p>Sum %.1f &micro;s, the step as in use %.1f &micro;s: %.1f &micro;s (%.1f %%) %s.</p>\n", 1e6 * r->sum,
           1e6 * r->timings->step, 1e6 * (r->timings->step - r->sum), percent(r->timings->step - r->sum, r->timings->step), gap_text(r));
    for (uint32_t i = 0; i < r->timings->n_threads; i++)
        printf("%sthread %u: %.1f &micro;s at work, %.1f at barriers%s", i > 0 ? "; " : "<p>", i, 1e6 * r->timings->threads[i].work,
               1e6 * r->timings->threads[i].wait, i + 1 < r->timings->n_threads ? "" : "</p>\n");
}

static void print_step(struct report *r)
{
    if (strcmp(r->format, "csv") == 0) print_csv(r);
    else if (strcmp(r->format, "json") == 0) print_json(r);
    else if (strcmp(r->format, "html") == 0) print_html(r);
    else print_md(r);
    r->n_steps++;
}

/* Where the program runs: "2 threads", or the GPU's name. */
static void print_where(const struct report *r, enum escape form)
{
    if (r->engine->device_name) print_escaped(r->engine->device_name, form);
    else printf("%u thread%s", pool_threads(r->engine->pool), pool_threads(r->engine->pool) == 1 ? "" : "s");
}

static void print_head(const struct report *r)
{
    const struct forge_program *p = r->engine->program;
    if (strcmp(r->format, "json") == 0) {
        printf("{\"model\": \"");
        print_escaped(p->model_name, ESCAPE_JSON);
        printf("\", \"formats\": \"%s\", \"target\": \"%s\", \"options\": \"%s\", \"compiler\": \"%s\", \"where\": \"", p->formats,
               p->target, p->options, p->compiler);
        print_where(r, ESCAPE_JSON);
        printf("\", \"graph\": %s, \"memory_gb_s\": %.4g, \"cache_gb_s\": %.4g,\n  \"steps\": [",
               p->gpu && p->gpu->graph && !r->engine->plain_launches ? "true" : "false", r->memory_gb_s, r->cache_gb_s);
    }
    if (strcmp(r->format, "html") != 0) return;
    printf("<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Profile of ");
    print_escaped(p->model_name, ESCAPE_HTML);
    printf("</title>\n<style>\n:root{color-scheme:light dark}\nbody{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;"
           "padding:0 1rem}\ntable{border-collapse:collapse;width:100%%}\nth,td{text-align:right;padding:.2rem .5rem;white-space:nowrap;"
           "border-bottom:1px solid #8884}\nth:first-child,td:first-child,.bar{text-align:left}\n.bar{width:30%%;font-size:0}\n"
           "th.bar{font-size:inherit}\n.bar b,.bar i{display:inline-block;height:.9rem;background:#2a6fb0;print-color-adjust:exact;"
           "-webkit-print-color-adjust:exact}\n.bar i{background:#e0a030}\nth.bar i{background:none;color:#b07810;height:auto}\n</style>\n"
           "<h1>");
    print_escaped(p->model_name, ESCAPE_HTML);
    printf("</h1>\n<p>%s, %s, %s, %s<br>", p->formats, p->target, p->options, p->compiler);
    print_where(r, ESCAPE_HTML);
    printf("%s</p>\n", r->engine->plain_launches ? ", kernels launched one by one" : "");
}

static void print_tail(const struct report *r)
{
    if (strcmp(r->format, "json") == 0) {
        printf("]}\n");
        return;
    }
    if (strcmp(r->format, "csv") == 0) return;
    const bool html = strcmp(r->format, "html") == 0, gpu = r->engine->program->gpu != NULL;
    printf(html ? "<p>" : "\n");
    printf("Limit: %.1f GB/s, %s", roof_of(r), gpu ? "a large copy on the GPU, read and written" : r->cache_gb_s > 0
           ? "reading a buffer of the weights' size, which the cache holds" : "reading memory with all threads");
    printf(". MB: what a kernel has to read of weights and state; %s.%s\n", r->n_steps > 0
           ? "operations: of products, attention, convolutions and recurrences" : "nothing was measured", html ? "</p></html>" : "");
}

/* ---- measuring ---- */

static enum forge_status measure(struct report *r, struct forge_sequence *q, const int32_t *tokens, float *logits, uint32_t n,
                                 uint32_t depth, uint32_t steps, uint32_t each, double least_seconds, struct forge_error *error)
{
    struct forge_timings timings = { .each = each, .least_seconds = least_seconds };
    TRY(sequence_reset(q, error));
    if (depth > 0) TRY(forge_step(q, tokens, depth, 0, logits, error));
    enum forge_status status = timings_take(&timings, q, tokens, n, steps, logits, error);
    r->rows = calloc(timings.n + 1, sizeof *r->rows);
    if (status == FORGE_OK && !r->rows) status = error_set(error, FORGE_NO_MEMORY, "out of memory for the report");
    if (status == FORGE_OK) {
        r->timings = &timings;
        r->n_tokens = n;
        r->depth = depth;
        add_up(r);
        print_step(r);
        status = flush_stdout(error);
    }
    free(r->rows);
    timings_free(&timings);
    return status;
}

static enum forge_status measure_both(struct report *r, const struct forge_options *o, struct forge_sequence *q, const int32_t *tokens,
                                      float *logits, struct forge_error *error)
{
    const struct forge_engine *e = r->engine;
    const uint32_t depth = o->profile_depth > 0 ? (uint32_t)o->profile_depth : 0;
    if (depth >= e->n_ctx) return error_set(error, FORGE_TOO_LONG, "--n-depth is %u; the context holds %u tokens", depth, e->n_ctx);
    const uint32_t room = e->n_ctx - depth, step = e->chunk < room ? e->chunk : room;
    const uint32_t most = step < 2 ? 0 : step < 512 ? step : 512, asked = o->profile_prompt < 0 ? most : (uint32_t)o->profile_prompt;
    if (asked > step)
        return error_set(error, FORGE_TOO_LONG, "--n-prompt is %u; a step after %u tokens can have up to %u", asked, depth, step);
    if (asked == 1) return error_set(error, FORGE_USAGE, "--n-prompt must be at least 2: one token is a decode step");
    if (o->profile_steps != 0)
        TRY(measure(r, q, tokens, logits, 1, depth, o->profile_steps > 0 ? (uint32_t)o->profile_steps : 0,
                    (uint32_t)o->profile_each, o->profile_seconds, error));
    return asked > 1 ? measure(r, q, tokens, logits, asked, depth, 0, 0, o->profile_seconds, error) : FORGE_OK;
}

enum forge_status profile_run(struct forge_engine *e, const struct forge_options *o, struct forge_error *error)
{
    const struct forge_program *p = e->program;
    struct report r = { .engine = e, .format = o->output_format };
    struct forge_sequence *q = NULL;
    struct forge_random random;
    int32_t *tokens = malloc((size_t)e->n_ctx * sizeof *tokens);
    float *logits = malloc((p->n_vocab + 16u) * sizeof *logits);
    enum forge_status status = tokens && logits ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory for the measurement");
    random_seed(&random, 1);
    for (uint32_t i = 0; i < e->n_ctx && status == FORGE_OK; i++) tokens[i] = (int32_t)(random_next(&random) % p->n_vocab);
    if (status == FORGE_OK) status = sequence_open(&q, e, error);
    if (status == FORGE_OK) status = bench_bandwidth(e, &r.memory_gb_s, &r.cache_gb_s, error);
    if (status == FORGE_OK) {
        print_head(&r);
        status = measure_both(&r, o, q, tokens, logits, error);
    }
    if (status == FORGE_OK) {
        print_tail(&r);
        status = flush_stdout(error);
    }
    sequence_close(q);
    free(logits);
    free(tokens);
    return status;
}
