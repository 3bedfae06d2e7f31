/* attention_steps.wgsl -- attention as four kernels, for decode and prefill alike: for heads that the other kinds do not support, and for
 * comparison with them; templates/gpu/attention_unfused.h.  A workgroup computes one head of token t of the step.
 * scores: the word of the arena where [n_head][rows][n_ctx] f32 begin; rows: most tokens of a step.  In each row the positions that the
 * token may attend are used, the first n_past + n_tokens or fewer.
 *
 * The module has
 *     var<storage, read_write> arena, state: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;                   if there are sinks
 *     const THREADS                                a power of two, at least 32
 *     const HEAD_DIM, VALUE_DIM                    columns of K and of V, multiples of 4
 * Words: KV (kv.wgsl).  Workgroup memory: 4 THREADS bytes; scores 4 HEAD_DIM more, the weighted sum 16 THREADS.  Functions are called by
 * all invocations of a group, in uniform control flow. */
// include templates/webgpu/attention.wgsl

/* Neighbouring invocations that share a row of K. */
const STEPS_LANES = 16u;

struct steps { scores: u32, rows: u32, n_ctx: u32, n_past: u32, n_tokens: u32 }

fn steps_row(s: steps, head: u32, t: u32) -> u32 { return s.scores + (head * s.rows + t) * s.n_ctx; }

var<workgroup> steps_q: array<vec4f, HEAD_DIM / 4u>;

/* scores = scale * q . k, then softcapped if there is a cap.  q: the word of the token's row, [n_head][HEAD_DIM].  part, parts: number of
 * this workgroup among those that share a head's positions, and their number. */
fn steps_scores_KV(s: steps, of_all: attention, k: kv_plane, q: u32, head: u32, t: u32, part: u32, parts: u32, thread: u32) {
    let row = steps_row(s, head, t);
    let kv_head = head / (of_all.n_head / k.heads);
    let begin = kv_window_begin(s.n_past + t, of_all.window);
    let end = s.n_past + s.n_tokens;
    let lane = thread % STEPS_LANES;
    for (var i = thread; i < HEAD_DIM / 4u; i += THREADS) {
        let at = q + head * HEAD_DIM + 4u * i;
        steps_q[i] = of_all.scale * vec4f(arena_f32(at), arena_f32(at + 1u), arena_f32(at + 2u), arena_f32(at + 3u));
    }
    workgroupBarrier();
    for (var first = begin + part * (THREADS / STEPS_LANES); first < end; first += parts * (THREADS / STEPS_LANES)) {
        let p = first + thread / STEPS_LANES;
        var sum = 0.0;
        for (var i = lane; i < HEAD_DIM / 4u; i += STEPS_LANES) {
            sum += dot(steps_q[i], kv_load_KV(k, kv_head, kv_row(min(p, end - 1u), of_all.ring), 4u * i));
        }
        sum = lanes_sum(sum, STEPS_LANES, thread);
        if (lane == 0u && p < end) { arena[row + p] = bitcast<u32>(score_capped(sum, of_all.cap)); }
    }
}

/* Masks the scores of positions after the token's own. */
fn steps_mask(s: steps, head: u32, t: u32, thread: u32) {
    let row = steps_row(s, head, t);
    for (var p = s.n_past + t + 1u + thread; p < s.n_past + s.n_tokens; p += THREADS) { arena[row + p] = bitcast<u32>(NO_SCORE); }
}

/* Turns a row of scores into weights with sum 1, or less with sinks. */
fn steps_softmax(s: steps, of_all: attention, head: u32, t: u32, thread: u32) {
    let row = steps_row(s, head, t);
    let begin = kv_window_begin(s.n_past + t, of_all.window);
    let end = s.n_past + s.n_tokens;
    var sink = NO_SCORE;
    if (of_all.sinks != NO_VECTOR) { sink = vector_f32(of_all.sinks, head); }
    var top = sink;
    for (var p = begin + thread; p < end; p += THREADS) { top = max(top, arena_f32(row + p)); }
    top = lanes_max(top, THREADS, thread);
    var sum = 0.0;
    for (var p = begin + thread; p < end; p += THREADS) {
        let weight = exp2((arena_f32(row + p) - top) * LOG2E);
        arena[row + p] = bitcast<u32>(weight);
        sum += weight;
    }
    let factor = 1.0 / (lanes_sum(sum, THREADS, thread) + exp2((sink - top) * LOG2E));
    for (var p = begin + thread; p < end; p += THREADS) { arena[row + p] = bitcast<u32>(arena_f32(row + p) * factor); }
}

const STEPS_QUADS = min(VALUE_DIM / 4u, THREADS);                 /* runs of 4 columns at a time */
const STEPS_SLOTS = THREADS / STEPS_QUADS;                       /* rows of V at a time */

var<workgroup> steps_sums: array<vec4f, THREADS>;

/* out = sum of weight * v.  out: the word of the token's row, [n_head][VALUE_DIM]; v: heads of VALUE_DIM. */
fn steps_sum_KV(s: steps, of_all: attention, v: kv_plane, out: u32, head: u32, t: u32, thread: u32) {
    let row = steps_row(s, head, t);
    let kv_head = head / (of_all.n_head / v.heads);
    let begin = kv_window_begin(s.n_past + t, of_all.window);
    let end = s.n_past + s.n_tokens;
    let slot = thread / STEPS_QUADS;
    for (var first = 0u; first < VALUE_DIM / 4u; first += STEPS_QUADS) {
        let quad = min(first + thread % STEPS_QUADS, VALUE_DIM / 4u - 1u);
        var sum = vec4f(0.0);
        for (var p = begin + slot; p < end && slot < STEPS_SLOTS; p += STEPS_SLOTS) {
            sum += arena_f32(row + p) * kv_load_KV(v, kv_head, kv_row(p, of_all.ring), 4u * quad);
        }
        steps_sums[thread] = sum;
        workgroupBarrier();
        if (slot == 0u && first + thread < VALUE_DIM / 4u) {
            for (var i = 1u; i < STEPS_SLOTS; i++) { sum += steps_sums[i * STEPS_QUADS + thread]; }
            let at = out + head * VALUE_DIM + 4u * (first + thread);
            for (var i = 0u; i < 4u; i++) { arena[at + i] = bitcast<u32>(sum[i]); }
        }
        workgroupBarrier();
    }
}
