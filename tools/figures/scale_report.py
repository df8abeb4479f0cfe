"""The tables and charts of tools/figures/scale, for output and for docs/measurements/scale.md."""
import concurrent.futures
import dataclasses

import numpy

import scale_fleet
import scale_model
import shared

US = scale_model.US
EXPONENTS = (0.0, 0.8, 1.0, 1.2)
PARTITIONS = (1024, 16384)
INTERVALS = (10, 60, 300, 600, 1800)        # seconds between publications
SHOWN = ("gru64", "lstm128")                # networks of most tables
AVERAGES = (10**4, 10**5, 10**6)            # examples between two averages
FLEETS = (10, 100, 300, 500, 1000)          # daemons
PARTITIONS_EACH = 16
APART = 1000                                # servers, so that only leases can fail
REST, PATIENCE = 5.0, 300.0                 # seconds before daemons die, and after it
EVENT = 60.0                                # seconds of rest before an event
LATE = 1.0                                  # a second of lag: late
DATA_CENTRE = 3                             # number of parts of the fleet


def short(number, digits=2):
    """1234567 as 1.2 M."""
    for size, letter in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= size:
            return f"{number / size:.{digits}g}{letter}" if number / size < 100 else \
                f"{number / size:.0f}{letter}"
    return f"{number:.{digits}g}" if number < 100 else f"{number:.0f}"


def percent(share):
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.2g}" if share == 0 else f"{100 * share:.2g}%"


