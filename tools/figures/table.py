#!/usr/bin/env python3
"""One table: this machine's floor, runnel in-process and through a socket, and PyTorch.

`make bench` calls it. In every round it runs, for each configuration, runnel-bench --socket (which
measures ceilings, in-process and socket in turn) and then the PyTorch loop of pytorch.py, so that what
disturbs the machine disturbs all; ratios are taken inside a round, and medians of the rounds shown.
With --device cuda the table is another one: that of gpu_table.py.

Needs no packages itself. The peer needs PyTorch in the Python that --python names:

    python3 -m venv torch && torch/bin/pip install torch
    make bench PYTHON=torch/bin/python
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

import gpu_table

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGURATIONS = [os.path.join(HERE, "..", "..", "conf", "bench", name + ".yaml")
                  for name in ("gru64", "lstm128", "lstm400x3")]
COLUMNS = [("configuration", "<14"), ("floor us", ">9"), ("one at a time", ">14"),
           ("of floor", ">9"), ("queued", ">8"), ("of floor", ">9"), ("socket", ">8"),
           ("of queued", ">10"), ("PyTorch", ">9"), ("times faster", ">13")]


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"table.py: {' '.join(command)} ended with status {done.returncode}")
    return json.loads(done.stdout)


def measure_runnel(options, configuration):
    return run([options.bench, "--config", configuration, "--socket", "--json",
                "--seconds", str(options.seconds)])


def measure_peer(options, found):
    """The same work, by what runnel-bench says of its model."""
    model, learning = found["model"], found["learning"]
    layers = model["layers"]
    same = all(layer == layers[0] for layer in layers) and layers[0]["norm"]
    if (not same or layers[0]["cell"] not in ("lstm", "gru") or model["input"] != "real"
            or model["loss"] not in ("squared", "mixture") or learning["optimizer"] != "adam"
            or learning["window"] != learning["stride"]):
        return None
    peer = run([options.python, os.path.join(HERE, "pytorch.py"), "--json",
                "--seconds", str(options.seconds), "--cell", layers[0]["cell"],
                "--size", str(layers[0]["size"]), "--layers", str(len(layers)),
                "--inputs", str(model["inputs"]), "--loss", model["loss"],
                "--outputs", str(model["size"]), "--components", str(model["components"]),
                "--stride", str(learning["stride"]), "--clip", str(learning["clip"])])
    if peer["parameters"] != found["parameters"]:
        sys.exit(f"table.py: PyTorch has {peer['parameters']} parameters, "
                 f"runnel {found['parameters']}")
    return peer


def figures(found, peer):
    """Of one round."""
    us = {part: figure["median"] for part, figure in found["us"].items()}
    row = {"floor": found["single"]["floor_us"], "single": us["single"], "queued": us["queued"],
           "single_ratio": found["single"]["ratio"], "queued_ratio": found["queued"]["ratio"],
           "socket": us["socket"], "socket_ratio": us["queued"] / us["socket"]}
    if peer:
        row["torch"] = peer["us"]["median"]
        row["faster"] = row["torch"] / row["socket"]
    return row


def medians(rows):
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def spreads(rows):
    """Largest minus smallest over the median, of the ratios."""
    return {key: (max(row[key] for row in rows) - min(row[key] for row in rows))
            / statistics.median(row[key] for row in rows) for key in rows[0]}


def cells(name, row):
    def us(key):
        return f"{row[key]:.{2 if row[key] < 100 else 0}f}" if key in row else "-"

    def percent(key):
        return f"{100 * row[key]:.0f}%"

    return [name, us("floor"), us("single"), percent("single_ratio"), us("queued"),
            percent("queued_ratio"), us("socket"), percent("socket_ratio"), us("torch"),
            f"{row['faster']:.1f}" if "faster" in row else "-"]


def print_line(texts, markdown):
    if markdown:
        print("| " + " | ".join(texts) + " |")
    else:
        print("".join(f"{text:{style}}" for text, (_, style) in zip(texts, COLUMNS)))


def print_machine(found, torch_version):
    machine = found["machine"]
    levels = ", ".join(f"{level['name']} {level['read_gbs']['median']:.0f}"
                       for level in machine["levels"])
    print(f"{machine['processor']}, {os.cpu_count()} CPUs; one core, {machine['instructions']}: "
          f"{machine['gflops']['median']:.0f} GFLOP/s; reads in GB/s: {levels}")
    if torch_version:
        print(f"PyTorch {torch_version}, one thread")


def print_table(results, options, torch_version):
    last = next(iter(results.values()))["found"]
    print_machine(last, torch_version)
    print(f"Microseconds for an example, medians of {options.rounds} rounds:\n")
    print_line([title for title, _ in COLUMNS], options.markdown)
    if options.markdown:
        print_line(["---"] + ["--:"] * (len(COLUMNS) - 1), True)
    for name, result in results.items():
        print_line(cells(name, medians(result["rows"])), options.markdown)
    if not torch_version:
        print(f"\nNo PyTorch in {options.python}: its columns are empty. To have them:\n"
              "    python3 -m venv torch && torch/bin/pip install torch\n"
              "    make bench PYTHON=torch/bin/python")


def measure(options, torch):
    results, version = {}, None
    for number in range(options.rounds):
        for configuration in options.configurations or CONFIGURATIONS:
            name = os.path.splitext(os.path.basename(configuration))[0]
            print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr)
            found = measure_runnel(options, configuration)
            peer = measure_peer(options, found) if torch else None
            version = peer["torch"] if peer else version
            result = results.setdefault(name, {"rows": []})
            result["found"] = found
            result["rows"].append(figures(found, peer))
    return results, version


def numbers(text):
    return [int(part) for part in text.split(",")]


def optimizers(text):
    names = text.split(",")
    for name in names:
        if name not in gpu_table.OPTIMIZERS:
            raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(gpu_table.OPTIMIZERS)}")
    return names


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("configurations", nargs="*", metavar="FILE")
    parser.add_argument("--bench", default="./runnel-bench", help="the program to measure with")
    parser.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="for one measurement in a round")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", metavar="FILE", help="write every round's figures, too")
    gpu = parser.add_argument_group("with --device cuda")
    gpu.add_argument("--windows", type=numbers, default=[1, 16, 32], metavar="N,...")
    gpu.add_argument("--optimizers", type=optimizers, default=list(gpu_table.OPTIMIZERS),
                     metavar="NAME,...", help=" and ".join(gpu_table.OPTIMIZERS))
    gpu.add_argument("--examples", type=int, default=256, help="learned before each measurement")
    gpu.add_argument("--deadline", type=float, default=float("inf"), metavar="SECONDS",
                     help="begin no row after these, and say which were left out")
    return parser.parse_args()


def main():
    options = arguments()
    if options.device != "cpu":
        sys.exit(gpu_table.main(options))
    results, version = measure(options, gpu_table.has_torch(options.python))
    print_table(results, options, version)
    if options.json:
        for result in results.values():
            result.update(median=medians(result["rows"]), spread=spreads(result["rows"]))
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
