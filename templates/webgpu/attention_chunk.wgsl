/* attention_chunk.wgsl -- attention of the tokens of a step over the cache, with an online softmax, in f32.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135; Dao 2023, arXiv:2307.08691)
 *
 * A workgroup takes one KV head and CHUNK_ROWS rows, which are (token, query head) with heads varying fastest, so that K and V are read
 * once for all heads that share them.  It takes CHUNK_POSITIONS positions at a time.  An invocation has 4 rows.  It computes the scores of
 * 4 neighbouring positions in registers, while 12 or 16 columns at a time of q and K pass through workgroup memory, transposed: a load
 * reads four rows or positions.  It has every CHUNK_LANES-th run of 4 columns of the sums.
 *
 * The module has what attention.wgsl needs, without HEADS, and
 *     const CHUNK_ROWS                             CHUNK_ROWS() of sizes.h: the fewer, the more columns a head has, which are more sums
 *     const THREADS                                128
 * which makes 32, 64 or 128 positions.  Words: KV (kv.wgsl).  Workgroup memory: CHUNK_BYTES(). */
// include templates/webgpu/attention.wgsl

const CHUNK_POSITIONS = 16u * THREADS / CHUNK_ROWS;
const CHUNK_LANES = CHUNK_POSITIONS / 4u;        /* invocations that share rows */
const CHUNK_COLS = select(16u, 12u, CHUNK_ROWS == 16u);
/* In pieces of 4, plus one, so that neighbours write to different banks. */
const CHUNK_Q_STRIDE = CHUNK_ROWS / 4u + 1u;
const CHUNK_K_STRIDE = CHUNK_POSITIONS / 4u + 1u;
const CHUNK_PIECES = max(CHUNK_COLS * (CHUNK_Q_STRIDE + CHUNK_K_STRIDE), select(0u, 512u, CHUNK_ROWS == 16u));
/* Positions of V at a time: as many as fit in the memory of q and K. */
const CHUNK_FEW = select(2u, 4u, VALUE_DIM <= CHUNK_PIECES);
const CHUNK_VALUES = select(select(select(CHUNK_FEW, 8u, 2u * VALUE_DIM <= CHUNK_PIECES), 16u, 4u * VALUE_DIM <= CHUNK_PIECES), 32u,
                            8u * VALUE_DIM <= CHUNK_PIECES);
const CHUNK_QUADS = (VALUE_DIM / 4u + CHUNK_LANES - 1u) / CHUNK_LANES;            /* runs of sums for each of 4 rows */

/* Column c of q, rows 4i .. 4i+3, at c CHUNK_Q_STRIDE + i; after all of q the same for K with positions.  Or maxima, or totals, of the
 * lanes.  Or V, [position][VALUE_DIM / 4]. */
var<workgroup> chunk_tile: array<vec4f, CHUNK_PIECES>;
/* Weights of position p, rows 4i .. 4i+3, at p CHUNK_ROWS / 4 + i. */
var<workgroup> chunk_weights: array<vec4f, CHUNK_POSITIONS * CHUNK_ROWS / 4u>;

/* q, out: the words where the rows of the step's token 0 begin; strides in words.  n_tokens: of the step; first: the first token whose row
 * is needed.  causal: token t attends positions up to its own, otherwise all of the step.  tile: of CHUNK_ROWS rows; the first tiles have
 * the latest tokens, which attend most positions; tiles: chunk_tiles(). */
struct chunk { q: u32, q_stride: u32, out: u32, out_stride: u32, n_past: u32, n_tokens: u32, first: u32, causal: bool }

/* Workgroups per KV head. */
fn chunk_tiles(c: chunk, group: u32) -> u32 { return ((c.n_tokens - c.first) * group + CHUNK_ROWS - 1u) / CHUNK_ROWS; }

/* The token of a row, and its head among the KV head's; for a missing row the last token. */
fn chunk_token(c: chunk, group: u32, row: u32) -> u32 { return c.first + min(row / group, c.n_tokens - c.first - 1u); }
fn chunk_last(c: chunk, token: u32) -> u32 { return c.n_past + select(c.n_tokens - 1u, token, c.causal); }

