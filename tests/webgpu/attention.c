/* attention.c -- heads and attention of WGSL.  Writes modules, their inputs and the expected results into the working directory, for
 * attention.mjs.  The results are computed in double arithmetic from keys and values as the cache has them:
 *   attention.json       the configurations, each with its steps
 *   NAME.heads.wgsl      attention.wgsl's kernels that store, with the constants of the configuration and the used parts of the templates
 *   NAME.one.wgsl        those for one token
 *   NAME.wgsl            the other kernels
 *   NAME.vectors         weights of norms, sinks, rotations
 * and for every step NAME.N
 *   .arena, .state       before the step; bytes that no kernel may read are NaN
 *   .want                f64 [tokens][n_head][value_dim][2]: a value and its bound
 *   .stores              f64 [values][4]: byte of the state, byte of its scale, value, its bound */
#include "tests/kernel/registry.h"
#include "tests/kernel/half.h"
#include "compiler/base/base.h"
#include "compiler/web/wgsl.h"
#include "templates/webgpu/sizes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CTX = 384, TOKENS = 28, THREADS = 128, BLOCK = 16, GAP = 64, POISON_WORD = 0x7fc5a5a5, HEAD_DIM_MOST = 576 };
enum kind { F16, F32, Q8_0 };
enum way { DECODE = 1, PREFILL = 2, STEPS = 4, WHOLE = 8 };
static const char *const kind_name[] = { "f16", "f32", "q8_0" };
static const double eps = 1e-5;

static const struct config {
    enum kind kind;
    uint32_t  head_dim, n_head, n_group, n_rot, neox, norms, heads, splits, window, ring;
    double    cap;
    bool      sinks, causal, atomics;
    uint32_t  ways;                              /* SwiftShader needs seconds to compile each; STEPS: heads also by single operations */
    uint32_t  value_dim;                         /* columns of V if they are not head_dim; then no kernel stores V */
    bool      in_keys;                           /* V is the first columns of K */
} configs[] = {
    { F16,  64,  8, 2, 64,  1, 1, 4, 8, 0,  0,   0,  false, true,  false, DECODE | PREFILL | WHOLE, 0, false },
    { F16,  128, 4, 2, 128, 0, 0, 2, 8, 0,  0,   0,  false, true,  false, PREFILL | WHOLE, 0, false },
    { F32,  80,  6, 2, 32,  1, 0, 3, 8, 0,  0,   20, false, true,  false, DECODE | PREFILL | STEPS, 0, false },
    { Q8_0, 128, 8, 1, 128, 1, 1, 8, 3, 0,  0,   0,  true,  true,  false, DECODE | WHOLE, 0, false },
    { Q8_0, 32,  4, 2, 20,  1, 0, 2, 1, 50, 101, 0,  false, true,  true,  DECODE, 0, false },
    { F16,  256, 3, 1, 64,  1, 1, 3, 8, 0,  0,   0,  false, true,  false, DECODE | PREFILL | WHOLE, 0, false },
    { F16,  64,  3, 1, 64,  0, 0, 3, 8, 30, 70,  5,  true,  true,  false, DECODE | PREFILL | STEPS, 0, false },
    { F32,  64,  4, 2, 0,   0, 0, 2, 1, 0,  0,   0,  false, false, false, PREFILL | STEPS, 0, false },
    { F32,  32,  16, 1, 16, 0, 1, 8, 2, 100, 0,  0,  true,  true,  false, DECODE, 0, false },
    { Q8_0, 96,  2, 1, 96,  1, 0, 2, 4, 0,  0,   0,  false, true,  true,  STEPS, 0, false },
    { F16,  72,  2, 2, 0,   0, 1, 1, 1, 0,  0,   0,  true,  true,  false, DECODE | WHOLE, 0, false },
    { Q8_0, 192, 6, 2, 64,  1, 0, 3, 2, 0,  0,   0,  true,  true,  false, DECODE | PREFILL, 128, false },
    { F32,  160, 2, 2, 32,  0, 0, 1, 8, 60, 90,  0,  false, true,  false, DECODE | PREFILL, 96, false },
    { F16,  576, 20, 1, 64, 1, 0, 4, 3, 0,  0,   0,  false, true,  false, DECODE | PREFILL | STEPS, 512, true },
    { F16,  512, 4, 1, 128, 1, 1, 4, 8, 0,  0,   0,  false, true,  false, PREFILL | WHOLE, 0, false },
    { Q8_0, 576, 3, 1, 64,  0, 0, 3, 8, 0,  0,   0,  false, true,  false, DECODE | PREFILL, 512, true },
};

