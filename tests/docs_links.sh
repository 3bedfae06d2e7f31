#!/bin/bash
# docs_links.sh [BUILD CMAKE] -- links and names of files in the documentation exist: in this tree and, with a finished BUILD, in the tree that
# `cmake --install` makes from it.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$(dirname "$0")/harness.sh"
links=0 names=0

# Headings of a page as the anchors that GitHub makes of them.
anchors() {
    grep -o '<a id="[^"]*">' "$1" | sed 's/<a id="//; s/">//'
    awk '/^```/ { inside = !inside } !inside && /^#+ /' "$1" | sed 's/^#* //; s/\[\([^]]*\)\]([^)]*)/\1/g' | tr 'A-Z' 'a-z' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
# Checks every link of every page below FOLDER: it must name an existing file or folder and, after #, a heading of the file.
check_links() {
    while IFS= read -r page; do
        while IFS= read -r link; do
            links=$((links + 1))
            case $link in http://* | https://* | mailto:*) continue ;; esac
            file=${link%%#*} anchor=
            case $link in *'#'*) anchor=${link#*#} ;; esac
            target=$page
            [ -z "$file" ] || target=$(dirname "$page")/$file
            [ -e "$target" ] || { bad "$page: $link leads nowhere"; continue; }
            [ -z "$anchor" ] || anchors "$target" | grep -qxF -e "$anchor" || bad "$page: there is no heading #$anchor in $file"
        done < <(awk '/^```/ { inside = !inside; next } !inside' "$page" | sed 's/`[^`]*`//g' | grep -oE '\]\([^) ]+\)' | sed 's/^](//; s/)$//')
        grep -nE '[^` ].*```' "$page" && bad "$page: a block of code begins or ends in the middle of a line"
    done < <(find "$1" -name build -prune -o -name '*.md' -print | sort)
}

check_links "$root"
[ $links -ge 45 ] || bad "only $links links were found"

# ---- files of this tree that pages and comments name by their path; NAME.yaml stands for any file, and docs/gguf.md is a file of ggml ----
cd "$root" || exit 1
while IFS=: read -r page file; do
    names=$((names + 1))
    case $file in docs/gguf.md) continue ;; */README.md) ;; *[A-Z][A-Z]*) continue ;; esac
    compgen -G "$file" > /dev/null || bad "$page names $file, which does not exist"
done < <(find README.md setup.sh docs compiler runtime simulator templates models targets examples cmake tests/*.sh -type f \
             \( -name '*.md' -o -name '*.[ch]' -o -name '*.def' -o -name '*.yaml' -o -name '*.sh' -o -name '*.1' \) ! -name 'docs_*' ! -name run_forgec.sh -print0 |
         xargs -0 grep -oE '(^|[ (`"])(compiler|runtime|templates|simulator|models|targets|docs|examples|cmake|completion|tests)/[A-Za-z0-9_./*-]+\.(c|h|def|inc|md|yaml|sh|ld|hip|cmake|txt)([^A-Za-z0-9_]|$)' |
         sed -E 's/:[ (`"]/:/; s/[^A-Za-z0-9_]$//')
[ $names -ge 100 ] || bad "only $names names were found"

# ---- every stage of the compiler has its place on the page of the pipeline; files of weight formats have theirs in format.def ----
for file in compiler/*/*.c; do
    name=$(basename "$file" .c)
    case $file in compiler/format/*) if grep -q "^QUANT_BLOCK([A-Z0-9_]*K*, *$name," compiler/format/format.def; then continue; fi ;; esac
    grep -q "[\`/]${file#compiler/}\`" docs/pipeline.md || bad "docs/pipeline.md does not say what ${file#compiler/} is"
done

# ---- every architecture stands in the table of docs/models.md ----
for file in models/*.yaml; do
    grep -q '^architecture:' "$file" || continue
    name=$(basename "$file" .yaml)
    grep -qE "^\| ([a-z0-9_, -]*, )?$name[ ,]" docs/models.md || bad "docs/models.md does not list the architecture $name"
done

# ---- the wirings in docs/architecture.md are those of the files in models/ ----
if [ $# -gt 0 ]; then
    mkdir "$tmp/my-models"
    awk -v to="$tmp/my-models/" '/^```/ { inside = $0 == "```yaml"; text = file = ""; next } !inside { next } /^architecture: / { file = to $2 ".yaml"; printf "%s", text > file }
        file { print > file } !file { text = text $0 "\n" }' docs/architecture.md
    for example in "$tmp"/my-models/*; do
        name=$(basename "$example" .yaml) model=$1/data/tiny
        [ -e "$model/$name.gguf" ] && model=$model/$name.gguf || model=$1/data/golden/$name-a.gguf
        "$1/forgec" build "$model" --emit graph > "$tmp/built-in" && "$1/forgec" build "$model" --emit graph --models "$tmp/my-models" > "$tmp/example" &&
            cmp -s "$tmp/built-in" "$tmp/example" || bad "docs/architecture.md: the example $name is not the architecture"
    done
    [ "$(find "$tmp/my-models" -name '*.yaml' | wc -l)" -eq 3 ] || bad "docs/architecture.md has not three examples"
fi

# ---- the installed documentation ----
if [ $# -gt 0 ]; then
    "$2" --install "$1" --prefix "$tmp/installed" > "$tmp/log" 2>&1 || { cat "$tmp/log"; exit 1; }
    before=$links
    check_links "$tmp/installed"
    [ $((links - before)) -ge 45 ] || bad "only $((links - before)) links were found in the installed pages"
fi
tests=$((links + names))
summary "links and names of files"
