"""Runs are compared to the bit: one that is stopped and gone on with, and one that is not."""

import itertools
import json
import sys
import time

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import quintain
from quintain import errors
from quintain.checkpoints import receipts
from quintain.cli import main
from quintain.run.fitting import keras_data, keras_task

X = np.random.RandomState(0).normal(size=[24, 3]).astype("float32")
Y = X.sum(axis=1, keepdims=True)
WEIGHTS = np.linspace(0.0, 2.0, 24).astype("float32")


def build_model(**options):
    keras.utils.set_random_seed(7)
    model = keras.Sequential(
        [keras.Input([3]), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], **options)
    return model


def read_weights(model):
    return [value.numpy() for value in [*model.variables, *model.optimizer.variables]]


def test_endless_validation_data_are_refused(tmp_path):
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    with pytest.raises(errors.ConfigError, match=r"task\.validation_data: the data never end"):
        quintain.fit(build_model(), data, data.repeat(), model_dir=str(tmp_path))


class Stop:
    """Ends a run as a kill does, at a step between two checkpoints."""

    def __init__(self, step):
        self.left = step

    def __call__(self, output):
        self.left -= 1
        if not self.left:
            raise KeyError("killed")


def check_exact(build, train, tmp_path, **options):
    """Compares a run of three epochs with one that is killed in the second."""
    options = {"epochs": 3, "trainer": {"steps_per_loop": 1}, **options}
    whole, first, second = build(), build(), build()
    quintain.fit(whole, train, model_dir=str(tmp_path / "whole"), **options)
    with pytest.raises(KeyError):
        quintain.fit(
            first, train, model_dir=str(tmp_path / "run"), train_actions=[Stop(5)], **options
        )
    history = quintain.fit(second, train, model_dir=str(tmp_path / "run"), **options)

    for expected, found in zip(read_weights(whole), read_weights(second), strict=True):
        np.testing.assert_array_equal(expected, found)
    assert history.steps == int(second.optimizer.iterations)
    return history


@pytest.mark.long("Further runs of `fit`; killed ones and their numbers are tried in every run")
@pytest.mark.slow
def test_a_killed_run_on_arrays_goes_on_to_the_bit(tmp_path):
    history = check_exact(build_model, (X, Y, WEIGHTS), tmp_path, batch_size=8)

    assert len(history.history["loss"]) == 9
    assert (tmp_path / "run" / "environment.json").exists()


class Batches(keras.utils.PyDataset):
    """Changes its order with each epoch, as a function of the epoch alone."""

    def __init__(self):
        super().__init__()
        self.epoch = 0

    def __len__(self):
        return 3

    def __getitem__(self, number):
        start = 8 * ((number + self.epoch) % 3)
        return X[start : start + 8], Y[start : start + 8]

    def on_epoch_end(self):
        self.epoch += 1


def generate():
    """Yields batches, as programs for Keras do."""
    for start in range(0, 24, 8):
        yield X[start : start + 8], Y[start : start + 8]


