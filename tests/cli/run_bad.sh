#!/bin/sh
# run_bad.sh FORGEC DATA -- builds every file of DATA (tests/data/bad/bad.tar.xz, unpacked) as expect.txt says:
#   reject: exit code 1, one line on stderr, nothing on stdout, no output file
#   accept: exit code 0 and an output file
#   either: one of these two; the file is not compiled, which takes seconds
# Never a crash (exit code >= 128), never more than 10 s of CPU time per process (independent of the machine's load), and never a hang (300 s).
# Options for forgec: $FORGEC_FLAGS.
set -u
[ $# -eq 2 ] || { echo "usage: $0 FORGEC DATA" >&2; exit 2; }
case $1 in */*) forgec=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") ;; *) forgec=$1 ;; esac
command -v "$forgec" >/dev/null || { echo "$0: $1: not a program" >&2; exit 2; }
data=$2
. "$(dirname "$0")/../harness.sh"
cd "$data" || exit 2
[ -s expect.txt ] || { echo "$0: $data/expect.txt is missing or empty" >&2; exit 2; }

tab=$(printf '\t')
while IFS=$tab read -r file expected; do
    [ -n "$file" ] || continue
    name="$file ($expected)" tests=$((tests + 1))
    mkdir "$tmp/made"
    emit=
    [ "$expected" != either ] || emit='--emit source'
    # shellcheck disable=SC2086  # the flags are words
    (ulimit -t 10 && exec timeout -k 1 300 "$forgec" build "$file" -o "$tmp/made/model" $emit ${FORGEC_FLAGS-}) </dev/null >"$tmp/out" 2>"$tmp/err"
    code=$?
    lines=$(wc -l <"$tmp/err")
    left=$(ls -A "$tmp/made")
    if [ $code -eq 124 ]; then bad "has not ended after 300 s"
    elif [ $code -eq 152 ] || [ $code -eq 137 ]; then bad "took more than 10 s of CPU time"
    elif [ $code -ge 128 ]; then bad "crash, exit code $code"
    elif [ ! -f "$file" ]; then bad "the file is missing in $data"
    elif [ "$expected" = reject ] && [ $code -ne 1 ]; then bad "exit code $code, not 1"
    elif [ "$expected" = accept ] && [ $code -ne 0 ]; then bad "exit code $code, not 0"
    elif [ $code -eq 0 ] && [ ! -s "$tmp/made/model" ]; then bad "exit code 0, but no output"
    elif [ $code -gt 1 ]; then bad "exit code $code, neither 0 nor 1"
    elif [ $code -eq 1 ] && [ "$lines" -ne 1 ]; then bad "$lines lines on stderr, not 1"
    elif [ $code -eq 1 ] && [ -s "$tmp/out" ]; then bad "something on stdout"
    elif [ $code -eq 1 ] && [ -n "$left" ]; then bad "left behind: $left"
    else case $expected in reject|accept|either) ;; *) bad "unknown expectation" ;; esac
    fi
    rm -rf "$tmp/made"
done <expect.txt

summary files
