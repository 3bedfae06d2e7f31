#!/bin/sh
# budget.sh MATRIX.def LABELS TEMPORARY CC -- the last test of a run: compares the seconds of each label with its budget (BUDGET of matrix.def), and lists
# skipped tests.  LABELS: a line for each test with its name, tier and room; TEMPORARY: the folder in which ctest writes the log of the current run.
#
# Machines and their load differ, so seconds are divided by the machine's factor.  The factor is the larger of two numbers: the time of a fixed compile
# relative to REFERENCE, and the median, over the labels, of seconds divided by budget.  A label fails beyond 1.5 times its budget, so it fails if it takes
# twice as long and the others do not.  If all labels take longer, only the fixed compile shows whether the machine is the reason: all tests together
# fail beyond 2 times their budget.  In the tier full, and if all tests run instead of a third, seconds are only printed.
set -u
budgets=$1 labels=$2 log=$3/LastTest.log.tmp cc=$4
. "$(dirname "$0")/harness.sh"
[ -s "$log" ] || lacks "this ctest writes no $log"

# ---- how fast this machine is now: all processors compile a fixed source at once; a time of REFERENCE seconds is the factor 1.0 ----
REFERENCE=1.5
awk 'BEGIN {
    for (f = 0; f < 60; f++) {
        printf "float f%d(const float *restrict x, float *restrict y, int n)\n{\n    float s = %d;\n", f, f
        for (l = 0; l < 12; l++) printf "    for (int i = %d; i < n; i++) { y[i] += x[i] * s + %d; s += y[i] / (x[i] + %d); if (s > %d) s -= x[n - i]; }\n", l, l, f + l + 1, 100 * l
        print "    return s;\n}"
    }
}' > "$tmp/fixed.c"
from=$(date +%s.%N)
for processor in 1 2; do "$cc" -std=c11 -O2 -c "$tmp/fixed.c" -o "$tmp/fixed.$processor.o" & done
wait
here=$(awk "BEGIN { print ($(date +%s.%N) - $from) / $REFERENCE }")

# ---- the run so far ----
sed -n 's/^ *[0-9]*\/[0-9]* Test: /name /p; s/^Test time = */time /p; s/^skipped: /skipped /p; s/^left out: /left /p; s/^Test \(Passed\|Failed\|Skipped\)\..*/end \1/p' "$log" > "$tmp/run"
if grep -q '^name ' "$tmp/run" && ! grep -q '^time ' "$tmp/run"; then bad "$log has no times: does ctest write them in another way?"; exit 1; fi
awk -v here="$here" -v out="$tmp/out" -v labels="$labels" -v budgets="$budgets" -v full="$full" '
    function row(label) { return sprintf("  %-10s %5d tests %6.0f s of %5d", label, n[label], seconds[label], budget[label]) }
    FILENAME == budgets { if (match($0, /^BUDGET\([a-z]+, [0-9]+\)/)) { split(substr($0, 8, RLENGTH - 8), p, ", "); budget[p[1]] = p[2]; order[++n_labels] = p[1] } next }
    FILENAME == labels { tier[$1] = $2; room[$1] = $3; next }
    $1 == "name" { name = $2; why = "" }
    $1 == "skipped" { why = $0; sub(/^skipped /, "", why) }
    $1 == "left" { left = $0; sub(/^left /, "", left); print "left out in " name ": " left }
    $1 == "time" {
        if (!(name in tier) || tier[name] == "full") next
        total += $2
        n[room[name]]++; seconds[room[name]] += $2
        if (tier[name] == "quick") { n["quick"]++; seconds["quick"] += $2 }
        n["default"]++; seconds["default"] += $2
        if (why != "") skipped[++n_skipped] = name ": " why
    }
    END {
        if (!n_labels) { print "no BUDGET in " budgets; exit 1 }
        for (i = 1; i <= n_labels; i++) {
            label = order[i]
            if (label != "quick" && label != "default" && n[label]) share[++n_shares] = seconds[label] / budget[label]
        }
        for (i = 2; i <= n_shares; i++) for (k = i; k > 1 && share[k - 1] > share[k]; k--) { t = share[k]; share[k] = share[k - 1]; share[k - 1] = t }
        median = n_shares >= 5 ? share[int((n_shares + 1) / 2)] : 0
        factor = here < 1 ? 1 : here
        wide = median > factor ? median : factor
        printf "test-seconds, one after the other: %.0f; a fixed compile takes %.2f times what it does on the machine of the budgets, half of the labels take %.2f of theirs\n", total, here, median
        for (i = 1; i <= n_labels; i++) {
            label = order[i]
            if (!n[label]) continue
            most = label == "default" ? 2 * factor : 1.5 * (label == "quick" ? factor : wide)
            over = seconds[label] > most * budget[label]
            print row(label) (over ? sprintf(", FAILED: more than %.2f times", most) : "")
            failed += over
        }
        for (name in room) if (!(room[name] in budget)) { print "FAILED: " name " has the label " room[name] ", which has no budget"; failed++ }
        for (i = 1; i <= n_skipped; i++) print "skipped: " skipped[i]
        exit failed > 0 && full == ""
    }' "$budgets" "$labels" "$tmp/run"
