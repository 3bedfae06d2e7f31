#!/bin/sh
# run.sh -- builds a test of kernels, by its name, for a place and runs it.  registry.def lists the tests.
#
#   run.sh --list [WORD]                      lists all tests, or the tests with WORD in their name, templates or shapes
#   run.sh NAME [PLACE[:VARIANT]] [OPTIONS]   PLACE (default cpu or lanes):
#     cpu              this machine's best instruction set; portable, avx2, avxvnni, avx512, amx, neon and mmla (also by qemu)
#     lanes            lanes are fibers of this processor: hopper, and rdna3, cdna3, wgmma (sm_90a), undefined (UBSan), which pad every row of weights;
#                      -more: caps and sinks; wgmma-alone: tiles of 256 threads
#     sim:CHIP         the simulator of AMD's chips (gfx942, gfx1100, gfx1151), with GFXSIM=libgfxsim.so
#     device:ARCH      a GPU (sm_90, sm_90a, gfx1100, ...); both in all variants of the row, or one: device:sm_90:models
#   OPTIONS: --seed N (default: from the clock), --case N, --rounds N, --format FILE, --bench; for WGSL --part I/N of the formats or configurations
#   run.sh --names cpu|lanes|amd|nvidia [VARIANT]       names of the tests that run there
#
# From the environment: FORGEC_CLANG; FLAGS for the compiler, such as -fsanitize=address or -DTILE_TOKENS=64; KEEP=DIR keeps the built files; files
# that DIR has for sim and device are not built again, so that a machine with a GPU needs no compiler, and neither are the shared files of a cpu
# variant; KERNEL_COMMON: an archive of the shared files, for sim and for lanes except undefined; BUILD=1 only builds.
# Exit code 77: this machine cannot run the test.
set -eu
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/../harness.sh"
keep=
if [ -n "${KEEP-}" ]; then mkdir -p "$KEEP"; keep=$(cd "$KEEP" && pwd); fi
cd "$here/../.."
clang=${FORGEC_CLANG:-clang-19}
dir=${keep:-$tmp}

