#!/bin/sh
# run_bench.sh FORGEC MAKE_GGUF MODEL -- tests bench_device.sh on a machine without a GPU: builds the program of one shape, and makes tables from the output of
# scripts that replace programs and llama-bench.  MODEL: any model; its program for this machine prints the names of the columns.
set -eu
[ $# -eq 3 ] || { echo "usage: run_bench.sh FORGEC MAKE_GGUF MODEL" >&2; exit 2; }
here=$(dirname "$0") forgec=$1
. "$here/../harness.sh"
export TARGETS=sm_90 REPEAT=2

check "builds" 0 "$here/bench_device.sh" build "$forgec" "$2" "$tmp/built" qwen3-0.6b
ls "$tmp/built" > "$tmp/out"
out_is qwen3-0.6b.Q8_0.f16.sm_90
check "what it built" 0 "$tmp/built/qwen3-0.6b.Q8_0.f16.sm_90" --info
out_has "--ctx 33792 --kv f16"
refuse "an unknown shape" 2 "none of the shapes is qwen9" "$here/bench_device.sh" build "$forgec" "$2" "$tmp/none" qwen9

check "a program for this machine" 0 "$forgec" build "$3" -q -o "$tmp/program"
check "its columns" 0 "$tmp/program" --bench -p 0 -n 1 -r 1 -o csv
head -n 1 "$tmp/out" > "$tmp/names"

# program NAME DECODE PREFILL [STEP]: prints these speeds for an empty context, and half of them after 32,768 positions
mkdir "$tmp/d" "$tmp/models"
program() {
    cat > "$tmp/d/$1" <<EOF
#!/bin/sh
row() { echo "\"8B, \"\"noise\"\"\",\"Q4_K 193, F32 66\",1,2,sm_90,\"--fuse layer --ctx 33792\",1,\$1,\$2,\$3,\$4,1,2,3,4,\$5,5,4219,0,6"; }
cat "$tmp/names"
case "\$*" in
*"-p 512 -n 128 -d 0,512,8192,32768 -r 2 -o csv") row 512 0 0 $3 0; row 0 128 0 $2 4600000000; row 512 0 32768 $(($3 / 2)) 0; row 0 128 32768 $(($2 / 2)) 9200000000 ;;
*"-p 512 -n 0 -d "*) row 512 0 0 $3 0 ;;
*"-p 1,2,4,8 -n 0 "*) row 1 0 0 $2 0; row 8 0 0 ${4-} 0 ;;
esac
EOF
    chmod +x "$tmp/d/$1"
}
program llama-3.1-8b.Q4_K_M.f16.sm_90 670 18000 4000
program llama-3.1-8b.Q4_K_M.f16.sm_90a 1 22500
program qwen3-0.6b.Q8_0.f16.sm_90 900 99999
: > "$tmp/models/llama-3.1-8b-Q4_K_M.gguf"
cat > "$tmp/llama-bench" <<EOF
#!/bin/sh
case "\$*" in "-m $tmp/models/llama-3.1-8b-Q4_K_M.gguf -ngl 99 -fa 1 -ctk f16 -ctv f16 -p "*" -r 2 -o csv") ;; *) exit 1 ;; esac
echo build_commit,model_type,n_prompt,n_gen,n_depth,test_time,avg_ns,stddev_ns,avg_ts,stddev_ts
case "\$*" in *" -n 0 "*) echo '"a","8B","8","0","0","t","1","1","1000.0","1"' ;; *) echo '"a","8B","0","128","0","t","1","1","268.0","1"' ;; esac
EOF
chmod +x "$tmp/llama-bench"
cat > "$tmp/wanted" <<'EOF'
### A token, tokens/s

| model | by | after 0 | after 512 | after 8192 | after 32768 |
| --- | --- | ---: | ---: | ---: | ---: |
| llama-3.1-8b.Q4_K_M.f16 | sm_90 | 670.0 (67 %) | - | - | 335.0 (67 %) |
| llama-3.1-8b.Q4_K_M.f16 | limit | 1000 | - | - | 500.0 |
| llama-3.1-8b.Q4_K_M.f16 | llama.cpp | 268.0 (27 %) | - | - | - |
| llama-3.1-8b.Q4_K_M.f16 | ratio | 2.50 | - | - | - |
| qwen3-0.6b.Q8_0.f16 | sm_90 | 900.0 (90 %) | - | - | 450.0 (90 %) |
| qwen3-0.6b.Q8_0.f16 | limit | 1000 | - | - | 500.0 |

### A prompt of 512 tokens, tokens/s

| model | by | after 0 | after 512 | after 8192 | after 32768 |
| --- | --- | ---: | ---: | ---: | ---: |
| llama-3.1-8b.Q4_K_M.f16 | sm_90 | 18000 | - | - | 9000 |
| llama-3.1-8b.Q4_K_M.f16 | sm_90a | 22500 | - | - | - |
| qwen3-0.6b.Q8_0.f16 | sm_90 | 99999 | - | - | 49999 |

### A step of so many tokens, tokens/s

| model | by | 1 | 2 | 4 | 8 |
| --- | --- | ---: | ---: | ---: | ---: |
| llama-3.1-8b.Q4_K_M.f16 | sm_90 | 670.0 (67 %) | - | - | 4000 (50 %) |
| llama-3.1-8b.Q4_K_M.f16 | limit | 1000 | 2000 | 4000 | 8000 |
| llama-3.1-8b.Q4_K_M.f16 | llama.cpp | - | - | - | 1000 (12 %) |
| llama-3.1-8b.Q4_K_M.f16 | ratio | - | - | - | 4.00 |
EOF
export TARGETS="sm_90 sm_90a"
check "measures" 0 "$here/bench_device.sh" run "$tmp/d" "$tmp/llama-bench" "$tmp/models"
same "$tmp/wanted" "$tmp/out"
err_empty
check "the tables again" 0 "$here/bench_device.sh" table "$tmp/d"
same "$tmp/wanted" "$tmp/out"
refuse "nothing measured" 1 "nothing was measured" "$here/bench_device.sh" table "$tmp/models"
check "some of them" 0 env "ONLY=qwen*" "$here/bench_device.sh" run "$tmp/d"
same "$tmp/wanted" "$tmp/out"
echo 'exit 9' > "$tmp/d/qwen3-0.6b.Q8_0.f16.sm_90"
check "one that fails" 0 env "ONLY=qwen*" "$here/bench_device.sh" run "$tmp/d"
err_has "exit code 9 of "
grep -v qwen "$tmp/wanted" > "$tmp/less"
same "$tmp/less" "$tmp/out"
summary
