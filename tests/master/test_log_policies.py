import random

import pytest

from quintain.master import log_policies
from quintain.records.rows import log, states, trial, workload

SINGLE = {"name": "single", "max_length": 6}


@pytest.fixture
def fail(make_master, fake_launcher, config_text, store):
    """Returns what lets a trial write lines and fail, and returns its record then."""

    def run(policies, lines, *, is_reported, message="broken", num_slots=2):
        master = make_master(num_slots=num_slots)
        text = config_text(SINGLE, log_policies=policies)
        experiment_id = master.commands.create_experiment(text, None).id
        master.tick()
        (launch,) = fake_launcher.alive.values()
        identity = trial.ProcessIdentity(1, 1.0, launch.launch_id)
        master.workers.start_run(launch.trial_id, identity)
        source = log.LogSource.STDERR
        fake_launcher.lines = [log.LogRow(launch.trial_id, 1.0, source, line) for line in lines]
        if is_reported:
            reason = workload.ExitedReason.ERRORED
            master.workers.report_exit(launch.trial_id, launch.launch_id, reason, message)
        fake_launcher.end(launch.launch_id, exit_code=1, last_lines=[message])
        master.tick()
        with store.reading() as session:
            (found,) = session.list_trials(experiment_id)
        return found, [each.slots[0].id for each in fake_launcher.alive.values()]

    return run


@pytest.mark.parametrize("is_reported", [True, False])
@pytest.mark.parametrize("is_in_lines", [True, False])
def test_a_trial_is_not_started_again_where_its_log_says_so(fail, is_reported, is_in_lines):
    policies = [{"name": "CUDA OOM", "pattern": "out of .em", "action": "cancel_retries"}]
    lines, message = ["fine", "GPU out of memory!"], "broken"
    if not is_in_lines:
        lines, message = lines[:1], lines[1]

    found, slots = fail(policies, lines, is_reported=is_reported, message=message)

    assert (found.state, found.restarts, slots) == (states.TrialState.ERROR, 0, [])
    assert "Its log says: CUDA OOM. It is not started again (cancel_retries)." in found.reason


def test_a_trial_is_started_on_other_slots(fail):
    policies = [{"pattern": "ECC", "action": {"type": "exclude_node"}}]

    found, slots = fail(policies, ["uncorrectable ECC error"], is_reported=True)

    assert (found.state, found.restarts, slots) == (states.TrialState.ACTIVE, 1, [1])


def test_a_trial_without_other_slots_is_not_started_again(fail):
    policies = [{"pattern": "ECC", "action": "exclude_node"}]

    found, slots = fail(policies, ["ECC"], is_reported=False, num_slots=1)

    assert (found.state, slots) == (states.TrialState.ERROR, [])
    assert "there are no slots but those that it failed on" in found.reason


@pytest.mark.parametrize("lines", [["all is well"], ["ECC"]])
def test_other_failures_are_tried_again(fail, lines):
    policies = [{"pattern": "memory", "action": "cancel_retries"}, {"pattern": "ECC"}]

    found, slots = fail(policies, lines, is_reported=True)

    assert (found.state, found.restarts, slots) == (states.TrialState.ACTIVE, 1, [0])
    assert ("Its log says: 'ECC'." in found.reason) == (lines == ["ECC"])


@pytest.mark.timeout(20)
def test_a_pattern_that_backtracks_does_not_hold_the_master(fail):
    policies = [{"pattern": "^(a+)+$", "action": "cancel_retries"}]

    found, slots = fail(policies, ["a" * 60 + "!"], is_reported=True)

    assert (found.state, found.restarts, slots) == (states.TrialState.ACTIVE, 1, [0])


def test_an_experiment_whose_patterns_are_slow_ends(
    make_master, fake_launcher, config_text, store, monkeypatch
):
    monkeypatch.setattr(log_policies, "MOST_SLOW_SECS", 0.05)
    # RE2 gives up its automaton for this pattern and these lines.
    policies = [{"pattern": "[ab]*a[ab]{900}c", "action": "cancel_retries"}]
    line = "".join(random.Random(1).choices("ab", k=2000))
    master = make_master(num_slots=1)
    created = master.commands.create_experiment(config_text(SINGLE, log_policies=policies), None).id
    master.tick()
    (launch,) = fake_launcher.alive.values()
    fake_launcher.lines = [log.LogRow(launch.trial_id, 1.0, log.LogSource.STDOUT, line)] * 100

    master.tick()

    with store.reading() as session:
        found = session.get_experiment(created)
    assert found.state is states.ExperimentState.STOPPING_ERROR
    assert "log_policies: to search lines for the patterns took more than" in found.reason
