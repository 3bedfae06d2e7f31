/* rows.c -- the kernels of templates/webgpu except products, attention and sampling.  Writes into the working directory, for rows.mjs:
 *   KERNEL.wgsl          a kernel of rows.wgsl with the used parts of the templates
 *   rows.json            the cases: launches, arguments, and the place of their data in rows.bin
 *   rows.bin             for each case the arena, the state, vectors and weights as words, and for each word of the first two f64 [2]:
 *                        the expected value and its bound; a bound below 0: the word must not change
 * Gaps between the parts of the arena, and the places of results, are NaN. */
#include "tests/kernel/blocks.h"
#include "compiler/base/base.h"
#include "compiler/web/wgsl.h"
#include "templates/gpu/slices_sizes.h"
#include "templates/ref/ops.h"
#include <stdio.h>

enum { GAP = 3, NONE = -1, THREADS = 64, ARGS_MOST = 32, HEADS_RMS = 0, HEADS_UNIT, HEADS_CENTERED, HEADS_ALONE };
static const uint32_t nan_bits = 0x7fc5a5a5;

/* Words of a buffer, and their expected values and bounds: [n][2]. */
struct memory { uint32_t *words; double *want; size_t n, words_capacity, n_want, want_capacity; };

static struct {
    struct arena *a;
    const char   *folder;
    struct memory arena, state, vectors, weights;
    uint32_t      args[ARGS_MOST], n_args, step[4];
    struct text   launches, cases, what;
    uint8_t      *file;
    size_t        file_bytes, file_capacity;
    uint32_t      n_cases, groups_z;
} on;

/* ---- memory ---- */
static void word_add(struct memory *m, uint32_t word)
{
    arena_room(on.a, m->words, m->n, m->words_capacity);
    m->words[m->n++] = word;
    for (int i = 0; i < 2; i++) {
        arena_room(on.a, m->want, m->n_want, m->want_capacity);
        m->want[m->n_want++] = NONE;
    }
}
/* Appends n floats, for NULL n NaN; returns their begin. */
static uint32_t floats_add(struct memory *m, const float *x, uint32_t n)
{
    const uint32_t at = (uint32_t)m->n;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t word = nan_bits;
        if (x) memcpy(&word, x + i, 4);
        word_add(m, word);
    }
    for (uint32_t i = 0; i < GAP && m != &on.state; i++) word_add(m, nan_bits);
    return at;
}
static uint32_t arena_add(const float *x, uint32_t n) { return floats_add(&on.arena, x, n); }
/* Gives the piece. */
static uint32_t vector_add(const float *x, uint32_t n)
{
    const uint32_t at = floats_add(&on.vectors, x, n);
    while (on.vectors.n % 4) word_add(&on.vectors, nan_bits);
    return at / 4;
}
/* Gives the piece. */
static uint32_t matrix_add(const struct matrix *m)
{
    const uint32_t at = (uint32_t)on.weights.n / 4;
    for (uint64_t i = 0; i < m->packed->size / 4; i++) {
        uint32_t word;
        memcpy(&word, m->packed->bytes + 4 * i, 4);
        word_add(&on.weights, word);
    }
    return at;
}
static float *random_new(uint32_t n, float size)
{
    float *x = arena_alloc(on.a, n * sizeof *x);
    random_row(x, n, size);
    return x;
}
static void want(struct memory *m, uint32_t at, double x, double bound)
{
    m->want[2 * at] = x;
    m->want[2 * at + 1] = bound;
}
static void arg(uint32_t x) { on.args[on.n_args++] = x; }
static void argf(float x) { memcpy(&on.args[on.n_args++], &x, 4); }

