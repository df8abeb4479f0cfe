"""Convert lists, arrays and dictionaries to the bytes of x and y, with the shapes of the daemon's
model if they are known. Raises ValueError or TypeError before anything is sent."""
from __future__ import annotations

import collections.abc
import datetime
import json
import math
import struct
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import wire
from .errors import Malformed
from .reading import texts, whole

COLUMNS_MAX = 1 << 24  # numbers in a step, more than a daemon allows
PLAIN = {float, int, np.ndarray, np.float32, np.float64}
FLOAT, WHOLE = np.dtype("<f4"), np.dtype("<u4")
Array = NDArray[Any]
Time = Union[float, datetime.datetime, None]


def seconds(time: Time) -> float:
    """Convert to Unix time; 0 = none."""
    if time is None:
        return 0.0
    try:
        value = time.timestamp() if isinstance(time, datetime.datetime) else float(time)
    except (TypeError, ValueError):
        raise TypeError(f"time must be Unix time in seconds or a datetime, got {time!r:.60}") from None
    if not math.isfinite(value):
        raise ValueError(f"time must be Unix time in seconds or a datetime, got {value}")
    return value


def unframed(value: Any, names: bool) -> Any:
    """Convert a pandas data frame to its rows, and a series to its values: dicts by name, or
    numbers (or words). Leave anything else unchanged."""
    if not hasattr(value, "to_dict") or not hasattr(value, "to_numpy"):
        return value
    if names:
        return value.to_dict("records") if hasattr(value, "columns") else value.to_dict()
    array = value.to_numpy()
    return array.tolist() if array.dtype == object else array


def is_named(value: object) -> bool:
    """Whether x or y must be sent as JSON: columns by name, words, classes by name."""
    if value is None or type(value) in PLAIN:
        return False
    if isinstance(value, (list, tuple)):
        for one in value:
            if type(one) not in PLAIN and is_named(one):
                return True
        return False
    return isinstance(value, (str, collections.abc.Mapping))


def plain(value: object) -> object:
    """Convert to types of JSON: numpy's numbers and arrays become Python's, missing values null."""
    if isinstance(value, collections.abc.Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"cannot send a {type(value).__name__}; expected numbers, strings or None")


def json_bytes(message: Mapping[str, object]) -> bytes:
    """Return one frame of JSON. Raises ValueError for an infinite number."""
    try:
        return json.dumps(message, ensure_ascii=False, allow_nan=False,
                          separators=(",", ":")).encode("utf-8")
    except ValueError:
        raise ValueError("cannot send an infinite number; use None for missing values") from None


def _array(value: object, name: str) -> Array:
    """Convert to an array of numbers of any type."""
    try:
        array = np.asarray(value)
        if array.dtype == object:  # None among numbers is a missing value
            array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a list of numbers, got {str(value)[:60]}") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be convertible to float32 or uint32, got the type {array.dtype}")
    return array


def _floats(array: Array, name: str) -> Array:
    if array.dtype == FLOAT:
        found = array
    else:
        with np.errstate(over="ignore"):
            found = array.astype(FLOAT)
    if not np.isfinite(found).all() and np.isinf(found).any():
        first = array.reshape(-1)[int(np.isinf(found).reshape(-1).argmax())]
        raise ValueError(f"{name} has {first}, which is outside the range of float32")
    return found


def _whole(array: Array, name: str, what: str) -> Array:
    """Convert to ids of symbols or classes; NaN is a missing class."""
    if array.dtype == WHOLE:
        return array
    values = array.astype(np.float64)
    known = ~np.isnan(values)
    if name == "x" and not known.all():
        raise ValueError(f"x has NaN, but {what} must not be missing")
    bad = known & ((values != np.floor(values)) | (values < 0) | (values >= wire.NO_CLASS))
    if bad.any():
        raise ValueError(f"{name} has {values[bad].flat[0]:g}; {what} must be a whole number from 0")
    return np.where(known, values, wire.NO_CLASS).astype(WHOLE)


