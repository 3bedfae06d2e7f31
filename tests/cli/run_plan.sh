#!/bin/sh
# run_plan.sh FORGEC MODEL [LANES [GFXSIM]]: plans as text: written, edited by hand, built, run and verified; impossible choices are refused with their place.
forgec=$1 model=$2 lanes=$3 gfxsim=${4-} here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"

choices() { grep -v '^ *#' "$1" | grep .; }

# written TARGET: writes $tmp/plan; the plan that is read back is the same, with the same kernels
written() {
    target=$1
    check "$target: plan" 0 "$forgec" build "$model" -q -t "$target" --emit plan -o "$tmp/plan"
    check "$target: read back" 0 "$forgec" build "$model" -q -t "$target" --plan "$tmp/plan" --emit plan -o "$tmp/again"
    same "$tmp/plan" "$tmp/again"
    check "$target: source" 0 "$forgec" build "$model" -q -t "$target" --emit source -o "$tmp/first"
    check "$target: source of the plan" 0 "$forgec" build "$model" -q -t "$target" --plan "$tmp/plan" --emit source -o "$tmp/second"
    same "$tmp/first" "$tmp/second"
}
# edited SED-COMMAND: writes $tmp/edited, which must differ
edited() {
    sed "$1" "$tmp/plan" > "$tmp/edited"
    ! cmp -s "$tmp/plan" "$tmp/edited" || bad "$1 changes nothing"
}
# refused TEXT SED-COMMAND: the edit is an error at its place
refused() {
    edited "$2"
    refuse "$target: $2" 1 "edited:" "$forgec" build "$model" -q -t "$target" --plan "$tmp/edited" --emit plan -o "$tmp/none"
    err_has "$1"
    [ ! -e "$tmp/none" ] || bad "an output was written"
}
# verified WHAT OPTIONS...: the program of the edited plan passes verify, and the plan has the chosen values
verified() {
    what=$1
    shift
    check "$target: $what" 0 "$forgec" build "$model" -q -t "$target" --plan "$tmp/edited" --emit plan -o "$tmp/again"
    choices "$tmp/edited" > "$tmp/wanted"
    choices "$tmp/again" > "$tmp/got"
    same "$tmp/wanted" "$tmp/got" "choices of $what"
    check "$target: $what, verified" 0 "$forgec" verify "$model" -t "$target" --plan "$tmp/edited" "$@"
}

written x86-64-v3
refused "group 1 has no gemv kernel in decode" 's/^  products \(.*\)groups=1\b/  gemv \1groups=1/'
refused "unknown template" 's/^  products/  product/'
refused "unit of a products follows" 's/^  products attn_qkv_decode/& unit=64/'
refuse missing 1 "no-such-plan" "$forgec" build "$model" -q --plan "$tmp/no-such-plan" -o "$tmp/none"
refuse two-targets 1 "a plan is for one target" "$forgec" build "$model" -q -t x86-64-v3,portable --plan "$tmp/plan" -o "$tmp/none"
edited 's/^chunk .*/chunk 24/'
verified "a chunk of 24" --tokens 60

# One more tile, other numbers of splits and spans (40 tokens use both), other rows and lanes, groups and steps.
splits='/^  attention_decode/s/rows=[0-9]* threads=[0-9]* resident=1 splits=[0-9]* spans=[0-9]* span=[0-9]*/rows=4 threads=32 resident=2 splits=2 spans=2 span=16/'
shape='/^  gemv attn_output/s/rows=[0-9]* lanes=[0-9]* threads=[0-9]* resident=[0-9]* depth=[0-9]*/rows=2 lanes=16 threads=128 resident=2 depth=3/'
if [ -n "$lanes" ]; then
    written "$here/../lanes/simt32.yaml"
    edited "$splits; $shape; s/ digits=0/ digits=2/"
    FORGE_HIP_LIBRARY=$lanes
    export FORGE_HIP_LIBRARY
    verified "splits and lanes" --tokens 40
    for edit in lanes=64 rows=33 threads=48 resident=33 depth=33; do
        refused "${edit%=*} is ${edit#*=}" "/^  gemv attn_output/s/ ${edit%=*}=[0-9]*/ $edit/"
    done
    refused "threads is 96" '/^  attention_prefill/s/threads=[0-9]*/threads=96/'
    unset FORGE_HIP_LIBRARY
fi
if [ -n "$gfxsim" ]; then
    FORGEC_GFXSIM=$gfxsim
    export FORGEC_GFXSIM
    written gfx1151
    tile='/^  gemm attn_qkv_prefill/s/rows=[0-9]* tokens=[0-9]* threads=[0-9]*/rows=64 tokens=64 threads=128/'
    edited "$splits; $shape; $tile"
    [ -z "$full" ] || verified "splits, lanes and a tile" --simulate --tokens 8
    refused "digits is 2; it is 0, or on NVIDIA 2" 's/ digits=0/ digits=2/'
    refused "span is 3; with 2 splits of 32 threads it has 16" "$(echo "$splits" | sed 's/span=16/span=3/')"
    refused "splits is 9999" '/^  attention_decode/s/splits=[0-9]*/splits=9999/'
    for tile in rows=0 tokens=0 rows=65536 tokens=4294967280; do refused "no tile of" "/^  gemm attn_qkv_prefill/s/ ${tile%=*}=[0-9]*/ $tile/"; done
    refused "steps of 2 .." 's/ least=1 / least=2 /'
    refused "give -t gfx942" 's/^target .*/target gfx942/'
    refused "the plan was made with --kv q8_0" 's/^options .*/options --kv q8_0/'
fi
summary plans
