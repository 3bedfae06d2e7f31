/* gemm.wgsl -- products of prefill: y[token][row] = x[token] . w[row].
 * A workgroup computes a tile of TILE_TOKENS x TILE_ROWS in steps of the columns.  The decoded weights and x of a step are in workgroup
 * memory; an invocation has 8 tokens x 4 rows in registers.  While a step is multiplied, the next one is loaded, packed, into registers.
 *
 * In names SINK stands for the use of a result, PAIR for the binding of the second matrix of a pair, which has WEIGHTS' format and shape
 * and half of the rows of a tile.  The module has
 *     var<storage, read_write> arena: array<u32>;
 *     const THREADS                                of a workgroup: 256, tiles of 128 tokens, or 128, of 64
 *     fn store_SINK(row: u32, token: u32, y: f32)  called once for each row and token, by one invocation
 *     fn store_SINK(row: u32, token: u32, gate: f32, up: f32)         instead, for a pair: the products with WEIGHTS and with PAIR
 * Called by all invocations of the group, in uniform control flow.  matrix, pair: the piece of WEIGHTS, of PAIR, where it begins; row_tile,
 * token_tile: number of the tile; thread: local_invocation_index.  Tiles beyond the end do nothing.
 *
 * gemm reads rows that stage.wgsl stored in int8 (acts, stride: there); gemmf reads f32 rows, `stride` words apart, from word `x` of the
 * arena on, with weights of any format.
 * Workgroup memory, with 256 threads and with 128: gemm 15,360 and 10,240 bytes, 1,024 more if 16 columns share a scale; gemmf 12,288
 * and 8,192.
 *
 * Rows and tokens beyond the end are read as copies of the last ones; their results are not stored. */
// include templates/webgpu/stage.wgsl

const TILE_ROWS = 64u;
const TILE_PAIRS = 32u;                          /* rows of each matrix of a pair */
const TILE_TOKENS = THREADS / 2u;
/* Invocation i has rows i % 16 + 16r of the tile, tokens i / 16 + TOKEN_LANES t. */
const ROW_LANES = 16u;
const TOKEN_LANES = THREADS / 16u;
/* Pieces of 16 columns of a row that an invocation decodes. */
const TILE_PIECES = 4u * TILE_ROWS / THREADS;

/* t0 .. t7: four rows' sums for each token. */
struct tile_sums { t0: vec4f, t1: vec4f, t2: vec4f, t3: vec4f, t4: vec4f, t5: vec4f, t6: vec4f, t7: vec4f }

