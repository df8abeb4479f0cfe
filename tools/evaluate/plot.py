# --- The plot ---
#
# The build inserts this file into runnel-evaluate.
import math

import numpy as np

POINTS = 300        # last examples of the stream
PANELS = 4
MARGIN = 0.15       # of the range of the true values, above and below
TENTHS = 10
LEGEND = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 4, "fontsize": 8, "frameon": False,
          "borderaxespad": 0.2}
# Distinguishable also with colour vision deficiency (Okabe and Ito).
TRUTH, FORECAST, BAND, MISS = "#000000", "#D55E00", "#56B4E9", "#CC0000"
RIVAL_COLOURS = ["#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]


def fan_of(levels, quantiles):
    """[(share, bands (examples, columns, 2))] of quantiles (examples, columns, levels) at levels p and
    1 - p, outermost first."""
    pairs = [(low, high) for low, p in enumerate(levels) for high, q in enumerate(levels)
             if low < high and math.isclose(p + q, 1)]
    return [(f"{100 * (1 - 2 * levels[low]):g}%", quantiles[:, :, [low, high]]) for low, high in pairs]


def open_plot(heights):
    """A figure with panels of these heights, and matplotlib.dates."""
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import dates, pyplot
    except ImportError:
        give_up("a plot needs matplotlib; on Debian: apt-get install python3-matplotlib")
    return *pyplot.subplots(len(heights), 1, figsize=(9, sum(heights) + 0.6),
                            gridspec_kw={"height_ratios": heights}, constrained_layout=True), dates


def save_plot(figure, panels, path, title):
    for panel in panels:
        panel.grid(True, color="#dddddd", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8)
    figure.suptitle(title, fontsize=10)
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as problem:
        give_up(f"cannot write the plot: {problem}")


def draw(path, title, names, comparison, rivals, fan, times):
    """Draws the end of the newest stream: forecasts and true values of the first columns, and
    the skill by tenth below. fan as of fan_of, or one band, which may be None; times (examples,) in
    Unix seconds or None."""
    shown = [k for k in range(len(names)) if np.isfinite(comparison.skills("last value")[k])][:PANELS] or [0]
    figure, panels, dates = open_plot([2.0] * len(shown) + [1.8])
    rows = comparison.newest[-POINTS:]
    x = rows
    if times is not None:
        x = dates.date2num(np.array(times)[rows].astype("datetime64[s]"))
    for panel, k in zip(panels, shown):
        draw_column(panel, x, rows, k, comparison, fan)
        panel.set_title(names[k], loc="left", fontsize=9)
        if times is not None:
            panel.xaxis_date()
            panel.xaxis.set_major_formatter(dates.ConciseDateFormatter(panel.xaxis.get_major_locator()))
    panels[0].legend(**LEGEND)
    draw_skill(panels[-1], comparison, rivals)
    save_plot(figure, panels, path, title)


def draw_column(panel, x, rows, k, comparison, fan):
    truth, forecast = comparison.truth[rows, k], comparison.forecasts[comparison.main][rows, k]
    shares = ", ".join(share for share, _ in reversed(fan)) + (" bands" if len(fan) > 1 else " band")
    for share, bands in fan:
        if bands is None or not np.isfinite(bands[rows, k]).any():
            continue
        low, high = bands[rows, k].T
        alpha = 1 - 0.4 ** (1 / len(fan)) if len(fan) > 1 else 0.35  # lighter outwards
        panel.fill_between(x, low, high, color=BAND, alpha=alpha, linewidth=0,
                           label=shares if share == fan[0][0] else None)
        if share != "90%":
            continue
        missed = (truth < low) | (truth > high)
        panel.plot(x[missed], truth[missed], "o", color=MISS, markersize=3,
                   label="outside 90%")
    panel.plot(x, truth, color=TRUTH, linewidth=1.1, label="truth")
    steps = "one step" if comparison.ahead == 1 else f"{comparison.ahead} steps"
    panel.plot(x, forecast, color=FORECAST, linewidth=1.1, label=f"forecast, {steps} before")
    calm = truth[np.isfinite(truth) & ~comparison.wild[rows, k]]
    if len(calm) and calm.max() > calm.min():
        room = MARGIN * (calm.max() - calm.min())
        panel.set_ylim(calm.min() - room, calm.max() + room)
    panel.margins(x=0.01)


def draw_skill(panel, comparison, rivals):
    """Draws the skill by tenth of the stream, against each of the simple methods."""
    edges = [len(comparison.truth) * n // TENTHS for n in range(TENTHS + 1)]
    for name, colour in zip(rivals, RIVAL_COLOURS):
        skills = [comparison.skill(name, slice(a, b)) for a, b in zip(edges, edges[1:])]
        panel.plot(range(1, TENTHS + 1), skills, "o-", color=colour, markersize=3, linewidth=1.1,
                   label=f"against {name}")
    panel.axhline(0, color="#888888", linewidth=0.8)
    low = min((v for line in panel.get_lines()[:-1] for v in line.get_ydata() if math.isfinite(v)),
              default=0)
    panel.set_ylim(max(-1, min(-0.1, low - 0.1)), 1.05)
    panel.set_xticks(range(1, TENTHS + 1))
    panel.set_title("skill by tenth: above 0 runnel is better", loc="left", fontsize=9)
    panel.legend(**LEGEND)
