#!/bin/sh
# run_drivers.sh FORGEC MODEL.gguf MAKE_GGUF LIBGFXSIM LIBDRIVER -- AMD drivers and machines as they occur: libdriver.c imitates the faults of
# runtimes, a fake /sys the machines, the simulator the chips.  If a program can continue, its text is the same; --check reports the fault, its reason and a remedy.
forgec=$1 model=$2 make=$3 libgfxsim=$4 libdriver=$5
unset FORGE_PROGRAM FORGE_NO_GRAPH HSA_OVERRIDE_GFX_VERSION ROCM_PATH HIP_PATH VIRTUAL_ENV CONDA_PREFIX HIP_VISIBLE_DEVICES
. "$(dirname "$0")/../harness.sh"
export DRIVER_OF="$libgfxsim" FORGE_HIP_LIBRARY="$libdriver" FORGE_GFXSIM_THREADS=1
for chip in gfx1151 gfx942; do "$forgec" build "$model" -t $chip -q -o "$tmp/$chip" </dev/null || exit 1; done
run="--tokens 1,2 -n 3 --temp 0 --print-tokens -q"
check plain 0 "$tmp/gfx1151" $run; err_empty; text=$(cat "$tmp/out")
check plain-942 0 "$tmp/gfx942" $run; err_empty; text942=$(cat "$tmp/out")

# ---- graphs that cannot be made, or launched ----
for what in hipGraphInstantiate:2 hipGraphInstantiate:801 hipStreamBeginCapture:900 hipStreamEndCapture:901 hipGraphLaunch:1; do
    check "$what" 0 env DRIVER_FAIL=$what "$tmp/gfx1151" $run; out_is "$text"; one_line; err_has "one by one, as with --no-graph"
    check "$what is not wanted" 0 env DRIVER_FAIL=$what "$tmp/gfx1151" $run --no-graph; out_is "$text"; err_empty
done
check "no graph is told" 0 env DRIVER_FAIL=hipGraphInstantiate:801 "$tmp/gfx1151" --check; out_has "WARN  graphs"; out_has "OK    values"
# ---- ... or are known to be replayed incorrectly ----
check "known to be wrong" 0 env DRIVER_VERSION=70226015 "$tmp/gfx942" $run; out_is "$text942"; one_line; err_has "ROCm/clr issue 279"
check "of another chip" 0 env DRIVER_VERSION=70226015 "$tmp/gfx1151" $run; out_is "$text"; err_empty
for version in 70160000 71300000; do check "version $version" 0 env DRIVER_VERSION=$version "$tmp/gfx942" $run; out_is "$text942"; err_empty; done
check "graphs are wanted" 0 env DRIVER_VERSION=70226015 "$tmp/gfx942" $run --graph; out_is "$text942"; err_empty
check "none is wanted" 0 env DRIVER_VERSION=70226015 "$tmp/gfx942" $run --no-graph; out_is "$text942"; err_empty
check "both are wanted" 2 "$tmp/gfx942" $run --no-graph --graph; err_has "cannot be combined"
check "it is told" 0 env DRIVER_VERSION=70226015 "$tmp/gfx942" --check; out_has "WARN  graphs     ROCm 7.2 replays graphs wrong on MI300X"

# ---- versions ----
check "too old for the chip" 0 env DRIVER_VERSION=70100000 "$tmp/gfx1151" --check; out_has "WARN  version    gfx1151 needs HIP 7.2 or newer"
check "too old, as it runs" 0 env DRIVER_VERSION=70100000 "$tmp/gfx1151" $run; out_is "$text"; one_line; err_has "HIP 7.2"
check "new enough" 0 env DRIVER_VERSION=70200000 "$tmp/gfx1151" --check; out_lacks "WARN  version"
check "too old for all" 8 env DRIVER_VERSION=40500000 "$tmp/gfx1151" --check; out_has "FAIL  library"

