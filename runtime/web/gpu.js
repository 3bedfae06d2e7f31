// gpu.js -- the engine of model.js on WebGPU, with the same methods as class WasmEngine.  kernels.bin contains the kernels, launches.bin
// says how they are launched; forgec writes both.  Pipelines, buffers and bind groups are made once, when the model is loaded; a step only
// encodes its launches.

const STEP_BYTES = 16, SAMPLING_BYTES = 64, LAUNCH_BYTES = 256, FIRST_MATRIX = 6;
const TAIL_AT = 16;                                    // word of struct forge_launch in templates/webgpu/launch.wgsl
const FAILED_AT = 6, RANDOM_AT = 8;                    // words of `sampling` in templates/webgpu/sample.wgsl
const BUFFER_MOST = 2 ** 30;                           // of weights
const SUBGROUP_MOST = 32;
const PROFILE_WARM_MS = 400;                           // until an idle GPU has reached its full clock
const LANES = 4;                                       // kernels that are compiled at the same time
const BATCH_MOST = 32, BATCH_MS = 40;                  // tokens of a submission, and how long it may take
const MEAN = 1, CLS = 2;                               // enum forge_pooling of runtime/model/pool.h; 3: last

/** A launch of launches.bin with names. */
const launchOf = ([kernel, groups, tokens, slices, tail, [least, most], past, [state, stateBytes], slots]) =>
  ({ kernel, groups, tokens, slices, tail, least, most: most || Infinity, past, state, stateBytes, slots });
/** Does the launch run in this step?  The rows of a tail launch are only the tokens with logits. */
const runsIn = ({ tail, least, most, past }, nPast, nTokens, nLogits) => {
  const wanted = tail ? nLogits : nTokens;
  return wanted >= least && wanted <= most && nPast >= past;
};
const up = (n, to) => Math.ceil(n / to) * to;

/** The 256 bits that runtime/run/random.h makes from a seed with splitmix64, as 8 words. */
function randomState(seed) {
  const mask = (1n << 64n) - 1n, words = new Uint32Array(8);
  let x = BigInt(seed) & mask;
  for (let i = 0; i < 4; i++) {
    x = x + 0x9e3779b97f4a7c15n & mask;
    let z = x;
    z = (z ^ z >> 30n) * 0xbf58476d1ce4e5b9n & mask;
    z = (z ^ z >> 27n) * 0x94d049bb133111ebn & mask;
    z ^= z >> 31n;
    words[2 * i] = Number(z & 0xffffffffn);
    words[2 * i + 1] = Number(z >> 32n);
  }
  return words;
}

/** The module for subgroups of this size, as described in subgroups.wgsl; 1: without subgroups. */
export function withSubgroups(code, size) {
  if (size === 1 || !code.includes('const SUBGROUP = 1u;')) return code;
  return `enable subgroups;\n${code.replace('const SUBGROUP = 1u;', `const SUBGROUP = ${size}u;`)
    .replace(/(fn across\w*\(x: \w+, apart: u32\) -> \w+ \{ return )x;/g, '$1subgroupShuffleXor(x, apart);')}`;
}

/** The size of the device's subgroups on which modules may rely; 1 if it has no subgroups of neighbouring invocations.  It is measured
 * on the device. */
export async function subgroupsOf(device, { subgroupMinSize = 1 }) {
  const size = Math.min(2 ** Math.floor(Math.log2(subgroupMinSize)), SUBGROUP_MOST);
  if (!device.features.has('subgroups') || size < 4) return 1;
  const code = `enable subgroups;
    @group(0) @binding(0) var<storage, read_write> others: atomic<u32>;
    @compute @workgroup_size(256) fn main(@builtin(local_invocation_index) thread: u32) {
      var other = 0u;
      for (var apart = 1u; apart < ${size}u; apart *= 2u) { other |= subgroupShuffleXor(thread, apart) ^ thread ^ apart; }
      if (other != 0u) { atomicAdd(&others, 1u); }
    }`;
  const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const others = device.createBuffer({ size: 4, usage: STORAGE | COPY_SRC }), back = device.createBuffer({ size: 4, usage: COPY_DST | MAP_READ });
  const compute = { module: device.createShaderModule({ code }), entryPoint: 'main' };
  const pipeline = await device.createComputePipelineAsync({ layout: 'auto', compute });
  const encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries: [{ binding: 0, resource: { buffer: others } }] }));
  pass.dispatchWorkgroups(64);
  pass.end();
  encoder.copyBufferToBuffer(others, 0, back, 0, 4);
  device.queue.submit([encoder.finish()]);
  await back.mapAsync(GPUMapMode.READ);
  const [wrong] = new Uint32Array(back.getMappedRange().slice(0));
  for (const buffer of [others, back]) buffer.destroy();
  return wrong ? 1 : size;
}

