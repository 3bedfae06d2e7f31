/* pool.h -- makes the vector of a text from the rows that an embedding model computes for its tokens: their mean, the first or the last
 * row, then scaled to length 1.  Programs, libraries and the compiler share this file; it needs no libc. */
#ifndef FORGE_POOL_H
#define FORGE_POOL_H
#include "abi.h"

/* The values are those of the GGUF key {arch}.pooling_type; 0: a language model. */
enum forge_pooling { FORGE_POOL_MEAN = 1, FORGE_POOL_CLS = 2, FORGE_POOL_LAST = 3, FORGE_POOL_RANK = 4 };

/* Floats that a program computes for each token. */
static inline uint32_t program_columns(const struct forge_program *p) { return p->embedding ? p->n_embd : p->n_vocab; }

/* How many of its last tokens need a row, for a piece of n tokens that begins at position `at` of a text of `total` tokens. */
static inline uint32_t pool_rows(uint32_t pooling, uint32_t at, uint32_t n, uint32_t total)
{
    if (pooling == FORGE_POOL_MEAN) return n;
    if (pooling == FORGE_POOL_CLS) return at == 0 ? n : 0;
    return at + n == total;
}

/* Adds the rows of such a piece, [pool_rows][n_embd], to the vector [n_embd]. */
static inline void pool_add(float *vector, uint32_t pooling, const float *rows, uint32_t n_rows, uint32_t at, uint32_t n_embd)
{
    if (at == 0) for (uint32_t c = 0; c < n_embd; c++) vector[c] = 0;
    const uint32_t used = pooling == FORGE_POOL_CLS && n_rows > 1 ? 1 : n_rows;
    for (uint32_t t = 0; t < used; t++)
        for (uint32_t c = 0; c < n_embd; c++) vector[c] += rows[(uint64_t)t * n_embd + c];
}

/* The results must have the same bits for all instructions that the compiler may use.  clang contracts products and sums where the target
 * has FMA; gcc does not with -std=c11. */
#ifdef __clang__
#define POOL_AS_WRITTEN _Pragma("STDC FP_CONTRACT OFF")
#else
#define POOL_AS_WRITTEN
#endif

/* 1 / sqrt(x) for a normal x > 0: an estimate with an error of 3.5 % (constant: Lomont 2003), then Newton steps to the accuracy of a
 * float. */
static inline float pool_inverse_root(float x)
{
    POOL_AS_WRITTEN
    union { float f; uint32_t u; } y = { x };
    y.u = 0x5f375a86u - (y.u >> 1);
    for (uint32_t i = 0; i < 4; i++) y.f *= 1.5f - 0.5f * x * y.f * y.f;
    return y.f;
}

/* Turns the sum of the rows of `total` tokens into their mean.  normalize: divides the vector by its length, unless it is all zero. */
static inline void pool_end(float *vector, uint32_t pooling, uint32_t total, uint32_t n_embd, uint32_t normalize)
{
    POOL_AS_WRITTEN
    float most = 0, sum = 0, by = pooling == FORGE_POOL_MEAN ? 1.0f / (float)total : 1.0f;
    for (uint32_t c = 0; c < n_embd; c++) {
        const float x = vector[c] < 0 ? -vector[c] : vector[c];
        if (x > most) most = x;
    }
    if (normalize && most > 0) {                    /* values up to 1, so their squares neither overflow nor underflow */
        for (uint32_t c = 0; c < n_embd; c++) sum += vector[c] / most * (vector[c] / most);
        by = pool_inverse_root(sum) / most;
    }
    for (uint32_t c = 0; c < n_embd; c++) vector[c] *= by;
}
#endif
