/* subgroups.wgsl -- data exchange between neighbouring invocations without workgroup memory.  A module contains this text, which is for
 * GPUs without subgroups.  If there are subgroups, gpu.js replaces the 1 by their size, at most 32, and the returned x by
 * subgroupShuffleXor(x, apart).  Before that it tests on the GPU that subgroups are runs of neighbours. */

/* Invocations per subgroup, a power of two.  1: no exchange. */
const SUBGROUP = 1u;
/* x of the invocation whose number differs in the bit `apart`, a power of two below SUBGROUP.  Called by a whole subgroup. */
fn across(x: f32, apart: u32) -> f32 { return x; }
fn across_bits(x: u32, apart: u32) -> u32 { return x; }
