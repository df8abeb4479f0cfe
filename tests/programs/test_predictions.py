#!/usr/bin/env python3
"""Predictions next to their truths (docs/reference/protocol.md, "prediction"): each truth has its
forecast, intervals have their nominal coverage, and kills do not change a bit."""
import csv
import json
import math
import os
import pathlib
import signal
import struct
import tempfile
import time

import running
import zmq
from running import Daemon, kill_and_start, subscribe, wait_learned
from running import predictions as take

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

TOP = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
FORECAST = "preset: forecast\nmodel: {input: {size: 2}, layers: [{cell: gru, size: 8}]}"
LEAST = 20  # errors before the first interval
HOUR, BEGIN = 3600.0, 1.6e9


def configuration(directory, model, predictions, every):
    return f"""
name: predictions
device: cpu
{model}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: {every}, predictions: {predictions}}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 70, seconds: 0}}}}
"""


def plain(inputs, output, cell="gru"):
    return (f"model: {{input: {{{inputs}}}, layers: [{{cell: {cell}, size: 6}}],"
            f" output: {{{output}}}}}\nlearning: {{window: 4, stride: 2, clip: 1}}")


def row(number, x, y=b"", stream=b"s", flags=0, timed=True):
    """One numbered example, an hour after the previous one."""
    header = struct.pack("<BBHIQd", 1, flags, 0, 0, number, BEGIN + HOUR * number if timed else 0)
    return [stream, x, y, header]


def played(model, rows, predictions="true", kills=(), every=1):
    """The predictions of all rows, and the last status. The daemon is killed after the numbers of
    rows in `kills`."""
    found, begin = [], 0
    with tempfile.TemporaryDirectory(prefix="predictions-") as directory:
        with Daemon(directory, configuration(directory, model, predictions, every)) as daemon:
            daemon.ask("status")
            for end in [*kills, len(rows)]:
                with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                    for frames in rows[begin:end]:
                        feeder.send_multipart(frames)
                    found += take(daemon, subscriber, end - begin)
                begin = end
                if end < len(rows):
                    kill_and_start(daemon, end)
            status = daemon.ask("status")
            assert daemon.end() == 0
    return found, status


def feed_rows(daemon, rows, learned):
    with daemon.socket(zmq.PUSH, "examples") as feeder:
        for frames in rows:
            feeder.send_multipart(frames)
        wait_learned(daemon, learned)


def two_columns(steps):
    draw = np.random.default_rng(5)
    x = np.sin(np.arange(steps)[:, None] * [0.5, 0.3]) * [1, 40] + draw.normal(0, 0.2, (steps, 2))
    x[draw.random(x.shape) < 0.05] = math.nan
    return x.astype("<f4")


def are(forecast, x):
    """Whether numbers of a message equal these float32, where null is NaN."""
    values = np.array([math.nan if value is None else value for value in forecast], "<f4")
    return np.array_equal(values, x, equal_nan=True)


def check_next(found, x):
    """Each x is the target of the prediction in the previous message."""
    before, banded = None, 0
    for message, values in zip(found, x):
        assert message["data_time"] == BEGIN + HOUR * message["example"], message
        scored = message.get("scored")
        if scored:
            assert are(scored["target"], values), (scored, values)
            for key in ("example", "data_time", "prediction", "interval"):
                assert scored[key] == before[key], (key, scored, before)
            for key in ("experts", "quantiles"):
                assert scored.get(key) == before.get(key)
            assert scored["loss"] == message["loss"]
            for of_last, last in zip(scored["baseline"], x[message["example"] - 2]):
                assert math.isnan(last) or np.float32(of_last) == last, (scored, last)
        else:
            assert before is None or message["loss"] is None, message
        for p, bounds in zip(message["prediction"], message["interval"]):
            assert bounds is None or bounds[0] <= bounds[1], message
            banded += bounds is not None
        before = message
    return banded


