/* reference.c -- the reference: one function per kind of operation, over [n_tokens][cols] floats. */
#include "reference.h"
#include "templates/ref/dequant.h"
#include "templates/ref/ops.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokens after `first` are drafts. rows: [n][cols] of the draft block; the rows before the last known token count. */
struct chain { uint32_t first; float *rows; };

struct interpreter {
    const int32_t      *tokens;
    struct rounding     rounding;
    uint32_t            n;
    float             **values;       /* [n_nodes]: [n][cols]; NULL after the last reader */
    uint32_t           *unread;       /* [n_nodes] readers still to come */
    const struct router *given;       /* for the node that runs, if it is a router; or NULL */
    struct router      *found;
    uint64_t           *noise;        /* state of the dither; NULL: none */
    struct chain       *chain;        /* for drafts, or NULL */
    reference_seen     *seen;         /* called for every value, or NULL */
    void               *context;
};

static void *take(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size);
    if (!p) die("out of memory: %zu items of %zu bytes for the reference", count, size);
    return p;
}

/* ---- work split among threads ---- */

typedef void part_work(const void *context, uint64_t first, uint64_t end);
struct part { pthread_t thread; part_work *work; const void *context; uint64_t first, end; bool started; };

static void *part_main(void *argument)
{
    const struct part *p = argument;
    p->work(p->context, p->first, p->end);
    return NULL;
}

static void in_parts(uint64_t n_items, part_work *work, const void *context)
{
    enum { MOST = 64 };
    struct part parts[MOST];
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t n = online < 1 ? 1 : online > MOST ? MOST : (uint64_t)online;
    if (n > n_items) n = n_items ? n_items : 1;
    for (uint64_t i = 0; i < n; i++) {
        parts[i] = (struct part){ .work = work, .context = context, .first = n_items * i / n, .end = n_items * (i + 1) / n };
        parts[i].started = i + 1 < n && pthread_create(&parts[i].thread, NULL, part_main, &parts[i]) == 0;
        if (!parts[i].started) part_main(&parts[i]);          /* the last part, or if no thread could be started */
    }
    for (uint64_t i = 0; i < n; i++) if (parts[i].started) pthread_join(parts[i].thread, NULL);
}

/* ---- rounding that programs do on purpose ---- */

/* x rounded to the nearest float with `bits` significant bits, ties to even; numbers below 2^least become multiples of 2^(least + 1 -
 * bits). */
static float round_bits(float x, int bits, int least)
{
    int exponent;
    if (x == 0 || !isfinite(x)) return x;
    frexpf(x, &exponent);
    const int step = (exponent - 1 > least ? exponent - 1 : least) + 1 - bits;
    return (float)ldexp(nearbyint(ldexp((double)x, -step)), step);
}
static float round_f16(float x)  { return round_bits(x, 11, -14); }
static float round_bf16(float x)            /* as round_bits(x, 8, -126), but fast enough for matrices */
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (!isfinite(x)) return x;
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Noise between -0.5 and 0.5; 0 without dither. */
static float noise_next(uint64_t *noise)
{
    if (!noise) return 0;
    *noise = *noise * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(*noise >> 40) * 0x1p-24f - 0.5f;
}

/* Rounds 32 activations, or the rest of the row, in float arithmetic as in templates/cpu/quantize.h and templates/gpu/acts.h. fused: the
 * product is not rounded before it becomes an integer, like a CPU's fused multiply-add. This matters for values with so few bits that a
 * value is often exactly between two integers (half of the largest): results of attention in pairs. */
static void round_block(float *x, uint32_t n, uint32_t steps, bool fused, uint64_t *noise)
{
    float top = 0;
    for (uint32_t i = 0; i < n; i++) top = fmaxf(top, fabsf(x[i]));
    const float least = steps == 127 ? 0x1p-100f : 1e-30f;
    const float inverse = top < least ? 0 : (float)steps / top, d = top < least ? 0 : top * (1.0f / (float)steps);
    for (uint32_t i = 0; i < n; i++) {
        const double exact = (double)x[i] * (double)inverse, product = fused ? exact : (double)(float)exact;
        x[i] = (float)nearbyint(product + (double)noise_next(noise)) * d;
    }
}

/* True if matmuls read x and the weights of w as bf16. */
static bool takes_bf16(const struct weight *w, const struct rounding *r)
{
    const struct format *f = w->tensor->quant;
    if (f->coding) return r->bf16 & BF16_OF_BLOCKS;
    if (w->cols % 32) return false;
    return (f->id == QUANT_F16 && r->bf16 & BF16_OF_F16) || (f->id == QUANT_BF16 && r->bf16 & BF16_OF_BF16);
}

