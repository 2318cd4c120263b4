import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

HERE = pathlib.Path(__file__).parent
OVERRIDES = {
    "task.dropout_rate": 0.1,
    "trainer.train_steps": 120,
    "trainer.validation_interval": 120,
}
NO_DROPOUT = {"task.dropout_rate": 0.0, "trainer.train_steps": 40}
ELASTIC = {
    "runtime.elastic": True,
    "task.train_data.global_batch_size": 16,
    "task.dropout_rate": 0.3,
    "trainer.train_steps": 40,
    "trainer.validation_interval": 40,
}

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def start(model_dir, *flags, variables=(), **overrides):
    pairs = ",".join(f"{name}={value}" for name, value in (OVERRIDES | overrides).items())
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "quintain.cli.main",
            "train",
            "--import=line_experiment",
            "--experiment=test/line",
            f"--model-dir={model_dir}",
            f"--params-override={pairs}",
            *flags,
        ],
        env={
            **os.environ,
            "http_proxy": "http://127.0.0.1:1",  # A cluster's processes do not talk by a proxy.
            "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, sys.path)]),
            **dict(variables),
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, code=0, timeout=240):
    _, stderr = process.communicate(timeout=timeout)
    assert process.returncode == code, stderr
    return stderr


def workers_of(process):
    """Returns the process numbers of the workers, in their order."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return sorted(map(int, children))


def newest_step(model_dir):
    steps = [int(path.stem.partition("-")[2]) for path in model_dir.glob("ckpt-*.index")]
    return max(steps, default=0)


def wait_for_step(process, model_dir, step):
    while newest_step(model_dir) < step:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def stop_worker_at(process, model_dir, step):
    """Lets worker 1 stand still when a step is saved, so that the run does not end meanwhile."""
    wait_for_step(process, model_dir, 1)
    worker = workers_of(process)[1]
    while True:
        os.kill(worker, signal.SIGSTOP)
        if newest_step(model_dir) >= step:
            return worker
        os.kill(worker, signal.SIGCONT)
        time.sleep(0.02)


def read_weights(model_dir):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(model_dir)))
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
        if name.endswith("VARIABLE_VALUE")
    }


def read_evaluations(model_dir):
    lines = (model_dir / "evaluations.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("undisturbed")
    finish(start(model_dir, "--local-workers=2"))
    return model_dir


@pytest.fixture(scope="module")
def one_worker(tmp_path_factory):
    model_dir = tmp_path_factory.mktemp("one")
    finish(start(model_dir, **NO_DROPOUT))
    return model_dir


@pytest.mark.long("One kind of trial is trained by two processes in every run")
def test_two_workers_train_as_one_with_the_same_global_batch(tmp_path, one_worker):
    finish(start(tmp_path, "--local-workers=2", **NO_DROPOUT))

    first, second = read_weights(one_worker), read_weights(tmp_path)
    assert first.keys() == second.keys()
    for name, weight in first.items():
        np.testing.assert_allclose(second[name], weight, rtol=1e-4, atol=1e-6, err_msg=name)
    metrics = read_evaluations(tmp_path)[-1]["metrics"]
    assert metrics["num_seen"] == metrics["num_distinct"] == 61
    expected = read_evaluations(one_worker)[-1]["metrics"]["absolute_error"]
    assert metrics["absolute_error"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.long(
    "Kills: test_gangs.py kills one of two processes, test_local_cluster.py starts them again"
)
def test_a_killed_worker_and_a_signal_to_another_cost_nothing_but_time(tmp_path, undisturbed):
    process = start(tmp_path, "--local-workers=2")
    worker = stop_worker_at(process, tmp_path, 20)
    former = workers_of(process)
    os.kill(worker, signal.SIGKILL)
    while set(former) & set(workers_of(process)) or len(workers_of(process)) < 2:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    worker = stop_worker_at(process, tmp_path, newest_step(tmp_path) + 1)
    os.kill(worker, signal.SIGTERM)
    os.kill(worker, signal.SIGCONT)
    stderr = finish(process, code=143)

    assert "was killed by SIGKILL" in stderr
    assert "started again from the last checkpoint (restart 1 of 3)" in stderr
    assert "All workers have stopped. To go on:\n  quintain train --import" in stderr
    assert 20 < newest_step(tmp_path) < OVERRIDES["trainer.train_steps"]
    finish(start(tmp_path, "--local-workers=2"))
    first, second = read_weights(undisturbed), read_weights(tmp_path)
    assert first.keys() == second.keys()
    for name, weight in first.items():
        np.testing.assert_array_equal(second[name], weight, err_msg=name)
    assert read_evaluations(tmp_path) == read_evaluations(undisturbed)


@pytest.mark.long("`tests/cli/training/test_local_cluster.py` shows it")
def test_a_mistake_in_the_config_is_shown_once_and_leaves_nothing_behind(tmp_path):
    model_dir = tmp_path / "run"
    process = start(model_dir, "--local-workers=2", **{"task.no_such_field": 1})
    stderr = finish(process, code=2)

    assert stderr.count("no_such_field") == 1
    assert not model_dir.exists()


@pytest.mark.long("`tests/run/test_config_change.py` shows what is refused")
def test_the_chief_refuses_other_settings_for_all_workers(tmp_path, one_worker):
    """Workers started by hand, of which the second sees another directory than the chief."""
    with contextlib.ExitStack() as sockets:
        opened = [sockets.enter_context(socket.socket()) for _ in range(2)]
        for one in opened:
            one.bind(("localhost", 0))
        hosts = [f"localhost:{one.getsockname()[1]}" for one in opened]
    strategy = "--set=runtime.distribution_strategy=multi_worker_mirrored"
    workers = []
    for index, model_dir in enumerate((one_worker, tmp_path / "other")):
        config = {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}}
        variables = {"TF_CONFIG": json.dumps(config)}
        workers.append(start(model_dir, strategy, variables=variables, **NO_DROPOUT))

    errors = [finish(worker, code=2) for worker in workers]

    for error in errors:
        assert "runtime.distribution_strategy: 'one_device' -> 'multi_worker_mirrored'" in error
        assert "--allow-config-change" in error
    assert not (tmp_path / "other").exists()


@pytest.mark.long(
    "Kills: test_gangs.py kills one of two processes, test_local_cluster.py starts them again"
)
def test_files_are_written_by_the_chief_alone(undisturbed):
    names = {path.name for path in undisturbed.iterdir()}

    assert not [name for name in names if "incomplete" in name or "tmp" in name]
    assert len(list((undisturbed / "train").iterdir())) == 1
    assert [path.name for path in (undisturbed / "logs").iterdir()] == ["worker-1.log"]


@pytest.mark.long("Replicas of one process change their number in each run")
def test_workers_that_are_killed_and_change_their_number_end_in_the_same_bits(tmp_path):
    finish(start(tmp_path / "one", **ELASTIC))
    model_dir = tmp_path / "changing ä"
    process = start(model_dir, "--local-workers=2", "--max-restarts=0", **ELASTIC)

    os.kill(stop_worker_at(process, model_dir, 10), signal.SIGKILL)
    process.communicate(timeout=240)
    finish(start(model_dir, **ELASTIC | {"trainer.train_steps": 30}))
    finish(start(model_dir, "--local-workers=4", **ELASTIC))

    expected, weights = read_weights(tmp_path / "one"), read_weights(model_dir)
    assert expected.keys() == weights.keys()
    for name, weight in expected.items():
        np.testing.assert_array_equal(weights[name], weight, err_msg=name)
    metrics = [read_evaluations(run)[-1]["metrics"] for run in (tmp_path / "one", model_dir)]
    assert metrics[0] == metrics[1]
