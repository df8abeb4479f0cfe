#!/usr/bin/env python3
"""Incidents (docs/reference/protocol.md, event `incident`): begin and end, groups, silence, and
what a kill in the middle leaves of them."""
import json
import random
import struct
import subprocess
import zlib

import cases
import zmq
from anomalies import configuration, entry, kill, step
from running import PROGRAM, Daemon, messages, subscribe, wait_learned

ON = "anomaly: {enabled: true, threshold: 3.2, rest: 20%s}"
BEGIN, END = 700, 720  # rows of the fault; the alarm is at example BEGIN + 1


def noise(rows, size=4, seed=1):
    draw = random.Random(seed)
    return [[draw.gauss(0, 1) for _ in range(size)] for _ in range(rows)]


def faulty(rows=1000, end=END, begin=BEGIN, seed=1):
    found = noise(rows, seed=seed)
    for n in range(begin, end):
        found[n][2] += 12
    return found


def steps_of(rows, stream=b"s", timed=True):
    for n, x in enumerate(rows):
        frames = step(n + 1, x, n, stream)
        yield frames if timed else frames[:3]


def play(daemon, steps, learned):
    """Feeds the steps, and returns all events of kind incident and anomaly meanwhile."""
    found = []
    with subscribe(daemon, (b"event",)) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
        for frames in steps:
            feeder.send_multipart(frames)
        wait_learned(daemon, learned)
        daemon.ask("set", key="learning.clip", value=1)  # its event follows those of the examples
        while True:
            topic, body = daemon.next_message(subscriber)
            event = json.loads(body) if topic == b"event" else {"kind": ""}
            if event["kind"] == "set":
                return found
            if event["kind"] in ("incident", "anomaly"):
                found.append({key: value for key, value in event.items() if key not in ("run", "sequence", "time")})


def of_kind(events, kind="incident"):
    return [event for event in events if event["kind"] == kind]


def floats(values):
    return [struct.unpack("<f", struct.pack("<f", value))[0] for value in values]


def near(values, expected):
    return len(values) == len(expected) and all(abs(a - b) < 1e-6 for a, b in zip(values, expected, strict=True))


def at(example):
    return {"example": example, "data_time": struct.unpack("<BBHIQd", step(example, [0], example - 1)[3])[5]}


def test_an_incident_has_a_begin_and_an_end(directory):
    rows = faulty()
    steps = list(steps_of(rows))
    with Daemon(directory, configuration(directory, ON % "", size=4)) as daemon:
        daemon.ask("status")
        events = play(daemon, steps[:BEGIN + 5], BEGIN + 5)
        assert daemon.ask("status")["anomaly"]["open"] == 1
        events += play(daemon, steps[BEGIN + 5:], len(rows))
        status = daemon.ask("status")["anomaly"]
        assert status["open"] == 0 and status["alarms"] == len(of_kind(events, "anomaly"))
        assert daemon.end() == 0
    began, ended = of_kind(events)
    assert [event["kind"] for event in events[:2]] == ["incident", "anomaly"], events
    assert began["state"] == "began" and ended["state"] == "ended"
    assert began["examples"] == began["incident"] == ended["incident"] == BEGIN + 1, began
    for event in (began, ended):
        assert event["begin"] == at(BEGIN + 1) and event["silenced"] is False, event
        assert (event["stream"], event["streams"], event["group"]) == ("s", ["s"], None), event
        first = event["columns"][0]
        assert first["column"] == 2 and near(first["before"], floats(row[2] for row in rows[BEGIN - 8:BEGIN])), first
        assert all(column["share"] >= 0.25 for column in event["columns"]), event
    assert began["end"] is None and began["alarms"] == 1 and began["columns"][0]["after"] is None
    last = ended["end"]["example"]
    assert last >= END and ended["end"] == at(last) and ended["examples"] == last + 20, ended
    newest = floats(row[2] for row in rows[last + 12:last + 20])
    assert near(ended["columns"][0]["after"], newest), (ended, newest)
    peak = ended["peak"]
    assert BEGIN < peak["example"] <= last and peak["score"] >= began["peak"]["score"] > 3.2, ended
    assert peak["reason"] == "level" and {**at(peak["example"]), **peak} == peak, peak
    assert ended["alarms"] == len(of_kind(events, "anomaly")) >= 2
    assert not any("silenced" in event for event in of_kind(events, "anomaly"))