# ---- wrong values: found whatever the driver's version ----
check values 0 "$tmp/gfx1151" --check; out_has "OK    values     a kernel computes the right values: launched one by one, in a graph, and in a graph right after a copy"
wrong() { check "values, $1" 10 env "$1" "$tmp/gfx1151" --check; out_has "FAIL  values     wrong values from $2"; }
wrong DRIVER_STALE=1 "graphs right after a copy to the GPU, which --no-graph avoids"
wrong DRIVER_LOST=200 "graphs, which --no-graph avoids"
wrong DRIVER_MIXED=1 "graphs, which --no-graph avoids"
wrong DRIVER_WRONG=1 "a kernel that is launched as it should be"
check "values without graphs" 0 env DRIVER_STALE=1 "$tmp/gfx1151" --check --no-graph; out_has "OK    values     a kernel computes the right values: launched one by one"
"$forgec" build "$model" -t gfx942x2 -q -o "$tmp/two" </dev/null || exit 1
export FORGE_GFXSIM_DEVICES=2
check passing 0 "$tmp/two" --check; out_has "OK    passing    the GPUs' kernels read the values that kernels of other GPUs store"
check "lost on the way" 10 env DRIVER_NO_STORES=1 "$tmp/two" --check; out_has "FAIL  passing    wrong values on the way from "; out_has "which FORGE_NO_PEER=1 avoids"
check "through the host" 0 env FORGE_NO_PEER=1 "$tmp/two" --check; out_has "OK    passing"; out_has "through the host's memory"
unset FORGE_GFXSIM_DEVICES

# ---- memory in several allocations: activations take 1.9 MiB, the weights more ----
"$make" --shape tinyllama --layers 3 --embd 256 --ff 1024 --heads 4 --kv-heads 4 --head-dim 64 --vocab 512 --type Q8_0 --tokenizer none -o "$tmp/wide.gguf" || exit 1
"$forgec" build "$tmp/wide.gguf" -t gfx1151 --ctx 64 -q -o "$tmp/wide" </dev/null || exit 1
check "one allocation" 0 "$tmp/wide" $run; err_empty; whole=$(cat "$tmp/out")
needs=$("$tmp/wide" --check </dev/null | sed -n 's/.*activations \([0-9]*\).*/\1/p')
most=$(((needs + 1) * 1048576))
check "several allocations" 0 env DRIVER_MOST=$most "$tmp/wide" $run; out_is "$whole"; err_empty
check "several are told" 0 env DRIVER_MOST=$most "$tmp/wide" --check; out_has "parts: the driver refuses more at once"
check "activations are one" 5 env DRIVER_MOST=100000 "$tmp/wide" $run; one_line; err_has "MiB are free: the driver refuses one allocation of that size"
check "it is tried" 5 env DRIVER_MOST=100000 "$tmp/wide" --check; out_has "FAIL  memory"

# ---- choice among several GPUs: by the driver's properties, or by whether the driver loads the code ----
check "the second by properties" 0 env FORGE_GFXSIM_DEVICES=2 DRIVER_GFX=gfx1036,gfx1151 "$tmp/gfx1151" --check; out_has "2 of 2: gfxsim, gfx1151"
check "the second takes the code" 0 env FORGE_GFXSIM_CHIP=gfx942,gfx1151 "$tmp/gfx1151" $run; out_is "$text"       # the simulator reports on stderr what it refuses
check "it is the second" 0 env FORGE_GFXSIM_CHIP=gfx942,gfx1151 "$tmp/gfx1151" --check; out_has "2 of 2"
check "none takes the code" 9 env FORGE_GFXSIM_CHIP=gfx942,gfx1100 "$tmp/gfx1151" $run; err_has "and none of them can run its code"
check "no target" 9 env DRIVER_GFX=gfx1103 "$tmp/gfx1151" $run; one_line
err_has "(gfx1103), for which forgec has no target (it has gfx1100, gfx1151, gfx942): build it for the processor, with -t native"
check "another target" 9 env DRIVER_GFX=gfx1100 "$tmp/gfx1151" $run; one_line; err_has "build it again with -t gfx1100"
check "overridden" 0 env DRIVER_GFX=gfx1103 HSA_OVERRIDE_GFX_VERSION=11.5.1 "$tmp/gfx1151" $run; out_is "$text"
check "overridden to another" 9 env DRIVER_GFX=gfx1151 HSA_OVERRIDE_GFX_VERSION=11.0.0 "$tmp/gfx1151" $run; err_has "by HSA_OVERRIDE_GFX_VERSION=11.0.0: build it again with -t gfx1100"

