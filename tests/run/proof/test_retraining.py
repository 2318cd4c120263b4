"""Steps trained again and runs compared, with a task that trains in milliseconds."""

import shutil

import pytest

from quintain import errors
from quintain.checkpoints import receipt_check, receipts
from quintain.run import train_lib
from quintain.run.proof import comparison, retraining, run_facts
from tests.line_task import line_params, line_task_is_registered

pytestmark = pytest.mark.slow

__all__ = ["line_params", "line_task_is_registered"]


def train(params, directory, **kwargs):
    params.lock()
    train_lib.train_from_config(
        params, "train_and_eval", str(directory), experiment="test/line", **kwargs
    )


@pytest.fixture
def run(tmp_path, line_params):
    directory = tmp_path / "lauf ü"
    train(line_params({"runtime": {"seed": 3}}), directory)
    return directory


def test_steps_trained_again_are_equal_to_the_bit(run):
    before = sorted(path.name for path in run.iterdir())

    found = retraining.retrain(str(run), 10, 30)

    assert found.describe() == "equal to the bit at 20, 30."
    assert sorted(path.name for path in run.iterdir()) == before
    assert receipt_check.verify(str(run), run_facts.read_settings(str(run))).findings == []


def test_names_the_first_step_and_the_setting_that_differs(run):
    rate = "trainer.optimizer_config.learning_rate.constant.learning_rate"

    found = retraining.retrain(str(run), 10, 30, [f"{rate}=0.02"])

    assert (found.step, found.equal_steps) == (20, [])
    assert f"config {rate}: 0.01 -> 0.02" in found.facts
    assert "weights are apart by" in found.describe()


def test_a_constant_learning_rate_that_is_changed_on_resume_is_used(run, line_params):
    rate = {"learning_rate": {"constant": {"learning_rate": 0.5}}}
    changed = line_params(
        {"runtime": {"seed": 3}, "trainer": {"train_steps": 50, "optimizer_config": rate}}
    )

    train(changed, run, allow_config_change=True)

    reader = receipts.literal_paths.read(str(run / "ckpt-50"))
    key = "optimizer/_learning_rate/.ATTRIBUTES/VARIABLE_VALUE"
    assert float(reader.get_tensor(key)) == 0.5


def test_diff_names_the_first_step_at_which_runs_differ(run, tmp_path, line_params):
    other = tmp_path / "other"
    shutil.copytree(run, other)
    train(line_params({"runtime": {"seed": 3}, "trainer": {"train_steps": 60}}), run)
    rate = {"learning_rate": {"constant": {"learning_rate": 0.5}}}
    trainer = {"train_steps": 60, "optimizer_config": rate}
    changed = line_params({"runtime": {"seed": 3}, "trainer": trainer})
    train(changed, other, allow_config_change=True)

    found = comparison.compare(str(run), str(other))

    assert (found.equal_steps, found.step) == ([10, 20, 30, 40], 50)
    assert [one.partition(":")[0] for one in found.facts] == [
        "config trainer.optimizer_config.learning_rate.constant.learning_rate"
    ]


def test_refuses_steps_without_receipt_and_changed_checkpoints(run, tmp_path):
    with pytest.raises(errors.CheckpointError, match=r"--to: got 25, .* Give one of 20, 30, 40"):
        retraining.retrain(str(run), 10, 25)
    with pytest.raises(errors.CheckpointError, match=r"--from: got 15, .* Give one of 10, 20"):
        retraining.retrain(str(run), 15, 20)
    shutil.copy(run / "ckpt-20.data-00000-of-00001", run / "ckpt-10.data-00000-of-00001")
    with pytest.raises(errors.CheckpointError, match="is not as it was written"):
        retraining.retrain(str(run), 10, 20)
    with pytest.raises(errors.CheckpointError, match="there is no receipt here"):
        comparison.compare(str(run), str(tmp_path))
