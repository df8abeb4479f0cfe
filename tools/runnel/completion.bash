# bash completion for runnel: tasks, then the completion of the task's program
_runnel() {
    local word=${COMP_WORDS[COMP_CWORD]} task=${COMP_WORDS[1]} tasks function
    local -a program
    tasks=$("${COMP_WORDS[0]}" --tasks 2>/dev/null)
    COMPREPLY=()
    if ((COMP_CWORD == 1)) || [[ $task == help && $COMP_CWORD == 2 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "help -t --tasks -h --help -V --version
            $(cut -f 1 <<<"$tasks")" -- "$word")
        return
    fi
    read -ra program < <(awk -F '\t' -v task="$task" '$1 == task { print $2 }' <<<"$tasks")
    [[ ${program[0]} ]] || return
    function=_${program[0]//-/_}
    declare -F "$function" >/dev/null || source "${BASH_SOURCE[0]%/*}/${program[0]}" || return
    COMP_WORDS=("${program[@]}" "${COMP_WORDS[@]:2}")
    ((COMP_CWORD += ${#program[@]} - 2))
    "$function" "${program[0]}" "$word" "${COMP_WORDS[COMP_CWORD - 1]}"
}
complete -F _runnel runnel
