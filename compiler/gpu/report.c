/* report.c -- see report.h: the tables of `build -v` and `--emit plan` for a GPU. */
#include "report.h"
#include "choose.h"
#include "work.h"
#include "compiler/plan/machine.h"
#include <string.h>

typedef unsigned long long ull;

static const struct kernel_resources *resources_of(const char *name, const struct kernel_resources *r, size_t n)
{
    for (size_t i = 0; i < n; i++) if (strcmp(r[i].name, name) == 0) return &r[i];
    return NULL;
}

static uint32_t launches_of(const struct launches *of, uint32_t kernel)
{
    uint32_t launches = 0;
    for (uint32_t i = 0; i < of->n; i++) launches += of->list[i].kernel == kernel;
    return launches;
}

/* ---- cells of the table ---- */

static const char *grid_cell(struct arena *a, const struct kernel *k)
{
    return k->grid_tokens ? arena_printf(a, "%u x t/%u", k->grid_x, k->grid_tokens) : arena_printf(a, "%u", k->grid_x);
}

static const char *registers_cell(struct arena *a, const struct kernel_resources *r)
{
    return r && r->vgprs ? arena_printf(a, "%4u %4u %4u", r->vgprs, r->agprs, r->sgprs) : "   -    -    -";
}

static const char *tile_cell(struct arena *a, const struct kernel *k)
{
    const uint32_t *p = k->param;
    return k->template == TEMPLATE_gemm ? arena_printf(a, "  %3ux%-3u  %4u-%-4u  %4.2f", p[PARAM_TOKENS], p[PARAM_ROWS], p[PARAM_LEAST],
                                                       p[PARAM_MOST], k->fill) : "";
}

/* "5 %"; "22 % !": above COST_TRUSTED; "small": fewer bytes than any measured kernel; "-": no kernel was measured. */
static const char *error_cell(struct arena *a, const struct cost_trust *t)
{
    return t->percent < 0 ? "-" : t->outside ? "small" : arena_printf(a, "%.0f %%%s", t->percent, t->percent > COST_TRUSTED ? " !" : "");
}

/* resources: NULL if the kernel is not compiled. */
static void print_kernel(struct arena *a, struct text *out, const struct plan *p, const struct kernel *k, bool prefill,
                         uint32_t launches, const struct kernel_resources *resources)
{
    const bool known = resources && resources->vgprs;
    const uint32_t tokens = !prefill ? 1 : k->param[PARAM_MOST] ? k->param[PARAM_MOST] : p->chunk;
    const double issue = resources ? gpu_issue_micros(p, k, &resources->issues) : 0;
    struct cost_work work = cost_work_of(p, k, tokens, 0);
    work.issue_us = issue;
    const struct cost_trust trust = cost_trust(p->target, &work);
    const char *waves = known ? arena_printf(a, "%u", code_object_waves(p->target, resources->vgprs)) : "-";
    const char *spills = known ? arena_printf(a, "%u", resources->vgpr_spills) : "-";
    text_printf(out, "    %-30s %8u  %-11s %7u  %s  %9u  %10s  %6s", k->name, launches, grid_cell(a, k), k->param[PARAM_THREADS],
                registers_cell(a, resources), k->lds_bytes, waves, spills);
    text_printf(out, "  %12llu  %11llu  %9s  %8.2f  %6s%s\n", (ull)k->weight_bytes, (ull)k->operations,
                issue > 0 ? arena_printf(a, "%.2f", issue) : "-", cost_micros(p->target, &work), error_cell(a, &trust), tile_cell(a, k));
}

static void print_list(struct arena *a, struct text *out, const struct plan *p, enum kernel_steps steps,
                       const struct kernel_resources *r, size_t n_r)
{
    const bool prefill = steps == STEPS_PREFILL;
    text_printf(out, "#   kernel                         launches  groups      threads  VGPR AGPR SGPR  LDS bytes  waves/SIMD  spills  "
                     "weight bytes  flops/token  issue, us  each, us   error%s\n",
                prefill ? "  tile     tokens     fill" : "");
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel *k = &p->kernels->kernels[i];
        const uint32_t launches = launches_of(&p->kernels->of[steps], i);
        if (launches) print_kernel(a, out, p, k, prefill, launches, resources_of(k->name, r, n_r));
    }
}

