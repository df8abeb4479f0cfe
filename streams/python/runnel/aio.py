"""Feed a daemon from asyncio: `AsyncClient`."""
from __future__ import annotations

import asyncio
import json
import math
import time as clock
from types import TracebackType
from typing import Any, Callable, List, Optional, Type

from . import shapes, wire
from .client import LEAVE, TICK, TIMEOUT, WINDOW, Prediction, as_prediction
from .errors import RunnelError, Unavailable
from .examples import Examples, Numbers
from .peer import Path, Peer
from .session import LOST, Answer, Counts, Frames, Session
from .shapes import Shapes, Time
from .wire import Number

PAUSE = 0.02  # seconds between two looks while something is to come


class AsyncClient:
    """`Client` for asyncio, over a router: the same arguments, methods and exceptions, which are awaited. A task
    of its own reads the answers and connects again, also while nobody calls. Tasks may share it; examples
    travel in the order of the calls. Use it as `async with`, or `await` its `close`."""

    def __init__(self, endpoint: str = wire.EXAMPLES, *, stream: str = "", window: int = WINDOW,
                 timeout: Optional[float] = TIMEOUT, server_key: Optional[Path] = None,
                 key: Optional[Path] = None, check: bool = True, producer: Optional[int] = None,
                 epoch: int = 0) -> None:
        if window < 1:
            raise ValueError(f"window is {window}; at least one example is on its way")
        wire.key_bytes(stream)
        self.stream, self.window, self.timeout, self._check = stream, window, timeout, check
        self._shapes = Shapes()
        self._examples = Examples(Numbers(producer, epoch), self._shapes)
        self._session = Session(Peer(endpoint, server_key, key))
        self._session.ending = self._unwatch
        self._turned, self._readable = asyncio.Event(), asyncio.Event()
        self._watched: List[int] = []
        self._task: "Optional[asyncio.Task[None]]" = None
        self._failed: Optional[BaseException] = None
        self._asking: "Optional[asyncio.Lock]" = None
        self._closed = False

    # ---- sending ----

    async def learn(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
                    end: bool = False, learn: bool = True, wait: bool = False) -> Number:
        """As Client.learn. Waits only while the window is full, or with `wait`."""
        flags = (wire.END if end else 0) | (0 if learn else wire.DO_NOT_LEARN)
        number, _, answers = await self._example(x, y, stream, time, flags, wait)
        if wait:
            await self._answer(answers)
        return number

    async def predict(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
                      end: bool = False, learn: bool = False) -> Prediction:
        """As Client.predict."""
        flags = wire.RESULT | (wire.END if end else 0) | (0 if learn else wire.DO_NOT_LEARN)
        number, steps, answers = await self._example(x, y, stream, time, flags, True)
        return as_prediction(await self._answer(answers), number, steps)

    async def label(self, of: Number, y: Any, *, learn: bool = True, end: bool = False,
                    wait: bool = False) -> Number:
        """As Client.label."""
        await self._begin()
        flags = (wire.END if end else 0) | (0 if learn else wire.DO_NOT_LEARN)
        number, ident, frames = self._examples.label(of, y, flags)
        answers = self._post(ident, frames, wait)
        if wait:
            await self._answer(answers)
        return number

    async def _example(self, x: Any, y: Any, stream: Optional[str], time: Time, flags: int,
                       wanted: bool) -> "tuple[Number, int, List[Answer]]":
        await self._begin()
        number, ident, frames, steps = self._examples.example(x, y, self.stream if stream is None else stream, time,
                                                              flags)
        return number, steps, self._post(ident, frames, wanted)

    def _post(self, ident: bytes, frames: Frames, wanted: bool) -> List[Answer]:
        """Nothing awaits between the number of an example and this: so they travel in order."""
        answers: List[Answer] = []
        if wanted:
            self._session.wanted[ident] = answers.append
        self._session.post(ident, frames)
        return answers

    async def _answer(self, answers: List[Answer]) -> Answer:
        await self._wait(lambda: bool(answers))
        refused = answers[0].refused
        if refused is not None:
            raise refused
        return answers[0]

    # ---- waiting ----

    async def flush(self, timeout: Optional[float] = None) -> None:
        """As Client.flush."""
        self._start()
        await self._wait(lambda: not self._session.waiting, timeout)
        self._session.raise_refused()

    async def close(self) -> None:
        """Flush, and close the sockets."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            await self._leave()

    @property
    def counts(self) -> Counts:
        """What has become of the examples."""
        return self._session.counts

    @property
    def producer(self) -> int:
        """Whose numbers they are."""
        return self._examples.numbers.producer

    async def __aenter__(self) -> "AsyncClient":
        self._start()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if kind is None:
            await self.close()
            return
        try:
            if issubclass(kind, Exception) and not issubclass(kind, Unavailable):
                await self.flush(LEAVE)
        except RunnelError:
            pass
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._closed = True
        self._readable.set()
        if self._task:
            await asyncio.wait([self._task])
        self._session.close()

    def _start(self) -> None:
        if self._closed:
            raise RunnelError("this client is closed")
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _begin(self) -> None:
        self._start()
        self._session.raise_refused()
        if self._check and not self._shapes.asked:
            await self._ask()
        if len(self._session.waiting) >= self.window:
            await self._wait(lambda: len(self._session.waiting) < self.window)
        elif self._session.counts.sent % self.window == 0:
            await asyncio.sleep(0)

    def _watch(self) -> None:
        if not self._watched:
            self._watched = self._session.descriptors()
            for descriptor in self._watched:
                asyncio.get_running_loop().add_reader(descriptor, self._readable.set)

    def _unwatch(self) -> None:
        for descriptor in self._watched:
            asyncio.get_running_loop().remove_reader(descriptor)
        self._watched = []

    async def _run(self) -> None:
        """Read, connect and send again, until it is cancelled."""
        session, loop = self._session, asyncio.get_running_loop()
        try:
            while not self._closed:
                self._watch()
                idle = session.connected and not session.waiting
                # Not wait_for: before Python 3.12 it may lose a cancellation.
                tick = loop.call_later(TICK if idle else PAUSE, self._readable.set)
                await self._readable.wait()
                tick.cancel()
                self._readable.clear()
                session.turn()
                self._turned.set()
                self._turned = asyncio.Event()
        except Exception as error:  # for who waits
            self._failed = error
            self._turned.set()

    async def _wait(self, done: Callable[[], bool], timeout: Optional[float] = None) -> None:
        session = self._session
        timeout = self.timeout if timeout is None else timeout
        session.turn()
        seen, since = session.answers, clock.monotonic()
        while not done():
            if self._failed is not None:
                raise self._failed
            if self._closed:
                raise RunnelError("this client was closed meanwhile")
            if session.answers != seen:
                seen, since = session.answers, clock.monotonic()
            left = math.inf if timeout is None else since + timeout - clock.monotonic()
            if left <= 0:
                assert timeout is not None
                raise session.unavailable(timeout)
            await self._turned.wait()  # by the task, at least every TICK

    async def _ask(self) -> None:
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            answers: List[bytes] = [LOST]

            def answered() -> bool:
                if answers[-1] == LOST:
                    self._session.ask(answers.append)
                return answers[-1] != LOST

            if not self._shapes.asked:
                await self._wait(answered)
                self._shapes.take(json.loads(answers[-1]))
