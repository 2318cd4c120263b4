"""Runs graphs as trials and prints what came out; in a process of its own, which it changes."""

import dataclasses
import functools
import json
import pathlib
import sys
import tempfile

from quintain import errors
from quintain.trials.older import tf1_mode

tf1_mode.enable()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import ops  # noqa: E402
from tensorflow.python.ops import control_flow_ops, state_ops  # noqa: E402
from tensorflow.python.training import optimizer, training_ops  # noqa: E402

from quintain.records.rows import trial  # noqa: E402
from quintain.trials import trial_context  # noqa: E402
from quintain.trials.graphs import tensorflow_trial  # noqa: E402
from quintain.trials.process import trial_checkpoint  # noqa: E402

RNG = np.random.RandomState(0)
X = RNG.normal(size=(22, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True).astype("float32")


def make_data_loaders(experiment_config, hparams):
    train = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(22).batch(4)
    return train, tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


class NetTrial(tensorflow_trial.TensorFlowTrial):
    def __init__(self, hparams):
        self.hparams = hparams

    def build_graph(self, record, is_training):
        x, y = record
        x = tf.layers.batch_normalization(x, training=is_training)
        x = tf.cond(is_training, lambda: tf.nn.dropout(x, keep_prob=0.8), lambda: x)
        noise = tf.map_fn(lambda row: row + tf.random_normal([4]), tf.zeros_like(x))
        x = x + noise * tf.cast(is_training, tf.float32)
        with tf.variable_scope("net"):
            w = tf.get_variable("w", [x.get_shape()[1].value, 1])
        error = tf.matmul(x, w) - y
        self.rate = tf.train.exponential_decay(0.1, tf.train.get_global_step(), 5, 0.5)
        drawn = tf.random.log_uniform_candidate_sampler([[1]], 1, 5, True, 50)
        return {
            "loss": tf.reduce_mean(error**2),
            "rate": self.rate,
            "mean": tf.reduce_mean(x, 0),
            "running": tf.metrics.mean(tf.abs(error))[1],
            "drawn": drawn.sampled_candidates,
        }

    def optimizer(self):
        return tf.train.AdamOptimizer(self.rate)

    def training_metrics(self):
        return ["rate", "mean", "running", "drawn"]

    def validation_metrics(self):
        return ["loss", "running"]


class PartsTrial(NetTrial):
    """Its variables are in parts, and a table counts its batches."""

    def build_graph(self, record, is_training):
        with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
            outputs = super().build_graph(record, is_training)
        table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
        count = table.lookup("batches") + tf.cast(is_training, tf.int64)
        with tf.control_dependencies([table.insert("batches", count)]):
            return outputs | {"count": tf.identity(count)}

    def training_metrics(self):
        return [*super().training_metrics(), "count"]


class StatelessTrial(NetTrial):
    def build_graph(self, record, is_training):
        error = tf.matmul(record[0], tf.get_variable("w", [4, 1])) - record[1]
        seen = tf.get_variable("seen", [], tf.int32, tf.zeros_initializer(), trainable=False)
        with tf.control_dependencies([seen.assign_add(1)]):
            return {"loss": tf.reduce_mean(error**2), "count": tf.shape(error)[0]}

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)

    def training_metrics(self):
        return ["count"]

    def validation_metrics(self):
        return ["loss", "count"]


def new_spec(directory, **fields):
    spec = trial.TrialSpec(
        experiment_id=1,
        trial_id=2,
        experiment_config={"searcher": {"metric": "loss"}},
        hparams={},
        seed=11,
        model_dir=str(directory),
        entrypoint=None,
        checkpoint_dir=str(directory / "checkpoints"),
        scratch_dir=str(directory),
    )
    return dataclasses.replace(spec, **fields)


def build(trial_class, spec, make=make_data_loaders):
    context = trial_context.TrialContext(spec, {"make_data_loaders": make})
    return tensorflow_trial.build_controller(trial_class, context)


def values_of(controller):
    with controller._graph.as_default():
        variables = sorted(tf.global_variables(), key=lambda each: each.dtype.is_integer)
    return [value.tolist() for value in controller._session.run(variables)]


