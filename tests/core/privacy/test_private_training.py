"""Differentially private training as a task and a config see it."""

import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.core import base_task, base_trainer, task_factory, trainer_factory
from quintain.distribute import distribution
from quintain.input import poisson_sampling
from quintain.optimization.configs import optimization_config
from quintain.run import train_lib
from quintain.settings import config_definitions as cfg

SGD = {
    "optimizer": {"type": "sgd"},
    "learning_rate": {"type": "constant", "constant": {"learning_rate": 1.0}},
}


def make_private(dp_config, **task):
    return {"task": {"differential_privacy_config": dp_config, **task}}


def train(params, steps=3, model_dir=None, mode="train"):
    params.override({"trainer": {"train_steps": steps}})
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    return train_lib.run_experiment(strategy, task, mode, params, model_dir)


@pytest.mark.slow
def test_without_noise_and_with_a_high_limit_training_is_the_ordinary_one(line_params):
    plain, _ = train(line_params({"task": {"dropout_rate": 0.0}}))
    private, _ = train(line_params(make_private({"clipping_norm": 1e6}, dropout_rate=0.0)))

    for ours, theirs in zip(private.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


class MeanTask(base_task.Task):
    """Its model is one weight of each feature; the gradient of an example is its features."""

    def build_model(self):
        model = keras.Sequential([keras.layers.Dense(1, use_bias=False)])
        model.build((None, 2))
        model.set_weights([np.zeros([2, 1])])
        return model

    def build_inputs(self, params, input_context=None):
        raise NotImplementedError

    def build_losses(self, labels, model_outputs, aux_losses=None):
        return tf.reduce_mean(model_outputs)


def take_step(features, **dp_config):
    """Returns what a step of SGD with learning rate 1 subtracts from the weights, and its logs."""
    changes, logs = take_steps(features, 1, **dp_config)
    return changes[0], logs


def take_steps(features, num_steps, **dp_config):
    """Returns what each step subtracts, and the logs of the last one."""
    config = cfg.DifferentialPrivacyConfig(**dp_config)
    task = MeanTask(cfg.TaskConfig(differential_privacy_config=config))
    model = task.build_model()
    optimizer = task.create_optimizer(
        optimization_config.OptimizationConfig(SGD), cfg.RuntimeConfig(), dp_config=config
    )
    features = tf.constant(features, tf.float32)
    step = tf.function(lambda: task.train_step((features, features[:, 0]), model, optimizer, []))
    weights = [np.zeros(2)]
    for _ in range(num_steps):
        logs = step()
        weights.append(model.get_weights()[0][:, 0])
    return -np.diff(weights, axis=0), logs


@pytest.mark.slow
def test_each_example_is_clipped_before_they_are_averaged():
    change, logs = take_step([[3.0, 4.0], [0.0, 0.5], [-30.0, 40.0]], clipping_norm=2.0)

    np.testing.assert_allclose(change, [(1.2 - 1.2) / 3, (1.6 + 0.5 + 1.6) / 3], atol=1e-6)
    assert float(logs["loss"]) == 0.0


@pytest.mark.long("Further cases of a test of which some run every time", but=["row0", "row3"])
@pytest.mark.slow
@pytest.mark.parametrize("row", [[1e18, 1e18], [-3e19, 2e19], [np.inf, 0.0], [np.nan, 1.0]])
def test_one_example_of_any_content_moves_the_update_no_more_than_the_limit(row):
    others = [[0.3, -0.2], [5.0, 5.0], [-1.0, 2.0]]
    usual, _ = take_step([*others, [0.1, 0.2]], clipping_norm=0.7)
    without, _ = take_step(others, clipping_norm=0.7)

    changed, _ = take_step([*others, row], clipping_norm=0.7)

    assert np.linalg.norm(changed * 4 - usual * 4) <= 2 * 0.7 * (1 + 1e-6)
    assert np.linalg.norm(changed * 4 - without * 3) <= 0.7 * (1 + 1e-6)


@pytest.mark.slow
def test_noise_of_a_step_has_the_given_deviation():
    rows = np.ones([5, 2])
    changes = [
        take_steps(rows, 20, clipping_norm=1.0, noise_multiplier=2.0, noise_seed=seed)[0].ravel()
        for seed in range(3)
    ]

    noise = np.concatenate(changes) - np.sqrt(0.5)
    assert noise.std() == pytest.approx(2.0 / 5, rel=4 / np.sqrt(2 * noise.size))
    assert noise.mean() == pytest.approx(0.0, abs=4 * 0.4 / np.sqrt(noise.size))


@pytest.mark.slow
def test_dropout_differs_between_examples_and_between_steps():
    class DropoutTask(MeanTask):
        def build_model(self):
            model = keras.Sequential(
                [keras.layers.Dropout(0.5), keras.layers.Dense(1, use_bias=False)]
            )
            model.build((None, 64))
            model.set_weights([np.ones([64, 1])])
            return model

        def process_metrics(self, metrics, labels, model_outputs, **kwargs):
            metrics.append(model_outputs)

    config = cfg.DifferentialPrivacyConfig()
    task = DropoutTask(cfg.TaskConfig(differential_privacy_config=config))
    model = task.build_model()
    optimizer = task.create_optimizer(
        optimization_config.OptimizationConfig(
            {**SGD, "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.0}}}
        ),
        dp_config=config,
    )
    seen = [None]
    for _ in range(2):
        task.train_step(tf.ones([8, 64]), model, optimizer, seen)

    outputs = np.array([output[:, 0] for output in seen[1:]]) / 2
    assert all(len(set(step)) > 3 for step in outputs)
    assert (outputs[0] != outputs[1]).sum() > 3
    assert outputs.mean() == pytest.approx(32, abs=4 * np.sqrt(16 / 16))


def test_layer_that_mixes_examples_is_refused():
    model = keras.Sequential([keras.layers.BatchNormalization(), keras.layers.Dense(1)])
    model.build((None, 2))
    config = cfg.DifferentialPrivacyConfig()
    task = MeanTask(cfg.TaskConfig(differential_privacy_config=config))
    optimizer = task.create_optimizer(optimization_config.OptimizationConfig(SGD), None, config)

    with pytest.raises(errors.ConfigError, match="BatchNormalization layer 'batch_norm"):
        task.train_step(tf.ones([4, 2]), model, optimizer)


@pytest.mark.slow
def test_task_that_applies_gradients_of_its_own_is_refused(line_params, monkeypatch):
    params = line_params(make_private({"clipping_norm": 1.0}))

    def train_step(self, inputs, model, optimizer, metrics=None):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(inputs[0], training=True))
        variables = model.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {"loss": loss}

    monkeypatch.setattr(task_factory.get_task_cls(type(params.task)), "train_step", train_step)

    with pytest.raises(errors.ConfigError, match=r"LineTask\.train_step applies gradients"):
        train(params)


def test_task_whose_create_optimizer_takes_no_dp_config_is_refused(line_params, monkeypatch):
    params = line_params(make_private({"clipping_norm": 1.0}))
    monkeypatch.setattr(
        task_factory.get_task_cls(type(params.task)),
        "create_optimizer",
        classmethod(lambda cls, optimizer_config, runtime_config=None: None),
    )

    with pytest.raises(errors.ConfigError, match="create_optimizer takes no `dp_config`"):
        train(params)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"trainer": {"optimizer_config": {"gradient_accumulation_steps": 2}}}, "microbatch_size"),
        ({"runtime": {"rematerialize": True}}, "rematerialize: got True with"),
        ({"runtime": {"mixed_precision_dtype": "float16"}}, "Give a fixed number, or use bfloat16"),
        (make_private({"num_examples": None}), "num_examples: got None"),
        (make_private({"noise_multiplier": 1.0, "num_examples": 7}), "got 7, expected at least"),
    ],
)
def test_what_privacy_does_not_go_with_is_an_error(line_params, overrides, message):
    params = line_params(make_private({"noise_multiplier": 1.0, "num_examples": 64}))
    params.override(overrides)

    with pytest.raises(errors.ConfigError, match=message):
        train(params)


