import csv
import json

import pytest

from quintain import errors
from quintain.run import train_lib

seen = []


class Note:
    """An action of one's own."""

    def __init__(self, trainer, factor=1):
        self._trainer, self._factor = trainer, factor

    def __call__(self, output):
        seen.append((int(self._trainer.global_step.numpy()) * self._factor, sorted(output)))


class NoAction:
    pass


def read(path):
    return [row["step"] for row in csv.DictReader(path.read_text().splitlines())]


@pytest.mark.slow
def test_metrics_are_sent_once_and_actions_are_called(tmp_path, line_params):
    note = f"{__name__}:Note"
    config = {
        "loggers": [{"type": "csv"}],
        "actions": [{"type": note, "factor": 2}, {"type": note, "when": "eval"}],
    }
    seen.clear()
    for steps in (20, 40):
        params = line_params({"trainer": {"train_steps": steps, **config}})
        train_lib.train_from_config(params, "train_and_eval", str(tmp_path), experiment="test/line")

    assert read(tmp_path / "training.csv") == [str(step) for step in range(5, 45, 5)]
    assert read(tmp_path / "validation.csv") == ["20", "40"]
    cursor = json.loads((tmp_path / "loggers" / "0_csv.json").read_text())
    assert cursor["steps"] == {"training": 40, "validation": 40}
    assert [step for step, names in seen if "training_loss" in names] == list(range(10, 90, 10))
    assert [step for step, names in seen if "validation_loss" in names] == [20, 40]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"actions": [{"type": "a"}]}, r"actions\[0\].type: got 'a', expected module:Class"),
        ({"actions": [{"type": f"{__name__}:Note", "wehn": "eval"}]}, r"\[0\].wehn: unknown"),
        (
            {"actions": [{"type": f"{__name__}:Note", "when": "test"}]},
            r"trainer.actions\[0\].when: got 'test', expected 'train' or 'eval'",
        ),
        ({"actions": [{"type": f"{__name__}:NoAction"}]}, "can't be called"),
        ({"loggers": [{"type": "cvs"}]}, r"trainer.loggers\[0\].type: .*Did you mean 'csv'"),
    ],
)
def test_a_mistake_is_told_by_its_place(tmp_path, line_params, config, message):
    params = line_params({"trainer": config})

    with pytest.raises(errors.ConfigError, match=message):
        train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/line")
