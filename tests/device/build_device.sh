#!/bin/sh
# build_device.sh FORGEC OUTDIR [TARGET]: builds what tests/device/run_device.sh runs on a machine with a GPU: a program for each golden model,
# weight format and fusion level, with its tokens and stored logits, and the tests of kernels (tests/kernel/run.sh).  TARGET: default sm_90.
#
# OUTDIR/list has a line for each program, and programs that were left out after a #; OUTDIR/target has TARGET.  From the environment:
#   LEVELS    fusion levels (default "layer none")
#   MODES     "default", "exact" (--exact) or both (default "default exact"); exact only with fusion level layer
#   ONLY      only models with this text in their name
#   LIMIT_MB  maximum size of OUTDIR (default 40): programs that would exceed it are left out
#   GOLDEN    folders with a manifest.json (default: tests/data/golden beside FORGEC, and the fairytale models of shared/golden beside the repository)
#   JOBS      number of jobs of forgec (default 1)
set -eu
[ $# -ge 2 ] || { echo "usage: build_device.sh FORGEC OUTDIR [TARGET]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
forgec=$1 out=$2 target=${3:-sm_90}
limit=$((${LIMIT_MB:-40} * 1024))
mkdir -p "$out/data"
rm -f "$out/list"
: >"$out/list"
echo "$target" >"$out/target"

# The manifest has one key per line.  Prints one line per usable model: id, model, tokens, logits, greedy, positions, vocabulary, context, first row, step, every, bounds.
entries() {
    awk -v only="${ONLY:-}" -v dir="$1" -v pattern="$2" '
        function finish() {
            if (f["id"] == "" || f["model"] == "" || f["logits"] == "" || f["greedy"] == "" || moe) return
            if (f["arch"] != "llama" && f["arch"] != "qwen2" && f["arch"] != "qwen3") return
            if (f["id"] !~ pattern || (only != "" && !index(f["id"], only))) return
            first = 0; step = 1
            if (f["positions"] ~ /^every 3rd/) { first = 2; step = 3 }
            if (f["positions"] ~ /^last/) { split(f["positions"], word, /[ (]/); first = f["n_positions"] - word[2] }
            abs = b["f32_math_max_abs"] != "" ? b["f32_math_max_abs"] : b["f32_max_abs"] != "" ? b["f32_max_abs"] : 0
            kl = b["mean_kl"] != "" ? b["mean_kl"] : b["llamacpp_class_mean_kl"] != "" ? b["llamacpp_class_mean_kl"] : 5e-5
            if (kl > 1e-3) kl = 1e-4                    # quantised models: the stored bounds are for 8-bit activations, and GPUs keep 16 bits
            print f["id"], dir "/" f["model"], dir "/" f["tokens"], dir "/" f["logits"], dir "/" f["greedy"], f["n_positions"], f["n_vocab"],
                  f["n_ctx"] != "" ? f["n_ctx"] : 256, first, step, f["every"] != "" ? f["every"] : 1, abs, kl
        }
        match($0, /"[a-z0-9_]+": /) {
            key = substr($0, RSTART + 1, RLENGTH - 4)
            value = substr($0, RSTART + RLENGTH)
            gsub(/^"|"?,?$/, "", value)
            if (key == "id") { finish(); split("", f); split("", b); moe = 0 }
            if (key == "tolerance") bounds = 1
            if (bounds) b[key] = value
            else if (!(key in f)) f[key] = value
        }
        /}/ { bounds = 0 }
        /MoE/ { moe = 1 }
        END { finish() }' "$1/manifest.json"
}

all_entries() {
    if [ -n "${GOLDEN:-}" ]; then
        for d in $GOLDEN; do entries "$d" .; done
    else
        entries "$(dirname "$forgec")/tests/data/golden" .
        [ ! -e "$root/../shared/golden/manifest.json" ] || entries "$root/../shared/golden" '^fairytale-(Q8_0|Q4_K_M)$'
    fi
}

used() { du -sk "$out" | cut -f1; }

n_built=0 n_left=0 n_failed=0
# build LEVEL MODE: every model
build() {
    all_entries >"$out/entries"
    while read -r id model tokens logits greedy n_positions n_vocab n_ctx first step every max_abs mean_kl; do
        name=$id-$1
        [ "$2" = default ] || name=$name-$2
        if [ ! -e "$model" ]; then
            echo "# $name: there is no $model" >>"$out/list"
            continue
        fi
        exact=
        [ "$2" = default ] || exact=--exact
        if [ "$(used)" -ge "$limit" ]; then
            echo "# $name: no room below ${LIMIT_MB:-40} MB" >>"$out/list"
            n_left=$((n_left + 1))
            continue
        fi
        if ! "$forgec" build "$model" -o "$out/$name" -t "$target" --fuse "$1" --ctx "$n_ctx" -q -j "${JOBS:-1}" $exact </dev/null; then
            echo "FAILED to build $name"
            echo "# $name: not built" >>"$out/list"
            n_failed=$((n_failed + 1))
            continue
        fi
        if [ "$(used)" -gt "$limit" ]; then
            rm -f "$out/$name"
            echo "# $name: no room below ${LIMIT_MB:-40} MB" >>"$out/list"
            n_left=$((n_left + 1))
            continue
        fi
        cp "$tokens" "$out/data/$id.tokens"
        cp "$logits" "$out/data/$id.logits"
        cp "$greedy" "$out/data/$id.greedy"
        # With float activations the stored logits must be met within a bound, with quantised activations within a mean divergence.
        if [ "$2" = exact ]; then bounds="$max_abs 0"; else bounds="0 $mean_kl"; fi
        echo "$name $id $2 $n_vocab $n_positions $first $step $every $bounds" >>"$out/list"
        n_built=$((n_built + 1))
    done <"$out/entries"
    rm -f "$out/entries"
}

for level in ${LEVELS:-layer none}; do
    for mode in ${MODES:-default exact}; do
        if [ "$mode" = exact ] && [ "$level" != layer ]; then continue; fi
        build "$level" "$mode"
    done
done

# The tools: static if there is a static libc, else run_device.sh compiles them.
${CC:-cc} -O2 -static -o "$out/compare_logits" "$root/tests/device/compare_logits.c" -lm 2>/dev/null || rm -f "$out/compare_logits"
case $target in sm_*) kind=nvidia ;; *) kind=amd ;; esac
for test in $("$root/tests/kernel/run.sh" --names $kind); do
    KEEP=$out/kernels BUILD=1 "$root/tests/kernel/run.sh" "$test" "device:$target" || n_failed=$((n_failed + 1))
done
echo "build_device: $n_built programs of $(used) KB in $out, $n_left left out, $n_failed failed"
[ $n_failed -eq 0 ]