fn tile_zero() -> tile_sums {
    return tile_sums(vec4f(0.0), vec4f(0.0), vec4f(0.0), vec4f(0.0), vec4f(0.0), vec4f(0.0), vec4f(0.0), vec4f(0.0));
}
fn tile_put_SINK(row: u32, rows: u32, token: u32, tokens: u32, y: vec4f) {
    if (token >= tokens) { return; }
    if (row < rows) { store_SINK(row, token, y.x); }
    if (row + ROW_LANES < rows) { store_SINK(row + ROW_LANES, token, y.y); }
    if (row + 2u * ROW_LANES < rows) { store_SINK(row + 2u * ROW_LANES, token, y.z); }
    if (row + 3u * ROW_LANES < rows) { store_SINK(row + 3u * ROW_LANES, token, y.w); }
}
fn tile_store_SINK(s: tile_sums, rows: u32, tokens: u32, row_tile: u32, token_tile: u32, thread: u32) {
    let row = TILE_ROWS * row_tile + thread % ROW_LANES;
    let token = TILE_TOKENS * token_tile + thread / ROW_LANES;
    tile_put_SINK(row, rows, token, tokens, s.t0);
    tile_put_SINK(row, rows, token + TOKEN_LANES, tokens, s.t1);
    tile_put_SINK(row, rows, token + 2u * TOKEN_LANES, tokens, s.t2);
    tile_put_SINK(row, rows, token + 3u * TOKEN_LANES, tokens, s.t3);
    tile_put_SINK(row, rows, token + 4u * TOKEN_LANES, tokens, s.t4);
    tile_put_SINK(row, rows, token + 5u * TOKEN_LANES, tokens, s.t5);
    tile_put_SINK(row, rows, token + 6u * TOKEN_LANES, tokens, s.t6);
    tile_put_SINK(row, rows, token + 7u * TOKEN_LANES, tokens, s.t7);
}
/* For a pair: y has two rows of WEIGHTS, then the same rows of PAIR. */
fn tile_put2_SINK(row: u32, rows: u32, token: u32, tokens: u32, y: vec4f) {
    if (token >= tokens) { return; }
    if (row < rows) { store_SINK(row, token, y.x, y.z); }
    if (row + ROW_LANES < rows) { store_SINK(row + ROW_LANES, token, y.y, y.w); }
}
fn tile_store2_SINK(s: tile_sums, rows: u32, tokens: u32, row_tile: u32, token_tile: u32, thread: u32) {
    let row = TILE_PAIRS * row_tile + thread % ROW_LANES;
    let token = TILE_TOKENS * token_tile + thread / ROW_LANES;
    tile_put2_SINK(row, rows, token, tokens, s.t0);
    tile_put2_SINK(row, rows, token + TOKEN_LANES, tokens, s.t1);
    tile_put2_SINK(row, rows, token + 2u * TOKEN_LANES, tokens, s.t2);
    tile_put2_SINK(row, rows, token + 3u * TOKEN_LANES, tokens, s.t3);
    tile_put2_SINK(row, rows, token + 4u * TOKEN_LANES, tokens, s.t4);
    tile_put2_SINK(row, rows, token + 5u * TOKEN_LANES, tokens, s.t5);
    tile_put2_SINK(row, rows, token + 6u * TOKEN_LANES, tokens, s.t6);
    tile_put2_SINK(row, rows, token + 7u * TOKEN_LANES, tokens, s.t7);
}
/* Whether invocations have tokens beyond their first four: the same in the whole group. */
fn tile_is_full(tokens: u32, token_tile: u32) -> bool { return tokens - TILE_TOKENS * token_tile > TILE_TOKENS / 2u; }

/* ---- int8: steps of a unit ---- */
/* Piece c of 16 columns of row r is at TILE_ROWS c + (r ^ 2c): neighbours that store four pieces of two rows, and neighbours that read the
 * same piece of many rows, use different banks.  Factors: [columns that share one][row].  For x: [token][block] the block, its d and, if
 * weights have an added term, sums: d times the block's sum or, if its two pieces have their own factors, the word of stage.wgsl. */
struct tile_two { q0: vec4u, q1: vec4u }
var<workgroup> tile_w: array<vec4u, 4u * TILE_ROWS>;
var<workgroup> tile_x: array<tile_two, THREADS>;
var<workgroup> tile_scales: array<vec2f, THREADS>;
var<workgroup> tile_factors_FORMAT: array<vec2f, 64u / SCALE_COLS_FORMAT * TILE_ROWS>;

/* The part of x that an invocation copies: a block of a token. */
struct tile_part { q: tile_two, d: u32, sums: u32 }

