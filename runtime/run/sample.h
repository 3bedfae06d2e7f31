/* sample.h -- from logits to the next token: llama.cpp's chain of samplers in its order (bias, tokens that are never drawn, penalties,
 * top-k, top-p, min-p, temperature, draw), without sorting the vocabulary. */
#ifndef FORGE_SAMPLE_H
#define FORGE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

struct forge_bias { int32_t id; float bias; };

struct forge_sample_options {
    float    temp;               /* <= 0: the most probable token, the lowest id on a tie */
    int32_t  top_k;              /* <= 0: off */
    float    top_p;              /* >= 1: off */
    float    min_p;              /* <= 0: off */
    float    repeat_penalty;     /* 1: off */
    int32_t  repeat_last_n;      /* 0: penalties off; -1: the whole context */
    float    presence_penalty, frequency_penalty;
    uint64_t seed;
    const struct forge_bias *biases;   /* [n_biases], ids checked by the caller */
    size_t   n_biases;
    const uint32_t *suppressed;  /* [n_suppressed] tokens that are never drawn (runtime/model/vocab.h) */
    uint32_t n_suppressed;
};

struct forge_sampler;

/* Allocates all memory.  n_ctx: the meaning of repeat_last_n -1. */
enum forge_status sampler_open(struct forge_sampler **out, const struct forge_sample_options *options,
                               uint32_t n_vocab, uint32_t n_ctx, struct forge_error *error);
void sampler_close(struct forge_sampler *sampler);                       /* may be NULL */

/* Returns the next token.  logits: [n_vocab] f32, changed by biases and penalties; NaN counts as minus infinity. */
int32_t sampler_draw(struct forge_sampler *sampler, float *logits);

/* Adds a token that entered the context, from the prompt or drawn, for the penalties. */
void sampler_accept(struct forge_sampler *sampler, int32_t token);

/* The random numbers of the next draw.  A draw takes one number if temp > 0, else no number. */
struct forge_random;
struct forge_random *sampler_random(struct forge_sampler *sampler);

/* Index of the largest of n > 0 values; the first on a tie; NaN is never the largest. */
int32_t argmax(const float *x, size_t n);

/* xoshiro256** 1.0, seeded by splitmix64. (Blackman and Vigna 2018, arXiv:1805.01407; public domain) */
struct forge_random { uint64_t s[4]; };
void     random_seed(struct forge_random *random, uint64_t seed);
uint64_t random_next(struct forge_random *random);
double   random_unit(struct forge_random *random);                       /* [0, 1), 53 bits */

#endif
