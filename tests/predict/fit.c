/* fit.c -- compares compiler/plan/cost.h with measured kernels.
 *
 *   predict_fit FOLDER-OF-CSV FOLDER-OF-GGUF PAGE
 *
 * Constants are fitted to half of the points of a target and kind of kernel: for forgec's own kernels to every second model in the file's
 * order, for kernels of others to every second point in the order of stride and bytes.  The fit is least squares of
 * log(predicted / measured), by a search in fixed steps; the other half of the points gives the error.  All are printed.  Fails if
 * constants or errors in targets/NAME.yaml differ, or if a row of the table or the errors of whole steps are missing in PAGE,
 * docs/performance.md. */
#include "points.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILIES = 4, FREE = 8 };

struct point {
    const char      *target, *model, *label, *left_out;       /* model: or the origin of others' kernels; left_out: why, or "" */
    struct cost_work work;
    uint32_t         n_past, tokens;
    double           us;
    bool             held;                                    /* held out of the fit */
};
struct points { struct arena *arena; struct point *list; uint32_t n, capacity; };

static uint32_t failures;

static void fail(const char *fmt, ...) PRINTF_LIKE(1, 2);
static void fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("FAILED ", stdout);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
    failures++;
}

/* ---- reading ---- */

enum { FIELDS = 16 };

/* Splits a line into fields; dies unless there are n. */
static void split(struct arena *a, const char *file, uint32_t line, const char *text, size_t length, char *fields[FIELDS], uint32_t n)
{
    uint32_t count = 0;
    for (char *s = arena_strndup(a, text, length); s && count < FIELDS; count++) {
        fields[count] = s;
        s = strchr(s, ',');
        if (s) *s++ = 0;
    }
    if (count != n) die("%s:%u: %u fields where %u belong", file, line, count, n);
}

static double number(const char *s) { return strtod(s, NULL); }

static enum prediction_kind kind_of(const char *name)
{
    for (uint32_t i = 0; i < N_PREDICTIONS; i++) if (strcmp(prediction_name[i], name) == 0) return (enum prediction_kind)i;
    die("no kind %s", name);
}

/* target,kind,family,rows,cols,bits,stride,us,GiB/s,left out,source */
static struct point published(struct arena *a, char *f[FIELDS])
{
    const double bytes = number(f[3]) * number(f[4]) * number(f[5]) / 8;
    struct point p = { .target = f[0], .model = f[2], .left_out = f[9] };
    p.label = arena_printf(a, "%s %s x %s, %s", f[2], f[3], f[4], f[10]);
    p.work = (struct cost_work){ .kind = kind_of(f[1]), .bytes = bytes, .stride = number(f[6]) };
    p.us = *f[7] ? number(f[7]) : bytes / (number(f[8]) * 1024 * 1024 * 1024) * 1e6;
    if (!*p.left_out && bytes / p.us * 1e-3 > target_load(a, p.target, NULL)->bandwidth_peak_gb_s)
        p.left_out = "faster than the memory: from a cache";
    return p;
}

/* kind,model,kernel,n_past,tokens,launches,bytes,in_flight,uneven,cols,operations,clocks_us,copied,us */
static struct point measured(struct arena *a, const char *target, char *f[FIELDS])
{
    struct point p = { .target = target, .model = f[1], .left_out = "" };
    p.n_past = (uint32_t)number(f[3]);
    p.tokens = (uint32_t)number(f[4]);
    p.work = (struct cost_work){ .kind = kind_of(f[0]), .bytes = number(f[6]), .in_flight = number(f[7]), .uneven = number(f[8]),
                                 .cols = (uint32_t)number(f[9]), .operations = number(f[10]), .clocks_us = number(f[11]),
                                 .copied = number(f[12]) != 0 };
    p.us = number(f[13]);
    p.label = p.work.kind >= PREDICT_TOKEN ? f[1] : arena_printf(a, "%s %s", f[1], f[2]);
    if (p.tokens == 1 && p.work.kind >= PREDICT_PREFILL && p.work.kind < PREDICT_TOKEN) p.left_out = "one token through prefill's kernels";
    return p;
}

