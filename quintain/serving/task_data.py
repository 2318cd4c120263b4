"""Predictions of a task's own data."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.core import model_export
from quintain.orbit import iterators
from quintain.serving import exporter, instances, trained_run

CHOICES: Final = {"train": "train_data", "validation": "validation_data"}
"""Which data a task has, with the fields of its config."""


def predict(
    model_dir: str, choice: str, *, checkpoint: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yields what the model of a run gives for each example of the run's data, as plain data.

    Args:
        model_dir: Directory of the run.
        choice: One of `CHOICES`. Training data are read once, in their order.
        checkpoint: Checkpoint of the run. None takes the newest.

    Raises:
        CheckpointError: If there is no checkpoint, or it does not fit.
        ConfigError: If the directory holds no run, or its task has no such data.
    """
    found = None
    if not exporter.is_export(model_dir):
        found = trained_run.load(model_dir, checkpoint=checkpoint)
    params = getattr(found.task.task_config, CHOICES[choice], None) if found else None
    if found is None or params is None:
        raise errors.ConfigError(
            f"--data: got {choice!r}, but {model_dir!r} "
            + (f"has no task.{CHOICES[choice]}." if found else "is an export, which has no data.")
        )
    task, model = found.task, found.model
    params = params.replace(is_training=False)

    @tf.function(reduce_retracing=True)
    def infer(batch: Any) -> dict[str, tf.Tensor]:
        features, _ = task.split_inputs(batch)
        names = getattr(model, "output_names", None) or ()
        outputs = task.inference_step(features, model)
        return model_export.name_parts(outputs, model_export.OUTPUTS, names)

    for batch in iterators.create(task.build_inputs(params)):
        outputs = {name: value.numpy() for name, value in infer(batch).items()}
        for row in range(len(next(iter(outputs.values()), ()))):
            yield {
                name: instances.to_plain(np.asarray(values[row]))
                for name, values in outputs.items()
            }
