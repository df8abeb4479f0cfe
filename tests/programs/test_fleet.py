#!/usr/bin/python3
"""Fleets on Redis: one daemon learns each message, once, even after kills; streams move with their
states; daemons that cannot join get the reason."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import brokers
import cases
import consuming
import fleet
import running

brokers.need("redis")
CONFIGURATION, USAGE, UNAVAILABLE, NO_PERMISSION = 78, 64, 69, 77
KEYS, PARTS = 20, 4
ANOMALIES = {"more": "anomaly: {enabled: true, memory: 50}\n"}


def learn(redis, numbers, *members):
    """Adds messages until these daemons have learned them, each some, and committed them."""
    fleet.add(redis, numbers, KEYS, PARTS)
    fleet.all_learned(redis, members, [member.name for member in members])


@contextlib.contextmanager
def one_that_learned(directory, count=100, **options):
    """A Redis, and a daemon that has learned so many messages."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna", **options) as anna:
        learn(redis, range(count), anna)
        yield redis, anna


def half_each(*members):
    fleet.until(lambda: all(fleet.status(member)["partitions"] == 2 for member in members), "shared", members)


def killed_once(count, *members):
    """The daemons are killed; each message was learned once."""
    for member in members:
        member.kill()
    fleet.once(members, count, KEYS)


def written(redis):
    """The server's file of acknowledged data, and its size."""
    file = max(redis.directory.glob("appendonlydir/*.incr.aof"))
    return file, file.stat().st_size


def put_back(redis, file, size):
    """The server restarts with only a part of its file."""
    redis.kill()
    os.truncate(file, size)
    redis.start()


def learn_meanwhile(redis, numbers, anna):
    """The size of the server's file with messages that nobody has learned; then anna learns them."""
    anna.ask("pause")
    fleet.add(redis, numbers, KEYS, PARTS)
    before = written(redis)
    anna.ask("resume")
    fleet.all_learned(redis, [anna], ["anna"])
    return before


def test_kills(directory):
    """Three daemons and their Redis are killed, stopped and ended at random moments."""
    with brokers.Redis(directory) as redis:
        kills = fleet.Kills(directory, redis, ["anna", "bert", "carl"], seed=3, lease=0.5)
        kills.add(300)
        for _ in range(7):
            kills.some_progress()
            kills.add(60)
            kills.one()
        assert sum(kills.settle().values()) == kills.added
        kills.check_bits()


def test_learned_by_a_dead_daemon(directory, **options):
    """A daemon is stopped after it has learned more than it has committed; another continues from
    its commit. When it returns, it rolls back what the other has learned."""
    with brokers.Redis(directory) as redis:
        anna = fleet.Member(directory, redis.url, "anna", every=0, lease=2, **options)
        anna.path.write_text(anna.path.read_text().replace("seconds: 1", "seconds: 0"))
        fleet.add(redis, range(100), KEYS, PARTS)
        running.wait_learned(anna, 100)
        anna.ask("checkpoint")
        fleet.all_learned(redis, [anna], ["anna"])
        anna.stop()
        anna.start()  # with checkpoints only on request
        fleet.shared(redis, [anna], ["anna"] * PARTS)
        fleet.add(redis, range(100, 200), KEYS, PARTS)
        running.wait_learned(anna, 200)
        assert fleet.lag(redis) == 100
        fleet.until(lambda: {name: fleet.look(redis)["daemons"][0][name] for name in ("waiting", "uncommitted")}
                    == {"waiting": 0, "uncommitted": 100}, "committed", [anna])
        anna.process.send_signal(signal.SIGSTOP)
        with fleet.Member(directory, redis.url, "bert", lease=2, **options) as bert:
            fleet.all_learned(redis, [bert], ["bert"])
            assert fleet.status(bert)["adopted"] == KEYS and bert.ask("status")["examples"] == 100
            anna.process.send_signal(signal.SIGCONT)
            fleet.until(lambda: fleet.status(anna)["replayed"] == 100, "left out", [anna, bert])
            assert anna.ask("status")["examples"] == 100
            fleet.shared(redis, [anna, bert], ["anna", "anna", "bert", "bert"])
            assert "unavailable for longer than fleet.lease" in anna.text()
            fleet.add(redis, range(200, 300), KEYS, PARTS)
            fleet.until(lambda: len(fleet.learned(anna.directory)) +
                        len(fleet.learned(bert.directory)) == 300, "all", [anna, bert])
            anna.ask("checkpoint")
            fleet.all_learned(redis, [anna, bert], ["anna", "bert"])
            killed_once(300, anna, bert)
            assert fleet.left_out(anna.directory) == 100
            for member in (anna, bert):
                fleet.same_bits(member, directory, KEYS)
                shutil.rmtree(directory / f"last-{member.name}")
                fleet.sent_again(member, directory, KEYS)


