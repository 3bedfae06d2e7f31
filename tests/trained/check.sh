#!/bin/sh
# check.sh DIR [FORGEC] [-t TARGET]...: compares the models that train.py made in DIR with the logits of transformers.
# Each model is built for every target (default: x86-64-v3) with default options and with --exact.  Prints, as a table of Markdown, the mean KL(transformers
# || forgec) over the positions in nats, and the number of positions with the same most probable token.  Bounds: 1e-6 by default, exact 1e-10; qwen3next 1e-9,
# because transformers computes its delta net in chunks in float32.  Exit code 1 if a model exceeds its bound.
set -u
[ $# -ge 1 ] && [ -d "$1" ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$1; shift
forgec=$root/build/release/forgec
case "${1-}" in -t|'') ;; *) forgec=$1; shift ;; esac
targets=
while [ $# -ge 2 ] && [ "$1" = -t ]; do targets="$targets $2"; shift 2; done
[ $# -eq 0 ] && [ -x "$forgec" ] || { echo "check.sh: no forgec at $forgec, or words that are not understood: $*" >&2; exit 2; }
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
cc -O2 -o "$work/compare" "$root/tests/device/compare_logits.c" -lm || exit 2

# kl MODEL TARGET BOUND OPTIONS...: prints the KL and the number of positions with the same most probable token; false: beyond the bound, or a failure
kl() {
    name=$1 target=$2 bound=$3; shift 3
    "$forgec" build "$dir/$name.gguf" -q -t "$target" "$@" -o "$work/program" 2>"$work/err" &&
        "$work/program" -q --tokens "@$dir/$name.tokens" --print-tokens -n 0 --logits "$work/logits" >/dev/null 2>"$work/err" ||
        { echo "failed: $(head -n 1 "$work/err")"; return 1; }
    "$work/compare" "$work/logits" "$dir/$name.logits.f32" 256 160 0 1 0 "$bound" >"$work/text" 2>&1 && code=0 || code=1
    sed -n 's|.*mean KL \([^ ]*\)  argmax \(.*\)|\1, \2|p' "$work/text"
    return $code
}

bad=0
echo "| model | target | default | --exact |"
echo "|---|---|---|---|"
for file in "$dir"/*.gguf; do
    name=$(basename "$file" .gguf)
    for target in ${targets:-x86-64-v3}; do
        case $name in qwen3next) exact_bound=1e-9 ;; *) exact_bound=1e-10 ;; esac
        default=$(kl "$name" "$target" 1e-6) || { bad=$((bad + 1)); default="**$default**"; }
        exact=$(kl "$name" "$target" "$exact_bound" --exact) || { bad=$((bad + 1)); exact="**$exact**"; }
        echo "| $name | $target | $default | $exact |"
    done
done
[ $bad -eq 0 ] || { echo "$bad beyond their bounds" >&2; exit 1; }
