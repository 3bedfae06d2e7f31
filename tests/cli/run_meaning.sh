#!/bin/sh
# run_meaning.sh FORGEC MAKE_GGUF REAL.TXT -- the meaning of keys of real files, tested by their graphs: for a model of every architecture keys with values that mean "none", a
# missing feed_forward_length, MTP blocks, and scalings of the rotation other than YaRN; then keys of single architectures.
forgec=$1 make=$2 real=$3
. "$(dirname "$0")/../harness.sh"
mkdir "$tmp/w"
cd "$tmp/w" || exit 1
export LC_ALL=C

# graph GGUF [OPTION...]: writes GGUF.txt, without the weights' names; forgec's messages are in $tmp/err
graph() {
    gguf=$1
    shift
    check "$name" 0 "$forgec" build "$gguf" --emit graph -o graph.txt "$@"
    sed 's/ *#.*//' graph.txt > "$gguf.txt"
}
# shape NAME OUT [KEY=VALUE...]: the golden model of that name, or the key set, with these keys unless it has them
shape() {
    shape=$1 out=$2 keys=''
    shift 2
    for pair; do grep -qF "${pair%%=*} " "$shape.keys" 2>/dev/null || keys="$keys --key %.$pair"; done
    # shellcheck disable=SC2086  # words
    case $shape in
    golden-*) "$make" --shape "$shape" --type F16 --tokenizer none --header-only $keys -o "$out" || exit 1 ;;
    *) "$make" --real "$real" --shape "$shape" --type F16 --header-only $keys -o "$out" || exit 1 ;;
    esac
}
# without GGUF OUT KEY: the same file without the key, which is renamed to a key of another tool
without() { sed "s/$arch\.$3/$(echo "$arch" | sed 's/./_/g').$3/" "$1" > "$2"; }

none='expert_count=0 expert_used_count=0 expert_shared_feed_forward_length=0 expert_shared_count=0 expert_group_count=1 expert_group_used_count=1 nextn_predict_layers=0
    expert_weights_scale=0.0 leading_dense_block_count=0 rope.scaling.factor=0.0 rope.scaling.alpha=0.0 rope.scaling.yarn_log_multiplier=0.0 attention.clamp_kqv=0.0
    attention.nobody_knows=0 ssm.nobody_knows=[0,0] nobody_knows=false'
sets='gemma-4-26b-a4b-it lfm2-8b-a1b deepseek-r1-0528 glm-4.5-air nemotron-3-nano-30b-a3b qwen3.5-35b-a3b qwen3-next-80b-a3b granite-4.0-h-tiny hunyuan-7b-instruct'
for shape in $("$make" --help | sed -n 's/golden-/\ngolden-/gp' | sed -n 's/^\(golden-[a-z0-9_-]*\).*/\1/p') $sets; do
    rm -f "$shape.keys"
    shape "$shape" plain.gguf
    "$forgec" inspect plain.gguf > "$shape.keys" 2> err || exit 1
    arch=$(sed -n 's/.*general.architecture .*"\(.*\)"/\1/p' "$shape.keys")
    layers=$(sed -n "s/.*$arch\.block_count *u32 *//p" "$shape.keys")
    name="$shape"
    graph plain.gguf

    name="$shape: values that say none"
    # shellcheck disable=SC2086  # words
    shape "$shape" none.gguf $none
    graph none.gguf
    ! grep -v nextn "$tmp/err" | grep -q warning || bad "a warning"
    same plain.gguf.txt none.gguf.txt

    # Only dense layers need the width, and experts without their own width.
    name="$shape: no feed_forward_length"
    without plain.gguf noff.gguf feed_forward_length
    if grep -q -e 'blk.*ffn_\(up\|down\).weight' -e nemotron_h "$shape.keys" || ! grep -q "$arch.expert_feed_forward_length" "$shape.keys"; then
        check "$name" 1 "$forgec" build noff.gguf --emit graph -o noff.txt
        case $arch in nemotron_h*) err_has "(with the default of $arch.feed_forward_length)" ;; *) err_has "the key $arch.feed_forward_length is missing" ;; esac
    else
        graph noff.gguf
        same plain.gguf.txt noff.gguf.txt
    fi

    # The last block is an MTP block: the graph has none of its lines, and one message says so.
    name="$shape: a block that drafts"
    shape "$shape" draft.gguf nextn_predict_layers=1
    if [ "$arch" != gemma4 ]; then                          # whose last layer alone reads rope_freqs
        graph draft.gguf
        err_has "tensors of the draft (nextn) blocks are left out"
        grep -v "^%$((layers - 1))\." plain.gguf.txt | sed "s/%$((layers - 1))\.x/%$((layers - 2)).x/" > wanted.txt
        same wanted.txt draft.gguf.txt
    fi

    # Only YaRN has magnitudes.
    ! grep -q 'scaling.factor .* 1$' "$shape.keys" || continue
    grep -q ' rope ' plain.gguf.txt || continue
    yarn='rope.scaling.factor=4.0 rope.scaling.original_context_length=32 rope.scaling.yarn_attn_factor=2.0'
    case $arch in mistral3 | deepseek2) yarn="$yarn rope.scaling.yarn_log_multiplier=1.0" ;; esac
    # shellcheck disable=SC2086  # words
    shape "$shape" none.gguf $yarn rope.scaling.type=none
    sed -i 's/\(rope\.scaling\.type.\{12\}\)yarn/\1none/' none.gguf
    without none.gguf typeless.gguf rope.scaling.type
    if grep -q 'scaling.type .*linear' "$shape.keys"; then cp typeless.gguf none.gguf; name="$shape: a factor without a type"; graph none.gguf; else
        name="$shape: scaling none"
        graph none.gguf
        err_has "but rope.scaling.type is none: it stretches nothing"
        ! grep ' rope ' none.gguf.txt | grep -qv ' factor=1 ext_factor=0 ' || bad "something is stretched"
    fi
    name="$shape: a factor without a type"
    graph typeless.gguf
    err_lacks "it stretches nothing"
    grep ' rope ' typeless.gguf.txt | grep -q -e ' factor=[48]0* ext_factor=0 ' || bad "nothing is stretched"
    for file in none typeless; do
        case $arch in
        phi3) ! grep ' rope ' $file.gguf.txt | grep -qv ' attn_factor=1.1900' || bad "$file: a magnitude" ;;
        *) ! grep ' rope ' $file.gguf.txt | grep -qv ' attn_factor=1 ' || bad "$file: a magnitude" ;;
        esac
    done
