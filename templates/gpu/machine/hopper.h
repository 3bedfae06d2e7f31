/* hopper.h -- NVIDIA's sm_90 and, with wgmma, sm_90a.  The part for sm_90 is PTX that later GPUs run too. */
#ifndef FORGE_MACHINE_H
#define FORGE_MACHINE_H
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 900
#error "this is the machine file of Hopper, sm_90 and later: see docs/target.md, 'A new GPU family'"
#endif
#include "words.h"
#define FAMILY FAMILY_HOPPER
#define WAVE   32
#define KERNEL(threads, groups) extern "C" __attribute__((global, launch_bounds(threads, groups))) void
#define GLOBAL
#define UNROLL _Pragma("unroll")
#define LOADS_IN_ORDER 0

/* ---- indices of the caller ---- */
DEVICE uint32_t thread_x(void) { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE uint32_t group_x(void)  { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE uint32_t group_y(void)  { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE uint32_t lane_id(void)  { return __nvvm_read_ptx_sreg_laneid(); }
DEVICE uint32_t uniform(uint32_t x) { return x; }

/* ---- LDS and barriers ---- */
extern "C" { extern __attribute__((shared, aligned(1024))) uint8_t forge_lds[]; }
DEVICE uint8_t *lds(void) { return forge_lds; }
DEVICE uint32_t lds_address(const uint8_t *p) { return (uint32_t)(uint64_t)(const __attribute__((address_space(3))) uint8_t *)p; }
extern "C" __attribute__((device)) void __syncthreads(void);
DEVICE void barrier(void) { __syncthreads(); }
DEVICE void memory_barrier(void) { __syncthreads(); }
DEVICE void wave_barrier(void) { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

/* ---- clusters ---- */
DEVICE uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE void meet_init(uint8_t *p, uint32_t waves)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(lds_address(p)), "r"(waves) : "memory");
}
DEVICE void meet_arrive(uint8_t *p)
{
    wave_barrier();
    if (lane_id() == 0) asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" :: "r"(lds_address(p)) : "memory");
}
DEVICE void meet_wait(uint8_t *p, uint32_t n)
{
    uint32_t done;
    do
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(lds_address(p)), "r"(n % 2) : "memory");
    while (!done);
}
DEVICE void cluster_arrive(void)  { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
DEVICE void cluster_started(void) { asm volatile("barrier.cluster.wait;" ::: "memory"); }
DEVICE void cluster_barrier(void) { asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory"); }
DEVICE uint32_t cluster_address(const void *p, uint32_t rank)
{
    uint32_t at;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(lds_address((const uint8_t *)p)), "r"(rank));
    return at;
}
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x)
{
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};"
                 :: "r"(cluster_address(p, rank)), "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w) : "memory");
}
DEVICE void cluster_store4(void *p, uint32_t rank, float x)
{
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(cluster_address(p, rank)), "f"(x) : "memory");
}
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)
{
    asm volatile("st.shared::cluster.v2.f32 [%0], {%1,%2};" :: "r"(cluster_address(p, rank)), "f"(x.x), "f"(x.y) : "memory");
}

