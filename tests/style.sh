#!/bin/bash
# style.sh -- no line of C or WGSL is longer than .clang-format's limit, in the folders that keep to it; nor of an emitted source, but for the
# command that compiles it.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
cd "$root" || exit 1

# What keeps to the limit; whoever brings another folder to it adds it here.
kept="cmake runtime compiler templates simulator docs/tour tests/bench tests/cli tests/fault tests/fuzz tests/device tests/golden tests/kernel tests/lanes tests/library \
      tests/predict tests/ranks tests/simulator tests/tools tests/unit tests/webgpu"

limit=$(sed -n 's/^ColumnLimit: *//p' .clang-format)
[ "${limit:-0}" -gt 0 ] || bad ".clang-format has no ColumnLimit"
while IFS= read -r file; do
    tests=$((tests + 1)) name=$file
    awk -v limit="$limit" 'length > limit && !/^ \* compile alone: / { print FNR ": " length " columns" }' "$file" > "$tmp/out"
    out_empty
done < <(find $kept -name '*.[ch]' -o -name '*.def' -o -name '*.hip' -o -name '*.wgsl' | sort)
summary files
