"""What holds on two replicas: run in one process, with the CPU in two parts."""

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(run_program, request):
    return run_program("two_replicas.py", request.config.rootpath / "tests" / "integration")


def test_the_cpu_is_split_into_replicas(results):
    assert results["num_replicas"] == 2


@pytest.mark.parametrize("name", ["finite", "python_loop"])
def test_data_that_ends_in_the_middle_of_a_step_ends_all_replicas_before_it(results, name):
    # 15 batches make 7 steps of 2, and 7 steps of one replica are 56 examples.
    logs = results[name]

    assert logs["num_seen"] == logs["num_distinct"] == 57
    assert logs["validation_loss"] == logs["validation_loss"]  # not NaN


def test_random_layers_draw_other_numbers_on_each_replica(results):
    (first, first_count), (second, second_count) = results["seeds"]

    assert first_count == second_count
    assert (second - first) % 2**32 == 0x9E3779B9


def test_all_replicas_have_the_same_statistics_when_a_loop_has_ended(results):
    first, second = zip(*results["copies"], strict=True)

    assert first == second


def test_a_checkpoint_gives_the_loss_that_was_recorded_with_it(results):
    recorded, reloaded = results["losses"]

    assert recorded == reloaded > 0.0


def test_partial_steps_are_dropped_where_the_number_of_batches_is_unknown(results):
    assert results["window"] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert results["pairs"] == results["window"]


def test_every_target_token_counts_the_same_however_they_are_spread(results):
    two, one = results["tokens"]["means"]

    assert two == pytest.approx(one, rel=1e-6)
    assert results["tokens"]["error"] < 1e-6


@pytest.mark.parametrize("name", ["fused", "keras", "scaled"])
def test_gradients_are_summed_once(results, name):
    assert results[name] == [pytest.approx([0.85, 1.85]), pytest.approx([0.85, 1.85])]


def test_callbacks_see_scaled_gradients_before_and_true_sums_after(results):
    # Doubled, the sum is 3, which the second callback cuts to 2.5.
    assert results["callbacks"] == [pytest.approx([0.75, 1.75]), pytest.approx([0.75, 1.75])]


def test_tensors_of_replicas_are_joined_in_their_order(results):
    assert results["concat"] == [[[0.0, 0.0], [1.0, 1.0]]] * 2


def test_as_many_rows_may_be_looked_up_in_each_step_as_there_are(run_program):
    table = run_program("sum_sparse_gradients.py", is_fresh=True)

    assert table == [[-6, -6], [-6, -6], [-4, -4], [-2, -2], [0, 0]]