def split(directory, make=make_data_loaders, trial_class=NetTrial):
    spec = new_spec(directory)
    start = functools.partial(build, trial_class)
    whole = start(spec, make)
    expected = whole.train(5).batch_metrics
    whole.validate()
    expected += whole.train(8).batch_metrics
    first = start(spec, make)
    found = first.train(5).batch_metrics
    before = first.validate()
    stored = trial_checkpoint.save(first, spec, 5)
    num_operations = len(first._graph.get_operations())
    trial_checkpoint.save(first, spec, 5)
    again = dataclasses.replace(
        spec, latest_checkpoint=str(directory / "checkpoints" / stored.uuid)
    )
    second = start(again, make)
    total = trial_checkpoint.restore(second, again)
    same_validation = second.validate() == before
    found += second.train(8).batch_metrics
    warm = dataclasses.replace(again, is_warm_start=True)
    third = start(warm, make)
    warm_total = trial_checkpoint.restore(third, warm)
    with third._graph.as_default():
        counter = int(third._session.run(tf.train.get_global_step()))
    return {
        "total": total,
        "metrics": found == expected,
        "validation": same_validation,
        "variables": values_of(whole) == values_of(second),
        "random": all(
            len({json.dumps(one[name]) for one in expected}) == len(expected)
            for name in ("mean", "drawn")
        ),
        "rates": [one["rate"] for one in expected[:3]],
        "warm_total": warm_total,
        "warm_counter": counter,
        "files": sorted(stored.files),
        "grown": len(first._graph.get_operations()) - num_operations,
        "iterator": "iterator.index" in stored.files,
    }


def numbers(directory):
    controller = build(StatelessTrial, new_spec(directory))
    train = controller.train(6)
    assert controller.count_batches() == 6
    validation = controller.validate()
    loss = np.mean(
        [
            np.mean(
                (X[start : start + 8] @ np.array(values_of(controller)[0]) - Y[start : start + 8])
                ** 2
            )
            for start in (0, 8, 16)
        ]
    )
    return {
        "counts": [one["count"] for one in train.batch_metrics],
        "num_inputs": train.num_inputs,
        "listed": controller.list_validation_metrics(),
        "validation": validation.metrics,
        "validation_inputs": validation.num_inputs,
        "expected_loss": float(loss),
        "seen": values_of(controller)[-1],
    }


def sums(directory):
    """Returns the weights after each of four batches, with updates of two, averaged and added."""

    class SummedTrial(StatelessTrial):
        def optimizer(self):
            return tf.train.GradientDescentOptimizer(0.1)

    found = []
    for is_mean in (True, False):
        settings = {"aggregation_frequency": 2, "average_aggregated_gradients": is_mean}
        spec = new_spec(directory, experiment_config={"optimizations": settings})
        controller = build(SummedTrial, spec, with_rest)
        weights = [np.array(values_of(controller)[0])]
        for _ in range(4):
            controller.train(1)
            weights.append(np.array(values_of(controller)[0]))
        parts = [slice(0, 4), slice(4, 8)]
        gradient = [2 * X[rows].T @ (X[rows] @ weights[0] - Y[rows]) / 4 for rows in parts]
        expected = weights[0] - 0.1 * (np.mean if is_mean else np.sum)(gradient, axis=0)
        found.append(
            {
                "waits": bool(np.array_equal(weights[0], weights[1])),
                "updates": bool(np.allclose(weights[2], expected, rtol=1e-5)),
                "goes_on": not np.allclose(weights[4], weights[2]),
                "counter": int(controller._session.run(counter_of(controller))),
            }
        )
    return found


class FormerAdam(tf.train.AdamOptimizer):
    """As one was written: it has the methods for the variables that TensorFlow 1 made, alone."""

    def _apply_dense(self, grad, var):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        powers = self._get_beta_accumulators()
        updated = training_ops.apply_adam(
            var, m, v, *powers, self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t, grad
        )
        with tf.control_dependencies([updated]):
            return control_flow_ops.group(tf.assert_equal(updated, tf.identity(var)))


class FormerSteps(optimizer.Optimizer):
    """Plain steps, which ask for what TensorFlow's own modules had."""

    def __init__(self):
        super().__init__(use_locking=False, name="FormerSteps")

    def _apply_dense(self, grad, var):
        done = control_flow_ops.cond(
            tf.constant(True), lambda: 0.1 * grad, lambda: tf.zeros_like(grad)
        )
        return state_ops.assign_sub(var, done)

    def _apply_sparse(self, grad, var):
        assert isinstance(grad, ops.IndexedSlices)
        return state_ops.scatter_sub(var, grad.indices, 0.1 * grad.values)


class DoubledMixin:
    def _apply_dense(self, grad, var):
        return super()._apply_dense(2.0 * grad, var)


class Doubled(DoubledMixin, tf.train.GradientDescentOptimizer):
    pass


class Nothing(optimizer.Optimizer):
    pass


