/* mma.c -- matrix instructions: MFMA (CDNA3 ISA 7, wave of 64) and WMMA (RDNA3 ISA 7.9, wave of 32).  D = A B + C.
 *
 * In operand A, lane l holds the elements (row i, k = first + e), e = 0, 1, ... through its registers from the low bits up; B is the same
 * with columns.  So element e of neighbouring lanes is a row of A transposed, and registers become a[k][i] and b[k][j] without a shuffle:
 *
 *   MFMA, 16 or 32 rows:  i = l % rows, group g = l / rows;  k = each * g + e, or with several blocks: block g
 *         D register r:   i = 4 (64 / rows) (r / 4) + 4 (l / rows) + r % 4, j = l % rows; blocks one after the other
 *   MFMA, 4 rows:         i = l % 4, block l / 4, k = e;  D register r: i = r, j = l % 4
 *   WMMA:                 i = l % 16, k = e, lanes 16 to 31 repeat lanes 0 to 15;  D register r: i = 2 r + l / 16, j = l % 16
 *
 * Arithmetic: the documents leave the order and width of the inner sums open.  Here products are exact; sums are in f64, C first and then k
 * ascending; and the result is rounded once, to nearest even.  A chip's result lies near that, and tests must not depend on its last bits.
 * MODE is ignored: denormals are kept in all formats (CDNA3 ISA 7.1; for WMMA no document says it).  Integers are exact, and wrap unless
 * clamped.
 *
 * D(i, j) is undefined if an element in row i of A, in column j of B, or C(i, j) is undefined. */
#include "gfxsim.h"
#include "numbers.h"
#include <immintrin.h>
#include <string.h>

enum format { F32, F16, BF16, FP8, BF8, I8, U8, I4, U4, I32 };
struct shape {
    uint8_t rows, k, blocks;                     /* per block: D is rows x rows */
    uint8_t a, b, d;                             /* enum format; d also for C */
    bool    wmma;
};
enum { MAX_ROWS = 32, MAX_K = 32, MAX_BLOCKS = 16, MAX_D = 32 /* registers */ };

static const uint8_t bits_of[] = { [F32] = 32, [F16] = 16, [BF16] = 16, [FP8] = 8, [BF8] = 8, [I8] = 8, [U8] = 8, [I4] = 4, [U4] = 4,
                                   [I32] = 32 };

/* ---- elements ---- */

/* The most frequent format by the host's own conversion, eight lanes at a time: it does not flush f16 (Intel SDM, VCVTPH2PS). */
static void unpack_f16(double *out, const uint32_t *in, uint32_t n, uint32_t shift, uint32_t flip)
{
    const __m256i mask = _mm256_set1_epi32(0xffff), sign = _mm256_set1_epi32((int)flip);
    const __m128i count = _mm_cvtsi32_si128((int)shift);
    for (uint32_t l = 0; l < n; l += 8) {
        const __m256i u = _mm256_and_si256(_mm256_xor_si256(_mm256_srl_epi32(_mm256_loadu_si256((const __m256i *)(in + l)), count), sign),
                                           mask);
        const __m256 f = _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
        _mm256_storeu_pd(out + l, _mm256_cvtps_pd(_mm256_castps256_ps128(f)));
        _mm256_storeu_pd(out + l + 4, _mm256_cvtps_pd(_mm256_extractf128_ps(f, 1)));
    }
}

/* n lanes of one register to numbers; the element begins at bit `shift`; flip: its sign bit if it must be negated. */
static void unpack(double *out, const uint32_t *in, uint32_t n, enum format format, uint32_t shift, uint32_t flip)
{
    if (format == F16 && n >= 16) { unpack_f16(out, in, n, shift, flip); return; }
#define EACH(NUMBER) for (uint32_t l = 0; l < n; l++) { const uint32_t u = (in[l] >> shift) ^ flip; out[l] = (double)(NUMBER); } break
    switch (format) {
    case F32:  EACH(bits_f32(u));
    case F16:  EACH(f16_to_f32(u));
    case BF16: EACH(bf16_to_f32(u));
    case FP8:  EACH(fp8_to_f32(u));
    case BF8:  EACH(bf8_to_f32(u));
    case I8:   EACH((int32_t)(u << 24) >> 24);
    case U8:   EACH((int32_t)(u & 255u));
    case I4:   EACH((int32_t)(u << 28) >> 28);
    case U4:   EACH((int32_t)(u & 15u));
    case I32:  EACH((int32_t)u);
    }
#undef EACH
}