/* Row `row` of w as a matmul reads it. */
static void matrix_row(float *out, const struct weight *w, uint64_t row, const struct rounding *r)
{
    weight_to_float(out, w, row, 1);
    if (takes_bf16(w, r)) for (uint64_t c = 0; c < w->cols; c++) out[c] = round_bf16(out[c]);
}

/* A row of x as matmuls with w read it. f16 rows of a prompt are stored times 2^-6 (stage.h), so f16's least exponent is higher. */
static void round_row(float *x, uint32_t cols, const struct weight *w, const struct rounding *r, uint64_t *noise)
{
    if (takes_bf16(w, r) || (r->halves && w->tensor->quant->id == QUANT_BF16))
        for (uint32_t c = 0; c < cols; c++) x[c] = round_bf16(x[c] * (1 + 0x1p-7f * noise_next(noise)));
    else if (r->halves)
        for (uint32_t c = 0; c < cols; c++) x[c] = round_bits(x[c] * (1 + 0x1p-10f * noise_next(noise)), 11, -14 + 6);
    if (!r->steps || !w->tensor->quant->coding) return;
    for (uint32_t c = 0; c < cols; c += 32) round_block(x + c, cols - c < 32 ? cols - c : 32, r->steps, r->pairs > 0, noise);
}

/* Q as attention of a prompt reads it if the cache is not f32: the product with the scale, in units of log 2, rounded to f16. */
static void round_q(float *y, const float *q, uint64_t n, double scale, uint64_t *noise)
{
    const float by = (float)scale * (float)1.44269504088896340736;
    for (uint64_t i = 0; i < n; i++) y[i] = (float)((double)round_f16(q[i] * by * (1 + 0x1p-10f * noise_next(noise))) / (double)by);
}

/* Values of K or V as the cache keeps them (kv_tmpl.c, kv.h); q8_0: blocks of 32, codes made with the rounded scale. */
static void round_cache(float *x, uint64_t n, enum kv_type kv, uint64_t *noise)
{
    if (kv == KV_TYPE_F16) for (uint64_t i = 0; i < n; i++) x[i] = round_f16(x[i] * (1 + 0x1p-10f * noise_next(noise)));
    for (uint64_t b = 0; kv == KV_TYPE_Q8_0 && b < n; b += 32) {
        float top = 0;
        for (uint32_t i = 0; i < 32; i++) top = fmaxf(top, fabsf(x[b + i]));
        const float d = round_f16(top / 127), inverse = d > 0 ? 1 / d : 0;
        for (uint32_t i = 0; i < 32; i++) x[b + i] = nearbyintf(fmaxf(-127, fminf(127, x[b + i] * inverse + noise_next(noise)))) * d;
    }
}

/* ---- operations ---- */

/* x: [cols][n], so that tokens are adjacent */
struct matmul { float *y; const double *x; const struct weight *w; uint32_t n; const struct rounding *rounding; };

static void matmul_rows(const void *context, uint64_t first, uint64_t end)
{
    const struct matmul *m = context;
    const uint64_t cols = m->w->cols;
    const uint32_t n = m->n;
    float  *row = take(cols, sizeof *row);
    double *sum = take(n, sizeof *sum);
    for (uint64_t r = first; r < end; r++) {
        matrix_row(row, m->w, r, m->rounding);
        memset(sum, 0, n * sizeof *sum);
        for (uint64_t c = 0; c < cols; c++) {
            const double weight = (double)row[c];
            const double *x = m->x + c * n;
            for (uint32_t t = 0; t < n; t++) sum[t] += weight * x[t];
        }
        for (uint32_t t = 0; t < n; t++) m->y[t * m->w->rows + r] = (float)sum[t];
    }
    free(sum);
    free(row);
}

static void matmul(const struct interpreter *in, float *y, const float *x, const struct weight *w)
{
    const uint32_t n = in->n;
    double *turned = take((size_t)w->cols * n, sizeof *turned);
    float *row = take((size_t)w->cols, sizeof *row);
    for (uint32_t t = 0; t < n; t++) {
        memcpy(row, x + t * w->cols, (size_t)w->cols * sizeof *row);
        round_row(row, (uint32_t)w->cols, w, &in->rounding, in->noise);
        for (uint64_t c = 0; c < w->cols; c++) turned[c * n + t] = (double)row[c];
    }
    free(row);
    const struct matmul m = { y, turned, w, n, &in->rounding };
    in_parts(w->rows, matmul_rows, &m);
    free(turned);
}

/* One operation: y [n][node->cols] from its operands x; vector: its weight if that is a vector, or NULL. */
typedef void operation(const struct interpreter *in, const struct node *node, float *y, const float *const *x, const float *vector);
#define OPERATION(name) \
    static void reference_##name(const struct interpreter *in, const struct node *node, float *y, const float *const *x, \
                                 const float *vector)

