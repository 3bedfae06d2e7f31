/* gemv.c -- compares decode's products (templates/gpu/gemv_tmpl.c) and the row of activations in LDS (acts.h) with double products of the
 * dequantised rows. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/dialect.h"
#include "templates/gpu/gemv_sizes.h"
#include "cases.h"
#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"
#include <stdio.h>

enum { MAX_COLS = 16384 };
_Static_assert(ACTS_BYTES(28672, 1, 1) <= 65536 && ACTS_BYTES(28672, 2, 0) <= 65536, "the longest rows fit in a group's LDS on AMD");

static const struct gemv_reader { const struct format *format; uint32_t unit_cols, sums16; } readers[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], UNIT_COLS_##file, SUMS16_##file },
#include "compiler/format/format.def"
};
#define TILE(rows, lanes) { rows, lanes },
static const struct tile { uint32_t rows, lanes; } tiles[] = { GEMV_ALL_TILES(TILE) };
enum { N_USUAL_TILES = 2, N_TILES = sizeof tiles / sizeof *tiles };
static const struct model { const char *name; uint32_t mode, rows[GEMV_MATRICES], cols, norm; } models[] = {
#define MODEL(name, mode, rows0, rows1, rows2, cols, norm) { #name, mode, { rows0, rows1, rows2 }, cols, norm },
    GEMV_MODELS(MODEL)
};

/* The current case and its expected results. */
static struct {
    const struct gemv_reader *f;
    char     kernel[48];
    struct gemv_case c;
    uint32_t n, digits;                          /* matrices; digits 0: floats in LDS */
    struct matrix m[GEMV_MATRICES];
    double   x[MAX_COLS];                        /* the activations, in double */
    struct room *seen, *wrong, *y[GEMV_MATRICES], *calls[GEMV_MATRICES];
} on;

static const uint32_t *wrongs(void) { return (const uint32_t *)(const void *)on.wrong->bytes; }

/* Half a step of the block's scale, and f32's rounding in a norm. */
static bool check_acts(void)
{
    if (wrongs()[GEMV_WRONG_ACTS]) return bad("digits, sums or padding of the activations in LDS");
    for (uint32_t c = 0; c < on.c.cols; c++) {
        double most = 0;
        for (uint32_t i = c / 32 * 32; i < c / 32 * 32 + 32 && i < on.c.cols; i++) most = fmax(most, fabs(on.x[i]));
        const double step = on.digits == 0 ? 0 : on.digits == 1 ? most / 127 : on.digits == 2 ? most / 32639 : most / 8355000;
        if (!close_to("activations in LDS", c, (double)room_floats(on.seen)[c], on.x[c], 0.5 * step + (on.c.norm ? 2e-6 : 3e-7) * most))
            return false;
    }
    return true;
}

/* Compares one matrix's results: tightly with products of the activations in LDS, loosely (relative, over all rows) with products of the
 * activations of the case. */
static bool check_rows(uint32_t m)
{
    static double used[MAX_COLS];
    const double coarse = on.digits == 1 ? 1e-2 : on.digits == 2 ? 1e-4 : 1e-6;
    double off = 0, size = 0;
    for (uint32_t c = 0; c < on.c.cols; c++) used[c] = on.seen ? (double)room_floats(on.seen)[c] : on.x[c];
    for (uint32_t r = 0; r < on.c.rows[m]; r++) {
        const float *w = on.m[m].weights + (uint64_t)r * on.c.cols;
        const struct dot tight = dot_ref(w, NULL, used, on.c.cols), given = on.seen ? dot_ref(w, NULL, on.x, on.c.cols) : tight;
        const double got = (double)room_floats(on.y[m])[r];
        const uint32_t calls = ((const uint32_t *)(const void *)on.calls[m]->bytes)[r];
        if (calls != 1) return bad("matrix %u, row %u was stored %u times", m, r, calls);
        if (!close_to("product", r, got, tight.sum, (on.seen ? 1e-5 : coarse) * tight.size + (on.c.begin && m == 0 ? 2e-6 : 1e-30)))
            return false;
        off += (tight.sum - given.sum) * (tight.sum - given.sum);
        size += tight.size * tight.size;
    }
    if (!(sqrt(off / (size + (on.c.begin ? 1e-6 : 1e-60))) <= coarse)) return bad("matrix %u: the activations are coarse", m);
    return true;
}

static void draw_row(struct room *row, struct room *weight)
{
    const float size = ldexpf(1, (int)random_below(40) - 20);
    const uint32_t zeros = random_below(4) == 0 ? random_below(on.c.cols / 32 + 1) : ~0u;
    double squares = 0;
    for (uint32_t c = 0; c < on.c.cols; c++) {
        const float x = room_floats(row)[c] = c / 32 == zeros ? 0 : random_f32() * size;
        room_floats(weight)[c] = 1 + random_f32() / 2;
        squares += (double)x * (double)x;
    }
    for (uint32_t c = 0; c < on.c.cols; c++) {
        on.x[c] = (double)room_floats(row)[c];
        if (on.c.norm) on.x[c] /= sqrt(squares / on.c.cols + (double)on.c.eps);
        if (on.c.norm == 2) on.x[c] *= (double)room_floats(weight)[c];
    }
}

