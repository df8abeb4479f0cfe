"""Runs the cases of a test."""
import inspect
import pathlib
import signal
import subprocess
import sys
import tempfile
import traceback

SKIP = 77  # automake's exit code for a test that cannot run


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def skip(why):
    """Ends the case, or the test before its cases run, as skipped. tools/check counts and names
    skipped tests."""
    print(why.rstrip())
    raise SystemExit(SKIP)


def play(test):
    """Runs a case and returns "ok", "skip" or "FAIL". A case with a parameter gets a new directory.
    Processes that the case has started and not ended are killed, but not their children."""
    started, begin = [], subprocess.Popen.__init__

    def remember(process, *arguments, **options):
        begin(process, *arguments, **options)
        started.append(process)

    subprocess.Popen.__init__ = remember
    try:
        with tempfile.TemporaryDirectory(prefix="runnel-") as directory:
            try:
                test(*[pathlib.Path(directory)][:test.__code__.co_argcount])
            finally:
                end(started)
        return "ok"
    except (Exception, SystemExit) as end_of_case:
        if isinstance(end_of_case, SystemExit) and end_of_case.code == SKIP:
            return "skip"
        traceback.print_exc(file=sys.stdout)
        return "FAIL"
    finally:
        subprocess.Popen.__init__ = begin


def run(names):
    """Runs the functions test_... of a module, or those in the command line, and exits. The status
    is 1 if one has failed or does not exist, 77 if all were skipped, else 0."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also under nohup, for the daemons
    tests = {name: test for name, test in names.items()
             if name.startswith("test_") and inspect.isfunction(test)}
    ends = []
    for name in sys.argv[1:] or tests:
        ends.append(play(tests[name]) if name in tests else "FAIL")
        print(f"{ends[-1]:4} {name}", flush=True)
    sys.exit(1 if "FAIL" in ends else SKIP if set(ends) == {"skip"} else 0)
