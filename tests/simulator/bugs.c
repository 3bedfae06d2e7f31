/* bugs.c -- for each check of libgfxsim one kernel with a planted bug, NAME_bug, and its correct twin, NAME_ok; the table is in
 * tests/simulator/test_bugs.c.
 *
 * Every twin ends with out[k] = in[k] for each of its threads; its comment describes the only bug.  Assembly is used if the compiler would
 * not produce the bug.  in, out, tmp, fresh: [groups][THREADS]; in and tmp (zeros) are defined, fresh is not.  flag: [16], zeros.  LDS:
 * THREADS * 4 bytes, dynamic. */
#include "templates/gpu/dialect.h"

struct bug_args { const uint32_t *in; uint32_t *out, *tmp, *fresh, *flag; };

enum { THREADS = 128, LDS_BYTES = 4 * THREADS };
#define BUG(name) KERNEL(THREADS, 1) name(const struct bug_args a)
#define SHARED __attribute__((address_space(3)))
#if defined(__gfx942__)
#define GLOBAL_LOAD "global_load_dword "
#define SCALAR_LOAD "s_load_dword "
#define MASK "vcc"
#else
#define GLOBAL_LOAD "global_load_b32 "
#define SCALAR_LOAD "s_load_b32 "
#define MASK "vcc_lo"
#endif

