"""tools/figures/scale --measure: measures the costs of one daemon and one Redis on this machine,
with the real programs. Processor times are those of threads (schedstat, INFO cpu), so that other
load disturbs them little; the fastest of some rounds counts."""
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import tempfile
import time

import shared

import running
import scale_redis
from scale_redis import ROUNDS

NETWORKS = {"gru64": (8, 20000), "lstm128": (32, 8000)}  # of conf/bench: inputs, streams
EXAMPLES_A_STREAM = 40  # windows are full after 17
WARM_UP = 0.5  # seconds
LEARNED_AGAIN = r"replayed (\d+) entries of the journal in ([0-9.]+) s"


def configuration(name, directory, streams):
    text = (shared.SOURCE / f"conf/bench/{name}.yaml").read_text(encoding="utf-8")
    text += f"  max_streams: {streams}\n"
    state = ", checkpoint: {examples: 0, seconds: 0}, journal: {sync: full, keep: all}"
    return text + shared.places(directory, state, examples=", socket: router")


def written(process):
    text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
    return int(re.search(r"^write_bytes: (\d+)", text, re.M)[1])


def bench(build, name, directory):
    """In-process, one stream: output of runnel-bench --json."""
    path = pathlib.Path(directory, "bench.yaml")
    path.write_text(configuration(name, directory, 1), encoding="utf-8")
    done = subprocess.run([shared.program(build, "runnel-bench"), "--config", path, "--seconds", "2",
                           "--json"], stdout=subprocess.PIPE, check=True)
    output = json.loads(done.stdout)
    return {"parameters": output["parameters"], "queued_us": output["us"]["queued"]["quiet"]}


def producers(build):
    return shared.program(build, "tools/figures/producers", "make tools/figures/producers")


def learn(build, daemon, inputs, streams):
    """Adds producers until each stream has its examples, and then measures slices. The cheapest
    slice counts."""
    words = ["--connect", daemon.endpoint("examples"), "--producers", "4", "--streams",
             str(streams // 4), "--inputs", str(inputs), "--targets", str(inputs)]
    program, epoch, slices = producers(build), 1, []
    while len(slices) < ROUNDS:
        process = subprocess.Popen([program, *words, "--epoch", str(epoch), "--seconds", "5"],
                                   stdout=subprocess.PIPE)
        epoch += 1
        time.sleep(WARM_UP)
        before = (daemon.ask("status")["examples"], shared.thread_seconds(daemon.process),
                  written(daemon.process))
        time.sleep(3)
        after = (daemon.ask("status")["examples"], shared.thread_seconds(daemon.process),
                 written(daemon.process))
        output = process.communicate()[0]
        if process.returncode:
            shared.fail(f"not all examples were acknowledged: {output.decode().strip()}")
        examples = after[0] - before[0]
        used = {task: 1e6 * (after[1][task] - before[1].get(task, 0)) / examples for task in after[1]}
        if after[0] > EXAMPLES_A_STREAM * streams:
            slices.append({"learning_thread_us": used[str(daemon.process.pid)],
                           "other_thread_us": max(us for task, us in used.items()
                                                  if task != str(daemon.process.pid)),
                           "all_threads_us": sum(used.values()),
                           "disk_bytes": (after[2] - before[2]) / examples})
    return min(slices, key=lambda s: s["learning_thread_us"])


def one_daemon(build, name):
    """A daemon with a journal and that many streams: its costs, and its state's."""
    inputs, streams = NETWORKS[name]
    with tempfile.TemporaryDirectory(prefix="scale-") as directory:
        made = bench(build, name, directory)
        with running.Daemon(directory, configuration(name, directory, streams)) as daemon:
            daemon.ask("status")
            empty = shared.resident(daemon.process)
            first = daemon.ask("checkpoint")
            made |= learn(build, daemon, inputs, streams)
            status = daemon.ask("status")
            made |= {"inputs": inputs,
                     "journal_bytes": status["journal"]["bytes"] / status["examples"],
                     "memory_bytes_a_stream": (shared.resident(daemon.process) - empty) / streams}
            daemon.end(signal.SIGKILL)
            daemon.start()
            daemon.ask("status")
            entries, seconds = re.search(LEARNED_AGAIN, daemon.text()).groups()
            made["replay_rate"] = int(entries) / float(seconds)
            before = shared.thread_seconds(daemon.process)[str(daemon.process.pid)]
            full = daemon.ask("checkpoint")
            writing = shared.thread_seconds(daemon.process)[str(daemon.process.pid)] - before
            made |= {"checkpoint_bytes_a_stream": (full["bytes"] - first["bytes"]) / streams,
                     # The learning stops: this thread copies into the file's pages.
                     "checkpoint_thread_bytes_a_second": full["bytes"] / writing}
            assert daemon.end() == 0
            begin = time.monotonic()
            daemon.start()
            daemon.ask("status")
            made["resume_bytes_a_second"] = full["bytes"] / (time.monotonic() - begin)
            assert daemon.end() == 0
    return made


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return (f"{re.search(r'model name.*: (.*)', text)[1]}, {os.cpu_count()} cores, "
            f"{platform.system()} {platform.release()}")


def measure(build, path):
    """Writes the costs to a JSON file."""
    running.Daemon.program = shared.program(build, "runneld")
    shared.program(build, "runnel-bench")  # before any measurement
    producers(build)
    costs = {"date": datetime.date.today().isoformat(), "machine": machine(),
             "command": "tools/figures/scale --measure",
             "networks": {name: one_daemon(build, name) for name in NETWORKS},
             "redis": scale_redis.measure()}
    path.write_text(json.dumps(costs, indent=1) + "\n")
