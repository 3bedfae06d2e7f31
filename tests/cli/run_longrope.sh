#!/bin/sh
# run_longrope.sh FORGEC PHI3 NODE_MODULES -- PHI3: a model with another rotation for texts of more than 16 tokens.  When a text becomes
# longer, all its tokens are read again for each further token; a program without longer texts has only one table.
forgec=$1 model=$2 modules=$3 here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
cd "$tmp" || exit 1
target=portable
! grep -qw avx2 /proc/cpuinfo || target=x86-64-v3
prompt="7 3 9 12 44 5 90 22 11 8"
greedy="--temp 0 --repeat-penalty 1 --ignore-eos --print-tokens"

check graph 0 "$forgec" build "$model" --ctx 64 --emit graph -o -
out_has "rope_short, rope_long, %0.q"
check short-graph 0 "$forgec" build "$model" --ctx 16 --emit graph -o -
out_has "rope_short, %0.q"; out_lacks "rope_long"
for arch in $target gfx1151; do
    check "$arch" 0 "$forgec" build "$model" --ctx 64 -t $arch --emit source -o long.c
    check "$arch short" 0 "$forgec" build "$model" --ctx 16 -t $arch --emit source -o short.c
    grep -qi "+ far_of(" long.c || bad "no kernel asks which text it is"
    ! grep -qi "+ far_of(\|\.far_from =" short.c || bad "kernels ask which text it is"
done

check build 0 "$forgec" build "$model" -t $target --exact --ctx 64 -q -o program
# shellcheck disable=SC2086  # words
check crossing 0 ./program --tokens "$prompt" -n 12 $greedy -q
text=$(cat "$tmp/out") all=$prompt
for token in $text; do
    # shellcheck disable=SC2086
    check "after $all" 0 ./program --tokens "$all" -n 1 $greedy -q
    out_is "$token"
    all="$all $token"
done
# The library for pages does the same by itself as the engine of programs.
node=$(command -v node || command -v nodejs) || { summary; exit; }
for web in wasm32 ${full:+webgpu}; do
    check "$web" 0 "$forgec" build "$model" -t $web --exact --ctx 64 -q -o $web
    # shellcheck disable=SC2086
    if [ $web = webgpu ]; then check "$web crossing" 0 sh "$here/../webgpu/with.sh" "$modules" "$node" webgpu/run.js --tokens "$prompt" -n 12 $greedy -q
    else check "$web crossing" 0 "$node" wasm32/run.js --tokens "$prompt" -n 12 $greedy -q; fi
    out_is "$text"
    [ $web = wasm32 ] || continue
    # in pieces of 4 tokens; the last piece exceeds 16 tokens
    # shellcheck disable=SC2086
    check whole 0 ./program --tokens "$all" -n 1 $greedy -q
    next=$(cat "$tmp/out")
    # shellcheck disable=SC2086
    check pieces 0 "$node" wasm32/run.js --tokens "$all" -ub 4 -n 1 $greedy -q
    out_is "$next"
done
summary
