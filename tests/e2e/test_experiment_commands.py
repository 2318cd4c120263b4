"""Whole searches by the command line: masters, processes of trials, signals and kills."""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import termios
import time

import pytest
import urllib3

from quintain import store as stores
from quintain.client.home import home as home_lib

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ROOT = pathlib.Path(__file__).parents[2]
MODEL_DIR = ROOT / "tests" / "e2e" / "toy_trial"
CONFIG = """
name: toy
entrypoint: model_def:ToyTrial
data: {{secs_per_batch: {secs}, slow_until: "{hurry}"}}
hyperparameters:
  rate: {{type: double, minval: 0.1, maxval: 1.0}}
scheduling_unit: 5
searcher:
  name: random
  metric: error
  max_length: {{batches: {length}}}
  max_trials: 4
max_restarts: 1
reproducibility: {{experiment_seed: 7}}
"""
RATES = 4


class Shell:
    """Runs commands for one home directory."""

    def __init__(self, home):
        self.home = home_lib.find_home(str(home))
        self.environment = {**os.environ, "QUINTAIN_HOME": str(home), "COLUMNS": "160"}
        self.started = []

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.started.append(process)
        return process

    def run(self, *arguments, code=0):
        process = self.start(*arguments)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == code, f"{arguments}\n{stdout}\n{stderr}"
        return stdout

    def read(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))

    def wait_for(self, condition, what):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.1)
        raise AssertionError(f"Timed out waiting until {what}.")

    def count_batches(self, number=1):
        """Returns what was trained so far, once there is a master; often asked for."""
        if home_lib.find_master(self.home) is None:
            return 0
        with (
            contextlib.closing(stores.open_store(self.home.database)) as store,
            store.reading() as session,
        ):
            return sum(each.total_batches for each in session.list_trials(number))

    def experiment(self, number=1):
        return self.read("experiment", "describe", number)[0]

    def results(self, number=1):
        return {
            trial["hparams"]["rate"]: (trial["state"], trial["total_batches"], trial["best_metric"])
            for trial in self.read("experiment", "list-trials", number)
        }


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "home")
    yield shell
    if home_lib.find_master(shell.home) is not None:
        shell.run("master", "stop", "--now")
    for process in shell.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def hurry(tmp_path):
    """A file that a test makes for slow trials to be slow no longer."""
    return tmp_path / "hurry"


@pytest.fixture
def write_config(tmp_path, hurry):
    def write(*, secs=0.0, length=20, hurry=hurry):
        path = tmp_path / "toy.yaml"
        path.write_text(CONFIG.format(secs=secs, length=length, hurry=hurry))
        return path

    return write


def expected_error(rate, length):
    return pytest.approx(100.0 * (1 - 0.01 * rate) ** length, rel=1e-9)


def test_a_search_runs_in_the_foreground_and_its_results_stay(shell, write_config, tmp_path):
    stdout = shell.run("experiment", "create", write_config(), MODEL_DIR, "--slots", 2)

    assert stdout.startswith("Created experiment 1.\n")
    assert "Experiment 1 is COMPLETED" in stdout
    # No master runs any more; the store answers.
    assert home_lib.find_master(shell.home) is None
    (experiment,) = shell.read("experiment", "list")
    assert (experiment["state"], experiment["progress"]) == ("COMPLETED", 1.0)
    results = shell.results()
    assert len(results) == RATES
    for rate, result in results.items():
        assert result == ("COMPLETED", 20, expected_error(rate, 20))
    (best,) = shell.read("experiment", "best", 1)
    assert best["hparams"]["rate"] == max(results)
    logs = shell.run("trial", "logs", best["trial"]).splitlines()
    assert logs[0] == f"hello from trial {best['trial']}"
    assert logs[-1] == "trained to 20"
    rows = shell.read("trial", "metrics", best["trial"], "--group", "training")
    assert [row["total_batches"] for row in rows] == [5, 10, 15, 20]
    shell.run("checkpoint", "download", best["checkpoint"], "-o", tmp_path / "best")
    assert json.loads((tmp_path / "best" / "state.json").read_text())["batches"] == 20


