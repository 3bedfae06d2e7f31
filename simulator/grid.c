/* grid.c -- a launch: which groups are resident, time slices, worker threads, barriers, deadlock.
 *
 *   FORGE_GFXSIM_THREADS=N    worker threads (default: 2, or the number of cores if that is less)
 *   FORGE_GFXSIM_SLICE=N      instructions of a wave in one slice (default 20000)
 *   FORGE_GFXSIM_SEED=N       draws the order of groups and waves, and the length of slices, from N (default: in order, all the same)
 *   FORGE_GFXSIM_LIMIT=N      a launch that executes more instructions fails (default 0: no limit)
 *   FORGE_GFXSIM_SAMPLE=N     of a kernel with matrix instructions only N groups run, spread over the grid; the counters are scaled
 *   (default 0: all run)
 *
 * As on a chip, groups are started in order and stay until they end; groups without room wait until another group ends.  So a kernel whose
 * groups wait for each other hangs here if it would hang there.  The chip does not define the order of instructions of different waves: a
 * slice is one possibility, the seed draws others. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gfxsim.h"

enum { LAUNCH_FAILURE = 719 };
enum { SLICE = 20000, LONGEST_LOOP = 20000, MOST_THREADS = 64,
       WAVES_SHOWN = 8 };
enum { ENDED = UINT32_MAX };

/* The slot of a resident group; the group's state is allocated when it first runs. */
struct slot { struct group *group; uint32_t id; };

struct run {
    struct launch *launch;
    uint32_t n_groups, next_group;               /* groups that run; the next one to become resident */
    uint32_t grid_groups;                        /* in the grid: as many as n_groups, or more with a sample */
    uint32_t n_waves, lds_bytes;                 /* of a group */
    size_t   rows;                               /* vector registers kept per wave */
    struct slot *slots;                          /* [resident] */
    uint32_t n_slots, resident, next_slot, ended, round;
    uint32_t slice, full_slice;
    uint64_t seed;
    uint64_t progress;                           /* groups begun and ended, barriers passed */
    uint64_t instructions, limit;
    uint32_t step, step_ended;                   /* channels.c: where groups of this round begin; the last step of ended groups */
    struct channel_steps steps;                  /* of all workers, once they have stopped */
    pthread_barrier_t gate;                      /* for workers: a round begins, a round ends */
    bool     stop;
    struct worker *workers; uint32_t n_workers;
    struct watch { uint64_t seen, idle, looked; } watch;         /* idle: instructions of every live wave since the last progress; looked:
                                                                  * idle when waves were last checked */
};
struct worker {
    struct run     *run;
    pthread_t       thread;
    struct group   *spare;                       /* states of ended groups, for reuse */
    struct counters counters;
    struct channel_steps steps;
} __attribute__((aligned(128)));

static uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }
static uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }
static bool has_failed(const struct launch *l) { return __atomic_load_n(&l->failed, __ATOMIC_RELAXED) != 0; }
static void add(uint64_t *to, uint64_t n) { __atomic_fetch_add(to, n, __ATOMIC_RELAXED); }
static void reach(uint32_t *to, uint32_t n)
{
    uint32_t old = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (old < n && !__atomic_compare_exchange_n(to, &old, n, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) { }
}

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- occupancy ---- */

/* Number of groups that the whole chip can hold.  A group stays on one compute unit; in RDNA's WGP mode (COMPUTE_PGM_RSRC1 bit 29, clang's
 * default) on a pair of them, and shares its SIMDs and LDS with other groups.  Waves are assumed to be spread evenly over SIMDs.  Groups of
 * more than one wave need a hardware barrier: 16 per compute unit, 32 per pair, as LLVM counts them (AMDGPUBaseInfo.cpp,
 * getMaxWorkGroupsPerCU). */
static uint32_t resident_groups(const struct launch *l, uint32_t n_waves, uint32_t lds_bytes)
{
    const struct chip *c = l->chip;
    const bool pair = c->isa->pairs && (l->kernel->rsrc1 >> 29 & 1) != 0;
    const uint32_t cus = pair ? 2 : 1, vgprs = divide_up(l->kernel->vgprs_allocated > 0 ? l->kernel->vgprs_allocated : 1,
                                                         c->granule) * c->granule;
    const uint32_t of_simd = least(c->waves, c->registers / vgprs), lds = (lds_bytes + 511) / 512 * 512;
    uint32_t groups = of_simd * c->simds * cus / n_waves;
    if (n_waves > 1) groups = least(groups, 16 * cus);
    if (lds > 0) groups = least(groups, c->lds_bytes * cus / lds);
    const uint32_t all = (groups > 0 ? groups : 1) * (c->compute_units / cus);
    return all > 0 ? all : 1;
}

/* ---- groups ---- */

static void *need(void *memory)
{
    if (memory != NULL) return memory;
    fputs("gfxsim: no memory of the host is left for the state of a group\n", stderr);
    abort();
}

/* Pages of registers that are never used cost nothing: malloc maps blocks of this size. */
static void *take(size_t bytes) { return need(aligned_alloc(128, (bytes + 255) / 128 * 128)); }

static struct group *make_group(const struct run *r)
{
    struct group *g = need(calloc(1, sizeof *g));
    const uint32_t lanes = r->launch->kernel->wave;
    g->waves = take(r->n_waves * sizeof *g->waves);
    g->lds = take(r->lds_bytes);
    for (uint32_t i = 0; i < r->n_waves; i++) {
        g->waves[i].v = take(r->rows * lanes * sizeof(uint32_t));
        g->waves[i].scratch = r->launch->kernel->scratch_bytes > 0 ? take((size_t)lanes * r->launch->kernel->scratch_bytes) : NULL;
    }
    return g;
}

static void free_groups(struct group *list, uint32_t n_waves)
{
    while (list != NULL) {
        struct group *g = list;
        list = g->next;
        for (uint32_t i = 0; i < n_waves; i++) {
            free(g->waves[i].v);
            free(g->waves[i].scratch);
        }
        free(g->waves);
        free(g->lds);
        free(g);
    }
}

static void begin_waves(struct group *g, uint32_t step)
{
    for (uint32_t i = 0; i < g->n_waves; i++) {
        struct wave *w = &g->waves[i];
        uint32_t *v = w->v;
        uint8_t *scratch = w->scratch;
        memset(w, 0, sizeof *w);
        w->v = v;
        w->scratch = scratch;
        w->group = g;
        w->index = i;
        w->lanes = g->launch->kernel->wave;
        w->id = g->id * g->n_waves + i;
        w->next = g->launch->kernel->entry;
        w->pieces = step;
        wave_begin(w);
    }
}

static struct group *begin_group(struct worker *k, uint32_t id)
{
    struct run *r = k->run;
    struct launch *l = r->launch;
    struct group *g = k->spare, old;
    if (g != NULL) k->spare = g->next;
    else g = make_group(r);
    old = *g;
    *g = (struct group){ .launch = l, .id = id, .x = id % l->grid[0], .y = id / l->grid[0] % l->grid[1], .z = id / l->grid[0] / l->grid[1],
                         .die = id % (l->chip->dies > 0 ? l->chip->dies : 1), .n_waves = r->n_waves, .waves = old.waves, .lds = old.lds,
                         .lds_bytes = r->lds_bytes, .counters = &k->counters };
    lds_group_begin(g);
    order_group_begin(g);
    begin_waves(g, r->step);
    k->counters.groups++;
    k->counters.waves += g->n_waves;
    add(&r->progress, 1);
    return g;
}

/* Its memory is kept for the next group. */
static void end_group(struct worker *k, struct group *g)
{
    order_group_end(g);
    peers_group_end(g);
    lds_group_end(g);
    for (uint32_t i = 0; i < g->n_waves; i++) reach(&k->run->step_ended, g->waves[i].pieces);
    g->next = k->spare;
    k->spare = g;
    add(&k->run->progress, 1);
}

/* Releases the waves when all that have not ended have arrived at the barrier. */
static bool open_barrier(struct run *r, struct group *g)
{
    g->n_ended = g->n_waiting = 0;
    for (uint32_t i = 0; i < g->n_waves; i++) {
        g->n_ended += g->waves[i].ended;
        g->n_waiting += g->waves[i].at_barrier && !g->waves[i].ended;
    }
    if (g->n_waiting == 0 || g->n_waiting + g->n_ended < g->n_waves) return false;
    lds_barrier(g);
    order_barrier(g);
    peers_barrier(g);
    g->epoch++;
    g->counters->barriers++;
    for (uint32_t i = 0; i < g->n_waves; i++) g->waves[i].at_barrier = false;
    g->n_waiting = 0;
    add(&r->progress, 1);
    return true;
}

static void draw_order(uint32_t *order, uint32_t n, uint64_t *random)
{
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t k = (uint32_t)(draw(random) % i), swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

/* One slice of every wave.  A wave that a barrier stopped continues with the rest of its slice if the barrier opens within it. */
static void run_slice(struct run *r, struct group *g)
{
    uint32_t left[MAX_WAVES], order[MAX_WAVES];
    uint64_t random = r->seed + ((uint64_t)r->round << 32) + g->id, total = 0;
    for (uint32_t i = 0; i < g->n_waves; i++) {
        left[i] = r->slice;
        order[i] = i;
    }
    do {
        if (r->seed != 0) draw_order(order, g->n_waves, &random);
        for (uint32_t i = 0; i < g->n_waves && !has_failed(r->launch); i++) {
            struct wave *w = &g->waves[order[i]];
            if (w->ended || w->at_barrier || left[order[i]] == 0) continue;
            const uint32_t n = wave_run(w, left[order[i]]);
            total += n;
            left[order[i]] -= n > 0 && !w->sleeps ? least(n, left[order[i]]) : left[order[i]];
        }
    } while (!has_failed(r->launch) && open_barrier(r, g));
    add(&r->instructions, total);
}

/* ---- rounds: a slice of every resident group ---- */

static void run_slot(struct worker *k, struct slot *s)
{
    if (s->group == NULL) s->group = begin_group(k, s->id);
    s->group->counters = &k->counters;
    s->group->steps = k->run->launch->channels.count > 0 ? &k->steps : NULL;
    run_slice(k->run, s->group);
    if (s->group->n_ended < s->group->n_waves || has_failed(k->run->launch)) return;
    end_group(k, s->group);
    *s = (struct slot){ NULL, ENDED };
}

static void run_round(struct worker *k)
{
    struct run *r = k->run;
    for (;;) {
        const uint32_t i = __atomic_fetch_add(&r->next_slot, 1, __ATOMIC_RELAXED);
        if (i >= r->n_slots || has_failed(r->launch)) return;
        run_slot(k, &r->slots[i]);
    }
}

static void *worker_main(void *argument)
{
    struct worker *k = argument;
    for (;;) {
        pthread_barrier_wait(&k->run->gate);
        if (k->run->stop) return NULL;
        run_round(k);
        pthread_barrier_wait(&k->run->gate);
    }
}

/* The linear number of the n-th group that runs.  With a sample it is drawn from the n-th of equal parts of the grid, so that it does not
 * repeat a stride of the grid. */
static uint32_t group_number(const struct run *r, uint32_t n)
{
    if (r->n_groups == r->grid_groups) return n;
    const uint64_t first = (uint64_t)n * r->grid_groups / r->n_groups, end = (uint64_t)(n + 1) * r->grid_groups / r->n_groups;
    uint64_t random = r->seed ^ n;
    return (uint32_t)(first + draw(&random) % (end - first));
}

/* Replaces ended groups by the next ones of the grid; then draws the order of the round. */
static void fill_slots(struct run *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].id != ENDED) r->slots[n++] = r->slots[i];
    r->ended += r->n_slots - n;
    while (n < r->resident && r->next_group < r->n_groups) r->slots[n++] = (struct slot){ NULL, group_number(r, r->next_group++) };
    r->n_slots = n;
    r->next_slot = 0;
    r->slice = r->full_slice;
    r->step = r->step_ended;
    r->round++;
    if (r->seed == 0) return;
    uint64_t random = r->seed ^ (uint64_t)r->round << 40;
    r->slice = 1 + (uint32_t)(draw(&random) % r->full_slice);
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t k = (uint32_t)(draw(&random) % i);
        const struct slot swap = r->slots[i - 1];
        r->slots[i - 1] = r->slots[k];
        r->slots[k] = swap;
    }
}

