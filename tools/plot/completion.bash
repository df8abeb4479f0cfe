# bash completion for runnel-plot, maintained manually
_runnel_plot() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    COMPREPLY=()
    case $before in
    -x | --axis) mapfile -t COMPREPLY < <(compgen -W 'examples steps time data-time' -- "$word"); return ;;
    -r | --run | -y | --column | --histogram | --from | --to | --smooth | --label | --title | --size | --dpi | --points | --stream | --ahead | --measure) return ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '-o --output -r --run -l --list -y --column --histogram -x --axis --from --to
            --log --log-x --smooth --band --events --label --title --size --dpi --points --stream --ahead --html --tensorboard --measure -h --help -V --version' -- "$word")
        return
    fi
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -F _runnel_plot runnel-plot
