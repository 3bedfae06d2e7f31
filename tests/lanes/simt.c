/* simt.c -- lanes as fibers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                              /* MAP_ANONYMOUS */
#endif
#include "simt.h"
#include <stdbool.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif
/* ThreadSanitizer must know which fiber continues, and must not count the calls in which a lane ends: they do not return. */
#define UNCOUNTED
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define TSAN
#undef UNCOUNTED
#define UNCOUNTED __attribute__((disable_sanitizer_instrumentation))
#endif
#endif

enum { STACK_BYTES = 256 << 10, SHARE_BYTES = 128, MAX_LANES = SIMT_MAX_THREADS * SIMT_MAX_CLUSTER, MAX_WAVES = MAX_LANES / 32 };
enum state { READY, AT_BARRIER, AT_CLUSTER, AT_SHARE, DONE };

struct lane {
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
#if defined(TSAN)
    void *fiber;
#endif
    enum state state;
    uint32_t   shares;                    /* wave operations so far */
};

/* lanes: of all workgroups of a cluster, one workgroup after the other; x: of the first workgroup; current: the running lane, which is
 * thread `thread` of workgroup `rank` of the cluster; paused: a lane polls for a value of another GPU. */
struct machine {
    simt_kernel *kernel;
    const struct forge_kernel_args *args;
    uint32_t threads, wave, groups, x, y, current, rank, thread;
    bool paused;
    struct lane lanes[MAX_LANES];
    uint8_t *stacks;
    _Alignas(1024) uint8_t lds[SIMT_MAX_CLUSTER][SIMT_LDS_BYTES];
    _Alignas(16) uint8_t shared[MAX_WAVES][2][64 * SHARE_BYTES];
#if defined(__x86_64__)
    void *scheduler;
#else
    ucontext_t scheduler;
#endif
#if defined(TSAN)
    void *fiber;
#endif
};

static struct machine one;
/* Every access of a kernel reads this variable.  In a library loaded by dlopen() each read would call a function, which costs 50 % more
 * time. */
#if defined(__GLIBC__)
__attribute__((tls_model("initial-exec")))
#endif
static _Thread_local struct machine *mine = &one;

void simt_machine_new(void)
{
    mine = mmap(NULL, sizeof *mine, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine == MAP_FAILED) { perror("simt"); abort(); }
}

#if defined(TSAN)
#define TELL_FIBER(of) __tsan_switch_to_fiber((of)->fiber, 0)
#else
#define TELL_FIBER(of) ((void)0)
#endif

#if defined(__x86_64__)
/* Saves the callee-saved registers and the stack pointer in *from, continues at to.  System V ABI, section 3.2.1. */
void simt_switch(void **from, void *to);
__asm__(".text\n.globl simt_switch\n.type simt_switch,@function\nsimt_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size simt_switch,.-simt_switch\n");
static void resume(struct machine *m, struct lane *l) { TELL_FIBER(l); simt_switch(&m->scheduler, l->sp); }
UNCOUNTED static void yield(struct machine *m, struct lane *l)  { TELL_FIBER(m); simt_switch(&l->sp, m->scheduler); }
#else
static void resume(struct machine *m, struct lane *l) { TELL_FIBER(l); swapcontext(&m->scheduler, &l->context); }
UNCOUNTED static void yield(struct machine *m, struct lane *l)  { TELL_FIBER(m); swapcontext(&l->context, &m->scheduler); }
#endif

uint32_t simt_thread(void)       { return mine->thread; }
uint32_t simt_group_x(void)      { return mine->x + mine->rank; }
uint32_t simt_group_y(void)      { return mine->y; }
uint32_t simt_cluster_rank(void) { return mine->rank; }
uint8_t *simt_lds(uint32_t rank);
uint8_t *simt_lds(uint32_t rank) { return mine->lds[rank]; }

UNCOUNTED static void wait_in(enum state state)
{
    struct machine *const m = mine;
    struct lane *l = &m->lanes[m->current];
    l->state = state;
    yield(m, l);
}