/* ---- deadlock ---- */

static const struct inst *next_inst(const struct wave *w, bool before)
{
    const struct module *m = w->group->launch->kernel->module;
    const uint32_t i = before && w->next > 0 ? w->next - 1 : w->next;
    return i < m->n_inst ? &m->inst[i] : NULL;
}

static bool is_live(const struct wave *w) { return !w->ended && !w->at_barrier; }

static bool same_registers(const struct wave *a, const struct wave *b)
{
    const struct kernel *k = b->group->launch->kernel;
    const size_t row = b->lanes * sizeof(uint32_t);
    return a->next == b->next && a->scc == b->scc && memcmp(a->s, b->s, sizeof a->s) == 0 && memcmp(a->v, b->v, k->vgprs * row) == 0 &&
           memcmp(a->v + (size_t)ACC * b->lanes, b->v + (size_t)ACC * b->lanes, k->agprs * row) == 0;
}

/* A wave that returns to the same instruction with the same registers repeats this forever unless another wave stores something. */
static bool repeats(struct wave *w, struct wave *copy, size_t bytes)
{
    struct launch *l = w->group->launch;
    const uint64_t stores = l->stores;
    uint32_t *v = copy->v;
    *copy = *w;
    copy->v = v;
    memcpy(v, w->v, bytes);
    for (uint32_t n = 0; n < LONGEST_LOOP; n++) {
        if (wave_run(w, 1) == 0 || !is_live(w) || has_failed(l) || l->stores != stores) return false;
        if (same_registers(copy, w)) return true;
    }
    return false;
}

