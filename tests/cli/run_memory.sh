#!/bin/sh
# run_memory.sh FORGEC MAKE_GGUF PEAK LIBSIMT REAL.TXT -- a build needs the same memory for a model of any size, because it processes weights in pieces.
# A program that does not fit reports this with numbers, when it is built and when it starts, and its advice works.
forgec=$1 make=$2 peak=$3 FORGE_HIP_LIBRARY=$4 keys=$5
export FORGE_HIP_LIBRARY
. "$(dirname "$0")/../harness.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
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
[ -z "$full" ] || built gfx1151 90           # weights take the same way
rm -f model.gguf program*

# attn_kv_b of DeepSeek-R1's first files: transposed rows of floats are in memory for one layer at a time (36 of 8 MiB each).
sed -e '/^model deepseek-r1-671b-january/s/ 3 / 36 /; s/attention.head_count=4$/attention.head_count=32/; s/head_count_kv=4; %.rope.freq_base=10000/head_count_kv=32; %.rope.freq_base=10000/' \
    -e '/^set mha/s/.*/set mha; %.attention.key_length=136; %.attention.value_length=16; %.attention.kv_lora_rank=512/; s/24x96; blk.\*.attn_kv_a_mqa.weight 64x40/24x4352; blk.*.attn_kv_a_mqa.weight 64x520/' \
    -e '/^ .*attn_kv_a_norm/s/norm.weight 32; blk.\*.attn_output.weight 64x64$/norm.weight 512; blk.*.attn_output.weight 512x64/; /^set whole/s/32x128/512x4608/' "$keys" > large.txt
"$make" --real large.txt --shape deepseek-r1-671b-january --type Q8_0 -o r1.gguf || exit 1
check r1 0 "$peak" mib "$forgec" build r1.gguf -t x86-64-v3 --ctx 512 --weights external -q -o program
[ "$(($(wc -c < program.weights) / 1048576))" -ge 300 ] || bad "the weights are not all there"
[ "$(cat mib)" -le 110 ] || bad "a build took $(cat mib) MiB"
rm -f r1.gguf program*

# A CPU: no machine has the memory for 2^24 positions; the memory is not touched before they are used.
"$make" --layers 8 --embd 64 --heads 8 --kv-heads 8 --head-dim 128 --ff 96 --vocab 300 --type Q8_0 --pure -o small.gguf || exit 1
check cpu-build 0 "$forgec" build small.gguf --ctx 16777216 --kv f32 -q -o far
err_has "small.gguf: the program needs 10"; err_has " for 16777216 tokens, activations "; err_has ", and this machine has "
err_has "it fits with --ctx "
check cpu-warns 0 ./far -q --tokens 65 -n 1; err_has " in this machine: all 16777216 tokens do not fit; built with --ctx "
check cpu-check 0 ./far --check; out_has "WARN  memory"
check near-build 0 "$forgec" build small.gguf --ctx 256 -q -o near; err_lacks "needs"
check near 0 ./near -q --tokens 65 -n 1; err_empty

# A GPU: the context that the refusal suggests fits, and a much longer one does not.
[ -f "$FORGE_HIP_LIBRARY" ] || { summary; exit; }
lanes=$root/tests/lanes/simt32.yaml memory=48000000
export FORGE_SIMT_MEMORY=$memory
check gpu-build 0 "$forgec" build small.gguf --ctx 4096 -t "$lanes" -q -o wide; err_lacks "needs"
check gpu-refused 5 ./wide -q --tokens 65 -n 1
err_has "weights "; err_has " (4096 tokens), activations "; err_has "; built with --ctx "; one_line
fits=$(sed -n 's/.*built with --ctx \([0-9]*\) it fits.*/\1/p' "$tmp/err")
[ "${fits:-0}" -ge 256 ] && [ "${fits:-0}" -lt 4096 ] || bad "a context of '$fits' is said to fit"
check gpu-check 5 ./wide --check; out_has "FAIL  memory"
check gpu-fitting-build 0 "$forgec" build small.gguf --ctx "${fits:-256}" -t "$lanes" -q -o wide
check gpu-fits 0 ./wide -q --tokens 65 -n 1
check gpu-larger-build 0 "$forgec" build small.gguf --ctx $((${fits:-256} + 512)) -t "$lanes" -q -o wide
check gpu-larger 5 ./wide -q --tokens 65 -n 1
check gpu-no-weights 5 env FORGE_SIMT_MEMORY=100000 ./wide -q --tokens 65 -n 1; err_has "weights of fewer bits are needed"
# When it is built: the memory that the target's file states.
sed '/^memory:/d' "$lanes" > tight.yaml
echo 'memory: {value: 40, unit: MiB, source: "a test"}' >> tight.yaml
check gpu-warned 0 "$forgec" build small.gguf --ctx 4096 -t ./tight.yaml -q -o wide
err_has "the program needs 0.1 GiB (weights 0.0, state 0.1 for 4096 tokens, activations 0.0), and "; err_has " has 0.0 at most: it fits with --ctx "
check gpu-plan 0 "$forgec" build small.gguf --ctx 4096 -t ./tight.yaml --emit plan -o -; err_lacks "needs"
summary
