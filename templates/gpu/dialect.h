/* dialect.h -- the few words a GPU template may use that are not plain C11.  One source, three compilations: HIP for AMD, CUDA for
 * NVIDIA (clang, no vendor headers), and C11 for tests/lanes, which runs the lanes of a group as fibers on the host.
 * A GPU's own part is in the file of its family in machine/, which choose.h includes.  This file defines what these words mean, and the
 * functions built on them.
 *
 *   FAMILY, WAVE                the family (machine/families.h); lanes of a wave
 *   KERNEL(threads, groups)     declares a kernel; groups: how many groups of this many threads a compute unit should hold at once, which
 *                               limits the registers.  Every kernel has one parameter, `a`
 *   GLOBAL                      qualifies pointers to global memory
 *   UNROLL                      before a loop over arrays that must become registers
 *   thread_x, group_x, group_y, lane_id       indices of the caller
 *   uniform(x)                  x, which is equal in all lanes, in a scalar register if the GPU has any
 *   lds()                       LDS (shared memory): all of it is dynamic; the plan knows the bytes, kernels divide it by constants
 *   barrier                     all threads of the group; LDS written before is visible after
 *   memory_barrier              the same, also for global memory that the group wrote
 *   wave_barrier                the lanes of a wave see each other's LDS writes
 *   meet_*                      only where there are products of bytes (FAMILY_MMA_BYTES): some waves of a group wait for each other, and
 *                               can work between arriving and waiting.  One thread calls meet_init(p, waves), p: MEET_BYTES of LDS; the
 *                               rest follows after a barrier().  Every lane calls meet_arrive(p); every thread of the group may call
 *                               meet_wait(p, n): waits until all have arrived n + 1 times, and then sees their LDS writes
 *   cluster_*                   clusters (NVIDIA only): groups, neighbours in x, that run together and write each other's LDS; the launch
 *                               says so (forge_gpu_launch.cluster).  Every thread calls cluster_arrive() once, early, and
 *                               cluster_started() before the first store to another group; stores are visible after cluster_barrier().
 *                               cluster_store16(p, rank, x), _store8, _store4: store to group `rank` of the cluster, at the place that p
 *                               has in this group's LDS
 *   pdl_launch, pdl_wait        dependent launch: weights may be loaded before pdl_wait(), data of an earlier kernel only after it.
 *                               Every thread calls both once and writes nothing to global memory before the wait.  No-ops except on NVIDIA
 *   DEPENDENT_LAUNCH            constant: whether there is time before pdl_wait().  If not, data of an earlier kernel is requested first,
 *                               because it is needed first where loads complete in order (LOADS_IN_ORDER)
 *   load_weights16, 8, 4, 2     read-only weights, aligned to their size
 *   load_settled16, 8, 4, 2     data of an earlier step: may be loaded before pdl_wait(), because the first launch of a step waits for
 *                               the whole previous step (runtime/device/gpu_step.c)
 *   PIN(x), PIN_F32(x)          keeps a load where it is: neither sunk to its use nor merged with a later one.  x: any 32-bit register
 *                               value
 *   PIN_UNIFORM, PIN_OFFSET     keep an address as a base, an offset common to all lanes (uint32_t) and an offset per lane
 *   plane_at(row, at, plane)    byte `at` of the plane of a row that begins at byte `plane`, a constant; quants_at: for packed weights
 *   store_host_u32              stores to memory of the host, without waiting for its arrival
 *   load_shared_f32, store_shared_f32         data that other groups of the same launch wrote: bypasses caches that are not coherent
 *   stores_done                 this thread's stores are complete, so that a following counter_add() or store_flag() publishes them
 *   store_peer, load_peer       8 bytes at once in memory that several GPUs reach: visible to them, or as they stored it;
 *                               load_peer_f32: 4 bytes
 *   store_flag(p, x), load_flag(p)            4 bytes of such memory that mark other values as complete: a reader of x sees all values that
 *                               the group stored with store_peer before stores_done(), a barrier() and peer_release() by the thread that
 *                               stores flags
 *   poll_pause                  pause between two polls of memory that another GPU will store to
 *   counter_add                 releases this group's writes, counts, acquires the writes of others; returns the previous count
 *   acquire                     makes released writes of others visible
 *   lane_get_u32(x, lane), lane_xor_u32(x, mask), lane_other_u32(x, mask)
 *                               x of another lane: of this number; of this lane's number ^ mask, a constant; lane_other: the same if lanes
 *                               that differ below bit `mask` have the same x
 *   wave_any(x), wave_first(x)  whether x is set in some lane of the wave; the first such lane (there is one); the same in all lanes
 *   wave_max_u32(x)             the maximum over all lanes
 *   lane_of_wave_u32(x, lane)   as lane_get_u32, with the same lane in all lanes
 *   dot4(a, b, c)               c + the products of four pairs of signed bytes
 *   max_f32, min_f32, exp2_f32, log2_f32, rcp_f32, rsqrt_f32, round_f32 (to nearest even)
 *   byte_perm(lo, hi, selector) bytes picked from {hi, lo}: selector byte i in 0..3 takes a byte of lo, 4..7 of hi
 *   byte_align(lo, hi, n)       bytes n .. n + 3 of {hi, lo}, n in 0..5; bytes after the eighth are undefined
 *   f16x2_bits_cut, dot2_f16    two floats as f16, rounded toward zero; c + the products of two pairs of f16 (where sums become an operand
 *                               B: mma.h)
 * and the list in mma.h. */
#ifndef FORGE_DIALECT_H
#define FORGE_DIALECT_H
#include "machine/words.h"
#include "machine/choose.h"

#ifndef FORGE_ABI_H
#include "runtime/model/abi_gpu.h"
#endif

DEVICE uint32_t wave_id(void) { return uniform(thread_x() / WAVE); }

/* Returns true in every thread of the last of n groups to call this; that group then sees all that the others wrote before, plainly or with
 * store_shared_f32.  flag: 4 bytes of LDS.  counter: device memory, 0 before and after. */
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
/* Reductions over each run of `lanes` lanes (a power of two, a constant); every lane gets the result, with the same bits.  lanes_sums_f32:
 * reduces n values, one step of all of them at a time, because on AMD a lane exchange must wait for the addition before it.  For rows of 16
 * lanes and more a family may have its own implementation. */
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
/* Floats as integers in the same order; -0 and 0 are equal, NaN is 0. */
DEVICE uint32_t order_of_f32(float x)
{
    const uint32_t u = bits_of_f32(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return 0;
    if (u == 0x80000000u) return 0x80000000u;
    return u >> 31 ? ~u : u | 0x80000000u;
}
/* Reads a table of 16 bytes (t.x: 0..3) at the eight nibbles of w: low gets nibbles 0-3, one per byte, high 4-7. */
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

/* ---- the kernel's arguments ---- */
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
