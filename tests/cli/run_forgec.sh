#!/bin/bash
# run_forgec.sh FORGEC MODEL.gguf -- the command line of forgec: refusals and their messages, lists, standard output,
# and that help, manual page and completion have the same options.
forgec=$1 model=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$(dirname "$0")/../harness.sh"
cd "$tmp" || exit 1

# misuse NAME TEXT HELP ARGUMENTS...: only one line, with TEXT and the help to read; exit code 2
misuse() {
    text=$2 help=$3
    name=$1; shift 3
    check "$name" 2 "$forgec" "$@"
    [ "$(cat "$tmp/err")" = "forgec: $text; see $help" ] || bad "stderr is not 'forgec: $text; see $help'"
    out_empty
}

# ---- wrong usage ----
for command in build cc verify compare inspect; do
    misuse "$command-unknown" "unknown option --nonsense" "forgec $command --help" $command --nonsense=1 m.gguf
    misuse "$command-unknown-short" "unknown option -Z" "forgec $command --help" $command -Z m.gguf
done
misuse cluster "unknown option -vZv" "forgec build --help" build -vZv m.gguf
misuse no-value "--ctx needs a value" "forgec build --help" build m.gguf --ctx
misuse no-value-short "-t needs a value" "forgec cc --help" cc m.c m.gguf -t
misuse empty-value "-o needs a value" "forgec build --help" build m.gguf -o ""
misuse empty-long "--models needs a value" "forgec build --help" build m.gguf --models ""
misuse empty-joined "--templates needs a value" "forgec verify --help" verify m.gguf --templates=
misuse empty-taken "--tokens needs a value" "forgec verify --help" verify m.gguf --tokens ""
misuse takes-none "--exact takes no value" "forgec build --help" build --exact=1 m.gguf
misuse takes-none-verbose "--verbose takes no value" "forgec build --help" build --verbose=1 m.gguf
misuse several "--t is the beginning of several options" "forgec build --help" build --t=1 m.gguf
misuse no-model "build takes one model, got 0" "forgec build --help" build
misuse cc-no-model "cc takes a source and a model, got 1" "forgec cc --help" cc m.c
misuse cc-plan "cc makes a program (--emit exe) or its assembler (asm)" "forgec cc --help" cc m.c m.gguf --emit plan
misuse command 'unknown command "nonsense"' "forgec --help" nonsense
misuse command-missing 'a command is missing: forgec build m.gguf' "forgec --help" m.gguf

# ---- options of llama.cpp's programs and of programs that forgec builds, by whole words ----
hf="forgec reads a file: hf download OWNER/MODEL-GGUF FILE.gguf --local-dir ., then forgec build FILE.gguf"
misuse hf "-hf: $hf" "forgec build --help" build -hf user/model
misuse hf-repo "--hf-repo: $hf" "forgec compare --help" compare --hf-repo=user/model
misuse md "-md: --spec ngram or mtp speculates without a second model (GPU)" "forgec build --help" build m.gguf -md x
misuse ngl "-ngl: -t TARGET says where all layers are computed (forgec targets)" "forgec tune --help" tune m.gguf -ngl 99
misuse ctk "-ctk: --kv f16, f32 or q8_0 sets the type of the KV cache" "forgec build --help" build m.gguf -ctk q8_0
misuse model "--model: the model needs no option: forgec build FILE.gguf" "forgec build --help" build --model m.gguf
for option in -c --ctx-size; do misuse "$option" "$option: --ctx N sets the longest context" "forgec build --help" build m.gguf $option 4096; done
misuse ctx-k '--ctx: "32k" is not a number from 1 to 16777216; write 32768' "forgec build --help" build m.gguf --ctx 32k
misuse temp "--temp: this is an option of the program: give it to the program, or build it in with --default OPTIONS" "forgec build --help" build m.gguf --temp 0.6
misuse flash "-fa: attention is always flash attention" "forgec build --help" build m.gguf -fa on
misuse beginning-of-help "unknown option -hx" "forgec build --help" build m.gguf -hx
misuse default-verify "verify cannot be combined with --default; forgec build takes it" "forgec verify --help" verify m.gguf --default "--temp 1"
check help-build 0 "$forgec" help build; cp "$tmp/out" "$tmp/help-build"; check build-help 0 "$forgec" build --help; same "$tmp/help-build" "$tmp/out"
misuse help-unknown 'unknown command "nonsense"' "forgec --help" help nonsense

