/* model.h -- one model: hyperparameters, tensor roles and wiring text, from models/ARCH.yaml and a GGUF. Does not depend on targets. */
#ifndef FORGEC_MODEL_H
#define FORGEC_MODEL_H
#include "compiler/base/base.h"
#include "gguf.h"

#define NO_LAYER 0xffffffffu

/* A matrix or vector that the graph may read: rows of a GGUF tensor. The slices of a tensor of three dimensions follow each other. Row r is
 * row weight_row(w, r) of the tensor: the rows lie in runs of `run` rows, and a run begins `stride` rows after the run before it. */
struct weight {
    const char               *role;       /* "attn_q" */
    const char               *name;       /* as in the file: "blk.3.attn_q.weight"; for a part of a fused tensor: that tensor's name */
    const struct gguf_tensor *tensor;
    uint32_t                  layer;      /* NO_LAYER outside the layers */
    uint64_t                  row0, rows, cols;     /* a vector is one row of cols */
    uint64_t                  run, stride;          /* usually there is one run: run = stride = rows */
    uint64_t                  col0;       /* the matrix's first column in the tensor's rows; a multiple of the block's columns */
    uint32_t                  slices;               /* experts, or heads, of rows / slices rows each; 0: a plain matrix */
    bool                      is_vector;
    uint32_t                  index;      /* in model->weights */
    const struct weight      *scale;      /* NAME.scale beside NAME.weight (NVFP4): one number, or one for each slice, that multiplies the
                                           * results of the tensor's rows; or NULL */
};

enum rope_scaling { ROPE_NONE, ROPE_LINEAR, ROPE_YARN };

/* A named block of lines of the wiring. */
struct block { const char *name, *text; struct place at; };

/* A key, or a pattern of tensor names, that the user asked to ignore, and its value in the file; all printable. */
struct ignored { const char *option, *name, *value; };

/* The reason why the graph need not read a tensor of the file; UNREAD_NEVER: it must. */
enum unread { UNREAD_NEVER, UNREAD_DRAFT, UNREAD_TOWER, UNREAD_HARMLESS, UNREAD_IGNORED };

enum value_type { VALUE_U32, VALUE_F64, VALUE_BOOL };

/* A hyperparameter, from param.def or of the architecture's own. Whole numbers are exact in a double up to 2^53. */
struct param {
    const char     *name;             /* as in the YAML: "rope_base" */
    const char     *key;              /* of the GGUF, or NULL */
    enum value_type type;
    double         *values;           /* [n_described] */
    const char     *absent;           /* keys that the file lacks and a default replaced, "A, B"; or NULL */
    bool            is_own;           /* the architecture's own, not in param.def */
    bool            used;             /* by a shape, or (set by graph_build) by the wiring or by another used parameter */
    bool           *names;            /* [n_params] the parameters that its entry names */
    bool            asks;             /* the file has its key, with a value that is neither 0 nor the default */
    const char     *missing;          /* a key without any value, an error only if the parameter is used; or NULL */
};

/* value_dim: items of a head of V, and of attention's result for a head. */
struct layer_shape { uint32_t n_head, n_head_kv, head_dim, value_dim; };

struct model {
    const struct gguf  *gguf;
    const char         *architecture;
    const char         *name;             /* general.name, printable ASCII */
    uint32_t            n_embd, n_layer, n_ctx_train, n_vocab;
    uint32_t            n_described;      /* layers with parameters and tensors: n_layer, plus the draft block with
                                           * model_options.drafts */
    uint32_t            pooling;          /* enum forge_pooling: the model makes embeddings of texts; 0: a language model */
    uint32_t            n_out;            /* columns of the output for a token: n_vocab logits, or n_embd */
    bool                causal;           /* attention sees no later positions */
    enum rope_scaling   rope_scaling;
    struct param       *params;           /* [n_params] */
    uint32_t            n_params;
    struct layer_shape *layers;           /* [n_described] */
    struct weight      *weights;          /* [n_weights], each tensor part once */
    uint32_t            n_weights;
    uint64_t            n_parameters;
    struct ignored     *ignored;          /* [n_ignored], keys in the file's order, then tensors: ignored at the user's request */
    uint32_t            n_ignored;
    uint32_t            n_tower_keys;     /* keys of a part for images or sound, which is left out */
    enum unread        *unread;           /* [gguf->n_tensors] */
    struct role        *roles;            /* role.h */
    uint32_t            n_roles;
    const char         *graph_text;       /* the wiring, from the YAML */
    struct place        graph_at;         /* its first line and column */
    struct block       *blocks;           /* [n_blocks], by name, from the YAML and the files it inherits */
    uint32_t            n_blocks;
};

struct model_options {
    const char        *directory;         /* --models DIR; NULL: the built-in models */
    uint32_t           n_ctx;             /* context of the program; 0: model_context's choice */
    const char *const *ignored;           /* [n_ignored], --ignore-key: keys that need not be computed */
    uint32_t           n_ignored;
    const char *const *ignored_tensors;   /* [n_ignored_tensors], --ignore-tensor: tensors that need not be read; "*": any letters */
    uint32_t           n_ignored_tensors;
    bool               drafts;            /* --spec mtp: the block that drafts tokens is computed too (of several, the first) */
};

