#!/usr/bin/python3
"""How well does a configuration predict a stream on first sight, beside a simple baseline?

    tools/figures/prequential.py [--bin DIR] [--set KEY=VALUE]... CONFIGURATION SOURCE [ARGUMENT]...

SOURCE and its arguments are those of runnel-feed, for example

    tools/figures/prequential.py conf/text.yaml text tinyshakespeare.txt --count 100000

Starts runneld on sockets and a state directory of its own, sends the stream once, and prints the
mean loss of the whole stream and of each tenth of it. Every target is predicted before it is
learned (prequential), so this is a test on unseen data throughout. The source is read twice, for
the network and for the baseline (baselines.py), and has to be repeatable: record a live one with
`runnel-feed host --print --count 1200 >host.json` and give `json host.json`. One step an example.

Debian packages: python3, python3-yaml.
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import yaml

import baselines

MESSAGES = 500  # `loss` messages over the stream: what comes after the last one is left out
PARTS = 10
PATIENCE = 60  # seconds without progress after which the daemon is given up
EX_UNAVAILABLE = 69

# Of one `loss` message: the examples it covers and its mean; metric as in baselines.Score.
Interval = collections.namedtuple("Interval", "first until loss metric time")
# Means over some examples, of network and baseline; metrics may be None.
Part = collections.namedtuple("Part", "targets loss metric baseline_loss baseline_metric")


def give_up(sentence):
    print(f"prequential: {sentence}", file=sys.stderr)
    sys.exit(EX_UNAVAILABLE)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description="Prequential loss of a configuration on a stream, beside a baseline.")
    parser.add_argument("--bin", type=pathlib.Path, default=None,
                        help="directory of the programs (default: they are found in PATH)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="override one key of the configuration, as for runneld")
    parser.add_argument("configuration", type=pathlib.Path)
    parser.add_argument("source", nargs=argparse.REMAINDER,
                        help="source and arguments of runnel-feed")
    arguments = parser.parse_args()
    if not arguments.source:
        parser.error("a source of runnel-feed is needed, e.g.: text FILE")
    return arguments


def program(arguments, name):
    return str(arguments.bin / name) if arguments.bin else name


def daemon_command(arguments, *assignments):
    overrides = [word for assignment in (*arguments.set, *assignments)
                 for word in ("--set", assignment)]
    return [program(arguments, "runneld"), "--config", str(arguments.configuration), *overrides]


def check_configuration(arguments):
    try:
        check = subprocess.run([*daemon_command(arguments), "--check-config"], check=False,
                               stdout=subprocess.DEVNULL)
    except OSError as error:
        give_up(f"cannot run {error.filename}: {error.strerror}; name its directory with --bin")
    if check.returncode != 0:
        sys.exit(check.returncode)


def read_model(arguments):
    """The `model` of a configuration that is known to be right, with all --set applied."""
    with open(arguments.configuration, encoding="utf-8") as file:
        configuration = yaml.safe_load(file)
    for assignment in arguments.set:
        path, _, value = assignment.partition("=")
        *parents, key = path.split(".")
        place = configuration
        for name in parents:
            place = place[int(name)] if isinstance(place, list) else place.setdefault(name, {})
        place[key] = yaml.safe_load(value)
    return configuration["model"]


def score_baseline(arguments, baseline):
    """Scores of all examples, in order, without the network: None where there is no target."""
    command = [program(arguments, "runnel-feed"), *arguments.source, "--print", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as feeder:
        scores = [baseline.take(json.loads(line)) for line in feeder.stdout]
    if feeder.returncode != 0:
        sys.exit(feeder.returncode)
    return scores


class Run:
    """A daemon of its own with a recorder of its statistics; leaves nothing behind."""

    def __init__(self, arguments, every):
        self.arguments = arguments
        self.directory = tempfile.TemporaryDirectory(prefix="prequential.")
        self.record = pathlib.Path(self.directory.name, "statistics.json")
        sockets = (f"{name}.bind={self.endpoint(name)}"
                   for name in ("examples", "statistics", "control"))
        self.log = pathlib.Path(self.directory.name, "log")
        with open(self.log, "wb") as file:
            self.daemon = subprocess.Popen(
                daemon_command(arguments, f"statistics.every={every}",
                               f"state.directory={self.directory.name}/state", *sockets),
                stderr=file)
        with open(self.record, "wb") as file:
            self.recorder = subprocess.Popen(
                [program(arguments, "runnel-watch"), "--json", "--connect",
                 self.endpoint("statistics")], stdout=file, stderr=subprocess.DEVNULL)

    def endpoint(self, name):
        return f"ipc://{self.directory.name}/{name}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self.daemon, self.recorder):
            process.terminate()
            process.wait()
        self.directory.cleanup()

    def messages(self):
        lines = self.record.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def wait_until(self, what, progress):
        """Until `progress` returns None; what else it returns has to change once in a while."""
        known, since = object(), time.monotonic()
        while (value := progress()) is not None:
            if self.daemon.poll() is not None:
                sys.stderr.write(self.log.read_text())
                sys.exit(self.daemon.returncode or EX_UNAVAILABLE)
            if value != known:
                known, since = value, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                give_up(f"{what} did not come; it stopped at {value}")
            time.sleep(0.05)

    def status(self):
        reply = subprocess.run(
            [program(self.arguments, "runnel-ctl"), "status", "--json", "--connect",
             self.endpoint("control")], stdout=subprocess.PIPE, text=True, check=False)
        if reply.returncode != 0:
            give_up("the daemon does not answer")
        return json.loads(reply.stdout)

    def feed(self, examples):
        """Send the stream, and wait until all of it is learned and recorded."""
        self.wait_until("the daemon's first status",
                        lambda: None if '"status"' in self.record.read_text() else "start")
        command = [program(self.arguments, "runnel-feed"), *self.arguments.source,
                   "--connect", self.endpoint("examples")]
        status = subprocess.run(command, check=False).returncode
        if status != 0:
            sys.exit(status)
        every = self.status()["every"]
        self.wait_until(f"the end of {examples} examples", lambda: self.missing(examples))
        self.wait_until("the last statistics", lambda: self.unrecorded(examples // every * every))
        return self.status()

    def missing(self, examples):
        learned = self.status()["examples"]
        return None if learned >= examples else f"{learned} examples"

    def unrecorded(self, examples):
        recorded = max((m["examples"] for m in self.messages() if m["topic"] == "loss"), default=0)
        return None if recorded >= examples else f"{recorded} examples"


def intervals(messages):
    losses = [m for m in messages if m["topic"] == "loss"]
    first, result = 0, []
    for number, message in enumerate(losses, start=1):
        if message["sequence"] != number:
            give_up("a statistics message was lost; try again on a quieter machine")
        metric = message["metric"]
        rmse, accuracy = metric.get("rmse"), metric.get("accuracy")
        result.append(Interval(first, message["examples"], message["mean"],
                               rmse**2 if rmse is not None else accuracy, message["time"]))
        first = message["examples"]
    return result


def mean(pairs):
    """Weighted mean of (value, weight), None without values."""
    pairs = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None


def summarize(chosen, scores):
    """Means over the targets of the chosen intervals, the same ones for network and baseline."""
    weights = [sum(s is not None for s in scores[i.first:i.until]) for i in chosen]
    rival = [s for i in chosen for s in scores[i.first:i.until] if s is not None]
    return Part(sum(weights),
                mean((i.loss, w) for i, w in zip(chosen, weights)),
                mean((i.metric, w) for i, w in zip(chosen, weights)),
                mean((s.loss, 1) for s in rival),
                mean((s.metric, 1) for s in rival))


def show(label, part, kind):
    columns = [part.loss, part.baseline_loss]
    if kind in ("softmax", "mixture"):
        columns += [value / math.log(2) for value in columns]
    if kind == "softmax":
        columns += [part.metric, part.baseline_metric]
    if kind in ("squared", "gaussian"):
        columns += [math.sqrt(part.metric), math.sqrt(part.baseline_metric)]
    print(f"{label:<12}{part.targets:>9}" + "".join(f"{value:>12.4f}" for value in columns))


def report(parts, scores, kind, name):
    metrics = {"softmax": ("bits", "accuracy"), "mixture": ("bits",)}.get(kind, ("rmse",))
    print(f"baseline: {name}")
    print(f"{'':<12}{'targets':>9}"
          + "".join(f"{metric:>12}{'baseline':>12}" for metric in ("loss", *metrics)))
    tenths = [parts[len(parts) * n // PARTS:len(parts) * (n + 1) // PARTS] for n in range(PARTS)]
    show("whole", summarize(parts, scores), kind)
    for number, tenth in enumerate(tenths, start=1):
        show(f"tenth {number}", summarize(tenth, scores), kind)
    show("last fifth", summarize(tenths[-2] + tenths[-1], scores), kind)


def main():
    arguments = parse_arguments()
    check_configuration(arguments)
    model = read_model(arguments)
    baseline = baselines.choose(model)
    if baseline is None:
        give_up(f"no baseline is known for loss: {model['output']['loss']} with these targets")
    scores = score_baseline(arguments, baseline)
    every = max(1, len(scores) // MESSAGES)
    with Run(arguments, every) as run:
        final = run.feed(len(scores))
        parts = intervals(run.messages())
    if len(parts) < PARTS:
        give_up(f"{len(scores)} examples are too few for {PARTS} parts")
    print(f"{final['name']}: {final['model']}, {final['parameters']} parameters")
    report(parts, scores, model["output"]["loss"], baseline.name)
    speed = (parts[-1].until - parts[0].until) / (parts[-1].time - parts[0].time)
    print(f"{final['examples']} of {len(scores)} examples learned, {final['rejected']} rejected, "
          f"{final['skipped']} updates skipped; {speed:.0f} examples a second on {final['device']}")


if __name__ == "__main__":
    main()
