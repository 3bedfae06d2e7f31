#!/bin/sh
# llama_load.sh -- llama.cpp loads every shape of make_gguf and every key set of real.txt of tests/data/real/keys.tar.xz.  No part of CI: npm brings it.
#
#   tests/tools/llama_load.sh MAKE_GGUF FOLDER      FOLDER keeps llama.cpp v0.4.0 (npm: node-llama-cpp 3.21.1); files are made and removed in it
#
# Needs npm, git, a C compiler and some GB of address space: the files have holes in the place of weights.
set -eu
[ $# -eq 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
make=$(realpath "$1") tools=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2" && cd "$2"

package=node_modules/node-llama-cpp
[ -d $package ] || npm install --ignore-scripts --no-audit --no-fund node-llama-cpp@3.21.1
bins=$(dirname "$(find "$PWD/node_modules/@node-llama-cpp" -path '*linux-x64/bins/linux-x64/libllama.*')")
[ -d llama.cpp ] || git -c advice.detachedHead=false clone -q $package/llama/gitRelease.bundle llama.cpp
${CC:-cc} -O1 -Illama.cpp/include -Illama.cpp/ggml/include "$tools/llama_load.c" -o llama_load \
    "$bins"/libllama.*.so "$bins"/libggml.*.so "$bins"/libggml-base.so -Wl,-rpath,"$bins"

rm -rf files && mkdir files
shapes=$("$make" --help | sed -n '/--shape NAME/,/(default/p' | sed 's/--shape NAME *of://; /(default/d')
for shape in $shapes; do
    case $shape in golden-*) continue ;; esac                  # no models: what wiring can read
    "$make" --shape "$shape" --type Q4_K_M --hole -o "files/$shape.gguf"
done
tar xf "$tools/../data/real/keys.tar.xz"
"$make" --real real.txt --type F16 -o files
# llama.cpp refuses what ollama's library has in one file: the towers, and Qwen's sections under another key.
for name in gemma-3-12b gemma-4-e4b qwen3.5-9b qwen3.6-35b-a3b; do rm "files/$name-ollama.gguf"; done
set +e
./llama_load "$bins" files/*.gguf
status=$?
rm -rf files
exit $status
