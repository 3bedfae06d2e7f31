/* gemv_matrix.c -- products of a few tokens on the matrix unit (templates/gpu/gemv_matrix_tmpl.c) must have the bits of gemv_tmpl.c. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/dialect.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/row_stride.h"
#include "cases.h"
#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"
#include <stdio.h>

static const struct shape { const struct format *format; uint32_t sums16, stage_bytes, lanes, stages, columns; } shapes[] = {
#define SHAPE(NAME, name, lanes, stages, columns) \
    { &format_table[PLACE_##NAME], SUMS16_##name, 16 * ROW_BYTES_##name(256), lanes, stages, columns },
    GEMV_MATRIX_SHAPES(SHAPE)
};

static void launch(const struct room *room, const struct gemv_matrix_case *c, const char *what, const struct shape *s, uint32_t lds_bytes,
                   uint32_t cluster)
{
    char kernel[64];
    const struct forge_kernel_args args = { .weights = room->at };
    snprintf(kernel, sizeof kernel, "%s_%s_%u", what, s->format->file, s->lanes);
    memcpy(room->bytes, c, sizeof *c);
    machine_launch(&(struct launch){ kernel, c->groups, 1, c->threads, lds_bytes, cluster }, &args);
}

/* Compares the bits of each token's rows, and how often each value was stored. */
static void check_rows(const struct gemv_matrix_case *c, struct room *const alone[], struct room *const y[], struct room *const calls[])
{
    for (uint32_t m = 0; m < GEMV_MATRICES; m++)
        for (uint32_t i = 0; i < c->n * c->rows[m]; i++) {
            const uint32_t times = ((const uint32_t *)(const void *)calls[m]->bytes)[i];
            if (times != 1) { bad("matrix %u, token %u, row %u was stored %u times", m, i / c->rows[m], i % c->rows[m], times); return; }
            if (memcmp(&room_floats(y[m])[i], &room_floats(alone[m])[i], sizeof(float))) {
                bad("matrix %u, token %u, row %u is %.9g, alone %.9g", m, i / c->rows[m], i % c->rows[m], (double)room_floats(y[m])[i],
                    (double)room_floats(alone[m])[i]);
                return;
            }
        }
}

static void check(const struct shape *s, uint32_t number)
{
    static const char *const modes[GEMV_MODES] = { "plain", "pair", "chain" };
    const uint32_t block = s->format->block_weights, limits[3] = { 9, 40, 200 }, most = random_below(3) ? 1024 : 6000;
    struct gemv_matrix_case c = { .mode = number % GEMV_MODES, .cols = block * (1 + random_below(most / block)),
                                  .digits = 1 + random_below(3), .norm = random_below(3), .n = 1 + random_below(s->columns),
                                  .eps = 1e-5f, .ranks = 1u << random_below(4), .threads = 64u << random_below(3) };
    while (4 * c.ranks > s->lanes) c.ranks /= 2;
    c.groups = c.ranks * (1 + random_below(3));
    c.rows[0] = 1 + random_below(limits[random_below(3)]);
    if (c.mode == GEMV_PAIR) c.rows[1] = c.rows[0];
    for (uint32_t m = 1; c.mode == GEMV_CHAIN && m < GEMV_MATRICES; m++) c.rows[m] = 1 + random_below(limits[random_below(3)]);
    const uint32_t waves = c.threads / WAVE, slots = waves / MATRIX_SPLIT(waves, s->lanes / 4 / c.ranks);
    const uint32_t row_bytes = ACTS_BYTES(MATRIX_COLS(c.cols, s->lanes, c.ranks), c.digits, s->sums16);
    c.x_bytes = MATRIX_X_BYTES(row_bytes, c.threads);
    c.parts_at = c.x_bytes * (s->columns - 1) + row_bytes;
    c.exchange_at = c.parts_at + 2 * MATRIX_PART_BYTES * waves;
    c.ring_at = (c.exchange_at + MATRIX_EXCHANGE_BYTES(slots, c.ranks) + 127) / 128 * 128;
    c.ring_bytes = s->stages * s->stage_bytes;
    c.x_stride = (c.cols + 3) / 4 * 4 + 4 * random_below(3);
    case_is("%s, lanes %u, stages %u, %u of %u tokens, %s, rows %u %u %u, columns %u, digits %u, norm %u, %u groups of %u, clusters of %u",
            s->format->file, s->lanes, s->stages, c.n, s->columns, modes[c.mode], c.rows[0], c.rows[1], c.rows[2], c.cols, c.digits, c.norm,
            c.groups, c.threads, c.ranks);
    struct room *x = room_new("rows", 4 * (uint64_t)c.n * c.x_stride), *weight = room_new("the norm's weights", 4 * (uint64_t)c.cols),
        *room = room_new("the case", sizeof c), *alone[GEMV_MATRICES], *y[GEMV_MATRICES], *calls[GEMV_MATRICES], *once[GEMV_MATRICES];
    struct matrix matrices[GEMV_MATRICES];
    for (uint32_t t = 0; t < c.n; t++) random_row(room_floats(x) + t * c.x_stride, c.cols, ldexpf(1, (int)random_below(20) - 10));
    random_row(room_floats(weight), c.cols, 2);
    c.x = x->at, c.norm_weight = weight->at;
    for (uint32_t m = 0; m < GEMV_MATRICES; m++) {
        const uint64_t bytes = 4 * (uint64_t)c.n * c.rows[m];
        matrices[m] = matrix_new(s->format, LAYOUT_GPU, c.rows[m], c.cols, NUMBERS_NEAR_ONE, CODES_RANDOM);
        alone[m] = room_new("products alone", bytes), once[m] = room_new("stores of them", bytes);
        y[m] = room_new("products", bytes), calls[m] = room_new("stores", bytes);
        memset(calls[m]->bytes, 0, bytes);
        c.w[m] = matrices[m].packed->at, c.y[m] = alone[m]->at, c.calls[m] = once[m]->at;
    }
    for (c.token = 0; c.token < c.n; c.token++) launch(room, &c, "alone", s, ACTS_BYTES(c.cols, c.digits, s->sums16), 0);
    for (uint32_t m = 0; m < GEMV_MATRICES; m++) c.y[m] = y[m]->at, c.calls[m] = calls[m]->at;
    c.token = 0;
    launch(room, &c, "together", s, c.ring_at + waves * c.ring_bytes, c.ranks > 1 ? c.ranks : 0);
    check_rows(&c, alone, y, calls);
    for (uint32_t m = 0; m < GEMV_MATRICES; m++) matrix_free(&matrices[m]);
    rooms_free();
}

void test_gemv_matrix(void)
{
    for (const struct shape *s = shapes; s < shapes + sizeof shapes / sizeof *shapes; s++)
        for (uint32_t k = 0; k < rounds(32); k++)
            if (format_wanted(s->format->file) && case_begin()) check(s, k);
}
