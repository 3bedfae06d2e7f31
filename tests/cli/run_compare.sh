#!/bin/sh
# run_compare.sh FORGEC MODEL.gguf -- forgec compare: the programs that it makes from lists, their names, refusals; equal programs have equal speed.
forgec=$1 model=$2
. "$(dirname "$0")/../harness.sh"
export TMPDIR="$tmp/work"
mkdir "$TMPDIR" "$tmp/other"
short="-p 16 -n 16 -r 1 --min-time 0.001 --threads 1"

# The values of a key in the programs of $tmp/out (JSON), one per line.
json() { sed -n "s/^\t\t\t\"$1\":\t\(.*\)/\1/p" "$tmp/out" | sed 's/,$//; s/^"//; s/"$//'; }
# names_are KEY VALUES...
values_are() { key=$1; shift; [ "$(json "$key")" = "$(printf '%s\n' "$@")" ] || bad "$key: '$(json "$key")', wanted '$*'"; }

# ---- wrong usage ----
refuse none 2 "one model or more, got none" "$forgec" compare
refuse value 2 '--kv: "f15" is not one of f16, f32, q8_0' "$forgec" compare "$model" --kv f16,f15
refuse empty 2 '--fuse: a value of "none," is empty' "$forgec" compare "$model" --fuse none,
refuse many 2 "20 programs are too many: compare takes at most 16" "$forgec" compare "$model" "$model" --ctx 64,65,66,67,68 --kv f16,f32
refuse context 1 "-p 100 and -n 64 exceed the context of 64 tokens" "$forgec" compare "$model" --ctx 128,64 -p 100
refuse form 2 '--format: "csv" is not one of md, json, html' "$forgec" compare "$model" --format csv
refuse cluster 2 "unknown option -vtx86-64-v3,portable" "$forgec" compare "$model" -vtx86-64-v3,portable
refuse plan 1 "none.plan" "$forgec" compare "$model" --plan default --plan "$tmp/none.plan"

# ---- fusion of one model; equal programs ----
# If these programs were measured as they are, each of the two speeds would be reported as different in 1.6 % of reports; three times in a row never happens.
for attempt in 1 2 3; do
    check equal 0 "$forgec" compare "$model" "$model" -p 16 -n 16 -r 7 --min-time 0.02 --threads 1 --format json; err_empty
    values_are fuse layer layer
    values_are logits_max_abs 0 0
    [ "$(grep -c '"verdict":	"not distinguishable"' "$tmp/out")" -eq 4 ] && break
done
[ "$(grep -c '"verdict":	"not distinguishable"' "$tmp/out")" -eq 4 ] || bad "equal programs are told apart, three times"
[ "$(grep -c '"ratio_least":	[0-9]' "$tmp/out")" -eq 4 ] || bad "no intervals"
base=$(basename "$model" .gguf)
values_are name "$base" "$base (2)"
refuse "-o is a file" 2 "-o is a file; --format json sets the form of the report" "$forgec" compare "$model" $short -o json
check to-file 0 "$forgec" compare "$model" $short -o "$tmp/report.json"; out_empty; err_has "wrote $tmp/report.json"; grep -q '"programs"' "$tmp/report.json" || bad "no report in the file"
check fusion 0 "$forgec" compare "$model" $short --format json; err_empty
values_are name "fuse none" "fuse layer"
values_are launches_per_token 39 14
check alone 0 "$forgec" compare "$model" $short --fuse layer; err_empty
out_has "| fuse layer |"; out_lacks "times fuse layer"

# ---- all lists at once, in a table ----
"$forgec" build "$model" --ctx 64 --emit plan -o "$tmp/own.plan" -q
"$forgec" build "$model" --ctx 64 --emit source -o "$tmp/own.c" -q
sed 's/^# groups of operations.*/& edited/' "$tmp/own.plan" > "$tmp/mine.plan"
echo '/* mine */' | cat "$tmp/own.c" - > "$tmp/mine.c"
cp "$model" "$tmp/other/a|<b>.gguf"
check plans 0 "$forgec" compare "$model" --ctx 64 --plan default --plan "$tmp/mine.plan" --source=default --source "$tmp/mine.c" $short --format json; err_empty
values_are name "plan default, source default" "plan default, source mine.c" "plan mine.plan, source default" "plan mine.plan, source mine.c"
values_are source null "$tmp/mine.c" null "$tmp/mine.c"
values_are plan null null "$tmp/mine.plan" "$tmp/mine.plan"
values_are fuse layer layer layer layer
values_are ctx 64 64 64 64
values_are logits_max_abs 0 0 0 0
check models 0 "$forgec" compare "$tmp/other/a|<b>.gguf" "$model" --ctx 64,32 $short; err_empty
out_has '| a\|<b>, ctx 64 '; out_has "| $base, ctx 32 "; out_has '| times a\|<b>, ctx 64 '
check kv 0 "$forgec" compare "$model" --ctx=64 --kv f16 --kv=q8_0 $short --format json; err_empty
values_are name "kv f16" "kv q8_0"
json logits_max_abs | { read -r first; read -r second; [ "$first" = 0 ] && [ "$second" != 0 ]; } || bad "logits: $(json logits_max_abs)"
if "$forgec" targets | grep '^x86-64-v3 ' | grep -vq 'does not run here'; then
    check targets 0 "$forgec" compare "$model" -tx86-64-v3,portable --ctx 64 $short --format json; err_empty
    values_are target x86-64-v3 portable
fi
[ -z "$(ls "$TMPDIR")" ] || bad "left in TMPDIR: $(ls "$TMPDIR")"
summary
