#!/bin/sh
# run_columns.sh FORGEC MAKE_GGUF GOLDEN UNPACKED LIBSIMT -- --columns N: steps of a few tokens give the bits of decode.  UNPACKED:
# golden/ and tiny/ of other models.  In lanes, and in the simulator of AMD's chips, where clang could fuse a product and a sum in one
# kernel only.
forgec=$1 make_gguf=$2 golden=$3 data=$4 here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
export FORGE_HIP_LIBRARY="$5" FORGEC_LANES="$here/../lanes/simt32.yaml"
cd "$tmp" || exit 1
few="$golden/q-untied-Q4_K_M.gguf"

as_decode() {
    name=$1
    shift
    check "$name" 0 "$forgec" verify --ctx 64 --tokens 18 "$@"
    out_has "tokens: the bits of decode"
}
# planned MODEL OPTIONS...: without clang, which would report registers
planned() { env -u FORGEC_CLANG PATH=/nowhere "$forgec" build "$@" -q -t "$FORGEC_LANES" --ctx 64 --emit plan; }
# Clang needs a minute for a matrix in each format.  For `wide`, LDS has room for fewer rows of activations than there are tokens, so the grid has a
# second dimension.
if [ -n "$full" ]; then
    "$make_gguf" --each --layers 4 --vocab 512 --embd 256 --ff 256 --heads 4 --kv-heads 2 --head-dim 64 --ctx 64 --untied --tokenizer none -o each.gguf > log 2>&1 || { cat log; exit 1; }
    as_decode formats each.gguf -t "$FORGEC_LANES" --columns 8
fi
"$make_gguf" --type Q8_0 --layers 1 --vocab 64 --embd 256 --ff 4608 --heads 4 --kv-heads 2 --head-dim 64 --ctx 64 --tokenizer none -o wide.gguf > log 2>&1 || { cat log; exit 1; }
as_decode exact "$few" -t "$FORGEC_LANES" --columns 4 --exact
[ -z "$full" ] || as_decode wide wide.gguf -t "$FORGEC_LANES" --columns 8 --exact
planned wide.gguf --columns 8 --exact -o wide.plan
grep -q '# 1 launches, 4 groups x tokens / 6,.* columns 6' wide.plan || bad "wide rows were to be six at a time: $(grep 'columns [0-9]' wide.plan)"
[ -z "$full" ] || as_decode five "$few" -t "$FORGEC_LANES" --columns 5 --exact
[ -z "$full" ] || as_decode unfused "$few" -t "$FORGEC_LANES" --columns 3 --fuse none --kv q8_0
# gfx1151: run_spec.sh and run_mtp.sh have texts with such steps, run_spec.sh also with a ring
for chip in gfx942 ${full:+gfx1151 gfx1100}; do
    as_decode "$chip" "$few" -t $chip --simulate --columns 4 --tokens 6
done
# states of layers: run_mtp.sh, run_spec.sh
for model in ${full:+"$golden"/*.gguf "$data"/golden/*.gguf "$data"/tiny/*.gguf}; do
    case $model in *-0000[2-9]-of-*) continue ;; esac
    as_decode "$(basename "$model")" "$model" -t "$FORGEC_LANES" --columns 8
done

# keys and values of another layer: after the last store there is attention of all tokens, even if only the last token has logits
if [ -n "$full" ]; then
    "$forgec" build "$data/golden/gemma4-moe-a.gguf" -q -t "$FORGEC_LANES" --ctx 64 --columns 8 -o shared
    for n in 0 8; do ./shared --tokens 1,2,3,4,5 --print-tokens -n 8 --temp 0 --ignore-eos -q -ub $n > "shared$n" 2> log || bad "-ub $n: $(cat log)"; done
    cmp -s shared0 shared8 || bad "of shared keys another text"
fi

# allowed and refused edits of the plan
dots="$golden/q-llama-Q2_K.gguf"
planned "$dots" --columns 8 -o dots.plan
planned "$few" --columns 8 -o few.plan
grep -q '^columns$' few.plan || bad "the plan has no columns"
sed '/^columns$/,$s/\(gemv_columns .*\) rows=2 depth=0/\1 rows=4 depth=2/' dots.plan > edited.plan
cmp -s dots.plan edited.plan && bad "no product was edited"
[ -z "$full" ] || as_decode plan "$dots" -t "$FORGEC_LANES" --columns 8 --plan edited.plan
sed 's/\(gemv_matrix .*\) depth=[34]/\1 depth=2/' few.plan > edited.plan
cmp -s few.plan edited.plan && bad "no product on the matrix unit was edited"
[ -z "$full" ] || as_decode stages "$few" -t "$FORGEC_LANES" --columns 8 --plan edited.plan
sed '/^columns$/,$s/gemv_columns attn_qkv_columns rows=2/& lanes=16/' dots.plan > wrong.plan
refuse lanes 1 "lanes of a gemv_columns follows" "$forgec" build "$dots" -t "$FORGEC_LANES" --ctx 64 --columns 8 --plan wrong.plan -o none
sed 's/\(gemv_matrix attn_qkv_columns\) cluster=0/\1 cluster=2/' few.plan > wrong.plan
refuse cluster 1 "cluster and depth of attn_qkv do not fit" "$forgec" build "$few" -t "$FORGEC_LANES" --ctx 64 --columns 8 --plan wrong.plan -o none
refuse options 1 "the plan was made with" "$forgec" build "$few" -t "$FORGEC_LANES" --ctx 64 --columns 4 --plan few.plan -o none
refuse one 2 "--columns must be from 2 to 8 tokens" "$forgec" build "$few" -t gfx1151 --columns 1
refuse nine 2 "--columns" "$forgec" build "$few" -t gfx1151 --columns 9
refuse cpu 2 "--columns is not available for target portable" "$forgec" build "$few" -t portable --columns 4

# prompts, texts and measurements of such a program
[ -n "$full" ] && exact='' || exact=--exact          # which is compiled above
# shellcheck disable=SC2086
check build 0 "$forgec" build "$few" -q -t "$FORGEC_LANES" --ctx 64 --columns 4 $exact -o program
check info 0 ./program --info; out_has "steps of 2 to 4 tokens"
for n in 0 1 2 3 4; do
    ./program --tokens 1,2,3,4,5 --print-tokens -n 8 --temp 0 --ignore-eos -q -ub $n > "text$n" 2> log || bad "-ub $n: $(cat log)"
done
cmp text0 text1 && cmp text0 text2 && cmp text0 text3 && cmp text0 text4 || bad "texts differ by the size of steps"
check plain 0 ./program --tokens 1,2,3,4,5 --print-tokens -n 8 --temp 0 --ignore-eos -q -ub 4 --no-graph
cmp -s "$tmp/out" text4 || bad "without graphs another text"
refuse speculation 2 "was not built for this" ./program --spec ngram --tokens 1
check profile 0 ./program --profile -p 3 -n 0; out_has "ffn_gate_up"; out_has "a step of 3 tokens"
check bench 0 ./program --bench -p 4 -n 4 -r 1; out_has pp4
summary columns
