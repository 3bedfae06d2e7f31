#!/bin/sh
# run_architectures.sh FORGEC DATA TARGET [I/N] [full] -- a model of each kind of layers in DATA, part I of N, built for TARGET and held against
# the reference: exact, and as builds are by default; full: without fusion, too.  The environment says what stands for TARGET's device.
set -u
. "$(dirname "$0")/../harness.sh"
forgec=$1 data=$2 target=$3 part=${4:-0/1} full=${5:-}
i=0 index=${part%/*} parts=${part#*/}
for model in "$data"/*.gguf; do
    i=$((i + 1))
    [ $((i % parts)) -eq "$index" ] || continue
    id=$(basename "$model" .gguf)
    check "$id exact" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 20 --exact
    [ -z "$full" ] || check "$id exact unfused" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 20 --exact --fuse none
    # Beyond the context that it was trained for, other factors.
    case $id in phi3*) check "$id exact, long" 0 "$forgec" verify "$model" -t "$target" --ctx 512 --tokens 20 --exact ;; esac
    check "$id" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 40
    [ -z "$full" ] || check "$id unfused" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 40 --fuse none
done
summary
