#!/usr/bin/env bash
# bench.sh -- decode and prefill speed of forgec's programs and of llama-bench binaries, in alternating runs.
# Prints the rows of docs/performance.md.  Needs bash and awk.
usage() {
    cat <<'TEXT'
usage: bench.sh [options] MODEL...
  MODEL            a GGUF file, or SHAPE:TYPE (110m:Q8_0): made by make_gguf with random weights
  -f FORGEC        the compiler (default: build/release/forgec, else forgec on the path)
  -g MAKE_GGUF     the generator (default: tests/tools/make_gguf below the directory of FORGEC)
  -b "OPTIONS"     options for forgec build
  -P "NAME=COMMAND; NAME=COMMAND"
                   peers: llama-bench with its options, e.g. "ik=/opt/ik/llama-bench -fa 1; ik -rtr=/opt/ik/llama-bench -fa 1 -rtr 1"
                   (default: $PEERS)
  -t N  -p N  -n N threads, prompt and generated tokens (default 2, 128, 128)
  -R N             rounds; each runs every program once, in turn (default 3)
  -r N             repetitions in each run (default 5)
  -s median|best   what of all repetitions goes into the table (default median)
  -y FILE          speeds measured elsewhere, as a column (default: yardstick.csv beside this script; "" for none)
  -o md|csv        (default md; csv holds median and best)
  -q SECONDS       before every run wait, at most that long, until the machine is idle (default 0)
  -k DIR           keep models and programs there, and use those that are there already
$PREFIX goes before every measured command ("taskset -c 0,1", "nice -n -20").
GB/s is what decoding reads, share its part of the read bandwidth that the program measures in the same runs.
TEXT
}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
forgec="" make_gguf="" options="" peers=${PEERS-} threads=2 n_prompt=128 n_gen=128 rounds=3 reps=5 statistic=median yardstick=$here/yardstick.csv form=md keep="" patience=0
while getopts f:g:b:P:t:p:n:R:r:s:y:o:k:q:h c; do
    case $c in
    f) forgec=$OPTARG ;; g) make_gguf=$OPTARG ;; b) options=$OPTARG ;; P) peers=$OPTARG ;; t) threads=$OPTARG ;; p) n_prompt=$OPTARG ;;
    n) n_gen=$OPTARG ;; R) rounds=$OPTARG ;; r) reps=$OPTARG ;; s) statistic=$OPTARG ;; y) yardstick=$OPTARG ;; o) form=$OPTARG ;;
    k) keep=$OPTARG ;; q) patience=$OPTARG ;; h) usage; exit 0 ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { usage >&2; exit 2; }
case $statistic:$form in median:md | median:csv | best:md | best:csv) ;; *) usage >&2; exit 2 ;; esac
if [ -z "$forgec" ]; then forgec=$here/../../build/release/forgec; [ -x "$forgec" ] || forgec=$(command -v forgec); fi
[ -x "$forgec" ] || { echo "bench.sh: no forgec; build it or name it with -f" >&2; exit 1; }
[ -n "$make_gguf" ] || make_gguf=$(dirname "$forgec")/tests/tools/make_gguf

if [ -n "$keep" ]; then dir=$keep; mkdir -p "$dir" || exit 1
else dir=$(mktemp -d "${TMPDIR:-/tmp}/forgec-bench.XXXXXX") || exit 1; trap 'rm -rf "$dir"' EXIT; trap 'exit 130' INT TERM; fi

# Samples, one per line: model,engine,test,rate.  For forgec also: model,@read,,bytes per token / model,@roof,,GB/s / model,@size,,bytes.
samples=$dir/samples.csv
: > "$samples"

busy_ticks() { awk "\$1 == \"cpu\" { print \$2 + \$3 + \$4 + \$7 + \$8 + \$9 }" /proc/stat; }
wait_idle() {        # waits until all processes together take less than a tenth of one processor for a fifth of a second
    local before after end=$((SECONDS + patience))
    while [ "$SECONDS" -lt "$end" ]; do
        before=$(busy_ticks); sleep 0.2; after=$(busy_ticks)
        [ $((after - before)) -le 2 ] && return
    done
}

