#!/bin/sh
# run_keys.sh FORGEC MAKE_GGUF -- a hyperparameter that nobody computes stops every command, names itself, and is told of wherever the user insists.
forgec=$1 make=$2
. "$(dirname "$0")/../harness.sh"
mkdir "$tmp/w"
cd "$tmp/w" || exit 1

# once TEXT: stderr has it in one line, and no other
once() { [ "$(grep -cF -e "$1" "$tmp/err")" -eq 1 ] || bad "stderr has not once '$1'"; }

# An architecture of the user's: llama, as far as its YAML knows.  The file scales its residuals.
mkdir models
printf 'architecture: granite\ninherits: transformer\nparameters: {rope_neox: false}\n' > models/granite.yaml
"$make" --arch granite --layers 2 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 300 --ctx 64 --type Q8_0 --pure \
    --key %.residual_scale=0.22 --key %.logit_scale=1.0 -o granite.gguf || exit 1

key=granite.residual_scale
asked="granite.gguf: $key is 0.22; forgec does not compute what it asks for, only models where it is 0 or 1; --ignore-key $key insists"
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

# A context beyond the trained one is built, and told of once.
check long-context 0 "$forgec" verify granite.gguf --models models --ignore-key $key --ctx 80 -q
once "a context of 80 tokens is longer than the 64 that the model was trained for"
summary
