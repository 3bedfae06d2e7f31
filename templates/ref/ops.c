/* ops.c -- scalar oracles; see ops.h. */
#include "ops.h"
#include <math.h>

static const double pi = 3.14159265358979323846;

void rmsnorm_ref(float *y, const float *x, const float *w, uint32_t n, double eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const double root = sqrt(sum / n + eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)x[i] / root * (w ? (double)w[i] : 1.0));
}

void layernorm_ref(float *y, const float *x, const float *w, const float *b, uint32_t n, double eps)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i];
    const double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double root = sqrt(squares / n + eps);
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)(((double)x[i] - mean) / root * (w ? (double)w[i] : 1.0) + (b ? (double)b[i] : 0.0));
}

/* The dimension at which a wavelength turns `rotations` times within the original context. */
static double yarn_dimension(const struct rope_ref *r, double rotations)
{
    return r->n_rot * log(r->n_ctx_orig / (rotations * 2 * pi)) / (2 * log(r->freq_base));
}

void rope_pair_ref(double *cosine, double *sine, const struct rope_ref *r, uint32_t i, uint32_t position)
{
    double angle = position * pow(r->freq_base, -2.0 * i / r->n_rot), magnitude = r->attn_factor;
    if (r->freq_factors) angle /= (double)r->freq_factors[i];
    double turned = angle * r->freq_scale;
    if (r->ext_factor != 0) {
        const double fast = yarn_dimension(r, r->beta_fast), slow = yarn_dimension(r, r->beta_slow);
        const double low  = fmax(0, r->unrounded ? fast : floor(fast));
        const double high = fmin(r->n_rot - 1, r->unrounded ? slow : ceil(slow));
        const double at = fmin(1, fmax(0, (i - low) / fmax(0.001, high - low)));
        const double mix = (1 - at) * r->ext_factor;
        turned = turned * (1 - mix) + angle * mix;
        magnitude *= 1 + 0.1 * log(1 / r->freq_scale);
    }
    *cosine = cos(turned) * magnitude;
    *sine   = sin(turned) * magnitude;
}

void rope_ref(float *head, const struct rope_ref *r, uint32_t position)
{
    const uint32_t half = r->n_rot / 2;
    for (uint32_t i = 0; i < half; i++) {
        const uint32_t ia = r->neox ? i : 2 * i, ib = r->neox ? i + half : 2 * i + 1;
        const double a = (double)head[ia], b = (double)head[ib];
        double c, s;
        rope_pair_ref(&c, &s, r, i, position);
        head[ia] = (float)(a * c - b * s);
        head[ib] = (float)(a * s + b * c);
    }
}

void softmax_ref(float *y, const float *x, uint32_t n)
{
    double max = -INFINITY, sum = 0;
    for (uint32_t i = 0; i < n; i++) max = fmax(max, (double)x[i]);
    for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    for (uint32_t i = 0; i < n; i++) y[i] = (float)(exp((double)x[i] - max) / sum);
}

static double score(const float *q, const float *k, uint32_t head_dim, double scale_qk, double cap)
{
    double s = 0;
    for (uint32_t d = 0; d < head_dim; d++) s += (double)q[d] * (double)k[d];
    s *= scale_qk;
    return cap != 0 ? cap * tanh(s / cap) : s;
}

/* 2^x, exact or (bf16) rounded to 8 bits, the nearest bfloat16. */
static double power_of_two(double x, bool bf16)
{
    int exponent;
    const double part = frexp(exp2(x), &exponent);
    return bf16 ? ldexp(nearbyint(ldexp(part, 8)), exponent - 8) : exp2(x);
}

