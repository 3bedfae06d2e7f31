/* check_gemv.c -- decode products of templates/gpu against a double product of the dequantised rows, in all formats and odd shapes.
 * tests/lanes/run_check.sh clang-19 gemv     (and with -DFAMILY=FAMILY_CDNA3)
 * check_gemv [SEED] */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                              /* MAP_ANONYMOUS */
#endif
#include "simt.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "compiler/format/layout.h"
#include "templates/ref/dequant.h"
#include "tests/number_put.h"
#include "templates/gpu/dialect.h"
#undef DEVICE                                    /* plain functions: inlined into each other, 16 formats take minutes to compile */
#define DEVICE static __attribute__((unused))
#include "templates/gpu/launch.h"
#include "templates/gpu/acts.h"

/* chain: the next matrix begins at the slot where the last one ended */
enum mode { PLAIN, PAIR, CHAIN, MODES };
enum { MAX_ROWS = 300, MAX_COLS = 16384, MAX_MATRICES = 3 };

/* The case at work, for the kernels. */
static struct {
    uint32_t mode, rows[MAX_MATRICES], cols, digits, norm, begin, threads, groups;
    float    eps;
    const float *row, *norm_weight;              /* [cols] */
    const uint8_t *w[MAX_MATRICES];              /* packed */
} now;

static struct { float y; uint32_t calls; } result[MAX_MATRICES][MAX_ROWS];
static float seen[MAX_COLS];                     /* the activations as LDS has them */
static uint32_t wrong_acts, wrong_slots;
_Static_assert(ACTS_BYTES(28672, 1, 1) <= 65536 && ACTS_BYTES(28672, 2, 0) <= 65536, "the longest rows fit in a group's LDS on AMD");

