/* rows.wgsl -- the kernels that rows.mjs runs, one a module.  Their arguments, numbers of a case: rows.c; each takes what it needs in
 * order. */
// include templates/webgpu/attention.wgsl
// include templates/webgpu/functions.wgsl
// include templates/webgpu/rows.wgsl
// include templates/webgpu/sequence.wgsl
// include templates/webgpu/slices.wgsl

const THREADS = 64u;
const LANES = 8u;
const ROWS = 2u;
const RAGGED = true;
const ACTS_UNITS = 12u;
const EXPERTS = 300u;
const RECUR_PARTS = PARTCOUNT;
const RECUR_ROWS = ROWCOUNT;

@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read_write> state: array<u32>;
@group(0) @binding(2) var<uniform> step: forge_step;
@group(0) @binding(4) var<storage, read> vectors: array<vec4u>;
@group(0) @binding(6) var<storage, read> WEIGHTS: array<vec4u>;
@group(0) @binding(7) var<uniform> args: array<vec4u, 8>;

fn arg(i: u32) -> u32 { return args[i / 4u][i % 4u]; }
fn argf(i: u32) -> f32 { return bitcast<f32>(arg(i)); }
/* Arguments 0, 1: the result's row 0, words from row to row. */
fn row_at(t: u32) -> u32 { return arg(0u) + t * arg(1u); }
fn sink_SINK(t: u32, r: u32, y: f32) { arena_put(row_at(t) + r, y); }

/* ---- values ---- */
fn value_of(which: u32, bits: u32, more: f32) -> f32 {
    let x = bitcast<f32>(bits);
    switch (which) {
        case 0u: { return silu_f32(x); }
        case 1u: { return gelu_f32(x); }
        case 2u: { return gelu_erf_f32(x); }
        case 3u: { return sigmoid_f32(x); }
        case 4u: { return softplus_f32(x); }
        case 5u: { return relu_sqr_f32(x); }
        case 6u: { return tanh_f32(x); }
        case 7u: { return softcap_f32(x, 30.0); }
        case 8u: { return glu_oai_f32(x, more, 1.702, 7.0); }
        case 10u: { return score_capped(x, 30.0); }
        default: { return temperature_f32(bits, 0.1, 37u); }
    }
}
/* 2: x; 3: a second operand; 4: n; 5: the function. */
@compute @workgroup_size(THREADS)
fn values(@builtin(global_invocation_id) id: vec3u) {
    if (id.x < arg(4u)) { arena_put(arg(0u) + id.x, value_of(arg(5u), arena[arg(2u) + id.x], arena_f32(arg(3u) + id.x))); }
}

/* ---- sums and maxima of neighbours ---- */
/* 2: x; 3: lanes; 4: whether the invocations count backwards.  A GPU that runs the subgroups of a workgroup one after the other then runs
 * the first of a run last, so that a missing barrier or a wrong writer shows.  The result is THREADS sums, then THREADS maxima. */
@compute @workgroup_size(THREADS)
fn lanes(@builtin(local_invocation_index) index: u32) {
    let thread = select(index, THREADS - 1u - index, arg(4u) != 0u);
    let x = arena_f32(arg(2u) + thread);
    arena_put(arg(0u) + thread, lanes_sum(x, arg(3u), thread));
    arena_put(arg(0u) + THREADS + thread, lanes_max(x, arg(3u), thread));
}

/* ---- rows ---- */
/* 2: numbers of rows; 3: matrix; 4: cols; 5: groups. */
@compute @workgroup_size(THREADS)
fn embed(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    embed_row_FORMAT_WEIGHTS(row_at(id.y), arg(3u), arena[arg(2u) + id.y], arg(4u), id.x, arg(5u), thread);
}
/* 2: x; 3: weight; 4: cols; 5: eps; 6: layer norm. */
@compute @workgroup_size(THREADS)
fn norms(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    if (arg(6u) != 0u) { layernorm_row(row_at(id.x), arg(2u) + id.x * arg(1u), arg(3u), arg(4u), argf(5u), thread); }
    else { norm_row(row_at(id.x), arg(2u) + id.x * arg(1u), arg(3u), arg(4u), argf(5u), thread); }
}
/* 2: x; 3: weight; 4: whole; 5: how, 3: headnorm_row; 6: eps; 7: head_dim. */
@compute @workgroup_size(THREADS)
fn heads(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let x = arg(2u) + id.y * arg(1u);
    if (arg(5u) == 3u) { headnorm_row(row_at(id.y), x, arg(3u), argf(6u), arg(7u), id.x, thread); }
    else { heads_normed_SINK(id.y, x, arg(3u), arg(4u), arg(5u), argf(6u), arg(7u), id.x, thread); }
}
/* 2: x; 3: high; 4: low; 5: n_rot; 6: neox; 7: block; 8: heads; 9: head_dim; 10: first; 11: column by column. */
@compute @workgroup_size(THREADS)
fn ropes(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let x = arg(2u) + id.y * arg(1u);
    let position = step.n_past + id.y;
    if (arg(11u) == 0u) {
        rope_row(row_at(id.y), x, arg(3u), arg(4u), position, arg(5u), arg(6u), arg(7u), arg(8u), arg(9u), arg(10u), id.x, 2u, thread);
        return;
    }
    for (var r = id.x * THREADS + thread; r < arg(8u) * arg(9u); r += 2u * THREADS) {
        sink_SINK(id.y, r, rotated_f32(x, r, arg(3u), arg(4u), position, arg(5u), arg(6u), arg(7u), arg(9u), arg(10u)));
    }
}

