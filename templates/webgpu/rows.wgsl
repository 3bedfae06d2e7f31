/* rows.wgsl -- operations on a token's rows other than products: rows of the embedding table, norms, norms of heads, and rotary position
 * embedding.  (Zhang & Sennrich 2019, arXiv:1910.07467; Ba et al. 2016, arXiv:1607.06450; Su et al. 2021, arXiv:2104.09864)
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;
 *     const THREADS                                of a workgroup, a power of two
 *     fn sink_SINK(t: u32, r: u32, y: f32)         gets column r of token t's row, if SINK is in a function's name
 * Workgroup memory: 4 THREADS bytes, for functions with a sum over the group.
 *
 * out, x: words of the arena where rows begin, [cols] f32; out may be x.  weight: the piece of vectors where [cols] f32 begin, or
 * NO_VECTOR for ones.  group, groups: number of the workgroup, and of how many; thread: local_invocation_index.  Norms are called by all
 * invocations of the group, in uniform control flow. */
// include templates/webgpu/acts.wgsl
// include templates/webgpu/vectors.wgsl

/* Weights 4 quad ..; ones if there is no vector. */
fn weight_quad(weight: u32, quad: u32) -> vec4f {
    if (weight == NO_VECTOR) { return vec4f(1.0); }
    return bitcast<vec4f>(vectors[weight + quad]);
}
fn arena_put(at: u32, y: f32) { arena[at] = bitcast<u32>(y); }
/* Stores columns 4 quad .. of a row, up to its end. */
fn row_quad_put(out: u32, quad: u32, v: vec4f, cols: u32) {
    let col = 4u * quad;
    if (col < cols) { arena_put(out + col, v.x); }
    if (col + 1u < cols) { arena_put(out + col + 1u, v.y); }
    if (col + 2u < cols) { arena_put(out + col + 2u, v.z); }
    if (col + 3u < cols) { arena_put(out + col + 3u, v.w); }
}

/* ---- embedding ---- */
/* Row `row` of the packed rows of cols weights that begin at piece `matrix` of WEIGHTS. */
fn embed_row_FORMAT_WEIGHTS(out: u32, matrix: u32, row: u32, cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let at = matrix + row * row_pieces_FORMAT(units);
    let parts = UNIT_COLS_FORMAT / PART_COLS_FORMAT;
    for (var i = group * THREADS + thread; i * PART_COLS_FORMAT < cols; i += groups * THREADS) {
        let unit = i / parts;
        var w = values_FORMAT(load_FORMAT_WEIGHTS(at, unit, units), unit, i % parts);
        for (var k = 0u; k < PART_COLS_FORMAT / 4u; k++) { row_quad_put(out, i * (PART_COLS_FORMAT / 4u) + k, w[k], cols); }
    }
}

/* ---- norms ---- */
/* x / sqrt(mean(x^2) + eps) * weight. */
fn norm_row(out: u32, x: u32, weight: u32, cols: u32, eps: f32, thread: u32) {
    let factor = row_norm_factor(x, cols, eps, thread);
    for (var quad = thread; 4u * quad < cols; quad += THREADS) {
        row_quad_put(out, quad, row_quad(x, quad, cols) * factor * weight_quad(weight, quad), cols);
    }
}
/* (x - mean) / sqrt(variance + eps) * weight. */
fn layernorm_row(out: u32, x: u32, weight: u32, cols: u32, eps: f32, thread: u32) {
    var sum = 0.0;
    for (var quad = thread; 4u * quad < cols; quad += THREADS) { sum += dot(row_quad(x, quad, cols), vec4f(1.0)); }
    let mean = group_sum(sum, thread) / f32(cols);
    var squares = 0.0;
    for (var quad = thread; 4u * quad < cols; quad += THREADS) {
        let col = 4u * quad;
        let v = select(vec4f(0.0), row_quad(x, quad, cols) - mean, vec4u(col, col + 1u, col + 2u, col + 3u) < vec4u(cols));
        squares += dot(v, v);
    }
    let factor = inverseSqrt(group_sum(squares, thread) / f32(cols) + eps);
    for (var quad = thread; 4u * quad < cols; quad += THREADS) {
        row_quad_put(out, quad, (row_quad(x, quad, cols) - mean) * factor * weight_quad(weight, quad), cols);
    }
}

/* ---- heads ---- */
/* The divisor of a head: its root mean square; its length, at least eps; or, after its mean is subtracted, its standard deviation. */
const HEADS_RMS = 0u;
const HEADS_UNIT = 1u;
const HEADS_CENTERED = 2u;

struct head_moments { mean: f32, factor: f32 }

