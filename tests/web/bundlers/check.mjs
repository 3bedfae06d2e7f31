// check.mjs APP GOLDEN CHROMIUM KEEP -- the application in APP (main.js, with the folders of a golden model, --exact, in node_modules) made by
// esbuild and by vite, and served by vite's server for developers, gives GOLDEN.greedy after GOLDEN.tokens in headless Chromium: on the
// page, in a worker of its own, and by a fallback; in the tier full also by WebGPU.  CHROMIUM: none, only makes it.  KEEP: a folder for chromium's files.
import { createServer } from 'node:http';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import assert from 'node:assert/strict';
import esbuild from 'esbuild';
import * as vite from 'vite';

const [app, golden, chromium, keep] = process.argv.slice(2), full = process.env.FORGEC_TIER === 'full';
const idsOf = (path) => readFileSync(path, 'utf8').trim().split(/[\s,]+/).map(Number);
const tokens = idsOf(`${golden}.tokens`), greedy = idsOf(`${golden}.greedy`).slice(0, 12);
const drawn = { maxTokens: greedy.length, temperature: 0, repeatPenalty: 0, ignoreEnd: true };
const filesOf = (folder) => readdirSync(folder, { recursive: true }).filter((name) => statSync(`${folder}/${name}`).isFile());

// ---- what the bundlers make ----

const warnings = [], warn = (text) => warnings.push(text);
const { warnings: said } = await esbuild.build({
  entryPoints: [`${app}/main.js`, `${app}/worker.js`], outdir: `${app}/esbuild`, bundle: true, format: 'esm', logLevel: 'silent' });
const { warnings: alsoSaid } = await esbuild.build({          // import.meta does not exist in such a script
  entryPoints: [`${app}/main.js`], outfile: `${app}/esbuild/classic.js`, bundle: true, format: 'iife', minify: true, logLevel: 'silent' });
assert.deepEqual([...said, ...alsoSaid].filter(({ id }) => id !== 'empty-import-meta'), []);
const logger = { ...vite.createLogger('silent'), warn, warnOnce: warn, error: warn };
const config = { root: app, configFile: false, customLogger: logger };
await vite.build({ ...config, base: './', build: { outDir: 'vite' } });
const copied = filesOf(`${app}/vite`).filter((name) => name.endsWith('.bin')).map((name) => readFileSync(`${app}/vite/${name}`));
for (const folder of ['model-processor', 'model-gpu', 'model-both']) {
  for (const name of filesOf(`${app}/node_modules/${folder}`).filter((file) => file.endsWith('.bin'))) {
    const file = readFileSync(`${app}/node_modules/${folder}/${name}`);
    assert(file.length <= 4096 || copied.some((other) => other.equals(file)), `vite copies ${folder}/${name}`);
  }
}
assert.deepEqual(warnings, []);

if (chromium) {
  // ---- servers: one that answers with its page if a file is missing, as those of applications do, and vite's ----
  const types = { html: 'text/html', js: 'text/javascript', bin: 'application/octet-stream' };
  const pages = {
    '/esbuild.html': '<!doctype html><script type="module" src="/esbuild/main.js"></script>',
    '/classic.html': '<!doctype html><script src="/esbuild/classic.js"></script>',
  };
  const server = createServer(({ url }, response) => {
    const file = /^\/(vite|esbuild|node_modules)\/./.test(url) && existsSync(app + url) ? app + url : null;
    response.writeHead(200, { 'Content-Type': types[file?.split('.').pop()] ?? types.html });
    response.end(file ? readFileSync(file) : pages[url] ?? pages['/esbuild.html']);
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  const dev = await (await vite.createServer({ ...config, server: { port: 0, host: '127.0.0.1', hmr: false } })).listen();
  const { browse } = await import(process.env.BROWSER_MODULE), page = await browse(chromium, keep, full);
  const base = `http://127.0.0.1:${server.address().port}`, call = (name, ...given) => page.run(`${name}(${given.map((x) => JSON.stringify(x)).join()})`);
  const open = async (url, ready = 'typeof draw === "function"') => {
    await page.send('Page.navigate', { url });
    await page.until(ready, 60);
  };
  try {
    for (const [how, url] of [['vite', `${base}/vite/index.html`], ['vite, developing', dev.resolvedUrls.local[0]]]) {
      await open(url);
      assert.deepEqual(await call('draw', 'processor', tokens, drawn), greedy, how);
      assert.deepEqual(await call('draw', 'both', tokens, drawn, { fallback: 'wasm' }), greedy, `${how}: a fallback`);
      const byGpu = await call('draw', 'gpu', tokens, drawn);
      if (full) assert.deepEqual(byGpu, greedy, `${how}: WebGPU`);
      else assert.match(byGpu, /^ModelError no_webgpu: /, how);
      assert.deepEqual(await call('drawInWorker', tokens, drawn), [greedy, 'files'], `${how}: a worker`);
    }
    const there = (folder) => ({ base: `/node_modules/model-${folder}/` });
    await open(`${base}/esbuild.html`);
    assert.match(await call('draw', 'processor', tokens, drawn), /^ModelError not_found: model.bin is not there: .* gives an HTML page/);
    assert.deepEqual(await call('draw', 'processor', tokens, drawn, there('processor')), greedy, 'esbuild');
    assert.deepEqual(await call('draw', 'both', tokens, drawn, { fallback: 'wasm', ...there('both') }), greedy, 'esbuild: a fallback');
    assert.deepEqual(await call('drawInWorker', tokens, drawn, there('processor')), [greedy, 'files'], 'esbuild: a worker');
    await open(`${base}/classic.html`);
    assert.match(await call('draw', 'processor', tokens, drawn), /^ModelError bad_argument: .*does not know its own address.* as base\.$/);
    assert.deepEqual(await call('draw', 'processor', tokens, drawn, there('processor')), greedy, 'a classic script');
  } finally {
    await page.close();
    await dev.close();
    server.close();
  }
}
