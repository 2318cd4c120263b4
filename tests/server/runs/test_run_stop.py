import subprocess
import sys

import pytest

from quintain import errors
from quintain.records.rows import training_run
from quintain.server.runs import run_reader

pytestmark = pytest.mark.slow

PROGRAM = """
import fcntl, json, os, signal, socket, sys

path, catches = sys.argv[1], sys.argv[2] == "catches"
lock = open(path, "w")
fcntl.flock(lock, fcntl.LOCK_EX)
json.dump({"pid": os.getpid(), "host": socket.gethostname()}, lock)
lock.flush()
signals = []
if catches:
    signal.signal(signal.SIGTERM, lambda *_: signals.append("stop"))
print("trains", flush=True)
sys.stdin.readline()
print(*signals, flush=True)
"""


@pytest.fixture
def train():
    """Starts a process that holds the lock of a run."""
    processes = []

    def start(run, how="catches"):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, run.path / "run.lock", how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout.readline() == "trains\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who holds a lock")
def test_a_run_is_asked_to_stop_once_and_goes_on_by_the_command(make_run, train):
    run, reader = make_run(), run_reader.RunReader()
    (run.path / "config.gin").write_text("a.b = 1\n")
    process = train(run)
    assert reader.summarize(run).can_stop

    command = reader.stop(run)
    assert reader.stop(run) == command

    flags = f"--model-dir={run.path} --import=my_experiments --gin-file={run.path}/config.gin"
    assert command == f"quintain train {flags}"
    summary = reader.summarize(run)
    assert summary.state is training_run.RunProgress.STOPPING
    assert not summary.can_stop
    assert reader.read_curves(run, "").state is training_run.RunProgress.STOPPING
    assert process.communicate("\n")[0] == "stop\n"
    assert reader.summarize(run).state is training_run.RunProgress.STOPPED


@pytest.mark.parametrize("how", ["catches", "dies"])
def test_no_process_is_signalled_that_does_not_hold_the_lock_or_does_not_catch(
    make_run, train, how
):
    run, reader = make_run(), run_reader.RunReader()
    process = train(run, how)
    if how == "catches":
        # Another file of the same content: whoever wrote it may have named any process.
        copy = run.path / "copy"
        copy.write_text((run.path / "run.lock").read_text())
        copy.rename(run.path / "run.lock")

    assert reader.summarize(run).state is training_run.RunProgress.RUNNING
    assert not reader.summarize(run).can_stop
    with pytest.raises(errors.StateError, match="Stop the run where it was started, by Ctrl-C"):
        reader.stop(run)
    assert process.communicate("\n")[0] == "\n"


def test_a_run_without_a_process_is_not_stopped(make_run):
    with pytest.raises(errors.StateError, match="no process of this user on this machine"):
        run_reader.RunReader().stop(make_run())