# ---- files that are no GGUF are named as what they are ----
folder=$tmp/kinds; mkdir -p "$folder/hf"; : > "$folder/hf/config.json"
printf '\070\0\0\0\0\0\0\0{"__metadata__":{"format":"pt"}}' > "$folder/safetensors"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 5\n' > "$folder/pointer"
printf '\n<!DOCTYPE html>\n<html>' > "$folder/page"; printf '{"error":"not found"}' > "$folder/json"; printf 'PK\003\004rest' > "$folder/zip"
for kind in safetensors:Safetensors pointer:"Git LFS pointer" page:"web page" json:"JSON text" zip:"ZIP file" hf:"folder of Hugging Face" :"is a directory, not a regular file"; do
    refuse "kind ${kind#*:}" 1 "${kind#*:}" "$forgec" build "$folder/${kind%%:*}" -o "$tmp/never"
done

# ---- options that no target of the build can use ----
misuse spills-cpu "--allow-spills is not available for target x86-64-v3: it needs an AMD or NVIDIA GPU" "forgec build --help" build m.gguf -t x86-64-v3 --allow-spills
misuse spills-native "--allow-spills is not available for target native: it needs an AMD or NVIDIA GPU" "forgec verify --help" verify m.gguf --allow-spills
misuse kernel-tests-cpu "--kernel-tests is not available for target wasm32: it needs webgpu" "forgec build --help" build m.gguf -t wasm32 --kernel-tests
misuse kernel-tests-native "--kernel-tests is not available for target native: it needs webgpu" "forgec build --help" build m.gguf --kernel-tests
misuse kernel-tests-plan "--kernel-tests is for the folder that --emit exe makes" "forgec build --help" build m.gguf -t webgpu --kernel-tests --emit plan
misuse kernel-tests-weights "--kernel-tests needs the weights and cannot be combined with --weights none" "forgec build --help" build m.gguf -t webgpu --kernel-tests --weights none
misuse kernel-tests-verify "verify cannot be combined with --kernel-tests, which belongs to forgec build" "forgec verify --help" verify m.gguf -t webgpu --kernel-tests
misuse threads-gpu "--threads is not available for target gfx1151: it needs a CPU target" "forgec build --help" build m.gguf -t gfx1151 --threads 4
misuse threads-compare "--threads is not available for target sm_90: it needs a CPU target" "forgec compare --help" compare m.gguf -t sm_90 --threads 4
check threads-both 0 "$forgec" build "$model" -t sm_90,x86-64-v3 --threads 4 --allow-spills --emit graph -o -; err_empty

# ---- lists, and the files behind them ----
check targets 0 "$forgec" targets; out_has "gfx1151 "; ! grep -q "^gpu " "$tmp/out" || bad "a base is listed"; err_empty
check targets-print 0 "$forgec" targets gfx1151 --print; cmp -s "$tmp/out" "$root/targets/gfx1151.yaml" || bad "not the file"
check models-print 0 "$forgec" models --print qwen2; cmp -s "$tmp/out" "$root/models/qwen2.yaml" || bad "not the file"
check models-print-base 0 "$forgec" models transformer --print; cmp -s "$tmp/out" "$root/models/transformer.yaml" || bad "not the file"
mkdir "$tmp/dir"
printf 'inherits: portable\ndescription: a board of mine\n' > "$tmp/dir/mine.yaml"
printf 'inherits: x86-64-v3\ndescription: another description\n' > "$tmp/dir/portable.yaml"
check targets-dir 0 "$forgec" targets --targets "$tmp/dir"; out_has "a board of mine"; out_has "another description"; out_has "gfx942"
check targets-dir-names 0 "$forgec" targets --names --targets "$tmp/dir"; out_has "mine"; out_lacks "board"
check targets-dir-print 0 "$forgec" targets mine --print --targets "$tmp/dir"; cmp -s "$tmp/out" "$tmp/dir/mine.yaml" || bad "not the file"
sed 's/^architecture: qwen2/architecture: another/' "$root/models/qwen2.yaml" > "$tmp/dir/another.yaml"
check models-dir 0 "$forgec" models --models "$tmp/dir"; out_has "another"; out_has "llama"
check models-dir-print 0 "$forgec" models another --print --models "$tmp/dir"; cmp -s "$tmp/out" "$tmp/dir/another.yaml" || bad "not the file"
check targets-print-unknown 1 "$forgec" targets gfx9 --print; err_has "there is no targets/gfx9.yaml"; err_has "gfx942"
check models-print-outside 1 "$forgec" models ../dir/another --print --models "$tmp/dir"; err_has "there is no"
for option in --models --targets --templates; do
    check "no-folder $option" 1 "$forgec" build m.gguf $option "$tmp/nowhere"
    err_has "$option $tmp/nowhere: cannot open the directory: No such file or directory; check the path"
