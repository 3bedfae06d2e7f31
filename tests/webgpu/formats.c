/* formats.c -- the weight formats of WGSL: packs rows of every format from random blocks, as tests/kernel/formats.c does.  Writes modules,
 * their inputs and the expected results into the working directory, for run.mjs:
 *   formats.json         for each format: places, columns of a unit, its cases with their first place, and cases of
 *                        whole rows with their first sum
 *   NAME.wgsl            formats.wgsl with the used parts of the templates
 *   NAME.gemv.wgsl       gemv.wgsl with the same
 *   NAME.gemvf.wgsl      only for formats that are not floats: the same with a row as floats
 *   NAME.weights         packed matrices, a piece of 0xff between them
 *   NAME.places          u32 [places][4], as in formats.wgsl
 *   NAME.acts            struct acts_unit [places], or f32 [places][columns of a unit] if weights are floats
 *   NAME.product         f64 [places][2]: the product and its bound
 *   NAME.value           f64 [places][columns of a unit][2]: a weight and its bound
 *   NAME.matvecs         struct matvec of gemv.wgsl
 *   NAME.arena           the rows
 *   NAME.sum             f64 [matvecs][ROWS][2]: products with a whole row and their bounds
 *   NAME.sumf            the same for a row as floats, only for the first matvecs */
#include "pile.h"
#include "compiler/web/wgsl.h"
#include <stdio.h>

/* FLOAT_COLS_MOST: maximum columns of a row as floats, so that it and the sums fit into 16,384 bytes of workgroup memory. */
enum { ROWS = 11, UNIT_ROWS = 3, PIECE = 16, SMALL_COLS = 512, COLS_MOST = 4352, FLOAT_COLS_MOST = 3712 };

/* As in unit.wgsl, with the bytes of q0 .. q3. */
struct acts_unit { int8_t q[64]; float scale[4], sum16[4]; };
_Static_assert(sizeof(struct acts_unit) == 96, "vec4u q0, q1, q2, q3; vec4f scale, sum16");

/* ---- contents of files ---- */
static struct of_format {
    struct arena        *arena;
    const struct format *format;
    uint32_t             unit_cols, n_places, n_sums, n_sumfs;
    struct pile          weights, places, acts, product, value, matvecs, arena_rows, sum, sumf;
    struct text          cases, matvec_cases;
} on;

/* ---- activations ---- */
enum acts_kind { ACTS_ANY, ACTS_LARGE, ACTS_EXTREME, ACTS_ZERO, N_ACTS };
/* Quantised activations of a unit, with a kind for each block; x: their values. */
static void acts_fill(struct acts_unit *a, double x[64])
{
    for (uint32_t b = 0; b < 2; b++) {
        const uint32_t any = random_below(8);
        const enum acts_kind kind = any < N_ACTS ? (enum acts_kind)any : ACTS_ANY;
        const int8_t top = random_below(2) ? -127 : 127;
        const float d = kind == ACTS_ZERO ? 1e-30f / 127.0f : fabsf(kind == ACTS_LARGE ? random_between(10, 20) : random_between(-12, 0));
        int32_t sum[2] = { 0 };
        for (uint32_t i = 0; i < 32; i++) {
            const int8_t q = kind == ACTS_ZERO ? 0 : kind == ACTS_EXTREME ? top : (int8_t)((int)random_below(255) - 127);
            a->q[32 * b + i] = q;
            x[32 * b + i] = (double)d * q;
            sum[i / 16] += q;
        }
        a->scale[b] = d;
        a->scale[2 + b] = d * (float)(sum[0] + sum[1]);
        for (uint32_t i = 0; i < 2; i++) a->sum16[2 * b + i] = d * (float)sum[i];
    }
}
static void acts_add(double x[64])
{
    struct acts_unit unit;
    float floats[8];
    if (on.format->coding) acts_fill(&unit, x);
    for (uint32_t i = 0; i < on.unit_cols && !on.format->coding; i++) x[i] = (double)(floats[i] = random_sign() * random_f32());
    if (on.format->coding) pile_add(on.arena, &on.acts, &unit, sizeof unit);
    else pile_add(on.arena, &on.acts, floats, on.unit_cols * sizeof *floats);
}