/* first: the head's first column. */
fn head_moments_of(x: u32, first: u32, how: u32, eps: f32, head_dim: u32, thread: u32) -> head_moments {
    var mean = 0.0;
    if (how == HEADS_CENTERED) {
        for (var c = thread; c < head_dim; c += THREADS) { mean += arena_f32(x + first + c); }
        mean = group_sum(mean, thread) / f32(head_dim);
    }
    var squares = 0.0;
    for (var c = thread; c < head_dim; c += THREADS) {
        let v = arena_f32(x + first + c) - mean;
        squares += v * v;
    }
    let sum = group_sum(squares, thread);
    if (how == HEADS_UNIT) { return head_moments(mean, 1.0 / max(sqrt(sum), eps)); }
    return head_moments(mean, inverseSqrt(sum / f32(head_dim) + eps));
}
fn head_weight(weight: u32, whole: u32, first: u32, c: u32) -> f32 {
    if (weight == NO_VECTOR) { return 1.0; }
    return vector_f32(weight, select(c, first + c, whole != 0u));
}
/* Norm of head `head` of x by this workgroup, times weight: of one head or, with whole 1, of all heads.  how, head: uniform. */
fn heads_normed_SINK(t: u32, x: u32, weight: u32, whole: u32, how: u32, eps: f32, head_dim: u32, head: u32, thread: u32) {
    let first = head * head_dim;
    let m = head_moments_of(x, first, how, eps, head_dim, thread);
    for (var c = thread; c < head_dim; c += THREADS) {
        sink_SINK(t, first + c, (arena_f32(x + first + c) - m.mean) * m.factor * head_weight(weight, whole, first, c));
    }
}
/* RMS norm of a head alone. */
fn headnorm_row(out: u32, x: u32, weight: u32, eps: f32, head_dim: u32, head: u32, thread: u32) {
    let first = head * head_dim;
    let m = head_moments_of(x, first, HEADS_RMS, eps, head_dim, thread);
    for (var c = thread; c < head_dim; c += THREADS) {
        arena_put(out + first + c, arena_f32(x + first + c) * m.factor * head_weight(weight, 0u, first, c));
    }
}

/* ---- rotation ---- */
/* Tables, the pieces of vectors where they begin: high [..][n_rot/2][2] cos, sin of position block * k times the attention factor, low
 * [block][n_rot/2][2] of position k; the rotation of a position is the complex product of a row of each.  neox 1: pairs (i, i + n_rot/2),
 * else (2i, 2i + 1), of the n_rot columns of a head from `first` on; other columns stay unchanged. */
fn rotation_at(high: u32, low: u32, position: u32, n_rot: u32, block: u32, pair: u32) -> vec2f {
    let h = vector_pair(high, position / block * n_rot + 2u * pair);
    let l = vector_pair(low, position % block * n_rot + 2u * pair);
    return vec2f(h.x * l.x - h.y * l.y, h.y * l.x + h.x * l.y);
}
/* Column r of heads of x, rotated. */
fn rotated_f32(x: u32, r: u32, high: u32, low: u32, position: u32, n_rot: u32, neox: u32, block: u32, head_dim: u32, first: u32) -> f32 {
    let col = r % head_dim;
    let half = n_rot / 2u;
    if (col < first || col - first >= n_rot) { return arena_f32(x + r); }
    let at = col - first;
    let second = select(at % 2u == 1u, at >= half, neox != 0u);
    let apart = select(1u, half, neox != 0u);
    let turn = rotation_at(high, low, position, n_rot, block, select(at / 2u, at % half, neox != 0u));
    let mine = arena_f32(x + r);
    let its = arena_f32(x + select(r + apart, r - apart, second));
    return select(mine * turn.x - its * turn.y, its * turn.y + mine * turn.x, second);
}
/* The two columns of pair `pair` of a head; pairs from n_rot / 2 on do not rotate and are neighbours. */
fn pair_columns(pair: u32, n_rot: u32, neox: u32, first: u32) -> vec2u {
    if (pair >= n_rot / 2u) {
        let c = 2u * pair - n_rot;
        return vec2u(0u, 1u) + select(c, c + n_rot, c >= first);
    }
    if (neox != 0u) { return vec2u(pair, pair + n_rot / 2u) + first; }
    return vec2u(2u * pair, 2u * pair + 1u) + first;
}
fn pair_turned(v: vec2f, high: u32, low: u32, position: u32, n_rot: u32, block: u32, pair: u32) -> vec2f {
    if (pair >= n_rot / 2u) { return v; }
    let turn = rotation_at(high, low, position, n_rot, block, pair);
    return vec2f(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}
/* Rotates all heads of a row; each invocation has a pair of columns, so that out may be x.  head_dim, n_rot and first: even. */
fn rope_row(out: u32, x: u32, high: u32, low: u32, position: u32, n_rot: u32, neox: u32, block: u32, heads: u32, head_dim: u32, first: u32,
            group: u32, groups: u32, thread: u32) {
    let pairs = head_dim / 2u;
    for (var i = group * THREADS + thread; i < heads * pairs; i += groups * THREADS) {
        let c = pair_columns(i % pairs, n_rot, neox, first) + i / pairs * head_dim;
        let v = pair_turned(vec2f(arena_f32(x + c.x), arena_f32(x + c.y)), high, low, position, n_rot, block, i % pairs);
        arena_put(out + c.x, v.x);
        arena_put(out + c.y, v.y);
    }
}
