#!/usr/bin/env node
// run.js -- the model of this folder as a program of Node: `node run.js -p "Once upon a time" -n 100`.
import { existsSync, readFileSync, writeSync, openSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { about, load, ModelError } from './model.js';

const help = `usage: node run.js [options]

  -p TEXT                the prompt                  --chat TEXT       a message; prints the answer
  -n N                   most tokens                 -s N              seed (0: random)
      --temp X, --top-k N, --top-p X, --min-p X, --repeat-penalty X, --repeat-last-n N
  -r TEXT                stop before this text       --ignore-eos      continue after the end of the text
      --tokens IDS       prompt as ids, or @FILE     --print-tokens    print ids instead of text
      --logits FILE      write logits after every prompt token, float32 [tokens][vocabulary]
      --rows FILE        embedding models: write the rows, float32 [tokens][columns]
  -ub N                  tokens of a step for --logits (default: the most of a step; 0 and 1: one by one)
      --bench            measure tokens/s of a prompt (-p N, default 128) and of generation (-n N, default 64)
      --min-time S       --bench: measure each for at least S seconds (default: seven measurements)
  -o json                --bench: print JSON
      --profile          WebGPU: time each kernel of a token and of a prompt (-p N, default 512)
      --fallback wasm    use the processor if WebGPU is missing or the GPU is too small
      --test-kernels     WebGPU: compare each kernel with the reference (forgec build --kernel-tests); exit code 1 on failure
      --random-weights   WebGPU: noise instead of weights, for --bench
      --without NAME     WebGPU: leave out kernels whose names begin with NAME, for --bench
      --no-subgroups     WebGPU: use kernels without subgroups
  -q                     no closing line             --info            print the model's properties as JSON
`;

function usage(message) {
  process.stderr.write(`run.js: ${message}; see --help\n`);
  process.exit(2);
}

const flags = { '--ignore-eos': 'ignoreEnd', '--print-tokens': 'printTokens', '--bench': 'bench', '--profile': 'profile',
                '--test-kernels': 'testKernels', '--random-weights': 'randomWeights', '--no-subgroups': 'noSubgroups',
                '-q': 'quiet', '--info': 'info', '--help': 'help', '-h': 'help' };
const words = { '-p': 'prompt', '--chat': 'chat', '-r': 'stop', '--tokens': 'tokens', '--logits': 'logits',
                '--rows': 'rows', '--target': 'target', '--without': 'without', '--fallback': 'fallback', '-o': 'form' };
const numbers = { '-n': 'maxTokens', '-s': 'seed', '--temp': 'temperature', '--top-k': 'topK', '--top-p': 'topP', '--min-p': 'minP',
                  '--repeat-penalty': 'repeatPenalty', '--repeat-last-n': 'repeatLastN', '-ub': 'together',
                  '-pp': 'promptTokens', '--min-time': 'minTime', '-t': 'threads' };

function options(argv) {
  const o = {};
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i];
    if (word in flags) o[flags[word]] = true;
    else if (!(word in words) && !(word in numbers)) usage(`unknown option ${word}`);
    else if (++i === argv.length) usage(`${word} needs a value`);
    else if (word in words) o[words[word]] = argv[i];
    else if (Number.isFinite(o[numbers[word]] = Number(argv[i])) && argv[i].trim()) continue;
    else usage(`${word}: "${argv[i]}" is not a number`);
  }
  if ((o.bench || o.profile) && o.prompt !== undefined) {     // -p is then a number of tokens, as in programs; -pp is the same
    if (!/^[1-9]\d*$/.test(o.prompt)) usage(`-p: "${o.prompt}" is not a number of tokens`);
    o.promptTokens = Number(o.prompt);
  }
  if (o.seed === 0) delete o.seed;
  if (o.fallback !== undefined && o.fallback !== 'wasm') usage(`--fallback: "${o.fallback}" is not wasm, the only choice`);
  if (o.form !== undefined && o.form !== 'json') usage(`-o: "${o.form}" is not json`);
  if (o.threads !== undefined && o.threads !== 1) usage('-t: there is one thread');
  return o;
}

function idsOf(text) {
  if (text.startsWith('@')) text = readFileSync(text.slice(1), 'utf8');
  return text.split(/[\s,]+/).filter(Boolean).map((word) => {
    if (!/^\d+$/.test(word)) usage(`--tokens: "${word}" is not an id`);
    return Number(word);
  });
}

