#!/bin/sh
# mutants.sh -- runs the tests of the default tier on wrong versions of the sources (tests/mutants.tsv), and records which test finds each
# of them.
#   mutants.sh                all mutants that tests/kills.csv has no result for
#   mutants.sh --only WORD    only those of the room WORD, or with this name
#   mutants.sh --again        also mutants that have a result; the new result replaces it
#   mutants.sh --check MUTATE checks that the table fits the tree, with the built tool: a test of the default tier
# Everything happens in build/mutants: a copy of the tree, its build folder, and a separate compile cache.  The tree itself only gets rows
# in tests/kills.csv, mutant by mutant, so the script can be stopped and continues from there.
# Tests run on a mutant for at most MUTANTS_SECONDS (180): first the tests of its row, then the unit test of its file, then the tests of its room in the
# order of the table, and in each group the fastest first.  The first failure ends the mutant.  Tests that fail or are skipped without a mutant do not
# count, and a test that needs more than the remaining time does not run.  A mutant that does not compile is invalid.  MUTANTS_JOBS: compilers at
# once (default: all processors).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
table=$root/tests/mutants.tsv kills=$root/tests/kills.csv tab=$(printf '\t')

if [ "${1-}" = --check ]; then exec "$2" check "$table" "$kills" "$root" 8; fi

only='' again=no
while [ $# -gt 0 ]; do
    case $1 in
    --only) only=${2:?--only wants a room or a name}; shift ;;
    --again) again=yes ;;
    *) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done

limit=${MUTANTS_SECONDS:-180} jobs=${MUTANTS_JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)}
work=$root/build/mutants
generator='Unix Makefiles' build=$work/make
if command -v ninja >/dev/null; then generator=Ninja build=$work/ninja; fi         # finds changed files faster
tree=$work/tree log=$work/log mutate=$build/tests/tools/mutate
mkdir -p "$tree" "$build"
exec 9>"$work/lock"
flock -n 9 || { echo "mutants.sh: another one runs in $work" >&2; exit 1; }
say() { echo "== $*"; }

# ---- the copy of the tree ----

