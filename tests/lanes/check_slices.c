/* check_slices.c -- routers, the tokens of each expert, and products with slices in all formats, of decode and of prefill, against the scalar
 * formulas and sums in double.  Weights and inputs end at an inaccessible page; what is not to be written is poisoned.
 * tests/lanes/run_check.sh clang-19 slices     (and with -DFAMILY=FAMILY_CDNA3, -DFAMILY=FAMILY_RDNA3) */
#include <math.h>
#include "check_blocks.h"
#include "templates/ref/ops.h"
#undef DEVICE                                    /* plain functions: inlined into each other, all formats take minutes to compile */
#define DEVICE static __attribute__((unused))
#define SLICES 1
#include "templates/gpu/slices.h"

/* The case under test; kernels read it as they would read constants. */
static struct {
    uint32_t used, experts, rows, cols, apart, digits, threads, groups, weighted, pair;      /* products: threads and groups of the launch */
    uint32_t gating, n_group, n_group_used, norm, n_tokens, t0, most, stride;
    float    by;
    const float *logits, *bias, *x, *times;
    float       *choice;
    uint32_t    *n_picked, *picked;
    const uint8_t *w[2];
    const uint8_t *x16;
    uint32_t x_stride, shared;
    float    *y[2];
    uint8_t  *calls;
} c;

static bool fail(const char *what, const char *format, double got, double want)
{
    printf("%s %s: %u of %u experts, %u x %u, apart %u, digits %u, threads %u, groups %u, gating %u, %u of %u groups, norm %u, bias %u, pair %u, %u tokens from %u, "
           "case %u: %.9g, not %.9g\n", what, format, c.used, c.experts, c.rows, c.cols, c.apart, c.digits, c.threads, c.groups, c.gating, c.n_group_used, c.n_group,
           c.norm, c.bias != NULL, c.pair, c.n_tokens, c.t0, n_cases, got, want);
    return false;
}

/* ---- routers ---- */

static void kernel_route(const struct forge_kernel_args a)
{
    (void)a;
    route_token(c.choice + group_y() * 2 * c.used, c.logits + group_y() * c.experts, c.bias, lds(), c.experts, c.used, c.gating, c.n_group, c.n_group_used, c.norm,
                c.by);
}

static bool check_route(void)
{
    static const uint32_t sizes[] = { 6, 8, 32, 60, 64, 128, 256, 1000 };
    c.experts = sizes[random_in(0, 7)];
    c.n_group = random_in(0, 1) || c.experts % 8 ? 1 : c.experts >= 64 ? 8 : 2;
    c.n_group_used = random_in(1, c.n_group);
    const uint32_t can = c.experts / c.n_group * c.n_group_used, most = can < 32 ? can : 32;
    c.used = random_in(1, most < 12 || random_in(0, 3) == 0 ? most : 12);
    c.gating = random_in(1, 3), c.norm = random_in(0, 1), c.by = random_in(0, 1) ? 1.0f : 2.5f, c.n_tokens = random_in(1, 4);
    struct room logits = room_new((uint64_t)c.n_tokens * c.experts * 4), bias = room_new(c.experts * 4ull), choice = room_new((uint64_t)c.n_tokens * 2 * c.used * 4);
    float *l = (float *)(void *)logits.bytes, *b = (float *)(void *)bias.bytes, want[64];
    for (uint32_t i = 0; i < c.n_tokens * c.experts; i++) l[i] = random_f32() * 6;
    for (uint32_t i = 0; i < c.experts; i++) b[i] = random_f32() * 0.3f;
    if (random_in(0, 3) == 0) l[0] = l[c.experts - 1];                              /* of equals the lower number */
    c.logits = l, c.bias = random_in(0, 1) ? b : NULL, c.choice = (float *)(void *)choice.bytes;
    const struct forge_kernel_args args = { 0 };
    simt_launch(kernel_route, &args, 1, c.n_tokens, WAVE, WAVE, ROUTE_LDS_BYTES(c.experts, c.n_group), n_cases++);
    bool ok = true;
    for (uint32_t t = 0; t < c.n_tokens && ok; t++) {
        const struct route_ref r = { .n_expert = c.experts, .used = c.used, .gating = c.gating, .n_group = c.n_group, .n_group_used = c.n_group_used,
                                     .norm = c.norm, .by = (double)c.by, .select_bias = c.bias };
        route_ref(want, &r, l + t * c.experts);
        for (uint32_t i = 0; i < 2 * c.used && ok; i++) {
            const double got = (double)c.choice[t * 2 * c.used + i], off = fabs(got - (double)want[i]);
            if (!(i < c.used ? off <= 2e-6 * (1 + fabs((double)want[i])) : off == 0)) ok = fail(i < c.used ? "share" : "expert", "", got, (double)want[i]);
        }
    }
    room_free(&logits), room_free(&bias), room_free(&choice);
    return ok;
}

