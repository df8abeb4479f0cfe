"""Read recordings of runnel-record with pandas: `read_recording`."""
from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from .errors import printable
from .reading import json_object

if TYPE_CHECKING:
    import pandas

TABLES = {"losses": "loss", "states": "state", "columns": "loss_columns", "experts": "loss_experts",
          "predictions": "predictions", "anomalies": "anomalies", "events": "events", "runs": "runs",
          "layers": "layers"}


def need_pandas() -> Any:
    """Import pandas, or raise ImportError with the way to install it."""
    try:
        import pandas as found
    except ImportError:
        raise ImportError("pandas not found: pip install pandas, or apt-get install python3-pandas") from None
    return found


def restrict(database: sqlite3.Connection) -> None:
    """Protect against an untrusted file: deny views, which may be endless, and let Ctrl-C end a
    read."""
    database.execute("PRAGMA trusted_schema = OFF")
    database.set_authorizer(lambda action, one, two, base, view: sqlite3.SQLITE_DENY if view else sqlite3.SQLITE_OK)
    database.set_progress_handler(lambda: 0, 100000)


def read_recording(path: Union[str, "os.PathLike[str]"], table: str = "losses") -> "pandas.DataFrame":
    """Read a table of a file of runnel-record, even while it is written. Returns a data frame with
    a row for each message (or part of one) and the columns of docs/reference/recordings.md. `date` is
    its `time` as a date in UTC, `daemon` the name in the run's configuration, and `histogram` of
    states has 20 counts. Predictions have a column for each level, such as `q0.05`.

    table   losses, states (a row for each layer), columns (errors of each column), experts,
            predictions (each with its truth), anomalies, events, runs, layers

    Raises ImportError without pandas, ValueError for an unknown table or another file, and
    FileNotFoundError.
    """
    pandas = need_pandas()
    if table not in TABLES:
        raise ValueError(f"unknown table {table!r}; expected {', '.join(TABLES)}")
    file = pathlib.Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: recording not found; use runnel-record --output {path} to make one")
    name = TABLES[table]
    with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        try:
            restrict(database)
            there = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
            if not {"runs", "loss"} <= there:
                raise ValueError(f"{path}: not a recording of runnel-record")
            if name not in there:
                raise ValueError(f"{path}: no {table} in this recording, which an older runnel-record wrote")
            order = "id" if name in ("runs", "events", "predictions", "anomalies") else "rowid"
            joined = "" if name == "runs" else ", r.name AS daemon"
            join = "" if name == "runs" else "LEFT JOIN runs r ON r.id = t.run"
            order = {"rowid": "t.run"}.get(order, "t.id")
            frame = pandas.read_sql_query(f"SELECT t.*{joined} FROM {name} t {join} ORDER BY {order}", database)
        except (sqlite3.DatabaseError, pandas.errors.DatabaseError) as error:
            raise ValueError(f"{path}: not a recording: {printable(str(error))}") from None
    try:
        if "time" in frame:
            frame["date"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        if "histogram" in frame:
            frame["histogram"] = [None if blob is None else np.frombuffer(blob, "<f4")
                                  for blob in frame["histogram"]]
        if "quantiles" in frame:
            rows = [json_object((text or "{}").encode(), "quantiles") for text in frame.pop("quantiles")]
            frame = frame.join(pandas.DataFrame(rows, frame.index).astype(float))
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{path}: not a recording: {printable(str(error))}") from None
    return frame
