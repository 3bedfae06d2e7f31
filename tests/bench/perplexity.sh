#!/usr/bin/env bash
# perplexity.sh -- perplexity of a text in programs of the given models, default and --exact, beside reference values.
# Prints the rows of docs/performance.md; exit code 1 if a model is further from its exact value than the limit.
usage() {
    cat <<'TEXT'
usage: perplexity.sh [options] -T TEXT MODEL.gguf...
  -f FORGEC     the compiler (default: build/release/forgec, else forgec on the path)
  -b "OPTIONS"  options for forgec build
  -c N          tokens a piece (default 512)
  -t N          threads (default 2)
  -e FILE       reference values: model,exact,llama_cpp (default: perplexity.csv beside this script)
  -l PERCENT    limit for the difference to exact (default 1); above 0.2 % a row is marked with "!"
TEXT
}
here=$(cd "$(dirname "$0")" && pwd) || exit 1
forgec="" options="" text="" context=512 threads=2 reference=$here/perplexity.csv limit=1
while getopts f:b:T:c:t:e:l:h c; do
    case $c in
    f) forgec=$OPTARG ;; b) options=$OPTARG ;; T) text=$OPTARG ;; c) context=$OPTARG ;; t) threads=$OPTARG ;; e) reference=$OPTARG ;;
    l) limit=$OPTARG ;; h) usage; exit 0 ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -eq 0 ] || [ -z "$text" ]; then usage >&2; exit 2; fi
if [ -z "$forgec" ]; then forgec=$here/../../build/release/forgec; [ -x "$forgec" ] || forgec=$(command -v forgec); fi
[ -x "$forgec" ] || { echo "perplexity.sh: no forgec; build it or name it with -f" >&2; exit 1; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/forgec-ppl.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

perplexity() {       # model options: prints one number, or nothing
    # shellcheck disable=SC2086
    "$forgec" build -q $options $2 "$1" -o "$dir/program" 2>"$dir/log" &&
        "$dir/program" --perplexity -f "$text" -c "$context" -t "$threads" 2>>"$dir/log" | awk '/PPL = / { print $3; exit }'
}

for m in "$@"; do
    own=$(perplexity "$m" '') exact=$(perplexity "$m" --exact)
    if [ -z "$own" ] || [ -z "$exact" ]; then echo "perplexity.sh: $m:" >&2; tail -3 "$dir/log" >&2; fi
    echo "$(basename "$m" .gguf),${own:-0},${exact:-0}"
done | awk -F, -v reference="$reference" -v limit="$limit" '
    function off(x, to) { return to > 0 && x > 0 ? sprintf("%+.3f %%", 100 * (x - to) / to) : "-" }
    function shown(x) { return x > 0 ? sprintf("%.4f", x) : "-" }
    function far(x, to) { return x > to ? (x - to) / to : (to - x) / to }
    BEGIN {
        while ((getline line < reference) > 0) { split(line, f, ","); exact[f[1]] = f[2] + 0; peer[f[1]] = f[3] + 0 }
        print "| model | exact weights | llama.cpp | its difference | forgec | difference | forgec --exact | difference |"
        print "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    }
    {
        to = exact[$1] > 0 ? exact[$1] : $3                  # no reference: against --exact
        mark = $2 > 0 && to > 0 && far($2, to) > 0.002 ? " !" : ""
        printf "| %s | %s | %s | %s | %s | %s%s | %s | %s |\n", $1, shown(exact[$1]), shown(peer[$1]), off(peer[$1], to), shown($2), off($2, to), mark, shown($3), off($3, exact[$1])
        if (!($2 > 0) || !($3 > 0) || far($2, to) * 100 > limit || (exact[$1] > 0 && far($3, to) * 100 > limit)) failed = 1
        fflush()
    }
    END { exit failed }'
