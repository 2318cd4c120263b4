"""Runs whose loss blows up: what they go back to, what they leave out, and what they say."""

import dataclasses
import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints, recovery_state
from quintain.core import base_task, task_factory
from quintain.distribute import distribution
from quintain.run import actions, experiment_runner, run_options, train_lib
from quintain.run.events import recovery
from quintain.settings import config_definitions as cfg

NUM_FEATURES = 3


@dataclasses.dataclass
class BrokenConfig(cfg.TaskConfig):
    train_data: cfg.DataConfig = cfg.DataConfig(is_training=True, global_batch_size=8)
    validation_data: cfg.DataConfig = cfg.DataConfig(is_training=False, global_batch_size=8)
    dropout_rate: float = 0.1
    bad_batch: int = -1
    left_out_from: int = 10**6
    left_out: int = 0
    loss_offset: float = 0.0
    is_generated: bool = False
    num_batches: int = 10**6


class BrokenTask(base_task.Task):
    """Batch number `bad_batch`, counted from 0, has labels that are not numbers."""

    def build_model(self):
        dropout = keras.layers.Dropout(self.task_config.dropout_rate)
        model = keras.Sequential([keras.layers.Dense(8), dropout, keras.layers.Dense(1)])
        model.build((None, NUM_FEATURES))
        return model

    def build_inputs(self, params, input_context=None):
        config = self.task_config

        def make_batch(number):
            seed = tf.stack([tf.cast(number, tf.int32), 1])
            features = tf.random.stateless_normal([params.global_batch_size, NUM_FEATURES], seed)
            labels = tf.reduce_sum(features, axis=1, keepdims=True)
            is_bad = params.is_training & tf.equal(number, config.bad_batch)
            return features, tf.where(is_bad, np.nan, labels)

        numbers = tf.data.Dataset.range(config.num_batches if params.is_training else 4)
        if config.is_generated and params.is_training:
            numbers = tf.data.Dataset.from_generator(
                lambda: iter(range(10**6)), output_signature=tf.TensorSpec([], tf.int64)
            )
        first, end = config.left_out_from, config.left_out_from + config.left_out
        return numbers.filter(lambda number: (number < first) | (number >= end)).map(make_batch)

    def build_losses(self, labels, model_outputs, aux_losses=None):
        error = tf.reduce_mean(tf.square(labels - tf.cast(model_outputs, tf.float32)))
        return error + self.task_config.loss_offset

    def build_metrics(self, training=True):
        return [keras.metrics.MeanAbsoluteError(name="absolute_error")]


@pytest.fixture(autouse=True)
def _broken_task_is_registered(line_task_is_registered):
    task_factory.register_task_cls(BrokenConfig)(BrokenTask)


@pytest.fixture
def broken_params(line_params):
    def build(task, **trainer):
        params = line_params({"trainer": {"train_steps": 30, **trainer}})
        params.task = BrokenConfig(**task)
        return params

    return build


class Collector(orbit.Reporter):
    def __init__(self):
        self.messages, self.loops = [], []

    def on_message(self, text):
        self.messages.append(text)

    def on_train_loop(self, step, target_steps, output, loop_secs, num_steps):
        self.loops.append((step, float(output["training_loss"]), float(output["learning_rate"])))


def run(params, model_dir, mode="train", **kwargs):
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    return train_lib.run_experiment(strategy, task, mode, params, str(model_dir), **kwargs)


def read_weights(model_dir, step):
    reader = tf.train.load_checkpoint(os.path.join(model_dir, f"ckpt-{step}"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names if name.endswith("VARIABLE_VALUE")}


def assert_same_weights(first, second):
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def straight_weights(tmp_path_factory):
    """Weights after 30 steps on the data without batches 15 to 19, by whether it is generated."""
    return {}


def get_straight_weights(cache, params, tmp_path):
    if "weights" not in cache:
        run(params({"left_out_from": 15, "left_out": 5}), tmp_path / "straight")
        cache["weights"] = read_weights(tmp_path / "straight", 30)
    return cache["weights"]


@pytest.mark.long("Further cases of a test of which some run every time", but=["task0", "task3"])
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "runtime"),
    [
        ({}, {}),
        ({"is_generated": True}, {}),
        ({}, {"distribution_strategy": "mirrored"}),
        ({}, {"run_eagerly": True}),
    ],
)
def test_a_recovered_run_ends_as_if_the_batches_of_the_bad_loop_had_never_been_there(
    tmp_path, broken_params, straight_weights, task, runtime
):
    params = broken_params({"bad_batch": 17, **task, "dropout_rate": 0.0}, recovery_max_trials=1)
    params.runtime.override(runtime)
    reporter = Collector()

    run(params, tmp_path / "run", reporter=reporter)

    expected = get_straight_weights(
        straight_weights, lambda task: broken_params({**task, "dropout_rate": 0.0}), tmp_path
    )
    found = read_weights(tmp_path / "run", 30)
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-7)
    assert [step for step, *_ in reporter.loops] == [5, 10, 15, 15, 20, 25, 30]
    assert "Recovery 1 of 1: went back to" in reporter.messages[0]
    assert "ckpt-10" in reporter.messages[0]


