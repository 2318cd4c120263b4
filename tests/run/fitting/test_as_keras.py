"""What `fit` measures, against what Keras' `fit` measures on the same batches in the same order."""

import csv
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain.run.fitting import fit
from quintain.server.runs import run_index, run_reader
from tests import event_files

pytestmark = pytest.mark.slow

RANDOM = np.random.RandomState(0)
X = RANDOM.normal(size=[22, 4]).astype("float32")
Y = X.sum(axis=1, keepdims=True)
CLASSES = RANDOM.randint(0, 3, size=[22]).astype("int32")
WEIGHTS = np.linspace(0.5, 3.0, 22).astype("float32")
SEQUENCES = RANDOM.normal(size=[24, 5, 2]).astype("float32")


def batch(*parts, size=8):
    """Returns batches of which the last is smaller."""
    return tf.data.Dataset.from_tensor_slices(parts).batch(size)


def compile_dense(*layers, loss="mse", **options):
    model = keras.Sequential([keras.Input([4]), *layers])
    options.setdefault("optimizer", keras.optimizers.SGD(0.02))
    model.compile(loss=loss, jit_compile=False, **options)
    return model


def plain():
    return compile_dense(keras.layers.Dense(1), metrics=["mae"]), batch(X, Y), {}


def sample_weights():
    model = compile_dense(keras.layers.Dense(1), metrics=["mae"], weighted_metrics=["mse"])
    return model, batch(X, Y, WEIGHTS), {}


def class_weights():
    model = compile_dense(
        keras.layers.Dense(3, activation="softmax"),
        loss="sparse_categorical_crossentropy",
        weighted_metrics=["accuracy"],
    )
    return model, batch(X, CLASSES), {"class_weight": {0: 0.5, 2: 4.0}}


def class_weights_of_several_columns():
    model = compile_dense(
        keras.layers.Dense(4, activation="softmax"), loss="categorical_crossentropy"
    )
    return model, batch(X, np.eye(4)[CLASSES]), {"class_weight": {0: 0.5, 2: 4.0, 3: 1.0}}


def unknown_size():
    return compile_dense(keras.layers.Dense(1)), batch(X, Y).filter(lambda x, y: True), {}


class Batches(keras.utils.PyDataset):
    """The batches of `batch(X, Y)`."""

    def __len__(self):
        return 3

    def __getitem__(self, number):
        part = slice(8 * number, 8 * number + 8)
        return X[part], Y[part]


def py_dataset():
    return compile_dense(keras.layers.Dense(1)), Batches(), {"validates": False}


def several_outputs():
    inputs = keras.Input([4])
    outputs = [
        keras.layers.Dense(1, name="sum")(inputs),
        keras.layers.Dense(3, activation="softmax", name="kind")(inputs),
    ]
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.SGD(0.02),
        ["mse", "sparse_categorical_crossentropy"],
        loss_weights=[0.5, 2.0],
        metrics=[["mae"], ["accuracy"]],
        jit_compile=False,
    )
    return model, batch(X, (Y, CLASSES)), {}


class Positives(keras.metrics.Metric):
    """Returns its variable, as the metric in Keras' documentation does."""

    def __init__(self, name="positives", **options):
        super().__init__(name=name, **options)
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign(self.count + keras.ops.sum(keras.ops.cast(y_pred > 0.5, "float32")))

    def result(self):
        return self.count


def stateful_metrics():
    model = compile_dense(
        keras.layers.Dense(1, activation="sigmoid"),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc"), keras.metrics.Precision(name="p")],
    )
    return model, batch(X, (Y > 0).astype("float32")), {}


def recurrent():
    """Without validation, after which Keras would read `Positives` of the validation's batches."""
    model = keras.Sequential(
        [
            keras.Input(batch_shape=[8, 5, 2]),
            keras.layers.GRU(3, stateful=True),
            keras.layers.Dense(1),
        ]
    )
    metrics = ["mae", Positives()]
    model.compile(keras.optimizers.SGD(0.02), "mse", metrics=metrics, jit_compile=False)
    return model, batch(SEQUENCES, SEQUENCES.sum(axis=(1, 2))[:, None]), {"validates": False}


