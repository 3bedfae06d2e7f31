/* threads.c -- a pool of threads and their barrier.  Dissemination barrier: in round r thread i signals thread i + 2^r and waits for thread
 * i - 2^r (modulo n), so after ceil(log2 n) rounds every thread has a signal from all others, directly or indirectly.  Two threads need one
 * cache-line transfer, in both directions at once.  (Hensgen, Finkel, Manber 1988; Mellor-Crummey and Scott 1991,
 * doi:10.1145/103727.103729, algorithm 9.)
 * Each flag has one writer and one waiter.  The waiter spins for microseconds and then sleeps on the flag: if the kernel has taken the
 * awaited thread off its core, the waiter must not burn time that this thread could use. */
#include "threads.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE = 128,                 /* two cache lines: x86 prefetches them in pairs */
    ROUNDS = 9,                 /* 2^9 = FORGE_MAX_THREADS */
    SPIN_MIN_NS = 10000, SPIN_START_NS = 20000, SPIN_MAX_NS = 100000,
    IDLE_SPIN_NS = 100000,      /* between two steps the main thread samples a token, which takes tens of microseconds */
    HOT_SPINS = 300,            /* polls without a pause instruction: less than a microsecond */
    SPINS_PER_CLOCK = 32,       /* polls between two readings of the clock */
    MOVE_EVERY_NS = 5000000,    /* least time between two changes of a thread's affinity */
};
_Static_assert(1 << ROUNDS == FORGE_MAX_THREADS, "rounds of the barrier");

#define SLEEPING 1u             /* bit 0 of a flag: its waiter sleeps; the other bits count barriers */

struct flag { _Alignas(LINE) _Atomic uint32_t word; };

struct worker {
    struct flag flags[ROUNDS];                  /* written by thread i - 2^r */
    _Alignas(LINE) uint32_t epoch;              /* barriers passed, times two; private to the thread */
    uint32_t spin_ns;                           /* private: how long spinning has been worthwhile recently */
    uint64_t moved_ns;                          /* private: when it last changed its affinity */
    _Alignas(LINE) _Atomic int32_t cpu;         /* the processor on which the thread last found itself */
    struct forge_pool *pool;
    uint32_t thread;
    pthread_t handle;
};

struct forge_pool {
    uint32_t n_threads, n_rounds;
    forge_job *job;                             /* NULL ends the workers; passed on by the barrier */
    void *context;
    struct worker *workers;                     /* [n_threads] */
    struct forge_turn *turns;                   /* [n_threads] */
    cpu_set_t *allowed, *scratch;               /* affinity of the process at the start; [n_threads] sets for move_away */
    size_t set_bytes;
};

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");       /* yield is a no-op on most cores; isb waits some tens of cycles */
#endif
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* The counter wraps; a flag may be one barrier ahead of its waiter. */
static bool reached(uint32_t word, uint32_t epoch) { return (int32_t)((word & ~SLEEPING) - epoch) >= 0; }

static void flag_raise(struct flag *flag, uint32_t epoch)
{
    if (atomic_exchange_explicit(&flag->word, epoch, memory_order_acq_rel) & SLEEPING) futex_wake(&flag->word);
}

/* When another core is busy, the kernel tends to put a thread that wakes up on the core of the thread that woke it.  There the two
 * alternate, at several microseconds per barrier, and nothing separates them again.  So the thread that notices this excludes the
 * current processors of all other threads from its own affinity, and moves. */
static void move_away(struct forge_pool *pool, struct worker *self)
{
    const uint64_t now = now_ns();
    if (!pool->allowed || now - self->moved_ns < MOVE_EVERY_NS) return;
    self->moved_ns = now;
    cpu_set_t *set = (cpu_set_t *)((char *)pool->scratch + self->thread * pool->set_bytes);
    memcpy(set, pool->allowed, pool->set_bytes);
    for (uint32_t i = 0; i < pool->n_threads; i++) {
        const int32_t cpu = atomic_load_explicit(&pool->workers[i].cpu, memory_order_relaxed);
        if (i != self->thread && cpu >= 0 && cpu < FORGE_MAX_CPUS) CPU_CLR_S((size_t)cpu, pool->set_bytes, set);
    }
    if (CPU_COUNT_S(pool->set_bytes, set) > 0) sched_setaffinity(0, pool->set_bytes, set);
}

