#!/bin/sh
# run_grammar.sh FORGEC MODEL LIBSIMT -- the bundled model guided by grammars, schemas and choices, on this CPU and on lanes: the text
# satisfies them, and is the same for the same seed.
forgec=$1 model=$2 here=$(cd "$(dirname "$0")" && pwd)
. "$here/../harness.sh"
export FORGE_HIP_LIBRARY="$3"
schema='{"type":"object","properties":{"name":{"type":"string","minLength":2,"maxLength":12},"age":{"type":"integer","minimum":1,"maximum":99},
"mood":{"enum":["happy","sad"]}},"required":["name","age","mood"]}'
form='^\{[[:space:]]*"name": ?"[^"]{2,12}",[[:space:]]*"age": ?[1-9][0-9]?,[[:space:]]*"mood": ?"(happy|sad)"[[:space:]]*\}$'

# written PATTERN: the whole last output as one line matches
written() { tr '\n' ' ' < "$tmp/out" | grep -qE -e "$1" || bad "'$(cat "$tmp/out")' is not $1"; }

# guided PROGRAM SEED OPTIONS...: twice, into out
guided() {
    program=$1 seed=$2
    shift 2
    check "$program, seed $seed" 0 "$program" -p "Once upon a time" -n 80 -s "$seed" -q "$@"
    err_empty
    cp "$tmp/out" "$tmp/first"
    check "$program, seed $seed" 0 "$program" -p "Once upon a time" -n 80 -s "$seed" -q "$@"
    same "$tmp/first" "$tmp/out"
}

cd "$tmp" || exit 1
printf '%s' "$schema" > schema.json
printf 'root ::= noun (" and " noun)* "."\nnoun ::= "the " [a-z]{2,8} # one\n' > list.gbnf
check cpu 0 "$forgec" build "$model" -q --ctx 256 -o cpu
check lanes 0 "$forgec" build "$model" -q --ctx 256 -t "$here/../lanes/simt32.yaml" -o lanes
guided ./cpu 7 -j "$schema"; written "$form"
guided ./cpu 8 --temp 0 --json-schema-file schema.json; written "$form"
guided ./cpu 9 --grammar-file list.gbnf --temp 1.5; written '^(the [a-z]{2,8} and )*the [a-z]{2,8}\.$'
guided ./lanes 10 --choice "in the wood" --choice "at sea" --choice "x"; written '^(in the wood|at sea|x)$'
check "lanes" 0 ./lanes -p "Once" -n 80 -s 7 -q -j "$schema"; written "$form"          # slow: once
for seed in 1 2 3 4 5 6; do
    guided ./cpu $seed --json-schema-file schema.json --temp 2 --top-k 0 --top-p 1 --min-p 0; written "$form"
    guided ./cpu $seed -j '{"type":"array","items":{"type":"number","minimum":0,"maximum":1},"minItems":1,"maxItems":3}' --temp 1.5
    written '^\[[[:space:]]*(0(\.[0-9]+)?|1(\.0+)?)(,[[:space:]]*(0(\.[0-9]+)?|1(\.0+)?)){0,2}[[:space:]]*\]$'
done
check "cut off" 0 ./cpu -p "Once" -n 6 -s 3 -q -G 'root ::= [a-z ]{300}'; written '^[a-z ]{6,}$'

# a chat: every answer from the beginning
stdin=lines
printf 'Once\nThen\n' > lines
check chat 0 ./cpu -i -n 40 -q --choice "a fox" --choice "a hen"
stdin=
[ "$(grep -cE '^a (fox|hen)$' out)" -eq 2 ] || bad "two answers wanted"

# a grammar that was built into the program
check built-in 0 "$forgec" build "$model" -q --ctx 256 --json-schema schema.json -o schema
check built-in 0 "$forgec" build "$model" -q --ctx 256 --grammar list.gbnf --static -o list
guided ./schema 7; written "$form"
guided ./list 9 --temp 1.5; written '^(the [a-z]{2,8} and )*the [a-z]{2,8}\.$'
guided ./schema 7 --choice "in the wood" --choice x; written '^(in the wood|x)$'
check info 0 ./list --info; out_has "grammar  "
check info 0 ./cpu --info; out_lacks "grammar  "
printf 'root ::= a\n  b\n' > wrong.gbnf
refuse "wrong file" 1 "wrong.gbnf:2:4: expected ::= after the name of a rule" "$forgec" build "$model" -q --grammar wrong.gbnf -o none
printf '{"properties":{"a":{"not":{"const":1}}}}' > wrong.json
refuse "wrong schema" 1 "wrong.json: #/properties/a: 'not' is a keyword" "$forgec" build "$model" -q --json-schema wrong.json -o none
refuse "both" 1 "--grammar cannot be combined with --json-schema" "$forgec" build "$model" -q --json-schema schema.json --grammar list.gbnf -o none
refuse "no program" 1 "are for programs" "$forgec" build "$model" -q --json-schema schema.json --emit source -o none

refuse "two at once" 2 "only one of --grammar, --json-schema" ./cpu -p a -G 'root ::= "a"' --choice b
refuse "no grammar" 2 "--grammar: line 1, column 10: this rule is not defined: 'x'" ./cpu -p a -G 'root ::= x'
refuse "no schema" 2 "--json-schema: #/properties/a: 'not' is a keyword that is not enforced" ./cpu -p a -j '{"properties":{"a":{"not":{"const":1}}}}'
refuse "no file" 1 "none.gbnf" ./cpu -p a --grammar-file none.gbnf
refuse "never ends" 2 "--ignore-eos" ./cpu -p a --choice b --ignore-eos
refuse "not for speed" 2 "can only be used with a prompt or with -i" ./cpu --perplexity -p a --choice b
first=$(./cpu --tokenize -p a --no-parse-special | tr ' ' '\n' | tail -n 1)
refuse "nothing left" 1 "the logit biases exclude every token" ./cpu -p a -G "root ::= <[$first]>" -l "$first-inf" --temp 0
summary
