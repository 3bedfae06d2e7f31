# bash completion for forgec
# The last word of a list "a,b,c" becomes one of these.
_forgec_list()
{
    local before=
    [[ $cur != *,* ]] || before=${cur%,*},
    COMPREPLY=($(compgen -P "$before" -W "$*" -- "${cur##*,}"))
}
_forgec()
{
    local cur prev command word
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    command=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            build|compare|tune|verify|inspect|targets|models|formats|cc) command=$word; break ;;
        esac
    done
    case $prev in
        --emit)        word="exe source asm plan graph obj lib shared"; [[ $command != cc ]] || word="exe asm"
                       COMPREPLY=($(compgen -W "$word" -- "$cur")); return ;;
        --fuse)        _forgec_list none layer; return ;;
        --weights)     COMPREPLY=($(compgen -W "embed external none" -- "$cur")); return ;;
        --pre)         COMPREPLY=($(compgen -W "model llama.cpp" -- "$cur")); return ;;
        --kv)          _forgec_list f16 f32 q8_0; return ;;
        --split)       _forgec_list tensor layer; return ;;
        -t|--target)   _forgec_list native $(forgec targets --names 2>/dev/null); COMPREPLY+=($(compgen -f -X '!*.yaml' -- "$cur")); return ;;
        --save-temps|--templates|--targets|--models) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        -o|--output)   COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --format)      COMPREPLY=($(compgen -W "md json html" -- "$cur")); return ;;
        --clang|--source|--plan|--tuned|--chat-template|--grammar|--json-schema) COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --ctx|--threads|--prefix|--sample|--tokens|--seed|--min-time|--on|--minutes|--candidates|--ignore-key|--ignore-tensor|--default|-j|--jobs|-p|-n|-r|-d) return ;;
    esac
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "build compare tune verify inspect targets models formats cc --help --version" -- "$cur"))
        return
    fi
    if [[ $cur == -* ]]; then
        local make="--help --templates --targets --models -t --target --fuse --ctx --kv --gpus --split --columns --spec --threads --exact --fast-bf16 --static --allow-spills --save-temps --clang --no-cache --ignore-key --ignore-tensor -j -v"
        case $command in
            build)   COMPREPLY=($(compgen -W "$make --server --grammar --json-schema --default --plan --tuned -o --emit --prefix --weights --chat-template --pre --kernel-tests -### -q --quiet" -- "$cur")) ;;
            cc)      COMPREPLY=($(compgen -W "$make --server --grammar --json-schema --default --plan --tuned -o --emit --weights -### -q --quiet" -- "$cur")) ;;
            verify)  COMPREPLY=($(compgen -W "$make --plan --tuned --simulate --source --tokens --seed --json" -- "$cur")) ;;
            compare) COMPREPLY=($(compgen -W "$make --plan --tuned --source -o --format --simulate --sample -p -n -r --min-time" -- "$cur")) ;;
            tune)    COMPREPLY=($(compgen -W "$make -o --on --minutes -d -p -r --candidates" -- "$cur")) ;;
            inspect) COMPREPLY=($(compgen -W "--help --json -t --target --targets" -- "$cur")) ;;
            targets) COMPREPLY=($(compgen -W "--help --names --print --targets" -- "$cur")) ;;
            models)  COMPREPLY=($(compgen -W "--help --print --models" -- "$cur")) ;;
            *)       COMPREPLY=($(compgen -W "--help" -- "$cur")) ;;
        esac
        return
    fi
    case $command in
        cc)      COMPREPLY=($(for word in c C hip gguf; do compgen -f -X "!*.$word" -- "$cur"; done) $(compgen -d -- "$cur")) ;;
        targets) COMPREPLY=($(compgen -W "$(forgec targets --names 2>/dev/null)" -- "$cur")) ;;
        models)  COMPREPLY=($(compgen -W "$(forgec models 2>/dev/null)" -- "$cur")) ;;
        formats) ;;
        *)       COMPREPLY=($(compgen -f -X '!*.gguf' -- "$cur") $(compgen -d -- "$cur")) ;;
    esac
}
complete -o filenames -F _forgec forgec
