/* cpu.c -- the engine of a library for a CPU: steps are cut into tiles, and states lie in the workspace.
 * A tile is one worker's share of one launch.  Results of a launch are read only after all of its workers are done.  So they have the
 * same bits for any number of real threads and for any division of a step into budgets. */
#include "instance.h"
#include "runtime/device/tile_permission.h"
#include "runtime/model/cost.h"
#include "runtime/model/state.h"
#include "freestanding.h"

/* ---- memory ---- */

uint64_t library_engine_bytes(const struct forge_program *p) { return LIBRARY_UP(p->arena_bytes) + LIBRARY_UP(p->state_bytes); }
uint64_t library_engine_sequence_bytes(const struct forge_program *p) { return LIBRARY_UP(p->state_bytes); }

static bool reads_tiles(const struct forge_program *p)
{
    static const char name[] = "amx_tile";
    for (const char *const *f = p->features; *f; f++) {
        size_t n = 0;
        while (name[n] && (*f)[n] == name[n]) n++;
        if ((*f)[n] == name[n]) return true;
    }
    return false;
}

/* No part of the memory has to be zero: kernels read only what a step wrote. */
int library_engine_open(struct model *m, uint8_t *at, const struct model_options *options)
{
    (void)options;
    if (reads_tiles(m->program) && !tile_permission()) return MODEL_NO_DEVICE;
    m->arena = at;
    m->first.memory = at + (size_t)LIBRARY_UP(m->program->arena_bytes);
    return MODEL_OK;
}

void library_engine_close(struct model *m) { (void)m; }

int library_state_read(struct model *m, const struct state_runs *runs, uint8_t *to)
{
    const uint8_t *from = m->sequence->memory + runs->offset;
    for (uint64_t i = 0; i < runs->n; i++) memcpy(to + i * runs->bytes, from + i * runs->stride, (size_t)runs->bytes);
    return MODEL_OK;
}

int library_state_write(struct model *m, const struct state_runs *runs, const uint8_t *from)
{
    uint8_t *to = m->sequence->memory + runs->offset;
    for (uint64_t i = 0; i < runs->n; i++) memcpy(to + i * runs->stride, from + i * runs->bytes, (size_t)runs->bytes);
    return MODEL_OK;
}

int library_state_clear(struct model *m, uint64_t offset, uint64_t bytes)
{
    memset(m->sequence->memory + offset, 0, (size_t)bytes);
    return MODEL_OK;
}

int library_state_copy(struct model *m, struct library_sequence *to, const struct library_sequence *from)
{
    for (uint32_t i = 0; i < m->program->n_states; i++) {
        const struct state_runs r = state_runs(&m->program->states[i], from->n_past);
        for (uint64_t k = 0; k < r.n; k++) {
            const uint64_t at = r.offset + k * r.stride;
            memcpy(to->memory + at, from->memory + at, (size_t)r.bytes);
        }
    }
    return MODEL_OK;
}

/* ---- steps ---- */

static uint32_t workers(const struct model *m) { return m->program->max_threads; }

/* True if the launch never has work for this number of workers.  Launches that only have no work yet (launch_left_out) run nevertheless,
 * so that every decode step has the same number of tiles. */
static bool left_out(const struct model *m, const struct forge_launch *l)
{
    return l->unless_divides > 0 && l->unless_divides % workers(m) == 0;
}

static void skip_left_out(const struct model *m, struct begun_step *s)
{
    while (s->at < s->n_launches && left_out(m, &s->launches[s->at])) s->at++;
}

/* Begins the next tokens that go through the launches together, from args.n_past on.  A part without logits only has to fill the KV
 * cache. */
void library_step_begin(struct model *m)
{
    const struct forge_program *p = m->program;
    struct begun_step *s = &m->step;
    const uint32_t done = s->args.n_past - m->sequence->n_past, left = s->n_tokens - done;
    const uint32_t n = p->n_prefill == 0 ? 1 : left < p->chunk ? left : p->chunk;
    s->args.tokens = m->sequence->tokens + s->args.n_past;
    s->args.n_tokens = n;
    s->args.n_logits = library_rows(m, n);
    const struct step_launches step = step_launches(p, n);
    s->launches = step.list;
    s->n_launches = step.n;
    if (s->args.n_logits == 0)
        for (uint32_t i = s->n_launches; i-- > 0;)
            if (s->launches[i].tail) s->n_launches = i;
    s->at = s->tile = 0;
    skip_left_out(m, s);
}

static void tile_run(void *job, uint32_t i)
{
    const struct model *m = job;
    const struct begun_step *s = &m->step;
    const struct forge_launch *l = &s->launches[s->at];
    l->kernel(&s->args, l, s->tile + i, workers(m));
}

static void tiles_run(struct model *m, uint32_t n)
{
    library_written(m, m->step.args.n_past + m->step.args.n_tokens);
    if (m->parallel_for && n > 1) m->parallel_for(m->parallel_context, n, tile_run, m);
    else for (uint32_t i = 0; i < n; i++) tile_run(m, i);
    m->step.tile += n;
}

