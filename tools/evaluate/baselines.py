# --- the baselines ---
#
# What a prediction costs that needs no network: the simplest honest rival on the same targets. The build
# puts this file into runnel-evaluate.
#
# Each baseline is online as the network is: it predicts a target from what came before it, is scored
# in the network's own units, and only then takes the target in. `take(example)` gets one example of
# one step, a dict as `runnel-feed --print` writes it, and returns its Score, or None when the example
# brings no target.
import collections
import math

# loss in nats as the contract defines it; metric is what is averaged for the daemon's `metric`: the
# squared error in original units, whether the class was right (1.0 or 0.0), or None.
Score = collections.namedtuple("Score", "loss metric")

SMALLEST_SPREAD = 1e-3  # of a normal, in the data's standard deviations: a sensor may repeat itself


class Moments:
    """Running mean and population variance of one number; with the `memory` and `limit` of
    `scale: standard`."""

    FIRST = 30  # values that are not limited

    def __init__(self, memory=0, limit=0):
        self.memory, self.limit = memory, limit
        self.count, self.mean, self.variance = 0, 0.0, 0.0

    def add(self, value):
        self.count += 1
        rate = 1 / min(self.count, self.memory or self.count)
        change = value - self.mean
        if self.limit and self.count > self.FIRST:
            deviation = max(math.sqrt(self.variance), 1e-9 * abs(self.mean) + 1e-12)
            change = max(-self.limit * deviation, min(self.limit * deviation, change))
        self.mean += rate * change
        self.variance = (1 - rate) * (self.variance + rate * change * change)

    @property
    def squares(self):
        """The sum of squared deviations."""
        return self.variance * self.count

    def scaled(self, value):
        """(value - mean) / deviation, within the limit; 0 while there is no deviation."""
        z = (value - self.mean) / math.sqrt(self.variance) if self.variance > 0 else 0.0
        return max(-self.limit, min(self.limit, z)) if self.limit else z


class LastValue:
    """Every number stays what it was. Its loss is the squared error or, with `spread`, that of a
    normal whose variance is the mean square of all changes so far. Units are those of the network:
    with `scale: standard` running standard deviations, the target's own number included."""

    def __init__(self, standard, spread, memory=0, limit=0):
        self.standard, self.spread = standard, spread
        self.name = "last value and usual change" if spread else "last value"
        self.moments = collections.defaultdict(lambda: Moments(memory, limit))  # of each number of x
        self.changes = collections.defaultdict(Moments)
        self.last = {}  # of each stream

    def take(self, example):
        key, x = example["stream"], example["x"]
        known = self.last.get(key)
        losses, errors = [], []
        for k, value in enumerate(x):
            if value is None:
                continue
            self.moments[k].add(value)
            if known is None:
                continue
            # Before a number has a last value its mean takes its place, as for the network.
            last = self.moments[k].mean if known[k] is None else known[k]
            losses.append(self.loss(k, value, last))
            errors.append((value - last) ** 2)
        old = known or [None] * len(x)
        self.last[key] = [o if v is None else v for v, o in zip(x, old)]
        if example.get("end"):
            del self.last[key]
        if not losses:
            return None
        return Score(sum(losses) / len(losses), sum(errors) / len(errors))

    def loss(self, k, value, last):
        moments, error, unit = self.moments[k], value - last, 1.0
        if self.standard:
            error = moments.scaled(value) - moments.scaled(last)
            unit = moments.variance or 1.0  # z is 0 while there is no deviation
        if not self.spread:
            return error * error
        changes = self.changes[k]
        variance = (changes.variance + changes.mean**2) / unit if changes.count else 1.0
        variance = max(variance, SMALLEST_SPREAD**2)
        changes.add(error * math.sqrt(unit))
        return 0.5 * (math.log(2 * math.pi * variance) + error * error / variance)


class Frequencies:
    """The classes seen so far, each as probable as it was frequent (one is added to every count),
    whatever came just before; the most frequent one is the guess."""

    def __init__(self, classes, following):
        self.following = following  # the target is the stream's next x, not y
        self.name = "running frequencies"
        self.counts = [1] * classes
        self.total = classes
        self.guess = 0
        self.begun = set()  # streams whose next x is a target

    def take(self, example):
        if not self.following:
            y = example.get("y")
            return self.score(y[0]) if y else None
        key, score = example["stream"], None
        if key in self.begun:
            score = self.score(example["x"][0])
        self.begun.add(key)
        if example.get("end"):
            self.begun.discard(key)
        return score

    def score(self, target):
        loss = -math.log(self.counts[target] / self.total)
        right = float(target == self.guess)
        self.counts[target] += 1
        self.total += 1
        if self.counts[target] > self.counts[self.guess]:
            self.guess = target
        return Score(loss, right)


class OneNormal:
    """Pen strokes: one normal over (dx, dy) with the mean and covariance of all movements so far,
    and the pen lifted as often as it was."""

    def __init__(self):
        self.name = "one normal, running moments"
        self.dx, self.dy = Moments(), Moments()
        self.products = 0.0  # sum of dx's and dy's common deviations
        self.lifted, self.count = 1, 2  # one is added to either count
        self.begun = set()

    def take(self, example):
        key, score = example["stream"], None
        if key in self.begun:
            score = Score(self.loss(*example["x"]), None)
            self.add(*example["x"])
        self.begun.add(key)
        if example.get("end"):
            self.begun.discard(key)
        return score

    def loss(self, dx, dy, end):
        n = self.dx.count
        # Before there are moments: those of a standard normal, as strong as one observation.
        a, b = ((m.squares + 1) / (n + 1) for m in (self.dx, self.dy))
        c = self.products / (n + 1)
        u, v = dx - self.dx.mean, dy - self.dy.mean
        determinant = a * b - c * c
        distance = (b * u * u - 2 * c * u * v + a * v * v) / determinant
        lifted = self.lifted / self.count
        pen = math.log(lifted if end else 1 - lifted)
        return math.log(2 * math.pi) + 0.5 * (math.log(determinant) + distance) - pen

    def add(self, dx, dy, end):
        before = dx - self.dx.mean
        self.dx.add(dx)
        self.dy.add(dy)
        self.products += before * (dy - self.dy.mean)
        self.lifted += end != 0
        self.count += 1


def choose_baseline(source, output):
    """The baseline for the `input` and `output` of a model, or None where there is none here."""
    following = output.get("target", "given") == "next"
    scale = source.get("scale", "none")
    if output["loss"] == "softmax":
        return Frequencies(output["size"], following)
    if output["loss"] in ("squared", "gaussian") and following and scale != "forecast":
        return LastValue(scale == "standard", output["loss"] == "gaussian",
                         source.get("memory", 0), source.get("limit", 0))
    if output["loss"] == "mixture" and following:
        return OneNormal()
    return None
