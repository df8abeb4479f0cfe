#!/usr/bin/python3
"""Tests runnel-bench: the work of an example, no allocations while learning, the bound of memory,
and the daemon that it starts and ends. Also tests the barriers of a GPU, reproducible parameters, and
usage errors. Speeds are not tested."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cases

BUILD = pathlib.Path(os.environ.get("builddir", "."))
SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
PROGRAM = str(BUILD / "runnel-bench")
CONFIGURATIONS = SOURCE / "conf" / "bench"
LIMIT = 120  # seconds: only ends a test that hangs
USAGE, UNAVAILABLE, IO, CONFIGURATION = 64, 69, 74, 78
SANITIZERS = "#define RUNNEL_SANITIZERS" in (BUILD / "build-config.h").read_text()
MODULE = BUILD / "tests" / "hostcuda" / "runnel-cuda.so"
GPU = {**os.environ, "RUNNEL_CUDA_MODULE": str(MODULE), "HOSTCUDA_SMS": "4",
       "HOSTCUDA_MEMORY": str(64 << 20)}
FLOAT = 4
ADAM, NORM = 9, 2  # floating-point operations for each parameter, see bench_floor.c
FORWARD, BACKWARD = 6 * 7 + 3 * 16 + 7, 6 * 11 + 16  # elementwise operations for each unit of a gru


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=LIMIT, **options)


def measure(name, *arguments, **options):
    done = run("--config", CONFIGURATIONS / (name + ".yaml"), "--seconds", 0, "--examples", 200,
               "--json", *arguments, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(a, b):
    assert abs(a - b) <= 1e-4 * abs(b), (a, b)


def test_work_of_a_gru():
    """window = stride: each step is computed once forward and once backward."""
    found = measure("gru64")
    ih, hh, out, window = 192 * 8, 192 * 64, 8 * 64, 16
    matrices, parameters = ih + hh + out, found["parameters"]
    assert parameters == matrices + 192 * 5 + 8
    for mode, together in (("single", 1), ("queued", window)):
        work = found[mode]
        close(work["forward"]["flops"], 2 * matrices + 64 * FORWARD)
        close(work["forward"]["weights_read"], FLOAT * (hh + (ih + out) / together))
        close(work["backward"]["flops"],
              2 * matrices + 2 * out + 2 * hh * (window - 1) / window + 64 * BACKWARD)
        close(work["backward"]["weights_read"],
              FLOAT * (hh * (window - 1) + out) / window)
        close(work["backward"]["updated"], FLOAT * parameters / window)
        close(work["optimizer"]["flops"], (ADAM + NORM) * parameters / window)
        close(work["optimizer"]["updated"], FLOAT * 5 * parameters / window)
        times = [work[phase] for phase in ("forward", "backward", "optimizer")]
        close(work["floor_us"], sum(max(t["flops_us"], t["bytes_us"]) for t in times))


def test_work_of_a_recomputed_window():
    """stride < window: backward runs more often, and each time repeats the forward pass."""
    often = measure("gru64", "--set", "learning.stride=4", "--set",
                    "learning.optimizer={kind: sgd, rate: 0.01}")
    ih, hh, out, window, stride = 192 * 8, 192 * 64, 8 * 64, 16, 4
    again = 2 * (window * (ih + hh) + stride * out) + window * 64 * FORWARD
    back = (2 * (window * (ih + hh) + stride * out) + 2 * (hh * (window - 1) + stride * out)
            + window * 64 * BACKWARD)
    close(often["single"]["backward"]["flops"], (again + back) / stride)
    close(often["single"]["optimizer"]["updated"], FLOAT * 3 * often["parameters"] / stride)


def test_work_of_traces():
    """rule: snap1: traces of a parameter, 2 for rtu, instead of the step before. The dense layer above
    has none. With beta1 the optimizer has a further moment."""
    for cell, states, own in ("mingru64", 1, 0), ("rtu64", 2, 2 * 64):
        exact, truncated = (measure(cell, *sets) for sets in (
            ("--set", "learning.optimizer.beta1=0.9"), ("--set", "learning.rule=tbptt")))
        traced, window, parameters = 128 * (8 + 1) + own, 16, exact["parameters"]
        back, other = exact["single"]["backward"], truncated["single"]["backward"]
        assert back["weights_read"] == other["weights_read"]
        close(back["flops"] - other["flops"], states * (2 * states + 3) * traced)
        close(back["updated"], FLOAT * (parameters + 2 * states * traced) / window)
        close(exact["single"]["optimizer"]["updated"], FLOAT * 7 * parameters / window)
        close(truncated["single"]["optimizer"]["updated"], FLOAT * 5 * parameters / window)


def test_quiet_and_disturbed():
    """The quiet value is a low quantile of times, a high one of rates, and the floor is that of quiet
    rates. Two threads are measured by the wall clock."""
    found = measure("gru64")
    times, rates = found["us"].values(), [found["machine"]["gflops"]] + [
        level[key] for level in found["machine"]["levels"] for key in ("read_gbs", "update_gbs")]
    assert all(time["minimum"] <= time["quiet"] <= time["median"] for time in times), times
    assert all(rate["median"] <= rate["quiet"] <= rate["maximum"] for rate in rates), rates
    close(found["single"]["flops_us"], sum(found["single"][phase]["flops"] for phase in (
        "forward", "backward", "optimizer")) / rates[0]["quiet"] / 1e3)
    close(found["single"]["ratio"], found["single"]["floor_us"] / found["us"]["single"]["quiet"])
    disturbance, us = found["disturbance"], found["us"]["single"]
    assert disturbance["clock"] == "thread" and 0 <= disturbance["not_running"] < 1, disturbance
    close(disturbance["median_over_quiet"], us["median"] / us["quiet"])
    shared = members(2, "--set", "learning.threads=2")["disturbance"]
    assert shared["clock"] == "wall" and "not_running" not in shared, shared


def test_work_of_least_squares():
    """Least squares run at every step, in double precision."""
    sets = [word for key in ("model.output.target=next", "model.input.scale=forecast", "model.output.readout=rls")
            for word in ("--set", key)]
    solved = measure("gru64", *sets)
    inputs, outputs, window, learned = 64 + 3 * 8 + 1, 8, 16, solved["parameters"]
    work = solved["single"]["optimizer"]
    close(work["flops"], (ADAM + NORM) * learned / window + 2 * inputs * (5 * inputs + 2 * outputs))
    close(work["updated"], FLOAT * 5 * learned / window + 16 * inputs * (inputs + outputs))
    if not SANITIZERS and MODULE.exists():
        found = measure("tiny", "--device", "cuda", "--examples", 8, "--plan", 8, *sets, env=GPU)
        assert barriers(found["single"])[2] == 3 / 4 + 2, found["single"]


def test_memory():
    memory = measure("lstm128")["memory"]
    assert memory["examples"] == 200 and memory["skipped"] == 0
    assert memory["allocations"] == 0 and memory["heap_growth"] == 0, memory
    if not SANITIZERS:
        assert 0 < memory["resident"] <= memory["bound"], memory


def test_memory_of_a_table():
    """preset: symbols: the bound has room for the experts' table, which is larger than all else."""
    with tempfile.TemporaryDirectory() as directory:
        config = pathlib.Path(directory, "config.yaml")
        config.write_text("name: a\npreset: symbols\nmembers: []\nmodel: {input: {size: 256}}\n")
        bounds = []
        for memory in (1 << 20, 1 << 27):
            done = run("--config", config, "--seconds", 0, "--examples", 200, "--json", "--set",
                       f"memory={memory}")
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            memory = report["memory"]
            assert report["parameters"] == 0 and "single" not in report, report  # no network, no floor
            assert memory["allocations"] == memory["skipped"] == 0, memory
            if not SANITIZERS:
                assert 0 < memory["resident"] <= memory["bound"], memory
            bounds.append(memory["bound"])
    assert bounds[1] - bounds[0] >= (1 << 27) - (1 << 20), bounds


