/* program.h -- the parts of a source besides kernels and launches: the comment at its head, struct forge_program, and the table of an
 * executable's programs. */
#ifndef FORGEC_SOURCE_PROGRAM_H
#define FORGEC_SOURCE_PROGRAM_H
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"

struct emit_options {
    const char *templates;        /* --templates DIR or NULL */
    const char *model_hash, *weights_hash;
    const char *options;          /* the choices that shaped the program: "--fuse layer --kv f16" */
    const char *compiler;         /* "forgec 0.1.0, clang 19.1.7" */
    const char *compile_command;  /* for the banner; NULL: the source cannot be compiled alone */
    bool        has_vocab, has_chat;
    uint64_t    weights_offset;   /* bytes: this program's image among the images of the executable */
    uint32_t    rank, ranks;      /* GPUs that share the model: the program is that of `rank`; ranks 0: one GPU */
    const char *const *symbols;   /* [ranks] symbols of their programs */
    struct emit_span { uint32_t before, all; } spans[STEPS_COUNT];
    /* spans: of pipeline stages; launches before those of this stage, and launches of all stages; all 0: no other stages */
    uint32_t    code_rank;        /* the rank with the code object: its own rank, or an earlier one with the same kernels */
};

/* The symbol of the program in the object file: "forge_program_x86_64_v4", and for ranks after 0 "forge_program_gfx942_rank1". */
const char *emit_symbol(struct arena *a, const struct target *p, uint32_t rank);
/* The symbol of a GPU's code object: "forge_code_forge_program_gfx1151". */
const char *emit_code_symbol(struct arena *a, const struct target *p, uint32_t rank);
/* Appends the comment at the head of a source, without its end. */
void emit_banner(struct text *t, const struct plan *p, const struct emit_options *o);
/* Appends struct forge_program and its tables. launches: initialisers of the launches (CPU), or of .gpu. */
void emit_program(struct arena *a, struct text *t, const struct plan *p, const struct emit_options *o, const char *launches);
/* Appends an initialiser of struct forge_cost for the kernel's launches. */
void emit_cost(struct text *t, const struct kernel *k);
/* The source of the table in which the runtime finds the programs. symbols: [n], the best program first. */
struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n);
/* The same for an executable. edited: the hash of its edited source; NULL: no source was edited. */
struct bytes emit_programs(struct arena *a, const char *const *symbols, size_t n, const char *edited);
#endif
