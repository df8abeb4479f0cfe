"""Measures Redis for tools/figures/scale: microseconds of the thread that executes commands
(INFO cpu) and bytes of memory and log, for the requests of a fleet: entries of streams, states,
and the scripts of src/cluster/fleet_scripts.c."""
import pathlib
import re
import tempfile

import shared

import brokers

ROUNDS = 3
BATCH = 1000
BLOBS = (512, 4096, 32768)  # bytes


def message(numbers):
    """An example with `numbers` numbers and targets, with a place for its stream's number."""
    text = ",".join(f"{(7 * n % 11 - 5) * 1.2345:.4f}" for n in range(numbers))
    return '{"x":[%s],"y":[%s],"stream":"k%%08d"}' % (text, text)


MESSAGES = {"8": message(8), "32": message(32)}
DAEMONS, PARTITIONS = 1000, 16384
LEASE_MS = 10**9  # never ends
SCRIPTS = "src/cluster/fleet_scripts.c"
INFO = '{"address":"tcp://10.0.0.%d:5572","examples":123456789,"rate":10000.0,"streams":100000}'


class Redis(brokers.Redis):
    """A server with a common setting for many messages: synced each second."""

    def __init__(self, directory):
        super().__init__(directory, "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")

    def used(self):
        """Seconds used by the thread that executes commands."""
        text = self.ask("INFO", "cpu")
        return sum(float(re.search(rf"used_cpu_{kind}_main_thread:([\d.]+)", text)[1])
                   for kind in ("user", "sys"))

    def memory(self):
        return int(re.search(r"used_memory:(\d+)", self.ask("INFO", "memory"))[1])

    def log_bytes(self):
        return sum(path.stat().st_size for path in self.directory.rglob("*.aof"))

    def cost(self, commands, count, good=lambda reply: True):
        """Microseconds of that thread per `count`: the cheapest of some rounds. good: whether a
        reply is valid for the measurement."""
        rounds = []
        for _ in range(ROUNDS):
            before = self.used()
            wrong = [reply for reply in self.pipeline(commands) if not good(reply)]
            assert not wrong, (commands[0], wrong[0])
            rounds.append(1e6 * (self.used() - before) / count)
        return min(rounds)


def entries(server, text):
    """Examples in a stream of Redis."""
    count, memory, log = 50 * BATCH, server.memory(), server.log_bytes()
    add = [("XADD", "s", "*", "payload", text % n) for n in range(count)]
    made = {"message_bytes": len(text % 0), "xadd_us": server.cost(add, count)}
    made["entry_memory_bytes"] = (server.memory() - memory) / (ROUNDS * count)
    made["entry_log_bytes"] = (server.log_bytes() - log) / (ROUNDS * count)
    made["xread_us"] = server.cost([("XREAD", "COUNT", BATCH, "STREAMS", "s", "0")] * 50, 50 * BATCH)
    server.ask("DEL", "s")
    return made


