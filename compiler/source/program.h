/* program.h -- what a source tells of its program besides kernels and launches: the comment at its head, struct forge_program, the table of
 * an executable's programs. */
#ifndef FORGEC_SOURCE_PROGRAM_H
#define FORGEC_SOURCE_PROGRAM_H
#include "compiler/plan/kernel.h"
#include "compiler/plan/plan.h"

struct emit_options {
    const char *templates;        /* --templates DIR or NULL */
    const char *model_hash, *weights_hash;
    const char *options;          /* the choices that shaped the program: "--fuse layer --kv f16" */
    const char *compiler;         /* "forgec 0.1.0, clang 19.1.7" */
    const char *compile_command;  /* goes into the banner; NULL: nothing compiles it alone */
    bool        has_vocab, has_chat;
    uint64_t    weights_offset;   /* of this program's image among the images of the executable */
    uint32_t    rank, ranks;      /* which of the programs of GPUs that share the model, of how many; ranks 0: it is alone */
    const char *const *symbols;   /* [ranks] of their programs */
    struct emit_span { uint32_t before, all; } spans[STEPS_COUNT];       /* GPUs in a row: its launches among those of all; all 0: alone */
    uint32_t    code_rank;        /* whose code it has: its own, or that of an earlier rank, where both have one text */
};

/* The symbol of the program in the object: "forge_program_x86_64_v4", of a rank behind the first "forge_program_gfx942_rank1". */
const char *emit_symbol(struct arena *a, const struct profile *p, uint32_t rank);
/* That of a GPU's code object beside it: "forge_code_forge_program_gfx1151". */
const char *emit_code_symbol(struct arena *a, const struct profile *p, uint32_t rank);
/* The comment at the head of a source, without its end. */
void emit_banner(struct text *t, const struct plan *p, const struct emit_options *o);
/* struct forge_program; launches: the initialisers of decode and prefill, or of gpu. */
void emit_program(struct arena *a, struct text *t, const struct plan *p, const struct emit_options *o, const char *launches);
/* struct forge_cost of a kernel's launches. */
void emit_cost(struct text *t, const struct kernel *k);
/* The table of programs that the runtime looks for, best first. */
struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n);
/* The same for an executable, which also tells the hash of its edited source; NULL: none was edited. */
struct bytes emit_programs(struct arena *a, const char *const *symbols, size_t n, const char *edited);
#endif