class OwnSteps(keras.Model):
    """Trains and evaluates by steps of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.loss_tracker = keras.metrics.Mean("loss")

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        x, y = data
        self.loss_tracker.update_state(tf.reduce_mean(tf.square(y - self(x, training=False))))
        return {"loss": self.loss_tracker.result()}


class TwoOptimizers(OwnSteps):
    """Has a second optimizer in a list, and a third and a counter as attributes."""

    def __init__(self):
        super().__init__()
        self.others = [keras.optimizers.Adam(0.01)]
        self.third = keras.optimizers.SGD(0.01, momentum=0.9)
        self.count = tf.Variable(1.0)
        self.counts = {"all": tf.Variable(1.0)}

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(tf.square(y - self(x, training=True)))
            loss *= self.count * self.counts["all"]
        gradients = tape.gradient(loss, self.trainable_variables)
        for optimizer in (self.optimizer, self.others[0], self.third):
            optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.count.assign_add(0.1)
        self.counts["all"].assign_add(0.1)
        return {"loss": loss}


def build_two_optimizers():
    keras.utils.set_random_seed(7)
    model = TwoOptimizers()
    model.compile(keras.optimizers.SGD(0.01))
    return model


@pytest.mark.slow
def test_a_killed_run_of_a_model_with_further_optimizers_goes_on_to_the_bit(tmp_path, caplog):
    check_exact(build_two_optimizers, (X, Y), tmp_path, batch_size=8)

    assert "not an exact continuation" not in caplog.text


def build_own_steps():
    keras.utils.set_random_seed(7)
    model = OwnSteps()
    model.compile(keras.optimizers.SGD(0.01))
    return model


@pytest.mark.long("Further runs of `fit`; killed ones and their numbers are tried in every run")
@pytest.mark.slow
def test_a_model_with_steps_of_its_own_and_data_of_python_go_on_to_the_bit(tmp_path):
    history = check_exact(build_own_steps, Batches, tmp_path)

    losses = history.history["loss"]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_a_killed_run_on_a_generator_goes_on_to_the_bit(tmp_path, caplog):
    check_exact(build_model, generate, tmp_path)

    assert "read once to count them. Give `steps_per_epoch`" in caplog.text
    assert "runs Python code, whose own state is not saved" in caplog.text


@pytest.mark.slow
def test_a_run_that_fails_has_written_its_checkpoints_when_it_ends(tmp_path, monkeypatch):
    write = receipts.ReceiptWriter.write

    def write_slowly(self, prefix, step):
        time.sleep(0.5)
        return write(self, prefix, step)

    monkeypatch.setattr(receipts.ReceiptWriter, "write", write_slowly)
    with pytest.raises(KeyError):
        quintain.fit(
            *(build_model(), (X, Y)),
            model_dir=str(tmp_path),
            batch_size=8,
            trainer={"steps_per_loop": 1, "checkpoint_interval": 1},
            train_actions=[Stop(2)],
        )

    assert (tmp_path / "ckpt-1.index").exists()
    assert not [path.name for path in tmp_path.iterdir() if "incomplete" in path.name]


@pytest.mark.slow
def test_training_ends_with_a_generator_that_can_not_begin_again(tmp_path, caplog):
    options = {"model_dir": str(tmp_path), "epochs": 2, "steps_per_epoch": 2, "verbose": 0}
    history = quintain.fit(build_model(), generate(), **options)

    assert history.steps == 3
    assert "The training data ended at step 3 of 4" in caplog.text
    caplog.clear()
    again = itertools.chain(generate(), generate())
    assert quintain.fit(build_model(), again, **options).steps == 4
    assert "training data ended" not in caplog.text


def test_an_endless_pydataset_has_no_number_of_batches():
    data = Batches()
    data.__class__ = type("Endless", (Batches,), {"num_batches": None})

    assert keras_data.count_batches(data, 8) is None
    passes = keras_data._iterate(data, is_endless=True, shuffle_seed=1)
    assert len(list(itertools.islice(passes, 7))) == 7


def test_batches_of_a_pydataset_are_shuffled_anew_in_each_epoch_and_alike_in_each_run():
    class Numbers(keras.utils.PyDataset):
        def __len__(self):
            return 9

        def __getitem__(self, number):
            return np.array([number]), np.array([number])

    def read(shuffle_seed):
        passes = keras_data._iterate(Numbers(), is_endless=True, shuffle_seed=shuffle_seed)
        numbers = [int(x[0]) for x, _ in itertools.islice(passes, 18)]
        return numbers[:9], numbers[9:]

    first, second = read(7)
    assert first != second
    assert first != sorted(first)
    assert sorted(first) == sorted(second) == list(range(9))
    assert read(7) == (first, second) != read(8)
    assert read(None) == (list(range(9)), list(range(9)))


def test_dimensions_that_differ_between_batches_are_free():
    batches = ((np.zeros([2, size]), np.zeros([2, 1])) for size in (3, 5, 7))
    spec = keras_data.find_spec(keras_data.resolve(batches, "train"), "train")

    assert [part.shape.as_list() for part in spec] == [[None, None], [None, 1]]


def test_columns_of_pandas_are_arrays():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}, index=[0.5, 1.5])
    x, y = keras_data.resolve((frame, pd.Series([1, None], dtype="Int64")), "train")

    np.testing.assert_array_equal(x, [[1.0, 3.0], [2.0, 4.0]])
    np.testing.assert_array_equal(y, [1.0, np.nan])
    with pytest.raises(errors.ConfigError, match="train: got a DataFrame with values of several"):
        keras_data.resolve((frame.astype({"b": str}), y), "train")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda model: model.optimizer.learning_rate.assign(0.5), "learning_rate"),
        (lambda model: setattr(model, "stop_training", True), "stop_training"),
    ],
)
def test_a_callback_that_changes_the_training_is_named(tmp_path, change, name):
    model = build_model()
    callback = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: change(model))

    with pytest.raises(
        errors.ConfigError, match=rf"LambdaCallback.on_epoch_end changed .*{name}.* only read"
    ):
        quintain.fit(model, (X, Y), model_dir=str(tmp_path), callbacks=[callback])


def former_model():
    """Returns what looks like a model of Keras 2, without importing that."""
    name = {"__module__": "tf_keras.src.engine.sequential", "__call__": lambda self: None}
    return type("Sequential", (), name)()


class GuideSteps(keras.Model):
    """Has the steps of Keras 2's guide, and a part of the loss that only training has."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1, kernel_regularizer=lambda kernel: 2.0)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = self.compiled_loss(y, predictions, regularization_losses=self.losses)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(y, predictions)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y = data
        predictions = self(x, training=False)
        self.compiled_loss(y, predictions)
        self.compiled_metrics.update_state(y, predictions)
        return {metric.name: metric.result() for metric in self.metrics}


