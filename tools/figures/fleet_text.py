"""Compares averages of parameters on text (docs/measurements/fleets.md): four daemons with a part
of a text each, one daemon with one part, and one with all four. For tools/figures/fleet."""
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy

import shared

import brokers
import consuming
import fleet
import running
import tensors

PARTS = 4
STEPS = 50      # bytes of a message: steps of an example
POINTS = 5      # of a part: parameters are measured there
LATER = 2, 3    # and for one daemon with all parts, after this many of them, and after all
MOMENTS = 4     # of the last fifth, for the mean of parameters
HELD_STEPS = 1024  # of an example that is only predicted
DO_NOT_LEARN, END = 2, 1  # flags of a header: docs/reference/protocol.md
LEASE = 600     # seconds: longer than the distance between daemons

CONFIG = """
name: {name}
device: cpu
seed: {seed}
model:
  input: {{kind: symbol, size: {symbols}}}
  layers: [{{cell: lstm, size: {units}, norm: layer}}]
  output: {{loss: softmax, size: {symbols}, target: next}}
learning: {{window: 16, stride: 16, threads: 1, optimizer: {{kind: adam, beta1: 0.9, rate: {rate}}}, clip: 1.0}}
statistics: {{bind: "ipc://{d}/statistics", every: {watch}}}
control: {{bind: "ipc://{d}/control"}}
"""
READS = """
examples: {{redis: {{url: "{url}", stream: {stream}, partitions: {parts}, group: fleet}}}}
state: {{directory: {d}/state}}
"""
SHARES = "fleet: {{lease: {lease}, average: {{every: {every}}}}}\n"
MEASURES = """
examples: {{bind: "ipc://{d}/examples", steps: many}}
state: {{directory: {d}/state, journal: {{enabled: false}}}}
"""


class Text:
    """Quarters of a text: in each, `part` bytes are learned, and the following bytes are held
    out, in whole examples. A symbol is the byte's number among the occurring bytes."""

    def __init__(self, path, part, held):
        data = path.read_bytes()
        quarter, held = len(data) // PARTS, held // PARTS // HELD_STEPS * HELD_STEPS
        if part % (PARTS * POINTS * STEPS) or part <= 0:
            shared.fail(f"--part must be a multiple of {PARTS * POINTS * STEPS}", os.EX_USAGE)
        if held <= 0:
            shared.fail(f"--held must be {PARTS * HELD_STEPS} or more", os.EX_USAGE)
        if part + held > quarter:
            shared.fail(f"{path} has {len(data)} bytes: too few for {PARTS} parts of {part}, and {held} after "
                        "each that are held out", os.EX_DATAERR)
        number = {byte: at for at, byte in enumerate(sorted(set(data)))}
        symbols = [number[byte] for byte in data]
        self.symbols, self.part = len(number), part
        begins = [n * quarter for n in range(PARTS)]
        self.parts = [symbols[at:at + part] for at in begins]
        self.held = [symbols[at + part:at + part + held] for at in begins]
        self.keys = [next(f"part-{n}" for n in range(1000)
                          if consuming.partition_of(f"part-{n}", PARTS) == part) for part in range(PARTS)]

    def messages(self, part, begin, end):
        return [json.dumps({"stream": self.keys[part], "x": [[symbol] for symbol in
                                                             self.parts[part][at:at + STEPS]]})
                for at in range(begin, end, STEPS)]


