#!/bin/sh
# run_gpus.sh FORGEC GOLDEN MAKE_GGUF LIBSIMT LANES.yaml LIBGFXSIM columns|row|chips -- models that several GPUs share, on emulated devices that run side by
# side: logits within the bounds for one GPU, repeated runs equal byte for byte, refusals.
# By default only cases that test something different; gfxsim_collective_*, simt_collective_* have the collectives of more chips.
# columns: each GPU has a part of each matrix; row: pipeline parallel, layers per stage; chips: both in machine code of AMD's chips, on the simulator.
forgec=$1 golden=$2 make=$3 libsimt=$4 lanes=$5 libgfxsim=$6 part=$7
. "$(dirname "$0")/../harness.sh"
export FORGE_HIP_LIBRARY="$libsimt" FORGE_SIMT_DEVICES=4

build() { out=$1; shift; check "build $*" 0 "$forgec" build "$@" -q -o "$tmp/$out"; }
# greedy NAME GPUS OPTIONS...: the golden text
greedy() {
    model=$1 gpus=$2
    shift 2
    build program "$golden/$model.gguf" -t "$lanes" --gpus "$gpus" "$@"
    check "$model by $gpus $*" 0 "$tmp/program" --tokens "$(tr '\n' ' ' < "$golden/$model.tokens")" -n 12 --temp 0 --print-tokens -q
    out_is "$(tr '\n' ' ' < "$golden/$model.greedy" | cut -d' ' -f1-12)"
}
verify() { check "verify $*" 0 "$forgec" verify "$@"; }
# planned NAME MODEL OPTIONS...: the plan, without clang, which would report registers
planned() { name=$1; shift; check "$name" 0 env -u FORGEC_CLANG PATH=/nowhere "$forgec" build "$@" --emit plan; }

tokens=$(tr '\n' ' ' < "$golden/llama-fusedqkv.tokens")
"$make" --shape tiny-gpt-oss-wide --type Q8_0 --tokenizer none -o "$tmp/experts.gguf" || exit 1
# 11 units: two GPUs have 5 and 6
"$make" --shape tinyllama --layers 2 --embd 256 --ff 704 --heads 4 --kv-heads 4 --head-dim 64 --vocab 301 --type Q8_0 --tokenizer none -o "$tmp/uneven.gguf" || exit 1
# two KV heads; with more GPUs they are replicated
"$make" --shape tinyllama --layers 2 --embd 256 --ff 512 --heads 8 --kv-heads 2 --head-dim 64 --vocab 301 --type Q8_0 --tokenizer none -o "$tmp/copied.gguf" || exit 1

