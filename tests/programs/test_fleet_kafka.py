#!/usr/bin/python3
"""Fleets on Kafka, with librdkafka's mock cluster: one daemon learns each message, once, even after
kills; streams move with their states; daemons that cannot join get the reason."""
import json
import signal

import brokers
import cases
import fleet
import kafka
import running

brokers.need("kafka")
CONFIGURATION, USAGE, UNAVAILABLE, NO_PERMISSION = 78, 64, 69, 77
KEYS, PARTS = 20, 4


def test_kills(directory):
    """Three daemons are killed, stopped and ended at random moments, and the cluster is sometimes
    away."""
    with fleet.Kafka() as cluster:
        kills = fleet.Kills(directory, cluster, ["anna", "bert", "carl"], seed=5, parts=PARTS)
        kills.add(300)
        for _ in range(3):
            kills.some_progress()
            kills.add(60)
            kills.one()
        assert sum(kills.settle().values()) == kills.added
        kills.check_bits()


def test_drained_and_back(directory):
    """A daemon that joins gets its share with the states; a drained one hands over everything, and
    takes part again later."""
    with fleet.Kafka() as cluster, fleet.Member(directory, cluster, "anna") as anna:
        fleet.add(cluster, range(200), KEYS, PARTS)
        fleet.all_learned(cluster, [anna], ["anna"])
        with fleet.Member(directory, cluster, "bert") as bert:
            fleet.shared(cluster, [anna, bert], ["anna", "anna", "bert", "bert"])
            fleet.until(lambda: fleet.status(bert)["partitions"] == 2, "read", [anna, bert])
            owners = fleet.owners(cluster)
            moved = [key for key in range(KEYS) if owners[kafka.partition_of(f"key-{key}", PARTS)] == "bert"]
            assert fleet.status(bert)["adopted"] == len(moved), fleet.status(bert)
            code, output = fleet.act(cluster, "drain", "carl")
            assert code == USAGE and "daemon not found: carl" in output, output
            fleet.add(cluster, range(200, 300), KEYS, PARTS)
            fleet.status_table(cluster, anna, bert)
            fleet.once([anna, bert], 300, KEYS)


def test_learned_by_a_dead_daemon(directory):
    """A daemon is stopped before it has committed a message; another begins at the first message.
    When it returns, it rolls everything back."""
    with fleet.Kafka() as cluster:
        # It writes checkpoints only on request.
        anna = fleet.Changed(directory, cluster, "anna", every=0, change=("seconds: 1", "seconds: 0"))
        fleet.shared(cluster, [anna], ["anna"] * PARTS)
        anna.ask("checkpoint")  # "nothing learned" is stored, and not confused with the first message
        fleet.add(cluster, range(100), KEYS, PARTS)
        running.wait_learned(anna, 100)
        anna.process.send_signal(signal.SIGSTOP)
        with fleet.Member(directory, cluster, "bert") as bert:
            fleet.all_learned(cluster, [bert], ["bert"])
            assert fleet.status(bert)["adopted"] == 0 and bert.ask("status")["examples"] == 100
            anna.process.send_signal(signal.SIGCONT)
            fleet.until(lambda: fleet.status(anna)["replayed"] == 100, "left out", [anna, bert])
            assert anna.ask("status")["examples"] == 0
            fleet.shared(cluster, [anna, bert], ["anna", "anna", "bert", "bert"])
            anna.kill()
            bert.kill()
            fleet.once([anna, bert], 100, KEYS)
            assert fleet.left_out(anna.directory) == 100


def litter(cluster):
    huge = "9" * 30
    texts = ["{", "null", "[]", "17", '"text"', "{}", '{"claim":"1"}', '{"round":-1,"members":{}}',
             '{"round":1,"members":[]}', '{"round":1,"span":7}', f'{{"claim":{huge}}}', f'{{"lease":1e300,"x":{huge}}}',
             '{"lease":"long","info":[],"kind":17}', "[" * 3000]
    keys = ("p", "p0", "p1x", "p-1", f"p{huge}", "r", "r7", "azoe", "dzoe", "e", "q", "\u00e9", "x" * 200)
    cluster.load("fleet.claims", [(0, key, text) for text in texts for key in keys])


