#!/usr/bin/python3
"""A daemon that reads Redis streams learns each entry once, even after kills. Other entries become
dead letters; errors are reported."""
import contextlib
import json
import random
import signal
import sqlite3
import subprocess

import brokers
import cases
import consuming
import running

from brokers import journal, until
from consuming import consumer, wait_kept

brokers.need("redis")
UNAVAILABLE, CONFIGURATION = 69, 78
KEYS = [f"key-{n}" for n in range(7)]


def daemon(directory, more="stream: s"):
    text = consuming.config(directory, f'{{redis: {{url: "unix://{directory}/redis.socket", {more}}}}}')
    return running.Daemon(directory, text)


def with_model(directory, model):
    """A daemon that reads s, with another model."""
    text = consuming.config(directory, f'{{redis: {{url: "unix://{directory}/redis.socket", stream: s}}}}')
    begin, end = text.index("model:"), text.index("examples:")
    return running.Daemon(directory, text[:begin] + model + text[end:])


def refused(directory, *words, more="stream: s", code):
    """Checks that a daemon ends, and words of its output."""
    consuming.ends(daemon(directory, more), code, *words)


def add(redis, examples, stream="s"):
    redis.pipeline([("XADD", stream, "*", "payload", example) for example in examples])


def spread(redis, numbers, count):
    """Examples of several keys, each in the stream of its key."""
    redis.pipeline([("XADD", f"s.{consuming.partition_of(key, count)}", "*", "example",
                     json.dumps({"stream": key, "x": [n, -n]}))
                    for n in numbers for key in [KEYS[n % len(KEYS)]]])


