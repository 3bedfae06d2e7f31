#!/bin/sh
# run_embed.sh FORGEC MAKE_GGUF CC [TARGET] -- embedding models: compares their vectors with another
# implementation's in float64 (tests/data/tiny/embeddings.txt), and their rows with the reference.  Without a TARGET it tests this machine,
# and everything else that such programs and libraries do.  By default one model on an AMD chip and all models on other targets; full: all,
# also exact and unfused.  The environment names the driver of TARGET's device.
set -u
. "$(dirname "$0")/../harness.sh"
forgec=$1 make=$2 cc=$3 target=${4-} chip=
[ -n "$full" ] || case ${target##*/} in gfx*) chip=yes ;; esac
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$tmp" || exit 1
"$make" --shape golden-bert --type F16 --tokenizer none -o bert.gguf || exit 1
"$make" --shape golden-nomic-bert --type F16 --tokenizer none -o nomic-bert.gguf || exit 1
for pooling in 1 3; do
    "$make" --arch qwen3 --layers 2 --embd 64 --ff 96 --heads 4 --kv-heads 2 --head-dim 16 --vocab 256 --ctx 200 --type F16 --tokenizer none \
        --key %.pooling_type=$pooling -o qwen3-$pooling.gguf || exit 1
done
mv qwen3-1.gguf qwen3-mean.gguf
mv qwen3-3.gguf qwen3.gguf

# near FILE MOST: the printed vector equals the file's, with a difference of at most MOST per number
near() {
    awk -v most="$2" 'NR == FNR { n = split($0, want, " "); next }
        { for (i = 1; i <= NF; i++) { d = $i - want[i]; if (d < 0) d = -d; if (!(d <= most)) { print i, $i, want[i]; bad = 1 } }
          if (NF != n) { print NF, "numbers, not", n; bad = 1 } }
        END { exit bad || NR != FNR + 1 }' "$1" out.plain > differ || bad "another vector: $(head -n 1 differ)"
}
# vector MODEL MOST [OPTIONS]: of the program ./p
vector() {
    line=$(grep "^$1: " "$root/tests/data/tiny/embeddings.txt")
    rest=${line#*: }
    ids=${rest%%:*}
    printf '%s\n' "${rest#*: }" > want
    check "$1, vector ${3-}" 0 ./p -q --tokens "$ids" --embd-format plain ${3-}
    cp "$tmp/out" out.plain
    near want "$2"
}
for model in bert nomic-bert qwen3; do
    [ -z "$chip" ] || [ $model = bert ] || continue
    check "$model verify" 0 "$forgec" verify $model.gguf ${target:+-t "$target"} --tokens 40
    # Products that read float16 weights as bfloat16 have 3 bits fewer.
    if grep -q "bf16 a[ct]" "$tmp/out"; then most=8e-3; else most=2e-3; fi
    if [ -n "$full" ]; then
        check "$model verify exact" 0 "$forgec" verify $model.gguf ${target:+-t "$target"} --tokens 24 --exact
        check "$model verify unfused" 0 "$forgec" verify $model.gguf ${target:+-t "$target"} --tokens 20 --exact --fuse none
    fi
    [ "$target" != aarch64 ] || continue                     # programs for it run in qemu, which verify knows of
    check "$model" 0 "$forgec" build $model.gguf ${target:+-t "$target"} -q -o p
    vector $model $most
    [ -n "$full" ] || [ -z "$target" ] || continue
    check "$model exact" 0 "$forgec" build $model.gguf ${target:+-t "$target"} --exact --kv f32 -q -o p
    vector $model 2e-6
done
# A library gives the bits of the program, on lanes as well.
ids=$(sed -n 's/^bert: \([0-9 ]*\):.*/\1/p' "$root/tests/data/tiny/embeddings.txt")
for model in bert qwen3; do
    case ${target##*/} in simt* | '') ;; *) continue ;; esac
    [ -n "$full" ] || [ -z "$target" ] || [ $model = qwen3 ] || continue
    check "$model library" 0 "$forgec" build $model.gguf ${target:+-t "$target"} --emit obj --prefix model -q -o model.o
    check "$model compiled" 0 "$cc" -std=c11 -D_GNU_SOURCE -O1 -I . -I "$root" "$root/tests/library/embed.c" model.o -o embed -lm -lpthread -ldl
    # shellcheck disable=SC2086
    check "$model linked" 0 ./embed $ids
    cp "$tmp/out" library
    check "$model program" 0 "$forgec" build $model.gguf ${target:+-t "$target"} -q -o p
    check "$model vector" 0 ./p -q --tokens "$ids"
    same "$tmp/out" library "a library's vector"
done
if [ -n "$target" ]; then
    summary
    exit
fi

# A text in pieces: the rows of all of them count.
check 'in pieces' 0 "$forgec" build qwen3-mean.gguf --exact --kv f32 -q -o p
for pieces in '' '--ubatch-size=5' '--ubatch-size=0'; do vector qwen3-mean 2e-6 $pieces; done

# Texts: one per line, in their order.
"$make" --shape golden-bert --type F16 --tokenizer wordpiece -o words.gguf || exit 1
check build 0 "$forgec" build words.gguf -q -o p
printf 'ab cd\nhello, World\r\n\nzz' > texts
check tokens 0 ./p --tokenize -f texts
out_is '2 58 112 3
2 243 42 42 45 1 27 45 48 42 34 3
2 3
2 30 56 3'
check texts 0 ./p -q -f texts
[ "$(wc -l < "$tmp/out")" -eq 4 ] || bad "not a line for each text"
cp "$tmp/out" all
stdin=texts check stdin 0 ./p -q
same "$tmp/out" all stdin
stdin=texts check 'stdin by name' 0 ./p -q -f -
same "$tmp/out" all stdin
check one 0 ./p -q -p 'hello, world'
[ "$(cat "$tmp/out")" = "$(sed -n 2p all)" ] || bad "a text alone has another vector"
check raw 0 ./p -q -f texts --embd-format raw
[ "$(wc -c < "$tmp/out")" -eq 1024 ] || bad "not 4 rows of 64 floats"
check 'as it is' 0 ./p -q -p 'ab cd' --embd-format plain --no-normalize
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit !(s > 2) }' "$tmp/out" || bad "it is of length 1"
check normalised 0 ./p -q -p 'ab cd' --embd-format plain
awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { exit !(s > 0.999999 && s < 1.000001) }' "$tmp/out" || bad "it is not of length 1"
check bench 0 ./p --bench -p 8,16 -r 1
out_has 'pp16'
check info 0 ./p --info
out_has 'embeddings     64 columns, the first row; a token sees the whole text'
check help 0 ./p --help
for option in temp predict chat perplexity ubatch; do out_lacks "--$option"; done
check check 0 ./p --check

# A server: the routes of OpenAI, Ollama and llama.cpp answer with the same vector.
check 'with a server' 0 "$forgec" build words.gguf -q --server -o server
./server --serve --port 0 > said 2>&1 & serves=$!
for tick in $(seq 1200); do address=$(sed -n 's,.*listening at \(http://[^ ]*\).*,\1,p' said); [ -z "$address" ] || break; sleep 0.05; done
asks() {        # ROUTE BODY: the first numbers of the answer's vector in $tmp/out
    check "$1" 0 curl -s --max-time 60 -H 'Content-Type: application/json' "$address$1" -d "$2"
    numbers=$(sed -n 's/.*"embeddings*":\[*\(-*[0-9.e-]*,-*[0-9.e-]*,-*[0-9.e-]*\),.*/\1/p' "$tmp/out")
}
asks /v1/embeddings '{"input": "ab cd"}'; openai=$numbers
[ -n "$openai" ] || bad "no vector"
# 2 58 112 3: the tokens of the text.  A list with a number is one text.
for body in '/api/embed {"model": "m", "input": ["ab cd", "zz"]}' '/api/embeddings {"model": "m", "prompt": "ab cd"}' \
    '/embedding {"content": "ab cd"}' '/embeddings {"input": ["ab cd"]}' '/v1/embeddings {"input": [2, "ab", 112, 3]}'; do
    asks "${body%% *}" "${body#* }"
    [ "$numbers" = "$openai" ] || bad "'$numbers' is not '$openai'"
done
check form 0 curl -s --max-time 60 "$address/embedding" -d '{"content": "ab cd"}'
grep -q '^\[{"index":0,"embedding":\[\[-*[0-9]' "$tmp/out" || bad "not llama.cpp's form"
asks /v1/embeddings '{"input": "ab cd", "dimensions": 64}'
[ "$numbers" = "$openai" ] || bad "another vector with the model's width"
asks /v1/embeddings '{"input": "ab cd", "dimensions": 8}'; out_has "'dimensions' must be 64"
asks /api/embed '{"model": "m"}'; out_has '{"error":'
kill $serves

# Longer than the context.
awk 'BEGIN { for (i = 0; i < 200; i++) printf "ab "; print "" }' > long
refuse 'too long' 6 'text 1 has 202 tokens; the context holds 96; --truncate' ./p -q -f long
check truncated 0 ./p -q -f long --truncate
cp "$tmp/out" cut
check 'cut by hand' 0 ./p -q --tokens "2 $(awk 'BEGIN { for (i = 0; i < 94; i++) printf "58 " }')3"
same "$tmp/out" cut 'what is cut ends with [SEP]'

# Options that such a program does not have.
for option in '--temp 1' '-n 4' '-i' '--perplexity' '--profile' '--logits x'; do
    # shellcheck disable=SC2086
    refuse "$option" 2 'is not available in a program that gives vectors of texts' ./p -p ab $option
done
refuse pieces 2 'every token of this model sees the whole text' ./p -p ab -ub 4
refuse format 2 "--embd-format: 'x' is not json, plain or raw" ./p -p ab --embd-format x
refuse 'rows of several' 2 '--rows needs a single text' ./p -f texts --rows x
check 'a language model' 0 "$make" --arch qwen3 --layers 1 --embd 64 --ff 96 --heads 4 --kv-heads 2 --vocab 300 --ctx 64 -o language.gguf
check build 0 "$forgec" build language.gguf -q -o language
refuse 'vectors of words' 2 'this program generates text and gives no vectors' ./language -p ab --embd-format raw

# Refusals of forgec.
for rule in '4 a reranker' '0 so it generates no text, and it has no pooling_type'; do
    "$make" --arch qwen3 --layers 1 --embd 64 --ff 96 --heads 4 --kv-heads 2 --vocab 300 --ctx 64 --key "%.pooling_type=${rule%% *}" \
        --key %.attention.causal=false -o no.gguf || exit 1
    refuse "pooling_type ${rule%% *}" 1 "${rule#* }" "$forgec" build no.gguf -o no
done
refuse compare 1 'compare does not support embedding models' "$forgec" compare bert.gguf
check context 1 "$forgec" build bert.gguf --ctx 97 -o no
err_has 'a context of 97 tokens is longer than the 96 learned positions'
summary
