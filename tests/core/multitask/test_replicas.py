"""Several tasks on two replicas do what one replica does with the same global batch."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(run_program):
    return run_program("train_several_tasks.py")


@pytest.mark.long("test_uneven_evaluation.py beside it has replicas")
@pytest.mark.parametrize("trainer_type", ["joint", "interleaving"])
def test_two_replicas_do_what_one_does(results, trainer_type):
    one, two = results[trainer_type]

    assert one["step"] == two["step"] == 6
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["validation"] == pytest.approx(one["validation"], rel=1e-5)
    assert two["weights"] == pytest.approx(one["weights"], rel=1e-4)
