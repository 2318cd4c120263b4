"""`MultiTask`: several tasks that train one model."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_fit
from quintain.core import base_task, task_factory
from quintain.core.multitask import base_model, configs
from quintain.core.steps import task_checks
from quintain.optimization.configs import optimization_config
from quintain.settings import config_definitions as cfg

OptimizationConfig = optimization_config.OptimizationConfig
RuntimeConfig = cfg.RuntimeConfig
DifferentialPrivacyConfig = cfg.DifferentialPrivacyConfig

TOTAL_LOSS = "total_loss"
"""Key of the weighted sum of the tasks' losses."""


class MultiTask(tf.Module, metaclass=abc.ABCMeta):
    """Holds tasks, their weights, and how they are trained together."""

    def __init__(
        self,
        tasks: Mapping[str, base_task.Task] | Sequence[base_task.Task],
        task_weights: Mapping[str, float] | None = None,
        task_eval_steps: Mapping[str, int | None] | None = None,
        name: str | None = None,
        *,
        init_checkpoint: str = "",
        init_exclude: Sequence[str] = (),
    ) -> None:
        """Stores the tasks.

        Args:
            tasks: The tasks by name, or a list of them, which go by their own names.
            task_weights: Weight of every task; 1 where there is none. It weights the losses in
                joint training, and the choice among tasks where they take turns.
            task_eval_steps: Batches of an evaluation of each task, where the task has a number of
                its own.
            name: Name of the whole.
            init_checkpoint: Checkpoint whose weights start a fresh run.
            init_exclude: Patterns of variables that stay new beside it.

        Raises:
            ConfigError: If `tasks` is something else, two tasks have the same name, a weight is for
                none of them, or a task asks for differential privacy.
        """
        super().__init__(name=name)
        self._tasks = name_tasks(tasks, "tasks")
        for task_name in configs.RESERVED_NAMES:
            if task_name in self._tasks:
                raise errors.ConfigError(
                    f"tasks: {task_name!r} can't be a task's name; logs use it."
                )
        for task_name, task in self._tasks.items():
            if getattr(task.task_config, "differential_privacy_config", None) is not None:
                raise errors.ConfigError(
                    f"tasks[{task_name!r}].task_config.differential_privacy_config: several tasks "
                    "can't be trained together with differential privacy. Train them one by one."
                )
        self.task_eval_steps = check_names(task_eval_steps, self._tasks, "task_eval_steps")
        weights = check_names(task_weights, self._tasks, "task_weights")
        self._task_weights = {task_name: weights.get(task_name, 1.0) for task_name in self._tasks}
        self._init_checkpoint = init_checkpoint
        self._init_exclude = tuple(init_exclude)

    @classmethod
    def from_config(
        cls, config: configs.MultiTaskConfig, logging_dir: str | None = None
    ) -> "MultiTask":
        """Builds the tasks that a config describes.

        Args:
            config: The tasks.
            logging_dir: Directory for what the tasks write, usually the model directory.

        Raises:
            ConfigError: If tasks can't be told apart.
            RegistryError: If there is no task for a config.
        """
        config.validate()
        return cls(
            build_tasks(config.task_routines, logging_dir),
            task_weights={routine.name: routine.task_weight for routine in config.task_routines},
            task_eval_steps={routine.name: routine.eval_steps for routine in config.task_routines},
            init_checkpoint=config.init_checkpoint,
            init_exclude=config.init_exclude,
        )

    @property
    def tasks(self) -> dict[str, base_task.Task]:
        """The tasks, by name."""
        return self._tasks

    def task_weight(self, task_name: str) -> float:
        """Returns the weight of a task."""
        return self._task_weights[task_name]

    @property
    def task_weights(self) -> dict[str, float]:
        """Weight of every task, by name, in the order of `tasks`."""
        return self._task_weights

    @classmethod
    def create_optimizer(
        cls,
        optimizer_config: optimization_config.OptimizationConfig,
        runtime_config: cfg.RuntimeConfig | None = None,
        dp_config: cfg.DifferentialPrivacyConfig | None = None,
    ) -> keras.optimizers.Optimizer:
        """Creates the one optimizer of all tasks, as `Task.create_optimizer` does.

        Raises:
            ConfigError: With `dp_config`: an example of one task would be hidden by the noise of
                its own task only, and no single epsilon holds for all of them.
        """
        if dp_config is not None:
            raise errors.ConfigError(
                f"task.differential_privacy_config: got {dp_config!r}, but several tasks can't be "
                "trained together with differential privacy. Train them one by one."
            )
        return base_task.Task.create_optimizer(optimizer_config, runtime_config)

    def build_multitask_model(self) -> keras.Model | base_model.MultiTaskBaseModel:
        """Builds the model of all tasks. Called once, in the scope of the strategy.

        By default the tasks share one network, which the first task builds. A subclass may return a
        `MultiTaskBaseModel`, in which tasks have parts of their own.

        Raises:
            ConfigError: If the tasks describe different models.
        """
        (first, task), *others = self._tasks.items()
        for name, other in others:
            if other.task_config.model != task.task_config.model:
                raise errors.ConfigError(
                    f"task.task_routines: the tasks {first!r} and {name!r} describe different "
                    "models, so that they can't share one network. Override "
                    "`MultiTask.build_multitask_model`, or give them the same `task_config.model`."
                )
        model = task.build_model()
        task_checks.check_model(task, model)
        return model

    def initialize(self, model: keras.Model | base_model.MultiTaskBaseModel) -> None:
        """Gives a new run its initial weights.

        These are what `model.initialize` gives, then `init_checkpoint`, then the checkpoint that
        each task names for its own model.

        Raises:
            CheckpointError: If a checkpoint is missing or does not fit.
        """
        if isinstance(model, base_model.MultiTaskBaseModel):
            model.initialize()
        if self._init_checkpoint:
            checkpoint_fit.restore_newest(
                model, self._init_checkpoint, "task.init_checkpoint", self._init_exclude
            )
        for name, task in self._tasks.items():
            task.initialize(base_model.get_sub_model(model, name))

    def joint_train_step(
        self,
        task_inputs: Mapping[str, Any],
        multi_task_model: keras.Model | base_model.MultiTaskBaseModel,
        optimizer: keras.optimizers.Optimizer,
        task_metrics: Mapping[str, Any],
        **kwargs: Any,
    ) -> dict[str, tf.Tensor]:
        """Minimises the weighted sum of the losses of all tasks, on one batch of each.

        Losses that models add themselves count with the task in whose forward pass they arise. The
        regularisation of weights that tasks share counts once, with the first of these tasks.

        Returns:
            Loss of every task on this replica, `[]` float32, and their weighted sum, `total_loss`.
        """
        losses: dict[str, tf.Tensor] = {}
        regularised: set[int] = set()
        with tf.GradientTape() as tape:
            total_loss = tf.zeros([], tf.float32)
            for name, task in self._tasks.items():
                model = base_model.get_sub_model(multi_task_model, name)
                features, labels = task.split_inputs(task_inputs[name])
                outputs = model(features, training=True)
                aux_losses = _take_aux_losses(model, regularised)
                loss = task.compute_loss(labels, outputs, model, aux_losses)
                weight = task.weigh_replica(labels)
                losses[name] = tf.cast(loss, tf.float32)
                if weight is not None:
                    losses[name] *= tf.cast(weight, tf.float32)
                total_loss += self.task_weight(name) * losses[name]
                task.update_metrics(task_metrics[name], labels, outputs, model, **kwargs)
            replicas = tf.distribute.get_strategy().num_replicas_in_sync
            scaled_loss = optimizer.scale_loss(total_loss / replicas)
        variables = multi_task_model.trainable_variables
        gradients = tape.gradient(scaled_loss, [variable.value for variable in variables])
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return {**losses, TOTAL_LOSS: total_loss}


