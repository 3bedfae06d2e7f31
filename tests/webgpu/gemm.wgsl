/* gemm.wgsl -- the kernels that run.mjs runs for a format: rows are staged, then the tiles of each matrix times them.  Its results: gemm.c.
 * As a pair: the upper rows with the lower ones, of an odd number both have the one in the middle.  Sinks: row, pair. */

const THREADS = THREADSHERE;
const EPS = 1e-5;

@group(0) @binding(0) var<storage, read> WEIGHTS: array<vec4u>;
@group(0) @binding(1) var<storage, read> jobs: array<job>;
@group(0) @binding(2) var<storage, read_write> arena: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

/* Pieces where the matrix and, but for ~0, the norm's weights begin; words of the arena, where rows of x begin, how far from each other,
 * and where they are put; where results begin, [tokens][rows]. */
struct job { matrix: u32, norm: u32, x_at: u32, x_stride: u32, staged_at: u32, y_at: u32, rows: u32, cols: u32, tokens: u32 }

/* Of the job at hand. */
var<private> y_begin: u32;
var<private> y_rows: u32;
fn store_row(row: u32, token: u32, sum: f32) { y[y_begin + y_rows * token + row] = sum; }
fn store_pair(row: u32, token: u32, gate: f32, up: f32) {
    if (row < y_rows / 2u) { y[y_begin + y_rows * token + row] = gate; }
    y[y_begin + y_rows * token + y_rows / 2u + row] = up;
}
fn results_begin(m: job) {
    y_begin = m.y_at;
    y_rows = m.rows;
}
/* Where the lower rows begin, how many they are. */
fn lower_FORMAT(m: job) -> u32 { return m.matrix + m.rows / 2u * row_pieces_FORMAT((m.cols + 63u) / 64u); }
fn lower_rows(m: job) -> u32 { return m.rows - m.rows / 2u; }

/* ---- int8 ---- */
/* There is room for a token more in some. */
fn stride_of(m: job) -> u32 { return m.tokens + m.cols / 32u % 2u; }

@compute @workgroup_size(THREADS)
fn stage_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    if (id.y >= m.tokens) { return; }
    let at = m.x_at + m.x_stride * id.y;
    if (m.norm == 0xffffffffu) { stage_row(at, m.cols, m.staged_at, id.y, stride_of(m), thread); }
    else { stage_norm_WEIGHTS(at, m.norm, m.cols, EPS, m.staged_at, id.y, stride_of(m), thread); }
}
@compute @workgroup_size(THREADS)
fn gemm_of_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    results_begin(m);
    gemm_FORMAT_WEIGHTS_row(m.matrix, m.rows, m.cols, m.staged_at, stride_of(m), m.tokens, id.y, id.z, thread);
}
@compute @workgroup_size(THREADS)
fn gemm2_of_acts(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    results_begin(m);
    gemm2_FORMAT_WEIGHTS_PAIR_pair(m.matrix, lower_FORMAT(m), lower_rows(m), m.cols, m.staged_at, stride_of(m), m.tokens, id.y, id.z,
                                   thread);
}

/* ---- floats ---- */
@compute @workgroup_size(THREADS)
fn stage_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    if (id.y >= m.tokens || m.norm == 0xffffffffu) { return; }
    stagef_norm_WEIGHTS(m.x_at + m.x_stride * id.y, m.norm, m.cols, EPS, m.staged_at + m.cols * id.y, thread);
}
/* Where the rows are that are multiplied, how far from each other. */
fn floats_at(m: job) -> vec2u { return select(vec2u(m.staged_at, m.cols), vec2u(m.x_at, m.x_stride), m.norm == 0xffffffffu); }

@compute @workgroup_size(THREADS)
fn gemm_of_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    results_begin(m);
    let x = floats_at(m);
    gemmf_FORMAT_WEIGHTS_row(m.matrix, m.rows, m.cols, x.x, x.y, m.tokens, id.y, id.z, thread);
}
@compute @workgroup_size(THREADS)
fn gemm2_of_floats(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let m = jobs[id.x];
    results_begin(m);
    let x = floats_at(m);
    gemmf2_FORMAT_WEIGHTS_PAIR_pair(m.matrix, lower_FORMAT(m), lower_rows(m), m.cols, x.x, x.y, m.tokens, id.y, id.z, thread);
}