/* Numbers to n lanes of a D register; 16-bit results to the half at bit `shift`. */
static void pack_f32(uint32_t *out, const double *in, uint32_t n) { for (uint32_t l = 0; l < n; l++) out[l] = f32_bits((float)in[l]); }
static void pack_i32(uint32_t *out, const double *in, uint32_t n, bool clamp)
{
    for (uint32_t l = 0; l < n; l++) {
        const double low = clamp && in[l] < -0x1p31 ? -0x1p31 : in[l], x = clamp && low > 0x1p31 - 1 ? 0x1p31 - 1 : low;
        out[l] = (uint32_t)f64_bits(x + 0x1.8p52);     /* the integer is in the low bits of the mantissa, modulo 2^32 */
    }
}
/* f64 to bf16 with one rounding: bits that do not fit into 32 bits of the f64 make the last of these odd. */
static uint32_t f64_to_bf16(double x)
{
    const float f = (float)x;
    const uint32_t u = f32_bits(f);
    if ((double)f == x || x != x || (u & 1u) || (u & 0x7fffffffu) == 0x7f800000u) return f32_to_bf16(f);
    return f32_to_bf16(bits_f32(fabs((double)f) < fabs(x) ? u + 1 : u - 1));
}
static void pack_half(uint32_t *out, const double *in, uint32_t n, enum format format, uint32_t shift)
{
    for (uint32_t l = 0; l < n; l++) {
        const uint32_t h = format == F16 ? f64_to_f16(in[l]) : f64_to_bf16(in[l]);
        out[l] = (out[l] & ~(0xffffu << shift)) | h << shift;
    }
}

/* ---- layout ---- */

/* A's or B's numbers as x[k][lane of a block], block after block; registers from lane 0 on.  flip[h]: sign bits to flip in even and odd
 * elements. */
static void unpack_operand(double *x, const struct shape *s, const uint32_t *in, uint32_t lanes, enum format format, const uint32_t flip[2])
{
    const uint32_t groups = s->wmma ? 1 : lanes / s->rows, k_groups = groups / s->blocks, each = s->k / k_groups, bits = bits_of[format],
        in_one = 32 / bits;
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t e = 0; e < each; e++) {
            const uint32_t block = g / k_groups, k = each * (g % k_groups) + e;
            unpack(x + (block * s->k + k) * s->rows, in + e / in_one * lanes + g * s->rows, s->rows, format, e % in_one * bits,
                   flip[e & 1u]);
        }
}

struct place { uint32_t reg, lane; };             /* of D(i, 0) */
static struct place place_of(const struct shape *s, uint32_t block, uint32_t i)
{
    const uint32_t groups = 64u / s->rows;
    if (s->wmma) return (struct place){ i / 2, 16 * (i % 2) };
    if (s->rows == 4) return (struct place){ i, 4 * block };
    return (struct place){ block * s->rows * s->rows / 64 + 4 * (i / (4 * groups)) + i % 4, s->rows * (i / 4 % groups) };
}

static uint32_t d_registers(const struct shape *s) { return s->wmma ? 8 : s->rows * s->rows * s->blocks / 64u; }

/* ---- arithmetic ---- */

/* Two rows of D times 16 columns: eight registers of the host. */
static void multiply_tile(double *d, const double *a, const double *b, uint32_t rows, uint32_t k_end)
{
    __m256d sum[2][4];
    for (uint32_t r = 0; r < 2; r++) for (uint32_t v = 0; v < 4; v++) sum[r][v] = _mm256_loadu_pd(d + r * rows + 4 * v);
    for (uint32_t k = 0; k < k_end; k++) {
        const __m256d a0 = _mm256_set1_pd(a[k * rows]), a1 = _mm256_set1_pd(a[k * rows + 1]);
        for (uint32_t v = 0; v < 4; v++) {
            const __m256d column = _mm256_loadu_pd(b + k * rows + 4 * v);
            sum[0][v] = _mm256_fmadd_pd(a0, column, sum[0][v]);
            sum[1][v] = _mm256_fmadd_pd(a1, column, sum[1][v]);
        }
    }
    for (uint32_t r = 0; r < 2; r++) for (uint32_t v = 0; v < 4; v++) _mm256_storeu_pd(d + r * rows + 4 * v, sum[r][v]);
}

