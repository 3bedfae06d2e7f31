// test_web.mjs STORY CHAT GOLDEN PAIR GPU -- uses folders through model.js in Node without WebGPU.  STORY, CHAT: for target wasm32; PAIR: for
// webgpu,wasm32; GPU: for webgpu alone.  STORY: the storyteller, in pieces of 1 MiB; CHAT: a golden model with a chat template, --exact; GOLDEN: that model's stored tokens, GOLDEN.tokens and GOLDEN.greedy.
import { createServer } from 'node:http';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const [storyFolder, chatFolder, golden, pairFolder, gpuFolder] = process.argv.slice(2);
const { load, ModelError } = await import(pathToFileURL(`${storyFolder}/model.js`));
const chatModule = await import(pathToFileURL(`${chatFolder}/model.js`));
let passed = 0, failed = 0;

async function test(name, work) {
  try {
    await work();
    passed++;
  } catch (error) {
    failed++;
    console.log(`FAILED ${name}: ${error.stack}`);
  }
}

function same(got, wanted, what = 'values') {
  const [a, b] = [JSON.stringify(got), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${what} differ: ${a.slice(0, 300)}, wanted ${b.slice(0, 300)}`);
}

function holds(condition, what) { if (!condition) throw new Error(`not so: ${what}`); }

/** The promise rejects with a ModelError with this code and one sentence that contains the text. */
async function rejects(code, text, promise) {
  try {
    await (typeof promise === 'function' ? promise() : promise);
  } catch (error) {
    holds(error instanceof ModelError || error instanceof chatModule.ModelError, `a ModelError: ${error.stack}`);
    same(error.code, code, 'codes');
    holds(/^[^\n]+\.$/.test(error.message), `one sentence: ${error.message}`);
    holds(error.message.includes(text), `'${error.message}' has '${text}'`);
    return;
  }
  throw new Error(`nothing was rejected, wanted ${code}`);
}

async function textOf(generator) {
  let text = '';
  for (let next; ; text += next.value) if ((next = await generator.next()).done) return { text, ...next.value };
}

async function listOf(generator) {
  const list = [];
  for (let next; ; list.push(next.value)) if ((next = await generator.next()).done) return { list, ...next.value };
}

const idsOf = (path) => readFileSync(path, 'utf8').trim().split(/[\s,]+/).map(Number);

// ---- a server of files, some of them damaged ----

let spoil = () => null, requests = [];
const server = createServer((request, response) => {
  const name = request.url.slice(1);
  requests.push(name);
  let body = readFileSync(`${storyFolder}/${name}`);
  const how = spoil(name, body);
  if (typeof how === 'number') { response.writeHead(how); response.end(); return; }
  if (how === 'broken') {
    response.writeHead(200, { 'Content-Length': body.length });
    response.write(body.subarray(0, 1000), () => response.destroy());
    return;
  }
  if (how?.page) { response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }); response.end(how.page); return; }
  if (how) body = how;
  response.writeHead(200);
  response.end(body);
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const base = `http://127.0.0.1:${server.address().port}/`;
const only = (wanted, change) => (name, body) => (name === wanted ? change(body) : null);
const flipped = (body) => { const copy = Buffer.from(body); copy[copy.length >> 1] ^= 1; return copy; };

// ---- loading ----

await test('a folder from a server, with progress', async () => {
  const seen = [];
  const model = await load({ base, onProgress: (progress) => seen.push(progress) });
  const last = seen[seen.length - 1];
  same(last.loaded, last.total, 'bytes');
  same(seen.every((p, i) => i === 0 || p.loaded > seen[i - 1].loaded), true, 'growing');
  const pieces = requests.filter((name) => name.startsWith('weights-'));
  holds(pieces.length > 3, 'several pieces');
  same(new Set(requests).size, requests.length, 'each file once');
  same((await textOf(model.generate('Once upon a time', { temperature: 0, maxTokens: 12 }))).tokens, 12);
  model.close();
  await rejects('closed', 'closed', model.prefill([1]));
});
for (const [name, code, text, change] of [
  ['weights-1.bin', 'not_found', 'status 404', () => 404],
  ['weights-1.bin', 'http', 'status 500', () => 500],
  ['weights-1.bin', 'wrong_size', 'weights-1.bin has', (body) => body.subarray(0, body.length - 1)],
  ['weights-1.bin', 'wrong_size', 'more than', (body) => Buffer.concat([body, Buffer.from('x')])],
  ['weights-0.bin', 'wrong_hash', 'weights-0.bin is damaged', flipped],
  ['weights-2.bin', 'network', 'weights-2.bin broke off', () => 'broken'],
  ['model.bin', 'wrong_hash', 'model.bin is damaged', flipped],
  ['model.bin', 'not_found', 'model.bin is not there', () => 404],
  ['model.bin', 'not_found', 'model.bin gives an HTML page with status 200', () => ({ page: '<!doctype html><title>an application</title>' })],
  ['weights-1.bin', 'not_found', 'as base', () => ({ page: '<html></html>' })]])
  await test(`${name}: ${code}`, async () => {
    spoil = only(name, change);
    await rejects(code, text, load({ base }));
    spoil = () => null;
  });
await test('nobody answers', () => rejects('network', 'cannot be fetched', load({ base: 'http://127.0.0.1:9/' })));
const nowhere = new URL('nowhere/', pathToFileURL(`${storyFolder}/`));
await test('files that a server calls pages', async () => {
  spoil = (name, body) => ({ page: body });
  await load({ base });
  spoil = () => null;
});
await test('addresses that are paths on the server, as some bundlers write them', async () => {
  const path = `${storyFolder}/paths.mjs`, text = readFileSync(`${storyFolder}/model.js`, 'utf8');
  writeFileSync(path, text.replace(/new URL\('\.\/([^']+)', import\.meta\.url\)/g, "({ href: '/$1' })"));
  try {
    const { load: loadPaths } = await import(pathToFileURL(path));
    const error = await loadPaths().catch((reason) => reason);
    same([error.code, error.message.includes('as base')], ['bad_argument', true]);
    globalThis.location = { href: `${base}page/` };
    await loadPaths();
  } finally {
    delete globalThis.location;
    rmSync(path);
  }
});
await test('no such folder', () => rejects('not_found', 'model.bin', load({ base: nowhere })));
await test('aborted', async () => {
  const controller = new AbortController();
  await rejects('aborted', 'aborted', load({ base, signal: controller.signal, onProgress: () => controller.abort() }));
});
await test('a fetch of the caller', async () => {
  const asked = [];
  await load({ base, fetch: (url, init) => { asked.push(url); return fetch(url, init); } });
  holds(asked.every((url) => url.startsWith(base)) && asked.length > 4, 'all files by it');
});
await test('what is said of it; nothing is kept in Node', async () => {
  const { about } = await import(pathToFileURL(`${storyFolder}/model.js`)), model = await load({ cache: true }), said = model.about();
  const { name, target, build, bytes } = about();
  same([said.name, said.target, said.build, said.bytes], [name, target, build, bytes]);
  same([said.engine, said.storage, said.memoryBytes], ['wasm', { kind: 'none', note: '' }, model.info.memoryBytes]);
  holds(said.device.length > 0 && bytes > model.info.weightsBytes, 'words for the device, and bytes of all files');
});
await test('no SIMD', async () => {
  const validate = WebAssembly.validate;
  WebAssembly.validate = () => false;
  try { await rejects('no_simd', 'SIMD', load()); } finally { WebAssembly.validate = validate; }
});
await test('no memory', async () => {
  const grow = WebAssembly.Memory.prototype.grow;
  WebAssembly.Memory.prototype.grow = () => { throw new RangeError('none'); };
  try { await rejects('out_of_memory', 'MiB', load()); } finally { WebAssembly.Memory.prototype.grow = grow; }
});
await test('where pages have no SHA-256, the engine finds damage', async () => {
  const crypto = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  Object.defineProperty(globalThis, 'crypto', { value: {}, configurable: true });
  try {
    await load({ base });
    spoil = only('weights-1.bin', flipped);
    await rejects('wrong_hash', 'weights', load({ base }));
  } finally {
    spoil = () => null;
    if (crypto) Object.defineProperty(globalThis, 'crypto', crypto); else delete globalThis.crypto;
  }
});

// ---- WebGPU's fallback ----

const pair = await import(pathToFileURL(`${pairFolder}/model.js`)), alone = await import(pathToFileURL(`${gpuFolder}/model.js`));
const moduleError = (work, code, text) => work.then(() => { throw new Error('nothing was rejected'); }, (error) => {
  same(error.code, code, 'codes');
  holds(/^[^\n]+\.$/.test(error.message) && error.message.includes(text), `'${error.message}' has '${text}'`);
});
const limits = (most) => ({ maxStorageBufferBindingSize: most, maxBufferSize: most, maxComputeWorkgroupStorageSize: most, maxStorageBuffersPerShaderStage: most });
const gpuOf = (adapter) => ({ requestAdapter: async () => adapter });
await test('without WebGPU it is strict, unless it is told', async () => {
  await moduleError(pair.load(), 'no_webgpu', 'no WebGPU');
  await moduleError(pair.load({ gpu: gpuOf(null) }), 'no_webgpu', 'no GPU for this page');
  await moduleError(pair.load({ gpu: gpuOf({ limits: limits(1 << 12) }) }), 'gpu_too_small', 'the model needs');
  await moduleError(pair.load({ fallback: 'cpu' }), 'bad_argument', 'fallback is "cpu"');
  await moduleError(alone.load({ fallback: 'wasm' }), 'no_fallback', '-t webgpu,wasm32');
});
await test('the processor computes, and says why', async () => {
  const story = await load(), { text } = await textOf(story.generate('Once upon a time', { temperature: 0, maxTokens: 20 }));
  same(story.about().fellBack, null);
  same((await load({ fallback: 'wasm' })).about().fellBack, null);
  for (const [gpu, code] of [[undefined, 'no_webgpu'], [gpuOf(null), 'no_webgpu'], [gpuOf({ limits: limits(1 << 12) }), 'gpu_too_small']]) {
    const seen = [], model = await pair.load({ gpu, fallback: 'wasm', onProgress: (progress) => seen.push(progress) }), said = model.about();
    same([said.engine, said.target, said.fellBack.code, model.info.target], ['wasm', 'wasm32', code, 'wasm32']);
    holds(said.fellBack.message.endsWith('.') && seen.every(({ phase }) => phase === 'download'), said.fellBack.message);
    const { loaded, total } = seen.at(-1);
    same([loaded, total], [pair.about().fallbackBytes, pair.about().fallbackBytes], 'bytes');
    same((await textOf(model.generate('Once upon a time', { temperature: 0, maxTokens: 20 }))).text, text);
  }
  same(alone.about().fallbackBytes, 0);
});
await test('what else a GPU lacks is no reason', async () => {
  const gpu = gpuOf({ limits: limits(2 ** 31), features: new Set(), requestDevice: async () => { throw new Error('the driver is gone'); } });
  const said = await pair.load({ gpu, fallback: 'wasm' }).then(() => 'it fell back', (error) => error.message);
  same(said, 'the driver is gone');
});

// ---- text and steps ----

const story = await load();
await test('tokens of text and back', () => {
  const text = 'Once upon a time there was a king; größer, 你好!';
  same(story.decode(story.encode(text, { bos: false })).trimStart(), text);
  holds(story.encode('x'.repeat(20000)).length > 1000, 'a long text');
  holds(story.pieces(story.encode('king', { bos: false })[0]) instanceof Uint8Array, 'bytes');
  holds(story.isEnd(story.eos) && !story.isEnd(story.encode('king')[1]), 'the end is one');
});
await test('prefill and steps give the same', async () => {
  const tokens = story.encode('There was a king'), n = tokens.length;
  await story.reset();
  await story.prefill(tokens);
  const whole = await story.logits();
  same([story.nPast, whole.length], [n, story.info.nVocab]);
  await story.reset(n - 1);
  await story.step(tokens[n - 1]);
  const one = await story.logits(), most = whole.reduce((m, x, i) => Math.max(m, Math.abs(x - one[i])), 0);
  holds(most < 0.5, `logits of both: ${most}`);
  same(await story.sample({ temperature: 0 }), one.indexOf(Math.max(...one)));
  await rejects('bad_argument', 'reset', story.reset(n + 1));
  await rejects('bad_argument', 'from 0 to 4095', story.prefill([story.info.nVocab]));
  await rejects('bad_argument', 'no tokens', story.prefill([]));
});
await test('a full context', async () => {
  const many = Array.from({ length: story.info.nCtx }, (_, i) => 100 + (i % 50));
  await story.reset();
  await rejects('context_full', `the context has ${story.info.nCtx}`, story.prefill([...many, 100]));
  await story.prefill(many);
  await rejects('context_full', `after ${story.info.nCtx}`, story.step(100));
  await rejects('context_full', 'do not fit', textOf(story.generate([...many, 100])));
  same((await textOf(story.generate(many.slice(3), { maxTokens: 100, ignoreEnd: true, seed: 1 }))).reason, 'context');
});
await test('a seed, stops, lengths', async () => {
  const draw = (o) => textOf(story.generate('Once upon a time', { maxTokens: 40, ...o }));
  const first = await draw({ seed: 5 });
  same(await draw({ seed: 5 }), first, 'texts of a seed');
  holds((await draw({ seed: 6 })).text !== first.text, 'another seed, another text');
  const words = (await draw({ temperature: 0 })).text, stop = words.slice(20, 26);
  const stopped = await draw({ temperature: 0, stop: ['never in it', stop] });
  same([stopped.text, stopped.reason], [words.slice(0, words.indexOf(stop)), 'stop']);
  same((await draw({ maxTokens: 0 })).text, '');
  await rejects('bad_argument', 'temperature is "warm"', draw({ temperature: 'warm' }));
});
await test('wrong arguments', async () => {
  const draw = (input, o) => textOf(story.generate(input, o)), circle = {};
  circle.self = circle;
  for (const [text, work] of [
    ['The prompt is null', () => draw(null)],
    ['The prompt is undefined', () => draw()],
    ['The prompt is 5', () => draw(5)],
    ['1.5 is not a token', () => draw([1, 1.5])],
    ['The options are null', () => draw('x', null)],
    ['stop is 5', () => draw('x', { stop: 5 })],
    ['A text of stop is null', () => draw('x', { stop: [null] })],
    ['maxTokens is 1.5', () => draw('x', { maxTokens: 1.5 })],
    ['seed is 0.5', () => draw('x', { seed: 0.5 })],
    ['topK is 1.5', () => draw('x', { topK: 1.5 })],
    ['grammar is 5', () => draw('x', { grammar: 5 })],
    ['schema is "x"', () => draw('x', { schema: 'x' })],
    ['schema cannot be written as JSON', () => draw('x', { schema: circle })],
    ['signal is an object', () => draw('x', { signal: new AbortController() })],
    ['onProgress is 5', () => draw('x', { onProgress: 5 })],
    ['The conversation is null', () => textOf(story.chat(null))],
    ['The conversation cannot be written as JSON', () => textOf(story.chat({ messages: [1n] }))],
    ['NaN is not a token', () => story.prefill([NaN])],
    ['1.5 is not a token', () => story.prefill([1.5])],
    ['4294967297 is not a token', () => story.prefill([2 ** 32 + 1])],
    ['"1" is not a token', () => story.step('1')],
    ['The tokens are "12"', () => story.prefill('12')],
    ['The tokens are an object', () => story.rows({})],
    ['expected is -1', () => story.rows([1], { expected: -1 })],
    ['The tokens are undefined', () => story.draw().next()],
    ['The tokens are null', () => story.embed(null)],
    ['The options are 5', () => story.sample(5)],
    ['The text is 5', async () => story.encode(5)],
    ['The tokens are "abc"', async () => story.decode('abc')],
    ['-1 is not a token', async () => story.decode(-1)],
    ['undefined is not a token', async () => story.pieces()],
    ['The options are null', () => load(null)],
    ['base is "http://["', () => load({ base: 'http://[' })],
    ['fetch is 5', () => load({ base, fetch: 5 })]]) await rejects('bad_argument', text, work);
  same((await draw('x', { stop: null, signal: null, maxTokens: 2, seed: 1 })).tokens, 2, 'null is the default');
  await story.reset();
});
await test('one text at a time, and leaving it early', async () => {
  const text = story.generate('There was', { maxTokens: 20 });
  await text.next();
  await rejects('busy', 'busy', story.step(1));
  await text.return();
  for await (const piece of story.generate('There was', { maxTokens: 20 })) { holds(piece.length > 0, 'a piece'); break; }
  await story.reset();
  const controller = new AbortController();
  await rejects('aborted', 'aborted', async () => {
    for await (const _ of story.generate('There was', { signal: controller.signal })) controller.abort();
  });
  await story.reset();
});
await test('no template', () => rejects('no_template', 'template', textOf(story.generate([{ role: 'user', content: 'Hello' }]))));
await test('a schema', async () => {
  const schema = { type: 'object', properties: { mood: { enum: ['merry', 'sad'] }, years: { type: 'integer', minimum: 1, maximum: 99 } },
                   required: ['mood', 'years'], additionalProperties: false };
  for (const seed of [1, 2, 3]) {
    const { text, reason } = await textOf(story.generate('The king: ', { schema, seed, maxTokens: 200 }));
    const value = JSON.parse(text);
    holds(reason === 'end' && ['merry', 'sad'].includes(value.mood) && value.years >= 1 && value.years <= 99, text);
  }
  await rejects('refused', 'grammar', textOf(story.generate('x', { grammar: 'root ::= missing' })));
  same((await textOf(story.generate('x', { grammar: 'root ::= "yes" | "yes"', seed: 1 }))).text, 'yes');
});

// ---- golden tokens, and conversations ----

const chat = await chatModule.load();
await test('the stored greedy tokens', async () => {
  const { list } = await listOf(chat.draw(idsOf(`${golden}.tokens`), { temperature: 0, repeatPenalty: 0, maxTokens: 48, ignoreEnd: true }));
  same(list, idsOf(`${golden}.greedy`).slice(0, 48));
});
await test('a conversation', async () => {
  const messages = [{ role: 'user', content: 'Hello' }], options = { maxTokens: 12, seed: 3, ignoreEnd: true };
  const { list, reason } = await listOf(chat.chat(messages, options));
  holds(list.every((event) => event.type === 'content'), 'content only');
  const content = list.map((event) => event.text).join('');
  same(await textOf(chat.generate(messages, options)), { text: content, reason, tokens: 12 });
  same(await textOf(chat.generate({ messages }, options)), { text: content, reason, tokens: 12 });
  await rejects('refused', 'conversation', textOf(chat.generate({ messages: 'none' })));
  await rejects('context_full', 'do not fit', textOf(chat.generate([{ role: 'user', content: 'long '.repeat(5000) }])));
});

server.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
