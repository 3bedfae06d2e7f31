#!/bin/sh
# bench_device.sh: speed of GPU programs for shapes of real models, also after long texts, without their weights (noise in the right formats and sizes).
#
#   bench_device.sh build FORGEC MAKE_GGUF DIR [SHAPE...]   here: builds the programs of `models` below in DIR, for all shapes below 30 GB or for the named
#                                                           shapes; 2 to 5 MB each, called SHAPE.TYPE.CACHE.TARGET
#   bench_device.sh run DIR [LLAMA_BENCH MODELS [MAKE_GGUF]] on the machine with the GPU: measures each program of DIR, writes a .csv beside it, and prints
#                                                           tables; also measures the existing files MODELS/SHAPE-TYPE.gguf with llama.cpp's llama-bench.
#                                                           With MAKE_GGUF a missing file below 30 GB is written for its row and removed again
#   bench_device.sh table DIR                               prints the tables of earlier measurements
#   bench_device.sh profile DIR                             on that machine, with NVIDIA's ncu: mean time of each decode kernel, launched alone
#
# Tokens per second, means of REPEAT runs, after several numbers of positions: for a text of 128 tokens, a prompt of 512, and a step of a few tokens.
#   limit   the speed if the weights and cache that a token reads arrive at LIMIT GB/s, which plain loads of 2 GiB reach on an H200.  A step of n tokens: n
#           times that (with experts it can be less, because tokens use different experts).  Percentages are relative to this limit.
#   ratio   speed of the fastest target divided by that of llama.cpp
# From the environment: TARGETS (sm_90 sm_90a; for all but the first only prompts are measured), REPEAT (5), LIMIT (4600), and ONLY, a pattern: only programs
# with matching names are measured.
set -eu
TARGETS=${TARGETS:-sm_90 sm_90a} REPEAT=${REPEAT:-5} LIMIT=${LIMIT:-4600} ONLY=${ONLY:-*}
depths=0,512,8192,32768 steps=1,2,4,8 context=33792 first=${TARGETS%% *}

# Shape, type, cache, and further build options.
models() {
    cat <<'EOF'
tinyllama     Q4_K_M f16
llama-3.2-1b  Q4_K_M f16
llama-3.2-1b  Q8_0   f16
llama-3.2-1b  BF16   f16
llama-3.1-8b  Q4_K_M f16  --columns 8
llama-3.1-8b  Q4_K_M q8_0
llama-3.1-8b  Q8_0   f16  --columns 8
llama-3.1-8b  Q8_0   q8_0
llama-3.1-8b  BF16   f16  --columns 8
llama-3.1-8b  BF16   q8_0
llama-3.2-3b  Q4_K_M f16
mistral-7b    Q4_K_M f16
qwen2.5-0.5b  Q4_K_M f16
qwen2.5-1.5b  Q4_K_M f16
qwen2.5-7b    Q4_K_M f16
qwen3-0.6b    Q8_0   f16
qwen3-4b      Q4_K_M f16
qwen3-8b      Q4_K_M f16
qwen3-30b-a3b Q4_K_M f16  --columns 8
qwen3.6-35b-a3b Q4_K_M f16
gpt-oss-20b   MXFP4  f16  --columns 8
gemma-4-26b-a4b Q4_K_M f16
glm-4.7-flash Q4_K_M f16
lfm2-8b-a1b   Q4_K_M f16
EOF
    large
}
large() {
    echo 'llama-3.1-70b Q4_K_M f16'
    echo 'gpt-oss-120b  MXFP4  f16'
}

