/* least_times.c -- see least_times.h; docs/simulator.md says what the numbers mean and what they leave out. */
#include "least_times.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>

const char *const pipe_name[N_PIPES] = { "matrix", "vector", "LDS", "memory", "launch" };

/* Where a workgroup runs: on one compute unit, or on both of a WGP. */
struct place_of_group { double units, simds, lds_bytes; };

static struct place_of_group place_of(const struct target *p, const struct kernel_counters *k)
{
    const double cus = k->pair ? 2 : 1;
    return (struct place_of_group){ fmax(1, floor(p->compute_units / cus)), p->simds * cus, p->lds_bytes * cus };
}

/* Summed over launches: workgroups of the busiest unit, waves of the busiest SIMD. */
struct busiest { double groups, waves; };

static struct busiest busiest_of(const struct place_of_group *at, const struct kernel_counters *k)
{
    struct busiest b = { 0 };
    for (uint32_t i = 0; i < k->n_grids; i++) {
        const double groups = ceil(k->grids[i].groups / at->units);
        b.groups += k->grids[i].launches * groups;
        b.waves += k->grids[i].launches * ceil(groups * k->group_waves / at->simds);
    }
    return b;
}

/* Issue slots of the vector ALU: each instruction counts with the slots it needs. An f64 instruction that is also transcendental counts as
 * f64. */
static double vector_issues(const struct target *p, const struct kernel_counters *k)
{
    const double all = k->valu + k->dot + k->transcendental, slow = (p->rates.multiply - 1) * k->multiply + (p->rates.f64 - 1) * k->f64;
    const double quarter = p->rates.transcendental * k->transcendental;
    return p->rates.transcendental_apart ? fmax(all + slow, quarter) : all - k->transcendental + slow + quarter;
}

/* Clocks that a compute unit needs for all matrix instructions; negative: the chip's rate for a format is not given. */
static double matrix_clocks(const struct target *p, const struct kernel_counters *k)
{
    double clocks = 0;
    for (size_t i = 0; i < N_MATRIX_FORMATS; i++) {
        if (k->matrix_flop[i] == 0) continue;
        if (p->rates.matrix[i] == 0) return -1;
        clocks += k->matrix_flop[i] / p->rates.matrix[i];
    }
    return clocks;
}

static void set_occupancy(const struct target *p, const struct place_of_group *at, struct kernel_times *t)
{
    const struct kernel_counters *k = t->counted;
    const uint32_t granule = p->vgpr_granule, registers = k->registers ? (k->registers + granule - 1) / granule * granule : granule;
    t->simd_waves = p->vgprs / registers < p->waves ? p->vgprs / registers : p->waves;
    const double by_waves = floor(t->simd_waves * at->simds / k->group_waves), by_lds = k->lds_bytes ? floor(at->lds_bytes / k->lds_bytes)
        : by_waves;
    t->resident = (uint32_t)fmin(by_waves, by_lds);
}

/* Factor on the time of reading because memory channels wait. The first bytes of a launch are read by waves in step and are as slow as the
 * busiest channel; later bytes, of waves that have drifted apart, are not. */
static double channel_factor(const struct target *p, const struct kernel_counters *k)
{
    const double imbalance = channel_imbalance(k->channel_bytes, k->channel_busiest);
    return imbalance > 1 ? 1 + (imbalance - 1) * fmin(1, p->channels.in_step * k->launches / k->channel_bytes) : 1;
}

static struct kernel_times kernel_times(const struct target *p, const struct kernel_counters *k, double steps, double matrix)
{
    const struct place_of_group at = place_of(p, k);
    const struct busiest b = busiest_of(&at, k);
    struct kernel_times t = { .counted = k, .launches = k->launches / steps, .groups = k->groups / k->launches };
    const double waves = k->groups * k->group_waves;
    t.fill = waves / (at.units * at.simds * b.waves);
    /* of the busiest SIMD: the rates of a compute unit are for all its SIMDs together */
    const double simd = b.waves / waves * p->simds, unit = b.groups / k->groups / (k->pair ? 2 : 1),
        us = 1e-3 / p->rates.clock_ghz / k->launches;
    t.us[PIPE_MATRIX] = matrix * simd * us;
    t.us[PIPE_VECTOR] = vector_issues(p, k) / p->rates.vector * simd * us;
    t.us[PIPE_LDS] = (k->lds_cycles + k->lds_conflicts) * 128 / p->rates.lds_bytes * unit * us;
    t.us[PIPE_MEMORY] = (k->unique_bytes * channel_factor(p, k) + k->stored_bytes) / k->launches / p->bandwidth_gb_s * 1e-3;
    t.us[PIPE_LAUNCH] = p->launch_us;
    for (size_t i = 0; i < N_PIPES; i++) if (t.us[i] > t.us[t.bound]) t.bound = (enum pipe)i;
    t.least_us = t.us[t.bound];
    set_occupancy(p, &at, &t);
    return t;
}

struct step_times least_times(struct arena *a, const struct target *p, const struct counters *c, double steps)
{
    struct step_times t = { .steps = steps, .kernels = arena_array(a, struct kernel_times, c->n_kernels),
                            .missing = target_missing_rate(p) };
    if (t.missing) return t;
    for (uint32_t i = 0; i < c->n_kernels; i++) {
        const struct kernel_counters *k = &c->kernels[i];
        if (k->launches <= 0 || k->groups <= 0) continue;
        const double matrix = matrix_clocks(p, k);
        for (size_t f = 0; matrix < 0; f++)
            if (k->matrix_flop[f] > 0 && p->rates.matrix[f] == 0)
                return (struct step_times){ .missing = arena_printf(a, "rates: matrix_%s", matrix_format_name[f]) };
        const struct kernel_times one = t.kernels[t.n_kernels++] = kernel_times(p, k, steps, matrix);
        t.launches += one.launches;
        t.least_us += one.launches * one.least_us;
    }
    return t;
}