/* ---- files ---- */
static size_t file_add(const void *bytes, size_t n)
{
    while (on.file_bytes % 8) {
        arena_room(on.a, on.file, on.file_bytes, on.file_capacity);
        on.file[on.file_bytes++] = 0;
    }
    const size_t at = on.file_bytes;
    for (size_t i = 0; i < n; i++) {
        arena_room(on.a, on.file, on.file_bytes, on.file_capacity);
        on.file[on.file_bytes++] = ((const uint8_t *)bytes)[i];
    }
    return at;
}
/* Writes the module KERNEL, or KERNEL.MORE if `more` must distinguish it from others of the same kernel.  parts, rows: of a recurrence. */
static const char *module_write(const char *kernel, const char *more, const struct format *format, uint32_t parts, uint32_t rows)
{
    const char *name = *more ? arena_printf(on.a, "%s.%s", kernel, more) : kernel;
    const struct wgsl_word words[] = { { "FORMAT", format->file }, { "WEIGHTS", "w" }, { "PAIR", "w" },
                                       { "SINK", strcmp(kernel, "slices2") ? "put" : "both" },
                                       { "PARTCOUNT", arena_printf(on.a, "%uu", parts) }, { "ROWCOUNT", arena_printf(on.a, "%uu", rows) } };
    const char *file = arena_printf(on.a, "%s/rows.wgsl", on.folder);
    const struct bytes text = file_read(on.a, file);
    struct wgsl *w = wgsl_new(on.a, getenv("TEMPLATES"));
    struct text out = { .arena = on.a };
    wgsl_add(w, arena_printf(on.a, "templates/webgpu/formats/%s.wgsl", format->file), words, COUNT_OF(words));
    wgsl_add_text(w, file, arena_strndup(on.a, (const char *)text.data, text.size), words, COUNT_OF(words));
    wgsl_want(w, kernel);
    wgsl_write(w, &out);
    file_write(on.a, arena_printf(on.a, "%s.wgsl", name), bytes_of(text_str(&out)));
    return name;
}
static void launch(const char *kernel, uint32_t x, uint32_t y)
{
    text_printf(&on.launches, "%s{ \"kernel\": \"%s\", \"groups\": [%u, %u, %u] }", on.launches.size ? ", " : "", kernel, x, y,
                on.groups_z);
}
static bool begin(void)
{
    on.arena = on.state = on.vectors = on.weights = (struct memory){ 0 };
    on.launches = (struct text){ .arena = on.a };
    on.n_args = 0;
    on.groups_z = 1;
    memset(on.step, 0, sizeof on.step);
    floats_add(&on.vectors, NULL, 1);
    floats_add(&on.weights, NULL, 1);
    word_add(&on.state, nan_bits);
    on.state.n = 0;
    on.state.n_want = 0;
    arena_add(NULL, 1);
    return case_begin();
}
static void memory_put(const char *name, const struct memory *m, bool changes)
{
    text_printf(&on.cases, ",\n  \"%s\": [%llu, %llu]", name, (unsigned long long)file_add(m->words, 4 * m->n), (unsigned long long)m->n);
    if (changes) text_printf(&on.cases, ", \"%s_want\": %llu", name, (unsigned long long)file_add(m->want, sizeof(double) * m->n_want));
}
__attribute__((format(printf, 1, 2))) static void end(const char *format, ...)
{
    va_list list;
    char what[200];
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    text_printf(&on.cases, "%s{ \"what\": \"%s\", \"launches\": [%s],\n  \"step\": [%u, %u, %u, %u], \"args\": [", on.n_cases ? ",\n" : "[",
                what, text_str(&on.launches), on.step[0], on.step[1], on.step[2], on.step[3]);
    for (uint32_t i = 0; i < on.n_args; i++) text_printf(&on.cases, "%s%u", i ? ", " : "", on.args[i]);
    text_puts(&on.cases, "]");
    memory_put("arena", &on.arena, true);
    memory_put("state", &on.state, true);
    memory_put("vectors", &on.vectors, false);
    memory_put("weights", &on.weights, false);
    text_puts(&on.cases, " }");
    on.n_cases++;
    rooms_free();
}
static const struct format *format_named(const char *file)
{
    for (uint32_t f = 0; f < FORMAT_COUNT; f++)
        if (!strcmp(format_table[f].file, file)) return &format_table[f];
    die("there is no format %s", file);
}
static const struct format *any_format(void) { return format_named("q8_0"); }
static uint32_t groups_of(uint32_t items) { return (items + THREADS - 1) / THREADS; }

