/* subgroups.wgsl -- what neighbouring invocations tell each other without workgroup memory.  A module has this text, which is for GPUs
 * without subgroups; where there are some, gpu.js writes their size for the 1, 32 at most, and subgroupShuffleXor(x, apart) for the x that
 * is returned.  It asks the GPU first whether subgroups are runs of neighbours. */

/* So many neighbours are a subgroup: a power of two.  1: nobody tells anybody anything. */
const SUBGROUP = 1u;
/* x of the invocation whose number differs in the bit `apart`, a power of two below SUBGROUP.  Called by all of a subgroup. */
fn across(x: f32, apart: u32) -> f32 { return x; }
fn across_bits(x: u32, apart: u32) -> u32 { return x; }
