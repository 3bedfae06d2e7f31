/* gemm.c -- compares prefill's products (templates/gpu/gemm_tmpl.c) with sums in double: every value must be stored exactly once, and
 * nothing read beyond x and the weights.  FLAGS= sets other tiles and loops: -DTILE_TOKENS= -DTILE_ROWS= -DTILE_THREADS=, -DGEMM_STAGES=,
 * -DGEMM_UNIT_STEPS=2. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/acts_unit.h"
#include "templates/gpu/gemm_sizes.h"
#include "cases.h"
#include <stdio.h>
#ifndef GEMM_STAGES                              /* as in gemm_tmpl.c */
#define GEMM_STAGES GEMM_STAGES_OF(FAMILY)
#endif
#ifndef GEMM_UNIT_STEPS
#define GEMM_UNIT_STEPS 1
#endif

static const struct tile { const struct format *format; uint32_t tokens, rows, threads; } tiles[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], TILE_TOKENS, TILE_ROWS, TILE_THREADS },
#include "compiler/format/format.def"
#define MORE(name, file, tokens, rows, threads) { &format_table[PLACE_##name], tokens, rows, threads },
    GEMM_MORE_TILES(MORE)
};
enum { N_TILES = sizeof tiles / sizeof *tiles };

/* The current case; wide: columns with padding. */
static struct {
    struct gemm_case c;
    const struct tile *tile;
    bool     pair;
    uint32_t wide;
    double  *x;                                  /* [n_tokens][wide]: values of the activations */
    struct matrix m[2];
    struct room *room, *y[2], *calls, *decoded[2];
} on;

static bool is_alone(const struct tile *t)
{
#ifdef SIMT_MMA_GROUP                            /* the machine multiplies in fours */
    return GEMM_IS_ALONE(t->threads % 128 == 0 && t->tokens % (t->threads / 2) == 0 && t->rows % 128 == 0, t->format->block_bytes == 2,
                         t->threads);
#else
    (void)t;
    return false;
#endif
}

static void activations_new(bool bf16)
{
    const struct gemm_case *c = &on.c;
    struct room *x = room_new("activations", (uint64_t)(c->n_tokens - 1) * c->x_stride + 2 * on.wide);
    on.x = malloc((uint64_t)c->n_tokens * on.wide * sizeof *on.x);
    for (uint32_t t = 0; t < c->n_tokens; t++)
        for (uint32_t k = 0; k < on.wide; k++) {
            const float v = k < c->cols ? random_f32() : 0.0f;
            const uint16_t bits = (uint16_t)(bf16 ? bf16_bits(v) : f16_bits(v * STAGE_SCALE));
            memcpy(x->bytes + (uint64_t)t * c->x_stride + 2 * k, &bits, 2);
            on.x[(uint64_t)t * on.wide + k] = bf16 ? (double)f32_of_bf16_bits(bits) : (double)f32_of_f16_bits(bits) * 64.0;
        }
    on.c.x = x->at;
}

static void launch(const char *what, uint32_t grid_x, uint32_t grid_y, uint32_t threads, uint32_t lds_bytes)
{
    const struct forge_kernel_args args = { .weights = on.room->at };
    memcpy(on.room->bytes, &on.c, sizeof on.c);
    machine_launch(&(struct launch){ what, grid_x, grid_y, threads, lds_bytes, 0 }, &args);
}

/* Bounds: 1e-5 of the sum of magnitudes to the product with the decoded weights (blocks only; f32 keeps the weight itself, to 2^-22), and
 * 2^-9 of the largest weight's product to the product with the file's weights, because random roundings add up. */
static bool compare(uint32_t i)
{
    const struct gemm_case *c = &on.c;
    const struct matrix *m = &on.m[i];
    const double largest = matrix_largest(m);
    for (uint32_t t = c->t0; t < c->n_tokens; t++) {
        const double *x = on.x + (uint64_t)t * on.wide;
        double squares = 0;
        for (uint32_t k = 0; k < c->cols; k++) squares += x[k] * x[k];
        for (uint32_t r = 0; r < c->rows; r++) {
            const uint64_t at = (uint64_t)t * c->rows + r;
            const double got = (double)room_floats(on.y[i])[at];
            const struct dot file = dot_ref(m->weights + (uint64_t)r * c->cols, NULL, x, c->cols);
            const struct dot used = on.decoded[i] ? dot_ref(room_floats(on.decoded[i]) + (uint64_t)r * on.wide, NULL, x, c->cols) : file;
            if (!close_to(i ? "up" : on.pair ? "gate" : "product", at, got, used.sum, 1e-5 * used.size + 1e-7)) return false;
            if (!close_to("product, by the file's weights,", at, got, file.sum, 0x1p-9 * largest * sqrt(squares) + 1e-5 * used.size + 1e-7))
                return false;
        }
    }
    return true;
}

