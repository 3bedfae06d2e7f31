#!/bin/sh
# Runs test_devices.c on libsimt.so, all compiled with FLAGS, for example "-fsanitize=thread -DSTEPS=40", if these work.
#   run_devices.sh CLANG [FLAGS]
export TSAN_OPTIONS=halt_on_error=1
clang=$1 flags=${2-} root=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
cd "$root" || exit 1
if [ -n "$flags" ]; then
    # shellcheck disable=SC2086  # flags are words
    { echo 'int main(void) { return 0; }' | "$clang" -x c $flags -o "$tmp/probe" - && "$tmp/probe"; } 2> "$tmp/err" ||
        { echo "$flags does not work here: $(head -n 1 "$tmp/err")"; exit 77; }
fi
# shellcheck disable=SC2086
compile() { "$clang" -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -O1 -g -Wall -Wextra -Werror -I . -march=x86-64-v3 $flags "$@"; }
lanes=tests/lanes
compile -fPIC -shared -o "$tmp/libsimt.so" $lanes/libsimt.c $lanes/libsimt_cuda.c $lanes/simt.c || exit 1
compile -fPIC -shared -o "$tmp/module.so" $lanes/devices_kernels.c || exit 1
compile -pthread -o "$tmp/test" $lanes/test_devices.c runtime/device/device.c runtime/device/driver_library.c runtime/run/status.c -ldl || exit 1
"$tmp/test" "$tmp/libsimt.so" "$tmp/module.so"
