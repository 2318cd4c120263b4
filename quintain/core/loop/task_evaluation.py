"""Evaluation of one task, alone or among several."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from quintain.core import base_task
from quintain.core.steps import autograph, model_metrics
from quintain.distribute import elastic_steps, replica_steps
from quintain.orbit import cluster
from quintain.settings import config_definitions as cfg

IMAGES_KEY: Final = "visualization"
"""Key of a task's images among the metrics: a mapping from names to images."""

MAX_IMAGES: Final = 16
"""Images of a name that are written."""


class TaskEvaluation:
    """Runs a task's validation steps, and gathers what they give."""

    def __init__(
        self,
        task: base_task.Task,
        model: keras.Model,
        runtime: cfg.RuntimeConfig,
        metrics: list[keras.metrics.Metric] | None = None,
    ) -> None:
        self._task = task
        self._model = model
        self._runtime = runtime
        self._strategy = tf.distribute.get_strategy()
        self.loss = keras.metrics.Mean("validation_loss", dtype="float32")
        self.metrics = metrics or []

    def begin(self) -> None:
        """Resets loss and metrics."""
        model_metrics.reset([*self._list_metrics(), self.loss])

    def _list_metrics(self) -> list[keras.metrics.Metric]:
        return [*self.metrics, *model_metrics.compiled_parts(self._model)]

    def without_autograph(
        self, step_fn: Callable[..., Any], *callers: object
    ) -> Callable[..., Any]:
        """Returns a function that calls `run_step`, so that only what users write is converted."""
        return autograph.without_autograph(step_fn, self._task, self._model, self.metrics, callers)

    def run_step(self, inputs: Any) -> dict[str, Any]:
        """Runs the task's `validation_step` on every replica.

        Returns:
            The logs; each value a tuple with those of the replicas of this process.
        """
        validation_step = replica_steps.compile_step(self._task.validation_step, self._runtime)

        def step_fn(replica_inputs: Any) -> dict[str, Any]:
            logs = validation_step(replica_inputs, model=self._model, metrics=self.metrics)
            if self._task.loss in logs:
                count = logs.get(self._task.loss_count, 1.0)
                self._update_loss(logs[self._task.loss], count, replica_inputs)
            return logs

        outputs = replica_steps.run(self._strategy, self._runtime, step_fn, inputs)
        # Elastic runs evaluate all data on each replica: the same, whatever their number is.
        num_kept = 1 if self._runtime.elastic else None
        logs: dict[str, Any] = tf.nest.map_structure(
            lambda part: self._strategy.experimental_local_results(part)[:num_kept], outputs
        )
        return logs

    def reduce(self, state: Any, step_outputs: Any) -> Any:
        """Folds the outputs of a step, on all workers, into a state as the task does."""
        is_used = type(self._task).aggregate_logs is not base_task.Task.aggregate_logs
        if is_used and not self._runtime.elastic:
            step_outputs = cluster.gather_logs(self._strategy, step_outputs)
        return self._task.aggregate_logs(state, step_outputs)

    def collect(
        self, aggregated_logs: Any, global_step: tf.Variable, *, image_prefix: str = ""
    ) -> dict[str, Any]:
        """Returns what the evaluation came to, and writes its images if the task wants it.

        Returns:
            The metrics, `validation_loss` if there was one, and what the task's
            `reduce_aggregated_logs` gives.
        """
        if self._runtime.elastic and self._strategy.num_replicas_in_sync > 1:
            elastic_steps.keep_first(self._strategy, [*self._list_metrics(), self.loss])
        logs = model_metrics.read(self._list_metrics())
        if float(tf.convert_to_tensor(self.loss.count)):
            logs[self.loss.name] = self.loss.result()
        if aggregated_logs:
            reduced = self._task.reduce_aggregated_logs(aggregated_logs, global_step=global_step)
            logs |= reduced or {}
        images: Mapping[str, Any] = logs.pop(IMAGES_KEY, {})
        if getattr(self._task.task_config, "allow_image_summary", False):
            named = {f"{image_prefix}{name}": image for name, image in images.items()}
            _write_images(named, int(global_step.numpy()))
        return logs

    def _update_loss(self, loss: tf.Tensor, count: Any, inputs: Any) -> None:
        """Adds a replica's loss, unless its share of the last batch was empty."""
        if self._strategy.num_replicas_in_sync == 1 or self._runtime.elastic:
            self.loss.update_state(loss, sample_weight=count)
            return
        sizes = [tf.shape(leaf)[0] for leaf in tf.nest.flatten(inputs) if leaf.shape.rank != 0]
        has_examples = tf.constant(True) if not sizes else sizes[0] > 0
        self.loss.update_state(
            tf.where(has_examples, loss, tf.zeros_like(loss)),
            sample_weight=tf.cast(has_examples, tf.float32) * tf.cast(count, tf.float32),
        )


def _write_images(images: Mapping[str, Any], step: int) -> None:
    """Writes images with the summary writer in force."""
    for name, batch in images.items():
        tf.summary.image(name, batch, step=step, max_outputs=MAX_IMAGES)
