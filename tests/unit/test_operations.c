/* test_operations.c -- compares the reference's operations with plain arithmetic in another form on the same inputs; and operands that
 * shape rules refuse. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>

#include "compiler/front/reference.h"
#include "die_capture.h"
#include "tiny_model.h"

/* T tokens; 4 heads of 8, two KV heads; 6 experts of 5 rows. */
enum { T = 6, VOCAB = 100, EMBD = 32, FF = 100, HEADS = 4, DIM = 8, Q = HEADS * DIM, KV = 16, EXPERTS = 6, ROWS = 5, TAPS = 3 };
static struct arena *a;
static const struct model *last;          /* the model of the last computed values */
static uint32_t n_layer;
static struct { const char *name; uint32_t numbers; } scales[4];          /* of tensors of every layer; name NULL: no scale */
static const int32_t tokens[T] = { 5, 7, 9, 11, 3, 2 };

static int setup(void **state) { (void)state; a = arena_create(); n_layer = 1; memset(scales, 0, sizeof scales); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

static void more_tensors(void)
{
    for (uint32_t l = 0; l < n_layer; l++) {
        static const struct { const char *name; uint32_t slices, rows, cols; } rows[] = {
            { "router", 0, EXPERTS, EMBD }, { "prefer", 0, 0, EXPERTS }, { "up_exps", EXPERTS, ROWS, EMBD },
            { "down_exps", EXPERTS, EMBD, ROWS }, { "pair_exps.weight", EXPERTS, 2 * ROWS, EMBD }, { "exps_bias", 0, EXPERTS, ROWS },
            { "exps_scale", 0, 0, EXPERTS }, { "heads.weight", HEADS, 7, DIM }, { "taps.weight", 0, Q, TAPS }, { "vector", 0, 0, Q },
            { "four", 0, 0, HEADS }, { "one", 0, 0, 1 }, { "striped", 0, 24, EMBD }, { "long_taps", 0, Q, 17 },
            { "places", 0, T + 3, Q }, { "few_places", 0, T - 1, Q },
        };
        for (size_t i = 0; i < COUNT_OF(rows); i++)
            tiny_slices(arena_printf(a, "blk.%u.%s", l, rows[i].name), QUANT_F32, rows[i].slices, rows[i].rows, rows[i].cols);
    }
    for (size_t i = 0; i < COUNT_OF(scales) && scales[i].name; i++) tiny_tensor(scales[i].name, QUANT_F32, 0, scales[i].numbers);
}

static const char *const roles =
    "architecture: llama\ninherits: transformer\nparameters:\n  rope_neox: false\n"
    "  last: {type: bool, default: layer == n_layer - 1}\ntensors:\n"
    "  router:     {name: \"blk.{l}.router\", shape: [6, n_embd]}\n"
    "  prefer:     {name: \"blk.{l}.prefer\", shape: [6]}\n"
    "  up_exps:    {name: \"blk.{l}.up_exps\", shape: [6, 5, n_embd]}\n"
    "  down_exps:  {name: \"blk.{l}.down_exps\", shape: [6, n_embd, 5]}\n"
    "  pair_a:     {name: \"blk.{l}.pair_a\", shape: [6, 5, n_embd]}\n"
    "  pair_b:     {name: \"blk.{l}.pair_b\", shape: [6, 5, n_embd]}\n"
    "  exps_bias:  {name: \"blk.{l}.exps_bias\", shape: [6, 5]}\n"
    "  exps_scale: {name: \"blk.{l}.exps_scale\", shape: [6]}\n"
    "  heads:      {name: \"blk.{l}.heads.weight\", shape: [n_head, 7, head_dim]}\n"
    "  taps:       {name: \"blk.{l}.taps.weight\", shape: [n_q, 3]}\n"
    "  long_taps:  {name: \"blk.{l}.long_taps\", shape: [n_q, 17]}\n"
    "  places:     {name: \"blk.{l}.places\", shape: [9, n_q]}\n"
    "  few_places: {name: \"blk.{l}.few_places\", shape: [5, n_q]}\n"
    "  vector:     {name: \"blk.{l}.vector\", shape: [n_embd]}\n"
    "  four:       {name: \"blk.{l}.four\", shape: [n_head]}\n"
    "  one:        {name: \"blk.{l}.one\", shape: [1]}\n"
    "  striped:    {name: \"blk.{l}.striped\", shape: [16, n_embd], rows: {count: 2, first: 1, every: 3}}\n"
    "fused:\n  \"blk.{l}.pair_exps.weight\": [pair_a, pair_b]\n"
    "blocks:\n  fill: |\n    %wide = matmul ffn_up, %x\n"
    "  stores: |\n    %k = matmul attn_k, %x\n    %kc = store_k %k\n    %v = matmul attn_v, %x\n    %vc = store_v %v\n"
    "  asks: |\n    %q = matmul attn_q, %x\n    %z = scale by=8 %q\n"
    "  reads: |\n    %y = attention %z, %kc, %vc\n";

/* A model with these lines in its layers; they read %x.  Its logits are %name of the last layer, with `cols` columns, and padding. */
static const struct model *model_of(const char *lines, const char *name, uint32_t cols)
{
    const struct tiny s = { "llama", EMBD, FF, HEADS, 2, DIM, VOCAB, QUANT_F32, n_layer, NULL, 0, NULL, true };
    tiny_more = more_tensors;
    const char *graph = arena_printf(a, "input:\n%%x = embed token_embd\nlayer:\nuse fill if last\n%soutput:\n"
                                     "%%rest = part count=%u %%wide\n%%logits = join head_dim=%u %%%s, %%rest\n", lines, VOCAB - cols, cols,
                                     name);
    struct text t = { .arena = a };
    text_printf(&t, "%sgraph: |\n", roles);
    for (const char *p = graph; *p; p += strcspn(p, "\n"), p += *p == '\n') text_printf(&t, "  %.*s\n", (int)strcspn(p, "\n"), p);
    return tiny_yaml(a, &s, text_str(&t));
}

/* %name, [T][cols] */
static const float *values(const char *lines, const char *name, uint32_t cols)
{
    float *logits = arena_array(a, float, T * VOCAB), *out = arena_array(a, float, T * cols);
    last = model_of(lines, name, cols);
    reference_logits(a, graph_build(a, last), &(struct rounding){ 0 }, tokens, T, logits);
    for (uint32_t t = 0; t < T; t++) memcpy(out + t * cols, logits + t * VOCAB, cols * sizeof *out);
    return out;
}

static const float *tensor(const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(last->gguf, name);
    assert_non_null(t);
    return (const float *)(const void *)t->data;
}

static void near(const char *what, uint32_t i, float got, double wanted)
{
    if (!(fabs((double)got - wanted) <= 2e-6 * (1 + fabs(wanted)))) fail_msg("%s: item %u is %.9g, not %.9g", what, i, (double)got, wanted);
}

/* Inputs of most tests: values on both sides of 0, some above 2. */
#define Z "%q = matmul attn_q, %x\n%z = scale by=8 %q\n"
#define W "%p = matmul ffn_gate, %x\n%w = part first=7 count=32 %p\n"
#define K "%k = matmul attn_k, %x\n"
#define V "%v = matmul attn_v, %x\n"

/* ---- one item at a time ---- */

static double silu(double z, uint32_t t)     { (void)t; return z / (1 + exp(-z)); }
static double gelu(double z, uint32_t t)     { (void)t; return z / 2 * (1 + tanh(0.79788456080286541 * (z + 0.044715 * z * z * z))); }
static double gelu_erf(double z, uint32_t t) { (void)t; return z / 2 * (1 + erf(z / 1.4142135623730951)); }
static double sigmoid(double z, uint32_t t)  { (void)t; return (1 + tanh(z / 2)) / 2; }
static double softplus(double z, uint32_t t) { (void)t; return log(1 + exp(z)); }
static double relu_sqr(double z, uint32_t t) { (void)t; return z < 0 ? 0 : z * z; }
static double softcap(double z, uint32_t t)  { (void)t; return 2 - 4 / (exp(z) + 1); }
static double scale(double z, uint32_t t)    { (void)t; return -1.5 * z; }
static double temperature(double z, uint32_t t) { return z * (1 + 0.5 * log(t < 2 ? 1 : t < 4 ? 2 : 3)); }

static void items(void **state)
{
    (void)state;
    static const struct { const char *line; double (*f)(double z, uint32_t t); } rows[] = {
        { "%y = silu %z\n", silu }, { "%y = gelu %z\n", gelu }, { "%y = gelu_erf %z\n", gelu_erf }, { "%y = sigmoid %z\n", sigmoid },
        { "%y = softplus %z\n", softplus }, { "%y = relu_sqr %z\n", relu_sqr }, { "%y = softcap cap=2 %z\n", softcap },
        { "%y = scale by=-1.5 %z\n", scale },
        { "%y = temperature by=0.5 n_ctx_orig=2 %z\n", temperature },
    };
    const float *z = values(Z, "z", Q);
    double most = 0, least = 0;
    for (uint32_t i = 0; i < T * Q; i++) {
        most = fmax(most, (double)z[i]);
        least = fmin(least, (double)z[i]);
    }
    assert_true(most > 2 && least < -2);
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const float *y = values(arena_printf(a, "%s%s", Z, rows[r].line), "y", Q);
        for (uint32_t i = 0; i < T * Q; i++) near(rows[r].line, i, y[i], rows[r].f((double)z[i], i / Q));
    }
}