def stand_beside_the_next_x():
    x = two_columns(120)
    for predictions in ("true", "all"):
        rows = [row(n + 1, values.tobytes()) for n, values in enumerate(x)]
        found, _ = played(FORECAST, rows, predictions)
        assert check_next(found, x) > 150
        assert all(bounds is None for m in found[:LEAST] for bounds in m["interval"])
        assert ("experts" in found[-1]["scored"]) == (predictions == "all")
    scaled = plain("kind: real, size: 2, scale: standard, missing: hold", "loss: squared, size: 2, target: next")
    found, _ = played(scaled, rows)
    first = found[0]["scored"] if "scored" in found[0] else None
    assert first is None and check_next(found, x) > 150


def stand_beside_a_given_target():
    draw = np.random.default_rng(1)
    x, y = draw.normal(0, 1, (60, 2)).astype("<f4"), draw.normal(0, 1, (60, 1)).astype("<f4")
    y[7] = math.nan
    rows = [row(n + 1, x[n].tobytes(), y[n].tobytes() if n % 9 else b"") for n in range(60)]
    found, status = played(plain("kind: real, size: 2", "loss: squared, size: 1, target: given"), rows)
    misses = held = 0
    for n, message in enumerate(found):
        assert ("scored" in message) == (n % 9 != 0 and n != 7), message
        if "scored" not in message:
            continue
        scored = message["scored"]
        assert are(scored["target"], y[n]) and scored["example"] == n + 1
        for key in ("data_time", "prediction", "interval", "loss"):
            assert scored[key] == message[key]
        if scored["interval"][0]:
            low, high = scored["interval"][0]
            held += low <= scored["target"][0] <= high
            misses += not low <= scored["target"][0] <= high
    assert held + misses == 60 - 7 - 1 - LEAST, (held, misses)
    assert math.isclose(status["coverage"]["total"], held / (held + misses)), status["coverage"]


def other_losses_have_what_has_a_meaning():
    draw = np.random.default_rng(2)
    x = draw.normal(0, 1, (40, 2)).astype("<f4")
    gaussian = plain("kind: real, size: 2", "loss: gaussian, size: 2, target: next")
    found, _ = played(gaussian, [row(n + 1, x[n].tobytes()) for n in range(40)])
    assert set(found[-1]["scored"]["prediction"]) == {"mean", "sd"}
    assert found[-1]["scored"]["prediction"] == found[-2]["prediction"]
    assert found[-1]["scored"]["interval"] == found[-2]["interval"]
    (low, high), mean = found[-1]["interval"][1], found[-1]["prediction"]["mean"][1]
    assert low < mean < high
    classes = plain("kind: real, size: 2", "loss: softmax, size: 3, target: given")
    found, status = played(classes, [row(n + 1, x[n].tobytes(), struct.pack("<I", n % 3))
                                     for n in range(30)])
    assert [m["scored"]["target"] for m in found] == [n % 3 for n in range(30)]
    assert all(m["scored"]["prediction"] == m["prediction"] for m in found)
    assert "interval" not in found[-1] and "interval" not in found[-1]["scored"]
    assert not status["coverage"]
    assert abs(sum(found[-1]["scored"]["baseline"]) - 1) < 1e-9, found[-1]
    symbols = plain("kind: symbol, size: 4", "loss: softmax, size: 4, target: next")
    found, _ = played(symbols, [row(n + 1, struct.pack("<I", n % 4)) for n in range(30)])
    for n in range(1, 30):
        assert found[n]["scored"]["target"] == n % 4
        assert found[n]["scored"]["prediction"] == found[n - 1]["prediction"]
    sides = plain("kind: real, size: 2", "loss: bernoulli, size: 1, target: given")
    found, _ = played(sides, [row(n + 1, x[n].tobytes(), struct.pack("<f", n % 2))
                              for n in range(30)])
    assert [m["scored"]["target"] for m in found] == [[n % 2] for n in range(30)]


