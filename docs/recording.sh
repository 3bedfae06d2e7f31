#!/bin/sh
# recording.sh FORGEC [OUT.svg] -- runs the commands below with the bundled model and draws what they print, as it was printed, as an animated SVG
# (docs/recording.svg by default).  Each line appears after the time that it took, at least a third of a second, so that it can be read.
# A viewer without animation shows the last picture.
set -eu
forgec=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-$here/recording.svg}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/bin" "$tmp/at"
ln -s "$forgec" "$tmp/bin/forgec"
cp "$here/../examples/storyteller/storyteller-7m-q4_k_m.gguf" "$tmp/at/story.gguf"
export PATH="$tmp/bin:$PATH" LC_ALL=C
cd "$tmp/at"

# Each line of the record: milliseconds before it, kind (c: command, o: output), text.
width=96
now() { date +%s%N | cut -c1-13; }
show() {
    printf '1200\tc\t%s\n' "$1" >> ../record
    from=$(now)
    sh -c "$1" > ../output 2> ../errors || { echo "recording.sh: $1 failed:" >&2; cat ../errors >&2; exit 1; }
    took=$(($(now) - from))
    [ ! -s ../output ] || [ -z "$(tail -c 1 ../output)" ] || echo >> ../output             # as at a terminal
    cat ../errors >> ../output
    fold -s -w $width ../output | awk -v ms=$took 'NR == 1 { printf "%d\to\t%s\n", ms < 330 ? 330 : ms, $0; next } { printf "330\to\t%s\n", $0 }' >> ../record
}
show 'ls -sh story.gguf'
show 'forgec build story.gguf -t x86-64-v3 -o story'
show './story -p "Once upon a time" -n 100 --temp 0.7 --top-p 0.9 -s 7 -t 2 -q --echo'
show 'ldd story | cut -d" " -f1'
show 'forgec build story.gguf -t gfx1151 -o story-halo'
show 'forgec build story.gguf -t x86-64-v3 --emit source -o story.c'
show 'sed -n "/^KERNEL(ffn_down_decode)/,/^}/p" story.c'

awk -F '\t' -v title=forgec '
    function escaped(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); gsub(/>/, "\\&gt;", s); gsub(/\t/, "    ", s); return s }
    { ms += $1; at[NR] = ms; kind[NR] = $2; text[NR] = substr($0, length($1) + length($2) + 3) }
    END {
        height = 18 * NR + 62
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"%d\" viewBox=\"0 0 820 %d\" role=\"img\" aria-label=\"forgec at a terminal\">\n", height, height
        print "<!-- made by docs/recording.sh: the output of the commands, as they printed it -->"
        print "<style>text{font:13px ui-monospace,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;white-space:pre;fill:#b9c2cc}.c{fill:#fff}.p{fill:#7ee787}"
        print ".h{fill:#7d8590}@keyframes s{from{opacity:0}to{opacity:1}}@media(prefers-reduced-motion:no-preference){.l{animation:s 60ms both}}</style>"
        printf "<rect width=\"820\" height=\"%d\" rx=\"8\" fill=\"#0d1117\"/>\n", height
        print "<circle cx=\"20\" cy=\"18\" r=\"5\" fill=\"#ff5f57\"/><circle cx=\"38\" cy=\"18\" r=\"5\" fill=\"#febc2e\"/><circle cx=\"56\" cy=\"18\" r=\"5\" fill=\"#28c840\"/>"
        printf "<text class=\"h\" x=\"410\" y=\"22\" text-anchor=\"middle\">%s</text>\n", escaped(title)
        for (i = 1; i <= NR; i++)
            printf "<text class=\"l %s\" x=\"18\" y=\"%d\" xml:space=\"preserve\" style=\"animation-delay:%dms\">%s%s</text>\n", kind[i], 18 * i + 34, at[i],
                kind[i] == "c" ? "<tspan class=\"p\">$ </tspan>" : "", escaped(text[i])
        print "</svg>"
    }' ../record > ../recording.svg
mv ../recording.svg "$out"