/* ---- cases ---- */
static void unit_add(const struct matrix *m, uint32_t base, uint32_t row, uint32_t unit)
{
    double x[64];
    const uint32_t units = (m->cols + 63) / 64, col = unit * on.unit_cols;
    const uint32_t there = col >= m->cols ? 0 : m->cols - col < on.unit_cols ? m->cols - col : on.unit_cols;
    const float *w = m->weights + (uint64_t)row * m->cols + col, *size = m->sizes + (uint64_t)row * m->cols + col;
    pile_add(on.arena, &on.places, (const uint32_t[4]){ base, row, unit, units }, sizeof(uint32_t[4]));
    on.n_places++;
    acts_add(x);
    struct dot want = { 0, 0 };
    if (there) want = dot_ref(w, size, x, there);
    double unseen = 2 * tiny_product;
    for (uint32_t i = 0; i < on.unit_cols; i++) {
        pair_add(on.arena, &on.value, i < there ? (double)w[i] : 0, i < there ? 0x1p-23 * (double)size[i] + tiny_weight : 0);
        unseen += tiny_weight * fabs(x[i]);
    }
    pair_add(on.arena, &on.product, want.sum, 1e-6 * want.size + unseen);
}

/* ---- a matrix times a row ---- */
static void gemv_add(const struct matrix *m, uint32_t base, uint64_t number)
{
    static float row[COLS_MOST], weight[COLS_MOST];
    static double x[COLS_MOST], floats[COLS_MOST];
    const uint32_t norm = number % 2, groups = 1 + number / 2 % 2;
    const uint32_t norm_at = norm ? (uint32_t)(on.weights.n / PIECE) : ~0u;
    norm_fill(weight, m->cols, norm);
    row_fill(row, weight, x, floats, m->cols, norm, on.format->coding);
    pile_add(on.arena, &on.matvecs, (const uint32_t[7]){ base, norm_at, (uint32_t)(on.arena_rows.n / 4), on.n_sums, ROWS, m->cols, groups },
             sizeof(uint32_t[7]));
    if (norm) pile_add(on.arena, &on.weights, weight, m->cols * sizeof *weight);
    pile_add(on.arena, &on.arena_rows, row, m->cols * sizeof *row);
    pile_add(on.arena, &on.arena_rows, (const uint32_t[3]){ 0x7fc00000, 0x7fc00000, 0x7fc00000 }, sizeof(uint32_t[3]));
    sums_add(on.arena, &on.sum, m, x);
    if (on.n_sumfs == on.n_sums && m->cols <= FLOAT_COLS_MOST) {
        sums_add(on.arena, &on.sumf, m, floats);
        on.n_sumfs += ROWS;
    }
    text_printf(&on.matvec_cases, "%s[%u, \"case %llu: %s, groups %u, %u columns\"]", on.n_sums ? ", " : "", on.n_sums,
                (unsigned long long)number, norm ? "norm" : "row", groups, m->cols);
    on.n_sums += ROWS;
}

static void case_add(uint64_t number, uint32_t cols, enum codes codes)
{
    static const uint8_t gap[PIECE] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };
    struct matrix m = matrix_new(on.format, LAYOUT_GPU, ROWS, cols, NUMBERS_F16, codes);
    const uint32_t base = (uint32_t)(on.weights.n / PIECE), steps = (cols + 63) / 64 * 64 / on.unit_cols;
    if (m.packed->size % (uint64_t)(ROWS * PIECE)) bad("a row is not a whole number of pieces");
    text_printf(&on.cases, "%s[%u, \"case %llu: codes %s, %u columns\"]", on.n_places ? ", " : "", on.n_places, (unsigned long long)number,
                codes_name(codes), cols);
    pile_add(on.arena, &on.weights, m.packed->bytes, m.packed->size);
    pile_add(on.arena, &on.weights, gap, sizeof gap);
    for (uint32_t row = 0; row < UNIT_ROWS; row++)
        for (uint32_t unit = 0; unit < steps; unit++) unit_add(&m, base, row, unit);
    if (on.format->coding || cols <= FLOAT_COLS_MOST) gemv_add(&m, base, number);
    matrix_free(&m);
    rooms_free();
}

