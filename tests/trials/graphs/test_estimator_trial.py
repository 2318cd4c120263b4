import pathlib

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(run_program):
    return run_program(pathlib.Path(__file__).parent / "estimator_program.py", is_fresh=True)


@pytest.mark.long("One kind of trial is trained by two processes in every run")
@pytest.mark.parametrize("name", ["dnn", "linear", "combined", "custom"])
def test_a_training_in_two_processes_is_that_of_one_to_the_bit(results, name):
    outcome = results[name]
    assert outcome["total"] == 5
    assert outcome["metrics"]
    assert outcome["validation"]
    assert outcome["final"]


@pytest.mark.long("Further cases of a test of which some run every time", but=["combined"])
@pytest.mark.parametrize("name", ["dnn", "linear", "combined", "custom"])
def test_what_a_validation_measures_is_known_before(results, name):
    assert results[name]["listed"]


@pytest.mark.long("Further cases of a test of which some run every time", but=["trained"])
@pytest.mark.parametrize("number", range(3), ids=["evaluated", "trained", "tensors"])
def test_a_line_that_can_not_be_taken_is_named_with_its_file(results, number):
    assert results["damage"][number].startswith("DIR/a [1] ü.csv:3: '1,2,x,4,0': Invalid")


def test_max_steps_is_ignored_and_steps_of_validations_are_not(results):
    assert results["dnn"]["validation_metrics"]["global_step"] == 13
    assert results["dnn"]["validation_inputs"] == 22
    assert results["custom"]["validation_inputs"] == 8


def test_training_metrics_are_what_the_model_summarises(results):
    assert results["custom"]["names"] == ["doubled", "loss", "running"]
    assert {"loss", "average_loss"} <= set(results["dnn"]["names"])


def test_a_warm_start_begins_to_count_anew(results):
    assert results["dnn"]["warm"] == [0, 0]


def test_every_checkpoint_has_one_saved_model_for_each_serving_function(results):
    assert results["dnn"]["exports"] == ["again", "parsing"]
    assert results["custom"]["exports"] == []
    assert results["dnn"]["latest"]


def test_ordered_data_are_gone_on_with_by_the_state_of_the_iterator(results):
    assert results["linear"]["iterator"]
    assert not results["dnn"]["iterator"]


def test_hooks_see_one_training_from_begin_to_end(results):
    assert results["hooks"]["events"] == ["begin", "run", "run", "run", "end"]


def test_a_hook_that_requests_a_stop_ends_the_trial_after_the_workload(results):
    assert results["hooks"]["stopped"]
    assert results["hooks"]["batches"] == 3


def test_input_functions_may_return_tensors(results):
    assert results["tensors"] == {"num_inputs": 4 * 6 + 2, "step": 7}


def test_what_is_no_estimator_is_an_error(results):
    assert "returned 'dnn'" in results["faults"]["estimator"]
    assert "expected a tf.estimator.TrainSpec" in results["faults"]["spec"]


def test_methods_are_called_in_order_after_the_data_are_downloaded(results):
    events = results["reduced"]["events"]
    assert events[:5] == ["init /data", "estimator", "train", "validation", "serving"]
    assert [each for each in events if each in ("saved", "closed")] == ["saved", "closed"]


def test_metrics_of_python_see_all_batches_of_each_validation(results):
    assert results["reduced"]["sums"] == [True, True]
    assert results["reduced"]["rows"] == [22, 22]


def test_gradients_are_added_up_where_the_optimizer_is_wrapped(results):
    assert results["reduced"]["waits"]
    assert results["reduced"]["steps"] == 3
    assert "the estimator is not wrapped" in results["reduced"]["unwrapped"]


def test_names_that_estimators_lost_say_what_to_use(results):
    assert "tf.estimator.BoostedTreesClassifier can't be had" in results["faults"]["trees"]
    assert "TensorFlow Decision Forests" in results["faults"]["trees"]
    assert "Did you mean 'DNNClassifier'?" in results["faults"]["typo"]


def test_endless_validation_data_are_refused_before_the_first_batch(results):
    assert "the dataset never ends, and EvalSpec.steps is None" in results["faults"]["endless"]
