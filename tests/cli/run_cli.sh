#!/bin/sh
# Tests the command line of a compiled program, with tests/cli/fake_program.c, and the command line of forgec for GPUs.
#   run_cli.sh FAKE FAKE_EXTERNAL [FORGEC MAKE_GGUF [LIBSIMT]]
# FAKE_EXTERNAL: built with -DFAKE_EXTERNAL.  LIBSIMT: the emulator of lanes as libamdhip64; without it, tests that need a device are left out.
fake=$1
external=$2
forgec=${3-}
make_gguf=${4-}
simt=${5-}
here=$(cd "$(dirname "$0")" && pwd)
unset FORGE_HIP_LIBRARY FORGE_CUDA_LIBRARY FORGE_PROGRAM
. "$(dirname "$0")/../harness.sh"

check help 0 "$fake" --help; out_has "Exit codes"; out_has "130"; err_empty
check version 0 "$fake" --version; out_has "by hand"
check info 0 "$fake" --info; out_has "fedcba98"; out_has "no-such-feature"; out_has "edited source  00112233445566778899aabbccddeeff"

# usage
check unknown 2 "$fake" --nonsense; err_has "--nonsense"
check stray 2 "$fake" stray; err_has "stray"
check no-value 2 "$fake" -p; err_has "needs a value"
check bad-number 2 "$fake" -p x -n 1x; err_has "1x"
check bad-range 2 "$fake" -p x --top-p 1.5; err_has "1.5"
check nan 2 "$fake" -p x --temp nan; err_has "nan"
check two-prompts 2 "$fake" -p x -f y
check system-alone 2 "$fake" -p x -sys y; err_has "-i"
check kwargs-alone 2 "$fake" -p x --chat-template-kwargs '{}'; err_has "-i"
check kwargs-wrong 2 "$fake" -i --chat-template-kwargs '{"a":}'; err_has "at byte 5"
check kwargs-list 2 "$fake" -i --chat-template-kwargs '[]'; err_has "not an object"
check chat-tokens 2 "$fake" -i --tokens 1; err_has "--tokens"
check stop-nul 2 "$fake" -e -p x -r 'a\0b'; err_has "cannot be part"
check bias-syntax 2 "$fake" -p x -l 5; err_has "ID+BIAS"
check bias-range 2 "$fake" -p x -l 300+1; err_has "300"
check threads-range 2 "$fake" -p x -t 9; err_has "1 to 8"
check depth-alone 2 "$fake" -p x -d 5; err_has "without --bench"
check target-unknown 2 "$fake" -p x --target nowhere; err_has "elsewhere, fake"
check target-lacks 3 "$fake" -p x --target elsewhere; err_has "no-such-feature"
check target-environment 3 env FORGE_PROGRAM=elsewhere "$fake" -p x
check target-no-environment 0 env FORGE_PROGRAM= "$fake" -q -p x -n 1
check target-right 0 "$fake" -q -p x -n 1 --target fake; err_empty

