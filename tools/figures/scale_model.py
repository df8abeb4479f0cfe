"""Properties of a fleet without simulating time: keys and examples of a partition, streams in
memory, traffic of the broker and the disks, costs of averaging.

Rates are examples per second, sizes bytes, costs microseconds of one thread. tools/figures/scale
makes the tables; scale_fleet.py simulates daemons that join and leave."""
import dataclasses
import json
import pathlib

import numpy

COSTS = pathlib.Path(__file__).with_name("scale-costs.json")
HASH_BEGIN, HASH_PRIME = 0xCBF29CE484222325, 0x100000001B3  # FNV-1a, 64 bits: src/common/hash.h
HASH_MASK = 2**64 - 1
BLOCK_DIGITS = 4
BLOCK = 10**BLOCK_DIGITS
KEY = "k%08d"  # format of keys
US = 1e6
ENTRY_WORDS = 50  # bytes of XADD and XREAD for a message: id, names, lengths
SERVER_MEMORY = 64e9  # of a Redis server
RENEWALS_A_LEASE = 4  # at least: src/cluster/fleet_link.h
DISK = 100e6  # bytes a second, a daemon's share
MUCH = 0.25  # of a partition's states have changed: all are published, src/cluster/shares.c
STOPPED = 0.05  # of the time: the limit for checkpoints that stop learning


@dataclasses.dataclass(frozen=True)
class Cost:
    """The measured costs of the plan's network and broker."""
    learn: float         # of an example: of the daemon's busiest thread
    adopt: float         # of a stream's adopted state
    export: float        # of a published one
    blob: float          # bytes of a state
    memory: float        # bytes of a state in the learner
    blob_memory: float   # bytes of a blob in Redis
    hset: float          # of Redis, for a blob
    merge: float         # of Redis, for a changed one: merged with the previous one
    hmget: float
    xadd: float          # of Redis, for an example
    xread: float
    entry_memory: float  # bytes in Redis
    wire: float          # bytes of an example on the network
    log: float           # bytes in Redis's log
    journal: float       # bytes of an example in a daemon's journal
    disk: float          # bytes that it writes to the disk for it
    checkpoint: float    # bytes per second: the copy stops learning
    parameters: float    # bytes
    renew: float         # of Redis, for a lease
    look_nothing: float  # of reading the fleet's changes, without any
    look_change: float   # per changed partition
    take: float
    commit: float        # of a daemon's offsets
    round: float         # of asking whether a round of averaging is closed


def interpolate(measured, name, size):
    """A cost of Redis, measured for some sizes of blobs, for this size."""
    sizes = sorted(int(key.rsplit("_", 1)[1]) for key in measured if key.startswith(f"{name}_"))
    return float(numpy.interp(size, sizes, [measured[f"{name}_{s}"] for s in sizes]))


def read_costs(path=COSTS):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def cost_of(costs, network):
    """The measured figures as one daemon's costs."""
    made, redis = costs["networks"][network], costs["redis"]
    entry, fleet = redis["messages"][str(made["inputs"])], redis["fleet"]
    blob = made["checkpoint_bytes_a_stream"]
    learn = max(made["learning_thread_us"], made["other_thread_us"])
    return Cost(learn=learn, adopt=US * blob / made["resume_bytes_a_second"],
                export=US * blob / made["checkpoint_thread_bytes_a_second"],
                blob=blob, memory=made["memory_bytes_a_stream"],
                blob_memory=interpolate(redis, "blob_memory_bytes", blob),
                hset=interpolate(redis, "hset_us", blob),
                merge=interpolate(redis, "merge_us", blob), hmget=interpolate(redis, "hmget_us", blob),
                xadd=entry["xadd_us"], xread=entry["xread_us"],
                entry_memory=entry["entry_memory_bytes"], wire=entry["message_bytes"] + ENTRY_WORDS,
                log=entry["entry_log_bytes"], journal=made["journal_bytes"], disk=made["disk_bytes"],
                checkpoint=made["checkpoint_thread_bytes_a_second"], parameters=4 * made["parameters"],
                renew=fleet["renew_us"], look_nothing=fleet["look_nothing_us"], look_change=fleet["look_change_us"],
                take=fleet["take_us"], commit=fleet["commit_us"] / fleet["commit_partitions"],
                round=fleet["round_us"])


# ---- Keys and partitions ----


def fnv1a(text):
    """FNV-1a of 64 bits, as in src/common/hash.h."""
    value = HASH_BEGIN
    for byte in text.encode() if isinstance(text, str) else text:
        value = (value ^ byte) * HASH_PRIME & HASH_MASK
    return value