/* d[rows][rows] += transposed a[k][rows] times b[k][rows] */
static void multiply(double *d, const double *a, const double *b, uint32_t rows, uint32_t k_end)
{
    if (rows == 4) {
        for (uint32_t i = 0; i < 4; i++)
            for (uint32_t k = 0; k < k_end; k++)
                for (uint32_t j = 0; j < 4; j++) d[4 * i + j] = fma(a[4 * k + i], b[4 * k + j], d[4 * i + j]);
        return;
    }
    for (uint32_t i = 0; i < rows; i += 2)
        for (uint32_t j = 0; j < rows; j += 16) multiply_tile(d + i * rows + j, a + i, b + j, rows, k_end);
}

/* ---- undefined lanes ---- */

static uint64_t undefined_in(const struct wave *w, uint32_t reg, uint32_t n)
{
    uint64_t undefined = 0;
    for (uint32_t r = reg; r < reg + n; r++) if (w->v_state[r]) undefined |= w->undefined[r];
    return undefined;
}

/* The rows of A (columns of B) with an undefined element: bits of lanes 0 to rows - 1 of each block, from bits of all lanes. */
static uint32_t undefined_rows(const struct shape *s, uint64_t lanes, uint32_t block)
{
    const uint32_t groups = 64u / s->rows, k_groups = groups / s->blocks, mask = (uint32_t)lanes_mask(s->rows);
    uint32_t rows = 0;
    if (s->wmma) return (uint32_t)(lanes | lanes >> 16) & 0xffffu;      /* the hardware reads both copies */
    for (uint32_t g = block * k_groups; g < (block + 1) * k_groups; g++) rows |= (uint32_t)(lanes >> g * s->rows) & mask;
    return rows;
}

static void undefined_result(const struct wave *w, const struct inst *i, const struct shape *s, uint64_t *undefined)
{
    const uint64_t a = undefined_in(w, i->src[0].reg, i->src[0].n), b = undefined_in(w, i->src[1].reg, i->src[1].n);
    const uint64_t whole = lanes_mask(s->rows);
    for (uint32_t r = 0; r < d_registers(s); r++) undefined[r] = i->src[2].kind == OPERAND_V ? undefined_in(w, i->src[2].reg + r, 1) : 0;
    if ((a | b) == 0) return;
    for (uint32_t block = 0; block < s->blocks; block++) {
        const uint32_t rows = undefined_rows(s, a, block), columns = undefined_rows(s, b, block);
        for (uint32_t row = 0; row < s->rows; row++) {
            const struct place at = place_of(s, block, row);
            undefined[at.reg] |= ((rows >> row & 1u) ? whole : columns) << at.lane;
        }
    }
}

/* ---- rules of the documents ---- */

static bool overlap(const struct operand *a, const struct operand *b)
{
    return a->kind == OPERAND_V && b->kind == OPERAND_V && a->reg < b->reg + b->n && b->reg < a->reg + a->n;
}

/* A larger D is written while A and B are still read: it may be C itself, but must not share other registers with a source (LLVM marks
 * these destinations as early clobbers: every WMMA, and MFMA with more than four registers of D). */
static bool registers_allowed(struct wave *w, const struct inst *i, const struct shape *s)
{
    const bool is_c = i->src[2].kind == OPERAND_V && i->src[2].reg == i->dst[0].reg;
    if (!s->wmma && d_registers(s) <= 4) return true;
    if (!overlap(&i->dst[0], &i->src[0]) && !overlap(&i->dst[0], &i->src[1]) && (is_c || !overlap(&i->dst[0], &i->src[2]))) return true;
    return !report(w, i, FINDING_OTHER, -1,
                   "the destination shares registers with a source, which the instruction still reads when it writes");
}

