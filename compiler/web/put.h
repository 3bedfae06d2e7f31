/* put.h -- what the files that write kernels of WGSL share: kernels.c (all of them), put_values.c (operations on values), put_products.c,
 * put_attention.c.  Nothing is decided here. */
#ifndef FORGEC_WEB_PUT_H
#define FORGEC_WEB_PUT_H
#include "choose.h"
#include "wgsl.h"

struct writer {
    struct arena           *arena;
    const struct plan      *plan;
    const struct kernel    *kernel;
    const struct launch    *launch;          /* whose weights have its slots */
    const struct group     *group;
    const struct web_group *wg;
    struct wgsl            *w;               /* the templates that it needs */
    struct text             head, functions, body;      /* constants; functions of its own; lines of main */
    uint32_t                depth;
    bool                    atomic_state;    /* the state is an array of atomics */
};

/* One line of main, or of the function that is begun, indented. */
void web_put(struct writer *w, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Items of a template, with FORMAT, WEIGHTS, PAIR, SINK, KV and STATE as given; NULL: not that word. */
struct web_words { const char *format, *weights, *pair, *sink, *kv, *state; };
void web_use(struct writer *w, const char *path, struct web_words words);
/* "const NAME = 5u;" of the module. */
void web_constant(struct writer *w, const char *name, uint32_t value);
/* A function of the module: lines between the two; begin returns what end needs. */
struct text web_function_begin(struct writer *w);
void web_function_end(struct writer *w, struct text outer, const char *declaration);

/* "forge_vector(2u)": the piece of `vectors` where a vector begins; NULL: "NO_VECTOR". */
const char *web_vector(struct writer *w, const struct weight *v);
const char *web_vector_at(struct writer *w, uint64_t offset);
/* "m0": the binding of a part of a matrix. */
const char *web_matrix(struct writer *w, const struct web_part *part, const struct weight *m);
/* The next part from number i on that the launch has; n_parts: none. */
uint32_t web_next_part(const struct writer *w, uint32_t i);
/* "128u + t * 64u": the word of the arena where row t of a value begins. */
const char *web_row(struct writer *w, struct web_place at, const char *t);
const char *web_value(struct writer *w, const struct node *n, const char *t);
const char *web_float(struct writer *w, double x);

/* put_values.c: operations from .. to - 1 of a branch's chain on y of column r of token t; the partner's on up. */
void web_put_chain(struct writer *w, const struct branch *b, uint32_t from, uint32_t to);
void web_put_partner(struct writer *w, const struct branch *up);
/* y goes to where n lies. */
void web_put_result(struct writer *w, const struct node *n);
void web_put_map(struct writer *w);
void web_put_sequence(struct writer *w);
void web_put_route(struct writer *w);
void web_put_gemv(struct writer *w);
void web_put_list(struct writer *w);
void web_put_stage(struct writer *w);
void web_put_gemm(struct writer *w);
void web_put_heads(struct writer *w);
void web_put_attention(struct writer *w);
void web_put_store(struct writer *w);
#endif