@pytest.mark.long("Further cases of a test of which some run every time")
@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime",
    [
        {"mixed_precision_dtype": "bfloat16"},
        {"mixed_precision_dtype": "float16", "loss_scale": 128.0},
        {"run_eagerly": True},
        {"enable_xla": True},
    ],
    ids=str,
)
def test_precision_and_compilation_change_little(line_params, runtime):
    private = make_private({"clipping_norm": 0.3}, dropout_rate=0.0)
    reference, _ = train(line_params(private))

    trained, _ = train(line_params({**private, "runtime": runtime}))

    atol = 0.02 if "mixed_precision_dtype" in runtime else 1e-6
    for ours, theirs in zip(trained.get_weights(), reference.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=atol)


@pytest.mark.slow
def test_epsilon_is_logged_with_training_and_evaluation(line_params, caplog):
    params = line_params(
        make_private({"clipping_norm": 1.0, "noise_multiplier": 2.0, "num_examples": 64})
    )
    params.override({"trainer": {"train_steps": 10, "steps_per_loop": 5}})
    task = task_factory.get_task(params.task)

    with caplog.at_level("INFO"):
        trainer = trainer_factory.create_trainer(params, task, train=True, evaluate=True)
    first, second = (trainer.train(tf.constant(5))["epsilon"] for _ in range(2))
    evaluated = trainer.evaluate(tf.constant(-1))["epsilon"]

    assert 0 < first < second == evaluated
    assert "epsilon after 10 steps will be" in caplog.text
    assert "The batches are shuffled, not drawn by chance" in caplog.text