def test_anomalies_learned_by_a_dead_daemon(directory):
    """A replay leads to the same pauses of streams, which depend on all streams of a daemon."""
    test_learned_by_a_dead_daemon(directory, **ANOMALIES)


def test_drained_and_back(directory):
    """A daemon that joins gets its share with the states; a drained one hands over everything, and
    takes part again later."""
    with brokers.Redis(directory) as redis:
        code, output = fleet.act(redis, "status")
        assert code == UNAVAILABLE and "fleet not found: fleet" in output, output
        for words in ("rebalance",), ("drain", "anna"):
            code, output = fleet.act(redis, *words)
            assert code == UNAVAILABLE and "fleet not found: fleet" in output, output
        assert redis.ask("KEYS", "runnel:*") == []  # queries leave no keys
        with fleet.Member(directory, redis.url, "anna") as anna:
            learn(redis, range(200), anna)
            with fleet.Member(directory, redis.url, "bert") as bert:
                fleet.shared(redis, [anna, bert], ["anna", "anna", "bert", "bert"])
                moved = [key for key in range(KEYS)
                         if consuming.partition_of(f"key-{key}", PARTS) > 1]
                fleet.until(lambda: fleet.status(bert)["partitions"] == 2, "read", [anna, bert])
                assert fleet.status(bert)["adopted"] == len(moved), fleet.status(bert)
                assert fleet.status(anna)["released"] == 2 and fleet.status(anna)["of"] == PARTS
                assert fleet.status(anna)["daemons"] == 2 and fleet.status(anna)["round"] is None
                fleet.until(lambda: all(member.ask("status")["consumer"]["lag"] == 0 for member in (anna, bert)),
                            "the lag of its own", [anna, bert])
                code, output = fleet.act(redis, "drain", "anna")
                assert code == 0, output
                fleet.shared(redis, [anna, bert], ["bert"] * PARTS)
                lines = fleet.act(redis, "status")[1].splitlines()
                assert lines[3].split()[:3] == ["anna", "drained", "0"], lines
                assert lines[5].split()[:2] == ["all", str(PARTS)] and not "".join(lines[6:7]), lines
                lines = fleet.act(redis, "status", "--partitions")[1].splitlines()
                shown = [line.split()[:2] for line in lines[8:8 + PARTS]]
                assert shown == [[str(p), "bert"] for p in range(PARTS)], lines
                fleet.until(lambda: [p["daemon"] for p in fleet.status(bert)["owners"]] == ["bert"] * PARTS,
                            "owners", [bert])
                assert fleet.status(bert)["members"]["anna"]["state"] == "drained", fleet.status(bert)
                fleet.add(redis, range(200, 300), KEYS, PARTS)
                fleet.all_learned(redis, [anna, bert], ["bert"])
                code, output = fleet.act(redis, "drain", "bert")
                assert code == 0 and "keeps its 4" in output, output
                code, output = fleet.act(redis, "rebalance")
                assert code == 0 and "anna takes partitions again\n" in output, output
                assert "4 partitions are distributed among 2 daemons" in output, output
                fleet.shared(redis, [anna, bert], ["anna", "anna", "bert", "bert"])
                code, output = fleet.act(redis, "drain", "carl")
                assert code == USAGE and "daemon not found: carl" in output, output
                assert bert.stop() == 0
                fleet.shared(redis, [anna], ["anna"] * PARTS)
                assert [d["name"] for d in fleet.look(redis)["daemons"]] == ["anna"]
                fleet.once([anna, bert], 300, KEYS)


HEX = """
local rows = redis.call('HGETALL', KEYS[1])
for n, text in ipairs(rows) do
  if n % 2 == 0 then
    rows[n] = text:gsub('.', function(byte) return string.format('%02x', byte:byte()) end)
  end
end
return rows"""


def published(redis):
    """Redis's data of each stream: its rank within the partition, and its state."""
    found = {}
    for part in range(PARTS):
        rows = redis.ask("EVAL", HEX, "1", f"runnel:{{fleet}}:states:{part}")
        for key, text in zip(rows[::2], rows[1::2], strict=True):
            row = bytes.fromhex(text)
            found[key] = (int.from_bytes(row[:8], "little"), row[8:])
    return found


def is_published(redis, members):
    """Whether Redis has exactly the daemons' states after a checkpoint."""

    def committed():
        for member in members:
            member.ask("checkpoint")
        return fleet.lag(redis) == 0

    fleet.until(committed, "committed", members)
    known = {}
    for member in members:
        for key in (f"key-{n}" for n in range(KEYS)):
            reply, *blob = member.request("export", stream=key)
            known |= {key: blob[0]} if reply["ok"] else {}
    rows = published(redis)
    assert {key: row[1] for key, row in rows.items()} == known, (sorted(rows), sorted(known))
    return rows


