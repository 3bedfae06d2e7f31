#!/bin/bash
# docs_commands.sh BUILD CMAKE -- runs the commands of README.md, docs/server.md, docs/tour/README.md and, if full, docs/embedding.md, in order, in a copy of the tree, and compares
# the output that the tour quotes with theirs.  BUILD: a finished build of this tree, CMAKE: the cmake that made it.
# Commands are the lines of fenced blocks without a language; `text` blocks are patterns or output.  Some commands are replaced for the test:
#   ./setup.sh test     is left out: this is one of its tests
#   cmake --build       builds the named targets in BUILD, which is already complete, and puts the products where the page expects them
#   forgec compare      runs one round instead of eight
#   MODEL.gguf          is the bundled model
#   make_gguf           is the make_gguf of BUILD
#   "on the machine with the GPU" in a comment: without a GPU, exit code 8 with its sentence is accepted
#   apt-get, sudo       install nothing: the packages that setup.sh requests are installed, or this test fails
#   curl                fails if the answer is an error, and keeps other answers, so that their form is checked
#   clang-19, ld.lld-19 are another version if only that is installed
build=$1 cmake=$2
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
tree=$tmp/tree
[ "$(uname -m)" = x86_64 ] || lacks "the commands are those of a PC (-t x86-64-v4, --simulate)"

