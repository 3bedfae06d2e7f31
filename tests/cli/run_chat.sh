#!/bin/sh
# run_chat.sh FORGEC MODEL.gguf -- conversations by a chat template, of a model with a tokenizer and without a template.
set -u
[ $# -eq 2 ] || { echo "usage: $0 FORGEC MODEL.gguf" >&2; exit 2; }
forgec=$1 model=$2
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

# The text of a turn, and of the next one behind it, is that of the prompt written by hand.
check first 0 ./story -q -n 8 --temp 0 -p 'Once upon a time
She'
first=$(cat out)
printf 'upon a time\n' > turns
stdin=turns; check one-turn 0 ./story -q -i -n 8 --temp 0; out_is "$first"; err_empty
stdin=; check second 0 ./story -q -n 8 --temp 0 -p "Once upon a time
$(echo "$first" | sed 's/^ *//; s/ *$//')
Once more
She"
second=$(cat out)
printf 'upon a time\nmore\n' > turns
stdin=turns; check two-turns 0 ./story -i -n 8 --temp 0; out_is "$first
$second"
stdin=; check system 0 ./story -q -n 8 --temp 0 -p 'Be kind
Once upon
She'
text=$(cat out)
check system-message 0 ./story -q -i -st -n 8 --temp 0 -sys 'Be kind' -p upon; out_is "$text"
check option 0 ./story -q -n 8 --temp 0 -p 'Twice upon
She'
text=$(cat out)
check kwargs 0 ./story -q -i -st -n 8 --temp 0 --chat-template-kwargs '{"opening": "Twice"}' -p upon; out_is "$text"

# What a user writes is no special token: <s> in a turn begins nothing.
check marker 0 ./story -q -n 8 --temp 0 --no-parse-special -p 'Once <s>
She'
text=$(cat out)
check marker-of-user 0 ./story -q -i -st -n 8 --temp 0 -p '<s>'; out_is "$text"

# What the template refuses: at once, or a turn of a conversation.
refuse raised 1 "the chat template refuses this: nothing here" ./story -q -i -p x --chat-template-kwargs '{"kind": "here"}'
printf 'upon a time\nrefuse\nmore\n' > turns
stdin=turns; check raised-later 0 ./story -q -i -n 8 --temp 0; err_has "the chat template refuses this: not this"; one_line
out_is "$first
$second"
stdin=

# A conversation that fills the context begins anew.
for i in 1 2 3 4 5 6 7 8; do echo "upon a time $i"; done > turns
stdin=turns; check full 0 ./story -q -i -n 8 --temp 0 -c 60; err_has "the conversation starts over"
[ "$(wc -l < out)" -eq 8 ] || bad "eight answers wanted"
stdin=

# Reasoning that the prompt has opened and nothing has closed: the template gets it as such, and no content.
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