def quiet(member, *words):
    """A daemon that writes checkpoints only on request."""
    member.kill()
    member.path.write_text(member.path.read_text().replace("seconds: 1", "seconds: 0"))
    member.arguments = words
    member.start()
    return member


def test_changed_states(directory, **options):
    """A commit sends the changed states to Redis and deletes those of forgotten streams; after a
    restart, a rollback and a hand-over Redis has the daemons' states."""
    few = ("--set", "learning.max_streams=15")
    with brokers.Redis(directory) as redis, contextlib.ExitStack() as stack:
        anna = quiet(stack.enter_context(fleet.Member(directory, redis.url, "anna", every=0, **options)), *few)
        fleet.add(redis, range(100), KEYS, PARTS)
        running.wait_learned(anna, 100)
        before = is_published(redis, [anna])
        assert len(before) == 15
        some = sorted(before)[:3]
        for n, key in enumerate(some):
            redis.ask("XADD", f"s.{consuming.partition_of(key, PARTS)}", "*", "example",
                      json.dumps({"stream": key, "x": [n]}))
        running.wait_learned(anna, 103)
        after = is_published(redis, [anna])
        assert sorted(key for key, row in after.items() if row != before[key]) == some
        assert min(after[key][0] for key in some) > max(row[0] for row in before.values())
        anna.ask("forget", stream=sorted(before)[3])
        assert len(is_published(redis, [anna])) == 14
        anna.ask("rollback", without=[sorted(before)[4]])
        assert sorted(before)[4] not in is_published(redis, [anna])
        fleet.add(redis, range(100, 140), KEYS, PARTS)  # the others are forgotten, and return
        is_published(redis, [anna])
        anna.kill()
        anna.start()
        fleet.add(redis, range(140, 150), KEYS, PARTS)
        is_published(redis, [anna])
        bert = quiet(stack.enter_context(fleet.Member(directory, redis.url, "bert", every=0, **options)), *few)
        fleet.shared(redis, [anna, bert], ["anna", "anna", "bert", "bert"])
        fleet.until(lambda: fleet.status(bert)["partitions"] == 2, "read", [anna, bert])
        is_published(redis, [anna, bert])
        fleet.add(redis, range(150, 155), KEYS, PARTS)
        is_published(redis, [anna, bert])


def test_changed_states_of_anomalies(directory):
    """The state of a stream contains no time of the daemon that has adopted it."""
    test_changed_states(directory, **ANOMALIES)


def test_strangers(directory):
    """A daemon with another configuration, stream, number of partitions, or the name of another
    ends with an error; the fleet continues."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna", lease=10) as anna:
        fleet.shared(redis, [anna], ["anna"] * PARTS)
        fleet.ends(directory, redis, "bert", CONFIGURATION, "another configuration", "digest",
                   change=("size: 4", "size: 5"))
        fleet.ends(directory, redis, "carl", CONFIGURATION, "use one group per fleet",
                   change=("stream: s,", "stream: other,"))
        fleet.ends(directory, redis, "dora", CONFIGURATION, "has 4 partitions, not 8", parts=8)
        fleet.ends(directory, redis, "fred", CONFIGURATION, "fleet.average.every 0, not 50",
                   change=("{lease: 1}", "{lease: 1, average: {every: 50}}"))
        fleet.ends(directory, redis, "emil", CONFIGURATION, "another daemon with the name anna",
                   change=("name: emil", "name: anna"))
        redis.ask("XADD", "s.0", "*", "example", json.dumps({"stream": "key-0", "x": [1]}))
        redis.ask("XADD", f"s.{(consuming.partition_of('key-0', PARTS) + 1) % PARTS}", "*", "example",
                  json.dumps({"stream": "key-0", "x": [1]}))
        redis.ask("XADD", "s.1", "*", "example", json.dumps({"stream": "s.1", "x": [1]}))
        home = consuming.partition_of("key-0", PARTS)
        astray = 2 if home else 1  # those of the three that are in the wrong partition
        fleet.until(lambda: anna.ask("status")["consumer"]["dead"] == astray, "dead letters", [anna])
        fleet.until(lambda: anna.ask("status")["examples"] == 3 - astray, "examples", [anna])
        assert "the stream belongs to partition s." in anna.text()


def test_default_of_earlier_versions(directory):
    """A daemon without state cannot join a fleet that learns with the default of an earlier version, and
    the message has the remedy."""
    stated = ("stride: 4}", "stride: 4, optimizer: {beta1: 0.9}}")
    with brokers.Redis(directory) as redis, \
            fleet.Changed(directory, redis.url, "anna", lease=10, change=stated) as anna:
        fleet.shared(redis, [anna], ["anna"] * PARTS)
        fleet.ends(directory, redis, "bert", CONFIGURATION, "another configuration",
                   "the default of earlier versions: set learning.optimizer.beta1: 0.9 here")
        with fleet.Changed(directory, redis.url, "carl", lease=10, change=stated) as carl:
            fleet.all_learned(redis, [anna, carl], ["anna", "carl"])


def test_copies(directory):
    """Two daemons with one name and a copied state directory: one of them ends."""
    with brokers.Redis(directory) as redis:
        fleet.two_copies(directory, redis, KEYS, PARTS)


def test_an_emptied_directory(directory):
    """The daemon waits for the end of its earlier process's lease."""

    def lease(seconds):
        redis.ask("ZADD", "runnel:{fleet}:leases", str(int(1000 * (time.time() + seconds))), "anna")

    with brokers.Redis(directory) as redis, fleet.emptied(directory, redis, KEYS, PARTS) as anna:
        lease(100)
        anna.start()
        fleet.until(lambda: re.search(r"waiting \d+ s for the end of its lease", anna.text()), "reported", [anna])
        lease(0)
        fleet.all_learned(redis, [anna], ["anna"])
        assert fleet.status(anna)["adopted"] == KEYS and len(fleet.learned(anna.directory)) == 100


