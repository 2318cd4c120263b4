"""Events in, state out: at every boundary, a replay gives the same state."""

import json
import random

import pytest

from quintain import errors
from quintain.master.machine import experiment_machine
from quintain.records.config import experiment_spec
from quintain.records.rows import workload

SEARCHES = [
    {"name": "single", "max_length": 9},
    {"name": "random", "max_length": 6, "max_trials": 5, "max_concurrent_trials": 2},
    {"name": "adaptive_simple", "max_length": 16, "max_trials": 8},
    {"name": "adaptive_asha", "max_length": 16, "max_trials": 12},
    {"name": "async_halving", "num_rungs": 3, "max_length": 16, "max_trials": 8, "stop_once": True},
    {"name": "pbt", "population_size": 5, "num_rounds": 3, "length_per_round": 4,
     "replace_function": {"truncate_fraction": 0.4}},
]  # fmt: skip


def parse(searcher, **fields):
    return experiment_spec.parse(
        {
            "searcher": {"metric": "loss", **searcher},
            "hyperparameters": {"x": {"type": "double", "minval": 0, "maxval": 1}},
            "reproducibility": {"experiment_seed": 3},
            "scheduling_unit": 4,
            "max_restarts": 2,
            **fields,
        }
    )


def replay(config, events):
    machine = experiment_machine.ExperimentMachine(config)
    for event in json.loads(json.dumps(events)):
        machine.apply(event)
    return machine


def next_event(machine, request_id, step, source):
    event = {
        "kind": "result",
        "request_id": request_id,
        "number": machine.trials[request_id].num_results + 1,
        "work": step.kind.value,
        "num_batches": step.num_batches,
    }
    if step.kind is workload.WorkloadKind.VALIDATE:
        event["metric"] = source.choice(["NaN", 0.5, source.random()])
    if step.kind is workload.WorkloadKind.CHECKPOINT:
        event["checkpoint"] = f"{request_id}-{event['number']}"
    if source.random() < 0.02:
        event["exited_reason"] = source.choice(["user_canceled", "invalid_hp"])
    return event


@pytest.mark.long("Further seeds", but=["0"])
@pytest.mark.slow
@pytest.mark.parametrize("searcher", SEARCHES, ids=lambda searcher: searcher["name"])
@pytest.mark.parametrize("seed", range(5))
def test_a_replay_gives_the_same_state_after_every_event(searcher, seed):
    source = random.Random(seed)
    config = parse(
        searcher,
        min_validation_period={"batches": 3},
        perform_initial_validation=bool(seed % 2),
        checkpoint_policy=("best", "all", "none")[seed % 3],
    )
    machine = experiment_machine.ExperimentMachine(config)
    events = []

    def apply(event):
        event["time"] = float(len(events))
        events.append(event)
        machine.apply(json.loads(json.dumps(event)))

    apply({"kind": "start", "config": config.as_dict()})
    for _ in range(3000):
        if machine.state.is_stopping:
            apply({"kind": "drained"})
        if machine.state.is_terminal:
            break
        ready = [
            (request_id, step)
            for request_id, trial in machine.trials.items()
            if (step := trial.next_step()) is not None
        ]
        assert ready, "the search waits, but nobody works"
        request_id, step = source.choice(ready)
        chance = source.random()
        if chance < 0.04:
            apply({"kind": "failure", "request_id": request_id, "reason": "crash",
                   "is_counted": source.random() < 0.5})  # fmt: skip
        elif chance < 0.05:
            apply({"kind": "kill_trial", "request_id": request_id})
        elif chance < 0.08:
            apply({"kind": "pause"})
            apply({"kind": "activate"})
        else:
            apply(next_event(machine, request_id, step, source))
        if len(events) % 7 == 0 or len(events) < 30:
            assert replay(config, events).describe() == machine.describe()
    assert machine.state.is_terminal
    assert replay(config, events).describe() == machine.describe()
    assert all(trial.state.is_terminal for trial in machine.trials.values())


def start(searcher, **fields):
    config = parse(searcher, **fields)
    machine = experiment_machine.ExperimentMachine(config)
    machine.apply({"kind": "start", "time": 0.0, "config": config.as_dict()})
    return machine, next(iter(machine.trials.values()))


def do(machine, trial, metric=0.5):
    """Does the next workload of a trial; returns its kind and batches."""
    step = trial.next_step()
    if step is None:
        return None
    event = next_event(machine, trial.request_id, step, random.Random(1))
    event.pop("exited_reason", None)
    if "metric" in event:
        event["metric"] = metric
    machine.apply({**event, "time": 1.0})
    return step.kind.value[0] + (str(step.num_batches) if step.num_batches else "")


def do_all(machine, trial, metrics=()):
    metrics = iter(metrics)
    done = []
    while (step := trial.next_step()) is not None:
        is_validation = step.kind is workload.WorkloadKind.VALIDATE
        done.append(do(machine, trial, next(metrics, 0.5) if is_validation else 0.5))
    return " ".join(done)


