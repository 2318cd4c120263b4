import pathlib

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(run_program):
    return run_program(pathlib.Path(__file__).parent / "graph_program.py", is_fresh=True)


@pytest.mark.long("One kind of trial is trained by two processes in every run")
@pytest.mark.parametrize("name", ["split", "in_order", "generator", "parts"])
def test_a_training_in_two_processes_is_that_of_one_to_the_bit(results, name):
    outcome = results[name]
    assert outcome["total"] == 5
    assert outcome["metrics"]
    assert outcome["validation"]
    assert outcome["variables"]


def test_random_numbers_differ_in_each_step_and_the_counter_counts_steps(results):
    outcome = results["split"]
    assert outcome["random"]
    assert outcome["rates"] == pytest.approx([0.1 * 0.5 ** (step / 5) for step in range(3)])


@pytest.mark.long("Further cases of a test of which some run every time", but=["split"])
@pytest.mark.parametrize("name", ["split", "parts"])
def test_a_warm_start_begins_to_count_anew(results, name):
    assert results[name]["warm_total"] == results[name]["warm_counter"] == 0


def test_a_checkpoint_has_variables_position_and_a_saved_model(results):
    files = results["split"]["files"]
    assert {"variables.index", "saved_model/saved_model.pb"} <= set(files)


def test_saving_does_not_make_the_graph_grow(results):
    assert results["split"]["grown"] == 0


def test_the_position_in_data_that_are_not_shuffled_is_saved(results):
    assert results["in_order"]["iterator"]
    assert not results["split"]["iterator"]


def test_metrics_are_means_over_batches_and_training_goes_around(results):
    outcome = results["numbers"]
    assert sorted(outcome["counts"]) == [2, 4, 4, 4, 4, 4]
    assert outcome["num_inputs"] == outcome["validation_inputs"] == 22
    assert outcome["validation"]["loss"] == pytest.approx(outcome["expected_loss"], rel=1e-6)
    assert outcome["validation"]["count"] == pytest.approx((8 + 8 + 6) / 3)
    assert sorted(outcome["validation"]) == sorted(outcome["listed"])


def test_a_counter_goes_on_after_a_validation_where_training_left_it(results):
    assert results["numbers"]["seen"] == 6


def test_a_damaged_record_is_named_with_its_file(results):
    flipped, cut = results["damage"]
    assert flipped.startswith("DIR/a [1] ü.tfrecord: record 6, at byte 172, is damaged")
    assert cut.startswith("DIR/a [1] ü.tfrecord: record 22, at byte")


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["no_loss", "no_optimizer", "endless"],
)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_loss", ["no tensor 'loss'", "los"]),
        (
            "unknown_metric",
            ["validation_metrics() (graph_program.py:", "has 'cont'", "Did you mean 'count'?"],
        ),
        ("loss_listed", ["leave it out"]),
        ("no_optimizer", ["returned 'adam'", "tf.train.Optimizer"]),
        ("structures", ["different structures"]),
        ("types", ["the datasets differ at '1'", "int64"]),
        ("unbatched", ["call .batch"]),
        ("no_pair", ["expected a pair of datasets"]),
        ("empty", ["validation dataset is empty"]),
        ("endless", ["make_data_loaders(): the validation dataset never ends", ".repeat()"]),
        ("contrib", ["tf.contrib.layers can't be had"]),
    ],
)
def test_what_can_not_be_trained_is_an_error_before_training(results, name, words):
    for word in words:
        assert word in results["faults"][name]


def test_gradients_of_some_batches_are_averaged_or_added(results):
    for outcome in results["sums"]:
        assert outcome == {"waits": True, "updates": True, "goes_on": True, "counter": 4}


@pytest.mark.long("Further cases of a test of which some run every time", but=["steps"])
@pytest.mark.parametrize("name", ["adam", "steps", "doubled"])
def test_an_optimizer_that_was_written_for_the_first_variables_does_its_steps(results, name):
    assert results["optimizers"][name] is True


def test_an_optimizer_without_a_rule_is_named_with_what_it_lacks(results):
    assert results["optimizers"]["nothing"] == (
        "__main__.Nothing has no method _apply_sparse(grad, var); it is needed for the variable "
        "rows, whose gradient is sparse."
    )


def test_mixed_precision_of_graphs_is_refused(results):
    assert results["faults"]["mixed_precision"].startswith(
        "optimizations.mixed_precision: got 'O1'"
    )
