import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from quintain import errors
from quintain.config import base_config
from quintain.core import task_factory, trainer_factory
from quintain.core.multitask import configs
from quintain.run import run_options, runner_factory
from quintain.settings import config_definitions as cfg
from tests import line_task


@dataclasses.dataclass
class WidthConfig(base_config.Config):
    width: int = 8


@dataclasses.dataclass
class WideConfig(line_task.LineConfig):
    model: WidthConfig = dataclasses.field(default_factory=WidthConfig)


class WideTask(line_task.LineTask):
    """The line task with a hidden layer whose width its config says."""

    def build_model(self):
        width = self.task_config.model.width
        return keras.Sequential(
            [
                keras.Input([line_task.NUM_FEATURES]),
                keras.layers.Dense(width),
                keras.layers.Dense(width),
                keras.layers.Dense(1),
            ]
        )


@pytest.fixture(autouse=True)
def _wide_task_is_registered(line_task_is_registered):
    task_factory.register_task_cls(WideConfig)(WideTask)


def make_params(width, optimizer="adam", **parametrization):
    return cfg.ExperimentConfig(
        task=WideConfig(model={"width": width}),
        trainer={
            "optimizer_config": {
                "optimizer": {"type": optimizer},
                "learning_rate": {"type": "constant", "constant": {"learning_rate": 0.01}},
            },
            "parametrization": parametrization,
        },
    )


def build_trainer(params):
    keras.utils.set_random_seed(1)
    task = task_factory.get_task(params.task)
    return trainer_factory.create_trainer(params, task, train=True, evaluate=False)


def train(params):
    trainer = build_trainer(params)
    trainer.train(tf.constant(3))
    return [variable.numpy() for variable in trainer.model.trainable_variables]


@pytest.mark.slow
def test_training_at_the_base_width_is_the_plain_one_to_the_bit():
    plain = train(make_params(8))
    base = train(make_params(8, type="mup", base={"width": 8}))

    for expected, found in zip(plain, base, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
def test_a_wider_model_starts_and_learns_by_the_factors_of_its_width():
    trainer = build_trainer(make_params(32, type="mup", base={"width": 8}))
    variables = trainer.model.trainable_variables
    before = [variable.numpy() for variable in variables]

    trainer.train(tf.constant(1))

    # The first step of Adam changes each number by the learning rate.
    steps = [np.abs(one - was).mean() for one, was in zip(variables, before, strict=True)]
    rates = [0.01, 0.01, 0.0025, 0.01, 0.0025, 0.01]
    np.testing.assert_allclose(steps, rates, rtol=0.02)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"base": {"widht": 8}}, r"trainer.parametrization.base: widht: .* Did you mean 'width'"),
        ({"base": {"width": 8}, "optimizer": "lamb"}, "optimizer LAMB, which has no rule"),
        ({"base": {"width": 64}}, "wider than"),
    ],
)
def test_what_does_not_fit_is_one_clear_error(params, message):
    with pytest.raises(errors.ConfigError, match=message):
        build_trainer(make_params(32, type="mup", **params))


def test_a_base_without_mup_and_mup_without_a_base_are_refused():
    for parametrization in ({"type": "mup"}, {"base": {"width": 8}}):
        with pytest.raises(errors.ConfigError, match="mup has a base, others none"):
            make_params(8, **parametrization).validate()


def test_a_task_without_a_model_config_is_refused(line_params):
    params = line_params()
    params.override({"trainer": {"parametrization": {"type": "mup", "base": {"width": 8}}}})

    with pytest.raises(errors.ConfigError, match=r"LineTask has no `task.model`"):
        build_trainer(params)


def test_several_tasks_are_refused(tmp_path):
    params = configs.MultiTaskExperimentConfig(
        trainer={"parametrization": {"type": "mup", "base": {"width": 8}}}
    )

    with pytest.raises(errors.ConfigError, match="for several tasks or for stages"):
        runner_factory.build_runner(
            tf.distribute.get_strategy(), "train", params, str(tmp_path), run_options.RunOptions()
        )
