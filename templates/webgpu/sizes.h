/* sizes.h -- bytes of workgroup memory and of the arena that kernels of templates/webgpu take, and how they cut their work.  Constant
 * expressions of C, for the compiler's plan. */
#ifndef FORGE_WEBGPU_SIZES_H
#define FORGE_WEBGPU_SIZES_H

/* acts.wgsl: a row of so many units of 64 columns as int8, and as floats. */
#define ACTS_BYTES(units) (80u * (units))
#define FLOATS_BYTES(units) (256u * (units))
/* gemv.wgsl: sums of the lanes, and of the group. */
#define GEMV_BYTES(threads, rows) (4u * (threads) * ((rows) + 1u))

/* attention.wgsl: groups that share the query heads of a KV head; tokens of a tile of prefill. */
#define ATTENTION_MOST_HEADS 16u
#define ATTENTION_UNITS(heads, heads_kv) (((heads) / (heads_kv) + ATTENTION_MOST_HEADS - 1u) / ATTENTION_MOST_HEADS)
#define CHUNK_TOKENS(head_dim) 32u

/* sample.wgsl: scratch of the arena. */
#define SAMPLE_SCRATCH_BYTES(groups) (16u * (groups))
#endif