# rows: the rows of registry.def, one per line; row NAME COLUMN: a column of one test: 1 templates, 2 cpu, 3 lanes, 4 amd, 5 nvidia
rows() { tr '\n' ' ' <tests/kernel/registry.def | sed 's/KERNEL_TEST(/\n/g' | sed 1,2d; }
row() { rows | grep "^$1," | cut -d'"' -f$((2 * $2)); }
# needs FEATURE...: exits unless this processor has the features
needs() { for f in "$@"; do grep -qw "$f" /proc/cpuinfo || lacks "this processor has no $f"; done; }
# compile OUT FLAGS FILES...
compile() {
    to=$1; shift
    # shellcheck disable=SC2086  # flags are words
    "$clang" -std=c11 -D_GNU_SOURCE -iquote . -iquote tests/kernel -Wall -Wextra -Wno-missing-field-initializers -Wno-psabi -Wno-pass-failed -o "$to" "$@" ${FLAGS-} -lm
}
of_formats=$(echo compiler/format/*.c)
common="tests/kernel/registry.c templates/ref/dequant.c templates/ref/ops.c runtime/run/status.c $of_formats"

# once FLAGS...: the shared sources; with KEEP as separate objects, named by the sources and the flags
once() {
    [ -n "$keep" ] || return 0
    # shellcheck disable=SC2086
    objects=$keep/common.$({ echo "$@" ${FLAGS-}; cat $common compiler/format/*.[hd]* templates/ref/*.h; } | cksum | tr ' ' -) sources=
    if [ ! -d "$objects" ]; then
        for source in $common; do sources="$sources $PWD/$source"; done
        mkdir "$objects.new"
        # shellcheck disable=SC2086
        (root=$PWD && cd "$objects.new" && "$clang" -std=c11 -D_GNU_SOURCE -iquote "$root" -w "$@" ${FLAGS-} -c $sources)
        mv "$objects.new" "$objects"
    fi
    common=$(echo "$objects"/*.o)
}

# run PROGRAM ARGUMENTS...
run() { [ -n "${BUILD-}" ] || "$@" || code=$?; }

on_cpu() {      # VARIANT
    runner=
    case ${1:-best} in
    best) case $(uname -m),$(cat /proc/cpuinfo) in
          aarch64,*i8mm*bf16*) set -- mmla ;;
          aarch64,*) set -- neon ;;
          x86_64,*amx_bf16*) set -- amx ;;
          x86_64,*avx512_bf16*|x86_64,*avx512_vnni*avx512_bf16*) set -- avx512 ;;
          x86_64,*avx_vnni*) set -- avxvnni ;;
          x86_64,*avx2*) set -- avx2 ;;
          *) set -- portable ;;
          esac ;;
    esac
    case $1 in
    portable) simd=C flags= ;;
    avx2)   needs avx2 fma f16c; simd=AVX2 flags="-march=x86-64-v3" ;;
    avxvnni) needs avx2 fma f16c avx_vnni; simd=AVX2 flags="-march=x86-64-v3 -mavxvnni" ;;
    # With AVX-512: weights are read from memory here; golden programs read them from the cache.
    avx512) needs avx512_vnni avx512_bf16 avx512vbmi
            simd=AVX512 flags="-DFROM_MEMORY=1 -march=x86-64-v4 -mavx512vnni -mavx512bf16 -mavx512vbmi -mprefer-vector-width=512" ;;
    amx)    needs avx512_vnni avx512_bf16 avx512vbmi amx_tile amx_bf16
            simd=AVX512 flags="-DFROM_MEMORY=1 -march=x86-64-v4 -mavx512vnni -mavx512bf16 -mavx512vbmi -mamx-tile -mamx-bf16 -mprefer-vector-width=512" ;;
    neon|mmla)
            simd=NEON
            case $1 in
            neon) flags="-march=armv8.2-a+dotprod+fp16" features="asimddp asimdhp" ;;
            mmla) flags="-march=armv8.6-a+fp16" features="asimddp asimdhp i8mm bf16" ;;
            esac
            # shellcheck disable=SC2086  # features are words
            if [ "$(uname -m)" = aarch64 ]; then needs $features
            else
                command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null || skip "no qemu-aarch64 or aarch64-linux-gnu-gcc"
                runner="qemu-aarch64 -cpu max" flags="$flags --target=aarch64-linux-gnu -static"
            fi ;;
    *) echo "run.sh: cpu has no variant $1" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086
    once -O2 -ffp-contract=off $flags
    # shellcheck disable=SC2086
    compile "$dir/$test.$1" -O2 -ffp-contract=off "-DFORGE_SIMD_$simd" $flags -iquote templates/cpu "tests/kernel/$test.c" $common
    # shellcheck disable=SC2086
    run $runner "$dir/$test.$1" "$test" --place "cpu, $1" --variant "$1" $options
}

# Fragments and waves that the host's side of a test shares with the emulator of lanes.
family_flags() {
    case $1 in
    wgmma|sm_90a)   echo "-DSIMT_MMA_GROUP" ;;
    undefined|sm_*) ;;
    gfx11*)         family_flags rdna3 ;;
    gfx942)         family_flags cdna3 ;;
    gfx*)           echo "run.sh: nothing is known of $1" >&2; exit 2 ;;
    *)              echo "-DFAMILY=FAMILY_$(echo "$1" | tr a-z A-Z)" ;;
    esac
}

more_flags() { case $1 in *-more) echo "-DATTENTION_MORE" ;; *-alone) echo "-DTILE_THREADS=256" ;; esac; }

on_lanes() {    # VARIANT
    [ "$(uname -m)" = x86_64 ] || lacks "lanes are compiled for x86-64-v3"
    needs avx2 f16c fma
    flags="$(family_flags "${1%%-*}") $(more_flags "$1")"
    [ "$1" != undefined ] || flags="$flags -fsanitize=undefined -fno-sanitize-recover=all" KERNEL_COMMON=
    case $1 in hopper*) ;; *) flags="$flags -DROW_PERIOD=16" ;; esac
    # shellcheck disable=SC2086
    compile "$dir/$test.$1" -O1 -fno-slp-vectorize -march=x86-64-v3 $flags "tests/kernel/$test.c" "tests/kernel/${test}_kernels.c" tests/kernel/machine_lanes.c \
        tests/lanes/simt.c ${KERNEL_COMMON:-$common}
    # shellcheck disable=SC2086
    run "$dir/$test.$1" "$test" --place "lanes, $1" --variant "$1" $options
}

# module ARCH VARIANT: the kernels for a GPU
module() {
    case $2 in any) flags= ;; models) flags=-DMODELS ;; models-*) flags="-DMODELS -DKV=${2#*-}" ;; *) flags="-DKV=${2%%-*}" ;; esac
    flags="$flags $(more_flags "$2")"
    [ ! -e "$module" ] || return 0
    # The flags of compiler/build/cc.c.
    case $1 in
    sm_*) set -- -x cuda --cuda-gpu-arch="$1" -nocudainc -nocudalib -S -Wno-unknown-cuda-version ;;
    *)    set -- -x hip --offload-arch="$1" --no-gpu-bundle-output -nogpulib -nogpuinc -fno-hip-fp32-correctly-rounded-divide-sqrt \
              -fgpu-flush-denormals-to-zero -munsafe-fp-atomics -mcode-object-version=5 ;;
    esac
    # shellcheck disable=SC2086
    "$clang" "$@" -std=c++20 --cuda-device-only -O3 -ffp-contract=fast -Wno-pass-failed $flags ${FLAGS-} -I . -o "$module" \
        "tests/kernel/${test}_kernels.c"
}

on_driver() {   # PLACE ARCH VARIANTS...
    place=$1 arch=$2; shift 2
    program=$dir/$test.$arch flags=$(family_flags "$arch")
    if [ ! -e "$program" ]; then
        # shellcheck disable=SC2086
        compile "$program" -O1 $flags "tests/kernel/$test.c" tests/kernel/machine_driver.c runtime/device/device.c runtime/device/driver_library.c ${KERNEL_COMMON:-$common} -ldl
    fi
    for variant in "$@"; do
        module=$dir/$test.$arch.$variant
        module "$arch" "$variant"
        # shellcheck disable=SC2086
        run "$program" "$test" --place "$place $arch, $variant" --variant "$variant" --arch "$arch" --code "$module" $options
    done
}

case ${1-} in
--list)
    "${CC:-cc}" -iquote . -o "$tmp/list" tests/kernel/registry.c
    "$tmp/list" "$@"
    exit ;;
--names)
    case ${2-} in cpu) column=2 ;; lanes) column=3 ;; amd) column=4 ;; nvidia) column=5 ;; *) echo "run.sh: nothing runs on \"${2-}\"" >&2; exit 2 ;; esac
    rows | awk -F'"' -v column=$((2 * column)) -v variant="${3-}" \
        '$column != "" && (variant == "" || index(" " $column " ", " " variant " ")) { sub(/,.*/, ""); print }'
    exit ;;
