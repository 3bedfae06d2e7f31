// models.mjs -- the models' own patterns, and GGUF files of vocabularies, for compare.mjs and vectors.mjs.
import fs from 'node:fs';

const split = pattern => ({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false });
const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
const gpt2 = { ...bytes, use_regex: true };
const digits = { type: 'Digits', individual_digits: true };
const apostrophe = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const o200k = (numbers, letters = '') => `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}${letters}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}${letters}]+${apostrophe}?|` +
    `[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}${letters}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}${letters}]*${apostrophe}?|${numbers}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|` +
    '\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+';
const cl100k = numbers => `${apostrophe}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|${numbers}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;

// The letters that have case, as deepseek-llm's tokenizer.json lists them.
const cased = '\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}' +
    '\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}' +
    '\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}' +
    '\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}' +
    '\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}' +
    '\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}' +
    '\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}' +
    '\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}' +
    '\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}' +
    '\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}' +
    '\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}' +
    '\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}' +
    '\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}';

// Names as in tokenizer.ggml.pre, and how their models' tokenizer.json cuts text into words.  If no package contains the file, the pattern
// comes from llama.cpp's comments, from the model's Python code (Kimi K2, HunYuan), or from the library's own rules (Digits, ByteLevel).
export const patterns = [
    ['llama-bpe dbrx smaug-bpe glm4 chatglm-bpe', [split(cl100k('\\p{N}{1,3}'))]],
    ['qwen2 hunyuan stablelm2', [split(cl100k('\\p{N}'))]],
    ['qwen35', ["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"].map(split)],
    ['gpt-4o llama4 kanana2 minimax-m2 talkie', [split(o200k('\\p{N}{1,3}'))]],
    ['granite-embed-multi-97m', [split(o200k('\\p{N}{1,3}'))]],
    ['tekken', [split(o200k('\\p{N}').replaceAll(apostrophe + '?', ''))]],
    ['kimi-k2', [split('[\\p{Han}]+|' + o200k('\\p{N}{1,3}', '&&[^\\p{Han}]').replace('[\\r\\n/]*', '[\\r\\n]*'))]],
    ['tiny_aya cohere2moe', [split('\\d{1,3}(?=(?:\\d{3})*\\b)'), split(o200k('\\p{N}{1,3}'))]],
    ['youtu', [split('[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+'), split(o200k('\\p{N}'))]],
    ['afmoe', ["\\p{Nd}{1,510}(?=(?>\\p{Nd}{510})*(?:\\P{Nd}|$))|\\G\\p{Nd}{510}", "\\A\\p{Nd}{1,2}(?=\\p{Nd}{3}+\\z)",
                                "\\A\\p{Nd}{3}|\\G\\p{Nd}{3}",
                                "(?:[\\u4E00-\\u9FFF\\u3040-\\u309F\\u30A0-\\u30FF\\u3400-\\u4DBF\\uf900-\\uFAFF\\uFF65-\\uFF9F\\u2F00-\\u2FDF]+|[\\u0E00-\\u0E7F]+|[\\u0E80-\\u0EFF]+|[\\u1780-\\u17FF]+|[\\u1000-\\u109F\\uAA60-\\uAA7F\\uA9E0-\\uA9FF]+|[\\uAC00-\\uD7AF\\u1100-\\u11FF]+)",
                                "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"].map(split)],
    ['deepseek-v3 hunyuan-dense joyai-llm', ['\\p{N}{1,3}', '[一-龥぀-ゟ゠-ヿ]+', "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"].map(split)],
    ['deepseek-llm', [
                     "[\\r\\n]", `\\s?[${cased}]+`,
                     "\\s?[!-/:-~！-／：-～‘-‟\u3000-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"].map(split)],
    ['deepseek-coder', ["[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"].map(split)],
    ['gpt-2 phi-2 olmo mpt modern-bert', [gpt2]],
    ['starcoder command-r smollm', [digits, gpt2]],
    ['bailingmoe bailingmoe2', ["'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"].map(split)],
    ['exaone-moe', ["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"].map(split)],
    ['seed-coder', ["(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\r\n]+|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"].map(split)],
];

// ---- a GGUF file with only metadata ----

const STRING = 8, ARRAY = 9, U32 = 4, I32 = 5, F32 = 6, BOOL = 7;
const u32 = n => { const b = Buffer.alloc(4); b.writeUInt32LE(n); return b; };
const u64 = n => { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(n)); return b; };
const text = s => { const b = Buffer.from(s); return Buffer.concat([u64(b.length), b]); };
const array = (type, items) => Buffer.concat([u32(type), u64(items.length), ...items]);
export function gguf(file, entries) {
    const kv = entries.map(([key, type, value]) => type === 'u32' ? [key, U32, u32(value)] : [key, type, value])
        .map(([key, type, value]) => Buffer.concat([text(key), u32(type), value]));
    fs.writeFileSync(file, Buffer.concat([Buffer.from('GGUF'), u32(3), u64(0), u64(kv.length), ...kv]));
}
const i32 = n => { const b = Buffer.alloc(4); b.writeInt32LE(n); return b; };
const f32 = x => { const b = Buffer.alloc(4); b.writeFloatLE(x); return b; };

export function vocabulary_of(json, m) {
    const tokens = [], types = [];
    for (const [token, id] of Object.entries(json.model.vocab)) { tokens[id] = token; types[id] = 1; }
    for (const t of json.added_tokens) { tokens[t.id] = t.content; types[t.id] = t.special ? 3 : 4; }
    for (let i = 0; i < tokens.length; i++) if (tokens[i] === undefined) { tokens[i] = `[PAD${i}]`; types[i] = 5; }
    const entries = [['general.architecture', STRING, text('llama')], ['tokenizer.ggml.model', STRING, text(m.model)]];
    if (m.model === 'llama') {
        for (let i = 0; i < tokens.length; i++) if (/^<0x[0-9A-F]{2}>$/.test(tokens[i])) types[i] = 6;
        entries.push(['tokenizer.ggml.scores', ARRAY, array(F32, tokens.map((_, i) => f32(-i)))],
            ['tokenizer.ggml.unknown_token_id', U32, u32(tokens.indexOf('<unk>'))],
            ['tokenizer.ggml.add_space_prefix', BOOL, Buffer.from([0])]);
    } else {
        entries.push(['tokenizer.ggml.pre', STRING, text(m.pre)],
            ['tokenizer.ggml.merges', ARRAY, array(STRING, json.model.merges.map(x => text(Array.isArray(x) ? x.join(' ') : x)))]);
    }
    entries.push(['tokenizer.ggml.tokens', ARRAY, array(STRING, tokens.map(text))],
        ['tokenizer.ggml.token_type', ARRAY, array(I32, types.map(i32))]);
    return entries;
}

// words: as in BERT's vocab.txt; "##" continues a word.
export function bert(words, cased) {
    const vocab = Object.fromEntries(words.map((w, i) => [w, i])), special = w => /^\[.+\]$/.test(w);
    const json = {
        version: '1.0', added_tokens: [], post_processor: null, decoder: null, truncation: null, padding: null,
        normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: !cased },
        pre_tokenizer: { type: 'BertPreTokenizer' },
        model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab },
    };
    const entries = [['general.architecture', STRING, text('bert')], ['tokenizer.ggml.model', STRING, text('bert')],
        ['tokenizer.ggml.normalizer.lowercase', BOOL, Buffer.from([cased ? 0 : 1])],
        ['tokenizer.ggml.tokens', ARRAY, array(STRING, words.map(w => text(special(w) ? w : w.startsWith('##') ? w.slice(2) : '\u2581' + w)))],
        ['tokenizer.ggml.token_type', ARRAY, array(I32, words.map(w => i32(special(w) ? 3 : 1)))]];
    return { json, entries };
}

// A tokenizer.json from a GGUF file's byte-level vocabulary.
export function own_json(file, pre, normalizer) {
    const b = fs.readFileSync(file), sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8], kv = {};
    let at = 24;
    const string = () => { const n = Number(b.readBigUInt64LE(at)); at += 8 + n; return b.subarray(at - n, at).toString(); };
    const value = type => {
        if (type === STRING) return string();
        if (type !== ARRAY) { at += sizes[type]; return null; }
        const item = b.readUInt32LE(at), n = Number(b.readBigUInt64LE(at + 4)), items = [];
        at += 12;
        for (let i = 0; i < n; i++) items.push(value(item));
        return items;
    };
    for (let n = Number(b.readBigUInt64LE(16)); n > 0; n--) { const key = string(); at += 4; kv[key] = value(b.readUInt32LE(at - 4)); }
    return {
        version: '1.0', added_tokens: [], post_processor: null, decoder: null, truncation: null, padding: null, normalizer,
        pre_tokenizer: { type: 'Sequence', pretokenizers: [...pre, bytes] },
        model: { type: 'BPE', vocab: Object.fromEntries(kv['tokenizer.ggml.tokens'].map((t, i) => [t, i])), merges: kv['tokenizer.ggml.merges'] },
    };
}
