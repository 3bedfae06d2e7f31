/* judge.h -- logits of a program against the reference that rounds as the program does, at positions where rounding alone decides, too
 * (docs/verify.md). */
#ifndef FORGEC_JUDGE_H
#define FORGEC_JUDGE_H
#include "bounds.h"

/* A near tie of a router in which the program went the other way. */
struct otherwise { uint32_t position, router, dropped, taken; double margin, moves; };

struct judged {
    struct bound    bound;
    const float    *truth;                 /* [n][n_out] of the reference, with the other experts where `otherwise` says so */
    struct logits_difference difference;   /* of the program's logits to truth */
    const struct otherwise *otherwise;
    uint32_t        n_otherwise, n_positions;         /* n_positions: of them, each once */
    bool            holds;
};

/* logits: [n][n_out], what a program gave for the tokens.  Runs the reference once where its bounds hold at once, else some ten times.
 * The result is in the arena; memory meanwhile: twice the logits and one run of the reference. */
struct judged judge(struct arena *a, const struct graph *g, const struct bound *bound, const int32_t *tokens, uint32_t n,
                    const float *logits);
#endif
