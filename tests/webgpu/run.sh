#!/bin/sh
# run.sh PROGRAM NODE_MODULES [OPTIONS] -- the kernels of templates/webgpu under Node, on SwiftShader: PROGRAM (formats.c) writes them with their
# inputs and expected results; run.mjs, or for webgpu_NAME NAME.mjs, runs them.
# NODE_MODULES: the folder that `npm ci` made from package.json.  OPTIONS: as for tests/kernel/run.sh, such as --format q4_K.
# From the environment: VK_ICD_FILENAMES, a Vulkan driver instead of SwiftShader; TEMPLATES=DIR, templates instead of those in PROGRAM;
# KEEP=DIR keeps the files that PROGRAM writes; DENO=PROGRAM runs them under Deno instead.
program=$(realpath "$1") modules=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
. "$here/find.sh"
work=${KEEP:-$tmp/work}
mkdir -p "$work" && cd "$work" || exit 1
ln -sfn "$modules" node_modules
script=${program##*/webgpu_}.mjs
[ -f "$here/$script" ] || script=run.mjs
cp "$here/gpu.mjs" "$here/$script" .
cp "$here/../../runtime/web/gpu.js" engine.mjs
KERNELS=$here "$program" --seed 1 "$@" || exit 1
if [ -n "${DENO-}" ]; then "$DENO" run -A --unstable-webgpu "$script"; else "$node" "$script"; fi
