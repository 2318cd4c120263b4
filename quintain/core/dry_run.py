"""A run of one batch: does everything fit, how large is it, how long will it take?"""

import dataclasses
import resource
import sys
import time
from typing import Any, Final

import keras
import tensorflow as tf

from quintain.core import (
    base_trainer,
    distribution,
    experiment_runner,
    task_factory,
)
from quintain.core import config_definitions as cfg

_TIMED_STEPS: Final = 3


@dataclasses.dataclass(frozen=True)
class DryRunReport:
    """What a dry run found."""

    num_parameters: int
    """Trainable parameters of the model."""

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
    parsed_mode = experiment_runner.parse_mode(mode)
    experiment_runner.check_run(params, experiment_runner.Mode.TRAIN, scratch_dir)
    evaluate = parsed_mode is not experiment_runner.Mode.TRAIN
    strategy = distribution.build_strategy(params.runtime)
    with distribution.precision(params.runtime), strategy.scope():
        if params.runtime.seed is not None:
            keras.utils.set_random_seed(params.runtime.seed)
        task = task_factory.get_task(params.task, logging_dir=scratch_dir)
        trainer = experiment_runner.create_trainer(params, task, train=True, evaluate=evaluate)
        batch = next(iter(trainer.train_dataset))
        counts = {name: int(count) for name, count in task.count_items(batch).items()}
        secs, loss = _time_steps(trainer)
        logs = dict(trainer.evaluate_one_batch()) if evaluate else {}
    return DryRunReport(
        num_parameters=sum(int(tf.size(v.value)) for v in trainer.model.trainable_variables),
        checkpoint_bytes=_count_bytes(trainer),
        peak_memory_bytes=read_peak_memory_bytes(),
        first_step_secs=secs[0],
        step_secs=sorted(secs[1:])[len(secs[1:]) // 2],
        batch_examples=counts.get("examples", 0),
        batch_tokens=counts.get("tokens", 0),
        train_steps=params.trainer.train_steps,
        loss=loss,
        eval_logs={name: float(value) for name, value in logs.items() if _is_number(value)},
    )


def read_peak_memory_bytes() -> int:
    """Returns the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _time_steps(trainer: base_trainer.Trainer) -> tuple[list[float], float]:
    """Returns the seconds of a few single-step loops, and the loss of the first."""
    secs, losses = [], []
    for _ in range(1 + _TIMED_STEPS):
        start = time.perf_counter()
        logs = trainer.train(tf.constant(1, tf.int32)) or {}
        losses.append(float(logs[trainer.train_loss.name]))
        secs.append(time.perf_counter() - start)
    return secs, losses[0]


def _count_bytes(trainer: base_trainer.Trainer) -> int:
    variables = [*trainer.model.variables, *trainer.optimizer.variables]
    return sum(int(tf.size(v.value)) * v.value.dtype.size for v in variables)


def _is_number(value: Any) -> bool:
    return tf.size(value) == 1 if tf.is_tensor(value) else isinstance(value, int | float)
