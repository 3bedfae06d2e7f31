/* check_formats.c -- the GPU weight formats and their packer, as host C: every format packed from random blocks, then multiplied and
 * decoded, against the scalar oracle of templates/ref.  tests/lanes/run_check.sh clang-19 formats
 * usage: check_formats [SEED]     prints what fails with its seed; exit code 1 then. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "compiler/format/layout.h"
#include "templates/ref/dequant.h"
#include "templates/gpu/acts_unit.h"
#include "tests/number_put.h"
#define EACH_FORMAT "tests/device/gpu_format.h"
#include "compiler/format/format.def"

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
struct reader {
    const struct format *format;
    uint32_t unit_cols, sums16;
    uint64_t (*row_bytes)(uint64_t cols);
    float    (*dot)(const uint8_t *row, uint32_t unit, uint32_t units, const struct acts_unit *x, uint32_t digits);
    void     (*decode)(float w[64], const uint8_t *row, uint32_t unit, uint32_t units);
    float    (*dotf)(const uint8_t *row, uint32_t unit, uint32_t units, const f32x4 x[2]);
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
#define QUANT_FLOAT(name, file, ...) FLOATING(file)
#define QUANT_BLOCK(name, file, ...) QUANTISED(file)
#include "compiler/format/format.def"

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

static const struct reader readers[] = {
#define QUANT_FLOAT(name, file, ...)                                                                                                       \
    { &format_table[PLACE_##name], UNIT_COLS_##file, SUMS16_##file, row_bytes_##file, NULL, run_decode_##file, run_dotf_##file },
#define QUANT_BLOCK(name, file, ...)                                                                                                       \
    { &format_table[PLACE_##name], UNIT_COLS_##file, SUMS16_##file, row_bytes_##file, run_dot_##file, run_decode_##file, NULL },
#include "compiler/format/format.def"
};
/* How far a decoded weight may be off: rel (|scale part| + |minimum|) + abs.  Blocks are rounded to f16 once; with scales of their own,
 * these first, too. */
