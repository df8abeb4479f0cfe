"""Daemons as models of River (https://riverml.xyz): `Regressor` and `Classifier`, so that its pipelines,
`progressive_val_score` and metrics run on a daemon unchanged.

River asks for a prediction first and says the truth afterwards: the daemon's `target: later`. predict_one(x) sends x as
an example and waits for what the daemon says of it; learn_one(x, y) sends the label of that example. Where nothing that was
predicted waits for its truth, learn_one sends x first, without waiting. So each x is one step of the stream, however it is
used: the state of a recurrent network moves by a prediction, too, and an x that is predicted and never learned stays open
until `patience` others are. Predictions that are asked for beside the stream (a grid for a plot) belong into a model of
their own.

Which example a truth is of is found by its x. A pipeline's scaler may have changed x meanwhile: then it is of the oldest
prediction that waits for its truth, as River's evaluation has it (match="order"), or, with match="exact", of a new example.
"""
from __future__ import annotations

import collections
import math
from typing import Any, Deque, Dict, Hashable, List, Mapping, Optional

import numpy as np

from . import shapes
from .client import Client
from .daemon import Config, Daemon
from .feeding import TIMEOUT, Prediction
from .peer import Path
from .wire import Number

try:
    from river import base
except ImportError:
    raise ImportError("runnel.river needs River: pip install river") from None

PATIENCE = 1000  # predicted examples whose truth has not come
CLASSES = 32  # that a classifier's network can tell apart, unless its configuration says otherwise


def default_config(inputs: int, output: Mapping[str, Any], patience: int = PATIENCE) -> Dict[str, Any]:
    """A small network for `inputs` numbers: GRU 32 with layer normalization, inputs standardized as they come."""
    return {"name": "river",
            "model": {"input": {"kind": "real", "size": inputs, "scale": "standard", "missing": "hold", "memory": 10000,
                                "limit": 30},
                      "layers": [{"cell": "gru", "size": 32, "norm": "layer"}],
                      "output": {"target": "later", "patience": patience, "skip": True, **output}},
            "learning": {"window": 8, "stride": 1, "optimizer": {"kind": "adam", "rate": 0.003}, "clip": 1.0}}


class _Stream:
    """What both models share: the daemon, the names of the features, and what was predicted."""

    def __init__(self, config: Optional[Config], endpoint: Optional[str], output: Mapping[str, Any], patience: int,
                 stream: str, runneld: Optional[str], options: Mapping[str, Any], match: str) -> None:
        if match not in ("order", "exact"):
            raise ValueError(f"match is {match!r}; it is 'order' or 'exact'")
        if config is not None and endpoint is not None:
            raise ValueError("give config, for a daemon of its own, or endpoint, of one that runs; not both")
        self.config, self.endpoint, self.output, self.patience = config, endpoint, output, patience
        self.stream, self.runneld, self.options = stream, runneld, options
        self.names: List[Any] = []
        self.named = False
        self.daemon: Optional[Daemon] = None
        self.client: Optional[Client] = None
        self.exact = match == "exact"
        self.open: Dict[bytes, Deque[Number]] = {}  # what was predicted and has no truth yet, by its x
        self.order: Deque[bytes] = collections.deque()

    def begin(self, x: Mapping[Any, Any]) -> Client:
        if self.client is None:
            self.names = list(x)
            self.named = any(isinstance(value, str) for value in x.values())
            if self.endpoint is None:
                config = default_config(len(x), self.output, self.patience) if self.config is None else self.config
                self.daemon = Daemon(config, runneld=self.runneld)
            endpoint = self.daemon.endpoint("examples") if self.daemon else self.endpoint
            assert endpoint
            self.client = Client(endpoint, stream=self.stream, **self.options)
        return self.client

    def features(self, x: Mapping[Any, Any]) -> Any:
        """A vector in the order of the first x's names, NaN where one is missing; with words, x as it is."""
        if self.named:
            return dict(x)
        try:
            vector = np.array([np.nan if x.get(name) is None else x[name] for name in self.names], "<f4")
        except (TypeError, ValueError):
            raise ValueError(f"not all features are numbers: {dict(x)!r:.80}; words need a configuration with "
                             "model.input.columns, and must be in the first example, too") from None
        if len(x) > len(self.names) or not all(name in self.names for name in x):
            new = next(name for name in x if name not in self.names)
            raise ValueError(f"feature {new!r} was not in the first example; the network's input is "
                             f"{', '.join(map(str, self.names))}")
        return vector

    @staticmethod
    def key(features: Any) -> bytes:
        return (shapes.json_bytes({"x": shapes.plain(features)}) if isinstance(features, Mapping)
                else bytes(features.tobytes()))

    def predict(self, x: Mapping[Any, Any]) -> Prediction:
        client = self.begin(x)
        features = self.features(x)
        said = client.predict(features, learn=True)
        key = self.key(features)
        self.open.setdefault(key, collections.deque()).append(said.number)
        self.order.append(key)
        while len(self.order) > self.patience:
            self.take(self.order[0])
        return said

    def take(self, key: bytes) -> Optional[Number]:
        """The oldest open example with this x."""
        numbers = self.open.get(key)
        if not numbers:
            return None
        number = numbers.popleft()
        if not numbers:
            del self.open[key]
        self.order.remove(key)
        return number

    def learn(self, x: Mapping[Any, Any], y: Any) -> None:
        client = self.begin(x)
        features = self.features(x)
        key = self.key(features)
        if key not in self.open and self.order and not self.exact:
            key = self.order[0]
        number = self.take(key)
        client.label(number if number is not None else client.learn(features), y)

    def close(self) -> None:
        try:
            if self.client:
                self.client.close()
        finally:
            if self.daemon:
                self.daemon.close()


