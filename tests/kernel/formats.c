/* formats.c -- the GPU weight formats and their packer: packs random blocks of every format, multiplies and decodes them, and compares with
 * the scalar oracle of templates/ref. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/acts_unit.h"
#include "templates/gpu/row_stride.h"
#include "cases.h"
#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"
#include <stdio.h>

enum { ROWS = 3, MAX_STEPS = 1088 };             /* 4352 columns by 4 */

static const struct format_reader {
    const struct format *format;
    uint32_t unit_cols, sums16;
    uint64_t (*row_bytes)(uint64_t cols);
} readers[];
#define QUANT(name, file, ...) static uint64_t row_bytes_##file(uint64_t cols) { return ROW_BYTES_##file(cols); }
#include "compiler/format/format.def"
static const struct format_reader readers[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], UNIT_COLS_##file, SUMS16_##file, row_bytes_##file },
#include "compiler/format/format.def"
};

/* The bound on a decoded weight's error: rel (|scale part| + |minimum|) + abs.  Weights are rounded to f16 once; in formats with scales of
 * sub-blocks, these scales are rounded first. */
struct bound { double rel, abs; };
static struct bound decode_bound(const struct format *f)
{
    static const struct bound once = { 1.001 / 2048, 1.001 / 33554432 }, twice = { 1.001 / 1024, 1.0 / 16777216 },
        digits = { 1.001 / 4194304, 1.001 / 33554432 };
    if (!f->coding) return f->number == NUMBER_F32 ? digits : (struct bound){ 0, 0 };
    return f->block_weights == 32 ? once : twice;
}

/* ---- activations ---- */
/* Random quantised activations of a unit; x: their values.  extreme: the largest digits, all of one sign. */
static void acts_fill(struct acts_unit *a, double x[64], uint32_t digits, bool extreme, uint32_t sums16)
{
    float scale[2], sum16[4] = { 0 };
    int32_t sum[2] = { 0 }, sum_of_16[4] = { 0 };
    int8_t q[3][64];
    const int8_t top = random_below(2) ? -128 : 127;
    for (uint32_t b = 0; b < 2; b++) scale[b] = fabsf(random_between(-12, 0));
    for (uint32_t i = 0; i < 64; i++) {
        int32_t whole = 0;
        for (uint32_t d = 3; d-- > 0;) {
            q[d][i] = extreme && d < digits ? top : (int8_t)random_u32();        /* unused digits are random */
            if (d < digits) whole = 256 * whole + q[d][i];
        }
        x[i] = (double)scale[i / 32] * whole;
        sum[i / 32] += whole;
        sum_of_16[i / 16] += whole;
    }
    for (uint32_t i = 0; i < 4; i++) sum16[i] = sums16 ? scale[i / 2] * (float)sum_of_16[i] : NAN;       /* NAN: must not be read */
    memcpy(a->q, q, sizeof q);
    const f32x4 s = { scale[0], scale[1], scale[0] * (float)sum[0], scale[1] * (float)sum[1] },
        s16 = { sum16[0], sum16[1], sum16[2], sum16[3] };
    a->scale = s;
    a->sum16 = s16;
    a->one = 0;
}

/* ---- checks ---- */
static struct on { const struct format_reader *f; struct matrix m; uint32_t steps; struct formats_case *c; struct room *room; } on;

static void launch(const char *what)
{
    char name[48];
    const struct forge_kernel_args args = { .weights = on.room->at };
    snprintf(name, sizeof name, "%s_%s_units", what, on.f->format->file);
    machine_launch(&(struct launch){ name, (on.steps + 63) / 64, ROWS, 64, 0, 0 }, &args);
}

/* Every byte is written. */
static void check_pack(void)
{
    const struct packing packing = packing_here(LAYOUT_GPU, on.f->format);
    const uint64_t bytes = on.m.packed->size, file_bytes = format_row_bytes(on.f->format, on.m.cols) * ROWS;
    uint8_t *one = malloc(bytes), *other = malloc(bytes), *blocks = malloc(file_bytes);
    blocks_fill(blocks, on.f->format, file_bytes / on.f->format->block_bytes, NUMBERS_F16, CODES_ANY);
    memset(one, 0x5a, bytes);
    memset(other, 0xa5, bytes);
    packing_write(packing, one, blocks, ROWS, on.m.cols, 0, ROWS);
    packing_write(packing, other, blocks, ROWS, on.m.cols, 0, ROWS);
    if (memcmp(one, other, bytes)) bad("the packer leaves bytes unwritten");
    free(one), free(other), free(blocks);
}

/* Weight i of the unit's words. */
static double decoded_weight(const uint32_t *words, uint32_t i)
{
    const uint32_t bits = words[i / 2] >> 16 * (i % 2);
    switch (on.f->format->number) {
    case NUMBER_BF16: return (double)f32_of_bf16_bits(bits & 0xffffu);
    case NUMBER_F32:  return (double)f32_of_f16_bits(bits) + (double)f32_of_f16_bits(words[2 + i / 2] >> 16 * (i % 2));
    default:          return (double)f32_of_f16_bits(bits);
    }
}

