"""Daemons as models of River (https://riverml.xyz): `Regressor` and `Classifier`, so that its pipelines,
`progressive_val_score` and metrics run on a daemon unchanged.

River asks for a prediction first and says the truth afterwards: the daemon's `target: later`. predict_one(x) sends x as
an example and waits for what the daemon says of it; learn_one(x, y) sends the label of that example. An x that was not
predicted before is sent first, without waiting. So each x is one step of the stream, however it is used: the state of a
recurrent network moves by a prediction, too, and an x that is predicted and never learned stays open until `patience`
others are. Predictions that are asked for beside the stream (a grid for a plot) belong into a model of their own.
"""
from __future__ import annotations

import collections
from typing import Any, Deque, Dict, Hashable, List, Mapping, Optional

import numpy as np

from . import shapes
from .client import Client, Prediction
from .daemon import Config, Daemon
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
                 stream: str, runneld: Optional[str], options: Mapping[str, Any]) -> None:
        if config is not None and endpoint is not None:
            raise ValueError("give config, for a daemon of its own, or endpoint, of one that runs; not both")
        self.config, self.endpoint, self.output, self.patience = config, endpoint, output, patience
        self.stream, self.runneld, self.options = stream, runneld, options
        self.names: List[Any] = []
        self.named = False
        self.daemon: Optional[Daemon] = None
        self.client: Optional[Client] = None
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
        number = self.take(self.key(features))
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
    stream     its key
    runneld    the program
    options    of the Client: server_key, key, timeout
    """

    def __init__(self, config: Optional[Config] = None, *, endpoint: Optional[str] = None, patience: int = PATIENCE,
                 stream: str = "river", runneld: Optional[str] = None, **options: Any) -> None:
        self._stream = _Stream(config, endpoint, {"loss": "squared", "size": 1, "scale": "standard"}, patience, stream,
                               runneld, options)

    def predict_one(self, x: Mapping[Any, Any]) -> float:
        """What the daemon says of y."""
        return float(self._stream.predict(x).values[0])

    def learn_one(self, x: Mapping[Any, Any], y: float) -> None:
        """Say the truth of the example that was predicted with this x, or of a new one."""
        self._stream.learn(x, [float(y)])


class Classifier(_Model, base.Classifier):  # type: ignore[misc]
    """A daemon as a classifier of River: `loss: softmax`. Classes are whatever River's are; each gets an output when it
    first comes. Arguments as of Regressor.

    classes    how many there can be
    """

    def __init__(self, config: Optional[Config] = None, *, endpoint: Optional[str] = None, classes: int = CLASSES,
                 patience: int = PATIENCE, stream: str = "river", runneld: Optional[str] = None, **options: Any) -> None:
        self.classes = classes
        self._ids: Dict[Hashable, int] = {}
        self._stream = _Stream(config, endpoint, {"loss": "softmax", "size": classes}, patience, stream, runneld, options)

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
            raise ValueError(f"class {y!r} would be the {self.classes + 1}th; give classes= and a configuration of that "
                             "model.output.size")
        self._stream.learn(x, number)
