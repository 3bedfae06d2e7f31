/* acts.wgsl -- loads a row of activations into workgroup memory, where decode's products read it: as int8 with a scale per 32 columns, or
 * as floats.  Formulas: templates/gpu/acts.h.
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;
 *     const THREADS                                of a workgroup, a power of two
 *     const ACTS_UNITS                             units of 64 columns for which there is memory
 * Workgroup memory, 16,384 bytes unless a higher limit is requested: 80 (ACTS_UNITS + 1) bytes as int8, 256 ACTS_UNITS as floats, and 12
 * THREADS + 64 that the group shares.  With 256 threads rows of up to 10,000 columns fit as int8, and of 3,200 as floats.
 *
 * Functions that fill it are called by all invocations of the group, in uniform control flow; thread: local_invocation_index.  They end
 * with a barrier; before the call no invocation may still read the memory.  Columns from cols to the next multiple of 64 become zero.
 * at: the word of the arena where the row begins; weight: the piece of WEIGHTS where the norm's weights begin, [cols] f32. */
// include templates/webgpu/unit.wgsl
// include templates/webgpu/reduce.wgsl

var<workgroup> group_sums: array<f32, THREADS>;
var<workgroup> group_parts: array<f32, 16>;

/* The sum of x over the group, the same in all invocations.  Subgroups (if at most 16) or 16 invocations each sum a part; then every
 * invocation adds all parts.  Before parts are overwritten, a barrier must follow their reads here. */
fn group_sum(x: f32, thread: u32) -> f32 {
    const parts = min(16u, THREADS / SUBGROUP);
    if (THREADS / SUBGROUP <= 16u) {
        let part = run_sum(x, SUBGROUP);
        workgroupBarrier();
        if (thread % SUBGROUP == 0u) { group_parts[thread / SUBGROUP] = part; }
    } else {
        group_sums[thread] = x;
        workgroupBarrier();
        if (thread < 16u) {
            var part = 0.0;
            for (var i = 0u; i < THREADS / 16u; i++) { part += group_sums[16u * i + thread]; }
            group_parts[thread] = part;
        }
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < parts; i++) { sum += group_parts[i]; }
    return sum;
}

fn arena_f32(at: u32) -> f32 { return bitcast<f32>(arena[at]); }
/* Columns 4 quad .. of a row, zeros beyond it. */
fn row_quad(at: u32, quad: u32, cols: u32) -> vec4f {
    let col = 4u * quad;
    if (col >= cols) { return vec4f(0.0); }
    let v = vec4f(arena_f32(at + col), arena_f32(at + col + 1u), arena_f32(at + col + 2u), arena_f32(at + col + 3u));
    return select(vec4f(0.0), v, vec4u(col, col + 1u, col + 2u, col + 3u) < vec4u(cols));
}
/* 1 / sqrt(mean(x^2) + eps) of the row, the same in all invocations.  (Zhang & Sennrich 2019, arXiv:1910.07467) */
fn row_norm_factor(at: u32, cols: u32, eps: f32, thread: u32) -> f32 {
    var squares = 0.0;
    for (var quad = thread; 4u * quad < cols; quad += THREADS) {
        let v = row_quad(at, quad, cols);
        squares += dot(v, v);
    }
    return inverseSqrt(group_sum(squares, thread) / f32(cols) + eps);
}
/* The same columns after RMS norm. */
fn norm_quad_WEIGHTS(at: u32, weight: u32, quad: u32, cols: u32, factor: f32) -> vec4f {
    if (4u * quad >= cols) { return vec4f(0.0); }
    return row_quad(at, quad, cols) * factor * bitcast<vec4f>(WEIGHTS[weight + quad]);
}

/* ---- int8 ---- */
/* Unit u: columns 4i .. 4i+3 in word ACTS_STRIDE i + u; per block its scale; and the sums of 16 columns' int8, two signed ones in a word.
 * So neighbours that read neighbouring units read neighbouring words, and invocations that write use different banks.  Not as vectors,
 * whose parts would belong to two invocations: in WGSL a write to one part may affect the others. */
const ACTS_STRIDE = ACTS_UNITS | 1u;
var<workgroup> acts_q: array<u32, 16u * ACTS_STRIDE>;
var<workgroup> acts_d: array<f32, 2u * ACTS_UNITS>;
var<workgroup> acts_sums: array<u32, 2u * ACTS_UNITS>;
var<workgroup> quad_tops: array<u32, THREADS>;
var<workgroup> quad_sums: array<u32, THREADS>;
/* Runs of four columns per invocation, for a row of ACTS_UNITS. */
const ACTS_TURNS = (16u * ACTS_UNITS + THREADS - 1u) / THREADS;

