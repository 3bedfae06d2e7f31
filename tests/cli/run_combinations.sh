#!/bin/sh
# run_combinations.sh FORGEC MAKE_GGUF FORMAT.def TARGET KV -- one target and KV type: fused and unfused, default and exact programs of a model that has a matrix in each
# weight format, against the reference (forgec verify).  Exit code 77 where programs of TARGET cannot run.  A driver's library stands in for a GPU through $FORGE_HIP_LIBRARY.
set -u
[ $# -eq 5 ] || { echo "usage: run_combinations.sh FORGEC MAKE_GGUF FORMAT.def TARGET KV" >&2; exit 2; }
forgec=$1 make_gguf=$2 formats=$3 target=$4 kv=$5
. "$(dirname "$0")/../harness.sh"

# Rows of 256 columns: a block of any format.  The matrices of four layers and two more take all 28 formats in turn.
"$make_gguf" --each --layers 4 --vocab 512 --embd 256 --ff 256 --heads 4 --kv-heads 2 --head-dim 64 --ctx 64 --untied --tokenizer none -o "$tmp/each.gguf" >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
"$forgec" inspect "$tmp/each.gguf" >"$tmp/tensors" || exit 1
for format in $(sed -n 's/^QUANT_[A-Z]*(\([A-Z0-9_]*\),.*/\1/p' "$formats"); do
    grep -qw "$format" "$tmp/tensors" || bad "the model has no matrix in $format"
done

for fuse in none layer; do
    for mode in '' --exact; do
        # shellcheck disable=SC2086  # the mode may be absent
        check "$target --fuse $fuse $mode --kv $kv" 0 "$forgec" verify "$tmp/each.gguf" -t "$target" --fuse $fuse $mode --kv "$kv" --ctx 64 --tokens 6
        if [ $code -ne 0 ] && [ -z "${FORGE_HIP_LIBRARY-}" ] && grep -q 'cannot run here' "$tmp/err"; then lacks "$(cat "$tmp/err")"; fi
        [ $code -eq 0 ] || cat "$tmp/out"
    done
done
summary
