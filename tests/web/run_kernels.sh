#!/bin/sh
# run_kernels.sh FORGEC GOLDEN UNPACKED [CHROMIUM] -- `forgec build -t webgpu --kernel-tests`: kernels of a llama and, if full, of models with experts, a recurrence and latent attention pass in
# Node on SwiftShader; if full or without CHROMIUM, a kernel that computes something else or cannot be compiled fails, alone; the page does it in Chromium (test_kernels.mjs).
# GOLDEN: tests/data/golden; UNPACKED: the files that the build has unpacked from it.  tests/webgpu/with.sh runs this script.
set -eu
forgec=$1 golden=$2 unpacked=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
node=$(command -v node || command -v nodejs) || skip "no node"
llama=$golden/q-llama-Q8_0.gguf

build() { check "$1: build" 0 "$forgec" build "$2" -q -t webgpu --kernel-tests --ctx 256 -o "$tmp/$1"; }
# row NAME RESULT: the kernel's row has this result
row() { grep -q "^$1  *[a-z, ]*  $2  " "$tmp/out" || bad "$1 has no row with $2: $(grep "^$1 " "$tmp/out")"; }
# some FOLDER: keeps only the groups up to attention, so that few kernels are compiled
some() {
    "$node" -e 'const fs = require("fs"), tests = JSON.parse(fs.readFileSync(process.argv[1]));
        tests.groups.length = 1 + tests.groups.findIndex(({ name }) => name === "0.attention");
        fs.writeFileSync(process.argv[1], JSON.stringify(tests));' "$tmp/$1/tests.json"
}

# ---- all pass ----
build llama "$llama"
check "llama: its kernels" 0 "$node" "$tmp/llama/run.js" --test-kernels
out_has "kernels, all pass"; row attn_qkv pass; row attn_qkv_tiles pass; row attention_chunk pass; row sample_draw pass
[ "$(wc -c < "$tmp/llama/tests.bin")" -lt 500000 ] || bad "the values are large"
! grep -q 'tests\.' "$tmp/llama/sw.js" || bad "the page keeps the tests for times without a network"
models=
[ -z "$full" ] || models="deepseek2-a llama-moe-mixed-a qwen3next-a"
for model in $models; do
    build $model "$unpacked/$model.gguf"
    check "$model: its kernels" 0 "$node" "$tmp/$model/run.js" --test-kernels
    out_has "kernels, all pass"
done
[ -z "$full" ] || grep -q "^recur[a-z_]*  .*pass" "$tmp/out" || bad "no recurrence is tested"
check "without tests" 0 "$forgec" build "$llama" -q -t webgpu --ctx 256 -o "$tmp/plain"
[ ! -e "$tmp/plain/test.html" ] && ! grep -q 'test\.html' "$tmp/plain/index.html" || bad "there is a page of tests"
refuse "a context that is too short" 1 "choose --ctx 16 or more" "$forgec" build "$llama" -q -t webgpu --kernel-tests --ctx 8 -o "$tmp/short"
[ ! -e "$tmp/short" ] || bad "something of it is there"
refuse "a folder without tests" 1 "--kernel-tests" "$node" "$tmp/plain/run.js" --test-kernels

# ---- wrong kernels ----
mkdir -p "$tmp/wrong/webgpu"
if [ -n "$full" ] || [ -z "${4-}" ]; then               # by default the page has a wrong number instead
    sed 's/x\.x \* turns\[j\]\.x - x\.y/x.x * turns[j].x + x.y/' "$here/../../templates/webgpu/heads.wgsl" > "$tmp/wrong/webgpu/heads.wgsl"
    ! cmp -s "$tmp/wrong/webgpu/heads.wgsl" "$here/../../templates/webgpu/heads.wgsl" || bad "the template is as it was"
    check "another rotation: build" 0 "$forgec" build "$llama" -q -t webgpu --kernel-tests --ctx 256 --templates "$tmp/wrong" -o "$tmp/turned"
    some turned
    check "another rotation" 1 "$node" "$tmp/turned/run.js" --test-kernels
    row heads FAIL; row attn_qkv pass; row embed pass; row attention_token FAIL; out_has "no test reaches it"
    sed 's/^const HEAD_LANES = THREADS \/ HEADS_EACH;/const HEAD_LANES: u32 = 1.5;/' "$here/../../templates/webgpu/heads.wgsl" > "$tmp/wrong/webgpu/heads.wgsl"
    check "no WGSL: build" 0 "$forgec" build "$llama" -q -t webgpu --kernel-tests --ctx 256 --templates "$tmp/wrong" -o "$tmp/broken"
    some broken
    check "no WGSL" 1 "$node" "$tmp/broken/run.js" --test-kernels
    row heads FAIL; row attn_qkv pass; out_has "The kernel heads cannot be compiled here: Error while parsing WGSL"
fi
printf '%s' 'x' >> "$tmp/llama/tests.bin"
refuse "values of another build" 1 "bytes instead of" "$node" "$tmp/llama/run.js" --test-kernels
truncate -s -1 "$tmp/llama/tests.bin"

# ---- a folder with the user's own files ----
echo text > "$tmp/plain/test.html"
refuse "a test.html of one's own" 1 "contains test.html, which forgec did not write" "$forgec" build "$llama" -q -t webgpu -o "$tmp/plain"

# ---- the page ----
if [ -n "${4-}" ] && HOME=$tmp timeout 60 "$4" --headless --no-sandbox --disable-gpu --dump-dom about:blank > "$tmp/out" 2> "$tmp/err"; then
    mkdir "$tmp/chromium"
    check "the page" 0 timeout 600 "$node" "$here/test_kernels.mjs" "$tmp/llama" "$4" "$tmp/chromium"
    cat "$tmp/out"
elif [ -n "${4-}" ]; then echo "left out: the page: chromium does not start here"
else left_out "the page: no chromium"; fi

# ---- the folder again, without ----
check "without tests, over one with them" 0 "$forgec" build "$llama" -q -t webgpu --ctx 256 -o "$tmp/llama"
! ls "$tmp/llama" | grep -q test || bad "tests are left: $(ls "$tmp/llama")"
summary
