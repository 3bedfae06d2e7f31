#!/bin/sh
# check_isa.sh FORGEC MAKE_GGUF TARGET [full] -- compiles programs for a GPU and reads their machine code (PTX for NVIDIA).
# Everything: the golden models and the shapes of 1B to 8B models; forgec itself ends with an error where a kernel spills or needs scratch.
# The 8B shapes: in each product of decode the integer dot product of the target and 16-byte loads, with that many of them in flight in its loop
# before a wait; in each product of prefill the matrix instruction.
set -eu
[ $# -ge 3 ] || { echo "usage: check_isa.sh FORGEC MAKE_GGUF TARGET [full]" >&2; exit 2; }
forgec=$1 make_gguf=$2 target=$3 full=${4-}
golden=$(cd "$(dirname "$0")/../data/golden" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0 failed=0
case $target in                 # how many 16-byte loads of a lane are in flight: as measured, and on gfx942 what its memory needs
gfx942)          dot='v_dot4c_i32_i8|v_dot4_i32_i8' mma=v_mfma_f32_16x16x16_ wide=dwordx4 ahead=16 ;;
gfx1100|gfx1151) dot=v_dot4_i32_iu8 mma=v_wmma_f32_16x16x16_ wide=b128 ahead=12 ;;
sm_*)            ;;
*)               echo "check_isa: nothing is known of $target" >&2; exit 2 ;;
esac

bad() { echo "FAILED $*"; failed=$((failed + 1)); }

# compiles MODEL OPTIONS...: no spills
compiles() {
    n=$((n + 1))
    "$forgec" build "$@" -t "$target" --emit plan -o "$dir/plan" -q </dev/null >"$dir/messages" 2>&1 || { bad "$target: $*"; head -n 5 "$dir/messages"; }
}

# A table of kernels: name, loads, 16-byte loads, most of these in flight in a loop, dot products in loops, matrix instructions with f16, with bf16.
amd_table() {
    awk -v dot="^(${dot})(_|$)" -v mma="^${mma}" -v wide="${wide}" '
        function finish() { if (name != "") print name, loads, wides, most, dots, f16 + 0, bf16 + 0; name = "" }
        /^[A-Za-z_][A-Za-z_0-9]*:/ { finish(); name = substr($1, 1, index($1, ":") - 1); head = tail = flying = loads = wides = most = dots = f16 = bf16 = loop = 0; next }
        /^\.Lfunc_end/ { finish() }
        name == "" { next }
        /^\.LBB/ { loop = 0 }
        /Inner Loop Header|in Loop:/ { loop = 1 }
        $1 ~ /^(global|buffer|flat)_load_/ {
            queue[tail++] = $1 ~ wide
            loads++
            if ($1 ~ wide) { wides++; flying++ }
            if (loop && flying > most) most = flying
        }
        /^\ts_waitcnt.*vmcnt/ {
            left = $0; sub(/.*vmcnt\(/, "", left); left += 0
            while (tail - head > left) { flying -= queue[head]; delete queue[head++] }
        }
        loop && $1 ~ dot { dots++ }
        $1 ~ mma { if ($1 ~ /bf16/) bf16++; else f16++ }
        END { finish() }' "$1"
}

# reads MODEL FORMAT: the machine code of a program
reads() {
    n=$((n + 1))
    "$forgec" build "$1" -t "$target" --emit asm --weights none --ctx 4096 -o "$dir/code.s" -q </dev/null || { bad "$target: $1"; return; }
    case $target in
    sm_*)
        for word in dp4a mma.sync.aligned.m16n8k16 ld.global.nc.v4 griddepcontrol.wait griddepcontrol.launch_dependents; do
            [ "$2 $word" != "BF16 dp4a" ] || continue
            grep -qF "$word" "$dir/code.s" || bad "$target $2: no $word"
        done
        ! grep -q '^[[:space:]]*\.local' "$dir/code.s" || bad "$target $2: local memory"
        if command -v ptxas >/dev/null; then
            ptxas -arch="$target" -v "$dir/code.s" -o /dev/null >"$dir/ptxas" 2>&1 || bad "$target $2: ptxas fails: $(head -n 1 "$dir/ptxas")"
            ! grep -E '[1-9][0-9]* bytes spill' "$dir/ptxas" || bad "$target $2: spills"
        fi ;;
    *)
        amd_table "$dir/code.s" >"$dir/table"
        awk -v of="$target $2" -v format="$2" -v ahead="$ahead" '
            function bad(what) { print "FAILED " of ", " $1 ": " what; code = 1 }
            $1 ~ /_prefill(_[0-9]+)?$/ && $1 !~ /^heads/ {
                if ((format == "BF16" ? $7 : $6) == 0) bad("no matrix instruction")
                prefill++
                next
            }
            $1 ~ /^attention_chunk/ && $6 == 0 { bad("no matrix instruction") }
            $1 ~ /^(attn_qkv|attn_output|ffn_gate_up|ffn_down|output|token_embd)(_[0-9]+)?$/ {
                if (format != "BF16" && $5 == 0) bad("no dot product")
                if ($4 < ahead) bad($4 " 16-byte loads in flight, not " ahead)
                if (least == "" || $4 < least) least = $4
                decode++
            }
            END {
                printf "%s: %d products of decode, at least %d 16-byte loads in flight; %d of prefill\n", of, decode, least, prefill
                exit code || decode < 5 || prefill < 5
            }' "$dir/table" || failed=$((failed + 1)) ;;
    esac
}

for format in Q4_K_M Q8_0 BF16; do
    "$make_gguf" --shape llama-3.1-8b --type $format --header-only -o "$dir/8b.gguf"
    reads "$dir/8b.gguf" $format
    [ "$target$full" != gfx1151 ] || continue           # the rest is compiled as for gfx1100, which has the same instructions and registers
    "$make_gguf" --shape llama-3.2-1b --type $format --header-only -o "$dir/1b.gguf"
    compiles "$dir/1b.gguf" --weights none
done
if [ "$target$full" = gfx1151 ]; then
    echo "$target: $n programs, $failed failed"
    [ $failed -eq 0 ]
    exit
fi
"$make_gguf" --shape qwen3-4b --type Q4_K_M --header-only -o "$dir/4b.gguf"
compiles "$dir/4b.gguf" --weights none
compiles "$dir/4b.gguf" --weights none --exact
compiles "$dir/4b.gguf" --weights none --fuse none --kv q8_0
compiles "$dir/1b.gguf" --weights none --fuse none --kv f32
for model in "$golden"/*.gguf; do
    case $target$full,${model##*/} in
    *-0000[2-9]-of-*)       continue ;;                 # parts of the first
    gfx1100full,q-*|gfx942full,q-*|gfx1100full,qwen*|gfx942full,qwen*) ;;      # else the simulator has them compiled: golden_sim_*
    sm_*,q-*|sm_*,qwen*)    ;;                          # no spills that forgec could see: a model per format
    *)                      continue ;;                 # gfx1151 has gfx1100's instructions and registers
    esac
    compiles "$model"
done
for model in llama-h288 qwen3-a; do compiles "$golden/$model.gguf" --exact --kv q8_0; done
for model in q-llama-Q2_K qwen2-h224; do compiles "$golden/$model.gguf" --fuse none; done
echo "$target: $n programs, $failed failed"
[ $failed -eq 0 ]
