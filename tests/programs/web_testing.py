"""Common code of the tests of runnel-web: a simulated daemon, and the program."""
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import cases

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

PROGRAM = pathlib.Path(os.environ.get("builddir", "."), "runnel-web").resolve()
if not PROGRAM.exists():
    print("needs runnel-web, which requires libmicrohttpd-dev")
    sys.exit(77)
LIMIT = 60  # seconds: only ends a test that hangs
STARTED = []  # every simulated daemon: an open one would keep a failed test from ending
START = 1767225600.0  # Unix time of the first message
UNITS = {"mean": -0.01, "std": 0.4, "minimum": -1.0, "maximum": 1.0, "norm": 3.3, "saturated": 0.25}


class Daemon:
    """An XPUB socket with the protocol of docs/reference/protocol.md."""

    def __init__(self, directory, name="waves", run="00000000000000aa"):
        self.endpoint, self.name = f"ipc://{directory}/{name}", name
        self.examples = 0
        self.open(run)
        STARTED.append(self)

    def open(self, run):
        """Starts to publish as another run."""
        self.run, self.sequences = run, {}
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.linger = self.socket.sndhwm = 0 # nothing is dropped
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.bind(self.endpoint)

    def close(self):
        """Returns when the endpoint is closed, so that another socket can bind it."""
        self.context.destroy(0)

    def await_subscriber(self):
        wanted = {b"\1status", b"\1loss", b"\1state", b"\1event"}
        while wanted:
            assert self.socket.poll(LIMIT * 1000), f"nobody subscribed to {wanted}"
            wanted.discard(self.socket.recv())

    def send(self, topic, fields):
        self.sequences[topic] = self.sequences.get(topic, 0) + 1
        message = {"run": self.run, "sequence": self.sequences[topic], "examples": self.examples,
                   "steps": 2 * self.examples, "time": START + self.examples / 10, **fields}
        self.socket.send_multipart([topic.encode(), json.dumps(message).encode()])

    def await_predictions(self):
        """Waits for a subscriber of these topics."""
        while self.socket.recv() != b"\1prediction":
            pass

    def status(self, **fields):
        self.send("status", {
            "name": self.name, "state": "learning", "device": "cpu avx2", "parameters": 3266,
            "model": "real 2 > gru 32 norm > squared 2, next", "digest": "0123456789abcdef",
            "version": "0.1.0", "uptime": 12.5, "every": 10, "clip": 1.0, "predictions": False,
            "resumed": None, "forgotten": 0, **fields})

    def learn(self, mean, layers=1, row=None, members=(), **fields):
        """Publishes ten more examples: `loss` and `state`, with several networks if given; all units are in
        one bin of the histogram."""
        self.examples += 10
        low, high = (mean / 2, 2 * mean) if isinstance(mean, float | int) else (None, None)
        self.send("loss", {
            "loss": mean, "mean": mean, "smoothed": mean, "minimum": low, "maximum": high,
            "updates": self.examples, "rate": 0.003, "gradient_norm": 1.5, "update_ratio": 0.001,
            "plasticity": 100 / (390 + self.examples),
            "metric": {"rmse": mean}, "examples_per_second": 100.0,
            "latency_us": {"p50": 10.0, "p99": 20.0, "max": 30.0}, "queued": 0, "rejected": 2,
            "rejected_by": {"x_size": 2}, "skipped": 0, "streams": 1, **fields})
        histogram = [0] * 20
        histogram[self.examples // 10 % 20 if row is None else row] = 32
        layer = {"kind": "gru", "size": 32, "summed_inputs": {"mean": 0.5, "std": 1.25},
                 "summed_recurrent": {"mean": 0.1, "std": 0.2}, "hidden": UNITS,
                 "units": {"dormant": 0.25, "saturated": 0.125, "rank": 9.5},
                 "weights": {"norm": 5.0, "growth": 1 + self.examples / 1000},
                 "gain": UNITS, "bias": UNITS, "histogram": histogram}
        more = {"members": {name: {"layers": [layer] * layers} for name in members}} if members else {}
        self.send("state", {"layers": [layer] * layers, **more})

    def predict(self, prediction, target=None, stream="a", data_time=None, band=1.0, baseline=None, score=None, fan=None,
                **scored):
        """Publishes the next example of a stream with the previous prediction; targets may be None. `score`:
        anomaly score; `fan`: distances of quantiles by level; `scored`: more members of the scored part."""
        self.examples += 1
        body = {"stream": stream, "example": self.examples, "data_time": data_time, "prediction": prediction,
                "interval": [[p - band, p + band] for p in prediction], "loss": 0.5}
        if fan:
            body["levels"], body["quantiles"] = list(fan), [[p + far for far in fan.values()] for p in prediction]
            scored["quantiles"] = body["quantiles"]
        if score is not None:
            body["anomaly"] = {"score": score, "surprise": None, "columns": []}
        if target:
            body["scored"] = {
                "example": self.examples - 1, "data_time": data_time and data_time - 60, "prediction": prediction,
                "interval": body["interval"], "target": target, "loss": 0.5,
                "baseline": baseline or [0.0 for _ in target], **scored}
        self.send("prediction", body)

    def event(self, kind, text):
        self.send("event", {"kind": kind, "text": text})

    def anomaly(self, example, stream, data_time, columns, **fields):
        """`columns`: (number, score, forecast, truth) of each."""
        names = "column", "score", "forecast", "truth"
        self.send("event", {
            "kind": "anomaly", "text": f"{stream} is abnormal", "stream": stream, "example": example,
            "data_time": data_time, "reason": "novelty", "score": columns[0][1] if columns else 2.0,
            "threshold": 1.5, "columns": [dict(zip(names, column)) for column in columns], **fields})

    def incident(self, times, begin, end=None, **fields):
        """Publishes the begin or the end of an incident of the stream pump, whose steps have these times."""
        first, last = ({"example": i + 1, "data_time": times[i]} for i in (begin, end or 0))
        self.send("event", {
            "kind": "incident", "state": "ended" if end else "began", "text": "an incident", "incident": begin + 1,
            "stream": "pump", "streams": ["pump"], "group": None, "begin": first, "end": last if end else None,
            "peak": {**first, "score": 2.5, "reason": "level"}, "alarms": 2, "silenced": False,
            "columns": [{"column": 1, "name": "oil", "share": 0.75, "before": [1.0], "after": None}], **fields})


class Web:
    """A running runnel-web of daemons, a recording or an experiment. As a context manager it ends with the
    test."""

    def __init__(self, directory, *endpoints, arguments=(), stderr=subprocess.DEVNULL, recording=None, results=None):
        source = [word for endpoint in endpoints for word in ("--connect", endpoint)]
        source += [results] if results else ["--recording", recording] if recording \
            else ["--history", f"{directory}/history"]
        self.process = subprocess.Popen([PROGRAM, "--listen", "127.0.0.1:0", *source, *arguments],
                                        stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(LIMIT)

    def open(self, path, **headers):
        """(status, headers, body) of a GET without redirections."""
        request = urllib.request.Request(self.url + path.lstrip("/"), headers=headers)
        opener = urllib.request.build_opener(NoRedirection)
        try:
            with opener.open(request, timeout=LIMIT) as reply:
                return reply.status, reply.headers, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def get(self, path, **headers):
        status, _, body = self.open(path, **headers)
        assert status == 200, (path, status, body)
        return json.loads(body)

    def until(self, path, condition):
        """The first reply that fulfils the condition."""
        deadline = time.monotonic() + LIMIT
        while True:
            status, _, body = self.open(path)
            answer = json.loads(body)
            assert status in (200, 404), (path, answer)
            if status == 200 and condition(answer):
                return answer
            assert time.monotonic() < deadline, (path, answer)
            time.sleep(0.05)

    def series(self, points, query="run=1"):
        """The series, once it has this number of points."""
        return self.until(f"api/series?{query}", lambda answer: len(answer["time"]) >= points)


class NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class Live:
    """Server-sent events of /api/live."""

    def __init__(self, web):
        self.reply = urllib.request.urlopen(web.url + "api/live", timeout=LIMIT)
        name, _ = self.next()
        assert name == "hello"

    def next(self):
        """(name, data) of the next event."""
        name = data = None
        while True:
            line = self.reply.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif not line and name:
                return name, data

    def until(self, wanted, condition=lambda data: True):
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline: # pings come all the time
            name, data = self.next()
            if name == wanted and condition(data):
                return data
        raise AssertionError(f"no event {wanted}")

    def close(self):
        self.reply.close()


def run_tests(tests):
    """Runs all cases, or those in the command line, and ends the daemons of each."""
    def closing(test):
        def play(directory):
            try:
                test(str(directory))
            finally:
                for daemon in STARTED:
                    daemon.close()
                STARTED.clear()
        return play
    cases.run({test.__name__: closing(test) for test in tests})


def readable(sockets, seconds):
    """The sockets that are readable or closed."""
    poll = select.poll()
    by_number = {one.fileno(): one for one in sockets}
    for number in by_number:
        poll.register(number, select.POLLIN)
    return [by_number[number] for number, _ in poll.poll(1000 * seconds)]
