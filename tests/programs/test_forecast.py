#!/usr/bin/env python3
"""Forecasts of a daemon (docs/explanation/forecasts.md): content of predictions, independent
members and horizons, and the same bits after a kill."""
import json
import math
import os
import signal
import struct
import tempfile

import zmq
from running import LIMIT, SANITIZERS, Daemon, predictions, subscribe, wait_learned

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

MEMBERS, CONFIG = 64, 78  # the most members; the exit code
EXPERTS = ["last", "mean", "ewma", "lag", "ar3", "ar12", "ar12fast", "ar24", "abs12"]
STEPS, STREAMS = 240, 3
NEAR = 1e-3  # largest difference between engines
CHANGE = "{name: change}"
LEVEL = "{name: level, set: {model.output.relative: none, model.layers.0.size: 6, seed: 4}}"


def configuration(directory, members, more="", ahead="1"):
    return f"""
name: forecast
device: cpu
preset: forecast
model: {{input: {{size: 2}}, layers: [{{cell: gru, size: 8}}], output: {{ahead: {ahead}}}}}
learning: {{window: 8, max_streams: 2}}
members: [{members}]
{more}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: all}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 70, seconds: 0}}}}
"""


def examples():
    """(stream, x, flags) of two columns with missing values; one stream replaces another, one
    ends."""
    draw = np.random.default_rng(5)
    x = np.sin(np.arange(STEPS)[:, None] * [0.5, 0.3]) * [1, 40] + draw.normal(0, 0.2, (STEPS, 2))
    x[draw.random(x.shape) < 0.05] = math.nan
    for n, row in enumerate(x):
        stream = "ab"[n % 2] if n % 40 < 37 else "c"
        end = n == 90 and stream == "a"
        flags = (1 if end else 0) | (2 if n % 11 == 0 else 0)
        yield stream.encode(), row.astype("<f4").tobytes(), flags


def send(feeder, rows):
    for stream, x, flags in rows:
        feeder.send_multipart([stream, x, b"", struct.pack("<BBHIQd", 1, flags, 0, 0, 0, 0.0)])


def played(members, more="", kill=False, devices=("cpu",), ahead="1"):
    """Predictions and the export after all examples; with `kill` the daemon is killed twice.
    `devices`: before the first kill, after it and after the second one; the last of them is used
    from then on."""
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        text = configuration(directory, members, more, ahead)
        with Daemon(directory, text.replace("device: cpu", f"device: {devices[0]}")) as daemon:
            daemon.ask("status")
            rows, found = list(examples()), []
            ends = [97, 180, len(rows)] if kill else [len(rows)]
            begin = 0
            for n, end in enumerate(ends):
                with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                    send(feeder, rows[begin:end])
                    found += predictions(daemon, subscriber, end - begin)
                begin = end
                if kill and end < len(rows):
                    daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
                    daemon.process.send_signal(signal.SIGKILL)
                    daemon.process.wait()
                    device = devices[min(n + 1, len(devices) - 1)]
                    daemon.path.write_text(text.replace("device: cpu", f"device: {device}"))
                    daemon.start()
                    wait_learned(daemon, end)
            blob = daemon.export()
            assert daemon.end() == 0
            return found, blob


def tensors(blob):
    size = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__")
    return {name: blob[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]]
            for name, t in header.items()}


def comparable(found):
    """The fields that do not depend on a run or a clock."""
    return [{k: m[k] for k in ("stream", "example", "prediction", "experts", "weights", "loss")}
            for m in found]


def carries_experts_and_weights():
    found, blob = played(f"{CHANGE}, {LEVEL}")
    names = EXPERTS + ["change", "level"]
    for message, (_, x, _) in zip(found, examples()):
        assert list(message["experts"]) == list(message["weights"]) == names
        assert len(message["prediction"]) == 2
        for k, value in enumerate(np.frombuffer(x, "<f4")):
            total = sum(message["weights"][name][k] for name in names)
            assert abs(total - 1) < 1e-9, total
            if not math.isnan(value):
                assert abs(message["experts"]["last"][k] - value) <= 1e-6 * abs(value), message
    assert all(name.startswith(("members.change.", "members.level.")) for name in tensors(blob))
    assert all(0 <= m["loss"] <= 900 for m in found if m["loss"] is not None)


