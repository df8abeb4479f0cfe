"""Convert arguments of `learn`, `label` and `predict` to messages, for both clients."""
from __future__ import annotations

import collections.abc
import secrets
from typing import Dict, List, Optional, Sequence, Tuple

import numpy as np

from . import shapes, wire
from .session import Frames
from .shapes import Array, Shapes, Time
from .wire import Number


Posts = List[Tuple[bytes, Frames]]  # idents and messages


class Numbers:
    """The producer, and the newest number of each stream, from 1."""

    def __init__(self, producer: Optional[int], epoch: int) -> None:
        if producer is not None and not 0 < producer < 1 << 64:
            raise ValueError(f"producer must be a 64-bit number and not 0, got {producer}")
        if not 0 <= epoch < 1 << 32:
            raise ValueError(f"epoch must be a 32-bit number, got {epoch}")
        self.producer = producer if producer is not None else secrets.randbits(64) or 1
        self.epoch = epoch
        self._newest: Dict[bytes, int] = {}

    def number(self, key: bytes, count: int = 1) -> int:
        """Reserve `count` numbers and return the first."""
        newest = self._newest.get(key, 0)
        self._newest[key] = newest + count
        return newest + 1


class Examples:
    """Makes messages, each with the next number of its stream."""

    def __init__(self, numbers: Numbers, known: Shapes) -> None:
        self.numbers, self.shapes = numbers, known

    def example(self, x: object, y: object, stream: str, time: Time,
                flags: int) -> "Tuple[Number, bytes, Frames, int]":
        """Return number, ident, frames and steps."""
        key = wire.key_bytes(stream)
        when = shapes.seconds(time)
        flags |= wire.QUANTILES if flags & wire.RESULT and self.shapes.quantiles else 0
        x, y = shapes.unframed(x, self.shapes.by_name), shapes.unframed(y, self.shapes.y_by_name)
        if self.shapes.mixed or shapes.is_named(x) or shapes.is_named(y):
            members: Dict[str, object] = {"stream": stream, "x": shapes.plain(x)}
            if y is not None:
                members["y"] = shapes.plain(y)
            return (*self._json(key, stream, members, when, flags), self._steps(x))
        x_bytes, steps = self.shapes.x_bytes(x)
        y_bytes = b"" if y is None else self.shapes.y_array(y, steps).tobytes()
        number, header = self._header(key, stream, when, flags)
        return number, key + header[4:16], (key, x_bytes, y_bytes, header), steps

    def _steps(self, x: object) -> int:
        """Count the steps of an x that is sent as JSON: a list of lists, of dicts, or of words if a
        step is one word."""
        if self.shapes.longest or not isinstance(x, (list, tuple, np.ndarray)) or len(x) == 0:
            return 1
        nested = isinstance(x[0], (list, tuple, np.ndarray, collections.abc.Mapping))
        return len(x) if nested or (not self.shapes.mixed and shapes.is_named(x)) else 1

    def label(self, of: Number, y: object, flags: int) -> "Tuple[Number, bytes, Frames]":
        """Return number, ident and frames of a label."""
        if not isinstance(of, tuple) or len(of) != len(Number._fields):
            raise TypeError(f"label() expects the Number that learn() returned, got {of!r:.60}")
        of = Number(*of)
        key = wire.key_bytes(of.stream)
        y = shapes.unframed(y, self.shapes.y_by_name)
        if shapes.is_named(y):
            return self._json(key, of.stream, {"stream": of.stream, "y": shapes.plain(y),
                                               "label_of": of.sequence, "label_epoch": of.epoch}, 0.0, flags)
        y_bytes = self.shapes.y_array(y, None).tobytes()
        number, header = self._header(key, of.stream, 0.0, flags | wire.LABEL)
        label = wire.LABEL_OF.pack(of.epoch, 0, of.sequence)
        return number, key + header[4:16], (key, b"", y_bytes, header, label)

    def rows(self, xs: Array, ys: Optional[Array], stream: str, times: Optional[Sequence[float]],
             flags: int) -> "Tuple[Number, Posts]":
        """Make an example of one step for each row: xs (rows, columns), ys (rows, targets). Return
        the last number and the messages."""
        key = wire.key_bytes(stream)
        x_size, x_bytes = xs.itemsize * xs.shape[1], xs.tobytes()
        y_size, y_bytes = (0, b"") if ys is None else (ys.itemsize * ys.shape[1], ys.tobytes())
        pack, producer, epoch = wire.HEADER.pack, self.numbers.producer, self.numbers.epoch
        first = self.numbers.number(key, len(xs))
        posts: Posts = []
        for i in range(len(xs)):
            header = pack(wire.VERSION, flags, 0, epoch, first + i, times[i] if times else 0.0, producer)
            posts.append((key + header[4:16], (key, x_bytes[i * x_size:(i + 1) * x_size],
                                               y_bytes[i * y_size:(i + 1) * y_size], header)))
        return Number(stream, first + len(xs) - 1, epoch), posts

    def _header(self, key: bytes, stream: str, when: float, flags: int) -> "Tuple[Number, bytes]":
        number = Number(stream, self.numbers.number(key), self.numbers.epoch)
        return number, wire.HEADER.pack(wire.VERSION, flags, 0, number.epoch, number.sequence, when,
                                        self.numbers.producer)

    def _json(self, key: bytes, stream: str, members: "dict[str, object]", when: float,
              flags: int) -> "Tuple[Number, bytes, Frames]":
        epoch, producer = self.numbers.epoch, self.numbers.producer
        named = {"end": (wire.END, True), "learn": (wire.DO_NOT_LEARN, False), "result": (wire.RESULT, True),
                 "quantiles": (wire.QUANTILES, True)}
        members.update({name: value for name, (flag, value) in named.items() if flags & flag})
        if when:
            members["time"] = when
        shapes.json_bytes(members)  # an example that cannot be sent must not use a number
        number = Number(stream, self.numbers.number(key), epoch)
        members.update(producer=f"{producer:x}", epoch=epoch, sequence=number.sequence)
        ident = key + wire.NUMBERS.pack(epoch, number.sequence)
        return number, ident, (shapes.json_bytes(members),)
