"""The style of the charts of tools/figures/paper: small PNGs in the colours of
src/common/palette.def."""
import re

import matplotlib
from PIL import Image

import shared

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  pylint: disable=wrong-import-position

COLOURS = re.findall(r'^COLOUR\("(#\w+)"', (shared.SOURCE / "src/common/palette.def").read_text("utf-8"), re.M)
# each has its colour in all charts
NORMS = "layer", "none", "weight", "batch", "recurrent_batch", "rms"
# their curves coincide with those of layer and batch
STYLES = {"rms": "--", "recurrent_batch": "-."}
DPI = 80
PALETTE = 256     # colours of a file
PANEL = 3.4, 2.6  # inches
LEGEND = 0.22     # inches above the panels for each row of the legend
ENTRY = 1.25      # inches for a curve's name there


def colour(name, others=()):
    """The colour of a norm, or of a name among others."""
    known = NORMS + tuple(name for name in others if name not in NORMS)
    return COLOURS[known.index(name) % len(COLOURS)]


def style(name, others=()):
    """The line style of a norm, or of a name among others."""
    return {"color": colour(name, others), "linestyle": STYLES.get(name, "-"), "linewidth": 1.1}


def panels(rows, columns, share=True):
    """A figure with panels: figure, axes (rows, columns)."""
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, sharex="col" if share else False,
                                   figsize=(PANEL[0] * columns, PANEL[1] * rows + 2 * LEGEND))
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, axes


def save(figure, path, axis, entry=ENTRY):
    """Saves a figure with one legend above all panels, of the curves of one of them; `entry`
    inches for each name."""
    handles, labels = axis.get_legend_handles_labels()
    width, height = figure.get_size_inches()
    columns = max(1, min(len(labels), int(width / entry)))
    figure.legend(handles, labels, loc="upper center", ncol=columns, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - LEGEND * (1 + -(-len(labels) // columns)) / height))
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)
    with Image.open(path) as image:
        image.convert("RGB").quantize(PALETTE).save(path, optimize=True)
