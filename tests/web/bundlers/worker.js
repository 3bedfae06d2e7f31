// worker.js -- the application's own worker.
import { load } from 'model-processor';

onmessage = async ({ data: [tokens, drawn, options] }) => {
  try {
    const model = await load({ cache: true, ...options }), list = [];
    for await (const token of model.draw(tokens, drawn)) list.push(token);
    postMessage([list, model.about().storage.kind]);
  } catch (error) {
    postMessage(`${error.name} ${error.code}: ${error.message}`);
  }
};
