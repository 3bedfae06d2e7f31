/* layers.h -- what GPUs in a row, each with some of the layers, pass on inside kernels: rows of values to the next one, and the token that
 * the last one draws to all, who go on with it.  As in exchange.h a value and the number of the step are one store of 8 bytes into the
 * memory of the GPU that reads.
 *
 * A part of that memory serves each third number.  That is enough: a token comes back behind every draw, and of the steps without one the
 * host puts none on the streams before all GPUs have ended the third one back.
 *
 * The source has RANKS, how many GPUs there are; part: bytes of a part; at: of a value in it; cols: of a row. */
#ifndef FORGE_LAYERS_H
#define FORGE_LAYERS_H
#include "exchange.h"
#include "layers_sizes.h"
#include "sample_tmpl.c"

DEVICE uint64_t layers_value_at(const uint32_t tag, const uint64_t part, const uint64_t at, const uint32_t cols, uint32_t t, uint32_t c)
{
    return LAYERS_VALUES + tag % LAYERS_PARTS * part + at + 8 * ((uint64_t)t * cols + c);
}
/* To the next one, whose memory it is. */
DEVICE void layers_send(const struct forge_kernel_args a, uint8_t *memory, const uint64_t part, const uint64_t at, const uint32_t cols,
                        uint32_t t, uint32_t c, float y)
{
    const uint32_t tag = exchange_tag(a);
    store_peer(memory + layers_value_at(tag, part, at, cols, t, c), (uint64_t)tag << 32 | bits_of_f32(y));
}
DEVICE float layers_received(const struct forge_kernel_args a, const uint64_t part, const uint64_t at, const uint32_t cols, uint32_t t,
                             uint32_t c)
{
    const uint32_t tag = exchange_tag(a);
    const uint64_t from = layers_value_at(tag, part, at, cols, t, c);
    return exchange_value(a, tag, from, load_peer(a.given + from));
}

DEVICE uint64_t layers_token_at(const uint32_t tag, uint32_t row) { return tag % LAYERS_PARTS * LAYERS_TOKEN_BYTES + 8 * row; }
/* The last one, behind its draw, which moves the numbers of the step on: tag is what exchange_tag was before.  token: of sample(), which
 * one thread has. */
DEVICE void layers_tell(const struct forge_kernel_args a, const uint32_t tag, uint32_t token)
{
    if (token == SAMPLE_ELSEWHERE) return;
    UNROLL
    for (uint32_t rank = 0; rank + 1 < RANKS; rank++)
        store_peer(a.exchange[rank] + layers_token_at(tag, group_y()), (uint64_t)tag << 32 | token);
}
/* The others, in the place of the draw: one group for each row. */
DEVICE void layers_follow(const struct forge_kernel_args a, const uint32_t n_ctx)
{
    if (thread_x() > 0) return;
    struct forge_gpu_step *own = a.step + group_y();
    const uint32_t tag = exchange_tag(a);
    const struct sample_step step = sample_step_of(own);
    const uint64_t at = layers_token_at(tag, group_y());
    const float token = exchange_value(a, tag, at, load_peer(a.given + at));
    sample_finish(own, &step, bits_of_f32(token), n_ctx);
}
#endif
