#!/usr/bin/env python3
"""Anomalies of a daemon (docs/reference/protocol.md, "Anomalies"). Scores equal those of the
executable specification (tests/support/novelty), also after kills. They do not affect learning.
Checkpoints can be read with and without anomalies."""
import json
import math
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import time
import zlib

import cases
import running
import zmq
from anomalies import BEGIN, KNOWS, configuration, entry, fed, kill, play_marked, played, step
from running import Daemon, wait_learned

BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
TOP = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
NOVELTY = TOP / "tests/support/novelty"
NEAR = 1e-5  # stored scores have six decimals


def stored(name):
    """The memory of a stored case, and its rows: x, minute of the day, score, whether it is an
    alarm."""
    lines = (NOVELTY / name).read_text(encoding="utf-8").split("\n")
    rows = [line.split() for line in lines[1:] if line]
    return int(lines[0].split()[1]), [(float(x), int(m), float(s), a == "1") for x, m, s, a in rows]


def are_stored(messages, rows):
    for n, (message, (_, _, score, _)) in enumerate(zip(messages, rows, strict=True)):
        published = message["anomaly"]
        assert list(published) == ["score", "surprise", "columns"], published
        assert published["columns"][0]["score"] == published["score"], published
        if n < KNOWS:
            assert published["score"] is None, (n, published)
        else:
            assert abs(published["score"] - score) < NEAR, (n, published, score)


def test_scores_are_those_of_the_specification_also_after_kills(directory):
    for name in ("daily", "walk"):
        memory, rows = stored(name)
        steps = [step(n + 1, [x], minute) for n, (x, minute, _, _) in enumerate(rows)]
        config = f"anomaly: {{enabled: true, memory: {memory}}}"
        whole, torn = directory / f"{name}-whole", directory / f"{name}-torn"
        whole.mkdir()
        torn.mkdir()
        once, _ = played(whole, configuration(whole, config), steps)
        again, _ = played(torn, configuration(torn, config), steps, kills=(140, 450, 1000))
        are_stored(once, rows)
        for n, (a, b) in enumerate(zip(once, again, strict=True)):
            assert a["anomaly"] == b["anomaly"], (n, a, b)
        surprises = [m["anomaly"]["surprise"] for m in once]
        assert all(s is None for s in surprises[:150]) and sum(s is not None for s in surprises) > 900


def test_the_preset_looks_and_learns_the_same(directory):
    """Anomalies are enabled by `preset: forecast`; the predictions are the same without them."""
    memory, rows = stored("daily")
    assert memory == 4000
    rows = rows[:400]
    steps = [step(n + 1, [x], minute) for n, (x, minute, _, _) in enumerate(rows)]
    model = "preset: forecast\nmodel: {input: {size: 1}, layers: [{cell: gru, size: 8}]}"
    found = {}
    for mode in ("true", "false", ""):
        place = directory / f"mode-{mode}"
        place.mkdir()
        more = mode and f"anomaly: {{enabled: {mode}}}"
        found[mode] = played(place, configuration(place, more, model=model), steps)
    are_stored(found[""][0], rows)
    assert found[""][1] == found["true"][1] == found["false"][1]
    assert all("anomaly" not in m for m in found["false"][0])
    for a, b in zip(found[""][0], found["false"][0], strict=True):
        assert a["prediction"] == b["prediction"] and a["interval"] == b["interval"]
    surprises = [m["anomaly"]["surprise"] for m in found[""][0]]
    assert any(s is not None for s in surprises)


def test_checkpoints_fit_with_and_without(directory):
    """Enabling, disabling or another memory keeps the learned parameters."""
    _, rows = stored("daily")
    steps = [step(n + 1, [x], minute) for n, (x, minute, _, _) in enumerate(rows)]
    modes = ["", "anomaly: {enabled: true}", "anomaly: {enabled: true, memory: 50}",
             "anomaly: {enabled: true, memory: 50, threshold: 3}", ""]
    begin = 0
    for n, mode in enumerate(modes):
        end = begin + 200
        with Daemon(directory, configuration(directory, mode)) as daemon:
            assert daemon.ask("status")["examples"] == begin
            published = [m.get("anomaly") for m in fed(daemon, steps[begin:end])]
            assert daemon.end() == 0
        begin = end
        if not mode:
            assert published == [None] * 200, n
        elif n == 3:  # the memory continues
            assert all(s["score"] is not None for s in published)
        else:  # the memory starts
            assert [s["score"] is None for s in published] == [True] * KNOWS + [False] * (200 - KNOWS)


def test_a_wild_time_does_not_spoil_the_checkpoint(directory):
    """The checkpoint has the newest time of the data, which any producer can send."""
    config = configuration(directory, "anomaly: {enabled: true}")
    with Daemon(directory, config) as daemon:
        fed(daemon, [step(1, [0.5], 0), step(2, [0.5], 1e200)])
        assert daemon.end() == 0
    with Daemon(directory, config) as daemon:
        assert daemon.ask("status")["examples"] == 2