def build_tasks(
    routines: Sequence[configs.TaskRoutine], logging_dir: str | None = None
) -> dict[str, base_task.Task]:
    """Builds the tasks of several routines, by their names."""
    return {
        routine.name: task_factory.get_task(
            routine.task_config, logging_dir=logging_dir, name=routine.name
        )
        for routine in routines
        if routine.task_config is not None
    }


def name_tasks(tasks: Any, argument: str) -> dict[str, base_task.Task]:
    """Returns tasks by the names of a mapping, or by their own.

    Raises:
        ConfigError: If it is neither a mapping nor a list, or two tasks have the same name.
    """
    if isinstance(tasks, Mapping):
        return dict(tasks)
    if not isinstance(tasks, list | tuple):
        raise errors.ConfigError(
            f"{argument}: got {tasks!r}, expected a mapping from names to tasks or a list of tasks."
        )
    named: dict[str, base_task.Task] = {}
    for task in tasks:
        if task.name in named:
            raise errors.ConfigError(
                f"{argument}: two tasks have the name {task.name!r}; give them different names."
            )
        named[task.name] = task
    return named


def check_names(
    values: Mapping[str, Any] | None, tasks: Mapping[str, Any], argument: str
) -> dict[str, Any]:
    """Returns what is given for each of several tasks.

    Raises:
        ConfigError: If something is given for none of them.
    """
    for name in values or ():
        if name not in tasks:
            raise errors.ConfigError(
                f"{argument}: got a value for {name!r}, which is none of the tasks: "
                f"{', '.join(tasks)}.{errors.suggest(name, list(tasks))}"
            )
    return dict(values or {})


def _take_aux_losses(model: keras.Model, regularised: set[int]) -> list[tf.Tensor]:
    """Returns the losses of a model's last call, and of weights not regularised before."""
    losses = list(model.losses)
    weights = [v for v in model.trainable_variables if v.regularizer is not None]
    taken = losses[: len(losses) - len(weights)]
    for variable, loss in zip(weights, losses[len(losses) - len(weights) :], strict=True):
        if id(variable) not in regularised:
            regularised.add(id(variable))
            taken.append(loss)
    return taken
