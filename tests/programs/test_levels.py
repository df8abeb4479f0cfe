#!/usr/bin/env python3
"""Level of several columns, shape, and rates of alarms (docs/explanation/anomalies.md). Kills do not change
a bit, `normal` teaches level, and `status` compares rates."""
import json
import math
import random

import cases
import running
import zmq
from anomalies import KNOWS, configuration, entry, fed, kill, play_marked, played, step
from running import Daemon, subscribe, wait_learned

EIGHT = 8


def together(count, odd=(), first=0):
    """Rows of eight columns which follow two of them. In rows of `odd`, column 5 does not."""
    r, rows = random.Random(9), []
    for n in range(count):
        a, b = math.sin(n / 9) + r.gauss(0, 0.3), r.gauss(0, 1)
        x = [a * (k + 1) + b * (EIGHT - k) + r.gauss(0, 0.1) for k in range(EIGHT)]
        x[5] += 8 * (n in odd)
        rows.append(x)
    return [step(n + 1, x, n) for n, x in enumerate(rows)][first:]


def alarms_of(daemon, steps, reason):
    """Feeds the steps; returns the predictions, and the alarms of the reason."""
    found, alarms = [], []
    with subscribe(daemon, (b"event", b"prediction")) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
        for frames in steps:
            feeder.send_multipart(frames)
        wait_learned(daemon, len(steps))
        daemon.ask("checkpoint")  # its event follows all learned examples
        while True:
            topic, body = daemon.next_message(subscriber)
            message = json.loads(body)
            if topic == b"event" and message["kind"] == "checkpoint" and message["examples"] == len(steps):
                return found, alarms
            found += [message] if topic == b"prediction" else []
            alarms += [message] if topic == b"event" and message.get("reason") == reason else []


def test_level_names_the_column_that_no_longer_fits(directory):
    steps, config = together(900, range(800, 860)), "anomaly: {enabled: true, memory: 100, threshold: 3}"
    with Daemon(directory, configuration(directory, config, size=EIGHT)) as daemon:
        daemon.ask("status")
        found, alarms = alarms_of(daemon, steps, "level")
        assert daemon.end() == 0
    assert [m["anomaly"]["level"] is None for m in found] == [n < KNOWS for n in range(900)]
    alarm, = alarms
    assert 801 <= alarm["example"] <= 810 and alarm["score"] >= alarm["threshold"] == 3, alarm
    assert alarm["columns"][0]["column"] == 5 and alarm["columns"][0]["share"] > 0.5, alarm
    assert all(1 / EIGHT <= one["share"] for one in alarm["columns"]), alarm
    assert "level" in alarm["text"] and "; x[5] is " in alarm["text"] and ", share 0." in alarm["text"], alarm
    published = found[alarm["example"] - 1]["anomaly"]
    assert published["level"] == alarm["score"]
    assert published["columns"][5]["share"] == alarm["columns"][0]["share"]
    assert min(m["anomaly"]["level"] for m in found[820:860]) > 1.5, "it lasts as long as the fault"


def test_level_goes_on_with_the_same_bits(directory):
    steps, found, config = together(700, range(500, 560)), {}, "anomaly: {enabled: true, memory: 100}"
    for name, kills in ("whole", ()), ("torn", (100, 290, 530)):
        place = directory / name
        place.mkdir()
        found[name], _ = played(place, configuration(place, config, size=EIGHT), steps, kills=kills)
    assert [m["anomaly"] for m in found["whole"]] == [m["anomaly"] for m in found["torn"]]


def test_level_can_be_off_and_begins_where_a_checkpoint_lacks_it(directory):
    steps = together(600)
    for more in ("", ", level: true"):
        config = configuration(directory, "anomaly: {enabled: true, memory: 100, level: false}", size=EIGHT)
        if more:
            config = config.replace(", level: false", more)
        with Daemon(directory, config) as daemon:
            begun = daemon.ask("status")["examples"]
            found = fed(daemon, steps[begun:begun + 300])
            assert daemon.end() == 0
        assert all(m["anomaly"]["score"] is not None for m in found[KNOWS:])
        assert ["level" in m["anomaly"] for m in found] == [bool(more)] * 300
        if more:
            assert found[0]["anomaly"]["score"] is not None and found[0]["anomaly"]["level"] is None
            assert found[-1]["anomaly"]["level"] is not None


def lower(scores, others, begin, end):
    return sum(scores[begin:end]) < 0.6 * sum(others[begin:end])


def test_normal_teaches_level(directory):
    """What was marked is usual at once and when it returns, also after kills and replays."""
    rows, marked = together(1000, [*range(600, 700), *range(900, 1000)]), 660
    play = {"rows": rows, "size": EIGHT, "score": "level", "more": ", threshold: 3"}
    silent, _ = play_marked(directory / "silent", [], {}, **play)
    normal, answers = play_marked(directory / "normal", [marked], {marked: {"reason": "level"}}, **play)
    assert answers[0]["reason"] == "level" and answers[0]["score"] in silent[600:610], answers
    assert normal[:marked] == silent[:marked]
    assert lower(normal, silent, marked, 700) and lower(normal, silent, 900, 1000), (normal, silent)
    for name, stops in ("before", [598, 640, marked]), ("after", [marked, 680, 950]), ("early", [615, marked]):
        torn, _ = play_marked(directory / name, stops, {marked: {"reason": "level"}}, **play)
        assert torn == normal, name
    # An alarm whose steps are still to come, by its time.
    early, _ = play_marked(directory / "time", [610, 620], {610: {"reason": "level", "at": answers[0]["data_time"]}},
                           **play)
    assert lower(early, silent, 610, 640), (early, silent)


