/* check_formats.c -- the GPU weight formats and their packer, as host C: every format packed from random blocks, then multiplied and decoded, against
 * the scalar oracle of templates/ref.
 *   clang-19 -std=c11 -O1 -march=x86-64-v3 tests/lanes/check_formats.c compiler/format/pack_gpu.c compiler/format/blocks.c templates/ref/dequant.c tests/lanes/simt.c -lm
 * usage: check_formats [SEED]     prints what fails with its seed; exit code 1 then. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compiler/format/pack_gpu.h"
#include "compiler/format/blocks.h"
#include "compiler/front/gguf.h"
#include "templates/ref/dequant.h"
#include "templates/gpu/acts_unit.h"
#include "templates/gpu/formats/f32.h"
#include "templates/gpu/formats/f16.h"
#include "templates/gpu/formats/bf16.h"
#include "templates/gpu/formats/q8_0.h"
#include "templates/gpu/formats/q4_0.h"
#include "templates/gpu/formats/q4_1.h"
#include "templates/gpu/formats/q5_0.h"
#include "templates/gpu/formats/q5_1.h"
#include "templates/gpu/formats/q2_K.h"
#include "templates/gpu/formats/q3_K.h"
#include "templates/gpu/formats/q4_K.h"
#include "templates/gpu/formats/q5_K.h"
#include "templates/gpu/formats/q6_K.h"
#include "templates/gpu/formats/iq4_nl.h"
#include "templates/gpu/formats/iq4_xs.h"
#include "templates/gpu/formats/mxfp4.h"

enum { ROWS = 3, GUARD = 64, MAX_COLS = 4352 };

static uint64_t seed, state;
static uint64_t failures, cases;
static uint32_t random_u32(void)                /* splitmix64: Steele, Lea & Flood 2014 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32 ^ z >> 16);
}
static uint32_t random_below(uint32_t n) { return (uint32_t)((uint64_t)random_u32() * n >> 32); }
static float random_sign(void) { return (random_u32() & 1) ? -1.0f : 1.0f; }

#define FAIL(...) do { if (failures++ < 20) { printf(__VA_ARGS__); printf(" (seed %llu)\n", (unsigned long long)seed); } } while (0)

/* ---- the formats ---- */
struct format {
    const char *name;
    uint32_t quant, unit_cols, sums16;
    uint64_t (*row_bytes)(uint64_t cols);
    float    (*dot)(const uint8_t *row, uint32_t unit, uint32_t units, const struct acts_unit *x, uint32_t digits);
    void     (*decode)(float w[64], const uint8_t *row, uint32_t unit, uint32_t units);
    float    (*dotf)(const uint8_t *row, uint32_t unit, uint32_t units, const f32x4 x[2]);
    int      scale_at[2];                        /* half floats of a block: scale, minimum; -1: none */
    double   rel;                                /* bound of a decoded weight: rel (|scale part| + |minimum|) + abs */
    double   abs;
};

#define COMMON(fmt) \
    static uint64_t row_bytes_##fmt(uint64_t cols) { return ROW_BYTES_##fmt(cols); }
#define QUANTISED(fmt) \
    COMMON(fmt) \
    static float run_dot_##fmt(const uint8_t *row, uint32_t unit, uint32_t units, const struct acts_unit *x, uint32_t digits) \
    { \
        struct unit_##fmt u; \
        load_##fmt(&u, row, unit, units); \
        pin_##fmt(&u); \
        return digits == 1 ? dot_##fmt(&u, x, unit, 1) : dot_##fmt(&u, x, unit, 2); \
    } \
    static void run_decode_##fmt(float w[64], const uint8_t *row, uint32_t unit, uint32_t units) \
    { \
        struct unit_##fmt u; \
        uint32_t h[32]; \
        load_##fmt(&u, row, unit, units); \
        decode_##fmt(h, &u, unit); \
        for (uint32_t i = 0; i < 64; i++) w[i] = f32_of_f16_bits(h[i / 2] >> 16 * (i % 2)); \
    }
