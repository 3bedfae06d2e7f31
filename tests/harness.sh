# harness.sh -- what the test scripts share; sourced.  Makes $tmp, which goes with the script, and counts in $tests and $failed.
# A script calls check or refuse for each command, says more of it with the words below, and ends with summary.
# shellcheck shell=sh
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
tests=0 failed=0 name=${0##*/}
: > "$tmp/out"
: > "$tmp/err"

# check NAME CODE COMMAND...: runs it with stdout in $tmp/out, stderr in $tmp/err and stdin from $stdin, if that is set
check() {
    name=$1 wanted=$2
    shift 2
    tests=$((tests + 1)) code=0
    "$@" > "$tmp/out" 2> "$tmp/err" < "${stdin:-/dev/null}" || code=$?
    [ "$code" -eq "$wanted" ] || bad "exit code $code, wanted $wanted"
}
# refuse NAME CODE TEXT COMMAND...: ends with CODE, nothing on stdout, and one line on stderr that has TEXT
refuse() {
    refusal=$3
    name=$1 wanted=$2
    shift 3
    check "$name" "$wanted" "$@"
    err_has "$refusal"; one_line; out_empty
}
# What failed, of $name, and the beginning of what the last command said.
bad() {
    echo "FAILED $name: $*"
    sed -n '1,8s/^/    /p' "$tmp/err" "$tmp/out"
    failed=$((failed + 1))
}

# Of the last check:
err_has()   { grep -qF -e "$1" "$tmp/err" || bad "stderr lacks '$1'"; }
err_lacks() { ! grep -qF -e "$1" "$tmp/err" || bad "stderr has '$1'"; }
err_empty() { [ ! -s "$tmp/err" ] || bad "stderr is not empty"; }
one_line()  { [ "$(wc -l < "$tmp/err")" -eq 1 ] || bad "one line wanted on stderr"; }
out_is()    { [ "$(cat "$tmp/out")" = "$1" ] || bad "stdout is '$(head -c 200 "$tmp/out")', wanted '$1'"; }
out_has()   { grep -qF -e "$1" "$tmp/out" || bad "stdout lacks '$1'"; }
out_lacks() { ! grep -qF -e "$1" "$tmp/out" || bad "stdout has '$1'"; }
out_empty() { [ ! -s "$tmp/out" ] || bad "something on stdout"; }

# same FILE FILE [WHAT]: their bytes
same() { cmp -s "$1" "$2" || { bad "$1 and $2 differ${3:+: $3}"; diff "$1" "$2" | head -n 6; }; }

# What this machine lacks; ctest counts the script as skipped.
skip() { echo "skipped: $*"; exit 77; }

# summary [WHAT]: the last line of a script and, as its exit code, whether there were tests and none failed
summary() {
    echo "$tests ${1:-tests}, $failed failed"
    [ "$failed" -eq 0 ] && [ "$tests" -gt 0 ]
}
