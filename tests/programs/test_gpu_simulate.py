#!/usr/bin/python3
"""Tests tools/figures/gpu-simulate without nvcc and GPGPU-Sim: errors for missing programs, and PTX
that GPGPU-Sim accepts. With a simulator that returns the memory of the host runtime it passes; with
a fault in that memory it names the kernel."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

try:
    import numpy  # noqa: F401
    import yaml  # noqa: F401
    import zmq  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing} (on Debian: apt-get install python3-numpy python3-yaml python3-zmq)")
    sys.exit(77)

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
FIGURES = SOURCE / "tools" / "figures"
MODULE = BUILD / "tests/hostcuda/runnel-races.so"
LIMIT = 300  # seconds: only ends a test that hangs
UNAVAILABLE = 69
CASE, EXAMPLES = "columns", "8"
ONE = ("--case", CASE)

sys.dont_write_bytecode = True
sys.path.insert(0, str(FIGURES))
import gpu_ptx  # noqa: E402

# A simulator that runs nothing: it copies the result of the host runtime from the same address,
# through a pipe, since some pages between allocations are not readable. $FAULT changes the copy.
FAKE = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { unsigned x, y, z; } extent;
int cuLinkAddFile_v2(void *a, int b, const char *c, unsigned d, void *e, void *f) { return 0; }
void __cudaRegisterFunction(void **a, const char *b, char *c, const char *d, int e, void *f, void *g, void *h, void *i) {}
unsigned __cudaPushCallConfiguration(extent a, extent b, size_t c, void *d) { return 0; }
int cudaLaunchKernel(const char *a, extent b, extent c, const void **d, size_t e, void *f) { return 0; }
int cudaThreadSynchronize(void) { return 0; }
static unsigned faulty(unsigned bits, const char *fault) {
    float number;
    memcpy(&number, &bits, 4);
    if (number > 0.01f && number < 1)
        number *= !strcmp(fault, "near") ? 1.01f : 0.0f / 0.0f;
    memcpy(&bits, &number, 4);
    return bits;
}
int cudaMemcpy(char *to, const char *from, size_t size, int kind) {
    static int ends[2];
    const char *fault = getenv("FAULT");
    if (kind != 2 || (!ends[1] && pipe(ends)))
        return kind == 2;
    for (size_t done = 0, part; done < size; done += part) {
        part = 4096 - (size_t)(from + done) % 4096;
        part = part < size - done ? part : size - done;
        if (write(ends[1], from + done, part) == (ssize_t)part && read(ends[0], to + done, part) < 0)
            return 1;
    }
    for (size_t k = 0; k + 4 <= size && fault; k += 4) {
        unsigned bits;
        memcpy(&bits, to + k, 4);
        bits = faulty(bits, fault);
        memcpy(to + k, &bits, 4);
    }
    return 0;
}
"""

TWO = (""".version 9.0
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 shared_memory[];
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.func  (.param .b64 func_retval0) power(
	.param .b64 power_param_0
)
;
.entry _Z4wave7network(
	.param .align 8 .b8 _Z4wave7network_param_0[16]
)
.maxntid 512, 1, 1
.minnctapersm 1
{
	// a comment; with { and }
	shfl.sync.bfly.b32 	%r3|%p1, %r2, 16, 31, -1;
	st.global.v4.f32 	[%rd1+16], {%f1, 0f00000000, %f2, %f3};
	@%p1 st.shared.v2.u32 	[%rd1], {%r1, 0};
	xor.pred 	%p2, %p1, -1;
	st.global.v2.f32 	[%rd1], {%f1, %f2};
	{ // a scope
	call.uni (retval0), power, (param0);
	}
	ret;
}
""", """.version 9.0
.target sm_75
.address_size 64
.extern .shared .align 16 .b8 shared_memory[];
.visible .entry _Z8optimizeILb1ELm2EEvv()
{
	.pragma "nounroll";
	.pragma "used_bytes_mask 15";
	ret;
}
""")


def run(*arguments, **variables):
    return subprocess.run([sys.executable, FIGURES / "gpu-simulate", "--build", BUILD, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, check=False,
                          env={**os.environ, **variables})


def sentence(result, text):
    assert result.returncode == UNAVAILABLE and result.stdout == "", result
    assert result.stderr.startswith("gpu-simulate: ") and text in result.stderr, result
    assert result.stderr.count("\n") == 1, result


def simulator(directory):
    """A directory in the layout of GPGPU-Sim, with a compiler for the kernels of the case below."""
    library = directory / "lib/gcc-1/cuda-1/release"
    library.mkdir(parents=True)
    (directory / "configs/tested-cfgs/SM7_QV100").mkdir(parents=True)
    (directory / "configs/tested-cfgs/SM7_QV100/gpgpusim.config").write_text("-nothing 1\n")
    (directory / "fake.c").write_text(FAKE)
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-w", "-shared", "-fPIC", "-o", library / "libcudart.so",
                    directory / "fake.c"], check=True)
    return directory


def mangled(name):
    """The symbol of a function without parameters whose demangled name is `name`."""
    plain, values = re.fullmatch(r"(\w+)(?:<(.*)>)?", name).groups()
    if not values:
        return f"_Z{len(plain)}{plain}v"
    codes = "".join(f"Lb{int(value == 'true')}E" if value in ("true", "false") else f"Lm{value.rstrip('ul')}E"
                    for value in values.split(", "))
    return f"_Z{len(plain)}{plain}I{codes}Evv"


