/* judge.h -- compares a program's logits with the reference that rounds as the program does; it handles positions where rounding alone
 * decides which experts are chosen (docs/verify.md). */
#ifndef FORGEC_JUDGE_H
#define FORGEC_JUDGE_H
#include "bounds.h"

/* A near tie in a router where the program chose the other expert: `taken` instead of `dropped`. */
struct otherwise { uint32_t position, router, dropped, taken; double margin, moves; };

struct judged {
    struct bound    bound;
    const float    *truth;                 /* [n][n_out] logits of the reference, with the experts of `otherwise` */
    struct logits_difference difference;   /* between the program's logits and truth */
    const struct otherwise *otherwise;
    uint32_t        n_otherwise, n_positions;         /* n_positions: distinct positions in `otherwise` */
    bool            holds;
};

/* logits: [n][n_out], the program's logits for the tokens. Runs the reference once if the bounds hold at once, else about ten times.
 * The result is in the arena. Temporary memory: twice the logits and one run of the reference. */
struct judged judge(struct arena *a, const struct graph *g, const struct bound *bound, const int32_t *tokens, uint32_t n,
                    const float *logits);
#endif