/* The current configuration. */
static struct {
    struct arena        *arena;
    const struct config *c;
    const char          *name;
    float                vectors[1 << 15];
    uint32_t             n_vectors, q_norm, k_norm, sinks, high, low;     /* pieces of 16 bytes; ~0: absent */
    uint32_t             stride, out_decode, out_chunk, out_steps, parts, ml, scores, arena_words, rows, plane_bytes, state_bytes;
    uint32_t             dims[2];                /* columns of K and of V */
    double               scale;
    double              *kv[2];                  /* [position][n_group][dims], the cached values of K and of V */
} on;

/* ---- inputs of kernels ---- */
static uint32_t vectors_add(const float *x, uint32_t n)
{
    const uint32_t at = on.n_vectors / 4;
    if (on.n_vectors + n + 4 > COUNT_OF(on.vectors)) die("vectors are too long");
    memcpy(on.vectors + on.n_vectors, x, n * sizeof *x);
    on.n_vectors += (n + 3) / 4 * 4;
    return at;
}
static uint32_t weights_add(uint32_t n, float low, float size)
{
    float x[HEAD_DIM_MOST];
    for (uint32_t i = 0; i < n; i++) x[i] = low + size * random_f32();
    return vectors_add(x, n);
}
static double angle(uint32_t position, uint32_t i) { return position * pow(10000, -2.0 * i / on.c->n_rot); }
/* magnitude: the attention factor, in the table of every BLOCK-th position. */
static const double magnitude = 1.125;
static uint32_t angles_add(uint32_t n, uint32_t apart, double size)
{
    float    row[HEAD_DIM_MOST];
    uint32_t at = 0;
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t i = 0; i < on.c->n_rot / 2; i++) {
            row[2 * i] = (float)(size * cos(angle(p * apart, i)));
            row[2 * i + 1] = (float)(size * sin(angle(p * apart, i)));
        }
        const uint32_t here = vectors_add(row, on.c->n_rot);
        if (!p) at = here;
    }
    return at;
}
static void vectors_fill(void)
{
    const struct config *c = on.c;
    on.n_vectors = 0;
    weights_add(8, 0, 1);                        /* so that no piece is 0 */
    on.q_norm = c->norms ? weights_add(c->head_dim, 1, 0.5f) : ~0u;
    on.k_norm = c->norms ? weights_add(c->head_dim, 1, 0.5f) : ~0u;
    on.sinks = c->sinks ? weights_add(c->n_head, 0, 3) : ~0u;
    on.high = c->n_rot ? angles_add(N_CTX / BLOCK + 1, BLOCK, magnitude) : 0;
    on.low = c->n_rot ? angles_add(BLOCK, 1, 1) : 0;
}
static double vector_at(uint32_t piece, uint32_t i) { return (double)on.vectors[4 * piece + i]; }

static uint32_t plane_of(uint32_t values)
{
    return ((on.c->kind == F16 ? 2 * values : on.c->kind == F32 ? 4 * values : values / 32 * 34) + 15) / 16 * 16;
}
static void places_find(void)
{
    const struct config *c = on.c;
    on.dims[0] = c->head_dim;
    on.dims[1] = c->value_dim ? c->value_dim : c->head_dim;
    const uint32_t row = c->n_head * on.dims[1], group = c->n_head / c->n_group, cuts = (group + c->heads - 1) / c->heads;
    const uint32_t parts = c->n_group * cuts * c->splits * c->heads * TOKENS;
    on.stride = (c->n_head + 2 * c->n_group) * c->head_dim + GAP;
    on.out_decode = TOKENS * on.stride;          /* after the gap of the last row */
    on.out_chunk = on.out_decode + TOKENS * row + GAP;
    on.out_steps = on.out_chunk + TOKENS * row + GAP;
    on.parts = on.out_steps + TOKENS * row + GAP;
    on.ml = on.parts + parts * on.dims[1] + GAP;
    on.scores = on.ml + 2 * parts + GAP;
    on.arena_words = on.scores + c->n_head * TOKENS * N_CTX + GAP;
    on.rows = c->ring ? c->ring : N_CTX;
    on.plane_bytes = plane_of(c->n_group * on.rows * on.dims[0]);
    on.state_bytes = on.plane_bytes + (c->in_keys ? 0 : plane_of(c->n_group * on.rows * on.dims[1]));
    on.scale = 1.5 / sqrt(c->head_dim);
}