static void put(uint32_t matrix, uint32_t t, uint32_t r, float y)
{
    if (t != 0 || r >= now.rows[matrix]) { fprintf(stderr, "sink: token %u, row %u of %u\n", t, r, now.rows[matrix]); exit(1); }
    result[matrix][r].y = y;
    result[matrix][r].calls++;
}
/* Given to the product and taken from what it gives. */
static float addend0(const struct forge_kernel_args a, uint32_t t, uint32_t r) { (void)a; return now.begin ? (float)((t + r) % 7) : 0; }
static void sink0(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { put(0, t, r, y - addend0(a, t, r)); }
static void sink1(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { (void)a; put(1, t, r, y); }
static void sink2(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { (void)a; put(2, t, r, y); }
static void sink_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    (void)a;
    put(0, t, r, gate);
    put(1, t, r, up);
}

/* The row into LDS, with the loads ahead or in one call. */
static void fill(uint8_t *x, uint32_t digits, uint32_t sums16)
{
    const float *weight = now.norm == 2 ? now.norm_weight : NULL;
    if (now.begin) {
        struct row_quads q, w;
        row_begin(&q, now.row, now.cols, now.threads);
        norm_begin(&w, weight, now.cols, now.threads);
        if (now.norm) norm_to_lds(x, &q, now.row, &w, weight, now.cols, now.eps, digits, sums16, now.threads);
        else row_to_lds(x, &q, now.row, now.cols, digits, sums16, now.threads);
    } else if (digits == 0) {
        if (now.norm) floats_of_norm(x, now.row, weight, now.cols, now.eps, now.threads);
        else floats_of_row(x, now.row, now.cols, now.threads);
    } else {
        if (now.norm) acts_of_norm(x, now.row, weight, now.cols, now.eps, digits, sums16, now.threads);
        else acts_of_row(x, now.row, now.cols, digits, sums16, now.threads);
    }
}

/* What LDS says of a row of digits: the values go to `seen`; sums and padding are checked. */
static void read_acts(const uint8_t *lds_row, uint32_t digits, uint32_t sums16)
{
    const uint32_t units = ACTS_UNITS(now.cols);
    for (uint32_t unit = 0; unit <= units; unit++) {
        struct acts_unit x;
        acts_load(&x, lds_row, unit, units, digits, sums16);
        const float d[2] = { x.scale.x, x.scale.y }, s[2] = { x.scale.z, x.scale.w },
            s16[4] = { x.sum16.x, x.sum16.y, x.sum16.z, x.sum16.w };
        double total[2] = { 0, 0 }, size[2] = { 0, 0 };      /* sums of q and of |q| */
        for (uint32_t c = 0; c < 4; c++) {
            int8_t q[3][16] = { { 0 } };
            double total16 = 0, size16 = 0;
            for (uint32_t digit = 0; digit < digits; digit++) memcpy(q[digit], &x.q[digit][c], 16);
            for (uint32_t i = 0; i < 16; i++) {
                /* what the digits hold */
                const int32_t value = 65536 * q[2][i] + 256 * q[1][i] + q[0][i], most = digits == 1 ? 127 : digits == 2 ? 32639 : 8355711;
                const uint32_t col = 64 * unit + 16 * c + i;
                if (unit < units && abs(value) > most) wrong_acts++;
                if (unit < units && col < now.cols) seen[col] = d[c / 2] * (float)value;
                else if (unit < units && value != 0) wrong_acts++;
                total16 += value;
                size16 += abs(value);
            }
            if (unit < units && sums16 && fabs(s16[c] - d[c / 2] * total16) > 3e-7 * d[c / 2] * size16) wrong_acts++;
            if (unit == units && sums16 && s16[c] != 0) wrong_acts++;
            total[c / 2] += total16;
            size[c / 2] += size16;
        }
        for (uint32_t b = 0; b < 2; b++) {
            if (unit < units && fabs(s[b] - d[b] * total[b]) > 3e-7 * d[b] * size[b]) wrong_acts++;
            if (unit == units && (d[b] != 0 || s[b] != 0)) wrong_acts++;
        }
    }
}
static void read_floats(const uint8_t *lds_row)
{
    const uint32_t padded = 64 * ACTS_UNITS(now.cols);
    for (uint32_t p = 0; p <= padded / 4; p++) {
        f32x4 four[1], eight[2];
        float x[4];
        floats_load4(four, lds_row, p, now.cols);
        floats_load8(eight, lds_row, p / 2, now.cols);
        if (memcmp(&four[0], &eight[p % 2], 16)) wrong_acts++;
        memcpy(x, &four[0], 16);
        for (uint32_t i = 0; i < 4; i++)
            if (4 * p + i < now.cols) seen[4 * p + i] = x[i];
            else if (x[i] != 0) wrong_acts++;
    }
}

struct instance { const char *name, *file; simt_kernel *kernel; uint32_t unit_cols, sums16, rows, lanes; };
static struct instance instances[256];
static uint32_t n_instances;
#define STRING2(x) #x
#define STRING(x) STRING2(x)

/* The kernels of FORMAT, ROWS and LANES. */
#define CHECK_KERNEL(FORMAT_, ROWS_, LANES_) \
static void GEMV_PASTE(kernel, FORMAT_, ROWS_, LANES_)(const struct forge_kernel_args a) \
{ \
    const uint32_t digits = GEMV_OF(UNIT_COLS, FORMAT_) == 64 ? now.digits : 0, sums16 = GEMV_OF(SUMS16, FORMAT_),                         \
        stride = now.groups * now.threads / LANES_;                                                                                        \
    const uint32_t s0 = gemv_slot(now.groups, LANES_), rows0 = now.rows[0], rows1 = now.rows[1], rows2 = now.rows[2], cols = now.cols; \
    uint8_t *x = lds(); \
    struct GEMV_PASTE(first, FORMAT_, ROWS_, LANES_) f; \
    if (now.begin) GEMV_PASTE(gemv_begin, FORMAT_, ROWS_, LANES_)(&f, now.w[0], now.mode == PAIR ? now.w[1] : NULL, rows0, cols, s0); \
    fill(x, digits, sums16); \
    if (group_x() == 0 && thread_x() == 0) { \
        if (digits) read_acts(x, digits, sums16); \
        else read_floats(x); \
    } \
    const struct GEMV_PASTE(first, FORMAT_, ROWS_, LANES_) *begun = now.begin ? &f : NULL; \
    if (now.mode == PAIR) { \
        if (ROWS_ % 2 == 0)                                                                                                                \
            GEMV_PASTE(gemv_pair, FORMAT_, ROWS_, LANES_)(a, begun, now.w[0], now.w[1], rows0, cols, x, digits, s0, stride, sink_pair);    \
    } else { \
        uint32_t s = GEMV_PASTE(gemv, FORMAT_, ROWS_, LANES_)(a, begun, now.w[0], rows0, cols, x, digits, s0, stride, addend0, sink0); \
        wrong_slots += (s + (rows0 + ROWS_ - 1) / ROWS_) % stride != s0 || s >= stride; \
        if (now.mode == CHAIN)                                                                                                             \
            s = GEMV_PASTE(gemv, FORMAT_, ROWS_, LANES_)(a, NULL, now.w[1], rows1, cols, x, digits, s, stride, NULL, sink1);               \
        if (now.mode == CHAIN)                                                                                                             \
            GEMV_PASTE(gemv, FORMAT_, ROWS_, LANES_)(a, NULL, now.w[2], rows2, cols, x, digits, s, stride, NULL, sink2);                   \
    } \
} \
__attribute__((constructor)) static void GEMV_PASTE(add, FORMAT_, ROWS_, LANES_)(void) \
{ \
    const struct instance i = { STRING(FORMAT_) " " STRING(ROWS_) "x" STRING(LANES_), STRING(FORMAT_),                                     \
                                GEMV_PASTE(kernel, FORMAT_, ROWS_, LANES_),                                                                \
                                GEMV_OF(UNIT_COLS, FORMAT_), GEMV_OF(SUMS16, FORMAT_), ROWS_, LANES_ }; \
    instances[n_instances++] = i; \
}

#define EACH_FORMAT "tests/lanes/gemv_instance.h"
#include "compiler/format/format.def"

/* ---- data ---- */
static uint64_t random_state;
static uint32_t random_u32(void)                 /* splitmix64 */
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}
static uint32_t random_below(uint32_t n) { return random_u32() % n; }
static float random_f32(void) { return (float)(int32_t)random_u32() * 0x1p-31f; }      /* -1 .. 1 */

/* n bytes, a multiple of 16, that end where an unreadable page begins. */
static uint8_t *guarded(size_t n)
{
    const size_t page = 4096, all = (n + page - 1) / page * page;
    uint8_t *p = mmap(NULL, all + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + all, page, PROT_NONE)) { perror("mmap"); exit(1); }
    return p + all - n;
}
static void guarded_free(uint8_t *p, size_t n)
{
    const size_t page = 4096, all = (n + page - 1) / page * page;
    munmap(p + n - all, all + page);
}

