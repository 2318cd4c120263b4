"""Dry run of one batch: memory, speed and size of a model."""

import dataclasses
import math
import resource
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import evaluation_log
from quintain.core.loop import stateful_trainer
from quintain.distribute import distribution
from quintain.input import poisson_sampling
from quintain.orbit import iterators
from quintain.run import run_mode, run_options, runner_factory
from quintain.settings import config_definitions as cfg

_TIMED_STEPS: Final = 3


@dataclasses.dataclass(frozen=True)
class DryRunReport:
    """Result of a dry run."""

    num_parameters: int
    """Trainable parameters of the model."""

    layers: dict[str, int]
    """Trainable parameters by the path of their layer, in the model's order."""

    checkpoint_bytes: int
    """Size of one checkpoint's weights and optimizer state."""

    peak_memory_bytes: int
    """Largest memory of the process so far."""

    first_step_secs: float
    """Seconds of the first training step, compilation into a graph included."""

    step_secs: float
    """Median seconds of a training step after the first."""

    batch_examples: int
    """Examples in a batch; 0 if the task does not count them."""

    batch_tokens: int
    """Tokens in a batch; 0 if the task does not count them."""

    train_steps: int
    """Steps of the whole run."""

    loss: float
    """Training loss of the first batch."""

    eval_logs: dict[str, Any]
    """Metrics of one batch of evaluation; empty in mode `train`."""

    @property
    def estimated_train_secs(self) -> float:
        """Seconds of training at this speed, without evaluations."""
        return self.first_step_secs + self.step_secs * max(self.train_steps - 1, 0)


def dry_run(params: cfg.ExperimentConfig, mode: str, scratch_dir: str) -> DryRunReport:
    """Builds everything, trains a few steps on the first batches and evaluates one batch.

    Args:
        params: The experiment.
        mode: Name of the mode; decides whether an evaluation is part of it.
        scratch_dir: Directory for what the task has to write, such as a vocabulary.

    Raises:
        QuintainError: For whatever would stop the real run before its first step.
    """
    parsed_mode = run_mode.parse_mode(mode)
    run_mode.check_run(params, run_mode.Mode.TRAIN, scratch_dir)
    evaluate = parsed_mode is not run_mode.Mode.TRAIN
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        if params.runtime.seed is not None:
            keras.utils.set_random_seed(params.runtime.seed)
        runner = runner_factory.build_runner(
            strategy,
            "train_and_eval" if evaluate else "train",
            params,
            scratch_dir,
            run_options.RunOptions(save_summary=False),
        )
        trainer = runner.trainer
        counts = _count_items(trainer)
        secs, loss = _time_steps(trainer)
        evaluator = runner.evaluator if evaluate else None
        logs = {} if evaluator is None else evaluation_log.flatten(evaluator.evaluate_one_batch())
    saved = [*trainer.model.variables, *trainer.optimizer.variables]
    return DryRunReport(
        num_parameters=sum(int(tf.size(v.value)) for v in trainer.model.trainable_variables),
        layers=_count_by_layer(trainer.model),
        checkpoint_bytes=sum(int(tf.size(v.value)) * v.value.dtype.size for v in saved),
        peak_memory_bytes=read_peak_memory_bytes(),
        first_step_secs=secs[0],
        step_secs=sorted(secs[1:])[len(secs[1:]) // 2],
        batch_examples=counts.get("examples", 0),
        batch_tokens=counts.get("tokens", 0),
        train_steps=params.trainer.train_steps,
        loss=loss,
        eval_logs={
            name: float(value)
            for name, value in logs.items()
            if isinstance(value, int | float) or (tf.is_tensor(value) and tf.size(value) == 1)
        },
    )


def read_peak_memory_bytes() -> int:
    """Returns the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _time_steps(trainer: stateful_trainer.StatefulTrainer) -> tuple[list[float], float]:
    """Returns the seconds of a few single-step loops, and the loss of the first."""
    secs, losses = [], []
    for _ in range(1 + _TIMED_STEPS):
        start = time.perf_counter()
        logs = trainer.train(tf.constant(1, tf.int32)) or {}
        losses.append(float(logs[trainer.train_loss.name]))
        secs.append(time.perf_counter() - start)
    bad = next((loss for loss in losses if not math.isfinite(loss)), None)
    if bad is not None:
        raise errors.TrainingDivergedError(
            f"The training loss became {bad} by step {losses.index(bad) + 1}. Look at the learning "
            "rate and at the data; --set runtime.run_eagerly=true shows the operation."
        )
    return secs, losses[0]


def _count_items(trainer: Any) -> dict[str, int]:
    """Returns what the first batch of a step holds; of several tasks' batches, of all of them."""
    dataset = trainer.train_dataset
    tasks = trainer.multi_task.tasks if isinstance(dataset, Mapping) else {"": trainer.task}
    datasets = dataset if isinstance(dataset, Mapping) else {"": dataset}
    counts: dict[str, int] = {}
    for name, task in tasks.items():
        batch = poisson_sampling.get_real(next(iterators.create(datasets[name])))
        for item, count in task.count_items(batch).items():
            counts[item] = counts.get(item, 0) + int(count)
    return counts


def _count_by_layer(model: keras.Model) -> dict[str, int]:
    counts: dict[str, int] = {}
    for variable in model.trainable_variables:
        path = variable.path.rpartition("/")[0] or variable.name
        counts[path] = counts.get(path, 0) + math.prod(variable.shape)
    return counts