const promptOf = (model, o) => (o.tokens ? idsOf(o.tokens) : model.encode(o.prompt ?? '', { special: true }));

function writeAll(path, parts) {
  const file = openSync(path, 'w');
  for (const part of parts) {
    const bytes = new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
    for (let done = 0; done < bytes.length;) done += writeSync(file, bytes, done);
  }
}

const stepOf = (model, together = model.info.chunk) => Math.max(1, Math.min(together, model.info.chunk));

/** Logits after each token, or the rows of an embedding model, computed in steps of `together` tokens. */
async function rowsOf(model, tokens, together) {
  const most = stepOf(model, together), parts = [];
  for (let i = 0; i < tokens.length; i += most) parts.push(await model.rows(tokens.slice(i, i + most), { expected: tokens.length }));
  return parts;
}

async function seconds(work) {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1e3;
}

/** Medians of alternating measurements, and the best of them; the first one compiles kernels and does not count. */
async function bench(model, { promptTokens = 128, maxTokens = 64, minTime, form }) {
  const tokens = (n) => Array.from({ length: n }, (_, i) => (i * 2654435761) % model.info.nVocab), prompt = [], decode = [];
  const isEnough = (list) => (minTime === undefined ? list.length === 8
    : list.length > 1 && list.slice(1).reduce((sum, time) => sum + time, 0) >= minTime);
  while (!isEnough(prompt) || !isEnough(decode)) {
    await model.reset(0);
    if (!isEnough(prompt)) prompt.push(await seconds(async () => {
      await model.prefill(tokens(promptTokens));
      await model.logits();                               // then it is done on a GPU, too
    }));
    if (isEnough(decode)) continue;
    await model.reset(0);
    await model.step(1);
    decode.push(await seconds(async () => {
      const drawn = model.draw(model.tokens, { temperature: 0, repeatPenalty: 0, maxTokens, ignoreEnd: true });
      while (!(await drawn.next()).done);
    }));
  }
  const rates = (list, n) => list.slice(1).map((time) => n / time).sort((a, b) => a - b);
  const median = (sorted) => (sorted[sorted.length >> 1] + sorted[sorted.length - 1 >> 1]) / 2;
  const shown = (sorted, n) => `${median(sorted).toFixed(1)} tok/s (best ${sorted.at(-1).toFixed(1)}, ${n} tokens)`;
  const [prompts, decodes] = [rates(prompt, promptTokens), rates(decode, maxTokens)];
  process.stdout.write(form !== 'json' ? `prompt ${shown(prompts, promptTokens)}, generation ${shown(decodes, maxTokens)}\n`
    : `${JSON.stringify([{ n_prompt: promptTokens, n_gen: 0, median_ts: median(prompts) },
                         { n_prompt: 0, n_gen: maxTokens, median_ts: median(decodes) }])}\n`);
}

/** The times of kernels, summed by name. */
async function profile(model, { promptTokens = 512 }) {
  await model.step(1);
  for (const n of [1, Math.min(promptTokens, model.info.chunk)]) {
    const sums = new Map(), times = await model.profile(n);
    for (const { name, us } of times) {
      const sum = sums.get(name) ?? { launches: 0, us: 0 };
      sums.set(name, { launches: sum.launches + 1, us: sum.us + us });
    }
    const total = times.reduce((sum, { us }) => sum + us, 0);
    process.stdout.write(`${n === 1 ? 'a token' : `a prompt of ${n} tokens`}: ${total.toFixed(0)} us in ${times.length} launches\n`);
    for (const [name, { launches, us }] of [...sums].sort(([, a], [, b]) => b.us - a.us))
      process.stdout.write(`  ${name.padEnd(32)} ${String(launches).padStart(4)} x ${(us / launches).toFixed(2).padStart(9)} us ` +
                           `${(100 * us / total).toFixed(1).padStart(5)} %\n`);
  }
}