def test_missing_values_take_no_part(directory):
    """A column with gaps has the scores of its values. The score of a stream is the largest of its
    columns."""
    _, rows = stored("daily")
    _, others = stored("steps")
    gap = {n for n in range(1200) if n % 7 == 3 or 400 <= n < 500}
    steps, kept = [], iter(rows)
    for n in range(1200):
        first = math.nan if n in gap else next(kept)[0]
        steps.append(step(n + 1, [first, others[n][0]]))
    config = configuration(directory, "anomaly: {enabled: true}", size=2)
    found, _ = played(directory, config, steps, kills=(450,))
    alone = directory / "alone"
    alone.mkdir()
    values = [row[0] for row in rows[:1200 - len(gap)]]
    single, _ = played(alone, configuration(alone, "anomaly: {enabled: true}"),
                       [step(n + 1, [x]) for n, x in enumerate(values)])
    came = [m["anomaly"] for n, m in enumerate(found) if n not in gap]
    assert [a["columns"][0]["score"] for a in came] == [m["anomaly"]["score"] for m in single]
    for n, message in enumerate(found):
        published = message["anomaly"]
        scores = [c["score"] for c in published["columns"]]
        assert n not in gap or scores[0] is None
        assert published["score"] == max((s for s in scores if s is not None), default=None)


def test_checkpoints_hold_what_is_in_use(directory):
    """Checkpoints contain only the used part of a memory. Streams of any length continue with the
    same bits."""
    _, rows = stored("walk")
    lengths = {b"long": 600, b"none": 0, b"one": 1, b"young": 100, b"delayed": 171}
    first = [(key, n) for n in range(600) for key, length in lengths.items() if n < length]
    second = [(key, lengths[key] + n) for n in range(220) for key in lengths]
    steps = [step(number + 1, [rows[n][0], rows[-1 - n][0] if n % 5 else math.nan], stream=key)
             for number, (key, n) in enumerate(first + second)]
    config = "anomaly: {enabled: true, memory: 100}"
    found = {}
    for stops in (False, True):
        place = directory / f"stops-{stops}"
        place.mkdir()
        with Daemon(place, configuration(place, config, size=2)) as daemon:
            daemon.ask("status")
            found[stops] = fed(daemon, steps[:len(first)])
            if stops:
                assert daemon.end() == 0
                # Used: at most 150 open steps and at most 100 remembered ones, in blocks of 8, of
                # all values and of the second column.
                expected = (150 + 104) + 1 + 100 + (150 + 24) + (150 + 104) + 80 + 136
                assert len(entry(place, "streams.contexts")) == expected * 36, expected
                daemon.start()
                assert daemon.ask("status")["examples"] == len(first)
            found[stops] += fed(daemon, steps[len(first):])
            assert daemon.end() == 0
    assert [m["anomaly"] for m in found[True]] == [m["anomaly"] for m in found[False]]
    assert sum(m["anomaly"]["score"] is not None for m in found[True][len(first):]) > 500


def with_contexts(blob, more):
    """A valid checkpoint with `more` rows of streams.contexts."""
    size, = struct.unpack_from("<Q", blob)
    header, tensors = json.loads(blob[8:8 + size]), blob[8 + size:]
    contexts = header["streams.contexts"]
    end = contexts["data_offsets"][1]
    contexts["shape"][0] += more
    for name, one in header.items():
        if name != "__metadata__":
            one["data_offsets"] = [at + 36 * more * (at >= end) for at in one["data_offsets"]]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    tensors = tensors[:end + 36 * min(more, 0)] + bytes(36 * max(more, 0)) + tensors[end:-8]
    blob = struct.pack("<Q", len(text)) + text + tensors
    return blob + struct.pack("<q", zlib.crc32(blob))


def with_held(blob, rows):
    """A valid checkpoint with held memories, as earlier versions wrote them for some streams."""
    size, = struct.unpack_from("<Q", blob)
    header, tensors = json.loads(blob[8:8 + size]), blob[8 + size:-8]
    end = len(tensors)
    last, = (one for one in header.values() if one.get("data_offsets") == [end, end + 8])
    last["data_offsets"] = [end + 16 * rows, end + 16 * rows + 8]
    header["streams.anomaly_held"] = {"dtype": "F64", "shape": [rows, 2],
                                      "data_offsets": [end, end + 16 * rows]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    blob = struct.pack("<Q", len(text)) + text + tensors + bytes(16 * rows)
    return blob + struct.pack("<q", zlib.crc32(blob))


def test_memories_of_earlier_versions_begin_anew_if_some_were_held(directory):
    checkpoint = directory / "state/checkpoint.safetensors"
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true}", size=2)) as daemon:
        daemon.ask("status")
        fed(daemon, [step(n + 1, [n % 7, n % 3]) for n in range(200)])
        assert daemon.end() == 0
        whole = checkpoint.read_bytes()
        for rows in (0, 1):
            for other in checkpoint.parent.iterdir():
                other.unlink()
            checkpoint.write_bytes(with_held(whole, rows))
            daemon.start()
            found, = fed(daemon, [step(201, [3, 1])])
            assert (found["anomaly"]["score"] is None) == bool(rows)
            assert daemon.end() == 0