/* ---- values ---- */
static double value_ref(uint32_t which, float x, float more)
{
    float y;
    uint32_t position;
    switch (which) {
    case 0: return silu_ref((double)x);
    case 1: return fabsf(x) > 1e4f ? fmax(x, 0) : gelu_ref((double)x);
    case 2: return gelu_erf_ref((double)x);
    case 3: return sigmoid_ref((double)x);
    case 4: return softplus_ref((double)x);
    case 5: return relu_sqr_ref((double)x);
    case 6: return tanh((double)x);
    case 7: case 10: return 30 * tanh((double)x / 30);
    case 8: glu_oai_ref(&y, &x, &more, (double)1.702f, 7, 1); return (double)y;
    default: memcpy(&position, &x, 4); return 1 + 0.1 * log(1 + position / 37);
    }
}
static void values_add(uint32_t which)
{
    static const char *const names[] = { "silu", "gelu", "gelu_erf", "sigmoid", "softplus", "relu_sqr", "tanh", "softcap", "glu_oai",
                                         "temperature", "score_capped" };
    static const float edges[] = { 0, 1e-6f, 1e-3f, 0.0999f, 0.1001f, 1, 5, 15.9f, 16.1f, 20, 44, 87, 88, 89, 127, 130, 1e3f, 1e4f, 1e10f,
                                   1e18f };
    enum { N = 1000 };
    if (!begin()) return;
    float *x = random_new(N, 10), *more = random_new(N, 10);
    for (uint32_t i = 0; i < 2 * COUNT_OF(edges); i++) x[i] = i % 2 ? -edges[i / 2] : edges[i / 2];
    for (uint32_t i = 0; i < N && which == 9; i++) memcpy(x + i, &(uint32_t){ random_below(i % 2 ? 100 : 1 << 20) }, 4);
    const uint32_t out = arena_add(NULL, N), x_at = arena_add(x, N), more_at = arena_add(more, N);
    arg(out), arg(0), arg(x_at), arg(more_at), arg(N), arg(which);
    launch(module_write("values", "", any_format(), 1, 1), groups_of(N), 1);
    for (uint32_t i = 0; i < N; i++) {
        const double y = value_ref(which, x[i], more[i]);
        /* exp2's error is up to 3 + 2 |exponent| ULP */
        const double relative = which == 5 || which == 6 || which == 7 || which >= 9 ? 2e-6 : 2e-6 + 3e-7 * fmin(fabs((double)x[i]), 100);
        want(&on.arena, out + i, y, relative * fabs(y) + (which == 1 || which == 2 ? 4e-7 * fmin(fabs((double)x[i]), 10) : 0) + 1e-30);
    }
    end("%s of %u values", names[which], N);
}

