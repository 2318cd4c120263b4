"""Faults of the reference in its configs and in what a run tells. Each has a test that it fails."""

import json

import pytest

from quintain import errors
from quintain.cli import main
from quintain.core import config_definitions as cfg


@pytest.fixture
def params():
    return cfg.ExperimentConfig()


@pytest.mark.parametrize(
    "change",
    [
        lambda params: setattr(params.trainer, "train_steps", 7),
        lambda params: params.trainer.override({"train_steps": 7}),
        lambda params: params.task.train_data.override({"seed": 7}),
    ],
)
def test_defect_7_a_lock_reaches_everything(params, change):
    params.lock()

    with pytest.raises(ValueError, match="locked"):
        change(params)


def test_defect_7_values_have_types(params):
    with pytest.raises(errors.ConfigError, match=r"trainer\.train_steps: got 'abc'"):
        params.override({"trainer": {"train_steps": "abc"}})
    with pytest.raises(errors.ConfigError, match="trainer"):
        params.override({"trainer": 5})

    assert params == cfg.ExperimentConfig()


@pytest.mark.parametrize(
    "misspell",
    [
        lambda params: setattr(params.trainer, "train_step", 7),
        lambda params: params.override({"trainer": {"train_step": 7}}),
        lambda params: cfg.TrainerConfig(train_step=7),
        lambda params: cfg.TrainerConfig({"train_step": 7}),
        lambda params: params.override({"task": {"differential_privacy_config": {"noise": 1}}}),
    ],
)
def test_defect_7_a_misspelt_name_is_never_taken(params, misspell):
    with pytest.raises((KeyError, AttributeError, ValueError), match="unknown"):
        misspell(params)


@pytest.mark.parametrize(
    ("restriction", "holds"),
    [
        ("task.init_checkpoint == ''", True),
        ("runtime.distribution_strategy == 'mirrored'", True),
        ("runtime.distribution_strategy == 'tpu'", False),
        ("trainer.train_steps < trainer.steps_per_loop", True),
        ("task.model != None", False),
    ],
)
def test_defect_7_restrictions_compare_texts_and_none(restriction, holds):
    params = cfg.ExperimentConfig(restrictions=[restriction])

    if holds:
        params.validate()
    else:
        with pytest.raises(KeyError):
            params.validate()


def test_defect_7_an_optional_part_is_checked_like_others():
    config = cfg.TaskConfig()
    with pytest.raises(KeyError, match="clipping_nrom"):
        config.override({"differential_privacy_config": {"clipping_nrom": 1.0}})


def test_defect_18_two_configs_can_be_compared(tmp_path, capsys):
    path = tmp_path / "a.yaml"
    path.write_text("experiment: translation/local\ntrainer: {train_steps: 7}\n")

    code = main.run(["config", "diff", "translation/local", str(path)])

    output = capsys.readouterr().out
    assert code in (0, 1)
    assert "trainer.train_steps" in output
    assert "trainer.steps_per_loop" not in output


def test_defect_18_experiments_are_listed(capsys):
    assert main.run(["config", "list"]) == 0

    assert "translation/local" in capsys.readouterr().out


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_18_a_run_can_be_tried_without_leaving_anything(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    overrides = [
        "task.model.embedding_width=8",
        "task.model.encoder.num_layers=1",
        "task.model.decoder.num_layers=1",
        "task.model.encoder.num_attention_heads=2",
        "task.model.decoder.num_attention_heads=2",
        "task.vocab_size=200",
        "task.max_vocab_pairs=300",
        "task.train_data.global_batch_size=512",
    ]
    flags = ["--experiment=translation/local", "--mode=train", "--dry_run"]

    code = main.run(["train", *flags, f"--params_override={','.join(overrides)}"])

    assert code == 0
    assert "parameters" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long("The tests of each room show it, too")
@pytest.mark.slow
def test_defect_18_a_run_logs_rates_times_and_memory(tmp_path):
    overrides = [
        "task.model.embedding_width=8",
        "task.model.encoder.num_layers=1",
        "task.model.decoder.num_layers=1",
        "task.model.encoder.num_attention_heads=2",
        "task.model.decoder.num_attention_heads=2",
        "task.vocab_size=200",
        "task.max_vocab_pairs=300",
        "task.train_data.global_batch_size=512",
        "trainer.steps_per_loop=2",
        "trainer.summary_interval=2",
        "trainer.train_steps=2",
        "trainer.norm_summaries=true",
    ]
    flags = ["--experiment=translation/local", "--mode=train", f"--model_dir={tmp_path}", "--quiet"]

    code = main.run(["train", *flags, f"--params_override={','.join(overrides)}"])

    assert code == 0
    logs = json.loads((tmp_path / "training.jsonl").read_text().splitlines()[-1])["metrics"]
    assert {
        "examples_per_second",
        "tokens_per_second",
        "step_ms",
        "input_wait_ms",
        "compute_ms",
        "host_memory_gb",
        "gradient_norm",
        "update_norm",
        "learning_rate",
    } <= logs.keys()
