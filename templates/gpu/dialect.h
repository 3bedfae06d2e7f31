/* dialect.h -- the few words a GPU template may use that are not plain C11.  One source, three compilations: HIP for AMD, CUDA for
 * NVIDIA (clang, no vendor headers), and C11 for tests/lanes, which runs the lanes of a group as fibers on the host.
 * Every #if on hardware stands here and in mma.h.  Facts behind the AMD and NVIDIA lines: docs/gpu.md. */
#ifndef FORGE_DIALECT_H
#define FORGE_DIALECT_H

#if defined(__HIP__) || defined(__CUDA__)
typedef __INT8_TYPE__ int8_t;   typedef __UINT8_TYPE__ uint8_t;   typedef __INT16_TYPE__ int16_t; typedef __UINT16_TYPE__ uint16_t;
typedef __INT32_TYPE__ int32_t; typedef __UINT32_TYPE__ uint32_t; typedef __INT64_TYPE__ int64_t; typedef __UINT64_TYPE__ uint64_t;
#define DEVICE static inline __attribute__((device, always_inline, unused))
#define restrict __restrict__
#define STATIC_ASSERT(c, m) static_assert(c, m)
#else
#include <stdbool.h>
#include <stdint.h>
#define DEVICE static inline __attribute__((always_inline, unused))
#define STATIC_ASSERT(c, m) _Static_assert(c, m)
#endif

/* WAVE: lanes of a wave.  KERNEL(threads, groups): groups is how many groups of so many threads a compute unit should hold at
 * once; it bounds the registers.  The one parameter of every kernel is `a`. */
#if defined(__AMDGCN__)
#if defined(__gfx942__)
#define WAVE 64
#define SIMDS 4
#else
#define WAVE 32
#define SIMDS 2
#endif
#define WAVES_PER_SIMD(threads, groups) ((threads) * (groups) < WAVE * SIMDS ? 1 : (threads) * (groups) / (WAVE * SIMDS))
#define KERNEL(threads, groups) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads), \
    amdgpu_waves_per_eu(WAVES_PER_SIMD(threads, groups)))) void
#define GLOBAL __attribute__((address_space(1)))
#elif defined(__NVPTX__)
#define WAVE 32
#define KERNEL(threads, groups) extern "C" __attribute__((global, launch_bounds(threads, groups))) void
#define GLOBAL
#else
#ifndef WAVE
#define WAVE 32
#endif
#define KERNEL(threads, groups) void
#define GLOBAL
#endif

typedef uint32_t u32x2 __attribute__((ext_vector_type(2)));
typedef uint32_t u32x4 __attribute__((ext_vector_type(4)));
typedef float    f32x2 __attribute__((ext_vector_type(2)));
typedef float    f32x4 __attribute__((ext_vector_type(4)));
typedef _Float16 f16;
typedef _Float16 f16x2 __attribute__((ext_vector_type(2)));

#ifndef FORGE_ABI_H
#include "runtime/model/abi_gpu.h"
#endif