static void two_values(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *w = values(W, "w", Q);
    const float *all = values(Z W "%y = mul %z, %w\n", "y", Q);
    const float *one = values(Z W "%o = part first=3 count=1 %w\n%y = mul %z, %o\n", "y", Q);
    for (uint32_t i = 0; i < T * Q; i++) {
        near("mul", i, all[i], (double)z[i] * (double)w[i]);
        near("mul by one", i, one[i], (double)z[i] * (double)w[i / Q * Q + 3]);
    }
    static const struct { const char *attributes; double alpha, limit; } rows[] = {
        { "", 1.702, 7 }, { "alpha=0.5 limit=0.75 ", 0.5, 0.75 }, };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const float *y = values(arena_printf(a, "%s%%y = glu_oai %s%%z, %%w\n", Z W, rows[r].attributes), "y", Q);
        for (uint32_t i = 0; i < T * Q; i++) {
            const double limit = rows[r].limit, g = (double)z[i] > limit ? limit : (double)z[i];
            const double u = (double)w[i] > limit ? limit : (double)w[i] < -limit ? -limit : (double)w[i];
            near("glu_oai", i, y[i], g / (1 + exp(-rows[r].alpha * g)) * (u + 1));
        }
    }
    static const struct { const char *role; uint32_t each; } factors[] = { { "vector", 1 }, { "four", Q / 4 }, { "one", Q } };
    for (size_t r = 0; r < COUNT_OF(factors); r++) {
        const float *y = values(arena_printf(a, "%s%%y = times %s, %%z\n", Z, factors[r].role), "y", Q);
        const float *f = tensor(arena_printf(a, "blk.0.%s", factors[r].role));
        for (uint32_t i = 0; i < T * Q; i++) near(factors[r].role, i, y[i], (double)z[i] * (double)f[i % Q / factors[r].each]);
    }
}

