#!/bin/sh
# checks.sh KIND DIR CLANG -- builds this tree once more, in DIR/KIND, and runs the checks of KIND there; ctest runs these if FORGEC_CHECKS is on.
#   clang        warnings are errors; the unit tests
#   sanitized    warnings are errors; builds what asan and fuzz_NAME run, with AddressSanitizer and UBSan; must run before them
#   asan         the unit tests and the tests of commands, then compiled programs with both sanitizers inside; the programs take turns
#   fuzz_NAME    runs one of the libFuzzer targets for FUZZ_SECONDS (4) on seeds made of tests/data and the built-in YAML; needs the build
#                of sanitized.  For an hour: FUZZ_SECONDS=3600 tests/checks.sh fuzz_http build/test/checks clang-19
#   tsan         ThreadSanitizer: the threaded unit tests, then a compiled program with 2 to 7 threads (CHECK_FULL: also unfused, and the command line)
#   kernels      tests of CPU kernels in portable C, unoptimised with ASan and UBSan, and for AVX-VNNI, AVX-512 or NEON; these take turns.
#                CHECK_FULL: for every instruction set that this machine or qemu runs
# A kind that takes turns has three parts.  FORGEC_TURN chooses one, CHECK_FULL all.
set -eu
kind=$1 clang=$3
mkdir -p "$2"
dir=$(cd "$2" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
failed=0 targets=
quick=-DCMAKE_C_FLAGS_RELWITHDEBINFO='-O1 -gline-tables-only -DNDEBUG'      # for builds that take longer to compile than to test; at -O0 stacks are too small
cache=${CHECK_CACHE:-$dir/cache}         # for what any forgec compiles here
# CHECK_LAUNCHER: runs the compiler in these builds (ccache), with the same cache as the builds outside
jobs=${CHECK_JOBS:-2}          # in these builds, because most of the time is spent in compilers and programs that use one core
model=$root/examples/storyteller/storyteller-7m-q4_k_m.gguf

build() {       # DIR CMAKE-OPTIONS...
    out=$1; shift
    # shellcheck disable=SC2086  # targets are words; make checks everything again for each target, and builds one target after the other
    cmake -S "$root" -B "$out" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER="$clang" -DFORGEC_CHECKED="$(echo $targets | tr ' ' ';')" \
        -DCMAKE_C_COMPILER_LAUNCHER="${CHECK_LAUNCHER-}" "$@" \
        >"$out.log" 2>&1 || { cat "$out.log"; exit 1; }
    cmake --build "$out" --parallel "$jobs" ${targets:+--target checked} >>"$out.log" 2>&1 || { cat "$out.log"; exit 1; }
}

run_tests() {   # DIR CTEST-OPTIONS...
    (cd "$1" && shift && ctest --parallel "$jobs" --output-on-failure --no-tests=error "$@")
}

part() { [ -n "${CHECK_FULL-}" ] || [ $((${FORGEC_TURN:-0} % 3)) -eq "$1" ]; }
tell_part() { [ -n "${CHECK_FULL-}" ] || echo "of 3 parts that take turns, part $((${FORGEC_TURN:-0} % 3))"; }

# program MODEL TARGET FLAGS OPTIONS...: builds $dir/$kind.program with the forgec of $built and a clang that adds FLAGS to everything it compiles and links,
# so that sanitizers check the compiled program too, not only the compiler.  Each FLAGS has its own clang, which the cache distinguishes, so the
# runtime is compiled once for each FLAGS; therefore a kind has only one FLAGS.
program() {
    input=$1 target=$2 flags=$3; shift 3
    echo "-- $(basename "$input") for $target $* ($flags)"
    wrapper=$dir/$kind.clang$(echo "$flags" | tr -c 'a-zA-Z0-9\n' _)
    [ -x "$wrapper" ] || { printf '#!/bin/sh\nexec "%s" "$@" -w %s\n' "$clang" "$flags" >"$wrapper"; chmod +x "$wrapper"; }
    "$built/forgec" build "$input" -q -t "$target" -o "$dir/$kind.program" --clang "$wrapper" "$@"
}

runs_here() { "$built/forgec" targets | grep -v 'does not run here' | grep -q "^$1 "; }

try() { "$dir/$kind.program" -q "$@" >"$dir/$kind.text" || { code=$?; echo "exit code $code of: program -q $*"; exit 1; }; }

case $kind in
clang)
    build "$dir/clang" -DFORGEC_WERROR=ON "$quick"
    run_tests "$dir/clang" -R '^test_'
    ;;
