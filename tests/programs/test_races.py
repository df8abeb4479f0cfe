#!/usr/bin/python3
"""Tests the detection of races in CUDA kernels (tests/hostcuda/race.h). One fault at a time is
seeded into a copy of the engine's kernels. Each must be found, and the message must name kernel,
memory and both places. Finally the engine's own test of races must run every kernel."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
KERNELS = SOURCE / "kernels" / "cuda"
PLAYER = BUILD / "tests" / "engines" / "test_races"
MODULE = BUILD / "tests" / "hostcuda" / "runnel-races.so"
LIMIT = 240  # seconds: only ends a test that hangs
AT_ONCE = 2
SKIP = 77

# Description; the file, its text, and the text with the fault; the file to compile; the case of
# tests/engines/test_races.c; the expected message.
FAULTS = (
    ("a missing __syncthreads between a sum's halves", "device.cuh",
     "    __syncthreads();\n#pragma unroll\n    for (int k = 0; k < COUNT; k++) {\n        Number sum",
     "#pragma unroll\n    for (int k = 0; k < COUNT; k++) {\n        Number sum",
     "gradient.cu", "layer",
     r"race in norm on shared memory, byte \d+: a write by block \d+, thread \d+ at device.cuh:\d+ in "
     r"norm, called at gradient.cu:\d+; a read by block \d+, thread \d+ at device.cuh:\d+ in .*nothing orders them"),
    ("shared memory used again too early", "device.cuh",
     "    __syncthreads(); /* the previous call may still read the scratch */\n", "",
     "forward.cu", "layer",
     r"race in wave<false> on shared memory.* a read by block \d+, thread \d+ .*; a write by "),
    ("h in use before all of it is made", "cells.cuh",
     "#include \"kinds.def\"\n    }\n    __syncthreads();\n", "#include \"kinds.def\"\n    }\n",
     "forward.cu", "layer", r"race in wave<false> on shared memory.* a write by .*; a read by "),
    ("a tile loaded while the one before is in use", "tile.cuh",
     "TILE_STEPS ? length - begin : TILE_STEPS;\n        __syncthreads();\n",
     "TILE_STEPS ? length - begin : TILE_STEPS;\n",
     "optimizer.cu", "staged", r"race in optimize<.* on shared memory.* a read by .*; a write by "),
    ("no fence before the last block's count", "device.cuh",
     "    __threadfence();\n    __syncthreads();\n    unsigned *taken", "    __syncthreads();\n    unsigned *taken",
     "optimizer.cu", "layer",
     r"race in optimize<.* on byte \d+ of \d+ of device memory .*: a write by block (\d+), thread 0 "
     r"at optimizer.cu:\d+ .*; a read by block (?!\1,)\d+, thread \d+ at optimizer.cu:\d+ in conclude"),
    ("no fence after the last block's count", "device.cuh",
     "    if (last)\n        __threadfence();\n", "",
     "optimizer.cu", "layer", r"race in optimize<.* on byte .* in conclude"),
    ("a count that is not atomic", "device.cuh",
     "*taken = atomicInc(ticket, blocks - 1);",
     "{\n        *taken = *ticket;\n        *ticket = *taken == blocks - 1 ? 0 : *taken + 1;\n    }",
     "optimizer.cu", "layer",
     r"race in optimize<.* on byte .* a write by block (\d+), .*; a read by block (?!\1,)\d+, .* at device.cuh:\d+"),
    ("atomics on shared memory as plain additions", "measure.cu",
     "atomicAdd(&bins[bin >= MEASURE_BINS ? MEASURE_BINS - 1 : bin > 0 ? (unsigned)bin : 0], 1u)",
     "bins[bin >= MEASURE_BINS ? MEASURE_BINS - 1 : bin > 0 ? (unsigned)bin : 0] += 1u",
     "measure.cu", "layer", r"race in measure on shared memory.* at measure.cu:\d+ in \w+, called at measure.cu:\d+;"),
    ("a neighbour's partial sum read", "optimizer.cu",
     "changes_of(n)[2 * (size_t)number + 1] = sums[1];",
     "changes_of(n)[2 * (size_t)number + 1] = sums[1] + 0 * changes_of(n)[(2 * (size_t)number + 2) % tiles];",
     "optimizer.cu", "layer",
     r"race in optimize<.* on byte .*by block (\d+), thread 0.*by block (?!\1,)\d+, thread 0"),
    ("two blocks that leave their sums in one place", "gradient.cu",
     "squares_of(n)[blockIdx.y * gridDim.x + blockIdx.x] = sum;", "squares_of(n)[blockIdx.x] = sum;",
     "gradient.cu", "layer",
     r"race in norm on byte .*: a write by block (\d+), thread 0 .*; a write by block (?!\1,)\d+, thread 0 "),
    ("one buffer where steps take turns with two", "backward.cu",
     "activations_of(n) + l.carry + (size_t)(t % 2) * l.size",
     "activations_of(n) + l.carry + (size_t)(t % 1) * l.size",
     "backward.cu", "layer", r"race in backward_wave<false> on byte .* at backward.cu:\d+ in "),
    ("a layer that reads what the same launch makes", "forward.cu",
     "uint32_t t = number - k;", "uint32_t t = number - k / 2;",
     "forward.cu", "layer",
     r"race in wave<false> on byte .* a (write|read) by block (\d+), .*; a (write|read) by block (?!\2,)\d+, "),
    ("weights read by a block that does not own them", "solve.cu",
     "        if (k < s.outputs)\n            sums[2] = fma(phi, weights[i], sums[2]);",
     "        sums[2] = fma(phi, s.weights[i], sums[2]);",
     "solve.cu", "solved", r"race in take_weights on byte .* a read by block .* in take_weights"),
    ("a barrier in divergent code", "solve.cu",
     "    block_sums(sums, (double *)shared_memory);\n",
     "    if (threadIdx.x < s.inputs)\n        block_sums(sums, (double *)shared_memory);\n",
     "solve.cu", "solved", r"take_weights .*, block \(\d+, 0, 0\), thread \(\d+, 0, 0\): .*"
     r"(exits while|have exited|names lanes)"),
    ("a shuffle's mask that is too small", "device.cuh",
     "__shfl_xor_sync(0xffffffffu, value, distance);\n    return value;",
     "__shfl_xor_sync(0x0000ffffu, value, distance);\n    return value;",
     "solve.cu", "solved", r"take_covariance .*: __shfl_xor_sync: lane \d+ .* mask 0000ffff"),
    ("results fetched without a wait", "plan.cu",
     ("cudaError_t ended = cudaStreamSynchronize(ensemble_stream(x));", "            fetch_results(x, m);\n"),
     ("cudaError_t ended = cudaSuccess;",
      "            fetch_results(x, m);\n    cudaStreamSynchronize(ensemble_stream(x));\n"),
     "plan.cu", "layer",
     r"race in \w+ on byte \d+ of \d+ of pinned memory from .*: a read of the host at plan.cu:\d+ in fetch.*; a write by "),
    ("a member that writes where another does", "network.cuh",
     "n.arenas[blockIdx.z]", "n.arenas[blockIdx.z / 2]",
     "forward.cu", "members",
     r"race in wave<false> on byte .* a (write|read) by block (\d+), .*; a (write|read) by block (?!\2,)\d+, "),
    ("a branch that nobody waits for", "branch.cu",
     "return status ? status : cudaStreamWaitEvent(ensemble_stream(x), x->join, 0);", "return status;",
     "branch.cu", "members", r"race in \w+ on byte .*: a read of the host at plan.cu:\d+ in fetch.*; a write by "),
    ("sums of every group of columns in the place of the first", "transposed.cuh",
     "out[group * COLUMN_GROUP + c] = total;", "out[c] = total;",
     "backward.cu", "groups",
     r"race in backward_wave<false> on byte .*: a write by block (\d+), .* at transposed.cuh:\d+ .*; a write by block (?!\1,)\d+, "),
    ("inputs that each block copies", "segment.cu",
     "for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {",
     "for (uint32_t i = threadIdx.x; i < count; i += stride) {",
     "segment.cu", "inputs",
     r"race in begin on byte .*: a write by block (\d+), .*; a write by block (?!\1,)\d+, "),
    ("a cursor that moves on while blocks read it", "segment.cu",
     "if (block_is_last(&q->ticket) && threadIdx.x == 0)", "__syncthreads();\n    if (blockIdx.x == 0 && threadIdx.x == 0)",
     "segment.cu", "inputs", r"race in begin on byte .* a (write|read) by block (\d+), .* in begin; "
     r"a (write|read) by block (?!\2,)\d+, .* in begin"),
    ("a run that comes upon the late score before it", "cut.cu",
     "n->window < RUN_MAX ? n->window : RUN_MAX", "n->ring < RUN_MAX ? n->ring : RUN_MAX",
     "cut.cu", "layer",
     r"race in begin on byte .* a write by block 0, thread (\d+) at segment.cu:\d+ in (score|begin), called at .*; "
     r"a write by block 0, thread (?!\1 )\d+ at segment.cu:\d+ in (?!\2,)(score|begin), called at "),
    ("outputs of all open steps in one place", "network.cuh",
     "return n.many ? position : 0;", "return n.many > 1 ? position : 0;",
     "segment.cu", "horizons",
     r"race in finish on byte .*: a write by block (\d+), .* in finish; a write by block (?!\1,)\d+, "),
    ("a pair of numbers at an odd address", "solve.cu",
     "for (uint32_t i = PAIR * lane_index(); i < s.stride;", "for (uint32_t i = PAIR * lane_index() + 1; i < s.stride;",
     "solve.cu", "solved", r"take_covariance .*, block \(\d+, 0, 0\), thread \(\d+, 0, 0\): misaligned access at "),
)
SEEDS = "0", "7"  # of the order of blocks and threads: each order must find a fault


def commands():
    """The commands that compile and link the watched module."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "-C", str(BUILD), "race-commands"], env=environment, check=True,
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    compiling, linking = done.stdout.splitlines()[-2:]
    return shlex.split(compiling), shlex.split(linking)


