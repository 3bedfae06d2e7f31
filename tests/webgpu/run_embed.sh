#!/bin/sh
# run_embed.sh FORGEC MAKE_GGUF NODE_MODULES -- models of embeddings on WebGPU, in Node: vectors against those that another implementation computed in
# float64 (tests/data/tiny/embeddings.txt), rows against those of wasm32; what such a model refuses.
# By default a model with mean pooling, and rows of bert, whose vector is the first row; full: each pooling and architecture.
forgec=$1 make=$2 modules=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
. "$here/find.sh"
vectors=$here/../data/tiny/embeddings.txt
export NODE_PATH="$modules"

"$make" --shape golden-bert --type F16 --tokenizer none -o "$tmp/bert.gguf" || exit 1
"$make" --shape golden-nomic-bert --type F16 --tokenizer none -o "$tmp/nomic-bert.gguf" || exit 1
for pooling in 1 3; do
    "$make" --arch qwen3 --layers 2 --embd 64 --ff 96 --heads 4 --kv-heads 2 --head-dim 16 --vocab 256 --ctx 200 --type F16 --tokenizer none \
        --key %.pooling_type=$pooling -o "$tmp/qwen3-$pooling.gguf" || exit 1
done
mv "$tmp/qwen3-1.gguf" "$tmp/qwen3-mean.gguf"
mv "$tmp/qwen3-3.gguf" "$tmp/qwen3.gguf"
# A prompt of qwen3-mean takes several steps, some with few tokens.
printf 'inherits: webgpu\ntiles: {prefill_chunk: 7}\n' > "$tmp/short.yaml"
for model in bert ${full:+nomic-bert qwen3} qwen3-mean; do
    target=webgpu
    [ $model != qwen3-mean ] || target=$tmp/short.yaml
    check "$model" 0 "$forgec" build "$tmp/$model.gguf" -t "$target" --exact --kv f32 -q -o "$tmp/$model"
    [ -n "$full" ] || [ $model = qwen3-mean ] || continue
    check "$model's vector" 0 "$node" "$here/embed.mjs" "$tmp/$model" "$(grep "^$model: " "$vectors")"
done
check "for wasm32" 0 "$forgec" build "$tmp/bert.gguf" -t wasm32 --exact --kv f32 -q -o "$tmp/wasm"
check "rows of wasm32" 0 "$node" "$tmp/wasm/run.js" --tokens 3,17,200,5,9,9,250,31,77,12,64 --rows "$tmp/wasm.rows"
check "rows" 0 "$node" "$tmp/bert/run.js" --tokens 3,17,200,5,9,9,250,31,77,12,64 --rows "$tmp/gpu.rows"
check "the same" 0 "$node" -e 'const { readFileSync } = require("fs");
    const [a, b] = process.argv.slice(1).map((path) => { const bytes = readFileSync(path); return new Float32Array(Uint8Array.from(bytes).buffer); });
    const off = a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0);
    if (a.length !== b.length || a.length === 0 || !(off < 1e-4)) { console.log(`${a.length} and ${b.length} numbers, ${off} apart`); process.exit(1); }' \
    "$tmp/wasm.rows" "$tmp/gpu.rows"
refuse "text of it" 1 "This is an embedding model" "$node" "$tmp/bert/run.js" --tokens 3,17 -n 4
summary
