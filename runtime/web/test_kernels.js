// test_kernels.js -- compares each kernel of a model on this GPU with forgec's reference.  `forgec build --kernel-tests` writes tests.json
// and tests.bin: for a short text, the values that groups of kernels read, and the values that they should write.  For every step of the
// text and every launch, the inputs are put into the arena as the reference has them, the launch runs alone, and its results are compared.
// An error is the largest difference in a row, divided by the root of the row's mean square.

const PASSED = 'pass', FAILED = 'FAIL', UNTESTED = '-';
const words = { prefill: 'prompt', decode: 'token' };
const TIMED_MS = 10, TIMED_MOST = 256;                 // how long launches are repeated to measure their time, and how often

/** Prepares tests.json, parsed, and tests.bin, an ArrayBuffer, for testKernels(); compiler/web/tests.c writes them. */
export function readTests({ tokens, steps, values, groups, bytes, floats: floatsBound }, data) {
  if (data.byteLength !== bytes)
    throw new Error(`tests.bin has ${data.byteLength} bytes instead of ${bytes}: it is cut short, or from another build.`);
  const floats = new Float32Array(data);
  const launchOf = (bounds) => ([index, writes]) => ({ index, writes: writes.map(([value, from, to, offset, stride, ofLogits, bound]) =>
    ({ value: values[value], from, to, offset, stride, ofLogits, boundOf: (t) => [0, floatsBound, bounds[t]][bound] })) });
  let nPast = 0;
  values = values.map(([name, at, first, every, count]) => ({
    name, first, every, count, cols: first + (count - 1) * every + 1, row: (t) => floats.subarray(at + t * count, at + (t + 1) * count) }));
  return {
    tokens, values,
    steps: steps.map(([kind, nTokens, nLogits]) => ({ kind, nTokens, nLogits, nPast: (nPast += nTokens) - nTokens })),
    groups: groups.map(({ name, after, reads, bounds, decode, prefill }) => ({
      name, after, reads: reads.map(([value, offset, stride]) => ({ value: values[value], offset, stride })),
      decode: decode.map(launchOf(bounds)), prefill: prefill.map(launchOf(bounds)) })),
  };
}

/** The tokens of a step for which a launch writes rows: [first, end). */
const rowsOf = (launch, { nTokens, nLogits }) => [launch.tail ? nTokens - nLogits : 0, nTokens];
const placeOf = ({ offset, stride, ofLogits }, t, { nTokens, nLogits }) => offset + stride * (ofLogits ? t - (nTokens - nLogits) : t);

/** The part of a bound that an error takes. */
const share = (error, bound) => (Number.isNaN(error) ? Infinity : bound > 0 ? error / bound : error > 0 ? Infinity : 0);

/** Error and bound of the row, among those that a launch wrote, with the largest error relative to its bound. */
async function errorOf(kernels, launch, write, step) {
  const { value, from, to } = write, [begin, end] = rowsOf(launch, step), at = placeOf(write, begin, step);
  const got = new Float32Array(await kernels.read(at, write.stride * (end - 1 - begin) + 4 * value.cols));
  let worst = null;
  for (let t = begin; t < end; t++) {
    const wanted = value.row(step.nPast + t), row = (placeOf(write, t, step) - at) / 4;
    let largest = 0, squares = 0, n = 0;
    for (let i = 0; i < value.count; i++) {
      const column = value.first + i * value.every;
      if (column < from || column >= to) continue;
      const off = Math.abs(got[row + column] - wanted[i]);
      largest = Math.max(largest, off);                // NaN if any value is NaN
      squares += wanted[i] ** 2;
      n++;
    }
    const error = largest / (Math.sqrt(squares / n) || 1), bound = write.boundOf(step.nPast + t);
    if (!worst || share(error, bound) > share(worst.error, worst.bound)) worst = { error, bound };
  }
  return worst;
}

class Tester {
  rows = new Map();                                    // by kernel
  #opened = new Map();

  constructor(kernels, tests) {
    this.kernels = kernels;
    this.tests = tests;
    this.beyond = kernels.beyond(tests.tokens.length);
  }

  row(name, group) {
    if (!this.rows.has(name))
      this.rows.set(name, { name, group, steps: new Set(), error: 0, bound: 0, checks: 0, us: null, problem: null });
    return this.rows.get(name);
  }

