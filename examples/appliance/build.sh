#!/bin/sh
# build.sh TARGET [MODEL.gguf [DIR [CLANG-OPTION...]]] -- makes an image that QEMU boots: DIR/image.elf and, except for Cortex-M,
# DIR/image.bin, the content of the flash.  TARGET: aarch64-none, riscv64, riscv64-v, cortex-m7, cortex-m55.  FORGEC, CLANG and LLD name
# the tools; FORGEC_OPTIONS are options for forgec.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
target=${1:?usage: build.sh TARGET [MODEL.gguf [DIR [CLANG-OPTION...]]]}
model=${2:-$here/../storyteller/storyteller-7m-q4_k_m.gguf}
out=${3:-appliance-$target}
if [ $# -lt 3 ]; then shift $#; else shift 3; fi
find_tool() { command -v "$1-19" || echo "$1"; }        # Debian's newer clang beside an old default
forgec=${FORGEC:-forgec} clang=${CLANG:-$(find_tool clang)} lld=${LLD:-$(find_tool ld.lld)}

case $target in
aarch64-none) board=aarch64 flags='--target=aarch64-none-elf -march=armv8-a' ;;
riscv64)      board=riscv64 flags='--target=riscv64-none-elf -march=rv64gc -mabi=lp64d -mcmodel=medany -mno-relax -msmall-data-limit=0' ;;
riscv64-v)    board=riscv64 flags='--target=riscv64-none-elf -march=rv64gcv -mabi=lp64d -mcmodel=medany -mno-relax -msmall-data-limit=0' ;;
cortex-m7)    board=cortex-m flags='--target=thumbv7em-none-eabihf -mcpu=cortex-m7 -mfloat-abi=hard' ;;
cortex-m55)   board=cortex-m flags='--target=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55 -mfloat-abi=hard' ;;
*) echo "build.sh: no board for the target $target; there are aarch64-none, riscv64, riscv64-v, cortex-m7, cortex-m55" >&2; exit 2 ;;
esac
mkdir -p "$out"

# 1. the model: an object with its weights, and model.h
# shellcheck disable=SC2086  # options are words
"$forgec" build "$model" -q -t "$target" --emit obj --prefix model -o "$out/model.o" ${FORGEC_OPTIONS:-}

# 2. the firmware
compile() {
    # shellcheck disable=SC2086
    "$clang" $flags -std=c11 -O2 -ffreestanding -fno-builtin -Wall -Wextra -I "$out" -I "$here" -c "$@"
}
compile "$here/main.c" -o "$out/main.o" "$@"
compile "$here/string.c" -o "$out/string.o"
compile "$here/$board/board.c" -o "$out/board.o"
compile "$here/$board/start.S" -o "$out/start.o"

# 3. one image of all functions that are called
link() { "$lld" -static --gc-sections -L "$here" -T "$here/$board/link.ld" "$@" "$out/start.o" "$out/board.o" "$out/string.o" "$out/main.o" "$out/model.o"; }
link -o "$out/image.elf"
case $board in                  # QEMU wants all of a RISC-V board's flash; it loads image.elf into the boards of Cortex-M
aarch64) link --oformat=binary -o "$out/image.bin" ;;
riscv64) link --oformat=binary -o "$out/image.bin"; truncate -s 32M "$out/image.bin" ;;
esac