done
[ "$tests" -gt 150 ] || { name=shapes; bad "only $tests tests"; }

# ---- single architectures ----
"$make" --real "$real" --type F16 -o . || exit 1
# like A B: the graphs of the key sets are the same
like() {
    name="$1 as $2"
    graph "$1.gguf"
    graph "$2.gguf"
    same "$1.gguf.txt" "$2.gguf.txt"
}
# says SET ATTRIBUTES...: a line of the set's graph has these attributes
says() {
    name="$1: $2"
    graph "$1.gguf"
    grep -qF -e "$2" "$1.gguf.txt" || bad "no line has $2"
}
# counts SET N WORD: N lines of the set's graph have the word
counts() {
    name="$1: $3"
    graph "$1.gguf"
    [ "$(grep -c " $3" "$1.gguf.txt")" -eq "$2" ] || bad "$(grep -c " $3" "$1.gguf.txt") lines, wanted $2"
}
like deepseek-r1-671b-january deepseek-r1-0528                  # attn_kv_b for attn_k_b and attn_v_b
counts granite-4.0-h-1b 0 'route '                              # dense, with the width of a shared expert
counts nemotron-3-puzzle-75b 1 'route used=2 '                  # by layer
counts nemotron-3-puzzle-75b 1 'route used=1 '
counts exaone-4.0-32b 96 'rope .*rope_freqs'                    # three of four of 64 layers
"$make" --real "$real" --type F16 --shape exaone-4.0-1.2b --key %.attention.sliding_window=8 -o exaone4-windows.gguf || exit 1
counts exaone4-windows 3 'attention .*window=8'                 # a window makes layers near whatever their number, as in transformers
counts gemma-3-12b-ollama 12 'base=10000 '                      # six of seven layers are near
counts gemma-3-12b-ollama 2 'base=1000000 '
counts deepseek-r1-0528-qwen3-8b 0 'attn_factor=0'
says deepseek-r1-0528-qwen3-8b ' factor=4 ext_factor=1 attn_factor=1 '
says qwen3.5-9b-ollama 'delta=true modulo=true'
says ministral-3-8b-ollama ' factor=16 ext_factor=1 attn_factor=0.78'      # 1 / (1 + 0.1 ln 16)
says ministral-3-8b-ollama 'temperature by=0.1'
like ministral-3-3b ministral-3-8b-ollama                       # YaRN under names of ollama's
name="gemma-3-12b-ollama: its tower"
graph gemma-3-12b-ollama.gguf
[ "$(grep -c "its part for images or sound, 10 tensors and 9 keys, is left out" "$tmp/err")" -eq 1 ] || bad "one line of it is wanted"

