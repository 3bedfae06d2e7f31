// embed.mjs FOLDER "NAME: IDS: NUMBERS" -- the tokens have this vector: twice, and after another text; wrong tokens are refused.
import { createRequire } from 'node:module';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const { create, globals } = await import(pathToFileURL(createRequire(import.meta.url).resolve('webgpu', { paths: process.env.NODE_PATH.split(':') })).href);
Object.assign(globalThis, globals);
const gpu = create([]), [folder, line] = process.argv.slice(2), [, ids, numbers] = line.split(': ').map((part) => part.trim());
if (!await gpu.requestAdapter()) { console.log('skipped: WebGPU has no adapter here'); process.exit(77); }
const { load, ModelError } = await import(pathToFileURL(`${folder}/model.js`).href);
const model = await load({ gpu, lazy: true }), tokens = ids.split(/\s+/).map(Number), wanted = numbers.split(/\s+/).map(Number);

function near(what, got, wanted, most) {
  const off = Math.max(...wanted.map((x, i) => Math.abs(x - got[i])));
  if (got.length === wanted.length && off <= most) return;
  console.log(`${what}: ${got.length} numbers, ${wanted.length} wanted, ${off} off`);
  process.exitCode = 1;
}

async function refused(what, code, promise) {
  const error = await promise.then(() => null, (e) => e);
  if (error instanceof ModelError && error.code === code) return;
  console.log(`${what}: ${error ?? 'nothing is refused'}, wanted ${code}`);
  process.exitCode = 1;
}

near('vector', await model.embed(tokens), wanted, 2e-6);
await model.embed(tokens.slice(0, 3));
near('behind another text', await model.embed(tokens), wanted, 2e-6);
const raw = await model.embed(tokens, { asItIs: true }), length = Math.hypot(...raw);
near('as it is', Array.from(raw, (x) => x / length), wanted, 2e-6);
if (Math.abs(length - 1) < 1e-3) { console.log(`as it is: its length is ${length}`); process.exitCode = 1; }
await refused('no tokens', 'bad_argument', model.embed([]));
await refused('no such token', 'bad_argument', model.embed([model.info.nVocab]));
await refused('too long', 'context_full', model.embed(Array(model.info.nCtx + 1).fill(1)));
await refused('logits', 'wrong_kind', model.logits());
model.close();