/** Prints tests of all kernels as a table; false: some fail. */
async function testAll(model) {
  const folder = dirname(fileURLToPath(import.meta.url)), at = (name) => join(folder, name);
  if (!existsSync(at('tests.json')))
    throw new ModelError('not_found', 'The folder has no tests of kernels: `forgec build MODEL.gguf -t webgpu --kernel-tests` writes them.');
  const { readTests, report, testKernels } = await import('./test_kernels.js');
  const tests = readTests(JSON.parse(readFileSync(at('tests.json'), 'utf8')), new Uint8Array(readFileSync(at('tests.bin'))).buffer);
  const rows = await testKernels(model, tests);
  process.stdout.write(report(rows, [about().name, model.about().device]));
  return rows.every((row) => row.passed);
}

async function write(model, o) {
  const start = performance.now();
  let result;
  if (o.printTokens) {
    const prompt = promptOf(model, o);
    if (o.together !== undefined) {                       // tokens that are already there are not computed again
      const most = stepOf(model, o.together);
      await model.reset(0);
      for (let i = 0; i + 1 < prompt.length; i += most) await model.prefill(prompt.slice(i, Math.min(i + most, prompt.length - 1)));
    }
    const drawn = [], tokens = model.draw(prompt, o);
    for (let next; ; drawn.push(next.value)) if ((next = await tokens.next()).done) { result = next.value; break; }
    process.stdout.write(`${drawn.join(' ')}\n`);
  } else {
    const input = o.chat !== undefined ? [{ role: 'user', content: o.chat }] : o.tokens ? idsOf(o.tokens) : o.prompt ?? '';
    const text = model.generate(input, o);
    for (let next; ;) {
      if ((next = await text.next()).done) { result = next.value; break; }
      process.stdout.write(next.value);
    }
    process.stdout.write('\n');
  }
  const rate = (result.tokens / ((performance.now() - start) / 1e3)).toFixed(1);
  if (!o.quiet) process.stderr.write(`${result.tokens} tokens (${result.reason}), ${rate} tok/s with the prompt\n`);
}

/** WebGPU for Node: npm's package of that name, found beside this file, in the current folder, or in $NODE_PATH. */
async function webgpu(profiles) {
  if (about().engine !== 'webgpu' || globalThis.navigator?.gpu) return undefined;
  const paths = [dirname(fileURLToPath(import.meta.url)), process.cwd()];
  let found;
  try {
    found = createRequire(import.meta.url).resolve('webgpu', { paths });
  } catch (error) {
    throw new ModelError('no_webgpu', 'Node has no WebGPU: run `npm install webgpu` in this folder, or in a folder of $NODE_PATH.', error);
  }
  const { create, globals } = await import(pathToFileURL(found).href);
  Object.assign(globalThis, globals);
  return create(profiles ? ['disable-dawn-features=timestamp_quantization'] : []);
}

const o = options(process.argv.slice(2));
if (o.help) {
  process.stdout.write(help);
  process.exit(0);
}
try {
  const { randomWeights, profile: timed, without, fallback, noSubgroups } = o;
  let missing = null;
  const gpu = await webgpu(timed).catch((error) => {
    if (fallback === undefined || error.code !== 'no_webgpu') throw error;
    missing = error;
  });
  const how = { randomWeights, profile: timed, without, fallback, subgroups: !noSubgroups };
  const model = await load({ gpu, lazy: true, ...how }), { fellBack } = model.about();
  if (fellBack) process.stderr.write(`run.js: warning: ${(missing ?? fellBack).message} The processor computes instead.\n`);
  if (o.target !== undefined && o.target !== model.info.target) usage(`--target: the model was built for ${model.info.target}`);
  if (o.info) process.stdout.write(`${JSON.stringify(model.info, null, 2)}\n`);
  else if (o.bench) await bench(model, o);
  else if (o.testKernels) process.exitCode = await testAll(model) ? 0 : 1;
  else if (o.profile) await profile(model, o);
  else if (o.rows) writeAll(o.rows, await rowsOf(model, promptOf(model, o), o.together));
  else {
    if (o.logits) writeAll(o.logits, await rowsOf(model, promptOf(model, o), o.together));
    if (!o.logits || o.maxTokens) await write(model, o);
  }
  model.close();
} catch (error) {
  process.stderr.write(`run.js: ${error.message}\n`);
  const codes = { context_full: 6, out_of_memory: 5, wrong_hash: 4, wrong_size: 4, not_finite: 4 };
  process.exitCode = error instanceof ModelError ? codes[error.code] ?? 1 : 1;
}
