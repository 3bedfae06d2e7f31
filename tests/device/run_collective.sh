#!/bin/sh
# run_collective.sh PLACE [OPTIONS of collective.c]: collectives of GPUs that share a model, run alone, and NCCL's or RCCL's beside them (collective.c).
#   PLACE  device:ARCH (sm_90a, gfx942, ...); or, in small shapes, to check sums and not times: lanes (emulated devices), or
#          sim:CHIP (gfx942, gfx1100), the simulator of AMD's chips, with GFXSIM=libgfxsim.so
# From the environment: GPUS (default 2); KEEP=DIR keeps the built files, and files that DIR has are not built again, so that a machine with GPUs
# needs no compiler; BUILD=1 only builds; FORGE_NCCL_LIBRARY=PATH; FORGEC_CLANG.  Without GPUs: exit code 77.
set -eu
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
. "$here/../harness.sh"
place=${1-} gpus=${GPUS:-2} clang=${FORGEC_CLANG:-clang-19}
case $place in lanes|sim:?*|device:?*) shift ;; *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" | sed '$d'; exit 2 ;; esac
case $gpus in [2-8]) ;; *) echo "run_collective.sh: GPUS is 2 to 8, not $gpus" >&2; exit 2 ;; esac
arch=${place#*:} dir=$tmp
if [ -n "${KEEP-}" ]; then mkdir -p "$KEEP"; dir=$(cd "$KEEP" && pwd); fi
program=$dir/collective.${place%%:*}.$arch.$gpus
module=$program.code
case $0 in /*) ;; *) here=$PWD/$here ;; esac
cd "$here/../.."
# host OUT FLAGS FILES...
host() {
    to=$1; shift
    "$clang" -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -O1 -Wall -Wextra -Werror "-DRANKS=$gpus" -iquote . -iquote tests/device -o "$to" "$@"
}
small=
[ "${place%%:*}" = device ] || small=-DSMALL
# shellcheck disable=SC2086
[ -e "$program" ] || host "$program" $small tests/device/collective.c runtime/device/device.c runtime/device/driver_library.c runtime/run/status.c -ldl
[ -e "$module" ] || case $arch in
lanes)
    lanes="-march=x86-64-v3 -fPIC -shared"
    # shellcheck disable=SC2086
    host "$module" $lanes $small -DSIMT_LANES tests/device/collective_kernels.c
    # shellcheck disable=SC2086
    [ -e "$dir/libsimt.so" ] || host "$dir/libsimt.so" $lanes tests/lanes/libsimt.c tests/lanes/libsimt_cuda.c tests/lanes/simt.c -pthread ;;
sm_*)
    "$clang" -x cuda --cuda-gpu-arch="$arch" -nocudainc -nocudalib -S -Wno-unknown-cuda-version -std=c++20 --cuda-device-only -O3 -ffp-contract=on \
        "-DRANKS=$gpus" -I . -o "$module" tests/device/collective_kernels.c ;;
*)
    # shellcheck disable=SC2086
    "$clang" -x hip --offload-arch="$arch" --no-gpu-bundle-output -nogpulib -nogpuinc -mcode-object-version=5 -std=c++20 --cuda-device-only -O3 -ffp-contract=on \
        -munsafe-fp-atomics -DFORGE_NO_PDL $small "-DRANKS=$gpus" -I . -o "$module" tests/device/collective_kernels.c ;;
esac
[ -z "${BUILD-}" ] || exit 0
case $place in
lanes)
    FORGE_HIP_LIBRARY=$dir/libsimt.so FORGE_SIMT_DEVICES=$gpus "$program" simt "$module" --rounds 6 --repeats 2 --no-library "$@" ;;
sim:*)
    FORGE_HIP_LIBRARY=${GFXSIM:?the path of libgfxsim.so} FORGE_GFXSIM_CHIP=$arch FORGE_GFXSIM_DEVICES=$gpus \
        "$program" "$arch" "$module" --rounds 2 --repeats 1 --no-library "$@" ;;
*)  "$program" "$arch" "$module" "$@" ;;
esac
