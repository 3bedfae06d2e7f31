#!/bin/sh
# run_tiles.sh FORGEC MODEL: the tiles of targets, at the ends of their ranges, outside and inside.  The reader refuses a value in one line with
# its place, or the emitted source is valid: no assertion of a template fails.  full: all targets and values, compiled to machine code.
forgec=$1 model=$2
. "$(dirname "$0")/../harness.sh"
taken=0
clang=${FORGEC_CLANG:-clang-19}

# The emitted source says how to compile it; its assertions need no code.
compiles() {
    command=$(sed -n 's/^ \* compile alone: clang //p' "$tmp/source.c" | sed 's/ -[cS] / /g; s/ -o [^ ]*//; s/ [^ ]*$//')
    # shellcheck disable=SC2086
    "$clang" $command -fsyntax-only -w "$tmp/source.c" >"$tmp/err" 2>&1
}

# tile "KEY: VALUE, ...": refused or good
tile() {
    tiles=$1
    name="$target, tiles {$tiles}" tests=$((tests + 1))
    printf 'inherits: %s\ntiles: {%s}\n' "$target" "$tiles" >"$tmp/t.yaml"
    "$forgec" build -q "$model" -t "$tmp/t.yaml" --emit source -o "$tmp/source.c" >"$tmp/out" 2>"$tmp/err"
    code=$?
    if [ $code -eq 0 ]; then
        taken=$((taken + 1))
        compiles || bad "taken, but what is emitted does not compile"
    elif [ $code -ne 1 ] || [ "$(grep -c '^forgec: error: ' "$tmp/err")" -ne 1 ]; then bad "exit code $code, not one line"
    elif ! grep -q "t\.yaml:2:[0-9]*: " "$tmp/err" && ! grep -q ' bytes of LDS, ' "$tmp/err"; then bad "refused without a place"      # LDS: also the model's
    fi
}

# each KEY VALUES...
each() { key=$1; shift; for value; do tile "$key: $value"; done; }

cpu() {
    each gemm_tokens 3 4 5 12 64 65
    each gemm_groups 0 1 16 17
    each prefill_chunk 0 1 4096 4097
    each attention_block 16 32 48 64 80 96 128 4096 4160
}
gemm() {
    each gemm_tokens 8 16 48 64 96 256 512 528
    each gemm_rows 16 32 48 64 96 256 512
    each gemm_threads 32 64 96 160 256 512 1024
    each gemm_few_threads 32 96 160 512 1024
    for tiles in "gemm_tokens: 32, gemm_rows: 32, gemm_threads: 32, gemm_few_threads: 64" "gemm_tokens: 64, gemm_rows: 192, gemm_threads: 128, gemm_few_threads: 192" \
        "gemm_tokens: 16, gemm_rows: 64, gemm_threads: 128, gemm_few_threads: 128" "gemm_tokens: 192, gemm_rows: 64, gemm_threads: 192, gemm_few_threads: 64"; do tile "$tiles"; done
}
# For gemm: the ends, values in between, and one refused value of each kind.
some() {
    each gemm_tokens 8 16 96 512 528
    each gemm_rows 16 32 96 512
    each gemm_threads 32 96 160 1024
    each gemm_few_threads 32 160 1024
    tile "gemm_tokens: 16, gemm_rows: 64, gemm_threads: 128, gemm_few_threads: 128"
}
gpu() {
    gemm
    each gemm_groups 0 1 8 9
    each gemm_unit_steps 0 1 2 3
    each gemv_threads 16 32 96 1024 1056
    each gemv_groups 0 1 32 33
    each gemv_rows 0 1 2 3 8 16 32 64
    each gemv_lanes 4 8 12 16 32 64
    each gemv_depth 0 1 32 33
    each attention_splits 0 1 4096 4097
    each attention_groups 0 1 4096 4097
    each attention_span 0 1 4096 4097
    each attention_threads 32 64 96 1024
    each attention_prefill_threads 32 64 96 128 256 512 1024
    each stage_threads 32 64 96 1024
    each sample_groups 0 1 1024 1025
    each sample_threads 32 64 96 1024
    each prefill_chunk 0 1 4096 4097
}

if [ -n "$full" ]; then
    for target in portable x86-64-v3 x86-64-v4 sapphire-rapids aarch64 aarch64-v8.6 cortex-m7; do cpu; done
    for target in gfx1151 gfx942 sm_90 sm_90a; do gpu; done
else
    target=x86-64-v3; cpu
    target=gfx1151; some; each attention_prefill_threads 96 256 512; each gemv_rows 1 3
fi
name="all tiles"
[ $taken -gt 0 ] && [ $taken -lt $tests ] || bad "$taken of $tests taken: some must be, and some refused"

# A GPU of no family: refused as a target, and by the templates themselves.
printf 'inherits: gfx1151\narch: gfx1201\n' >"$tmp/t.yaml"
refuse "arch of no family" 1 't.yaml:2:7: arch gfx1201 is not of the family rdna3' "$forgec" build -q "$model" -t "$tmp/t.yaml" --emit source
root=$(cd "$(dirname "$0")/../.." && pwd)
for header in dialect.h machine/rdna3.h; do
    check "$header for gfx1201" 1 "$clang" -x hip --cuda-device-only --offload-arch=gfx1201 -nogpulib -nogpuinc -fsyntax-only -ferror-limit=1 -I "$root" \
        "$root/templates/gpu/$header"
    err_has "docs/target.md, 'A new GPU family'"
done
summary tiles
