"""What `Client` and `AsyncClient` share: their arguments, their messages, and how long a call waits. Nothing here
waits."""
from __future__ import annotations

import math
import time as clock
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import shapes, wire
from .errors import Malformed, Refused, RunnelError
from .examples import Examples, Numbers, Posts
from .reading import json_object
from .session import Answer, Counts, Session
from .shapes import Array, Shapes
from .wire import Number

WINDOW = 10000  # examples that may wait for their answers
TIMEOUT = 30.0  # seconds
TICK = 0.25  # seconds that one wait lasts at most
BATCH = 256  # rows that learn_many sends between two looks at the answers
LEAVE = 5.0  # seconds that the end of `with` waits after an exception, and that of a program


Class = Union[str, int]  # a word, or an id


class Prediction(NamedTuple):
    """What the daemon said of an example.

    values   float32 (outputs,), of several steps (steps, outputs): what the topic `prediction` has, in one
             row; with loss gaussian means and then deviations. With `target: given` and `later` of its own y,
             made before it was learned; with `next` of the stream's next x
    loss     of the targets that this example brought, nats or squared error; None: it brought none
    number   of the example
    names    of each value of a step. Of classes that are words: the word, None for those that have not come and for
             the last, the unknown. Of targets with names: the column's name, again for each horizon and for
             deviations. None: they have no names
    classes  the target is a class, and the values are probabilities: see `label` and `probabilities`
    """

    values: NDArray[np.float32]
    loss: Optional[float]
    number: Number
    names: Optional[List[Optional[str]]] = None
    classes: bool = False

    @property
    def probabilities(self) -> Optional[Dict[Class, float]]:
        """Of the last step that of each class, by its word or number, without the unknown. None: no classes."""
        last = self.values if self.values.ndim == 1 else self.values[-1]
        named: Sequence[Optional[Class]] = range(len(last)) if self.names is None else self.names
        found = {one: float(value) for one, value in zip(named, last) if one is not None}
        return found if self.classes else None

    @property
    def label(self) -> Optional[Class]:
        """Of the last step the most probable of these. None: no class, or none has come yet."""
        found = self.probabilities
        return max(found, key=found.__getitem__) if found else None


def flags_of(end: bool, learn: bool, result: bool = False) -> int:
    """Those of a header."""
    return (wire.END if end else 0) | (0 if learn else wire.DO_NOT_LEARN) | (wire.RESULT if result else 0)


class Patience:
    """How long a call waits: so many seconds after the newest answer; None: without end."""

    def __init__(self, session: Session, timeout: Optional[float]) -> None:
        self._session, self._timeout = session, timeout
        self._seen, self._since = session.answers, clock.monotonic()

    def left(self) -> float:
        """Seconds, or Unavailable."""
        if self._timeout is None:
            return math.inf
        if self._session.answers != self._seen:
            self._seen, self._since = self._session.answers, clock.monotonic()
        left = self._since + self._timeout - clock.monotonic()
        if left <= 0:
            raise self._session.unavailable(self._timeout)
        return left


class Feeder:
    """Of both clients the base."""

    _session: Optional[Session]  # None: nothing is acknowledged

    def __init__(self, stream: str, window: int, timeout: Optional[float], producer: Optional[int], epoch: int,
                 on_refused: Optional[Callable[[Refused], None]]) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; at least one example is on its way")
        wire.key_bytes(stream)
        self.stream, self.window, self.timeout = stream, window, timeout
        self._on_refused = on_refused
        self._shapes = Shapes()
        self._examples = Examples(Numbers(producer, epoch), self._shapes)
        self._closed = False

    @property
    def counts(self) -> Counts:
        """What has become of the examples of a router."""
        return self._session.counts if self._session else Counts()

    @property
    def producer(self) -> int:
        """Whose numbers they are."""
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
        """What asks the daemon what its model takes, and says whether it has answered."""
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
        """RunnelError: the example is safe, but what was said of it is not known."""
        what, values = f"example {number.sequence} of stream {number.stream!r}", answer.prediction
        if values is None:
            raise RunnelError(f"{what} is safe, but its prediction was lost with a connection: the daemon says each "
                              "one once")
        if len(values) == 0 or len(values) % steps:
            raise Malformed(f"{what}: a prediction of {len(values)} numbers is not one of {steps} steps")
        return Prediction(values.reshape(steps, -1) if steps > 1 else values, answer.loss, number,
                          classes=self._shapes.classes)

    # ---- many examples ----

    def _many(self, xs: Any, ys: Any, stream: Optional[str], times: Optional[Sequence[float]],
              learn: bool) -> Iterator[Tuple[Number, Posts]]:
        """The messages of examples of one step each, some at a time, and the number of the last. They have their
        numbers when they are asked for: until they are sent, nothing else of the stream may be."""
        xs, ys = self._unframed(xs, self._shapes.by_name), self._unframed(ys, self._shapes.y_by_name)
        xs = xs if isinstance(xs, (np.ndarray, list, tuple)) else list(xs)
        ys = ys if ys is None or isinstance(ys, (np.ndarray, list, tuple)) else list(ys)
        for name, values in (("ys", ys), ("times", times)):
            if values is not None and len(values) != len(xs):
                raise ValueError(f"there are {len(xs)} xs, but {len(values)} {name}")
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
        """Of an example each: a series has a number (or word) of each, whatever its index is called."""
        return shapes.unframed(values, names and hasattr(values, "columns"))

    def _is_named(self, values: Any) -> bool:
        return values is not None and (self._shapes.mixed or shapes.is_named(list(values)))

    @staticmethod
    def _rows(values: Any, what: str, array: Callable[[Any], Array]) -> Array:
        """All of them, checked before the first is sent."""
        rows = np.concatenate([array(values[i:i + wire.STEPS_MAX]) for i in range(0, len(values), wire.STEPS_MAX)])
        if len(rows) != len(values):
            raise ValueError(f"{len(values)} {what} of one step each have {len(rows)} steps")
        return rows

