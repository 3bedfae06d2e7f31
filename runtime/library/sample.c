/* sample.c -- from logits to the next token: penalties, top-k, top-p, min-p, temperature, draw, in the order of runtime/run/sample.c.
 * Nothing is sorted and no list of candidates is stored: top-k, top-p and min-p always keep the tokens whose logits are above some
 * bound, and radix selection finds that bound, one byte of the logit at a time.  Probabilities are fixed-point numbers, so sums do not
 * depend on their order, and every machine with the same logits draws the same token.  Needs no libm and no arithmetic in double. */
#include "runtime/model/vocab.h"             /* before the header that replaces <string.h> */
#include "instance.h"
#include "runtime/run/finite.h"
#include "runtime/run/random.h"
#include "freestanding.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF                     /* gcc -std=c11 does not contract anyway */
#endif

#define LOG2_E 1.44269504f

/* ---- random numbers ---- */

/* x * fraction / 2^32, rounded down. */
static uint64_t scale_32(uint64_t x, uint32_t fraction) { return (x >> 32) * fraction + ((x & 0xffffffffu) * fraction >> 32); }

/* A number below n, n < 2^63: the upper 64 bits of the product of n and 64 random bits. */
static uint64_t random_below(uint64_t s[4], uint64_t n)
{
    const uint64_t r = xoshiro_next(s);
    const uint64_t low = scale_32(n, (uint32_t)r), high = r >> 32;
    const uint64_t middle = (n & 0xffffffffu) * high;
    return (n >> 32) * high + (((middle & 0xffffffffu) + (low & 0xffffffffu)) >> 32) + (middle >> 32) + (low >> 32);
}

/* ---- weights ---- */

enum { ONE_BITS = 40 };                          /* weight of the most probable token: 2^40, so that 2^22 of them fit */

/* 2^-x as a fixed-point number with ONE_BITS fractional bits, x >= 0; 0 for x >= 40 and for NaN.
 * The relative error of the polynomial (degree 6, interpolated at Chebyshev nodes, coefficients rounded to float) is below 2.1e-7 on [0,
 * 1]. */
static uint64_t exp2_minus(float x)
{
    if (!(x < (float)ONE_BITS)) return 0;
    const uint32_t n = (uint32_t)x;
    const float f = x - (float)n;
    float p = 0x1.ca8f0ap-14f;
    p = p * f - 0x1.4e600cp-10f;
    p = p * f + 0x1.39e9b0p-7f;
    p = p * f - 0x1.c694ecp-5f;
    p = p * f + 0x1.ebfabcp-3f;
    p = p * f - 0x1.62e42cp-1f;
    p = p * f + 1.0f;
    return (uint64_t)(uint32_t)(p * 0x1p30f) << (ONE_BITS - 30) >> n;
}

/* scale log2(e): exp(logit - best); scale log2(e) / t: exp((logit - best) / t). */
static uint64_t weight_of(float logit, float best, float scale) { return exp2_minus((best - logit) * scale); }

