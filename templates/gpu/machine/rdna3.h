/* rdna3.h -- RDNA 3 and 3.5: gfx1100 .. gfx1103, gfx1150 .. gfx1153.  They do not differ in anything that kernels use. */
#ifndef FORGE_MACHINE_H
#define FORGE_MACHINE_H
#if !defined(__GFX11__)
#error "this is the machine file of RDNA 3, gfx11: see docs/target.md, 'A new GPU family'"
#endif
#include "families.h"
#define FAMILY FAMILY_RDNA3
#define WAVE   32
#define SIMDS  2
#include "amd.h"

/* ---- waits: stores have a counter of their own ---- */
DEVICE void stores_done(void) { asm volatile("s_waitcnt vmcnt(0) lgkmcnt(0)\n\ts_waitcnt_vscnt null, 0x0" ::: "memory"); }

/* ---- lanes: two rows of 16 ---- */
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask)
{
    if (mask != 16) return lane_xor_row_u32(x, mask);
    x = (uint32_t)__builtin_amdgcn_permlanex16((int32_t)x, (int32_t)x, 0x76543210, (int32_t)0xfedcba98, false, false);
    asm volatile("" : "+v"(x));                  /* pinned: clang 19 would move it into a branch that not all lanes take */
    return x;
}
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return mask == 4 ? LANE_DPP_U32(x, 0x141) : lane_xor_u32(x, mask); }
DEVICE uint32_t wave_any(uint32_t x) { return __builtin_amdgcn_ballot_w32(x != 0) != 0; }
DEVICE uint32_t wave_first(uint32_t x) { return (uint32_t)__builtin_ctz(__builtin_amdgcn_ballot_w32(x != 0)); }

/* ---- integer products: v_dot4_i32_iu8 ---- */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c) { return __builtin_amdgcn_sudot4(true, (int32_t)a, true, (int32_t)b, c, false); }

/* ---- the matrix unit: v_wmma_f32_16x16x16 ---- */
#include "wmma.h"
typedef f16   mma_f16s __attribute__((ext_vector_type(16)));
typedef short mma_bf16s __attribute__((ext_vector_type(16)));
typedef float mma_f32s __attribute__((ext_vector_type(8)));
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_f16s x = __builtin_bit_cast(mma_f16s, *a), y = __builtin_bit_cast(mma_f16s, *b);
    const mma_f32s d = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(x, y, __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_bf16s x = __builtin_bit_cast(mma_bf16s, *a), y = __builtin_bit_cast(mma_bf16s, *b);
    const mma_f32s d = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(x, y, __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_pin(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
}

/* ---- copies to LDS ---- */
#include "copy_registers.h"
#endif