/* ---- dependent launch ---- */
#if defined(FORGE_NO_PDL)                        /* a target with dependent_launch: false */
#define DEPENDENT_LAUNCH 0
DEVICE void pdl_launch(void) { }
DEVICE void pdl_wait(void)   { }
#else
#define DEPENDENT_LAUNCH 1
DEVICE void pdl_launch(void) { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEVICE void pdl_wait(void)   { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#endif

/* ---- memory ---- */
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
/* Bypass the L1, which may hold old data. */
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

#define PIN(x)     asm volatile("" : "+r"(x) :: "memory")
#define PIN_F32(x) asm volatile("" : "+f"(x) :: "memory")
#define PIN_UNIFORM(x)     ((void)(x))
#define PIN_OFFSET(offset) ((void)(offset))
DEVICE const uint8_t *plane_at(const uint8_t *row, const uint32_t at, const uint32_t plane) { return row + plane + at; }
/* The sum is one offset, so that it takes no registers from the rest of prefill's products. */
DEVICE const uint8_t *quants_at(const uint8_t *row, const uint32_t at, const uint32_t plane) { return row + (plane + at); }

DEVICE void store_host_u32(uint32_t *p, uint32_t x) { *(volatile uint32_t *)p = x; }
DEVICE float load_shared_f32(const float *p)
{
    float x;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
    return x;
}
DEVICE void store_shared_f32(float *p, float x) { asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" :: "l"(p), "f"(x) : "memory"); }
DEVICE void store_peer(void *p, uint64_t x) { asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(p), "l"(x) : "memory"); }
DEVICE uint64_t load_peer(const void *p)
{
    uint64_t x;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(p) : "memory");
    return x;
}
DEVICE float load_peer_f32(const void *p)
{
    float x;
    asm volatile("ld.relaxed.sys.global.f32 %0, [%1];" : "=f"(x) : "l"(p) : "memory");
    return x;
}
/* One fence for the flags of all GPUs: as release stores, each would wait for the previous one. */
DEVICE void peer_release(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
DEVICE void store_flag(void *p, uint32_t x) { asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory"); }
DEVICE uint32_t load_flag(const void *p)
{
    uint32_t x;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
}
DEVICE void poll_pause(void) { }
DEVICE uint32_t counter_add(uint32_t *counter)
{
    uint32_t old;
    asm volatile("fence.acq_rel.gpu;\n\tatom.relaxed.gpu.global.add.u32 %0, [%1], 1;\n\tfence.acq_rel.gpu;"
                 : "=r"(old) : "l"(counter) : "memory");
    return old;
}
DEVICE void stores_done(void) { }
DEVICE void acquire(void) { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

/* ---- lanes ---- */
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask) { return (uint32_t)__nvvm_shfl_sync_bfly_i32(~0u, (int)x, (int)mask, 31); }
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return lane_xor_u32(x, mask); }
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return (uint32_t)__nvvm_shfl_sync_idx_i32(~0u, (int)x, (int)lane, 31); }
DEVICE uint32_t wave_any(uint32_t x) { return __nvvm_vote_any_sync(~0u, x != 0); }
DEVICE uint32_t wave_first(uint32_t x) { return (uint32_t)__builtin_ctz((uint32_t)__nvvm_vote_ballot_sync(~0u, x != 0)); }
DEVICE uint32_t lane_of_wave_u32(uint32_t x, uint32_t lane) { return lane_get_u32(x, lane); }
#define WAVE_MAX_IS_OWN
DEVICE uint32_t wave_max_u32(uint32_t x) { return (uint32_t)__nvvm_redux_sync_umax((int)x, -1); }

/* ---- arithmetic ---- */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    int32_t d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
DEVICE float max_f32(float a, float b) { return a > b ? a : b; }
DEVICE float min_f32(float a, float b) { return a < b ? a : b; }
DEVICE float exp2_f32(float x)  { return __nvvm_ex2_approx_ftz_f(x); }
DEVICE float log2_f32(float x)  { return __nvvm_lg2_approx_ftz_f(x); }
DEVICE float rcp_f32(float x)   { return __nvvm_rcp_approx_ftz_f(x); }
DEVICE float rsqrt_f32(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
DEVICE float round_f32(float x)
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
DEVICE uint32_t byte_perm(uint32_t lo, uint32_t hi, uint32_t selector)      /* PRMT needs one nibble per byte; constants fold */
{
    return prmt(lo, hi, (selector & 7u) | (selector >> 4 & 0x70u) | (selector >> 8 & 0x700u) | (selector >> 12 & 0x7000u));
}
DEVICE uint32_t byte_align(uint32_t lo, uint32_t hi, uint32_t n) { return prmt(lo, hi, 0x3210u + 0x1111u * n); }
/* A selector is a nibble; with its top bit set it would select the sign. */
#define TABLE16_IS_OWN
DEVICE void table16(uint32_t *low, uint32_t *high, uint32_t w, const u32x4 t)
{
    const uint32_t at = w & 0x77777777u, upper = (w >> 1 & 0x44444444u) | 0x32103210u;
    *low  = prmt(prmt(t.x, t.y, at), prmt(t.z, t.w, at), upper);
    *high = prmt(prmt(t.x, t.y, at >> 16), prmt(t.z, t.w, at >> 16), upper >> 16);
}
#define TABLE8_IS_OWN
DEVICE uint32_t table8(const uint32_t low, const uint32_t high, const uint32_t at) { return prmt(low, high, prmt(at | at >> 4, 0, 0x20u)); }

/* ---- the matrix unit: mma.sync.aligned.m16n8k16 ---- */
DEVICE void ldmatrix(uint32_t x[4], const uint8_t *row, const uint32_t transposed)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(lds_address(row)) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(lds_address(row)) : "memory");
}
#include "mma_sync.h"
#define MMA_SYNC_HALF(type, c, a, b) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) \
        : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    MMA_SYNC_HALF("f16", c->x, a->x, b->x);
    MMA_SYNC_HALF("f16", c->x + 4, a->x, b->x + 2);
}
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    MMA_SYNC_HALF("bf16", c->x, a->x, b->x);
    MMA_SYNC_HALF("bf16", c->x + 4, a->x, b->x + 2);
}
#define MMA_BYTES_SUMS(d) "=r"((d)[0]), "=r"((d)[1]), "=r"((d)[2]), "=r"((d)[3])
DEVICE void mma_bytes32(uint32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : MMA_BYTES_SUMS(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(MMA_BYTES_ZERO));
}
DEVICE void mma_bytes16(uint32_t d[4], const uint32_t a[2], const uint32_t b)
{
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
        : MMA_BYTES_SUMS(d) : "r"(a[0]), "r"(a[1]), "r"(b), "r"(MMA_BYTES_ZERO));
}
DEVICE void mma_narrow_f16(float c[4], const struct mma_a *a, const uint32_t b[2]) { MMA_SYNC_HALF("f16", c, a->x, b); }
DEVICE void mma_pin(struct mma_acc *c) { (void)c; }

