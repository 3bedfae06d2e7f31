/* slices_sizes.h -- sizes of slices.h, of sequence.h and of functions.h, for the compiler's plan and for the kernels: constant
 * expressions of C. */
#ifndef FORGE_SLICES_SIZES_H
#define FORGE_SLICES_SIZES_H

/* Does every slice of a token have a row of the input for itself?  ALL: and all matrices of the stack are slices. */
#define SLICES_SHARED 0
#define SLICES_APART  1
#define SLICES_ALL    2

/* Experts that a router chooses from, how many of them a token may use, and groups of them. */
#define ROUTE_MOST        1024u
#define ROUTE_MOST_USED   32u
#define ROUTE_MOST_GROUPS 32u
/* Of a wave; nothing where experts stand in no groups. */
#define ROUTE_LDS_BYTES(experts, groups) ((groups) > 1u ? (experts) * 4u : 0u)
/* Numbers of those chosen, of a kernel that chooses for itself. */
#define ROUTE_IDS_BYTES(used) (((used) * 4u + 15u) / 16u * 16u)
#define PICKED_LDS_BYTES(threads) ((threads) * 4u)

/* Tokens of a group in a convolution's prefill, and its most taps. */
#define CONV_TOKENS 64u
#define CONV_MOST   16u

/* Neighbouring lanes that share four columns of a recurrence's state S: of its rows lane p has p, p + parts, ..; and its most rows of a
 * lane. */
#define RECUR_PARTS(head_dim) \
    ((head_dim) % 16u == 0 && (head_dim) >= 64u ? 16u \
     : (head_dim) % 8u == 0 ? 8u : (head_dim) % 4u == 0 ? 4u : (head_dim) % 2u == 0 ? 2u : 1u)
#define RECUR_ROWS 16u
#define RECUR_GROUPS(heads, head_dim, value_dim, threads) \
    (((heads) * (value_dim) / 4u * RECUR_PARTS(head_dim) + (threads) - 1u) / (threads))
#endif