/* ---- who am I ---- */
#if defined(__AMDGCN__)
DEVICE uint32_t thread_x(void) { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t group_x(void)  { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t group_y(void)  { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE uint32_t lane_id(void)  { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
/* x is equal in all lanes: put it into a scalar register */
DEVICE uint32_t uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }
#elif defined(__NVPTX__)
DEVICE uint32_t thread_x(void) { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE uint32_t group_x(void)  { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE uint32_t group_y(void)  { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE uint32_t lane_id(void)  { return __nvvm_read_ptx_sreg_laneid(); }
DEVICE uint32_t uniform(uint32_t x) { return x; }
#else
uint32_t simt_thread(void), simt_group_x(void), simt_group_y(void);
DEVICE uint32_t thread_x(void) { return simt_thread(); }
DEVICE uint32_t group_x(void)  { return simt_group_x(); }
DEVICE uint32_t group_y(void)  { return simt_group_y(); }
DEVICE uint32_t lane_id(void)  { return simt_thread() % WAVE; }
DEVICE uint32_t uniform(uint32_t x) { return x; }
#endif
DEVICE uint32_t wave_id(void) { return uniform(thread_x() / WAVE); }

/* ---- LDS (shared memory): all of it is dynamic; plan.c knows the bytes, kernels divide it by constants ---- */
#if defined(__HIP__) || defined(__CUDA__)
extern "C" { extern __attribute__((shared, aligned(1024))) uint8_t forge_lds[]; }
DEVICE uint8_t *lds(void) { return forge_lds; }
#else
uint32_t simt_cluster_rank(void);
uint8_t *simt_lds(uint32_t rank);
DEVICE uint8_t *lds(void) { return simt_lds(simt_cluster_rank()); }
#endif

/* ---- barriers ---- */
#if defined(__AMDGCN__)
/* All threads of the group; LDS written before is visible after.  Global loads stay in flight (the bare builtin waits for them on
 * gfx11 and, on gfx942, does not wait for LDS). */
DEVICE void barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory"); }
/* The lanes of a wave see each other's LDS writes. */
DEVICE void wave_barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); __builtin_amdgcn_wave_barrier(); }
#elif defined(__NVPTX__)
extern "C" __attribute__((device)) void __syncthreads(void);
DEVICE void barrier(void) { __syncthreads(); }
DEVICE void wave_barrier(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
#else
void simt_barrier(void);
const void *simt_share(const void *mine, uint32_t bytes);      /* a wave's lanes give `bytes` each: [WAVE][bytes], valid until the next call */
DEVICE void barrier(void) { simt_barrier(); }
DEVICE void wave_barrier(void) { uint32_t nothing = 0; simt_share(&nothing, sizeof nothing); }
#endif

/* ---- clusters: groups, neighbours in x, that run together and write each other's LDS; launched as such (forge_gpu_launch.cluster), NVIDIA only.
 * cluster_arrive() once by every thread, early; cluster_started() before the first store to another group; what was stored is seen after
 * cluster_barrier().  p: in this group's LDS, stored at the same place of group `rank` of the cluster, by 8 or 16 bytes. ---- */
#if defined(__NVPTX__)
DEVICE uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE void cluster_arrive(void)  { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
DEVICE void cluster_started(void) { asm volatile("barrier.cluster.wait;" ::: "memory"); }
DEVICE void cluster_barrier(void) { asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory"); }
DEVICE uint32_t cluster_address(const void *p, uint32_t rank)
{
    uint32_t at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"((uint32_t)(uint64_t)(const __attribute__((address_space(3))) uint8_t *)p), "r"(rank));
    return at;
}
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" :: "r"(cluster_address(p, rank)), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)
{
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" :: "r"(cluster_address(p, rank)), "f"(x.x), "f"(x.y) : "memory");
}
#else
DEVICE void cluster_arrive(void)  { }
DEVICE void cluster_started(void) { }
#if defined(__AMDGCN__)                          /* never called: a target says whether it has clusters */
DEVICE uint32_t cluster_rank(void) { return 0; }
DEVICE void cluster_barrier(void)  { barrier(); }
DEVICE uint8_t *cluster_lds(uint32_t rank) { (void)rank; return lds(); }
#else
void simt_cluster_barrier(void);
DEVICE uint32_t cluster_rank(void) { return simt_cluster_rank(); }
DEVICE void cluster_barrier(void)  { simt_cluster_barrier(); }
DEVICE uint8_t *cluster_lds(uint32_t rank) { return simt_lds(rank); }
#endif
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x) { *(f32x4 *)(void *)(cluster_lds(rank) + ((uint8_t *)p - lds())) = x; }
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)  { *(f32x2 *)(void *)(cluster_lds(rank) + ((uint8_t *)p - lds())) = x; }
#endif

/* ---- dependent launch: weights may be loaded before, everything an earlier kernel wrote only after pdl_wait().  Every thread calls
 * both once; nothing is written to global memory before the wait.  No-ops but on NVIDIA. ---- */
#if defined(__NVPTX__) && !defined(FORGE_NO_PDL)
#define DEPENDENT_LAUNCH 1
DEVICE void pdl_launch(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEVICE void pdl_wait(void)   { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
DEVICE void pdl_launch(void) { }
DEVICE void pdl_wait(void)   { }
#endif
/* Constant: is there time before pdl_wait()?  If not, what an earlier kernel wrote is asked for first, because it is needed first and AMD's loads are
 * waited for in order.  The host has one of either kind. */
#if !defined(DEPENDENT_LAUNCH) && (defined(__AMDGCN__) || defined(__NVPTX__))
#define DEPENDENT_LAUNCH 0
#elif !defined(DEPENDENT_LAUNCH)
#define DEPENDENT_LAUNCH (WAVE == 32)
#endif

/* ---- memory ---- */
#if defined(__NVPTX__)
/* Read-only weights, 16-byte aligned. */
DEVICE u32x4 load_weights16(const void *p)
{
    u32x4 v;
    asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
DEVICE u32x2 load_weights8(const void *p)
{
    u32x2 v;
    asm volatile("ld.global.nc.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
DEVICE uint32_t load_weights4(const void *p)
{
    uint32_t v;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
DEVICE uint32_t load_weights2(const void *p)
{
    uint16_t v;
    asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
#else
#if defined(FORGE_STREAM_NT)                     /* a target with load_hint: stream */
#define LOAD_WEIGHTS(T, p) __builtin_nontemporal_load((const GLOBAL T *)(p))
#else
#define LOAD_WEIGHTS(T, p) (*(const GLOBAL T *)(p))
#endif
DEVICE u32x4    load_weights16(const void *p) { return LOAD_WEIGHTS(u32x4, p); }
DEVICE u32x2    load_weights8(const void *p)  { return LOAD_WEIGHTS(u32x2, p); }
DEVICE uint32_t load_weights4(const void *p)  { return LOAD_WEIGHTS(uint32_t, p); }
DEVICE uint32_t load_weights2(const void *p)  { return LOAD_WEIGHTS(uint16_t, p); }
#endif
/* What an earlier step wrote: may be loaded before pdl_wait(), because the first launch of a step waits for all of the step before (runtime/device/gpu_step.c).
 * Past the L1, which may hold the bytes as they were before. */
#if defined(__NVPTX__)
DEVICE u32x4 load_settled16(const void *p)
{
    u32x4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
    return v;
}
DEVICE u32x2 load_settled8(const void *p)
{
    u32x2 v;
    asm volatile("ld.global.cg.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
DEVICE uint32_t load_settled4(const void *p)
{
    uint32_t v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
DEVICE uint32_t load_settled2(const void *p)
{
    uint16_t v;
    asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(v) : "l"(p));
    return v;
}
#else
DEVICE u32x4    load_settled16(const void *p) { return *(const GLOBAL u32x4 *)p; }
DEVICE u32x2    load_settled8(const void *p)  { return *(const GLOBAL u32x2 *)p; }
DEVICE uint32_t load_settled4(const void *p)  { return *(const GLOBAL uint32_t *)p; }
DEVICE uint32_t load_settled2(const void *p)  { return *(const GLOBAL uint16_t *)p; }
#endif
/* Keeps a load where it stands: neither sunk to its use nor merged with a later one.  x: any 32-bit register value. */
#if defined(__AMDGCN__)
#define PIN(x) asm volatile("" : "+v"(x) :: "memory")
#elif defined(__NVPTX__)
#define PIN(x) asm volatile("" : "+r"(x) :: "memory")
#define PIN_F32(x) asm volatile("" : "+f"(x) :: "memory")
#else
#define PIN(x) ((void)(x))
#endif
#ifndef PIN_F32
#define PIN_F32(x) PIN(x)
#endif
/* Before a loop whose arrays are to become registers. */
#if defined(__AMDGCN__) || defined(__NVPTX__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL
#endif
/* Orders the memory accesses around it in the compiler only. */
#define COMPILER_FENCE() __asm__ volatile("" ::: "memory")

/* To memory of the host, without waiting until it has arrived: a volatile store would, on AMD. */
#if defined(__AMDGCN__)
DEVICE void store_host_u32(uint32_t *p, uint32_t x) { __hip_atomic_store((GLOBAL uint32_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM); }
#else
DEVICE void store_host_u32(uint32_t *p, uint32_t x) { *(volatile GLOBAL uint32_t *)p = x; }
#endif

/* Data that other groups of the same launch wrote: past the caches that are not coherent.  4-byte aligned, 16 for load_shared16. */
#if defined(__AMDGCN__)
DEVICE float load_shared_f32(const float *p)
{
    const uint32_t bits = __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return __builtin_bit_cast(float, bits);
}
DEVICE void store_shared_f32(float *p, float x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, __builtin_bit_cast(uint32_t, x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
/* Release what this group wrote, count, acquire what others wrote: true in all threads of the group that arrives last of n.
 * The counter is 0 before and 0 after.  Threads pass at least one barrier() inside. */
DEVICE uint32_t counter_add(uint32_t *counter)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    const uint32_t old = __hip_atomic_fetch_add((GLOBAL uint32_t *)counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return old;
}
DEVICE void stores_done(void)                    /* this thread's stores have reached the L2 of its die */
{
#if defined(__gfx942__)
    asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)" ::: "memory");
#else
    asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)\n\ts_waitcnt_vscnt null, 0x0" ::: "memory");
#endif
}
DEVICE void acquire(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }
#elif defined(__NVPTX__)
DEVICE float load_shared_f32(const float *p)
{
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
    return x;
}
DEVICE void store_shared_f32(float *p, float x) { asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" :: "l"(p), "f"(x) : "memory"); }
DEVICE uint32_t counter_add(uint32_t *counter)
{
    uint32_t old;
    asm volatile("fence.acq_rel.gpu;\n\tatom.relaxed.gpu.global.add.u32 %0, [%1], 1;\n\tfence.acq_rel.gpu;" : "=r"(old) : "l"(counter) : "memory");
    return old;
}
DEVICE void stores_done(void) { }
DEVICE void acquire(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
#else
DEVICE float load_shared_f32(const float *p) { return *p; }
DEVICE void store_shared_f32(float *p, float x) { *p = x; }
DEVICE uint32_t counter_add(uint32_t *counter) { return (*counter)++; }
DEVICE void stores_done(void) { }
DEVICE void acquire(void) { }
#endif

/* True in every thread of the group of n that comes here last; it then sees what all of them wrote with store_shared_f32 (or plainly) before.
 * flag: 4 bytes of LDS.  counter: device memory, 0 before and after. */
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
DEVICE uint32_t bits_of_f32(float x) { uint32_t u; __builtin_memcpy(&u, &x, 4); return u; }
DEVICE float f32_of_bits(uint32_t u) { float x; __builtin_memcpy(&x, &u, 4); return x; }
/* lane_xor: x of the lane whose number is this one's ^ mask, a constant.  lane_other: the same where lanes that differ below bit `mask` have the same x. */
#if defined(__AMDGCN__)
#define LANE_DPP_U32(x, ctrl) ((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)(x), ctrl, 0xf, 0xf, true))
#define LANE_DPP(x, ctrl) f32_of_bits(LANE_DPP_U32(bits_of_f32(x), ctrl))
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return (uint32_t)__builtin_amdgcn_ds_bpermute((int32_t)(lane * 4u), (int32_t)x); }
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask)
{
    if (mask == 1) return LANE_DPP_U32(x, 0xB1);                             /* quad_perm:[1,0,3,2] */
    if (mask == 2) return LANE_DPP_U32(x, 0x4E);                             /* quad_perm:[2,3,0,1] */
    if (mask == 4) return LANE_DPP_U32(LANE_DPP_U32(x, 0x141), 0x1B);        /* ^ 7, ^ 3: row_half_mirror, quad_perm:[3,2,1,0] */
    if (mask == 8) return LANE_DPP_U32(x, 0x128);                            /* row_ror:8 */
#if defined(__gfx942__)
    if (mask == 16) return (uint32_t)__builtin_amdgcn_ds_swizzle((int32_t)x, 16 << 10 | 0x1f);
#else
    if (mask == 16) {                            /* pinned: clang 19 would move it into a branch that not all lanes take */
        x = (uint32_t)__builtin_amdgcn_permlanex16((int32_t)x, (int32_t)x, 0x76543210, (int32_t)0xfedcba98, false, false);
        asm volatile("" : "+v"(x));
        return x;
    }
#endif
    return lane_get_u32(x, lane_id() ^ mask);
}
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask)
{
    if (mask == 4) return LANE_DPP_U32(x, 0x141);
    return lane_xor_u32(x, mask);
}
#elif defined(__NVPTX__)
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask) { return (uint32_t)__nvvm_shfl_sync_bfly_i32(~0u, (int)x, (int)mask, 31); }
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return lane_xor_u32(x, mask); }
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return (uint32_t)__nvvm_shfl_sync_idx_i32(~0u, (int)x, (int)lane, 31); }
#else
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask) { return ((const uint32_t *)simt_share(&x, sizeof x))[lane_id() ^ mask]; }
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return lane_xor_u32(x, mask); }
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return ((const uint32_t *)simt_share(&x, sizeof x))[lane]; }
#endif
DEVICE float lane_xor_f32(float x, const uint32_t mask) { return f32_of_bits(lane_xor_u32(bits_of_f32(x), mask)); }
DEVICE float lane_other_f32(float x, const uint32_t mask) { return f32_of_bits(lane_other_u32(bits_of_f32(x), mask)); }
/* Whether some lane of the wave has it; the same in all lanes. */
#if defined(__gfx942__)
DEVICE uint32_t wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w64(x != 0) != 0; }
#elif defined(__AMDGCN__)
DEVICE uint32_t wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w32(x != 0) != 0; }
#elif defined(__NVPTX__)
DEVICE uint32_t wave_any(uint32_t x) { return __nvvm_vote_any_sync(~0u, x != 0); }
#else
DEVICE uint32_t wave_any(uint32_t x)
{
    const uint32_t *all = (const uint32_t *)simt_share(&x, sizeof x);
    for (uint32_t lane = 0; lane < WAVE; lane++)
        if (all[lane]) return 1;
    return 0;
}
#endif
/* Over each run of `lanes` lanes (a power of two, a constant): every lane gets the result, the same bits in all of them.  lanes_sums_f32: of n values,
 * a step of all of them at a time, because on AMD an exchange has to wait for the addition before it. */
DEVICE void lanes_sums_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    UNROLL
    for (uint32_t mask = 1; mask < lanes && mask < 16; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
#if defined(__gfx942__)                          /* no way between rows of 16 lanes but LDS; sums are handed on row by row instead: the last lane has them */
    if (lanes >= 32) {
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += LANE_DPP(x[i], 0x142);      /* row_bcast:15 */
        UNROLL
        for (uint32_t i = 0; i < n && lanes == 64; i++) x[i] += LANE_DPP(x[i], 0x143);   /* row_bcast:31 */
        UNROLL
        for (uint32_t i = 0; i < n; i++) {
            const float last = f32_of_bits((uint32_t)__builtin_amdgcn_readlane((int32_t)bits_of_f32(x[i]), 63));
            x[i] = lanes == 64 || lane_id() >= 32 ? last : f32_of_bits((uint32_t)__builtin_amdgcn_readlane((int32_t)bits_of_f32(x[i]), 31));
        }
        return;
    }
#endif
    UNROLL
    for (uint32_t mask = 16; mask < lanes; mask *= 2)
        UNROLL
        for (uint32_t i = 0; i < n; i++) x[i] += lane_other_f32(x[i], mask);
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
#if defined(__AMDGCN__)                          /* one instruction; of a NaN and a number the number */
DEVICE float max_f32(float a, float b) { return __builtin_fmaxf(a, b); }
DEVICE float min_f32(float a, float b) { return __builtin_fminf(a, b); }
#else
DEVICE float max_f32(float a, float b) { return a > b ? a : b; }
DEVICE float min_f32(float a, float b) { return a < b ? a : b; }
#endif
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

/* ---- arithmetic ---- */
#if defined(__AMDGCN__)
#if defined(__gfx942__)
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __builtin_amdgcn_sdot4((int32_t)a, (int32_t)b, c, false); }       /* s8 x s8 */
#else
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __builtin_amdgcn_sudot4(true, (int32_t)a, true, (int32_t)b, c, false); }
#endif
DEVICE float exp2_f32(float x)  { return __builtin_amdgcn_exp2f(x); }
DEVICE float log2_f32(float x)  { return __builtin_amdgcn_logf(x); }
DEVICE float rcp_f32(float x)   { return __builtin_amdgcn_rcpf(x); }
DEVICE float rsqrt_f32(float x) { return __builtin_amdgcn_rsqf(x); }
DEVICE float round_f32(float x) { return __builtin_rintf(x); }
/* Bytes picked from {hi, lo}: selector byte i in 0..3 takes byte of lo, 4..7 of hi. */
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector) { return __builtin_amdgcn_perm(hi, lo, selector); }
/* Bytes n .. n + 3 of {hi, lo}, n in 0..5; what lies beyond the eighth byte is anything. */
DEVICE uint32_t byte_align(uint32_t lo, uint32_t hi, uint32_t n) { return byte_perm(lo, hi, byte_perm(n, n, 0) + 0x03020100u); }
#elif defined(__NVPTX__)
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    int32_t d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
DEVICE float exp2_f32(float x)  { return __nvvm_ex2_approx_ftz_f(x); }
DEVICE float log2_f32(float x)  { return __nvvm_lg2_approx_ftz_f(x); }
DEVICE float rcp_f32(float x)   { return __nvvm_rcp_approx_ftz_f(x); }
DEVICE float rsqrt_f32(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
DEVICE float round_f32(float x)                  /* to nearest even */
{
    float y;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE uint32_t prmt(uint32_t lo, uint32_t hi, uint32_t nibbles)
{
    uint32_t d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(lo), "r"(hi), "r"(nibbles));
    return d;
}
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector)      /* PRMT wants one nibble a byte; constants fold */
{
    return prmt(lo, hi, (selector & 7u) | (selector >> 4 & 0x70u) | (selector >> 8 & 0x700u) | (selector >> 12 & 0x7000u));
}
DEVICE uint32_t byte_align(uint32_t lo, uint32_t hi, uint32_t n) { return prmt(lo, hi, 0x3210u + 0x1111u * n); }
#else
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (uint32_t i = 0; i < 4; i++) c += (int32_t)(int8_t)(a >> 8 * i) * (int32_t)(int8_t)(b >> 8 * i);
    return c;
}
DEVICE float exp2_f32(float x)  { return __builtin_exp2f(x); }
DEVICE float log2_f32(float x)  { return __builtin_log2f(x); }
DEVICE float rcp_f32(float x)   { return 1.0f / x; }
DEVICE float rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
DEVICE float round_f32(float x) { return __builtin_rintf(x); }
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector)
{
    const uint64_t both = (uint64_t)hi << 32 | lo;
    uint32_t d = 0;
    for (uint32_t i = 0; i < 4; i++) d |= (uint32_t)(both >> 8 * (selector >> 8 * i & 7) & 0xff) << 8 * i;
    return d;
}
DEVICE uint32_t byte_align(uint32_t lo, uint32_t hi, uint32_t n) { return (uint32_t)(((uint64_t)hi << 32 | lo) >> 8 * n); }
#endif
/* A table of 16 bytes (t.x: 0..3) read at the eight nibbles of w: low has nibbles 0-3, one a byte, high 4-7. */
DEVICE void table16(uint32_t *low, uint32_t *high, uint32_t w, const u32x4 t)
{
#if defined(__NVPTX__)                           /* a selector is a nibble; its top bit would ask for the sign */
    const uint32_t at = w & 0x77777777u, upper = (w >> 1 & 0x44444444u) | 0x32103210u;
    *low  = prmt(prmt(t.x, t.y, at), prmt(t.z, t.w, at), upper);
    *high = prmt(prmt(t.x, t.y, at >> 16), prmt(t.z, t.w, at >> 16), upper >> 16);
#else                                            /* a selector is a byte: even and odd nibbles, then sorted */
    const uint32_t e = w & 0x07070707u, o = w >> 4 & 0x07070707u;
    const uint32_t even = byte_perm(byte_perm(t.x, t.y, e), byte_perm(t.z, t.w, e), (w >> 1 & 0x04040404u) | 0x03020100u);
    const uint32_t odd  = byte_perm(byte_perm(t.x, t.y, o), byte_perm(t.z, t.w, o), (w >> 5 & 0x04040404u) | 0x03020100u);
    *low  = byte_perm(even, odd, 0x05010400u);
    *high = byte_perm(even, odd, 0x07030602u);
#endif
}
DEVICE float f32_of_f16_bits(uint32_t u) { const uint16_t h = (uint16_t)u; f16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }   /* low half of u */
DEVICE float f32_of_bf16_bits(uint32_t u) { return f32_of_bits(u << 16); }                                                       /* low half of u */
DEVICE uint32_t f16_bits(float x) { const f16 h = (f16)x; uint16_t u; __builtin_memcpy(&u, &h, 2); return u; }
/* Round to nearest even; NaN is not kept. */
DEVICE uint32_t bf16_bits(float x) { uint32_t u = bits_of_f32(x); u += 0x7fffu + (u >> 16 & 1u); return u >> 16; }
DEVICE uint32_t f16x2_bits(float lo, float hi)
{
    f16x2 h = { (f16)lo, (f16)hi };
    uint32_t u;
    __builtin_memcpy(&u, &h, 4);
    return u;
}
DEVICE uint32_t bf16x2_bits(float lo, float hi) { return bf16_bits(lo) | bf16_bits(hi) << 16; }
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
