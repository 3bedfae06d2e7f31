#!/bin/sh
# run_absent.sh TEST_ABSENT MAKE_GGUF TABLE [--write] FOLDER... -- removes each key and each tensor, one at a time, from the models in these folders and from two
# encoders that make_gguf writes (test_absent.c); quantized copies of one model and shards are left out.
# run_absent.sh TEST_ABSENT MAKE_GGUF --real REAL.TXT -- the same for the key sets of public files, without a table: checks only the messages.
set -u
test=$1 make=$2 table=$3
shift 3
write=
[ "$1" != --write ] || { write=--write; shift; }
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
if [ "$table" = --real ]; then
    for name in $(sed -n 's/^model \([^ ]*\) .*/\1/p' "$1"); do "$make" --real "$1" --shape "$name" -o "$tmp/$name.gguf" || exit 1; done
    "$test" - "$tmp"/*.gguf
    exit
fi
for name in bert nomic-bert; do "$make" --shape golden-$name --type F16 --tokenizer none -o "$tmp/$name.gguf" || exit 1; done
set -- $(for folder; do ls "$folder"/*.gguf; done | grep -v -e '/q-llama' -e '-of-') "$tmp"/*.gguf
[ $# -ge 55 ] || { echo "FAILED: only $# models"; exit 1; }
"$test" $write "$table" "$@"
