/* simt.c -- lanes as fibers. */
#include "simt.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { STACK_BYTES = 256 << 10, SHARE_BYTES = 128, MAX_WAVES = SIMT_MAX_THREADS / 32 };
enum state { READY, AT_BARRIER, AT_SHARE, DONE };

struct lane {
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
    enum state state;
    uint32_t   shares;                    /* wave operations so far */
};

_Alignas(128) uint8_t simt_lds[SIMT_LDS_BYTES];

static struct {
    simt_kernel *kernel;
    const struct forge_kernel_args *args;
    uint32_t threads, wave, x, y, current;
    struct lane lanes[SIMT_MAX_THREADS];
    uint8_t *stacks;
    _Alignas(16) uint8_t shared[MAX_WAVES][2][64 * SHARE_BYTES];
#if defined(__x86_64__)
    void *scheduler;
#else
    ucontext_t scheduler;
#endif
} m;

#if defined(__x86_64__)
/* Saves the callee-saved registers and the stack pointer in *from, continues at to.  System V ABI, section 3.2.1. */
void simt_switch(void **from, void *to);
__asm__(".text\n.globl simt_switch\n.type simt_switch,@function\nsimt_switch:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n.size simt_switch,.-simt_switch\n");
static void resume(struct lane *l) { simt_switch(&m.scheduler, l->sp); }
static void yield(struct lane *l)  { simt_switch(&l->sp, m.scheduler); }
#else
static void resume(struct lane *l) { swapcontext(&m.scheduler, &l->context); }
static void yield(struct lane *l)  { swapcontext(&l->context, &m.scheduler); }
#endif

uint32_t simt_thread(void)  { return m.current; }
uint32_t simt_group_x(void) { return m.x; }
uint32_t simt_group_y(void) { return m.y; }

static void wait_in(enum state state)
{
    struct lane *l = &m.lanes[m.current];
    l->state = state;
    yield(l);
}

void simt_barrier(void);
void simt_barrier(void) { wait_in(AT_BARRIER); }

/* Two areas take turns: a lane can be one operation ahead of a lane that still reads. */
const void *simt_share(const void *mine, uint32_t bytes);
const void *simt_share(const void *mine, uint32_t bytes)
{
    if (bytes > SHARE_BYTES) { fprintf(stderr, "simt: a lane shares %u bytes, at most %d\n", bytes, SHARE_BYTES); abort(); }
    struct lane *l = &m.lanes[m.current];
    uint8_t *area = m.shared[m.current / m.wave][l->shares++ % 2];
    memcpy(area + (size_t)(m.current % m.wave) * bytes, mine, bytes);
    wait_in(AT_SHARE);
    return area;
}

static void lane_main(void)
{
    m.kernel(*m.args);
    wait_in(DONE);
    abort();
}

static void lane_start(uint32_t i)
{
    struct lane *l = &m.lanes[i];
    uint8_t *stack = m.stacks + (size_t)i * STACK_BYTES;
    l->state = READY;
    l->shares = 0;
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

static bool release_wave(uint32_t first)
{
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = first; i < first + m.wave; i++) {
        waiting += m.lanes[i].state == AT_SHARE;
        done += m.lanes[i].state == DONE;
    }
    if (!waiting || waiting + done < m.wave) return false;
    for (uint32_t i = first; i < first + m.wave; i++) {
        if (m.lanes[i].state != AT_SHARE) continue;
        if (done) { fprintf(stderr, "simt: wave %u of group %u,%u: %u lanes ended, the others wait in a wave operation\n", first / m.wave, m.x, m.y, done); abort(); }
        m.lanes[i].state = READY;
    }
    return true;
}

static bool release_barrier(void)
{
    uint32_t waiting = 0, done = 0;
    for (uint32_t i = 0; i < m.threads; i++) {
        waiting += m.lanes[i].state == AT_BARRIER;
        done += m.lanes[i].state == DONE;
    }
    if (!waiting || waiting + done < m.threads) return false;
    if (done) { fprintf(stderr, "simt: group %u,%u: %u lanes ended, the others wait at a barrier\n", m.x, m.y, done); abort(); }
    for (uint32_t i = 0; i < m.threads; i++) m.lanes[i].state = READY;
    return true;
}

static uint32_t draw(uint32_t *seed) { *seed ^= *seed << 13; *seed ^= *seed >> 17; *seed ^= *seed << 5; return *seed; }

static void run_group(uint32_t *seed)
{
    for (uint32_t i = 0; i < m.threads; i++) lane_start(i);
    const uint32_t turn = *seed ? draw(seed) % (m.threads / m.wave) : 0;
    for (uint32_t n_done = 0; n_done < m.threads; ) {
        bool ran = false;
        for (uint32_t w = 0; w < m.threads / m.wave; w++) {
            const uint32_t first = (w + turn) % (m.threads / m.wave) * m.wave;
            do {
                for (uint32_t k = 0; k < m.wave; k++) {
                    const uint32_t i = first + (*seed & 1 ? m.wave - 1 - k : k);
                    if (m.lanes[i].state != READY) continue;
                    m.current = i;
                    resume(&m.lanes[i]);
                    n_done += m.lanes[i].state == DONE;
                    ran = true;
                }
            } while (release_wave(first));
        }
        if (!ran && !release_barrier() && n_done < m.threads) {
            fprintf(stderr, "simt: group %u,%u: deadlock: lane 0 of each wave is in state", m.x, m.y);
            for (uint32_t i = 0; i < m.threads; i += m.wave) fprintf(stderr, " %d", (int)m.lanes[i].state);
            fprintf(stderr, " (0 ready, 1 barrier, 2 wave operation, 3 ended)\n");
            abort();
        }
    }
}

void simt_launch(simt_kernel *kernel, const struct forge_kernel_args *args, uint32_t grid_x, uint32_t grid_y, uint32_t threads, uint32_t wave,
                 uint32_t lds_bytes, uint32_t seed)
{
    if (threads > SIMT_MAX_THREADS || threads % wave || lds_bytes > SIMT_LDS_BYTES) { fprintf(stderr, "simt: %u threads, wave %u, %u bytes of LDS\n", threads, wave, lds_bytes); abort(); }
    if (!m.stacks) {
        m.stacks = mmap(NULL, (size_t)SIMT_MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (m.stacks == MAP_FAILED) { perror("simt"); abort(); }
    }
    m.kernel = kernel;
    m.args = args;
    m.threads = threads;
    m.wave = wave;
    const uint32_t n = grid_x * grid_y, turn = seed ? draw(&seed) % n : 0;
    for (uint32_t g = 0; g < n; g++) {
        const uint32_t i = (g + turn) % n;
        m.x = i % grid_x;
        m.y = i / grid_x;
        memset(simt_lds, SIMT_POISON, sizeof simt_lds);
        run_group(&seed);
        for (uint32_t k = lds_bytes; k < SIMT_LDS_BYTES; k++)
            if (simt_lds[k] != SIMT_POISON) { fprintf(stderr, "simt: group %u,%u wrote LDS byte %u of %u\n", m.x, m.y, k, lds_bytes); abort(); }
    }
}
