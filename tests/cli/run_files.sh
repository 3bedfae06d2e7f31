#!/bin/sh
# run_files.sh FORGEC DATA -- how forgec and its programs treat files: no input is replaced, a product is complete or unchanged, and
# no other file is left.  DATA: tests/data/golden.
forgec=$1 data=$2
model=$data/q-llama-Q8_0.gguf
repository=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../harness.sh"
# only NAMES...: the names in the working directory, in order
only() { [ "$(ls | tr '\n' ' ')" = "$*${*:+ }" ] || bad "files: $(ls | tr '\n' ' ')"; }
runs() { check "$name: it runs" 0 "$1" -q --tokens 1,2,3 -n 4 --print-tokens --temp 0; cp "$tmp/out" "$tmp/tokens"; }

mkdir "$tmp/w"
cd "$tmp/w" || exit 1

# ---- an input is never replaced ----

# refused NAME PATH ARGUMENTS...: forgec names the path in one line, and writes nothing
refused() {
    label=$1 path=$2
    shift 2
    cp -r . "$tmp/before"
    check "$label" 1 "$forgec" "$@"
    err_has "$path"
    one_line
    diff -r . "$tmp/before" > "$tmp/diff" || bad "$(cat "$tmp/diff")"
    rm -rf "$tmp/before"
}
cp "$model" foo.weights
refused weights foo.weights build foo.weights --weights external -o foo
err_has "the output would replace the input foo.weights"
refused library-weights foo.weights build foo.weights --weights external --emit lib -o foo
refused itself foo.weights build foo.weights -o foo.weights
refused by-another-path foo.weights build foo.weights -o ../w/foo.weights
ln foo.weights hard; ln -s foo.weights soft
refused hard-link foo.weights build foo.weights -o hard
refused symbolic-link foo.weights build foo.weights --emit graph -o soft
rm hard soft
for shard in 2 3; do
    cp "$data"/llama-yarn-shard-0000?-of-00003.gguf .
    refused "shard $shard" llama-yarn-shard-0000$shard-of-00003.gguf build llama-yarn-shard-00001-of-00003.gguf -o llama-yarn-shard-0000$shard-of-00003.gguf
    rm llama-yarn-shard-*
done
# a model in several files gives its product the name without a number
cp "$data"/llama-yarn-shard-0000?-of-00003.gguf .
check shard-name 0 "$forgec" build llama-yarn-shard-00001-of-00003.gguf --emit source -t portable -q; [ -f llama-yarn-shard.c ] || bad "no llama-yarn-shard.c"
rm llama-yarn-shard*
"$forgec" build foo.weights --emit source -t portable -o model.c 2> "$tmp/err"
refused source model.c cc model.c foo.weights -t portable -o model.c
refused save-temps model.c cc model.c foo.weights -t portable -o program --save-temps .
printf 'inherits: portable\n' > mine.yaml
refused profile mine.yaml build foo.weights -t ./mine.yaml --emit plan -o mine.yaml
mkdir -p models templates/cpu
cp "$repository/models/llama.yaml" models; cp "$repository/templates/cpu/norm_tmpl.c" templates/cpu
refused architecture models/llama.yaml build foo.weights -t portable --models models --emit graph -o models/llama.yaml
refused template templates/cpu/norm_tmpl.c build foo.weights -t portable --templates templates --emit source -o templates/cpu/norm_tmpl.c
printf '#!/bin/sh\nexec %s "$@"\n' "${FORGEC_CLANG:-clang-19}" > own-clang; chmod +x own-clang
refused clang own-clang build foo.weights -t portable --clang ./own-clang --emit source -o own-clang
rm -rf models templates mine.yaml model.c own-clang foo.weights

# ---- outputs are not each other ----
refused two-outputs same.h build "$model" --emit obj --prefix same -o same.h
mkdir temps
refused product-among-temps temps/model.o build "$model" --save-temps temps -o temps/model.o
rm -rf temps

# ---- a product is complete or unchanged ----
other=$data/qwen3-a.gguf
# fails NAME ARGUMENTS...: existing files stay unchanged, and the existing program still runs
kept() { for f in $files; do same "$f" "$tmp/kept/$f"; done; only $files; }
fails() {
    label=$1
    shift
    check "$label" 1 "$@"
    one_line
    kept
}
keep() { files=$(ls); rm -rf "$tmp/kept"; cp -r . "$tmp/kept"; }
"$forgec" build "$model" --weights external -o story 2> "$tmp/err"
only story story.weights
keep
runs ./story
cp "$tmp/tokens" "$tmp/first"
# the file size limit (blocks of 512 bytes) is reached while the weights are written: a program is smaller
fails small-disk sh -c 'ulimit -f 1700; exec "$@"' sh "$forgec" build "$other" --weights external -o story
err_has "ulimit -f"
runs ./story
same "$tmp/tokens" "$tmp/first"
"$forgec" build "$model" --weights external --emit lib -o libmodel.a 2> "$tmp/err"
only libmodel.a libmodel.a.weights model.h model.pc story story.weights
keep
fails library-small-disk sh -c 'ulimit -f 1700; exec "$@"' sh "$forgec" build "$other" --weights external --emit lib -o libmodel.a
fails library-no-pc sh -c 'rm model.pc; mkdir model.pc; "$@"; code=$?; rmdir model.pc; cp ../kept/model.pc .; exit $code' sh \
    "$forgec" build "$other" --weights external --emit lib -o libmodel.a
rm -f -- *
keep
fails library-fresh sh -c 'ulimit -f 200; exec "$@"' sh "$forgec" build "$model" --weights external --emit lib -o libmodel.a
# two builds at once: the files are from the same build
for round in 1 2 3 4 5; do
    "$forgec" build "$model" --weights external -o both 2> "$tmp/err1" &
    "$forgec" build "$other" --weights external -o both 2> "$tmp/err2"
    wait
    runs ./both
    only both both.weights
done
rm -f -- *

summary
