"""One trial, played by hand: what is next after each result, and what is told to the search."""

import math

import pytest

from quintain.master.machine import trial_machine
from quintain.records.config import experiment_spec
from quintain.records.rows.states import TrialState
from quintain.search import base_search, searcher

NAME = "trial"


def make_machine(**changes):
    searching = {"name": "single", "metric": "error", "max_length": 1}
    for name in changes.keys() & {"batches_per_unit", "smaller_is_better"}:
        searching[name] = changes.pop(name)
    for name in changes.keys() & {"min_checkpoint_period", "min_validation_period"}:
        changes[name] = {"batches": changes[name]}
    config = {
        "entrypoint": "model_def:ToyTrial",
        "hyperparameters": {},
        "scheduling_unit": 10,
        "checkpoint_policy": "none",
        "max_restarts": 1,
        "searcher": searching,
    }
    return trial_machine.TrialMachine(
        base_search.Create(NAME, {"x": 1}, seed=3),
        experiment_spec.parse({**config, **changes}),
    )


def ask(machine, length):
    for operation in base_search.train_and_validate(NAME, length):
        machine.add_operation(operation)


def work(machine, *results):
    """Does what is next so many times, and returns it; each result is a metric or a name."""
    done = []
    for result in results:
        step = machine.next_step()
        done.append(f"{step.kind.value.lower()} {step.num_batches}".removesuffix(" 0"))
        match step.kind:
            case trial_machine.KindOfWork.TRAIN:
                machine.record_training(step.num_batches)
            case trial_machine.KindOfWork.VALIDATE:
                machine.record_validation(result, is_best=False)
            case _:
                machine.record_checkpoint(result)
    return done


def test_training_is_cut_into_units_and_a_validation_is_told_when_it_is_saved():
    machine = make_machine()
    ask(machine, 15)

    assert work(machine, None, None, 0.5) == ["train 10", "train 5", "validate"]
    assert machine.next_event(0.0) is None
    assert work(machine, "u1") == ["checkpoint"]
    assert machine.next_event(0.0) == searcher.Validated(NAME, 0.5, 15)
    assert machine.next_event(0.0) is None
    assert machine.next_step() is None


def test_a_trial_that_is_closed_in_a_saved_state_is_completed_at_once():
    machine = make_machine()
    ask(machine, 5)
    work(machine, None, 0.5, "u1")
    machine.next_event(0.0)
    machine.add_operation(base_search.Close(NAME))

    assert machine.next_step() is None
    assert machine.next_event(7.0) == searcher.Closed(NAME)
    assert (machine.state, machine.end_time, machine.progress) == (TrialState.COMPLETED, 7.0, 1.0)


def test_periods_ask_for_validations_and_checkpoints_between_what_the_search_asks():
    machine = make_machine(min_validation_period=4, min_checkpoint_period=6)
    ask(machine, 8)

    assert work(machine, None, 0.9, None, "u1", None, 0.8, "u2") == [
        "train 4",
        "validate",
        "train 2",
        "checkpoint",
        "train 2",
        "validate",
        "checkpoint",
    ]


def test_lengths_count_units_of_several_batches():
    machine = make_machine(batches_per_unit=3)
    ask(machine, 2)

    assert work(machine, None, 0.5, "u1") == ["train 6", "validate", "checkpoint"]
    assert machine.next_event(0.0) == searcher.Validated(NAME, 0.5, 2)


def test_the_state_before_training_is_validated_where_this_is_wanted():
    machine = make_machine(perform_initial_validation=True)
    ask(machine, 3)

    assert work(machine, 2.0, None, 1.0) == ["validate", "train 3", "validate"]
    assert [each[:2] for each in machine.validations] == [(0, 2.0), (3, 1.0)]


@pytest.mark.parametrize(
    ("policy", "is_best", "is_saved"),
    [("none", True, False), ("best", True, True), ("best", False, False), ("all", False, True)],
)
def test_a_policy_says_which_validations_are_saved(policy, is_best, is_saved):
    machine = make_machine(checkpoint_policy=policy, min_validation_period=5)
    ask(machine, 20)
    work(machine, None)
    machine.record_validation(0.5, is_best=is_best)

    expected = ["checkpoint"] if is_saved else ["train 5"]
    assert work(machine, "u1") == expected


