/* mma.h -- products of 16 x 16 x 16 tiles on the matrix unit, one wave a tile: D[16 i][16 j] += A[16 i][16 k] B[16 k][16 j], A and B f16 or
 * bf16, sums f32.  The tile is spread over the lanes of a wave; which lane holds what depends on the target, so templates ask mma_row() and
 * mma_col() and let mma_load_*() read LDS.  All functions are called by every lane of the wave.  Also here: copies from global memory
 * to LDS, which sm_90 does without registers.
 *
 * Who holds what (l: lane; r: register of the accumulator):
 *   sm_90, mma.sync m16n8k16 twice (PTX ISA "Matrix Fragments for mma.m16n8k16"), g = l / 4, q = l % 4:
 *     A words 0..3: (i, k) = (g, 2q) (g + 8, 2q) (g, 2q + 8) (g + 8, 2q + 8) and k + 1 in the high half;
 *     B words 0, 1: (k, j) = (2q, g) (2q + 8, g), words 2, 3 the same of column g + 8;  D r: i = g + 8 (r / 2 % 2), j = 8 (r / 4) + 2q + r % 2.
 *   gfx11, WMMA (AMD "RDNA3 Instruction Set Architecture"): A row l % 16, all 16 k, the same in lane l + 16; B column l % 16 likewise;
 *     D r: i = 2 r + l / 16, j = l % 16.
 *   gfx942, MFMA 16x16x16 (AMD "CDNA3 Instruction Set Architecture"): A row l % 16, k = 4 (l / 16) .. + 3; B column l % 16 likewise;
 *     D r: i = 4 (l / 16) + r, j = l % 16.
 * The host has all three: the first, with SIMT_MMA_WMMA the second, with SIMT_MMA_MFMA and WAVE 64 the third.  With SIMT_MMA_GROUP it has the first and
 * the products of four waves (below), as a compilation for sm_90a has. */
#ifndef FORGE_MMA_H
#define FORGE_MMA_H
#include "dialect.h"

#if defined(__gfx942__) || defined(SIMT_MMA_MFMA)
#define MMA_MFMA
#define MMA_WORDS 2                              /* 32-bit words of an operand tile in a lane */
#elif defined(__AMDGCN__) || defined(SIMT_MMA_WMMA)
#define MMA_WMMA
#define MMA_WORDS 8
#else
#define MMA_SYNC
#define MMA_WORDS 4
#endif
#if !defined(__AMDGCN__) && !defined(__NVPTX__)
#define MMA_HOST
#endif
#define MMA_ACC (256 / WAVE)                     /* elements of an accumulator tile in a lane */
#ifdef MMA_MFMA
STATIC_ASSERT(WAVE == 64, "MFMA is spread over 64 lanes");
#else
STATIC_ASSERT(WAVE == 32, "WMMA and mma.sync are spread over 32 lanes");
#endif

struct mma_acc { float x[MMA_ACC]; };
struct mma_a   { uint32_t x[MMA_WORDS]; };
struct mma_b   { uint32_t x[MMA_WORDS]; };
/* Operands of MMA_WIDE_COLS columns of k, as many as a lane reads 16 bytes at a time: 32 on gfx942, for two products, 16 elsewhere.  Which columns the
 * first product takes is the same for A and B, and not said: both are loaded by mma_load_wide_*(). */
#ifdef MMA_MFMA
enum { MMA_WIDE = 2 };
#else
enum { MMA_WIDE = 1 };
#endif
enum { MMA_WIDE_COLS = 16 * MMA_WIDE };
struct mma_wide_a { struct mma_a k[MMA_WIDE]; };
struct mma_wide_b { struct mma_b k[MMA_WIDE]; };

DEVICE void mma_zero(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) c->x[e] = 0.0f;
}
/* i and j of this lane's accumulator element e. */
#if defined(MMA_SYNC)
DEVICE uint32_t mma_row(const uint32_t e) { return lane_id() / 4 + 8 * (e / 2 % 2); }
DEVICE uint32_t mma_col(const uint32_t e) { return 8 * (e / 4) + lane_id() % 4 * 2 + e % 2; }
#elif defined(MMA_WMMA)
DEVICE uint32_t mma_row(const uint32_t e) { return 2 * e + lane_id() / 16; }
DEVICE uint32_t mma_col(const uint32_t e) { (void)e; return lane_id() % 16; }
#else
DEVICE uint32_t mma_row(const uint32_t e) { return 4 * (lane_id() / 16) + e; }
DEVICE uint32_t mma_col(const uint32_t e) { (void)e; return lane_id() % 16; }
#endif

