#!/usr/bin/python3
"""Plays the cases of learning that lasts by the player of conformance cases, with its options:
play_lasting.py [--runneld PROGRAM] [--device DEVICE] CASE.yaml ...

Also compares what the daemon publishes after the last example, if it publishes `units`. Prints one line per case, also
for a case that is not supported, and closes with 'N passed, N failed'."""
import json
import math
import os
import pathlib
import sys
import tempfile
import time

import yaml
import zmq

CONFORMANCE = pathlib.Path(os.environ.get("RUNNEL_CONFORMANCE", pathlib.Path(__file__).parents[3] / "shared/conformance"))
sys.path.append(str(CONFORMANCE))
import run  # noqa: E402

BETA1 = 0.9  # the reference's default
RANK_EVERY = 16  # updates, of the daemon
TOLERANCE = 1e-3
NOT_SUPPORTED = {  # name: reason
    "rnn-diagonal": "its updates at an early end of a stream trace steps again that were already learned"}
FIELDS = {"dormant": ("units", "dormant"), "saturated": ("units", "saturated"), "rank": ("units", "rank"),
          "weight_norm": ("weights", "norm"), "growth": ("weights", "growth")}


class Daemon(run.Daemon):
    """After the export, it gets one more example, which is not learned, to publish the final statistics."""
    case = None

    def __init__(self, program, config, directory, device):
        statistics = {}
        if "plasticity" in config["learning"]:
            statistics["plasticity"] = config["learning"].pop("plasticity")
        super().__init__(program, config, directory, device, **statistics)
        self.model, self.published = config["model"], self.socket(zmq.SUB, "statistics")
        for topic in b"loss", b"state":
            self.published.setsockopt(zmq.SUBSCRIBE, topic)

    def ask(self, request, seconds=10):
        reply = super().ask(request, seconds)
        if request["command"] == "export":
            self.compare()
        return reply

    def compare(self):
        stored = json.loads(self.case.with_suffix(".json").read_text())
        last = dict(stored["examples"][-1], learn=False)
        self.examples.send_multipart(run.message(self.model, last))
        found, end = {}, time.monotonic() + 20
        while found.keys() != {b"loss", b"state"}:
            if not self.published.poll(200):
                if time.monotonic() > end:
                    raise RuntimeError(f"no statistics after the export, only {sorted(found)}")
                continue
            topic, body = self.published.recv_multipart()[:2]
            body = json.loads(body)
            if body.get("examples") == len(stored["examples"]) + 1:
                found[topic] = body
        layers = found[b"state"]["layers"]
        if "units" not in layers[0]:
            return
        for layer, expected in zip(layers, stored["published"]["layers"], strict=True):
            for name, (group, field) in FIELDS.items():
                if name != "rank" or self.rank_every == RANK_EVERY:
                    check(name, layer[group][field], expected[name])
        check("plasticity", found[b"loss"]["plasticity"], stored["published"]["plasticity"])


def check(name, value, expected):
    if value is None or expected is None:
        good = value is expected
    else:
        good = math.isclose(value, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE * 1e-2)
    if not good:
        raise RuntimeError(f"published {name}: {value}, expected {expected}")


def reason_against(case, arguments):
    """Why the case is not supported, or None."""
    learning = yaml.safe_load(case.read_text())["learning"]
    if "renew" in learning:
        return "renew"
    if "cuda" in arguments and learning.get("rule", "tbptt") != "tbptt":
        return f"rule: {learning['rule']} with device: cuda"
    return NOT_SUPPORTED.get(case.stem)


def play(program, case, device, original=run.play):
    """Plays the case with the daemon's keys."""
    config = yaml.safe_load(case.read_text())
    config["learning"]["optimizer"].setdefault("beta1", BETA1)
    Daemon.rank_every = config["learning"].pop("rank_every", RANK_EVERY)
    with tempfile.TemporaryDirectory(prefix="runnel-lasting-") as directory:
        Daemon.case = pathlib.Path(directory, case.name)
        Daemon.case.write_text(yaml.safe_dump(config, sort_keys=False))
        for ending in ".json", ".initial.safetensors", ".final.safetensors":
            Daemon.case.with_suffix(ending).symlink_to(case.with_suffix(ending).resolve())
        return original(program, Daemon.case, device)


def main():
    run.Daemon, run.play, arguments, played = Daemon, play, sys.argv[1:], 0
    for case in [pathlib.Path(argument) for argument in arguments if argument.endswith(".yaml")]:
        reason = reason_against(case, sys.argv)
        played += not reason
        if reason:
            arguments.remove(str(case))
            print(f"not supported: {case.stem}: {reason}", flush=True)
    if not played:
        print("0 passed, 0 failed")
        return 0
    sys.argv[1:] = arguments
    return run.main()


if __name__ == "__main__":
    sys.exit(main())
