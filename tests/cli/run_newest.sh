#!/bin/sh
# run_newest.sh FORGEC MODEL FOLDER-OF-FEW.yaml -- compares the newest clang of this machine with the clang that forgec chooses itself: kernels of
# one chip (full: of three) run in the simulator, a program for the CPU gives the same text, PTX has the same version, bare targets compile.
set -u
forgec=$1 model=$2 few=$3
. "$(dirname "$0")/../harness.sh"
newest=
for v in 20 21 22 23 24 25 26 27 28 29; do
    command -v "clang-$v" >/dev/null && command -v "ld.lld-$v" >/dev/null && newest=clang-$v
done
[ -n "$newest" ] || lacks "there is no clang newer than the oldest, and an lld, here"
echo "with $newest"

"$forgec" build -q "$model" --ctx 64 -o "$tmp/oldest" || exit 1
check cpu 0 "$forgec" build -q "$model" --ctx 64 --clang "$newest" -o "$tmp/newest"; err_empty
for clang in oldest newest; do "$tmp/$clang" -q -p "Once upon" -n 16 --temp 0 >"$tmp/$clang.txt" 2>"$tmp/err" || { name=$clang; bad "does not run"; }; done
name=text tests=$((tests + 1))
same "$tmp/oldest.txt" "$tmp/newest.txt"
for target in sm_90 ${full:+sm_90a}; do
    check $target 0 "$forgec" build -q "$model" -t $target --ctx 64 --clang "$newest" --emit asm -o "$tmp/ptx"
    grep -q '^\.version 8\.5$' "$tmp/ptx" || bad "PTX $(grep -m 1 '^\.version' "$tmp/ptx"), not 8.5: docs/models.md promises driver 555"
done
for target in wasm32 ${full:+riscv64}; do
    check $target 0 "$forgec" build -q "$model" -t $target --ctx 64 --clang "$newest" --emit asm -o "$tmp/asm"; err_empty
done
for chip in gfx1151 ${full:+gfx1100 gfx942}; do
    check $chip 0 "$forgec" verify "$model" -t "$few/$chip-few.yaml" --simulate --clang "$newest" --ctx 64 --tokens 2; out_has "  ok"
    [ $code -eq 0 ] || cat "$tmp/out"
done
summary
