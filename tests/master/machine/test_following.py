import copy

import pytest

from quintain.master.machine import trial_machine
from quintain.records.config import experiment_spec
from quintain.records.rows import workload
from quintain.search import base_search

NAME = "trial"


def make_machine(length, **changes):
    searching = {"name": "single", "metric": "error", "max_length": 1}
    for name in changes.keys() & {"batches_per_unit", "smaller_is_better"}:
        searching[name] = changes.pop(name)
    for name in changes.keys() & {"min_checkpoint_period", "min_validation_period"}:
        changes[name] = {"batches": changes[name]}
    config = {
        "entrypoint": "model_def:ToyTrial",
        "hyperparameters": {},
        "scheduling_unit": 10,
        "min_checkpoint_period": {"batches": 20},
        "checkpoint_policy": "none",
        "max_restarts": 1,
        "searcher": searching,
    }
    machine = trial_machine.TrialMachine(
        base_search.Create(NAME, {"x": 1}, seed=3),
        experiment_spec.parse({**config, **changes}),
    )
    for operation in base_search.train_and_validate(NAME, length):
        machine.add_operation(operation)
    return machine


def play(machine, count):
    """Does what is asked, and returns it as workloads; the last one is not done yet."""
    done = []
    while True:
        step = machine.next_step()
        if step is None:
            return done
        total, number = machine.total_batches, len(done) + 1
        done.append(workload.Workload(step.kind, 1, 2, number, step.num_batches, total))
        if len(done) == count:
            return done
        match step.kind:
            case workload.WorkloadKind.TRAIN:
                machine.record_training(step.num_batches)
            case workload.WorkloadKind.VALIDATE:
                machine.record_validation(0.5, is_best=True)
            case _:
                machine.record_checkpoint(str(number))
        machine.next_event(0.0)


@pytest.mark.parametrize(
    ("length", "changes", "index", "num_following"),
    [
        (60, {}, 3, 2),  # Until the next checkpoint.
        (60, {"min_validation_period": 10}, 5, 2),  # Until the next validation, with it.
        (35, {}, 3, 3),
        (20, {}, 4, 0),  # The search decides.
        (5000, {"min_checkpoint_period": 2000}, 201, 100),
    ],
)
def test_what_is_told_with_a_checkpoint_is_what_comes_then(length, changes, index, num_following):
    machine = make_machine(length, **changes)
    checkpoint = play(machine, index)[-1]
    assert checkpoint.kind is workload.WorkloadKind.CHECKPOINT
    before = copy.deepcopy(machine).describe()

    found = trial_machine.find_following(machine, checkpoint)

    assert machine.describe() == before
    assert len(found) == num_following
    everything = play(make_machine(length, **changes), index + num_following)
    assert list(found) == everything[index:]


def test_nothing_follows_a_checkpoint_that_a_trial_makes_to_end():
    machine = make_machine(60)
    play(machine, 2)
    machine.record_training(10)
    machine.request_stop("enough")
    checkpoint = workload.Workload(workload.WorkloadKind.CHECKPOINT, 1, 2, 3, 0, 20)

    assert trial_machine.find_following(machine, checkpoint) == ()