def test_strangers(directory):
    """A daemon with another configuration, topic or name ends with an error; a message in the wrong
    partition is a dead letter; one without a key belongs to its partition. Other records in the
    topic of claims have no effect."""
    with fleet.Kafka() as cluster, fleet.Member(directory, cluster, "anna") as anna:
        litter(cluster)
        cluster.ask(f"topic other {PARTS}")
        fleet.shared(cluster, [anna], ["anna"] * PARTS)
        fleet.ends(directory, cluster, "bert", CONFIGURATION, "another configuration", "digest",
                   change=("size: 4", "size: 5"))
        fleet.ends(directory, cluster, "carl", CONFIGURATION, "use one group per fleet",
                   change=("topic: s,", "topic: other,"))
        fleet.ends(directory, cluster, "dora", CONFIGURATION, "another configuration", "crc32",
                   change=("topic: s,", "topic: s, partitioner: crc32,"))
        fleet.ends(directory, cluster, "emil", CONFIGURATION, "another daemon with the name anna",
                   change=("name: emil", "name: anna"))
        litter(cluster)
        home = kafka.partition_of("key-0", PARTS)
        message = json.dumps({"stream": "key-0", "x": [1]})
        cluster.load("s", [(home, "key-0", message), ((home + 1) % PARTS, "key-0", message),
                           (2, "any", json.dumps({"x": [1]}))])
        fleet.until(lambda: anna.ask("status")["consumer"]["dead"] == 1, "dead letters", [anna])
        running.wait_learned(anna, 2)
        assert f"the stream belongs to partition s[{home}]" in anna.text()
        assert anna.request("export", stream="s[2]")[0]["ok"]
        assert [daemon["name"] for daemon in fleet.look(cluster)["daemons"]] == ["anna"]


def test_copies(directory):
    """Two daemons with one name and a copied state directory: one of them ends."""
    with fleet.Kafka() as cluster:
        fleet.two_copies(directory, cluster, KEYS, PARTS)


def test_an_emptied_directory(directory):
    """The daemon waits for the end of its earlier process's lease."""
    with fleet.Kafka() as cluster, fleet.emptied(directory, cluster, KEYS, PARTS) as anna:
        anna.start()
        fleet.all_learned(cluster, [anna], ["anna"])
        assert fleet.status(anna)["adopted"] == KEYS and len(fleet.learned(anna.directory)) == 100


def test_stopped_alone(directory):
    """Stopped for longer than the lease, it continues."""
    with fleet.Kafka() as cluster:
        fleet.stopped_alone(directory, cluster, KEYS, PARTS, turns=1)


def records(cluster, group):
    """The newest of its claims, by key."""
    newest = {}
    for line in cluster.ask(f"dump {group}.claims 1"):
        _, key, record = line.split(" ", 2)
        newest[key] = json.loads(record or "null")
    return newest


def learned_by_zoe(cluster, group, part, learned, **members):
    """A record of zoe in the fleet of another topic: the partition is learned up to there and has
    no owner."""
    before = records(cluster, group).get(f"p{part}") or {"claim": 0, "serial": 0}
    record = before | {"claim": before["claim"] + 1, "seen": before["claim"], "base": before["serial"], "serial": 1,
                       "learned": learned, "offset": learned - 1, "streams": 0, "free": True, "daemon": "zoe",
                       "id": "z", "spans": []} | members
    return 0, f"p{part}", json.dumps(record, separators=(",", ":"))


def test_beyond_the_end(directory):
    """A record has offsets that the topic of examples or states does not have, since it was created
    again. A daemon that takes the partition ends with an error and has learned nothing twice. A
    running daemon waits: the state may be temporary."""
    with fleet.Kafka() as cluster:
        fleet.add(cluster, range(100), KEYS, PARTS)
        ends = [len([n for n in range(100) if kafka.partition_of(f"key-{n % KEYS}", PARTS) == part])
                for part in range(PARTS)]
        cluster.make("plant", PARTS)
        cluster.load("plant.claims", [learned_by_zoe(cluster, "plant", 0, 1001)])
        cluster.make("wide", PARTS)
        cluster.load("wide.claims", [learned_by_zoe(cluster, "wide", 0, 1, streams=1, spans=[[7, 9, 170]])])
        with fleet.Member(directory, cluster, "anna") as anna, fleet.Member(directory, cluster, "bert") as bert, \
                fleet.Changed(directory, cluster, "carl", change=("group: fleet", "group: plant")) as carl, \
                fleet.Changed(directory, cluster, "dora", change=("group: fleet", "group: wide")) as dora:
            fleet.shared(cluster, [anna, bert], ["anna", "anna", "bert", "bert"])
            fleet.all_learned(cluster, [anna, bert], ["anna", "bert"])
            part = fleet.owners(cluster).index("bert")
            message = learned_by_zoe(cluster, "fleet", part, ends[part] + 2)
            bert.kill()
            cluster.load("fleet.claims", [message])
            fleet.until(lambda: f"s[{part}] ends at offset {ends[part]}, but the group fleet has learned it up to "
                        f"{ends[part] + 2}:" in anna.text(),
                        "waits", [anna])
            key = next(key for key in range(KEYS) if kafka.partition_of(f"key-{key}", PARTS) == part)
            fleet.add(cluster, [key + KEYS * n for n in range(5, 8)], KEYS, PARTS)  # it learns the third
            fleet.until(lambda: (f"key-{key}", key + 7 * KEYS) in fleet.learned(anna.directory), "goes on", [anna])
            fleet.once([anna, bert], 100, KEYS)
            assert carl.process.wait(running.LIMIT) == UNAVAILABLE, carl.text()
            assert (f"s[0] ends at offset {ends[0]}, but the group plant has learned it up to 1001"
                    in carl.text()), carl.text()
            assert "use another examples.kafka.group" in carl.text(), carl.text()
            assert fleet.learned(carl.directory) == []
            assert dora.process.wait(running.LIMIT) == UNAVAILABLE, dora.text()
            assert ("topic wide.streams, partition 0 has lost messages of the fleet wide"
                    in dora.text()), dora.text()
            assert "use another examples.kafka.group" in dora.text(), dora.text()


