/* text.h -- prints a plan as text and reads it back. Settings that a person or a tuner may choose stand before "#", all that follows from
 * them after it. docs/pipeline.md has the grammar. */
#ifndef FORGEC_PLAN_TEXT_H
#define FORGEC_PLAN_TEXT_H
#include "compiler/plan/plan.h"

/* The settings in a plan's text. */
struct plan_text {
    const char           *target, *options;         /* target and options of the plan that was printed */
    struct place          target_at, options_at;
    uint32_t              chunk;                    /* tokens of a prefill step */
    struct kernel_choices choices;
};

/* Prints p. options: the command-line options that shaped the program (options_text of build.c). */
void plan_text_print(struct text *out, const struct plan *p, const char *options);
/* Reads a plan's text, which ends with a NUL. name: of the file, for messages. Dies with line and column on a syntax error. */
struct plan_text *plan_text_read(struct arena *a, const char *name, const char *text);
/* Reads one kernel with its settings: "decode gemv attn_qkv rows=4 groups=1,6". at: place of the text in a file. Dies with line and column
 * on a syntax error. */
struct kernel_choice plan_text_kernel(struct arena *a, struct place at, const char *text);
/* Dies if a choice of the text has no kernel in p, the plan that was made with it. */
void plan_text_check(const struct plan *p, const struct plan_text *text);
#endif
