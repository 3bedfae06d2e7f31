// model.js -- the model of this folder in a page, a worker or Node: `const model = await load()`.  An ES module without dependencies;
// model.d.ts has its types.  An engine computes the model (class WasmEngine); another engine with the same methods can replace it.

import { openCache } from './cache.js';
import { GpuEngine } from './gpu.js'; // @webgpu: null in a folder without gpu.js

const facts = null; // @facts: what the module was built with, written by forgec
// The address of each file that is fetched, in the form in which bundlers find and copy it.
const addresses = null; // @addresses: { 'model.bin': () => new URL('./model.bin', import.meta.url), ... }, written by forgec

/** Every failure: `code` for programs, `message` (one sentence) for people. */
export class ModelError extends Error {
  constructor(code, message, cause) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ModelError';
    this.code = code;
  }
}

// ---- arguments of callers ----

const badArgument = (text, cause) => new ModelError('bad_argument', text, cause);

/** A value as messages show it. */
function shown(value) {
  if (Array.isArray(value)) return 'an array';
  if (isObject(value)) return 'an object';
  if (typeof value === 'function') return 'a function';
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value);
  return text.length > 60 ? `${text.slice(0, 60)}...` : text;
}

const isObject = (value) => value !== null && typeof value === 'object';

function optionsOf(options) {
  if (!isObject(options)) throw badArgument(`The options are ${shown(options)} and not an object.`);
  return options;
}

function textOf(value, name) {
  if (typeof value !== 'string') throw badArgument(`${name} is ${shown(value)} and not a text.`);
  return value;
}

function functionOf(value, name) {
  if (value != null && typeof value !== 'function') throw badArgument(`${name} is ${shown(value)} and not a function.`);
  return value;
}

function number(options, name, otherwise, least, most) {
  const value = options[name] ?? otherwise;
  if (typeof value !== 'number' || !(value >= least && value <= most))
    throw badArgument(`${name} is ${shown(value)} and not a number from ${least} to ${most}.`);
  return value;
}

function whole(options, name, otherwise, least, most) {
  const value = number(options, name, otherwise, least, most);
  if (value !== Infinity && !Number.isInteger(value)) throw badArgument(`${name} is ${value} and not a whole number.`);
  return value;
}

function tokenOf(value, nVocab) {
  if (!Number.isInteger(value) || value < 0 || value >= nVocab)
    throw badArgument(`${shown(value)} is not a token: tokens are whole numbers from 0 to ${nVocab - 1}.`);
  return value;
}

function tokensOf(value, nVocab) {
  if (!isObject(value) || typeof value[Symbol.iterator] !== 'function')
    throw badArgument(`The tokens are ${shown(value)} and not a list of numbers.`);
  return Array.from(value, (token) => tokenOf(token, nVocab));
}

function stopsOf(stop) {
  const stops = typeof stop === 'string' ? [stop] : stop ?? [];
  if (!Array.isArray(stops)) throw badArgument(`stop is ${shown(stop)} and not a text or an array of texts.`);
  return stops.map((text) => textOf(text, 'A text of stop')).filter((text) => text.length > 0);
}

function jsonOf(value, name) {
  if (!isObject(value)) throw badArgument(`${name} is ${shown(value)} and not an object.`);
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw badArgument(`${name} cannot be written as JSON: ${error.message.split('\n')[0]}.`, error);
  }
}

// enum model_status
const MORE = 1, OK = 0, NO_TOKENIZER = -7, NO_ROOM = -8, CANNOT_REWIND = -14, NO_TEMPLATE = -17, REFUSED = -18, STUCK = -19;
const statusCodes = {
  [-1]: 'bad_argument', [-2]: 'out_of_memory', [-3]: 'wrong_hash', [-4]: 'context_full', [NO_TOKENIZER]: 'no_tokenizer', [NO_ROOM]: 'no_room',
  [-13]: 'not_finite', [CANNOT_REWIND]: 'cannot_rewind', [-16]: 'wrong_kind', [NO_TEMPLATE]: 'no_template', [REFUSED]: 'refused', [STUCK]: 'stuck',
};
const SPECIAL = 1, ADD_BOS = 2;                                           // flags of encode
const GRAMMAR = 0, SCHEMA = 1;                                            // enum model_grammar_kind
const EVENTS = ['content', 'reasoning', 'call', 'arguments', 'call_end']; // enum model_event_kind
const REFUSAL_BYTES = 308, PIECE_BYTES = 4096, PAGE = 65536;

const up = (n, to) => Math.ceil(n / to) * to;
const linear = ([each, fixed], n) => each * n + fixed;

// ---- files ----

const isNode = typeof process === 'object' && !!process.versions?.node;
/** A module of Node.  The name is not a constant, so that bundlers for browsers do not look for it. */
const fromNode = (name) => import(/* webpackIgnore: true */ /* @vite-ignore */ `node:${name}`);

function aborted(signal) {
  if (signal != null && typeof signal.aborted !== 'boolean') throw badArgument(`signal is ${shown(signal)} and not an AbortSignal.`);
  if (signal?.aborted) throw new ModelError('aborted', 'The caller aborted this.', signal.reason);
}

const bytesOf = (list) => list.reduce((sum, file) => sum + file.bytes, 0);
const allFiles = (facts) => [facts.module, facts.kernels, facts.launches, ...facts.weights].filter(Boolean);

