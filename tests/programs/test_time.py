#!/usr/bin/env python3
"""model.input.time (docs/reference/time.md): its inputs compared with zoneinfo and a scale in
Python. Also tests invalid configurations, decreasing times, restarts, replays, and feeders."""
import datetime
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import zoneinfo

import running
from running import Daemon, predictions, subscribe, wait_learned

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
DAY, DAYS_OF_WEEK = 86400, 7
FIRST, LAST = -62135596800, 253402300799  # of the years 1 to 9999
NEAR = 2e-6  # an input is a float32
HEADER = "<BBHIQd"  # version, flags, 0, epoch, sequence, time
DO_NOT_LEARN = 2
DEVICES = ("cpu", "cuda") if os.environ.get("RUNNEL_CUDA_MODULE") else ("cpu",)
GAP_RATE, GAP_DEVIATION, GAP_MOST = 1e-3, 0.01, 8


def unix(*date):
    return (datetime.datetime(*date, tzinfo=UTC) - EPOCH).total_seconds()


def tensors_file(path, tensors):
    """A safetensors file of nested lists of float32: (name, rows, columns or 0, numbers)."""
    head, blob = {}, b""
    for name, rows, columns, numbers in tensors:
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        head[name] = {"dtype": "F32", "shape": [rows, columns] if columns else [rows],
                      "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(head).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + blob)


def mirror(directory, width):
    """Weights of a network that predicts its encoded input."""
    path = f"{directory}/mirror.safetensors"
    tensors_file(path, [("layers.0.weight", 1, width, [0] * width), ("layers.0.bias", 1, 0, [0]),
                        ("output.weight", width, 1, [0] * width),
                        ("output.weight_skip", width, width,
                         [float(row == k) for row in range(width) for k in range(width)]),
                        ("output.bias", width, 0, [0] * width)])
    return path


def mirroring(directory, width, inputs, rest="", device="cpu"):
    return f"""
name: mirror
device: {device}
model:
  initial: {mirror(directory, width)}
  input: {{{inputs}}}
  layers: [{{cell: dense, size: 1, norm: none}}]
  output: {{loss: squared, size: {width}, target: given, skip: true, scale: none}}
learning: {{window: 1, stride: 1, optimizer: {{kind: sgd, rate: 0}}}}
examples: {{bind: "ipc://{directory}/examples", steps: many}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}}}
{rest}"""


def example(x, time=None, n=0, key=b"s", flags=0):
    """Frames of an example of real numbers; without a time it has no header."""
    frames = [key, struct.pack(f"<{len(x)}f", *x)]
    return frames if time is None else [*frames, b"",
                                        struct.pack(HEADER, 1, flags, 0, 0, n, time)]


def predict(daemon, messages):
    """The prediction for each message."""
    subscriber = subscribe(daemon)
    with daemon.socket(running.zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        return [found["prediction"] for found in predictions(daemon, subscriber, len(messages))]


def mirrored(inputs, width, messages, device="cpu"):
    """The encoded inputs of the messages, and the status after them."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, mirroring(directory, width, inputs, device=device)) as daemon:
        found = predict(daemon, messages)
        status = wait_learned(daemon, len(messages))
        assert daemon.end() == 0
    return found, status


def close(found, wanted, what):
    assert len(found) == len(wanted), (what, found, wanted)
    for k, (one, other) in enumerate(zip(found, wanted)):
        assert abs(one - other) <= NEAR * max(1, abs(other)), (what, k, found, wanted)


def clock(time, zone):
    """sin and cos of the time of day, week and year, by Python's calendar."""
    local = (EPOCH + datetime.timedelta(seconds=time)).astimezone(zoneinfo.ZoneInfo(zone))
    day = (local.hour * 3600 + local.minute * 60 + local.second + local.microsecond / 1e6) / DAY
    of_year = local.timetuple().tm_yday - 1
    leap = local.year % 4 == 0 and (local.year % 100 != 0 or local.year % 400 == 0)
    parts = (day, (local.weekday() + day) / DAYS_OF_WEEK, (of_year + day) / (366 if leap else 365))
    return [f(2 * math.pi * part) for part in parts for f in (math.sin, math.cos)]


class Gaps:
    """The gaps of one stream, as in docs/reference/time.md."""

    def __init__(self):
        self.last, self.count, self.mean, self.variance, self.backwards = None, 0, 0.0, 0.0, 0

    def take(self, time):
        if not time or not FIRST <= time <= LAST + 1:
            return 0.0
        last, self.last = self.last, time
        if last is None:
            return 0.0
        if time < last:
            self.backwards += 1
            return 0.0
        value = math.log1p((time - last) * 1000)
        self.count += 1
        rate = max(1 / self.count, GAP_RATE)
        off = value - self.mean
        self.mean += rate * off
        self.variance = (1 - rate) * (self.variance + rate * off * off)
        z = (value - self.mean) / max(math.sqrt(self.variance), GAP_DEVIATION)
        return max(-GAP_MOST, min(z, GAP_MOST))


TIMES = [1.0, -1.0, 0.5, 1e9 + 0.25, unix(1969, 12, 31, 23, 59, 59), unix(1969, 3, 1),
         unix(1900, 1, 1), unix(1900, 2, 28, 23, 59, 59), unix(1900, 3, 1), unix(1583, 7, 9, 4),
         unix(2020, 2, 28, 23, 59, 59), unix(2020, 2, 29, 12), unix(2020, 12, 31, 23, 59, 59),
         unix(2021, 1, 1), unix(2021, 12, 31, 23, 59, 59), unix(2000, 2, 29), unix(2100, 2, 28, 23),
         unix(2100, 3, 1), unix(2400, 2, 29, 5), unix(2037, 12, 31), unix(2038, 1, 19, 3, 14, 8),
         unix(2500, 7, 1, 12), unix(9998, 12, 30), FIRST + 3 * DAY]
# Berlin changes its clocks at 01:00 UTC on 2021-03-28 and 2021-10-31, and so in later years.
for change in (unix(2021, 3, 28, 1), unix(2021, 10, 31, 1), unix(2450, 3, 27, 1),
               unix(2021, 4, 3, 15), unix(2021, 4, 3, 16), unix(1980, 4, 6, 1)):
    TIMES += [change - 3600, change - 1, change, change + 1, change + 3599, change + 3600]
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata",
         "Africa/Casablanca", "Europe/Dublin", "America/Sao_Paulo", "Pacific/Apia")


def test_clocks_are_those_of_the_zone():
    """Day, week and year for times of many centuries, including leap days and changes of clocks."""
    messages = [example([7.0], time, n) for n, time in enumerate(TIMES)]
    for zone in ZONES:
        found, _ = mirrored(f"kind: real, size: 1, time: [year, day, week], time_zone: {zone}", 7,
                            messages)
        for time, row in zip(TIMES, found):
            close(row, [7.0, *clock(time, zone)], (zone, time))


def test_the_environment_plays_no_role():
    """TZ and TZDIR change nothing."""
    messages = [example([7.0], time, n) for n, time in enumerate(TIMES)]
    inputs = "kind: real, size: 1, time: [day], time_zone: Europe/Berlin"
    before = Daemon.environment
    wanted, _ = mirrored(inputs, 3, messages)
    try:
        Daemon.environment = {**os.environ, "TZ": "America/New_York", "TZDIR": "/nonexistent"}
        assert mirrored(inputs, 3, messages)[0] == wanted
    finally:
        Daemon.environment = before


def gap_times():
    """Two streams: regular, then irregular; equal, decreasing and missing times, and one beyond
    dates."""
    a = [100.0 + 60 * n for n in range(40)] + [2500.0, 2500.0, 2500.5, 2501.0, 9e4, 8e4, 8.001e4, 0.0,
                                               1e300, 8.1e4, -5e9, -4.9e9]
    b = [1.6e9 + 1e-3 * n * n for n in range(len(a))]
    return [(key, time) for pair in zip(a, b) for key, time in zip((b"a", b"b"), pair)]


def test_gaps():
    """The standardized logarithm of gaps, for each stream. Decreasing times are counted."""
    kept, rows, messages = {b"a": Gaps(), b"b": Gaps()}, [], []
    for n, (key, time) in enumerate(gap_times()):
        rows.append((n / 8, kept[key].take(time)))
        flags = DO_NOT_LEARN if n % 5 == 0 else 0  # counts nevertheless
        messages.append(example([n / 8], time, n, key, flags))
    found, status = mirrored("kind: real, size: 1, time: [gap]", 2, messages)
    for n, (row, wanted) in enumerate(zip(found, rows)):
        close(row, wanted, (n, gap_times()[n]))
    assert status["backwards"] == kept[b"a"].backwards == 2, status["backwards"]


def test_without_a_time():
    """Without a header, at time 0 and at a time without a date all inputs are 0, which no time of
    day has."""
    messages = [example([1.0]), example([2.0], 0.0, 1), example([3.0], -1e12, 2),
                [b'{"stream": "s", "x": [4]}'], [b'{"stream": "s", "x": [5], "time": 43200}'],
                [b'{"stream": "s", "x": [6], "time": 86400.0, "sequence": 6}']]
    found, status = mirrored("kind: real, size: 1, time: [gap, day]", 4, messages)
    for n, row in enumerate(found[:4]):
        close(row, [n + 1.0, 0, 0, 0], n)
    close(found[4], [5.0, 0, 0, -1], "noon, without a number")
    close(found[5], [6.0, 0, 0, 1], "midnight: the first gap is the mean of all")
    assert status["backwards"] == 0


def test_steps_of_one_example():
    """All steps have the example's time; the gap is that of the first step."""
    gaps, messages, wanted = Gaps(), [], []
    for n, time in enumerate((1000.0, 5000.0, 6000.0, 6500.0)):
        messages.append(example([n + 0.0, n + 0.25, n + 0.5], time, n))
        z, angle = gaps.take(time), 2 * math.pi * time / DAY
        wanted.append([[n + k / 4, z if k == 0 else 0, math.sin(angle), math.cos(angle)]
                       for k in range(3)])
    found, _ = mirrored("kind: real, size: 1, time: [gap, day]", 4, messages)
    for rows, all_wanted in zip(found, wanted):
        for row, one in zip(rows if isinstance(rows[0], list) else [rows], all_wanted[-1:]
                            if not isinstance(rows[0], list) else all_wanted):
            close(row, one, "steps")


def test_beside_columns():
    """Time inputs follow columns of all kinds, even a single symbol."""
    noon = 12 * 3600.0
    row = struct.pack("<fIf", 2.5, 1, 6.0)
    header = struct.pack(HEADER, 1, 0, 0, 0, 0, noon)
    found, _ = mirrored("columns: [{name: load}, {name: host, kind: symbol, size: 3}, {name: hour, "
                        "kind: cycle, period: 24}], time: [gap, day]", 9, [[b"s", row, b"", header]])
    close(found[0], [2.5, 0, 1, 0, 1, 0, 0, 0, -1], "load, host, hour, gap, day")
    found, _ = mirrored("columns: [{name: host, kind: symbol, size: 3}], time: [day]", 5,
                        [[b"s", struct.pack("<I", 2), b"", header]])
    close(found[0], [0, 0, 1, 0, -1], "a symbol and the day")
    found, _ = mirrored("kind: real, size: 1, scale: standard, time: [day]", 3,
                        [example([1.0], noon), example([3.0], noon, 1)])
    close(found[1], [1.0, 0, -1], "scaled, and the day")


def test_beside_as_many_columns_as_there_may_be():
    """Alternating numbers and symbols, a symbol last, and the gap, on both engines."""
    pairs, size = 128, 2
    columns = ", ".join(f"{{name: r{n}}}, {{name: s{n}, kind: symbol, size: {size}}}" for n in range(pairs))
    messages, wanted, gaps = [], [], Gaps()
    for n, time in enumerate((100.0, 107.0, 131.0)):
        row = [(k + n / 2, (k + n) % size) for k in range(pairs)]
        header = struct.pack(HEADER, 1, 0, 0, 0, n, time)
        messages.append([b"s", b"".join(struct.pack("<fI", *pair) for pair in row), b"", header])
        wanted.append([value for number, symbol in row
                       for value in (number, *(float(symbol == k) for k in range(size)))] +
                      [gaps.take(time)])
    for device in DEVICES:
        found, _ = mirrored(f"columns: [{columns}], time: [gap]", len(wanted[0]), messages, device)
        for one, other in zip(found, wanted):
            close(one, other, device)


FORECAST = """
name: forecast
device: cpu
model:
  initial: {directory}/weights.safetensors
  input: {{kind: real, size: 1, scale: forecast, time: [gap, day]}}
  layers: [{{cell: dense, size: 1, norm: none}}]
  output: {{loss: squared, size: 1, target: next, relative: last, readout: gradient}}
learning: {{window: 1, stride: 1, optimizer: {{kind: sgd, rate: 0}}}}
experts: [last]
members: [{{name: gap}}, {{name: sin}}, {{name: cos}}, {{name: one}}]
anomaly: {{enabled: true}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: all}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}}}
"""


def test_with_scale_forecast():
    """The networks of all members get the time: each here predicts one of its inputs, in units of
    the last one's constant 1."""
    width, names = 3 + 3, ("gap", "sin", "cos", "one")
    with tempfile.TemporaryDirectory() as directory:
        every = []
        for k, name in enumerate(names):
            skip = [float(name != "one" and i == 3 + k) for i in range(width)]
            every += [(f"members.{name}.layers.0.weight", 1, width, [0] * width),
                      (f"members.{name}.layers.0.bias", 1, 0, [0]),
                      (f"members.{name}.output.weight", 1, 1, [0]),
                      (f"members.{name}.output.weight_skip", 1, width, skip),
                      (f"members.{name}.output.bias", 1, 0, [float(name == "one")])]
        tensors_file(f"{directory}/weights.safetensors", every)
        gaps, times = Gaps(), [1000.0 + 977 * n + 31 * (n % 7) for n in range(60)]
        with Daemon(directory, FORECAST.format(directory=directory)) as daemon:
            subscriber = subscribe(daemon)
            with daemon.socket(running.zmq.PUSH, "examples") as socket:
                for n, time in enumerate(times):
                    socket.send_multipart(example([math.sin(n)], time, n))
                forecasts = predictions(daemon, subscriber, len(times))
            assert daemon.end() == 0
        for n, (time, one) in enumerate(zip(times, forecasts)):
            z, angle = gaps.take(time), 2 * math.pi * time / DAY
            if n < 2:
                continue  # changes have no unit yet
            x, experts = float(struct.unpack("<f", struct.pack("<f", math.sin(n)))[0]), one["experts"]
            found = [value[0] if isinstance(value, list) else value
                     for value in (experts[name] for name in names)]
            unit = found[-1] - x
            for value, wanted in zip(found, (z, math.sin(angle), math.cos(angle))):
                assert abs((value - x) / unit - wanted) < 1e-5, (n, value, wanted)


LEARNING = """
name: restart
seed: 3
device: {device}
model:
  input: {{kind: real, size: 1, scale: standard, time: [gap, day, week, year], time_zone: Europe/Berlin}}
  layers: [{{cell: gru, size: 6}}]
  output: {{loss: squared, size: 1, target: {target}}}
learning: {{window: 4, stride: 2, max_streams: 2, optimizer: {{kind: adam, rate: 0.01}}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 50, seconds: 0}}}}
"""


def stream(count):
    """Three streams with room for two: one is forgotten repeatedly."""
    messages, time = [], unix(2021, 3, 27)
    for n in range(count):
        time += (n * 7919 % 1000) - (20000 if n % 17 == 0 else 0)
        key = b"abc"[n * n // 7 % 3:][:1]
        messages.append(example([math.sin(time / 9000)], time if n % 11 else 0.0, n, key,
                                DO_NOT_LEARN if n % 13 == 0 else 0))
    return messages


def wait_durable(daemon, count):
    end = running.time.monotonic() + running.LIMIT
    while daemon.ask("status")["journal"]["durable"] < count:
        assert running.time.monotonic() < end, daemon.ask("status")["journal"]
        running.time.sleep(0.01)


def learn(messages, stops, device="cpu", target="next"):
    """Returns the export and the count of decreasing times. The daemon is stopped or killed on the
    way."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, LEARNING.format(directory=directory, device=device,
                                              target=target)) as daemon:
        begin = 0
        for at, number in (*stops, (len(messages), None)):
            with daemon.socket(running.zmq.PUSH, "examples") as socket:
                for message in messages[begin:at]:
                    socket.send_multipart(message)
                wait_learned(daemon, at)
            begin = at
            if number:
                wait_durable(daemon, at)
                daemon.end(number)
                daemon.start()
                wait_learned(daemon, at)
        found = daemon.export(), wait_learned(daemon, len(messages))["backwards"]
        daemon.end()
    return found


def test_restarts():
    """Stops and kills change neither bits nor counts."""
    messages = stream(260)
    whole = learn(messages, ())
    assert whole == learn(messages, ())
    assert whole == learn(messages, ((70, signal.SIGTERM), (133, signal.SIGKILL)))
    assert whole[1] > 5
    other = [[*message[:3], message[3][:16] + struct.pack("<d", 1.0)] for message in messages]
    assert learn(other, ())[0] != whole[0], "times have no effect"


def test_on_a_graphics_card():
    """The CUDA engine gets the same inputs and learns the same up to rounding."""
    if not os.environ.get("RUNNEL_CUDA_MODULE"):
        return
    found = []
    for device in ("cpu", "cuda"):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, LEARNING.format(directory=directory, device=device,
                                                  target="next")) as daemon:
            found.append(predict(daemon, stream(150)))
            assert daemon.end() == 0
    for n, (one, other) in enumerate(zip(*found)):
        if one[0] is not None:
            assert abs(one[0] - other[0]) < 1e-3, (n, one, other)


def check(text):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, "c.yaml")
        path.write_text(f"name: t\nmodel:\n  input: {{{text}}}\n  layers: [{{cell: gru, size: 4}}]\n"
                        "  output: {loss: squared, size: 1}\n"
                        f"state: {{directory: {directory}/state}}\n", encoding="utf-8")
        done = subprocess.run([running.PROGRAM, "--config", path, "--check-config"],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr


def test_invalid_configurations():
    """Each has an error, and exit status 78."""
    for text, sentence in (
            ("size: 1, time: [day], time_zone: Europe/Berln",
             'model.input.time_zone: expected a time zone of tzdata such as Europe/Berlin, '
             'or UTC, got "Europe/Berln": not found'),
            ("size: 1, time: [day], time_zone: ../../../etc/passwd", "model.input.time_zone: expected"),
            ("size: 1, time: [day], time_zone: /etc/localtime", "a time zone of tzdata"),
            ("size: 1, time: [day], time_zone: Europe", "model.input.time_zone: expected"),
            ("size: 1, time: [day], time_zone: tzdata.zi", "a time zone of tzdata"),
            ("size: 1, time: [gap], time_zone: Europe/Berlin", "requires day, week or year"),
            ("size: 1, time: [hour]", "gap, day, week or year"),
            ("size: 1, time: [day, day]", "each once"),
            ("size: 1, time: day", "gap, day, week or year"),
            ("kind: symbol, size: 5, time: [day]",
             "write the symbol as model.input.columns: [{name: NAME, kind: symbol, size: 5}]")):
        if text.startswith("size"):
            text = "kind: real, " + text
        code, found = check(text)
        assert code == 78 and sentence in found, (text, code, found)
    if pathlib.Path("/usr/share/zoneinfo/right/Europe/Berlin").exists():  # with leap seconds
        code, found = check("kind: real, size: 1, time: [day], time_zone: right/Europe/Berlin")
        assert code == 78 and "remove right/" in found, (code, found)
    for text in ("time: [day, gap]", "time: []", "time: [year], time_zone: America/Argentina/Ushuaia"):
        assert check(f"kind: real, size: 1, {text}") == (0, ""), check(f"kind: real, size: 1, {text}")


def test_feeders_send_times():
    """runnel-feed csv, with times of any century and by name; json as it is."""
    table = "when,load\n1955-03-01 06:00:00,1\n2021-06-01 12:00:00,2\n2021-06-01 18:00:00,3\n"
    lines = "".join(json.dumps({"x": [n + 1], "time": time}) + "\n" for n, time in enumerate(
        (unix(1955, 3, 1, 6), unix(2021, 6, 1, 12), unix(2021, 6, 1, 18))))
    feed = running.PROGRAM.with_name("runnel-feed")
    inputs = "columns: [{name: load}], time: [day, year]"
    wanted = [[1.0, 1, 0], [2.0, 0, -1], [3.0, -1, 0]]
    for arguments, text in ((("csv", "--time", "when"), table),
                            (("csv", "--time", "when", "--names"), table), (("json",), lines)):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, mirroring(directory, 5, inputs)) as daemon:
            subscriber = subscribe(daemon)
            done = subprocess.run([feed, *arguments, "-c", daemon.endpoint("examples"),
                                   *(("/dev/stdin",) if arguments[0] == "csv" else ())],
                                  input=text, capture_output=True, text=True, check=False,
                                  timeout=running.LIMIT)
            assert done.returncode == 0, (arguments, done.stderr)
            for row, one in zip(predictions(daemon, subscriber, 3), wanted):
                close(row["prediction"][:3], one, arguments)
            assert daemon.end() == 0


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            test()