static void parts(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *k = values(K, "k", KV);
    const float *heads = values(Z "%y = part first=3 count=2 every=8 %z\n", "y", 8);
    for (uint32_t i = 0; i < T * 8; i++) assert_true(heads[i] == z[i / 8 * Q + i % 8 / 2 * 8 + 3 + i % 2]);
    const float *rest = values(Z "%y = part first=20 %z\n", "y", 12);
    for (uint32_t i = 0; i < T * 12; i++) assert_true(rest[i] == z[i / 12 * Q + 20 + i % 12]);
    const float *both = values(Z K "%y = join head_dim=8 %z, %k\n", "y", Q + KV);            /* 4 heads of 8 and of 4 */
    for (uint32_t i = 0; i < T * (Q + KV); i++) {
        const uint32_t t = i / (Q + KV), head = i % (Q + KV) / 12, c = i % 12;
        assert_true(both[i] == (c < 8 ? z[t * Q + head * 8 + c] : k[t * KV + head * 4 + c - 8]));
    }
}

/* ---- norms ---- */

/* x / sqrt(mean(x^2) + eps) of n items; in one pass for the sum of squares, as the definition has it. */
static double root_of(const float *x, uint32_t n, double eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i] / n;
    return sqrt(sum + eps);
}

static void norms(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q);
    const float *plain = values(Z "%y = rmsnorm eps=0.25 %z\n", "y", Q), *each = values(Z "%y = headnorm eps=0.25 %z\n", "y", Q);
    const float *unit = values(Z "%y = l2norm eps=0.25 %z\n", "y", Q);
    const float *mean = values(Z "%y = layernorm eps=0.25 %z\n", "y", Q);
    const float *weighted = values(Z "%y = layernorm eps=0.25 vector, %z\n", "y", Q);
    const float *centered = values(Z "%y = layernorm_heads eps=0.25 %z\n", "y", Q);
    const float *centered_own = values(Z "%y = layernorm_heads eps=0.25 vector, %z\n", "y", Q);
    const float *own = values(Z "%y = headnorm eps=0.25 vector, %z\n", "y", Q), *w = tensor("blk.0.vector");
    for (uint32_t i = 0; i < T * Q; i++) {
        const float *row = z + i / Q * Q, *head = z + i / DIM * DIM;
        double m = 0, variance = 0;
        for (uint32_t c = 0; c < Q; c++) m += (double)row[c] / (double)Q;
        for (uint32_t c = 0; c < Q; c++) variance += (double)row[c] * (double)row[c] / (double)Q;
        variance -= m * m;
        near("rmsnorm", i, plain[i], (double)z[i] / root_of(row, Q, 0.25));
        near("headnorm", i, each[i], (double)z[i] / root_of(head, DIM, 0.25));
        near("headnorm, weights of each head", i, own[i], (double)z[i] / root_of(head, DIM, 0.25) * (double)w[i % Q]);
        near("l2norm", i, unit[i], (double)z[i] / (root_of(head, DIM, 0) * sqrt((double)DIM)));
        near("layernorm", i, mean[i], ((double)z[i] - m) / sqrt(variance + 0.25));
        double head_mean = 0, head_variance = 0;
        for (uint32_t c = 0; c < DIM; c++) head_mean += (double)head[c] / (double)DIM;
        for (uint32_t c = 0; c < DIM; c++) head_variance += pow((double)head[c] - head_mean, 2) / (double)DIM;
        const double of_head = ((double)z[i] - head_mean) / sqrt(head_variance + 0.25);
        near("layernorm_heads", i, centered[i], of_head);
        near("layernorm_heads, weights of each head", i, centered_own[i], of_head * (double)w[i % Q]);
        near("layernorm with a weight", i, weighted[i], ((double)z[i] - m) / sqrt(variance + 0.25) * (double)w[i % Q]);
    }
    /* A vector shorter than eps is divided by eps. */
    const float *tiny = values(Z "%s = scale by=1e-6 %z\n%y = l2norm eps=0.25 %s\n", "y", Q);
    for (uint32_t i = 0; i < T * Q; i++) near("l2norm of little", i, tiny[i], (double)z[i] * 4e-6);
}

/* ---- positions ---- */

static void learned_positions(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *y = values(Z "%y = add_position places, %z\n", "y", Q), *w = tensor("blk.0.places");
    for (uint32_t i = 0; i < T * Q; i++) near("add_position", i, y[i], (double)z[i] + (double)w[i]);
    assert_dies(values("%y = add_position few_places, %x\n", "y", Q),
        "a text of 6 tokens is longer than the 5 learned positions of blk.0.few_places");
}

static void rotation_from(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *y = values(Z "%y = rope n_rot=4 rot_first=2 base=100 %z\n", "y", Q);
    for (uint32_t i = 0; i < T * Q; i++) {
        const uint32_t c = i % DIM, t = i / Q, pair = (c - 2) / 2;
        if (c < 2 || c >= 6) { assert_true(y[i] == z[i]); continue; }
        const double angle = pair ? t / 10.0 : t, even = (double)z[i & ~1u], odd = (double)z[i | 1];
        near("rope", i, y[i], c % 2 ? odd * cos(angle) + even * sin(angle) : even * cos(angle) - odd * sin(angle));
    }
}

