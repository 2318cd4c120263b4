"""What a run that uses gin leaves behind."""

import subprocess
import sys

import pytest

from quintain import errors, orbit
from quintain.config import gin_io
from quintain.run import experiment_parser, experiment_runner, train_lib


@pytest.fixture(autouse=True)
def _no_bindings_stay():
    yield
    gin_io.clear()


@pytest.mark.slow
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
from quintain.run import experiment_parser

options = experiment_parser.ParseConfigOptions(
    experiment="bert/local", gin_params=["create_trainer.checkpoint_exporter = None"]
)
experiment_parser.parse(options)
print("\\n".join(gin_io.known_names()))
"""


@pytest.mark.slow
def test_what_gin_can_bind_is_known_in_a_process_that_imports_nothing_else():
    result = subprocess.run(
        [sys.executable, "-c", _SHOW_NAMES], capture_output=True, text=True, check=True
    )

    assert sorted(result.stdout.split()) == [
        "BertPretrainerV2",
        "CompiledTransformer",
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
        (tmp_path / "training.jsonl").touch()
        raise orbit.Interrupted(3, "SIGTERM")

    monkeypatch.setattr(experiment_runner.ExperimentRunner, "run", fail)
    with pytest.raises(orbit.Interrupted):
        train_lib.train_from_config(line_params(), "train", str(tmp_path), experiment="test/line")

    assert "create_trainer" in (tmp_path / "operative_config.train.gin").read_text()


def go_on(params, model_dir, bindings, **kwargs):
    gin_io.clear()
    if bindings:
        gin_io.parse_files_and_params([], bindings)
    params.lock()
    train_lib.train_from_config(params, "train", str(model_dir), experiment="test/line", **kwargs)


@pytest.mark.slow
def test_other_bindings_for_a_run_are_shown_and_refused(tmp_path, line_params):
    first = ["create_trainer.checkpoint_exporter = None"]
    go_on(line_params({"trainer": {"train_steps": 5}}), tmp_path, first)
    longer = {"trainer": {"train_steps": 10}}

    with pytest.raises(errors.ConfigError) as caught:
        go_on(line_params(longer), tmp_path, ["Trainer.train_dataset = None"])

    assert "- create_trainer.checkpoint_exporter = None" in str(caught.value)
    assert "+ Trainer.train_dataset = None" in str(caught.value)
    assert f"--gin-file={tmp_path}/config.gin" in str(caught.value)
    with pytest.raises(errors.ConfigError, match="gin: the run was trained with other bindings"):
        go_on(line_params(longer), tmp_path, [])
    assert (tmp_path / "config.gin").read_text() == "\n".join([*first, ""])


@pytest.mark.long("Runs with gin are written and read in the tests beside it")
@pytest.mark.slow
def test_the_bindings_of_a_run_can_be_read_again(tmp_path, line_params):
    first = ["create_trainer.checkpoint_exporter = None", "Trainer.train_dataset = None"]
    go_on(line_params({"trainer": {"train_steps": 5}}), tmp_path, first)
    gin_io.clear()
    gin_io.parse_files_and_params([str(tmp_path / "config.gin")], [])
    params = line_params({"trainer": {"train_steps": 10}})
    params.lock()

    result = train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/line")

    assert result.step == 10
    assert not (tmp_path / "config.gin.1").exists()


@pytest.mark.slow
def test_other_bindings_can_be_allowed_and_the_former_are_kept(tmp_path, line_params):
    first = ["create_trainer.checkpoint_exporter = None"]
    go_on(line_params({"trainer": {"train_steps": 5}}), tmp_path, first)

    go_on(line_params({"trainer": {"train_steps": 10}}), tmp_path, [], allow_config_change=True)

    assert "create_trainer" in (tmp_path / "config.gin.1").read_text()
    assert not (tmp_path / "config.gin").exists()


def test_the_builder_of_optimizers_goes_by_its_class_or_its_own_name():
    experiment_parser.import_modules(["quintain.optimization.optimizer_factory"])
    for name in ("build_optimizer", "OptimizerFactory.build_optimizer"):
        gin_io.clear()
        gin_io.parse_files_and_params([], [f"{name}.postprocessor = None"])

        assert gin_io.bindings() == "build_optimizer.postprocessor = None\n"


@pytest.mark.long("Runs with gin are written and read in the tests beside it")
@pytest.mark.slow
def test_a_run_without_gin_writes_none(tmp_path, line_params):
    params = line_params({"trainer": {"train_steps": 5}})
    params.lock()

    train_lib.train_from_config(params, "train", str(tmp_path), experiment="test/line")

    assert not list(tmp_path.glob("*.gin"))