/* WMMA reads lanes 16 to 31 of A and B as well (RDNA3 ISA 7.9: data replicated). */
static bool halves_alike(struct wave *w, const struct inst *i, const struct operand *o, char name)
{
    for (uint32_t r = o->reg; r < o->reg + (uint32_t)o->n; r++) {
        const uint32_t *row = vgpr(w, r);
        if (memcmp(row, row + 16, 16 * sizeof *row) == 0) continue;
        for (uint32_t l = 0; l < 16; l++) {
            const uint64_t pair = 0x10001ull << l;
            if (row[l] == row[l + 16] || (w->v_state[r] && (w->undefined[r] & pair))) continue;
            return !report(w, i, FINDING_OTHER, (int)l + 16,
                           "lane %u of %c has 0x%08x in v%u where lane %u has 0x%08x: both halves must be equal", l + 16, name, row[l + 16],
                           r, l, row[l]);
        }
    }
    return true;
}

static bool modelled(const struct inst *i, const struct shape *s)
{
    const struct operand *a = &i->src[0], *b = &i->src[1], *c = &i->src[2], *d = &i->dst[0];
    const bool integer = s->d == I32, half = s->wmma && (s->d == F16 || s->d == BF16);
    const uint32_t lanes = s->wmma ? 16 : 64, n = d_registers(s);
    const uint32_t words_a = s->rows * s->k * s->blocks * bits_of[s->a] / 32 / lanes,
        words_b = s->rows * s->k * s->blocks * bits_of[s->b] / 32 / lanes;
    if (a->kind != OPERAND_V || b->kind != OPERAND_V || d->kind != OPERAND_V || a->n != words_a || b->n != words_b || d->n != n)
        return false;
    if (c->kind == OPERAND_V ? c->n != n : c->kind != OPERAND_INT && c->kind != OPERAND_FLOAT) return false;
    if (a->neg || b->neg || c->neg || a->abs || b->abs || c->abs || i->cbsz || i->abid || i->blgp || i->omod) return false;
    if ((i->flags & FLAG_CLAMP) && !(s->wmma && integer)) return false;
    if ((i->op_sel & ~(half ? 4u : 0u)) || (s->wmma && i->op_sel_hi != 7)) return false;
    return s->wmma ? !integer || (i->neg_hi == 0 && i->neg_lo < 4) : i->neg_lo == 0 && i->neg_hi == 0;
}

/* ---- one instruction ---- */

static enum matrix_format matrix_format(const struct shape *s)
{
    switch ((enum format)s->a) {
    case F32: return MATRIX_F32;
    case FP8: case BF8: return MATRIX_F8;
    case I8: case U8: return MATRIX_I8;
    case I4: case U4: return MATRIX_I4;
    case F16: case BF16: case I32: break;
    }
    return MATRIX_F16;
}

/* WMMA: neg_lo and neg_hi negate even and odd elements of A and B; for C neg_lo negates and neg_hi takes the absolute value.  For integers
 * neg_lo says that the numbers are signed. */
static void read_operands(struct wave *w, const struct inst *i, const struct shape *s, double *a, double *b)
{
    for (uint32_t k = 0; k < 2; k++) {
        enum format format = k == 0 ? s->a : s->b;
        const uint32_t sign = format == F16 || format == BF16 ? 0x8000u : 0;
        const uint32_t flip[2] = { (i->neg_lo >> k & 1u) * sign, (i->neg_hi >> k & 1u) * sign };
        if (s->wmma && s->d == I32 && (i->neg_lo >> k & 1u)) format = format == U8 ? I8 : I4;
        unpack_operand(k == 0 ? a : b, s, vgpr(w, i->src[k].reg), w->lanes, format, flip);
    }
}

static void read_c(struct wave *w, const struct inst *i, const struct shape *s, double *d, uint32_t block)
{
    const struct operand *c = &i->src[2];
    const uint32_t shift = i->op_sel & 4u && c->kind == OPERAND_V ? 16 : 0;
    uint32_t constant[MAX_ROWS];
    for (uint32_t l = 0; l < s->rows; l++) constant[l] = (uint32_t)c->bits;
    for (uint32_t row = 0; row < s->rows; row++) {
        const struct place at = place_of(s, block, row);
        double *out = d + row * s->rows;
        unpack(out, c->kind == OPERAND_V ? vgpr(w, c->reg + at.reg) + at.lane : constant, s->rows, s->d, shift, 0);
        if (s->d == I32) continue;
        if (i->neg_hi & 4u) for (uint32_t j = 0; j < s->rows; j++) out[j] = fabs(out[j]);
        if (i->neg_lo & 4u) for (uint32_t j = 0; j < s->rows; j++) out[j] = -out[j];
    }
}

