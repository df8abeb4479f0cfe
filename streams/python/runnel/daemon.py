"""A local daemon for a notebook or a test: `Daemon` and `run`."""
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
MEMBERS = {"x", "y", "stream", "time", "end", "learn"}  # members of a dict other than columns
START = 60.0  # seconds until the daemon answers
END = 20.0  # seconds until it ends
LOG = 2000  # characters of its log in an error message


def find_runneld(runneld: Optional[str] = None) -> str:
    """Return the program: `runneld`, the environment variable RUNNELD, or runneld in PATH. Raises
    Unavailable if it is not found."""
    name = runneld or os.environ.get("RUNNELD") or "runneld"
    found = shutil.which(name)
    if not found:
        raise Unavailable(f"program not found: {name}: install runnel, add runneld to PATH, or set "
                          "runneld= or the environment variable RUNNELD")
    return os.path.abspath(found)


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether poll() reports an exit. After an interruption (Ctrl-C), poll() may keep a lock, and
    wait() would then never return."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: "subprocess.Popen[bytes]", guard: "subprocess.Popen[bytes]", directory: Optional[str]) -> None:
    """End both processes and remove the directory."""
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
    """Starts runneld with sockets in its own directory. It ends with `with` or `close`, when the
    object is deleted, or when this program ends, even by a kill.

    config      a dict as in conf/reference.yaml, the text of such a file, or its path. Sockets and
                state directory are replaced
    runneld     the program; None: the environment variable RUNNELD, or runneld in PATH
    directory   for state, sockets and log, kept afterwards: a later daemon with the same
                configuration resumes from it. None: a temporary directory, without waiting for the
                disk
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
        # The guard's input ends with this program.
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
                raise RunnelError(f"runneld failed to start:\n{self.log()}")
            try:
                with self.control(timeout=0.25) as control:
                    control.status()
                return
            except Unavailable:
                if time.monotonic() > end:
                    raise Unavailable(f"runneld did not answer within {START:g} s:\n{self.log()}") from None

    def endpoint(self, name: str) -> str:
        """Return the endpoint of "examples", "statistics" or "control"."""
        return f"ipc://{self.directory}/{name}"

    def log(self) -> str:
        """Return the end of the daemon's log."""
        return (self.directory / "log").read_text(encoding="utf-8", errors="replace")[-LOG:]

    def client(self, **options: Any) -> Client:
        """Return a Client of the daemon."""
        return Client(self.endpoint("examples"), **options)

    def control(self, **options: Any) -> Control:
        """Return a Control of the daemon."""
        return Control(self.endpoint("control"), **options)

    def watcher(self, topics: Optional[List[str]] = None, **options: Any) -> Watcher:
        """Return a Watcher of the daemon."""
        return Watcher(self.endpoint("statistics"), topics, **options)

    def close(self) -> None:
        """End the daemon after it has learned all sent examples and written a checkpoint."""
        self._finish()

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()


def _members(item: Any) -> Dict[str, Any]:
    """Convert an item of `run` to arguments of `submit`."""
    if isinstance(item, Mapping) and "x" in item and set(item) <= MEMBERS:
        return dict(item)
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ValueError(f"expected x, (x, y) or a dict as an item, got a tuple of {len(item)}; "
                             "pass x as a list or an array")
        return {"x": item[0], "y": item[1]}
    return {"x": item}


class _Rows:
    """The items sent and their results."""

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
            raise ValueError("no items to learn from; is the iterable an exhausted generator?")
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
    """Return the frame without its time column, and the Unix times; None: no times."""
    pandas, index = need_pandas(), getattr(frame, "index", None)
    kinds = list(frame.dtypes.items()) if isinstance(frame, pandas.DataFrame) else []
    if name is not None and [one for one, _ in kinds].count(name) != 1:
        raise ValueError(f"time={name!r:.60}: the items are not a data frame with exactly one column of this name")
    dates = [one for one, kind in kinds if pandas.api.types.is_datetime64_any_dtype(kind)]
    if name is None and len(dates) > 1:
        raise ValueError(f"columns {', '.join(map(repr, dates))} are dates: set time= to one of them, and "
                         "drop the others")
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
                raise ValueError("expected Unix times or dates")
            dates = pandas.to_datetime(values, utc=True)
        except (OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"{what} has no times: {error}") from None
        values = (dates - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(seconds=1)
    times = [float(value) for value in values]
    bad = next((row for row, value in enumerate(times) if not math.isfinite(value)), None)
    if bad is not None:
        raise ValueError(f"row {bad}: {what} has no time")
    return frame, times


def run(config: Config, iterable: Iterable[Any], *, stream: str = "", time: Optional[Hashable] = None,
        runneld: Optional[str] = None, directory: Optional[str] = None) -> "pandas.DataFrame":
    """Let a new daemon learn all items, and return a data frame with a row for each item, in order.
    The daemon ends in any case.

    config      see Daemon
    iterable    a data frame with x; or x; (x, y) tuples; or dicts: columns by name, or x with some
                of y, stream, time, end, learn. x is as for Client.learn: with a model of one
                column, [1, 2] is one example of two steps, as is [[1], [2]]. Rows of a frame or an
                array are one step each, and rejected if their width differs
    stream      default stream of the items
    time        for a data frame, the column with the times: Unix times or dates, also as texts (UTC
                unless they have a zone). It is not part of x. None: the only column of dates, or
                else the index if it has dates

    Columns: `stream`; `time` if some item has one; `prediction`, or `prediction_0`, `prediction_1`,
    ... (of the last step); and `loss`. With `target: given` and `later`, the prediction is that of
    the row's own y, made before it was learned, and the loss is its loss. With `next`, the
    prediction is that of the stream's next x, and the loss that of the prediction made `ahead` rows
    earlier in the stream. With `gaussian`, the first half of the columns are means, the second half
    deviations; with `softmax` they are probabilities. Named columns are `prediction_NAME`: for
    named targets (`prediction_NAME_0`, `_1` for horizons, or means and deviations), and for classes
    that are words (a number for classes without a word yet, and with `forget: lru`).
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