# ---- the library: in a folder of ROCm, and in Python's ----
unset FORGE_HIP_LIBRARY
mkdir -p "$tmp/rocm/lib" "$tmp/venv/lib/python3.12/site-packages/_rocm_sdk_core/lib"
ln -s "$libdriver" "$tmp/rocm/lib/libamdhip64.so.8"
check ROCM_PATH 0 env ROCM_PATH="$tmp/rocm" "$tmp/gfx1151" $run; out_is "$text"
check HIP_PATH 0 env HIP_PATH="$tmp/rocm" "$tmp/gfx1151" --check; out_has "OK    library    $tmp/rocm/lib/libamdhip64.so.8"
if ! "$tmp/gfx1151" --check </dev/null 2>/dev/null | grep -q "libamdhip64.so.[0-9]"; then
    ln -s "$libdriver" "$tmp/venv/lib/python3.12/site-packages/_rocm_sdk_core/lib/libamdhip64.so.7.15.26333"
    check "a wheel" 0 env VIRTUAL_ENV="$tmp/venv" "$tmp/gfx1151" $run; out_is "$text"
    check "no library" 8 env HOME="$tmp" "$tmp/gfx1151" $run; err_has "amdrocm-runtime"; err_has "ROCM_PATH"
fi
export FORGE_HIP_LIBRARY="$libdriver"

# ---- weights that do not fit into 16-bit floats are refused before a program is written ----
"$make" --shape tinyllama --layers 1 --embd 256 --ff 256 --heads 4 --kv-heads 4 --head-dim 64 --vocab 512 --type F32 --tokenizer none -o "$tmp/large.gguf" || exit 1
size=$(wc -c < "$tmp/large.gguf")
printf '\000\000\200\107' | dd of="$tmp/large.gguf" bs=1 seek=$((size - 64)) conv=notrunc 2>/dev/null     # 65536
refuse "beyond f16" 1 "on a GPU F32 weights must be below 65520" "$forgec" build "$tmp/large.gguf" -t gfx1151 -q -o "$tmp/no"
err_has "tensor "; err_has "is 65536"; [ ! -e "$tmp/no" ] || bad "something is there"
check "a processor has no such limit" 0 "$forgec" build "$tmp/large.gguf" -t x86-64-v3 -q -o "$tmp/yes"
printf '\000\340\177\107' | dd of="$tmp/large.gguf" bs=1 seek=$((size - 64)) conv=notrunc 2>/dev/null     # 65504
check "just within" 0 "$forgec" build "$tmp/large.gguf" -t gfx1151 -q -o "$tmp/within"

# ---- names that are not targets ----
hint() { refuse "-t $1" 1 "unknown target $1: $2" "$forgec" build "$model" -t "$1" -o "$tmp/no"; }
hint wasm "WebAssembly is wasm32"
hint arm64 "Arm is aarch64"
hint x86-64-v2 "a processor without AVX2 runs portable"
hint cuda "NVIDIA's H100 and H200 are sm_90a"
hint strix-halo "Strix Halo is gfx1151"
hint gfx1150 "it has no target of its own"
hint gfx1201 "RDNA 4 has another matrix unit"
hint sm_89 "NVIDIA's GPUs before Hopper"
hint sapphire-rapid "is it sapphire-rapids?"
printf 'inherits: gfx1151\narch: gfx1150\n' > "$tmp/own.yaml"
check "a chip with fewer registers" 0 "$forgec" build "$model" -t "$tmp/own.yaml" --emit plan; err_has "gfx1150 has 1024 registers per lane, but this target has 1536"

