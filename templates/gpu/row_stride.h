/* row_stride.h -- bytes from one row of packed weights to the next.  Constant expressions of C, for the packer too.
 *
 * A row has ROW_BYTES of its format.  If the target has a row_period and the bytes of a row are a multiple of it, all rows would begin in
 * the same few channels of memory; each row then gets 16 to 128 bytes more, for rows of 1,024 bytes and more at most 1/64
 * (docs/gpu_internals.md). */
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