fn chunk_put(at: u32, x0: vec4f, x1: vec4f, x2: vec4f, x3: vec4f, stride: u32) {
    chunk_tile[at] = vec4f(x0.x, x1.x, x2.x, x3.x);
    chunk_tile[at + stride] = vec4f(x0.y, x1.y, x2.y, x3.y);
    chunk_tile[at + 2u * stride] = vec4f(x0.z, x1.z, x2.z, x3.z);
    chunk_tile[at + 3u * stride] = vec4f(x0.w, x1.w, x2.w, x3.w);
}
fn chunk_q(c: chunk, of_all: attention, kv_head: u32, group: u32, row: u32, column: u32) -> vec4f {
    let head = kv_head * group + row % group;
    let at = c.q + chunk_token(c, group, row) * c.q_stride + head * HEAD_DIM + column;
    return of_all.scale * vec4f(arena_f32(at), arena_f32(at + 1u), arena_f32(at + 2u), arena_f32(at + 3u));
}
/* Stores columns column .. of all rows and of positions start .. in the tile, 4 x 4 per item; columns beyond the head are 0. */
fn chunk_put_q_k_KV(c: chunk, of_all: attention, k: kv_plane, kv_head: u32, group: u32, first_row: u32, start: u32, end: u32, column: u32,
                    thread: u32) {
    const quads = CHUNK_COLS / 4u;
    for (var item = thread; item < quads * (CHUNK_ROWS + CHUNK_POSITIONS) / 4u; item += THREADS) {
        let c4 = item % quads * 4u;
        let i = item / quads;
        /* Beyond the head it reads existing columns, which are not used. */
        let at = min(column + c4, HEAD_DIM - 4u);
        let counts = select(0.0, 1.0, column + c4 < HEAD_DIM);
        if (i < CHUNK_ROWS / 4u) {
            let row = first_row + 4u * i;
            let x0 = chunk_q(c, of_all, kv_head, group, row, at);
            let x1 = chunk_q(c, of_all, kv_head, group, row + 1u, at);
            let x2 = chunk_q(c, of_all, kv_head, group, row + 2u, at);
            let x3 = chunk_q(c, of_all, kv_head, group, row + 3u, at);
            chunk_put(c4 * CHUNK_Q_STRIDE + i, counts * x0, counts * x1, counts * x2, counts * x3, CHUNK_Q_STRIDE);
        } else {
            let p = start + 4u * i - CHUNK_ROWS;
            let x0 = kv_load_KV(k, kv_head, kv_row(min(p, end - 1u), of_all.ring), at);
            let x1 = kv_load_KV(k, kv_head, kv_row(min(p + 1u, end - 1u), of_all.ring), at);
            let x2 = kv_load_KV(k, kv_head, kv_row(min(p + 2u, end - 1u), of_all.ring), at);
            let x3 = kv_load_KV(k, kv_head, kv_row(min(p + 3u, end - 1u), of_all.ring), at);
            chunk_put(CHUNK_COLS * CHUNK_Q_STRIDE + c4 * CHUNK_K_STRIDE + i - CHUNK_ROWS / 4u, x0, x1, x2, x3, CHUNK_K_STRIDE);
        }
    }
}
fn chunk_put_v_KV(of_all: attention, v: kv_plane, kv_head: u32, start: u32, end: u32, thread: u32) {
    const items = CHUNK_VALUES * (VALUE_DIM / 4u);
    for (var turn = 0u; turn < (items + THREADS - 1u) / THREADS; turn++) {      /* constant: loads go together */
        let item = min(turn * THREADS + thread, items - 1u);
        let position = min(start + item / (VALUE_DIM / 4u), end - 1u);
        let x = kv_load_KV(v, kv_head, kv_row(position, of_all.ring), item % (VALUE_DIM / 4u) * 4u);
        if (turn * THREADS + thread < items) { chunk_tile[item] = x; }
    }
}

