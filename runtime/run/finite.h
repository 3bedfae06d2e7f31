/* finite.h -- are logits finite?  Decided by their bits, so that compiler options about NaN have no effect.  For programs and libraries. */
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

/* Index of the first of x [n] that is NaN or infinite; n: all are finite. */
static inline size_t first_not_finite(const float *x, size_t n)
{
    enum { RUN = 1024 };
    for (size_t from = 0; from < n; from += RUN) {
        const size_t end = n - from < RUN ? n : from + RUN;
        uint32_t bad = 0;                        /* sign bit: set if all bits of an exponent are 1; the loop vectorises */
        for (size_t i = from; i < end; i++) bad |= finite_bits(x[i]) + 0x00800000u;
        for (size_t i = from; i < end && bad >> 31; i++)
            if (finite_bits(x[i]) >= 0x7f800000u) return i;
    }
    return n;
}

/* printf arguments: the number of tokens in the context, and what was found; what: "logits".  The sentence for FORGE_BAD_WEIGHTS says
 * only what is known: forgec does not pack such weights. */
#define NOT_FINITE_TEXT(what) \
    "the " what " after %u tokens of context are not finite (%s): the weights were finite when forgec packed them, so either they have " \
    "changed since (--check compares their hashes), or a number overflows: a wrong hyperparameter in the GGUF " \
    "(forgec verify compares with a plain reading), or keys or values beyond f16 (forgec build --kv f32)"

#endif
