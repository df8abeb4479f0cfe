"""Results of runnel-experiment for tools/figures/paper: runs with their settings, and for each
kind of them the one with the best rate."""
import contextlib
import math
import sqlite3
import statistics

CHOOSING = 1  # the seed whose losses choose the rate; it is not reported


class Results:
    """results.sqlite of an experiment's directory. A run is a dict: the columns of the table
    runs, the names of its stream and variant, and the variant's settings, by the last word of
    each key: norm, cell, rate."""

    def __init__(self, directory):
        path = directory / "results.sqlite"
        self.database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.database.row_factory = sqlite3.Row
        settings = {}
        for row in self.database.execute("SELECT variant, key, value FROM settings"):
            settings.setdefault(row["variant"], {})[row["key"].rpartition(".")[2]] = row["value"]
        self.runs = [dict(settings.get(row["variant"], {}), **row) for row in self.database.execute(
            "SELECT runs.*, variants.name AS name, streams.name AS stream_name FROM runs"
            " JOIN variants USING (variant) JOIN streams USING (stream)"
            " WHERE state != 'waiting' ORDER BY run")]
        for run in self.runs:
            run["stream"] = run.pop("stream_name")
            run["settings"] = list(settings.get(run["variant"], {}))
            run["results"] = self
            run.setdefault("kind", run.get("optimizer", "{kind: }")[len("{kind: "):-1].partition(",")[0])
            run["label"] = " ".join(filter(None, (run.get("norm"), run.get("norm_momentum"))))

    def to_run(self):
        """Names of the variants that are best of all rates for the first seed, on any stream."""
        kinds = {}
        for run in self.runs:
            if run["seed"] == CHOOSING:
                others = tuple((key, run[key]) for key in run["settings"] if key != "rate")
                kinds.setdefault((run["stream"], others), []).append(run)
        return list(dict.fromkeys(min(runs, key=loss)["name"] for runs in kinds.values()))


def kinds(results, *keys):
    """{values of these keys: runs with the best rate} of several results, in the order of the
    variants. With several rates the first seed chooses, and is not among the runs."""
    found = {}
    for run in (run for one in results for run in one.runs):
        of = found.setdefault(tuple(run.get(key) for key in keys), {})
        of.setdefault(run.get("rate"), {})[run["seed"]] = run
    return {kind: chosen(rates) for kind, rates in found.items()}


def curve(run):
    """[(examples, mean loss since the previous point)]."""
    return [(row[0], row[1] if row[1] is not None else math.nan) for row in run["results"].database.execute(
        "SELECT examples, mean FROM curves WHERE run = ? ORDER BY point", (run["run"],))]


def weights(run, tensor):
    """[(norm, change since the previous point)] of a tensor."""
    return list(map(tuple, run["results"].database.execute(
        "SELECT norm, change FROM weights WHERE run = ? AND tensor = ? ORDER BY point", (run["run"], tensor))))


def loss(run):
    """Its mean loss; one that is not finite is worse than any."""
    return run["mean"] if run and run["state"] == "done" and run["mean"] is not None else math.inf


def chosen(rates):
    """The runs with the best rate, by seed, from {rate: {seed: run}}."""
    if len(rates) == 1:
        (seeds,) = rates.values()
        return [seeds[seed] for seed in sorted(seeds)]
    best = min(rates, key=lambda rate: loss(rates[rate].get(CHOOSING)))
    return ([run for seed, run in sorted(rates[best].items()) if seed != CHOOSING]
            or list(rates[best].values()))  # if only these have been run


def mean_std(values):
    values = [value for value in values if value is not None and math.isfinite(value)]
    if not values:
        return math.nan, math.nan
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def spread(values, digits=3):
    """Mean and deviation as a cell of a table."""
    mean, deviation = mean_std(values)
    if math.isnan(mean):
        return ""
    return f"{mean:.{digits}f}" + (f"±{deviation:.{digits}f}" if len(values) > 1 else " (one seed)")


def averaged(runs):
    """The mean curve of runs of equal length: examples, losses."""
    with contextlib.suppress(IndexError):
        curves = [curve(run) for run in runs if run["state"] == "done"]
        return ([point[0] for point in curves[0]],
                [statistics.fmean(points) for points in zip(*([point[1] for point in points] for points in curves))])
    return [], []


def between(points, begin, end):
    """The mean loss of examples begin + 1 to end."""
    values = [value for examples, value in points if begin < examples <= end and math.isfinite(value)]
    return statistics.fmean(values) if values else math.nan


BEFORE, AFTER, SPAN, FACTOR = 2000, 1000, 500, 1.25


def recovery(points, change, end):
    """(level before a change, in the first examples after it, examples until it is back). It is
    back when the mean over the previous SPAN is at most FACTOR times the level before; inf: not
    before the end."""
    before = between(points, change - BEFORE, change)
    after = between(points, change, change + AFTER)
    for examples, _ in points:
        if change + SPAN <= examples <= end and between(points, examples - SPAN, examples) <= FACTOR * before:
            return before, after, examples - change
    return before, after, math.inf
