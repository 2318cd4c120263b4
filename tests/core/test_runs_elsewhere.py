import logging

import numpy as np
import pytest

from quintain import errors
from quintain.checkpoints import checkpoints
from quintain.core import task_factory
from quintain.distribute import distribution
from quintain.files import file_io, literal_paths
from quintain.run import experiment_parser, run_files, train_lib


def run(params, mode, model_dir):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=model_dir)
    return train_lib.run_experiment(strategy, task, mode, params, model_dir)


def read_weights(path):
    reader = literal_paths.read(path)
    names = filter(lambda name: "OBJECT_GRAPH" not in name, reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.slow
def test_a_run_behind_a_url_goes_on_exactly(line_params, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = line_params({"trainer": {"train_steps": 20, "validation_interval": 10}})
    directory = "ram://runs/line"
    _, logs = run(params, "train_and_eval", directory)
    expected = read_weights(f"{directory}/ckpt-20")
    checkpoints.delete_checkpoint(f"{directory}/ckpt-20")

    _, later_logs = run(params, "train_and_eval", directory)

    found = read_weights(f"{directory}/ckpt-20")
    assert expected.keys() == found.keys()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
    assert logs == later_logs
    assert {"checkpoint", "evaluations.jsonl", "training.jsonl", "train", "validation"} <= set(
        file_io.listdir(directory)
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model_dir", "message"),
    [
        ("memory://runs/x", "does not know memory://"),
        ("foo://runs/x", "no file system for foo://"),
    ],
)
def test_a_run_where_tensorflow_cannot_write_is_refused_and_leaves_nothing(
    line_params, model_dir, message
):
    with pytest.raises(errors.ConfigError, match=f"model_dir: got '{model_dir}', but .*{message}"):
        run(line_params(), "train", model_dir)
    with pytest.raises(errors.ConfigError, match=f"model_dir: got '{model_dir}', but .*{message}"):
        run_files.check_model_dir(line_params(), model_dir, experiment="test/line", writes=True)

    assert not file_io.exists("memory://runs")


def test_settings_come_from_behind_urls(line_params):
    params = line_params()
    run_files.serialize_config(params, "ram://configs/run", experiment="test/line")

    read = experiment_parser.load_params("ram://configs/run")
    again = experiment_parser.parse_configuration(
        experiment_parser.ParseConfigOptions(model_dir="ram://configs/run")
    )

    assert read.as_dict() == again.as_dict() == params.as_dict()


def test_a_run_that_starts_anew_keeps_the_former_settings(line_params, caplog):
    other = line_params({"trainer": {"train_steps": 77}})
    run_files.serialize_config(line_params(), "ram://configs/other", experiment="test/line")

    with caplog.at_level(logging.INFO):
        run_files.serialize_config(other, "ram://configs/other", experiment="test/line")

    assert sorted(file_io.listdir("ram://configs/other")) == ["params.yaml", "params.yaml.1"]