static void store_d(const struct inst *i, const struct shape *s, uint32_t *rows, uint32_t lanes, const double *d, uint32_t block)
{
    for (uint32_t row = 0; row < s->rows; row++) {
        const struct place at = place_of(s, block, row);
        uint32_t *out = rows + at.reg * lanes + at.lane;
        if (s->d == F32) pack_f32(out, d + row * s->rows, s->rows);
        else if (s->d == I32) pack_i32(out, d + row * s->rows, s->rows, i->flags & FLAG_CLAMP);
        else pack_half(out, d + row * s->rows, s->rows, s->d, i->op_sel & 4u ? 16 : 0);
    }
}

static void compute(struct wave *w, const struct inst *i, const struct shape *s, uint32_t *rows)
{
    double a[MAX_ROWS * MAX_K], b[MAX_ROWS * MAX_K], d[MAX_ROWS * MAX_ROWS];      /* blocks times rows times k is at most 512 */
    const uint32_t mode = _mm_getcsr();
    _mm_setcsr(0x1f80);                                                           /* no flushing */
    read_operands(w, i, s, a, b);
    for (uint32_t block = 0; block < s->blocks; block++) {
        read_c(w, i, s, d, block);
        multiply(d, a + block * s->k * s->rows, b + block * s->k * s->rows, s->rows, s->k);
        store_d(i, s, rows, w->lanes, d, block);
    }
    _mm_setcsr(mode);
}

static void run(struct wave *w, const struct inst *i, const struct shape *s)
{
    const uint32_t n = d_registers(s), lanes = w->lanes;
    const uint64_t all = lanes_mask(lanes);
    uint32_t rows[MAX_D * MAX_LANES];
    uint64_t undefined[MAX_D], any = 0;
    if (!modelled(i, s) || lanes != (s->wmma ? 32 : 64)) { unknown_op(w, i); return; }
    if (!registers_allowed(w, i, s)) return;
    w->group->counters->matrix_flop[matrix_format(s)] += 2ull * s->rows * s->rows * s->k * s->blocks;
    if (s->wmma) {
        if (wave_exec(w) != all && report(w, i, FINDING_OTHER, -1, "exec is 0x%08x: WMMA needs all lanes", w->s[EXEC])) return;
        if (!halves_alike(w, i, &i->src[0], 'A') || !halves_alike(w, i, &i->src[1], 'B')) return;
    }
    undefined_result(w, i, s, undefined);
    /* a 16-bit D leaves the other halves of its registers unchanged */
    if (bits_of[s->d] == 16) memcpy(rows, vgpr(w, i->dst[0].reg), n * lanes * sizeof *rows);
    compute(w, i, s, rows);
    for (uint32_t r = 0; r < n; r++) any |= undefined[r];
    if (any == 0) { vgpr_write(w, i->dst[0].reg, n, rows, all, 0); return; }
    for (uint32_t r = 0; r < n; r++) vgpr_write(w, i->dst[0].reg + r, 1, rows + r * lanes, all, undefined[r]);
}

/* ---- the list ----
 * OP(name, rows, k, blocks, formats of A, B, D, WMMA).  K of WMMA is always 16; on gfx942 the bf16 forms are those called _1k
 * elsewhere. */
