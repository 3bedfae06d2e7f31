# bash completion for forgec
_forgec()
{
    local cur prev command word
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD-1]}
    COMPREPLY=()
    command=
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            build|compare|verify|inspect|targets|models|formats|cc) command=$word; break ;;
        esac
    done
    case $prev in
        --emit)        COMPREPLY=($(compgen -W "exe source asm plan graph obj lib shared" -- "$cur")); return ;;
        --fuse)        COMPREPLY=($(compgen -W "none layer" -- "$cur")); return ;;
        --weights)     COMPREPLY=($(compgen -W "embed external none" -- "$cur")); return ;;
        --kv)          COMPREPLY=($(compgen -W "f16 f32 q8_0" -- "$cur")); return ;;
        -t|--target)   COMPREPLY=($(compgen -W "native $(forgec targets --names 2>/dev/null)" -- "$cur")); return ;;
        --save-temps|--templates|--targets|--models) COMPREPLY=($(compgen -d -- "$cur")); return ;;
        -o|--clang)    COMPREPLY=($(compgen -f -- "$cur")); return ;;
        --ctx|--threads|--prefix|-j) return ;;
    esac
    if [[ -z $command ]]; then
        COMPREPLY=($(compgen -W "build compare verify inspect targets models formats cc --help --version" -- "$cur"))
        return
    fi
    if [[ $cur == -* ]]; then
        local common="--help --templates --targets --models"
        local make="-t --target --fuse --ctx --kv --threads --exact --static --allow-spills --save-temps --clang --no-cache -j -v -###"
        case $command in
            build)   COMPREPLY=($(compgen -W "$common $make -o --emit --prefix --weights" -- "$cur")) ;;
            cc)      COMPREPLY=($(compgen -W "$common $make -o --weights" -- "$cur")) ;;
            verify)  COMPREPLY=($(compgen -W "$common $make --simulate --tokens --seed --json" -- "$cur")) ;;
            compare) COMPREPLY=($(compgen -W "$common $make --simulate -p -n -r --json" -- "$cur")) ;;
            inspect) COMPREPLY=($(compgen -W "--help --json" -- "$cur")) ;;
            *)       COMPREPLY=($(compgen -W "--help" -- "$cur")) ;;
        esac
        return
    fi
    case $command in
        cc) COMPREPLY=($(compgen -f -X '!*.[cC]' -- "$cur") $(compgen -d -- "$cur")) ;;
        *)  COMPREPLY=($(compgen -f -X '!*.gguf' -- "$cur") $(compgen -d -- "$cur")) ;;
    esac
}
complete -o filenames -F _forgec forgec