@pytest.mark.slow
def test_random_layers_and_data_continue_exactly_from_the_checkpoint(tmp_path, broken_params):
    run(broken_params({"bad_batch": 17}, recovery_max_trials=1), tmp_path / "run")
    run(broken_params({"left_out_from": 15, "left_out": 5}), tmp_path / "straight")

    assert_same_weights(read_weights(tmp_path / "run", 30), read_weights(tmp_path / "straight", 30))


@pytest.mark.slow
def test_the_diagnosis_names_metrics_variables_steps_and_trials(tmp_path, broken_params):
    params = broken_params({"bad_batch": 17}, recovery_max_trials=1, recovery_skip_batches=False)

    with pytest.raises(errors.TrainingDivergedError) as caught:
        run(params, tmp_path)

    text = str(caught.value)
    assert "The training loss became nan in the steps 16 to 20; the last good step is 15." in text
    assert "absolute_error" in text
    assert "training_loss" in text
    assert "/kernel" in text
    assert "Recovered 1 times before:\n  1. by step 20: The training loss became nan" in text
    assert "ckpt-10" in text
    assert os.path.basename(checkpoints.list_checkpoints(str(tmp_path))[-1]) == "ckpt-10"


@pytest.mark.long("Further cases of a test of which some run every time", but=["warmup1"])
@pytest.mark.slow
@pytest.mark.parametrize("warmup", [{}, {"warmup": {"type": "linear"}}])
def test_each_recovery_lowers_the_learning_rate_for_the_rest_also_of_a_resumed_run(
    tmp_path, broken_params, warmup
):
    def build(**trainer):
        params = broken_params(
            {"bad_batch": 17}, recovery_max_trials=1, recovery_lr_factor=0.25, **trainer
        )
        params.trainer.optimizer_config.override(warmup)
        if warmup:
            params.trainer.optimizer_config.warmup.linear.warmup_steps = 4
        return params

    first, second = Collector(), Collector()

    run(build(), tmp_path, reporter=first)
    run(build(train_steps=40), tmp_path, reporter=second)

    rates = {step: rate for step, _, rate in first.loops}
    assert rates[10] == pytest.approx(0.01)
    assert rates[30] == pytest.approx(0.0025)
    assert [rate for *_, rate in second.loops] == pytest.approx([0.0025] * 2)


@pytest.mark.long("Rare ways of a recovery; the tests beside it show the others")
@pytest.mark.slow
def test_the_initial_state_is_a_checkpoint_to_go_back_to(tmp_path, broken_params):
    reporter = Collector()
    params = broken_params({"bad_batch": 2}, recovery_max_trials=1, checkpoint_interval=0)

    run(params, tmp_path, reporter=reporter)

    assert "ckpt-0" in reporter.messages[0]
    assert reporter.loops[-1][0] == 30


@pytest.mark.slow
def test_the_number_of_trials_survives_a_restart(tmp_path, broken_params):
    params = broken_params({"bad_batch": 17}, recovery_max_trials=2, recovery_skip_batches=False)

    class StopAfterRecovery(Collector):
        def on_message(self, text):
            super().on_message(text)
            interruption.request("test")

    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(params, tmp_path, reporter=StopAfterRecovery(), interruption=interruption)
    reporter = Collector()
    with pytest.raises(errors.TrainingDivergedError, match="Recovered 2 times before"):
        run(params, tmp_path, reporter=reporter)

    assert len(reporter.messages) == 1
    assert recovery_state.load(str(tmp_path)).num_trials == 2


@pytest.mark.slow
def test_batches_are_left_out_also_after_a_restart_before_their_turn(tmp_path, broken_params):
    def params():
        return broken_params({"bad_batch": 17}, recovery_max_trials=1)

    class StopAfterRecovery(Collector):
        def on_message(self, text):
            super().on_message(text)
            interruption.request("test")

    with orbit.Interruption() as interruption, pytest.raises(orbit.Interrupted):
        run(params(), tmp_path / "run", reporter=StopAfterRecovery(), interruption=interruption)
    assert checkpoints.list_checkpoints(str(tmp_path / "run"))[-1].endswith("ckpt-10")
    run(params(), tmp_path / "run")
    run(broken_params({"left_out_from": 15, "left_out": 5}), tmp_path / "straight")

    assert_same_weights(read_weights(tmp_path / "run", 30), read_weights(tmp_path / "straight", 30))


@pytest.mark.long("Rare ways of a recovery; the tests beside it show the others")
@pytest.mark.slow
def test_recoveries_of_a_former_run_in_the_directory_do_not_count(tmp_path, broken_params):
    state = recovery_state.RecoveryState()
    state.add(recovery_state.Attempt(5, 0, "test", 0, {"": 5}), 0.5)
    recovery_state.save(state, str(tmp_path))

    run(broken_params({"bad_batch": 17}, recovery_max_trials=1), tmp_path)

    assert recovery_state.load(str(tmp_path)).num_trials == 1


