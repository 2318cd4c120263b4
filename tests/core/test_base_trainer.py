import math

import keras
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_trainer, task_factory
from quintain.modeling import hyperparams

PLAIN = {
    "task": {"dropout_rate": 0.0},
    "trainer": {
        "optimizer_config": {
            "optimizer": {"type": "sgd"},
            "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.0}},
        }
    },
}


def build_trainer(params, cls=base_trainer.Trainer, wrap_task=lambda task: task, **kwargs):
    task = wrap_task(task_factory.get_task(params.task))
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    return cls(params, task, task.build_model(), optimizer, **kwargs)


def make_batches(count):
    """Batches that all differ."""
    features = tf.random.stateless_normal([count, 8, 3], seed=(3, 4))
    labels = tf.reduce_sum(features, axis=2, keepdims=True) + tf.reshape(
        tf.range(count, dtype=tf.float32), [count, 1, 1]
    )
    return tf.data.Dataset.from_tensor_slices((features, labels))


def compute_losses(trainer, dataset):
    return [
        float(trainer.task.build_losses(labels, trainer.model(features, training=False)))
        for features, labels in dataset
    ]


@pytest.mark.parametrize("path", ["trainer", "task", "task.train_data", "task.validation_data"])
def test_a_missing_part_is_an_error_that_names_it(line_params, path):
    params = line_params()
    task = task_factory.get_task(params.task)
    *parents, name = path.split(".")
    delattr(getattr(params, parents[0]) if parents else params, name)

    with pytest.raises(errors.ConfigError, match=rf"^{path}: missing"):
        base_trainer.Trainer(params, task, task.build_model(), None)


def test_data_that_are_passed_need_no_description(line_params):
    params = line_params(PLAIN)
    task = task_factory.get_task(params.task)
    params.task.train_data = params.task.validation_data = None
    optimizer = task.create_optimizer(params.trainer.optimizer_config)

    trainer = base_trainer.Trainer(
        params,
        task,
        task.build_model(),
        optimizer,
        train_dataset=make_batches(2),
        validation_dataset=make_batches(2),
    )

    assert trainer.train(tf.constant(2))["training_loss"] > 0
    assert trainer.evaluate(tf.constant(2))["validation_loss"] > 0


def test_a_task_needs_no_config_of_tasks_to_be_evaluated(line_params):
    params = line_params(PLAIN)
    task = task_factory.get_task(params.task)
    model, validation_data = task.build_model(), make_batches(2)
    task._task_config = hyperparams.Config({"of_its_own": 1})

    trainer = base_trainer.Trainer(
        params, task, model, None, train=False, validation_dataset=validation_data
    )

    assert trainer.evaluate(tf.constant(2))["validation_loss"] > 0


def test_a_side_that_is_not_asked_for_is_not_prepared(line_params):
    trainer = build_trainer(line_params(PLAIN), evaluate=False)

    assert len(trainer.train_metrics) == 1
    assert trainer.validation_metrics == []


def test_a_checkpoint_holds_more_than_the_model(line_params, tmp_path):
    trainer = build_trainer(line_params())
    trainer.train(tf.constant(1))

    path = trainer.checkpoint.save(str(tmp_path / "ckpt"))

    saved = {name.split("/")[0] for name, _ in tf.train.list_variables(path)}
    assert saved >= {
        "global_step",
        "optimizer",
        "random_state",
        "data_position",
        "loop_state",
        "recovery",
        "save_counter",
    }
    assert tf.train.load_variable(path, "global_step/.ATTRIBUTES/VARIABLE_VALUE") == 1
    restored = trainer.task.build_model()
    tf.train.Checkpoint(model=restored).restore(path).expect_partial()
    for weight, expected in zip(restored.weights[:4], trainer.model.weights[:4], strict=True):
        assert (weight.numpy() == expected.numpy()).all()


def test_the_step_is_a_whole_number_that_counts_updates(line_params):
    trainer = build_trainer(line_params())
    step = trainer.global_step

    trainer.train(tf.constant(3))
    trainer.train(tf.constant(2))

    assert isinstance(step, tf.Variable)
    assert step.dtype == tf.int64
    assert not step.trainable
    assert int(step) == int(trainer.optimizer.iterations) == 5


def test_logs_are_means_over_one_loop(line_params):
    batches = make_batches(5)
    trainer = build_trainer(line_params(PLAIN), train_dataset=batches, evaluate=False)
    losses = compute_losses(trainer, batches)

    first = trainer.train(tf.constant(2))
    second = trainer.train(tf.constant(3))

    assert float(first["training_loss"]) == pytest.approx(sum(losses[:2]) / 2, rel=1e-5)
    assert float(second["training_loss"]) == pytest.approx(sum(losses[2:]) / 3, rel=1e-5)


