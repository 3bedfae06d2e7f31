#!/bin/sh
# bench_device.sh: speed of GPU programs for the shapes of Llama 3.2 1B and 3.1 8B, without their weights (noise of the right formats and sizes).
#
#   bench_device.sh build FORGEC MAKE_GGUF DIR [TARGET]    here: one program per shape and format in DIR (about 1.5 MB each)
#   bench_device.sh run DIR                                on the machine with the GPU: decode and prefill at 0 and 512 positions of context
#   bench_device.sh profile DIR                            there, with NVIDIA's ncu: mean time of each decode kernel, launched alone
set -eu
case ${1:-} in
build)
    [ $# -ge 4 ] || { echo "usage: $0 build FORGEC MAKE_GGUF DIR [TARGET]" >&2; exit 2; }
    forgec=$2 make_gguf=$3 dir=$4 target=${5:-sm_90}
    mkdir -p "$dir"
    for shape in llama-3.2-1b llama-3.1-8b; do
        for type in Q4_K_M Q8_0 BF16; do
            "$make_gguf" --shape $shape --type $type --header-only --tokenizer none -o "$dir/header.gguf"
            "$forgec" build "$dir/header.gguf" -q -t "$target" --weights none -o "$dir/$shape-$type"
        done
    done
    rm -f "$dir/header.gguf"
    ;;
run)
    printf '%-24s %12s %12s %12s %12s  %s\n' 'tokens/s' 'decode' 'at 512' 'prefill 512' 'at 512' 'GB/s read in decode at 512'
    for program in "$2"/llama-*; do
        "$program" --bench --random-weights -p 512 -n 128 -d 0,512 -r 5 --output csv 2>/dev/null | awk -F, -v name="$(basename "$program")" '
            NR > 1 { test = ($(NF - 12) > 0) "," $(NF - 10); rate[test] = $(NF - 6); read[test] = $(NF - 3) }      # formats may hold commas: counted from the end
            END { printf "%-24s %12.1f %12.1f %12.0f %12.0f  %.0f\n", name, rate["0,0"], rate["0,512"], rate["1,0"], rate["1,512"], read["0,512"] }'
    done
    ;;
profile)
    for program in "$2"/llama-*; do
        ncu --clock-control none --cache-control none --metrics gpu__time_duration.sum --launch-skip 700 --launch-count 400 --csv \
            "$program" --no-graph --bench --random-weights -p 0 -n 8 -d 512 -r 1 2>/dev/null | grep '^"' | awk -F'","' -v name="$(basename "$program")" '
            NR > 1 { k = $5; sub(/\(.*/, "", k); v = $NF; gsub(/[",]/, "", v); sum[k] += v; n[k]++ }
            END { for (k in sum) printf "%-24s %-20s %4d launches, %8.2f us each\n", name, k, n[k], sum[k] / n[k] / 1000 }' | sort
    done
    ;;
*)
    echo "usage: $0 build|run|profile ...; see the head of this file" >&2
    exit 2
    ;;
esac
