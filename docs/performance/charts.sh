#!/bin/sh
# charts.sh [FOLDER] -- draws the charts of docs/performance.md from the CSV files beside it, into FOLDER (by default here).
# The numbers are the measured ones, of a range its middle.  The longest bar of a group is its largest number; with common=1 all groups have one scale.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here}
export LC_ALL=C

# chart NAME CSV TITLE LABEL FILTER SERIES...: one group of bars for each row of CSV for which FILTER ("COLUMN=REGEX", "" for all) holds and all
# series have a number.  LABEL: columns of a group's name, joined by "+".  SERIES: COLUMN:NAME.
chart() {
    name=$1 csv=$2 title=$3 label=$4 filter=$5
    shift 5
    awk -v title="$title" -v label="$label" -v filter="$filter" -v series="$*" -v csv="$csv" -v common="${common-}" '
        # Fields of a line of CSV into f[1...]; quotes may hold commas and doubled quotes.
        function fields(line, f,    n, c, i, quoted) {
            n = 1; f[1] = ""; quoted = 0
            for (i = 1; i <= length(line); i++) {
                c = substr(line, i, 1)
                if (quoted) {
                    if (c != "\"") f[n] = f[n] c
                    else if (substr(line, i + 1, 1) == "\"") { f[n] = f[n] c; i++ }
                    else quoted = 0
                }
                else if (c == "\"") quoted = 1
                else if (c == ",") f[++n] = ""
                else f[n] = f[n] c
            }
            return n
        }
        function escaped(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); return s }
        function number(s,    p) { if (split(s, p, "-") == 2) return (p[1] + p[2]) / 2; return s + 0 }
        function column(name) { if (!(name in at)) { print csv ": no column " name > "/dev/stderr"; bad = 1; exit 1 } return at[name] }
        function shown(x) { return x < 10 ? sprintf("%.2f", x) : x < 100 ? sprintf("%.1f", x) : sprintf("%d", x + 0.5) }
        NR == 1 {
            n = fields($0, f)
            for (i = 1; i <= n; i++) at[f[i]] = i
            n_series = split(series, s, " ")
            for (i = 1; i <= n_series; i++) { split(s[i], p, ":"); key[i] = column(p[1]); word[i] = p[2]; gsub(/~/, " ", word[i]) }
            n_label = split(label, labels, "+")
            for (i = 1; i <= n_label; i++) column(labels[i])
            if (filter != "") { split(filter, p, "="); of = column(p[1]); wanted = p[2] }
            next
        }
        {
            fields($0, f)
            if (filter != "" && f[of] !~ wanted) next
            for (i = 1; i <= n_series; i++) if (f[key[i]] !~ /^[0-9]/) next
            groups++
            for (i = 1; i <= n_label; i++) group[groups] = group[groups] (i > 1 ? ", " : "") f[at[labels[i]]] (labels[i] == "gpus" ? (f[at[labels[i]]] == 1 ? " GPU" : " GPUs") : "")
            for (i = 1; i <= n_series; i++) { value[groups, i] = number(f[key[i]]); if (value[groups, i] > largest) largest = value[groups, i] }
        }
        END {
            if (bad || !groups) { if (!bad) print csv ": no rows" > "/dev/stderr"; exit 1 }
            split("#1f6feb #8b949e #d29922 #3fb950", colour, " ")
            high = n_series * 16 + 12; height = groups * high + 74
            printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"%d\" viewBox=\"0 0 720 %d\" role=\"img\" aria-label=\"%s\">\n", height, height, escaped(title)
            printf "<!-- drawn by docs/performance/charts.sh from docs/performance/%s -->\n", csv
            print "<style>text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-weight:600;font-size:14px}.n{font-size:11px}</style>"
            printf "<rect width=\"720\" height=\"%d\" rx=\"6\" fill=\"#fff\" stroke=\"#d0d7de\"/>\n<text class=\"t\" x=\"16\" y=\"24\">%s</text>\n", height, escaped(title)
            for (i = 1; i <= n_series; i++)
                printf "<rect x=\"%d\" y=\"36\" width=\"11\" height=\"11\" fill=\"%s\"/><text x=\"%d\" y=\"46\">%s</text>\n", 16 + 150 * (i - 1), colour[i], 32 + 150 * (i - 1), escaped(word[i])
            for (g = 1; g <= groups; g++) {
                most = 0
                for (i = 1; i <= n_series; i++) if (value[g, i] > most) most = value[g, i]
                if (common) most = largest
                y = 62 + (g - 1) * high
                printf "<text x=\"256\" y=\"%d\" text-anchor=\"end\">%s</text>\n", y + n_series * 8 + 4, escaped(group[g])
                for (i = 1; i <= n_series; i++)
                    printf "<rect x=\"266\" y=\"%d\" width=\"%.1f\" height=\"13\" fill=\"%s\"/><text class=\"n\" x=\"%.1f\" y=\"%d\">%s</text>\n", y + 16 * (i - 1), 380 * value[g, i] / most,
                        colour[i], 272 + 380 * value[g, i] / most, y + 16 * i - 6, shown(value[g, i])
            }
            print "</svg>"
        }' "$here/$csv" > "$out/$name.svg.new"
    mv "$out/$name.svg.new" "$out/$name.svg"
}

chart h200_decode h200_decode.csv "NVIDIA H200: generation behind 512 tokens, tokens/s" model "" behind_512:forgec llama_cpp_512:llama.cpp
chart h200_prefill h200_prefill.csv "NVIDIA H200: prompt of 512 tokens, tokens/s" model "" sm_90a_behind_0:forgec~sm_90a sm_90_behind_0:forgec~sm_90 llama_cpp_0:llama.cpp
chart cpu_amx_decode cpu_amx_peers.csv "Intel Xeon with AMX, 16 threads: generation, tokens/s" model threads=^16$ forgec_decode:forgec ik_rtr_decode:ik_llama.cpp~-rtr llama_cpp_decode:llama.cpp
chart cpu_amx_prompt cpu_amx_peers.csv "Intel Xeon with AMX, 16 threads: prompt of 128, tokens/s" model threads=^16$ forgec_prompt:forgec ik_rtr_prompt:ik_llama.cpp~-rtr llama_cpp_prompt:llama.cpp
chart cpu_zen3 cpu_zen3.csv "AMD Zen 3, 2 threads, Llama 3.2 1B: tokens/s" model+test "" forgec:forgec ik:ik_llama.cpp ik_rtr:ik_llama.cpp~-rtr llama_cpp:llama.cpp
common=1 chart gpus gpus_nvlink.csv "NVIDIA H100s with NVLink, tensor parallel: speed over one GPU" model+gpus "" generation_over_one:generation prompt_512_over_one:prompt~of~512
