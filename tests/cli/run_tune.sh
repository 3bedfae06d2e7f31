#!/bin/sh
# run_tune.sh FORGEC MODEL.gguf OTHER.gguf LANES GPU-MODEL.gguf -- forgec tune: its results, saving, continuing and refusals; and --tuned.
# Speeds come from a script that reads a program's settings instead of measuring; logits come from the programs.
forgec=$1 model=$2 other=$3 lanes=$4 gpu_model=$5 here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
export TIMINGS='' TMPDIR="$tmp/work" CALLS="$tmp/calls" STOP="$tmp/stop" SPOIL="$tmp/spoil" SLOW="$tmp/slow"
mkdir "$TMPDIR"
cd "$tmp" || exit 1

# PROGRAM ARGUMENTS: prompts at 100 tokens/s, at 110 with gemm_tokens 6, at 90 with other settings of which that is none; decode at 50.
cat > on.sh <<'END'
program=$1
shift
echo "$*" >> "$CALLS"
[ ! -f "$STOP" ] || [ "$(wc -l < "$CALLS")" -le 6 ] || exit 7
settings=$(dirname "$program")/$("$program" --info | sed -n 's/.*--tuned \([^ ]*\).*/\1/p')
case "$*" in
*--profile*) [ -z "$TIMINGS" ] || exec "$program" $(echo "$*" | sed 's/-n 20 --each 3/-n 3 --each 1/')
             echo '{"where": "a \"stand-in\"", "steps": []}'; exit ;;
*--logits*)  [ -f "$SPOIL" ] && [ -f "$settings" ] || exec "$program" "$@"
             "$program" "$@" | tr '\000-\077' '\100-\177'; exit ;;
esac
speed=100
[ ! -f "$settings" ] || { speed=90; ! grep -q 'gemm_tokens: 6' "$settings" || [ -f "$SLOW" ] || speed=110; }
depths=0 prompts=0 n=0 sep='['
while [ $# -gt 0 ]; do
    case $1 in -d) depths=$2 ;; -p) prompts=$2 ;; -n) n=$2 ;; esac
    shift
done
for d in $(echo "$depths" | tr , ' '); do
    for p in $(echo "$prompts" | tr , ' '); do
        [ "$p" -eq 0 ] || { printf '%s{"n_prompt": %s, "n_gen": 0, "n_depth": %s, "median_ts": %s}' "$sep" "$p" "$d" "$speed"; sep=,; }
    done
    [ "$n" -eq 0 ] || { printf '%s{"n_prompt": 0, "n_gen": %s, "n_depth": %s, "median_ts": 50}' "$sep" "$n" "$d"; sep=,; }
done
echo ']'
END
rm -f calls; : > calls
tune() { "$forgec" tune "$model" -t x86-64-v3 --on "sh on.sh" --candidates 1 -r 1 -d 8 -p 16 --ctx 128 "$@"; }

# ---- wrong usage ----
refuse none 2 "tune takes one model, got 0" "$forgec" tune
refuse two 2 "tune takes one target" "$forgec" tune "$model" -t x86-64-v3,portable
refuse tuned 2 "cannot be combined with --plan or --tuned" "$forgec" tune "$model" --tuned x.yaml
refuse emit 2 "tune keeps no program" "$forgec" tune "$model" --emit obj
refuse list 2 "at most 3 numbers" "$forgec" tune "$model" -p 1,2,3,4
refuse order 1 "in ascending order" tune -p 32,16
refuse step 1 "a prefill step must have 2 to" tune -p 9999
refuse depth 1 "needs room for 96 more" tune -d 100
refuse place 1 "none/x.yaml.log: cannot be written" tune -o none/x.yaml
refuse spills 2 "--allow-spills cannot be combined with tune" "$forgec" tune "$model" -t gfx1151 --allow-spills
echo mine > y.yaml.log
refuse log 1 "y.yaml.log: exists already" tune -o y.yaml
[ "$(cat y.yaml.log)" = mine ] || bad "another file was overwritten"
refuse elsewhere 1 "--on COMMAND runs it on another machine" env FORGE_HIP_LIBRARY=/none "$forgec" tune "$model" -t gfx942
refuse command 1 "exit code" tune -o x.yaml --on false
rm -f x.yaml.log
[ -z "$(ls "$TMPDIR")" ] || bad "files are left in TMPDIR"

# ---- interrupted: the numbers are kept, and the same command continues ----
: > stop
check stopped 1 tune -o x.yaml
[ -f x.yaml.log ] && [ ! -e x.yaml ] || bad "no numbers, or a file of settings, after a failure"
before=$(wc -l < calls)
rm stop
check continued 0 tune -o x.yaml; err_has "measurements already"; err_has "gemm_tokens                  6"
out_has "1.100"; out_has "not distinguishable"; out_has "x.yaml"
[ ! -e x.yaml.log ] || bad "the numbers are left"
[ "$before" -gt 6 ] || bad "$before calls before the stop"
[ -z "$(ls "$TMPDIR")" ] || bad "files are left in TMPDIR"
for line in 'target: x86-64-v3' 'machine: "a ' '  gemm_tokens: 6' 'prefill: 16 tokens, own: 100.0, tuned: 110.0, ratio: 1.1'; do
    grep -qF -- "$line" x.yaml || bad "x.yaml has no $line"
done
[ -z "$full" ] || { check without-name 0 tune; [ -f tuned/x86-64-v3-*.yaml ] || bad "no file in tuned/"; }