DEVICE uint32_t index(void) { return group_x() * THREADS + thread_x(); }
DEVICE SHARED uint32_t *words(void) { return (SHARED uint32_t *)(SHARED uint8_t *)forge_lds; }
DEVICE uint32_t agent_load(const uint32_t *p)
{
    return __hip_atomic_load((const GLOBAL uint32_t *)p, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void agent_store(uint32_t *p, uint32_t x)
{
    __hip_atomic_store((GLOBAL uint32_t *)p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void release(void) { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }

/* ---- bounds ---- */

BUG(global_load_bounds_bug)  { a.out[index()] = a.in[index() + 1]; }             /* the last thread reads beyond the end */
BUG(global_load_bounds_ok)   { a.out[index()] = a.in[index()]; }
BUG(global_store_bounds_bug) { a.out[index() + 1] = a.in[index()]; }
BUG(global_store_bounds_ok)  { a.out[index()] = a.in[index()]; }

DEVICE void through_lds(const struct bug_args a, const uint32_t shift)
{
    words()[thread_x() + shift] = a.in[index()];
    barrier();
    a.out[index()] = words()[thread_x()];
}
BUG(lds_bounds_bug) { through_lds(a, 1); }       /* the last thread stores beyond the end */
BUG(lds_bounds_ok)  { through_lds(a, 0); }

/* From memory to LDS without registers, which gfx942 has: each lane's word behind M0. */
DEVICE void direct_to_lds(const struct bug_args a, const uint32_t shift)
{
#if defined(__gfx942__)
    const uint32_t at = (uint32_t)__builtin_amdgcn_readfirstlane((int)(4 * (thread_x() + shift)));
    asm volatile("s_mov_b32 m0, %0\n\ts_nop 0\n\tglobal_load_lds_dword %1, off\n\ts_waitcnt vmcnt(0)" :: "s"(at), "v"(a.in + index())
                 : "memory");
    barrier();
    a.out[index()] = words()[thread_x() + shift];
#else
    through_lds(a, shift);
#endif
}
BUG(lds_direct_bounds_bug) { direct_to_lds(a, 1); }     /* the last lane's word lies beyond the end */
BUG(lds_direct_bounds_ok)  { direct_to_lds(a, 0); }

/* ---- alignment ---- */

BUG(global_alignment_bug) { a.out[index()] = *(const GLOBAL uint32_t *)((const uint8_t *)a.in + 4 * (thread_x() & 63) + 2); }
BUG(global_alignment_ok)  { a.out[index()] = *(const GLOBAL uint32_t *)((const uint8_t *)a.in + 4 * index()); }

DEVICE void lds_pairs(const struct bug_args a, const uint32_t shift)
{
    words()[thread_x()] = a.in[index()];
    barrier();
    const u32x2 pair = *(const SHARED u32x2 *)(words() + (thread_x() & 62) + shift);
    a.out[index()] = thread_x() < 64 ? thread_x() % 2 ? pair.y : pair.x : a.in[index()];
}
BUG(lds_alignment_bug) { lds_pairs(a, 1); }      /* 8 bytes at an odd multiple of 4 */
BUG(lds_alignment_ok)  { lds_pairs(a, 0); }

/* ---- unwritten registers and memory ---- */

BUG(undefined_register_bug)
{
    uint32_t x;
    asm volatile("v_mov_b32 %0, v40" : "=v"(x) :: "v40");
    a.out[index()] = x;
}
BUG(undefined_register_ok)
{
    uint32_t x;
    asm volatile("v_mov_b32 v40, %1\n\tv_mov_b32 %0, v40" : "=v"(x) : "v"(a.in[index()]) : "v40");
    a.out[index()] = x;
}

BUG(undefined_address_bug)
{
    uint32_t x;
    asm volatile("v_mov_b32 %0, v40" : "=v"(x) :: "v40");
    a.out[index()] = a.in[x];
}
BUG(undefined_address_ok)
{
    uint32_t x;
    asm volatile("v_mov_b32 v40, %1\n\tv_mov_b32 %0, v40" : "=v"(x) : "v"(index()) : "v40");
    a.out[index()] = a.in[x];
}

BUG(undefined_lds_bug)
{
    if (thread_x() != 5) words()[thread_x()] = a.in[index()];
    barrier();
    a.out[index()] = words()[thread_x()];        /* thread 5's word was never stored */
}
BUG(undefined_lds_ok) { through_lds(a, 0); }

BUG(undefined_memory_bug) { a.out[index()] = a.fresh[index()] + a.in[index()]; }
BUG(undefined_memory_ok)  { a.out[index()] = a.tmp[index()] + a.in[index()]; }

BUG(undefined_branch_bug)
{
    asm volatile("v_cmp_eq_u32 " MASK ", 0, v40\n\ts_cbranch_vccz .Lbug%=\n\ts_nop 0\n.Lbug%=:" ::: "v40", "vcc");
    a.out[index()] = a.in[index()];
}
BUG(undefined_branch_ok)
{
    asm volatile("v_mov_b32 v40, 0\n\tv_cmp_eq_u32 " MASK ", 0, v40\n\ts_cbranch_vccz .Lok%=\n\ts_nop 0\n.Lok%=:" ::: "v40", "vcc");
    a.out[index()] = a.in[index()];
}

/* The branch depends on a bit that v40 decides; with s_or bit 0 is 1 whatever v40 is. */
#define BRANCH_BY_BIT(join) "v_cmp_eq_u32 " MASK ", v40, v40\n\t" join " s40, vcc_lo, 1\n\ts_cbranch_scc0 .Lbit%=\n\ts_nop 0\n.Lbit%=:"
BUG(undefined_bit_bug)
{
    asm volatile(BRANCH_BY_BIT("s_and_b32") ::: "v40", "vcc", "s40", "scc");
    a.out[index()] = a.in[index()];
}
BUG(undefined_bit_ok)
{
    asm volatile(BRANCH_BY_BIT("s_or_b32") ::: "v40", "vcc", "s40", "scc");
    a.out[index()] = a.in[index()];
}

/* A matrix product of zeros and `in`, column 3 of which comes from `b`: its results lie in four (wave of 32: two) lanes. */
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef uint32_t word2 __attribute__((ext_vector_type(2)));
typedef uint32_t word8 __attribute__((ext_vector_type(8)));
typedef float floats4 __attribute__((ext_vector_type(4)));
typedef float floats8 __attribute__((ext_vector_type(8)));
DEVICE void product(const struct bug_args a, const uint32_t *b)
{
    const uint32_t column = thread_x() & 15, x = ((const GLOBAL uint32_t *)(column == 3 ? b : a.in))[column];
#if defined(__gfx942__)
    const word2 columns = { x, x };
    const floats4 d = __builtin_amdgcn_mfma_f32_16x16x16f16((half4)0, __builtin_bit_cast(half4, columns), (floats4)0, 0, 0, 0);
#else
    const word8 columns = { x, x, x, x, x, x, x, x };
    const floats8 d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32((half16)0, __builtin_bit_cast(half16, columns), (floats8)0);
#endif
    a.out[index()] = a.in[index()] + __builtin_bit_cast(uint32_t, d[1]);
}
BUG(undefined_column_bug) { product(a, a.fresh); }
BUG(undefined_column_ok)  { product(a, a.tmp); }

/* ---- waits ---- */

BUG(wait_read_bug)
{
    uint32_t x;
    asm volatile(GLOBAL_LOAD "v40, %1, off\n\tv_mov_b32 %0, v40\n\ts_waitcnt vmcnt(0)" : "=&v"(x) : "v"(a.in + index()) : "v40", "memory");
    a.out[index()] = x;
}
BUG(wait_read_ok)
{
    uint32_t x;
    asm volatile(GLOBAL_LOAD "v40, %1, off\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 %0, v40" : "=&v"(x) : "v"(a.in + index()) : "v40", "memory");
    a.out[index()] = x;
}

/* The load may arrive after the move and overwrite its result. */
BUG(wait_overwrite_bug)
{
    uint32_t x;
    asm volatile(GLOBAL_LOAD "v40, %1, off\n\tv_mov_b32 v40, %2\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 %0, v40" : "=&v"(x)
                 : "v"(a.tmp + index()), "v"(a.in[index()]) : "v40", "memory");
    a.out[index()] = x;
}
BUG(wait_overwrite_ok)
{
    uint32_t x;
    asm volatile(GLOBAL_LOAD "v40, %1, off\n\ts_waitcnt vmcnt(0)\n\tv_mov_b32 v40, %2\n\tv_mov_b32 %0, v40" : "=&v"(x)
                 : "v"(a.tmp + index()), "v"(a.in[index()]) : "v40", "memory");
    a.out[index()] = x;
}

/* Two loads in order: vmcnt(1) covers the first, not the second. */
DEVICE uint32_t two_loads(const struct bug_args a, const uint32_t first)
{
    uint32_t x;
    if (first)
        asm volatile(GLOBAL_LOAD "v40, %1, off\n\t" GLOBAL_LOAD "v41, %2, off\n\ts_waitcnt vmcnt(1)\n\tv_mov_b32 %0, v40\n\ts_waitcnt "
                                                                "vmcnt(0)"
                            : "=&v"(x) : "v"(a.in + index()), "v"(a.tmp + index()) : "v40", "v41", "memory");
    else       asm volatile(GLOBAL_LOAD "v40, %2, off\n\t" GLOBAL_LOAD "v41, %1, off\n\ts_waitcnt vmcnt(1)\n\tv_mov_b32 %0, "
                                                                       "v41\n\ts_waitcnt vmcnt(0)"
                            : "=&v"(x) : "v"(a.in + index()), "v"(a.tmp + index()) : "v40", "v41", "memory");
    return x;
}
BUG(wait_count_bug) { a.out[index()] = two_loads(a, 0); }
BUG(wait_count_ok)  { a.out[index()] = two_loads(a, 1); }

/* ---- LDS ---- */

/* Each thread reads the word that a thread of another wave stored. */
#define TURNED ((thread_x() + 64) % THREADS)
DEVICE void turn(const struct bug_args a)        /* each workgroup copies its part of in[] to LDS */
{
    words()[thread_x()] = 0;
    barrier();
    words()[TURNED] = a.in[group_x() * THREADS + TURNED];
}
BUG(lds_race_bug)
{
    turn(a);                                     /* the barrier is missing */
    a.out[index()] = words()[thread_x()];
}
BUG(lds_race_ok)
{
    turn(a);
    barrier();
    a.out[index()] = words()[thread_x()];
}

BUG(lds_overwrite_bug)                           /* the next round's store may come before others have read this round's value */
{
    through_lds(a, 0);
    const uint32_t x = words()[TURNED];
    words()[thread_x()] = x;
    barrier();
    a.out[group_x() * THREADS + TURNED] = words()[thread_x()];
}
BUG(lds_overwrite_ok)
{
    through_lds(a, 0);
    const uint32_t x = words()[TURNED];
    barrier();
    words()[thread_x()] = x;
    barrier();
    a.out[group_x() * THREADS + TURNED] = words()[thread_x()];
}

/* The bare barrier does not wait for memory: stores to LDS may still be in flight. */
DEVICE void across_barrier(const struct bug_args a, const uint32_t waits)
{
    words()[TURNED] = a.in[group_x() * THREADS + TURNED];
    if (waits) asm volatile("s_waitcnt lgkmcnt(0)\n\ts_barrier" ::: "memory");
    else asm volatile("s_barrier" ::: "memory");
    a.out[index()] = words()[thread_x()];
}
BUG(lds_bare_barrier_bug) { across_barrier(a, 0); }
BUG(lds_bare_barrier_ok)  { across_barrier(a, 1); }

DEVICE void first_word(const struct bug_args a, const uint32_t x)
{
    if (thread_x() < WAVE) words()[0] = x;
    barrier();
    a.out[index()] = a.in[index()] + words()[0];
}
BUG(lds_two_values_bug) { first_word(a, thread_x()); }           /* lanes of one store disagree */
BUG(lds_two_values_ok)  { first_word(a, 0); }

/* ---- memory between instructions and groups ---- */

/* The scalar cache does not see vector stores. */
DEVICE void by_scalar(const struct bug_args a, const uint32_t invalidates)
{
    const uint32_t *at = a.out + group_x() * THREADS;
    uint32_t x;
    a.out[index()] = a.in[index()];
    stores_done();
    barrier();
    if (invalidates) asm volatile("s_dcache_inv\n\ts_waitcnt lgkmcnt(0)" ::: "memory");
    asm volatile(SCALAR_LOAD "%0, %1, 0x0\n\ts_waitcnt lgkmcnt(0)" : "=s"(x) : "s"(at) : "memory");
    if (thread_x() == 0) a.tmp[group_x()] = x;
}
BUG(scalar_cache_bug) { by_scalar(a, 0); }
BUG(scalar_cache_ok)  { by_scalar(a, 1); }

/* Workgroup 0 passes in[] of workgroup 1 to workgroup 1 through tmp.  On gfx942 they run on different dies. */
DEVICE void set_flag_at(uint32_t *flag)
{
    barrier();
    if (thread_x() == 0) agent_store(flag, 1);
}
DEVICE void set_flag(const struct bug_args a) { set_flag_at(a.flag); }
DEVICE void await_flag(const uint32_t *flag)
{
    if (thread_x() == 0) while (agent_load(flag) == 0) __builtin_amdgcn_s_sleep(1);
    barrier();
}
DEVICE void give(const struct bug_args a, const uint32_t writes_back, const uint32_t invalidates)
{
    if (group_x() == 0) {
        a.out[thread_x()] = a.in[thread_x()];
        a.tmp[thread_x()] = a.in[THREADS + thread_x()];
        if (writes_back) release();
        else stores_done();
        set_flag(a);
    } else {
        await_flag(a.flag);
        if (invalidates) acquire();
        a.out[THREADS + thread_x()] = a.tmp[thread_x()];
    }
}
BUG(dies_no_write_back_bug) { give(a, 0, 1); }
BUG(dies_no_write_back_ok)  { give(a, 1, 1); }
BUG(dies_no_invalidate_bug) { give(a, 1, 0); }
BUG(dies_no_invalidate_ok)  { give(a, 1, 1); }

/* As give(), but bypasses the caches that are not coherent. */
DEVICE void give_shared(const struct bug_args a, const uint32_t waits)
{
    if (group_x() == 0) {
        a.out[thread_x()] = a.in[thread_x()];
        agent_store(a.tmp + thread_x(), a.in[THREADS + thread_x()]);
        if (waits) stores_done();
        set_flag(a);
    } else {
        await_flag(a.flag);
        a.out[THREADS + thread_x()] = agent_load(a.tmp + thread_x());
    }
}
BUG(flag_no_wait_bug) { give_shared(a, 0); }     /* the flag may arrive before the data */
BUG(flag_no_wait_ok)  { give_shared(a, 1); }

BUG(race_stores_bug)                             /* all workgroups store to the same place */
{
    a.tmp[thread_x()] = group_x();
    a.out[index()] = a.in[index()];
}
BUG(race_stores_ok)
{
    a.tmp[index()] = group_x();
    a.out[index()] = a.in[index()];
}
BUG(race_load_bug)                               /* workgroup 0 stores and workgroup 1 loads the same words, without synchronisation */
{
    if (group_x() == 0) a.tmp[thread_x()] = 1;
    else a.fresh[thread_x()] = a.tmp[thread_x()];
    a.out[index()] = a.in[index()];
}
BUG(race_load_ok)
{
    if (group_x() == 0) a.tmp[thread_x()] = 1;
    else a.fresh[thread_x()] = a.tmp[THREADS + thread_x()];
    a.out[index()] = a.in[index()];
}

/* Workgroup 0 reads what workgroup `last` stored.  It learns of it from workgroup 1, and of workgroup 2, of which 1 knows nothing.  The
 * numbers of their waves lie on both sides of 128. */
DEVICE void learn_from_another(const struct bug_args a, const uint32_t first_learns)
{
    const uint32_t last = 65, at = last * THREADS + thread_x();
    uint32_t x = 0;
    if (group_x() == last) {
        a.tmp[index()] = a.in[index()];
        release();
        set_flag(a);
    }
    if (group_x() == 1) {
        if (first_learns) await_flag(a.flag);
        acquire();
        release();
        set_flag_at(a.flag + 1);
    }
    if (group_x() == 2) set_flag_at(a.flag + 2);
    if (group_x() == 0) {
        await_flag(a.flag + 2);
        await_flag(a.flag + 1);
        acquire();
        x = a.tmp[at] - a.in[at];
    }
    a.fresh[index()] = x;
    a.out[index()] = a.in[index()] + (first_learns ? x : 0);
}
BUG(race_of_many_bug) { learn_from_another(a, 0); }
BUG(race_of_many_ok)  { learn_from_another(a, 1); }

/* ---- no progress ---- */

BUG(deadlock_flag_bug)                           /* no workgroup sets flag[1] */
{
    if (group_x() == 0) set_flag(a);
    else await_flag(a.flag + 1);
    a.out[index()] = a.in[index()];
}
BUG(deadlock_flag_ok)
{
    if (group_x() == 0) set_flag(a);
    else await_flag(a.flag);
    a.out[index()] = a.in[index()];
}

/* One wave polls LDS for a signal of the other waves, which wait for it at the barrier. */
DEVICE void sign_and_barrier(const struct bug_args a, const uint32_t signs)
{
    if (thread_x() == 0) words()[0] = 0;
    barrier();
    if (thread_x() < WAVE) { while (__hip_atomic_load(words(), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP) == 0) { } }
    else if (signs) __hip_atomic_fetch_add(words(), 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
    barrier();
    a.out[index()] = a.in[index()];
}
BUG(deadlock_barrier_bug) { sign_and_barrier(a, 0); }
BUG(deadlock_barrier_ok)  { sign_and_barrier(a, 1); }

/* ---- not modelled ---- */

BUG(unknown_bug)
{
    uint32_t x;
    words()[thread_x()] = 0;
    barrier();
    asm volatile("ds_append %0\n\ts_waitcnt lgkmcnt(0)" : "=v"(x) :: "memory");
    a.out[index()] = a.in[index()] + x;
}
BUG(unknown_ok) { a.out[index()] = a.in[index()]; }
