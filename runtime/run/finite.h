/* finite.h -- are logits numbers?  Told by their bits, so that no compiler's view of NaN has a say.  Programs and libraries. */
#ifndef FORGE_FINITE_H
#define FORGE_FINITE_H
#include <stddef.h>
#include <stdint.h>

static inline uint32_t finite_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

/* The first of x [n] that is NaN or infinite; n: none is. */
static inline size_t first_not_finite(const float *x, size_t n)
{
    enum { RUN = 1024 };
    for (size_t from = 0; from < n; from += RUN) {
        const size_t end = n - from < RUN ? n : from + RUN;
        uint32_t bad = 0;                        /* its sign: set where all bits of an exponent are 1; a loop that vectorises */
        for (size_t i = from; i < end; i++) bad |= finite_bits(x[i]) + 0x00800000u;
        for (size_t i = from; i < end && bad >> 31; i++)
            if (finite_bits(x[i]) >= 0x7f800000u) return i;
    }
    return n;
}

/* printf: the tokens of the context, what was found; what: "logits".  A sentence for FORGE_BAD_WEIGHTS that says what is known, no more:
 * forgec packs no such weights. */
#define NOT_FINITE_TEXT(what) \
    "the " what " after %u tokens of context are not finite (%s): the weights were finite when forgec packed them, so either they have " \
    "changed since (--check compares their hashes), or a number overflows: a wrong hyperparameter in the GGUF " \
    "(forgec verify compares with a plain reading), or keys or values beyond f16 (forgec build --kv f32)"

#endif