/* ---- rows ---- */
static void embed_add(const struct format *format, uint32_t cols, uint32_t groups)
{
    enum { ROWS = 9, TOKENS = 3 };
    if (cols % format->block_weights || !begin()) return;
    const struct matrix m = matrix_new(format, LAYOUT_GPU, ROWS, cols, NUMBERS_F16, CODES_ANY);
    const uint32_t stride = cols + 5, out = arena_add(NULL, TOKENS * stride), rows = (uint32_t)on.arena.n;
    for (uint32_t t = 0; t < TOKENS; t++) word_add(&on.arena, t ? random_below(ROWS) : ROWS - 1);
    arg(out), arg(stride), arg(rows), arg(matrix_add(&m)), arg(cols), arg(groups);
    launch(module_write("embed", format->file, format, 1, 1), groups, TOKENS);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t c = 0; c < cols; c++) {
            const uint64_t of = (uint64_t)on.arena.words[rows + t] * cols + c;
            want(&on.arena, out + t * stride + c, (double)m.weights[of], 0x1p-23 * (double)m.sizes[of] + 0x1p-122);
        }
    end("embedding %s, %u columns, %u groups", format->file, cols, groups);
    matrix_free((struct matrix *)&m);
}
/* Whole numbers, whose sums are exact. */
static void lanes_add(uint32_t lanes, bool backwards)
{
    float x[THREADS];
    if (!begin()) return;
    for (uint32_t i = 0; i < THREADS; i++) x[i] = (float)random_below(1000) - 500;
    const uint32_t x_at = arena_add(x, THREADS), out = arena_add(NULL, 2 * THREADS);
    arg(out), arg(0), arg(x_at), arg(lanes), arg(backwards);
    launch(module_write("lanes", "", any_format(), 1, 1), 1, 1);
    for (uint32_t i = 0; i < THREADS; i++) {
        double sum = 0, most = -INFINITY;
        for (uint32_t k = i / lanes * lanes; k < (i / lanes + 1) * lanes; k++) {
            sum += (double)x[k];
            most = fmax(most, (double)x[k]);
        }
        want(&on.arena, out + i, sum, 0);
        want(&on.arena, out + THREADS + i, most, 0);
    }
    end("sums and maxima of %u neighbours%s", lanes, backwards ? ", backwards" : "");
}
static void norms_add(uint32_t cols, bool layer, bool weights, bool in_place)
{
    enum { TOKENS = 2 };
    if (!begin()) return;
    const uint32_t stride = cols + 1;
    float *x = random_new(TOKENS * stride, 3), *w = random_new(cols, 2), *y = random_new(cols, 1);
    for (uint32_t i = 0; i < TOKENS * stride; i++) x[i] += layer ? 2 : 0;
    const uint32_t x_at = arena_add(x, TOKENS * stride), out = in_place ? x_at : arena_add(NULL, TOKENS * stride);
    arg(out), arg(stride), arg(x_at), arg(weights ? vector_add(w, cols) : ~0u), arg(cols), argf(1e-5f), arg(layer);
    launch(module_write("norms", "", any_format(), 1, 1), TOKENS, 1);
    for (uint32_t t = 0; t < TOKENS; t++) {
        if (layer) layernorm_ref(y, x + t * stride, weights ? w : NULL, NULL, cols, 1e-5);
        else rmsnorm_ref(y, x + t * stride, weights ? w : NULL, cols, 1e-5);
        for (uint32_t c = 0; c < cols; c++)
            want(&on.arena, out + t * stride + c, (double)y[c], 6e-7 * fabs((double)y[c]) + (layer ? 1e-6 : 0));
    }
    end("%s norm of %u columns%s%s", layer ? "layer" : "RMS", cols, weights ? "" : ", no weights", in_place ? ", in place" : "");
}
static void heads_add(uint32_t heads, uint32_t head_dim, uint32_t how, uint32_t weights, bool zero)
{
    enum { TOKENS = 2 };
    static const char *const names[] = { "RMS", "unit", "centered", "headnorm_row" };
    if (!begin()) return;
    const uint32_t cols = heads * head_dim, stride = cols + 2;
    float *x = random_new(TOKENS * stride, 3), *w = random_new(cols, 2), *y = random_new(head_dim, 1);
    if (zero) memset(x, 0, head_dim * sizeof *x);
    const uint32_t x_at = arena_add(x, TOKENS * stride), out = arena_add(NULL, TOKENS * stride);
    const uint32_t at = weights ? vector_add(w, weights == 2 ? cols : head_dim) : ~0u;
    arg(out), arg(stride), arg(x_at), arg(at), arg(weights == 2), arg(how), argf(1e-6f), arg(head_dim);
    launch(module_write("heads", "", any_format(), 1, 1), heads, TOKENS);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t h = 0; h < heads; h++) {
            const float *head = x + t * stride + h * head_dim, *its = weights == 2 ? w + h * head_dim : w;
            if (how == HEADS_UNIT) l2norm_ref(y, head, head_dim, 1e-6);
            else if (how == HEADS_CENTERED) layernorm_ref(y, head, NULL, NULL, head_dim, 1e-6);
            else rmsnorm_ref(y, head, NULL, head_dim, 1e-6);
            for (uint32_t c = 0; c < head_dim; c++) {
                const double v = (double)y[c] * (weights ? (double)its[c] : 1);
                want(&on.arena, out + t * stride + h * head_dim + c, v, 6e-7 * fabs(v) + (how == HEADS_CENTERED ? 1e-6 : 1e-30));
            }
        }
    end("%u heads of %u, %s, weights %u%s", heads, head_dim, names[how], weights, zero ? ", a head of zeros" : "");
}
static void rope_add(uint32_t heads, uint32_t head_dim, uint32_t n_rot, uint32_t first, bool neox, bool by_column, bool in_place)
{
    enum { TOKENS = 5, BLOCK = 8, BLOCKS = 4 };
    if (!begin()) return;
    const uint32_t cols = heads * head_dim, stride = cols + 2, half = n_rot / 2;
    float *x = random_new(TOKENS * stride, 3), *high = random_new(BLOCKS * n_rot, 1), *low = random_new(BLOCK * n_rot, 1);
    const uint32_t x_at = arena_add(x, TOKENS * stride), out = in_place ? x_at : arena_add(NULL, TOKENS * stride);
    on.step[0] = TOKENS;
    on.step[1] = 14;
    arg(out), arg(stride), arg(x_at), arg(vector_add(high, BLOCKS * n_rot)), arg(vector_add(low, BLOCK * n_rot)), arg(n_rot), arg(neox);
    arg(BLOCK), arg(heads), arg(head_dim), arg(first), arg(by_column);
    launch(module_write("ropes", "", any_format(), 1, 1), 2, TOKENS);
    for (uint32_t t = 0; t < TOKENS; t++)
        for (uint32_t h = 0; h < heads; h++) {
            const uint32_t row = t * stride + h * head_dim, position = on.step[1] + t;
            const float *from = x + row;
            for (uint32_t c = 0; c < head_dim; c++) want(&on.arena, out + row + c, (double)from[c], 0);
            for (uint32_t i = 0; i < half; i++) {
                const float *hi = high + position / BLOCK * n_rot + 2 * i, *lo = low + position % BLOCK * n_rot + 2 * i;
                const double c = (double)hi[0] * (double)lo[0] - (double)hi[1] * (double)lo[1];
                const double s = (double)hi[1] * (double)lo[0] + (double)hi[0] * (double)lo[1];
                const uint32_t a = first + (neox ? i : 2 * i), b = a + (neox ? half : 1);
                want(&on.arena, out + row + a, (double)from[a] * c - (double)from[b] * s, 2e-6);
                want(&on.arena, out + row + b, (double)from[a] * s + (double)from[b] * c, 2e-6);
            }
        }
    end("%u heads of %u, %u columns from %u rotated, %s%s%s", heads, head_dim, n_rot, first, neox ? "neox" : "neighbours",
        by_column ? ", by column" : "", in_place ? ", in place" : "");
}