@pytest.mark.slow
def test_a_checkpoint_with_values_that_are_not_finite_is_passed_over(tmp_path, broken_params):
    class Poison:
        """Spoils the weights after the loss of the loop was computed, at step 20."""

        def __call__(self, output):
            if int(runner.trainer.global_step.numpy()) == 20 and not done:
                done.append(True)
                variable = runner.trainer.model.trainable_variables[0]
                variable.assign(variable * np.nan)

    params = broken_params({}, recovery_max_trials=1)
    done, reporter = [], Collector()
    strategy = distribution.build_strategy(params.runtime)
    with strategy.scope():
        task = task_factory.get_task(params.task)
    runner = experiment_runner.ExperimentRunner(
        strategy,
        task,
        "train",
        params,
        str(tmp_path),
        run_options.RunOptions(train_actions=[Poison()], reporter=reporter),
    )
    runner.run()

    assert "went back to" in reporter.messages[0]
    assert "ckpt-10" in reporter.messages[0]
    assert not recovery.find_non_finite_variables(runner.trainer)
    assert checkpoints.list_checkpoints(str(tmp_path))[-1].endswith("ckpt-30")


@pytest.mark.long("Rare ways of a recovery; the tests beside it show the others")
@pytest.mark.slow
def test_evaluations_of_the_abandoned_steps_are_done_again(tmp_path, broken_params):
    params = broken_params(
        {"bad_batch": 27},
        recovery_max_trials=1,
        validation_interval=10,
        checkpoint_interval=40,
        max_to_keep=1,
    )
    steps = []

    class Collect(Collector):
        def on_eval_end(self, step, output, secs):
            steps.append(step)

    run(params, tmp_path, "train_and_eval", reporter=Collect())

    with open(tmp_path / "evaluations.jsonl") as file:
        recorded = [json.loads(line)["step"] for line in file]
    assert recorded == [10, 20, 30]
    assert steps == [10, 20, 30]


@pytest.mark.long("Rare ways of a recovery; the tests beside it show the others")
@pytest.mark.slow
def test_the_data_may_end_while_batches_are_left_out(tmp_path, broken_params):
    params = broken_params({"bad_batch": 17, "num_batches": 18}, recovery_max_trials=1)

    model, _ = run(params, tmp_path)

    assert all(np.all(np.isfinite(weight)) for weight in model.get_weights())
    assert checkpoints.list_checkpoints(str(tmp_path))[-1].endswith("ckpt-15")


@pytest.mark.slow
def test_a_loss_above_the_bound_counts_from_the_given_step(tmp_path, broken_params):
    def params(begin):
        return broken_params(
            {"loss_offset": 100.0}, loss_upper_bound=50.0, recovery_begin_steps=begin
        )

    with pytest.raises(
        errors.TrainingDivergedError, match=r"above trainer\.loss_upper_bound=50, in the steps 6"
    ):
        run(params(10), tmp_path / "begins")
    run(params(100), tmp_path / "never")

    assert checkpoints.list_checkpoints(str(tmp_path / "never"))[-1].endswith("ckpt-30")


def test_condition_counts_blow_ups_and_raises_after_the_last_trial():
    for loss in (0.6, tf.constant([np.nan]), np.float32(-np.inf), {"training_loss": np.inf}):
        step = orbit.utils.create_global_step()
        condition = actions.RecoveryCondition(step, loss_upper_bound=0.5, recovery_max_trials=2)
        outputs = {"task": loss} if isinstance(loss, dict) else {"training_loss": loss}

        assert not condition({"training_loss": 0.5})
        assert condition(outputs)
        assert condition(outputs)
        with pytest.raises(errors.TrainingDivergedError):
            condition(outputs)


def test_recovery_action_restores_the_newest_checkpoint(tmp_path):
    value = tf.Variable(1.0)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(value=value), str(tmp_path), 1)
    manager.save()
    value.assign(2.0)

    actions.RecoveryAction(manager)({})

    assert value.numpy() == 1.0


@pytest.mark.long("Rare ways of a recovery; the tests beside it show the others")
@pytest.mark.slow
def test_a_lowered_constant_rate_is_lowered_once_by_a_restart(tmp_path, broken_params):
    reporter = Collector()
    params = broken_params({"bad_batch": 17}, recovery_max_trials=1, recovery_lr_factor=0.5)

    run(params, tmp_path)
    params.trainer.train_steps = 35
    run(params, tmp_path)
    params.trainer.train_steps = 40
    run(params, tmp_path, reporter=reporter)

    assert reporter.loops[-1][2] == pytest.approx(0.005)


@pytest.mark.parametrize("content", [b"", b'{"trials": [', b"\0\0", b"[]", b"{}", b'"\xc3'])
def test_a_damaged_record_of_recoveries_is_named(tmp_path, content):
    (tmp_path / "recovery.json").write_bytes(content)

    with pytest.raises(errors.DamagedFileError, match=r"recovery\.json: can't be understood"):
        recovery_state.load(str(tmp_path))
