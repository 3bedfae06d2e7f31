#!/bin/sh
# run_bundlers.sh FORGEC GOLDEN NODE_MODULES [CHROMIUM] -- folders for pages as packages of an application (bundlers/): their types under
# tsc --strict, and what esbuild and vite make of the application, in Chromium.  GOLDEN: a golden model without its suffix.
# NODE_MODULES: the folder that `npm ci` made from bundlers/package.json.
set -eu
forgec=$1 golden=$2 modules=$3 chromium=${4-}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
node=$(command -v node || command -v nodejs) || skip "there is no node (Debian: apt-get install nodejs)"
"$node" -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "node is $("$node" --version), vite needs 20 or newer"
# npm 10 refuses vite's optional packages: this is skipped everywhere.
[ -d "$modules/vite" ] || lacks "the bundlers are not installed: copy $here/bundlers/package*.json to $(dirname "$modules") and say npm ci there, as setup.sh test does"
modules=$(cd "$modules" && pwd)
app=$tmp/app
mkdir -p "$app/node_modules" "$tmp/chromium"
cp "$here"/bundlers/*.* "$app"
for name in "$modules"/* "$modules"/.bin; do ln -s "$name" "$app/node_modules/"; done

# ---- packages; the processor's last piece is so small that vite writes it into the script ----
printf 'inherits: wasm32\npiece: {value: 448, unit: KiB, source: "so that there are several"}\n' > "$tmp/pieces.yaml"
build() { check "the package $1" 0 "$forgec" build "$golden.gguf" -t "$2" -q --exact --ctx 256 -o "$app/node_modules/$1"; }
build model-processor "$tmp/pieces.yaml"
build model-gpu webgpu
build model-both webgpu,wasm32

last=$(ls -l "$app/node_modules/model-processor/weights-2.bin" | awk '{ print $5 }')
[ "$last" -lt 4096 ] || bad "the last piece has $last bytes"

for module in 'esnext --moduleResolution bundler' nodenext; do
    # shellcheck disable=SC2086  # the options are words
    check "types, module $module" 0 "$node" "$modules/typescript/bin/tsc" --noEmit --strict --target esnext --module $module --types '' \
        --lib esnext,dom,dom.iterable,dom.asynciterable "$app/types.ts"
done

# ---- the application ----
runs=
if [ -n "$chromium" ] && HOME=$tmp timeout 60 "$chromium" --headless --no-sandbox --disable-gpu --dump-dom about:blank > "$tmp/out" 2> "$tmp/err"; then runs=$chromium
elif [ -n "$chromium" ]; then echo "left out: pages: chromium does not start here"
else left_out "pages: no chromium"; fi
check "esbuild and vite" 0 env BROWSER_MODULE="$here/../server/clients/browser.mjs" timeout 600 "$node" "$app/check.mjs" "$app" "$golden" "$runs" "$tmp/chromium"
summary