def states(server):
    """Hashes with states of some sizes, written and read like src/cluster/fleet_redis.c, 256 at
    once."""
    made, at_once = {}, 256
    for size in BLOBS:
        number, before = at_once * max(8, 2**25 // size // at_once), server.memory()
        put = []
        for first in range(0, number, at_once):
            put.append(["HSET", f"states:{size}"])
            for n in range(first, first + at_once):
                put[-1] += [f"k{n:08}", f"{n:08}" * (size // 8)]
        made[f"hset_us_{size}"] = server.cost(put, number)
        made[f"blob_memory_bytes_{size}"] = (server.memory() - before) / number
        made[f"hmget_us_{size}"] = server.cost(
            [("HMGET", *words[1::2][:1], *words[2::2]) for words in put[:8]], 8 * at_once)
        # A commit with staged states: src/cluster/fleet_scripts.c.
        made[f"merge_us_{size}"] = server.cost(
            [("EVAL", MERGE, 2, f"states:{size}", "states")], number)
        server.ask("DEL", f"states:{size}", "states")
    return made


MERGE = """
local cursor = nil
while cursor ~= '0' do
  local part = redis.call('HSCAN', KEYS[1], cursor or '0', 'COUNT', 256)
  for i = 1, #part[2], 2 do redis.call('HSET', KEYS[2], part[2][i], part[2][i + 1]) end
  cursor = part[1]
end"""


def scripts():
    """The texts of SCRIPTS by name, each with the shared words."""
    text = (shared.SOURCE / SCRIPTS).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)

    def literals(part):
        return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part)).replace("\\n", "\n").replace(
            "\\\\", "\\")
    words, rest = text.split("const char *const", 1)
    words = literals(words.split("fleet_script_words", 1)[1])
    parts = re.split(r"\[SCRIPT_(\w+)\] =", rest)
    return {name: words + literals(part) for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def leases(server, daemons=DAEMONS, partitions=PARTITIONS):
    """The scripts, in a fleet."""
    owned = partitions // daemons
    text, at = scripts(), "runnel:{fleet}:"

    def call(name, *words):
        return ("EVALSHA", server.ask("SCRIPT", "LOAD", text[name]), 1, at, *words)

    def names(n):
        """The names of a daemon, its directory, and its process."""
        return f"daemon-{n:04}", f"{n:032x}", f"{n + 1:032x}"
    joined = server.pipeline([call("JOIN", *names(n), LEASE_MS, "examples", partitions, "0" * 64, 0, INFO % n)
                              for n in range(daemons)])
    assert joined == [["ok", ""]] * daemons, joined

    def commit(n, partition, claim):
        return call("COMMIT", *names(n), 0, partition, claim, "425 123456789", 123456, 0, 0, 0, 0, "0 0")
    claims = []  # of each daemon, their numbers
    for n in range(daemons):
        mine = range(n * owned, partitions if n == daemons - 1 else (n + 1) * owned)
        taken = server.ask(*call("TAKE", *names(n), *[word for p in mine for word in (p, 0)]))
        assert len(taken) == 1 + 3 * len(mine), taken
        claims.append(list(zip(mine, taken[2::3], strict=True)))
        done = server.pipeline([commit(n, p, claim) for p, claim in claims[n]])
        assert done == ["ok"] * len(mine), done
    newest = int(server.ask("HGET", at + "fleet", "version"))
    made = {"daemons": daemons, "partitions": partitions, "commit_partitions": owned}
    made["renew_us"] = server.cost([call("RENEW", *names(n), LEASE_MS, INFO % n)
                                    for n in range(daemons)], daemons, lambda reply: int(reply) == newest)
    # Looks without a change, and per partition after the last takes of that many daemons.
    made["look_nothing_us"] = server.cost([call("LOOK", newest)] * 200, 200, lambda reply: not reply[7])
    made["look_change_us"] = server.cost([call("LOOK", newest - 20)] * 50, 50 * 20 * owned,
                                         lambda reply: len(reply[7]) >= 2 * 20 * owned)
    made["commit_us"] = server.cost([commit(0, p, claim) for p, claim in claims[0]] * 200, 200,
                                    lambda reply: reply == "ok")
    # A take of a partition that another has taken since the last look.
    made["take_us"] = server.cost(
        [call("TAKE", *names(0), *[word for p in range(owned) for word in (p, 0)])] * 200, 200,
        lambda reply: reply == ["ok"])
    assert server.ask(*call("ARRIVE", *names(0), 0, "parameters", LEASE_MS)) == "1"
    made["round_us"] = server.cost([call("ROUND", 1, LEASE_MS)] * 200, 200, lambda reply: reply == "")
    return made


def measure():
    with tempfile.TemporaryDirectory(prefix="scale-") as directory, \
            Redis(pathlib.Path(directory)) as server:
        return {"messages": {size: entries(server, text) for size, text in MESSAGES.items()},
                **states(server), "fleet": leases(server)}
