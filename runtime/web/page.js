// page.js -- downloads the model once, then chats, tells stories, or compares texts with it.  The model runs in worker.js; about()
// describes the engine.  Text of a model becomes text nodes, never markup.

const $ = (id) => document.getElementById(id);
const numbers = ['temperature', 'topK', 'topP', 'minP', 'maxTokens', 'seed'], STORY_TOKENS = 256;
const log = $('log'), input = $('input'), fields = $('settings-form').elements, kept = `settings ${location.pathname}`;
let worker = null, info = null, running = null, messages = [], jobs = 0;
const waiting = new Map();

const element = (name, className = '', text = '') => Object.assign(document.createElement(name), { className, textContent: text });
const megabytes = (bytes) => (bytes < 1e9 ? `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB` : `${(bytes / 1e9).toFixed(2)} GB`);
const rate = (n, seconds) => `${(n / seconds).toFixed(1)} tok/s`;

function say(note, text, isError = false) {
  note.textContent = text;
  note.classList.toggle('error', isError);
}

// ---- the worker ----

function startWorker() {
  worker?.terminate();
  waiting.clear();
  worker = new Worker('worker.js', { type: 'module' });
  worker.onmessage = ({ data }) => {
    if (data.about) return named(data.about);
    const job = waiting.get(data.id);
    if (data.event) return job?.hear(data.event);
    waiting.delete(data.id);
    if (data.error) job?.reject(data.error); else job?.resolve(data.result);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    const message = event.message ? `The model's worker failed: ${event.message}.`
      : 'The model\'s program cannot be loaded: a file of this folder is missing, the network is, or this browser has no workers of modules.';
    for (const job of waiting.values()) job.reject({ code: 'failed', message });
    waiting.clear();
  };
}

const ask = (task, hear, rest) => new Promise((resolve, reject) => {
  waiting.set(++jobs, { resolve, reject, hear });
  worker.postMessage({ id: jobs, task, ...rest });
});
const stop = () => running && worker.postMessage({ stop: true });

// ---- loading ----

const processorKept = `processor ${location.pathname}`;
let name = 'A model', fallbackBytes = 0, onProcessor = false;    // without WebGPU: the visitor's choice, now or on an earlier visit
try { onProcessor = localStorage.getItem(processorKept) !== null; } catch {}

function named(about) {
  name = about.name || name;
  fallbackBytes = about.fallbackBytes;
  $('title').textContent = document.title = name;
  $('loading-title').textContent = `Loading ${name}`;
}

/** Words about a download: bytes, how many of them were local, the speed of the last seconds; and about kernels that still compile. */
function downloadWords() {
  const seen = [];
  let compiled = 0, kernels = 0;
  return ({ phase, loaded, total, cached, waiting: others, ...told }) => {
    if (phase === 'compile') ({ compiled, kernels } = told);
    if (others) return { part: 0, text: 'Another tab is loading the model. This tab waits for it.' };
    if (loaded >= total && compiled < kernels)
      return { part: compiled / kernels, text: `${megabytes(total)} are here; preparing this GPU: ${compiled} of ${kernels} kernels compiled` };
    const part = loaded / total;
    if (cached > 0 && cached === loaded) return { part, text: `${megabytes(loaded)} of ${megabytes(total)}, kept on this device` };
    const now = performance.now();
    seen.push([now, loaded - cached]);
    while (seen.length > 2 && now - seen[0][0] > 4000) seen.shift();
    const speed = 1e3 * (loaded - cached - seen[0][1]) / (now - seen[0][0]);
    return { part, text: `${megabytes(loaded)} of ${megabytes(total)}` + (cached ? `, ${megabytes(cached)} of it from this device` : '') +
      (speed > 0 && loaded < total ? `, ${megabytes(speed)}/s` : '') };
  };
}

async function start() {
  $('late').hidden = true;
  $('failure').hidden = true;
  $('loading').hidden = false;
  const words = downloadWords();
  navigator.storage?.persist?.().catch(() => {});
  navigator.serviceWorker?.register('sw.js').catch(() => {});
  try {
    startWorker();
    const loaded = await ask('load', ({ progress }) => {
      const { part, text } = words(progress);
      $('bar').value = part;
      $('loaded').textContent = text;
    }, { onProcessor });
    info = loaded.info;
    ready(loaded.about);
  } catch (error) {
    fail(error);
  }
  $('loading').hidden = true;
}

