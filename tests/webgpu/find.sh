# find.sh -- sourced by scripts that run WebGPU in Node.  $modules: the folder that `npm ci` made from package.json.  Sets $node and a driver, SwiftShader
# unless VK_ICD_FILENAMES names another.  Skips the test if something is missing.
node=$(command -v node || command -v nodejs) || skip "there is no node (Debian: apt-get install nodejs)"
"$node" -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node is $("$node" --version), 18 or newer is needed"
[ -d "$modules/webgpu" ] || skip "WebGPU for node is not installed: copy tests/webgpu/package*.json to $(dirname "$modules") and say npm ci there, as setup.sh test does"
modules=$(realpath "$modules")
# Debian's package of chromium contains SwiftShader, with the library that finds drivers.
if [ -z "${VK_ICD_FILENAMES-}" ]; then
    for folder in /usr/lib/chromium /usr/lib/chromium-browser /usr/lib64/chromium; do [ ! -f "$folder/vk_swiftshader_icd.json" ] || break; done
    [ -f "$folder/vk_swiftshader_icd.json" ] || skip "there is no SwiftShader (Debian: apt-get install chromium)"
    export VK_ICD_FILENAMES="$folder/vk_swiftshader_icd.json" LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder"
fi