#define CACHES Z K V "%kc = store_k %k\n%vc = store_v %v\n"

/* Does not subtract the largest score, because scores are small here.  sinks: [HEADS] or NULL. */
static void check_attention(const char *what, const float *y, const float *q, const float *k, const float *v, const float *sinks)
{
    for (uint32_t i = 0; i < T * Q; i++) {
        const uint32_t t = i / Q, head = i % Q / DIM, kv = head / 2 * DIM;
        double sum = sinks ? exp((double)sinks[head]) : 0, out = 0;
        for (uint32_t p = 0; p <= t; p++) {
            double score = 0;
            for (uint32_t c = 0; c < DIM; c++) score += (double)q[t * Q + head * DIM + c] * (double)k[p * KV + kv + c];
            sum += exp(score / sqrt((double)DIM));
            out += exp(score / sqrt((double)DIM)) * (double)v[p * KV + kv + i % DIM];
        }
        near(what, i, y[i], out / sum);
    }
}

static void sinks(void **state)
{
    (void)state;
    const float *q = values(Z, "z", Q), *k = values(K, "k", KV), *v = values(V, "v", KV);
    check_attention("attention", values(CACHES "%y = attention %z, %kc, %vc\n", "y", Q), q, k, v, NULL);
    const float *y = values(CACHES "%y = attention four, %z, %kc, %vc\n", "y", Q);
    check_attention("attention with sinks", y, q, k, v, tensor("blk.0.four"));
}

/* The second layer reads the first layer's stored keys and values: the same tokens, another query. */
static void keys_of_another_layer(void **state)
{
    (void)state;
    const float *k = values(K, "k", KV), *v = values(V, "v", KV);
    n_layer = 2;
    const float *q = values("use asks if last\n", "z", Q);
    check_attention("keys of layer 0", values("use stores unless last\nuse asks if last\nuse reads if last\n", "y", Q), q, k, v, NULL);
}

/* ---- states ---- */

static void convolution(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *y = values(Z "%y = conv taps, %z\n", "y", Q), *taps = tensor("blk.0.taps.weight");
    for (uint32_t i = 0; i < T * Q; i++) {
        const uint32_t t = i / Q, c = i % Q;
        double sum = 0;
        for (uint32_t back = 0; back < TAPS && back <= t; back++)
            sum += (double)taps[c * TAPS + TAPS - 1 - back] * (double)z[(t - back) * Q + c];
        near("conv", i, y[i], sum);
    }
}

static void row_before(void **state)
{
    (void)state;
    const float *z = values(Z, "z", Q), *y = values(Z "%y = previous %z\n", "y", Q);
    for (uint32_t i = 0; i < T * Q; i++) near("previous", i, y[i], i < Q ? 0 : (double)z[i - Q]);
}

/* The factor of position p in the state at t: exp of the sum of the decays after p; g: [T][stride]. */
static double kept(const float *g, uint32_t stride, uint32_t item, uint32_t p, uint32_t t)
{
    double sum = 0;
    for (uint32_t i = p + 1; i <= t; i++) sum += (double)g[i * stride + item];
    return exp(sum);
}

/* The recurrence without a state: y(t) = sum over p of <q(t), decayed k(p)> d(p); d(p) = beta (v(p) - the sum over positions before p for
 * k(p)). */
static void recurrences(void **state)
{
    (void)state;
    enum { QK_HEADS = 2 };
    static const struct { uint32_t value_dim; bool by_channel, delta, modulo; } rows[] = {
        { 8, false, false, false }, { 4, false, false, true }, { 8, true, false, false }, { 8, false, true, false },
        { 8, false, true, true }, { 4, false, true, true }, { 4, true, true, false }, { 4, true, false, true }, };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const uint32_t dim = rows[r].value_dim, heads = Q / dim, n_decay = rows[r].by_channel ? heads * DIM : heads;
        const char *lines = arena_printf(a, "%s%%d_raw = part first=2 count=%u %%wide\n%%d_soft = softplus %%d_raw\n"
                                         "%%g = scale by=-0.5 %%d_soft\n%%b_raw = part first=70 count=%u %%wide\n%%b = sigmoid %%b_raw\n",
                                         Z K V, n_decay, heads);
        const char *op = arena_printf(a, "%%y = recur head_dim=8 value_dim=%u delta=%s modulo=%s %%k, %%v, %%z, %%g, %%b\n", dim,
                                      rows[r].delta ? "true" : "false", rows[r].modulo ? "true" : "false");
        const float *y = values(arena_printf(a, "%s%s", lines, op), "y", Q);
        const float *q = values(K, "k", KV), *k = values(V, "v", KV), *v = values(Z, "z", Q);
        const float *g = values(arena_printf(a, "%%d_raw = part first=2 count=%u %%wide\n%%d_soft = softplus %%d_raw\n"
                                             "%%g = scale by=-0.5 %%d_soft\n", n_decay), "g", n_decay);
        const float *b = values(arena_printf(a, "%%b_raw = part first=70 count=%u %%wide\n%%b = sigmoid %%b_raw\n", heads), "b", heads);
        for (uint32_t h = 0; h < heads; h++) {
            const uint32_t from = (rows[r].modulo ? h % QK_HEADS : h * QK_HEADS / heads) * DIM;
            double d[T][DIM], match[2][T];        /* of k(t) and q(t) with k(p) */
            for (uint32_t t = 0; t < T; t++) {
                for (uint32_t p = 0; p <= t; p++) {
                    match[0][p] = match[1][p] = 0;
                    for (uint32_t c = 0; c < DIM; c++) {
                        const double still = kept(g, n_decay, rows[r].by_channel ? h * DIM + c : h, p, t) * (double)k[p * KV + from + c];
                        match[0][p] += (double)k[t * KV + from + c] * still;
                        match[1][p] += (double)q[t * KV + from + c] * still;
                    }
                }
                for (uint32_t j = 0; j < dim; j++) {
                    double held = 0, out = 0;
                    for (uint32_t p = 0; p < t && rows[r].delta; p++) held += match[0][p] * d[p][j];
                    d[t][j] = (double)b[t * heads + h] * ((double)v[t * Q + h * dim + j] - held);
                    for (uint32_t p = 0; p <= t; p++) out += match[1][p] * d[p][j];
                    near(op, t * Q + h * dim + j, y[t * Q + h * dim + j], out);
                }
            }
        }
    }
}

