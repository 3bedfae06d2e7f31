/* check.c -- --check: tests every program of this executable on this machine and prints a line for each finding that matters. */
#include "check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/cpu_features.h"
#include "runtime/device/gpu.h"
#include "runtime/text/stream.h"
#include "state.h"
#include "weights.h"

void check_line(enum check_level level, const char *subject, const char *format, ...)
{
    static const char *const names[] = { "OK", "WARN", "FAIL" };
    va_list args;
    va_start(args, format);
    printf("%-5s %-10s ", names[level], subject);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

bool check_memory(const struct forge_program *p, char *text, size_t size)
{
    const double mib = 1.0 / 1048576;
    const uint64_t needed = p->weights_bytes + p->state_bytes + p->arena_bytes;
    const uint64_t there = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    const int n = snprintf(text, size, "%.0f MiB needed (weights %.0f, state %.0f, activations %.0f), %.0f in this machine",
                           (double)needed * mib, (double)p->weights_bytes * mib, (double)p->state_bytes * mib,
                           (double)p->arena_bytes * mib, (double)there * mib);
    if (needed <= there) return true;
    const uint32_t fits = state_fits(needed, p->state_bytes_per_token, p->n_ctx, there);
    if (n < 0 || (size_t)n >= size) return false;
    if (fits > 0) snprintf(text + n, size - (size_t)n, ": all %u tokens do not fit; built with --ctx %u they do", p->n_ctx, fits);
    else snprintf(text + n, size - (size_t)n, ": every token reads weights from the disk again; fewer bits are needed");
    return false;
}

static enum forge_status check_cpu(const struct forge_program *p, struct forge_error *error)
{
    char missing[256] = "", memory[256];
    if (!cpu_has_all(p->features, missing, sizeof missing)) {
        check_line(CHECK_FAIL, "processor", "lacks %s", missing);
        return error_set(error, FORGE_WRONG_CPU, "target %s needs instructions this CPU lacks: %s", p->target, missing);
    }
    check_line(CHECK_OK, "processor", "has the instructions of %s", p->target);
    const bool fits = check_memory(p, memory, sizeof memory);
    check_line(fits ? CHECK_OK : CHECK_WARN, "memory", "%s", memory);
    return FORGE_OK;
}

static enum forge_status check_weights(const struct forge_program *p, const struct forge_weights_source *source, struct forge_error *error)
{
    struct forge_pool *pool;
    if (!weights_are_somewhere(source)) {                        /* not a failure: --bench --random-weights runs without */
        check_line(CHECK_WARN, "weights", "there are no weights in this executable or beside it: give them with -m FILE");
        return FORGE_OK;
    }
    if (p->n_tensors == 0) {
        check_line(CHECK_WARN, "weights", "the program has no hashes to verify them by");
        return FORGE_OK;
    }
    TRY(pool_open(&pool, threads_default(FORGE_MAX_THREADS), error));
    const enum forge_status status = weights_verify(p, source, pool, error);
    pool_close(pool);
    uint32_t n_tensors = 0;
    for (uint32_t rank = 0; rank < program_ranks(p); rank++) n_tensors += program_of_rank(p, rank)->n_tensors;
    if (status == FORGE_OK) check_line(CHECK_OK, "weights", "%u tensors have the hashes that forgec wrote: all numbers are finite",
                                         n_tensors);
    else check_line(CHECK_FAIL, "weights", "%s", error->text);
    return status;
}

/* Reports everything about one program; the result is the first failure. */
static enum forge_status check_program(const struct forge_program *p, const struct forge_weights_source *source,
                                       const struct forge_devices *devices, struct forge_error *error)
{
    struct forge_error second = { "" };
    const enum forge_status machine = p->gpu ? p->gpu->runtime->check(p, devices, error) : check_cpu(p, error);
    const enum forge_status weights = check_weights(p, source, machine == FORGE_OK ? error : &second);
    return machine != FORGE_OK ? machine : weights;
}

enum forge_status check_run(const char *target, const char *weights_path, const struct forge_devices *devices, struct forge_error *error)
{
    const struct forge_weights_source source = { .path = weights_path };
    enum forge_status status = FORGE_USAGE;
    bool any = false;
    const char *runs = NULL;
    for (uint32_t i = 0; i < forge_n_programs; i++) {
        const struct forge_program *p = forge_programs[i];
        if (target && strcmp(target, p->target) != 0) continue;
        printf("%s\n", p->target);
        any = true;
        const enum forge_status found = check_program(p, &source, devices, error);
        if (found == FORGE_OK && !runs) runs = p->target;
        status = runs ? FORGE_OK : found;
    }
    if (!any) return error_set(error, FORGE_USAGE, "this program has no target '%s' (--info lists its targets)", target ? target
                                                : "");
    if (runs) printf("%s is the target that runs\n", runs);
    const enum forge_status written = flush_stdout(error);
    return status == FORGE_OK ? written : status;
}