def test_every_kind_of_model():
    """Generated examples match all inputs and losses: none is skipped, and everything is
    measured."""
    layers = "model.layers=[{cell: dense, size: 20}, {cell: rnn, size: 12}, {cell: lstm, size: 8}]"
    for model in (["model.input={kind: symbol, size: 30}",
                   "model.output={loss: softmax, size: 30, target: next}"],
                  ["model.input={kind: symbol, size: 30, embedding: 6}",
                   "model.output={loss: gaussian, size: 2, target: given}"],
                  ["model.input={kind: real, size: 3}",
                   "model.output={loss: mixture, components: 2, target: next}"],
                  ["model.output={loss: squared, size: 8, target: next, ahead: [1, 6, 24]}"],
                  ["model.input={kind: real, size: 8, scale: forecast}", "experts=[last]",
                   "model.output={loss: squared, target: next, ahead: [1, 6]}"],
                  ["model.input={kind: real, size: 5, scale: none}",
                   "model.output={loss: bernoulli, size: 5, target: next}"]):
        sets = [part for one in [layers, *model] for part in ("--set", one)]
        found = measure("gru64", *sets)
        assert found["memory"]["skipped"] == 0
        for part in ("single", "queued", "forward_single", "forward_queued", "backward",
                     "optimizer"):
            assert found["us"][part]["minimum"] > 0, part
        assert "socket" not in found["us"]


