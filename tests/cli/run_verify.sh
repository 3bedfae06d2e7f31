#!/bin/sh
# run_verify.sh FORGEC DATA TARGET -- forgec verify with default options for models with experts in DATA: if a router nearly ties, rounding decides, and
# the report says so; a deliberately wrong router exceeds the bounds for any outcome of ties.  The environment names the driver of TARGET's device.
# By default prompts up to the first with a tie, and two wrong routers; full: all.
set -u
. "$(dirname "$0")/../harness.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
forgec=$1 data=$2 target=$3
mixed=$data/llama-moe-mixed-a.gguf biased=$data/lfm2moe-a.gguf

# ---- ties: at least one of these prompts has a position where the program chooses the other expert ----
n_tied=0
for seed in 1 2 3 4; do
    [ -n "$full" ] || [ $n_tied -eq 0 ] || break
    check "seed $seed" 0 "$forgec" verify "$mixed" -t "$target" --ctx 128 --tokens 64 --seed $seed
    if grep -q "routed otherwise" "$tmp/out"; then n_tied=$((n_tied + 1)) tied=$seed; fi
done
name=ties; tests=$((tests + 1))
if [ "$n_tied" -eq 0 ]; then bad "no prompt has one: other seeds are wanted"
else
    check json 0 "$forgec" verify "$mixed" -t "$target" --ctx 128 --tokens 64 --seed "$tied" --json
    for word in '"positions_routed_otherwise":	0,' '"dropped":' '"rounding_moves":'; do out_has "$word"; done
fi

# ---- wrong routers ----
# wrong NAME MODEL SED: templates/gpu/slices.h edited
wrong() {
    rm -rf "$tmp/templates"
    mkdir -p "$tmp/templates/gpu"
    sed "$3" "$root/templates/gpu/slices.h" > "$tmp/templates/gpu/slices.h"
    name=$1
    ! cmp -s "$root/templates/gpu/slices.h" "$tmp/templates/gpu/slices.h" || bad "its pattern is no longer in slices.h"
    check "$1" 1 "$forgec" verify "$2" -t "$target" --ctx 128 --tokens 64 --templates "$tmp/templates"
    out_has "OUT OF BOUNDS"
}
[ -z "$full" ] || wrong "one expert fewer" "$mixed" 's/ share = route_share(mine, / share = lane_id() + 1 == used ? 0.0f : route_share(mine, /'
[ -z "$full" ] || wrong "shares are not divided" "$mixed" 's/norm ? max_f32(total, 6.103515625e-5f) : 1.0f/1.0f/'
wrong "scores off by more than rounding" "$mixed" 's/order_of_f32(select\[i\])/order_of_f32(select[i] + ((first + i) % 2 ? 0.25f : 0.0f))/'
wrong "bias subtracted" "$biased" 's/ select\[i\] += more\[i\];/ select[i] -= more[i];/'
summary
