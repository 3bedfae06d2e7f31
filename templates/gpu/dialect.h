/* dialect.h -- the few words a GPU template may use that are not plain C11.  One source, three compilations: HIP for AMD, CUDA for
 * NVIDIA (clang, no vendor headers), and C11 for tests/lanes, which runs the lanes of a group as fibers on the host.
 * What depends on the GPU stands in the file of its family in machine/, which choose.h finds; what those words mean stands here, with what
 * is built on them.
 *
 *   FAMILY, WAVE                the family (machine/families.h); lanes of a wave
 *   KERNEL(threads, groups)     declares a kernel; groups: how many groups of so many threads a compute unit should hold at once, which
 *                               bounds the registers.  The one parameter of every kernel is `a`
 *   GLOBAL                      of pointers to global memory
 *   UNROLL                      before a loop whose arrays are to become registers
 *   thread_x, group_x, group_y, lane_id       who am I
 *   uniform(x)                  x, which is equal in all lanes, in a scalar register where there are any
 *   lds()                       LDS (shared memory): all of it is dynamic; the plan knows the bytes, kernels divide it by constants
 *   barrier                     all threads of the group; LDS written before is visible after
 *   wave_barrier                the lanes of a wave see each other's LDS writes
 *   meet_*                      where there are products of bytes (FAMILY_MMA_BYTES): some waves of a group wait for each other, and work
 *                               between arriving and waiting.  meet_init(p, waves) by one thread, p: MEET_BYTES of LDS; others call the
 *                               rest after a barrier().  meet_arrive(p) by every lane; meet_wait(p, n) by every thread of the group:
 *                               until all have arrived n + 1 times, whose LDS writes are then seen
 *   cluster_*                   clusters: groups, neighbours in x, that run together and write each other's LDS; launched as such
 *                               (forge_gpu_launch.cluster), NVIDIA only.  cluster_arrive() once by every thread, early; cluster_started()
 *                               before the first store to another group; what was stored is seen after cluster_barrier().
 *                               cluster_store16(p, rank, x), _store8, _store4: p, in this group's LDS, is stored at the same place of
 *                               group `rank` of the cluster
 *   pdl_launch, pdl_wait        dependent launch: weights may be loaded before, everything an earlier kernel wrote only after pdl_wait().
 *                               Every thread calls both once; nothing is written to global memory before the wait.  No-ops but on NVIDIA
 *   DEPENDENT_LAUNCH            constant: is there time before pdl_wait()?  If not, what an earlier kernel wrote is asked for first,
 *                               because it is needed first where loads are waited for in order (LOADS_IN_ORDER)
 *   load_weights16, 8, 4, 2     read-only weights, aligned to their size
 *   load_settled16, 8, 4, 2     what an earlier step wrote: may be loaded before pdl_wait(), because the first launch of a step waits for
 *                               all of the step before (runtime/device/gpu_step.c)
 *   PIN(x), PIN_F32(x)          keeps a load where it stands: neither sunk to its use nor merged with a later one.  x: any 32-bit register
 *                               value
 *   PIN_BASE, PIN_OFFSET        keep an address as a base for all lanes and a lane's offset
 *   plane_at(row, at, plane)    byte `at` of the plane of a row that begins at byte `plane`, a constant; quants_at: of packed weights
 *   store_host_u32              to memory of the host, without waiting until it has arrived
 *   load_shared_f32, store_shared_f32         data that other groups of the same launch wrote: past the caches that are not coherent
 *   stores_done                 this thread's stores are where a counter_add() or store_flag() that follows makes them seen
 *   store_peer, load_peer       8 bytes at once of memory that several GPUs reach: to where they see it, from where they left it;
 *                               load_peer_f32: 4 of them
 *   store_flag(p, x), load_flag(p)            4 bytes of it that say that other values are there: who has loaded x sees all that the group
 *                               stored with store_peer before stores_done(), a barrier() and peer_release() by the thread that stores flags
 *   poll_pause                  between two looks at what another GPU will store
 *   counter_add                 release what this group wrote, count, acquire what others wrote; returns the count before
 *   acquire                     what others released is seen
 *   lane_get_u32(x, lane), lane_xor_u32(x, mask), lane_other_u32(x, mask)
 *                               x of another lane: of that number, of this one's ^ mask, a constant; lane_other: the same where lanes that
 *                               differ below bit `mask` have the same x
 *   wave_any(x), wave_first(x)  whether some lane of the wave has it, the first that has (one does); the same in all lanes
 *   wave_max_u32(x)             of all lanes
 *   lane_of_wave_u32(x, lane)   as lane_get_u32, of one lane for all
 *   dot4(a, b, c)               c + the products of four pairs of signed bytes
 *   max_f32, min_f32, exp2_f32, log2_f32, rcp_f32, rsqrt_f32, round_f32 (to nearest even)
 *   byte_perm(lo, hi, selector) bytes picked from {hi, lo}: selector byte i in 0..3 takes byte of lo, 4..7 of hi
 *   byte_align(lo, hi, n)       bytes n .. n + 3 of {hi, lo}, n in 0..5; what lies beyond the eighth byte is anything
 *   f16x2_bits_cut, dot2_f16    two floats as f16, rounded toward zero; c + the products of two pairs of f16 (where sums become an operand
 *                               B: mma.h)
 * and what mma.h lists. */
#ifndef FORGE_DIALECT_H
#define FORGE_DIALECT_H
#include "machine/words.h"
#include "machine/choose.h"