/* A lane's elements lie in MMA_ROWS rows of the tile, as many in each: element n of row g. */
#if defined(MMA_SYNC)
enum { MMA_ROWS = 2 };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return 2 * g + n % 2 + 4 * (n / 2); }
#else
enum { MMA_ROWS = MMA_ACC };
DEVICE uint32_t mma_of_row(const uint32_t g, const uint32_t n) { return g + n; }
#endif

/* ---- operands from LDS ---- */
/* Where 16-byte piece `piece` of row `row` lies: with swizzle, pieces of neighbouring rows start in different banks though rows are 128 bytes
 * apart (SWIZZLED_ROW_BYTES); without, the caller pads its rows to an odd number of pieces. */
enum { SWIZZLED_ROW_BYTES = 128 };
DEVICE uint32_t lds_piece(const uint32_t row, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    return row * stride + (swizzle ? piece ^ row % 8 : piece) * 16;
}

#if defined(MMA_SYNC)
/* Four 8 x 8 matrices of 16-bit elements; lanes 8m .. 8m + 7 name the rows of matrix m, which goes to word m of all lanes: lane l gets elements
 * (l / 4, l % 4 * 2) and the next; transposed, (l % 4 * 2, l / 4) and the one below.  (PTX ISA "ldmatrix") */
#if defined(__NVPTX__)
DEVICE uint32_t lds_address(const uint8_t *p) { return (uint32_t)(uint64_t)(const __attribute__((address_space(3))) uint8_t *)p; }
DEVICE void ldmatrix(uint32_t x[4], const uint8_t *row, const uint32_t transposed)
{
    if (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(lds_address(row)) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(lds_address(row)) : "memory");
}
#else
DEVICE void ldmatrix(uint32_t x[4], const uint8_t *row, const uint32_t transposed)
{
    const uint8_t *const *rows = (const uint8_t *const *)simt_share(&row, sizeof row);
    const uint32_t g = lane_id() / 4, q = lane_id() % 4;
    for (uint32_t m = 0; m < 4; m++)
        for (uint32_t h = 0; h < 2; h++) {
            const uint8_t *element = transposed ? rows[8 * m + 2 * q + h] + 2 * g : rows[8 * m + g] + 2 * (2 * q + h);
            __builtin_memcpy((uint8_t *)&x[m] + 2 * h, element, 2);
        }
}
#endif
/* Rows i (or j) of k, pieces `piece` and piece + 1 of each: matrices of A in the order (i, k), (i + 8, k), (i, k + 8), (i + 8, k + 8). */
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 16, stride, piece ^ lane_id() / 16, swizzle), 0);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 8 + lane_id() / 16 * 8, stride, piece ^ lane_id() / 8 % 2, swizzle), 0);
}
DEVICE void mma_load_b_trans(struct mma_b *f, const uint8_t *tile, const uint32_t stride)
{
    ldmatrix(f->x, tile + lds_piece(lane_id() % 16, stride, lane_id() / 16, 0), 1);
}
#else
DEVICE void mma_rows(uint32_t x[MMA_WORDS], const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    const uint32_t row = lane_id() % 16;
#if defined(MMA_WMMA)
    const u32x4 low = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece, swizzle));
    const u32x4 high = *(const u32x4 *)(const void *)(tile + lds_piece(row, stride, piece ^ 1, swizzle));
    for (uint32_t n = 0; n < 4; n++) {
        x[n] = low[n];
        x[n + 4] = high[n];
    }
#else
    const u32x2 v = *(const u32x2 *)(const void *)(tile + lds_piece(row, stride, piece ^ lane_id() / 32, swizzle) + lane_id() / 16 % 2 * 8);
    x[0] = v.x;
    x[1] = v.y;
