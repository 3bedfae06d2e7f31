/* valu.h -- notation of the vector ALU's instructions: one line each (valu.def, valu_cmp.c), from which these macros make a function over
 * the lanes.  In a line a, b and c are the sources of one lane, read by their types; l is the lane.
 *
 * A 16-bit source is the lower half of its register, extended; f16 is computed in f32 and rounded once more (numbers.h explains why this is
 * exact).  A lane is read completely before it is written, so a result may use the rows of a source: no `restrict`, and one loop over both
 * words of 64 bits. */
#ifndef GFXSIM_VALU_H
#define GFXSIM_VALU_H
#include "gfxsim.h"
#include "numbers.h"
#include <immintrin.h>

/* ---- types: the type of computation in C, how a lane is read and written; H16 is f16 left as bits ---- */
#define C_B16 uint32_t
#define C_U16 uint32_t
#define C_I16 int32_t
#define C_H16 uint32_t
#define C_F16 float
#define C_B32 uint32_t
#define C_U32 uint32_t
#define C_I32 int32_t
#define C_F32 float
#define C_B64 uint64_t
#define C_U64 uint64_t
#define C_I64 int64_t
#define C_F64 double
#define C_PKF16 uint32_t
#define C_PK16 uint32_t

#define ROW64(r) ((uint64_t)(r)[n + l] << 32 | (r)[l])
#define READ_B16(r) ((r)[l] & 0xffffu)
#define READ_U16(r) ((r)[l] & 0xffffu)
#define READ_I16(r) ((int32_t)((r)[l] << 16) >> 16)
#define READ_H16(r) ((r)[l] & 0xffffu)
#define READ_F16(r) f16_to_f32((r)[l])
#define READ_B32(r) ((r)[l])
#define READ_U32(r) ((r)[l])
#define READ_I32(r) ((int32_t)(r)[l])
#define READ_F32(r) bits_f32((r)[l])
#define READ_B64(r) ROW64(r)
#define READ_U64(r) ROW64(r)
#define READ_I64(r) ((int64_t)ROW64(r))
#define READ_F64(r) bits_f64(ROW64(r))
#define READ_PKF16(r) ((r)[l])
#define READ_PK16(r) ((r)[l])

#define WRITE16(v) (d[l] = (uint32_t)(v) & 0xffffu)
#define WRITE32(v) (d[l] = (uint32_t)(v))
#define WRITE64(v) do { const uint64_t wide_ = (v); d[l] = (uint32_t)wide_; d[n + l] = (uint32_t)(wide_ >> 32); } while (0)
#define WRITE_B16(v) WRITE16(v)
#define WRITE_U16(v) WRITE16(v)
#define WRITE_I16(v) WRITE16(v)
#define WRITE_H16(v) WRITE16(v)
#define WRITE_F16(v) (d[l] = f32_to_f16(v))
#define WRITE_B32(v) WRITE32(v)
#define WRITE_U32(v) WRITE32(v)
#define WRITE_I32(v) WRITE32(v)
#define WRITE_F32(v) (d[l] = f32_bits(v))
#define WRITE_B64(v) WRITE64(v)
#define WRITE_U64(v) WRITE64(v)
#define WRITE_I64(v) WRITE64((uint64_t)(v))
#define WRITE_F64(v) WRITE64(f64_bits(v))
#define WRITE_PKF16(v) WRITE32(v)
#define WRITE_PK16(v) WRITE32(v)

enum { T_H16 = T_F16 };                              /* the same in the tables */

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"     /* some loops are scalar by nature */
#define LANES_LOOP _Pragma("clang loop vectorize(assume_safety)") for (uint32_t l = 0; l < n; l++)
#else
#define LANES_LOOP _Pragma("GCC ivdep") for (uint32_t l = 0; l < n; l++)
#endif

/* Defines a lanes_fn of this name; the body is compiled with n = 64 and with n = 32 as constants, so that the trip count is known. */
#define LANES(name, ...)                                                                                                                   \
    static inline __attribute__((always_inline)) void name##_of(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc,   \
                                                                const uint32_t n)                                                          \
    { (void)ra; (void)rb; (void)rc; LANES_LOOP { __VA_ARGS__; } }                                                                          \
    static void name(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)                                  \
    { if (n == 64) name##_of(d, ra, rb, rc, 64); else name##_of(d, ra, rb, rc, 32); }

#define LANES1(name, D, A, value)       LANES(name, const C_##A a = READ_##A(ra); WRITE_##D(value))
#define LANES2(name, D, A, B, value)    LANES(name, const C_##A a = READ_##A(ra); const C_##B b = READ_##B(rb); WRITE_##D(value))
#define LANES3(name, D, A, B, C, value)                                                                                                    \
    LANES(name, const C_##A a = READ_##A(ra); const C_##B b = READ_##B(rb); const C_##C c = READ_##C(rc);                                  \
                                              WRITE_##D(value))

/* ---- masks and rows ---- */

/* Bit l of the mask: bit 0 of row l. */
static inline uint64_t rows_mask(const uint32_t *rows, uint32_t n)
{
    uint64_t mask = 0;
    for (uint32_t l = 0; l < n; l += 8) {
        __m256i bits = _mm256_slli_epi32(_mm256_loadu_si256((const __m256i *)(rows + l)), 31);
        mask |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(bits)) << l;
    }
    return mask;
}
/* The inverse: 0 or 1. */
static inline void mask_rows(uint32_t *rows, uint64_t mask, uint32_t n)
{
    const __m256i shift = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), one = _mm256_set1_epi32(1);
    for (uint32_t l = 0; l < n; l += 8)
        _mm256_storeu_si256((__m256i *)(rows + l), _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)(mask >> l)), shift), one));
}

/* ---- sources of an instruction ---- */
struct sources {
    const uint32_t *rows[3];                         /* NULL after the last; the destination's old value follows the printed ones
                                                      * (TRAIT_READS_DST) */
    uint64_t valid;                                  /* lanes of exec that DPP lets through */
    uint64_t undefined;                              /* lanes in which some source is undefined and this matters to the caller */
    uint32_t store[3][2 * MAX_LANES];
};
/* Reads the vector sources with their modifiers, except masks (T_MASK).  Returns false after a finding. */
bool sources_read(struct wave *w, const struct inst *i, struct sources *s);
/* The sources as they lie in the registers, without modifiers. */
const uint32_t *source_raw(struct wave *w, const struct operand *o, uint32_t words, uint32_t *store);
/* Undefined bits of a mask operand. */
uint64_t mask_undefined(const struct wave *w, const struct operand *o);
/* Runs op->lanes with MXCSR set as f64 needs it: MODE's denormal bits for f32 do not affect it. */
void lanes_run(const struct inst *i, lanes_fn *lanes, uint32_t *d, const struct sources *s, uint32_t n);
#endif