done
check no-folder-inspect 1 "$forgec" inspect m.gguf -t portable --targets "$model"; err_has "cannot open the directory: Not a directory"
check no-folder-models 1 "$forgec" models --models "$tmp/nowhere"; err_has "--models $tmp/nowhere: cannot open the directory"
[ "$("$forgec" models | grep -c '^ernie4_5')" -eq 2 ] || bad "two architectures are not listed"
"$forgec" models | LC_ALL=C sort -c || bad "the list is not sorted"
misuse targets-operand "targets takes no operands, but one NAME with --print" "forgec targets --help" targets gfx1151
misuse targets-print-none "--print needs the NAME of what to print" "forgec targets --help" targets --print
misuse models-names "unknown option --names" "forgec models --help" models --names
misuse formats-operand "formats takes no operands" "forgec formats --help" formats Q8_0

# ---- the plan of a GPU needs no compiler; the values from the compiler are left out ----
for target in gfx1151 sm_90; do
    check plan-alone-$target 0 env -u FORGEC_CLANG PATH=/nowhere "$forgec" build "$model" -t $target --emit plan -o -; err_empty
    out_has "# registers, waves and spills are not known: kernels for $target are compiled with clang"
    awk '$2 == "ffn_down" && $6 == "-" && $7 == "-" { found = 1 } END { exit !found }' "$tmp/out" || bad "ffn_down without registers wanted"
    out_has ".attn_qkv: "
done

# ---- the plan of a CPU: a line for each kernel, for any number of layers ----
check plan 0 "$forgec" build "$model" -t x86-64-v3 --emit plan -o -; err_empty
sed -n '/^# decode:/,/^# prefill:/p' "$tmp/out" > "$tmp/plan"                    # the table of decode
[ "$(grep -c ' attn_qkv_decode ' "$tmp/plan")" -eq 1 ] || bad "one line for attn_qkv_decode wanted"
layers=$("$forgec" inspect "$model" | awk '/block_count/ { print $3 }')
[ "$(awk '$2 == "attention_decode" { print $3 }' "$tmp/plan")" = "$layers" ] || bad "attention_decode of $layers layers wanted"
[ "$(awk '$2 == "attention_decode_merge" { print $3 }' "$tmp/plan")" = "$layers" ] || bad "attention_decode_merge of $layers layers wanted"
total=$(sed -n 's/.*KV cache \([0-9.]*\) MB.*/\1/p' "$tmp/out")
awk -v total="$total" '$2 == "attention_decode" { d = $3 * $6 / 1e6 - total; exit !(d < 0.001 && d > -0.001) }' "$tmp/plan" || bad "attention's bytes are not the KV cache of $total MB"
out_has "with an empty context"

# ---- packed bytes of each tensor in the plan; indices of IQ3_S become wider codes ----
wide=$(dirname "$model")/q-llama-IQ3_S.gguf
for target in x86-64-v3 gfx1151; do
    "$forgec" build "$wide" -q -t $target --emit plan -o - | sed -n 's/^#   \(.*\.weight\|.*\.bias\)  *at [0-9]*: \([0-9]*\) bytes.*/\1 \2/p' | sed 's/  */ /' | sort > "$tmp/image"
    check inspect-$target 0 "$forgec" inspect "$wide" -t $target; err_empty; out_has "program for $target, layout"
    sed -n 's/^  \([^ ]*\.\(weight\|bias\)\) .* bytes, packed  *\([0-9]*\).*/\1 \3/p' "$tmp/out" | sort > "$tmp/packed"
    [ -s "$tmp/packed" ] && cmp -s "$tmp/packed" "$tmp/image" || bad "not the bytes of the plan: $(diff "$tmp/packed" "$tmp/image" | head -n 3)"
    sum=$(awk '{ n += $2 } END { print n }' "$tmp/packed")
    awk -v sum="$sum" '$1 == "all" { sub(/.*packed */, ""); found = $1 + 0 == sum } END { exit !found }' "$tmp/out" || bad "the sum is not $sum"
done
check inspect-json 0 "$forgec" inspect "$wide" -t gfx1151 --json; err_empty; out_has '"target":	"gfx1151"'; out_has "\"packed_bytes\":	$sum"
check inspect-plain 0 "$forgec" inspect "$model"; out_lacks packed
head -c 500000 "$model" > "$tmp/cut.gguf"
check inspect-cut 0 "$forgec" inspect "$tmp/cut.gguf"; err_has "cut.gguf: the data of 10 of 20 tensors is not there: the file is cut off, or only a header"
check inspect-unknown 1 "$forgec" inspect "$model" -t gfx9; err_has "unknown target gfx9"
misuse inspect-targets "--targets needs a target: -t NAME" "forgec inspect --help" inspect m.gguf --targets .

