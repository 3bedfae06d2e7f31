/* state.h -- what a sequence of tokens leaves behind for the next one: keys and values, and whatever else layers remember. */
#ifndef FORGEC_STATE_H
#define FORGEC_STATE_H
#include "compiler/plan/fuse.h"

enum state_kind {
    STATE_KV,               /* K and V of every position */
    STATE_RING,             /* K and V of the last `rows` positions: position p lies in row p % rows */
    STATE_RECURRENT,        /* one value that every token replaces */
    STATE_CONV,             /* the last inputs of a convolution */
    STATE_KINDS
};
extern const char *const state_kind_name[STATE_KINDS];

/* Bytes offset .. offset + bytes of a sequence's state memory.  They are `runs` runs of `rows` positions of row_bytes each, one behind the
 * other (K, then V, of each head); row_bytes 0: the layout has no such runs, the state is saved whole. */
struct state {
    enum state_kind kind;
    uint32_t        layer;
    const struct node *node;        /* store_k, conv or recur */
    uint64_t        offset, bytes;
    uint32_t        runs, rows;
    uint64_t        row_bytes;
    uint64_t        token_bytes;    /* of a position; 0: it has none of its own */
    uint32_t        back;           /* tokens that can be forgotten from the end: forge_state.back of runtime/model/abi.h */
};
/* Rows of a ring; 0: position p lies in row p. */
static inline uint32_t state_ring(const struct state *s) { return s->kind == STATE_RING ? s->rows : 0; }
#endif
