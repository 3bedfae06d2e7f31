// worker.js -- runs the model outside of the page's thread, so that index.html stays responsive during a step.  Takes { id, task, ... } and
// answers { id, event } repeatedly, then { id, result } or { id, error: { code, message } }; { stop: true } ends the current task.
import { load, about, ModelError } from './model.js';

let model = null, running = null;

function median(list) {
  const sorted = list.sort((a, b) => a - b), half = list.length >> 1;
  return list.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Measurements of a text: seconds of its prompt and of its generation, and the tokens of each. */
class Meter {
  constructor() { this.start = performance.now(); }

  prompt = (done, total) => {
    this.promptTokens = total;
    this.promptSeconds = (performance.now() - this.start) / 1e3;
    if (done === total) this.from = model.nPast;
  };

  now() {
    const tokens = this.from === undefined ? 0 : model.nPast - this.from + 1;
    return { tokens, seconds: (performance.now() - this.start) / 1e3 - (this.promptSeconds ?? 0),
             promptTokens: this.promptTokens ?? 0, promptSeconds: this.promptSeconds ?? 0 };
  }
}

const tasks = {
  async load({ signal, tell, onProcessor }) {
    const fallback = onProcessor && about().fallbackBytes ? 'wasm' : undefined;
    model = await load({ cache: true, signal, fallback, onProgress: (progress) => tell({ progress }) });
    return { info: model.info, about: model.about() };
  },

  /** The continuation of a text, or the answer to messages. */
  async write({ signal, tell, input, options }) {
    const meter = new Meter(), isChat = typeof input !== 'string';
    const all = { ...options, signal, onProgress: (done, total) => { meter.prompt(done, total); tell({ read: done, of: total }); } };
    const parts = isChat ? model.chat(input, all) : model.generate(input, all);
    try {
      for (let next; ;) {
        next = await parts.next();
        if (next.done) return { ...meter.now(), ...next.value };
        tell({ ...(isChat ? next.value : { type: 'content', text: next.value }), ...meter.now() });
      }
    } catch (error) {
      if (error.code === 'aborted') return { ...meter.now(), reason: 'aborted' };
      throw error;
    }
  },

  /** The cosine between the vectors of two texts. */
  async compare({ texts }) {
    const start = performance.now(), [a, b] = [await model.embed(texts[0]), await model.embed(texts[1])];
    const dot = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
    return { cosine: dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b)), numbers: a.length, seconds: (performance.now() - start) / 1e3 };
  },

  /** Tokens per second of prompts and of generation: one run to warm up, then medians of `runs`. */
  async measure({ signal, tell, prompt, generate, runs }) {
    const rate = async (n, work) => {
      const start = performance.now();
      await work();
      return 1e3 * n / (performance.now() - start);
    };
    const tokens = Array.from({ length: prompt }, (_, i) => (i * 2654435761) % model.info.nVocab), rows = { prompt: [], generate: [] };
    for (let run = 0; run <= runs; run++) {
      tell({ run, runs });
      if (model.info.embeddings) rows.prompt.push(await rate(prompt, () => model.embed(tokens)));
      else {
        await model.reset(0);
        rows.prompt.push(await rate(prompt, () => model.prefill(tokens, { signal })));
        await model.reset(0);
        rows.generate.push(await rate(generate, async () => {
          for await (const _ of model.draw([1], { temperature: 0, repeatPenalty: 0, maxTokens: generate, ignoreEnd: true, signal }));
        }));
      }
      await new Promise((turn) => setTimeout(turn));
      if (signal.aborted) throw new ModelError('aborted', 'The caller stopped this.');
    }
    return Object.entries(rows).filter(([, list]) => list.length).map(([what, [, ...list]]) =>
      ({ what, tokens: what === 'prompt' ? prompt : generate, best: Math.max(...list), median: median(list) }));
  },
};

onmessage = async ({ data: { id, task, stop, ...rest } }) => {
  if (stop) return running?.abort();
  running = new AbortController();
  try {
    postMessage({ id, result: await tasks[task]({ ...rest, signal: running.signal, tell: (event) => postMessage({ id, event }) }) });
  } catch (error) {
    const code = error.code ?? 'failed';
    postMessage({ id, error: { code, message: error instanceof ModelError ? error.message : `The page failed: ${error.message}.` } });
  }
};
postMessage({ about: about() });
