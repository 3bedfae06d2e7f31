/* formats_kernels.c -- a product (dot_FORMAT) and a decoding kernel (decode_FORMAT) of each weight format, one unit per thread.
 * To see the cost of a unit on each target: tests/device/compile.sh tests/kernel/formats_kernels.c */
#include "kernel.h"
#include "templates/gpu/acts_unit.h"
#include "cases.h"

#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"

/* This thread's unit and row, and their index in the case's arrays; false: the thread has no unit. */
DEVICE bool unit_here(const struct formats_case *c, uint32_t *unit, uint32_t *place, const uint8_t **row)
{
    *unit = group_x() * 64 + thread_x();
    *place = group_y() * c->steps + *unit;
    *row = c->rows + group_y() * c->row_bytes;
    return *unit < c->steps;
}
#define EACH_UNIT(format) \
    const struct formats_case *c = CASE(struct formats_case); \
    const uint8_t *row; \
    uint32_t unit, place; \
    struct unit_##format u; \
    if (!unit_here(c, &unit, &place, &row)) return; \
    load_##format(&u, row, unit, c->units);

#define DOT(format) \
    TEST_KERNEL(64, dot_##format##_units) \
    { \
        EACH_UNIT(format) \
        pin_##format(&u); \
        const struct acts_unit *x = &c->acts[place]; \
        c->product[place] = c->digits == 1 ? dot_##format(&u, x, unit, 1) : c->digits == 2 ? dot_##format(&u, x, unit, 2) \
            : dot_##format(&u, x, unit, 3); \
    }
#define DOTF(format) \
    TEST_KERNEL(64, dot_##format##_units) \
    { \
        EACH_UNIT(format) \
        pin_##format(&u); \
        const f32x4 *p = (const f32x4 *)(const void *)(c->floats + 8 * place); \
        const f32x4 x[2] = { p[0], p[1] }; \
        c->product[place] = dotf_##format(&u, x); \
    }
#define DECODE(format, rest) \
    TEST_KERNEL(64, decode_##format##_units) \
    { \
        EACH_UNIT(format) \
        uint32_t h[FORMATS_WORDS] = { 0 }; \
        decode_##format(h, &u, unit); \
        rest \
        for (uint32_t i = 0; i < FORMATS_WORDS; i++) c->decoded[place * FORMATS_WORDS + i] = h[i]; \
    }
#define REST_f32 decode_rest_f32(h + 2, &u, unit);
#define REST_f16
#define REST_bf16
#define QUANT_FLOAT(name, file, ...) DOTF(file) DECODE(file, REST_##file)
#define QUANT_BLOCK(name, file, ...) DOT(file) DECODE(file, )
#include "compiler/format/format.def"