def mixed_precision():
    def build():
        keras.utils.set_random_seed(7)
        return compile_dense(keras.layers.Dense(4), keras.layers.Dense(1), metrics=["mae"])

    return build, batch(X, Y), {"policy": "mixed_bfloat16"}


def accumulated_gradients():
    optimizer = keras.optimizers.SGD(0.02, gradient_accumulation_steps=2)
    model = compile_dense(keras.layers.Dense(1), metrics=["mae"], optimizer=optimizer)
    return model, batch(X, Y), {}


def losses_of_layers():
    model = compile_dense(
        keras.layers.Dense(4, kernel_regularizer="l2", activity_regularizer="l2"),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
        metrics=["mae"],
    )
    return model, batch(X, Y), {}


class Measuring(keras.layers.Layer):
    """Has a metric of its own."""

    def __init__(self):
        super().__init__()
        self.size = keras.metrics.Mean("size")

    def call(self, inputs):
        self.size.update_state(tf.norm(inputs, axis=-1))
        return inputs


def metrics_of_layers():
    model = compile_dense(
        keras.layers.Dense(4), Measuring(), keras.layers.Dense(1), metrics=["mae"]
    )
    return model, batch(X, Y), {}


class Guide(keras.Model):
    """Has the step of Keras' guide, by which batches of the loss count alike."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predictions)
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predictions)
        return {metric.name: metric.result() for metric in self.metrics}


def own_step():
    model = Guide()
    model.compile(keras.optimizers.SGD(0.02), "mse", metrics=["mae"], jit_compile=False)
    # What an earlier evaluation left in the metrics is no part of the first epoch.
    model.evaluate(batch(X, Y), verbose=0)
    return model, batch(X, Y), {}


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["several_outputs", "recurrent", "own_step"],
)
@pytest.mark.parametrize(
    "build",
    [
        plain,
        sample_weights,
        class_weights,
        class_weights_of_several_columns,
        unknown_size,
        py_dataset,
        several_outputs,
        stateful_metrics,
        recurrent,
        mixed_precision,
        accumulated_gradients,
        losses_of_layers,
        metrics_of_layers,
        own_step,
    ],
    ids=lambda build: build.__name__,
)
@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Of Keras, on `unknown_size`.
def test_every_number_is_that_of_keras(tmp_path, build):
    keras.utils.set_random_seed(7)
    model, data, options = build()
    validation = data.take(2) if options.pop("validates", True) else None
    policy = options.pop("policy", None)
    found = fit.fit(
        model,
        data,
        validation,
        model_dir=str(tmp_path / "run"),
        epochs=2,
        shuffle=False,
        runtime={} if policy is None else {"mixed_precision_dtype": "bfloat16"},
        **options,
    ).history

    keras.utils.set_random_seed(7)
    model, _, _ = build()
    if policy is not None:
        before = keras.mixed_precision.dtype_policy()
        keras.mixed_precision.set_dtype_policy(policy)
        model = model()
        keras.mixed_precision.set_dtype_policy(before)
    expected = model.fit(
        data, epochs=2, validation_data=validation, shuffle=False, verbose=0, **options
    ).history

    assert found == {name: pytest.approx(values, rel=1e-6) for name, values in expected.items()}


class Calls(keras.callbacks.Callback):
    """Notes its calls."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def on_train_begin(self, logs=None):
        self.noted.append(("train begins", self.params["epochs"], self.params["steps"]))

    def on_epoch_begin(self, epoch, logs=None):
        self.noted.append(("epoch begins", epoch))

    def on_epoch_end(self, epoch, logs=None):
        self.noted.append((f"epoch {epoch} ends", pytest.approx(logs, rel=1e-5)))

    def on_test_begin(self, logs=None):
        self.noted.append(("test begins", self.model.optimizer.iterations.numpy()))

    def on_test_end(self, logs=None):
        self.noted.append(("test ends", pytest.approx(logs, rel=1e-5)))

    def on_train_end(self, logs=None):
        self.noted.append(("train ends", pytest.approx(logs, rel=1e-5)))