sanitized)      # what asan runs and, for their warnings, tests that it does not run; CHECK_FULL: everything
    if [ -z "${CHECK_FULL-}" ]; then
        for test in "$root"/tests/unit/test_*.c "$root"/tests/fuzz/fuzz_*.c; do targets="$targets $(basename "$test" .c)"; done
        targets="$targets forgec make_gguf fake_program fake_external test_terminal test_decode simt_library fake_gpu fake_gpu_only fake_cuda
            library_test_arm library_test_sampler test_server test_chats test_calls test_native agents test_golden test_bugs test_counters poke_gguf"
    fi
    build "$dir/sanitized" -DFORGEC_SANITIZE=address,undefined -DFORGEC_FUZZ=ON -DFORGEC_WERROR=ON -DFORGEC_TEST_CACHE="$cache" "$quick"
    ;;
asan)
    tell_part
    built=$dir/sanitized
    export ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
    export XDG_CACHE_HOME="$cache"
    echo "int main(void) { return 0; }" | "$clang" -x c -fsanitize=address -o "$dir/asan.probe" -
    "$dir/asan.probe" || export ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"      # LeakSanitizer does not work if ptrace is not allowed
    # tests.cmake lists these tests, and ctest leaves them out of the plain build.  CHECK_FULL: also tests whose code other tests cover by default:
    # test_reference covers golden_reference, fuzz_target and fuzz_compile cover tiles and keys.  A test that is run but was not built fails.
    of_cmake() { sed -n "s/^set($1 \"\(.*\)\")\$/\1/p" "$root/tests/tests.cmake"; }
    run=$(of_cmake FORGEC_SANITIZED) not=$(of_cmake FORGEC_NOT_SANITIZED) seeds=1
    if [ -n "${CHECK_FULL-}" ]; then run="$run|^golden_reference|^tiles$|^keys$|^run_sequences|^style|^library_(whole|trap)" seeds='1 2 3 4' not='^test_(tokenize|matrix)$'
    else export FORGEC_TEST_FEW=1; fi
    SIMT_SEEDS=$seeds run_tests "$built" -R "$run" -E "$not" || failed=1
    for options in gfx1100 'gfx942 --exact --kv q8_0' 'sm_90 --fuse none'; do
        # shellcheck disable=SC2086  # options are words
        "$built/forgec" build "$model" -q -t $options --emit plan -o "$dir/asan.plan" || { echo "FAILED: build for $options"; failed=1; }
    done
    head -c 1500 "$root/LICENSE" >"$dir/asan.prompt"
    sanitized='-O1 -fsanitize=address,undefined -fno-sanitize-recover=all'
    chunks='0 7'
    if [ -n "${CHECK_FULL-}" ]; then chunks='0 1 7 128'; fi
    try_all() {
        for chunk in $chunks; do try -f "$dir/asan.prompt" -n 8 -s 1 -ub $chunk; done
        try -p Once -n 40 -s 2 --repeat-penalty 1.1 --presence-penalty 0.1 --top-k 0 -r never -t 3
    }
    # By default one target, so that the runtime is compiled once; check_kernels tests the kernels of other targets with sanitizers.
    main=native
    ! runs_here x86-64-v3 || main=x86-64-v3
    for target in $main ${CHECK_FULL:+aarch64}; do
        runs_here "$target" || continue
        for file in "$built"/tests/data/golden/*.gguf; do
            part 0 || break
            case ${file##*/} in *-00001-of-*) ;; *-of-[0-9]*) continue ;; esac          # the first file of several names the others
            [ -n "${CHECK_FULL-}" ] || case ${file##*/} in q-untied*) ;; *) continue ;; esac     # check_kernels: every format
            program "$file" "$target" "$sanitized"
            for chunk in 0 7; do try --tokens '1 2 3 4 5 6 7 8 9 10 11' --print-tokens --ignore-eos -n 8 -s 1 -ub $chunk; done
        done
        if part 0; then program "$model" "$target" "$sanitized"; try_all; fi
        [ -z "${CHECK_FULL-}" ] || { program "$model" "$target" "$sanitized" --exact; try_all; }
        if part 1; then program "$model" "$target" "$sanitized" --fuse none --kv q8_0; try_all; fi
    done
    if [ -n "${CHECK_FULL-}" ] && runs_here x86-64-v4; then program "$model" x86-64-v4 "$sanitized"; try_all; fi
    if part 0 || part 1; then
        printf 'Tell me a story\nAnd then?\n' | "$dir/asan.program" -q -i -n 20 -s 1 >/dev/null
        "$dir/asan.program" --bench -p 32 -n 8 -r 1 -o json >/dev/null
        "$dir/asan.program" -q --perplexity -c 64 -f "$root/LICENSE" >/dev/null
    fi
    if part 2; then
        program "$model" $main "$sanitized" --server
        "$built/tests/server/test_server" "$dir/asan.program" || failed=1
        program "$model" $main "$sanitized" --server --chat-template "$root/tests/server/chat.jinja"
        "$built/tests/server/test_chats" "$dir/asan.program" || failed=1
        "$built/tests/server/test_calls" "$dir/asan.program" || failed=1
        "$built/tests/server/agents" "$dir/asan.program" 5 -- --slots 4 || failed=1
        sh "$root/tests/server/run_native.sh" "$built/forgec" "$built/tests/server/test_native" "$built/tests/tools/make_gguf" \
            "$built/data/real/real.txt" "$model" -t $main --clang "$wrapper" || failed=1
    fi
    exit $failed
    ;;
tsan)
    export TSAN_OPTIONS=halt_on_error=1
    echo "int main(void) { return 0; }" | "$clang" -x c -fsanitize=thread -o "$dir/tsan.probe" -
    "$dir/tsan.probe" || { echo "ThreadSanitizer cannot run here"; exit 77; }       # it can neither run with ASLR nor switch it off
    built=$dir/tsan run='^test_(threads|cache|stream)$' levels=layer
    targets='forgec test_threads test_cache test_stream test_server agents'
    if [ -n "${CHECK_FULL-}" ]; then targets="$targets fake_program fake_external" run="$run|^run_cli$" levels='layer none'; fi
    build "$built" -DFORGEC_SANITIZE=thread "$quick"
    export XDG_CACHE_HOME="$cache"               # forgec's cache; the compilers of the build may have another one
    run_tests "$built" -R "$run" || failed=1
    for fuse in $levels; do
        program "$model" native '-O1 -fsanitize=thread' --fuse $fuse
        for threads in ${CHECK_FULL:+2 4} 3 7; do try -f "$root/.clang-format" -n 40 -s 1 -t $threads; done
        "$dir/tsan.program" --bench -p 40 -n 16 -r 2 -t 3 -o json >/dev/null
        "$dir/tsan.program" -q --perplexity -c 64 -f "$root/.clang-format" -t 3 >/dev/null
        printf 'Tell me a story\nAnd then?\n' | "$dir/tsan.program" -q -i -n 20 -s 1 -t 3 >/dev/null
    done
    program "$model" native '-O1 -fsanitize=thread' --server
    "$built/tests/server/test_server" "$dir/tsan.program" || failed=1
    program "$model" native '-O1 -fsanitize=thread' --server --chat-template "$root/tests/server/chat.jinja"
    "$built/tests/server/agents" "$dir/tsan.program" 5 -- --slots 4 || failed=1
    exit $failed
    ;;