# ---- machines with a fake /sys, if the kernel allows mounting one ----
if unshare -m true 2>/dev/null; then
    # on VERSION GTT-MIB VRAM-MIB AVAILABLE-MIB COMMAND...: on a machine with one GPU at c4:00.0; AVAILABLE: of /proc/meminfo
    on() {
        rm -rf "$tmp/sys"
        mkdir -p "$tmp/sys/class/kfd/kfd/topology/nodes/0" "$tmp/sys/bus/pci/devices/0000:c4:00.0"
        printf 'gfx_target_version %s\nlocation_id %d\ndomain 0\n' "$1" $((0xc4 << 8)) > "$tmp/sys/class/kfd/kfd/topology/nodes/0/properties"
        echo $(($2 * 1048576)) > "$tmp/sys/bus/pci/devices/0000:c4:00.0/mem_info_gtt_total"
        echo $(($3 * 1048576)) > "$tmp/sys/bus/pci/devices/0000:c4:00.0/mem_info_vram_total"
        printf 'MemTotal: 999999999 kB\nMemFree: 1000 kB\nMemAvailable:   %d kB\n' $(($4 * 1024)) > "$tmp/meminfo"
        shift 4
        DRIVER_PCI=0000:c4:00 TMP="$tmp" unshare -m sh -c 'mount --bind "$TMP/sys" /sys && mount --bind "$TMP/meminfo" /proc/meminfo && exec "$@"' sh "$@"
    }
    check "named by the kernel" 0 on 110501 1000 512 9999 "$tmp/gfx1151" --check; out_has "1 of 1: gfxsim, gfx1151"
    check "no target of the kernel's name" 9 on 110003 1000 512 9999 "$tmp/gfx1151" $run; err_has "(gfx1103), for which forgec has no target"
    export DRIVER_INTEGRATED=1 DRIVER_FREE=$((120000 * 1048576))
    check "memory that the system has" 0 on 110501 120000 512 9999 "$tmp/gfx1151" --check; out_has "9999 of 120000 free"
    check "memory that the system has not" 5 on 110501 120000 1 1 "$tmp/gfx1151" --check; out_has "FAIL  memory"; out_has "it shares the system's memory, of which no more is available"
    check "nor as it runs" 5 on 110501 120000 1 1 "$tmp/gfx1151" $run; one_line; err_has "of which no more is available"
    check "memory of the firmware's" 0 on 110501 1000 120000 1 "$tmp/gfx1151" $run; out_is "$text"; err_empty
    unset DRIVER_INTEGRATED DRIVER_FREE
    if [ ! -e /dev/kfd ]; then
        wsl() { mkdir -p "$tmp/dev"; TMP="$tmp" DRIVER_FAIL=hipGetDeviceCount:100 unshare -m sh -c 'mount -t tmpfs t "$TMP/dev" && : > "$TMP/dev/dxg" && : > "$TMP/dev/null" && mount --bind "$TMP/dev" /dev && exec "$@"' sh "$@"; }
        check WSL 8 wsl "$tmp/gfx1151" $run; one_line; err_has "librocdxg"; err_has "HSA_ENABLE_DXG_DETECTION=1"; err_lacks "--device /dev/kfd"
    fi
    # ---- the newest of ROCm's folders ----
    unset FORGE_HIP_LIBRARY
    if ! "$tmp/gfx1151" --check </dev/null 2>/dev/null | grep -q "libamdhip64.so.[0-9]"; then
        mkdir -p "$tmp/opt/rocm/core-7.14/lib" "$tmp/opt/rocm/core-7.9/lib"
        for version in 7.9 7.14; do ln -s "$libdriver" "$tmp/opt/rocm/core-$version/lib/libamdhip64.so.7"; done
        optional() { TMP="$tmp" unshare -m sh -c 'mount --bind "$TMP/opt" /opt && exec "$@"' sh "$@"; }
        check "core-7.14" 0 optional "$tmp/gfx1151" --check; out_has "OK    library    /opt/rocm/core-7.14/lib/libamdhip64.so.7"
    fi
    export FORGE_HIP_LIBRARY="$libdriver"
fi
summary
