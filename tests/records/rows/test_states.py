import itertools

import pytest

from quintain import errors
from quintain.records.rows import states

# Row: what an experiment is; columns: what it may become, in the order of the rows.
TABLE = """
    ACTIVE              -  yes yes yes yes .   .   .
    PAUSED             yes  -  yes yes yes .   .   .
    STOPPING_COMPLETED  .   .   -   .  yes yes .   .
    STOPPING_CANCELED   .   .   .   -  yes .   yes .
    STOPPING_ERROR      .   .   .   .   -  .   .   yes
    COMPLETED           .   .   .   .   .  -   .   .
    CANCELED            .   .   .   .   .  .   -   .
    ERROR               .   .   .   .   .  .   .   -
"""
ROWS = {row.split()[0]: row.split()[1:] for row in TABLE.strip().splitlines()}
PAIRS = list(itertools.product(states.ExperimentState, repeat=2))


def is_allowed(pair):
    former, new = pair
    return ROWS[former.value][list(ROWS).index(new.value)] != "."


def test_the_table_has_every_state():
    assert list(ROWS) == [state.value for state in states.ExperimentState]


@pytest.mark.parametrize(("former", "new"), list(filter(is_allowed, PAIRS)))
def test_an_experiment_may_stay_or_go_on(former, new):
    states.check_transition(former, new)


@pytest.mark.parametrize(("former", "new"), list(itertools.filterfalse(is_allowed, PAIRS)))
def test_other_transitions_are_errors(former, new):
    with pytest.raises(errors.StateError, match=f"is {former.value} and can't become {new.value}"):
        states.check_transition(former, new)


def test_the_error_lists_what_may_follow():
    S = states.ExperimentState  # noqa: N806

    with pytest.raises(errors.StateError, match="may become: CANCELED, STOPPING_ERROR"):
        states.check_transition(S.STOPPING_CANCELED, S.PAUSED)
    with pytest.raises(errors.StateError, match="may become: nothing; it has ended"):
        states.check_transition(S.ERROR, S.ACTIVE)


@pytest.mark.parametrize("state", states.ExperimentState)
def test_every_state_is_running_stopping_or_terminal(state):
    is_running = state in (states.ExperimentState.ACTIVE, states.ExperimentState.PAUSED)

    assert is_running + state.is_stopping + state.is_terminal == 1


def test_a_trial_has_ended_unless_it_is_active():
    terminal = {state.value for state in states.TrialState if state.is_terminal}

    assert terminal == {"COMPLETED", "CANCELED", "ERROR"}
