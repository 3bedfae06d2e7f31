// attention.mjs -- runs the kernels that attention.c wrote into the working directory on WebGPU, and compares the results.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { bufferOf, bytesOf, checkRefused, device, moduleOf, subgroup, wordsOf } from './gpu.mjs';

const MOST_FAILURES = 5;

// All pipelines of a configuration for this size of subgroups, with the grid of a launch for a number of tokens.
async function pipelinesOf(c, subgroup) {
    const [heads, one, ways] = await Promise.all(['heads.wgsl', 'one.wgsl', 'wgsl'].map(kind => moduleOf(`${c.name}.${kind}`, subgroup)));
    const cuts = Math.ceil(c.group / c.heads), list = c.by_whole ? [[one, 'whole', () => [c.n_group, c.splits, 1]]] : [];
    list.push([heads, c.finish, n => [Math.ceil((c.n_head + 2 * c.n_group) / c.each), n]]);
    if (c.by_decode) list.push([one, 'decode', n => [c.n_group * cuts, c.splits, n]]);
    if ((c.by_decode || c.by_whole) && c.splits > 1) list.push([one, 'merge', n => [c.n_head, n]]);
    if (c.by_prefill) list.push([ways, 'prefill', n => [c.n_group, Math.ceil(n * c.group / c.rows)]]);
    if (c.by_steps) list.push([ways, 'scores', n => [c.n_head, n, 2]]);
    if (c.by_steps && c.causal) list.push([ways, 'mask', n => [c.n_head, n]]);
    if (c.by_steps) list.push([ways, 'softmax', n => [c.n_head, n]], [ways, 'weighted', n => [c.n_head, n]]);
    return Promise.all(list.map(async ([module, entryPoint, grid]) => ({
        grid, entryPoint, pipeline: await device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint } }) })));
}

// Decode's kernel is for single tokens: the longest steps need not run it.
const byDecode = (c, s) => c.by_decode && s.n_tokens <= 16;
// Binding 2 is the step, 4 vectors; a pipeline has the bindings that its kernel uses.
const USES = { whole: [0, 1, 2, 4], finish: [0, 1, 2, 4], finish_apart: [0, 1, 2, 4], finish_keys: [0, 1, 2, 4], decode: [0, 1, 2, 4], merge: [0, 2], prefill: [0, 1, 2, 4], scores: [0, 1, 2],
               mask: [0, 2], softmax: [0, 2, 4], weighted: [0, 1, 2] };