/* ---- files ---- */
static void pile_write(const char *kind, const struct pile *p)
{
    file_write(on.arena, arena_printf(on.arena, "%s.%s", on.format->file, kind), (struct bytes){ p->bytes, p->n });
}
/* cols_most: columns that workgroup memory can hold. */
static void module_add(struct wgsl *w, const char *folder, const char *name, uint32_t cols_most)
{
    const char *units = arena_printf(on.arena, "%uu", cols_most / 64);
    const struct wgsl_word words[] = { { "FORMAT", on.format->file }, { "WEIGHTS", "w" }, { "PAIR", "w" }, { "UNITSMOST", units },
                                       { "LANESHERE", cols_most == COLS_MOST ? "4u" : "16u" } };      /* SwiftShader has subgroups of 4 */
    const char *file = arena_printf(on.arena, "%s/%s", folder, name);
    const struct bytes kernels = file_read(on.arena, file);
    wgsl_add(w, arena_printf(on.arena, "templates/webgpu/formats/%s.wgsl", on.format->file), words, COUNT_OF(words));
    wgsl_add_text(w, file, arena_strndup(on.arena, (const char *)kernels.data, kernels.size), words, COUNT_OF(words));
}
static void module_write(const char *kind, struct wgsl *w)
{
    struct text t = { .arena = on.arena };
    wgsl_write(w, &t);
    file_write(on.arena, arena_printf(on.arena, "%s%s.wgsl", on.format->file, kind), bytes_of(text_str(&t)));
}
static void gemv_write(const char *folder, bool floats)
{
    struct wgsl *gemv = wgsl_new(on.arena, getenv("TEMPLATES"));
    static const char *const sinks[] = { "row", "pair" };
    for (uint32_t i = 0; i < COUNT_OF(sinks); i++) {
        const struct wgsl_word words[] = { { "FORMAT", on.format->file }, { "WEIGHTS", "w" }, { "PAIR", "w" }, { "SINK", sinks[i] } };
        wgsl_add(gemv, arena_printf(on.arena, "templates/webgpu/formats/%s.wgsl", on.format->file), words, COUNT_OF(words));
        wgsl_add(gemv, "templates/webgpu/gemv.wgsl", words, COUNT_OF(words));
    }
    module_add(gemv, folder, "gemv.wgsl", floats ? FLOAT_COLS_MOST : COLS_MOST);
    wgsl_want(gemv, floats ? "gemv_of_floats" : "gemv_of_acts");
    wgsl_want(gemv, floats ? "gemv2_of_floats" : "gemv2_of_acts");
    module_write(floats && on.format->coding ? ".gemvf" : ".gemv", gemv);
}
static void modules_write(const char *folder)
{
    struct wgsl *formats = wgsl_new(on.arena, getenv("TEMPLATES"));
    module_add(formats, folder, "formats.wgsl", COLS_MOST);
    wgsl_want(formats, on.format->coding ? "products_of_acts" : "products_of_floats");
    wgsl_want(formats, "values");
    module_write("", formats);
    if (on.format->coding) gemv_write(folder, false);
    gemv_write(folder, true);
}

/* case_begin() numbers the cases. */
void test_webgpu_formats(void)
{
    static const uint32_t cols[] = { 8, 32, 64, 96, 160, 256, 288, 320, SMALL_COLS, 768, 2048, 2880, 4352 };
    struct arena *a = arena_create();
    struct text list = { .arena = a };
    uint64_t number = 0;
    const char *folder = getenv("KERNELS");
    if (!folder) die("KERNELS: the folder of formats.wgsl and gemv.wgsl");
    for (uint32_t f = 0; f < FORMAT_COUNT; f++) {
        const struct format *format = &format_table[f];
        on = (struct of_format){ .arena = a, .format = format, .unit_cols = format->coding ? 64 : PIECE / format->block_bytes };
        on.cases.arena = on.matvec_cases.arena = a;
        for (uint32_t i = 0; i < COUNT_OF(cols); i++)
            for (uint32_t codes = cols[i] > SMALL_COLS ? CODES_ANY : 0; codes <= CODES_ANY; codes++) {
                if (cols[i] % format->block_weights || !format_wanted(format->file)) continue;
                number++;
                if (case_begin()) case_add(number, cols[i], (enum codes)codes);
            }
        if (!on.n_places) continue;
        modules_write(folder);
        pile_write("weights", &on.weights);
        pile_write("places", &on.places);
        pile_write("acts", &on.acts);
        pile_write("product", &on.product);
        pile_write("value", &on.value);
        pile_write("matvecs", &on.matvecs);
        pile_write("arena", &on.arena_rows);
        pile_write("sum", &on.sum);
        pile_write("sumf", &on.sumf);
        text_printf(&list, "%s{ \"format\": \"%s\", \"places\": %u, \"unit_cols\": %u, \"floats\": %s,\n  \"cases\": [%s],\n"
                    "  \"sums\": %u, \"sumfs\": %u, \"matvecs\": [%s] }", list.size ? ",\n" : "[", format->file, on.n_places, on.unit_cols,
                    format->coding ? "false" : "true", text_str(&on.cases), on.n_sums, on.n_sumfs, text_str(&on.matvec_cases));
    }
    text_puts(&list, "]\n");
    file_write(a, "formats.json", bytes_of(text_str(&list)));
    arena_destroy(a);
}