def test_kills(directory):
    """Daemon and Redis are killed at random moments while entries are added: each is learned once,
    in the order of its partition, and the parameters are those of an undisturbed daemon."""
    chance = random.Random(4)
    count, parts = 2400, 3
    with brokers.Redis(directory) as redis, daemon(directory, f"stream: s, partitions: {parts}") as d:
        added = 0
        for turn in range(8):
            spread(redis, range(added, added + count // 8), parts)
            added += count // 8
            running.wait_learned(d, chance.randrange(turn * count // 8, added))
            if turn % 2:
                redis.kill()
                redis.start()
            else:
                d.end(signal.SIGKILL)
                d.start()
        end = wait_kept(d, count)
        assert end["consumer"]["lost"] == end["consumer"]["dead"] == end["rejected"] == 0, end
        learned, blob = journal(directory), d.export()
        for part in range(parts):
            until(lambda: redis.ask("XINFO", "GROUPS", f"s.{part}")[0][-1] == 0)
    for part in range(parts):
        mine = [x[0] for key, x in learned if consuming.partition_of(key, parts) == part]
        assert mine == [n for n in range(count)
                        if consuming.partition_of(KEYS[n % len(KEYS)], parts) == part]
    assert blob == consuming.plain(directory / "plain", learned)


def test_dead_letters(directory):
    """Another entry has its place in the journal, and is copied once to the stream of dead letters,
    even if the daemon is killed in between."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, ["1 2", "hello", "1 2 3", "3 4"])
        redis.ask("XADD", "s", "*", "load", "7", "host", "a")
        redis.ask("XADD", "s", "*", "payload", b"\xff\xfe")
        running.wait_learned(d, 2)
        until(lambda: consumer(d)["dead"] == 4)
        status = wait_kept(d, 2)
        assert status["rejected"] == 4 and status["rejected_by"]["x_size"] == 1, status
        d.end(signal.SIGKILL)
        # As if the journal had been behind: the skipped entries are read again by a new daemon.
        ids = consuming.skips(directory)
        assert len(ids) == 4
        for file in (directory / "state").iterdir():
            file.unlink()
        redis.ask("XGROUP", "SETID", "s", "runnel", "0")
        d.start()
        running.wait_learned(d, 2)
        until(lambda: len(consuming.skips(directory)) == 4)
        # Redis's answer has the byte that is not UTF-8, so they are only counted here.
        assert redis.ask("XLEN", "s.dead") == 4
        first = letters(redis)[0]
    assert first["dead.stream"] == "s" and first["dead.id"] == ids[0], first
    assert "expected numbers or JSON" in first["dead.reason"] and first["payload"] == "hello", first
    assert consuming.skips(directory) == ids


def letters(redis):
    return [dict(zip(entry[1][::2], entry[1][1::2])) for entry in redis.ask("XRANGE", "s.dead", "-", "+")]


def test_reasons(directory):
    """Each dead letter has the reason of its message; the good messages between them are learned."""
    member = "; an example has stream, x, y, end, learn, time, note, label_of, label_epoch and numbers"
    wrong = [("", "empty message"), (" \n", "empty message"),
             (json.dumps({"strem": "a", "x": [1, 2]}), "unknown member 'strem'" + member),
             (json.dumps({"stream": "a", "X": [1, 2]}), "unknown member 'X'" + member),
             (json.dumps({"stream": "a", "y": [1, 2]}), "expected x or label_of"),
             ("1 2".encode("utf-16"), "not UTF-8 text (binary, or another encoding)"),
             ("grün".encode("latin-1"), "not UTF-8 text (binary, or another encoding)"),
             ("true", "expected numbers or an example")]
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, ["1 2"])
        for message, _ in wrong:
            redis.ask("XADD", "s", "*", "payload", message)
        add(redis, ["3 4"])
        wait_kept(d, 2)
        assert [letter["dead.reason"] for letter in letters(redis)] == [why for _, why in wrong]
        assert consumer(d)["dead"] == len(wrong)
    assert journal(directory) == [("s", (1, 2)), ("s", (3, 4))]


def test_json(directory):
    """A device's JSON without changes, in one field of an entry or as its fields; each dead letter
    names its field."""
    messages = [*brokers.JSON_MESSAGES, "[7]", '{"sensor":"a","ts":1,"load":[1],"data":{}}',
                json.dumps({"sensor": "a", "ts": "\x1b[2J" + "ö" * 30}), '{"ö\x07']
    reasons = ["field 'sensor': stream name not found (examples.json.key_field)",
               "expected a JSON object (examples.json.field)",
               "field 'load': expected a number or a text",
               f"field 'ts': expected a time as in 2016-07-01 12:34:56 or 31/12/2014, or Unix time "
               f"(examples.json.time_format), got '?[2J{'ö' * 18}'",
               "expected a JSON object (column 3: control character 0x7 near '\"ö')"]
    with brokers.Redis(directory) as redis:
        url = f'redis: {{url: "{redis.url}", stream: s}}'
        with consuming.json_daemon(directory, url) as d:
            ids = redis.pipeline([("XADD", "s", "*", "payload", text) for text in messages])
            brokers.check_learned(directory, d)
            until(lambda: consumer(d)["dead"] == len(reasons))
            found = [(letter["dead.id"], letter["dead.reason"]) for letter in letters(redis)]
            assert found == list(zip(ids[len(brokers.JSON_LEARNED):], reasons)), found
            assert "ignored fields: data.unit, site (examples.json.field COLUMN=PATH" in d.text(), d.text()
            redis.ask("XADD", "s", "*", "sensor", "b", "ts", "1700000003", "load", "4", "data",
                      '{"temperature": 3}', "site", "x")
            wait_kept(d, 3)
            assert d.text().count("ignored field") == 1 and d.end() == 0, d.text()
        assert journal(directory)[-1] == ("b", (3, 4))
        with consuming.json_daemon(directory, url, ", strict: true") as d:
            redis.ask("XADD", "s", "*", "sensor", "b", "ts", "1700000004", "load", "4", "site", "x")
            until(lambda: consumer(d)["dead"] == 1)
        assert letters(redis)[-1]["dead.reason"] == "unknown field site: no examples.json.field names it"


def test_a_date_with_two_meanings(directory):
    """If it is first, it ends the daemon until a format is set; then it is learned. After others it
    is a dead letter, and ends nothing."""
    unclear = '{"sensor":"a","ts":"01/02/2014","load":1,"data":{"temperature":2}}'
    output = ("field 'ts': ambiguous day and month in '01/02/2014': use examples.json.time_format "
            "'%d/%m/%Y' or '%m/%d/%Y'")
    with brokers.Redis(directory) as redis:
        url = f'redis: {{url: "{redis.url}", stream: s}}'
        redis.ask("XADD", "s", "*", "e", unclear)
        consuming.ends(consuming.json_daemon(directory, url), CONFIGURATION, output)
        with consuming.json_daemon(directory, url, ", time_format: '%d/%m/%Y'") as d:
            wait_kept(d, 1)
            assert d.end() == 0 and redis.ask("EXISTS", "s.dead") == 0, d.text()
        with consuming.json_daemon(directory, url) as d:
            redis.ask("XADD", "s", "*", "e", brokers.JSON_MESSAGES[0])
            wait_kept(d, 2)
            redis.ask("XADD", "s", "*", "e", unclear)
            redis.ask("XADD", "s", "*", "e", brokers.JSON_MESSAGES[0])
            wait_kept(d, 3)
            assert d.end() == 0 and redis.ask("XLEN", "s.dead") == 1, d.text()
            assert output == letters(redis)[0]["dead.reason"], letters(redis)


def test_hostile_entries(directory):
    """Hostile entries do not stop the reader: more fields than Lua's stack, IDs that are not
    numbers of examples, and a reason that is cut within a character. Large entries are read, too.
    """
    columns = [f"{'a' * 30}{n}" for n in range(8)]
    model = f"""model:
  input: {{columns: [{', '.join(f'{{name: {name}}}' for name in columns)}]}}
  layers: [{{cell: dense, size: 2, activation: tanh}}]
  output: {{loss: squared, target: next}}
"""
    good = json.dumps({"x": list(range(8))})
    fields = [word for n in range(5000) for word in (f"f{n}", str(n))]
    with brokers.Redis(directory) as redis, with_model(directory, model) as d:
        redis.ask("XADD", "s", "1-1", *fields)
        redis.ask("XADD", "s", "2-2097152", "a", "first")
        redis.ask("XADD", "s", "2-2097153", "a", "second")
        redis.ask("XADD", "s", "3-1", "e", json.dumps({"x": {"ö" * 30: 1}}))
        redis.ask("XADD", "s", "4-1", "e", good)
        for n in range(20):
            redis.ask("XADD", "s", f"5-{n}", "e", good + " " * 1000000)
        status = wait_kept(d, 21)
        dead = letters(redis)
        assert status["rejected"] == 4 and consumer(d)["dead"] == 4, status
        d.end(signal.SIGKILL)
        d.start()
        redis.ask("XADD", "s", "6-1", "e", good)
        wait_kept(d, 22)
        assert letters(redis) == dead
    assert [letter["dead.id"] for letter in dead] == ["1-1", "2-2097152", "2-2097153", "3-1"]
    assert json.loads(dead[0]["dead.fields"]) == fields
    assert [letter["a"] for letter in dead[1:3]] == ["first", "second"]
    assert "unknown column" in dead[3]["dead.reason"]
    assert len(consuming.skips(directory)) == 4


def test_a_wrong_key_of_dead_letters(directory):
    """A key in place of the dead letters' stream is named in the message; nothing is lost
    meanwhile."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        redis.ask("SET", "s.dead", "text")
        add(redis, ["1 2", "nothing", "3 4"])
        d.until(lambda: "cannot write a dead letter: s.dead is not a stream" in d.text())
        assert d.ask("status")["examples"] == 1
        redis.ask("DEL", "s.dead")
        wait_kept(d, 2)
        assert len(letters(redis)) == 1


def test_refused_words(directory):
    """An example that the learning thread rejects, such as a word beyond a full vocabulary, is a
    dead letter, too."""
    model = """model:
  input: {kind: symbol, vocabulary: {capacity: 4, unknown: reject}}
  layers: [{cell: dense, size: 2, activation: tanh}]
  output: {loss: softmax, target: next}
"""
    with brokers.Redis(directory) as redis, with_model(directory, model) as d:
        words = ["a", "b", "c", "d", "e", "a", "f", "b"]
        redis.pipeline([("XADD", "s", "*", "e", json.dumps({"stream": "k", "x": [word]})) for word in words])
        until(lambda: (s := d.ask("status"))["examples"] + s["rejected"] == len(words))
        status = wait_kept(d, 0)
        dead = letters(redis)
    refused_words = [json.loads(letter["e"])["x"][0] for letter in dead]
    assert status["rejected_by"] == {"vocabulary": len(dead)} and dead, (status["rejected_by"], dead)
    assert status["examples"] == len(words) - len(dead), status
    assert refused_words == [w for w in words if w in refused_words], refused_words
    assert len(consuming.skips(directory)) == len(dead)


def test_stops(directory):
    """Nothing is learned while paused; after a stop it resumes; a rollback removes what was
    learned, and does not read it again."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, [f"{n} {-n}" for n in range(50)])
        running.wait_learned(d, 50)
        d.ask("checkpoint")
        d.ask("pause")
        add(redis, [f"{n} {-n}" for n in range(50, 2000)])
        until(lambda: consumer(d)["lag"] == 1950)
        assert d.ask("status")["examples"] == 50
        assert d.end() == 0
        d.start()
        running.wait_learned(d, 2000)
        d.ask("rollback", to=1990)
        assert d.ask("status")["examples"] == 1990
        add(redis, ["2000 -2000"])
        wait_kept(d, 1991)
        d.end(signal.SIGKILL)
        d.start()
        assert wait_kept(d, 1991)["examples"] == 1991
        blob = d.export()
    learned = [x[0] for _, x in journal(directory)]
    assert learned == list(range(2001))
    kept = [("s", (n, -n)) for n in [*range(1990), 2000]]
    assert blob == consuming.plain(directory / "plain", kept)


def test_gone(directory):
    """Entries that were trimmed before they were read are counted and reported; the others are
    learned."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, [f"{n} {n}" for n in range(100)])
        running.wait_learned(d, 100)
        assert d.end() == 0
        add(redis, [f"{n} {n}" for n in range(100, 200)])
        redis.ask("XTRIM", "s", "MAXLEN", "30")
        d.start()
        wait_kept(d, 130)
        until(lambda: consumer(d)["lost"] == 70)
        assert "70 entries of s were deleted" in d.text(), d.text()
    assert [x[0] for _, x in journal(directory)] == [*range(100), *range(170, 200)]


def test_made_again(directory):
    """A stream is created again with lower IDs: its entries are not read, and the daemon ends; with
    Redis's own IDs, all are read."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, ["1 1"])
        wait_kept(d, 1)
        redis.ask("DEL", "s")
        add(redis, ["2 2"])
        wait_kept(d, 2)
        redis.ask("EVAL", consuming.MAKE_AGAIN, "1", "s", "1-1", "p", "3 3")
        d.until(lambda: "s ends at 1-1, but the group runnel has learned it up to" in d.text())
        redis.ask("XADD", "s", "1-2", "p", "4 4")
        assert d.process.wait(running.LIMIT) == UNAVAILABLE, d.text()
        assert "cannot read new entries of s:" in d.text() and "examples.redis.group" in d.text(), d.text()
    assert [x[0] for _, x in journal(directory)] == [1, 2]


def test_a_stream_that_comes_later(directory):
    """The number of waiting entries is known from the first one on, even for a stream that was
    missing at the start."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        until(lambda: "stream not found: s;" in d.text())
        add(redis, ["1 2", "3 4", "nothing"])
        wait_kept(d, 2)
        until(lambda: consumer(d)["lag"] == 0)
        assert consumer(d)["lost"] == 0


def test_from(directory):
    """A new group begins as `from` requests; an existing one at its place at the broker."""
    with brokers.Redis(directory) as redis:
        add(redis, ["1 1", "2 2"])
        with daemon(directory, "stream: s, from: latest") as d:
            until(lambda: redis.ask("XINFO", "GROUPS", "s"))
            add(redis, ["3 3"])
            wait_kept(d, 1)
        assert [x[0] for _, x in journal(directory)] == [3]
        known = redis.ask("XADD", "s", "*", "p", "4 4")
        add(redis, ["5 5"])
        redis.ask("XGROUP", "CREATE", "s", "other", known)
        other = directory / "other"
        other.mkdir()
        (other / "redis.socket").symlink_to(directory / "redis.socket")
        with daemon(other, "stream: s, group: other") as d:
            wait_kept(d, 1)
        assert [x[0] for _, x in journal(other)] == [5]


def test_from_is_for_all_streams_together(directory):
    """`latest` is the place where a new group begins. A stream that appears later has no entries
    before it."""
    with brokers.Redis(directory) as redis:
        redis.ask("XADD", "s.0", "*", "p", "1 1")
        with daemon(directory, "stream: s, partitions: 2, from: latest") as d:
            until(lambda: redis.ask("XINFO", "GROUPS", "s.0"))
            redis.ask("XADD", "s.0", "*", "p", "2 2")
            wait_kept(d, 1)
            assert d.end() == 0
            redis.ask("XADD", "s.1", "*", "p", "3 3")
            redis.ask("XADD", "s.2", "*", "p", "4 4")
        with daemon(directory, "stream: s, partitions: 3, from: latest") as d:
            wait_kept(d, 3)
    assert sorted(x[0] for _, x in journal(directory)) == [2, 3, 4]


def test_stopped(directory):
    """Redis is stopped and continued (SIGSTOP, SIGCONT): nothing is lost or learned twice, and the
    daemon still ends on request."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, [f"{n} {-n}" for n in range(100)])
        running.wait_learned(d, 10)
        redis.process.send_signal(signal.SIGSTOP)
        try:
            assert d.end() == 0
            d.start()
        finally:
            redis.process.send_signal(signal.SIGCONT)
        add(redis, [f"{n} {-n}" for n in range(100, 200)])
        wait_kept(d, 200)
        redis.process.send_signal(signal.SIGSTOP)
        d.ask("status")
        redis.process.send_signal(signal.SIGCONT)
        add(redis, ["200 -200"])
        wait_kept(d, 201)
    assert [x[0] for _, x in journal(directory)] == list(range(201))


def test_away(directory):
    """A missing server is reported once, also at the start, and so is its return; the daemon waits
    for a missing stream."""
    with brokers.Redis(directory) as redis:
        redis.end()
        with daemon(directory) as d:
            d.until(lambda: "trying again until it answers" in d.text())
            d.until(lambda: consumer(d)["away"] > 0)
            redis.start()
            d.until(lambda: "available again after" in d.text() and "stream not found: s;" in d.text())
            add(redis, ["1 2"])
            running.wait_learned(d, 1)
            assert d.text().count("trying again") == 1, d.text()
            d.until(lambda: consumer(d)["away"] == 0)


def test_mistaken(directory):
    """Streams with another number of partitions than configured: the message has the existing
    stream and the key of the configuration."""
    with brokers.Redis(directory) as redis:
        redis.ask("XADD", "s", "*", "p", "1 2")
        with daemon(directory, "stream: s, partitions: 2") as d:
            d.until(lambda: "stream s exists, but is not read: examples.redis.partitions is set" in d.text())
    with brokers.Redis(directory) as redis:
        redis.ask("DEL", "s")
        redis.ask("XADD", "s.0", "*", "p", "1 2")
        with daemon(directory) as d:
            d.until(lambda: "stream s.0 exists, but is not read: examples.redis.partitions is not set" in d.text())


def test_wrong(directory):
    """Each error has its message: a key that is not a stream, denied access, streams that would not
    be read any more, a missing file."""
    with brokers.Redis(directory) as redis:
        redis.ask("SET", "s", "text")
        refused(directory, "key s is not a stream", "examples.redis.stream", code=UNAVAILABLE)
        redis.ask("DEL", "s")
        redis.ask("ACL", "SETUSER", "known", "on", ">secret", "~*", "&*", "+@all")
        (directory / "secret").write_text("wrong\n")
        login = "stream: s, user: known, password_file: secret"
        refused(directory, "access denied", "examples.redis.password_file",
                more=login, code=77)
        refused(directory, "examples.redis.password_file: cannot open ", "/none: ", code=CONFIGURATION,
                more="stream: s, user: known, password_file: none")
        (directory / "secret").write_text("secret\n")
        with daemon(directory, login + ", partitions: 3") as d:
            d.until(lambda: "streams not found: s.0, s.1, s.2; reading begins" in d.text())
            redis.ask("XADD", "s.2", "*", "p", "1 2")
            running.wait_learned(d, 1)
            assert d.end() == 0
        refused(directory, "has read partition s.2, but examples.redis.partitions does not include it", "state.directory",
                more=login + ", partitions: 2", code=CONFIGURATION)
        with daemon(directory, login + ", partitions: 4") as d:
            redis.ask("XADD", "s.3", "*", "p", "1 2")
            running.wait_learned(d, 2)
            assert d.end() == 0
        with daemon(directory, "stream: other") as d:
            redis.ask("XADD", "other", "*", "p", "1 2")
            running.wait_learned(d, 3)
            assert "partition redis:s.2 of the journal is not configured any more" in d.text(), d.text()


def test_damage(directory):
    """A changed place is damage of the journal: nothing is read from a wrong place."""
    with brokers.Redis(directory) as redis:
        with daemon(directory) as d:
            add(redis, ["1 2"])
            running.wait_learned(d, 1)
            assert d.end() == 0
        with contextlib.closing(sqlite3.connect(directory / "state/journal.sqlite")) as file, file:
            file.execute("UPDATE places SET sequence = sequence - 1")
        refused(directory, "is damaged", "places of its partitions", code=74)


def test_labels(directory):
    """A label names its example by the numbers in its ID."""
    text = consuming.config(directory, f'{{redis: {{url: "unix://{directory}/redis.socket", stream: s}}}}')
    with brokers.Redis(directory) as redis, \
            running.Daemon(directory, text.replace("target: next", "target: later")) as d:
        entry = redis.ask("XADD", "s", "*", "e", json.dumps({"stream": "k", "x": [1, 2]}))
        first, second = map(int, entry.split("-"))
        redis.ask("XADD", "s", "*", "e", json.dumps(
            {"stream": "k", "label_of": (first % 2 ** 32) * 2 ** 21 + second, "y": [3, 4]}))
        running.wait_learned(d, 2)
        assert d.ask("status")["labels"]["taken"] == 1


def test_reading_it_again(directory):
    """runnel-replay sends a journal with dead letters to another daemon, which learns the same."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        add(redis, ["1 2", "hello", "3 4", "5 6"])
        running.wait_learned(d, 3)
        blob = d.export()
        assert d.end() == 0
    other = directory / "other"
    other.mkdir()
    with brokers.daemon(other, "router") as d:
        replay = running.PROGRAM.with_name("runnel-replay")
        subprocess.run([replay, str(directory / "state"), "--connect", d.endpoint("examples"),
                        "--socket", "router", "--control", d.endpoint("control")], check=True, timeout=running.LIMIT)
        running.wait_learned(d, 3)
        assert d.export() == blob


if __name__ == "__main__":
    cases.run(globals())