def test_with_a_rate_it_lasts_as_long_as_the_fault(directory):
    rows = faulty(end=END + 120)
    text = configuration(directory, "anomaly: {enabled: true, rate: 1 per 1000 examples, rest: 20}", size=4)
    with Daemon(directory, text) as daemon:
        daemon.ask("status")
        events = play(daemon, list(steps_of(rows)), len(rows))
        assert daemon.end() == 0
    spans = [(event["begin"]["example"], event["end"]["example"]) for event in of_kind(events)
             if event["state"] == "ended"]
    assert any(begin <= BEGIN + 5 and END + 120 <= end < END + 160 for begin, end in spans), spans


def test_a_kill_in_the_middle_changes_nothing(directory):
    rows = faulty()
    steps, found = list(steps_of(rows)), []
    for stops in ((), (BEGIN + 10, END + 5)):
        place = directory / str(len(stops))
        place.mkdir()
        events, begin = [], 0
        with Daemon(place, configuration(place, ON % "", size=4)) as daemon:
            daemon.ask("status")
            for stop in [*stops, len(rows)]:
                events += play(daemon, steps[begin:stop], stop)
                begin = stop
                if stop < len(rows):
                    kill(daemon, stop)
                    assert daemon.ask("status")["anomaly"]["open"] == 1
            assert daemon.end() == 0
        found.append((events, entry(place, "streams.incidents")))
    assert found[0] == found[1] and len(of_kind(found[0][0])) == 2, found


def test_streams_of_a_group_form_one_incident(directory):
    spans = {b"web-1": (BEGIN, BEGIN + 10), b"db-1": (BEGIN, BEGIN + 10), b"web-2": (BEGIN + 15, BEGIN + 60)}
    rows = {key: faulty(900, end, begin, seed) for seed, (key, (begin, end)) in enumerate(spans.items())}
    steps = [frames for several in zip(*(steps_of(its, key) for key, its in rows.items()), strict=True)
             for frames in several]
    with Daemon(directory, configuration(directory, ON % ", group: [web-]", size=4)) as daemon:
        daemon.ask("status")
        events = play(daemon, steps[:3 * BEGIN + 60], 3 * BEGIN + 60)
        assert daemon.ask("status")["anomaly"]["open"] == 2, of_kind(events)
        kill(daemon, 3 * BEGIN + 60)
        events += play(daemon, steps[3 * BEGIN + 60:], len(steps))
        assert daemon.end() == 0
    events = [one for one in events if one["examples"] > 3 * BEGIN]
    incidents = of_kind(events)
    by = {name: [one for one in incidents if one["stream"] == name] for name in ("web-1", "db-1", "web-2")}
    assert [len(found) for found in by.values()] == [2, 2, 0], incidents
    began, ended = by["web-1"]
    assert began["streams"] == ["web-1"] and ended["streams"] == ["web-1", "web-2"], ended
    assert began["group"] == ended["group"] == "web-" and by["db-1"][1]["group"] is None
    assert began["incident"] == ended["incident"] == ended["begin"]["example"] == 3 * BEGIN + 1
    last = ended["end"]["example"]
    assert last % 3 == 0 and last >= 3 * (BEGIN + 60) and ended["examples"] == last + 60, ended
    assert by["db-1"][1]["end"]["example"] < 3 * (BEGIN + 60)
    before = floats(row[2] for row in rows[b"web-1"][BEGIN - 8:BEGIN])
    assert near(ended["columns"][0]["before"], before), ended
    assert ended["alarms"] == sum(one["stream"].startswith("web-") for one in of_kind(events, "anomaly"))


