#!/bin/sh
# run_architectures.sh FORGEC DATA TARGET I/N full|both|even|odd -- a model of each kind of layers in DATA, part I of N, built for TARGET and held
# against the reference: exact, and as builds are by default; full: without fusion, too; even, odd: models in turn exact and by default, with the
# one or the other beginning.  The environment says what stands for TARGET's device.
set -u
. "$(dirname "$0")/../harness.sh"
forgec=$1 data=$2 target=$3 part=$4 how=$5
i=0 index=${part%/*} parts=${part#*/}
for model in "$data"/*.gguf; do
    i=$((i + 1))
    [ $((i % parts)) -eq "$index" ] || continue
    id=$(basename "$model" .gguf)
    case $how,$((i / parts % 2)) in
    even,0 | odd,1) exact=yes default= ;;
    even,1 | odd,0) exact='' default=yes ;;
    *) exact=yes default=yes ;;
    esac
    if [ -n "$exact" ]; then
        check "$id exact" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 20 --exact
        [ "$how" != full ] || check "$id exact unfused" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 20 --exact --fuse none
    fi
    # Beyond the context that it was trained for, other factors.
    case $id in phi3*) check "$id exact, long" 0 "$forgec" verify "$model" -t "$target" --ctx 512 --tokens 20 --exact ;; esac
    if [ -n "$default" ]; then
        check "$id" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 40
        [ "$how" != full ] || check "$id unfused" 0 "$forgec" verify "$model" -t "$target" --ctx 128 --tokens 40 --fuse none
    fi
done
summary
