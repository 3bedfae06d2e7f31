#!/bin/sh
# run_weights.sh FORGEC MODEL.gguf [LIBSIMT] -- flips bits in all parts of the weights of programs and libraries; verification must name the tensor.
# LIBSIMT: the emulator of lanes as libamdhip64; without it no GPU program is tested.
forgec=$1 model=$2 simt=${3-}
. "$(dirname "$0")/../harness.sh"
unset FORGE_HIP_LIBRARY FORGE_CUDA_LIBRARY FORGE_PROGRAM
size() { wc -c < "$1" | tr -d ' '; }
# put FILE AS: makes a new file, because the system may refuse to write into a file that ran a moment ago
put() { cp "$1" "$tmp/put" && mv "$tmp/put" "$2"; }
# flip FILE OFFSET: flips the lowest bit of this byte
flip() {
    put "$1" "$1"
    printf "\\$(printf %03o $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2> "$tmp/dd" || bad "dd"
}

# tables SOURCE: reads the places that an emitted source names into $hashes, $n, $offset and $image (bytes of the image), and $tmp/tensors with lines "NAME|OFFSET|BYTES"
tables() {
    sed -n 's/^    { "\([^"]*\)", \([0-9]*\)u, \([0-9]*\)u },$/\1|\2|\3/p' "$1" > "$tmp/tensors"
    hashes=$(sed -n 's/.*\.hashes_offset = \([0-9]*\)u.*/\1/p' "$1")
    image=$(sed -n 's/.*\.weights_bytes = \([0-9]*\)u.*/\1/p' "$1") offset=$(sed -n 's/.*\.weights_offset = \([0-9]*\)u.*/\1/p' "$1")
    n=$(wc -l < "$tmp/tensors" | tr -d ' ')
    [ "$n" -gt 10 ] || { echo "no table of tensors in $1"; exit 1; }
}

