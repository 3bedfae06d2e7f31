/* put.h -- declarations shared by the files that write WGSL kernels: kernels.c (all kernels), put_values.c (operations on values),
 * put_products.c, put_attention.c. They decide nothing. */
#ifndef FORGEC_WEB_PUT_H
#define FORGEC_WEB_PUT_H
#include "choose.h"
#include "wgsl.h"

struct wgsl_writer {
    struct arena           *arena;
    const struct plan      *plan;
    const struct kernel    *kernel;
    const struct launch    *launch;          /* its weights have the kernel's slots */
    const struct group     *group;
    const struct web_group *wg;
    struct wgsl            *w;               /* the templates that it needs */
    struct text             head, functions, body;      /* constants; the module's own functions; lines of main */
    uint32_t                depth;           /* of open braces */
    bool                    atomic_state;    /* the state is an array of atomics */
};

/* Appends one indented line to main, or to the function begun last. */
void web_put(struct wgsl_writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Makes the items of a template known, with the words FORMAT, WEIGHTS, PAIR, SINK, KV and STATE replaced as given; NULL: not replaced. */
struct web_words { const char *format, *weights, *pair, *sink, *kv, *state; };
void web_use(struct wgsl_writer *w, const char *path, struct web_words words);
/* "const NAME = 5u;" of the module. */
void web_constant(struct wgsl_writer *w, const char *name, uint32_t value);
/* A function of the module: its body is the lines put between the two calls. Pass the result of begin to end. */
struct text web_function_begin(struct wgsl_writer *w);
void web_function_end(struct wgsl_writer *w, struct text outer, const char *declaration);

/* "forge_vector(2u)": the piece (16 bytes) of `vectors` where a vector begins; "NO_VECTOR" if v is NULL. */
const char *web_vector(struct wgsl_writer *w, const struct weight *v);
const char *web_vector_at(struct wgsl_writer *w, uint64_t offset);
/* The pieces where a rotation's two tables begin, high and low, for the length of the step's text. */
const char *web_tables(struct wgsl_writer *w, const struct node *rope);
/* "m0": the binding of a part of a matrix. */
const char *web_matrix(struct wgsl_writer *w, const struct web_part *part, const struct weight *m);
/* The first part with number i or higher that the launch uses; n_parts: there is no such part. */
uint32_t web_next_part(const struct wgsl_writer *w, uint32_t i);
/* "128u + t * 64u": the word of the arena where row t of a value begins. */
const char *web_row(struct wgsl_writer *w, struct web_place at, const char *t);
const char *web_value(struct wgsl_writer *w, const struct node *n, const char *t);
const char *web_float(struct wgsl_writer *w, double x);

/* put_values.c: operations from .. to - 1 of a branch's chain on y, column r of token t; operations of the partner on up. */
void web_put_chain(struct wgsl_writer *w, const struct branch *b, uint32_t from, uint32_t to);
void web_put_partner(struct wgsl_writer *w, const struct branch *up);
/* Stores y in the row of n. */
void web_put_result(struct wgsl_writer *w, const struct node *n);
void web_put_map(struct wgsl_writer *w);
void web_put_sequence(struct wgsl_writer *w);
void web_put_route(struct wgsl_writer *w);
void web_put_gemv(struct wgsl_writer *w);
void web_put_list(struct wgsl_writer *w);
void web_put_stage(struct wgsl_writer *w);
void web_put_gemm(struct wgsl_writer *w);
void web_put_heads(struct wgsl_writer *w);
void web_put_attention(struct wgsl_writer *w);
void web_put_store(struct wgsl_writer *w);
#endif