struct bound { double rel, abs; };
static struct bound decode_bound(const struct format *f)
{
    static const struct bound once = { 1.001 / 2048, 1.001 / 33554432 }, twice = { 1.001 / 1024, 1.0 / 16777216 },
        digits = { 1.001 / 4194304, 1.001 / 33554432 };
    if (!f->coding) return f->number == NUMBER_F32 ? digits : (struct bound){ 0, 0 };
    return f->block_weights == 32 ? once : twice;
}

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
static void random_number(uint8_t *p, const struct format *f)
{
    const float x = random_sign() * ldexpf(1.0f + (float)random_below(1 << 23) / (1 << 23), (int)random_below(35) - 20);
    const uint16_t brain = (uint16_t)((random_u32() & 0x807f) | (100 + random_below(60)) << 7);
    switch (f->number) {
    case NUMBER_F32:  memcpy(p, &x, 4); break;
    case NUMBER_F16:  if (f->coding) random_half(p, -22, 0); else random_half(p, -24, 15); break;
    case NUMBER_BF16: memcpy(p, &brain, 2); break;
    case NUMBER_E8M0: *p = (uint8_t)(random_below(8) ? 96 + random_below(40) : random_below(96)); break;
    }
}
/* Codes as asked for; scales such that weights stay below 65504 and small ones are subnormal f16. */
static void fill_blocks(uint8_t *blocks, const struct format *f, uint64_t n_blocks, enum codes codes)
{
    static const uint8_t constant[N_CODES] = { 0, 0x00, 0xff, 0x80 };
    for (uint64_t b = 0; b < n_blocks; b++) {
        uint8_t *block = blocks + b * f->block_bytes;
        for (uint32_t i = 0; i < f->block_bytes; i++) block[i] = codes == CODES_RANDOM ? (uint8_t)random_u32() : constant[codes];
        for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++) {
            uint8_t bits[4];
            random_number(bits, f);
            number_put(block, f, i, bits);
        }
    }
}
/* How large the parts of each weight are: |w| with the other half float zero, added. */
static void magnitudes(double *m, const struct format *f, const uint8_t *blocks, uint64_t cols)
{
    static float part[MAX_COLS];
    const uint64_t bytes = format_row_bytes(f, cols);
    uint8_t *copy = malloc(bytes);
    for (uint64_t i = 0; i < cols; i++) m[i] = 0;
    for (uint32_t k = 0; k < (f->number_at[1] >= 0 ? 2 : 1); k++) {
        memcpy(copy, blocks, bytes);
        if (f->number_at[1] >= 0)
            for (uint64_t b = 0; b < cols / f->block_weights; b++) memset(copy + b * f->block_bytes + f->number_at[1 - k], 0, 2);
        dequantize_row_ref(f->id, part, copy, cols);
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
    const f32x4 s = { scale[0], scale[1], scale[0] * (float)sum[0], scale[1] * (float)sum[1] },
        s16 = { sum16[0], sum16[1], sum16[2], sum16[3] };
    a->scale = s;
    a->sum16 = s16;
    a->one = 0;
}

/* ---- checks ---- */
struct matrix {
    const struct reader *f;
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
    packing_write(packing_of(LAYOUT_GPU, m->f->format), m->packed, blocks, ROWS, m->cols, 0, ROWS);
    packing_write(packing_of(LAYOUT_GPU, m->f->format), again, blocks, ROWS, m->cols, 0, ROWS);
    if (memcmp(m->packed, again, bytes))
        FAIL("%s, %llu columns: the packer leaves bytes unwritten", m->f->format->name, (unsigned long long)m->cols);
    for (uint32_t i = 0; i < GUARD; i++)
        if (m->packed[bytes + i] != 0x5a) {
            FAIL("%s, %llu columns: the packer writes beyond the end", m->f->format->name, (unsigned long long)m->cols);
            break;
        }
    free(again);
}
static void check_decode(const struct matrix *m, uint64_t r, uint32_t unit, uint32_t units)
{
    const struct bound bound = decode_bound(m->f->format);
    float w[64];
    m->f->decode(w, m->packed + r * m->row_bytes, unit, units);
    for (uint64_t i = 0; i < m->f->unit_cols; i++) {
        const uint64_t col = (uint64_t)unit * m->f->unit_cols + i;
        const double expected = col < m->cols ? (double)m->weights[r * m->cols + col] : 0,
            size = col < m->cols ? m->magnitudes[r * m->cols + col] : 0;
        if (!(fabs((double)w[i] - expected) <= bound.rel * size + bound.abs))
            FAIL("%s, codes %s, %llu columns, row %llu: weight %llu decodes to %.9g, not %.9g", m->f->format->name, codes_name[m->codes],
                 (unsigned long long)m->cols, (unsigned long long)r, (unsigned long long)col, (double)w[i], expected);
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
    if (!(fabs((double)got - y) <= 1e-5 * size + 1e-30))          /* an E8M0 of 2^-127 counts as zero */
        FAIL("%s, codes %s, %llu columns, row %llu, unit %u, %u digits%s: product %.9g, not %.9g", m->f->format->name, codes_name[m->codes],
             (unsigned long long)m->cols, (unsigned long long)r, unit, digits, extreme ? ", extreme" : "", (double)got, y);
}
static void check_matrix(const struct reader *f, uint64_t cols, enum codes codes)
{
    const uint64_t file_bytes = format_row_bytes(f->format, cols);
    struct matrix m = { .f = f, .cols = cols, .row_bytes = packing_group_bytes(packing_of(LAYOUT_GPU, f->format), cols), .codes = codes };
    cases++;
    if (m.row_bytes != f->row_bytes(cols) || m.row_bytes % 16) {
        FAIL("%s, %llu columns: %llu row bytes, the kernel's are %llu", f->format->name, (unsigned long long)cols,
             (unsigned long long)m.row_bytes, (unsigned long long)f->row_bytes(cols));
        return;
    }
    m.packed     = aligned_alloc(64, (m.row_bytes * ROWS + GUARD + 63) / 64 * 64);
    m.weights    = malloc(ROWS * cols * sizeof *m.weights);
    m.magnitudes = malloc(ROWS * cols * sizeof *m.magnitudes);
    uint8_t *file = malloc(ROWS * file_bytes + 1), *blocks = file + 1;          /* odd: no alignment */
    fill_blocks(blocks, f->format, file_bytes / f->format->block_bytes * ROWS, codes);
    for (uint64_t r = 0; r < ROWS; r++) {
        dequantize_row_ref(f->format->id, m.weights + r * cols, blocks + r * file_bytes, cols);
        magnitudes(m.magnitudes + r * cols, f->format, blocks + r * file_bytes, cols);
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
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        for (uint32_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (uint32_t codes = 0; codes < N_CODES; codes++)
                if (cols[c] % readers[i].format->block_weights == 0) check_matrix(&readers[i], cols[c], (enum codes)codes);
    printf("check_formats: %llu cases passed\n", (unsigned long long)(failures ? 0 : cases));
    return failures != 0;
}
