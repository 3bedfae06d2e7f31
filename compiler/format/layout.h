/* layout.h -- the orders in which kernels read the weights of a matrix (docs/kernels.md, docs/gpu_internals.md): GGUF rows into packed
 * bytes, and back. */
#ifndef FORGEC_LAYOUT_H
#define FORGEC_LAYOUT_H
#include "format.h"

enum layout { LAYOUT_CPU, LAYOUT_GPU };          /* groups of 16 rows in planes; rows of planes */

struct packed_layout {
    const char *name;
    uint32_t    version;               /* name and version are part of an image's hash: a change of the bytes needs a new version */
    uint32_t    group_rows;            /* rows that are packed together; groups follow each other */
    /* Bytes of a group without the padding for row_period; a multiple of the alignment that kernels rely on: CPU 64, GPU 16. */
    uint64_t  (*group_bytes)(const struct format *f, uint64_t cols);
    /* rows: [group_rows] rows of blocks, any alignment; NULL: there is no such row, its weights are 0. Writes every byte of the group. */
    void      (*pack_group)(uint8_t *out, const struct format *f, const uint8_t *const *rows, uint64_t cols);
    /* out: [cols] weights of one row of a packed group, rounded as GGML rounds them. */
    void      (*unpack_row)(float *out, const struct format *f, const uint8_t *group, uint32_t row, uint64_t cols);
};

/* A format in a layout. cols below: a multiple of the format's block. row_period: groups (of one row: LAYOUT_GPU) with a size that is a
 * multiple of it are padded (templates/gpu/row_stride.h); 0: no padding. */
struct packing { const struct packed_layout *layout; const struct format *format; uint32_t row_period; };
struct packing packing_of(enum layout kind, const struct format *f, uint32_t row_period);

uint64_t packing_pad_bytes(struct packing p, uint64_t cols);                  /* of a group: zeros after its rows */
uint64_t packing_group_bytes(struct packing p, uint64_t cols);
uint64_t packing_row_bytes(struct packing p, uint64_t cols);                  /* a row's share of its group */
uint64_t packing_bytes(struct packing p, uint64_t rows, uint64_t cols);       /* of a whole matrix */
/* Bytes of a vector: in every layout it is floats, padded to a multiple of 16. */
uint64_t packing_vector_bytes(uint64_t cols);
/* Packs groups first_group .. first_group + n_groups - 1 of a matrix of `rows` rows. out: the place of first_group.
 * gguf_rows: row 0 of the matrix. Threads may pack different ranges at the same time. Cannot fail. */
void packing_write(struct packing p, uint8_t *out, const uint8_t *gguf_rows, uint64_t rows, uint64_t cols, uint64_t first_group,
                   uint64_t n_groups);
/* out: [cols] = row `row` of a packed matrix. */
void packing_read(struct packing p, float *out, const uint8_t *packed, uint64_t row, uint64_t cols);
#endif
