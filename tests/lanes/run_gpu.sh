#!/bin/sh
# Tests the GPU side of the runtime with tests/lanes/fake_gpu_program.c and libsimt.so instead of libamdhip64.
#   run_gpu.sh PROGRAM EXTERNAL LIBSIMT IMAGE EXTERNAL-BYTES CUDA
# PROGRAM: the GPU program and the CPU program, with IMAGE inside.  EXTERNAL: -DFAKE_GPU_ONLY -DFAKE_IMAGE_BYTES=EXTERNAL-BYTES, without an image.
# $SIMT_SEEDS: seeds of the random order (1 2).  $FORGEC_TEST_FEW: for sanitizers, does not repeat every text with plain launches.
# CUDA: PROGRAM with -DFAKE_GPU_API=FORGE_GPU_CUDA -DFAKE_GPU_ARCH='"sm_90"'.  All print the same text for equal flags.
program=$1 external=$2 image=$4 cuda=$6
export FORGE_HIP_LIBRARY="$3" FORGE_CUDA_LIBRARY="$3"
unset FORGE_PROGRAM FORGE_NO_GRAPH FORGE_SIMT_DEFER HSA_OVERRIDE_GFX_VERSION
. "$(dirname "$0")/../harness.sh"

# as_cpu NAME ARGUMENTS...: the GPU's text is the CPU's: with graphs, with plain launches, and when nothing runs before a query
as_cpu() {
    label=$1
    shift
    text=$("$program" --target fake -q "$@" 2> "$tmp/notes" < "${stdin:-/dev/null}")
    check "$label" 0 "$program" --target simt -q "$@"; out_is "$text"; cmp -s "$tmp/notes" "$tmp/err" || bad "other stderr"
    [ -n "${FORGEC_TEST_FEW-}" ] || { check "$label plain" 0 "$program" --target simt -q --no-graph "$@"; out_is "$text"; }
    check "$label deferred" 0 env FORGE_SIMT_DEFER=1 FORGE_SIMT_SEED=7 "$program" --target simt -q "$@"; out_is "$text"
}

# text
as_cpu greedy -p Once -n 40 --temp 0
as_cpu one-token --tokens 65 -n 5 --temp 0 --print-tokens
as_cpu ends -p Once -s 5
as_cpu ignore-eos -p Once -s 5 --ignore-eos -n 300
as_cpu full -p Once -s 1 --ignore-eos -c 40
as_cpu stop -p Once -s 3 -n 200 -r e
as_cpu none -p Once -n 0
for s in ${SIMT_SEEDS:-1 2}; do
    as_cpu "seed $s" -p Once -n 30 -s $s
    as_cpu "seed $s top-k" -p Once -n 30 -s $s --top-k 5 --temp 1.5
    as_cpu "seed $s top-p" -p Once -n 30 -s $s --top-k 0 --top-p 0.6 --min-p 0
    as_cpu "seed $s min-p" -p Once -n 30 -s $s --top-k 0 --top-p 1 --min-p 0.3
    as_cpu "seed $s all" -p Once -n 30 -s $s --top-k 0 --top-p 1 --min-p 0 --temp 0.7
    as_cpu "seed $s repeat" -p Once -n 60 -s $s --repeat-penalty 1.3 --repeat-last-n 20
    as_cpu "seed $s presence" -p Once -n 60 -s $s --presence-penalty 0.7 --frequency-penalty 0.3 --repeat-last-n -1
    as_cpu "seed $s bias" -p Once -n 30 -s $s -l 101+5 -l 97-inf -l 32-2.5
