"""The common part of `Client` and `AsyncClient`: arguments, messages and time limits. Nothing here
waits."""
from __future__ import annotations

import math
import time as clock
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import shapes, wire
from .distribution import Distribution, Floats, distribution_of_answer
from .errors import Malformed, Refused, RunnelError
from .examples import Examples, Numbers, Posts
from .reading import json_object
from .session import Answer, Counts, Session
from .shapes import Array, Shapes
from .wire import Number

WINDOW = 10000  # maximum number of unanswered examples
TIMEOUT = 30.0  # seconds
TICK = 0.25  # seconds of one wait, at most
BATCH = 256  # rows of learn_many between two looks at the answers
LEAVE = 5.0  # seconds to wait at the end of `with` after an exception, or of the program


Class = Union[str, int]  # a word, or an id


class Prediction(NamedTuple):
    """The daemon's prediction for an example.

    values   float32 (outputs,), of several steps (steps, outputs): as in the topic `prediction`;
             with loss gaussian means, then deviations. With `target: given` and `later`, of its own
             y, made before it was learned; with `next`, of the stream's next x. Empty with
             `output.sequence` and `loss: ranking`
    loss     of the targets in this example, nats or squared error; None: it had no targets
    number   of the example
    names    of each value of a step. Classes that are words: the word, None for classes without a
             word yet and for the last one, the unknown. Named targets: the column's name, repeated
             for horizons and deviations. None: no names
    classes  the target is a class, and the values are probabilities: see `label` and
             `probabilities`
    distribution  its quantiles have one more axis than `values`; None: the daemon has none
    """

    values: NDArray[np.float32]
    loss: Optional[float]
    number: Number
    names: Optional[List[Optional[str]]] = None
    classes: bool = False
    distribution: Optional[Distribution] = None

    def quantile(self, q: float) -> Floats:
        """Return Distribution.quantile: a number for each of `values`."""
        return self._known().quantile(q)

    def cdf(self, x: ArrayLike) -> Floats:
        """Return Distribution.cdf: a probability for each of `values`."""
        return self._known().cdf(x)

    def _known(self) -> Distribution:
        if self.distribution is None:
            raise ValueError("the prediction has no distribution: set distribution.enabled: true and "
                             "distribution.levels in the configuration of the daemon, or upgrade it; "
                             "Client(check=False) does not ask for distributions")
        return self.distribution

    @property
    def probabilities(self) -> Optional[Dict[Class, float]]:
        """Return the last step's probability of each class, by word or number, without the unknown.
        None: no classes."""
        last = self.values if self.values.ndim == 1 else self.values[-1]
        named: Sequence[Optional[Class]] = range(len(last)) if self.names is None else self.names
        found = {one: float(value) for one, value in zip(named, last) if one is not None}
        return found if self.classes else None

    @property
    def label(self) -> Optional[Class]:
        """Return the most probable class of the last step. None: no classes, or no class yet."""
        found = self.probabilities
        return max(found, key=found.__getitem__) if found else None


def flags_of(end: bool, learn: bool, result: bool = False) -> int:
    """Return the flags of a header."""
    return (wire.END if end else 0) | (0 if learn else wire.DO_NOT_LEARN) | (wire.RESULT if result else 0)


class Patience:
    """A time limit that starts again with each answer; None: no limit."""

    def __init__(self, session: Session, timeout: Optional[float]) -> None:
        self._session, self._timeout = session, timeout
        self._seen, self._since = session.answers, clock.monotonic()

    def left(self) -> float:
        """Return the seconds left, or raise Unavailable."""
        if self._timeout is None:
            return math.inf
        if self._session.answers != self._seen:
            self._seen, self._since = self._session.answers, clock.monotonic()
        left = self._since + self._timeout - clock.monotonic()
        if left <= 0:
            raise self._session.unavailable(self._timeout)
        return left


