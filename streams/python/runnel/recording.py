"""Recordings of runnel-record in pandas: `read_recording`."""
from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from .errors import printable

if TYPE_CHECKING:
    import pandas

TABLES = {"losses": "loss", "states": "state", "columns": "loss_columns", "experts": "loss_experts",
          "predictions": "predictions", "anomalies": "anomalies", "events": "events", "runs": "runs",
          "layers": "layers"}


def need_pandas() -> Any:
    """ImportError: it is not there, and what to do."""
    try:
        import pandas as found
    except ImportError:
        raise ImportError("this needs pandas: pip install pandas, or apt-get install python3-pandas") from None
    return found


def restrict(database: sqlite3.Connection) -> None:
    """For a file that somebody else may have made: no view is read, since its rows may not end, and Ctrl-C ends a
    read."""
    database.execute("PRAGMA trusted_schema = OFF")
    database.set_authorizer(lambda action, one, two, base, view: sqlite3.SQLITE_DENY if view else sqlite3.SQLITE_OK)
    database.set_progress_handler(lambda: 0, 100000)


def read_recording(path: Union[str, "os.PathLike[str]"], table: str = "losses") -> "pandas.DataFrame":
    """A table of a file that runnel-record has written, or is writing, as a data frame: a row for each message
    (or part of one) with the columns of docs/reference/recordings.md; `date` is its `time` as a date in UTC, `daemon` the
    name of the run's configuration, and `histogram` of states 20 counts.

    table   losses, states (a row for each layer), columns (errors of each column), experts, predictions (each
            beside its truth), anomalies, events, runs, layers

    ImportError: there is no pandas. ValueError: no such table, or no recording. FileNotFoundError.
    """
    pandas = need_pandas()
    if table not in TABLES:
        raise ValueError(f"{table!r} is no table of a recording; there are {', '.join(TABLES)}")
    file = pathlib.Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: there is no such recording; runnel-record --output {path} makes one")
    name = TABLES[table]
    with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
        try:
            restrict(database)
            there = {row[0] for row in database.execute("SELECT name FROM sqlite_master")}
            if not {"runs", "loss"} <= there:
                raise ValueError(f"{path}: this is no recording of runnel-record")
            if name not in there:
                raise ValueError(f"{path}: this recording has no {table}: an older runnel-record wrote it")
            order = "id" if name in ("runs", "events", "predictions", "anomalies") else "rowid"
            joined = "" if name == "runs" else ", r.name AS daemon"
            join = "" if name == "runs" else "LEFT JOIN runs r ON r.id = t.run"
            order = {"rowid": "t.run"}.get(order, "t.id")
            frame = pandas.read_sql_query(f"SELECT t.*{joined} FROM {name} t {join} ORDER BY {order}", database)
        except (sqlite3.DatabaseError, pandas.errors.DatabaseError) as error:
            raise ValueError(f"{path}: this is no recording: {printable(str(error))}") from None
    try:
        if "time" in frame:
            frame["date"] = pandas.to_datetime(frame["time"], unit="s", utc=True)
        if "histogram" in frame:
            frame["histogram"] = [None if blob is None else np.frombuffer(blob, "<f4")
                                  for blob in frame["histogram"]]
    except (ValueError, TypeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{path}: this is no recording: {printable(str(error))}") from None
    return frame
