"""A daemon of one's own, for a notebook or a test: `Daemon`, and `run`."""
from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Hashable, Iterable, List, Mapping, Optional, Tuple, Type, Union

import numpy as np

from . import shapes
from .client import Client, Pending
from .control import Control
from .errors import RunnelError, Unavailable
from .recording import need_pandas
from .watcher import Watcher

if TYPE_CHECKING:
    import pandas

Config = Union[Mapping[str, Any], str, "os.PathLike[str]"]

SOCKETS = ("examples", "statistics", "control")
MEMBERS = {"x", "y", "stream", "time", "end", "learn"}  # of a dict that says more than columns
START = 60.0  # seconds within which a daemon answers
END = 20.0  # seconds within which it ends
LOG = 2000  # characters of its log in a sentence


def find_runneld(runneld: Optional[str] = None) -> str:
    """The program: `runneld`, or the environment's RUNNELD, or in PATH. Unavailable: it is not there."""
    name = runneld or os.environ.get("RUNNELD") or "runneld"
    found = shutil.which(name)
    if not found:
        raise Unavailable(f"there is no program {name}: install runnel, put runneld into PATH, or name it with "
                          "runneld= or the environment's RUNNELD")
    return os.path.abspath(found)


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """As its poll() says. But an interruption (Ctrl-C) in the middle of poll() leaves a lock of its own taken, and
    wait() never returns then."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: "subprocess.Popen[bytes]", guard: "subprocess.Popen[bytes]", directory: Optional[str]) -> None:
    """End both, whatever happens, and remove the directory."""
    try:
        if not _has_ended(process):
            process.terminate()
            try:
                process.wait(END)
            except subprocess.TimeoutExpired:
                pass
    finally:
        process.kill()
        process.wait()
        guard.kill()
        guard.wait()
        if guard.stdin:
            guard.stdin.close()
        if directory:
            shutil.rmtree(directory, ignore_errors=True)


class Daemon:
    """Starts runneld on sockets in a directory of its own, and ends it: at the end of `with`, with `close`, when
    the object goes, and when this program ends, in whatever way.

    config      a dict as in conf/reference.yaml, the text of such a file, or its path. Where its sockets are, and
                where its state is, is overruled
    runneld     the program; None: the environment's RUNNELD, or that in PATH
    directory   for state, sockets and log, kept afterwards: a later daemon of the same configuration resumes
                there. None: a temporary one, and nothing waits for its disk
    """

    def __init__(self, config: Config, *, runneld: Optional[str] = None, directory: Optional[str] = None) -> None:
        program = find_runneld(runneld)
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(prefix="runnel-")).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / "config.yaml"
        if isinstance(config, Mapping):
            path.write_text(json.dumps(shapes.plain(config)), encoding="utf-8")
        elif isinstance(config, str) and "\n" in config:
            path.write_text(config, encoding="utf-8")
        else:
            path = pathlib.Path(config).absolute()
        sets = [f"{name}.bind={self.endpoint(name)}" for name in SOCKETS]
        sets += ["examples.socket=router", f"state.directory={self.directory}/state"]
        sets += [] if directory else ["state.journal.sync=off"]
        with open(self.directory / "log", "wb") as log:
            process = subprocess.Popen([program, "--config", str(path), *(word for one in sets for word in ("--set", one))],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        # Its input ends when this program does, however it ends.
        guard = subprocess.Popen(["sh", "-c", f"read _; kill {process.pid}"], stdin=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = process
        self._finish = weakref.finalize(self, _end, process, guard, None if directory else str(self.directory))
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + START
        while True:
            if _has_ended(self.process):
                raise RunnelError(f"runneld has not started:\n{self.log()}")
            try:
                with self.control(timeout=0.25) as control:
                    control.status()
                return
            except Unavailable:
                if time.monotonic() > end:
                    raise Unavailable(f"runneld does not answer after {START:g} s:\n{self.log()}") from None

    def endpoint(self, name: str) -> str:
        """Of "examples", "statistics" or "control"."""
        return f"ipc://{self.directory}/{name}"

    def log(self) -> str:
        """The end of what it has said."""
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")[-LOG:]

    def client(self, **options: Any) -> Client:
        """A Client of it."""
        return Client(self.endpoint("examples"), **options)

    def control(self, **options: Any) -> Control:
        """A Control of it."""
        return Control(self.endpoint("control"), **options)

    def watcher(self, topics: Optional[List[str]] = None, **options: Any) -> Watcher:
        """A Watcher of it."""
        return Watcher(self.endpoint("statistics"), topics, **options)

    def close(self) -> None:
        """End it: what it was sent is learned, and a checkpoint is written."""
        self._finish()

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()


def _members(item: Any) -> Dict[str, Any]:
    """The arguments of `submit` that an item of `run` stands for."""
    if isinstance(item, Mapping) and "x" in item and set(item) <= MEMBERS:
        return dict(item)
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ValueError(f"a tuple of {len(item)}: an item is x, (x, y), or a dict; x alone is a list or an array")
        return {"x": item[0], "y": item[1]}
    return {"x": item}


class _Rows:
    """What was sent, and in the end what came back."""

    def __init__(self, client: Client, later: bool) -> None:
        self.client, self.later = client, later
        self.sent: List[Tuple[Pending, Optional[Pending], Any]] = []

    def add(self, item: Any) -> None:
        members = _members(item)
        y = members.pop("y", None) if self.later else None
        example = self.client.submit(result=True, **members)
        label = None if y is None else self.client.submit_label(example.number, y, result=True)
        self.sent.append((example, label, members.get("time")))

    def frame(self) -> "pandas.DataFrame":
        pandas = need_pandas()
        if not self.sent:
            raise ValueError("there are no items to learn from; is the iterable a generator that has ended?")
        rows, losses = [], []
        for example, label, _ in self.sent:
            answer, scored = example.wait(), label.wait() if label else None
            values = answer.prediction
            losses.append(scored.loss if scored else answer.loss)
            rows.append(None if values is None else values.reshape(example.steps, -1)[-1])
        width = max((len(row) for row in rows if row is not None), default=0)
        data: Dict[str, Any] = {"stream": [example.number.stream for example, _, _ in self.sent]}
        if any(when is not None for _, _, when in self.sent):
            data["time"] = [shapes.seconds(when) or None for _, _, when in self.sent]
        filled = np.array([np.full(width, np.nan) if row is None else row for row in rows], float).reshape(-1, width)
        data.update({name: filled[:, k] for k, name in enumerate(self.client._names(width))})
        data["loss"] = np.array([np.nan if loss is None else loss for loss in losses], float)
        return pandas.DataFrame(data)


def _take_times(frame: Any, name: Optional[Hashable]) -> Tuple[Any, Optional[List[float]]]:
    """What a frame has beside its column of times, and these as Unix times; None: it has none."""
    pandas, index = need_pandas(), getattr(frame, "index", None)
    kinds = list(frame.dtypes.items()) if isinstance(frame, pandas.DataFrame) else []
    if name is not None and [one for one, _ in kinds].count(name) != 1:
        raise ValueError(f"time is {name!r:.60}, but the items are not a data frame with one column of this name")
    dates = [one for one, kind in kinds if pandas.api.types.is_datetime64_any_dtype(kind)]
    if name is None and len(dates) > 1:
        raise ValueError(f"columns {', '.join(map(repr, dates))} are dates: say with time= which one has the times, and "
                         "leave out the others")
    name = dates[0] if name is None and dates else name
    if name is not None:
        values, frame, what = frame[name], frame.drop(columns=[name]), f"column {name!r:.60}"
    elif isinstance(index, pandas.DatetimeIndex):
        values, what = index.to_series(), "the index"
    else:
        return frame, None
    if not pandas.api.types.is_numeric_dtype(values):
        try:
            if not all(isinstance(value, (str, datetime.date)) for value in values.dropna()):
                raise ValueError("expected Unix times, or dates")
            dates = pandas.to_datetime(values, utc=True)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"{what} has no times: {error}") from None
        values = (dates - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)
    times = [float(value) for value in values]
    bad = next((row for row, value in enumerate(times) if not math.isfinite(value)), None)
    if bad is not None:
        raise ValueError(f"row {bad}: {what} has no time there")
    return frame, times


def run(config: Config, iterable: Iterable[Any], *, stream: str = "", time: Optional[Hashable] = None,
        runneld: Optional[str] = None, directory: Optional[str] = None) -> "pandas.DataFrame":
    """Have a daemon of its own learn from all items, and hand back what it said: a data frame with a row for each
    item, in their order. The daemon is ended in any case.

    config      as of Daemon
    iterable    a data frame, of x alone; or of x; of (x, y), a tuple; or of dicts: columns by name, or x and some of y, stream, time, end, learn.
                x is as for Client.learn: of a model of one column [1, 2] are two steps of one example, as are [[1], [2]],
                and a row; rows of a frame or an array are one step each, and are refused in another width
    stream      of items that name none
    time        of a data frame the column that has the time of each row: Unix times, or dates, also as texts (UTC where
                they have no zone); it is not part of x. None: its only column of dates, else its index where that has dates

    Columns: `stream`; `time` where one has it; `prediction`, or `prediction_0`, `prediction_1`, ... (of the last
    step), and `loss`. With `target: given` and `later` a row's prediction is that of its own y, made before it was
    learned, and its loss that of this prediction. With `next` the prediction is that of the stream's next x, and the
    loss that of the prediction made before (`ahead` rows of that stream earlier). With `gaussian` the first half of
    the columns are means, the second deviations; with `softmax` they are probabilities. With names they are
    `prediction_NAME`: of targets that have names (`prediction_NAME_0`, `_1` for horizons, or means and deviations), and
    of classes that are words (by number of those that have not come, and with `forget: lru`).
    """
    frame, times = _take_times(iterable, time)
    with Daemon(config, runneld=runneld, directory=directory) as daemon:
        with daemon.control() as control:
            later = control.status()["schema"]["target"] == "later"
        with daemon.client(stream=stream) as client:
            rows = _Rows(client, later)
            items = client._items(frame)
            for item in items if times is None else ({**one, "time": at} for one, at in zip(items, times)):
                rows.add(item)
            return rows.frame()
