/* ops.h -- scalar oracles of the model's operations, written for reading: double arithmetic inside, float at the edges.
 * They share nothing with the fast kernels of templates/cpu.  They cannot fail. */
#ifndef FORGE_REF_OPS_H
#define FORGE_REF_OPS_H
#include <stdbool.h>
#include <stdint.h>

/* y = x / sqrt(mean(x^2) + eps) * w.  y, x, w: [n], y may be x, w may be NULL. */
void rmsnorm_ref(float *y, const float *x, const float *w, uint32_t n, double eps);
/* y = (x - mean) / sqrt(var + eps) * w + b.  w and b may be NULL. */
void layernorm_ref(float *y, const float *x, const float *w, const float *b, uint32_t n, double eps);

/* Rotary embedding, all scalings.  Linear scaling: freq_scale = 1 / factor.  YaRN (Peng et al. 2023, arXiv:2309.00071): ext_factor 1.
 * Llama 3: freq_factors.  attn_factor multiplies cos and sin before YaRN's own 1 + 0.1 ln(1 / freq_scale). */
struct rope_ref {
    uint32_t n_rot;                 /* dimensions rotated, even */
    bool     neox;                  /* pairs (i, i + n_rot/2), else (2i, 2i + 1) */
    double   freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
    uint32_t n_ctx_orig;
    bool     unrounded;             /* YaRN's two dimensions are not rounded outwards */
    const float *freq_factors;      /* [n_rot/2] or NULL */
};
/* Cosine and sine, times the magnitude, of pair i at `position`. */
void rope_pair_ref(double *cosine, double *sine, const struct rope_ref *r, uint32_t i, uint32_t position);
/* head: [head_dim >= n_rot], in place. */
void rope_ref(float *head, const struct rope_ref *r, uint32_t position);

/* y = softmax(x).  [n] */
void softmax_ref(float *y, const float *x, uint32_t n);
/* One query against the positions first <= p < end of k and v, rows `stride` floats apart.  out, q: [head_dim].
 * cap 0: no soft cap of the scores; sink NULL: no sink logit in the denominator. An empty range gives 0. */
void attention_ref(float *out, const float *q, const float *k, const float *v, uint64_t stride, uint32_t first, uint32_t end,
                   uint32_t head_dim, double scale_qk, double cap, const float *sink);
/* The same with weights of positions as powers of two, rounded to 8 bits, in the sums of values and of weights. */
void attention_bf16_ref(float *out, const float *q, const float *k, const float *v, uint64_t stride, uint32_t first, uint32_t end,
                        uint32_t head_dim, double scale_qk, double cap, const float *sink);

/* y = act(gate) * up.  gelu is the tanh form. */
void glu_silu_ref(float *y, const float *gate, const float *up, uint32_t n);
void glu_gelu_ref(float *y, const float *gate, const float *up, uint32_t n);

void add_ref(float *y, const float *a, const float *b, uint32_t n);
void scale_ref(float *y, const float *x, double factor, uint32_t n);
/* y = x / max(|x|, eps) */
void l2norm_ref(float *y, const float *x, uint32_t n, double eps);
/* y = f(x), element by element; gelu is the tanh form, gelu_erf the exact one, relu_sqr max(x, 0)^2. */
double silu_ref(double x);
double gelu_ref(double x);
double gelu_erf_ref(double x);
double sigmoid_ref(double x);
double softplus_ref(double x);
double relu_sqr_ref(double x);
/* y = g sigmoid(alpha g) (u + 1) with g = min(gate, limit), u = up clamped to -limit .. limit. */
void glu_oai_ref(float *y, const float *gate, const float *up, double alpha, double limit, uint32_t n);

/* One step of a causal convolution of one column: taps [n], the last one for `now`, the others for earlier[0..n-2], oldest first. */
float conv_ref(const float *taps, uint32_t n, const float *earlier, float now);
/* One position of one head.  S: [head_dim][value_dim], updated.  decay: ln of the factor of S, one number, or with by_channel one for each
 * row of S.  d = (v - delta ? S^T k : 0) beta; S += k d^T; y = S^T q. */
void recur_ref(float *y, double *S, const float *q, const float *k, const float *v, const float *decay, bool by_channel, double beta,
               bool delta, uint32_t head_dim, uint32_t value_dim);

/* The parameters of a router; gating as GGUF's expert_gating_func. */
struct route_ref {
    uint32_t n_expert, used, gating, n_group, n_group_used;
    bool     norm;                  /* shares are divided by their sum, at least 6.1e-5 (2^-14) */
    double   by;                    /* multiplies them */
    const float *select_bias;       /* [n_expert], added for the selection only, not to the shares; or NULL */
};
/* choice: [2 used]: shares, then the experts' numbers; best first, the lower number first among equals. logits: [n_expert]. */
void route_ref(float *choice, const struct route_ref *r, const float *logits);
/* Its three steps.  select: [n_expert], shares of all experts (gating 3: logits) with the bias; chosen: [used], best first. */
void route_select_ref(double *select, const struct route_ref *r, const float *logits);
void route_choose_ref(uint32_t *chosen, const struct route_ref *r, const double *select);
void route_share_ref(float *choice, const struct route_ref *r, const float *logits, const uint32_t *chosen);
/* y = cap * tanh(x / cap) */
void softcap_ref(float *y, const float *x, double cap, uint32_t n);
#endif
