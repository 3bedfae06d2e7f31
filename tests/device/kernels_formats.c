/* kernels_formats.c -- a product and a decoding kernel for each weight format, one unit a lane: what a unit costs on each target.
 *   tests/device/compile.sh tests/device/kernels_formats.c */
#include "templates/gpu/launch.h"
#include "templates/gpu/formats/f32.h"
#include "templates/gpu/formats/f16.h"
#include "templates/gpu/formats/bf16.h"
#include "templates/gpu/formats/q8_0.h"
#include "templates/gpu/formats/q4_0.h"
#include "templates/gpu/formats/q4_1.h"
#include "templates/gpu/formats/q5_0.h"
#include "templates/gpu/formats/q5_1.h"
#include "templates/gpu/formats/q2_K.h"
#include "templates/gpu/formats/q3_K.h"
#include "templates/gpu/formats/q4_K.h"
#include "templates/gpu/formats/q5_K.h"
#include "templates/gpu/formats/q6_K.h"
#include "templates/gpu/formats/iq4_nl.h"
#include "templates/gpu/formats/iq4_xs.h"
#include "templates/gpu/formats/mxfp4.h"

/* Activations from the arena, the product back into it. */
#define DOT(fmt, digits) \
    KERNEL(256, 1) dot##digits##_##fmt##_kernel(const struct forge_kernel_args a) \
    { \
        const uint32_t unit = thread_x(); \
        struct unit_##fmt u; \
        load_##fmt(&u, WEIGHT(0), unit, 256); \
        pin_##fmt(&u); \
        struct acts_unit x = ((const struct acts_unit *)(const void *)BUFFER(0))[unit]; \
        x.one = 0; \
        FLOATS(1 << 20)[unit] = dot_##fmt(&u, &x, unit, digits); \
    }
#define DOTF(fmt) \
    KERNEL(256, 1) dotf_##fmt##_kernel(const struct forge_kernel_args a) \
    { \
        const uint32_t unit = thread_x(); \
        struct unit_##fmt u; \
        load_##fmt(&u, WEIGHT(0), unit, 256); \
        pin_##fmt(&u); \
        const f32x4 *p = (const f32x4 *)(const void *)BUFFER(0); \
        const f32x4 x[2] = { p[2 * unit], p[2 * unit + 1] }; \
        FLOATS(1 << 20)[unit] = dotf_##fmt(&u, x); \
    }
#define DECODE(fmt, words) \
    KERNEL(256, 1) decode_##fmt##_kernel(const struct forge_kernel_args a) \
    { \
        const uint32_t unit = thread_x(); \
        struct unit_##fmt u; \
        uint32_t h[words]; \
        load_##fmt(&u, WEIGHT(0), unit, 256); \
        decode_##fmt(h, &u, unit); \
        for (uint32_t i = 0; i < words / 2; i++) { \
            const u32x2 pair = { h[2 * i], h[2 * i + 1] }; \
            ((u32x2 *)(void *)BUFFER(0))[unit + 256 * i] = pair; \
        } \
    }
#define QUANTISED(fmt) DOT(fmt, 1) DOT(fmt, 2) DECODE(fmt, 32)
QUANTISED(q8_0)
QUANTISED(q4_0)
QUANTISED(q4_1)
QUANTISED(q5_0)
QUANTISED(q5_1)
QUANTISED(q2_K)
QUANTISED(q3_K)
QUANTISED(q4_K)
QUANTISED(q5_K)
QUANTISED(q6_K)
QUANTISED(iq4_nl)
QUANTISED(iq4_xs)
QUANTISED(mxfp4)
DOTF(f32)
DOTF(f16)
DOTF(bf16)
DECODE(f32, 2)
DECODE(f16, 4)
DECODE(bf16, 4)
