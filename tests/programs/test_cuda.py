#!/usr/bin/python3
"""The daemon with the CUDA engine. $RUNNEL_CUDA_MODULE is the module: the one that the tests'
runtime simulates on the CPU (tests/hostcuda), or the real one on a machine with a GPU. The
environment of the simulation can remove devices, driver and memory, and let calls fail."""
import contextlib
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

try:
    import yaml
    import zmq
except ImportError as missing:
    print(f"skipped: {missing} (on Debian: apt-get install python3-yaml python3-zmq)")
    sys.exit(77)

import cases
import running
from running import LIMIT, PROGRAM

MODULE = os.environ.get("RUNNEL_CUDA_MODULE", "")
HOSTCUDA = "hostcuda" in MODULE
UNAVAILABLE = 69
NEAR = 1e-4  # largest difference between engines, in losses and parameters of about 1
LARGE = 330  # units of an lstm for which `auto` chooses a GPU
NO_IMAGE = {"HOSTCUDA_FAIL": "cudaFuncGetAttributes:1:cudaErrorNoKernelImageForDevice"}
FEW_THREADS = {"HOSTCUDA_THREADS": "256"}


def members_of(directory, threads, *sizes):
    """A configuration for `auto` whose members have an lstm of these sizes, and a base of 8."""
    config = yaml.safe_load(configuration(directory, "auto", 8))
    config["model"]["input"]["scale"] = "forecast"
    config["members"] = [{"name": f"m{n}", "set": {"model.layers.0.size": size}} for n, size in enumerate(sizes)]
    config["learning"]["threads"] = threads
    return yaml.safe_dump(config)


def configuration(directory, device, size=12, window=8):
    sockets = {s: {"bind": f"ipc://{directory}/{s}"} for s in ("examples", "statistics", "control")}
    sockets["statistics"]["every"] = 1
    return yaml.safe_dump({
        "name": "test", "seed": 5, "device": device,
        "model": {"input": {"kind": "real", "size": 2},
                  "layers": [{"cell": "lstm", "size": size, "norm": "layer"}],
                  "output": {"loss": "squared", "size": 2, "target": "next"}},
        "learning": {"window": window, "stride": 4, "optimizer": {"kind": "sgd", "rate": 0.1},
                     "clip": 1.0},
        "state": {"directory": f"{directory}/state", "checkpoint": {"examples": 0, "seconds": 0}},
        **sockets})