def play(module, case, **variables):
    # few multiprocessors, as in all tests: blocks still share products
    environment = {**os.environ, "HOSTCUDA_SMS": "4", "RUNNEL_CUDA_MODULE": str(module), **variables}
    return subprocess.run([str(PLAYER), case], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=LIMIT)


def seed(directory, number, fault):
    """Builds a module with the fault, and returns its path."""
    _, file, old, new, compiled, _, _ = fault
    copies = directory / str(number) / "hostcuda" / "cuda"
    shutil.copytree(KERNELS, copies)
    text = (copies / file).read_text()
    for before, after in zip(*((pair,) if isinstance(pair, str) else pair for pair in (old, new))):
        assert text.count(before) == 1, f"{file} has {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    (copies / file).chmod(0o644)
    (copies / file).write_text(text)
    compiling, linking = commands_of
    made = copies.parent / "seeded.o"
    module = copies.parent / "runnel-races.so"
    subprocess.run([*compiling, "-o", str(made), str(copies / compiled)], cwd=BUILD, check=True, timeout=LIMIT)
    theirs = "kernels/cuda/" + compiled.replace(".cu", ".race.o")
    assert theirs in linking, linking
    subprocess.run([*(str(made) if word == theirs else word for word in linking), "-o", str(module)],
                   cwd=BUILD, check=True, timeout=LIMIT)
    return module