void simt_barrier(void), simt_cluster_barrier(void), simt_pause(void);
void simt_barrier(void) { wait_in(AT_BARRIER); }
void simt_cluster_barrier(void) { wait_in(AT_CLUSTER); }
/* The other lanes run meanwhile: the other GPU may store the awaited value only after it has received theirs. */
void simt_pause(void)
{
    struct machine *const m = mine;
    m->paused = true;
    yield(m, &m->lanes[m->current]);
}

/* Two areas alternate: a lane can be one operation ahead of a lane that still reads. */
const void *simt_share(const void *word, uint32_t bytes);
const void *simt_share(const void *word, uint32_t bytes)
{
    if (bytes > SHARE_BYTES) { fprintf(stderr, "simt: a lane shares %u bytes; the maximum is %d\n", bytes, SHARE_BYTES); abort(); }
    struct machine *const m = mine;
    struct lane *l = &m->lanes[m->current];
    uint8_t *area = m->shared[m->current / m->wave][l->shares++ % 2];
    memcpy(area + (size_t)(m->current % m->wave) * bytes, word, bytes);
    wait_in(AT_SHARE);
    return area;
}

UNCOUNTED static void lane_main(void)
{
    mine->kernel(*mine->args);
    wait_in(DONE);
    abort();
}

static void lane_start(struct machine *m, uint32_t i)
{
    struct lane *l = &m->lanes[i];
    uint8_t *stack = m->stacks + (size_t)i * STACK_BYTES;
    l->state = READY;
    l->shares = 0;
#if defined(TSAN)
    if (!l->fiber) l->fiber = __tsan_create_fiber(0);
#endif
#if defined(__x86_64__)
    void **sp = (void **)(void *)(stack + STACK_BYTES - 64);
    *--sp = NULL;                                     /* return address of lane_main: the stack is 8 modulo 16 on entry */
    *--sp = (void *)(uintptr_t)lane_main;
    sp -= 6;
    memset(sp, 0, 6 * sizeof *sp);
    l->sp = sp;
#else
    getcontext(&l->context);
    l->context.uc_stack.ss_sp = stack;
    l->context.uc_stack.ss_size = STACK_BYTES;
    l->context.uc_link = NULL;
    makecontext(&l->context, lane_main, 0);
#endif
}

static bool release_wave(struct machine *m, uint32_t first)
{
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = first; i < first + m->wave; i++) {
        waiting += m->lanes[i].state == AT_SHARE;
        done += m->lanes[i].state == DONE;
    }
    if (!waiting || waiting + done < m->wave) return false;
    for (uint32_t i = first; i < first + m->wave; i++) {
        if (m->lanes[i].state != AT_SHARE) continue;
        if (done) {
            fprintf(stderr, "simt: wave %u of group %u,%u: %u lanes ended, the others wait in a wave operation\n",
                    first % m->threads / m->wave, m->x + first / m->threads, m->y, done);
            abort();
        }
        m->lanes[i].state = READY;
    }
    return true;
}

/* Releases lanes first .. first + n - 1 if all of them wait in this state; at a barrier of a cluster, lanes may have ended. */
static bool release_barrier(struct machine *m, enum state state, uint32_t first, uint32_t n)
{
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = first; i < first + n; i++) {
        waiting += m->lanes[i].state == state;
        done += m->lanes[i].state == DONE;
    }
    if (!waiting || waiting + done < n) return false;
    if (done && state == AT_BARRIER) {
        fprintf(stderr, "simt: group %u,%u: %u lanes ended, the others wait at a barrier\n", m->x + first / m->threads, m->y, done);
        abort();
    }
    for (uint32_t i = first; i < first + n; i++)
        if (m->lanes[i].state == state) m->lanes[i].state = READY;
    return true;
}

static bool release_barriers(struct machine *m)
{
    bool released = false;
    for (uint32_t g = 0; g < m->groups; g++) released |= release_barrier(m, AT_BARRIER, g * m->threads, m->threads);
    return released || release_barrier(m, AT_CLUSTER, 0, m->groups * m->threads);
}

