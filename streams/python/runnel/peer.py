"""The daemon's address and keys (docs/explanation/security.md), and the events of a socket's
monitor."""
from __future__ import annotations

import os
import pathlib
import stat
from typing import Optional, Union

import zmq

KEY_TEXT = 40  # characters of a key
Z85 = set("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#")
Path = Union[str, "os.PathLike[str]"]

# Values of the monitor's event "the handshake failed: protocol" with a clear cause.
MECHANISM_MISMATCH, CRYPTOGRAPHIC = 0x11000001, 0x11000002


def _read_key(path: Path, secret: bool) -> bytes:
    """Return the only key in a file of runnel-keygen: lines with '#', and one that begins with the
    key."""
    file = pathlib.Path(path)
    try:
        mode = file.stat().st_mode
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{path}: cannot read: {error.strerror}") from None
    if secret and stat.S_IMODE(mode) & 0o077:
        raise ValueError(f"{path}: group or others may read or change it (mode "
                         f"{stat.S_IMODE(mode):04o}); a secret key must be private: run 'chmod 600 {path}'")
    words = [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")
             or len((line.split() or [""])[0]) == KEY_TEXT]
    if len(words) != 1 or not _is_key(words[0]):
        raise ValueError(f"{path}: expected one key; use runnel-keygen to generate it")
    return words[0].encode()


def _is_key(text: str) -> bool:
    return len(text) == KEY_TEXT and set(text) <= Z85


class Peer:
    """The address of a daemon, and the keys for it.

    endpoint     tcp://HOST:PORT, tcp://[IPv6]:PORT, ipc://PATH or ipc://@NAME
    server_key   the daemon's public key: a file, or its 40 characters; None: it has no keys
    key          the file with your own secret key; None: a new key for each connection
    """

    def __init__(self, endpoint: str, server_key: Optional[Path] = None,
                 key: Optional[Path] = None) -> None:
        if not isinstance(endpoint, str) or "://" not in endpoint:
            raise ValueError(f"invalid endpoint {endpoint!r}; expected an address such as tcp://127.0.0.1:5570 or "
                             "ipc:///run/runnel/examples")
        if key is not None and server_key is None:
            raise ValueError("key requires server_key, the daemon's public key")
        self.endpoint = endpoint
        self.server = self.public = self.secret = b""
        if server_key is not None:
            text = os.fspath(server_key)
            self.server = text.encode() if _is_key(text) else _read_key(server_key, secret=False)
            if key is None:
                self.public, self.secret = zmq.curve_keypair()
            else:
                self.secret = _read_key(key, secret=True)
                self.public = zmq.curve_public(self.secret)

    def prepare(self, socket: "zmq.Socket[bytes]") -> None:
        """Set the options that all sockets of a client have."""
        socket.linger = 0
        socket.ipv6 = "[" in self.endpoint
        if self.server:
            socket.curve_publickey, socket.curve_secretkey = self.public, self.secret
            socket.curve_serverkey = self.server

    def connect(self, socket: "zmq.Socket[bytes]") -> None:
        """Connect; raises ValueError if the endpoint is invalid."""
        try:
            socket.connect(self.endpoint)
        except zmq.ZMQError as error:
            raise ValueError(f"invalid endpoint {self.endpoint!r}: {error}; expected an address such as "
                             "tcp://127.0.0.1:5570") from None

    def handshake_failed(self, event: int, value: int, socket: str) -> str:
        """Return why a connection failed, as far as the monitor's event shows it."""
        if event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            return ("access denied: the daemon does not accept this key (see security.allow in its "
                    "configuration)")
        if self.server:
            return ("the handshake failed: server_key may not be the daemon's key, the daemon may have "
                    f"no keys, or the peer is not a {socket}")
        if value == MECHANISM_MISMATCH:
            return ("the daemon requires keys: pass its public key as server_key, and your own secret "
                    "key as key")
        return f"the peer is not a {socket}, or it requires keys (server_key, key)"