#endif
}
DEVICE void mma_rows_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows(f->x, tile, stride, piece, swizzle);
}
DEVICE void mma_load_b_trans(struct mma_b *f, const uint8_t *tile, const uint32_t stride)
{
    const uint32_t k = MMA_WORDS == 2 ? lane_id() / 16 * 4 : 0;
    for (uint32_t n = 0; n < MMA_WORDS; n++) {
        const uint8_t *p = tile + (k + 2 * n) * stride + lane_id() % 16 * 2;
        f->x[n] = *(const uint16_t *)(const void *)p | (uint32_t)*(const uint16_t *)(const void *)(p + stride) << 16;
    }
}
#endif
/* tile: in LDS, 16-byte aligned; stride: bytes between its rows, a multiple of 16.  A: element (i, k) at tile + i stride + 2 k.
 * B: element (k, j) at tile + j stride + 2 k, as rows of a weight matrix lie; transposed: at tile + k stride + 2 j. */
DEVICE void mma_load_a(struct mma_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_b(struct mma_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_b(f, tile, stride, 0, 0); }

/* The same for wide operands; swizzled: from rows of SWIZZLED_ROW_BYTES whose pieces lie where lds_piece() puts them; tile: its first row, a multiple of 8 in
 * the swizzled area, which is 128-byte aligned; piece: the first of the 2 MMA_WIDE that hold these columns, a multiple of that.  On gfx942 lane l has columns
 * 8 (l / 16) .. + 7: the first four go to the first product, and no two lanes that read at once want the same banks. */
#if defined(MMA_MFMA)
DEVICE void mma_rows_wide(uint32_t first[2], uint32_t second[2], const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    const u32x4 v = *(const u32x4 *)(const void *)(tile + lds_piece(lane_id() % 16, stride, piece ^ lane_id() / 16, swizzle));
    first[0] = v.x;
    first[1] = v.y;
    second[0] = v.z;
    second[1] = v.w;
}
DEVICE void mma_rows_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_wide(f->k[0].x, f->k[1].x, tile, stride, piece, swizzle);
}
DEVICE void mma_rows_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_wide(f->k[0].x, f->k[1].x, tile, stride, piece, swizzle);
}
#else
DEVICE void mma_rows_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_a(&f->k[0], tile, stride, piece, swizzle);
}
DEVICE void mma_rows_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride, const uint32_t piece, const uint32_t swizzle)
{
    mma_rows_b(&f->k[0], tile, stride, piece, swizzle);
}
#endif
DEVICE void mma_load_wide_a(struct mma_wide_a *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_a(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_b(struct mma_wide_b *f, const uint8_t *tile, const uint32_t stride) { mma_rows_wide_b(f, tile, stride, 0, 0); }
DEVICE void mma_load_wide_a_swizzled(struct mma_wide_a *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_a(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}
DEVICE void mma_load_wide_b_swizzled(struct mma_wide_b *f, const uint8_t *tile, const uint32_t piece)
{
    mma_rows_wide_b(f, tile, SWIZZLED_ROW_BYTES, piece, 1);
}

/* ---- the product ---- */
#if defined(MMA_HOST)
/* Element k of row (or column) `index` of operand A (0) or B (1), from the registers of all lanes; half: which of two equal copies. */
static inline float mma_element(const uint32_t *words, const uint32_t operand, const uint32_t index, const uint32_t k, const uint32_t half,
                                const uint32_t bf16)
{
#if defined(MMA_SYNC)
    const uint32_t lane = index % 8 * 4 + k % 8 / 2, word = operand ? 2 * (index / 8) + k / 8 : index / 8 + 2 * (k / 8);
    (void)half;
#elif defined(MMA_WMMA)
    const uint32_t lane = index + 16 * half, word = k / 2;
#else
    const uint32_t lane = index + 16 * (k / 4), word = k % 4 / 2;
    (void)half;
#endif
    const uint32_t bits = words[(2 * lane + operand) * MMA_WORDS + word] >> 16 * (k % 2) & 0xffffu;
    return bf16 ? f32_of_bf16_bits(bits) : f32_of_f16_bits(bits);
}
static inline void mma_any(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b, const uint32_t bf16)
{
    const struct { struct mma_a a; struct mma_b b; } mine = { *a, *b };
    const uint32_t *words = (const uint32_t *)simt_share(&mine, sizeof mine);
    for (uint32_t e = 0; e < MMA_ACC; e++)
        for (uint32_t k = 0; k < 16; k++)
            c->x[e] += mma_element(words, 0, mma_row(e), k, lane_id() / 16, bf16) * mma_element(words, 1, mma_col(e), k, lane_id() / 16, bf16);
}
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)  { mma_any(c, a, b, 0); }
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b) { mma_any(c, a, b, 1); }
#elif defined(__NVPTX__)
#define MMA_SYNC_HALF(type, c, a, b) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
        : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))
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
#else
typedef f16   mma_f16s __attribute__((ext_vector_type(2 * MMA_WORDS)));
typedef short mma_bf16s __attribute__((ext_vector_type(2 * MMA_WORDS)));
typedef float mma_f32s __attribute__((ext_vector_type(MMA_ACC)));
#if defined(MMA_WMMA)
#define MMA_F16(a, b, c)  __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
#define MMA_BF16(a, b, c) __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(a, b, c)
#else
#define MMA_F16(a, b, c)  __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0)
#define MMA_BF16(a, b, c) __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)
#endif
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_f32s d = MMA_F16(__builtin_bit_cast(mma_f16s, *a), __builtin_bit_cast(mma_f16s, *b), __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)
{
    const mma_f32s d = MMA_BF16(__builtin_bit_cast(mma_bf16s, *a), __builtin_bit_cast(mma_bf16s, *b), __builtin_bit_cast(mma_f32s, *c));
    *c = __builtin_bit_cast(struct mma_acc, d);
}
#endif

