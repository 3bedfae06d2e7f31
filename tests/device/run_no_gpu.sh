#!/bin/sh
# run_no_gpu.sh FORGEC MODEL.gguf -- a program for an AMD GPU on a machine that has AMD's library but no GPU: it prints a message and exits with code 8.
set -eu
forgec=$1 model=$2
unset FORGE_HIP_LIBRARY HSA_OVERRIDE_GFX_VERSION
. "$(dirname "$0")/../harness.sh"
[ ! -e /dev/kfd ] || lacks "this machine may have an AMD GPU"
"$forgec" build "$model" -t gfx1151 -q -o "$tmp/program" </dev/null
library=$("$tmp/program" --check 2>/dev/null </dev/null | grep -o 'libamdhip64\.so\.[0-9]*' | head -n 1) || true
# says OPTIONS...: the program must end with code 8 and print the reason
says() {
    check "$*" 8 "$tmp/program" "$@"
    grep -q "$reason" "$tmp/out" "$tmp/err" || bad "no '$reason'"
}
reason='libamdhip64.so is not installed'
[ -z "$library" ] || reason="no AMD GPU found by $library"
says -p x
one_line; out_empty
says --bench
says --check
summary
[ -n "$library" ] || skip "libamdhip64 is not installed"
