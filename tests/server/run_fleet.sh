#!/bin/sh
# run_fleet.sh FORGEC LOAD MODEL -- examples/fleet: three programs behind HAProxy under load, one killed and one replaced: no request fails.
set -eu
PATH=$PATH:/usr/sbin
forgec=$1 load=$2 model=$3
fleet=$(dirname "$0")/../../examples/fleet/fleet.sh
. "$(dirname "$0")/../harness.sh"
for tool in haproxy curl; do command -v $tool >/dev/null || skip "there is no $tool"; done
work=$(mktemp -d)
# Below the ports that the system gives to clients (32768 and up): a client's port stays taken for a minute after its connection has ended.
base=$((20000 + $$ % 12000))
FLEET=$base A=$((base + 1)) B=$((base + 2)) C=$((base + 3))
export FLEET A B C
trap '"$fleet" stop "$work/fleet" 2>/dev/null; rm -rf "$work" "$tmp"' EXIT
"$forgec" build "$model" --server -q -o "$work/program"
"$fleet" start "$work/program" "$work/fleet" --slots 4 -t 1 -q
WHOLE=1 "$load" "$FLEET" 6 100 60 >"$work/said" &
sleep 0.5
"$fleet" kill "$work/fleet" a
"$fleet" replace "$work/fleet" b
sleep 1
kill $!
code=0
wait $! || code=$?
cat "$work/said"
# Each program has answered requests, and the killed one again after its restart.
for name in a b c; do
    texts=$(curl -sf "http://127.0.0.1:$(case $name in a) echo "$A" ;; b) echo "$B" ;; c) echo "$C" ;; esac)/metrics" | sed -n 's/^forge:texts_total //p')
    echo "program $name: $texts texts"
    [ "${texts:-0}" -gt 0 ] || { echo "FAILED: program $name had nothing to do"; exit 1; }
done
# The program on an empty base, as in examples/fleet/Containerfile.
if [ "$(id -u)" = 0 ]; then
    mkdir -p "$work/base/run/secrets"
    echo secret >"$work/base/run/secrets/keys"
    "$forgec" build "$model" --server --static -q -o "$work/base/program"
    chroot --userspec=65534:65534 "$work/base" /program --serve --host 0.0.0.0 --port 0 --api-key /run/secrets/keys 2>"$work/said" &
    port=
    for _ in $(seq 200); do
        port=$(sed -n 's|^listening at http://.*:||p' "$work/said")
        [ -z "$port" ] || break
        sleep 0.05
    done
    [ -n "$port" ] || { cat "$work/said"; echo "FAILED: on an empty base the program does not listen"; exit 1; }
    status=$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/metrics") || true
    [ "$status" = 401 ] || { cat "$work/said"; echo "FAILED: on an empty base, /metrics without a key: $status"; exit 1; }
    status=$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer secret' "http://127.0.0.1:$port/metrics") || true
    [ "$status" = 200 ] || { cat "$work/said"; echo "FAILED: on an empty base, /metrics with its key: $status"; exit 1; }
    kill $!
    wait $! || { echo "FAILED: on an empty base the program ends with $?"; exit 1; }
fi
exit $code