# ---- a GPU that is not here ----
if [ ! -e /dev/kfd ]; then check simulate-hint 1 "$forgec" verify "$model" -t gfx1151; err_has "--simulate executes"; fi
if [ ! -e /dev/nvidiactl ]; then check no-simulate-hint 1 "$forgec" verify "$model" -t sm_90; err_has "cannot run here"; err_lacks "--simulate"; fi

# ---- files next to a library, and how tools find them ----
check shared 0 "$forgec" build "$model" --emit shared --prefix tiny --weights none; err_has "wrote tiny.h"; err_has "wrote tiny.pc"; err_has "wrote libtiny.so"
err_has "look for libtiny.so when they start"; err_has "-rpath,."; err_has "LD_LIBRARY_PATH"
check shared-quiet 0 "$forgec" build "$model" --emit shared --prefix tiny --weights none -q; err_empty
check lib 0 "$forgec" build "$model" --emit lib --prefix tiny --weights none; err_has "wrote tiny.pc"; err_has "wrote libtiny.a: "; err_has " MB, for "; err_lacks "LD_LIBRARY_PATH"
check obj 0 "$forgec" build "$model" --emit obj --prefix tiny --weights none; err_has "wrote tiny.h"; err_lacks "tiny.pc"

# ---- what a build says at its end ----
check said 0 "$forgec" build "$model" --ctx 64 -t portable -o said
err_has "forgec: wrote said: "; err_has " MB, for portable, context 64 of the model's "; err_has 'forgec: run it: ./said -p "Once upon a time"'
check said-quiet 0 "$forgec" build "$model" --ctx 64 -t portable -o said -q; err_empty

# ---- forgec is ended while clang and its own processes run: no file stays behind, and no process goes on ----
name=ended; tests=$((tests + 1)); code=143
mkdir tools
TMPDIR=$tmp/tools "$forgec" build "$model" -t gfx1151 --no-cache -q -o ended > "$tmp/out" 2> "$tmp/err" & building=$!
for i in $(seq 200); do [ -z "$(find tools -name '*.o')" ] || break; sleep 0.05; done
[ "$i" -lt 200 ] || bad "clang has no temporary file"
kill -TERM $building
wait $building
[ $? -eq $code ] || bad "the exit code is not $code"
sleep 0.1
[ -z "$(ls tools)" ] && [ ! -e ended ] || bad "left behind: $(find tools ended 2> /dev/null)"
[ -z "$(find /proc/[0-9]*/environ -readable 2> /dev/null | xargs grep -lF "$tmp/tools" 2> /dev/null)" ] || bad "a process goes on"

# ---- a line of progress, on a terminal only; an error takes its place ----
if command -v script > /dev/null; then
    check verify-shows 0 script -qec "'$forgec' verify '$model' --tokens 8 -t portable" /dev/null
    out_has ": building the program"; out_has "portable: judging the prompt"
    check verify-quiet 0 script -qec "'$forgec' verify '$model' --tokens 8 -t portable -q" /dev/null; out_lacks "judging"
    check build-shows 1 script -qec "FORGEC_CLANG=false '$forgec' build '$model' -t portable -o no" /dev/null; out_has "forgec: error: "
fi
check verify-silent 0 "$forgec" verify "$model" --tokens 8 -t portable; err_empty

# ---- the tokenizer: e and an acute become one letter in Qwen's own tokenizer ----
qwen="$(dirname "$forgec")/tests/data/golden/qwen3-a.gguf"
printf 'e\314\201' > "$tmp/accent"
check pre 0 "$forgec" build "$qwen" --weights none -o own; err_has "tokens are the model's own tokenizer's, not llama.cpp's"; err_has "composed (NFC)"
check pre-info 0 ./own --info; out_has "as the model's own tokenizer gives them"
check pre-tokens 0 ./own --tokenize -f "$tmp/accent"; out_has "195 169"
check pre-llama 0 "$forgec" build "$qwen" --weights none --pre llama.cpp -o theirs; err_has "tokens are llama.cpp's"
check pre-llama-info 0 ./theirs --info; out_has "as llama.cpp gives them"; out_has "--pre llama.cpp"
check pre-llama-tokens 0 ./theirs --tokenize -f "$tmp/accent"; out_has "101 204 129"
misuse pre-choice '--pre: "other" is not one of model, llama.cpp' "forgec build --help" build m.gguf --pre other