def each_horizon_has_its_own():
    """With ahead: [1, 3] an x is the truth of two predictions, and each horizon has its own
    interval."""
    x = np.random.default_rng(8).normal(0, 1, (90, 2)).astype("<f4")
    model = plain("kind: real, size: 2", "loss: squared, size: 2, target: next, ahead: [1, 3]")
    rows = [row(n + 1, values.tobytes()) for n, values in enumerate(x)]
    found, status = played(model, rows)
    killed, after = played(model, rows, kills=(50,))
    assert [m.get("scored") for m in found] == [m.get("scored") for m in killed]
    assert status["coverage"] == after["coverage"] and status["coverage"]["total"] is not None
    for n, message in enumerate(found):
        scored = message.get("scored", [])
        assert [s["ahead"] for s in scored] == [ahead for ahead in (1, 3) if n >= ahead], message
        for s in scored:
            forecast, horizon = found[n - s["ahead"]], (1, 3).index(s["ahead"])
            assert s["example"] == forecast["example"] and s["data_time"] == forecast["data_time"]
            assert s["prediction"] == forecast["prediction"][horizon], (s, forecast)
            assert s["interval"] == forecast["interval"][horizon] and are(s["target"], x[n])
            assert are(s["baseline"], x[n - s["ahead"]]), s
    assert [None in bounds for bounds in found[LEAST + 2]["interval"]] == [False, False]
    assert [None in bounds for bounds in found[LEAST + 1]["interval"]] == [False, True]


def labels_bring_truths():
    x = np.nan_to_num(two_columns(60))
    model = plain("kind: real, size: 2", "loss: squared, size: 1, target: later, patience: 9")
    rows = []
    for n in range(60):
        rows.append(row(n + 1, x[n].tobytes()))
        if n >= 5:
            label = row(100 + n, b"", struct.pack("<f", n), flags=8)
            rows.append([*label, struct.pack("<IIQ", 0, 0, n - 4)])
    found, status = played(model, rows)
    labels = [m for m in found if "prediction" not in m]
    assert len(labels) == 55 and len(found) == 115
    for n, message in enumerate(labels, 5):
        before = [m for m in found if m["data_time"] == BEGIN + HOUR * (n - 4)][0]
        scored = message["scored"]
        assert scored["target"] == [n] and scored["example"] == before["example"], message
        assert scored["data_time"] == before["data_time"] != message["data_time"]
        assert scored["prediction"] == before["prediction"]
        assert scored["interval"] == before["interval"]
    assert labels[-1]["scored"]["interval"][0] is not None
    assert status["coverage"]["total"] is not None


def examples_of_many_steps_have_lists():
    """The numbers do not depend on the division of steps into messages, even over several plans."""
    x = two_columns(600)
    scaled = plain("kind: real, size: 2, missing: hold", "loss: squared, size: 2, target: next")
    for model in (FORECAST, scaled):
        single, _ = played(model, [row(n + 1, values.tobytes()) for n, values in enumerate(x)])
        pieces = np.split(x, [3, 500])
        many, _ = played(model, [row(n + 1, piece.tobytes()) for n, piece in enumerate(pieces)])
        of_each = [m["scored"] for m in single if "scored" in m]
        together = [scored for m in many for scored in m["scored"]]
        assert len(of_each) == len(together) > 500
        for a, b in zip(of_each, together):
            for key in ("prediction", "interval", "target", "loss"):
                assert a[key] == b[key], (key, a, b)
        assert together[0]["example"] == 1 and together[0]["step"] == 0
        assert [s["example"] for s in together[2:4]] in ([1, 2], [2, 2])
        assert many[1]["interval"][-1] == single[499]["interval"]
        assert many[1]["data_time"] == BEGIN + 2 * HOUR


