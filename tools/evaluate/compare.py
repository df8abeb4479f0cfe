# --- The comparison ---
#
# Errors of the network's forecasts and of its rivals, number by number. The build inserts this file
# into runnel-evaluate.
import collections
import math

import numpy as np

WILD = 1e9  # times the median change: no real value


COVERAGE = 50, 90, 99  # percent


def means(values, chosen):
    """Of each column, NaN without numbers."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(chosen, values, 0).sum(axis=0) / chosen.sum(axis=0)


class Comparison:
    """newest: the examples of the last example's stream. truth, last (examples, columns): the
    true values, and the values `ahead` steps before, NaN without a target. forecasts {method:
    (examples, columns)}: the forecasts of the true values. crps (examples, columns), pit
    (examples, columns, 2): of their distributions, NaN without."""

    REPORT_EVERY = 500  # examples

    def __init__(self, examples, rivals, report=lambda n: None, ahead=1):
        """`rivals` from all_rivals; examples as `runnel-feed --print` writes them, one step
        each; report(n) is called periodically."""
        columns = len(examples[0]["x"])
        self.truth = np.array([[math.nan if v is None else v for v in e["x"]] for e in examples])
        self.forecasts = {name: np.full(self.truth.shape, math.nan) for name in rivals}
        self.last = np.full(self.truth.shape, math.nan)
        self.crps = np.full(self.truth.shape, math.nan)
        self.pit = np.full((*self.truth.shape, 2), math.nan)
        self.newest = np.array([n for n, e in enumerate(examples) if e["stream"] == examples[-1]["stream"]])
        self.ahead = ahead
        self.before = np.full(len(examples), -1)  # the stream's example `ahead` before, -1: none
        newest = {}
        for n, example in enumerate(examples):
            past = newest.setdefault(example["stream"], collections.deque(maxlen=ahead))
            self.before[n] = past[0] if len(past) == ahead else -1
            past.append(n)
            if example.get("end"):
                past.clear()
        lanes = {}
        for n, example in enumerate(examples):
            if n % self.REPORT_EVERY == 0:
                report(n)
            lane = lanes.pop(example["stream"], None) or Lane(columns, rivals, ahead)
            if self.before[n] >= 0:
                x, known, forecasts = lane.past[0]
                self.last[n] = np.where(known, x, math.nan)
                for name, forecast in forecasts.items():
                    self.forecasts[name][n] = np.where(np.isfinite(forecast), forecast, x)
            lane.take(self.truth[n])
            if not example.get("end"):
                lanes[example["stream"]] = lane

    def add(self, name, predicted):
        """Adds the forecasts of a method after each example, {its number from 0: (columns,)}."""
        forecast = self.forecasts[name] = np.full(self.truth.shape, math.nan)
        for n in np.flatnonzero(self.before >= 0):
            forecast[n] = predicted.get(self.before[n], math.nan)

    def finish(self, main):
        """Compares the targets for which the network, called `main`, has a forecast."""
        self.errors = {"last value": self.truth - self.last}
        for name, forecast in self.forecasts.items():
            self.errors[name] = self.truth - forecast
        self.main = main
        self.targets = np.isfinite(self.errors[main]) & np.isfinite(self.last)
        change = np.abs(self.errors["last value"])
        usual = [np.median(c[c > 0]) if (c > 0).any() else math.inf for c in change.T]
        self.wild = self.targets & (change > WILD * np.array(usual))
        self.targets &= ~self.wild

    def squares(self, name, part=slice(None)):
        """Mean squared error of each column, (columns,); NaN without targets."""
        return means(self.errors[name][part] ** 2, self.targets[part])

    def rmse(self, name, part=slice(None)):
        """Over all columns together."""
        chosen = self.targets[part]
        return math.sqrt((np.where(chosen, self.errors[name][part], 0) ** 2).sum() / max(1, chosen.sum()))

    def mae(self, name, part=slice(None)):
        return means(np.abs(self.errors[name][part]), self.targets[part])

    def scores(self, name):
        """CRPS of the network's distributions, and for a rival, whose forecasts have none, the absolute
        error on the same numbers: the mean of each column (columns,), and over all."""
        chosen = self.targets & np.isfinite(self.crps)
        values = self.crps if name == self.main else np.abs(self.errors[name])
        return means(values, chosen), float(means(values.reshape(-1), chosen.reshape(-1)))

    def score_skills(self, against):
        """1 - CRPS / that of a rival, of each column; NaN if it has none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            skills = 1 - self.scores(self.main)[0] / self.scores(against)[0]
        return np.where(np.isfinite(skills), skills, math.nan)

    def coverage(self):
        """{percent: share of the true values within that central interval}. On a jump of the
        distribution a value counts in part."""
        below, at = self.pit[self.targets & np.isfinite(self.crps)].T
        found = {}
        for percent in COVERAGE if len(at) else ():
            low, high = 0.5 - percent / 200, 0.5 + percent / 200
            part = np.clip(np.minimum(at, high) - np.maximum(below, low), 0, None)
            with np.errstate(invalid="ignore"):
                found[percent] = float(np.where(at > below, part / (at - below), (at >= low) & (at <= high)).mean())
        return found

    def skills(self, against, part=slice(None)):
        """1 - mean squared error / that of a rival, of each column; NaN if the rival has no
        error."""
        with np.errstate(invalid="ignore", divide="ignore"):
            skills = 1 - self.squares(self.main, part) / self.squares(against, part)
        return np.where(np.isfinite(skills), skills, math.nan)

    def skill(self, against, part=slice(None)):
        """The mean over the columns with a skill."""
        skills = self.skills(against, part)
        return float(np.nanmean(skills)) if np.isfinite(skills).any() else math.nan


class Lane:
    """One stream: its rivals; and for the last `ahead` steps x, which numbers were known, and
    the rivals' forecasts."""

    def __init__(self, columns, rivals, ahead):
        self.x, self.known = np.zeros(columns), np.zeros(columns, bool)
        self.rivals = {name: make() for name, make in rivals.items()}
        self.past = collections.deque(maxlen=ahead)

    def take(self, x):
        seen = np.isfinite(x)
        self.x = np.where(seen, x, self.x)
        self.known = self.known | seen
        forecasts = {name: rival.take(self.x, seen) for name, rival in self.rivals.items()}
        self.past.append((self.x, self.known, forecasts))