/* Where it lies in the first unit. */
fn tile_part_at(acts: u32, stride: u32, tokens: u32, token_tile: u32, thread: u32) -> u32 {
    return staged_at(acts, 0u, min(TILE_TOKENS * token_tile + thread / 2u, tokens - 1u), thread % 2u, stride);
}
fn tile_part_load(first: u32, stride: u32, unit: u32) -> tile_part {
    let at = staged_at(first, unit, 0u, 0u, stride);
    let word = staged_word(stride);
    return tile_part(tile_two(vec4u(arena[at], arena[at + word], arena[at + 2u * word], arena[at + 3u * word]),
                              vec4u(arena[at + 4u * word], arena[at + 5u * word], arena[at + 6u * word], arena[at + 7u * word])),
                     arena[at + 8u * word], arena[at + 9u * word]);
}
/* The row of a tile of which an invocation decodes pieces: its neighbours read the same row. */
fn tile_row(thread: u32) -> u32 { return thread / (THREADS / TILE_ROWS); }
fn tile_fill_FORMAT(u: unit_FORMAT, x: tile_part, unit: u32, thread: u32) {
    let row = tile_row(thread);
    for (var i = 0u; i < TILE_PIECES; i++) {
        let c = thread % (THREADS / TILE_ROWS) * TILE_PIECES + i;
        tile_w[TILE_ROWS * c + (row ^ (2u * c))] = codes_FORMAT(u, c);
        if (c % (SCALE_COLS_FORMAT / 16u) == 0u) {
            tile_factors_FORMAT[TILE_ROWS * (16u * c / SCALE_COLS_FORMAT) + row] = factor_FORMAT(u, unit, c);
        }
    }
    var sums = bitcast<f32>(x.sums);
    if (SCALE_COLS_FORMAT == 32u) {
        let two = bitcast<i32>(x.sums);
        sums = bitcast<f32>(x.d) * f32(((two << 16u) >> 16u) + (two >> 16u));
    }
    tile_x[thread] = x.q;
    tile_scales[thread] = vec2f(bitcast<f32>(x.d), sums);
}
/* A block of the four rows: codes, and factors of its columns; if 16 columns share a factor, of the first 16 and of the others. */
struct tile_block {
    w00: vec4u, w01: vec4u, w10: vec4u, w11: vec4u, w20: vec4u, w21: vec4u, w30: vec4u, w31: vec4u,
    f0: vec4f, f1: vec4f, g0: vec4f, g1: vec4f
}
fn tile_block_FORMAT(b: u32, thread: u32) -> tile_block {
    let row = thread % ROW_LANES;
    let w0 = 2u * b * TILE_ROWS + (row ^ (4u * b));
    let w1 = (2u * b + 1u) * TILE_ROWS + (row ^ (4u * b + 2u));
    let at0 = b * (32u / SCALE_COLS_FORMAT) * TILE_ROWS + row;
    let at1 = at0 + (32u / SCALE_COLS_FORMAT - 1u) * TILE_ROWS;
    let a0 = tile_factors_FORMAT[at0];
    let a1 = tile_factors_FORMAT[at0 + ROW_LANES];
    let a2 = tile_factors_FORMAT[at0 + 2u * ROW_LANES];
    let a3 = tile_factors_FORMAT[at0 + 3u * ROW_LANES];
    let b0 = tile_factors_FORMAT[at1];
    let b1 = tile_factors_FORMAT[at1 + ROW_LANES];
    let b2 = tile_factors_FORMAT[at1 + 2u * ROW_LANES];
    let b3 = tile_factors_FORMAT[at1 + 3u * ROW_LANES];
    return tile_block(tile_w[w0], tile_w[w1], tile_w[w0 + ROW_LANES], tile_w[w1 + ROW_LANES],
                      tile_w[w0 + 2u * ROW_LANES], tile_w[w1 + 2u * ROW_LANES], tile_w[w0 + 3u * ROW_LANES], tile_w[w1 + 3u * ROW_LANES],
                      vec4f(a0.x, a1.x, a2.x, a3.x), vec4f(b0.x, b1.x, b2.x, b3.x),
                      vec4f(a0.y, a1.y, a2.y, a3.y), vec4f(b0.y, b1.y, b2.y, b3.y));
}
/* Converts sums of int8 products to floats without a conversion, which is slow on some GPUs: the sums, of magnitude below 2^22, are added
 * to the bits of 1.5 * 2^23, where the lowest bit is worth 1.  The product of four bytes includes this addition. */
const SUM_BEGIN = 0x4b400000i;
fn dot_more(w: vec4u, x: vec4u, sum: i32) -> i32 {
    return sum + dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}
