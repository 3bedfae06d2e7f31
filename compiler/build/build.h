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
    uint32_t            gpus;                         /* number of GPUs that share the model; 0, 1: one GPU has all of it */
    const char         *stages[FORGE_GPU_MAX_RANKS];  /* plan.split LAYER: the target of each stage; NULL: targets[0] */
    uint32_t            layers[FORGE_GPU_MAX_RANKS];  /* layers of each stage; 0: chosen by the weights and the targets' bandwidth */
    struct plan_options plan;
    struct cc_options   cc;
    const char         *prefix;                       /* prefix of a library's names; NULL: "model" */
    const char         *plan_path;                    /* a plan file whose choices are used (plan/text.h); NULL: none */
    const char         *tuned_path;                   /* settings that forgec tune measured (plan/tuned.h); NULL: none */
    const char         *chat_template;                /* replaces the model's own template; NULL: not given */
    bool                llama_cpp_tokens;             /* split text as llama.cpp does where the model's own tokenizer differs */
    const char         *source;                       /* `forgec cc`: compile this file instead of the emitted source */
    const char         *templates_dir, *targets_dir, *models_dir;
    const char         *ignored_keys[32];             /* hyperparameters that need not be computed: struct model_options */
    uint32_t            n_ignored_keys;
    const char         *ignored_tensors[32];          /* tensors that no wiring need read: struct model_options */
    uint32_t            n_ignored_tensors;
    const char         *grammar_path, *schema_path;   /* constrain the program's text; NULL: not given.  At most one of the two */
    const char         *defaults;                     /* options that the program takes by itself (defaults.h); NULL: not given */
    bool                is_static, quiet;
    bool                has_server;                   /* --server: the program can answer HTTP requests */
    bool                kernel_tests;                 /* WebGPU: the folder has a page that tests each kernel */
    bool                allow_spills;                 /* register spills of GPU kernels are not an error */
};

/* Reads the model of the file with these options. Dies as model_describe does. */
struct model *build_model(struct arena *a, const struct build_options *o, const struct gguf *file);
/* The plan of its program for a target, with the choices of o->plan_path. If GPUs share the model, it is the plan of the first rank. Dies
 * as plan_make and the reader of that file do. */
struct plan *build_plan(struct arena *a, const struct build_options *o, const struct graph *graph, const struct target *target);
/* The options that shaped a program, such as "--fuse layer --ctx 4096 --kv f16"; n_ctx 0: without the context. */
const char *build_options_text(struct arena *a, const struct build_options *o, uint32_t n_ctx);
/* Seconds of a monotonic clock. */
double build_seconds(void);
/* What was built: the product's path; its targets, "x86-64-v4, portable"; the context, and the model's own; whether it chats by a
 * template. */
struct built { const char *path, *targets; uint32_t n_ctx, n_ctx_model; bool embeds, chats, is_page; };
/* Runs the pipeline and writes the product; prints the path of a library's header unless o->quiet. With --emit graph and plan only the path
 * is told. Dies on the first error. */
struct built build(struct arena *a, const struct build_options *o);
#endif
