"""Checks and lookups before a trainer is built."""

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoint_state, task_state
from quintain.core import base_task
from quintain.core.steps import model_metrics
from quintain.modeling import unbuilt_layers
from quintain.optimization import (
    fused_optimizer,
    gradient_accumulation,
    norms,
    optimizer_wrapper,
)
from quintain.orbit import finite_data, iterators
from quintain.settings import config_definitions as cfg


def check_config(config: cfg.ExperimentConfig, needs_train: bool, needs_validation: bool) -> None:
    """Checks that a config has what a trainer needs.

    Raises:
        ConfigError: If a part is missing.
    """
    needed = ["trainer", "task"]
    needed += ["task.train_data"] if needs_train else []
    needed += ["task.validation_data"] if needs_validation else []
    for path in needed:
        value: Any = config
        for part in path.split("."):
            value = getattr(value, part, None)
        if value is None:
            raise errors.ConfigError(f"{path}: missing, but the trainer needs it.")


def train_options(
    config: cfg.TrainerConfig, runtime: cfg.RuntimeConfig
) -> orbit.StandardTrainerOptions:
    """Returns how training loops run."""
    is_compiled = not runtime.run_eagerly
    return orbit.StandardTrainerOptions(
        use_tf_function=config.train_tf_function and is_compiled,
        use_tf_while_loop=config.train_tf_while_loop and is_compiled,
        use_tpu_summary_optimization=config.allow_tpu_summary and is_compiled,
    )


def eval_options(
    config: cfg.TrainerConfig, runtime: cfg.RuntimeConfig
) -> orbit.StandardEvaluatorOptions:
    """Returns how evaluations run."""
    is_compiled = not runtime.run_eagerly
    return orbit.StandardEvaluatorOptions(
        use_tf_function=config.eval_tf_function and is_compiled,
        use_tf_while_loop=config.eval_tf_while_loop and is_compiled,
    )


def check_accumulation(config: cfg.ExperimentConfig, optimizer: Any) -> None:
    """Checks that an optimizer adds up gradients if, and only if, the config asks for it.

    Raises:
        ConfigError: If the optimizer and the config differ in that.
    """
    found = optimizer_wrapper.find_wrapper(optimizer, gradient_accumulation.GradientAccumulation)
    asked = config.trainer.optimizer_config.gradient_accumulation_steps
    if optimizer is not None and asked != (1 if found is None else found.num_batches):
        raise errors.ConfigError(
            f"trainer.optimizer_config.gradient_accumulation_steps: got {asked}, but the optimizer "
            f"that was passed is {optimizer!r}. Build it by `Task.create_optimizer`, or wrap it in "
            "`optimization.GradientAccumulation`."
        )


def track_norms(config: cfg.TrainerConfig, optimizer: Any) -> norms.NormSums | None:
    """Makes the optimizer sum up norms, if the config asks for it.

    Raises:
        ConfigError: If the optimizer can't.
    """
    if not config.norm_summaries:
        return None
    found = optimizer_wrapper.find_wrapper(optimizer, fused_optimizer.FusedOptimizer)
    if found is None:
        raise errors.ConfigError(
            f"trainer.norm_summaries: got True, but {type(optimizer).__name__} is not one of this "
            "package's optimizers, which are the ones that measure norms."
        )
    return found.track_norms()


def check_evaluation_ends(dataset: Any, num_steps: int, path: str = "task.validation_data") -> None:
    """Checks that an evaluation of all data does not go on for ever.

    Raises:
        ConfigError: If all of the data are to be evaluated, and they are known to have no end.
    """
    if num_steps == -1 and not tf.nest.is_nested(dataset) and finite_data.is_endless(dataset):
        raise errors.ConfigError(
            f"{path}: the data never end, but trainer.validation_steps is -1, which evaluates all "
            "of them. Set trainer.validation_steps to a number of batches, or leave out what "
            "repeats the data, such as `repeat()`."
        )


def list_seeds(model: keras.Model, task: base_task.Task) -> list[keras.Variable]:
    """Returns the states of the seed generators of a model and of its task."""
    own = [generator.state for generator in checkpoint_state.seed_generators(model)]
    _, held = task_state.find({"": task}, [*model.variables, *own])
    return [*own, *(state for state in held.values() if tuple(state.shape) == (2,))]


def list_statistics(model: keras.Model) -> list[keras.Variable]:
    """Returns the variables of a model that steps move without a gradient, such as a mean."""
    metrics = {id(part) for metric in model.metrics for part in metric.variables}
    return [
        variable
        for variable in model.non_trainable_variables
        if tf.as_dtype(str(variable.dtype)).is_floating and id(variable) not in metrics
    ]


def needs_batch(model: keras.Model) -> bool:
    """Returns whether a model, or what it was compiled with, needs a batch to have its variables.

    A traced step of several replicas can't make them, and a checkpoint is restored into those that
    there are.
    """
    return (
        not model.built
        or unbuilt_layers.lacks_weights(model)
        or model_metrics.lacks_variables(model)
    )


def build_from_batch(
    model: keras.Model, task: base_task.Task, dataset: Any, strategy: tf.distribute.Strategy
) -> None:
    """Makes the variables that a model, or what it was compiled with, has only after a batch.

    The iterators of one dataset share the state of its shuffling, so `dataset` should not be the
    one that is trained on.
    """
    from quintain.input import poisson_sampling  # noqa: PLC0415 - few models need a batch

    batch = next(iterators.create(dataset), None)
    if batch is None:
        return
    batch = tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], batch)
    features, labels = task.split_inputs(poisson_sampling.to_batch(batch).inputs)
    outputs = task.inference_step(features, model)
    try:
        model_metrics.build_compiled(model, task.process_compiled_metrics, labels, outputs)
    except (AttributeError, LookupError, TypeError, ValueError):
        # Steps of the model's own may measure something else than these labels, and make the
        # variables when they are traced.
        if strategy.num_replicas_in_sync > 1:
            raise


def build_optimizers(holders: Iterable[Any], step: Callable[[Any], Any], spec: Any) -> None:
    """Lets further optimizers make their variables, which would come too late to be restored.

    Where models and tasks hold such optimizers, the step is traced; it never runs.
    """
    if spec is not None and task_state.has_unbuilt_optimizers(holders):
        # What is wrong with the step shows when it is to run, and better.
        with contextlib.suppress(Exception):
            tf.function(step).get_concrete_function(spec)
