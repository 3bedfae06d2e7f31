/* state.h -- the state that layers keep from token to token of a sequence: keys and values, recurrent states, inputs of convolutions. */
#ifndef FORGEC_STATE_H
#define FORGEC_STATE_H
#include "compiler/plan/fuse.h"

enum state_kind {
    STATE_KV,               /* K and V of every position */
    STATE_RING,             /* K and V of the last `rows` positions: position p lies in row p % rows */
    STATE_RECURRENT,        /* a value that every token replaces */
    STATE_CONV,             /* the last inputs of a convolution */
    STATE_KINDS
};
extern const char *const state_kind_name[STATE_KINDS];

/* A state: bytes offset .. offset + bytes - 1 of a sequence's state memory. They consist of `runs` contiguous runs (K of each head, then V
 * of each head) of `rows` positions with row_bytes bytes each. row_bytes 0: the layout has no such runs, and the state is saved whole. */
struct state {
    enum state_kind kind;
    uint32_t        layer;
    const struct node *node;        /* store_k, conv, previous or recur */
    uint64_t        offset, bytes;
    uint32_t        runs, rows;
    uint64_t        row_bytes;
    uint64_t        token_bytes;    /* bytes of a position; 0: the state has no part for each position */
    uint32_t        back;           /* tokens that can be forgotten from the end: forge_state.back of runtime/model/abi.h */
};
/* Rows of a ring; 0: position p lies in row p. */
static inline uint32_t state_ring(const struct state *s) { return s->kind == STATE_RING ? s->rows : 0; }
#endif