/* Reads models/ARCH.yaml. Checks every hyperparameter, that no requirement of the file is left out (keys.h), and the shape of
 * every tensor. Dies naming key or tensor, expected and found value, or if o asks for a draft block that the file lacks. Warns about draft
 * blocks that are left out, about what the user ignores, and about a context beyond the trained one. o NULL: all defaults. */
struct model *model_describe(struct arena *a, const struct gguf *g, const struct model_options *o);
/* The context of a program, in tokens, for a model trained on n_ctx_train tokens; n_ctx: the requested context, 0: not given. */
uint32_t model_context(uint32_t n_ctx_train, uint32_t n_ctx);
#define EVERYWHERE " in every layer"
/* A tensor that the wiring names. */
struct ask {
    struct place at;                  /* of the name in the wiring */
    const char  *role;
    uint32_t     layer;               /* NO_LAYER outside the layers */
    bool         may_be_absent;       /* the line works without it */
    const char  *in;                  /* for messages about a role of a layer: EVERYWHERE, " in this layer" */
};
/* The weight, or NULL if it is absent and both the architecture and the wiring allow that. Otherwise dies naming the missing tensor and why
 * it is needed; dies at `at` on an unknown role. */
const struct weight *model_ask(struct arena *a, const struct model *m, const struct ask *q);
/* If the last layer has tensors of a draft block: the keys whose defaults made forgec treat it as a layer. Else NULL. */
const char *model_untold_draft(struct arena *a, const struct model *m);
/* To be called after all calls of model_ask. Dies naming a tensor that only some of the asking layers have although the architecture wants
 * it in all of them or in no layer. */
void model_check_layers(struct arena *a, const struct model *m);
/* The weight with that role; layer NO_LAYER outside the layers. NULL if the tensor is absent; dies at `at` on an unknown role. */
const struct weight *model_weight(const struct model *m, struct place at, const char *role, uint32_t layer);
/* Dies naming the tensors of the file that are neither read (read: [gguf->n_tensors]) nor known to be optional: without them the program
 * would compute another model. */
void model_check_read(struct arena *a, const struct model *m, const bool *read);
/* True if the shape of some tensor role, present in the file or not, names the parameter. */
bool model_shapes(const struct model *m, const char *name);
/* The block of that name, or NULL. */
const struct block *model_block(const struct model *m, const char *name);
/* The parameter of that name, or NULL. */
const struct param *model_param(const struct model *m, const char *name);
/* Its value in a layer; NO_LAYER: the value of all layers. Dies at `at` if layers differ, and naming the key if the file lacks it. */
double param_value(const struct model *m, const struct param *p, struct place at, uint32_t layer);
/* Dies because of a wrong value that was computed from the names in `text`, a text of the YAML. The message (fmt) says what is wrong; the
 * place is the file's keys behind these names, with their values, or `at` if the file has no such key. */
_Noreturn void die_of_keys(struct arena *a, const struct model *m, struct place at, const char *text, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* The parameters of which a derived size such as n_q consists: "n_head head_dim"; NULL if name is not a derived size. */
const char *model_made_of(const char *name);
/* The text with its parameters replaced by the file's keys, without the architecture's prefix. */
const char *model_in_keys(struct arena *a, const struct model *m, const char *text);
/* As param_value, for a size of tensors. With NO_LAYER, only layers whose value is not 0 must agree: for example, a layer without rotation
 * does not count for the divisors of all rotations. */
double param_size(const struct model *m, const struct param *p, struct place at, uint32_t layer);
/* The row of the tensor that is row r of w. */
static inline uint64_t weight_row(const struct weight *w, uint64_t r) { return w->row0 + r / w->run * w->stride + r % w->run; }
/* weight_is_wide: w has all columns of its tensor's rows, so its rows are contiguous. weight_bytes: the beginning of row r of w. */
static inline bool weight_is_wide(const struct weight *w) { return w->is_vector || w->cols == w->tensor->ne[0]; }
const uint8_t *weight_bytes(const struct weight *w, uint64_t r);
/* Frees the copies that weight_bytes made of rows that are not in the file in this form, and releases the pages of the mapping. Later calls
 * make them again. No other thread may read the weight meanwhile. */
void weight_release(const struct model *m, const struct weight *w);
/* Weight rows as floats: out [n_rows][cols]; any format. */
void weight_to_float(float *out, const struct weight *w, uint64_t first_row, uint64_t n_rows);
/* What a model with pooling computes: "the vector of a text is the mean of its tokens' rows; ...". */
const char *model_embeddings(struct arena *a, const struct model *m);
/* The formats of all tensors, by count: "Q8_0 57, F32 17". */
const char *model_formats(struct arena *a, const struct model *m);
/* True if there is an architecture of that name; name may be any text. */
bool model_is_known(struct arena *a, const char *directory, const char *name);
/* Names of the architectures in directory (NULL: the built-in ones), sorted, NULL-terminated. */
const char **model_names(struct arena *a, const char *directory);
#endif
