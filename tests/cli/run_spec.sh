#!/bin/sh
# run_spec.sh FORGEC GOLDEN UNPACKED LIBSIMT [GFXSIM] -- --spec ngram: the text is that of plain decoding, token by token, greedy and by
# chance, and drafts were accepted on the way.  UNPACKED: golden/ and tiny/ of other models.  In lanes and in the simulator of AMD's chips.
forgec=$1 golden=$2 data=$3 simt=$4 gfxsim=${5-} here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
FORGEC_LANES="$here/../lanes/simt32.yaml"
export FORGE_HIP_LIBRARY="$simt" FORGEC_LANES
cd "$tmp" || exit 1
. "$here/as_plain.sh"

# by_chance LEAST PROGRAM SEEDS OPTIONS...: sampling options.  A few tokens are probable because of biases, or because they occurred before.
by_chance() {
    least=$1 program=$2 seeds=$3
    shift 3
    few="-l 5+20 -l 6+20 -l 9+20"
    as_plain "$least" "$program" "$@" --temp 0 --repeat-penalty 1.5 --repeat-last-n 3 $few
    for seed in $seeds; do
        as_plain "$least" "$program" "$@" -s "$seed" --temp 0.8 $few
        as_plain "$least" "$program" "$@" -s "$seed" --temp 0.7 --presence-penalty 0.5 --repeat-last-n 20 $few
        as_plain 0 "$program" "$@" -s "$seed" --temp 1 --top-k 0 --repeat-penalty 0.6
        as_plain 0 "$program" "$@" -s "$seed" --temp 0.7 --top-k 0 --top-p 0.9 --frequency-penalty 0.1
    done
}

build() {
    to=$1 of=$2
    shift 2
    check "$to" 0 "$forgec" build "$of" -q --ctx 256 --spec ngram -o "$to" "$@"
}
build ./program "$golden/x-v2.gguf" -t "$FORGEC_LANES"
by_chance 20 ./program "1 ${full:+2}" -n 160
as_plain 20 ./program -n 100 -s 1 --temp 0.8 -l 5+50 --no-graph
as_plain 0 ./program -n 60 --temp 0
# limits: of tokens, of the context, and a text that ends within a step
for n in 1 2 ${full:+97 98 99} 100; do as_plain 0 ./program -n $n -s 1 --temp 0.8 -l 5+50; done
for n in ${full:+100 101} 200; do as_plain 20 ./program -c 114 -n $n -s 1 --temp 0.8 -l 5+50; done
stop_as_plain GGFG ./program 42
chat_as_plain 20 ./program

# states that every token replaces: those after each draft are kept
build ./states "$data/golden/granitehybrid-moe-a.gguf" -t "$FORGEC_LANES"
as_plain 20 ./states -n 100 -s 1 --temp 0.8 -l 5+20 -l 6+20 -l 9+20
chat_as_plain 20 ./states
chat_as_plain 5 ./states -r FFFFFFFFFFFFF

# a ring that wraps; and in the tier full more
build ./ring "$golden/olmo3-a.gguf" -t "$FORGEC_LANES" --columns 5
as_plain 10 ./ring -n 200 -s 1 --temp 0.8 -l 5+20 -l 6+20 -l 9+20
if [ -n "$full" ]; then
    by_chance 10 ./ring 1 -n 200
    build ./pair "$golden/qwen3-a.gguf" -t "$FORGEC_LANES" --columns 2
    by_chance 10 ./pair "1 2" -n 200
    build ./unfused "$golden/q-untied-Q4_K_M.gguf" -t "$FORGEC_LANES" --columns 3 --fuse none --kv q8_0
    by_chance 10 ./unfused "1 2" -n 200
    for model in llama-moe-mixed-a gemma4-moe-a deepseek2-a hunyuan-dense-a glm4moe-a qwen35moe-a qwen3next-a lfm2moe-a nemotron_h_moe-a; do
        build "./$model" "$data/golden/$model.gguf" -t "$FORGEC_LANES"
        by_chance 10 "./$model" 1 -n 200
        chat_as_plain 0 "./$model" -r FFFFFFFFF
    done
    build ./states_unfused "$data/golden/qwen35moe-a.gguf" -t "$FORGEC_LANES" --columns 4 --fuse none
    by_chance 10 ./states_unfused 1 -n 200
    build ./wide "$golden/q-llama-Q8_0.gguf" -t "$here/../lanes/simt64.yaml" --exact
    by_chance 10 ./wide "1 2" -n 200
fi
if [ -n "$gfxsim" ]; then
    for chip in gfx1151 ${full:+gfx942 gfx1100}; do
        build "./$chip" "$golden/x-v2.gguf" -t $chip --columns 4
        FORGE_HIP_LIBRARY="$gfxsim" as_plain 20 "./$chip" -n 40 -s 2 --temp 0.8 -l 5+50
        [ -z "$full" ] || FORGE_HIP_LIBRARY="$gfxsim" as_plain 5 "./$chip" -n 60 -s 3 --temp 0.8 -l 5+20 -l 6+20
        [ -n "$full" ] || continue
        build "./states_$chip" "$data/golden/qwen35moe-a.gguf" -t $chip --columns 4
        FORGE_HIP_LIBRARY="$gfxsim" as_plain 1 "./states_$chip" -n 60 -s 3 --temp 0.8 -l 5+20 -l 6+20
    done
fi

# the program's information about itself, and programs that cannot speculate
check info 0 ./program --info; out_has "speculation    up to 7 drafts a step"; out_has "--columns 8 --spec ngram"
check bench 0 ./program --bench -p 0 -n 20 -r 1; out_has "| tg20 |"; out_has "| tg20 spec |"; out_has "drafts |"
check json 0 ./program --bench -p 0 -n 20 -r 1 -o json; out_has '"speculation": "ngram", "n_drafted": '
check plain 0 ./program --bench -p 0 -n 20 -r 1 --spec none; out_lacks spec
printf 'one two one two' > text
check text 0 ./program --bench -f text -n 20 -r 1; out_has "tg20 spec @ d"
refuse word 2 "--spec: 'eagle' is not none, ngram or mtp" ./program --spec eagle --tokens 1
refuse build_word 2 'not one of none, ngram, mtp' "$forgec" build "$golden/x-v2.gguf" -t gfx1151 --spec eagle
refuse cpu 2 "--spec is not available for target portable" "$forgec" build "$golden/x-v2.gguf" -t portable --spec ngram
refuse library 2 "--spec is for programs" "$forgec" build "$golden/x-v2.gguf" -t gfx1151 --spec ngram --emit lib
summary spec
