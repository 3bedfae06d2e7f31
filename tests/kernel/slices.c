/* slices.c -- compares routers, the tokens of each expert, and products with slices in all formats, of decode and of prefill, with the
 * oracles of templates/ref and with sums in double. */
#include "blocks.h"
#include "machine.h"
#include "templates/gpu/gemm_sizes.h"
#include "templates/gpu/gemv_sizes.h"
#include "templates/gpu/launch.h"
#include "templates/gpu/slices_sizes.h"
#include "templates/ref/ops.h"
#include "cases.h"
#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"
#include <stdio.h>
#ifndef GEMM_UNIT_STEPS                          /* as in gemm_tmpl.c */
#define GEMM_UNIT_STEPS 1
#endif

static const struct slices_reader { const struct format *format; uint32_t unit_cols, sums16; } readers[] = {
#define QUANT(name, file, ...) { &format_table[PLACE_##name], UNIT_COLS_##file, SUMS16_##file },
#include "compiler/format/format.def"
};
static struct {
    struct slices_case c;
    uint32_t n_tokens, t0, first;
    struct matrix m[2];                          /* experts * rows rows each */
    struct room *room, *step, *choice, *n_picked, *picked, *x, *times, *y[2], *calls;
} on;

static uint32_t *words(const struct room *r) { return (uint32_t *)(void *)r->bytes; }
static void step_new(bool tail)
{
    const struct forge_gpu_step step = { .n_tokens = on.n_tokens, .n_logits = random_in(1, on.n_tokens) };
    on.step = room_new("the step", sizeof step);
    memcpy(on.step->bytes, &step, sizeof step);
    on.first = tail;
    on.t0 = tail ? on.n_tokens - step.n_logits : 0;
}
static void launch(const char *kernel, uint32_t grid_x, uint32_t grid_y, uint32_t threads, uint32_t lds_bytes)
{
    const struct forge_kernel_args args = { .weights = on.room->at, .step = on.step->at, .first = on.first };
    memcpy(on.room->bytes, &on.c, sizeof on.c);
    machine_launch(&(struct launch){ kernel, grid_x, grid_y, threads, lds_bytes, 0 }, &args);
}

/* ---- routers ---- */
/* Every workgroup computes the choice of the first token by itself: it must be the choice that one wave makes. */
static void check_route_everywhere(void)
{
    const struct slices_case *c = &on.c;
    enum { GROUPS = 2, THREADS = 128 };
    struct room *first = on.choice;
    on.choice = room_new("the choice again", 2 * c->used * 4);
    on.picked = room_new("numbers of lanes", (uint64_t)GROUPS * THREADS * 4);
    on.n_picked = room_new("numbers in LDS", (uint64_t)GROUPS * c->used * 4);
    on.c.groups = GROUPS, on.c.choice = on.choice->at, on.c.picked = on.picked->at, on.c.n_picked = on.n_picked->at;
    launch("route_everywhere", GROUPS, 1, THREADS, ROUTE_IDS_BYTES(c->used) + ROUTE_LDS_BYTES(c->experts, c->n_sets));
    if (memcmp(on.choice->bytes, first->bytes, 2 * c->used * 4) != 0) bad("the choice is another than a wave's alone");
    const float *numbers = room_floats(first) + c->used;
    for (uint32_t i = 0; i < GROUPS * THREADS; i++) {
        const uint32_t k = i % WAVE < c->used ? i % WAVE : c->used - 1;
        if ((float)words(on.picked)[i] == numbers[k]) continue;
        bad("thread %u has expert %u, not %g", i, words(on.picked)[i], (double)numbers[k]);
        return;
    }
    for (uint32_t i = 0; i < GROUPS * c->used; i++)
        if ((float)words(on.n_picked)[i] != numbers[i % c->used])
            bad("LDS has expert %u, not %g", words(on.n_picked)[i], (double)numbers[i % c->used]);
}