def test_stopped_alone(directory):
    """Stopped for longer than the lease, it continues."""
    with brokers.Redis(directory) as redis:
        fleet.stopped_alone(directory, redis, KEYS, PARTS)


def test_made_again(directory):
    """Streams that were created again with lower IDs: their readers end, and name the group and a
    way out."""
    with one_that_learned(directory) as (redis, anna):
        redis.ask("EVAL", consuming.MAKE_AGAIN, "1", "s.1", "1-1", "example", json.dumps({"stream": "s.1", "x": [1]}))
        fleet.until(lambda: "s.1 ends at 1-1, but" in anna.text(), "reported", [anna])
        redis.ask("XADD", "s.1", "1-2", "example", json.dumps({"stream": "s.1", "x": [2]}))
        assert anna.process.wait(running.LIMIT) == UNAVAILABLE, anna.text()
        assert "the group fleet has learned" in anna.text(), anna.text()
        assert "use another examples.redis.group" in anna.text(), anna.text()


def test_the_state_of_another_stream(directory):
    """A state that Redis has under another stream's name is not adopted: it may belong to another
    daemon."""
    with brokers.Redis(directory) as redis:
        with fleet.Member(directory, redis.url, "anna") as anna:
            learn(redis, range(100), anna)
            assert anna.stop() == 0
        mine, other = [f"key-{n}" for n in range(KEYS) if consuming.partition_of(f"key-{n}", PARTS) == 1][:2]
        redis.ask("EVAL", "return redis.call('HSET', KEYS[1], ARGV[2], redis.call('HGET', KEYS[1], ARGV[1]))",
                  "1", "runnel:{fleet}:states:1", mine, other)
        with fleet.Member(directory, redis.url, "bert") as bert:
            fleet.until(lambda: fleet.status(bert)["partitions"] == PARTS, "read", [bert])
            assert fleet.status(bert)["adopted"] == KEYS - 1
            assert f"stream '{other}' starts from scratch here: the state belongs to another stream" in bert.text(), bert.text()
            assert not bert.request("export", stream=other)[0]["ok"] and bert.request("export", stream=mine)[0]["ok"]


def test_alone_before(directory):
    """A daemon in a fleet does not learn again what it has learned before without a fleet."""
    mine = pathlib.Path(directory) / "anna"
    mine.mkdir()
    with brokers.Redis(directory) as redis:
        fleet.add(redis, range(50), KEYS, PARTS)
        lone = fleet.text(mine, redis.url, "anna").replace("fleet: {lease: 1}", "")
        with running.Daemon(mine, lone) as anna:
            running.wait_learned(anna, 50)
            fleet.until(lambda: (j := anna.ask("status")["journal"])["durable"] == j["position"], "on disk", [anna])
        for _ in range(2):  # the first attempt must not help the second
            fleet.ends(directory, redis, "anna", CONFIGURATION, "would learn all of it again")
        assert fleet.owners(redis) == []  # it has not joined


def test_a_lone_daemon_that_may_not_ask_for_the_time(directory):
    """It does not mistake an ended lease for a running one."""
    with brokers.Redis(directory) as redis:
        fleet.add(redis, range(50), KEYS, PARTS)
        redis.ask("HSET", "runnel:{fleet}:fleet", "stream", "s")
        redis.ask("ZADD", "runnel:{fleet}:leases", "1", "anna")
        redis.ask("ACL", "SETUSER", "default", "-time")
        with fleet.Changed(directory, redis.url, "bert", change=("fleet: {lease: 1}", "")) as bert:
            running.wait_learned(bert, 50)


