# as_plain.sh -- functions of the tests of speculation; sourced after harness.sh.  Programs must give the same text with and without speculation.
# shellcheck shell=sh
prompt="1,2,3,4,5,1,2,3,4,5,1,2"

# enough LEAST: at least LEAST drafts of the last check were accepted
enough() {
    accepted=$(sed -n 's/.*, \([0-9]*\) of [0-9]* drafts accepted.*/\1/p' "$tmp/err")
    [ "${accepted:--1}" -ge "$1" ] || bad "accepted ${accepted:-none}, wanted at least $1"
}
# as_plain LEAST PROGRAM OPTIONS...: compares both texts; at least LEAST drafts are accepted
as_plain() {
    least=$1 program=$2
    shift 2
    name="$program $*"
    "$program" --tokens "$prompt" --print-tokens --ignore-eos --spec none "$@" > plain 2> "$tmp/err" || bad "$(cat "$tmp/err")"
    check "$name" 0 "$program" --tokens "$prompt" --print-tokens --ignore-eos "$@"
    cmp -s plain "$tmp/out" || bad "another text: $(cmp plain "$tmp/out")"
    enough "$least"
}
printf 'one two\nthree\none two\nfour\n' > turns
# chat_as_plain LEAST PROGRAM OPTIONS...: turns that end within a step; the next turn continues from there
chat_as_plain() {
    least=$1 program=$2
    shift 2
    for spec in none ''; do
        stdin=turns check "chat $program $*" 0 "$program" -i -n 40 -s 1 --temp 0.8 -l 70+40 -l 71+38 --ignore-eos ${spec:+--spec "$spec"} "$@"
        cp "$tmp/out" "chat.${spec:-drafts}"
    done
    cmp -s chat.none chat.drafts || bad "another chat"
    enough "$least"
}
# stop_as_plain WORD PROGRAM [BIAS]: a text that ends within a step, at the word; BIAS: the bias of G, so that F and G alternate
stop_as_plain() {
    for spec in none ''; do
        check "stop $2" 0 "$2" -p "one two one two" -n 60 -s 1 --temp 0.8 -l 70+40 -l "71+${3-39}" --ignore-eos -r "$1" ${spec:+--spec "$spec"}
        cp "$tmp/out" "stop.${spec:-drafts}"
    done
    [ "$(tail -c ${#1} stop.none)" = "$1" ] && cmp -s stop.none stop.drafts || bad "another end"
}
