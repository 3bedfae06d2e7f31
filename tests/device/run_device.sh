#!/bin/sh
# run_device.sh DIR: runs, on a machine with a GPU, what tests/device/build_device.sh put into DIR: the golden prompts through prefill and through decode,
# greedy continuations, and the tests of kernels.  Prints a table; exit code 1 if something fails.
# Programs built with --exact must continue with the stored tokens; for other programs the table shows how many of 48 tokens agree.
# From the environment: ONLY (only programs with this text in their name), ARGUMENTS (added to the arguments of every program).
set -u
[ $# -eq 1 ] && [ -e "$1/list" ] || { echo "usage: run_device.sh DIR, with DIR from build_device.sh" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(cd "$1" && pwd)
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
n=0 n_passed=0

compiler=
for c in "${CC:-}" cc gcc clang clang-19; do
    if [ -n "$c" ] && command -v "$c" >/dev/null 2>&1; then compiler=$c; break; fi
done
compare=$dir/compare_logits
"$compare" 2>/dev/null                           # without arguments the tool prints its usage and exits with 2, if it can run here
if [ $? -ne 2 ]; then
    compare=$work/compare_logits
    "$compiler" -O2 -o "$compare" "$root/tests/device/compare_logits.c" -lm || { echo "run_device: no compare_logits and no C compiler"; exit 2; }
fi

row() { printf '%-32s %-8s %-7s %s\n' "$@"; }
count() {       # VERDICT
    n=$((n + 1))
    [ "$1" != ok ] || n_passed=$((n_passed + 1))
}

# program NAME ARGUMENTS...: runs it with its output in $work/out; prints a message and returns false if it fails
program() {
    name=$1; shift
    # shellcheck disable=SC2086
    timeout 120 "$dir/$name" -q "$@" ${ARGUMENTS:-} >"$work/out" 2>"$work/err" </dev/null && return 0
    code=$?
    echo "exit code $code: $(tail -n 3 "$work/err" | tr '\n' ' ')" >"$work/text"
    return 1
}

check_logits() {        # WAY N_VOCAB N_POSITIONS FIRST STEP EVERY MAX_ABS MEAN_KL, for $name and $id
    way=$1; shift
    chunk=
    [ "$way" = prefill ] || chunk="-ub 0"
    verdict=FAILED
    # shellcheck disable=SC2086
    if program "$name" --tokens "@$dir/data/$id.tokens" --print-tokens -n 0 --logits "$work/logits" $chunk; then
        "$compare" "$work/logits" "$dir/data/$id.logits" "$@" >"$work/text" 2>&1 && verdict=ok
    fi
    rm -f "$work/logits"
    row "$name" "$way" "$verdict" "$(cat "$work/text")"
    count $verdict
}

check_greedy() {        # for $name, $id and $mode
    verdict=FAILED
    if program "$name" --tokens "@$dir/data/$id.tokens" --print-tokens --temp 0 --repeat-penalty 1 -n 48 --ignore-eos; then
        tr -cs '0-9' '\n' <"$work/out" | sed '/^$/d' >"$work/got"
        tr -cs '0-9' '\n' <"$dir/data/$id.greedy" | sed '/^$/d' | head -n 48 >"$work/want"
        same=$(paste "$work/got" "$work/want" | awk '$1 != $2 || NF != 2 { exit } { n++ } END { print n + 0 }')
        echo "$same of 48 tokens" >"$work/text"
        if [ "$same" -eq 48 ] || { [ "$mode" != exact ] && [ "$(wc -l <"$work/got")" -eq 48 ]; }; then verdict=ok; fi
    fi
    row "$name" greedy "$verdict" "$(cat "$work/text")"
    count $verdict
}

row program way verdict "against the stored logits"
while read -r name id mode n_vocab n_positions first step every max_abs mean_kl; do
    case $name in
    '#') continue ;;
    *"${ONLY:-}"*) ;;
    *) continue ;;
    esac
    check_logits prefill "$n_vocab" "$n_positions" "$first" "$step" "$every" "$max_abs" "$mean_kl"
    check_logits decode "$n_vocab" "$n_positions" "$first" "$step" "$every" "$max_abs" "$mean_kl"
    check_greedy
done <"$dir/list"

target=$(cat "$dir/target")
case $target in sm_*) kind=nvidia ;; *) kind=amd ;; esac
for test in $("$root/tests/kernel/run.sh" --names $kind); do
    [ -e "$dir/kernels/$test.$target" ] || continue
    code=0 verdict=FAILED
    KEEP=$dir/kernels timeout 600 "$root/tests/kernel/run.sh" "$test" "device:$target" >"$work/text" 2>&1 || code=$?
    sed 's/^/    /' "$work/text"
    [ $code -ne 0 ] || verdict=ok
    if [ $code -ne 77 ]; then row "$test" kernel $verdict ""; count $verdict; fi
done
grep '^#' "$dir/list" | sed 's/^#/not run:/'
echo "run_device: $n_passed of $n passed"
[ "$n" -gt 0 ] && [ "$n_passed" -eq "$n" ]
