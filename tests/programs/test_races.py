#!/usr/bin/python3
"""Tests the detection of races in the CUDA kernel (tests/hostcuda/race.h). A copy of the engine is
compiled with all faults below, of which $SEEDED_FAULT names one. Each must be found, with any order
of blocks and threads, and the message must name kernel, memory and both places. Finally the cases
of the engine's own test of races must call every phase of the kernel."""
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
SEEDS = "0", "7"  # of the order of blocks and threads: each order must find a fault
MEMORY = {"shared": r"shared memory of block \d+, byte \d+", "device": r"byte \d+ of \d+ of device memory \S+ .*",
          "pinned": r"byte \d+ of \d+ of pinned memory \S+ .*"}


def place(text, block):
    """A pattern of an access: "a write product.cuh wave"."""
    kind, access, file, function = text.split()
    return (rf"{kind} {access} by block {block}, thread \d+ at {file}:\d+ in {function}"
            r"(?:<[^;]*>)?(?:, called at [^;]*)?")


def race(memory, first, second, other=True):
    """A pattern of the report of a race, in either order, of threads of one block or of two."""
    orders = []
    for n, (a, b) in enumerate(((first, second), (second, first))):
        block = rf"(?!(?P=block{n}),)\d+" if other else rf"(?P=block{n})"
        orders.append(place(a, rf"(?P<block{n}>\d+)") + "; " + place(b, block))
    return rf"race in play on {MEMORY[memory]}: (?:{'|'.join(orders)}); nothing orders them"


def in_block(first, second):
    return race("shared", first, second, other=False)