def streams_have_intervals_of_their_own():
    """A quiet and a loud stream. A stream that ends starts from scratch. Examples that are not
    learned do not change intervals."""
    draw = np.random.default_rng(3)
    rows = []
    for n in range(160):
        loud = n % 2
        x = draw.normal(0, 100 if loud else 1, 2).astype("<f4")
        rows.append(row(n + 1, x.tobytes(), stream=b"ab"[loud:loud + 1], flags=n == 158))
    rows += [row(161, x.tobytes(), stream=b"a"), row(162, x.tobytes(), stream=b"b", flags=2),
             row(163, x.tobytes(), stream=b"b", flags=2)]
    found, _ = played(FORECAST, rows)
    quiet, loud = found[156], found[157]
    widths = [high - low for low, high in quiet["interval"] + loud["interval"]]
    assert max(widths[:2]) * 10 < min(widths[2:]), widths
    assert found[160]["stream"] == "a" and found[160]["interval"] == [None, None]
    assert "scored" not in found[160]
    # The forecast shifts with x, and the interval with it, up to rounding.
    apart = [[bound - p for bound in bounds] for m in found[161:]
             for p, bounds in zip(m["prediction"], m["interval"])]
    assert np.allclose(apart[:2], apart[2:]), apart


def a_kill_changes_nothing():
    x = two_columns(200)
    rows = [row(n + 1, values.tobytes(), stream=b"ab"[n % 2:n % 2 + 1])
            for n, values in enumerate(x)]
    scaled = plain("kind: real, size: 2, scale: standard, missing: hold", "loss: squared, size: 2, target: next")
    for model in (FORECAST, scaled):
        calm, status = played(model, rows, "all")
        killed, after = played(model, rows, "all", kills=(97, 150))
        for a, b in zip(calm, killed):
            for key in ("stream", "example", "data_time", "prediction", "interval", "scored"):
                assert a.get(key) == b.get(key), (key, a, b)
        assert status["coverage"] == after["coverage"], (status["coverage"], after["coverage"])


def whoever_listens():
    """A late subscriber gets the same intervals."""
    x = two_columns(120)
    rows = [row(n + 1, values.tobytes(), timed=False) for n, values in enumerate(x)]
    found, _ = played(FORECAST, rows)
    with tempfile.TemporaryDirectory(prefix="predictions-") as directory:
        with Daemon(directory, configuration(directory, FORECAST, "true", 1)) as daemon:
            daemon.ask("status")
            with daemon.socket(zmq.PUSH, "examples") as feeder:
                for frames in rows[:100]:
                    feeder.send_multipart(frames)
                wait_learned(daemon, 100)
                with subscribe(daemon) as subscriber:
                    feeder.send_multipart(rows[100])
                    late = take(daemon, subscriber, 1)[0]
    assert late["scored"] == found[100]["scored"] and late["interval"] == found[100]["interval"]
    assert late["data_time"] is None and late["scored"]["data_time"] is None


def a_missing_time_is_null():
    """Without a header, with a header without time, and in JSON without `time`: the time is null,
    also after a kill."""
    x = np.sin(np.arange(200) / 5)[:, None] * np.ones(2)
    timed = {5, 150}
    rows = []
    for n, values in enumerate(x):
        values[:] = values + (1000 if n == 180 else 0)
        numbers = values.astype("<f4").tobytes()
        rows.append(row(n + 1, numbers) if n in timed else [b"s", numbers] if n % 3 == 0 else
                    [b"s", numbers, b"", struct.pack("<BBHIQd", 1, 0, 0, 0, n + 1, 0)] if n % 3 == 1 else
                    [json.dumps({"stream": "s", "x": list(values)}).encode()])
    for model in (FORECAST, plain("kind: real, size: 2", "loss: squared, size: 2, target: next, ahead: [1, 3]")):
        found, status = played(model, rows, kills=(99, 151))
        times = [BEGIN + HOUR * (n + 1) if n in timed else None for n in range(len(rows))]
        assert [message["data_time"] for message in found] == times
        assert status["data_time"] is None, status
        scored = [one for message in found for one in of_one(message.get("scored", []))]
        assert len(scored) > 190 and all(one["data_time"] == times[one["example"] - 1] for one in scored)
    with tempfile.TemporaryDirectory(prefix="predictions-") as directory:
        with Daemon(directory, configuration(directory, FORECAST, "true", 1)) as daemon:
            with subscribe(daemon, (b"event", b"loss")) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                for frames in rows:
                    feeder.send_multipart(frames)
                wait_learned(daemon, len(rows))
                alarms = []
                while not alarms:
                    topic, body = daemon.next_message(subscriber)
                    message = json.loads(body)
                    alarms += [message] * (message.get("kind") == "anomaly")
                    assert topic != b"loss" or message["data_time"] is None or message["examples"] - 1 in timed
                assert alarms[0]["example"] == 181 and alarms[0]["data_time"] is None, alarms