def _checked(schema: object, what: str) -> Dict[str, Any]:
    """Return the used members of a schema, with defaults for missing ones."""
    found: Dict[str, Any] = {"target_dtype": None, "target": "", "names": [], "kinds": [], "target_names": [],
                             "classes": {}, "levels": [], "sequence": {}, "target_sequence": {}, "outputs": []}
    found.update(schema if isinstance(schema, dict) else {})
    classes, columns, targets = found["classes"], found.get("columns"), found.get("targets")
    wrong = [name for name, good in {
        "dtype": found.get("dtype") in ("float32", "uint32", "mixed"),
        "columns": whole(columns, COLUMNS_MAX) and columns != 0,
        "targets": whole(targets, COLUMNS_MAX),
        "target_dtype": found["target_dtype"] in (None, "float32", "uint32"),
        "target": found["target"] in ("", "given", "next", "later", "previous", "same"),
        **{name: found[name] == {} or isinstance(found[name], dict) and whole(found[name].get("longest"), COLUMNS_MAX)
           for name in ("sequence", "target_sequence")},
        **{name: texts(found[name]) and (not count or len(found[name]) in (0, count)) for name, count in
           (("names", columns), ("kinds", columns), ("target_names", targets))},
        "levels": isinstance(found["levels"], list), "outputs": texts(found["outputs"]),
        "classes": classes == {} or isinstance(classes, dict) and texts(classes.get("words"))
                   and isinstance(classes.get("forgets"), bool)}.items() if not good]
    if wrong:
        raise Malformed(f"{what} is invalid: {', '.join(wrong)}")
    return found