static void read_file(struct points *points, const char *folder, const char *name)
{
    struct arena *a = points->arena;
    const char *path = arena_printf(a, "%s/%s.csv", folder, name);
    const struct bytes text = file_read_most(a, path, 1 << 20);
    const char *s = (const char *)text.data, *end = s + text.size;
    const bool amd = strcmp(name, "amd") == 0;
    for (uint32_t line = 1; s < end; line++) {
        const char *next = memchr(s, '\n', (size_t)(end - s));
        char *fields[FIELDS];
        if (!next) next = end;
        if (*s != '#') {
            split(a, path, line, s, (size_t)(next - s), fields, amd ? 11 : 14);
            arena_room(a, points->list, points->n, points->capacity);
            points->list[points->n++] = amd ? published(a, fields) : measured(a, name, fields);
        }
        s = next + 1;
    }
}

/* ---- fitting ---- */

/* The fitted constants of each target and kind: members of struct prediction, and the values where the search begins; latency: the
 * target's. */
enum member { START, CHAIN, ROW, BANDWIDTH, STRIDED, RATE, CLOCKS, COPIED, LATENCY, N_MEMBERS };
static const char *const member_name[N_MEMBERS] = { "start", "chain", "row", "bandwidth", "strided", "rate", "clocks", "copied",
                                                    "latency" };
static const double begin_at[N_MEMBERS] = { 2, 2, 0.1, 0, 0.8, 10, 1, 1, 0.3 };

static const struct fit { const char *target; enum prediction_kind kind; uint32_t free; } fits[] = {
#define M(member) (1u << member)
    { "gfx1100", PREDICT_PRODUCTS,          M(CHAIN) | M(BANDWIDTH) },
    { "gfx1151", PREDICT_PRODUCTS,          M(START) | M(BANDWIDTH) | M(STRIDED) },
    { "gfx1151", PREDICT_ATTENTION,         M(START) | M(BANDWIDTH) },
    { "gfx942",  PREDICT_PRODUCTS,          M(BANDWIDTH) },
    { "sm_90",   PREDICT_PRODUCTS,          M(START) | M(ROW) | M(BANDWIDTH) | M(LATENCY) },
    { "sm_90",   PREDICT_EXPERTS,           0 },                            /* products' constants */
    { "sm_90",   PREDICT_ATTENTION,         M(START) | M(RATE) },
    { "sm_90",   PREDICT_OTHERS,            M(START) },
    { "sm_90",   PREDICT_PREFILL,           M(START) | M(CLOCKS) | M(COPIED) },
    { "sm_90",   PREDICT_PREFILL_ATTENTION, M(START) | M(RATE) },
    { "sm_90",   PREDICT_PREFILL_OTHERS,    M(START) },
#undef M
};

/* The points of a target and kind. */
struct set { struct point **list; uint32_t n; };

static int in_order(const void *a, const void *b)
{
    const struct point *x = *(struct point *const *)a, *y = *(struct point *const *)b;
    const double d = x->work.stride != y->work.stride && (x->work.stride == 0 || y->work.stride == 0) ? x->work.stride - y->work.stride
        : x->work.bytes != y->work.bytes ? x->work.bytes - y->work.bytes : x->us - y->us;
    return d > 0 ? 1 : d < 0 ? -1 : strcmp(x->label, y->label);
}

static bool is_own(const char *target) { return strcmp(target, "sm_90") == 0; }