export class GpuEngine {
  #facts; #files; #memory; #ModelError; #options; #plan; #code;
  #adapter; #device; #subgroup = 1; #buffers; #pipelines; #lanes; #lists; #failure = null;
  #seeded = false; #logitsOf = -1; #batch = 1;
  #far = 0;                                            // 1: the context was computed as part of a text of more than plan.farFrom tokens

  /** parts: from model.js: facts, files, memory, logitsAt, ModelError; options: those of load(). */
  constructor(parts) {
    this.#facts = parts.facts;
    this.#files = parts.files;
    this.#memory = parts.memory;
    this.#ModelError = parts.ModelError;
    this.#options = parts.options;
    this.logitsAt = parts.logitsAt;
    this.tokens = [];
  }

  #error(code, message, cause) { return new this.#ModelError(code, message, cause); }

  /** Makes everything that is made once. */
  async open() {
    if (!this.#plan) {
      const text = async (file) => (await this.#files.unpacked(file, 'text/plain')).text();
      const [kernels, launches] = [await text(this.#facts.kernels), await text(this.#facts.launches)];
      this.#plan = JSON.parse(launches);
      this.#code = new Map(kernels.split(/^\/\/ ==== /m).slice(1).map((part) => {
        const end = part.indexOf('\n');
        return [part.slice(0, end), part.slice(end + 1)];
      }));
    }
    await this.#openDevice();
    await this.#files.keeping(() => this.#make());
  }

  /** Makes the buffers with their contents, and all kernels; with options.lazy, kernels are made in the first step that needs them. */
  async #make() {
    const scopes = ['out-of-memory', 'validation'];
    for (const scope of scopes) this.#device.pushErrorScope(scope);
    let failed = null;
    try {
      this.#makeBuffers();
      this.#pipelines = new Map();
      this.#lanes = [];
      this.#lists = {};
      const lists = this.#options.lazy ? [] : ['prefill', 'decode', 'sample'].map((kind) => this.#list(kind));
      this.#tellCompiled();
      await Promise.all([this.#upload(), ...lists]);
    } catch (error) {
      failed = error;
    }
    const [validation, memory] = [await this.#device.popErrorScope(), await this.#device.popErrorScope()];
    const size = Math.ceil(this.about().memoryBytes / 2 ** 20);
    if (memory) failed = this.#error('out_of_memory', `The GPU has no memory for the model: ${size} MiB.`, memory);
    else if (validation) failed ??= this.#error('failed', `WebGPU refused the model: ${validation.message}`, validation);
    if (!failed) return;
    this.#device.destroy();
    throw failed;
  }

  /** Reports the progress of compilation, now and whenever a kernel is done. */
  #tellCompiled() {
    const all = [...this.#pipelines.values()];
    let done = 0;
    if (all.length) this.#files.tellCompiled(done, all.length);
    for (const one of all) one.then(() => this.#files.tellCompiled(++done, all.length), () => {});
  }

  async #openDevice() {
    const plan = this.#plan, gpu = this.#options.gpu ?? globalThis.navigator?.gpu;
    if (!gpu) throw this.#error('no_webgpu', 'This browser has no WebGPU, which the model needs.');
    this.#adapter = await gpu.requestAdapter({ powerPreference: 'high-performance' });
    if (!this.#adapter) throw this.#error('no_webgpu', 'WebGPU has no GPU for this page: this device has no GPU, or the browser does not trust its driver.');
    const has = this.#adapter.limits, requiredLimits = {};
    const need = (name, least, what) => {
      if (has[name] < least) throw this.#error('gpu_too_small', `This GPU has ${has[name]} ${what}, the model needs ${least}.`);
      return least;
    };
    const largest = Math.max(...this.#matrices().map(({ bytes }) => bytes), plan.arenaBytes, ...this.#launches().map((l) => l.stateBytes));
    need('maxStorageBufferBindingSize', largest, 'bytes for what a kernel binds');
    need('maxBufferSize', Math.max(largest, plan.stateBytes), 'bytes for a buffer');
    requiredLimits.maxStorageBufferBindingSize = has.maxStorageBufferBindingSize;
    requiredLimits.maxBufferSize = has.maxBufferSize;
    need('maxComputeWorkgroupStorageSize', plan.workgroupBytes, 'bytes of workgroup memory');
    requiredLimits.maxComputeWorkgroupStorageSize = Math.min(has.maxComputeWorkgroupStorageSize, 32768);
    requiredLimits.maxStorageBuffersPerShaderStage = Math.max(8, need('maxStorageBuffersPerShaderStage', this.#mostBuffers(),
                                                                     'buffers for a kernel'));
    const subgroups = this.#options.subgroups !== false && this.#adapter.features.has('subgroups');
    const requiredFeatures = [...(this.#options.profile ? ['timestamp-query'] : []), ...(subgroups ? ['subgroups'] : [])];
    if (this.#options.profile && !this.#adapter.features.has('timestamp-query'))
      throw this.#error('no_timestamps', 'This GPU, or its driver, gives no times of kernels.');
    this.#device = await this.#adapter.requestDevice({ requiredLimits, requiredFeatures });
    this.#failure = null;
    this.#device.lost.then(({ reason, message }) => {
      if (reason !== 'destroyed') this.#failure = this.#error('device_lost', `The GPU was lost: ${message || 'no reason was given'}.`);
    });
    this.#device.addEventListener?.('uncapturederror', ({ error }) => {
      this.#failure ??= this.#error('failed', `WebGPU refused a step: ${error.message}`, error);
    });
    this.#subgroup = await subgroupsOf(this.#device, this.#adapter.info ?? {}).catch((error) => {
      throw this.#failure ?? this.#error('failed', `WebGPU refused a test of its subgroups: ${error.message}`, error);
    });
  }

  #launches() {
    const plan = this.#plan;
    return [...plan.decode, ...plan.prefill, ...(plan.sample ? [plan.sample] : [])].map(launchOf);
  }