/* ---- the cache ---- */
struct bytes_at { uint32_t value, scale; };         /* bytes of the state */
static struct bytes_at place_of(uint32_t plane, uint32_t head, uint32_t position, uint32_t column)
{
    const struct config *c = on.c;
    const uint32_t value = (head * on.rows + (c->ring ? position % c->ring : position)) * on.dims[plane] + column;
    const uint32_t size = c->kind == F16 ? 2 : c->kind == F32 ? 4 : 1;
    return (struct bytes_at){ plane * on.plane_bytes + value * size,
                           plane * on.plane_bytes + c->n_group * on.rows * on.dims[plane] + value / 32 * 2 };
}
/* Rounds a head of the plane as the cache does; state: stores it there too, or NULL. */
static void head_store(uint8_t *state, double *x, uint32_t plane, uint32_t head, uint32_t position)
{
    const struct config *c = on.c;
    for (uint32_t first = 0; first < on.dims[plane]; first += 8) {
        const uint32_t block = first / 32 * 32;
        static uint16_t scale;
        if (c->kind == Q8_0 && first == block) {
            double top = 0;
            for (uint32_t i = 0; i < 32; i++) top = fmax(top, fabs(x[block + i]));
            scale = half_of((float)(top / 127));
        }
        for (uint32_t i = first; i < first + 8; i++) {
            const struct bytes_at at = place_of(plane, head, position, i);
            const uint16_t half = half_of((float)x[i]);
            const float single = (float)x[i], d = float_of_half(scale);
            const int8_t code = (int8_t)(d > 0 ? rint(fmax(-127, fmin(127, x[i] / (double)d))) : 0);
            x[i] = c->kind == F16 ? (double)float_of_half(half) : c->kind == F32 ? (double)single : (double)d * code;
            if (!state) continue;
            if (c->kind == F16) memcpy(state + at.value, &half, 2);
            if (c->kind == F32) memcpy(state + at.value, &single, 4);
            if (c->kind == Q8_0) memcpy(state + at.value, &code, 1), memcpy(state + at.scale, &scale, 2);
        }
    }
}

/* ---- expected results ---- */
static void head_finish(double *x, const float *row, uint32_t norm, uint32_t position)
{
    const struct config *c = on.c;
    double squares = 0;
    for (uint32_t i = 0; i < c->head_dim; i++) {
        x[i] = (double)row[i];
        squares += x[i] * x[i];
    }
    for (uint32_t i = 0; i < c->head_dim && norm != ~0u; i++) x[i] *= vector_at(norm, i) / sqrt(squares / c->head_dim + eps);
    for (uint32_t i = 0; i < c->n_rot / 2; i++) {
        double *a = x + (c->neox ? i : 2 * i), *b = c->neox ? a + c->n_rot / 2 : a + 1;
        const double co = magnitude * cos(angle(position, i)), si = magnitude * sin(angle(position, i)), a0 = *a, b0 = *b;
        *a = a0 * co - b0 * si;
        *b = a0 * si + b0 * co;
    }
}
/* A head of a token.  want: [value_dim][2]. */
static void attend(double *want, const double *q, uint32_t head, uint32_t position, uint32_t n)
{
    const struct config *c = on.c;
    static double weight[N_CTX];
    const uint32_t kv_head = head / (c->n_head / c->n_group), end = c->causal ? position + 1 : n;
    const uint32_t begin = c->window && position >= c->window ? position + 1 - c->window : 0;
    const double sink = c->sinks ? vector_at(on.sinks, head) : -INFINITY;
    double top = sink, total = 0, largest = 0;
    for (uint32_t p = begin; p < end; p++) {
        const double *k = on.kv[0] + (p * c->n_group + kv_head) * c->head_dim;
        double s = 0;
        for (uint32_t i = 0; i < c->head_dim; i++) s += q[i] * k[i] * on.scale;
        weight[p] = c->cap != 0 ? c->cap * tanh(s / c->cap) : s;
        top = fmax(top, weight[p]);
        largest = fmax(largest, fabs(weight[p]));
    }
    for (uint32_t p = begin; p < end; p++) total += weight[p] = exp(weight[p] - top);
    if (c->sinks) total += exp(sink - top);
    for (uint32_t i = 0; i < on.dims[1]; i++) {
        double sum = 0, size = 0;
        for (uint32_t p = begin; p < end; p++) {
            const double x = weight[p] / total * on.kv[1][(p * c->n_group + kv_head) * on.dims[1] + i];
            sum += x;
            size += fabs(x);
        }
        /* Sums are f32; a value to store that lies almost in the middle between two steps may be rounded either way. */
        want[2 * i] = sum;
        want[2 * i + 1] = size * (1e-6 * (4 + largest) + (c->kind == F16 ? 1e-4 : c->kind == Q8_0 ? 1e-3 : 0)) + 1e-7;
    }
}

