/* bugs.c -- one kernel with a planted bug for each check of libgfxsim, NAME_bug, and its correct twin, NAME_ok; tests/simulator/test_bugs.c
 * has the table.
 *
 * Every twin ends with out[k] = in[k] for each of its threads; the bug is what its comment says and nothing else.  Assembly stands where
 * the compiler would not make the bug.  in, out, tmp, fresh: [groups][THREADS]; in and tmp (zeros) are defined, fresh is not.  flag: [16],
 * zeros.  LDS: THREADS * 4 bytes, dynamic. */
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

BUG(global_load_bounds_bug)  { a.out[index()] = a.in[index() + 1]; }             /* the last thread reads behind the end */
BUG(global_load_bounds_ok)   { a.out[index()] = a.in[index()]; }
BUG(global_store_bounds_bug) { a.out[index() + 1] = a.in[index()]; }
BUG(global_store_bounds_ok)  { a.out[index()] = a.in[index()]; }

DEVICE void through_lds(const struct bug_args a, const uint32_t shift)
{
    words()[thread_x() + shift] = a.in[index()];
    barrier();
    a.out[index()] = words()[thread_x()];
}
BUG(lds_bounds_bug) { through_lds(a, 1); }       /* the last thread stores behind the end */
BUG(lds_bounds_ok)  { through_lds(a, 0); }

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

/* ---- what was never written ---- */

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
    a.out[index()] = words()[thread_x()];        /* thread 5's was never stored */
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

/* The load may arrive after the move and replace what it wrote. */
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

/* Each thread reads what one of another wave stored. */
#define TURNED ((thread_x() + 64) % THREADS)
DEVICE void turn(const struct bug_args a)        /* from group to group in[] as it should come out */
{
    words()[thread_x()] = 0;
    barrier();
    words()[TURNED] = a.in[group_x() * THREADS + TURNED];
}
BUG(lds_race_bug)
{
    turn(a);                                     /* and no barrier */
    a.out[index()] = words()[thread_x()];
}
BUG(lds_race_ok)
{
    turn(a);
    barrier();
    a.out[index()] = words()[thread_x()];
}

BUG(lds_overwrite_bug)                           /* the next round's store comes before others have read this one's */
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

/* The barrier alone waits for nothing: the stores of LDS may still be under way. */
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

/* Group 0 gives its in[] of the other group to group 1, by way of tmp.  On gfx942 they run on different dies. */
DEVICE void set_flag(const struct bug_args a)
{
    barrier();
    if (thread_x() == 0) agent_store(a.flag, 1);
}
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

/* As give(), past the caches that are not coherent. */
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

BUG(race_stores_bug)                             /* every group to the same place */
{
    a.tmp[thread_x()] = group_x();
    a.out[index()] = a.in[index()];
}
BUG(race_stores_ok)
{
    a.tmp[index()] = group_x();
    a.out[index()] = a.in[index()];
}
BUG(race_load_bug)                               /* group 0 stores what group 1 loads, and nothing orders them */
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

/* ---- no progress ---- */

BUG(deadlock_flag_bug)                           /* nobody sets flag[1] */
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

/* One wave waits in LDS for a sign of the others, which wait for it at the barrier. */
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