run_forgec() {       # model program
    for p in "-p $n_prompt -n 0" "-p 0 -n $n_gen"; do
        wait_idle
        # shellcheck disable=SC2086
        ${PREFIX-} "$2" --bench $p -r "$reps" -t "$threads" -o csv -q 2>"$dir/log" |
        awk -v model="$1" '
            function cut(line,   i, c, quoted, n) {          # comma-separated, quoted fields
                n = 1; field[1] = ""
                for (i = 1; i <= length(line); i++) {
                    c = substr(line, i, 1)
                    if (c == "\"") quoted = !quoted
                    else if (c == "," && !quoted) field[++n] = ""
                    else field[n] = field[n] c
                }
                return n
            }
            NR == 1 { n = cut($0); for (i = 1; i <= n; i++) at[field[i]] = i; next }
            { cut($0)
              test = field[at["n_prompt"]] > 0 ? "pp" field[at["n_prompt"]] : "tg" field[at["n_gen"]]
              printf "%s,forgec,%s,%s,%s\n", model, test, field[at["median_ts"]], field[at["max_ts"]]
              if (field[at["bytes_per_token"]] > 0) printf "%s,@read,,%s,0\n", model, field[at["bytes_per_token"]]
              roof = field[at["cache_gb_s"]] > 0 ? field[at["cache_gb_s"]] : field[at["memory_gb_s"]]
              printf "%s,@roof,,%s,%s\n%s,@size,,%s,0\n", model, roof, roof, model, field[at["model_size"]] }' >> "$samples"
        [ "${PIPESTATUS[0]}" = 0 ] || { echo "bench.sh: $2 --bench failed:" >&2; cat "$dir/log" >&2; }
    done
}

run_peer() {         # model gguf name command
    local before after
    for p in "-p $n_prompt -n 0" "-p 0 -n $n_gen"; do
        before=$(wc -l < "$samples")
        wait_idle
        # shellcheck disable=SC2086
        ${PREFIX-} $4 -m "$2" $p -r "$reps" -t "$threads" -o json 2>"$dir/log" |
        awk -v model="$1" -v name="$3" '
            /"n_prompt":/ { gsub(/[^0-9]/, ""); n_prompt = $0 + 0 }
            /"n_gen":/ { gsub(/[^0-9]/, ""); n_gen = $0 + 0 }
            /"samples_ts":/, /\]/ { text = text $0 }
            END {
                sub(/.*\[/, "", text); sub(/\].*/, "", text)
                n = split(text, x, ",")
                for (i = 1; i <= n; i++) for (j = i; j > 1 && x[j] + 0 < x[j - 1] + 0; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
                test = "tg" n_gen
                if (n_prompt > 0) test = "pp" n_prompt
                if (n) printf "%s,%s,%s,%s,%s\n", model, name, test, (x[int((n + 1) / 2)] + x[int(n / 2) + 1]) / 2, x[n] + 0 }' >> "$samples"
        after=$(wc -l < "$samples")
        [ "$after" -gt "$before" ] || { echo "bench.sh: $4 printed no speeds:" >&2; tail -3 "$dir/log" >&2; }
    done
}