/** Reads a file of this machine into `target` from `at` on, or into an array of its own. */
async function readLocal(url, file, target, at, progress, signal) {
  const { open } = await fromNode('fs/promises');
  let handle;
  try {
    handle = await open(url, 'r');
  } catch (error) {
    throw new ModelError(error.code === 'ENOENT' ? 'not_found' : 'network', `${file.file} cannot be opened: ${error.message}.`, error);
  }
  try {
    const { size } = await handle.stat();
    if (size !== file.bytes) throw wrongSize(file, size);
    for (let done = 0; done < file.bytes;) {
      aborted(signal);
      const { bytesRead } = await handle.read(target, at + done, Math.min(file.bytes - done, 1 << 22), done);
      if (bytesRead === 0) throw wrongSize(file, done);
      done += bytesRead;
      progress(bytesRead);
    }
  } finally {
    await handle.close();
  }
}

function wrongSize(file, size) {
  return new ModelError('wrong_size', `${file.file} has ${size} bytes and not ${file.bytes}: it is cut short or from another build.`);
}

/** Many servers of applications answer with a page, and status 200, where a file is missing. */
function isPage(response, bytes) {
  return bytes[0] === 0x3c && /^text\/html\b/i.test(response.headers.get('Content-Type') ?? '');
}

/** The same from a server.  The first `from` bytes are already there, but the server may have to send them again.  kept: stores the
 * bytes that arrive; local: receives the number of bytes that are sent again. */
async function readRemote(fetcher, url, file, target, at, progress, signal, from = 0, kept = null, local = null) {
  let response, done = 0;
  try {
    const init = { signal, cache: kept ? 'no-store' : 'no-cache' };    // kept by us, or by the browser, which asks the server whether its
                                                                       // copy is still valid
    if (from > 0) init.headers = { Range: `bytes=${from}-` };
    response = await fetcher(url, init);
  } catch (error) {
    aborted(signal);
    if (globalThis.navigator?.onLine === false)
      throw new ModelError('offline', `There is no network, and ${file.file} is not kept on this device.`, error);
    throw new ModelError('network', `${file.file} cannot be fetched: ${error.message}.`, error);
  }
  if (from > 0 && (response.status === 206 || response.status === 416)) {
    if (response.headers.get('Content-Range') !== `bytes ${from}-${file.bytes - 1}/${file.bytes}`) {
      response.body?.cancel().catch(() => {});
      local(-from);
      return readRemote(fetcher, url, file, target, at, progress, signal, 0, kept);
    }
    done = from;
  } else if (from > 0 && response.ok) local(-from);
  if (response.status === 404) throw new ModelError('not_found', `${file.file} is not there: ${url} gives status 404.`);
  if (!response.ok) throw new ModelError('http', `${file.file} cannot be fetched: ${url} gives status ${response.status}.`);
  const take = async (bytes) => {
    if (done === 0 && isPage(response, bytes))
      throw new ModelError('not_found', `${file.file} is not there: ${url} gives an HTML page with status ${response.status}. ` +
                                        'Copy the folder to the server and give load() its address as base.');
    if (done + bytes.length > file.bytes) throw wrongSize(file, `more than ${file.bytes}`);
    target.set(bytes, at + done);
    await kept?.write(bytes, done);
    done += bytes.length;
    progress(bytes.length);
  };
  try {
    if (!response.body) await take(new Uint8Array(await response.arrayBuffer()));
    else {
      const reader = response.body.getReader();
      try {
        for (let part; !(part = await reader.read()).done;) await take(part.value);
      } catch (error) {
        reader.cancel().catch(() => {});
        throw error;
      }
    }
  } catch (error) {
    aborted(signal);
    if (error instanceof ModelError) throw error;
    throw new ModelError('network', `${file.file} broke off after ${done} bytes: ${error.message}.`, error);
  }
  if (done !== file.bytes) throw wrongSize(file, done);
}

/** SHA-256 in hex; null if it is not available: on pages that were loaded neither by https nor from this machine. */
async function sha256(bytes) {
  const { subtle } = globalThis.crypto ?? (isNode ? (await fromNode('crypto')).webcrypto : {});
  if (!subtle) return null;
  return Array.from(new Uint8Array(await subtle.digest('SHA-256', bytes)), (b) => b.toString(16).padStart(2, '0')).join('');
}

function parsed(address, from) {
  try {
    return new URL(address, from);
  } catch {
    return null;
  }
}

/** Where a file lies beside this script.  Some bundlers (Turbopack) give a path on the server instead of an address. */
function ownAddress(path) {
  let url = null, cause;
  try {
    const { href } = addresses[path](), { location } = globalThis;
    url = parsed(href) ?? parsed(href, location?.href) ?? parsed(href, location?.origin);
  } catch (error) {
    cause = error;
  }
  if (!url) throw badArgument('This script does not know its own address: give load() the address of the folder as base.', cause);
  return url;
}

/** The caller's `base` as the address of a folder. */
function folderAt(base) {
  const url = parsed(base) ?? parsed(base, globalThis.location?.href ?? ownAddress('model.bin'));
  if (!url) throw badArgument(`base is ${shown(base)} and not the address of a folder.`);
  if (!url.pathname.endsWith('/')) url.pathname += '/';
  return url;
}

/** Reads files of the folder; `get` returns false if a hash could not be compared. */
class Files {
  constructor({ base, fetch: fetcher, signal, onProgress, cache }, facts) {
    this.folder = facts.folder ?? '';
    this.base = base == null ? null : folderAt(base);
    this.key = this.#key(facts);
    this.build = facts.build;
    this.fetcher = fetcher;
    this.signal = signal;
    this.onProgress = onProgress;
    this.loaded = this.cached = 0;
    this.caches = cache === true && !isNode;
    this.cache = null;
    this.storage = Object.freeze({ kind: 'none', note: '' });
    this.total = bytesOf(allFiles(facts));
  }

