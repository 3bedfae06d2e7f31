/* pool.h -- the vector of a text, out of the rows that a model of embeddings gives its tokens: their mean, the first or the last of them,
 * then of length 1.  Programs, libraries and the compiler share this; it needs no libc. */
#ifndef FORGE_POOL_H
#define FORGE_POOL_H
#include "abi.h"

/* The values are those of the GGUF key {arch}.pooling_type; 0: a language model. */
enum forge_pooling { FORGE_POOL_MEAN = 1, FORGE_POOL_CLS = 2, FORGE_POOL_LAST = 3, FORGE_POOL_RANK = 4 };

/* Floats that a program gives for a token. */
static inline uint32_t program_columns(const struct forge_program *p) { return p->embedding ? p->n_embd : p->n_vocab; }

/* How many rows a piece of n tokens, from position `at` of a text of `total`, has to give: of so many last tokens. */
static inline uint32_t pool_rows(uint32_t pooling, uint32_t at, uint32_t n, uint32_t total)
{
    if (pooling == FORGE_POOL_MEAN) return n;
    if (pooling == FORGE_POOL_CLS) return at == 0 ? n : 0;
    return at + n == total;
}

/* Adds the rows of such a piece, [pool_rows][n_embd], to the vector, [n_embd]. */
static inline void pool_add(float *vector, uint32_t pooling, const float *rows, uint32_t n_rows, uint32_t at, uint32_t n_embd)
{
    if (at == 0) for (uint32_t c = 0; c < n_embd; c++) vector[c] = 0;
    const uint32_t used = pooling == FORGE_POOL_CLS && n_rows > 1 ? 1 : n_rows;
    for (uint32_t t = 0; t < used; t++)
        for (uint32_t c = 0; c < n_embd; c++) vector[c] += rows[(uint64_t)t * n_embd + c];
}

/* The same bits whatever instructions a compiler may use: clang joins products and sums where the target has FMA, gcc not with
 * -std=c11. */
#ifdef __clang__
#define POOL_AS_WRITTEN _Pragma("STDC FP_CONTRACT OFF")
#else
#define POOL_AS_WRITTEN
#endif

/* 1 / sqrt(x), x > 0 and normal: an estimate of 3.5 % (its constant: Lomont 2003), and steps of Newton to what floats hold. */
static inline float pool_inverse_root(float x)
{
    POOL_AS_WRITTEN
    union { float f; uint32_t u; } y = { x };
    y.u = 0x5f375a86u - (y.u >> 1);
    for (uint32_t i = 0; i < 4; i++) y.f *= 1.5f - 0.5f * x * y.f * y.f;
    return y.f;
}

/* The sum of total tokens' rows becomes their mean; with `normalize` the vector is divided by its length, unless all of it is 0. */
static inline void pool_end(float *vector, uint32_t pooling, uint32_t total, uint32_t n_embd, uint32_t normalize)
{
    POOL_AS_WRITTEN
    float most = 0, sum = 0, by = pooling == FORGE_POOL_MEAN ? 1.0f / (float)total : 1.0f;
    for (uint32_t c = 0; c < n_embd; c++) {
        const float x = vector[c] < 0 ? -vector[c] : vector[c];
        if (x > most) most = x;
    }
    if (normalize && most > 0) {                    /* of numbers up to 1, whose squares are neither too large nor too small */
        for (uint32_t c = 0; c < n_embd; c++) sum += vector[c] / most * (vector[c] / most);
        by = pool_inverse_root(sum) / most;
    }
    for (uint32_t c = 0; c < n_embd; c++) vector[c] *= by;
}
#endif