kernels)
    tell_part
    cd "$root"
    # on VARIANT [FLAGS]: the tests of CPU kernels for one instruction set
    on() {
        variant=$1 flags=${2-}
        echo "-- $variant $flags"
        for test in $(tests/kernel/run.sh --names cpu "$variant"); do
            case $test,$variant,${CHECK_FULL:+full} in
            *,mmla,*)     usual='--rounds 2' ;;          # the variant neon tests everything except matrix products
            cpu_matmul,*,full) usual='--rounds 4' ;;
            cpu_matmul,*|*,portable,|*,neon,) usual='--rounds 2' ;;      # unoptimised, in qemu
            *)            usual= ;;
            esac
            code=0
            # shellcheck disable=SC2086  # options are words
            FORGEC_CLANG=$clang FLAGS=$flags KEEP=$dir/kernels tests/kernel/run.sh "$test" "cpu:$variant" --seed "${CHECK_SEED:-1}" $usual >"$dir/check.$variant.log" 2>&1 || code=$?
            [ $code -ne 77 ] || { cat "$dir/check.$variant.log"; return 0; }
            [ $code -eq 0 ] || { cat "$dir/check.$variant.log"; exit 1; }
        done
    }
    rm -rf "$dir/kernels"
    sanitized='-O0 -fsanitize=address,undefined -fno-sanitize-recover=all'
    if part 0; then on portable "$sanitized"; fi
    if [ -n "${CHECK_FULL-}" ]; then on portable -O1; fi         # clang needs a minute for it at -O2; golden_portable runs it optimised
    if [ "$(uname -m)" = aarch64 ]; then
        if part 1; then on neon "$sanitized"; fi
    else
        if [ -n "${CHECK_FULL-}" ]; then on avx2 "$sanitized"; on avx2; fi       # golden_x86-64-v3 and asan run it
        if part 1; then on avxvnni; on avx512; fi
    fi
    # On other machines in qemu.  clang needs a minute for it at -O2; golden_aarch64-v8.6 is compiled with -O2 and has mmla products.
    if [ -n "${CHECK_FULL-}" ]; then on neon; on mmla
    elif part 2; then on neon -O1; fi
    ;;
