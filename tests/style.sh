#!/bin/bash
# style.sh [FORGEC PROGRAM] -- the width of lines and the words of sentences that a user reads.
#   FORGEC PROGRAM   also checks what these print: --help of each command and of a program, and emitted sources of several targets
# style.sh --count   for each folder the number of lines that are too long, and of words from the list below; never fails
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
cd "$root" || exit 1

# ---- words: a regular expression (grep -E; letters of both cases, unless it has a capital) and what to write instead ----
cat > "$tmp/words" <<'END'
\b(is|are|was|were) none\b	"is not a ...", "there is no ..."
\bso many\b	the number, or "this many"
\bof those\b	the noun: "of the tokens"
\b(the|another|a second) ones? (that|of|which|whose|before|after|named|with)\b	the noun: "the GPU that"
\b(another|a second|a further|the other) ones?\b	the noun: "another GPU"
\bthat one([,.;:)]|$| (is|are|has|was|in|of|for))	the noun
\b(he|those|anyone|anybody|somebody) who(se)?\b	the noun
\bwhose( [a-z]+){1,3} (has|have)\b	"with ...", or a sentence of its own
(^|[.:;] +)Of (a|an|the|all|each|every|this|these|some|several|many|few|more|one|two|others?|it|them|[A-Z`])	subject first: "For ...", "A ... has ..."
(^|[.] +)(What|Whoever|Whatever) [^.?]*[.]	subject first: the noun
\b(hold|holds|held)( it| them| its [a-z]+| the [a-z]+)? against\b	"compare with"
\bin the place of\b	"in place of", "instead of"
\blikeliest\b	"most probable"
\btakes? the place of\b	"replaces"
\b(whoever|whichever)\b	the noun, or "any"
\bhowever (many|much|a|the|an|it)\b	"for any ..."
\blikewise\b	"the same", "in the same way"
(^|[.:;] +)(Not|Also|Neither) [a-z]+ (is|are|was|were)\b	subject first
\bneither (has|is|are|was)\b	the noun: "no target has"
\b(in|of|by) the (latter|former)\b	the noun
[.:;] [2-9][.] [*][*]	the item of a list at the beginning of a line
\blest\b	"so that ... not"
\bat hand\b	"available"
\bfor want of\b	"for lack of"
\bbut for\b	"except"
\b(go|goes|going|gone|went) on\b	"continue"
\b(is|are|was|were) told (of|about)\b	"is reported"
\btells? of\b	"reports"
\bgpus in a row\b	"pipeline parallel", "stage"
\blaps?\b	"timing"
\bexchanges? (with|between) (gpus|ranks)\b	"all-reduce", "all-gather"
END

# An expression that grep refuses would find nothing.
while IFS=$'\t' read -r word instead; do
    name=$word
    echo | grep -qE -e "$word"
    [ $? -le 1 ] && [ -n "$instead" ] || bad "is not an expression and what to write instead"
done < "$tmp/words"

# prose FILE: PLACE<TAB>TEXT for each line, of a page each paragraph; a page's code between backquotes and in fenced blocks is left out.
prose() {
    case $1 in
    *.md) awk -v page="$1" '
              function put() { if (text != "") print page ":" from "\t" text; text = "" }
              /^ *```/ { inside = !inside; put(); next }
              inside { next }
              /^[ ]*$/ || /^ *([-*]|[0-9]+[.]|[|#>])/ { put() }
              { gsub(/`[^`]*`/, "CODE"); if (text == "") from = FNR; else sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0 }
              END { put() }' "$1" ;;
    *)    awk -v page="$1" '{ print page ":" FNR "\t" $0 }' "$1" ;;
    esac
}
# words_in FILE: the findings in $tmp/prose, a line each: PLACE, what it says, what to write
words_in() {
    while IFS=$'\t' read -r word instead; do
        case $word in *[A-Z]*) any= ;; *) any=i ;; esac
        cut -f 2- "$1" | grep -nEo$any -e "$word" | while IFS=: read -r line found; do
            printf '%s: "%s": write %s\n' "$(sed -n "${line}p" "$1" | cut -f 1)" "${found#[.:;] }" "$instead"
        done
    done < "$tmp/words"
}

limit=$(sed -n 's/^ColumnLimit: *//p' .clang-format)
[ "${limit:-0}" -gt 0 ] || bad ".clang-format has no ColumnLimit"
# too_long FILE: its long lines, except the command that compiles an emitted source, and tables, code and links of a page.
too_long() {
    case $1 in
    *.md) awk -v limit="$limit" '/^ *```/ { inside = !inside; next } !inside && length > limit && !/^\|/ && / / { print FNR ": " length " columns" }' "$1" ;;
    *)    awk -v limit="$limit" 'length > limit && !/^ \* compile alone: / { print FNR ": " length " columns" }' "$1" ;;
    esac
}

folders() { find . -mindepth 1 -maxdepth 2 -type d ! -path './.*' ! -path './build*' ! -path './tests/data*' | sed 's|^\./||' | sort; }
if [ "${1-}" = --count ]; then
    printf '%-24s %10s %10s\n' folder "long lines" words
    { echo .; folders; } | while read -r folder; do
        depth=1
        case $folder in */*) depth=9 ;; esac
        find "$folder" -maxdepth $depth -type f \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.def' -o -name '*.hip' -o -name '*.wgsl' -o -name '*.js' -o -name '*.mjs' \
            -o -name '*.html' -o -name '*.css' -o -name '*.md' -o -name '*.sh' -o -name '*.yaml' -o -name '*.cmake' -o -name '*.txt' -o -name '*.1' \) \
            ! -path '*/data/*' > "$tmp/files"
        [ -s "$tmp/files" ] || continue
        while read -r file; do prose "$file"; done < "$tmp/files" > "$tmp/prose"
        printf '%-24s %10d %10d\n' "$folder" "$(while read -r file; do too_long "$file"; done < "$tmp/files" | wc -l)" "$(words_in "$tmp/prose" | wc -l)"
    done
    exit 0
fi

# ---- marks of a merge ----
left=$(grep -rlE --exclude-dir='build*' --exclude-dir=.git '^(<{7}|>{7}) ' . || true)
[ -z "$left" ] || bad "marks of a merge: $left"

# ---- the width of lines: all C and WGSL, and all pages except those in this list; take a page out of it when its lines fit ----
wide="glossary"
# is_in LIST PAGE: LIST names the page, without docs/ and .md
is_in() { page=${2#docs/}; case " $1 " in *" ${page%.md} "*) true ;; *) false ;; esac; }
check_width() {
    tests=$((tests + 1)) name=${2-$1}
    too_long "$1" > "$tmp/out"
    out_empty
}
while IFS= read -r file; do
    is_in "$wide" "$file" || check_width "$file"
done < <(find cmake compiler docs examples runtime simulator templates tests \( -name data -o -name build \) -prune -o -type f \
             \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.def' -o -name '*.hip' -o -name '*.wgsl' -o -path 'docs/*.md' -o -path 'examples/*.md' \) -print | sort)

# ---- the words: pages, the man page, help texts, and the files and folders in `plain`; add others when --count finds nothing in them ----
plain="cmake compiler examples runtime simulator templates tests/bench tests/fault"
plain="$plain tests/*.h tests/matrix.def tests/fuzz tests/golden tests/cli/*.h tests/device/*.[ch] tests/kernel/*.[hd]* tests/lanes/*.[ch] \
       tests/library/*.h tests/predict/*.[ch] tests/ranks/*.[ch] tests/server/*.[ch] tests/simulator/*.[cd]* tests/tools/*.h \
       tests/unit/*.h tests/webgpu/*.[ch]"
for file in $plain; do [ -e "$file" ] || { name=$file; bad "is in the list of style.sh, and there is no such file or folder"; }; done
{
    for file in *.md docs/*.md docs/*/*.md docs/*.1 examples/*/*.md; do
        tests=$((tests + 1))
        prose "$file"
    done
    while IFS= read -r file; do
        tests=$((tests + 1))
        prose "$file"
    done < <(find $plain -type f \( -name '*.[ch]' -o -name '*.def' -o -name '*.wgsl' -o -name '*.ts' -o -name '*.html' -o -name '*.sh' -o -name '*.cmake' -o -name '*.cpp' -o -name '*.S' \) | sort)
    if [ $# -ge 2 ]; then
        "$1" --help > "$tmp/forgec --help"
        for command in build cc verify compare tune inspect targets models formats; do "$1" $command --help > "$tmp/forgec $command --help"; done
        "$2" --help > "$tmp/program --help"
        for help in "$tmp/"*--help; do
            [ -s "$help" ] || echo "${help##*/}" >> "$tmp/empty"
            prose "$help"
        done
    fi
} > "$tmp/prose"
name="help texts"
[ ! -s "$tmp/empty" ] || bad "these print nothing: $(tr '\n' ' ' < "$tmp/empty")"
name=words
words_in "$tmp/prose" > "$tmp/out"
out_empty

# ---- emitted sources: one target for each language and way to print ----
if [ $# -ge 2 ]; then
    for target in x86-64-v4 aarch64-v8.6 portable wasm32 sm_90 webgpu; do
        "$1" build examples/storyteller/storyteller-7m-q4_k_m.gguf -t "$target" --emit source -q -o "$tmp/emitted-$target" || { bad "--emit source for $target"; continue; }
        check_width "$tmp/emitted-$target" "emitted source for $target"
    done
fi
summary files