/* ---- products of four waves at once, straight from LDS ---- */
/* sm_90a, wgmma m64n128k16 (PTX ISA "Asynchronous warpgroup level matrix instructions"): waves 4n .. 4n + 3 of a group multiply 64 rows of A by 128 of B;
 * wave w has rows 16 (w % 4) .. of the result, as eight tiles of 16 x 16 side by side that look like those of mma.sync.  Both operands are swizzled
 * rows (SWIZZLED_ROW_BYTES) and begin at multiples of 1024 bytes.
 * What the group wrote to LDS is seen after mma_group_written() in every thread that wrote and a barrier(); mma_group_begin(), products,
 * mma_group_commit(); the sums and the operands' LDS are the caller's again after mma_group_wait() and mma_group_sum(). */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(SIMT_MMA_GROUP)
enum { MMA_GROUP = 1 };
#else
enum { MMA_GROUP = 0 };
#endif
enum { MMA_GROUP_WAVES = 4, MMA_GROUP_A = 64, MMA_GROUP_B = 128 };   /* rows of A and of B */
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* Matrix descriptor: address / 16; 1, unused with swizzled rows; bytes / 16 from 8 rows to the next 8; 1 << 62: rows of 128 bytes, swizzled. */
DEVICE uint64_t mma_group_rows(const uint8_t *rows, const uint32_t piece)
{
    return (uint64_t)(lds_address(rows) >> 4) + piece + (1u << 16) + ((uint64_t)(8 * SWIZZLED_ROW_BYTES / 16) << 32) + ((uint64_t)1 << 62);
}
#define MMA_GROUP_REGISTERS(c, i) \
    "+f"((c)[i].x[0]), "+f"((c)[i].x[1]), "+f"((c)[i].x[2]), "+f"((c)[i].x[3]), "+f"((c)[i].x[4]), "+f"((c)[i].x[5]), "+f"((c)[i].x[6]), "+f"((c)[i].x[7])
#define MMA_GROUP_ANY(type, c, a, b) \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
         "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15," \
         "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31," \
         "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47," \
         "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63" \
         "}, %64, %65, p, 1, 1, 0, 0; }" \
        : MMA_GROUP_REGISTERS(c, 0), MMA_GROUP_REGISTERS(c, 1), MMA_GROUP_REGISTERS(c, 2), MMA_GROUP_REGISTERS(c, 3), \
          MMA_GROUP_REGISTERS(c, 4), MMA_GROUP_REGISTERS(c, 5), MMA_GROUP_REGISTERS(c, 6), MMA_GROUP_REGISTERS(c, 7) : "l"(a), "l"(b), "r"(1))
