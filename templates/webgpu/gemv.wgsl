/* gemv.wgsl -- y = W x for one token; acts.wgsl has stored x in workgroup memory.
 * A run of LANES invocations has ROWS rows at a time; neighbours of a run read neighbouring units, which are neighbouring pieces in a plane
 * of 16-byte pieces.  The workgroups of a grid stride over the rows.
 *
 * In names SINK stands for the use of a result, PAIR for the binding of the second matrix of a pair, which has WEIGHTS' format and shape.
 * The module has, besides what acts.wgsl needs,
 *     const LANES, ROWS                            LANES: a power of two, at most THREADS
 *     const RAGGED                                 false: every lane has a unit at every turn
 *     fn store_SINK(row: u32, y: f32)              called once for a row, by one invocation
 *     fn store_SINK(row: u32, gate: f32, up: f32)  instead, for a pair: the products with WEIGHTS and with PAIR
 *     fn floats_at(quad: u32) -> vec4f             for rows in floats: columns 4 quad .., zeros beyond the row; acts_floats[quad] or, if
 *                                                  the row does not fit there, from the arena
 * Workgroup memory: 4 ROWS (THREADS + THREADS / LANES) bytes, twice that for a pair, besides the row's.
 *
 * gemv reads a row in int8; gemvf reads one in floats, with any format of weights.
 * Called by all invocations of the group, in uniform control flow.  matrix, pair: the piece of WEIGHTS, of PAIR, where it begins; group,
 * groups: number of the workgroup, and of how many.  ahead, of_pair: results of rows_ahead for the group's first rows, so that their
 * weights are loaded while the row is still computed: a decode kernel waits for little else. */
// include templates/webgpu/acts.wgsl

/* Runs that are no longer than a subgroup sum without memory and without a barrier; each lane then has one row. */
const RUNS_ALONE = LANES <= SUBGROUP && ROWS <= LANES;
/* A constant number of turns, for the reason in reduce.wgsl. */
const GEMV_TURNS = (ACTS_UNITS + LANES - 1u) / LANES;
const RUN_STRIDE = LANES + 1u;                   /* of runs: invocations that sum them read different banks */
const RUN_ROW = THREADS / LANES * RUN_STRIDE;    /* of an invocation's rows */
var<workgroup> run_sums: array<f32, ROWS * RUN_ROW>;
var<workgroup> run_pairs: array<vec2f, ROWS * RUN_ROW>;

/* The first of an invocation's rows, which its run shares; first: the group's first row.  Runs without a row read the last one. */
fn run_row(first: u32, thread: u32) -> u32 { return first + thread / LANES * ROWS; }
/* Where an invocation's sum of its row r lies. */
fn run_at(r: u32, thread: u32) -> u32 { return r * RUN_ROW + thread / LANES * RUN_STRIDE + thread % LANES; }

/* Sums the rows over the lanes of each run and stores them, one invocation per row.  first: the first row of the group. */
fn runs_store_SINK(of_lane: array<f32, ROWS>, first: u32, rows: u32, thread: u32) {
    var sums = of_lane;
    if (RUNS_ALONE) {
        let lane = thread % LANES;
        var mine = 0.0;
        for (var r = 0u; r < ROWS; r++) { mine = select(mine, run_sum(sums[r], LANES), lane == r); }
        let row = run_row(first, thread) + lane;
        if (lane < ROWS && row < rows) { store_SINK(row, mine); }
        return;
    }
    for (var r = 0u; r < ROWS; r++) { run_sums[run_at(r, thread)] = sums[r]; }
    workgroupBarrier();
    for (var i = thread; i < THREADS / LANES * ROWS; i += THREADS) {
        let at = i % ROWS * RUN_ROW + i / ROWS * RUN_STRIDE;
        var sum = 0.0;
        for (var lane = 0u; lane < LANES; lane++) { sum += run_sums[at + lane]; }
        if (first + i < rows) { store_SINK(first + i, sum); }
    }
    workgroupBarrier();                          /* before the next rows' sums */
}
/* The same for a pair. */
fn runs_store2_SINK(of_lane: array<vec2f, ROWS>, first: u32, rows: u32, thread: u32) {
    var sums = of_lane;
    if (RUNS_ALONE) {
        let lane = thread % LANES;
        var mine = vec2f(0.0);
        for (var r = 0u; r < ROWS; r++) {
            mine = select(mine, vec2f(run_sum(sums[r].x, LANES), run_sum(sums[r].y, LANES)), lane == r);
        }
        let row = run_row(first, thread) + lane;
        if (lane < ROWS && row < rows) { store_SINK(row, mine.x, mine.y); }
        return;
    }
    for (var r = 0u; r < ROWS; r++) { run_pairs[run_at(r, thread)] = sums[r]; }
    workgroupBarrier();
    for (var i = thread; i < THREADS / LANES * ROWS; i += THREADS) {
        let at = i % ROWS * RUN_ROW + i / ROWS * RUN_STRIDE;
        var sum = vec2f(0.0);
        for (var lane = 0u; lane < LANES; lane++) { sum += run_pairs[at + lane]; }
        if (first + i < rows) { store_SINK(first + i, sum.x, sum.y); }
    }
    workgroupBarrier();                          /* before the next rows' sums */
}

