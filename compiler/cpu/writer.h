/* writer.h -- the text of one kernel in the making, and the lines that products and maps share. */
#ifndef FORGEC_CPU_WRITER_H
#define FORGEC_CPU_WRITER_H
#include "choose.h"

struct writer {
    struct arena            *arena;
    const struct plan       *plan;
    const struct kernel     *kernel;
    const struct launch     *launch;
    const struct group      *group;         /* of the launch */
    const struct group_plan *gp;
    bool                     many;          /* tokens, counted by t; else one */
    uint32_t                 form;          /* of packed rows: 0 decode's, 1 prefill's */
    const char              *t;             /* "t", or "0" */
    struct text              body;
    uint32_t                 depth;         /* of braces */
};

/* One line of the body, indented; a line that ends in "{" opens a level, one that begins with "}" closes it. */
void put(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Opens a loop over the pieces of work of the launch, `total` of them: those now to do are s.first .. s.last - 1. */
void put_work(struct writer *w, const char *total);
/* The name among the launch's weights of the tensor at this offset of the image, or of a weight. */
const char *weight_at(const struct writer *w, uint64_t offset);
const char *weight_of(const struct writer *w, const struct weight *weight);
/* Row t of a buffer: "VALUE(FFN_INP, t)", "ROW(...)"; of a rotation's table. */
const char *float_row(const struct writer *w, const struct buffer *b);
const char *byte_row(const struct writer *w, const struct buffer *b);
/* Row `t` of packed ones, a text. */
const char *packed_row(const struct writer *w, const struct buffer *b, const char *t);
const char *rotation_row(const struct writer *w, const struct rotation_plan *r);
/* A statement that packs a row x of so many columns into xq, or block `block` of a row at `row`, from y on; texts. */
const char *pack_row(const struct writer *w, enum row_form form, const char *xq, const char *x, uint32_t cols);
const char *pack_block(const struct writer *w, enum row_form form, const char *row, const char *y, const char *block, uint32_t cols);
/* "XQ_STRIDE(64u)": of one packed row of so many columns. */
const char *packed_bytes(const struct writer *w, enum row_form form, uint32_t cols);
/* `name` scratch memory of the thread, from `offset` on, "0" or "SCRATCH_ROWS", as floats. */
void put_scratch(struct writer *w, const char *name, const char *offset);
/* "VECTOR(W_ATTN_NORM)", or "0" where a norm has no weight. */
const char *vector_of(const struct writer *w, const struct node *n);
/* "rmsnorm(y, x, VECTOR(W_FFN_NORM), 64, 1e-5f);" */
const char *norm_call(const struct writer *w, const struct node *n, const char *y, const char *x);
/* What is done with y[n], rows r .. r + n - 1 of the branch's result, token t; n: text.  unit: rows of y at most. */
void put_chain(struct writer *w, const struct branch *b, uint32_t unit, const char *n);
/* Operation i of the chain alone. */
void put_operation(struct writer *w, const struct branch *b, uint32_t i, uint32_t unit, const char *n);
/* Expert e's row of the weight of an expert_bias or expert_times; what it does with rows r .. r + n - 1, in `y`. */
const char *expert_row(const struct writer *w, const struct node *n);
void put_expert_row(struct writer *w, const struct node *n, const char *y, const char *count);
/* What is done with the rows beside y, `up`, before a glu joins them. */
void put_partner(struct writer *w, const struct branch *up, const char *n);
/* Where they go then. */
/* Row t of the logits, or of the rows of embeddings. */
const char *logits_row(const struct writer *w, uint32_t cols);
void put_sink(struct writer *w, const struct branch *b, const char *n);
/* Rows r .. r + n - 1 of units of `unit` rows; returns n as text. */
const char *put_rows(struct writer *w, uint32_t rows, uint32_t unit, const char *r);
#endif