def test_moved(directory):
    """A fleet of an older version continues after its commits once it is moved, and not before."""
    with fleet.Kafka() as cluster:
        fleet.add(cluster, range(100), KEYS, PARTS)
        cluster.ask("topic fleet.fleet 1")
        homes = [kafka.partition_of(f"key-{n % KEYS}", PARTS) for n in range(100)]
        for part in range(PARTS):
            cluster.ask(f"commit fleet s {part} {homes.count(part)}")
        fleet.ends(directory, cluster, "anna", CONFIGURATION, "an older runnel", "--group fleet move s once")
        code, output = fleet.act(cluster, "move", "s")
        assert code == 0 and "4 partitions of s" in output, output
        code, output = fleet.act(cluster, "move", "s")
        assert code == USAGE and "nothing to move" in output, output
        assert '"v":99' in cluster.ask("dump fleet.fleet 1")[-1]  # a daemon of the older version ends
        with fleet.Member(directory, cluster, "anna") as anna:
            fleet.add(cluster, range(100, 140), KEYS, PARTS)
            fleet.all_learned(cluster, [anna], ["anna"])
            assert sorted(n for _, n in fleet.learned(anna.directory)) == list(range(100, 140))


def test_topics(directory):
    """Without its topics a fleet does not exist; access can be denied; other partition counts
    belong to another fleet; names are checked."""
    with fleet.Kafka() as cluster:
        code, output = fleet.act(cluster, "status", group="none")
        assert code == UNAVAILABLE and "fleet not found: none" in output, output
        cluster.ask("wrong plant.claims 29")  # TOPIC_AUTHORIZATION_FAILED
        fleet.ends(directory, cluster, "anna", NO_PERMISSION, "access denied to the topic plant.claims", "examples.kafka.user",
                   change=("group: fleet", "group: plant"))
        cluster.ask("topic wide.claims 2")
        fleet.ends(directory, cluster, "bert", CONFIGURATION, "wide.claims has 2 partitions",
                   change=("group: fleet", "group: wide"))
        fleet.ends(directory, cluster, "carl", CONFIGURATION, "letters, digits",
                   change=("group: fleet", "group: a/b"))


def test_away(directory):
    """A cluster that is away is reported once, and the daemon waits. While the cluster is stopped
    (SIGSTOP), a daemon still ends on request. Nothing is lost or learned twice. If access is denied
    later, the daemon ends and names the missing permission."""
    with fleet.Kafka() as cluster, fleet.Member(directory, cluster, "bert") as bert:
        fleet.add(cluster, range(50), KEYS, PARTS)
        fleet.all_learned(cluster, [bert], ["bert"])
        cluster.kill()
        fleet.until(lambda: fleet.status(bert)["away"] > 0, "away", [bert])
        cluster.start()
        fleet.add(cluster, range(50, 100), KEYS, PARTS)
        running.wait_learned(bert, 100)
        fleet.until(lambda: fleet.status(bert)["away"] == 0, "back", [bert])
        assert bert.text().count("fleet is available again") == 1
        fleet.add(cluster, range(100, 400), KEYS, PARTS)
        running.wait_learned(bert, 110)
        cluster.process.send_signal(signal.SIGSTOP)
        try:
            assert bert.stop() == 0, bert.text()
        finally:
            cluster.process.send_signal(signal.SIGCONT)
        bert.start()
        fleet.add(cluster, range(400, 500), KEYS, PARTS)
        fleet.all_learned(cluster, [bert], ["bert"])
        cluster.ask("refuse 1 29")  # Fetch, TOPIC_AUTHORIZATION_FAILED
        assert bert.process.wait(running.LIMIT) == NO_PERMISSION, (bert.process.returncode, bert.text())
        assert "to the topic fleet.claims: the user needs the operation Read" in bert.text(), bert.text()
        fleet.once([bert], 500, KEYS)


def test_average(directory):
    """After the same count of examples both daemons have the same parameters, and a replay of each
    journal leads to them."""
    keys = [next(n for n in range(100) if kafka.partition_of(f"key-{n}", 2) == part) for part in range(2)]
    with fleet.Kafka(2) as cluster:
        members = [fleet.Member(directory, cluster, name, parts=2, average=50)
                   for name in ("anna", "bert")]
        fleet.shared(cluster, members, ["anna", "bert"])
        cluster.load("s", [(part, f"key-{key}", json.dumps({"stream": f"key-{key}", "x": [(1 + part) * (n % 7)]}))
                           for n in range(50) for part, key in enumerate(keys)])
        fleet.averaged_once(members, 50)
        for member in members:
            fleet.same_bits(member, directory, 100)


if __name__ == "__main__":
    cases.run(globals())