/* A lane's first unit of each of its rows, in a group with first row `first`. */
fn rows_ahead_FORMAT_WEIGHTS(matrix: u32, rows: u32, cols: u32, first: u32, thread: u32) -> array<unit_FORMAT, ROWS> {
    let units = (cols + 63u) / 64u;
    let unit = min(thread % LANES, units * (64u / UNIT_COLS_FORMAT) - 1u);
    var ahead: array<unit_FORMAT, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let row = min(run_row(first, thread) + r, rows - 1u);
        ahead[r] = load_FORMAT_WEIGHTS(matrix + row * row_pieces_FORMAT(units), unit, units);
    }
    return ahead;
}
/* The first row of a group. */
fn rows_first(group: u32) -> u32 { return group * (THREADS / LANES * ROWS); }

/* ---- int8 ---- */
fn gemv_FORMAT_WEIGHTS_SINK(ahead: array<unit_FORMAT, ROWS>, matrix: u32, rows: u32, cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    var now = ahead;
    for (var first = rows_first(group); first < rows; first += rows_first(groups)) {
        var sums: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = 0.0; }      /* SwiftShader keeps old values where WGSL alone says it is 0 */
        for (var turn = 0u; turn < GEMV_TURNS; turn++) {
            let unit = turn * LANES + thread % LANES;
            if (RAGGED && unit >= units) { continue; }
            let x = acts_at(unit);
            for (var r = 0u; r < ROWS; r++) {
                let row = min(run_row(first, thread) + r, rows - 1u);
                var w = now[r];
                if (turn > 0u) { w = load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units); }
                sums[r] += dot_FORMAT(w, x, unit);
            }
        }
        if (first + rows_first(groups) < rows) {
            now = rows_ahead_FORMAT_WEIGHTS(matrix, rows, cols, first + rows_first(groups), thread);
        }
        runs_store_SINK(sums, first, rows, thread);
    }
}
fn gemv2_FORMAT_WEIGHTS_PAIR_SINK(ahead: array<unit_FORMAT, ROWS>, of_pair: array<unit_FORMAT, ROWS>, matrix: u32, pair: u32, rows: u32,
                                    cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    var now = ahead;
    var now2 = of_pair;
    for (var first = rows_first(group); first < rows; first += rows_first(groups)) {
        var sums: array<vec2f, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = vec2f(0.0); }
        for (var turn = 0u; turn < GEMV_TURNS; turn++) {
            let unit = turn * LANES + thread % LANES;
            if (RAGGED && unit >= units) { continue; }
            let x = acts_at(unit);
            for (var r = 0u; r < ROWS; r++) {
                let row = min(run_row(first, thread) + r, rows - 1u);
                var w = now[r];
                var w2 = now2[r];
                if (turn > 0u) {
                    w = load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units);
                    w2 = load_FORMAT_PAIR(pair + row * pieces, unit, units);
                }
                sums[r] += vec2f(dot_FORMAT(w, x, unit), dot_FORMAT(w2, x, unit));
            }
        }
        if (first + rows_first(groups) < rows) {
            now = rows_ahead_FORMAT_WEIGHTS(matrix, rows, cols, first + rows_first(groups), thread);
            now2 = rows_ahead_FORMAT_PAIR(pair, rows, cols, first + rows_first(groups), thread);
        }
        runs_store2_SINK(sums, first, rows, thread);
    }
}

