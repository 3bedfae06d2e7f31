/* text.h -- a plan as text, complete for a reader, and read back: what a person or a tuner may choose stands before "#", what follows from
 * it behind.  Grammar in docs/pipeline.md. */
#ifndef FORGEC_PLAN_TEXT_H
#define FORGEC_PLAN_TEXT_H
#include "compiler/plan/plan.h"

/* What a text chooses. */
struct plan_text {
    const char           *target, *options;         /* the plan's own */
    struct place          target_at, options_at;
    uint32_t              chunk;                    /* tokens of a prefill step */
    struct kernel_choices choices;
};

/* options: the command-line options that shaped the program (build.c: options_text). */
void plan_text_print(struct text *out, const struct plan *p, const char *options);
/* Dies with line and column on what is no plan.  text: ends with a NUL. */
struct plan_text *plan_text_read(struct arena *a, const char *name, const char *text);
/* One kernel with its settings, as in a plan's sections: "decode gemv attn_qkv rows=4 groups=1,6".  Dies at that place of a file, with the
 * column, on what is none. */
struct kernel_choice plan_text_kernel(struct arena *a, struct place at, const char *text);
/* Every choice of the text has a kernel in the plan that was made with it; dies where one has none. */
void plan_text_check(const struct plan *p, const struct plan_text *text);
#endif
