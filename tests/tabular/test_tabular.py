import csv
import json

import numpy as np
import pytest
import tensorflow as tf
from fastapi import testclient

import quintain.registered_experiments  # noqa: F401 - registered before the tests make room
from quintain import orbit
from quintain.cli import main
from quintain.core import exp_factory, task_factory
from quintain.files import literal_paths
from quintain.run import run_files, train_lib
from quintain.serving import app, exporter, served_model
from quintain.tabular import flats, tabular
from quintain.trials import task_trial

ROW = {
    "Fläche (m²)": 50.0, "rooms": 2, "year": 1990, "floor": 1, "district": "Hafen", "heating": "gas"
}  # fmt: skip


def make_params(steps=400, **task):
    params = exp_factory.get_exp_config("tabular/local")
    params.override({"task": task})
    trainer = {"train_steps": steps, "validation_interval": steps, "checkpoint_interval": steps}
    params.override({"trainer": trainer})
    return params


def run(model_dir, **options):
    params = make_params()
    task = task_factory.get_task(params.task, logging_dir=str(model_dir))
    strategy = tf.distribute.get_strategy()
    return train_lib.run_experiment(
        strategy, task, "train_and_eval", params, str(model_dir), **options
    )


def read_checkpoint(model_dir):
    reader = tf.train.load_checkpoint(literal_paths.checkpoint(f"{model_dir}/ckpt-400"))
    names = sorted(reader.get_variable_to_shape_map())
    return {name: reader.get_tensor(name) for name in names if name.endswith("VARIABLE_VALUE")}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    """A run that was never stopped."""
    directory = tmp_path_factory.mktemp("run") / "a [1] ü"
    run(directory)
    run_files.serialize_config(make_params(), str(directory), experiment="tabular/local")
    return directory


class Stop:
    """Train action that asks the run to stop."""

    def __init__(self, interruption):
        self.interruption = interruption

    def __call__(self, output):
        self.interruption.request("test")


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_to_the_bit_and_learns(run_dir, tmp_path):
    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(tmp_path, interruption=interruption, train_actions=[Stop(interruption)])
    _, logs = run(tmp_path)

    expected, found = read_checkpoint(run_dir), read_checkpoint(tmp_path)
    assert expected.keys() == found.keys()
    assert not [name for name in expected if not np.array_equal(expected[name], found[name])]
    assert logs["rmse"] < 60


@pytest.mark.slow
def test_an_export_answers_tables_and_requests_as_the_run_does(run_dir, tmp_path, capsys):
    target, table = str(tmp_path / "export"), str(tmp_path / "ü.csv")
    with open(table, "w", newline="") as file:
        csv.writer(file).writerows(flats.draw("drawn:flats/validation")[:40])
    exporter.export_run(str(run_dir), target)
    found = []
    for directory in (str(run_dir), target):
        assert main.run(["predict", f"--model-dir={directory}", f"--input={table}"]) == 0
        lines = capsys.readouterr().out.splitlines()
        found.append([json.loads(line)["prediction"] for line in lines])

    rents = [float(row[-1]) for row in flats.draw("drawn:flats/validation")[1:40]]
    assert found[0] == pytest.approx(found[1], rel=1e-5)
    assert np.sqrt(np.mean(np.square(np.array(found[1]) - rents))) < 70

    client = testclient.TestClient(app.build_app(served_model.load(target)))
    lacking = {**ROW, "year": None, "heating": None}
    answers = client.post("/predict", json={"instances": [ROW, lacking]}).json()["predictions"]
    assert answers[0] != answers[1]
    refused = client.post("/predict", json={"instances": [{**ROW, "rooms": None}]})
    assert (refused.status_code, "rooms: got None" in refused.json()["detail"]) == (422, True)
    shown = client.get("/").json()["example"]
    assert client.post("/predict", json=shown).status_code == 200


@pytest.mark.slow
def test_two_classes_have_the_area_under_the_roc_curve(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,no\n2,yes\n3,yes\n0,no\n")
    data = {"input_path": str(tmp_path / "t.csv"), "global_batch_size": 4}
    params = make_params(target="y", train_data=data, validation_data=data)
    task = tabular.TabularTask(params.task)
    model, metrics = task.build_model(), task.build_metrics()

    logs = task.validation_step(
        next(iter(task.build_inputs(params.task.validation_data))), model, metrics
    )
    module = task.build_export_module(model)
    served = module.serve(a=tf.constant([1.0, 2.0]))

    assert [metric.name for metric in metrics] == ["accuracy", "auc"]
    assert np.isfinite(float(logs["loss"]))
    assert np.allclose(np.sum(served["probabilities"], axis=1), 1.0)
    assert set(served["label"].numpy()) <= {b"no", b"yes"}


def test_the_loss_of_numbers_is_measured_in_deviations():
    task = tabular.TabularTask(make_params().task)
    deviation = task.columns.target.deviation

    loss = task.build_losses(tf.constant([1.0, 2.0]), tf.constant([[1.0], [2.0 + deviation]]))

    assert float(loss) == pytest.approx(0.5, rel=1e-5)
    assert float(task.build_losses(tf.zeros([0]), tf.zeros([0, 1]))) == 0.0


def test_a_search_needs_no_code():
    config = {
        "entrypoint": "experiment:tabular/local",
        "hyperparameters": {
            "task.model.width": {"type": "int", "minval": 8, "maxval": 128},
            "task.model.dropout_rate": {"type": "double", "minval": 0.0, "maxval": 0.5},
        },
    }

    assert task_trial.check(config)["rmse"].best == "min"
