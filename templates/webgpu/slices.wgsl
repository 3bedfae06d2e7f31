/* slices.wgsl -- products with some matrices of a stack, such as experts: the matrices that a token uses, and the combination of the
 * results.  (Shazeer et al. 2017, arXiv:1701.06538; DeepSeek-AI 2024, arXiv:2412.19437)
 *
 * A choice is a row of 2 * used floats: the shares of the experts that the token uses, then their numbers, best first.
 *
 * A product with a token's slices is a grid of groups x slices with the workgroups of gemv.wgsl.  Each has the matrix of its slice and the
 * slice's piece of the input, so that a group never needs more than that in workgroup memory:
 *     let slice = id.y;
 *     let expert = slice_expert(CHOICE, USED, slice, thread);     with all matrices of a stack: slice itself
 *     slice_first = slice * ROWS_EACH;
 *     acts_of_row(INPUT + slice * COLS, COLS, thread);            with an input that slices share: INPUT
 *     let at = MATRIX + expert * slice_pieces_FORMAT(ROWS_EACH, COLS);
 *     gemv_FORMAT_WEIGHTS_SINK(AHEAD, at, ROWS_EACH, COLS, id.x, GROUPS, thread);
 * The function that stores row `row` of the matrix adds slice_first to it, which makes it a row of all slices.
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;
 *     const THREADS                                of a workgroup, a power of two
 *     const EXPERTS                                with a router: experts that it chooses from, at most 1,024 */
// include templates/webgpu/functions.wgsl
// include templates/webgpu/rows.wgsl
// include templates/webgpu/gemv.wgsl

/* ---- the choice ---- */
/* The number of expert k of the choice; it is not uniform. */
fn picked_id(choice: u32, used: u32, k: u32) -> u32 { return u32(arena_f32(choice + used + k)); }
/* The same for a workgroup's slice: uniform.  Called by all invocations of the group, in uniform control flow. */
var<workgroup> slice_expert_id: u32;
fn slice_expert(choice: u32, used: u32, slice: u32, thread: u32) -> u32 {
    if (thread == 0u) { slice_expert_id = picked_id(choice, used, slice); }
    return workgroupUniformLoad(&slice_expert_id);
}
/* The first row of the workgroup's slice, among the rows of all slices. */
var<private> slice_first: u32;
/* Pieces from one slice to the next. */
fn slice_pieces_FORMAT(rows: u32, cols: u32) -> u32 { return rows * row_pieces_FORMAT((cols + 63u) / 64u); }

/* ---- the router ---- */
/* Floats as integers in the same order; +0 and -0 are equal, NaN is below all numbers. */
fn order_of_f32(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return 0u; }
    if (bits == 0x80000000u) { return 0x80000000u; }
    return select(bits | 0x80000000u, ~bits, bits >> 31u == 1u);
}
/* For each expert its score for the selection, later its order; numbers of the chosen experts, and their shares before the division. */
var<workgroup> route_select: array<f32, EXPERTS>;
var<workgroup> route_order: array<u32, EXPERTS>;
var<workgroup> route_ids: array<u32, 32>;
var<workgroup> route_shares: array<f32, 32>;
var<workgroup> route_groups_sum: array<f32, 32>;
var<workgroup> route_groups_kept: u32;

const ROUTE_NONE = -3.0e38;                      /* below the score of every expert */