def test_messages_and_rankings():
    """A writer of given classes has targets of another form than steps have."""
    learning = "learning: {window: 1, stride: 1, optimizer: {kind: adam, rate: 0.001}}\n"
    head = "name: a\nmodel:\n  input: {kind: symbol, size: 50, embedding: 8, sequence: {layers: [{cell: gru, size: 8}]}}\n"
    layers = "sequence: {layers: [{cell: gru, size: 8}], embedding: 8, longest: 8}"
    ranking = "loss: ranking, size: 4, negatives: 5, candidates: {kind: real, size: 3}"
    with tempfile.TemporaryDirectory() as directory:
        for output in f"loss: softmax, size: 50, target: given, {layers}", ranking:
            path = pathlib.Path(directory, "a.yaml")
            path.write_text(f"{head}  layers: []\n  output: {{{output}}}\n{learning}", encoding="utf-8")
            done = run("--config", path, "--seconds", 0, "--examples", 200, "--json")
            assert done.returncode == 0, (output, done.returncode, done.stderr)
            assert json.loads(done.stdout)["memory"]["skipped"] == 0, done.stdout


def test_latency():
    latency = measure("gru64")["latency_us"]
    assert latency["examples"] > 0 and 0 < latency["p50"] <= latency["p99"], latency


def barriers(work):
    return [work[phase]["barriers"] for phase in ("forward", "backward", "optimizer")]


def test_work_on_a_gpu():
    """Barriers of two layers with a window of 4, launches, and the floor that follows from them. Weights
    and moments stay on chip during a plan."""
    if SANITIZERS or not MODULE.exists():  # the engine's own tests run with sanitizers
        return
    arguments = ("--device", "cuda", "--examples", 8, "--plan", 8)
    found = measure("tiny", *arguments, env=GPU)
    assert found["device"].startswith("cuda ") and "machine" not in found
    assert "forward_single" not in found["us"] and "rest_us" not in found["single"]
    gpu = found["gpu"]
    assert all(gpu[key] >= 0 for key in gpu if key not in ("name", "barriers_us")), gpu
    assert all(gpu["barriers_us"][scope] > 0 for scope in ("block", "cluster", "grid")), gpu
    for mode, plan in ("single", 1), ("queued", 8):
        work, together = found[mode], min(plan, 4)
        assert barriers(work) == [(together + 4) / together, 7 / 4, 3 / 4], work
        close(work["optimizer"]["updated"], FLOAT * 4 * found["parameters"] / max(plan, 4))
        assert work["backward"]["updated"] == work["forward"]["weights_read"] == 0
        close(work["launches"], 1 / plan)
        floor = work["launches"] * gpu["launch_us"]
        for phase in ("forward", "backward", "optimizer"):
            close(work[phase]["barriers_us"], work[phase]["barriers"] * gpu["barriers_us"]["block"])
            floor += max(work[phase]["flops_us"], work[phase]["bytes_us"]) + work[phase]["barriers_us"]
        close(work["floor_us"], floor)
        close(work["ratio"], floor / found["us"][mode]["quiet"])
    again = measure("tiny", *arguments, "--set", "learning.stride=2", "--set",
                    "learning.optimizer={kind: sgd, rate: 0.01}", env=GPU)
    assert barriers(again["single"]) == [5, (7 + 6) / 2, 3 / 2], again["single"]
    close(again["single"]["optimizer"]["updated"], FLOAT * 2 * again["parameters"] / 2)


