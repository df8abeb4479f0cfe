#!/usr/bin/python3
"""A daemon that reads a Kafka topic learns each message once, even if cluster and daemon stop.
Other messages become dead letters; errors are reported."""
import contextlib
import json
import random
import signal

import brokers
import cases
import consuming
import running

from brokers import journal, until
from consuming import consumer, wait_kept

brokers.need("kafka")
import kafka  # noqa: E402  pylint: disable=wrong-import-position

UNAVAILABLE, CONFIGURATION, NO_PERMISSION = 69, 78, 77
PRODUCE, FIND_COORDINATOR, NO_TOPIC, TOPIC_REFUSED, GROUP_REFUSED = 0, 10, 3, 29, 30  # numbers of Kafka's protocol


def daemon(directory, cluster, more="topic: s"):
    text = consuming.config(directory, f'{{kafka: {{brokers: "{cluster.servers}", {more}}}}}')
    return running.Daemon(directory, text)


@contextlib.contextmanager
def topic(parts=1, *messages):
    """A cluster with the topic s, and one for dead letters; messages are commands of kafka.Kafka."""
    with kafka.Kafka() as cluster:
        cluster.ask(f"topic s {parts}")
        cluster.ask("topic s.dead 1")
        for message in messages:
            cluster.ask(message)
        yield cluster


