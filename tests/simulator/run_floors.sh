#!/bin/sh
# run_floors.sh FORGEC MAKE_GGUF TARGET -- counts for the machine code of an 8B model with one layer and a small vocabulary, in Q4_K_M, Q8_0 and BF16; by default in Q8_0 for gfx942 and in Q4_K_M for other targets.
# Checks for each kernel, by the least times that `forgec compare --simulate` prints (docs/simulator.md):
#   products of a prompt of 512 tokens   vector at most 0.6 of matrix, LDS at most 0.9; fill at least 0.8, with `full` at 2,048 tokens 0.9 (test_plan holds both for the plan);
#                                        not for the head: its launches have 64 tokens, so reading its weights takes longer
#   products of a decoded token          vector at most 0.5 of memory, fill 1; loads in flight in their loops: as many as measured, and on gfx942 as many as its memory needs
#   the same in Q4_K_M                   vector ALU issues that the plan counts in the machine code without executing it: close to the executed issues
#   a decoded token's wide heads         vector (on gfx942: 1.1) and LDS at most memory, already for the first position (deeper ones read more); no scratch; `full` on gfx1151: bytes
#                                        that attention reads for each position: those of the cache's rows
#   series of small operations           RDNA 3: the instructions of each memory barrier
#   all kernels                          in loops no moves of accumulators and no scratch; bank conflicts at most 0.1 cycles per LDS access
# The table `excepted` has the exceptions with their reasons; no product is among them.
# Prints for a prompt and a token: the range, over the four products of the layer, of fill, vector and LDS relative to matrix (token: to memory); for the
# worst kernel the conflicts per LDS access and the accumulator moves in loops; and for the layer the sum, over its kernels, of the largest of matrix, vector, LDS
# and memory, in us.  `full`: all formats, and 128 and 2,048 tokens as well.  FLOORS_SAMPLE: number of groups that run (2).
set -eu
[ $# -ge 3 ] || { echo "usage: run_floors.sh FORGEC MAKE_GGUF TARGET" >&2; exit 2; }
forgec=$1 make_gguf=$2 target=$3
. "$(dirname "$0")/../harness.sh"
# The plan leaves out the last step of a wave with an odd number of steps: on gfx942 waves have one to four.
case $target in
gfx942)          ahead=16 least=0.65 most=1.2 vector_most=1.1 ;;
gfx1100|gfx1151) ahead=12 least=0.9 most=1.05 vector_most=1 ;;
*)               echo "run_floors: nothing is known of $target" >&2; exit 2 ;;
esac

# The exceptions, one per line: kernel, rule, reason.
cat >"$tmp/excepted" <<'EOF'
EOF

