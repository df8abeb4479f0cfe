#compdef runnel
# zsh completion: tasks, then what the program of a task completes
local curcontext=$curcontext state line task
local -a tasks program
tasks=("${(@f)$(${words[1]} --tasks 2>/dev/null)}")
_arguments -C \
    '(-t --tasks)'{-t,--tasks}'[print the tasks]' \
    '(-h --help)'{-h,--help}'[print a summary and exit]' \
    '(-V --version)'{-V,--version}'[print the version and exit]' \
    '1:task:->task' '*::argument:->argument' && return
case $state in
task)
    local -a rows=('help:print the options of a task')
    for task in $tasks; do
        rows+=("${task%%$'\t'*}:${task##*$'\t'}")
    done
    _describe task rows
    ;;
argument)
    for task in $tasks; do
        [[ ${task%%$'\t'*} == $words[1] ]] && program=(${=${${task#*$'\t'}%%$'\t'*}})
    done
    ((${#program})) || return
    words=($program "${(@)words[2,-1]}")
    ((CURRENT += ${#program} - 1))
    _normal
    ;;
esac
