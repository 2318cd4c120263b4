"""Keras trials as PEDL had them: models that methods describe, and data of all its kinds."""

import dataclasses
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.records.rows import trial
from quintain.trials import trial_context
from quintain.trials.keras import callbacks, keras_trial
from quintain.trials.older import pedl_data
from quintain.trials.process import trial_checkpoint, workload_loop

X = np.random.RandomState(0).normal(size=(12, 3)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def distance(y_true, y_pred):
    return tf.reduce_mean(tf.abs(y_true - y_pred), axis=-1)


def largest(values):
    return float(np.max(np.concatenate(values)))


class LinearTrial(keras_trial.KerasTrial):
    def __init__(self, hparams):
        self.rate = hparams["rate"]

    def build_model(self, hparams):
        return keras.Sequential(
            [keras.layers.Input((3,)), keras.layers.Dense(1, kernel_initializer="zeros")]
        )

    def optimizer(self):
        return keras.optimizers.SGD(self.rate)

    def loss(self):
        return keras.losses.mean_squared_error

    def batch_size(self):
        return 4

    def training_metrics(self):
        return {"distance": distance}

    def validation_metrics(self):
        return {"validation_error": distance, "largest": (distance, largest), "mse": "mse"}


class TwoOutputsTrial(LinearTrial):
    def build_model(self, hparams):
        x = keras.Input((3,), name="input")
        one = keras.layers.Dense(1, name="one")(x)
        return keras.Model(x, [one, keras.layers.Dense(1, name="two")(x)])

    def loss(self):
        return {"one": "mse", "two": "mae"}

    def training_metrics(self):
        return {"one_distance": ("one", distance)}

    def validation_metrics(self):
        return {"one": {"first": distance}, "two": {"second": distance, "top": (distance, largest)}}


class Loader(pedl_data.BatchLoader):
    def __len__(self):
        return len(X)

    def get_batch(self, start, end):
        return pedl_data.Batch({"input": X[start:end]}, Y[start:end])


class Batches:
    """A sequence of another Keras."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return [X[4 * index : 4 * index + 4], Y[4 * index : 4 * index + 4]]


def generate(is_endless):
    while True:
        for start in (0, 4, 8):
            yield X[start : start + 4], Y[start : start + 4]
        if not is_endless:
            return


DATA = {
    "arrays": lambda: ((X, Y), (X, Y)),
    "sequence": lambda: (pedl_data.InMemorySequence(data=X, labels=Y, batch_size=4),) * 2,
    "adapter": lambda: (pedl_data.KerasDataAdapter(Batches(), workers=2), Batches()),
    "generators": lambda: (generate(True), generate(False)),
    "loader": lambda: (pedl_data.ArrayBatchLoader(X, Y), Loader()),
}


@pytest.fixture
def build(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_context, "_current", [])

    def build_trial(trial_class, make=DATA["sequence"], **fields):
        spec = trial.TrialSpec(
            experiment_id=1,
            trial_id=2,
            experiment_config={"searcher": {"metric": "validation_error"}, **fields},
            hparams={"rate": 0.1},
            seed=7,
            model_dir=str(tmp_path),
            entrypoint=None,
            checkpoint_dir=str(tmp_path / "checkpoints"),
            scratch_dir=str(tmp_path),
        )
        functions = {"make_data_loaders": lambda config, hparams: make()}
        context = trial_context.TrialContext(spec, functions)
        trial_context.set_current_context(context)
        return keras_trial.build_controller(trial_class, context)

    return build_trial


def test_metrics_have_the_names_and_the_uses_that_methods_give_them(build):
    controller = build(LinearTrial)

    listed = controller.list_validation_metrics()
    trained = controller.train(4)
    validated = controller.validate()

    assert set(trained.batch_metrics[0]) == {"loss", "distance"}
    assert trained.batch_metrics[0]["loss"] == pytest.approx(float(np.mean(Y[:4] ** 2)), rel=1e-5)
    assert set(validated.metrics) == set(listed)
    assert set(listed) == {"val_loss", "validation_error", "largest", "mse"}
    weights = controller._model.get_weights()
    errors_of_rows = np.abs(X @ weights[0] + weights[1] - Y)
    assert validated.metrics["validation_error"] == pytest.approx(errors_of_rows.mean(), rel=1e-5)
    assert validated.metrics["largest"] == pytest.approx(errors_of_rows.max(), rel=1e-5)
    assert controller.metric_aliases["val_validation_error"] == "validation_error"


def test_models_with_several_outputs_measure_each(build):
    def make():
        data = pedl_data.InMemorySequence(X, {"one": Y, "two": -Y}, 4)
        return data, data

    controller = build(TwoOutputsTrial, make)

    trained = controller.train(1).batch_metrics[0]
    validated = controller.validate().metrics

    assert set(trained) == {"loss", "one_loss", "two_loss", "one_distance"}
    assert set(validated) == {"val_loss", "val_one_loss", "val_two_loss", "first", "second", "top"}
    assert validated["second"] == pytest.approx(validated["val_two_loss"], rel=1e-5)
    assert validated["top"] >= validated["second"]


@pytest.mark.long(
    "Further cases of a test of which some run every time", but=["sequence", "generators"]
)
@pytest.mark.slow
@pytest.mark.parametrize("kind", DATA)
def test_all_kinds_of_data_are_read_and_resumed(build, kind):
    whole, first = build(LinearTrial, DATA[kind]), build(LinearTrial, DATA[kind])

    expected = whole.train(5).batch_metrics
    found = first.train(2).batch_metrics
    stored = trial_checkpoint.save(first, first.context.spec, 2)
    spec = dataclasses.replace(
        first.context.spec,
        latest_checkpoint=str(pathlib.Path(first.context.spec.checkpoint_dir) / stored.uuid),
    )
    second = build(LinearTrial, DATA[kind])
    trial_checkpoint.restore(second, spec)
    found += second.train(3).batch_metrics

    assert found == expected
    assert second.validate().num_inputs == 12


@pytest.mark.parametrize(("is_mean", "factor"), [(True, 1), (False, 2)])
def test_gradients_of_some_batches_are_averaged_or_added(build, is_mean, factor):
    settings = {"aggregation_frequency": 2, "average_aggregated_gradients": is_mean}
    controller = build(LinearTrial, optimizations=settings)

    controller.train(1)
    unchanged = controller._model.get_weights()[0]
    controller.train(1)

    # The gradient of the mean of (0 - y)^2 at zero weights, over both batches.
    gradient = np.mean([-2 * X[i : i + 4].T @ Y[i : i + 4] / 4 for i in (0, 4)], axis=0)
    assert not unchanged.any()
    np.testing.assert_allclose(
        controller._model.get_weights()[0], -0.1 * factor * gradient, rtol=1e-5
    )


class Recorder(callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_workload_begin(self, total_batches_trained, batches_requested, logs):
        self.calls.append(f"begin {total_batches_trained} {batches_requested}")

    def on_train_workload_end(self, total_batches_trained, logs):
        self.calls.append(f"end {total_batches_trained} {sorted(logs)}")

    def on_checkpoint_end(self, checkpoint_dir):
        pathlib.Path(checkpoint_dir, "mine.txt").write_text("x")

    def get_state(self):
        return self.calls

    def load_state(self, state):
        self.calls = state


@pytest.mark.slow
def test_callbacks_see_workloads_and_checkpoints_and_stop_after_validations(build):
    class CallbacksTrial(LinearTrial):
        def keras_callbacks(self):
            stopping = callbacks.EarlyStopping("val_loss", patience=0, min_delta=1e9)
            return [Recorder(), stopping, callbacks.TFKerasTensorBoard(update_freq="batch")]

    controller = build(CallbacksTrial)
    controller.train(2)
    controller.validate()
    assert not controller.context.get_stop_requested()
    stored = trial_checkpoint.save(controller, controller.context.spec, 2)
    controller.validate()

    assert controller.context.get_stop_requested()
    assert "mine.txt" in stored.files
    assert list(controller.context.get_tensorboard_path().rglob("events.*"))
    again = build(CallbacksTrial)
    path = pathlib.Path(again.context.spec.checkpoint_dir) / stored.uuid
    again.restore(str(path), is_warm_start=False)
    assert again._callbacks.callbacks[0].calls == ["begin 0 2", "end 2 ['distance', 'loss']"]


@pytest.mark.slow
def test_the_batches_that_the_config_names_are_profiled(build):
    settings = {"enabled": True, "begin_on_batch": 2, "end_after_batch": 4}
    controller = build(LinearTrial, profiling=settings)
    directory = controller.context.get_tensorboard_path()
    profile = workload_loop.BatchProfile(controller.context)

    def list_profiles():
        return list(directory.rglob("*.xplane.pb"))

    assert len(profile.train(controller, 0, 2).batch_metrics) == 2
    assert list_profiles() == []
    assert len(profile.train(controller, 2, 4).batch_metrics) == 4
    assert len(list_profiles()) == 1
    profile.train(controller, 6, 1)
    assert len(list_profiles()) == 1


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"loss": lambda self: None}, "no loss; expected a method loss"),
        ({"validation_metrics": lambda self: {"a": 3}}, "The metric 'a' is 3, expected a function"),
        ({"make": lambda: (X, Y, Y)}, "expected a pair of data"),
        ({"make": lambda: (iter([]), iter([]))}, "gave nothing"),
    ],
)
def test_mistakes_are_told_before_training(build, methods, message):
    make = methods.pop("make", DATA["sequence"])
    broken = type("BrokenTrial", (LinearTrial,), methods)
    with pytest.raises(errors.TrialError, match=message):
        build(broken, make)


def test_a_metric_of_one_of_several_outputs_has_to_say_which(build):
    methods = {"validation_metrics": lambda self: {"a": distance}}
    broken = type("BrokenTrial", (TwoOutputsTrial,), methods)
    with pytest.raises(errors.TrialError, match=r"'a' does not say which output.*one, two"):
        build(broken)


def test_validation_steps_limit_a_validation(build):
    class LimitedTrial(LinearTrial):
        def __init__(self, context):
            self.rate = context.get_hparam("rate")
            context.configure_fit(verbose=False, workers=4, validation_steps=2)

    def make():
        dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
        return dataset, dataset.repeat()

    assert build(LimitedTrial, make).validate().num_inputs == 8
