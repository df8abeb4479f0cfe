"""One session with a daemon's ROUTER socket: the unanswered examples and the connection. It never
waits; `Client` and `AsyncClient` do.

Unanswered examples are kept in order in `waiting`, and sent again on the next connection from the
oldest on: the daemon learns each number of a producer once."""
from __future__ import annotations

import collections
import time
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple, cast

import numpy as np
import zmq
from numpy.typing import NDArray
from zmq.utils.monitor import parse_monitor_message

from . import wire
from .errors import Malformed, Refused, RunnelError, Unavailable, printable
from .peer import Peer

Frames = Tuple[bytes, ...]

QUEUE = 1000  # messages in libzmq's queue
RETRY_FIRST, RETRY_MAX = 0.1, 2.0  # seconds from the end of a connection to the next attempt
NEVER_MS = 2147483647  # libzmq must not reconnect by itself: it would skip lost messages
SILENCE = 60.0  # seconds without an answer after which to reconnect
FRUITLESS = 5  # connections without an answer until Unavailable
GET_EVENTS, GET_MORE, POLLIN = int(zmq.EVENTS), int(zmq.RCVMORE), int(zmq.POLLIN)
NOWAIT, MORE = int(zmq.NOBLOCK), int(zmq.NOBLOCK | zmq.SNDMORE)
OVER = (zmq.EVENT_CLOSED | zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED |
        zmq.EVENT_MONITOR_STOPPED)
FAILED = (zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL |
          zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL)
EVENTS = OVER | FAILED | zmq.EVENT_HANDSHAKE_SUCCEEDED
FLOAT = 4  # bytes
SCHEMA = bytes(wire.NUMBERS.size)  # ident of the answer to a schema; examples begin with 1


class Answer(NamedTuple):
    """The daemon's answer to an example."""

    position: int  # in the journal
    duplicate: bool  # the daemon already had it
    prediction: Optional[NDArray[np.float32]]  # (numbers,), if requested and received
    loss: Optional[float]  # if requested and scored
    # Refused, or Malformed: the example is safe, but its prediction is damaged
    refused: Optional[RunnelError]
    quantiles: Optional[bytes] = None  # the frame, see distribution_of_answer