# Router of GLM-4.7-Flash: a sigmoid in files from before the key for it; other models have a softmax.
arch=deepseek2
for vocab in 154880 320; do
    name="glm-4.7-flash, $vocab tokens, no expert_gating_func"
    "$make" --shape glm-4.7-flash --vocab $vocab --type Q4_K_M --tokenizer none --header-only -o gated.gguf || exit 1
    without gated.gguf glm.gguf expert_gating_func
    graph glm.gguf
    gating=$((1 + (vocab == 154880)))
    ! grep ' route ' glm.gguf.txt | grep -qv " gating=$gating " || bad "the router is another one"
done

# NTK-aware: the base times alpha^(d / (d - 2)).
name="hunyuan-dense: rope.scaling.alpha"
"$make" --real "$real" --shape hunyuan-7b-instruct --type F16 --key %.rope.scaling.alpha=1000.0 -o alpha.gguf || exit 1
graph hunyuan-7b-instruct.gguf
graph alpha.gguf
base() { sed -n 's/.* rope .* base=\([0-9.e+]*\) .*/\1/p' "$1" | head -n 1; }
awk -v was="$(base hunyuan-7b-instruct.gguf.txt)" -v is="$(base alpha.gguf.txt)" 'BEGIN { r = is / (was * 1000^(32 / 30)); exit !(r > 0.9999999 && r < 1.0000001) }' ||
    bad "$(base hunyuan-7b-instruct.gguf.txt) became $(base alpha.gguf.txt)"

# For impossible values the message names the file's keys, not a line of the YAML.
# impossible SET SED TEXT: the set after the edit of its recipes is refused with the text
impossible() {
    sed "$2" "$real" > impossible.txt
    ! cmp -s "$real" impossible.txt || { name=$1; bad "$2 changes nothing"; }
    "$make" --real impossible.txt --type F16 --shape "$1" -o impossible.gguf || exit 1
    refuse "$1: $2" 1 "impossible.gguf: $3" "$forgec" build impossible.gguf --emit graph -o impossible.graph
    err_lacks ".yaml:"
}
pattern='gemma4.attention.sliding_window_pattern is [true, true, true, true, true, false, true, true, ...]'
for n in 7 8 11 12 13 4294967295; do
    # 12 layers, 5 near and 1 far in turn: with 7 shared layers no far layer has keys, with 12 no layer has.
    case $n in
    7 | 8 | 11) layer=5 kind=k_far ;;
    *) layer=0 kind=k_near ;;
    esac
    impossible gemma-4-e4b-it "s/shared_kv_layers=6/shared_kv_layers=u32:$n/" "gemma4.block_count is 12, $pattern, gemma4.attention.shared_kv_layers is $n: layer $layer reads $kind of an earlier layer, and no layer before it has one; convert the model again with a current converter"
done
impossible nemotron-nano-9b-v2 '/^set nemo-ssm/s/ssm.inner_size=64/ssm.inner_size=66/' \
    'nemotron_h.ssm.inner_size is 66, nemotron_h.ssm.time_step_rank is 4: ssm.inner_size / ssm.time_step_rank is not a whole number'
impossible nemotron-nano-9b-v2 '/^set nemo-ssm/s/ssm.group_count=2/ssm.group_count=0/' \
    'nemotron_h.ssm.inner_size is 64, nemotron_h.ssm.group_count is 0: "ssm.inner_size / ssm.group_count" is not a finite number'
impossible granite-3.0-8b-instruct '/^set granite/s/logit_scale=16.0/logit_scale=0.0000000001/' 'granite.logit_scale is 1e-10: '
impossible granite-3.1-3b-a800m '/^use bartowski size theta rms5; %.expert_count=8/s/expert_used_count=2/expert_used_count=9/' 'expert_used_count 9 is not from 1 to expert_count 8'

# A key that may be ignored, and keys of the same pattern that are read.
name="--ignore-key with *"
"$make" --real "$real" --shape qwen3-8b --type F16 --key %.rope.freq_strange=1.0 --key %.rope.more=2 --key %.rope.none=0 -o strange.gguf || exit 1
graph qwen3-8b.gguf
refuse "$name" 1 "qwen3.rope.freq_strange is 1; models/qwen3.yaml neither reads this hyperparameter" "$forgec" build strange.gguf --emit graph -o strange.txt
graph strange.gguf --ignore-key 'qwen3.rope.*'
[ "$(grep -c "which the program ignores, as --ignore-key says" "$tmp/err")" -eq 2 ] || bad "two keys are to be told of"
same qwen3-8b.gguf.txt strange.gguf.txt
refuse "no such pattern" 1 "--ignore-key qwen3.rupe.*: strange.gguf has no such key" "$forgec" build strange.gguf --ignore-key 'qwen3.rupe.*' --emit graph -o strange.txt
summary
