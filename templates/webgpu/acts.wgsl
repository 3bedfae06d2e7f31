/* acts.wgsl -- a row of activations into workgroup memory, where the products of decode read it: as int8 with a scale per 32 columns, or
 * as floats.  Formulas: templates/gpu/acts.h.
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;
 *     const THREADS                                of a workgroup, a power of two
 *     const ACTS_UNITS                             units of 64 columns for which there is memory
 * Workgroup memory, 16,384 bytes without a higher limit asked for: 80 ACTS_UNITS bytes as int8, 256 ACTS_UNITS as floats, and what sums
 * over the group take.  With 1 KiB for these rows of up to 12,288 columns fit, of floats 3,840.
 *
 * Functions that fill it are called by all invocations of the group, in uniform control flow; thread: local_invocation_index.  They end
 * with a barrier, and nobody may still read what was there.  Columns from cols to the next multiple of 64 are zero.
 * at: the word of the arena where the row begins; weight: the piece of WEIGHTS where the norm's weights begin, [cols] f32. */
// include templates/webgpu/unit.wgsl

var<workgroup> group_sums: array<f32, THREADS>;

/* The sum of x over the group, the same in all invocations. */
fn group_sum(x: f32, thread: u32) -> f32 {
    group_sums[thread] = x;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { group_sums[thread] += group_sums[thread + half]; }
    }
    workgroupBarrier();
    let sum = group_sums[0];
    workgroupBarrier();                          /* until all have read it */
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
/* 1 / sqrt(mean(x^2) + eps) over the row, the same in all invocations.  (Zhang & Sennrich 2019, arXiv:1910.07467) */
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
/* Of a unit: columns 16i .. 16i+15 in piece 4 unit + i; of a block: its scale, and the sums of 16 columns' int8, two signed in a word.
 * No vectors, whose parts would be of two invocations: WGSL lets a write to one touch the others. */
var<workgroup> acts_q: array<vec4u, 4u * ACTS_UNITS>;
var<workgroup> acts_d: array<f32, 2u * ACTS_UNITS>;
var<workgroup> acts_sums: array<u32, 2u * ACTS_UNITS>;

/* The largest size in four columns as bits, whose order is the floats': a NaN is above all of them. */
fn quad_top(v: vec4f) -> u32 {
    let bits = bitcast<vec4u>(v) & vec4u(0x7fffffffu);
    return max(max(bits.x, bits.y), max(bits.z, bits.w));
}
/* The largest size of a block; it counts as at least 1e-30, so that 1 / d does not overflow. */
fn block_top(top: u32) -> f32 { return bitcast<f32>(max(top, 0x0da24260u)); }
/* Four columns as int8, x / d to nearest even. */
fn quad_q(v: vec4f, to_q: f32) -> u32 { return pack4xI8(vec4i(round(v * to_q))); }
fn sum_q(q: vec4u) -> u32 {
    let one = 0x01010101u;
    return bitcast<u32>(dot4I8Packed(q.x, one) + dot4I8Packed(q.y, one) + dot4I8Packed(q.z, one) + dot4I8Packed(q.w, one));
}
/* The scale and the sums of block `block` of 32 columns, whose int8 this invocation has put. */
fn block_end(block: u32, d: f32) {
    let q0 = acts_q[2u * block];
    let q1 = acts_q[2u * block + 1u];
    acts_d[block] = d;
    acts_sums[block] = (sum_q(q0) & 0xffffu) | (sum_q(q1) << 16u);
}
/* d = max|x| / 127. */
fn acts_of_row(at: u32, cols: u32, thread: u32) {
    for (var block = thread; block < 2u * ((cols + 63u) / 64u); block += THREADS) {
        let quad = 8u * block;
        var bits = 0u;
        for (var i = 0u; i < 8u; i++) { bits = max(bits, quad_top(row_quad(at, quad + i, cols))); }
        let top = block_top(bits);
        let to_q = 127.0 / top;
        for (var i = 0u; i < 8u; i++) { acts_q[2u * block + i / 4u][i % 4u] = quad_q(row_quad(at, quad + i, cols), to_q); }
        block_end(block, top * (1.0 / 127.0));
    }
    workgroupBarrier();
}
fn acts_of_norm_WEIGHTS(at: u32, weight: u32, cols: u32, eps: f32, thread: u32) {
    let f = row_norm_factor(at, cols, eps, thread);
    for (var block = thread; block < 2u * ((cols + 63u) / 64u); block += THREADS) {
        let quad = 8u * block;
        var bits = 0u;
        for (var i = 0u; i < 8u; i++) { bits = max(bits, quad_top(norm_quad_WEIGHTS(at, weight, quad + i, cols, f))); }
        let top = block_top(bits);
        let to_q = 127.0 / top;
        for (var i = 0u; i < 8u; i++) {
            acts_q[2u * block + i / 4u][i % 4u] = quad_q(norm_quad_WEIGHTS(at, weight, quad + i, cols, f), to_q);
        }
        block_end(block, top * (1.0 / 127.0));
    }
    workgroupBarrier();
}
/* A unit of what was put. */
fn acts_at(unit: u32) -> acts_unit {
    let d = vec2f(acts_d[2u * unit], acts_d[2u * unit + 1u]);
    let sums = bitcast<vec2i>(vec2u(acts_sums[2u * unit], acts_sums[2u * unit + 1u]));
    let even = vec2f((sums << vec2u(16u)) >> vec2u(16u));
    let odd = vec2f(sums >> vec2u(16u));
    return acts_unit(acts_q[4u * unit], acts_q[4u * unit + 1u], acts_q[4u * unit + 2u], acts_q[4u * unit + 3u],
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
