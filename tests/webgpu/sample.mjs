// sample.mjs -- draws tokens with the kernels that sample.c wrote into the working directory, on WebGPU, and compares.  All draws of a case
// run one after the other on the device; the text is full before the last draw, which must not write after it.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { bufferOf, checkRefused, device, moduleOf, wordsOf } from './gpu.mjs';

const POISON = 0x7fc5a5a5, GUARD = 64, MOST_FAILURES = 5, N_OPTIONS = 6;

const { STORAGE, UNIFORM, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;

// words: numbers, then guards.
const guarded = (words, n) => { const all = new Uint32Array(n + GUARD).fill(POISON); all.set(words); return all; };

async function read(encoder, buffers) {
    const backs = buffers.map(b => device.createBuffer({ size: b.size, usage: COPY_DST | MAP_READ }));
    buffers.forEach((b, i) => encoder.copyBufferToBuffer(b, 0, backs[i], 0, b.size));
    device.queue.submit([encoder.finish()]);
    await Promise.all(backs.map(b => b.mapAsync(GPUMapMode.READ)));
    const words = backs.map(b => new Uint32Array(b.getMappedRange().slice(0)));
    for (const b of [...backs, ...buffers]) b.destroy();
    return words;
}

async function run({ n_vocab, groups, row_at }, [scan, draw], logits, c) {
    const n_ctx = c.text.length + c.drawn.length - 1;
    const arena = bufferOf(guarded([], row_at + n_vocab + 2 * groups), STORAGE | COPY_SRC | COPY_DST);
    const step = bufferOf(new Uint32Array([c.n_tokens, c.text.length - c.n_tokens, 1, 0]), STORAGE | UNIFORM | COPY_SRC);
    const text = bufferOf(guarded(c.text, n_ctx), STORAGE | COPY_SRC), options = bufferOf(new Uint32Array(c.options), COPY_SRC),
        sampling = bufferOf(guarded([...Array(8).fill(0), ...c.random], 16), STORAGE | COPY_SRC | COPY_DST);
    const entry = (binding, buffer, size) => ({ binding, resource: { buffer, size } });
    const groupOf = (pipeline, ...entries) => device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
    const common = [entry(0, arena), entry(3, text, 4 * n_ctx), entry(4, sampling)];
    const of_scan = groupOf(scan, ...common, entry(1, step)), of_draw = groupOf(draw, ...common, entry(2, step));
    const encoder = device.createCommandEncoder();
    for (const [i, kind] of c.kinds.entries()) {
        encoder.copyBufferToBuffer(options, 4 * N_OPTIONS * i, sampling, 0, 4 * N_OPTIONS);
        encoder.copyBufferToBuffer(logits, 4 * kind * n_vocab, arena, 4 * row_at, 4 * n_vocab);
        const pass = encoder.beginComputePass();
        pass.setPipeline(scan);
        pass.setBindGroup(0, of_scan);
        pass.dispatchWorkgroups(groups);
        pass.setPipeline(draw);
        pass.setBindGroup(0, of_draw);
        pass.dispatchWorkgroups(1);
        pass.end();
    }
    const words = await read(encoder, [arena, step, text, sampling]);
    options.destroy();
    return words;
}

// A description of the fault, or nothing.
function compare({ n_vocab, groups, row_at }, c, [arena, step, text, sampling]) {
    const n_text = c.text.length, n = c.drawn.length, wrong = c.drawn.findIndex((token, i) => i < n - 1 && text[n_text + i] !== token);
    if (wrong >= 0) return `draw ${wrong} of kind ${c.kinds[wrong]}, ${c.what[wrong]}, is ${text[n_text + wrong]}, not ${c.drawn[wrong]}`;
    if (c.text.some((token, i) => text[i] !== token)) return 'the text has changed';
    if (text.subarray(n_text + n - 1).some(w => w !== POISON)) return 'words after the text are written';
    if (sampling[6] !== c.failed) return `no token was found in ${sampling[6]}, not ${c.failed}`;
    if (c.random_after.some((w, i) => sampling[8 + i] !== w)) return 'the random numbers after the last draw are different';
    if (sampling.subarray(16).some(w => w !== POISON)) return 'words behind sampling are written';
    const last = [1, n_text + n - 1, 1, 0];
    if (last.some((w, i) => step[i] !== w)) return `the step is ${[...step]}, not ${last}`;
    const end = row_at + n_vocab + 2 * groups;
    if (arena.some((w, i) => (i < row_at || i >= end) && w !== POISON)) return 'words beside the row and the scratch are written';
    let hash = 2166136261;
    for (let i = 0; i < n_vocab; i++) hash = Math.imul(hash ^ arena[row_at + i], 16777619);
    return hash >>> 0 === c.hash ? '' : 'the penalised logits are others';
}

const list = JSON.parse(readFileSync('sample.json'));
let tests = 0, failed = 0;
for (const [i, vocabulary] of list.entries()) {
    if (!vocabulary.cases.length) continue;
    const from = performance.now(), module = await moduleOf(`${i}.wgsl`), logits = bufferOf(wordsOf(`${i}.logits`), COPY_SRC);
    const pipelineOf = entryPoint => device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint } });
    const pipelines = await Promise.all(['sample_scan', 'sample_draw'].map(pipelineOf));
    const compiled = performance.now();
    let failures = 0;
    for (const c of vocabulary.cases) {
        const begun = performance.now();
        const wrong = compare(vocabulary, c, await run(vocabulary, pipelines, logits, c));
        checkRefused();
        tests++;
        if (process.env.TIMES) console.log(`    case ${c.case}: ${(performance.now() - begun).toFixed()} ms`);
        if (wrong && failures++ < MOST_FAILURES) console.log(`    case ${c.case}: ${wrong}`);
    }
    failed += failures;
    logits.destroy();
    console.log(`${failures ? 'FAILED' : 'ok'} ${vocabulary.n_vocab} tokens: ${vocabulary.cases.length} cases, ${failures} wrong, ` +
                `compiled in ${(compiled - from).toFixed()} ms, run in ${(performance.now() - compiled).toFixed()} ms`);
}
console.log(`${tests} cases, ${failed} failed`);
process.exit(failed || !tests ? 1 : 0);
