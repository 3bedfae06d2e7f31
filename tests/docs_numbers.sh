#!/bin/bash
# docs_numbers.sh -- docs/performance.md and its data: the charts are made from the CSV files, these files are complete, and every number in a
# table of the page, and in README's table beside llama.cpp, is in one of the files.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
cd "$root/docs/performance" || exit 1

# ---- charts ----
mkdir "$tmp/charts"
sh ./charts.sh "$tmp/charts" || bad "charts.sh"
for chart in *.svg; do
    name=$chart tests=$((tests + 1))
    same "$chart" "$tmp/charts/$chart" "docs/performance/charts.sh draws it anew"
    grep -qF -e "performance/$chart" ../performance.md || bad "docs/performance.md does not show it"
done

# ---- files: their columns, rows that have all of them, a line in the list ----
cat > "$tmp/fields.awk" <<'END'
function fields(line,    n, c, i, quoted) {
    n = 1; quoted = 0
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) n++
    }
    return quoted ? -1 : n
}
FNR == 1 && !/^date,machine,commit,command,model(,|$)/ { print FILENAME ": the first columns are not date,machine,commit,command,model" }
FNR == 1 { n = fields($0); next }
fields($0) != n { print FILENAME ":" FNR ": " fields($0) " columns, the head has " n }
!/^20[0-9][0-9]-[0-9][0-9]-[0-9][0-9],/ && (FNR == 2 || !/^,,,,/) { print FILENAME ":" FNR ": no date" }
END
name="files of numbers"
awk -f "$tmp/fields.awk" *.csv > "$tmp/out"
out_empty
for file in *.csv; do
    tests=$((tests + 1))
    grep -qF -e "($file)" README.md || bad "docs/performance/README.md does not list $file"
done

# ---- numbers of the page's tables; the test predict_fit checks the predictions ----
# The numbers of a text, one per line: 1.0e-5 is one number, 381-421 are two.
loose() {
    tr -c '0-9.eE+\n-' '\n' | sed -E 's/([0-9])-([0-9])/\1\n\2/g; s/^[-+eE.]*([0-9].*)/\1/; s/[.eE+-]*$//' | grep '^[0-9]' | sort -u
}
cut -d, -f5- -- *.csv | loose > "$tmp/known"
awk '/^```/ { inside = !inside } /^## / { skip = /^## Predictions/ } !inside && !skip && /^\|/ && !/^\|[-: |]*$/ && rows++ > 0 { print } !/^\|/ { rows = 0 }' ../performance.md |
    sed -E 's/^\|[^|]*\|//; s/([0-9]),([0-9]{3})/\1\2/g' | loose > "$tmp/shown"
name="numbers of docs/performance.md"
[ "$(wc -l < "$tmp/shown")" -ge 300 ] || bad "only $(wc -l < "$tmp/shown") numbers were found"
comm -23 "$tmp/shown" "$tmp/known" > "$tmp/out"
tests=$((tests + $(wc -l < "$tmp/shown")))
out_empty
name="numbers of README.md"
awk '/^## / { on = /^## Beside llama.cpp/ } on && /^\|/' ../../README.md | sed -E 's/^\|[^|]*\|[^|]*\|[^|]*\|//; s/ [0-9.]+x .*//; s/([0-9]),([0-9]{3})/\1\2/g' | loose > "$tmp/shown"
[ "$(wc -l < "$tmp/shown")" -ge 16 ] || bad "only $(wc -l < "$tmp/shown") numbers were found"
comm -23 "$tmp/shown" "$tmp/known" > "$tmp/out"
tests=$((tests + $(wc -l < "$tmp/shown")))
out_empty
summary