done
# guided text, drawn after each step with a mask
as_cpu grammar -p Once -n 40 -s 1 -G 'root ::= ("the " [a-z]{2,8} ", ")+ "end."'
as_cpu schema -p Once -s 2 --top-k 0 --top-p 0.8 --repeat-penalty 1.3 -j '{"type":"object","properties":{"a":{"type":"integer"}}}'
as_cpu choice -p Once -s 3 --temp 2 -l 97-5 --choice abc --choice axyz --choice b
as_cpu grammar-full -p Once --temp 0 -c 40 -G 'root ::= [a-z ]+ "."'
check greedy-alone 0 "$program" --target simt -q -p Once -n 8 --temp 0; greedy=$(cat "$tmp/out")
long=$(head -c 300 /dev/zero | tr '\0' x)
for n in 0 1 2 63 64; do as_cpu "ubatch $n" -p "$long" -n 12 --temp 0 -ub $n; done
check environment 0 env FORGE_NO_GRAPH=1 "$program" -q -p Once -n 8 --temp 0; greedy=$(cat "$tmp/out"); err_empty
check first 0 "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"; err_empty
check verbose 0 "$program" -v -p Once -n 8 --temp 0; err_has "target simt, emulator of lanes"
printf 'Hello\n\nAgain\nand on\n' > "$tmp/turns"; stdin=$tmp/turns
as_cpu chat -i -n 8 --temp 0 -sys "Be good"
as_cpu chat-drawn -i -n 20 -s 9
as_cpu chat-guided -i -n 20 -s 9 -G 'root ::= [a-z]{3,12} "!"'
as_cpu chat-context -i --temp 0 --ignore-eos -c 60 -n 30
# ... saved in a file and continued: states and tokens are restored to the GPU; a file of another target is refused
printf 'Hello\n' > "$tmp/one"; printf 'Again\nand on\n' > "$tmp/rest"
stdin=$tmp/turns; check chat-whole 0 "$program" --target simt -q -i -n 8 --temp 0 --repeat-penalty 1.2; tail -n +2 "$tmp/out" > "$tmp/whole"
for how in "" --no-graph; do
    stdin=$tmp/one; check "chat-save $how" 0 "$program" --target simt -q $how -i -n 8 --temp 0 --repeat-penalty 1.2 --save "$tmp/kept"; err_empty
    stdin=$tmp/rest; check "chat-load $how" 0 "$program" --target simt -q $how -i -n 8 --temp 0 --repeat-penalty 1.2 --load "$tmp/kept"; same "$tmp/out" "$tmp/whole"
    refuse "chat-load-cpu $how" 1 "another build saved it" "$program" --target fake -q -i --load "$tmp/kept"
    rm -f "$tmp/kept"
done
stdin=

# logits, perplexity
for args in "-p Once" "--tokens 65" "-p $long" "-p $long -ub 7" "-p $long -ub 0"; do
    check "logits-cpu $args" 0 "$program" --target fake -q $args --logits "$tmp/l1"
    check "logits $args" 0 "$program" --target simt -q $args --logits "$tmp/l2"; cmp -s "$tmp/l1" "$tmp/l2" || bad "other logits"
    check "logits-deferred $args" 0 env FORGE_SIMT_DEFER=1 "$program" --target simt -q $args --logits "$tmp/l2"; cmp -s "$tmp/l1" "$tmp/l2" || bad "other logits"
done
as_cpu logits-text -p "$long" --logits "$tmp/l2" -n 20 -s 5
head -c 5000 /dev/zero | tr '\0' ab > "$tmp/text"
as_cpu perplexity --perplexity -f "$tmp/text" -c 512

# logits that are not finite, at any place: logits that the host reads, and logits that it never reads
spoiled() { # NAME TOKENS ARGUMENTS...
    label="$1 $number $way" tokens=$2
    shift 2
    check "$label" 4 env "$way" "FAKE_SPOIL=$((tokens - 1)):$number" "$program" --target simt -q "$@"
    err_has "the logits after $tokens tokens of context are not finite"; [ "$(wc -l < "$tmp/err")" -eq 1 ] || bad "not one line"
}
for number in 0:7fc00000 299:7f800000 150:ff800000 299:ffc00001; do
    for way in FORGE_SIMT_DEFER=1 FORGE_NO_GRAPH=1; do
        spoiled spoil-draw 9 -p Once -n 8 --temp 0; out_is "$(printf %s "$greedy" | cut -c1-4)"
        spoiled spoil-draw-random 9 -p Once -n 8 -s 3
        spoiled spoil-draw-slow 9 -p Once -n 8 -s 3 --top-k 0 --top-p 0.9 --min-p 0 --repeat-penalty 1.3
        spoiled spoil-draw-by-id 9 -p Once -n 8 -s 3 --top-k 0 --top-p 1 -l 0-inf -l 299-inf -l 150-inf
    done
    spoiled spoil-prompt 5 -p Once -n 8 --temp 0; out_is ""
    spoiled spoil-logits 60 -p "$long" --logits "$tmp/spoiled"; [ ! -e "$tmp/spoiled" ] || bad "a file of logits is left"
    spoiled spoil-perplexity 400 --perplexity -f "$tmp/text" -c 512
    spoiled spoil-bench 20 --bench -p 0 -n 24 -r 1
done

