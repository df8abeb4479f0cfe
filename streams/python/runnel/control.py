"""Ask and command a daemon: `Control`."""
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
LENGTH = 8  # bytes that say how long the header of a safetensors file is
DIMENSIONS_MAX = 8
TYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "U32": "<u4", "U64": "<u8"}


class Tensors(Dict[str, NDArray[Any]]):
    """Tensors by name, and `metadata`: texts by name (docs/reference/protocol.md, exported parameters)."""

    metadata: Dict[str, str]


def read_safetensors(data: bytes) -> Tensors:
    """A safetensors file. Malformed (a ValueError, too): it is none, or damaged."""
    size = int.from_bytes(data[:LENGTH], "little")
    if not 0 < size <= len(data) - LENGTH:
        raise Malformed(f"not a safetensors file: a header of {size} bytes in a file of {len(data)}")
    header = json_object(data[LENGTH:LENGTH + size], "the header of the safetensors file")
    metadata, body, found = header.pop("__metadata__", {}), memoryview(data)[LENGTH + size:], Tensors()
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise Malformed("damaged safetensors file: its metadata are not texts by name")
    found.metadata, places = metadata, []
    for name, tensor in header.items():
        places.append(_place(name, tensor, len(body)))
        (begin, end), shape = tensor["data_offsets"], tensor["shape"]
        found[name] = np.frombuffer(body[begin:end], TYPES[tensor["dtype"]]).reshape(shape).copy()
    ends = [0, *(end for _, end in sorted(places))]
    if [begin for begin, _ in sorted(places)] != ends[:-1] or ends[-1] != len(body):
        raise Malformed("damaged safetensors file: its tensors do not fill it without gaps")
    return found


def _place(name: str, tensor: object, size: int) -> Tuple[int, int]:
    """Where its numbers begin and end in a body of so many bytes. Malformed: it fits neither them nor its shape."""
    members: Dict[str, Any] = tensor if isinstance(tensor, dict) else {}
    offsets, shape, dtype = (members.get(member) for member in ("data_offsets", "shape", "dtype"))
    if (isinstance(offsets, list) and len(offsets) == 2 and all(whole(one, size) for one in offsets)
            and isinstance(shape, list) and len(shape) <= DIMENSIONS_MAX and all(whole(one) for one in shape)
            and isinstance(dtype, str) and dtype in TYPES
            and offsets[1] - offsets[0] == math.prod(shape) * np.dtype(TYPES[dtype]).itemsize):
        return offsets[0], offsets[1]
    raise Malformed(f"damaged safetensors file: dtype, shape and data_offsets of tensor {name!r:.80} do not fit")


class Control:
    """The control socket of a daemon. Each command is a method that waits for the reply and hands it back, a
    dict as docs/reference/protocol.md has it. CommandError: the daemon refused, and why. Unavailable: no reply within
    `timeout` seconds (None: without end); what was asked may have been done all the same."""

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
        """A REQ socket whose reply has not come takes no other request."""
        if self._socket is not None:
            self._socket.close(0)
        self._socket = None

    def request(self, command: str, **members: Any) -> Reply:
        """Any command, its other members by name."""
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
            raise Malformed(f"{what} is invalid: ok, or error")
        if not good:
            raise CommandError(refusal)
        return reply, rest

    def status(self) -> Reply:
        """All that the topics `status` and `loss` carry."""
        return self.request("status")

    def set(self, key: str, value: float) -> Reply:
        """Change learning.optimizer.rate, learning.clip, anomaly.threshold or statistics.every."""
        return self.request("set", key=key, value=value)

    def checkpoint(self) -> Reply:
        """Write one; it is on disk when this returns: path, examples, bytes, seconds."""
        return self.request("checkpoint")

    def export(self) -> Tensors:
        """The parameters: float32 arrays by name, matrices (out, in), PyTorch's order of gates; `metadata` has
        the digest, and mean and deviation of scalers."""
        return read_safetensors(self.export_bytes())

    def export_bytes(self) -> bytes:
        """The same as the bytes of a safetensors file, as `model.initial` reads it."""
        _, rest = self._ask("export", {})
        if len(rest) != 1:
            raise Malformed(f"{self._peer.endpoint}: the reply to 'export' has no parameters")
        return rest[0]

    def export_stream(self, stream: str) -> bytes:
        """All that the daemon keeps of a stream, for `adopt` of another one with the same configuration."""
        _, rest = self._ask("export", {"stream": stream})
        if len(rest) != 1:
            raise Malformed(f"{self._peer.endpoint}: the reply to 'export' has no state of {stream!r}")
        return rest[0]

    def _send(self, command: str, data: bytes) -> Reply:
        """In pieces; the reply to the last."""
        pieces = [data[at:at + PIECE] for at in range(0, len(data), PIECE)] or [b""]
        for part, piece in enumerate(pieces, 1):
            reply = self.request(command, part=part, parts=len(pieces), blob=base64.b64encode(piece).decode())
        return reply

    def adopt(self, state: bytes) -> Reply:
        """The stream of an `export_stream` goes on here, with what another daemon kept of it."""
        return self._send("adopt", state)

    def import_bytes(self, data: bytes) -> Reply:
        """Put the parameters of an `export_bytes` in the place of those that were learned."""
        return self._send("import", data)

    def pause(self) -> Reply:
        """Take no examples until `resume`."""
        return self.request("pause")

    def resume(self) -> Reply:
        """Take examples again."""
        return self.request("resume")

    def reset(self, member: Optional[str] = None) -> Reply:
        """Begin anew: starting values, no streams, no counts; or one member alone."""
        return self.request("reset") if member is None else self.request("reset", member=member)

    def forget(self, stream: str) -> Reply:
        """Forget a stream: its state, and the numbers of its producers."""
        return self.request("forget", stream=stream)

    def normal(self, stream: str, at: shapes.Time = None) -> Reply:
        """What the stream's newest alarm of novelty (or that whose data are of time `at`) saw is normal."""
        more = {} if at is None else {"at": shapes.seconds(at)}
        return self.request("normal", stream=stream, **more)

    def abnormal(self, stream: str, at: shapes.Time = None, *, begin: shapes.Time = None, count: Optional[int] = None,
                 end: shapes.Time = None, dry_run: bool = False) -> Reply:
        """Take back what a stream sent at its newest alarm (or that whose data are of time `at`, or from the time `begin`
        on): `count` examples of it, or those until the time `end`. `dry_run` only asks."""
        times = {"at": at, "from": begin, "to": end}
        members: Dict[str, Any] = {name: shapes.seconds(value) for name, value in times.items() if value is not None}
        members.update({} if count is None else {"count": count})
        members.update({"dry_run": True} if dry_run else {})
        return self.request("abnormal", stream=stream, **members)

    def rollback(self, to: Optional[int] = None, *, to_time: shapes.Time = None,
                 without: Optional[Sequence[str]] = None, spans: Optional[Sequence[Tuple[int, int]]] = None,
                 dry_run: bool = False) -> Reply:
        """Take back what was learned after `to` (a position in the journal) or `to_time`; with `without` or
        `spans` only those streams and entries. `dry_run` only asks."""
        members: Dict[str, Any] = {"to": to, "without": without, "spans": spans, "dry_run": dry_run or None,
                                   "to_time": None if to_time is None else shapes.seconds(to_time)}
        return self.request("rollback", **{name: value for name, value in members.items() if value is not None})

    def shutdown(self) -> Reply:
        """End the daemon: what waits is learned, and a checkpoint is written."""
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
