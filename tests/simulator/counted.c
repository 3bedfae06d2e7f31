/* counted.c -- `planted` is `plain` plus a known number of instructions of each kind per wave; test_counters.c has the numbers.  out:
 * [groups][THREADS].  Each kind is one statement of assembly, so that the compiler adds nothing in between. */
#include "templates/gpu/dialect.h"

enum { THREADS = 128 };
struct counted_args { uint32_t *out; };
#define SHARED __attribute__((address_space(3)))
#define PRIVATE __attribute__((address_space(5)))
#define TIMES(n, text) ".rept " #n "\n\t" text "\n\t.endr\n\t"
#if defined(__gfx942__)
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef int int16 __attribute__((ext_vector_type(16)));
#define READ "ds_read_b"
#else
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));
typedef int int4 __attribute__((ext_vector_type(4)));
typedef int int8 __attribute__((ext_vector_type(8)));
#define READ "ds_load_b"
#endif

DEVICE void store(const struct counted_args a, const uint32_t x) { a.out[group_x() * THREADS + thread_x()] = x; }

DEVICE void clear_lds(void)
{
    for (uint32_t i = thread_x(); i < 1024; i += THREADS) ((SHARED uint32_t *)(SHARED uint8_t *)forge_lds)[i] = i;
    barrier();
}

/* 7 s_nop of 4 wait states, 5 waits, 6 + 3 multiplications, 4 additions of f64, 9 transcendentals. */
DEVICE uint32_t planted_alu(uint32_t x)
{
    double d = 1;
    float  f = 1;
    asm volatile(TIMES(7, "s_nop 3") TIMES(5, "s_waitcnt lgkmcnt(0)") TIMES(6, "v_mul_lo_u32 %0, %0, %0") TIMES(3,
        "v_mul_hi_u32 %0, %0, %0")
                 TIMES(4, "v_add_f64 %1, %1, %1") TIMES(8, "v_exp_f32 %2, %2") "v_rcp_f32 %2, %2" : "+v"(x), "+v"(d), "+v"(f));
    return x;
}

/* 3 contiguous reads of 4 bytes per lane, 2 of 8, 1 of 16; 5 reads of 4 bytes in every second bank; 4 ds_bpermute. */
DEVICE uint32_t planted_lds(void)
{
    const uint32_t lane = thread_x() % WAVE, to4 = 4 * lane, to8 = 8 * lane, to16 = 16 * lane;
    uint32_t x = lane;
    u32x2 y;
    u32x4 z;
    asm volatile(TIMES(3, READ "32 %0, %3") TIMES(2, READ "64 %1, %4") READ "128 %2, %5\n\t" TIMES(5,
        READ "32 %0, %4") "s_waitcnt lgkmcnt(0)\n\t"
                 TIMES(4, "ds_bpermute_b32 %0, %3, %0\n\ts_waitcnt lgkmcnt(0)") : "=&v"(x), "=&v"(y), "=&v"(z)
                     : "v"(to4), "v"(to8), "v"(to16) : "memory");
    return x + y.x + z.x;
}

/* 11 matrix instructions of f16, 3 of 8-bit integers; gfx942: 10 moves to and from accumulators. */
DEVICE uint32_t planted_matrix(void)
{
#if defined(__gfx942__)
    half4 a = { 0 };
    float4 d = { 0 };
    int16 e = { 0 };
    uint64_t i = 0;
    uint32_t x = 0;
    asm volatile(TIMES(5, "v_accvgpr_write_b32 a0, %4\n\ts_nop 0\n\tv_accvgpr_read_b32 %4, a0") TIMES(11,
        "v_mfma_f32_16x16x16_f16 %0, %2, %2, %0")
                 TIMES(3, "v_mfma_i32_32x32x16_i8 %1, %3, %3, %1") : "+v"(d), "+v"(e), "+v"(a), "+v"(i), "+v"(x) : : "a0");
    return (uint32_t)d.x + (uint32_t)e.x + x;
#else
    half16 a = { 0 };
    float8 d = { 0 };
    int4 i = { 0 };
    int8 e = { 0 };
    asm volatile(TIMES(11, "v_wmma_f32_16x16x16_f16 %0, %2, %2, %0") TIMES(3, "v_wmma_i32_16x16x16_iu8 %1, %3, %3, %1") : "+v"(d), "+v"(e),
                 "+v"(a), "+v"(i));
    return (uint32_t)d.x + (uint32_t)e.x;
#endif
}

/* A store and a load of scratch memory. */
DEVICE uint32_t planted_scratch(const uint32_t x)
{
    uint32_t there;
    volatile PRIVATE uint32_t *p = (volatile PRIVATE uint32_t *)&there;
    *p = x;
    return *p;
}

/* A loop of 5 instructions, three times: an s_nop of 2 wait states and a move to an accumulator (gfx942) or to a VGPR; then an s_nop. */
DEVICE void planted_loop(void)
{
    uint32_t n = 3, x = 0;
#if defined(__gfx942__)
    asm volatile("1:\n\ts_nop 1\n\tv_accvgpr_write_b32 a0, %1\n\ts_sub_u32 %0, %0, 1\n\ts_cmp_lg_u32 %0, 0\n\ts_cbranch_scc1 1b\n\ts_nop 0"
                 : "+s"(n), "+v"(x) : : "a0", "scc");
#else
    asm volatile("1:\n\ts_nop 1\n\tv_mov_b32 %1, 0\n\ts_sub_u32 %0, %0, 1\n\ts_cmp_lg_u32 %0, 0\n\ts_cbranch_scc1 1b\n\ts_nop 0" : "+s"(n),
                 "+v"(x) : : "scc");
#endif
}

KERNEL(THREADS, 1) plain(const struct counted_args a)
{
    clear_lds();
    store(a, thread_x());
}

KERNEL(THREADS, 1) planted(const struct counted_args a)
{
    clear_lds();
    barrier();                                   /* a second barrier */
    planted_loop();
    store(a, planted_scratch(planted_alu(thread_x()) + planted_lds() + planted_matrix()));
}
