#!/usr/bin/env python3
"""Each run of runnel-experiment has the same bits as a daemon with its configuration and stream,
for every model and any number of parallel runs."""
import json
import math
import random
import subprocess

import cases
import experiments
import running

# relative precision of numbers in a daemon's messages; parameters are compared bit by bit
DIGITS = 15
KEEP = {"keep": ["losses", "parameters"]}


class Compared:
    """One configuration and one stream, learned by a daemon and by runnel-experiment."""

    def __init__(self, directory, base, feed, *, rejected=0, settings=None, replace=True):
        self.directory, self.feed, self.rejected = directory, feed, rejected
        self.settings = {"rate": 0.01, **(settings or {})} if replace else settings or {}
        self.base = {"name": "bits", **base,
                     "examples": {"bind": f"ipc://{directory}/examples"},
                     "statistics": {"bind": f"ipc://{directory}/statistics", "every": 1},
                     "control": {"bind": f"ipc://{directory}/control"},
                     "state": {"directory": f"{directory}/state"}}

    def experiment(self):
        """The run's number of examples."""
        experiments.write(self.directory, "base.yaml", self.base)
        experiments.write(self.directory, "bits.yaml", {
            "base": "base.yaml", "streams": {"data": {"feed": self.feed}},
            "variants": [{"name": "one", **self.settings}], "seeds": [7], "report": KEEP})
        done = experiments.call(self.directory, "bits.yaml", "-q")
        assert done.status == 0, done
        self.results = self.directory / "bits.experiment"
        (examples, rejected, state, error), = experiments.rows(
            self.results, "SELECT examples, rejected, state, error FROM runs")
        assert (rejected, state, error) == (self.rejected, "done", None), (rejected, state, error)
        return examples

    def daemon(self, examples):
        """The losses and the export of a daemon."""
        full = {"rate": "learning.optimizer.rate", "norm": "model.layers.0.norm"}
        sets = [f"--set={full.get(key, key)}={json.dumps(value)}"
                for key, value in self.settings.items()]
        with running.Daemon(self.directory, json.dumps(self.base), *sets, "--set=seed=7") as daemon:
            running.wait_learned(daemon, 0)
            subscriber = running.subscribe(daemon, (b"loss",))
            fed = subprocess.run([experiments.FEED, *self.feed, "-q", "-c",
                                  daemon.endpoint("examples")], cwd=self.directory,
                                 timeout=running.LIMIT, check=False)
            assert fed.returncode == 0, fed
            found = running.messages(daemon, subscriber, b"loss", examples)
            assert [m["examples"] for m in found] == list(range(1, examples + 1))
            daemon.until(lambda: daemon.ask("status")["rejected"] == self.rejected)
            return [m["mean"] for m in found], daemon.export()

    def check(self, scored):
        """Checks that both are equal, and that `scored` examples have a loss."""
        examples = self.experiment()
        theirs, exported = self.daemon(examples)
        own = [None if math.isnan(loss) else float(f"{loss:.{DIGITS}g}")
               for loss in experiments.losses(self.results)]
        different = [n for n, (a, b) in enumerate(zip(own, theirs)) if a != b]
        assert len(own) == len(theirs) == examples and not different, different[:5]
        assert sum(loss is not None for loss in own) == scored, own[:3]
        (kept,), = experiments.rows(self.results, "SELECT safetensors FROM parameters")
        assert kept == exported


def csv(directory, *options, count=300):
    experiments.table(directory / "data.csv", count=count)
    return ["csv", "data.csv", *options]


def test_numbers_with_a_scale(directory):
    feed = csv(directory, "--columns", "c0,c1")
    Compared(directory, experiments.real(2), feed, settings={"norm": "layer"}).check(299)


def test_numbers_without_a_norm(directory):
    feed = csv(directory, "--columns", "c0,c1")
    Compared(directory, experiments.real(2), feed, settings={"norm": "none"}).check(299)


def test_times_and_another_learning_rule(directory):
    base = experiments.real(2)
    base["model"]["input"]["time"] = ["day"]
    base["learning"] = {"rule": "rtrl", "stride": 2, "clip": 1}
    feed = csv(directory, "--columns", "c0,c1", "--time", "row")
    Compared(directory, base, feed).check(299)