def test_a_lone_daemon(directory):
    """With the group of a running fleet it is rejected, or warned if it was first; after the fleet
    it begins at the fleet's end."""
    alone = {"change": ("fleet: {lease: 1}", "")}
    with one_that_learned(directory, lease=100) as (redis, anna):
        fleet.ends(directory, redis, "bert", CONFIGURATION, "daemon anna of the fleet fleet reads this stream",
                   "examples.redis.group", **alone)
        assert anna.stop() == 0
        with fleet.Changed(directory, redis.url, "bert", **alone) as bert:
            fleet.add(redis, range(100, 150), KEYS, PARTS)
            running.wait_learned(bert, 50)
            fleet.until(lambda: sorted(n for _, n in fleet.learned(bert.directory)) == list(range(100, 150)),
                        "in the journal", [bert])
            anna.start()
            fleet.until(lambda: "daemon anna of the fleet" in bert.text(), "warned", [anna, bert])
            fleet.add(redis, range(150, 200), KEYS, PARTS)
            running.wait_learned(bert, 100)


def test_adopted_by_hand(directory):
    """Only the owner of its partition adopts a stream."""
    with brokers.Redis(directory) as redis, \
            fleet.Member(directory, redis.url, "anna") as anna, \
            fleet.Member(directory, redis.url, "bert") as bert:
        learn(redis, range(100), anna, bert)
        fleet.shared(redis, [anna, bert], ["anna", "anna", "bert", "bert"])
        half_each(anna, bert)
        owner = {"anna": (anna, bert), "bert": (bert, anna)}
        has, has_not = owner[fleet.owners(redis)[consuming.partition_of("key-0", PARTS)]]
        file = pathlib.Path(directory) / "key-0.state"

        def control(member, *words):
            done = subprocess.run([running.PROGRAM.with_name("runnel-ctl"), "-c", member.endpoint("control"),
                                   *words], capture_output=True,
                                  text=True, timeout=running.LIMIT, check=False)
            return done.returncode, done.stdout + done.stderr

        assert control(has, "export", file, "key-0")[0] == 0
        assert control(has, "adopt", file) == (0, "adopted stream 'key-0'\n")
        code, output = control(has_not, "adopt", file)
        assert code != 0 and "this daemon does not own in the fleet fleet" in output, output


def test_broker(directory):
    """A server that is not available yet, and one that requires a password."""
    with brokers.Redis(directory, "--requirepass", "secret") as redis:
        fleet.ends(directory, redis, "anna", NO_PERMISSION, "examples.redis.password_file")
    with brokers.Redis(directory) as redis:
        redis.kill()
        with fleet.Member(directory, redis.url, "bert") as bert:
            fleet.until(lambda: "fleet is not available" in bert.text(), "reported", [bert])
            assert fleet.status(bert)["partitions"] == 0
            redis.start()
            learn(redis, range(50), bert)
            redis.kill()
            fleet.until(lambda: fleet.status(bert)["away"] > 0, "away", [bert])
            redis.start()
            fleet.add(redis, range(50, 100), KEYS, PARTS)
            running.wait_learned(bert, 100)
            fleet.until(lambda: fleet.status(bert)["away"] == 0, "back", [bert])
            assert bert.text().count("fleet is available again") == 2


def test_missing_permissions(directory):
    """Whether a renewal or a job fails first, the daemon ends with the same exit code."""
    for n, command in enumerate(("evalsha", "hget", "hset")):
        place = directory / str(n)
        place.mkdir()
        with brokers.Redis(place) as redis, fleet.Member(place, redis.url, "anna") as anna:
            learn(redis, range(100), anna)
            redis.ask("ACL", "SETUSER", "default", f"-{command}")
            with contextlib.suppress(RuntimeError):
                fleet.add(redis, range(100, 200), KEYS, PARTS)
            assert anna.process.wait(running.LIMIT) == NO_PERMISSION, anna.text()