def test_a_failure_takes_back_what_was_done_since_the_last_checkpoint():
    machine = make_machine(min_checkpoint_period=10)
    ask(machine, 25)
    work(machine, None, "u1", None)

    assert machine.fail("It broke.", 0.0) == 10
    assert (machine.total_batches, machine.restarts, machine.state) == (10, 1, TrialState.ACTIVE)
    assert work(machine, None) == ["train 10"]


def test_a_failure_without_a_checkpoint_takes_back_everything():
    machine = make_machine()
    ask(machine, 25)
    work(machine, None)

    assert machine.fail("It broke.", 0.0) == -1
    assert (machine.total_batches, machine.validations) == (0, [])


def test_a_failure_right_after_a_checkpoint_takes_back_nothing():
    machine = make_machine(min_checkpoint_period=10)
    ask(machine, 25)
    work(machine, None, "u1")

    assert machine.fail("It broke.", 0.0) is None


def test_the_failure_after_the_last_restart_ends_the_trial():
    machine = make_machine(max_restarts=1)
    ask(machine, 25)
    machine.fail("It broke.", 1.0)
    work(machine, None)
    machine.fail("It broke again.", 2.0)

    assert (machine.state, machine.reason) == (TrialState.ERROR, "It broke again.")
    assert machine.next_step() is None
    expected = searcher.ExitedEarly(NAME, base_search.ExitReason.ERRORED, 0)
    assert machine.next_event(2.0) == expected
    assert machine.next_event(2.0) is None


def test_what_the_search_was_told_is_done_again_after_damage_and_not_told_again():
    machine = make_machine()
    ask(machine, 5)
    work(machine, None, 0.5, "u1")
    machine.next_event(0.0)
    ask(machine, 8)
    work(machine, None, 0.4, "u2")
    machine.next_event(0.0)

    assert machine.fall_back("u1", "u2 is damaged.") == 5
    assert machine.checkpoints == ["u1"]
    assert work(machine, None, 0.4, "u3") == ["train 3", "validate", "checkpoint"]
    assert machine.next_event(0.0) is None
    ask(machine, 9)
    assert work(machine, None) == ["train 1"]


def test_without_a_good_checkpoint_a_trial_begins_anew():
    machine = make_machine()
    ask(machine, 5)
    work(machine, None, 0.5, "u1")
    machine.next_event(0.0)

    assert machine.fall_back(None, "u1 is damaged.") == -1
    assert (machine.checkpoint, machine.total_batches, machine.validations) == (None, 0, [])


def test_a_trial_that_asks_to_stop_is_saved_and_then_told():
    machine = make_machine()
    ask(machine, 25)
    work(machine, None)
    machine.request_stop("enough")

    assert machine.next_event(0.0) is None
    assert work(machine, "u1") == ["checkpoint"]
    expected = searcher.ExitedEarly(NAME, base_search.ExitReason.USER_CANCELED, 10)
    assert machine.next_event(0.0) == expected
    assert machine.state is TrialState.COMPLETED


def test_a_trial_that_ended_goes_on_with_new_settings():
    machine = make_machine(max_restarts=0)
    ask(machine, 25)
    machine.fail("It broke.", 1.0)
    machine.next_event(1.0)

    machine.revive(make_machine(scheduling_unit=4)._config, {"x": 2})

    assert (machine.state, machine.reason, machine.end_time) == (TrialState.ACTIVE, "", None)
    assert machine.hparams == {"x": 2}
    assert work(machine, None) == ["train 4"]


@pytest.mark.parametrize(
    ("metrics", "smaller_is_better", "best"),
    [
        ([], True, None),
        ([3.0, 1.0, 2.0], True, 1.0),
        ([3.0, 1.0, 2.0], False, 3.0),
        ([math.nan, 2.0], True, 2.0),
    ],
)
def test_the_best_metric_is_a_number_if_there_is_one(metrics, smaller_is_better, best):
    machine = make_machine(smaller_is_better=smaller_is_better)
    for metric in metrics:
        machine.record_validation(metric, is_best=False)

    assert machine.best_metric == best


def test_the_best_of_no_numbers_is_none():
    machine = make_machine()
    machine.record_validation(math.nan, is_best=False)

    assert math.isnan(machine.best_metric)


def test_progress_is_the_part_of_what_was_asked():
    machine = make_machine()
    assert machine.progress == 0.0
    ask(machine, 40)
    work(machine, None)

    assert machine.progress == 0.25
