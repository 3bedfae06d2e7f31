#!/bin/sh
# run_chat.sh FORGEC MODEL.gguf TEST_TERMINAL -- conversations with a chat template; the model has a tokenizer and no template.
set -u
[ $# -eq 3 ] || { echo "usage: $0 FORGEC MODEL.gguf TEST_TERMINAL" >&2; exit 2; }
forgec=$1 model=$2 terminal=$3
. "$(dirname "$0")/../harness.sh"
cd "$tmp" || exit 2

cat > template <<'END'
{%- if kind is defined %}{{ raise_exception('nothing ' ~ kind) }}{% endif -%}
{{ bos_token }}{%- for m in messages %}
{%- if m.role == 'system' %}{{ m.content }}
{% elif m.role == 'user' %}
{%- if m.content == 'refuse' %}{{ raise_exception('not this') }}{% endif -%}
{{ opening|default('Once') }} {{ m.content }}
{% else %}{{ m.content|trim }}
{% endif %}{% endfor %}
{%- if add_generation_prompt %}She{% endif %}
END
check build 0 "$forgec" build "$model" -q --chat-template template -o story; err_empty
check info 0 ./story --info; out_has "chat template  $(wc -c < template | tr -d ' ') bytes, XXH3 "

# The text of a turn, and of the next turn, equals the text of the prompt written by hand.
check first 0 ./story -q -no-cnv -n 8 --temp 0 -p 'Once upon a time
She'
first=$(cat out)
printf 'upon a time\n' > turns
stdin=turns; check one-turn 0 ./story -q -i -n 8 --temp 0; out_is "$first"; err_empty
stdin=; check second 0 ./story -q -no-cnv -n 8 --temp 0 -p "Once upon a time
$(echo "$first" | sed 's/^ *//; s/ *$//')
Once more
She"
second=$(cat out)
printf 'upon a time\nmore\n' > turns
stdin=turns; check two-turns 0 ./story -i -n 8 --temp 0; out_is "$first
$second"
stdin=; check system 0 ./story -q -no-cnv -n 8 --temp 0 -p 'Be kind
Once upon
She'
kind=$(cat out)
check system-message 0 ./story -q -i -st -n 8 --temp 0 -sys 'Be kind' -p upon; out_is "$kind"
check option 0 ./story -q -no-cnv -n 8 --temp 0 -p 'Twice upon
She'
text=$(cat out)
check kwargs 0 ./story -q -i -st -n 8 --temp 0 --chat-template-kwargs '{"opening": "Twice"}' -p upon; out_is "$text"

# With a template a program chats by itself, as llama-cli does: -p is the first turn, and lines of stdin are the next ones.
printf 'upon a time\nmore\n' > turns; printf 'more\n' > rest
stdin=turns; check by-itself 0 ./story -q -n 8 --temp 0; out_is "$first
$second"; err_empty
stdin=rest; check by-itself-prompt 0 ./story -q -n 8 --temp 0 -p 'upon a time'; out_is "$first
$second"
check by-itself-single 0 ./story -q -st -n 8 --temp 0 -p 'upon a time'; out_is "$first"
stdin=; check by-itself-system 0 ./story -q -n 8 --temp 0 -sys 'Be kind' -p upon; out_is "$kind"
check no-chat 0 ./story -q -n 8 --temp 0 --echo -p 'Once upon a time
She'; out_is "Once upon a time
She$first"
refuse no-cnv-system 2 "--system-prompt can only be used in a chat" ./story -no-cnv -sys x -p y
refuse both 2 "-i cannot be combined with -no-cnv" ./story -i -no-cnv -p y

# Options of the maker: checked when the program is built, and the command line comes before them.
wrong() { refuse "default-$1" 1 "--default: $2" "$forgec" build "$model" -q --chat-template template -o never --default "$3"; }
wrong unknown "unknown option --nonsense" "--nonsense 1"
wrong value "--temp: 'warm' is not a number" "--temp warm"
wrong quote "a quotation mark is not closed" "-sys 'Be kind"
wrong server "--port: this program has no server" "--port 8080"
wrong measure "only options of texts, chats and servers can be defaults" "--bench"
wrong logits "only options of texts, chats and servers can be defaults" "-no-cnv --logits x"
wrong context "-c 999999 is more than the context of" "-c 999999"
wrong ignored "-ngl has no effect in a program" "-ngl 99"
[ ! -e never ] || bad "a program with wrong options"
check default-build 0 "$forgec" build "$model" -q --chat-template template -o made --default "-sys 'Be kind' -n 8" --default '--temp 0 -q'; err_empty
check default 0 ./made -p upon; out_is "$kind"; err_empty
check default-info 0 ./made --info; out_has "defaults       -sys 'Be kind' -n 8 --temp 0 -q"
check default-replaced 0 ./made -sys 'Be quick' -p upon; cp out replaced; check as-given 0 ./story -q -n 8 --temp 0 -sys 'Be quick' -p upon; same replaced out
check default-plain 0 ./made -no-cnv -p 'Once upon a time
She'; out_is "$first"
check default-none 0 ./made --no-default -q -st -n 8 --temp 0 -p 'upon a time'; out_is "$first"
check default-bench 0 ./made --bench -p 4 -n 4 -r 1 -o csv; out_has "4"

# Text of a user is never a special token: <s> in a turn begins nothing.
check marker 0 ./story -q -n 8 --temp 0 --no-parse-special -p 'Once <s>
She'
text=$(cat out)
check marker-of-user 0 ./story -q -i -st -n 8 --temp 0 -p '<s>'; out_is "$text"

# Refusals of the template: at the start, or in a turn of a conversation.
refuse raised 1 "the chat template refuses this: nothing here" ./story -q -i -p x --chat-template-kwargs '{"kind": "here"}'
printf 'upon a time\nrefuse\nmore\n' > turns
stdin=turns; check raised-later 0 ./story -q -i -n 8 --temp 0; err_has "the chat template refuses this: not this"; one_line
out_is "$first
$second"
stdin=

# A conversation that fills the context starts again.
for i in 1 2 3 4 5 6 7 8; do echo "upon a time $i"; done > turns
stdin=turns; check full 0 ./story -q -i -n 8 --temp 0 -c 60; err_has "the conversation starts over"
[ "$(wc -l < out)" -eq 8 ] || bad "eight answers wanted"
stdin=

# A saved conversation continues as if it had not ended, and its text is not read again.
printf 'upon a time\n' > one; printf 'more\n' > two
stdin=one; check save 0 ./story -i -n 8 --temp 0 -sys 'Be kind' --save kept; err_has "kept: 3 messages saved"
[ "$(stat -c %a kept)" = 600 ] || bad "others may read it"
cp kept first-kept
stdin=two; check save-again 0 ./story -i -n 8 --temp 0 --save kept; err_has "kept: 3 messages, "; err_has "kept: 5 messages saved"; rest=$(cat out)
read_again=$(sed -n 's/^prompt \([0-9]*\) tokens.*/\1/p' err)
printf 'upon a time\nmore\n' > turns
stdin=turns; check unsaved 0 ./story -i -n 8 --temp 0 -sys 'Be kind'; [ "$(tail -n +2 out)" = "$rest" ] || bad "another text"
read_all=$(sed -n 's/^prompt \([0-9]*\) tokens.*/\1/p' err)
[ "$read_again" -lt "$read_all" ] || bad "$read_again tokens read again, $read_all in all"
stdin=two; check load 0 ./story -q -i -n 8 --temp 0 --load first-kept; out_is "$rest"; err_empty
stdin=two; check load-system 0 ./story -q -i -n 8 --temp 0 --load first-kept -sys 'Be quick'; err_empty
stdin=two; check load-short 0 ./story -q -i -n 8 --temp 0 --load kept -c 25; err_has "shorter than when it was saved"
# Nothing is read from a damaged file, and no other file is replaced.
head -c 100 kept > cut; refuse load-cut 1 "cut is damaged: it ends early" ./story -i --load cut
head -c 20000 kept > cut; check load-cut-states 0 ./story -q -i -n 8 --temp 0 --load cut; err_has "cut: its prompt cache is damaged: the conversation is read again"; one_line
{ head -c 90 kept; printf X; tail -c +92 kept; } > bad; refuse load-bad 1 "bad is damaged" ./story -i --load bad
refuse load-none 1 "cannot open none: No such file" ./story -i --load none
refuse load-other 1 "two is not a saved conversation" ./story -i --load two
refuse load-folder 1 ". is not a saved conversation" ./story -i --load .
refuse save-other 1 "--save: two is not a saved conversation" ./story -i --save two
refuse save-nowhere 7 "--save: none/x cannot be written" ./story -i --save none/x
refuse save-alone 2 "can only be used in a chat (-i)" ./story -no-cnv -p x --save kept
: > empty; check save-empty 0 ./story -q -i -n 8 --temp 0 --save empty; [ -s empty ] || bad "nothing was saved"
stdin=; cp kept before; check save-nothing 0 ./story -q -i --save new; [ ! -e new ] || bad "a conversation of nothing"
if [ -c /dev/full ]; then ln -s /dev/full full; stdin=one; refuse save-full 1 "is not a saved conversation" ./story -i --save full; fi
stdin=
check plain-build 0 "$forgec" build "$model" -q -o plain; refuse plain 2 "--save: this program has no chat template" ./plain -i --save x
# The same at a terminal.
check terminal 0 "$terminal" "$tmp/story" template

# Reasoning that the prompt has begun and that does not end: the template receives it as reasoning, without content.
cat > thinking <<'END'
{% for m in messages %}{% if m.role == 'assistant' %}
{%- if m.reasoning_content is undefined or not m.reasoning_content %}{{ raise_exception('no reasoning') }}{% endif %}
{%- if m.content %}{{ raise_exception('content: ' ~ m.content) }}{% endif %}
{%- endif %}{{ m.content }} {% endfor %}{% if add_generation_prompt %}<think>{% endif %}
END
check thinking-build 0 "$forgec" build "$model" -q --chat-template thinking -o thinker
printf 'Once\nAgain\n' > turns
stdin=turns; check thinking 0 ./thinker -q -i -n 8 --temp 0; err_empty
stdin=

# Templates that cannot be compiled.
printf 'a\n{%% include "x" %%}' > bad; refuse tag 1 "bad:2: --chat-template: the tag {% include %} is not supported" "$forgec" build "$model" -q --chat-template bad -o x
printf '{{ x|nosuch }}' > bad; refuse filter 1 "bad:1: --chat-template: the filter 'nosuch' is not supported" "$forgec" build "$model" -q --chat-template bad -o x
printf '{%% if x %%}{{ x|nosuch }}{%% endif %%}{{ messages[0].content }}' > soft
check branch 0 "$forgec" build "$model" -q --chat-template soft -o soft-story; err_has "line 1: the filter 'nosuch' is not supported"; one_line
refuse reached 1 "the chat template fails: the filter 'nosuch' is not supported" ./soft-story -q -i -p x --chat-template-kwargs '{"x": 1}'
refuse missing 1 "none" "$forgec" build "$model" -q --chat-template none -o x
summary