build() {       # FORGEC MAKE_GGUF DIR [SHAPE...]
    forgec=$1 make_gguf=$2 dir=$3
    shift 3
    wanted=" ${*:-$(models | awk '{ print $1 }' | grep -vxF "$(large | awk '{ print $1 }')" | tr '\n' ' ')} "
    mkdir -p "$dir"
    models | while read -r shape type cache more; do
        case $wanted in *" $shape "*) ;; *) continue ;; esac
        "$make_gguf" --shape "$shape" --type "$type" --header-only --tokenizer none -o "$dir/header.gguf"
        for target in $TARGETS; do
            # shellcheck disable=SC2086  # words
            "$forgec" build "$dir/header.gguf" -q -t "$target" --ctx $context --kv "$cache" $more --weights none -o "$dir/$shape.$type.$cache.$target"
        done
    done
    rm -f "$dir/header.gguf"
    ls "$dir"/*."$first" >/dev/null 2>&1 || { echo "bench_device.sh: none of the shapes is$wanted" >&2; exit 2; }
}

# bench COMMAND...: adds the lines it prints to $csv
bench() {
    "$@" -r "$REPEAT" -o csv >> "$csv" || echo "bench_device.sh: exit code $? of $*" >&2
    [ -s "$csv" ] || rm "$csv"
}

# The file of a row for llama.cpp, if it exists or can be made.
provide() {     # FILE MAKE_GGUF SHAPE TYPE
    [ ! -f "$1" ] || return 0
    [ -n "$2" ] && ! large | grep -q "^$3 " || return 1
    mkdir -p "${1%/*}"
    made=$1
    "$2" --shape "$3" --type "$4" -o "$1"
}

measure() {     # DIR [LLAMA_BENCH MODELS [MAKE_GGUF]]
    models | while read -r shape type cache more; do
        name=$shape.$type.$cache file=${3-}/$shape-$type.gguf
        for target in $TARGETS; do
            program=$1/$name.$target csv=$1/$name.$target.csv
            # shellcheck disable=SC2254  # a pattern
            case $name.$target in $ONLY) ;; *) continue ;; esac
            [ -x "$program" ] || continue
            : > "$csv"
            if [ "$target" != "$first" ]; then
                bench "$program" --bench --random-weights -p 512 -n 0 -d $depths
                continue
            fi
            bench "$program" --bench --random-weights -p 512 -n 128 -d $depths
            [ -z "$more" ] || bench "$program" --bench --random-weights -p $steps -n 0
            made=
            [ $# -gt 1 ] && provide "$file" "${4-}" "$shape" "$type" || continue
            csv=$1/$name.llama.csv
            : > "$csv"
            bench "$2" -m "$file" -ngl 99 -fa 1 -ctk "$cache" -ctv "$cache" -p 512 -n 128 -d $depths
            [ -z "$more" ] || bench "$2" -m "$file" -ngl 99 -fa 1 -ctk "$cache" -ctv "$cache" -p $steps -n 0
            [ -z "$made" ] || rm "$made"
        done </dev/null
    done
}

tables() {      # DIR
    # shellcheck disable=SC2046  # words
    set -- "$1" $(models | while read -r shape type cache more; do
        for by in $TARGETS llama; do [ ! -f "$1/$shape.$type.$cache.$by.csv" ] || echo "$shape.$type.$cache.$by.csv"; done
    done)
    [ $# -gt 1 ] || { echo "bench_device.sh: nothing was measured in $1" >&2; exit 1; }
    (cd "$1" && shift && awk -v targets="$TARGETS" -v depths=$depths -v steps=$steps -v limit="$LIMIT" '
        # x[1] .. x[n] of a line of CSV
        function fields(line, x,    n, i, c, quoted) {
            for (i in x) delete x[i]
            for (n = i = 1; i <= length(line); i++) {
                c = substr(line, i, 1)
                if (c == "\"") quoted = !quoted
                else if (c == "," && !quoted) n++
                else x[n] = x[n] c
            }
            return n
        }
        FNR == 1 {                                       # SHAPE.TYPE.CACHE.TARGET.csv
            n = split(FILENAME, part, ".")
            by = part[n - 1]
            model = substr(FILENAME, 1, length(FILENAME) - length(by) - 5)
            if (!(model in known)) { known[model] = 1; order[++models] = model }
        }
        { n = fields($0, x) }
        /n_prompt/ { for (i = 1; i <= n; i++) at[x[i]] = i; next }
        {
            test = x[at["n_gen"]] > 0 ? "token" : x[at["n_prompt"]]
            rate[model, by, test, x[at["n_depth"]]] = x[at["avg_ts"]]
            if (by != "llama" && test == "token") bytes[model, x[at["n_depth"]]] = x[at["bytes_per_token"]]
        }
        # of column i; 0: not known
        function bound(model, i) { return times[i] && bytes[model, depth[i]] > 0 ? times[i] * limit * 1e9 / bytes[model, depth[i]] : 0 }
        function measured(model, by, i) { return rate[model, by, test_of[i], depth[i]] + 0 }
        function number(x) { return x > 0 ? sprintf(x < 1000 ? "%.1f" : "%.0f", x) : "-" }
        function share(x, most) { return x > 0 && most > 0 ? sprintf(" (%.0f %%)", 100 * x / most) : "" }
        # The measurement of a target or of llama.cpp, if there is one; best: of the targets
        function row(model, by,    i, r, cells, any) {
            for (i = 1; i <= columns; i++) {
                r = measured(model, by, i)
                any += r > 0
                if (by != "llama" && r > best[i]) best[i] = r
                cells = cells " " number(r) share(r, bound(model, i)) " |"
            }
            if (any) print "| " model " | " (by == "llama" ? "llama.cpp" : by) " |" cells
            return any
        }
        function limits(model,    i, cells) {
            if (!times[1]) return
            for (i = 1; i <= columns; i++) cells = cells " " number(bound(model, i)) " |"
            print "| " model " | limit |" cells
        }
        function ratios(model,    i, cells) {
            for (i = 1; i <= columns; i++)
                cells = cells (measured(model, "llama", i) > 0 && best[i] > 0 ? sprintf(" %.2f |", best[i] / measured(model, "llama", i)) : " - |")
            print "| " model " | ratio |" cells
        }
        function table(title,    m, t, n, name, i, any) {
            printf "%s### %s\n\n| model | by |", printed++ ? "\n" : "", title
            for (i = 1; i <= columns; i++) printf " %s |", head[i]
            printf "\n| --- | --- |"
            for (i = 1; i <= columns; i++) printf " ---: |"
            print ""
            n = split(targets, name, " ")
            for (m = 1; m <= models; m++) {
                for (i in best) delete best[i]
                any = 0
                for (t = 1; t <= n; t++) any += row(order[m], name[t])
                if (!any) continue
                limits(order[m])
                if (row(order[m], "llama")) ratios(order[m])
            }
        }
        function column(i, a_head, a_test, a_depth, a_times) { columns = i; head[i] = a_head; test_of[i] = a_test; depth[i] = a_depth; times[i] = a_times }
        END {
            n = split(depths, x, ",")
            for (i = 1; i <= n; i++) column(i, "after " x[i], "token", x[i], 1)
            table("A token, tokens/s")
            for (i = 1; i <= n; i++) column(i, "after " x[i], 512, x[i], 0)
            table("A prompt of 512 tokens, tokens/s")
            n = split(steps, x, ",")
            for (i = 1; i <= n; i++) column(i, x[i], x[i], 0, x[i])
            table("A step of so many tokens, tokens/s")
        }' "$@")
}

profile() {     # DIR
    for program in "$1"/*."$first"; do
        ncu --clock-control none --cache-control none --metrics gpu__time_duration.sum --launch-skip 700 --launch-count 400 --csv \
            "$program" --no-graph --bench --random-weights -p 0 -n 8 -d 512 -r 1 2>/dev/null | grep '^"' | awk -F'","' -v name="${program##*/}" '
            NR > 1 { k = $5; sub(/\(.*/, "", k); v = $NF; gsub(/[",]/, "", v); sum[k] += v; n[k]++ }
            END { for (k in sum) printf "%-32s %-20s %4d launches, %8.2f us each\n", name, k, n[k], sum[k] / n[k] / 1000 }' | sort
    done
}

case ${1-}:$# in
build:[4-9]|build:1?) shift; build "$@" ;;
run:2|run:[45])         shift; measure "$@"; tables "$1" ;;
table:2)              tables "$2" ;;
profile:2)            profile "$2" ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
