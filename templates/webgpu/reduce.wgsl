/* reduce.wgsl -- sums and maxima over neighbouring invocations of a workgroup.
 * The module has
 *     const THREADS                                of a workgroup, a multiple of SUBGROUP
 * Workgroup memory: 4 THREADS bytes.  lanes: a power of two that divides THREADS.  Every run of `lanes` neighbours gets its own result, the
 * same in the whole run.  Called by all invocations of the group, in uniform control flow. */
// include templates/webgpu/subgroups.wgsl

/* Over runs of `lanes`, at most 32, or over whole subgroups if these are smaller; without a barrier.  Without a loop: Dawn gives a 64-bit
 * counter to every loop whose end it cannot prove (it can for `i < constant; i++`), and drivers do not unroll such loops. */
fn run_sum(x: f32, lanes: u32) -> f32 {
    let n = min(lanes, SUBGROUP);
    var sum = x;
    if (n > 1u) { sum += across(sum, 1u); }
    if (n > 2u) { sum += across(sum, 2u); }
    if (n > 4u) { sum += across(sum, 4u); }
    if (n > 8u) { sum += across(sum, 8u); }
    if (n > 16u) { sum += across(sum, 16u); }
    return sum;
}
fn run_max(x: f32, lanes: u32) -> f32 {
    let n = min(lanes, SUBGROUP);
    var top = x;
    if (n > 1u) { top = max(top, across(top, 1u)); }
    if (n > 2u) { top = max(top, across(top, 2u)); }
    if (n > 4u) { top = max(top, across(top, 4u)); }
    if (n > 8u) { top = max(top, across(top, 8u)); }
    if (n > 16u) { top = max(top, across(top, 16u)); }
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