@pytest.mark.parametrize(
    ("fields", "metrics", "expected"),
    [
        ({}, (), "T4 T4 T1 V C"),
        ({"checkpoint_policy": "none"}, (), "T4 T4 T1 V C"),
        ({"perform_initial_validation": True}, (), "V C T4 T4 T1 V C"),
        ({"min_checkpoint_period": {"batches": 3}}, (), "T3 C T3 C T3 V C"),
        ({"min_validation_period": {"batches": 4}}, (3, 2, 1), "T4 V C T4 V C T1 V C"),
        ({"min_validation_period": {"batches": 4}}, (1, 2, 3), "T4 V C T4 V T1 V C"),
        ({"min_validation_period": {"batches": 4}}, (1, 1, 1), "T4 V C T4 V C T1 V C"),
        (
            {"min_validation_period": {"batches": 4}, "checkpoint_policy": "none"},
            (3, 2, 1),
            "T4 V T4 V T1 V C",
        ),
        (
            {"min_validation_period": {"batches": 4}, "checkpoint_policy": "all"},
            (1, 2, 3),
            "T4 V C T4 V C T1 V C",
        ),
    ],
)
def test_periods_and_policies_decide_the_workloads(fields, metrics, expected):
    machine, trial = start({"name": "single", "max_length": 9}, **fields)
    assert do_all(machine, trial, metrics) == expected
    assert machine.state.value == "STOPPING_COMPLETED"


def test_larger_is_better_where_the_config_says_so():
    machine, trial = start(
        {"name": "single", "max_length": 9, "smaller_is_better": False},
        min_validation_period={"batches": 4},
    )
    assert do_all(machine, trial, (1, 2, 0)) == "T4 V C T4 V C T1 V C"
    assert (trial.best_metric, machine.describe()["best"]) == (2, 2)


def test_the_searcher_hears_of_a_validation_only_when_it_is_saved():
    machine, trial = start({"name": "single", "max_length": 4})
    assert [do(machine, trial), do(machine, trial)] == ["T4", "V"]
    assert machine.progress < 1
    machine.apply({"kind": "failure", "time": 2.0, "request_id": trial.request_id, "reason": "x"})
    assert (trial.total_batches, trial.validations, machine.describe()["best"]) == (0, [], None)
    assert do_all(machine, trial) == "T4 V C"
    assert machine.progress == 1


def test_a_crash_after_a_checkpoint_before_the_validation_does_not_lose_the_validation():
    machine, trial = start({"name": "single", "max_length": 4})
    do(machine, trial)
    step = trial.closing_step()  # it is paused here
    machine.apply({**next_event(machine, trial.request_id, step, random.Random(1)), "time": 1.0})
    machine.apply({"kind": "failure", "time": 2.0, "request_id": trial.request_id, "reason": "x"})
    assert trial.total_batches == 4
    assert do_all(machine, trial) == "V"
    assert machine.progress == 1


def test_an_unknown_event_and_a_forbidden_command_are_refused():
    machine, _ = start({"name": "single", "max_length": 4})
    with pytest.raises(errors.QuintainError, match="nonsense"):
        machine.apply({"kind": "nonsense", "time": 0.0})
    machine.apply({"kind": "cancel", "time": 1.0})
    with pytest.raises(errors.StateError, match="it may become: CANCELED"):
        machine.check("pause")
    machine.check("kill")


SEVERAL = {"name": "random", "max_length": 6, "max_trials": 5, "max_concurrent_trials": 2}


def fail(machine, request_id, error="TypeError at model_def.py:3", reason="errored_at_start"):
    event = {"kind": "exit", "request_id": request_id, "exited_reason": reason, "time": 1.0}
    return machine.apply({**event, "reason": f"{error}: why", "error": error})


def start_several(**fields):
    machine = experiment_machine.ExperimentMachine(parse(SEVERAL, **fields))
    machine.apply({"kind": "start", "time": 0.0})
    return machine, list(machine.trials)


@pytest.mark.parametrize("reason", ["errored_at_start", "unusable"])
def test_the_same_error_of_two_trials_before_their_first_batch_ends_the_experiment(reason):
    machine, (first, second) = start_several()

    fail(machine, first, reason="errored_at_start")
    assert machine.state.value == "ACTIVE"
    effects = fail(machine, second, reason=reason)

    assert machine.state.value == "STOPPING_ERROR"
    assert machine.reason.startswith("2 trials in a row failed with the same error before their f")
    assert machine.reason.endswith("(max_identical_errors: 2): TypeError at model_def.py:3: why")
    assert effects.ended == [first, second]
    assert [machine.trials[name].state.value for name in (first, second)] == ["ERROR", "ERROR"]
    # They go on if the experiment does.
    machine.apply({"kind": "drained", "time": 2.0})
    assert machine.search.find_resumable(machine.config, machine.config) == [first, second]


def test_other_errors_break_the_row_and_a_trial_that_trains_lifts_the_limit():
    machine, (first, second) = start_several(max_identical_errors=2)

    fail(machine, first)
    fail(machine, second, "another")
    fail(machine, first, "a third")
    result = {"kind": "result", "request_id": first, "number": 1, "work": "TRAIN", "time": 1.0}
    machine.apply({**result, "num_batches": 4})
    fail(machine, second, "a third")

    assert machine.state.value == "ACTIVE"
    assert [machine.trials[name].restarts for name in (first, second)] == [2, 2]