def test_leases_that_differ(directory):
    """The end of a lease depends on the daemon whose lease it is: the others and runnel-fleet
    report it."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna", lease=2) as anna, \
            fleet.Member(directory, redis.url, "bert", lease=1) as bert:
        fleet.until(lambda: "anna has fleet.lease 2, this daemon 1" in bert.text(), "reported", [anna, bert])
        fleet.waits_for(redis, "fleet.lease differs: 2 (anna), 1 (bert)")


def test_a_state_that_is_missing(directory):
    """With a dead owner: the new owner continues without the state, and no daemon ends."""
    with one_that_learned(directory) as (redis, anna):
        anna.kill()
        keys = redis.ask("HKEYS", "runnel:{fleet}:states:1")
        assert redis.ask("HDEL", "runnel:{fleet}:states:1", keys[0]) == 1
        with fleet.Member(directory, redis.url, "bert") as bert:
            learn(redis, range(100, 200), bert)
            assert f"{len(keys) - 1} of {len(keys)} states" in bert.text()
            killed_once(200, anna, bert)
            assert len(redis.ask("HKEYS", "runnel:{fleet}:states:1")) == len(keys)


def test_another_name(directory):
    """A state directory whose daemon has another name now: this is neither an absence nor a loss of
    data."""
    with one_that_learned(directory, lease=5) as (redis, anna):
        anna.kill()
        with fleet.Changed(directory, redis.url, "anna", lease=5, change=("name: anna", "name: bert")) as bert:
            fleet.add(redis, range(100, 200), KEYS, PARTS)
            fleet.all_learned(redis, [bert], ["bert"])
            killed_once(200, bert)
            assert "is no longer assigned to this daemon" in bert.text()
            assert "has lost acknowledged data" not in bert.text() and "away for longer" not in bert.text(), bert.text()


def test_deleted_entries_do_not_wait(directory):
    """Entries that are deleted before they are read: all of them, or the newest one."""
    with one_that_learned(directory) as (redis, anna):
        for gone in ("XTRIM", "s.1", "MAXLEN", "0"), ("XDEL", "s.2", "9999999999999-3"):
            redis.ask("EVAL", "for n = 1, 3 do redis.call('XADD', KEYS[1], '9999999999999-' .. n, 'example', '[1]') end "
                      "return redis.call(unpack(ARGV))", "1", gone[1], *gone)
        nothing_waits(redis, anna)


def nothing_waits(redis, anna):
    def rest():
        found = fleet.look(redis)
        return {part[name] for part in found["partitions"] for name in ("waiting", "uncommitted")} | set(
            anna.ask("status")["consumer"]["lags"].values())

    fleet.until(lambda: rest() == {0}, "nothing waits", [anna])


def test_recreated_streams_do_not_wait(directory):
    """Streams that are created again with higher or lower IDs, and others whose IDs and counts are
    set."""
    with one_that_learned(directory) as (redis, anna):
        again = ("redis.call('DEL', KEYS[1]) for n = 1, 200 do "
                 "redis.call('XADD', KEYS[1], ARGV[1] .. n, 'example', '{\"x\": [1]}') end return 1")
        redis.ask("EVAL", again, "1", "s.0", "9999999999999-")
        redis.ask("EVAL", again, "1", "s.1", "1-")
        redis.ask("XTRIM", "s.2", "MAXLEN", "0")
        for stream, last in ("s.2", "5-0"), ("s.3", "9999999999999-0"):
            redis.ask("XSETID", stream, last, "ENTRIESADDED", "1000", "MAXDELETEDID", "0-0")
        running.wait_learned(anna, 300)
        nothing_waits(redis, anna)
        for stream in "s.0", "s.3":
            redis.ask("XADD", stream, "*", "example", json.dumps({"x": [1]}))
        running.wait_learned(anna, 302)
        nothing_waits(redis, anna)


def test_a_deleted_stream_does_not_wait(directory):
    """With unread entries."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna") as anna:
        anna.ask("pause")
        redis.pipeline([("XADD", "s.1", "*", "example", json.dumps({"x": [n]})) for n in range(3000)])
        fleet.until(lambda: anna.ask("status")["consumer"]["lags"].get("s.1") == 3000, "waiting", [anna])
        redis.ask("DEL", "s.1")
        anna.ask("resume")
        nothing_waits(redis, anna)