static uint32_t draw(uint32_t *seed) { *seed ^= *seed << 13; *seed ^= *seed >> 17; *seed ^= *seed << 5; return *seed; }

static void run_cluster(struct machine *m, uint32_t *seed)
{
    const uint32_t n = m->threads * m->groups, turn = *seed ? draw(seed) % (n / m->wave) : 0;
    for (uint32_t i = 0; i < n; i++) lane_start(m, i);
    for (uint32_t n_done = 0; n_done < n; ) {
        bool ran = false;
        for (uint32_t w = 0; w < n / m->wave; w++) {
            const uint32_t first = (w + turn) % (n / m->wave) * m->wave, rank = first / m->threads;
            do {
                for (uint32_t k = 0; k < m->wave; k++) {
                    const uint32_t i = first + (*seed & 1 ? m->wave - 1 - k : k);
                    if (m->lanes[i].state != READY) continue;
                    m->current = i;
                    m->rank = rank;
                    m->thread = i - rank * m->threads;
                    resume(m, &m->lanes[i]);
                    n_done += m->lanes[i].state == DONE;
                    ran = true;
                }
            } while (release_wave(m, first));
        }
        if (m->paused) sched_yield();
        m->paused = false;
        if (!ran && !release_barriers(m) && n_done < n) {
            fprintf(stderr, "simt: group %u,%u: deadlock: lane 0 of each wave is in state", m->x, m->y);
            for (uint32_t i = 0; i < n; i += m->wave) fprintf(stderr, " %d", (int)m->lanes[i].state);
            fprintf(stderr, " (0 ready, 1 barrier, 2 barrier of the cluster, 3 wave operation, 4 ended)\n");
            abort();
        }
    }
}

/* Checks that LDS of workgroup k of the cluster is poison from byte `bytes` on. */
static void check_beyond(const struct machine *m, uint32_t k, uint32_t bytes)
{
    const uint8_t *lds = m->lds[k];
    const uint32_t n = SIMT_LDS_BYTES - bytes;
    if (n == 0 || (lds[bytes] == SIMT_POISON && memcmp(lds + bytes, lds + bytes + 1, n - 1) == 0)) return;
    while (lds[bytes] == SIMT_POISON) bytes++;
    fprintf(stderr, "simt: group %u,%u wrote LDS byte %u, beyond the LDS of the launch\n", m->x + k, m->y, bytes);
    abort();
}

void simt_launch_clusters(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                          uint32_t wave, uint32_t lds_bytes, uint32_t seed, uint32_t cluster)
{
    if (threads > SIMT_MAX_THREADS || threads % wave || lds_bytes > SIMT_LDS_BYTES || cluster > SIMT_MAX_CLUSTER || grid_x % cluster) {
        fprintf(stderr, "simt: a launch cannot have %u threads, waves of %u, %u bytes of LDS and clusters of %u\n", threads, wave,
            lds_bytes, cluster);
        abort();
    }
    struct machine *const m = mine;
    if (!m->stacks) {
        m->stacks = mmap(NULL, (size_t)MAX_LANES * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m->stacks == MAP_FAILED) { perror("simt"); abort(); }
    }
#if defined(TSAN)
    m->fiber = __tsan_get_current_fiber();
#endif
    m->kernel = kernel;
    m->args = args;
    m->threads = threads;
    m->wave = wave;
    m->groups = cluster;
    const uint32_t n = grid_x / cluster * grid_y, turn = seed ? draw(&seed) % n : 0;
    for (uint32_t g = 0; g < n; g++) {
        const uint32_t i = (g + turn) % n;
        m->x = i % (grid_x / cluster) * cluster;
        m->y = i / (grid_x / cluster);
        memset(m->lds, SIMT_POISON, cluster * sizeof *m->lds);
        run_cluster(m, &seed);
        for (uint32_t k = 0; k < cluster; k++) check_beyond(m, k, lds_bytes);
    }
}

void simt_launch(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                 uint32_t wave, uint32_t lds_bytes, uint32_t seed)
{
    simt_launch_clusters(kernel, args, grid_x, grid_y, threads, wave, lds_bytes, seed, 1);
}