static void check(void)
{
    struct gemm_case *c = &on.c;
    const struct tile *f = on.tile;
    const uint32_t tile_rows = on.pair ? f->rows / 2 : f->rows, n = on.pair ? 2 : 1;
    const uint64_t n_y = (uint64_t)c->n_tokens * c->rows;
    char name[64];
    on.wide = UNITS_OF(c->cols) * 64;
    case_is("%s%s, tile %u x %u of %u threads: %u rows, %u columns, %u tokens from %u, stride %u", f->format->name, on.pair ? " pair" : "",
            f->tokens, f->rows, f->threads, c->rows, c->cols, c->n_tokens, c->t0, c->x_stride);
    on.room = room_new("the case", sizeof *c);
    on.calls = room_new("stores", 4 * n_y);
    memset(on.calls->bytes, 0, on.calls->size);
    c->calls = on.calls->at;
    for (uint32_t i = 0; i < n; i++) {
        on.m[i] = matrix_new(f->format, LAYOUT_GPU, c->rows, c->cols, NUMBERS_NEAR_ONE, CODES_RANDOM);
        on.y[i] = room_new("products", 4 * n_y);
        on.decoded[i] = f->format->coding ? room_new("decoded weights", 4 * (uint64_t)c->rows * on.wide) : NULL;
        c->w[i] = on.m[i].packed->at, c->y[i] = on.y[i]->at, c->decoded[i] = on.decoded[i] ? on.decoded[i]->at : NULL;
    }
    activations_new(f->format->number == NUMBER_BF16);
    snprintf(name, sizeof name, "decoded_%s", f->format->file);
    if (f->format->coding) launch(name, c->rows, n, 64, 0);
    snprintf(name, sizeof name, "%s_%s_%ux%u_%u", on.pair ? "pair" : "product", f->format->file, f->tokens, f->rows, f->threads);
    const uint32_t lds_bytes = GEMM_LDS_BYTES(f->tokens, f->rows, GEMM_STAGES, f->format->number == NUMBER_F32 ? 2 : 1,
                                              f->format->block_bytes == 2, GEMM_UNIT_STEPS, is_alone(f));
    launch(name, (c->n_tokens + f->tokens - 1) / f->tokens + random_below(2), (c->rows + tile_rows - 1) / tile_rows, f->threads, lds_bytes);
    for (uint64_t i = 0; i < n_y; i++) {
        const uint32_t calls = ((const uint32_t *)(const void *)on.calls->bytes)[i];
        if (calls == (i >= (uint64_t)c->t0 * c->rows)) continue;
        bad("value %llu was handed on %u times", (unsigned long long)i, calls);
        break;
    }
    for (uint32_t i = 0; i < n; i++) {
        compare(i);
        matrix_free(&on.m[i]);
    }
    free(on.x);
    rooms_free();
}

static void draw_case(const struct tile *tile, bool pair)
{
    const uint32_t block = tile->format->block_weights, grain = block == 1 ? 4 : block, most = block == 256 ? 2 : 512 / grain;
    struct gemm_case *c = &on.c;
    on.tile = tile;
    on.pair = pair;
    *c = (struct gemm_case){ .rows = random_below(4) ? random_in(1, random_below(2) ? 300 : 40) : random_in(1, 2) * (tile->rows / 2) };
    c->cols = grain * random_in(grain < 32 ? 32 / grain : 1, most);
    c->n_tokens = random_in(1, random_below(2) ? 200 : 20);
    c->t0 = random_below(3) ? 0 : random_below(c->n_tokens);
    c->x_stride = UNITS_OF(c->cols) * 128 + 16 * random_below(4);
}

static void model_case(const struct tile *tile, bool pair)
{
    on.tile = tile;
    on.pair = pair;
    on.c = (struct gemm_case){ .rows = GEMM_MODEL_ROWS, .cols = GEMM_MODEL_COLS, .n_tokens = random_in(100, 200),
                               .x_stride = GEMM_MODEL_STRIDE };
}

void test_gemm(void)
{
    const bool models = variant_has("models");
    for (uint32_t i = 0; i < rounds(models ? 2 : 4); i++)
        for (const struct tile *t = tiles; t < tiles + (models ? FORMAT_COUNT : N_TILES); t++) {
            const bool pair = i % 2 && GEMM_SHARES_PAIRS(t->tokens, t->rows, t->threads, FAMILY);
            if (!format_wanted(t->format->file) || !case_begin()) continue;
            if (models) model_case(t, pair);
            else draw_case(t, pair);
            check();
        }
}
