/* sample.wgsl -- the two kernels that sample.mjs runs for each vocabulary, as an emitter writes them. */
// include templates/webgpu/launch.wgsl
// include templates/webgpu/sample.wgsl

const N_VOCAB = NVOCAB;
const THREADS = NTHREADS;
const GROUPS = NGROUPS;

fn sample_suppressed(id: u32) -> bool { return false; }

@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<uniform> step: forge_step;
@group(0) @binding(2) var<storage, read_write> next: array<u32>;
@group(0) @binding(3) var<storage, read_write> text: array<u32>;
@group(0) @binding(4) var<storage, read_write> sampling: array<u32>;

@compute @workgroup_size(THREADS)
fn sample_scan(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    sample_scan_span(ROWAT, SCRATCHAT, id.x, step.n_past + step.n_tokens, thread);
}

@compute @workgroup_size(THREADS)
fn sample_draw(@builtin(local_invocation_index) thread: u32) { sample_draw_token(ROWAT, SCRATCHAT, thread); }