static struct set set_of(struct points *points, const struct fit *fit)
{
    struct set s = { .list = arena_array(points->arena, struct point *, points->n) };
    const char *model = "";
    bool held = true;
    for (uint32_t i = 0; i < points->n; i++) {
        struct point *p = &points->list[i];
        if (strcmp(p->target, fit->target) || p->work.kind != fit->kind || *p->left_out) continue;
        if (strcmp(model, p->model)) held = !held || !fit->free;
        model = p->model;
        p->held = held;
        s.list[s.n++] = p;
    }
    qsort(s.list, s.n, sizeof *s.list, in_order);
    for (uint32_t i = 0; i < s.n && !is_own(fit->target); i++) s.list[i]->held = i % 2;
    return s;
}

/* The share of the bandwidth that kernels other than wvSplitK reach: a constant of the kernels, which no target has. */
struct families { const char *name[FAMILIES]; double share[FAMILIES]; uint32_t n; };

static double share_of(const struct families *f, const char *family)
{
    for (uint32_t i = 0; i < f->n; i++) if (strcmp(f->name[i], family) == 0) return f->share[i];
    return 1;
}

static double predicted(const struct target *t, const struct families *f, const struct point *p)
{
    struct cost_work w = p->work;
    w.bytes /= share_of(f, p->model);
    return cost_micros(t, &w);
}

static double loss(const struct target *t, const struct families *f, const struct set *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->list[i]->held) continue;
        const double d = log(predicted(t, f, s->list[i]) / s->list[i]->us);
        sum += d * d;
    }
    return sum;
}

/* Tries to move values i and k by factors exp(x) and exp(y). */
static bool step_to(double *values[FREE], uint32_t i, uint32_t k, double x, double y, const struct target *t, const struct families *f,
                    const struct set *s, double *best)
{
    const double vi = *values[i], vk = *values[k];
    *values[i] *= exp(x);
    if (k != i) *values[k] *= exp(y);
    const double now = loss(t, f, s);
    if (now < *best - 1e-12) { *best = now; return true; }
    *values[i] = vi;
    *values[k] = vk;
    return false;
}

static void search(double *values[FREE], uint32_t n, const struct target *t, const struct families *f, const struct set *s)
{
    double best = loss(t, f, s);
    for (double step = 0.3; step > 1e-4;) {
        bool moved = false;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k <= i; k++)
                for (uint32_t sign = 0; sign < (k == i ? 2 : 4); sign++)
                    moved |= step_to(values, i, k, sign & 1 ? -step : step, sign & 2 ? -step : step, t, f, s, &best);
        if (!moved) step /= 2;
    }
}

static double *member_of(struct target *t, enum prediction_kind kind, enum member m)
{
    struct prediction *c = &t->prediction.of[kind];
    double *const members[N_MEMBERS] = { &c->start_us, &c->chain_us, &c->row_us, &c->bandwidth_gb_s, &c->strided, &c->rate_tops, &c->clocks,
                                         &c->copied, &t->prediction.latency_us };
    return members[m];
}

static struct families families_of(const struct set *s)
{
    struct families f = { .n = 0 };
    for (uint32_t i = 0; i < s->n; i++) {
        const struct point *p = s->list[i];
        const char *family = p->model;
        /* wvSplitK and wvSpltK: waves share rows, as in forgec's kernels */
        bool known = is_own(p->target) || strncmp(family, "wvSp", 4) == 0 || p->work.kind != PREDICT_PRODUCTS;
        for (uint32_t k = 0; k < f.n; k++) known |= strcmp(f.name[k], family) == 0;
        if (known) continue;
        if (f.n == FAMILIES) die("more than %d families", FAMILIES);
        f.share[f.n] = 0.5;
        f.name[f.n++] = family;
    }
    return f;
}

/* Rounded to three digits, as targets state values. */
static double rounded(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", x);
    return number(text);
}

/* ---- the verdict ---- */

struct error { double mean, worst; uint32_t n; };
static struct error error_of(const struct target *t, const struct families *f, const struct set *s, bool held)
{
    struct error e = { 0 };
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->list[i]->held != held) continue;
        const double one = fabs(predicted(t, f, s->list[i]) / s->list[i]->us - 1);
        e.mean += one;
        e.worst = fmax(e.worst, one);
        e.n++;
    }
    e.mean /= e.n;
    return e;
}

