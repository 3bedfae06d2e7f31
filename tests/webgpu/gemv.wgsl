/* gemv.wgsl -- the kernels that run.mjs runs for a format: a workgroup, or two, for each matrix times a row.  Its results: formats.c. */
// include templates/webgpu/gemv.wgsl

const THREADS = 64u;
const LANES = 16u;
const ROWS = 2u;
const ACTS_UNITS = UNITSMOST;
const EPS = 1e-5;

@group(0) @binding(0) var<storage, read> WEIGHTS: array<vec4u>;
@group(0) @binding(1) var<storage, read> matvecs: array<matvec>;
@group(0) @binding(2) var<storage, read_write> arena: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

/* Pieces where the matrix and, but for ~0, the norm's weights begin; words of the arena and of y. */
struct matvec { matrix: u32, norm: u32, row_at: u32, y_at: u32, rows: u32, cols: u32, groups: u32 }

var<private> y_begin: u32;
fn store_row(row: u32, sum: f32) { y[y_begin + row] = sum; }

@compute @workgroup_size(THREADS)
fn gemv_of_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    y_begin = m.y_at;
    if (m.norm == 0xffffffffu) { acts_of_row(m.row_at, m.cols, thread); }
    else { acts_of_norm_WEIGHTS(m.row_at, m.norm, m.cols, EPS, thread); }
    gemv_FORMAT_WEIGHTS(m.matrix, m.rows, m.cols, id.y, m.groups, thread);
}

@compute @workgroup_size(THREADS)
fn gemv_of_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = matvecs[id.x];
    if (id.y >= m.groups) { return; }
    y_begin = m.y_at;
    if (m.norm == 0xffffffffu) { floats_of_row(m.row_at, m.cols, thread); }
    else { floats_of_norm_WEIGHTS(m.row_at, m.norm, m.cols, EPS, thread); }
    gemvf_FORMAT_WEIGHTS(m.matrix, m.rows, m.cols, id.y, m.groups, thread);
}
