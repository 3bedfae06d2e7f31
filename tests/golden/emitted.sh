#!/bin/sh
# emitted.sh WHAT -- the table of hashes tests/golden/emitted.txt: shows changes of the text that forgec emits, and renews the table (emitted.c).
#   diff [COMMIT [PATTERN]]   the changes since COMMIT (HEAD) as unified diffs without comments, each different change once, after a model,
#                             target and mode that have it.  Only the test's third of the rows is compared; PATTERN: all rows
#                             that match this regular expression.
#                             TEXT=1: with comments.
#   renew                     writes the table for the working tree: commit it with the change
# BUILD: the build folder (build/test), with the tests built.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${BUILD:-$root/build/test}
[ -f "$build/CMakeCache.txt" ] || { echo "emitted.sh: $build is not a build folder; BUILD=DIR" >&2; exit 2; }
make() { cmake --build "$1" --parallel 2 --target emitted >"$1/emitted.log" 2>&1 || { cat "$1/emitted.log"; exit 1; }; }

case ${1-} in
renew)
    make "$build"
    "$build/tests/emitted" renew
    ;;
diff)
    commit=${2:-HEAD} pattern=${3:-.} rows=few
    [ -z "${3-}" ] || rows=all
    make "$build"
    tmp=$(mktemp -d)
    trap 'git -C "$root" worktree remove --force "$tmp/tree" >/dev/null 2>&1 || :; rm -rf "$tmp"' EXIT
    git -C "$root" worktree add --quiet --detach "$tmp/tree" "$commit"
    [ -f "$tmp/tree/tests/golden/emitted.txt" ] || { echo "emitted.sh: $commit has no tests/golden/emitted.txt" >&2; exit 2; }
    launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=/-DCMAKE_C_COMPILER_LAUNCHER=/p' "$build/CMakeCache.txt")
    # shellcheck disable=SC2086  # an option or nothing
    cmake -S "$tmp/tree" -B "$tmp/build" -DCMAKE_BUILD_TYPE=Release $launcher >"$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    make "$tmp/build"
    # Shows the first row that differs for each target, each mode and each model.
    "$build/tests/emitted" -k -f "$tmp/tree/tests/golden/emitted.txt" check "$rows" ${TEXT:+text} >"$tmp/rows" || :
    grep -E -e "$pattern" "$tmp/rows" | sort -t "$(printf '\t')" -k 3,3 -k 1,2 |
        awk -F '\t' '!target[$2]++ || !mode[$3]++ || !model[$1]++' >"$tmp/few" || :
    while read -r model target mode; do
        "$tmp/build/tests/emitted" show "$model" "$target" "$mode" ${TEXT:+text} >"$tmp/old" 2>&1 || :
        "$build/tests/emitted" show "$model" "$target" "$mode" ${TEXT:+text} >"$tmp/new" 2>&1 || :
        diff -u --show-function-line='^[A-Za-z].*(' --label old --label new "$tmp/old" "$tmp/new" >"$tmp/diff" || :
        key=$(grep '^[-+]' "$tmp/diff" | cksum)
        ! grep -qxF "$key" "$tmp/seen" 2>/dev/null || continue
        echo "$key" >>"$tmp/seen"
        echo "==== $model for $target, mode $mode"
        cat "$tmp/diff"
    done <"$tmp/few"
    echo "$(wc -l <"$tmp/rows") of the rows that were looked at differ from $commit"
    ;;
*)  sed -n 's/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
