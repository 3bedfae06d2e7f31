#!/bin/sh
# random_models.sh FORGEC MAKE_GGUF DIR [SEED]: makes models of random shapes and weights with contexts up to 8192, and their logits from the CPU
# program (--exact, this machine), as a folder for build_device.sh: GOLDEN=DIR build_device.sh ...
set -eu
[ $# -ge 3 ] || { echo "usage: random_models.sh FORGEC MAKE_GGUF DIR [SEED]" >&2; exit 2; }
forgec=$1 make_gguf=$2 dir=$3 seed=${4:-$(($(date +%s) % 60000000 + 1))}
mkdir -p "$dir"
echo "{" >"$dir/manifest.json"

# model ID ARCH POSITIONS CONTEXT VOCABULARY ARGUMENTS...
model() {
    id=$1 arch=$2 n=$3 context=$4 vocab=$5; shift 5
    "$make_gguf" --arch "$arch" --vocab "$vocab" --ctx "$context" --tokenizer none --seed "$seed" "$@" -o "$dir/$id.gguf"
    "$forgec" build "$dir/$id.gguf" -q --exact --ctx "$context" -o "$dir/program"
    awk -v n="$n" -v vocab="$vocab" -v seed="$seed" 'BEGIN { srand(seed); for (i = 0; i < n; i++) printf "%d ", int(rand() * vocab); print "" }' >"$dir/$id.tokens"
    "$dir/program" -q --tokens "@$dir/$id.tokens" --print-tokens -n 0 --logits "$dir/all"
    tail -c $((48 * vocab * 4)) "$dir/all" >"$dir/$id.logits"
    "$dir/program" -q --tokens "@$dir/$id.tokens" --print-tokens -n 48 --temp 0 --repeat-penalty 1 --ignore-eos >"$dir/$id.greedy"
    rm -f "$dir/all" "$dir/program"
    cat >>"$dir/manifest.json" <<END
{ "id": "$id",
"arch": "$arch",
"model": "$id.gguf",
"tokens": "$id.tokens",
"logits": "$id.logits",
"greedy": "$id.greedy",
"positions": "last 48 (of $n)",
"n_positions": $n,
"n_vocab": $vocab,
"n_ctx": $context,
"tolerance": { 
"f32_max_abs": 0.004,
"mean_kl": 0.001
} },
END
    seed=$((seed + 1))
}

# each seed has another shape: KV heads, query heads per KV head, head size, widths
pick() {                # returns one of the arguments, chosen by the seed
    shift $((seed / 7 % $#))
    echo "$1"
}
model long-llama llama 8100 8192 640 --layers 2 --embd 256 --ff 512 --heads 8 --kv-heads 2 --head-dim 64 --type Q4_K_M --untied
model long-qwen3 qwen3 4500 6000 512 --layers 2 --embd 192 --ff 448 --heads 6 --kv-heads 3 --head-dim 128 --type Q8_0 --tied
model wide-llama llama 700 1024 1024 --layers 1 --embd 2304 --ff 1280 --heads 4 --kv-heads 2 --head-dim 128 --type Q6_K --tied
model any-qwen2 qwen2 $((100 + seed % 900)) 1024 777 --layers 3 --embd $((64 * $(pick 2 3 5))) --ff $((32 * $(pick 6 9 13 21))) --heads $(pick 4 6 8 12) --kv-heads 2 --head-dim $(pick 32 64 80 96) --type BF16 --untied
model any-llama llama $((100 + seed % 800)) 1024 1000 --layers 2 --embd $((32 * $(pick 3 5 9 11))) --ff $((32 * $(pick 5 7 12 33))) --heads $(pick 3 6 9) --kv-heads 3 --head-dim $(pick 32 48 64 112) --type $(pick Q8_0 Q4_0 Q5_1 F16) --untied
echo "{ } }" >>"$dir/manifest.json"
