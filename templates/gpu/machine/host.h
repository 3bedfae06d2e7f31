/* host.h -- the host's processor, for tests/lanes: lanes of a group are fibers (tests/lanes/simt.c), and exchanges between them are
 * functions.  It has the fragments of every family and gets the registers of all lanes by simt_share(): by default Hopper's, with
 * -DFAMILY=FAMILY_RDNA3 those of RDNA 3, and so on.  With SIMT_MMA_GROUP it has Hopper's and the products of four waves, like a
 * compilation for sm_90a. */
#ifndef FORGE_MACHINE_H
#define FORGE_MACHINE_H
#include "words.h"
#ifndef FAMILY
#define FAMILY FAMILY_HOPPER
#endif
#if FAMILY_WAVE(FAMILY) == 64
#define WAVE 64
#else
#define WAVE 32
#endif
#define KERNEL(threads, groups) void
#define GLOBAL
#define UNROLL
#define LOADS_IN_ORDER 0
#define DEPENDENT_LAUNCH (WAVE == 32)            /* so that tests cover both cases */

/* ---- functions that the fibers implement ---- */
uint32_t simt_thread(void), simt_group_x(void), simt_group_y(void);
uint32_t simt_cluster_rank(void);
uint8_t *simt_lds(uint32_t rank);
void simt_barrier(void);
void simt_cluster_barrier(void);
void simt_pause(void);                           /* lets another GPU run */
/* Shares `bytes` bytes of each lane of a wave: [WAVE][bytes], valid until the next call. */
const void *simt_share(const void *mine, uint32_t bytes);

DEVICE uint32_t thread_x(void) { return simt_thread(); }
DEVICE uint32_t group_x(void)  { return simt_group_x(); }
DEVICE uint32_t group_y(void)  { return simt_group_y(); }
DEVICE uint32_t lane_id(void)  { return simt_thread() % WAVE; }
DEVICE uint32_t uniform(uint32_t x) { return x; }

/* ---- LDS and barriers ---- */
DEVICE uint8_t *lds(void) { return simt_lds(simt_cluster_rank()); }
DEVICE void barrier(void) { simt_barrier(); }
DEVICE void memory_barrier(void) { simt_barrier(); }
DEVICE void wave_barrier(void) { uint32_t nothing = 0; simt_share(&nothing, sizeof nothing); }

/* ---- clusters ---- */
DEVICE uint32_t cluster_rank(void) { return simt_cluster_rank(); }
DEVICE void meet_init(uint8_t *p, uint32_t waves) { (void)p, (void)waves; }
DEVICE void meet_arrive(uint8_t *p)            { (void)p; }
DEVICE void meet_wait(uint8_t *p, uint32_t n)  { (void)p, (void)n; barrier(); }
DEVICE void cluster_arrive(void)   { }
DEVICE void cluster_started(void)  { }
DEVICE void cluster_barrier(void)  { simt_cluster_barrier(); }
DEVICE void cluster_store16(void *p, uint32_t rank, const f32x4 x) { *(f32x4 *)(void *)(simt_lds(rank) + ((uint8_t *)p - lds())) = x; }
DEVICE void cluster_store4(void *p, uint32_t rank, float x)        { *(float *)(void *)(simt_lds(rank) + ((uint8_t *)p - lds())) = x; }
DEVICE void cluster_store8(void *p, uint32_t rank, const f32x2 x)  { *(f32x2 *)(void *)(simt_lds(rank) + ((uint8_t *)p - lds())) = x; }

/* ---- dependent launch ---- */
DEVICE void pdl_launch(void) { }
DEVICE void pdl_wait(void)   { }

/* ---- memory ---- */
DEVICE u32x4    load_weights16(const void *p) { return *(const u32x4 *)p; }
DEVICE u32x2    load_weights8(const void *p)  { return *(const u32x2 *)p; }
DEVICE uint32_t load_weights4(const void *p)  { return *(const uint32_t *)p; }
DEVICE uint32_t load_weights2(const void *p)  { return *(const uint16_t *)p; }
DEVICE u32x4    load_settled16(const void *p) { return *(const u32x4 *)p; }
DEVICE u32x2    load_settled8(const void *p)  { return *(const u32x2 *)p; }
DEVICE uint32_t load_settled4(const void *p)  { return *(const uint32_t *)p; }
DEVICE uint32_t load_settled2(const void *p)  { return *(const uint16_t *)p; }

