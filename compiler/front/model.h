/* model.h -- one model: hyperparameters, tensor roles and wiring text, from models/ARCH.yaml and a GGUF. Knows no targets. */
#ifndef FORGEC_MODEL_H
#define FORGEC_MODEL_H
#include "compiler/base/base.h"
#include "gguf.h"

#define NO_LAYER 0xffffffffu

/* A matrix or vector the graph may read: rows of a GGUF tensor, the slices of one of three dimensions one after another.  Row r is row
 * weight_row(w, r) of the tensor: runs of `run` rows, each `stride` rows behind the one before. */
struct weight {
    const char               *role;       /* "attn_q" */
    const char               *name;       /* as in the file: "blk.3.attn_q.weight"; of a fused tensor: its name */
    const struct gguf_tensor *tensor;
    uint32_t                  layer;      /* NO_LAYER outside the layers */
    uint64_t                  row0, rows, cols;     /* a vector is one row of cols */
    uint64_t                  run, stride;          /* one run, as a rule: run = stride = rows */
    uint64_t                  col0;       /* of the tensor's rows, where the matrix's begin; a multiple of its blocks' columns */
    uint32_t                  slices;               /* experts, or heads, of rows / slices rows each; 0: a plain matrix */
    bool                      is_vector;
    uint32_t                  index;      /* in model->weights */
    const struct weight      *scale;      /* NAME.scale beside NAME.weight (NVFP4), a number for each slice, or one: it multiplies what the
                                           * tensor's rows give; or NULL */
};

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_YARN };

/* Lines of the wiring that have a name. */
struct block { const char *name, *text; struct place at; };

/* A key or a pattern of tensors' names that the user told to ignore, and what the file has there; all printable. */
struct ignored { const char *option, *name, *value; };

/* Why the graph need not read a tensor of the file. */
enum unread { UNREAD_NEVER, UNREAD_DRAFT, UNREAD_HARMLESS, UNREAD_IGNORED };

enum value_type { VALUE_U32, VALUE_F64, VALUE_BOOL };

/* A hyperparameter: one of param.def, or of the architecture's own.  Whole numbers are exact in a double up to 2^53. */
struct param {
    const char     *name;             /* as in the YAML: "rope_base" */
    const char     *key;              /* of the GGUF, or NULL */
    enum value_type type;
    double         *values;           /* [n_described] */
    bool            is_own;           /* not of param.def */
    bool            used;             /* by a shape, another parameter, or (set by graph_build) the wiring */
    const double   *unused;           /* the one value that a file may have where nothing uses it; or NULL: any */
};

/* value_dim: items of a head of V, and of what attention gives for a head. */
struct layer_shape { uint32_t n_head, n_head_kv, head_dim, value_dim; };

struct model {
    const struct gguf  *gguf;
    const char         *architecture;
    const char         *name;             /* general.name, printable ASCII */
    uint32_t            n_embd, n_layer, n_ctx_train, n_vocab;
    uint32_t            n_described;      /* layers with parameters and tensors: n_layer, with model_options.drafts the block behind
                                           * them, too */
    uint32_t            pooling;          /* enum forge_pooling: the model gives vectors of texts; 0: a language model */
    uint32_t            n_out;            /* columns of what it gives for a token: n_vocab logits, or n_embd */
    bool                causal;           /* attention sees no later positions */
    enum rope_scaling   rope_scaling;
    struct param       *params;           /* [n_params] */
    uint32_t            n_params;
    struct layer_shape *layers;           /* [n_described] */
    struct weight      *weights;          /* [n_weights], each tensor part once */
    uint32_t            n_weights;
    uint64_t            n_parameters;
    struct ignored     *ignored;          /* [n_ignored], keys in the file's order, then tensors: not computed because the user insisted */
    uint32_t            n_ignored;
    enum unread        *unread;           /* [gguf->n_tensors] */
    struct role        *roles;            /* private to model.c */
    uint32_t            n_roles;
    const char         *graph_text;       /* the wiring, from the YAML */
    struct place        graph_at;         /* of its first line and column */
    struct block       *blocks;           /* [n_blocks], by name, of the YAML and what it inherits */
    uint32_t            n_blocks;
};

struct model_options {
    const char        *directory;         /* --models DIR; NULL: the built-in ones */
    uint32_t           n_ctx;             /* context of the program; 0: model_context's choice */
    const char *const *ignored;           /* [n_ignored], --ignore-key: keys that need not be computed */
    uint32_t           n_ignored;
    const char *const *ignored_tensors;   /* [n_ignored_tensors], --ignore-tensor: names, "*" for any letters, that no wiring need read */
    uint32_t           n_ignored_tensors;
    bool               drafts;            /* --spec mtp: the block that drafts tokens, of several the first, is computed, too */
};

/* Reads models/ARCH.yaml, checks every hyperparameter, that nothing the file asks for is left out (keys.h), and the shape of
 * every tensor.  Dies naming key or tensor, expected and found, or where a draft block is asked for and there is none; warns of draft
 * blocks that are left out, of what the user ignores and of a context beyond the trained one.  o NULL: all defaults. */
struct model *model_describe(struct arena *a, const struct gguf *g, const struct model_options *o);
/* The context of a program of a model trained for n_ctx_train tokens, for which n_ctx was asked (0: nothing). */
uint32_t model_context(uint32_t n_ctx_train, uint32_t n_ctx);
/* The weight with that role; layer NO_LAYER outside layers.  NULL when an optional tensor is absent; dies at `at` on an unknown role. */
const struct weight *model_weight(const struct model *m, struct place at, const char *role, uint32_t layer);
/* Dies naming the tensors of the file that are not read, read [gguf->n_tensors], and that nothing says may be left out: the program would
 * be another model. */
void model_check_read(struct arena *a, const struct model *m, const bool *read);
/* The block of that name, or NULL. */
const struct block *model_block(const struct model *m, const char *name);
/* The parameter of that name, or NULL. */
const struct param *model_param(const struct model *m, const char *name);
/* Its value in a layer.  Dies at `at` where layer is NO_LAYER and the layers differ. */
double param_value(const struct model *m, const struct param *p, struct place at, uint32_t layer);
/* The row of the tensor that is row r of w. */
static inline uint64_t weight_row(const struct weight *w, uint64_t r) { return w->row0 + r / w->run * w->stride + r % w->run; }
/* Does it have all columns of its tensor's rows, so that these lie one behind the other?  Where row r of w begins. */
static inline bool weight_is_wide(const struct weight *w) { return w->is_vector || w->cols == w->tensor->ne[0]; }
const uint8_t *weight_bytes(const struct weight *w, uint64_t r);
/* Weight rows as floats: out [rows][cols]; any format. */
void weight_to_float(float *out, const struct weight *w, uint64_t first_row, uint64_t n_rows);
/* "the vector of a text is the mean of its tokens' rows; ...": what a model with pooling does. */
const char *model_embeddings(struct arena *a, const struct model *m);
/* "Q8_0 57, F32 17": the formats of all tensors, by count. */
const char *model_formats(struct arena *a, const struct model *m);
/* Names of the architectures of the built-in or given models, sorted, NULL-terminated. */
const char **model_names(struct arena *a, const char *directory);
#endif