/* ---- sequences ---- */
static void conv_add(uint32_t cols, uint32_t n_taps, uint32_t n_tokens, uint32_t n_past, bool keep)
{
    if (!begin()) return;
    const uint32_t held = n_taps - 1, stride = cols + 2, tap_stride = cols + 4;
    float *all = random_new((held + n_tokens) * stride, 2), *w = random_new(n_taps * tap_stride, 1), *state = random_new(held * cols, 1);
    for (uint32_t k = 0; k < held; k++)
        for (uint32_t c = 0; c < cols; c++) state[k * cols + c] = all[k * stride + c] = n_past ? all[k * stride + c] : 0;
    floats_add(&on.state, n_past ? state : NULL, held * cols);
    const uint32_t x = arena_add(all + held * stride, n_tokens * stride), out = arena_add(NULL, n_tokens * stride);
    on.step[0] = n_tokens;
    on.step[1] = n_past;
    arg(out), arg(stride), arg(x), arg(stride), arg(vector_add(w, n_taps * tap_stride)), arg(tap_stride), arg(cols), arg(n_taps), arg(keep);
    launch(module_write("conv", "", any_format(), 1, 1), groups_of(cols), (n_tokens + CONV_TOKENS - 1) / CONV_TOKENS);
    if (!keep) launch(module_write("keep", "", any_format(), 1, 1), groups_of(cols), 1);
    for (uint32_t c = 0; c < cols; c++) {
        for (uint32_t t = 0; t < n_tokens; t++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < n_taps; k++) {
                const double v = (double)w[k * tap_stride + c] * (double)all[(t + k) * stride + c];
                sum += v;
                size += fabs(v);
            }
            want(&on.arena, out + t * stride + c, sum, 1e-6 * size);
        }
        for (uint32_t k = 0; k < held; k++) want(&on.state, k * cols + c, (double)all[(n_tokens + k) * stride + c], 0);
    }
    end("convolution of %u columns, %u taps, %u tokens after %u%s", cols, n_taps, n_tokens, n_past, keep ? "" : ", two launches");
}

