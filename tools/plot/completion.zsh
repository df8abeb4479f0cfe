#compdef runnel-plot
# zsh completion, written by hand
_arguments -s -S \
    '*'{-o+,--output=}'[write the picture to FILE\: .png, .svg, .pdf]:FILE:_files' \
    '*'{-r+,--run=}'[draw only the run with this name, first digits or number]:RUN: ' \
    '(-l --list)'{-l,--list}'[print all runs and end]' \
    '(-y --column)'{-y+,--column=}'[column to draw\: mean, metric_bits, gradient_norm, layer0.hidden_std, ...]:COLUMN: ' \
    '--histogram=[draw the histograms of this layer'\''s hidden units as a heat map]:LAYER: ' \
    '(-x --axis)'{-x+,--axis=}'[horizontal axis\: examples, steps or time since the run began]:AXIS:(examples steps time data-time)' \
    '--stream=[with -y prediction\: stream to draw]:KEY: ' \
    '--ahead=[with -y prediction\: forecasts N steps ahead]:N: ' \
    '--from=[first position]:X: ' \
    '--to=[last position]:X: ' \
    '--log[logarithmic vertical axis]' \
    '--log-x[logarithmic horizontal axis]' \
    '--smooth=[draw the mean over the last N messages, and the curve itself pale]:N: ' \
    '--band[draw minimum and maximum as a band]' \
    '--events[mark events]' \
    '*--label=[name in the legend, for the first run, then the second, ...]:TEXT: ' \
    '--title=[title above the picture]:TEXT: ' \
    '--size=[size in inches, WxH]:SIZE: ' \
    '--dpi=[dots per inch]:N: ' \
    '--points=[maximum points of a curve]:N: ' \
    '--html=[for results\: write an HTML page; - = standard output]:FILE:_files' \
    '--tensorboard=[for results\: write event files for TensorBoard]:DIRECTORY:_files -/' \
    '--measure=[for results\: figure to compare]:NAME: ' \
    '(-h --help)'{-h,--help}'[print the options and end]' \
    '(-V --version)'{-V,--version}'[print the version and end]' \
    '*:recording or results:_files'
