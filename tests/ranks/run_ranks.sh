#!/bin/sh
# The command line of a program for two GPUs, on a driver with fake GPUs (fake_driver.c).
#   run_ranks.sh HIP CUDA DRIVER OLD
# HIP, CUDA: ranks_program.c for each.  OLD: the driver without functions for several GPUs.
hip=$1 cuda=$2 old=$4
export FORGE_HIP_LIBRARY="$3" FORGE_CUDA_LIBRARY="$3"
unset FORGE_PROGRAM FORGE_NO_GRAPH FAKE_DEVICES FAKE_ARCH FAKE_ALONE FAKE_MEMORY FAKE_FAULT FAKE_HANG FAKE_QUEUE FAKE_LOG
. "$(dirname "$0")/../harness.sh"
text="--tokens 5,6,7,8,9,10 -n 30 --temp 0 --print-tokens"

# text: with graphs and with plain launches, through both drivers, on any two GPUs
check text 0 "$hip" -q $text; words=$(cat "$tmp/out"); [ "$(wc -w < "$tmp/out")" -ge 30 ] || bad "a short text"; err_empty
check plain 0 "$hip" -q $text --no-graph; out_is "$words"; err_empty
check pieces 0 "$hip" -q $text -ub 4; out_is "$words"
check cuda 0 "$cuda" -q $text; out_is "$words"; err_empty
check drawn 0 "$cuda" -v $text; out_is "$words"; err_has "target sm_90x2, 2 x fake (GPUs 0, 1), "
check others 0 env FAKE_DEVICES=4 "$cuda" -v $text --devices 3,1; out_is "$words"; err_has "target sm_90x2, other (GPU 3), fake (GPU 1), "
check same 0 env FAKE_DEVICES=3 "$hip" -v $text --devices 1,0; out_is "$words"; err_has "2 x fake (GPUs 1, 0)"
# ... by default on the first two GPUs of the program's architecture
check passes-by 0 env FAKE_DEVICES=4 FAKE_ARCH=80,90,80,90 "$cuda" -v $text; out_is "$words"; err_has "fake (GPU 1), other (GPU 3)"
check logits 0 "$hip" -q --tokens 5,6,7,8,9,10,11,12 --logits "$tmp/l1"
check logits-plain 0 "$cuda" -q --tokens 5,6,7,8,9,10,11,12 --logits "$tmp/l2" -ub 3 --no-graph; same "$tmp/l1" "$tmp/l2"

# values that GPUs can pass on only within one process
refuse processes 2 "Open MPI started 2 processes, but the program needs 2 GPUs in one process: start one process" \
    env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 "$hip" -q $text

# measurements
check bench 0 "$hip" --bench -p 20 -n 30 -r 2 -d 0,5; out_has "tg30 @ d5"; out_has "| 0.01 MiB |"; out_has "Copy bandwidth of 2 x fake (GPUs 0, 1), the first of them"; err_empty
check bench-noise 0 "$cuda" --bench --random-weights -p 0 -n 4 -r 1 --no-graph; out_has "tg4"
for how in "" --no-graph; do
    check "profile $how" 0 "$hip" --profile -p 10 -n 4 -d 5 $how; out_has "| give | 2 |"; out_has "| sample | 1 |"; out_has "prefill, a step of 10 tokens"
done

# the program's information about itself
check info 0 env FORGE_HIP_LIBRARY="$tmp/none" "$hip" --info; err_empty
out_has "weights        12288 bytes, inside"
out_has "GPU 0          gfx942, 4096 bytes of weights, 576 of states, "; out_has "GPU 1          gfx942, 8192 bytes of weights, 1600 of states, "
out_has "state          2048 bytes of keys and values"
out_has "needs 2 GPUs that are gfx942, gfx942, through HIP"
check check 0 "$cuda" --check; out_has "GPU        1 of 2: fake, sm_90"; out_has "GPU        2 of 2: fake, sm_90"
out_has "each of the 2 GPUs reaches the memory of the others"; out_has "memory     GPU 0: "; out_has "memory     GPU 1: "; out_has "code       GPU 1: 14 bytes"
check check-devices 0 env FAKE_DEVICES=3 "$hip" --check --devices 2,0; out_has "GPU        3 of 3: other"; out_has "memory     GPU 2: "
check check-alone 0 env FAKE_ALONE=1,0 "$hip" --check; out_has "WARN  access"; out_has "fake (GPU 1) cannot access the memory of fake (GPU 0)"
check check-memory 5 env FAKE_MEMORY=1,4000 "$hip" --check; out_has "FAIL  memory     fake (GPU 1) has "; out_has "OK    memory     GPU 0"

# refusals: one line each, with their exit codes
refuse one-device 8 "the program needs 2 GPUs, number 2 of them gfx942; this machine has 1, 1 that fits: fake" env FAKE_DEVICES=1 "$hip" $text
refuse wrong-device 9 "number 2 of them sm_90; this machine has 3, 1 that fits: fake (sm_80), fake (sm_90), other (sm_80)" \
    env FAKE_DEVICES=3 FAKE_ARCH=80,90,80 "$cuda" $text
refuse chosen-wrong 9 "the program was built for sm_90" env FAKE_DEVICES=3 FAKE_ARCH=90,90,80 "$cuda" $text --devices 0,2
refuse no-such-device 8 "there is no GPU 5; this machine has 2" "$hip" $text --devices 0,5
refuse too-few 2 "--devices names 1 GPU, gfx942x2 needs 2" "$hip" $text --devices 1
refuse too-many 2 "--devices names 3 GPUs, gfx942x2 needs 2" "$hip" $text --devices 0,1,2
check check-too-few 2 "$hip" --check --devices 1; err_has "--devices names 1 GPU, gfx942x2 needs 2"; out_lacks "is the target that runs"
refuse twice 2 "--devices: GPU 1 is given twice" "$hip" $text --devices 1,1
refuse no-list 2 "--devices: 'all' is not a list of GPUs, from 0" "$hip" $text --devices all
refuse empty-list 2 "--devices: '' is not a list" "$hip" $text --devices=
check access 0 "$cuda" $text; cp "$tmp/out" "$tmp/reached"
for way in FAKE_ALONE=0,1 FAKE_ALONE=1,0 FORGE_NO_PEER=1 FORGE_CUDA_LIBRARY="$old"; do
    check "no access, $way" 0 env "$way" "$cuda" $text; out_is "$(cat "$tmp/reached")"
    check "no access is told, $way" 0 env "$way" "$cuda" --check; out_has "values pass through the host's memory"
done
refuse memory 5 "fake (GPU 1) has 0 MiB" env FAKE_MEMORY=1,4000 "$hip" $text

# faults: the GPU that failed, whichever the host was waiting for
check fault 10 env FAKE_FAULT=1,20 "$hip" -q $text; err_has "fake (GPU 1): the GPU failed: unspecified launch failure (719); the launch that ran last: "; one_line
check fault-first 10 env FAKE_FAULT=0,4 "$cuda" -q $text --no-graph; err_has "fake (GPU 0): "; err_has "the launch that ran last: give of layer 1"; one_line
check fault-bench 10 env FAKE_FAULT=1,60 "$hip" --bench -p 8 -n 8 -r 2; err_has "fake (GPU 1): "

summary
