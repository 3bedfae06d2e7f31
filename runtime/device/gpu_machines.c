/* gpu_machines.c -- one GPU of a model whose other GPUs belong to other processes (machines.h): checks that all run the same program, and
 * passes values between them.
 *
 * The kernels are the same as for GPUs in one process.  A kernel stores what it sends into local memory that stands for the other rank's
 * memory.  After the launch this goes to the other processes, and their values come to the places where kernels here read them, all on
 * the stream.  So the tags are right before a reader starts, and no reader waits.  The parts of the memory are used in turn as usual:
 * collectives are counted here, launch by launch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu_state.h"
#include "machines.h"
#include "runtime/model/state.h"
#include "runtime/model/xxh3.h"

/* ---- checks of what was asked for ---- */

/* Do all collectives of a decode step describe what they pass?  Only such values can be sent with the library. */
static bool can_pass(const struct forge_program *model)
{
    for (uint32_t rank = 0; rank < program_ranks(model); rank++) {
        const struct forge_gpu *p = program_of_rank(model, rank)->gpu;
        const uint32_t made = gpu_collectives_of(p->decode, p->n_decode, 0, 0);
        uint32_t told = 0;
        for (uint32_t i = 0; i < p->n_decode; i++) told += p->decode[i].pass.to != FORGE_PASS_NONE;
        if (told < made || made == 0 || (p->sample.in_collective && p->sample.pass.to == FORGE_PASS_NONE)) return false;
    }
    return true;
}

enum forge_status gpu_check_processes(const struct forge_program *model, const struct forge_launcher *l,
                                      const struct forge_devices *devices, struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    enum forge_status status = FORGE_OK;
    if (l->n != n)
        status = error_set(error, FORGE_USAGE, "%s started %u processes, the program is for %u GPUs: start %u processes, or "
                           "one process with all GPUs", l->name, l->n, n, n);
    else if (!can_pass(model))
        status = error_set(error, FORGE_USAGE, "%s started %u processes, but the program needs %u GPUs in one process: start one process",
                           l->name, l->n, n);
    else if (devices && devices->n > 1)
        status = error_set(error, FORGE_USAGE, "--devices names %u GPUs, but each of the %u processes has one GPU", devices->n, n);
    else if (!(devices && devices->n == 1) && l->local == (uint32_t)LAUNCHER_NOT_TOLD)
        status = error_set(error, FORGE_USAGE, "%s does not say which of this machine's processes this one is: name its GPU by --devices",
                           l->name);
    if (status != FORGE_OK && l->rank > 0 && error) error->text[0] = 0;          /* all processes report the same */
    return status;
}

/* If the launcher gave every process a GPU of its own, the process sees only that GPU. */
struct forge_devices gpu_device_of_process(const struct forge_device *d, const struct forge_launcher *l,
                                           const struct forge_devices *devices)
{
    struct forge_devices own = { .n = l->n };
    own.number[l->rank] = devices && devices->n == 1 ? devices->number[0] : d->n_devices == 1 ? 0 : (int)l->local;
    return own;
}

/* ---- do all processes run the same program? ---- */

/* What a process reports to the leading process. */
struct report { uint64_t facts; uint32_t status, gpu; char host[64], name[128], text[sizeof ((struct forge_error *)0)->text]; };
struct verdict { uint64_t bytes; uint32_t status; };

/* A hash over code and weights of all GPUs, which every process has. */
static uint64_t facts_of(const struct forge_program *model)
{
    uint64_t facts = 0;
    for (uint32_t rank = 0; rank < program_ranks(model); rank++) {
        const struct forge_program *p = program_of_rank(model, rank);
        char text[1024];
        const int n = snprintf(text, sizeof text, "%016llx %016llx %u %u %s %s %s %s %s", (unsigned long long)facts,
                               (unsigned long long)forge_xxh3(p->gpu->code, p->gpu->code_bytes), p->abi_version, p->n_ctx, p->model_hash,
                               p->weights_hash, p->target, p->compiler, p->options);
        facts = forge_xxh3(text, n < (int)sizeof text ? (uint64_t)n : sizeof text);
    }
    return facts;
}

/* "NAME (host a, GPU 0), NAME (host b, GPU 0)" */
static enum forge_status name_all(struct gpu *g, const struct report *reports, uint32_t n, struct forge_error *error)
{
    enum { EACH = sizeof reports->host + sizeof reports->name + 32 };
    if (g->names) return FORGE_OK;
    g->names = calloc(n, EACH);
    if (!g->names) return error_set(error, FORGE_NO_MEMORY, "out of memory for the GPUs' names");
    for (uint32_t r = 0, at = 0; r < n; r++)
        at += (uint32_t)snprintf(g->names + at, n * EACH - at, "%s%s (host %s, GPU %u)", r > 0 ? ", " : "", reports[r].name,
                                 reports[r].host, reports[r].gpu);
    return FORGE_OK;
}