class Shapes:
    """The shapes of the model. None: not known yet.

    x_type, y_type   FLOAT, or WHOLE for ids of symbols or classes
    columns          numbers in a step of x
    targets          numbers in a target; 0: the target is the next x
    by_name          columns have names; y_by_name: sent targets have names
    mixed            some columns are numbers, others symbols: x is sent as JSON
    target           "given", "next", "later", "previous", "same", or "" = not known
    longest          most atoms of an x that is a message; 0: x is one vector a step
    y_longest        the same of y
    target_names     names of targets, also if the target is the next x; []: no names
    classes          the target is a class
    words            words of classes by id, at the time of the answer
    quantiles        answers can have quantiles
    forgets          an id may be given to another word
    asked            the daemon has answered
    """

    def __init__(self) -> None:
        self.x_type: Optional[np.dtype[Any]] = None
        self.y_type: Optional[np.dtype[Any]] = None
        self.columns: Optional[int] = None
        self.targets: Optional[int] = None
        self.target = ""
        self.mixed = self.by_name = self.y_by_name = False
        self.longest = self.y_longest = 0
        self._pack: Optional[Callable[..., bytes]] = None
        self.target_names: List[str] = []
        self.words: Optional[List[str]] = None
        self.classes = self.forgets = self.quantiles = self.asked = False

    def take(self, schema: object, what: str) -> None:
        """Read the daemon's schema: its answer, or `schema` of its status. An older daemon sends
        {}: then it checks each example itself. Raises Malformed if `what` is not a schema."""
        if schema != {}:
            self._take(_checked(schema, what))
        self.asked = True

    def _take(self, schema: Mapping[str, Any]) -> None:
        words, kinds = schema["classes"], dict(zip(schema["names"], schema["kinds"]))
        one = not schema["outputs"]  # else the values are those of all outputs
        if words and one:
            self.words, self.forgets = words["words"], words["forgets"]
        self.longest = schema["sequence"].get("longest", 0)
        self.y_longest = schema["target_sequence"].get("longest", 0)
        self.mixed = schema["dtype"] == "mixed"
        self.x_type = WHOLE if schema["dtype"] == "uint32" else FLOAT
        self.columns, self.targets, self.target = schema["columns"], schema["targets"], schema["target"]
        self.target_names, self.quantiles = schema["target_names"], bool(schema["levels"])
        self.by_name, self.y_by_name = bool(schema["names"]), bool(self.target_names) and self.targets != 0
        self._pack = struct.Struct(f"<{self.columns}f").pack if self.x_type == FLOAT else None
        self.y_type = WHOLE if schema["target_dtype"] == "uint32" else FLOAT
        of_next = self.x_type == WHOLE or any(kinds.get(name) == "symbol" for name in self.target_names)
        in_x = self.target in ("next", "previous", "same")
        self.classes = one and (of_next if in_x else self.y_type == WHOLE)

    def lacks_names(self, values: Array) -> bool:
        """Whether probabilities (.., classes) include words added after the answer."""
        return self.words is not None and bool(self.forgets or values[..., len(self.words):-1].any())

    def names(self, count: int) -> "Optional[List[Optional[str]]]":
        """Return the names of a prediction with this number of values: words of classes, or columns of
        targets."""
        targets = len(self.target_names)
        if self.words is not None:
            known: List[Optional[str]] = [*self.words]
            return (known + [None] * count)[:count]
        named = targets and not self.classes and count % targets == 0
        return [self.target_names[k % targets] for k in range(count)] if named else None

    def x_bytes(self, x: object) -> "tuple[bytes, int]":
        """Return the bytes of x, and its number of steps."""
        # Fast path for the usual cases. The daemon rejects infinite numbers itself.
        if type(x) is np.ndarray and x.dtype is FLOAT and x.shape == (self.columns,):
            return x.tobytes(), 1
        if self._pack is not None and type(x) in (list, tuple):
            try:
                if math.inf not in x and -math.inf not in x:  # type: ignore[operator]
                    return self._pack(*x), 1  # type: ignore[misc]
            except (struct.error, OverflowError, TypeError, ValueError):
                pass  # not a step of floats: the following code handles it or raises the error
        array = self.x_array(x)
        return array.tobytes(), 1 if self.longest else len(array)

    def x_array(self, x: object, many: bool = False) -> Array:
        """Return (steps, columns) float32 or (steps, 1) uint32; with `many`, a row per example."""
        array = _array(x, "x")
        if many and self.longest:
            raise ValueError("x is a message of this model: pass each one to learn()")
        return self._shaped(array, "x", self.x_type, self.columns, "a symbol", many)

    def y_array(self, y: object, steps: Optional[int], many: bool = False) -> Array:
        """Return (steps, targets) float32 or (steps, 1) uint32; with `many`, a row per example."""
        if self.targets == 0:
            raise ValueError("y is not allowed: this model's target is the next x")
        array = self._shaped(_array(y, "y"), "y", self.y_type, self.targets, "a class", many)
        if steps is not None and len(array) != steps and not self.y_longest:
            raise ValueError(f"x has {steps} steps, but y has targets for {len(array)}")
        return array

    def _shaped(self, array: Array, name: str, kind: Optional[np.dtype[Any]],
                width: Optional[int], what: str, many: bool) -> Array:
        whole = kind == WHOLE or (kind is None and array.dtype == WHOLE)
        found = _whole(array, name, what) if whole else _floats(array, name)
        if whole and width is None:
            width = 1
        if width is None:
            width = found.shape[-1] if found.ndim else 1
        one_each = width == 1 and found.ndim <= 1
        longest = self.longest if name == "x" else self.y_longest
        if found.ndim > 2 or (not one_each and (found.shape[-1] if found.ndim else 1) != width):
            row = "atom" if longest else "step"
            form = f"(n, {width}), one row per example" if many else f"({width},), or ({row}s, {width})"
            raise ValueError(f"{name} has the shape {array.shape}, but {'an' if longest else 'a'} {row} of this model "
                             f"has {width} number{'s' if width != 1 else ''}: pass {form}")
        found = found.reshape(-1, width)
        most = longest or wire.STEPS_MAX
        if not 1 <= len(found) <= most:
            raise ValueError(f"{name} must have 1 to {most} {'atoms' if longest else 'steps'}, got {len(found)}")
        return found
