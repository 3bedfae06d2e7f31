#!/bin/sh
# run_memory.sh FORGEC MAKE_GGUF PEAK -- a build takes the same memory whatever the size of its model: weights pass through it in pieces.
forgec=$1 make=$2 peak=$3
. "$(dirname "$0")/../harness.sh"
cd "$tmp" || exit 1
"$make" --shape 3b-a0.6b --layers 2 --vocab 20000 --type Q8_0 --pure --tokenizer none -o model.gguf || exit 1
size=$(($(wc -c < model.gguf) / 1048576))
[ "$size" -ge 240 ] || bad "a model of $size MiB is too small for this"
# built TARGET MOST: within MOST MiB
built() {
    check "$1" 0 "$peak" mib "$forgec" build model.gguf -t "$1" --ctx 512 --weights external -q -o program
    [ "$(cat mib)" -le "$2" ] || bad "a build took $(cat mib) MiB for a model of $size"
    [ "$(cat mib)" -ge 8 ] || bad "$(cat mib) MiB were measured, which cannot be"
    [ "$(($(wc -c < program.weights) / 1048576))" -ge 230 ] || bad "the weights are not all there"
}
built x86-64-v3 90
built gfx1151 90
summary