static const struct format *format_named(const char *file)
{
    uint32_t i = 0;
    while (strcmp(format_table[i].file, file)) i++;
    return &format_table[i];
}

static void random_number(uint8_t *p, enum number number)
{
    const float x = random_f32();
    const _Float16 half = (_Float16)x;
    switch (number) {
    case NUMBER_F32:  memcpy(p, &x, 4); break;
    case NUMBER_F16:  memcpy(p, &half, 2); break;
    case NUMBER_BF16: memcpy(p, (const uint8_t *)&x + 2, 2); break;
    case NUMBER_E8M0: *p = (uint8_t)(120 + random_below(8)); break;
    }
}
static void random_row(uint8_t *out, const struct format *f, uint32_t cols)
{
    for (uint32_t b = 0; b < cols / f->block_weights; b++, out += f->block_bytes) {
        for (uint32_t i = 0; i < f->block_bytes; i++) out[i] = (uint8_t)random_u32();
        for (uint32_t i = 0; i < 2 && f->number_at[i] >= 0; i++) {
            uint8_t bits[4];
            random_number(bits, f->number);
            number_put(out, f, i, bits);
        }
    }
}

static struct { uint8_t *packed; size_t packed_bytes; float *values; } matrix[MAX_MATRICES];      /* values: [rows][cols] */

