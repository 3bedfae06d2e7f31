#!/bin/sh
# hf-tokenizers-nfc-is-unicode-9.sh -- tokenizers 0.23.2 (npm, native, x86-64 or aarch64 Linux, glibc) composes texts by the tables of Unicode 9.
#
# Its NFC leaves a combining mark that Unicode 11 brought (U+08D3, class 220) behind one of class 230; by the Unicode Standard and by the engine of Node 20 it
# comes before.  Marks that Unicode 9 has are put in order.  A vocabulary's tokens of such a text are thus others than after a normaliser of today, while the
# same package's regular expressions know the letters of Unicode 16.
# Seen with node 20.20.2 on 2026-11-28.  Needs node, npm and the network; exit code 1 when the behaviour is another one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --ignore-scripts --no-audit --no-fund tokenizers@0.23.2 >/dev/null
cat >try.cjs <<'JS'
const { nfcNormalizer } = require('tokenizers');
const hex = (text) => [...text].map((c) => c.codePointAt(0).toString(16)).join(' ');
const rows = [
  ['a mark of Unicode 1', 'x\u0301\u0323', '78 323 301', '78 323 301'],
  ['a mark of Unicode 11', 'x\u0301\u08d3', '78 301 8d3', '78 8d3 301'],
];
let same = true;
for (const [what, text, theirs, standard] of rows) {
  const got = hex(nfcNormalizer().normalizeString(text)), node = hex(text.normalize('NFC'));
  console.log(`${what}: ${hex(text)} -> tokenizers ${got}, node ${node}`);
  same = same && got === theirs && node === standard;
}
process.exit(same ? 0 : 1);
JS
node try.cjs
