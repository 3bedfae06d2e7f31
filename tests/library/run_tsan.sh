#!/bin/sh
# Two models in two threads, each with a parallel_for of three, under ThreadSanitizer: the sources that forgec compiles, compiled again with it.
# run_tsan.sh FORGEC GOLDEN_DIR SOURCE_DIR CLANG -O0|-O1
set -eu
forgec=$1 golden=$2 source=$3 clang=$4 level=$5
. "$(dirname "$0")/../harness.sh"
cd "$tmp"
command -v "$clang" >/dev/null && command -v objcopy >/dev/null || skip "needs clang and objcopy"
printf 'int main(void) { return 0; }\n' > probe.c
"$clang" -fsanitize=thread probe.c -o probe 2>/dev/null && ./probe || lacks "ThreadSanitizer does not work here"

# library PREFIX MODEL: PREFIX.o, with everything except the API local, as forgec makes it.  The weights come from a file, the tokenizer is not used.
library()
{
    "$forgec" build "$golden/$2.gguf" -t portable --exact --weights external --prefix "$1" --emit obj -q -o "$1.o" --save-temps "$1"
    keep='' defines='' objects=''
    for f in $(sed -n 's/^API(\(.*\))/\1/p' "$source/runtime/library/api.def"); do
        keep="$keep --keep-global-symbol=${1}_$f"
        defines="$defines -Dmodel_$f=${1}_$f"
    done
    printf 'const unsigned char forge_vocab[256] = { 0 };\n' > "$1/no_vocab.c"
    for c in "$1"/*.c; do
        object=$c.o
        # files without names of the API are the same in both libraries, so they are compiled once
        if [ "$1" != alpha ] && cmp -s "$c" "alpha/${c##*/}" && ! grep -qw 'model_[a-z_0-9]*' "$c"; then object=alpha/${c##*/}.o
        else
            # shellcheck disable=SC2086
            "$clang" -std=c11 "$level" -g -fsanitize=thread -ffreestanding -fPIC -w -DFORGE_FREESTANDING -DLIBRARY_PUBLIC= $defines -c "$c" -o "$object"
        fi
        objects="$objects $object"
    done
    # shellcheck disable=SC2086
    ld -r $objects -o "$1.all.o"
    # shellcheck disable=SC2086
    objcopy $keep "$1.all.o" "$1.tsan.o"
}
library alpha q-llama-Q8_0
library beta qwen3-a
"$clang" -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=thread -I. "$source/tests/library/test_threads.c" alpha.tsan.o beta.tsan.o -lpthread -o test_threads
check threads 0 ./test_threads "$golden" alpha.o.weights beta.o.weights; cat out
summary