OPERATION(embed)
{
    (void)x, (void)vector;
    for (uint32_t t = 0; t < in->n; t++) weight_to_float(y + (uint64_t)t * node->cols, node->weight, (uint64_t)in->tokens[t], 1);
}

OPERATION(rmsnorm)
{
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) rmsnorm_ref(y + t * cols, x[0] + t * cols, vector, node->cols, node->attr.eps);
}

OPERATION(headnorm)
{
    const uint32_t dim = node->attr.head_dim;
    const bool whole = node->weight && node->weight->cols == node->cols;      /* each head has its own weights */
    for (uint64_t h = 0; h < (uint64_t)in->n * node->heads; h++)
        rmsnorm_ref(y + h * dim, x[0] + h * dim, whole ? vector + h % node->heads * dim : vector, dim, node->attr.eps);
}

OPERATION(matmul)
{
    (void)vector;
    matmul(in, y, x[0], node->weight);
}

OPERATION(bias)
{
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) add_ref(y + t * cols, x[0] + t * cols, vector, node->cols);
}

OPERATION(rope)
{
    const struct node_attrs *a = &node->attr;
    const struct rope_ref r = {
        .n_rot = a->n_rot, .neox = a->neox, .freq_base = a->base, .freq_scale = 1 / a->factor, .ext_factor = a->ext_factor,
        .attn_factor = a->attn_factor, .beta_fast = a->beta_fast, .beta_slow = a->beta_slow, .n_ctx_orig = a->n_ctx_orig,
        .unrounded = a->unrounded,
        .freq_factors = vector,
    };
    memcpy(y, x[0], (size_t)in->n * node->cols * sizeof *y);
    for (uint32_t t = 0; t < in->n; t++)
        for (uint32_t h = 0; h < node->heads; h++) rope_ref(y + ((uint64_t)t * node->heads + h) * a->head_dim + a->rot_first, &r, t);
}

OPERATION(add_position)
{
    const uint64_t cols = node->cols;
    const struct weight *w = node->weight;
    (void)vector;
    float *row = take(cols, sizeof *row);
    for (uint32_t t = 0; t < in->n; t++) {
        weight_to_float(row, w, t, 1);
        add_ref(y + t * cols, x[0] + t * cols, row, node->cols);
    }
    free(row);
}

OPERATION(store)
{
    (void)vector;
    memcpy(y, x[0], (size_t)in->n * node->cols * sizeof *y);
    if (in->rounding.cache) round_cache(y, (uint64_t)in->n * node->cols, in->rounding.kv, in->noise);
}

/* width: columns of every head in q, k, v and y; n: tokens; sinks: one logit per head, or NULL; pairs: weights are bf16 */
struct attention { const struct node *node; float *y; const float *q, *k, *v, *sinks; uint32_t width, n; bool pairs; };

static void attention_items(const void *context, uint64_t first, uint64_t end)
{
    const struct attention *a = context;
    const struct node_attrs *attr = &a->node->attr;
    const uint32_t heads = a->node->heads, heads_kv = a->node->inputs[1]->heads;
    const uint64_t kv_cols = (uint64_t)heads_kv * a->width;
    for (uint64_t i = first; i < end; i++) {
        const uint32_t t = (uint32_t)(i / heads), h_kv = (uint32_t)(i % heads) / (heads / heads_kv);
        const uint32_t oldest = attr->window && t + 1 > attr->window ? t + 1 - attr->window : 0;
        const uint64_t at = i * a->width, at_kv = (uint64_t)h_kv * a->width;
        (a->pairs ? attention_bf16_ref : attention_ref)(a->y + at, a->q + at, a->k + at_kv, a->v + at_kv, kv_cols, oldest,
                                                        attr->causal ? t + 1 : a->n, a->width, attr->scale, attr->cap,
                                                        a->sinks ? a->sinks + i % heads : NULL);
    }
}

/* Copies n heads of `from` items to heads of `to` items: cut, or padded with zeros, which change no product. */
static void resize_heads(float *y, uint32_t to, const float *x, uint32_t from, uint64_t n)
{
    for (uint64_t h = 0; h < n; h++) {
        memset(y + h * to, 0, to * sizeof *y);
        memcpy(y + h * to, x + h * from, (from < to ? from : to) * sizeof *y);
    }
}

static float *resized_heads(uint32_t to, const float *x, uint32_t from, uint64_t n)
{
    float *y = take((size_t)(n * to), sizeof *y);
    resize_heads(y, to, x, from, n);
    return y;
}

