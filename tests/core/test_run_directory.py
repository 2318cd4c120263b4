"""The directory of a run: what it is called, who is in it, and what a failed start leaves there."""

import errno
import os
import shutil

import pytest

from quintain import errors
from quintain.checkpoints import run_lock
from quintain.run import history, run_options, train_lib

SHORT = {"train_steps": 10, "steps_per_loop": 5, "checkpoint_interval": 5, "validation_interval": 5}
BEST = {
    "best_checkpoint_export_subdir": "best",
    "best_checkpoint_eval_metric": "validation_loss",
    "best_checkpoint_metric_comp": "lower",
}


def train(params, directory, mode="train_and_eval", experiment="test/line", **kwargs):
    return train_lib.train_from_config(
        params, mode, str(directory), experiment=experiment, **kwargs
    )


@pytest.fixture
def params(line_params):
    return line_params({"trainer": {**SHORT, **BEST}, "runtime": {"seed": 1}})


@pytest.fixture
def longer(line_params):
    return line_params({"trainer": {**SHORT, **BEST, "train_steps": 20}, "runtime": {"seed": 1}})


@pytest.mark.slow
def test_a_run_in_any_directory_is_resumed_and_evaluated_as_elsewhere(tmp_path, params, longer):
    name, results = "a [0] ü", []
    for directory in (tmp_path / name, tmp_path / "a 0 ü"):
        train(params, directory)
        results.append((train(longer, directory).logs, train(longer, directory, "eval").logs))

    assert results[0] == results[1]
    assert sorted(os.listdir(tmp_path / name)) == sorted(os.listdir(tmp_path / "a 0 ü"))
    assert sorted(os.listdir(tmp_path / name / "best")) == sorted(
        os.listdir(tmp_path / "a 0 ü" / "best")
    )


@pytest.mark.slow
def test_a_refused_metric_leaves_nothing_and_binds_nobody(tmp_path, params, line_params, caplog):
    refused = line_params({"trainer": {**SHORT, **BEST, "best_checkpoint_eval_metric": "nothing"}})

    with pytest.raises(errors.ConfigError, match="best_checkpoint_eval_metric: got 'nothing'"):
        train(refused, tmp_path / "run")
    left = os.listdir(tmp_path)
    result = train(params, tmp_path / "run")

    assert left == []
    assert result.is_complete
    assert "settings differ" not in caplog.text


def test_a_first_step_that_fails_leaves_no_settings(tmp_path, params, monkeypatch):
    def fail(*args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr("quintain.core.base_task.Task.train_step", fail)

    with pytest.raises(Exception, match="ZeroDivisionError"):
        train(params, tmp_path / "run")

    assert os.listdir(tmp_path / "run") == ["train"]  # Summaries, which bind nobody.


@pytest.mark.slow
def test_settings_of_a_run_that_was_killed_before_its_first_step_bind_nobody(
    tmp_path, params, caplog
):
    (tmp_path / "params.yaml").write_text("experiment: another/one\nruntime: {seed: 5}\n")

    assert train(params, tmp_path).is_complete
    assert "another/one" in (tmp_path / "params.yaml.1").read_text()
    assert "settings differ" not in caplog.text


def test_a_second_training_is_refused_and_changes_nothing(tmp_path, params):
    with (
        run_lock.hold(str(tmp_path)),
        pytest.raises(errors.ConfigError, match="is in use by another run: process"),
    ):
        train(params, tmp_path)

    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_evaluations_go_on_beside_a_training(tmp_path, params):
    train(params, tmp_path)

    with run_lock.hold(str(tmp_path)):
        evaluated = train(params, tmp_path, "eval")
        continuous = train(params, tmp_path, "continuous_eval")

    assert evaluated.logs == continuous.logs


@pytest.mark.slow
def test_an_evaluation_that_could_keep_no_results_says_so_before_it_begins(tmp_path, params):
    train(params, tmp_path)
    (tmp_path / f".writable-{os.getpid()}").mkdir()

    with pytest.raises(
        errors.ConfigError, match=r"can't be written to: .* evaluate a copy of it\."
    ):
        train(params, tmp_path, "eval")


@pytest.mark.slow
def test_a_record_that_cannot_be_written_any_more_is_named(tmp_path, params, monkeypatch):
    def fail(path, line):
        raise errors.OutputError(f"{path}: can't be written: Permission denied.")

    monkeypatch.setattr(history.whole_files, "append", fail)

    with pytest.raises(errors.OutputError, match=r"training\.jsonl: can't be written"):
        train(params, tmp_path)


@pytest.mark.parametrize("name", ["train", "validation"])
def test_what_is_in_the_way_of_summaries_is_named(tmp_path, params, name):
    (tmp_path / name).touch()

    with pytest.raises(errors.OutputError, match=name):
        train(params, tmp_path)


@pytest.mark.slow
def test_a_full_disk_in_mid_run_is_said_with_the_file(tmp_path, params, monkeypatch):
    train(params, tmp_path)
    shutil.rmtree(tmp_path / "best")
    replace = os.replace

    def fail(source, target):
        if str(target).endswith("info.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)

    with pytest.raises(errors.OutputError, match=r"info\.json: can't be written: No space left"):
        train(params, tmp_path, "eval")


@pytest.mark.long("Further cases of a test of which some run every time", but=["train_actions"])
@pytest.mark.slow
@pytest.mark.parametrize("event", ["train_actions", "eval_actions"])
def test_a_directory_that_is_removed_in_mid_run_is_an_error_that_can_be_gone_on_with(
    tmp_path, params, event
):
    steps = []

    def remove(output):
        steps.append(output)
        if len(steps) == 2:  # After the last step, and after the last evaluation.
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(errors.OutputError, match="was removed while the run was going on") as error:
        train(params, tmp_path / "run", options=run_options.RunOptions(**{event: [remove]}))

    assert "ckpt-10' and the settings" in str(error.value)
    assert train(params, tmp_path / "run").step == 10
