/* launch.wgsl -- the data of a kernel.  A module declares those of these bindings of group 0 that it uses:
 *     0   var<storage, read_write> arena: array<u32>;      values and scratch; f32 by bitcast
 *     1   var<storage, read_write> state: array<u32>;      from where the launch's state begins
 *     2   var<uniform> step: forge_step;                   the current step; the kernel that draws a token writes the next one
 *     3   var<uniform> launch: forge_launch;               where in `vectors` its weights begin
 *     4   var<storage, read> vectors: array<vec4u>;        f32 weights of vectors, tables of rotations
 *     5   var<storage, read_write> text: array<u32>;       [n_ctx] tokens of the sequence by position
 *     6   var<storage, read> m0: array<vec4u>;             a matrix, packed rows one after the other; 7 m1, ..
 * A position is a token's place in the text.  Token t of a step, t < n_tokens, has position n_past + t.  Kernels after the last state
 * work only on tokens with logits: these are the last n_logits of the step. */

/* far: 1 in a text for which rotations have tables of their own, after the others. */
struct forge_step { n_tokens: u32, n_past: u32, n_logits: u32, far: u32 }
/* Weight i begins at piece at[i / 4][i % 4] of vectors.  tail: 1 after the last state of a step of several tokens. */
struct forge_launch { at: array<vec4u, 4>, tail: u32 }

fn forge_vector(slot: u32) -> u32 { return launch.at[slot / 4u][slot % 4u]; }
/* The first token with logits; the token that row y of the grid works on. */
fn forge_first() -> u32 { return step.n_tokens - step.n_logits; }
fn forge_token(y: u32) -> u32 { return y + select(0u, forge_first(), launch.tail == 1u); }
