"""Tables in Markdown and charts of each experiment, for tools/figures/paper."""
import math
import statistics

import paper_charts as charts
import paper_results as results_of
import paper_streams
import shared

SPREAD = results_of.spread


def bold_least(cells, values):
    finite = [value for value in values if math.isfinite(value)]
    return [f"**{cell}**" if finite and value == min(finite) and cell else cell
            for cell, value in zip(cells, values)]


def grid(kinds, rows, columns, head, measure, digits=3):
    """A table of means and deviations; `kinds` {(row, *column): runs}; the least of each column is bold."""
    made = []
    for column in columns:
        runs = [kinds.get((row, *column), []) for row in rows]
        values = [[run[measure] for run in of if run["state"] == "done"] for of in runs]
        cells = [SPREAD(of, digits) + ("" if len(of) == len(all_of) else f" ({len(all_of) - len(of)} not finite)")
                 for of, all_of in zip(values, runs)]
        made.append(bold_least(cells, [results_of.mean_std(of)[0] if of else math.inf for of in values]))
    return shared.table([head, *([row, *cells] for row, cells in zip(rows, zip(*made)))])


def rows_of(kinds):
    return list(dict.fromkeys(kind[0] for kind in kinds))


def draw(axis, runs, label, smooth=0, **more):
    """Draws the mean curve: for each point the mean over the last `smooth` of them, 0: over all
    so far."""
    x, y = results_of.averaged(runs)
    y = [statistics.fmean(y[max(0, n + 1 - smooth) if smooth else 0:n + 1]) for n in range(len(y))]
    axis.plot(x, y, label=label, **more)