# text
check greedy 0 "$fake" -q -p Once -n 12 --temp 0; greedy=$(cat "$tmp/out"); err_empty
[ ${#greedy} -eq 12 ] || bad "12 tokens wanted: '$greedy'"
for n in 1 2 3 8; do check "threads $n" 0 "$fake" -q -p Once -n 12 --temp 0 -t $n; out_is "$greedy"; done
for n in 0 1 2 64; do check "ubatch $n" 0 "$fake" -q -p Once -n 12 --temp 0 -ub $n; out_is "$greedy"; done
check ubatch-range 2 "$fake" -p x -ub 65; err_has "65"
check equals 0 "$fake" -q --prompt=Once --predict=12 --temp=0; out_is "$greedy"
check echo 0 "$fake" -q -p Once -n 12 --temp 0 --echo; out_is "Once$greedy"
printf 'Once\n' > "$tmp/prompt"
check file 0 "$fake" -q -f "$tmp/prompt" -n 12 --temp 0; out_is "$greedy"
stdin=$tmp/prompt; check stdin 0 "$fake" -q -n 12 --temp 0; out_is "$greedy"; stdin=
check context-default 0 "$fake" -q -p Once -n 12 --temp 0 -c 0; out_is "$greedy"
check prompt-as-option 0 "$fake" -q -p --bench -n 3 --temp 0 --echo; out_has "--bench"
check llama-flags 0 "$fake" -q -p Once --n-predict 12 --temperature 0 -no-cnv --color --no-warmup --simple-io; out_is "$greedy"
check llama-meaningless 0 "$fake" -q -ngl 99 -fa on --mlock --no-mmap -b 512 --threads-batch 4 -p Once -n 12 --temp 0; out_is "$greedy"
err_has "-ngl has no effect here: forgec build decides where a program computes"; err_has "--mlock has no effect here"; err_has "-b has no effect"
[ "$(wc -l < "$tmp/err")" -eq 6 ] || bad "six lines wanted"
check llama-server-line 0 "$fake" -q -p Once -n 12 --temp 0 --jinja -cb --metrics --no-webui --slots -ctk q8_0 -ctv q8_0 --no-context-shift -lv 1 --n-cpu-moe 3 --keep -1; out_is "$greedy"
err_has "-ctk has no effect here: forgec build --kv TYPE"; err_has "--n-cpu-moe has no effect here"
for option in -hf -md --lora --mmproj --chat-template-file --reasoning-budget --context-shift; do
    refuse "llama $option" 2 "$option: " "$fake" -p Once $option x
done
err_has "--context-shift: a full context ends the text"
refuse parallel 2 "--parallel: this program has no server; build it with forgec build --server" "$fake" --parallel 4
refuse slots 2 "--parallel: this program has no server" "$fake" --slots 4
check llama-flag-forms 0 "$fake" -q --n-gpu-layers=99 --flash-attn -fa -p Once -n 12 --temp 0 --flash-attn auto; out_is "$greedy"; err_has "--n-gpu-layers has no"; err_has "-fa has no"
[ "$(grep -c -e --flash-attn "$tmp/err")" -eq 1 ] || bad "--flash-attn is told once"
check llama-flag-alone 2 "$fake" -q on -p Once; err_has "unexpected argument 'on'"
check no-graph-cpu 2 "$fake" -p x -n 1 --no-graph; err_has "not built for a GPU"
check devices-cpu 2 "$fake" -p x -n 1 --devices 0; err_has "--devices: this program was not built for a GPU"
check escape 0 "$fake" -q -e -p '\x4fnc\x65' -n 12 --temp 0; out_is "$greedy"
check seed 0 "$fake" -q -p Once -s 5 -n 40; seeded=$(cat "$tmp/out")
check seed-again 0 "$fake" -q -p Once -s 5 -n 40; out_is "$seeded"
check seed-other 0 "$fake" -q -p Once -s 6 -n 40; [ "$(cat "$tmp/out")" != "$seeded" ] || bad "seeds 5 and 6 agree"
check ends 0 "$fake" -q -p Once -s 5; [ "$(wc -c < "$tmp/out")" -lt 300 ] || bad "no end of text"
check ignore-eos 0 "$fake" -q -p Once -s 5 --ignore-eos -n 600; err_empty
check context-full 0 "$fake" -q -p Once --temp 0 --ignore-eos -c 100; err_has "100 tokens is full"
check numbers 0 "$fake" -p Once -n 4; err_has "tok/s"
stop=$(printf %s "$greedy" | cut -c4-6)
check reverse 0 "$fake" -q -p Once -n 50 --temp 0 -r nothing -r "$stop"; out_is "$(printf %s "$greedy" | cut -c1-6)"
# Alone, so that no longer stop text makes the program keep more of its last tokens.
check reverse-alone 0 "$fake" -q -p Once -n 50 --temp 0 -r "$stop"; out_is "$(printf %s "$greedy" | cut -c1-6)"
first=$(printf %s "$greedy" | cut -c1)
check bias 0 "$fake" -q -p Once -n 3 --temp 0 -l 66+100; out_is BBB
check penalty 0 "$fake" -q -p Once -n 2 --temp 0 -l 66+10 --presence-penalty 100; [ "$(cut -c2 "$tmp/out")" != B ] || bad "B twice"

# tokens
check tokenize 0 "$fake" --tokenize -p 'a|b'; out_is "256 97 258 98"
check tokenize-plain 0 "$fake" --tokenize --no-parse-special --no-bos -p 'a|b'; out_is "97 124 98"
check tokens 0 "$fake" -q --tokens "256,79 110,99,101" -n 12 --temp 0; out_is "$greedy"
check print-tokens 0 "$fake" -q -p Once -n 3 --temp 0 --print-tokens; ids=$(cat "$tmp/out")
out_is "$(printf %s "$greedy" | head -c 3 | od -An -tu1 | tr -s ' ' | sed 's/^ //; s/ $//')"
echo "256 79,110 99 101" > "$tmp/ids"
check tokens-file 0 "$fake" -q --tokens "@$tmp/ids" -n 3 --temp 0 --print-tokens; out_is "$ids"
check tokens-range 2 "$fake" --tokens "1 300"; err_has "--tokens: the text at byte 2 is not a token id below 300"
printf '7 8 x' > "$tmp/wrong"; check tokens-wrong 2 "$fake" --tokens "@$tmp/wrong"; err_has "--tokens: $tmp/wrong: the text at byte 4 is not"
check tokens-none 2 "$fake" --tokens "" -n 1; err_has "--tokens: the list is empty"
check mute-text 2 "$fake" --target mute -p x; err_has "give token ids with --tokens"
check mute-ids 2 "$fake" --target mute --tokens 1,2 -n 1; err_has "--print-tokens prints ids"
check mute-print 0 "$fake" -q --target mute --tokens "256 79 110 99 101" -n 3 --temp 0 --print-tokens; out_is "$ids"
check mute-logits 0 "$fake" -q --target mute --tokens 1,2 --logits "$tmp/l1"; [ "$(wc -c < "$tmp/l1")" -eq $((2 * 300 * 4)) ] || bad "size of the logits"
check mute-logits-none 0 "$fake" -q --target mute --tokens 1,2 --logits "$tmp/l1" -n 0; out_is ""; err_empty
check mute-logits-text 2 "$fake" -q --target mute --tokens 1,2 --logits "$tmp/l1" -n 1; err_has "--print-tokens prints ids"

# odd prompts
check empty 0 "$fake" -q -p "" -n 3
check empty-no-bos 2 "$fake" -q -p "" -n 3 --no-bos; err_has "empty"
printf 'a\000b' > "$tmp/nul"; check nul 0 "$fake" --tokenize -f "$tmp/nul"; out_is "256 97 0 98"
printf '\377\300x' > "$tmp/invalid"; check invalid-utf8 0 "$fake" -q -f "$tmp/invalid" -n 3
check missing-file 1 "$fake" -f "$tmp/none"; err_has "No such file"
check directory 1 "$fake" -f "$tmp"
check endless-file 6 "$fake" -f /dev/zero; err_has "more than"
head -c 2000 /dev/zero | tr '\0' a > "$tmp/long"
check long-prompt 6 "$fake" -f "$tmp/long"; err_has 2001; err_has 1024
check long-context 6 "$fake" -p x -c 1025; err_has 1025; err_has 1024

# logits
check logits 0 "$fake" -q -p "$(head -c 150 "$tmp/long")" --logits "$tmp/l1"; out_is ""
[ "$(wc -c < "$tmp/l1")" -eq $((151 * 300 * 4)) ] || bad "size of the logits"
for n in 0 1 7; do check "logits ubatch $n" 0 "$fake" -q -p "$(head -c 150 "$tmp/long")" --logits "$tmp/l2" -ub $n; cmp -s "$tmp/l1" "$tmp/l2" || bad "differ"; done
check logits-and-text 0 "$fake" -q -p Once --logits "$tmp/l2" -n 12 --temp 0; out_is "$greedy"
check logits-report 0 "$fake" -p Once --logits "$tmp/l2"; err_has "prompt 5 tokens"
check logits-limit 7 sh -c 'ulimit -f 1; exec "$@"' sh "$fake" -q -p Once --logits "$tmp/l3"; [ ! -e "$tmp/l3" ] || bad "file left"
mkfifo "$tmp/gone"; head -c 10 < "$tmp/gone" > /dev/null &
check logits-reader-gone 7 "$fake" -q -p "$(head -c 150 "$tmp/long")" --logits "$tmp/gone"; [ -p "$tmp/gone" ] || bad "a pipe was removed"
# a file is complete or unchanged; anything but a plain file is written in place; the file's permissions stay
printf old > "$tmp/l4"; chmod 640 "$tmp/l4"
check logits-kept 7 sh -c 'ulimit -f 1; exec "$@"' sh "$fake" -q -p Once --logits "$tmp/l4"; [ "$(cat "$tmp/l4")" = old ] || bad "the old file has changed"
check logits-again 0 "$fake" -q -p Once --logits "$tmp/l4"; cmp -s "$tmp/l4" "$tmp/l2" || bad "differ"
case $(ls -l "$tmp/l4") in -rw-r-----*) ;; *) bad "its permissions have changed" ;; esac
ln -s l4 "$tmp/l5"
check logits-link 0 "$fake" -q -p x --logits "$tmp/l5"; [ -h "$tmp/l5" ] && [ "$(wc -c < "$tmp/l4")" -eq $((2 * 300 * 4)) ] || bad "not through the link"
for path in /dev/stdout /proc/self/fd/1; do check "logits $path" 0 "$fake" -q -p Once --logits $path; cmp -s "$tmp/out" "$tmp/l2" || bad "differ"; done
[ "$(echo "$tmp"/l*.tmp*)" = "$tmp/l*.tmp*" ] || bad "temporary files left"
check logits-directory 7 "$fake" -p x --logits "$tmp/none/l"