static void matrix_make(uint32_t m, const struct format *f, uint32_t rows, uint32_t cols)
{
    const struct packing packing = packing_of(LAYOUT_GPU, f);
    const size_t row_bytes = format_row_bytes(f, cols);
    uint8_t *file = malloc(row_bytes * rows);
    matrix[m].packed_bytes = packing_bytes(packing, rows, cols);
    matrix[m].packed = guarded(matrix[m].packed_bytes);
    matrix[m].values = malloc(sizeof(float) * rows * cols);
    for (uint32_t r = 0; r < rows; r++) random_row(file + r * row_bytes, f, cols);
    packing_write(packing, matrix[m].packed, file, rows, cols, 0, rows);
    dequantize_row_ref(f->id, matrix[m].values, file, (uint64_t)rows * cols);
    free(file);
    now.w[m] = matrix[m].packed;
}

/* ---- one case ---- */
static uint32_t n_cases, n_failed;

static void describe(const struct instance *in, uint64_t seed, uint32_t order, const char *what)
{
    static const char *const modes[MODES] = { "plain", "pair", "chain" };
    printf("FAILED %s: %s rows %u %u %u cols %u digits %u norm %u begin %u threads %u groups %u wave %u order %u seed %llu: %s\n", in->name,
           modes[now.mode], now.rows[0], now.rows[1], now.rows[2], now.cols, now.digits, now.norm, now.begin, now.threads, now.groups, WAVE,
           order, (unsigned long long)seed, what);
    n_failed++;
}

/* The activations the kernel used, against those it should have: half a step of the block's scale, and what f32 loses in a norm. */
static int acts_wrong(const double *x, uint32_t digits)
{
    if (wrong_acts) return 1;
    for (uint32_t c = 0; c < now.cols; c++) {
        double most = 0;
        for (uint32_t i = c / 32 * 32; i < c / 32 * 32 + 32 && i < now.cols; i++) most = fmax(most, fabs(x[i]));
        const double step = digits == 0 ? 0 : digits == 1 ? most / 127 : digits == 2 ? most / 32639 : most / 8355000;
        if (!(fabs(seen[c] - x[c]) <= 0.5 * step + (now.norm ? 2e-6 : 3e-7) * most)) return 1;
    }
    return 0;
}

/* One matrix's results: tight against the activations used, loose (relative, over all rows) against those that were given. */
static const char *rows_wrong(uint32_t m, const double *x, uint32_t digits)
{
    double off = 0, size = 0;
    for (uint32_t r = 0; r < now.rows[m]; r++) {
        const float *w = matrix[m].values + (size_t)r * now.cols;
        double exact = 0, given = 0, scale = 0;
        for (uint32_t c = 0; c < now.cols; c++) {
            exact += (double)w[c] * seen[c];
            given += w[c] * x[c];
            scale += fabs((double)w[c] * seen[c]);
        }
        if (result[m][r].calls != 1) return "a row was not stored once";
        if (!(fabs(result[m][r].y - exact) <= 1e-5 * scale + (now.begin && m == 0 ? 2e-6 : 1e-30))) return "a product is off";
        off += (exact - given) * (exact - given);
        size += scale * scale;
    }
    return sqrt(off / (size + (now.begin ? 1e-6 : 1e-60))) > (digits == 1 ? 1e-2 : digits == 2 ? 1e-4 : 1e-6)
        ? "the activations are coarse" : NULL;
}

