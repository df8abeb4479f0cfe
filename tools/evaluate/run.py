# --- The network ---
#
# A separate daemon that learns a stream, and its statistics. The build inserts this file into
# runnel-evaluate.
import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

PATIENCE = 60  # longest time without progress, in seconds
AHEAD_BYTES = 8 << 20  # of unread predictions: less than the daemon's socket keeps
AHEAD_MOST, BYTES_A_NUMBER = 4000, 24


def program(name):
    """The path of a program in the directory of this program (installed or built), else in PATH."""
    beside = pathlib.Path(__file__).resolve().parent / name
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if not found:
        give_up(f"{name} not found in the directory of this program or in PATH; on Debian: "
                "apt-get install runnel runnel-tools")
    return found


@contextlib.contextmanager
def undisturbed():
    """Delays signals until a started process is registered, so that it is ended, too."""
    received = []
    before = {number: signal.signal(number, lambda number, _: received.append(number))
              for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in received[:1]:
            signal.raise_signal(number)


class Prediction:
    """A prediction message, for one horizon of its list or the only one: forecasts (columns,) of
    x after the example, NaN if missing; intervals (columns, 2) and quantiles (columns, levels) or
    None; experts {name: forecasts}; and the loss of the example itself, with the CRPS (columns,)
    and PIT (columns, 2) of its distribution or None."""

    def __init__(self, message, horizon=None, ahead=1):
        of = lambda values: values if horizon is None or not values else values[horizon]
        mean = of(message["prediction"])
        self.x = numbers(mean["mean"] if isinstance(mean, dict) else mean)
        self.loss = message.get("loss")
        interval = of(message.get("interval"))
        self.interval = rows_of(interval, 2) if interval else None
        self.experts = {name: numbers(of(x)) for name, x in (message.get("experts") or {}).items()}
        self.levels, quantiles = message.get("levels"), of(message.get("quantiles"))
        self.quantiles = rows_of(quantiles, len(self.levels)) if quantiles else None
        scored = message.get("scored") or []
        scored = next((one for one in (scored if isinstance(scored, list) else [scored])
                       if "crps" in one and one.get("ahead", ahead) == ahead), None)
        self.crps = numbers(scored["crps"]) if scored else None
        self.pit = rows_of(scored["pit"], 2) if scored else None


def rows_of(lists, size):
    """(columns, size) of lists that may be None."""
    return np.array([one or (math.nan,) * size for one in lists], dtype=float)


def numbers(values):
    return np.array(values, dtype=float)  # None is NaN


class Recorder(threading.Thread):
    """Reads the daemon's messages: its first `status`, `losses`, and for each horizon
    `predictions` by the number of their example, from 0. `ahead` as in the configuration: a
    number or a list."""

    def __init__(self, endpoint, topics, ahead):
        super().__init__(daemon=True)
        self.horizons = list(enumerate(ahead)) if isinstance(ahead, list) and len(ahead) > 1 else [(None, 1)]
        words = [word for topic in topics for word in ("--topic", topic)]
        self.watch = subprocess.Popen([program("runnel-watch"), "--json", *words, "--connect", endpoint],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.status, self.losses, self.predictions = None, [], [{} for _ in self.horizons]
        self.newest = 0  # predictions: number of examples with one
        self.refused = None  # why the daemon rejected examples
        self.start()

    def run(self):
        for line in self.watch.stdout:
            message = json.loads(line)
            topic = message["topic"]
            if topic == "prediction":
                for known, (horizon, ahead) in zip(self.predictions, self.horizons):
                    known[message["example"] - 1] = Prediction(message, horizon, ahead)
                self.newest = message["example"]
            elif topic == "loss":
                self.losses.append(message)
            elif topic == "status":
                self.status = self.status or message
            elif topic == "event" and message["kind"] == "rejected":
                self.refused = message["text"]

    def close(self):
        self.watch.terminate()
        self.watch.wait()


class Run:
    """A daemon with a recorder of its statistics; leaves no process or file."""

    def __init__(self, command, every, predictions, ahead=1):
        self.predictions = predictions  # false, true or all, as in the configuration
        self.directory = tempfile.TemporaryDirectory(prefix="evaluate.")
        self.daemon = self.recorder = None
        sockets = (f"{name}.bind={self.endpoint(name)}"
                   for name in ("examples", "statistics", "control"))
        sets = (*sockets, "examples.socket=pull", f"statistics.every={every}",
                "statistics.seconds=0", f"statistics.predictions={predictions}",
                f"state.directory={self.directory.name}/state")
        self.command = [*command, *(word for one in sets for word in ("--set", one))]
        self.log = pathlib.Path(self.directory.name, "log")
        self.ahead = ahead

    def start(self):
        with open(self.log, "wb") as file:
            self.daemon = subprocess.Popen(self.command, stderr=file)
        topics = ["status", "loss", "event"] + ["prediction"] * (self.predictions != "false")
        self.recorder = Recorder(self.endpoint("statistics"), topics, self.ahead)

    def endpoint(self, name):
        return f"ipc://{self.directory.name}/{name}"

    def __enter__(self):
        try:
            with undisturbed():
                self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait()
        if self.recorder:
            self.recorder.close()
        self.directory.cleanup()

    def wait_until(self, what, progress):
        """Waits until `progress` returns None; its result must change within PATIENCE seconds."""
        known, since = object(), time.monotonic()
        while (value := progress()) is not None:
            # A signal during poll would leave its lock taken, and wait() would never return.
            with undisturbed():
                ended = self.daemon.poll() is not None
            if ended:
                sys.stderr.write(self.log.read_text())
                sys.exit(self.daemon.returncode or EX_UNAVAILABLE)
            if value != known:
                known, since = value, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                give_up(f"timed out waiting for {what}; it stopped at {value}")
            time.sleep(0.01)

    def status(self):
        reply = subprocess.run(
            [program("runnel-ctl"), "status", "--json", "--connect",
             self.endpoint("control")], stdout=subprocess.PIPE, text=True, check=False)
        if reply.returncode != 0:
            give_up("the daemon does not respond")
        return json.loads(reply.stdout)

    def feed(self, lines, numbers, report):
        """Sends the examples, lines of JSON, and waits until all are learned and recorded. A
        prediction has about `numbers` numbers; report(n) is called periodically."""
        self.wait_until("the daemon's first status",
                        lambda: None if self.recorder.status else "start")
        command = [program("runnel-feed"), "json", "--quiet", "--connect", self.endpoint("examples")]
        complaints = pathlib.Path(self.directory.name, "feeder")  # incomplete after Ctrl-C
        feeder = None
        ahead = max(1, min(AHEAD_MOST, AHEAD_BYTES // (BYTES_A_NUMBER * numbers)))
        try:
            with open(complaints, "wb") as file, undisturbed():
                feeder = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=file, text=True)
            for sent in range(0, len(lines), ahead):
                self.keep_pace(sent - ahead)
                report(max(0, sent - ahead))
                feeder.stdin.write("".join(lines[sent:sent + ahead]))
                feeder.stdin.flush()
            feeder.stdin.close()
        except BrokenPipeError:
            pass  # the feeder printed its error
        except BaseException:
            if feeder:
                feeder.kill()
            raise
        finally:
            if feeder:
                feeder.wait()
        if feeder.returncode != 0:
            sys.stderr.write(complaints.read_text())
            sys.exit(feeder.returncode)
        self.wait_until(f"the end of {len(lines)} examples", lambda: self.missing(len(lines)))
        self.keep_pace(len(lines))
        every = self.status()["every"]
        self.wait_until("the last statistics", lambda: self.unrecorded(len(lines) // every * every))
        return self.status()

    def keep_pace(self, examples):
        """A slow subscriber loses messages: waits for the predictions of `examples`."""
        if self.predictions != "false":
            self.wait_until(f"the prediction of example {examples}",
                            lambda: None if self.recorder.newest >= examples else self.recorder.newest)

    def missing(self, examples):
        status = self.status()
        learned, rejected = status["examples"], status["rejected"]
        if rejected and learned + rejected >= examples:
            self.wait_until("the reason", lambda: None if self.recorder.refused else "")
            give_up(f"the daemon learned {learned} of {examples} examples: {self.recorder.refused}", EX_DATA)
        return None if learned >= examples else f"{learned} examples"

    def unrecorded(self, examples):
        losses = self.recorder.losses
        recorded = losses[-1]["examples"] if losses else 0
        return None if recorded >= examples else f"{recorded} examples"
