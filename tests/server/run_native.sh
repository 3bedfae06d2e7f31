#!/bin/sh
# run_native.sh FORGEC TEST_NATIVE MAKE_GGUF REAL.txt MODEL [OPTIONS...] -- llama.cpp's own API and infill: builds MODEL, and two made models with
# tokens for infill, with these options.
set -eu
forgec=$1 test=$2 make=$3 real=$4 model=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fim() { echo "--key tokenizer.ggml.$1_token_id=$2"; }
# shellcheck disable=SC2046  # words
"$make" --arch llama --layers 1 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 600 --ctx 256 --type F16 --pure --untied \
    $(fim fim_pre 500; fim fim_suf 501; fim fim_mid 502; fim fim_rep 503; fim fim_sep 504) -o "$work/bytes.gguf"
# The names of these keys are those of older files.
# shellcheck disable=SC2046
"$make" --real "$real" --shape llama-2-7b-2023 $(fim prefix 300; fim suffix 301; fim middle 302) -o "$work/pieces.gguf"
for name in bytes pieces; do "$forgec" build "$work/$name.gguf" --server -q -o "$work/$name" "$@" 2> "$work/err" || { cat "$work/err"; exit 1; }; done
"$forgec" build "$model" --server -q -o "$work/program" "$@"
"$test" "$work/program" "$work/bytes" "$work/pieces" "$work"