def test_contexts_that_are_missing_or_too_many_are_refused(directory):
    checkpoint = directory / "state/checkpoint.safetensors"
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true}")) as daemon:
        daemon.ask("status")
        fed(daemon, [step(n + 1, [n % 7]) for n in range(200)])
        assert daemon.end() == 0
        whole = checkpoint.read_bytes()
        for more, expected in ((-1, "streams.contexts has too few rows"),
                               (1, "streams.contexts has too many rows"),
                               (0, "resumed after 200 examples")):
            for other in checkpoint.parent.glob("checkpoint*"):
                other.unlink()
            checkpoint.write_bytes(with_contexts(whole, more))
            daemon.start()
            if more:
                assert daemon.process.wait(running.LIMIT) == 74, more
            else:
                daemon.ask("status")
                assert daemon.end() == 0
            assert expected in daemon.text(), (more, daemon.text())


def bundled(directory, output, steps, size):
    """Surprises of the steps x (2,), with `size` steps in an example, and the state at the end."""
    directory.mkdir()
    given = "target: given" in output
    model = f"""
model:
  input: {{kind: real, size: 2, missing: hold}}
  layers: [{{cell: rnn, size: 4}}]
  output: {{size: 2, {output}}}
learning: {{window: 4, stride: 4, clip: 1}}"""
    rows = []
    for n in range(0, len(steps), size):
        x = b"".join(struct.pack("<2f", *one) for one in steps[n:n + size])
        header = struct.pack("<BBHIQd", 1, 0, 0, 0, len(rows) + 1, 0)
        rows.append([b"s", x, x if given else b"", header])
    config = configuration(directory, "anomaly: {enabled: true, surprise: true}", model=model)
    with Daemon(directory, config) as daemon:
        daemon.ask("status")
        surprises = [m["anomaly"]["surprise"] for m in fed(daemon, rows)]
        assert daemon.end() == 0
    return surprises, entry(directory, "streams.anomaly")


def test_surprise_is_measured_for_each_step(directory):
    """The division of steps into examples and plans does not change the result. The surprise of an
    example is the largest of its steps. With several horizons only the nearest counts."""
    outputs = ["target: next, loss: squared", "target: next, loss: squared, ahead: [1, 3]",
               "target: next, loss: gaussian", "target: next, loss: gaussian, ahead: [1, 5]",
               "target: given, loss: squared"]
    draw, begins = random.Random(1), []
    steps = [[math.nan if draw.random() < 0.2 else draw.gauss(0, 1) for _ in range(2)]
             for _ in range(700)]
    for number, output in enumerate(outputs):
        single, state = bundled(directory / f"{number}", output, steps, 1)
        for size in (7, len(steps)):
            found, kept = bundled(directory / f"{number}-{size}", output, steps, size)
            assert kept == state, (output, size)
            for n, surprise in enumerate(found):
                known = [s for s in single[n * size:(n + 1) * size] if s is not None]
                assert surprise == max(known, default=None), (output, size, n)
        begins.append(next(n for n, s in enumerate(single) if s is not None))
    assert begins[0] == begins[1] and begins[2] == begins[3], begins


def test_each_spike_of_many_is_an_alarm_of_surprise(directory):
    """With the preset, the alarm names the example of the spike itself, and there are few other
    alarms."""
    draw = random.Random(1)
    spikes = [1000 + 100 * n + draw.randrange(25) for n in range(20)]
    steps = [step(n + 1, [20 + draw.gauss(0, 0.15) + 40 * (n in spikes)]) for n in range(3000)]
    model = "preset: forecast\nmodel: {input: {size: 1}}"
    events = []
    with Daemon(directory, configuration(directory, "", model=model)) as daemon:
        daemon.ask("status")
        with running.subscribe(daemon, (b"event",)) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
            for frames in steps:
                feeder.send_multipart(frames)
            wait_learned(daemon, len(steps))
            daemon.ask("checkpoint")  # its event follows all learned examples
            while not events or events[-1]["kind"] != "checkpoint" or events[-1]["examples"] < len(steps):
                topic, body = daemon.next_message(subscriber)
                events += [json.loads(body)] if topic == b"event" else []
        assert daemon.end() == 0
    alarms = [one for one in events if one["kind"] == "anomaly" and one["example"] > spikes[0]]
    found = [one["example"] - 1 for one in alarms if one["reason"] == "surprise"]
    assert len(set(found) & set(spikes)) >= 18, found
    assert sum(one["example"] - 1 not in spikes for one in alarms) <= 2, alarms
    assert all(one["threshold"] == 7 and one["columns"][0]["truth"] > 50 for one in alarms
               if one["reason"] == "surprise"), alarms


def thresholds(directory):
    """The thresholds in the newest checkpoint: in effect, and configured."""
    return struct.unpack("<2d", entry(directory, "learner.thresholds"))