class _Model:
    """Arguments and ends of both."""

    _stream: _Stream

    def close(self) -> None:
        """Wait until everything is safe, and end the daemon if it is this model's own."""
        self._stream.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Regressor(_Model, base.Regressor):  # type: ignore[misc]
    """A daemon as a regressor of River.

    config     of a daemon of its own, with one target, `target: later`; None, and no endpoint: a small GRU for the
               features of the first example
    endpoint   of the examples of a daemon that runs
    patience   of predicted examples without a truth; a configuration's own model.output.patience is to be as large
    match      "order" or "exact": what becomes of a truth whose x was not predicted so, see above
    stream     its key
    runneld    the program
    server_key, key, timeout   as of Client
    """

    def __init__(self, config: Optional[Config] = None, *, endpoint: Optional[str] = None, patience: int = PATIENCE,
                 match: str = "order", stream: str = "river", runneld: Optional[str] = None, server_key: Optional[Path] = None,
                 key: Optional[Path] = None, timeout: Optional[float] = TIMEOUT) -> None:
        # River shows and clones a model by attributes that are called as its arguments are.
        self.config, self.endpoint, self.patience, self.stream, self.runneld = config, endpoint, patience, stream, runneld
        self.server_key, self.key, self.timeout, self.match = server_key, key, timeout, match
        self._stream = _Stream(config, endpoint, {"loss": "squared", "size": 1, "scale": "standard"}, patience, stream,
                               runneld, {"server_key": server_key, "key": key, "timeout": timeout}, match)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """What the daemon says of y; 0 while it has seen none."""
        value = float(self._stream.predict(x).values[0])
        return value if math.isfinite(value) else 0.0

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Say the truth of the example that was predicted with this x, or of a new one."""
        self._stream.learn(x, [float(y)])


class Classifier(_Model, base.Classifier):  # type: ignore[misc]
    """A daemon as a classifier of River: `loss: softmax`. Classes are whatever River's are; each gets an output when it
    first comes. Arguments as of Regressor.

    classes    how many there can be
    """

    def __init__(self, config: Optional[Config] = None, *, endpoint: Optional[str] = None, classes: int = CLASSES,
                 patience: int = PATIENCE, match: str = "order", stream: str = "river", runneld: Optional[str] = None,
                 server_key: Optional[Path] = None, key: Optional[Path] = None,
                 timeout: Optional[float] = TIMEOUT) -> None:
        self.config, self.endpoint, self.patience, self.stream, self.runneld = config, endpoint, patience, stream, runneld
        self.server_key, self.key, self.timeout, self.match = server_key, key, timeout, match
        self.classes = classes
        self._ids: Dict[Hashable, int] = {}
        self._stream = _Stream(config, endpoint, {"loss": "softmax", "size": classes}, patience, stream, runneld,
                               {"server_key": server_key, "key": key, "timeout": timeout}, match)

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Mapping[Any, Any]) -> Dict[Hashable, float]:
        """The probability of each class that has come so far; they sum to 1."""
        values = self._stream.predict(x).values
        found = {label: float(values[number]) for label, number in self._ids.items()}
        total = sum(found.values())
        return {label: value / total for label, value in found.items()} if total > 0 else found

    def predict_one(self, x: Mapping[Any, Any]) -> Optional[Hashable]:
        """The most probable class; None: none has come yet."""
        found = self.predict_proba_one(x)
        return max(found, key=found.__getitem__) if found else None

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Say the class of the example that was predicted with this x, or of a new one. ValueError: there are more
        classes than the network can tell apart."""
        number = self._ids.setdefault(y, len(self._ids))
        if number >= self.classes:
            del self._ids[y]
            raise ValueError(f"class {y!r} is one more than the {self.classes} that this network can tell apart; give "
                             "classes=, and with a configuration its model.output.size")
        self._stream.learn(x, number)
