#!/bin/sh
# run_bindings.sh FORGEC DATA UNPACKED NODE_MODULES -- matrices that are larger than a binding, in Node on a device that has only the limits that WebGPU
# guarantees: the stored tokens and, if full, the same logits as with undivided matrices, and experts (by default run_experts.sh tests them).
# DATA: tests/data/golden; UNPACKED: small models of many architectures.
forgec=$1 llama=$2/q-llama-Q8_0 experts=$3/granitemoe modules=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
. "$here/find.sh"
export NODE_PATH="$modules"

# folder NAME KIB MODEL OPTIONS...: built with bindings of at most KIB KiB
folder() {
    printf 'inherits: webgpu\nbinding: {value: %s, unit: KiB, source: "so that there are several"}\n' "$2" > "$tmp/$1.yaml"
    made=$1 model=$3
    shift 3
    check "the plan of $made" 0 "$forgec" build "$model.gguf" -t "$tmp/$made.yaml" --emit plan "$@"
    cp "$tmp/out" "$tmp/$made.plan"
    check "$made" 0 "$forgec" build "$model.gguf" -t "$tmp/$made.yaml" -q "$@" -o "$tmp/$made"
}
# shows NAME COUNT TEXT: COUNT lines of the folder's plan have the text
shows() {
    n=$(grep -c -e "$3" "$tmp/$1.plan")
    [ "$n" -eq "$2" ] || bad "$n lines of the plan of $1 have '$3', wanted $2"
}

[ -n "$full" ] && exact='--ctx 32' || exact='--ctx 112 --exact'
# shellcheck disable=SC2086  # options are words
folder parted 32 "$llama" $exact
shows parted 2 'embed: rows of weight W_TOKEN_EMBD_2, Q8_0 512 x 256, rows 64 to 127'
shows parted 2 '^  gemv ffn_gate_up_2 '
shows parted 1 '^  gemm ffn_gate_up_tiles_2 '
refuse "a binding of fewer rows than a tile's" 1 'give the target a larger `binding`' sh -c \
    'printf "inherits: webgpu\nbinding: {value: 16, unit: KiB, source: small}\n" > "$2/small.yaml" && exec "$1" build "$3" -t "$2/small.yaml" -o "$2/small"' \
    sh "$forgec" "$tmp" "$llama.gguf"
[ ! -e "$tmp/small" ] || bad "something of it is there"
if [ -n "$full" ]; then
    folder whole 1024 "$llama" --ctx 32
    shows whole 0 'rows [0-9]* to'
    check "its logits" 0 "$node" "$here/bindings.mjs" logits "$tmp/parted" "$tmp/whole" "$llama"
    folder experts 8 "$experts" --exact
    shows experts 18 'matrices [0-9]* to'
    check "experts' tokens" 0 "$node" "$here/bindings.mjs" tokens "$tmp/experts" "$experts"
else check "its tokens" 0 "$node" "$here/bindings.mjs" tokens "$tmp/parted" "$llama" buffers
fi
summary
