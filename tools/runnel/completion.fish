# fish completion for runnel: tasks, then what the program of a task completes
function __runnel_first
    test (count (commandline -opc)) -eq 1
end
function __runnel_tasks
    set -l typed (commandline -opc)
    $typed[1] --tasks 2>/dev/null | string replace -r '^([^\t]*)\t[^\t]*\t' '$1\t'
end
function __runnel_arguments
    set -l typed (commandline -opc)
    if test $typed[2] = help
        test (count $typed) -eq 2; and __runnel_tasks
        return
    end
    for row in ($typed[1] --tasks 2>/dev/null)
        set -l cells (string split \t -- $row)
        test $cells[1] = $typed[2]; or continue
        set -l rest (string escape -- $typed[3..-1])
        complete -C "$cells[2] $rest "(commandline -ct)
    end
end
complete -c runnel -f -n __runnel_first -s t -l tasks -d 'print the tasks'
complete -c runnel -f -n __runnel_first -s h -l help -d 'print a summary and exit'
complete -c runnel -f -n __runnel_first -s V -l version -d 'print the version and exit'
complete -c runnel -f -n __runnel_first -a "help\t'print the options of a task' (__runnel_tasks)"
complete -c runnel -f -n 'not __runnel_first' -a '(__runnel_arguments)'