/* Heads of V may have another size than heads of Q and K: all heads are then padded to the widest for the oracle. */
static void attention(const struct interpreter *in, const struct node *node, float *y, const float *const *x, const float *vector,
                      bool pairs)
{
    const uint32_t dim = node->attr.head_dim, value_dim = node->inputs[2]->attr.head_dim;
    const uint32_t width = dim > value_dim ? dim : value_dim;
    const uint64_t n = (uint64_t)in->n * node->heads, n_kv = (uint64_t)in->n * node->inputs[1]->heads;
    if (dim == value_dim) {
        const struct attention a = { node, y, x[0], x[1], x[2], vector, dim, in->n, pairs };
        in_parts(n, attention_items, &a);
        return;
    }
    float *q = resized_heads(width, x[0], dim, n), *k = resized_heads(width, x[1], dim, n_kv);
    float *v = resized_heads(width, x[2], value_dim, n_kv);
    float *wide = take((size_t)(n * width), sizeof *wide);
    const struct attention a = { node, wide, q, k, v, vector, width, in->n, pairs };
    in_parts(n, attention_items, &a);
    resize_heads(y, value_dim, wide, width, n);
    free(wide);
    free(v);
    free(k);
    free(q);
}

/* n values as bf16, as attention multiplies them. */
static float *bf16_of(const float *x, uint64_t n, uint64_t *noise)
{
    float *y = take((size_t)n, sizeof *y);
    for (uint64_t i = 0; i < n; i++) y[i] = round_bf16(x[i] * (1 + 0x1p-7f * noise_next(noise)));
    return y;
}

static void attention_in_pairs(const struct interpreter *in, const struct node *node, float *y, const float *const *x, const float *vector)
{
    float *row[3];
    for (uint32_t i = 0; i < 3; i++) row[i] = bf16_of(x[i], (uint64_t)in->n * node->inputs[i]->cols, in->noise);
    attention(in, node, y, (const float *const[]){ row[0], row[1], row[2] }, vector, true);
    for (uint32_t i = 0; i < 3; i++) free(row[i]);
}

OPERATION(attention)
{
    const uint64_t n = (uint64_t)in->n * node->inputs[0]->cols;
    if (in->rounding.pairs) {
        attention_in_pairs(in, node, y, x, vector);
        return;
    }
    if (!in->rounding.halves || in->rounding.kv == KV_TYPE_F32) {
        attention(in, node, y, x, vector, false);
        return;
    }
    float *q = take((size_t)n, sizeof *q);
    round_q(q, x[0], n, node->attr.scale, in->noise);
    attention(in, node, y, (const float *const[]){ q, x[1], x[2] }, vector, false);
    free(q);
}

OPERATION(glu_silu)
{
    (void)vector;
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) glu_silu_ref(y + t * cols, x[0] + t * cols, x[1] + t * cols, node->cols);
}

OPERATION(glu_gelu)
{
    (void)vector;
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) glu_gelu_ref(y + t * cols, x[0] + t * cols, x[1] + t * cols, node->cols);
}

OPERATION(add)
{
    (void)vector;
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) add_ref(y + t * cols, x[0] + t * cols, x[1] + t * cols, node->cols);
}

/* ---- norms, and operations item by item ---- */

OPERATION(layernorm)
{
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) layernorm_ref(y + t * cols, x[0] + t * cols, vector, NULL, node->cols, node->attr.eps);
}

OPERATION(layernorm_heads)
{
    const uint32_t dim = node->attr.head_dim;
    const bool whole = node->weight && node->weight->cols == node->cols;
    for (uint64_t h = 0; h < (uint64_t)in->n * node->heads; h++)
        layernorm_ref(y + h * dim, x[0] + h * dim, whole ? vector + h % node->heads * dim : vector, NULL, dim, node->attr.eps);
}

OPERATION(l2norm)
{
    (void)vector;
    const uint32_t dim = node->attr.head_dim;
    for (uint64_t h = 0; h < (uint64_t)in->n * node->heads; h++) l2norm_ref(y + h * dim, x[0] + h * dim, dim, node->attr.eps);
}

/* y = f(x) for every item. */
static void map(const struct interpreter *in, const struct node *node, float *y, const float *x, double (*f)(double x))
{
    for (uint64_t i = 0; i < (uint64_t)in->n * node->cols; i++) y[i] = (float)f((double)x[i]);
}
#define OP(...)
#define GATE(...)
#define FUNCTION(name) OPERATION(name) { (void)vector; map(in, node, y, x[0], name##_ref); }
#include "op.def"
#undef OP

OPERATION(softcap)
{
    (void)vector;
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) softcap_ref(y + t * cols, x[0] + t * cols, node->attr.cap, node->cols);
}

