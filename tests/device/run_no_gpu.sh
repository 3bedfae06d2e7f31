#!/bin/sh
# run_no_gpu.sh FORGEC MODEL.gguf -- a program for an AMD GPU where AMD's library is installed and no GPU is: its sentence and exit code 8.
set -eu
forgec=$1 model=$2
unset FORGE_HIP_LIBRARY HSA_OVERRIDE_GFX_VERSION
[ ! -e /dev/kfd ] || { echo "skipped: this machine may have an AMD GPU"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$forgec" build "$model" -t gfx1151 -q -o "$dir/program" </dev/null
library=$("$dir/program" --check 2>/dev/null </dev/null | grep -o 'libamdhip64\.so\.[0-9]*' | head -n 1) || true
failed=0
# says OPTIONS...: code 8, nothing but one line that names the reason
says() {
    code=0
    "$dir/program" "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
    cat "$dir/err"
    [ $code -eq 8 ] || { echo "FAILED $*: exit code $code, wanted 8"; failed=1; }
    grep -q "$reason" "$dir/out" "$dir/err" || { echo "FAILED $*: no '$reason'"; failed=1; }
}
reason='libamdhip64.so is not installed'
[ -z "$library" ] || reason="no AMD GPU found by $library"
says -p x
[ ! -s "$dir/out" ] && [ "$(wc -l <"$dir/err")" -eq 1 ] || { echo "FAILED: not one line"; failed=1; }
says --bench
says --check
[ $failed -eq 0 ] || exit 1
[ -n "$library" ] || { echo "skipped: libamdhip64 is not installed"; exit 77; }