def test_text(directory):
    chance = random.Random(3)
    (directory / "text").write_text("".join(chance.choice("ab c\n") for _ in range(400)))
    base = experiments.real(2)
    base["model"] = {"input": {"kind": "symbol", "size": 256},
                     "layers": [{"cell": "lstm", "size": 8}],
                     "output": {"loss": "softmax", "size": 256, "target": "next"}}
    Compared(directory, base, ["text", "text"]).check(399)
    assert experiments.rows(directory / "bits.experiment", "SELECT crps, crps_skill FROM runs") == [(None, None)]


def test_columns_words_and_what_is_rejected(directory):
    """Lines of JSON by name. Words beyond the vocabulary and invalid examples are rejected, some
    examples are not learned, and sequences end."""
    chance = random.Random(4)
    lines = []
    for n in range(300):
        host = chance.choice(["a", "b", "c", "surplus"] if n > 20 else ["a", "b", "c"])
        example = {"x": {"load": round(chance.gauss(0, 1), 4), "host": host}, "stream": f"s{n % 3}"}
        if n % 50 == 49:
            example["end"] = True
        if n % 7 == 3:
            example["learn"] = False
        lines.append(example)
    rejected = sum(line["x"]["host"] == "surplus" for line in lines)
    assert rejected > 10
    base = experiments.real(2)
    base["model"]["input"] = {"scale": "standard", "columns": [
        {"name": "load", "kind": "real"},
        {"name": "host", "kind": "symbol", "vocabulary": {"capacity": 3, "unknown": "reject"},
         "embedding": 2}]}
    base["model"]["output"] = {"loss": "squared", "target": "next"}
    (directory / "lines").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # the first accepted example of each sequence has no loss
    taken, open_streams, scored = 0, set(), 0
    for line in lines:
        if line["x"]["host"] == "surplus":
            continue
        taken += 1
        scored += line["stream"] in open_streams
        open_streams.add(line["stream"])
        if "end" in line:
            open_streams.discard(line["stream"])
    Compared(directory, base, ["json", "lines"], rejected=rejected).check(scored)


def test_labels(directory):
    """Labels arrive later, one of them twice: the second one is rejected."""
    feed = csv(directory, "--columns", "c0,c1", "--label-file", "labels.csv", count=200)
    labels = [f"{row},{row + 5},{row % 9 / 10}" for row in range(1, 190, 2)] + ["11,195,0.5"]
    labels.sort(key=lambda line: int(line.split(",")[1]))
    (directory / "labels.csv").write_text("row,after,target\n" + "\n".join(labels) + "\n")
    base = experiments.real(2)
    base["model"]["output"] = {"loss": "squared", "size": 1, "target": "later", "patience": 20}
    Compared(directory, base, feed, rejected=1).check(95)


def test_forecasts_of_members(directory):
    feed = csv(directory, "--columns", "c0,c1")
    base = {"preset": "forecast", "model": {"input": {"size": 2}}, "device": "cpu",
            "learning": {"clip": 1}}
    Compared(directory, base, feed, replace=False).check(299)
    (crps, skill), = experiments.rows(directory / "bits.experiment", "SELECT crps, crps_skill FROM runs")
    assert 0 < crps < 2 and -1 < skill < 1, (crps, skill)


def test_jobs_change_no_bit(directory):
    experiments.table(directory / "data.csv")
    experiments.write(directory, "e.yaml", {
        "base": experiments.real(2), "streams": {"data": {"feed": "csv data.csv --columns c0,c1"}},
        "grid": {"rate": [0.001, 0.01], "norm": ["layer", "none", "weight"]}, "seeds": 2})
    found = []
    for jobs in 1, 3:
        done = experiments.call(directory, "e.yaml", "-q", "--jobs", jobs, "-o", f"jobs{jobs}")
        assert done.status == 0, done
        found.append(experiments.digests(directory / f"jobs{jobs}"))
    assert len(found[0]) == 12 and found[0] == found[1]


if __name__ == "__main__":
    cases.run(globals())