/* In a model that is not shared, x is the whole value. Otherwise the caller inserts the parts of the other ranks. */
OPERATION(whole)
{
    (void)vector;
    const uint32_t cols = node->inputs[0]->cols;
    for (uint32_t t = 0; t < in->n; t++) memcpy(y + (uint64_t)t * node->cols, x[0] + (uint64_t)t * cols, cols * sizeof *y);
}

OPERATION(receive)
{
    (void)x, (void)vector;
    memset(y, 0, (size_t)in->n * node->cols * sizeof *y);
}

OPERATION(scale)
{
    (void)vector;
    const uint64_t cols = node->cols;
    for (uint32_t t = 0; t < in->n; t++) scale_ref(y + t * cols, x[0] + t * cols, node->attr.by, node->cols);
}

OPERATION(temperature)
{
    (void)vector;
    for (uint32_t t = 0; t < in->n; t++) {
        const double by = 1 + node->attr.by * log(1 + floor((double)t / node->attr.n_ctx_orig));
        scale_ref(y + (uint64_t)t * node->cols, x[0] + (uint64_t)t * node->cols, by, node->cols);
    }
}

OPERATION(times)
{
    const uint64_t cols = node->cols, each = cols / node->weight->cols;
    for (uint64_t i = 0; i < in->n * cols; i++) y[i] = (float)((double)x[0][i] * (double)vector[i % cols / each]);
}

OPERATION(mul)
{
    (void)vector;
    const uint64_t cols = node->cols, other = node->inputs[1]->cols;
    for (uint64_t i = 0; i < in->n * cols; i++) {
        const uint64_t at = other == cols ? i : i / cols;
        y[i] = (float)((double)x[0][i] * (double)x[1][at]);
    }
}

OPERATION(glu_oai)
{
    (void)vector;
    const struct node_attrs *a = &node->attr;
    for (uint32_t t = 0; t < in->n; t++) {
        const uint64_t at = (uint64_t)t * node->cols;
        glu_oai_ref(y + at, x[0] + at, x[1] + at, a->alpha, a->limit, node->cols);
    }
}

OPERATION(part)
{
    (void)vector;
    const struct node_attrs *a = &node->attr;
    const uint64_t n = (uint64_t)in->n * node->cols / a->count;
    for (uint64_t i = 0; i < n; i++) memcpy(y + i * a->count, x[0] + i * a->every + a->first, a->count * sizeof *y);
}

OPERATION(join)
{
    (void)vector;
    const uint64_t head = node->cols / node->heads, first = node->attr.head_dim, n = (uint64_t)in->n * node->heads;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(y + i * head, x[0] + i * first, first * sizeof *y);
        memcpy(y + i * head + first, x[1] + i * (head - first), (head - first) * sizeof *y);
    }
}

/* ---- states ---- */

OPERATION(conv)
{
    (void)vector;
    const uint32_t n_taps = (uint32_t)node->weight->cols;
    const uint64_t cols = node->cols;
    float *taps = take((size_t)(cols * n_taps), sizeof *taps), earlier[16];
    weight_to_float(taps, node->weight, 0, cols);
    for (uint64_t i = 0; i < in->n * cols; i++) {
        const uint64_t t = i / cols, c = i % cols;
        for (uint64_t k = 0; k + 1 < n_taps; k++) earlier[k] = t + k + 1 >= n_taps ? x[0][(t + k + 1 - n_taps) * cols + c] : 0;
        y[i] = conv_ref(taps + c * n_taps, n_taps, earlier, x[0][i]);
    }
    free(taps);
}

OPERATION(previous)
{
    (void)vector;
    memset(y, 0, node->cols * sizeof *y);
    memcpy(y + node->cols, x[0], (size_t)(in->n - 1) * node->cols * sizeof *y);
}

struct recurrence { const struct node *node; float *y; const float *const *x; uint32_t n; };

static void recur_heads(const void *context, uint64_t first, uint64_t end)
{
    const struct recurrence *r = context;
    const struct node *node = r->node;
    const uint64_t dim = node->attr.head_dim, value_dim = node->attr.value_dim, heads = node->heads;
    const uint64_t qk_heads = node->inputs[0]->cols / dim;
    const bool by_channel = node->inputs[3]->cols != heads;
    double *S = take((size_t)(dim * value_dim), sizeof *S);
    for (uint64_t h = first; h < end; h++) {
        const uint64_t other = node->attr.modulo ? h % qk_heads : h / (heads / qk_heads);
        memset(S, 0, (size_t)(dim * value_dim) * sizeof *S);
        for (uint64_t t = 0; t < r->n; t++) {
            const uint64_t at = t * heads + h, qk = (t * qk_heads + other) * dim;
            recur_ref(r->y + at * value_dim, S, r->x[0] + qk, r->x[1] + qk, r->x[2] + at * value_dim, r->x[3] + at * (by_channel ? dim : 1),
                      by_channel, (double)r->x[4][at], node->attr.delta, (uint32_t)dim, (uint32_t)value_dim);
        }
    }
    free(S);
}