  /** The matrices of the image, each once, ordered by place. */
  #matrices() {
    const found = new Map();
    for (const { slots } of this.#launches())
      for (const slot of slots) if (Array.isArray(slot)) found.set(slot[0], Math.max(slot[1], found.get(slot[0]) ?? 0));
    return [...found].map(([offset, bytes]) => ({ offset, bytes })).sort((a, b) => a.offset - b.offset);
  }

  #mostBuffers() {
    return Math.max(...[...this.#code.values()].map((code) => [...code.matchAll(/var<storage/g)].length));
  }

  // ---- objects that are made once ----

  #makeBuffers() {
    const plan = this.#plan, device = this.#device, { STORAGE, UNIFORM, COPY_DST, COPY_SRC, MAP_READ } = GPUBufferUsage;
    const make = (label, size, usage) => device.createBuffer({ label, size: up(Math.max(size, 16), 16), usage });
    const both = STORAGE | COPY_DST | COPY_SRC;
    this.#buffers = {
      arena: make('arena', plan.arenaBytes, both),
      state: make('state', plan.stateBytes, both),
      step: make('step', STEP_BYTES, STORAGE | UNIFORM | COPY_DST),
      launches: make('launches', LAUNCH_BYTES * (this.#launches().length + 1), UNIFORM | COPY_DST),
      vectors: make('vectors', plan.vectorBytes, both),
      text: make('text', 4 * (this.#facts.nCtx + 1), both),
      sampling: make('sampling', SAMPLING_BYTES, both),
      back: [0, 1].map((i) => make(`tokens ${i}`, 4 * BATCH_MOST + 4, COPY_DST | MAP_READ)),
      logits: make('logits', 4 * plan.nOut * plan.logitsRows, COPY_DST | MAP_READ),
      weights: [],
    };
    const most = Math.min(this.#adapter.limits.maxBufferSize, BUFFER_MOST);
    for (const { offset, bytes } of this.#matrices()) {
      let last = this.#buffers.weights.at(-1);
      if (!last || (last.bytes > 0 && offset + bytes - last.offset > most))
        this.#buffers.weights.push(last = { offset, bytes: 0 });
      last.bytes = Math.max(last.bytes, offset + bytes - last.offset);
    }
    for (const part of this.#buffers.weights) part.buffer = make(`weights from ${part.offset}`, part.bytes, both);
  }

  /** The pipeline of a kernel, compiled once, in one of a few lanes: if all were compiled at once, browsers would report none of them as
   * done before the last. */
  #pipeline(name) {
    if (!this.#pipelines.has(name)) {
      const lane = this.#pipelines.size % LANES;
      const compiled = this.#lanes[lane] = (this.#lanes[lane] ?? Promise.resolve()).catch(() => {}).then(() => {
        this.#device.pushErrorScope('validation');
        const module = this.#device.createShaderModule({ label: name, code: withSubgroups(this.#code.get(name), this.#subgroup) });
        const refused = this.#device.popErrorScope().catch(() => null);
        return this.#device.createComputePipelineAsync({ label: name, layout: 'auto', compute: { module, entryPoint: 'main' } })
          .catch(async (error) => { throw await refused ?? error; });
      });
      this.#pipelines.set(name, compiled.catch((error) => {
        throw this.#failure ?? this.#error('failed', `The kernel ${name} cannot be compiled here: ${error.message}`, error);
      }));
    }
    return this.#pipelines.get(name);
  }

  /** Uploads the weights, piece by piece, to where kernels read them. */
  async #upload() {
    const { vectors, weights } = this.#buffers;
    if (!this.#facts.weights.length && !this.#options.randomWeights)
      throw this.#error('no_weights', 'The folder was built without weights: it can only measure speed, with noise instead of weights.');
    if (this.#options.randomWeights) return [...weights, { buffer: vectors, bytes: vectors.size }].forEach((part) => this.#fill(part));
    const targets = [...weights.map((part) => ({ ...part, to: 0 })),
                     ...this.#plan.vectors.map(([offset, bytes, to]) => ({ offset, bytes, buffer: vectors, to }))];
    let from = 0;
    for (const file of this.#facts.weights) {
      const piece = new Uint8Array(file.bytes);
      await this.#files.get(file, piece, 0);
      for (const { offset, bytes, buffer, to } of targets) {
        const first = Math.max(offset, from), end = Math.min(offset + bytes, from + file.bytes);
        if (first < end) this.#device.queue.writeBuffer(buffer, to + first - offset, piece, first - from, end - first);
      }
      from += file.bytes;
    }
  }

  /** Fills a buffer with noise in place of weights, for measurements with a folder that was built without weights.  The halves of the
   * words are finite as f16, and most are finite in their other meanings, too. */
  #fill({ buffer, bytes }) {
    const part = new Uint32Array(Math.min(1 << 22, up(bytes, 4) / 4));
    let x = 0x9e3779b9 ^ bytes;
    for (let i = 0; i < part.length; i++) {
      x ^= x << 13;
      x ^= x >>> 17;
      x ^= x << 5;
      part[i] = x & 0xafffafff;
    }
    for (let at = 0; at < bytes; at += part.byteLength)
      this.#device.queue.writeBuffer(buffer, at, part, 0, Math.min(part.length, up(bytes - at, 4) / 4));
  }

  /** The launches of a kind of step, 'prefill', 'decode' or 'sample', with their GPU objects. */
  #list(kind) { return this.#lists[kind] ??= this.#makeList(kind); }

  /** The index of the first launch of a kind in the buffer of constants. */
  #firstOf(kind) {
    const { decode, prefill } = this.#plan;
    return { decode: 0, prefill: decode.length, sample: decode.length + prefill.length }[kind];
  }

  async #makeList(kind) {
    const plan = this.#plan, launches = (kind === 'sample' ? [plan.sample] : plan[kind]).filter(Boolean).map(launchOf);
    const first = this.#firstOf(kind);
    const names = launches.map((launch) => plan.kernels[launch.kernel]);
    if (kind === 'sample' && launches.length) {
      launches.push({ ...launches[0], groups: 1 });
      names.push('sample_draw');
    }
    await Promise.all(names.map((name) => this.#pipeline(name)));
    const bound = await Promise.all(launches.map((launch, i) => this.#bound(launch, names[i], first + i, kind === 'sample')));
    return bound.filter(({ name }) => !this.#options.without || !name.startsWith(this.#options.without));
  }

  /** The launch with its pipeline and its bind group; index: of its constants. */
  async #bound(launch, name, index, isSample) {
    const pipeline = await this.#pipeline(name), buffers = this.#buffers, words = new Uint32Array(LAUNCH_BYTES / 4), matrices = [];
    launch.slots.forEach((slot, i) => {
      if (Array.isArray(slot)) matrices.push(slot);
      else words[i] = slot;
    });
    words[TAIL_AT] = launch.tail;
    this.#device.queue.writeBuffer(buffers.launches, LAUNCH_BYTES * index, words);
    const matrix = ([offset, bytes]) => {
      const part = buffers.weights.find((w) => offset >= w.offset && offset + bytes <= w.offset + w.bytes);
      return { buffer: part.buffer, offset: offset - part.offset, size: bytes };
    };
    const resource = (binding) => {
      if (binding >= FIRST_MATRIX) return isSample ? { buffer: [buffers.sampling, buffers.step][binding - FIRST_MATRIX] }
        : matrix(matrices[binding - FIRST_MATRIX]);
      return [{ buffer: buffers.arena }, { buffer: buffers.state, offset: launch.state, size: launch.stateBytes },
              { buffer: buffers.step, size: STEP_BYTES }, { buffer: buffers.launches, offset: LAUNCH_BYTES * index, size: LAUNCH_BYTES },
              { buffer: buffers.vectors }, { buffer: buffers.text }][binding];
    };
    const bindings = [...this.#code.get(name).matchAll(/@binding\((\d+)\)/g)].map((found) => Number(found[1]));
    const entries = bindings.map((binding) => ({ binding, resource: resource(binding) }));
    const group = this.#device.createBindGroup({ label: name, layout: pipeline.getBindGroupLayout(0), entries });
    return { ...launch, name, pipeline, group };
  }

  // ---- steps ----

  #encode(pass, launches, nPast, nTokens, nLogits) {
    for (const launch of launches) {
      const { pipeline, group, groups, tokens, slices, tail } = launch, rows = tokens ? Math.ceil((tail ? nLogits : nTokens) / tokens) : 1;
      if (rows === 0 || !runsIn(launch, nPast, nTokens, nLogits)) continue;
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, group);
      pass.dispatchWorkgroups(groups, rows, slices);
    }
  }

  #check() {
    if (this.#failure) throw this.#failure;
  }

  /** A step of one or more tokens after those of the context. */
  async #step(tokens, nLogits) {
    const launches = await this.#list(tokens.length === 1 && nLogits === 1 ? 'decode' : 'prefill');
    const { queue } = this.#device, { text, step } = this.#buffers, nPast = this.tokens.length;
    queue.writeBuffer(text, 4 * nPast, Uint32Array.from(tokens));
    queue.writeBuffer(step, 0, Uint32Array.of(tokens.length, nPast, nLogits, this.#far));
    const encoder = this.#device.createCommandEncoder(), pass = encoder.beginComputePass();
    this.#encode(pass, launches, nPast, tokens.length, nLogits);
    pass.end();
    queue.submit([encoder.finish()]);
    this.tokens.push(...tokens);
    this.#logitsOf = nLogits ? this.tokens.length : -1;
  }

  /** After a loss, makes the device and its contents again. */
  async #ready() {
    if (this.#failure?.code !== 'device_lost') return this.#check();
    this.#seeded = false;
    await this.open();
    await this.#replay(this.tokens);
  }

  #isFar(n) { return this.#plan.farFrom && n > this.#plan.farFrom ? 1 : 0; }

  /** Before a step that makes the text n tokens long: if this changes the rotation (far), the context is computed again. */
  async #settle(n) {
    const far = this.#isFar(n), { tokens } = this;
    if (far === this.#far) return;
    this.#far = far;
    if (tokens.length) await this.#replay(tokens);
  }

  async prefill(tokens, pause, onProgress) {
    await this.#ready();
    await this.#settle(this.tokens.length + tokens.length);
    for (let i = 0; i < tokens.length; i += this.#plan.chunk) {
      const chunk = tokens.slice(i, i + this.#plan.chunk), last = i + chunk.length === tokens.length;
      await this.#step(chunk, last ? 1 : 0);
      if (!last) {
        await this.#device.queue.onSubmittedWorkDone();
        await pause();
      }
      this.#check();
      onProgress?.(i + chunk.length, tokens.length);
    }
  }

  /** Rows of logits from the arena, as an array of their own. */
  async #read(rows) {
    const { arena, logits } = this.#buffers, bytes = 4 * rows * this.#plan.nOut;
    const encoder = this.#device.createCommandEncoder();
    encoder.copyBufferToBuffer(arena, this.#plan.logits, logits, 0, bytes);
    this.#device.queue.submit([encoder.finish()]);
    return this.#map(logits, bytes, (range) => new Float32Array(range.slice(0)));
  }

  async #map(buffer, bytes, take) {
    try {
      await buffer.mapAsync(GPUMapMode.READ, 0, bytes);
    } catch (error) {
      await Promise.resolve();                         // the device reports its loss one turn later
      throw this.#failure ?? this.#error('device_lost', `The GPU was lost: ${error.message}.`, error);
    }
    const taken = take(buffer.getMappedRange(0, bytes));
    buffer.unmap();
    this.#check();
    return taken;
  }

  /** expected: the least number of tokens that the text will have. */
  async rows(tokens, expected = 0) {
    await this.#ready();
    await this.#settle(Math.max(this.tokens.length + tokens.length, expected));
    const parts = [], most = this.#plan.logitsRows;
    for (let i = 0; i < tokens.length; i += most) {
      const some = tokens.slice(i, i + most);
      await this.#step(some, some.length);
      parts.push(await this.#read(some.length));
    }
    const all = new Float32Array(tokens.length * this.#plan.nOut);
    parts.forEach((part, i) => all.set(part, i * most * this.#plan.nOut));
    const last = all.slice(-this.#plan.nOut);        // where steps of one row have their logits
    this.#device.queue.writeBuffer(this.#buffers.arena, this.#plan.logits, last);
    this.#logitsOf = this.tokens.length;
    return all;
  }

  /** Computes a context again. */
  async #replay(tokens) {
    this.tokens = [];
    for (let i = 0; i < tokens.length; i += this.#plan.chunk) await this.#step(tokens.slice(i, i + this.#plan.chunk), 1);
  }

  /** Makes sure that the arena has the logits after the last token, if the last step left others: runs that token's step again or, if a
   * state would then take the token twice, all steps. */
  async #restoreLogits() {
    if (this.tokens.length === 0) throw this.#error('bad_argument', 'There are no logits yet: no token is in the context.');
    await this.#settle(this.tokens.length);
    if (this.#logitsOf === this.tokens.length) return;
    if (this.#plan.back === 0) return this.#replay(this.tokens);
    const last = this.tokens.pop();
    await this.#step([last], 1);
  }

  #writes() {
    if (this.#plan.pooling) throw this.#error('wrong_kind', 'This is an embedding model: it writes no text; call embed().');
  }

  async readLogits() {
    this.#writes();
    await this.#ready();
    await this.#restoreLogits();
    const logits = await this.#read(1);
    new Float32Array(this.#memory.memory.buffer, this.logitsAt, logits.length).set(logits);
    return logits;
  }

  /** Writes the logits of the module's memory, which a mask has changed, to the arena. */
  writeLogits() {
    const logits = new Float32Array(this.#memory.memory.buffer, this.logitsAt, this.#plan.nOut);
    this.#device.queue.writeBuffer(this.#buffers.arena, this.#plan.logits, logits);
  }

  #putSampling({ temperature, topK, topP, minP, repeatPenalty, repeatLastN }, seed) {
    const words = new Uint32Array(SAMPLING_BYTES / 4), floats = new Float32Array(words.buffer);
    floats[0] = temperature;
    words[1] = Math.max(topK, 0);
    floats[2] = topP;
    floats[3] = minP;
    floats[4] = repeatPenalty;
    words[5] = repeatLastN < 0 ? 0x7fffffff : repeatLastN;
    const seeds = seed !== 0 || !this.#seeded;
    if (seeds) words.set(randomState(seed), RANDOM_AT);
    this.#seeded = true;
    this.#device.queue.writeBuffer(this.#buffers.sampling, 0, words, 0, seeds ? SAMPLING_BYTES / 4 : RANDOM_AT);
  }

  /** Submits `n` draws, each followed by the step of its token (except perhaps the last one); returns what they drew. */
  async #submit(n, steps, back) {
    const [decode, sample] = [steps ? await this.#list('decode') : null, await this.#list('sample')];
    const encoder = this.#device.createCommandEncoder(), pass = encoder.beginComputePass(), at = this.tokens.length;
    for (let i = 0; i < n; i++) {
      this.#encode(pass, sample, at + i, 1, 1);
      if (i < steps) this.#encode(pass, decode, at + i, 1, 1);
    }
    pass.end();
    const { text, sampling } = this.#buffers;
    encoder.copyBufferToBuffer(text, 4 * at, back, 0, 4 * n);
    encoder.copyBufferToBuffer(sampling, 4 * FAILED_AT, back, 4 * BATCH_MOST, 4);
    this.#device.queue.submit([encoder.finish()]);
    return { at, n, back };
  }

  async #drawn({ n, back }) {
    const words = await this.#map(back, 4 * BATCH_MOST + 4, (range) => new Uint32Array(range.slice(0)));
    if (words[BATCH_MOST]) throw this.#error('not_finite', 'The model gave a logit that is not a finite number.');
    return Array.from(words.subarray(0, n));
  }

  /** Draws the next token from the logits, which remain those of the context. */
  async sample(sampling, seed) {
    this.#writes();
    await this.#ready();
    await this.#restoreLogits();
    this.#putSampling(sampling, seed);
    const [token] = await this.#drawn(await this.#submit(1, 0, this.#buffers.back[0]));
    return token;
  }

  /** Yields tokens as they are drawn, at most `most` and as far as the context allows; tokens that are not taken are removed.  The GPU
   * gets the next steps while these tokens are read. */
  async *stream(sampling, seed, most) {
    const { nCtx } = this.#facts, { farFrom } = this.#plan;
    await this.#ready();
    for (let given = 0, last; ; seed = 0) {
      const end = farFrom && !this.#far ? Math.min(farFrom, nCtx) : nCtx;
      for await (last of this.#streamTo(end, sampling, seed, most - given)) {
        given++;
        yield last;
      }
      if (given >= most || end === nCtx) return;
      await this.#settle(end + 1);                     // with the last token the text needs another rotation
      await this.#step([last], 1);
    }
  }

  /** The same with at most `end` tokens in the context. */
  async *#streamTo(end, sampling, seed, most) {
    await this.#restoreLogits();
    this.#putSampling(sampling, seed);
    const first = this.tokens.length, ahead = this.#plan.back < 0 ? BATCH_MOST : 1;
    const pending = [];
    let submitted = 0, given = 0, which = 0;
    const submit = async () => {
      const n = Math.min(Math.max(1, Math.min(this.#batch, ahead)), most - submitted, end + 1 - first - submitted);
      if (n <= 0) return;
      const steps = Math.min(n, end - first - submitted);
      pending.push({ ...await this.#submit(n, steps, this.#buffers.back[which]), from: performance.now() });
      which ^= 1;
      submitted += n;
      for (let i = 0; i < steps; i++) this.tokens.push(-1);
      this.#logitsOf = steps === n ? this.tokens.length : -1;
    };
    try {
      await submit();
      while (pending.length) {
        if (this.#plan.back < 0 && pending.length < 2) await submit();
        const batch = pending.shift(), tokens = await this.#drawn(batch);
        const each = (performance.now() - batch.from) / batch.n / (pending.length + 1);
        this.#batch = Math.max(1, Math.min(BATCH_MOST, 2 * this.#batch, Math.floor(BATCH_MS / each)));
        tokens.forEach((token, i) => { if (batch.at + i < this.tokens.length) this.tokens[batch.at + i] = token; });
        for (const token of tokens) {
          given++;
          yield token;
        }
        if (this.#plan.back >= 0) await submit();
      }
    } finally {
      while (pending.length) await this.#drawn(pending.shift()).catch(() => {});
      if (first + given < this.tokens.length) {
        this.tokens.length = first + given;
        this.#logitsOf = -1;
      }
    }
  }

  /** Microseconds of each launch of a step of nTokens tokens after those of the context, the least of `repeats` runs, each launch in a
   * pass of its own: {name, us}.  The model must be loaded with `profile`; the context is unchanged. */
  async profile(nTokens, repeats = 5) {
    await this.#ready();
    const launches = [...await this.#list(nTokens === 1 ? 'decode' : 'prefill'), ...(nTokens === 1 ? await this.#list('sample') : [])];
    const device = this.#device, n = 2 * launches.length, { QUERY_RESOLVE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const querySet = device.createQuerySet({ type: 'timestamp', count: n });
    const resolved = device.createBuffer({ size: 8 * n, usage: QUERY_RESOLVE | COPY_SRC });
    const back = device.createBuffer({ size: 8 * n, usage: COPY_DST | MAP_READ });
    const times = launches.map(({ name }) => ({ name, us: Infinity }));
    const until = performance.now() + PROFILE_WARM_MS;
    for (let run = 0; run <= repeats || performance.now() < until; run++) {
      device.queue.writeBuffer(this.#buffers.step, 0, Uint32Array.of(nTokens, this.tokens.length, 1, this.#far));
      const encoder = device.createCommandEncoder();
      launches.forEach((launch, i) => {
        const timestampWrites = { querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 };
        const pass = encoder.beginComputePass({ timestampWrites });
        this.#encode(pass, [launch], this.tokens.length, nTokens, 1);
        pass.end();
      });
      encoder.resolveQuerySet(querySet, 0, n, resolved, 0);
      encoder.copyBufferToBuffer(resolved, 0, back, 0, 8 * n);
      device.queue.submit([encoder.finish()]);
      const at = await this.#map(back, 8 * n, (range) => new BigUint64Array(range.slice(0)));
      if (run > 0) times.forEach((time, i) => { time.us = Math.min(time.us, Number(at[2 * i + 1] - at[2 * i]) / 1e3); });
    }
    for (const made of [querySet, resolved, back]) made.destroy();
    this.#logitsOf = -1;
    if (this.#plan.back === 0) await this.#replay(this.tokens);
    return times;
  }

  /** The vector of a text, made from the rows as in runtime/model/pool.h; asItIs: not divided by its length. */
  async embed(tokens, asItIs) {
    const { pooling, chunk, nOut } = this.#plan, vector = new Float32Array(nOut);
    if (!pooling) throw this.#error('wrong_kind', 'This model writes text; only an embedding model gives vectors.');
    if (!tokens.length || !tokens.every((token) => Number.isInteger(token) && token >= 0 && token < this.#facts.nVocab))
      throw this.#error('bad_argument', `A text has one token or more, numbers from 0 to ${this.#facts.nVocab - 1}.`);
    await this.#ready();
    this.tokens = [];
    this.#far = this.#isFar(tokens.length);
    const end = pooling === CLS ? Math.min(chunk, tokens.length) : tokens.length;   // later tokens change nothing
    for (let i = 0; i < end; i += chunk) {
      const some = tokens.slice(i, i + chunk), isLast = i + some.length === tokens.length;
      const nRows = pooling === MEAN || pooling === CLS ? some.length : isLast ? 1 : 0;
      await this.#step(some, nRows);
      if (!nRows) continue;
      const rows = await this.#read(nRows), used = pooling === CLS ? 1 : nRows;
      for (let at = 0; at < used * nOut; at++) vector[at % nOut] += rows[at];
    }
    this.tokens = [];
    this.#logitsOf = -1;
    const most = vector.reduce((largest, x) => Math.max(largest, Math.abs(x)), 0);
    if (!Number.isFinite(most)) throw this.#error('not_finite', 'The model gave a number that is not finite.');
    if (asItIs || most === 0) return vector.map((x) => (pooling === MEAN ? x / tokens.length : x));
    const length = most * Math.sqrt(vector.reduce((sum, x) => sum + (x / most) ** 2, 0));
    return vector.map((x) => x / length);
  }

  /** The single kernels, for tests (test_kernels.js): each launch of a step runs alone on what was written into the arena before.
   * Afterwards the context is empty and the arena's contents are lost.  If WebGPU refuses something, the promise rejects and nothing
   * else ends. */
  async kernels() {
    await this.#ready();
    this.tokens = [];
    this.#logitsOf = -1;
    const plan = this.#plan, device = this.#device, { arena, text, step } = this.#buffers;
    const guarded = async (work) => {
      device.pushErrorScope('validation');
      const done = work(), refused = device.popErrorScope();
      const [result, error] = await Promise.all([done, refused]);
      if (error) throw this.#error('failed', `WebGPU refused it: ${error.message}`, error);
      this.#check();
      return result;
    };
    return {
      names: plan.kernels,
      nOut: plan.nOut,
      nameOf: (kind, i) => plan.kernels[plan[kind][i][0]],
      /** Launch i of a kind of step, ready to run; of 'sample', launch 0 examines the logits and launch 1 draws. */
      open: (kind, i) => guarded(() => {
        const launch = launchOf(kind === 'sample' ? plan.sample : plan[kind][i]), draws = kind === 'sample' && i === 1;
        return this.#bound(draws ? { ...launch, groups: 1 } : launch, draws ? 'sample_draw' : plan.kernels[launch.kernel], this.#firstOf(kind) + i,
                           kind === 'sample');
      }),
      runs: (launch, { nTokens, nPast, nLogits }) => runsIn(launch, nPast, nTokens, nLogits),
      /** Kernels that only texts of more than n tokens use. */
      beyond: (n) => new Set(this.#launches().filter(({ past }) => past > n).map(({ kernel }) => plan.kernels[kernel])),
      putTokens: (tokens) => device.queue.writeBuffer(text, 0, Uint32Array.from(tokens)),
      write: (at, data) => device.queue.writeBuffer(arena, at, data),
      /** Reads bytes of the arena. */
      read: async (at, bytes) => {
        const { COPY_DST, MAP_READ } = GPUBufferUsage, back = device.createBuffer({ size: bytes, usage: COPY_DST | MAP_READ });
        const encoder = device.createCommandEncoder();
        encoder.copyBufferToBuffer(arena, at, back, 0, bytes);
        device.queue.submit([encoder.finish()]);
        try {
          return await this.#map(back, bytes, (range) => range.slice(0));
        } finally {
          back.destroy();
        }
      },
      /** Runs the launch `times` times; returns milliseconds. */
      run: (launch, { nTokens, nPast, nLogits }, times = 1) => guarded(async () => {
        device.queue.writeBuffer(step, 0, Uint32Array.of(nTokens, nPast, nLogits, this.#isFar(nPast + nTokens)));
        const start = performance.now(), encoder = device.createCommandEncoder(), pass = encoder.beginComputePass();
        for (let i = 0; i < times; i++) this.#encode(pass, [launch], nPast, nTokens, nLogits);
        pass.end();
        device.queue.submit([encoder.finish()]);
        await device.queue.onSubmittedWorkDone();
        return performance.now() - start;
      }),
      /** The token that is drawn from these logits. */
      draw: async (logits, sampling, seed) => {
        device.queue.writeBuffer(arena, plan.logits, logits);
        device.queue.writeBuffer(step, 0, Uint32Array.of(0, 0, 1));
        this.#putSampling(sampling, seed);
        return (await this.#drawn(await this.#submit(1, 0, this.#buffers.back[0])))[0];
      },
    };
  }

  /** Goes back to the first n tokens; false: the states keep too little of them. */
  async reset(n) {
    await this.#ready();
    const { back } = this.#plan;
    if (n === this.tokens.length) return true;
    if (n > 0 && back >= 0 && this.tokens.length - n > back) return false;
    this.tokens.length = n;
    this.#logitsOf = -1;
    return true;
  }

  close() { this.#device?.destroy(); }

  /** For people: what computes. */
  about() {
    const info = this.#adapter?.info ?? {}, sum = [this.#plan.arenaBytes, this.#plan.stateBytes, this.#plan.imageBytes];
    const name = [info.vendor, info.architecture, info.description || info.device].filter(Boolean).join(' ');
    const how = this.#subgroup > 1 ? `subgroups of ${this.#subgroup}` : 'no subgroups';
    return { device: `WebGPU on ${name || 'a GPU without a name'}, products of int8, ${how}`, memoryBytes: sum.reduce((a, b) => a + b, 0) };
  }
}
