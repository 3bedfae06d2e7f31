#!/bin/sh
# run_depth.sh FORGEC MAKE_GGUF RUN_KERNEL CHIP -- attention after long texts: the kernels that a program gets for 32 heads of 128 over 8 KV heads, with
# a cache of f16 and of q8_0, launched alone (simulator/run_kernel.c): decode's for a token after 8,191 positions, in all groups; prefill's for 64 tokens
# after 2,048.  Checks, by the simulator's counts and the text of `--emit plan`:
#   bytes              lines of 64 bytes that are read at least once differ by at most 3 % from the plan's weights, attended state, parts and queries
#   asked              lines of 128 bytes that the loads of waves touch, divided by these bytes: decode at most 1.25, q8_0 (scales of 2 bytes) 1.75
#   conflicts          cycles that LDS banks add, at most 0.05 per access
#   scratch            none
#   loads in flight    of a wave in its loop over positions, before it waits: decode at least 12, on gfx942, with 64 lanes, 8
#   launches           one per layer, in which all groups run; prefill has matrix instructions
# By default with a cache of f16.  full: also of q8_0; the same for 64 heads of 128 and of 64 over 8 KV heads, which leave registers for 4 loads on RDNA (heads of 64: 0.25 cycles of conflicts); and
# `forgec verify` over 2,112 positions, through the kernels of prompts and of tokens, against the reference.  tests/kernel/attention_decode.c and
# attention_prefill.c compare values at such depths with the oracle.
set -eu
[ $# -ge 4 ] || { echo "usage: run_depth.sh FORGEC MAKE_GGUF RUN_KERNEL CHIP [full]" >&2; exit 2; }
forgec=$1 make_gguf=$2 run_kernel=$3 chip=$4
. "$(dirname "$0")/../harness.sh"
context=8192 past=2048 chunk=64

# The memory of weights and state is text: its bytes are finite numbers in all formats, between 1e-10 and 2 as floats.
awk 'BEGIN { srand(1); for (i = 0; i < 32768; i++) printf "%c", 48 + int(16 * rand()) }' > "$tmp/memory"
for i in 1 2 3 4; do
    cat "$tmp/memory" "$tmp/memory" "$tmp/memory" "$tmp/memory" "$tmp/memory" "$tmp/memory" "$tmp/memory" "$tmp/memory" > "$tmp/more"
    mv "$tmp/more" "$tmp/memory"
done

# value WORDS, after WORDS: the number before or after the words in the kernel's lines of the plan
value()  { awk -v words=" $1" 'match($0, "[0-9]+" words) { print substr($0, RSTART) + 0; exit }' "$tmp/kernel"; }
after() { awk -v words="$1" 'match($0, words "[0-9]+") { print substr($0, RSTART + length(words)) + 0; exit }' "$tmp/kernel"; }
# total KEY: the number after `KEY:` in the head of the plan
total() { awk -v key="# $1:" 'index($0, key) == 1 { print $(split(key, x, " ") + 1); exit }' "$tmp/plan"; }
# word N: the number as 4 bytes
word() { for shift in 0 8 16 24; do printf "\\$(printf %03o $(($1 >> shift & 255)))"; done; }

# launch TEMPLATE NAME PAST TOKENS [GROUPS]: launches the plan's kernel with all its groups, or with GROUPS of them; the counts are in $tmp/stats
launch() {
    awk -v template="$1" '$1 == template { on = 1; print; next } on && /^    #/ { print; next } on { exit }' "$tmp/plan" > "$tmp/kernel"
    groups=$(value groups,) tile=1
    [ -n "$groups" ] || { groups=$(value 'groups x tokens') tile=$(after 'tokens / '); }
    counters=$(after 'counters at ')                    # zero between launches
    head -c "${counters:-$(total arena)}" "$tmp/memory" > "$tmp/arena"
    { word "$3"; word "$4"; word 1; } > "$tmp/step"
    check "$shape, $chip $kv, $2" 0 env "FORGE_GFXSIM_STATS=$tmp/stats" "$run_kernel" --chip "$chip" "$tmp/code/model-$chip.co" "$2" "${5:-$groups}" $((($4 + tile - 1) / tile)) \
        "$(after threads=)" "$(value 'bytes of LDS')" "buf:$(total 'weight image'):$tmp/memory" "buf:$(total arena):$tmp/arena" \
        "buf:$(total 'state of a sequence'):$tmp/memory" "buf:4096:$tmp/step" u64:0 buf:64:zero u32:0 u32:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 \
        u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u64:0 u32:0 u32:0
}

# ahead: the loads in flight in a loop of the launch
ahead() { sed -n 's/.*"loop_loads_in_flight_most": \([0-9]*\).*/\1/p' "$tmp/stats"; }

# counts PAST TOKENS LOADS: compares the counts of the launch with the plan, and prints them in a line
counts() {
    awk -v of="$shape, $chip $kv, $2 after $1" -v most="$conflicts" -v least="$loads" -v ahead="$3" -v positions=$(($1 + $2)) -v tokens="$2" -v context=$context -v kv="$kv" \
        -v launches="$(value launches,)" -v weights="$(value 'weight bytes')" -v state="$(value 'of state')" '
        function bad(what) { print "FAILED " of ": " what; code = 1 }
        FILENAME == ARGV[1] {                            # parts at A, maxima and totals at B, counters at C; query ... stride N
            if (match($0, /parts at [0-9]+/)) { parts = -substr($0, RSTART + 9); match($0, /counters at [0-9]+/); parts += substr($0, RSTART + 12) }
            if (/# query/ && match($0, /stride [0-9]+/)) queries = tokens * substr($0, RSTART + 7)
            next
        }
        { n = split($0, field, ","); for (i = 1; i <= n; i++) if (split(field[i], x, "\"") > 2) { v = x[length(x)]; gsub(/[^0-9]/, "", v); count[x[length(x) - 1]] += v } }
        END {
            planned = weights + state * positions / context + parts + queries
            apart = count["unique_bytes"] / planned - 1
            asked = 128 * count["load_lines"] / count["unique_bytes"]
            conflicts = count["lds_conflicts"] / (count["lds_loads"] + count["lds_stores"])
            printf "%s: %.2f MB planned, %+.2f %% read, asked %.2f; %.3f cycles of conflicts an LDS access; %d loads in flight; %d groups, %d VGPRs\n", of,
                planned / 1e6, 100 * apart, asked, conflicts, ahead, count["groups"], count["vgprs"]
            if (launches != 1 || count["groups_run"] != count["groups"]) bad(launches " launches, " count["groups_run"] " groups of " count["groups"])
            if (!(apart <= 0.03 && apart >= -0.03)) bad(count["unique_bytes"] " bytes are read")
            if (!(conflicts <= most)) bad("bank conflicts")
            if (!("scratch_bytes" in count) || count["scratch_bytes"] + count["scratch"] > 0) bad("scratch")
            if (tokens > 1 && !(count["matrix"] > 0)) bad("no matrix instruction")
            if (tokens == 1 && !(asked <= (kv == "f16" ? 1.25 : 1.75))) bad("lines are asked for again")
            if (tokens == 1 && !(ahead >= least)) bad("loads in flight")
            exit code
        }' "$tmp/kernel" "$tmp/stats" > "$tmp/row" || bad "the counts"
    cat "$tmp/row"
}

# make HEADS KV_HEADS DIMS [OPTION]: makes $tmp/model, a model that is little more than its attention
make() {
    shape="$1 heads of $3 over $2"
    "$make_gguf" --shape llama-3.1-8b --embd 256 --ff 256 --heads "$1" --kv-heads "$2" --head-dim "$3" --layers 1 --vocab 256 --type F16 --tokenizer none ${4-} \
        -o "$tmp/model" > "$tmp/out"
}
# depth HEADS KV_HEADS DIMS CONFLICTS LOADS LOADS_OF_GFX942
depth() {
    conflicts=$4 loads=$5
    [ "$chip" != gfx942 ] || loads=$6
    make "$1" "$2" "$3" --header-only
    for kv in f16 ${full:+q8_0}; do
        check "$shape, $chip $kv" 0 "$forgec" build "$tmp/model" -q -t "$chip" --ctx $context --kv $kv --save-temps "$tmp/code" --emit plan -o "$tmp/plan"
        launch attention_decode attention $((context - 1)) 1 1       # one group merges nothing, so its only loop is the one over positions
        in_flight=$(ahead)
        launch attention_decode attention $((context - 1)) 1
        counts $((context - 1)) 1 "$in_flight"
        launch attention_prefill attention_chunk $past $chunk
        counts $past $chunk "$(ahead)"
    done
}

depth 32 8 128 0.05 12 8
if [ -n "$full" ]; then
    depth 64 8 128 0.05 4 8
    depth 64 8 64 0.25 4 8
    make 4 1 128
    for kv in f16 q8_0; do
        check "$chip $kv, $((past + chunk)) positions" 0 "$forgec" verify "$tmp/model" -t "${0%/*}/$chip-few.yaml" --simulate --kv $kv --ctx $((past + 2 * chunk)) \
            --tokens $((past + chunk))
        grep -E '^  (prefill|decode|prefill to decode) ' "$tmp/out"
    done
fi
summary