def find(directory, number, fault):
    """Returns the reason if the fault was not found, else ""."""
    module, wrong = seed(directory, number, fault), ""
    for order in SEEDS:
        done = play(module, fault[5], HOSTCUDA_SEED=order)
        reports = [line for line in done.stderr.splitlines() if line.startswith("hostcuda:")]
        if not done.returncode or not any(re.search(fault[6], line) for line in reports):
            wrong += f"{fault[0]}: not found with seed {order} (status {done.returncode}):\n" + "\n".join(
                (reports or done.stderr.splitlines())[:6]) + "\n"
    shutil.rmtree(directory / str(number))
    return wrong


def test_faults_are_found(directory):
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = list(filter(None, pool.map(lambda n: find(directory, n, FAULTS[n]), range(len(FAULTS)))))
    assert not wrong, "\n".join(wrong)


def test_every_kernel_is_played():
    kernels = set()
    for path in KERNELS.glob("*.cu"):
        kernels |= set(re.findall(r"__global__[^(]*?(?:__launch_bounds__\([^{]*?\)\s*)?\b(\w+)\(\s*const ",
                                  path.read_text()))
    assert {"wave", "optimize", "take_weights", "project", "form"} <= kernels, kernels
    cases = re.findall(r'\.name = "([^"]+)",$', (SOURCE / "tests/support/played_cases.c").read_text(), re.M)
    played = set()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        plays = list(pool.map(lambda case: play(MODULE, case, HOSTCUDA_TRACE="1", HOSTCUDA_RACES="0"), cases))
    for done in plays:
        assert done.returncode == 0, done.stderr[-2000:]
        played |= set(re.findall(r"^hostcuda: (\w+)(?:<[^>]*>)? \(runnel-races.*<<<", done.stderr, re.M))
    assert kernels <= played, kernels - played


if not MODULE.exists():
    sys.exit(SKIP)
commands_of = commands()
with tempfile.TemporaryDirectory() as folder:
    test_faults_are_found(pathlib.Path(folder))
test_every_kernel_is_played()
print(len(FAULTS), "seeded faults found; every kernel played")
