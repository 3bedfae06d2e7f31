#!/bin/bash
# same_logits.sh OLD NEW DATA TARGET [OLD-TARGET]: compares programs of two forgecs byte by byte: logits of every golden model in DATA, fused and
# not, default and exact, through prompt and one-token kernels.  For changes to kernels that must not change their results.
#   JOBS: comparisons at the same time (all processors).  POSITIONS: tokens of a prompt (48).  FORGE_HIP_LIBRARY: the driver of TARGET's device.
set -u
[ $# -ge 4 ] || { echo "usage: $0 OLD NEW DATA TARGET [OLD-TARGET]" >&2; exit 2; }
export old=$1 new=$2 data=$3 target=$4 old_target=${5-$4} positions=${POSITIONS-48}
work=$(mktemp -d) || exit 1
export work
trap 'rm -rf "$work"' EXIT

compare() {
    model=$1 level=$2 mode=${3-} at=$work/$1-$2${3-}
    "$old" build "$data/$model.gguf" -t "$old_target" --fuse "$level" $mode -q -o "$at.old" 2> "$at.why" || { echo "not by OLD: $*: $(head -n 1 "$at.why")"; return; }
    "$new" build "$data/$model.gguf" -t "$target" --fuse "$level" $mode -q -o "$at.new" 2> "$at.why" || { echo "FAILED $*: $(head -n 1 "$at.why")"; return; }
    tokens=$(tr -s ' \n' ',' < "$data/${model%-0*}.tokens" | cut -d, -f"1-$positions" | sed 's/,$//')
    for kernels in prompt one; do
        [ $kernels = one ] && each="-ub 1" || each=
        for which in old new; do "$at.$which" --tokens "$tokens" $each --logits "$at.$which.l" > /dev/null 2> "$at.why" || echo "FAILED $*, $which: $(head -n 1 "$at.why")"; done
        if [ -s "$at.old.l" ] && cmp -s "$at.old.l" "$at.new.l"; then echo same; else echo "FAILED $*, $kernels kernels: other logits"; fi
    done
    rm -f "$at".*
}
export -f compare
for model in "$data"/*.gguf; do
    model=$(basename "$model" .gguf)
    case $model in *-of-*) case $model in *-00001-of-*) ;; *) continue ;; esac ;; esac
    for level in layer none; do for mode in '' --exact; do echo "compare $model $level $mode"; done; done
done | xargs -P "${JOBS-$(nproc)}" -d '\n' -I{} bash -c '{}' > "$work/all" 2>&1
grep -v '^same$' "$work/all" | sort
echo "$(grep -c '^same$' "$work/all") comparisons the same, $(grep -c '^FAILED' "$work/all") failed"
! grep -q '^FAILED' "$work/all" && grep -q '^same$' "$work/all"