# checks FORMAT TOKENS: compares counts of a prompt and of a token with the floors
checks() {
    check "$target $1, $2 tokens" 0 "$forgec" compare "$tmp/8b-$1.gguf" -t "$target" --ctx 4096 --simulate --sample "${FLOORS_SAMPLE:-2}" --fuse layer -p "$2" --format json
    [ "$code" -eq 0 ] || return 0
    awk -F '"' -v of="$target $1" -v tokens="$2" -v ahead="$ahead" '
        FILENAME != ARGV[2] { split($0, word, " "); excepted[word[1] " " word[2]] = 1; next }
        function bad(rule, what) { if (!((x["kernel"] " " rule) in excepted)) { print "FAILED " of ", " step ", " x["kernel"] ": " what; code = 1 } }
        function need(keys,    i, n, key) { n = split(keys, key, " "); for (i = 1; i <= n; i++) if (!(key[i] in x)) { print "FAILED " of ": no " key[i] " of " x["kernel"]; code = 1 } }
        function larger(a, b) { return a + 0 > b + 0 ? a + 0 : b + 0 }
        function widen(what, value) {
            if (!((step, what) in low) || value < low[step, what]) low[step, what] = value
            if (!((step, what) in high) || value > high[step, what]) high[step, what] = value
        }
        function range(step, what) { return sprintf(low[step, what] == high[step, what] ? "%.2f" : "%.2f to %.2f", low[step, what], high[step, what]) }
        function note(of_what) {
            widen("fill", x["fill"] + 0)
            widen("vector", x["vector_us"] / x[of_what "_us"])
            widen("lds", x["lds_us"] / x[of_what "_us"])
        }
        function most(rule, of_what, limit) { if (x[rule "_us"] + 0 > limit * x[of_what "_us"]) bad(rule, rule " " x[rule "_us"] " us is " x[rule "_us"] / x[of_what "_us"] " of " of_what ", not at most " limit) }
        function check() {
            kernels++
            need("matrix_us vector_us lds_us memory_us fill launches dot loop_instructions loop_acc_moves loop_scratch lds_conflicts lds_accesses loads_in_flight_most loop_loads_in_flight_most")
            widen("moves", x["loop_acc_moves"] + 0)
            if (x["lds_accesses"] > 0) widen("conflicts", x["lds_conflicts"] / x["lds_accesses"])
            if (x["kernel"] !~ /^(embed|output|sample)/) layer[step] += x["launches"] * larger(larger(x["matrix_us"], x["vector_us"]), larger(x["lds_us"], x["memory_us"]))
            if (x["loop_acc_moves"] > 0) bad("moves", x["loop_acc_moves"] " moves of accumulators in loops")
            if (x["loop_scratch"] > 0) bad("scratch", x["loop_scratch"] " accesses of scratch in loops")
            if (x["lds_conflicts"] + 0 > 0.1 * x["lds_accesses"]) bad("conflicts", x["lds_conflicts"] / x["lds_accesses"] " cycles of bank conflicts an LDS access")
            if (step == "prompt" && x["kernel"] ~ /_prefill(_[0-9]+)?$/ && x["kernel"] !~ /^heads/) {
                products[step]++
                if (x["matrix_us"] + 0 == 0) bad("matrix", "no matrix instruction")
                if (x["kernel"] !~ /^output/) note("matrix")
                if (tokens >= 512 && x["kernel"] !~ /^output/) {
                    most("vector", "matrix", 0.6)
                    most("lds", "matrix", 0.9)
                    if (x["fill"] + 0 < (tokens > 512 ? 0.9 : 0.8)) bad("fill", "fill " x["fill"])
                }
            }
            if (step == "decode" && x["kernel"] ~ /^(attn_qkv|attn_output|ffn_gate_up|ffn_down|output)(_[0-9]+)?$/) {
                products[step]++
                if (x["kernel"] !~ /^output/) note("memory")
                if (of !~ /BF16/ && x["dot"] + 0 == 0) bad("dot", "no dot product")
                most("vector", "memory", 0.5)
                if (x["fill"] + 0 < 1) bad("fill", "fill " x["fill"])
                ahead_of = x["loop_loads_in_flight_most"] > 0 ? x["loop_loads_in_flight_most"] : x["loads_in_flight_most"]
                if (ahead_of + 0 < ahead) bad("ahead", ahead_of " loads in flight, not " ahead)
            }
        }
        { value = $3; gsub(/[:\t,]/, "", value) }
        $2 == "prompt" || $2 == "decode" { step = $2 }
        $2 == "kernel" { value = $4; split("", x) }
        $2 != "" { x[$2] = value }
        /}/ && x["kernel"] != "" { check(); split("", x) }
        END {
            for (i = 1; i <= 2; i++) {
                step = i == 1 ? "prompt" : "decode"
                printf "%s, %-11s fill %s, vector %s, LDS %s, conflicts %.2f, moves %d, layer %.1f us\n", of, (i == 1 ? tokens " tokens:" : "a token:"), range(step, "fill"),
                    range(step, "vector"), range(step, "lds"), high[step, "conflicts"], high[step, "moves"], layer[step]
            }
            exit code || products["prompt"] < 5 || products["decode"] < 5
        }' "$tmp/excepted" "$tmp/out" > "$tmp/rows" || { : > "$tmp/out"; bad "the floors"; }
    cat "$tmp/rows"
}

