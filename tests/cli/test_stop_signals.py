"""Commands that save first and end at once when they are asked again hear each request once."""

import os
import signal

import pytest

from quintain.cli.experiment import foreground
from quintain.cli.platform import agent as agent_command
from quintain.cli.platform import master as master_command
from quintain.cli.training import local_cluster
from quintain.process import told_again

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Told:
    """An agent or a master that notes what it is asked for."""

    def __init__(self):
        self.heard = []

    def drain(self, reason):
        self.heard.append("save")

    def stop(self):
        self.heard.append("at once")

    def request_stop(self, *, drain):
        self.heard.append("save" if drain else "at once")

    @property
    def is_stop_requested(self):
        return bool(self.heard)


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    former = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.fixture(params=["agent", "master"])
def told(request, tmp_path):
    made = Told()
    if request.param == "agent":
        agent_command._stop_on_signals(made)
    else:
        master_command._stop_on_signals(made, tmp_path / "log")
    return made


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_what_is_told_twice_lets_trials_save_themselves(told, second, monkeypatch):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 3600.0)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), second)

    assert told.heard == ["save"]


def test_a_second_request_ends_at_once(told, monkeypatch):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 0.0)
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)

    assert told.heard == ["save", "at once"]


def test_a_search_in_the_foreground_hears_once_what_is_told_twice(monkeypatch):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 3600.0)
    with foreground.Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.event.is_set()
        interrupts.clear()
        os.kill(os.getpid(), signal.SIGTERM)

        assert not interrupts.event.is_set()


def test_a_terminal_that_ends_at_the_same_moment_is_noted():
    with foreground.Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)

        assert interrupts.is_hung_up


@pytest.mark.parametrize(("repeat_secs", "expected"), [(3600.0, False), (0.0, True)])
def test_workers_of_this_machine_are_ended_at_once_by_a_second_request_only(
    monkeypatch, tmp_path, repeat_secs, expected
):
    monkeypatch.setattr(told_again, "REPEAT_SECS", repeat_secs)
    cluster = local_cluster.LocalCluster.__new__(local_cluster.LocalCluster)
    cluster._signal, cluster._is_signal_repeated = None, False
    with told_again.handled(cluster._note_signal):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)

    assert cluster._is_signal_repeated is expected
