import dataclasses
import errno
import os
import signal
import threading

import pytest

from quintain import errors
from quintain.cli import standard_streams
from quintain.cli.experiment import foreground
from quintain.process import told_again
from quintain.records.rows import experiment, states
from quintain.records.views import master_status


class Search:
    """Puts an experiment of a `FakeCalls` through states, one each time it is looked at."""

    def __init__(self, fake, *looks):
        self.fake = fake
        self.looks = list(looks)
        fake.experiments[4] = experiment.Experiment(4, states.ExperimentState.ACTIVE, {}, "", "")
        self.running = (9,)
        fake.get_status = self.get_status

    def get_status(self):
        if self.looks:
            look = self.looks.pop(0)
            if callable(look):
                look()
            else:
                self.set_state(look)
        state = self.fake.experiments[4].state
        return master_status.MasterStatus(
            (), (master_status.ExperimentStatus(4, state, running_trials=self.running),)
        )

    def set_state(self, name):
        former = self.fake.experiments[4]
        self.fake.experiments[4] = dataclasses.replace(
            former, state=states.ExperimentState(name), reason="why" if name == "ERROR" else ""
        )

    def end_processes(self):
        self.running = ()


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(foreground, "_POLL_SECS", 0.01)


@pytest.fixture(autouse=True)
def _hang_ups_are_put_back():
    former = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, former)


def run(fake, *, is_embedded=True):
    front = foreground._Foreground(fake, is_embedded=is_embedded, is_quiet=False)
    code, found = front.run(lambda calls: calls.get_experiment(4), fake)
    return code, found.state.value, front.quits_now


@pytest.mark.parametrize(("state", "expected"), [("COMPLETED", 0), ("ERROR", 1), ("CANCELED", 3)])
def test_the_exit_code_says_how_the_experiment_ended(calls_fake, capsys, state, expected):
    Search(calls_fake, "ACTIVE", "PAUSED", state)

    assert run(calls_fake) == (expected, state, False)
    assert f"Experiment 4 is {state}" in capsys.readouterr().out


def test_the_end_is_seen_at_once_where_the_master_is_in_this_process(calls_fake, monkeypatch):
    monkeypatch.setattr(foreground, "_POLL_SECS", 3600.0)
    Search(calls_fake, "ACTIVE", "COMPLETED")
    asked = []

    def is_over(number):
        asked.append(number)
        return len(asked) > 1

    front = foreground._Foreground(calls_fake, is_embedded=True, is_quiet=True, is_over=is_over)
    code, found = front.run(lambda calls: calls.get_experiment(4), calls_fake)

    assert (code, found.state.value, asked) == (0, "COMPLETED", [4, 4])


def test_its_view_of_the_page_is_named_before_it_is_shown(calls_fake, monkeypatch):
    Search(calls_fake, "COMPLETED")
    shown = []
    monkeypatch.setattr(
        foreground.page_links, "show", lambda build, *, view: shown.append((build(), view))
    )
    for is_quiet in (False, True):
        front = foreground._Foreground(
            calls_fake, is_embedded=True, is_quiet=is_quiet, build_link=lambda: "the link"
        )
        front.run(lambda calls: calls.get_experiment(4), calls_fake)
    assert shown == [("the link", "experiments/4")]


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_pauses_waits_for_the_trials_and_says_how_to_go_on(
    calls_fake, capsys, number, expected
):
    search = Search(calls_fake, "ACTIVE", lambda: press(number), lambda: None, lambda: None)
    search.looks.append(search.end_processes)

    assert run(calls_fake) == (expected, "PAUSED", False)
    assert calls_fake.done == [("pause", 4)]
    assert search.looks == []
    stderr = capsys.readouterr().err
    assert "Ctrl-C again quits at once" in stderr
    assert stderr.endswith("To go on:\n  quintain experiment activate 4\n")


def test_the_result_of_an_experiment_that_ends_while_it_is_paused_is_shown(calls_fake, capsys):
    search = Search(calls_fake, "ACTIVE", press, lambda: None)
    search.looks.append(lambda: (search.end_processes(), search.set_state("ERROR")))

    assert run(calls_fake) == (1, "ERROR", False)
    assert "Experiment 4 is ERROR: why" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("state", "looks", "expected"),
    [
        ("COMPLETED", [], (0, "COMPLETED", False)),
        ("STOPPING_CANCELED", [lambda: None, "CANCELED"], (3, "CANCELED", False)),
    ],
)
def test_the_result_of_an_experiment_that_ends_before_the_question_is_answered_is_shown(
    calls_fake, capsys, monkeypatch, state, looks, expected
):
    search = Search(calls_fake, "ACTIVE", press, *looks)
    monkeypatch.setattr(foreground, "_has_terminal", lambda: True)

    def answer(_):
        search.end_processes()
        search.set_state(state)
        return ""

    def refuse(experiment_id, command):
        raise errors.StateError(f"Experiment {experiment_id} can't be asked to {command}.")

    monkeypatch.setattr("click.termui.visible_prompt_func", answer)
    monkeypatch.setattr(calls_fake, "apply", refuse)

    assert run(calls_fake) == expected
    captured = capsys.readouterr()
    assert f"Experiment 4 is {expected[1]}" in captured.out
    assert "is paused" not in captured.err