def below_start(axis):
    """Cuts off values above the curves except their first twentieth."""
    shown = [y for line in axis.get_lines() for y in line.get_ydata()[len(line.get_ydata()) // 20:]]
    if shown:
        axis.set_ylim(min(shown) - 0.05 * (max(shown) - min(shown)), max(shown))


def convergence(results, chart):
    kinds = results_of.kinds(results, "norm", "cell", "stream")
    columns = list(dict.fromkeys(kind[1:] for kind in kinds))
    columns.sort(key=lambda column: column[0])
    rows = rows_of(kinds)
    heads = [f"{stream}, {cell}" for cell, stream in columns]
    figure, axes = charts.panels(2, len(columns) // 2)
    for axis, (cell, stream) in zip(axes.flat, columns):
        for row in rows:
            if (row, cell, stream) in kinds:
                draw(axis, kinds[row, cell, stream], row, **charts.style(row))
        axis.set_title(f"{stream}, {cell}", fontsize=9)
        below_start(axis)
    charts.save(figure, chart, axes[0, 0])
    return grid(kinds, rows, columns, ["norm", *heads], "mean")


def digits(results, chart):
    kinds = results_of.kinds(results, "norm", "stream")
    rows = rows_of(kinds)
    figure, axes = charts.panels(1, 1)
    figure.set_size_inches(6, 3.4)
    for row in rows:
        draw(axes[0, 0], kinds[row, "digits"], row, **charts.style(row))
    below_start(axes[0, 0])
    axes[0, 0].set_xlabel("images", fontsize=8)
    axes[0, 0].set_ylabel("nats, mean so far", fontsize=8)
    charts.save(figure, chart, axes[0, 0])
    lines = [("norm", "mean loss", "last tenth", "accuracy", "rate")]
    for row in rows:
        runs = kinds[row, "digits"]
        lines.append((row, *(SPREAD([run[measure] for run in runs]) for measure in ("mean", "recent", "accuracy")),
                      runs[0]["rate"]))
    return shared.table(lines)


def convolution(results, _):
    """The streams are the first 1 to 4 quarters."""
    kinds = results_of.kinds(results, "norm", "kind", "stream")
    lines = [("norm", *dict.fromkeys(kind[1] for kind in kinds))]
    for row in rows_of(kinds):
        cells = []
        for kind in dict.fromkeys(kind[1] for kind in kinds):
            before, quarters = (0, 0), []
            for stream in "1234":
                runs = kinds[row, kind, stream]
                right = statistics.fmean(run["accuracy"] * run["scored"] for run in runs)
                quarters.append(f"{100 * (right - before[0]) / (runs[0]['scored'] - before[1]):.1f}")
                before = right, runs[0]["scored"]
            cells.append(" ".join(quarters))
        lines.append((row, *cells))
    return shared.table(lines)


def gain(results, chart):
    kinds = results_of.kinds(results, "norm", "stream", "gain")
    columns = sorted(dict.fromkeys(kind[1:] for kind in kinds), key=lambda column: (column[0], -float(column[1])))
    rows = rows_of(kinds)
    streams = list(dict.fromkeys(stream for stream, _ in columns))
    figure, axes = charts.panels(1, len(streams))
    for axis, stream in zip(axes[0], streams):
        for row in rows:
            for column in columns:
                if column[0] == stream:
                    small = float(column[1]) < 1
                    draw(axis, kinds.get((row, *column), []), f"{row}, {column[1]}",
                         color=charts.colour(row), linestyle="--" if small else "-")
        axis.set_title(stream, fontsize=9)
        below_start(axis)
    charts.save(figure, chart, axes[0, 0])
    return grid(kinds, rows, columns, ["norm", *(f"{stream}, gain {value}" for stream, value in columns)], "mean")


def recovered(counts):
    """Number of examples until recovery: the median, and the number of runs without it."""
    late = sum(map(math.isinf, counts))
    if late * 2 > len(counts):
        return f"not in {late} of {len(counts)}"
    return f"{statistics.median(counts):.0f}" + (f" ({late} of {len(counts)} never)" if late else "")


def shift(results, chart):
    kinds = results_of.kinds(results, "label", "stream")
    change, end = paper_streams.SHIFT_AT, paper_streams.SHIFT_ROWS
    rows, streams = rows_of(kinds), list(dict.fromkeys(kind[1] for kind in kinds))
    figure, axes = charts.panels(1, len(streams))
    head, cells = ["norm"], {row: [row] for row in rows}
    for axis, stream in zip(axes[0], streams):
        head += [f"{stream}: before", "first 1,000 after", "back after", "whole"]
        for row in rows:
            runs = kinds[row, stream]
            curves = [results_of.curve(run) for run in runs]
            before, after, back = zip(*(results_of.recovery(curve, change, end) for curve in curves))
            cells[row] += [f"{statistics.mean(before):.3f}", f"{statistics.mean(after):.3f}", recovered(back),
                           SPREAD([run["mean"] for run in runs])]
            draw(axis, runs, row, smooth=3, **charts.style(row, rows))
        axis.set_title(stream, fontsize=9)
        axis.set_xlim(change - 3000, change + 7000)
    charts.save(figure, chart, axes[0, 0])
    return shared.table([head, *cells.values()])


TENSORS = "layers.0.weight_ih", "layers.0.weight_hh"
START = 1  # the first point with an effective rate: the point before it has the starting weights


def course(runs, tensor):
    """Mean over runs of norms, and of movement between two points divided by the norm."""
    curves = [results_of.weights(run, tensor) for run in runs if run["state"] == "done"]
    norms = [statistics.fmean(norm for norm, _ in points) for points in zip(*curves)]
    moved = [statistics.fmean(change / norm for norm, change in points if change is not None)
             for points in zip(*(curve[1:] for curve in curves))]
    return norms, moved


def decay(results, chart):
    kinds = results_of.kinds(results, "kind", "norm")
    optimizers = list(dict.fromkeys(kind[0] for kind in kinds))
    figure, axes = charts.panels(2, 2)
    lines = [("", "loss, last tenth", *(f"{tensor.rpartition('.')[2]}: {what}" for tensor in TENSORS
                                        for what in ("norm", "movement / norm", "rate / norm²")))]
    for (optimizer, norm), runs in kinds.items():
        cells = []
        for row, tensor in enumerate(TENSORS):
            norms, moved = course(runs, tensor)
            cells += [f"{norms[START]:.1f}→{norms[-1]:.1f}", f"{moved[START]:.3f}→{moved[-1]:.3f}",
                      f"{(norms[START] / norms[-1]) ** 2:.2f}"]
            if row == 0:
                column = optimizers.index(optimizer)
                axes[0, column].plot(norms, label=norm, **charts.style(norm))
                axes[1, column].plot(moved, label=norm, **charts.style(norm))
        lines.append((f"{optimizer}, {norm}", SPREAD([run["recent"] for run in runs]), *cells))
    for column, optimizer in enumerate(optimizers):
        axes[0, column].set_title(f"{optimizer}: norm of weight_ih", fontsize=9)
        axes[1, column].set_title(f"{optimizer}: movement / norm", fontsize=9)
        axes[1, column].set_yscale("log")
        axes[1, column].set_xlabel("points of 10,000 examples", fontsize=8)
        axes[0, column].set_yscale("log")
    charts.save(figure, chart, axes[0, 0])
    return shared.table(lines)


def length(results, chart):
    kinds = results_of.kinds(results, "norm", "stream")
    rows, columns = rows_of(kinds), sorted({kind[1:] for kind in kinds}, key=lambda column: int(column[0]))
    figure, axes = charts.panels(1, 1)
    figure.set_size_inches(6, 3.4)
    for row in rows:
        means = [results_of.mean_std([run["mean"] for run in kinds[row, *column]]) for column in columns]
        axes[0, 0].errorbar([int(column[0]) for column in columns], [mean for mean, _ in means],
                            [deviation for _, deviation in means], label=row, color=charts.colour(row),
                            linewidth=1.1, marker="o", markersize=3)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_xlabel("steps of a sequence", fontsize=8)
    axes[0, 0].set_ylabel("nats", fontsize=8)
    charts.save(figure, chart, axes[0, 0])
    return grid(kinds, rows, columns, ["norm", *(f"{steps} steps" for steps, in columns)], "mean")


MICROSECONDS = 1e6


def cost(runs):
    """Processor time per example in microseconds: the median, since other programs run at the
    same time."""
    return statistics.median(MICROSECONDS * run["cpu_seconds"] / run["examples"] for run in runs)


def costs_and_losses(results, chart, keys, label):
    """Table and chart of loss by processor time, stream by stream."""
    kinds = results_of.kinds(results, *keys, "stream")
    rows = list(dict.fromkeys(kind[:-1] for kind in kinds))
    streams = list(dict.fromkeys(kind[-1] for kind in kinds))
    figure, axes = charts.panels(1, len(streams), share=False)
    heads = [cell for stream in streams for cell in (stream, "last tenth", "µs")]
    columns = []
    for axis, stream in zip(axes[0], streams):
        of_rows = [kinds[*row, stream] for row in rows]
        for measure in ("mean", "recent"):
            means = [results_of.mean_std([run[measure] for run in runs])[0] for runs in of_rows]
            columns.append(bold_least([SPREAD([run[measure] for run in runs]) for runs in of_rows],
                                      [mean if math.isfinite(mean) else math.inf for mean in means]))
            if measure == "mean":
                for number, (row, runs, mean) in enumerate(zip(rows, of_rows, means)):
                    axis.plot(cost(runs), mean, "o", markersize=4, color=charts.COLOURS[0])
                    axis.annotate(label(row), (cost(runs), mean), fontsize=6, textcoords="offset points",
                                  xytext=(3, -8 if number % 2 else 3))
        columns.append([f"{cost(runs):.1f}" for runs in of_rows])
        axis.set_xscale("log")
        axis.set_title(stream, fontsize=9)
        axis.set_xlabel("µs an example", fontsize=8)
    charts.save(figure, chart, axes[0, 0])
    return shared.table([("", *heads), *((label(row), *cells) for row, cells in zip(rows, zip(*columns)))])


def window(results, chart):
    return costs_and_losses(results, chart, ("window", "stride"), " / ".join)


def rules(results, chart):
    return costs_and_losses(results, chart, ("cell", "rule", "window"),
                            lambda kind: f"{kind[0]} {kind[1] or 'tbptt'} {kind[2] or ''}".rstrip())


CHANGES = {"levels": [paper_streams.SHIFT_AT], "weights": [10000, 20000, 30000]}  # conf/experiments/drift.yaml
DRIFT_END = 40000
BETWEEN = 0.1  # norms of an optimizer; distance between optimizers


def recoveries(runs, stream):
    """Number of examples until the recovery from each change of each run."""
    changes = CHANGES[stream]
    return [results_of.recovery(results_of.curve(run), change, until)[2] for run in runs
            for change, until in zip(changes, [*changes[1:], DRIFT_END])]


def drift(results, chart):
    kinds = results_of.kinds(results, "norm", "kind", "stream")
    rows, optimizers = rows_of(kinds), list(dict.fromkeys(kind[1] for kind in kinds))
    streams = list(dict.fromkeys(kind[2] for kind in kinds))
    shown = [optimizer for optimizer in optimizers if optimizer != "adamw"]  # without weight decay it is adam
    figure, axes = charts.panels(1, len(streams), share=False)
    parts = []
    for axis, stream in zip(axes[0], streams):
        counted = [(f"`{stream}`", *shown)]
        for row in rows:
            counts = [recoveries(kinds[row, optimizer, stream], stream) for optimizer in optimizers]
            losses = [results_of.mean_std([run["mean"] for run in kinds[row, optimizer, stream]])[0]
                      for optimizer in optimizers]
            counted.append((row, *(f"{recovered(of)}; {loss:.3f}" for of, loss, optimizer
                                   in zip(counts, losses, optimizers) if optimizer in shown)))
            found = [min(statistics.median(of), paper_streams.SHIFT_AT) for of in counts]
            above = BETWEEN * (len(rows) / 2 - rows.index(row))
            axis.plot(found, [len(optimizers) - n + above for n in range(len(optimizers))], "o", markersize=4,
                      label=row, color=charts.colour(row))
        axis.set_yticks([len(optimizers) - n for n in range(len(optimizers))], optimizers, fontsize=8)
        axis.set_title(f"{stream}: examples until back", fontsize=9)
        parts.append(shared.table(counted))
    charts.save(figure, chart, axes[0, 0])
    return "\n\n".join(parts)