def test_the_same_error_at_the_first_restart_ends_a_trial_without_the_other_restarts():
    machine, (first, _) = start_several(max_identical_errors=0, max_restarts=5)

    fail(machine, first)
    assert machine.trials[first].restarts == 1
    fail(machine, first)

    assert machine.trials[first].state.value == "ERROR"
    assert machine.trials[first].restarts == 1
    for name in list(machine.trials)[1:]:
        fail(machine, name)
    assert machine.state.value == "ACTIVE"


def test_processes_that_are_lost_killed_or_fail_later_count_as_ever():
    machine, (first, second) = start_several()

    for name in (first, second, first, second):
        event = {"kind": "failure", "request_id": name, "reason": "SIGKILL", "time": 1.0}
        machine.apply(event)
    assert machine.state.value == "ACTIVE"
    for name in (first, second):
        event = {"kind": "exit", "request_id": name, "exited_reason": "errored", "time": 1.0}
        machine.apply({**event, "reason": "the same"})

    assert [machine.trials[name].state.value for name in (first, second)] == ["ERROR", "ERROR"]
    assert machine.state.value == "ACTIVE"


EVENTS_TO = {
    "ACTIVE": [],
    "PAUSED": ["pause"],
    "STOPPING_COMPLETED": ["all work"],
    "STOPPING_CANCELED": ["cancel"],
    "STOPPING_ERROR": ["fatal"],
    "COMPLETED": ["all work", "drained"],
    "CANCELED": ["pause", "kill", "drained"],
    "ERROR": ["fatal", "drained"],
}
COMMANDS_OF = {
    "ACTIVE": ["pause", "activate", "cancel", "kill"],
    "PAUSED": ["pause", "activate", "cancel", "kill"],
    "STOPPING_COMPLETED": [],
    "STOPPING_CANCELED": ["cancel", "kill"],
    "STOPPING_ERROR": [],
    "COMPLETED": [],
    "CANCELED": ["cancel", "kill"],
    "ERROR": [],
}


def bring_to(state):
    machine, trial = start({"name": "single", "max_length": 4})
    for event in EVENTS_TO[state]:
        if event == "all work":
            do_all(machine, trial)
        else:
            machine.apply({"kind": event, "reason": "The disk is full.", "time": 5.0})
    assert machine.state.value == state
    return machine


COMMANDS = ("pause", "activate", "cancel", "kill")


@pytest.mark.parametrize(
    ("state", "command"), [(state, name) for state in COMMANDS_OF for name in COMMANDS_OF[state]]
)
def test_a_state_takes_its_commands(state, command):
    bring_to(state).check(command)


@pytest.mark.parametrize(
    ("state", "command"),
    [(state, name) for state in COMMANDS_OF for name in COMMANDS if name not in COMMANDS_OF[state]],
)
def test_a_state_refuses_the_other_commands(state, command):
    with pytest.raises(errors.StateError, match=f"is {state} and can't become"):
        bring_to(state).check(command)


@pytest.mark.parametrize(
    ("state", "reason"),
    [("COMPLETED", ""), ("CANCELED", "Killed."), ("ERROR", "The disk is full.")],
)
def test_an_experiment_that_ended_says_when_and_why(state, reason):
    machine = bring_to(state)

    assert (machine.reason, machine.end_time) == (reason, 5.0)


RANDOM = {"name": "random", "max_length": 4, "max_trials": 3, "max_concurrent_trials": 2}


def test_time_counts_while_the_experiment_is_active_and_a_master_runs():
    machine, trial = start(RANDOM | {"time_budget": 100})
    for kind, time in [("pause", 50.0), ("activate", 500.0), ("taken_up", 900.0)]:
        machine.apply({"kind": kind, "time": time})

    assert machine.find_time_left(920.0) == 30.0
    do(machine, trial)
    assert do(machine, trial) == "V"
    machine.apply({"kind": "time_up", "time": 950.0, "reason": "100 s are up."})
    machine.apply({"kind": "drained", "time": 951.0})
    assert (machine.state.value, machine.reason) == ("COMPLETED", "100 s are up.")
    # What has a result counts as completed.
    assert [one.state.value for one in machine.trials.values()] == ["COMPLETED", "CANCELED"]


def test_a_condition_ends_its_trial_or_the_search():
    machine, first = start(RANDOM)
    second = list(machine.trials.values())[1]
    stop = {"kind": "result", "number": 2, "work": "VALIDATE", "metric": 0.5, "time": 2.0}
    for trial in (first, second):
        do(machine, trial)
    machine.apply(
        {**stop, "request_id": first.request_id, "stop": "trial", "stop_reason": "enough"}
    )
    assert do(machine, first) == "C"
    assert (first.state.value, first.reason) == ("COMPLETED", "enough")
    assert len(machine.trials) == 3

    machine.apply(
        {**stop, "request_id": second.request_id, "stop": "search", "stop_reason": "found"}
    )
    assert (machine.state.value, machine.reason) == ("STOPPING_COMPLETED", "found")