columns() {
    # ---- text and logits ----
    greedy llama-fusedqkv 2
    [ -z "$full" ] || greedy llama-fusedqkv 2 --fuse none
    greedy llama-none 2 --exact
    [ -z "$full" ] || greedy q-llama-Q8_0 3 --kv q8_0
    verify "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --tokens 40 --columns 4
    [ -z "$full" ] || verify "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --tokens 40 --exact
    planned "experts are shared" "$tmp/experts.gguf" -t "$lanes" --gpus 2
    out_has "expert_bias expert_sum push"; out_has "expert_matmul(ffn_down_exps) expert_sum scale push"; out_has "all_reduce"
    verify "$tmp/experts.gguf" -t "$lanes" --gpus 2 --tokens 24
    # more tokens with logits in a step than rows of logits in the memory of collectives
    sed 's/prefill_chunk: .*/prefill_chunk: 128/' "$lanes" > "$tmp/wide.yaml"
    verify "$golden/llama-fusedqkv.gguf" -t "$tmp/wide.yaml" --gpus 2 --tokens 100
    [ -z "$full" ] || verify "$tmp/experts.gguf" -t "$lanes" --gpus 2 --tokens 8 --fuse none
    # uneven parts: 5 of 11 units; by an edited plan below
    [ -z "$full" ] || verify "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --tokens 24
    [ -z "$full" ] || verify "$tmp/uneven.gguf" -t "$lanes" --gpus 4 --tokens 24
    # two KV heads, one on each of two: 2 of its 4 query heads each, or by three 2, 2 and 4
    [ -z "$full" ] || verify "$tmp/copied.gguf" -t "$lanes" --gpus 4 --tokens 24
    [ -z "$full" ] || verify "$tmp/copied.gguf" -t "$lanes" --gpus 3 --tokens 24 --fuse none
    planned "splits" "$tmp/uneven.gguf" -t gfx942 --gpus 2
    out_has "resident=1 splits=128"; out_lacks "splits=76"      # by the 2 KV heads that a GPU has of 4
    # attention and feed-forward part in parallel: one collective for both sums
    "$make" --shape tiny-phi2-wide --type Q8_0 --tokenizer none -o "$tmp/beside.gguf" || exit 1
    planned "sums are joined" "$tmp/beside.gguf" -t "$lanes" --gpus 2
    out_has "matmul(ffn_down) add push"; out_has "all_reduce bias bias add"; out_has "matmul(output) bias push"
    [ -z "$full" ] || verify "$tmp/beside.gguf" -t "$lanes" --gpus 2 --tokens 24
    [ -z "$full" ] || verify "$tmp/beside.gguf" -t "$lanes" --gpus 2 --tokens 24 --fuse none
    # a table that is both embedding and head is in each GPU's memory once
    planned "one table" "$golden/q-llama-Q8_0.gguf" -t "$lanes" --gpus 2
    [ "$(grep -c '^#   token_embd.weight' "$tmp/out")" = 2 ] || bad "the table is not stored once for each GPU"

    # ---- tuned settings: the first GPU's; all GPUs have the same number of tiles; parts with another shape are planned ----
    planned "a plan" "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --ctx 128
    sed 's/^  gemv ffn_gate_up rows=2/  gemv ffn_gate_up rows=4/
        s/^  \(gemm ffn_down_prefill\) .* least=1 most=32 \(.*\)/  \1_8 rows=64 tokens=32 threads=128 least=1 most=8 \2\n  \1 rows=64 tokens=64 threads=128 least=9 most=32 \2/' \
        "$tmp/out" > "$tmp/edited.plan"
    planned "an edited plan" "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --ctx 128 --plan "$tmp/edited.plan"
    [ "$(grep -c '^  gemv ffn_gate_up rows=4' "$tmp/out")" = 1 ] || bad "the first GPU's part has not the setting"
    [ "$(grep -c '^#  gemv ffn_gate_up rows=2' "$tmp/out")" = 1 ] || bad "the second GPU's larger part has not its own"
    [ "$(grep -c '^#*  gemm ffn_down_prefill.* tokens=\(32\|64\)' "$tmp/out")" = 4 ] || bad "both GPUs have not the two tiles"
    verify "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --ctx 128 --plan "$tmp/edited.plan" --tokens 20
    tuned() { printf 'tuned:\n  target: simt32\n  options: --fuse layer --kv f16 --gpus 2\n  shape: "%s"\nkernels:\n%s\n' "$1" \
        '  - decode gemv ffn_gate_up rows=4 groups=5,12' > "$tmp/tuned.yaml"; }
    tuned 0
    refuse "another shape" 1 "for a model of shape 0" "$forgec" build "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --tuned "$tmp/tuned.yaml" -o "$tmp/no"
    tuned "$(sed 's/.* //' "$tmp/err")"
    planned "tuned" "$tmp/uneven.gguf" -t "$lanes" --gpus 2 --tuned "$tmp/tuned.yaml"
    [ "$(grep -c '^#*  gemv ffn_gate_up rows=4' "$tmp/out")" = 1 ] || bad "not the first GPU's part alone is as tuned"

    # ---- the same bits ----
    build program "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2
    for run in 1 2; do check "run $run" 0 "$tmp/program" --tokens "$tokens" --logits "$tmp/logits$run" -q; done
    cmp -s "$tmp/logits1" "$tmp/logits2" || bad "two runs differ"

    # ---- devices ----
    check "other devices" 0 "$tmp/program" --devices 3,1 --tokens "$tokens" -n 3 --temp 0 --print-tokens -q
    check "each alone" 0 "$tmp/program" --check
    out_has "GPU        2 of 4"; out_has "access     each of the 2 GPUs"
    check "one device" 8 env FORGE_SIMT_DEVICES=1 "$tmp/program" -n 1 --tokens 1; err_has "needs 2 GPUs"
    check "no access" 0 env FORGE_SIMT_NO_PEER=1 "$tmp/program" --tokens "$tokens" --logits "$tmp/logits2" -q
    cmp -s "$tmp/logits1" "$tmp/logits2" || bad "the memory that values pass through changes them"
    check "access is not wanted" 0 env FORGE_NO_PEER=1 "$tmp/program" --check; out_has "FORGE_NO_PEER is set: values pass through the host's memory"
    check "a device twice" 2 "$tmp/program" --devices 1,1 -n 1 --tokens 1
}