# issues FORMAT: compares the column of the plan with the JSON of the last run
issues() {
    cp "$tmp/out" "$tmp/executed"
    check "$target $1, the plan" 0 "$forgec" build "$tmp/8b-$1.gguf" -q -t "$target" --ctx 4096 --emit plan -o "$tmp/plan"
    awk -v of="$target $1" -v least="$least" -v most="$most" '
        FNR == 1 { file++ }
        file == 1 && /"decode"/ { decode = 1 }
        file == 1 && decode && split($0, x, "\"") > 2 {
            if (x[2] == "kernel") name = x[4]
            if (x[2] == "vector_us") { value = x[3]; gsub(/[:\t,]/, "", value); executed[name] = value }
        }
        file == 2 && /^# decode:/ { table = 1 }
        file == 2 && /^# prefill:/ { table = 0 }
        file == 2 && table && /issue, us/ { at = index($0, "issue, us"); next }
        file == 2 && table && substr($0, at, 9) + 0 > 0 && ($2 in executed) {
            ratio = substr($0, at, 9) / executed[$2]
            if (ratio < least || ratio > most) { print "FAILED " of ", " $2 ": the plan counts " ratio " of the issues executed"; code = 1 }
            n++
        }
        END { printf "%s: issues of %d kernels counted in the code\n", of, n; exit code || n < 5 }' "$tmp/executed" "$tmp/plan" > "$tmp/rows" || { : > "$tmp/out"; bad "the issues"; }
    cat "$tmp/rows"
}

case $target$full in
gfx942) formats=Q8_0 ;;                                 # the chips share them; full: all
gfx11*[0-9]) formats=Q4_K_M ;;
*) formats="Q4_K_M Q8_0 BF16" ;;
esac
for format in $formats; do
    "$make_gguf" --shape llama-3.1-8b --layers 1 --vocab 4096 --tokenizer none --type $format -o "$tmp/8b-$format.gguf" >/dev/null
    checks $format 512
    if [ $format = Q4_K_M ]; then issues $format; fi
    if [ -n "$full" ]; then checks $format 128; checks $format 2048; fi
    rm -f "$tmp/8b-$format.gguf"
done
# ---- wide heads: latent attention of GLM-4.7-Flash, whose heads of K have 576 columns, with its series of small operations; heads of 512 as in Gemma 4 ----
# wide NAME WHAT KERNELS: counts of the model's kernels of attention and of series, KERNELS of them
wide() {
    check "$target, $2" 0 "$forgec" compare "$tmp/$1.gguf" -t "$target" --ctx 4096 --simulate --sample 2 --fuse layer -p 128 --format json
    awk -F '"' -v of="$target, $2" -v wanted="$3" -v most="$vector_most" '
        function bad(what) { print "FAILED " of ", " step ", " x["kernel"] ": " what; code = 1 }
        function check() {
            if (x["kernel"] !~ /^attention/ && x["kernel"] !~ /_to_/) return
            kernels++
            if (!("vector_us" in x) || !("lds_us" in x) || x["memory_us"] + 0 <= 0) bad("no times")
            if (step == "decode" && x["kernel"] ~ /^attention/ && x["vector_us"] + 0 > most * x["memory_us"]) bad("vector takes " x["vector_us"] " us, memory " x["memory_us"])
            if (step == "decode" && x["kernel"] ~ /^attention/ && x["lds_us"] + 0 > x["memory_us"] + 0) bad("LDS takes " x["lds_us"] " us, memory " x["memory_us"])
            if (x["scratch"] > 0) bad(x["scratch"] " accesses of scratch")
            printf "%s, %s, %s: vector %.2f us, LDS %.2f, matrix %.2f, memory %.2f\n", of, step, x["kernel"], x["vector_us"], x["lds_us"], x["matrix_us"], x["memory_us"]
        }
        { value = $3; gsub(/[:\t,]/, "", value) }
        $2 == "prompt" || $2 == "decode" { step = $2 }
        $2 == "kernel" { value = $4; split("", x) }
        $2 != "" { x[$2] = value }
        /}/ && x["kernel"] != "" { check(); split("", x) }
        END { exit code || kernels != wanted }' "$tmp/out" > "$tmp/rows" || { : > "$tmp/out"; bad "vector and LDS below memory"; }
    cat "$tmp/rows"
}
"$make_gguf" --shape glm-4.7-flash --layers 2 --vocab 4096 --tokenizer none --type Q4_K_M -o "$tmp/latent.gguf" >/dev/null
wide latent "latent attention" 4
if [ -n "$full" ]; then
    "$make_gguf" --shape llama-3.1-8b --layers 1 --heads 16 --kv-heads 2 --head-dim 512 --vocab 4096 --tokenizer none --type Q8_0 -o "$tmp/heads.gguf" >/dev/null
    wide heads "heads of 512" 4