static void flag_wait_long(struct worker *self, struct flag *flag, uint32_t epoch, const struct worker *from, bool idle)
{
    const uint64_t start = now_ns();
    const uint64_t limit = idle ? IDLE_SPIN_NS : self->spin_ns;
    const int32_t cpu = sched_getcpu();
    atomic_store_explicit(&self->cpu, cpu, memory_order_relaxed);
    /* The awaited thread is on this very core, so spinning would only keep it from running. */
    const bool same_cpu = cpu >= 0 && atomic_load_explicit(&from->cpu, memory_order_relaxed) == cpu;
    if (same_cpu) move_away(self->pool, self);
    while (!same_cpu && now_ns() - start < limit) {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            if (reached(atomic_load_explicit(&flag->word, memory_order_acquire), epoch)) return;
            pause_cpu();
        }
    }
    uint32_t word = atomic_load_explicit(&flag->word, memory_order_acquire);
    while (!reached(word, epoch)) {
        if ((word & SLEEPING) == 0 &&
            !atomic_compare_exchange_weak_explicit(&flag->word, &word, word | SLEEPING,
                                                   memory_order_acquire, memory_order_acquire))
            continue;
        futex_wait(&flag->word, word | SLEEPING);
        word = atomic_load_explicit(&flag->word, memory_order_acquire);
    }
    atomic_store_explicit(&self->cpu, sched_getcpu(), memory_order_relaxed);
    if (idle || same_cpu) return;
    /* If the wait ended soon, spinning longer would have been worthwhile; if it was much longer, spinning was useless. */
    if (now_ns() - start < SPIN_MAX_NS) self->spin_ns = self->spin_ns * 2 < SPIN_MAX_NS ? self->spin_ns * 2 : SPIN_MAX_NS;
    else                                self->spin_ns = self->spin_ns / 2 > SPIN_MIN_NS ? self->spin_ns / 2 : SPIN_MIN_NS;
}

static void meet(struct forge_pool *pool, uint32_t thread, bool idle)
{
    struct worker *self = &pool->workers[thread];
    const uint32_t n = pool->n_threads, epoch = self->epoch + 2;
    self->epoch = epoch;
    for (uint32_t round = 0; round < pool->n_rounds; round++) {
        const uint32_t distance = 1u << round;
        uint32_t to = thread + distance, from = thread + n - distance;
        if (to >= n) to -= n;
        if (from >= n) from -= n;
        flag_raise(&pool->workers[to].flags[round], epoch);
        struct flag *flag = &self->flags[round];
        bool here = false;
        for (int i = 0; i < HOT_SPINS && !here; i++)
            here = reached(atomic_load_explicit(&flag->word, memory_order_acquire), epoch);
        if (!here) flag_wait_long(self, flag, epoch, &pool->workers[from], idle);
    }
}

void pool_barrier(struct forge_pool *pool, uint32_t thread) { meet(pool, thread, false); }

static void *worker_main(void *argument)
{
    struct worker *self = argument;
    struct forge_pool *pool = self->pool;
    for (;;) {
        meet(pool, self->thread, true);
        if (!pool->job) return NULL;
        atomic_store_explicit(&self->cpu, sched_getcpu(), memory_order_relaxed);
        pool->job(pool->context, self->thread, pool->n_threads);
        meet(pool, self->thread, false);
    }
}

void pool_run(struct forge_pool *pool, forge_job *job, void *context)
{
    pool->job = job;
    pool->context = context;
    atomic_store_explicit(&pool->workers[0].cpu, sched_getcpu(), memory_order_relaxed);
    meet(pool, 0, false);
    if (!job) return;
    job(context, 0, pool->n_threads);
    meet(pool, 0, false);
}

void pool_stop_moving(struct forge_pool *pool)
{
    free(pool->allowed);
    pool->allowed = NULL;
}

uint32_t pool_threads(const struct forge_pool *pool) { return pool->n_threads; }

struct forge_turn *pool_turns(const struct forge_pool *pool) { return pool->n_threads > 1 ? pool->turns : NULL; }

