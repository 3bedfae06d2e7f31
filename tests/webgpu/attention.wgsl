/* attention.wgsl -- the kernels that attention.mjs runs: heads finished and stored, then the ways of attention, each for all tokens of the
 * step into rows of its own.  What they compute with: attention.c, which writes the other constants. */
// include templates/webgpu/launch.wgsl
// include templates/webgpu/attention_chunk.wgsl
// include templates/webgpu/attention_steps.wgsl

@group(0) @binding(0) var<storage, read_write> arena: array<u32>;
@group(0) @binding(1) var<storage, read_write> state: array<STATEITEM>;
@group(0) @binding(2) var<uniform> step: forge_step;
@group(0) @binding(4) var<storage, read> vectors: array<vec4u>;

const ALL = attention(N_HEAD, SCALE, CAP, SINKS, WINDOW, RING);
const ROWS = select(RING, N_CTX, RING == 0u);
const TURN = rotation(HIGH, LOW, BLOCK, N_ROT, NEOX);

fn plane_k() -> kv_plane { return kv_plane(0u, N_GROUP, ROWS, HEAD_DIM); }
fn plane_v() -> kv_plane {
    if (VALUES_IN_KEYS == 1u) { return plane_k(); }
    return kv_plane(kv_words_KV(N_GROUP, ROWS, HEAD_DIM), N_GROUP, ROWS, VALUE_DIM);
}
fn chunk_all() -> chunk { return chunk(0u, STRIDE, OUT_CHUNK, N_HEAD * VALUE_DIM, step.n_past, step.n_tokens, 0u, CAUSAL); }
fn steps_all() -> steps { return steps(SCORES, TOKENS, N_CTX, step.n_past, step.n_tokens); }

@compute @workgroup_size(THREADS)
fn finish(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let q = id.y * STRIDE;
    let k = q + N_HEAD * HEAD_DIM;
    heads_finish_KV_STATE(q, k, k + N_GROUP * HEAD_DIM, Q_NORM, K_NORM, EPS, TURN, plane_k(), plane_v(), N_HEAD, step.n_past + id.y, RING,
                          id.x, thread);
}
/* The same by single ops; finish_keys: without V. */
fn keys_apart(id: vec3u, thread: u32) {
    let q = id.y * STRIDE;
    let k = q + N_HEAD * HEAD_DIM;
    heads_turn(q, Q_NORM, EPS, TURN, N_HEAD, step.n_past + id.y, id.x, thread);
    workgroupBarrier();
    heads_turn(k, K_NORM, EPS, TURN, N_GROUP, step.n_past + id.y, id.x, thread);
    storageBarrier();
    heads_store_KV_STATE(k, plane_k(), step.n_past + id.y, RING, id.x, thread);
}
@compute @workgroup_size(THREADS)
fn finish_keys(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) { keys_apart(id, thread); }
@compute @workgroup_size(THREADS)
fn finish_apart(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    keys_apart(id, thread);
    workgroupBarrier();
    heads_store_KV_STATE(id.y * STRIDE + (N_HEAD + N_GROUP) * HEAD_DIM, plane_v(), step.n_past + id.y, RING, id.x, thread);
}

@compute @workgroup_size(THREADS)
fn decode(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let cuts = attention_cuts(N_HEAD, N_GROUP);
    let row = id.z * N_GROUP * cuts * SPLITS * HEADS;
    attention_decode_KV(ALL, id.z * STRIDE, plane_k(), plane_v(), OUT_DECODE + id.z * N_HEAD * VALUE_DIM, PARTS + row * VALUE_DIM,
                        ML + 2u * row, step.n_past + id.z, id.x / cuts, id.x % cuts, id.y, SPLITS, thread);
}
/* The same of raw rows. */
@compute @workgroup_size(THREADS)
fn whole(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let k = N_HEAD * HEAD_DIM;
    let raw = raw_heads(0u, k, k + N_GROUP * HEAD_DIM, Q_NORM, K_NORM, EPS);
    attention_whole_KV_STATE(ALL, raw, TURN, plane_k(), plane_v(), OUT_DECODE, PARTS, ML, step.n_past, id.x, id.y, SPLITS, thread);
}
/* Plans launch it only for more positions than ATTENTION_ALONE. */
@compute @workgroup_size(THREADS)
fn merge(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    let positions = min(step.n_past + id.y + 1u, select(WINDOW, N_CTX, WINDOW == 0u));
    if (SPLITS == 1u || positions <= ATTENTION_ALONE) { return; }
    let row = id.y * N_GROUP * attention_cuts(N_HEAD, N_GROUP) * SPLITS * HEADS;
    attention_merge(OUT_DECODE + id.y * N_HEAD * VALUE_DIM, PARTS + row * VALUE_DIM, ML + 2u * row, N_HEAD, N_GROUP, SPLITS, id.x, thread);
}

@compute @workgroup_size(THREADS)
fn prefill(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    attention_chunk_KV(chunk_all(), ALL, plane_k(), plane_v(), id.x, id.y, thread);
}

@compute @workgroup_size(THREADS)
fn scores(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    steps_scores_KV(steps_all(), ALL, plane_k(), id.y * STRIDE, id.x, id.y, id.z, 2u, thread);
}
@compute @workgroup_size(THREADS)
fn mask(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) { steps_mask(steps_all(), id.x, id.y, thread); }
@compute @workgroup_size(THREADS)
fn softmax(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    steps_softmax(steps_all(), ALL, id.x, id.y, thread);
}
@compute @workgroup_size(THREADS)
fn weighted(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) thread: u32) {
    steps_sum_KV(steps_all(), ALL, plane_v(), OUT_STEPS + id.y * N_HEAD * VALUE_DIM, id.x, id.y, thread);
}
