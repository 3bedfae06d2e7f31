/* gemm.c -- prefill's products of WGSL: writes modules, their inputs and the expected results into the working directory, for run.mjs:
 *   tasks.json           the kernels to run, with their inputs and outputs
 *   NAME.gemm.wgsl       gemm.wgsl with the used parts of the templates, for rows in int8; NAME.gemmf.wgsl: in floats
 *   NAME.weights         packed matrices and weights of norms
 *   NAME.jobs            struct job of gemm.wgsl
 *   NAME.arena           rows, and NaN in the room for results
 *   NAME.sum             f64 [jobs][tokens][rows][2]: the products and their bounds; NAME.sumf: for rows in floats */
#include "pile.h"
#include "compiler/web/wgsl.h"

enum { PIECE = 16, TOKENS_MOST = 130, COLS_MOST = 4352 };
static const uint8_t nan_piece[PIECE] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };

/* As in gemm.wgsl.  At staged_at there is room for one more token. */
struct job { uint32_t matrix, norm, x_at, x_stride, staged_at, y_at, rows, cols, tokens; };
_Static_assert(sizeof(struct job) == 36, "nine words");

static struct of_format {
    struct arena        *arena;
    const struct format *format;
    uint32_t             n_jobs, n_sums, row_tiles;
    struct pile          weights, jobs, rows, sum, sumf;
    struct text          cases;
} on;

static void job_add(uint64_t number, uint32_t tokens, uint32_t rows, uint32_t cols)
{
    static float row[COLS_MOST], weight[COLS_MOST];
    static double x[COLS_MOST], floats[COLS_MOST];
    struct matrix m = matrix_new(on.format, LAYOUT_GPU, rows, cols, NUMBERS_F16, CODES_ANY);
    const uint32_t norm = number % 2, units = (cols + 63) / 64, gap = 3 * (number / 2 % 2), staged = cols < 20 * units ? 20 * units : cols;
    struct job job = { .matrix = (uint32_t)(on.weights.n / PIECE), .norm = ~0u, .x_at = (uint32_t)(on.rows.n / 4), .x_stride = cols + gap,
                       .y_at = on.n_sums, .rows = rows, .cols = cols, .tokens = tokens };
    pile_add(on.arena, &on.weights, m.packed->bytes, m.packed->size);
    pile_add(on.arena, &on.weights, nan_piece, PIECE);
    norm_fill(weight, cols, norm);
    if (norm) {
        job.norm = (uint32_t)(on.weights.n / PIECE);
        pile_add(on.arena, &on.weights, weight, cols * sizeof *weight);
        pile_add(on.arena, &on.weights, nan_piece, (PIECE - cols * sizeof *weight % PIECE) % PIECE);
    }
    for (uint32_t t = 0; t < tokens; t++) {
        row_fill(row, weight, x, floats, cols, norm, on.format->coding);
        pile_add(on.arena, &on.rows, row, cols * sizeof *row);
        pile_add(on.arena, &on.rows, nan_piece, gap * sizeof *row);
        sums_add(on.arena, &on.sum, &m, x);
        if (on.format->coding) sums_add(on.arena, &on.sumf, &m, floats);
    }
    job.staged_at = (uint32_t)(on.rows.n / 4);
    for (uint32_t i = 0; i < (tokens + 1) * staged; i++) pile_add(on.arena, &on.rows, nan_piece, 4);
    pile_add(on.arena, &on.jobs, &job, sizeof job);
    text_printf(&on.cases, "%s[%u, \"case %llu: %s, %u tokens, %u rows, %u columns\"]", on.n_sums ? ", " : "", on.n_sums,
                (unsigned long long)number, norm ? "norm" : "row", tokens, rows, cols);
    on.n_sums += tokens * rows;
    on.n_jobs++;
    if (on.row_tiles < (rows + 31) / 32) on.row_tiles = (rows + 31) / 32;
    matrix_free(&m);
    rooms_free();
}

