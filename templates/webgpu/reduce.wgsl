/* reduce.wgsl -- sums and maxima over neighbouring invocations of a workgroup: one place to change where there are subgroups.
 * The module has
 *     const THREADS                                of a workgroup
 * Workgroup memory: 4 THREADS bytes.  lanes: a power of two that divides THREADS; every run of so many neighbours gets its own result, all
 * of the run the same.  Called by all invocations of the group, in uniform control flow. */

var<workgroup> reduce_items: array<f32, THREADS>;

fn lanes_sum(x: f32, lanes: u32, thread: u32) -> f32 {
    reduce_items[thread] = x;
    for (var apart = lanes / 2u; apart > 0u; apart /= 2u) {
        workgroupBarrier();
        if (thread % lanes < apart) { reduce_items[thread] += reduce_items[thread + apart]; }
    }
    workgroupBarrier();
    let sum = reduce_items[thread - thread % lanes];
    workgroupBarrier();                          /* until all have read it */
    return sum;
}
fn lanes_max(x: f32, lanes: u32, thread: u32) -> f32 {
    reduce_items[thread] = x;
    for (var apart = lanes / 2u; apart > 0u; apart /= 2u) {
        workgroupBarrier();
        if (thread % lanes < apart) { reduce_items[thread] = max(reduce_items[thread], reduce_items[thread + apart]); }
    }
    workgroupBarrier();
    let top = reduce_items[thread - thread % lanes];
    workgroupBarrier();
    return top;
}