row() {
    # ---- pipeline parallel ----
    FORGE_SIMT_NO_PEER=1 greedy llama-fusedqkv 2 --split layer --columns 3
    [ -z "$full" ] || FORGE_SIMT_NO_PEER=1 verify "$golden/qwen3-a.gguf" -t "$lanes" --gpus 2 --split layer:1,1 --tokens 40 --columns 4
    [ -z "$full" ] || verify "$tmp/experts.gguf" -t "$lanes" --gpus 2 --split layer --tokens 24 --exact
    [ -z "$full" ] || greedy q-llama-Q8_0 2 --split layer --fuse none
    build row "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --split layer
    for run in 1 2; do check "row $run" 0 "$tmp/row" --tokens "$tokens" --logits "$tmp/row$run" -q; done
    cmp -s "$tmp/row1" "$tmp/row2" || bad "two runs of a row differ"
    check "through the host" 0 env FORGE_SIMT_NO_PEER=1 "$tmp/row" --tokens "$tokens" --logits "$tmp/row2" -q
    cmp -s "$tmp/row1" "$tmp/row2" || bad "the memory that values pass through changes them"
    check "a row is checked" 0 env FORGE_SIMT_NO_PEER=1 "$tmp/row" --check; out_has "pass through the host's"
    check "a row tells" 0 "$tmp/row" --info; out_has "needs 2 GPUs that are simt, simt as pipeline stages"; out_has "2 layers"
    check "each launch of a row" 0 "$tmp/row" --profile -p 20 -n 4; out_has "receive_x"; out_has "embed"; out_has "sample"
    check "one of them fails" 10 env FORGE_SIMT_FAIL_DEVICE=1 FORGE_SIMT_FAULT=20 "$tmp/row" --tokens "$tokens" -n 4 --temp 0 -q; err_has "GPU 1"

    # ---- refusals ----
    refuse "a processor" 2 "--gpus is not available for target x86-64-v3" "$forgec" build "$golden/llama-none.gguf" -t x86-64-v3 --gpus 2 -o "$tmp/no"
    refuse "too many" 2 "at most 8 GPUs" "$forgec" build "$golden/llama-none.gguf" -t gfx942x9 -o "$tmp/no"
    refuse "two numbers" 2 "contradict each other" "$forgec" build "$golden/llama-none.gguf" -t gfx942x4 --gpus 2 -o "$tmp/no"
    refuse "speculation" 1 "speculation runs on one GPU" "$forgec" build "$golden/llama-none.gguf" -t sm_90x2 --spec ngram -o "$tmp/no"
    refuse "a library" 1 "cannot be used with a library" "$forgec" build "$golden/llama-none.gguf" -t sm_90 --gpus 2 --emit lib -o "$tmp/no"
    refuse "two targets" 1 "--gpus takes one target" "$forgec" build "$golden/llama-none.gguf" -t sm_90,gfx942 --gpus 2 -o "$tmp/no"
    refuse "a row is not tuned" 2 "its settings apply to all layers" "$forgec" tune "$golden/llama-none.gguf" -t sm_90x2 --split layer -o "$tmp/no"
    refuse "a row of one" 2 "--split is for several GPUs" "$forgec" build "$golden/llama-none.gguf" -t sm_90 --split layer -o "$tmp/no"
    refuse "more GPUs than layers" 1 "cannot be split into 3 stages" "$forgec" build "$golden/llama-none.gguf" -t sm_90x3 --split layer -o "$tmp/no"
    refuse "more layers than it has" 1 "the numbers add up to 4 layers" "$forgec" build "$golden/llama-none.gguf" -t sm_90x2 --split layer:3,1 -o "$tmp/no"
    refuse "too many numbers" 2 "gives layers for 3 GPUs, but 2 GPUs share the model" "$forgec" build "$golden/llama-none.gguf" -t sm_90x2 --split layer:1,1,1 -o "$tmp/no"
    refuse "two makers" 1 "GPUs of different makers" "$forgec" build "$golden/llama-none.gguf" -t gfx1100+sm_90 -o "$tmp/no"
    refuse "two kinds by columns" 2 "need --split layer" "$forgec" build "$golden/llama-none.gguf" -t gfx1100+gfx1151 --split tensor -o "$tmp/no"
    [ ! -e "$tmp/no" ] || bad "something of it is there"
}

chips() {
    # ---- machine code of AMD's chips ----
    unset FORGE_SIMT_DEVICES
    export FORGE_HIP_LIBRARY="$libgfxsim" FORGE_GFXSIM_DEVICES=2
    verify "$golden/llama-fusedqkv.gguf" -t gfx942x2 --simulate --tokens 6
    [ -z "$full" ] || verify "$golden/llama-fusedqkv.gguf" -t gfx1100x2 --simulate --tokens 6
    [ -z "$full" ] || verify "$tmp/experts.gguf" -t gfx942x2 --simulate --tokens 5
    unset FORGE_GFXSIM_DEVICES
    [ -z "$full" ] || FORGE_GFXSIM_NO_PEER=1 verify "$golden/llama-fusedqkv.gguf" -t gfx1100x2 --split layer --simulate --tokens 6
    FORGE_GFXSIM_NO_PEER=1 verify "$golden/qwen3-a.gguf" -t gfx1100+gfx1151 --simulate --tokens 6
    [ -z "$full" ] || verify "$golden/q-llama-Q8_0.gguf" -t gfx942x2 --split layer --simulate --tokens 6
    [ -z "$full" ] || verify "$tmp/uneven.gguf" -t gfx942x4 --simulate --tokens 5
    [ -z "$full" ] || FORGE_GFXSIM_DEVICES=4 verify "$tmp/uneven.gguf" -t gfx942x4 --simulate --tokens 5
    [ -z "$full" ] || FORGE_GFXSIM_DEVICES=4 verify "$tmp/copied.gguf" -t gfx942x4 --simulate --tokens 5
}

"$part"
summary