/* ---- experts ---- */

#define ROUTER "%r = matmul router, %x\n%l = scale by=4 %r\n"

/* The number of the n values that come before x[i]: larger values, and equal values with a lower index. */
static uint32_t rank_of(const double *x, uint32_t n, uint32_t i)
{
    uint32_t better = 0;
    for (uint32_t k = 0; k < n; k++) better += x[k] > x[i] || (x[k] == x[i] && k < i);
    return better;
}

static void routes(void **state)
{
    (void)state;
    static const struct { uint32_t used, gating, groups, groups_used; bool norm, prefers; double by; } rows[] = {
        { 2, 1, 1, 1, false, false, 1 }, { 2, 1, 1, 1, true, false, 1 }, { 3, 2, 1, 1, false, false, 2.5 }, { 3, 2, 1, 1, true, true, 1.5 },
        { 2, 3, 1, 1, false, false, 1 }, { 4, 3, 1, 1, true, true, 0.5 }, { 6, 1, 1, 1, false, true, 1 }, { 3, 2, 3, 2, true, true, 2.5 },
        { 2, 1, 3, 1, false, false, 1 }, { 3, 2, 2, 1, false, true, 1 }, { 1, 2, 1, 1, true, false, 3 }, };
    const float *logits = values(ROUTER, "l", EXPERTS);
    uint32_t moved = 0;
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const uint32_t used = rows[r].used, size = EXPERTS / rows[r].groups;
        const char *op = arena_printf(a, "%%c = route used=%u gating=%u n_group=%u n_group_used=%u norm=%s by=%g %s%%l\n", used,
                                      rows[r].gating, rows[r].groups, rows[r].groups_used, rows[r].norm ? "true" : "false", rows[r].by,
                                      rows[r].prefers ? "prefer, " : "");
        const float *choice = values(arena_printf(a, "%s%s%%y = part %%c\n", ROUTER, op), "y", 2 * used), *prefer = tensor("blk.0.prefer");
        for (uint32_t t = 0; t < T; t++) {
            double share[EXPERTS], select[EXPERTS], group[EXPERTS], all = 0, sum = 0, best = 0;
            for (uint32_t e = 0; e < EXPERTS; e++) all += exp((double)logits[t * EXPERTS + e]);
            for (uint32_t e = 0; e < EXPERTS; e++) {
                const double l = (double)logits[t * EXPERTS + e];
                share[e] = rows[r].gating == 1 ? exp(l) / all : rows[r].gating == 2 ? 1 / (1 + exp(-l)) : l;
                select[e] = share[e] + (rows[r].prefers ? (double)prefer[e] : 0);
            }
            for (uint32_t g = 0; g < rows[r].groups; g++) {
                group[g] = -INFINITY;
                for (uint32_t i = g * size; i < (g + 1) * size; i++)
                    for (uint32_t k = i + 1; k < (g + 1) * size; k++) group[g] = fmax(group[g], select[i] + select[k]);
            }
            for (uint32_t e = 0; e < EXPERTS; e++)
                if (rank_of(group, rows[r].groups, e / size) >= rows[r].groups_used) select[e] = -INFINITY;
            for (uint32_t e = 0; e < EXPERTS; e++) {
                if (rows[r].gating == 3) share[e] = exp(share[e]);
                if (rank_of(select, EXPERTS, e) < used) sum += share[e];
                best = fmax(best, share[e]);
            }
            const double divisor = rows[r].gating == 3 || rows[r].norm ? sum : 1;
            for (uint32_t e = 0; e < EXPERTS; e++) {
                const uint32_t k = rank_of(select, EXPERTS, e);
                if (k >= used) continue;
                near(op, k, choice[t * 2 * used + k], share[e] / divisor * rows[r].by);
                near(op, used + k, choice[t * 2 * used + used + k], e);
                moved += k == 0 && share[e] < best;
            }
        }
    }
    assert_true(moved > 0);           /* groups and preferences have changed the choice */
}