fn dots_f32(sums: vec4i) -> vec4f { return bitcast<vec4f>(sums) - 12582912.0; }
/* The block times item x of tile_x. */
fn tile_product_FORMAT(w: tile_block, x: u32) -> vec4f {
    let q0 = tile_x[x].q0;
    let q1 = tile_x[x].q1;
    let scale = tile_scales[x];
    let p0 = vec4i(dot_more(w.w00, q0, SUM_BEGIN), dot_more(w.w10, q0, SUM_BEGIN),
                   dot_more(w.w20, q0, SUM_BEGIN), dot_more(w.w30, q0, SUM_BEGIN));
    if (SCALE_COLS_FORMAT == 32u) {
        let p = dots_f32(vec4i(dot_more(w.w01, q1, p0.x), dot_more(w.w11, q1, p0.y), dot_more(w.w21, q1, p0.z), dot_more(w.w31, q1, p0.w)));
        if (ADDED_FORMAT) { return p * w.f0 * scale.x + w.g0 * scale.y; }
        return p * w.f0 * scale.x;
    }
    let p1 = vec4i(dot_more(w.w01, q1, SUM_BEGIN), dot_more(w.w11, q1, SUM_BEGIN),
                   dot_more(w.w21, q1, SUM_BEGIN), dot_more(w.w31, q1, SUM_BEGIN));
    let p = dots_f32(p0) * w.f0 + dots_f32(p1) * w.f1;
    if (ADDED_FORMAT) {
        let two = bitcast<i32>(scale.y);
        return (p + w.g0 * f32((two << 16u) >> 16u) + w.g1 * f32(two >> 16u)) * scale.x;
    }
    return p * scale.x;
}
fn tile_times_FORMAT(before: tile_sums, is_full: bool, thread: u32) -> tile_sums {
    var s = before;
    for (var b = 0u; b < 2u; b++) {
        let w = tile_block_FORMAT(b, thread);
        let x = 2u * (thread / ROW_LANES) + b;
        s.t0 += tile_product_FORMAT(w, x);
        s.t1 += tile_product_FORMAT(w, x + 2u * TOKEN_LANES);
        s.t2 += tile_product_FORMAT(w, x + 4u * TOKEN_LANES);
        s.t3 += tile_product_FORMAT(w, x + 6u * TOKEN_LANES);
        if (is_full) {
            s.t4 += tile_product_FORMAT(w, x + 8u * TOKEN_LANES);
            s.t5 += tile_product_FORMAT(w, x + 10u * TOKEN_LANES);
            s.t6 += tile_product_FORMAT(w, x + 12u * TOKEN_LANES);
            s.t7 += tile_product_FORMAT(w, x + 14u * TOKEN_LANES);
        }
    }
    return s;
}
fn gemm_FORMAT_WEIGHTS_SINK(matrix: u32, rows: u32, cols: u32, acts: u32, stride: u32, tokens: u32, row_tile: u32, token_tile: u32,
                            thread: u32) {
    if (TILE_ROWS * row_tile >= rows || TILE_TOKENS * token_tile >= tokens) { return; }
    let units = (cols + 63u) / 64u;
    let w_at = matrix + row_pieces_FORMAT(units) * min(TILE_ROWS * row_tile + tile_row(thread), rows - 1u);
    let x_at = tile_part_at(acts, stride, tokens, token_tile, thread);
    let is_full = tile_is_full(tokens, token_tile);
    var sums = tile_zero();
    var w = load_FORMAT_WEIGHTS(w_at, 0u, units);
    var x = tile_part_load(x_at, stride, 0u);
    for (var unit = 0u; unit < units; unit++) {
        tile_fill_FORMAT(w, x, unit, thread);
        workgroupBarrier();
        let next = min(unit + 1u, units - 1u);
        w = load_FORMAT_WEIGHTS(w_at, next, units);
        x = tile_part_load(x_at, stride, next);
        sums = tile_times_FORMAT(sums, is_full, thread);
        workgroupBarrier();                      /* before the next unit's */
    }
    tile_store_SINK(sums, rows, tokens, row_tile, token_tile, thread);
}
fn pair_load_FORMAT_WEIGHTS_PAIR(at: u32, unit: u32, units: u32, row: u32) -> unit_FORMAT {
    if (row < TILE_PAIRS) { return load_FORMAT_WEIGHTS(at, unit, units); }
    return load_FORMAT_PAIR(at, unit, units);
}
fn gemm2_FORMAT_WEIGHTS_PAIR_SINK(matrix: u32, pair: u32, rows: u32, cols: u32, acts: u32, stride: u32, tokens: u32, row_tile: u32,
                                  token_tile: u32, thread: u32) {
    if (TILE_PAIRS * row_tile >= rows || TILE_TOKENS * token_tile >= tokens) { return; }
    let units = (cols + 63u) / 64u;
    let row = tile_row(thread);
    let w_at = select(pair, matrix, row < TILE_PAIRS) +
               row_pieces_FORMAT(units) * min(TILE_PAIRS * row_tile + row % TILE_PAIRS, rows - 1u);
    let x_at = tile_part_at(acts, stride, tokens, token_tile, thread);
    let is_full = tile_is_full(tokens, token_tile);
    var sums = tile_zero();
    var w = pair_load_FORMAT_WEIGHTS_PAIR(w_at, 0u, units, row);
    var x = tile_part_load(x_at, stride, 0u);
    for (var unit = 0u; unit < units; unit++) {
        tile_fill_FORMAT(w, x, unit, thread);
        workgroupBarrier();
        let next = min(unit + 1u, units - 1u);
        w = pair_load_FORMAT_WEIGHTS_PAIR(w_at, next, units, row);
        x = tile_part_load(x_at, stride, next);
        sums = tile_times_FORMAT(sums, is_full, thread);
        workgroupBarrier();                      /* before the next unit's */
    }
    tile_store2_SINK(sums, rows, tokens, row_tile, token_tile, thread);
}