#define PIN(x)             ((void)(x))
#define PIN_F32(x)         ((void)(x))
#define PIN_UNIFORM(x)     ((void)(x))
#define PIN_OFFSET(offset) ((void)(offset))
DEVICE const uint8_t *plane_at(const uint8_t *row, const uint32_t at, const uint32_t plane)  { return row + plane + at; }
DEVICE const uint8_t *quants_at(const uint8_t *row, const uint32_t at, const uint32_t plane) { return row + (plane + at); }

DEVICE void store_host_u32(uint32_t *p, uint32_t x) { *(volatile uint32_t *)p = x; }
DEVICE float load_shared_f32(const float *p) { return *p; }
DEVICE void store_shared_f32(float *p, float x) { *p = x; }
DEVICE void store_peer(void *p, uint64_t x) { __atomic_store_n((uint64_t *)p, x, __ATOMIC_RELAXED); }
DEVICE uint64_t load_peer(const void *p) { return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED); }
DEVICE float load_peer_f32(const void *p)
{
    const uint32_t bits = __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
    float x;
    __builtin_memcpy(&x, &bits, 4);
    return x;
}
DEVICE void peer_release(void) { }
DEVICE void store_flag(void *p, uint32_t x) { __atomic_store_n((uint32_t *)p, x, __ATOMIC_RELEASE); }
DEVICE uint32_t load_flag(const void *p) { return __atomic_load_n((const uint32_t *)p, __ATOMIC_ACQUIRE); }
DEVICE void poll_pause(void) { simt_pause(); }
DEVICE uint32_t counter_add(uint32_t *counter) { return (*counter)++; }
DEVICE void stores_done(void) { }
DEVICE void acquire(void) { }

/* ---- lanes ---- */
DEVICE uint32_t lane_xor_u32(uint32_t x, const uint32_t mask) { return ((const uint32_t *)simt_share(&x, sizeof x))[lane_id() ^ mask]; }
DEVICE uint32_t lane_other_u32(uint32_t x, const uint32_t mask) { return lane_xor_u32(x, mask); }
DEVICE uint32_t lane_get_u32(uint32_t x, uint32_t lane) { return ((const uint32_t *)simt_share(&x, sizeof x))[lane]; }
DEVICE uint32_t wave_any(uint32_t x)
{
    const uint32_t *all = (const uint32_t *)simt_share(&x, sizeof x);
    for (uint32_t lane = 0; lane < WAVE; lane++)
        if (all[lane]) return 1;
    return 0;
}
DEVICE uint32_t wave_first(uint32_t x)
{
    const uint32_t *all = (const uint32_t *)simt_share(&x, sizeof x);
    for (uint32_t lane = 0; lane < WAVE; lane++)
        if (all[lane]) return lane;
    return 0;
}
DEVICE uint32_t lane_of_wave_u32(uint32_t x, uint32_t lane) { return lane_get_u32(x, lane); }

/* ---- arithmetic ---- */
DEVICE int32_t dot4(uint32_t a, uint32_t b, int32_t c)
{
    for (uint32_t i = 0; i < 4; i++) c += (int32_t)(int8_t)(a >> 8 * i) * (int32_t)(int8_t)(b >> 8 * i);
    return c;
}
DEVICE float max_f32(float a, float b) { return a > b ? a : b; }
DEVICE float min_f32(float a, float b) { return a < b ? a : b; }
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
DEVICE uint32_t f16x2_bits_cut(float lo, float hi) { return f16x2_bits(lo, hi); }
DEVICE float dot2_f16(uint32_t a, uint32_t b, float c)
{
    return c + f32_of_f16_bits(a) * f32_of_f16_bits(b) + f32_of_f16_bits(a >> 16) * f32_of_f16_bits(b >> 16);
}

