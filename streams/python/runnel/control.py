"""Query and control a daemon: `Control`."""
from __future__ import annotations

import base64
import math
import time
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import numpy as np
import zmq
from numpy.typing import NDArray

from . import shapes, wire
from .errors import CommandError, Malformed, Unavailable
from .peer import Path, Peer
from .reading import json_object, whole

Reply = Dict[str, Any]
PIECE = 45000  # bytes of a blob in one request (docs/reference/protocol.md, adopt)
LENGTH = 8  # bytes with the length of the header of a safetensors file
DIMENSIONS_MAX = 8
TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "U32": "<u4", "U64": "<u8"}


class Tensors(Dict[str, NDArray[Any]]):
    """Tensors by name, with texts in `metadata` (docs/reference/protocol.md, exported parameters).
    """

    metadata: Dict[str, str]


def read_safetensors(data: bytes) -> Tensors:
    """Parse a safetensors file. Raises Malformed (also a ValueError) for another or a damaged file.
    """
    size = int.from_bytes(data[:LENGTH], "little")
    if not 0 < size <= len(data) - LENGTH:
        raise Malformed(f"not a safetensors file: a header of {size} bytes in a file of {len(data)}")
    header = json_object(data[LENGTH:LENGTH + size], "the header of the safetensors file")
    metadata, body, found = header.pop("__metadata__", {}), memoryview(data)[LENGTH + size:], Tensors()
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise Malformed("damaged safetensors file: metadata must be texts by name")
    found.metadata, places = metadata, []
    for name, tensor in header.items():
        places.append(_place(name, tensor, len(body)))
        (begin, end), shape = tensor["data_offsets"], tensor["shape"]
        found[name] = np.frombuffer(body[begin:end], TYPES[tensor["dtype"]]).reshape(shape).copy()
    ends = [0, *(end for _, end in sorted(places))]
    if [begin for begin, _ in sorted(places)] != ends[:-1] or ends[-1] != len(body):
        raise Malformed("damaged safetensors file: gaps between its tensors")
    return found


def _place(name: str, tensor: object, size: int) -> Tuple[int, int]:
    """Return the tensor's begin and end in a body of this size. Raises Malformed if they do not fit
    the body or its shape."""
    members: Dict[str, Any] = tensor if isinstance(tensor, dict) else {}
    offsets, shape, dtype = (members.get(member) for member in ("data_offsets", "shape", "dtype"))
    if (isinstance(offsets, list) and len(offsets) == 2 and all(whole(one, size) for one in offsets)
            and isinstance(shape, list) and len(shape) <= DIMENSIONS_MAX and all(whole(one) for one in shape)
            and isinstance(dtype, str) and dtype in TYPES
            and offsets[1] - offsets[0] == math.prod(shape) * np.dtype(TYPES[dtype]).itemsize):
        return offsets[0], offsets[1]
    raise Malformed(f"damaged safetensors file: dtype, shape and data_offsets of tensor {name!r:.80} do not fit")