/* ---- floats ---- */
/* A unit, of UNIT_COLS_FORMAT columns, times its part of the row. */
fn dot_floats_FORMAT(u: unit_FORMAT, unit: u32) -> f32 {
    var sum = 0.0;
    for (var part = 0u; part < UNIT_COLS_FORMAT / PART_COLS_FORMAT; part++) {
        let at = (unit * UNIT_COLS_FORMAT + part * PART_COLS_FORMAT) / 4u;
        var w = values_FORMAT(u, unit, part);
        for (var i = 0u; i < PART_COLS_FORMAT / 4u; i++) { sum += dot(w[i], floats_at(at + i)); }
    }
    return sum;
}
fn gemvf_FORMAT_WEIGHTS_SINK(ahead: array<unit_FORMAT, ROWS>, matrix: u32, rows: u32, cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    var now = ahead;
    for (var first = rows_first(group); first < rows; first += rows_first(groups)) {
        var sums: array<f32, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = 0.0; }
        for (var turn = 0u; turn < GEMV_TURNS * (64u / UNIT_COLS_FORMAT); turn++) {
            let unit = turn * LANES + thread % LANES;
            if (RAGGED && unit >= units * (64u / UNIT_COLS_FORMAT)) { continue; }
            for (var r = 0u; r < ROWS; r++) {
                let row = min(run_row(first, thread) + r, rows - 1u);
                var w = now[r];
                if (turn > 0u) { w = load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units); }
                sums[r] += dot_floats_FORMAT(w, unit);
            }
        }
        if (first + rows_first(groups) < rows) {
            now = rows_ahead_FORMAT_WEIGHTS(matrix, rows, cols, first + rows_first(groups), thread);
        }
        runs_store_SINK(sums, first, rows, thread);
    }
}
fn gemvf2_FORMAT_WEIGHTS_PAIR_SINK(ahead: array<unit_FORMAT, ROWS>, of_pair: array<unit_FORMAT, ROWS>, matrix: u32, pair: u32, rows: u32,
                                    cols: u32, group: u32, groups: u32, thread: u32) {
    let units = (cols + 63u) / 64u;
    let pieces = row_pieces_FORMAT(units);
    var now = ahead;
    var now2 = of_pair;
    for (var first = rows_first(group); first < rows; first += rows_first(groups)) {
        var sums: array<vec2f, ROWS>;
        for (var r = 0u; r < ROWS; r++) { sums[r] = vec2f(0.0); }
        for (var turn = 0u; turn < GEMV_TURNS * (64u / UNIT_COLS_FORMAT); turn++) {
            let unit = turn * LANES + thread % LANES;
            if (RAGGED && unit >= units * (64u / UNIT_COLS_FORMAT)) { continue; }
            for (var r = 0u; r < ROWS; r++) {
                let row = min(run_row(first, thread) + r, rows - 1u);
                var w = now[r];
                var w2 = now2[r];
                if (turn > 0u) {
                    w = load_FORMAT_WEIGHTS(matrix + row * pieces, unit, units);
                    w2 = load_FORMAT_PAIR(pair + row * pieces, unit, units);
                }
                sums[r] += vec2f(dot_floats_FORMAT(w, unit), dot_floats_FORMAT(w2, unit));
            }
        }
        if (first + rows_first(groups) < rows) {
            now = rows_ahead_FORMAT_WEIGHTS(matrix, rows, cols, first + rows_first(groups), thread);
            now2 = rows_ahead_FORMAT_PAIR(pair, rows, cols, first + rows_first(groups), thread);
        }
        runs_store2_SINK(sums, first, rows, thread);
    }
}