/* ---- the matrix unit.  mma_place() gives, independently of the layouts' functions, the lane and word of element k of row (or column)
 * `index` of operand A (0) or B (1); half: which of two equal copies ---- */
#include "fragments.h"
struct mma_place { uint32_t lane, word; };
#if FAMILY == FAMILY_RDNA3
#include "wmma.h"
static inline struct mma_place mma_place(const uint32_t operand, const uint32_t index, const uint32_t k, const uint32_t half)
{
    (void)operand;
    return (struct mma_place){ index + 16 * half, k / 2 };
}
#elif FAMILY == FAMILY_CDNA3
#include "mfma.h"
static inline struct mma_place mma_place(const uint32_t operand, const uint32_t index, const uint32_t k, const uint32_t half)
{
    (void)operand; (void)half;
    return (struct mma_place){ index + 16 * (k / 4), k % 4 / 2 };
}
#elif FAMILY == FAMILY_HOPPER
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
#include "mma_sync.h"
static inline struct mma_place mma_place(const uint32_t operand, const uint32_t index, const uint32_t k, const uint32_t half)
{
    (void)half;
    return (struct mma_place){ index % 8 * 4 + k % 8 / 2, operand ? 2 * (index / 8) + k / 8 : index / 8 + 2 * (k / 8) };
}
#else
#error "the lanes have no fragments of this family: see docs/target.md, 'A new GPU family'"
#endif
/* words: the registers of all lanes, first A's, then B's. */
static inline float mma_element(const uint32_t *words, const uint32_t operand, const uint32_t index, const uint32_t k, const uint32_t bf16)
{
    const struct mma_place place = mma_place(operand, index, k, lane_id() / 16);
    const uint32_t bits = words[(2 * place.lane + operand) * MMA_WORDS + place.word] >> 16 * (k % 2) & 0xffffu;
    return bf16 ? f32_of_bf16_bits(bits) : f32_of_f16_bits(bits);
}
static inline void mma_any(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b, const uint32_t bf16)
{
    const struct { struct mma_a a; struct mma_b b; } mine = { *a, *b };
    const uint32_t *words = (const uint32_t *)simt_share(&mine, sizeof mine);
    for (uint32_t e = 0; e < MMA_ACC; e++)
        for (uint32_t k = 0; k < 16; k++)
            c->x[e] += mma_element(words, 0, mma_row(e), k, bf16) * mma_element(words, 1, mma_col(e), k, bf16);
}
DEVICE void mma_f16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b)  { mma_any(c, a, b, 0); }
DEVICE void mma_bf16(struct mma_acc *c, const struct mma_a *a, const struct mma_b *b) { mma_any(c, a, b, 1); }
#if FAMILY_MMA_SUMS_ARE_A(FAMILY)
DEVICE void mma_narrow_f16(float c[4], const struct mma_a *a, const uint32_t b[2])
{
    const struct mma_b wide = { { b[0], b[1], 0, 0 } };
    struct mma_acc sums = { { c[0], c[1], c[2], c[3], 0, 0, 0, 0 } };
    mma_f16(&sums, a, &wide);
    for (uint32_t e = 0; e < 4; e++) c[e] = sums.x[e];
}
#endif
#if FAMILY_MMA_BYTES(FAMILY)
/* a, b: words of operands A and B in all lanes; a word of a lane has k 4q .. 4q + 3 of each 16. */
static inline void mma_bytes_any(uint32_t d[4], const uint32_t *a, const uint32_t *b, const uint32_t halves)
{
    uint32_t mine[6] = { a[0], a[1], halves > 1 ? a[2] : 0, halves > 1 ? a[3] : 0, b[0], halves > 1 ? b[1] : 0 };
    const uint32_t *words = (const uint32_t *)simt_share(mine, sizeof mine);
    for (uint32_t e = 0; e < 4; e++) {
        int32_t sum = MMA_BYTES_ZERO;
        for (uint32_t q = 0; q < 4; q++)
            for (uint32_t h = 0; h < halves; h++)
                sum = dot4(words[6 * (lane_id() / 4 * 4 + q) + e / 2 + 2 * h],
                           words[6 * ((lane_id() % 4 * 2 + e % 2) * 4 + q) + 4 + h], sum);
        d[e] = (uint32_t)sum;
    }
}
DEVICE void mma_bytes32(uint32_t d[4], const uint32_t a[4], const uint32_t b[2]) { mma_bytes_any(d, a, b, 2); }
DEVICE void mma_bytes16(uint32_t d[4], const uint32_t a[2], const uint32_t b)    { mma_bytes_any(d, a, &b, 1); }
#endif
DEVICE void mma_pin(struct mma_acc *c) { (void)c; }

