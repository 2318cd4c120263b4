"""Builds the trainer that a config describes, with its model and its optimizer."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING

import keras

from quintain import errors
from quintain.config import gin_io
from quintain.core import base_task, base_trainer
from quintain.core.steps import task_checks
from quintain.settings import config_definitions as cfg

if TYPE_CHECKING:
    from quintain.checkpoints import best_checkpoint


@gin_io.configurable
def create_trainer(
    params: cfg.ExperimentConfig,
    task: base_task.Task,
    train: bool,
    evaluate: bool,
    checkpoint_exporter: "best_checkpoint.CheckpointExporter | None" = None,
    trainer_cls: Callable[..., base_trainer.Trainer] = base_trainer.Trainer,
) -> base_trainer.Trainer:
    """Creates model, optimizer and trainer, in the scope of the strategy."""
    model = task.build_model()
    task_checks.check_model(task, model)
    optimizer = create_optimizer(task, params)
    if params.trainer.parametrization.type == "mup":
        _transfer_width(params, task, model, optimizer)
    return trainer_cls(
        params,
        task,
        model=model,
        optimizer=optimizer,
        train=train,
        evaluate=evaluate,
        checkpoint_exporter=checkpoint_exporter,
    )


def _transfer_width(
    params: cfg.ExperimentConfig,
    task: base_task.Task,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
) -> None:
    """Makes model and optimizer learn as at the base width of the config."""
    from quintain.optimization import width_transfer  # noqa: PLC0415 - few trainings do

    base = task.task_config.replace()
    where = "trainer.parametrization.base"
    if base.model is None or not model.built:
        raise errors.ConfigError(
            f"{where}: the task {type(task).__name__} has no `task.model`, or its model has no "
            "weights before the first batch. Give it both, or leave out trainer.parametrization."
        )
    with errors.located(lambda path: where):
        base.model.override(params.trainer.parametrization.base)
    width_transfer.find_rule(optimizer)
    if base != task.task_config:
        narrow = type(task)(base, logging_dir=task.logging_dir, name=task.name)
        width_transfer.apply(model, narrow.build_model(), optimizer)


def create_optimizer(
    task: base_task.Task, params: cfg.ExperimentConfig
) -> keras.optimizers.Optimizer:
    """Creates the task's optimizer, with noise if training is differentially private.

    Raises:
        ConfigError: If the task's own `create_optimizer` takes no `dp_config` but one is set.
    """
    config = params.trainer.optimizer_config
    dp_config = cfg.find_privacy(params)
    if dp_config is not None:
        from quintain.core.privacy import privacy_accounting  # noqa: PLC0415 - few trainings do

        dp_config = privacy_accounting.resolve(params, task)
    if "dp_config" in inspect.signature(task.create_optimizer).parameters:
        return task.create_optimizer(config, params.runtime, dp_config=dp_config)
    if dp_config is not None:
        raise errors.ConfigError(
            f"task.differential_privacy_config: got {dp_config!r}, but "
            f"{type(task).__name__}.create_optimizer takes no `dp_config`. Add this parameter and "
            "pass it on to super().create_optimizer."
        )
    return task.create_optimizer(config, params.runtime)
