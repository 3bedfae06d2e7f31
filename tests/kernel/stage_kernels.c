/* stage_kernels.c -- rows prepared for products, norms, elementwise operations, embedding rows of all formats: a workgroup per token. */
#include "kernel.h"
#include "templates/gpu/elementwise.h"
#include "cases.h"

#define EACH_FORMAT "tests/kernel/gpu_format.h"
#include "compiler/format/format.def"
#define EACH_FORMAT "templates/gpu/embed_tmpl.c"
#include "compiler/format/format.def"

DEVICE const float *row_of(const uint8_t *rows, const struct stage_case *c, uint32_t t)
{
    return (const float *)(const void *)(rows + (uint64_t)t * c->x_stride);
}
DEVICE const float *row_x(const struct stage_case *c, uint32_t t) { return row_of(c->x, c, t); }
DEVICE const float *row_y(const struct stage_case *c, uint32_t t) { return row_of(c->y, c, t); }
DEVICE uint8_t *row_out(const struct stage_case *c, uint32_t t)   { return c->out + (uint64_t)t * c->out_stride; }
DEVICE float *floats_out(const struct stage_case *c, uint32_t t)  { return (float *)(void *)row_out(c, t); }

TEST_KERNEL(256, stage_of_rows)
{
    const struct stage_case *c = CASE(struct stage_case);
    const uint32_t t = first_token(a) + group_y();
    pdl_launch();
    pdl_wait();
    stage_rows(row_out(c, t), row_x(c, t), c->weight, c->cols, c->eps, c->norm, c->bf16, c->threads);
}
TEST_KERNEL(256, norm_of_rows)
{
    const struct stage_case *c = CASE(struct stage_case);
    const uint32_t t = first_token(a) + group_y();
    pdl_launch();
    pdl_wait();
    norm_row(floats_out(c, t), row_x(c, t), c->weight, c->cols, c->eps, c->threads);
}
TEST_KERNEL(256, elementwise)
{
    const struct stage_case *c = CASE(struct stage_case);
    const uint32_t t = first_token(a) + group_y();
    pdl_launch();
    pdl_wait();
    if (c->what == STAGE_ADD) add_row(floats_out(c, t), row_x(c, t), row_y(c, t), c->cols, c->threads);
    if (c->what == STAGE_BIAS) bias_row(floats_out(c, t), row_x(c, t), c->weight, c->cols, c->threads);
    if (c->what == STAGE_SILU) glu_silu_row(floats_out(c, t), row_x(c, t), row_y(c, t), c->cols, c->threads);
    if (c->what == STAGE_GELU) glu_gelu_row(floats_out(c, t), row_x(c, t), row_y(c, t), c->cols, c->threads);
}
#define QUANT(name, file, ...) \
    TEST_KERNEL(256, embed_##file##_rows) \
    { \
        const struct stage_case *c = CASE(struct stage_case); \
        pdl_launch(); \
        pdl_wait(); \
        embed_row_##file(floats_out(c, group_y()), c->table, (uint32_t)c->tokens[group_y()], c->cols, c->threads); \
    }
#include "compiler/format/format.def"