static bool check_decode(void)
{
    const struct bound bound = decode_bound(on.f->format);
    struct room *decoded = room_new("decoded units", sizeof(uint32_t[FORMATS_WORDS]) * ROWS * on.steps);
    on.c->decoded = decoded->at;
    launch("decode");
    for (uint32_t i = 0; i < ROWS * on.steps * on.f->unit_cols; i++) {
        const uint32_t row = i / (on.steps * on.f->unit_cols), col = i % (on.steps * on.f->unit_cols), place = i / on.f->unit_cols;
        const uint32_t *words = (const uint32_t *)(const void *)decoded->bytes + place * FORMATS_WORDS;
        const uint64_t at = (uint64_t)row * on.m.cols + col;
        const double want = col < on.m.cols ? (double)on.m.weights[at] : 0, size = col < on.m.cols ? (double)on.m.sizes[at] : 0;
        if (!close_to("weight", at, decoded_weight(words, i % on.f->unit_cols), want, bound.rel * size + bound.abs)) return false;
    }
    return true;
}

/* digits 0: of floats. */
static bool check_dot(uint32_t digits, bool extreme)
{
    static double x[ROWS * MAX_STEPS][64];
    const uint32_t n = ROWS * on.steps;
    struct room *acts = room_new("activations", digits ? n * sizeof(struct acts_unit) : n * sizeof(float[8])),
        *product = room_new("products", n * sizeof(float));
    for (uint32_t place = 0; place < n; place++) {
        if (digits) acts_fill((struct acts_unit *)(void *)acts->bytes + place, x[place], digits, extreme, on.f->sums16);
        for (uint32_t i = 0; i < 8 && !digits; i++)
            x[place][i] = (double)(room_floats(acts)[8 * place + i] = random_sign() * (float)random_below(1 << 20) * 0x1p-20f);
    }
    on.c->acts = acts->at;
    on.c->floats = acts->at;
    on.c->product = product->at;
    on.c->digits = digits;
    launch("dot");
    for (uint32_t place = 0; place < n; place++) {
        const uint32_t row = place / on.steps, col = place % on.steps * on.f->unit_cols;
        const uint32_t there = col >= on.m.cols ? 0 : on.m.cols - col < on.f->unit_cols ? on.m.cols - col : on.f->unit_cols;
        const uint64_t at = (uint64_t)row * on.m.cols + col;
        const struct dot want = there ? dot_ref(on.m.weights + at, on.m.sizes + at, x[place], there) : (struct dot){ 0, 0 };
        double tiny = 1e-36;                     /* for subnormal floats: weights, or products of scales */
        for (uint32_t i = 0; i < there; i++) tiny += 0x1p-110 * fabs(x[place][i]);
        if (!close_to(extreme ? "product of extreme digits" : "product", place, (double)room_floats(product)[place], want.sum,
                      1e-5 * want.size + tiny)) return false;
    }
    return true;
}

static void check_matrix(const struct format_reader *f, uint32_t cols, enum codes codes)
{
    const uint64_t row_bytes = packing_group_bytes(packing_here(LAYOUT_GPU, f->format), cols);
    case_is("%s, codes %s, %u columns", f->format->name, codes_name(codes), cols);
    const uint64_t own = ROW_STRIDE(f->row_bytes(cols));
    if (row_bytes != own || row_bytes % 16) {
        bad("%llu row bytes, the kernel's are %llu", (unsigned long long)row_bytes, (unsigned long long)own);
        return;
    }
    const uint32_t units = (cols + 63) / 64;
    on = (struct on){ .f = f, .steps = units * 64 / f->unit_cols, .room = room_new("the case", sizeof(struct formats_case)) };
    on.m = matrix_new(f->format, LAYOUT_GPU, ROWS, cols, NUMBERS_F16, codes);
    on.c = (struct formats_case *)(void *)on.room->bytes;
    *on.c = (struct formats_case){ .rows = on.m.packed->at, .row_bytes = (uint32_t)row_bytes, .units = units, .steps = on.steps };
    check_pack();
    bool ok = check_decode();
    if (!f->format->coding) ok = ok && check_dot(0, false);
    for (uint32_t i = 0; i < 6 && f->format->coding; i++) ok = ok && check_dot(1 + i / 2, i % 2);
    matrix_free(&on.m);
    rooms_free();
}

void test_formats(void)
{
    static const uint32_t cols[] = { 1, 7, 8, 32, 63, 64, 65, 96, 160, 224, 256, 288, 512, 768, 1000, 1280, 2048, 2880, 4096, 4352 };
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        for (uint32_t n = 0; n < sizeof cols / sizeof *cols; n++)
            for (uint32_t codes = 0; codes <= N_CODES; codes++) {
                if (cols[n] % readers[i].format->block_weights || !format_wanted(readers[i].format->file) || !case_begin()) continue;
                check_matrix(&readers[i], cols[n], (enum codes)codes);
            }
}