def test_callbacks_are_called_as_by_keras_and_arrays_are_split_as_by_keras(tmp_path):
    found, expected = Calls(), Calls()
    options = {"epochs": 2, "batch_size": 4, "shuffle": False, "validation_split": 0.3}
    model, _, _ = plain()
    weights = model.get_weights()
    arrays = (X, Y, WEIGHTS)
    fit.fit(model, arrays, model_dir=str(tmp_path), callbacks=[found], **options)
    model, _, _ = plain()
    model.set_weights(weights)
    model.fit(X, Y, sample_weight=WEIGHTS, callbacks=[expected], verbose=0, **options)

    assert [(name, *values) for name, *values in found.noted] == [
        (name, *map(_plain, values)) for name, *values in expected.noted
    ]


class Dying(keras.callbacks.Callback):
    """Ends the run as a kill does, before the second evaluation."""

    def on_test_begin(self, logs=None):
        if self.model.optimizer.iterations == 6:
            raise KeyError("killed")


def test_callbacks_of_a_run_that_goes_on_begin_with_the_evaluation_that_is_missing(tmp_path):
    def run(name, *callbacks):
        keras.utils.set_random_seed(7)
        model, data, _ = plain()
        options = {"model_dir": str(tmp_path / name), "epochs": 3, "verbose": 0}
        fit.fit(model, data, data.take(2), callbacks=callbacks, **options)

    whole, gone_on = Calls(), Calls()
    run("whole", whole)
    with pytest.raises(KeyError) as caught:
        run("run", Dying())
    # A user reads no lines of this package's.
    assert {frame.path for frame in caught.traceback} == {pathlib.Path(__file__)}
    run("run", gone_on)

    def show(noted):
        return [(name, *map(_plain, values)) for name, *values in noted]

    assert [name for name, *_ in gone_on.noted[:4]] == [
        "train begins",
        "test begins",
        "test ends",
        "epoch 1 ends",
    ]
    assert show(gone_on.noted[1:]) == show(whole.noted[6:])


def _plain(value):
    """Returns what was noted, without the tolerance, which only one side needs."""
    return getattr(value, "expected", value)


def test_every_place_shows_the_numbers_of_keras(tmp_path):
    """The run's record, the page, event files and a logger, beside the history."""
    model, data, _ = sample_weights()
    model.set_weights([np.ones([4, 1]) / 2, np.zeros([1])])
    expected = model.fit(data, epochs=2, validation_data=data, shuffle=False, verbose=0).history
    model, data, _ = sample_weights()
    model.set_weights([np.ones([4, 1]) / 2, np.zeros([1])])
    trainer = {"loggers": [{"type": "csv"}]}
    directory = tmp_path / "run"

    fit.fit(model, data, data, model_dir=str(directory), epochs=2, trainer=trainer)

    found = run_index.FoundRun("run", "run", directory)
    curves = run_reader.RunReader().read_curves(found, "")
    tables = {
        name: list(csv.DictReader((directory / f"{name}.csv").read_text().splitlines()))
        for name in ("training", "validation")
    }
    for name, values in expected.items():
        validated = name.startswith("val_")
        name = name.removeprefix("val_")
        values = pytest.approx(values, rel=1e-6)
        if name == "loss":
            name = "validation_loss" if validated else "training_loss"
        columns = curves.evaluations if validated else curves.training
        assert columns.metrics[name] == values
        table = tables["validation" if validated else "training"]
        assert [float(row[name]) for row in table] == values
        events = event_files.read_scalars(directory / ("validation" if validated else "train"))
        assert [value for _, value in events[name]] == values


@pytest.mark.long("Three models on one replica run every time")
def test_every_number_of_two_replicas_is_that_of_keras(run_program):
    results = run_program("fit_on_replicas.py")

    found, expected = results["quintain"], results["keras"]
    assert {name: found.get(name) for name in expected} == {
        name: pytest.approx(values, rel=1e-6) for name, values in expected.items()
    }
