#!/bin/sh
# run_optional.sh FORGEC MAKE_GGUF TRANSFORMER.yaml LIBSIMT [I/N] -- optional tensors, present and absent: the emitted source compiles, fused and unfused, for a CPU
# and for GPUs, and gives the reference's logits on the emulator of lanes.
#   default: every pair of tensors in all four combinations, for GPUs only fused; full: every combination of the tensors of one kernel, everywhere; part I of N.
set -u
[ $# -ge 4 ] || { echo "usage: run_optional.sh FORGEC MAKE_GGUF TRANSFORMER.yaml LIBSIMT [I/N]" >&2; exit 2; }
forgec=$1 make_gguf=$2 yaml=$3 simt=$4 part=${5-0/1} here=$(cd "$(dirname "$0")" && pwd)
. "$(dirname "$0")/../harness.sh"

# Here each of them may be absent alone, also tensors that real files have together.
mkdir "$tmp/models" && sed -e '/^  [a-z_]*: *{name:/s/optional: all-or-none/optional: true/' -e '/^  [a-z_]*: *{name:/s/where: [a-z_]*/optional: true/' "$yaml" >"$tmp/models/transformer.yaml" || exit 1
# "tied" means an absent output matrix; attn_sinks wait for kernels
roles="$(sed -n 's/^ *\([a-z_]*\): .*optional: true.*/\1/p' "$tmp/models/transformer.yaml" | grep -v '^attn_sinks$') tied"
[ "$(echo "$roles" | wc -w)" -ge 12 ] || { echo "FAILED: $yaml: only these are optional: $roles"; exit 1; }

# model NAME ROLES...: a small model with these tensors
model() {
    model=$1 list='' tied=--untied
    shift
    for role; do
        if [ "$role" = tied ]; then tied=--tied; else list=$list,$role; fi
    done
    "$make_gguf" --layers 1 --vocab 320 --embd 64 --ff 96 --heads 2 --kv-heads 1 --head-dim 32 --ctx 64 --tokenizer none $tied --with "${list#,}" -o "$tmp/$model.gguf" 2>"$tmp/err" ||
        { bad "make_gguf --with $list"; exit 1; }
}
# compiles NAME TARGET LEVEL
compiles() {
    check "$2 --fuse $3: $chosen" 0 "$forgec" build "$tmp/$1.gguf" --models "$tmp/models" -t "$2" --fuse "$3" --emit asm -q -o "$tmp/asm"
    err_empty
}
# verified NAME TARGET LEVEL
verified() {
    check "verify -t $2 --fuse $3: $1" 0 env FORGE_HIP_LIBRARY="$simt" "$forgec" verify "$tmp/$1.gguf" --models "$tmp/models" -t "$2" --fuse "$3" --tokens 4
    [ $code -eq 0 ] || tail -n 12 "$tmp/out"
}

if [ -z "$full" ]; then
    # A factor for each role: 6 bits, four of them set.  In rows 0 (all absent) and 1 to 6 any two of them take all four combinations (Kleitman, Spencer 1973).
    masks="15 23 27 29 30 39 43 45 46 51 53 54 57 58 60"
    [ "$(echo "$roles" | wc -w)" -le 15 ] || { echo "FAILED: more than 15 roles: use seven bits"; exit 1; }
    for row in 0 1 2 3 4 5 6; do
        chosen=''
        set -- $masks
        for role in $roles; do
            if [ $row -gt 0 ] && [ $(($1 >> (row - 1) & 1)) -eq 1 ]; then chosen="$chosen $role"; fi
            shift
        done
        model pairs $chosen
        compiles pairs sm_90 layer
        [ $row -gt 0 ] || compiles pairs sm_90 none          # one kernel each: all present below
        if [ $((row % 2)) -eq 0 ]; then level=layer; else level=none; fi
        [ $row -gt 3 ] || compiles pairs x86-64-v3 $level
        [ $row -ne 5 ] || compiles pairs gfx1151 none
    done
else
    # No kernel has both tensors of the first list and of the second: 64 models have all combinations of either.
    attention="attn_q_bias attn_k_bias attn_v_bias attn_q_norm attn_k_norm rope_freqs" rest="attn_output_bias ffn_gate_bias ffn_up_bias ffn_down_bias output_bias tied"
    for role in $roles; do case " $attention $rest " in *" $role "*) ;; *) echo "FAILED: $role is in neither list"; exit 1 ;; esac; done
    for row in $(seq "${part%/*}" "${part#*/}" 63); do
        chosen='' bits=$row
        for role in $attention; do [ $((bits & 1)) -eq 0 ] || chosen="$chosen $role"; bits=$((bits / 2)); done
        bits=$((row * 37 % 64))
        for role in $rest; do [ $((bits & 1)) -eq 0 ] || chosen="$chosen $role"; bits=$((bits / 2)); done
        model all $chosen
        for target in sm_90 gfx1151 x86-64-v3; do
            for level in none layer; do compiles all $target $level; done
        done
    done
fi

model everything $roles
for level in none layer; do verified everything "$here/../lanes/simt32.yaml" $level; done
verified everything native none
summary