/* ---- files ---- */
static void file_put(const char *kind, const void *data, size_t n)
{
    file_write(on.arena, arena_printf(on.arena, "%s.%s", on.name, kind), (struct bytes){ (const uint8_t *)data, n });
}
static void poison(void *words, size_t bytes)
{
    const uint32_t word = POISON_WORD;
    for (size_t i = 0; i + 4 <= bytes; i += 4) memcpy((uint8_t *)words + i, &word, 4);
}

static double *cached(uint32_t plane, uint32_t head, uint32_t position)
{
    return on.kv[plane] + (position * on.c->n_group + head) * on.dims[plane];
}
/* V of a position whose V no kernel stores: the first columns of K, or random numbers, which are in the state before the step. */
static void value_store(uint8_t *state, uint32_t head, uint32_t position)
{
    double *x = cached(1, head, position);
    for (uint32_t i = 0; i < on.dims[1]; i++) x[i] = on.c->in_keys ? cached(0, head, position)[i] : (double)(2 * random_normal());
    if (!on.c->in_keys) head_store(state, x, 1, head, position);
}
/* The heads of a token: writes the rows of q, k and v and the expected stores of k and v, and computes q for attend(). */
static double *stores;
static size_t n_stores;
static void token_store(uint8_t *state, double *q, const float *row, uint32_t position)
{
    const struct config *c = on.c;
    for (uint32_t head = 0; head < c->n_head; head++) head_finish(q + head * c->head_dim, row + head * c->head_dim, on.q_norm, position);
    for (uint32_t plane = 0; plane < 2; plane++)
        for (uint32_t head = 0; head < c->n_group; head++) {
            if (plane && c->value_dim) {
                value_store(state, head, position);
                continue;
            }
            const float *from = row + (c->n_head + plane * c->n_group + head) * c->head_dim;
            double *x = cached(plane, head, position), exact[HEAD_DIM_MOST];
            if (!plane) head_finish(x, from, on.k_norm, position);
            for (uint32_t i = 0; i < c->head_dim && plane; i++) x[i] = (double)from[i];
            memcpy(exact, x, c->head_dim * sizeof *exact);
            head_store(NULL, x, plane, head, position);
            for (uint32_t i = 0; i < c->head_dim; i++) {
                const struct bytes_at at = place_of(plane, head, position, i);
                double top = 0;
                for (uint32_t j = i / 32 * 32; j < i / 32 * 32 + 32 && j < c->head_dim; j++) top = fmax(top, fabs(exact[j]));
                const double near = c->kind == F16 ? 0x1p-11 * fabs(exact[i]) + 0x1p-25 : c->kind == Q8_0 ? 1.02 * top / 254 : 0;
                double *s = stores + 4 * n_stores++;
                s[0] = at.value;
                s[1] = at.scale;
                s[2] = exact[i];
                s[3] = near + 2e-6 * top + 1e-9;
            }
        }
}
static void step_write(struct text *list, uint32_t number, uint32_t n_past, uint32_t n_tokens)
{
    const struct config *c = on.c;
    const uint32_t q_row = c->n_head * c->head_dim, row = c->n_head * on.dims[1], key_row = c->n_group * c->head_dim;
    uint8_t *state = malloc(on.state_bytes);
    float *arena = malloc(4 * (size_t)on.arena_words);
    double *q = malloc((size_t)TOKENS * q_row * sizeof *q), *want = malloc((size_t)TOKENS * row * 2 * sizeof *want);
    stores = malloc((size_t)TOKENS * key_row * 2 * 4 * sizeof *stores);
    if (!state || !arena || !q || !want || !stores) die("no memory");
    n_stores = 0;
    poison(state, on.state_bytes);
    poison(arena, 4 * (size_t)on.arena_words);
    for (uint32_t p = n_past > on.rows ? n_past - on.rows : 0; p < n_past; p++)
        for (uint32_t plane = 0; plane < 2; plane++)
            for (uint32_t head = 0; head < c->n_group; head++) {
                if (plane && c->value_dim) {
                    value_store(state, head, p);
                    continue;
                }
                double *x = cached(plane, head, p);
                for (uint32_t i = 0; i < c->head_dim; i++) x[i] = (double)(2 * random_normal());
                head_store(state, x, plane, head, p);
            }
    for (uint32_t t = 0; t < n_tokens; t++) {
        float *x = arena + t * on.stride;
        for (uint32_t i = 0; i < q_row + 2 * key_row; i++) x[i] = 2 * random_normal();
        token_store(state, q + t * q_row, x, n_past + t);
    }
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t head = 0; head < c->n_head; head++)
            attend(want + 2 * (t * row + head * on.dims[1]), q + t * q_row + head * c->head_dim, head, n_past + t, n_past + n_tokens);
    const char *name = arena_printf(on.arena, "%u", number);
    file_put(arena_printf(on.arena, "%s.arena", name), arena, 4 * (size_t)on.arena_words);
    file_put(arena_printf(on.arena, "%s.state", name), state, on.state_bytes);
    file_put(arena_printf(on.arena, "%s.want", name), want, (size_t)n_tokens * row * 2 * sizeof *want);
    file_put(arena_printf(on.arena, "%s.stores", name), stores, n_stores * 4 * sizeof *stores);
    text_printf(list, "%s{ \"name\": \"%s.%u\", \"what\": \"%u tokens after %u\", \"n_past\": %u, \"n_tokens\": %u }", number ? ", " : "",
                on.name, number, n_tokens, n_past, n_past, n_tokens);
    free(state);
    free(arena);
    free(q);
    free(want);
    free(stores);
}

