import pytest

from quintain.master import log_deduplication
from quintain.records.rows import log

STDOUT = log.LogSource.STDOUT


def row(number, text=None, trial_id=1, source=STDOUT):
    return log.LogRow(trial_id, 100.0 + number, source, text or f"line {number}")


@pytest.fixture
def master(make_master, config_text):
    made = make_master()
    made.commands.create_experiment(config_text({"name": "single", "max_length": 4}), None)
    return made


@pytest.fixture
def known(master, store, monkeypatch):
    monkeypatch.setattr(log_deduplication, "_PAGE_LINES", 3)
    with store.transaction() as session:
        session.add_logs([row(number) for number in range(8)])
        session.add_logs([row(99, "the master says", source=log.LogSource.MASTER)])
        session.add_logs([row(8, "twice"), row(8, "twice")])
    return log_deduplication.LogDeduplication(store)


def test_lines_of_processes_that_were_taken_over_are_stored_once(known):
    known.expect(1)

    again = [row(number) for number in range(5, 8)]
    assert known.drop([*again, row(8, "twice")]) == []
    # The second one of two that are the same, a third one that is new, and what is later.
    rest = [row(8, "twice"), row(8, "twice"), row(9)]
    assert known.drop(rest) == rest[1:]
    # Of another process of the trial, which writes on its own.
    assert known.drop([row(2), row(2.5), row(9)]) == [row(2.5), row(9)]


def test_lines_of_other_trials_are_left_alone(known):
    assert known.drop([row(1)]) == [row(1)]
    known.expect(2)
    assert known.drop([row(1)]) == [row(1)]
