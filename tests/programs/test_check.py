#!/usr/bin/python3
"""Tests tools/check: its packages, its lists of tests, and that a case without its requirements is
skipped."""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
LIMIT, USAGE, SKIP = 60, 64, 77
TESTS = {path.stem.removeprefix("test_"): path for folder in ("programs", "unit", "engines", "hostcuda")
         for path in (SOURCE / "tests" / folder).glob("test_*")}


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT,
                          check=False, cwd=SOURCE)


def test_packages(_):
    """Each file is a list of packages for apt-get. The check requires all packages of the demo."""
    demo, check = (set(run("sh", f"tools/{name}", "--packages").stdout.split()) for name in ("demo", "check"))
    assert {"gcc", "libzmq3-dev"} < demo < check and {"mosquitto-clients", "redis-server"} < check, (demo, check)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", name) for name in check), check
    refused = run("sh", "tools/check", "--quiet")
    assert refused.returncode == USAGE and "--strict" in refused.stderr, refused


def test_lists(_):
    """The folders and tests in tests/rooms and tests/longest exist."""
    for line in (SOURCE / "tests/rooms").read_text().splitlines():
        if not line.startswith("#"):
            folder, *patterns = line.split()
            assert (SOURCE / folder).exists() and patterns, line
            for pattern in patterns:
                assert fnmatch.filter(TESTS, pattern), (folder, pattern)
    for name in (SOURCE / "tests/longest").read_text().split():
        assert name.removeprefix("test_").split(".")[0] in TESTS or name == "replay", name


SCRIPT = """
import cases
def test_good(): pass
def test_cannot(): cases.skip("needs a moon")
def test_bad(): assert False
cases.run(globals())
"""


def test_skips(directory):
    script = directory / "script.py"
    script.write_text(SCRIPT)

    def play(*names):
        done = subprocess.run([sys.executable, script, *names], capture_output=True, text=True, timeout=LIMIT,
                              check=False, env={**os.environ, "PYTHONPATH": str(SOURCE / "tests/programs")})
        return done.returncode, done.stdout
    assert play("test_good", "test_cannot") == (0, "ok   test_good\nneeds a moon\nskip test_cannot\n")
    assert play("test_cannot") == (SKIP, "needs a moon\nskip test_cannot\n")
    status, text = play()
    assert status == 1 and text.endswith("FAIL test_bad\n"), text


cases.run(globals())
