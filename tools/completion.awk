# Writes the completion of a program in Python for `shell`, bash or zsh, from that for fish. A comment
# after an option names its argument, for zsh: "*" repeats the option, "," separates several words.
function add(list, text) {
    return list (list ? " " : "") text
}
function offer(pattern, words) {
    return sprintf("    %s) mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\"); return ;;\n", pattern, words)
}
function action() {
    if (several)
        return "_values -s , value " words
    return words ? "(" words ")" : part[1] ~ / -F/ ? "_files" : part[1] ~ /directories/ ? "_files -/" : " "
}
/^complete / {
    description = letter = words = argument = ""
    program = $3
    split($0, part, " -d '")
    if (match($0, / -d '.*'/))
        description = substr($0, RSTART + 5, RLENGTH - 6)
    if (match($0, / # .*/))
        argument = substr($0, RSTART + 3)
    if (match(part[1], / -s [a-zA-Z]/))
        letter = substr(part[1], RSTART + 4, 1)
    if (match(part[1], / -a '[^'(]*'/))
        words = substr(part[1], RSTART + 5, RLENGTH - 6)
    if (!match(part[1], / -l [a-z-]*/)) {
        cases = cases offer("*.yaml | *.yml", words)
        next
    }
    name = "--" substr(part[1], RSTART + 4, RLENGTH - 4)
    names = add(names, (letter ? "-" letter " " : "") name)
    pattern = (letter ? "-" letter " | " : "") name
    if (words)
        cases = cases offer(pattern, words)
    else if (part[1] ~ / -x/)
        cases = cases sprintf("    %s) return ;;\n", pattern)
    gsub(/\\'/, "'\\''", description)
    gsub(/:/, "\\:", description)
    repeats = argument ~ /\*$/
    several = argument ~ /,$/
    sub(/[*,]$/, "", argument)
    row = repeats ? "*" : letter ? "(-" letter " " name ")" : ""
    value = argument ? "=" : ""
    row = letter ? "'" row "'{-" letter (argument ? "+" : "") "," name value "}'" : "'" row name value
    row = row "[" description "]"
    if (argument)
        row = row ":" argument ":" action()
    rows = rows " \\\n    " row "'"
}
END {
    if (shell == "zsh") {
        printf "#compdef %s\n_arguments -s -S%s \\\n    '*:file:_files'\n", program, rows
        exit
    }
    function_name = "_" program
    gsub(/-/, "_", function_name)
    printf "%s() {\n    local word=${COMP_WORDS[COMP_CWORD]}", function_name
    printf " before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    printf "    if [[ $word == = ]]; then\n        word=\n    elif [[ $before == = ]]; then\n"
    printf "        before=${COMP_WORDS[COMP_CWORD - 2]}\n    fi\n    COMPREPLY=()\n"
    printf "    case $before in\n%s    esac\n    if [[ $word == -* ]]; then\n", cases
    printf "        mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$word\")\n", names
    printf "        return\n    fi\n    compopt -o filenames 2>/dev/null\n"
    printf "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n}\ncomplete -F %s %s\n", function_name, program
}