  open(kind, index) {
    const key = `${kind} ${index}`;
    if (!this.#opened.has(key)) this.#opened.set(key, this.kernels.open(kind, index));
    return this.#opened.get(key);
  }

  /** Counts one comparison for a kernel; via: the kernel whose result shows it. */
  count(row, { error, bound }, kind, via) {
    row.steps.add(words[kind] ?? kind);
    if (row.checks++ && share(error, bound) <= share(row.error, row.bound)) return;
    Object.assign(row, { error, bound, via });
  }

  /** Writes NaN where results will be, which no kernel writes, then the inputs of the group. */
  #put(group, step) {
    for (const { writes } of group[step.kind])
      for (const write of writes) {
        const begin = write.ofLogits ? step.nTokens - step.nLogits : 0, none = new Float32Array(write.to - write.from).fill(NaN);
        for (let t = begin; t < step.nTokens; t++) this.kernels.write(placeOf(write, t, step) + 4 * write.from, none);
      }
    for (const { value, offset, stride } of group.reads)
      for (let t = 0; t < step.nTokens; t++) this.kernels.write(offset + t * stride, value.row(step.nPast + t));
  }

  /** Runs a group's launches of a step.  hidden: rows of kernels that ran without a comparison of their results so far. */
  async #run(group, step, hidden) {
    this.#put(group, step);
    for (const { index, writes } of group[step.kind]) {
      const name = this.kernels.nameOf(step.kind, index), row = this.row(name, group.name);
      try {
        const launch = await this.open(step.kind, index);
        if (!this.kernels.runs(launch, step)) continue;
        await this.kernels.run(launch, step);
        if (!writes.length) hidden.add(row);
        for (const write of writes) {
          const error = await errorOf(this.kernels, launch, write, step);
          this.count(row, error, step.kind);
          for (const one of hidden) this.count(one, error, step.kind, name);
        }
        if (writes.length) hidden.clear();
      } catch (error) {
        if (error.code === 'device_lost') throw error;
        row.problem ??= error.message;
      }
    }
  }

  /** Microseconds of a launch in this kind of step. */
  async #time(launch, step) {
    let times = 1, ms = await this.kernels.run(launch, step);
    while (ms < TIMED_MS && times < TIMED_MOST) {
      times = Math.min(TIMED_MOST, 4 * times);
      ms = await this.kernels.run(launch, step, times);
    }
    return 1e3 * ms / times;
  }

  /** Runs all steps of one group, then measures its kernels: for a token if they run in decode, else for a prompt. */
  async test(group) {
    const { groups, steps } = this.tests, order = [];
    const add = (one) => {
      one.after.forEach((i) => add(groups[i]));
      if (!order.includes(one)) order.push(one);
    };
    add(group);
    const shows = (one) => [...one.decode, ...one.prefill].some(({ writes }) => writes.length);
    const hidden = new Map(order.map((one) => [one, new Set()]));
    for (const step of steps)
      for (const one of order) await this.#run(one, step, hidden.get(shows(one) ? one : group));
    for (const step of [steps.at(-1), steps[0]])
      for (const { index } of group[step.kind]) {
        const row = this.row(this.kernels.nameOf(step.kind, index));
        if (row.problem || row.us !== null) continue;
        const launch = await this.open(step.kind, index);
        if (this.kernels.runs(launch, step)) Object.assign(row, { us: await this.#time(launch, step), tokens: step.nTokens });
      }
  }

  /** Tests the two kernels that draw a token, on logits with known most probable tokens. */
  async testSample() {
    const rows = ['sample', 'sample_draw'].map((name) => this.row(name, 'sample')), n = this.kernels.nOut;
    let x = 1, wrong = 0;
    const noise = () => (x = Math.imul(x, 1664525) + 1013904223 >>> 0) / 2 ** 32;
    const greedy = { temperature: 0, topK: 0, topP: 0, minP: 0, repeatPenalty: 1, repeatLastN: 0 };
    const kinds = [greedy, { ...greedy, temperature: 0.8, topK: 1 }, { ...greedy, temperature: 1, topP: 0.5 },
                   { ...greedy, temperature: 1, minP: 0.9 }];
    try {
      for (const best of [0, 1, n >> 1, n - 2, n - 1])
        for (const sampling of kinds) {
          const logits = Float32Array.from({ length: n }, () => 8 * noise() - 4);
          logits[best] = 30;
          wrong += await this.kernels.draw(logits, sampling, 1 + best) !== best;
        }
      for (const row of rows) this.count(row, { error: wrong, bound: 0 }, 'token');
      const step = { nTokens: 0, nPast: 0, nLogits: 1 };
      for (const [i, row] of rows.entries()) {
        const launch = { ...await this.open('sample', i), tokens: 0 };       // whatever the step has
        Object.assign(row, { us: await this.#time(launch, step), tokens: 1 });
      }
    } catch (error) {
      if (error.code === 'device_lost') throw error;
      for (const row of rows) row.problem ??= error.message;
    }
  }

  /** The row in its present state: passed, and words for people. */
  shown(row) {
    const { name, group, steps, error, bound, via, checks, us, tokens } = row;
    const untested = !checks && !row.problem && this.beyond.has(name);
    const problem = row.problem ?? (checks ? null : untested ? 'not tested: only longer texts need it' : 'no test reaches it');
    const passed = untested || (!problem && error <= bound);
    return { name, group, steps: [...steps].sort().reverse().join(', '), passed, untested, problem, error, bound, via, us, tokens };
  }
}

/** Tests all kernels of a loaded model; tests: from readTests().  hear: receives {done, total, rows} with all rows so far.  Returns the
 * rows: {name, group, steps, passed, untested, problem, error, bound, via, us, tokens}; untested: the text is too short for the kernel. */
export async function testKernels(model, tests, hear = () => {}) {
  return model.withKernels(async (kernels) => {
    const tester = new Tester(kernels, tests), { groups, tokens } = tests, total = groups.length + 1;
    const rows = () => [...tester.rows.values()].map((row) => tester.shown(row));
    kernels.putTokens(tokens);
    for (const [done, group] of groups.entries()) {
      await tester.test(group);
      hear({ done: done + 1, total, rows: rows() });
    }
    await tester.testSample();
    for (const name of kernels.names) tester.row(name, '');
    hear({ done: total, total, rows: rows() });
    return rows();
  });
}

const number = (x) => (Number.isNaN(x) ? 'not a number' : x === 0 ? '0' : Math.abs(x) < 0.01 || x >= 1e4 ? x.toExponential(1) : x.toPrecision(2));

const time = (us) => (us >= 1e4 ? `${(us / 1e3).toFixed(0)} ms` : `${us < 100 ? us.toPrecision(2) : us.toFixed(0)} us`);

/** The words of a row, with their heads.  If a kernel has no numbers, the fourth word is the last and says why.  The time is for the
 * given number of tokens; if another kernel continues a kernel's result, the error is that of the other kernel. */
export const heads = ['kernel', 'steps', 'result', 'error', 'bound', 'time', 'tokens', 'seen in'];
export function cells(row) {
  const first = [row.name, row.steps, row.untested ? UNTESTED : row.passed ? PASSED : FAILED];
  if (row.problem) return [...first, row.problem];
  return [...first, number(row.error), number(row.bound), row.us === null ? '' : time(row.us), String(row.tokens ?? ''), row.via ?? ''];
}

/** "34 kernels, all pass", "2 of 34 kernels fail", "34 kernels, all pass, and 1 that only longer texts need". */
export function total(rows) {
  const failed = rows.filter((row) => !row.passed).length, untested = rows.filter((row) => row.untested).length;
  const rest = untested ? `, and ${untested} that only longer texts need` : '', n = rows.length - untested;
  return failed ? `${failed} of ${n} kernels fail${rest}` : `${n} kernels, all pass${rest}`;
}

/** The report as text: lines about where it ran, all rows, the total. */
export function report(rows, lines) {
  const table = [heads, ...rows.map(cells)], isText = (i) => i < 3 || i === 7;
  const widths = heads.map((_, i) => Math.max(...table.map((row) => (row.length === heads.length || i < 3 ? row[i].length : 0))));
  const padded = (row) => (cell, i) => (isText(i) || row.length < heads.length ? cell.padEnd(widths[i]) : cell.padStart(widths[i]));
  const line = (row) => row.map(padded(row)).join('  ').trimEnd();
  return [...lines, ...table.map(line), total(rows), ''].join('\n');
}
