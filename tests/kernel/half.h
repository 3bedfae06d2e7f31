/* half.h -- f16 bits of floats and back, on any machine. */
#ifndef FORGE_TESTS_HALF_H
#define FORGE_TESTS_HALF_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* To nearest even. */
static inline uint16_t half_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    const uint32_t sign = u >> 16 & 0x8000;
    const float size = fabsf(x);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f) return (uint16_t)(sign | (uint32_t)rintf(size * 0x1p24f));
    memcpy(&u, &size, 4);
    u += 0xfffu + (u >> 13 & 1u);                /* to nearest even */
    return (uint16_t)(sign | ((u >> 13) - (112u << 10)));
}
static inline float float_of_half(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
        : exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return h >> 15 ? -size : size;
}
#endif