def test_scopes_of_a_gpu():
    """A block has one multiprocessor of four. Parameters that do not fit into its shared memory are read
    for every step, and those that fit into a cluster's are not."""
    if SANITIZERS or not MODULE.exists():  # the engine's own tests run with sanitizers
        return
    for scope, share, read in ("block", 1 / 4, True), ("cluster", 1, False), ("grid", 1, False):
        found = measure("lstm128", "--device", "cuda", "--examples", 8, "--plan", 8, "--set", "learning.window=8",
                        "--set", "learning.stride=8", "--set", f"device_scope={scope}", env=GPU)
        work, gpu = found["single"]["forward"], found["gpu"]
        assert f"4 multiprocessors, scope {scope})" in found["device"], found["device"]
        close(work["flops_us"], work["flops"] / (gpu["gflops"] * share) / 1e3)
        close(work["barriers_us"], work["barriers"] * gpu["barriers_us"][scope])
        assert (work["weights_read"] > 0) == read, work


def members(count, *arguments, name="gru64", **options):
    sets = [word for one in ("model.input.scale=forecast", "model.output.target=next", "experts=[last]")
            for word in ("--set", one)]
    return measure(name, *sets, *(("--members", count) if count else ()), *arguments, **options)


def test_members():
    """The floor of all members is a multiple of one's. The floor of each equals one's, and is
    printed next to its time and that of one network."""
    one, many = members(None), members(5)
    assert "members" not in one and "forward_single" not in many["us"] and "rest_us" not in many["single"]
    assert many["parameters"] == one["parameters"] and many["members"]["count"] == 5
    assert many["memory"]["allocations"] == many["memory"]["skipped"] == 0, many["memory"]
    for mode in ("single", "queued"):
        work, each = many[mode], many["members"][mode]
        for phase in ("forward", "backward", "optimizer"):
            for key in ("flops", "weights_read", "updated"):
                close(work[phase][key], 5 * one[mode][phase][key])
        close(each["floor_us"], work["floor_us"] / 5)
        close(each["us"], many["us"][mode]["quiet"] / 5)
        close(each["lone_us"], many["us"]["lone_" + mode]["quiet"])
        close(each["times_lone"], 5 * each["us"] / each["lone_us"])


def test_members_have_seeds_of_their_own():
    """The first member has the bits of the configuration's network. Each further one has those of
    the next seed."""
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        def tensors(*arguments):
            path = pathlib.Path(directory, "parameters.safetensors")
            sets = ("--set", "model.input.scale=forecast", "--set", "model.output.target=next", "--set", "seed=7")
            done = run("--config", CONFIGURATIONS / "gru64.yaml", "--examples", 40, "--parameters", path, *sets,
                       *arguments)
            assert done.returncode == 0, done.stderr
            blob = path.read_bytes()
            size = int.from_bytes(blob[:8], "little")
            return {name: blob[8 + size:][slice(*entry["data_offsets"])]
                    for name, entry in json.loads(blob[8:8 + size]).items() if name != "__metadata__"}
        many, alone = tensors("--members", 3), tensors()
        second = tensors("--set", "members=[{name: m2, set: {seed: 8}}]")
    assert len(many) == 3 * len(alone)
    for name, data in alone.items():
        assert many["members.m1." + name] == data
    assert len(second) == len(alone) and all(many[name] == data for name, data in second.items())
    assert len({many[f"members.m{n}.layers.0.weight_hh"] for n in (1, 2, 3)}) == 3