# logits that are not finite, at any step and in any mode
finite_text="are not finite"
spoil() { # NAME BITS-WHAT POSITION COMMAND...: every kind of number that is none, at that position
    label=$1 tokens=$2
    shift 2
    for bits in 7fc00000:NaN 7f800000:+infinity ff800000:-infinity; do
        for token in 0 299; do
            check "$label $bits of $token" 4 env "FAKE_SPOIL=$((tokens - 1)):$token:${bits%:*}" "$@"
            err_has "the logits after $tokens tokens of context are not finite (${bits#*:} of token $token)"; err_has "--kv f32"
            [ "$(grep -c "$finite_text" "$tmp/err")" -eq 1 ] || bad "not one line"
        done
    done
}
printf Hello > "$tmp/hello"; printf 'Hello\nAgain\n' > "$tmp/turns"
for n in 0 2 64; do spoil "spoil-prompt ubatch $n" 5 "$fake" -q -p Once -n 3 --temp 0 -ub $n; out_is ""; done
spoil spoil-text 9 "$fake" -q -p Once -n 12 --temp 0; out_is "$(printf %s "$greedy" | cut -c1-4)"
spoil spoil-drawn 9 "$fake" -q -p Once -n 12 -s 3 -t 3
spoil spoil-last 16 "$fake" -q -p Once -n 12 --temp 0 -l 0-inf; out_is "$(printf %s "$greedy" | cut -c1-11)"
check spoil-later 0 env FAKE_SPOIL=16:0:7fc00000 "$fake" -q -p Once -n 12 --temp 0; out_is "$greedy"
stdin=$tmp/hello; spoil spoil-chat 9 "$fake" -q -i -n 12 --temp 0; stdin=$tmp/turns; spoil spoil-chat-later 20 "$fake" -q -i -n 6 --temp 0; stdin=
for n in 0 7 64; do
    spoil "spoil-logits ubatch $n" 100 "$fake" -q -p "$(head -c 150 "$tmp/long")" --logits "$tmp/spoiled" -ub $n; [ ! -e "$tmp/spoiled" ] || bad "a file of logits is left"
done
spoil spoil-bench 70 "$fake" --bench -p 8 -n 8 -r 1 -d 64; spoil spoil-bench-prompt 64 "$fake" --bench -p 64 -n 0 -r 1
head -c 600 /dev/zero | tr '\0' ab > "$tmp/text"
for n in 0 7; do spoil "spoil-perplexity ubatch $n" 50 "$fake" -q --perplexity -f "$tmp/text" -c 64 -ub $n; out_is ""; done
# The last logits of a piece are computed but not scored; the logits of its first half are not computed.
check spoil-unscored 0 env FAKE_SPOIL=20:0:7fc00000 "$fake" -q --perplexity -f "$tmp/text" -c 64; out_has "PPL = "

# perplexity
head -c 5000 /dev/zero | tr '\0' ab > "$tmp/text"
check perplexity 0 "$fake" --perplexity -f "$tmp/text"; out_has "PPL = "; err_has "[9/9]"; ppl=$(cat "$tmp/out")
for n in 0 7; do check "perplexity ubatch $n" 0 "$fake" -q --perplexity -f "$tmp/text" -ub $n; out_is "$ppl"; err_empty; done
check perplexity-prompt 0 "$fake" -q --perplexity -p "$(cat "$tmp/text")"; out_is "$ppl"
check perplexity-short 1 "$fake" --perplexity -f "$tmp/prompt"; err_has 1024
check perplexity-context 6 "$fake" --perplexity -f "$tmp/text" -c 2048; err_has 1024

