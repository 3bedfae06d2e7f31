#!/bin/sh
# Libraries of models with each kind of state, tested by tests/library/states.c: saved, rewound, cancelled, copied.
# run_states.sh FORGEC GOLDEN_DIR ARCHITECTURES_DIR SOURCE_DIR CC [LIBSIMT] -- LIBSIMT: libraries for lanes; without it for this machine.  $STATES_SEED: the seed of the texts.
# By default one model for each kind of state; full: more models, and other forms.
set -eu
forgec=$1 golden=$2 architectures=$3 source=$4 cc=$5 simt=${6-}           # empty: this machine
seed=${STATES_SEED-$(date +%s)}
full=
[ "${FORGEC_TIER-}" != full ] || full=yes
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# try MODEL KIND TOKENS TARGET OPTIONS...: tests a library, which must also refuse the state of the previous library
try()
{
    model=$1 kind=$2 tokens=$3 target=$4
    shift 4
    rm -f model.h model.o
    "$forgec" build "$model" -t "$target" "$@" --emit obj --prefix model -q -o model.o
    "$cc" -std=c11 -D_GNU_SOURCE -O1 -I "$source" -I . -c "$source/tests/library/states.c" -o states.o
    "$cc" states.o model.o -lm -lpthread -ldl -o states
    for s in $seeds; do
        echo "$(basename "$model") $target $*, seed $s"
        ./states -n "$tokens" -s "$s" ${simt:+-d "$simt"} ${other:+-r "$other"} "$kind" state
    done
    mv state other
    other=other
}
other='' seeds="1 $seed"
if [ -n "$simt" ]; then
    # Chunks of 4 tokens: rings of 16 rows, few of them beyond the window, and steps of several chunks that can be cancelled.
    sed 's/^  prefill_chunk: .*/  prefill_chunk: 4/' "$source/tests/lanes/simt32.yaml" > few.yaml
    seeds=$seed
    [ -z "$full" ] || try "$architectures/nemotron_h_moe-a.gguf" none 40 "$work/few.yaml" --ctx 64
    try "$architectures/gemma4-a.gguf" window 40 "$work/few.yaml" --ctx 64
    exit
fi
# Gated delta nets and convolutions; short convolutions; Mamba-2 twice; windows; shared keys, heads of two sizes; latent attention.
[ -z "$full" ] || try "$architectures/qwen35moe-a.gguf" none 200 native
try "$architectures/qwen35moe-a.gguf" none 200 native --ctx 250
[ -z "$full" ] || try "$architectures/lfm2moe-a.gguf" none 200 native --exact
try "$architectures/nemotron_h_moe-a.gguf" none 200 native --fuse none
[ -z "$full" ] || try "$architectures/granitehybrid-moe-a.gguf" none 250 native
[ -z "$full" ] || try "$golden/olmo3-a.gguf" window 300 native --threads 3
try "$golden/olmo3-a.gguf" window 300 native --kv q8_0 --threads 3
[ -z "$full" ] || try "$architectures/gemma4-a.gguf" window 300 portable
try "$architectures/deepseek2-a.gguf" any 96 native
