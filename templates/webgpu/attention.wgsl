/* attention.wgsl -- attention of one token over the cache, with a streaming softmax, and what all ways of attention share.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135)
 *
 * A workgroup has up to HEADS query heads of one KV head, and of the positions one of `splits` parts.  It takes ATTENTION_TILE positions at
 * a time: K goes through workgroup memory, so that neighbours read neighbouring words and a row is then that of one invocation, or of a
 * few with a part of its columns each; V is read as it lies, four columns an invocation.  Both are read once for all heads.
 * There is no barrier across workgroups: sums of several splits are joined by a second kernel, attention_merge.
 *
 * The module has
 *     var<storage, read_write> arena, state: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;                   where there are sinks
 *     const THREADS                                64, 128 or 256
 *     const HEAD_DIM                               a multiple of 4, at most 256; of K and V
 *     const HEADS                                  HEADS THREADS is at most 2,112
 * Words: KV (kv.wgsl).  Workgroup memory, of attention_decode: 8,448 + HEADS (4 HEAD_DIM + 324) bytes at most, which is below 16,384 for 8
 * heads of 128, 6 of 192 and 5 of 256 dimensions.  attention_merge has none.
 * Functions are called by all invocations of a group, in uniform control flow. */
// include templates/webgpu/heads.wgsl

/* scale: of q . k; cap: of scores, 0: none; sinks: the piece of [n_head] scores that give nothing, or NO_VECTOR; window, ring: kv.wgsl.
 * Constants but for the place of the sinks. */
struct attention { n_head: u32, scale: f32, cap: f32, sinks: u32, window: u32, ring: u32 }

/* In place of minus infinity, which WGSL lets a machine do without: the maximum of no score. */
const NO_SCORE = -1e30;
const LOG2E = 1.44269504;

/* cap tanh(s / cap); small ones by a series, where the other form has no digits left. */
fn scores_capped(s: vec4f, cap: f32) -> vec4f {
    if (cap == 0.0) { return s; }
    let x = s / cap;
    let square = x * x;
    let small = x * (1.0 - square * (0.333333333 - square * 0.133333333));
    let large = 1.0 - 2.0 / (1.0 + exp2(min(2.0 * LOG2E * x, vec4f(100.0))));
    return cap * select(large, small, square < vec4f(0.01));
}
fn score_capped(s: f32, cap: f32) -> f32 { return scores_capped(vec4f(s), cap).x; }

const ATTENTION_TILE = 64u;                      /* positions */
const ATTENTION_COLS = 32u;                      /* of K, at a time */
const ATTENTION_STRIDE = ATTENTION_COLS + 1u;    /* odd: neighbours read other banks */
const ATTENTION_PARTS = THREADS / ATTENTION_TILE;
const ATTENTION_SLOTS = THREADS / (HEAD_DIM / 4u);               /* rows of V at a time */
const ATTENTION_LANES = min(THREADS / HEADS, 16u);               /* invocations of a head's softmax */
const ATTENTION_SUMMED = max(ATTENTION_TILE * ATTENTION_STRIDE / (4u * THREADS), 1u);         /* heads whose sums fit into the tile */

var<workgroup> attention_q: array<vec4f, HEADS * HEAD_DIM / 4u>;
/* K; then, of a tile, the scores of each part; in the end sums of V. */
var<workgroup> attention_tile: array<f32, ATTENTION_TILE * ATTENTION_STRIDE>;
var<workgroup> attention_weights: array<f32, HEADS * ATTENTION_TILE>;
var<workgroup> attention_lane: array<f32, HEADS * ATTENTION_LANES>;
var<workgroup> attention_head: array<f32, HEADS>;

/* Query heads of a KV head, in cuts of HEADS. */
fn attention_cuts(n_head: u32, n_head_kv: u32) -> u32 { return (n_head / n_head_kv + HEADS - 1u) / HEADS; }

