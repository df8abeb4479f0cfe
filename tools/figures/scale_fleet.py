"""A fleet over time, in steps of a quarter of a second: examples arrive in partitions, and daemons
learn them, die, join and are drained. Partitions are freed when a lease ends, states are read,
examples since their publication are learned again, then new ones. docs/measurements/scale.md has
the assumptions.

A partition is OWNED, FREE (without owner, or not yet taken), LOADING (its states are read and
adopted), REPLAYING, or RELEASING (its owner publishes its states before it releases it)."""
import heapq

import numpy

import scale_model

OWNED, FREE, LOADING, REPLAYING, RELEASING = range(5)
RENEW, LOOK, TAKE = range(3)  # a daemon's requests
TRIP = 0.001  # seconds between an answer and the next request
STEP = 0.25  # seconds
US = scale_model.US
NEVER = numpy.inf
LITTLE = 1e-9


class Fleet:
    """Arrays: of daemons (size: existing and joining ones), of partitions, of shards. `noise`:
    arrivals are Poisson distributed, else continuous."""

    def __init__(self, plan, cost, load, keys, spare=0, noise=True):
        self.plan, self.cost, self.noise = plan, cost, noise
        self.random = numpy.random.default_rng(plan.seed)
        self.time = 0.0
        self.rate = load * plan.rate             # of each partition, examples per second
        self.keys = keys.astype(float)           # streams of each partition
        self.shard = numpy.arange(len(load)) % plan.shards
        everyone = plan.daemons + spare
        self.member = numpy.arange(everyone) < plan.daemons  # of the fleet, as seen by the others
        self.alive = self.member.copy()
        self.draining = numpy.zeros(everyone, dtype=bool)
        self.owner = numpy.arange(len(load)) % plan.daemons
        self.target = self.owner.copy()          # the intended owner
        self.state = numpy.full(len(load), OWNED)
        self.stopped = numpy.zeros(everyone)     # microseconds that the learning thread owes
        self.frozen_until = numpy.zeros(everyone)
        # Leases and publications are spread evenly, by the golden ratio.
        spread = numpy.arange(everyone) * 0.6180339887 % 1
        self.turn = scale_model.renewal(plan)
        self.lease = spread * self.turn + plan.lease - self.turn
        self.lease_first = 0.0
        self.seen = numpy.zeros(everyone, dtype=numpy.int64)  # the version known to each daemon
        self.version = self.count = 0
        self.stale = False                       # targets are of an older version
        self.asked, self.answers_at, self.asking = [], 0.0, 0.0
        for daemon in numpy.flatnonzero(self.alive):
            self.ask(float(spread[daemon] * self.turn), RENEW, daemon)
        self.next_publication = (spread * 0.7548776662 % 1 + spread) % 1 * plan.publish
        self.uploading = numpy.zeros(everyone)   # bytes
        zeros = numpy.zeros(len(load))
        self.come, self.learned, self.replayed = zeros.copy(), zeros.copy(), zeros.copy()
        self.published, self.snapshot = zeros.copy(), zeros.copy()  # of `learned`
        self.to_load, self.to_adopt, self.to_replay = zeros.copy(), zeros.copy(), zeros.copy()
        self.to_release = zeros.copy()           # bytes
        self.totals = dict.fromkeys(("moved", "taken_over", "false_deaths", "loaded", "down"), 0.0)
        rates, number = scale_model.key_rates(plan.keys, plan.exponent, plan.rate)
        ages = numpy.geomspace(STEP, 1e5, 200)
        some = [scale_model.changed(rates, number, age) / plan.keys for age in ages]
        self.changed_share = lambda age: numpy.interp(age, ages, some)
                # The fleet is at rest: published at the last turn of each daemon.
        behind = plan.publish - self.next_publication[self.owner]
        self.age = behind.copy()                 # seconds since the last publication
        self.come[:] = self.learned[:] = self.rate * behind
        self.snapshot[:] = self.published[:]
        self.writing = scale_model.writing(cost, self.changed_share(plan.publish))
        self.used = {}

    # ---- External events ----

    def kill(self, daemons):
        self.alive[daemons] = False

    def join(self, daemons):
        self.alive[daemons] = self.member[daemons] = True
        self.lease[daemons] = self.time + self.plan.lease
        self.next_publication[daemons] = self.time + self.plan.publish
        self.stale = True
        for daemon in daemons:
            self.change()
            self.seen[daemon] = self.version - len(self.rate)
            self.ask(self.time, RENEW, daemon)

    def drain(self, daemons):
        self.draining[daemons] = self.stale = True
        for _ in daemons:
            self.change()

    def freeze(self, daemons, seconds):
        """The daemons stop learning for `seconds`, as when paused."""
        self.frozen_until[daemons] = self.time + seconds

    # ---- Ownership ----

    def rebalance(self):
        """Targets of partitions: those without owner, and surplus ones, go to the daemons with
        the fewest; with as few moves as possible."""
        self.stale = False
        can = numpy.flatnonzero(self.member & ~self.draining)
        if not len(can):
            return
        able = numpy.zeros(len(self.member), dtype=bool)
        able[can] = True
        kept = (self.state != FREE) & (self.state != RELEASING) & able[self.owner]
        self.target[kept] = self.owner[kept]
        homeless = ~able[self.target]
        has = numpy.bincount(self.target[~homeless], minlength=len(self.member))
        most = -(-len(self.rate) // len(can))
        for partition in numpy.flatnonzero(~homeless) if (has > most).any() else ():
            daemon = self.target[partition]
            if has[daemon] > most:
                has[daemon] -= 1
                homeless[partition] = True
        heap = [(has[daemon], daemon) for daemon in can]
        heapq.heapify(heap)
        for partition in numpy.flatnonzero(homeless):
            least, daemon = heap[0]
            heapq.heapreplace(heap, (least + 1, daemon))
            self.target[partition] = daemon

    def expire(self, now):
        """Leases that have ended: others may take these daemons' partitions. A living daemon is
        a member again with its next renewal, and keeps partitions that were not taken."""
        if now < self.lease_first:
            return
        over = self.member & (self.lease < now - LITTLE)
        if over.any():
            self.totals["false_deaths"] += int((over & self.alive).sum())
            self.member[over] = False
            self.change()
            self.stale = True
        self.lease_first = self.lease[self.member].min() if self.member.any() else NEVER

    def takeable(self, daemon):
        """The free partitions intended for it."""
        mine = numpy.flatnonzero(self.target == daemon)
        return mine[(self.state[mine] == FREE) | ~self.member[self.owner[mine]]]

    def ask_redis(self):
        """The daemons' requests to the Redis with the leases, in order, as many as it can answer
        in this step. A daemon renews its lease each turn; looks, if there are changes; and then
        requests the free partitions intended for it."""
        end = self.time
        while self.asked and max(self.asked[0][0], self.answers_at) < end:
            at, _, kind, daemon, requested = heapq.heappop(self.asked)
            if not self.alive[daemon]:
                continue
            used = self.COSTS[kind](self, daemon) / US
            self.answers_at = max(at, self.answers_at) + used
            self.asking += used
            self.expire(self.answers_at)
            self.ANSWERS[kind](self, daemon, at, requested)
        self.used["leases"] = self.asking / STEP
        self.asking = 0.0
        self.expire(end)

    def ask(self, at, kind, daemon, began=0.0):
        self.count += 1
        heapq.heappush(self.asked, (at, self.count, kind, daemon, began))

    def cost_of_look(self, daemon):
        changes = min(self.version - self.seen[daemon], len(self.rate))
        return self.cost.look_nothing + self.cost.look_change * changes

    def renewed(self, daemon, at, _):
        if not self.member[daemon]:
            self.member[daemon] = True
            self.change()
            self.stale = True
        self.lease[daemon] = self.answers_at + self.plan.lease
        if self.seen[daemon] != self.version:
            self.ask(self.answers_at + TRIP, LOOK, daemon, at)
        else:
            self.ask(max(at + self.turn, self.answers_at + TRIP), RENEW, daemon)

    def looked(self, daemon, _, began):
        """`began`: when it requested its lease."""
        if self.stale:
            self.rebalance()
        self.seen[daemon] = self.version
        mine = numpy.flatnonzero(self.owner == daemon)
        released = mine[(self.state[mine] == OWNED) & (self.target[mine] != daemon)]
        if len(released):
            self.release(released)
        if len(self.takeable(daemon)):
            self.ask(self.answers_at + TRIP, TAKE, daemon)
        else:
            self.ask(max(began + self.turn, self.answers_at + TRIP), RENEW, daemon)

    def took(self, daemon, *_):
        take = self.takeable(daemon)
        if self.member[daemon]:
            self.totals["taken_over"] += int((self.state[take] != FREE).sum())
            self.owner[take] = daemon
            self.state[take] = LOADING
            self.to_release[take] = 0
            self.to_load[take] = self.keys[take] * self.cost.blob
            self.to_adopt[take] = self.keys[take] * self.cost.adopt
            self.to_replay[take] = self.learned[take] - self.published[take]
            self.totals["moved"] += len(take)
            self.change(len(take))
        self.ask(self.answers_at + TRIP, RENEW, daemon)

    def change(self, places=1):
        """Each changed partition has a number."""
        self.version += places

    COSTS = (lambda self, _: self.cost.renew, cost_of_look, lambda self, _: self.cost.take)
    ANSWERS = renewed, looked, took

    def release(self, released):
        """Releases partitions: their states are published first."""
        self.state[released] = RELEASING
        states = self.states_of(released)
        self.to_release[released] = numpy.maximum(states * self.cost.blob, LITTLE)
        self.stopped += numpy.bincount(self.owner[released], states * self.cost.export, len(self.member))

    def states_of(self, which):
        """Number of published streams of partitions."""
        share = self.changed_share(self.age[which])
        return self.keys[which] * numpy.where(share > scale_model.MUCH, 1.0, share)

    def publish(self):
        """A checkpoint: the learning thread copies all states, and publishes changed ones. A
        daemon that is still publishing waits."""
        due = numpy.flatnonzero(self.alive & (self.next_publication <= self.time))
        if not len(due):
            return
        late = due[self.uploading[due] > LITTLE]
        self.next_publication[due] += self.plan.publish
        due = numpy.setdiff1d(due, late)
        begins = numpy.zeros(len(self.member), dtype=bool)
        begins[due] = True
        mine = begins[self.owner] & (self.state == OWNED)
        states = self.states_of(mine)
        self.snapshot[mine] = self.learned[mine]
        self.age[mine] = 0
        size = len(self.member)
        self.uploading += numpy.bincount(self.owner[mine], states * self.cost.blob, size)
        copied = self.keys[mine] * self.cost.blob / self.cost.checkpoint * US
        self.stopped += numpy.bincount(self.owner[mine], copied + states * self.cost.export, size)

    # ---- A step ----

    def step(self):
        plan, cost, size = self.plan, self.cost, len(self.member)
        self.time += STEP
        self.ask_redis()
        self.publish()
        flow = self.rate * STEP
        self.come += self.random.poisson(flow) if self.noise else flow
        self.age += STEP
        living = self.alive & (self.frozen_until < self.time - LITTLE)
        # The learning thread: owed time, adoption, then examples of all its partitions equally.
        free = numpy.where(living, STEP * US, 0.0)
        paid = numpy.minimum(self.stopped, free)
        self.stopped -= paid
        free -= paid
        adopting = (self.state == LOADING) & (self.to_load <= LITTLE)
        free, adopted = self.share(free, numpy.where(adopting, self.to_adopt, 0.0))
        self.to_adopt -= adopted
        replaying = (self.state == REPLAYING) & (self.to_replay > LITTLE)
        replay = numpy.where(replaying, self.to_replay, 0.0)
        learning = numpy.where((self.state == OWNED) & self.alive[self.owner],
                               self.come - self.learned, 0.0)
        wanted = numpy.bincount(self.owner, (replay + learning) * cost.learn, size)
        part = numpy.minimum(1.0, free / numpy.maximum(wanted, LITTLE))[self.owner]
        replay, learning = replay * part, learning * part
        # The shards: writes first, then everything else equally.
        down = numpy.where((self.state == LOADING) & living[self.owner], self.to_load, 0.0)
        lines = numpy.bincount(self.owner, down, size)
        line = plan.daemon_bytes * STEP
        down *= numpy.minimum(1.0, line / numpy.maximum(lines, LITTLE))[self.owner]
        release = numpy.where((self.state == RELEASING) & living[self.owner], self.to_release, 0.0)
        lines = numpy.bincount(self.owner, release, size) + self.uploading
        scale = numpy.where(living, numpy.minimum(1.0, line / numpy.maximum(lines, LITTLE)), 0.0)
        release *= scale[self.owner]
        up = self.uploading * scale
        given = self.serve(replay + learning, down, release, up, flow)
        replay, learning = replay * given, learning * given
        down, release = down * given, release * given
        up *= given.mean()
        self.to_replay -= replay
        self.replayed += replay
        self.learned += learning
        self.to_load -= down
        self.to_release -= release
        self.uploading -= up
        self.totals["down"] += down.sum()
        self.advance()
        worked = paid.sum() + adopted.sum() + (replay.sum() + learning.sum()) * cost.learn
        self.used["learning"] = float(worked / max(living.sum() * STEP * US, 1))

    def share(self, free, wanted):
        """Distributes microseconds of daemons equally to their partitions. -> the rest, and the
        share of each"""
        total = numpy.bincount(self.owner, wanted, len(free))
        got = wanted * numpy.minimum(1.0, free / numpy.maximum(total, LITTLE))[self.owner]
        return free - numpy.bincount(self.owner, got, len(free)), got

    def serve(self, read, down, release, up, flow):
        """The share of the work that the shard of each partition can do in this step.
        (partitions,)"""
        plan, cost = self.plan, self.cost
        spread = numpy.full(plan.shards, up.sum() / plan.shards)

        def of_shards(values):
            return numpy.bincount(self.shard, values, plan.shards)
        written = of_shards(flow)
        asked = (of_shards(read) * cost.xread + of_shards(down) / cost.blob * cost.hmget
                 + (of_shards(release) + spread) / cost.blob * self.writing)
        out = of_shards(read) * cost.wire + of_shards(down)
        into = of_shards(release) + spread
        limit = plan.shard_bytes * STEP
        left = numpy.maximum(STEP * US - written * cost.xadd, 0.0)
        can = numpy.minimum.reduce([numpy.ones(plan.shards), left / numpy.maximum(asked, LITTLE),
                                    limit / numpy.maximum(out, LITTLE),
                                    numpy.maximum(limit - written * cost.wire, 0)
                                    / numpy.maximum(into, LITTLE)])
        self.used["shard"] = float(((written * cost.xadd + asked * can) / (STEP * US)).max())
        self.used["shard_mean"] = float(((written * cost.xadd + asked * can) / (STEP * US)).mean())
        self.used["entries"] = float(of_shards(self.come - self.published).max()) * cost.entry_memory
        return can[self.shard]

    def advance(self):
        """States of partitions whose work is done."""
        little = self.cost.blob / 2
        loaded = (self.state == LOADING) & (self.to_load < little) & (self.to_adopt < 1)
        self.totals["loaded"] += float(self.keys[loaded].sum())
        self.state[loaded] = REPLAYING
        self.to_load[(self.state == LOADING) & (self.to_load < little)] = 0
        self.state[(self.state == REPLAYING) & (self.to_replay < 0.5)] = OWNED
        gone = (self.state == RELEASING) & (self.to_release < little)
        self.published[gone] = self.snapshot[gone] = self.learned[gone]
        self.age[gone] = 0
        self.state[gone] = FREE
        if gone.any():
            self.change(int(gone.sum()))
        done = (self.uploading < little) & self.alive
        self.uploading[done] = 0
        mine = done[self.owner] & (self.state == OWNED)
        self.published[mine] = numpy.maximum(self.published[mine], self.snapshot[mine])

    # ---- Observations ----

    def lag(self):
        """Seconds for each partition: examples that are not learned yet, divided by its rate."""
        return (self.come - self.learned) / numpy.maximum(self.rate, LITTLE)

    def look(self):
        lag = self.lag()
        late = self.rate[lag > 1].sum() / self.rate.sum()
        return {"time": self.time, "lag_max": float(lag.max()),
                "lag_99": float(numpy.percentile(lag, 99)),
                "lag_mean": float((lag * self.rate).sum() / self.rate.sum()), "late": float(late),
                "unowned": int((self.state != OWNED).sum()),
                "streams": float(numpy.bincount(self.owner, self.keys).max()), **self.used}

    def run(self, seconds, events=(), every=1.0):
        """Observations at each second; events: (second, function of the fleet)."""
        looks, events = [], sorted(events, key=lambda event: event[0])
        steps, apart = round(seconds / STEP), round(every / STEP)
        for n in range(1, steps + 1):
            while events and events[0][0] <= self.time + LITTLE:
                events.pop(0)[1](self)
            self.step()
            if n % apart == 0:
                looks.append(self.look())
        return looks
