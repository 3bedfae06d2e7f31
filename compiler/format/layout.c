/* layout.c -- a matrix in a layout: groups one after the other. */
#include "layout.h"
#include "templates/gpu/row_stride.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

enum { GROUP_ROWS_MOST = 16 };

extern const struct packed_layout layout_cpu, layout_gpu;

struct packing packing_of(enum layout kind, const struct format *f, uint32_t row_period)
{
    static const struct packed_layout *const layouts[] = { [LAYOUT_CPU] = &layout_cpu, [LAYOUT_GPU] = &layout_gpu };
    return (struct packing){ layouts[kind], f, row_period };
}
uint64_t packing_pad_bytes(struct packing p, uint64_t cols)
{
    const uint64_t bytes = p.layout->group_bytes(p.format, cols);
    return p.row_period && bytes % p.row_period == 0 ? ROW_PAD(bytes) : 0;
}
uint64_t packing_group_bytes(struct packing p, uint64_t cols)
{
    assert(cols % p.format->block_weights == 0);
    return p.layout->group_bytes(p.format, cols) + packing_pad_bytes(p, cols);
}
uint64_t packing_row_bytes(struct packing p, uint64_t cols) { return packing_group_bytes(p, cols) / p.layout->group_rows; }
uint64_t packing_bytes(struct packing p, uint64_t rows, uint64_t cols)
{
    return (rows + p.layout->group_rows - 1) / p.layout->group_rows * packing_group_bytes(p, cols);
}
uint64_t packing_vector_bytes(uint64_t cols) { return (cols + 15) / 16 * 16 * sizeof(float); }
void packing_write(struct packing p, uint8_t *out, const uint8_t *gguf_rows, uint64_t rows, uint64_t cols, uint64_t first_group,
                   uint64_t n_groups)
{
    const uint64_t row_bytes = format_row_bytes(p.format, cols), group_bytes = packing_group_bytes(p, cols);
    const uint64_t pad = packing_pad_bytes(p, cols);
    const uint32_t group_rows = p.layout->group_rows;
    for (uint64_t g = 0; g < n_groups; g++) {
        const uint8_t *row[GROUP_ROWS_MOST];
        for (uint32_t r = 0; r < group_rows; r++) {
            const uint64_t index = (first_group + g) * group_rows + r;
            row[r] = index < rows ? gguf_rows + index * row_bytes : NULL;
        }
        p.layout->pack_group(out + g * group_bytes, p.format, row, cols);
        memset(out + (g + 1) * group_bytes - pad, 0, (size_t)pad);
    }
}
void packing_read(struct packing p, float *out, const uint8_t *packed, uint64_t row, uint64_t cols)
{
    const uint32_t group_rows = p.layout->group_rows;
    p.layout->unpack_row(out, p.format, packed + row / group_rows * packing_group_bytes(p, cols), (uint32_t)(row % group_rows), cols);
}
