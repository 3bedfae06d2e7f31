// test.js -- the page of test.html: starts the tests of test_worker.js, shows their results, and copies them as text.
import { cells, heads, report, total } from './test_kernels.js';

const $ = (id) => document.getElementById(id);
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
let worker = null, name = 'A model', device = '', rows = [];

function say(text, isError = false) {
  $('said').textContent = text;
  $('said').classList.toggle('error', isError);
}

function show() {
  $('rows').replaceChildren(...rows.map((row) => {
    const line = document.createElement('tr');
    line.className = row.passed ? '' : 'failed';
    const words = cells(row), cell = (text, colSpan) => Object.assign(document.createElement('td'), { textContent: text, colSpan });
    line.append(...words.map((text, i) => cell(text, i + 1 === words.length ? heads.length - i : 1)));
    line.title = row.group && `tested in ${row.group}`;
    return line;
  }));
  $('table').hidden = false;
}

function end(text, isError) {
  worker?.terminate();
  worker = null;
  say(text, isError);
  $('bar').hidden = true;
  $('start').disabled = false;
  $('copy').hidden = !rows.length || !navigator.clipboard;
}

const hear = {
  ready: (about) => { document.title = $('title').textContent = `${name = about.name || name}: test of the kernels`; },
  progress: ({ loaded, total: all }) => {
    Object.assign($('bar'), { value: loaded, max: all });
    say(`The model: ${megabytes(loaded)} of ${megabytes(all)}`);
  },
  about: (about) => {
    device = about.device;
    Object.assign($('bar'), { value: 0, max: 1 });
    say(`${device}: compiling`);
  },
  event: ({ done, total: all, rows: some }) => {
    rows = some;
    show();
    Object.assign($('bar'), { value: done, max: all });
    say(`${device}: ${done} of ${all} groups`);
  },
  rows: (all) => {
    rows = all;
    show();
    end(`${device}: ${total(rows)}`, rows.some((row) => !row.passed));
  },
  error: ({ message }) => end(message, true),
};

$('start').onclick = () => {
  $('start').disabled = true;
  $('copy').hidden = $('table').hidden = true;
  $('bar').hidden = false;
  rows = [];
  say('Downloading the model');
  worker = new Worker('test_worker.js', { type: 'module' });
  worker.onmessage = ({ data }) => { for (const [what, value] of Object.entries(data)) hear[what](value); };
  worker.onerror = (event) => {
    event.preventDefault();
    end(event.message ? `The test failed: ${event.message}.`
      : 'The test cannot be loaded: a file of this folder or the network is missing.', true);
  };
  worker.postMessage({});
};
$('copy').onclick = async () => {
  const text = report(rows, [name, device, navigator.userAgent]);
  $('copy').textContent = await navigator.clipboard.writeText(text).then(() => 'Copied', () => 'Not allowed');
  setTimeout(() => { $('copy').textContent = 'Copy as text'; }, 1500);
};
$('heads').append(...heads.map((text) => Object.assign(document.createElement('th'), { scope: 'col', textContent: text })));
$('start').disabled = false;