OPERATION(recur)
{
    (void)vector;
    const struct recurrence r = { node, y, x, in->n };
    in_parts(node->heads, recur_heads, &r);
}

/* ---- experts, and slices of heads ---- */

static struct route_ref route_of(const struct node *node, const float *bias)
{
    const struct node_attrs *a = &node->attr;
    return (struct route_ref){ .n_expert = node->inputs[0]->cols, .used = a->used, .gating = a->gating, .n_group = a->n_group,
                               .n_group_used = a->n_group_used, .norm = a->norm, .by = a->by, .select_bias = bias };
}

OPERATION(route)
{
    const struct route_ref r = route_of(node, vector);
    for (uint32_t t = 0; t < in->n; t++) {
        const float *logits = x[0] + (uint64_t)t * r.n_expert;
        double *select = in->found->select + (uint64_t)t * r.n_expert;
        uint32_t *chosen = in->found->chosen + (uint64_t)t * r.used;
        const uint32_t *given = in->given ? in->given->chosen + (uint64_t)t * r.used : NULL;
        route_select_ref(select, &r, logits);
        if (given && *given != ROUTE_BEST) memcpy(chosen, given, r.used * sizeof *chosen);
        else route_choose_ref(chosen, &r, select);
        route_share_ref(y + (uint64_t)t * node->cols, &r, logits, chosen);
    }
}

/* Slice s of w times x, rounded as products round it. y: [rows of a slice]. */
static void slice_product(const struct interpreter *in, float *y, const float *x, const struct weight *w, uint64_t s)
{
    const uint64_t rows = w->rows / w->slices;
    float *input = take((size_t)w->cols, sizeof *input), *row = take((size_t)w->cols, sizeof *row);
    memcpy(input, x, (size_t)w->cols * sizeof *input);
    round_row(input, (uint32_t)w->cols, w, &in->rounding, in->noise);
    for (uint64_t r = 0; r < rows; r++) {
        double sum = 0;
        matrix_row(row, w, s * rows + r, &in->rounding);
        for (uint64_t c = 0; c < w->cols; c++) sum += (double)row[c] * (double)input[c];
        y[r] = (float)sum;
    }
    free(row);
    free(input);
}

OPERATION(matmul_heads)
{
    (void)vector;
    const struct weight *w = node->weight;
    const uint64_t rows = w->rows / w->slices;
    for (uint64_t i = 0; i < (uint64_t)in->n * w->slices; i++) slice_product(in, y + i * rows, x[0] + i * w->cols, w, i % w->slices);
}

/* The expert of item i of a choice: the k-th expert of token i / used, k = i mod used. */
static uint64_t chosen(const struct node *node, const float *choice, uint64_t i)
{
    const uint64_t used = node->inputs[1]->attr.used;
    return (uint64_t)choice[i / used * 2 * used + used + i % used];
}

OPERATION(expert_matmul)
{
    (void)vector;
    const struct weight *w = node->weight;
    const uint64_t rows = w->rows / w->slices, used = node->inputs[1]->attr.used;
    for (uint64_t i = 0; i < in->n * used; i++)
        slice_product(in, y + i * rows, x[0] + (node->attr.each ? i : i / used) * w->cols, w, chosen(node, x[1], i));
}

/* Combines the row (or the number) of each chosen expert with its row of x. */
static void expert_rows(const struct interpreter *in, const struct node *node, float *y, const float *const *x, const float *vector)
{
    const uint64_t used = node->inputs[1]->attr.used, cols = node->cols / used;
    float *row = take((size_t)cols, sizeof *row);
    for (uint64_t i = 0; i < in->n * used; i++) {
        const uint64_t e = chosen(node, x[1], i);
        if (!vector) weight_to_float(row, node->weight, e, 1);
        for (uint64_t c = 0; c < cols; c++) {
            const double w = (double)(vector ? vector[e] : row[c]), value = (double)x[0][i * cols + c];
            y[i * cols + c] = (float)(node->op == OP_expert_bias ? value + w : value * w);
        }
    }
    free(row);
}
OPERATION(expert_bias)  { expert_rows(in, node, y, x, vector); }
OPERATION(expert_times) { expert_rows(in, node, y, x, vector); }

