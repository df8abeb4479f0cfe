#!/usr/bin/env python3
"""preset: symbols through a daemon: the cases of the specification, plans, kills, checkpoints, and
what is published."""
import json
import math
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import zlib

import cases
import running
import zmq
from running import Daemon, kill_and_start, messages, subscribe, wait_learned

SPECIFICATION = pathlib.Path(os.environ.get("srcdir", "."), "..", "shared", "symbols", "cases")
MOST = 1e-4
NETWORK = "layers: [{cell: lstm, size: 8}], "
TWO = "members: [{name: a}, {name: b, set: {model.layers.0.size: 5, learning.window: 4, seed: 7}}]"


def configuration(directory, size, others="members: []", layers="", memory=1 << 16, streams=8,
                  predictions="false"):
    return f"""
name: symbols
preset: symbols
device: cpu
memory: {memory}
model: {{{layers}input: {{{size}}}}}
learning: {{max_streams: {streams}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: {predictions}, top: 5}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 70, seconds: 0}}}}
{others}
"""


def send(daemon, events, count=None):
    """Events are (stream, x, learn); x may have several steps."""
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for stream, x, learn in events:
            socket.send(json.dumps({"stream": f"s{stream}", "x": x, "learn": bool(learn)}).encode())
        return wait_learned(daemon, count or len(events))