static void check_route(void)
{
    static const uint32_t sizes[] = { 6, 8, 32, 60, 64, 128, 256, 1000 };
    struct slices_case *c = &on.c;
    c->experts = sizes[random_below(8)];
    c->n_sets = random_below(2) || c->experts % 8 ? 1 : c->experts >= 64 ? 8 : 2;
    c->n_sets_used = random_in(1, c->n_sets);
    const uint32_t can = c->experts / c->n_sets * c->n_sets_used, most = can < ROUTE_MOST_USED ? can : ROUTE_MOST_USED;
    c->used = random_in(1, most < 12 || random_below(4) == 0 ? most : 12);
    c->gating = random_in(1, 3), c->norm = random_below(2), c->by = random_below(2) ? 1.0f : 2.5f;
    on.n_tokens = random_in(1, 4);
    const bool biased = random_below(2);
    case_is("router: %u of %u experts, %u of %u sets, gating %u, norm %u, by %g, biased %d, %u tokens", c->used, c->experts, c->n_sets_used,
            c->n_sets, c->gating, c->norm, (double)c->by, biased, on.n_tokens);
    struct room *logits = room_new("logits", (uint64_t)on.n_tokens * c->experts * 4), *bias = room_new("biases", c->experts * 4);
    on.choice = room_new("choices", (uint64_t)on.n_tokens * 2 * c->used * 4);
    random_row(room_floats(logits), (uint64_t)on.n_tokens * c->experts, 6);
    random_row(room_floats(bias), c->experts, 0.3f);
    if (random_below(4) == 0) room_floats(logits)[0] = room_floats(logits)[c->experts - 1];      /* of equals the lower number */
    c->logits = logits->at, c->bias = biased ? bias->at : NULL, c->choice = on.choice->at;
    step_new(false);
    launch("route_tokens", 1, on.n_tokens, WAVE, ROUTE_LDS_BYTES(c->experts, c->n_sets));
    const struct route_ref r = { .n_expert = c->experts, .used = c->used, .gating = c->gating, .n_group = c->n_sets,
                                 .n_group_used = c->n_sets_used, .norm = c->norm, .by = (double)c->by,
                                 .select_bias = biased ? room_floats(bias) : NULL };
    bool ok = true;
    for (uint32_t t = 0; t < on.n_tokens; t++) {
        float want[2 * ROUTE_MOST_USED];
        route_ref(want, &r, room_floats(logits) + t * c->experts);
        for (uint32_t i = 0; i < 2 * c->used && ok; i++)
            ok = close_to(i < c->used ? "share" : "expert", t * 2 * c->used + i, (double)room_floats(on.choice)[t * 2 * c->used + i],
                          (double)want[i], i < c->used ? 2e-6 * (1 + fabs((double)want[i])) : 0);
    }
    if (ok) check_route_everywhere();
}

