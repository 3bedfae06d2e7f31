#!/bin/sh
# run_keys.sh FORGEC MAKE_GGUF -- a hyperparameter that nobody computes stops every command, names itself, and is told of wherever the user insists.
set -eu
forgec=$1 make=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM HUP
export XDG_CACHE_HOME="$tmp/cache"
cd "$tmp"

fail() { echo "run_keys.sh: $1" >&2; sed 's/^/    /' out err >&2; exit 1; }
refuses() { "$@" >out 2>err && fail "$* did not fail"; [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ] || fail "$*: not one line"; }
works() { "$@" >out 2>err || fail "$* failed"; }
says() { grep -qF -- "$2" "$1" || fail "$1 lacks: $2"; }
once() { [ "$(grep -cF -- "$2" "$1")" -eq 1 ] || fail "$1 has not once: $2"; }

# An architecture of the user's: llama, as far as its YAML knows.  The file scales its residuals.
mkdir models
printf 'architecture: granite\ninherits: transformer\nrope: normal\n' >models/granite.yaml
"$make" --arch granite --layers 2 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 300 --ctx 64 --type Q8_0 --pure --key %.residual_scale=0.22 --key %.logit_scale=1.0 -o granite.gguf

key=granite.residual_scale
for command in build verify compare 'build --emit plan' 'build --emit source' 'build --emit lib' 'build --emit graph'; do
    # shellcheck disable=SC2086  # words
    refuses "$forgec" $command granite.gguf --models models
    says err "granite.gguf: $key is 0.22; forgec does not compute what it asks for, only models where it is 0 or 1; --ignore-key $key insists"
done
refuses "$forgec" build granite.gguf --models models --ignore-key granite.residual_scal; says err "granite.gguf has no such key"
refuses "$forgec" build granite.gguf --models models --ignore-key granite.block_count;   says err "cannot be ignored"
[ "$(ls)" = "$(printf 'cache\nerr\ngranite.gguf\nmodels\nout')" ] || [ "$(ls)" = "$(printf 'err\ngranite.gguf\nmodels\nout')" ] || fail "left behind: $(ls)"

works "$forgec" verify granite.gguf --models models --ignore-key $key
once err "$key is 0.22, which the program ignores"
says out "ignored: $key = 0.22; neither the program nor the reference computes it"
works "$forgec" verify granite.gguf --models models --ignore-key $key --json
says out "\"$key\":	\"0.22\""
works "$forgec" build granite.gguf --models models --ignore-key $key --emit source -o granite.c
says granite.c "--ignore-key $key"
refuses "$forgec" cc granite.c granite.gguf --models models; says err "$key is 0.22"
works "$forgec" cc granite.c granite.gguf --models models --ignore-key $key -o granite
works ./granite --info; says out "--ignore-key $key"

# A context beyond the trained one is built, and told of once.
works "$forgec" verify granite.gguf --models models --ignore-key $key --ctx 80 -q
once err "a context of 80 tokens is longer than the 64 that the model was trained for"
echo "keys: refused, insisted on, told of"
