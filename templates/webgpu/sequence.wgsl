/* sequence.wgsl -- operations with a state that passes from position to position: the causal convolution of columns and the
 * recurrence of gated delta nets and Mamba-2  (Yang et al. 2024, arXiv:2412.06464; Dao & Gu 2024, arXiv:2405.21060).
 * A step reads its state once and writes it once.  At the start of a sequence the state counts as zero.
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;
 *     var<storage, read_write> state: array<u32>;  from where the launch's state begins
 *     var<uniform> step: forge_step;
 *     var<storage, read> vectors: array<vec4u>;    if there are taps
 *     const THREADS                                of a workgroup
 *     fn sink_SINK(t: u32, r: u32, y: f32)         gets column r of token t's row
 * x: the word of the arena where the row of token 0 begins, x_stride: words from row to row.  n_tokens: of the step; 1 in decode.  group:
 * number of the workgroup.  The launch must not read values that sinks write. */
// include templates/webgpu/launch.wgsl
// include templates/webgpu/rows.wgsl

fn state_f32(at: u32) -> f32 { return bitcast<f32>(state[at]); }

/* ---- convolution ---- */
/* Tokens per workgroup. */
const CONV_TOKENS = 64u;

/* Input of column c, `back` tokens (at most n_taps - 1) before token t.  Inputs before the step are in the state, [n_taps - 1][cols],
 * oldest first. */
fn conv_input(x: u32, x_stride: u32, t: u32, back: u32, c: u32, cols: u32, n_taps: u32) -> f32 {
    if (t >= back) { return arena_f32(x + (t - back) * x_stride + c); }
    if (step.n_past == 0u) { return 0.0; }
    return state_f32((t + n_taps - 1u - back) * cols + c);
}
/* Stores the state after the step.  In this order every write follows the last read of the old value. */
fn conv_put(x: u32, x_stride: u32, c: u32, cols: u32, n_taps: u32, n_tokens: u32) {
    for (var k = 0u; k + 1u < n_taps; k++) {
        state[k * cols + c] = bitcast<u32>(conv_input(x, x_stride, n_tokens - 1u, n_taps - 2u - k, c, cols, n_taps));
    }
}
/* Column group * THREADS + thread of the state; in a launch after that of conv_rows. */
fn conv_keep(x: u32, x_stride: u32, cols: u32, n_taps: u32, n_tokens: u32, group: u32, thread: u32) {
    let c = group * THREADS + thread;
    if (c < cols) { conv_put(x, x_stride, c, cols, n_taps, n_tokens); }
}
/* The same column for CONV_TOKENS tokens from CONV_TOKENS tokens_group on.  taps: the piece of vectors where they begin,
 * [n_taps][tap_stride], the last one for the token itself.  keep 1: one group covers all tokens of the step and stores the new state;
 * otherwise conv_keep does. */
fn conv_rows_SINK(x: u32, x_stride: u32, taps: u32, tap_stride: u32, cols: u32, n_taps: u32, keep: u32, n_tokens: u32, group: u32,
                  tokens_group: u32, thread: u32) {
    let c = group * THREADS + thread;
    if (c >= cols) { return; }
    for (var t = tokens_group * CONV_TOKENS; t < min(n_tokens, (tokens_group + 1u) * CONV_TOKENS); t++) {
        var y = 0.0;
        for (var k = 0u; k < n_taps; k++) {
            y += vector_f32(taps, k * tap_stride + c) * conv_input(x, x_stride, t, n_taps - 1u - k, c, cols, n_taps);
        }
        sink_SINK(t, c, y);
    }
    if (keep != 0u) { conv_put(x, x_stride, c, cols, n_taps, n_tokens); }
}

/* ---- recurrence ---- */
/* Constants of a launch; strides of q, k, v, decay and beta in words from token to token. */
struct recur {
    heads: u32, qk_heads: u32, head_dim: u32, value_dim: u32, delta: u32, modulo: u32, by_row: u32,
    q_stride: u32, k_stride: u32, v_stride: u32, g_stride: u32, b_stride: u32,
}

/* RECUR_PARTS neighbouring invocations share four columns of a head's S; invocation p has its rows p, p + RECUR_PARTS, ..
 * The module has
 *     const RECUR_PARTS, RECUR_ROWS                a power of two, at most THREADS; head_dim / RECUR_PARTS */