function fail({ code, message }) {
  $('failure').hidden = false;
  $('failure').dataset.code = code;
  $('failure-text').textContent = message;
  $('retry').hidden = /^(no|gpu)_/.test(code);
  const noGpu = ['no_webgpu', 'gpu_too_small'].includes(code);
  $('fallback').hidden = !noGpu || !fallbackBytes;
  $('failure-note').hidden = !noGpu;
  $('failure-note').textContent = `This model needs WebGPU. ${fallbackBytes ? 'It can also run on the processor, but slower.'
    : 'Another browser or device may support it.'}`;
  $('fallback').textContent = `Run on the processor instead (${megabytes(fallbackBytes)} to download)`;
}

function ready(about) {
  const storage = about.storage.kind === 'none' || about.storage.note ? about.storage.note : 'on this device; works without a network';
  const rows = { 'Runs on': about.device, ...(about.fellBack && { 'Not on a GPU': about.fellBack.message }), Memory: megabytes(about.memoryBytes), Weights: megabytes(info.weightsBytes),
                 Context: `${info.nCtx} tokens`, Kept: storage };
  $('facts').replaceChildren(...Object.entries(rows).flatMap(([term, words]) => [element('dt', '', term), element('dd', '', words)]));
  $('facts').dataset.engine = about.engine;
  $('facts').dataset.storage = about.storage.kind;
  $('welcome-title').textContent = name;
  $('welcome-text').textContent = !info.hasTokenizer ? 'This model has no tokenizer: your program must give it tokens instead of text.'
    : info.embeddings ? 'This model makes vectors of texts. Compare two texts here.'
    : info.hasChat ? 'Write a message. Nothing leaves this device.' : 'Begin a text, and the model continues it. Nothing leaves this device.';
  $('runs').textContent = `${about.device}; ${megabytes(about.memoryBytes)} of memory; nothing leaves this device`;
  for (const field of numbers) if (field in info.sampling) fields[field].placeholder = info.sampling[field];
  for (const field of ['prompt', 'generate']) {
    const e = $('bench-form').elements[field];
    e.max = info.nCtx - (field === 'generate');
    e.value = Math.min(e.value, e.max);
  }
  fields.maxTokens.placeholder = info.hasChat ? 'to the end' : STORY_TOKENS;
  $('system-label').hidden = !info.hasChat;
  if (!info.hasChat) {
    input.placeholder = 'Once upon a time';
    input.setAttribute('aria-label', 'Beginning of a text');
    $('send').textContent = 'Tell';
  }
  show();
  if (!$('footer').hidden) input.focus();
}

// ---- views: chosen by the part of the address after # ----

const views = {
  '': () => (!info?.hasTokenizer ? [] : info.embeddings ? ['compare'] : ['log', 'footer', 'fresh', 'open-settings']).concat('open-bench', 'welcome'),
  '#bench': () => ['bench', 'close-bench'],
};

function show() {
  if (!info) return;
  const parts = new Set((views[location.hash] ?? views[''])());
  for (const id of ['log', 'footer', 'fresh', 'open-settings', 'compare', 'bench', 'open-bench', 'close-bench']) $(id).hidden = !parts.has(id);
  $('welcome').hidden = !parts.has('welcome') || log.childElementCount > 0;
  $('generate-label').hidden = info.embeddings;
}

// ---- texts ----

function follow(force) {
  const m = $('main');
  if (force || m.scrollHeight - m.scrollTop - m.clientHeight < 120) m.scrollTop = m.scrollHeight;
}

function busy(is) {
  running = is;
  $('send').hidden = is;
  $('stop').hidden = !is;
  log.setAttribute('aria-busy', is);
  for (const button of log.querySelectorAll('button')) button.disabled = is;
}

function message(kind, who, text) {
  const e = element('div', `message ${kind}`);
  e.append(element('div', 'who', who), element('div', 'body', text));
  log.append(e);
  $('welcome').hidden = true;
  return e;
}

function options() {
  const o = info.hasChat ? {} : { maxTokens: STORY_TOKENS };
  for (const field of numbers) if (fields[field].value !== '') o[field] = Number(fields[field].value);
  if (o.seed === 0) delete o.seed;
  return o;
}