class Keys:
    """The keys' partitions, hashed once for the finest division; a coarser one folds it."""

    def __init__(self, plan):
        self.finest = max(*PARTITIONS, plan.partitions)
        exponents = sorted({*EXPONENTS, plan.exponent})
        self.count, self.share = scale_model.shares(plan.keys, exponents, self.finest)

    def of(self, exponent, partitions):
        """(streams, share of the examples) of each partition."""
        if self.finest % partitions:
            shared.fail(f"--partitions must divide {self.finest}", 64)
        fold = (self.finest // partitions, partitions)
        return self.count.reshape(fold).sum(0), self.share[exponent].reshape(fold).sum(0)


def busiest(load, daemons):
    """Load of the busiest daemon as a multiple of the mean."""
    return float(scale_model.loads(load, daemons).max() * daemons)


# ---- Tables ----


def table_costs(costs):
    rows = [["", *SHOWN]]
    for name, key, form in (
            ("parameters", "parameters", "{:,.0f}"),
            ("an example, in-process, one stream, µs", "queued_us", "{:.2f}"),
            ("learning thread, many streams, µs", "learning_thread_us", "{:.2f}"),
            ("all threads of that daemon, µs", "all_threads_us", "{:.2f}"),
            ("journal, bytes an example", "journal_bytes", "{:.0f}"),
            ("written to disk for it, bytes", "disk_bytes", "{:,.0f}"),
            ("replay, examples a second", "replay_rate", "{:,.0f}"),
            ("a stream in a checkpoint, bytes", "checkpoint_bytes_a_stream", "{:,.0f}"),
            ("a stream in memory, bytes", "memory_bytes_a_stream", "{:,.0f}"),
            ("checkpoint, MB a second",
             "checkpoint_thread_bytes_a_second", "{:,.0f}"),
            ("start from a checkpoint, MB a second", "resume_bytes_a_second", "{:,.0f}")):
        scale = 1e-6 if "MB" in name else 1
        rows.append([name, *(form.format(costs["networks"][network][key] * scale) for network in SHOWN)])
    return shared.table(rows)


def table_redis(costs):
    redis, fleet = costs["redis"], costs["redis"]["fleet"]
    rows = [["Redis", "measured"]]
    for size, made in redis["messages"].items():
        rows += [[f"message of {size} + {size} numbers: XADD, XREAD, µs",
                  f"{made['xadd_us']:.2f}, {made['xread_us']:.2f}"],
                 ["its bytes: sent, in memory, in the log",
                  f"{made['message_bytes']}, {made['entry_memory_bytes']:.0f}, "
                  f"{made['entry_log_bytes']:.0f}"]]
    for size in (4096, 32768):
        rows.append([f"state of {size} bytes: HSET, HMGET, µs; bytes in memory",
                     f"{redis[f'hset_us_{size}']:.1f}, {redis[f'hmget_us_{size}']:.1f}; "
                     f"{redis[f'blob_memory_bytes_{size}']:,.0f}"])
    rows += [["renew a lease, µs", f"{fleet['renew_us']:.1f}"],
             ["read changes: none, and each partition, µs",
              f"{fleet['look_nothing_us']:.1f}, {fleet['look_change_us']:.1f}"],
             [f"refuse {fleet['commit_partitions']} partitions of another daemon, µs", f"{fleet['take_us']:.1f}"],
             [f"commit {fleet['commit_partitions']} offsets, µs", f"{fleet['commit_us']:.1f}"]]
    return shared.table(rows)


def table_keys(plan, keys, costs):
    """How uneven partitions and daemons are."""
    rows = [["exponent", "hottest key, a second", *(f"hottest of {p:,} partitions" for p in PARTITIONS),
             "busiest daemon", *(f"cores for the hottest key: {name}" for name in SHOWN)]]
    for exponent in sorted(keys.share):
        top = scale_model.key_rates(plan.keys, exponent, plan.rate)[0][0]
        load = keys.of(exponent, plan.partitions)[1]
        rows.append([f"{exponent:g}", short(top),
                     *(f"{keys.of(exponent, p)[1].max() * p:.2f} x" for p in PARTITIONS),
                     f"{busiest(load, plan.daemons):.2f} x",
                     *(f"{top * scale_model.cost_of(costs, name).learn / US:.2f}"
                       for name in SHOWN)])
    return shared.table(rows)


def table_intervals(plan, cost):
    """The cost of publishing states, by interval."""
    rates, number = scale_model.key_rates(plan.keys, plan.exponent, plan.rate)
    streams, mean = plan.keys / plan.daemons, plan.rate / plan.daemons
    rows = [["published each", "states, GB/s", "processors of Redis", "learning stopped",
             "examples kept in Redis, GB", "replayed for a dead daemon", "hottest key's replay"]]
    for seconds in INTERVALS:
        fresh = scale_model.published(dataclasses.replace(plan, publish=seconds), rates, number)
        stall = (streams * cost.blob / cost.checkpoint / seconds + fresh / plan.daemons * cost.export / US)
        rows.append([f"{seconds} s", f"{fresh * cost.blob / 1e9:.1f}", f"{fresh * cost.hset / US:.1f}", percent(stall),
                     f"{1.5 * seconds * plan.rate * cost.entry_memory / 1e9:,.0f}", short(mean * seconds / 2),
                     f"{rates[0] * seconds * cost.learn / US:.0f} s"])
    return shared.table(rows)


def table_leases(plan, cost, processes):
    """How large a fleet may be."""
    rows = [["daemons", "one dies", "a third dies", "leases lost by the living"]]
    dead = [(daemons, number) for daemons in FLEETS for number in (1, max(1, daemons // DATA_CENTRE))]
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        done = list(pool.map(deaths, *zip(*((plan, cost, *one) for one in dead), strict=True)))

    def after(seconds):
        return "never" if seconds is None else f"{seconds:.0f} s"
    for daemons, (one, _), (third, totals) in zip(FLEETS, done[::2], done[1::2], strict=True):
        rows.append([f"{daemons:,}", after(one), after(third), f"{totals['false_deaths']:,.0f}"])
    return shared.table(rows)


def deaths(plan, cost, daemons, dead):
    """A fleet of `daemons`, of which `dead` die. -> seconds until all partitions have an owner,
    totals"""
    share = daemons / plan.daemons
    made = dataclasses.replace(plan, daemons=daemons, partitions=daemons * PARTITIONS_EACH,
                               keys=round(plan.keys * share), rate=plan.rate * share, shards=APART)
    load = numpy.full(made.partitions, 1 / made.partitions)
    fleet = scale_fleet.Fleet(made, cost, load, load * made.keys, noise=False)
    fleet.run(REST)
    fleet.kill(numpy.arange(dead))
    while fleet.time < REST + PATIENCE:
        fleet.step()
        if fleet.alive[fleet.owner].all() and (fleet.state != scale_fleet.FREE).all():
            return fleet.time - REST, fleet.totals
    return None, fleet.totals


def over(times):
    return f"{times:.0f} x" if times >= 9.95 else f"{times:.1f} x"


def table_broken(plan, costs, load):
    """Use / limit of each resource, with one server and with those of the plan."""
    rows, columns, names = [[""]], [], []
    for servers in (1, plan.shards):
        for network in SHOWN:
            used = scale_model.demands(dataclasses.replace(plan, shards=servers),
                                       scale_model.cost_of(costs, network), busiest(load, plan.daemons))
            rows[0].append(f"{servers} server{'s' * (servers > 1)}: {network}")
            columns.append([use / limit for use, limit, _ in used.values()])
            names = list(used)
    for n, name in enumerate(names):
        rows.append([name, *(f"**{over(c[n])}**" if c[n] > 1 else percent(c[n]) for c in columns)])
    return shared.table(rows)


def table_averages(plan, cost, load):
    rows = [["every", "a round", "daemons in it", "examples learned", "parameters read, GB/s", "through one sum, GB/s"]]
    rates = scale_model.loads(load, plan.daemons) * plan.rate
    for every in AVERAGES:
        seconds, learned, inside, given = scale_model.averaging(plan, cost, rates, every)
        rows.append([f"{every:,}", f"{seconds:.1f} s", f"{inside:,}", percent(learned), short(given / 1e9),
                     short(2 * inside * cost.parameters / seconds / 1e9)])
    return shared.table(rows)


# ---- Scenarios ----


def scenarios(plan):
    """name -> (daemons that may join, event)"""
    tenth, third = plan.daemons // 10, plan.daemons // DATA_CENTRE
    return {"rest": (0, lambda fleet: None),
            "one dies": (0, lambda fleet: fleet.kill([plan.daemons // 2])),
            f"{tenth} join": (tenth, lambda fleet: fleet.join(
                numpy.arange(plan.daemons, plan.daemons + tenth))),
            f"{tenth} are drained": (0, lambda fleet: fleet.drain(numpy.arange(tenth))),
            f"{third} die at once": (0, lambda fleet: fleet.kill(numpy.arange(third)))}


def play(plan, cost, load, keys, name, seconds):
    """One of the scenarios. -> (its name, observations, its totals)"""
    spare, act = scenarios(plan)[name]
    fleet = scale_fleet.Fleet(plan, cost, load, keys, spare)
    looks = fleet.run(EVENT + seconds, [(EVENT, act)])
    return name, looks, {**fleet.totals, "replayed": float(fleet.replayed.sum())}


def play_all(plan, cost, load, keys, processes, seconds):
    names = list(scenarios(plan))
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        done = [pool.submit(play, plan, cost, load, keys, name, seconds) for name in names]
        return {name: (looks, totals) for name, looks, totals in (one.result() for one in done)}


def recovered(looks, key, limit):
    """Seconds after the event until the value stays below the limit, or None."""
    over = [look["time"] for look in looks if look["time"] > EVENT and look[key] > limit]
    if not over:
        return 0.0
    return over[-1] - EVENT if over[-1] < looks[-1]["time"] else None


def table_events(played):
    rows = [["event", "partitions moved", "states read, GB", "replayed", "mean lag", "longest lag",
             "all owned and replayed after", "99 of 100 within 1 s after", "leases lost by the living"]]
    for name, (looks, totals) in played.items():
        after = [look for look in looks if look["time"] > EVENT]
        owned, late = recovered(looks, "unowned", 0), recovered(looks, "lag_99", LATE)
        rows.append([name, f"{totals['moved']:,.0f}", f"{totals['down'] / 1e9:,.1f}",
                     short(totals["replayed"]),
                     *(f"{max(look[key] for look in after):.1f} s" for key in ("lag_mean", "lag_max")),
                     *("never" if when is None else f"{when:.0f} s" for when in (owned, late)),
                     f"{totals['false_deaths']:,.0f}"])
    return shared.table(rows)
