# fish completion for runnel-evaluate, written by hand; tools/completion.awk makes those for bash and zsh
complete -c runnel-evaluate -s s -l set -x -d 'override one key of the configuration' # KEY=VALUE*
complete -c runnel-evaluate -s p -l period -x -d 'steps in a season' # N
complete -c runnel-evaluate -s e -l experts -d 'also compare with each expert and member of the mixture'
complete -c runnel-evaluate -s r -l rivals -x -a 'seasonal ar var snarimax holt-winters arf none' -d 'compare with these methods only' # LIST,
complete -c runnel-evaluate -s n -l count -x -d 'read at most N rows, bytes or lines, 0 for all' # N
complete -c runnel-evaluate -l time-format -x -d 'format of the times in a table' # FORMAT
complete -c runnel-evaluate -l columns -x -d 'forecast these columns of a table' # LIST
complete -c runnel-evaluate -l known -x -d 'columns of a table whose values are known ahead' # LIST
complete -c runnel-evaluate -l missing -x -d 'words that mark a missing cell' # WORDS
complete -c runnel-evaluate -s o -l plot -r -F -d 'draw forecasts and skill' # FILE
complete -c runnel-evaluate -s j -l json -d 'print the results as one JSON object'
complete -c runnel-evaluate -s h -l help -d 'print the options and exit'
complete -c runnel-evaluate -s V -l version -d 'print the version and exit'
complete -c runnel-evaluate -n 'commandline -opc | string match -qr "\.ya?ml\$"' -a 'text csv idx host synth json'