@pytest.mark.long("test_privacy_accounting.py shows the noise of a target")
@pytest.mark.slow
def test_target_epsilon_is_reached_at_the_last_step_and_the_resumed_run_agrees(
    line_params, tmp_path
):
    dp_config = {"clipping_norm": 1.0, "target_epsilon": 4.0, "num_examples": 64, "delta": 1e-3}
    params = line_params(make_private(dp_config))
    directories = [str(tmp_path / name) for name in ("first", "second")]
    train(params, steps=20, model_dir=directories[0])
    shutil.copytree(*directories)

    (one, logs), (two, _) = (
        train(params, steps=40, model_dir=directory, mode="train_and_eval")
        for directory in directories
    )

    assert 3.98 < float(logs["epsilon"]) <= 4.0
    # The noise goes on from a secret seed in the checkpoint.
    for ours, theirs in zip(one.get_weights(), two.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.long("tests/core/test_data_position.py resumes pipelines")
@pytest.mark.slow
def test_run_on_random_batches_goes_on_exactly_after_an_interruption(
    line_params, tmp_path, monkeypatch
):
    features = tf.random.stateless_normal([64, 3], seed=(1, 2))
    examples = tf.data.Dataset.from_tensor_slices((features, tf.reduce_sum(features, 1)[:, None]))
    dp_config = {"noise_multiplier": 1.0, "num_examples": 64, "noise_seed": 3}
    params = line_params(make_private({"clipping_norm": 1.0, **dp_config}))
    monkeypatch.setattr(
        task_factory.get_task_cls(type(params.task)),
        "build_inputs",
        lambda self, params, input_context=None: poisson_sampling.sample(
            examples, num_examples=params.poisson_num_examples, batch_size=8, seed=params.seed
        ),
    )

    straight, _ = train(params, steps=20)
    train(params, steps=10, model_dir=str(tmp_path))
    resumed, _ = train(params, steps=20, model_dir=str(tmp_path))

    for ours, theirs in zip(resumed.get_weights(), straight.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_trainer_built_by_hand_needs_an_optimizer_with_noise(line_params):
    params = line_params(make_private({"clipping_norm": 1.0}))
    task = task_factory.get_task(params.task)
    optimizer = task.create_optimizer(params.trainer.optimizer_config, params.runtime)
    trainer = base_trainer.Trainer(params, task, task.build_model(), optimizer, evaluate=False)

    with pytest.raises(errors.ConfigError, match="without a GaussianMechanism"):
        trainer.train(tf.constant(1))


@pytest.mark.long(
    "tests/core/privacy/test_private_gradients.py shows the sum; replicas are tried without noise"
)
@pytest.mark.slow
def test_weights_of_replicas_stay_equal_under_noise(run_program, tmp_path):
    results = run_program("train_privately.py", tmp_path / "data.tfrecord")

    for change, distance, epsilon in results:
        assert change > 0.1
        assert distance == 0.0
        assert 0 < epsilon < 1