def test_members_on_a_gpu():
    """Members share barriers and launches, but neither the work nor the data in caches."""
    if SANITIZERS or not MODULE.exists():  # the engine's own tests run with sanitizers
        return
    arguments = {"name": "tiny", "env": GPU}
    one, many = (members(count, "--device", "cuda", "--examples", 8, "--plan", 8, **arguments) for count in (None, 3))
    for mode in ("single", "queued"):
        assert barriers(many[mode]) == barriers(one[mode]) and many[mode]["launches"] == one[mode]["launches"]
        for phase in ("forward", "backward", "optimizer"):
            close(many[mode][phase]["flops"], 3 * one[mode][phase]["flops"])
        assert many["members"][mode]["times_lone"] > 0


def test_no_members():
    """The error explains what to do."""
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        path = pathlib.Path(directory, "forecast.yaml")
        text = "name: a\npreset: forecast\nmodel: {input: {size: 2}, layers: [{cell: gru, size: 4}]}\n"
        path.write_text(text + "members: [{name: a}]\n")
        done = run("--config", path, "--members", 2)
        assert done.returncode == CONFIGURATION and "the configuration lists members" in done.stderr, done
        path.write_text(text)  # has the members of the preset
        done = run("--config", path, "--members", 2, "--seconds", 0, "--examples", 20)
        assert done.returncode == 0 and "2 networks of real 2" in done.stdout, done
        assert "each of 2 members" in done.stdout and "nan" not in done.stdout, done
        listed = run("--config", path, "--members", 2, "--socket", "--seconds", 0, "--examples", 20, "--json")
        assert listed.returncode == 0 and json.loads(listed.stdout)["daemon"]["examples"] > 0, listed
    done = run("--config", CONFIGURATIONS / "gru64.yaml", "--members", 2)
    assert done.returncode == CONFIGURATION and "--set model.input.scale=forecast" in done.stderr, done
    for wrong in (0, 65):
        done = run("--config", CONFIGURATIONS / "gru64.yaml", "--members", wrong)
        assert done.returncode == USAGE and "from 1 to 64" in done.stderr, done


def test_gpu_for_people():
    if SANITIZERS or not MODULE.exists():  # the engine's own tests run with sanitizers
        return
    done = run("--config", CONFIGURATIONS / "tiny.yaml", "--seconds", 0, "--examples", 8, "--plan", 8,
               env=GPU)
    assert done.returncode == 0, done.stderr
    for words in ("launch", "barrier of a grid", "barrier of a cluster", "pinned memory", "barriers us",
                  "sum, and launches", "latency p50", "bound none"):
        assert words in done.stdout, (words, done.stdout)
    assert "nan" not in done.stdout


def test_parameters():
    """The division of examples into plans does not change the bytes. More examples lead to other
    bytes."""
    written = []
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        for plan, examples in ((1, 33), (64, 33), (7, 49)):
            path = pathlib.Path(directory, "parameters.safetensors")
            done = run("--config", CONFIGURATIONS / "gru64.yaml", "--examples", examples, "--plan",
                       plan, "--parameters", path)
            assert done.returncode == 0 and not done.stdout and not done.stderr, done
            written.append(path.read_bytes())
        done = run("--config", CONFIGURATIONS / "gru64.yaml", "--examples", 1, "--parameters",
                   pathlib.Path(directory, "no", "such"))
        assert done.returncode == IO and "no/such" in done.stderr, done
    assert written[0] == written[1] and written[0] != written[2]
    header = json.loads(written[0][8:8 + int.from_bytes(written[0][:8], "little")])
    assert header["layers.0.weight_hh"]["shape"] == [192, 64], header


def test_socket():
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        found = measure("gru64", "--socket", env={**os.environ, "TMPDIR": directory})
        assert found["us"]["socket"]["minimum"] > 0
        assert found["daemon"]["examples"] > 0
        assert os.listdir(directory) == []
        if not SANITIZERS:
            assert 0 < found["daemon"]["resident"] <= found["daemon"]["bound"]


