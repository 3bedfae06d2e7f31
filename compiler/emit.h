/* emit.h -- the plan as one self-contained C source that a person can read and compile alone. Runs no programs. */
#ifndef FORGEC_EMIT_H
#define FORGEC_EMIT_H
#include "plan.h"

struct emit_options {
    const char *templates;        /* --templates DIR or NULL */
    const char *model_hash, *weights_hash;
    const char *options;          /* the choices that shaped the program: "--fuse layer --kv f16" */
    const char *compiler;         /* "forgec 0.1.0, clang 19.1.7" */
    const char *compile_command;  /* goes into the banner */
    bool        has_vocab;
};

/* The symbol of the program in the object: "forge_program_x86_64_v4". */
const char *emit_symbol(struct arena *a, const struct profile *p);
/* The model's source for plan->profile.  The same inputs give the same bytes. */
struct bytes emit(struct arena *a, const struct plan *p, const struct emit_options *o);
/* The table of programs that the runtime looks for, best first. */
struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n);
#endif
