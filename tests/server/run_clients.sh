#!/bin/sh
# run_clients.sh FORGEC MODEL clients NODE_MODULES -- the official clients of OpenAI, Anthropic and Ollama against a program that chats
# run_clients.sh FORGEC MODEL page [CHROMIUM]      -- the page at / in a browser
# NODE_MODULES: the folder that `npm ci` made from clients/package.json.
forgec=$1 model=$2 kind=$3 more=${4-}
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
node=$(command -v node || command -v nodejs) || skip "there is no node (Debian: apt-get install nodejs)"
"$node" -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' || skip "node is $("$node" --version), 18 or newer is needed"
tests_of=page
if [ "$kind" = clients ]; then
    [ -d "$more/openai" ] && [ -d "$more/ollama" ] || skip "the clients are not installed: copy $here/clients/package*.json to $(dirname "$more") and say npm ci there, as setup.sh test does"
    tests_of='openai anthropic ollama'
    ln -s "$more" "$tmp/node_modules"
else
    [ -n "$more" ] || skip "there is no chromium (Debian: apt-get install chromium)"
    HOME=$tmp timeout 60 "$more" --headless --no-sandbox --disable-gpu --dump-dom about:blank > "$tmp/out" 2> "$tmp/err" ||
        lacks "chromium does not start here: $(grep -v dbus "$tmp/err" | tail -n 1)"
fi
cp "$here"/clients/*.mjs "$tmp"
"$forgec" build "$model" --server -q --chat-template "$here/chat.jinja" -o "$tmp/program" || exit 1
cd "$tmp" || exit 1
for test in $tests_of; do
    PROGRAM=$tmp/program CHROMIUM=$more check "$test" 0 timeout 120 "$node" "$test.mjs"
    [ "$code" -eq 0 ] || grep -A 30 '^not ok' "$tmp/out"
    tests=$((tests + $(grep -c '^ok' "$tmp/out")))
done
summary
