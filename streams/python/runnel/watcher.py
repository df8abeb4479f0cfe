"""Watch a daemon learn: `Watcher`."""
from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Type, cast

import zmq

from . import wire
from .distribution import Distribution, distribution_of
from .errors import Malformed, Unavailable
from .peer import Path, Peer
from .reading import json_object, whole

TOPICS = ("status", "loss", "state", "prediction", "vector", "event")
QUEUE = 100000  # messages that wait for a slow program
TICK_MS = 250


class Message(Dict[str, Any]):
    """A message that a daemon published, see docs/reference/protocol.md.

    topic      "status", "loss", "state", "prediction", "vector" or "event"
    missed     messages of this topic that were lost directly before it
    restarted  the daemon was restarted since the last message
    """

    topic = ""
    missed = 0
    restarted = False

    @property
    def distribution(self) -> Optional[Distribution]:
        """Return the distribution that a message of `prediction` forecasts; None: it has none."""
        return distribution_of(self.get("levels"), self.get("quantiles"), "prediction")


class Joined(NamedTuple):
    """A prediction with its truth.

    stream, example  of the example that made the prediction (its number counts from the start of
                     learning)
    time             Unix time of that example; None: it had no time
    prediction       see docs/reference/protocol.md for the loss; None if it was not published then
    target           the truth, numbers in original units, None where not observed; or the class
    loss, baseline   nats or squared error, of the prediction and of the baseline forecast
    interval         (low, high) for each column, 90%; None while it is not known
    distribution     see Distribution; None: the daemon has no distribution.levels
    pit, z           lists for each column: the probability of a value below the truth, and of at
                     most the truth; the normal quantile of their middle. None: no distribution
    crps, log_score  lists for each column, in original units and in nats
    step, ahead      in an example of several steps, and with several horizons; else 0 and 1
    """

    stream: str
    example: int
    time: Optional[float]
    prediction: Any
    target: Any
    loss: Optional[float]
    baseline: Any
    interval: Any
    step: int
    ahead: int
    distribution: Optional[Distribution] = None
    pit: Any = None
    z: Any = None
    crps: Any = None
    log_score: Any = None