def test_a_daemon_that_does_not_start():
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        done = run("--config", CONFIGURATIONS / "gru64.yaml", "--socket", "--examples", 1,
                   "--bind", "tcp://no-such-interface:1",
                   env={**os.environ, "TMPDIR": directory})
        assert done.returncode == UNAVAILABLE and "no-such-interface" in done.stderr, done
        assert os.listdir(directory) == []


def test_people_can_read_it():
    done = run("--config", CONFIGURATIONS / "gru64.yaml", "--seconds", 0, "--examples", 16)
    assert done.returncode == 0, done.stderr
    for words in ("15304 parameters", "multiply-add", "floor us", "one at a time", "queued",
                  "backward", "optimizer", "bound 48.2 MB", "disturbance"):
        assert words in done.stdout, (words, done.stdout)


def test_table():
    """The table of the page without PyTorch: a row for each configuration with all figures but the
    peer's, and how to get that one."""
    names = ["gru64", "lstm128"]
    with tempfile.TemporaryDirectory(prefix="rb") as directory:
        python = pathlib.Path(directory, "python-without-torch")
        python.write_text("#!/bin/sh\nexit 1\n")
        python.chmod(0o700)
        rounds = pathlib.Path(directory, "rounds.json")
        done = subprocess.run(
            [sys.executable, SOURCE / "tools" / "figures" / "bench", "--build", BUILD,
             "--python", python, "--rounds", "1", "--seconds", "0", "--markdown", "--json", rounds,
             *(CONFIGURATIONS / (name + ".yaml") for name in names)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT,
            env={**os.environ, "TMPDIR": directory})
        assert done.returncode == 0, done.stderr
        found = json.loads(rounds.read_text())
    title, _, *rows = [[cell.strip() for cell in line.strip("| ").split("|")]
                       for line in done.stdout.splitlines() if line.startswith("|")]
    assert title[0] == "configuration" and title[-2:] == ["PyTorch", "times faster"], title
    assert [row[0] for row in rows] == names == list(found), rows
    for row in rows:
        assert len(row) == len(title) and row[-2:] == ["-", "-"], row
        assert all(re.fullmatch(r"\d+(\.\d+)?%?", cell) for cell in row[1:-2]), row
        us = found[row[0]]["rows"][0]
        for cell, key in ((1, "floor"), (2, "single"), (4, "queued"), (6, "socket")):
            assert abs(float(row[cell]) - us[key]) <= 0.5, (row, us)
    for words in ("No PyTorch", "make bench PYTHON=", "Disturbance: medians"):
        assert words in done.stdout, (words, done.stdout)


def test_table_of_instructions():
    """A row for each instruction set; one that this machine lacks is an error."""
    for instructions, status in ("baseline", 0), ("avx9", 1):
        done = subprocess.run(
            [sys.executable, SOURCE / "tools" / "figures" / "bench", "--build", BUILD, "--python", "/bin/false",
             "--rounds", "1", "--seconds", "0", "--instructions", instructions, "--set", "learning.rule=tbptt",
             CONFIGURATIONS / "mingru64.yaml"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        assert done.returncode == status, done
        assert ("mingru64 baseline" in done.stdout) if status == 0 else "avx9" in done.stderr, done


def test_usage():
    for arguments, status in (([], USAGE), (["--config"], USAGE), (["--plan", "0"], USAGE),
                              (["--config", "x", "--seconds", "soon"], USAGE),
                              (["--config", "x", "more"], USAGE),
                              (["--config", "x", "--device", "x" * 99], USAGE),
                              (["--config", CONFIGURATIONS / "gru64.yaml", "--device", "tpu"],
                               CONFIGURATION),
                              (["--config", "/nowhere.yaml"], CONFIGURATION),
                              (["--config", CONFIGURATIONS / "gru64.yaml", "--set", "seed=x"],
                               CONFIGURATION)):
        done = run(*arguments)
        assert done.returncode == status and done.stderr and not done.stdout, (arguments, done)
    for argument in ("--help", "--version"):
        done = run(argument)
        assert done.returncode == 0 and "runnel-bench" in done.stdout and not done.stderr


if not MODULE.exists():
    print("this build has no CUDA engine on the host runtime: GPUs are not tested")
cases.run(globals())