/* ---- floats: steps of 16 columns ---- */
/* Columns 4i .. 4i+3 of the step: of row r at TILE_ROWS i + (r ^ 2i), of token t at 4t + i. */
var<workgroup> tile_wf: array<vec4f, 4u * TILE_ROWS>;
var<workgroup> tile_xf: array<vec4f, 4u * TILE_TOKENS>;

/* The part of x that an invocation copies: four columns of each of two tokens. */
struct tile_quads { q0: vec4f, q1: vec4f }

fn tile_quads_load(x: u32, stride: u32, cols: u32, tokens: u32, token_tile: u32, k: u32, thread: u32) -> tile_quads {
    let token = TILE_TOKENS * token_tile + thread / 4u;
    let quad = 4u * k + thread % 4u;
    return tile_quads(row_quad(x + stride * min(token, tokens - 1u), quad, cols),
                      row_quad(x + stride * min(token + THREADS / 4u, tokens - 1u), quad, cols));
}
fn tile_quads_put(x: tile_quads, thread: u32) {
    tile_xf[thread] = x.q0;
    tile_xf[thread + THREADS] = x.q1;
}
/* Stores columns PART_COLS part .. of the step, of a row of the tile. */
fn tile_values_FORMAT(u: unit_FORMAT, row: u32, k: u32, part: u32) {
    let col = 16u * k + PART_COLS_FORMAT * part;
    var w = values_FORMAT(u, col / UNIT_COLS_FORMAT, col % UNIT_COLS_FORMAT / PART_COLS_FORMAT);
    for (var j = 0u; j < PART_COLS_FORMAT / 4u; j++) {
        let i = PART_COLS_FORMAT / 4u * part + j;
        tile_wf[TILE_ROWS * i + (row ^ (2u * i))] = w[j];
    }
}
fn tile_timesf(before: tile_sums, is_full: bool, thread: u32) -> tile_sums {
    var s = before;
    for (var i = 0u; i < 4u; i++) {
        let row = TILE_ROWS * i + ((thread % ROW_LANES) ^ (2u * i));
        let w = mat4x4f(tile_wf[row], tile_wf[row + ROW_LANES], tile_wf[row + 2u * ROW_LANES], tile_wf[row + 3u * ROW_LANES]);
        let x = 4u * (thread / ROW_LANES) + i;
        s.t0 += tile_xf[x] * w;
        s.t1 += tile_xf[x + 4u * TOKEN_LANES] * w;
        s.t2 += tile_xf[x + 8u * TOKEN_LANES] * w;
        s.t3 += tile_xf[x + 12u * TOKEN_LANES] * w;
        if (is_full) {
            s.t4 += tile_xf[x + 16u * TOKEN_LANES] * w;
            s.t5 += tile_xf[x + 20u * TOKEN_LANES] * w;
            s.t6 += tile_xf[x + 24u * TOKEN_LANES] * w;
            s.t7 += tile_xf[x + 28u * TOKEN_LANES] * w;
        }
    }
    return s;
}
/* The unit that has the columns of part `part` of a step. */
fn tile_unit_FORMAT(k: u32, part: u32) -> u32 { return (16u * k + PART_COLS_FORMAT * part) / UNIT_COLS_FORMAT; }

