"""tools/figures/scale --measure: measures the costs of one daemon and one Redis on this machine,
with the real programs. Processor times are those of threads (schedstat, INFO cpu), so that other
load disturbs them little; the fastest of some rounds counts."""
import contextlib
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import tempfile
import threading
import time

import shared

import running
import scale_redis
from scale_redis import BATCH, MESSAGES, ROUNDS, Redis

NETWORKS = {"gru16": ("gru64", 16, 20000), "gru64": ("gru64", 64, 20000),
            "lstm128": ("lstm128", 128, 8000)}  # configuration of conf/bench, size, streams
EXAMPLES_A_STREAM = 40  # windows are full after 17
WARM_UP = 0.5  # seconds
LEARNED_AGAIN = r"replayed (\d+) entries of the journal in ([0-9.]+) s"
PAUSE = 5.0  # seconds, in the real run
SAMPLE = 0.1  # seconds between two measurements of its lag
LOAD = 0.3  # of its highest rate
BURST = 150 * BATCH


def configuration(name, directory, streams, examples=None):
    """examples: instead of a socket."""
    base, size, _ = NETWORKS[name]
    text = (shared.SOURCE / f"conf/bench/{base}.yaml").read_text(encoding="utf-8")
    text = re.sub(r"size: (\d+), norm", f"size: {size}, norm", text)
    text += f"  max_streams: {streams}\n"
    for socket in "statistics", "control":
        text += f'{socket}: {{bind: "ipc://{directory}/{socket}"}}\n'
    examples = examples or f'bind: "ipc://{directory}/examples", socket: router'
    text += f"examples: {{{examples}}}\n"
    return text + (f"state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}, "
                   "journal: {sync: full, keep: all}}\n")


def processor(process):
    """Processor seconds of each thread: {its number: seconds}."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}


def written(process):
    text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
    return int(re.search(r"^write_bytes: (\d+)", text, re.M)[1])


def resident(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", text)[1])


def bench(build, name, directory):
    """In-process, one stream: output of runnel-bench --json."""
    path = pathlib.Path(directory, "bench.yaml")
    path.write_text(configuration(name, directory, 1), encoding="utf-8")
    done = subprocess.run([shared.program(build, "runnel-bench"), "--config", path, "--seconds", "2",
                           "--json"], stdout=subprocess.PIPE, check=True)
    output = json.loads(done.stdout)
    return {"parameters": output["parameters"], "queued_us": output["us"]["queued"]["minimum"],
            "forward_us": output["us"]["forward_queued"]["minimum"]}


def producers(build):
    return shared.program(build, "tools/figures/producers", "make tools/figures/producers")


def learn(build, daemon, model, streams):
    """Adds producers until each stream has its examples, and then measures slices. The cheapest
    slice counts."""
    inputs, targets = model
    words = ["--connect", daemon.endpoint("examples"), "--producers", "4", "--streams",
             str(streams // 4), "--inputs", str(inputs), "--targets", str(targets)]
    program, epoch, slices = producers(build), 1, []
    while len(slices) < ROUNDS:
        process = subprocess.Popen([program, *words, "--epoch", str(epoch), "--seconds", "5"],
                                   stdout=subprocess.PIPE)
        epoch += 1
        time.sleep(WARM_UP)
        before = (daemon.ask("status")["examples"], processor(daemon.process),
                  written(daemon.process), time.monotonic())
        time.sleep(3)
        after = (daemon.ask("status")["examples"], processor(daemon.process),
                 written(daemon.process), time.monotonic())
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
                           "disk_bytes": (after[2] - before[2]) / examples,
                           "rate": examples / (after[3] - before[3])})
    return min(slices, key=lambda s: s["learning_thread_us"])


def one_daemon(build, name, streams):
    """A daemon with a journal and that many streams: its costs, and its state's."""
    with tempfile.TemporaryDirectory(prefix="scale-") as directory:
        made = bench(build, name, directory)
        model = (32, 32) if NETWORKS[name][0] == "lstm128" else (8, 8)
        with running.Daemon(directory, configuration(name, directory, streams)) as daemon:
            daemon.ask("status")
            empty = resident(daemon.process)
            first = daemon.ask("checkpoint")
            made |= learn(build, daemon, model, streams)
            status = daemon.ask("status")
            made |= {"streams": streams, "inputs": model[0],
                     "journal_bytes": status["journal"]["bytes"] / status["examples"],
                     "memory_bytes_a_stream": (resident(daemon.process) - empty) / streams}
            daemon.end(signal.SIGKILL)
            daemon.start()
            daemon.ask("status")
            entries, seconds = re.search(LEARNED_AGAIN, daemon.text()).groups()
            made["replay_rate"] = int(entries) / float(seconds)
            before = processor(daemon.process)[str(daemon.process.pid)]
            full = daemon.ask("checkpoint")
            writing = processor(daemon.process)[str(daemon.process.pid)] - before
            made |= {"checkpoint_bytes_a_stream": (full["bytes"] - first["bytes"]) / streams,
                     "checkpoint_seconds": full["seconds"], "checkpoint_bytes": full["bytes"],
                     # The learning stops: this thread copies into the file's pages.
                     "checkpoint_thread_bytes_a_second": full["bytes"] / writing}
            assert daemon.end() == 0
            begin = time.monotonic()
            daemon.start()
            daemon.ask("status")
            made["resume_bytes_a_second"] = full["bytes"] / (time.monotonic() - begin)
            assert daemon.end() == 0
    return made


