"""Send examples to a daemon with asyncio: `AsyncClient`."""
from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Callable, List, Optional, Sequence, Type

from . import wire
from .errors import Refused, RunnelError, Unavailable
from .feeding import BATCH, LEAVE, TICK, TIMEOUT, WINDOW, Feeder, Patience, Prediction, flags_of
from .peer import Path, Peer
from .session import Answer, Frames, Session
from .shapes import Time
from .wire import Number

PAUSE = 0.02  # seconds between two looks for events


class AsyncClient(Feeder):
    """`Client` for asyncio, over a router: the same arguments, methods and exceptions, with
    awaitable methods. A background task reads the answers and reconnects. Tasks may share a client;
    examples are sent in the order of the calls. Use it with `async with`, or `await` its `close`.
    """

    def __init__(self, endpoint: str = wire.EXAMPLES, *, stream: str = "", window: int = WINDOW,
                 timeout: Optional[float] = TIMEOUT, server_key: Optional[Path] = None,
                 key: Optional[Path] = None, check: bool = True, producer: Optional[int] = None, epoch: int = 0,
                 on_refused: Optional[Callable[[Refused], None]] = None) -> None:
        super().__init__(stream, window, timeout, producer, epoch, on_refused)
        self._check = check
        self._session: Session = Session(Peer(endpoint, server_key, key))
        self._session.ending = self._unwatch
        self._turned, self._readable = asyncio.Event(), asyncio.Event()
        self._watched: List[int] = []
        self._task: "Optional[asyncio.Task[None]]" = None
        self._failed: Optional[BaseException] = None
        self._asking: "Optional[asyncio.Lock]" = None

    # ---- Sending ----

    async def learn(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
                    end: bool = False, learn: bool = True, wait: bool = False) -> Number:
        """See Client.learn. Waits only while the window is full, or with `wait`."""
        number, _, answers = await self._example(x, y, stream, time, flags_of(end, learn), wait)
        if wait:
            await self._answer(answers)
        return number

    async def predict(self, x: Any, y: Any = None, *, stream: Optional[str] = None, time: Time = None,
                      end: bool = False, learn: bool = False) -> Prediction:
        """See Client.predict."""
        number, steps, answers = await self._example(x, y, stream, time, flags_of(end, learn, result=True), True)
        prediction = self._prediction(await self._answer(answers), number, steps)
        if self._shapes.lacks_names(prediction.values):
            await self._ask(again=True)
        return prediction._replace(names=self._shapes.names(prediction.values.shape[-1]))

    async def label(self, of: Number, y: Any, *, learn: bool = True, end: bool = False,
                    wait: bool = False) -> Number:
        """See Client.label."""
        await self._begin()
        number, ident, frames = self._examples.label(of, y, flags_of(end, learn))
        answers = self._post(ident, frames, wait)
        if wait:
            await self._answer(answers)
        return number

    async def learn_many(self, xs: Any, ys: Any = None, *, stream: Optional[str] = None,
                         times: Optional[Sequence[float]] = None, learn: bool = True) -> Optional[Number]:
        """See Client.learn_many. Examples of other tasks may be sent in between."""
        await self._begin(BATCH)
        number, messages = None, self._many(xs, ys, stream, times, learn)
        for number, posts in messages:
            for ident, frames in posts:
                self._session.post(ident, frames)
            await self._begin(BATCH)
        return number

    async def _example(self, x: Any, y: Any, stream: Optional[str], time: Time, flags: int,
                       wanted: bool) -> "tuple[Number, int, List[Answer]]":
        await self._begin()
        number, ident, frames, steps = self._examples.example(x, y, self._stream(stream), time, flags)
        return number, steps, self._post(ident, frames, wanted)

    def _post(self, ident: bytes, frames: Frames, wanted: bool) -> List[Answer]:
        """Must not await after an example has its number, so that examples are sent in order."""
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

    # ---- Waiting ----

    async def flush(self, timeout: Optional[float] = None) -> None:
        """See Client.flush."""
        self._start()
        await self._wait(lambda: not self._session.waiting, timeout)
        self._raise_refused()

    async def close(self) -> None:
        """Flush, and close the sockets."""
        if self._closed:
            return
        try:
            await self.flush()
        finally:
            await self._leave()

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
            raise RunnelError("the client is closed")
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _begin(self, count: int = 1) -> None:
        """Wait until the window has room for `count` examples."""
        self._start()
        self._raise_refused()
        if self._check and not self._shapes.asked:
            await self._ask()
        if self._waiting() + count > self.window:
            await self._wait(lambda: self._waiting() <= max(0, self.window - count))
        elif self._session.counts.sent % self.window < count:
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
        """Read, connect and send again until cancelled."""
        session, loop = self._session, asyncio.get_running_loop()
        try:
            while not self._closed:
                self._watch()
                idle = session.connected and not session.waiting
                # wait_for may lose a cancellation before Python 3.12.
                tick = loop.call_later(TICK if idle else PAUSE, self._readable.set)
                await self._readable.wait()
                tick.cancel()
                self._readable.clear()
                session.turn()
                self._turned.set()
                self._turned = asyncio.Event()
        except Exception as error:  # stored for the callers that wait
            self._failed = error
            self._turned.set()

    async def _wait(self, done: Callable[[], bool], timeout: Optional[float] = None) -> None:
        patience = Patience(self._session, self.timeout if timeout is None else timeout)
        self._session.turn()
        while not done():
            if self._failed is not None:
                raise self._failed
            if self._closed:
                raise RunnelError("the client was closed")
            patience.left()
            await self._turned.wait()  # set by the task, at least every TICK

    async def _ask(self, again: bool = False) -> None:
        if self._asking is None:
            self._asking = asyncio.Lock()
        async with self._asking:
            if again or not self._shapes.asked:
                await self._wait(self._schema())