def is_better_than_the_last_value():
    """A curve with noise; the error of the last value is 1."""
    draw, steps = np.random.default_rng(6), 600
    x = np.sin(np.arange(steps) * 0.4) + draw.normal(0, 0.1, steps)
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        text = configuration(directory, f"{CHANGE}, {LEVEL}").replace("size: 2", "size: 1")
        with Daemon(directory, text) as daemon:
            daemon.ask("status")
            with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                for value in x:
                    feeder.send_multipart([b"s", struct.pack("<f", value)])
                losses = [m["loss"] for m in predictions(daemon, subscriber, steps)]
            assert np.mean(losses[-200:]) < 0.4, np.mean(losses[-200:])


def null_where_nothing_was_seen():
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        with Daemon(directory, configuration(directory, "")) as daemon:
            daemon.ask("status")
            with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                nan = math.nan
                for row in ([1, nan], [2, nan], [nan, 5], [3, 6]):
                    feeder.send_multipart([b"s", np.array(row, "<f4").tobytes()])
                found = predictions(daemon, subscriber, 4)
            assert [m["prediction"][1] is None for m in found] == [True, True, False, False]
            assert [m["experts"]["last"] for m in found] == [[1, None], [2, None], [2, 5], [3, 6]]
            assert list(found[0]["experts"]) == EXPERTS
            assert [m["loss"] is None for m in found] == [True, False, True, False]
            assert daemon.ask("status")["parameters"] == 0
            assert tensors(daemon.export()) == {}


def a_member_has_the_bits_it_has_alone():
    together, blob = played(f"{CHANGE}, {LEVEL}")
    for name, text in (("change", CHANGE), ("level", LEVEL)):
        alone, own = played(text)
        for a, b in zip(together, alone):
            assert a["experts"][name] == b["experts"][name], (a, b)
        own, all_of_it = tensors(own), tensors(blob)
        assert own and all(all_of_it[key] == value for key, value in own.items())


def a_kill_changes_no_bit():
    calm, calm_blob = played(f"{CHANGE}, {LEVEL}")
    killed, killed_blob = played(f"{CHANGE}, {LEVEL}", kill=True)
    assert comparable(calm) == comparable(killed)
    assert calm_blob == killed_blob
    assert comparable(played("")[0]) == comparable(played("", kill=True)[0])


def so_many_members(count):
    return ", ".join(f"{{name: m{n}, set: {{seed: {n}, model.layers.0.size: {2 + n % 5}}}}}" for n in range(count))


def there_can_be_64_members():
    """All 64 members have forecasts and can be requested by name. A kill does not change a bit, and
    the last member has the bits that it has alone."""
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        with Daemon(directory, configuration(directory, so_many_members(MEMBERS + 1))) as daemon:
            assert daemon.process.wait(timeout=LIMIT) == CONFIG
            assert "expected at most 64 members, got 65" in daemon.text()
    count = 12 if SANITIZERS else MEMBERS
    members = so_many_members(count)
    names = EXPERTS + [f"m{n}" for n in range(count)]
    calm, blob = played(members)
    killed, killed_blob = played(members, kill=True)
    assert comparable(calm) == comparable(killed) and blob == killed_blob
    assert all(list(m["experts"]) == list(m["weights"]) == names for m in calm)
    _, alone = played(members[members.rindex("{name"):])
    last = f"members.m{count - 1}."
    assert tensors(alone) == {name: data for name, data in tensors(blob).items() if name.startswith(last)}


