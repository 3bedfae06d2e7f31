// test_page.mjs STORY WORDS CHAT PAIR CHROMIUM KEEP -- the page of folders in headless Chromium: its text equals that of model.js in
// Node, weights are downloaded once, broken downloads continue, damage is found, it works without a network, and errors are reported.
// STORY: the storyteller in pieces of 1 MiB; WORDS: an embedding model; CHAT: a model with a template;
// PAIR: the storyteller for webgpu,wasm32; KEEP: for chromium's files.  SHOTS=DIR: pictures.
import { createServer } from 'node:http';
import { existsSync, readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert/strict';
import { browse } from '../server/clients/browser.mjs';

const [story, words, chat, pair, chromium, keep] = process.argv.slice(2);
const types = { js: 'text/javascript', wasm: 'application/wasm', bin: 'application/octet-stream', html: 'text/html', css: 'text/css' };
const last = 'weights-7.bin';

// ---- a server of files, with and without ranges, with damaged files ----

let folder = story, ranges = true, spoil = () => null, asked = [], server, port = 0;
const sockets = new Set();

function answer(request, response) {
  const name = request.url.split('?')[0].slice(1) || 'index.html', path = `${folder}/${name}`;
  asked.push(name + (request.headers.range ? ` ${request.headers.range}` : ''));
  const how = spoil(name);
  if (how === 404 || !existsSync(path)) return response.writeHead(404).end();
  let body = readFileSync(path), status = 200;
  const headers = { 'Content-Type': types[name.split('.').pop()] ?? 'text/plain', 'Cache-Control': 'max-age=0' };
  if (how?.change) body = Buffer.from(how.change(body));
  const from = ranges ? Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0) : 0;
  if (from) {
    status = 206;
    headers['Content-Range'] = `bytes ${from}-${body.length - 1}/${body.length}`;
    body = body.subarray(from);
  }
  response.writeHead(status, { ...headers, 'Content-Length': body.length });
  if (how?.hangAt) return response.write(body.subarray(0, how.hangAt));
  if (how?.breakAt) return response.write(body.subarray(0, how.breakAt), () => setTimeout(() => response.destroy(), 50));
  if (how?.slowly) return setTimeout(() => response.end(body), how.slowly);
  response.end(body);
}
async function serve() {
  server = createServer(answer).on('connection', (socket) => { sockets.add(socket); socket.on('close', () => sockets.delete(socket)); });
  await new Promise((ready) => server.listen(port, ready));
  port = server.address().port;
}
function silence() {
  server.close();
  for (const socket of sockets) socket.destroy();
}
const weightsAsked = () => asked.filter((name) => name.includes('weights-'));
const only = (wanted, how) => (name) => (name === wanted ? how : null);
const flip = { change: (body) => { const copy = Buffer.from(body); copy[copy.length >> 1] ^= 1; return copy; } };

// ---- a visitor ----

