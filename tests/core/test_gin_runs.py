"""What a run that uses gin leaves behind."""

import subprocess
import sys

import pytest

from quintain import orbit
from quintain.config import gin_io
from quintain.core import experiment_parser, experiment_runner, train_lib


@pytest.fixture(autouse=True)
def _no_bindings_stay():
    yield
    gin_io.clear()


def test_the_operative_config_is_written_beside_the_params(tmp_path):
    options = experiment_parser.ParseConfigOptions(
        experiment="test/line",
        set=["trainer.train_steps=5"],
        gin_params=["create_trainer.checkpoint_exporter = None"],
    )
    parsed = experiment_parser.parse(options)

    train_lib.train_from_config(parsed.params, "train", str(tmp_path), experiment="test/line")

    text = (tmp_path / "operative_config.train.gin").read_text()
    assert "create_trainer" in text
    assert "Trainer" in text


_SHOW_NAMES = """
import quintain.nlp.experiments
from quintain.config import gin_io
from quintain.core import experiment_parser

options = experiment_parser.ParseConfigOptions(
    experiment="bert/local", gin_params=["create_trainer.checkpoint_exporter = None"]
)
experiment_parser.parse(options)
print("\\n".join(gin_io.known_names()))
"""


def test_what_gin_can_bind_is_known_in_a_process_that_imports_nothing_else():
    result = subprocess.run(
        [sys.executable, "-c", _SHOW_NAMES], capture_output=True, text=True, check=True
    )

    assert sorted(result.stdout.split()) == [
        "EncoderScaffold",
        "GatedFeedforward",
        "MultiTaskBaseTrainer",
        "MultiTaskEvaluator",
        "MultiTaskInterleavingTrainer",
        "ProgressiveTrainer",
        "TalkingHeadsAttention",
        "Trainer",
        "TransformerScaffold",
        "build_encoder",
        "build_optimizer",
        "create_trainer",
        "get_eval_actions",
        "get_train_actions",
    ]


def test_a_run_that_fails_shows_what_it_was_bound_to(tmp_path, line_params, monkeypatch):
    gin_io.parse_files_and_params([], ["create_trainer.checkpoint_exporter = None"])

    def fail(runner):
        raise orbit.Interrupted(3, "SIGTERM")

    monkeypatch.setattr(experiment_runner.ExperimentRunner, "run", fail)
    with pytest.raises(orbit.Interrupted):
        train_lib.train_from_config(line_params(), "train", str(tmp_path), experiment="test/line")

    assert "create_trainer" in (tmp_path / "operative_config.train.gin").read_text()


def test_a_run_without_gin_writes_none(tmp_path, line_params):
    params = line_params({"trainer": {"train_steps": 5}})
    params.lock()

    train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/line")

    assert not list(tmp_path.glob("*.gin"))
