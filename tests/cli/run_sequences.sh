#!/bin/sh
# Sequences and batches of compiled models: the objects that forgec links, with tests/cli/sequences.c instead of main().
# run_sequences.sh FORGEC GOLDEN_DIR SOURCE_DIR CC ARCHITECTURES_DIR [LIBSIMT] -- ARCHITECTURES_DIR: ../tiny is next to it; LIBSIMT: on lanes, where tokens are drawn ahead; empty: on the CPU
set -eu
forgec=$1 golden=$2 source=$3 cc=$4 simt=${6-}           # empty: this machine
full=
[ "${FORGEC_TIER-}" != full ] || full=yes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
steps=12                                         # of each sequence; on lanes few, but with everything
[ -z "$simt" ] || [ -n "$full" ] || steps=6
"$cc" -std=c11 -D_GNU_SOURCE -O1 -DSTEPS=$steps -I "$source" -c "$source/tests/cli/sequences.c" -o sequences.o
# try MODEL TARGET THREADS...: options of the build are in $options
try()
{
    model=$1 target=$2
    shift 2
    rm -rf parts program program.weights
    # shellcheck disable=SC2086
    "$forgec" build "$golden/$model.gguf" -t "$target" $options --weights external -q -o program --save-temps parts
    rm parts/run.o
    "$cc" sequences.o parts/*.o -lm -lpthread -ldl -o sequences
    for threads; do
        echo "$model $target $options, $threads threads"
        ./sequences "$threads" program.weights
    done
}
if [ -n "$simt" ]; then
    export FORGE_HIP_LIBRARY="$simt"
    options='--ctx 64' golden=$5
    [ -z "$full" ] || try nemotron_h_moe-a "$source/tests/lanes/simt32.yaml" 1      # one after the other; by default only simt_sequences tests these
    sed 's/^  prefill_chunk: .*/  prefill_chunk: 4/' "$source/tests/lanes/simt32.yaml" > few.yaml
    options='--ctx 64 --columns 3'                               # several in a step
    try gemma4-a "$work/few.yaml" 1
    [ -n "$full" ] || exit 0
    try granitehybrid-moe-a "$source/tests/lanes/simt32.yaml" 1   # except if layers have other states
    options='--ctx 64'
    try gemma4-a "$work/few.yaml" 1
    options='--ctx 64 --spec ngram'
    try qwen35-mtp-a "$source/tests/lanes/simt32.yaml" 1
    # texts that become longer than the original context of 16 tokens
    golden=$5/../tiny steps=12
    "$cc" -std=c11 -D_GNU_SOURCE -O1 -DSTEPS=$steps -I "$source" -c "$source/tests/cli/sequences.c" -o sequences.o
    try phi3 "$source/tests/lanes/simt32.yaml" 1
    options='--ctx 64 --columns 3'
    try phi3 "$work/few.yaml" 1
    golden=$5
    options='--ctx 64 --spec mtp'
    try glm4moe-a "$source/tests/lanes/simt32.yaml" 1
    try qwen35-mtp-a "$source/tests/lanes/simt32.yaml" 1
    exit
fi
# clang compiles this target three times as fast as portable C.
plain=portable
[ -n "$full" ] || ! grep -qw avx2 /proc/cpuinfo || plain=x86-64-v3
options=''
try qwen3-a $plain 1 2 3
[ -z "$full" ] || try q-llama-Q8_0 $plain 2
options='--kv q8_0 --ctx 100 --fuse none'
[ -z "$full" ] || try q-untied-Q4_K_M $plain 1 2
# Products that read rows in another form in steps of several tokens than in steps of one token.
if [ "$(uname -m)" = x86_64 ]; then
    options='--ctx 100'
    try q-untied-Q4_K_M "$source/tests/cli/x86-64-v3-tiles.yaml" 2
fi
# States that every token replaces, experts, keys and values with heads of different sizes.
options='' golden=$5
try qwen35moe-a $plain 2
[ -z "$full" ] || try nemotron_h_moe-a $plain 3
try deepseek2-a $plain 2
# Texts that become longer than the original context of 16 tokens, together with others.
options='--ctx 64' golden=$5/../tiny
try phi3 $plain 2
