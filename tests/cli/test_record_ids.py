import contextlib
import types

import pytest

from quintain import errors
from quintain.cli import record_ids
from quintain.client import master_client


@pytest.fixture
def master(monkeypatch, calls_fake):
    """Lets a master run, which answers with the records of `calls_fake`."""
    found = types.SimpleNamespace(address=None)
    monkeypatch.setattr(record_ids.home_lib, "find_master", lambda home: found)
    monkeypatch.setattr(
        master_client, "MasterClient", lambda connected: contextlib.nullcontext(calls_fake)
    )
    return calls_fake


def complete(kind, begun=""):
    return [item.value for item in getattr(record_ids, f"complete_{kind}")(None, None, begun)]


def test_ids_are_completed_the_newest_first(master):
    assert complete("experiment") == ["2", "1"]
    assert complete("experiment", "1") == ["1"]
    assert complete("trial") == [str(number) for number in sorted(master.trials, reverse=True)]


def test_only_checkpoints_that_are_there_are_completed(master):
    found = complete("checkpoint")

    assert found
    assert all(master.checkpoints[uuid].state.value == "COMPLETED" for uuid in found)


def test_a_master_that_does_not_answer_completes_nothing(master, monkeypatch):
    def fail():
        raise errors.MasterUnreachableError("no answer")

    monkeypatch.setattr(master, "list_trials", fail)

    assert complete("trial") == []


def test_without_a_master_nothing_is_completed(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("QUINTAIN_HOME", str(tmp_path / "none"))

    assert complete("experiment") == []
    assert capsys.readouterr() == ("", "")
    assert not (tmp_path / "none").exists()
