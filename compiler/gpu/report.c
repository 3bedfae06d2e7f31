/* report.c -- the table of `build -v` and `--emit plan` for a GPU. */
#include "report.h"
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

static const struct kernel_resources *resources_of(const char *name, const struct kernel_resources *r, size_t n)
{
    for (size_t i = 0; i < n; i++) if (strcmp(r[i].name, name) == 0) return &r[i];
    return NULL;
}

/* Launches of one kernel in a list, and the weight bytes they read and what they compute with them, together. */
struct use { uint32_t launches; const struct gpu_launch *last; uint64_t bytes, flops; };
static struct use use_of(const struct gpu_launch *list, uint32_t n, uint32_t kernel)
{
    struct use u = { 0 };
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].kernel != kernel) continue;
        u.launches++;
        u.last = &list[i];
        u.bytes += list[i].weight_bytes;
        u.flops += list[i].flops;
    }
    return u;
}

static double micros(const struct plan *p, uint64_t bytes) { return p->profile->bandwidth_gb_s > 0 ? (double)bytes / (p->profile->bandwidth_gb_s * 1e3) : 0; }

static void print_list(struct text *out, const struct plan *p, const struct gpu_kernels *k, const struct gpu_launch *list, uint32_t n, const struct kernel_resources *r, size_t n_r)
{
    const bool prefill = list == k->prefill;
    text_printf(out, "#   kernel                         launches  groups      threads  VGPR AGPR SGPR  LDS bytes  waves/SIMD  spills  weight bytes  flops/token  each, us%s\n",
                prefill ? "  tile     tokens     fill" : "");
    for (uint32_t i = 0; i < k->n_kernels; i++) {
        const struct use u = use_of(list, n, i);
        const struct gpu_kernel *kernel = &k->kernels[i];
        if (!u.launches) continue;
        const struct kernel_resources *use = resources_of(kernel->name, r, n_r);
        char grid[24], tile[48] = "", registers[40] = "   -    -    -", waves[8] = "-", spills[12] = "-";
        const struct gpu_launch *l = u.last;
        if (l->grid_tokens) snprintf(grid, sizeof grid, "%u x t/%u", l->grid_x, l->grid_tokens);
        else snprintf(grid, sizeof grid, "%u", l->grid_x);
        if (prefill && l->rows) snprintf(tile, sizeof tile, "  %3ux%-3u  %4u-%-4u  %4.2f", l->grid_tokens, l->rows, l->tokens_least, l->tokens_most, l->fill);
        if (use && use->vgprs) {
            snprintf(registers, sizeof registers, "%4u %4u %4u", use->vgprs, use->agprs, use->sgprs);
            snprintf(waves, sizeof waves, "%u", code_object_waves(p->profile, use->vgprs));
            snprintf(spills, sizeof spills, "%u", use->vgpr_spills);
        }
        text_printf(out, "    %-30s %8u  %-11s %7u  %s  %9u  %10s  %6s  %12llu  %11llu  %8.2f%s\n", kernel->name, u.launches, grid, kernel->threads, registers, kernel->lds_bytes, waves, spills,
                    (ull)(u.bytes / u.launches), (ull)(u.flops / u.launches), micros(p, u.bytes / u.launches), tile);
    }
}

void report_print(struct text *out, const struct plan *p, const struct gpu_kernels *k, const struct kernel_resources *resources, size_t n_resources)
{
    const struct profile *profile = p->profile;
    text_printf(out, "# %s for %s: context %u, KV %s, prefill in chunks of %u tokens, %u-bit activations in integer products\n", p->model->name, profile->name, p->options.n_ctx,
                kv_type_name[p->options.kv], p->chunk, 8 * p->gpu->digits);
    text_printf(out, "# weights %.3f MB, read per token %.3f MB; KV cache %.3f MB (%llu bytes per token); arena %.3f MB\n", (double)p->image_bytes / 1e6, (double)p->read_bytes / 1e6,
                (double)p->kv_bytes / 1e6, (ull)p->kv_bytes_per_token, (double)p->arena_bytes / 1e6);
    uint64_t flops = 0;
    for (uint32_t i = 0; i < k->n_decode; i++) flops += k->decode[i].flops;
    text_printf(out, "# decode: %u launches per token, %llu floating-point operations in products\n", k->n_decode + 1, (ull)flops);
    print_list(out, p, k, k->decode, k->n_decode, resources, n_resources);
    text_printf(out, "# prefill: %u launches per chunk; a product has several kernels, each for steps of so many tokens; fill: useful part of what the compute units could do, at the most of them\n",
                gpu_launches(k->prefill, k->n_prefill, p->chunk));
    print_list(out, p, k, k->prefill, k->n_prefill, resources, n_resources);
    const double memory = micros(p, p->read_bytes), launches = (k->n_decode + 1) * profile->launch_us;
    if (memory > 0)
        text_printf(out, "# prediction, not a measurement: %.0f us of reading at %.0f GB/s + %.0f us of launches per token = %.1f tok/s with an empty context\n", memory, profile->bandwidth_gb_s, launches,
                    1e6 / (memory + launches));
}