@contextlib.contextmanager
def adding(server, rate, before):
    """A thread that adds `rate` entries per second; a list of one: their number, including those
    before."""
    added, ended = [before], threading.Event()

    def add():
        begin, done = time.monotonic(), 0
        while not ended.wait(0.01):
            due = int(rate * (time.monotonic() - begin)) - done
            server.pipeline([("XADD", "s", "*", "payload", MESSAGES["8"] % (n % 1000))
                             for n in range(done, done + due)])
            done += due
            added[0] += due
    thread = threading.Thread(target=add)
    thread.start()
    try:
        yield added
    finally:
        ended.set()
        thread.join()


def rate_between(daemon, first, last):
    """Examples a second that a daemon learns from one count of them to another."""
    while (begun := daemon.ask("status")["examples"]) < first:
        time.sleep(0.02)
    begin = time.monotonic()
    while (ended := daemon.ask("status")["examples"]) < last:
        time.sleep(0.02)
    return (ended - begun) / (time.monotonic() - begin)


def watch(daemon, added, begin, curve, ready):
    """Records the lag until it is time."""
    while not ready(time.monotonic() - begin):
        known = added[0]
        curve.append([round(time.monotonic() - begin, 3), known - daemon.ask("status")["examples"]])
        time.sleep(SAMPLE)


def lag_of_a_pause():
    """A daemon of gru64 reads a stream of Redis, and is paused for five seconds: the lag by
    time. The arrival rate is a part of its highest rate, which is measured while it catches up
    from an earlier burst."""
    with tempfile.TemporaryDirectory(prefix="scale-") as directory, \
            Redis(pathlib.Path(directory)) as server:

        def burst(count):
            for first in range(0, count, 5 * BATCH):
                server.pipeline([("XADD", "s", "*", "payload", MESSAGES["8"] % (n % 1000))
                                 for n in range(first, first + 5 * BATCH)])
        text = configuration("gru64", directory, 1024, f'redis: {{url: "{server.url}", stream: s}}')
        with running.Daemon(directory, text) as daemon:
            daemon.ask("status")
            burst(BURST)
            rate = LOAD * rate_between(daemon, BURST // 4, BURST * 3 // 4)
            running.wait_learned(daemon, BURST)
            with adding(server, rate, BURST) as added:
                burst(BURST)
                added[0] += BURST
                highest = rate_between(daemon, BURST * 5 // 4, BURST * 7 // 4)
                while daemon.ask("status")["examples"] < added[0] - rate / 10:
                    time.sleep(0.02)
                curve, begin, before = [], time.monotonic(), added[0]
                watch(daemon, added, begin, curve, lambda now: now > 2)
                daemon.ask("pause")
                paused = time.monotonic() - begin
                watch(daemon, added, begin, curve, lambda now: now > paused + PAUSE)
                daemon.ask("resume")
                resumed = time.monotonic() - begin
                watch(daemon, added, begin, curve, lambda now: now > resumed + PAUSE + 1)
                came = (added[0] - before) / (time.monotonic() - begin)
    return {"highest_rate": highest, "rate": came, "paused": paused, "resumed": resumed, "lag": curve}


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    return (f"{re.search(r'model name.*: (.*)', text)[1]}, {os.cpu_count()} cores, "
            f"{platform.system()} {platform.release()}")


def measure(build, path, parts):
    """Writes the costs to a JSON file; parts that are left out stay unchanged."""
    running.Daemon.program = shared.program(build, "runneld")
    if "daemon" in parts:  # before any measurement
        shared.program(build, "runnel-bench")
        producers(build)
    costs = json.loads(path.read_text()) if path.exists() else {}
    costs |= {"date": datetime.date.today().isoformat(), "machine": machine(),
              "command": "tools/figures/scale --measure"}
    if "daemon" in parts:
        costs["networks"] = {name: one_daemon(build, name, streams)
                             for name, (_, _, streams) in NETWORKS.items()}
    if "redis" in parts:
        costs["redis"] = scale_redis.measure()
    if "pause" in parts:
        costs["pause"] = lag_of_a_pause()
    path.write_text(text_of(costs))


def text_of(costs):
    """A line for each number, and one for the curve."""
    text = json.dumps(costs, indent=1)
    return re.sub(r"\[\s+([\d.]+),\s+(-?[\d.]+)\s+\]", r"[\1, \2]", text) + "\n"
