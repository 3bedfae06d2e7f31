// main.js -- an application that a bundler makes into one script: a page, a worker of its own, and three folders as packages.
import * as processor from 'model-processor';
import * as gpu from 'model-gpu';
import * as both from 'model-both';

const folders = { processor, gpu, both };

/** The tokens that the package draws, or the error's code; options: of load(). */
globalThis.draw = async (name, tokens, drawn, options = {}) => {
  try {
    const model = await folders[name].load(options), list = [];
    for await (const token of model.draw(tokens, drawn)) list.push(token);
    return list;
  } catch (error) {
    return `${error.name} ${error.code}: ${error.message}`;
  }
};

/** The same in the worker. */
globalThis.drawInWorker = (...given) => new Promise((tell) => {
  const worker = new Worker(new URL('./worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => tell(data);
  worker.onerror = ({ message }) => tell(`the worker failed: ${message}`);
  worker.postMessage(given);
});
