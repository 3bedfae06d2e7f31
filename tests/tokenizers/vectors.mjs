// vectors.mjs -- MODULES CORPUS DATA: writes the vectors of tests/data/tokenizers that compare forgec with the models' own tokenizers, from the
// npm package `tokenizers`: DATA/own.txt (words, as splits.txt), nfc.txt, NAME.own (ids; NAME.gguf must exist, unpacked) and made-bert.gguf.
// DATA: a folder with cases.tar.xz unpacked, which tests/tools/pack.sh packs again.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { bert, gguf, own_json, patterns } from './models.mjs';

const [modules, corpus, data] = process.argv.slice(2);
const tokenizers = createRequire(path.join(path.resolve(modules), 'x'))('tokenizers');
const hex = s => Buffer.from(s).toString('hex');

// ---- texts: a piece in each script, and special cases ----

const scripts = ('Latin Greek Cyrillic Armenian Hebrew Arabic Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala ' +
    'Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee Canadian_Aboriginal Khmer Mongolian Hiragana Katakana Han Bopomofo Yi ' +
    'Tifinagh Vai Ol_Chiki Adlam Chakma Syriac Thaana Nko Meetei_Mayek').split(' ');
const all = fs.readFileSync(corpus).toString('latin1').split('\xff').map(t => Buffer.from(t, 'latin1').toString());
const texts = [];
for (const script of scripts) {
    const is = new RegExp(`\\p{Script=${script}}`, 'gu');
    let best = '', most = 0;
    for (const t of all) {
        if ((t.match(is) ?? []).length < 20) continue;
        const chars = [...t];
        for (let i = 0; i + 34 <= chars.length; i += 17) {
            const piece = chars.slice(i, i + 34).join(''), n = (piece.match(is) ?? []).length;
            if (n > most && /[ \n]/.test(piece)) { best = piece; most = n; }
        }
        if (most >= 26) break;
    }
    if (!best) throw new Error(`no text in ${script}`);
    texts.push(best.toWellFormed());
}
texts.push('कि की हिंदी में', 'тМЖ ПРИвет Мир Ðð', 'ÉCOLE École aÉb ÀÀa', "it'ſ IT'S Don't we'LL 'ſt", 'ǅungla ǈǈ ŉ', '\u0301a \u0301\u0301 x\u0301y',
    '12345 1234567abc 12²34 ½½½ १२३४५६७ 1234_', 'ⅫⅫ 𝟘𝟙𝟚𝟛 ٠١٢٣٤', '한국어 학교 물 말\u1112\u1161\u11ab\u1100\u116e\u11a8', 'e\u0301le\u0300ve n\u0303 Việt Nam\u0309', '\u2581x▁y a\u2581b',
    '\u3000\u2003x\u00a0y \u1680', 'ไทยລາວខ្មែรမြန်မာ한', '中文English日本語かなカナ', '!⺀〇〡々木', '\ud7a3\u11a8\u115f\u1160 가\u11a8', 'x\x0b\x0c\x85y\ufeff\u200b\u00ad', 'İI ı ẞß Σς ǆ');

// ---- words ----

const lines = texts.map(t => `text ${hex(t)}`);
const blank = { version: '1.0', added_tokens: [], normalizer: null, post_processor: null, decoder: null, truncation: null, padding: null };
for (const [names, pre] of patterns) {
    const t = tokenizers.Tokenizer.fromString(JSON.stringify({ ...blank, pre_tokenizer: { type: 'Sequence', pretokenizers: pre },
                                                               model: { type: 'BPE', vocab: {}, merges: [] } }));
    lines.push(`names ${names}`, 'starts ' + texts.map(text => {
        let bits = 0n, at = 0;
        const words = t.getPreTokenizer().preTokenizeString(text).map(w => Number(w[1][1] - w[1][0]));
        for (const n of words) { bits |= 1n << BigInt(at); at += n; }
        if (at !== [...text].length) throw new Error(`${names}: ${at} of ${[...text].length} of ${JSON.stringify(text)}`);
        return bits.toString(16);
    }).join(' '));
}
fs.writeFileSync(path.join(data, 'own.txt'), lines.join('\n') + '\n');