# bench
check bench 0 "$fake" --bench -p 64 -n 8 -r 2 -d 0,10; out_has "pp64 @ d10"; out_has "tg8"; out_has "GB/s from memory"
check bench-json 0 "$fake" --bench -p 64 -n 8 -r 1 -o json; out_has '"n_gen": 8'
if command -v python3 > /dev/null; then python3 -m json.tool < "$tmp/out" > /dev/null || bad "not JSON"; fi
check bench-csv 0 "$fake" --bench -p 64 -n 0 -r 1 -o csv; [ "$(wc -l < "$tmp/out")" -eq 2 ] || bad "two lines wanted"
begin=$(date +%s%N)
check bench-min-time 0 "$fake" --bench -p 8 -n 0 -r 2 --min-time 0.1; out_has "pp8"
[ $(($(date +%s%N) - begin)) -ge 200000000 ] || bad "two repetitions of 0.1 s took less than 0.2 s"
check bench-min-time-bad 2 "$fake" --bench -p 8 -n 0 --min-time -1; err_has "--min-time"
check bench-long 6 "$fake" --bench -p 2000 -r 1; err_has 2000
check bench-long-first 6 "$fake" --bench -p 8 -n 0 -r 1 -d 0,2000 -o json; err_has 2000; out_is ""
for form in json csv; do
    check "bench-$form-rows" 0 "$fake" --bench -p 1,2 -n 3,0 -d 0,100 -r 2 -o $form
    command -v python3 > /dev/null || continue
    python3 -c '
import csv, json, sys
rows = json.load(sys.stdin) if sys.argv[1] == "json" else list(csv.DictReader(sys.stdin))
assert len(rows) == 6, rows
assert {len(row) for row in rows} == {20}, rows
assert all(row["model"] == "fake \"model\"" and float(row["min_ts"]) <= float(row["max_ts"]) for row in rows), rows
' $form < "$tmp/out" 2> "$tmp/err" || bad "not 6 rows of 20 fields"
done
check bench-list 2 "$fake" --bench -p 5,x
check bench-random 0 "$external" --bench --random-weights -p 8 -n 4 -r 1

# profile
check profile 0 "$fake" --profile -p 16 -n 3 -d 10 --min-time 0.1; out_has "decode, a token after 10"; out_has "prefill, a step of 16 tokens after 10"; out_has "the step as in use"
for form in json csv html md; do
    check "profile-$form" 0 "$fake" --profile -p 16 -n 5 -t 3 --min-time 0.1 -o $form; out_has prefill
    command -v python3 > /dev/null || continue
    python3 -c '
import csv, html.parser, json, sys
form, text = sys.argv[1], sys.stdin.read()
if form == "json":
    report = json.loads(text)
    assert [s["kind"] for s in report["steps"]] == ["decode", "prefill"], report
    for step in report["steps"]:
        assert abs(sum(k["us"] for k in step["kernels"]) - step["sum_us"]) < 1e-3 * step["sum_us"], step
        assert abs(sum(k["us"] for k in step["launches"]) - step["sum_us"]) < 1e-3 * step["sum_us"], step
        assert abs(step["sum_us"] + step["gap_us"] - step["step_us"]) < 1e-3 * step["step_us"], step
        assert sum(k["launches"] for k in step["kernels"]) == len(step["launches"]), step
        assert len(step["threads"]) == 3 and all(t["work_us"] >= 0 and t["wait_us"] >= 0 for t in step["threads"]), step
    works = [k for s in report["steps"] for k in s["kernels"] if k["name"] == "work"]
    assert [(k["launches"], k["bytes"], k["operations"]) for k in works] == [(39, 39 * 4, 39 * 5), (39, 39 * 64, 39 * (3 * 16 + 2 * 136))], works
    assert report["steps"][0]["n_measured"] == 5 and report["where"] == "3 threads", report
elif form == "csv":
    rows = list(csv.DictReader(text.splitlines()))
    assert {len(row) for row in rows} == {12} and [r["kernel"] for r in rows].count("(sum)") == 2, rows
elif form == "html":
    assert text.count("<table>") == 2 and text.count("<tr>") == text.count("</tr>") and "fake &#34;model&#34;" in text, text
    assert "http" not in text and "<script" not in text, text
' $form < "$tmp/out" 2> "$tmp/err" || bad "not the report that was expected: $(cat "$tmp/err")"
done
check profile-decode 0 "$fake" --profile -p 0 -n 3; out_has "decode, a token after 0"; ! grep -q prefill "$tmp/out" || bad "prefill was measured"
check profile-prefill 0 "$fake" --profile -p 8 -n 0 --min-time 0.1; ! grep -q decode "$tmp/out" || bad "decode was measured"
check profile-full 0 "$fake" --profile -n 3 -d 1023; out_has "decode, a token after 1023"; ! grep -q prefill "$tmp/out" || bad "a prefill step where one token has room"
check profile-goes-round 0 "$fake" --profile -p 0 -n 80 -d 960
check profile-none 0 "$fake" --profile -p 0 -n 0; out_has "nothing was measured"
check profile-no-room 6 "$fake" --profile -p 2 -d 1023; err_has "can have up to 1"
check profile-random 0 "$external" --profile --random-weights -p 8 -n 3 --min-time 0.1
check profile-step 6 "$fake" --profile -p 5000; err_has 5000; out_is ""
check profile-depth 6 "$fake" --profile -d 1024; err_has 1024
check profile-one 2 "$fake" --profile -p 1; err_has "decode step"
check profile-form 2 "$fake" --profile -o xml; err_has "html"
check profile-each 2 "$fake" --profile --each 3; err_has "not built for a GPU"
check profile-bench 2 "$fake" --profile --bench; err_has "only one of"
check profile-repetitions 2 "$fake" --profile -r 3; err_has "-r"
check profile-random-alone 2 "$external" --random-weights -p x; err_has "--random-weights"
spoil spoil-profile 70 "$fake" --profile -p 0 -n 8 -d 64