struct recur_sums { held: vec4f, read: vec4f, kq: f32 }
var<workgroup> recur_parts: array<recur_sums, THREADS>;

/* The sums over the invocations that share columns. */
fn recur_sum(mine: recur_sums, thread: u32) -> recur_sums {
    let p = thread % RECUR_PARTS;
    recur_parts[thread] = mine;
    for (var half = RECUR_PARTS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (p < half) {
            let a = recur_parts[thread];
            let b = recur_parts[thread + half];
            recur_parts[thread] = recur_sums(a.held + b.held, a.read + b.read, a.kq + b.kq);
        }
    }
    workgroupBarrier();
    let sums = recur_parts[thread - p];
    workgroupBarrier();                          /* until all have read it */
    return sums;
}
/* One token: S becomes g S + k d with d = beta (v - k g S), without delta beta v; y = q S, which is q g S + (q k) d, so that one sum over
 * the invocations is enough.
 *
 * All tokens of the step.  q, k, v, decay, beta: words where the rows of token 0 begin; value_dim: a multiple of 4.  The state has S of
 * every head, [heads][value_dim / 4][head_dim][4].  Needs heads value_dim / 4 RECUR_PARTS invocations.  Workgroup memory: 48 THREADS
 * bytes.  Called by all invocations of the group, in uniform control flow. */
fn recur_rows_SINK(q: u32, k: u32, v: u32, decay: u32, beta: u32, shape: recur, n_tokens: u32, group: u32, thread: u32) {
    let quads = shape.value_dim / 4u;
    let item = (group * THREADS + thread) / RECUR_PARTS;
    let live = item < shape.heads * quads;
    let at = select(0u, item, live);
    let p = thread % RECUR_PARTS;
    let head = at / quads;
    let column = at % quads * 4u;
    let other = select(head / (shape.heads / shape.qk_heads), head % shape.qk_heads, shape.modulo != 0u);
    let place = 4u * (at * shape.head_dim + p);
    var S: array<vec4f, RECUR_ROWS>;
    for (var i = 0u; i < RECUR_ROWS; i++) {
        S[i] = vec4f(0.0);
        let word = place + 4u * i * RECUR_PARTS;
        if (step.n_past != 0u) { S[i] = vec4f(state_f32(word), state_f32(word + 1u), state_f32(word + 2u), state_f32(word + 3u)); }
    }
    for (var t = 0u; t < n_tokens; t++) {
        let q_at = q + t * shape.q_stride + other * shape.head_dim + p;
        let k_at = k + t * shape.k_stride + other * shape.head_dim + p;
        let g_at = decay + t * shape.g_stride + select(head, head * shape.head_dim + p, shape.by_row != 0u);
        var g = exp2(1.44269504 * arena_f32(g_at));
        var mine = recur_sums(vec4f(0.0), vec4f(0.0), 0.0);
        for (var i = 0u; i < RECUR_ROWS; i++) {
            let k_i = arena_f32(k_at + i * RECUR_PARTS);
            let q_i = arena_f32(q_at + i * RECUR_PARTS);
            if (shape.by_row != 0u && i > 0u) { g = exp2(1.44269504 * arena_f32(g_at + i * RECUR_PARTS)); }
            S[i] *= g;
            mine.held += S[i] * k_i;
            mine.read += S[i] * q_i;
            mine.kq += k_i * q_i;
        }
        let sums = recur_sum(mine, thread);
        let v_at = v + t * shape.v_stride + head * shape.value_dim + column;
        let held = select(vec4f(0.0), sums.held, shape.delta != 0u);
        let d = (vec4f(arena_f32(v_at), arena_f32(v_at + 1u), arena_f32(v_at + 2u), arena_f32(v_at + 3u)) - held) *
                arena_f32(beta + t * shape.b_stride + head);
        for (var i = 0u; i < RECUR_ROWS; i++) { S[i] += d * arena_f32(k_at + i * RECUR_PARTS); }
        let y = sums.read + d * sums.kq;
        for (var c = p; live && c < 4u; c += RECUR_PARTS) { sink_SINK(t, head * shape.value_dim + column + c, y[c]); }
    }
    for (var i = 0u; live && i < RECUR_ROWS; i++) {
        let word = place + 4u * i * RECUR_PARTS;
        let bits = bitcast<vec4u>(S[i]);
        state[word] = bits.x;
        state[word + 1u] = bits.y;
        state[word + 2u] = bits.z;
        state[word + 3u] = bits.w;
    }
}