/** Formats code, strong text and headings; the rest of Markdown is readable as it is. */
function markdown(to, text) {
  to.replaceChildren();
  for (const [i, part] of text.split(/^[ \t]*```/m).entries()) {
    if (i % 2) {
      to.append(element('pre', '', part.slice(part.indexOf('\n') + 1 || part.length).replace(/\n$/, '')));
      continue;
    }
    const rule = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|^#{1,6} +(.+)$/m;
    let rest = i ? part.replace(/^[^\n]*\n?/, '') : part;
    for (let m; (m = rule.exec(rest)); rest = rest.slice(m.index + m[0].length))
      to.append(rest.slice(0, m.index), element(m[1] === undefined ? 'strong' : 'code', '', m[1] ?? m[2] ?? m[3]));
    to.append(rest);
  }
}

const reasons = { aborted: 'stopped', length: 'token limit reached', context: 'the context is full' };

/** Writes the model's text into e, after `before` and what was written already; resolves with all text written and why it ended. */
async function write(e, given, before = '', already = '') {
  const body = e.querySelector('.body'), told = element('span', 'told', before), tail = element('span');
  const note = element('span', 'note'), actions = element('div', 'actions');
  let text = already, reasoning = '', details = null, drawn = false, last = null, result = {};
  note.setAttribute('role', 'status');
  body.replaceChildren(told, tail);
  actions.append(note);
  e.querySelector('.actions')?.remove();
  e.append(actions);
  busy(true);
  follow(true);
  const words = ({ tokens, seconds, promptTokens, promptSeconds }) => [tokens > 1 ? `${tokens} tokens, ${rate(tokens, seconds)}` : '',
    promptTokens > 1 ? `prompt ${promptTokens} tokens, ${rate(promptTokens, promptSeconds)}` : ''].filter(Boolean).join('; ');
  const draw = () => {
    drawn = false;
    if (info.hasChat) markdown(tail, text);
    else tail.textContent = text;
    if (reasoning && !details) {
      details = element('details', 'reasoning');
      details.append(element('summary', '', 'Reasoning'), element('div'));
      details.open = true;
      body.before(details);
    }
    if (details) details.lastChild.textContent = reasoning.trim();
    if (last && running) note.textContent = words(last);
    follow();
  };
  try {
    result = await ask('write', (event) => {
      if (event.of > 200 && event.read < event.of) note.textContent = `reading: ${event.read} of ${event.of} tokens`;
      if (event.type === 'reasoning') reasoning += event.text;
      else if (event.text) text += event.text;
      if (event.type) last = event;
      if (event.type && !drawn) { drawn = true; requestAnimationFrame(draw); }
    }, given);
    note.textContent = [words(result), reasons[result.reason]].filter(Boolean).join('; ');
  } catch (error) {
    say(note, error.message, true);
  }
  busy(false);
  draw();
  if (details && text) details.open = false;
  return { text, actions, reason: result.reason };
}

function addButton(actions, text, work) {
  const button = Object.assign(element('button', '', text), { type: 'button' });
  button.onclick = () => { if (!running) work(); };
  actions.append(button);
}

function forgetButtons() { for (const button of log.querySelectorAll('.actions button')) button.remove(); }

async function answer() {
  forgetButtons();
  const system = fields.system.value.trim(), e = message('assistant', name, '');
  const at = messages.length, input = (system ? [{ role: 'system', content: system }] : []).concat(messages);
  const { text, actions } = await write(e, { input, options: options() });
  if (!e.isConnected) return;
  if (text) messages.push({ role: 'assistant', content: text });
  addButton(actions, 'Again', () => {
    messages.length = at;
    e.remove();
    answer();
  });
}

async function tell(beginning, so = '', e = null) {
  forgetButtons();
  e ??= message('story', name, '');
  const { text, actions, reason } = await write(e, { input: beginning + so, options: options() }, beginning, so);
  if (!e.isConnected) return;
  if (reason === 'length' || reason === 'aborted') addButton(actions, 'Continue', () => tell(beginning, text, e));
  addButton(actions, 'Again', () => tell(beginning, '', e));
}

function grow() {
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight + 2}px`;
}

$('form').onsubmit = async (event) => {
  event.preventDefault();
  const text = input.value || (info.hasChat ? '' : input.placeholder);
  if (running || text.trim() === '') return;
  input.value = '';
  grow();
  if (info.hasChat) {
    messages.push({ role: 'user', content: text });
    message('user', 'You', text);
  }
  await (info.hasChat ? answer() : tell(text));
  input.focus();
};
input.oninput = grow;
input.onkeydown = (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); $('form').requestSubmit(); }
};
document.onkeydown = (event) => { if (event.key === 'Escape' && !$('settings').open) stop(); };
$('stop').onclick = $('bench-stop').onclick = stop;
$('retry').onclick = start;
$('fallback').onclick = () => {
  onProcessor = true;
  try { localStorage.setItem(processorKept, 'yes'); } catch {}
  start();
};
$('fresh').onclick = () => {
  stop();
  messages = [];
  log.replaceChildren();
  show();
  input.focus();
};
onhashchange = () => { if (running) stop(); show(); };

