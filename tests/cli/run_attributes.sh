#!/bin/sh
# run_attributes.sh FORGEC MAKE_GGUF LIBSIMT -- layers that differ in more than their weights: programs compute what the wiring says of each.
forgec=$1 make=$2 FORGE_HIP_LIBRARY=$3
export FORGE_HIP_LIBRARY
. "$(dirname "$0")/../harness.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
lanes=$root/tests/lanes/simt32.yaml
export XDG_CACHE_HOME="$tmp/cache"
mkdir "$tmp/models"
cd "$tmp" || exit 1

# architecture NAME PARAMETERS ROPE ATTENTION: transformer.yaml's wiring with these attributes, and a file of that architecture
architecture() {
    {
        printf 'architecture: %s\ninherits: transformer\nparameters:\n  rope_neox: true\n%s\n' "$1" "$2"
        sed -n '/^graph:/,$p' "$root/models/transformer.yaml" | sed "s/base=rope_base/$3/; s/= attention /= attention $4 /"
    } > "models/$1.yaml"
    "$make" --arch "$1" --layers 4 --embd 64 --heads 4 --kv-heads 2 --ff 96 --vocab 300 --ctx 256 --type Q8_0 --pure -o "$1.gguf" || exit 1
}
# verified NAME FLAGS...: on this machine and on the emulator of lanes
verified() {
    arch=$1
    shift
    check "$arch $*" 0 "$forgec" verify "$arch.gguf" --models models "$@"
    check "$arch lanes $*" 0 "$forgec" verify "$arch.gguf" --models models -t "$lanes" --ctx 40 "$@"
}

# Two rotations: tables of both in the image, and each layer turns by its own.
architecture turns '  near: {type: bool, per_layer: true, default: [true, false]}
  near_base: {type: f64, least: 2, default: 1000, where: near, otherwise: rope_base}' base=near_base ''
verified turns --exact
verified turns --exact --fuse none
check turns-plan 0 "$forgec" build turns.gguf --models models --emit plan -o -
[ "$(grep -c '^    rotations of' "$tmp/out")" -eq 2 ] || bad "not two rotations"
check turns-source 0 "$forgec" build turns.gguf --models models --emit source -o -; out_has '"rotation tables 2"'
summary
