/* pack_cpu.h -- GGUF weight rows into the layout the CPU kernels read (docs/kernels.md). */
#ifndef FORGEC_PACK_H
#define FORGEC_PACK_H
#include <stdint.h>

enum { PACK_ROWS = 16 };            /* rows of a group */

/* Bytes of a packed matrix, and of one of its groups of 16 rows (a multiple of 64).  quant_id: enum quant.
 * cols is a multiple of the format's block. */
uint64_t pack_bytes(uint32_t quant_id, uint64_t rows, uint64_t cols);
uint64_t pack_group_bytes(uint32_t quant_id, uint64_t cols);
/* Packs groups first_group .. first_group + n_groups - 1 of a matrix; group g holds rows 16 g .. 16 g + 15, zeros beyond the last.
 * out: [n_groups][pack_group_bytes], where first_group goes.  gguf_rows: row 0 of the matrix, [rows] rows of blocks, any alignment.
 * Threads may pack different ranges at the same time.  Cannot fail. */
void pack_rows(uint8_t *out, uint32_t quant_id, const uint8_t *gguf_rows, uint64_t rows, uint64_t cols, uint64_t first_group, uint64_t n_groups);
#endif
