"""How a test runs its cases."""
import inspect
import pathlib
import signal
import subprocess
import sys
import tempfile
import traceback


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.wait()


def passes(test):
    """Whether the case, in a new directory if it takes one, ends without an exception. Processes that
    it has started and not ended are killed (not what they have started)."""
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
        return True
    except (Exception, SystemExit):
        traceback.print_exc(file=sys.stdout)
        return False
    finally:
        subprocess.Popen.__init__ = begin


def run(names):
    """Run the functions test_... among a module's names, those of the command line or all, and exit:
    1 when one has failed, or is not there."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also under nohup, for the daemons
    tests = {name: test for name, test in names.items()
             if name.startswith("test_") and inspect.isfunction(test)}
    failed = 0
    for name in sys.argv[1:] or tests:
        passed = name in tests and passes(tests[name])
        failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {name}", flush=True)
    sys.exit(1 if failed else 0)