# Sets changed=yes if a file has changed, except documentation and the tables of this script, because the results of tests may then differ.
copy_tree() {
    changed=no
    (cd "$root" && git ls-files --cached --others --exclude-standard) >"$work/unsorted" ||
        { echo "mutants.sh: needs git and a clone: git lists the files to copy" >&2; exit 1; }
    sort "$work/unsorted" >"$work/files"
    (cd "$tree" && find . -type f | sed 's,^\./,,') | sort >"$work/had"
    comm -13 "$work/files" "$work/had" | while IFS= read -r file; do rm -f "$tree/$file"; done
    while IFS= read -r file; do
        [ -f "$root/$file" ] || continue
        cmp -s "$root/$file" "$tree/$file" && continue
        mkdir -p "$tree/$(dirname "$file")"
        cp "$root/$file" "$tree/$file"
        case $file in docs/*|*.md|tests/mutants.*|tests/kills.csv) ;; *) changed=yes ;; esac
    done <"$work/files"
}

prepare() {
    copy_tree
    export XDG_CACHE_HOME="$work/cache"
    for modules in npm webgpu; do [ ! -d "$work/$modules" ] || ln -sfn "$work/$modules" "$build/$modules"; done
    cmake -G "$generator" -S "$tree" -B "$build" -DCMAKE_BUILD_TYPE=Release -DFORGEC_TESTS=ON >"$log" 2>&1 || { cat "$log"; exit 1; }
    say "building what all tests need"                   # the rest is built test by test
    cmake --build "$build" --parallel "$jobs" --target mutate test_data tiny_models measured_models >"$log" 2>&1 || { tail -n 30 "$log"; exit 1; }
    if [ "$changed" = yes ] || [ ! -f "$work/baseline" ]; then : >"$work/baseline"; fi
    list_tests
}

# $work/targets: for each test its name and the files of the build folder that it uses.
list_tests() {
    sed -n 's,.*/CMakeFiles/\([^/]*\)\.dir$,\1,p' "$build/CMakeFiles/TargetDirectories.txt" >"$work/known"
    (cd "$build" && ctest -N -V) | awk -v build="$build/" -v known="$work/known" '
        BEGIN { while ((getline line < known) > 0) is[line] = 1 }
        /^ *Test +#[0-9]+: / {
            name = $0; sub(/^ *Test +#[0-9]+: /, "", name); sub(/ .*/, "", name)
            print name "\t" (wants == "" ? " all" : wants)
            wants = ""; next
        }
        {
            line = $0
            while ((at = index(line, build)) > 0) {
                line = substr(line, at + length(build))
                word = line; sub(/["; ].*/, "", word); sub(/.*\//, "", word)
                plain = word; sub(/^lib/, "", plain); sub(/\.(so|a)$/, "", plain)
                code = word ~ /\.co$/ ? word : ""; sub(/\..*/, "", code)
                target = word in is ? word : plain in is ? plain : (plain "_library") in is ? plain "_library" : ""
                if (code != "" && ("gfxsim_" code) in is) target = "gfxsim_" code
                if (target != "" && index(wants " ", " " target " ") == 0) wants = wants " " target
            }
        }' >"$work/targets"
}

# ---- tests ----

# run_test NAME SECONDS: sets outcome to passed, failed, slow (stopped after SECONDS) or skipped, and took to its seconds
run_test() {
    code=0
    (cd "$build" && ctest -R "^$1\$" --output-on-failure --stop-time "$(date -d "+$2 seconds" +%T)") >"$log" 2>&1 || code=$?
    took=$(sed -n 's/^Total Test time (real) = *\([0-9.]*\) sec$/\1/p' "$log")
    took=${took:-$2}
    if grep -q '\*\*\*Timeout' "$log"; then outcome=slow
    elif [ "$code" -ne 0 ]; then outcome=failed
    elif grep -q '\*\*\*Skipped\|No tests were found' "$log"; then outcome=skipped
    else outcome=passed
    fi
}

# Seconds and outcome of a test without a mutant; prints nothing if they are not known, or if it was slow and has more time now.
baseline() { awk -F '\t' -v name="$1" -v most="$(echo "$limit $spent" | awk '{ print $1 - $2 }')" '
    $1 == name { last = $2 " " $3; if ($3 == "slow" && $2 < most - 1) last = "" } END { if (last != "") print last }' "$work/baseline"; }

# The tests of a mutant in their order: the tests that match the given expressions, for each expression the fastest first.
order_tests() {
    for expression in "$@"; do
        [ "$expression" != - ] || continue
        cut -f 1 "$work/targets" | grep -E -- "$expression" >"$work/some" || { say "no test is called $expression" >&2; continue; }
        awk -F '\t' -v times="$work/baseline" 'BEGIN { while ((getline < times) > 0) time[$1] = $2 }
            { printf "%s\t%s\n", ($1 in time ? time[$1] : 1), $1 }' "$work/some" | sort -n -s | cut -f 2
    done | awk '!seen[$0]++'
}

# ---- mutants ----

drop_rows() {       # ID: its rows of kills.csv
    awk -F , -v id="$1" '$1 != id' "$kills" >"$work/kills" && cat "$work/kills" >"$kills"
}

finish() {          # RESULT
    before=$(awk -F , -v id="$id" '$1 == id { r = $4 } END { print r }' "$kills")
    drop_rows "$id"
    cat "$work/rows" >>"$kills"
    case $1 in
    killed) ;;
    alive) printf '%s,-,%s,alive\n' "$id" "$spent" >>"$kills"; [ "$before" != killed ] || say "$id: WAS KILLED BEFORE" ;;
    *) printf '%s,-,0,%s\n' "$id" "$1" >>"$kills" ;;
    esac
    say "$id: $1${2:+ by $2}, $spent s of tests"
}

restore() { [ -z "${file-}" ] || cp "$root/$file" "$tree/$file"; }
trap 'restore; exit 130' INT TERM HUP

# Builds the files that the test uses, once for each mutant.
build_for() {       # TEST
    targets=$(awk -F '\t' -v name="$1" '$1 == name { print $2; exit }' "$work/targets")
    case $built in *" $targets;"*) return 0 ;; esac
    # shellcheck disable=SC2086  # targets are words
    cmake --build "$build" --parallel "$jobs" --target $targets >"$log" 2>&1 || return 1
    built="$built $targets;"
}

