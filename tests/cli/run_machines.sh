#!/bin/sh
# run_machines.sh FORGEC GOLDEN MAKE_GGUF LIBSIMT LIBSIMTCCL LANES.yaml STORYTELLER.gguf -- a model that processes with one GPU each share: they give the
# results of one process with all GPUs; a conversation and a server; refusals, and that all processes end when one ends.
forgec=$1 golden=$2 make=$3 libsimt=$4 libsimtccl=$5 lanes=$6 storyteller=$7
. "$(dirname "$0")/../harness.sh"
command -v curl > "$tmp/curl" || skip "there is no curl"
unset FORGE_SIMT_DEVICES FORGE_PROGRAM MASTER_ADDR MASTER_PORT
NCCL_COMM_ID=127.0.0.1:$((20000 + $$ % 10000))
# Processes wait for each other, and this script for them, without a limit; `limit`, in seconds, ends hanging processes before ctest ends the test.
limit=1100
export FORGE_HIP_LIBRARY="$libsimt" FORGE_RCCL_LIBRARY="$libsimtccl" NCCL_COMM_ID FORGE_MEET_SECONDS=$limit

build() { out=$1; shift; check "build $*" 0 "$forgec" build "$@" -q -o "$tmp/$out"; }
# as RANK N COMMAND...: a process as mpirun starts it, each on its own machine
as() {
    rank=$1 n=$2
    shift 2
    exec env OMPI_COMM_WORLD_SIZE="$n" OMPI_COMM_WORLD_RANK="$rank" OMPI_COMM_WORLD_LOCAL_RANK="${local-0}" timeout $limit "$@"
}
# together NAME CODE N COMMAND...: N processes; the last check is about the first process, the others print nothing and end with CODE too
together() {
    what=$1 all=$2 n=$3 other=$3 pids=
    shift 3
    while [ $((other -= 1)) -gt 0 ]; do
        (as "$other" "$n" "$@" > "$tmp/other" 2>&1 < /dev/null) &
        pids="$pids $!"
    done
    check "$what by $n processes" "$all" sh -c 'exec env OMPI_COMM_WORLD_SIZE="$0" OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 timeout "$@"' "$n" "$limit" "$@"
    for pid in $pids; do
        code=0
        wait "$pid" || code=$?
        [ "$code" -eq "$all" ] || bad "another process ended with $code"
        [ ! -s "$tmp/other" ] || bad "another process said $(cat "$tmp/other")"
    done
}
# like_one NAME N TOKENS: the logits of the program NAME equal those of one process with N GPUs, byte for byte
like_one() {
    check "$1, $2 GPUs of one process" 0 env FORGE_SIMT_DEVICES="$2" "$tmp/$1" --tokens "$3" --logits "$tmp/one" -q
    together "$1" 0 "$2" "$tmp/$1" --tokens "$3" --logits "$tmp/several" -q
    cmp -s "$tmp/one" "$tmp/several" || bad "its logits are not those of one process"
}
tokens_of() { tr '\n' ' ' < "$golden/$1.tokens"; }
greedy_of() { tr '\n' ' ' < "$golden/$1.greedy" | cut -d' ' -f1-12; }

# ---- text and logits ----
build two "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2
tokens=$(tokens_of llama-fusedqkv)
for run in 1 2; do
    together "greedy, run $run" 0 2 "$tmp/two" --tokens "$tokens" -n 12 --temp 0 --print-tokens -q
    out_is "$(greedy_of llama-fusedqkv)"; err_empty
