/* writer.h -- the state of writing one kernel's text, and the lines that products and maps share. All returned texts are C expressions or
 * statements and lie in the arena. */
#ifndef FORGEC_CPU_WRITER_H
#define FORGEC_CPU_WRITER_H
#include "choose.h"

struct cpu_writer {
    struct arena            *arena;
    const struct plan       *plan;
    const struct kernel     *kernel;
    const struct launch     *launch;
    const struct group      *group;         /* of the launch */
    const struct group_plan *gp;
    bool                     many;          /* the kernel works on several tokens, counted by t; else on one */
    uint32_t                 form;          /* form of packed rows: 0 as in decode, 1 as in prefill */
    const char              *t;             /* the token's row: "t", "0", or "a->row" in decode's attention */
    struct text              body;
    uint32_t                 depth;         /* of open braces */
};

/* Appends one indented line to the body. A line that ends with "{" opens a level, a line that begins with "}" closes it. */
void put(struct cpu_writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Opens a loop over the launch's `total` pieces of work: each round does the pieces s.first .. s.last - 1. */
void put_work(struct cpu_writer *w, const char *total);
/* The symbol of the tensor at this byte offset of the image, or of a weight. Dies if the launch does not have it. */
const char *weight_at(const struct cpu_writer *w, uint64_t offset);
const char *weight_of(const struct cpu_writer *w, const struct weight *weight);
/* Row w->t of a buffer, as floats "VALUE(FFN_INP, t)" and as bytes "ROW(...)". */
const char *float_row(const struct cpu_writer *w, const struct buffer *b);
const char *byte_row(const struct cpu_writer *w, const struct buffer *b);
/* Row t, an expression, of a buffer of packed rows. */
const char *packed_row(const struct cpu_writer *w, const struct buffer *b, const char *t);
/* Row w->t of the table of a rotation. */
const char *rotation_row(const struct cpu_writer *w, const struct rotation_plan *r);
/* Statements that pack a row x of `cols` columns into xq, and the floats from y on into block `block` of the packed row `row`. */
const char *pack_row(const struct cpu_writer *w, enum row_form form, const char *xq, const char *x, uint32_t cols);
const char *pack_block(const struct cpu_writer *w, enum row_form form, const char *row, const char *y, const char *block, uint32_t cols);
/* The bytes of one packed row of `cols` columns: "XQ_STRIDE(64u)". */
const char *packed_bytes(const struct cpu_writer *w, enum row_form form, uint32_t cols);
/* Declares `name` as a pointer to floats in the thread's scratch memory, at `offset`: "0" or "SCRATCH_ROWS". */
void put_scratch(struct cpu_writer *w, const char *name, const char *offset);
/* The weight of n, "VECTOR(W_ATTN_NORM)", or "0" if it has none. */
const char *vector_of(const struct cpu_writer *w, const struct node *n);
/* "rmsnorm(y, x, VECTOR(W_FFN_NORM), 64, 1e-5f);" */
const char *norm_call(const struct cpu_writer *w, const struct node *n, const char *y, const char *x);
/* The operations of the branch's chain on y[n], rows r .. r + n - 1 of token t; n: an expression. unit: maximum rows of y. */
void put_chain(struct cpu_writer *w, const struct branch *b, uint32_t unit, const char *n);
/* Only operation i of the chain. */
void put_operation(struct cpu_writer *w, const struct branch *b, uint32_t i, uint32_t unit, const char *n);
/* Expert e's row in the weight of an expert_bias or expert_times; the operation on rows r .. r + count - 1, which are in y. */
const char *expert_row(const struct cpu_writer *w, const struct node *n);
void put_expert_row(struct cpu_writer *w, const struct node *n, const char *y, const char *count);
/* The operations of the partner's chain on its rows `up`, before the glu reads them. */
void put_partner(struct cpu_writer *w, const struct branch *up, const char *n);
/* Row t of the logits, or of the embeddings. */
const char *logits_row(const struct cpu_writer *w, uint32_t cols);
/* Stores y[n] as rows r .. r + n - 1 of the branch's result, in every form in which it is kept. */
void put_sink(struct cpu_writer *w, const struct branch *b, const char *n);
/* Declares r, the first row of a unit of `unit` rows, and n if the last unit is smaller. Returns the number of rows as an expression. */
const char *put_rows(struct cpu_writer *w, uint32_t rows, uint32_t unit, const char *r);
#endif
