/* grouped.wgsl -- products of a prompt with experts: sorts the choices of a step's tokens by expert, so that a tile of gemm.wgsl has tokens
 * of one expert.  (Gale et al. 2023, arXiv:2211.15841)
 *
 * An item is a token of the step with one of the `used` experts it chose: token * used + k.  The list, words of the arena from `list` on,
 * has the place where each expert's items begin, [EXPERTS + 1], then the items by expert.
 *
 * The module has, besides what slices.wgsl needs,
 *     const EXPERTS                                matrices of the stack
 * Workgroup memory: 4 EXPERTS bytes for grouped_sort, 8 for grouped_items. */
// include templates/webgpu/slices.wgsl

var<workgroup> grouped_counts: array<atomic<u32>, EXPERTS>;

/* Makes the list for tokens `first` to `tokens` - 1, by one workgroup.  choice: the word of the arena where the choice of token 0 begins;
 * stride: words between choices.  The order of an expert's items is not defined; no result depends on it. */
fn grouped_sort(list: u32, choice: u32, stride: u32, used: u32, first: u32, tokens: u32, thread: u32) {
    for (var e = thread; e < EXPERTS; e += THREADS) { atomicStore(&grouped_counts[e], 0u); }
    workgroupBarrier();
    for (var item = first * used + thread; item < tokens * used; item += THREADS) {
        atomicAdd(&grouped_counts[picked_id(choice + item / used * stride, used, item % used)], 1u);
    }
    workgroupBarrier();
    if (thread == 0u) {
        var at = 0u;
        for (var e = 0u; e < EXPERTS; e++) {
            let n = atomicLoad(&grouped_counts[e]);
            arena[list + e] = at;
            atomicStore(&grouped_counts[e], at);
            at += n;
        }
        arena[list + EXPERTS] = at;
    }
    workgroupBarrier();
    for (var item = first * used + thread; item < tokens * used; item += THREADS) {
        let at = atomicAdd(&grouped_counts[picked_id(choice + item / used * stride, used, item % used)], 1u);
        arena[list + EXPERTS + 1u + at] = item;
    }
}
/* Item i of the list. */
fn grouped_item(list: u32, i: u32) -> u32 { return arena[list + EXPERTS + 1u + i]; }
/* Where an expert's items begin and end: uniform.  Called by all invocations of the group, in uniform control flow. */
var<workgroup> grouped_range: vec2u;
fn grouped_items(list: u32, expert: u32, thread: u32) -> vec2u {
    if (thread == 0u) { grouped_range = vec2u(arena[list + expert], arena[list + expert + 1u]); }
    return workgroupUniformLoad(&grouped_range);
}
/* The first item of the workgroup's expert. */
var<private> grouped_first: u32;
