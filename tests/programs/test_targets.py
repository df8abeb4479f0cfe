#!/usr/bin/env python3
"""Targets (docs/reference/targets.md): labels for earlier examples, through restarts and kills;
several horizons; targets relative to the last value, and scaled."""
import json
import signal
import struct
import subprocess
import tempfile
import time

import cases
import running
import zmq
from running import Daemon, wait_learned

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

END, DO_NOT_LEARN, RESULT, LABEL = 1, 2, 4, 8
ACCEPTED, REJECTED = 0, 2


def configuration(directory, output, socket="pull", inputs="kind: real, size: 2", stride=2,
                  predictions="false"):
    return f"""
name: targets
device: cpu
model: {{input: {{{inputs}}}, layers: [{{cell: gru, size: 6}}], output: {{{output}}}}}
learning: {{window: 4, stride: {stride}, clip: 1}}
examples: {{bind: "ipc://{directory}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: {predictions}}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 30, seconds: 0}},
        journal: {{keep: all}}}}
"""


COUNT = 1500
LATER = "loss: squared, size: 1, target: later, patience: 5, relative: true"


def header(number, flags=0):
    return struct.pack("<BBHIQd", 1, flags, 0, 0, number, 0)


def example(number, x, stream=b"s", flags=0):
    return [stream, np.asarray(x, "<f4").tobytes(), b"", header(number, flags)]


def label(number, of, y, stream=b"s", flags=0):
    return [stream, b"", np.asarray(y, "<f4").tobytes(), header(number, LABEL | flags),
            struct.pack("<IIQ", 0, 0, of)]


def stream(count, seed=1):
    """Examples with labels that arrive out of order, late, twice, or never."""
    rng, messages, waiting, number = np.random.default_rng(seed), [], [], 0
    for _ in range(count):
        number += 1
        x = rng.normal(size=2)
        waiting.append((number, x.sum()))
        messages.append(example(number, x))
        while waiting and rng.random() < 0.6:
            of, y = waiting[rng.integers(len(waiting))]
            if rng.random() < 0.8:
                waiting.remove((of, y))
            number += 1
            messages.append(label(number, of, y, flags=DO_NOT_LEARN if rng.random() < 0.1 else 0))
    return messages


def status(daemon):
    return daemon.ask("status")


def push(daemon, messages):
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        daemon.sent = getattr(daemon, "sent", 0) + len(messages)
        wait_learned(daemon, daemon.sent)


def test_labels_outlive_kills():
    """Kills do not change a bit."""
    messages, blobs = stream(60), []
    for kills in ((), (23, 70)):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, LATER)) as daemon:
            begin = 0
            for at in (*kills, len(messages)):
                push(daemon, messages[begin:at])
                begin = at
                if at < len(messages):
                    wait_durable(daemon)
                    daemon.end(signal.SIGKILL)
                    daemon.start()
            found = status(daemon)
            assert found["updates"] > 0 and found["examples"] == len(messages)
            blobs.append(daemon.export())
            daemon.end()
    assert blobs[0] == blobs[1]


def wait_durable(daemon):
    end = time.monotonic() + running.LIMIT
    while status(daemon)["journal"]["durable"] < daemon.sent:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_label_needs_no_number_of_its_own():
    """The journal contains the example of each label, even if the label's own number jumps and is
    ignored."""
    mine = 0xAA

    def headed(*number):
        return struct.pack("<BBHIQdQ", 2, *number, mine)

    messages = [[json.dumps({"stream": "s", "producer": "aa", "sequence": n, "x": [n, 1]}).encode()]
                for n in range(1, 7)]
    messages += [[json.dumps({"stream": "s", "producer": "aa", "label_of": n, "y": n}).encode()]
                 for n in range(2, 6)]
    messages.append([b"s", b"", np.float32(6).tobytes(), headed(LABEL, 0, 0, 1 << 40, 0),
                     struct.pack("<IIQ", 0, 0, 6)])
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, stride=1)) as daemon:
        push(daemon, messages)
        found, learned = status(daemon), daemon.export()
        assert found["updates"] == 5 and not found["rejected"], found
        wait_durable(daemon)
        daemon.end(signal.SIGKILL)
        daemon.start()
        assert status(daemon)["updates"] == 5 and daemon.export() == learned
        daemon.end()


