// gpu.mjs -- for the tests of kernels: WebGPU of Deno or of Node's package, with default limits; files of a program; buffers and modules.
import { readFileSync } from 'node:fs';
import process from 'node:process';
import { subgroupsOf, withSubgroups } from './engine.mjs';

const { create, globals } = globalThis.Deno ? { create: () => navigator.gpu } : await import('webgpu');
Object.assign(globalThis, globals);
export const gpu = create([]);                   // exported, because its objects end when it is collected
const adapter = await gpu.requestAdapter();
if (!adapter) { console.log('skipped: WebGPU has no adapter here'); process.exit(77); }
const features = adapter.features.has('subgroups') ? ['subgroups'] : [];
export const device = await adapter.requestDevice({ requiredFeatures: features });
/** The size of the GPU's subgroups, as the engine computes it; 1: no subgroups. */
export const subgroup = await subgroupsOf(device, adapter.info);
let refused = '';
device.addEventListener('uncapturederror', e => { refused ||= e.error.message; });
console.log(`${adapter.info.vendor} ${adapter.info.architecture} ${adapter.info.device} ${adapter.info.description}, subgroups of ${subgroup}`);

// Throws the errors of WebGPU since the last call.
export function checkRefused() {
    const message = refused;
    refused = '';
    if (message) throw new Error(message);
}
export const bytesOf = name => { const b = readFileSync(name); return b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); };
export const wordsOf = name => new Uint32Array(bytesOf(name));
export function bufferOf(words, usage) {
    const buffer = device.createBuffer({ size: Math.max(words.byteLength, 16), usage, mappedAtCreation: true });
    new Uint32Array(buffer.getMappedRange()).set(words);
    buffer.unmap();
    return buffer;
}
export async function moduleOf(name, size = subgroup) {
    const module = device.createShaderModule({ code: withSubgroups(readFileSync(name, 'utf8'), size) });
    for (const m of (await module.getCompilationInfo()).messages) console.log(`    ${name}:${m.lineNum}:${m.linePos}: ${m.type}: ${m.message}`);
    return module;
}