mkdir -p "$tree/build" "$tmp/bin"
(cd "$root" && tar -cf - --exclude=./tests/data --exclude=./build --exclude=./.git .) | tar -xf - -C "$tree" || exit 1
mkdir -p "$tree/tests/data"
(cd "$root/tests/data" && tar -cf - golden/*.json tiny/*.json) | tar -xf - -C "$tree/tests/data"      # lists that CMake reads when it configures

# ---- stand-ins ----
cat > "$tmp/bin/cmake" <<END
#!/bin/bash
set -e
case "\$*" in
--version | "--preset release") exec "$cmake" "\$@" ;;
"--build build/release "*) ;;
*) echo "docs_commands.sh has no stand-in for cmake \$*" >&2; exit 1 ;;
esac
shift 2
[ "\$1" = --target ] || { echo "a reader waits for all tests to be built: name the targets" >&2; exit 1; }
"$cmake" --build "$build" "\$@"
cp "$build/forgec" build/release/
[ "\$2" != product ] || cp "$build/libgfxsim.so" build/release/
END
printf '#!/bin/sh\necho "a test installs nothing" >&2\nexit 1\n' > "$tmp/bin/apt-get"
cp "$tmp/bin/apt-get" "$tmp/bin/sudo"
cat > "$tmp/bin/curl" <<END
#!/bin/bash
body=\$("$(command -v curl)" -f "\$@") || exit
printf '%s\n' "\$body"
printf '%s\n' "\$*" "\$body" > "$tmp/answers/\$(ls "$tmp/answers" | wc -l)"
END
mkdir "$tmp/answers"
ln -s "$build/tests/tools/make_gguf" "$tmp/bin/make_gguf"
chmod +x "$tmp/bin/"*
newest() { for v in '' -19 -20 -21 -22 -23 -24 -25; do if command -v "$1$v" > /dev/null && [ -z "$v" ]; then continue; fi; command -v "$1$v" && return; done; command -v "$1"; }
for tool in clang ld.lld; do command -v $tool-19 > /dev/null || ln -s "$(newest $tool)" "$tmp/bin/$tool-19"; done
for folder in . examples/appliance; do ln -s "$tree/examples/storyteller/storyteller-7m-q4_k_m.gguf" "$tree/$folder/MODEL.gguf"; done

# ---- the commands of a page as a script, every line with its place ----
commands_of() {
    awk -v page="$1" '
        /^```/ { inside = !inside; commands = inside && $0 == "```"; next }
        commands && NF {
            line = $0
            if (line ~ /^\.\/setup\.sh test/) next
            sub(/^forgec compare /, "&-r 1 ", line)
            if (line ~ /# on the machine with the GPU/) line = "with_gpu " line
            printf "at=%s:%d; what=%s\n%s\n", page, NR, quoted($0), line
        }
        function quoted(s) { gsub(/\047/, "\047\\\047\047", s); return "\047" s "\047" }
    ' "$root/$1"
}
run_page() {
    {
        cat <<'END'
set -eE -o pipefail
trap 'echo "FAILED $at: $what" >&3' ERR
with_gpu() {
    "$@" && return
    code=$?
    [ $code -eq 8 ] || { echo "exit code $code, 0 or 8 wanted"; return 1; }
}
END
        commands_of "$1"
    } > "$tmp/script"
    [ "$(grep -c '^at=' "$tmp/script")" -ge "$2" ] || bad "$1: fewer than $2 commands found"
    (cd "$tree" && PATH=$tmp/bin:$PATH bash "$tmp/script" < /dev/null 3> "$tmp/failed" > "$tmp/log" 2>&1) || { cat "$tmp/failed"; tail -n 20 "$tmp/log"; bad "$1"; }
    tests=$((tests + $(grep -c '^at=' "$tmp/script")))
}
run_page README.md 15
export PATH=$tree/build/release:$PATH                  # as README says
[ -z "$full" ] || run_page docs/embedding.md 4      # else tests/library/run_examples.sh builds them
run_page docs/tour/README.md 6
run_page docs/server.md 20

# ---- the answers to the examples with curl: a check for each ----
# answered REQUEST PATTERN...: exactly one request matches REQUEST, and its answer has a line for each PATTERN; the first PATTERN matches the beginning of the answer
answered() {
    name="curl $1"
    files=()
    for f in "$tmp"/answers/*; do [[ $(head -n 1 "$f") =~ $1 ]] && files+=("$f"); done
    [ ${#files[@]} -eq 1 ] || { bad "${#files[@]} such requests"; return; }
    tail -n +2 "${files[0]}" > "$tmp/out"
    head -n 1 "$tmp/out" | grep -qE -e "^$2" || bad "the answer does not begin with $2"
    for pattern in "${@:3}"; do grep -qE -e "$pattern" "$tmp/out" || bad "no $pattern"; done
    rm "${files[0]}"
    tests=$((tests + 1))
}
: > "$tmp/err"
usage='"usage":\{"prompt_tokens":[0-9]+,"completion_tokens":20,"total_tokens":[0-9]+,"prompt_tokens_details":\{"cached_tokens":[0-9]+\}\}'
timings='"timings":\{"cache_n":[0-9]+,.*"predicted_per_second":[0-9.]+\}\}$'
completion='\{"id":"cmpl-[0-9a-f]+","object":"text_completion","created":[0-9]+,"model":"[^"]+","system_fingerprint":"[^"]+","choices":\[\{"index":0,"text":"'
chat='\{"id":"chatcmpl-[0-9a-f]+","object":"chat\.completion","created":[0-9]+,"model":"[^"]+","system_fingerprint":"[^"]+","choices":\[\{"index":0,"message":\{"role":"assistant","content":'
delta='^data: \{"id":"chatcmpl-[0-9a-f]+","object":"chat\.completion\.chunk",.*"delta":\{'
answered '/v1/completions .*"seed": 1' "$completion.+\",\"logprobs\":null,\"finish_reason\":\"length\"\}\],$usage,$timings"
answered '/v1/completions .*"stream": true' "data: $completion" '"text":"","logprobs":null,"finish_reason":"(length|stop)"\}\]\}$' '^data: \[DONE\]$'
answered '/v1/models' '\{"object":"list","data":\[\{"id":"[^"]+","object":"model",.*\}\]\}$'
answered '/tokenize' '\{"tokens":\[\{"id":[0-9]+,"piece":"Once"\}(,\{"id":[0-9]+,"piece":"[^"]+"\})+\]\}$'
answered '/metrics' '# HELP ' '^# TYPE llamacpp:tokens_predicted_total counter$' '^llamacpp:tokens_predicted_total [0-9]+$'
answered '/v1/chat/completions .*"stream": true' 'data: .*"delta":\{"role":"assistant","content":""\}' "$delta\"content\":\".+\"\}" \
    "$delta\},\"logprobs\":null,\"finish_reason\":\"length\"" "^data: .*\"choices\":\[\],$usage,$timings" '^data: \[DONE\]$'
answered '/v1/chat/completions .*json_schema' "$chat"'"\{.*\\"name\\":.*\\"kind\\":.*\\"(king|fox)\\".*\}",.*"finish_reason":"stop"'
answered '/v1/chat/completions .*"tools"' "$chat"'null,"tool_calls":\[\{"id":"call_[0-9a-f]+","type":"function","function":\{"name":"add","arguments":"\{.*\\"a\\":.*[0-9].*\}"\}\}\],.*"finish_reason":"tool_calls"'
answered '/v1/responses' '\{"id":"resp_[0-9a-f]+","object":"response",.*"status":"incomplete",.*"output":\[\{"type":"message",.*"usage":\{"input_tokens":[0-9]+,.*"output_tokens":20,.*\}\}$'
answered '/v1/messages -d' '\{"id":"msg_[0-9a-f]+","type":"message",.*"content":\[\{"type":"text","text":".+"\}\],"stop_reason":"max_tokens",.*"output_tokens":20\}\}$'
answered '/v1/messages/count_tokens' '\{"input_tokens":[0-9]+\}$'
answered '/apply-template' '\{"prompt":"<user>Tell\\n<assistant>"\}$'
name='curl /health'
for f in "$tmp"/answers/*; do
    [[ $(head -n 1 "$f") == *"/health" ]] || { bad "no check for: $(head -n 1 "$f")"; continue; }
    [ "$(tail -n +2 "$f")" = '{"status":"ok"}' ] || bad "$(cat "$f")"
done

# ---- output that other pages quote ----
# shown PAGE NAME: every line of the page's block that begins with NAME is in $tmp/shown, the output of the command
shown() {
    awk -v first="$2" '/^```/ { inside = !inside; wanted = 0; next } inside && index($0, first) == 1 { wanted = found = 1 } wanted; END { exit !found }' "$root/$1" > "$tmp/quoted" ||
        { bad "$1 has no block with $2"; return; }
    sed -i -E 's/(\.yaml:)[0-9]+:/\1LINE:/' "$tmp/shown" "$tmp/quoted"          # built-in files grow
    grep -vxFf "$tmp/shown" "$tmp/quoted" && bad "$1 shows what forgec does not print"
}
model=$root/examples/storyteller/storyteller-7m-q4_k_m.gguf
forgec build "$model" --emit graph -o "$tmp/shown" -q && shown docs/graph.md '%0.attn_norm'
forgec build "$model" --emit plan -o "$tmp/shown" -q && shown docs/pipeline.md '#   0  embed: embed'
mkdir "$tmp/my-models"
sed 's/glu_silu %gate_bias, %up_bias/glu_silu %gate_bias, %upp/' "$root/models/transformer.yaml" > "$tmp/my-models/transformer.yaml"
! (cd "$tmp" && forgec build "$model" --models my-models --emit graph 2> "$tmp/shown") || bad "%upp is no error"; shown docs/graph.md 'forgec: error: my-models'
printf 'inherits: x86-64-v3\ndescription: my Core i7-4790\ntiles: {prefill_chnk: 64}\n' > "$tmp/haswell.yaml"
! (cd "$tmp" && forgec build "$model" -t haswell.yaml --emit plan 2> "$tmp/shown") || bad "prefill_chnk is no error"; shown docs/target.md 'forgec: error: haswell.yaml'

# ---- the tour: the lines that the page quotes are in the output of its commands ----
tour=$tree/story-gfx1151.hip
cat "$tour" "$tree/parts/model.c" > "$tmp/shown" || bad "the tour's commands left no $tour or parts/model.c"
awk '/^```/ { inside = $0 == "```c"; next } inside' "$root/docs/tour/README.md" | grep -vxFf "$tmp/shown" > "$tmp/stale" && { bad "docs/tour/README.md shows code that forgec does not emit:"; cat "$tmp/stale"; }
# the number of registers depends on clang, so the report is compared only with the clang that the page names
if head -n 1 "$tour" | grep -qF "clang $(sed -n 's/.*registers of clang \([0-9.]*[0-9]\).*/\1/p' "$root/docs/tour/README.md")"; then
    (cd "$tree" && forgec build story-q8_0.gguf -t gfx1151 --emit plan -q -o "$tmp/plan") || bad "--emit plan"
    diff <(awk '/^```/ { inside = $0 == "```text"; next } inside' "$root/docs/tour/README.md") <(sed -n '/^# .*: context /,/^$/{s/^#\(    \)/\1/;p}' "$tmp/plan" | grep .) || bad "docs/tour/README.md shows another report"
fi

# ---- README's recording: its commands run, and the kernel that it shows is what forgec emits ----
sh "$root/docs/recording.sh" "$build/forgec" "$tmp/recording.svg" || bad "docs/recording.sh"
recorded() { sed 's/ y="[0-9]*"//; s/:[0-9]*ms//' "$1" | awk '/class="l c"/; />KERNEL\(/ { on = 1 } on'; }
recorded "$root/docs/recording.svg" > "$tmp/shown"
recorded "$tmp/recording.svg" > "$tmp/drawn"
name=docs/recording.svg
same "$tmp/shown" "$tmp/drawn" "docs/recording.sh build/release/forgec draws it anew"
tests=$((tests + 1))
summary commands