/* Columns first .. of K, for positions tile .. of the split; those beyond its end repeat the last one. */
fn attention_put_k_KV(k: kv_plane, kv_head: u32, tile: u32, end: u32, ring: u32, first: u32, thread: u32) {
    for (var turn = 0u; turn < ATTENTION_TILE * ATTENTION_COLS / 4u / THREADS; turn++) {        /* so many that loads go together */
        let item = turn * THREADS + thread;
        let p = item / (ATTENTION_COLS / 4u);
        let c = item % (ATTENTION_COLS / 4u) * 4u;
        if (first + c < HEAD_DIM) {
            let x = kv_load_KV(k, kv_head, kv_row(min(tile + p, end - 1u), ring), first + c);
            for (var i = 0u; i < 4u; i++) { attention_tile[p * ATTENTION_STRIDE + c + i] = x[i]; }
        }
    }
}
/* Scores of the tile, summed over this invocation's part of the columns, into attention_tile. */
fn attention_scores_KV(k: kv_plane, kv_head: u32, tile: u32, end: u32, ring: u32, thread: u32) {
    let p = thread % ATTENTION_TILE;
    let mine = thread / ATTENTION_TILE * (ATTENTION_COLS / ATTENTION_PARTS);
    var sums: array<f32, HEADS>;
    for (var h = 0u; h < HEADS; h++) { sums[h] = 0.0; }
    for (var first = 0u; first < HEAD_DIM; first += ATTENTION_COLS) {
        attention_put_k_KV(k, kv_head, tile, end, ring, first, thread);
        workgroupBarrier();
        for (var c = mine; c < mine + ATTENTION_COLS / ATTENTION_PARTS; c += 4u) {
            if (first + c < HEAD_DIM) {
                let at = p * ATTENTION_STRIDE + c;
                let x = vec4f(attention_tile[at], attention_tile[at + 1u], attention_tile[at + 2u], attention_tile[at + 3u]);
                for (var h = 0u; h < HEADS; h++) { sums[h] += dot(x, attention_q[h * (HEAD_DIM / 4u) + (first + c) / 4u]); }
            }
        }
        workgroupBarrier();
    }
    for (var h = 0u; h < HEADS; h++) { attention_tile[h * THREADS + thread] = sums[h]; }
    workgroupBarrier();
}
/* The score of a head at a position of the tile, times log2(e). */
fn attention_score(h: u32, p: u32, cap: f32) -> f32 {
    var s = 0.0;
    for (var part = 0u; part < ATTENTION_PARTS; part++) { s += attention_tile[h * THREADS + part * ATTENTION_TILE + p]; }
    return score_capped(s, cap) * LOG2E;
}

/* V of position p of a tile, 0 behind its n positions; and a weight that is finite there, too. */
fn attention_v_KV(v: kv_plane, kv_head: u32, tile: u32, p: u32, n: u32, ring: u32, column: u32) -> vec4f {
    let x = kv_load_KV(v, kv_head, kv_row(tile + min(p, n - 1u), ring), column);
    return select(vec4f(0.0), x, p < n);
}
fn attention_weight(h: u32, p: u32, n: u32) -> f32 { return attention_weights[h * ATTENTION_TILE + min(p, n - 1u)]; }

/* One token: q: the word where its row begins, [n_head][HEAD_DIM], normed and rotated; out: the same of what comes out.  position: the
 * token's; its own key and value are stored already.  cut: of the query heads of kv_head, cuts attention_cuts(); split: of the positions.
 * parts, ml: words of the arena for [n_head_kv][cuts][splits][HEADS] rows of HEAD_DIM sums and as many pairs of maximum (of scores times
 * log2(e)) and total; not touched where splits is 1.  A total of 0: there were no positions, the sums are not written. */
