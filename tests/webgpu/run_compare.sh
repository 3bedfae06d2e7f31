#!/bin/sh
# run_compare.sh FORGEC MODEL.gguf NODE_MODULES -- forgec compare of targets that run in Node: its measurements, and its messages if Node or its WebGPU is
# missing.
forgec=$1 model=$2 modules=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
. "$here/find.sh"
short="-p 16 -n 8 -r 1 --min-time 0.001"

# values KEY: the values of the programs, in one line
values() { sed -n "s/^\t\t\t\"$1\":\t\(.*\)/\1/p" "$tmp/out" | tr '\n' ' '; }

check "both of them" 0 env NODE_PATH="$modules" "$forgec" compare "$model" -t wasm32,webgpu $short --format json; err_empty
[ "$(values name)" = '"wasm32", "webgpu", ' ] || bad "names $(values name)"
[ "$(values launches_per_token)" = '14, 14, ' ] || bad "launches $(values launches_per_token)"
[ "$(values bandwidth_gb_s)" = 'null, null, ' ] || bad "bandwidths $(values bandwidth_gb_s)"
grep -c '"tok_s":	[0-9.]*[1-9]' "$tmp/out" | grep -qx 4 || bad "speeds are missing"
apart=$(values logits_max_abs | sed 's/^0, //; s/, $//')
awk -v x="$apart" 'BEGIN { exit !(x > 0 && x < 1) }' || bad "logits are $apart apart"
check "fusion" 0 "$forgec" compare "$model" -t wasm32 $short; err_empty
out_has "| fuse none "; out_has "in node nothing measures it"
refuse "a page" 1 "--format html needs times of kernels" "$forgec" compare "$model" -t webgpu $short --format html
refuse "no WebGPU" 1 'Node has no WebGPU: run `npm install webgpu`' env -u NODE_PATH "$forgec" compare "$model" -t webgpu $short --fuse layer
refuse "no node" 1 "runs in node, which is not installed" env PATH="$tmp" "$forgec" compare "$model" -t webgpu $short
summary