# ---- use of the settings ----
check verify 0 "$forgec" verify "$model" -t x86-64-v3 --tuned x.yaml --tokens 40
check plan 0 "$forgec" build "$model" -q -t x86-64-v3 --tuned x.yaml --emit plan -o plan; grep -q -- '--tuned x.yaml' plan || bad "the plan does not say it"
check source 0 "$forgec" build "$model" -q -t x86-64-v3 --tuned x.yaml --emit source -o tuned.c
check cc 0 "$forgec" cc tuned.c "$model" -q -t x86-64-v3 --tuned x.yaml -o program
refuse cc-without 1 "say --tuned x.yaml" "$forgec" cc tuned.c "$model" -q -t x86-64-v3 -o none
check own-source 0 "$forgec" build "$model" -q -t x86-64-v3 --emit source -o own.c
refuse cc-with 1 "leave out --tuned" "$forgec" cc own.c "$model" -q -t x86-64-v3 --tuned x.yaml -o none
refuse target 1 "x.yaml:3:11: these settings are for target x86-64-v3; this build has portable" "$forgec" build "$model" -t portable --tuned x.yaml -o none
refuse shape 1 "x.yaml:5:10: these settings are for a model of shape" "$forgec" build "$other" -t x86-64-v3 --tuned x.yaml -o none
refuse options 1 "these settings are for the options --fuse layer --kv f16" "$forgec" build "$model" -t x86-64-v3 --kv q8_0 --tuned x.yaml -o none
refuse several 1 "settings are for one target" "$forgec" build "$model" -t x86-64-v3,portable --tuned x.yaml -o none
sed 's/gemm_tokens: 6/gemm_tokens: 3/' x.yaml > wrong.yaml
refuse tile 1 "3 is out of range" "$forgec" build "$model" -t x86-64-v3 --tuned wrong.yaml -o none
sed 's/^tiles:/tilse:/' x.yaml > wrong.yaml
refuse key 1 'key "tilse" is unknown' "$forgec" build "$model" -t x86-64-v3 --tuned wrong.yaml -o none

# ---- no better settings, and no settings with other results ----
rm -f x.yaml
if [ -n "$full" ]; then
    : > slow
    check slower 0 tune -o x.yaml; out_has "no faster settings were found"; out_has "x.yaml"
    rm slow
fi
: > spoil
check wrong 0 tune -o x.yaml; err_has "the logits of the tuned program differ"
# the file that -o names is written: it says that the planner's own settings stay, and a build takes it
! grep -q 'tiles:\|kernels:' x.yaml || bad "wrong settings were written"
check nothing-found 0 "$forgec" build "$model" -q -t x86-64-v3 --tuned x.yaml --emit source -o own-again.c
rm spoil

# ---- a GPU's kernels on lanes, measured by their own times: it runs to the end ----
if [ -n "$lanes" ]; then
    export FORGE_HIP_LIBRARY="$lanes" TIMINGS=real
    if [ -n "$full" ]; then                              # each of its programs is compiled
        check lanes 0 "$forgec" tune "$gpu_model" -t "$here/../lanes/simt32.yaml" --on "sh on.sh" --candidates 1 -r 1 --ctx 128 -d 0 -p 32 --minutes 10 -o gpu.yaml
        err_has "decode, threads and groups: 1 programs"; err_has "prefill, steps of 32 tokens"; out_has "programs in"
    fi
    # --each: one launch of a kernel is measured, and the others count the same
    check profile-build 0 "$forgec" build "$gpu_model" -q -t "$here/../lanes/simt32.yaml" --ctx 128 -o each
    for each in 0 1; do
        check profile-$each 0 ./each --profile -p 0 -n 3 --each $each -o json
        grep -o '"name": "ffn_gate_up", "us": -\{0,1\}[0-9.]*' "$tmp/out" > timings
        [ "$(wc -l < timings)" -gt 1 ] || bad "--each $each lists no launches of ffn_gate_up"
        [ $each -eq 1 ] || [ "$(sort -u timings | wc -l)" -gt 1 ] || bad "all launches took the same time"
        [ $each -eq 0 ] || [ "$(sort -u timings | wc -l)" -eq 1 ] || bad "one launch of each kernel was to be measured: $(cat timings)"
    done
    group=$("$forgec" build "$gpu_model" -q -t "$here/../lanes/simt32.yaml" --emit plan -o - | sed -n 's/^  gemv token_embd .*\(groups=.*\)/\1/p')
    printf 'tuned: {target: simt32, options: --fuse layer --kv f16, shape: x}\nkernels:\n  - decode gemv token_embd rows=2 lanes=8 threads=64 resident=1 depth=2 %s\n' "$group" > kernels.yaml
    check shape-of 1 "$forgec" build "$gpu_model" -q -t "$here/../lanes/simt32.yaml" --tuned kernels.yaml --emit plan -o none
    shape=$(sed -n 's/.*this build has \(.*\)/\1/p' "$tmp/err")
    sed "s/shape: x/shape: \"$shape\"/" kernels.yaml > good.yaml
    check kernels 0 "$forgec" verify "$gpu_model" -t "$here/../lanes/simt32.yaml" --tuned good.yaml --tokens 20
    sed 's/rows=2/rows=99/' good.yaml > wrong.yaml
    refuse rows 1 "wrong.yaml:3:12: rows is 99" "$forgec" build "$gpu_model" -t "$here/../lanes/simt32.yaml" --tuned wrong.yaml -o none
    sed 's/groups=.*/groups=2/' good.yaml > wrong.yaml
    refuse group 1 "wrong.yaml:3:5: group 2 has no gemv kernel" "$forgec" build "$gpu_model" -t "$here/../lanes/simt32.yaml" --tuned wrong.yaml -o none
fi
summary tune