  /** The address of a file: in `base`, or where the folder or the bundler has it. */
  #address({ file }) { return this.base ? new URL(this.folder + file, this.base) : ownAddress(this.folder + file); }

  /** What names the kept weights: the folder's address, or, if a bundler gave the files other names, that of the package. */
  #key({ package: name, module }) {
    const { href, protocol } = this.#address(module);
    if (href.endsWith(`/${module.file}`)) return new URL('.', href).href;
    return protocol === 'data:' ? name : new URL(`${name}/${this.folder}`, href).href;
  }

  #tell(bytes, file, more) {
    this.loaded += bytes;
    this.onProgress?.({ phase: 'download', loaded: this.loaded, total: this.total, cached: this.cached, file, ...more });
  }

  /** Reports how many of the kernels are compiled; this happens in parallel with the download. */
  tellCompiled(compiled, kernels) { this.#tell(0, '', { phase: 'compile', compiled, kernels }); }

  /** Keeps weights on this device while `work` reads them, if the caller wants that and the browser has a place for them. */
  async keeping(work) {
    if (!this.caches) return work();
    const onWait = () => this.#tell(0, '', { waiting: true });
    try {
      this.cache = await openCache(this.key, this.build, { signal: this.signal, onWait });
    } catch (error) {
      aborted(this.signal);
      throw error;
    }
    try {
      return await work();
    } finally {
      this.storage = Object.freeze({ kind: this.cache.kind, note: this.cache.note });
      this.cache.close();
      this.cache = null;
    }
  }

  /** The contents of a packed file as a response of this type, which is unpacked while it is read. */
  async unpacked(file, type) {
    const bytes = new Uint8Array(file.bytes);
    await this.get(file, bytes, 0);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Response(stream, { headers: { 'Content-Type': type } });
  }

  async get(file, target, at) {
    for (const kept = this.cache?.piece(file) ?? null; ;) {
      aborted(this.signal);
      let had = 0;                                       // of the reported bytes, those that were already here
      const url = this.#address(file), progress = (bytes) => this.#tell(bytes, file.file);
      const local = (bytes) => { had += bytes; this.cached += bytes; progress(bytes); };
      const from = kept ? await kept.read(target, at, local) : 0;
      try {
        if (!this.fetcher && url.protocol === 'file:' && isNode) await readLocal(url, file, target, at, progress, this.signal);
        else if (from < file.bytes) await readRemote(this.fetcher ?? fetch, url.href, file, target, at, progress, this.signal, from, kept, local);
      } catch (error) {
        if (error.code === 'wrong_size') await kept?.drop();
        else kept?.close();                              // what arrived is kept: the next attempt continues there
        throw error;
      }
      const bytes = target.subarray(at, at + file.bytes), hash = await sha256(bytes);
      if (hash === null || hash === file.sha256) {
        await kept?.done(bytes);
        return hash !== null;
      }
      await kept?.drop();
      if (had === 0)
        throw new ModelError('wrong_hash', `${file.file} is damaged or from another build: its SHA-256 is not the one of this model.`);
      progress(had - file.bytes);                        // the local copy was damaged: get all of it from the server once more
      local(-had);
      kept.whole = false;
    }
  }
}

// ---- memory ----

/** A module's memory: first permanent data, then room for texts, which is allocated and released at its end. */
class Memory {
  constructor(memory, from, align) {
    this.memory = memory;
    this.at = from;
    this.align = align;
  }

  get u8() { return new Uint8Array(this.memory.buffer); }
  u32(at) { return new DataView(this.memory.buffer).getUint32(at, true); }
  i32(at) { return new DataView(this.memory.buffer).getInt32(at, true); }
  f32(at) { return new DataView(this.memory.buffer).getFloat32(at, true); }

  /** Grows the memory to at least `end`. */
  need(end) {
    const missing = Math.ceil((end - this.memory.buffer.byteLength) / PAGE);
    if (missing <= 0) return;
    try {
      this.memory.grow(missing);
    } catch (error) {
      throw new ModelError('out_of_memory', `There is not enough memory: ${Math.ceil(end / 2 ** 20)} MiB are needed.`, error);
    }
  }

  take(bytes) {
    const at = up(this.at, this.align);
    this.need(at + bytes);
    this.at = at + bytes;
    return at;
  }

  put(bytes) {
    const at = this.take(bytes.length);
    this.u8.set(bytes, at);
    return at;
  }

  /** Releases what `work` allocates. */
  within(work) {
    const at = this.at;
    try {
      return work();
    } finally {
      this.at = at;
    }
  }
}

const utf8 = new TextEncoder();

function cString(memory, at) {
  const bytes = memory.u8;
  return new TextDecoder().decode(bytes.subarray(at, bytes.indexOf(0, at)));
}

// ---- the engine ----

/** Computes steps of the model in WebAssembly.  An engine has `tokens` (those of its context) and the methods prefill, rows, embed,
 * readLogits, writeLogits, sample, reset, about and close, which may return promises; an engine that draws several tokens at once also
 * has `stream`.  Failures are thrown.  readLogits leaves the logits after the last token at logitsAt, where masks expect them;
 * writeLogits takes the logits that masks have changed. */
