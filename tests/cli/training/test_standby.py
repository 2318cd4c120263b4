import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

from quintain import errors
from quintain.cli.training import standby
from quintain.settings import runtime_config
from tests.integration import kill_and_resume

pytestmark = pytest.mark.slow

INTEGRATION = pathlib.Path(kill_and_resume.__file__).parent
LINE = ("--import=line_experiment", "--experiment=test/line")
FLAGS = (
    *("--set", "trainer.train_steps=1500", "--set", "trainer.checkpoint_interval=50"),
    *("--set", "trainer.validation_interval=700"),
)


@pytest.fixture
def supervise(run_python, tmp_path):
    """Returns a function that supervises a program, which has `turn` and a `directory`."""

    def run(program, max_restarts=3):
        path = tmp_path / "program.py"
        path.write_text(
            "import os, pathlib, signal, sys, time\n"
            "from quintain.cli.training import standby\n"
            f"directory = pathlib.Path({str(tmp_path)!r})\n"
            f"turn = standby.Supervisor(str(directory), {max_restarts}).run()\n"
            "if isinstance(turn, int):\n"
            "    sys.exit(turn)\n"
            "def note(text):\n"
            "    with (directory / 'notes').open('a') as file:\n"
            "        file.write(f'{text}\\n')\n"
            "def wait_for(name):\n"
            "    while not (directory / name).exists():\n"
            "        time.sleep(0.01)\n" + textwrap.dedent(program) + "\nos._exit(0)\n"
        )
        return run_python(path)

    run.read_notes = lambda: (tmp_path / "notes").read_text().splitlines()
    return run


STAND_BY = """
class Environment:
    def restart_clock(self):
        note("clock")
wait = turn.find_wait(Environment())
turn.hold_output()
print("building" if wait else "first", flush=True)
if wait:
    (directory / "built").write_text(str(os.getpid()))
    wait()
"""
UNTIL_STANDBY_ENDED = """
turn.announced(lambda: None)()
while not (directory / "built").exists() or not (directory / "built").read_text():
    time.sleep(0.01)
while pathlib.Path("/proc", (directory / "built").read_text()).exists():
    time.sleep(0.01)
"""


def test_a_standby_takes_over_from_a_killed_process(supervise):
    done = supervise(
        STAND_BY
        + """
if wait:
    print("second", flush=True)
    sys.exit(7)
turn.announced(lambda: note("begun"))()
wait_for("built")
os.kill(os.getpid(), signal.SIGKILL)
"""
    )

    assert done.returncode == 7
    assert supervise.read_notes() == ["begun", "clock"]
    assert done.stdout == "first\nsecond\n"  # Nothing of what the standby did before its turn.
    assert done.stderr == "The training was killed by SIGKILL. The standby takes over.\n"


def test_a_process_that_fails_by_itself_is_not_replaced(supervise):
    done = supervise("note('start'); os._exit(2)")

    assert (done.returncode, supervise.read_notes(), done.stderr) == (2, ["start"], "")


def test_deaths_without_a_new_checkpoint_are_limited(supervise):
    done = supervise("note('start'); os.kill(os.getpid(), signal.SIGKILL)", max_restarts=2)

    assert done.returncode == 1
    assert supervise.read_notes() == ["start"] * 3
    assert "Giving up: no checkpoint was saved since 2 restarts (--max-restarts)" in done.stderr


def test_a_new_checkpoint_begins_the_count_again(supervise):
    done = supervise(
        """
note("start")
number = len((directory / "notes").read_text().splitlines())
if number == 5:
    os._exit(0)
(directory / f"ckpt-{number}.index").touch()
os.kill(os.getpid(), signal.SIGKILL)
""",
        max_restarts=1,
    )

    assert (done.returncode, len(supervise.read_notes())) == (0, 5)


def test_a_standby_that_fails_is_told_of_and_the_training_goes_on(supervise):
    done = supervise(STAND_BY.replace("    wait()\n", "    os._exit(1)\n") + UNTIL_STANDBY_ENDED)

    assert done.returncode == 0
    assert done.stderr == "The standby ended with exit code 1. There is none until a restart.\n"


def test_a_standby_that_fails_shows_what_it_wrote_last(supervise):
    done = supervise(
        STAND_BY.replace("    wait()\n", "    sys.exit('a cause')\n") + UNTIL_STANDBY_ENDED
    )

    told = ["The standby ended with exit code 1. There is none until a restart.", "Its last lines:"]
    assert done.returncode == 0
    assert done.stderr.splitlines() == [*told, "a cause"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_training_and_the_standby(supervise, number):
    done = supervise(
        STAND_BY
        + f"""
if wait:
    note("took over")
def end(number, frame):
    note("saved")
    os._exit(128 + number)
signal.signal({int(number)}, end)
turn.announced(lambda: None)()
wait_for("built")
os.kill(os.getppid(), {int(number)})
time.sleep(60)
"""
    )

    assert done.returncode == 128 + number
    assert supervise.read_notes() == ["saved"]


@pytest.mark.parametrize(
    "fields", [{"num_gpus": 1}, {"distribution_strategy": "multi_worker_mirrored"}]
)
def test_a_standby_beside_accelerators_or_in_a_cluster_is_refused(fields):
    runtime = runtime_config.RuntimeConfig(**fields)
    own, end = socket.socketpair()

    with own, end, pytest.raises(errors.ConfigError, match="--standby: got runtime"):
        standby.Turn(own).check_runtime(runtime)
    standby.Turn().check_runtime(runtime)  # Without a supervisor there is none.


def start(model_dir, *flags):
    """Starts a training with a standby, in a session of its own."""
    program = [sys.executable, "-m", "quintain.cli.main", "train"]
    return subprocess.Popen(
        [*program, *LINE, f"--model-dir={model_dir}", *FLAGS, *flags],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(INTEGRATION), *sys.path])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def find_children(process):
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def wait_for(is_true, process):
    while not is_true():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


@pytest.mark.e2e
@pytest.mark.long("tests/run/test_train_lib.py compares the bits in one process")
def test_a_run_with_a_standby_that_is_killed_ends_in_the_same_bits(tmp_path):
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed ü"
    start(undisturbed).communicate()
    process = start(killed, "--standby")
    moments = random.Random(0)
    for _ in range(4):
        wait_for(lambda: len(find_children(process)) == 2, process)
        step = read_step(killed)
        wait_for(lambda step=step: read_step(killed) > step, process)
        time.sleep(moments.uniform(0.0, 0.5))
        os.kill(find_children(process)[0], signal.SIGKILL)
        wait_for(lambda: len(find_children(process)) < 2, process)
    _, stderr = process.communicate()

    assert process.returncode == 0, stderr
    assert stderr.count("The training was killed by SIGKILL. The standby takes over.") == 4
    assert "which was kept in memory" in stderr
    assert not kill_and_resume.find_differences(undisturbed, killed)


def read_step(model_dir):
    path = model_dir / "training.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return json.loads(lines[-1])["step"] if lines and lines[-1].endswith("}") else 0


@pytest.mark.e2e
@pytest.mark.long("It waits for two processes to end by themselves")
def test_a_killed_supervisor_leaves_no_orphans(tmp_path):
    process = start(tmp_path, "--standby", "--set", "trainer.train_steps=1000000")
    wait_for(lambda: len(find_children(process)) == 2, process)
    children = find_children(process)
    process.kill()
    process.communicate()

    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in children):
        time.sleep(0.1)