fn gemmf_FORMAT_WEIGHTS_SINK(matrix: u32, rows: u32, cols: u32, x: u32, stride: u32, tokens: u32, row_tile: u32, token_tile: u32,
                             thread: u32) {
    if (TILE_ROWS * row_tile >= rows || TILE_TOKENS * token_tile >= tokens) { return; }
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    let is_full = tile_is_full(tokens, token_tile);
    let steps = (cols + 15u) / 16u;
    var sums = tile_zero();
    var next = tile_quads_load(x, stride, cols, tokens, token_tile, 0u, thread);
    for (var k = 0u; k < steps; k++) {
        for (var i = thread; i < TILE_ROWS * (16u / PART_COLS_FORMAT); i += THREADS) {
            let row = i / (16u / PART_COLS_FORMAT);
            let at = matrix + pieces * min(TILE_ROWS * row_tile + row, rows - 1u);
            let part = i % (16u / PART_COLS_FORMAT);
            tile_values_FORMAT(load_FORMAT_WEIGHTS(at, tile_unit_FORMAT(k, part), units), row, k, part);
        }
        tile_quads_put(next, thread);
        workgroupBarrier();
        next = tile_quads_load(x, stride, cols, tokens, token_tile, k + 1u, thread);
        sums = tile_timesf(sums, is_full, thread);
        workgroupBarrier();                      /* before the next step's */
    }
    tile_store_SINK(sums, rows, tokens, row_tile, token_tile, thread);
}
fn gemmf2_FORMAT_WEIGHTS_PAIR_SINK(matrix: u32, pair: u32, rows: u32, cols: u32, x: u32, stride: u32, tokens: u32, row_tile: u32,
                                   token_tile: u32, thread: u32) {
    if (TILE_PAIRS * row_tile >= rows || TILE_TOKENS * token_tile >= tokens) { return; }
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    let is_full = tile_is_full(tokens, token_tile);
    let steps = (cols + 15u) / 16u;
    var sums = tile_zero();
    var next = tile_quads_load(x, stride, cols, tokens, token_tile, 0u, thread);
    for (var k = 0u; k < steps; k++) {
        for (var i = thread; i < TILE_ROWS * (16u / PART_COLS_FORMAT); i += THREADS) {
            let row = i / (16u / PART_COLS_FORMAT);
            let at = select(pair, matrix, row < TILE_PAIRS) + pieces * min(TILE_PAIRS * row_tile + row % TILE_PAIRS, rows - 1u);
            let part = i % (16u / PART_COLS_FORMAT);
            tile_values_FORMAT(pair_load_FORMAT_WEIGHTS_PAIR(at, tile_unit_FORMAT(k, part), units, row), row, k, part);
        }
        tile_quads_put(next, thread);
        workgroupBarrier();
        next = tile_quads_load(x, stride, cols, tokens, token_tile, k + 1u, thread);
        sums = tile_timesf(sums, is_full, thread);
        workgroupBarrier();                      /* before the next step's */
    }
    tile_store2_SINK(sums, rows, tokens, row_tile, token_tile, thread);
}