/* ---- products of four waves (mma.h): wgmma m64n128k16 (PTX ISA "Asynchronous warpgroup level matrix instructions"), sm_90a only ---- */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MMA_GROUP 1
/* Matrix descriptor: address / 16; 1, unused with swizzled rows; bytes / 16 from 8 rows to the next 8; 1 << 62: rows of 128 bytes,
 * swizzled. */
DEVICE uint64_t mma_group_rows(const uint8_t *rows, const uint32_t piece)
{
    return (uint64_t)(lds_address(rows) >> 4) + piece + (1u << 16) + ((uint64_t)(8 * SWIZZLED_ROW_BYTES / 16) << 32) + ((uint64_t)1 << 62);
}
#define MMA_GROUP_REGISTERS(c, i) \
    "+f"((c)[i].x[0]), "+f"((c)[i].x[1]), "+f"((c)[i].x[2]), "+f"((c)[i].x[3]), \
    "+f"((c)[i].x[4]), "+f"((c)[i].x[5]), "+f"((c)[i].x[6]), "+f"((c)[i].x[7])
#define MMA_GROUP_ANY(type, c, a, b) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
         "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
         "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
         "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
         "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63" \
         "}, %64, %65, p, 1, 1, 0, 0; }" \
        : MMA_GROUP_REGISTERS(c, 0), MMA_GROUP_REGISTERS(c, 1), MMA_GROUP_REGISTERS(c, 2), MMA_GROUP_REGISTERS(c, 3), \
          MMA_GROUP_REGISTERS(c, 4), MMA_GROUP_REGISTERS(c, 5), MMA_GROUP_REGISTERS(c, 6), MMA_GROUP_REGISTERS(c, 7) \
        : "l"(a), "l"(b), "r"(1))
DEVICE void mma_group_written(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void mma_group_begin(void)   { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void mma_group_commit(void)  { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void mma_group_wait(const uint32_t n) { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(n) : "memory"); }
DEVICE void mma_group_sum(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
}
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    MMA_GROUP_ANY("f16", c, mma_group_rows(a, piece), mma_group_rows(b, piece));
}
DEVICE void mma_group_half_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
         "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
         "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
         "}, %32, %33, p, 1, 1, 0, 0; }"
        : MMA_GROUP_REGISTERS(c, 0), MMA_GROUP_REGISTERS(c, 1), MMA_GROUP_REGISTERS(c, 2), MMA_GROUP_REGISTERS(c, 3)
        : "l"(mma_group_rows(a, piece)), "l"(mma_group_rows(b, piece)), "r"(1));
}
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    MMA_GROUP_ANY("bf16", c, mma_group_rows(a, piece), mma_group_rows(b, piece));
}
/* Operand A is in registers, B is rows of k, transposed.  Instead of 1 its descriptor has the distance from 64 columns to the next 64. */
#define MMA_GROUP_FOUR(a) "r"((a)->x[0]), "r"((a)->x[1]), "r"((a)->x[2]), "r"((a)->x[3])
DEVICE void mma_group_weights_f16(struct mma_acc *c, const struct mma_a *a, const uint8_t *rows, const uint32_t apart,
                                  const uint32_t tiles)
{
    const uint64_t b = mma_group_rows(rows, 0) + ((uint64_t)(apart / 16 - 1) << 16);
    if (tiles == 4)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
             "}, {%32,%33,%34,%35}, %36, p, 1, 1, 1; }"
            : MMA_GROUP_REGISTERS(c, 0), MMA_GROUP_REGISTERS(c, 1), MMA_GROUP_REGISTERS(c, 2), MMA_GROUP_REGISTERS(c, 3)
            : MMA_GROUP_FOUR(a), "l"(b), "r"(1));
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
             "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
             "}, {%64,%65,%66,%67}, %68, p, 1, 1, 1; }"
            : MMA_GROUP_REGISTERS(c, 0), MMA_GROUP_REGISTERS(c, 1), MMA_GROUP_REGISTERS(c, 2), MMA_GROUP_REGISTERS(c, 3),
              MMA_GROUP_REGISTERS(c, 4), MMA_GROUP_REGISTERS(c, 5), MMA_GROUP_REGISTERS(c, 6), MMA_GROUP_REGISTERS(c, 7)
            : MMA_GROUP_FOUR(a), "l"(b), "r"(1));
}
#endif

/* ---- copies to LDS: cp.async ---- */
struct copy { u32x4 v; };                        /* unused: the bytes go directly to LDS */
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    (void)c;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(lds_address(to)), "l"(from), "r"(valid ? 16u : 0u) : "memory");
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { (void)c; (void)to; }
DEVICE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
DEVICE void copy_wait(const uint32_t n) { asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory"); }
#endif
