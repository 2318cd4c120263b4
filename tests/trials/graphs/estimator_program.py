"""Runs estimators as trials and prints what came out; in a process of its own, which it changes."""

import dataclasses
import json
import pathlib
import sys
import tempfile

from quintain import errors
from quintain.trials.older import estimator_compat

estimator_compat.load()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from quintain.records.rows import trial  # noqa: E402
from quintain.trials import estimator, trial_context  # noqa: E402
from quintain.trials.graphs import estimator_trial  # noqa: E402
from quintain.trials.process import trial_checkpoint  # noqa: E402

RNG = np.random.RandomState(0)
X = RNG.normal(size=(22, 4)).astype("float32")
Y = (X.sum(axis=1) > 0).astype("int64")
FEATURES = [tf.feature_column.numeric_column("x", shape=[4])]
EVENTS = []


def data(shuffled=True):
    dataset = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    return (dataset.shuffle(22) if shuffled else dataset).batch(4)


class Recorder(tf.train.SessionRunHook):
    def begin(self):
        EVENTS.append("begin")

    def after_run(self, run_context, run_values):
        EVENTS.append("run")

    def end(self, session):
        EVENTS.append("end")


class Stopper(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        run_context.request_stop()


class DnnTrial(estimator_trial.EstimatorTrial):
    shuffled = True
    train_hooks = ()

    def build_estimator(self, hparams):
        return tf.estimator.DNNClassifier(
            [5], FEATURES, dropout=0.3, optimizer=tf.train.AdamOptimizer(hparams["rate"])
        )

    def build_train_spec(self, hparams):
        return tf.estimator.TrainSpec(
            lambda: data(self.shuffled), max_steps=2, hooks=list(self.train_hooks)
        )

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(lambda: data(False), steps=None, hooks=[Recorder()])

    def build_serving_input_receiver_fns(self, hparams):
        parse = tf.feature_column.make_parse_example_spec(FEATURES)
        make = tf.estimator.export.build_parsing_serving_input_receiver_fn
        return {"parsing": make(parse), "again": make(parse)}


class LinearTrial(DnnTrial):
    shuffled = False

    def build_estimator(self, hparams):
        return tf.estimator.LinearClassifier(FEATURES)


class CombinedTrial(DnnTrial):
    def build_estimator(self, hparams):
        return tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=FEATURES, dnn_feature_columns=FEATURES, dnn_hidden_units=[3]
        )


