#!/bin/sh
# compile.sh FILE.c [-Dname=value ...]: compiles a source of GPU kernels for the four targets and prints what each kernel uses.
# KEEP=DIR keeps the code objects, DIR/NAME.gfx942.co, and assembly, DIR/NAME.gfx942.s.
# Exit code 1 if a kernel does not compile, spills or needs scratch.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
file=$1; shift
name=$(basename "$file" .c)
dir=${KEEP:-$(mktemp -d)}
mkdir -p "$dir"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$dir"' EXIT
clang=${FORGEC_CLANG:-clang-19}
failed=0
for arch in gfx1100 gfx1151 gfx942; do
    case $arch in gfx11*) halves='-Xclang -target-feature -Xclang -real-true16' ;; *) halves= ;; esac
    for out in "-o $dir/$name.$arch.co" "-S -o $dir/$name.$arch.s"; do
        # shellcheck disable=SC2086
        "$clang" -x hip -std=c++20 --cuda-device-only --offload-arch=$arch --no-gpu-bundle-output -nogpulib -nogpuinc -O3 -ffp-contract=on -Wall -Wextra \
            -fno-hip-fp32-correctly-rounded-divide-sqrt -fgpu-flush-denormals-to-zero -munsafe-fp-atomics -mcode-object-version=5 $halves \
            -I "$root" "$@" $out "$file" || { failed=1; continue 2; }
    done
    llvm-readelf-19 --notes "$dir/$name.$arch.co" | awk -v arch=$arch '
        /\.agpr_count:/ { agpr = $2 } /\.name: / && !/amdhsa/ { name = $2 } /\.private_segment_fixed_size:/ { scratch = $2 } /\.sgpr_count:/ { sgpr = $2 }
        /\.sgpr_spill_count:/ { sspill = $2 } /\.vgpr_count:/ { vgpr = $2 }
        /\.vgpr_spill_count:/ { printf "%-8s %-40s VGPR %3d AGPR %3d SGPR %3d scratch %d spills %d/%d\n", arch, name, vgpr, agpr, sgpr, scratch, $2, sspill
                                if (scratch > 0 || $2 > 0) bad = 1 }
        END { exit bad }' || failed=1
done
"$clang" -x cuda -std=c++20 --cuda-device-only --cuda-gpu-arch=sm_90 -nocudainc -nocudalib -O3 -ffp-contract=on -S -Wno-unknown-cuda-version --cuda-feature=+ptx85 -Wall -Wextra \
    -I "$root" "$@" -o "$dir/$name.sm_90.ptx" "$file" || failed=1
grep -l '\.local' "$dir/$name.sm_90.ptx" 2>/dev/null | sed 's/.*/sm_90    uses local memory (a stack frame)/'
if command -v ptxas >/dev/null; then ptxas -arch=sm_90 -v "$dir/$name.sm_90.ptx" -o /dev/null 2>&1 | grep -E 'error|Compiling|registers|spill'; fi
exit $failed
