"""What the tests of anomalies share."""
import json
import signal
import struct

import zmq
from running import Daemon, predictions, subscribe, wait_learned

BEGIN = 1577836800.0  # midnight, UTC
KNOWS = 171  # values before the first score


def configuration(directory, more, size=1, model="", every=1000):
    model = model or f"""
model:
  input: {{kind: real, size: {size}, missing: hold}}
  layers: [{{cell: rnn, size: 4}}]
  output: {{loss: squared, size: {size}, target: next}}
learning: {{window: 4, stride: 4, clip: 1}}"""
    return f"""
name: anomalies
device: cpu
{model}
{more}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: {every}, predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 300, seconds: 0}}}}
"""


def step(number, x, minute=0, stream=b"s", flags=0):
    header = struct.pack("<BBHIQd", 1, flags, 0, 0, number, BEGIN + 60 * minute + 59)
    return [stream, struct.pack(f"<{len(x)}f", *x), b"", header]


def fed(daemon, rows):
    """Feeds these steps, and returns the predictions."""
    with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
        for frames in rows:
            feeder.send_multipart(frames)
        return predictions(daemon, subscriber, len(rows))


def kill(daemon, count):
    daemon.ask("set", key="learning.clip", value=1)  # answered once the examples are on disk
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    wait_learned(daemon, count)


def played(directory, config, rows, kills=()):
    found, begin = [], 0
    with Daemon(directory, config) as daemon:
        daemon.ask("status")
        for end in [*kills, len(rows)]:
            found += fed(daemon, rows[begin:end])
            begin = end
            if end < len(rows):
                kill(daemon, end)
        exported = daemon.export()
        assert daemon.end() == 0
    return found, exported


def entry(directory, name):
    """An entry of the newest checkpoint."""
    blob = (directory / "state/checkpoint.safetensors").read_bytes()
    size, = struct.unpack_from("<Q", blob)
    begin, end = json.loads(blob[8:8 + size])[name]["data_offsets"]
    return blob[8 + size + begin:8 + size + end]


def play_marked(directory, stops, marks, rows, size=1, score="score", more=""):
    """Scores of all rows, and the answers to marks. The daemon is killed at each stop, except at
    those in `marks`, where an alarm is marked as normal instead."""
    directory.mkdir()
    config = configuration(directory, f"anomaly: {{enabled: true, memory: 400{more}}}", size, every=100)
    scores, begin, answers = [], 0, []
    with Daemon(directory, config) as daemon:
        daemon.ask("status")
        for end in [*stops, len(rows)]:
            scores += [m["anomaly"][score] for m in fed(daemon, rows[begin:end])]
            begin = end
            if end in marks:
                answers.append(daemon.ask("normal", stream="s", **marks[end]))
            elif end < len(rows):
                kill(daemon, end)
        assert daemon.end() == 0
    return scores, answers
