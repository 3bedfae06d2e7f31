#!/bin/sh
# run_check.sh CLANG NAME [FLAGS...] -- compiles tests/lanes/check_NAME.c with the emulator of lanes and what it compares with, and runs it.
# FLAGS choose a variant: -DWAVE=64, -DSIMT_MMA_WMMA, -fsanitize=undefined ...  Exit code 77 where the processor lacks AVX2 and F16C.
set -eu
clang=$1 name=$2
shift 2
cd "$(dirname "$0")/../.."
case $(uname -m) in x86_64) ;; *) echo "skipped: the checks are compiled for x86-64-v3"; exit 77 ;; esac
for feature in avx2 f16c fma; do
    grep -qw "$feature" /proc/cpuinfo || { echo "skipped: this processor has no $feature"; exit 77; }
done
case $name in
formats|gemm|gemv) sources='compiler/format/pack_gpu.c compiler/format/blocks.c templates/ref/dequant.c' ;;
stage)             sources='compiler/format/pack_gpu.c compiler/format/blocks.c templates/ref/dequant.c' ;;
*)                 sources= ;;
esac
program=$(mktemp)
trap 'rm -f "$program"' EXIT
from=$(date +%s)
# shellcheck disable=SC2086  # sources are words
"$clang" -std=c11 -D_GNU_SOURCE -O1 -march=x86-64-v3 "$@" -iquote . -o "$program" "tests/lanes/check_$name.c" tests/lanes/simt.c $sources -lm
echo "compiled in $(($(date +%s) - from)) s"
case $name in formats|gemv) "$program" 1 ;; *) "$program" ;; esac          # 1: the seed, else drawn from the clock
