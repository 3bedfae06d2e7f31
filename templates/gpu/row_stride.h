/* row_stride.h -- bytes from one row of packed weights to the next.  Constant expressions of C, for the packer too.
 *
 * Rows are as long as ROW_BYTES of their format says, unless the target has a row_period: rows whose bytes are a multiple of it would begin
 * in the same few channels of memory, so each of them gets 16 to 128 bytes more, at most a 64th of 1,024 and more (docs/gpu.md). */
#ifndef FORGE_ROW_STRIDE_H
#define FORGE_ROW_STRIDE_H

/* bytes: of a row, a multiple of 16. */
#define ROW_PAD(bytes) ((bytes) >= 8192u ? 128u : (bytes) >= 4096u ? 64u : (bytes) >= 2048u ? 32u : 16u)

#if defined(ROW_PERIOD)
#define ROW_STRIDE(bytes) ((bytes) + ((bytes) % ROW_PERIOD == 0 ? ROW_PAD(bytes) : 0u))
#else
#define ROW_STRIDE(bytes) (bytes)
#endif
#endif
