#!/bin/sh
# run_appliance.sh FORGEC DATA [TARGET...] -- examples/appliance with a golden model: images for bare machines are built, booted in QEMU, and give the
# stored greedy tokens.  DATA: tests/data/golden.  Skipped (77) where QEMU's machines are missing.
set -eu
forgec=$1 data=$2; shift 2
[ $# -gt 0 ] || set -- aarch64-none riscv64 riscv64-v cortex-m7 cortex-m55
here=$(cd "$(dirname "$0")/../../examples/appliance" && pwd)
model=$data/q-llama-Q8_0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0 ran=0

fail() { echo "FAILED $target: $*"; failed=1; }

boot() { code=0; timeout "${APPLIANCE_TIMEOUT:-300}" sh "$here/run.sh" "$target" "$dir/$target" >"$dir/out" 2>"$dir/err" </dev/null || code=$?; }

for target; do
    case $target in aarch64*) emulator=qemu-system-aarch64 ;; cortex-m*) emulator=qemu-system-arm ;; *) emulator=qemu-system-riscv64 ;; esac
    if ! command -v $emulator >/dev/null; then echo "$target: no $emulator"; continue; fi
    ran=1
    last=$target
    # the stored tokens are those of whole activations
    if ! FORGEC=$forgec FORGEC_OPTIONS='--exact --ctx 128' sh "$here/build.sh" "$target" "$model.gguf" "$dir/$target" "-DTOKENS=$(tr ' ' , <"$model.tokens")" \
        "-DLENGTH=$(wc -w <"$model.greedy" | tr -d ' ')" -Werror; then fail "no image"; continue; fi
    boot
    [ $code -eq 0 ] || { cat "$dir/err" "$dir/out"; fail "exit code $code"; continue; }
    tr -d '\r' <"$dir/out" | head -n 1 | tr -s ' ' '\n' | grep . >"$dir/ids"
    tr -s ' ' '\n' <"$model.greedy" | grep . >"$dir/wanted"
    if cmp -s "$dir/wanted" "$dir/ids"; then echo "$target: $(wc -l <"$dir/ids") tokens as stored; $(tr -d '\r' <"$dir/out" | sed -n 2p)"
    else cat "$dir/err" "$dir/out"; fail "other tokens than $model.greedy"; fi
done
if [ $ran -eq 1 ] && [ $failed -eq 0 ]; then
    target=$last
    # Errors of the model reach the emulator's exit code: a token outside the vocabulary.
    FORGEC=$forgec FORGEC_OPTIONS='--exact --ctx 128' sh "$here/build.sh" "$target" "$model.gguf" "$dir/$target" -DTOKENS=100000
    boot
    if [ $code -ne 1 ] || ! grep -q '^begin: ' "$dir/out"; then cat "$dir/out"; fail "a bad token gives exit code $code, wanted 1"; fi
    # The tale itself, from text to text.
    FORGEC=$forgec sh "$here/build.sh" "$target" '' "$dir/$target" -DLENGTH=4
    boot
    if [ $code -ne 0 ] || ! grep -q '^Once upon a time there was a king who [a-z][a-z]' "$dir/out"; then cat "$dir/err" "$dir/out"; fail "no tale, exit code $code"; fi
fi
[ $ran -eq 1 ] || exit 77
exit $failed
