/* report.c -- see report.h. */
#include "report.h"
#include <stdio.h>
#include <string.h>

typedef unsigned long long ull;

/* Bytes that a step reads: the weights, and if context is set also the states of a full context. */
static uint64_t bytes_of_step(const struct kernel_list *k, enum kernel_steps steps, bool context)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < k->of[steps].n; i++) {
        const struct kernel *kernel = &k->kernels[k->of[steps].list[i].kernel];
        bytes += kernel->weight_bytes + (context ? kernel->state_bytes : 0);
    }
    return bytes;
}

/* "12 x 32": number of work units of a product or map and their rows; "-" if there are no units or they differ. */
static void units_text(char text[32], const struct kernel *k)
{
    const uint32_t unit = k->param[PARAM_UNIT];
    uint64_t units = 0;
    snprintf(text, 32, "-");
    for (uint32_t i = 0; unit && i < k->group->n_branches; i++)
        if (!k->group->branches[i].is_partner) units += (k->group->branches[i].result->cols + unit - 1) / unit;
    if (unit) snprintf(text, 32, "%llu x %u", (ull)units, unit);
}

static void print_kernel(struct text *out, const struct plan *p, const struct kernel *k, uint32_t launches)
{
    char units[32];
    units_text(units, k);
    text_printf(out, "    %-30s %8u  %12s  %12llu  ", k->name, launches, units, (ull)k->weight_bytes);
    text_printf(out, "%22llu  %8.2f\n", (ull)k->state_bytes, plan_micros(p, k->weight_bytes + k->state_bytes));
}

static void print_list(struct text *out, const struct plan *p, const struct launches *of)
{
    text_puts(out, "#   kernel                         launches  units x rows  weight bytes  KV bytes, full context  each, us\n");
    for (uint32_t i = 0; i < p->kernels->n_kernels; i++) {
        uint32_t launches = 0;
        for (uint32_t l = 0; l < of->n; l++) launches += of->list[l].kernel == i;
        if (launches) print_kernel(out, p, &p->kernels->kernels[i], launches);
    }
}

/* Lists the kernels that have nothing to do for some numbers of threads. */
static void print_idle(struct text *out, const struct kernel_list *k)
{
    for (uint32_t i = 0; i < k->n_kernels; i++) {
        const uint32_t unless = k->kernels[i].unless_divides;
        if (unless)
            text_printf(out, "# %s: not where the threads divide %u evenly, nor before %u positions\n", k->kernels[i].name, unless,
                        k->kernels[i].from_positions);
    }
}

static void print_head(struct text *out, const struct plan *p, uint64_t read)
{
    const struct plan_options *o = &p->options;
    text_printf(out, "# %s for %s: context %u, KV %s, ", p->model->name, p->target->name, o->n_ctx, kv_type_name[o->kv]);
    text_printf(out, "up to %u threads, prefill in chunks of %u tokens", o->max_threads, p->chunk);
    text_puts(out, o->exact ? ", float activations\n" : "\n");
    text_printf(out, "# weights %.3f MB, read per token %.3f MB; ", (double)p->image_bytes / 1e6, (double)read / 1e6);
    text_printf(out, "KV cache %.3f MB (%llu bytes per token); ", (double)p->state_bytes / 1e6, (ull)p->state_bytes_per_token);
    text_printf(out, "arena %.3f MB\n", (double)p->arena_bytes / 1e6);
}

static void print_prediction(struct text *out, const struct plan *p, uint64_t read, uint64_t read_full)
{
    const double empty = plan_micros(p, read), full = plan_micros(p, read_full);
    if (empty <= 0) return;
    text_printf(out, "# prediction, not a measurement: %.0f us per token = %.1f tok/s with an empty context, ", empty, 1e6 / empty);
    text_printf(out, "%.0f us = %.1f tok/s with a full one,\n", full, 1e6 / full);
    text_printf(out, "# when every byte comes from memory at %.0f GB/s; error not known: no measured kernel was compared with it\n",
                p->target->bandwidth_gb_s);
}

void report_cpu(struct text *out, const struct plan *p)
{
    const struct kernel_list *k = p->kernels;
    const uint64_t read = bytes_of_step(k, STEPS_DECODE, false);
    print_head(out, p, read);
    text_printf(out, "# decode: %u launches per token\n", k->of[STEPS_DECODE].n);
    print_list(out, p, &k->of[STEPS_DECODE]);
    print_idle(out, k);
    text_printf(out, "# prefill: %u launches per chunk\n", k->of[STEPS_PREFILL].n);
    print_list(out, p, &k->of[STEPS_PREFILL]);
    print_prediction(out, p, read, bytes_of_step(k, STEPS_DECODE, true));
}
