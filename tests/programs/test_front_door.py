#!/usr/bin/python3
"""`runnel TASK` is the program of the task: the same output, exit status and arguments; every program has a task."""
import os
import pathlib
import subprocess

import cases

BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
LIMIT = 60  # seconds: ends a test that hangs
USAGE, UNAVAILABLE = 64, 69


def run(*words, **options):
    return subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, check=False, **options)


def door(*words, **options):
    return run(BUILD / "runnel", *words, **options)


def tasks():
    return [row.split("\t") for row in door("--tasks").stdout.splitlines()]


def test_every_program_has_a_task():
    programs = {command.split()[0] for _, command, _ in tasks()}
    built = {path.name for path in BUILD.glob("runnel*") if path.is_file() and os.access(path, os.X_OK)
             and path.suffix == "" and path.name != "runnel"}
    assert len(built) > 10 and built <= programs, (built - programs)
    listed = door().stdout
    for name, _, summary in tasks():
        assert f"  {name:<11} {summary}\n" in listed, name


def test_a_task_is_its_program():
    for name, command, _ in tasks():
        program, *arguments = command.split()
        if not (BUILD / program).exists():
            continue
        direct = run(BUILD / program, *arguments, "--help", cwd=BUILD)
        started = door(name, "--help", cwd=BUILD)
        assert (started.returncode, started.stdout) == (direct.returncode, direct.stdout), name
        explained = door("help", name, cwd=BUILD).stdout
        assert explained.startswith(f"{name}: ") and f"Manual: man {program}\n" in explained, explained
        assert f"Example: runnel {name}" in explained, explained
        direct, started = run(BUILD / program, *arguments, "--no-such-option"), door(name, "--no-such-option")
        assert (started.returncode, started.stderr) == (direct.returncode, direct.stderr), name


def test_arguments_arrive_unchanged(directory):
    program = directory / "runnel-watch"
    program.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 7\n', encoding="utf-8")
    program.chmod(0o755)
    copy = directory / "runnel"  # looks beside itself first
    copy.write_bytes((BUILD / "runnel").read_bytes())
    copy.chmod(0o755)
    started = run(copy, "watch", "a b", "", "--count", "*")
    assert (started.returncode, started.stdout) == (7, "a b||--count|*|"), started
    absent = run(copy, "top", env={"PATH": str(directory)})
    assert absent.returncode == UNAVAILABLE and absent.stdout == "", absent
    assert absent.stderr.startswith("runnel: runnel-top not found: "), absent


def test_a_wrong_task():
    for words in (["dance"], ["help", "dance"], ["--dance"], ["help", "watch", "top"]):
        refused = door(*words)
        assert refused.returncode == USAGE and refused.stdout == "", refused
        assert refused.stderr.endswith("Try 'runnel --help'.\n"), refused


cases.run(globals())