def test_kills(directory):
    """Daemon and cluster stop at random moments: each message is learned once, in the order of its
    partition, and the parameters are those of an undisturbed daemon."""
    chance = random.Random(5)
    part, turns = 400, 5
    with topic(2) as cluster, daemon(directory, cluster) as d:
        for turn in range(turns):
            cluster.ask(f"fill s {turn % 2} {turn * part} {(turn + 1) * part}")
            running.wait_learned(d, chance.randrange(turn * part, (turn + 1) * part))
            if turn == 2:
                cluster.ask("down")
                d.until(lambda: "no server answers" in d.text())
                cluster.ask("up")
                d.until(lambda: "available again after" in d.text())
            else:
                d.end(signal.SIGKILL)
                d.start()
        status = wait_kept(d, turns * part)
        places = {"s[0]": str(3 * part - 1), "s[1]": str(2 * part - 1)}
        until(lambda: consumer(d)["places"] == places)
        assert status["rejected"] == 0, status
        learned, blob = journal(directory), d.export()
    numbers = [x[0] for _, x in learned]
    for parity in range(2):
        mine = [n for n in range(turns * part) if n // part % 2 == parity]
        assert [n for n in numbers if n // part % 2 == parity] == mine
    assert blob == consuming.plain(directory / "plain", learned)


def test_stopped(directory):
    """The cluster is stopped (SIGSTOP) and answers no commit: the daemon still ends on request, and
    nothing is lost or learned twice."""
    with topic(1, "fill s 0 0 2000") as cluster, daemon(directory, cluster) as d:
        running.wait_learned(d, 10)
        cluster.process.send_signal(signal.SIGSTOP)
        try:
            assert d.end() == 0, d.text()
            d.start()
            d.until(lambda: "trying again until it answers" in d.text())
            assert d.end() == 0, d.text()
            d.start()
        finally:
            cluster.process.send_signal(signal.SIGCONT)
        cluster.ask("fill s 0 2000 2100")
        wait_kept(d, 2100)
    assert [x[0] for _, x in journal(directory)] == list(range(2100))


def test_dead_letters(directory):
    """Messages have the same forms as in runnel-feed; others are written to the topic of dead
    letters with their key."""
    with topic() as cluster:
        for key, value in [("a", "1 2"), ("b", "[3, 4]"), ("a", "nonsense"), ("b", "[3, 4, 5]"),
                           ("a", json.dumps({"x": [5, 6], "stream": "c"})), ("größe", "7,8")]:
            cluster.ask(f"put s 0 {key} {value}")
        with daemon(directory, cluster, "topic: s, by_key: true") as d:
            wait_kept(d, 4)
            assert consumer(d)["dead"] == 2 and d.ask("status")["rejected"] == 2
            d.end(signal.SIGKILL)
            d.start()
            cluster.ask("put s 0 a 9 9")
            wait_kept(d, 5)
            assert consumer(d)["dead"] == 0
        assert consuming.skips(directory) == ["2", "3"]
        assert cluster.ask("dump s.dead 1") == ["0 a nonsense", "0 b [3, 4, 5]"]
    assert journal(directory) == [("a", (1, 2)), ("b", (3, 4)), ("c", (5, 6)), ("größe", (7, 8)), ("a", (9, 9))]


def test_json(directory):
    """A device's JSON without changes."""
    with topic() as cluster:
        with consuming.json_daemon(directory, f'kafka: {{brokers: "{cluster.servers}", topic: s}}') as d:
            for text in brokers.JSON_MESSAGES:
                cluster.ask(f"put s 0 - {text}")
            brokers.check_learned(directory, d)
            until(lambda: consumer(d)["dead"] == 1)


def test_hostile_messages(directory):
    """Hostile messages do not stop the reader: keys that are not UTF-8, a missing value, a dead
    letter that is too large or whose topic is missing."""
    with topic(1, "put s 0 \\xff\\xfe 1 2", "none s 0 b", "put s 0 b 1 2") as cluster:
        cluster.ask("put s 0 b " + "x" * 3000)
        cluster.ask("put s 0 b 3 4")
        cluster.ask(f"wrong s.dead {NO_TOPIC}")
        with daemon(directory, cluster, "topic: s, by_key: true, settings: [message.max.bytes=1500]") as d:
            d.until(lambda: "cannot write a dead letter to s.dead: topic not found; create it" in d.text())
            cluster.ask("wrong s.dead 0")
            wait_kept(d, 2)
            assert consumer(d)["dead"] == 3
        assert consuming.skips(directory) == ["0", "1", "3"]
        dead = cluster.ask("dump s.dead 1")
        assert [line.split()[2:] for line in dead] == [["1", "2"], [], []], dead
        commands = [json.loads(text) for text, in brokers.rows(
            directory, "SELECT command FROM entries WHERE kind > 1 ORDER BY position")]
        reasons = [command["reason"] for command in commands if command["command"] == "skip"]
    assert "not UTF-8 text" in reasons[0] and reasons[1] == "a tombstone: the message has no value", reasons
    assert journal(directory) == [("b", (1, 2)), ("b", (3, 4))]


def test_latest(directory):
    """`latest` applies to a new group: a partition that was empty until the daemon ended, or is
    added later, loses nothing."""
    with topic(2, "fill s 0 0 5", "fill s 1 0 5") as cluster:
        with daemon(directory, cluster, "topic: s, from: latest") as d:
            until(lambda: consumer(d)["partitions"] == 2)
            until(lambda: consumer(d)["lag"] == 0)
            cluster.ask("fill s 0 10 12")
            wait_kept(d, 2)
            assert d.end() == 0
        cluster.ask("fill s 1 20 22")
        with daemon(directory, cluster, "topic: s, from: latest") as d:
            wait_kept(d, 4)
    assert [x[0] for _, x in journal(directory)] == [10, 11, 20, 21]


def learn_ten(directory, cluster):
    """A daemon learns the first ten messages of the topic s, and ends."""
    cluster.ask("topic s 1")
    cluster.ask("fill s 0 0 10")
    with daemon(directory, cluster) as d:
        running.wait_learned(d, 10)
        assert d.end() == 0


def test_where_it_begins(directory):
    """A daemon without a journal begins at the durable place of its group; a new group begins as
    `from` requests."""
    with kafka.Kafka() as cluster:
        learn_ten(directory, cluster)
        cluster.ask("fill s 0 10 12")
        for name, more, expected in [("same", "", [10, 11]), ("first", ", group: other", list(range(12)))]:
            other = directory / name
            other.mkdir()
            with daemon(other, cluster, "topic: s" + more) as d:
                running.wait_learned(d, len(expected))
                assert d.end() == 0
            assert [x[0] for _, x in journal(other)] == expected, name
        late = directory / "late"
        late.mkdir()
        with daemon(late, cluster, "topic: s, group: late, from: latest") as d:
            until(lambda: consumer(d)["partitions"] == 1)
            # The daemon has asked for the end of the topic before it knows that nothing is left.
            until(lambda: consumer(d)["lag"] == 0)
            assert d.ask("status")["examples"] == 0


def test_the_group_is_beyond_the_end(directory):
    """If the topic was created again, a daemon without a journal does not confuse its messages with
    the group's."""
    with topic(1, "fill s 0 0 5", "commit runnel s 0 9") as cluster:
        consuming.ends(daemon(directory, cluster), UNAVAILABLE, "examples.kafka.group",
                       "s[0] ends at offset 5, but the group runnel has learned it up to 9")
        cluster.ask("fill s 0 5 10")  # a lagging leader: nothing is lost or learned twice
        with daemon(directory, cluster) as d:
            wait_kept(d, 1)
    assert [x[0] for _, x in journal(directory)] == [9]


def test_missing(directory):
    """A cluster or topic that is missing at the start is reported, and the daemon waits for it."""
    with topic(1, f"wrong s {NO_TOPIC}", "down") as cluster, daemon(directory, cluster) as d:
        d.until(lambda: "no server answers" in d.text())
        cluster.ask("up")
        d.until(lambda: "available again after" in d.text() and "topic s not found" in d.text())
        cluster.ask("wrong s 0")
        cluster.ask("fill s 0 0 3")
        running.wait_learned(d, 3)


def test_lost(directory):
    """Messages that were deleted before they were read are counted and reported; the others are
    learned."""
    count, part = 2500, 500
    with kafka.Kafka() as cluster:
        learn_ten(directory, cluster)
        for begin in range(10, count, part):  # the mock keeps the newest 5 MB of a partition
            cluster.load("s", [(0, "k", f"{n} {-n}" + 3500 * " ") for n in range(begin, min(begin + part, count))])
        with daemon(directory, cluster) as d:
            until(lambda: (c := consumer(d))["places"].get("s[0]") == str(count - 1) and c["lag"] == 0)
            lost = consumer(d)["lost"]
            assert f"s[0]: offsets 10 to {lost + 9} were deleted before they were read" in d.text(), d.text()
    assert lost > 0
    assert [x[0] for _, x in journal(directory)] == [*range(10), *range(lost + 10, count)]


def test_who_is_not_admitted(directory):
    """Denied access to a topic or group: the message has the missing permission. For dead letters
    it is reported and retried."""
    with topic(1, f"wrong s {TOPIC_REFUSED}") as cluster:
        consuming.ends(daemon(directory, cluster), NO_PERMISSION,
                       "--operation Read --topic s); see examples.kafka.user")
        cluster.ask("wrong s 0")
        cluster.ask("put s 0 a nonsense")
        cluster.ask("put s 0 a 1 2")
        cluster.ask(f"refuse {PRODUCE} {TOPIC_REFUSED} 1")
        with daemon(directory, cluster) as d:
            d.until(lambda: "--operation Write --topic s.dead); see examples.kafka.user" in d.text())
            wait_kept(d, 1)
            assert d.end() == 0
        cluster.ask(f"refuse {FIND_COORDINATOR} {GROUP_REFUSED}")
        consuming.ends(daemon(directory, cluster, "topic: s, group: other"), NO_PERMISSION,
                       "--operation Read --group other); see examples.kafka.user")


def test_wrong(directory):
    """Denied access, settings unknown to librdkafka, and a topic that ends before the learned place or
    has fewer partitions."""
    (directory / "secret").write_text("secret\n", encoding="utf-8")
    with kafka.Kafka() as cluster:
        for more, key, output in [("settings: [no.such=1]", "settings", "no.such"),
                                ("password_file: none", "password_file", "cannot read"),
                                ("user: u", "user", "set examples.kafka.password_file to a file"),
                                (f"password_file: {directory}/secret", "password_file", "set examples.kafka.user")]:
            consuming.ends(daemon(directory, cluster, f"topic: s, {more}"), CONFIGURATION, output,
                           f"examples.kafka.{key}: ")
        cluster.ask("topic s 2")
        cluster.ask("fill s 1 0 10")
        with daemon(directory, cluster) as d:
            running.wait_learned(d, 10)
            assert d.end() == 0
    with topic(2, "fill s 1 0 5") as cluster:
        consuming.ends(daemon(directory, cluster), UNAVAILABLE, "s[1] ends at offset 5, but", "up to 10", "created again")
    with topic() as cluster:
        consuming.ends(daemon(directory, cluster), CONFIGURATION,
                       "has read partition s[1], but the topic does not include it")
    with topic(2, "topic t 1") as cluster, daemon(directory, cluster, "topic: t") as d:
        cluster.ask("fill t 0 10 11")
        running.wait_learned(d, 11)
        assert "partition kafka:s[1] of the journal is not configured any more" in d.text(), d.text()


if __name__ == "__main__":
    cases.run(globals())
