"""The charts of docs/measurements/scale.md, for tools/figures/scale."""
import dataclasses

import numpy
import paper_charts

import scale_model
from scale_report import AVERAGES, EVENT, pause_curve

DECADES = (10, 30, 100, 300, 1000, 3000, 10000)  # daemons
LEAST = 1e-3   # seconds: smaller lags are drawn there
BEFORE = 20    # seconds of rest in the chart
GROWN = {"one thread: the hottest key": "hottest key", "Redis: processor, both": "64 servers: CPU",
         "Redis: memory, states": "their memory",
         "leases: all read once, of a lease": "all look once"}


def draw(how, x, y, name, names):
    how(x, y, label=name, linewidth=1.2,
        color=paper_charts.COLOURS[names.index(name) % len(paper_charts.COLOURS)])


def label(axis, x, y):
    axis.set_xlabel(x, fontsize=8)
    axis.set_ylabel(y, fontsize=8)


def events(path, played):
    """The mean lag after each event, of the designed fleet and of the repaired one."""
    names = list(dict.fromkeys(name for _, name in played if name != "rest"))
    figure, axes = paper_charts.panels(1, 2, share=False)
    for axis, which in zip(axes[0], ("designed", "repaired"), strict=True):
        for name in names:
            looks = [look for look in played[(which, name)][0] if look["time"] > EVENT - BEFORE]
            draw(axis.semilogy, [look["time"] - EVENT for look in looks],
                 [max(look["lag_mean"], LEAST) for look in looks], name, names)
        axis.set_title(which, fontsize=9)
        label(axis, "seconds after the event", "mean lag of an example, seconds")
        axis.set_ylim(LEAST, 1e3)
    paper_charts.save(figure, path, axes[0][0])


def growth(path, plan, cost):
    """Use / limit, for fleets in which each daemon has the same load, streams and partitions."""
    lines = {}
    for daemons in DECADES:
        share = daemons / plan.daemons
        made = dataclasses.replace(plan, daemons=daemons, keys=round(plan.keys * share),
                                   partitions=max(1, round(plan.partitions * share)),
                                   rate=plan.rate * share)
        for name, (use, limit, _) in scale_model.demands(made, cost).items():
            if name in GROWN:
                lines.setdefault(GROWN[name], []).append(use / limit)
        mean = numpy.full(daemons, made.rate / daemons)
        given = scale_model.averaging(made, cost, mean, AVERAGES[0])[3]
        lines.setdefault("averaging", []).append(given / plan.shard_bytes)
    figure, axes = paper_charts.panels(1, 1, share=False)
    figure.set_size_inches(7, 4)
    for name, values in lines.items():
        draw(axes[0][0].loglog, DECADES, values, name, list(lines))
    axes[0][0].axhline(1, color="black", linewidth=1, linestyle=":")
    label(axes[0][0], "daemons", "used, of the limit")
    paper_charts.save(figure, path, axes[0][0])


def pause(path, costs):
    """The real run and the simulated one."""
    figure, axes = paper_charts.panels(1, 1, share=False)
    figure.set_size_inches(5, 3)
    names = ["measured", "simulated"]
    for name, curve in zip(names, pause_curve(costs), strict=True):
        draw(axes[0][0].plot, *zip(*curve, strict=True), name, names)
    label(axes[0][0], "seconds", "examples waiting")
    paper_charts.save(figure, path, axes[0][0])