#define FLOATING(fmt) \
    COMMON(fmt) \
    static float run_dotf_##fmt(const uint8_t *row, uint32_t unit, uint32_t units, const f32x4 x[2]) \
    { \
        struct unit_##fmt u; \
        load_##fmt(&u, row, unit, units); \
        pin_##fmt(&u); \
        return dotf_##fmt(&u, x); \
    }
QUANTISED(q8_0)
QUANTISED(q4_0)
QUANTISED(q4_1)
QUANTISED(q5_0)
QUANTISED(q5_1)
QUANTISED(q2_K)
QUANTISED(q3_K)
QUANTISED(q4_K)
QUANTISED(q5_K)
QUANTISED(q6_K)
QUANTISED(iq4_nl)
QUANTISED(iq4_xs)
QUANTISED(mxfp4)
FLOATING(f32)
FLOATING(f16)
FLOATING(bf16)

static void run_decode_f32(float w[64], const uint8_t *row, uint32_t unit, uint32_t units)       /* both digits */
{
    struct unit_f32 u;
    uint32_t h[2], rest[2];
    load_f32(&u, row, unit, units);
    decode_f32(h, &u, unit);
    decode_rest_f32(rest, &u, unit);
    for (uint32_t i = 0; i < 4; i++) w[i] = f32_of_f16_bits(h[i / 2] >> 16 * (i % 2)) + f32_of_f16_bits(rest[i / 2] >> 16 * (i % 2));
}
static void run_decode_f16(float w[64], const uint8_t *row, uint32_t unit, uint32_t units)
{
    struct unit_f16 u;
    uint32_t h[4];
    load_f16(&u, row, unit, units);
    decode_f16(h, &u, unit);
    for (uint32_t i = 0; i < 8; i++) w[i] = f32_of_f16_bits(h[i / 2] >> 16 * (i % 2));
}
static void run_decode_bf16(float w[64], const uint8_t *row, uint32_t unit, uint32_t units)
{
    struct unit_bf16 u;
    uint32_t h[4];
    load_bf16(&u, row, unit, units);
    decode_bf16(h, &u, unit);
    for (uint32_t i = 0; i < 8; i++) w[i] = f32_of_bf16_bits(h[i / 2] >> 16 * (i % 2));
}

#define ONCE  1.001 / 2048, 1.001 / 33554432     /* rounded to f16 once */
#define TWICE 1.001 / 1024, 1.0 / 16777216       /* the scale rounded, too */
#define Q(fmt, id) #fmt, QUANT_##id, UNIT_COLS_##fmt, SUMS16_##fmt, row_bytes_##fmt, run_dot_##fmt, run_decode_##fmt, NULL
#define F(fmt, id) #fmt, QUANT_##id, UNIT_COLS_##fmt, SUMS16_##fmt, row_bytes_##fmt, NULL, run_decode_##fmt, run_dotf_##fmt
static const struct format formats[] = {
    { F(f32, F32),       { -1, -1 }, 1.001 / 4194304, 1.001 / 33554432 },
    { F(f16, F16),       { -1, -1 }, 0, 0 },
    { F(bf16, BF16),     { -1, -1 }, 0, 0 },
    { Q(q8_0, Q8_0),     { 0, -1 },  ONCE },
    { Q(q4_0, Q4_0),     { 0, -1 },  ONCE },
    { Q(q4_1, Q4_1),     { 0, 2 },   ONCE },
    { Q(q5_0, Q5_0),     { 0, -1 },  ONCE },
    { Q(q5_1, Q5_1),     { 0, 2 },   ONCE },
    { Q(q2_K, Q2_K),     { 80, 82 }, TWICE },
    { Q(q3_K, Q3_K),     { 108, -1 }, TWICE },
    { Q(q4_K, Q4_K),     { 0, 2 },   TWICE },
    { Q(q5_K, Q5_K),     { 0, 2 },   TWICE },
    { Q(q6_K, Q6_K),     { 208, -1 }, TWICE },
    { Q(iq4_nl, IQ4_NL), { 0, -1 },  ONCE },
    { Q(iq4_xs, IQ4_XS), { 0, -1 },  TWICE },
    { Q(mxfp4, MXFP4),   { -1, -1 }, ONCE },
};

