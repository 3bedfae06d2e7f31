// rows.mjs -- runs the cases that rows.c wrote into the working directory on WebGPU, and compares the arena and the state, word by word: words
// without an expected value must not change.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { bufferOf, bytesOf, checkRefused, device, moduleOf } from './gpu.mjs';

const POISON = 0x7fc5a5a5, MOST_FAILURES = 5;

const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
const all = bytesOf('rows.bin');
const types = { 0: 'storage', 1: 'storage', 2: 'uniform', 4: 'read-only-storage', 6: 'read-only-storage', 7: 'uniform' };
const bindings = device.createBindGroupLayout({
    entries: Object.entries(types).map(([binding, type]) => ({ binding: +binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } })),
});
const layout = device.createPipelineLayout({ bindGroupLayouts: [bindings] });

const pipelines = {};
const pipelineOf = async (name, entryPoint) =>
    device.createComputePipelineAsync({ layout, compute: { module: await moduleOf(name), entryPoint } });
async function run(c) {
    const part = ([at, n]) => new Uint32Array(all, at, n);
    const arena = bufferOf(part(c.arena), STORAGE | COPY_SRC), state = bufferOf(part(c.state), STORAGE | COPY_SRC);
    const inputs = [[2, UNIFORM, Uint32Array.from(c.step)], [4, STORAGE, part(c.vectors)], [6, STORAGE, part(c.weights)],
                    [7, UNIFORM, Uint32Array.from({ ...c.args, length: 32 })]];
    const entries = [[0, arena], [1, state], ...inputs.map(([binding, usage, words]) => [binding, bufferOf(words, usage)])];
    const group = device.createBindGroup({
        layout: bindings, entries: entries.map(([binding, buffer]) => ({ binding, resource: { buffer } })),
    });
    const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
    for (const { kernel, groups } of c.launches) {
        pipelines[kernel] ??= await pipelineOf(`${kernel}.wgsl`, kernel.replace(/\..*/, ''));
        pass.setPipeline(pipelines[kernel]);
        pass.setBindGroup(0, group);
        pass.dispatchWorkgroups(...groups);
    }
    pass.end();
    const back = device.createBuffer({ size: arena.size + state.size, usage: COPY_DST | MAP_READ });
    encoder.copyBufferToBuffer(arena, 0, back, 0, arena.size);
    encoder.copyBufferToBuffer(state, 0, back, arena.size, state.size);
    device.queue.submit([encoder.finish()]);
    await back.mapAsync(GPUMapMode.READ);
    const words = new Uint32Array(back.getMappedRange().slice(0));
    for (const [, buffer] of entries) buffer.destroy();
    back.destroy();
    return { arena: words.subarray(0, c.arena[1]), state: words.subarray(arena.size / 4, arena.size / 4 + c.state[1]) };
}

// For each word the expected value and its bound; a bound below 0: the word must not change.
function compare(c, words, memory) {
    const [at, n] = c[memory], before = new Uint32Array(all, at, n), want = new Float64Array(all, c[`${memory}_want`], 2 * n);
    const got = new Float32Array(words.buffer, words.byteOffset, n);
    let failures = 0;
    for (let i = 0; i < n; i++) {
        const bound = want[2 * i + 1], error = Math.abs(got[i] - want[2 * i]);
        if (bound > 0) c.worst = Math.max(c.worst, error / bound || 0);
        if (bound < 0 ? words[i] === before[i] : error <= bound) continue;
        if (failures++ >= MOST_FAILURES) continue;
        console.log(`    ${c.what}: word ${i} of the ${memory} ` +
                    (bound < 0 ? `is written, ${got[i]}` : `is ${words[i] === POISON ? 'not written' : got[i]}, not ${want[2 * i]}: ` +
                     `off by ${error}, allowed ${bound}`));
    }
    return failures;
}

const cases = JSON.parse(readFileSync('rows.json'));
let failed = 0;
for (const c of cases) {
    c.worst = 0;
    const from = performance.now();
    try {
        const { arena, state } = await run(c);
        checkRefused();
        const wrong = compare(c, arena, 'arena') + compare(c, state, 'state');
        failed += wrong > 0;
        console.log(`${wrong ? 'FAILED' : 'ok'} ${c.what}: ${wrong ? `${wrong} words wrong, ` : ''}${(performance.now() - from).toFixed()} ms, ` +
                    `largest error ${Math.round(100 * c.worst)} % of what is allowed`);
    } catch (error) {
        failed++;
        console.log(`FAILED ${c.what}: ${error.message}`);
    }
}
console.log(`${cases.length} cases, ${failed} failed`);
process.exit(failed || !cases.length ? 1 : 0);
