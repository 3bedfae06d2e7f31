# harness.sh -- functions of the test scripts; sourced.  Makes $tmp, which is removed at the end, and counts in $tests and $failed.
# A script calls check or refuse for each command, tests its results with the functions below, and ends with summary.
# shellcheck shell=sh
# $full: set in the tier full (matrix.def), in which a script also does what its head says about full
# shellcheck disable=SC2034  # read by scripts
full=
[ "${FORGEC_TIER-}" != full ] || full=full
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
tests=0 failed=0 name=${0##*/}
: > "$tmp/out"
: > "$tmp/err"

# check NAME CODE COMMAND...: runs the command with stdout in $tmp/out, stderr in $tmp/err and stdin from $stdin if that is set; it must end with CODE
check() {
    name=$1 wanted=$2
    shift 2
    tests=$((tests + 1)) code=0
    "$@" > "$tmp/out" 2> "$tmp/err" < "${stdin:-/dev/null}" || code=$?
    [ "$code" -eq "$wanted" ] || bad "exit code $code, wanted $wanted"
}
# refuse NAME CODE TEXT COMMAND...: the command must end with CODE, nothing on stdout, and one line on stderr that has TEXT
refuse() {
    refusal=$3
    name=$1 wanted=$2
    shift 3
    check "$name" "$wanted" "$@"
    err_has "$refusal"; one_line; out_empty
}
# Prints the failure of $name and the beginning of the last command's output.
bad() {
    echo "FAILED $name: $*"
    sed -n '1,8s/^/    /p' "$tmp/err" "$tmp/out"
    failed=$((failed + 1))
}

# About the last check:
err_has()   { grep -qF -e "$1" "$tmp/err" || bad "stderr lacks '$1'"; }
err_lacks() { ! grep -qF -e "$1" "$tmp/err" || bad "stderr has '$1'"; }
err_empty() { [ ! -s "$tmp/err" ] || bad "stderr is not empty"; }
one_line()  { [ "$(wc -l < "$tmp/err")" -eq 1 ] || bad "one line wanted on stderr"; }
out_is()    { [ "$(cat "$tmp/out")" = "$1" ] || bad "stdout is '$(head -c 200 "$tmp/out")', wanted '$1'"; }
out_has()   { grep -qF -e "$1" "$tmp/out" || bad "stdout lacks '$1'"; }
out_lacks() { ! grep -qF -e "$1" "$tmp/out" || bad "stdout has '$1'"; }
out_empty() { [ ! -s "$tmp/out" ] || bad "something on stdout"; }

# same FILE FILE [WHAT]: the bytes must be equal
same() { cmp -s "$1" "$2" || { bad "$1 and $2 differ${3:+: $3}"; diff "$1" "$2" | head -n 6; }; }

# skip WHAT: this machine lacks a program or package; ctest counts the script as skipped, or as failed if CI is set, because all of them are
# installed there.  lacks WHAT: something that cannot be installed, such as instructions of a processor; skipped everywhere.
# left_out WHAT: skips a part of the script, which continues.
lacks() { echo "skipped: $*"; exit 77; }
skip() {
    [ -n "${CI-}" ] || lacks "$*"
    echo "FAILED: CI is set, and a test would be skipped: $*"
    exit 1
}
left_out() {
    echo "left out: $*"
    [ -z "${CI-}" ] || bad "CI is set, and this is left out: $*"
}

# summary [WHAT]: prints the last line of a script; the exit code is 0 if there were tests and all passed
summary() {
    echo "$tests ${1:-tests}, $failed failed"
    [ "$failed" -eq 0 ] && [ "$tests" -gt 0 ]
}
