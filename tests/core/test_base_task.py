import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_task, base_trainer, task_factory
from quintain.core.loop import task_evaluation
from quintain.optimization.rules import sgd
from quintain.settings import config_definitions as cfg

FEATURES = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
LABELS = np.array([[1.0], [2.0]], "float32")


class Task(base_task.Task):
    def build_inputs(self, params, input_context=None):
        raise NotImplementedError

    def build_losses(self, labels, model_outputs, aux_losses=None):
        loss = tf.reduce_mean(tf.square(labels - model_outputs))
        return loss + tf.add_n(aux_losses) if aux_losses else loss


def build_model(**compiled):
    layer = keras.layers.Dense(
        1, use_bias=False, kernel_initializer="ones", kernel_regularizer=keras.regularizers.L2(0.5)
    )
    model = keras.Sequential([layer])
    model.build((None, 2))
    if compiled:
        model.compile(**compiled)
    return model


# Outputs are 3 and 7, errors 2 and 5; the regularisation of the weights (1, 1) is 0.5 * 2.
MEAN_SQUARE, REGULARISATION = (4 + 25) / 2, 1.0
GRADIENT = np.array([[2 * 1 + 5 * 3], [2 * 2 + 5 * 4]]) + 2 * 0.5


def test_a_step_minimises_the_loss_with_its_auxiliary_losses():
    model, optimizer = build_model(), sgd.SGD(0.1)

    logs = Task(cfg.TaskConfig()).train_step((FEATURES, LABELS), model, optimizer)

    assert float(logs["loss"]) == pytest.approx(MEAN_SQUARE + REGULARISATION)
    np.testing.assert_allclose(model.weights[0].numpy(), 1 - 0.1 * GRADIENT, rtol=1e-6)


def test_a_loss_of_one_element_is_as_good_as_a_scalar():
    class OneElement(Task):
        def build_losses(self, labels, model_outputs, aux_losses=None):
            return tf.reshape(super().build_losses(labels, model_outputs, aux_losses), [1])

    model, task = build_model(), OneElement(cfg.TaskConfig())

    logs = task.train_step((FEATURES, LABELS), model, sgd.SGD(0.1))

    assert logs["loss"].shape == task.validation_step((FEATURES, LABELS), model)["loss"].shape == ()
    np.testing.assert_allclose(model.weights[0].numpy(), 1 - 0.1 * GRADIENT, rtol=1e-6)


def test_a_compiled_loss_is_added_to_the_task_s():
    model, optimizer = build_model(loss="mse", optimizer="sgd"), sgd.SGD(0.1)

    logs = Task(cfg.TaskConfig()).train_step((FEATURES, LABELS), model, optimizer)

    assert float(logs["loss"]) == pytest.approx(2 * MEAN_SQUARE + REGULARISATION)


def test_a_model_compiled_without_a_loss_has_the_task_s_alone():
    model, optimizer = build_model(optimizer="sgd", metrics=["mae"]), sgd.SGD(0.1)

    logs = Task(cfg.TaskConfig()).train_step((FEATURES, LABELS), model, optimizer)

    assert float(logs["loss"]) == pytest.approx(MEAN_SQUARE + REGULARISATION)


class NoLoss(base_task.Task):
    def build_inputs(self, params, input_context=None):
        raise NotImplementedError


def build_two_outputs(**compiled):
    """Outputs are 3 and 7 under `a`, and twice that under `b`; a layer adds 0.1 of their sum."""
    inputs = keras.Input((2,))
    outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")(inputs)
    outputs = keras.layers.ActivityRegularization(l1=0.2)(outputs)
    doubled = keras.layers.Rescaling(2.0)(outputs)
    model = keras.Model(inputs, {"a": outputs, "b": doubled})
    model.compile(**compiled)
    return model


@pytest.mark.parametrize(
    ("model", "labels", "expected"),
    [
        (build_model(loss="mse"), LABELS, MEAN_SQUARE + REGULARISATION),
        (build_model(loss=["mse"]), LABELS, MEAN_SQUARE + REGULARISATION),
        (
            build_two_outputs(loss={"a": "mse", "b": "mae"}, loss_weights={"a": 1.0, "b": 0.5}),
            {"a": LABELS, "b": LABELS},
            MEAN_SQUARE + 0.5 * (5 + 12) / 2 + 0.2 * (3 + 7) / 2,
        ),
        (build_two_outputs(), {"a": LABELS, "b": LABELS}, 0.2 * (3 + 7) / 2),
    ],
    ids=["single", "list", "weighted outputs", "added by a layer"],
)
def test_evaluation_has_the_loss_that_training_minimises(model, labels, expected):
    task = NoLoss(cfg.TaskConfig())

    evaluated = task.validation_step((FEATURES, labels), model)
    trained = task.train_step((FEATURES, labels), model, keras.optimizers.SGD(0.1))

    assert float(evaluated["loss"]) == pytest.approx(expected)
    assert float(trained["loss"]) == float(evaluated["loss"])


@pytest.mark.parametrize("step", ["train_step", "validation_step"])
def test_a_task_without_any_loss_is_an_error(step):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    arguments = {"optimizer": sgd.SGD(0.1)} if step == "train_step" else {}

    with pytest.raises(errors.ConfigError, match=r"NoLoss: there is no loss to minimise\."):
        getattr(NoLoss(cfg.TaskConfig()), step)((FEATURES, LABELS), model, **arguments)


