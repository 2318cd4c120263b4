"""Checkpoints that go through the master while their trial trains on, whatever is killed."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from quintain.client.home import home as home_lib
from quintain.client.home import token_files
from quintain.process import held_ports

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import homes

WAIT_SECS = 300.0
CONFIG = """
name: digits
entrypoint: model_def:DigitsTrial
hyperparameters: {global_batch_size: 32, units: 64, dropout: 0.3, learning_rate: 0.003}
searcher: {name: single, metric: val_loss, max_length: {batches: 60}}
scheduling_unit: 10
min_checkpoint_period: {batches: 10}
min_validation_period: {batches: 40}
max_restarts: 9
reproducibility: {experiment_seed: 17}
checkpoint_storage: {save_trial_best: 0, save_trial_latest: 1}
"""
ELSEWHERE = """
import time
from quintain.client.http import connection
from quintain.trials.process import trial_files

def send(self, *args, send=connection.Connection.send_bytes, **options):
    time.sleep(0.15)
    return send(self, *args, **options)

connection.Connection.send_bytes = send
trial_files.TrialFiles._is_shared = lambda *_: False
"""
"""Makes a process one of a machine that sees nothing of the master's, over a slow line."""


class Elsewhere(homes.Home):
    """A home whose trials run on another machine."""

    def __init__(self, path):
        super().__init__(path)
        # Nobody else is given it, also while the master starts again.
        self.held = held_ports.hold("127.0.0.1")
        self.port = self.held.getsockname()[1]

    def master_options(self):
        return ["--slots=0", f"--port={self.port}"]

    def start_agent(self, directory):
        (directory / "start").mkdir(parents=True)
        (directory / "start" / "sitecustomize.py").write_text(ELSEWHERE)
        token_files.load(home_lib.Home(self.path).agent_token)
        places = [str(directory / "start"), self.environment["PYTHONPATH"]]
        self.output = (self.path / "agent.out").open("wb")
        self.agent = subprocess.Popen(
            [
                *(sys.executable, "-m", "quintain.cli.main", "agent", "--name=far", "--slots=1"),
                f"--master=http://127.0.0.1:{self.port}",
                *(f"--token_file={self.path / 'agent.token'}", f"--cache={directory / 'cache'}"),
            ],
            env={**self.environment, "PYTHONPATH": os.pathsep.join(places)},
            stdout=self.output,
            stderr=self.output,
        )

    def wait(self, condition):
        deadline = time.monotonic() + WAIT_SECS
        while not (found := condition()):
            assert time.monotonic() < deadline, self.read_logs()
            assert self.agent.poll() is None, self.read_logs()
            time.sleep(0.02)
        return found

    def stop_master_when(self, condition):
        """Lets the master stand still in a moment in which a condition holds, which lasts then."""

        def stands_there():
            self.master.send_signal(signal.SIGSTOP)
            if condition():
                return True
            self.master.send_signal(signal.SIGCONT)
            return False

        self.wait(stands_there)

    def read_logs(self):
        return "".join((self.path / f"{name}.out").read_text() for name in ("master", "agent"))

    def find_upload(self, number):
        """Returns whether a checkpoint of so many batches has come in part."""
        unfinished = (self.path / "checkpoints").glob(".*.tmp/*")
        return any(unfinished) and self.count_batches(1) >= number

    def end(self):
        super().end()
        self.held.close()
        self.agent.kill()
        self.agent.wait()
        self.output.close()
        for pid in self.find_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(home):
    config = home.path / "digits.yaml"
    config.write_text(CONFIG)
    home.run("experiment", "create", str(config), str(homes.MODEL_DIR), "--detach", "--no_check")


def read(home):
    with home.reading() as session:
        assert session.get_experiment(1).state == "COMPLETED"
        rows = session.list_metrics(1)
    return [(row.group, row.total_batches, row.metrics) for row in rows]


@pytest.mark.long("Kills: `tests/trials/test_remote_trials.py` cuts transfers")
@pytest.mark.slow
@pytest.mark.e2e
def test_uploads_to_a_master_that_are_cut_by_kills_change_no_metric(tmp_path):
    with contextlib.ExitStack() as ends:
        calm, home = homes.Home(tmp_path / "calm"), Elsewhere(tmp_path / "home")
        ends.callback(calm.end)
        for one in (calm, home):
            one.start_master()
            one.wait_for_master()
        run(calm)
        home.start_agent(tmp_path / "far")
        ends.callback(home.end)
        run(home)

        home.stop_master_when(lambda: home.find_upload(10))
        [launch] = home.wait(lambda: list((tmp_path / "far/cache/agent/launches").glob("*.json")))
        os.killpg(json.loads(launch.read_text())["identity"]["pid"], signal.SIGKILL)
        home.master.send_signal(signal.SIGCONT)
        home.stop_master_when(lambda: home.find_upload(30))
        home.master.kill()
        home.master.wait()
        home.start_master()
        home.wait_for_master()
        home.wait(lambda: home.state(1).is_terminal)
        calm_end = time.monotonic() + WAIT_SECS
        while not calm.state(1).is_terminal and time.monotonic() < calm_end:
            time.sleep(0.1)

        assert read(home) == read(calm)
        with home.reading() as session:
            assert len({each.launch_id for each in session.list_spans(1)}) == 2
            kept = [
                each.uuid
                for each in session.list_checkpoints(experiment_id=1)
                if each.state == "COMPLETED"
            ]
        assert (tmp_path / "far/cache/code").is_dir()
        for one in (calm, home):
            one.stop()
        assert [each for each in home.list_stored() if not each.startswith(".")] == kept