# weights
check no-weights 4 "$external" -p x; err_has "-m FILE"
check weights-missing 4 "$external" -p x -m "$tmp/none"; err_has "No such file"
check weights-directory 4 "$external" -p x -m "$tmp"; err_has "regular"
check weights-short 4 "$external" -p x -m "$tmp/prompt"; err_has "not a forgec weight file"
weights() { # MAGIC BYTES-IN-OCTAL HASH IMAGE-BYTES
    { printf '%s' "$1"; printf "$2"; printf '%s' "$3"; head -c $((4096 - 16 - ${#3})) /dev/zero; head -c "$4" /dev/zero; } > "$tmp/w"
}
hash=fedcba9876543210fedcba9876543210
weights FORGEW01 '\000\000\020\000\000\000\000\000' $hash 1048576
check weights-good 0 "$external" -q -p Once -n 12 --temp 0 -m "$tmp/w"; out_is "$greedy"
cp "$external" "$tmp/copy"; cp "$tmp/w" "$tmp/copy.weights"
check weights-beside 0 "$tmp/copy" -q -p Once -n 12 --temp 0; out_is "$greedy"
weights GGUF0000 '\000\000\020\000\000\000\000\000' $hash 1048576
check weights-magic 4 "$external" -p x -m "$tmp/w"; err_has "GGUF"
weights FORGEW01 '\000\000\020\000\000\000\000\000' "0$hash" 1048576
check weights-hash-long 4 "$external" -p x -m "$tmp/w"; err_has "damaged"
weights FORGEW01 '\000\000\020\000\000\000\000\000' "$(printf '\033[2J')123456789abcdef0123456789abc" 1048576
check weights-hash-odd 4 "$external" -p x -m "$tmp/w"; err_has "damaged"
weights FORGEW01 '\000\000\020\000\000\000\000\000' 0edcba9876543210fedcba9876543210 1048576
check weights-hash 4 "$external" -p x -m "$tmp/w"; err_has "another model"
mkfifo "$tmp/pipe"
check weights-fifo 4 "$external" -p x -m "$tmp/pipe"; err_has "regular"
weights FORGEW01 '\001\000\020\000\000\000\000\000' $hash 1048577
check weights-size 4 "$external" -p x -m "$tmp/w"; err_has 1048577
weights FORGEW01 '\000\000\020\000\000\000\000\000' $hash 1048575
check weights-cut 4 "$external" -p x -m "$tmp/w"; err_has "cut short"
check verify-mode 2 "$fake" -p x --verify-weights lazy; err_has "'lazy' is not none or load"
check verify-none 0 "$fake" -q -p Once -n 12 --temp 0 --verify-weights none; out_is "$greedy"
check verify-no-hashes 4 "$fake" -p x --verify-weights load; err_has "no hashes"
for how in auto large file; do check pages-$how 0 "$fake" -q -p Once -n 12 --temp 0 -t 2 --pages $how; out_is "$greedy"; done
check pages-mode 2 "$fake" -p x --pages small; err_has "'small' is not auto, large or file"
for how in none interleave replicate; do check numa-$how 0 "$fake" -q -p Once -n 12 --temp 0 -t 2 --numa $how; out_is "$greedy"; done
check numa-told 0 "$fake" -v -p Once -n 1 -t 2 --numa replicate; err_has "of memory"
check numa-mode 2 "$fake" -p x --numa distribute; err_has "'distribute' is not none, interleave or replicate"
check verify-random 2 "$external" --bench --random-weights --verify-weights load; err_has "cannot be combined with --random-weights"
check check-no-hashes 0 "$fake" --check; out_has "WARN  weights"

# chat
printf 'Hello\n\nAgain\n' > "$tmp/turns"; stdin=$tmp/turns
check chat 0 "$fake" -q -i -n 8 --temp 0 -sys "Be good"; [ "$(wc -l < "$tmp/out")" -eq 2 ] || bad "two answers wanted"; err_empty
check chat-single 0 "$fake" -q -i -st -n 8 --temp 0; [ "$(wc -l < "$tmp/out")" -eq 1 ] || bad "one answer wanted"
check chat-opening 0 "$fake" -q -i -n 8 --temp 0 -p Hello; [ "$(wc -l < "$tmp/out")" -eq 3 ] || bad "three answers wanted"
opening=$(head -1 "$tmp/out")
printf 'Hello\n' > "$tmp/opening"
check chat-file 0 "$fake" -q -i -st -n 8 --temp 0 -f "$tmp/opening"; out_is "$opening"
check chat-context 0 "$fake" -q -i --temp 0 --ignore-eos -c 30; err_has "starts over"
{ head -c 70000 /dev/zero | tr '\0' a; printf '\nHello\n'; } > "$tmp/longline"
stdin=$tmp/longline
check chat-long-line 0 "$fake" -q -i -n 8 --temp 0; err_has "is ignored"; out_is "$opening"
# the last token of a truncated answer is part of the conversation: two answers of 4 tokens equal the whole text as one prompt
printf 'a\nb\n' > "$tmp/turns"; stdin=$tmp/turns
check chat-cut 0 "$fake" -q -i -n 4 --temp 0 --print-tokens; ids=$(head -1 "$tmp/out"); second=$(tail -1 "$tmp/out")
stdin=
check chat-cut-same 0 "$fake" -q --tokens "256 97 10 $ids 10 98 10" -n 4 --temp 0 --print-tokens; out_is "${second# }"

# messages are one line without control characters, whatever the words are
for word in --temp --target --spec --devices --numa --pages -l --logit-bias; do refuse "controls $word" 2 '\x1b[2J' "$fake" -p x "$word" "$(printf '\033[2J\n')"; done
refuse controls-c1 2 '\xc2\x9b' "$fake" "$(printf -- '--x\302\233')"
# text and numbers in one pipe: the numbers begin a line
check joined 0 sh -c '"$0" -p Once -n 12 --temp 0 2>&1' "$fake"; [ "$(head -1 "$tmp/out")" = "$greedy" ] || bad "the numbers follow the text without a new line"
check not-joined 0 "$fake" -p Once -n 12 --temp 0; out_is "$greedy"; [ "$(wc -c < "$tmp/out")" -eq 12 ] || bad "more than the text on stdout"
refuse context-longer 6 "forgec build --ctx N makes it longer" "$fake" -p Once -c 100000
check context-longer-full 0 "$fake" -q -p Once --temp 0 --ignore-eos -c 100; err_has "100 tokens is full (-c N makes it longer)"

# output that cannot be written
name=full; tests=$((tests + 1))
if [ -c /dev/full ]; then "$fake" -q -p x -n 4 > /dev/full 2> "$tmp/err"; [ $? -eq 7 ] || bad "exit code, wanted 7"; err_has "No space"; fi
for mode in "--help" "--info" "--tokenize -p x" "--bench -p 8 -n 4 -r 1"; do
    name="full $mode"; tests=$((tests + 1))
    if [ -c /dev/full ]; then "$fake" $mode > /dev/full 2> "$tmp/err"; [ $? -eq 7 ] || bad "exit code, wanted 7"; fi
done
name=pipe; tests=$((tests + 1))
{ "$fake" -q -p x --ignore-eos -n 900 2> "$tmp/err"; echo $? > "$tmp/code"; } | head -c 10 > /dev/null
[ "$(cat "$tmp/code")" -eq 7 ] || bad "exit code $(cat "$tmp/code"), wanted 7"
[ ! -s "$tmp/err" ] || bad "a message, though the reader has gone on purpose"
for mode in "--help" "--info" "--tokenize -p x" "--bench -p 8 -n 4 -r 1"; do
    name="pipe $mode"; tests=$((tests + 1))
    { sleep 0.1; "$fake" $mode 2> "$tmp/err"; echo $? > "$tmp/code"; } | true
    [ "$(cat "$tmp/code")" -eq 7 ] || bad "exit code $(cat "$tmp/code"), wanted 7"
    [ ! -s "$tmp/err" ] || bad "a message"
done
name=closed; tests=$((tests + 1))
"$fake" -q -p x -n 4 >&- 2> "$tmp/err"; [ $? -eq 7 ] || bad "exit code, wanted 7"

name=closed-stderr; tests=$((tests + 1))
"$fake" -p Once -v --logits "$tmp/l2" 2>&-; [ $? -eq 0 ] || bad "exit code, wanted 0"
[ "$(wc -c < "$tmp/l2")" -eq $((5 * 300 * 4)) ] || bad "something else was written to the file of logits"

# Ctrl-C; a shell without job control starts background commands with SIGINT ignored, hence env
name=interrupt; tests=$((tests + 1))
interrupt() { # SECONDS COMMAND...
    if ! command -v timeout > /dev/null; then return 130; fi
    seconds=$1
    shift
    timeout --preserve-status -s INT "$seconds" "$@"
}
mkfifo "$tmp/fifo"; sleep 5 > "$tmp/fifo" & sleeper=$!
interrupt 0.5 "$fake" -q -i < "$tmp/fifo" > "$tmp/out" 2> "$tmp/err"; code=$?
[ $code -eq 130 ] || bad "exit code $code, wanted 130 while reading"
kill $sleeper 2> /dev/null
name=interrupt-text; tests=$((tests + 1))
interrupt 0.5 env FORGE_SLOW=1 "$fake" -q -p x --ignore-eos > "$tmp/out" 2> "$tmp/err"; code=$?
[ $code -eq 130 ] || bad "exit code $code, wanted 130 while generating"
[ -s "$tmp/out" ] || bad "no text before the interrupt"
# during a chat's second turn: the part that was read is undone, or, if states cannot be rewound, the text before it is read again
line=$(head -c 400 /dev/zero | tr '\0' x)
printf 'hi\nagain\n' > "$tmp/turns"
stdin=$tmp/turns; check chat-of-two 0 "$fake" -q -i -n 8 --temp 0 -ub 1; cp "$tmp/out" "$tmp/chat-2"
stdin=
printf 'hi\n%s\nagain\n' "$line" > "$tmp/turns"
# interrupt_turn [NAME=VALUE]: Ctrl-C after the first answer and a part of the long line, which takes 20 ms per token
interrupt_turn() {
    env "$@" FORGE_SLOW=1 "$fake" -q -i -n 8 --temp 0 -ub 1 < "$tmp/turns" > "$tmp/out" 2> "$tmp/err" & chat=$!
    for i in $(seq 300); do if [ "$(wc -l < "$tmp/out")" -gt 0 ] || ! kill -0 $chat 2> /dev/null; then break; fi; sleep 0.1; done
    sleep 0.5
    kill -INT $chat
    wait $chat
}
name=interrupt-turn; tests=$((tests + 1))
interrupt_turn; code=$?
[ $code -eq 0 ] || bad "exit code $code, wanted 0"
same "$tmp/out" "$tmp/chat-2"; err_empty
name=interrupt-forgotten; tests=$((tests + 1))
interrupt_turn FAKE_FORGETS=1; code=$?
[ $code -eq 0 ] || bad "exit code $code, wanted 0"
same "$tmp/out" "$tmp/chat-2"; err_empty

# ---- forgec for GPUs ----
model() { name="make $*"; "$make_gguf" --layers 1 --vocab 300 --embd 64 --ff 64 --heads 2 --kv-heads 1 --head-dim 32 --ctx 256 "$@" > /dev/null 2> "$tmp/err" || bad "make_gguf"; }
# One line on stderr, nothing on stdout, nothing left behind: refuse NAME CODE TEXT COMMAND...
refuse() {
    label=$1 code=$2 text=$3
    shift 3
    check "$label" "$code" "$@"; err_has "$text"
    [ "$(wc -l < "$tmp/err")" -eq 1 ] || bad "not one line"
    [ ! -s "$tmp/out" ] || bad "something on stdout"
    [ -z "$(ls -A "$tmp/o")" ] || { bad "left behind: $(ls -A "$tmp/o")"; rm -rf "$tmp/o"; mkdir "$tmp/o"; }
}

gpu_refusals() {
    refuse gpu-unknown 1 "unknown target gfx9999" "$forgec" build "$m" -t gfx9999 -o "$o"
    refuse gpu-base 1 "only build for a target that inherits this one" "$forgec" build "$m" -t gpu -o "$o"
    refuse gpu-twice 1 "give each once" "$forgec" build "$m" -t gfx1151,gfx1151 -o "$o"
    refuse gpu-machines 1 "different machines" "$forgec" build "$m" -t aarch64,gfx1151 -o "$o"
    refuse gpu-static 1 "--static" "$forgec" build "$m" -t gfx1151 --static -o "$o"
    refuse gpu-sources 1 "takes one target" "$forgec" build "$m" -t gfx1100,gfx1151 --emit source -o "$o"
    refuse gpu-stdout 1 "give -o FILE" "$forgec" build "$m" -t gfx1151 -o -
    refuse gpu-device-file 1 "is a device" "$forgec" build "$m" -t sm_90 -o /dev/full
    refuse gpu-directory 1 "No such file" "$forgec" build "$m" -t sm_90 -o "$tmp/o/none/x"
    refuse gpu-output-limit 1 "File too large" sh -c 'ulimit -f 60; exec "$@"' sh "$forgec" build "$m" -t sm_90 --no-cache -o "$o"
    refuse gpu-header 1 "do not fit" "$forgec" build "$tmp/header.gguf" -t sm_90 -o "$o"
    refuse gpu-head-size 1 "head size of 20" "$forgec" build "$tmp/head20.gguf" -t gfx942 -o "$o"
    refuse gpu-wide 1 "bytes of LDS" "$forgec" build "$tmp/wide.gguf" -t gfx1151 --weights none -o "$o"
    refuse gpu-head-wide 1 "head size of 1032" "$forgec" build "$tmp/head1032.gguf" -t gfx1100 -o "$o"
    refuse gpu-no-clang 1 "apt-get install" "$forgec" build "$m" -t gfx1151 --clang /bin/false -o "$o"
    refuse gpu-compare-long 1 "exceed the context" "$forgec" compare "$m" -t gfx1151 -p 1000
    refuse gpu-compare-min-time 2 "not a number of seconds" "$forgec" compare "$m" -t gfx1151 --min-time 0
    refuse gpu-compare-simulated 2 "cannot be combined with --simulate" "$forgec" compare "$m" -t gfx1151 --simulate --min-time 1
    refuse gpu-compare-level 2 "none of none, layer" "$forgec" compare "$m" -t gfx1151 --fuse all
    refuse gpu-compare-keeps 2 "keeps no program" "$forgec" compare "$m" -t gfx1151 --weights none
    refuse gpu-verify-header 1 "do not fit" "$forgec" verify "$tmp/header.gguf" -t gfx1151
    refuse gpu-library 1 "FORGE_HIP_LIBRARY" env FORGE_HIP_LIBRARY=/none/lib.so "$forgec" verify "$m" -t "$here/../lanes/simt32.yaml"
    refuse gpu-library-empty 1 "FORGE_HIP_LIBRARY" env FORGE_HIP_LIBRARY= "$forgec" verify "$m" -t "$here/../lanes/simt32.yaml"
    [ -e /dev/kfd ] || for command in verify compare; do refuse "gpu-$command-absent" 1 "cannot run here: no /dev/kfd" "$forgec" $command "$m" -t gfx1151; done
}

gpu_emits() {
    for kind in graph plan source asm; do
        check "gpu-emit-$kind" 0 "$forgec" build "$m" -t sm_90 --emit $kind -o -; err_empty; [ -s "$tmp/out" ] || bad "nothing on stdout"
        [ ! -c /dev/full ] || { tests=$((tests + 1)); "$forgec" build "$m" -t sm_90 --emit $kind -o - > /dev/full 2> "$tmp/err"; [ $? -eq 1 ] || bad "exit code, wanted 1"; }
    done
    name=gpu-interrupt; tests=$((tests + 1))
    interrupt 0.2 "$forgec" build "$m" -t sm_90 --no-cache -o "$o" > "$tmp/out" 2> "$tmp/err"; code=$?
    [ $code -eq 130 ] || bad "exit code $code, wanted 130"
    [ -z "$(ls -A "$tmp/o")" ] || bad "left behind: $(ls -A "$tmp/o")"
    check gpu-dry-run 0 "$forgec" build "$m" -t sm_90 '-###' -o "$o"; err_has "--cuda-gpu-arch=sm_90"; [ ! -e "$o" ] || bad "a file"
    check gpu-header-none 0 "$forgec" build "$tmp/header.gguf" -t sm_90 --weights none -q -o "$o"; err_empty
    check gpu-no-library 8 env FORGE_CUDA_LIBRARY=/none/lib.so "$o" --bench --random-weights; err_has "/none/lib.so"
    check gpu-ctx-huge 0 "$forgec" build "$m" -t sm_90 --ctx 16777216 -q -o "$o"; err_has "longer than the 256 that the model was trained for"
    check gpu-and-cpu 0 "$forgec" build "$tmp/header.gguf" -t sm_90,x86-64-v3 --weights none -q -o "$o"; err_empty
    rm -f "$o"
}

# With the emulator as the device.
gpu_runs() {
    t=$here/../lanes/simt32.yaml lib="FORGE_HIP_LIBRARY=$simt"
    check simt-two 0 "$forgec" build "$m" -t "$t,x86-64-v3" -q -o "$o"; err_empty
    check simt-two-cpu 0 env FORGE_HIP_LIBRARY=/none/lib.so "$o" -q -p a -n 4 --temp 0; err_has "x86-64-v3 runs instead of simt32: "; err_has "/none/lib.so"; text=$(cat "$tmp/out")
    check simt-two-gpu 0 env "$lib" "$o" -p a -n 4 --temp 0; out_is "$text"; err_has "emulator of lanes"
    check simt-two-small 0 env "$lib" FORGE_SIMT_MEMORY=100000 "$o" -q -p a -n 4 --temp 0; out_is "$text"; err_has "x86-64-v3 runs instead of simt32: "; err_has "free"
    check simt-two-threads 0 env "$lib" "$o" -q -p a -n 4 --temp 0 -t 2 --no-graph; out_is "$text"; err_empty
    check simt-two-chosen 0 env "$lib" "$o" -q --target x86-64-v3 -p a -n 4 --temp 0; out_is "$text"; err_empty
    check simt-two-insist 8 env FORGE_HIP_LIBRARY=/none/lib.so "$o" --target simt32 -p a; err_has "/none/lib.so"
    check simt-two-unknown 2 "$o" --target sm_90 -p a; err_has "simt32, x86-64-v3"
    check simt-external 0 "$forgec" build "$m" -t "x86-64-v3,$t" --weights external -q -o "$o"; err_empty
    check simt-external-first 0 env "$lib" "$o" -q -p a -n 4 --temp 0; out_is "$text"; err_empty
    for place in "$o.weights" "$tmp/o/moved"; do
        [ -e "$place" ] || mv "$o.weights" "$place"
        check simt-external-gpu 0 env "$lib" "$o" -q --target simt32 -p a -n 4 --temp 0 -m "$place"; out_is "$text"; err_empty
        check simt-external-cpu 0 "$o" -q --target x86-64-v3 -p a -n 4 --temp 0 -m "$place"; out_is "$text"; err_empty
    done
    check simt-external-none 4 env "$lib" "$o" --target simt32 -p a; err_has "-m FILE"
    rm -f "$o" "$tmp/o/moved"
    check simt-one 0 "$forgec" build "$m" -t "$t" -q -o "$o"; err_empty
    check simt-one-threads 0 env "$lib" "$o" -q -p a -n 4 --temp 0 -t 2; out_is "$text"; err_has "--threads has no effect"
    rm -f "$o"
    check simt-verify 0 env "$lib" "$forgec" verify "$m" -t "$t,x86-64-v3" --tokens 5; out_has "simt32"; out_has "x86-64-v3"; err_empty
    check simt-verify-one 0 env "$lib" "$forgec" verify "$m" -t "$t" --ctx 1 --kv q8_0 --json; out_has '"ok":	true'; err_empty
    check simt-compare 0 env "$lib" "$forgec" compare "$m" -t "$t" --fuse layer,layer -p 4 -n 2 -r 2 --min-time 0.01; err_empty
    out_has "x floor"; out_has "0.00e+00"
    out_has "2 rounds, there and back, of at least 0.01 s"; out_has "| times fuse layer |"; out_has "; too few rounds to tell"; out_has "on a GPU with the launch that draws it"
    check simt-compare-json 0 env "$lib" "$forgec" compare "$m" -t "$t" --fuse none,layer -p 4 -n 2 -r 7 --min-time 0.001 --format json; err_empty
    if command -v python3 > /dev/null; then
        python3 -c '
import json, sys
none, layer = json.load(sys.stdin)["programs"]
for row in none, layer:
    assert row["bandwidth_gb_s"] > 0, row
    assert row["bytes_to_floor"] > 1 and row["bytes_per_token"] > row["weight_bytes_per_token"] + row["kv_bytes_per_token"], row
    for speed in row["decode"], row["prefill"]:
        rounds = sorted(speed["rounds_tok_s"])
        assert rounds[0] > 0 and len(rounds) == 7 and speed["tok_s"] == rounds[3], row
        assert speed["ratio_least"] <= speed["ratio"] <= speed["ratio_most"], row
        wanted = "faster" if speed["ratio_least"] > 1.005 else "slower" if speed["ratio_most"] < 1 / 1.005 else "not distinguishable"
        assert speed["verdict"] == wanted, row
assert layer["launches_per_token"] == 8 < none["launches_per_token"], (layer, none)
assert layer["bytes_per_token"] < none["bytes_per_token"] and layer["floor_bytes_per_token"] == none["floor_bytes_per_token"]
assert layer["logits_max_abs_relative"] < 0.02
' < "$tmp/out" 2> "$tmp/err" || bad "not the JSON of two programs"
    fi
    refuse simt-compare-threads 2 "--threads is not available for target" env "$lib" "$forgec" compare "$m" -t "$t" --fuse layer --threads 2
    [ ! -e /dev/stdout ] || [ -L /dev/stdout ] || bad "/dev/stdout is no link any more"
}

if [ -n "$forgec" ]; then
    m=$tmp/m.gguf o=$tmp/o/model
    mkdir "$tmp/o"
    export TMPDIR="$tmp/o"
    model -o "$m"
    model --header-only -o "$tmp/header.gguf"
    model --head-dim 20 -o "$tmp/head20.gguf"
    model --head-dim 1032 -o "$tmp/head1032.gguf"
    model --embd 65536 --header-only -o "$tmp/wide.gguf"
    gpu_refusals
    gpu_emits
    if [ -n "$simt" ]; then gpu_runs; fi
    [ -z "$(ls -A "$tmp/o")" ] || { name=left; bad "left behind: $(ls -A "$tmp/o")"; }
fi

summary