/* ---- which tokens ---- */
/* Draws `used` different experts for every token; rows are `stride` floats apart.  every: all experts, in order. */
static void draw_choice(uint32_t tokens, bool every)
{
    struct slices_case *c = &on.c;
    on.choice = room_new("choices", (uint64_t)tokens * c->stride * 4);
    c->choice = on.choice->at;
    for (uint32_t t = 0; t < tokens; t++) {
        float *row = room_floats(on.choice) + (uint64_t)t * c->stride;
        for (uint32_t k = 0; k < c->used; k++) {
            uint32_t e, again;
            do {
                e = every ? k : random_below(c->experts), again = 0;
                for (uint32_t i = 0; i < k; i++) again |= row[c->used + i] == (float)e;
            } while (again);
            row[k] = random_f32();
            row[c->used + k] = (float)e;
        }
    }
}
static void picked_new(void)
{
    on.n_picked = room_new("numbers of tokens", on.c.experts * 4);
    on.picked = room_new("tokens of experts", (uint64_t)on.c.experts * on.c.most * 4);
    on.c.n_picked = on.n_picked->at, on.c.picked = on.picked->at;
}
static bool check_list(uint32_t e)
{
    const struct slices_case *c = &on.c;
    const uint32_t *list = words(on.picked) + e * c->most;
    uint32_t found = 0;
    for (uint32_t i = on.t0 * c->used; i < on.n_tokens * c->used; i++) {
        if (room_floats(on.choice)[(uint64_t)(i / c->used) * c->stride + c->used + i % c->used] != (float)e) continue;
        if (list[found] != i) return bad("entry %u of expert %u is %u, not %u", found, e, list[found], i);
        found++;
    }
    if (words(on.n_picked)[e] != found) return bad("expert %u has %u entries, not %u", e, words(on.n_picked)[e], found);
    return found == c->most || list[found] == 0xffffffffu || bad("the list of expert %u goes on after its end", e);
}
static void check_picked(void)
{
    struct slices_case *c = &on.c;
    c->experts = random_in(2, 20), c->used = random_in(1, c->experts < 6 ? c->experts : 6);
    on.n_tokens = random_in(1, 150), c->most = on.n_tokens + random_below(21);
    c->threads = 64u << random_below(3), c->stride = (2 * c->used + 63) / 64 * 64;
    step_new(random_below(2));
    case_is("tokens of %u experts, %u of a token, %u tokens from %u, %u threads", c->experts, c->used, on.n_tokens, on.t0, c->threads);
    picked_new();
    draw_choice(on.n_tokens, false);
    launch("picked_tokens", c->experts, 1, c->threads, PICKED_LDS_BYTES(c->threads));
    for (uint32_t e = 0; e < c->experts; e++) if (!check_list(e)) return;
}

/* ---- products ---- */
static uint32_t draw_cols(const struct format *f)
{
    const uint32_t block = f->block_weights, units = random_in(1, block > 64 ? 3 : block > 1 ? 9 : 300);
    return (block * units + 3) / 4 * 4;
}
static void stacks_new(const struct format *f)
{
    struct slices_case *c = &on.c;
    for (uint32_t i = 0; i < 2; i++) {
        on.m[i] = matrix_new(f, LAYOUT_GPU, c->experts * c->rows, c->cols, NUMBERS_NEAR_ONE, CODES_RANDOM);
        c->w[i] = on.m[i].packed->at;
    }
}
static void outputs_new(uint64_t n)
{
    for (uint32_t i = 0; i < 2; i++) on.c.y[i] = (on.y[i] = room_new(i ? "up" : "products", 4 * n))->at;
    on.calls = room_new("stores", 4 * n);
    memset(on.calls->bytes, 0, 4 * n);
    on.c.calls = on.calls->at;
}
static struct dot product(uint32_t matrix, uint32_t expert, uint32_t row, const double *x)
{
    return dot_ref(on.m[matrix].weights + ((uint64_t)expert * on.c.rows + row) * on.c.cols, NULL, x, on.c.cols);
}
/* Compares value i with its product, or both values of a pair: the bound is loose * size + floor. */
static bool same(uint64_t i, struct dot want, struct dot up, double loose, double floor)
{
    const double bound = loose * (want.size + up.size) + floor;
    if (words(on.calls)[i] != 1) return bad("value %llu is stored %u times", (unsigned long long)i, words(on.calls)[i]);
    return close_to("product", i, (double)room_floats(on.y[0])[i], want.sum, bound)
        && (!on.c.pair || close_to("up", i, (double)room_floats(on.y[1])[i], up.sum, bound));
}

/* For half of the cases the stack seems to begin 5 GiB before the first used matrix, and experts are numbered from there, so that an
 * expert's offset exceeds 32 bits.  There is no memory in between, and nothing is read there.  Returns the number of the first expert. */
static uint32_t stack_far(const struct format *f)
{
    struct slices_case *c = &on.c;
    const struct packing packing = packing_here(LAYOUT_GPU, f);
    const uint64_t bytes = c->rows * packing_group_bytes(packing, c->cols) / packing.layout->group_rows;
    const uint64_t first = ((5ull << 30) + bytes - 1) / bytes;
    if (random_below(2) || first + c->experts > 1u << 24) return 0;             /* numbers of experts are floats */
    for (uint32_t i = 0; i < 2; i++) c->w[i] = (const uint8_t *)((uintptr_t)c->w[i] - first * bytes);
    if (c->times) c->times = (const float *)((uintptr_t)c->times - 4 * first);
    for (uint32_t k = 0; k < c->used; k++) room_floats(on.choice)[c->used + k] += (float)first;
    return (uint32_t)first;
}