/* ---- data ---- */
enum codes { CODES_RANDOM, CODES_ZEROS, CODES_ONES, CODES_TOP, N_CODES };       /* the constant bytes have the largest sums */
static const char *const codes_name[] = { "random", "all 0x00", "all 0xff", "all 0x80" };

/* A half float of random sign between 2^low and 2^high. */
static void random_half(uint8_t *p, int low, int high)
{
    const float x = random_sign() * ldexpf(1.0f + (float)random_below(1024) / 1024.0f, low + (int)random_below((uint32_t)(high - low)));
    const uint32_t h = f16_bits(x);
    memcpy(p, &h, 2);
}
/* Codes as asked for; scales such that weights stay below 65504 and small ones are subnormal f16. */
static void fill_blocks(uint8_t *blocks, const struct format *f, uint64_t n_blocks, struct block_shape shape, enum codes codes)
{
    static const uint8_t constant[N_CODES] = { 0, 0x00, 0xff, 0x80 };
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint8_t *block = blocks + b * shape.bytes;
        for (uint32_t i = 0; i < shape.bytes; i++) block[i] = codes == CODES_RANDOM ? (uint8_t)random_u32() : constant[codes];
        if (f->quant == QUANT_F32) {
            const float x = random_sign() * ldexpf(1.0f + (float)random_below(1 << 23) / (1 << 23), (int)random_below(35) - 20);
            memcpy(block, &x, 4);
        }
        if (f->quant == QUANT_BF16) {
            const uint16_t x = (uint16_t)(random_u32() & 0x807f) | (uint16_t)((100 + random_below(60)) << 7);
            memcpy(block, &x, 2);
        }
        if (f->quant == QUANT_F16)   random_half(block, -24, 15);
        if (f->quant == QUANT_MXFP4) block[0] = (uint8_t)(random_below(8) ? 96 + random_below(40) : random_below(96));
        for (uint32_t i = 0; i < 2; i++)
            if (f->scale_at[i] >= 0) random_half(block + f->scale_at[i], -22, 0);
    }
}
/* How large the parts of each weight are: |w| with the other half float zero, added. */
static void magnitudes(double *m, const struct format *f, const uint8_t *blocks, uint64_t cols, struct block_shape shape)
{
    static float part[MAX_COLS];
    const uint64_t bytes = cols / shape.weights * shape.bytes;
    uint8_t *copy = malloc(bytes);
    for (uint64_t i = 0; i < cols; i++) m[i] = 0;
    for (uint32_t k = 0; k < (f->scale_at[1] >= 0 ? 2u : 1u); k++) {
        memcpy(copy, blocks, bytes);
        if (f->scale_at[1] >= 0)
            for (uint64_t b = 0; b < cols / shape.weights; b++) memset(copy + b * shape.bytes + f->scale_at[1 - k], 0, 2);
        dequantize_row_ref(f->quant, part, copy, cols);
        for (uint64_t i = 0; i < cols; i++) m[i] += fabs((double)part[i]);
    }
    free(copy);
}
/* Random quantised activations of a unit; x: what they stand for.  With extreme: the largest digits, of one sign. */
static void fill_acts(struct acts_unit *a, double x[64], uint32_t digits, bool extreme)
{
    float scale[2], sum16[4] = { 0 };
    int32_t sum[2] = { 0 }, sum_of_16[4] = { 0 };
    int8_t q[2][64];
    const int8_t top = (random_u32() & 1) ? -128 : 127;
    for (uint32_t b = 0; b < 2; b++) scale[b] = ldexpf(1.0f + (float)random_below(1 << 20) / (1 << 20), (int)random_below(12) - 12);
    for (uint32_t i = 0; i < 64; i++) {
        q[0][i] = extreme ? top : (int8_t)random_u32();
        q[1][i] = digits == 1 ? (int8_t)random_u32() : extreme ? top : (int8_t)random_u32();
        const int32_t whole = digits == 1 ? q[0][i] : 256 * q[1][i] + q[0][i];
        x[i] = (double)scale[i / 32] * whole;
        sum[i / 32] += whole;
        sum_of_16[i / 16] += whole;
    }
    for (uint32_t i = 0; i < 4; i++) sum16[i] = scale[i / 2] * (float)sum_of_16[i];
    memcpy(a->q, q, sizeof q);
    const f32x4 s = { scale[0], scale[1], scale[0] * (float)sum[0], scale[1] * (float)sum[1] }, s16 = { sum16[0], sum16[1], sum16[2], sum16[3] };
    a->scale = s;
    a->sum16 = s16;
    a->one = 0;
}

