/* report.c -- the table of `build -v` and `--emit plan` for a GPU. */
#include "report.h"
#include "choose.h"
#include <string.h>

typedef unsigned long long ull;

static const struct kernel_resources *resources_of(const char *name, const struct kernel_resources *r, size_t n)
{
    for (size_t i = 0; i < n; i++) if (strcmp(r[i].name, name) == 0) return &r[i];
    return NULL;
}

static uint32_t launches_of(const struct launch *list, uint32_t n, uint32_t kernel)
{
    uint32_t launches = 0;
    for (uint32_t i = 0; i < n; i++) launches += list[i].kernel == kernel;
    return launches;
}

/* Cells of the table. */
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

/* resources: NULL, not compiled. */
static void print_kernel(struct arena *a, struct text *out, const struct plan *p, const struct kernel *k, bool prefill,
                         uint32_t launches, const struct kernel_resources *resources)
{
    const bool known = resources && resources->vgprs;
    const uint32_t tokens = !prefill ? 1 : k->param[PARAM_MOST] ? k->param[PARAM_MOST] : p->chunk;
    const char *waves = known ? arena_printf(a, "%u", code_object_waves(p->profile, resources->vgprs)) : "-";
    const char *spills = known ? arena_printf(a, "%u", resources->vgpr_spills) : "-";
    text_printf(out, "    %-30s %8u  %-11s %7u  %s  %9u  %10s  %6s", k->name, launches, grid_cell(a, k), k->param[PARAM_THREADS],
                registers_cell(a, resources), k->lds_bytes, waves, spills);
    text_printf(out, "  %12llu  %11llu  %8.2f%s\n", (ull)k->weight_bytes, (ull)k->operations,
                cost_kernel_micros(p, k, tokens, 0), tile_cell(a, k));
}

static void print_list(struct arena *a, struct text *out, const struct plan *p, const struct launch *list, uint32_t n,
                       const struct kernel_resources *r, size_t n_r)
{
    const bool prefill = list == p->kernels->prefill;
    text_printf(out, "#   kernel                         launches  groups      threads  VGPR AGPR SGPR  LDS bytes  waves/SIMD  spills  "
                     "weight bytes  flops/token  each, us%s\n",
                prefill ? "  tile     tokens     fill" : "");
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        const struct kernel *k = &p->kernels->kernels[i];
        const uint32_t launches = launches_of(list, n, i);
        if (launches) print_kernel(a, out, p, k, prefill, launches, resources_of(k->name, r, n_r));
    }
}

static uint64_t operations_of(const struct kernel_list *k)
{
    uint64_t operations = 0;
    for (uint32_t i = 0; i < k->n_decode; i++) operations += k->kernels[k->decode[i].kernel].operations;
    return operations;
}

/* With the draw of the next one, where there is any. */
static uint32_t launches_per_token(const struct kernel_list *k) { return k->n_decode + (k->sample.kernel != NO_KERNEL); }

static void print_prediction(struct text *out, const struct plan *p)
{
    const double memory = plan_micros(p, p->read_bytes), launches = launches_per_token(p->kernels) * p->profile->launch_us;
    if (memory > 0)
        text_printf(out, "# prediction, not a measurement: %.0f us of reading at %.0f GB/s + %.0f us of launches per token = %.1f tok/s "
                         "with an empty context\n",
                    memory, p->profile->bandwidth_gb_s, launches, 1e6 / (memory + launches));
}

void report_print(struct arena *a, struct text *out, const struct plan *p, const struct kernel_resources *resources, size_t n_resources)
{
    const struct kernel_list *k = p->kernels;
    text_printf(out, "# %s for %s: context %u, KV %s, prefill in chunks of %u tokens, %u-bit activations in integer products\n",
                p->model->name, p->profile->name, p->options.n_ctx, kv_type_name[p->options.kv], p->chunk, 8 * p->gpu->digits);
    text_printf(out, "# weights %.3f MB, read per token %.3f MB; KV cache %.3f MB (%llu bytes per token); arena %.3f MB\n",
                (double)p->image_bytes / 1e6, (double)p->read_bytes / 1e6, (double)p->state_bytes / 1e6, (ull)p->state_bytes_per_token,
                (double)p->arena_bytes / 1e6);
    text_printf(out, "# decode: %u launches per token, %llu floating-point operations in products, convolutions and recurrences\n",
                launches_per_token(k), (ull)operations_of(k));
    print_list(a, out, p, k->decode, k->n_decode, resources, n_resources);
    text_printf(out, "# prefill: %u launches per chunk; a product has several kernels, each for steps of so many tokens; fill: useful part "
                     "of what the compute units could do, at the most of them\n",
                kernel_launches(k, k->prefill, k->n_prefill, p->chunk));
    print_list(a, out, p, k->prefill, k->n_prefill, resources, n_resources);
    print_prediction(out, p);
}
