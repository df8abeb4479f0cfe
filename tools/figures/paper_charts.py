"""How the charts of tools/figures/paper look: small PNGs in the colours of src/common/palette.def."""
import re

import matplotlib

import shared

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402  pylint: disable=wrong-import-position

COLOURS = re.findall(r'^COLOUR\("(#\w+)"', (shared.SOURCE / "src/common/palette.def").read_text("utf-8"), re.M)
NORMS = "layer", "none", "weight", "batch", "recurrent_batch", "rms"  # each has its colour in all charts
DPI = 80
PANEL = 3.4, 2.6  # inches
LEGEND = 0.45     # inches above the panels


def colour(name, others=()):
    """That of a norm, or of a name among others."""
    known = NORMS + tuple(name for name in others if name not in NORMS)
    return COLOURS[known.index(name) % len(COLOURS)]


def panels(rows, columns, share=True):
    """A figure with so many panels: figure, axes (rows, columns)."""
    figure, axes = pyplot.subplots(rows, columns, squeeze=False, sharex="col" if share else False,
                                   figsize=(PANEL[0] * columns, PANEL[1] * rows + LEGEND))
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.tick_params(labelsize=8)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    return figure, axes


def save(figure, path, axis):
    """With one legend above all panels, of the curves of one of them."""
    handles, labels = axis.get_legend_handles_labels()
    height = figure.get_size_inches()[1]
    figure.legend(handles, labels, loc="upper center", ncol=min(len(labels), 8), fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - LEGEND / height))
    figure.savefig(path, dpi=DPI)
    pyplot.close(figure)
