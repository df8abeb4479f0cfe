"""A simulated statistics socket of a daemon, for tests of subscribers."""
import collections
import json
import sys

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

LIMIT = 60  # seconds: only ends a test that hangs
TOPICS = ["status", "loss", "state", "prediction", "vector", "event"]

LOSS = {"loss": 0.5, "mean": 0.0412, "smoothed": 0.25, "minimum": 0.01, "maximum": 2.0,
        "updates": 62, "rate": 0.0003, "gradient_norm": 12.3456, "update_ratio": 0.00123, "plasticity": 0.1125,
        "metric": {"rmse": 1.5}, "examples_per_second": 12345.6,
        "latency_us": {"p50": 95.4, "p99": 1234.0, "max": 45678.0}, "queued": 7, "rejected": 3,
        "rejected_by": {"x_size": 3}, "skipped": 2, "streams": 12}
STATUS = {"name": "host-load", "state": "learning", "device": "cpu (avx2)", "parameters": 69130,
          "model": "real 8 > lstm 128 norm > squared 8, next", "digest": "0123456789abcdef",
          "version": "0.1.0", "uptime": 12, "every": 100, "checkpoint": None}
UNITS = {"mean": -0.0123, "std": 0.456, "minimum": -1.0, "maximum": 1.0, "norm": 3.3,
         "saturated": 0.125}
LSTM = {"kind": "lstm", "size": 128, "units": {"dormant": 0.3125, "saturated": 0.25, "rank": 11.77},
        "weights": {"norm": 25.5, "growth": 8.195}, "summed_inputs": {"mean": 0.5, "std": 1.25},
        "summed_recurrent": {"mean": -0.75, "std": 2.5}, "hidden": UNITS,
        "cell": dict(UNITS, mean=0.333, saturated=0.0), "histogram": list(range(20)),
        "gain": {"mean": 1.05, "std": 0.2, "minimum": 0.5, "maximum": 1.5},
        "bias": {"mean": -0.1, "std": 0.3, "minimum": -0.5, "maximum": 0.5}}
DENSE = {"kind": "dense", "size": 3, "summed_inputs": {"mean": None, "std": None},
         "hidden": dict(UNITS, mean=None), "histogram": [0] * 20,
         "units": {"dormant": None, "saturated": None, "rank": None}, "weights": {"norm": 1.5, "growth": None}}
STATE = {"layers": [LSTM, DENSE]}
# of two networks, the second of two layers
MANY = [f"network-of-sensor-{n}" for n in range(20)]  # members whose names differ at their ends
MEMBERS = {"layers": [LSTM], "members": {"change": {"layers": [LSTM]}, "level": {"layers": [LSTM, DENSE]}}}


class Publisher:
    """An XPUB socket at an ipc endpoint in the directory, with the protocol of
    docs/reference/protocol.md."""

    def __init__(self, directory, run="00000000000000aa", name="statistics"):
        self.endpoint, self.run = f"ipc://{directory}/{name}", run
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.linger = 1000
        self.socket.sndhwm = 0  # drops nothing, even on a slow machine
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.bind(self.endpoint)
        self.sequences, self.examples = dict.fromkeys(TOPICS, 0), 0

    def wait_for(self, *topics, subscribers=1):
        """Waits for this number of subscribers of each topic."""
        missing = collections.Counter(dict.fromkeys(topics, subscribers))
        while +missing:
            assert self.socket.poll(LIMIT * 1000), f"nobody subscribed to {missing}"
            frame = self.socket.recv()
            if frame[:1] == b"\1":
                missing[frame[1:].decode()] -= 1

    def send(self, topic, fields, lost=0, examples=0):
        """Sends the next message of its topic, after `lost` messages that do not arrive. The daemon
        has learned `examples` more examples."""
        self.sequences[topic] += 1 + lost
        self.examples += examples
        message = {"run": self.run, "sequence": self.sequences[topic], "examples": self.examples,
                   "steps": 2 * self.examples, "time": 1700000000.25, **fields}
        self.socket.send_multipart([topic.encode(), json.dumps(message).encode()])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.context.destroy()
