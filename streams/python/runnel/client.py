"""Send examples to a daemon: `Client`."""
from __future__ import annotations

import atexit
import sys
import time as clock
import weakref
from types import TracebackType
from typing import Any, Callable, List, Optional, Sequence, Type

import zmq

from . import wire
from .control import Control
from .errors import Refused, RunnelError, Unavailable
from .examples import Posts
from .feeding import BATCH, LEAVE, TICK, TIMEOUT, WINDOW, Feeder, Patience, Prediction, flags_of
from .peer import Path, Peer
from .push import Push, milliseconds
from .session import Answer, Frames, Session
from .shapes import Time
from .wire import Number

LOOK = 0.02  # seconds between two looks of `learn` at answers and the connection
IN, OUT = int(zmq.POLLIN), int(zmq.POLLOUT)

_open: "weakref.WeakSet[Client]" = weakref.WeakSet()  # clients to close at the end of the program


@atexit.register
def _close_all() -> None:
    for client in list(_open):
        try:
            client.timeout = LEAVE if client.timeout is None else min(client.timeout, LEAVE)
            client.close()
        except RunnelError as error:
            print(f"runnel: {error}", file=sys.stderr)


class Pending:
    """An example whose answer may not have arrived yet."""

    def __init__(self, client: "Client", number: Number, steps: int) -> None:
        self.number, self.steps = number, steps
        self.answer: Optional[Answer] = None
        self._client = client

    def _set_answer(self, answer: Answer) -> None:
        self.answer = answer

    def wait(self) -> Answer:
        """Return the answer. Raises Refused if the daemon rejected the example, Unavailable after
        the client's timeout."""
        self._client._wait(lambda: self.answer is not None)
        assert self.answer is not None
        if self.answer.refused is not None:
            raise self.answer.refused
        return self.answer

    def prediction(self) -> Prediction:
        """Return the prediction, if one was requested."""
        return self._client._named(self._client._prediction(self.wait(), self.number, self.steps))


