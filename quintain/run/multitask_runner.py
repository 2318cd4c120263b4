"""Multi-task runners: the experiment runner with another trainer or evaluator in it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.checkpoints import best_checkpoint
from quintain.core import base_task, base_trainer, trainer_factory
from quintain.core.loop import trainer_setup
from quintain.core.multitask import (
    base_model,
    configs,
    evaluator,
    interleaving_trainer,
    multitask,
    task_sampler,
)
from quintain.core.multitask import base_trainer as multitask_trainer
from quintain.run import actions, experiment_runner, run_options

ExporterCreator = Callable[[Any, str], best_checkpoint.CheckpointExporter | None]
"""Takes the experiment and the model directory; returns an exporter of checkpoints, or None."""

TrainActionsFactory = Callable[[Any, Any, str, Any], list[actions.Action]]
"""Takes the experiment, the trainer, the model directory and the checkpoint manager."""

EvalActionsFactory = Callable[[Any, Any, str], list[actions.Action]]
"""Takes the experiment, the evaluator and the model directory."""

TRAINERS: Final[Mapping[str, type[multitask_trainer.MultiTaskBaseTrainer]]] = {
    "interleaving": interleaving_trainer.MultiTaskInterleavingTrainer,
    "joint": multitask_trainer.MultiTaskBaseTrainer,
}
"""Trainers by `trainer.trainer_type`."""


def build_trainer(
    params: Any,
    task: multitask.MultiTask,
    model: keras.Model | base_model.MultiTaskBaseModel,
    *,
    is_training: bool = True,
) -> multitask_trainer.MultiTaskBaseTrainer:
    """Builds the trainer that a config describes, and its optimizer.

    Call it in the scope of the strategy.

    Args:
        params: The experiment.
        task: The tasks.
        model: The model of all tasks.
        is_training: Whether there is data to train on.
    """
    options: dict[str, Any] = {
        "multi_task": task,
        "multi_task_model": model,
        "optimizer": task.create_optimizer(
            params.trainer.optimizer_config,
            params.runtime,
            params.task.differential_privacy_config,
        ),
        "trainer_options": trainer_setup.train_options(params.trainer, params.runtime),
        "train_datasets": None if is_training else {},
        "runtime": params.runtime,
        "config": params.trainer,
    }
    if params.trainer.trainer_type == "interleaving":
        options["task_sampler"] = task_sampler.get_task_sampler(
            params.trainer.task_sampler, task.task_weights
        )
    return TRAINERS[params.trainer.trainer_type](**options)


class MultiTaskRunner(experiment_runner.ExperimentRunner):
    """Trains and evaluates several tasks."""

    def __init__(
        self,
        distribution_strategy: tf.distribute.Strategy,
        task: multitask.MultiTask,
        mode: str,
        params: configs.MultiTaskExperimentConfig,
        model_dir: str | None,
        options: run_options.RunOptions = run_options.DEFAULTS,
        *,
        model: keras.Model | base_model.MultiTaskBaseModel | None = None,
        best_ckpt_exporter_creator: ExporterCreator | None = None,
    ) -> None:
        """Builds the parts.

        Args:
            distribution_strategy: Strategy in whose scope the optimizer is created.
            task: The tasks.
            mode: A `Mode` or its name.
            params: The experiment.
            model_dir: Directory of the run. None or empty keeps nothing.
            options: How it goes about its work.
            model: The model, made in the scope of the strategy. None lets `task` build it.
            best_ckpt_exporter_creator: Builds the exporter of the best checkpoint. None builds the
                one that `params` asks for.
        """
        self._given_model = model
        self._create_exporter = best_ckpt_exporter_creator
        self._multi_task = task
        super().__init__(distribution_strategy, task, mode, params, model_dir, options)

    @override
    def build_trainer(self, task: Any) -> multitask_trainer.MultiTaskBaseTrainer:
        model = self._given_model
        return build_trainer(
            self._params,
            task,
            task.build_multitask_model() if model is None else model,
            is_training=self._mode.is_training,
        )

    @override
    def build_evaluator(self) -> evaluator.MultiTaskEvaluator | None:
        if not self._evaluates:
            return None
        return _build_evaluator(
            self,
            self._multi_task.tasks,
            self._multi_task.task_eval_steps,
            self._create_exporter,
        )


class MultiEvalRunner(experiment_runner.ExperimentRunner):
    """Trains one task and evaluates several."""

    def __init__(
        self,
        distribution_strategy: tf.distribute.Strategy,
        task: base_task.Task,
        mode: str,
        params: configs.MultiEvalExperimentConfig,
        model_dir: str | None,
        options: run_options.RunOptions = run_options.DEFAULTS,
        *,
        eval_tasks: Mapping[str, base_task.Task],
        best_ckpt_exporter_creator: ExporterCreator | None = None,
        train_actions_factory: TrainActionsFactory | None = None,
        eval_actions_factory: EvalActionsFactory | None = None,
    ) -> None:
        """Builds the parts.

        Args:
            distribution_strategy: Strategy in whose scope model and optimizer are created.
            task: The task to train.
            mode: A `Mode` or its name.
            params: The experiment.
            model_dir: Directory of the run. None or empty keeps nothing.
            options: How it goes about its work.
            eval_tasks: The tasks to evaluate, by name.
            best_ckpt_exporter_creator: Builds the exporter of the best checkpoint. None builds the
                one that `params` asks for.
            train_actions_factory: Builds further train actions, from `params`, the trainer,
                `model_dir` and the checkpoint manager.
            eval_actions_factory: Builds further eval actions, from `params`, the evaluator and
                `model_dir`.
        """
        self._train_actions_factory = train_actions_factory
        self._eval_actions_factory = eval_actions_factory
        self._eval_tasks = dict(eval_tasks)
        self._create_exporter = best_ckpt_exporter_creator
        super().__init__(distribution_strategy, task, mode, params, model_dir, options)

    @override
    def build_trainer(self, task: base_task.Task) -> base_trainer.Trainer:
        return trainer_factory.create_trainer(
            self._params, task, train=self._mode.is_training, evaluate=False
        )

    @override
    def _build_train_actions(self) -> list[actions.Action]:
        built = super()._build_train_actions()
        if self._train_actions_factory is not None:
            built += self._train_actions_factory(
                self._params, self.trainer, self.model_dir, self.checkpoint_manager
            )
        return built

    @override
    def _build_eval_actions(self) -> list[actions.Action]:
        built = super()._build_eval_actions()
        if self._eval_actions_factory is not None:
            built += self._eval_actions_factory(self._params, self.evaluator, self.model_dir)
        return built

    @override
    def build_evaluator(self) -> evaluator.MultiTaskEvaluator | None:
        if not self._evaluates:
            return None
        params: Any = self._params
        steps = {routine.name: routine.eval_steps for routine in params.eval_tasks}
        return _build_evaluator(self, self._eval_tasks, steps, self._create_exporter)


def _build_evaluator(
    runner: experiment_runner.ExperimentRunner,
    tasks: Mapping[str, base_task.Task],
    eval_steps: Mapping[str, int | None],
    create_exporter: ExporterCreator | None,
) -> evaluator.MultiTaskEvaluator:
    params = runner.params
    built = evaluator.MultiTaskEvaluator(
        tasks,
        runner.trainer.model,
        global_step=runner.trainer.global_step,
        eval_steps=eval_steps,
        checkpoint_exporter=(
            create_exporter(params, runner.model_dir)
            if create_exporter is not None
            else runner.build_best_checkpoint_exporter()
        ),
        options=trainer_setup.eval_options(params.trainer, params.runtime),
        checkpoint=runner.trainer.checkpoint,
        runtime=params.runtime,
        average=runner.trainer.average,
    )
    built.check_evaluation_ends(params.trainer.validation_steps)
    return built