/* ---- files ---- */
static void pile_write(const char *kind, const struct pile *p)
{
    file_write(on.arena, arena_printf(on.arena, "%s.%s", on.format->file, kind), (struct bytes){ p->bytes, p->n });
}
static void module_write(const char *folder, bool floats, uint32_t threads)
{
    static const char *const sinks[] = { "row", "pair" };
    struct wgsl *w = wgsl_new(on.arena, getenv("TEMPLATES"));
    struct text t = { .arena = on.arena };
    const char *file = arena_printf(on.arena, "%s/gemm.wgsl", folder), *format = on.format->file;
    const struct bytes kernels = file_read(on.arena, file);
    struct wgsl_word words[] = { { "FORMAT", format }, { "WEIGHTS", "w" }, { "PAIR", "w" },
                                 { "THREADSHERE", arena_printf(on.arena, "%uu", threads) }, { "SINK", NULL } };
    for (uint32_t i = 0; i < COUNT_OF(sinks); i++) {
        words[COUNT_OF(words) - 1].stands_for = sinks[i];
        wgsl_add(w, arena_printf(on.arena, "templates/webgpu/formats/%s.wgsl", format), words, COUNT_OF(words));
        wgsl_add(w, "templates/webgpu/gemm.wgsl", words, COUNT_OF(words));
    }
    wgsl_add_text(w, file, arena_strndup(on.arena, (const char *)kernels.data, kernels.size), words, COUNT_OF(words) - 1);
    wgsl_want(w, floats ? "stage_floats" : "stage_acts");
    wgsl_want(w, floats ? "gemm_of_floats" : "gemm_of_acts");
    wgsl_want(w, floats ? "gemm2_of_floats" : "gemm2_of_acts");
    wgsl_write(w, &t);
    file_write(on.arena, arena_printf(on.arena, "%s.gemm%s.wgsl", format, floats ? "f" : ""), bytes_of(text_str(&t)));
}
/* The buffers of gemm.wgsl's bindings 0 .. */
static void task_put(struct text *list, bool floats, bool pair, uint32_t threads)
{
    const char *f = on.format->file, *of = floats ? "floats" : "acts", *kind = floats ? "f" : "", *two = pair ? "2" : "";
    const uint32_t token_tiles = (TOKENS_MOST + threads / 2 - 1) / (threads / 2);
    text_printf(list, "%s{ \"name\": \"%s gemm%s_of_%s\", \"module\": \"%s.gemm%s.wgsl\", \"chosen\": [\"gemm%s%s\", \"%s\"],\n",
                list->size ? ",\n" : "[", f, two, of, f, kind, kind, two, f);
    text_printf(list, "  \"buffers\": [\"%s.weights\", \"%s.jobs\", \"%s.arena\"], \"want\": \"%s.sum%s\", \"results\": %u,\n", f, f, f, f,
                floats && on.format->coding ? "f" : "", on.n_sums);
    text_printf(list, "  \"steps\": [{ \"entry\": \"stage_%s\", \"groups\": [%u, %u], \"bindings\": [0, 1, 2] },\n", of, on.n_jobs,
                TOKENS_MOST);
    text_printf(list, "            { \"entry\": \"gemm%s_of_%s\", \"groups\": [%u, %u, %u], \"bindings\": [0, 1, 2], \"output\": 3 }],\n",
                two, of, on.n_jobs, on.row_tiles, token_tiles);
    text_printf(list, "  \"cases\": [%s] }", text_str(&on.cases));
}

/* case_begin() numbers the cases. */
void test_webgpu_gemm(void)
{
    static const struct { uint32_t tokens, rows, cols; } shapes[] = {
        { 1, 11, 64 }, { 5, 70, 96 }, { 64, 64, 160 }, { 3, 1, 256 }, { 70, 67, 256 }, { 5, 40, 288 }, { 2, 5, 320 }, { 1, 11, 768 },
        { TOKENS_MOST, 131, 32 }, { TOKENS_MOST, 131, 512 }, { 7, 3, 2880 }, { 70, 33, COLS_MOST },
    };
    struct arena *a = arena_create();
    struct text list = { .arena = a };
    uint64_t number = 0;
    const char *folder = getenv("KERNELS");
    if (!folder) die("KERNELS: the folder of gemm.wgsl");
    for (uint32_t f = 0; f < FORMAT_COUNT; f++) {
        const struct format *format = &format_table[f];
        const uint32_t threads = f / 2 % 2 ? 128 : 256;
        on = (struct of_format){ .arena = a, .format = format, .cases.arena = a };
        for (uint32_t i = 0; i < COUNT_OF(shapes); i++) {
            if (shapes[i].cols % format->block_weights || !format_wanted(format->file) || !part_has(f)) continue;
            number++;
            if (case_begin()) job_add(number, shapes[i].tokens, shapes[i].rows, shapes[i].cols);
        }
        if (!on.n_jobs) continue;
        for (uint32_t floats = !format->coding; floats < 2; floats++) {
            module_write(folder, floats, threads);
            task_put(&list, floats, false, threads);
            task_put(&list, floats, true, threads);
        }
        pile_write("weights", &on.weights);
        pile_write("jobs", &on.jobs);
        pile_write("arena", &on.rows);
        pile_write("sum", &on.sum);
        if (format->coding) pile_write("sumf", &on.sumf);
    }
    text_puts(&list, "]\n");
    file_write(a, "tasks.json", bytes_of(text_str(&list)));
    arena_destroy(a);
}