@pytest.mark.parametrize("is_graph", [True, False])
def test_the_steps_of_a_loop_are_one_graph(line_params, is_graph):
    calls = []

    class Counting(base_trainer.Trainer):
        def train_step(self, iterator):
            calls.append(tf.inside_function())
            super().train_step(iterator)

    fields = {"train_tf_function": is_graph, "train_tf_while_loop": is_graph}
    trainer = build_trainer(line_params({"trainer": fields}), Counting)

    trainer.train(tf.constant(4))
    num_first = len(calls)
    trainer.train(tf.constant(4))

    assert int(trainer.global_step) == 8
    assert set(calls) == {is_graph}
    # A graph is traced once, and neither for each step nor for each loop.
    assert num_first < 4 if is_graph else num_first == 4
    assert len(calls) == (num_first if is_graph else 8)


def test_a_trainer_may_change_what_the_model_is_trained_on(line_params):
    class Doubling(base_trainer.Trainer):
        def next_train_inputs(self, iterator):
            features, labels = super().next_train_inputs(iterator)
            return 2 * features, labels

    batches = make_batches(1)
    trainer = build_trainer(line_params(PLAIN), Doubling, train_dataset=batches, evaluate=False)
    doubled = batches.map(lambda features, labels: (2 * features, labels))
    (expected,) = compute_losses(trainer, doubled)

    logs = trainer.train(tf.constant(1))

    assert float(logs["training_loss"]) == pytest.approx(expected, rel=1e-5)
    assert not math.isclose(expected, *compute_losses(trainer, batches), rel_tol=1e-3)


class PassingOn(base_trainer.Trainer):
    """Hands logs past the model."""

    def next_eval_inputs(self, iterator):
        inputs, passthrough = super().next_eval_inputs(iterator)
        assert passthrough is None
        return inputs, {"marks": tf.constant([7]), "loss": tf.constant(-1.0)}


def gather_steps(task):
    """Makes a task keep the logs of each step, and add up what they have."""

    def aggregate_logs(state=None, step_outputs=None):
        return [*(state or []), step_outputs]

    def reduce_aggregated_logs(aggregated_logs, global_step=None):
        return {
            "num_steps": len(aggregated_logs),
            "marks": sum(int(logs["marks"][0]) for logs in aggregated_logs),
            "step_losses": [float(logs["loss"][0]) for logs in aggregated_logs],
            "seen_step": int(global_step),
        }

    cls = type(task)
    gathering = type(
        "Gathering",
        (cls,),
        {
            "aggregate_logs": staticmethod(aggregate_logs),
            "reduce_aggregated_logs": staticmethod(reduce_aggregated_logs),
        },
    )
    return gathering(task.task_config)


def test_logs_past_the_model_meet_its_own_and_its_own_win(line_params):
    batches = make_batches(3)
    trainer = build_trainer(
        line_params(PLAIN), PassingOn, gather_steps, train=False, validation_dataset=batches
    )
    losses = compute_losses(trainer, batches)

    logs = trainer.evaluate(tf.constant(-1))

    assert logs["num_steps"] == 3
    assert logs["marks"] == 21
    assert logs["step_losses"] == pytest.approx(losses, rel=1e-5)
    assert logs["seen_step"] == 0
    assert float(logs["validation_loss"]) == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert "absolute_error" in logs


def test_there_is_no_validation_loss_where_steps_give_none(line_params):
    def without_loss(task):
        def validation_step(self, inputs, model, metrics=None):
            return {}

        return type("Silent", (type(task),), {"validation_step": validation_step})(task.task_config)

    trainer = build_trainer(line_params(PLAIN), wrap_task=without_loss, train=False)

    assert "validation_loss" not in trainer.evaluate(tf.constant(1))


class Exporter:
    """Remembers what it was called with."""

    def __init__(self):
        self.calls = []
        self.best_ckpt_logs = {}

    def maybe_export_checkpoint(self, checkpoint, logs, step):
        self.calls.append((checkpoint, step))
        self.best_ckpt_logs = dict(logs)


def test_data_and_exporter_may_be_passed(line_params):
    params = line_params(PLAIN)
    params.trainer.best_checkpoint_eval_metric = "absolute_error"
    exporter = Exporter()
    train_data, validation_data = make_batches(2), make_batches(3)
    trainer = build_trainer(
        params,
        train_dataset=train_data,
        validation_dataset=validation_data,
        checkpoint_exporter=exporter,
    )
    losses = compute_losses(trainer, validation_data)
    trainer.train(tf.constant(2))

    logs = trainer.evaluate(tf.constant(-1))

    assert float(logs["validation_loss"]) == pytest.approx(sum(losses) / 3, rel=1e-5)
    assert trainer.checkpoint_exporter is exporter
    assert exporter.calls == [(trainer.checkpoint, 2)]
    assert float(logs["best_absolute_error"]) == float(logs["absolute_error"])