class Control:
    """The control socket of a daemon. Each command is a method that waits for the reply and returns
    it, a dict as in docs/reference/protocol.md. Raises CommandError if the daemon refuses, and
    Unavailable without a reply within `timeout` seconds (None: no limit); the command may have been
    executed all the same."""

    def __init__(self, endpoint: str = wire.CONTROL, *, server_key: Optional[Path] = None, key: Optional[Path] = None,
                 timeout: Optional[float] = 30.0) -> None:
        self._peer, self.timeout = Peer(endpoint, server_key, key), timeout
        self._context: "zmq.Context[zmq.Socket[bytes]]" = zmq.Context()
        self._socket: "Optional[zmq.Socket[bytes]]" = None

    def _connected(self) -> "zmq.Socket[bytes]":
        if self._socket is None:
            self._socket = self._context.socket(zmq.REQ)
            self._peer.prepare(self._socket)
            self._peer.connect(self._socket)
        return self._socket

    def _forget(self) -> None:
        """A REQ socket cannot send another request before its reply."""
        if self._socket is not None:
            self._socket.close(0)
        self._socket = None

    def request(self, command: str, **members: Any) -> Reply:
        """Send any command with its other members by name."""
        return self._ask(command, members)[0]

    def _ask(self, command: str, members: Mapping[str, Any]) -> Tuple[Reply, List[bytes]]:
        text = shapes.json_bytes({"command": command, **{name: shapes.plain(value)
                                                         for name, value in members.items()}})
        socket = self._connected()
        socket.send(text)
        end = math.inf if self.timeout is None else time.monotonic() + self.timeout
        try:
            while not socket.poll(max(0, min(250, math.ceil(1000 * min(end - time.monotonic(), 1))))):
                if time.monotonic() >= end:
                    raise Unavailable(f"{self._peer.endpoint}: no reply to '{command}' within {self.timeout:g} s; is "
                                      "runneld running, and is this its control.bind (with keys: server_key, key)?")
        except BaseException:
            self._forget()
            raise
        first, *rest = socket.recv_multipart()
        what = f"{self._peer.endpoint}: the reply to '{command}'"
        reply: Reply = json_object(first, what)
        good, refusal = reply.get("ok"), reply.get("error", "the daemon refused")
        if not isinstance(good, bool) or not isinstance(refusal, str):
            raise Malformed(f"{what} is invalid: expected ok or error")
        if not good:
            raise CommandError(refusal)
        return reply, rest

    def status(self) -> Reply:
        """Return all that the topics `status` and `loss` contain."""
        return self.request("status")

    def set(self, key: str, value: float) -> Reply:
        """Change learning.optimizer.rate, learning.clip, anomaly.threshold or statistics.every."""
        return self.request("set", key=key, value=value)

    def checkpoint(self) -> Reply:
        """Write a checkpoint; returns path, examples, bytes and seconds once it is on disk."""
        return self.request("checkpoint")

    def export(self) -> Tensors:
        """Return the parameters: float32 arrays by name, matrices (out, in), PyTorch's order of
        gates. `metadata` has the digest, and the mean and deviation of scalers."""
        return read_safetensors(self.export_bytes())

    def export_bytes(self) -> bytes:
        """Return the parameters as the bytes of a safetensors file, for `model.initial`."""
        _, rest = self._ask("export", {})
        if len(rest) != 1:
            raise Malformed(f"{self._peer.endpoint}: the reply to 'export' has no parameters")
        return rest[0]

    def export_stream(self, stream: str) -> bytes:
        """Return the complete state of a stream, for `adopt` of another daemon with the same
        configuration."""
        _, rest = self._ask("export", {"stream": stream})
        if len(rest) != 1:
            raise Malformed(f"{self._peer.endpoint}: the reply to 'export' has no state of {stream!r}")
        return rest[0]

    def _send(self, command: str, data: bytes) -> Reply:
        """Send the data in pieces; return the reply to the last one."""
        pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)] or [b""]
        for part, piece in enumerate(pieces, 1):
            reply = self.request(command, part=part, parts=len(pieces), blob=base64.b64encode(piece).decode())
        return reply

    def adopt(self, state: bytes) -> Reply:
        """Continue the stream of an `export_stream` on this daemon, with its state."""
        return self._send("adopt", state)

    def import_bytes(self, data: bytes) -> Reply:
        """Replace the learned parameters by those of an `export_bytes`."""
        return self._send("import", data)

    def pause(self) -> Reply:
        """Stop taking examples until `resume`."""
        return self.request("pause")

    def resume(self) -> Reply:
        """Take examples again."""
        return self.request("resume")

    def reset(self, member: Optional[str] = None) -> Reply:
        """Start from scratch, with initial parameters and no streams or counts; or reset one
        member."""
        return self.request("reset") if member is None else self.request("reset", member=member)

    def forget(self, stream: str) -> Reply:
        """Delete a stream: its state, and the numbers of its producers."""
        return self.request("forget", stream=stream)

    def normal(self, stream: str, at: shapes.Time = None) -> Reply:
        """Mark the data of the stream's newest novelty alarm as normal, or of the alarm at the data
        time `at`."""
        more = {} if at is None else {"at": shapes.seconds(at)}
        return self.request("normal", stream=stream, **more)

    def silence(self, stream: str, seconds: float) -> Reply:
        """Silence the stream's incidents for so long, in data time; 0 ends it."""
        return self.request("silence", stream=stream, seconds=seconds)

    def abnormal(self, stream: str, at: shapes.Time = None, *, begin: shapes.Time = None, count: Optional[int] = None,
                 end: shapes.Time = None, dry_run: bool = False) -> Reply:
        """Roll back a stream's examples from its newest alarm on, or from the alarm at the data
        time `at`, or from the time `begin`: `count` examples, or those until the time `end`.
        `dry_run` only counts them."""
        times = {"at": at, "from": begin, "to": end}
        members: Dict[str, Any] = {name: shapes.seconds(value) for name, value in times.items() if value is not None}
        members.update({} if count is None else {"count": count})
        members.update({"dry_run": True} if dry_run else {})
        return self.request("abnormal", stream=stream, **members)

    def rollback(self, to: Optional[int] = None, *, to_time: shapes.Time = None,
                 without: Optional[Sequence[str]] = None, spans: Optional[Sequence[Tuple[int, int]]] = None,
                 dry_run: bool = False) -> Reply:
        """Roll back all that was learned after `to` (a position in the journal) or `to_time`; with
        `without` or `spans` only those streams and entries. `dry_run` only counts them."""
        members: Dict[str, Any] = {"to": to, "without": without, "spans": spans, "dry_run": dry_run or None,
                                   "to_time": None if to_time is None else shapes.seconds(to_time)}
        return self.request("rollback", **{name: value for name, value in members.items() if value is not None})

    def shutdown(self) -> Reply:
        """End the daemon after it has learned the waiting examples and written a checkpoint."""
        return self.request("shutdown")

    def close(self) -> None:
        """Close the socket."""
        self._forget()
        self._context.term()

    def __enter__(self) -> "Control":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()
