/* cdna3.h -- CDNA 3: gfx942. */
#ifndef FORGE_MACHINE_H
#define FORGE_MACHINE_H
#if !defined(__gfx942__)
#error "this is the machine file of CDNA 3, gfx942: see docs/target.md, 'A new GPU family'"
#endif
#include "families.h"
#define FAMILY FAMILY_CDNA3
#define WAVE   64
#define SIMDS  4
#include "amd.h"

/* ---- waits: one counter for loads and stores ---- */
DEVICE void stores_done(void) { asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)" ::: "memory"); }

/* ---- lanes: four rows of 16 ---- */
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask)
{
    if (mask < 16) return lane_xor_row_u32(x, mask);
    if (mask == 16) return (uint32_t)__builtin_amdgcn_ds_swizzle((int32_t)x, 16 << 10 | 0x1f);
    return lane_get_u32(x, lane_id() ^ mask);
}
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return mask == 4 ? LANE_DPP_U32(x, 0x141) : lane_xor_u32(x, mask); }
DEVICE uint32_t wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w64(x != 0) != 0; }
DEVICE uint32_t wave_first(uint32_t x) { return (uint32_t)__builtin_ctzll(__builtin_amdgcn_ballot_w64(x != 0)); }
/* Only LDS connects rows of lanes; sums are passed from row to row instead, and the last lane has them. */
#define LANES_SUMS_ROWS_IS_OWN
DEVICE void lanes_sums_rows_f32(float *x, const uint32_t n, const uint32_t lanes)
{
    if (lanes < 32) return;
    UNROLL
    for (uint32_t i = 0; i < n; i++) x[i] += LANE_DPP(x[i], 0x142);          /* row_bcast:15 */
    UNROLL
    for (uint32_t i = 0; i < n && lanes == 64; i++) x[i] += LANE_DPP(x[i], 0x143);       /* row_bcast:31 */
    UNROLL
    for (uint32_t i = 0; i < n; i++) {
        const float last = f32_of_bits((uint32_t)__builtin_amdgcn_readlane((int32_t)bits_of_f32(x[i]), 63));
        x[i] = lanes == 64 || lane_id() >= 32 ? last : f32_of_bits((uint32_t)__builtin_amdgcn_readlane((int32_t)bits_of_f32(x[i]), 31));
    }
}

/* ---- integer products: v_dot4_i32_i8 ---- */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __builtin_amdgcn_sdot4((int32_t)a, (int32_t)b, c, false); }

/* ---- the matrix unit: v_mfma_f32_16x16x16 ---- */
#include "mfma.h"
typedef f16   mma_f16s __attribute__((ext_vector_type(4)));
typedef short mma_bf16s __attribute__((ext_vector_type(4)));
typedef float mma_f32s __attribute__((ext_vector_type(4)));
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_f16s x = __builtin_bit_cast(mma_f16s, *a), y = __builtin_bit_cast(mma_f16s, *b);
    const mma_f32s d = __builtin_amdgcn_mfma_f32_16x16x16f16(x, y, __builtin_bit_cast(mma_f32s, *c), 0, 0, 0);
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_bf16s x = __builtin_bit_cast(mma_bf16s, *a), y = __builtin_bit_cast(mma_bf16s, *b);
    const mma_f32s d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(x, y, __builtin_bit_cast(mma_f32s, *c), 0, 0, 0);
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_pin(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
}

/* ---- copies to LDS ---- */
#include "copy_registers.h"
#endif
