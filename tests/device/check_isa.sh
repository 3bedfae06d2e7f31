#!/bin/sh
# check_isa.sh FORGEC MAKE_GGUF TARGET -- compiles programs for a GPU and reads their machine code (PTX for NVIDIA).
# All golden models and the shapes of 1B to 8B models must compile; forgec itself ends with an error if a kernel spills or needs scratch.
# full: in more formats.  PTX of the 8B shapes must have dot products, matrix instructions and wide loads.  For AMD, tests/simulator/run_floors.sh counts executed instructions.
set -eu
[ $# -ge 3 ] || { echo "usage: check_isa.sh FORGEC MAKE_GGUF TARGET" >&2; exit 2; }
forgec=$1 make_gguf=$2 target=$3
golden=$(cd "$(dirname "$1")/tests/data/golden" && pwd)
. "$(dirname "$0")/../harness.sh"
case $target in gfx*|sm_*) ;; *) echo "check_isa: nothing is known of $target" >&2; exit 2 ;; esac

# compiles MODEL OPTIONS...: no spills
compiles() {
    check "$target: $*" 0 "$forgec" build "$@" -t "$target" --emit plan -o "$tmp/plan" -q
}

# reads MODEL FORMAT: checks the PTX of a program
reads() {
    check "$target $2" 0 "$forgec" build "$1" -t "$target" --emit asm --weights none --ctx 4096 -o "$tmp/code.s" -q
    [ "$code" -eq 0 ] || return 0
    for word in dp4a mma.sync.aligned.m16n8k16 ld.global.nc.v4 griddepcontrol.wait griddepcontrol.launch_dependents; do
        [ "$2 $word" != "BF16 dp4a" ] || continue
        grep -qF "$word" "$tmp/code.s" || bad "no $word"
    done
    ! grep -q '^[[:space:]]*\.local' "$tmp/code.s" || bad "local memory"
    if command -v ptxas >/dev/null; then
        ptxas -arch="$target" -v "$tmp/code.s" -o /dev/null >"$tmp/ptxas" 2>&1 || bad "ptxas fails: $(head -n 1 "$tmp/ptxas")"
        ! grep -E '[1-9][0-9]* bytes spill' "$tmp/ptxas" || bad "spills"
    fi
}

for format in Q4_K_M ${full:+Q8_0 BF16}; do
    case $target in sm_*) "$make_gguf" --shape llama-3.1-8b --type $format --header-only -o "$tmp/8b.gguf"; reads "$tmp/8b.gguf" $format ;; esac
    [ -n "$full" ] || continue                           # by default not: models of 4B and 8B have the same kernels
    "$make_gguf" --shape llama-3.2-1b --type $format --header-only -o "$tmp/1b.gguf"
    compiles "$tmp/1b.gguf" --weights none
done
"$make_gguf" --shape qwen3-4b --type Q4_K_M --header-only -o "$tmp/4b.gguf"
case $target$full in gfx942|sm_*[0-9a]) ;; *) compiles "$tmp/4b.gguf" --weights none ;; esac      # for AMD, run_floors.sh has an 8B model
case $target$full in                                    # exact or unfused programs, or another type of cache
*full)  compiles "$tmp/4b.gguf" --weights none --exact
        compiles "$tmp/4b.gguf" --weights none --fuse none --kv q8_0
        compiles "$tmp/1b.gguf" --weights none --fuse none --kv f32 ;;
*)      ;;                                              # the golden models below
esac
for model in "$golden"/*.gguf; do
    case $target$full,${model##*/} in
    *-0000[2-9]-of-*)       continue ;;                 # kernels that are part of the first model
    gfx1100full,q-*|gfx942full,q-*|gfx1100full,qwen*|gfx942full,qwen*) ;;      # in other tiers the tests golden_gfx* compile them for the simulator
    sm_*full,q-*|sm_*full,qwen*) ;;
    *)                      continue ;;                 # gfx1151 has the instructions and registers of gfx1100
    esac
    compiles "$model"
done
case $target$full in sm_*)
    "$make_gguf" --each --layers 4 --vocab 512 --embd 256 --ff 256 --heads 4 --kv-heads 2 --head-dim 64 --ctx 64 --untied --tokenizer none -o "$tmp/each.gguf"
    compiles "$tmp/each.gguf" ;;
esac
if [ -n "$full" ]; then                                  # the tiles that the plan chooses for each format; and a target with tiles that are too large
    for format in $("$forgec" formats | awk 'NR > 1 { print $1 }') Q3_K_M Q5_K_M; do
        "$make_gguf" --shape llama-3.1-8b --layers 1 --type $format --header-only -o "$tmp/8b.gguf"
        compiles "$tmp/8b.gguf" --weights none
    done
    case $target in
    gfx*)
        printf 'inherits: %s\ntiles: {gemm_tokens: 256, gemm_rows: 128}\n' "$target" >"$tmp/large.yaml"
        "$make_gguf" --shape llama-3.1-8b --layers 1 --type Q8_0 --header-only -o "$tmp/8b.gguf"
        small=$target target=$tmp/large.yaml
        compiles "$tmp/8b.gguf" --weights none
        target=$small ;;
    esac
fi
case $target$full in
gfx942) odd='' ;;                                      # golden_gfx* execute such models there
*)      odd=yes ;;
esac
for model in ${odd:+llama-h288} qwen3-a; do compiles "$golden/$model.gguf" --exact --kv q8_0; done
for model in q-llama-Q2_K ${odd:+qwen2-h224}; do compiles "$golden/$model.gguf" --fuse none; done
summary programs