static uint64_t operations_of(const struct kernel_list *k)
{
    uint64_t operations = 0;
    const struct launches *decode = &k->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n; i++) operations += k->kernels[decode->list[i].kernel].operations;
    return operations;
}

/* Launches of a token, with the sampling of the next token if there is one. */
static uint32_t launches_per_token(const struct kernel_list *k) { return k->of[STEPS_DECODE].n + (k->sample.kernel != NO_KERNEL); }

/* "4.5 % (27 kernels; forgec's on an H200)" */
static void print_error(struct text *out, const struct prediction *c, const char *unit)
{
    if (!c->held_out) { text_puts(out, "not known: none was measured on this chip\n"); return; }
    text_printf(out, "%.1f %% (%u %s; %s)%s\n", c->error_percent, c->held_out, unit, c->held_out_source,
                c->error_percent > COST_TRUSTED ? ", worse than 15 %" : "");
}

/* Prints the kinds of kernels in the program with the errors of their predictions. */
static void print_errors(struct text *out, const struct plan *p)
{
    const struct kernel_list *list = p->kernels;
    bool used[N_PREDICTIONS] = { false };
    for (uint32_t i = 0; i < list->n_kernels; i++)
        used[cost_work_of(p, &list->kernels[i], list->kernels[i].prefill ? p->chunk : 1, 0).kind] = true;
    text_puts(out, "# times are predictions, not measurements; error: the mean over measured kernels of that kind, which the model's "
                   "constants were not fitted to (!: worse than 15 %; small: the kernel reads fewer bytes than any of them; -: no "
                   "such kernel was measured); issue: time of the vector ALU, counted in the machine code of decode's products, on AMD "
                   "only; the times include this bound\n");
    for (uint32_t i = 0; i < N_PREDICTIONS; i++) {
        if (!used[i]) continue;
        text_printf(out, "#   %s: ", prediction_name[i]);
        print_error(out, &p->target->prediction.of[i], "kernels");
    }
}

/* Prints why issue times were not counted, or for which kernels. issue_us: [n_kernels]. */
static void print_uncounted(struct text *out, const struct kernel_list *list, const double *issue_us, const char *uncounted)
{
    if (uncounted) { text_printf(out, "# issue: not counted: %s\n", uncounted); return; }
    const char *before = "# issue: not counted, as their loops are not those of their products one by one: ";
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        if (list->kernels[i].template != TEMPLATE_gemv || list->kernels[i].grid_tokens || issue_us[i] > 0) continue;
        text_printf(out, "%s%s", before, list->kernels[i].name);
        before = ", ";
    }
    if (*before == ',') text_puts(out, "\n");
}

static void print_prediction(struct arena *a, struct text *out, const struct plan *p, const struct kernel_resources *r, size_t n_r,
                             const char *uncounted)
{
    double *issue_us = arena_array(a, double, p->kernels->n_kernels);
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel_resources *of = resources_of(p->kernels->kernels[i].name, r, n_r);
        issue_us[i] = of ? gpu_issue_micros(p, &p->kernels->kernels[i], &of->issues) : 0;
    }
    const double empty = cost_step_micros(p, false, 1, 0, issue_us), full = cost_step_micros(p, false, 1, p->options.n_ctx - 1, issue_us);
    if (empty <= 0) return;
    print_errors(out, p);
    print_uncounted(out, p->kernels, issue_us, uncounted);
    text_printf(out, "# prediction, not a measurement: %.0f us per token = %.1f tok/s with an empty context, ", empty, 1e6 / empty);
    text_printf(out, "%.0f us = %.1f tok/s with a full one; error ", full, 1e6 / full);
    print_error(out, &p->target->prediction.of[PREDICT_TOKEN], "tokens");
    if (!p->kernels->of[STEPS_PREFILL].n) return;
    const double prompt = cost_step_micros(p, true, p->chunk, 0, NULL);
    text_printf(out, "# prediction, not a measurement: %.0f us for a prompt's first %u tokens = %.0f tok/s; error ", prompt, p->chunk,
                p->chunk * 1e6 / prompt);
    print_error(out, &p->target->prediction.of[PREDICT_PROMPT], "steps");
}