fi

# The two CUs of a workgroup of RDNA 3 have caches of their own, which the simulator does not model: at each memory_barrier() waves wait for their stores, and
# forget what the cache of their CU has.
case $target in gfx11*)
    for form in source asm; do "$forgec" build "$tmp/latent.gguf" -q -t "$target" --ctx 4096 --weights none --emit $form -o "$tmp/latent.$form"; done
    wanted=$(sed -n '/^KERNEL.* part_q_tail_to_/,/^}/p' "$tmp/latent.source" | grep -c 'memory_barrier();')
    sed -n '/^part_q_tail_to_.*:/,/^.Lfunc_end/p' "$tmp/latent.asm" | awk -v wanted="$wanted" '
        /s_waitcnt_vscnt null, 0x0/ { waits = 1 }
        /^[ \t]*s_barrier/ { begun = waits; waits = 0 }
        /buffer_gl0_inv/ && begun { n++; begun = 0 }
        END { print n + 0 " of " wanted " memory barriers wait for stores and empty the cache"; exit !(wanted > 1 && n == wanted) }' > "$tmp/rows" || { : > "$tmp/out"; bad "memory barriers"; }
    cat "$tmp/rows" ;;
esac

# Bytes that a launch of decode's attention reads, as "launches bytes"; counters of sampled groups are scaled, so all of its groups run.  Results of a
# sample have no meaning, and the program may end with an error about them.
reads_behind() {    # NAME POSITIONS
    FORGE_HIP_LIBRARY=$(dirname "$forgec")/libgfxsim.so FORGE_GFXSIM_CHIP=$target FORGE_GFXSIM_SAMPLE=40 FORGE_GFXSIM_STATS="$tmp/stats" \
        "$tmp/$1" --bench -p 0 -n 1 -d "$2" -r 1 >/dev/null 2>&1 || :
    tr '\n' ' ' < "$tmp/stats" | sed 's/{"name"/\n&/g' | sed -n 's/^{"name": "attention",.*"launches": \([0-9]*\),.*"unique_bytes": \([0-9]*\),.*/\1 \2/p'
}
# The 40 groups of gfx1151 all have work from 512 positions on, so more positions add bytes of the cache alone.
reads() {           # NAME WHAT BYTES OF A POSITION
    check "$target, $2" 0 "$forgec" build "$tmp/$1.gguf" -q -t "$target" --ctx 4096 -o "$tmp/$1"
    echo "$(reads_behind "$1" 511) $(reads_behind "$1" 1023)" > "$tmp/out"
    awk -v what="$2" -v wanted="$3" '
        { each = ($4 / $3 - $2 / $1) / 512; printf "a position of %s reads %.1f bytes\n", what, each; exit !($1 > 0 && $3 > 0 && each == wanted) }' "$tmp/out" > "$tmp/rows" ||
        bad "bytes of the cache"
    cat "$tmp/rows"
}
if [ -n "$full" ] && [ "$target" = gfx1151 ]; then
    reads latent "latent attention" 1152         # 576 numbers of f16, once
    reads heads "heads of 512" 4096              # K and V of two KV heads
fi
summary