def test_a_second_signal_quits_at_once(calls_fake, capsys, monkeypatch):
    monkeypatch.setattr(told_again, "REPEAT_SECS", 0.0)
    search = Search(calls_fake, "ACTIVE", press, press)

    assert run(calls_fake) == (130, "PAUSED", True)
    assert search.running == (9,)
    assert "work since the last checkpoints is lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("y", (130, "PAUSED", False)), ("n", (0, "COMPLETED", False))],
)
def test_somebody_at_a_terminal_is_asked(calls_fake, monkeypatch, answer, expected):
    search = Search(calls_fake, "ACTIVE", press)
    search.looks += [search.end_processes, "COMPLETED"] if answer == "n" else [search.end_processes]
    monkeypatch.setattr(foreground, "_has_terminal", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: answer)

    assert run(calls_fake) == expected


def test_ctrl_c_at_the_question_quits_at_once(calls_fake, monkeypatch):
    Search(calls_fake, "ACTIVE", press)
    monkeypatch.setattr(foreground, "_has_terminal", lambda: True)

    def ask(_):
        press()
        threading.Event().wait(5)

    monkeypatch.setattr("click.termui.visible_prompt_func", ask)

    assert run(calls_fake) == (130, "PAUSED", True)


@pytest.mark.parametrize("is_embedded", [True, False])
def test_a_closed_terminal_leaves_the_experiment_running(calls_fake, capsys, is_embedded):
    Search(calls_fake, "ACTIVE", lambda: press(signal.SIGHUP))
    front = foreground._Foreground(calls_fake, is_embedded=is_embedded, is_quiet=False)

    code, found = front.run(lambda calls: calls.get_experiment(4), calls_fake)

    assert (code, found.state.value, front.is_detached) == (129, "ACTIVE", True)
    assert (calls_fake.done, front.quits_now) == ([], False)
    assert "quintain experiment follow 4" in capsys.readouterr().err
    # What is done next is not ended by the next one.
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_lost_reader_leaves_the_experiment_running(calls_fake, monkeypatch):
    Search(calls_fake, "ACTIVE", "ACTIVE")
    monkeypatch.setattr(standard_streams, "is_lost", lambda: True)

    assert run(calls_fake) == (141, "ACTIVE", False)
    assert calls_fake.done == []


def test_a_terminal_that_is_closed_at_the_question_kills_nothing(calls_fake, monkeypatch):
    Search(calls_fake, "ACTIVE", press)
    monkeypatch.setattr(foreground, "_has_terminal", lambda: True)

    def ask(_):
        press(signal.SIGHUP)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("click.termui.visible_prompt_func", ask)

    assert run(calls_fake) == (129, "ACTIVE", False)


def test_a_terminal_that_is_closed_while_trials_save_themselves_ends_nothing(calls_fake):
    search = Search(calls_fake, "ACTIVE", press, lambda: None, lambda: press(signal.SIGHUP))
    search.looks += [lambda: None, search.end_processes]

    assert run(calls_fake)[1:] == ("PAUSED", False)
    assert search.looks == []


def test_what_was_started_with_nohup_does_not_hear_of_its_terminal(calls_fake):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Search(calls_fake, "ACTIVE", lambda: press(signal.SIGHUP), "COMPLETED")

    assert run(calls_fake) == (0, "COMPLETED", False)


def test_whoever_only_watches_leaves_without_pausing(calls_fake):
    Search(calls_fake, "ACTIVE", press)

    front = foreground._Foreground(calls_fake, is_embedded=False, is_quiet=False)

    assert front.watch(4) == 130
    assert calls_fake.done == []


def test_signals_do_afterwards_what_they_did_before(calls_fake):
    former = signal.getsignal(signal.SIGINT)
    Search(calls_fake, "COMPLETED")

    run(calls_fake)

    assert signal.getsignal(signal.SIGINT) is former
