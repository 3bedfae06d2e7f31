// compare.mjs -- MODULES TOOL CORPUS FOLDER NAME...: compares the tokens of the npm package `tokenizers` for a model's own tokenizer.json with
// forgec's tokens for a GGUF vocabulary made from it.  MODULES: node_modules; FOLDER: for the files that it makes.  NAME: a name of the table below, or a value of
// tokenizer.ggml.pre, for gpt-oss's vocabulary with that pattern.  $BERT_VOCAB: a vocab.txt.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { execFileSync } from 'node:child_process';
import { bert, gguf, patterns, vocabulary_of } from './models.mjs';

const [modules, tool, corpus, folder, ...names] = process.argv.slice(2);
const { Tokenizer } = createRequire(path.join(path.resolve(modules), 'x'))('tokenizers');
// package of @lenml, and the keys of its GGUF file
const models = {
    'llama 3':     { package: 'llama3_1', model: 'gpt2', pre: 'llama-bpe' },
    'qwen3':       { package: 'qwen3', model: 'gpt2', pre: 'qwen2' },
    'gpt-oss':     { package: 'gptoss', model: 'gpt2', pre: 'gpt-4o' },
    'gpt-4o':      { package: 'gpt4o', model: 'gpt2', pre: 'gpt-4o' },
    'gpt-3.5':     { package: 'gpt35turbo', model: 'gpt2', pre: 'dbrx' },
    'deepseek-v3': { package: 'deepseek_v3', model: 'gpt2', pre: 'deepseek-v3' },
    'gemma 2':     { package: 'gemini', model: 'llama' },
    'gemma 3':     { package: 'gemma3', model: 'llama' },
    'bert':        { model: 'bert' },
    'bert, cased': { model: 'bert', cased: true },
};
const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
// names that also mean NFC and undivided words, besides the pattern
const composed = ['qwen2', 'hunyuan', 'stablelm2', 'qwen35', 'command-r', 'olmo', 'mpt', 'modern-bert'], whole = ['tekken', 'youtu', 'llama-bpe', 'granite-embed-multi-97m'];
for (const [pres, pre_tokenizers] of patterns)
    for (const pre of pres.split(' ')) models[pre] ??= { package: 'gptoss', model: 'gpt2', pre, pre_tokenizers };

const texts = [];
const data = fs.readFileSync(corpus);
for (let at = 0, end; (end = data.indexOf(255, at)) >= 0; at = end + 1) texts.push(data.subarray(at, end).toString());

let failed = 0;
for (const name of names) {
    if (!models[name]) throw new Error(`no model ${name}`);
    const m = models[name];
    let json, entries;
    if (m.model === 'bert') {
        if (!process.env.BERT_VOCAB) { console.log(`${name}: left out, BERT_VOCAB is not set`); continue; }
        ({ json, entries } = bert(fs.readFileSync(process.env.BERT_VOCAB, 'utf8').split('\n').filter(Boolean), m.cased));
    } else {
        json = JSON.parse(fs.readFileSync(path.join(modules, '@lenml', `tokenizer-${m.package}`, 'models/tokenizer.json'), 'utf8'));
        if (m.pre_tokenizers) {
            json.pre_tokenizer = { type: 'Sequence', pretokenizers: [...m.pre_tokenizers, ...m.pre_tokenizers.at(-1).use_regex ? [] : [bytes]] };
            json.normalizer = composed.includes(m.pre) ? { type: 'NFC' } : null;
            json.model.ignore_merges = whole.includes(m.pre);
        }
        entries = vocabulary_of(json, m);
    }
    // Texts of special tokens count as plain text here: the corpus has some, and this test is about words.
    json.added_tokens = [];
    const file = path.join(folder, 'vocabulary.gguf');
    gguf(file, entries);
    const theirs = Tokenizer.fromString(JSON.stringify(json));
    const ours = execFileSync(tool, [file], { input: data, maxBuffer: 2 ** 30 }).toString().split('\n');
    let differ = 0, tokens = 0, first = '';
    for (let i = 0; i < texts.length; i++) {
        const want = (await theirs.encode(texts[i], null, { addSpecialTokens: false })).getIds();
        tokens += want.length;
        if (want.join(' ') === ours[i]) continue;
        differ++;
        if (first) continue;
        const got = ours[i].split(' ').map(Number);
        let k = 0;
        while (k < want.length && want[k] === got[k]) k++;
        const shown = ids => ids.slice(k, k + 6).map(id => `${id} ${JSON.stringify(theirs.idToToken(id))}`).join(', ');
        first = `\n    text ${i}, token ${k}: ${shown(got)}\n    for ${shown(want)}`;
    }
    console.log(`${name}: ${texts.length} texts, ${tokens} tokens, ${differ} texts differ${first}`);
    failed += differ > 0;
}
process.exit(failed ? 1 : 0);
