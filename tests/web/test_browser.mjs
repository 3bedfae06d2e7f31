// test_browser.mjs FOLDER GOLDEN CHROMIUM KEEP -- the folder of a golden model, --exact, in a page of headless Chromium: gives GOLDEN.greedy after
// GOLDEN.tokens, and reports a missing piece.  KEEP: a folder for chromium's files.  A folder for WebGPU, with wasm32 as its fallback, also
// continues when its device is lost, and reports the reason if there is no GPU.
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { browse } from '../server/clients/browser.mjs';

const [folder, golden, chromium, keep] = process.argv.slice(2);
const idsOf = (path) => readFileSync(path, 'utf8').trim().split(/[\s,]+/).map(Number);
const types = { wgsl: 'text/plain', json: 'application/json', js: 'text/javascript', wasm: 'application/wasm', bin: 'application/octet-stream' };
let missing = null;
const server = createServer((request, response) => {
  const name = request.url.slice(1), type = types[name.split('.').pop()];
  if (name === '') response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>a page</title>');
  else if (!type || name === missing) response.writeHead(404).end();
  else response.writeHead(200, { 'Content-Type': type }).end(readFileSync(`${folder}/${name}`));
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const gpu = existsSync(`${folder}/gpu.js`), page = await browse(chromium, keep, gpu);
try {
  await page.send('Page.navigate', { url: `http://127.0.0.1:${server.address().port}/` });
  await page.until('document.title === "a page"');
  const greedy = idsOf(`${golden}.greedy`), options = { maxTokens: greedy.length, temperature: 0, repeatPenalty: 0, ignoreEnd: true };
  const { drawn, told, about } = await page.run(`(async () => {
    const told = [], onProgress = (progress) => told.push(progress);
    const { load } = await import('./model.js'), model = await load({ onProgress, fallback: 'wasm' }), tokens = [];
    for await (const token of model.draw(${JSON.stringify(idsOf(`${golden}.tokens`))}, ${JSON.stringify(options)})) tokens.push(token);
    return { drawn: tokens, told, about: model.about() };
  })()`);
  assert.deepEqual(drawn, greedy);
  assert.deepEqual([about.engine, about.fellBack], [gpu ? 'webgpu' : 'wasm', null]);
  const compiling = told.filter(({ phase }) => phase === 'compile'), kernels = compiling[0]?.kernels ?? 0;
  assert.deepEqual(compiling.map(({ compiled, kernels: all }) => [compiled, all]), gpu ? Array.from({ length: kernels + 1 }, (_, i) => [i, kernels]) : []);
  assert(!gpu || kernels > 5, `${kernels} kernels`);
  assert(told.every(({ phase, loaded, total }) => (phase === 'compile' || phase === 'download') && loaded <= total));
  if (gpu) {
    const lost = await page.run(`(async () => {
      const devices = [];
      Object.defineProperty(GPUDevice.prototype, 'lost', { get() { return new Promise((lose) => devices.push(lose)); } });
      const { load } = await import('./model.js'), model = await load({ lazy: true }), draw = async () => {
        const tokens = [];
        for await (const token of model.draw([1, 2, 3], { temperature: 0, maxTokens: 4, ignoreEnd: true })) tokens.push(token);
        return tokens.join();
      };
      const before = await draw(), context = model.tokens.join();
      devices[0]({ reason: 'unknown', message: 'it was pulled out' });
      await Promise.resolve();
      const logits = await model.logits(), same = context === model.tokens.join() && before === await draw();
      const none = await load({ gpu: { requestAdapter: async () => null } }).catch((error) => error.code);
      return { same, finite: logits.every(Number.isFinite), devices: devices.length, none };
    })()`);
    assert.deepEqual(lost, { same: true, finite: true, devices: 2, none: 'no_webgpu' });
  }
  if (gpu) {
    const fallen = await page.run(`(async () => {
      const { load } = await import('./model.js'), model = await load({ gpu: { requestAdapter: async () => null }, fallback: 'wasm' }), drawn = [];
      for await (const token of model.draw(${JSON.stringify(idsOf(`${golden}.tokens`))}, ${JSON.stringify(options)})) drawn.push(token);
      return { drawn, engine: model.about().engine, code: model.about().fellBack.code };
    })()`);
    assert.deepEqual(fallen, { drawn: greedy, engine: 'wasm', code: 'no_webgpu' });
  }
  missing = 'weights-0.bin';
  const code = await page.run(`import('./model.js').then(({ load }) => load({ fetch: (url) => fetch(url, { cache: 'reload' }) }))
    .then(() => 'loaded', (error) => error.code)`);
  assert.equal(code, 'not_found');
} finally {
  await page.close();
  server.close();
}
