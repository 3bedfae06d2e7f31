/* pack_gpu.h -- GGUF weight rows into the layout the GPU kernels read (docs/gpu.md). */
#ifndef FORGEC_PACK_GPU_H
#define FORGEC_PACK_GPU_H
#include <stdint.h>

/* Bytes of a packed row, a multiple of 16: ROW_BYTES of templates/gpu/formats.  quant_id: enum quant.
 * cols: a multiple of the format's block; anything for floats. */
uint64_t pack_gpu_row_bytes(uint32_t quant_id, uint64_t cols);
/* out: [n_rows][pack_gpu_row_bytes], every byte is written.  gguf_rows: [n_rows] rows of blocks, any alignment.
 * Threads may pack different rows at the same time.  Cannot fail. */
void pack_gpu_rows(uint8_t *out, uint32_t quant_id, const uint8_t *gguf_rows, uint64_t cols, uint64_t n_rows);
#endif
