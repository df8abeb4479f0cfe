#!/usr/bin/python3
"""After a rollback the daemon equals, bit for bit, one that never received the removed examples, even with
kills at any time. No example is sent again."""
import json
import random
import signal
import time

import cases
import recovery
import zmq
from recovery import EXAMPLE, Entry, feed, fresh, message, read_journal, start, undisturbed

np = recovery.np

ATTEMPTS = 14  # that kills it
FEW = dict(checkpoint=0, journal="{keep: all}")


def good(stream, count, first=0):
    """Messages of a stream with constant content."""
    r = random.Random(stream)
    made = [recovery.make_example(r) for _ in range(first + count)]
    return [message(stream.encode(), x, n, flags) for n, (x, flags) in enumerate(made)][first:]


def poison(stream, count, first=0):
    """Values that are valid as float64 and too large for a daemon of float32."""
    r = random.Random(1)
    return [message(stream.encode(),
                    np.array([r.choice((-1e18, 3e17)) for _ in range(recovery.INPUTS)],
                             "<f4").tobytes(), first + n) for n in range(count)]


def entries_of(messages):
    return [Entry(EXAMPLE, key, 0, n, header[1], x, None)
            for n, (key, x, _, header) in enumerate(messages)]


def same(daemon, messages, **options):
    """The parameters equal those of a daemon that received only these messages."""
    assert daemon.ask("status")["examples"] == len(messages)
    assert daemon.export() == undisturbed(entries_of(messages), **options)[1]


def restarted(daemon, number=signal.SIGKILL):
    daemon.end(number)
    daemon.log.close()
    daemon.start()
    daemon.ask("status")


def poisoned(daemon):
    """120 good examples with 50 bad ones among them, and 80 more: the good ones, and the span."""
    first, rest = good("sensor", 120), good("sensor", 80, 120)
    feed(daemon, first)
    daemon.ask("checkpoint")
    span = feed(daemon, poison("mad", 50))
    feed(daemon, rest[:40])
    daemon.ask("checkpoint")
    feed(daemon, rest[40:])
    return first + rest, span


def test_poison_without_its_span():
    with fresh() as directory, start(directory, **FEW) as daemon:
        messages, span = poisoned(daemon)
        before = daemon.export()
        reply = daemon.ask("rollback", spans=[[span[0], span[-1]]])
        assert reply["left_out"] == 50 and reply["first"] == span[0], reply
        assert reply["restored"] == 120 and reply["replayed"] == 80, reply
        assert daemon.export() != before
        same(daemon, messages)
        # The daemon continues, and the rollback remains after a kill.
        more = good("sensor", 30, 200)
        feed(daemon, more[:10])
        restarted(daemon)
        feed(daemon, more[10:])
        restarted(daemon, signal.SIGTERM)
        same(daemon, messages + more)
        # The removed examples remain known as duplicates.
        feed(daemon, poison("mad", 50), recovery.DUPLICATE)
        assert len(read_journal(directory)) == 281
        assert daemon.end() == 0


def refused(daemon, **request):
    """Returns the error; nothing has changed."""
    before, status = daemon.export(), daemon.ask("status")
    reply = daemon.request("rollback", **request)[0]
    assert not reply["ok"], reply
    assert daemon.export() == before
    after = daemon.ask("status")
    for key in ("examples", "updates", "checkpoint"):
        assert after[key] == status[key], (status, after)
    return reply["error"]


def test_back_to_a_position():
    """Later commands are removed, too; the configured values are valid again."""
    with fresh() as directory, start(directory, **FEW) as daemon:
        first, rest = good("sensor", 100), good("sensor", 20, 100)
        feed(daemon, first)
        daemon.ask("set", key="learning.optimizer.rate", value=0.5)
        daemon.ask("checkpoint")
        feed(daemon, poison("mad", 20))
        reply = daemon.ask("rollback", to=100)
        assert (reply["left_out"], reply["commands_left_out"]) == (20, 1), reply
        assert daemon.ask("status")["rate"] == 0.01
        feed(daemon, rest)
        restarted(daemon)
        same(daemon, first + rest)
        assert daemon.ask("status")["rate"] == 0.01


def test_back_to_nothing():
    with fresh() as directory, start(directory, **FEW) as daemon:
        messages, _ = poisoned(daemon)
        untouched = undisturbed([])[1]
        daemon.ask("rollback", to=0)
        assert daemon.ask("status")["examples"] == 0 and daemon.export() == untouched
        feed(daemon, good("other", 30))
        same(daemon, good("other", 30))
        assert len(messages) == 200 and daemon.end() == 0


def test_without_a_stream_and_since_a_time():
    with fresh() as directory, start(directory, **FEW) as daemon:
        feed(daemon, good("sensor", 60))
        feed(daemon, good("changed", 60))  # it was valid once
        daemon.ask("checkpoint")
        time.sleep(0.01)
        since = time.time()
        time.sleep(0.01)
        feed(daemon, good("sensor", 10, 60))
        feed(daemon, poison("changed", 30, 60))
        feed(daemon, good("sensor", 10, 70))
        daemon.ask("checkpoint")
        reply = daemon.ask("rollback", to_time=since, without=["changed", "never"])
        assert (reply["left_out"], reply["after"], reply["first"]) == (30, 120, 131), reply
        messages = good("sensor", 60) + good("changed", 60) + good("sensor", 20, 60)
        same(daemon, messages)
        reply = daemon.ask("rollback", without=["changed"])  # the whole journal
        assert (reply["left_out"], reply["restored"]) == (60, 0), reply
        same(daemon, good("sensor", 80))
        feed(daemon, good("changed", 5, 90))  # later examples are learned
        restarted(daemon)
        same(daemon, good("sensor", 80) + good("changed", 5, 90))


