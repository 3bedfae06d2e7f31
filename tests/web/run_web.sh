#!/bin/sh
# run_web.sh FORGEC DATA STORY MAKE [CHROMIUM] -- folders for pages: their files, model.js with intact and with damaged folders (test_web.mjs, in node),
# the page in Chromium (test_page.mjs), wrong outputs, and an object linked into a user's own module.  DATA: tests/data/golden.  STORY: the storyteller.  MAKE: make_gguf.
# full: a page of WebGPU, too (run_kernels.sh has one), a library beside the object, a second build of two targets.
# Skipped (77) without node.
set -eu
forgec=$1 golden=$2/q-llama-Q8_0 golden_webgpu=$2/qwen3-a story=$3 make=$4
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
node=$(command -v node || command -v nodejs) || skip "no node"

# stored: the last check printed the stored tokens
ids() { tr -s ' \n' ',' < "$1" | sed 's/,$//'; }
stored() { [ "$(ids "$tmp/out")" = "$(ids "$golden.greedy")" ] || bad "other tokens than the stored ones"; }

# ---- folders ----
printf 'inherits: wasm32\npiece: {value: 1, unit: MiB, source: "so that there are several"}\n' > "$tmp/pieces.yaml"
check "a folder" 0 "$forgec" build "$story" -t "$tmp/pieces.yaml" -q -o "$tmp/story"
inside=$(ls "$tmp/story" | tr '\n' ' ') pieces=$(printf 'weights-%d.bin ' 0 1 2 3 4 5 6 7)
[ "$inside" = "cache.js index.html model.bin model.d.ts model.js package.json page.css page.js run.js sw.js $pieces""worker.js " ] || bad "in it are $inside"
[ "$(cd "$tmp/story" && cat index.html page.js page.css worker.js cache.js sw.js | wc -c)" -lt 44000 ] || bad "the page is large"
for target in webgpu wasm32; do
    check "a folder of one piece, $target" 0 "$forgec" build "$story" -t $target -q -o "$tmp/site"
    bytes=$(cd "$tmp/site" && rm weights-0.bin && cat * | wc -c)
    [ "$bytes" -lt 270000 ] || bad "the site without weights has $bytes bytes"