def of_one(scored):
    return scored if isinstance(scored, list) else [scored]


def only_where_they_may_be_asked_for():
    """Enabling and disabling, over restarts and by a reload, does not change learning."""
    x = two_columns(160)
    rows = [row(n + 1, values.tobytes()) for n, values in enumerate(x)]
    model = plain("kind: real, size: 2, scale: standard, missing: hold",
                  "loss: squared, size: 2, target: next")

    exports = []
    for switched in (False, True):
        with tempfile.TemporaryDirectory(prefix="predictions-") as directory:
            text = configuration(directory, model, "false", 1)
            with Daemon(directory, text) as daemon:
                feed_rows(daemon, rows[:40], 40)
                assert daemon.ask("status")["coverage"]["total"] is None
                for begin, predictions in ((40, "true"), (80, "false"), (120, "all")):
                    if switched:
                        daemon.path.write_text(configuration(directory, model, predictions, 1))
                    if switched and begin == 120:
                        daemon.process.send_signal(signal.SIGHUP)
                        end = time.monotonic() + running.LIMIT
                        while "statistics.predictions is all" not in daemon.text():
                            assert time.monotonic() < end, daemon.text()
                            time.sleep(0.01)
                    else:
                        assert daemon.end() == 0
                        daemon.start()
                    feed_rows(daemon, rows[begin:begin + 40], begin + 40)
                    total = daemon.ask("status")["coverage"]["total"]
                    assert (total is not None) == (switched and predictions != "false"), total
                exports.append(daemon.export())
    assert exports[0] == exports[1]


def real_stream():
    """The transformer's temperatures if available, else a generated series whose noise grows, is
    skewed, and has spikes."""
    path = TOP.parent / "shared/data/ETTh1.csv"
    if path.is_file():
        with open(path, encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:6001]
        return np.array([[float(value) for value in line[1:8]] for line in rows], "<f4")
    draw, t = np.random.default_rng(4), np.arange(6000)
    noise = draw.gamma(2, 1, 6000) * (0.5 + t / 3000) + 50 * (draw.random(6000) < 0.002)
    return (20 + 5 * np.sin(t / 24) + noise)[:, None].astype("<f4")


def intervals_hold_nine_in_ten():
    x = real_stream()
    model = f"preset: forecast\nmodel: {{input: {{size: {x.shape[1]}}}}}"
    found, status = played(model, [row(n + 1, values.tobytes()) for n, values in enumerate(x)],
                           every=1000)
    held = [[bounds[0] <= y <= bounds[1] for m in found[1:]
             for p, y, bounds in [(m["scored"]["prediction"][k], m["scored"]["target"][k],
                                   m["scored"]["interval"][k])] if bounds]
            for k in range(x.shape[1])]
    for column in held:
        assert len(column) == len(x) - 1 - LEAST
        assert 0.88 < np.mean(column) < 0.92, np.mean(column)
        assert 0.88 < np.mean(column[-2000:]) < 0.92, np.mean(column[-2000:])
    assert math.isclose(status["coverage"]["total"], np.mean(held)), status["coverage"]
    assert 0.85 < status["coverage"]["recent"] < 0.95


LEVELS = [0.001, 0.05, 0.5, 0.95, 0.999]


