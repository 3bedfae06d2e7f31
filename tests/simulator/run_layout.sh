#!/bin/sh
# run_layout.sh FORGEC MAKE_GGUF -- rows of weights that would lie in the same memory channels (docs/gpu_internals.md): an F16 model with rows of 2,048 and
# 4,096 bytes, for gfx1151 and, if full, also with row_period 0.  Checks the logits of both against the reference, and the imbalance of channels in the products of a token:
# without padding it is at least 7, with padding at most 1.1.  Padding is below 2 % of the weights, and programs of two GPUs share the padded weights.
set -eu
[ $# -ge 2 ] || { echo "usage: run_layout.sh FORGEC MAKE_GGUF" >&2; exit 2; }
forgec=$1 make_gguf=$2
. "$(dirname "$0")/../harness.sh"
"$make_gguf" --embd 1024 --ff 2048 --heads 8 --kv-heads 4 --head-dim 128 --layers 1 --vocab 512 --tokenizer none --type F16 -o "$tmp/f16.gguf" >/dev/null
printf 'inherits: gfx1151\nrow_period: {value: 0, unit: B, source: "to compare"}\n' >"$tmp/plain.yaml"

# imbalance LEAST MOST: checks the imbalance of a token's five products in the JSON of $tmp/out, for its first target
imbalance() {
    awk -F '"' -v least="$1" -v most="$2" '
        { value = $3; gsub(/[:\t,]/, "", value) }
        $2 == "decode" { decode = 1 }
        $2 == "kernel" { kernel = $4 }
        $2 == "channel_imbalance" && decode && products < 5 && kernel ~ /^(attn_qkv|attn_output|ffn_gate_up|ffn_down|token_embd)$/ {
            products++
            printf "%-12s %5.2f\n", kernel, value
            if (value + 0 < least + 0 || value + 0 > most + 0) { print "FAILED " kernel ": " value " is not " least " to " most; code = 1 }
        }
        END { exit code || products != 5 }' "$tmp/out" || bad "the imbalance of channels"
}
if [ -n "$full" ]; then
    check "rows as they are" 0 "$forgec" verify "$tmp/f16.gguf" -t "$tmp/plain.yaml" --simulate --json
    imbalance 7 16
fi
check "rows padded" 0 "$forgec" verify "$tmp/f16.gguf" -t "gfx1151${full:+,gfx1100}" --simulate --json
imbalance 1 1.1

# image TARGETS: the bytes of the weights beside a program
image() {
    check "weights for $1" 0 "$forgec" build "$tmp/f16.gguf" -t "$1" --weights external -q -o "$tmp/program"
    bytes=$(wc -c <"$tmp/program.weights")
}
image "$tmp/plain.yaml"; plain=$bytes
image gfx1151; padded=$bytes
image gfx1100,gfx1151; both=$bytes
echo "weights: $plain bytes, padded $padded, of both $both"
[ "$padded" -gt "$plain" ] && [ $(((padded - plain) * 50)) -lt "$plain" ] || bad "padding of $((padded - plain)) bytes"
[ "$both" -eq "$padded" ] || bad "two GPUs do not share the weights"
summary