fn attention_decode_KV(of_all: attention, k: kv_plane, v: kv_plane, q: u32, out: u32, parts: u32, ml: u32, position: u32, kv_head: u32,
                       cut: u32, split: u32, splits: u32, thread: u32) {
    let group = of_all.n_head / k.heads;
    let heads = min(HEADS, group - cut * HEADS);
    let first_head = kv_head * group + cut * HEADS;
    let part = ((kv_head * attention_cuts(of_all.n_head, k.heads) + cut) * splits + split) * HEADS;
    let window_begin = kv_window_begin(position, of_all.window);
    let tiles = (position + 1u - window_begin + ATTENTION_TILE - 1u) / ATTENTION_TILE;
    let each = (tiles + splits - 1u) / splits * ATTENTION_TILE;
    let begin = window_begin + split * each;
    let end = min(begin + each, position + 1u);
    if (begin >= end) {
        if (thread < heads) {
            arena[ml + 2u * (part + thread)] = bitcast<u32>(NO_SCORE);
            arena[ml + 2u * (part + thread) + 1u] = 0u;
        }
        return;
    }
    for (var i = thread; i < HEADS * HEAD_DIM / 4u; i += THREADS) {
        let h = first_head + min(4u * i / HEAD_DIM, heads - 1u);
        let at = q + h * HEAD_DIM + 4u * i % HEAD_DIM;
        attention_q[i] = of_all.scale * vec4f(arena_f32(at), arena_f32(at + 1u), arena_f32(at + 2u), arena_f32(at + 3u));
    }

    let h_mine = thread / ATTENTION_LANES;       /* of the softmax; invocations beyond the heads have none */
    let lane = thread % ATTENTION_LANES;
    let quad = thread % (HEAD_DIM / 4u);         /* of V */
    let slot = thread / (HEAD_DIM / 4u);
    var top = NO_SCORE;
    var total = 0.0;
    var sums: array<vec4f, HEADS>;
    for (var h = 0u; h < HEADS; h++) { sums[h] = vec4f(0.0); }
    for (var tile = begin; tile < end; tile += ATTENTION_TILE) {
        let n = min(end - tile, ATTENTION_TILE);
        attention_scores_KV(k, kv_head, tile, end, of_all.ring, thread);
        if (h_mine < HEADS) {
            var most = NO_SCORE;
            for (var p = lane; p < n; p += ATTENTION_LANES) {
                let s = attention_score(h_mine, p, of_all.cap);
                attention_weights[h_mine * ATTENTION_TILE + p] = s;
                most = max(most, s);
            }
            attention_lane[thread] = most;
        }
        workgroupBarrier();
        if (h_mine < HEADS) {
            var most = top;
            for (var i = 0u; i < ATTENTION_LANES; i++) { most = max(most, attention_lane[thread - lane + i]); }
            let factor = exp2(top - most);
            top = most;
            total *= factor;
            for (var p = lane; p < n; p += ATTENTION_LANES) {
                let weight = exp2(attention_weights[h_mine * ATTENTION_TILE + p] - most);
                attention_weights[h_mine * ATTENTION_TILE + p] = weight;
                total += weight;
            }
            if (lane == 0u) { attention_head[h_mine] = factor; }
        }
        workgroupBarrier();
        for (var h = 0u; h < HEADS; h++) { sums[h] *= attention_head[h]; }
        for (var p = slot; p < n && slot < ATTENTION_SLOTS; p += 4u * ATTENTION_SLOTS) {       /* four loads together */
            let x0 = attention_v_KV(v, kv_head, tile, p, n, of_all.ring, 4u * quad);
            let x1 = attention_v_KV(v, kv_head, tile, p + ATTENTION_SLOTS, n, of_all.ring, 4u * quad);
            let x2 = attention_v_KV(v, kv_head, tile, p + 2u * ATTENTION_SLOTS, n, of_all.ring, 4u * quad);
            let x3 = attention_v_KV(v, kv_head, tile, p + 3u * ATTENTION_SLOTS, n, of_all.ring, 4u * quad);
            for (var h = 0u; h < HEADS; h++) {
                sums[h] += attention_weight(h, p, n) * x0 + attention_weight(h, p + ATTENTION_SLOTS, n) * x1 +
                           attention_weight(h, p + 2u * ATTENTION_SLOTS, n) * x2 + attention_weight(h, p + 3u * ATTENTION_SLOTS, n) * x3;
            }
        }
    }

    /* Each lane's share of its head's total, and the head's maximum. */
    workgroupBarrier();
    if (h_mine < HEADS) {
        attention_lane[thread] = total;
        if (lane == 0u) { attention_head[h_mine] = top; }
    }
    for (var first = 0u; first < heads; first += ATTENTION_SUMMED) {
        let n = min(heads - first, ATTENTION_SUMMED);
        for (var h = 0u; h < HEADS; h++) {
            if (h >= first && h < first + n && slot < ATTENTION_SLOTS) {
                let at = ((h - first) * ATTENTION_SLOTS + slot) * HEAD_DIM + 4u * quad;
                for (var i = 0u; i < 4u; i++) { attention_tile[at + i] = sums[h][i]; }
            }
        }
        workgroupBarrier();
        for (var item = thread; item < n * HEAD_DIM; item += THREADS) {
            attention_leave(of_all, out, parts, ml, part, first_head, first + item / HEAD_DIM, first, item % HEAD_DIM, split, splits);
        }
        workgroupBarrier();
    }
}
/* Column c of head h of the group: the slots' sums added, to where they go. */
fn attention_leave(of_all: attention, out: u32, parts: u32, ml: u32, part: u32, first_head: u32, h: u32, first: u32, c: u32, split: u32,
                   splits: u32) {
    var sum = 0.0;
    for (var s = 0u; s < ATTENTION_SLOTS; s++) { sum += attention_tile[((h - first) * ATTENTION_SLOTS + s) * HEAD_DIM + c]; }
    var top = attention_head[h];
    var total = 0.0;
    for (var i = 0u; i < ATTENTION_LANES; i++) { total += attention_lane[h * ATTENTION_LANES + i]; }
    if (of_all.sinks != NO_VECTOR && split == 0u) {            /* every head's sink once; it gives nothing but its weight */
        let sink = vector_f32(of_all.sinks, first_head + h) * LOG2E;
        let most = max(top, sink);
        sum *= exp2(top - most);
        total = total * exp2(top - most) + exp2(sink - most);
        top = most;
    }
    if (splits == 1u) {
        arena[out + (first_head + h) * HEAD_DIM + c] = bitcast<u32>(sum / total);
        return;
    }
    arena[parts + (part + h) * HEAD_DIM + c] = bitcast<u32>(sum);
    if (c == 0u) {
        arena[ml + 2u * (part + h)] = bitcast<u32>(top);
        arena[ml + 2u * (part + h) + 1u] = bitcast<u32>(total);
    }
}

/* What the splits left of one query head, joined: a workgroup for each head, or for a part of its columns.  out: the token's row. */
fn attention_merge(out: u32, parts: u32, ml: u32, n_head: u32, n_head_kv: u32, splits: u32, head: u32, thread: u32) {
    let group = n_head / n_head_kv;
    let cut = head / group * attention_cuts(n_head, n_head_kv) + head % group / HEADS;
    let first = cut * splits * HEADS + head % group % HEADS;
    var top = NO_SCORE;
    for (var s = 0u; s < splits; s++) { top = max(top, arena_f32(ml + 2u * (first + s * HEADS))); }
    for (var c = thread; c < HEAD_DIM; c += THREADS) {
        var sum = 0.0;
        var total = 0.0;
        for (var s = 0u; s < splits; s++) {
            let row = first + s * HEADS;
            let some = arena_f32(ml + 2u * row + 1u);
            if (some > 0.0) {
                let factor = exp2(arena_f32(ml + 2u * row) - top);
                total += factor * some;
                sum += factor * arena_f32(parts + row * HEAD_DIM + c);
            }
        }
        arena[out + head * HEAD_DIM + c] = bitcast<u32>(sum / total);
    }
}