/* ---- checks ---- */
struct matrix {
    const struct format *f;
    uint64_t cols, row_bytes;
    enum codes codes;
    uint8_t *packed;                             /* [ROWS][row_bytes] */
    float   *weights;                            /* [ROWS][cols] */
    double  *magnitudes;                         /* [ROWS][cols] */
};
/* Every byte is written and nothing beyond. */
static void check_pack(struct matrix *m, const uint8_t *blocks)
{
    const uint64_t bytes = m->row_bytes * ROWS;
    uint8_t *again = malloc(bytes + GUARD);
    memset(m->packed, 0x5a, bytes + GUARD);
    memset(again, 0xa5, bytes + GUARD);
    pack_gpu_rows(m->packed, m->f->quant, blocks, m->cols, ROWS);
    pack_gpu_rows(again, m->f->quant, blocks, m->cols, ROWS);
    if (memcmp(m->packed, again, bytes)) FAIL("%s, %llu columns: the packer leaves bytes unwritten", m->f->name, (unsigned long long)m->cols);
    for (uint32_t i = 0; i < GUARD; i++)
        if (m->packed[bytes + i] != 0x5a) { FAIL("%s, %llu columns: the packer writes beyond the end", m->f->name, (unsigned long long)m->cols); break; }
    free(again);
}
static void check_decode(const struct matrix *m, uint64_t r, uint32_t unit, uint32_t units)
{
    float w[64];
    m->f->decode(w, m->packed + r * m->row_bytes, unit, units);
    for (uint64_t i = 0; i < m->f->unit_cols; i++) {
        const uint64_t col = (uint64_t)unit * m->f->unit_cols + i;
        const double expected = col < m->cols ? (double)m->weights[r * m->cols + col] : 0, size = col < m->cols ? m->magnitudes[r * m->cols + col] : 0;
        if (!(fabs((double)w[i] - expected) <= m->f->rel * size + m->f->abs))
            FAIL("%s, codes %s, %llu columns, row %llu: weight %llu decodes to %.9g, not %.9g", m->f->name, codes_name[m->codes], (unsigned long long)m->cols,
                 (unsigned long long)r, (unsigned long long)col, (double)w[i], expected);
    }
}
static void check_dot(const struct matrix *m, uint64_t r, uint32_t unit, uint32_t units, uint32_t digits, bool extreme)
{
    struct acts_unit a;
    f32x4 xf[2];
    double x[64], y = 0, size = 0;
    float got;
    if (m->f->dot) {
        fill_acts(&a, x, digits, extreme);
        if (!m->f->sums16) {
            const float nan = NAN;
            const f32x4 unread = { nan, nan, nan, nan };
            a.sum16 = unread;
        }
        got = m->f->dot(m->packed + r * m->row_bytes, unit, units, &a, digits);
    } else {
        float v[8];
        for (uint32_t i = 0; i < 8; i++) x[i] = (double)(v[i] = random_sign() * (float)random_below(1 << 20) / (1 << 20));
        memcpy(xf, v, sizeof v);
        got = m->f->dotf(m->packed + r * m->row_bytes, unit, units, xf);
    }
    for (uint64_t i = 0; i < m->f->unit_cols; i++) {
        const uint64_t col = (uint64_t)unit * m->f->unit_cols + i;
        if (col < m->cols) {
            y += (double)m->weights[r * m->cols + col] * x[i];
            size += m->magnitudes[r * m->cols + col] * fabs(x[i]);
        }
    }
    if (!(fabs((double)got - y) <= 1e-5 * size))
        FAIL("%s, codes %s, %llu columns, row %llu, unit %u, %u digits%s: product %.9g, not %.9g", m->f->name, codes_name[m->codes],
             (unsigned long long)m->cols, (unsigned long long)r, unit, digits, extreme ? ", extreme" : "", (double)got, y);
}
static void check_matrix(const struct format *f, uint64_t cols, enum codes codes)
{
    const struct block_shape shape = block_shape(f->quant);
    const uint64_t n_blocks = cols / shape.weights, file_bytes = n_blocks * shape.bytes;
    struct matrix m = { .f = f, .cols = cols, .row_bytes = pack_gpu_row_bytes(f->quant, cols), .codes = codes };
    cases++;
    if (m.row_bytes != f->row_bytes(cols) || m.row_bytes % 16) {
        FAIL("%s, %llu columns: %llu row bytes, the kernel's are %llu", f->name, (unsigned long long)cols, (unsigned long long)m.row_bytes,
             (unsigned long long)f->row_bytes(cols));
        return;
    }
    m.packed     = aligned_alloc(64, (m.row_bytes * ROWS + GUARD + 63) / 64 * 64);
    m.weights    = malloc(ROWS * cols * sizeof *m.weights);
    m.magnitudes = malloc(ROWS * cols * sizeof *m.magnitudes);
    uint8_t *file = malloc(ROWS * file_bytes + 1), *blocks = file + 1;          /* odd: no alignment */
    fill_blocks(blocks, f, n_blocks * ROWS, shape, codes);
    for (uint64_t r = 0; r < ROWS; r++) {
        dequantize_row_ref(f->quant, m.weights + r * cols, blocks + r * file_bytes, cols);
        magnitudes(m.magnitudes + r * cols, f, blocks + r * file_bytes, cols, shape);
    }
    check_pack(&m, blocks);
    const uint32_t units = (uint32_t)((cols + 63) / 64), steps = units * 64 / f->unit_cols;
    for (uint64_t r = 0; r < ROWS; r++)
        for (uint32_t u = 0; u < steps; u++) {
            check_decode(&m, r, u, units);
            for (uint32_t digits = 1; digits <= (f->dot ? 2u : 1u); digits++) {
                check_dot(&m, r, u, units, digits, false);
                check_dot(&m, r, u, units, digits, true);
            }
        }
    free(file); free(m.magnitudes); free(m.weights); free(m.packed);
}
int main(int argc, char **argv)
{
    static const uint64_t cols[] = { 1, 7, 8, 32, 63, 64, 65, 96, 160, 224, 256, 288, 512, 768, 1000, 1280, 2048, 2880, 4096, 4352 };
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    state = seed;
    for (uint32_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (uint32_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (uint32_t codes = 0; codes < N_CODES; codes++)
                if (cols[c] % block_shape(formats[i].quant).weights == 0) check_matrix(&formats[i], cols[c], (enum codes)codes);
    printf("check_formats: %llu cases passed\n", (unsigned long long)(failures ? 0 : cases));
    return failures != 0;
}
