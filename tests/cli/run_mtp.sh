#!/bin/sh
# run_mtp.sh FORGEC MAKE_GGUF UNPACKED GOLDEN LIBSIMT [GFXSIM] -- --spec mtp: drafts by the model's own block.  The text is that of plain decoding, token by
# token, greedy and by chance, with drafts that were right and drafts that were not; the block's logits are the reference's.  UNPACKED: golden/
# of other models.  In lanes and in the simulator of AMD's chips.
forgec=$1 make=$2 data=$3 golden=$4 simt=$5 gfxsim=${6-} here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
FORGEC_LANES="$here/../lanes/simt32.yaml"
export FORGE_HIP_LIBRARY="$simt" FORGEC_LANES
cd "$tmp" || exit 1
. "$here/as_plain.sh"

# made ARCHITECTURE [OPTIONS...]: a model with drafts that are often right
made() {
    shape=$1
    shift
    "$make" --shape "tiny-draft-$shape" "$@" -o "$shape.gguf" > log 2>&1 || { cat log; exit 1; }
}
build() {
    to=$1 of=$2
    shift 2
    check "$to" 0 "$forgec" build "$of" -q --ctx 256 --spec mtp -o "$to" "$@"
}
# some_wrong: some drafts of the last check were rejected
some_wrong() {
    wrong=$(sed -n 's/.*, \([0-9]*\) of \([0-9]*\) drafts accepted.*/\2 - \1/p' "$tmp/err")
    [ $((${wrong:-0})) -ge 10 ] || bad "no drafts were wrong"
}
# by_chance LEAST PROGRAM SEEDS OPTIONS...: sampling options that are sharp enough for drafts to be right
by_chance() {
    least=$1 program=$2 seeds=$3
    shift 3
    as_plain "$least" "$program" "$@" --temp 0 --repeat-penalty 1.5
    some_wrong
    for seed in $seeds; do
        as_plain "$least" "$program" "$@" -s "$seed" --temp 0.2 --top-k 0
        some_wrong
        as_plain "$least" "$program" "$@" -s "$seed" --temp 0.2 --presence-penalty 0.5 --repeat-last-n 20
        as_plain 0 "$program" "$@" -s "$seed" --temp 1 --top-k 0 --repeat-penalty 0.6
        as_plain 0 "$program" "$@" -s "$seed" --temp 0.7 --top-k 0 --top-p 0.9 --frequency-penalty 0.1
    done
}

# delta nets and attention, experts in all layers
made qwen35moe --type Q8_0
build ./program qwen35moe.gguf -t "$FORGEC_LANES"
by_chance 10 ./program 1 -n ${full:+1}50
as_plain 5 ./program -n 30 -s 1 --temp 0.2 --no-graph
[ -z "$full" ] || as_plain 5 ./program -n 30 -s 1 --temp 0.2 -ub 0
for n in 1 2 ${full:+3 24} 25; do as_plain 0 ./program -n $n -s 1 --temp 0.8 -l 5+50; done
for n in 24 ${full:+25 100}; do as_plain 15 ./program -c 38 -n $n -s 1 --temp 0.8 -l 5+50; done
stop_as_plain GGGF ./program
chat_as_plain 5 ./program -r FFFFFFFFFFFFF