OPERATION(expert_sum)
{
    (void)vector;
    const uint64_t used = node->inputs[1]->attr.used, cols = node->cols;
    for (uint64_t i = 0; i < in->n * cols; i++) {
        const uint64_t t = i / cols;
        double sum = 0;
        for (uint64_t k = 0; k < used; k++) sum += (double)x[1][t * 2 * used + k] * (double)x[0][(t * used + k) * cols + i % cols];
        y[i] = (float)sum;
    }
}

static operation *const operations[OP_COUNT] = {
#define NOTHING
#define TAKES(attr, value)
#define OP(name, values, weights, absent, reads, shape, reference, ...) [OP_##name] = reference,
#include "op.def"
#undef OP
#undef TAKES
#undef NOTHING
};

static void run(const struct interpreter *in, const struct node *node, float *y)
{
    const struct weight *w = node->far && in->n > node->attr.n_ctx_orig ? node->far : node->weight;
    const float *x[COUNT_OF(node->inputs)] = { NULL };
    float *vector = NULL;
    for (uint32_t k = 0; k < op_info[node->op].n_values; k++) x[k] = in->values[node->inputs[k]->index];
    if (w && w->is_vector) {
        vector = take((size_t)w->cols, sizeof *vector);
        weight_to_float(vector, w, 0, 1);
    }
    operations[node->op](in, node, y, x, vector);
    if (in->seen) in->seen(in->context, node, x, y);
    free(vector);
}

void (*reference_progress)(uint32_t percent);

/* The time of an operation, roughly: its values, and the weights of products. */
static uint64_t effort_of(const struct node *node)
{
    const bool multiplies = node->op == OP_matmul || node->op == OP_expert_matmul;
    return node->cols + (multiplies && node->weight ? node->weight->rows * node->weight->cols : 0);
}

/* Number of nodes up to the requested output. */
static uint32_t nodes_needed(const struct graph *g) { return g->output ? g->output->index + 1 : g->n_nodes; }

static struct routes *routes_new(struct arena *a, const struct graph *g, uint32_t n)
{
    struct routes *r = arena_new(a, struct routes);
    *r = (struct routes){ .routers = arena_array(a, struct router, g->n_nodes) };
    for (uint32_t i = 0; i < nodes_needed(g); i++) {
        const struct node *node = g->nodes[i];
        if (node->op != OP_route) continue;
        const struct route_ref rule = route_of(node, NULL);
        r->routers[r->n_routers++] = (struct router){ rule, arena_array(a, double, (size_t)n * rule.n_expert),
                                                      arena_array(a, uint32_t, (size_t)n * rule.used) };
    }
    return r;
}

/* To be called before memory is allocated: die() here would leak it. */
static void check_positions(const struct graph *g, uint32_t n)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct weight *w = g->nodes[i]->weight;
        if (g->nodes[i]->op == OP_add_position && n > w->rows)
            die("a text of %u tokens is longer than the %llu learned positions of %s; use a shorter text", n,
                (unsigned long long)w->rows, w->name);
    }
}

/* Before a draft the block reads its own row. */
static void run_chain(const struct interpreter *in, const struct graph *g, const struct node *node, float *y)
{
    const uint64_t cols = node->cols, first = in->chain->first;
    if (node == g->draft_from && in->n > first + 1)
        memcpy(y + (first + 1) * cols, in->chain->rows + first * cols, (in->n - first - 1) * cols * sizeof *y);
    if (node == g->draft_state) memcpy(in->chain->rows, y, in->n * cols * sizeof *y);
}

/* Inputs of one run of the model: experts, noise, drafts, receiver of values. */
struct asked { const struct routes *given; uint64_t dither; struct chain *chain; reference_seen *seen; void *context; };

/* logits: or NULL. */
static struct routes *interpret(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                                struct asked asked, float *logits)
{
    check_positions(g, n);
    const struct routes *given = asked.given;
    struct chain *chain = asked.chain;
    struct routes *found = routes_new(a, g, n);
    struct interpreter in = { .tokens = tokens, .rounding = *rounding, .n = n, .values = arena_array(a, float *, g->n_nodes),
                              .unread = arena_array(a, uint32_t, g->n_nodes), .noise = asked.dither ? &asked.dither : NULL,
                              .chain = chain, .seen = asked.seen, .context = asked.context };
    uint32_t router = 0;
    uint64_t done = 0, all = 0;
    for (uint32_t i = 0; i < nodes_needed(g); i++) all += effort_of(g->nodes[i]);
    for (uint32_t i = 0; i < nodes_needed(g); i++) {
        const struct node *node = g->nodes[i];
        if (reference_progress) reference_progress((uint32_t)(100 * done / all));
        done += effort_of(node);
        if (node->op == OP_route) {
            in.given = given ? &given->routers[router] : NULL;
            in.found = &found->routers[router++];
        }
        in.unread[i] = node->n_readers;
        in.values[i] = take((size_t)n * node->cols, sizeof(float));
        run(&in, node, in.values[i]);
        if (chain) run_chain(&in, g, node, in.values[i]);
        if (in.noise && node->op != OP_route)
            for (uint64_t k = 0; k < (uint64_t)n * node->cols; k++) in.values[i][k] *= 1 + 0x1p-22f * noise_next(in.noise);
        for (uint32_t k = 0; k < op_info[node->op].n_values; k++) {
            const uint32_t read = node->inputs[k]->index;
            if (--in.unread[read] > 0) continue;
            free(in.values[read]);
            in.values[read] = NULL;
        }
    }
    if (logits) memcpy(logits, in.values[g->output->index], (size_t)n * g->output->cols * sizeof *logits);
    for (uint32_t i = 0; i < g->n_nodes; i++) free(in.values[i]);
    return found;
}