class WasmEngine {
  constructor(facts, call, memory, check, at) {
    this.facts = facts;
    this.call = call;
    this.memory = memory;
    this.check = check;
    Object.assign(this, at);
    this.tokens = [];
    check(call.open(at.workspace, this.facts.workspaceBytes, at.weights, at.weightsBytes));
  }

  readLogits() { return new Float32Array(this.memory.memory.buffer, this.logitsAt, this.facts.nVocab); }
  writeLogits() {}

  put(tokens) { return this.memory.put(new Uint8Array(Int32Array.from(tokens).buffer)); }

  /** Appends tokens in chunks, between which the page stays responsive. */
  async prefill(tokens, pause, onProgress) {
    const end = this.tokens.length + tokens.length;
    for (let i = 0; i < tokens.length; i += this.facts.chunk) {
      const chunk = tokens.slice(i, i + this.facts.chunk), last = i + chunk.length === tokens.length;
      const status = this.memory.within(
        () => this.call.prefill(this.workspace, this.put(chunk), chunk.length, last ? this.logitsAt : 0, end));
      if (status !== OK) this.tokens.length = this.call.n_past(this.workspace);
      this.check(status);
      this.tokens.push(...chunk);
      onProgress?.(i + chunk.length, tokens.length);
      if (!last || tokens.length === 1) await pause();
    }
  }

  /** The same for at most a chunk, with the logits after each token, or their rows.  expected: the least number of tokens that the text
   * will have. */
  rows(tokens, expected = 0) {
    return this.memory.within(() => {
      const columns = this.facts.embeddings ? this.facts.nEmbd : this.facts.nVocab;
      const at = this.put(tokens), to = this.memory.take(4 * tokens.length * columns);
      this.check(this.call.rows(this.workspace, at, tokens.length, to, expected));
      this.tokens.push(...tokens);
      return new Float32Array(this.memory.memory.buffer, to, tokens.length * columns).slice();
    });
  }

  embed(tokens, asItIs) {
    return this.memory.within(() => {
      const at = this.put(tokens), to = this.memory.take(4 * this.facts.nEmbd);
      this.check(this.call.embed(this.workspace, at, tokens.length, asItIs ? 1 : 0, to));
      return new Float32Array(this.memory.memory.buffer, to, this.facts.nEmbd).slice();
    });
  }

  /** Draws the next token from the logits, which it may change. */
  sample({ temperature, topK, topP, minP, repeatPenalty, repeatLastN }, seed) {
    return this.check(this.call.sample(this.workspace, this.logitsAt, temperature, topK, topP, minP, repeatPenalty, repeatLastN, seed));
  }

  /** Goes back to the first n tokens; false: the model keeps too little of them. */
  reset(n) {
    const status = this.call.reset(this.workspace, n);
    if (status === CANNOT_REWIND) return false;
    this.check(status);
    this.tokens.length = n;
    return true;
  }

  /** What runs the model: `engine`, `device` as words for people, and the `memoryBytes` that it uses. */
  about() {
    return { device: 'WebAssembly with SIMD on one core of the processor', memoryBytes: this.memory.memory.buffer.byteLength };
  }

  close() {}
}

// ---- the model ----

/** Lets the page work, if its last turn was long enough ago. */
function pauser(signal, milliseconds = 12) {
  let last = performance.now();
  // in a worker, code after scheduler.yield runs before waiting messages, so no message could stop a text
  const turn = globalThis.document && globalThis.scheduler?.yield ? () => globalThis.scheduler.yield()
    : typeof setImmediate === 'function' ? () => new Promise((go) => setImmediate(go))
    : () => new Promise((go) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { port1.close(); go(); };
      port2.postMessage(0);
    });
  return async () => {
    if (performance.now() - last >= milliseconds) {
      await turn();
      last = performance.now();
    }
    aborted(signal);
  };
}

/** Text up to the first stop text, passed on as early as it is certain. */
class Stops {
  constructor(stops) {
    this.stops = stopsOf(stops);
    this.held = '';
    this.found = false;
  }

  take(text) {
    if (this.found) return '';
    this.held += text;
    const places = this.stops.map((stop) => this.held.indexOf(stop)).filter((at) => at >= 0);
    this.found = places.length > 0;
    const end = this.found ? Math.min(...places) : this.held.length - this.begun(), out = this.held.slice(0, end);
    this.held = this.found ? '' : this.held.slice(end);
    return out;
  }

  /** The number of characters at the end with which a stop text may begin. */
  begun() {
    for (let n = Math.min(this.held.length, Math.max(0, ...this.stops.map((stop) => stop.length - 1))); n > 0; n--)
      if (this.stops.some((stop) => stop.startsWith(this.held.slice(-n)))) return n;
    return 0;
  }

  end() {
    const out = this.held;
    this.held = '';
    return out;
  }
}

export class Model {
  #facts; #fellBack; #call; #memory; #engine; #check; #storage; #tell = null; #busy = false; #closed = false; #defaults;