static const char *constants(uint32_t threads)
{
    const struct config *c = on.c;
    struct text t = { .arena = on.arena };
    const struct { const char *name; uint32_t value; } numbers[] = {
        { "THREADS", threads }, { "HEADS_EACH", ATTENTION_HEADS_EACH(c->head_dim) }, { "HEAD_DIM", c->head_dim }, { "HEADS", c->heads },
        { "VALUE_DIM", on.dims[1] }, { "VALUES_IN_KEYS", c->in_keys }, { "ATTENTION_ALONE", ATTENTION_ALONE },
        { "CHUNK_ROWS", CHUNK_ROWS(c->head_dim) }, { "N_HEAD", c->n_head }, { "N_GROUP", c->n_group }, { "N_CTX", N_CTX },
        { "TOKENS", TOKENS }, { "WINDOW", c->window }, { "RING", c->ring }, { "SPLITS", c->splits }, { "SINKS", on.sinks },
        { "Q_NORM", on.q_norm }, { "K_NORM", on.k_norm }, { "HIGH", on.high }, { "LOW", on.low }, { "BLOCK", BLOCK },
        { "N_ROT", c->n_rot }, { "STRIDE", on.stride }, { "OUT_DECODE", on.out_decode }, { "OUT_CHUNK", on.out_chunk },
        { "OUT_STEPS", on.out_steps }, { "PARTS", on.parts }, { "ML", on.ml }, { "SCORES", on.scores } };
    for (uint32_t i = 0; i < COUNT_OF(numbers); i++) text_printf(&t, "const %s = %uu;\n", numbers[i].name, numbers[i].value);
    text_printf(&t, "const SCALE: f32 = %.9g;\nconst CAP: f32 = %.9g;\nconst EPS: f32 = %.9g;\nconst NEOX = %s;\nconst CAUSAL = %s;\n",
                on.scale, c->cap, eps, c->neox ? "true" : "false", c->causal ? "true" : "false");
    return text_str(&t);
}
static void module_write(const char *folder, const char *kind, const char *item, uint32_t threads, const char *const *wanted, uint32_t n)
{
    const char *file = arena_printf(on.arena, "%s/attention.wgsl", folder);
    const struct bytes kernels = file_read(on.arena, file);
    const struct wgsl_word words[] = { { "KV", kind_name[on.c->kind] }, { "STATE", on.c->atomics ? "atomics" : "words" },
                                       { "STATEITEM", item } };
    struct wgsl *w = wgsl_new(on.arena, getenv("TEMPLATES"));
    struct text t = { .arena = on.arena };
    wgsl_add_text(w, "constants", constants(threads), NULL, 0);
    wgsl_add_text(w, file, arena_strndup(on.arena, (const char *)kernels.data, kernels.size), words, COUNT_OF(words));
    for (uint32_t i = 0; i < n; i++) wgsl_want(w, wanted[i]);
    wgsl_write(w, &t);
    file_put(kind, text_str(&t), strlen(text_str(&t)));
}
static void config_write(struct text *list, const char *folder)
{
    static const char *const one[] = { "decode", "merge", "whole" }, *const ways[] = { "prefill", "scores", "mask", "softmax", "weighted" };
    const struct config *c = on.c;
    const char *const heads = c->value_dim ? "finish_keys" : c->ways & STEPS ? "finish_apart" : "finish";
    const uint32_t group = c->n_head / c->n_group, past = 257 + random_below(N_CTX - 258);
    vectors_fill();
    places_find();
    for (uint32_t plane = 0; plane < 2; plane++) {
        on.kv[plane] = calloc((size_t)N_CTX * c->n_group * on.dims[plane], sizeof *on.kv[plane]);
        if (!on.kv[plane]) die("no memory");
    }
    module_write(folder, "heads.wgsl", c->atomics ? "atomic<u32>" : "u32", THREADS, &heads, 1);
    module_write(folder, "one.wgsl", "u32", ATTENTION_THREADS(THREADS, c->head_dim), one, c->ways & WHOLE ? 3 : 2);
    module_write(folder, "wgsl", "u32", THREADS, ways, COUNT_OF(ways));
    file_put("vectors", on.vectors, on.n_vectors * sizeof *on.vectors);
    text_printf(list, "%s{ \"name\": \"%s\", \"what\": \"heads of %u and %u%s as %s, %u of %u, n_rot %u%s%s, heads %u, splits %u, "
                "window %u of %u, cap %g%s%s\",\n", list->size ? ",\n" : "[", on.name, on.dims[0], on.dims[1],
                c->in_keys ? " in them" : "", kind_name[c->kind], c->n_head, c->n_group, c->n_rot, c->neox ? " neox" : "",
                c->norms ? ", norms" : "", c->heads, c->splits, c->window, c->ring, c->cap, c->sinks ? ", sinks" : "",
                c->causal ? "" : ", all of the step");
    text_printf(list, "  \"kind\": \"%s\", \"finish\": \"%s\", \"value_dim\": %u, \"n_head\": %u, \"n_group\": %u, \"group\": %u, "
                "\"heads\": %u, \"each\": %u, \"rows\": %u, \"splits\": %u, \"causal\": %s, \"ways\": [%u, %u, %u, %u],\n",
                kind_name[c->kind], heads, on.dims[1], c->n_head, c->n_group, group, c->heads, ATTENTION_HEADS_EACH(c->head_dim),
                CHUNK_ROWS(c->head_dim), c->splits, c->causal ? "true" : "false", c->ways & DECODE, c->ways & PREFILL, c->ways & STEPS,
                c->ways & WHOLE);
    text_printf(list, "  \"out_decode\": %u, \"out_chunk\": %u, \"out_steps\": %u, \"gaps\": [", on.out_decode, on.out_chunk, on.out_steps);
    const uint32_t behind[] = { on.stride, on.out_decode, on.out_chunk, on.out_steps, on.parts, on.ml, on.scores, on.arena_words };
    for (uint32_t i = 0; i < COUNT_OF(behind); i++) text_printf(list, "%s[%u, %u]", i ? ", " : "", behind[i] - GAP, behind[i]);
    text_puts(list, "],\n  \"steps\": [");
    step_write(list, 0, 0, 1);
    step_write(list, 1, 1, 1);
    step_write(list, 2, past, 1);
    step_write(list, 3, 0, TOKENS - 3);
    step_write(list, 4, 100 + random_below(N_CTX - TOKENS - 100), 3 + 2 * random_below(6));
    step_write(list, 5, ATTENTION_ALONE - 1, 1);
    step_write(list, 6, ATTENTION_ALONE, 1);
    text_puts(list, "] }");
    for (uint32_t plane = 0; plane < 2; plane++) free(on.kv[plane]);
}

void test_webgpu_attention(void)
{
    const char *folder = getenv("KERNELS");
    struct arena *a = arena_create();
    struct text list = { .arena = a };
    if (!folder) die("KERNELS: the folder of attention.wgsl");
    on.arena = a;
    for (uint32_t i = 0; i < COUNT_OF(configs); i++) {
        if (!part_has(i) || !case_begin()) continue;
        on.c = &configs[i];
        on.name = arena_printf(a, "case%u", i + 1);
        config_write(&list, folder);
    }
    text_puts(&list, "]\n");
    file_write(a, "attention.json", bytes_of(text_str(&list)));
    arena_destroy(a);
}
