#!/bin/sh
# run_not_finite.sh FORGEC POKE_GGUF MODEL.gguf LIBSIMT -- models with NaN and infinities are not built, and programs that overflow end with
# exit code 4 and one line in every mode.  MODEL: Q8_0.  LIBSIMT: the emulator of lanes; without this file no GPU program is run.
forgec=$1 poke=$2 model=$3 simt=$4
here=$(cd "$(dirname "$0")" && pwd)
unset FORGE_HIP_LIBRARY FORGE_CUDA_LIBRARY FORGE_PROGRAM
. "$(dirname "$0")/../harness.sh"
poked() { out=$1; shift; "$poke" "$model" "$out" "$@" || { echo "FAIL poke_gguf"; exit 1; }; }

# ---- not built in any form; existing files stay ----
poked "$tmp/scale.gguf"  blk.0.ffn_up.weight 34 007c          # the f16 scale of the second block
poked "$tmp/vector.gguf" output_norm.weight 8 0000c07f
scale="tensor blk.0.ffn_up.weight, row 0, block 1 (Q8_0, columns 32 to 63): a scale is infinity"
vector="tensor output_norm.weight, element 2 is NaN"
mkdir "$tmp/o"
for way in "-o p" ${full:+"-o p --weights external" "--emit lib -o p.a"} "--emit shared -o p.so --weights external" "-o p -t $here/../lanes/simt32.yaml" ${full:+"-o p -t gfx1151,x86-64-v3"}; do
    rm -rf "$tmp/o"
    mkdir "$tmp/o"
    cd "$tmp/o" || exit 1
    check "good $way" 0 "$forgec" build "$model" -q $way
    sha256sum * > "$tmp/before"
    for what in scale vector; do
        check "$what $way" 1 "$forgec" build "$tmp/$what.gguf" -q $way
        eval "err_has \"\$$what\""; err_has "$tmp/$what.gguf: "; one_line
        sha256sum * 2> "$tmp/err" | cmp -s - "$tmp/before" || bad "what was there has changed"
    done
done
cd "$here" || exit 1
check source 0 "$forgec" build "$tmp/scale.gguf" -q --emit source -o "$tmp/scale.c"
check cc 1 "$forgec" cc "$tmp/scale.c" "$tmp/scale.gguf" -q -o "$tmp/o/cc"; err_has "$scale"; [ ! -e "$tmp/o/cc" ] || bad "a program"
check none 0 "$forgec" build "$tmp/scale.gguf" -q --weights none -o "$tmp/o/none"

# ---- finite weights with infinite products: 2e38 in a norm; and values of 1e6, which are too large for f16 ----
poked "$tmp/large.gguf" blk.0.ffn_norm.weight 0 9976167f
poked "$tmp/values.gguf" blk.1.attn_norm.weight 0 0024744900247449002474490024744900247449
echo "$(seq -s ' ' 1 80)" > "$tmp/ids"

# ends NAME PROGRAM...: all modes
ends() {
    label=$1
    shift
    for mode in "--tokens 5,6,7 -n 4 --temp 0 --print-tokens" "--tokens 5 -n 4 -s 3 --print-tokens" "--tokens @$tmp/ids --logits $tmp/logits" \
        "--tokens @$tmp/ids --perplexity -c 32" "--bench -p 8 -n 4 -r 1" "--bench -p 0 -n 4 -r 1"; do
        check "$label $mode" 4 "$@" -q $mode; err_has "tokens of context are not finite ("; err_has "--check"; err_has "forgec verify"; one_line
        [ ! -e "$tmp/logits" ] || { bad "a file of logits is left"; rm -f "$tmp/logits"; }
        ! grep -q "PPL\|inf\|nan" "$tmp/out" || bad "numbers on stdout"
    done
}
for options in "--fuse layer" ${full:+"--fuse none --exact" "--fuse none" "--exact"}; do
    check "build $options" 0 "$forgec" build "$tmp/large.gguf" -q $options -o "$tmp/o/large"
    ends "large $options" "$tmp/o/large"
done
check large-check 0 "$tmp/o/large" --check; grep -q "have the hashes that forgec wrote" "$tmp/out" || bad "--check does not say what it compared"
check "build values" 0 "$forgec" build "$tmp/values.gguf" -q -o "$tmp/o/values"
ends values "$tmp/o/values"
check "build values f32" 0 "$forgec" build "$tmp/values.gguf" -q --kv f32 -o "$tmp/o/values"
check values-f32 0 "$tmp/o/values" -q --tokens 5,6,7 -n 4 --temp 0 --print-tokens
check verify 1 "$forgec" verify "$tmp/large.gguf"; err_has "the reference computes no finite logits either"; one_line
if [ -e "$simt" ]; then
    export FORGE_HIP_LIBRARY="$simt"
    check "build simt" 0 "$forgec" build "$tmp/large.gguf" -q -t "$here/../lanes/simt32.yaml" -o "$tmp/o/large"
    ends simt "$tmp/o/large" -ub 0                             # prefill holds its inputs within f16
fi

summary
