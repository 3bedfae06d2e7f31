#!/bin/sh
# run_attributes.sh FORGEC MAKE_GGUF LIBSIMT -- layers that differ in more than their weights: programs compute each layer as its wiring says.
forgec=$1 make=$2 FORGE_HIP_LIBRARY=$3
export FORGE_HIP_LIBRARY
. "$(dirname "$0")/../harness.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
lanes=$root/tests/lanes/simt32.yaml
mkdir "$tmp/models"
cd "$tmp" || exit 1

# architecture NAME PARAMETERS ROPE ATTENTION KV-HEADS: transformer.yaml's wiring with these attributes, and a file of that architecture
architecture() {
    {
        printf 'architecture: %s\ninherits: transformer\nparameters:\n  rope_neox: true\n%s\n' "$1" "$2"
        sed -n '/^blocks:/,$p' "$root/models/transformer.yaml" | sed "s/base=rope_base/$3/; s/scale=attention_scale cap=attention_cap window=window attn_sinks?,/$4/"
    } > "models/$1.yaml"
    "$make" --arch "$1" --layers 4 --embd 64 --heads 4 --kv-heads "$5" --ff 96 --vocab 300 --ctx 384 --type Q8_0 --pure -o "$1.gguf" || exit 1
}
# verified NAME FLAGS...
verified() {
    arch=$1
    shift
    check "$arch $*" 0 "$forgec" verify "$arch.gguf" --models models "$@"
}

# Two rotations: the image has the tables of both, and each layer rotates by its own table.
architecture turns '  near: {type: bool, per_layer: true, default: [true, false]}
  near_base: {type: f64, least: 2, default: 1000, where: near, otherwise: rope_base}' base=near_base '' 2
verified turns --exact --ctx 100
[ -z "$full" ] || verified turns --exact --ctx 100 --fuse none
verified turns --exact --ctx 40 -t "$lanes"
[ -z "$full" ] || verified turns --exact --ctx 40 -t "$lanes" --fuse none
check turns-plan 0 "$forgec" build turns.gguf --models models --emit plan -o -
[ "$(sed '/^prefill$/,$d' "$tmp/out" | grep -c '^ *# *rotations of')" -eq 2 ] || bad "not two rotations"
check turns-source 0 "$forgec" build turns.gguf --models models --emit source -o -; out_has '"rotation tables 2"'

# Windows and caps.  With one KV head threads also divide its positions, those of a window and of the whole context, if there are enough
# (tests/kernel/cpu_attention.c has the other sizes).
architecture windows '  window: {type: u32, per_layer: true, default: [150, 40, 0]}' base=rope_base 'window=window cap=2' 1
verified windows --exact --kv f32 --ctx 300
[ -z "$full" ] || verified windows --exact --fuse none --ctx 200
[ -z "$full" ] || verified windows --exact --ctx 150
architecture slides '  window: {type: u32, per_layer: true, default: [20, 9, 0]}' base=rope_base 'window=window' 2
[ -z "$full" ] || verified slides --exact --ctx 120 -t "$lanes"
[ -z "$full" ] || verified slides --exact --ctx 120 --tokens 60 -t "$lanes" --fuse none
check slides-plan 0 "$forgec" build slides.gguf --models models -t "$lanes" --ctx 120 --emit plan -o -
[ "$(grep -c '^#   ring ' "$tmp/out")" -eq 3 ] || bad "not three rings"
verified windows --exact --ctx 120 --tokens 60 -t "$lanes"
[ -z "$full" ] || verified windows --ctx 120 --tokens 60 -t "$lanes"
summary
