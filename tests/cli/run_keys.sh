#!/bin/sh
# run_keys.sh FORGEC MAKE_GGUF -- an unused hyperparameter or tensor stops every command with a message that names it; if the user forces the build, it is a warning.
forgec=$1 make=$2
. "$(dirname "$0")/../harness.sh"
mkdir "$tmp/w"
cd "$tmp/w" || exit 1

# once TEXT: stderr has exactly one line, with TEXT
once() { [ "$(grep -cF -e "$1" "$tmp/err")" -eq 1 ] || bad "stderr has not once '$1'"; }

# A user's architecture: llama according to its YAML.  The file scales its residuals.
mkdir models
printf 'architecture: granite\ninherits: transformer\nparameters: {rope_neox: false}\n' > models/granite.yaml
"$make" --arch granite --layers 2 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 300 --ctx 64 --type Q8_0 --pure \
    --key %.residual_scale=0.22 --key %.logit_scale=1.0 -o granite.gguf || exit 1

key=granite.residual_scale
asked="granite.gguf: $key is 0.22; forgec does not support this value, only 0 or 1; to build all the same, give --ignore-key $key"
for command in build verify compare 'build --emit plan' 'build --emit source' 'build --emit lib' 'build --emit graph'; do
    # shellcheck disable=SC2086  # words
    refuse "$command" 1 "$asked" "$forgec" $command granite.gguf --models models
done
refuse no-such-key 1 "granite.gguf has no such key" "$forgec" build granite.gguf --models models --ignore-key granite.residual_scal
refuse needed-key 1 "cannot be ignored" "$forgec" build granite.gguf --models models --ignore-key granite.block_count
[ "$(echo *)" = "granite.gguf models" ] || bad "left behind: $(echo *)"

check verify-ignored 0 "$forgec" verify granite.gguf --models models --ignore-key $key
once "$key is 0.22, which the program ignores"
out_has "ignored: $key = 0.22; neither the program nor the reference computes it"
check verify-json 0 "$forgec" verify granite.gguf --models models --ignore-key $key --json
out_has "\"$key\":	\"0.22\""
check source 0 "$forgec" build granite.gguf --models models --ignore-key $key --emit source -o granite.c
grep -qF -e "--ignore-key $key" granite.c || bad "the source does not tell of the key"
refuse cc 1 "$key is 0.22" "$forgec" cc granite.c granite.gguf --models models
check cc-ignored 0 "$forgec" cc granite.c granite.gguf --models models --ignore-key $key -o granite
check info 0 ./granite --info; out_has "--ignore-key $key"

# A tensor that the wiring does not read.
"$make" --arch granite --layers 2 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 300 --ctx 64 --type Q8_0 --pure --with rope_freqs \
    --key %.rope.scaling.finetuned=false -o tensor.gguf || exit 1
printf 'architecture: granite\ninherits: transformer\nparameters: {rope_neox: false}\nharmless: {"{arch}.rope.scaling.finetuned": "a test"}\nblocks:\n  q_heads: |\n    %%q_rope = rope %%q_bias\n  k_heads: |\n    %%k_rope = rope %%k_bias\n' > models/granite.yaml
for command in build verify 'build --emit plan' 'build --emit graph'; do
    # shellcheck disable=SC2086  # words
    refuse "$command" 1 "models/granite.yaml does not compute with tensor rope_freqs.weight: the program would be another model" "$forgec" $command tensor.gguf --models models
done
check inspect 0 "$forgec" inspect tensor.gguf; out_has "rope_freqs.weight"
refuse no-such-tensor 1 "tensor.gguf has no such tensor" "$forgec" build tensor.gguf --models models --ignore-tensor 'rope.*'
check needed-tensor 1 "$forgec" verify tensor.gguf --models models --ignore-tensor output_norm.weight
err_has "reads this tensor; it cannot be ignored"
check tensor-ignored 0 "$forgec" verify tensor.gguf --models models --ignore-tensor 'rope_*' -q
once "rope_*, F32 16, may be left out, as --ignore-tensor says"
out_has "ignored: rope_* = F32 16; neither the program nor the reference computes it"
check tensor-info 0 "$forgec" build tensor.gguf --models models --ignore-tensor 'rope_*' -q -o tensor
check info 0 ./tensor --info; out_has "--ignore-tensor rope_*"

# A context longer than the trained one is built, with one warning.
printf 'architecture: granite\ninherits: transformer\nparameters: {rope_neox: false}\n' > models/granite.yaml
check long-context 0 "$forgec" verify granite.gguf --models models --ignore-key $key --ctx 80 -q
once "a context of 80 tokens is longer than the 64 that the model was trained for"

# Learned positions are limited: a longer context is refused.
"$make" --shape golden-gpt2 --type F16 --tokenizer none -o gpt2.gguf || exit 1
check positions 1 "$forgec" build gpt2.gguf --ctx 1025
once "error: gpt2.gguf: a context of 1025 tokens is longer than the 1024 learned positions of position_embd.weight; the maximum is --ctx 1024"
[ ! -e gpt2 ] || bad "a program was left behind"
check all-positions 0 "$forgec" build gpt2.gguf --ctx 1024 --emit plan

# Written otherwise: ollama's first files of gpt-oss.
for arch in gptoss qwen_3-moe; do
    "$make" --arch $arch --layers 1 --embd 64 --heads 2 --ff 96 --vocab 300 -o other.gguf || exit 1
    case $arch in gptoss) like=gpt-oss ;; *) like=qwen3moe ;; esac
    refuse $arch 1 "other.gguf: architecture \"$arch\" is a form of its own of $like (ollama's library has such files)" "$forgec" build other.gguf
done

# For an unknown architecture the message names it and lists the known ones; for an encoder it says that it is an encoder.
for arch in jina-bert-v2 what-2; do
    causal=false; [ $arch != what-2 ] || causal=true
    "$make" --arch $arch --layers 1 --embd 64 --heads 2 --ff 96 --vocab 300 --key %.attention.causal=$causal -o other.gguf || exit 1
    why=; [ $causal = true ] || why=": it is an encoder (its attention sees later tokens)"
    refuse $arch 1 "other.gguf: architecture \"$arch\" is not supported$why; forgec knows " "$forgec" build other.gguf
    for known in command-r falcon gpt2 llama qwen3 stablelm; do once " $known,"; done
done
summary