done
check "kernels, readable" 0 "$forgec" build "$story" -t webgpu -q --emit source -o "$tmp/kernels.wgsl"
check "a folder with them" 0 "$forgec" build "$story" -t webgpu -q -o "$tmp/site"
check "they are the same but for comments and blanks" 0 "$node" -e '
    const { readFileSync } = require("fs"), { gunzipSync } = require("zlib"), [readable, served] = process.argv.slice(1);
    const tokens = (text) => text.replace(/\/\*[^]*?\*\//g, " ").replace(/^\/\/ ==== (.*)/gm, "#$1#").replace(/\/\/.*/g, " ").match(/[\w.]+|\S/g);
    const wanted = tokens(readFileSync(readable, "utf8")), small = gunzipSync(readFileSync(served)).toString(), got = tokens(small);
    const at = wanted.findIndex((token, i) => token !== got[i]);
    if (wanted.length < 10000 || got.length !== wanted.length || at >= 0) { console.log(`${wanted.length}, ${got.length}, at ${at}`); process.exit(1); }
    if (/^ |\/\*|\n\n|\/\/ (?!====)/m.test(small)) { console.log("comments or blanks are left"); process.exit(1); }' "$tmp/kernels.wgsl" "$tmp/site/kernels.bin"
cp -r "$tmp/story" "$tmp/first"
check "the same again, in its place" 0 "$forgec" build "$story" -t "$tmp/pieces.yaml" -q --no-cache -o "$tmp/story/"
diff -r "$tmp/first" "$tmp/story" > "$tmp/out" || bad "the same input gives another folder"
check "others of that folder" 0 "$forgec" build "$story" -t wasm32 -q -o "$tmp/first"
[ -f "$tmp/first/weights-0.bin" ] && [ ! -f "$tmp/first/weights-1.bin" ] || bad "pieces of the former folder are left"
template=$here/../../examples/embed/chat.jinja
check "a conversation's" 0 "$forgec" build "$golden.gguf" -t wasm32 -q --exact --ctx 256 --chat-template "$template" -o "$tmp/chat"
ls "$tmp" | grep -q tmp && bad "a temporary folder is left: $(ls "$tmp")"

# ---- WebGPU, and its fallback ----
check "a folder with a fall-back" 0 "$forgec" build "$story" -t webgpu,wasm32 -q -o "$tmp/pair"
inside=$(cd "$tmp/pair" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort | tr '\n' ' ')
[ "$inside" = "cache.js gpu.js index.html kernels.bin launches.bin model.bin model.d.ts model.js package.json page.css page.js run.js sw.js wasm32/model.bin wasm32/weights-0.bin weights-0.bin worker.js " ] ||
    bad "in it are $inside"
check "a folder of wasm32" 0 "$forgec" build "$story" -t wasm32 -q -o "$tmp/alone"
cmp "$tmp/alone/weights-0.bin" "$tmp/pair/wasm32/weights-0.bin" && cmp "$tmp/alone/model.bin" "$tmp/pair/wasm32/model.bin" || bad "the fall-back is another than that folder's"
cp -r "$tmp/pair" "$tmp/again"
if [ -n "$full" ]; then
    check "the same again, in its place" 0 "$forgec" build "$story" -t webgpu,wasm32 -q --no-cache -o "$tmp/pair"
    diff -r "$tmp/pair" "$tmp/again" > "$tmp/out" || bad "the same input gives another folder"
fi
check "without it, in its place" 0 "$forgec" build "$story" -t webgpu -q -o "$tmp/again"
[ ! -e "$tmp/again/wasm32" ] || bad "the fall-back is left"
cp -r "$tmp/pair" "$tmp/again/wasm32"
refuse "another's file in it" 1 "contains wasm32/" "$forgec" build "$story" -t webgpu -o "$tmp/again"
for pair in wasm32,webgpu webgpu,portable webgpu,webgpu webgpu,wasm32,wasm32; do
    refuse "targets $pair" 1 "takes one target, or webgpu,wasm32" "$forgec" build "$story" -t $pair -o "$tmp/new"
done
refuse "verify of both" 1 "one target at a time" "$forgec" verify "$story" -t webgpu,wasm32
refuse "both without weights" 1 "--weights none" "$forgec" build "$story" -t webgpu,wasm32 --weights none -o "$tmp/new"
check "run.js on the processor" 0 "$node" "$tmp/alone/run.js" -p "Once upon a time" -n 20 --temp 0 -q
cp "$tmp/out" "$tmp/wanted"
check "run.js falls back" 0 env -u NODE_PATH "$node" "$tmp/pair/run.js" -p "Once upon a time" -n 20 --temp 0 -q --fallback wasm
cmp "$tmp/out" "$tmp/wanted" || bad "another text than that of wasm32"
err_has "Node has no WebGPU"; err_has "The processor computes instead"
one_line
refuse "run.js does not without being told" 1 "Node has no WebGPU" env -u NODE_PATH "$node" "$tmp/pair/run.js" -p x -n 1
refuse "run.js: nothing to fall back to" 1 "build it with -t webgpu,wasm32" "$node" "$tmp/site/run.js" -p x -n 1 --fallback wasm
refuse "run.js: another engine" 2 'is not wasm' "$node" "$tmp/pair/run.js" -p x -n 1 --fallback cpu

# ---- wrong outputs ----
echo text > "$tmp/file"
mkdir "$tmp/foreign"
echo text > "$tmp/foreign/index.html"
refuse "a file is there" 1 "is not a folder" "$forgec" build "$story" -t wasm32 -o "$tmp/file"
refuse "a folder of another's" 1 "contains index.html, which forgec did not write" "$forgec" build "$story" -t wasm32 -o "$tmp/foreign"
cp -r "$tmp/first" "$tmp/edited"
echo text > "$tmp/edited/index.html"
refuse "a page of one's own in it" 1 "contains index.html, which forgec did not write" "$forgec" build "$story" -t wasm32 -o "$tmp/edited"
refuse "no folder to write to" 1 "cannot make a folder beside it" "$forgec" build "$story" -t wasm32 -o "$tmp/nowhere/story"
refuse "no place to write to" 1 "cannot make a folder beside it" "$forgec" build "$story" -t wasm32 -o /proc/story
if [ "$(id -u)" -ne 0 ]; then
    mkdir "$tmp/locked"; chmod 500 "$tmp/locked"
    refuse "a folder nobody may write to" 1 "Permission denied" "$forgec" build "$story" -t wasm32 -o "$tmp/locked/story"
    chmod 700 "$tmp/locked"
fi
# the message for a full disk
refuse "a limit of file sizes" 1 "cannot write" sh -c 'ulimit -f 4000; exec "$@"' sh "$forgec" build "$story" -t wasm32 -q -o "$tmp/new"
refuse "the same over a folder" 1 "cannot write" sh -c 'ulimit -f 4000; exec "$@"' sh "$forgec" build "$story" -t wasm32 -q -o "$tmp/first"
[ "$(ls "$tmp/first" | wc -l)" -eq 12 ] || bad "the former folder was changed"
refuse "standard output" 1 "standard output" "$forgec" build "$story" -t wasm32 -o -
refuse "several targets" 1 "takes one target" "$forgec" build "$story" -t wasm32,portable -o "$tmp/new"
refuse "a server" 1 "no --server" "$forgec" build "$story" -t wasm32 --server -o "$tmp/new"
refuse "no weights" 1 "--weights none" "$forgec" build "$story" -t wasm32 --weights none -o "$tmp/new"
refuse "threads" 1 "one thread" "$forgec" build "$story" -t wasm32 --threads 2 -o "$tmp/new"
check "more than 4 GiB" 1 "$forgec" build "$story" -t wasm32 -q --ctx 2000000 -o "$tmp/new"
err_has "has 4 GiB of memory at most"; err_has "fits with --ctx"
! ls "$tmp" | grep -q -e '^new' -e tmp || bad "something of a refused folder is there: $(ls "$tmp")"

# ---- model.js, run.js ----
check "model.js" 0 "$node" "$here/test_web.mjs" "$tmp/story" "$tmp/chat" "$golden" "$tmp/pair" "$tmp/site"
cat "$tmp/out"
check "run.js" 0 "$node" "$tmp/chat/run.js" -q --tokens "@$golden.tokens" --print-tokens -n 48 --temp 0 --repeat-penalty 0 --ignore-eos
stored
for p in -p -pp; do
    check "run.js --bench $p" 0 "$node" "$tmp/chat/run.js" --bench --min-time 0 $p 8 -n 4 -o json
    out_has '"n_prompt":8,'
done
refuse "run.js --bench of a text" 2 'not a number of tokens' "$node" "$tmp/chat/run.js" --bench -p "Once upon a time"
check "run.js: a wrong option" 2 "$node" "$tmp/chat/run.js" --nonsense
one_line

# ---- vectors ----
check "a model of vectors" 0 "$make" --shape golden-bert --type F16 --tokenizer wordpiece -o "$tmp/words.gguf"
check "its program" 0 "$forgec" build "$tmp/words.gguf" -q --exact -o "$tmp/words-native"
check "its folder" 0 "$forgec" build "$tmp/words.gguf" -t wasm32 -q --exact -o "$tmp/words"
check "the program's vector" 0 "$tmp/words-native" -p 'a king and a queen'
tr -d '[] \n' < "$tmp/out" > "$tmp/vector"
check "the folder's vector" 0 "$node" --input-type=module -e '
    const [folder, wanted] = process.argv.slice(1), { load } = await import(`${folder}/model.js`), model = await load();
    const vector = await model.embed("a king and a queen"), numbers = wanted.split(",").map(Number);
    const off = Math.max(...numbers.map((x, i) => Math.abs(x - vector[i])));
    if (vector.length !== numbers.length || !(off < 1e-4)) { console.log(`off by ${off}`); process.exit(1); }' "$tmp/words" "$(cat "$tmp/vector")"
[ -z "$full" ] || check "verify, of vectors" 0 "$forgec" verify "$tmp/words.gguf" -t wasm32

# ---- a browser ----
if [ -n "${5-}" ] && HOME=$tmp timeout 60 "$5" --headless --no-sandbox --disable-gpu --dump-dom about:blank > "$tmp/out" 2> "$tmp/err"; then
    mkdir "$tmp/chromium" "$tmp/chromium-page"
    check "a page" 0 timeout 120 "$node" "$here/test_browser.mjs" "$tmp/chat" "$golden" "$5" "$tmp/chromium"
    if [ -n "$full" ]; then
        check "build for WebGPU" 0 "$forgec" build "$golden_webgpu.gguf" -t webgpu,wasm32 --exact -o "$tmp/gpu"
        mkdir "$tmp/chromium-gpu"
        check "a page with WebGPU" 0 timeout 300 "$node" "$here/test_browser.mjs" "$tmp/gpu" "$golden_webgpu" "$5" "$tmp/chromium-gpu"
    fi
    check "the folder's page" 0 timeout 180 "$node" "$here/test_page.mjs" "$tmp/story" "$tmp/words" "$tmp/chat" "$tmp/pair" "$5" "$tmp/chromium-page"
    cat "$tmp/out"
elif [ -n "${5-}" ]; then echo "left out: a page: chromium does not start here"
else left_out "a page: no chromium"; fi

# ---- an object in a user's own module ----
clang=$(for c in "${FORGEC_CLANG:-clang-19}" clang; do command -v "$c" && break; done || :)
if [ -n "$clang" ] && "$clang" --target=wasm32 --print-prog-name=wasm-ld | grep -q '^/'; then
    for kind in obj ${full:+lib}; do
        case $kind in obj) product=own.o ;; lib) product=libown.a ;; esac
        check "--emit $kind" 0 "$forgec" build "$golden.gguf" -t wasm32 -q --exact --ctx 256 --emit $kind --prefix own -o "$tmp/$product"
        check "a module with $product" 0 "$clang" --target=wasm32 -O2 -msimd128 -mbulk-memory -nostdlib -Wl,--no-entry -Wl,--export-dynamic \
            -I "$tmp" "$here/own.c" "$tmp/$product" -o "$tmp/own.wasm"
        check "its tokens" 0 "$node" -e 'const { readFileSync } = require("fs"), [path, tokens] = process.argv.slice(1);
            const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(path)));
            const ids = tokens.trim().split(/[\s,]+/).map(Number);
            new Int32Array(exports.memory.buffer, exports.room(), ids.length).set(ids);
            const n = exports.greedy(ids.length, 48);
            console.log(n < 0 ? n : Array.from(new Int32Array(exports.memory.buffer, exports.room(), n)).join(" "));' \
            "$tmp/own.wasm" "$(cat "$golden.tokens")"
        stored
    done
else left_out "an object in a module: no wasm-ld"; fi
summary