class OwnMetrics(GuideSteps):
    """Measures by metrics of its own, one of which is called like one that it is compiled with."""

    def __init__(self):
        super().__init__()
        self.own = [keras.metrics.Mean("loss"), keras.metrics.MeanAbsoluteError("mae")]

    @property
    def metrics(self):
        return self.own

    def train_step(self, data):
        x, y = data
        predictions = self(x, training=True)
        self.own[0].update_state(tf.reduce_mean(tf.square(y - predictions)) + 2.0)
        self.own[1].update_state(y, predictions)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        logs = self.train_step(data)
        self.own[0].total.assign_sub(2.0)
        return logs


@pytest.mark.long("Further cases of a test of which some run every time", but=["GuideSteps"])
@pytest.mark.slow
@pytest.mark.parametrize("kind", [GuideSteps, OwnMetrics])
def test_steps_as_keras_2_wrote_them_measure_what_they_measured_there(tmp_path, kind):
    model = kind()
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=["mae"])
    history = quintain.fit(
        model, (X, Y), (X, Y), model_dir=str(tmp_path / "run"), epochs=2, batch_size=len(X)
    ).history

    error = model.predict(X, verbose=0) - Y
    mse, mae = np.mean(error**2), np.mean(np.abs(error))
    assert history["loss"] == pytest.approx([mse + 2.0] * 2, rel=1e-5)
    assert history["val_loss"] == pytest.approx([mse] * 2, rel=1e-5)
    assert history["mae"] == history["val_mae"] == pytest.approx([mae] * 2, rel=1e-5)