/* The largest magnitude of four columns as bits, which have the order of floats; a NaN is above all of them. */
fn quad_top(v: vec4f) -> u32 {
    let bits = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
/* The largest magnitude of a block; it counts as at least 1e-30, so that 1 / d does not overflow. */
fn block_top(top: u32) -> f32 { return bitcast<f32>(max(top, 0x0da24260u)); }
/* Four columns as int8, x / d to nearest even. */
fn quad_q(v: vec4f, to_q: f32) -> u32 { return pack4xI8(vec4i(round(v * to_q))); }
/* Four columns as int8; the scale d = max|x| / 127 of their block of 32, which eight neighbouring invocations share; and, in the first of
 * these, the sums of the block's halves.  Called by all invocations of the group. */
struct block_part { q: u32, d: f32, sums: u32 }
fn block_part_across(v: vec4f) -> block_part {
    var bits = quad_top(v);
    bits = max(bits, across_bits(bits, 1u));
    bits = max(bits, across_bits(bits, 2u));
    bits = max(bits, across_bits(bits, 4u));
    let top = block_top(bits);
    let q = quad_q(v, 127.0 / top);
    var half = bitcast<u32>(dot4I8Packed(q, 0x01010101u));
    half += across_bits(half, 1u);
    half += across_bits(half, 2u);
    return block_part(q, top * (1.0 / 127.0), (half & 0xffffu) | (across_bits(half, 4u) << 16u));
}
fn block_part_of(v: vec4f, thread: u32) -> block_part {
    if (SUBGROUP >= 8u) { return block_part_across(v); }
    let first = thread - thread % 8u;
    quad_tops[thread] = quad_top(v);
    workgroupBarrier();
    var bits = 0u;
    for (var i = 0u; i < 8u; i++) { bits = max(bits, quad_tops[first + i]); }
    let top = block_top(bits);
    let q = quad_q(v, 127.0 / top);
    quad_sums[thread] = bitcast<u32>(dot4I8Packed(q, 0x01010101u));
    workgroupBarrier();                          /* after it no invocation reads quad_tops any more */
    if (thread != first) { return block_part(q, top * (1.0 / 127.0), 0u); }
    let low = quad_sums[first] + quad_sums[first + 1u] + quad_sums[first + 2u] + quad_sums[first + 3u];
    let high = quad_sums[first + 4u] + quad_sums[first + 5u] + quad_sums[first + 6u] + quad_sums[first + 7u];
    return block_part(q, top * (1.0 / 127.0), (low & 0xffffu) | (high << 16u));
}
/* Stores columns 4 quad .. of the row; neighbouring invocations have neighbouring quads.  quads: of the whole units of the row. */
fn acts_quad(v: vec4f, quad: u32, quads: u32, thread: u32) {
    let b = block_part_of(v, thread);
    if (quad >= quads) { return; }
    acts_q[quad % 16u * ACTS_STRIDE + quad / 16u] = b.q;
    if (thread % 8u > 0u) { return; }
    acts_d[quad / 8u] = b.d;
    acts_sums[quad / 8u] = b.sums;
}
fn acts_of_row(at: u32, cols: u32, thread: u32) {
    let quads = 16u * ((cols + 63u) / 64u);
    for (var i = 0u; i < ACTS_TURNS; i++) {
        let quad = i * THREADS + thread;
        acts_quad(row_quad(at, quad, cols), quad, quads, thread);
    }
    workgroupBarrier();
}
/* The row is read once: invocations keep their columns until its norm is known. */
fn acts_of_norm_WEIGHTS(at: u32, weight: u32, cols: u32, eps: f32, thread: u32) {
    let quads = 16u * ((cols + 63u) / 64u);
    var row: array<vec4f, ACTS_TURNS>;
    var weights: array<vec4f, ACTS_TURNS>;       /* read before any wait */
    var squares = 0.0;
    for (var i = 0u; i < ACTS_TURNS; i++) {
        let quad = i * THREADS + thread;
        row[i] = row_quad(at, quad, cols);
        weights[i] = bitcast<vec4f>(WEIGHTS[weight + min(quad, (cols - 1u) / 4u)]);
    }
    for (var i = 0u; i < ACTS_TURNS; i++) { squares += dot(row[i], row[i]); }
    let factor = inverseSqrt(group_sum(squares, thread) / f32(cols) + eps);
    for (var i = 0u; i < ACTS_TURNS; i++) {
        let quad = i * THREADS + thread;
        var v = vec4f(0.0);
        if (4u * quad < cols) { v = row[i] * factor * weights[i]; }
        acts_quad(v, quad, quads, thread);
    }
    workgroupBarrier();
}
/* Reads a unit of the stored row. */
fn acts_piece(unit: u32, i: u32) -> vec4u {
    let at = 4u * i * ACTS_STRIDE + unit;
    return vec4u(acts_q[at], acts_q[at + ACTS_STRIDE], acts_q[at + 2u * ACTS_STRIDE], acts_q[at + 3u * ACTS_STRIDE]);
}
fn acts_at(unit: u32) -> acts_unit {
    let d = vec2f(acts_d[2u * unit], acts_d[2u * unit + 1u]);
    let sums = bitcast<vec2i>(vec2u(acts_sums[2u * unit], acts_sums[2u * unit + 1u]));
    let even = vec2f((sums << vec2u(16u)) >> vec2u(16u));
    let odd = vec2f(sums >> vec2u(16u));
    return acts_unit(acts_piece(unit, 0u), acts_piece(unit, 1u), acts_piece(unit, 2u), acts_piece(unit, 3u),
                     vec4f(d, d * (even + odd)), vec4f(d.x * even.x, d.x * odd.x, d.y * even.y, d.y * odd.y));
}

/* ---- floats ---- */
var<workgroup> acts_floats: array<vec4f, 16u * ACTS_UNITS>;

fn floats_of_row(at: u32, cols: u32, thread: u32) {
    for (var quad = thread; quad < 16u * ((cols + 63u) / 64u); quad += THREADS) { acts_floats[quad] = row_quad(at, quad, cols); }
    workgroupBarrier();
}
fn floats_of_norm_WEIGHTS(at: u32, weight: u32, cols: u32, eps: f32, thread: u32) {
    let factor = row_norm_factor(at, cols, eps, thread);
    for (var quad = thread; quad < 16u * ((cols + 63u) / 64u); quad += THREADS) {
        acts_floats[quad] = norm_quad_WEIGHTS(at, weight, quad, cols, factor);
    }
    workgroupBarrier();
}