def test_a_second_terminal_steers_and_a_killed_master_loses_nothing(shell, write_config, hurry):
    path = write_config(secs=0.2, length=100)
    foreground = shell.start("experiment", "create", path, MODEL_DIR, "--slots", 2)
    shell.wait_for(shell.count_batches, "a trial has trained")

    shell.run("experiment", "pause", 1)
    shell.wait_for(
        lambda: all(
            slot["trial_id"] is None for slot in shell.read("master", "status")["status"]["slots"]
        ),
        "all slots are free",
    )
    assert shell.experiment()["state"] == "PAUSED"
    before = shell.count_batches()
    shell.run("experiment", "activate", 1)
    shell.wait_for(lambda: shell.count_batches() != before, "trials go on")

    former = home_lib.find_master(shell.home)
    assert former.pid == foreground.pid
    foreground.send_signal(signal.SIGKILL)
    foreground.communicate()
    assert home_lib.find_master(shell.home) is None
    assert shell.experiment()["state"] == "ACTIVE"

    shell.start("master", "start", "--slots", 2)
    shell.wait_for(lambda: home_lib.find_master(shell.home) is not None, "the next master runs")
    hurry.touch()
    assert "COMPLETED" in shell.run("experiment", "wait", 1)
    results = shell.results()
    assert len(results) == RATES
    for rate, result in results.items():
        assert result == ("COMPLETED", 100, expected_error(rate, 100))
    # Nothing was run twice: each workload has reported once.
    for trial in shell.read("experiment", "list-trials", 1):
        rows = shell.read("trial", "metrics", trial["id"], "--group", "training")
        assert [row["total_batches"] for row in rows] == list(range(5, 101, 5))
    shell.run("master", "stop")


@pytest.mark.long("Kills, Ctrl-C and a closed terminal show how a search goes on")
def test_ctrl_c_pauses_and_activate_goes_on_in_the_background(shell, write_config, hurry):
    path = write_config(secs=0.2, length=60)
    foreground = shell.start("experiment", "create", path, MODEL_DIR, "--slots", 2)
    shell.wait_for(shell.count_batches, "a trial has trained")

    foreground.send_signal(signal.SIGINT)
    _, stderr = foreground.communicate(timeout=120)

    assert foreground.returncode == 130
    assert stderr.endswith("To go on:\n  quintain experiment activate 1\n")
    assert home_lib.find_master(shell.home) is None
    assert shell.experiment()["state"] == "PAUSED"
    hurry.touch()
    shell.run("experiment", "activate", 1)
    shell.run("experiment", "wait", 1)
    assert all(result[0] == "COMPLETED" for result in shell.results().values())
    shell.run("master", "stop")
    assert home_lib.find_master(shell.home) is None


