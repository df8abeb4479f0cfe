"""The charts of docs/measurements/scale.md, for tools/figures/scale."""
import dataclasses

import numpy
import paper_charts

import scale_model
from scale_report import AVERAGES, EVENT

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


def panel():
    figure, axes = paper_charts.panels(1, 1, share=False)
    figure.set_size_inches(7, 4)
    return figure, axes[0][0]


def events(path, played):
    """The mean lag after each event."""
    names = [name for name in played if name != "rest"]
    figure, axis = panel()
    for name in names:
        looks = [look for look in played[name][0] if look["time"] > EVENT - BEFORE]
        draw(axis.semilogy, [look["time"] - EVENT for look in looks],
             [max(look["lag_mean"], LEAST) for look in looks], name, names)
    label(axis, "seconds after the event", "mean lag of an example, seconds")
    axis.set_ylim(LEAST, 1e3)
    paper_charts.save(figure, path, axis)


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
    figure, axis = panel()
    for name, values in lines.items():
        draw(axis.loglog, DECADES, values, name, list(lines))
    axis.axhline(1, color="black", linewidth=1, linestyle=":")
    label(axis, "daemons", "used, of the limit")
    paper_charts.save(figure, path, axis)
