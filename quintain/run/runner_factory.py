"""Kinds of runs that a config describes: one task, several, or one that grows in stages.

What only one kind needs is imported when a config asks for it.
"""

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from quintain import errors
from quintain.core import task_factory
from quintain.core.loop import stateful_trainer
from quintain.core.multitask import configs
from quintain.core.progressive import configs as progressive_configs
from quintain.core.reports import shown_metrics
from quintain.input.diagnosis import data_faults
from quintain.process import user_errors
from quintain.run import experiment_runner, run_options
from quintain.settings import config_definitions as cfg

if TYPE_CHECKING:
    from quintain.core.multitask import multitask
    from quintain.core.progressive import policies


def build_runner(
    strategy: tf.distribute.Strategy,
    mode: str,
    params: cfg.ExperimentConfig,
    model_dir: str,
    options: run_options.RunOptions,
) -> experiment_runner.ExperimentRunner:
    """Builds the tasks that a config describes, and what runs them.

    Args:
        strategy: Strategy in whose scope everything is built.
        mode: Name of the mode.
        params: The experiment.
        model_dir: Directory of the run.
        options: How the run goes about its work.

    Raises:
        QuintainError: If the run can't start.
    """
    is_staged = isinstance(params.trainer, progressive_configs.ProgressiveTrainerConfig)
    is_multiple = isinstance(params, configs.MultiTaskExperimentConfig)
    if params.trainer.parametrization.type == "mup" and (is_staged or is_multiple):
        raise errors.ConfigError(
            "trainer.parametrization.type: got 'mup' for several tasks or for stages, which have "
            "no rule for it. Train one task, or leave it out."
        )
    has_several = is_multiple or isinstance(params, configs.MultiEvalExperimentConfig)
    if params.runtime.elastic and (is_staged or has_several):
        raise errors.ConfigError(
            "runtime.elastic: got True for several tasks or for stages, expected one task without "
            "stages. Leave it out, or train one task."
        )
    if isinstance(params, configs.MultiTaskExperimentConfig):
        from quintain.run import multitask_runner  # noqa: PLC0415 - see above

        with strategy.scope():
            tasks = build_multi_task(params.task, model_dir)
        return multitask_runner.MultiTaskRunner(strategy, tasks, mode, params, model_dir, options)
    if isinstance(params.trainer, progressive_configs.ProgressiveTrainerConfig):
        from quintain.run import progressive_runner  # noqa: PLC0415 - see above

        with strategy.scope():
            policy = build_policy(params, model_dir)
        return progressive_runner.ProgressiveRunner(
            strategy, policy, mode, params, model_dir, options
        )
    with strategy.scope():
        task = task_factory.get_task(params.task, logging_dir=model_dir)
    if isinstance(params, configs.MultiEvalExperimentConfig):
        from quintain.core.multitask import multitask  # noqa: PLC0415 - see above
        from quintain.run import multitask_runner  # noqa: PLC0415 - see above

        with strategy.scope():
            eval_tasks = multitask.build_tasks(params.eval_tasks, model_dir)
        return multitask_runner.MultiEvalRunner(
            strategy, task, mode, params, model_dir, options, eval_tasks=eval_tasks
        )
    return experiment_runner.ExperimentRunner(strategy, task, mode, params, model_dir, options)


def list_tasks(params: cfg.ExperimentConfig) -> list[cfg.TaskConfig]:
    """Returns the configs of all tasks of an experiment."""
    routines: list[configs.TaskRoutine] = []
    if isinstance(params.task, configs.MultiTaskConfig):
        routines += params.task.task_routines
    if isinstance(params, configs.MultiEvalExperimentConfig):
        routines += params.eval_tasks
    tasks = [part.task_config for part in routines if part.task_config is not None]
    return tasks if isinstance(params.task, configs.MultiTaskConfig) else [params.task, *tasks]


def merge_metric_labels(params: cfg.ExperimentConfig) -> dict[str, shown_metrics.MetricLabel]:
    """Returns how the metrics of all tasks of an experiment are shown, the most important first."""
    labels = dict(shown_metrics.LOSSES)
    for task in reversed(list_tasks(params)):
        labels |= task_factory.find_task_cls(task).metric_labels
    return labels


def list_next_commands(params: cfg.ExperimentConfig, model_dir: str) -> dict[str, str]:
    """Returns what the tasks of an experiment suggest to do with a run, the first task's first.

    Args:
        params: The experiment.
        model_dir: Directory of the run, quoted for a shell.
    """
    commands: dict[str, str] = {}
    for task in list_tasks(params):
        own = task_factory.find_task_cls(task).list_next_commands(task, model_dir)
        commands |= {name: text for name, text in own.items() if name not in commands}
    return commands


def task_errors_explained(
    params: cfg.ExperimentConfig,
    find_trainer: Callable[[], stateful_trainer.StatefulTrainer | None],
) -> contextlib.AbstractContextManager[Any]:
    """Returns a context whose errors name the task's class, and the file that can't be read.

    Args:
        params: The experiment.
        find_trainer: Returns the trainer, or None before there is one.
    """
    tasks = list_tasks(params)

    def find_data() -> list[Any]:
        trainer = find_trainer()
        datasets = [getattr(trainer, name, None) for name in ("train_dataset", "eval_dataset")]
        return [
            *(part for task in tasks for part in (task.train_data, task.validation_data)),
            *datasets,
        ]

    stack = contextlib.ExitStack()
    stack.enter_context(user_errors.noting(lambda: map(task_factory.find_task_cls, tasks)))
    stack.enter_context(data_faults.data_errors_explained(find_data))
    return stack


def build_multi_task(config: configs.MultiTaskConfig, model_dir: str) -> "multitask.MultiTask":
    """Builds the tasks of a config: by the builder bound to its class, or a plain `MultiTask`.

    Args:
        config: The tasks.
        model_dir: Directory of the run.
    """
    from quintain.core.multitask import multitask  # noqa: PLC0415 - see above

    if config.BUILDER is not None:
        return config.BUILDER(config, logging_dir=model_dir)
    return multitask.MultiTask.from_config(config, logging_dir=model_dir)


def build_policy(params: cfg.ExperimentConfig, model_dir: str) -> "policies.ProgressivePolicy":
    """Builds the policy of a config: its task, if that is one, or one of the stages it lists.

    Args:
        params: The experiment.
        model_dir: Directory of the run.
    """
    from quintain.core.progressive import policies, staged_policy  # noqa: PLC0415 - see above

    task_cls = task_factory.get_task_cls(type(params.task))
    if issubclass(task_cls, policies.ProgressivePolicy):
        policy: Any = task_factory.get_task(params.task, logging_dir=model_dir)
        return policy
    return staged_policy.StagedPolicy(params, model_dir)
