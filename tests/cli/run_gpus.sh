#!/bin/sh
# run_gpus.sh FORGEC GOLDEN MAKE_GGUF LIBSIMT LANES.yaml LIBGFXSIM [full] -- models that several GPUs share, on emulated devices that run side by
# side: logits within the bounds of one GPU's, repeated runs byte for byte, what is refused.
forgec=$1 golden=$2 make=$3 libsimt=$4 lanes=$5 libgfxsim=$6 full=$7
. "$(dirname "$0")/../harness.sh"
export FORGE_HIP_LIBRARY="$libsimt" FORGE_SIMT_DEVICES=4

build() { out=$1; shift; check "build $*" 0 "$forgec" build "$@" -q -o "$tmp/$out"; }
# greedy NAME GPUS OPTIONS...: the golden text
greedy() {
    model=$1 gpus=$2
    shift 2
    build program "$golden/$model.gguf" -t "$lanes" --gpus "$gpus" "$@"
    tokens=$(tr '\n' ' ' < "$golden/$model.tokens")
    check "$model by $gpus $*" 0 "$tmp/program" --tokens "$tokens" -n 12 --temp 0 --print-tokens -q
    out_is "$(tr '\n' ' ' < "$golden/$model.greedy" | cut -d' ' -f1-12)"
}
verify() { check "verify $*" 0 "$forgec" verify "$@"; }

# ---- text and logits ----
greedy llama-fusedqkv 2
greedy llama-fusedqkv 2 --fuse none
greedy llama-none 2 --exact
greedy q-llama-Q8_0 3 --kv q8_0
verify "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --tokens 40 --columns 4
verify "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --tokens 40 --exact
"$make" --shape tiny-gpt-oss-wide --type Q8_0 --tokenizer none -o "$tmp/experts.gguf" || exit 1
check "experts are shared" 0 "$forgec" build "$tmp/experts.gguf" -t "$lanes" --gpus 2 --emit plan
out_has "expert_bias expert_sum give"; out_has "expert_matmul(ffn_down_exps) expert_sum give"; out_has "take"
verify "$tmp/experts.gguf" -t "$lanes" --gpus 2 --tokens 24
# more tokens with logits in a step than the memory of exchanges has rows of them
sed 's/prefill_chunk: .*/prefill_chunk: 128/' "$lanes" > "$tmp/wide.yaml"
verify "$golden/llama-fusedqkv.gguf" -t "$tmp/wide.yaml" --gpus 2 --tokens 100
# uneven parts: 5 of 11 units
"$make" --shape tinyllama --layers 2 --embd 256 --ff 704 --heads 4 --kv-heads 4 --head-dim 64 --vocab 301 --type Q8_0 --tokenizer none -o "$tmp/uneven.gguf" || exit 1
verify "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --tokens 24
[ -z "$full" ] || verify "$tmp/uneven.gguf" -t "$lanes" --gpus 4 --tokens 24

# ---- the same bits ----
build program "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2
tokens=$(tr '\n' ' ' < "$golden/llama-fusedqkv.tokens")
for run in 1 2; do check "run $run" 0 "$tmp/program" --tokens "$tokens" --logits "$tmp/logits$run" -q; done
cmp -s "$tmp/logits1" "$tmp/logits2" || bad "two runs differ"

# ---- devices ----
check "other devices" 0 "$tmp/program" --devices 3,1 --tokens "$tokens" -n 3 --temp 0 --print-tokens -q
check "each alone" 0 "$tmp/program" --check
out_has "GPU        2 of 4"; out_has "access     each of the 2 GPUs"
check "one device" 8 env FORGE_SIMT_DEVICES=1 "$tmp/program" -n 1 --tokens 1; err_has "needs 2 GPUs"
check "no access" 9 env FORGE_SIMT_NO_PEER=1 "$tmp/program" -n 1 --tokens 1; err_has "does not reach the memory"
check "a device twice" 2 "$tmp/program" --devices 1,1 -n 1 --tokens 1

# ---- what is refused ----
refuse "a processor" 2 "--gpus is for a GPU" "$forgec" build "$golden/llama-none.gguf" -t x86-64-v3 --gpus 2 -o "$tmp/no"
refuse "too many" 2 "at most 8 GPUs" "$forgec" build "$golden/llama-none.gguf" -t gfx942x9 -o "$tmp/no"
refuse "two numbers" 2 "say different things" "$forgec" build "$golden/llama-none.gguf" -t gfx942x4 --gpus 2 -o "$tmp/no"
refuse "speculation" 1 "speculation runs on one GPU" "$forgec" build "$golden/llama-none.gguf" -t sm_90x2 --spec ngram -o "$tmp/no"
refuse "a library" 1 "a library runs on one GPU" "$forgec" build "$golden/llama-none.gguf" -t sm_90 --gpus 2 --emit lib -o "$tmp/no"
refuse "two targets" 1 "one target at a time" "$forgec" build "$golden/llama-none.gguf" -t sm_90,gfx942 --gpus 2 -o "$tmp/no"
[ ! -e "$tmp/no" ] || bad "something of it is there"

# ---- machine code of AMD's chips ----
unset FORGE_SIMT_DEVICES
export FORGE_HIP_LIBRARY="$libgfxsim" FORGE_GFXSIM_DEVICES=2
verify "$golden/llama-fusedqkv.gguf" -t gfx942x2 --simulate --tokens 6
verify "$golden/llama-fusedqkv.gguf" -t gfx1100x2 --simulate --tokens 6
verify "$tmp/experts.gguf" -t gfx942x2 --simulate --tokens 5
FORGE_GFXSIM_DEVICES=4 verify "$tmp/uneven.gguf" -t gfx942x4 --simulate --tokens 5
summary
