"""A PUSH socket, for a daemon with `examples.socket: pull`, without acknowledgements."""
from __future__ import annotations

import math
import time
from typing import Optional

import zmq

from .errors import Unavailable
from .peer import Peer
from .session import QUEUE, Frames


def milliseconds(seconds: Optional[float]) -> Optional[int]:
    """Convert seconds for a poll; None: no limit."""
    return None if seconds is None else max(0, math.ceil(1000 * seconds))


class Push:
    """Sends examples, and waits while no daemon takes them."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._context: "zmq.Context[zmq.Socket[bytes]]" = zmq.Context()
        self.socket = self._context.socket(zmq.PUSH)
        peer.prepare(self.socket)
        self.socket.sndhwm, self.socket.immediate = QUEUE, 1
        peer.connect(self.socket)

    def send(self, frames: Frames, timeout: Optional[float]) -> None:
        """Send. Raises Unavailable if no daemon accepts it within `timeout` seconds; nothing is sent."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            try:
                self.socket.send_multipart(frames, zmq.NOBLOCK)
                return
            except zmq.Again:
                left = end - time.monotonic()
                if left <= 0:
                    raise Unavailable(
                        f"{self.peer.endpoint}: no daemon accepted an example within {timeout:g} s; check "
                        "that runneld is running and not paused, with this examples.bind and "
                        "examples.socket: pull; for examples.socket: router use socket='router'") from None
                self.socket.poll(milliseconds(min(left, 1.0)), zmq.POLLOUT)

    def close(self, linger: Optional[float]) -> None:
        """Wait at most `linger` seconds until everything is sent."""
        wait = milliseconds(linger)
        self.socket.close(-1 if wait is None else wait)
        self._context.term()