def test_the_learning_rate_is_that_of_the_next_update(line_params):
    rate = {
        "type": "exponential",
        "exponential": {"initial_learning_rate": 0.5, "decay_steps": 10, "decay_rate": 0.1},
    }
    trainer = build_trainer(line_params({"trainer": {"optimizer_config": {"learning_rate": rate}}}))

    rates = [float(trainer.train(tf.constant(5))["learning_rate"]) for _ in range(2)]

    assert rates == pytest.approx([0.5 * 0.1**0.5, 0.5 * 0.1], rel=1e-5)


def test_what_the_user_wrote_is_converted(line_params):
    params = line_params(PLAIN)
    task_class = type(task_factory.get_task(params.task))

    class Task(task_class):
        def build_losses(self, labels, model_outputs, aux_losses=None):
            loss = super().build_losses(labels, model_outputs, aux_losses)
            if loss > 0:  # Only AutoGraph makes a graph of it.
                loss += 1000.0
            return loss

        def split_inputs(self, inputs):
            features, labels = inputs
            if tf.reduce_sum(labels) < 0:
                labels *= 2
            return features, labels

    trainer = build_trainer(params, wrap_task=lambda task: Task(task.task_config))
    for step in (trainer.train, trainer.evaluate):
        loss = step(tf.constant(2))
        assert max(loss.get("training_loss", 0), loss.get("validation_loss", 0)) > 1000


def compile_models(task):
    """Lets a task's models have a metric that they are compiled with."""
    build_model = task.build_model

    def build_compiled():
        model = build_model()
        model.compile(metrics=["mae"])
        return model

    task.build_model = build_compiled
    return task


def begin_interrupted_loop(trainer):
    """Trains for the first step of a loop of three, and stops there."""
    trainer.train_loop_begin()
    trainer.train_step(trainer.ensure_train_iterator())
    trainer.loop_position.assign(2)


@pytest.mark.slow
def test_training_measures_its_own_batches_whatever_is_evaluated_between(line_params, tmp_path):
    def build():
        return build_trainer(
            line_params(PLAIN), wrap_task=compile_models, train_dataset=make_batches(8)
        )

    trainer = build()
    errors_of_batches = [
        float(tf.reduce_mean(tf.abs(labels - trainer.model(features))))
        for features, labels in make_batches(8)
    ]
    losses = compute_losses(trainer, make_batches(8))

    def check(logs, start, end):
        for name, each in (("training_loss", losses), ("mae", errors_of_batches)):
            expected = sum(each[start:end]) / (end - start)
            assert float(logs[name]) == pytest.approx(expected, rel=1e-6)
        assert float(logs["absolute_error"]) == pytest.approx(float(logs["mae"]), rel=1e-6)

    evaluated = trainer.evaluate(tf.constant(2))
    check(trainer.train(tf.constant(2)), 0, 2)
    assert float(trainer.evaluate(tf.constant(2))["mae"]) == float(evaluated["mae"])
    check(trainer.train(tf.constant(1)), 2, 3)
    trainer.evaluate_one_batch()
    begin_interrupted_loop(trainer)
    path = trainer.checkpoint.save(str(tmp_path / "ckpt"))
    trainer.evaluate(tf.constant(2))
    check(trainer.train(tf.constant(2)), 3, 6)

    restored = build()
    restored.checkpoint.restore(path)
    restored.evaluate_one_batch()
    check(restored.train(tf.constant(2)), 3, 6)
    check(restored.train(tf.constant(2)), 6, 8)


class VariableMean(keras.metrics.Mean):
    """Returns a variable, as the metric in Keras' documentation does."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(tf.ones([]))

    def result(self):
        return self.total


def test_the_result_of_a_loop_stays_what_it_is_when_the_next_begins(line_params):
    def with_metric(task):
        task.build_metrics = lambda training=True: [VariableMean("steps")]
        return task

    trainer = build_trainer(line_params(PLAIN), wrap_task=with_metric)
    logs = [trainer.train(tf.constant(3)), trainer.train(tf.constant(2))]
    logs.append(trainer.evaluate(tf.constant(1)))
    trainer.evaluate(tf.constant(4))

    assert [float(one["steps"]) for one in logs] == [3.0, 2.0, 1.0]