@contextlib.contextmanager
def environment(**variables):
    """Sets variables for programs that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Daemon(running.Daemon):
    def __init__(self, directory, device, size=12, window=8, **variables):
        with environment(**variables):
            super().__init__(directory, configuration(directory, device, size, window))

    def start(self):
        super().start()
        self.push = self.socket(zmq.PUSH, "examples")

    def feed(self, first, last):
        for n in range(first, last + 1):
            x = struct.pack("<2f", math.sin(0.3 * n), math.cos(0.17 * n))
            self.push.send_multipart([b"a" if n % 3 else b"b", x])

    def learn(self, first, last):
        self.feed(first, last)
        end = time.monotonic() + LIMIT
        while self.ask("status")["examples"] < last:
            assert time.monotonic() < end, f"waited {LIMIT} s for {last} examples"
            time.sleep(0.01)

    def stop(self):
        """Ends the daemon as users do, and returns its log."""
        assert self.end() == 0, self.text()
        return self.text()


def refused(directory, device, size=12, window=8, settings=(), **variables):
    """The error of a daemon that cannot have its device."""
    path = pathlib.Path(directory, "refused.yaml")
    path.write_text(configuration(directory, device, size, window))
    result = subprocess.run([PROGRAM, "--config", path, *settings], env={**os.environ, **variables},
                            capture_output=True, text=True, timeout=LIMIT)
    assert result.returncode == UNAVAILABLE, (result.returncode, result.stderr)
    lines = [line for line in result.stderr.splitlines() if line.startswith("runneld: ")]
    assert len(lines) == 1 and lines[0].startswith("runneld: error: "), result.stderr
    return lines[0]


def started(directory, device, size=12, window=8, **variables):
    """The log line about the device at the start of a daemon."""
    with Daemon(directory, device, size, window, **variables) as daemon:
        daemon.ask("status")
        lines = re.findall(r"^runneld: device (.*)$", daemon.stop(), re.MULTILINE)
    assert len(lines) == 1
    return lines[0]


def parameters(blob):
    """The numbers of an export, tensor by tensor in order."""
    size = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    data = blob[8 + size:]
    return [number for name in sorted(header)
            for number in struct.unpack(
                f"<{math.prod(header[name]['shape'])}f",
                data[slice(*header[name]["data_offsets"])])]


def assert_near(found, expected):
    assert len(found) == len(expected) > 0
    worst = max(abs(a - b) for a, b in zip(found, expected))
    assert worst < NEAR, worst


def files(directory):
    return {path.name: path.read_bytes() for path in pathlib.Path(directory, "state").glob("*.safe*")}


def test_both_engines_learn_the_same(directory):
    losses, learned = {}, {}
    for device in "cpu", "cuda":
        place = pathlib.Path(directory, device)
        place.mkdir()
        with Daemon(place, device) as daemon:
            socket = daemon.socket(zmq.SUB, "statistics")
            socket.subscribe("")
            daemon.next_message(socket)  # the status confirms the subscription
            daemon.feed(1, 150)
            losses[device] = []
            while len(losses[device]) < 150:
                topic, body = daemon.next_message(socket)
                if topic == b"loss":
                    losses[device].append(json.loads(body)["loss"] or 0.0)
            assert daemon.ask("status")["device"].startswith(device)
            learned[device] = parameters(daemon.export())
            daemon.stop()
    assert losses["cpu"][-1] < losses["cpu"][5], "nothing was learned"
    assert_near(losses["cuda"], losses["cpu"])
    assert_near(learned["cuda"], learned["cpu"])


def test_auto_reports_device_and_reason(directory):
    assert re.match(r"cpu .* \(auto: the model has \d+ parameters; auto uses a GPU from 300,000\)$",
                    started(directory, "auto"))
    large = pathlib.Path(directory, "large")
    large.mkdir()
    line = started(large, "auto", LARGE)
    assert re.match(r"cuda .* \(auto: .+, 44\d thousand parameters\)$", line), line
    assert "auto" not in started(directory, "cuda")
    below = "; auto uses a GPU from 300,000"
    for threads, sizes, chosen in ((1, (LARGE, LARGE), "cuda .*2 networks, 90. thousand parameters in total"),
                                   (1, (100,) * 8, "cuda .*8 networks, 3.. thousand"),
                                   (4, (100,) * 8, rf"cpu .*parameters in total \(.. thousand per thread\){below}"),
                                   (1, (LARGE, 8), r"cuda .*scope grid.*2 networks, 45. thousand")):
        with tempfile.TemporaryDirectory(dir=directory) as place, \
                running.Daemon(place, members_of(place, threads, *sizes)) as daemon:
            model = daemon.ask("status")["model"]
            assert ("; member m1: lstm 8 " in model) == (8 in sizes) and f"lstm {sizes[0]} " in model, model
            assert daemon.end() == 0, daemon.text()
            line = re.search(r"^runneld: device (.*)$", daemon.text(), re.MULTILINE)[1]
            assert re.match(chosen, line), line
    if not HOSTCUDA:
        return
    line = started(directory, "auto", HOSTCUDA_FAIL="cudaGetDeviceCount:1")
    assert line.startswith("cpu "), "a small model must not use the GPU"
    for variables, why in (({"HOSTCUDA_DEVICES": "0"}, "no GPU found"),
                           ({"HOSTCUDA_DRIVER": "11080"}, "11.8"),
                           ({"HOSTCUDA_CAPABILITY": "75"}, "compute capability 7.5"),
                           ({"HOSTCUDA_MEMORY": "1000000"}, "MiB"),
                           (NO_IMAGE, "cudaErrorNoKernelImageForDevice"),
                           (FEW_THREADS, "blocks of 512 threads, got at most 256"),
                           ({"RUNNEL_CUDA_MODULE": "/nowhere.so"}, "/nowhere.so")):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            line = started(place, "auto", LARGE, **variables)
            assert line.startswith("cpu ") and "(auto: " in line and why in line, line


def test_a_device_that_is_named_is_had_or_refused(directory):
    text = refused(directory, "cuda", RUNNEL_CUDA_MODULE="/nowhere.so")
    assert "device: cuda" in text and "/nowhere.so" in text and "device: cpu" in text, text
    text = refused(directory, "cuda", RUNNEL_CUDA_MODULE=str(PROGRAM))
    assert str(PROGRAM) in text, text
    text = refused(directory, "cuda:77")
    assert "cuda:77" in text and "GPU" in text, text
    if not HOSTCUDA:
        return
    text = refused(directory, "cuda:7")
    assert "cuda:7" in text and "1 GPU" in text, text
    assert "cuda:1" in refused(directory, "cuda:1")
    assert started(directory, "cuda:1", HOSTCUDA_DEVICES="2").startswith("cuda ")
    text = refused(directory, "cuda", HOSTCUDA_DEVICES="0")
    assert "device: cuda" in text and "no GPU" in text and "device: cpu" in text, text


def test_an_old_driver_is_reported_with_both_versions(directory):
    if not HOSTCUDA:
        return
    text = refused(directory, "cuda", HOSTCUDA_DRIVER="11080")
    assert "11.8" in text and len(set(re.findall(r"\d+\.\d+", text))) == 2, text


def test_an_old_gpu_is_reported_with_both_capabilities(directory):
    if not HOSTCUDA:
        return
    text = refused(directory, "cuda", HOSTCUDA_CAPABILITY="75")
    assert "7.5" in text and "8.0" in text and "device: cpu" in text, text
    assert started(directory, "cuda", HOSTCUDA_CAPABILITY="80").startswith("cuda ")
    text = refused(directory, "cuda", HOSTCUDA_CAPABILITY="80", RUNNEL_SCOPE="cluster")
    assert "device_scope: cluster requires compute capability 9.0" in text and "8.0" in text, text
    assert text.endswith("use device_scope: auto"), text


def test_a_checkpoint_is_for_every_scope(directory):
    """The log names scope and multiprocessors. Neither is part of the device in a checkpoint."""
    if not HOSTCUDA:
        return
    for n, (scope, multiprocessors) in enumerate((("block", "4"), ("grid", "8"), ("cluster", "4"))):
        with Daemon(directory, "cuda", RUNNEL_SCOPE=scope, HOSTCUDA_SMS=multiprocessors) as daemon:
            daemon.learn(5 * n + 1, 5 * (n + 1))
            text = daemon.stop()
        assert f"{multiprocessors} multiprocessors, scope {scope})" in text, text
        assert ("resumed after" in text) == (n > 0) and "another device" not in text, text


def test_a_kernel_that_cannot_run_is_named_when_the_daemon_starts(directory):
    if not HOSTCUDA:
        return
    text = refused(directory, "cuda", **NO_IMAGE)
    assert re.search(r"cannot load kernel play on hostcuda .*\(compute capability 9\.0\): no kernel image .*"
                     r'rebuild with CUDA_ARCHITECTURES="90", or use device: cpu$', text), text
    text = refused(directory, "cuda", LARGE, **FEW_THREADS)
    assert re.search(r"cannot run kernel play on hostcuda \(no GPU\): expected blocks of 512 threads, got at most 256, or use device: cpu$", text), text
    assert started(directory, "cuda", LARGE, HOSTCUDA_THREADS="512").startswith("cuda ")


def test_a_model_too_large_is_reported_before_allocation(directory):
    if not HOSTCUDA:
        return
    sentences = {refused(directory, "cuda", LARGE, HOSTCUDA_MEMORY="1000000", **more)
                 for more in ({}, {"HOSTCUDA_FAIL": "cudaMalloc:1"})}
    assert len(sentences) == 1, sentences
    text = sentences.pop()
    needed, free = (float(number) for number in re.findall(r"(\d+\.\d+) MiB", text))
    assert needed > free > 0 and "device: cpu" in text, text


def test_a_device_that_fails_ends_the_daemon(directory):
    if not HOSTCUDA:
        return
    with Daemon(directory, "cuda") as daemon:
        daemon.learn(1, 60)
        daemon.stop()
    saved = files(directory)
    assert saved
    for failure in ("cudaLaunchKernelEx:9:cudaErrorLaunchFailure",
                    "cudaStreamQuery:40:cudaErrorIllegalAddress",
                    "cudaMemcpyAsync:5:cudaErrorECCUncorrectable",
                    "cudaHostAlloc:1:cudaErrorMemoryAllocation"):
        with Daemon(directory, "cuda", HOSTCUDA_FAIL=failure) as daemon:
            daemon.feed(61, 160)
            code = daemon.process.wait(LIMIT)
            errors = [line for line in daemon.text().splitlines() if "runneld: error: " in line]
        assert code == UNAVAILABLE and len(errors) == 1, (failure, code, daemon.text())
        assert failure.split(":")[2] in errors[0], errors
        assert files(directory) == saved, f"{failure}: the checkpoint has changed"
    with Daemon(directory, "cuda") as daemon:
        daemon.ask("status")  # the first answer follows the replay of the journal
        text = daemon.stop()
    assert "resumed after 60 examples" in text, text
    assert re.search(r"replayed \d+ entries of the journal", text), text


def test_larger_networks_have_more_blocks(directory):
    """A small network is one block, a larger one the blocks of a cluster, or of the whole grid. A layer that
    needs more shared memory than a multiprocessor has is refused."""
    if not HOSTCUDA:
        return
    for size, capability, expected in ((12, 90, 1), (130, 90, 8), (130, 80, 4)):
        with tempfile.TemporaryDirectory(dir=directory) as place, \
                Daemon(place, "cuda", size, HOSTCUDA_TRACE="1", HOSTCUDA_SMS="4",
                       HOSTCUDA_CAPABILITY=str(capability)) as daemon:
            daemon.learn(1, 3)
            blocks = set(map(int, re.findall(r"hostcuda: play \(.*<<<\((\d+), 1, 1\)", daemon.stop())))
        assert blocks == {expected}, (size, blocks)
    text = refused(directory, "cuda", 65536, settings=("--set", "model.layers.0.cell=dense"))
    assert re.search(r"a layer of this model needs \d+ KiB of a multiprocessor's shared memory, but hostcuda .* has "
                     r"227 KiB; use a smaller widest layer, or use device: cpu$", text), text


WIDE = 8300  # an x with so many numbers is not copied into shared memory


def test_wide_inputs(directory):
    """The bits do not depend on the number of steps in a plan."""
    learned = {}
    for device, bundle in ("cpu", 1), ("cuda", 1), ("cuda", 10):
        with tempfile.TemporaryDirectory(dir=directory) as place:
            config = yaml.safe_load(configuration(place, device, 3))
            config["model"]["input"]["size"] = WIDE
            config["model"]["output"] = {"loss": "squared", "size": 1, "target": "given"}
            config["learning"].update(window=10, stride=10, max_streams=1)
            with running.Daemon(place, yaml.safe_dump(config)) as daemon:
                with daemon.socket(zmq.PUSH, "examples") as push:
                    for first in range(0, 20, bundle):
                        x = [math.sin(n * k) for n in range(first, first + bundle) for k in range(WIDE)]
                        y = [math.sin(n) for n in range(first, first + bundle)]
                        header = struct.pack("<BBHIQd", 1, 0, 0, 0, 0, 0.0)
                        push.send_multipart([b"a", struct.pack(f"<{len(x)}f", *x), struct.pack(f"<{bundle}f", *y),
                                             header])
                    daemon.until(lambda: daemon.ask("status")["updates"] == 2)
                learned[device, bundle] = parameters(daemon.export())
                assert daemon.end() == 0, daemon.text()
    assert_near(learned["cuda", 1], learned["cpu", 1])
    assert learned["cuda", 1] == learned["cuda", 10]


def test_a_device_that_is_lost_while_idle_leaves_the_checkpoint(directory):
    """Examples since the last checkpoint are lost, but that checkpoint stays intact."""
    if not HOSTCUDA:
        return
    with Daemon(directory, "cuda") as daemon:
        daemon.learn(1, 30)
        daemon.stop()
    saved = files(directory)
    # The network has 11 tensors. A load copies each, and so does an export: the third one fails.
    with Daemon(directory, "cuda", HOSTCUDA_FAIL="cudaMemcpy2DAsync:40:cudaErrorLaunchFailure") as daemon:
        daemon.learn(31, 60)
        for _ in range(5):
            if not daemon.request("export")[0]["ok"]:
                break
        else:
            raise AssertionError("none of five exports failed")
        code = daemon.end()
        errors = [line for line in daemon.text().splitlines() if "runneld: error: " in line]
    assert code == UNAVAILABLE and len(errors) == 1, daemon.text()
    assert "cudaErrorLaunchFailure" in errors[0] and files(directory) == saved


def test_checkpoints_go_from_engine_to_engine(directory):
    places = {name: pathlib.Path(directory, name) for name in ("moved", "stays")}
    for place in places.values():
        place.mkdir()
    devices = "cpu", "cuda", "cpu"
    for n, device in enumerate(devices):
        for name, place in places.items():
            used = device if name == "moved" else "cpu"
            with Daemon(place, used) as daemon:
                if name == "moved" and n:
                    socket = daemon.socket(zmq.SUB, "statistics")
                    socket.subscribe("event")
                    events = [json.loads(daemon.next_message(socket)[1]) for _ in range(2)]
                    assert [e["kind"] for e in events] == ["started", "resumed"], events
                    assert "another device" in events[1]["text"], events
                daemon.learn(50 * n + 1, 50 * (n + 1))
                text = daemon.stop()
            assert ("was written on another device" in text) == (name == "moved" and n > 0), text
            assert ("resumed after" in text) == (n > 0), text
    learned = []
    for place in places.values():
        with Daemon(place, "cpu") as daemon:
            learned.append(parameters(daemon.export()))
            daemon.stop()
    assert_near(*learned)


COLUMNS = ("[{name: load, mask: true}, {name: host, kind: symbol, embedding: 3, vocabulary: "
           "{capacity: 3, forget: lru}}, {name: state, kind: symbol, size: 4}, {name: user, kind: "
           "symbol, hash: 9, embedding: 5}]")


def test_columns_go_from_engine_to_engine(directory):
    """Numbers and symbols; a row starts from scratch when another word replaces its word. Losses
    and tensors are close to those of a single engine, and each engine starts with the bits of the
    other."""
    losses, learned = {}, {}
    for name, devices in {"cpu": ("cpu",) * 3, "cuda": ("cuda",) * 3,
                          "moved": ("cpu", "cuda", "cpu")}.items():
        place = pathlib.Path(directory, name)
        place.mkdir()
        losses[name], saved = [], None
        for n, device in enumerate(devices):
            config = yaml.safe_load(configuration(place, device, 6))
            config["model"]["input"] = {"columns": yaml.safe_load(COLUMNS)}
            config["model"]["output"] = {"loss": "squared", "target": "next", "columns": ["load"],
                                         "skip": True}
            with running.Daemon(place, yaml.safe_dump(config)) as daemon:
                if saved:
                    assert parameters(daemon.export()) == saved, "the change of the engine changed bits"
                subscriber = running.subscribe(daemon, (b"loss",))
                with daemon.socket(zmq.PUSH, "examples") as push:
                    for k in range(60 * n, 60 * (n + 1)):
                        x = {"load": math.sin(k / 5), "host": f"web-{k * k % 7 % 5}", "state": k % 4,
                             "user": f"u{k % 11}"}
                        push.send_multipart([json.dumps({"stream": "ab"[k % 3 == 0], "x": x}).encode()])
                    losses[name] += [message["loss"] or 0.0
                                     for message in running.messages(daemon, subscriber, b"loss", 60)]
                assert daemon.ask("status")["device"].startswith(device)
                saved = parameters(daemon.export())
                assert daemon.end() == 0, daemon.text()
        learned[name] = saved
    assert losses["cpu"][-1] < losses["cpu"][20] / 2, "nothing was learned"
    for name in "cuda", "moved":
        assert_near(losses[name], losses["cpu"])
        assert_near(learned[name], learned["cpu"])


# Three of one shape that differ in all other settings, and one of another shape.
MEMBERS = {
    "plain": {},
    "slow": {"learning.optimizer.rate": 0.003, "learning.clip": 0.05, "seed": 9},
    "heavy": {"learning.optimizer.momentum": 0.5, "seed": 10},
    "wide": {"model.layers.0.size": 11, "learning.window": 5, "learning.optimizer.kind": "adam"},
}


def member_tensors(directory, names):
    """The tensors of members that learn together, with a stop and a resume."""
    directory.mkdir()
    config = yaml.safe_load(configuration(directory, "cuda", 7, 4))
    config["model"]["input"]["scale"] = "forecast"
    config["model"]["output"].update(ahead=[1, 3], readout="rls")
    config["members"] = [{"name": name, "set": MEMBERS[name]} for name in names]
    count = 0
    for _ in range(2):
        with running.Daemon(directory, yaml.safe_dump(config)) as daemon, daemon.socket(zmq.PUSH, "examples") as push:
            for _ in range(20 if running.SANITIZERS else 60):
                x = struct.pack("<2f", math.sin(0.3 * count), math.cos(0.17 * count))
                push.send_multipart([b"a" if count % 3 else b"b", x])
                count += 1
            running.wait_learned(daemon, count)
            exported = daemon.export()
            assert daemon.end() == 0, daemon.text()
    size = struct.unpack("<Q", exported[:8])[0]
    header, data = json.loads(exported[8:8 + size]), exported[8 + size:]
    return {name: data[slice(*tensor["data_offsets"])] for name, tensor in header.items()
            if name.startswith("members.")}


def test_members_learn_the_bits_that_each_has_alone(directory):
    together = member_tensors(directory / "together", list(MEMBERS))
    for name in MEMBERS:
        alone = member_tensors(directory / name, [name])
        assert alone, "no tensors of a member"
        for tensor in alone:
            assert together[tensor] == alone[tensor], tensor


def test_plans_have_the_memory_that_they_need(directory):
    """16 MiB are enough for 64 small members. With 8 MiB one of them fails, and the error contains
    the missing memory."""
    if not HOSTCUDA:
        return
    config = yaml.safe_load(configuration(directory, "cuda", 4, 4))
    config["model"]["input"]["scale"] = "forecast"
    config["learning"]["max_streams"] = 4
    config["members"] = [{"name": f"m{n}", "set": {"seed": n}} for n in range(64)]
    for memory in 16, 8:
        with environment(HOSTCUDA_MEMORY=str(memory << 20)):
            daemon = running.Daemon(directory, yaml.safe_dump(config))
        with daemon:
            if memory == 16:
                with daemon.socket(zmq.PUSH, "examples") as push:
                    for n in range(12):
                        push.send_multipart([b"a", struct.pack("<2f", math.sin(n), math.cos(n))])
                    running.wait_learned(daemon, 12)
                assert daemon.end() == 0, daemon.text()
                continue
            assert daemon.process.wait(LIMIT) == UNAVAILABLE, daemon.text()
        error = [line for line in daemon.text().splitlines() if "runneld: error: " in line]
        found = re.match(r"runneld: error: member m(\d+): the model needs (\S+) MiB on .* has (\S+) MiB free: .* and (\S+) "
                         r"for plans; lower .*, or run fewer networks on it, or use device: cpu$", error[0])
        assert len(error) == 1 and found, error
        member, needs, free, plans = map(float, found.groups())
        assert member > 0 and needs >= free and plans > 0, error


def test_a_signal_in_mid_plan_saves_everything(directory):
    with Daemon(directory, "cuda", 40) as daemon:
        daemon.feed(1, 600)
        end = time.monotonic() + LIMIT
        while daemon.ask("status")["examples"] == 0:
            assert time.monotonic() < end
        text = daemon.stop()
        count = int(re.search(r"stopped after (\d+) examples; all are in the checkpoint", text)[1])
        assert 0 < count <= 600
    with Daemon(directory, "cuda", 40) as daemon:
        assert daemon.ask("status")["examples"] == count
        daemon.stop()


if not MODULE:
    print("skipped: this build has no module for tests (on Debian: apt-get install g++)")
    sys.exit(77)
cases.run(globals())