def test_a_broker_that_forgets(directory):
    """A warning at the join that the server does not keep its data; no warning for one that does."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna") as anna:
        fleet.until(lambda: "learned here from now on" in anna.text(), "reported", [anna])
        assert "appendonly" not in anna.text() and "noeviction" not in anna.text()
        redis.ask("CONFIG", "SET", "appendonly", "no")
        redis.ask("CONFIG", "SET", "maxmemory", "100mb")
        redis.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        with fleet.Member(directory, redis.url, "bert") as bert:
            fleet.until(lambda: "appendonly yes" in bert.text() and "policy noeviction" in bert.text(),
                        "reported", [anna, bert])
        redis.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        redis.ask("CONFIG", "SET", "maxmemory", "1")
        fleet.until(lambda: "server is full" in anna.text(), "full", [anna])
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        fleet.until(lambda: "fleet is available again" in anna.text(), "back", [anna])


def test_how_it_is_called(directory):
    """Options without effect are rejected; a missing half of a login is named."""
    for output, words in [("exclude each other", ["--kafka", "127.0.0.1:1", "--url", "unix:///none"]),
                        ("requires --kafka", ["--setting", "acks=all"])]:
        done = subprocess.run([fleet.TOOL, *words], capture_output=True, text=True, timeout=running.LIMIT, check=False)
        assert done.returncode == USAGE and output in done.stderr, done
    with brokers.Redis(directory, "--requirepass", "secret") as redis:
        code, output = fleet.act(redis, "--user", "anna")
        assert code == 77 and "see --user and --password-file" in output, output


def test_names_of_other_fleets(directory):
    """Without a group, or with an unknown one, the message names some groups."""
    with brokers.Redis(directory) as redis:
        assert "no daemon has joined it; set another --group" in fleet.act(redis, "status")[1]
        redis.ask("HSET", "runnel:{pumps}:fleet", "stream", "x")
        redis.ask("HSET", "runnel:{pumps}:fleet:other", "stream", "x")
        assert fleet.act(redis, "status") == (UNAVAILABLE, "runnel-fleet: fleet not found: fleet: no daemon has joined "
                                              "it; existing fleet: pumps (set --group)\n")
        for n in range(6):
            redis.ask("HSET", f"runnel:{{tanks{n}}}:fleet", "stream", "x")
        output = fleet.act(redis, "drain", "anna")[1]
        assert re.search(r"existing fleets: (\w+, ){5}\.\.\. \(set --group\)$", output), output


def pinned(member, cpus):
    """Its threads that are pinned to CPUs."""
    found = []
    for thread in os.listdir(f"/proc/{member.process.pid}/task"):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            found += [int(thread)] if os.sched_getaffinity(int(thread)) != cpus else []
    return found


def test_pinned(directory):
    """Only the learning thread is pinned, even if it has replayed the journal before others start."""
    cpus = os.sched_getaffinity(0)
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna", every=0) as anna:
        anna.kill()
        anna.path.write_text(anna.path.read_text().replace("seconds: 1", "seconds: 0"))
        anna.arguments = ["--set", "learning.threads=1", "--set", f"learning.pin=[{min(cpus)}]"]
        anna.start()
        fleet.add(redis, range(100), KEYS, PARTS)
        running.wait_learned(anna, 100)
        anna.kill()
        anna.start()
        fleet.until(lambda: fleet.status(anna)["partitions"] == PARTS, "partitions", [anna])
        stays = [anna.process.pid] if len(cpus) > 1 else []
        fleet.until(lambda: pinned(anna, cpus) == stays, "pinned", [anna])


def test_server_that_lost_all(directory):
    """All daemons start with the server again, report it, and join again."""
    with one_that_learned(directory) as (redis, anna):
        redis.ask("FLUSHALL")
        fleet.until(lambda: "joining again" in anna.text(), "reported", [anna])
        fleet.shared(redis, [anna], ["anna"] * PARTS)
        fleet.until(lambda: anna.ask("status")["examples"] == 0, "left out", [anna])
        learn(redis, range(100), anna)
        assert anna.ask("status")["examples"] == 100


def comes_back(redis, anna, bert, count):
    """Bert has learned again what the server has lost, and continues; anna returns late."""
    fleet.all_learned(redis, [bert], ["bert"])
    anna.start()
    half_each(anna, bert)
    learn(redis, range(count, count + 100), anna, bert)
    killed_once(count + 100, anna, bert)


def test_the_newest_writes_are_lost(directory):
    """The server restarts with less than it had acknowledged, while the daemon that learned is
    away."""
    for part in 0, 0.5, 0.9:  # share of the written data that remains
        place = directory / str(part)
        place.mkdir()
        with brokers.Redis(place) as redis:
            fleet.add(redis, range(400), KEYS, PARTS)
            file, before = written(redis)
            with fleet.Member(place, redis.url, "anna", every=20) as anna:
                fleet.all_learned(redis, [anna], ["anna"])
                anna.kill()
                put_back(redis, file, before + int(part * (written(redis)[1] - before)))
                with fleet.Member(place, redis.url, "bert") as bert:
                    comes_back(redis, anna, bert, 400)


def test_a_fleet_whose_keys_are_lost(directory):
    """Twice, the second time after partitions have moved: nothing is learned twice, and no claim
    has the number of another partition's."""
    with one_that_learned(directory, 300) as (redis, anna):
        assert anna.stop() == 0
        anna.start()  # its claims begin at its end
        learn(redis, range(300, 400), anna)
        anna.kill()
        redis.ask("DEL", *redis.ask("KEYS", "runnel:{fleet}:*"))
        with fleet.Member(directory, redis.url, "bert") as bert:
            comes_back(redis, anna, bert, 400)


def test_handed_over_before_a_loss(directory):
    """Redis loses partitions that a daemon had handed over, or everything: their former owner rolls
    back."""
    for lost in "all", "the newest":
        place = directory / lost
        place.mkdir()
        with brokers.Redis(place) as redis, fleet.Member(place, redis.url, "anna", lease=10) as anna:
            learn(redis, range(200), anna)
            before = learn_meanwhile(redis, range(200, 300), anna)
            with fleet.Member(place, redis.url, "bert", lease=10) as bert:
                half_each(anna, bert)
                if lost == "all":
                    redis.ask("DEL", *redis.ask("KEYS", "runnel:{fleet}:*"))
                else:
                    put_back(redis, *before)
                learn(redis, range(300, 400), anna, bert)
                assert "partitions that this daemon had handed over" in anna.text(), anna.text()
                killed_once(400, anna, bert)
                fleet.same_bits(anna, place, KEYS)