enum forge_status pool_open(struct forge_pool **out, uint32_t n_threads, struct forge_error *error)
{
    *out = NULL;
    if (n_threads == 0 || n_threads > FORGE_MAX_THREADS)
        return error_set(error, FORGE_USAGE, "%u threads are requested; 1 to %d are possible", n_threads, FORGE_MAX_THREADS);
    struct forge_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return error_set(error, FORGE_NO_MEMORY, "out of memory for the threads");
    pool->workers = aligned_alloc(LINE, n_threads * sizeof *pool->workers);
    pool->turns = aligned_alloc(LINE, n_threads * sizeof *pool->turns);
    if (!pool->workers || !pool->turns) {
        free(pool->workers);
        free(pool->turns);
        free(pool);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the threads");
    }
    memset(pool->workers, 0, n_threads * sizeof *pool->workers);
    memset(pool->turns, 0, n_threads * sizeof *pool->turns);
    for (uint32_t i = 0; i < n_threads; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].thread = i;
        pool->workers[i].spin_ns = SPIN_START_NS;
        atomic_store_explicit(&pool->workers[i].cpu, -1, memory_order_relaxed);
    }

    /* Without these sets the threads stay where the kernel puts them. */
    pool->set_bytes = CPU_ALLOC_SIZE(FORGE_MAX_CPUS);
    pool->allowed = malloc(pool->set_bytes);
    pool->scratch = malloc(n_threads * pool->set_bytes);
    if (!pool->allowed || !pool->scratch || sched_getaffinity(0, pool->set_bytes, pool->allowed) != 0 ||
        (uint32_t)CPU_COUNT_S(pool->set_bytes, pool->allowed) < n_threads) {
        free(pool->allowed);
        pool->allowed = NULL;
    }

    /* The main thread handles signals, but a fault goes to the thread that causes it. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* No worker reads these before the first barrier, which comes after the last thread has been created. */
    pool->n_threads = n_threads;
    while (1u << pool->n_rounds < n_threads) pool->n_rounds++;
    uint32_t created = 1;
    int code = 0;
    while (created < n_threads && code == 0) {
        code = pthread_create(&pool->workers[created].handle, NULL, worker_main, &pool->workers[created]);
        if (code == 0) created++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        /* The threads that exist sleep at a barrier that never completes; its memory is therefore not freed. */
        for (uint32_t i = 1; i < created; i++) pthread_detach(pool->workers[i].handle);
        return error_set(error, FORGE_FAILED, "thread %u of %u cannot be started: %s", created, n_threads, strerror(code));
    }
    *out = pool;
    return FORGE_OK;
}

void pool_close(struct forge_pool *pool)
{
    if (!pool) return;
    pool_run(pool, NULL, NULL);
    for (uint32_t i = 1; i < pool->n_threads; i++) pthread_join(pool->workers[i].handle, NULL);
    free(pool->allowed);
    free(pool->scratch);
    free(pool->workers);
    free(pool->turns);
    free(pool);
}

/* Reads the first number of a small file; false: it does not begin with a number. */
static bool read_numbers(const char *path, const char *format, long *a, long *b)
{
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const int n = fscanf(file, format, a, b);
    fclose(file);
    return n >= 1;
}

uint32_t threads_default(uint32_t limit)
{
    uint32_t cores = 0;
    cpu_set_t *set = CPU_ALLOC(FORGE_MAX_CPUS);
    const size_t bytes = CPU_ALLOC_SIZE(FORGE_MAX_CPUS);
    if (set && sched_getaffinity(0, bytes, set) == 0) {
        for (size_t cpu = 0; cpu < FORGE_MAX_CPUS && cores < limit; cpu++) {
            if (!CPU_ISSET_S(cpu, bytes, set)) continue;
            char path[96];
            long first = (long)cpu, second = -1;
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
            /* "3,67" or "6-7": a core counts once, at its first processor, unless that processor is outside the mask */
            if (read_numbers(path, "%ld%*[,-]%ld", &first, &second) && first != (long)cpu && first >= 0 && first < FORGE_MAX_CPUS &&
                CPU_ISSET_S((size_t)first, bytes, set))
                continue;
            cores++;
        }
    }
    if (set) CPU_FREE(set);
    long quota = 0, period = 0;
    if (read_numbers("/sys/fs/cgroup/cpu.max", "%ld %ld", &quota, &period) && quota > 0 && period > 0) {
        const long whole = (quota + period - 1) / period;
        if ((long)cores > whole) cores = (uint32_t)whole;
    }
    if (cores > limit) cores = limit;
    return cores > 0 ? cores : 1;
}
