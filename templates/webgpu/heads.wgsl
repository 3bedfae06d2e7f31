/* heads.wgsl -- operations on the heads of a token between their projection and attention: RMS norm of a head, rotary position embedding,
 * and storing k and v; formulas: templates/gpu/rope.h.  (Su et al. 2021, arXiv:2104.09864; Zhang & Sennrich 2019, arXiv:1910.07467)
 *
 * A workgroup has HEADS_EACH heads of a token, and THREADS / HEADS_EACH neighbouring invocations per head.  The module has
 *     var<storage, read_write> arena: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;                   if there are norms or rotations
 *     state                                                       as in kv.wgsl
 *     const THREADS, HEADS_EACH                                   powers of two
 *     const HEAD_DIM                                              even, the same for all heads of a call
 * Workgroup memory: 4 HEADS_EACH HEAD_DIM + 4 THREADS bytes.  Functions are called by all invocations of a group, in uniform control flow,
 * with a barrier between two calls; group: number of the workgroup among the token's, thread: local_invocation_index. */
// include templates/webgpu/acts.wgsl
// include templates/webgpu/kv.wgsl
// include templates/webgpu/reduce.wgsl
// include templates/webgpu/vectors.wgsl

/* The tables: high [..][n_rot/2][2] cos, sin of position block * k times the attention factor, low [block][n_rot/2][2] of position k; the
 * rotation of a position is the complex product of one row of each.  high, low: the pieces where they begin.
 * neox: pairs (i, i + n_rot/2), else (2i, 2i + 1); dimensions from n_rot on stay unchanged.  n_rot 0: no rotation. */
struct rotation { high: u32, low: u32, block: u32, n_rot: u32, neox: bool }

/* cos and sin of pair i. */
fn rotation_of(r: rotation, position: u32, i: u32) -> vec2f {
    let h = vector_pair(r.high, position / r.block * r.n_rot + 2u * i);
    let l = vector_pair(r.low, position % r.block * r.n_rot + 2u * i);
    return vec2f(h.x * l.x - h.y * l.y, h.y * l.x + h.x * l.y);
}
/* The two dimensions of pair i. */
fn pair_dimensions(r: rotation, i: u32) -> vec2u {
    return select(vec2u(2u * i, 2u * i + 1u), vec2u(i, i + r.n_rot / 2u), r.neox && i < r.n_rot / 2u);
}

var<workgroup> head_values: array<f32, HEADS_EACH * HEAD_DIM>;

/* The values that kv.wgsl stores. */
fn stored(i: u32) -> f32 { return head_values[i]; }

/* Invocations per head, and pairs of the head per invocation. */
const HEAD_LANES = THREADS / HEADS_EACH;
const HEAD_PAIRS = (HEAD_DIM / 2u + HEAD_LANES - 1u) / HEAD_LANES;

/* Loads the head at word `source` of the arena into head_values from `to` on, normed if norm is a piece, rotated if r.n_rot is not 0.
 * there: whether the head exists.  Every invocation has its own pairs; all their data is read before the first wait. */
fn head_take(source: u32, there: bool, norm: u32, eps: f32, r: rotation, position: u32, normed: bool, to: u32, thread: u32) {
    let lane = thread % HEAD_LANES;
    var values: array<vec2f, HEAD_PAIRS>;
    var weights: array<vec2f, HEAD_PAIRS>;
    var turns: array<vec2f, HEAD_PAIRS>;
    var squares = 0.0;
    for (var j = 0u; j < HEAD_PAIRS; j++) {
        let i = j * HEAD_LANES + lane;
        values[j] = vec2f(0.0);
        weights[j] = vec2f(1.0);
        turns[j] = vec2f(1.0, 0.0);
        if (there && i < HEAD_DIM / 2u) {
            let d = pair_dimensions(r, i);
            values[j] = vec2f(arena_f32(source + d.x), arena_f32(source + d.y));
            if (norm != NO_VECTOR) { weights[j] = vec2f(vector_f32(norm, d.x), vector_f32(norm, d.y)); }
            if (i < r.n_rot / 2u) { turns[j] = rotation_of(r, position, i); }
        }
    }
    for (var j = 0u; j < HEAD_PAIRS; j++) { squares += dot(values[j], values[j]); }
    var factor = 1.0;
    if (normed) {
        let own = inverseSqrt(lanes_sum(squares, HEAD_LANES, thread) / f32(HEAD_DIM) + eps);
        if (norm != NO_VECTOR) { factor = own; }
    }
    for (var j = 0u; j < HEAD_PAIRS; j++) {
        let i = j * HEAD_LANES + lane;
        let d = pair_dimensions(r, i);
        let x = values[j] * (factor * weights[j]);
        if (there && i < HEAD_DIM / 2u) {
            head_values[to + d.x] = x.x * turns[j].x - x.y * turns[j].y;
            head_values[to + d.y] = x.x * turns[j].y + x.y * turns[j].x;
        }
    }
    workgroupBarrier();
}

