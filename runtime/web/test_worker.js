// test_worker.js -- the model of test.html, off its thread, and the tests of its kernels.  It begins with a message, and answers { progress }
// of the download, { about } of what runs the model, { event } of the tests, then { rows } or { error }.
import { about, load, ModelError } from './model.js';
import { readTests, testKernels } from './test_kernels.js';

async function get(name) {
  const response = await fetch(new URL(name, import.meta.url), { cache: 'no-cache' }).catch(() => null);
  if (response?.ok) return response;
  throw new ModelError('not_found', `${name} cannot be fetched: ${response ? `status ${response.status}` : 'the network is gone'}.`);
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