DEVICE void mma_group_written(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
DEVICE void mma_group_begin(void)   { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void mma_group_commit(void)  { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEVICE void mma_group_wait(void)    { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
/* After the wait, for each tile: its sum is not read or moved before here. */
DEVICE void mma_group_sum(struct mma_acc *c)
{
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
}
/* c[8]: this wave's tiles; a, b: the first rows; piece: even, the first of the two that hold these 16 k. */
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    MMA_GROUP_ANY("f16", c, mma_group_rows(a, piece), mma_group_rows(b, piece));
}
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    MMA_GROUP_ANY("bf16", c, mma_group_rows(a, piece), mma_group_rows(b, piece));
}
#else
DEVICE void mma_group_written(void) { }
DEVICE void mma_group_begin(void)   { }
DEVICE void mma_group_commit(void)  { }
DEVICE void mma_group_wait(void)    { }
DEVICE void mma_group_sum(struct mma_acc *c) { (void)c; }
#if defined(SIMT_MMA_GROUP)
static inline void mma_group_any(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece, const uint32_t bf16)
{
    for (uint32_t e = 0; e < 8 * MMA_ACC; e++)
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t i = 16 * (wave_id() % 4) + mma_row(e % MMA_ACC), j = 16 * (e / MMA_ACC) + mma_col(e % MMA_ACC);
            uint16_t x, y;
            __builtin_memcpy(&x, a + lds_piece(i, SWIZZLED_ROW_BYTES, piece + k / 8, 1) + k % 8 * 2, 2);
            __builtin_memcpy(&y, b + lds_piece(j, SWIZZLED_ROW_BYTES, piece + k / 8, 1) + k % 8 * 2, 2);
            c[e / MMA_ACC].x[e % MMA_ACC] += bf16 ? f32_of_bf16_bits(x) * f32_of_bf16_bits(y) : f32_of_f16_bits(x) * f32_of_f16_bits(y);
        }
}
#else
DEVICE void mma_group_any(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece, const uint32_t bf16)
{
    (void)c; (void)a; (void)b; (void)piece; (void)bf16;
}
#endif
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)  { mma_group_any(c, a, b, piece, 0); }
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece) { mma_group_any(c, a, b, piece, 1); }
#endif

/* The sum is finished here: its products are not sunk below what follows, which would keep their operands' registers taken. */
DEVICE void mma_pin(struct mma_acc *c)
{
#if defined(__AMDGCN__)
    for (uint32_t e = 0; e < MMA_ACC; e++) PIN_F32(c->x[e]);
#else
    (void)c;
#endif
}

/* ---- from one product to the next: mma.sync has the accumulator as operand A, its columns as k; the others as operand B, its rows as k ---- */
#if defined(MMA_SYNC)
/* The accumulator tile, rounded to f16: the registers fit as they are. */
DEVICE void mma_a_of_acc(struct mma_a *f, const struct mma_acc *c)
{
    for (uint32_t n = 0; n < 4; n++) f->x[n] = f16x2_bits(c->x[2 * n], c->x[2 * n + 1]);
}
/* Over the lanes that hold the same rows, so over 16 columns when a lane has first joined its own elements of a row (mma_of_row). */
DEVICE float mma_rows_max(float x) { return lanes_max_f32(x, 4); }
DEVICE float mma_rows_sum(float x) { return lanes_sum_f32(x, 4); }
#else
#if defined(__AMDGCN__)
DEVICE uint32_t f16x2_bits_cut(float lo, float hi) { return __builtin_bit_cast(uint32_t, __builtin_amdgcn_cvt_pkrtz(lo, hi)); }     /* toward zero */
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c) { return __builtin_amdgcn_fdot2(__builtin_bit_cast(f16x2, a), __builtin_bit_cast(f16x2, b), c, false); }
#else
DEVICE uint32_t f16x2_bits_cut(float lo, float hi) { return f16x2_bits(lo, hi); }
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
    return c + f32_of_f16_bits(a) * f32_of_f16_bits(b) + f32_of_f16_bits(a >> 16) * f32_of_f16_bits(b >> 16);
}
#endif
#if defined(MMA_WMMA)
/* Operand B of WMMA, of which the lower half of the wave has the first eight k and the upper the others. */
DEVICE void mma_b_of_halves(struct mma_b *f, const uint32_t mine[4])
{
    const uint32_t upper = lane_id() & 16;
    for (uint32_t n = 0; n < 4; n++) {
        const uint32_t other = lane_xor_u32(mine[n], 16);
        f->x[n] = upper ? other : mine[n];
        f->x[n + 4] = upper ? mine[n] : other;
    }
}
#else
DEVICE void mma_b_of_halves(struct mma_b *f, const uint32_t mine[4]) { (void)f; (void)mine; }    /* never called */
#endif
/* The accumulator tile, rounded to f16; order of k: MFMA that of the rows, WMMA 0, 2 .. 14, 1, 3 .. 15.
 * Returns sum and this lane's elements as they were rounded. */