def model_fn(features, labels, mode, params):
    x = tf.layers.dropout(features["x"], 0.3, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(x, 2)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"class": tf.argmax(logits, 1)})
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    tf.summary.scalar("doubled", 2 * loss)
    tf.summary.scalar("running", tf.metrics.mean(loss)[1])
    train_op = tf.train.MomentumOptimizer(params["rate"], 0.9).minimize(
        loss, global_step=tf.train.get_global_step()
    )
    metrics = {"mean": tf.metrics.mean(labels)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


class CustomTrial(DnnTrial):
    def build_estimator(self, hparams):
        return tf.estimator.Estimator(model_fn, params=hparams)

    def build_validation_spec(self, hparams):
        return tf.estimator.EvalSpec(lambda: data(False), steps=2)

    def build_serving_input_receiver_fns(self, hparams):
        return {}


class SumReducer(estimator.MetricReducer):
    def __init__(self):
        self.total = 0.0

    def accumulate(self, metric):
        self.total += float(metric["x"].sum())
        return self.total

    def cross_slot_reduce(self, per_slot_metrics):
        return sum(per_slot_metrics)

    def reset(self):
        self.total = 0.0


class CheckpointHook(estimator.RunHook):
    def on_checkpoint_end(self, checkpoint_dir):
        EVENTS.append("saved")

    def on_trial_close(self):
        EVENTS.append("closed")


class ReducedTrial(CustomTrial):
    """Says the order of its calls, sums gradients, and measures by Python."""

    train_hooks = (CheckpointHook(),)

    def __init__(self, context):
        self.context = context
        EVENTS.append(f"init {trial_context.get_download_data_dir()}")

    def build_estimator(self, hparams):
        EVENTS.append("estimator")

        def reduced_fn(features, labels, mode, params):
            w = tf.get_variable("w", [4, 1], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean((tf.matmul(features["x"], w) - 1.0) ** 2)
            optimizer = self.context.wrap_optimizer(tf.train.GradientDescentOptimizer(0.1))
            train_op = optimizer.minimize(loss, global_step=tf.train.get_global_step())
            make = self.context.experimental.make_metric
            metrics = {
                "sum": make({"x": features["x"]}, SumReducer(), np.float32),
                "rows": make(labels, lambda values: len(np.concatenate(values)), np.int64),
            }
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, train_op=train_op, eval_metric_ops=metrics
            )

        return tf.estimator.Estimator(reduced_fn, params=hparams)

    def build_train_spec(self, hparams):
        EVENTS.append("train")
        return super().build_train_spec(hparams)

    def build_validation_spec(self, hparams):
        EVENTS.append("validation")
        return tf.estimator.EvalSpec(lambda: data(False), steps=None)

    def build_serving_input_receiver_fns(self, hparams):
        EVENTS.append("serving")
        return {}


class TensorsTrial(CustomTrial):
    def build_train_spec(self, hparams):
        def input_fn():
            return tf.data.make_one_shot_iterator(data(False).repeat()).get_next()

        return tf.estimator.TrainSpec(input_fn)


def new_spec(directory, **fields):
    spec = trial.TrialSpec(
        experiment_id=1,
        trial_id=2,
        experiment_config={"searcher": {"metric": "loss"}},
        hparams={"rate": 0.05},
        seed=11,
        model_dir=str(directory),
        entrypoint=None,
        checkpoint_dir=str(directory / "checkpoints"),
        scratch_dir=str(directory / "scratch"),
    )
    return dataclasses.replace(spec, **fields)


def build(trial_class, spec):
    return estimator_trial.build_controller(trial_class, trial_context.TrialContext(spec))


def split(trial_class, directory):
    spec = new_spec(directory)
    whole = build(trial_class, spec)
    expected = whole.train(5).batch_metrics + whole.train(8).batch_metrics
    final = whole.validate()
    listed = sorted(whole.list_validation_metrics()) == sorted(final.metrics)
    whole.close()
    first = build(trial_class, spec)
    found = first.train(5).batch_metrics
    before = first.validate()
    stored = trial_checkpoint.save(first, spec, 5)
    first.close()
    path = directory / "checkpoints" / stored.uuid
    again = dataclasses.replace(spec, latest_checkpoint=str(path))
    second = build(trial_class, again)
    total = trial_checkpoint.restore(second, again)
    same = second.validate() == before
    found += second.train(8).batch_metrics
    same_final = second.validate() == final
    second.close()
    warm = dataclasses.replace(again, is_warm_start=True)
    third = build(trial_class, warm)
    warm_total = trial_checkpoint.restore(third, warm)
    warm_step = third.validate().metrics["global_step"]
    third.close()
    return {
        "total": total,
        "metrics": found == expected,
        "validation": same,
        "final": same_final,
        "listed": listed,
        "names": sorted(expected[0]),
        "validation_metrics": {name: float(value) for name, value in final.metrics.items()},
        "validation_inputs": final.num_inputs,
        "warm": [warm_total, int(warm_step)],
        "exports": sorted(
            str(one.relative_to(path).parent.parent) for one in path.rglob("saved_model.pb")
        ),
        "latest": tf.train.latest_checkpoint(str(path)) == str(path / "model.ckpt-5"),
        "iterator": "iterator.index" in stored.files,
    }


def hooks(directory):
    class HookedTrial(CustomTrial):
        train_hooks = (Recorder(),)

    EVENTS.clear()
    controller = build(HookedTrial, new_spec(directory))
    controller.train(3)
    controller.close()
    seen = list(EVENTS)

    class StoppedTrial(CustomTrial):
        train_hooks = (Stopper(),)

    stopped = build(StoppedTrial, new_spec(directory))
    count = len(stopped.train(3).batch_metrics)
    outcome = {
        "events": seen,
        "stopped": stopped.context.get_stop_requested(),
        "batches": count,
    }
    stopped.close()
    return outcome


def reduced(directory):
    EVENTS.clear()
    settings = {"optimizations": {"aggregation_frequency": 2}}
    spec = new_spec(directory, experiment_config=settings)
    context = trial_context.TrialContext(spec, {"download_data": lambda config, hparams: "/data"})
    trial_context.set_current_context(context)
    trial_context.download_data(context)
    controller = estimator_trial.build_controller(ReducedTrial, context)
    losses = [controller.train(1).batch_metrics[0]["loss"] for _ in range(3)]
    validations = [controller.validate().metrics for _ in range(2)]
    trial_checkpoint.save(controller, spec, 3)
    controller.close()
    message = ""
    try:
        build(CustomTrial, spec).train(1)
    except errors.TrialError as error:
        message = str(error)
    return {
        "events": list(EVENTS),
        "waits": losses[1] == 1.0 and losses[2] != 1.0,
        "steps": int(validations[0]["global_step"]),
        "sums": [abs(float(each["sum"]) - float(X.sum())) < 1e-3 for each in validations],
        "rows": [int(each["rows"]) for each in validations],
        "unwrapped": message,
    }


def tensors(directory):
    controller = build(TensorsTrial, new_spec(directory))
    result = controller.train(7)
    assert controller.count_batches() == 7
    validation = controller.validate()
    controller.close()
    return {"num_inputs": result.num_inputs, "step": int(validation.metrics["global_step"])}


def write_lines(directory):
    path = directory / "a [1] ü.csv"
    path.write_text("1,2,3,4,0\n1,2,3,4,1\n1,2,x,4,0\n")
    return str(path)


def read_lines(path):
    def parse(line):
        *x, y = tf.io.decode_csv(line, [0.0] * 4 + [0])
        return {"x": tf.stack(x)}, y

    return tf.data.TextLineDataset(path).map(parse).batch(3)


def damage(directory, training):
    """Returns the errors of data that are damaged, in training or in the validation."""
    path = write_lines(directory)

    class LinesTrial(CustomTrial):
        def build_train_spec(self, hparams):
            if training == "tensors":
                return tf.estimator.TrainSpec(
                    lambda: tf.data.make_one_shot_iterator(read_lines(path).repeat()).get_next()
                )
            return tf.estimator.TrainSpec(lambda: read_lines(path) if training else data())

        def build_validation_spec(self, hparams):
            return tf.estimator.EvalSpec(lambda: read_lines(path))

    controller = build(LinesTrial, new_spec(directory))
    try:
        with controller.file_errors_named():
            controller.train(2) if training else controller.validate()
    except errors.DataError as error:
        return str(error).replace(str(directory), "DIR")
    finally:
        controller.close()


def faults(directory):
    spec = new_spec(directory)

    def change(**methods):
        return type("BrokenTrial", (CustomTrial,), methods)

    cases = {
        "estimator": lambda: build(change(build_estimator=lambda self, hparams: "dnn"), spec),
        "spec": lambda: build(change(build_train_spec=lambda self, hparams: data), spec),
        "endless": lambda: build(
            change(
                build_validation_spec=lambda self, hparams: tf.estimator.EvalSpec(
                    lambda: data(False).repeat(), steps=None
                )
            ),
            spec,
        ).list_validation_metrics(),
        "tpu": lambda: tf.estimator.tpu.TPUEstimator,
        "trees": lambda: tf.estimator.BoostedTreesClassifier([], 1),
        "typo": lambda: tf.estimator.DNNClasifier([1], []),
    }
    messages = {}
    for name, run in cases.items():
        try:
            messages[name] = repr(run())
        except errors.QuintainError as error:
            messages[name] = str(error)
    return messages


if __name__ == "__main__":
    results = {}
    runs = {
        "dnn": lambda directory: split(DnnTrial, directory),
        "linear": lambda directory: split(LinearTrial, directory),
        "combined": lambda directory: split(CombinedTrial, directory),
        "custom": lambda directory: split(CustomTrial, directory),
        "hooks": hooks,
        "reduced": reduced,
        "tensors": tensors,
        "faults": faults,
        "damage": lambda directory: [damage(directory, kind) for kind in ("", "set", "tensors")],
    }
    for name, run in runs.items():
        with tempfile.TemporaryDirectory() as folder:
            results[name] = run(pathlib.Path(folder))
    sys.stdout.write("\n" + json.dumps(results))
