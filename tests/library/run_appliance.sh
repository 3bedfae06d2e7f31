#!/bin/sh
# run_appliance.sh FORGEC DATA [TARGET...] -- examples/appliance with a golden model: builds images for bare machines and boots them in QEMU; they must give
# the stored greedy tokens.  DATA: tests/data/golden.  Skipped (77) if QEMU's machines are missing.
set -eu
forgec=$1 data=$2; shift 2
[ $# -gt 0 ] || set -- aarch64-none riscv64 riscv64-v cortex-m7 cortex-m55
here=$(cd "$(dirname "$0")/../../examples/appliance" && pwd)
model=$data/q-llama-Q8_0
. "$(dirname "$0")/../harness.sh"

# boot CODE: boots the image of $target, which must end with CODE
boot() { check "$target" "$1" timeout "${APPLIANCE_TIMEOUT:-300}" sh "$here/run.sh" "$target" "$tmp/$target"; }

for target; do
    case $target in aarch64*) emulator=qemu-system-aarch64 ;; cortex-m*) emulator=qemu-system-arm ;; *) emulator=qemu-system-riscv64 ;; esac
    if ! command -v $emulator >/dev/null; then left_out "$target: no $emulator"; continue; fi
    last=$target name=$target
    # the stored tokens were computed with float activations
    if ! FORGEC=$forgec FORGEC_OPTIONS='--exact --ctx 128' sh "$here/build.sh" "$target" "$model.gguf" "$tmp/$target" "-DTOKENS=$(tr ' ' , <"$model.tokens")" \
        "-DLENGTH=$(wc -w <"$model.greedy" | tr -d ' ')" -Werror; then bad "no image"; continue; fi
    boot 0
    [ $code -eq 0 ] || continue
    tr -d '\r' <"$tmp/out" | head -n 1 | tr -s ' ' '\n' | grep . >"$tmp/ids"
    tr -s ' ' '\n' <"$model.greedy" | grep . >"$tmp/wanted"
    if cmp -s "$tmp/wanted" "$tmp/ids"; then echo "$target: $(wc -l <"$tmp/ids") tokens as stored; $(tr -d '\r' <"$tmp/out" | sed -n 2p)"
    else bad "other tokens than $model.greedy"; fi
done
[ $tests -gt 0 ] || skip "no emulator of these machines"
if [ $failed -eq 0 ]; then
    target=$last
    # An error of the model becomes the emulator's exit code: a token outside the vocabulary.
    FORGEC=$forgec FORGEC_OPTIONS='--exact --ctx 128' sh "$here/build.sh" "$target" "$model.gguf" "$tmp/$target" -DTOKENS=100000
    boot 1
    grep -q '^begin: ' "$tmp/out" || bad "a bad token has another message"
    # The profile of a token.
    FORGEC=$forgec FORGEC_OPTIONS='--exact --ctx 128' sh "$here/build.sh" "$target" "$model.gguf" "$tmp/$target" -DTOKENS=1,2,3 -DLENGTH=2 -DPROFILE -Werror
    boot 0
    tr -d '\r' <"$tmp/out" | awk '/^profile: / { if ($2 == "(step)") step = $4; else { rows++; sum += $4 } }
        END { print "profile: " rows " kernels, " sum " of " step " us"; exit !(rows > 5 && step > 0 && sum > 0) }' || bad "profile: $(cat "$tmp/out")"
    # The story itself, from text to text.
    FORGEC=$forgec sh "$here/build.sh" "$target" '' "$tmp/$target" -DLENGTH=4
    boot 0
    grep -q '^Once upon a time there was a king who [a-z][a-z]' "$tmp/out" || bad "no tale"
fi
summary
