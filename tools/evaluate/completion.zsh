#compdef runnel-evaluate
# zsh completion, written by hand as the program is
_arguments -s -S \
    '*'{-s+,--set=}'[override one key of the configuration]:KEY=VALUE: ' \
    '(-p --period)'{-p+,--period=}'[steps in a season]:N: ' \
    '(-e --experts)'{-e,--experts}'[also compare with each expert and member of the mixture]' \
    '(-r --rivals)'{-r+,--rivals=}'[compare with these methods only]:LIST:_values -s , method seasonal ar var snarimax holt-winters arf none' \
    '(-n --count)'{-n+,--count=}'[read at most N rows, bytes or lines, 0 for all]:N: ' \
    '--time-format=[format of the times in a table]:FORMAT: ' \
    '--columns=[forecast these columns of a table]:LIST: ' \
    '--known=[columns of a table whose values are known ahead]:LIST: ' \
    '--missing=[words that mark a missing cell]:WORDS: ' \
    '(-o --plot)'{-o+,--plot=}'[draw forecasts and skill]:FILE:_files' \
    '(-j --json)'{-j,--json}'[print the results as one JSON object]' \
    '(-h --help)'{-h,--help}'[print the options and end]' \
    '(-V --version)'{-V,--version}'[print the version and end]' \
    '1:configuration or file:_files' \
    '*::source:_files'
