"""`quintain train --local_workers=2` with parameter servers, and a worker that is killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
COMMAND = [
    sys.executable,
    "-m",
    "quintain.cli.main",
    "train",
    "--import=line_experiment",
    "--experiment=test/line",
    "--local_workers=2",
    "--json",
    "--set=runtime.distribution_strategy=parameter_server",
    "--set=trainer.optimizer_config.ema.average_decay=0.9",
    "--set=trainer.train_steps=600",
    "--set=trainer.steps_per_loop=150",
    "--set=trainer.summary_interval=150",
    "--set=trainer.checkpoint_interval=150",
    "--set=trainer.validation_interval=600",
]


def find_task(parent, kind, index):
    """Returns the number of the process that a cluster started for one task."""
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for pid in children:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        config = [part for part in environment if part.startswith(b"TF_CONFIG=")]
        if config and json.loads(config[0].partition(b"=")[2])["task"] == {
            "type": kind,
            "index": index,
        }:
            return int(pid)
    return None


def wait_for(condition, secs):
    deadline = time.monotonic() + secs
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("timeout")


def read(directory, name):
    for found, shape in tf.train.list_variables(str(directory)):
        if found.startswith(name) and found.endswith("VARIABLE_VALUE") and not shape:
            return int(tf.train.load_variable(str(directory), found))
    raise AssertionError(name)


@pytest.mark.long("Kills: `tests/cli/training/test_local_cluster.py` shows who is started again")
@pytest.mark.slow
def test_a_killed_worker_and_a_killed_server_are_survived_and_every_step_counts_once(tmp_path):
    """The worker's steps are taken by another; all go back to a checkpoint with the server."""
    process = subprocess.Popen(
        [*COMMAND, f"--model_dir={tmp_path}"],
        cwd=HERE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)]),
            "http_proxy": "http://127.0.0.1:1",  # A cluster's processes do not talk by a proxy.
        },
    )

    def kill_after(kind, step):
        path = tmp_path / f"ckpt-{step}.index"
        wait_for(lambda: path.exists() or process.poll() is not None, 180)
        os.kill(find_task(process.pid, kind, 0), signal.SIGKILL)

    try:
        kill_after("worker", 150)
        kill_after("ps", 300)
        output, errors = process.communicate(timeout=180)
    finally:
        process.kill()

    assert process.returncode == 0, errors
    assert "Worker 0 was killed by SIGKILL" in errors
    assert "It is started again (restart 1 of 3)." in errors
    assert "Ps 0 was killed by SIGKILL" in errors
    assert "are started again from the last checkpoint (restart 2 of 3)." in errors
    metrics = json.loads(output.splitlines()[-1])
    assert metrics["step"] == 600
    assert metrics["num_distinct"] == metrics["num_seen"] == 61
    assert metrics["validation_loss"] < 0.1
    assert read(tmp_path, "global_step") == 600
    assert read(tmp_path, "optimizer/inner_optimizer/_iterations") == 600
