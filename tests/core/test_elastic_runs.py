"""Elastic runs in one process, with the CPU in eight parts."""

import pytest

pytestmark = pytest.mark.slow
OWN = ("data_position", "host_random_state", "_CHECKPOINTABLE_OBJECT_GRAPH")
"""Parts of a checkpoint that name resources of a process."""


@pytest.fixture(scope="module")
def dense(run_program, request):
    return run_program("elastic_replicas.py", integration_dir(request), "build_dense")


@pytest.fixture(scope="module")
def translation(run_program, request):
    return run_program("elastic_replicas.py", integration_dir(request), "build_translation")


def integration_dir(request):
    return request.config.rootpath / "tests" / "integration"


def without_own(entries):
    return {name: value for name, value in entries.items() if not name.startswith(OWN)}


def assert_equal(results, kind, replicas):
    checkpoint, metrics = results[f"{kind} {replicas}"]
    expected, expected_metrics = results[f"{kind} 1"]
    assert without_own(checkpoint) == without_own(expected)
    assert metrics == expected_metrics
    assert "training_loss" in metrics


@pytest.mark.long("A run whose number of replicas changes is tried every time", but=["changing"])
@pytest.mark.parametrize("replicas", ["2", "8", "changing"])
def test_checkpoints_and_metrics_do_not_depend_on_the_number_of_replicas(dense, replicas):
    assert_equal(dense, "dense", replicas)


@pytest.mark.long("The dense model is tried in each run")
@pytest.mark.parametrize("replicas", ["4", "changing"])
def test_nor_do_those_of_a_transformer_whose_replicas_weigh_by_tokens(translation, replicas):
    assert_equal(translation, "translation", replicas)