class Feeder:
    """The base of both clients."""

    _session: Optional[Session]  # None: without acknowledgements

    def __init__(self, stream: str, window: int, timeout: Optional[float], producer: Optional[int], epoch: int,
                 on_refused: Optional[Callable[[Refused], None]]) -> None:
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        wire.key_bytes(stream)
        self.stream, self.window, self.timeout = stream, window, timeout
        self._on_refused = on_refused
        self._shapes = Shapes()
        self._examples = Examples(Numbers(producer, epoch), self._shapes)
        self._closed = False

    @property
    def counts(self) -> Counts:
        """Counts of the examples of a router."""
        return self._session.counts if self._session else Counts()

    @property
    def producer(self) -> int:
        """The producer of the examples."""
        return self._examples.numbers.producer

    def _stream(self, stream: Optional[str]) -> str:
        return self.stream if stream is None else stream

    def _waiting(self) -> int:
        return len(self._session.waiting) if self._session else 0

    def _raise_refused(self) -> None:
        if self._session and self._session.refused:
            if self._on_refused is None:
                self._session.raise_refused()
            refused, self._session.refused = self._session.refused, []
            for one in refused:
                if self._on_refused:
                    self._on_refused(one)

    def _schema(self) -> Callable[[], bool]:
        """Ask the daemon for the model's shapes; return a function that checks whether it has
        answered."""
        assert self._session
        ask, what = self._session.ask, f"{self._session.peer.endpoint}: the schema"
        answers: List[Optional[bytes]] = [None]

        def answered() -> bool:
            answer = answers[-1]
            if answer is None:
                ask(answers.append)
            else:
                self._shapes.take(json_object(answer, what), what)
            return answer is not None

        return answered

    def _prediction(self, answer: Answer, number: Number, steps: int) -> Prediction:
        """Return the prediction. Raises RunnelError if it was lost, although the example is safe.
        """
        what, values = f"example {number.sequence} of stream {number.stream!r}", answer.prediction
        if values is None:
            raise RunnelError(f"{what} is safe, but its prediction was lost with a connection: the daemon sends each "
                              "one only once")
        if len(values) % steps:
            raise Malformed(f"{what}: invalid prediction: {len(values)} numbers for {steps} steps")
        values = values.reshape(steps, -1) if steps > 1 else values
        return Prediction(values, answer.loss, number, classes=self._shapes.classes, distribution=None
                          if answer.quantiles is None else distribution_of_answer(answer.quantiles, values.shape, what))

    # ---- Many examples ----

    def _many(self, xs: Any, ys: Any, stream: Optional[str], times: Optional[Sequence[float]],
              learn: bool) -> Iterator[Tuple[Number, Posts]]:
        """Yield messages of examples of one step each, in batches, with the number of the last.
        Numbers are assigned when a batch is yielded: send it before any other example of the
        stream."""
        xs, ys = self._unframed(xs, self._shapes.by_name), self._unframed(ys, self._shapes.y_by_name)
        xs = xs if isinstance(xs, (np.ndarray, list, tuple)) else list(xs)
        ys = ys if ys is None or isinstance(ys, (np.ndarray, list, tuple)) else list(ys)
        for name, values in (("ys", ys), ("times", times)):
            if values is not None and len(values) != len(xs):
                raise ValueError(f"expected {len(xs)} {name}, one for each of xs, got {len(values)}")
        stream, flags = self._stream(stream), flags_of(False, learn)
        when = None if times is None else [shapes.seconds(time) for time in times]
        if self._is_named(xs) or self._is_named(ys):
            for i, x in enumerate(xs):
                number, ident, frames, _ = self._examples.example(x, None if ys is None else ys[i], stream,
                                                                  None if when is None else when[i], flags)
                yield number, [(ident, frames)]
        elif len(xs) > 0:
            x = self._rows(xs, "examples", lambda some: self._shapes.x_array(some, many=True))
            y = None if ys is None else self._rows(ys, "targets", lambda some: self._shapes.y_array(some, None, many=True))
            for i in range(0, len(x), BATCH):
                yield self._examples.rows(x[i:i + BATCH], None if y is None else y[i:i + BATCH], stream,
                                          when[i:i + BATCH] if when else None, flags)

    @staticmethod
    def _unframed(values: Any, names: bool) -> Any:
        """Convert a value for each example: a series has one number or word per example, whatever
        its index."""
        return shapes.unframed(values, names and hasattr(values, "columns"))

    def _is_named(self, values: Any) -> bool:
        return values is not None and (self._shapes.mixed or shapes.is_named(list(values)))

    @staticmethod
    def _rows(values: Any, what: str, array: Callable[[Any], Array]) -> Array:
        """Convert all rows, and check them before the first is sent."""
        rows = np.concatenate([array(values[i:i + wire.STEPS_MAX]) for i in range(0, len(values), wire.STEPS_MAX)])
        if len(rows) != len(values):
            raise ValueError(f"expected one step for each of {len(values)} {what}, got {len(rows)} steps")
        return rows

