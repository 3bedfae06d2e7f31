# command_checks.sh -- what the scripts that try command lines share; sourced.  Makes $tmp, which goes with the script; counts in $tests and $failed.
# shellcheck shell=sh
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0
tests=0

# check NAME WANTED-CODE COMMAND...: runs it with stdout in $tmp/out, stderr in $tmp/err and stdin from $stdin, if that is set
check() {
    name=$1 wanted=$2
    shift 2
    tests=$((tests + 1))
    "$@" > "$tmp/out" 2> "$tmp/err" < "${stdin:-/dev/null}"
    code=$?
    [ $code -eq "$wanted" ] || bad "exit code $code, wanted $wanted"
}
bad() { echo "FAIL $name: $*"; sed 's/^/    /' "$tmp/err" | head -5; failed=$((failed + 1)); }

# Of the last check:
err_has()   { grep -qF -e "$1" "$tmp/err" || bad "stderr lacks '$1'"; }
err_lacks() { ! grep -qF -e "$1" "$tmp/err" || bad "stderr has '$1'"; }
err_empty() { [ ! -s "$tmp/err" ] || bad "stderr is not empty"; }
one_line()  { [ "$(wc -l < "$tmp/err")" -eq 1 ] || bad "one line wanted on stderr"; }
out_is()    { [ "$(cat "$tmp/out")" = "$1" ] || bad "stdout is '$(head -c 200 "$tmp/out")', wanted '$1'"; }
out_has()   { grep -qF -e "$1" "$tmp/out" || bad "stdout lacks '$1'"; }
out_lacks() { ! grep -qF -e "$1" "$tmp/out" || bad "stdout has '$1'"; }
