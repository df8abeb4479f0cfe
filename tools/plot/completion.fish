# fish completion for runnel-plot, written by hand; tools/completion.awk makes those for bash and zsh
complete -c runnel-plot -s o -l output -r -F -d 'write the picture to FILE: .png, .svg, .pdf' # FILE*
complete -c runnel-plot -s r -l run -x -d 'draw only the run with this name, first digits or number' # RUN*
complete -c runnel-plot -s l -l list -d 'print all runs and end'
complete -c runnel-plot -s y -l column -x -d 'column to draw: mean, metric_bits, gradient_norm, layer0.hidden_std, ...' # COLUMN
complete -c runnel-plot -l histogram -x -d 'draw the histograms of this layer\'s hidden units as a heat map' # LAYER
complete -c runnel-plot -s x -l axis -x -a 'examples steps time data-time' -d 'horizontal axis: examples, steps or time since the run began' # AXIS
complete -c runnel-plot -l stream -x -d 'with -y prediction: stream to draw' # KEY
complete -c runnel-plot -l ahead -x -d 'with -y prediction: forecasts N steps ahead' # N
complete -c runnel-plot -l from -x -d 'first position' # X
complete -c runnel-plot -l to -x -d 'last position' # X
complete -c runnel-plot -l log -d 'logarithmic vertical axis'
complete -c runnel-plot -l log-x -d 'logarithmic horizontal axis'
complete -c runnel-plot -l smooth -x -d 'draw the mean over the last N messages, and the curve itself pale' # N
complete -c runnel-plot -l band -d 'draw minimum and maximum as a band'
complete -c runnel-plot -l events -d 'mark events'
complete -c runnel-plot -l label -x -d 'name in the legend, for the first run, then the second, ...' # TEXT*
complete -c runnel-plot -l title -x -d 'title above the picture' # TEXT
complete -c runnel-plot -l size -x -d 'size in inches, WxH' # SIZE
complete -c runnel-plot -l dpi -x -d 'dots per inch' # N
complete -c runnel-plot -l points -x -d 'maximum points of a curve' # N
complete -c runnel-plot -l html -r -F -d 'for results: write an HTML page; - = standard output' # FILE
complete -c runnel-plot -l tensorboard -x -a '(__fish_complete_directories)' -d 'for results: write event files for TensorBoard' # DIRECTORY
complete -c runnel-plot -l measure -x -d 'for results: figure to compare' # NAME
complete -c runnel-plot -s h -l help -d 'print the options and end'
complete -c runnel-plot -s V -l version -d 'print the version and end'