/* Called after the last tile of a launch.  True: the step is done. */
static bool launch_end(struct model *m)
{
    struct begun_step *s = &m->step;
    s->tile = 0;
    s->at++;
    skip_left_out(m, s);
    if (s->at < s->n_launches) return false;
    library_pool(m, s->args.n_logits);
    s->args.n_past += s->args.n_tokens;
    if (s->args.n_past < m->sequence->n_past + s->n_tokens) {
        library_step_begin(m);
        return false;
    }
    m->sequence->n_past = s->args.n_past;
    s->busy = false;
    return true;
}

int library_step_run(struct model *m, uint64_t n)
{
    while (n > 0) {
        const uint32_t left = workers(m) - m->step.tile, now = n < left ? (uint32_t)n : left;
        tiles_run(m, now);
        n -= now;
        if (m->step.tile == workers(m) && launch_end(m)) return MODEL_OK;
    }
    return MODEL_MORE;
}

/* ---- steps with clocks ---- */

enum { SLOTS_MOST = sizeof ((struct model *)0)->mass / sizeof(uint64_t) };

/* Wraps the caller's parallel_for: each of its jobs adds the time of its tiles to its slot of m->mass. */
struct timed {
    struct model *m;
    const struct model_profiling *profile;
    model_parallel_for *parallel_for;
    void        *parallel_context;
    model_job   *run;
    void        *job;
    uint32_t     n, n_slots;
};

static uint64_t clock_now(const struct model_profiling *profile) { return profile->clock(profile->clock_context); }

static void slot_run(void *context, uint32_t slot)
{
    const struct timed *t = context;
    const uint64_t start = clock_now(t->profile);
    for (uint32_t i = slot; i < t->n; i += t->n_slots) t->run(t->job, i);
    t->m->mass[slot] = clock_now(t->profile) - start;
}

static void timed_for(void *context, uint32_t n, model_job *run, void *job)
{
    struct timed *t = context;
    t->run = run;
    t->job = job;
    t->n = n;
    t->n_slots = n < SLOTS_MOST ? n : SLOTS_MOST;
    t->parallel_for(t->parallel_context, t->n_slots, slot_run, t);
}

/* Runs the begun step launch by launch.  Here `wait` gets the whole time of a launch, and `work` the sum over its jobs. */
static int timings_add(struct model *m, struct timed *t, struct model_profiling *profile)
{
    const uint32_t n = workers(m);
    uint64_t at = clock_now(profile);
    int status;
    do {
        struct model_timing *timing = &profile->timings[m->step.at];
        t->n_slots = 0;
        status = library_step_run(m, n);
        const uint64_t now = clock_now(profile);
        for (uint32_t i = 0; i < t->n_slots; i++) timing->work += (int64_t)m->mass[i];
        if (t->n_slots == 0) timing->work += (int64_t)(now - at);
        timing->wait += (int64_t)(now - at);
        timing->launches = 1;
        at = now;
    } while (status == MODEL_MORE);
    return status;
}

static int step_timed(struct model *m, const int32_t *tokens, uint32_t n, float *logits, struct model_profiling *profile)
{
    struct timed t = { .m = m, .profile = profile, .parallel_for = m->parallel_for, .parallel_context = m->parallel_context };
    const uint32_t n_past = m->program->embedding ? 0 : m->sequence->n_past;
    int status = model_begin(m, tokens, n, logits);
    if (status != MODEL_OK) return status;
    if (t.parallel_for) {
        m->parallel_for = timed_for;
        m->parallel_context = &t;
    }
    status = timings_add(m, &t, profile);
    m->parallel_for = t.parallel_for;
    m->parallel_context = t.parallel_context;
    m->sequence->n_past = n_past;
    return status;
}

int library_timings(struct model *m, const int32_t *tokens, uint32_t n, uint32_t n_rows, float *logits, struct model_profiling *profile)
{
    (void)n_rows;
    const uint32_t asked = profile->n_threads > 0 ? profile->n_threads : workers(m);
    const int64_t n_threads = !m->parallel_for ? 1 : asked < workers(m) ? asked : workers(m);
    for (uint32_t i = 0; i < profile->n_steps; i++) {
        int status = step_timed(m, tokens, n, logits, profile);
        const uint64_t start = clock_now(profile);
        if (status == MODEL_OK) status = library_step_try(m, tokens, n, logits);
        profile->step += (int64_t)(clock_now(profile) - start);
        if (status != MODEL_OK) return status;
    }
    profile->step /= profile->n_steps;
    const uint32_t n_launches = step_launches(m->program, n).n;
    for (uint32_t i = 0; i < n_launches; i++) {
        struct model_timing *timing = &profile->timings[i];
        timing->work /= n_threads;
        timing->wait -= timing->work;
    }
    return MODEL_OK;
}