done
like_one two 2 "$tokens"
cp "$tmp/several" "$tmp/first"
like_one two 2 "$tokens"
cmp -s "$tmp/several" "$tmp/first" || bad "two runs differ"
check "drawn by one process" 0 env FORGE_SIMT_DEVICES=2 "$tmp/two" --tokens "$tokens" -n 40 --seed 7 --repeat-penalty 1.2 --logit-bias 7+3 --print-tokens -q
drawn=$(cat "$tmp/out")
together drawn 0 2 "$tmp/two" --tokens "$tokens" -n 40 --seed 7 --repeat-penalty 1.2 --logit-bias 7+3 --print-tokens -q; out_is "$drawn"
if [ -n "$full" ]; then                          # by default run_gpus.sh has them in one process
build unfused "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --fuse none
like_one unfused 2 "$tokens"
build exact "$golden/llama-none.gguf" -t "$lanes" --gpus 2 --exact
like_one exact 2 "$(tokens_of llama-none)"
fi
build three "$golden/q-llama-Q8_0.gguf" -t "$lanes" --gpus 3 --kv q8_0
together greedy 0 3 "$tmp/three" --tokens "$(tokens_of q-llama-Q8_0)" -n 12 --temp 0 --print-tokens -q; out_is "$(greedy_of q-llama-Q8_0)"
"$make" --shape tiny-gpt-oss-wide --type Q8_0 --tokenizer none -o "$tmp/experts.gguf" || exit 1
build experts "$tmp/experts.gguf" -t "$lanes" --gpus 2
like_one experts 2 "$(seq 1 24)"
if [ -n "$full" ]; then
"$make" --shape tinyllama --layers 2 --embd 256 --ff 704 --heads 4 --kv-heads 4 --head-dim 64 --vocab 301 --type Q8_0 --tokenizer none -o "$tmp/uneven.gguf" || exit 1
build uneven "$tmp/uneven.gguf" -t "$lanes" --gpus 3
like_one uneven 3 "$(seq 1 24)"
fi
# pipeline parallel
build row "$golden/llama-fusedqkv.gguf" -t "$lanes" --gpus 2 --split layer
together "greedy, pipeline" 0 2 "$tmp/row" --tokens "$tokens" -n 12 --temp 0 --print-tokens -q; out_is "$(greedy_of llama-fusedqkv)"
like_one row 2 "$tokens"
if [ -n "$full" ]; then
"$make" --shape tinyllama --layers 3 --embd 256 --ff 704 --heads 4 --kv-heads 4 --head-dim 64 --vocab 301 --type Q8_0 --tokenizer none -o "$tmp/long.gguf" || exit 1
build long "$tmp/long.gguf" -t "$lanes" --gpus 3 --split layer
like_one long 3 "$(seq 1 100)"
# more tokens with logits in a step than rows of logits in the memory of collectives; and steps of a few tokens
sed 's/prefill_chunk: .*/prefill_chunk: 128/' "$lanes" > "$tmp/wide.yaml"
build wide "$golden/llama-fusedqkv.gguf" -t "$tmp/wide.yaml" --gpus 2 --columns 4
like_one wide 2 "$(seq 1 100)"
like_one wide 2 "1 2 3"
fi

# ---- launchers and devices ----
(exec env FORGE_SIMT_DEVICES=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=1 timeout $limit "$tmp/two" --check > "$tmp/other" 2>&1 < /dev/null) &
other=$!
check "srun, two GPUs of one machine" 0 env FORGE_SIMT_DEVICES=2 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_LOCALID=0 "$tmp/two" --check
out_has "2, started by Slurm, a GPU each: this is number 0"; out_has "by RCCL 2.20.5 at $NCCL_COMM_ID"; out_has "GPU 0), "; out_has "GPU 1)"
wait $other || bad "the other process ended with $?"
[ ! -s "$tmp/other" ] || bad "the other process said: $(head -c 300 "$tmp/other")"
(exec env PMI_SIZE=2 PMI_RANK=1 timeout $limit "$tmp/two" --devices 0 --tokens "$tokens" -n 3 > "$tmp/other" 2>&1) &
check "MPICH, --devices" 0 env PMI_SIZE=2 PMI_RANK=0 MPI_LOCALRANKID=0 "$tmp/two" --tokens "$tokens" -n 3 --temp 0 --print-tokens -q
wait $! || bad "the other process ended with $?"
check "in a job of Slurm, without srun" 0 env FORGE_SIMT_DEVICES=2 SLURM_NTASKS=3 SLURM_PROCID=0 SLURM_LOCALID=0 "$tmp/two" --tokens "$tokens" -n 3 --temp 0 --print-tokens -q
together "place of torchrun" 0 2 env -u NCCL_COMM_ID MASTER_ADDR=127.0.0.1 MASTER_PORT=$((30000 + $$ % 2000)) "$tmp/two" --tokens "$tokens" -n 3 --temp 0 --print-tokens -q
together "a later library" 0 2 env FORGE_SIMTCCL_VERSION=22703 "$tmp/two" --check; out_has "by RCCL 2.27.3 at $NCCL_COMM_ID"
together about 0 2 "$tmp/two" --info; out_has "processes      2, by Open MPI, a GPU each: this is number 0"
together measured 0 2 "$tmp/two" --bench -p 8 -n 8 -r 1; out_has "| tg8 |"

