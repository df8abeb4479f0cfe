"""Tables and chart of tools/figures/fleet text, for docs/measurements/fleets.md."""
import os
import statistics

import paper_charts

import shared
from fleet_text import PARTS, POINTS, STEPS, Run, Runs

PAGE = shared.SOURCE / "docs/measurements/fleets.md"
MARKS = "<!-- averages: written by tools/figures/fleet text --write -->\n", "<!-- averages ends -->"
CHART = shared.SOURCE / "docs" / "images" / "fleet-average.png"
ENTRY = 2.6  # inches of a name in the chart's legend
CHOOSES = 1  # the seed that chooses rates; later seeds are reported
NAMES = {"parts": "one daemon, one part", "order": "one daemon, all parts in order",
         "turns": "one daemon, all parts in turn"}


def number(count):
    return f"{count:,}"


def name(kind, every, part):
    if not every:
        return NAMES[kind]
    return "four daemons, averaged once, at the end" if every == part else \
        f"four daemons, averaged each {number(every)} bytes"


def short(kind, every, part):
    """For the chart."""
    if not every:
        return {"parts": "one daemon, one part", "order": "one daemon, all in order",
                "turns": "one daemon, all in turn"}[kind]
    return "four, mean at the end" if every == part else f"four, mean each {number(every)} bytes"


def last(found):
    return statistics.mean(found["held"][-1][1])


def while_learning(kind, found):
    """Over the last fifth of the text: the same bytes for `parts`, `fleet` and `turns`."""
    return statistics.mean(found["course"][-PARTS if kind == "order" else -1:])


def spread(values, digits=3):
    if len(values) < 2:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f}±{statistics.stdev(values):.{digits}f}"


def check(options):
    for every in options.every:
        if every <= 0 or every % STEPS or options.part % every:
            shared.fail(f"--every must be multiples of {STEPS} that divide --part", os.EX_USAGE)
    if options.seeds < 2:
        shared.fail("--seeds must be 2 or more: the first one chooses rates", os.EX_USAGE)


class Figure:
    """All kinds of runs, the rate of each from the first seed, and the others' results."""

    def __init__(self, options):
        check(options)
        self.part, self.rates = options.part, options.rates
        self.kinds = [("parts", 0), *(("fleet", every) for every in options.every), ("turns", 0), ("order", 0)]
        seeds = range(CHOOSES + 1, CHOOSES + options.seeds)
        with Runs(options) as runs:
            self.first = {(*kind, rate): runs.of(Run(*kind, rate, CHOOSES))
                          for rate in self.rates for kind in self.kinds if len(self.rates) > 1}
            self.rate = {kind: self.chosen(kind) for kind in self.kinds}
            self.found = {kind: [runs.of(Run(*kind, self.rate[kind], seed)) for seed in seeds]
                          for kind in self.kinds}
            self.held = sum(map(len, runs.text.held))

    def chosen(self, kind):
        return min(self.rates, key=lambda rate: while_learning(kind[0], self.first[(*kind, rate)])
                   if self.first else 0)

    def between(self, kind):
        """Number of seeds for which it is between one daemon with one part and one with all in
        turn: while learning, and on held-out text."""
        rows = list(zip(self.found[kind], self.found["parts", 0], self.found["turns", 0], strict=True))
        learning = [(while_learning("turns", whole), while_learning("fleet", mine), while_learning("parts", one))
                    for mine, one, whole in rows]
        held = [(last(whole), last(mine), last(one)) for mine, one, whole in rows]
        return tuple(sum(least < value < most for least, value, most in values) for values in (learning, held))

    def results(self):
        rows = [["", "bytes each", "rate", "while learning", "held-out text", "mean of own", "between"]]
        for kind in self.kinds:
            found, alone = self.found[kind], not kind[1]
            kept = "" if alone or kind[1] == self.part else \
                "{} and {} of {}".format(*self.between(kind), len(found))
            rows.append([name(*kind, self.part), number(found[0]["held"][-1][0]), f"{self.rate[kind]:g}",
                         "" if kind[0] == "order" else spread([while_learning(kind[0], one) for one in found]),
                         spread([last(one) for one in found]),
                         spread([statistics.mean(one["mean"]) for one in found]) if alone else "",
                         kept])
        return shared.table(rows)

    def by_rate(self):
        rows = [["while learning, held-out text", *(f"{rate:g}" for rate in self.rates)]]
        for kind in self.kinds:
            cells = []
            for rate in self.rates:
                found = self.first[(*kind, rate)]
                learning = "" if kind[0] == "order" else f"{while_learning(kind[0], found):.2f}, "
                cells.append(f"{learning}{last(found):.2f}")
            rows.append([name(*kind, self.part), *cells])
        return shared.table(rows)

    def chart(self, path):
        figure, axes = paper_charts.panels(1, 2, share=False)
        for place, kind in enumerate(self.kinds):
            found, alone = self.found[kind], not kind[1]
            style = {"color": paper_charts.COLOURS[place], "linewidth": 1.2, "markersize": 4,
                     "marker": "o" if alone else "s", "linestyle": "-" if alone else "--",
                     "label": short(*kind, self.part)}
            points = [point for point, _ in found[0]["held"]]
            held = [statistics.mean(statistics.mean(one["held"][at][1]) for one in found)
                    for at in range(len(points))]
            axes[0][1].plot(points, held, **style)
            course = [statistics.mean(values) for values in zip(*(one["course"] for one in found), strict=True)]
            fifth = self.part // POINTS * (PARTS if kind[0] == "turns" else 1)
            # averaged at the end: the same as without
            if kind[0] != "order" and kind[1] != self.part:
                axes[0][0].plot([fifth * (at + 1) for at in range(len(course))], course, **style)
        for axis, title in zip(axes[0], ("while learning, over a fifth of a part", "held-out text"), strict=True):
            axis.set_xscale("log")
            ticks = [self.part // POINTS, self.part, PARTS * self.part]
            axis.set_xticks(ticks, [number(tick) for tick in ticks])
            axis.minorticks_off()
            axis.set_title(title, fontsize=9)
            axis.set_xlabel("bytes that each daemon has learned", fontsize=8)
            axis.set_ylabel("bits per byte", fontsize=8)
        figure.set_size_inches(8, 4.4)
        paper_charts.save(figure, path, axes[0][1], ENTRY)


def report(options):
    """0 if with some `every` all averages are between while learning, else 1."""
    figure = Figure(options)
    table = figure.results()
    print(f"{table}\n\nbits per byte; held out: {figure.held} bytes")
    if figure.first:
        print(f"\nSeed {CHOOSES}, by rate:\n\n{figure.by_rate()}")
    if options.chart:
        figure.chart(options.chart)
    if options.write:
        shared.write_between(PAGE, *MARKS, table + "\n", "the table")
        figure.chart(CHART)
    return 0 if any(figure.between(kind)[0] == options.seeds - CHOOSES
                    for kind in figure.kinds if kind[1]) else 1