struct recur_case { uint32_t heads, qk_heads, head_dim, value_dim, delta, modulo, by_row, n_tokens, n_past; };
static void recur_add(const struct recur_case r)
{
    if (!begin()) return;
    const uint32_t qk = r.qk_heads * r.head_dim, values = r.heads * r.value_dim, gates = r.by_row ? r.heads * r.head_dim : r.heads;
    const uint32_t qs = qk + 1, ks = qk + 2, vs = values + 3, gs = gates + 1, bs = r.heads + 2, ys = values + 1, n = r.n_tokens;
    const uint32_t each = r.head_dim * r.value_dim, parts = RECUR_PARTS(r.head_dim);
    const float size = 1 / sqrtf((float)r.head_dim);
    float *q = random_new(n * qs, size), *k = random_new(n * ks, 1.7f * size), *v = random_new(n * vs, 2), *g = random_new(n * gs, 1);
    float *b = random_new(n * bs, 0.5f), *state = random_new(r.heads * each, 1), *y = random_new(r.value_dim, 1);
    double *S = arena_alloc(on.a, each * sizeof *S);
    for (uint32_t i = 0; i < n * gs; i++) g[i] = -fabsf(g[i]);
    for (uint32_t i = 0; i < n * bs; i++) b[i] += 0.5f;
    floats_add(&on.state, r.n_past ? state : NULL, r.heads * each);
    const uint32_t out = arena_add(NULL, n * ys);
    on.step[0] = n;
    on.step[1] = r.n_past;
    arg(out), arg(ys), arg(arena_add(q, n * qs)), arg(arena_add(k, n * ks)), arg(arena_add(v, n * vs)), arg(arena_add(g, n * gs));
    arg(arena_add(b, n * bs)), arg(r.heads), arg(r.qk_heads), arg(r.head_dim), arg(r.value_dim), arg(r.delta), arg(r.modulo), arg(r.by_row);
    arg(qs), arg(ks), arg(vs), arg(gs), arg(bs);
    launch(module_write("recurs", arena_printf(on.a, "%ux%u", parts, r.head_dim / parts), any_format(), parts, r.head_dim / parts),
           RECUR_GROUPS(r.heads, r.head_dim, r.value_dim, THREADS), 1);
    for (uint32_t h = 0; h < r.heads; h++) {
        const uint32_t other = r.modulo ? h % r.qk_heads : h / (r.heads / r.qk_heads);
        for (uint32_t i = 0; i < each; i++) {
            const uint32_t row = i / r.value_dim, col = i % r.value_dim;
            S[i] = r.n_past ? (double)state[h * each + (col / 4 * r.head_dim + row) * 4 + col % 4] : 0;
        }
        for (uint32_t t = 0; t < n; t++) {
            recur_ref(y, S, q + t * qs + other * r.head_dim, k + t * ks + other * r.head_dim, v + t * vs + h * r.value_dim,
                      g + t * gs + (r.by_row ? h * r.head_dim : h), r.by_row, (double)b[t * bs + h], r.delta, r.head_dim, r.value_dim);
            for (uint32_t c = 0; c < r.value_dim; c++)
                want(&on.arena, out + t * ys + h * r.value_dim + c, (double)y[c], 1e-6 * fabs((double)y[c]) + 1e-6);
        }
        for (uint32_t i = 0; i < each; i++) {
            const uint32_t row = i / r.value_dim, col = i % r.value_dim;
            want(&on.state, h * each + (col / 4 * r.head_dim + row) * 4 + col % 4, S[i], 1e-6 * fabs(S[i]) + 1e-6);
        }
    }
    end("recurrence of %u heads of %u, %u of q and k of %u, delta %u, modulo %u, by row %u, %u tokens after %u", r.heads, r.value_dim,
        r.qk_heads, r.head_dim, r.delta, r.modulo, r.by_row, n, r.n_past);
}

