#!/bin/sh
# mutants.sh FORGEC TEST_GOLDEN LIBSIMT CC [NAME] -- that the golden tests refuse every program of tests/mutants.tsv, and accept the same programs unchanged.
# A mutant of a template is built with --templates; one of the compiler or the runtime needs a forgec of its own, made by CC in a copy of the tree.
# NAME: only mutants whose name contains it.
set -eu
forgec=$1 golden=$2 libsimt=$3 cc=$4 only=${5:-}
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
work=$tmp tab=$(printf '\t')

# suite FORGEC TARGET MODEL MODE: one model, one program, few ways, 640 positions (GPU: 120)
suite() {
    target=x86-64-v3 long=640
    [ "$(uname -m)" = x86_64 ] || target=native
    if [ "$2" = gpu ]; then target=$root/tests/lanes/simt32.yaml long=120; fi
    GOLDEN_ONLY=$3 GOLDEN_LONG=$long FORGE_HIP_LIBRARY=$libsimt "$golden" "$1" "$root/tests/data/golden" target "$target" 0/1 layer "$4" >"$work/log" 2>&1
}

# edit FILE SED COPY: the changed file; a pattern that no longer fits is an error, not a mutant that lives
edit() {
    mkdir -p "$(dirname "$3")"
    sed "$2" "$root/$1" >"$3"
    ! cmp -s "$root/$1" "$3" || { bad "its pattern is no longer in $1"; return 1; }
}

# A forgec from the tree with one changed file; incremental after the first.
rebuild() {
    if [ ! -d "$work/tree" ]; then
        mkdir "$work/tree"
        (cd "$root" && tar cf - --exclude=./tests/data --exclude=./.git --exclude=./build .) | (cd "$work/tree" && tar xf -)
        cmake -S "$work/tree" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_COMPILER="$cc" -DFORGEC_TESTS=OFF >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    fi
    edit "$1" "$2" "$work/tree/$1" || return 1
    cmake --build "$work/build" --target forgec --parallel 2 >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    cp "$root/$1" "$work/tree/$1"
}

killed() {      # FORGEC TARGET MODEL MODE
    tests=$((tests + 1))
    if suite "$@"; then bad "the tests accept it"
    elif ! grep -q '^FAILED .*\(of the largest\|greedy token\)' "$work/log"; then bad "refused for another reason:"; tail -n 5 "$work/log"
    else echo "$name: $(grep -c '^FAILED' "$work/log") checks fail"
    fi
}

# The programs unchanged, each combination once.
grep -v '^#' "$root/tests/mutants.tsv" | cut -f1,3 | grep -F -- "$only" | cut -f2 | sort -u >"$work/suites"
while read -r target model mode; do
    suite "$forgec" "$target" "$model" "$mode" || { name="unchanged $target $model $mode"; bad "the tests refuse it"; cat "$work/log"; }
done <"$work/suites"

grep -v '^#' "$root/tests/mutants.tsv" | grep -F -- "$only" >"$work/list"
while IFS=$tab read -r name file what expression; do
    rm -rf "$work/templates"
    # shellcheck disable=SC2086  # what: target, model, mode
    case $file in
    templates/*)
        edit "$file" "$expression" "$work/$file" || continue
        export GOLDEN_TEMPLATES="$work/templates"
        killed "$forgec" $what
        unset GOLDEN_TEMPLATES ;;
    *)
        rebuild "$file" "$expression" || continue
        killed "$work/build/forgec" $what ;;
    esac
done <"$work/list"
summary mutants