/* Decode: one row of output for each slice, or (sums) the sum of the slices. */
static void check_decode(const struct slices_reader *f, bool sums)
{
    struct slices_case *c = &on.c;
    c->cols = draw_cols(f->format), c->rows = random_in(1, 40), c->experts = random_in(2, 7);
    c->used = random_in(1, c->experts < 5 ? c->experts : 5);
    c->apart = sums ? SLICES_APART : random_in(SLICES_SHARED, SLICES_APART), c->digits = random_in(2, 3);
    c->threads = 64u << random_below(2), c->groups = random_in(1, 4), c->pair = !sums && random_below(2);
    c->stride = 2 * c->used, c->y_stride = sums ? c->rows : c->used * c->rows;
    const bool timed = random_below(2);
    case_is("%s, %s of %u of %u experts of %u x %u, apart %u, digits %u, pair %u, times %d, %u groups of %u", f->format->name,
            sums ? "the sum" : "rows", c->used, c->experts, c->rows, c->cols, c->apart, c->digits, c->pair, timed, c->groups, c->threads);
    on.n_tokens = 1;
    step_new(false);
    stacks_new(f->format);
    const uint32_t pieces = c->apart ? c->used : 1, n = c->y_stride, n_x = pieces * c->cols;
    on.x = room_new("x", n_x * 4), on.times = room_new("factors", c->experts * 4);
    random_row(room_floats(on.x), n_x, 2);
    random_row(room_floats(on.times), c->experts, 1);
    c->x = on.x->at, c->times = timed ? on.times->at : NULL;
    outputs_new(n);
    draw_choice(1, false);
    const uint32_t first = stack_far(f->format);
    const uint32_t all = c->apart ? pieces * 64 * ACTS_UNITS(c->cols) : c->cols, digits = f->unit_cols == 64 ? c->digits : 0;
    char kernel[40];
    snprintf(kernel, sizeof kernel, "%s_%s", sums ? "sum" : "each", f->format->file);
    launch(kernel, c->groups, 1, c->threads, digits ? ACTS_BYTES(all, digits, f->sums16) : FLOATS_BYTES(all));
    double *x = malloc(n_x * sizeof *x);
    for (uint32_t i = 0; i < n_x; i++) x[i] = (double)room_floats(on.x)[i];
    bool ok = true;
    for (uint32_t r = 0; r < n && ok; r++) {
        struct dot want = { 0, 0 }, up = { 0, 0 };
        for (uint32_t k = sums ? 0 : r / c->rows; k < (sums ? c->used : r / c->rows + 1); k++) {
            const uint32_t e = (uint32_t)room_floats(on.choice)[c->used + k] - first;
            const double share = sums ? (double)room_floats(on.choice)[k] * (timed ? (double)room_floats(on.times)[e] : 1) : 1;
            const struct dot d = product(0, e, r % c->rows, x + (c->apart ? k * c->cols : 0));
            want.sum += share * d.sum, want.size += fabs(share) * d.size;
            if (c->pair) up = product(1, e, r % c->rows, x + (c->apart ? k * c->cols : 0));
        }
        ok = same(r, want, up, digits == 2 ? 1e-4 : 2e-6, 2e-6);
    }
    free(x);
}