/* ---- which tokens ---- */

static void kernel_picked(const struct forge_kernel_args a)
{
    picked_list(c.n_picked, c.picked, c.choice, c.stride, first_token(a), a.step->n_tokens, c.used, c.most, c.threads);
}

/* Of every token `used` experts, none twice; choice rows `stride` floats apart. */
static void draw_choice(float *choice, uint32_t tokens)
{
    for (uint32_t t = 0; t < tokens; t++) {
        float *row = choice + (uint64_t)t * c.stride;
        for (uint32_t k = 0; k < c.used; k++) {
            uint32_t e, again;
            do {
                e = random_in(0, c.experts - 1), again = 0;
                for (uint32_t i = 0; i < k; i++) again |= row[c.used + i] == (float)e;
            } while (again);
            row[k] = random_f32();
            row[c.used + k] = (float)e;
        }
    }
}

static bool check_picked(void)
{
    c.experts = random_in(2, 20), c.used = random_in(1, c.experts < 6 ? c.experts : 6), c.n_tokens = random_in(1, 150), c.most = c.n_tokens + random_in(0, 20);
    c.threads = 64u << random_in(0, 2), c.stride = (2 * c.used + 63) / 64 * 64;
    struct forge_gpu_step step = { .n_tokens = c.n_tokens, .n_logits = random_in(1, c.n_tokens) };
    const struct forge_kernel_args args = { .step = &step, .first = random_in(0, 1) };
    c.t0 = args.first ? c.n_tokens - step.n_logits : 0;
    struct room choice = room_new((uint64_t)c.n_tokens * c.stride * 4), n = room_new(c.experts * 4ull), list = room_new((uint64_t)c.experts * c.most * 4);
    c.choice = (float *)(void *)choice.bytes, c.n_picked = (uint32_t *)(void *)n.bytes, c.picked = (uint32_t *)(void *)list.bytes;
    draw_choice(c.choice, c.n_tokens);
    simt_launch(kernel_picked, &args, c.experts, 1, c.threads, WAVE, PICKED_LDS_BYTES(c.threads), n_cases++);
    bool ok = true;
    for (uint32_t e = 0; e < c.experts && ok; e++) {
        uint32_t found = 0;
        for (uint32_t i = c.t0 * c.used; i < c.n_tokens * c.used && ok; i++) {
            if (c.choice[(uint64_t)(i / c.used) * c.stride + c.used + i % c.used] != (float)e) continue;
            if (c.picked[e * c.most + found] != i) ok = fail("entry", "", c.picked[e * c.most + found], i);
            found++;
        }
        if (ok && c.n_picked[e] != found) ok = fail("entries", "", c.n_picked[e], found);
        if (ok && found < c.most && c.picked[e * c.most + found] != 0xffffffffu) ok = fail("beyond a list", "", c.picked[e * c.most + found], 0);
    }
    room_free(&choice), room_free(&n), room_free(&list);
    return ok;
}

/* ---- products ---- */

