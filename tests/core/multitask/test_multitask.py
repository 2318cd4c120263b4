import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core.multitask import configs, multitask
from quintain.optimization import loss_scaling
from quintain.optimization.configs import optimization_config
from quintain.settings import config_definitions as cfg

BATCH = (tf.constant([[1.0, 2.0, 3.0]]), tf.constant([[4.0]]))


def step(tasks, model, optimizer):
    optimizer.build(model.trainable_variables)
    inputs = {"plus": BATCH, "minus": BATCH}
    metrics = {name: task.build_metrics() for name, task in tasks.tasks.items()}
    losses = tasks.joint_train_step(inputs, model, optimizer, metrics)
    return {name: float(loss) for name, loss in losses.items()}


def shared(model):
    return model.trainable_variables[0].numpy()


def test_the_joint_loss_is_the_weighted_sum_and_its_gradient_moves_shared_weights(
    two_tasks, two_heads
):
    tasks = two_tasks(task_weights={"plus": 0.25, "minus": 2.0})
    model = two_heads(dropout_rate=0.0)
    before = shared(model)
    variable = model.trainable_variables[0]
    with tf.GradientTape() as tape:
        parts = [
            tf.reduce_mean(tf.square(BATCH[1] - model.sub_tasks[name](BATCH[0])))
            for name in ("plus", "minus")
        ]
        total = 0.25 * parts[0] + 2.0 * parts[1]
    gradient = tape.gradient(total, variable.value)

    losses = step(tasks, model, keras.optimizers.SGD(0.5))

    assert losses["plus"] == pytest.approx(float(parts[0]))
    assert losses["total_loss"] == pytest.approx(float(total))
    np.testing.assert_allclose(shared(model), before - 0.5 * gradient, rtol=1e-5)


def test_regularisation_of_shared_weights_counts_once(two_tasks, two_heads):
    model = two_heads(dropout_rate=0.0, regularizer=keras.regularizers.L2(0.5))
    penalty = 0.5 * float(np.sum(shared(model) ** 2))
    plain = [
        float(tf.reduce_mean(tf.square(BATCH[1] - model.sub_tasks[name](BATCH[0]))))
        for name in ("plus", "minus")
    ]

    losses = step(two_tasks(), model, keras.optimizers.SGD(0.0))

    assert losses["total_loss"] == pytest.approx(sum(plain) + penalty, rel=1e-5)
    assert losses["minus"] == pytest.approx(plain[1], rel=1e-5)


def test_a_scaled_loss_gives_the_same_step_as_an_unscaled_one(two_tasks, two_heads):
    weights = []
    for optimizer in (
        keras.optimizers.SGD(0.1),
        loss_scaling.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=1024.0),
    ):
        keras.utils.set_random_seed(1)
        model = two_heads(dropout_rate=0.0)
        losses = step(two_tasks(), model, optimizer)
        weights.append(shared(model))

    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)
    assert losses["total_loss"] == pytest.approx(losses["plus"] + losses["minus"])


def test_tasks_that_cannot_be_told_apart_are_refused(two_tasks, sign_config):
    plus = two_tasks().tasks["plus"]

    with pytest.raises(ValueError, match="two tasks have the name 'plus'"):
        multitask.MultiTask([plus, plus])
    with pytest.raises(errors.ConfigError, match="expected a mapping"):
        multitask.MultiTask(plus)
    with pytest.raises(errors.ConfigError, match="'learning_rate' can't be"):
        multitask.MultiTask({"learning_rate": plus})
    with pytest.raises(errors.ConfigError, match="Did you mean 'plus'"):
        multitask.MultiTask([plus], task_weights={"plis": 1.0})


def test_a_task_that_should_be_private_is_refused(sign_config):
    private = sign_config(differential_privacy_config={"noise_multiplier": 1.0})
    config = configs.MultiTaskConfig(
        task_routines=(configs.TaskRoutine(task_name="a", task_config=private),)
    )

    with pytest.raises(errors.ConfigError, match=r"tasks\['a'\]\..*differential_privacy_config"):
        multitask.MultiTask.from_config(config)


def test_a_config_gives_names_weights_and_steps(sign_config):
    config = configs.MultiTaskConfig(
        task_routines=(
            configs.TaskRoutine(task_name="a", task_config=sign_config(), task_weight=0.5),
            configs.TaskRoutine(task_config=sign_config(name="b"), eval_steps=3),
        )
    )

    tasks = multitask.MultiTask.from_config(config)

    assert list(tasks.tasks) == ["a", "b"]
    assert tasks.tasks["b"].name == "b"
    assert tasks.task_weights == {"a": 0.5, "b": 1.0}
    assert tasks.task_weight("a") == 0.5
    assert tasks.task_eval_steps == {"a": None, "b": 3}


@pytest.mark.parametrize(
    ("routines", "message"),
    [
        ([{"task_name": "a b"}], r"\[0\].task_name: got 'a b', expected a Python identifier"),
        ([{}], r"\[0\].task_name: missing"),
        ([{"task_name": "total_loss"}], "logs use for something else"),
        ([{"task_name": "a"}, {"task_name": "a"}], r"\[1\].task_name: got 'a', as in"),
        ([{"task_name": "a", "task_weight": 0.0}], "one must be more than 0"),
    ],
)
def test_routines_that_cannot_be_trained_are_named(routines, message, sign_config):
    config = configs.MultiTaskConfig(
        task_routines=tuple(
            configs.TaskRoutine(task_config=sign_config(), **routine) for routine in routines
        )
    )

    with pytest.raises(errors.ConfigError, match=message):
        config.validate()


def test_several_tasks_are_not_trained_privately():
    with pytest.raises(errors.ConfigError, match="several tasks can't be trained together"):
        multitask.MultiTask.create_optimizer(
            optimization_config.OptimizationConfig(), None, cfg.DifferentialPrivacyConfig()
        )


def test_the_model_of_all_tasks_starts_but_for_what_is_excluded(two_tasks, two_heads, tmp_path):
    source, model = two_heads(dropout_rate=0.0), two_heads(dropout_rate=0.0)
    for variable in source.variables:
        variable.assign_add(tf.ones_like(variable))
    before = {variable.path: variable.numpy() for variable in model.variables}
    path = tf.train.Checkpoint(model=source).write(str(tmp_path / "ckpt-1"))

    two_tasks(init_checkpoint=path, init_exclude=["*bias"]).initialize(model)

    for ours, theirs in zip(model.variables, source.variables, strict=True):
        kept = before[ours.path] if ours.path.endswith("bias") else theirs
        np.testing.assert_array_equal(ours, kept)
