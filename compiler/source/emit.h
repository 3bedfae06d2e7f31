/* emit.h -- the plan as one self-contained C source that a person can read and compile alone. Runs no programs. */
#ifndef FORGEC_EMIT_H
#define FORGEC_EMIT_H
#include "compiler/plan/plan.h"

struct emit_options {
    const char *templates;        /* --templates DIR or NULL */
    const char *model_hash, *weights_hash;
    const char *options;          /* the choices that shaped the program: "--fuse layer --kv f16" */
    const char *compiler;         /* "forgec 0.1.0, clang 19.1.7" */
    const char *compile_command;  /* goes into the banner */
    bool        has_vocab;
    uint64_t    weights_offset;   /* of this program's image among the images of the executable */
};

/* The symbol of the program in the object: "forge_program_x86_64_v4". */
const char *emit_symbol(struct arena *a, const struct profile *p);
/* The model's source for plan->profile.  The same inputs give the same bytes. */
struct bytes emit(struct arena *a, const struct plan *p, const struct emit_options *o);

/* A program for a GPU is two sources: its kernels, and C that describes the launches to the runtime and holds the code object in
 * `const uint8_t forge_code_<symbol>[]`, which is linked beside it. */
struct gpu_source { struct bytes kernels; struct gpu_kernels *list; };
struct gpu_source emit_gpu(struct arena *a, const struct plan *p, const struct emit_options *o);
struct bytes emit_gpu_program(struct arena *a, const struct plan *p, const struct emit_options *o, const struct gpu_source *source, uint64_t code_bytes);
const char *emit_code_symbol(struct arena *a, const struct profile *p);
/* The table of programs that the runtime looks for, best first. */
struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n);
/* The same for an executable, which also tells the hash of its edited source; NULL: none was edited. */
struct bytes emit_programs(struct arena *a, const char *const *symbols, size_t n, const char *edited);
#endif
