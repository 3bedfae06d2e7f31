#!/bin/sh
# compile.sh CHIP FILE.c OUT.co: compiles kernels in the project's dialect for one chip, with the flags of compiler/build/cc.c and tests/device/compile.sh.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
exec "${FORGEC_CLANG:-clang-19}" -x hip -std=c++20 --cuda-device-only --offload-arch="$1" --no-gpu-bundle-output -nogpulib -nogpuinc -O3 -Wall -Wextra \
    -fno-hip-fp32-correctly-rounded-divide-sqrt -fgpu-flush-denormals-to-zero -munsafe-fp-atomics -mcode-object-version=5 -I "$root" -o "$3" "$2"
