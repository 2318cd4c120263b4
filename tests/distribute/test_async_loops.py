"""Asynchronous steps, on a cluster of processes."""

import itertools
import json
import pathlib
import sys

import pytest
import tensorflow as tf

from quintain import errors
from quintain.cli.training import local_cluster
from quintain.distribute import async_loops, distribution, parameter_servers
from quintain.settings import config_definitions as cfg

_PROGRAM = pathlib.Path(__file__).parents[1] / "programs" / "asynchronous_steps.py"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    path = directory / "result.json"
    told = []
    cluster = local_cluster.LocalCluster(
        [sys.executable, str(_PROGRAM), str(path)],
        {"chief": 1, "worker": 2, "ps": 1},
        log_dir=directory,
        servers=("worker", "ps"),
        restarted_alone=("worker",),
        max_restarts=1,
        tell=told.append,
    )
    assert cluster.run() == 0
    return json.loads(path.read_text()) | {"told": told}


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_every_step_is_done_once(result):
    assert result["done"] == result["counter"] == result["step"] == 24


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_workers_really_work_at_the_same_time(result):
    """One worker takes one step after the other, so steps that overlap are those of two."""
    spans = sorted(result["spans"])
    overlapping = sum(start < end for (_, end), (start, _) in itertools.pairwise(spans))
    assert overlapping >= 5


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_workers_read_different_batches(result):
    """24 batches of two halves of 0, 1, 2, ...: no half is read twice."""
    evens, odds = range(0, 48, 2), range(1, 48, 2)
    sums = {sum(evens[:count]) + sum(odds[: 24 - count]) for count in range(25)}
    assert result["total"] in sums


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_a_step_that_is_repeated_is_not_done_again(result):
    assert result["repeated"] == 1


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_steps_after_going_back_to_an_earlier_step_are_done(result):
    assert result["after_going_back"] == [10, 15]


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_no_step_is_lost_with_a_killed_worker(result):
    """The counter is one that nothing sets; a step may be repeated after its update, see there."""
    assert result["with_a_killed_worker"] in (80, 81)
    assert any("killed by SIGKILL" in text for text in result["told"])


@pytest.mark.long("Parameter servers, in a cluster of their own")
@pytest.mark.slow
def test_training_data_that_ends_is_a_clear_error(result):
    assert result["end_of_data"].startswith("task.train_data: the data ended")


def test_a_cluster_without_servers_is_an_error(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with pytest.raises(errors.ConfigError, match="names no worker and no ps"):
        distribution.build_strategy(cfg.RuntimeConfig(distribution_strategy="parameter_server"))


def test_float16_is_refused(monkeypatch):
    cluster = {"worker": ["a:1"], "ps": ["b:1"], "chief": ["c:1"]}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    runtime = cfg.RuntimeConfig(
        distribution_strategy="parameter_server", mixed_precision_dtype="float16"
    )

    with pytest.raises(errors.ConfigError, match=r"runtime\.mixed_precision_dtype: got 'float16'"):
        distribution.build_strategy(runtime)


@pytest.mark.parametrize(
    ("strategy", "task", "expected"),
    [
        ("parameter_server", "worker", True),
        ("parameter_server", "ps", True),
        ("parameter_server", "chief", False),
        ("multi_worker_mirrored", "worker", False),
    ],
)
def test_workers_and_parameter_servers_serve(monkeypatch, strategy, task, expected):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"task": {"type": task, "index": 0}}))

    runtime = cfg.RuntimeConfig(distribution_strategy=strategy)

    assert parameter_servers.is_server(runtime) is expected


def test_a_pipeline_survives_its_way_to_a_worker():
    numbers = tf.constant([5, 6, 7, 8])  # computed here, not in the graph
    dataset = tf.data.Dataset.range(4).map(lambda index: numbers[index]).batch(2)

    pipeline = async_loops._serialize(dataset)
    variant = tf.raw_ops.DatasetFromGraph(graph_def=pipeline)
    copy = tf.data.experimental.from_variant(variant, dataset.element_spec)

    assert [batch.numpy().tolist() for batch in copy] == [[5, 6], [7, 8]]
