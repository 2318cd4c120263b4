import dataclasses
import io

import pytest
from rich import console

from quintain.cli.display import experiment_display, snapshot
from quintain.records.rows import states
from quintain.records.views import master_status
from quintain.terminal import screens


@pytest.fixture
def taken(calls_fake):
    return snapshot.Follower(calls_fake, 1).take()


def test_lines_tell_what_happened_and_only_once(taken, capsys):
    display = experiment_display.ExperimentDisplay(screens.PlainScreen())
    display.show(taken)
    first = capsys.readouterr().err.splitlines()
    display.show(taken)
    again = capsys.readouterr().err

    assert first == [
        "trial 1: created: lr=0.1 net=(units=8)",
        "trial 1: accuracy 0.5, 100 batches done",
        "trial 1: COMPLETED",
        "trial 2: created: lr=0.05 net=(units=16)",
        "trial 2: accuracy 0.75, 200 batches done",
        "trial 2: COMPLETED",
        "trial 3: created: lr=0.033333 net=(units=24)",
        "trial 3: ERROR: ValueError: no luck",
        "experiment 1: COMPLETED  100 %  best accuracy 0.75 (trial 2)  3 trials  slots 0/1 (+1 of "
        "others)",
    ]
    assert again == ""


def test_lines_tell_of_restarts_and_new_metrics(taken, capsys):
    display = experiment_display.ExperimentDisplay(screens.PlainScreen())
    display.show(taken)
    capsys.readouterr()
    changed = dataclasses.replace(taken.trials[0], latest_metric=0.6, restarts=2, total_batches=300)
    display.show(dataclasses.replace(taken, trials=[changed, *taken.trials[1:]]))

    assert capsys.readouterr().err.splitlines() == [
        "trial 1: started again (restart 2)",
        "trial 1: accuracy 0.6, 300 batches done",
    ]


def test_the_table_shows_what_trials_do_and_marks_the_best(taken):
    running = dataclasses.replace(taken.trials[0], state=states.TrialState.ACTIVE)
    work = (master_status.TrialWork(1, "training 40/200", 0.2),)
    status = master_status.ExperimentStatus(1, states.ExperimentState.ACTIVE, work=work)
    taken = dataclasses.replace(taken, trials=[running, *taken.trials[1:]], status=status)
    text = io.StringIO()
    console.Console(file=text, width=60).print(experiment_display.build_table(taken, 10))

    lines = text.getvalue().splitlines()
    assert lines[0].startswith("Experiment 1  digits")
    assert any(line.split()[:5] == ["2", "completed", "200", "0.75", "0.75*"] for line in lines)
    assert any(line.split()[:3] == ["1", "training", "40/200"] for line in lines)
    assert any(line.split()[:2] == ["3", "error"] for line in lines)


def test_a_table_without_room_shows_what_runs_and_the_best(taken):
    text = io.StringIO()
    console.Console(file=text, width=120).print(experiment_display.build_table(taken, 1))

    assert "0.75*" in text.getvalue()
    assert "... and 2 more" in text.getvalue()


def test_what_keeps_the_master_from_going_on_is_shown_at_once(taken, capsys):
    display = experiment_display.ExperimentDisplay(screens.PlainScreen())
    display.show(taken)
    capsys.readouterr()
    master = dataclasses.replace(taken.master, problem="The disk is full.")
    display.show(dataclasses.replace(taken, master=master))

    assert capsys.readouterr().err.rstrip().endswith("PROBLEM: The disk is full.")


def test_a_long_reason_is_shown_by_its_ends():
    lines = [f"line {number}" for number in range(30)]
    assert experiment_display.shorten("\n".join(lines)).splitlines() == [
        *lines[:4],
        "  ...",
        *lines[-4:],
    ]
    assert experiment_display.shorten("a\nb") == "a\nb"


def test_only_what_has_changed_of_the_trials_is_asked_for(calls_fake, monkeypatch):
    asked, changed = [], calls_fake.list_trials(1)

    def follow(experiment_id, cursor=""):
        asked.append(cursor)
        found = type(calls_fake).follow(calls_fake, experiment_id, cursor)
        return dataclasses.replace(found, cursor=f"c-{len(asked)}", trials=changed)

    monkeypatch.setattr(calls_fake, "follow", follow)
    follower = snapshot.Follower(calls_fake, 1)
    first = follower.take()
    changed = [dataclasses.replace(first.trials[1], total_batches=700)]
    second = follower.take()

    assert asked == ["", "c-1"]
    assert [each.id for each in second.trials] == [1, 2, 3]
    assert [each.total_batches for each in second.trials] == [100, 700, 300]
    assert [each.total_batches for each in first.trials] == [100, 200, 300]


def test_lost_machines_are_named(taken):
    master = dataclasses.replace(taken.master, lost_nodes=tuple("abcdefg"))
    assert "LOST: a, b, c, d, e and 2 more" in dataclasses.replace(taken, master=master).summarize()
