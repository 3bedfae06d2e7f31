#!/bin/sh
# run.sh PROGRAM NODE_MODULES [OPTIONS] -- the kernels of templates/webgpu under Node, on SwiftShader: PROGRAM (formats.c, gemm.c) writes them with their
# inputs and what should come out, run.mjs runs them.
# NODE_MODULES: what `npm ci` made of package.json.  OPTIONS: as of tests/kernel/run.sh, such as --format q4_K.
# From the environment: VK_ICD_FILENAMES, a Vulkan driver other than SwiftShader; TEMPLATES=DIR, templates other than those in PROGRAM;
# KEEP=DIR keeps what PROGRAM writes; DENO=PROGRAM runs it under Deno instead.
program=$(realpath "$1") modules=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
node=$(command -v node || command -v nodejs) || skip "there is no node (Debian: apt-get install nodejs)"
"$node" -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node is $("$node" --version), 18 or newer is needed"
[ -d "$modules/webgpu" ] || skip "WebGPU for node is not installed: copy $here/package*.json to $(dirname "$modules") and say npm ci there, as setup.sh test does"
modules=$(realpath "$modules")
# Debian has SwiftShader in the package of chromium, beside that, with the library that finds drivers.
if [ -z "${VK_ICD_FILENAMES-}" ]; then
    for folder in /usr/lib/chromium /usr/lib/chromium-browser /usr/lib64/chromium; do [ ! -f "$folder/vk_swiftshader_icd.json" ] || break; done
    [ -f "$folder/vk_swiftshader_icd.json" ] || skip "there is no SwiftShader (Debian: apt-get install chromium)"
    export VK_ICD_FILENAMES="$folder/vk_swiftshader_icd.json" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
fi
work=${KEEP:-$tmp/work}
mkdir -p "$work" && cd "$work" || exit 1
ln -sfn "$modules" node_modules
cp "$here/run.mjs" .
KERNELS=$here "$program" --seed 1 "$@" || exit 1
if [ -n "${DENO-}" ]; then "$DENO" run -A --unstable-webgpu run.mjs; else "$node" run.mjs; fi