# ---- a saved conversation, and a server ----
build story "$storyteller" -t "$lanes" --gpus 2 --columns 4 --server --chat-template "$(dirname "$0")/../server/chat.jinja"
echo "hello king" > "$tmp/first"
echo "and then" > "$tmp/second"
for kept in one several; do
    stdin=$tmp/first
    if [ $kept = one ]; then check "kept by one process" 0 env FORGE_SIMT_DEVICES=2 "$tmp/story" -i -n 6 --temp 0 -q --save "$tmp/kept-$kept"
    else together "kept" 0 2 "$tmp/story" -i -n 6 --temp 0 -q --save "$tmp/kept-$kept"; fi
done
cmp -s "$tmp/kept-one" "$tmp/kept-several" || bad "another conversation is kept"
stdin=$tmp/second
check "gone on with by one process" 0 env FORGE_SIMT_DEVICES=2 "$tmp/story" -i -n 6 --temp 0 -q --load "$tmp/kept-one"
text=$(cat "$tmp/out")
together "gone on with" 0 2 "$tmp/story" -i -n 6 --temp 0 -q --load "$tmp/kept-several"; out_is "$text"
stdin=

# alive: process $first or its successor
alive() { kill -0 $first 2> "$tmp/kill"; }
# listens: $address of the server $first, when it has one
listens() {
    address=
    while [ -z "$address" ] && alive; do
        sleep 0.1
        address=$(sed -n 's/.*listening at //p' "$tmp/out" "$tmp/err")
    done
    [ -n "$address" ] || bad "no server: $(cat "$tmp/err")"
}
# start: a server as two processes, $first and $other, at $address
start() {
    : > "$tmp/out"
    : > "$tmp/err"
    (as 1 2 "$tmp/story" --serve --port 0 > "$tmp/other" 2>&1 < /dev/null) &
    other=$!
    (as 0 2 "$tmp/story" --serve --port 0 > "$tmp/out" 2> "$tmp/err" < /dev/null) &
    first=$!
    listens
}
# ask PROMPT REST: the text
ask() { curl -sS -m $limit "$address/v1/completions" -d "{\"prompt\": \"$1\", \"max_tokens\": 8, $2}" | sed -n 's/.*"text": *"\([^"]*\)".*/\1/p'; }
questions() {
    ask "Once upon a time" '"temperature": 0' > "$tmp/$1.1" &
    pids=$!
    ask "The king" '"temperature": 0.8, "seed": 2' > "$tmp/$1.2" &
    pids="$pids $!"
    ask "A fox" '"temperature": 0, "logit_bias": {"300": 4}' > "$tmp/$1.3" &
    pids="$pids $!"
    for pid in $pids; do wait "$pid"; done
    ask "Once" '"temperature": 0, "grammar": "root ::= [a-m ]+"' > "$tmp/$1.4"
}
name="a server" tests=$((tests + 1))
start
questions several
kill -TERM $first
code=0; wait $first || code=$?; [ $code -eq 0 ] || bad "it ended with $code"
code=0; wait $other || code=$?; [ $code -eq 0 ] || bad "the other process ended with $code"
[ ! -s "$tmp/other" ] || bad "the other process said $(cat "$tmp/other")"
(exec env FORGE_SIMT_DEVICES=2 timeout $limit "$tmp/story" --serve --port 0 > "$tmp/out" 2> "$tmp/err") &
first=$!
listens
questions one
kill -TERM $first
wait $first
for i in 1 2 3 4; do
    [ -s "$tmp/one.$i" ] || bad "question $i has no answer"
    cmp -s "$tmp/one.$i" "$tmp/several.$i" || bad "question $i is answered otherwise: $(cat "$tmp/several.$i")"
done

# ---- refusals ----
# alone NAME CODE TEXT N [RANK]: one of N processes, with $setting
setting=
alone() { refuse "$1" "$2" "$3" env $setting OMPI_COMM_WORLD_SIZE="$4" OMPI_COMM_WORLD_RANK="${5-0}" OMPI_COMM_WORLD_LOCAL_RANK=0 "$tmp/two" --tokens 1 -n 1; }
alone "three processes" 2 "started 3 processes, the program is for 2 GPUs" 3
alone "a number of nothing" 2 "OMPI_COMM_WORLD_SIZE=many" many
alone "no such process" 2 "OMPI_COMM_WORLD_RANK=2" 2 2
setting="-u NCCL_COMM_ID";                alone "no place" 2 "have no place to meet: set NCCL_COMM_ID=HOST:PORT" 2
setting=NCCL_COMM_ID=here;                alone "no such place" 2 "cannot meet at 'here'" 2
setting=FORGE_RCCL_LIBRARY=$tmp/none.so;  alone "no library" 8 "RCCL cannot be loaded" 2
setting=FORGE_RCCL_LIBRARY=$libsimt;      alone "another library" 8 "RCCL has no ncclGetVersion" 2
setting=FORGE_SIMTCCL_VERSION=2604;       alone "an old library" 8 "RCCL 2.6.4 is too old" 2
setting=FORGE_MEET_SECONDS=1;             alone "nobody comes" 10 "did not meet at $NCCL_COMM_ID within 1 seconds" 2
setting=
refuse "which GPU" 2 "name its GPU by --devices" env PMI_SIZE=2 PMI_RANK=0 "$tmp/two" --tokens 1 -n 1
together "two devices each" 2 2 "$tmp/two" --devices 0,1 --tokens 1 -n 1; err_has "each of the 2 processes has one GPU"