/* Maps floats to integers of the same order; -0 counts as 0, NaN as minus infinity. */
static uint32_t key_of(float x)
{
    uint32_t u;
    x += 0.0f;
    if (!(x >= -3.402823466e38f)) return 0;
    __builtin_memcpy(&u, &x, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* ---- the tokens that are kept ---- */

/* Keeps tokens whose key is above `key`, and the first `ties` tokens with exactly that key. */
struct kept { uint32_t key, ties; };

struct scan { struct kept kept; uint32_t ties; };

/* Is the next token, in the order of ids, kept? */
static bool scan_next(struct scan *s, uint32_t key)
{
    if (key != s->kept.key) return key > s->kept.key;
    if (s->ties == 0) return false;
    s->ties--;
    return true;
}
static struct scan scan_begin(struct kept k) { return (struct scan){ k, k.ties }; }

struct sampler {
    uint64_t    *mass;                           /* [256] */
    const float *logits;
    uint32_t     n;
    float        best;
};

static uint64_t total_weight(const struct sampler *s, struct kept kept, float scale)
{
    struct scan scan = scan_begin(kept);
    uint64_t total = 0;
    for (uint32_t i = 0; i < s->n; i++)
        if (scan_next(&scan, key_of(s->logits[i]))) total += weight_of(s->logits[i], s->best, scale);
    return total;
}

/* The mass of each value of the byte at `shift`, over kept tokens whose higher bytes equal `prefix`. */
static void histogram(const struct sampler *s, struct kept kept, uint32_t prefix, uint32_t shift, bool weighted)
{
    struct scan scan = scan_begin(kept);
    memset(s->mass, 0, 256 * sizeof *s->mass);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t key = key_of(s->logits[i]);
        if (!scan_next(&scan, key) || (shift < 24 && key >> (shift + 8) != prefix)) continue;
        s->mass[key >> shift & 255] += weighted ? weight_of(s->logits[i], s->best, LOG2_E) : 1;
    }
}

/* The best tokens of `kept` that together have the mass `need` > 0.  The mass is their number or, if weighted, their weight at
 * temperature 1. */
static struct kept keep_mass(const struct sampler *s, struct kept kept, uint64_t need, bool weighted)
{
    uint32_t key = 0;
    for (uint32_t shift = 32; shift > 0;) {
        shift -= 8;
        histogram(s, kept, key, shift, weighted);
        uint32_t bin = 255;
        for (; bin > 0 && s->mass[bin] < need; bin--) need -= s->mass[bin];
        key = key << 8 | bin;
        if (shift == 0 && !weighted) return (struct kept){ key, (uint32_t)need };
    }
    /* All ties have the same weight. */
    uint64_t one = 1;
    for (uint32_t i = 0; i < s->n; i++)
        if (key_of(s->logits[i]) == key) { one = weight_of(s->logits[i], s->best, LOG2_E); break; }
    uint32_t ties = 1;
    for (; one > 0 && need > one && ties < s->n; ties++) need -= one;
    return (struct kept){ key, key == kept.key && ties > kept.ties ? kept.ties : ties };
}

/* The largest distance from the best logit at which a token still has min_p of its probability: -ln(min_p), by bisection. */
static float min_p_distance(float min_p)
{
    const uint64_t least = (uint64_t)(uint32_t)(min_p * 0x1p30f) << (ONE_BITS - 30);
    float low = 0, high = (float)ONE_BITS;
    for (int i = 0; i < 32; i++) {
        const float middle = 0.5f * (low + high);
        if (exp2_minus(middle * LOG2_E) >= least) low = middle; else high = middle;
    }
    return low;
}

static struct kept keep(const struct sampler *s, const struct model_sampling *o)
{
    struct kept kept = { 0, UINT32_MAX };
    if (o->top_k > 0 && (uint32_t)o->top_k < s->n) kept = keep_mass(s, kept, (uint32_t)o->top_k, false);
    if (o->top_p > 0 && o->top_p < 1) {
        const uint64_t need = scale_32(total_weight(s, kept, LOG2_E), (uint32_t)(o->top_p * 0x1p32f));
        kept = keep_mass(s, kept, need > 0 ? need : 1, true);
    }
    if (o->min_p > 0) {
        const uint32_t key = key_of(s->best - min_p_distance(o->min_p));
        if (key > kept.key) kept = (struct kept){ key, UINT32_MAX };
    }
    return kept;
}

/* ---- drawing ---- */

/* The most probable token; the lowest id on a tie. */
static uint32_t argmax(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* True if x has no NaN, no infinity except those that forbid tokens, and at least one token that is not forbidden. */
static bool drawable(const float *x, uint32_t n)
{
    uint32_t forbidden = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (finite_bits(x[i]) < 0x7f800000u) continue;
        if (finite_bits(x[i]) > 0x7f800000u || x[i] > 0) return false;
        forbidden++;
    }
    return forbidden < n;
}

/* Forbids the tokens that the model never draws; false: every token may be drawn. */
static bool suppress(const uint8_t *vocab, float *logits)
{
    uint32_t n;
    const uint32_t *ids = vocab_image_suppressed(vocab, &n);
    for (uint32_t i = 0; i < n; i++) logits[ids[i]] = -__builtin_inff();
    return n > 0;
}

static int32_t draw(const struct sampler *s, struct kept kept, float scale, uint64_t state[4], uint32_t first)
{
    uint64_t at = random_below(state, total_weight(s, kept, scale));
    struct scan scan = scan_begin(kept);
    for (uint32_t i = 0; i < s->n; i++) {
        if (!scan_next(&scan, key_of(s->logits[i]))) continue;
        const uint64_t w = weight_of(s->logits[i], s->best, scale);
        if (at < w) return (int32_t)i;
        at -= w;
    }
    return (int32_t)first;
}

/* Penalises every token of the window once, however often it occurs there. */
static void penalise(const struct model *m, float *logits, const struct model_sampling *o)
{
    if (!(o->repeat_penalty > 0) || (o->repeat_penalty >= 1 && o->repeat_penalty <= 1)) return;
    const struct library_sequence *q = m->sequence;
    const uint32_t n = q->n_past < (uint32_t)o->repeat_last_n ? q->n_past : (uint32_t)o->repeat_last_n;
    const int32_t *window = q->tokens + (q->n_past - n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t earlier = 0;
        while (window[earlier] != window[i]) earlier++;
        if (earlier < i) continue;
        float *l = &logits[window[i]];
        *l = *l <= 0 ? *l * o->repeat_penalty : *l / o->repeat_penalty;      /* dividing a negative logit would raise its probability */
    }
}

static bool between(float x, float low, float high) { return x >= low && x <= high; }          /* false for NaN */

static bool sampling_valid(const struct model_sampling *o)
{
    return o->size == sizeof *o && between(o->temperature, 0, 1e30f) && o->top_k >= 0 && between(o->top_p, 0, 1) && between(o->min_p, 0, 1)
        && between(o->repeat_penalty, 0, 1e30f) && o->repeat_last_n >= 0 && o->repeat_last_n <= 64;
}

LIBRARY_PUBLIC int32_t model_sample(struct model *m, float *logits, const struct model_sampling *sampling)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (!logits || (sampling && !sampling_valid(sampling))) return MODEL_BAD_ARGUMENT;
    if (m->program->embedding) return MODEL_WRONG_KIND;
    const uint32_t n = m->program->n_vocab;
    if (!drawable(logits, n)) return MODEL_NOT_FINITE;
    if (suppress(m->program->vocab, logits) && !drawable(logits, n)) return MODEL_NOT_FINITE;
    if (!sampling) return (int32_t)argmax(logits, n);
    if (sampling->seed != 0) xoshiro_seed(m->sequence->random, sampling->seed);
    penalise(m, logits, sampling);
    const uint32_t first = argmax(logits, n);
    const struct sampler s = { m->mass, logits, n, logits[first] };
    const float scale = LOG2_E / sampling->temperature;
    /* Infinite: the model has overflowed, or the temperature is (nearly) 0. */
    if (!between(s.best, -3e38f, 3e38f) || !between(scale, 0, 1e38f)) return (int32_t)first;
    return draw(&s, keep(&s, sampling), scale, m->sequence->random, first);
}