def test_stopped_while_it_leaves_out(directory):
    """Handed-over partitions that Redis has lost: after a stop in the middle, the next start
    completes the rollback."""
    count = 20000
    with one_that_learned(directory, 200, lease=10) as (redis, anna):
        before = learn_meanwhile(redis, range(200, count), anna)
        with fleet.Member(directory, redis.url, "bert", lease=10) as bert:
            half_each(anna, bert)
            bert.kill()
            put_back(redis, *before)
            fleet.until(lambda: "partitions that this daemon had handed over" in anna.text(), "reported", [anna])
            assert anna.stop() == 0, anna.text()
            anna.start()
            bert.start()
            fleet.all_learned(redis, [anna, bert], ["anna", "bert"])
            killed_once(count, anna, bert)


def test_a_commit_that_is_lost(directory):
    """The daemon whose claims Redis still has commits again, with all states that have changed
    since."""
    with one_that_learned(directory, 200, lease=10) as (redis, anna):
        put_back(redis, *learn_meanwhile(redis, range(200, 300), anna))
        fleet.all_learned(redis, [anna], ["anna"])
        assert len(is_published(redis, [anna])) == KEYS


def test_a_commit_on_one_that_is_lost(directory):
    """A commit waits for Redis with the states changed since the previous one, which Redis then
    loses: the states are not applied to older ones, and the daemon sends all of them."""
    with brokers.Redis(directory) as redis, fleet.Member(directory, redis.url, "anna", lease=10) as member:
        anna = quiet(member)
        fleet.add(redis, range(200), KEYS, PARTS)
        running.wait_learned(anna, 200)
        is_published(redis, [anna])
        by_part = {}
        for key in (f"key-{n}" for n in range(KEYS)):
            by_part.setdefault(consuming.partition_of(key, PARTS), []).append(key)
        part, keys = max(by_part.items(), key=lambda item: len(item[1]))

        def learn_one(key, count):
            redis.ask("XADD", f"s.{part}", "*", "example", json.dumps({"stream": key, "x": [count]}))
            running.wait_learned(anna, count)

        learn_one(keys[0], 201)
        before = written(redis)
        is_published(redis, [anna])
        learn_one(keys[1], 202)
        redis.kill()
        anna.ask("checkpoint")  # its commit waits
        os.truncate(*before)
        redis.start()
        is_published(redis, [anna])


def averaging(directory, redis, name, lease):
    """A daemon that averages every 50 examples."""
    return fleet.Member(directory, redis.url, name, parts=2, lease=lease, average=50)


def test_idle_daemon(directory):
    """A daemon without messages lets the others continue long before its lease ends: within 20 s
    instead of 40; an eighth of that would do."""
    with brokers.Redis(directory) as redis:
        members = [averaging(directory, redis, name, lease=40) for name in ("anna", "bert")]
        fleet.shared(redis, members, ["anna", "bert"])
        part = fleet.owners(redis).index("anna")
        for n in range(60):
            redis.ask("XADD", f"s.{part}", "*", "example", json.dumps({"stream": f"s.{part}", "x": [n]}))
        fleet.until(lambda: members[0].ask("status")["examples"] == 60, "goes on", members, limit=20)
        assert redis.ask("HGET", "runnel:{fleet}:closed", "1") == "anna\n"


def test_average(directory):
    """After the same count of examples both daemons have the same parameters, and a replay of each
    journal leads to them."""
    keys = [next(n for n in range(100) if consuming.partition_of(f"key-{n}", 2) == part)
            for part in range(2)]
    with brokers.Redis(directory) as redis:
        members = [averaging(directory, redis, name, lease=60) for name in ("anna", "bert")]
        fleet.shared(redis, members, ["anna", "bert"])
        for n in range(50):
            for part, key in enumerate(keys):
                redis.ask("XADD", f"s.{part}", "*", "example",
                          json.dumps({"stream": f"key-{key}", "x": [(1 + part) * (n % 7)]}))
        fleet.averaged_once(members, 50)
        for member in members:
            fleet.same_bits(member, directory, 100)
            shutil.rmtree(directory / f"last-{member.name}")
            fleet.sent_again(member, directory, 100)


def test_status_table(directory):
    with brokers.Redis(directory) as redis:
        with fleet.Member(directory, redis.url, "anna") as anna, fleet.Member(directory, redis.url, "bert") as bert:
            fleet.status_table(redis, anna, bert)
        redis.ask("HSET", "runnel:{fleet}:daemons", "carl", json.dumps({"lease": 1000}))
        redis.ask("ZADD", "runnel:{fleet}:leases", str(int(1000 * (time.time() + 400))), "carl")
        redis.ask("HSET", "runnel:{fleet}:owners", "0", "99 carl")
        output = fleet.act(redis, "status")[1]
        assert re.search(r"no data from carl for 10 min.* its lease ends in 6 min.* take its 1 partition$", output), output


if __name__ == "__main__":
    cases.run(globals())