# two programs that do not match: the first reports it, and both end
apart() { # NAME CODE TEXT OTHER-COMMAND...: beside $tmp/two
    what=$1 all=$2 text=$3
    shift 3
    (as 1 2 "$@" --tokens 1 -n 1 > "$tmp/other" 2>&1 < /dev/null) &
    other=$!
    alone "$what" "$all" "$text" 2
    code=0
    wait $other || code=$?
    [ $code -eq "$all" ] || bad "the other process ended with $code"
}
# a key that all processes have, and a stranger without the key
together "a key" 0 2 env FORGE_MEET_KEY=ours "$tmp/two" --tokens 1 -n 1 -q
setting="FORGE_MEET_KEY=ours FORGE_MEET_SECONDS=3"
apart "a stranger" 10 "process" env FORGE_MEET_KEY=theirs FORGE_MEET_SECONDS=3 "$tmp/two"
setting="PMIX_NAMESPACE=job1 FORGE_MEET_SECONDS=3"
apart "another job" 10 "process" env PMIX_NAMESPACE=job2 FORGE_MEET_SECONDS=3 "$tmp/two"
setting=

apart "another program" 1 "process 1 of 2" "$tmp/experts"; err_has "runs another program, or has other weights, than process 0"
apart "other options" 1 "was started with other options than process 0" "$tmp/two" -c 100
apart "too little memory" 5 "free, the program needs" env FORGE_SIMT_MEMORY=2000000 "$tmp/two"; err_has "process 1 of 2 ("

# ---- invalid messages: no number in a message can make a process access other memory ----
# bent COMMAND:WORD:VALUE OPTIONS...: the leading process sends such a message; the other process reports that it is invalid, and ends
bent() {
    what=$1
    shift
    (FORGE_SIMTCCL_BEND=$what as 1 2 "$tmp/two" "$@" > "$tmp/other" 2>&1 < /dev/null) &
    other=$!
    check "a message with $what" 10 env FORGE_SIMTCCL_BEND="$what" OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 timeout 300 "$tmp/two" "$@"
    code=0
    wait $other || code=$?
    [ $code -eq 10 ] || bad "the other process ended with $code"
    grep -q "sent a message that process 1 does not know" "$tmp/other" || bad "the other process said $(cat "$tmp/other")"
}
# words of a step: 2 sequence and tokens before it, 4 number of tokens, 6 tokens with logits, 7 the first two tokens
for word in 2:99 2:0xffffffff00000000 3:0xffffffff 4:0xffffffffffffffff 4:0x100000001 4:100000 6:0xffffffff 7:0x7fffffff 7:0xffffffffffffffff; do
    bent "8:$word" --tokens 1,2,3 -n 1 --temp 0 -q
done
bent 8:1:77 --tokens 1,2,3 -n 1 --temp 0 -q

# ---- the end of one process ----
# begin: two processes that generate a long text, $first and $other
begin() {
    : > "$tmp/out"
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "$tmp/story" -p Once -n 1000 --ignore-eos > "$tmp/other" 2>&1 < /dev/null &
    other=$!
    OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 "$tmp/story" -p Once -n 1000 --ignore-eos > "$tmp/out" 2> "$tmp/err" < /dev/null &
    first=$!
    while [ ! -s "$tmp/out" ] && alive; do sleep 0.1; done
    [ -s "$tmp/out" ] || bad "it writes nothing"
}
name="another process is killed" tests=$((tests + 2))
begin
kill -KILL $other
code=0; wait $first || code=$?; [ $code -eq 10 ] || bad "it ended with $code"
err_has "RCCL says: remote process exited"; err_has "the launch that ran last"
name="the first process is killed"
begin
kill -KILL $first
code=0; wait $other || code=$?; [ $code -eq 10 ] || bad "it ended with $code"
cp "$tmp/other" "$tmp/err"; err_has "process 1: "; err_has "RCCL says: remote process exited"; one_line
summary