def test_silence(directory):
    """Until its end in data time, also after a kill. What is abnormal then begins once more."""
    rows = faulty(1000, BEGIN + 60)
    steps = list(steps_of(rows))
    with Daemon(directory, configuration(directory, ON % "", size=4)) as daemon:
        daemon.ask("status")
        events = play(daemon, steps[:BEGIN - 10], BEGIN - 10)
        reply = daemon.ask("silence", stream="s", seconds=60 * 40)
        assert reply["until"] == at(BEGIN + 30)["data_time"] and reply["stream"] == "s", reply
        kill(daemon, BEGIN - 10)
        events += play(daemon, steps[BEGIN - 10:BEGIN + 20], BEGIN + 20)
        assert daemon.ask("status")["anomaly"]["open"] == 0
        kill(daemon, BEGIN + 20)
        events += play(daemon, steps[BEGIN + 20:], len(rows))
        assert daemon.end() == 0
    began, again, ended = of_kind(events)
    assert [one["incident"] for one in (began, again, ended)] == [BEGIN + 1] * 3, events
    assert [one["state"] for one in (began, again, ended)] == ["began", "began", "ended"], events
    assert [one["silenced"] for one in (began, again, ended)] == [True, False, False], events
    assert BEGIN + 31 <= again["examples"] <= BEGIN + 40, again
    alarms = of_kind(events, "anomaly")
    assert alarms and all(one.get("silenced", False) == (one["example"] <= BEGIN + 30) for one in alarms), alarms


def test_a_silence_can_be_ended_and_needs_no_data_times(directory):
    rows = faulty(1000, BEGIN + 60)
    steps = list(steps_of(rows, timed=False))
    with Daemon(directory, configuration(directory, ON % "", size=4)) as daemon:
        daemon.ask("status")
        events = play(daemon, steps[:BEGIN + 20], BEGIN + 20)
        assert daemon.ask("silence", stream="s", seconds=0)["until"] is None
        assert daemon.ask("status")["anomaly"]["open"] == 1
        daemon.ask("silence", stream="s", seconds=1e6)
        assert daemon.ask("status")["anomaly"]["open"] == 0
        kill(daemon, BEGIN + 20)
        assert daemon.ask("status")["anomaly"]["open"] == 0
        assert of_kind(play(daemon, steps[BEGIN + 20:BEGIN + 40], BEGIN + 40)) == []
        assert daemon.ask("silence", stream="s", seconds=0)["until"] is None
        again, ended = of_kind(play(daemon, steps[BEGIN + 40:], len(rows)))
        assert daemon.end() == 0
    began, = of_kind(events)
    assert began["silenced"] is again["silenced"] is ended["silenced"] is False
    assert began["begin"] == again["begin"] == ended["begin"] == {"example": BEGIN + 1, "data_time": None}
    assert again["state"] == "began" and ended["state"] == "ended" and ended["examples"] == ended["end"]["example"] + 20


def test_a_forgotten_stream_ends_its_incident(directory):
    """To make room, with the end of its sequence, or by command."""
    rows = faulty()
    more = "learning: {max_streams: 1, window: 4, stride: 4, clip: 1}"
    for how in "room", "sequence", "command":
        place = directory / how
        place.mkdir()
        config = configuration(place, ON % "", size=4).replace("learning: {window: 4, stride: 4, clip: 1}", more)
        with Daemon(place, config) as daemon:
            daemon.ask("status")
            events = play(daemon, steps_of(rows[:BEGIN + 4]), BEGIN + 4)
            events += play(daemon, [step(BEGIN + 5, rows[BEGIN + 4], BEGIN + 4, flags=how == "sequence")], BEGIN + 5)
            with subscribe(daemon, (b"event",)) as subscriber:
                if how == "command":
                    daemon.ask("forget", stream="s")
                    events += messages(daemon, subscriber, b"event", 1)
            if how == "room":
                events += play(daemon, [step(1, rows[0], BEGIN + 5, b"t")], BEGIN + 6)
            assert daemon.ask("status")["anomaly"]["open"] == 0
            assert daemon.end() == 0
        began, ended = of_kind(events)
        assert ended["state"] == "ended" and ended["stream"] == "s" and ended["end"] == at(BEGIN + 5), (how, ended)
        assert ended["incident"] == began["incident"] and ended["columns"][0]["column"] == 2, (how, ended)
        assert ended["examples"] == BEGIN + (6 if how == "room" else 5), (how, ended)  # the newest example