''|-*) sed -n '2,/^set/s/^# \{0,1\}//p' tests/kernel/run.sh; exit 2 ;;
esac
test=$1 code=0
shift
[ -n "$(row "$test" 1)" ] || { echo "run.sh: there is no test $test; run.sh --list tells which there are" >&2; exit 2; }
place=lanes
[ -z "$(row "$test" 2)" ] || place=cpu
case ${1-} in cpu|cpu:*|lanes|lanes:*|sim:*|device:*) place=$1; shift ;; esac
options=$*
kind=${place%%:*} rest=
case $place in *:*) rest=${place#*:} ;; esac
arch=${rest%%:*}
case $kind,$arch in cpu,*) column=2 ;; lanes,*) column=3 ;; *,sm_*) column=5 ;; *) column=4 ;; esac
variants=$(row "$test" $column)
[ -n "$variants" ] || { echo "run.sh: $test does not run on $place; run.sh --list $test tells where" >&2; exit 2; }
case $kind in
cpu)   on_cpu "${rest:-best}" ;;
lanes) on_lanes "${rest:-hopper}" ;;
*)
    case $rest in *:*) variants=${rest#*:} ;; esac
    [ "$kind" = device ] || export FORGE_HIP_LIBRARY="${GFXSIM:?the path of libgfxsim.so}" FORGE_GFXSIM_CHIP="$arch"
    # shellcheck disable=SC2086
    on_driver "$kind" "$arch" $variants ;;
esac
exit $code