#ifndef FORGE_ABI_H
#include "runtime/model/abi_gpu.h"
#endif

DEVICE uint32_t wave_id(void) { return uniform(thread_x() / WAVE); }

/* True in every thread of the group of n that comes here last; it then sees what all of them wrote with store_shared_f32 (or plainly)
 * before.  flag: 4 bytes of LDS.  counter: device memory, 0 before and after. */
DEVICE uint32_t last_to_arrive(uint32_t *counter, const uint32_t n, uint32_t *flag)
{
    stores_done();
    barrier();
    if (thread_x() == 0) {
        const uint32_t last = counter_add(counter) == n - 1;
        if (last) *counter = 0;
        *flag = last;
    }
    barrier();
    const uint32_t last = *flag;
    if (last) acquire();
    return last;
}

/* ---- lanes ---- */
DEVICE float lane_xor_f32(float x, const uint32_t mask) { return f32_of_bits(lane_xor_u32(bits_of_f32(x), mask)); }
DEVICE float lane_other_f32(float x, const uint32_t mask) { return f32_of_bits(lane_other_u32(bits_of_f32(x), mask)); }
/* Over each run of `lanes` lanes (a power of two, a constant): every lane gets the result, the same bits in all of them.  lanes_sums_f32:
 * of n values, a step of all of them at a time, because on AMD an exchange has to wait for the addition before it; from rows of 16 lanes
 * on a family may have its own way. */
#ifndef LANES_SUMS_ROWS_IS_OWN
DEVICE void lanes_sums_rows_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    UNROLL
    for (uint32_t mask = 16; mask < lanes; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
}
#endif
DEVICE void lanes_sums_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    UNROLL
    for (uint32_t mask = 1; mask < lanes && mask < 16; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
    lanes_sums_rows_f32(x, n, lanes);
}
DEVICE float lanes_sum_f32(float x, const uint32_t lanes)
{
    lanes_sums_f32(&x, 1, lanes);
    return x;
}
DEVICE uint32_t lanes_sum_u32(uint32_t x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x += lane_other_u32(x, mask);
    return x;
}
DEVICE float abs_f32(float x) { return __builtin_fabsf(x); }
DEVICE uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
DEVICE float lanes_max_f32(float x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x = max_f32(x, lane_other_f32(x, mask));
    return x;
}
DEVICE uint32_t lanes_max_u32(uint32_t x, const uint32_t lanes)
{
    for (uint32_t mask = 1; mask < lanes; mask *= 2) x = max_u32(x, lane_other_u32(x, mask));
    return x;
}
#ifndef WAVE_MAX_IS_OWN
DEVICE uint32_t wave_max_u32(uint32_t x) { return lanes_max_u32(x, WAVE); }
#endif

/* ---- arithmetic ---- */
/* Floats in their order as integers, the same for -0 and 0; 0: NaN. */
DEVICE uint32_t order_of_f32(float x)
{
    const uint32_t u = bits_of_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0;
    if (u == 0x80000000u) return 0x80000000u;
    return u >> 31 ? ~u : u | 0x80000000u;
}
/* A table of 16 bytes (t.x: 0..3) read at the eight nibbles of w: low has nibbles 0-3, one a byte, high 4-7. */
#ifndef TABLE16_IS_OWN                           /* a selector of byte_perm() is a byte: even and odd nibbles, then sorted */
DEVICE void table16(uint32_t *low, uint32_t *high, uint32_t w, const u32x4 t)
{
    const uint32_t e = w & 0x07070707u, o = w >> 4 & 0x07070707u;
    const uint32_t even = byte_perm(byte_perm(t.x, t.y, e), byte_perm(t.z, t.w, e), (w >> 1 & 0x04040404u) | 0x03020100u);
    const uint32_t odd  = byte_perm(byte_perm(t.x, t.y, o), byte_perm(t.z, t.w, o), (w >> 5 & 0x04040404u) | 0x03020100u);
    *low  = byte_perm(even, odd, 0x05010400u);
    *high = byte_perm(even, odd, 0x07030602u);
}
#endif
#ifndef TABLE8_IS_OWN                            /* a table of 8 bytes (low: 0..3) read at four bytes below 8 */
DEVICE uint32_t table8(const uint32_t low, const uint32_t high, const uint32_t at) { return byte_perm(low, high, at); }
#endif
DEVICE float silu_f32(float x) { return x * rcp_f32(1.0f + exp2_f32(-1.44269504f * x)); }
/* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x sigmoid(2 ...)  (Hendrycks & Gimpel 2016) */
DEVICE float gelu_f32(float x) { return x * rcp_f32(1.0f + exp2_f32(-2.30220819f * (x + 0.044715f * x * x * x))); }

/* ---- what a kernel knows ---- */
DEVICE const uint8_t *weight_of(const struct forge_kernel_args a, const uint32_t slot)
{
    __builtin_assume(a.weights != 0);
    return a.weights + a.weight[slot];
}
#define WEIGHT(slot)   weight_of(a, slot)
#define VECTOR(slot)   ((const float *)(const void *)WEIGHT(slot))
#define BUFFER(offset) (a.arena + (offset))
#define FLOATS(offset) ((float *)(void *)BUFFER(offset))
#define ROW(offset, stride, t) (BUFFER(offset) + (uint64_t)(stride) * (t))
#define FLOAT_ROW(offset, stride, t) ((float *)(void *)ROW(offset, stride, t))

#endif