# Description; the file, its text «with the place of the fault», the fault there; the case of
# tests/engines/test_races.c and the scope; the expected message.
FAULTS = (
    # in a block
    ("a missing __syncthreads between a sum's halves", "device.cuh",
     "    «__syncthreads();»\n#pragma unroll\n    for (int k = 0; k < COUNT; k++) {\n        Number sum",
     "", "staged", "block", in_block("a write device.cuh block_loss", "a read device.cuh block_loss")),
    ("scratch used again too early", "device.cuh",
     "«__syncthreads(); /* the previous call may still read the scratch */»", "", "staged", "block",
     in_block("a read device.cuh gradient_norm", "a write device.cuh gradient_norm")),
    ("scratch of a maximum used again too early", "device.cuh",
     "        value = other > value || other != other ? other : value;\n    }\n    «__syncthreads();»",
     "", "long one-hot", "block", in_block("a read device.cuh block_loss", "a write device.cuh block_loss")),
    ("a vector multiplied before it is complete", "forward.cuh",
     "    «__syncthreads();»\n    return x;", "", "staged", "block",
     in_block("a write forward.cuh make_vector", "a read product.cuh wave")),
    ("an h in use before all of it is made", "cells.cuh",
     "finish_columns(n, l, s, keep, h, scratch);\n    «__syncthreads();»", "", "horizons", "block",
     in_block("a write cells.cuh make_vector", "a write forward.cuh make_vector")),
    ("a vector made while the one before is in use", "forward.cuh",
     "«__syncthreads(); /* the previous vector may still be read */»", "", "staged", "block",
     in_block("a read product.cuh wave", "a write forward.cuh make_vector")),
    ("columns read before they are made", "cells.cuh",
     "    «__syncthreads();»\n    for (uint32_t i = threadIdx.x; keep && i < l.size; i += blockDim.x)\n"
     "        s.raw[i]",
     "", "apart", "block", in_block("a write cells.cuh make_vector", "a read cells.cuh make_vector")),
    ("a tile loaded while the one before is in use", "tile.cuh",
     "TILE_STEPS ? length - begin : TILE_STEPS;\n        «__syncthreads();»", "", "staged", "block",
     in_block("a read tile.cuh change_tile", "a write tile.cuh change_tile")),
    ("a tile used before it is loaded", "tile.cuh",
     "        «__syncthreads();»\n        for (uint32_t t = 0; t < steps", "", "staged", "block",
     in_block("a write tile.cuh change_tile", "a read tile.cuh change_tile")),
    ("sums of columns made while those before are in use", "product.cuh",
     "«__syncthreads(); /* the previous sums may still be read */»", "", "broad", "block",
     in_block("a read product.cuh backward_wave", "a write product.cuh backward_wave")),
    ("sums of columns read before they are complete", "product.cuh",
     "((float4 *)p.sums)[threadIdx.x] = sum;\n        «__syncthreads();»", "", "staged", "block",
     in_block("a write product.cuh backward_wave", "a read product.cuh backward_wave")),
    ("gradients made while those of a layer are in use", "backward.cuh",
     "«__syncthreads(); /* the previous layer's may still be read */»", "", "mixture", "block",
     in_block("a read backward.cuh backward_wave", "a write backward.cuh backward_wave")),
    ("a strip's gradients multiplied before they are complete", "backward.cuh",
     "recurrent, row);\n    «__syncthreads();»\n    keep_rows", "", "staged", "block",
     in_block("a write backward.cuh backward_wave", "a read product.cuh backward_wave")),
    ("gradients of units read before they are complete", "backward.cuh",
     "#include \"kinds.def\"\n    }\n    «__syncthreads();»", "", "staged", "block",
     in_block("a write backward.cuh backward_wave", "a read backward.cuh backward_wave")),
    ("gradients of outputs multiplied before they are complete", "backward.cuh",
     "            d[k] = from[k];\n        «__syncthreads();»", "", "staged", "block",
     in_block("a write backward.cuh output_backward", "a read product.cuh output_backward")),
    ("a segment played before all threads know it", "play.cu",
     "n.current++;\n    «__syncthreads();»", "", "layer", "block",
     in_block("a write play.cu play", "a read play.cu play")),
    ("a wave played before all threads know its number", "network.cuh",
     "n.wave++;\n    «__syncthreads();»", "", "staged", "block",
     in_block("a write network.cuh \\w+", "a read forward.cuh wave")),
    ("a barrier in divergent code", "solve.cuh",
     "    «block_sums(sums, (double *)shared_memory);»\n    double q",
     "if (threadIdx.x < s.inputs)\n        block_sums(sums, (double *)shared_memory);", "solved", "block",
     r"deadlock: no thread can run|(exits while|have exited|names lanes)"),
    ("a shuffle's mask that is too small", "device.cuh",
     "value += __shfl_xor_sync(«0xffffffffu», value, distance);\n    return value;",
     "0x0000ffffu", "staged", "block", r"play .*: __shfl_xor_sync: lane \d+ .* mask 0000ffff"),
    ("a pair of numbers at an odd address", "solve.cuh",
     "for (uint32_t i = «PAIR * lane_index()»; i < s.stride;", "PAIR * lane_index() + 1", "solved", "block",
     r"play .*, thread \(\d+, 0, 0\): misaligned access at take_covariance"),
    # exchange.cuh
    ("no fence before the count", "exchange.cuh",
     "«__threadfence();»\n        unsigned before", "", "staged", "grid",
     race("device", "a write product.cuh wave", "a read cells.cuh make_vector")),
    ("no fence after the wait", "exchange.cuh",
     "__trap();\n        «__threadfence();»", "", "staged", "grid",
     race("device", "a write product.cuh wave", "a read cells.cuh make_vector")),
    ("a count that is not atomic", "exchange.cuh",
     "unsigned before = «atomicAdd(team.arrived, team.rank ? 1u : phase - (team.size - 1))»",
     "[&] { unsigned old = *team.arrived; "
     "*team.arrived = old + (team.rank ? 1u : phase - (team.size - 1)); return old; }()", "staged", "grid",
     race("device", "a write exchange.cuh team_sync", "a read exchange.cuh team_sync")),
    ("a wait for any count instead of the phase", "exchange.cuh",
     "«!((before ^ *(volatile unsigned *)team.arrived) & phase)»",
     "!(before ^ *(volatile unsigned *)team.arrived)", "staged", "grid",
     race("device", "a write gradient.cuh gradient_norm", "a read optimizer.cuh check_update")),
    ("a count before all threads are there", "exchange.cuh",
     "«__syncthreads();»\n    if (threadIdx.x == 0) {", "", "staged", "grid",
     race("device", "a write product.cuh wave", "a read cells.cuh make_vector")),
    ("threads that go on before the wait", "exchange.cuh",
     "        __threadfence();\n    }\n    «__syncthreads();»", "", "staged", "grid",
     race("device", "a write gradient.cuh gradient_norm", "a read optimizer.cuh check_update")),
    # barriers between phases
    ("no barrier after the plan is copied", "play.cu",
     "    enter(call);\n    «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write play.cu enter", "a read play.cu play")),
    ("no barrier after inputs are encoded", "play.cu",
     "encode(of);\n        «team_sync();»", "__syncthreads();", "columns", "grid",
     race("device", "a write inputs.cuh encode", "a read forward.cuh make_vector")),
    ("no barrier after the norms of weights", "play.cu",
     "    norms();\n    «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write measure.cuh norms", "a read measure.cuh begin_norms")),
    ("no barrier after the norms of the start", "play.cu",
     "    begin_norms();\n    «team_sync();»", "__syncthreads();", "layer", "grid",
     race("device", "a write measure.cuh begin_norms", "a read measure.cuh measure")),
    ("no barrier after solved outputs", "play.cu",
     "solved_outputs();\n        «team_sync();»", "__syncthreads();", "many solved", "grid",
     race("device", "a write product.cuh solved_outputs", "a read squared.h block_loss")),
    ("no barrier after the loss", "play.cu",
     "    window_loss();\n    «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write loss.cuh block_loss", "a read backward.cuh output_backward")),
    ("no barrier after the output's backward", "play.cu",
     "    output_backward();\n    «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write product.cuh output_backward", "a read network.cuh join_output")),
    ("no barrier after the output's sums", "play.cu",
     "        join_output();\n        «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write backward.cuh join_output", "a read network.cuh backward_wave")),
    ("no barrier after the inputs' backward", "play.cu",
     "        inputs_backward();\n        «team_sync();»", "__syncthreads();", "embedding", "grid",
     race("device", "a write inputs.cuh inputs_backward", "a read gradient.cuh inner_product")),
    ("no barrier after the pulls", "play.cu",
     "        make_pulls();\n        «team_sync();»", "__syncthreads();", "rows", "grid",
     race("device", "a write units.cuh make_pulls", "a read tile.cuh gradient_norm")),
    ("no barrier after the gradient's norm", "play.cu",
     "    gradient_norm();\n    «team_sync();»", "__syncthreads();", "groups", "grid",
     race("device", "a write gradient.cuh gradient_norm", "a read optimizer.cuh check_update")),
    ("no barrier after running statistics", "play.cu",
     "        absorb();\n        «team_sync();»", "__syncthreads();", "rows", "grid",
     race("device", "a write units.cuh absorb", "a read units.cuh refresh")),
    ("no barrier after a probe", "play.cu",
     "        probe();\n    «team_sync();»", "__syncthreads();", "layer", "grid",
     race("device", "a read measure.cuh probe", "a write measure.cuh norms")),
    ("no barrier after inputs are stored", "play.cu",
     "        begin();\n        «team_sync();»", "__syncthreads();", "groups", "cluster",
     race("device", "a write segment.cuh begin", "a read forward.cuh make_vector")),
    ("no barrier after a run", "play.cu",
     "        finish();\n        «team_sync();»", "__syncthreads();", "layer", "cluster",
     race("device", "a write segment.cuh finish", "a read segment.cuh begin")),
    ("no barrier of a cluster between waves", "network.cuh",
     "    «team_sync();»\n    if (threadIdx.x == 0)\n        n.wave++;",
     "__syncthreads();", "groups", "cluster",
     race("shared", "a write exchange.cuh wave", "a read cells.cuh make_vector")),
    ("no barrier before a wave's sums are added up", "backward.cuh",
     "        if (n.joins) {\n            «team_sync();»", "__syncthreads();", "broad", "grid",
     race("device", "a write product.cuh backward_wave", "a read network.cuh join_wave")),
    ("no barrier of a grid between waves", "network.cuh",
     "    «team_sync();»\n    if (threadIdx.x == 0)\n        n.wave++;", "__syncthreads();", "staged", "grid",
     race("device", "a write backward.cuh backward_wave", "a read backward.cuh backward_wave")),
    ("no barrier after the weights change", "optimizer.cuh",
     "        update_tiles();\n    «team_sync();»", "__syncthreads();", "groups", "cluster",
     race("device", "a write optimizer.cuh change_tile", "a read optimizer.cuh conclude")),
    ("no barrier after the covariance", "solve.cuh",
     "take_covariance(position);\n    «team_sync();»", "__syncthreads();", "solved", "cluster",
     race("device", "a write solve.cuh take_covariance", "a read solve.cuh take_weights")),
    # buffers, and work of others
    ("one buffer of carried gradients where steps take turns with two", "backward.cuh",
     "n.activations + l.carry + (size_t)(«t % 2») * l.size;", "t % 1", "staged", "grid",
     race("device", "a read backward.cuh backward_wave", "a write backward.cuh backward_wave")),
    ("one buffer of states where steps take turns with two", "backward.cuh",
     "n.activations + l.carry + (size_t)(«t % 2») * l.states", "t % 1", "apart", "grid",
     race("device", "a read backward.cuh backward_wave", "a write backward.cuh backward_wave")),
    ("one buffer of partial sums where steps take turns with two", "network.cuh",
     "(size_t)(waits ? «t % 2» : t) * partial_numbers", "t % 1", "staged", "grid",
     race("device", "a read network.cuh backward_wave", "a write product.cuh backward_wave")),
    ("a partial sum read in the wave that makes it", "backward.cuh",
     "partials_of(n, l, true, «b.t + 1»)", "b.t", "staged", "grid",
     race("device", "a read network.cuh backward_wave", "a write product.cuh backward_wave")),
    ("a strip with two owners", "play.cu",
     "n.own_end = rank + 1 < call.blocks ? «first_strip(n, rank + 1)» : n.strip_count",
     "first_strip(n, rank + 1) + 1", "staged", "grid",
     race("device", "a write optimizer.cuh change_tile", "a write optimizer.cuh change_tile")),
    ("a member that writes where another does", "play.cu",
     "const struct member &m = call.members[«blockIdx.x / call.blocks»]",
     "blockIdx.x / call.blocks / 2", "members", "block",
     race("device", "a write play.cu enter", "a read segment.cuh begin")),
    ("a neighbour's partial sum read", "optimizer.cuh",
     "n.changes[2 * (size_t)number + 1] = «sums[1]»",
     "sums[1] + 0 * n.changes[(2 * (size_t)number + 2) % n.tiles]", "staged", "grid",
     race("device", "a write optimizer.cuh change_tile", "a read optimizer.cuh change_tile")),
    ("two blocks that leave their sums in one place", "gradient.cuh",
     "if (threadIdx.x == 0)\n            n.squares[«i»] = sum", "i / n.team.size", "staged", "grid",
     race("device", "a write gradient.cuh gradient_norm", "a write gradient.cuh gradient_norm")),
    ("a layer that reads what the same wave makes", "forward.cuh",
     "v->t = «wave - k»", "wave - k / 2", "staged", "grid",
     race("device", "a write product.cuh wave", "a read cells.cuh make_vector")),
    ("weights read by a block that does not own them", "solve.cuh",
     "        «if (k < s.outputs)\n            sums[2] = fma(phi, weights[i], sums[2]);»",
     "sums[2] = fma(phi, s.weights[i], sums[2]);", "solved", "grid",
     race("device", "a write solve.cuh take_weights", "a read solve.cuh take_weights")),
    ("a plan that every block copies", "play.cu",
     "copy_words(m.to, m.from, m.bytes, «rank», call.blocks);", "0", "staged", "grid",
     race("device", "a write play.cu enter", "a write play.cu enter")),
    ("inputs that every block stores", "segment.cuh",
     "for (uint32_t i = «n.team.rank * blockDim.x + threadIdx.x»; i < count; i += stride) {",
     "threadIdx.x", "inputs", "grid", race("device", "a write segment.cuh begin", "a write segment.cuh begin")),
    ("data for backward that every block stores", "forward.cuh",
     "return «first >= n.own && first < n.own_end»", "true", "staged", "grid",
     race("device", "a write cells.cuh make_vector", "a write cells.cuh make_vector")),
    ("gradients of units that every block stores", "backward.cuh",
     "b.writes = «l.ih.first >= n.own && l.ih.first < n.own_end»", "true", "staged", "grid",
     race("device", "a write backward.cuh backward_wave", "a write backward.cuh backward_wave")),
    ("tiles of strips that others change, too", "optimizer.cuh",
     "if («w.dealt» || number >= end)", "false", "staged", "grid",
     race("device", "a write optimizer.cuh change_tile", "a write optimizer.cuh change_tile")),
    ("the optimizer's numbers from every block", "backward.cuh",
     "if («n.team.rank == s->length % n.team.size && threadIdx.x == 0»)", "threadIdx.x == 0", "staged", "grid",
     race("device", "a write backward.cuh window_loss", "a write backward.cuh window_loss")),
    ("a result from every block", "optimizer.cuh",
     "if («n.team.rank == 0»)\n        conclude", "true", "staged", "grid",
     race("pinned", "a write optimizer.cuh conclude", "a write optimizer.cuh conclude")),
    ("a run that comes upon the late score before it", "cut.cu",
     "«n->window < RUN_MAX ? n->window : RUN_MAX»", "n->ring < RUN_MAX ? n->ring : RUN_MAX", "layer", "block",
     race("device", "a write segment.cuh score", "a write segment.cuh begin", other=False)),
    ("outputs of all open steps in one place", "network.cuh",
     "return «n.many ? position : 0»;", "n.many > 1 ? position : 0", "horizons", "grid",
     race("device", "a write segment.cuh finish", "a write segment.cuh finish")),
    # the host
    ("results fetched without a wait", "play.cu", "status = «wait_for(parts[k].engine)»;",
     "(fetch_results(&parts[k]), wait_for(parts[k].engine))", "staged", "block",
     r"race in play on byte .* of pinned memory .*: a read of the host at play.cu:\d+ in copy_bytes.*; a write by "),
    # distributed shared memory, and what stays on chip
    ("one inbox of sums where steps take turns with two", "network.cuh",
     "n.inbox + l.inbox + (size_t)(2 * («t % 2») + recurrent)", "t % 1", "groups", "cluster",
     race("shared", "a write exchange.cuh wave", "a read cells.cuh make_vector")),
    ("one inbox of partial sums where steps take turns with two", "network.cuh",
     "n.inbox + l.inbox + (size_t)(«t % 2») * both", "t % 1", "groups", "cluster",
     race("shared", "a write exchange.cuh backward_wave", "a read network.cuh backward_wave")),
    ("an inbox read in the wave that fills it", "backward.cuh",
     "partials_of(n, l, true, «b.t + 1»)", "b.t", "staged", "cluster",
     race("shared", "a write exchange.cuh backward_wave", "a read network.cuh backward_wave")),
    ("strips copied before they are chosen", "keep.cuh",
     "        «__syncthreads();»\n        keep_strips", "", "staged", "grid",
     in_block("a write keep.cuh keep", "a read keep.cuh keep")),
    ("a decision read before it is made", "optimizer.cuh",
     "    check_update();\n    «__syncthreads();»", "", "staged", "block",
     in_block("a write optimizer.cuh check_update", "a read optimizer.cuh \\w+")),
)