def forms(count, odd=()):
    """A sine of one column; in rows of `odd` its values have another order."""
    r = random.Random(4)
    return [step(n + 1, [math.sin(2 * math.pi * n * (3 if n in odd else 1) / 40) + r.gauss(0, 0.05)], n)
            for n in range(count)]


SHAPE = "anomaly: {enabled: true, memory: 100, shape: true}"


def test_shape_adds_to_novelty_with_the_same_bits_after_kills(directory):
    steps, found, kept = forms(1000, range(900, 980)), {}, {}
    for name, config, kills in (("off", SHAPE.replace("true}", "false}"), ()), ("whole", SHAPE, ()),
                                ("torn", SHAPE, (100, 460, 930))):
        place = directory / name
        place.mkdir()
        messages, _ = played(place, configuration(place, config), steps, kills=kills)
        found[name] = [m["anomaly"] for m in messages]
        kept[name] = name == "off" or [entry(place, f"streams.shape{end}") for end in ("", "_contexts")]
    assert found["whole"] == found["torn"] and kept["whole"] == kept["torn"]
    assert len(kept["whole"][1]) == 3 * 104 * 32 * 4  # scales, contexts of full blocks, floats
    more = [with_shape["score"] - without["score"]
            for with_shape, without in zip(found["whole"][KNOWS:], found["off"][KNOWS:])]
    assert min(more) == 0 and max(more) == max(more[900 - KNOWS:]) > 0.5, (min(more), max(more))


def test_shape_can_be_off_and_begins_where_a_checkpoint_lacks_it(directory):
    steps = forms(1800)
    for more in "false", "0.5", "false":
        with Daemon(directory, configuration(directory, SHAPE.replace("shape: true", f"shape: {more}"))) as daemon:
            begun = daemon.ask("status")["examples"]
            found = fed(daemon, steps[begun:begun + 600])
            assert daemon.end() == 0
        assert all(m["anomaly"]["score"] is not None for m in found[0 if begun else KNOWS:])


RATE = "anomaly: {enabled: true, memory: 100, rate: 1 per 5 hours}"  # with one example a minute


def test_alarms_follow_a_rate(directory):
    """Of data without anomalies; `status` compares the numbers, and says the same after a kill."""
    r = random.Random(5)
    steps = [step(n + 1, [r.gauss(0, 1)], n) for n in range(5000)]
    with Daemon(directory, configuration(directory, RATE)) as daemon:
        daemon.ask("status")
        found, alarms = alarms_of(daemon, steps, "novelty")
        status = daemon.ask("status")["alarms"]
        kill(daemon, len(steps))
        assert daemon.ask("status")["alarms"] == status
        reply, = daemon.request("set", key="anomaly.threshold", value=2)
        assert not reply["ok"] and "cannot be combined with anomaly.rate" in reply["error"], reply
        assert daemon.end() == 0
    known = [m["anomaly"]["p"] for m in found if m["anomaly"]["p"] is not None]
    assert status["rate"] == "1 per 5 hours" and abs(status["nominal"] - len(known) / 300) < 0.1, status
    assert status["observed"] == len(alarms) and 5 <= len(alarms) <= 32, (status, len(alarms))
    assert len(known) > 4600 and 0.5 < sum(p >= 2 for p in known) / len(known) * 100 < 2
    for alarm in alarms:
        assert alarm["score"] == found[alarm["example"] - 1]["anomaly"]["p"] >= alarm["threshold"], alarm


def test_rates_go_on_with_the_same_bits(directory):
    steps, found, alarms = together(700, range(600, 640)), {}, {}
    for name, stops in ("whole", ()), ("torn", (100, 290, 530)):
        place = directory / name
        place.mkdir()
        config = configuration(place, RATE, size=EIGHT)
        found[name], _ = played(place, config, steps, kills=stops)
        alarms[name] = entry(place, "streams.rates"), entry(place, "learner.alarm_rates")
    assert [m["anomaly"] for m in found["whole"]] == [m["anomaly"] for m in found["torn"]]
    assert alarms["whole"] == alarms["torn"]
    assert max(m["anomaly"]["p"] or 0 for m in found["whole"][600:640]) > 2


def test_a_threshold_with_a_rate_is_refused(directory):
    for key in ("threshold: 2", "surprise: true, surprise_threshold: 5"):
        with Daemon(directory, configuration(directory, RATE.replace("}", f", {key}}}"))) as daemon:
            assert daemon.process.wait(running.LIMIT) == 78
            assert "anomaly.rate: cannot be combined with anomaly." in daemon.text(), daemon.text()
            assert "threshold; remove one of them" in daemon.text(), daemon.text()


cases.run(globals())
