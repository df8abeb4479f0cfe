"""Daemons as models of River (https://riverml.xyz): `Regressor` and `Classifier`. River's
pipelines, `progressive_val_score` and metrics work with them unchanged.

River first asks for a prediction and provides the truth later: the daemon's `target: later`.
predict_one(x) sends x as an example and waits for the prediction; learn_one(x, y) sends the label
of that example. If no predicted example waits for its truth, learn_one sends x first, without
waiting. So each x is one step of the stream: the state of a recurrent network also advances with a
prediction, and an x that is predicted but not learned stays open until `patience` others are. Use a
separate model for predictions outside the stream, for example a grid for a plot.

The example of a truth is found by its x. If a pipeline's scaler has changed x meanwhile, the truth
belongs to the oldest prediction without one, as in River's evaluation (match="order"), or to a new
example (match="exact").
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

PATIENCE = 1000  # predicted examples without a truth
CLASSES = 32  # maximum number of classes, unless the configuration sets another


def default_config(inputs: int, output: Mapping[str, Any], patience: int = PATIENCE) -> Dict[str, Any]:
    """Return a small network for `inputs` numbers: GRU 32 with layer normalization and standardized
    inputs."""
    return {"name": "river",
            "model": {"input": {"kind": "real", "size": inputs, "scale": "standard", "missing": "hold", "memory": 10000,
                                "limit": 30},
                      "layers": [{"cell": "gru", "size": 32, "norm": "layer"}],
                      "output": {"target": "later", "patience": patience, "skip": True, **output}},
            "learning": {"window": 8, "stride": 1, "optimizer": {"kind": "adam", "rate": 0.003}, "clip": 1.0}}


class _Stream:
    """The common part of both models: the daemon, the names of the features, and the open
    predictions."""

    def __init__(self, config: Optional[Config], endpoint: Optional[str], output: Mapping[str, Any], patience: int,
                 stream: str, runneld: Optional[str], options: Mapping[str, Any], match: str) -> None:
        if match not in ("order", "exact"):
            raise ValueError(f"match must be 'order' or 'exact', got {match!r}")
        if config is not None and endpoint is not None:
            raise ValueError("pass either config, for a new daemon, or endpoint, for a running one")
        self.config, self.endpoint, self.output, self.patience = config, endpoint, output, patience
        self.stream, self.runneld, self.options = stream, runneld, options
        self.names: List[Any] = []
        self.named = False
        self.daemon: Optional[Daemon] = None
        self.client: Optional[Client] = None
        self.exact = match == "exact"
        self.open: Dict[bytes, Deque[Number]] = {}  # predicted examples without a truth, by x
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
        """Return a vector in the order of the first x's names, with NaN for missing ones; with
        words, x unchanged."""
        if self.named:
            return dict(x)
        try:
            vector = np.array([np.nan if x.get(name) is None else x[name] for name in self.names], "<f4")
        except (TypeError, ValueError):
            raise ValueError(f"expected features that are numbers, got {dict(x)!r:.80}; "
                             "words require a configuration with "
                             "model.input.columns, and must be in the first example, too") from None
        if len(x) > len(self.names) or not all(name in self.names for name in x):
            new = next(name for name in x if name not in self.names)
            raise ValueError(f"unknown feature {new!r}: the first example had "
                             f"{', '.join(map(str, self.names))}")
        return vector

    @staticmethod
    def key(features: Any) -> bytes:
        return (shapes.json_bytes({"x": shapes.plain(features)}) if isinstance(features, Mapping)
                else bytes(features.tobytes()))

    def predict(self, x: Mapping[Any, Any]) -> Prediction:
        client = self.begin(x)
        features = self.features(x)
        prediction = client.predict(features, learn=True)
        key = self.key(features)
        self.open.setdefault(key, collections.deque()).append(prediction.number)
        self.order.append(key)
        while len(self.order) > self.patience:
            self.take(self.order[0])
        return prediction

    def take(self, key: bytes) -> Optional[Number]:
        """Remove and return the oldest open example with this x."""
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
    """The arguments and the end of both models."""

    _stream: _Stream

    def close(self) -> None:
        """Wait until everything is safe, and end this model's own daemon."""
        self._stream.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Regressor(_Model, base.Regressor):  # type: ignore[misc]
    """A daemon as a regressor of River.

    config     configuration of a new daemon with one target, `target: later`; None without
               endpoint: a small GRU for the features of the first example
    endpoint   the examples socket of a running daemon
    patience   predicted examples without a truth; model.output.patience of a configuration must be
               as large
    match      "order" or "exact": the example of a truth whose x was not predicted, see the module
    stream     name of the stream
    runneld    the program
    server_key, key, timeout   see Client
    """

    def __init__(self, config: Optional[Config] = None, *, endpoint: Optional[str] = None, patience: int = PATIENCE,
                 match: str = "order", stream: str = "river", runneld: Optional[str] = None, server_key: Optional[Path] = None,
                 key: Optional[Path] = None, timeout: Optional[float] = TIMEOUT) -> None:
        # River prints and clones a model by attributes with the names of its arguments.
        self.config, self.endpoint, self.patience, self.stream, self.runneld = config, endpoint, patience, stream, runneld
        self.server_key, self.key, self.timeout, self.match = server_key, key, timeout, match
        self._stream = _Stream(config, endpoint, {"loss": "squared", "size": 1, "scale": "standard"}, patience, stream,
                               runneld, {"server_key": server_key, "key": key, "timeout": timeout}, match)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """Return the prediction of y; 0 before the first truth."""
        value = float(self._stream.predict(x).values[0])
        return value if math.isfinite(value) else 0.0

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Send the truth of the example that was predicted with this x, or of a new one."""
        self._stream.learn(x, [float(y)])


class Classifier(_Model, base.Classifier):  # type: ignore[misc]
    """A daemon as a classifier of River: `loss: softmax`. Classes may be of any type; each gets an
    output when it first appears. Arguments: see Regressor.

    classes    maximum number of classes
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
        """Return the probability of each class seen so far; they sum to 1."""
        values = self._stream.predict(x).values
        found = {label: float(values[number]) for label, number in self._ids.items()}
        total = sum(found.values())
        return {label: value / total for label, value in found.items()} if total > 0 else found

    def predict_one(self, x: Mapping[Any, Any]) -> Optional[Hashable]:
        """Return the most probable class; None: no class seen yet."""
        found = self.predict_proba_one(x)
        return max(found, key=found.__getitem__) if found else None

    def learn_one(self, x: Mapping[Any, Any], y: Hashable) -> None:
        """Send the class of the example that was predicted with this x, or of a new one. Raises
        ValueError if there are more classes than outputs."""
        number = self._ids.setdefault(y, len(self._ids))
        if number >= self.classes:
            del self._ids[y]
            raise ValueError(f"class {y!r}: this network supports only {self.classes} classes; set "
                             "classes=, and the model.output.size of a configuration")
        self._stream.learn(x, number)