static void check_prefill(const struct slices_reader *f)
{
    struct slices_case *c = &on.c;
    c->cols = draw_cols(f->format), c->rows = random_in(1, 70), c->experts = random_in(2, 5);
    c->used = random_in(1, c->experts < 3 ? c->experts : 3);
    const bool every = random_below(3) == 0;                 /* all matrices, as products per head use them */
    if (every) c->used = c->experts;
    on.n_tokens = c->most = random_in(1, 70);
    c->shared = !every && random_below(2), c->pair = random_below(2), c->apart = !c->shared, c->threads = 64;
    c->stride = 2 * c->used, c->y_stride = c->used * c->rows, c->x_stride = UNITS_OF(c->cols) * 128;
    step_new(random_below(4) == 0);
    case_is("%s, %u of %u experts of %u x %u, shared %u, pair %u, every %d, %u tokens from %u", f->format->name, c->used, c->experts,
            c->rows, c->cols, c->shared, c->pair, every, on.n_tokens, on.t0);
    stacks_new(f->format);
    picked_new();
    draw_choice(on.n_tokens, every);
    if (!every) launch("picked_tokens", c->experts, 1, c->threads, PICKED_LDS_BYTES(c->threads));
    else c->n_picked = NULL, c->picked = NULL;
    const uint32_t pieces = c->shared ? 1 : c->used, width = UNITS_OF(c->cols) * 64, n = c->y_stride;
    const bool bf16 = f->format->number == NUMBER_BF16;
    on.x = room_new("x", (uint64_t)on.n_tokens * pieces * c->x_stride);
    double *x = calloc((uint64_t)on.n_tokens * pieces * c->cols, sizeof *x);
    for (uint32_t i = 0; i < on.n_tokens * pieces; i++)
        for (uint32_t k = 0; k < width; k++) {
            const float v = k < c->cols ? (float)(int32_t)random_below(129) / 32.0f - 2.0f : 0.0f;       /* exact in 16 bits */
            const uint16_t bits = (uint16_t)(bf16 ? stage_bf16(v) : stage_f16(v));
            if (k < c->cols) x[(uint64_t)i * c->cols + k] = (double)v;
            memcpy(on.x->bytes + (uint64_t)i * c->x_stride + 2 * k, &bits, 2);
        }
    c->x16 = on.x->at;
    outputs_new((uint64_t)n * on.n_tokens);
    const uint32_t each = c->pair ? 32 : 64;
    char kernel[40];
    snprintf(kernel, sizeof kernel, "tokens_%s", f->format->file);
    launch(kernel, (on.n_tokens + 31) / 32, (c->rows + each - 1) / each * c->experts, 128,
           GEMM_LDS_BYTES(32, 64, GEMM_STAGES_OF(FAMILY), f->format->number == NUMBER_F32 ? 2 : 1, f->format->block_bytes == 2,
                          GEMM_UNIT_STEPS, 0));
    bool ok = true;
    for (uint32_t i = 0; i < on.n_tokens * n && ok; i++) {
        const uint32_t t = i / n, k = i % n / c->rows, e = (uint32_t)room_floats(on.choice)[t * c->stride + c->used + k];
        const double *row = x + (uint64_t)(c->shared ? t : t * c->used + k) * c->cols;
        if (t < on.t0) ok = words(on.calls)[i] == 0 || bad("token %u comes before the first", t);
        else ok = same(i, product(0, e, i % c->rows, row), c->pair ? product(1, e, i % c->rows, row) : (struct dot){ 0, 0 }, 1e-3, 1e-5);
    }
    free(x);
}

/* Begins a case, if it is wanted. */
static bool begin(void)
{
    if (!case_begin()) return false;
    memset(&on, 0, sizeof on);
    on.room = room_new("the case", sizeof on.c);
    return true;
}
static void end(void)
{
    for (uint32_t i = 0; i < 2; i++) matrix_free(&on.m[i]);
    rooms_free();
}

void test_slices(void)
{
    for (uint32_t i = 0; i < rounds(60); i++) if (begin()) check_route(), end();
    for (uint32_t i = 0; i < rounds(20); i++) if (begin()) check_picked(), end();
    for (const struct slices_reader *f = readers; f < readers + FORMAT_COUNT; f++) {
        if (!format_wanted(f->format->file)) continue;
        for (uint32_t i = 0; i < rounds(4); i++) if (begin()) check_decode(f, i % 2), end();
        for (uint32_t i = 0; i < rounds(2); i++) if (begin()) check_prefill(f), end();
    }
}