// ---- settings ----

$('open-settings').onclick = () => $('settings').showModal();
$('settings-form').onsubmit = (event) => {
  event.preventDefault();
  $('settings').close();
};
$('settings').onclose = () => {
  const values = Object.fromEntries(Array.from(fields, (f) => [f.name, f.value]).filter(([n]) => n));
  try { localStorage.setItem(kept, JSON.stringify(values)); } catch {}
  input.focus();
};
try { for (const [n, v] of Object.entries(JSON.parse(localStorage.getItem(kept)) ?? {})) if (fields[n]) fields[n].value = v; } catch {}

// ---- two texts ----

$('compare-form').onsubmit = async (event) => {
  event.preventDefault();
  if (running) return;
  running = true;
  const note = $('cosine-note');
  $('cosine').hidden = false;
  try {
    const { cosine, numbers: n, seconds } = await ask('compare', null, { texts: [$('one').value, $('other').value] });
    $('cosine-number').textContent = cosine.toFixed(4);
    $('cosine-meter').value = cosine;
    say(note, `cosine of two vectors of ${n} numbers; ${(1e3 * seconds).toFixed(0)} ms`);
  } catch (error) {
    $('cosine-number').textContent = '';
    say(note, error.message, true);
  }
  running = false;
};

// ---- speed ----

$('bench-form').onsubmit = async (event) => {
  event.preventDefault();
  if (running) return;
  const [prompt, generate, runs] = ['prompt', 'generate', 'runs'].map((n) => Number($('bench-form').elements[n].value));
  const note = $('bench-note'), table = $('bench-table');
  running = true;
  $('bench-start').disabled = true;
  $('bench-stop').hidden = false;
  try {
    const rows = await ask('measure', ({ run }) => say(note, run ? `run ${run} of ${runs}` : 'warming up'), { prompt, generate, runs });
    table.tBodies[0].replaceChildren(...rows.map(({ what, tokens, median, best }) => {
      const row = element('tr');
      row.append(...[what, tokens, median.toFixed(1), best.toFixed(1)].map((text) => element('td', '', text)));
      return row;
    }));
    table.hidden = false;
    $('bench-copy').hidden = !navigator.clipboard;
    say(note, `${$('runs').textContent.split(';')[0]}; medians of ${runs} runs`);
  } catch (error) {
    say(note, error.message, error.code !== 'aborted');
  }
  running = false;
  $('bench-start').disabled = false;
  $('bench-stop').hidden = true;
};
$('bench-copy').onclick = async () => {
  const rows = Array.from($('bench-table').rows, (row) => Array.from(row.cells, (cell, i) => (i ? cell.textContent.padStart(14) : cell.textContent.padEnd(9))).join(''));
  const text = [name, $('bench-note').textContent, navigator.userAgent, ...rows, ''].join('\n');
  const said = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Not allowed');
  $('bench-copy').textContent = said;
  setTimeout(() => { $('bench-copy').textContent = 'Copy as text'; }, 1500);
};

// a page that is left while it loads lets another tab load, and starts again when the visitor comes back
onpagehide = () => { if (!info) worker?.terminate(); };
onpageshow = ({ persisted }) => { if (persisted && !info) start(); };
start();