static void print_set(const struct target *t, const struct families *f, const struct set *s)
{
    printf("  %-58s %10s %10s %10s %7s\n", "kernel", "MB", "us", "predicted", "error");
    for (uint32_t i = 0; i < s->n; i++) {
        const struct point *p = s->list[i];
        const double us = predicted(t, f, p);
        printf("  %-58s %10.2f %10.2f %10.2f %+6.0f %% %s\n", p->label, p->work.bytes * 1e-6, p->us, us, 100 * (us / p->us - 1),
               p->held ? "held out" : "fitted");
    }
}

static bool is_near(double x, double y, double relative, double least) { return fabs(x - y) <= fmax(relative * fabs(y), least); }

/* within: tolerance in percentage points.  The error of whole steps changes a little with every change of a plan. */
static void judge_error(const struct target *t, enum prediction_kind kind, double error, uint32_t n, double within)
{
    const struct prediction *stated = &t->prediction.of[kind];
    if (!is_near(stated->error_percent, 100 * error, 0, within) || stated->held_out != n)
        fail("targets/%s.yaml: prediction: %s: error is %.1f %% of %u; it is {value: %.1f, unit: \"%%\"} and held_out {value: %u}", t->name,
             prediction_name[kind], stated->error_percent, stated->held_out, 100 * error, n);
}

/* Checks that the page has this row of the table. */
static void judge_row(const char *page, const char *row)
{
    printf("  %s\n", row);
    if (!strstr(page, row)) fail("the page lacks this: %s", row);
}

static const char *share_text(struct arena *a, const struct error *e)
{
    return e->n ? arena_printf(a, "%.1f | %.0f", 100 * e->mean, 100 * e->worst) : "- | -";
}

/* Fits t and f to the points that are not held out; the search does not begin at the stated constants. */
static void fit_to(struct target *t, struct families *f, const struct fit *fit, const struct set *s)
{
    double *values[FREE];
    uint32_t n = 0;
    for (uint32_t m = 0; m < N_MEMBERS; m++) {
        if (!(fit->free >> m & 1)) continue;
        values[n] = member_of(t, fit->kind, (enum member)m);
        *values[n++] = m == BANDWIDTH ? t->bandwidth_gb_s : begin_at[m];
    }
    for (uint32_t i = 0; i < f->n; i++) values[n++] = &f->share[i];
    search(values, n, t, f, s);
    for (uint32_t i = 0; i < f->n; i++) f->share[i] = rounded(f->share[i]);
}

static void judge_constants(struct target *stated, struct target *t, const struct fit *fit)
{
    for (uint32_t m = 0; m < N_MEMBERS; m++) {
        if (!(fit->free >> m & 1)) continue;
        const double is = *member_of(stated, fit->kind, (enum member)m), found = *member_of(t, fit->kind, (enum member)m);
        printf(" %s %g", member_name[m], rounded(found));
        if (!is_near(is, found, 0.03, 1e-4))
            fail("targets/%s.yaml: prediction: %s: %s is %g; the fit gives %g", fit->target, prediction_name[fit->kind], member_name[m], is,
                 rounded(found));
    }
}

