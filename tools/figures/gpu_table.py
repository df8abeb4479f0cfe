"""The GPU's part of tools/figures/bench: one row for each configuration, window = stride and
optimizer.

In every row runnel-bench measures the CUDA engine and the CPU engine, and tools/figures/pytorch
on the same GPU the eager loop, CUDA graphs, and cuDNN's layers without normalization, one after
the other. A measurement that fails leaves a dash in the table, its error below it, and the exit
status 1."""
import json
import os
import subprocess
import sys

import shared

PEER = str(shared.SOURCE / "tools" / "figures" / "pytorch")
NAMES = ("gru64", "lstm128", "lstm256", "lstm400x3", "gru1024", "gru2400")
CONFIGURATIONS = [str(shared.SOURCE / "conf" / "bench" / f"{name}.yaml") for name in NAMES]
OPTIMIZERS = {"adam": "{kind: adam, rate: 0.001}", "sgd": "{kind: sgd, rate: 0.001}"}
WINDOWS = [1, 16, 32]
VARIANTS = ("eager", "graphs", "reference")
PATIENCE = 300  # seconds of a measurement beyond the requested time

COLUMNS = [("configuration", "<14"), ("window", ">7"), ("optimizer", ">10"), ("kflop", ">9"),
           ("kB", ">9"), ("floor us", ">9"), ("queued us", ">10"), ("times floor", ">12"),
           ("one at a time: floor us", ">24"), ("us", ">9"), ("times floor", ">12"),
           ("p50 us", ">9"), ("p99 us", ">9"), ("CPU us", ">9"), ("x", ">6"), ("eager us", ">10"),
           ("x", ">6"), ("graphs us", ">10"), ("x", ">6"), ("cuDNN us", ">9"), ("x", ">6")]


class Failure(Exception):
    """The error of a measurement, in one sentence."""


def run(command, seconds, environment=None):
    """The JSON that a program prints."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=seconds + PATIENCE, env=environment)
    except subprocess.TimeoutExpired:
        raise Failure(f"took more than {seconds + PATIENCE:.0f} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise Failure(f"status {done.returncode}: {lines[-1]}")
    return json.loads(done.stdout)


def measure_runnel(options, case, device):
    configuration, window, optimizer = case
    command = [options.bench, "--config", configuration, "--device", device, "--json",
               "--seconds", str(options.seconds), "--examples", str(options.examples),
               "--set", f"learning.optimizer={OPTIMIZERS[optimizer]}"]
    for key in ("window", "stride"):
        command += ["--set", f"learning.{key}={window}"]
    return run(command, options.seconds)


def measure_peers(options, found, variants=VARIANTS):
    """The same work in PyTorch on the same device, from runnel-bench's description of its model:
    the result of each variant, or {"failed": why}."""
    model, learning, layer = found["model"], found["learning"], found["model"]["layers"][0]
    command = [options.python, PEER, "--json", "--device",
               options.device, "--variants", ",".join(variants), "--seconds", str(options.seconds),
               "--cell", layer["cell"], "--size", str(layer["size"]),
               "--layers", str(len(model["layers"])), "--inputs", str(model["inputs"]),
               "--loss", model["loss"], "--outputs", str(model["size"]),
               "--components", str(model["components"]), "--stride", str(learning["stride"]),
               "--clip", str(learning["clip"]), "--optimizer", learning["optimizer"],
               "--rate", str(learning["rate"]), "--beta1", str(learning["beta1"])]
    peers = run(command, options.seconds * len(variants))
    for variant in variants:
        count = peers["variants"][variant].get("parameters", found["parameters"])
        if variant != "reference" and count != found["parameters"]:
            raise Failure(f"PyTorch has {count} parameters, runnel {found['parameters']}")
    return peers


def attempt(row, what, measure, *arguments):
    """The result of `measure`; None, and a line in the row's failures, if it fails."""
    try:
        return measure(*arguments)
    except Failure as failure:
        row["failures"].append(f"{row['name']}, window {row['window']}, {row['optimizer']}, "
                               f"{what}: {failure}")
        return None


def measure_row(options, case, torch):
    """`case`: configuration, window and optimizer. `torch`: whether PyTorch is measured."""
    configuration, window, optimizer = case
    name = os.path.splitext(os.path.basename(configuration))[0]
    row = {"name": name, "window": window, "optimizer": optimizer, "failures": []}
    row["gpu"] = attempt(row, options.device, measure_runnel, options, case, options.device)
    row["cpu"] = attempt(row, "cpu", measure_runnel, options, case, "cpu")
    found = row["gpu"] or row["cpu"]
    row["peers"] = (attempt(row, "PyTorch", measure_peers, options, found)
                    if torch and found else None)
    for variant, result in (row["peers"] or {"variants": {}})["variants"].items():
        if "failed" in result:
            row["failures"].append(f"{name}, window {window}, {optimizer}, PyTorch {variant}: "
                                   f"{result['failed']}")
    return row


