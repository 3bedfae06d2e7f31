// test_worker.js -- runs the model of test.html outside of the page's thread, and the tests of its kernels.  It starts with a message, and
// answers { progress } of the download, { about } with what runs the model, { event } of the tests, then { rows } or { error }.
import { about, load, ModelError } from './model.js';
import { readTests, testKernels } from './test_kernels.js';

async function get(name) {
  const response = await fetch(new URL(name, import.meta.url), { cache: 'no-cache' }).catch(() => null);
  if (response?.ok) return response;
  throw new ModelError('not_found', `${name} cannot be fetched: ${response ? `status ${response.status}` : 'there is no network'}.`);
}

onmessage = async () => {
  try {
    const tests = readTests(await (await get('tests.json')).json(), await (await get('tests.bin')).arrayBuffer());
    const model = await load({ cache: true, lazy: true, onProgress: (progress) => postMessage({ progress }) });
    postMessage({ about: model.about() });
    postMessage({ rows: await testKernels(model, tests, (event) => postMessage({ event })) });
  } catch (error) {
    postMessage({ error: { code: error.code ?? 'failed', message: error.message } });
  }
};
postMessage({ ready: about() });