def check_scores(levels, scored):
    """PIT, z and CRPS of a truth agree with the quantiles that were published before it."""
    checked = 0
    for y, quantiles, pit, z, crps in zip(*(scored[key] for key in ("target", "quantiles", "pit", "z", "crps"))):
        assert (pit is None) == (z is None) == (crps is None)
        if pit is None:
            continue
        checked += 1
        assert 0 <= pit[0] <= pit[1] <= 1 and quantiles == sorted(quantiles)
        for level, quantile in zip(levels, quantiles):
            assert y >= quantile or pit[1] <= level + 1e-6, (y, level, quantile, pit)
            assert y <= quantile or pit[0] >= level - 1e-6, (y, level, quantile, pit)
        assert abs(z) <= 8 and (abs(z) < 1e-6 or (z > 0) == (sum(pit) > 1)), (z, pit)
        assert 0 <= crps <= max(abs(y - quantiles[0]), abs(y - quantiles[-1]))
    return checked


def distributions_have_scores():
    """For each horizon the truth meets the quantiles that were published for it; a kill and the
    division into messages do not change a bit."""
    x = two_columns(160)
    more = f"distribution: {{levels: {LEVELS}}}\n"
    for ahead in ("1", "[1, 3]"):
        model = more + FORECAST.replace("]}", f"], output: {{ahead: {ahead}}}}}")
        rows = [row(n + 1, values.tobytes()) for n, values in enumerate(x)]
        found, status = played(model, rows, every=40)
        killed, after = played(model, rows, kills=(60, 101), every=40)
        checked = 0
        for n, (message, again) in enumerate(zip(found, killed)):
            assert message["levels"] == LEVELS
            for key in ("scored", "quantiles", "prediction"):
                assert message.get(key) == again.get(key), (n, key)
            for scored in of_one(message.get("scored", [])):
                issued = found[n - scored.get("ahead", 1)]["quantiles"]
                issued = issued if ahead == "1" else issued[scored["ahead"] // 2]
                assert scored["quantiles"] == issued
                checked += check_scores(LEVELS, scored)
        assert checked > (250 if ahead == "1" else 500), checked
        for key in ("pit", "crps", "log_score"):
            assert status[key] == after[key], key
        assert status["coverage"]["levels"] == after["coverage"]["levels"]


def distributions_are_calibrated():
    """On independent normal numbers the CRPS is that of a normal distribution, and shares within
    central intervals and the histogram of PITs are as they should be."""
    x = np.random.default_rng(3).normal(0, 3, (2500, 1)).astype("<f4")
    model = "distribution: {levels: []}\n" + FORECAST.replace("size: 2", "size: 1")
    rows = [row(n + 1, values.tobytes()) for n, values in enumerate(x)]
    found, status = played(model, rows, every=len(rows))
    assert "quantiles" not in found[-1] and "levels" not in found[-1] and "quantiles" not in found[-1]["scored"]
    late = [m["scored"] for m in found[500:]]
    best = 3 / math.sqrt(math.pi)
    crps = np.mean([s["crps"][0] for s in late])
    assert 0.97 * best < crps < 1.08 * best, (crps, best)
    log_score = np.mean([s["log_score"][0] for s in late])
    assert abs(log_score - math.log(3 * math.sqrt(2 * math.pi * math.e))) < 0.1, log_score
    pits = np.array([np.mean(s["pit"][0]) for s in late])
    for share, about in ((0.5, 0.04), (0.9, 0.03), (0.99, 0.01)):
        held = np.mean(np.abs(pits - 0.5) < share / 2)
        assert abs(held - share) < about, (share, held)
    assert abs(sum(status["pit"]) - 1) < 1e-4 and max(status["pit"]) < 0.1, status["pit"]
    assert abs(status["coverage"]["levels"][1] - 0.9) < 0.05, status["coverage"]
    # in the root mean square change of 3 sqrt(2), against a mean absolute error of 3.39
    assert abs(status["crps"]["mean"] - 0.4) < 0.04 and abs(status["crps"]["skill"] - 0.5) < 0.05, status["crps"]


def calibration_is_a_sentence():
    """After a change of the stream that is not learned, the sentence names the fault."""
    random = np.random.default_rng(4)
    x = random.normal(0, 3, 500)
    for later, verdict in ((x, "calibrated"), (x * 2, "too narrow"), (x / 3, "too wide"), (x + 2, "shifted down"),
                           (x - 30, "shifted up")):
        later = random.permutation(later)
        rows = [row(n + 1, value.astype("<f4").tobytes(), flags=2 * (n >= len(x)))
                for n, value in enumerate(np.concatenate([x, later]))]
        _, status = played(FORECAST.replace("size: 2", "size: 1"), rows, every=len(rows))
        assert status["calibration"].startswith(verdict), (verdict, status["calibration"], status["pit"])
    _, status = played(FORECAST.replace("size: 2", "size: 1"), rows[:20], every=20)
    assert status["calibration"] is None, status


def distributions_of(directory):
    """The state of distributions in the checkpoint."""
    blob = (pathlib.Path(directory) / "state/checkpoint.safetensors").read_bytes()
    size = int.from_bytes(blob[:8], "little")
    begin, end = json.loads(blob[8:8 + size])["streams.distribution"]["data_offsets"]
    return blob[8 + size + begin:8 + size + end]


def distributions_change_nothing_else():
    """With and without distributions all else is the same, and a restart can switch them: they
    start from scratch. Examples that are not learned from do not change them."""
    x = two_columns(90)
    rows = [row(n + 1, values.tobytes(), flags=2 * (n % 7 == 0)) for n, values in enumerate(x)]
    on, _ = played(FORECAST, rows, "all")
    off, status = played("distribution: {enabled: false}\n" + FORECAST, rows, "all")
    assert "pit" not in status and "levels" not in status["coverage"]
    for more, less in zip(on, off):
        for message in (more, more.get("scored", {})):
            for key in ("levels", "quantiles", "pit", "z", "crps", "log_score"):
                message.pop(key, None)
        for key in ("prediction", "interval", "scored", "loss", "experts", "weights"):
            assert more.get(key) == less.get(key), key
        assert not {"levels", "quantiles"} & set(less)
    with tempfile.TemporaryDirectory(prefix="predictions-") as directory:
        with Daemon(directory, configuration(
                directory, "distribution: {enabled: false}\n" + FORECAST, "true", 1)) as daemon:
            feed_rows(daemon, rows[:60], 60)
            assert daemon.end() == 0
            daemon.path.write_text(configuration(directory, FORECAST, "true", 1), encoding="utf-8")
            daemon.start()
            with subscribe(daemon) as subscriber:
                feed_rows(daemon, rows[60:], 90)
                found = take(daemon, subscriber, 30)
            assert [m["prediction"] for m in found] == [m["prediction"] for m in off[60:]]
            assert found[0]["quantiles"] == [None, None] and None not in found[-1]["quantiles"]
            assert daemon.end() == 0
            state = distributions_of(directory)
            daemon.start()
            feed_rows(daemon, [row(n + 200, values.tobytes(), flags=2) for n, values in enumerate(x[:3])], 93)
            assert daemon.end() == 0
            assert state == distributions_of(directory) and any(state)
            daemon.path.write_text(configuration(
                directory, "distribution: {enabled: false}\n" + FORECAST, "true", 1), encoding="utf-8")
            daemon.start()
            assert daemon.ask("status")["examples"] == 93
            assert daemon.end() == 0


signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also under nohup, for the daemons
for test in (stand_beside_the_next_x, stand_beside_a_given_target,
             other_losses_have_what_has_a_meaning, each_horizon_has_its_own,
             labels_bring_truths, examples_of_many_steps_have_lists,
             streams_have_intervals_of_their_own, a_kill_changes_nothing, whoever_listens, a_missing_time_is_null,
             only_where_they_may_be_asked_for,
             intervals_hold_nine_in_ten, distributions_have_scores, distributions_are_calibrated,
             calibration_is_a_sentence, distributions_change_nothing_else):
    test()
    print("ok", test.__name__)