# bench
check bench 0 "$program" --bench -p 64 -n 8 -r 2 -d 0,10; out_has "pp64 @ d10"; out_has "tg8"; out_has "Copy bandwidth of emulator of lanes"; err_empty
check bench-json 0 "$program" --bench -p 64 -n 8 -r 1 -o json; out_has '"n_gen": 8'
check bench-full 0 "$program" --bench -p 0 -n 24 -d 1000 -r 1
check bench-random 0 "$external" --bench --random-weights -p 8 -n 4 -r 1

# profile
check profile 0 "$program" --profile -p 16 -n 4 -d 10; out_has "| append | 1 |"; out_has "| sample | 1 |"; out_has "the step as in use"; err_empty
check profile-no-graph 0 "$program" --profile -p 0 -n 4 --no-graph; out_has "| head | 1 |"
check profile-full 0 "$program" --profile -p 0 -n 400 -d 1010; out_has "decode, a token after 1010"
check profile-beyond 6 "$program" --profile -p 0 -d 1022; err_has 1022
check profile-json 0 "$external" --profile --random-weights -p 3 -n 4 -o json; out_has '"graph": true'
# On a device on which only launches take time, each 1 ms; then launch number k takes k us more.  A step has 3.  The step in use is the mean of 15
# steps; if B launches have run then, it is 3 (1 ms + (B - 22) us).  The sum is the median of the last four of 5 steps, after three times 5 other steps:
# 3 (1 ms + (B + 54.5) us).
check profile-clock 0 env FORGE_SIMT_LAUNCH_NS=1000000 "$program" --profile -p 16 -n 4 -d 10
out_has "Sum 3000.0 us, the step as in use 3000.0 us"; out_has "Sum 2000.0 us, the step as in use 2000.0 us"
check profile-later 0 env FORGE_SIMT_LAUNCH_NS=1000000 FORGE_SIMT_LATER_NS=1000 "$program" --profile -p 0 -n 4 -d 10 -o json; out_has '"gap_us": -229.5,'
check profile-after 0 "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"

# weights
check weights 0 env FAKE_WEIGHTS="$image" "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"
check weights-deferred 0 env FORGE_SIMT_DEFER=1 FAKE_WEIGHTS="$image" "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"
check weights-none 4 "$external" -q -p Once; err_has "-m FILE"
octal() { printf '%016x' "$1" | sed 's/\(..\)/\1 /g' | awk '{ for (i = 8; i > 0; i--) printf "%s ", $i; print "" }' | while read -r a b c d e f g h; do
    for x in $a $b $c $d $e $f $g $h; do printf '\\%03o' "0x$x"; done; done; }
bytes=$5
head -c "$bytes" /dev/urandom > "$tmp/image"
{ printf 'FORGEW01'; printf "$(octal "$bytes")"; printf 'fedcba9876543210fedcba9876543210'; head -c 4048 /dev/zero; cat "$tmp/image"; } > "$tmp/w"
check weights-file 0 env FAKE_WEIGHTS="$tmp/image" "$external" -q -p Once -n 8 --temp 0 -m "$tmp/w"; out_is "$greedy"
head -c $((bytes + 4095)) "$tmp/w" > "$tmp/short"
check weights-short 4 "$external" -q -p Once -m "$tmp/short"; err_has "cut short"

# errors: each has its message and its exit code
check no-library 8 env FORGE_HIP_LIBRARY="$tmp/none" "$external" -p x; err_has "cannot be loaded"
check not-hip 8 env FORGE_HIP_LIBRARY=libm.so.6 "$external" -p x; err_has "libm.so.6 has no hipInit"
check old-library 8 env FORGE_SIMT_VERSION=40500000 "$external" -p x; err_has "too old"
check no-device 8 env FORGE_SIMT_DEVICES=0 "$external" -p x; err_has "no AMD GPU found"
check weights-file-deferred 0 env FORGE_SIMT_DEFER=1 FAKE_WEIGHTS="$tmp/image" "$external" -q -p Once -n 8 --temp 0 -m "$tmp/w"; out_is "$greedy"
check memory 5 env FORGE_SIMT_MEMORY=$bytes "$external" -p x -m "$tmp/w"; err_has "weights $((bytes / 1048576))"
check memory-first 5 env FORGE_SIMT_MEMORY=$bytes "$external" -p x -m "$tmp/none"; err_has "free"
for at in 1 2 3 4 9; do
    check "fault $at" 10 env FORGE_SIMT_FAULT=$at "$program" -q -p Once --temp 0 --ignore-eos -n 20; err_has "the launch that ran last: "
    check "fault-plain $at" 10 env FORGE_SIMT_FAULT=$at "$program" -q -p Once --temp 0 --ignore-eos -n 20 --no-graph; err_has "unspecified launch failure"
    check "fault-deferred $at" 10 env FORGE_SIMT_DEFER=1 FORGE_SIMT_FAULT=$at "$program" -q -p Once --temp 0 --ignore-eos -n 20; err_has "the launch that ran last: "