def commands():
    """The commands that compile and link the watched module."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "-s", "-C", str(BUILD), "race-commands"], env=environment, check=True,
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    compiling, linking = done.stdout.splitlines()[-2:]
    return shlex.split(compiling), shlex.split(linking)


def play(module, case, **variables):
    environment = {**os.environ, "HOSTCUDA_SMS": "4", "RUNNEL_CUDA_MODULE": str(module), **variables}
    return subprocess.run([str(PLAYER), case], env=environment, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, errors="replace", timeout=LIMIT)


def seeded(text, faults):
    """The text of a file with its faults: (number, where in the text «instead of this», fault)."""
    places = {}
    for number, where, fault in faults:
        before, old, after = re.split("[«»]", where)
        assert text.count(before + old + after) == 1, f"{text.count(before + old + after)} times:\n{where}"
        at = text.index(before + old + after) + len(before)
        places.setdefault((at, at + len(old)), []).append((number, fault))
    for (first, end), those in sorted(places.items(), reverse=True):
        made = text[first:end]
        statement = made.endswith((";", "/", "}"))
        for number, fault in those:
            made = (f"if (seeded_fault == {number}) {{ {fault} }} else {{ {made} }}" if statement
                    else f"(seeded_fault == {number} ? ({fault}) : ({made}))")
        text = text[:first] + made + text[end:]
    return text


def build(directory):
    """Compiles the module with all faults, and returns its path."""
    copies, module = directory / "hostcuda" / "cuda", directory / "hostcuda" / "runnel-races.so"
    shutil.copytree(KERNELS, copies)
    compiling, linking = commands()
    files = {fault[1] for fault in FAULTS}
    for file in files | {"device.cuh"}:
        text = seeded((copies / file).read_text(),
                      [(n, f[2], f[3]) for n, f in enumerate(FAULTS, 1) if f[1] == file])
        if file == "device.cuh":
            text = text.replace("#include <cuda_runtime.h>", "#include <cuda_runtime.h>\n#include <stdlib.h>\n"
                                "static const int seeded_fault = atoi(getenv(\"SEEDED_FAULT\"));", 1)
        (copies / file).chmod(0o644)
        (copies / file).write_text(text)
    for file in {"play.cu"} | {file for file in files if file.endswith(".cu")}:
        made, theirs = copies / (file + ".o"), "kernels/cuda/" + file.replace(".cu", ".race.o")
        subprocess.run([*compiling, "-o", str(made), str(copies / file)], cwd=BUILD, check=True, timeout=LIMIT)
        assert theirs in linking, linking
        linking = [str(made) if word == theirs else word for word in linking]
    subprocess.run([*linking, "-o", str(module)], cwd=BUILD, check=True, timeout=LIMIT)
    return module


def find(module, number):
    """Returns the reason if the fault was not found, else ""."""
    name, _, _, _, case, scope, expected = FAULTS[number - 1]
    wrong = ""
    for order in SEEDS:
        done = play(module, case, HOSTCUDA_SEED=order, RUNNEL_SCOPE=scope, SEEDED_FAULT=str(number))
        reports = [line for line in done.stderr.splitlines() if line.startswith("hostcuda:")]
        if not done.returncode or not any(re.search(expected, line) for line in reports):
            wrong += f"{name}: not found with seed {order} (status {done.returncode}):\n" + "\n".join(
                (reports or done.stderr.splitlines())[:6]) + "\n"
    return wrong


def test_faults_are_found(directory):
    module = build(directory)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = list(filter(None, pool.map(lambda n: find(module, n), range(1, len(FAULTS) + 1))))
    assert not wrong, "\n".join(wrong)
    done = play(module, "staged", RUNNEL_SCOPE="grid", SEEDED_FAULT="0")
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_phase_is_called():
    phases = set()
    for path in KERNELS.glob("*.cu*"):
        phases |= set(re.findall(r"^PHASE [^(;]*?(\w+)\(", path.read_text(), re.M))
    assert {"wave", "change_tile", "take_weights", "team_sync"} <= phases, phases
    cases = re.findall(r'\.name = "([^"]+)",$', (SOURCE / "tests/support/played_cases.c").read_text(), re.M)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        plays = list(pool.map(lambda case: play(MODULE, case, HOSTCUDA_TRACE="1", HOSTCUDA_RACES="0"), cases))
    for done in plays:
        assert done.returncode == 0, done.stderr[-2000:]
        phases -= set(re.findall(r"^hostcuda: calls (\w+)", done.stderr, re.M))
    assert not phases, f"no case calls {phases}"


if not MODULE.exists():
    sys.exit(SKIP)
with tempfile.TemporaryDirectory() as folder:
    test_faults_are_found(pathlib.Path(folder))
test_every_phase_is_called()
print(len(FAULTS), "seeded faults found; every phase called")