def reread(daemon, config, threshold):
    daemon.path.write_text(config, encoding="utf-8")
    daemon.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + running.LIMIT
    while f"anomaly.threshold is {threshold}" not in daemon.text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_threshold_can_be_set(directory):
    """A threshold that is set at run time survives a kill and a restart, until a reset or a
    configuration with another one. Without anomalies the command is rejected."""
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true}")) as daemon:
        daemon.ask("set", key="anomaly.threshold", value=2.5)
        fed(daemon, [step(1, [0.0])])
        kill(daemon, 1)
        assert daemon.request("set", key="anomaly.threshold", value=-1)[0]["ok"] is False
        assert daemon.end() == 0
    assert thresholds(directory) == (2.5, 1.5)
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true}")) as daemon:
        daemon.ask("status")
        fed(daemon, [step(2, [0.0])])
        assert daemon.end() == 0
        assert thresholds(directory) == (2.5, 1.5)
        daemon.start()
        daemon.ask("reset")
        assert daemon.end() == 0
    assert thresholds(directory) == (1.5, 1.5)
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true, threshold: 3}")) \
            as daemon:
        daemon.ask("status")
        reread(daemon, configuration(directory, "anomaly: {enabled: true, threshold: 4}"), 4)
        kill(daemon, 0)
        assert daemon.end() == 0
    assert thresholds(directory) == (4, 4)
    with Daemon(directory, configuration(directory, "")) as daemon:
        reply = daemon.request("set", key="anomaly.threshold", value=2.5)[0]
        assert not reply["ok"] and "anomaly.enabled: true" in reply["error"], reply
        assert daemon.end() == 0


def test_a_threshold_of_the_file_counts_after_a_kill(directory):
    """A changed threshold in the file replaces one that was set at run time, also if it changed
    while anomalies were disabled. A replay uses the threshold of that time."""
    def with_threshold(place, threshold):
        more = f"anomaly: {{enabled: true, memory: 400, threshold: {threshold}}}"
        return configuration(place, more).replace("examples: 300,", "examples: 1000000,")
    with Daemon(directory, with_threshold(directory, 1.5)) as daemon:
        daemon.ask("set", key="anomaly.threshold", value=2.5)
        daemon.process.send_signal(signal.SIGKILL)
        daemon.process.wait()
        daemon.path.write_text(with_threshold(directory, 3), encoding="utf-8")
        daemon.start()
        daemon.ask("status")
        assert "anomaly.threshold is 3" in daemon.text()
        assert daemon.end() == 0
    assert thresholds(directory) == (3, 3)
    steps = [step(n + 1, [x], minute) for n, (x, minute, _, _) in enumerate(stored("walk")[1])]
    state = {}
    for killed in (False, True):
        place = directory / f"killed-{killed}"
        place.mkdir()
        with Daemon(place, with_threshold(place, 1)) as daemon:
            daemon.ask("status")
            fed(daemon, steps)
            assert daemon.ask("status")["anomaly"]["alarms"] > 1
            reread(daemon, with_threshold(place, 4), 4)
            if killed:
                kill(daemon, len(steps))
            assert daemon.end() == 0
        assert thresholds(place) == (4, 4)
        state[killed] = entry(place, "streams.anomaly")
    assert state[False] == state[True]


def test_alarms_are_events(directory):
    """Each alarm of the specification is one event, with truth and forecast. A replay of the
    journal does not repeat events."""
    memory, rows = stored("walk")
    expected = [n + 1 for n, row in enumerate(rows) if row[3]]
    assert len(expected) == 2, expected
    config = configuration(directory, f"anomaly: {{enabled: true, memory: {memory}}}", every=100).replace(
        "seconds: 0}}", "seconds: 0}, journal: {}}").replace("examples: 300,", "examples: 1000000,")
    steps = [step(n + 1, [x], minute) for n, (x, minute, _, _) in enumerate(rows)]
    with Daemon(directory, config) as daemon:
        subscriber = daemon.socket(zmq.SUB, "statistics")
        subscriber.setsockopt(zmq.RCVHWM, 0)
        for topic in (b"prediction", b"event"):  # `started` confirms both subscriptions
            subscriber.setsockopt(zmq.SUBSCRIBE, topic)
        while daemon.next_message(subscriber)[0] != b"event":
            continue
        with daemon.socket(zmq.PUSH, "examples") as feeder:
            for frames in steps:
                feeder.send_multipart(frames)
            found, published = [], {}
            while not published or max(published) < len(rows):
                topic, body = daemon.next_message(subscriber)
                message = json.loads(body)
                if topic == b"prediction":
                    published[message["example"]] = message
                elif message["kind"] == "anomaly":
                    found.append(message)
        assert [one["example"] for one in found] == expected, (found, expected)
        for one in found:
            n = one["example"]
            x, minute, score, _ = rows[n - 1]
            assert one["kind"] == "anomaly" and one["stream"] == "s" and one["reason"] == "novelty", one
            assert one["examples"] == n and one["data_time"] == BEGIN + 60 * minute + 59, one
            assert one["score"] == published[n]["anomaly"]["score"] and abs(one["score"] - score) < NEAR, one
            assert one["threshold"] == 1.5, one
            column, = one["columns"]
            assert column["column"] == 0 and column["score"] == one["score"] and column["truth"] == published[n][
                "scored"]["target"][0], (one, published[n])
            assert math.isclose(column["forecast"], published[n]["scored"]["prediction"][0], rel_tol=1e-5,
                                abs_tol=1e-4), (one, published[n])
            assert "stream 's' is abnormal: novelty " in one["text"], one
        assert daemon.ask("status")["anomaly"]["alarms"] == len(expected)
        shown = subprocess.run([BUILD / "runnel-ctl", "-c", daemon.endpoint("control"), "status"], check=True,
                               capture_output=True, text=True).stdout
        assert re.search(rf"^  anomalies +{len(expected)} alarms? in this run$", shown, re.MULTILINE), shown
        kill(daemon, len(rows))  # the journal contains all of it
        assert daemon.ask("status")["anomaly"]["alarms"] == 0
        assert daemon.end() == 0


