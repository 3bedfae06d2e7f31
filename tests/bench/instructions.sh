#!/bin/sh
# instructions.sh FORGEC TARGETS MODEL.gguf... -- instructions that programs for aarch64 execute per token, for a prompt of 128 tokens and for 32
# tokens that are decoded after one token, counted by qemu: one row per model, the targets (words) side by side.  One thread.
set -eu
[ $# -ge 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
forgec=$1 targets=$2
shift 2
dir=$(mktemp -d "${TMPDIR:-/tmp}/forgec-count.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
"${CC:-cc}" -O2 -shared -fPIC -o "$dir/count.so" "$(dirname "$0")/count_instructions.c"

# count TOKENS N: counts a run that reads ids 1 to TOKENS and generates N
count() {
    qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu -plugin "$dir/count.so" "$dir/program" -q -t 1 -c 256 --temp 0 --ignore-eos -n "$2" \
        --tokens "$(seq -s , 1 "$1")" 2>&1 >/dev/null | sed -n 's/^instructions //p'
}

echo "| model | $(for t in $targets; do printf '%s: prompt | decode | ' "$t"; done)"
for model in "$@"; do
    printf '| %s |' "$(basename "$model" .gguf)"
    for target in $targets; do
        "$forgec" build -q "$model" -t "$target" -o "$dir/program"
        one=$(count 1 1) prompt=$(count 129 1) text=$(count 1 33)
        printf ' %d | %d |' $(((prompt - one) / 128)) $(((text - one) / 32))
    done
    echo
done
