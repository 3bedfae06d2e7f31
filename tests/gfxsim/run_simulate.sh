#!/bin/sh
# run_simulate.sh FORGEC MODEL.gguf -- forgec verify and compare with --simulate, as a user meets them: what they say, exit codes, what they refuse.
set -eu
[ $# -eq 2 ] || { echo "usage: run_simulate.sh FORGEC MODEL.gguf" >&2; exit 2; }
forgec=$1 model=$2 here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
tests=0 failed=0

# check NAME CODE COMMAND...: its output is in $tmp/out and $tmp/err
check() {
    name=$1 want=$2; shift 2
    tests=$((tests + 1))
    code=0
    "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
    [ "$code" -eq "$want" ] || { echo "FAILED $name: exit code $code, not $want"; cat "$tmp/out" "$tmp/err"; failed=$((failed + 1)); }
}
has() { grep -qF -- "$2" "$tmp/$1" || { echo "FAILED $name: no \"$2\" in:"; cat "$tmp/$1"; failed=$((failed + 1)); }; }

check verify 0 "$forgec" verify "$model" -t gfx1151 --simulate --tokens 3
has out "gfx1151 in the simulator"; has out "by executing the chip's instructions"; has out "not checked"
check verify-json 0 "$forgec" verify "$model" -t "$here/gfx942-few.yaml" --simulate --tokens 2 --json; has out '"simulated":	true'
check compare 0 "$forgec" compare "$model" -t "$here/gfx1100-few.yaml" --simulate; has out "unique, MB"; has out "none"; has out "layer"
check compare-json 0 "$forgec" compare "$model" -t "$here/gfx942-few.yaml" --simulate --fuse layer --json; has out '"instructions_valu"'
check cpu 1 "$forgec" verify "$model" -t portable --simulate; has err "portable is none"
check nvidia 1 "$forgec" verify "$model" -t sm_90 --simulate; has err "AMD GPUs"
check times 2 "$forgec" compare "$model" -t gfx942 --simulate -r 3; has err "not with --simulate"
check no-library 1 env FORGEC_GFXSIM="$tmp/none" "$forgec" verify "$model" -t gfx942 --simulate; has err "no such file"

# a program by itself: a wrong chip, a trace
"$forgec" build "$model" -t gfx1151 -o "$tmp/program" -q
library=$(dirname "$forgec")/libgfxsim.so
check program 0 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_TRACE=1 "$tmp/program" -q -p Once -n 2 --temp 0; has err "attn_qkv"
check other-chip 9 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_CHIP=gfx942 "$tmp/program" -q -p Once -n 2
check little-memory 5 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_MEMORY=100000 "$tmp/program" -q -p Once -n 2
echo "$tests tests, $failed failed"
[ $failed -eq 0 ]
