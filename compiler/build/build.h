/* build.h -- the pipeline: gguf -> model -> graph -> fuse -> plan -> emit -> cc -> pack -> link. */
#ifndef FORGEC_BUILD_H
#define FORGEC_BUILD_H
#include "cc.h"
#include "compiler/plan/plan.h"
#include "runtime/model/abi.h"

enum emit_kind { EMIT_EXE, EMIT_SOURCE, EMIT_ASM, EMIT_PLAN, EMIT_GRAPH, EMIT_OBJ, EMIT_LIB, EMIT_SHARED };
enum weights_kind { WEIGHTS_EMBED, WEIGHTS_EXTERNAL, WEIGHTS_NONE };

struct build_options {
    const char         *model_path, *out_path;  /* out_path NULL: named after the model, libraries after the prefix; "-": stdout for text */
    const char         *targets[8];
    uint32_t            n_targets;                    /* 0: this machine */
    enum emit_kind      emit;
    enum fuse_level     fuse;
    enum weights_kind   weights;
    uint32_t            gpus;                         /* that share the model; 0, 1: one has all of it */
    const char         *row[FORGE_GPU_MAX_RANKS];     /* plan.split LAYER: the target of each; NULL: targets[0] */
    uint32_t            layers[FORGE_GPU_MAX_RANKS];  /* how many layers each has; 0: by the weights and the targets' bandwidth */
    struct plan_options plan;
    struct cc_options   cc;
    const char         *prefix;                       /* of a library's names; NULL: "model" */
    const char         *plan_path;                    /* a plan whose choices are taken (plan/text.h); NULL: none */
    const char         *tuned_path;                   /* settings that forgec tune measured (plan/tuned.h); NULL: none */
    const char         *chat_template;                /* takes the place of the model's; NULL: none */
    const char         *source;                       /* `forgec cc`: compile this file in place of the emitted source */
    const char         *templates_dir, *targets_dir, *models_dir;
    const char         *ignored_keys[32];             /* hyperparameters that need not be computed: struct model_options */
    uint32_t            n_ignored_keys;
    const char         *ignored_tensors[32];          /* tensors that no wiring need read: struct model_options */
    uint32_t            n_ignored_tensors;
    const char         *grammar_path, *schema_path;   /* what guides the program's text; NULL: nothing.  At most one of them */
    bool                is_static, quiet;
    bool                has_server;                   /* --server: the program can answer HTTP requests */
    bool                kernel_tests;                 /* WebGPU: the folder has a page that tests each kernel */
    bool                allow_spills;                 /* GPU kernels that keep registers in memory are no error */
};

/* The model as these options read it.  Dies as model_describe does. */
struct model *build_model(struct arena *a, const struct build_options *o, const struct gguf *file);
/* The plan of its program for a target, of GPUs that share the model the first one's, with the choices of o->plan_path.  Dies as plan_make
 * and the reader of that file do. */
struct plan *build_plan(struct arena *a, const struct build_options *o, const struct graph *graph, const struct profile *target);
/* The options that shaped a program: "--fuse layer --ctx 4096 --kv f16"; n_ctx 0: without its context. */
const char *build_options_text(struct arena *a, const struct build_options *o, uint32_t n_ctx);
/* Of a clock that only goes on. */
double build_seconds(void);
/* Runs the pipeline and writes the product.  Returns its path; the one of a library's header is printed, unless o->quiet.
 * Dies on the first error. */
const char *build(struct arena *a, const struct build_options *o);
#endif