# damage FILE BASE PROGRAM...: FILE has the image from BASE on; PROGRAM must find every kind of damage and report its place
damage() {
    file=$1 base=$2
    shift 2
    cp "$file" "$tmp/good"
    for line in 1 2 $((n / 2)) "$n"; do
        tensor=$(sed -n "${line}p" "$tmp/tensors")
        at=${tensor#*|} bytes=${tensor##*|} tensor=${tensor%%|*}
        at=${at%|*}
        for byte in 0 $((bytes / 2)) $((bytes - 1)); do
            flip "$file" $((base + at + byte))
            check "$kind: byte $byte of $tensor" 4 "$@" --verify-weights load -q --tokens 1 -n 1 --print-tokens
            err_has "tensor $tensor is damaged ($bytes bytes at offset $((base + at)))"
            one_line
            put "$tmp/good" "$file"
        done
    done
    for byte in 0 8 16 $((16 + 8 * n - 1)) $((16 + 8 * n)) $((16 + 8 * n + 7)); do
        flip "$file" $((base + hashes + byte))
        check "$kind: byte $byte of the hashes" 4 "$@" --verify-weights load -q --tokens 1 -n 1 --print-tokens
        err_has "the hashes of the weights are damaged ($((24 + 8 * n)) bytes at offset $((base + hashes)))"
        put "$tmp/good" "$file"
    done
    # if two tensors are damaged, the first is reported, whichever thread finds it
    first=$(sed -n 2p "$tmp/tensors") last=$(sed -n "${n}p" "$tmp/tensors")
    for place in "$first" "$last"; do place=${place#*|}; flip "$file" $((base + ${place%|*})); done
    for threads in 1 3; do
        check "$kind: two tensors, $threads threads" 4 "$@" --verify-weights load -t $threads -q --tokens 1 -n 1 --print-tokens
        err_has "tensor ${first%%|*} is damaged"
    done
    check "$kind: not asked for" 0 "$@" -q --tokens 1 -n 1 --print-tokens
    check "$kind: damaged, --check" 4 "$@" --check; out_has "FAIL  weights    tensor ${first%%|*}"
    put "$tmp/good" "$file"
    check "$kind: plain" 0 "$@" -q --tokens 1,2,3 -n 8 --temp 0 --print-tokens; cp "$tmp/out" "$tmp/plain"
    check "$kind: good" 0 "$@" -q --verify-weights load --tokens 1,2,3 -n 8 --temp 0 --print-tokens
    cmp -s "$tmp/out" "$tmp/plain" && [ ! -s "$tmp/err" ] || bad "another text, or words on stderr"
    check "$kind: good, --check" 0 "$@" --check; out_has "OK    weights    $n tensors"
}
# The place where the images in a program begin, if tables has read the last one: the images are the end of the file.
image_base() { echo $(($(size "$1") - image - offset)); }

build() { check "build $*" 0 "$forgec" build "$model" "$@"; }
build --emit source -o "$tmp/source.c"; tables "$tmp/source.c"
kind=embedded; build -o "$tmp/program"; damage "$tmp/program" "$(image_base "$tmp/program")" "$tmp/program"
kind=external; build --weights external -o "$tmp/outside"; damage "$tmp/outside.weights" 4096 "$tmp/outside"
mv "$tmp/outside.weights" "$tmp/elsewhere"; damage "$tmp/elsewhere" 4096 "$tmp/outside" -m "$tmp/elsewhere"
head -c $((4096 + hashes)) "$tmp/elsewhere" > "$tmp/cut"
check "cut before the hashes" 4 "$tmp/outside" -m "$tmp/cut" --verify-weights load --tokens 1 -n 1; err_has "is cut short"

kind="no weights"
check "no weights, --check" 0 "$tmp/outside" --check; out_has "WARN  weights"
check "no weights, verified" 4 "$tmp/outside" --verify-weights load --tokens 1 -n 1 --print-tokens; err_has "-m FILE"
check random 0 "$tmp/outside" --bench --random-weights -p 4 -n 4 -r 1
check "random, verified" 2 "$tmp/outside" --bench --random-weights --verify-weights load -p 4 -n 4 -r 1; err_has "cannot be combined with --random-weights"
check mode 2 "$tmp/program" --verify-weights lazy -p x; err_has "'lazy' is not none or load"
check "mode none" 0 "$tmp/program" --verify-weights none -q --tokens 1 -n 1 --print-tokens

# a library, through its own functions; built for this machine
cat > "$tmp/verify.c" <<'C'
#include "lib.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* FILE SKIP: weights in a file; prints what is damaged */
int main(int argc, char **argv)
{
    static unsigned char workspace[LIB_WORKSPACE_BYTES] __attribute__((aligned(LIB_ALIGN))), *weights = NULL;
    struct lib_options o = { .size = sizeof o };
    struct lib *m;
    const char *name = "nothing";
    uint32_t at = 0, calls = 0;
    FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (f) {
        weights = aligned_alloc(LIB_ALIGN, LIB_WEIGHTS_BYTES);
        fseek(f, atol(argv[2]), SEEK_SET);
        if (!weights || fread(weights, 1, LIB_WEIGHTS_BYTES, f) != LIB_WEIGHTS_BYTES) return 3;
        o.weights = weights;
        o.weights_bytes = LIB_WEIGHTS_BYTES;
        fclose(f);
    }
    int status = lib_open(&m, workspace, sizeof workspace, &o);
    if (status != LIB_OK) return printf("open: %s\n", lib_strerror(status)), 3;
    while ((status = lib_verify(m, &at, 3, &name)) == LIB_MORE) calls++;
    o.verify = LIB_VERIFY_OPEN;
    if (lib_open(&m, workspace, sizeof workspace, &o) != status) return 3;
    printf("%s after %u calls\n", name, (unsigned)calls);
    return status == LIB_OK ? 0 : status == LIB_BAD_WEIGHTS ? 4 : 3;
}
C
cc=
for candidate in clang-19 clang gcc cc; do command -v $candidate > /dev/null && { cc=$candidate; break; }; done
build --emit source -t portable --threads 8 -o "$tmp/source.c"; tables "$tmp/source.c"
build --emit obj -t portable --prefix lib --weights external -o "$tmp/lib.o"
check "compile" 0 "$cc" -I "$tmp" "$tmp/verify.c" "$tmp/lib.o" -o "$tmp/verify"
check "library: good" 0 "$tmp/verify" "$tmp/lib.o.weights" 4096; out_has "nothing after $(((n - 1) / 3)) calls"
for line in 1 $((n / 2)) "$n"; do
    tensor=$(sed -n "${line}p" "$tmp/tensors")
    at=${tensor#*|} bytes=${tensor##*|}
    cp "$tmp/lib.o.weights" "$tmp/bad"
    flip "$tmp/bad" $((4096 + ${at%|*} + bytes - 1))
    check "library: ${tensor%%|*}" 4 "$tmp/verify" "$tmp/bad" 4096; out_has "${tensor%%|*} after $(((line - 1) / 3)) calls"
done
cp "$tmp/lib.o.weights" "$tmp/bad"; flip "$tmp/bad" $((4096 + hashes + 16))
check "library: hashes" 4 "$tmp/verify" "$tmp/bad" 4096; out_has "hashes of the tensors after 0 calls"
build --emit obj -t portable --prefix lib -o "$tmp/lib.o"
check "compile" 0 "$cc" -I "$tmp" "$tmp/verify.c" "$tmp/lib.o" -o "$tmp/verify"
check "library, embedded: good" 0 "$tmp/verify"

# a GPU has another image; with a CPU in the same program, a file has two images
if [ -n "$simt" ] && [ -e "$simt" ]; then
    export FORGE_HIP_LIBRARY="$simt"
    here=$(cd "$(dirname "$0")" && pwd)
    kind=GPU; build -t "$here/../lanes/simt32.yaml" -o "$tmp/program" --save-temps "$tmp/temps"
    tables "$tmp/temps/model.c"; damage "$tmp/program" "$(image_base "$tmp/program")" "$tmp/program"
    build -t "$here/../lanes/simt32.yaml,portable" -o "$tmp/program" --save-temps "$tmp/temps"
    tables "$tmp/temps/model-portable.c"
    images=$(image_base "$tmp/program") second=$offset
    [ "$second" -gt 0 ] || bad "two images wanted"
    kind="second image"; damage "$tmp/program" $((images + second)) "$tmp/program" --target portable
    tables "$tmp/temps/model-simt32.c"
    kind="first image"; damage "$tmp/program" "$images" "$tmp/program" --target simt32
fi
summary