DEVICE float mma_b_of_acc(struct mma_b *f, const struct mma_acc *c, float sum)
{
    uint32_t mine[MMA_ACC / 2];
    for (uint32_t n = 0; n < MMA_ACC / 2; n++) {
        mine[n] = f16x2_bits_cut(c->x[2 * n], c->x[2 * n + 1]);
        sum = dot2_f16(mine[n], 0x3c003c00u, sum);
    }
#if defined(MMA_WMMA)                            /* the lower half of the wave has even rows, the upper odd ones */
    mma_b_of_halves(f, mine);
#else
    for (uint32_t n = 0; n < MMA_WORDS; n++) f->x[n] = mine[n];
#endif
    return sum;
}
/* Over the lanes that hold the same column, so over 16 rows when a lane has first joined its own elements. */
DEVICE float mma_cols_max(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x = max_f32(x, lane_xor_f32(x, mask));
    return x;
}
DEVICE float mma_cols_sum(float x)
{
    for (uint32_t mask = 16; mask < WAVE; mask *= 2) x += lane_xor_f32(x, mask);
    return x;
}
#endif

/* ---- copies of 16 bytes from global memory to LDS ---- */
/* AMD: a base that is equal in all lanes stays in scalar registers and what a lane adds to it 32 bits wide, where the compiler would keep a 64-bit address
 * for each load of a loop and add to all of them at every step.  Both are variables that outlive the step. */
#if defined(__AMDGCN__)
#define PIN_BASE(pointer)  asm volatile("" : "+s"(pointer))
#define PIN_OFFSET(offset) asm volatile("" : "+v"(offset))
#else
#define PIN_BASE(pointer)  ((void)(pointer))
#define PIN_OFFSET(offset) ((void)(offset))
#endif
/* copy_begin() .. copy_end(): the destination must be free from the beginning on; it is filled after the end, copy_wait() and a barrier.
 * Between the two the bytes are on their way: to LDS on sm_90, elsewhere to the registers of struct copy.  valid 0: zeros, `from` is not read.
 * copy_commit() closes a group of copies of this thread; copy_wait(n): all but its last n groups are done. */
struct copy { u32x4 v; };
#if defined(MMA_SYNC)
enum { COPIES_REACH_LDS = 1 };                   /* without copy_end() */
#else
enum { COPIES_REACH_LDS = 0 };
#endif
#if defined(__NVPTX__)
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    (void)c;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(lds_address(to)), "l"(from), "r"(valid ? 16u : 0u) : "memory");
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { (void)c; (void)to; }
DEVICE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
DEVICE void copy_wait(const uint32_t n) { asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory"); }
#else
DEVICE void copy_commit(void) { }
DEVICE void copy_wait(const uint32_t n) { (void)n; }
#if defined(MMA_SYNC)                            /* the host as sm_90: bytes may arrive as early as this */
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    (void)c;
    if (valid) __builtin_memcpy(to, from, 16);
    else __builtin_memset(to, 0, 16);
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { (void)c; (void)to; }
#else
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    const u32x4 zero = { 0, 0, 0, 0 };
    (void)to;
    c->v = zero;
    if (valid) c->v = *(const GLOBAL u32x4 *)(const void *)from;
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { *(u32x4 *)(void *)to = c->v; }
#endif
#endif
#endif
