#!/bin/sh
# run_suppressed.sh FORGEC MAKE_GGUF -- tokens that a file suppresses are never drawn; there are warnings about unknown keys that belong to no architecture,
# and about files with weights or a vocabulary that make the model useless.
forgec=$1 make=$2 here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
cd "$tmp" || exit 1
target=portable
! grep -qw avx2 /proc/cpuinfo || target=x86-64-v3
made() { "$make" --arch llama --layers 1 --embd 64 --heads 2 --kv-heads 1 --ff 96 --vocab 300 --ctx 64 --type F16 --pure --untied "$@" || exit 1; }
# build NAME WARNINGS [OPTIONS...]
build() {
    file=$1 warnings=$2
    shift 2
    check "$file" 0 "$forgec" build "$file.gguf" -t $target -q -o "$file" "$@"
    [ "$(grep -c warning "$tmp/err")" -eq "$warnings" ] || bad "$warnings warnings wanted"
}
greedy="--tokens 5,6 -n 40 --temp 0 --ignore-eos --print-tokens -q"

made -o plain.gguf
build plain 0
# shellcheck disable=SC2086  # words
check plain-text 0 ./plain $greedy
cp "$tmp/out" "$tmp/greedy"
never=$(tr ' ' '\n' < "$tmp/out" | sort -u | head -n 5 | tr '\n' ',')
made --key "tokenizer.ggml.suppress_tokens=[${never}9999]" -o never.gguf
build never 0
# lacks_them: 40 tokens were drawn, and no suppressed token
lacks_them() {
    [ "$(wc -w < "$tmp/out")" -eq 40 ] || bad "40 tokens wanted"
    for token in $(echo "$never" | tr ',' ' '); do ! tr ' ' '\n' < "$tmp/out" | grep -qx "$token" || bad "token $token"; done
}
# shellcheck disable=SC2086
check greedy 0 ./never $greedy; lacks_them
for seed in 1 2 3; do
    check "seed $seed" 0 ./never --tokens 5,6 -n 40 -s $seed --temp 3 --top-k 0 --top-p 1 --min-p 0 --ignore-eos --print-tokens -q; lacks_them
done
first=${never%%,*}
# shellcheck disable=SC2086
check biased 0 ./never $greedy -l "$first+1000"; lacks_them
# verify knows them: here they have the largest logits.
often=$(./plain --tokens 5,6,7,8 -n 60 --temp 0 --ignore-eos --print-tokens -q | tr ' ' '\n' | sort -u | tr '\n' ',')
made --key "tokenizer.ggml.suppress_tokens=[${often}${never}9999]" -o fewer.gguf
check "verify with suppressed tokens" 0 "$forgec" verify fewer.gguf -t $target --tokens 24
out_has "greedy: 16 of 16"

# Additional tokens that end a text: the third drawn token.
set -- $(cat "$tmp/greedy")
made --key "tokenizer.ggml.eos_token_ids=[$3,9999]" -o ends-early.gguf
build ends-early 0
check ends-early 0 ./ends-early --tokens 5,6 -n 40 --temp 0 --print-tokens -q
[ "$(tr -s ' ' '\n' < "$tmp/out" | grep -c .)" -lt 4 ] || bad "the text does not end at token $3"

# Keys.
made --key general.colour=blue --key tokenizer.ggml.flavour=3 --key general.base_model.0.name=x --key general.sampling.mirostat=2 \
    --key general.sampling.xtc_probability=0.0 --key mradermacher.quantize_version=2 --key tokenizer.ggml.add_colour=false --key tokenizer.ggml.sour=0 \
    --key general.sweet_with=[0,0] --key tokenizer.ggml.sweet_token_id=0 -o keys.gguf
build keys 2
err_has "keys.gguf: keys that forgec does not know and the program does without: general.colour is \"blue\", tokenizer.ggml.flavour is 3, tokenizer.ggml.sweet_token_id is 0"
err_lacks "add_colour"; err_lacks "sour"; err_lacks "sweet_with"
err_has "without what the file asks for: general.sampling.mirostat is 2"
err_lacks "base_model"; err_lacks "xtc"; err_lacks "mradermacher"
build keys 3 --ignore-key general.colour
err_has "general.colour is \"blue\", which the program ignores, as --ignore-key says"
err_has "the program does without: tokenizer.ggml.flavour is 3, tokenizer.ggml.sweet_token_id is 0"

# All weights of the last matrix, at the end of the file, are 0.
cp plain.gguf zero.gguf
bytes=$("$forgec" inspect plain.gguf | sed -n '/^types:/q; s/.* \([0-9]*\) bytes$/\1/p' | tail -n 1)
last=$("$forgec" inspect plain.gguf | sed -n '/^types:/q; s/^  \([a-z0-9_.]*\) .* bytes$/\1/p' | tail -n 1)
truncate -s "-$bytes" zero.gguf && head -c "$bytes" /dev/zero >> zero.gguf
build zero 1
err_has "zero.gguf: all weights are 0 in $last"

# The vector of the last token, and no token that ends a text.
made --key %.pooling_type=3 -o last.gguf
build last 1
err_has "'tokenizer.ggml.add_eos_token' is not true"
made --key %.pooling_type=3 --key tokenizer.ggml.add_eos_token=true -o ends.gguf
build ends 0
summary