def plain(name):
    """The name in the table."""
    return re.sub(r"(\d)ul\b", r"\1", name)


def compiler(directory, names):
    """A compiler that produces the PTX of these kernels from any source."""
    entries = "".join(f".entry {mangled(name)}()\n{{\n\tret;\n}}\n" for name in sorted(names))
    (directory / "kernels.ptx").write_text(".version 9.0\n.target sm_75\n.address_size 64\n" + entries)
    nvcc = directory / "nvcc"
    nvcc.write_text("#!/bin/sh\nwhile [ $1 != -o ]; do shift; done\n" f"cp {directory}/kernels.ptx $2\n")
    nvcc.chmod(0o755)
    return nvcc


def launched(directory):
    """The names of the kernels that the case launches, from the runtime's trace."""
    loader = importlib.machinery.SourceFileLoader("gpu_simulate", str(FIGURES / "gpu-simulate"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_simulate", loader))
    loader.exec_module(script)
    config = directory / "config.yaml"
    config.write_text(json.dumps({"name": CASE, **script.OURS[CASE][1]}))
    done = subprocess.run([BUILD / "runnel-bench", "--config", config, "--device", "cuda", "--examples", EXAMPLES,
                           "--parameters", directory / "learned"], check=True, stderr=subprocess.PIPE, text=True,
                          timeout=LIMIT, env={**os.environ, **script.DEVICE, "RUNNEL_CUDA_MODULE": str(MODULE),
                                              "HOSTCUDA_TRACE": "1"})
    return set(re.findall(r"^hostcuda: (.+?) \(\S+\)<<<", done.stderr, re.M))


def test_sentences(directory):
    """Errors for missing programs, with the solution."""
    sentence(run(), "missing --simulator DIRECTORY")
    sentence(run("--simulator", directory), f"{directory} has no lib/gcc-*/cuda-*/release/libcudart.so")
    simulator(directory)
    sentence(run("--simulator", directory, "--nvcc", directory / "none"), f"{directory}/none not found")
    nvcc = compiler(directory, ["play"])
    sentence(run("--simulator", directory, "--nvcc", nvcc, "--conformance", directory),
             f"run.py not found in {directory}")


def test_ptx():
    """Names of kernels, several files in one, and syntax that GPGPU-Sim's parser rejects."""
    whole = gpu_ptx.joined(TWO)
    assert gpu_ptx.kernels(whole) == ["_Z4wave7network", "_Z8optimizeILb1ELm2EEvv"]
    assert gpu_ptx.plain_names(gpu_ptx.kernels(whole))["_Z8optimizeILb1ELm2EEvv"] == "optimize<true, 2>"
    assert whole.count(".version") == whole.count("shared_memory[]") == whole.count("table[8]") == 1
    text = gpu_ptx.readable(whole)
    for gone in ".maxntid", ".minnctapersm", "|%p1", "used_bytes_mask":
        assert gone in whole and gone not in text, gone
    assert "xor.pred" not in text and "not.pred 	%p2, %p1;" in text
    assert '.pragma "nounroll"' in text and "st.global.v2.f32 	[%rd1], {%f1, %f2};" in text
    stores = [line.strip() for line in text.splitlines() if re.search(r"\bst\.", line)]
    assert stores == ["st.global.f32 [%rd1+16], %f1;", "st.global.f32 [%rd1+20], 0f00000000;",
                      "st.global.f32 [%rd1+24], %f2;", "st.global.f32 [%rd1+28], %f3;",
                      "@%p1 st.shared.u32 [%rd1+0], %r1;", "@%p1 st.shared.u32 [%rd1+4], 0;",
                      "st.global.v2.f32 	[%rd1], {%f1, %f2};"], stores
    try:
        gpu_ptx.joined((TWO[0], TWO[0].replace("%f3", "%f4")))
        raise AssertionError("two kernels with the same name")
    except ValueError as error:
        assert "_Z4wave7network is not the same" in str(error)


def test_faults_are_named(directory):
    """Equal memory passes. A fault is reported with its kernel, and so is a kernel that was not
    simulated."""
    simulator(directory)
    names = launched(directory)
    assert names == {"play"}, names
    played = ("--simulator", directory, "--nvcc", compiler(directory, names))
    result = run(*played, *ONE)
    assert result.returncode == 0 and "\n1 passed, 0 failed\n" in result.stdout, result
    assert result.stdout.startswith(f"ok   {CASE}: {EXAMPLES} examples, "), result
    for name in names:
        row = re.search(rf"^\| `{re.escape(plain(name))}` \| (\d+) \| 100.0% ", result.stdout, re.M)
        assert row and int(row[1]) > 0, (name, result.stdout)
    for fault, words in ("near", r"leaves numbers that are 0.0\S+ apart"), ("NaN", "leaves other memory: byte "):
        result = run(*played, *ONE, FAULT=fault)
        assert result.returncode == 1 and "\n0 passed, 1 failed\n" in result.stdout, result
        assert re.match(rf"FAIL {CASE}: .*: _Z\d+\w+ {words}", result.stdout), result.stdout


if not MODULE.exists():
    print(f"skipped: there is no {MODULE}: kernels whose accesses are watched")
    sys.exit(77)
cases.run(globals())
