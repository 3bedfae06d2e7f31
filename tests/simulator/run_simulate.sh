#!/bin/sh
# run_simulate.sh FORGEC MODEL.gguf -- forgec verify and compare with --simulate for a user: their output, exit codes and refusals.
set -eu
[ $# -eq 2 ] || { echo "usage: run_simulate.sh FORGEC MODEL.gguf" >&2; exit 2; }
forgec=$1 model=$2 here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/../harness.sh"

check verify 0 "$forgec" verify "$model" -t gfx1151 --simulate --tokens 3
out_has "gfx1151 in the simulator"; out_has "by executing the chip's instructions"; out_has "not checked"
out_has "gfx1151, a prompt of "; out_has "gfx1151, a decoded token, the mean of "; out_has "no measurements"
check verify-json 0 "$forgec" verify "$model" -t "$here/gfx942-few.yaml" --simulate --tokens 2 --json; out_has '"simulated":	true'
check compare 0 "$forgec" compare "$model" -t "$here/gfx1100-few.yaml" --simulate; out_has "unique, MB"; out_has "none"; out_has "layer"
out_has "fuse none, a prompt of 8 tokens: "; out_has "fuse layer, a decoded token, the mean of 8: "; out_has "targets/gfx1100-few.yaml; no measurements"
check compare-json 0 "$forgec" compare "$model" -t "$here/gfx942-few.yaml" --simulate --fuse layer -p 40 -n 2 --format json; out_has '"instructions_valu"'; out_has '"n_prompt":	40'
# every kernel of a prompt and of a token has times of some parts, and as its bound one of five words
[ "$(grep -c '"prompt":	{\|"decode":	{' "$tmp/out")" -eq 2 ] || bad "not a prompt and a token"
for key in least_us vector_us memory_us launch_us fill registers groups simd_waves resident_groups waits; do
    awk -v key="\"$key\":" '$1 == key { n++; if (!($2 + 0 > 0)) bad = 1 } END { exit bad || n < 10 }' "$tmp/out" || bad "$key"
done
[ "$(grep -c '"kernel":' "$tmp/out")" -eq "$(grep -cE '"bound":	"(matrix|vector|LDS|memory|launch)"' "$tmp/out")" ] || bad "bounds"
awk '/"matrix_us":/ && $2 + 0 > 0 { matrix = 1 } /"lds_us":/ && $2 + 0 > 0 { lds = 1 } /"fill":/ && $2 + 0 > 1 { full = 1 } END { exit !matrix || !lds || full }' "$tmp/out" ||
    bad "matrix, LDS or fill"
check compare-html 0 "$forgec" compare "$model" -t "$here/gfx1100-few.yaml" --simulate -p 2 -n 1 --format html; err_empty
out_has "least µs"; out_has "fuse layer"; out_has "removed, "; out_has "</html>"; out_lacks "<script"; out_lacks 'aria-label="Roofline'
check sample 0 "$forgec" compare "$model" -t "$here/gfx942-few.yaml" --simulate --fuse layer -p 150 --sample 1; out_has "of a sample of 1 group:"; out_has "its logits not compared"; out_has "the mean of 1:"
check sample-times 2 "$forgec" compare "$model" -t gfx942 --sample 8; err_has "--sample needs --simulate"
check long-prompt 1 "$forgec" compare "$model" -t gfx942 --simulate -p 100000; err_has "exceed the context"
"$forgec" targets --print gfx1151 | sed '/^rates:/d' >"$tmp/own.yaml"
check no-rates 0 "$forgec" verify "$model" -t "$tmp/own.yaml" --simulate --tokens 1; err_has "own.yaml: no rates: clock, so there are no least times"
one_line
check no-rates-compare 0 "$forgec" compare "$model" -t "$tmp/own.yaml" --simulate -p 1 -n 1 --format json; err_has "own.yaml: no rates: clock, so there are no least times"
one_line; out_lacks '"decode"'
check cpu 1 "$forgec" verify "$model" -t portable --simulate; err_has "portable is not an AMD GPU"
check nvidia 1 "$forgec" verify "$model" -t sm_90 --simulate; err_has "AMD GPUs"
check times 2 "$forgec" compare "$model" -t gfx942 --simulate -r 3; err_has "cannot be combined with --simulate"
check no-library 1 env FORGEC_GFXSIM="$tmp/none" "$forgec" verify "$model" -t gfx942 --simulate; err_has "no such file"

# a program that runs in the simulator without forgec: a wrong chip, a trace
"$forgec" build "$model" -t gfx1151 -o "$tmp/program" -q
library=$(dirname "$forgec")/libgfxsim.so
check program 0 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_TRACE=1 "$tmp/program" -q -p Once -n 2 --temp 0; err_has "attn_qkv"
check other-chip 9 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_CHIP=gfx942 "$tmp/program" -q -p Once -n 2
check little-memory 5 env FORGE_HIP_LIBRARY="$library" FORGE_GFXSIM_MEMORY=100000 "$tmp/program" -q -p Once -n 2
summary