@pytest.mark.long("Further runs of `fit`; killed ones and their numbers are tried in every run")
@pytest.mark.slow
def test_losses_and_weights_are_those_of_keras(tmp_path):
    """Several inputs and outputs in mappings, weights of examples, and a last batch of its own."""
    data = (
        {"left": X[:, :2], "right": X[:, 2:]},
        {"sum": Y, "sign": (Y > 0).astype("int32")},
        {"sum": WEIGHTS, "sign": 1 - WEIGHTS / 2},
    )
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(10)

    def build():
        keras.utils.set_random_seed(7)
        left, right = keras.Input([2], name="left"), keras.Input([1], name="right")
        hidden = keras.layers.Concatenate()([left, right])
        outputs = {
            "sum": keras.layers.Dense(1, name="sum")(hidden),
            "sign": keras.layers.Dense(1, activation="sigmoid", name="sign")(hidden),
        }
        model = keras.Model({"left": left, "right": right}, outputs)
        model.compile(
            keras.optimizers.SGD(0.1),
            {"sum": "mse", "sign": "binary_crossentropy"},
            loss_weights={"sum": 0.5, "sign": 2.0},
            weighted_metrics={"sum": ["mae"]},
        )
        return model

    expected, found = build(), build()
    theirs = expected.fit(dataset, epochs=2, validation_data=dataset, verbose=0, shuffle=False)
    ours = quintain.fit(found, dataset, dataset, model_dir=str(tmp_path / "run"), epochs=2)

    for one, other in zip(read_weights(expected), read_weights(found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert ours.history["val_loss"] == pytest.approx(theirs.history["val_loss"], rel=1e-5)
    assert ours.history["val_sum_mae"] == pytest.approx(theirs.history["val_sum_mae"], rel=1e-5)


MODULE = """
import keras, numpy as np, quintain

@keras.saving.register_keras_serializable("tests")
class Twice(keras.layers.Layer):
    def call(self, inputs):
        return 2.0 * inputs

def build():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([2]), Twice(), keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"])
    return model

def train():
    x = np.ones([8, 2], "float32")
    return x, x.sum(axis=1, keepdims=True)

def validation():
    return train()
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of the user's in a directory where commands are not started."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "own_model_of_fit.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "project"), *sys.path])
    yield __import__("own_model_of_fit")
    sys.modules.pop("own_model_of_fit")


@pytest.mark.long("Further runs of `fit`; killed ones and their numbers are tried in every run")
@pytest.mark.slow
def test_commands_know_the_run_of_a_module(module, tmp_path, capsys, monkeypatch):
    run = str(tmp_path / "run")
    model = module.build()
    history = quintain.fit(
        model, module.train, module.validation, model_dir=run, epochs=2, batch_size=4
    )
    sys.modules.pop("own_model_of_fit")
    monkeypatch.setattr(sys, "path", sys.path[1:])
    own = keras.saving.get_custom_objects()
    for name in [name for name, found in own.items() if found.__module__ == module.__name__]:
        monkeypatch.delitem(own, name)

    assert main.run(["train", "--mode=eval", f"--model_dir={run}", "--json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["validation_loss"] == pytest.approx(history.history["val_loss"][-1])
    more = ["train", f"--model_dir={run}", "--set", "trainer.train_steps=6", "--json"]
    assert main.run(more) == 0
    assert json.loads(capsys.readouterr().out)["step"] == 6
    (tmp_path / "x.jsonl").write_text("[1, 1]\n")
    assert main.run(["predict", f"--model_dir={run}", f"--input={tmp_path}/x.jsonl"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["outputs"]


@pytest.mark.long("Further runs of `fit`; killed ones and their numbers are tried in every run")
@pytest.mark.slow
def test_training_ends_early_and_the_best_is_kept(tmp_path):
    model = build_model()
    seen = []

    history = quintain.fit(
        model,
        (X, Y),
        (X, -Y),
        model_dir=str(tmp_path / "run"),
        epochs=50,
        optimizer=keras.optimizers.SGD(0.05),
        monitor="val_mae",
        patience=2,
        eval_actions=[seen.append],
    )

    assert 0 < len(history.history["val_mae"]) < 50
    assert len(seen) == len(history.history["val_mae"])
    best = json.loads((tmp_path / "run" / "best" / "info.json").read_text())
    assert best["mae"] == pytest.approx(min(history.history["val_mae"]))
    assert "polyline" in history._repr_html_()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"callbacks": [keras.callbacks.EarlyStopping()]}, "EarlyStopping: give `patience`"),
        (
            {"callbacks": [keras.callbacks.LambdaCallback(on_train_batch_end=print)]},
            "LambdaCallback: give `train_actions` .* for its on_train_batch_end",
        ),
        ({"callbacks": [print]}, r"builtin_function_or_method: give a keras.callbacks.Callback"),
        ({"train": generate()}, "steps_per_epoch: missing"),
        ({"train": iter(())}, "train: got a Generator that gives no batch"),
        ({"validation": generate()}, "validation: got a generator, which can be read once"),
        ({"validation": (X, Y), "validation_split": 0.5}, "expected one of them"),
        ({"validation_split": 1.0}, "it leaves 24 examples undivided"),
        ({"train": generate, "validation_split": 0.5}, "only arrays can be split"),
        ({"class_weight": {"cat": 2.0}}, "class_weight: got .*, expected weights by the numbers"),
        ({"class_weight": {-1: 2.0}}, "class_weight: got .*, expected weights by the numbers"),
        (
            {"train": (X, Y, WEIGHTS), "class_weight": {0: 2.0}},
            r"expected \(x, y\) with one tensor",
        ),
        (
            {"callbacks": keras.callbacks.LambdaCallback(), "trainer": {"steps_per_loop": 7}},
            r"trainer: got \['steps_per_loop'\], but with callbacks",
        ),
        ({"verbose": 3}, "verbose: got 3, expected 'auto', 0, 1 or 2"),
        ({"train": X}, "train: got ndarray, expected a tf.data.Dataset of batches"),
        ({"train": tf.data.Dataset.from_tensors(1.0)}, r"expected batches; call .batch\(...\)"),
        ({"train": tf.data.Dataset.from_tensors((X, Y)).repeat()}, "steps_per_epoch: missing"),
        ({"patience": 2}, "patience: got 2, but there is no `validation`"),
        ({"runtime": {"distribution_strategy": "mirrored"}}, "give a function that builds"),
        ({"model": keras.Sequential([keras.layers.Dense(1)])}, "model: it is not compiled"),
        ({"epochs": "3"}, "epochs: got '3', expected a whole number from 1"),
        ({"batch_size": 0}, "batch_size: got 0, expected a whole number from 1"),
        ({"train": (X, Y[:3])}, f"train: got arrays of {len(X)}, 3 examples"),
        ({"train": (X[:0], Y[:0])}, "train: got arrays of 0, 0 examples"),
        ({"train": (X, None)}, "train: got a list, a single value or None"),
        ({"model": former_model()}, "It is one of tf_keras, which is Keras 2: build it with keras"),
        ({"model": 5}, "model: got 5, expected a keras.Model"),
        ({"trainer": {"train_stepss": 1}}, "Did you mean 'train_steps'"),
    ],
)
def test_mistakes_are_told(tmp_path, options, words):
    model = options.pop("model", None) or build_model()
    train = options.pop("train", (X, Y))

    with pytest.raises(errors.ConfigError, match=words):
        quintain.fit(model, train, model_dir=str(tmp_path / "run"), **options)
    assert not (tmp_path / "run").exists() or list((tmp_path / "run").iterdir()) == []


def test_a_step_that_says_no_loss_is_refused():
    class Silent(keras.Model):
        def train_step(self, data):
            return {}

    with pytest.raises(errors.ConfigError, match=r"Silent.train_step returned nothing, expected"):
        keras_task._run_step(Silent(), Silent().train_step, None)


class Unknown(keras.Model):
    """Its config is not what its constructor takes."""

    def __init__(self, depth):
        super().__init__()
        self.dense = keras.layers.Dense(depth.size)

    def call(self, inputs):
        return self.dense(inputs)


def test_a_model_that_commands_can_not_build_is_told_when_the_run_starts(tmp_path):
    model = Unknown(np.zeros(2))
    model(X)

    problem = keras_task.save_model(model, str(tmp_path))

    assert "Give `fit` the function that builds and compiles the model" in problem
    assert list(tmp_path.iterdir()) == []


def test_specs_of_batches_survive_as_text():
    spec = keras_data.find_spec(({"a": X}, Y, WEIGHTS), "train")

    assert keras_data.from_text(keras_data.to_text(spec)) == spec
    assert spec[0]["a"].shape.as_list() == [None, 3]


@pytest.mark.slow
def test_a_new_head_is_trained_on_the_base_of_another_run(tmp_path):
    def build_classifier(num_outputs):
        base = keras.layers.Dense(4, name="base", trainable=num_outputs == 1)
        head = keras.layers.Dense(num_outputs, name="head")
        model = keras.Sequential([keras.Input([3]), base, head])
        model.compile("adam", "mse")
        return model

    first, second = build_classifier(1), build_classifier(2)
    quintain.fit(first, (X, Y), model_dir=str(tmp_path / "first"))
    options = {"init_checkpoint": str(tmp_path / "first"), "init_exclude": ["head/*"]}
    quintain.fit(second, (X, np.repeat(Y, 2, 1)), model_dir=str(tmp_path / "second"), **options)

    for ours, theirs in zip(second.layers[0].weights, first.layers[0].weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_a_run_whose_layers_are_unfrozen_says_how_to_go_on(tmp_path):
    model = build_model()
    model.layers[0].trainable = False
    model.compile("adam", "mse")
    quintain.fit(model, (X, Y), model_dir=str(tmp_path))

    with pytest.raises(
        errors.CheckpointError, match=r"dense.*kernel: trainable now(?s:.*)model_dir"
    ):
        quintain.fit(build_model(), (X, Y), model_dir=str(tmp_path), epochs=2)
