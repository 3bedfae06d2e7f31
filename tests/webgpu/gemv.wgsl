/* gemv.wgsl -- the kernels that run.mjs runs for a format: a workgroup, or two, for each matrix times a row.  Its results: formats.c.
 * As a pair: the upper rows with the lower ones, of an odd number both have the one in the middle.  Sinks: row, pair. */

const THREADS = 64u;
const LANES = LANESHERE;
const ROWS = 2u;
const RAGGED = true;
const ACTS_UNITS = UNITSMOST;
const EPS = 1e-5;

@group(0) @binding(0) var<storage, read> WEIGHTS: array<vec4u>;
@group(0) @binding(1) var<storage, read> matvecs: array<matvec>;
@group(0) @binding(2) var<storage, read_write> arena: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

/* Pieces where the matrix and, but for ~0, the norm's weights begin; words of the arena and of y. */
struct matvec { matrix: u32, norm: u32, row_at: u32, y_at: u32, rows: u32, cols: u32, groups: u32 }

/* Of the matrix at hand. */
var<private> y_begin: u32;
fn store_row(row: u32, sum: f32) { y[y_begin + row] = sum; }
var<private> y_lower: u32;
fn store_pair(row: u32, gate: f32, up: f32) {
    if (row < y_lower) { y[y_begin + row] = gate; }
    y[y_begin + y_lower + row] = up;
}

fn acts_begin(m: matvec, thread: u32) {
    y_begin = m.y_at;
    y_lower = m.rows / 2u;
    if (m.norm == 0xffffffffu) { acts_of_row(m.row_at, m.cols, thread); }
    else { acts_of_norm_WEIGHTS(m.row_at, m.norm, m.cols, EPS, thread); }
}
fn floats_begin(m: matvec, thread: u32) {
    y_begin = m.y_at;
    y_lower = m.rows / 2u;
    if (m.norm == 0xffffffffu) { floats_of_row(m.row_at, m.cols, thread); }
    else { floats_of_norm_WEIGHTS(m.row_at, m.norm, m.cols, EPS, thread); }
}
/* Where the lower rows begin. */
fn lower_FORMAT(m: matvec) -> u32 { return m.matrix + m.rows / 2u * row_pieces_FORMAT((m.cols + 63u) / 64u); }

fn ahead_FORMAT(matrix: u32, rows: u32, m: matvec, group: u32, thread: u32) -> array<unit_FORMAT, ROWS> {
    return rows_ahead_FORMAT_WEIGHTS(matrix, rows, m.cols, rows_first(group), thread);
}

fn floats_at(quad: u32) -> vec4f { return acts_floats[quad]; }

@compute @workgroup_size(THREADS)
fn gemv_of_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    acts_begin(m, thread);
    gemv_FORMAT_WEIGHTS_row(ahead_FORMAT(m.matrix, m.rows, m, id.y, thread), m.matrix, m.rows, m.cols, id.y, m.groups, thread);
}

@compute @workgroup_size(THREADS)
fn gemv2_of_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    acts_begin(m, thread);
    gemv2_FORMAT_WEIGHTS_PAIR_pair(ahead_FORMAT(m.matrix, m.rows - m.rows / 2u, m, id.y, thread),
        rows_ahead_FORMAT_PAIR(lower_FORMAT(m), m.rows - m.rows / 2u, m.cols, rows_first(id.y), thread),
        m.matrix, lower_FORMAT(m), m.rows - m.rows / 2u, m.cols, id.y, m.groups, thread);
}

@compute @workgroup_size(THREADS)
fn gemv_of_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    floats_begin(m, thread);
    gemvf_FORMAT_WEIGHTS_row(ahead_FORMAT(m.matrix, m.rows, m, id.y, thread), m.matrix, m.rows, m.cols, id.y, m.groups, thread);
}

@compute @workgroup_size(THREADS)
fn gemv2_of_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    floats_begin(m, thread);
    gemvf2_FORMAT_WEIGHTS_PAIR_pair(ahead_FORMAT(m.matrix, m.rows - m.rows / 2u, m, id.y, thread),
        rows_ahead_FORMAT_PAIR(lower_FORMAT(m), m.rows - m.rows / 2u, m.cols, rows_first(id.y), thread),
        m.matrix, lower_FORMAT(m), m.rows - m.rows / 2u, m.cols, id.y, m.groups, thread);
}
