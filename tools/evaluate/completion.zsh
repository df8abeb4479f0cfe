#compdef runnel-evaluate
# zsh completion, written by hand as the program is
_arguments -s -S \
    '*'{-s+,--set=}'[override one key of the configuration]:KEY=VALUE: ' \
    '(-p --period)'{-p+,--period=}'[steps in a season]:N: ' \
    '(-e --experts)'{-e,--experts}'[compare with each expert and member, too]' \
    '(-r --rivals)'{-r+,--rivals=}'[compare with these methods only]:LIST:_values -s , method seasonal ar var snarimax holt-winters arf none' \
    '(-n --count)'{-n+,--count=}'[maximum number of rows to read from a table]:N: ' \
    '--time-format=[how times of a table are written]:FORMAT: ' \
    '--columns=[forecast these columns of a table]:LIST: ' \
    '--missing=[words of missing cells]:WORDS: ' \
    '(-o --plot)'{-o+,--plot=}'[draw forecasts and skill]:FILE:_files' \
    '(-j --json)'{-j,--json}'[print the figures as one object of JSON]' \
    '(-h --help)'{-h,--help}'[print the options and end]' \
    '(-V --version)'{-V,--version}'[print the version and end]' \
    '1:configuration or table:_files' \
    '*::source:_files'