// ---- NFC: parts of NormalizationTest.txt's kind, marks in all orders, and characters newer than the library's tables ----

const nfc = tokenizers.nfcNormalizer(), cases = new Set();
const marks = [0x300, 0x301, 0x303, 0x308, 0x30a, 0x316, 0x323, 0x327, 0x328, 0x334, 0x338, 0x345, 0x5b0, 0x5bc, 0x64b, 0x651, 0x670, 0x93c, 0x94d, 0x9be, 0x9d7,
    0xbbe, 0xe38, 0xf71, 0xf72, 0xf74, 0x102e, 0x1161, 0x11a8, 0x1b35, 0x3099, 0x309a, 0x897, 0x1e4ec, 0x1dfa, 0x110ba, 0x1d165, 0x1d16e];
const bases = [0x20, 0x41, 0x61, 0x6f, 0xc0, 0x1ea5, 0x3b1, 0x391, 0x1f00, 0x915, 0x928, 0x958, 0x9a1, 0x9c7, 0xb95, 0xbc6, 0x1025, 0x1100, 0xac00, 0xac01, 0x304b, 0x212b, 0x2126,
    0xf900, 0xfb1d, 0xfb2c, 0x344, 0x374, 0x1d15e, 0x2adc, 0x11099, 0x11935, 0x105d2, 0x2f800, 0x623, 0x4e2d];
let state = 7;
const next = n => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 2 ** 32 * n); };
for (const b of bases) cases.add(String.fromCodePoint(b)).add(String.fromCodePoint(b, marks[next(marks.length)]));
while (cases.size < 260) {
    let s = '';
    for (let i = next(3) + 1; i > 0; i--) {
        s += String.fromCodePoint(bases[next(bases.length)]);
        for (let k = next(4); k > 0; k--) s += String.fromCodePoint(marks[next(marks.length)]);
    }
    cases.add(s);
}
fs.writeFileSync(path.join(data, 'nfc.txt'), [...cases].map(s => `${hex(s)} ${hex(nfc.normalizeString(s))}\n`).join(''));

// ---- ids ----

async function write_ids(name, json) {
    const t = tokenizers.Tokenizer.fromString(JSON.stringify(json)), out = [];
    for (const text of texts) out.push([hex(text), ...(await t.encode(text, null, { addSpecialTokens: false })).getIds()].join(' '));
    fs.writeFileSync(path.join(data, name + '.own'), out.join('\n') + '\n');
}
for (const [name, pre, normalizer] of [['tiny-gpt-oss-a', 'gpt-4o', null], ['tiny-qwen2-a', 'qwen2', { type: 'NFC' }]])
    await write_ids(name, own_json(path.join(data, name + '.gguf'), patterns.find(p => p[0].split(' ').includes(pre))[1], normalizer));

// A vocabulary of the texts' characters, and of a few words.
const points = new Set(['한', '국']);
for (const t of texts) for (const c of [...t, ...t.normalize('NFD'), ...t.normalize('NFD').toLowerCase()]) if (/[^\s\u2581]/u.test(c)) points.add(c);
const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', 'school', 'the', '##ing'];
for (const c of [...points].filter((_, i) => i % 9)) words.push(c, '##' + c);
for (const cased of [false, true]) {
    const name = cased ? 'made-bert-cased' : 'made-bert', { json, entries } = bert(words, cased);
    gguf(path.join(data, name + '.gguf'), [...entries,
        ...[['unknown', 1], ['padding', 0], ['cls', 2], ['seperator', 3], ['bos', 2]].map(([k, id]) => [`tokenizer.ggml.${k}_token_id`, 'u32', id])]);
    await write_ids(name, json);
}
console.log(`${texts.length} texts, ${patterns.length} rules, ${cases.size} of NFC`);