DO_NOT_LEARN = 2
PATTERN = (3.0, -2.0, 2.5, -1.5, 2.0, 0.5)
# two occurrences of the pattern, less than 150 steps apart, and the time of the mark
FIRST, AGAIN, TOLD = 585, 705, 640


def with_pattern(again=AGAIN, count=800, ignored=range(0)):
    """A daily wave with deterministic noise and the same pattern twice. Some examples are not
    learned."""
    rows, state = [], 12345
    for n in range(count):
        state = (1103515245 * state + 12345) % 2**31
        x = math.sin(2 * math.pi * n / 24) + 0.2 * (state / 2**31 - 0.5)
        for begin in (FIRST, again):
            if 0 <= n - begin < len(PATTERN):
                x = math.sin(2 * math.pi * (n - begin) / 24) + PATTERN[n - begin]
        rows.append(step(n + 1, [x], 7 * n, flags=DO_NOT_LEARN if n in ignored else 0))
    return rows


def play_pattern(directory, stops, marks):
    return play_marked(directory, stops, marks, with_pattern())


def test_an_alarm_is_marked_as_normal(directory):
    """The repeated pattern causes no alarm after the mark, and an alarm without it. Kills and
    replays, from journal or checkpoint, before and after the mark, do not change a bit."""
    silent, _ = play_pattern(directory / "silent", [], {})
    alarmed = FIRST + next(n for n, score in enumerate(silent[FIRST:]) if score >= 1.5)
    time_of = BEGIN + 60 * 7 * alarmed + 59
    assert alarmed < FIRST + len(PATTERN) and max(silent[171:FIRST]) < 1.5, alarmed
    assert max(silent[AGAIN:AGAIN + 30]) >= 1.7, silent[AGAIN:AGAIN + 30]
    normal, answers = play_pattern(directory / "normal", [TOLD], {TOLD: {}})
    assert answers[0]["stream"] == "s" and answers[0]["data_time"] == time_of, answers
    assert answers[0]["score"] == silent[alarmed], (answers, silent[alarmed])
    assert normal[:TOLD] == silent[:TOLD] and max(normal[AGAIN:AGAIN + 30]) < 1.5, normal[AGAIN:AGAIN + 30]
    # Between two checkpoints of 300 examples; and by the rounded time that people see.
    for name, stops in ("before", [595, 630, TOLD]), ("after", [TOLD, 645, 720]), ("early", [601, TOLD, 750]):
        torn, answers = play_pattern(directory / name, stops, {TOLD: {"at": time_of + 0.4}})
        assert torn == normal and answers[0]["data_time"] == time_of, (name, answers)


def test_normal_wants_an_alarm(directory):
    config = configuration(directory, "anomaly: {enabled: true, memory: 400}", every=100)
    with Daemon(directory, config) as daemon:
        daemon.ask("status")
        for request, why in [({}, "normal: expected a stream"), ({"stream": "s", "at": "noon"}, "normal: expected a stream"),
                             ({"stream": "s", "reason": "stuck"}, "its reason, novelty or level"),
                             ({"stream": "t"}, "stream 't' not found in memory; runnel-watch -t anomaly")]:
            reply, = daemon.request("normal", **request)
            assert not reply["ok"] and why in reply["error"], reply
        fed(daemon, with_pattern()[:FIRST])
        reply, = daemon.request("normal", stream="s")
        assert not reply["ok"] and "stream 's' has no alarm of novelty or level; runnel-watch" in reply["error"], reply
        fed(daemon, with_pattern()[FIRST:TOLD])
        reply, = daemon.request("normal", stream="s", at=BEGIN)
        assert not reply["ok"] and "among its last 8; the newest is at @" in reply["error"], reply
        assert daemon.ask("normal", stream="s")["ok"] and daemon.ask("normal", stream="s")["ok"]
        assert daemon.end() == 0
    other = directory / "other"
    other.mkdir()
    with Daemon(other, configuration(other, "")) as daemon:
        reply, = daemon.request("normal", stream="s")
        assert not reply["ok"] and "anomaly.enabled: true" in reply["error"], reply
        assert daemon.end() == 0