static bool is_step(const struct kernel *k)
{
    return k->template == TEMPLATE_scores || k->template == TEMPLATE_mask || k->template == TEMPLATE_softmax
           || k->template == TEMPLATE_weighted_sum;
}

/* The options with which attention n would have a fused kernel; "": none. */
static const char *fused_with(const struct plan *p, const struct node *n)
{
    struct plan other = *p;
    other.options.exact = false;
    if (other.options.kv == KV_TYPE_F32) other.options.kv = KV_TYPE_F16;
    if (!gpu_is_wide(&other, n)) return "";
    return p->options.exact ? "; without --exact it is fused" : "; with --kv f16 or q8_0 it is fused";
}

const char *report_unfused(struct arena *a, const struct plan *p)
{
    const struct node *first = NULL;
    uint32_t layers = 0;
    double micros = 0, all = 0;
    const struct machine *m = machine_of(p->target->kind);
    if (!m->in_steps || p->fused->level == FUSE_NONE) return NULL;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->kind != GROUP_ATTENTION || !m->in_steps(p, g->node)) continue;
        if (!first) first = g->node;
        layers++;
    }
    if (!first) return NULL;
    const struct launches *decode = &p->kernels->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n && p->target->kind == TARGET_GPU; i++) {      /* others have no predictions */
        const struct kernel *k = &p->kernels->kernels[decode->list[i].kernel];
        const double one = cost_kernel_micros(p, k, 1, p->options.n_ctx - 1);
        all += one;
        if (is_step(k)) micros += one;
    }
    const char *cost = all > 0 ? arena_printf(a, "four kernels take %.0f of the %.0f us of a token behind %u others (predicted)", micros,
                                              all, p->options.n_ctx - 1) : "it takes four kernels";
    return arena_printf(a, "attention of %u layer%s, with heads of %u and %u and a cache of %s, is not fused on %s: %s%s", layers,
                        layers == 1 ? "" : "s", first->attr.head_dim, first->inputs[2]->attr.head_dim, kv_type_name[p->options.kv],
                        p->target->name, cost, fused_with(p, first));
}

void report_print(struct arena *a, struct text *out, const struct plan *p, const struct kernel_resources *resources, size_t n_resources,
                  const char *uncounted)
{
    const struct kernel_list *k = p->kernels;
    text_printf(out, "# %s for %s: context %u, KV %s, prefill in chunks of %u tokens, %u-bit activations in integer products\n",
                p->model->name, p->target->name, p->options.n_ctx, kv_type_name[p->options.kv], p->chunk, 8 * p->gpu->digits);
    text_printf(out, "# weights %.3f MB, read per token %.3f MB; KV cache %.3f MB (%llu bytes per token); "
                     "arena %.3f MB, room for %s of %u tokens in it\n",
                (double)p->image_bytes / 1e6, (double)p->read_bytes / 1e6, (double)p->state_bytes / 1e6, (ull)p->state_bytes_per_token,
                (double)p->arena_bytes / 1e6, p->model->pooling ? "rows" : "logits", p->gpu->logits_rows);
    text_printf(out, "# decode: %u launches per token, %llu floating-point operations in products, convolutions and recurrences\n",
                launches_per_token(k), (ull)operations_of(k));
    const char *unfused = report_unfused(a, p);
    if (unfused) text_printf(out, "# %s\n", unfused);
    print_list(a, out, p, STEPS_DECODE, resources, n_resources);
    text_printf(out, "# prefill: %u launches per chunk; a product has several kernels for steps of different sizes; fill: useful part "
                     "of what the compute units could do, at the largest step\n",
                kernel_launches(k, STEPS_PREFILL, p->chunk));
    print_list(a, out, p, STEPS_PREFILL, resources, n_resources);
    print_prediction(a, out, p, resources, n_resources, uncounted);
}
