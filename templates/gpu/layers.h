/* layers.h -- data that pipeline stages send each other inside kernels: rows of values to the next stage, and the token that the last stage
 * draws to all others.  As in collective.h, one store of 8 bytes into the reader's memory has a value and the number of the step.
 *
 * That memory has LAYERS_PARTS (3) parts, which step numbers use in turn.  Three are enough: after every draw a token comes back, and
 * before the host queues a step without a draw, all GPUs have ended the third step before it.
 *
 * The source defines RANKS, the number of GPUs.  part: bytes of a part; at: offset of a value in it; cols: columns of a row. */
#ifndef FORGE_LAYERS_H
#define FORGE_LAYERS_H
#include "collective.h"
#include "layers_sizes.h"
#include "sample_tmpl.c"

DEVICE uint64_t layers_value_at(const uint32_t tag, const uint64_t part, const uint64_t at, const uint32_t cols, uint32_t t, uint32_t c)
{
    return LAYERS_VALUES + tag % LAYERS_PARTS * part + at + 8 * ((uint64_t)t * cols + c);
}
/* Sends a value to the next stage; memory: of that GPU. */
DEVICE void layers_send(const struct forge_kernel_args a, uint8_t *memory, const uint64_t part, const uint64_t at, const uint32_t cols,
                        uint32_t t, uint32_t c, float y)
{
    const uint32_t tag = collective_tag(a);
    store_peer(memory + layers_value_at(tag, part, at, cols, t, c), (uint64_t)tag << 32 | bits_of_f32(y));
}
DEVICE float layers_received(const struct forge_kernel_args a, const uint64_t part, const uint64_t at, const uint32_t cols, uint32_t t,
                             uint32_t c)
{
    const uint32_t tag = collective_tag(a);
    const uint64_t from = layers_value_at(tag, part, at, cols, t, c);
    return collective_value(a, tag, from, load_peer(a.given + from));
}

DEVICE uint64_t layers_token_at(const uint32_t tag, uint32_t row) { return tag % LAYERS_PARTS * LAYERS_TOKEN_BYTES + 8 * row; }
/* The last stage sends the drawn token to all others.  The draw advances the step's number: tag is the value of collective_tag before it.
 * token: the result of sample(), which one thread has. */
DEVICE void layers_tell(const struct forge_kernel_args a, const uint32_t tag, uint32_t token)
{
    if (token == SAMPLE_ELSEWHERE) return;
    UNROLL
    for (uint32_t rank = 0; rank + 1 < RANKS; rank++)
        store_peer(a.collective[rank] + layers_token_at(tag, group_y()), (uint64_t)tag << 32 | token);
}
/* The other stages wait for the token in place of the draw: one group for each row. */
DEVICE void layers_follow(const struct forge_kernel_args a, const uint32_t n_ctx)
{
    if (thread_x() > 0) return;
    struct forge_gpu_step *own = a.step + group_y();
    const uint32_t tag = collective_tag(a);
    const struct sample_step step = sample_step_of(own);
    const uint64_t at = layers_token_at(tag, group_y());
    const float token = collective_value(a, tag, at, load_peer(a.given + at));
    sample_finish(own, &step, bits_of_f32(token), n_ctx);
}
#endif