@dataclasses.dataclass(frozen=True)
class Run:
    """kind: `parts`, four daemons without a fleet; `fleet`, which averages after `every` bytes
    each; `turns`, one daemon that reads the four parts as four streams, a message of each in
    turn; `order`, one that reads them one after the other."""
    kind: str
    every: int
    rate: float
    seed: int

    def __str__(self):
        name = f"{self.kind} {self.every}" if self.every else self.kind
        return f"{name}, rate {self.rate:g}, seed {self.seed}"

    @property
    def alone(self):
        return self.kind in ("turns", "order")

    def points(self, part):
        """Bytes of each daemon after which its parameters are measured."""
        points = [part * n // POINTS for n in range(1, POINTS + 1)]
        if self.alone:
            points += [part * n for n in (*LATER, PARTS)]
        return [point for point in points if not self.every or point % self.every == 0]

    def moments(self, part):
        """Positions in the last fifth whose parameters are kept for their mean, for daemons that
        do not average."""
        if self.every:
            return []
        end = part * (PARTS if self.alone else 1)
        fifth = end // POINTS if self.kind == "turns" else part // POINTS
        return [end - fifth * n // MOMENTS for n in reversed(range(MOMENTS))]

    def streams(self, text, begin, end):
        """{stream: messages} from one point to the next."""
        if self.kind == "turns":
            each = [text.messages(part, begin // PARTS, end // PARTS) for part in range(PARTS)]
            return {"text": [message for row in zip(*each, strict=True) for message in row]}
        if self.kind == "order":
            return {"text": [message for part in range(PARTS) for message in text.messages(
                part, min(max(begin - part * text.part, 0), text.part),
                min(max(end - part * text.part, 0), text.part))]}
        return {f"text.{part}": text.messages(part, begin, end) for part in range(PARTS)}


def bits(nats):
    return nats / math.log(2)


class Daemon(running.Daemon):
    def __init__(self, directory, name, config, **options):
        mine = pathlib.Path(directory) / name
        mine.mkdir()
        self.name = name
        super().__init__(mine, config.format(d=mine, name=name, **options))


class Held(Daemon):
    """A daemon that predicts held-out text with others' parameters, without learning."""

    def __init__(self, directory, text, options):
        super().__init__(directory, "held-out", CONFIG + MEASURES, seed=1, rate=0.001, watch=1,
                         symbols=text.symbols, units=options.units)
        self.ctl = shared.program(options.build, "runnel-ctl")
        self.subscriber, self.sent = running.subscribe(self, (b"loss",)), 0
        self.examples = self.socket(running.zmq.PUSH, "examples")
        self.pieces = [[numpy.array(held[at:at + HELD_STEPS], "<u4").tobytes()
                        for at in range(0, len(held), HELD_STEPS)] for held in text.held]

    def measure(self, parameters):
        """Bits per byte of each text, from the start of a stream."""
        path = self.directory / "parameters.safetensors"
        path.write_bytes(parameters)
        subprocess.run([self.ctl, "-c", self.endpoint("control"), "import", path], check=True,
                       stdout=subprocess.DEVNULL)
        weights = []
        for part, pieces in enumerate(self.pieces):
            for place, piece in enumerate(pieces):
                flags = DO_NOT_LEARN | (END if place == len(pieces) - 1 else 0)
                self.examples.send_multipart([b"held-out-%d" % part, piece, b"", struct.pack(
                    "<BBHIQd", 1, flags, 0, 0, self.sent, 0)])
                self.sent += 1
                weights.append(HELD_STEPS - (place == 0))  # a stream's first byte is not predicted
        losses = [message["loss"] for message in running.messages(self, self.subscriber, b"loss", len(weights))]
        return bits(numpy.average(losses, weights=weights))


@contextlib.contextmanager
def daemons(run, directory, redis, text, options):
    """The daemons of a run. A fleet's start one after the other, so that the partitions, and so
    the order of sums, are always the same."""
    config = CONFIG + READS + (SHARES if run.every else "")
    more = {"seed": run.seed, "rate": run.rate, "symbols": text.symbols, "units": options.units,
            "url": redis.url, "lease": LEASE, "every": run.every // STEPS,
            "watch": text.part // POINTS // STEPS * (PARTS if run.kind == "turns" else 1)}
    with contextlib.ExitStack() as stack:
        if run.alone:
            yield [stack.enter_context(Daemon(directory, "alone", config, stream="text", parts=0, **more))]
            return
        members = []
        for part in range(PARTS):
            stream, parts = ("text", PARTS) if run.every else (f"text.{part}", 0)
            members.append(stack.enter_context(Daemon(directory, f"worker-{part + 1}", config,
                                                      stream=stream, parts=parts, **more)))
            if run.every:
                all_have_some(redis, members)
        yield members


def all_have_some(redis, members):
    """Waits until partitions are distributed evenly, and all members read theirs."""
    least, rest = divmod(PARTS, len(members))
    want = sorted([least + 1] * rest + [least] * (len(members) - rest))
    fleet.until(lambda: sorted(member.ask("status")["fleet"]["partitions"] for member in members) == want
                and len(set(fleet.owners(redis))) == len(members), "shared", members)


def add(redis, streams):
    """All messages at once, so that all daemons of a fleet have messages to read."""
    redis.pipeline([("MULTI",), *(("XADD", stream, "*", "example", message)
                                  for stream, messages in streams.items() for message in messages), ("EXEC",)])


def await_learned(run, redis, members, point):
    """Waits until all is learned; in a fleet, until each daemon was in each round."""
    for member in members:
        running.wait_learned(member, point // STEPS)
    if not run.every:
        return
    rounds = point // run.every
    fleet.until(lambda: fleet.look(redis)["round"] > rounds and
                all(member.ask("status")["fleet"]["averages"] >= rounds for member in members),
                f"{rounds} rounds", members)
    seen = fleet.look(redis)["round"] - 1, [member.ask("status")["fleet"]["averages"] for member in members]
    if seen != (rounds, [rounds] * len(members)):
        shared.fail(f"{run}: expected {rounds} rounds of all daemons, got {seen[0]}, and by "
                    f"daemon {seen[1]}")


def mean(exports):
    """The mean of parameters, as a fleet computes it."""
    tensors_of = [tensors.loads(one) for one in exports]
    return tensors.dumps({name: numpy.mean([one[name].astype("f8") for one in tensors_of], axis=0)
                          for name in tensors_of[0]})


def play(run, text, held, options):
    """{"held": [[bytes, bits of each daemon], ..], "course": [bits while learning, of each fifth],
    "mean": [bits of the mean of each daemon's last moments], "seconds": of learning}"""
    points, moments, begin, measured, kept = run.points(text.part), run.moments(text.part), 0, [], []
    seconds = 0.0
    with tempfile.TemporaryDirectory(prefix="runnel-text-", ignore_cleanup_errors=True) as directory, \
            brokers.Redis(directory, "--appendfsync", "no") as redis, \
            daemons(run, directory, redis, text, options) as members:
        subscribers = [running.subscribe(member, (b"loss",)) for member in members]
        for point in sorted({*points, *moments}):
            streams, started = run.streams(text, begin, point), time.monotonic()
            add(redis, streams)
            await_learned(run, redis, members, point)
            seconds += time.monotonic() - started
            exports = [member.export() for member in members]
            if run.every and len(set(exports)) > 1:
                shared.fail(f"{run}: daemons differ after averaging")
            if point in points:
                measured.append([point, [held.measure(one) for one in exports[:1 if run.every else None]]])
            if point in moments:
                kept.append(exports)
            begin = point
        windows = points[-1] * POINTS // text.part // (PARTS if run.kind == "turns" else 1)
        courses = [[bits(message["mean"]) for message in running.messages(member, its, b"loss", windows)]
                   for member, its in zip(members, subscribers, strict=True)]
    return {"held": measured, "course": [statistics.mean(window) for window in zip(*courses, strict=True)],
            "mean": [held.measure(mean(one)) for one in zip(*kept, strict=True)], "seconds": round(seconds, 1)}


class Runs:
    """Results, stored in a file at once: existing ones are not run again."""

    def __init__(self, options):
        self.options, self.path, self.known = options, options.results, {}
        self.text = Text(options.text, options.part, options.held)
        mine = {"part": options.part, "held": sum(map(len, self.text.held)), "units": options.units}
        if self.path and self.path.exists():
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            if kept["options"] != mine:
                shared.fail(f"{self.path} has results of {kept['options']}; pass another file "
                            "with --results",
                            os.EX_DATAERR)
            self.known = kept["runs"]
        self.mine, self.held = mine, None

    def of(self, run):
        if str(run) not in self.known:
            self.known[str(run)] = play(run, self.text, self.held, self.options)
            print(f"{run}: {self.known[str(run)]['held'][-1]}", file=sys.stderr)
            if self.path:
                new = self.path.with_suffix(".new")
                new.write_text(json.dumps({"options": self.mine, "runs": self.known}, indent=1),
                               encoding="utf-8")
                new.replace(self.path)
        return self.known[str(run)]

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="runnel-text-", ignore_cleanup_errors=True)
        self.held = Held(self.directory.name, self.text, self.options)
        return self

    def __exit__(self, *why):
        self.held.__exit__(*why)
        self.directory.cleanup()