#define MMA_LIST(OP) \
    OP(v_wmma_f32_16x16x16_f16,      16, 16,  1, F16,  F16,  F32,  true) \
    OP(v_wmma_f32_16x16x16_bf16,     16, 16,  1, BF16, BF16, F32,  true) \
    OP(v_wmma_f16_16x16x16_f16,      16, 16,  1, F16,  F16,  F16,  true) \
    OP(v_wmma_bf16_16x16x16_bf16,    16, 16,  1, BF16, BF16, BF16, true) \
    OP(v_wmma_i32_16x16x16_iu8,      16, 16,  1, U8,   U8,   I32,  true) \
    OP(v_wmma_i32_16x16x16_iu4,      16, 16,  1, U4,   U4,   I32,  true) \
    OP(v_mfma_f32_16x16x16_f16,      16, 16,  1, F16,  F16,  F32,  false) \
    OP(v_mfma_f32_16x16x16_bf16,     16, 16,  1, BF16, BF16, F32,  false) \
    OP(v_mfma_f32_32x32x8_f16,       32,  8,  1, F16,  F16,  F32,  false) \
    OP(v_mfma_f32_32x32x8_bf16,      32,  8,  1, BF16, BF16, F32,  false) \
    OP(v_mfma_f32_16x16x4_4b_f16,    16,  4,  4, F16,  F16,  F32,  false) \
    OP(v_mfma_f32_16x16x4_4b_bf16,   16,  4,  4, BF16, BF16, F32,  false) \
    OP(v_mfma_f32_32x32x4_2b_f16,    32,  4,  2, F16,  F16,  F32,  false) \
    OP(v_mfma_f32_32x32x4_2b_bf16,   32,  4,  2, BF16, BF16, F32,  false) \
    OP(v_mfma_f32_4x4x4_16b_f16,      4,  4, 16, F16,  F16,  F32,  false) \
    OP(v_mfma_f32_4x4x4_16b_bf16,     4,  4, 16, BF16, BF16, F32,  false) \
    OP(v_mfma_f32_16x16x4_f32,       16,  4,  1, F32,  F32,  F32,  false) \
    OP(v_mfma_f32_32x32x2_f32,       32,  2,  1, F32,  F32,  F32,  false) \
    OP(v_mfma_f32_16x16x1_4b_f32,    16,  1,  4, F32,  F32,  F32,  false) \
    OP(v_mfma_f32_32x32x1_2b_f32,    32,  1,  2, F32,  F32,  F32,  false) \
    OP(v_mfma_f32_4x4x1_16b_f32,      4,  1, 16, F32,  F32,  F32,  false) \
    OP(v_mfma_i32_16x16x32_i8,       16, 32,  1, I8,   I8,   I32,  false) \
    OP(v_mfma_i32_32x32x16_i8,       32, 16,  1, I8,   I8,   I32,  false) \
    OP(v_mfma_i32_16x16x4_4b_i8,     16,  4,  4, I8,   I8,   I32,  false) \
    OP(v_mfma_i32_32x32x4_2b_i8,     32,  4,  2, I8,   I8,   I32,  false) \
    OP(v_mfma_i32_4x4x4_16b_i8,       4,  4, 16, I8,   I8,   I32,  false) \
    OP(v_mfma_f32_16x16x32_fp8_fp8,  16, 32,  1, FP8,  FP8,  F32,  false) \
    OP(v_mfma_f32_16x16x32_fp8_bf8,  16, 32,  1, FP8,  BF8,  F32,  false) \
    OP(v_mfma_f32_16x16x32_bf8_fp8,  16, 32,  1, BF8,  FP8,  F32,  false) \
    OP(v_mfma_f32_16x16x32_bf8_bf8,  16, 32,  1, BF8,  BF8,  F32,  false) \
    OP(v_mfma_f32_32x32x16_fp8_fp8,  32, 16,  1, FP8,  FP8,  F32,  false) \
    OP(v_mfma_f32_32x32x16_fp8_bf8,  32, 16,  1, FP8,  BF8,  F32,  false) \
    OP(v_mfma_f32_32x32x16_bf8_fp8,  32, 16,  1, BF8,  FP8,  F32,  false) \
    OP(v_mfma_f32_32x32x16_bf8_bf8,  32, 16,  1, BF8,  BF8,  F32,  false)

#define RUN(NAME, ROWS, K, BLOCKS, A, B, D, WMMA) \
    static void run_##NAME(struct wave *w, const struct inst *i) \
    { \
        static const struct shape shape = { ROWS, K, BLOCKS, A, B, D, WMMA }; \
        run(w, i, &shape); \
    }
MMA_LIST(RUN)

#define ROW(NAME, ROWS, K, BLOCKS, A, B, D, WMMA) \
    { .name = #NAME, .run = run_##NAME, .class = CLASS_MATRIX, .dst = T_ROWS, .src = { T_ROWS, T_ROWS, T_##D }, \
      .traits = TRAIT_OWN_DEFINED | TRAIT_ALL_LANES | (WMMA ? TRAIT_PACKED : 0) },
const struct op_info mma_ops[] = { MMA_LIST(ROW) };
const uint32_t n_mma_ops = sizeof mma_ops / sizeof mma_ops[0];