/* ---- slices ---- */
/* Evenly spaced logits in random order; some are equal. */
static void logits_fill(float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] = 0.03f * (float)(i - i % 7 / 6) - 2;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t j = random_below(i);
        const float swap = x[i - 1];
        x[i - 1] = x[j];
        x[j] = swap;
    }
}
static void route_add(uint32_t experts, uint32_t used, uint32_t gating, uint32_t groups, uint32_t groups_used, bool bias, bool norm,
                      float by)
{
    enum { TOKENS = 3 };
    if (!begin()) return;
    const uint32_t stride = 2 * used + 1, x_stride = experts + 1;
    float *x = random_new(TOKENS * x_stride, 1), *added = random_new(experts, 0.2f), *choice = random_new(2 * used, 1);
    for (uint32_t t = 0; t < TOKENS; t++) logits_fill(x + t * x_stride, experts);
    if (gating != 1 || (!bias && groups == 1)) x[0] = 300;         /* elsewhere shares choose, and all others are 0 in f32 */
    const struct route_ref r = { experts, used, gating, groups, groups_used, norm, (double)by, bias ? added : NULL };
    const uint32_t x_at = arena_add(x, TOKENS * x_stride), out = arena_add(NULL, TOKENS * stride);
    arg(out), arg(stride), arg(x_at), arg(x_stride), arg(bias ? vector_add(added, experts) : ~0u), arg(experts), arg(used), arg(gating);
    arg(groups), arg(groups_used), arg(norm), argf(by);
    launch(module_write("route", "", any_format(), 1, 1), TOKENS, 1);
    for (uint32_t t = 0; t < TOKENS; t++) {
        route_ref(choice, &r, x + t * x_stride);
        for (uint32_t k = 0; k < used; k++) {
            want(&on.arena, out + t * stride + k, (double)choice[k], 4e-6 * fabs((double)choice[k]) + 1e-30);
            want(&on.arena, out + t * stride + used + k, (double)choice[used + k], 0);
        }
    }
    end("router of %u experts, %u used, gating %u, %u of %u groups%s%s", experts, used, gating, groups_used, groups, bias ? ", bias" : "",
        norm ? ", norm" : "");
}
static uint32_t choice_add(float *choice, uint32_t experts, uint32_t used)
{
    random_row(choice, used, 1);
    for (uint32_t k = 0; k < used; k++) choice[used + k] = (float)((k * 5 + 2) % experts);
    return arena_add(choice, 2 * used);
}
enum slices { SHARED, APART, ALL };
/* pair: with a second stack, times -2. */
static void slices_add(const struct format *format, uint32_t experts, uint32_t used, uint32_t rows, uint32_t cols, enum slices kind,
                       bool pair)
{
    static const char *const names[] = { "shared", "apart", "all" };
    enum { GROUPS = 2 };
    if (!begin()) return;
    const uint32_t n = kind == ALL ? experts : used, pieces = kind == SHARED ? 1 : n;
    const struct matrix m = matrix_new(format, LAYOUT_GPU, experts * rows, cols, NUMBERS_F16, CODES_ANY);
    const struct matrix up = matrix_new(format, LAYOUT_GPU, experts * rows, cols, NUMBERS_F16, CODES_ANY);
    float *x = random_new(pieces * cols, 1), *choice = random_new(2 * used, 1);
    double *row = arena_alloc(on.a, cols * sizeof *row);
    for (uint32_t i = 0; i < pieces * cols; i++)           /* exact in int8: d is a power of two per piece */
        x[i] = ldexpf(i % cols % 32 == 0 ? -127 : (float)((int)random_below(253) - 126), -(int)(i / cols));
    const uint32_t choice_at = choice_add(choice, experts, used), out = arena_add(NULL, n * rows);
    arg(out), arg(0), arg(choice_at), arg(used), arg(arena_add(x, pieces * cols)), arg(kind == SHARED ? 0 : cols), arg(matrix_add(&m));
    arg(rows), arg(cols), arg(GROUPS), arg(kind == ALL), arg(random_below(experts + 1)), arg(matrix_add(&up));
    on.groups_z = 2;
    launch(module_write(pair ? "slices2" : "slices", format->file, format, 1, 1), GROUPS, n);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t expert = kind == ALL ? k : (uint32_t)choice[used + k];
        for (uint32_t c = 0; c < cols; c++) row[c] = (double)x[(kind == SHARED ? 0 : k * cols) + c];
        for (uint32_t r = 0; r < rows; r++) {
            const uint64_t first = (uint64_t)(expert * rows + r) * cols;
            struct dot d = dot_ref(m.weights + first, m.sizes + first, row, cols);
            const struct dot more = dot_ref(up.weights + first, up.sizes + first, row, cols);
            if (pair) d.sum -= 2 * more.sum, d.size += 2 * more.size;
            want(&on.arena, out + k * rows + r, d.sum, 1e-6 * d.size + 1e-30);
        }
    }
    end("%s slices of %s, %u of %u, %u x %u%s", names[kind], format->file, n, experts, rows, cols, pair ? ", pairs" : "");
    matrix_free((struct matrix *)&m);
    matrix_free((struct matrix *)&up);
}
static void picked_add(uint32_t experts, uint32_t used, uint32_t rows, bool of_experts)
{
    if (!begin()) return;
    const uint32_t stride = rows + 3, n = of_experts ? used * rows : rows;
    float *x = random_new(used * rows, 1), *choice = random_new(2 * used, 1), *of = random_new(experts * stride, 1);
    const uint32_t choice_at = choice_add(choice, experts, used), out = arena_add(NULL, n);
    arg(out), arg(0), arg(choice_at), arg(used), arg(arena_add(x, used * rows)), arg(rows), arg(vector_add(of, experts * stride));
    arg(stride), arg(of_experts);
    launch(module_write("picked", "", any_format(), 1, 1), groups_of(n), 1);
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0, size = 0;
        for (uint32_t k = 0; k < used; k++) {
            sum += (double)choice[k] * (double)x[k * rows + i % rows];
            size += fabs((double)choice[k] * (double)x[k * rows + i % rows]);
        }
        if (of_experts) want(&on.arena, out + i, (double)of[(uint32_t)choice[used + i / rows] * stride + i % rows], 0);
        else want(&on.arena, out + i, sum, 1e-6 * size);
    }
    end("%s, %u of %u experts, %u rows", of_experts ? "what rows of experts have" : "sum of experts", used, experts, rows);
}

