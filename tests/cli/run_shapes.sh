#!/bin/sh
# run_shapes.sh -- models of real shapes compile for every target: finds a header that is not included, a literal that is too large for its
# type, or a kernel that one target lacks.
#
#   run_shapes.sh FORGEC MAKE_GGUF CLANG            a mixture of experts and a hybrid of few layers, quantised, for every CPU that Linux runs on: clang
#                                                   reads the source, warnings are errors; no number is larger than any size is;
#                                                   products of MXFP4 for cortex-m55, which clang 19 compiles without low-overhead loops only
#   run_shapes.sh FORGEC MAKE_GGUF I/N              every shape whole x every target to machine code, part I of N; prints the table of seconds
#
# Targets without a C library here, and webgpu, where drivers compile the kernels, end at the source.
forgec=$(realpath "$1") make=$(realpath "$2")
. "$(dirname "$0")/../harness.sh"
cd "$tmp" || exit 1
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME

# A place that does not exist, or is before the first, is a number of 19 or 20 digits; fractions of constants may have as many digits.
sizes_fit() {
    grep -nE '(^|[^.0-9A-Za-z_])[0-9]{19,}' source.c > large
    [ ! -s large ] || bad "numbers that no size is: $(head -n 1 large | cut -c 1-200)"
}

case $3 in
[0-9]*/[0-9]*) ;;
*)
    "$make" --shape qwen3-30b-a3b --layers 2 --vocab 2048 --type Q4_K_M --header-only -o mixture.gguf || exit 1
    "$make" --shape qwen3.6-35b-a3b --layers 4 --vocab 2048 --type Q4_K_M --header-only -o hybrid.gguf || exit 1
    "$make" --shape gemma-4-26b-a4b --type Q4_K_M --header-only -o whole.gguf || exit 1
    for model in mixture hybrid whole; do
        for target in x86-64-v3 x86-64-v3-vnni x86-64-v4 sapphire-rapids portable aarch64 aarch64-v8.6; do
            check "$model for $target, source" 0 "$forgec" build $model.gguf -t $target --weights none --emit source -q -o source.c
            sizes_fit
            [ $model = whole ] && [ $target != x86-64-v3 ] && continue
            arguments=$(sed -n 's/^ \* compile alone: clang \(.*\) -c [^ ]*$/\1/p' source.c)
            [ -n "$arguments" ] || bad "no line tells how to compile it"
            # shellcheck disable=SC2086
            check "$model for $target" 0 "$3" $arguments -Werror -fsyntax-only source.c
            rm -f source.c
        done
    done
    "$make" --shape gpt-oss-20b --layers 1 --vocab 512 --type MXFP4 --header-only -o codes.gguf || exit 1
    check "MXFP4 for cortex-m55, machine code" 0 "$forgec" build codes.gguf -t cortex-m55 --weights none --emit asm -q -o out
    for target in gfx1151 gfx942 sm_90 webgpu; do
        check "whole for $target, source" 0 "$forgec" build whole.gguf -t $target --weights none --emit source -q -o source.c
        sizes_fit
        rm -f source.c
    done
    summary
    exit ;;
esac

part=$3
n=0
shapes="llama-3.2-1b llama-3.1-8b qwen2.5-7b qwen3-8b qwen3-30b-a3b qwen3.6-35b-a3b qwen3.6-35b-a3b-mtp gpt-oss-20b gpt-oss-120b gemma-4-26b-a4b
        glm-4.7-flash lfm2-8b-a1b"
targets=${SHAPES_TARGETS:-$("$forgec" targets | cut -d ' ' -f 1)}
{ printf '| shape |'; for target in $targets; do printf ' %s |' "$target"; done; echo; } > table
for shape in $shapes; do
    type=Q4_K_M
    case $shape in gpt-oss-*) type=MXFP4 ;; esac
    "$make" --shape "$shape" --type $type --header-only -o model.gguf || exit 1
    row="| $shape |"
    for target in $targets; do
        n=$((n + 1))
        if [ $(((n - 1) % ${part#*/})) -ne "${part%/*}" ]; then row="$row |"; continue; fi
        how=
        since=$(date +%s.%N)
        emit=asm
        "$forgec" build model.gguf -t "$target" --weights none --emit asm -q -### -o out > /dev/null 2> why || {
            grep -qE "needs its C library|kernels, which are WGSL" why && emit=source how=' (source)'; }
        check "$shape for $target" 0 "$forgec" build model.gguf -t "$target" --weights none --emit $emit -q -o out
        row="$row $(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $since }")$how |"
        rm -rf out
    done
    echo "$row" >> table
    echo "$row"
done
cat table
summary