def however_steps_are_bundled():
    """Single steps, or one message with all of them, which needs several plans; with a wild
    value."""
    draw, steps = np.random.default_rng(7), 240 if SANITIZERS else 600
    x = np.sin(np.arange(steps)[:, None] * [0.3, 0.7]) + draw.normal(0, 0.1, (steps, 2))
    x[steps // 2, 0], x[2 * steps // 3, 1], x[:40, 1] = 3e38, math.nan, math.nan
    for ahead in ("1", "[2, 9]"):
        seen = [bundled(x, cuts, ahead) for cuts in (range(1, steps), [], [3, 5 * steps // 6])]
        assert len(seen[0][0]) == steps and seen[0] == seen[1] == seen[2]
        assert np.isfinite(np.array(seen[0][0][40:], float)).all()


def bundled(x, cuts, ahead):
    """Predictions step by step, and the export."""
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        text = configuration(directory, f"{CHANGE}, {LEVEL}", ahead=ahead)
        with Daemon(directory, text) as daemon:
            daemon.ask("status")
            pieces = np.split(x.astype("<f4"), list(cuts))
            with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                send(feeder, [(b"s", piece.tobytes(), 0) for piece in pieces])
                found = predictions(daemon, subscriber, len(pieces))
            rows = [row for m, piece in zip(found, pieces) for row in
                    (m["prediction"] if len(piece) > 1 else [m["prediction"]])]
            return rows, daemon.export()


def horizons_have_the_same_forecasts_alone():
    """Experts and their mixture have the same numbers for one horizon in a list as for that horizon
    alone."""
    together, _ = played("", ahead="[1, 3, 7]")
    for n, ahead in enumerate((1, 3, 7)):
        alone, _ = played("", ahead=ahead)
        for a, b in zip(together, alone):
            assert a["prediction"][n] == b["prediction"] and a["interval"][n] == b["interval"]
            for what in ("experts", "weights"):
                assert {name: rows[n] for name, rows in a[what].items()} == b[what]
    assert comparable(played(CHANGE, ahead="[1]")[0]) == comparable(played(CHANGE)[0])


def every_horizon_is_scored_when_its_x_comes():
    found, blob = played(f"{CHANGE}, {LEVEL}", ahead="[2, 5]")
    x = [np.frombuffer(row, "<f4").astype(float) for _, row, _ in examples()]
    kept, seen = {}, {2: 0, 5: 0}
    for n, message in enumerate(found):
        scored = message.get("scored", [])
        assert [one["ahead"] for one in scored] in ([], [2], [2, 5])
        losses = []
        for one in scored:
            past = kept[message["stream"], one["example"]]
            place = (2, 5).index(one["ahead"])
            assert one["prediction"] == past["prediction"][place]
            assert one["baseline"] == past["experts"]["last"][place] == one["experts"]["last"]
            assert one["experts"]["level"] == past["experts"]["level"][place]
            for target, value, last in zip(one["target"], x[n], one["baseline"]):
                unknown = math.isnan(value) or last is None
                assert target is None if unknown else math.isclose(target, value, rel_tol=1e-6)
            losses.append(one["loss"])
            seen[one["ahead"]] += 1
        assert math.isclose(message["loss"], np.mean(losses)) if scored else message["loss"] is None
        kept[message["stream"], n + 1] = message
    assert min(seen.values()) > 150, seen
    shapes = {name: len(data) // 4 for name, data in tensors(blob).items()}
    assert shapes["members.level.output.bias"] == 4 and shapes["members.change.output.bias"] == 4


def looks_further_ahead_than_the_last_value():
    """A curve with noise, a third and half of a period ahead; the error of the last value is 1."""
    draw, steps = np.random.default_rng(6), 900
    x = np.sin(np.arange(steps) * 0.4) + draw.normal(0, 0.1, steps)
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        text = configuration(directory, f"{CHANGE}, {LEVEL}", ahead="[5, 8]")
        with Daemon(directory, text.replace("size: 2", "size: 1")) as daemon:
            daemon.ask("status")
            with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                for value in x:
                    feeder.send_multipart([b"s", struct.pack("<f", value)])
                scored = [m["scored"] for m in predictions(daemon, subscriber, steps)[-300:]]
            for place in range(2):
                for by in (lambda one: one["prediction"], lambda one: one["experts"]["level"]):
                    error = np.sqrt(np.mean([(by(row[place])[0] - row[place]["target"][0]) ** 2
                                             for row in scored]))
                    assert error < 0.2, error  # the last value has an error above 1
                inside = np.mean([low <= row[place]["target"][0] <= high for row in scored
                                  for low, high in row[place]["interval"]])
                assert 0.84 < inside < 0.96, inside


def a_kill_changes_no_bit_further_ahead():
    """A kill while targets are open does not change a bit, even in streams with fewer steps than
    the horizon."""
    for ahead in ["[1, 3, 50]"] if SANITIZERS else ["4", "[1, 3, 50]"]:
        calm, calm_blob = played(f"{CHANGE}, {LEVEL}", ahead=ahead)
        killed, killed_blob = played(f"{CHANGE}, {LEVEL}", kill=True, ahead=ahead)
        assert comparable(calm) == comparable(killed) and calm_blob == killed_blob
        alone = played(LEVEL, ahead=ahead)
        assert all(a["experts"]["level"] == b["experts"]["level"] for a, b in zip(calm, alone[0]))


def reports_that_it_has_no_network():
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        with Daemon(directory, configuration(directory, "")) as daemon:
            daemon.ask("status")
            comparable = daemon.text().replace(directory, "")  # its name may have any three letters
            assert "> experts >" in comparable and "; 0 parameters" in comparable, comparable
            assert "gru" not in comparable, comparable


def sets_and_resets_members(ahead="1"):
    with tempfile.TemporaryDirectory(prefix="forecast-") as directory:
        text = configuration(directory, f"{CHANGE}, {LEVEL}", ahead=ahead)
        with Daemon(directory, text) as daemon:
            first = daemon.export()
            with daemon.socket(zmq.PUSH, "examples") as feeder:
                daemon.ask("set", key="members.level.learning.optimizer.rate", value=0)
                reply = daemon.request("set", key="members.none.learning.clip", value=0)[0]
                assert not reply["ok"] and "unknown member" in reply["error"], reply
                rows = list(examples())
                send(feeder, rows)
                wait_learned(daemon, len(rows))
            before, after = tensors(first), tensors(daemon.export())
            same = {name for name in before if before[name] == after[name]}
            assert "members.level.layers.0.weight_ih" in same  # its rate is 0
            assert "members.level.output.weight" not in same  # solved by least squares nevertheless
            assert "members.change.layers.0.weight_ih" not in same
            reply = daemon.ask("reset", member="change")
            assert reply["member"] == "change" and reply["examples"] == len(rows), reply
            again, begun = tensors(daemon.export()), tensors(first)
            for name, value in again.items():
                assert value == (begun if name.startswith("members.change.") else after)[name]
            assert daemon.end() == 0  # its checkpoint has streams without a later step
            daemon.start()
            assert tensors(daemon.export()) == again
            reply = daemon.request("reset", member="none")[0]
            assert not reply["ok"] and "unknown member none" in reply["error"], reply
            with daemon.socket(zmq.PUSH, "examples") as feeder:
                send(feeder, rows[:20])
                wait_learned(daemon, len(rows) + 20)
            daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
            learned = tensors(daemon.export())
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            daemon.start()
            wait_learned(daemon, len(rows) + 20)
            # the journal contains the reset of the member
            assert tensors(daemon.export()) == learned
            daemon.ask("reset")
            assert daemon.export() == first


def sets_and_resets_members_further_ahead():
    sets_and_resets_members("[1, 4]")


def a_gpu_forecasts_the_same():
    """Both members on the CUDA engine: equal up to rounding, and the same bits after a kill and
    after a change of the engine, including the readouts' least squares."""
    for ahead in ("1", "[2, 5]"):
        a_gpu_looks_ahead(f"{CHANGE}, {LEVEL}", ahead)


def a_gpu_looks_ahead(members, ahead):
    expected, expected_blob = played(members, ahead=ahead)
    calm, calm_blob = played(members, devices=["cuda"], ahead=ahead)
    killed, killed_blob = played(members, kill=True, devices=["cuda"], ahead=ahead)
    moved, moved_blob = played(members, kill=True, devices=["cuda", "cpu", "cuda"], ahead=ahead)
    assert comparable(calm) == comparable(killed) and calm_blob == killed_blob
    for found, blob in ((calm, calm_blob), (moved, moved_blob)):
        for a, b in zip(expected, found):
            assert all(a["experts"][name] == b["experts"][name] for name in EXPERTS), (a, b)
            assert near([a["prediction"]], [b["prediction"]]), (a, b)
        numbers, wanted = ({name: np.frombuffer(data, "<f4") for name, data in tensors(each).items()}
                           for each in (blob, expected_blob))
        assert numbers.keys() == wanted.keys()
        assert all(np.abs(numbers[name] - wanted[name]).max() < NEAR for name in wanted)


def near(found, expected):
    """Whether numbers of two columns are close, where the second is about 40 times as large, or
    both are None."""
    a, b = (np.array(rows, float) / [1, 40] for rows in (found, expected))
    return bool(np.all((np.isnan(a) & np.isnan(b)) | (np.abs(a - b) < NEAR)))


tests = [carries_experts_and_weights, null_where_nothing_was_seen,
         a_member_has_the_bits_it_has_alone, there_can_be_64_members, a_kill_changes_no_bit,
         however_steps_are_bundled, horizons_have_the_same_forecasts_alone, every_horizon_is_scored_when_its_x_comes,
         a_kill_changes_no_bit_further_ahead,
         reports_that_it_has_no_network, sets_and_resets_members,
         sets_and_resets_members_further_ahead]
if not SANITIZERS:  # accuracy of forecasts: only the code of the previous cases
    tests += [is_better_than_the_last_value, looks_further_ahead_than_the_last_value]
if os.environ.get("RUNNEL_CUDA_MODULE"):
    tests.append(a_gpu_forecasts_the_same)
for test in tests:
    test()
    print(f"ok {test.__name__}")