static void check(const struct instance *in, uint64_t seed)
{
    static double x[MAX_COLS];
    const uint32_t n = now.mode == PLAIN ? 1 : now.mode == PAIR ? 2 : 3, digits = in->unit_cols == 64 ? now.digits : 0,
        order = random_u32();
    double squares = 0;
    if (now.mode == PAIR) now.rows[1] = now.rows[0];
    for (uint32_t m = 0; m < n; m++)
        matrix_make(m, format_named(in->file), now.rows[m], now.cols);
    const size_t row_bytes = (4 * (size_t)now.cols + 15) / 16 * 16;
    float *row = (float *)(void *)guarded(row_bytes), *weight = (float *)(void *)guarded(row_bytes);
    const float size = ldexpf(1, (int)random_below(40) - 20);
    const uint32_t zeros = random_below(4) == 0 ? random_below(now.cols / 32 + 1) : ~0u;
    for (uint32_t c = 0; c < now.cols; c++) {
        row[c] = c / 32 == zeros ? 0 : random_f32() * size;
        weight[c] = 1 + random_f32() / 2;
        squares += (double)row[c] * row[c];
    }
    now.eps = 1e-5f;
    for (uint32_t c = 0; c < now.cols; c++) {
        x[c] = row[c];
        if (now.norm) x[c] /= sqrt(squares / now.cols + now.eps);
        if (now.norm == 2) x[c] *= weight[c];
    }
    now.row = row;
    now.norm_weight = weight;
    memset(result, 0, sizeof result);
    wrong_acts = wrong_slots = 0;
    struct forge_kernel_args args = { 0 };
    simt_launch(in->kernel, &args, now.groups, 1, now.threads, WAVE,
                digits ? ACTS_BYTES(now.cols, digits, in->sums16) : FLOATS_BYTES(now.cols), order);

    n_cases++;
    if (acts_wrong(x, digits)) describe(in, seed, order, "the activations in LDS");
    if (wrong_slots) describe(in, seed, order, "the slot to go on with");
    for (uint32_t m = 0; m < n; m++) {
        const char *what = rows_wrong(m, x, digits);
        if (what) describe(in, seed, order, what);
        guarded_free(matrix[m].packed, matrix[m].packed_bytes);
        free(matrix[m].values);
    }
    guarded_free((uint8_t *)row, row_bytes);
    guarded_free((uint8_t *)weight, row_bytes);
}

/* A shape drawn at random: few rows with many slots and the reverse, few columns and many. */
static void check_random(const struct instance *in, uint32_t number)
{
    const uint64_t seed = random_state;
    const uint32_t block = format_named(in->file)->block_weights, limits[4] = { 3, 9, 40, 100 };
    now.mode = number % MODES;
    if (now.mode == PAIR && in->rows % 2) now.mode = PLAIN;
    for (uint32_t m = 0; m < MAX_MATRICES; m++) now.rows[m] = 1 + random_below(limits[random_below(4)]);
    const uint32_t most = random_below(3) ? 512 : random_below(4) ? 2048 : 5000;
    now.cols = block == 1 ? 1 + random_below(most) : block * (1 + random_below(most / block));
    now.digits = 1 + random_below(3);
    now.norm = random_below(3);
    now.begin = random_below(2);
    now.threads = 64 << random_below(3);
    now.groups = 1 + random_below(5);
    check(in, seed);
}

int main(int argc, char **argv)
{
    random_state = argc > 1 ? strtoull(argv[1], NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)random_state);
    for (uint32_t i = 0; i < n_instances; i++)
        for (uint32_t k = 0; k < 64; k++) check_random(&instances[i], k);
    if (n_failed) printf("%u of %u cases failed\n", n_failed, n_cases);
    else printf("check_gemv: %u cases passed\n", n_cases);
    return n_failed != 0;
}