def test_one_rollback_after_another():
    """A rollback to an earlier position keeps the effect of previous ones."""
    with fresh() as directory, start(directory, **FEW) as daemon:
        feed(daemon, good("a", 40))
        early = feed(daemon, poison("mad", 5))
        feed(daemon, good("b", 40))
        daemon.ask("rollback", spans=[[early[0], early[-1]]])
        feed(daemon, good("c", 40))
        late = feed(daemon, poison("mad", 5, 5))
        feed(daemon, good("d", 40))
        daemon.ask("rollback", spans=[[late[0], late[-1]]])
        same(daemon, good("a", 40) + good("b", 40) + good("c", 40) + good("d", 40))
        reply = daemon.ask("rollback", without=["a"])
        assert reply["left_out"] == 40 and reply["restored"] == 0, reply
        same(daemon, good("b", 40) + good("c", 40) + good("d", 40))
        restarted(daemon)
        same(daemon, good("b", 40) + good("c", 40) + good("d", 40))


def test_no_further_than_the_checkpoints():
    options = dict(checkpoint="0, keep: 3", journal="{}")  # after the oldest of three
    with fresh() as directory, start(directory, **options) as daemon:
        for n in range(5):
            feed(daemon, good("sensor", 40, 40 * n))
            daemon.ask("checkpoint")
        feed(daemon, poison("mad", 10))
        text = refused(daemon, to=100)
        assert "before entry 120" in text and "state.checkpoint.keep" in text, text
        for request, words in (({"to": 210}, "journal ends with entry 210"), ({}, "expected a position or time"),
                               ({"to": 1, "to_time": 1.0}, "expected either"),
                               ({"to": -1}, "expected either"), ({"to": "x"}, "expected either"),
                               ({"without": ["nobody"]}, "nothing to leave out"),
                               ({"without": [7]}, "texts"), ({"without": "mad"}, "lists"),
                               ({"spans": [[5, 3]]}, "first <= last"),
                               ({"spans": [[500, 600]]}, "entry 500 not found"),
                               ({"spans": [[100, 130]]}, "before entry 120"),
                               ({"to_time": 4e9}, "nothing to leave out")):
            text = refused(daemon, **request)
            assert words in text, (request, text)
        asked = daemon.ask("rollback", to=130, dry_run=True)
        assert (asked["restored"], asked["first"], asked["position"]) == (120, 131, 0), asked
        assert daemon.ask("status")["examples"] == 210
        daemon.ask("rollback", to=130)
        same(daemon, good("sensor", 130))
        restarted(daemon)
        same(daemon, good("sensor", 130))
        kept = sorted(path.name for path in (directory / "state").glob("checkpoint*"))
        assert len(kept) <= 3, kept


def test_without_a_journal():
    options = dict(socket="pull", journal="{enabled: false}")
    with fresh() as directory, start(directory, **options) as daemon:
        assert "journal" in refused(daemon, to=0)


def test_event():
    with fresh() as directory, start(directory, **FEW) as daemon, \
            daemon.socket(zmq.SUB, "statistics") as events:
        events.subscribe(b"event")
        daemon.next_message(events)  # `started` confirms the subscription
        feed(daemon, good("sensor", 20))
        daemon.ask("rollback", to=15)
        while (event := json.loads(daemon.next_message(events)[1]))["kind"] != "rollback":
            pass
        assert event["left_out"] == 5 and event["first"] == 16 and event["examples"] == 15, event
        assert "5 examples" in event["text"] and event["text"] in daemon.text(), event


def test_killed_again_and_again():
    """After a kill during a rollback or the following start, the rollback is either complete or has no
    effect."""
    r = random.Random(5)
    blocks, poisons, count = [], [], 7
    with fresh() as directory, start(directory, checkpoint=700, journal="{keep: all}") as daemon:
        for n in range(count):
            blocks.append(good(f"sensor-{n}", 400))
            feed(daemon, blocks[-1])
            span = feed(daemon, poison("mad", 10, 10 * n))
            poisons.append((span[0], span[-1], poison("mad", 10, 10 * n)))
        left, taken = list(range(count)), 0.0
        for attempt in range(ATTEMPTS):
            if not left:
                break
            n = r.choice(left) if attempt else 0  # the first goes back the furthest
            old, begun = daemon.export(), time.monotonic()
            with daemon.socket(zmq.REQ, "control") as socket:
                socket.send_json({"command": "rollback", "spans": [poisons[n][:2]]})
                if attempt == 0:
                    daemon.next_message(socket)
                    taken = time.monotonic() - begun
                else:
                    time.sleep(r.uniform(0, 1.5 * taken))
            daemon.end(signal.SIGKILL)
            for _ in range(r.choice((0, 1, 2))):  # during its start
                daemon.log.close()
                daemon.start()
                time.sleep(r.uniform(0, 2 * taken))
                daemon.end(r.choice((signal.SIGKILL, signal.SIGTERM)))
            daemon.log.close()
            daemon.start()
            if daemon.export() == old:
                continue
            left.remove(n)
            same(daemon, sum(((blocks[k] + (poisons[k][2] if k in left else []))
                              for k in range(count)), []))
        if left:
            daemon.ask("rollback", spans=[poisons[n][:2] for n in left])
        same(daemon, sum(blocks, []))


if __name__ == "__main__":
    cases.run(globals())
