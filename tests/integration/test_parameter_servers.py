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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["worker", "ps"])
def test_a_killed_worker_is_survived_and_every_step_counts_once(tmp_path, kind):
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
    try:
        wait_for(lambda: list(tmp_path.glob("ckpt-*.index")) or process.poll() is not None, 120)
        os.kill(find_task(process.pid, kind, 0), signal.SIGKILL)
        output, errors = process.communicate(timeout=180)
    finally:
        process.kill()

    assert process.returncode == 0, errors
    assert "killed by SIGKILL" in errors
    metrics = json.loads(output.splitlines()[-1])
    assert metrics["step"] == 600
    assert metrics["num_distinct"] == metrics["num_seen"] == 61
    assert metrics["validation_loss"] < 0.1
    assert read(tmp_path, "global_step") == 600
    assert read(tmp_path, "optimizer/inner_optimizer/_iterations") == 600