def optimizers(directory):
    """Returns whether optimizers as they were written do what TensorFlow's own do."""
    pairs = {
        "adam": (FormerAdam(0.01), tf.train.AdamOptimizer(0.01)),
        "steps": (FormerSteps(), tf.train.GradientDescentOptimizer(0.1)),
        "doubled": (Doubled(0.1), tf.train.GradientDescentOptimizer(0.2)),
        "nothing": (Nothing(False, "Nothing"), tf.train.GradientDescentOptimizer(0.1)),
    }

    class RowsTrial(StatelessTrial):
        def build_graph(self, record, is_training):
            rows = tf.get_variable("rows", [3, 4])
            picked = tf.nn.embedding_lookup(rows, [0, 2, 0])  # Its gradient is sparse.
            self.sparse = tf.reduce_mean(tf.matmul(record[0], picked, transpose_b=True) ** 2)
            results = super().build_graph(record, is_training)
            return results | {"loss": results["loss"] + self.sparse * self.hparams["sparse"]}

    found = {}
    for name, pair in pairs.items():
        weights = []
        try:
            for one in pair:
                sparse = float(name == "steps")
                kind = type("SomeTrial", (RowsTrial,), {"optimizer": lambda self, one=one: one})
                spec = new_spec(directory, hparams={"sparse": sparse})
                controller = build(kind, spec, with_rest)
                controller.train(3)
                weights.append(values_of(controller)[:3])
            former, present = weights
            found[name] = all(map(functools.partial(np.allclose, rtol=1e-5), former, present))
        except errors.QuintainError as error:
            found[name] = str(error)
    return found


def counter_of(controller):
    with controller._graph.as_default():
        return tf.train.get_global_step()


def with_rest(experiment_config, hparams):
    train = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4).prefetch(2)
    return train, tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


def with_generator(experiment_config, hparams):
    def generate():
        yield from zip(X, Y, strict=True)

    shapes = ([4], [1])
    train = tf.data.Dataset.from_generator(generate, (tf.float32, tf.float32), shapes)
    return train.batch(4), tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


def damage(directory):
    """Returns the errors of records that are damaged: within a file, and at its end."""
    path = directory / "a [1] ü.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for x in X:
            writer.write(x.tobytes())
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[5 * len(content) // len(X) + 12] ^= 1

    def make(config, hparams):
        def parse(record):
            x = tf.ensure_shape(tf.decode_raw(record, tf.float32), [4])
            return x, tf.reduce_sum(x, keepdims=True)

        records = tf.data.TFRecordDataset([str(path)]).map(parse)
        return records.batch(4), tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)

    messages = []
    for damaged in (bytes(flipped), content[:-25]):
        path.write_bytes(damaged)
        try:
            controller = build(StatelessTrial, new_spec(directory), make)
            with controller.file_errors_named():
                controller.train(5)
        except errors.DataError as error:
            messages.append(str(error).replace(str(directory), "DIR"))
    return messages


def faults(directory):
    spec = new_spec(directory)

    def batched():
        return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)

    def plain():
        return tf.data.Dataset.from_tensor_slices(X[:, 0])

    def change(**methods):
        return type("BrokenTrial", (StatelessTrial,), methods)

    cases = {
        "no_loss": lambda: build(
            change(build_graph=lambda self, record, is_training: {"los": tf.constant(1.0)}), spec
        ),
        "unknown_metric": lambda: build(
            change(validation_metrics=lambda self: ["loss", "cont"]), spec
        ),
        "loss_listed": lambda: build(change(training_metrics=lambda self: ["loss"]), spec),
        "no_optimizer": lambda: build(change(optimizer=lambda self: "adam"), spec),
        "structures": lambda: build(
            StatelessTrial, spec, lambda c, h: (batched(), batched().map(lambda x, y: x))
        ),
        "types": lambda: build(
            StatelessTrial,
            spec,
            lambda c, h: (batched(), batched().map(lambda x, y: (x, tf.cast(y, tf.int64)))),
        ),
        "unbatched": lambda: build(StatelessTrial, spec, lambda c, h: (plain(), plain())),
        "no_pair": lambda: build(StatelessTrial, spec, lambda c, h: batched()),
        "empty": lambda: build(
            StatelessTrial, spec, lambda c, h: (batched(), batched().take(0))
        ).validate(),
        "endless": lambda: build(
            StatelessTrial, spec, lambda c, h: (batched(), batched().repeat())
        ),
        "contrib": lambda: tf.contrib.layers,
        "mixed_precision": lambda: build(
            StatelessTrial,
            new_spec(directory, experiment_config={"optimizations": {"mixed_precision": "O1"}}),
        ),
    }
    messages = {}
    for name, run in cases.items():
        try:
            run()
            messages[name] = "no error"
        except errors.QuintainError as error:
            messages[name] = str(error)
    return messages


if __name__ == "__main__":
    results = {}
    for name, run in {
        "split": split,
        "numbers": numbers,
        "faults": faults,
        "sums": sums,
        "optimizers": optimizers,
        "damage": damage,
        "in_order": lambda directory: split(directory, with_rest),
        "parts": lambda directory: split(directory, with_rest, PartsTrial),
        "generator": lambda directory: split(directory, with_generator),
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = run(pathlib.Path(folder))
    sys.stdout.write("\n" + json.dumps(results))
