"""The messages on the sockets, byte for byte (docs/reference/protocol.md), independent of sockets.
"""
from __future__ import annotations

import struct
from typing import NamedTuple

EXAMPLES = "tcp://127.0.0.1:5570"  # default endpoints of a daemon
STATISTICS = "tcp://127.0.0.1:5571"
CONTROL = "tcp://127.0.0.1:5572"

END, DO_NOT_LEARN, RESULT, LABEL, QUANTILES = 1, 2, 4, 8, 128  # flags of a header
VERSION = 2  # version of a header with a producer
KEY_MAX = 255  # bytes
STEPS_MAX = 4096  # maximum steps of an example
NO_CLASS = 0xFFFFFFFF  # a missing class

HEADER = struct.Struct("<BBHIQdQ")  # version, flags, 0, epoch, sequence, time, producer
LABEL_OF = struct.Struct("<IIQ")  # epoch, 0, sequence
ACKNOWLEDGEMENT = struct.Struct("<BBHIQQ")  # version, status, reason, epoch, sequence, position
NUMBERS = struct.Struct("<IQ")  # epoch, sequence: bytes 4 to 16 of a header and of its answer

ACCEPTED, DUPLICATE, REJECTED = 0, 1, 2  # status
OLD_EPOCH = 1  # reason of a duplicate
PLAIN = b"\x01\x00\x00\x00"  # beginning of an answer that only accepts

# Reasons of rejections by number: the table of docs/reference/protocol.md from 1 on.
REASONS = ("unknown", "frames", "json", "key", "x_size", "x_value", "y_size", "y_value", "y_given",
           "header", "conflict", "sequence_jump", "not_allowed", "schema", "label",
           "vocabulary")


class Number(NamedTuple):
    """The number of an example: `learn` returns it, and `label` takes it."""

    stream: str
    sequence: int
    epoch: int = 0


class Acknowledgement(NamedTuple):
    """The fields of an answer, see docs/reference/protocol.md."""

    version: int
    status: int
    reason: int
    epoch: int
    sequence: int
    position: int


def reason_name(number: int) -> str:
    """Return a reason's name, also for an unknown reason."""
    return REASONS[number] if 0 < number < len(REASONS) else f"reason {number}"


def key_bytes(stream: str) -> bytes:
    """Return the key of a stream. Raises ValueError if the name is invalid."""
    if not isinstance(stream, str):
        raise TypeError(f"stream must be a text, got a {type(stream).__name__}")
    key = stream.encode("utf-8")
    if len(key) > KEY_MAX or b"\0" in key:
        raise ValueError(f"stream {stream[:20]!r}... has {len(key)} bytes or a NUL; a name has at "
                         f"most {KEY_MAX} bytes of UTF-8 without NUL")
    return key