  /** Use load(). */
  constructor(parts) {
    const facts = this.#facts = parts.facts;
    this.#fellBack = parts.fellBack;
    this.#call = parts.call;
    this.#memory = parts.memory;
    this.#engine = parts.engine;
    this.#check = parts.check;
    this.#storage = parts.storage;
    parts.hear((...event) => this.#tell?.(...event));
    const at = this.#call.suggested(), float = (i) => this.#memory.f32(at + 4 * i), whole = (i) => this.#memory.i32(at + 4 * i);
    const or = (value, otherwise) => (value >= 0 ? Number(value.toPrecision(7)) : otherwise);
    this.#defaults = { temperature: or(float(0), 0.8), topK: or(whole(4), 40), topP: or(float(1), 0.95), minP: or(float(2), 0.05),
                       repeatPenalty: or(float(3), 1), repeatLastN: Math.min(or(whole(5), 64), 64) };
    this.info = Object.freeze({ name: facts.name, target: facts.target, build: facts.build, forgec: facts.forgec, nVocab: facts.nVocab,
                                nCtx: facts.nCtx, nEmbd: facts.nEmbd, chunk: facts.chunk, embeddings: facts.embeddings,
                                hasTokenizer: facts.hasTokenizer, hasChat: facts.hasChat, hasGrammar: facts.hasGrammar,
                                weightsBytes: bytesOf(facts.weights),
                                memoryBytes: this.#memory.memory.buffer.byteLength, sampling: Object.freeze({ ...this.#defaults }) });
  }

  /** For people: what the model is, what runs it, whether its weights are kept on this device, and why the processor computes if WebGPU
   * was wanted. */
  about() { return { ...card(this.#facts), ...this.#engine.about(), storage: this.#storage, fellBack: this.#fellBack }; }

  // ---- text ----

  /** The tokens of a text.  bos: with the token that begins a text, if the model wants it; special: texts of control tokens become these
   * tokens. */
  encode(text, options = {}) {
    this.#ready(false);
    const { bos = true, special = false } = optionsOf(options);
    const bytes = utf8.encode(textOf(text, 'The text'));
    return this.#memory.within(() => {
      const from = this.#memory.put(bytes), capacity = bytes.length + 8;
      const scratchBytes = linear(this.#facts.encodeBytes, bytes.length), scratch = this.#memory.take(scratchBytes);
      const to = this.#memory.take(4 * capacity);
      const flags = (bos ? ADD_BOS : 0) | (special ? SPECIAL : 0);
      const n = this.#check(this.#call.encode(from, bytes.length, flags, to, capacity, scratch, scratchBytes));
      return Array.from(new Int32Array(this.#memory.memory.buffer, to, n));
    });
  }

  /** The bytes of one token, perhaps a part of a character. */
  pieces(token) {
    this.#ready(false);
    tokenOf(token, this.#facts.nVocab);
    return this.#memory.within(() => {
      for (let capacity = PIECE_BYTES; ;) {
        const to = this.#memory.take(capacity), n = this.#check(this.#call.decode(token, to, capacity));
        if (n <= capacity) return this.#memory.u8.slice(to, to + n);
        capacity = n;
      }
    });
  }

  /** The text of a token, or of several tokens together. */
  decode(tokens) {
    const decoder = new TextDecoder();
    let text = '';
    for (const token of this.#tokens(typeof tokens === 'number' ? [tokens] : tokens)) text += decoder.decode(this.pieces(token), { stream: true });
    return text + decoder.decode();
  }

  get bos() { return this.#call.bos(); }
  get eos() { return this.#call.eos(); }
  isEnd(token) { return this.#call.is_end(token) !== 0; }

  // ---- steps ----

  get nPast() { return this.#engine.tokens.length; }
  get tokens() { return this.#engine.tokens.slice(); }
  /** The logits after the last token. */
  async logits() { return this.#alone(async () => (await this.#engine.readLogits()).slice()); }

  /** Appends tokens to the context. */
  async prefill(tokens, options = {}) {
    return this.#alone(() => {
      const { signal, onProgress } = optionsOf(options);
      return this.#append(this.#tokens(tokens), signal, functionOf(onProgress, 'onProgress'));
    });
  }

  /** Appends one token. */
  async step(token, options) { return this.prefill([token], options); }

  /** Appends at most info.chunk tokens and returns the logits after each: [n][nVocab]; for an embedding model its rows: [n][nEmbd].
   * expected: the least number of tokens that the text will have, if known. */
  async rows(tokens, options = {}) {
    return this.#alone(() => {
      const list = this.#tokens(tokens), expected = whole(optionsOf(options), 'expected', 0, 0, 2 ** 31 - 1);
      this.#fits(list.length);
      return this.#engine.rows(list, expected);
    });
  }

  /** The times of the kernels in a step of nTokens tokens, from an engine that can measure them (WebGPU, loaded with `profile`). */
  async profile(nTokens, repeats) {
    return this.#alone(() => {
      if (this.#engine.profile) return this.#engine.profile(nTokens, repeats);
      throw new ModelError('wrong_kind', 'Only WebGPU can measure the times of single kernels.');
    });
  }

  /** Runs `work` with the single kernels (WebGPU: `kernels` of gpu.js), for tests; the context is empty afterwards. */
  async withKernels(work) {
    return this.#alone(async () => {
      if (this.#engine.kernels) return work(await this.#engine.kernels());
      throw new ModelError('wrong_kind', 'Only WebGPU can run single kernels.');
    });
  }

  /** Draws the next token from the logits with the model's sampler. */
  async sample(options = {}) {
    return this.#alone(() => this.#engine.sample(this.#sampling(optionsOf(options)), this.#seed(options, 0)));
  }

  /** Goes back to the first n tokens.  Rejects with cannot_rewind if the model keeps too little of them; 0 is always possible. */
  async reset(n = 0) {
    return this.#alone(async () => {
      if (!Number.isInteger(n) || n < 0 || n > this.nPast)
        throw badArgument(`reset: ${shown(n)} is not a number of tokens from 0 to ${this.nPast}.`);
      if (!await this.#engine.reset(n))
        throw new ModelError('cannot_rewind', `The model cannot go back to ${n} tokens: reset to 0 and append them again.`);
    });
  }

  /** The vector of a text or of tokens, from an embedding model. */
  async embed(input, options = {}) {
    return this.#alone(() => {
      const { asItIs = false } = optionsOf(options);
      const tokens = typeof input === 'string' ? this.encode(input, { special: true }) : this.#tokens(input);
      if (tokens.length > this.#facts.nCtx) throw this.#full(tokens.length, 0);
      return this.#engine.embed(tokens, asItIs);
    });
  }

  // ---- generation ----

  /** The text after a prompt (a string, or tokens), or the content of an answer to messages, piece by piece. */
  async *generate(input, options = {}) {
    const isTokens = ArrayBuffer.isView(input) || (Array.isArray(input) && !isObject(input[0]));
    if (isObject(input) && !isTokens) {
      const events = this.chat(input, options);
      try {
        for (let next; ;) {
          next = await events.next();
          if (next.done) return next.value;
          if (next.value.type === 'content') yield next.value.text;
        }
      } finally {
        await events.return();
      }
    }
    const run = this.#begin(options);
    try {
      const prompt = isTokens ? this.#tokens(input) : this.encode(textOf(input, 'The prompt'), { special: options.special ?? true });
      const decoder = new TextDecoder(), stops = new Stops(options.stop);
      const tokens = this.#draw(prompt.length ? prompt : [Math.max(this.bos, 0)], options, run);
      for (let next; ;) {
        next = await tokens.next();
        const text = next.done ? stops.take(decoder.decode()) + stops.end()
          : stops.take(decoder.decode(this.pieces(next.value), { stream: true }));
        if (text) yield text;
        if (next.done) return next.value;
        if (stops.found) return { reason: 'stop', tokens: run.drawn };
      }
    } finally {
      this.#end(run);
    }
  }

  /** The answer to a conversation (messages, or a request with messages, tools ... in OpenAI's form) as events: content, reasoning, and
   * tool calls. */
  async *chat(input, options = {}) {
    const run = this.#begin(options), events = [], decoders = new Map(), stops = new Stops(options.stop);
    const push = (kind, call, text, id) => {
      const type = EVENTS[kind], key = `${type} ${call}`;
      if (!decoders.has(key)) decoders.set(key, new TextDecoder());
      let words = text.length ? decoders.get(key).decode(text, { stream: true }) : '';
      if (type === 'content') words = stops.take(words);
      if (words || type === 'call' || type === 'call_end')
        events.push({ type, ...(words && { text: words }), ...(kind >= 2 && { call }), ...(id && { id }) });
    };
    try {
      const { prompt, answer } = this.#render(jsonOf(Array.isArray(input) ? { messages: input } : input, 'The conversation'));
      this.#tell = (kind, call, text, n, id, nId) =>
        push(kind, call, this.#bytes(text, n), nId ? new TextDecoder().decode(this.#bytes(id, nId)) : '');
      run.inReasoning = () => this.#call.answer_in_reasoning(answer) !== 0;
      const tokens = this.#draw(prompt, options, run);
      for (let next, ended = false; ;) {
        next = await tokens.next();
        if (next.done) this.#call.answer_end(answer);
        else ended = this.#check(this.#call.answer_token(answer, next.value)) !== MORE;
        if (next.done && stops.held) events.push({ type: 'content', text: stops.end() });
        for (const event of events.splice(0)) yield event;
        if (next.done) return next.value;
        if (ended || stops.found) return { reason: ended ? 'end' : 'stop', tokens: run.drawn };
      }
    } finally {
      this.#tell = null;
      this.#end(run);
    }
  }

  /** After this the model cannot be used any more; its memory is freed when nothing refers to it. */
  close() {
    this.#engine.close();
    this.#closed = true;
  }

  // ---- private ----

  #ready(alone) {
    if (this.#closed) throw new ModelError('closed', 'The model was closed.');
    if (alone && this.#busy) throw new ModelError('busy', 'The model is busy: it makes one text at a time.');
  }

  async #alone(work) {
    this.#ready(true);
    this.#busy = true;
    try {
      return await work();
    } finally {
      this.#busy = false;
    }
  }

  #tokens(list) { return tokensOf(list, this.#facts.nVocab); }

  #full(wanted, past) {
    return new ModelError('context_full', `${wanted} tokens do not fit after ${past}: the context has ${this.#facts.nCtx}.`);
  }

  #fits(n) {
    if (n === 0) throw badArgument('There are no tokens to append.');
    if (n > this.#facts.nCtx - this.nPast) throw this.#full(n, this.nPast);
  }

  async #append(tokens, signal, onProgress) {
    this.#fits(tokens.length);
    await this.#engine.prefill(tokens, pauser(signal), onProgress);
  }

  #sampling(options) {
    const d = this.#defaults;
    return { temperature: number(options, 'temperature', d.temperature, 0, 1e30), topK: whole(options, 'topK', d.topK, 0, 2 ** 31 - 1),
             topP: number(options, 'topP', d.topP, 0, 1), minP: number(options, 'minP', d.minP, 0, 1),
             repeatPenalty: number(options, 'repeatPenalty', d.repeatPenalty, 0, 1e30),
             repeatLastN: whole(options, 'repeatLastN', d.repeatLastN, 0, 64) };
  }

  #seed(options, otherwise) { return whole(options, 'seed', otherwise, 0, Number.MAX_SAFE_INTEGER); }

  /** Begins a text: only one at a time; its memory is released at its end. */
  #begin(options) {
    this.#ready(true);
    optionsOf(options);
    functionOf(options.onProgress, 'onProgress');
    if (this.#facts.embeddings) throw new ModelError('wrong_kind', 'This is an embedding model: it writes no text; call embed().');
    const run = { mark: this.#memory.at, sampling: this.#sampling(options),
                  seed: this.#seed(options, 1 + Math.floor(Math.random() * 2 ** 52)),
                  most: whole(options, 'maxTokens', Infinity, 0, Infinity), drawn: 0, inReasoning: () => false };
    this.#busy = true;
    return run;
  }

  #end(run) {
    this.#memory.at = run.mark;
    this.#busy = false;
  }

  /** The prompt of a conversation, which is a request as JSON, and an object that reads its answer. */
  #render(request) {
    if (!this.#facts.hasChat) this.#check(this.#facts.hasTokenizer ? NO_TEMPLATE : NO_TOKENIZER);
    const text = utf8.encode(request), at = this.#memory.put(text), refusal = this.#memory.take(REFUSAL_BYTES);
    const now = Math.floor(Date.now() / 1000 - 60 * new Date().getTimezoneOffset());
    for (let bytes = linear(this.#facts.chatBytes, text.length); ; bytes *= 2) {
      const mark = this.#memory.at, chat = this.#memory.take(bytes);
      let status = this.#call.chat_open(chat, bytes, at, text.length, now, refusal);
      if (status === OK) {
        const most = this.#call.chat_bytes(chat) + 8, to = this.#memory.take(4 * most), n = this.#call.chat_tokens(chat, to, most);
        if (n > this.#facts.nCtx) throw this.#full(n, 0);
        if (n >= 0) {
          const prompt = Array.from(new Int32Array(this.#memory.memory.buffer, to, n)), answer = this.#memory.take(this.#facts.answerBytes);
          this.#check(this.#call.answer_open(answer, this.#facts.answerBytes, chat));
          return { prompt, answer };
        }
        status = n;
      }
      if (status === REFUSED) throw this.#refused('The chat template does not take the conversation', refusal);
      if (status !== NO_ROOM || bytes > 2 ** 30) this.#check(status);
      this.#memory.at = mark;
    }
  }

  /** Converts an address and a number from the module, which arrive in JavaScript as signed values. */
  #bytes(at, n) { return this.#memory.u8.slice(at >>> 0, (at >>> 0) + (n >>> 0)); }

  #refused(what, refusal) {
    const line = this.#memory.u32(refusal), place = line ? ` (line ${line}, column ${this.#memory.u32(refusal + 4)})` : '';
    return new ModelError('refused', `${what}${place}: ${cString(this.#memory, refusal + 8)}.`);
  }

  /** Makes what masks forbidden tokens: 0, or a mask in the run's memory. */
  #mask(options) {
    if (options.grammar === undefined && options.schema === undefined && !this.#facts.hasGrammar) return 0;
    const memory = this.#memory, call = this.#call, used = memory.take(8), out = memory.take(8), refusal = memory.take(REFUSAL_BYTES);
    const lexicon = memory.take(this.#facts.lexiconBytes), mask = memory.take(this.#facts.maskBytes);
    this.#check(call.lexicon_open(lexicon, this.#facts.lexiconBytes, used));
    let grammar = call.grammar_built_in();
    if (options.grammar !== undefined || options.schema !== undefined) {
      const kind = options.grammar !== undefined ? GRAMMAR : SCHEMA;
      const text = utf8.encode(kind === GRAMMAR ? textOf(options.grammar, 'grammar') : jsonOf(options.schema, 'schema')), at = memory.put(text);
      for (let bytes = linear(kind === GRAMMAR ? this.#facts.grammarBytes : this.#facts.schemaBytes, text.length); ; bytes *= 2) {
        const mark = memory.at, status = call.grammar_open(out, memory.take(bytes), bytes, kind, at, text.length, used, refusal);
        if (status === REFUSED) throw this.#refused(kind === GRAMMAR ? 'The grammar cannot be' : 'The schema cannot be', refusal);
        if (status === OK) break;
        if (status !== NO_ROOM || bytes > 2 ** 30) this.#check(status);
        memory.at = mark;
      }
      grammar = memory.u32(out);
    }
    this.#check(call.mask_open(mask, this.#facts.maskBytes, grammar, lexicon));
    return mask;
  }

  /** Draws tokens after a prompt.  The part of the prompt that is already in the context is kept. */
  async *#draw(prompt, { signal, onProgress, ignoreEnd = false, grammar, schema }, run) {
    if (prompt.length > this.#facts.nCtx) throw this.#full(prompt.length, 0);
    const mask = this.#mask({ grammar, schema }), pause = pauser(signal), past = this.#engine.tokens;
    let common = 0;
    while (common < prompt.length - 1 && past[common] === prompt[common]) common++;
    if (common < past.length && !await this.#engine.reset(common)) await this.#engine.reset(common = 0);
    await this.#append(prompt.slice(common), signal, onProgress);
    if (this.#engine.stream && !mask) return yield* this.#stream(run, signal, ignoreEnd);
    for (let seed = run.seed; run.drawn < run.most; seed = 0) {
      const guides = mask !== 0 && !run.inReasoning();
      if (guides) {
        await this.#engine.readLogits();
        const status = this.#call.mask_logits(mask, this.#engine.logitsAt);
        if (status === STUCK && this.#call.mask_may_end(mask)) return { reason: 'end', tokens: run.drawn };
        this.#check(status);
        this.#engine.writeLogits();
      }
      const token = await this.#engine.sample(run.sampling, seed);
      if (this.isEnd(token) && !ignoreEnd) return { reason: 'end', tokens: run.drawn };
      if (guides) this.#check(this.#call.mask_token(mask, token));
      run.drawn++;
      yield token;
      if (run.drawn >= run.most) break;
      if (this.nPast === this.#facts.nCtx) return { reason: 'context', tokens: run.drawn };
      await this.#engine.prefill([token], pause);
    }
    return { reason: 'length', tokens: run.drawn };
  }

  /** Draws tokens with an engine that draws several at once. */
  async *#stream(run, signal, ignoreEnd) {
    for await (const token of this.#engine.stream(run.sampling, run.seed, run.most - run.drawn)) {
      aborted(signal);
      if (this.isEnd(token) && !ignoreEnd) return { reason: 'end', tokens: run.drawn };
      run.drawn++;
      yield token;
    }
    return { reason: run.drawn < run.most ? 'context' : 'length', tokens: run.drawn };
  }

  /** Yields the tokens after the given tokens as they are drawn, for callers that make the text elsewhere. */
  async *draw(prompt, options = {}) {
    const run = this.#begin(options);
    try {
      return yield* this.#draw(this.#tokens(prompt), options, run);
    } finally {
      this.#end(run);
    }
  }
}

// ---- loading ----

const card = (facts) => ({ name: facts.name, target: facts.target, build: facts.build, engine: facts.engine, bytes: bytesOf(allFiles(facts)) });

/** What is known before anything is loaded; fallbackBytes: size of what load({ fallback: 'wasm' }) may load instead, 0: no fallback. */
export const about = () => ({ ...card(facts), fallbackBytes: facts.fallback ? bytesOf(allFiles(facts.fallback)) : 0 });

// A function that returns a vector: only engines with SIMD accept it.
const simdProbe = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0,
                                10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11);

async function openWasm({ facts, exports, files, memory, check }) {
  const weightsBytes = bytesOf(facts.weights);
  const at = { weightsBytes, weights: memory.take(weightsBytes), workspace: memory.take(facts.workspaceBytes),
               logitsAt: memory.take(4 * facts.nVocab) };
  memory.need(memory.at + facts.roomBytes);
  let hashed = true, to = at.weights;
  await files.keeping(async () => {
    for (const file of facts.weights) {
      hashed = await files.get(file, memory.u8, to) && hashed;
      to += file.bytes;
    }
  });
  const engine = new WasmEngine(facts, exports, memory, check, at);
  if (!hashed) check(exports.verify(at.workspace));
  return engine;
}

async function openGpu({ facts, files, memory, options }) {
  const logitsAt = memory.take(4 * facts.nVocab);
  memory.need(memory.at + facts.roomBytes);
  const engine = new GpuEngine({ facts, files, memory, logitsAt, ModelError, options });
  await engine.open();
  return engine;
}

/** Loads the model.  base: the folder's address (default: where this file is); fetch: replaces the global one; onProgress: receives
 * {phase, loaded, total, cached, file}, and {compiled, kernels} in phase 'compile'; signal: an AbortSignal; cache: keep weights on the
 * visitor's device; fallback: 'wasm' computes on the processor if WebGPU is missing or the GPU is too small, and only then. */
export async function load(options = {}) {
  const { fallback } = optionsOf(options);
  if (fallback !== undefined && fallback !== 'wasm') throw badArgument(`fallback is ${shown(fallback)}; the only value is 'wasm'.`);
  functionOf(options.onProgress, 'onProgress');
  functionOf(options.fetch, 'fetch');
  if (fallback && facts.engine === 'webgpu' && !facts.fallback)
    throw new ModelError('no_fallback', 'This folder has nothing to fall back to: build it with -t webgpu,wasm32.');
  if (typeof WebAssembly !== 'object' || !WebAssembly.validate(simdProbe) || typeof DecompressionStream !== 'function')
    throw new ModelError('no_simd', 'This browser is too old: it lacks WebAssembly with SIMD or DecompressionStream, which the model needs.');
  try {
    return await open(facts, options, null);
  } catch (error) {
    if (!fallback || !['no_webgpu', 'gpu_too_small'].includes(error.code)) throw error;
    return open(facts.fallback, options, Object.freeze({ code: error.code, message: error.message }));
  }
}

async function open(facts, options, fellBack) {
  const files = new Files(options, facts), code = await files.unpacked(facts.module, 'application/wasm');
  let hear = null, exports;
  try {
    const imports = { env: { tell: (...event) => hear?.(...event) } };
    ({ exports } = (await WebAssembly.instantiateStreaming(code, imports)).instance);
  } catch (error) {
    if (error instanceof RangeError) throw new ModelError('out_of_memory', 'There is not enough memory for the module.', error);
    throw new ModelError('no_simd', `The module cannot be compiled here: ${error.message}.`, error);
  }
  exports.complete();
  const memory = new Memory(exports.memory, exports.__heap_base.value, facts.align);
  const check = (status) => {
    if (status >= 0) return status;
    const text = cString(memory, exports.explain(status));
    throw new ModelError(statusCodes[status] ?? 'failed', `${text[0].toUpperCase()}${text.slice(1)}.`);
  };
  const engine = await (facts.engine === 'webgpu' ? openGpu : openWasm)({ facts, exports, files, memory, check, options });
  return new Model({ facts, fellBack, call: exports, memory, engine, check, storage: files.storage, hear: (listener) => { hear = listener; } });
}

export default load;