done
check fault-name 10 env FORGE_SIMT_FAULT=5 "$program" -q -p Once --temp 0 -n 20; err_has "the launch that ran last: append of layer 3"
check fault-bench 10 env FORGE_SIMT_FAULT=30 "$program" --bench -p 8 -n 8 -r 2; err_has "the launch that ran last: "
check abort 10 env FORGE_SIMT_ABORT=5 "$program" -q -p Once --temp 0 -n 20; err_has "the GPU failed; the launch that ran last: append of layer 3"

# which GPU
check device 0 "$program" --target simt -q -p Once -n 8 --temp 0 --devices 0; out_is "$greedy"; err_empty
devices=${FORGE_SIMT_DEVICES:-1}
check no-such-device 8 "$program" --target simt -q -p Once --devices "$devices"; err_has "there is no GPU $devices; this machine has $devices"
check one-device 2 "$program" -q -p Once --devices 0,1; err_has "--devices names 2 GPUs, simt needs 1"

# a message reports that another target is used instead of the GPU
check instead 0 env FORGE_SIMT_DEVICES=0 "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"; err_has "fake runs instead of simt: no AMD GPU found"
check instead-memory 0 env FORGE_SIMT_MEMORY=1000000 "$program" -q -p Once -n 8 --temp 0; out_is "$greedy"; err_has "fake runs instead of simt"
check no-instead 8 env FORGE_SIMT_DEVICES=0 "$program" -q -p Once --target simt; err_has "no AMD GPU found"

# the same through libcuda's functions
check cuda 0 env FAKE_WEIGHTS="$image" "$cuda" -q -p Once -n 8 --temp 0; out_is "$greedy"; err_empty
check cuda-plain 0 env FORGE_SIMT_DEFER=1 "$cuda" -q -p Once -n 8 --temp 0 --no-graph; out_is "$greedy"; err_empty
check cuda-check 0 "$cuda" --check; out_has "CUDA 12.8"; out_has "sm_90 is the target that runs"
check cuda-bench 0 "$cuda" --bench -p 64 -n 8 -r 1; out_has "tg8"
check cuda-older 9 env FORGE_SIMT_SM=89 "$cuda" -p x --target sm_90; err_has "sm_89"
check cuda-newer 0 env FORGE_SIMT_SM=100 "$cuda" -q -p Once -n 8 --temp 0; out_is "$greedy"; err_empty
check cuda-driver 8 env FORGE_SIMT_CUDA=12040 "$cuda" -p x --target sm_90; err_has "12.5 is needed"
check cuda-none 8 env FORGE_CUDA_LIBRARY="$tmp/none" "$cuda" -p x --target sm_90; err_has "NVIDIA"
check cuda-spills 0 env FORGE_SIMT_LOCAL=48 "$cuda" --profile -p 0 -n 2 -o json; out_has '"name": "sample", "us": '; out_has '"spill_bytes": 48'
check cuda-no-spills 0 "$cuda" --profile -p 0 -n 2 -o json; out_has '"spill_bytes": 0'
check cuda-fault 10 env FORGE_SIMT_FAULT=5 "$cuda" -q -p Once --temp 0 -n 20; err_has "the launch that ran last: append of layer 3"

# about it
check check 0 "$program" --check; out_has "OK    memory"; out_has "simt is the target that runs"; err_empty
check check-none 8 env FORGE_SIMT_DEVICES=0 "$external" --check; out_has "FAIL  library"
check check-memory 5 env FORGE_SIMT_MEMORY=$bytes "$external" --check; out_has "FAIL  memory"; out_has "OK    code"
check check-override 0 env HSA_OVERRIDE_GFX_VERSION=11.0.0 "$external" --check; out_has "WARN  override"
check check-instead 0 env FORGE_SIMT_DEVICES=0 "$program" --check; out_has "fake is the target that runs"
check check-new 0 env FORGE_SIMT_VERSION=80000000 "$program" --check; out_has "WARN  library"
check info 0 env FORGE_HIP_LIBRARY="$tmp/none" "$external" --info; out_has "a GPU that is simt, through HIP"; err_empty
check version 0 env FORGE_HIP_LIBRARY="$tmp/none" "$external" --version; err_empty
check tokenize 0 env FORGE_HIP_LIBRARY="$tmp/none" "$external" --tokenize -p ab; out_is "256 97 98"; err_empty

summary