/* ---- sequences ---- */
/* 2: x; 3: its stride; 4: taps; 5: their stride; 6: cols; 7: n_taps; 8: keep. */
@compute @workgroup_size(THREADS)
fn conv(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    conv_rows_SINK(arg(2u), arg(3u), arg(4u), arg(5u), arg(6u), arg(7u), arg(8u), step.n_tokens, id.x, id.y, thread);
}
@compute @workgroup_size(THREADS)
fn keep(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    conv_keep(arg(2u), arg(3u), arg(6u), arg(7u), step.n_tokens, id.x, thread);
}
/* 2: q, k, v, decay, beta; 7: as struct recur. */
@compute @workgroup_size(THREADS)
fn recurs(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let shape = recur(arg(7u), arg(8u), arg(9u), arg(10u), arg(11u), arg(12u), arg(13u), arg(14u), arg(15u), arg(16u), arg(17u), arg(18u));
    recur_rows_SINK(arg(2u), arg(3u), arg(4u), arg(5u), arg(6u), shape, step.n_tokens, id.x, thread);
}

/* ---- slices ---- */
/* 2: logits; 3: their stride; 4: bias; 5: experts, used, gating, groups, groups_used, norm; 11: by. */
@compute @workgroup_size(THREADS)
fn route(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    route_token(row_at(id.x), arg(2u) + id.x * arg(3u), arg(4u), arg(5u), arg(6u), arg(7u), arg(8u), arg(9u), arg(10u), argf(11u), thread);
}
/* 2: choice; 3: used; 4: x; 5: its words from slice to slice; 6: matrix; 7: rows of a slice; 8: cols; 9: groups; 10: all matrices; 11:
 * matrices of the first of two parts of the stack, which are z; 12: the second matrix of a pair. */
struct slice { at: u32, here: bool }
fn slice_at(id: vec3u, thread: u32) -> slice {
    var expert = id.y;
    if (arg(10u) == 0u) { expert = slice_expert(arg(2u), arg(3u), id.y, thread); }
    slice_first = id.y * arg(7u);
    return slice(expert * slice_pieces_FORMAT(arg(7u), arg(8u)), (expert < arg(11u)) == (id.z == 0u));
}
fn ahead_FORMAT(matrix: u32, group: u32, thread: u32) -> array<unit_FORMAT, ROWS> {
    return rows_ahead_FORMAT_WEIGHTS(matrix, arg(7u), arg(8u), rows_first(group), thread);
}
@compute @workgroup_size(THREADS)
fn slices(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let s = slice_at(id, thread);
    if (!s.here) { return; }
    acts_of_row(arg(4u) + id.y * arg(5u), arg(8u), thread);
    gemv_FORMAT_WEIGHTS_SINK(ahead_FORMAT(arg(6u) + s.at, id.x, thread), arg(6u) + s.at, arg(7u), arg(8u), id.x, arg(9u), thread);
}
fn store_put(row: u32, y: f32) { arena_put(arg(0u) + slice_first + row, y); }
@compute @workgroup_size(THREADS)
fn slices2(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let s = slice_at(id, thread);
    if (!s.here) { return; }
    acts_of_row(arg(4u) + id.y * arg(5u), arg(8u), thread);
    gemv2_FORMAT_WEIGHTS_WEIGHTS_SINK(ahead_FORMAT(arg(6u) + s.at, id.x, thread), ahead_FORMAT(arg(12u) + s.at, id.x, thread),
                                      arg(6u) + s.at, arg(12u) + s.at, arg(7u), arg(8u), id.x, arg(9u), thread);
}
fn store_both(row: u32, gate: f32, up: f32) { arena_put(arg(0u) + slice_first + row, gate - 2.0 * up); }
/* 2: choice; 3: used; 4: x; 5: rows; 6: what is picked; 7: its stride; 8: picked_row of the experts' rows instead of the sum. */
@compute @workgroup_size(THREADS)
fn picked(@builtin(global_invocation_id) id: vec3u) {
    let rows = arg(5u);
    if (arg(8u) == 0u) {
        if (id.x < rows) { arena_put(arg(0u) + id.x, picked_sum(arg(4u), arg(2u), id.x, rows, arg(3u))); }
    } else if (id.x < rows * arg(3u)) {
        arena_put(arg(0u) + id.x, picked_row(arg(6u), picked_id(arg(2u), arg(3u), id.x / rows), id.x % rows, arg(7u)));
    }
}
