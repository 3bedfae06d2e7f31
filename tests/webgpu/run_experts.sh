#!/bin/sh
# run_experts.sh FORGEC MAKE_GGUF NODE_MODULES -- compares a prompt of a model with experts in blocks with the reference, in Node: the tokens are grouped by
# expert, and the stacks of matrices lie in several bindings.  By default only the plan: golden_webgpu_turn (matrix.def) has programs with experts.
forgec=$1 make=$2 modules=$3
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
if [ -n "$full" ]; then . "$here/find.sh"; fi
export NODE_PATH="$modules"

"$make" --shape golden-qwen3moe --type Q8_0 --tokenizer none -o "$tmp/experts.gguf" || exit 1
printf 'inherits: webgpu\nbinding: {value: 16, unit: KiB, source: "so that there are several"}\n' > "$tmp/parted.yaml"
check plan 0 "$forgec" build "$tmp/experts.gguf" -t "$tmp/parted.yaml" --emit plan
for line in '  picked ffn_down_exps_picked ' '  stage ffn_gate_exps_ffn_up_exps_stage ' '  gemm ffn_gate_exps_ffn_up_exps_tiles ' 'matrices 3 to 5, 64 rows, and int8'; do
    out_has "$line"
done
[ -z "$full" ] || check verify 0 "$forgec" verify "$tmp/experts.gguf" -t "$tmp/parted.yaml" --tokens 40
check "plan of few tokens" 0 "$forgec" build "$tmp/experts.gguf" -t "$tmp/parted.yaml" --ctx 8 --emit plan
out_lacks "picked"
summary