# the program's information about itself, and the uses of the block's logits
check info 0 ./program --info; out_has "speculation    up to 3 drafts a step, by the model's own block"; out_has "--columns 4 --spec mtp"
check json 0 ./program --bench -p 0 -n 20 -r 1 -o json; out_has '"speculation": "mtp", "n_drafted": '
check draft_logits 0 ./program --tokens 1,2,3,4,5 --draft-logits drafts -ub 2 -q
[ "$(wc -c < drafts)" -eq $((5 * 300 * 4)) ] || bad "five tokens were to have a row each"
refuse both 2 "cannot be combined with --draft-logits" ./program --tokens 1 --logits a --draft-logits b
refuse other 2 "build it with forgec build --spec ngram" ./program --tokens 1 --spec ngram
check_drafts() {
    name=$1
    shift
    check "$name" 0 "$forgec" verify --ctx 64 --spec mtp "$@"
    out_has "  drafts  "; out_has "  ok"
}
check_drafts golden "$data/golden/qwen35-mtp-a.gguf" -t "$FORGEC_LANES" --tokens 24 --exact; out_has "drafts of a prompt"; out_has "drafts of drafts"
if [ -n "$full" ]; then
    made deepseek2 --type Q4_K --tokenizer none
    check_drafts latent deepseek2.gguf -t "$FORGEC_LANES" --tokens 24
    made glm4moe --type Q5_0 --tokenizer none
    for model in glm4moe.gguf "$data/golden/glm4moe-a.gguf" qwen35moe.gguf; do
        for options in '' --exact '--fuse none --kv f32' '--columns 2'; do
            # shellcheck disable=SC2086
            check_drafts "$model $options" "$model" -t "$FORGEC_LANES" --tokens 24 $options
        done
    done
    check_drafts wide "$data/golden/qwen35-mtp-a.gguf" -t "$here/../lanes/simt64.yaml" --tokens 24
    build ./latent deepseek2.gguf -t "$FORGEC_LANES" --columns 8
    by_chance 20 ./latent "1 2" -n 100
    build ./unfused qwen35moe.gguf -t "$FORGEC_LANES" --fuse none --kv q8_0 --columns 2
    by_chance 20 ./unfused "1 2" -n 100
    for model in glm4moe-a qwen35-mtp-a; do
        build "./$model" "$data/golden/$model.gguf" -t "$FORGEC_LANES"
        as_plain 5 "./$model" -n 100 -s 1 --temp 0.8 -l 5+20 -l 6+20 -l 9+20
        as_plain 0 "./$model" -n 100 --temp 0
        chat_as_plain 0 "./$model" -r FFFFFFFFF
    done
fi
if [ -n "$gfxsim" ]; then
    for chip in ${full:+gfx1151 gfx942 gfx1100}; do          # by default run_spec.sh has one
        build "./$chip" qwen35moe.gguf -t $chip
        FORGE_HIP_LIBRARY="$gfxsim" as_plain 5 "./$chip" -n 24 -s 3 --temp 0.2
        [ -z "$full" ] || check_drafts "$chip" "$data/golden/qwen35-mtp-a.gguf" -t $chip --simulate --tokens 6
    done
fi

# the plan's text, read back with another kernel
"$forgec" build qwen35moe.gguf -q -t "$FORGEC_LANES" --ctx 256 --spec mtp --emit plan -o program.plan
sed '/^pass$/,$s/\(gemv output\(_[0-9]*\)\?\) rows=\([0-9]*\)/\1 rows=1/' program.plan > edited.plan
cmp -s program.plan edited.plan && bad "no product of a pass was edited"
[ -n "$full" ] && edited='' || edited='--emit source'          # else without clang, which has compiled such a kernel
# shellcheck disable=SC2086
build ./edited qwen35moe.gguf -t "$FORGEC_LANES" --plan edited.plan $edited

# programs that cannot have it
refuse none 1 "the file has no block that drafts tokens (nextn)" "$forgec" build "$golden/x-v2.gguf" -t gfx1151 --spec mtp -o none
refuse cpu 2 "--spec is not available for target portable" "$forgec" build qwen35moe.gguf -t portable --spec mtp -o none
refuse one_cpu 1 "--spec mtp needs a GPU; target portable has no kernels for it" "$forgec" build qwen35moe.gguf -t gfx1151,portable --spec mtp -o none
refuse library 2 "--spec is for programs" "$forgec" build qwen35moe.gguf -t gfx1151 --spec mtp --emit lib
"$make" --shape golden-exaone4 --key exaone4.nextn_predict_layers=1 --tokenizer none -o exaone4.gguf > log 2>&1 || { cat log; exit 1; }
refuse wiring 1 "--spec mtp is not available; --spec ngram needs no draft block" "$forgec" build exaone4.gguf -t gfx1151 --spec mtp -o none
summary mtp
