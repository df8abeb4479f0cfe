# bash completion for runnel-evaluate, maintained manually
_runnel_evaluate() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    case $before in
    -r | --rivals) mapfile -t COMPREPLY < <(compgen -W 'seasonal ar var snarimax holt-winters arf none' -- "$word"); return ;;
    -s | --set | -p | --period | -n | --count | --time-format | --columns | --known | --missing) return ;;
    *.yaml | *.yml) mapfile -t COMPREPLY < <(compgen -W 'text csv idx host synth json' -- "$word"); return ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '-s --set -p --period -e --experts -r --rivals -n --count
            --time-format --columns --known --missing -o --plot -j --json -h --help -V --version' -- "$word")
        return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -F _runnel_evaluate runnel-evaluate