struct routes *reference_routed(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                                const struct routes *given, uint64_t dither, float *logits)
{
    return interpret(a, g, rounding, tokens, n, (struct asked){ .given = given, .dither = dither }, logits);
}

void reference_drafts(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t first,
                      uint32_t n, float *logits)
{
    const uint64_t columns = g->draft->cols;
    struct chain chain = { first, arena_array(a, float, (size_t)n * g->draft_state->cols) };
    float *all = arena_array(a, float, (size_t)(n * columns));
    for (uint32_t end = first + 1; end <= n; end++) {
        (void)interpret(a, graph_of_drafts(a, g), rounding, tokens, end, (struct asked){ .chain = &chain }, all);
        memcpy(logits + (end - 1 - first) * columns, all + (end - 1) * columns, columns * sizeof *logits);
    }
}

void reference_logits(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      float *logits)
{
    (void)reference_routed(a, g, rounding, tokens, n, NULL, 0, logits);
}

void reference_values(struct arena *a, const struct graph *g, const struct rounding *rounding, const int32_t *tokens, uint32_t n,
                      reference_seen *seen, void *context)
{
    (void)interpret(a, g, rounding, tokens, n, (struct asked){ .seen = seen, .context = context }, NULL);
}

/* ---- two sets of logits ---- */

uint32_t logits_argmax(const float *row, uint32_t n_vocab)
{
    uint32_t best = 0;
    for (uint32_t v = 1; v < n_vocab; v++) if (row[v] > row[best]) best = v;
    return best;
}

/* log(sum(exp(row))) */
static double log_sum(const float *row, uint32_t n_vocab)
{
    const double max = (double)row[logits_argmax(row, n_vocab)];
    double sum = 0;
    for (uint32_t v = 0; v < n_vocab; v++) sum += exp((double)row[v] - max);
    return max + log(sum);
}

struct logits_difference logits_compare(struct arena *a, const float *truth, const float *other, uint32_t n, uint32_t n_vocab)
{
    struct logits_difference d = { .n = n, .kl = arena_array(a, double, n), .max_abs_at = arena_array(a, double, n) };
    double squares = 0, sum = 0, sum_squares = 0;
    for (uint32_t t = 0; t < n; t++) {
        const float *x = truth + (uint64_t)t * n_vocab, *y = other + (uint64_t)t * n_vocab;
        const double log_x = log_sum(x, n_vocab), log_y = log_sum(y, n_vocab);
        double kl = 0;
        for (uint32_t v = 0; v < n_vocab; v++) {
            const double p = (double)x[v], q = (double)y[v], off = fabs(p - q);
            if (!isfinite(q)) d.n_not_finite++;
            if (off > d.max_abs_at[t]) d.max_abs_at[t] = off;
            d.largest = fmax(d.largest, fabs(p));
            squares += off * off;
            sum += p;
            sum_squares += p * p;
            kl += exp(p - log_x) * ((p - log_x) - (q - log_y));
        }
        d.kl[t] = fmax(0, kl);                     /* rounding may leave -1e-17 */
        d.mean_kl += d.kl[t] / n;
        d.max_abs = fmax(d.max_abs, d.max_abs_at[t]);
        d.least = t ? fmin(d.least, d.max_abs_at[t]) : d.max_abs_at[t];
        d.argmax_agree += logits_argmax(x, n_vocab) == logits_argmax(y, n_vocab);
        if (d.kl[t] > d.worst_kl) { d.worst_kl = d.kl[t]; d.worst_position = t; }
    }
    const double count = (double)n * n_vocab, variance = count > 0 ? sum_squares / count - sum / count * (sum / count) : 0;
    d.rms = count > 0 ? sqrt(squares / count) : 0;
    d.rms_relative = variance > 0 ? d.rms / sqrt(variance) : d.rms;
    return d;
}