bool launch_repeats(struct run *r)
{
    struct worker *k = r->workers;
    const size_t bytes = r->rows * r->launch->kernel->wave * sizeof(uint32_t);
    struct wave *copy = need(malloc(sizeof *copy));
    bool all = true;
    order_launch_enter(r->launch);
    copy->v = take(bytes);
    for (uint32_t i = 0; i < r->n_slots && all; i++) {
        struct group *g = r->slots[i].group;
        if (g == NULL) continue;
        g->counters = &k->counters;
        for (uint32_t w = 0; w < g->n_waves && all; w++)
            if (is_live(&g->waves[w])) all = repeats(&g->waves[w], copy, bytes);
    }
    free(copy->v);
    free(copy);
    return all;
}

static void show_wave(const struct wave *w)
{
    const struct inst *i = next_inst(w, w->at_barrier);
    fprintf(stderr, "gfxsim:   group %u,%u, wave %u %s 0x%x: %s\n", w->group->x, w->group->y, w->index,
            w->at_barrier ? "waits at" : "is at", i != NULL ? i->pc : 0, i != NULL ? i->text : "no instruction");
}

/* Reports once per launch, for the first wave that loops. */
static void report_stuck(struct run *r, enum finding kind, const char *why)
{
    struct wave *first = NULL;
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < r->n_slots; i++) {
            struct group *g = r->slots[i].group;
            for (uint32_t w = 0; g != NULL && w < g->n_waves; w++) {
                if (pass == 0 && first == NULL && is_live(&g->waves[w])) first = &g->waves[w];
                if (pass == 1 && !g->waves[w].ended && n++ < WAVES_SHOWN) show_wave(&g->waves[w]);
            }
            if (pass == 0 && i + 1 == r->n_slots && first != NULL)
                report(first, next_inst(first, false), kind, -1, "%s; %u of %u groups have ended, %u are resident", why, r->ended,
                       r->n_groups, r->n_slots);
        }
    if (first == NULL) fprintf(stderr, "gfxsim: %s: %s\n", r->launch->kernel->name, why);
    if (n > WAVES_SHOWN) fprintf(stderr, "gfxsim:   and %u more waves\n", n - WAVES_SHOWN);
    __atomic_store_n(&r->launch->failed, LAUNCH_FAILURE, __ATOMIC_RELAXED);        /* it would never end, even if the finding is ignored */
}

static void check_progress(struct run *r)
{
    struct watch *w = &r->watch;
    const uint64_t now = launch_progress(r);
    if (has_failed(r->launch)) return;
    if (r->limit > 0 && r->instructions > r->limit)
        { report_stuck(r, FINDING_OTHER, "the launch executes more instructions than FORGE_GFXSIM_LIMIT"); return; }
    if (r->launch->several) return;              /* another chip may store the value that it waits for */
    if (now != w->seen) { *w = (struct watch){ now, 0, 0 }; return; }
    w->idle += r->slice;
    if (w->idle - w->looked < SLICE) return;
    w->looked = w->idle;
    /* A loop with a clock or a counter never repeats exactly; it gets more instructions. */
    if (w->idle < LAUNCH_PATIENCE && !launch_repeats(r)) return;
    launch_stuck(r, "deadlock: no group ends, no barrier opens and nothing is stored any more");
}

/* ---- the launch ---- */

static uint32_t thread_count(uint32_t n_groups)
{
    cpu_set_t set;
    const uint32_t cores = sched_getaffinity(0, sizeof set, &set) == 0 ? (uint32_t)CPU_COUNT(&set) : 1;
    const uint32_t n = least((uint32_t)setting("FORGE_GFXSIM_THREADS", least(2, cores)), MOST_THREADS);
    return least(n > 0 ? n : 1, n_groups);
}

static void start_workers(struct worker *workers, uint32_t n)
{
    if (n > 1) pthread_barrier_init(&workers->run->gate, NULL, n);
    for (uint32_t i = 1; i < n; i++)
        if (pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]) != 0) {
            fputs("gfxsim: no thread can be started\n", stderr);
            abort();
        }
}

