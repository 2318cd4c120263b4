import dataclasses
import json

from quintain.cli.platform import trial
from quintain.records.rows import checkpoint


def test_describe_shows_validations_and_checkpoints(quintain, calls_fake):
    code, stdout, _ = quintain("trial", "describe", 1)

    assert code == 0
    assert "hyperparameters  lr: 0.1" in stdout
    assert "accuracy=0.5" in stdout


def test_describe_counts_the_checkpoints_that_were_deleted(quintain, calls_fake):
    uuid, other = calls_fake.checkpoints
    deleted = dataclasses.replace(
        calls_fake.checkpoints[other], state=checkpoint.CheckpointState.DELETED
    )
    calls_fake.checkpoints[other] = deleted

    _, stdout, _ = quintain("trial", "describe", 2)
    assert (uuid in stdout, other in stdout) == (True, False)
    assert stdout.endswith("1 were deleted; --all shows them.\n")
    _, stdout, _ = quintain("trial", "describe", 2, "--all")
    assert (uuid in stdout, other in stdout) == (True, True)
    _, stdout, _ = quintain("trial", "describe", 2, "--json")
    assert len(json.loads(stdout)["checkpoints"]) == 2


def test_metrics_have_a_column_each(quintain, calls_fake):
    _, stdout, _ = quintain("trial", "metrics", 1)
    assert stdout.splitlines()[0].split() == ["BATCHES", "GROUP", "loss".upper(), "ACCURACY"]

    _, stdout, _ = quintain("trial", "metrics", 1, "--group", "validation", "--json")
    assert [row["metrics"] for row in json.loads(stdout)] == [{"accuracy": 0.5}]


def test_metrics_of_single_batches_are_a_curve(quintain, calls_fake):
    _, stdout, _ = quintain("trial", "metrics", 1, "--batches", "--csv")
    assert stdout.split() == ["batch,loss", "1,1.0", "2,0.5"]

    _, stdout, _ = quintain("trial", "metrics", 1, "--batches", "--json")
    assert json.loads(stdout)[1] == {"batch": 2, "metrics": {"loss": 0.5}}
    code, _, stderr = quintain("trial", "metrics", 1, "--batches", "--group", "training")
    assert (code, "leave one of them out" in stderr) == (2, True)


def test_logs_are_shown_filtered_and_cut(quintain, calls_fake):
    def lines(*arguments):
        return quintain("trial", "logs", 1, *arguments)[1].splitlines()

    assert lines() == [f"line {number}" for number in range(1, 6)]
    assert lines("--tail", 2) == ["line 4", "line 5"]
    assert lines("--tail", 0) == []
    assert lines("--grep", "3") == ["line 3"]
    assert lines("--source", "stderr") == []
    assert lines("--tail", 1, "-t")[0].endswith("stdout line 5")


def test_logs_are_followed_until_the_trial_has_ended(quintain, calls_fake, replace_sleep):
    running = calls_fake.trials[1]
    object.__setattr__(running, "state", type(running.state)("ACTIVE"))

    def pass_time(_):
        if len(calls_fake.logs) == 5:
            late = calls_fake.logs[0]
            calls_fake.logs.append(type(late)(1, 20.0, late.source, "the last line", 6))
        else:
            object.__setattr__(running, "state", type(running.state)("COMPLETED"))

    replace_sleep(trial, pass_time)

    _, stdout, _ = quintain("trial", "logs", 1, "--follow", "--tail", 1)

    assert stdout.splitlines() == ["line 5", "the last line"]


def test_trials_are_killed_and_run_again(quintain, calls_fake):
    quintain("trial", "kill", 1, 2)
    _, stdout, _ = quintain("trial", "rerun", 3)

    assert calls_fake.done == [("kill trial", 1), ("kill trial", 2), ("rerun trial", 3)]
    assert "Created experiment 2" in stdout


def test_a_note_is_written_and_shown(quintain, calls_fake):
    quintain("trial", "note", 1, "two words")
    assert calls_fake.done == [("note trial", 1, "two words")]
    calls_fake.trials[1] = dataclasses.replace(calls_fake.trials[1], note="two words")
    assert quintain("trial", "note", 1)[1] == "two words\n"
    assert "two words" in quintain("trial", "describe", 1)[1]


def test_lists_are_filtered_by_state(quintain, calls_fake):
    _, stdout, _ = quintain("trial", "list", 1, "--state", "error", "--json")

    assert [one["id"] for one in json.loads(stdout)] == [3]


def test_a_trial_is_continued_in_a_new_experiment(quintain, calls_fake):
    code, stdout, _ = quintain("trial", "continue", 1, "--set", "searcher.max_length=9")
    assert (code, stdout) == (0, "Created experiment 2, which goes on with trial 1.\n")
    assert calls_fake.done == [("continue trial", 1, ("searcher.max_length=9",))]
