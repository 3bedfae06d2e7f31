// test_kernels.mjs FOLDER CHROMIUM KEEP -- test.html of a folder that was built with --kernel-tests, in headless Chromium on SwiftShader: all
// kernels pass (full: Node runs them too), a wrong number fails the row of its kernel, and missing files are reported.  KEEP: for chromium's files.  SHOTS=DIR: pictures.
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { existsSync, readFileSync } from 'node:fs';
import assert from 'node:assert/strict';
import { browse } from '../server/clients/browser.mjs';

const [folder, chromium, keep] = process.argv.slice(2), full = process.env.FORGEC_TIER === 'full';
const types = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html', css: 'text/css', json: 'application/json' };
const read = (name) => readFileSync(`${folder}/${name}`), tests = JSON.parse(read('tests.json'));
let changed = {}, asked = [];
const server = createServer((request, response) => {
  const name = request.url.split('?')[0].slice(1) || 'index.html', path = `${folder}/${name}`;
  asked.push(name);
  if (changed[name] === null || !existsSync(path)) return response.writeHead(404).end();
  response.writeHead(200, { 'Content-Type': types[name.split('.').pop()] ?? 'application/octet-stream' }).end(changed[name] ?? read(name));
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const url = `http://127.0.0.1:${server.address().port}/`, page = await browse(chromium, keep, true), complaints = [];
page.on((method, params) => {
  if (method === 'Runtime.exceptionThrown') complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
  if (method === 'Log.entryAdded' && params.entry.source === 'security') complaints.push(params.entry.text);
});
for (const domain of ['Page', 'Runtime', 'Log']) await page.send(`${domain}.enable`);
const textOf = (id) => page.run(`document.getElementById('${id}').textContent`);
const rows = () => page.run("Array.from(document.querySelectorAll('#rows tr'), (row) => [row.className, ...Array.from(row.cells, (cell) => cell.textContent)])");
const shot = async (name) => process.env.SHOTS && page.shot(`${process.env.SHOTS}/${name}.png`);
const size = (width, height) => page.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 500 });

/** Tests the kernels, with these files instead of the folder's; returns the final message. */
async function run(files = {}) {
  changed = files;
  await page.send('Page.navigate', { url: `${url}test.html` });
  await page.until("document.getElementById('start')?.disabled === false");
  await page.run("document.getElementById('start').click()");
  await page.until("!document.getElementById('start').disabled", 400);
  return textOf('said');
}

try {
  await size(1000, 900);
  await page.send('Page.navigate', { url });
  await page.until("document.readyState === 'complete'");
  assert(await page.run("!!document.querySelector('#welcome a[href=\"test.html\"]')"), 'the page leads there');
  await page.until("!document.getElementById('welcome').hidden || !document.getElementById('failure').hidden", 400);
  await shot('tests-link');
  assert(!asked.some((name) => name.startsWith('test')), `nothing of the tests is fetched before: ${asked}`);

  if (full) {
    assert.match(await run(), /^WebGPU on .*: \d+ kernels, all pass$/);
    const all = await rows(), names = JSON.parse(gunzipSync(read('launches.bin'))).kernels;
    assert.deepEqual(all.map((row) => row[1]).sort(), [...names, 'sample_draw'].sort());
    for (const [failed, name, steps, result, error, bound, time] of all) {
      assert.equal(failed + result, 'pass', name);
      assert.match(steps, /^(token|prompt|token, prompt)$/);
      assert(Number(error) <= Number(bound), `${name}: ${error} of ${bound}`);
      assert.match(time, /^\d[\d.]* [um]s$/);
    }
    await shot('tests');
    await page.run("navigator.clipboard.writeText = async (text) => { window.copied = text; }");
    await page.run("document.getElementById('copy').click()");
    const copied = (await page.run('window.copied')).split('\n');
    assert.equal(copied.length, 3 + 1 + all.length + 2);
    assert.match(copied.at(-2), /all pass$/);
  }

  // one number of q after its rotation, and only the groups up to attention
  const index = tests.groups.findIndex(({ name }) => name === '0.attention'), value = tests.values[tests.groups[index].prefill[0][1][0][0]];
  assert.match(value[0], /^0\.q/);
  const wrong = Buffer.from(read('tests.bin')), at = 4 * (value[1] + 5);
  wrong.writeFloatLE(wrong.readFloatLE(at) + 0.5, at);
  const some = JSON.stringify({ ...tests, groups: tests.groups.slice(0, index + 1) });
  assert.match(await run({ 'tests.bin': wrong, 'tests.json': some }), /: \d+ of \d+ kernels fail$/);
  for (const [failed, name, , result, error] of await rows()) {
    const wanted = name === 'heads' ? 'differs' : error === 'no test reaches it' ? 'unreached' : 'passes';
    assert.equal(failed + result, wanted === 'passes' ? 'pass' : 'failedFAIL', name);
    if (wanted === 'differs') assert(Number(error) > 0.01, error);
  }
  assert((await rows()).some((row) => row[4] === 'no test reaches it'), 'kernels that were not tested are no passes');
  await page.run("document.querySelector('.failed').scrollIntoView()");
  await shot('tests-wrong');
  await size(390, 780);
  await shot('tests-phone');
  assert(await page.run('document.documentElement.scrollWidth <= innerWidth'), 'nothing is wider than the screen');

  assert.equal(await run({ 'tests.bin': wrong.subarray(4) }),
               `tests.bin has ${wrong.length - 4} bytes instead of ${wrong.length}: it is cut short, or from another build.`);
  assert.equal(await run({ 'tests.json': null }), 'tests.json cannot be fetched: status 404.');
  assert.deepEqual(complaints, []);
  console.log(`${tests.groups.length} groups of kernels${full ? '' : ', of which those up to attention were run'}`);
} finally {
  await page.close();
  server.close();
}