/* ---- all ---- */
static void rows_cases(void)
{
    static const char *const formats[] = { "q4_K", "q6_K", "q8_0", "f16", "f32" };
    static const uint32_t cols[] = { 1, 7, 64, 257, 1000 };
    for (uint32_t i = 0; i < 11; i++) values_add(i);
    for (uint32_t f = 0; f < COUNT_OF(formats); f++) {
        embed_add(format_named(formats[f]), 40, 1);
        embed_add(format_named(formats[f]), 256, 1);
        embed_add(format_named(formats[f]), 2304, 3);
    }
    for (uint32_t i = 0; i < 14; i++) lanes_add(1u << i / 2, i % 2);
    for (uint32_t i = 0; i < 4 * COUNT_OF(cols); i++) norms_add(cols[i / 4], i % 2, random_below(4), random_below(2));
    for (uint32_t how = 0; how <= HEADS_ALONE; how++) {
        heads_add(3, 80, how, 1, false);
        heads_add(5, 7, how, how == HEADS_ALONE ? 1 : 2, false);
        heads_add(1, 256, how, 0, true);
    }
    for (uint32_t i = 0; i < 8; i++) {
        const bool neox = i % 2, by_column = i / 4, in_place = i / 2 % 2 && !by_column;
        rope_add(3, 64, 64, 0, neox, by_column, in_place);
        rope_add(5, 22, 10, i / 2 % 2 ? 12 : 4, neox, by_column, in_place);
        rope_add(1, 160, 128, 0, neox, by_column, in_place);
    }
}
static void sequence_cases(void)
{
    for (uint32_t past = 0; past < 6; past += 5) {
        conv_add(100, 4, 1, past, true);
        conv_add(64, 4, 2, past, true);
        conv_add(70, 16, 64, past, true);
        conv_add(70, 3, 130, past, false);
        conv_add(30, 16, 3, past, false);
        conv_add(100, 2, 1, past, true);
        conv_add(65, 2, 65, past, false);
        conv_add(65, 2, 9, past, true);
        recur_add((struct recur_case){ 4, 2, 128, 128, 1, 0, 0, 1, past });
        recur_add((struct recur_case){ 4, 2, 128, 12, 1, 1, 0, 7, past });
        recur_add((struct recur_case){ 3, 1, 64, 20, 0, 0, 0, 6, past });
        recur_add((struct recur_case){ 2, 2, 64, 64, 1, 0, 1, 5, past });
        recur_add((struct recur_case){ 3, 3, 6, 4, 1, 0, 1, 3, past });
        recur_add((struct recur_case){ 6, 3, 8, 8, 0, 1, 0, 3, past });
        recur_add((struct recur_case){ 2, 1, 3, 8, 1, 0, 0, 3, past });
    }
}
static void slices_cases(void)
{
    static const char *const formats[] = { "q4_K", "q8_0" };
    for (uint32_t gating = 1; gating <= 3; gating++) {
        route_add(6, 2, gating, 1, 1, false, false, 1);
        route_add(128, 8, gating, 1, 1, gating != 3, true, 2.5f);
        route_add(300, 32, gating, 1, 1, false, true, 1);
        route_add(256, 8, gating, 8, 4, gating == 2, true, 2.5f);
        route_add(64, 6, gating, 32, 5, true, false, 1);
    }
    for (uint32_t f = 0; f < COUNT_OF(formats); f++) {
        for (uint32_t kind = SHARED; kind <= ALL; kind++) slices_add(format_named(formats[f]), 7, 3, 19, 256, (enum slices)kind, false);
        slices_add(format_named(formats[f]), 4, 4, 70, 768, APART, false);
    }
    slices_add(format_named("q8_0"), 9, 5, 3, 96, APART, false);
    slices_add(format_named("q8_0"), 7, 3, 19, 256, SHARED, true);
    for (uint32_t of = 0; of < 2; of++) {
        picked_add(7, 3, 100, of);
        picked_add(40, 32, 5, of);
    }
}
void test_webgpu_rows(void)
{
    on.a = arena_create();
    on.folder = getenv("KERNELS");
    on.cases.arena = on.a;
    if (!on.folder) die("KERNELS: the folder of rows.wgsl");
    rows_cases();
    sequence_cases();
    slices_cases();
    text_puts(&on.cases, on.n_cases ? "]\n" : "[]\n");
    file_write(on.a, "rows.json", bytes_of(text_str(&on.cases)));
    file_write(on.a, "rows.bin", (struct bytes){ on.file, on.file_bytes });
    arena_destroy(on.a);
}
