// bindings.mjs logits FOLDER WHOLE GOLDEN -- a folder with its weights in buffers of 512 KiB gives the logits of the folder WHOLE, bit for bit, for a prompt
// in tiles and for few tokens.
// bindings.mjs tokens FOLDER GOLDEN [buffers] -- the folder gives the stored tokens; buffers: also with its weights in several buffers.  Both on a device with only the limits that WebGPU guarantees.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const { create, globals } = await import(pathToFileURL(createRequire(import.meta.url).resolve('webgpu', { paths: process.env.NODE_PATH.split(':') })).href);
Object.assign(globalThis, globals);
const made = create([]), promised = { maxStorageBufferBindingSize: 134217728, maxBufferSize: 268435456, maxComputeWorkgroupStorageSize: 16384,
                                      maxStorageBuffersPerShaderStage: 8 };
let weights = [];                                      // bytes of the buffers that were made for them
const gpuOf = (limits) => ({
  async requestAdapter(options) {
    const adapter = await made.requestAdapter(options);
    return adapter && {
      limits, features: adapter.features, info: adapter.info,
      async requestDevice({ requiredLimits }) {
        for (const [name, value] of Object.entries(requiredLimits))
          if (!(value <= limits[name])) throw new Error(`${name} of ${value} is asked for`);
        const device = await adapter.requestDevice(), create = device.createBuffer;
        device.createBuffer = (descriptor) => {
          if (descriptor.size > limits.maxBufferSize) throw new Error(`a buffer of ${descriptor.size} bytes is asked for`);
          if (descriptor.label?.startsWith('weights')) weights.push(descriptor.size);
          return create.call(device, descriptor);
        };
        return device;
      },
    };
  },
});
if (!await made.requestAdapter()) { console.log('skipped: WebGPU has no adapter here'); process.exit(77); }

async function loaded(folder, limits = {}) {
  weights = [];
  return (await import(pathToFileURL(`${folder}/model.js`).href)).load({ gpu: gpuOf({ ...promised, ...limits }), lazy: true });
}
const idsOf = (path) => readFileSync(path, 'utf8').trim().split(/[\s,]+/).map(Number);
const [what, folder, ...more] = process.argv.slice(2);
const model = await loaded(folder, what === 'logits' || more[1] ? { maxBufferSize: 524288 } : {}), buffers = weights.length;

async function drawn(model, prompt, n) {
  const tokens = [], drawn = model.draw(prompt, { temperature: 0, repeatPenalty: 0, maxTokens: n, ignoreEnd: true });
  for (let next; !(next = await drawn.next()).done;) tokens.push(next.value);
  return tokens;
}

async function logitsOf(model, tokens) {
  const parts = [await model.rows(tokens.slice(0, 20)), await model.rows(tokens.slice(20, 25))];
  return parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength));
}

if ((what === 'logits' || more[1]) && buffers < 2) { console.log(`buffers of weights: ${buffers}`); process.exitCode = 1; }
if (what === 'logits') {
  const [whole, golden] = more, tokens = idsOf(`${golden}.tokens`), wanted = await logitsOf(await loaded(whole), tokens);
  if (weights.length !== 1) { console.log(`buffers of the whole one's weights: ${weights.length}`); process.exitCode = 1; }
  (await logitsOf(model, tokens)).forEach((part, i) => {
    if (!part.equals(wanted[i])) { console.log(`logits ${i} differ`); process.exitCode = 1; }
  });
} else {
  const [golden] = more, wanted = idsOf(`${golden}.greedy`), got = await drawn(model, idsOf(`${golden}.tokens`), wanted.length);
  if (`${got}` !== `${wanted}`) { console.log(`tokens ${got}, wanted ${wanted}`); process.exitCode = 1; }
}
model.close();
