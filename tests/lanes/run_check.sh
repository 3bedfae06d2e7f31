#!/bin/sh
# run_check.sh CLANG NAME [FLAGS...] -- compiles tests/lanes/check_NAME.c with the emulator of lanes and what it compares with, and runs it.
# FLAGS choose a variant: -DFAMILY=FAMILY_CDNA3, -DFAMILY=FAMILY_RDNA3, -fsanitize=undefined ...  Exit code 77 where the processor lacks AVX2 and F16C.
set -eu
clang=$1 kernel=$2
shift 2
. "$(dirname "$0")/../harness.sh"
cd "$(dirname "$0")/../.."
case $(uname -m) in x86_64) ;; *) skip "the checks are compiled for x86-64-v3" ;; esac
for feature in avx2 f16c fma; do
    grep -qw "$feature" /proc/cpuinfo || skip "this processor has no $feature"
done
case $kernel in
formats|gemm|gemv|slices|stage) sources="$(echo compiler/format/*.c) templates/ref/dequant.c templates/ref/ops.c" ;;
sequence)                sources="templates/ref/ops.c" ;;
*)                       sources= ;;
esac
program=$tmp/program
from=$(date +%s)
# shellcheck disable=SC2086  # sources are words
"$clang" -std=c11 -D_GNU_SOURCE -O1 -march=x86-64-v3 "$@" -iquote . -o "$program" "tests/lanes/check_$kernel.c" tests/lanes/simt.c $sources -lm
echo "compiled in $(($(date +%s) - from)) s"
case $kernel in formats|gemv) "$program" 1 ;; *) "$program" ;; esac          # 1: the seed, else drawn from the clock