IFS=';' read -r -a peer_list <<< "$peers"
n_peers=0
for p in ${peer_list[@]+"${peer_list[@]}"}; do
    p="${p#"${p%%[! ]*}"}"
    [ -n "$p" ] || continue
    peer_name[n_peers]=${p%%=*} peer_command[n_peers]=${p#*=}
    n_peers=$((n_peers + 1))
done

names=""
for ((i = 0; i < n_peers; i++)); do names="$names${names:+,}${peer_name[i]}"; done
table() {            # model; without one the head of the table
    awk -F, -v form="$form" -v statistic="$statistic" -v model="$1" -v peers="$names" -v tests="tg$n_gen,pp$n_prompt" -v yardstick="$yardstick" '
    function median(key,   n, i, j, t, x) {                  # of the medians of the rounds
        n = split(list[key], x, " ")
        for (i = 1; i <= n; i++) for (j = i; j > 1 && x[j] + 0 < x[j - 1] + 0; j--) { t = x[j]; x[j] = x[j - 1]; x[j - 1] = t }
        return n ? (x[int((n + 1) / 2)] + x[int(n / 2) + 1]) / 2 : 0
    }
    function value(key) { return statistic == "best" ? most[key] + 0 : median(key) }
    function number(x) { return x <= 0 ? "-" : x < 100 ? sprintf("%.1f", x) : sprintf("%.0f", x) }
    $1 == model { key = $2 "," $3; list[key] = list[key] " " $4; if ($5 > most[key]) most[key] = $5 }
    END {
        n_peers = split(peers, peer, ","); n_tests = split(tests, test, ",")
        if (yardstick != "") while ((getline line < yardstick) > 0) { split(line, f, ","); ruler[f[1] "," f[2]] = f[3]; has_ruler = 1 }
        if (form == "csv") {
            if (model == "") print "model,test,engine,median_ts,best_ts"
            else for (t = 1; t <= n_tests; t++) for (p = 0; p <= n_peers; p++) {
                name = p ? peer[p] : "forgec"
                printf "%s,%s,%s,%.6g,%.6g\n", model, test[t], name, median(name "," test[t]), most[name "," test[t]]
            }
            exit
        }
        if (model == "") {
            head = "| model | MB | test | forgec |"; rule = "| --- | ---: | --- | ---: |"
            for (p = 1; p <= n_peers; p++) { head = head " " peer[p] " |"; rule = rule " ---: |" }
            if (n_peers) { head = head " forgec / best peer |"; rule = rule " ---: |" }
            if (has_ruler) { head = head " yardstick | forgec / yardstick |"; rule = rule " ---: | ---: |" }
            print head " GB/s | share |"; print rule " ---: | ---: |"
            exit
        }
        for (t = 1; t <= n_tests; t++) {
            own = value("forgec," test[t]); best = 0
            line = sprintf("| %s | %.1f | %s | %s |", model, median("@size,") / 1e6, test[t], number(own))
            for (p = 1; p <= n_peers; p++) {
                x = value(peer[p] "," test[t])
                if (x > best) best = x
                line = line " " number(x) " |"
            }
            if (n_peers) line = line (best > 0 ? sprintf(" %.2f |", own / best) : " |")
            if (has_ruler) {
                x = ruler[model "," test[t]] + 0
                line = line (x > 0 ? sprintf(" %s | %.2f |", number(x), own / x) : " | |")
            }
            if (test[t] ~ /^tg/) {
                gb_s = own * median("@read,") * 1e-9; roof = most["@roof,"]
                line = line sprintf(" %.1f | %s |", gb_s, roof > 0 ? sprintf("%.0f %%", 100 * gb_s / roof) : "")
            } else line = line " | |"
            print line
        }
    }' "$samples"
}

table ""
for m in "$@"; do
    case $m in
    *.gguf) gguf=$m name=$(basename "$m" .gguf) ;;
    *:*)    name=${m%%:*}-${m#*:} gguf=$dir/$name.gguf
            [ -f "$gguf" ] || "$make_gguf" --shape "${m%%:*}" --type "${m#*:}" -o "$gguf" || exit 1 ;;
    *)      echo "bench.sh: $m is neither a .gguf nor SHAPE:TYPE" >&2; exit 2 ;;
    esac
    # shellcheck disable=SC2086
    "$forgec" build -q $options "$gguf" -o "$dir/$name" || exit 1
    for ((round = 0; round < rounds; round++)); do
        [ -t 2 ] && printf '\r%s, round %d of %d ' "$name" $((round + 1)) "$rounds" >&2
        run_forgec "$name" "$dir/$name"
        for ((i = 0; i < n_peers; i++)); do run_peer "$name" "$gguf" "${peer_name[i]}" "${peer_command[i]}"; done
    done
    [ -t 2 ] && printf "\r%60s\r" "" >&2
    table "$name"
    if [ -z "$keep" ]; then rm -f "$dir/$name"; case $gguf in "$dir"/*) rm -f "$gguf" ;; esac; fi
done