static void check(void)
{
    static const char *const modes[GEMV_MODES] = { "plain", "pair", "chain" };
    struct gemv_case *c = &on.c;
    on.n = c->mode == GEMV_PLAIN ? 1 : c->mode == GEMV_PAIR ? 2 : 3;
    on.digits = on.f->unit_cols == 64 ? c->digits : 0;
    if (c->mode == GEMV_PAIR) c->rows[1] = c->rows[0];
    case_is("%s, %s, rows %u %u %u, columns %u, digits %u, norm %u, begin %u, %u groups of %u", on.kernel, modes[c->mode], c->rows[0],
            c->rows[1], c->rows[2], c->cols, c->digits, c->norm, c->begin, c->groups, c->threads);
    struct room *row = room_new("the row", 4 * (uint64_t)c->cols), *weight = room_new("the norm's weights", 4 * (uint64_t)c->cols),
        *room = room_new("the case", sizeof *c);
    on.seen = variant_has("models") ? NULL : room_new("activations used", 4 * (uint64_t)c->cols);
    on.wrong = room_new("what is wrong", sizeof(uint32_t[GEMV_WRONGS]));
    memset(on.wrong->bytes, 0, on.wrong->size);
    c->eps = 1e-5f;
    draw_row(row, weight);
    for (uint32_t m = 0; m < on.n; m++) {
        on.m[m] = matrix_new(on.f->format, LAYOUT_GPU, c->rows[m], c->cols, NUMBERS_NEAR_ONE, CODES_RANDOM);
        on.y[m] = room_new("products", 4 * (uint64_t)c->rows[m]);
        on.calls[m] = room_new("stores", 4 * (uint64_t)c->rows[m]);
        memset(on.calls[m]->bytes, 0, on.calls[m]->size);
        c->w[m] = on.m[m].packed->at, c->y[m] = on.y[m]->at, c->calls[m] = on.calls[m]->at;
    }
    c->row = row->at, c->norm_weight = weight->at, c->seen = on.seen ? on.seen->at : NULL, c->wrong = on.wrong->at;
    memcpy(room->bytes, c, sizeof *c);
    const struct forge_kernel_args args = { .weights = room->at };
    machine_launch(&(struct launch){ on.kernel, c->groups, 1, c->threads,
                                     on.digits ? ACTS_BYTES(c->cols, on.digits, on.f->sums16) : FLOATS_BYTES(c->cols), 0 }, &args);
    if (wrongs()[GEMV_WRONG_SLOT]) bad("the slot to go on with");
    if (wrongs()[GEMV_WRONG_ROW]) bad("a row that is not there is stored");
    const bool acts = !on.seen || check_acts();
    for (uint32_t m = 0; m < on.n; m++) {
        if (acts) check_rows(m);
        matrix_free(&on.m[m]);
    }
    rooms_free();
}

/* A random shape: few rows with many slots and the reverse, few columns and many. */
static void check_any(const struct gemv_reader *f, const struct tile *tile, uint32_t number)
{
    const uint32_t block = f->format->block_weights, limits[4] = { 3, 9, 40, 100 };
    struct gemv_case *c = &on.c;
    on.f = f;
    *c = (struct gemv_case){ .mode = number % GEMV_MODES };
    snprintf(on.kernel, sizeof on.kernel, "product_%s_%ux%u", f->format->file, tile->rows, tile->lanes);
    if (c->mode == GEMV_PAIR && tile->rows % 2) c->mode = GEMV_PLAIN;
    for (uint32_t m = 0; m < GEMV_MATRICES; m++) c->rows[m] = 1 + random_below(limits[random_below(4)]);
    const uint32_t most = random_below(3) ? 512 : random_below(4) ? 2048 : 5000;
    c->cols = block == 1 ? 1 + random_below(most) : block * (1 + random_below(most / block));
    c->digits = 1 + random_below(3);
    c->norm = random_below(3);
    c->begin = random_below(2);
    c->threads = 64u << random_below(3);
    c->groups = 1 + random_below(5);
    check();
}

static void check_model(const struct gemv_reader *f, const struct model *m, uint32_t digits)
{
    on.f = f;
    on.c = (struct gemv_case){ .mode = m->mode, .rows = { m->rows[0], m->rows[1], m->rows[2] }, .cols = m->cols, .digits = digits,
                               .norm = m->norm, .begin = 1, .threads = GEMV_MODEL_THREADS, .groups = GEMV_MODEL_GROUPS };
    snprintf(on.kernel, sizeof on.kernel, "%s_%s_%u", m->name, f->format->file, digits);
    check();
}

void test_gemv(void)
{
    for (const struct gemv_reader *f = readers; f < readers + FORMAT_COUNT; f++) {
        if (!format_wanted(f->format->file)) continue;
        if (variant_has("models")) {
            for (uint32_t m = 0; m < sizeof models / sizeof *models; m++)
                for (uint32_t digits = 1; digits <= (f->unit_cols == 64 ? 2u : 1u); digits++)
                    if (case_begin()) check_model(f, &models[m], digits);
            continue;
        }
        const uint32_t n_tiles = GEMV_MORE_TILES_OF(f->format->file) ? N_TILES : N_USUAL_TILES;
        for (uint32_t t = 0; t < n_tiles; t++)
            for (uint32_t k = 0; k < rounds(64); k++)
                if (case_begin()) check_any(f, &tiles[t], k);
    }
}
