/* amd.h -- the part of the dialect that RDNA 3 and CDNA 3 share.  Their machine files include it and define WAVE and SIMDS.  Background:
 * docs/gpu_internals.md. */
#ifndef FORGE_AMD_H
#define FORGE_AMD_H
#include "words.h"

#define WAVES_PER_SIMD(threads, groups) ((threads) * (groups) < WAVE * SIMDS ? 1 : (threads) * (groups) / (WAVE * SIMDS))
#define KERNEL(threads, groups) extern "C" __attribute__((global, amdgpu_flat_work_group_size(threads, threads), \
    amdgpu_waves_per_eu(WAVES_PER_SIMD(threads, groups)))) void
#define GLOBAL __attribute__((address_space(1)))
#define UNROLL _Pragma("unroll")
#define DEPENDENT_LAUNCH 0
#define LOADS_IN_ORDER 1

/* ---- indices of the caller ---- */
DEVICE uint32_t thread_x(void) { return __builtin_amdgcn_workitem_id_x(); }
DEVICE uint32_t group_x(void)  { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE uint32_t group_y(void)  { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE uint32_t lane_id(void)  { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u)); }
DEVICE uint32_t uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }

/* ---- LDS and barriers ---- */
extern "C" { extern __attribute__((shared, aligned(1024))) uint8_t forge_lds[]; }
DEVICE uint8_t *lds(void) { return forge_lds; }
/* Global loads stay in flight.  (The builtin alone waits for them on gfx11; on gfx942 it does not wait for LDS.) */
DEVICE void barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory"); }
DEVICE void memory_barrier(void)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void wave_barrier(void) { asm volatile("s_waitcnt lgkmcnt(0)" ::: "memory"); __builtin_amdgcn_wave_barrier(); }

/* ---- no clusters: never called, because a target says whether it has any ---- */
DEVICE uint32_t cluster_rank(void) { return 0; }
DEVICE void cluster_arrive(void)   { }
DEVICE void cluster_started(void)  { }
DEVICE void cluster_barrier(void)  { }
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x) { (void)p; (void)rank; (void)x; }
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)  { (void)p; (void)rank; (void)x; }

/* ---- dependent launch: not available ---- */
DEVICE void pdl_launch(void) { }
DEVICE void pdl_wait(void)   { }

/* ---- memory ---- */
#if defined(FORGE_STREAM_NT)                     /* a target with load_hint: stream */
#define LOAD_WEIGHTS(T, p) __builtin_nontemporal_load((const GLOBAL T *)(p))
#else
#define LOAD_WEIGHTS(T, p) (*(const GLOBAL T *)(p))
#endif
DEVICE u32x4    load_weights16(const void *p) { return LOAD_WEIGHTS(u32x4, p); }
DEVICE u32x2    load_weights8(const void *p)  { return LOAD_WEIGHTS(u32x2, p); }
DEVICE uint32_t load_weights4(const void *p)  { return LOAD_WEIGHTS(uint32_t, p); }
DEVICE uint32_t load_weights2(const void *p)  { return LOAD_WEIGHTS(uint16_t, p); }
DEVICE u32x4    load_settled16(const void *p) { return *(const GLOBAL u32x4 *)p; }
DEVICE u32x2    load_settled8(const void *p)  { return *(const GLOBAL u32x2 *)p; }
DEVICE uint32_t load_settled4(const void *p)  { return *(const GLOBAL uint32_t *)p; }
DEVICE uint32_t load_settled2(const void *p)  { return *(const GLOBAL uint16_t *)p; }

#define PIN(x)     asm volatile("" : "+v"(x) :: "memory")
#define PIN_F32(x) PIN(x)
/* Keep the part of an address that is equal in all lanes in a scalar register and the lane's part 32 bits wide.  The compiler would keep a
 * 64-bit address per load of a loop and advance all of them at every step.  An operand "s" is made uniform first: it depends on clang's
 * version whether it recognises a value as uniform, and it refuses other values. */
#define PIN_UNIFORM(x)     do { (x) = uniform(x); asm volatile("" : "+s"(x)); } while (0)
#define PIN_OFFSET(offset) asm volatile("" : "+v"(offset))
/* Load instructions hold an offset up to 4095 of `plane`; the rest is added to `at`, once for all rows.  clang would add it to each 64-bit
 * address. */
