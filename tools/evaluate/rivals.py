# --- Rivals ---
#
# Forecasts of the next x, or of that `ahead` steps later, without a network, in original units. The
# build inserts this file into runnel-evaluate.
#
# A rival belongs to one stream. `take(x, seen)` gets the next x (columns,), with missing numbers
# held at their last value (0 at first), and the mask of observed numbers. It returns its forecast
# of the next x, or of the one `ahead` steps later, (columns,). A number that is not finite means
# the last value.
import collections
import math

import numpy as np

LAGS = 12          # last values of an autoregression
TOGETHER = 8       # columns at most that share a regression
LONGEST = 400      # longest season in steps, without --period
MEMORY, LIMIT = 1000, 30  # of running means, as for `scale: forecast`


class SeasonalNaive:
    """The value one season ago. Without a period, the season is the one of 2 to LONGEST steps
    with the smallest mean absolute error so far, over at least two seasons."""

    def __init__(self, columns, period=None, ahead=1):
        self.columns, self.period, self.ahead = columns, period, ahead
        self.past = np.zeros((LONGEST if not period else period, columns))  # newest first
        self.count = 0
        self.errors = np.zeros((LONGEST - 1, columns))  # of 2, 3, .. LONGEST steps
        self.found = np.zeros(columns, int)

    def take(self, x, seen):
        if not self.period:
            self.find(x, seen)
        self.past = np.roll(self.past, 1, axis=0)
        self.past[0] = x
        self.count += 1
        season = np.full(self.columns, self.period) if self.period else self.found
        known = (season > 0) & (self.count >= season)
        season = np.maximum(season, 1)
        back = -(-self.ahead // season) * season - self.ahead  # of the newest whole season
        return np.where(known, self.past[back, np.arange(self.columns)], x)

    def find(self, x, seen):
        steps = np.arange(2, LONGEST + 1)
        reached = steps <= self.count
        self.errors += np.where(seen & reached[:, None], np.abs(x - self.past[1:]), 0)
        compared = np.maximum(self.count + 1 - steps, 1)[:, None]
        means = np.where((compared >= steps[:, None]) & reached[:, None],
                         self.errors / compared, np.inf)
        best = means.argmin(axis=0)
        self.found = np.where(np.isfinite(means.min(axis=0)), steps[best], 0)


class Autoregression:
    """Forecasts the change over `ahead` steps by recursive least squares on the last LAGS
    values, relative to the newest one and in units of the usual change, and on the running mean;
    each column separately, or all of them `together`. Forgetting factor 0.999, prior 0 with
    precision 100: the first forecasts equal the last value."""
    KEEP, PRIOR = 0.999, 100.0
    FAR, FAR_TARGET = 10, 5
    TRACE = 1e4  # of P per number: it does not forget above this limit
    SINGULAR = 1e12

    def __init__(self, columns, together=False, ahead=1):
        groups, width = (1, columns) if together else (columns, 1)
        self.inputs = LAGS * width + 1
        self.weight = np.zeros((groups, self.inputs, width))
        self.p = self.prior(groups)
        self.levels = [Moments(MEMORY, LIMIT) for _ in range(columns)]
        self.changes = [Moments(MEMORY, LIMIT) for _ in range(columns)]
        self.known = np.zeros(columns, bool)
        # forecasts of earlier steps, oldest first
        self.past, self.waiting = None, collections.deque(maxlen=ahead)

    def prior(self, groups):
        return np.tile(np.eye(self.inputs) / self.PRIOR, (groups, 1, 1))

    def take(self, x, seen):
        waited = len(self.waiting) == self.waiting.maxlen
        before, unit, phi, known = self.waiting[0] if waited else (None, None, None, False)
        if waited:
            self.learn((x - before) / unit, phi, seen & known)
        if self.past is None:
            self.past = np.tile(x, (LAGS, 1))
        first = seen & ~self.known
        self.past[:, first] = x[first]
        for k in np.flatnonzero(seen):
            if waited and known[k]:
                self.changes[k].add(x[k] - before[k])
            self.levels[k].add(x[k])
        self.known = self.known | seen
        self.past = np.roll(self.past, 1, axis=0)
        self.past[0] = x
        unit = np.array([usual_change(m) for m in self.changes])
        mean = np.array([m.mean for m in self.levels])
        rows = np.concatenate([self.past[1:] - x, [mean - x]]) / unit  # (LAGS, columns)
        groups = len(self.weight)
        phi = np.clip(rows.T.reshape(groups, -1), -self.FAR, self.FAR)
        phi = np.concatenate([phi, np.ones((groups, 1))], axis=1)[:, :, None]
        self.waiting.append((x, unit, phi, self.known))
        return x + unit * self.predict(phi)

    def predict(self, phi):
        return (self.weight.transpose(0, 2, 1) @ phi).reshape(-1)

    def learn(self, y, phi, seen):
        y = np.clip(y, -self.FAR_TARGET, self.FAR_TARGET)
        error = np.where(seen, y - self.predict(phi), 0).reshape(len(self.weight), 1, -1)
        gain = self.p @ phi
        q = phi.transpose(0, 2, 1) @ gain
        if not ((q >= 0) & (q < self.SINGULAR)).all():
            self.p = self.prior(len(self.weight))
            return
        trace = np.trace(self.p, axis1=1, axis2=2)[:, None, None]
        keep = np.where(trace > self.TRACE * self.inputs, 1.0, self.KEEP)
        row = gain.transpose(0, 2, 1)
        gain = gain / (keep + q)
        self.weight = self.weight + gain @ error
        self.p = (self.p - gain @ row) / keep


def usual_change(moments):
    """The root mean square change; 1 without changes."""
    return math.sqrt(moments.variance + moments.mean**2) or 1.0


class Guarded:
    """Models of River, one per column. They use stochastic gradient descent and may diverge: a
    forecast more than FAR usual changes from the last value is replaced by it."""
    FAR = 10

    def __init__(self, columns, make):
        self.models = [make() for _ in range(columns)]
        self.changes = [Moments(MEMORY, LIMIT) for _ in range(columns)]
        self.last = [None] * columns

    def take(self, x, seen):
        forecast = np.full(len(x), np.nan)
        for k in np.flatnonzero(seen):
            forecast[k] = self.step(k, float(x[k]))
        return forecast

    def step(self, k, x):
        if self.last[k] is not None:
            self.changes[k].add(x - self.last[k])
        self.last[k] = x
        try:
            forecast = self.predict(k, x)
        except (ArithmeticError, ValueError, IndexError):  # too early, or an overflow
            return math.nan
        return forecast if abs(forecast - x) <= self.FAR * usual_change(self.changes[k]) else math.nan


class Series(Guarded):
    """A model of time_series."""

    def predict(self, k, x):
        self.models[k].learn_one(x)
        return self.models[k].forecast(horizon=1)[0]


class Regression(Guarded):
    """A regressor: forecasts the next change from the last LAGS values relative to the newest
    one."""

    def __init__(self, columns, make):
        super().__init__(columns, make)
        self.past = [collections.deque(maxlen=LAGS) for _ in range(columns)]
        self.features = [None] * columns

    def predict(self, k, x):
        past = self.past[k]
        if self.features[k]:
            self.models[k].learn_one(self.features[k], x - past[0])
        past.appendleft(x)
        self.features[k] = {n: past[min(n, len(past) - 1)] - x for n in range(1, LAGS)}
        return x + self.models[k].predict_one(self.features[k])


# Values of --rivals.
RIVALS = ("seasonal", "ar", "var", "snarimax", "holt-winters", "arf")


def river_rivals(columns, period):
    """Models of River with the settings of its documentation; empty if it is not installed."""
    try:
        from river import forest, time_series
    except ImportError:
        return {}
    season = {"m": period, "sp": 1} if period else {}
    seasonal = {"gamma": 0.6, "seasonality": period} if period else {}
    return {
        "SNARIMAX": lambda: Series(columns, lambda: time_series.SNARIMAX(p=LAGS, d=1, q=0, **season)),
        "Holt-Winters": lambda: Series(columns, lambda: time_series.HoltWinters(
            alpha=0.3, beta=0.1, **seasonal)),
        "ARF": lambda: Regression(columns, lambda: forest.ARFRegressor(seed=1)),
    }


def all_rivals(columns, period, ahead=1):
    """{name: a function that makes one for a stream}. Those of River only forecast the next x."""
    rivals = {"seasonal": lambda: SeasonalNaive(columns, period, ahead),
              f"AR({LAGS})": lambda: Autoregression(columns, ahead=ahead)}
    if 1 < columns <= TOGETHER:
        rivals[f"VAR({LAGS})"] = lambda: Autoregression(columns, True, ahead)
    return {**rivals, **(river_rivals(columns, period) if ahead == 1 else {})}
