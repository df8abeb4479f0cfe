# --- Baselines ---
#
# The loss of simple predictions of classes and pen strokes without a network, on the same targets.
# The build inserts this file into runnel-evaluate.
#
# Each baseline is online, like the network: it predicts a target from earlier ones, is scored in
# the network's units, and then learns the target. `take(example)` gets an example of one step, a
# dict as `runnel-feed --print` writes it, and returns its Score, or None if the example has no
# target.
import collections
import math

# loss in nats as in the contract; metric is averaged for the daemon's `metric`: the squared error
# in original units, whether the class was right (1.0 or 0.0), or None.
Score = collections.namedtuple("Score", "loss metric")


class Moments:
    """Running mean and population variance of one number, with the `memory` and `limit` of
    `scale: standard`."""

    FIRST = 30  # values without limit

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


class Frequencies:
    """The probability of a class is its frequency so far (with one added to each count),
    independent of the previous class; the most frequent class is the guess."""

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
    """Pen strokes: one normal over (dx, dy) with the mean and covariance of all movements so
    far, and the frequency of the end of a stroke."""

    def __init__(self):
        self.name = "one normal, running moments"
        self.dx, self.dy = Moments(), Moments()
        self.products = 0.0  # sum of products of dx's and dy's deviations
        self.lifted, self.count = 1, 2  # one is added to each count
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
        # Prior of the moments: a standard normal, with the weight of one observation.
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


def choose_baseline(output):
    """The baseline for the `output` of a model; None: use only the daemon's own."""
    following = output.get("target", "given") == "next"
    if output["loss"] == "softmax":
        return Frequencies(output["size"], following)
    if output["loss"] == "mixture" and following:
        return OneNormal()
    return None
