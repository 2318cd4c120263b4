import pathlib

import pytest

from quintain import errors
from quintain.config import yaml_io
from quintain.records.config import experiment_dialects, experiment_spec, searcher_config

OLD = """
description: mnist
entrypoint: model_def:MNISTTrial
data: {path: /data, anything: [1, 2]}
batches_per_step: 50
min_validation_period: 2
hyperparameters:
  batch_size: 64
  learning_rate: {type: log, base: 10, minval: -4, maxval: -2}
searcher:
  name: adaptive
  metric: error
  target_trial_steps: 16
  step_budget: 160
max_restarts: 0
"""

NEW = """
name: mnist
entrypoint: model_def:MNISTTrial
records_per_epoch: 1000
scheduling_unit: 20
min_validation_period: {epochs: 2}
hyperparameters:
  global_batch_size: 32
searcher:
  name: adaptive_asha
  metric: loss
  max_length: {records: 3000}
  max_trials: 16
resources: {slots_per_trial: 2, max_slots: 4}
reproducibility: {experiment_seed: 7}
"""


def parse(text):
    return experiment_spec.parse(yaml_io.load_text(text))


def test_the_older_dialect_counts_steps():
    config = parse(OLD)

    assert config.scheduling_unit == 50
    assert config.min_validation_period == 100
    assert config.data == {"path": "/data", "anything": [1, 2]}
    searcher = config.searcher
    assert isinstance(searcher, searcher_config.AdaptiveConfig)
    assert (searcher.max_length, searcher.budget, searcher.batches_per_unit) == (16, 160, 50)


def test_the_later_dialect_has_lengths():
    config = parse(NEW)

    assert config.min_validation_period == 62
    assert config.searcher.max_length == 93
    assert config.searcher.batches_per_unit == 1
    assert config.searcher.mode == "standard"
    assert config.reproducibility.experiment_seed == 7


@pytest.mark.parametrize("text", [OLD, NEW])
def test_what_is_written_is_read_again(text):
    config = parse(text)

    assert experiment_spec.parse(config.as_dict()) == config