async function run(s, pipelines, vectors) {
    const storage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC;
    const arena = bufferOf(wordsOf(`${s.name}.arena`), storage), state = bufferOf(wordsOf(`${s.name}.state`), storage);
    const step = bufferOf(new Uint32Array([s.n_tokens, s.n_past, 1, 0]), GPUBufferUsage.UNIFORM);
    const buffers = { 0: arena, 1: state, 2: step, 4: vectors }, encoder = device.createCommandEncoder();
    for (const { pipeline, grid, entryPoint } of pipelines) {
        const entries = USES[entryPoint].map(binding => ({ binding, resource: { buffer: buffers[binding] } }));
        const pass = encoder.beginComputePass();
        pass.setPipeline(pipeline);
        pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
        pass.dispatchWorkgroups(...grid(s.n_tokens));
        pass.end();
    }
    const back = [arena, state].map(from => {
        const to = device.createBuffer({ size: from.size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
        encoder.copyBufferToBuffer(from, 0, to, 0, from.size);
        return to;
    });
    device.queue.submit([encoder.finish()]);
    const result = [];
    for (const buffer of back) {
        await buffer.mapAsync(GPUMapMode.READ);
        result.push(new Uint32Array(buffer.getMappedRange().slice(0)));
        buffer.destroy();
    }
    arena.destroy();
    state.destroy();
    return result;
}

const half = h => {
    const exponent = h >> 10 & 31, part = h & 1023, sign = h & 0x8000 ? -1 : 1;
    return sign * (exponent === 31 ? (part ? NaN : Infinity) : exponent ? 2 ** (exponent - 25) * (1024 + part) : 2 ** -24 * part);
};
let failures = 0, worst = {};
function fail(text) { if (failures++ < MOST_FAILURES) console.log(`    ${text}`); }
// error: relative to the bound.
function check(what, got, want, bound, place) {
    const error = Math.abs(got - want) / bound;
    if (error > (worst[what] ?? 0)) worst[what] = error;
    if (!(error <= 1)) fail(`${what} ${place()}: ${got}, not ${want}: off by ${Math.abs(got - want)}, allowed ${bound}`);
}
const waysOf = (c, s) => [...(byDecode(c, s) ? [['decode', c.out_decode]] : []), ...(c.by_prefill ? [['prefill', c.out_chunk]] : []),
                          ...(c.by_steps ? [['steps', c.out_steps]] : [])];
function checkOutputs(c, s, arena, ways) {
    const want = new Float64Array(bytesOf(`${s.name}.want`)), floats = new Float32Array(arena.buffer), row = c.n_head * c.value_dim;
    for (const [what, at] of ways)
        for (let i = 0; i < want.length / 2; i++)
            check(what, floats[at + i], want[2 * i], want[2 * i + 1],
                  () => `${s.what}, token ${Math.floor(i / row)}, head ${Math.floor(i % row / c.value_dim)}, column ${i % c.value_dim}`);
    const before = wordsOf(`${s.name}.arena`);
    for (const [first, end] of c.gaps)
        for (let i = first; i < end; i++) if (arena[i] !== before[i]) fail(`${s.what}: word ${i} of the arena is written, though no value lies there`);
}
// Checks the stored values, and that all other bytes are unchanged.
function checkState(c, s, state) {
    const stores = new Float64Array(bytesOf(`${s.name}.stores`)), bytes = new Uint8Array(state.buffer), view = new DataView(state.buffer);
    const before = new Uint8Array(bytesOf(`${s.name}.state`)), allowed = new Uint8Array(bytes.length);
    for (let i = 0; i < stores.length; i += 4) {
        const [at, scale, want, bound] = stores.subarray(i, i + 4), size = { f16: 2, f32: 4, q8_0: 1 }[c.kind];
        allowed.fill(1, at, at + size);
        if (c.kind === 'q8_0') allowed.fill(1, scale, scale + 2);
        const got = c.kind === 'f16' ? half(view.getUint16(at, true)) : c.kind === 'f32' ? view.getFloat32(at, true)
            : view.getInt8(at) * half(view.getUint16(scale, true));
        check('stored', got, want, bound, () => `${s.what}, byte ${at} of the state`);
    }
    for (let i = 0; i < bytes.length; i++) if (bytes[i] !== before[i] && !allowed[i]) fail(`${s.what}: byte ${i} of the state is written`);
}

let failed = 0;
const list = JSON.parse(readFileSync('attention.json'));
for (const c of list) [c.by_decode, c.by_prefill, c.by_steps, c.by_whole] = c.ways;
const compiled = list.map((c, i) => pipelinesOf(c, i % 2 ? 1 : subgroup).catch(error => ({ error })));
for (const [i, c] of list.entries()) {
    const from = performance.now(), pipelines = await compiled[i], begun = performance.now();
    failures = 0, worst = {};
    const vectors = bufferOf(wordsOf(`${c.name}.vectors`), GPUBufferUsage.STORAGE);
    try {
        if (pipelines.error) throw pipelines.error;
        for (const s of c.steps) {
            for (const whole of c.by_whole && s.n_tokens === 1 ? [true, false] : [false]) {
                const some = pipelines.filter(p => (whole ? ['whole', 'merge'].includes(p.entryPoint)
                    : p.entryPoint !== 'whole' && (!['decode', 'merge'].includes(p.entryPoint) || byDecode(c, s))));
                const [arena, state] = await run(s, some, vectors);
                checkRefused();
                checkState(c, s, state);
                checkOutputs(c, s, arena, whole ? [['whole', c.out_decode]] : waysOf(c, s));
            }
        }
    } catch (error) { fail(error.message); }
    failed += failures > 0;
    const parts = Object.entries(worst).map(([what, w]) => `${what} ${Math.round(100 * w)} %`).join(', ');
    console.log(`${failures ? `FAILED (${failures})` : 'ok'} ${c.name}: ${c.what}: waited ${(begun - from).toFixed()} ms, ran ` +
                `${(performance.now() - begun).toFixed()} ms; of what is allowed: ${parts}`);
}
console.log(`${list.length} configurations, ${failed} failed`);
process.exit(failed || !list.length ? 1 : 0);
