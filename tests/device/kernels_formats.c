/* kernels_formats.c -- a product and a decoding kernel for each weight format, one unit a lane: what a unit costs on each target.
 *   tests/device/compile.sh tests/device/kernels_formats.c */
#include "templates/gpu/launch.h"
#define EACH_FORMAT "tests/device/gpu_format.h"
#include "compiler/format/format.def"

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
/* 16 bytes of floats are a unit: as f16 or bf16 pairs. */
#define QUANT_FLOAT(name, file, id, weights, bytes, ...) DOTF(file) DECODE(file, 8 / bytes)
#define QUANT_BLOCK(name, file, ...) DOT(file, 1) DOT(file, 2) DECODE(file, 32)
#include "compiler/format/format.def"