def test_two_incidents_in_one_example(directory):
    """Both begin and end, also in a group."""
    rows = faulty(1100, BEGIN + 4)
    for n in range(BEGIN + 200, BEGIN + 204):
        rows[n][2] += 12
    steps = list(steps_of(rows))
    long = step(BEGIN + 1, [value for x in rows[BEGIN:BEGIN + 300] for value in x], BEGIN)
    for group in ("", ', group: [""]'):
        place = directory / f"group{len(group)}"
        place.mkdir()
        with Daemon(place, configuration(place, ON % group, size=4)) as daemon:
            daemon.ask("status")
            events = play(daemon, steps[:BEGIN], BEGIN)
            events += play(daemon, [long], BEGIN + 1)
            assert daemon.ask("status")["anomaly"]["open"] == 0
            assert daemon.end() == 0
        events = [event for event in events if event["examples"] > BEGIN]
        assert [one["state"] for one in of_kind(events)] == ["began", "ended"] * 2, (group, events)
        assert all(one["incident"] == BEGIN + 1 and not one["silenced"] for one in of_kind(events)), (group, events)
        assert not any("silenced" in one for one in of_kind(events, "anomaly")), (group, events)


def test_an_incident_moves_with_its_stream(directory):
    """It goes on elsewhere: its next abnormal step is announced there. A damaged one is refused, and leaves nothing
    behind."""
    rows = faulty(900, BEGIN + 60)
    steps = list(steps_of(rows))
    with Daemon(directory, configuration(directory, ON % ', group: [""]', size=4)) as daemon:
        daemon.ask("status")
        play(daemon, steps[:BEGIN + 10], BEGIN + 10)
        blob = bytearray(daemon.request("export", stream="s")[1])
        daemon.ask("reset")
        path = directory / "s"
        ctl = [PROGRAM.with_name("runnel-ctl"), "-c", daemon.endpoint("control"), "adopt", str(path)]
        begin = blob.index(b"streams.incidents") + len("streams.incidents") + 8
        damaged = blob[:begin] + bytes(8) + blob[begin + 8:]  # open, but without a number
        struct.pack_into("<I", damaged, 12, zlib.crc32(damaged[16:]))
        path.write_bytes(damaged)
        assert "streams.incidents" in subprocess.run(ctl, check=False, capture_output=True, text=True).stderr
        assert of_kind(play(daemon, [step(1, rows[0], 0, b"t")], 1)) == []
        path.write_bytes(blob)
        subprocess.run(ctl, check=True, stdout=subprocess.DEVNULL)
        assert daemon.ask("status")["anomaly"]["open"] == 1
        began, ended = of_kind(play(daemon, steps[BEGIN + 10:], len(rows) - BEGIN - 9))
        assert daemon.end() == 0
    assert began["state"] == "began" and began["begin"] == ended["begin"] == at(BEGIN + 1), began
    assert began["incident"] == ended["incident"] == BEGIN + 1 and ended["state"] == "ended", ended


def test_refused(directory):
    with Daemon(directory, configuration(directory, ON % "")) as daemon:
        daemon.ask("status")
        for members, expected in [({"stream": "s", "seconds": 60}, "stream 's' not found in memory"),
                                  ({"stream": "s"}, "expected a stream of at most"),
                                  ({"seconds": 60}, "expected a stream of at most"),
                                  ({"stream": "s", "seconds": -1}, "0 to 1000000000 seconds"),
                                  ({"stream": "s", "seconds": 60, "time": "now"}, "expected a stream")]:
            reply = daemon.request("silence", **members)[0]
            assert reply["ok"] is False and expected in reply["error"], (members, reply)
        assert daemon.end() == 0


cases.run(globals())