/* differ: the text for different facts, such as "runs another program". */
static enum forge_status judge(const struct report *reports, uint32_t n, const char *differ, struct forge_error *error)
{
    for (uint32_t r = 1; r < n; r++)
        if (reports[r].status != FORGE_OK)
            return error_set(error, (enum forge_status)reports[r].status, "process %u of %u (%.64s): %.400s", r, n, reports[r].host,
                             reports[r].text);
    for (uint32_t r = 1; r < n; r++)
        if (reports[r].facts != reports[0].facts)
            return error_set(error, FORGE_FAILED, "process %u of %u (%.64s) %s than process 0 (%.64s)", r, n, reports[r].host, differ,
                             reports[0].host);
    return FORGE_OK;
}

/* Every process reports its status and learns whether all succeeded; only the leading process has the message. */
static enum forge_status agree(struct gpu *g, uint64_t facts, enum forge_status status, const char *differ, struct forge_error *error)
{
    struct machines *m = g->machines->machines;
    const uint32_t n = machines_count(m);
    uint8_t *message;
    struct report own = { .facts = facts, .status = status, .gpu = (uint32_t)g->device.index };
    snprintf(own.name, sizeof own.name, "%s", g->device.name);
    snprintf(own.text, sizeof own.text, "%s", status != FORGE_OK && error ? error->text : "");
    if (gethostname(own.host, sizeof own.host - 1) != 0) snprintf(own.host, sizeof own.host, "?");
    TRY(gpu_said(g, machines_message(m, &message, error)));
    memcpy(message, &own, sizeof own);
    TRY(gpu_said(g, machines_gather(m, sizeof own, 0, error)));
    if (g->machines->follows) {
        struct verdict verdict;
        TRY(gpu_said(g, machines_receive(m, error)));
        memcpy(&verdict, message, sizeof verdict);
        return verdict.status == FORGE_OK ? FORGE_OK : error_set(error, (enum forge_status)verdict.status, "%s", "");
    }
    struct report *reports = malloc(n * sizeof *reports);
    if (!reports) return error_set(error, FORGE_NO_MEMORY, "out of memory for reports of the processes");
    memcpy(reports, message, n * sizeof *reports);
    if (status == FORGE_OK) status = judge(reports, n, differ, error);
    if (status == FORGE_OK) status = name_all(g, reports, n, error);
    free(reports);
    const struct verdict verdict = { .status = status };
    memcpy(message, &verdict, sizeof verdict);
    TRY(gpu_said(g, machines_send(m, sizeof verdict, error)));
    return status;
}

/* ---- passing values on ---- */

/* A launch begins a new collective if launches before it in the list have made collectives since the last one counted, or if it is the
 * first of another list. */
static void count_collective(struct gpu_machines *m, const struct forge_gpu_launch *l)
{
    m->given += m->begins || l->collectives != m->collectives;
    m->begins = false;
    m->collectives = l->collectives;
}

/* Does this process send to rank r, or receive from it, after the launch (behind) or before it? */
static bool sends(const struct gpu *g, uint32_t to, uint32_t r, bool behind)
{
    const uint32_t last = machines_count(g->machines->machines) - 1;
    if (!behind) return false;
    return to == FORGE_PASS_ALL || (to == FORGE_PASS_NEXT && r == g->rank + 1) || (to == FORGE_PASS_TOKEN && g->rank == last);
}
static bool receives(const struct gpu *g, uint32_t to, uint32_t r, bool behind)
{
    const uint32_t last = machines_count(g->machines->machines) - 1;
    if (behind) return to == FORGE_PASS_ALL;
    return (to == FORGE_PASS_PREVIOUS && r + 1 == g->rank) || (to == FORGE_PASS_TOKEN && r == last && g->rank != last);
}

static enum forge_status pass(struct gpu *g, const struct forge_gpu_launch *l, uint32_t n_tokens, uint32_t n_logits, bool behind,
                              struct forge_error *error)
{
    enum { AREAS = sizeof l->pass.areas / sizeof *l->pass.areas };
    struct machines_part parts[FORGE_GPU_MAX_RANKS * AREAS];
    const uint32_t rows = n_tokens == 0 ? 1 : l->tail ? n_logits : n_tokens, to = l->pass.to;
    /* Rows start at the first token of the step; in tail launches other than FORGE_TAIL_LOGITS, at the first token that has logits. */
    const uint32_t first = n_tokens > 0 && l->tail && l->tail != FORGE_TAIL_LOGITS ? n_tokens - n_logits : 0;
    uint32_t n = 0;
    if (to == FORGE_PASS_NONE) return FORGE_OK;
    if (!behind) count_collective(g->machines, l);
    const uint64_t turn = g->machines->given % (g->program->gpu->pipeline ? 3 : 2) * l->pass.turn;
    for (uint32_t r = 0; r < machines_count(g->machines->machines); r++)
        for (uint32_t i = 0; i < AREAS && l->pass.areas[i].tokens > 0 && r != g->rank; i++) {
            const struct forge_gpu_area *a = &l->pass.areas[i];
            const uint64_t at = turn + a->at + (a->tokens == 1 ? first * a->each : 0),
                           bytes = (rows + a->tokens - 1) / a->tokens * a->each;
            const uint8_t *from = sends(g, to, r, behind) ? g->collectives[r] + at + g->rank * a->apart : NULL;
            uint8_t *into = receives(g, to, r, behind) ? g->collective + at + r * a->apart : NULL;
            if (from || into) parts[n++] = (struct machines_part){ r, from, into, bytes };
        }
    return n > 0 ? gpu_said(g, machines_transfer(g->machines->machines, parts, n, error)) : FORGE_OK;
}

