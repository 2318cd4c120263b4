import time
import types

import pytest

from quintain.master.machine import active_time
from quintain.records.rows import states

HOURS = 3600.0


@pytest.fixture
def clock(monkeypatch):
    """Returns a machine's clocks: the time of day, and the one that nobody sets."""
    set_to = types.SimpleNamespace(day=1e9, steady=5.0)
    fields = {"time": lambda: set_to.day, "monotonic": lambda: set_to.steady}
    clock = types.SimpleNamespace(**{**vars(time), **fields})
    monkeypatch.setattr(active_time, "time", clock)
    return set_to


def test_setting_the_clock_neither_uses_up_nor_extends_a_budget_of_time(
    make_master, config_text, store, clock
):
    master = make_master()
    search = {"name": "single", "max_length": 10, "time_budget": 100}
    created = master.commands.create_experiment(config_text(search), None)

    def look():
        master.tick()
        with store.reading() as session:
            found = session.get_experiment(created.id)
        return found.state, next((one.eta_secs for one in master.status().experiments), None)

    for day in (3 * HOURS, -48 * HOURS, 1e6):
        clock.day += day
        clock.steady += 10.0
        assert look()[0] is states.ExperimentState.ACTIVE
    assert look()[1] == 70.0
    clock.steady += 71.0
    assert look()[0] is not states.ExperimentState.ACTIVE


def test_a_master_on_a_machine_that_was_restarted_goes_on_with_the_budget(
    make_master, config_text, clock
):
    search = {"name": "single", "max_length": 10, "time_budget": 100}
    clock.steady = 5000.0
    master = make_master()
    created = master.commands.create_experiment(config_text(search), None)
    clock.steady += 30.0
    for command in ("pause", "activate"):
        master.commands.apply(created.id, command)
    clock.steady = 3.0  # It counts from the start of the machine.
    master = make_master()
    clock.steady += 20.0
    assert master.status().experiments[0].eta_secs == 50.0


def test_events_of_older_masters_have_the_time_of_day_only():
    spent = active_time.ActiveTime()
    spent.note({"kind": "start", "time": 1000.0}, is_active=False)
    spent.note({"kind": "result", "time": 1030.0}, is_active=True)
    spent.note({"kind": active_time.TAKEN_UP, "time": 2000.0, "steady_secs": 7.0}, is_active=True)
    spent.note({"kind": "result", "time": 9000.0, "steady_secs": 17.0}, is_active=True)
    assert spent.until(19.0) == 42.0