/* Computes errors with the stated constants. */
static void judge_fit(struct points *points, const struct fit *fit, const char *page)
{
    struct arena *a = points->arena;
    struct target *stated = target_load(a, fit->target, NULL), *t = target_load(a, fit->target, NULL);
    const struct set s = set_of(points, fit);
    struct families f = families_of(&s);
    fit_to(t, &f, fit, &s);
    printf("\n%s, %s:", fit->target, prediction_name[fit->kind]);
    judge_constants(stated, t, fit);
    for (uint32_t i = 0; i < f.n; i++) printf(", %s reaches %.3g of the bandwidth", f.name[i], f.share[i]);
    putchar('\n');
    print_set(stated, &f, &s);
    const struct error held = error_of(stated, &f, &s, true), fitted = error_of(stated, &f, &s, false);
    judge_error(stated, fit->kind, held.mean, held.n, 0.06);
    judge_row(page, arena_printf(a, "| %s | %s | %u | %s | %u | %s |", fit->target, prediction_name[fit->kind], fitted.n,
                                 share_text(a, &fitted), held.n, share_text(a, &held)));
    const double least = s.list[0]->work.bytes, is = stated->prediction.of[fit->kind].least_bytes;
    if (!is_near(is, least, 0.01, 1024)) fail("targets/%s.yaml: prediction: %s: least is %.0f bytes; the smallest measured kernel has %.0f",
                                              fit->target, prediction_name[fit->kind], is, least);
}

/* Were the model's products left out of the fit? */
static bool is_held(const struct points *points, const struct point *step)
{
    for (uint32_t i = 0; i < points->n; i++) {
        const struct point *p = &points->list[i];
        if (p->work.kind == PREDICT_PRODUCTS && strcmp(p->target, step->target) == 0 && strcmp(p->model, step->model) == 0) return p->held;
    }
    die("no products of %s", step->model);
}

/* Whole steps as today's plan predicts them, but without spans, which the measured programs did not have. */
static void judge_steps(struct points *points, const char *target, const char *models, enum prediction_kind kind, const char *page)
{
    struct arena *a = points->arena;
    struct target *t = target_load(a, target, NULL);
    t->gpu.attention_groups = 0;
    double sum = 0;
    uint32_t n = 0;
    printf("\n%s, whole steps: %s\n", target, prediction_name[kind]);
    for (uint32_t i = 0; i < points->n; i++) {
        const struct point *p = &points->list[i];
        if (strcmp(p->target, target) || p->work.kind != kind) continue;
        const bool held = is_held(points, p);
        const struct plan *plan = measured_plan(a, arena_printf(a, "%s/%s.gguf", models, p->label), t, 10240);
        const double us = cost_step_micros(plan, kind == PREDICT_PROMPT, p->tokens, p->n_past, NULL);
        printf("  %-30s %4u tokens after %5u %10.1f us, predicted %10.1f  %+6.1f %% %s\n", p->label, p->tokens, p->n_past, p->us, us,
               100 * (us / p->us - 1), held ? "held out" : "fitted");
        if (!held) continue;
        sum += fabs(us / p->us - 1);
        n++;
    }
    judge_error(t, kind, sum / n, n, 1.5);
    judge_row(page, arena_printf(a, "within %.1f %%", t->prediction.of[kind].error_percent));
}

int main(int argc, char **argv)
{
    if (argc != 4) die("usage: predict_fit FOLDER-OF-CSV FOLDER-OF-GGUF PAGE");
    struct points points = { .arena = arena_create() };
    const struct bytes text = file_read_most(points.arena, argv[3], 1 << 22);
    const char *page = arena_strndup(points.arena, (const char *)text.data, text.size);
    read_file(&points, argv[1], "amd");
    read_file(&points, argv[1], "sm_90");
    for (uint32_t i = 0; i < points.n; i++) {
        const struct point *p = &points.list[i];
        if (*p->left_out) printf("left out: %s, %.2f us: %s\n", p->label, p->us, p->left_out);
    }
    for (uint32_t i = 0; i < COUNT_OF(fits); i++) judge_fit(&points, &fits[i], page);
    judge_steps(&points, "sm_90", argv[2], PREDICT_TOKEN, page);
    judge_steps(&points, "sm_90", argv[2], PREDICT_PROMPT, page);
    printf("\n%u points, %u failed\n", points.n, failures);
    arena_destroy(points.arena);
    return failures ? 1 : 0;
}
