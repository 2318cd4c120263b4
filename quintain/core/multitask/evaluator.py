"""`MultiTaskEvaluator`: evaluates one model on several tasks."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import orbit
from quintain.checkpoints import best_checkpoint, checkpoint_fit, state_snapshot
from quintain.config import gin_io
from quintain.core import base_task
from quintain.core.loop import dataset_distribution, task_evaluation, trainer_setup
from quintain.core.multitask import base_model, base_trainer, multitask
from quintain.optimization import ema
from quintain.settings import config_definitions as cfg


@gin_io.configurable
class MultiTaskEvaluator(orbit.AbstractEvaluator):
    """Evaluates every task on its own data, with its own metrics, one after the other.

    Build it inside the scope of the strategy.
    """

    def __init__(
        self,
        eval_tasks: Sequence[base_task.Task] | Mapping[str, base_task.Task],
        model: keras.Model | base_model.MultiTaskBaseModel,
        global_step: tf.Variable | None = None,
        eval_steps: Mapping[str, int | None] | None = None,
        checkpoint_exporter: best_checkpoint.CheckpointExporter | None = None,
        *,
        eval_datasets: Mapping[str, dataset_distribution.Dataset] | None = None,
        options: orbit.StandardEvaluatorOptions | None = None,
        checkpoint: tf.train.Checkpoint | None = None,
        runtime: cfg.RuntimeConfig | None = None,
        average: ema.ExponentialMovingAverage | None = None,
    ) -> None:
        """Builds the data of all tasks; nothing is computed yet.

        Args:
            eval_tasks: The tasks, which go by their own names, or a mapping that names them.
            model: The model with a part for every task, or one that all of them share.
            global_step: The training step, `[]` int64. None creates one that stays 0.
            eval_steps: Batches of an evaluation of each task that has a number of its own.
            checkpoint_exporter: Exports checkpoints by their evaluation: an object with
                `maybe_export_checkpoint(checkpoint, logs, step)`.
            eval_datasets: Data of every task, instead of `Task.build_inputs`.
            options: How the loops run.
            checkpoint: What the exporter saves. None saves the model and the step.
            runtime: Seed, compilation and threads. None takes the defaults.
            average: Averages of the weights to evaluate instead of the weights.

        Raises:
            ConfigError: If two tasks have the same name, or `eval_steps` names none of them.
        """
        self._strategy = tf.distribute.get_strategy()
        self._tasks = multitask.name_tasks(eval_tasks, "eval_tasks")
        self._model = model
        self._global_step = orbit.utils.create_global_step() if global_step is None else global_step
        self._checkpoint_exporter = checkpoint_exporter
        self._average = average
        self.runtime = runtime or cfg.RuntimeConfig()
        self.eval_steps = multitask.check_names(eval_steps, self._tasks, "eval_steps")
        self.eval_datasets = dict(
            eval_datasets
            or {
                name: dataset_distribution.build_task_dataset(
                    self._strategy, task, task.task_config.validation_data, self.runtime
                )
                for name, task in self._tasks.items()
            }
        )
        base_trainer.build_from_batches(model, self._tasks, self.eval_datasets, self._strategy)
        self._evaluators = {
            name: _TaskEvaluator(name, task, self, options) for name, task in self._tasks.items()
        }
        self._checkpoint = checkpoint or tf.train.Checkpoint(
            global_step=self._global_step, **checkpoint_fit.model_items(model)
        )

    @property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy in whose scope the evaluator was built."""
        return self._strategy

    @property
    def tasks(self) -> list[base_task.Task]:
        """The tasks, in the order of their evaluation."""
        return list(self._tasks.values())

    @property
    def model(self) -> keras.Model | base_model.MultiTaskBaseModel:
        """The model of all tasks."""
        return self._model

    @property
    def global_step(self) -> tf.Variable:
        """Scalar int64: training steps done."""
        return self._global_step

    @property
    def validation_losses(self) -> dict[str, keras.metrics.Mean]:
        """Mean evaluation loss of each task."""
        return {name: part.evaluation.loss for name, part in self._evaluators.items()}

    @property
    def validation_metrics(self) -> dict[str, list[keras.metrics.Metric]]:
        """Evaluation metrics of each task."""
        return {name: part.evaluation.metrics for name, part in self._evaluators.items()}

    @property
    def checkpoint(self) -> tf.train.Checkpoint:
        """Checkpoint that the exporter saves."""
        return self._checkpoint

    @property
    def checkpoint_exporter(self) -> best_checkpoint.CheckpointExporter | None:
        """Exporter of checkpoints by their evaluation, or None."""
        return self._checkpoint_exporter

    @override
    def evaluate(self, num_steps: tf.Tensor) -> dict[str, Any]:
        """Evaluates all tasks.

        Args:
            num_steps: Scalar integer tensor: batches to evaluate of a task without a number of its
                own; -1 evaluates all of its data.

        Returns:
            For every task a mapping of its metrics, `validation_loss` and what the task's
            `reduce_aggregated_logs` gives; and `best_TASK|METRIC` where the best checkpoint is
            exported.

        Raises:
            EvaluationInterrupted: If the process was asked to stop before all steps were done.
        """
        with self._averaged_weights():
            logs = self._evaluate_tasks(num_steps)
            exporter = self._checkpoint_exporter
            if exporter is None:
                return logs
            step = int(self._global_step.numpy())
            exporter.maybe_export_checkpoint(self._checkpoint, logs, step)
            if isinstance(exporter, best_checkpoint.BestCheckpointExporter) and (
                best := exporter.best_ckpt_logs
            ):
                name = exporter.metric_name
                logs[f"best_{name}"] = best_checkpoint.find_metric(best, name)
            return logs

    def check_evaluation_ends(self, num_steps: int) -> None:
        """Checks that the evaluation of each task has an end, as `Trainer` does.

        Raises:
            ConfigError: If that of a task has none.
        """
        for name, dataset in self.eval_datasets.items():
            steps = self.eval_steps.get(name)
            trainer_setup.check_evaluation_ends(
                dataset,
                num_steps if steps is None else steps,
                f"task_config.validation_data of the task {name!r}",
            )

    def evaluate_one_batch(self) -> dict[str, Any]:
        """Evaluates the first batch of each task, to see what metrics there are."""
        with self._averaged_weights():
            return self._evaluate_tasks(tf.constant(1), uses_own_steps=False)

    def _averaged_weights(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._average is None else self._average.averaged()

    def _evaluate_tasks(
        self, num_steps: tf.Tensor, *, uses_own_steps: bool = True
    ) -> dict[str, Any]:
        """Evaluates all tasks, and puts back what that changed besides metrics."""
        logs: dict[str, Any] = {}
        num_done = 0
        with state_snapshot.state_restored(self._checkpoint):
            for name, evaluator in self._evaluators.items():
                own_steps = self.eval_steps.get(name) if uses_own_steps else None
                evaluator.interruption = self.interruption
                evaluator.start_counting(num_done, self.eval_step_listener)
                steps = num_steps if own_steps is None else tf.constant(own_steps, tf.int32)
                logs[name] = evaluator.evaluate(steps)
                num_done = evaluator.num_done
        return logs


class _TaskEvaluator(orbit.StandardEvaluator):
    """Evaluates one of the tasks."""

    def __init__(
        self,
        name: str,
        task: base_task.Task,
        owner: MultiTaskEvaluator,
        options: orbit.StandardEvaluatorOptions | None,
    ) -> None:
        super().__init__(owner.eval_datasets[name], options or orbit.StandardEvaluatorOptions())
        self._task_name = name
        self._owner = owner
        self.evaluation = task_evaluation.TaskEvaluation(
            task,
            base_model.get_sub_model(owner.model, name),
            owner.runtime,
            base_trainer.build_metrics(task, owner.model, name, training=False),
        )
        self.num_done = 0

    def start_counting(self, num_done: int, listener: Any) -> None:
        """Counts the steps of all tasks together, starting from `num_done`."""
        self.num_done = num_done

        def listen(steps: int) -> None:
            self.num_done = num_done + steps
            if listener is not None:
                listener(self.num_done)

        self.eval_step_listener = listen

    @override
    def eval_begin(self) -> None:
        self.evaluation.begin()

    @override
    def eval_step(self, iterator: Any) -> Any:
        return self.evaluation.run_step(next(iterator))

    @property
    @override
    def traced_eval_step(self) -> Callable[[Any], Any]:
        return self.evaluation.without_autograph(self.eval_step)

    @override
    def eval_reduce(self, state: Any = None, step_outputs: Any = None) -> Any:
        return self.evaluation.reduce(state, step_outputs)

    @override
    def eval_end(self, aggregated_logs: Any = None) -> dict[str, Any]:
        return self.evaluation.collect(
            aggregated_logs, self._owner.global_step, image_prefix=f"{self._task_name}/"
        )