# Runs a test without a mutant, if it failed or was slow with one and its result without a mutant is not known yet.
try_without() {     # TEST SECONDS
    restore
    built=''
    if build_for "$1"; then run_test "$1" "$2"; else outcome=failed took=0; fi
    printf '%s\t%s\t%s\n' "$1" "$took" "$outcome" >>"$work/baseline"
    [ "$outcome" != passed ] || return 0
    say "$1: $outcome without a mutant: left out"
    "$mutate" apply "$table" "$id" "$tree"
    built=''
    return 1
}

# The tests of the room, first those of the row and the unit test that has the file's name.
tests_of_mutant() {
    own=test_$(basename "$file" | sed 's/\..*//')
    grep -q "^$own$tab" "$work/targets" && own="^$own\$" || own=-
    # shellcheck disable=SC2046  # the room's expressions are words
    order_tests "$own" "$first" $(awk -F '\t' -v room="@$room" '$1 == room { for (i = 2; i <= NF; i++) print $i }' "$table")
}

run_mutant() {
    tests_of_mutant >"$work/order"
    : >"$work/rows"
    spent=0 built=''
    "$mutate" apply "$table" "$id" "$tree" || { finish unfit; return; }
    while IFS= read -r name; do
        known=$(baseline "$name") most=$(echo "$limit $spent" | awk '{ printf "%d", $1 - $2 + 1 }')
        case $known in
        '') ;;
        *passed)
            usual=${known%% *}
            [ "$(echo "$usual $spent $limit" | awk '{ print ($1 + $2 > $3) }')" = 0 ] || continue
            most=$(echo "$usual" | awk '{ printf "%d", 4 * $1 + 20 }') ;;
        *) continue ;;
        esac
        if ! build_for "$name"; then
            grep -m 3 'error' "$log" || tail -n 3 "$log"
            finish invalid
            return
        fi
        run_test "$name" "$most"
        ! grep -q ':[0-9]*:[0-9]*: error: ' "$log" || [ "$outcome" = passed ] || say "$id: $name shows an error of a compiler; is it a mutant that compiles?"
        had=$outcome had_took=$took
        case $known$outcome in
        failed) try_without "$name" 900 || continue ;;
        slow) try_without "$name" "$most" || continue ;;
        esac
        if [ -z "$known" ]; then printf '%s\t%s\t%s\n' "$name" "$took" "$outcome" >>"$work/baseline"
        fi
        [ "$had" != skipped ] || { say "$name: skipped: left out"; continue; }
        spent=$(echo "$spent $had_took" | awk '{ printf "%.2f", $1 + $2 }')
        if [ "$had" = failed ] || [ "$had" = slow ]; then
            printf '%s,%s,%s,killed\n' "$id" "$name" "$had_took" >>"$work/rows"
            finish killed "$name"
            return
        fi
        [ "$(echo "$spent $limit" | awk '{ print ($1 > $2) }')" = 0 ] || break
    done <"$work/order"
    finish alive
}

prepare
awk -F '\t' '/^[^#@]/ { print $1 "\t" $2 "\t" $3 "\t" $7 }' "$table" >"$work/list"
while IFS=$tab read -r id room file first <&3; do
    case $only in ''|"$id"|"$room") ;; *) continue ;; esac
    [ "$again" = yes ] || ! grep "^$id," "$kills" | grep -qv ',not run yet$' || continue
    run_mutant
    restore
    file=
done 3<"$work/list"

# What remains to do: mutants that no test finds and that nobody has explained.
awk -F '\t' 'NR == FNR { split($0, c, ","); result[c[1]] = c[4]; next }
    /^[#@]/ { next }
    result[$1] == "alive" && $8 == "-" { print "ALIVE " $1 " (" $3 ")"; alive++ }
    result[$1] == "invalid" || result[$1] == "unfit" { print "INVALID " $1 " (" $3 ")"; alive++ }
    { n[result[$1] == "" ? "not run yet" : result[$1]]++ }
    END { for (r in n) printf "%s: %d; ", r, n[r]; print ""; exit alive > 0 }' "$kills" "$table"