def blocks(keys):
    """Hashes of KEY % 0, 1, ..., in arrays of BLOCK: the common beginning of a block is hashed
    once."""
    digits = numpy.arange(BLOCK)
    last = [((digits // 10**place) % 10 + ord("0")).astype(numpy.uint64)
            for place in reversed(range(BLOCK_DIGITS))]
    prime = numpy.uint64(HASH_PRIME)
    for first in range(0, keys, BLOCK):
        begin = fnv1a((KEY % first)[:-BLOCK_DIGITS])
        value = numpy.full(BLOCK, begin, dtype=numpy.uint64)
        for byte in last:
            value = (value ^ byte) * prime
        yield first, value[:keys - first]


def shares(keys, exponents, partitions):
    """The number of keys of each partition, and for each exponent its share of the examples. ->
    (partitions,) and {exponent: (partitions,)}"""
    count = numpy.zeros(partitions, dtype=numpy.int64)
    weight = {exponent: numpy.zeros(partitions) for exponent in exponents}
    for first, value in blocks(keys):
        place = (value % numpy.uint64(partitions)).astype(numpy.int64)
        count += numpy.bincount(place, minlength=partitions)
        logarithm = numpy.log(numpy.arange(first + 1, first + 1 + len(value), dtype=float))
        for exponent in exponents:
            weight[exponent] += numpy.bincount(place, numpy.exp(-exponent * logarithm), partitions)
    return count, {exponent: w / w.sum() for exponent, w in weight.items()}


def ranks(keys, points=4000):
    """Ranks 1 .. keys in groups: (first rank, number), the first ones separately, the others by
    ratio."""
    edges = numpy.unique(numpy.concatenate([
        numpy.arange(1, min(keys, 1000) + 2),
        numpy.geomspace(min(keys, 1000) + 1, keys + 1, points).astype(numpy.int64)]))
    edges = edges[edges <= keys + 1]
    return edges[:-1], numpy.diff(edges)


def key_rates(keys, exponent, rate):
    """(rates, number of keys of each): descending, at the middle of each group of ranks."""
    first, number = ranks(keys)
    weight = numpy.power(first + (number - 1) / 2, -exponent)
    return rate * weight / (weight * number).sum(), number


def loads(load, daemons):
    """The load of each daemon when the partitions are given out in turn."""
    return numpy.bincount(numpy.arange(len(load)) % daemons, load, daemons)


# ---- States ----


def changed(rates, number, seconds):
    """Number of streams with an example in that many seconds."""
    return float((number * -numpy.expm1(-rates * seconds)).sum())


# ---- Traffic ----


def renewal(plan):
    """Seconds between renewals of a lease: fleet_renewal of src/cluster/fleet_link.h."""
    return min(plan.lease / RENEWALS_A_LEASE, plan.renewal)


def published(plan, rates, number):
    """Streams published per second."""
    streams = changed(rates, number, plan.publish)
    return (plan.keys if streams > MUCH * plan.keys else streams) / plan.publish


def writing(cost, share):
    """Redis's cost of one of them."""
    return cost.hset if share > MUCH else cost.hset + cost.merge


def demands(plan, cost, busiest=1.0):
    """Use of each resource at rest: {name: (use, limit, unit)}. `busiest`: the load of the
    busiest daemon as a multiple of the mean."""
    rates, number = key_rates(plan.keys, plan.exponent, plan.rate)
    streams, mean = plan.keys / plan.daemons, plan.rate / plan.daemons
    fresh = published(plan, rates, number)
    stall = (cost.blob / cost.checkpoint * streams / plan.publish
             + cost.export * fresh / plan.daemons / US)
    leases = plan.daemons * cost.renew / renewal(plan) + plan.partitions * cost.commit / plan.publish
    examples = plan.rate * (cost.xadd + cost.xread) / US / plan.shards
    share = changed(rates, number, plan.publish) / plan.keys
    states = fresh * writing(cost, share) / US / plan.shards
    # The previous states stay until the new ones are complete.
    copies = 2 if share > MUCH else 1
    look = cost.look_nothing + cost.look_change * plan.partitions / plan.daemons
    return {
        "one thread: the hottest key": (rates[0] * cost.learn / US, 1, "cores"),
        "one thread: the busiest daemon": (mean * busiest * cost.learn / US, 1, "cores"),
        "one thread: stopped by checkpoints": (stall, STOPPED, "of the time"),
        "daemon: states in memory": (streams * cost.memory, plan.daemon_memory, "bytes"),
        "daemon: disk": (mean * cost.disk + streams * cost.blob / plan.publish, DISK, "bytes/s"),
        "Redis: processor, examples": (examples, 1, "cores a server"),
        "Redis: processor, states": (states, 1, "cores a server"),
        "Redis: processor, both": (examples + states, 1, "cores a server"),
        "Redis: network in": ((plan.rate * cost.wire + fresh * cost.blob) / plan.shards,
                              plan.shard_bytes, "bytes/s a server"),
        "Redis: memory, states": (copies * plan.keys * cost.blob_memory / plan.shards, SERVER_MEMORY,
                                  "bytes a server"),
        "Redis: memory, examples until their states are published": (
            1.5 * plan.rate * plan.publish * cost.entry_memory / plan.shards, SERVER_MEMORY,
            "bytes a server"),
        "leases: processor, at rest": (leases / US, 1, "cores"),
        "leases: all read once, of a lease": (plan.daemons * look / US, plan.lease, "s"),
    }


def averaging(plan, cost, rates, every):
    """Rounds of averaging in which each daemon learns `every` examples and then waits for the
    others, at most a lease from the first that waits. rates (daemons,). -> seconds of a round,
    the learned share of the examples, number of daemons in a round, bytes per second sent by
    Redis"""
    ready = every / numpy.minimum(rates, US / cost.learn)
    seconds = min(ready.max(), ready.min() + plan.lease)
    learned = numpy.minimum(rates, every / seconds).sum() / rates.sum()
    inside = int((ready <= seconds).sum())
    given = inside * inside * cost.parameters / seconds  # each reads those of all
    return seconds, learned, inside, given
