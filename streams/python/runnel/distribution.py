"""The distribution of forecasts: `Distribution`."""
from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import Malformed

Floats = NDArray[np.float64]


class Distribution(NamedTuple):
    """Quantiles of the values to come, in original units.

    levels     (levels,) rising; of the daemon's distribution.levels
    quantiles  (columns, levels) their values; several horizons: (horizons, columns, levels),
               several steps: (steps, ...). NaN before there is a distribution
    """

    levels: Floats
    quantiles: Floats

    def quantile(self, q: float) -> Floats:
        """Return the value of each column (..., columns) that the next one is below with the
        probability `q`, linear between two levels. Raises ValueError outside the levels."""
        levels = self.levels
        if not levels[0] <= q <= levels[-1]:
            raise ValueError(f"quantile {q:g}: expected {levels[0]:g} to {levels[-1]:g}, the published levels; add it to "
                             "distribution.levels of the daemon")
        above = int(np.searchsorted(levels, q))
        below = max(above - 1, 0)
        share = (q - levels[below]) / (levels[above] - levels[below]) if above > below else 1.0
        found: Floats = (1 - share) * self.quantiles[..., below] + share * self.quantiles[..., above]
        return found

    def cdf(self, x: ArrayLike) -> Floats:
        """Return the probability of a value of at most `x` (a number, or one for each column),
        linear between two quantiles. NaN beyond the outermost ones: publish more levels."""
        values, levels, x = self.quantiles, self.levels, np.asarray(x, float)[..., None]
        n = np.sum(values <= x, axis=-1, keepdims=True)
        below, above = np.maximum(n - 1, 0), np.minimum(n, len(levels) - 1)
        low, high = np.take_along_axis(values, below, -1), np.take_along_axis(values, above, -1)
        share = np.divide(x - low, high - low, out=np.zeros_like(low), where=high > low)
        found: Floats = levels[below] + share * (levels[above] - levels[below])
        inside = (x >= values[..., :1]) & (x <= values[..., -1:])
        return np.where(inside, found, np.nan)[..., 0]


def _filled(quantiles: Any, count: int) -> Any:
    """Replace null by NaN for each level."""
    if quantiles is None:
        return [np.nan] * count
    nested = isinstance(quantiles, list) and quantiles and isinstance(quantiles[0], (list, type(None)))
    return [_filled(one, count) for one in quantiles] if nested else quantiles


def distribution_of(levels: Any, quantiles: Any, what: str) -> Optional[Distribution]:
    """Return the distribution of a message; None: it has no levels. Raises Malformed."""
    if levels is None or quantiles is None:
        return None
    try:
        found = Distribution(np.array(levels, float), np.array(_filled(quantiles, len(levels)), float))
        if found.levels.ndim == 1 and found.quantiles.shape[-1] == len(levels) > 0 and (np.diff(found.levels) > 0).all():
            return found
    except (TypeError, ValueError, IndexError):
        pass
    raise Malformed(f"{what}: invalid quantiles")


def distribution_of_answer(frame: bytes, shape: Tuple[int, ...], what: str) -> Optional[Distribution]:
    """Return the distribution of a prediction of this shape; the frame has the levels, then the
    quantiles of each number. Raises Malformed."""
    try:
        rows = np.frombuffer(frame, "<f8").reshape(1 + math.prod(shape), -1)
    except ValueError:
        raise Malformed(f"{what}: invalid quantiles: a frame of {len(frame)} bytes") from None
    return distribution_of(rows[0], rows[1:].reshape(*shape, rows.shape[1]), what)
