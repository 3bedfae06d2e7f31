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
has out "gfx1151, a prompt of "; has out "gfx1151, a decoded token, the mean of "; has out "no measurements"
check verify-json 0 "$forgec" verify "$model" -t "$here/gfx942-few.yaml" --simulate --tokens 2 --json; has out '"simulated":	true'
check compare 0 "$forgec" compare "$model" -t "$here/gfx1100-few.yaml" --simulate; has out "unique, MB"; has out "none"; has out "layer"
has out "fuse none, a prompt of 8 tokens: "; has out "fuse layer, a decoded token, the mean of 8: "; has out "targets/gfx1100-few.yaml; no measurements"
check compare-json 0 "$forgec" compare "$model" -t "$here/gfx942-few.yaml" --simulate --fuse layer -p 40 -n 2 --json; has out '"instructions_valu"'; has out '"n_prompt":	40'
# of every kernel of a prompt and of a token: times of some parts, one word of five
[ "$(grep -c '"prompt":	{\|"decode":	{' "$tmp/out")" -eq 2 ] || { echo "FAILED $name: not a prompt and a token"; failed=$((failed + 1)); }
for key in least_us vector_us memory_us launch_us fill registers groups simd_waves resident_groups waits; do
    awk -v key="\"$key\":" '$1 == key { n++; if (!($2 + 0 > 0)) bad = 1 } END { exit bad || n < 10 }' "$tmp/out" || { echo "FAILED $name: $key"; failed=$((failed + 1)); }
done
[ "$(grep -c '"kernel":' "$tmp/out")" -eq "$(grep -cE '"bound":	"(matrix|vector|LDS|memory|launch)"' "$tmp/out")" ] || { echo "FAILED $name: bounds"; failed=$((failed + 1)); }
awk '/"matrix_us":/ && $2 + 0 > 0 { matrix = 1 } /"lds_us":/ && $2 + 0 > 0 { lds = 1 } /"fill":/ && $2 + 0 > 1 { full = 1 } END { exit !matrix || !lds || full }' "$tmp/out" ||
    { echo "FAILED $name: matrix, LDS or fill"; failed=$((failed + 1)); }
check sample 0 "$forgec" compare "$model" -t gfx942 --simulate --fuse layer -p 150 --sample 1; has out "of a sample of 1 group:"; has out "its logits not compared"; has out "the mean of 1:"
check sample-times 2 "$forgec" compare "$model" -t gfx942 --sample 8; has err "--sample is for what --simulate counts"
check long-prompt 1 "$forgec" compare "$model" -t gfx942 --simulate -p 100000; has err "the context holds"
"$forgec" targets --print gfx1151 | sed '/^rates:/d' >"$tmp/own.yaml"
check no-rates 0 "$forgec" verify "$model" -t "$tmp/own.yaml" --simulate --tokens 1; has err "own.yaml: no rates: clock, so there are no least times"
[ "$(wc -l <"$tmp/err")" -eq 1 ] || { echo "FAILED $name: more than one line"; cat "$tmp/err"; failed=$((failed + 1)); }
check no-rates-compare 0 "$forgec" compare "$model" -t "$tmp/own.yaml" --simulate -p 1 -n 1 --json; has err "own.yaml: no rates: clock, so there are no least times"
[ "$(wc -l <"$tmp/err")" -eq 1 ] && ! grep -q '"decode"' "$tmp/out" || { echo "FAILED $name"; cat "$tmp/err"; failed=$((failed + 1)); }
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