def number(value):
    return "-" if value is None else f"{value:.{2 if value < 100 else 0}f}"


def work(mode):
    """Thousands of operations, and of bytes, per example."""
    phases = [mode[phase] for phase in ("forward", "backward", "optimizer")]
    return (sum(phase["flops"] for phase in phases) / 1e3,
            sum(phase["weights_read"] + phase["updated"] for phase in phases) / 1e3)


def cells(row):
    """Times floor: measured / floor. x: the CPU's time / the GPU's, queued."""
    texts, ours = [row["name"], str(row["window"]), row["optimizer"]], None
    if row["gpu"]:
        gpu, ours = row["gpu"], row["gpu"]["us"]["queued"]["quiet"]
        single, queued = gpu["single"], gpu["queued"]
        texts += [number(value) for value in (
            *work(queued), queued["floor_us"], ours, 1 / queued["ratio"], single["floor_us"],
            gpu["us"]["single"]["quiet"], 1 / single["ratio"], gpu["latency_us"]["p50"],
            gpu["latency_us"]["p99"])]
    else:
        texts += ["-"] * 10
    others = [row["cpu"]["us"]["queued"]["quiet"] if row["cpu"] else None]
    for variant in VARIANTS:
        result = row["peers"]["variants"][variant] if row["peers"] else {}
        others.append(result["us"]["quiet"] if "us" in result else None)
    for other in others:
        texts += [number(other), number(other / ours if other and ours else None)]
    return texts


def line(texts, markdown, columns=COLUMNS):
    if markdown:
        return "| " + " | ".join(texts) + " |"
    return "".join(f"{text:{style}}" for text, (_, style) in zip(texts, columns))


def heads(markdown, columns=COLUMNS):
    lines = [line([title for title, _ in columns], markdown, columns)]
    return lines + [line(["---"] + ["--:"] * (len(columns) - 1), True)] * markdown


def figures(gpu):
    """Speeds of the device, the four basic ones first: lines of Markdown."""
    barriers = {scope: f"{time:.3f} us" if time else "none" for scope, time in gpu["barriers_us"].items()}
    return [f"| figure of {gpu['name']} | |", "|---|--:|",
            f"| launch, until the host sees its end | {gpu['launch_us']:.2f} us |",
            *(f"| barrier of a {scope} | {time} |" for scope, time in barriers.items()),
            f"| round trip through pinned memory | {gpu['round_trip_us']:.2f} us |",
            f"| copy in device memory, read and written | {gpu['copy_gbs']:.0f} GB/s |",
            f"| reads of the L2 cache, {gpu['cache'] >> 10} KiB | {gpu['cache_read_gbs']:.0f} GB/s |",
            f"| multiply-adds | {gpu['gflops']:.0f} GFLOP/s |"]


def table(rows, markdown):
    """Lines: the device's figures, then a row for each configuration."""
    gpus = [row["gpu"]["gpu"] for row in rows if row["gpu"] and "gpu" in row["gpu"]]
    versions = [row["peers"]["torch"] for row in rows if row["peers"]]
    lines = figures(gpus[0]) if gpus else []
    lines += ["", "Microseconds for an example. PyTorch "
              f"{versions[0] if versions else 'was not measured'}.", "",
              *heads(markdown)]
    return lines + [line(cells(row), markdown) for row in rows]


def processor():
    """The CPU's name and number."""
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else 'unknown'}, {os.cpu_count()} CPUs"


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode == 0


def cases(options):
    return [(configuration, window, optimizer)
            for configuration in options.configurations or CONFIGURATIONS
            for window in options.windows for optimizer in options.optimizers]


def main(options):
    """Returns the exit status."""
    torch = has_torch(options.python)
    rows = []
    for case in cases(options):
        name = f"{os.path.basename(case[0])}, window {case[1]}, {case[2]}"
        print(f"row {len(rows) + 1} of {len(cases(options))}: {name}", file=sys.stderr)
        rows.append(measure_row(options, case, torch))
        if options.json:
            with open(options.json, "w") as file:
                json.dump(rows, file, indent=1)
    failures = [text for row in rows for text in row["failures"]]
    if not torch:
        failures.append(f"no PyTorch in {options.python}: its columns are empty")
    print("\n".join(table(rows, options.markdown)))
    if failures:
        print("\nNot measured:\n")
    for text in failures:
        print(f"- {text}")
    return 1 if failures else 0
