/* slices_sizes.h -- sizes for slices.h, sequence.h and functions.h, shared by the plan and the kernels: constant expressions of C. */
#ifndef FORGE_SLICES_SIZES_H
#define FORGE_SLICES_SIZES_H

/* SHARED: all slices of a token share a row of the input.  APART: each slice has its own row.  ALL: APART, and all matrices are slices. */
#define SLICES_SHARED 0
#define SLICES_APART  1
#define SLICES_ALL    2

/* Limits of a router: experts, experts used by a token, groups. */
#define ROUTE_MOST        1024u
#define ROUTE_MOST_USED   32u
#define ROUTE_MOST_GROUPS 32u
/* LDS of a wave; 0 without groups. */
#define ROUTE_LDS_BYTES(experts, groups) ((groups) > 1u ? (experts) * 4u : 0u)
/* LDS for the numbers of the chosen experts, in a kernel that chooses for itself. */
#define ROUTE_IDS_BYTES(used) (((used) * 4u + 15u) / 16u * 16u)
#define PICKED_LDS_BYTES(threads) ((threads) * 4u)

/* Tokens per group in a convolution's prefill, and the most taps. */
#define CONV_TOKENS 64u
#define CONV_MOST   16u

/* Neighbouring lanes that share four columns of a recurrence's state S: lane p has its rows p, p + parts, ...; and the most rows per
 * lane. */
#define RECUR_PARTS(head_dim) \
    ((head_dim) % 16u == 0 && (head_dim) >= 64u ? 16u \
     : (head_dim) % 8u == 0 ? 8u : (head_dim) % 4u == 0 ? 4u : (head_dim) % 2u == 0 ? 2u : 1u)
#define RECUR_ROWS 16u
#define RECUR_GROUPS(heads, head_dim, value_dim, threads) \
    (((heads) * (value_dim) / 4u * RECUR_PARTS(head_dim) + (threads) - 1u) / (threads))
#endif