/* Kernels store data for other ranks in memory of this GPU with the same layout as theirs.  One such memory is enough if all ranks get
 * the same data or only one rank gets any. */
enum forge_status gpu_machines_take(struct gpu *g, const struct forge_program *model, struct forge_error *error)
{
    const uint32_t n = machines_count(g->machines->machines);
    const bool one = n == 2 || model->gpu->pipeline;
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t own = program_of_rank(model, r)->gpu->collective_bytes;
        if (own > bytes) bytes = own;
    }
    for (uint32_t r = 0; r < n; r++) {
        uint8_t **at = &g->machines->outgoing[one ? 0 : r];
        if (r != g->rank && !*at)
            TRY(gpu_said(g, device_alloc_shared(&g->device, at, bytes, "values on their way to other processes", error)));
        g->collectives[r] = r == g->rank ? g->collective : *at;
    }
    return FORGE_OK;
}

static enum forge_status rows(struct gpu *g, const uint8_t *from, uint64_t bytes, uint8_t *to, struct forge_error *error)
{
    struct machines *m = g->machines->machines;
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t left = bytes - at, part = left < machines_bytes(m) ? left : machines_bytes(m);
        uint8_t *message;
        TRY(gpu_said(g, machines_message(m, &message, error)));
        TRY(gpu_said(g, machines_fetch(m, machines_count(m) - 1, from + at, part, error)));
        if (!g->machines->follows) memcpy(to + at, message, (size_t)part);
        at += part;
    }
    return FORGE_OK;
}

static enum forge_status ask(struct gpu *g, struct forge_error *error) { return gpu_said(g, machines_ask(g->machines->machines, error)); }

/* ---- opening ---- */

/* Size of the longest message of gpu_lead.c: a piece of a state, the tokens of a text, or masks and biases of a step of several
 * sequences. */
static uint64_t message_bytes(const struct forge_program *model)
{
    enum { HEAD = 8192, PIECE = 1 << 20 };
    const uint64_t tokens = (model->n_ctx + 1u) * sizeof(int32_t), chunk = model->chunk * sizeof(int32_t),
                   columns = FORGE_MAX_COLUMNS * (model->n_vocab / 8 + sizeof(struct forge_gpu_step) + 1024);
    uint64_t most = PIECE;
    if (tokens > most) most = tokens;
    if (chunk > most) most = chunk;
    if (columns > most) most = columns;
    return most + HEAD;
}

enum forge_status gpu_machines_open(struct gpu *g, const struct forge_launcher *launcher, struct forge_error *error)
{
    g->machines = calloc(1, sizeof *g->machines);
    if (!g->machines) return error_set(error, FORGE_NO_MEMORY, "out of memory for the list of processes");
    g->machines->pass = pass;
    g->machines->rows = rows;
    g->machines->ask = ask;
    g->machines->follows = launcher->rank > 0;
    return machines_open(&g->machines->machines, g->program->gpu->api, launcher, error);
}

enum forge_status gpu_machines_meet(struct gpu *g, const struct forge_program *model, struct forge_error *error)
{
    return gpu_said(g, machines_meet(g->machines->machines, &g->device, message_bytes(model), error));
}

enum forge_status gpu_machines_opened(struct gpu *g, const struct forge_program *model, enum forge_status status, struct forge_error *error)
{
    return agree(g, facts_of(model), status, "runs another program, or has other weights,", error);
}

enum forge_status gpu_machines_loaded(struct gpu *g, const struct forge_engine *e, bool random, enum forge_status status,
                                      struct forge_error *error)
{
    const uint32_t facts[] = { e->n_ctx, e->n_sequences, random };
    TRY(agree(g, forge_xxh3(facts, sizeof facts), status, "was started with other options", error));
    g->machines->talks = true;
    return FORGE_OK;
}

void gpu_machines_close(struct gpu *g)
{
    if (!g->machines) return;
    machines_close(g->machines->machines, gpu_is_lost(g));
    if (gpu_is_lost(g)) return;
    for (uint32_t r = 0; r < FORGE_GPU_MAX_RANKS; r++) device_free(&g->device, g->machines->outgoing[r]);
    free(g->machines);
    g->machines = NULL;
}

const char *gpu_machines_library(const struct gpu *g) { return machines_library(g->machines->machines); }
const char *gpu_machines_place(const struct gpu *g) { return machines_place(g->machines->machines); }