def text(count, seed=1, streams=2, size=256):
    """Streams of symbols that repeat themselves."""
    rng = random.Random(seed)
    line = [rng.randrange(size) for _ in range(40)]
    return [(n % streams, line[n * 7 // 10 % 40] if rng.random() < 0.9 else rng.randrange(size),
             rng.random() < 0.95) for n in range(count)]


def published(directory, config, events, topic=b"loss"):
    """One message of the topic for each event, from a daemon of its own."""
    with Daemon(directory, config) as daemon:
        subscriber = subscribe(daemon, [topic])
        send(daemon, events)
        found = messages(daemon, subscriber, topic, len(events))
        assert daemon.end() == 0
    shutil.rmtree(directory / "state")
    return found


# ---- The specification ----

def play(directory, name, others="members: []"):
    case = json.loads((SPECIFICATION / f"{name}.json").read_text(encoding="utf-8"))
    keys, own = case["keys"], case.get("tables") == "own"
    size = (f"vocabulary: {{capacity: {case['capacity']}}}" if "capacity" in case
            else f"size: {keys.get('symbols', 256)}")
    memory = (1 << keys["memory"]) * (8 if own else 1)
    others += "\ntables: own" if own else ""
    found = published(directory, configuration(directory, size, others, memory=memory),
                      case["events"])
    worst = max(abs(a["loss"] - b) for a, b in zip(found, case["loss"], strict=True))
    assert worst < MOST, (name, worst)


def test_cases_of_the_specification(directory):
    if not SPECIFICATION.is_dir():
        cases.skip(f"{SPECIFICATION} not found")
    for name in ("classes", "log-own", "log-streams", "text", "words"):
        play(directory, name)


# ---- Bits ----

def in_pieces(events, size):
    """The same symbols of each stream as examples of several steps."""
    pieces, open_pieces = [], {}
    for stream, x, learn in events:
        piece = open_pieces.get(stream)
        if piece is None or piece[2] != learn or len(piece[1]) == size:
            piece = open_pieces[stream] = (stream, [], learn)
            pieces.append(piece)
        piece[1].append(x)
    return pieces


def state_after(directory, others, layers, events, kills=(), **options):
    """The numbers of the last checkpoint after the examples."""
    config = configuration(directory, "size: 256", others, layers, **options)
    with Daemon(directory, config) as daemon:
        learned = 0
        for end in (*kills, len(events)):
            send(daemon, events[learned:end], end)
            learned = end
            if end in kills:
                kill_and_start(daemon, learned)
        found = learned_state(daemon, directory)
    shutil.rmtree(directory / "state")
    return found


def tensors(path):
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    others = ("__metadata__", "checksum", "learner.counters")  # also of journal entries
    return {name: blob[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items() if name not in others}


def differences(a, b):
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def test_plans_and_kills_change_no_bit(directory):
    for others, layers in (("members: []", ""), ("members: []\ntables: own", ""), ("", NETWORK),
                           (TWO, NETWORK)):
        events = text(500, streams=5)  # three have room
        once = state_after(directory, others, layers, events, streams=3)
        assert any("symbols" in name for name in once)
        killed = state_after(directory, others, layers, events, kills=(150, 333), streams=3)
        assert not differences(once, killed), (others, differences(once, killed))
        # one example a plan: the daemon waits for each
        with Daemon(directory, configuration(directory, "size: 256", others, layers,
                                             streams=3)) as daemon:
            for n, event in enumerate(events):
                send(daemon, [event], n + 1)
            single = learned_state(daemon, directory)
        assert not differences(once, single), (others, differences(once, single))
        shutil.rmtree(directory / "state")


def test_long_examples_are_learned_as_short_ones(directory):
    """Only counters of examples differ: an example that spans plans, examples of seven steps, and
    one step each."""
    events = [(0, x, True) for _, x, _ in text(3000)]
    found = {size: state_after(directory, "members: []", "", in_pieces(events, size))
             for size in (1, 7, 3000)}
    for size in (7, 3000):
        differ = [name for name in differences(found[1], found[size]) if "symbols" in name]
        assert not differ, (size, differ)


# ---- Checkpoints ----

def checkpoint_of(directory):
    return max((directory / "state").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)


def learned_state(daemon, directory):
    daemon.ask("checkpoint")
    assert daemon.end() == 0
    return tensors(checkpoint_of(directory))


def test_another_memory_begins_the_experts_anew(directory):
    with Daemon(directory, configuration(directory, "size: 256", "", NETWORK)) as daemon:
        send(daemon, text(300))
        before = learned_state(daemon, directory)
    with Daemon(directory, configuration(directory, "size: 256", "", NETWORK,
                                         memory=1 << 17)) as daemon:
        assert daemon.ask("status")["examples"] == 300
        assert "memory has changed: experts start from scratch" in daemon.text()
        after = learned_state(daemon, directory)
    assert len(after["symbols.table"]) == 1 << 17 and not any(after["symbols.table"])
    changed = [name for name in differences(before, after) if not name.startswith("symbols.")]
    assert not changed, changed


def test_the_second_mixture_can_be_switched(directory):
    """With predictions: all the experts' own mixture begins; what was learned stays."""
    states = []
    for predictions in ("true", "all", "true"):
        with Daemon(directory, configuration(directory, "size: 256", "", NETWORK,
                                             predictions=predictions)) as daemon:
            subscriber = subscribe(daemon, [b"loss", b"prediction"])
            send(daemon, text(100, seed=len(states)), 100 * (len(states) + 1))
            loss = messages(daemon, subscriber, b"loss", 100)[-1]
            assert (loss["experts"]["experts"]["mean"] is not None) == (predictions == "all"), loss
            states.append(learned_state(daemon, directory))
    assert ["symbols.experts_last" in state for state in states] == [False, True, False]
    shutil.rmtree(directory / "state")
    config = configuration(directory, "size: 256", "", NETWORK, predictions="true")
    with Daemon(directory, config) as daemon:
        for n in range(3):
            send(daemon, text(100, seed=n), 100 * (n + 1))
        assert not differences(learned_state(daemon, directory), states[-1])


def test_a_damaged_checkpoint_is_refused(directory):
    with Daemon(directory, configuration(directory, "size: 256")) as daemon:
        send(daemon, text(100))
        daemon.ask("checkpoint")
        assert daemon.end() == 0
    for path in (directory / "state").glob("*.safetensors"):
        blob = bytearray(path.read_bytes())
        size = int.from_bytes(blob[:8], "little")
        at = 8 + size + json.loads(blob[8:8 + size])["symbols.weights"]["data_offsets"][0]
        blob[at:at + 4] = struct.pack("<f", float("nan"))
        blob[-8:] = zlib.crc32(blob[:-8]).to_bytes(8, "little")
        path.write_bytes(blob)
    with Daemon(directory, configuration(directory, "size: 256")) as daemon:
        assert daemon.process.wait(running.LIMIT) == os.EX_IOERR
        assert "is damaged: invalid numbers in symbols." in daemon.text(), daemon.text()


def test_a_table_larger_than_the_machine_is_refused(directory):
    with Daemon(directory, configuration(directory, "size: 256", memory=1 << 39)) as daemon:
        assert daemon.process.wait(running.LIMIT) == os.EX_CONFIG
        assert "memory: the experts need " in daemon.text(), daemon.text()


def test_rollback_returns_to_the_bits(directory):
    for others, layers in (("members: []", ""), (TWO, NETWORK)):
        config = configuration(directory, "size: 256", others, layers).replace(
            "seconds: 0}", "seconds: 0, keep: 9}")
        with Daemon(directory, config) as daemon:
            send(daemon, text(200))
            before = learned_state(daemon, directory)
        with Daemon(directory, config) as daemon:
            send(daemon, text(150, seed=2), 350)
            daemon.ask("rollback", to=200)
            after = learned_state(daemon, directory)
        assert not differences(before, after)
        shutil.rmtree(directory / "state")


def test_an_example_that_is_not_learned_moves_only_its_stream(directory):
    events = text(200)
    quiet = [(0, x, False) for _, x, _ in text(50, seed=3)]
    for others, layers in (("members: []", ""), (TWO, NETWORK)):
        before = state_after(directory, others, layers, events)
        after = state_after(directory, others, layers, events + quiet)
        changed = [name for name in differences(before, after) if "symbols" in name]
        assert changed == ["streams.symbols", "streams.symbols_position"], changed


def test_a_stream_moves_with_its_table(directory):
    """tables: own: a stream that moves to another daemon continues with the same losses, also in a
    passage that it repeats."""
    own = "members: []\ntables: own\nexperts: [orders, repeat, position]"
    events = text(300, streams=1)
    for name in "ab":
        (directory / name).mkdir()
    a, b = (configuration(directory / name, "size: 256", own) for name in "ab")
    stayed = published(directory / "a", a, events)
    with Daemon(directory / "a", a) as first, Daemon(directory / "b", b) as second:
        send(first, events[:200])
        (directory / "s0").write_bytes(first.request("export", stream="s0")[1])
        adopt = [running.PROGRAM.with_name("runnel-ctl"), "-c", second.endpoint("control"), "adopt",
                 directory / "s0"]
        subprocess.run(adopt, check=True, timeout=running.LIMIT, stdout=subprocess.DEVNULL)
        subscriber = subscribe(second, [b"loss"])
        send(second, events[200:], 100)
        moved = messages(second, subscriber, b"loss", 100)
        assert first.end() == 0 and second.end() == 0
    assert [m["loss"] for m in moved] == [m["loss"] for m in stayed[200:]]


def state_of_moved(directory, others, memory):
    """The state of a stream that moves to a new daemon with this memory."""
    with Daemon(directory, configuration(directory, "size: 256", others)) as daemon:
        send(daemon, text(200, streams=1))
        state = directory / "s0"
        state.write_bytes(daemon.request("export", stream="s0")[1])
        assert any(learned_state(daemon, directory)["streams.symbols_position"])
    shutil.rmtree(directory / "state")
    with Daemon(directory, configuration(directory, "size: 256", others, memory=memory)) as daemon:
        adopt = [running.PROGRAM.with_name("runnel-ctl"), "-c", daemon.endpoint("control"), "adopt",
                 state]
        subprocess.run(adopt, check=True, timeout=running.LIMIT, stdout=subprocess.DEVNULL)
        return learned_state(daemon, directory)


def test_a_stream_moves_to_another_memory(directory):
    """tables: own: its experts start from scratch; the position in the stream is kept."""
    found = state_of_moved(directory, "members: []\ntables: own", 1 << 20)
    assert any(found["streams.symbols"]) and not any(found["streams.symbols_table"])


def test_a_stream_moves_without_positions_of_another_history(directory):
    """tables: shared: each daemon has its own history, so the passage is found again there."""
    found = state_of_moved(directory, "members: []", 1 << 16)
    assert any(found["streams.symbols"]) and not any(found["streams.symbols_position"])


# ---- What is published ----

def test_examples_that_are_whole_streams_have_a_baseline(directory):
    """The first symbol of a stream has the frequencies of a new one."""
    events = [(n, [1, 2, 3, 1], True) for n in range(4)]
    for others, layers in (("members: []", ""), ("", NETWORK)):
        for message in published(directory, configuration(directory, "size: 9", others, layers),
                                 events):
            assert abs(message["baseline"] - math.log(9 * 9 * 10 * 11) / 4) < 1e-9, message
            assert message["skill"] is not None


def messages_and_state(directory, others, events, size="size: 30", reset=0):
    """Both topics, with all predictions; the first member starts again after so many examples."""
    config = configuration(directory, size, others, NETWORK, predictions="all")
    found = {}
    with Daemon(directory, config) as daemon:
        subscriber = {topic: subscribe(daemon, [topic]) for topic in (b"loss", b"prediction")}
        if reset:
            send(daemon, events[:reset])
            daemon.ask("reset", member="a")
        send(daemon, events[reset:], len(events))
        for topic, socket in subscriber.items():
            found[topic] = messages(daemon, socket, topic, len(events))
        state = learned_state(daemon, directory)
    shutil.rmtree(directory / "state")
    return found[b"loss"], found[b"prediction"], state


def test_one_member_is_the_network(directory):
    """With a name it has the same bits."""
    for size, other in (("size: 30", "network"), ("vocabulary: {capacity: 9}", "logistic")):
        events = text(200, size=30)
        if size.startswith("vocabulary"):
            events = [(s, f"w{x}", learn) for s, x, learn in events]
        network = messages_and_state(directory, f"combine: {other}", events, size)
        other = other.replace("network", "a")
        member = messages_and_state(directory, f"members: [{{name: a}}]\ncombine: {other}", events,
                                    size)
        for a, b in zip(*(found[0] for found in (network, member)), strict=True):
            assert (a["loss"], a["recall"]) == (b["loss"], b["recall"]), (a, b)
            assert a["experts"]["network"] == {"mean": b["experts"]["a"]["mean"],
                                               "weight": b["experts"]["network"]["weight"]}
            assert b["experts"]["network"]["mean"] is None is b["experts"]["a"]["weight"]
        for a, b in zip(*(found[1] for found in (network, member)), strict=True):
            assert a["prediction"] == b["prediction"] and a["scored"] == b["scored"]
            assert a["experts"]["network"] == b["experts"]["a"]
        state = {name.replace("members.a.", ""): rows for name, rows in member[2].items()}
        assert not differences(network[2], state), differences(network[2], state)


def test_members_by_name(directory):
    """Each has its loss and its predictions, and `combine` can publish those of one. Resets of the
    first member leave the other ones learning."""
    events = text(300, size=30)
    mixed, guesses, state = messages_and_state(directory, TWO, events)
    for combine in "ab":
        found, published, _ = messages_and_state(directory, f"{TWO}\ncombine: {combine}", events)
        for one, same, guess in zip(found, mixed, published, strict=True):
            assert one["loss"] == one["experts"][combine]["mean"], one
            assert one["experts"] == same["experts"]
            assert guess["prediction"] == guess["experts"][combine]
    assert [list(one["experts"]) for one in guesses] == [["experts", "a", "b"]] * len(events)
    means = {name: sum(one["experts"][name]["mean"] for one in mixed) for name in ("a", "b", "mixture")}
    assert means["mixture"] < min(means["a"], means["b"]) and means["a"] != means["b"], means
    assert all(any(rows) for name, rows in state.items() if "members.b.output" in name)
    again, _, after = messages_and_state(directory, TWO, events, reset=150)
    assert after.keys() == state.keys()
    for n, (one, same) in enumerate(zip(again, mixed)):
        assert (one["experts"] == same["experts"]) == (n < 150), n
        for name in "ab":
            # each stream has one symbol without a prediction of the first member
            alone = one["experts"][name]["mean"] != one["experts"]["mixture"]["mean"]
            assert alone == (n not in (0, 1, 150, 151)), (n, name)
    assert again[152]["experts"]["b"] == mixed[152]["experts"]["b"]


def test_predictions_of_words(directory):
    events = [(s, f"w{x}", learn) for s, x, learn in text(600, size=12)]
    config = configuration(directory, "vocabulary: {capacity: 9}", "", NETWORK, predictions="all")
    with Daemon(directory, config) as daemon:
        subscriber = subscribe(daemon, [b"prediction"])
        send(daemon, events)
        found = messages(daemon, subscriber, b"prediction", len(events))
        assert daemon.end() == 0
    known, hits = set(), 0
    for n, message in enumerate(found):
        for guess in (message["prediction"], *message["experts"].values()):
            p = guess["probabilities"]
            assert p == sorted(p, reverse=True) and sum(p) < 1 + 1e-6
            assert len(guess["words"]) == len(p) <= 5
        known = known | {events[n][1]} if len(known) < 9 else known
        assert set(message["prediction"]["words"]) <= known | {None}, (n, message)
        later = [x for s, x, _ in events[n + 1:n + 3] if s == events[n][0]][:1]
        hits += message["prediction"]["words"][:1] == later
    assert hits > len(events) / 4, hits


def test_a_prediction_and_what_came(directory):
    """Each message has the symbol that came, what was predicted before it, and its loss."""
    for size, layers, steps in (("size: 256", "", 1), ("size: 256", NETWORK, 4),
                                ("vocabulary: {capacity: 9}", NETWORK, 1)):
        words = size.startswith("vocabulary")
        events = [(0, f"w{x % 8}" if words else x, True) for _, x, _ in text(200, size=100)]
        if steps > 1:
            events = in_pieces(events, steps)
        config = configuration(directory, size, "" if layers else "members: []", layers,
                               predictions="all")
        found = published(directory, config, events, b"prediction")
        before, known = None, set()
        for (_, x, _), message in zip(events, found, strict=True):
            came = message["scored"] if steps > 1 else [message["scored"]]
            after = message["prediction"] if steps > 1 else [message["prediction"]]
            symbols = x if steps > 1 else [x]
            for symbol, one, prediction in zip(symbols, came, after, strict=True):
                assert one["target"] == (symbol if not words or symbol in known else None), message
                assert before in (None, one["prediction"]), (before, message)
                assert abs(math.exp(-one["loss"]) - one["probability"]) < 1e-12, message
                before, known = prediction, known | {symbol}
            mean = sum(one["loss"] for one in came) / len(came)
            assert abs(mean - message["loss"]) < 1e-9, message


def test_people_see_no_network(directory):
    with Daemon(directory, configuration(directory, "size: 9")) as daemon:
        assert daemon.ask("status")["model"] == "symbol 9 > experts > softmax 9, next"
        for program, line in (("watch", "symbols is learning: no network on cpu, experts alone"),
                              ("top", "no network on cpu; symbol 9 > experts > softmax 9, next")):
            options = (["--once", "--wait=1"] if program == "top" else
                       ["-t", "status", "--count", "1"])
            shown = subprocess.run(
                [running.PROGRAM.with_name(f"runnel-{program}"), "-c",
                 daemon.endpoint("statistics"), *options], text=True, capture_output=True,
                timeout=running.LIMIT, check=True).stdout
            assert line in shown, shown
        assert daemon.end() == 0


def test_nothing_to_export(directory):
    with Daemon(directory, configuration(directory, "size: 9")) as daemon:
        done = subprocess.run(
            [running.PROGRAM.with_name("runnel-ctl"), "-c", daemon.endpoint("control"), "export",
             directory / "file"], text=True, capture_output=True, timeout=running.LIMIT)
        assert "no parameters: the configuration has no network" in done.stderr, done.stderr
        assert done.returncode and not (directory / "file").exists()
        assert daemon.end() == 0


def test_people_see_symbols(directory):
    """runnel-watch prints bytes as characters, other symbols as numbers."""
    for size, count, shown in ("size: 256", 256, {"'a'", "0x0A", "0xC3"}), (
            "size: 196", 196, {"97", "10", "195"}):
        config = configuration(directory, size, predictions="true")
        with Daemon(directory, config) as daemon:
            watch = subprocess.Popen(
                [running.PROGRAM.with_name("runnel-watch"), "-c", daemon.endpoint("statistics"),
                 "-t", "prediction", "--all", "--count", "12"], text=True, stdout=subprocess.PIPE)
            learned = 0
            while watch.poll() is None:
                learned += 3
                send(daemon, [(0, x, True) for x in (97, 10, 195)], learned)
            rows = [line.split() for line in watch.stdout if " s0 " in line]
            watch.stdout.close()
            assert daemon.end() == 0
        shutil.rmtree(directory / "state")
        assert {row[3] for row in rows} == shown, (count, rows)
        assert all(0 < float(row[6]) <= 1 for row in rows if row[0] != "next"), rows


def test_new_words_are_not_recalled(directory):
    """The unknown word may be predicted and come, but nobody could use it."""
    words = [word for n in range(120) for word in ("a", "b", f"new {n}")]
    last = published(directory, configuration(directory, "vocabulary: {capacity: 200}", predictions="true"),
                     [(0, word, True) for word in words])[-1]
    assert 0.55 < last["reciprocal_rank"] <= last["recall"] < 0.68, last
    assert last["metric"]["accuracy"] is not None


def test_recall_and_baselines(directory):
    events = text(600, streams=1, size=9)
    found = published(directory, configuration(directory, "size: 9", predictions="true"), events)
    last = found[-1]
    assert 0.7 < last["recall"] <= 1 and 0.4 < last["reciprocal_rank"] <= last["recall"]
    counts, total = {}, {}
    for n, (_, x, learn) in enumerate(events):
        before = events[n - 1][1] if n else None
        loss = math.log((total.get(before, 0) + 4.5) / (counts.get((before, x), 0) + 0.5))
        assert abs(found[n]["baseline_order1"] - loss) < 1e-9, n
        assert found[n]["baseline_best"] <= min(loss, found[n]["baseline"] or loss) + 1e-9
        counts[before, x] = counts.get((before, x), 0) + learn
        total[before] = total.get(before, 0) + learn
    assert last["experts"]["network"]["mean"] is None
    assert abs(last["experts"]["experts"]["mean"] - last["loss"]) < 1e-12
    assert abs(sum(one["weight"] or 0 for one in last["experts"].values()) - 1) < 1e-9
    later = found[300:]
    assert sum(m["loss"] for m in later) < sum(m["baseline"] for m in later)
    off = published(directory, configuration(directory, "size: 9"), events[:20])[-1]
    assert off["recall"] is None and off["metric"]["accuracy"] is None, off


def reloaded(daemon, subscriber, config):
    """The event of a reload."""
    daemon.path.write_text(config, encoding="utf-8")
    daemon.process.send_signal(signal.SIGHUP)
    while "restart" not in (event := messages(daemon, subscriber, b"event", 1)[0]):
        pass
    return event


def test_a_reload_switches_predictions(directory):
    config = configuration(directory, "size: 9")
    with Daemon(directory, config) as daemon:
        send(daemon, text(100, size=9))
        for n, predictions in enumerate(("true", "false")):
            config = config.replace("predictions: " + ("false", "true")[n], "predictions: " + predictions)
            subscriber = subscribe(daemon, [b"loss", b"event"])
            reloaded(daemon, subscriber, config)
            send(daemon, text(50, size=9, seed=n), 150 + 50 * n)
            loss = messages(daemon, subscriber, b"loss", 50)[-1]
            assert (loss["metric"]["accuracy"] is not None) == (predictions == "true"), loss
        event = reloaded(daemon, subscriber, config.replace("top: 5", "top: 2"))
        assert event["restart"] == {"statistics.top": "2"} and not event["changed"], event
        assert daemon.end() == 0


def test_a_full_table_is_announced_once(directory):
    config = configuration(directory, "size: 256", memory=1 << 14)
    with Daemon(directory, config) as daemon:
        subscriber, losses = subscribe(daemon, [b"event"]), subscribe(daemon, [b"loss"])
        table = send(daemon, text(800))["table"]
        assert table["memory"] == 1 << 14 and table["used"] > 0.9 and table["replaced"] > 2560
        assert messages(daemon, losses, b"loss", 800)[-1]["examples"] == 800
        assert daemon.end() == 0
        kinds = [message["kind"] for message in messages(daemon, subscriber, b"event", 3)]
        assert "the experts' table is too small" in daemon.text()
    assert kinds.count("table_full") == 1, kinds


def test_no_guesses_are_looked_for(directory):
    """statistics.top: 0, and examples of several steps."""
    pieces = in_pieces(text(60), 7)
    for top in (0, 2):
        config = configuration(directory, "size: 256", predictions="true").replace(
            "top: 5", f"top: {top}")
        with Daemon(directory, config) as daemon:
            subscriber = subscribe(daemon)
            send(daemon, pieces)
            found = messages(daemon, subscriber, b"prediction", len(pieces))
            assert daemon.end() == 0
        for message, (_, x, _) in zip(found, pieces, strict=True):
            steps = message["prediction"] if len(x) > 1 else [message["prediction"]]
            assert len(steps) == len(x), message
            counts = [len(step["symbols"]) for step in steps]
            assert max(counts) <= top, message  # fewer if all symbols are alike
        assert counts[-1] == top, message
        shutil.rmtree(directory / "state")


def test_the_network_is_as_without_the_preset(directory):
    """It learns the same bits, and its loss is among those of the experts."""
    events = text(300, size=30)
    with_experts = configuration(directory, "size: 30", "", NETWORK)
    alone = with_experts.replace("preset: symbols\n", "").replace(
        f"memory: {1 << 16}\n", "").replace("input: {", "input: {kind: symbol, ").replace(
        "layers:", "output: {loss: softmax, size: 30, target: next}, layers:").replace(
        "learning: {", "learning: {window: 16, stride: 16, clip: 1, optimizer: {rate: 0.002}, ")
    found = [published(directory, config, events) for config in (with_experts, alone)]
    for mixed, network in zip(*found):
        if network["loss"] is not None:  # the first of a stream has none
            assert abs(mixed["experts"]["network"]["mean"] - network["loss"]) < 1e-9
            assert abs(mixed["baseline"] - network["baseline"]) < 1e-9
    assert sum(m["loss"] for m in found[0]) < sum(m["loss"] or 0 for m in found[1])


if __name__ == "__main__":
    cases.run(globals())
