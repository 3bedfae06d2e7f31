/* reduce.wgsl -- sums and maxima over neighbouring invocations of a workgroup.
 * The module has
 *     const THREADS                                of a workgroup, a multiple of SUBGROUP
 * Workgroup memory: 4 THREADS bytes.  lanes: a power of two that divides THREADS; every run of so many neighbours gets its own result, all
 * of the run the same.  Called by all invocations of the group, in uniform control flow. */
// include templates/webgpu/subgroups.wgsl

/* Of runs that are no longer than a subgroup; without a barrier. */
fn run_sum(x: f32, lanes: u32) -> f32 {
    var sum = x;
    for (var apart = 1u; apart < min(lanes, SUBGROUP); apart *= 2u) { sum += across(sum, apart); }
    return sum;
}
fn run_max(x: f32, lanes: u32) -> f32 {
    var top = x;
    for (var apart = 1u; apart < min(lanes, SUBGROUP); apart *= 2u) { top = max(top, across(top, apart)); }
    return top;
}

var<workgroup> reduce_items: array<f32, THREADS>;

fn lanes_sum(x: f32, lanes: u32, thread: u32) -> f32 {
    let part = run_sum(x, lanes);
    if (lanes <= SUBGROUP) { return part; }
    reduce_items[thread] = part;
    for (var apart = lanes / 2u; apart >= SUBGROUP; apart /= 2u) {
        workgroupBarrier();
        if (thread % lanes < apart) { reduce_items[thread] += reduce_items[thread + apart]; }
    }
    workgroupBarrier();
    let sum = reduce_items[thread - thread % lanes];
    workgroupBarrier();                          /* until all have read it */
    return sum;
}
fn lanes_max(x: f32, lanes: u32, thread: u32) -> f32 {
    let part = run_max(x, lanes);
    if (lanes <= SUBGROUP) { return part; }
    reduce_items[thread] = part;
    for (var apart = lanes / 2u; apart >= SUBGROUP; apart /= 2u) {
        workgroupBarrier();
        if (thread % lanes < apart) { reduce_items[thread] = max(reduce_items[thread], reduce_items[thread + apart]); }
    }
    workgroupBarrier();
    let top = reduce_items[thread - thread % lanes];
    workgroupBarrier();
    return top;
}
