// run.mjs -- runs the kernels that formats.c or gemm.c wrote into the working directory on WebGPU, and compares.  Outputs, and words after them, are
// initially a NaN that no kernel produces: an output that still has it was not written, and the words after the outputs must keep it.
import { existsSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { bufferOf, bytesOf, checkRefused, device, moduleOf, subgroup } from './gpu.mjs';

const POISON = 0x7fc5a5a5, GUARD = 64, MOST_FAILURES = 5;

// steps: kernels that run one after the other, { module, entry, groups, inputs, output }; inputs: [[binding, buffer]]; output: the binding of
// the results, which only one step has.  Returns the words of the results and the milliseconds of compiling and running.
async function run(steps, n) {
    const from = performance.now();
    const pipelineOf = ({ module, entry }) => device.createComputePipelineAsync({ layout: 'auto', compute: { module, entryPoint: entry } });
    const pipelines = await Promise.all(steps.map(pipelineOf));
    const compiled = performance.now();
    const result = bufferOf(new Uint32Array(n + GUARD).fill(POISON), GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
    const back = device.createBuffer({ size: result.size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
    steps.forEach(({ groups, inputs, output }, i) => {
        const all = output === undefined ? inputs : [...inputs, [output, result]];
        const entries = all.map(([binding, buffer]) => ({ binding, resource: { buffer } }));
        pass.setPipeline(pipelines[i]);
        pass.setBindGroup(0, device.createBindGroup({ layout: pipelines[i].getBindGroupLayout(0), entries }));
        pass.dispatchWorkgroups(...groups);
    });
    pass.end();
    encoder.copyBufferToBuffer(result, 0, back, 0, result.size);
    const begun = performance.now();
    device.queue.submit([encoder.finish()]);
    await back.mapAsync(GPUMapMode.READ);
    const ended = performance.now(), words = new Uint32Array(back.getMappedRange().slice(0));
    result.destroy();
    back.destroy();
    return { words, compile: compiled - from, run: ended - begun };
}

// want: [n][2], numbers and their bounds.  each: items of a place.
function compare(kernel, words, want, each, cases) {
    const n = want.length / 2, got = new Float32Array(words.buffer, 0, n);
    let failures = 0, worst = 0;
    const fail = text => { if (failures++ < MOST_FAILURES) console.log(`    ${text}`); };
    for (let i = 0; i < n; i++) {
        const error = Math.abs(got[i] - want[2 * i]), bound = want[2 * i + 1], place = Math.floor(i / each);
        if (error > 0 && error <= bound) worst = Math.max(worst, error / bound);
        if (error <= bound) continue;
        const [first, what] = cases.findLast(([first]) => first <= place);
        fail(`${what}, unit ${place - first}, item ${i % each} is ${words[i] === POISON ? 'not written' : got[i]}, not ${want[2 * i]}: ` +
             `off by ${error}, allowed ${bound}`);
    }
    const after = words.subarray(n).filter(w => w !== POISON).length;
    if (after) fail(`${after} words after the output are written`);
    console.log(`${failures ? 'FAILED' : 'ok'} ${kernel}: ${n} results${failures ? `, ${failures} wrong` : ''}, ` +
                `largest error ${Math.round(100 * worst)} % of what is allowed`);
    return failures > 0;
}

let kernels = 0, failed = 0;
// want: the file of the expected results.
async function check(name, steps, n, want, each, cases) {
    kernels++;
    try {
        const r = await run(steps, n);
        checkRefused();
        const what = `${name}, compiled in ${r.compile.toFixed()} ms, run in ${r.run.toFixed()} ms`;
        failed += compare(what, r.words, new Float64Array(bytesOf(want)), each, cases);
    } catch (error) {
        failed++;
        console.log(`FAILED ${name}: ${error.message}`);
    }
}
const inputOf = name => bufferOf(new Uint32Array(bytesOf(name)), GPUBufferUsage.STORAGE);

// SwiftShader needs seconds to compile a matrix-row product, and the other kernels already test each format.  So only these formats have it:
// they have units of 64, 8 and 4 columns, planes of all kinds and sums of 16.  A format that is tested alone has it, too.
const chosen = { 'gemv': ['q4_K', 'q6_K', 'q8_0', 'f16', 'f32'], 'gemv2': ['q4_K', 'f16'], 'gemvf': ['q6_K'], 'gemvf2': ['q4_K'],
                 'gemm': ['q8_0', 'q4_K', 'q6_K', 'q2_K'], 'gemm2': ['q4_K'], 'gemmf': ['f32', 'f16', 'q6_K'], 'gemmf2': ['f16'] };
const formats = existsSync('formats.json') ? JSON.parse(readFileSync('formats.json')) : [];
for (const [i, { format, places, unit_cols, floats, cases, sums, sumfs, matvecs }] of formats.entries()) {
    const size = i % 2 ? 1 : subgroup;                     // every other format without subgroups
    const units = await moduleOf(`${format}.wgsl`), gemv = await moduleOf(`${format}.gemv.wgsl`, size);
    const gemvf = floats ? gemv : await moduleOf(`${format}.gemvf.wgsl`, size), numbers = floats ? 'floats' : 'acts';
    const input = kind => inputOf(`${format}.${kind}`);
    const weights = input('weights'), at = input('places'), acts = input('acts'), rows = input('matvecs'), arena = input('arena');
    const eachPlace = [Math.ceil(places / 64)];
    const eachRow = [[0, weights], [1, rows], [2, arena]];
    const groupsOf = n => [matvecs.filter(([first]) => first < n).length, 2];
    for (const [choice, what, module, entry, groups, inputs, output, n, each, of] of [
        ['', 'product', units, `products_of_${numbers}`, eachPlace, [[0, weights], [1, at], [floats ? 3 : 2, acts]], 4, places, 1, cases],
        ['', 'value', units, 'values', eachPlace, [[0, weights], [1, at]], 5, places * unit_cols, unit_cols, cases],
        ['gemv', 'sum', gemv, `gemv_of_${numbers}`, groupsOf(sums), eachRow, 3, sums, 1, matvecs],
        ['gemv2', 'sum', gemv, `gemv2_of_${numbers}`, groupsOf(sums), eachRow, 3, sums, 1, matvecs],
        ['gemvf', 'sumf', gemvf, 'gemv_of_floats', groupsOf(sumfs), eachRow, 3, sumfs, 1, matvecs],
        ['gemvf2', 'sumf', gemvf, 'gemv2_of_floats', groupsOf(sumfs), eachRow, 3, sumfs, 1, matvecs]]) {
        if (floats && choice.startsWith('gemvf')) continue;
        if (choice && formats.length > 1 && !chosen[choice].includes(format)) continue;
        await check(`${format} ${entry}`, [{ module, entry, groups, inputs, output }], n, `${format}.${what}`, each, of);
    }
    for (const buffer of [weights, at, acts, rows, arena]) buffer.destroy();
}

// Other programs list their kernels in tasks.json.  Of prefill's products only some formats run, which have all kinds of factors: products use
// the decoded values, which the kernels above test for all formats.
const tasks = existsSync('tasks.json') ? JSON.parse(readFileSync('tasks.json')) : [];
const alone = new Set(tasks.map(task => task.chosen[1])).size === 1;
for (const { name, module, chosen: [choice, format], buffers, want, results, steps, cases } of tasks) {
    if (!alone && !chosen[choice].includes(format)) continue;
    const code = await moduleOf(module), inputs = buffers.map(inputOf);
    const kernels = steps.map(step => ({ module: code, ...step, inputs: step.bindings.map(binding => [binding, inputs[binding]]) }));
    await check(name, kernels, results, want, 1, cases);
    for (const buffer of inputs) buffer.destroy();
}
console.log(`${kernels} kernels, ${failed} failed`);
process.exit(failed || !kernels ? 1 : 0);