def test_unlearned_examples_stay_novel(directory):
    """An example with `do not learn` has a score even if nothing was learned yet. Its repetition is
    just as novel. Kills do not change a bit."""
    again, count, ignored = FIRST + 240, FIRST + 260, range(FIRST, FIRST + 70)
    config = "anomaly: {enabled: true, memory: 400}"
    found = {}
    for name, rows, kills in [("learned", with_pattern(again, count), ()),
                              ("ignored", with_pattern(again, count, ignored), ()),
                              ("torn", with_pattern(again, count, ignored), (FIRST + 3, FIRST + 60, FIRST + 160)),
                              ("nothing", with_pattern(again, 250, range(250)), ())]:
        place = directory / name
        place.mkdir()
        published, _ = played(place, configuration(place, config), rows, kills)
        found[name] = [m["anomaly"] for m in published]
    scores = {name: [one["score"] for one in published] for name, published in found.items()}
    assert found["ignored"] == found["torn"]
    # Scores depend on learned examples: the first is as novel in both runs, the second only in one.
    assert scores["ignored"][:FIRST + 1] == scores["learned"][:FIRST + 1]
    assert found["ignored"][FIRST:again] != found["learned"][FIRST:again]
    for begin in FIRST, again:
        assert max(scores["ignored"][begin:begin + len(PATTERN)]) > 1.5, scores["ignored"][begin:begin + 20]
    assert max(scores["learned"][again:again + len(PATTERN)]) < 1, scores["learned"][again:again + 20]
    assert all(one["score"] is None and one["surprise"] is None for one in found["nothing"])


SYMBOLS = """
model:
  input: {kind: symbol, size: 8}
  layers: [{cell: rnn, size: 8}]
  output: {loss: softmax, size: 8, target: next}
learning: {window: 4, stride: 4, clip: 1, optimizer: {kind: adam, rate: 0.01}}"""
STRANGE = range(1500, 1560)


def letters():
    """Letters 0 to 7 in turn, often without one; random between 1500 and 1560."""
    draw, value, found = random.Random(1), 0, []
    for n in range(2000):
        value = (value + 1 + (draw.random() < 0.1)) % 8
        found.append(draw.randrange(8) if n in STRANGE else value)
    return found