/* All heads of one token: q is normed and rotated in place, k normed, rotated and stored, v stored.  q, k, v: the words where the token's
 * rows begin, [n_head][HEAD_DIM], [n_head_kv][HEAD_DIM].  q_norm, k_norm: the pieces of [HEAD_DIM] weights, or NO_VECTOR.
 * Groups per token: (n_head + 2 n_head_kv) / HEADS_EACH, rounded up. */
fn heads_finish_KV_STATE(q: u32, k: u32, v: u32, q_norm: u32, k_norm: u32, eps: f32, r: rotation, k_plane: kv_plane, v_plane: kv_plane,
                         n_head: u32, position: u32, ring: u32, group: u32, thread: u32) {
    let n_head_kv = k_plane.heads;
    let item = group * HEADS_EACH + thread / HEAD_LANES;
    let is_q = item < n_head;
    let is_k = !is_q && item < n_head + n_head_kv;
    let is_v = !is_q && !is_k && item < n_head + 2u * n_head_kv;
    let head = item - select(n_head, n_head + n_head_kv, is_v);
    let source = select(select(v + head * HEAD_DIM, k + head * HEAD_DIM, is_k), q + item * HEAD_DIM, is_q);
    var turns = r;
    turns.n_rot = select(r.n_rot, 0u, is_v);
    let norm = select(select(NO_VECTOR, k_norm, is_k), q_norm, is_q);
    let to = thread / HEAD_LANES * HEAD_DIM;
    head_take(source, is_q || is_k || is_v, norm, eps, turns, position, q_norm != NO_VECTOR || k_norm != NO_VECTOR, to, thread);
    if (is_q) {
        for (var c = thread % HEAD_LANES; c < HEAD_DIM; c += HEAD_LANES) { arena[source + c] = bitcast<u32>(head_values[to + c]); }
    } else if (is_k) {
        for (var c = 4u * (thread % HEAD_LANES); c < HEAD_DIM; c += 4u * HEAD_LANES) {
            kv_store_KV_STATE(k_plane, head, kv_row(position, ring), c, to);
        }
    } else if (is_v) {
        for (var c = 4u * (thread % HEAD_LANES); c < HEAD_DIM; c += 4u * HEAD_LANES) {
            kv_store_KV_STATE(v_plane, head, kv_row(position, ring), c, to);
        }
    }
}
/* Norms and rotates `heads` heads of a token in place.  Groups per token: heads / HEADS_EACH, rounded up. */
fn heads_turn(x: u32, norm: u32, eps: f32, r: rotation, heads: u32, position: u32, group: u32, thread: u32) {
    let item = group * HEADS_EACH + thread / HEAD_LANES;
    let to = thread / HEAD_LANES * HEAD_DIM;
    head_take(x + item * HEAD_DIM, item < heads, norm, eps, r, position, norm != NO_VECTOR, to, thread);
    for (var c = thread % HEAD_LANES; item < heads && c < HEAD_DIM; c += HEAD_LANES) {
        arena[x + item * HEAD_DIM + c] = bitcast<u32>(head_values[to + c]);
    }
}
/* Stores the heads of k or v of a token unchanged in a plane of heads of HEAD_DIM.  Groups per token: plane.heads / HEADS_EACH, rounded
 * up. */
fn heads_store_KV_STATE(x: u32, plane: kv_plane, position: u32, ring: u32, group: u32, thread: u32) {
    let item = group * HEADS_EACH + thread / HEAD_LANES;
    let to = thread / HEAD_LANES * HEAD_DIM;
    for (var c = thread % HEAD_LANES; item < plane.heads && c < HEAD_DIM; c += HEAD_LANES) {
        head_values[to + c] = arena_f32(x + item * HEAD_DIM + c);
    }
    workgroupBarrier();
    for (var c = 4u * (thread % HEAD_LANES); item < plane.heads && c < HEAD_DIM; c += 4u * HEAD_LANES) {
        kv_store_KV_STATE(plane, item, kv_row(position, ring), c, to);
    }
}
