#!/bin/sh
# run_bad.sh FORGEC [DATA] -- builds every file of DATA (default: tests/data/bad beside this script) as expect.txt says:
#   reject: exit code 1, one line on stderr, nothing on stdout, no output file
#   accept: exit code 0 and an output file
#   either: one of the two
# Never a crash (exit code >= 128) and never longer than 10 s.  Options for forgec: $FORGEC_FLAGS.
set -u
[ $# -ge 1 ] || { echo "usage: $0 FORGEC [DATA]" >&2; exit 2; }
case $1 in */*) forgec=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") ;; *) forgec=$1 ;; esac
command -v "$forgec" >/dev/null || { echo "$0: $1: not a program" >&2; exit 2; }
data=${2:-$(dirname "$0")/../data/bad}
cd "$data" || exit 2
[ -s expect.txt ] || { echo "$0: $data/expect.txt is missing or empty" >&2; exit 2; }

work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

count=0 failed=0
bad() { failed=$((failed + 1)); echo "FAILED $file ($expected): $1"; sed -n '1,5s/^/    /p' "$work/stderr"; }

tab=$(printf '\t')
while IFS=$tab read -r file expected; do
    [ -n "$file" ] || continue
    count=$((count + 1))
    mkdir "$work/out"
    # shellcheck disable=SC2086  # the flags are words
    timeout -k 1 10 "$forgec" build "$file" -o "$work/out/model" ${FORGEC_FLAGS-} </dev/null >"$work/stdout" 2>"$work/stderr"
    code=$?
    lines=$(wc -l <"$work/stderr")
    left=$(ls -A "$work/out")
    if [ $code -eq 124 ] || [ $code -eq 137 ]; then bad "took longer than 10 s"
    elif [ $code -ge 128 ]; then bad "crash, exit code $code"
    elif [ ! -f "$file" ]; then bad "the file is missing in $data"
    elif [ "$expected" = reject ] && [ $code -ne 1 ]; then bad "exit code $code, not 1"
    elif [ "$expected" = accept ] && [ $code -ne 0 ]; then bad "exit code $code, not 0"
    elif [ $code -eq 0 ] && [ ! -s "$work/out/model" ]; then bad "exit code 0, but no output"
    elif [ $code -gt 1 ]; then bad "exit code $code, neither 0 nor 1"
    elif [ $code -eq 1 ] && [ "$lines" -ne 1 ]; then bad "$lines lines on stderr, not 1"
    elif [ $code -eq 1 ] && [ -s "$work/stdout" ]; then bad "something on stdout"
    elif [ $code -eq 1 ] && [ -n "$left" ]; then bad "left behind: $left"
    else case $expected in reject|accept|either) ;; *) bad "unknown expectation" ;; esac
    fi
    rm -rf "$work/out"
done <expect.txt

echo "$count files, $failed failed"
[ $failed -eq 0 ] && [ $count -gt 0 ]