class Watcher:
    """Iterates over the messages of a daemon, which may start later, end, and start again.

    endpoint     the daemon's statistics socket
    topics       some of TOPICS; None: all. The daemon does not build messages without subscribers
    timeout      seconds without a message after which it raises Unavailable; None: no limit. A
                 daemon sends `status` every 10 s
    server_key   the daemon's public key (a file or its 40 characters), if it has keys
    key          the file with your own secret key

    `missed` counts the lost messages: this program was too slow, or the network. Messages before
    the subscription are not counted; it begins with the connection (see `ready`).
    """

    def __init__(self, endpoint: str = wire.STATISTICS, topics: Optional[Sequence[str]] = None, *,
                 timeout: Optional[float] = None, server_key: Optional[Path] = None,
                 key: Optional[Path] = None) -> None:
        topics = TOPICS if topics is None else [topics] if isinstance(topics, str) else list(topics)
        for topic in topics:
            if topic not in TOPICS:
                raise ValueError(f"unknown topic {topic!r}; expected {', '.join(TOPICS)}")
        self.timeout, self.missed = timeout, 0
        self._peer = Peer(endpoint, server_key, key)
        self._wanted = set(topics)
        self._newest: Dict[str, int] = {}
        self._run = ""
        self._kept: List[Message] = []
        self._context: "zmq.Context[zmq.Socket[bytes]]" = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._peer.prepare(self._socket)
        self._socket.rcvhwm = QUEUE
        self._socket.reconnect_ivl, self._socket.reconnect_ivl_max = 100, 2000
        # `status` is last: when it arrives, the other subscriptions are active.
        for topic in sorted(self._wanted - {"status"}):
            self._socket.subscribe(topic.encode())
        self._socket.subscribe(b"status")
        self._peer.connect(self._socket)

    def ready(self, timeout: Optional[float] = 30.0) -> "Watcher":
        """Wait until the subscriptions are active: later messages are not missed."""
        while True:
            message = self._next(timeout)
            if message.topic in self._wanted:
                self._kept.append(message)
            if message.topic == "status":
                return self

    def _next(self, timeout: Optional[float]) -> Message:
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            left = end - time.monotonic()
            if self._socket.poll(int(max(0, min(TICK_MS, 1000 * min(left, TICK_MS))))):
                return self._read(self._socket.recv_multipart())
            if left <= 0:
                raise Unavailable(f"{self._peer.endpoint}: no message for {timeout:g} s; is runneld running, and is "
                                  "this its statistics.bind (with keys: server_key, key)?")

    def _read(self, frames: List[bytes]) -> Message:
        topic = frames[0].decode("utf-8", "replace")
        message = Message(json_object(frames[-1], f"{self._peer.endpoint}: a message of the topic {topic!r:.40}"))
        if (len(frames) != 2 or topic not in TOPICS or not whole(message.get("sequence"))
                or not isinstance(message.get("run"), str)):
            raise self._malformed(topic)
        message.topic, sequence, run = topic, message["sequence"], message["run"]
        if run != self._run:
            message.restarted = bool(self._run)
            self._run, self._newest = run, {}
        before = self._newest.get(message.topic)
        if before is not None and sequence > before + 1 and message.topic in self._wanted:
            message.missed = sequence - before - 1
            self.missed += message.missed
        self._newest[message.topic] = sequence
        return message

    def _malformed(self, topic: str) -> Malformed:
        return Malformed(f"{self._peer.endpoint}: received an invalid message: topic {topic!r:.40}")

    def __iter__(self) -> Iterator[Message]:
        while True:
            yield self.next()

    def next(self, timeout: Optional[float] = None) -> Message:
        """Return the next message. Raises Unavailable without one within `timeout` seconds
        (default: the watcher's)."""
        timeout = self.timeout if timeout is None else timeout
        while True:
            message = self._kept.pop(0) if self._kept else self._next(timeout)
            if message.topic in self._wanted:
                return message

    def _of(self, topic: str) -> Iterator[Message]:
        if topic not in self._wanted:
            raise ValueError(f"this watcher does not watch {topic}; its topics are {', '.join(sorted(self._wanted))}")
        return (message for message in self if message.topic == topic)

    def losses(self) -> Iterator[Message]:
        """Yield only messages of `loss`."""
        return self._of("loss")

    def states(self) -> Iterator[Message]:
        """Yield only messages of `state`."""
        return self._of("state")

    def predictions(self) -> Iterator[Message]:
        """Yield only messages of `prediction`: the daemon needs statistics.predictions: true."""
        return self._of("prediction")

    def events(self) -> Iterator[Message]:
        """Yield only messages of `event`."""
        return self._of("event")

    def join(self) -> Iterator[Joined]:
        """Yield each prediction with its truth, once the truth is known."""
        for message in self.predictions():
            scored = message.get("scored")
            for one in scored if isinstance(scored, list) else [] if scored is None else [scored]:
                yield self._joined(message, one if isinstance(one, dict) else {})

    def _joined(self, message: Message, one: Dict[str, Any]) -> Joined:
        stream = message.get("stream")
        example, step, ahead = one.get("example"), one.get("step", 0), one.get("ahead", 1)
        time, loss = one.get("data_time"), one.get("loss")
        if (not isinstance(stream, str) or not all(whole(number) for number in (example, step, ahead))
                or not {type(time), type(loss)} <= {int, float, type(None)}):
            raise self._malformed("prediction")
        return Joined(stream, cast(int, example), time, one.get("prediction"), one.get("target"), loss, one.get("baseline"),
                      one.get("interval"), step, ahead,
                      distribution_of(message.get("levels"), one.get("quantiles"), self._peer.endpoint),
                      *(one.get(name) for name in Joined._fields[-4:]))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close(0)
        self._context.term()

    def __enter__(self) -> "Watcher":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()
