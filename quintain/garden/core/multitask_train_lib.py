"""Drivers of multi-task training and of multi-task evaluation."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain.core import base_task
from quintain.core import base_trainer as base_trainer_lib
from quintain.core.multitask import base_model, base_trainer, configs, multitask
from quintain.distribute import runtime_environment
from quintain.orbit.utils import summary_manager as summary_manager_lib
from quintain.run import multitask_runner, run_mode, run_options

TRAINERS = multitask_runner.TRAINERS
"""Trainers by `trainer.trainer_type`."""

TrainActionsFactoryType = multitask_runner.TrainActionsFactory
EvalActionsFactoryType = multitask_runner.EvalActionsFactory


def run_experiment(
    *,
    distribution_strategy: tf.distribute.Strategy,
    task: multitask.MultiTask,
    model: keras.Model | base_model.MultiTaskBaseModel,
    mode: str,
    params: configs.MultiTaskExperimentConfig,
    model_dir: str | None,
    run_post_eval: bool = False,
    trainer: base_trainer.MultiTaskBaseTrainer | None = None,
    eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
    best_ckpt_exporter_creator: multitask_runner.ExporterCreator | None = None,
    **options: Any,
) -> Any:
    """Trains and evaluates several tasks as a config says.

    The modes, checkpoints, records and actions are those of `quintain.run.train_lib`.

    Args:
        distribution_strategy: Strategy to train under.
        task: The tasks.
        model: The model of all tasks, made in the scope of the strategy. None lets `task` build it.
        mode: Name of the mode.
        params: The experiment.
        model_dir: Directory of the run. None keeps nothing.
        run_post_eval: Whether to evaluate once more at the end, and to return the result.
        trainer: A trainer to use instead of the one `params` describes.
        eval_summary_manager: Writes evaluation summaries elsewhere than to files.
        best_ckpt_exporter_creator: Builds the exporter of the best checkpoint from `params` and
            `model_dir`. None builds the one that `params` asks for.
        **options: Others of `RunOptions`, such as `reporter` and `train_actions`.

    Returns:
        The model; with `run_post_eval`, the model and the metrics of the last evaluation.

    Raises:
        ConfigError: If mode and parameters can't work.
        CheckpointError: If there is no checkpoint to evaluate, or it does not fit the model.
        Interrupted: If an interruption was requested; the run can be resumed.
    """
    with run_mode.run_scope(params, mode, model_dir, distribution_strategy):
        runtime_environment.set_seed(params.runtime)
        runner = multitask_runner.MultiTaskRunner(
            distribution_strategy,
            task,
            mode,
            params,
            model_dir,
            run_options.RunOptions(
                run_post_eval=run_post_eval,
                trainer=trainer,
                eval_summary_manager=eval_summary_manager,
                **options,
            ),
            model=model,
            best_ckpt_exporter_creator=best_ckpt_exporter_creator,
        )
        trained, logs = runner.run()
    return (trained, logs) if run_post_eval else trained


def get_trainer(
    distribution_strategy: tf.distribute.Strategy,
    params: configs.MultiTaskExperimentConfig,
    task: multitask.MultiTask,
    model: keras.Model | base_model.MultiTaskBaseModel,
) -> base_trainer.MultiTaskBaseTrainer:
    """Builds the trainer of several tasks that a config describes, in the scope of the strategy."""
    with distribution_strategy.scope():
        return multitask_runner.build_trainer(params, task, model)


def run_experiment_with_multitask_eval(
    *,
    distribution_strategy: tf.distribute.Strategy,
    train_task: base_task.Task,
    eval_tasks: Sequence[base_task.Task] | Mapping[str, base_task.Task],
    mode: str,
    params: configs.MultiEvalExperimentConfig,
    model_dir: str | None,
    run_post_eval: bool = False,
    save_summary: bool = True,
    trainer: base_trainer_lib.Trainer | None = None,
    eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
    best_ckpt_exporter_creator: multitask_runner.ExporterCreator | None = None,
    train_actions_factory: TrainActionsFactoryType | None = None,
    eval_actions_factory: EvalActionsFactoryType | None = None,
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """Trains one task, and evaluates several.

    Args:
        distribution_strategy: Strategy to train under.
        train_task: The task to train.
        eval_tasks: The tasks to evaluate, which go by their own names, or a mapping that names
            them. Their evaluation takes `eval_steps` of the routine of that name in
            `params.eval_tasks`.
        mode: Name of the mode.
        params: The experiment.
        model_dir: Directory of the run. None keeps nothing.
        run_post_eval: Whether to evaluate once more at the end, and to return the result.
        save_summary: Whether to write TensorBoard summaries.
        trainer: A trainer to use instead of the one `params` describes.
        eval_summary_manager: Writes evaluation summaries elsewhere than to files.
        best_ckpt_exporter_creator: Builds the exporter of the best checkpoint from `params` and
            `model_dir`. None builds the one that `params` asks for.
        train_actions_factory: Builds further train actions from `params`, the trainer, `model_dir`
            and the checkpoint manager.
        eval_actions_factory: Builds further eval actions from `params`, the evaluator and
            `model_dir`.
        **options: Others of `RunOptions`, such as `reporter` and `train_actions`.

    Returns:
        The model, and the metrics of the last evaluation with `run_post_eval`, else an empty
        mapping.

    Raises:
        ConfigError: If mode and parameters can't work.
        CheckpointError: If there is no checkpoint to evaluate, or it does not fit the model.
        Interrupted: If an interruption was requested; the run can be resumed.
    """
    named = eval_tasks if isinstance(eval_tasks, Mapping) else {t.name: t for t in eval_tasks}
    with run_mode.run_scope(params, mode, model_dir, distribution_strategy):
        runtime_environment.set_seed(params.runtime)
        runner = multitask_runner.MultiEvalRunner(
            distribution_strategy,
            train_task,
            mode,
            params,
            model_dir,
            run_options.RunOptions(
                run_post_eval=run_post_eval,
                save_summary=save_summary,
                trainer=trainer,
                eval_summary_manager=eval_summary_manager,
                **options,
            ),
            eval_tasks=named,
            best_ckpt_exporter_creator=best_ckpt_exporter_creator,
            train_actions_factory=train_actions_factory,
            eval_actions_factory=eval_actions_factory,
        )
        model, logs = runner.run()
    return model, (logs if run_post_eval else {})