class Client(Feeder):
    """Sends examples; the daemon acknowledges each once it is on disk. Unacknowledged examples are
    kept and sent again on the next connection, and the daemon learns each one once: nothing is lost
    while this program runs. A client belongs to one thread at a time.

    endpoint     the daemon's examples socket; its configuration has `examples: {socket: router}`
    socket       "router", or "push" for a daemon with `socket: pull`: without acknowledgements;
                 examples in transit are lost when the daemon ends
    stream       default stream of examples
    window       maximum number of unanswered examples; `learn` waits while the window is full
    timeout      seconds that a call waits for the daemon before it raises Unavailable; None: no
                 limit
    server_key   the daemon's public key (a file or its 40 characters), if it has keys
    key          the file with your own secret key
    control      the daemon's control socket; a push client reads the model's shapes from it once
    check        False: do not ask for the model's shapes; send numbers as float32 unless they are
                 uint32
    producer     producer of the examples' numbers. A program that sends the same examples in the
                 same order again keeps its producer, so that nothing is learned twice. Default: a
                 random producer
    epoch        greater each time a producer starts its numbers again
    on_refused   called with each Refused of an example that nobody waits for, instead of raising it

    The call that waits for an example raises its Refused; otherwise the next call does. Wrong types
    and shapes raise TypeError or ValueError before anything is sent.
    """

    def __init__(self, endpoint: str = wire.EXAMPLES, *, socket: str = "router", stream: str = "",
                 window: int = WINDOW, timeout: Optional[float] = TIMEOUT, server_key: Optional[Path] = None,
                 key: Optional[Path] = None, control: Optional[str] = None, check: bool = True,
                 producer: Optional[int] = None, epoch: int = 0,
                 on_refused: Optional[Callable[[Refused], None]] = None) -> None:
        if socket not in ("router", "push"):
            raise ValueError(f"socket must be 'router' or 'push', got {socket!r}")
        super().__init__(stream, window, timeout, producer, epoch, on_refused)
        self._check = check and (socket == "router" or control is not None)
        peer = Peer(endpoint, server_key, key)
        if check and control is not None:
            with Control(control, server_key=server_key, key=key, timeout=timeout) as asked:
                self._shapes.take(asked.status().get("schema", {}), f"{control}: the schema")
        self._session = Session(peer) if socket == "router" else None
        self._push = Push(peer) if socket == "push" else None
        self._looked = 0.0
        _open.add(self)

    # ---- Sending ----

    def learn(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
              end: bool = False, learn: bool = True, wait: bool = False) -> Number:
        """Send one example and return its number. It may still be in transit: `flush`, the end of
        `with`, and `wait=True` wait until it is safe.

        x      one step: (columns,) numbers, or a number for one column; several steps: (steps,
               columns). Symbols are ids, (steps,). Dicts of columns by name, and words, are sent as
               JSON; so is a row of a data frame (a series), if the model's columns have names
        y      its targets in the same form; classes are ids or names; None, NaN: not observed
        time   time of the example, Unix time or a datetime
        end    True: the last example of its sequence; the stream's state is reset after it
        learn  False: predict and score the targets without learning; the recurrent state still
               advances
        """
        pending = self.submit(x, y, stream=stream, time=time, end=end, learn=learn, wanted=wait)
        if wait and self._session:
            pending.wait()
        return pending.number

    def predict(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
                end: bool = False, learn: bool = False) -> Prediction:
        """Send an example and wait for its prediction. Its targets are learned only if `learn` is
        True. The recurrent state advances in any case, so do not send x again to learn from it. To
        add y later, use `label`, or pass y here with learn=True."""
        return self.submit(x, y, stream=stream, time=time, end=end, learn=learn, result=True).prediction()

    def label(self, of: Number, y: Any, *, learn: bool = True, end: bool = False, wait: bool = False) -> Number:
        """Send the targets of an earlier example of this client (`target: later`). `of` is the
        Number that learn() returned, or a prediction's number. A label without effect is accepted,
        too; the daemon counts it as `label` and reports it."""
        return self.submit_label(of, y, learn=learn, end=end, wanted=wait and self._session is not None,
                                 wait=wait).number

    def submit(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None, end: bool = False,
               learn: bool = True, result: bool = False, wanted: bool = True) -> Pending:
        """Send an example and return at once; the returned object gets its answer later. With
        `result` it requests the prediction and loss."""
        if result and not self._session:
            raise ValueError("a push client gets no predictions: use socket='router', or watch the topic prediction")
        self._begin()
        self._ask()
        number, ident, frames, steps = self._examples.example(x, y, self._stream(stream), time,
                                                              flags_of(end, learn, result))
        return self._post(ident, frames, Pending(self, number, steps), wanted or result)

    def submit_label(self, of: Number, y: Any, *, learn: bool = True, end: bool = False, result: bool = False,
                     wanted: bool = True, wait: bool = False) -> Pending:
        """Send a label as `submit` sends an example; with `result` the answer has a loss."""
        self._begin()
        self._ask()
        number, ident, frames = self._examples.label(of, y, flags_of(end, learn, result))
        pending = self._post(ident, frames, Pending(self, number, 1), wanted or result)
        if wait and self._session:
            pending.wait()
        return pending

    def learn_many(self, xs: Any, ys: Any = None, *, stream: Optional[str] = None,
                   times: Optional[Sequence[float]] = None, learn: bool = True) -> Optional[Number]:
        """Send many examples of one step each in order, much faster than single calls of `learn`.

        xs      (examples, columns); (examples,) for one column or symbols; a list of dicts; or a
                pandas data frame: by column names if the model has them, otherwise in the order of
                its columns
        ys      (examples, targets) or (examples,) in the same form; None: no targets
        times   (examples,) Unix times
        Returns the number of the last example; None without examples.
        """
        self._begin()
        self._ask()
        number = None
        for number, posts in self._many(xs, ys, stream, times, learn):
            self._post_many(posts)
        return number

    # ---- Waiting ----

    def flush(self, timeout: Optional[float] = None) -> None:
        """Wait until all examples are answered. Raises Unavailable without any answer for `timeout`
        seconds (default: the client's), and Refused for a rejected example. A push client has no
        answers: see `close`."""
        if self._session:
            self._wait(lambda: not self._waiting(), timeout)
            self._raise_refused()

    def close(self) -> None:
        """Flush, and close the sockets. A push client waits until everything is sent."""
        if self._closed:
            return
        try:
            self.flush()
        finally:
            self._leave(self.timeout)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if kind is None:
            self.close()
            return
        try:  # examples sent before the exception are valid
            if issubclass(kind, Exception) and not issubclass(kind, Unavailable):
                self.flush(LEAVE)
        except RunnelError:
            pass
        finally:
            self._leave(0.0)

    def _leave(self, linger: Optional[float]) -> None:
        self._closed = True
        _open.discard(self)
        if self._session:
            self._session.close()
        if self._push:
            self._push.close(linger)

    def _begin(self) -> None:
        if self._closed:
            raise RunnelError("the client is closed")
        if self._session:
            now = clock.monotonic()
            waiting = len(self._session.waiting)
            if now - self._looked > LOOK or (waiting and waiting % BATCH == 0):
                self._looked = now
                self._session.turn()
            self._raise_refused()

    def _post(self, ident: bytes, frames: Frames, pending: Pending, wanted: bool) -> Pending:
        session = self._session
        if self._push:
            self._push.send(frames, self.timeout)
        if session:
            if len(session.waiting) >= self.window:
                self._wait(lambda: self._waiting() < self.window)
            if wanted:
                session.wanted[ident] = pending._set_answer
            session.post(ident, frames)
        return pending

    def _post_many(self, posts: Posts) -> None:
        session = self._session
        if not session:
            for _, frames in posts:
                assert self._push
                self._push.send(frames, self.timeout)
            return
        if len(session.waiting) + len(posts) > self.window:
            self._wait(lambda: self._waiting() <= max(0, self.window - len(posts)))
        for ident, frames in posts:
            session.post(ident, frames)
        if len(posts) > 1:
            session.turn()
        self._begin()

    def _wait(self, done: Callable[[], bool], timeout: Optional[float] = None) -> None:
        """Wait until done() is true. Raises Unavailable if nothing arrives from the daemon for so
        many seconds."""
        session = self._session
        assert session
        patience = Patience(session, self.timeout if timeout is None else timeout)
        while not done():
            self._poll(min(patience.left(), TICK))
            session.turn()

    def _poll(self, seconds: float) -> None:
        session = self._session
        assert session
        if session.socket is None or session.monitor is None:
            clock.sleep(min(seconds, 0.02))
            return
        zmq.zmq_poll([(session.socket, IN | OUT if session.unsent else IN), (session.monitor, IN)],
                     milliseconds(seconds))

    # ---- Shapes of the model ----

    def _named(self, prediction: Prediction) -> Prediction:
        if self._shapes.lacks_names(prediction.values):
            self._wait(self._schema())
        return prediction._replace(names=self._shapes.names(prediction.values.shape[-1]))

    def _items(self, values: Any) -> Any:
        """Convert the rows of a data frame or an array to dicts with `x`; leave anything else
        unchanged. Raises ValueError for rows of another width, which a model of one column would
        treat as several steps."""
        if not hasattr(values, "ndim"):
            return values
        self._ask()
        width, columns = values.shape[1] if values.ndim == 2 else None, self._shapes.columns
        if width is not None and columns is not None and width != columns and not self._shapes.by_name:
            raise ValueError(f"expected rows of {columns} "
                             f"number{'s' if columns != 1 else ''}: pass (n, {columns}), one row per item, got "
                             f"rows of {width}"
                             + ("; list(items) makes each row that many steps" if columns == 1 else ""))
        return [{"x": row} for row in self._unframed(values, self._shapes.by_name)]

    def _names(self, width: int) -> List[str]:
        """Return the column names of predictions with this number of values, for a data frame: the words
        of known classes if their ids stay the same, the names of targets, or numbers."""
        shapes, numbers = self._shapes, [f"prediction_{k}" for k in range(width)] if width != 1 else ["prediction"]
        if self._session and shapes.words is not None:
            self._wait(self._schema())
        names = None if shapes.forgets else shapes.names(width)
        group = len(shapes.target_names) or width
        several = shapes.words is None and width > group  # horizons or deviations
        named = [numbers[k] if name is None else f"prediction_{name}" + f"_{k // group}" * several
                 for k, name in enumerate(names or [None] * width)]
        return named if len(set(named)) == width else numbers  # a word may be a number

    def _ask(self) -> None:
        if not self._check or not self._session or self._shapes.asked:
            return
        self._wait(self._schema())
