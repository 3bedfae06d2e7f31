#!/bin/sh
# run.sh TARGET [DIR] -- boots what build.sh made in QEMU: on a terminal, leave with Ctrl-A X.
set -eu
target=${1:?usage: run.sh TARGET [DIR]}
image=${2:-appliance-$target}/image.bin elf=${2:-appliance-$target}/image.elf
riscv() { exec qemu-system-riscv64 -M virt -cpu "$1" -m 128M -nic none -bios none -drive "if=pflash,unit=0,format=raw,readonly=on,file=$image" -nographic; }
case $target in
aarch64-none) exec qemu-system-aarch64 -M virt -cpu cortex-a53 -m 128M -nic none -bios "$image" -nographic -semihosting ;;
riscv64)      riscv rv64 ;;
riscv64-v)    riscv rv64,v=true,vlen=128 ;;
cortex-m7)    exec qemu-system-arm -M mps2-an500 -kernel "$elf" -nographic -semihosting ;;
cortex-m55)   exec qemu-system-arm -M mps3-an547 -kernel "$elf" -nographic -semihosting ;;
*) echo "run.sh: no board for the target $target" >&2; exit 2 ;;
esac
