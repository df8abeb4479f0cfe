#!/usr/bin/python3
"""Tests tools/figures/scale: its simulation agrees with closed forms (queues, hashing,
take-overs), nothing is lost or learned twice, and a seed always prints the same tables."""
import dataclasses
import hashlib
import os
import pathlib
import re
import subprocess
import sys

try:
    import numpy
except ImportError:
    print("needs python3-numpy")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
FIGURES = SOURCE / "tools" / "figures"
sys.path.insert(0, str(FIGURES))
sys.dont_write_bytecode = True
import brokers  # noqa: E402  pylint: disable=wrong-import-position
import cases  # noqa: E402  pylint: disable=wrong-import-position
import scale_fleet  # noqa: E402  pylint: disable=wrong-import-position,import-error
import scale_model  # noqa: E402  pylint: disable=wrong-import-position,import-error
import scale_plan  # noqa: E402  pylint: disable=wrong-import-position,import-error
import scale_redis  # noqa: E402  pylint: disable=wrong-import-position,import-error

LIMIT = 300  # seconds: only ends a test that hangs
STEP, US = scale_fleet.STEP, scale_model.US
COSTS = scale_model.read_costs()


def small(**changes):
    """A fleet of ten daemons at a tenth of their capacity."""
    plan = scale_plan.Plan(daemons=10, partitions=160, keys=100000, rate=1e5, shards=2, publish=20)
    return dataclasses.replace(plan, **changes)


def fleet_of(plan, cost=None, spare=0, noise=True):
    even = numpy.full(plan.partitions, 1 / plan.partitions)
    keys = numpy.full(plan.partitions, plan.keys / plan.partitions)
    return scale_fleet.Fleet(plan, cost or scale_model.cost_of(COSTS, plan.network), even, keys, spare,
                             noise)


