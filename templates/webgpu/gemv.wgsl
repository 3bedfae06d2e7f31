/* gemv.wgsl -- y = W x for one token, x as acts.wgsl left it in workgroup memory.
 * A run of LANES invocations has ROWS rows at a time; neighbours of a run read neighbouring units, which of a plane of 16-byte pieces are
 * neighbouring pieces.  The workgroups of a grid stride over the rows.
 *
 * The module has, beside what acts.wgsl asks for,
 *     const LANES, ROWS                            LANES: a power of two, at most THREADS
 *     fn store_row(row: u32, y: f32)               called once for a row, by one invocation
 * Called by all invocations of the group, in uniform control flow: matrix: the piece of WEIGHTS where it begins; group, groups: which
 * workgroup, of how many. */
// include templates/webgpu/acts.wgsl

var<workgroup> run_sums: array<f32, ROWS * THREADS>;

/* Sums over the lanes of each run, to lane 0.  They are in run_sums; first: the first row of the group. */
fn runs_store(first: u32, rows: u32, thread: u32) {
    let lane = thread % LANES;
    for (var half = LANES / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (lane < half) {
            for (var r = 0u; r < ROWS; r++) { run_sums[r * THREADS + thread] += run_sums[r * THREADS + thread + half]; }
        }
    }
    if (lane == 0u) {
        for (var r = 0u; r < ROWS; r++) {
            let row = first + thread / LANES * ROWS + r;
            if (row < rows) { store_row(row, run_sums[r * THREADS + thread]); }
        }
    }
    workgroupBarrier();                          /* before the next rows' sums */
}
/* Runs without a row of their own read the last one. */
fn gemv_FORMAT_WEIGHTS(matrix: u32, rows: u32, cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    let each = THREADS / LANES * ROWS;
    for (var first = group * each; first < rows; first += groups * each) {
        var sums: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = 0.0; }      /* SwiftShader keeps the last turn's where only WGSL says it is 0 */
        for (var unit = thread % LANES; unit < units; unit += LANES) {
            let x = acts_at(unit);
            for (var r = 0u; r < ROWS; r++) {
                let row = min(first + thread / LANES * ROWS + r, rows - 1u);
                sums[r] += dot_FORMAT(load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units), x, unit);
            }
        }
        for (var r = 0u; r < ROWS; r++) { run_sums[r * THREADS + thread] = sums[r]; }
        runs_store(first, rows, thread);
    }
}
/* The same of weights that are floats. */
fn gemvf_FORMAT_WEIGHTS(matrix: u32, rows: u32, cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    let each = THREADS / LANES * ROWS;
    for (var first = group * each; first < rows; first += groups * each) {
        var sums: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = 0.0; }      /* SwiftShader keeps the last turn's where only WGSL says it is 0 */
        for (var unit = thread % LANES; unit < units * (64u / UNIT_COLS_FORMAT); unit += LANES) {
            var x: array<vec4f, UNIT_COLS_FORMAT / 4u>;
            for (var i = 0u; i < UNIT_COLS_FORMAT / 4u; i++) { x[i] = acts_floats[UNIT_COLS_FORMAT / 4u * unit + i]; }
            for (var r = 0u; r < ROWS; r++) {
                let row = min(first + thread / LANES * ROWS + r, rows - 1u);
                sums[r] += dotf_FORMAT(load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units), x);
            }
        }
        for (var r = 0u; r < ROWS; r++) { run_sums[r * THREADS + thread] = sums[r]; }
        runs_store(first, rows, thread);
    }
}