/* Scores are computed three times instead of stored, and the sums use double per dimension: slow, but simple. */
static void attend(float *out, const float *q, const float *k, const float *v, uint64_t stride, uint32_t first, uint32_t end,
                   uint32_t head_dim, double scale_qk, double cap, const float *sink, bool bf16)
{
    const double unit = 1.4426950408889634074;               /* log2 e */
    double max = sink ? (double)*sink : -INFINITY;
    for (uint32_t p = first; p < end; p++) max = fmax(max, score(q, k + p * stride, head_dim, scale_qk, cap));
    const double whole = ceil(max * unit);
    double sum = sink ? exp2((double)*sink * unit - whole) : 0;
    for (uint32_t p = first; p < end; p++) sum += power_of_two(score(q, k + p * stride, head_dim, scale_qk, cap) * unit - whole, bf16);
    enum { DIMS = 64 };
    for (uint32_t d0 = 0; d0 < head_dim; d0 += DIMS) {
        const uint32_t n = head_dim - d0 < DIMS ? head_dim - d0 : DIMS;
        double total[DIMS] = { 0 };
        for (uint32_t p = first; p < end; p++) {
            const double weight = power_of_two(score(q, k + p * stride, head_dim, scale_qk, cap) * unit - whole, bf16) / sum;
            for (uint32_t d = 0; d < n; d++) total[d] += weight * (double)v[p * stride + d0 + d];
        }
        for (uint32_t d = 0; d < n; d++) out[d0 + d] = (float)total[d];
    }
}

void attention_ref(float *out, const float *q, const float *k, const float *v, uint64_t stride, uint32_t first, uint32_t end,
                   uint32_t head_dim, double scale_qk, double cap, const float *sink)
{
    attend(out, q, k, v, stride, first, end, head_dim, scale_qk, cap, sink, false);
}

void attention_bf16_ref(float *out, const float *q, const float *k, const float *v, uint64_t stride, uint32_t first, uint32_t end,
                        uint32_t head_dim, double scale_qk, double cap, const float *sink)
{
    attend(out, q, k, v, stride, first, end, head_dim, scale_qk, cap, sink, true);
}

void glu_silu_ref(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)gate[i] / (1 + exp(-(double)gate[i])) * (double)up[i]);
}

void glu_gelu_ref(float *y, const float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const double x = (double)gate[i];
        y[i] = (float)(0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x))) * (double)up[i]);
    }
}

void add_ref(float *y, const float *a, const float *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)a[i] + (double)b[i]);
}

void scale_ref(float *y, const float *x, double factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)x[i] * factor);
}

void softcap_ref(float *y, const float *x, double cap, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) y[i] = (float)(cap * tanh((double)x[i] / cap));
}

void l2norm_ref(float *y, const float *x, uint32_t n, double eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    const double length = fmax(sqrt(sum), eps);
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)x[i] / length);
}

double sigmoid_ref(double x)  { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
double silu_ref(double x)     { return x * sigmoid_ref(x); }
double gelu_ref(double x)     { return 0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x))); }
double gelu_erf_ref(double x) { return 0.5 * x * erfc(-x / sqrt(2)); }
double softplus_ref(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
double relu_sqr_ref(double x) { return x > 0 ? x * x : 0; }

void glu_oai_ref(float *y, const float *gate, const float *up, double alpha, double limit, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const double g = fmin((double)gate[i], limit), u = fmax(-limit, fmin(limit, (double)up[i]));
        y[i] = (float)(g * sigmoid_ref(alpha * g) * (u + 1));
    }
}

float conv_ref(const float *taps, uint32_t n, const float *earlier, float now)
{
    double sum = (double)taps[n - 1] * (double)now;
    for (uint32_t i = 0; i + 1 < n; i++) sum += (double)taps[i] * (double)earlier[i];
    return (float)sum;
}

