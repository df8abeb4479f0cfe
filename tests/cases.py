"""How a test runs its cases."""
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
    it leaves behind are killed."""
    started, begin = [], subprocess.Popen.__init__

    def remember(process, *arguments, **options):
        started.append(process)
        begin(process, *arguments, **options)

    subprocess.Popen.__init__ = remember
    try:
        with tempfile.TemporaryDirectory(prefix="runnel-") as directory:
            try:
                test(*[pathlib.Path(directory)][:test.__code__.co_argcount])
            finally:
                end(started)
        return True
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return False
    finally:
        subprocess.Popen.__init__ = begin


def run(names):
    """Run the functions test_... among a module's names, those of the command line or all, and exit:
    1 when one has failed."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also under nohup, for the daemons
    chosen, failed = sys.argv[1:], 0
    for name, test in list(names.items()):
        if name.startswith("test_") and (not chosen or name in chosen):
            passed = passes(test)
            failed += not passed
            print(f"{'ok  ' if passed else 'FAIL'} {name}", flush=True)
    sys.exit(1 if failed else 0)