def test_a_config_without_a_seed_gets_one():
    assert parse(OLD).reproducibility.experiment_seed > 1_600_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("searcher: {name: random, metric: a, max_length: 3, max_trils: 2}", r"max_trils"),
        ("searcher: {name: rndom, metric: a}", r"got 'rndom'.*Did you mean 'random'"),
        ("searcher: {name: single, metric: a}", r"max_length: missing"),
        (
            "searcher: {name: single, metric: a, max_length: 3, formats: {a: percent}}",
            r"searcher\.formats\.a: got 'percent', expected one like '\.1%'",
        ),
        ("searcher: {name: single, max_length: 2}", r"metric: missing"),
        ("searcher: {name: single, metric: a, max_length: {epochs: 2}}", r"records_per_epoch"),
        ("searcher: {name: single, metric: a, max_length: {epoch: 2}}", r"Did you mean 'epochs'"),
        ("searcher: {name: single, metric: a, max_length: {records: 2}}", r"global_batch_size"),
        ("searcher: {name: single, metric: a, max_steps: -1}", r"searcher\.max_steps"),
        ("entrypoint: a:B", r"searcher: missing"),
        ("searcher: 3", r"searcher: got 3, expected a mapping"),
        (
            "{max_restrats: 2, searcher: {name: single, metric: a, max_length: 3}}",
            r"max_restrats.*Did you mean 'max_restarts'",
        ),
        (
            "{resources: {max_slots: 0}, searcher: {name: single, metric: a, max_length: 3}}",
            r"resources\.max_slots: got 0, expected at least slots_per_trial=1",
        ),
    ],
)
def test_mistakes_are_reported(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        parse(text)


def test_mistakes_are_reported_with_file_and_line_all_at_once(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("searcher:\n  name: single\n  max_steps: 3\nmax_restarts: x\n")

    with pytest.raises(errors.ConfigError) as caught:
        experiment_spec.load(str(path))

    assert f"{path}:4: max_restarts: got 'x'" in str(caught.value)
    assert "metric: missing" in str(caught.value)


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(OLD)

    config = experiment_spec.load(str(path), {"max_restarts": 3, "debug": True})

    assert config.debug
    assert config.max_restarts == 3
    assert config.description == "mnist"


EXPORTED = pathlib.Path(__file__).with_name("exported.yaml").read_text()


def test_exported_configs_are_read_as_they_are():
    content = yaml_io.load_text(EXPORTED)

    unused = experiment_dialects.find_unused_fields(content)
    config = experiment_spec.parse(content)

    assert config.data == {}
    assert config.checkpoint_policy == "best"
    assert config.max_restarts == 5
    assert (config.min_checkpoint_period, config.min_validation_period) == (None, None)
    assert config.checkpoint_storage.directory("/home") == "/a/b"
    assert config.hyperparameters["warmup"] is None
    assert (config.searcher.max_length, config.searcher.mode) == (937, "standard")
    assert [(each.name, each.action) for each in config.log_policies] == [
        (None, "cancel_retries"),
        (None, "exclude_node"),
        ("CUDA OOM", None),
        ("told", None),
    ]
    assert {"integrations", "slurm", "workspace", "preemption_timeout"} < set(unused)
    assert "internal" not in unused  # It says nothing.
    assert experiment_spec.parse(config.as_dict()) == config


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_restrats: null", r"Did you mean 'max_restarts'"),
        ("entrypoint: python3 train.py --x", r"entrypoint: got 'python3 train.py --x', a command"),
        ("entrypoint: [python3, a.py]", r"entrypoint: got \['python3', 'a.py'\], a command"),
        (
            "entrypoint: {script: a.py}",
            r"'a.py'}, a script; expected .* as a class: a `KerasTrial`",
        ),
        ("checkpoint_storage: {type: hdfs}", r"type: got 'hdfs', expected 'fsspec'"),
        ("log_policies: [{pattern: '('}]", r"log_policies\[0\]\.pattern: got '\('"),
        (r"log_policies: [{pattern: '(a)\1'}]", r"log_policies\[0\]\.pattern: .* RE2.*back-ref"),
        ("log_policies: [{pattern: a, action: retry}]", r"log_policies\[0\]\.action: got 'retry'"),
        ("environment: {environment_variables: {gpus: [A=1]}}", r"Did you mean 'gpu'"),
    ],
)
def test_mistakes_in_exported_configs_are_reported(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        parse(NEW.replace("entrypoint: model_def:MNISTTrial\n", "") + text + "\n")


def test_environment_variables_are_those_of_the_slot():
    config = parse(NEW + "environment: {image: x, environment_variables: [A=1, B=x=y]}\n")
    chosen = parse(EXPORTED).environment

    assert config.environment.as_mapping(has_gpu=False) == {"A": "1", "B": "x=y"}
    assert chosen.as_mapping(has_gpu=False) == {"A": "1"}
    assert chosen.as_mapping(has_gpu=True) == {"A": "2"}


@pytest.mark.parametrize(
    ("alert", "text"),
    [
        ({}, "got none of command and webhook"),
        ({"command": "a", "webhook": "https://b.c"}, "got both of command and webhook"),
        ({"command": " "}, "expected a command for sh"),
        ({"webhook": "ftp://b.c"}, "expected an address such as"),
        ({"webhook": "https://b.c/\nHost: d"}, "expected an address such as"),
        ({"command": "a", "on": []}, "expected some of completed"),
        ({"command": "a", "on": ["finished"]}, "finished"),
        ({"command": "a", "when": ["error"]}, "when"),
    ],
)
def test_alerts_are_checked(alert, text):
    with pytest.raises(errors.ConfigError, match=text) as found:
        experiment_spec.parse({**yaml_io.load_text(NEW), "alerts": [{"command": "true"}, alert]})

    assert "alerts[1]" in str(found.value)


def test_a_hyperparameter_takes_over_another_one_by_a_merge_key(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text(
        "searcher: {name: random, metric: loss, max_trials: 3, max_length: {batches: 10}}\n"
        "hyperparameters:\n"
        "  a: &a {type: int, minval: 1, maxval: 9}\n"
        "  b: {<<: *a, maxval: 3}\n"
    )
    found = experiment_spec.load(str(path)).hyperparameters
    assert found["b"] == {"type": "int", "minval": 1, "maxval": 3}