# ---- standard output: a closed pipe is not reported as an error, a full disk is ----
for arguments in "inspect $model" "build $model --emit graph -o -" "targets" "models llama --print"; do
    name="reader-gone $arguments"; tests=$((tests + 1))
    # shellcheck disable=SC2086  # arguments are words
    { sleep 0.1; "$forgec" $arguments 2> "$tmp/err"; echo $? > "$tmp/code"; } | true
    [ "$(cat "$tmp/code")" -eq 1 ] || bad "exit code $(cat "$tmp/code"), wanted 1"
    err_empty
    [ -c /dev/full ] || continue
    name="full $arguments"; tests=$((tests + 1))
    # shellcheck disable=SC2086
    "$forgec" $arguments > /dev/full 2> "$tmp/err"
    [ $? -eq 1 ] || bad "exit code, wanted 1"
    err_has "No space"
done

# ---- Ctrl-C on a terminal: the prompt begins on a new line ----
if command -v python3 > /dev/null; then
    name=interrupt; tests=$((tests + 1))
    mkfifo "$tmp/fifo"
    python3 - "$forgec" build "$model" --no-cache -t portable -o "$tmp/never" > "$tmp/out" 2> "$tmp/err" <<'END' || bad "no line of its own after ^C"
import os, pty, signal, sys, time
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
seen, sent = b"", False
while True:
    try: part = os.read(terminal, 1000)
    except OSError: break
    if not part: break
    seen += part
    if not sent: sent = os.write(terminal, b"\x03")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130, seen
assert seen.endswith(b"\r\n"), seen
END
    [ ! -e "$tmp/never" ] || bad "a program"
fi

# ---- help, manual page and completion have the same options ----
options_of() { "$forgec" $1 --help | grep -E '^ +-' | grep -oE '(^ +|, +|; +)--?[a-z#][a-z0-9#-]*' | grep -oE -- '--?[a-z#].*' | sort -u; }
page=$(sed 's/\\-/-/g; s/\\&//g' "$root/docs/forgec.1")
has_word() { case "
$2" in *[!a-z-]"$1"[!a-z-]*) ;; *) bad "$3 lacks $1" ;; esac; }
for command in build cc verify compare inspect targets models; do
    name="options of $command"; tests=$((tests + 1)); : > "$tmp/err"
    options=$(options_of $command)
    [ -n "$options" ] || bad "none found in its help"
    offered=" $(source "$root/completion/forgec.bash"; COMP_WORDS=(forgec $command -) COMP_CWORD=2; _forgec; echo "${COMPREPLY[*]}") "
    for option in $options; do
        case $option in --help | -h) continue ;; esac
        has_word "$option" "$offered" completion/forgec.bash
        has_word "$option" "$page" docs/forgec.1
        has_word "$option" "$(cat "$root/completion/_forgec")" completion/_forgec
        bare=${option#-}; bare=${bare#-}
        grep -qE -- "-(l|s|o) \"?$bare\"? " "$root/completion/forgec.fish" || bad "completion/forgec.fish lacks $option"
    done
    for option in $offered; do
        case $option in --help | --target | --quiet) continue ;; esac
        case " $(echo $options) " in *" $option "*) ;; *) bad "completion offers $option, the help does not list it" ;; esac
    done
done

# ---- completion in bash ----
complete_words() {   # NAME WANTED WORDS...: what completes the last word, with forgec found
    name=$1 wanted=$2
    shift 2
    tests=$((tests + 1))
    got=$(PATH=$(dirname "$forgec"):$PATH; source "$root/completion/forgec.bash"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _forgec; echo "${COMPREPLY[*]}")
    [ "$got" = "$wanted" ] || { : > "$tmp/err"; bad "completed to '$got', wanted '$wanted'"; }
}
mkdir "$tmp/files"; cd "$tmp/files" || exit 1; touch a.c a.hip a.gguf a.txt mine.yaml
complete_words complete-command "build" forgec b
complete_words complete-target "gfx1100 gfx1151" forgec build -t gfx11
complete_words complete-target-second "gfx1151,sm_90 gfx1151,sm_90a" forgec build -t gfx1151,sm_90
complete_words complete-target-file "mine.yaml" forgec build --target min
complete_words complete-source "a.c a.hip a.gguf" forgec cc a
complete_words complete-model "a.gguf" forgec build a
complete_words complete-quiet "-q" forgec build -q
complete_words complete-targets "gfx942" forgec targets --print gfx9
complete_words complete-models "$(cd "$root/models" && ls | sed -n "s/^\(qw.*\)\.yaml$/\1/p" | LC_ALL=C sort | xargs)" forgec models qw
complete_words complete-value "" forgec compare -n ""

summary