def test_a_loss_that_only_the_task_s_own_step_knows_is_not_evaluated():
    class OwnStep(NoLoss):
        def train_step(self, inputs, model, optimizer, metrics=None):
            raise NotImplementedError

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])

    assert OwnStep(cfg.TaskConfig()).validation_step((FEATURES, LABELS), model) == {}


def test_metrics_of_the_task_and_of_the_model_are_updated():
    model = build_model(loss="mse", metrics=["mae"])
    metric = keras.metrics.MeanAbsoluteError(name="error")

    logs = Task(cfg.TaskConfig()).validation_step((FEATURES, LABELS), model, [metric])

    assert float(metric.result()) == pytest.approx(3.5)
    assert float(logs["mae"]) == pytest.approx(3.5)
    assert set(logs) == {"loss", "mae"}


def test_a_trainer_reports_the_metrics_that_a_model_was_compiled_with(line_params):
    params = line_params({"task": {"dropout_rate": 0.0}})
    task = task_factory.get_task(params.task)
    model = task.build_model()
    model.compile(metrics=["mae"])
    optimizer = task.create_optimizer(params.trainer.optimizer_config)
    trainer = base_trainer.Trainer(params, task, model, optimizer)

    train_logs = trainer.train(tf.constant(5))
    eval_logs = trainer.evaluate(tf.constant(-1))

    for logs in (train_logs, eval_logs):
        assert float(logs["mae"]) == pytest.approx(float(logs["absolute_error"]))
    assert "loss" not in train_logs


def test_inputs_that_are_no_pair_are_features_and_labels():
    class Autoencoder(Task):
        def build_losses(self, labels, model_outputs, aux_losses=None):
            return tf.reduce_mean(tf.square(labels["x"] - model_outputs))

    inputs = keras.Input((2,), name="x")
    outputs = keras.layers.Dense(2, kernel_initializer="zeros")(inputs)
    model = keras.Model({"x": inputs}, outputs)

    logs = Autoencoder(cfg.TaskConfig()).validation_step({"x": FEATURES}, model)

    assert float(logs["loss"]) == pytest.approx(np.mean(FEATURES**2))


def test_the_loss_is_divided_by_the_replicas_that_the_optimizer_sums_over(monkeypatch):
    strategy = tf.distribute.get_strategy()
    monkeypatch.setattr(type(strategy), "num_replicas_in_sync", 4)
    model, optimizer = build_model(), sgd.SGD(0.1, gradient_aggregator=lambda pairs: pairs)

    logs = Task(cfg.TaskConfig()).train_step((FEATURES, LABELS), model, optimizer)

    assert float(logs["loss"]) == pytest.approx(MEAN_SQUARE + REGULARISATION)
    np.testing.assert_allclose(model.weights[0].numpy(), 1 - 0.1 * GRADIENT / 4, rtol=1e-6)


def test_a_task_that_gives_no_loss_has_the_model_s():
    class Plain(base_task.Task):
        def build_inputs(self, params, input_context=None):
            raise NotImplementedError

    logs = Plain(cfg.TaskConfig()).validation_step((FEATURES, LABELS), build_model())

    assert float(logs["loss"]) == pytest.approx(REGULARISATION)


def test_only_the_inputs_have_to_be_written():
    assert Task.__abstractmethods__ == frozenset()
    with pytest.raises(TypeError, match="build_inputs"):
        base_task.Task(cfg.TaskConfig())


def test_a_task_without_name_and_directory_has_defaults():
    task = Task(cfg.TaskConfig())

    assert (task.name, task.logging_dir) == ("task", "")
    assert task.build_metrics() == []
    assert task.aggregate_logs(None, {}) is None
    assert task.reduce_aggregated_logs({}) == {}


def test_the_config_of_a_task_has_the_defaults_of_the_reference():
    config = cfg.TaskConfig().as_dict()

    assert {name: config[name] for name in ("init_checkpoint", "model", "name")} == {
        "init_checkpoint": "",
        "model": None,
        "name": None,
    }
    assert config["differential_privacy_config"] is None
    assert config["allow_image_summary"] is False
    assert config["train_data"] == config["validation_data"] == cfg.DataConfig().as_dict()


@pytest.mark.parametrize("is_allowed", [True, False])
def test_images_of_an_evaluation_become_summaries_if_allowed(line_params, tmp_path, is_allowed):
    params = line_params({"task": {"allow_image_summary": is_allowed}})
    task = task_factory.get_task(params.task)
    task.aggregate_logs = lambda state, outputs: {"seen": True}
    images = np.zeros([2, 4, 4, 3], np.uint8)
    task.reduce_aggregated_logs = lambda state, global_step: {
        "score": 1.0,
        task_evaluation.IMAGES_KEY: {"digits": images},
    }
    trainer = base_trainer.Trainer(params, task, task.build_model(), None, train=False)

    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        logs = trainer.evaluate(tf.constant(1))
    writer.close()

    assert logs["score"] == 1.0
    assert task_evaluation.IMAGES_KEY not in logs
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert (b"digits" in written) == is_allowed