fuzz_*)
    work=$dir/$kind
    rm -rf "$work"
    mkdir -p "$work/seeds" "$work/corpus"
    length=32768
    case $kind in
    fuzz_gguf)
        (cd "$work/seeds" && cmake -E tar xf "$root/tests/data/bad/bad.tar.xz")
        find "$work/seeds" \( -size +64k -o -name expect.txt \) -delete
        find "$root/tests/data" "$dir/sanitized/data/tokenizers" -name '*.gguf' -size -64k -exec cp {} "$work/seeds" \; ;;
    fuzz_compile)       # six bytes choose targets and options; one of their bits allows files without weights, so long files lose theirs
        gpu=0 n=0                                           # and 020, WebGPU, in turn
        for file in "$dir"/sanitized/tests/data/golden/*.gguf "$dir"/sanitized/data/golden/*.gguf; do
            n=$((n + 1))
            [ -n "${CHECK_FULL-}" ] || [ $((n % 3)) -eq 0 ] || continue
            # shellcheck disable=SC2059  # the byte
            { printf "\\0\\$gpu\\020\\0\\0\\0"; head -c 24000 "$file"; } >"$work/seeds/$(basename "$file")"
            [ $gpu = 0 ] && gpu=020 || gpu=0
        done
        for file in "$dir"/sanitized/data/bad/ok-*.gguf "$dir"/sanitized/data/tokenizers/tiny-*.gguf; do
            { printf '\0\0\010\3\0\1'; cat "$file"; } >"$work/seeds/$(basename "$file")"
        done
        length=65536 ASAN_OPTIONS=detect_leaks=0          # memory that die() leaves is not a leak, because the process ends there
        export ASAN_OPTIONS ;;
    fuzz_target)       # the first byte: a target, llama.yaml, or an unrolled graph
        for file in "$root"/targets/*.yaml; do { printf '\0'; cat "$file"; } >"$work/seeds/$(basename "$file")"; done
        { printf '\1'; cat "$root/models/llama.yaml"; } >"$work/seeds/llama"
        { printf '\1'; sed 's/^architecture:.*/architecture: llama/' "$root/models/qwen3.yaml"; } >"$work/seeds/qwen3"
        { printf '\1architecture: llama\n'; grep -v '^#' "$root/models/transformer.yaml" | sed 's/^parameters:/&\n  rope_neox: false/'; } >"$work/seeds/transformer"
        { printf '\2'; "$dir/sanitized/forgec" build "$dir/sanitized/data/bad/ok-base.gguf" --emit graph; } >"$work/seeds/graph"
        # The same for a file with experts; and blocks and expressions of other architectures under the name llama.
        FUZZ_EXPERTS=$dir/sanitized/data/golden/llama-moe-mixed-a.gguf
        export FUZZ_EXPERTS
        { printf '\5'; "$dir/sanitized/forgec" build "$FUZZ_EXPERTS" --emit graph; } >"$work/seeds/experts"
        for name in experts qwen35 qwen3next gemma4 deepseek2 lfm2 mamba granitehybrid nemotron_h_moe gpt-oss phi3; do
            neox='s/^parameters:/&\n  rope_neox: false/'
            ! grep -q rope_neox "$root/models/$name.yaml" || neox=
            { printf '\4architecture: llama\n'; sed "/^architecture:/d; /^#/d; $neox" "$root/models/$name.yaml"; } >"$work/seeds/$name"
        done
        TMPDIR=$work ASAN_OPTIONS=detect_leaks=0
        export TMPDIR ASAN_OPTIONS ;;
    fuzz_plan)          # plans of $FUZZ_MODEL; the first byte: a target of fuzz_plan.c, from 5 on unfused, from 0x80 on with the emitted sources
        FUZZ_MODEL=$dir/sanitized/tests/data/golden/q-llama-Q8_0.gguf
        export FUZZ_MODEL
        n=0
        for fuse in layer none; do
            for target in x86-64-v3 gfx1151 gfx942 sm_90 webgpu; do
                env -u FORGEC_CLANG PATH=/nowhere "$dir/sanitized/forgec" build "$FUZZ_MODEL" -q -t $target --ctx 100 \
                    --fuse $fuse --emit plan -o - >"$work/plan"              # without clang, which would report registers
                for first in $n $((n + 128)); do
                    # shellcheck disable=SC2059  # the byte
                    { printf "\\$(printf %o $first)"; sed 's/ *#.*//; /^$/d' "$work/plan"; } >"$work/seeds/$target.$fuse.$first"
                done
                n=$((n + 1))
            done
        done ;;
    fuzz_template)      # its first byte: how large the room is
        length=20000
        (cd "$work" && cmake -E tar xf "$root/tests/data/chat/renders.tar.xz")
        for file in "$work"/templates/*.jinja; do { printf '\010'; cat "$file"; } >"$work/seeds/$(basename "$file")"; done
        n=0
        while IFS= read -r line; do
            n=$((n + 1))
            { printf '\006'; printf '%b' "$line"; } >"$work/seeds/snippet.$n"
        done <<EOF
$(grep -o '"template":"\(\\.\|[^"\\]\)*"' "$work/semantics.json" | sed 's/^"template":"//; s/"$//; s/\\"/"/g')
EOF
        rm -rf "$work"/templates "$work"/*.json ;;
    fuzz_yaml)  cp "$root"/models/*.yaml "$root"/targets/*.yaml "$work/seeds" ;;
    fuzz_tokenize)      # its first byte says what follows: a text for vocabulary number byte / 4, or from 0x80 on a GGUF file
        for file in "$dir"/sanitized/data/tokenizers/*.inp "$root"/docs/*.md; do
            { printf '\003'; head -c 4000 "$file"; } >"$work/seeds/$(basename "$file")"
        done
        for file in "$dir"/sanitized/data/tokenizers/tiny-*.gguf "$dir"/sanitized/data/tokenizers/made-unigram.gguf "$dir"/sanitized/data/tokenizers/bert-bge.gguf; do
            { printf '\200'; cat "$file"; } >"$work/seeds/$(basename "$file")"
        done ;;
    fuzz_grammar)       # its first byte: even a grammar, odd a JSON schema
        length=4096
        { printf '\000'; cat <<'END'
root ::= "{" ws (pair ("," ws pair)*)? "}" | [^"\x00-\x1f]{2,5} . <[65]> !<[66]>
pair ::= "\"" [a-z\u00e9]+ "\":" (number | "\"" ([^"\\] | "\\" ["n])* "\"") # a member
number ::= "-"? ([0-9] | [1-9] [0-9]{0,400}) ("." [0-9]+)?
ws ::= | " " | "\n" [ \t]{0,20}
END
        } >"$work/seeds/grammar"
        { printf '\001'; cat <<'END'
{"$defs":{"n":{"type":"object","properties":{"a":{"type":"integer","minimum":-5,"exclusiveMaximum":120},"b":{"$ref":"#/$defs/n"}},
"required":["a"],"additionalProperties":{"type":"number","minimum":0}}},"anyOf":[{"$ref":"#/$defs/n"},{"type":"array","prefixItems":[true],
"items":{"enum":["x",1,null]},"minItems":2,"maxItems":9},{"type":["string","null"],"pattern":"^[a-z\\d]+(-|\\w{2,9})?$"},{"minLength":2,"maxLength":300},
{"format":"date-time"},{"allOf":[{"properties":{"a":{}}},{"required":["a"]}]}]}
END
        } >"$work/seeds/schema" ;;
    fuzz_http)          # the first byte: see fuzz_http.c; one seed per line, with \r\n spelt out: PATH BODY or, from \040 on, the bytes that are sent
        length=8192 n=0
        while IFS= read -r line; do
            n=$((n + 1))
            printf '%b' "$line" >"$work/seeds/$n"
        done <<'END'
\0/v1/completions {"prompt":"Once","max_tokens":9,"temperature":0.7,"top_p":0.9,"top_k":40,"min_p":0.1,"seed":1,"n":2,"stop":["x","\n"]}
\0020/v1/completions {"prompt":[5,6,7],"stream":true,"stream_options":{"include_usage":true},"logprobs":3,"logit_bias":{"5":-100},"ignore_eos":true}
\0/v1/completions {"prompt":["Once"],"grammar":"root ::= [a-z]+ \\"x\\"","repeat_penalty":1.1,"presence_penalty":1,"cache_prompt":false}
\0/v1/completions {"prompt":"Once","json_schema":{"type":"array","items":{"type":"boolean"},"maxItems":2},"logit_bias":[[5,false]]}
\0/v1/chat/completions {"messages":[{"role":"system","content":"be"},{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":9,"logprobs":true,"top_logprobs":2}
\0/v1/chat/completions {"messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\\"a\\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"3"}],"stream":true}
\0/v1/chat/completions {"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}}}],"tool_choice":"required","parallel_tool_calls":false,"stream":true,"n":2}
\0/v1/chat/completions {"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"So"}],"chat_template_kwargs":{"enable_thinking":true},"reasoning_effort":"low","tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"auto"}
\0/v1/chat/completions {"messages":[{"role":"user","content":"x"}],"response_format":{"type":"json_schema","json_schema":{"name":"p","strict":true,"schema":{"type":"object","properties":{"k":{"enum":["a","b"]}},"required":["k"],"additionalProperties":false}}}}
\0/v1/chat/completions {"messages":[{"role":"system","content":"a"},{"role":"developer","content":"b"},{"role":"assistant","function_call":{"name":"f","arguments":"{"},"refusal":null},{"role":"function","name":"f","content":"3"}],"functions":[{"name":"f"}],"function_call":{"name":"f"},"max_tokens":30}
\0/v1/completions {"prompt":["a",[5,6],"c"],"n":2,"echo":true,"structured_outputs":{"choice":["x","yy"]},"stop_token_ids":[5],"min_tokens":2,"logit_bias":[["x",1]],"flavour":1}
\0/v1/responses {"input":"x","instructions":"be","max_output_tokens":9,"text":{"format":{"type":"json_object"}},"metadata":{"a":"b"}}
\0/v1/responses {"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"7"},{"type":"reasoning","summary":[]}],"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":{"type":"function","name":"f"},"stream":true}
\0/v1/messages {"system":[{"type":"text","text":"be"}],"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"max_tokens":9,"stop_sequences":["x","e"],"stream":true}
\0/v1/messages {"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"tool_use","id":"i","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"7"}]}],"max_tokens":90,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}}
\0/v1/messages {"messages":[{"role":"user","content":"xyz"}],"max_tokens":90,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},"stream":true}
\0/api/chat {"messages":[{"role":"user","content":"x"},{"role":"assistant","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"3"}],"tools":[{"type":"function","function":{"name":"f"}}],"think":"low","options":{"num_predict":9,"num_ctx":9}}
\0/api/chat {"messages":[{"role":"user","content":"x"}],"stream":false,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"required","options":{"num_predict":60}}
\0/api/generate {"prompt":"x","system":"be","format":{"type":"array","items":{"type":"boolean"},"maxItems":2},"options":{"temperature":0.5,"stop":["x"],"num_predict":9}}
\0/api/generate {"prompt":"x","raw":true,"stream":false,"format":"json","options":{"num_predict":9},"keep_alive":"5m"}
\0002/api/embed {"input":["a","b"],"truncate":true}
\0002/api/embeddings {"prompt":"a"}
\0/api/show {"model":"x"}
\0/api/tags
\0/api/ps
\0/v1/messages/count_tokens {"messages":[{"role":"user","content":"x"}]}
\0/apply-template {"messages":[{"role":"user","content":"x"}],"documents":[{"text":"d"}]}
\0001/tokenize {"content":"Once<|im_end|>","add_special":true,"parse_special":false,"with_pieces":true}
\0001/detokenize {"tokens":[1,2,300]}
\0002/v1/embeddings {"input":["a",[5,6],"c"],"encoding_format":"base64"}
\0/v1/models
\0/metrics
\0/slots
\0/props
\0314/v1/chat/completions {"messages":[{"role":"user","content":"x"}],"stream":true}
\0310/v1/completions {"prompt":"x","n":3}
\0300/v1/completions {"prompt":"x","stream":true,"n":2}
\0040POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 33\r\n\r\n{"prompt":"Once","max_tokens":3} GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n
\0041POST /tokenize?a=b HTTP/1.1\r\nHost: [::1]:80\r\nX-Api-Key: key1\r\nOrigin: https://page.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"con\r\na\r\ntent":"x"}\r\n0\r\n\r\n
\0041POST /v1/messages HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer key2\r\nContent-Length: 2\r\n\r\n{}
\0041OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://other.example\r\nAccess-Control-Request-Method: POST\r\n\r\n
\0040GET http://localhost/v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\nHEAD / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\r\n
END
        ;;
    esac
    cd "$root"
    "$dir/sanitized/$kind" -seed=1 -max_total_time="${FUZZ_SECONDS:-4}" -timeout=60 -rss_limit_mb=3000 -max_len=$length -print_final_stats=1 -close_fd_mask=3 \
        -artifact_prefix="$work/" "$work/corpus" "$work/seeds" >"$work.log" 2>&1 || { tail -60 "$work.log"; ls "$work"; exit 1; }
    grep -E 'stat::number_of_executed_units|stat::peak_rss|DONE' "$work.log"
    ;;
*)  echo "checks.sh: unknown kind $kind" >&2; exit 2 ;;
esac