static void experts(void **state)
{
    (void)state;
    enum { USED = 2, UP = USED * ROWS, DOWN = USED * EMBD };
#define CHOICE ROUTER "%c = route used=2 norm=true %l\n"
    const float *x = values("", "x", EMBD), *choice = values(CHOICE "%y = part %c\n", "y", 2 * USED);
    const float *up = values(CHOICE "%y = expert_matmul up_exps, %x, %c\n", "y", UP);
    const float *second = values(CHOICE "%y = expert_matmul pair_b, %x, %c\n", "y", UP);
    const float *down = values(CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_matmul each=true down_exps, %u, %c\n", "y", DOWN);
    const float *bias = values(CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_bias exps_bias, %u, %c\n", "y", UP);
    const float *rows = values(CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_times exps_bias, %u, %c\n", "y", UP);
    const float *each = values(CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_times exps_scale, %u, %c\n", "y", UP);
    const float *sum = values(CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_sum %u, %c\n", "y", ROWS);
    const float *up_w = tensor("blk.0.up_exps"), *down_w = tensor("blk.0.down_exps"), *pair_w = tensor("blk.0.pair_exps.weight");
    const float *bias_w = tensor("blk.0.exps_bias"), *scale_w = tensor("blk.0.exps_scale");
    for (uint32_t t = 0; t < T; t++) {
        double total[ROWS] = { 0 };
        for (uint32_t k = 0; k < USED; k++) {
            const uint32_t e = (uint32_t)choice[t * 2 * USED + USED + k];
            for (uint32_t row = 0; row < ROWS; row++) {
                const uint32_t at = t * UP + k * ROWS + row;
                double y = 0, other = 0;
                for (uint32_t c = 0; c < EMBD; c++) {
                    y += (double)up_w[(e * ROWS + row) * EMBD + c] * (double)x[t * EMBD + c];
                    other += (double)pair_w[(e * 2 * ROWS + ROWS + row) * EMBD + c] * (double)x[t * EMBD + c];
                }
                near("expert_matmul", at, up[at], y);
                near("expert_matmul of a fused tensor", at, second[at], other);
                near("expert_bias", at, bias[at], y + (double)bias_w[e * ROWS + row]);
                near("expert_times by rows", at, rows[at], y * (double)bias_w[e * ROWS + row]);
                near("expert_times", at, each[at], y * (double)scale_w[e]);
                total[row] += y * (double)choice[t * 2 * USED + k];
            }
            for (uint32_t row = 0; row < EMBD; row++) {
                double y = 0;
                for (uint32_t c = 0; c < ROWS; c++)
                    y += (double)down_w[(e * EMBD + row) * ROWS + c] * (double)up[t * UP + k * ROWS + c];
                near("expert_matmul of a row each", k, down[t * DOWN + k * EMBD + row], y);
            }
        }
        for (uint32_t row = 0; row < ROWS; row++) near("expert_sum", row, sum[t * ROWS + row], total[row]);
    }
}

/* A tensor's scale multiplies its result in every wiring: one number, or one number per slice. */
static void scales_beside_tensors(void **state)
{
    (void)state;
    enum { USED = 2, UP = USED * ROWS, OF_HEADS = HEADS * 7 };
    static const char *const lines[] = { "%y = matmul attn_q, %x\n", CHOICE "%y = expert_matmul pair_b, %x, %c\n",
                                         "%q = matmul attn_k, %x\n%p = join head_dim=16 %q, %q\n%y = matmul_heads heads, %p\n",
                                         "%y = matmul pair_a, %x\n" };
    static const uint32_t cols[] = { Q, UP, OF_HEADS, EXPERTS * ROWS };
    const float *plain[COUNT_OF(lines)], *choice = values(CHOICE "%y = part %c\n", "y", 2 * USED);
    for (size_t i = 0; i < COUNT_OF(lines); i++) plain[i] = values(lines[i], "y", cols[i]);
    scales[0].name = "blk.0.attn_q.scale", scales[0].numbers = 1;
    scales[1].name = "blk.0.pair_exps.scale", scales[1].numbers = EXPERTS;
    scales[2].name = "blk.0.heads.scale", scales[2].numbers = HEADS;
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        const float *y = values(lines[i], "y", cols[i]), *of[] = { tensor("blk.0.attn_q.scale"), tensor("blk.0.pair_exps.scale"),
                                                                  tensor("blk.0.heads.scale"), tensor("blk.0.pair_exps.scale") };
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t r = 0; r < cols[i]; r++) {
                const uint32_t e = (uint32_t)choice[t * 2 * USED + USED + r / ROWS % USED];
                const uint32_t number[] = { 0, e, r / 7, r / ROWS };
                near(lines[i], t * cols[i] + r, y[t * cols[i] + r], (double)plain[i][t * cols[i] + r] * (double)of[i][number[i]]);
            }
    }
    /* Also for rows of a table; the printed text names both operations and reads back. */
    const float *x = values("", "x", EMBD);
    scales[3].name = "token_embd.scale", scales[3].numbers = 1;
    const float *scaled = values("", "x", EMBD), *factor = tensor("token_embd.scale");
    for (uint32_t i = 0; i < T * EMBD; i++) near("embed", i, scaled[i], (double)x[i] * (double)*factor);
    const struct graph *g = graph_build(a, model_of(lines[0], "y", Q));
    struct text printed = { .arena = a }, again = { .arena = a };
    graph_print(&printed, g);
    assert_non_null(strstr(text_str(&printed), "%0.y_unscaled = matmul 0.attn_q, %x"));
    assert_non_null(strstr(text_str(&printed), "%0.y = times 0.attn_q_scale, %0.y_unscaled"));
    graph_print(&again, graph_parse(a, last, "again", text_str(&printed)));
    assert_string_equal(text_str(&again), text_str(&printed));
}

static void scales_refused(void **state)
{
    (void)state;
    scales[0].name = "blk.0.pair_exps.scale", scales[0].numbers = 1;
    assert_dies(model_of("", "x", EMBD), "tensor blk.0.pair_exps.scale is F32 1; beside blk.0.pair_exps.weight it has 6 of F32");
    scales[0].name = "blk.0.attn_q.scale", scales[0].numbers = Q;
    assert_dies(model_of("", "x", EMBD), "tensor blk.0.attn_q.scale is F32 32; beside blk.0.attn_q.weight it has 1");
    scales[0].name = "blk.0.taps.scale", scales[0].numbers = 1;
    static const struct model *m;
    m = model_of("%y = conv taps, %x\n", "y", EMBD);
    assert_dies(graph_build(a, m),
        "tensor blk.0.taps.scale scales the products of blk.0.taps.weight, but the operation conv makes no product with it");
    scales[0].name = "blk.0.attn_q.scale";
    m = model_of("%y_unscaled = matmul attn_k, %x\n%y = matmul attn_q, %x\n", "y", EMBD);         /* name of the scale's operation */
    assert_dies(graph_build(a, m), "%y_unscaled is defined twice");
}

/* Slices by heads, and stripes of rows. */
static void slices_and_rows(void **state)
{
    (void)state;
    const float *x = values("", "x", EMBD), *z = values(Z, "z", Q), *y = values(Z "%y = matmul_heads heads, %z\n", "y", HEADS * 7);
    const float *w = tensor("blk.0.heads.weight");
    for (uint32_t i = 0; i < T * HEADS * 7; i++) {
        const uint32_t t = i / (HEADS * 7), row = i % (HEADS * 7);
        double sum = 0;
        for (uint32_t c = 0; c < DIM; c++) sum += (double)w[row * DIM + c] * (double)z[t * Q + row / 7 * DIM + c];
        near("matmul_heads", i, y[i], sum);
    }
    const float *striped = values("%y = matmul striped, %x\n", "y", 16);
    w = tensor("blk.0.striped");
    for (uint32_t i = 0; i < T * 16; i++) {
        const uint32_t t = i / 16, row = i % 16 / 2 * 3 + 1 + i % 2;
        double sum = 0;
        for (uint32_t c = 0; c < EMBD; c++) sum += (double)w[row * EMBD + c] * (double)x[t * EMBD + c];
        near("rows", i, striped[i], sum);
    }
}

/* ---- operands that shape rules refuse ---- */

static void refused(void **state)
{
    (void)state;
    static const struct { const char *lines, *expected; } rows[] = {
        { "%y = layernorm router, %x\n", "llama.yaml:44:3: layernorm takes a vector; router is not a vector" },
        { "%y = layernorm four, %x\n", "%x has 32 columns; four takes 4" },
        { "%y = l2norm head_dim=5 %x\n", "%x has 32 columns, which is not a multiple of the head size 5" },
        { "%y = layernorm_heads head_dim=5 %x\n", "%x has 32 columns, which is not a multiple of the head size 5" },
        { "%y = layernorm_heads four, %x\n", "tensor four has 4 items; 8 are needed here" },
        { "%y = add_position vector, %x\n", "add_position takes a matrix; vector is not a matrix" },
        { "%y = add_position heads, %x\n", "add_position takes a matrix; heads has three dimensions" },
        { "%p = part count=8 %x\n%y = add_position places, %p\n", "%0.p has 8 columns; places takes 32" },
        { "%y = headnorm four, %x\n", "tensor four has 4 items; 8 are needed here" },
        { "%y = rope n_rot=4 rot_first=5 %x\n", "rot_first is 5; 4 columns of 8 cannot begin there" },
        { "%y = times router, %x\n", "times takes a vector; router is not a vector" },
        { "%y = times prefer, %x\n", "%x has 32 columns, which is not a multiple of the 6 factors of prefer" },
        { "%p = part count=2 %x\n%y = mul %x, %p\n", "%0.p has 2 columns; mul takes 32" },
        { "%p = part count=2 %x\n%y = glu_oai %x, %p\n", "%0.p has 2 columns; glu_oai takes 32" },
        { "%y = part every=5 %x\n", "%x has 32 columns, which is not a multiple of every=5" },
        { "%y = part first=8 every=8 %x\n", "first=8 and count=0 exceed every=8 columns" },
        { "%y = part first=6 count=3 every=8 %x\n", "first=6 and count=3 exceed every=8 columns" },
        { "%y = part count=33 %x\n", "first=0 and count=33 exceed every=32 columns" },
        { "%y = join head_dim=5 %x, %x\n", "%x has 32 columns, which is not a multiple of the head size 5" },
        { "%p = part count=3 %x\n%y = join head_dim=8 %x, %p\n", "%0.p has 3 columns, which is not a multiple of the 4 heads" },
        { "%y = matmul_heads router, %x\n", "matmul_heads takes a tensor of three dimensions; router has fewer" },
        { "%p = part count=8 %x\n%y = matmul_heads heads, %p\n", "%0.p has 8 columns; heads takes 32" },
        { "%y = conv vector, %x\n", "conv takes a matrix; vector is not a matrix" },
        { "%p = part count=8 %x\n%y = conv taps, %p\n", "%0.p has 8 columns; taps takes 32" },
        { "%y = conv attn_q, %x\n", "conv takes 2 to 16 taps; attn_q has 32" },
        { "%y = conv long_taps, %x\n", "conv takes 2 to 16 taps; long_taps has 17" },
        { K "%y = recur head_dim=5 value_dim=8 %k, %k, %x, %k, %k\n", "%0.k has 16 columns, which is not a multiple of the head size 5" },
        { K "%y = recur head_dim=8 value_dim=5 %k, %k, %x, %k, %k\n", "%x has 32 columns, which is not a multiple of the head size 5" },
        { K "%y = recur head_dim=8 value_dim=8 %k, %x, %x, %k, %k\n", "%x has 32 columns; recur takes 16" },
        { K "%y = recur head_dim=2 value_dim=8 %k, %k, %x, %k, %k\n",
          "recur: the 4 heads of v must be a multiple of the 8 heads of q and k" },
        { K "%y = recur head_dim=8 value_dim=8 %k, %k, %x, %k, %k\n", "%0.k has 16 columns; recur takes 4" },
        { K "%b = part count=4 %k\n%y = recur head_dim=8 value_dim=8 %k, %k, %x, %k, %b\n", "%0.k has 16 columns; recur takes 32" },
        { ROUTER "%y = route used=7 %l\n", "expert_used_count 7 is not from 1 to expert_count 6" },
        { ROUTER "%y = route used=2 four, %l\n", "%0.l has 6 columns; four takes 4" },
        { ROUTER "%y = route used=2 router, %l\n", "route takes a vector; router is not a vector" },
        { ROUTER "%y = route used=2 n_group=4 %l\n", "6 experts cannot stand in 4 groups of which 1 are used" },
        { ROUTER "%y = route used=2 n_group=3 n_group_used=4 %l\n", "6 experts cannot stand in 3 groups of which 4 are used" },
        { ROUTER "%y = route used=3 n_group=3 %l\n", "1 of 3 groups have fewer than the 3 experts that are used" },
        { ROUTER "%y = route used=1 n_group=6 %l\n", "groups of one expert cannot be ranked by their two best experts" },
        { ROUTER "%y = route gating=4 %l\n", "gating=4 is 4; it must be from 1 to 3" },
        { ROUTER "%y = expert_matmul up_exps, %x, %l\n", "expert_matmul takes a choice of experts; %0.l comes from scale" },
        { CHOICE "%y = expert_matmul router, %x, %c\n", "expert_matmul takes a tensor of three dimensions; router has fewer" },
        { CHOICE "%y = expert_matmul heads, %x, %c\n", "tensor heads has 4 experts; 6 are needed here" },
        { CHOICE K "%y = expert_matmul up_exps, %k, %c\n", "%0.k has 16 columns; up_exps takes 32" },
        { CHOICE K "%y = expert_matmul each=true up_exps, %k, %c\n", "%0.k has 16 columns; up_exps takes 64" },
        { CHOICE "%u = expert_matmul up_exps, %x, %c\n%y = expert_matmul down_exps, %u, %c\n", "columns; down_exps takes" },
        { CHOICE "%p = part count=5 %x\n%y = expert_times exps_scale, %p, %c\n",
          "%0.p has 5 columns, which is not a multiple of the 2 experts" },
        { CHOICE "%y = expert_times four, %x, %c\n", "tensor four has 4 experts; 6 are needed here" },
        { CHOICE "%y = expert_bias exps_bias, %x, %c\n", "%x has 32 columns; exps_bias takes 10" },
        { CHOICE "%p = part count=10 %x\n%y = expert_bias exps_scale, %p, %c\n",
          "expert_bias takes a row for each expert; exps_scale is one row" },
        { CHOICE "%p = part count=5 %x\n%y = expert_sum %p, %c\n", "%0.p has 5 columns, which is not a multiple of the 2 experts" },
        { CHOICE "%y = expert_sum %x, %x\n", "expert_sum takes a choice of experts; %x comes from embed" },
        { CACHES "%y = attention vector, %z, %kc, %vc\n", "tensor vector has 32 items; 4 are needed here" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        static const struct model *m;
        m = model_of(rows[i].lines, "y", EMBD);
        assert_dies(graph_build(a, m), rows[i].expected);
    }
    tiny_more = NULL;
    /* Operations with a state must be in a layer. */
    static const char *const outside[] = { "conv", "recur", "previous" };
    static const char *const lines[] = { "%y = conv token_embd, %x\n", "%y = recur %x, %x, %x, %x, %x\n", "%y = previous %x\n" };
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        static const struct model *m;
        m = tiny_wired(a, &tiny_llama, arena_printf(a, "%s%slayer:\n%s", TINY_INPUT, lines[i], TINY_OUTPUT));
        assert_dies(graph_build(a, m), arena_printf(a, "%s outside the layers; its state belongs to layers", outside[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(items, setup, teardown),
        cmocka_unit_test_setup_teardown(two_values, setup, teardown),
        cmocka_unit_test_setup_teardown(parts, setup, teardown),
        cmocka_unit_test_setup_teardown(norms, setup, teardown),
        cmocka_unit_test_setup_teardown(learned_positions, setup, teardown),
        cmocka_unit_test_setup_teardown(rotation_from, setup, teardown),
        cmocka_unit_test_setup_teardown(sinks, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_of_another_layer, setup, teardown),
        cmocka_unit_test_setup_teardown(convolution, setup, teardown),
        cmocka_unit_test_setup_teardown(row_before, setup, teardown),
        cmocka_unit_test_setup_teardown(recurrences, setup, teardown),
        cmocka_unit_test_setup_teardown(routes, setup, teardown),
        cmocka_unit_test_setup_teardown(experts, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_beside_tensors, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(slices_and_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