/* ---- products of four waves (mma.h) ---- */
#if defined(SIMT_MMA_GROUP)
#define MMA_GROUP 1
DEVICE void mma_group_written(void) { }
DEVICE void mma_group_begin(void)   { }
DEVICE void mma_group_commit(void)  { }
DEVICE void mma_group_wait(const uint32_t n) { (void)n; }
DEVICE void mma_group_sum(struct mma_acc *c) { (void)c; }
static inline void mma_group_any(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece, const uint32_t tiles,
                                 const uint32_t bf16)
{
    for (uint32_t e = 0; e < tiles * MMA_ACC; e++)
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t i = 16 * (simt_thread() / WAVE % 4) + mma_row(e % MMA_ACC), j = 16 * (e / MMA_ACC) + mma_col(e % MMA_ACC);
            uint16_t x, y;
            __builtin_memcpy(&x, a + lds_piece(i, SWIZZLED_ROW_BYTES, piece + k / 8, 1) + k % 8 * 2, 2);
            __builtin_memcpy(&y, b + lds_piece(j, SWIZZLED_ROW_BYTES, piece + k / 8, 1) + k % 8 * 2, 2);
            c[e / MMA_ACC].x[e % MMA_ACC] +=
                bf16 ? f32_of_bf16_bits(x) * f32_of_bf16_bits(y) : f32_of_f16_bits(x) * f32_of_f16_bits(y);
        }
}
DEVICE void mma_group_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    mma_group_any(c, a, b, piece, 8, 0);
}
DEVICE void mma_group_half_f16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    mma_group_any(c, a, b, piece, 4, 0);
}
DEVICE void mma_group_bf16(struct mma_acc *c, const uint8_t *a, const uint8_t *b, const uint32_t piece)
{
    mma_group_any(c, a, b, piece, 8, 1);
}
DEVICE void mma_group_weights_f16(struct mma_acc *c, const struct mma_a *a, const uint8_t *rows, const uint32_t apart,
                                  const uint32_t tiles)
{
    for (uint32_t t = 0; t < tiles; t++) {
        struct mma_b b;
        for (uint32_t i = 0; i < 8; i++) {       /* word i / 2: as in mma_sync.h */
            const uint32_t k = lane_id() % 4 * 2 + i / 2 % 2 * 8 + i % 2, column = 16 * t + lane_id() / 4 + i / 4 * 8;
            __builtin_memcpy((uint8_t *)&b.x[i / 2] + i % 2 * 2,
                             rows + column / 64 * apart + lds_piece(k, SWIZZLED_ROW_BYTES, column % 64 / 8, 1) + column % 8 * 2, 2);
        }
        mma_f16(&c[t], a, &b);
    }
}
#endif

/* ---- copies to LDS: with a family whose copies reach LDS without registers, the bytes may arrive as early as this ---- */
#if FAMILY_COPIES_REACH_LDS(FAMILY)
struct copy { u32x4 v; };
DEVICE void copy_begin(struct copy *c, uint8_t *to, const uint8_t *from, const uint32_t valid)
{
    (void)c;
    if (valid) __builtin_memcpy(to, from, 16);
    else __builtin_memset(to, 0, 16);
}
DEVICE void copy_end(const struct copy *c, uint8_t *to) { (void)c; (void)to; }
DEVICE void copy_commit(void) { }
DEVICE void copy_wait(const uint32_t n) { (void)n; }
#else
#include "copy_registers.h"
#endif
#endif