def run_at_a_terminal(shell, *arguments):
    """Starts a command that has a terminal of its own; returns it and the end to close."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "quintain.cli.main", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell.environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    shell.started.append(process)
    return process, ours


def drain(descriptor, condition):
    """Reads what a command shows, as a terminal does, until a condition holds."""
    os.set_blocking(descriptor, False)
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 2**16)
        time.sleep(0.05)


def test_a_closed_terminal_and_a_lost_reader_leave_the_experiment_to_the_background(
    shell, write_config, hurry
):
    path = write_config(secs=0.2, length=100)
    process, terminal = run_at_a_terminal(
        shell, "experiment", "create", path, MODEL_DIR, "--slots", 2
    )
    drain(terminal, shell.count_batches)

    os.close(terminal)

    assert process.wait(timeout=60) == 129
    shell.wait_for(lambda: home_lib.find_master(shell.home) is not None, "the next master runs")
    assert home_lib.find_master(shell.home).pid != process.pid
    # Whoever returns to it may be left by its reader as well.
    follower = shell.start("experiment", "follow", 1)
    follower.stderr.readline()
    follower.stderr.close()
    hurry.touch()
    assert "COMPLETED" in shell.run("experiment", "wait", 1)
    assert follower.wait(timeout=60) in (0, 141)
    for rate, result in shell.results().items():
        assert result == ("COMPLETED", 100, expected_error(rate, 100))
    for trial in shell.read("experiment", "list-trials", 1):
        rows = shell.read("trial", "metrics", trial["id"], "--group", "training")
        assert [row["total_batches"] for row in rows] == list(range(5, 101, 5))
        assert trial["restarts"] == 0


def test_a_failing_trial_is_explained_and_the_others_go_on(shell, write_config):
    stdout = shell.run(
        "experiment", "create", write_config(), MODEL_DIR, "--slots", 2, "--set", "data.fails=true"
    )

    assert "Experiment 1 is COMPLETED" in stdout
    assert "the rate is too high for me" in stdout
    results = shell.results()
    assert {rate > 0.5: state for rate, (state, _, _) in results.items()} == {
        True: "ERROR",
        False: "COMPLETED",
    }


def test_a_page_that_is_looked_at_stays_when_the_search_ends(shell, write_config, hurry, tmp_path):
    path = write_config(secs=0.2, length=40)
    foreground = shell.start("experiment", "create", path, MODEL_DIR, "--slots", 2, "--no-check")
    shell.wait_for(shell.count_batches, "a trial has trained")
    link = shell.read("ui", "--runs", tmp_path)["url"]
    answer = urllib3.request("GET", link, redirect=False)
    cookie = answer.headers["Set-Cookie"].partition(";")[0]

    hurry.touch()
    stdout, stderr = foreground.communicate(timeout=120)

    assert foreground.returncode == 0
    assert "Experiment 1 is COMPLETED" in stdout
    assert "The page goes on in a master in the background" in stderr
    assert "quintain master stop" in stderr
    assert stderr.endswith("quintain ui\n")
    page = link.partition("sign-in")[0]
    info = urllib3.request("GET", f"{page}api/v1/master", headers={"Cookie": cookie})
    assert info.json()["run_dirs"] == [str(tmp_path)]
    shell.run("master", "stop")
    assert home_lib.find_master(shell.home) is None


@pytest.mark.long("Kills, Ctrl-C and a closed terminal show how a search goes on")
def test_other_experiments_go_on_when_the_command_that_ran_them_ends(
    shell, write_config, hurry, tmp_path
):
    short = write_config(secs=0.2, length=40)
    foreground = shell.start("experiment", "create", short, MODEL_DIR, "--slots", 2)
    shell.wait_for(lambda: home_lib.find_master(shell.home) is not None, "a master runs")
    shell.wait_for(lambda: shell.read("experiment", "list"), "the first experiment is there")
    later = tmp_path / "hurry as well"
    long = write_config(secs=0.2, length=200, hurry=later)
    stdout = shell.run("experiment", "create", long, MODEL_DIR, "--detach", "--no-check")
    assert stdout == "Created experiment 2.\n"
    assert shell.read("master", "status")["master"]["is_embedded"]

    hurry.touch()
    _, stderr = foreground.communicate(timeout=120)
    assert foreground.returncode == 0
    assert "Other experiments go on in a master in the background" in stderr
    assert not shell.read("master", "status")["master"]["is_embedded"]
    later.touch()
    shell.run("experiment", "wait", 2)
    assert all(result[:2] == ("COMPLETED", 200) for result in shell.results(2).values())


@pytest.mark.long("Kills, Ctrl-C and a closed terminal show how a search goes on")
def test_a_stopped_master_lets_the_next_go_on(shell, write_config, hurry):
    path = write_config(secs=0.2, length=100)
    shell.run("experiment", "create", path, MODEL_DIR, "--detach", "--slots", 2)
    shell.wait_for(shell.count_batches, "a trial trains")
    daemon = home_lib.find_master(shell.home)

    os.kill(daemon.pid, signal.SIGTERM)
    shell.wait_for(lambda: not daemon.is_alive(), "the master has ended")
    trained = shell.results()
    assert 0 < max(one[1] for one in trained.values()) < 100
    time.sleep(0.5)
    assert shell.results() == trained

    hurry.touch()
    shell.start("master")
    shell.run("experiment", "wait", 1)
    for rate, result in shell.results().items():
        assert result == ("COMPLETED", 100, expected_error(rate, 100))


def test_one_trial_is_tried_in_this_process(shell, write_config):
    stdout = shell.run("experiment", "create", write_config(), MODEL_DIR, "--local", "--test")

    assert "All is well" in stdout
    assert not shell.home.database.exists()


@pytest.mark.long("`test_platform_examples.py` searches it")
def test_the_example_with_graphs_of_tensorflow_is_searched_and_exported(shell, tmp_path):
    example = ROOT / "examples" / "platform" / "tensorflow_digits"
    options = ("--slots", 2, "--set", "searcher.max_trials=4", "--set", "scheduling_unit=20")
    stdout = shell.run("experiment", "create", example / "adaptive.yaml", example, *options)

    assert "Experiment 1 is COMPLETED" in stdout
    (best,) = shell.read("experiment", "best", 1)
    assert 0.9 < best["metric"] <= 1.0
    shell.run("checkpoint", "export", best["checkpoint"], "-o", tmp_path / "out")
    assert (tmp_path / "out" / "saved_model" / "saved_model.pb").exists()
