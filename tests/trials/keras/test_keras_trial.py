import dataclasses
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.records.config import experiment_spec
from quintain.records.rows import trial
from quintain.trials import trial_context
from quintain.trials.keras import keras_replicas, keras_steps, keras_trial
from quintain.trials.process import local, trial_checkpoint

RNG = np.random.RandomState(0)
X = RNG.normal(size=(20, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True).astype("float32")


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(f"begin {epoch}")

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(f"end {epoch} {','.join(sorted(logs))}")


class LinearTrial(keras_trial.KerasTrial):
    callbacks = ()

    def build_model(self, hparams):
        model = keras.Sequential(
            [keras.layers.Input((4,)), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
        )
        model.compile(keras.optimizers.Adam(hparams["rate"]), loss="mse", metrics=["mae"])
        return model

    def build_training_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(20).batch(4)

    def build_validation_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    def keras_callbacks(self):
        return list(self.callbacks)


class ArraysTrial(LinearTrial):
    def build_training_data_loader(self):
        return X, Y

    def build_validation_data_loader(self):
        return X, Y


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return X[4 * index : 4 * index + 4], Y[4 * index : 4 * index + 4]


class SequenceTrial(LinearTrial):
    def build_training_data_loader(self):
        return Batches()

    def build_validation_data_loader(self):
        return Batches()


class StatefulCallbacksTrial(LinearTrial):
    def keras_callbacks(self):
        return [
            keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=0, min_delta=10.0),
            keras.callbacks.EarlyStopping("loss", patience=50),
        ]


@pytest.fixture
def spec(tmp_path):
    return trial.TrialSpec(
        experiment_id=1,
        trial_id=2,
        experiment_config={"searcher": {"metric": "val_loss"}},
        hparams={"rate": 0.1, "global_batch_size": 4},
        seed=7,
        model_dir=str(tmp_path),
        entrypoint=None,
        checkpoint_dir=str(tmp_path / "checkpoints"),
        scratch_dir=str(tmp_path),
    )


def build(trial_class, spec):
    keras.utils.set_random_seed(spec.seed)
    return keras_trial.build_controller(trial_class, trial_context.TrialContext(spec))


def restored(trial_class, spec, stored, **fields):
    path = pathlib.Path(spec.checkpoint_dir, stored.uuid)
    again = dataclasses.replace(spec, latest_checkpoint=str(path), **fields)
    controller = build(trial_class, again)
    return controller, trial_checkpoint.restore(controller, again)


class UnevenTrial(LinearTrial):
    """Epochs end with a smaller batch, and batches are prefetched."""

    def build_training_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(20).batch(3).prefetch(3)


class Noise(keras.layers.Layer):
    """Draws random numbers without any seed."""

    def call(self, x, training=False):
        if not training:
            return x
        return x + tf.random.normal(tf.shape(x)) + keras.random.uniform((1,))


class NoisyTrial(LinearTrial):
    def build_model(self, hparams):
        model = keras.Sequential([keras.layers.Input((4,)), Noise(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(hparams["rate"]), loss="mse", metrics=["mae"])
        return model


class SeededNoise(keras.layers.Layer):
    """Draws a seed where it is traced, as the functions of Keras' former backend do."""

    def call(self, x):
        noise = tf.random.normal(tf.shape(x), seed=np.random.randint(10**6))
        return x + tf.map_fn(lambda row: row + tf.random.normal([4]), noise)


class SeededNoiseTrial(LinearTrial):
    """Epochs end with a smaller batch, for which a step is traced anew."""

    def build_model(self, hparams):
        model = keras.Sequential([keras.layers.Input((4,)), SeededNoise(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(hparams["rate"]), loss="mse", metrics=["mae"])
        return model

    def build_training_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(3)


class OrderedTrial(LinearTrial):
    def build_training_data_loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(3).prefetch(3)


class Annealing(keras.callbacks.Callback):
    """Changes a variable that the training step reads."""

    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def on_epoch_begin(self, epoch, logs=None):
        self.weight.assign_add(0.25)


class Counter(keras.losses.Loss):
    """Holds a variable that only the step changes."""

    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0.0)

    def call(self, y, y_pred):
        self.count.assign_add(1.0)
        return tf.square(y - y_pred) * (1.0 + self.count)


class OwnStepsModel(keras.Model):
    """Holds what its step changes in every way that is promised."""

    def __init__(self, rate, weight):
        super().__init__()
        self.parts = [keras.layers.Dense(2), keras.layers.Dense(1)]
        self.others = [keras.optimizers.Adam(rate)]
        self.steps = {"count": tf.Variable(0.0), "more": (tf.Variable(1.0),)}
        self.weight, self.counting = weight, Counter()
        self.seed = keras.random.SeedGenerator(3)

    def build(self, shape):
        self.made = keras.optimizers.SGD(0.01, momentum=0.9)
        super().build(shape)

    def call(self, x):
        return self.parts[1](self.parts[0](x))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            y_pred = self(x + keras.random.normal((4, 4), seed=self.seed))
            loss = self.weight * tf.reduce_mean(self.counting(y, y_pred))
        chosen = (self.made, self.others[0], self.optimizer)
        variables = [self.parts[0].weights, self.parts[1].weights, self.parts[1].weights]
        for optimizer, each in zip(chosen, variables, strict=True):
            optimizer.apply_gradients(zip(tape.gradient(loss, each), each, strict=True))
        self.steps["count"].assign_add(1.0)
        self.steps["more"][0].assign(2.0 * self.steps["more"][0])
        return {"loss": loss + self.steps["count"] + self.steps["more"][0]}


class OwnStepsTrial(LinearTrial):
    def build_model(self, hparams):
        self.weight = tf.Variable(1.0)
        model = OwnStepsModel(hparams["rate"], self.weight)
        model.compile(keras.optimizers.RMSprop(0.01), loss="mse")
        return model

    def keras_callbacks(self):
        return [Annealing(self.weight)]


@pytest.mark.long(
    "Further cases of a test of which some run every time",
    but=["OwnStepsTrial", "StatefulCallbacksTrial", "SeededNoiseTrial"],
)
@pytest.mark.slow
@pytest.mark.parametrize(
    "trial_class",
    [
        OwnStepsTrial,
        LinearTrial,
        ArraysTrial,
        SequenceTrial,
        StatefulCallbacksTrial,
        UnevenTrial,
        OrderedTrial,
        NoisyTrial,
        SeededNoiseTrial,
    ],
)
def test_a_training_in_two_processes_is_that_of_one_to_the_bit(trial_class, spec):
    whole = build(trial_class, spec)
    expected = whole.train(7).batch_metrics + whole.train(6).batch_metrics
    first = build(trial_class, spec)
    found = first.train(7).batch_metrics
    first.validate()
    stored = trial_checkpoint.save(first, spec, 7)
    second, total = restored(trial_class, spec, stored)
    assert total == 7
    found += second.train(6).batch_metrics
    assert found == expected
    for left, right in zip(whole._model.variables, second._model.variables, strict=True):
        np.testing.assert_array_equal(left, right)
    final = whole.validate()
    assert second.validate() == final
    assert sorted(final.metrics) == sorted(whole.list_validation_metrics())


class Count(keras.metrics.Metric):
    """Counts examples, and returns its variable as the metric in Keras' documentation does."""

    def __init__(self):
        super().__init__(name="count")
        self.count = self.add_variable(shape=(), initializer="zeros", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.count.assign_add(keras.ops.sum(keras.ops.ones_like(y_true)))

    def result(self):
        return self.count


@pytest.mark.slow
def test_metrics_are_those_of_each_batch(spec):
    class PlainTrial(LinearTrial):
        def build_training_data_loader(self):
            return tf.data.Dataset.from_tensor_slices((X, Y)).batch(10)

        def build_model(self):
            model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
            model.compile(keras.optimizers.SGD(0.0), loss="mse", metrics=["mae", Count()])
            return model

    controller = build(PlainTrial, spec)
    result = controller.train(3)
    assert result.num_inputs == 30
    for number, metrics in enumerate(result.batch_metrics):
        part = slice(10 * (number % 2), 10 * (number % 2) + 10)
        errors_ = np.asarray(controller._model(X[part])) - Y[part]
        assert metrics["loss"] == pytest.approx(np.mean(errors_**2), rel=1e-6)
        assert metrics["mae"] == pytest.approx(np.mean(np.abs(errors_)), rel=1e-6)
    validation = controller.validate()
    errors_ = np.asarray(controller._model(X)) - Y
    assert validation.num_inputs == 20
    assert validation.metrics["val_loss"] == pytest.approx(np.mean(errors_**2), rel=1e-6)
    assert validation.metrics["val_mae"] == pytest.approx(np.mean(np.abs(errors_)), rel=1e-6)
    assert validation.metrics["val_count"] == 20
    assert controller.train(2).batch_metrics == [result.batch_metrics[1], result.batch_metrics[0]]
    assert [metrics["count"] for metrics in result.batch_metrics] == [10, 10, 10]
    assert controller.metric_aliases["loss"] == "val_loss"


@pytest.mark.slow
def test_batches_are_counted_while_a_loop_in_the_graph_goes_on(spec):
    built, seen = [], []

    def look(x):
        seen.extend(controller.count_batches() for controller in built)
        return x

    class WatchedTrial(LinearTrial):
        def build_training_data_loader(self):
            data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(1)
            shape = (None, 4)
            return data.map(
                lambda x, y: (tf.ensure_shape(tf.py_function(look, [x], x.dtype), shape), y)
            )

    built.append(build(WatchedTrial, spec))
    built[0].train(20)
    assert built[0].count_batches() == 20
    assert set(seen) & set(range(1, 20))
    assert seen == sorted(seen)


@pytest.mark.slow
def test_a_validation_gives_the_same_with_a_loop_in_the_graph_and_without(spec, monkeypatch):
    found = []
    for most in (8, 0):
        monkeypatch.setattr(keras_steps, "_FEW_BATCHES", most)
        controller = build(LinearTrial, spec)
        controller.train(5)
        found += [controller.validate(), controller.validate()]

    assert found == [found[0]] * 4
    assert found[0].num_inputs == len(X)


def test_copy_on_read_is_turned_off_for_embeddings_that_a_step_updates_by_rows():
    model = keras.Sequential([keras.layers.Embedding(50, 2), keras.layers.Flatten()])
    model.compile("sgd", "mse")
    replicas = keras_replicas.Replicas(trial_context.TrialContext.from_config({}))
    steps = keras_steps.Steps(model, jit_compile=False, replicas=replicas)

    steps.build((tf.TensorSpec([4, 3], tf.int32), tf.TensorSpec([4, 6], tf.float32)))

    kinds = [op.type for op in steps.graph.get_operations()]
    assert kinds.index("DisableCopyOnRead") > kinds.index("ResourceScatterSub")


def test_epochs_end_after_one_pass_with_the_metrics_of_a_validation_that_follows(spec):
    recorder = Recorder()

    class RecordedTrial(LinearTrial):
        callbacks = (recorder,)

    controller = build(RecordedTrial, spec)
    controller.train(5)
    controller.validate()
    controller.train(3)
    controller.validate()
    controller.train(4)
    controller.close()
    assert recorder.calls == [
        "begin 0",
        "end 0 loss,mae,val_loss,val_mae",
        "begin 1",
        "end 1 loss,mae,val_loss,val_mae",
        "begin 2",
    ]


def test_hooks_of_batches_are_called_for_each_batch(spec):
    seen = []

    class Hooks(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((batch, sorted(logs)))

    class HookedTrial(LinearTrial):
        callbacks = (Hooks(),)

    build(HookedTrial, spec).train(6)
    assert seen == [(number % 5, ["loss", "mae"]) for number in range(6)]


def test_hooks_that_are_given_as_functions_and_those_of_validations_are_called(spec):
    seen = []

    class Tests(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            seen.append(sorted(logs))

    class HookedTrial(LinearTrial):
        callbacks = (
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: seen.append((batch, len(logs)))
            ),
            Tests(),
        )

    controller = build(HookedTrial, spec)
    controller.train(2)
    assert seen == [(0, 2), (1, 2)]
    controller.validate()
    assert seen[2:] == [["loss", "mae"]] * 3


class FormerModel(keras.Model):
    """Has steps as the documentation of Keras 2 wrote them."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.total = keras.metrics.Mean(name="total")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compiled_loss(y, self(x, training=True))
        weights = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.compiled_metrics.update_state(y, self(x))
        self.total.update_state(loss)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y = data
        self.total.update_state(self.compute_loss(y=y, y_pred=self(x)))
        return {"own": self.total.result()}


@pytest.mark.filterwarnings("ignore:.*compiled_metrics.*")
def test_steps_as_keras_2_wrote_them_give_the_metrics_that_they_return(spec):
    class FormerTrial(LinearTrial):
        def build_model(self):
            model = FormerModel()
            model.compile("sgd", loss="mse", metrics=["mae"])
            return model

    controller = build(FormerTrial, spec)
    (logs,) = controller.train(1).batch_metrics
    assert logs["loss"] == logs["total"]
    assert {"loss", "mae", "total"} <= set(logs)
    error = (controller._model(X).numpy() - Y) ** 2
    means = [error[start : start + 8].mean() for start in (0, 8, 16)]
    assert controller.validate().metrics == {"val_own": pytest.approx(np.mean(means), rel=1e-5)}


def test_a_step_that_returns_no_metrics_is_an_error(spec):
    broken = type("BrokenModel", (FormerModel,), {"train_step": lambda self, data: None})

    class BrokenTrial(LinearTrial):
        def build_model(self):
            model = broken()
            model.compile("sgd", loss="mse")
            return model

    with pytest.raises(errors.TrialError, match=r"BrokenModel\.train_step and test_step"):
        build(BrokenTrial, spec).train(1)


def test_a_validation_draws_the_same_each_time(spec):
    controller = build(SeededNoiseTrial, spec)
    assert controller.validate() == controller.validate()


def test_a_callback_that_stops_training_asks_the_platform_to_stop(spec):
    class StoppedTrial(LinearTrial):
        callbacks = (keras.callbacks.EarlyStopping("loss", min_delta=1e9, patience=1),)

    controller = build(StoppedTrial, spec)
    controller.train(9)
    assert not controller.context.get_stop_requested()
    controller.train(7)
    assert controller.context.get_stop_requested()


@pytest.mark.slow
def test_a_warm_start_takes_weights_and_optimizer_but_no_counters(spec):
    first = build(LinearTrial, spec)
    first.train(7)
    stored = trial_checkpoint.save(first, spec, 7)
    second, total = restored(LinearTrial, spec, stored, is_warm_start=True)
    assert total == 0
    assert second._train_data.position == 0
    for left, right in zip(first._model.weights, second._model.weights, strict=True):
        np.testing.assert_array_equal(left, right)
    for left, right in zip(
        first._model.optimizer.variables, second._model.optimizer.variables, strict=True
    ):
        np.testing.assert_array_equal(left, right)


@pytest.mark.slow
def test_a_warm_start_takes_further_optimizers_and_no_learning_rates(spec):
    first = build(OwnStepsTrial, spec)
    first.train(7)
    stored = trial_checkpoint.save(first, spec, 7)
    hparams = {**spec.hparams, "rate": 0.5}
    second, _ = restored(OwnStepsTrial, spec, stored, is_warm_start=True, hparams=hparams)
    iterations, rate, *others = second._model.others[0].variables
    assert (int(iterations), float(rate)) == (7, 0.5)
    for left, right in zip(first._model.others[0].variables[2:], others, strict=True):
        np.testing.assert_array_equal(left, right)
    assert float(second._model.steps["count"]) == 7.0


OUTSIDE = tf.Variable(0.0)
TABLE = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)


def leak(change, spec):
    """Begins a trial whose training step calls a function."""

    class LeakyModel(keras.Sequential):
        def train_step(self, data):
            change()
            return super().train_step(data)

    class LeakyTrial(LinearTrial):
        def build_model(self):
            model = LeakyModel([keras.layers.Input((4,)), keras.layers.Dense(1)])
            model.compile("sgd", loss="mse")
            return model

    build(LeakyTrial, spec).list_validation_metrics()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: OUTSIDE.assign_add(1.0), ["a variable () of float32", "OUTSIDE.assign_add"]),
        (lambda: TABLE.insert("a", 1), ["a table", "TABLE.insert"]),
    ],
)
def test_a_step_that_changes_what_no_checkpoint_has_is_refused_at_the_start(spec, change, words):
    with pytest.raises(errors.TrialError, match="no checkpoint would have") as caught:
        leak(change, spec)
    assert all(word in str(caught.value) for word in ["LeakyModel.train_step", *words])


def test_what_a_step_reads_and_no_checkpoint_has_is_named_at_the_start(spec, caplog):
    leak(lambda: tf.identity(OUTSIDE), spec)
    assert "a variable () of float32" in caplog.text
    assert "tf.identity(OUTSIDE)" in caplog.text


@pytest.mark.slow
def test_variables_that_are_made_late_are_named_when_the_trial_is_saved(spec, caplog):
    controller = build(LinearTrial, spec)
    controller.train(1)
    controller.trial.late = tf.Variable(0.0, name="late")
    trial_checkpoint.save(controller, spec, 1)
    assert "1 variables that were made after training began, such as late:0" in caplog.text


@pytest.mark.slow
def test_a_checkpoint_of_another_model_is_refused(spec):
    class WiderTrial(LinearTrial):
        def build_model(self):
            model = keras.Sequential(
                [keras.layers.Input((4,)), keras.layers.Dropout(0.2), keras.layers.Dense(2)]
            )
            model.compile("adam", loss="mse", metrics=["mae"])
            return model

    controller = build(LinearTrial, spec)
    controller.train(1)
    stored = trial_checkpoint.save(controller, spec, 1)
    with pytest.raises(errors.CheckpointError, match=r"has the shape \[4, 1\]"):
        restored(WiderTrial, spec, stored)


@pytest.mark.slow
def test_the_model_of_a_checkpoint_can_be_loaded(spec):
    controller = build(LinearTrial, spec)
    controller.train(1)
    forecast = controller.measure_state()
    stored = trial_checkpoint.save(controller, spec, 1)
    assert 0 < forecast < sum(stored.files.values())
    model = keras.models.load_model(pathlib.Path(spec.checkpoint_dir, stored.uuid, "model.keras"))
    np.testing.assert_array_equal(model(X), controller._model(X))


@pytest.mark.parametrize(
    ("loader", "message"),
    [
        (lambda self: tf.data.Dataset.from_tensor_slices((X, Y[:, 0])), "expected batches"),
        (lambda self: {"x": X}, "expected a batched"),
        (lambda self: iter([1]), "expected batches"),
        (lambda self: tf.data.Dataset.from_tensor_slices((X[:0], Y[:0])).batch(4), "no data"),
    ],
)
def test_data_that_can_not_be_used_are_an_error_before_training(spec, loader, message):
    broken = type("BrokenTrial", (LinearTrial,), {"build_training_data_loader": loader})
    with pytest.raises(errors.TrialError, match=message):
        build(broken, spec)


def test_a_model_that_is_not_compiled_is_an_error(spec):
    broken = type("BrokenTrial", (LinearTrial,), {"build_model": lambda self: keras.Sequential()})
    with pytest.raises(
        errors.TrialError, match=r"build_model\(\) \(test_keras_trial.py:\d+\) returned"
    ):
        build(broken, spec)


@pytest.mark.slow
def test_a_subclassed_model_and_custom_metrics_and_eager_steps_work(spec):
    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(x)

    for eager in (False, True):

        class SubclassedTrial(LinearTrial):
            def build_model(self):
                model = Net()
                model.compile("sgd", loss="mse", run_eagerly=eager)  # noqa: B023
                return model

        first = build(SubclassedTrial, spec)
        first.train(3)
        stored = trial_checkpoint.save(first, spec, 3)
        second, _ = restored(SubclassedTrial, spec, stored)
        assert first.train(4) == second.train(4)


@pytest.mark.slow
def test_local_test_runs_every_kind_of_workload(spec, tmp_path):
    (tmp_path / "model_def.py").write_text(
        "import keras, numpy as np\n"
        "from quintain.trials import KerasTrial\n"
        "class MyTrial(KerasTrial):\n"
        "    def build_model(self, hparams):\n"
        "        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])\n"
        "        model.compile('sgd', loss='mse')\n"
        "        return model\n"
        "    def build_training_data_loader(self):\n"
        "        return np.ones((8, 4)), np.ones((8, 1))\n"
        "    def build_validation_data_loader(self):\n"
        "        return np.ones((8, 4)), np.ones((8, 1))\n"
    )
    config = experiment_spec.parse(
        {
            "searcher": {"name": "single", "metric": "loss", "max_length": {"batches": 9}},
            "hyperparameters": {"batch_size": 4, "global_batch_size": 4},
            "scheduling_unit": 5,
        }
    )
    lines = []
    local.run_locally(config, tmp_path, test=True, tell=lines.append)
    assert [line.split()[0] for line in lines] == [
        "Hyperparameters:",
        "Trained",
        "Validated",
        "Saved",
        "Trained",
        "Trained",
        "Restoring",
        "Validated",
        "Trained",
        "Trained",
        "The",
    ]
    lines.clear()
    local.run_locally(config, tmp_path, test=False, tell=lines.append)
    assert [line.split(" in ")[0] for line in lines[1:]] == [
        "Trained on batches 0 to 5",
        "Trained on batches 5 to 9",
        "Validated on 8 examples",
    ]


@pytest.mark.slow
def test_local_test_compares_the_training_after_a_restore(spec, tmp_path):
    (tmp_path / "counting_model.py").write_text(
        "import keras, numpy as np\n"
        "from quintain.trials import KerasTrial\n"
        "class Counting(keras.Sequential):\n"
        "    number = 0\n"
        "    def train_step(self, data):\n"
        "        self.number += 1  # A number of Python, which no checkpoint has.\n"
        "        logs = super().train_step(data)\n"
        "        return logs | {'loss': logs['loss'] * self.number}\n"
        "class MyTrial(KerasTrial):\n"
        "    def build_model(self):\n"
        "        model = Counting([keras.layers.Input((4,)), keras.layers.Dense(1)])\n"
        "        model.compile('sgd', loss='mse', run_eagerly=True)\n"
        "        return model\n"
        "    def build_training_data_loader(self):\n"
        "        return np.ones((8, 4)), np.ones((8, 1))\n"
        "    build_validation_data_loader = build_training_data_loader\n"
    )
    searcher = {"name": "single", "metric": "loss", "max_length": {"batches": 9}}
    hyperparameters = {"global_batch_size": 4}
    config = experiment_spec.parse({"searcher": searcher, "hyperparameters": hyperparameters})
    with pytest.raises(errors.TrialError, match=r"Training metric 'loss' is .* without a restart"):
        local.run_locally(config, tmp_path, test=True, tell=[].append)


@pytest.mark.slow
def test_a_damaged_record_is_named_with_its_file(spec, tmp_path):
    path = str(tmp_path / "a [1] ü.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(8):
            writer.write(X[0].tobytes())
    data = bytearray(pathlib.Path(path).read_bytes())
    data[5 * len(data) // 8 + 12] ^= 1
    pathlib.Path(path).write_bytes(data)

    class RecordsTrial(LinearTrial):
        def build_training_data_loader(self):
            def parse(record):
                values = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [4])
                return values, tf.reduce_sum(values, keepdims=True)

            return tf.data.TFRecordDataset([path]).map(parse).batch(4)

    controller = build(RecordsTrial, spec)
    message = "record 6, at byte 172, is damaged"
    with pytest.raises(errors.DataError, match=message) as caught, controller.file_errors_named():
        controller.train(5)
    assert str(caught.value).startswith(path)


def test_validation_data_without_an_end_are_an_error(spec):
    def loader(self):
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat()

    broken = type("BrokenTrial", (LinearTrial,), {"build_validation_data_loader": loader})
    with pytest.raises(errors.TrialError, match="never ends"):
        build(broken, spec)