class Counts:
    """sent, acknowledged (safe on disk; `duplicates` of these were already at the daemon), refused,
    and connections lost with examples in transit."""

    def __init__(self) -> None:
        self.sent = self.acknowledged = self.duplicates = self.refused = self.reconnects = 0

    def __repr__(self) -> str:
        return f"Counts({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class Session:
    """See the module. `turn` does everything that does not need to wait."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.counts = Counts()
        # by key + epoch and sequence, as in header and answer
        self.waiting: Dict[bytes, Frames] = {}
        self.wanted: Dict[bytes, Callable[[Answer], None]] = {}  # callbacks for answers
        self.refused: List[Refused] = []  # not raised yet
        self.answers = 0  # number of answers of all kinds, which shows progress
        self.connected = False
        self.ending: Optional[Callable[[], None]] = None  # called before the sockets are closed
        self.why = ""  # why no daemon is connected, if known
        self._unsent: Deque[bytes] = collections.deque()
        self._schema: Optional[Callable[[Optional[bytes]], None]] = None
        self._retry_at, self._retry, self._fruitless = 0.0, RETRY_FIRST, 0
        self._read_monitord = time.monotonic()
        self._context: "zmq.Context[zmq.Socket[bytes]]" = zmq.Context()
        self.socket: "Optional[zmq.Socket[bytes]]" = None
        self.monitor: "Optional[zmq.Socket[bytes]]" = None
        self._connect()

    # ---- Connection ----

    def _connect(self) -> None:
        socket = self._context.socket(zmq.DEALER)
        self.peer.prepare(socket)
        socket.sndhwm, socket.rcvhwm = QUEUE, 0
        socket.reconnect_ivl = NEVER_MS
        socket.tcp_keepalive, socket.tcp_keepalive_idle = 1, 60
        self.socket, self.monitor = socket, socket.get_monitor_socket(EVENTS)
        # Skips pyzmq's checks of arguments, which take longer than sending.
        self._send: Callable[..., Any] = super(zmq.Socket, socket).send
        self._receive: Callable[..., Any] = super(zmq.Socket, socket).recv
        self._more: Callable[[int], Any] = super(zmq.Socket, socket).get
        self._events: Callable[[int], Any] = super(zmq.Socket, self.monitor).get
        self.peer.connect(socket)

    def _end(self) -> None:
        if self.ending is not None:
            self.ending()
        if self.socket is not None:
            self.socket.disable_monitor()
            self.socket.close(0)
        if self.monitor is not None:
            self.monitor.close(0)
        self.socket = self.monitor = None
        self.connected = False

    def _drop(self) -> None:
        """Drop the connection; the next one begins with the oldest example."""
        if self.connected and self.waiting:
            self.counts.reconnects += 1
            self._fruitless += 1
        self._end()
        self._unsent = collections.deque(self.waiting)
        if self._schema is not None:
            schema, self._schema = self._schema, None
            schema(None)
        self._retry_at = time.monotonic() + self._retry
        self._retry = min(2 * self._retry, RETRY_MAX)

    def close(self) -> None:
        """Close; unanswered examples are not sent again."""
        self._end()
        self._context.term()

    def _read_monitor(self) -> bool:
        """Handle the monitor's events; return whether the connection is lost."""
        over = False
        while self.monitor is not None and self._events(GET_EVENTS) & POLLIN:
            event = parse_monitor_message(self.monitor.recv_multipart())
            kind, value = int(event["event"]), int(event["value"])
            if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connected, self.why = True, ""
                self._read_monitord = time.monotonic()
            elif kind & FAILED:
                self.why = self.peer.handshake_failed(kind, value, "examples socket of a daemon with "
                                                      "examples.socket: router (for pull: socket='push')")
                over = True
            else:
                over = True
        return over

    # ---- Answers ----

    def _read(self) -> None:
        """Read all available answers."""
        receive, waiting, wanted = self._receive, self.waiting, self.wanted
        plain, size, count = wire.PLAIN, wire.ACKNOWLEDGEMENT.size, 0
        key: Optional[bytes] = None
        try:
            while True:
                key = None
                key = receive(NOWAIT)
                answer = receive(NOWAIT)
                ident = key + answer[4:16]
                if answer[:4] == plain and len(answer) == size and ident in waiting and ident not in wanted:
                    del waiting[ident]
                    count += 1
                else:
                    self._take(key, answer, self._rest())
                if not waiting and self._schema is None:
                    break  # no other events: a check would cost more than an answer
        except zmq.Again:
            if key is not None:  # all frames of one message arrive together
                self._take(key, b"", [])
        finally:
            if count:
                self.counts.acknowledged += count
                self._progress(count)

    def _rest(self) -> List[bytes]:
        frames = []
        while self._more(GET_MORE):
            frames.append(self._receive(NOWAIT))
        return frames

    def _progress(self, count: int) -> None:
        self.answers += count
        self._read_monitord, self._fruitless, self._retry = time.monotonic(), 0, RETRY_FIRST

    def _take(self, key: bytes, answer: bytes, rest: List[bytes]) -> None:
        at = self.peer.endpoint
        if len(answer) != wire.ACKNOWLEDGEMENT.size or answer[0] != 1:
            raise Malformed(f"{at}: the peer is not the examples socket of a daemon (examples.bind of its "
                            "configuration)")
        a = wire.Acknowledgement(*wire.ACKNOWLEDGEMENT.unpack(answer))
        if not {wire.ACCEPTED: a.reason == 0, wire.DUPLICATE: a.reason <= wire.OLD_EPOCH,
                wire.REJECTED: a.reason > 0}.get(a.status, False):
            raise Malformed(f"{at}: invalid acknowledgement: status {a.status} with reason {a.reason}; upgrade this "
                            "package if the daemon is newer")
        reason = wire.reason_name(a.reason) if a.status == wire.REJECTED else ""
        sentence = rest[0].decode("utf-8", "replace") if rest and a.status == wire.REJECTED else ""
        self._progress(1)
        ident = key + answer[4:16]
        if ident == SCHEMA and self._schema is not None:
            schema, self._schema = self._schema, None
            schema(rest[0] if rest and a.status == wire.ACCEPTED else b"{}")
            return
        if self.waiting.pop(ident, None) is None:
            # otherwise it was answered before
            if a.status == wire.REJECTED and not a.epoch and not a.sequence:
                raise RunnelError(f"{at}: the daemon rejected an unknown example ({reason}): "
                                  f"{printable(sentence) or 'see its log'}")
            return
        if a.status == wire.DUPLICATE and a.reason == wire.OLD_EPOCH:
            reason = "outdated"
        refused = Refused(reason, sentence, key.decode("utf-8", "replace"), a.sequence) if reason else None
        self._count(ident, a, rest, refused)

    def _count(self, ident: bytes, a: wire.Acknowledgement, rest: List[bytes],
               refused: Optional[Refused]) -> None:
        problem: Optional[RunnelError] = refused
        if refused is not None:
            self.counts.refused += 1
        else:
            self.counts.acknowledged += 1
            self.counts.duplicates += a.status == wire.DUPLICATE
        report = self.wanted.pop(ident, None)
        if report is None:
            if refused is not None:
                self.refused.append(refused)
            return
        prediction: Optional[NDArray[np.float32]] = None
        loss, quantiles = None, None
        if a.status == wire.ACCEPTED and rest:
            if len(rest) not in (2, 3) or len(rest[0]) % FLOAT or len(rest[1]) not in (0, FLOAT):
                problem = Malformed(f"{self.peer.endpoint}: invalid prediction of example {a.sequence}: frames of "
                                    f"{', '.join(str(len(frame)) for frame in rest)} bytes")
            else:
                prediction = np.frombuffer(rest[0], "<f4")
                loss = float(np.frombuffer(rest[1], "<f4")[0]) if rest[1] else None
                quantiles = rest[2] if len(rest) > 2 else None
        report(Answer(a.position, a.status == wire.DUPLICATE, prediction, loss, problem, quantiles))

    # ---- Sending ----

    def _try(self, frames: Frames) -> bool:
        """Send a message; return whether the queue had room."""
        send = self._send
        try:
            for frame in frames[:-1]:
                send(frame, MORE)
            send(frames[-1], NOWAIT)
            return True
        except zmq.Again:
            return False

    def post(self, ident: bytes, frames: Frames) -> None:
        """Send an example now or as soon as possible, and keep it until it is answered."""
        if not self.waiting:
            self._read_monitord = time.monotonic()
        self.waiting[ident] = frames
        self.counts.sent += 1
        if self._unsent or not self.connected or not self._try(frames):
            self._unsent.append(ident)

    def ask(self, report: Callable[[Optional[bytes]], None]) -> None:
        """Ask for the model's schema, unless already asked; `report` gets its JSON ("{}" from a
        daemon that does not support it), or None after a lost connection."""
        if self.connected and self._schema is None and self._try((b'{"schema":{}}',)):
            self._schema = report

    def _pump(self) -> None:
        unsent, waiting = self._unsent, self.waiting
        while unsent and self.connected:
            frames = waiting.get(unsent[0])
            if frames is not None and not self._try(frames):
                return
            unsent.popleft()

    def descriptors(self) -> List[int]:
        """Descriptors that become readable once when there may be work (edge-triggered, from
        libzmq)."""
        return [cast(int, socket.getsockopt(zmq.FD)) for socket in (self.socket, self.monitor) if socket is not None]

    @property
    def unsent(self) -> bool:
        """Whether the queue had no room for some messages."""
        return self.connected and bool(self._unsent)

    def turn(self) -> None:
        """Do everything that does not need to wait."""
        over = self._read_monitor()
        if self.socket is not None:
            self._read()
        silent = self.connected and self.waiting and time.monotonic() - self._read_monitord > SILENCE
        if over or silent:
            self._drop()
        if self.socket is None and time.monotonic() >= self._retry_at:
            self._connect()
        self._pump()

    # ---- Errors ----

    def unavailable(self, waited: float) -> Unavailable:
        """Return the exception for a wait of this many seconds without success."""
        at = f"{self.peer.endpoint}: "
        kept = f"; {len(self.waiting)} examples are kept; the next call sends them again" if self.waiting else ""
        if self._fruitless >= FRUITLESS:
            return Unavailable(f"{at}the daemon repeatedly closes the connection without an answer; are examples "
                               f"too large for it?{kept}")
        if self.why:
            return Unavailable(f"{at}{self.why}{kept}")
        if self.connected:
            return Unavailable(f"{at}no answer for {waited:g} s; is the daemon paused, or replaying "
                               f"its journal?{kept}")
        return Unavailable(f"{at}no daemon connected within {waited:g} s; is runneld running, and is this its "
                           f"examples.bind with examples.socket: router? Otherwise use socket='push'{kept}")

    def raise_refused(self) -> None:
        """Raise the first rejection that was not raised yet."""
        if self.refused:
            first = self.refused[0]
            first.more = len(self.refused) - 1
            self.refused.clear()
            raise first