DEVICE const uint8_t *plane_at(const uint8_t *row, const uint32_t at, const uint32_t plane)
{
    uint32_t place = at + plane / 4096 * 4096;
    if (plane >= 4096) asm("" : "+v"(place));
    return row + place + plane % 4096;
}
DEVICE const uint8_t *quants_at(const uint8_t *row, const uint32_t at, const uint32_t plane) { return plane_at(row, at, plane); }

/* A volatile store would wait for its arrival. */
DEVICE void store_host_u32(uint32_t *p, uint32_t x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE float load_shared_f32(const float *p)
{
    const uint32_t bits = __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return __builtin_bit_cast(float, bits);
}
DEVICE void store_shared_f32(float *p, float x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, __builtin_bit_cast(uint32_t, x), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void store_peer(void *p, uint64_t x) { __hip_atomic_store((GLOBAL uint64_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM); }
DEVICE uint64_t load_peer(const void *p)
{
    return __hip_atomic_load((const GLOBAL uint64_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE float load_peer_f32(const void *p)
{
    const uint32_t bits = __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    return __builtin_bit_cast(float, bits);
}
/* No fence.  A fence at system scope writes back (buffer_wbl2 sc0 sc1) or invalidates the whole L2 for every group, to order plain
 * accesses. Stores at system scope have passed the L2 when a wait for them ends, and loads at system scope bypass it. */
DEVICE void peer_release(void) { asm volatile("" ::: "memory"); }
DEVICE void store_flag(void *p, uint32_t x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
}
DEVICE uint32_t load_flag(const void *p)
{
    const uint32_t x = __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
    asm volatile("" ::: "memory");
    return x;
}
DEVICE void poll_pause(void) { __builtin_amdgcn_s_sleep(1); }
DEVICE uint32_t counter_add(uint32_t *counter)
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
    const uint32_t old = __hip_atomic_fetch_add((GLOBAL uint32_t *)counter, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    return old;
}
DEVICE void acquire(void) { __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent"); }

/* ---- lanes ---- */
#define LANE_DPP_U32(x, ctrl) ((uint32_t)__builtin_amdgcn_update_dpp(0, (int32_t)(x), ctrl, 0xf, 0xf, true))
#define LANE_DPP(x, ctrl) f32_of_bits(LANE_DPP_U32(bits_of_f32(x), ctrl))
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return (uint32_t)__builtin_amdgcn_ds_bpermute((int32_t)(lane * 4u), (int32_t)x); }
DEVICE uint32_t lane_of_wave_u32(uint32_t x, uint32_t lane) { return (uint32_t)__builtin_amdgcn_readlane((int32_t)x, (int32_t)lane); }
/* lane_xor_u32 within rows of 16 lanes: mask is 1, 2, 4 or 8. */
DEVICE uint32_t lane_xor_row_u32(uint32_t x, const uint32_t mask)
{
    if (mask == 1) return LANE_DPP_U32(x, 0xB1);                             /* quad_perm:[1,0,3,2] */
    if (mask == 2) return LANE_DPP_U32(x, 0x4E);                             /* quad_perm:[2,3,0,1] */
    if (mask == 4) return LANE_DPP_U32(LANE_DPP_U32(x, 0x141), 0x1B);        /* ^ 7, ^ 3: row_half_mirror, quad_perm:[3,2,1,0] */
    return LANE_DPP_U32(x, 0x128);                                           /* row_ror:8 */
}

/* ---- arithmetic ---- */
DEVICE float max_f32(float a, float b) { return __builtin_fmaxf(a, b); }    /* one instruction; of NaN and a number it returns the number */
DEVICE float min_f32(float a, float b) { return __builtin_fminf(a, b); }
DEVICE float exp2_f32(float x)  { return __builtin_amdgcn_exp2f(x); }
DEVICE float log2_f32(float x)  { return __builtin_amdgcn_logf(x); }
DEVICE float rcp_f32(float x)   { return __builtin_amdgcn_rcpf(x); }
DEVICE float rsqrt_f32(float x) { return __builtin_amdgcn_rsqf(x); }
DEVICE float round_f32(float x) { return __builtin_rintf(x); }
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector) { return __builtin_amdgcn_perm(hi, lo, selector); }
DEVICE uint32_t byte_align(uint32_t lo, uint32_t hi, uint32_t n) { return byte_perm(lo, hi, byte_perm(n, n, 0) + 0x03020100u); }
DEVICE uint32_t f16x2_bits_cut(float lo, float hi) { return __builtin_bit_cast(uint32_t, __builtin_amdgcn_cvt_pkrtz(lo, hi)); }
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
    return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, b), c, false);
}
#endif