def test_a_label_is_acknowledged_and_learned():
    """Over a router, with its loss. A label without effect is accepted, counted and reported."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, "router")) as daemon:
        events = daemon.socket(zmq.SUB, "statistics")
        for topic in (b"event", b"status"):
            events.setsockopt(zmq.SUBSCRIBE, topic)
        while daemon.next_message(events)[0] != b"status":  # sent to each new subscriber
            continue
        dealer = daemon.socket(zmq.DEALER, "examples")

        def answer(message):
            dealer.send_multipart(message)
            key, acknowledgement, *rest = daemon.next_message(dealer)
            assert key == b"s"
            return struct.unpack("<BBHIQQ", acknowledgement), rest

        for number in range(1, 4):
            assert answer(example(number, [0.5, number]))[0][1] == ACCEPTED
        taken, rest = answer(label(4, 2, [7.0], flags=RESULT))
        assert taken[1] == ACCEPTED and taken[4] == 4 and taken[5] == 4
        prediction, loss = rest
        assert prediction == b"" and np.frombuffer(loss, "<f4")[0] > 0
        for number, of in ((5, 2), (6, 9)):  # labelled already; never arrived
            taken, rest = answer(label(number, of, [7.0], flags=RESULT))
            assert taken[1] == ACCEPTED and rest == [b"", b""]
        refused, rest = answer([b"s", *example(7, [1, 2])[1:2], np.float32([1]).tobytes(), header(7)])
        assert refused[1] == REJECTED  # its y follows
        found = status(daemon)
        assert found["examples"] == 6 and found["rejected_by"]["label"] == 2
        assert found["rejected_by"]["y_given"] == 1
        text = ""
        while "(label)" not in text:
            text = json.loads(daemon.next_message(events)[1]).get("text", "")
        assert "already labelled" in text or "no open step of the example 9" in text, text
        daemon.end()


def test_a_journal_with_labels_is_replayed():
    """A daemon that gets the journal from runnel-replay learns the same."""
    messages = stream(40)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other, \
            Daemon(one, configuration(one, LATER)) as first, \
            Daemon(other, configuration(other, LATER)) as second:
        push(first, messages)
        wait_durable(first)
        program = running.PROGRAM.with_name("runnel-replay")
        subprocess.run([program, "--connect", second.endpoint("examples"), f"{one}/state"],
                       check=True, timeout=running.LIMIT)
        wait_learned(second, len(messages))
        assert second.export() == first.export()
        first.end()
        second.end()


def test_the_feeder_sends_labels():
    """Lines of JSON over a router: numbered, acknowledged, and learned."""
    lines = [{"stream": "a", "sequence": n, "x": [n, 1]} for n in range(1, 9)]
    lines += [{"stream": "a", "sequence": 5 + n, "label_of": n, "y": n / 8} for n in range(4, 9)]
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, "router")) as daemon:
        program = running.PROGRAM.with_name("runnel-feed")
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        subprocess.run([program, "json", "--connect", daemon.endpoint("examples"), "--socket",
                        "router"], input=text, check=True, timeout=running.LIMIT)
        wait_learned(daemon, len(lines))
        found = status(daemon)
        assert found["updates"] == 3 and found["rejected"] == 0, found  # of 3 and 4 on, two each
        daemon.end()


# Lines, and the number of them that have a step.
PAIRS = [
    # Lines of docs/reference/targets.md: examples with numbers.
    ([{"stream": "till-3", "sequence": 17, "x": [0.3, 12.5]},
      {"stream": "till-3", "label_of": 17, "y": 1}], 1),
    # Numbered by the feeder, two streams mixed.
    ([{"stream": "a", "x": [1, 2]}, {"stream": "b", "x": [3, 4]}, {"stream": "a", "x": [5, 6]},
      {"stream": "a", "label_of": 1, "y": 1}, {"stream": "b", "label_of": 0, "y": 1},
      {"stream": "a", "x": [7, 8]}, {"stream": "a", "label_of": 0, "y": 1},
      {"stream": "a", "label_of": 3, "y": 1}], 4),
    # With an epoch and a producer, which the label does not repeat.
    ([{"stream": "c", "producer": "77", "epoch": 9, "sequence": 3, "x": [1, 2]},
      {"stream": "c", "sequence": 4, "label_of": 3, "y": 1}], 1),
    # The label's own members are kept.
    ([{"stream": "d", "sequence": 3, "x": [1, 2]},
      {"stream": "d", "label_of": 3, "label_epoch": 1, "y": 1}], 0),
]


def test_a_label_names_the_example_that_was_sent():
    """Labels find their examples over a router, whether lines have numbers or not."""
    program, sent, taken, unknown = running.PROGRAM.with_name("runnel-feed"), 0, 0, 0
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, "router")) as daemon:
        for lines, known in PAIRS:
            subprocess.run([program, "json", "--connect", daemon.endpoint("examples"), "--socket",
                            "router"], input="".join(json.dumps(line) + "\n" for line in lines),
                           check=True, text=True, timeout=running.LIMIT)
            sent += len(lines)
            taken += known
            unknown += sum("label_of" in line for line in lines) - known
            wait_learned(daemon, sent)
            found = status(daemon)["labels"]
            assert found["taken"] == taken, (lines, found)
            assert found["refused"] == ({"unknown": unknown} if unknown else {}), (lines, found)
        daemon.end()


def test_a_label_without_an_example_is_not_sent():
    """The number of the example is unknown, or belongs to another example: an error explains it."""
    program = running.PROGRAM.with_name("runnel-feed")
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, "router")) as daemon:
        def feed(lines, *options):
            done = subprocess.run(
                [program, "json", "--connect", daemon.endpoint("examples"), "--socket", "router",
                 *options], input="".join(json.dumps(line) + "\n" for line in lines),
                check=False, text=True, capture_output=True, timeout=running.LIMIT)
            return done.returncode, done.stderr

        code, output = feed([{"stream": "a", "label_of": 1, "y": 1}])
        assert code == 65 and "has sent no example of its stream" in output, output
        code, output = feed([{"stream": "a", "label_of": 1, "y": 1},
                           {"stream": "a", "x": [1, 2]}], "--skip-bad")
        assert code == 0 and "1 bad line was skipped" in output, output
        code, output = feed([{"stream": "b", "sequence": 1, "x": [1, 2]},
                           {"stream": "b", "label_of": 1, "y": 1},
                           {"stream": "b", "sequence": 2, "x": [1, 2]}])
        assert code == 65 and '"sequence" 2 is already the number of a label' in output, output
        # Another call uses the numbers of the first.
        assert feed([{"stream": "c", "x": [1, 2]}], "--producer", "7")[0] == 0
        assert feed([{"stream": "c", "sequence": 1, "label_of": 0, "y": 1}], "--producer", "7")[0] == 0
        wait_learned(daemon, 5)
        assert status(daemon)["labels"]["taken"] == 2, status(daemon)["labels"]
        daemon.end()


def feed_labels(directory, rows, labels, *options):
    """The messages that runnel-feed prints for a table and its table of labels."""
    for name, text in ("rows", rows), ("labels", labels):
        with open(f"{directory}/{name}.csv", "w", encoding="utf-8") as file:
            file.write(text)
    return [running.PROGRAM.with_name("runnel-feed"), "csv", f"{directory}/rows.csv",
            "--label-file", f"{directory}/labels.csv", *options]


def test_the_feeder_reads_labels_of_rows():
    """A label is sent after its row, for each stream, and the daemon learns the same as from manual
    messages."""
    rows = "till,a,b\n" + "".join(f"{'xy'[n % 2]},{n},1\n" for n in range(1, 9))
    labels = "row,after,y\n2,4,0.2\n1,4,0.1\n8,30,0.8\n3,3,0.3\n"
    x, y = b"x", b"y"  # odd rows are y's, and numbers begin at 0
    messages = [
        example(0, [1, 1], y), example(0, [2, 1], x), example(1, [3, 1], y), label(2, 1, [0.3], y),
        example(1, [4, 1], x), label(2, 0, [0.2], x), label(3, 0, [0.1], y),
        example(4, [5, 1], y), example(3, [6, 1], x), example(5, [7, 1], y), example(4, [8, 1], x),
        label(5, 4, [0.8], x)]
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as other, \
            Daemon(directory, configuration(directory, LATER, "router")) as daemon, \
            Daemon(other, configuration(other, LATER)) as by_hand:
        subprocess.run(feed_labels(directory, rows, labels, "--stream-column", "till", "--socket",
                                   "router", "--connect", daemon.endpoint("examples")),
                       check=True, timeout=running.LIMIT)
        push(by_hand, messages)
        wait_learned(daemon, len(messages))
        found, expected = status(daemon)["labels"], status(by_hand)["labels"]
        assert found["taken"] == 4 and not found["refused"], found
        assert found["age"] == expected["age"] == {"0": 2, "1": 2}, (found, expected)
        assert daemon.export() == by_hand.export()
        daemon.end()
        by_hand.end()


def test_the_feeder_reads_labels_by_time():
    """A label is sent before the first later row, and has its own time."""
    rows = "t,a,b\n100,1,1\n160,2,1\n220,3,1\n"
    labels = "row,time,kind\n1,220,7\n2,190,8\n3,4000,\n"
    with tempfile.TemporaryDirectory() as directory:
        command = feed_labels(directory, rows, labels, "--time", "t", "--class", "kind", "--print")
        lines = subprocess.run(command, check=True, timeout=running.LIMIT, capture_output=True)
        found = [json.loads(line) for line in lines.stdout.splitlines()]
        order = [(line.get("label_of"), line.get("y"), line["time"]) for line in found]
        assert order == [(None, None, 100), (None, None, 160), (1, [8], 190), (None, None, 220),
                         (0, [7], 220), (3, [None], 4000)], order
        with Daemon(directory, configuration(
                directory, "loss: softmax, size: 9, target: later")) as daemon:
            subprocess.run([*command[:-1], "--connect", daemon.endpoint("examples")],
                           check=True, timeout=running.LIMIT)
            wait_learned(daemon, len(found))
            found = status(daemon)["labels"]
            assert found["delay"] == {"1min": 1, "10min": 1, "1d": 1}, found
            daemon.end()


def test_labels_of_a_table_that_cannot_be():
    """The error has file, line and reason; nothing of the table was sent before."""
    rows = "a,b\n1,1\n2,1\n"
    wrong = {
        "a,y\n1,1\n": "missing column 'row'",
        "row,y\n1,1\n": "missing column 'after'",
        "row,after\n1,1\n": "missing a column of targets",
        "row,after,y\n1,1\n": "labels.csv:2: expected 3 fields as in the first line, got 2",
        "row,after,y\n2,1,0\n": "labels.csv:2: row 2: the label is due before its row",
        "row,after,y\n0,1,0\n": "column 'row': expected a row number from 1, got '0'",
        "row,after,y\n1,1,q\n": "column 'y': expected a number, got 'q'",
        "row,after,y\n1,1,0\n7,9,0\n": "labels.csv:3: row 7: row not found",
        "row,time,y\n1,1,0\n": "the labels have times, but the rows have none; set --time",
    }
    with tempfile.TemporaryDirectory() as directory:
        for labels, sentence in wrong.items():
            done = subprocess.run(feed_labels(directory, rows, labels, "--print"),
                                  timeout=running.LIMIT, capture_output=True, text=True)
            assert done.returncode in (64, 65) and sentence in done.stderr, (labels, done)
        for option in ("--end",), ("--steps", "2"):
            done = subprocess.run(feed_labels(directory, rows, "row,after,y\n1,1,0\n", *option,
                                              "--print"),
                                  timeout=running.LIMIT, capture_output=True, text=True)
            assert done.returncode == 64 and "--label-file" in done.stderr, done


def test_labels_are_counted():
    """Labels are counted by age, by delay, and by reason if they have no effect, also after a
    restart."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, stride=1)) as daemon:
        def at(message, time_of):
            message[3] = message[3][:16] + struct.pack("<d", time_of)
            return message
        push(daemon, [at(example(n, [n, 1]), 1000 + n) for n in range(1, 5)])
        push(daemon, [at(label(5, 3, [1.0]), 1003.5), label(6, 3, [1.0]), label(7, 99, [1.0]),
                      label(8, 2, [1.0, 2.0])])
        found = status(daemon)["labels"]
        assert found == {"taken": 1, "age": {"1": 1}, "delay": {"1s": 1},
                         "refused": {"labelled": 1, "unknown": 1, "size": 1}}, found
        daemon.end()
        daemon.start()
        push(daemon, [at(label(9, 1, [1.0]), 1031)])
        found = status(daemon)["labels"]
        assert found == {"taken": 1, "age": {"2-3": 1}, "delay": {"1min": 1}, "refused": {}}, found
        daemon.end()


