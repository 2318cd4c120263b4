import pytest

from quintain.records.rows import states


@pytest.mark.parametrize("command", ["pause", "activate", "cancel"])
def test_commands_go_to_all_experiments_that_are_named(quintain, calls_fake, command):
    code, stdout, _ = quintain("experiment", command, 2, 1)

    assert code == 0
    assert calls_fake.done == [(command, 2), (command, 1)]
    assert "Experiment 1 is COMPLETED." in stdout


@pytest.mark.parametrize("words", [("cancel", "--now"), ("kill",)])
def test_cancel_at_once_is_kill(quintain, calls_fake, words):
    quintain("experiment", *words, 2)

    assert calls_fake.done == [("kill", 2)]


def test_archive_of_one_that_runs_fails_and_the_others_are_archived(quintain, calls_fake):
    code, stdout, stderr = quintain("experiment", "archive", 2, 1)

    assert code == 1
    assert "Error: Experiment 2 is ACTIVE." in stderr
    assert stdout == "Archived experiment 1.\n"


def test_delete_asks_first(quintain, calls_fake, monkeypatch):
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
    code, _, _ = quintain("experiment", "delete", 1)
    assert code == 130
    assert calls_fake.done == []

    code, stdout, _ = quintain("experiment", "delete", 1, "--yes")
    assert (code, stdout) == (0, "Deleted experiment 1.\n")
    assert calls_fake.done == [("delete", 1)]


def test_wait_returns_how_the_experiment_ended(quintain, calls_fake):
    code, stdout, _ = quintain("experiment", "wait", 1)

    assert code == 0
    assert stdout == "Experiment 1 is COMPLETED after 1:30.\n"


@pytest.mark.parametrize(("state", "expected"), [("ERROR", 1), ("CANCELED", 3)])
def test_wait_fails_where_the_experiment_did(quintain, calls_fake, state, expected):
    experiment = calls_fake.experiments[1]
    object.__setattr__(experiment, "state", states.ExperimentState(state))
    object.__setattr__(experiment, "reason", "all trials failed")

    code, stdout, _ = quintain("experiment", "wait", 1)

    assert code == expected
    assert "all trials failed" in stdout


def test_wait_gives_up_after_its_timeout(quintain, calls_fake):
    code, _, stderr = quintain("experiment", "wait", 2, "--timeout", 0.01)

    assert code == 5
    assert "Experiment 2 is ACTIVE" in stderr


def test_labels_are_added_and_removed(quintain, calls_fake):
    _, stdout, _ = quintain("experiment", "label", "add", 1, "c", "a")
    assert stdout == "Labels of experiment 1: a, b, c\n"

    _, stdout, _ = quintain("experiment", "label", "remove", 1, "b")
    assert stdout == "Labels of experiment 1: a, c\n"

    code, _, stderr = quintain("experiment", "label", "remove", 1, "z")
    assert code == 2
    assert "has no label 'z'; it has a, c" in stderr


@pytest.mark.parametrize(
    ("arguments", "change"),
    [
        (("description", 1, "some words"), {"description": "some words"}),
        (("weight", 1, "2.5"), {"weight": 2.5}),
        (("max-slots", 1, 4), {"max_slots": 4}),
        (("priority", 1, 10), {"priority": 10}),
        (("max-trials", 1, 64), {"max_trials": 64}),
        (
            ("gc-policy", 1, "--save-trial-best", 3, "--save-experiment-best=0"),
            {"checkpoint_storage": {"save_experiment_best": 0, "save_trial_best": 3}},
        ),
    ],
)
def test_settings_are_changed(quintain, calls_fake, arguments, change):
    code, _, stderr = quintain("experiment", "set", *arguments)

    assert (code, stderr) == (0, "")
    assert calls_fake.done == [("update", 1, change)]


@pytest.mark.parametrize(
    "arguments",
    [("priority", 1, 100), ("weight", 1, 0), ("max-slots", 1, "x"), ("gc-policy", 1)],
)
def test_settings_out_of_range_are_bad_input(quintain, calls_fake, arguments):
    code, _, _ = quintain("experiment", "set", *arguments)

    assert code == 2
    assert calls_fake.done == []


def test_fork_and_continue_pass_overrides_on(quintain, calls_fake):
    _, stdout, _ = quintain("experiment", "fork", 1, "--set", "searcher.max_trials=8")
    assert stdout == "Created experiment 2 from experiment 1.\n"

    _, stdout, _ = quintain(
        "experiment", "continue", 1, "--set", "searcher.max_trials=9", "--detach"
    )
    assert stdout == "Experiment 1 goes on.\n"
    assert calls_fake.done == [
        ("fork", 1, None, ("searcher.max_trials=8",)),
        ("continue", 1, ("searcher.max_trials=9",)),
    ]


def test_rewind_and_extend_say_what_goes_on(quintain, calls_fake, tmp_path):
    (tmp_path / "wider.yaml").write_text("lr: {type: double, minval: 0, maxval: 9}")
    inherited = {**calls_fake.experiments[2].config["searcher"], "inherited": [1, 2]}
    calls_fake.experiments[2].config["searcher"] = inherited
    _, stdout, _ = quintain(
        "experiment", "rewind", 1, "--to-trial", 2, "--searcher", "tpe",
        "--space", tmp_path / "wider.yaml",
    )  # fmt: skip
    assert stdout == "Created experiment 2 from experiment 1, with which it shares 2 trials.\n"

    _, stdout, _ = quintain("experiment", "extend", 1, "--max-trials", 9, "--max-length", 20)
    assert stdout == "Experiment 1 goes on.\n"
    (rewound, extended) = calls_fake.done
    assert rewound[:4] == ("rewind", 1, 2, "tpe")
    assert "maxval: 9" in rewound[4]
    assert extended == ("continue", 1, ("searcher.max_trials=9", "searcher.max_length=20"))
    code, _, stderr = quintain("experiment", "extend", 1)
    assert code == 2
    assert "Give --max-trials, --max-length, or both." in stderr


def test_a_misspelt_command_names_the_nearest(quintain):
    code, _, stderr = quintain("experiment", "puase", 1)

    assert code == 2
    assert "Did you mean 'pause'?" in stderr


def test_wait_does_not_wait_for_a_master_that_never_comes(quintain, calls_fake, monkeypatch):
    monkeypatch.setattr("quintain.cli.experiment.commands.MASTER_GRACE_SECS", 0.02)

    code, _, stderr = quintain("experiment", "wait", 2, "--polling-interval", 0.01)

    assert code == 1
    assert "Experiment 2 is ACTIVE, but no master runs" in stderr


def test_activate_follows_one_only(quintain, calls_fake):
    code, _, stderr = quintain("experiment", "activate", 1, 2, "--follow")

    assert code == 2
    assert "expected one" in stderr