static void put(uint32_t matrix, uint32_t t, uint32_t r, float y)
{
    const uint64_t at = (uint64_t)t * c.stride + r;
    c.y[matrix][at] = y;
    c.calls[at]++;
}
static void sink_row(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { (void)a; put(0, t, r, y); }
static float addend_row(const struct forge_kernel_args a, uint32_t t, uint32_t r) { (void)a; return (float)((t + r) % 5); }
static void sink_added(const struct forge_kernel_args a, uint32_t t, uint32_t r, float y) { (void)a; put(0, t, r, y - addend_row(a, t, r)); }
static void sink_pair(const struct forge_kernel_args a, uint32_t t, uint32_t r, float gate, float up)
{
    (void)a;
    put(0, t, r, gate);
    c.y[1][(uint64_t)t * c.stride + r] = up;
}

#define EACH_FORMAT "tests/lanes/slices_instance.h"
#include "compiler/format/format.def"

#define EACH_KERNEL(format, shape, rows_, lanes_) \
    static void each_##format##_##shape(const struct forge_kernel_args a) \
    { \
        const uint32_t digits = UNIT_COLS_##format == 64 ? c.digits : 0, stride = c.groups * c.threads / lanes_; \
        const uint32_t id = picked_ids(c.choice, c.used), slot = gemv_slot(c.groups, lanes_); \
        struct first_each_##format##_##shape first; \
        gemv_begin_each_##format##_##shape(&first, c.w[0], c.pair ? c.w[1] : 0, id, c.used, c.apart, c.rows, c.cols, slot); \
        if (c.apart) slices_to_lds(lds(), c.x, 0.0f, 0, c.cols, c.used, digits, SUMS16_##format, c.threads); \
        else if (digits) acts_of_row(lds(), c.x, c.cols, digits, SUMS16_##format, c.threads); \
        else floats_of_row(lds(), c.x, c.cols, c.threads); \
        if (c.pair) \
            gemv_pair_each_##format##_##shape(a, &first, c.w[0], c.w[1], id, c.used, c.apart, c.rows, c.cols, lds(), digits, slot, stride, sink_pair); \
        else \
            gemv_each_##format##_##shape(a, &first, c.w[0], id, c.used, c.apart, c.rows, c.cols, lds(), digits, slot, stride, addend_row, sink_added); \
    }
#define SUM_KERNEL(format, shape, rows_, lanes_) \
    static void sum_##format##_##shape(const struct forge_kernel_args a) \
    { \
        const uint32_t digits = UNIT_COLS_##format == 64 ? c.digits : 0, stride = c.groups * c.threads / lanes_; \
        const uint32_t id = picked_ids(c.choice, c.used), slot = gemv_slot(c.groups, lanes_), all = c.used * 64 * ACTS_UNITS(c.cols); \
        const float share = picked_shares(c.choice, c.times, c.used); \
        struct first_sum_##format##_##shape first; \
        gemv_begin_sum_##format##_##shape(&first, c.w[0], 0, id, c.used, SLICES_APART, c.rows, all, slot); \
        slices_to_lds(lds(), c.x, share, 1, c.cols, c.used, digits, SUMS16_##format, c.threads); \
        gemv_sum_##format##_##shape(a, &first, c.w[0], id, c.used, SLICES_APART, c.rows, all, lds(), digits, slot, stride, addend_row, sink_added); \
    }
#define GEMM_KERNEL(format) \
    static void gemm_##format(const struct forge_kernel_args a) \
    { \
        const uint32_t t0 = first_token(a), n = a.step->n_tokens; \
        if (c.pair) \
            gemm_pair_slices_##format##_32x64_128(a, c.w[0], c.w[1], c.rows, c.cols, c.x16, c.x_stride, c.used, c.shared, c.n_picked, c.picked, c.most, group_y(), \
                                                  t0, n, sink_pair); \
        else \
            gemm_slices_##format##_32x64_128(a, c.w[0], c.rows, c.cols, c.x16, c.x_stride, c.used, c.shared, c.n_picked, c.picked, c.most, group_y(), t0, n, \
                                             sink_row); \
    }
#define KERNELS(format) \
    EACH_KERNEL(format, 2x8, 2, 8) SUM_KERNEL(format, 3x16, 3, 16) GEMM_KERNEL(format)
#define QUANT(name, file, ...) KERNELS(file)
#include "compiler/format/format.def"

struct instance { const struct format *format; simt_kernel *each, *sum, *gemm; uint32_t unit_cols, sums16, is_bf16; };
static const struct instance instances[] = {
#define QUANT(name, file, ...) \
    { &format_table[PLACE_##name], each_##file##_2x8, sum_##file##_3x16, gemm_##file, UNIT_COLS_##file, SUMS16_##file, \
      QUANT_##name == QUANT_BF16 },
#include "compiler/format/format.def"
};

/* experts * rows rows of cols, packed, and what they mean. */
struct stack { struct room packed; float *values; };
static struct stack stack_new(const struct format *f, uint32_t matrix)
{
    const uint64_t rows = (uint64_t)c.experts * c.rows, row_bytes = format_row_bytes(f, c.cols);
    const struct packing packing = packing_of(LAYOUT_GPU, f);
    struct stack s = { room_new(packing_bytes(packing, rows, c.cols)), malloc(rows * c.cols * sizeof(float)) };
    uint8_t *file = malloc(rows * row_bytes);
    random_blocks(file, f, rows * (c.cols / f->block_weights), 120, 127);
    packing_write(packing, s.packed.bytes, file, rows, c.cols, 0, rows);
    dequantize_row_ref(f->id, s.values, file, rows * c.cols);
    c.w[matrix] = s.packed.bytes;
    free(file);
    return s;
}
static void stack_free(struct stack *s) { room_free(&s->packed), free(s->values); }

static double product(const struct stack *s, uint32_t expert, uint32_t row, const float *x, double *size)
{
    const float *w = s->values + ((uint64_t)expert * c.rows + row) * c.cols;
    double sum = 0;
    for (uint32_t k = 0; k < c.cols; k++) {
        sum += (double)w[k] * (double)x[k];
        *size += fabs((double)w[k] * (double)x[k]);
    }
    return sum;
}

static uint32_t draw_cols(const struct format *f)
{
    const uint32_t block = f->block_weights, units = random_in(1, block > 64 ? 3 : block > 1 ? 9 : 300);
    const uint32_t cols = block == 1 ? units : block * units;
    return (cols + 3) / 4 * 4;
}

static bool check_decode(const struct instance *in, uint32_t sums)
{
    c.cols = draw_cols(in->format), c.rows = random_in(1, 40), c.experts = random_in(2, 7), c.used = random_in(1, c.experts < 5 ? c.experts : 5);
    c.apart = sums ? SLICES_APART : random_in(SLICES_SHARED, SLICES_APART), c.digits = random_in(2, 3);
    c.threads = 64u << random_in(0, 1), c.groups = random_in(1, 4), c.pair = !sums && random_in(0, 1), c.stride = sums ? c.rows : c.used * c.rows;
    struct stack w = stack_new(in->format, 0), up = stack_new(in->format, 1);
    const uint32_t pieces = c.apart ? c.used : 1, n = c.stride;
    const uint64_t floats = (uint64_t)pieces * c.cols;
    struct room x = room_new((floats * 4 + 15) / 16 * 16), choice = room_new(2 * c.used * 4), times = room_new(c.experts * 4), y = room_new(4ull * n), y2 = room_new(4ull * n);
    float *x_f = (float *)(void *)x.bytes, *t = (float *)(void *)times.bytes;
    uint8_t *calls = calloc(n, 1);
    for (uint64_t i = 0; i < floats; i++) x_f[i] = random_f32() * 2;
    for (uint32_t i = 0; i < c.experts; i++) t[i] = random_f32();
    c.x = x_f, c.choice = (float *)(void *)choice.bytes, c.times = random_in(0, 1) ? t : NULL, c.calls = calls;
    c.y[0] = (float *)(void *)y.bytes, c.y[1] = (float *)(void *)y2.bytes;
    const uint32_t stride = c.stride;
    c.stride = 2 * c.used;
    draw_choice(c.choice, 1);
    c.stride = stride;
    const uint32_t all = pieces > 1 || c.apart ? pieces * 64 * ACTS_UNITS(c.cols) : c.cols, digits = in->unit_cols == 64 ? c.digits : 0;
    const struct forge_kernel_args args = { 0 };
    simt_launch(sums ? in->sum : in->each, &args, c.groups, 1, c.threads, WAVE, digits ? ACTS_BYTES(all, digits, in->sums16) : FLOATS_BYTES(all), n_cases++);
    bool ok = true;
    const double loose = digits == 2 ? 1e-4 : 2e-6;
    for (uint32_t r = 0; r < n && ok; r++) {
        double want = 0, want_up = 0, size = 0;
        for (uint32_t k = sums ? 0 : r / c.rows; k < (sums ? c.used : r / c.rows + 1); k++) {
            const uint32_t e = (uint32_t)c.choice[c.used + k];
            const double share = sums ? (double)c.choice[k] * (c.times ? (double)t[e] : 1) : 1;
            double of = 0;
            want += share * product(&w, e, r % c.rows, x_f + (c.apart ? k * c.cols : 0), &of);
            if (c.pair) want_up += product(&up, e, r % c.rows, x_f + (c.apart ? k * c.cols : 0), &of);
            size += fabs(share) * of;
        }
        const double got = (double)c.y[0][r];
        if (calls[r] != 1) ok = fail("stored", in->format->file, calls[r], 1);
        else if (!(fabs(got - want) <= loose * size + 2e-6)) ok = fail(sums ? "sum" : "row", in->format->file, got, want);
        else if (c.pair && !(fabs((double)c.y[1][r] - want_up) <= loose * size + 2e-6)) ok = fail("up", in->format->file, (double)c.y[1][r], want_up);
    }
    stack_free(&w), stack_free(&up);
    room_free(&x), room_free(&choice), room_free(&times), room_free(&y), room_free(&y2);
    free(calls);
    return ok;
}

static bool check_prefill(const struct instance *in)
{
    c.cols = draw_cols(in->format), c.rows = random_in(1, 70), c.experts = random_in(2, 5), c.used = random_in(1, c.experts < 3 ? c.experts : 3);
    const bool all = random_in(0, 2) == 0;                   /* every matrix, as those of heads */
    if (all) c.used = c.experts;
    c.n_tokens = random_in(1, 70), c.most = c.n_tokens, c.shared = !all && random_in(0, 1), c.pair = random_in(0, 1), c.digits = 0, c.apart = !c.shared;
    const uint32_t n = c.used * c.rows, units = (c.cols + 63) / 64, pieces = c.shared ? 1 : c.used;
    struct stack w = stack_new(in->format, 0), up = stack_new(in->format, 1);
    struct forge_gpu_step step = { .n_tokens = c.n_tokens, .n_logits = random_in(1, c.n_tokens) };
    const struct forge_kernel_args args = { .step = &step, .first = random_in(0, 3) == 0 };
    c.t0 = args.first ? c.n_tokens - step.n_logits : 0;
    c.stride = 2 * c.used, c.threads = 64;
    struct room choice = room_new((uint64_t)c.n_tokens * c.stride * 4), counts = room_new(c.experts * 4ull), list = room_new((uint64_t)c.experts * c.most * 4);
    c.choice = (float *)(void *)choice.bytes, c.n_picked = (uint32_t *)(void *)counts.bytes, c.picked = (uint32_t *)(void *)list.bytes;
    draw_choice(c.choice, c.n_tokens);
    if (all) for (uint32_t t = 0; t < c.n_tokens; t++) for (uint32_t k = 0; k < c.used; k++) c.choice[t * c.stride + c.used + k] = (float)k;
    else simt_launch(kernel_picked, &args, c.experts, 1, c.threads, WAVE, PICKED_LDS_BYTES(c.threads), n_cases);
    c.x_stride = units * 128;
    struct room x = room_new((uint64_t)c.n_tokens * pieces * c.x_stride), y = room_new(4ull * n * c.n_tokens), y2 = room_new(4ull * n * c.n_tokens);
    float *x_f = calloc((uint64_t)c.n_tokens * pieces * c.cols, sizeof *x_f);
    uint8_t *calls = calloc((uint64_t)n * c.n_tokens, 1);
    for (uint32_t i = 0; i < c.n_tokens * pieces; i++)
        for (uint32_t k = 0; k < 64 * units; k++) {
            const float v = k < c.cols ? (float)(int32_t)random_in(0, 128) / 32.0f - 2.0f : 0.0f;
            if (k < c.cols) x_f[(uint64_t)i * c.cols + k] = v;
            ((uint16_t *)(void *)(x.bytes + (uint64_t)i * c.x_stride))[k] = (uint16_t)(in->is_bf16 ? stage_bf16(v) : stage_f16(v));
        }
    c.x16 = x.bytes, c.calls = calls, c.y[0] = (float *)(void *)y.bytes, c.y[1] = (float *)(void *)y2.bytes, c.stride = n;
    uint32_t *n_picked = c.n_picked, *picked = c.picked;
    if (all) c.n_picked = NULL, c.picked = NULL;
    const uint32_t each = c.pair ? 32 : 64, tiles = (c.rows + each - 1) / each * c.experts;
    const uint32_t lds_bytes = GEMM_LDS_BYTES(32, 64, GEMM_STAGES_OF(FAMILY), in->format->id == QUANT_F32 ? 2 : 1,
                                              in->format->id == QUANT_F16 || in->format->id == QUANT_BF16, GEMM_UNIT_STEPS);
    simt_launch(in->gemm, &args, (c.n_tokens + 31) / 32, tiles, 128, WAVE, lds_bytes, n_cases++);
    bool ok = true;
    for (uint32_t i = c.t0 * n; i < c.n_tokens * n && ok; i++) {
        const uint32_t t = i / n, k = i % n / c.rows, e = (uint32_t)c.choice[t * 2 * c.used + c.used + k];
        double size = 0, want_up = 0;
        const float *row = x_f + (uint64_t)(c.shared ? t : t * c.used + k) * c.cols;
        const double want = product(&w, e, i % c.rows, row, &size);
        if (c.pair) want_up = product(&up, e, i % c.rows, row, &size);
        if (calls[i] != 1) ok = fail("stored", in->format->file, calls[i], 1);
        else if (!(fabs((double)c.y[0][i] - want) <= 1e-3 * size + 1e-5)) ok = fail("entry's row", in->format->file, (double)c.y[0][i], want);
        else if (c.pair && !(fabs((double)c.y[1][i] - want_up) <= 1e-3 * size + 1e-5)) ok = fail("entry's up", in->format->file, (double)c.y[1][i], want_up);
    }
    for (uint32_t i = 0; i < c.t0 * n && ok; i++) if (calls[i]) ok = fail("a token before the first", in->format->file, calls[i], 0);
    c.n_picked = n_picked, c.picked = picked;
    stack_free(&w), stack_free(&up);
    room_free(&choice), room_free(&counts), room_free(&list), room_free(&x), room_free(&y), room_free(&y2);
    free(x_f), free(calls);
    return ok;
}

int main(void)
{
    bool ok = true;
    for (uint32_t i = 0; i < 60; i++) ok &= check_route();
    for (uint32_t i = 0; i < 20; i++) ok &= check_picked();
    for (uint32_t i = 0; i < sizeof instances / sizeof *instances; i++) {
        for (uint32_t k = 0; k < 4; k++) ok &= check_decode(&instances[i], k % 2);
        for (uint32_t k = 0; k < 2; k++) ok &= check_prefill(&instances[i]);
    }
    printf("check_slices: %u cases %s\n", n_cases, ok ? "passed" : "run, with failures");
    return ok ? 0 : 1;
}