def test_a_label_of_an_unknown_stream_beside_anomalies():
    """The label is rejected without any effect: its stream gets no slot."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, stride=1) +
                   "anomaly: {enabled: true, memory: 40}\n") as daemon:
        push(daemon, [example(1, [1, 1]), label(2, 1, [1.0], stream=b"nobody"), example(3, [2, 1])])
        found = status(daemon)
        assert found["labels"]["refused"] == {"unknown": 1} and found["streams"] == 1, found
        daemon.end()


def test_patience_closes_what_is_not_labelled():
    """The oldest open step is closed: its late label has no effect, and the other steps stay
    open."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, stride=1)) as daemon:
        push(daemon, [example(n, [n, 1]) for n in range(1, 8)])
        assert status(daemon)["updates"] == 0
        push(daemon, [label(8, 1, [1.0])])  # more than five are open: closed
        assert status(daemon)["rejected_by"]["label"] == 1
        push(daemon, [label(9, 4, [1.0])])  # its turn follows that of 3
        assert status(daemon)["updates"] == 0
        push(daemon, [label(10, 3, [1.0])])
        assert status(daemon)["updates"] == 2
        daemon.end()


def test_json_labels():
    """Labels as JSON, with the steps of their example; invalid ones are rejected with a reason."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, LATER, stride=1)) as daemon:
        one = lambda **members: [json.dumps(members).encode()]
        push(daemon, [one(stream="a", sequence=17, x=[[1, 2], [3, 4]]),
                      one(stream="a", label_of=17, y=[1, 2])])
        assert status(daemon)["updates"] == 2
        with daemon.socket(zmq.PUSH, "examples") as socket:
            for wrong in (one(stream="a", label_of=17, x=[1, 2], y=1),
                          one(stream="a", label_epoch=1, x=[1, 2]), one(stream="a", label_of=1)):
                socket.send_multipart(wrong)
            end = time.monotonic() + running.LIMIT
            while status(daemon)["rejected"] < 3:
                assert time.monotonic() < end
        assert status(daemon)["examples"] == 2
        daemon.end()


def test_every_horizon_has_its_prediction():
    """ahead: [1, 3]: two predictions for each step, relative to the step's own x, also after a
    restart."""
    output = "loss: squared, size: 1, target: next, ahead: [1, 3], relative: true"
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, output, inputs="kind: real, size: 1",
                                            predictions="true")) as daemon:
        subscriber = daemon.socket(zmq.SUB, "statistics")
        for topic in (b"status", b"prediction"):
            subscriber.setsockopt(zmq.SUBSCRIBE, topic)
        while daemon.next_message(subscriber)[0] != b"status":  # sent to each new subscriber
            continue
        push(daemon, [[b"s", np.float32([n / 10]).tobytes()] for n in range(COUNT)])
        forecasts = []
        while len(forecasts) < COUNT:
            topic, body = daemon.next_message(subscriber)
            if topic == b"prediction":
                forecasts.append(json.loads(body)["prediction"])
        rises = np.asarray(forecasts)[-100:, :, 0] - np.arange(COUNT - 100, COUNT)[:, None] / 10
        assert abs(rises - [0.1, 0.3]).max() < 0.1, rises[-3:]  # x rises by 0.1 in each step
        before = daemon.export()
        daemon.end()
        daemon.start()
        assert daemon.export() == before
        daemon.end()


def test_given_targets_are_scaled():
    """With scale: standard, targets of another magnitude are learned, and predictions have their
    units."""
    output = "loss: squared, size: 1"
    inputs = "kind: real, size: 1, scale: standard"
    rng = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, output, inputs=inputs, stride=1)) as daemon:
        values = rng.normal(size=1500)
        push(daemon, [[b"s", np.float32([v]).tobytes(), np.float32([5e4 + 3e3 * v]).tobytes()]
                      for v in values])
        assert status(daemon)["metric"]["rmse"] < 1500, status(daemon)["metric"]
        blob = daemon.export()
        about = json.loads(blob[8:8 + int.from_bytes(blob[:8], "little")])["__metadata__"]
        assert 4.9e4 < json.loads(about["targets.mean"])[0] < 5.1e4, about
        daemon.end()


if __name__ == "__main__":
    cases.run(globals())
