#compdef runnel-plot
# zsh completion, written by hand as the program is
_arguments -s -S \
    '*'{-o+,--output=}'[picture, its kind by its name\: .png, .svg, .pdf]:FILE:_files' \
    '*'{-r+,--run=}'[only this run\: its name, first digits or number]:RUN: ' \
    '(-l --list)'{-l,--list}'[print which runs there are, and end]' \
    '(-y --column)'{-y+,--column=}'[what to draw\: mean, metric_bits, gradient_norm, layer0.hidden_std, ...]:COLUMN: ' \
    '--histogram=[draw how this layer'\''s hidden units are spread instead, as a heat map]:LAYER: ' \
    '(-x --axis)'{-x+,--axis=}'[draw over examples, steps or time since the run began]:AXIS:(examples steps time data-time)' \
    '--stream=[with -y prediction\: of this stream]:KEY: ' \
    '--ahead=[with -y prediction\: what was said N steps before]:N: ' \
    '--from=[begin there]:X: ' \
    '--to=[end there]:X: ' \
    '--log[logarithmic vertical axis]' \
    '--log-x[logarithmic horizontal axis]' \
    '--smooth=[mean over the last N messages, the curve itself pale]:N: ' \
    '--band[least and greatest values as a band]' \
    '--events[mark events]' \
    '*--label=[in the legend, for the first run, then the second, ...]:TEXT: ' \
    '--title=[above the picture]:TEXT: ' \
    '--size=[in inches, WxH]:SIZE: ' \
    '--dpi=[dots an inch]:N: ' \
    '--points=[points of a curve at most]:N: ' \
    '--html=[of results\: write a page with tables and charts; - = standard output]:FILE:_files' \
    '--tensorboard=[of results\: write event files for TensorBoard]:DIRECTORY:_files -/' \
    '--measure=[of results\: compare this figure]:NAME: ' \
    '(-h --help)'{-h,--help}'[print the options and end]' \
    '(-V --version)'{-V,--version}'[print the version and end]' \
    '*:recording or results:_files'