static void stop_workers(struct worker *workers, uint32_t n)
{
    struct run *r = workers->run;
    for (uint32_t i = 1; i < n; i++) pthread_join(workers[i].thread, NULL);
    if (n > 1) pthread_barrier_destroy(&r->gate);
    /* After a finding groups are left unfinished. */
    for (uint32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].group != NULL) end_group(workers, r->slots[i].group);
    for (uint32_t i = 0; i < n; i++) {
        counters_add(&r->launch->counters, &workers[i].counters);
        channels_merge(&r->steps, &workers[i].steps, &r->launch->channels);
        free_groups(workers[i].spare, r->n_waves);
    }
}

/* A sample is representative if groups do the same work and do not wait for each other: kernels with matrix instructions and no atomics. */
static bool can_be_sampled(const struct kernel *k)
{
    const struct module *m = k->module;
    const uint32_t end = kernel_end(k);
    uint32_t matrix = 0, atomic = 0;
    for (uint32_t i = k->entry; i < end; i++) {
        if (m->inst[i].op == NULL) continue;
        matrix += m->inst[i].op->class == CLASS_MATRIX;
        atomic += m->inst[i].op->class == CLASS_ATOMIC;
    }
    return matrix > 0 && atomic == 0;
}

struct run *launch_begin(struct launch *l)
{
    const struct kernel *k = l->kernel;
    const uint32_t grid_groups = l->grid[0] * l->grid[1] * l->grid[2], sample = (uint32_t)setting("FORGE_GFXSIM_SAMPLE", 0);
    const uint32_t n_groups = sample > 0 && sample < grid_groups && can_be_sampled(k) ? sample : grid_groups,
        n_waves = divide_up(l->threads[0] * l->threads[1] * l->threads[2], k->wave);
    const uint32_t lds_bytes = k->lds_bytes + l->dynamic_lds;
    struct run *r = need(calloc(1, sizeof *r));
    *r = (struct run){ .launch = l, .n_groups = n_groups, .grid_groups = grid_groups, .n_waves = n_waves, .lds_bytes = lds_bytes,
                       .rows = l->chip->isa->accumulators ? MAX_VGPRS : ACC,
                       .resident = least(resident_groups(l, n_waves, lds_bytes), n_groups),
                       .limit = setting("FORGE_GFXSIM_LIMIT", 0), .full_slice = (uint32_t)setting("FORGE_GFXSIM_SLICE", SLICE),
                       .seed = setting("FORGE_GFXSIM_SEED", 0), .n_workers = thread_count(n_groups) };
    if (r->full_slice == 0) r->full_slice = 1;
    if (n_groups < grid_groups) l->channels.count = 0;           /* in a sample few loads are in flight at a time */
    r->slots = need(calloc(r->resident, sizeof *r->slots));
    r->workers = take(r->n_workers * sizeof *r->workers);
    memset(r->workers, 0, r->n_workers * sizeof *r->workers);
    for (uint32_t i = 0; i < r->n_workers; i++) r->workers[i].run = r;
    order_launch_begin(l);
    if (l->several) peers_launch_begin(l);
    start_workers(r->workers, r->n_workers);
    return r;
}

bool launch_turn(struct run *r)
{
    order_launch_enter(r->launch);
    fill_slots(r);
    r->stop = r->n_slots == 0 || has_failed(r->launch);
    if (r->n_workers > 1) pthread_barrier_wait(&r->gate);
    if (r->stop) return false;
    run_round(r->workers);
    if (r->n_workers > 1) pthread_barrier_wait(&r->gate);
    check_progress(r);
    return true;
}

uint64_t launch_progress(const struct run *r) { return r->progress + r->launch->stores; }
uint32_t launch_slice(const struct run *r) { return r->slice; }
void launch_stop(struct run *r) { __atomic_store_n(&r->launch->failed, LAUNCH_FAILURE, __ATOMIC_RELAXED); }
void launch_stuck(struct run *r, const char *why) { report_stuck(r, FINDING_DEADLOCK, why); }

/* Called after launch_turn returned false. */
int launch_end(struct run *r)
{
    struct launch *l = r->launch;
    order_launch_enter(l);
    stop_workers(r->workers, r->n_workers);
    order_launch_end(l);
    l->ran = r->n_groups;
    if (l->channels.count > 0) channels_count(&l->counters, &r->steps, &l->channels);
    if (r->n_groups < r->grid_groups) counters_scale(&l->counters, r->grid_groups, r->n_groups);
    if (l->stats) stats_launch(l);
    free(r->workers);
    free(r->slots);
    free(r);
    return has_failed(l) ? LAUNCH_FAILURE : 0;
}

int launch_run(struct launch *l)
{
    struct run *r = launch_begin(l);
    while (launch_turn(r)) { }
    return launch_end(r);
}
