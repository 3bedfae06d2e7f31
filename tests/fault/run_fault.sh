#!/bin/sh
# run_fault.sh FORGEC LIBFAULT DATA -- the n-th call of a function of the C library fails (fault.c), for n from 1 to 60, in a build, in the
# build of a library and in a program.  Each time, either the exit code is documented, stderr has one line, no other file is left beside the product
# and the product is unchanged; or the command succeeds and the product is right.  Then signals, and files that are cut short during a build.
# DATA: tests/data/golden.  full: every n, also calls whose failure only makes forgec compile again without its cache, and more processes of the
# compiler; these take seconds each.
forgec=$1 library=$2 data=$3
model=$data/q-llama-Q8_0.gguf other=$data/q-llama-Q4_0.gguf
unset FORGE_PROGRAM FAULT FAULT_ACTION
. "$(dirname "$0")/../harness.sh"
fault() { LD_PRELOAD=$library FAULT_FIRED=$tmp/fired "$@"; }
# is SET: every file here equals the file of the set ($tmp/old, $tmp/good)
is() { for f in $files; do cmp -s "$f" "$tmp/$1/$f" || return 1; done; }
# stderr has one line, from the program $1
line_of() {
    lines=0
    while IFS= read -r line; do
        lines=$((lines + 1))
        case $line in "$1: "?*) ;; *) bad "not a line of $1" ;; esac
    done < "$tmp/err"
    [ $lines -eq 1 ] || bad "$lines lines on stderr"
}
nothing_left() { [ "$(echo *)" = "$files" ] || { bad "files: $(echo *)"; reset; }; }
reset() { rm -rf ./*; cp "$tmp/old"/* .; }

# judge WHO CODES: checks a run that ended with $code; CODES: the allowed codes of an error.  $whole: old or new files, if an error may come after the product
judge() {
    nothing_left
    case " $2 " in
    *" $code "*)
        line_of "$1"
        is old && return
        [ "$whole" = either ] && is good || bad "what was there has changed" ;;
    *)
        [ "$code" -eq 0 ] || bad "exit code $code"
        grep -qv "^$1: warning: " "$tmp/err" && bad "a message, and $code"
        is good || bad "success, and the product is not right" ;;
    esac
    reset
}

# sweep WHO CODES COMMAND...: runs the command with FAULT for every function and n
sweep() {
    who=$1 codes=$2
    shift 2
    for function in malloc late open read write rename mmap stat close fork; do
        n=0 step=1
        while [ $((n += step)) -le 60 ]; do
            case $full$who,$function in
            forgec,open|forgec,mmap|forgec,write) [ $n -lt 8 ] || step=6 ;;
            forgec,malloc|forgec,late) [ $n -lt 8 ] || step=4 ;;
            forgec,read|forgec,close) [ $n -le 4 ] || break ;;
            forgec,stat) [ $n -le 2 ] || break ;;                # calls for the cache's folders and for clang: everything would be compiled again
            esac
            name="$what, $function $n"
            rm -f "$tmp/fired"
            fault env FAULT_IN="$who" FAULT=$function:$n "$@" > "$tmp/out" 2> "$tmp/err" < /dev/null
            code=$?
            [ -e "$tmp/fired" ] || { reset; break; }
            tests=$((tests + 1))
            judge "$who" "$codes"
        done
    done
}

# setup WHAT: makes $tmp/old and $tmp/good from two models, and a directory with the old files
setup() {
    what=$1
    shift
    rm -rf "$tmp/old" "$tmp/good" "$tmp/w"
    mkdir "$tmp/old" "$tmp/good" "$tmp/w"
    (cd "$tmp/old" && "$forgec" build "$other" -q "$@") && (cd "$tmp/good" && "$forgec" build "$model" -q "$@") || exit 1
    cd "$tmp/w" || exit 1
    reset
    files=$(echo *)
    whole=
}

setup program --weights external -o p
sweep forgec 1 "$forgec" build "$model" -q --weights external -o p

# a signal before a call: all files are old, or all are new
whole=either
for call in write:1 write:2 write:3 rename:1 rename:2 rename:3 rename:4; do
    for signal in 1 2 15; do
        name="build, signal $signal at $call"
        rm -f "$tmp/fired"
        fault env FAULT_IN=forgec FAULT=$call FAULT_ACTION=signal:$signal "$forgec" build "$model" -q --weights external -o p > "$tmp/out" 2> "$tmp/err"
        code=$?
        [ -e "$tmp/fired" ] || { reset; continue; }
        tests=$((tests + 1))
        [ $code -eq $((128 + signal)) ] || bad "exit code $code"
        nothing_left
        is old || is good || bad "neither the old nor the new product"
        reset
    done
done

# the model's file is cut short while it is packed
whole=
for jobs in 1 4; do
    name="build, model cut short, $jobs jobs"
    cp "$model" "$tmp/m.gguf"
    rm -f "$tmp/fired"
    fault env FAULT_IN=forgec FAULT=write:2 FAULT_ACTION=truncate:"$tmp/m.gguf" "$forgec" build "$tmp/m.gguf" -j $jobs -q --weights external -o p > "$tmp/out" 2> "$tmp/err"
    code=$?
    [ -e "$tmp/fired" ] && [ $code -eq 1 ] || bad "exit code $code"
    judge forgec 1
    grep -q "m.gguf: cannot be read any more" "$tmp/err" || bad "another reason"
done

# if the compiler cannot be asked for its version, no other linker or clang replaces it
for n in 1 2; do
    name="clang, process $n"
    fault env FAULT_IN=forgec FAULT=fork:$n "$forgec" build "$model" -q --no-cache --emit source -o p > "$tmp/out" 2> "$tmp/err"
    code=$?
    [ $code -eq 1 ] || bad "exit code $code"
    judge forgec 1
done
if [ "$full" ]; then
    for n in 3 5 20 40; do
        name="clang, process $n"
        fault env FAULT_IN=forgec FAULT=fork:$n "$forgec" build "$model" -q --no-cache --weights external -o p > "$tmp/out" 2> "$tmp/err"
        code=$?
        judge forgec 1
    done
fi

setup library --weights external --emit lib -o libmodel.a
sweep forgec 1 "$forgec" build "$model" -q --weights external --emit lib -o libmodel.a

# a program that writes logits
setup run --weights external -o p
"$tmp/good/p" -q --tokens 1,2,3 -n 4 --temp 0 --print-tokens --logits "$tmp/good/logits" > "$tmp/text" || exit 1
echo old > "$tmp/old/logits"
cp "$tmp/good/p" "$tmp/good/p.weights" "$tmp/old"
reset
files=$(echo *)
whole=either
sweep p "1 4 5 7" ./p -q --tokens 1,2,3 -n 4 --temp 0 --print-tokens --logits logits -t 2
for signal in 1 15; do
    name="run, signal $signal"
    fault env FAULT_IN=p FAULT=write:1 FAULT_ACTION=signal:$signal ./p -q --tokens 1,2,3 -n 4 --print-tokens --logits logits > "$tmp/out" 2> "$tmp/err"
    code=$?
    [ $code -eq $((128 + signal)) ] || bad "exit code $code"
    nothing_left
    is old || bad "what was there has changed"
done
for threads in 1 2; do
    name="run, weights cut short, $threads threads"
    rm -f "$tmp/fired"
    fault env FAULT_IN=p FAULT=write:1 FAULT_ACTION=truncate:p.weights ./p -q --tokens 1,2,3 -n 4 --print-tokens --logits logits -t $threads > "$tmp/out" 2> "$tmp/err"
    code=$?
    cp "$tmp/good/p.weights" .
    [ -e "$tmp/fired" ] && [ $code -eq 4 ] || bad "exit code $code"
    judge p 4
    grep -q "p.weights" "$tmp/err" || bad "the file is not named"
done

name="all faults"
[ $tests -gt 150 ] || bad "only $tests of them"
summary faults
