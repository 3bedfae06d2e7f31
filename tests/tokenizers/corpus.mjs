// corpus.mjs -- FOLDER OUT: texts of Debian's packages, unpacked in FOLDER, in all their scripts -> OUT, each ended by a byte 0xff.
import fs from 'node:fs';
import path from 'node:path';

const [folder, out] = process.argv.slice(2), texts = [];
const share = path.join(folder, 'usr/share');
const files = (dir, ext) => !fs.existsSync(dir) ? [] : fs.readdirSync(dir, { recursive: true }).map(String).filter(f => f.endsWith(ext)).sort()
    .map(f => path.join(dir, f)).filter(f => fs.statSync(f).isFile());
const read = f => { try { return new TextDecoder('utf-8', { fatal: true }).decode(fs.readFileSync(f)); } catch { return ''; } };
const cut = (text, bytes) => {                         // pieces of about 1,000 characters, at most this many bytes in all
    const chars = [...text.toWellFormed()];
    for (let i = 0, n = 0; i < chars.length && n < bytes; i += 1000) {
        const piece = chars.slice(i, i + 1000).join('');
        texts.push(piece);
        n += Buffer.byteLength(piece);
    }
};
const thin = (lines, bytes) => {                       // lines from all parts of a list
    const step = Math.max(1, Math.floor(lines.join('\n').length * 2 / bytes));
    return lines.filter((_, i) => i % step === 0).join('\n');
};
const contents = xml => xml.replace(/<!--[^]*?-->|<[^>]*>/g, '\n').replace(/&lt;/g, '<').replace(/&amp;/g, '&').replace(/\s*\n\s*/g, '\n');

for (const f of files(path.join(share, 'unicode/cldr/common/main'), '.xml')) cut(contents(read(f)), 14000);
for (const f of files(path.join(share, 'unicode/cldr/common/annotations'), '.xml')) cut(contents(read(f)), 12000);
for (const f of files(path.join(share, 'unicode/cldr/common/transforms'), '.xml')) cut(contents(read(f)), 3000);
for (const f of files(path.join(share, 'hunspell'), '.dic')) cut(thin(read(f).split(/\r?\n/), 60000), 60000);
// Decomposed, composed and compatible forms, several in a word.
const forms = read(path.join(share, 'unicode/NormalizationTest.txt')).split('\n').filter(l => /^[0-9A-F]/.test(l))
    .map(l => l.split(';').slice(0, 3).map(s => s.split(' ').map(c => String.fromCodePoint(parseInt(c, 16))).join('')));
cut(forms.map((f, i) => f[i % 3] + (i % 7 ? '' : ' ')).join(''), 400000);
cut(forms.map(f => f[2]).join(' '), 400000);
// Vietnamese, Greek and Korean as macOS spells them.
for (const name of ['vi_VN', 'el_GR', 'ko'])
    for (const f of files(path.join(share, 'hunspell'), name + '.dic')) cut(thin(read(f).split(/\r?\n/), 80000).normalize('NFD'), 80000);
// Every codepoint that is assigned, between letters, alone and twice.
const points = [];
for (let c = 1; c < 0x110000; c++) {
    const s = c >= 0xd800 && c < 0xe000 ? '' : String.fromCodePoint(c);
    if (s && /\P{Cn}/u.test(s) && !(c >= 0xe000 && c < 0xf900) && c < 0xf0000 && !(c > 0x3500 && c < 0x9f00 && c % 16) &&
        !(c > 0xac00 && c < 0xd700 && c % 16) && !(c > 0x17000 && c < 0x18d00 && c % 16) && !(c > 0x20000 && c < 0x32400 && c % 64))
        points.push(s);
}
cut(points.map((s, i) => ['a' + s + 'b ', s + ' ', 'A' + s + s + '1', "x'" + s][i % 4]).join(''), 800000);
// Codepoints at random: a linear congruential generator.
let state = 1;
const next = n => { state = (Math.imul(state, 1664525) + 1013904223) >>> 0; return Math.floor(state / 2 ** 32 * n); };
const ascii = " \n\t'.,-/sStTabzAZ019";
let mixed = '';
for (let i = 0; i < 150000; i++) mixed += next(2) ? ascii[next(ascii.length)] : points[next(points.length)];
cut(mixed, 500000);

const all = texts.join('\n'), scripts = new Map();
const names = 'Latin Greek Cyrillic Armenian Hebrew Arabic Syriac Thaana Nko Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada ' +
    'Malayalam Sinhala Thai Lao Tibetan Myanmar Georgian Hangul Ethiopic Cherokee Canadian_Aboriginal Khmer Mongolian Hiragana Katakana Han ' +
    'Bopomofo Yi Tifinagh Vai Javanese Balinese Cham Meetei_Mayek Sundanese Ol_Chiki Osage Adlam Chakma Newa Coptic Gothic Tai_Le Lepcha Limbu';
for (const name of names.split(' ')) {
    const n = (all.match(new RegExp(`\\p{Script=${name}}`, 'gu')) ?? []).length;
    if (n >= 1000) scripts.set(name, n);
}
fs.writeFileSync(out, Buffer.concat(texts.flatMap(t => [Buffer.from(t), Buffer.from([255])])));
console.log(`${texts.length} texts, ${(fs.statSync(out).size / 1e6).toFixed(1)} MB, ${scripts.size} scripts of 1,000 letters or more: ` +
    [...scripts.keys()].join(' '));