def symbols(found, steps):
    """Examples of this number of steps."""
    for n in range(0, len(found), steps):
        header = struct.pack("<BBHIQd", 1, 0, 0, 0, n // steps + 1, BEGIN + n)
        part = found[n:n + steps]
        yield [b"s", struct.pack(f"<{len(part)}i", *part), b"", header]


def test_symbols_score_by_their_newest_losses(directory):
    """A sequence of improbable symbols is an alarm, single ones are not. Kills, and examples of
    several steps, do not change a bit."""
    mode = "anomaly: {enabled: true}"
    plain, torn, many = (directory / name for name in ("plain", "torn", "many"))
    for place in (plain, torn, many):
        place.mkdir()
    rows = list(symbols(letters(), 1))
    once, _ = played(plain, configuration(plain, mode, model=SYMBOLS), rows)
    again, _ = played(torn, configuration(torn, mode, model=SYMBOLS), rows, kills=(140, 450, 1510))
    assert [m["anomaly"] for m in once] == [m["anomaly"] for m in again]
    scores = [m["anomaly"]["score"] for m in once]
    assert [s is None for s in scores] == [True] * (KNOWS + 1) + [False] * (len(rows) - KNOWS - 1)
    assert max(scores[KNOWS + 1:STRANGE.start]) < 1.5 < max(scores[s] for s in STRANGE)
    assert all(m["anomaly"]["columns"] == [] for m in once)
    with Daemon(many, configuration(many, mode, model=SYMBOLS)) as daemon:
        subscriber = daemon.socket(zmq.SUB, "statistics")
        for topic in (b"prediction", b"event"):
            subscriber.setsockopt(zmq.SUBSCRIBE, topic)
        # `started` confirms both subscriptions
        while daemon.next_message(subscriber)[0] != b"event":
            continue
        with daemon.socket(zmq.PUSH, "examples") as feeder:
            for frames in symbols(letters(), 10):
                feeder.send_multipart(frames)
            found, published = [], []
            while len(published) < len(rows) // 10:
                topic, body = daemon.next_message(subscriber)
                message = json.loads(body)
                if topic == b"prediction":
                    published.append(message["anomaly"]["score"])
                elif message["kind"] == "anomaly":
                    found.append(message)
        reply, = daemon.request("normal", stream="s")
        assert not reply["ok"] and "alarms of symbols cannot be marked" in reply["error"], reply
        assert daemon.end() == 0
    known = [[s for s in scores[n:n + 10] if s is not None] for n in range(0, len(scores), 10)]
    assert published == [max(part, default=None) for part in known]
    alarm, = found
    assert alarm["reason"] == "novelty" and alarm["columns"] == [], alarm
    assert STRANGE.start // 10 < alarm["example"] <= STRANGE.stop // 10 + 1, alarm
    assert alarm["score"] >= alarm["threshold"] == 1.5, alarm


def test_a_note_goes_with_the_alarm_of_its_example(directory):
    """Only this alarm has the note; learning does not depend on it."""
    def noted(n, frames):
        if n % 2:
            text = json.dumps({"stream": "s", "x": letters()[n], "note": f"line {n} \x1b[1m"})
            return [text.encode()]
        key, x, y, header = frames
        return [key, x, y, header[:1] + b"\x40" + header[2:], f"line {n} \x1b[1m".encode()]
    rows = list(symbols(letters(), 1))
    sent = {"with": [noted(n, frames) for n, frames in enumerate(rows)], "without": rows,
            "few": [noted(n, frames) if n < 10 else frames for n, frames in enumerate(rows)]}
    alarms, exported = {}, {}
    for name, messages in sent.items():
        place = directory / name
        place.mkdir()
        config = configuration(place, "anomaly: {enabled: true, surprise: true, surprise_threshold: 2}", model=SYMBOLS)
        events = []
        with Daemon(place, config) as daemon:
            daemon.ask("status")
            with running.subscribe(daemon, (b"event",)) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                for frames in messages:
                    feeder.send_multipart(frames)
                wait_learned(daemon, len(rows))
                exported[name] = daemon.export()
                daemon.end()
                while not events or events[-1]["kind"] != "stopping":
                    topic, body = daemon.next_message(subscriber)
                    events += [json.loads(body)] if topic == b"event" else []
        alarms[name] = [one for one in events if one["kind"] == "anomaly"]
        assert {one["reason"] for one in alarms[name]} == {"novelty", "surprise"}, alarms[name]
        assert {one["example"] % 2 for one in alarms[name]} == {0, 1}, alarms[name]
    for one in alarms["with"]:
        assert one["note"] == f"line {one['example'] - 1} \x1b[1m", one
    assert not any("note" in one for name in ("without", "few") for one in alarms[name])
    assert exported["with"] == exported["without"] == exported["few"]


def test_an_odd_line_of_a_log_is_named(directory):
    """conf/logs.yaml and runnel-feed lines, as documented: the alarm contains the line and its
    template."""
    lines = []
    for n in range(300):
        for text in ("configure p{}:all {}.1 <none>", "status unpacked p{}:all {}.1",
                     "status half-configured p{}:all {}.1", "status installed p{}:all {}.1"):
            lines.append(f"2026-01-01 {n // 60:02}:{n % 60:02}:00 {text.format(n, n)}\n")
    lines.insert(1001, "2026-01-01 04:10:00 disk full: \x1b[1m nothing was written to /var\n")
    log, config = directory / "dpkg.log", (TOP / "conf/logs.yaml").read_text(encoding="utf-8")
    log.write_text("".join(lines), encoding="utf-8")
    ends = [f"--set={name}.bind=ipc://{directory}/{name}" for name in ("examples", "statistics", "control")]
    events = []
    with Daemon(directory, config, *ends, f"--set=state.directory={directory}/state") as daemon:
        daemon.ask("status")
        with running.subscribe(daemon, (b"event",)) as subscriber:
            subprocess.run([BUILD / "runnel-feed", "lines", "--quiet", "--connect", daemon.endpoint("examples"), log],
                           check=True)
            wait_learned(daemon, len(lines))
            daemon.end()
            while not events or events[-1]["kind"] != "stopping":
                topic, body = daemon.next_message(subscriber)
                events += [json.loads(body)] if topic == b"event" else []
    found = [one for one in events if one["kind"] == "anomaly" and one["example"] == 1002]
    note = ("2026-01-01 04:10:00 disk full:  [1m nothing was written to /var "
            "(template 2: disk full: [<N>m nothing was written to /var)")
    assert "surprise" in [one["reason"] for one in found] and all(one["note"] == note for one in found), events


def test_symbols_of_several_horizons_score_by_the_nearest(directory):
    model = SYMBOLS.replace("target: next", "target: next, ahead: [1, 3]")
    rows = list(symbols(letters(), 1))
    found, _ = played(directory, configuration(directory, "anomaly: {enabled: true}", model=model), rows,
                      kills=(450,))
    scores = [m["anomaly"]["score"] for m in found]
    assert [s is None for s in scores] == [True] * (KNOWS + 1) + [False] * (len(rows) - KNOWS - 1)
    assert max(scores[KNOWS + 1:STRANGE.start]) < 1.5 < max(scores[s] for s in STRANGE)


def test_many_that_stop_at_once_are_counted(directory):
    """Each is an alarm, but only some have their own events."""
    streams, rounds, number, events = 60, 105, 0, []
    config = configuration(directory, "anomaly: {enabled: true, memory: 20}").replace(
        "predictions: true", "predictions: false")
    with Daemon(directory, config) as daemon:
        daemon.ask("status")
        with running.subscribe(daemon, (b"event",)) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
            for minute in range(rounds + 7):
                for stream in range(streams if minute < rounds else 1):
                    number += 1
                    feeder.send_multipart(step(number, [math.sin(minute)], minute, b"s%d" % stream))
            wait_learned(daemon, number)
            while sum(one.get("count", 1) for one in events) < streams - 1:
                message = json.loads(daemon.next_message(subscriber)[1])
                if message.get("kind") == "anomaly":
                    events.append(message)
        assert daemon.ask("status")["anomaly"]["alarms"] == streams - 1
        assert daemon.end() == 0
    assert {one["reason"] for one in events} == {"silent"} and len(events) < streams // 2, len(events)
    last = events[-1]
    assert last["count"] > 1 and last["columns"] == [] and last["score"] is None, last
    assert last["data_time"] > BEGIN and last["example"] > rounds * streams, last
    assert last["text"].startswith(f"{last['count']} more alarms: silent, the last one of stream 's"), last


SHARES = "anomaly: {enabled: true, memory: 100, share: [w, web-]}"


def fleet(counts, begin=0):
    """Steps of streams of the same shape with separate levels and scales; `counts`: {key:
    number}."""
    draw = random.Random(begin + 1)
    for n in range(max(counts.values())):
        for place, (key, count) in enumerate(counts.items()):
            x = math.sin((begin + n) / 7) + draw.random() / 5
            if n < count:
                yield step(begin + n + 1, [100 * place + 3 ** place * x], n % 1440, key.encode())


def few(directory, mode):
    return configuration(directory, mode).replace("stride: 4, ", "stride: 4, max_streams: 4, ")


def first_scores(messages):
    """The number of the first value with a score, by stream."""
    seen, found = {}, {}
    for message in messages:
        key = message["stream"]
        seen[key] = seen.get(key, 0) + 1
        if message["anomaly"]["score"] is not None:
            found.setdefault(key, seen[key])
    return found


def test_streams_share_what_they_remember(directory):
    """Streams with the longest common prefix share a memory, also if streams are forgotten because
    `max_streams` is reached. Kills do not change a bit."""
    rows = [*fleet({"web-1": 300, "web-2": 300, "w-1": 50, "db-1": 180}),
            *fleet({"web-3": 60, "w-2": 180, "x": 180}, 300)]
    whole, torn = directory / "whole", directory / "torn"
    for place in (whole, torn):
        place.mkdir()
    once, _ = played(whole, few(whole, SHARES), rows)
    again, _ = played(torn, few(torn, SHARES), rows, kills=(330, 650, 840, 1100))
    assert [m["anomaly"] for m in once] == [m["anomaly"] for m in again]
    assert first_scores(once) == {"web-1": 172, "web-2": 172, "db-1": 172, "web-3": 42, "w-2": 172, "x": 172}, first_scores(once)
    # With another configuration the memory starts from scratch, and has its former size.
    for mode, known in ("anomaly: {enabled: true, memory: 100, share: w}", False), ("", None), (SHARES, False), \
                       (SHARES, True), ("anomaly: {enabled: true, memory: 100}", False):
        with Daemon(whole, few(whole, mode)) as daemon:
            assert daemon.ask("status")["examples"] >= len(rows), mode
            published = fed(daemon, [*fleet({"web-3": 180}, 600)])
            assert daemon.end() == 0
        if known is None:
            assert all("anomaly" not in m for m in published), mode
        else:
            first = first_scores(published)
            assert first == ({"web-3": 1} if known else {"web-3": 172}), (mode, first)


def test_shared_memories_stay_until_a_reset(directory):
    with Daemon(directory, configuration(directory, SHARES)) as daemon:
        daemon.ask("status")
        fed(daemon, [*fleet({"web-1": 300, "web-2": 300})])
        for key in ("web-1", "web-2"):
            assert daemon.ask("forget", stream=key)["ok"]
        assert first_scores(fed(daemon, [*fleet({"web-3": 60}, 300)])) == {"web-3": 42}
        kill(daemon, 660)
        assert first_scores(fed(daemon, [*fleet({"web-4": 60}, 360)])) == {"web-4": 42}
        assert daemon.ask("reset")["ok"]
        assert first_scores(fed(daemon, [*fleet({"web-5": 180}, 600)])) == {"web-5": 172}
        assert daemon.end() == 0


def test_too_large_a_memory_is_refused(directory):
    with Daemon(directory, configuration(directory, "anomaly: {enabled: true, memory: 900000000}")) \
            as daemon:
        assert daemon.process.wait(running.LIMIT) == 78
        assert "anomaly.memory: 900000000 contexts for 1 column of 1024 streams need " in daemon.text()
        assert "lower anomaly.memory or learning.max_streams" in daemon.text()


def test_the_preset_alone_refuses_nothing(directory):
    """An older configuration whose memories are too large starts without anomalies, with one
    warning."""
    preset = "preset: forecast\nmodel: {input: {size: 1}, layers: [{cell: gru, size: 8}]}"
    with Daemon(directory, configuration(directory, "anomaly: {memory: 900000000}", model=preset)) as daemon:
        published = fed(daemon, [step(n + 1, [n % 7]) for n in range(20)])
        assert all("anomaly" not in message for message in published), published[-1]
        assert daemon.text().count("preset: forecast: anomaly detection is off: anomaly.memory: 900000000") == 1
        assert "more than half of the " in daemon.text()
        assert "lower anomaly.memory or learning.max_streams, or set anomaly.enabled: false" in daemon.text()
        assert daemon.end() == 0
    other = directory / "other"
    other.mkdir()
    wanted = configuration(other, "anomaly: {memory: 900000000, enabled: true}", model=preset)
    with Daemon(other, wanted) as daemon:
        assert daemon.process.wait(running.LIMIT) == 78


cases.run(globals())