void recur_ref(float *y, double *S, const float *q, const float *k, const float *v, const float *decay, bool by_channel, double beta,
               bool delta, uint32_t head_dim, uint32_t value_dim)
{
    for (uint32_t i = 0; i < head_dim; i++)
        for (uint32_t j = 0; j < value_dim; j++) S[i * value_dim + j] *= exp((double)decay[by_channel ? i : 0]);
    for (uint32_t j = 0; j < value_dim; j++) {
        double held = 0, out = 0;
        for (uint32_t i = 0; delta && i < head_dim; i++) held += S[i * value_dim + j] * (double)k[i];
        const double d = ((double)v[j] - held) * beta;
        for (uint32_t i = 0; i < head_dim; i++) {
            S[i * value_dim + j] += (double)k[i] * d;
            out += S[i * value_dim + j] * (double)q[i];
        }
        y[j] = (float)out;
    }
}

/* ---- routers ---- */

/* The index of the best of [n] that is not taken; n: all are taken. */
static uint32_t best_of(const double *x, const bool *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) if (!taken[i] && (best == n || x[i] > x[best])) best = i;
    return best;
}

/* Keeps the groups with the largest sums of their two best experts; marks the others as taken. */
static void take_groups_ref(bool *taken, const struct route_ref *r, const double *select)
{
    const uint32_t size = r->n_expert / r->n_group;
    double score[4096];
    bool used[4096] = { false };
    for (uint32_t g = 0; g < r->n_group; g++) {
        bool none[4096] = { false };
        const double *x = select + g * size;
        const uint32_t first = best_of(x, none, size);
        none[first] = true;
        score[g] = x[first] + x[best_of(x, none, size)];
    }
    for (uint32_t i = 0; i < r->n_expert; i++) taken[i] = true;
    for (uint32_t k = 0; k < r->n_group_used; k++) {
        const uint32_t g = best_of(score, used, r->n_group);
        used[g] = true;
        for (uint32_t i = 0; i < size; i++) taken[g * size + i] = false;
    }
}

/* Maximum and sum of a softmax over all experts: the largest logit, and the sum of exponentials of logits less it. */
static void route_sums(const struct route_ref *r, const float *logits, double *top, double *sum)
{
    *top = -INFINITY;
    *sum = 0;
    for (uint32_t i = 0; i < r->n_expert; i++) *top = fmax(*top, (double)logits[i]);
    for (uint32_t i = 0; i < r->n_expert; i++) *sum += exp((double)logits[i] - *top);
}

void route_select_ref(double *select, const struct route_ref *r, const float *logits)
{
    double top, sum;
    route_sums(r, logits, &top, &sum);
    for (uint32_t i = 0; i < r->n_expert; i++) {
        const double x = (double)logits[i];
        select[i] = r->gating == 1 ? exp(x - top) / sum : r->gating == 2 ? sigmoid_ref(x) : x;
        if (r->select_bias) select[i] += (double)r->select_bias[i];
    }
}

void route_choose_ref(uint32_t *chosen, const struct route_ref *r, const double *select)
{
    bool taken[4096] = { false };
    if (r->n_group > 1) take_groups_ref(taken, r, select);
    for (uint32_t k = 0; k < r->used; k++) {
        chosen[k] = best_of(select, taken, r->n_expert);
        taken[chosen[k]] = true;
    }
}

void route_share_ref(float *choice, const struct route_ref *r, const float *logits, const uint32_t *chosen)
{
    double share[256], total = 0, top, sum;
    route_sums(r, logits, &top, &sum);
    for (uint32_t k = 0; k < r->used; k++) {
        const double x = (double)logits[chosen[k]];
        share[k] = r->gating == 1 ? exp(x - top) / sum : r->gating == 2 ? sigmoid_ref(x) : exp(x - top);
        total += share[k];
    }
    const double divisor = r->gating == 3 ? total : r->norm ? fmax(total, 0x1p-14) : 1;
    for (uint32_t k = 0; k < r->used; k++) {
        choice[k] = (float)(share[k] / divisor * r->by);
        choice[r->used + k] = (float)chosen[k];
    }
}

void route_ref(float *choice, const struct route_ref *r, const float *logits)
{
    double select[4096];
    uint32_t chosen[256];
    route_select_ref(select, r, logits);
    route_choose_ref(chosen, r, select);
    route_share_ref(choice, r, logits, chosen);
}