def test_hashes():
    """The vectors of FNV's authors; blocks of keys have the same hashes as single keys."""
    for text, value in (("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C),
                        ("foobar", 0x85944171F73967E8)):
        assert scale_model.fnv1a(text) == value, text
    number = scale_model.BLOCK + 7
    hashes = numpy.concatenate([value for _, value in scale_model.blocks(number)])
    assert len(hashes) == number
    for n in (0, 1, 9999, 10000, number - 1):
        assert int(hashes[n]) == scale_model.fnv1a(scale_model.KEY % n), n


def test_balls_in_bins():
    """The fullest of n partitions with m keys: m/n + sqrt(2 m/n ln n) without lower terms (Raab and
    Steger, 1998). Keys and hash are fixed, so the result is always the same. Numbered keys are
    distributed more evenly."""
    keys, partitions = 100000, 256
    mean = keys / partitions
    fullest = mean + numpy.sqrt(2 * mean * numpy.log(partitions))
    names = (hashlib.md5(b"%d" % n).hexdigest()[:12] for n in range(keys))
    drawn = numpy.bincount([scale_model.fnv1a(name) % partitions for name in names])
    assert abs(drawn.max() - fullest) < 0.05 * mean, (drawn.max(), fullest)
    assert 0.85 < drawn.std() / numpy.sqrt(mean) < 1.15, drawn.std()
    count, share = scale_model.shares(keys, [0.0, 0.8], partitions)
    assert count.sum() == keys and mean <= count.max() < fullest, count.max()
    assert numpy.allclose(share[0.0], count / keys)
    # With a heavy tail the partition of the hottest key is the hottest.
    top = 1 / (numpy.arange(1, keys + 1) ** -0.8).sum()
    assert abs(share[0.8].sum() - 1) < 1e-9 and share[0.8].max() > top


def test_rates_of_keys():
    for keys, exponent in ((50, 0.0), (5000, 0.8), (300000, 1.2)):
        rates, number = scale_model.key_rates(keys, exponent, 1000.0)
        exact = numpy.arange(1, keys + 1, dtype=float) ** -exponent
        exact *= 1000 / exact.sum()
        assert number.sum() == keys
        assert abs((rates * number).sum() - 1000) < 1e-6
        assert abs(rates[0] / exact[0] - 1) < 1e-3, (keys, exponent)
        for seconds in (0.01, 1.0, 1000.0):
            known = -numpy.expm1(-exact * seconds)
            assert abs(scale_model.changed(rates, number, seconds) / known.sum() - 1) < 2e-3


def test_a_queue_waits_as_long_as_it_must():
    """M/D/1: Poisson arrivals of length S wait S u / (2 (1 - u)) on average, where u is the busy
    share of the time (500 daemons with a partition each). S is much longer than a step."""
    service, daemons = 40 * STEP, 500
    for used in (0.3, 0.6):
        plan = small(daemons=daemons, partitions=daemons, keys=daemons, rate=daemons * used / service,
                     shards=1, publish=1e12, lease=1e9)
        free = dict.fromkeys(("xadd", "xread", "hset", "hmget", "renew", "look_nothing", "take", "wire"), 1e-9)
        cost = dataclasses.replace(scale_model.cost_of(COSTS, "gru64"), learn=service * US, **free)
        fleet, total, warm, steps = fleet_of(plan, cost), 0.0, 1000, 3000
        for n in range(warm + steps):
            fleet.step()
            total += (fleet.come - fleet.learned).sum() if n >= warm else 0
        # The waiting work in seconds is the waiting time of the next arrival.
        waited, expected = service * total / steps / daemons, service * used / (2 * (1 - used))
        assert abs(waited / expected - 1) < 0.1, (used, waited, expected)


def test_a_queue_empties_as_fast_as_it_can():
    """A daemon that was stopped for P seconds, with the share `used` of its rate, has caught up P
    used / (1 - used) later."""
    plan = small(daemons=1, partitions=1, keys=1, rate=1000.0, shards=1, publish=1e9)
    for used in (0.25, 0.5, 0.8):
        cost = dataclasses.replace(scale_model.cost_of(COSTS, "gru64"), learn=used * US / plan.rate)
        fleet = fleet_of(plan, cost, noise=False)
        fleet.run(10)
        fleet.freeze([0], 5)
        looks = fleet.run(5 + 5 * used / (1 - used) + 5, every=STEP)
        most = max(look["lag_max"] for look in looks)
        ended = max(look["time"] for look in looks if look["lag_max"] > STEP) - 15
        assert abs(most - 5) <= 2 * STEP, (used, most)
        # Until the delay is one step.
        assert abs(ended - (5 - STEP) * used / (1 - used)) <= 3 * STEP, (used, ended)


def test_nothing_is_lost_and_nothing_learned_twice():
    """After any events each message was learned once or waits, and each partition has one living
    owner."""
    for changes in ({}, {"publish": 5}, {"shards": 1}):
        plan = small(**changes)
        fleet = fleet_of(plan, spare=4)
        before = fleet.come.sum()
        fleet.run(300, [(40, lambda f: f.kill([1, 2])), (45, lambda f: f.kill([3])),
                        (60, lambda f: f.join([10, 11, 12, 13])), (120, lambda f: f.drain([0, 13])),
                        (150, lambda f: f.freeze([5], 20))])
        come, learned = fleet.come, fleet.learned
        assert (learned <= come + 1e-6).all(), changes
        assert abs(come.sum() - before - plan.rate * 300) < 6 * numpy.sqrt(plan.rate * 300)
        assert (come - learned).sum() < plan.rate, changes
        assert (fleet.state == scale_fleet.OWNED).all()
        owners = set(fleet.owner)
        assert owners == {4, 5, 6, 7, 8, 9, 10, 11, 12}, owners
        assert (fleet.published <= learned + 1e-6).all()
        assert fleet.totals["false_deaths"] == 0
        has = numpy.bincount(fleet.owner)
        assert has[4:13].max() <= -(-plan.partitions // 9) + 1, has


def constant(path, name):
    """The value in NAME = 4, or #define NAME 0.2, in a file of the daemon."""
    text = (SOURCE / "src" / path).read_text(encoding="utf-8")
    return float(re.search(rf"\b{name}\b(?: =)? ([\d.]+)", text)[1])


def test_the_simulation_does_what_the_daemon_does():
    """The simulation uses the daemon's constants, and a fleet at rest sends as many queries as
    their intervals imply."""
    each, most = (constant("cluster/fleet_link.h", f"FLEET_{name}") for name in ("RENEWALS_A_LEASE", "RENEWAL_MAX"))
    assert (scale_model.RENEWALS_A_LEASE, scale_plan.Plan().renewal) == (each, most)
    assert scale_model.MUCH * constant("cluster/shares.c", "MUCH") == 1
    free = dict.fromkeys(("look_nothing", "look_change", "take", "commit"), 0.0)
    cost = dataclasses.replace(scale_model.cost_of(COSTS, "gru64"), **free)
    for lease in 0.5, 10.0, 3600.0:
        plan = small(lease=lease)
        looks = fleet_of(plan, cost, noise=False).run(20)
        used = plan.daemons * cost.renew / min(lease / each, most) / US
        assert abs(scale_model.demands(plan, cost)["leases: processor, at rest"][0] / used - 1) < 1e-9
        simulated = sum(look["leases"] for look in looks) / len(looks)
        assert abs(simulated / used - 1) < 0.05, (lease, simulated, used)


def test_a_dead_daemon_is_replaced_after_its_lease():
    """Its partitions stop for the rest of its lease, a turn, and the reading of their states."""
    plan = small()
    cost = scale_model.cost_of(COSTS, plan.network)
    fleet = fleet_of(plan, cost, noise=False)
    fleet.run(30)
    lost = fleet.owner == 7
    states = fleet.keys[lost].sum()
    fleet.kill([7])
    left = fleet.lease[7] - fleet.time
    assert 0 < left <= plan.lease
    looks = fleet.run(left - 2 * STEP, every=STEP)
    assert (fleet.owner[lost] == 7).all()
    looks = fleet.run(left + plan.lease + 10, every=STEP)
    most = max(look["lag_max"] for look in looks)
    turn = fleet.turn
    work = states * (cost.adopt / US + cost.blob / plan.daemon_bytes)
    assert left <= most <= left + turn + work + 4 * STEP, (left, most, work)
    assert fleet.totals["taken_over"] == lost.sum() and fleet.totals["loaded"] == states
    assert abs(fleet.totals["down"] / cost.blob / states - 1) < 1e-3
    # The messages since the states were published are replayed.
    assert 0 < fleet.replayed.sum() <= plan.publish * plan.rate / plan.daemons + 1
    assert (fleet.replayed[~lost] == 0).all()


def test_one_dies_and_only_its_partitions_move():
    plan = small()
    fleet = fleet_of(plan)
    before = fleet.owner.copy()
    fleet.run(60, [(10, lambda f: f.kill([3]))])
    assert (fleet.owner[before != 3] == before[before != 3]).all()
    assert numpy.bincount(fleet.owner).max() <= -(-plan.partitions // 9)


def test_a_slow_redis_makes_the_living_look_dead():
    """If all turns together take longer than a lease, leases of living daemons end."""
    cost = scale_model.cost_of(COSTS, "gru64")
    plan = small()
    for look, expected in ((0.1, False), (3.0, True)):  # seconds of Redis
        slow = dataclasses.replace(cost, look_nothing=look * US)
        fleet = fleet_of(plan, slow)
        fleet.run(120, [(20, lambda f: f.kill([0]))])
        assert (fleet.totals["false_deaths"] > 0) == expected, (look, fleet.totals)


def test_averages():
    """With equal loads no daemon waits. Otherwise the fleet learns at the rate of its slowest
    daemon, or waits for a lease."""
    plan, cost = small(), scale_model.cost_of(COSTS, "gru64")
    rates = numpy.full(10, 1000.0)
    seconds, learned, inside, given = scale_model.averaging(plan, cost, rates, 5000)
    assert (seconds, inside) == (5.0, 10) and abs(learned - 1) < 1e-12
    assert abs(given - 100 * cost.parameters / 5) < 1e-6
    rates[0] = 500.0
    seconds, learned, inside, _ = scale_model.averaging(plan, cost, rates, 5000)
    assert (seconds, inside) == (10.0, 10) and abs(learned - 5000 / 9500) < 1e-12
    rates[0] = 1.0
    seconds, learned, inside, _ = scale_model.averaging(plan, cost, rates, 5000)
    assert (seconds, inside) == (15.0, 9)
    assert abs(learned - (9 * 5000 / 15 + 1) / 9001) < 1e-12


def test_scripts_are_measured_as_they_are(directory):
    """--measure calls the fleet's scripts with valid arguments, and measures everything that the
    simulation uses."""
    brokers.need("redis")
    with scale_redis.Redis(directory) as server:
        made = scale_redis.leases(server, daemons=25, partitions=400)
    assert set(made) == set(COSTS["redis"]["fleet"]), made
    assert all(value >= 0 for value in made.values()), made


def test_the_same_seed_prints_the_same():
    parts = "costs", "keys", "intervals", "averages", "broken", "events"
    words = [sys.executable, FIGURES / "scale", "--daemons", "20", "--keys", "200000", "--rate", "2e5",
             "--partitions", "256", "--shards", "2", "--seconds", "40", "--parts", ",".join(parts)]

    def output():
        return subprocess.run(words, text=True, stdout=subprocess.PIPE, timeout=LIMIT, check=True).stdout
    first = output()
    assert output() == first
    for part in parts:
        assert f"{part}\n\n| " in first, part
    assert " nan " not in first and " inf " not in first, first


cases.run(globals())