/* ---- the report ---- */

void least_times_print(const char *title, const struct step_times *t)
{
    printf("\n%s: %.0f launches, at least %.1f us\n", title, t->launches, t->least_us);
    printf("  %-24s %8s %7s %5s %9s %9s %9s %9s %7s %8s %7s %6s %5s  %s\n", "kernel", "launches", "groups", "fill", "matrix us",
           "vector us", "LDS us", "memory us", "launch", "nops", "waits", "regs", "waves", "bound");
    for (uint32_t i = 0; i < t->n_kernels; i++) {
        const struct kernel_times *k = &t->kernels[i];
        const struct kernel_counters *c = k->counted;
        printf("  %-24s %8.0f %7.0f %5.2f %9.2f %9.2f %9.2f %9.2f %7.2f %8.0f %7.0f %6u %5u  %s", c->name, k->launches, k->groups, k->fill,
               k->us[PIPE_MATRIX], k->us[PIPE_VECTOR], k->us[PIPE_LDS], k->us[PIPE_MEMORY], k->us[PIPE_LAUNCH], c->nops / c->waves,
               c->waits / c->waves, c->registers, k->simd_waves, pipe_name[k->bound]);
        if (c->channel_bytes > 0) printf("; channels: %.2f", channel_imbalance(c->channel_bytes, c->channel_busiest));
        if (c->acc_moves > 0) printf("; v_accvgpr: %.0f a wave", c->acc_moves / c->waves);
        if (c->scratch > 0) printf("; scratch: %.0f a wave", c->scratch / c->waves);
        putchar('\n');
    }
}

void least_times_explain(const struct target *p)
{
    printf("\nLeast times of a launch, computed from the counts and the rates of targets/%s.yaml; no measurements: a chip takes longer.  "
           "fill: waves of the mean\n"
           "SIMD to those of the busiest, which the times are of.  nops, waits: wait states of s_nop, and s_waitcnt, of a wave.  regs: of "
           "a lane; waves: of a SIMD\n"
           "that they leave room for.  bound: the largest of the five.%s  See docs/simulator.md for what is left out.\n", p->name,
           p->channels.count ? "  channels: of memory, the busiest to the mean of loads under way together." : "");
}

static void add_kernel(cJSON *list, const struct kernel_times *k)
{
    const struct kernel_counters *c = k->counted;
    const double n = c->launches;
    double flop = 0;
    for (size_t i = 0; i < N_MATRIX_FORMATS; i++) flop += c->matrix_flop[i];
    const struct { const char *key; double value; } of_launch[] = {
        { "groups", k->groups }, { "waves", c->waves / n }, { "fill", k->fill }, { "matrix_us", k->us[PIPE_MATRIX] },
        { "vector_us", k->us[PIPE_VECTOR] },
        { "lds_us", k->us[PIPE_LDS] }, { "memory_us", k->us[PIPE_MEMORY] }, { "launch_us", k->us[PIPE_LAUNCH] },
        { "least_us", k->least_us },
        { "instructions", c->instructions / n }, { "valu", c->valu / n }, { "transcendental", c->transcendental / n },
        { "dot", c->dot / n },
        { "multiply", c->multiply / n }, { "f64", c->f64 / n }, { "acc_moves", c->acc_moves / n }, { "matrix", c->matrix / n },
        { "matrix_flop", flop / n },
        { "lds_accesses", c->lds_accesses / n }, { "lds_moves", c->lds_moves / n }, { "lds_cycles", c->lds_cycles / n },
        { "lds_conflicts", c->lds_conflicts / n },
        { "nops", c->nops / n }, { "waits", c->waits / n }, { "barriers", c->barriers / n }, { "scratch", c->scratch / n },
        { "loaded_bytes", c->loaded_bytes / n }, { "read_bytes", c->unique_bytes / n }, { "stored_bytes", c->stored_bytes / n },
        { "channel_imbalance", channel_imbalance(c->channel_bytes, c->channel_busiest) },
        { "loads_in_flight_most", c->loads_in_flight }, { "loop_loads_in_flight_most", c->loop_loads_in_flight },
        { "loop_instructions", c->loop.instructions }, { "loop_matrix", c->loop.matrix }, { "loop_nops", c->loop.nops },
        { "loop_acc_moves", c->loop.acc_moves },
        { "loop_scratch", c->loop.scratch }, { "wave_lanes", c->wave }, { "group_waves", c->group_waves }, { "registers", c->registers },
        { "simd_waves", k->simd_waves },
        { "lds_bytes", c->lds_bytes }, { "scratch_bytes", c->scratch_bytes }, { "resident_groups", k->resident },
    };
    cJSON *row = cJSON_CreateObject();
    cJSON_AddStringToObject(row, "kernel", c->name);
    cJSON_AddNumberToObject(row, "launches", k->launches);
    for (size_t i = 0; i < COUNT_OF(of_launch); i++) cJSON_AddNumberToObject(row, of_launch[i].key, of_launch[i].value);
    cJSON_AddStringToObject(row, "bound", pipe_name[k->bound]);
    cJSON_AddItemToArray(list, row);
}

void least_times_json(cJSON *parent, const char *name, const struct step_times *t)
{
    cJSON *o = cJSON_AddObjectToObject(parent, name);
    cJSON_AddNumberToObject(o, "launches", t->launches);
    cJSON_AddNumberToObject(o, "least_us", t->least_us);
    cJSON *list = cJSON_AddArrayToObject(o, "kernels");
    for (uint32_t i = 0; i < t->n_kernels; i++) add_kernel(list, &t->kernels[i]);
}