await serve();
const page = await browse(chromium, keep), complaints = [];
const url = () => `http://localhost:${port}/`;
const shot = async (name) => process.env.SHOTS && page.shot(`${process.env.SHOTS}/${name}.png`);
const shown = (id) => `(() => { const e = document.getElementById('${id}'); return !!e && !e.hidden && e.offsetParent !== null; })()`;
const textOf = (selector) => page.run(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? ''`);
let visit = 0;
async function open(hash = '') {
  asked = [];
  await page.send('Page.navigate', { url: `${url()}?${++visit}${hash}` });
  await page.until(`location.search === '?${visit}' && document.readyState === 'complete' && (${shown('failure')} || ${shown('welcome')} || ${shown('bench')})`, 20);
}
async function ready() { assert.equal(await page.run(shown('failure')), false, await textOf('#failure-text')); }
async function failed(code, text) {
  assert.equal(await page.run("document.getElementById('failure').dataset.code"), code, await textOf('#failure-text'));
  const said = await textOf('#failure-text');
  assert.match(said, /^[^\n]+\.$/);
  assert(said.includes(text), `'${said}' has '${text}'`);
}
async function clear() { await page.send('Storage.clearDataForOrigin', { origin: url().slice(0, -1), storageTypes: 'all' }); }
async function set(values) {
  await page.run(`for (const [n, v] of Object.entries(${JSON.stringify(values)})) document.getElementById('settings-form').elements[n].value = v`);
}
async function media(scheme, width, height) {
  await page.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 500 });
}
const idle = "document.getElementById('log').getAttribute('aria-busy') === 'false' && !!document.querySelector('.actions button')";
let passed = 0, bad = 0;
async function test(name, work) {
  try {
    await work();
    passed++;
  } catch (error) {
    bad++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
  spoil = () => null;
  ranges = true;
  folder = story;
}

page.on((method, params) => {
  if (method === 'Runtime.exceptionThrown') complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === 'Log.entryAdded' && params.entry.source === 'security') complaints.push(params.entry.text);
});
for (const domain of ['Page', 'Runtime', 'Log']) await page.send(`${domain}.enable`);
await media('light', 1100, 760);

const { load } = await import(pathToFileURL(`${story}/model.js`)), node = await load();
let wanted = '';
for await (const text of node.generate('Once upon a time', { temperature: 0, maxTokens: 60 })) wanted += text;

await test('the first visit', async () => {
  await open();
  await ready();
  assert.equal(new Set(weightsAsked()).size, 8);
  assert.equal(weightsAsked().length, 8);
  assert.equal(await page.run("document.getElementById('facts').dataset.storage"), 'files');
  await shot('welcome');
});
await test('a story, that of Node', async () => {
  await set({ temperature: 0, maxTokens: 60 });
  await page.run("document.getElementById('input').focus()");
  await page.type('Once upon a time');
  await page.press('Enter');
  await page.until(idle, 20);
  assert.equal(await textOf('.story .body'), `Once upon a time${wanted}`);
  assert.match(await textOf('.actions .note'), /^60 tokens, [\d.]+ tok\/s; prompt \d+ tokens, [\d.]+ tok\/s/);
  await shot('story');
});
await test('it goes on, and stops by Escape', async () => {
  await set({ temperature: 0.8, maxTokens: 2000 });
  await page.run("Array.from(document.querySelectorAll('.actions button')).find((b) => b.textContent === 'Continue').click()");
  await page.until(`document.querySelector('.story .body').textContent.length > ${wanted.length + 60}`);
  await page.press('Escape');
  const since = Date.now();
  await page.until(idle);
  assert(Date.now() - since < 1000, 'at once');
  assert((await textOf('.story .body')).startsWith(`Once upon a time${wanted}`));
  assert.match(await textOf('.actions .note'), /stopped/);
});
await test('the next visit takes nothing', async () => {
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), []);
});
await test('a damaged piece comes again', async () => {
  await page.run(`(async () => {
    for await (const [, one] of await (await (await navigator.storage.getDirectory()).getDirectoryHandle('forgec')).entries())
      for await (const [, build] of one.entries()) {
        const out = await (await build.getFileHandle('weights-3.bin')).createWritable({ keepExistingData: true });
        await out.write({ type: 'write', position: 5000, data: new Uint8Array([1, 2, 3, 4]) });
        await out.close();
        await build.removeEntry('weights-5.bin');
      }
  })()`);
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), ['weights-3.bin', 'weights-5.bin']);
});
await test('without a network', async () => {
  await page.until('navigator.serviceWorker.ready.then((r) => r.active.state === "activated")');
  silence();
  await open();
  await ready();
  await page.run("document.getElementById('input').focus()");
  await set({ temperature: 0, maxTokens: 8 });
  await page.press('Enter');                             // continues the words that are in the field
  await page.until(idle, 20);
  assert((await textOf('.story .body')).length > 20);
  await serve();
});
await test('what broke off goes on', async () => {
  await clear();
  spoil = only('weights-2.bin', { breakAt: 300000 });
  await open();
  await failed('network', 'weights-2.bin broke off');
  await shot('failure');
  spoil = () => null;
  asked = [];
  await page.run("document.getElementById('retry').click()");
  await page.until(shown('welcome'));
  assert.equal(weightsAsked().length, 6, weightsAsked().join());
  assert.match(weightsAsked()[0], /^weights-2.bin bytes=\d{5,}-$/);
});
await test('the same where the server has no ranges', async () => {
  await clear();
  spoil = only('weights-2.bin', { breakAt: 300000 });
  await open();
  await failed('network', 'weights-2.bin broke off');
  spoil = () => null;
  ranges = false;
  await open();
  await ready();
  assert.equal(weightsAsked().length, 6);
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), []);
});
await test('a beginning that was damaged', async () => {
  await clear();
  spoil = only('weights-2.bin', { breakAt: 300000, ...flip, change: (body) => { const copy = Buffer.from(body); copy[7] ^= 1; return copy; } });
  await open();
  await failed('network', 'weights-2.bin broke off');
  spoil = () => null;
  await open();
  await ready();
  assert.deepEqual(weightsAsked().slice(0, 2).map((name) => name.split(' ').length), [2, 1]);
});
for (const [code, text, how] of [['not_found', 'status 404', 404], ['wrong_size', 'cut short', { change: (body) => body.subarray(0, 5000) }],
                                 ['wrong_hash', 'damaged', flip]])
  await test(`a piece: ${code}`, async () => {
    await clear();
    spoil = only(last, how);
    await open();
    await failed(code, text);
    spoil = () => null;
    await open();
    await ready();
    assert.deepEqual(weightsAsked(), [last]);
  });
await test('another build: the pieces of the former go', async () => {
  folder = chat;
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), ['weights-0.bin']);
  const builds = await page.run(`(async () => {
    const names = [];
    for await (const one of (await (await navigator.storage.getDirectory()).getDirectoryHandle('forgec')).values())
      for await (const build of one.keys()) names.push(build);
    return names.length;
  })()`);
  assert.equal(builds, 1);
  const pages = `caches.keys().then((names) => names.filter((name) => name.startsWith('forgec page ')))`;
  await page.until(`${pages}.then((names) => names.length === 1 && caches.match(location.origin + '/model.js'))
    .then((kept) => kept && kept.text()).then((text) => String(text).includes('"q-llama"'))`);
});
await test('a conversation', async () => {
  folder = chat;
  await set({ temperature: 0, maxTokens: 12 });
  await page.type('Hello');
  await page.press('Enter');
  await page.until(idle, 20);
  assert.equal(await textOf('.user .body'), 'Hello');
  assert((await textOf('.assistant .body')).length > 0);
  await shot('chat');
});
await test('Markdown, and no markup', async () => {
  folder = chat;
  const answers = ['# A head\nso **strong** and `a < b`\n```c\nint x;\n```\n<img src=x>', 'a reason'];
  spoil = only('worker.js', { change: (body) => `${body}
    tasks.write = async ({ tell }) => {
      const meter = { tokens: 2, seconds: 1, promptTokens: 3, promptSeconds: 1 }, [text, reason] = ${JSON.stringify(answers)};
      tell({ type: 'reasoning', text: reason, ...meter });
      tell({ type: 'content', text, ...meter });
      return { ...meter, reason: 'end' };
    };` });
  await open();
  await page.run("document.getElementById('input').focus()");
  await page.type('Hello');
  await page.press('Enter');
  await page.until(idle);
  const said = await page.run("document.querySelector('.assistant .body').lastChild.innerHTML.replaceAll(' class=\"\"', '')");
  assert.equal(said, '<strong>A head</strong>\nso <strong>strong</strong> and <code>a &lt; b</code>\n<pre>int x;</pre>&lt;img src=x&gt;');
  assert.equal(await textOf('.reasoning div'), 'a reason');
  assert.equal(await textOf('.actions .note'), '2 tokens, 2.0 tok/s; prompt 3 tokens, 3.0 tok/s');
});
await test('a model of vectors', async () => {
  folder = words;
  await open();
  await ready();
  await page.run("document.getElementById('one').value = 'a king and a queen'; document.getElementById('other').value = 'a king and a queen'");
  await page.run("document.getElementById('compare-form').requestSubmit()");
  await page.until(`${shown('cosine')} && document.getElementById('cosine-number').textContent !== ''`);
  assert.equal(await textOf('#cosine-number'), '1.0000');
  await shot('compare');
});
await test('no room', async () => {
  await clear();
  await page.send('Storage.overrideQuotaForOrigin', { origin: url().slice(0, -1), quotaSize: 3 << 20 });
  await open();
  await ready();
  assert.match(await textOf('#facts'), /There is no room to keep all of the model here/);
  await page.send('Storage.overrideQuotaForOrigin', { origin: url().slice(0, -1) });
});
await test('two tabs', async () => {
  await clear();
  spoil = (name) => (name.startsWith('weights-') ? { slowly: 60 } : null);
  asked = [];
  const { targetId } = await page.send('Target.createTarget', { url: url() });
  await page.send('Page.navigate', { url: `${url()}?${++visit}` });
  await page.until(`location.search === '?${visit}' && ${shown('welcome')}`, 20);
  for (const since = Date.now(); ; await new Promise((r) => setTimeout(r, 50))) {
    const { targetInfos } = await page.send('Target.getTargets');
    if (targetInfos.find((t) => t.targetId === targetId).title === 'Storyteller 7M' && Date.now() - since > 500) break;
    assert(Date.now() - since < 10000, 'the other tab has begun');
  }
  await page.send('Target.closeTarget', { targetId });
  assert.equal(new Set(weightsAsked()).size, 8);
  assert.equal(weightsAsked().length, 8, `one download for both: ${weightsAsked().join()}`);
  spoil = () => null;
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), []);
});
await test('closed in the middle, one tab and then another that waits', async () => {
  const half = () => page.until("document.getElementById('loaded')?.textContent.startsWith('2.')");
  await clear();
  spoil = only('weights-1.bin', { hangAt: 900000 });
  await page.send('Page.navigate', { url: `${url()}?${++visit}` });
  await half();
  spoil = only('weights-3.bin', { hangAt: 500000 });
  asked = [];
  const { targetId } = await page.send('Target.createTarget', { url: url() });
  await new Promise((later) => setTimeout(later, 500));
  assert.deepEqual(weightsAsked(), [], 'the second waits');
  await page.send('Page.navigate', { url: 'about:blank' });
  for (const since = Date.now(); !weightsAsked().includes('weights-3.bin'); await new Promise((later) => setTimeout(later, 50)))
    assert(Date.now() - since < 10000, 'the second goes on');
  assert.match(weightsAsked()[0], /^weights-1.bin bytes=\d{4,}-$/);
  await new Promise((later) => setTimeout(later, 300));
  await page.send('Target.closeTarget', { targetId });
  spoil = () => null;
  await open();
  await ready();
  assert.match(weightsAsked()[0], /^weights-3.bin bytes=\d{4,}-$/);
  assert.equal(weightsAsked().length, 5);
});
await test('speed', async () => {
  await open('#bench');
  await page.run("Object.assign(document.getElementById('bench-form').elements.runs, { value: 2 })");
  await page.run("Object.assign(document.getElementById('bench-form').elements.generate, { value: 16 })");
  await page.run("document.getElementById('bench-form').requestSubmit()");
  await page.until(shown('bench-table'), 20);
  assert.deepEqual(await page.run("Array.from(document.querySelectorAll('#bench-table tbody tr'), (r) => r.cells[0].textContent + r.cells[1].textContent)"),
                   ['prompt128', 'generate16']);
  await shot('bench');
});
await test('on a phone, in the dark', async () => {
  await media('dark', 390, 780);
  await open();
  await shot('phone');
  await set({ temperature: 0, maxTokens: 60 });
  await page.run("document.getElementById('input').focus()");
  await page.press('Enter');
  await page.until(idle, 20);
  await shot('phone-story');
  assert(await page.run('document.documentElement.scrollWidth <= innerWidth'), 'nothing is wider than the screen');
  await page.run("document.getElementById('open-settings').click()");
  await shot('phone-settings');
});
await test('a page of one\'s own, on its thread: the Cache API', async () => {
  await clear();
  await media('light', 1100, 760);
  await open();
  const own = `import('./model.js').then(({ load }) => load({ cache: true })).then((model) => model.about().storage.kind, (error) => error.message)`;
  asked = [];
  assert.equal(await page.run(own), 'entries');
  assert.equal(weightsAsked().length, 8);
  asked = [];
  assert.equal(await page.run(own), 'entries');
  assert.deepEqual(weightsAsked(), []);
  await page.run(`(async () => {
    for (const name of await caches.keys()) if (name.startsWith('forgec weights')) {
      const cache = await caches.open(name);
      for (const request of await cache.keys()) if (request.url.endsWith('-1.bin')) await cache.put(request, new Response(new Uint8Array(1 << 20)));
        else if (request.url.endsWith('-4.bin')) await cache.put(request, new Response('short'));
    }
  })()`);
  asked = [];
  assert.equal(await page.run(own), 'entries');
  assert.deepEqual(weightsAsked(), ['weights-1.bin', 'weights-4.bin']);
});
await test('a browser without SIMD', async () => {
  spoil = only('worker.js', { change: (body) => Buffer.concat([body, Buffer.from('\nWebAssembly.validate = () => false;\n')]) });
  await open();
  await failed('no_simd', 'lacks WebAssembly with SIMD');
});
const button = "document.getElementById('fallback')";
await test('no WebGPU: it is said, and the processor is offered', async () => {
  await clear();
  folder = pair;
  await open();
  await failed('no_webgpu', 'WebGPU');
  assert.deepEqual(weightsAsked(), []);
  assert(await page.run(shown('fallback')));
  assert.match(await textOf('#fallback'), /^Run on the processor instead \(8\.0 MB to download\)$/);
  assert.match(await textOf('#failure-note'), /slower/);
  assert.equal(await page.run(shown('retry')), false);
  await shot('no-webgpu');
  await page.run(`${button}.click()`);
  await page.until(shown('welcome'), 20);
  assert.deepEqual(weightsAsked(), ['wasm32/weights-0.bin']);
  assert.equal(await page.run("document.getElementById('facts').dataset.engine"), 'wasm');
  assert.match(await textOf('#facts'), /Not on a GPU.*WebGPU/);
  await shot('fallen-back');
});
await test('the processor again, at the next visit and without a network', async () => {
  folder = pair;
  await open();
  await ready();
  assert.deepEqual(weightsAsked(), []);
  await page.until('navigator.serviceWorker.ready.then((r) => r.active.state === "activated")');
  silence();
  await open();
  await ready();
  await page.run("document.getElementById('input').focus()");
  await set({ temperature: 0, maxTokens: 60 });
  await page.type('Once upon a time');
  await page.press('Enter');
  await page.until(idle, 20);
  assert.equal(await textOf('.story .body'), `Once upon a time${wanted}`);
  await serve();
});
await test('no WebGPU, and nothing to fall back to', async () => {
  await clear();
  folder = pair;
  spoil = only('model.js', { change: (body) => String(body).replace('"fallback":', '"other":') });
  await open();
  await failed('no_webgpu', 'WebGPU');
  assert.equal(await page.run(shown('fallback')), false);
  await shot('no-webgpu-strict');
});
await test('while kernels compile', async () => {
  folder = pair;
  spoil = only('worker.js', { change: (body) => `${body}
    tasks.load = async ({ tell }) => {
      tell({ progress: { phase: 'compile', loaded: 1e6, total: 8e6, cached: 0, file: '', compiled: 0, kernels: 20 } });
      tell({ progress: { phase: 'compile', loaded: 2e6, total: 8e6, cached: 0, file: '', compiled: 5, kernels: 20 } });
      await new Promise((wait) => setTimeout(wait, 300));
      tell({ progress: { phase: 'download', loaded: 8e6, total: 8e6, cached: 0, file: '' } });
      await new Promise((wait) => setTimeout(wait, 300));
      tell({ progress: { phase: 'compile', loaded: 8e6, total: 8e6, cached: 0, file: '', compiled: 13, kernels: 20 } });
      await new Promise(() => {});
    };` });
  await page.send('Page.navigate', { url: `${url()}?${++visit}` });
  await page.until("document.getElementById('loaded')?.textContent.startsWith('2.0 MB of 8.0 MB')");
  assert.equal(await page.run("document.getElementById('bar').value"), 0.25);
  await page.until("document.getElementById('loaded')?.textContent === '8.0 MB are here; preparing this GPU: 5 of 20 kernels compiled'");
  await page.until("document.getElementById('loaded')?.textContent === '8.0 MB are here; preparing this GPU: 13 of 20 kernels compiled'");
  assert.equal(await page.run("document.getElementById('bar').value"), 0.65);
  await shot('compiling');
});
await test('while it comes', async () => {
  await clear();
  spoil = (name) => (name === 'weights-5.bin' ? { slowly: 500 } : null);
  await page.send('Page.navigate', { url: `${url()}?${++visit}` });
  await page.until("document.getElementById('loaded')?.textContent.startsWith('5.4')");
  await shot('loading');
  await page.until(shown('welcome'));
});
await test('offline, with nothing here', async () => {
  await open();
  await page.until('navigator.serviceWorker.ready.then((r) => r.active.state === "activated")');
  await page.send('Storage.clearDataForOrigin', { origin: url().slice(0, -1), storageTypes: 'file_systems' });
  silence();
  await open();
  await failed('network', 'weights-0.bin cannot be fetched');
  await page.send('Network.enable');
  await page.send('Network.emulateNetworkConditions', { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await page.run("document.getElementById('retry').click()");
  await page.until("document.getElementById('failure').dataset.code === 'offline'");
  await failed('offline', 'There is no network, and weights-0.bin is not kept');
  await page.send('Network.disable');
  await serve();
});
await test('without https', async () => {
  const host = Object.values(networkInterfaces()).flat().find((i) => i.family === 'IPv4' && !i.internal)?.address;
  if (!host) return;
  await page.send('Page.navigate', { url: `http://${host}:${port}/?${++visit}` });
  await page.until(`location.search === '?${visit}' && ${shown('welcome')}`, 20);
  assert.match(await textOf('#facts'), /came neither by https nor from this machine/);
});
await test('the console is clean', () => assert.deepEqual(complaints, []));
await page.close();
server.close();
console.log(`${passed} passed, ${bad} failed`);
process.exit(bad ? 1 : 0);