/* The largest x of the group, the same in all invocations. */
fn group_max(x: f32, thread: u32) -> f32 {
    group_sums[thread] = x;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { group_sums[thread] = max(group_sums[thread], group_sums[thread + half]); }
    }
    workgroupBarrier();
    let most = group_sums[0];
    workgroupBarrier();                          /* until all have read it */
    return most;
}
/* A share before a softmax is divided by its sum.  gating: 1: softmax, 2: sigmoid, 3: softmax of the chosen experts. */
fn route_share(x: f32, top: f32, gating: u32) -> f32 {
    if (gating == 2u) { return sigmoid_f32(x); }
    return exp_below_f32(x - top);
}
/* Keeps the experts of the groups with the largest sums of their two best scores and masks the others. */
fn route_groups(experts: u32, groups: u32, used: u32, thread: u32) {
    let size = experts / groups;
    for (var g = thread; g < groups; g += THREADS) {
        var one = ROUTE_NONE;
        var two = ROUTE_NONE;
        for (var k = 0u; k < size; k++) {
            let x = route_select[g * size + k];
            two = max(two, min(one, x));
            one = max(one, x);
        }
        route_groups_sum[g] = max(one, -1.0e38) + max(two, -1.0e38);
    }
    workgroupBarrier();
    if (thread == 0u) {
        var kept = 0u;
        for (var k = 0u; k < used; k++) {
            var best = 0u;
            var order = 0u;
            for (var g = 0u; g < groups; g++) {
                let its = order_of_f32(route_groups_sum[g]);
                if (((kept >> g) & 1u) == 0u && its > order) {
                    best = g;
                    order = its;
                }
            }
            kept |= 1u << best;
        }
        route_groups_kept = kept;
    }
    workgroupBarrier();
    for (var e = thread; e < experts; e += THREADS) {
        if (((route_groups_kept >> min(e / size, 31u)) & 1u) == 0u) { route_select[e] = ROUTE_NONE; }
    }
    workgroupBarrier();
}
/* Makes the choice from the logits of a token, both words of the arena, by one workgroup; of equal scores the expert with the lower number
 * comes first.  bias: the piece of vectors where [experts] biases begin, added for the selection only, or NO_VECTOR; without bias and
 * groups the logits select, because they have the order of the shares.  At most 32 experts are used, and there are at most 32 groups.
 * norm: shares are divided by their sum, at least 2^-14; by: multiplies them.
 * Called by all invocations of the group, in uniform control flow; all arguments but choice, logits, bias and thread are constants.
 * Workgroup memory: 8 EXPERTS + 4 THREADS + 388 bytes. */
fn route_token(choice: u32, logits: u32, bias: u32, experts: u32, used: u32, gating: u32, groups: u32, groups_used: u32, norm: u32, by: f32,
               thread: u32) {
    var top = ROUTE_NONE;
    var whole = 1.0;
    if (gating == 1u) {
        for (var e = thread; e < experts; e += THREADS) { top = max(top, arena_f32(logits + e)); }
        top = group_max(top, thread);
        whole = 0.0;
        for (var e = thread; e < experts; e += THREADS) { whole += route_share(arena_f32(logits + e), top, gating); }
        whole = group_sum(whole, thread);
    }
    let by_share = gating != 3u && (bias != NO_VECTOR || groups > 1u);
    for (var e = thread; e < experts; e += THREADS) {
        var x = arena_f32(logits + e);
        if (by_share) { x = route_share(x, top, gating) / whole; }
        if (bias != NO_VECTOR) { x += vector_f32(bias, e); }
        route_select[e] = x;
    }
    workgroupBarrier();
    if (groups > 1u) { route_groups(experts, groups, groups_used, thread); }
    for (var e = thread; e < experts; e += THREADS) { route_order[e] = order_of_f32(route_select[e]); }
    workgroupBarrier();
    for (var e = thread; e < experts; e += THREADS) {
        let mine = route_order[e];
        var before = 0u;
        for (var f = 0u; f < experts; f++) {
            let its = route_order[f];
            before += select(0u, 1u, its > mine || (its == mine && f < e));
        }
        if (before < used) { route_ids[before] = e; }
    }
    workgroupBarrier();
    if (gating == 3u) {
        for (var k = 0u; k < used; k++) { top = max(top, arena_f32(logits + route_ids[k])); }
    }
    for (var k = thread; k < used; k += THREADS) { route_shares[k] = route_share(arena_f32(logits + route_ids[k]), top, gating) / whole; }
    workgroupBarrier();
    var total = 0.0;
    for (var k = 0u; k < used; k++) { total += route_shares[k]; }
    var divisor = 1.0;
    if (gating == 3u) { divisor = total; }
    else if (norm != 0u) { divisor = max(total, 6.103515625e-5); }
    for (var k = thread; k < used; k += THREADS) {
        arena_put(choice + k, route_shares[k] / divisor * by);
        arena_put(choice + used + k, f32(route_ids[k]));
    }
    workgroupBarrier();                          /* before another token's */
}

/* ---- combining the results ---- */
/* Column r of the sum of the experts' rows, each of `rows` columns, times their shares. */
fn picked_sum(x: u32, choice: u32, r: u32, rows: u32, used: u32) -> f32 {
    var sum = 0.0;
    for (var k = 0u; k < used; k++) { sum += arena_f32(choice + k) * arena_f32(x + k * rows + r); }
    return sum;
}
/* Element r of the row of expert `id`; rows are `stride` floats apart, from piece `rows` of vectors on. */
fn picked_row(rows: u32, id: u32, r: u32, stride: u32) -> f32 { return vector_f32(rows, id * stride + r); }
