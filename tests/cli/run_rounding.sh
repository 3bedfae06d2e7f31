#!/bin/sh
# run_rounding.sh FORGEC GOLDEN TARGETS -- rounding of products of bfloat16: by default prompts of F16 models are as exact as floats; --fast-bf16 rounds to one bfloat16.
# TARGETS: folder of x86-64-v3-tiles.yaml and -dot.yaml, which compute these products in plain C.
forgec=$1 golden=$2 targets=$3
. "$(dirname "$0")/../harness.sh"
model=$golden/llama-h288.gguf
rounds() { # TARGET OPTIONS BOUND ARITHMETIC
    check "$1 $2" 0 "$forgec" verify "$model" -t "$targets/x86-64-v3-$1.yaml" --tokens 40 $2
    out_has "$3"
    check "$1 $2, the program" 0 "$forgec" build "$model" -t "$targets/x86-64-v3-$1.yaml" $2 -q -o "$tmp/program"
    check "$1 $2, about it" 0 "$tmp/program" --info
    out_has "$4"
}
rounds tiles "" "two bf16 an activation" "tokens f32, prompts two bf16, their attention two bf16"
rounds tiles --fast-bf16 "bf16 activations and weights" "tokens f32, prompts bf16, their attention bf16"
rounds dot "" "float activations, f16 cache" "tokens f32, prompts f32, their attention f32"
rounds dot --fast-bf16 "bf16 activations and weights" "tokens f32, prompts bf16, their attention bf16"
refuse "exact and fast" 2 "--exact cannot be combined with --fast-bf16" "$forgec" build "$model" --exact --fast-bf16 -o "$tmp/never"
refuse "a GPU" 2 "--fast-bf16" "$forgec" build "$model" -t gfx1151 --fast-bf16 -o "$tmp/never"
summary