fn attention_chunk_KV(c: chunk, of_all: attention, k: kv_plane, v: kv_plane, kv_head: u32, tile: u32, thread: u32) {
    let group = of_all.n_head / k.heads;
    let rows = (c.n_tokens - c.first) * group;
    let tiles = chunk_tiles(c, group);
    if (tile >= tiles) { return; }
    let first_row = (tiles - 1u - tile) * CHUNK_ROWS;
    let y = thread / CHUNK_LANES;                /* rows 4y .. 4y+3 */
    let lane = thread % CHUNK_LANES;
    let begin = kv_window_begin(c.n_past + chunk_token(c, group, first_row), of_all.window);
    let end = chunk_last(c, chunk_token(c, group, first_row + CHUNK_ROWS - 1u)) + 1u;
    /* The positions that each of the rows sees. */
    var last: vec4u;
    var window: vec4u;
    for (var r = 0u; r < 4u; r++) {
        let token = chunk_token(c, group, first_row + 4u * y + r);
        last[r] = chunk_last(c, token);
        window[r] = kv_window_begin(c.n_past + token, of_all.window);
    }

    var top = vec4f(NO_SCORE);
    var total = vec4f(0.0);                      /* over this invocation's positions */
    var sums: array<vec4f, 4u * CHUNK_QUADS>;
    for (var i = 0u; i < 4u * CHUNK_QUADS; i++) { sums[i] = vec4f(0.0); }
    for (var start = begin; start < end; start += CHUNK_POSITIONS) {
        var s0 = vec4f(0.0);                     /* position 4 lane, of the rows; and so on */
        var s1 = vec4f(0.0);
        var s2 = vec4f(0.0);
        var s3 = vec4f(0.0);
        for (var column = 0u; column < HEAD_DIM; column += CHUNK_COLS) {
            chunk_put_q_k_KV(c, of_all, k, kv_head, group, first_row, start, end, column, thread);
            workgroupBarrier();
            for (var i = 0u; i < CHUNK_COLS; i++) {
                let a = chunk_tile[i * CHUNK_Q_STRIDE + y];
                let b = chunk_tile[CHUNK_COLS * CHUNK_Q_STRIDE + i * CHUNK_K_STRIDE + lane];
                s0 += a * b.x;
                s1 += a * b.y;
                s2 += a * b.z;
                s3 += a * b.w;
            }
            workgroupBarrier();
        }
        s0 = chunk_scores(s0, of_all.cap, start + 4u * lane, window, last);
        s1 = chunk_scores(s1, of_all.cap, start + 4u * lane + 1u, window, last);
        s2 = chunk_scores(s2, of_all.cap, start + 4u * lane + 2u, window, last);
        s3 = chunk_scores(s3, of_all.cap, start + 4u * lane + 3u, window, last);
        chunk_tile[thread] = max(max(s0, s1), max(s2, s3));
        workgroupBarrier();
        var most = top;
        for (var i = 0u; i < CHUNK_LANES; i++) { most = max(most, chunk_tile[y * CHUNK_LANES + i]); }
        let factor = exp2(top - most);
        top = most;
        let w0 = chunk_weight(s0, most);
        let w1 = chunk_weight(s1, most);
        let w2 = chunk_weight(s2, most);
        let w3 = chunk_weight(s3, most);
        total = total * factor + ((w0 + w1) + (w2 + w3));
        let at = 4u * lane * (CHUNK_ROWS / 4u) + y;
        chunk_weights[at] = w0;
        chunk_weights[at + CHUNK_ROWS / 4u] = w1;
        chunk_weights[at + CHUNK_ROWS / 2u] = w2;
        chunk_weights[at + 3u * (CHUNK_ROWS / 4u)] = w3;
        for (var j = 0u; j < CHUNK_QUADS; j++) {
            sums[4u * j] *= factor.x;
            sums[4u * j + 1u] *= factor.y;
            sums[4u * j + 2u] *= factor.z;
            sums[4u * j + 3u] *= factor.w;
        }
        workgroupBarrier();                      /* all have read the maxima */
        for (var p = 0u; p < CHUNK_POSITIONS && start + p < end; p += CHUNK_VALUES) {
            chunk_put_v_KV(of_all, v, kv_head, start + p, end, thread);
            workgroupBarrier();
            for (var i = 0u; i < CHUNK_VALUES; i++) {
                let w = chunk_weights[(p + i) * (CHUNK_ROWS / 4u) + y];
                for (var j = 0u; j < CHUNK_QUADS; j++) {
                    let x = chunk_tile[i * (VALUE_DIM / 4u) + min(lane + j * CHUNK_LANES, VALUE_DIM / 4u - 1u)];
                    sums[4u * j] += w.x * x;
                    sums[4u * j + 1u] += w.y * x;
                    sums[4u * j + 2u] += w.z * x;
                    sums[4u * j + 3u] += w.w * x;
                }
            }
            workgroupBarrier();
        }
    }

    chunk_tile[thread] = total;
    workgroupBarrier();
    total = vec4f(0.0);
    for (var i = 0u; i < CHUNK_LANES; i++) { total += chunk_tile[y * CHUNK_LANES + i]; }
    for (var r = 0u; r < 4u; r++) {
        let row = first_row + 4u * y + r;
        if (row < rows) {
            let head = kv_head * group + row % group;
            let factor = 1.0 / (total[r] + chunk_sink(of_all, head, top[r]));
            let out = c.out + chunk_token(c, group, row) * c.out_stride + head * VALUE_DIM;
            for (var j = 0u; j < CHUNK_QUADS; j++) {
                let column = 4u * (lane + j * CHUNK_LANES);
                if (column < VALUE_DIM) {
                    let x = factor * sums[4u * j + r];
                    for (var i = 0u; i < 4u; i++) { arena[out + column + i] = bitcast<u32>(x[i]); }
                }
            }
        }
    }
}
/* Scores of four rows at a position, times log2(e). */
fn chunk_scores(s: vec4f, cap: f32, position: u32, window: vec4u, last: vec4u) -> vec4f {
    let at = vec4u(position);
    return select(vec4f(NO_SCORE), scores_capped(s, cap) * LOG2E, (at <= last) & (at >= window));
}
/* A row may have no score yet; then its maximum is NO_SCORE, too. */
fn chunk_weight(s: vec4f, most: vec4f) -> vec4f { return select(exp2(s - most), vec4f(0.0), s <= vec4f(NO_SCORE)); }
/* The weight of a head's sink, which is added to its total. */
fn chunk_sink(of_all: attention, head: u32, top: f32) -> f32 {
    if (of_all.sinks == NO_VECTOR) { return 0.0; }
    return exp2(min(vector_f32(of_all.sinks, head) * LOG2E - top, 100.0));
}
