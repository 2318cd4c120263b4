"""`OrbitExperimentRunner`: the experiment runner with the hooks by which programs know it."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from typing_extensions import override

from quintain import orbit
from quintain.checkpoints import best_checkpoint
from quintain.core import base_task, base_trainer, trainer_factory
from quintain.orbit.utils import summary_manager as summary_manager_lib
from quintain.run import experiment_runner, run_options
from quintain.settings import config_definitions as cfg


class OrbitExperimentRunner(experiment_runner.ExperimentRunner):
    """Runs one experiment in one mode; a subclass replaces parts by overriding `_build_...`.

    Example:
        class WithOwnManager(OrbitExperimentRunner):
            def _maybe_build_checkpoint_manager(self):
                return MyCheckpointManager(self.trainer.checkpoint, self.model_dir)

        WithOwnManager(strategy, task, "train", params, model_dir).run()

    Another controller is put in place by the argument `controller_cls`.
    """

    def __init__(
        self,
        distribution_strategy: tf.distribute.Strategy | None,
        task: base_task.Task,
        mode: str,
        params: cfg.ExperimentConfig,
        model_dir: str | None,
        run_post_eval: bool = False,
        save_summary: bool = True,
        train_actions: Sequence[orbit.Action] | None = None,
        eval_actions: Sequence[orbit.Action] | None = None,
        trainer: base_trainer.Trainer | None = None,
        controller_cls: Callable[..., orbit.Controller] = orbit.Controller,
        summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
        eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
        enable_async_checkpointing: bool = True,
        **options: Any,
    ) -> None:
        """Builds the parts.

        Args:
            distribution_strategy: Strategy to train under; None is the one in force.
            task: The task.
            mode: Name of the mode.
            params: The experiment.
            model_dir: Directory of the run.
            run_post_eval: Whether to evaluate once more at the end.
            save_summary: Whether to write TensorBoard summaries.
            train_actions: Called with the output of each training loop.
            eval_actions: Called with the output of each evaluation.
            trainer: A trainer to use instead of the one `params` describes.
            controller_cls: Class or function that builds the controller.
            summary_manager: Writes training summaries elsewhere than to files.
            eval_summary_manager: Writes evaluation summaries elsewhere than to files.
            enable_async_checkpointing: Whether checkpoints are written in the background.
            **options: Others of `RunOptions`, such as `reporter`.
        """
        super().__init__(
            distribution_strategy or tf.distribute.get_strategy(),
            task,
            mode,
            params,
            model_dir,
            run_options.RunOptions(
                run_post_eval=run_post_eval,
                save_summary=save_summary,
                train_actions=train_actions,
                eval_actions=eval_actions,
                trainer=trainer,
                controller_cls=controller_cls,
                summary_manager=summary_manager,
                eval_summary_manager=eval_summary_manager,
                enable_async_checkpointing=enable_async_checkpointing,
                **options,
            ),
        )

    @property
    def strategy(self) -> tf.distribute.Strategy:
        """The strategy."""
        return self._strategy

    @override
    def build_trainer(self, task: base_task.Task) -> base_trainer.Trainer:
        return self._build_trainer(task, train=self._mode.is_training, evaluate=self._evaluates)

    @override
    def build_best_checkpoint_exporter(self) -> best_checkpoint.CheckpointExporter | None:
        return self._build_best_checkpoint_exporter()

    @override
    def build_checkpoint_manager(self) -> tf.train.CheckpointManager | None:
        return self._maybe_build_checkpoint_manager()

    def _build_trainer(
        self, task: base_task.Task, train: bool, evaluate: bool
    ) -> base_trainer.Trainer:
        """Builds the trainer. Override it for another one."""
        return trainer_factory.create_trainer(
            self._params,
            task,
            train=train,
            evaluate=evaluate,
            checkpoint_exporter=self.build_best_checkpoint_exporter(),
        )

    def _build_best_checkpoint_exporter(self) -> best_checkpoint.CheckpointExporter | None:
        """Builds the exporter of the best checkpoint, or None. Override it for another one."""
        return super().build_best_checkpoint_exporter()

    def _maybe_build_checkpoint_manager(self) -> tf.train.CheckpointManager | None:
        """Builds the checkpoint manager, or None. Override it for another one."""
        return super().build_checkpoint_manager()
