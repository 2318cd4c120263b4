"""Actions after every training loop and every evaluation, as a config asks for them."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors, lazy_modules, orbit
from quintain.checkpoints import cluster_checkpoints, evaluation_log
from quintain.config import gin_io
from quintain.core.loop import stateful_trainer
from quintain.files import file_paths
from quintain.optimization import ema, optimizer_wrapper
from quintain.orbit import cluster
from quintain.run import history
from quintain.run.events import prepared_action
from quintain.settings import config_definitions as cfg

_WHEN: Final = "when"

Action = Callable[[Any], Any]

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    find_names=lambda: dict.fromkeys(
        ("RecoveryAction", "RecoveryCondition"), "quintain.run.events.recovery"
    ),
)

logger = logging.getLogger(__name__)

EMA_DIRECTORY: Final = "ema_checkpoints"
EMA_NAME: Final = "average_weights"


class EMACheckpointing:
    """Eval action that saves a checkpoint in which the weights are their averages.

    The checkpoints are `ema_checkpoints/average_weights-STEP` below a directory. The weights are
    back in their place afterwards, also if a checkpoint can't be written.
    """

    def __init__(
        self,
        export_dir: str,
        optimizer: keras.optimizers.Optimizer,
        checkpoint: tf.train.Checkpoint,
        max_to_keep: int = 1,
    ) -> None:
        """Stores what is saved where.

        Args:
            export_dir: Directory below which `ema_checkpoints` is.
            optimizer: An `ExponentialMovingAverage`, or one that wraps it.
            checkpoint: What to save.
            max_to_keep: Newest checkpoints to keep; 0 keeps all.

        Raises:
            ValueError: If the optimizer averages no weights.
        """
        average = optimizer_wrapper.find_wrapper(optimizer, ema.ExponentialMovingAverage)
        if average is None:
            raise ValueError(
                "Optimizer has to be instance of optimization.ExponentialMovingAverage for "
                f"EMACheckpointing, but got {optimizer!r}."
            )
        self._average = average
        self._checkpoint_manager = cluster_checkpoints.ClusterCheckpointManager(
            tf.distribute.get_strategy(),
            checkpoint,
            file_paths.join(export_dir, EMA_DIRECTORY),
            max_to_keep,
            checkpoint_name=EMA_NAME,
            enable_async=False,
        )

    def __call__(self, output: Mapping[str, Any]) -> None:
        """Saves the averages under the number of updates."""
        del output
        number = int(tf.convert_to_tensor(self._average.iterations))
        with self._average.averaged():
            self._checkpoint_manager.save(checkpoint_number=number, check_interval=False)


class PruningAction:
    """Placeholder of the train action of a library that does not run here; it can't be created."""

    def __init__(
        self, export_dir: str, model: keras.Model, optimizer: keras.optimizers.Optimizer
    ) -> None:
        """Refuses.

        Raises:
            ConfigError: Always, with the reason.
        """
        del export_dir, model, optimizer
        raise errors.ConfigError(
            "task.pruning: pruning needs the package tensorflow_model_optimization, which works on "
            "Keras 2 models only; this package trains Keras 3 models. Leave task.pruning unset."
        )


class RecordTraining(prepared_action.PreparedAction):
    """Writes the output of every loop to the run's `TrainingLog`."""

    def __init__(self, trainer: stateful_trainer.StatefulTrainer, log: history.TrainingLog) -> None:
        self._trainer = trainer
        self._log = log

    def find_time(self) -> float:
        """Returns when the newest loop was recorded, or the present time if none was."""
        return time.time() if self._log.last_time is None else self._log.last_time

    @override
    def begin(self) -> None:
        """Drops what was recorded after the step that was restored."""
        self._log.drop_after(int(self._trainer.global_step.numpy()))

    @override
    def __call__(self, output: Mapping[str, Any]) -> None:
        self._log.record(int(self._trainer.global_step.numpy()), output)


class RecordEvaluation:
    """Writes every evaluation to the run's `EvaluationLog`."""

    def __init__(
        self,
        trainer: stateful_trainer.StatefulTrainer,
        log: evaluation_log.EvaluationLog,
        *,
        drop_later: bool = True,
    ) -> None:
        """Stores whose evaluations are recorded, and where.

        Args:
            trainer: The trainer.
            log: The record.
            drop_later: Whether the record of later steps is void, as in a training.
        """
        self._trainer = trainer
        self._log = log
        self._drop_later = drop_later

    def __call__(self, output: Mapping[str, Any]) -> None:
        """Records `output` under the current step."""
        step = int(self._trainer.global_step.numpy())
        self._log.record(step, output, drop_later=self._drop_later)


@gin_io.configurable
def get_train_actions(
    params: cfg.ExperimentConfig,
    trainer: stateful_trainer.StatefulTrainer,
    model_dir: str | None = None,
    checkpoint_manager: Any = None,
    report: Callable[[str], None] = logger.warning,
) -> list[Action]:
    """Returns the actions that `params` asks for after every training loop.

    Args:
        params: The experiment.
        trainer: Whose loops they follow.
        model_dir: Directory of the run; None keeps nothing.
        checkpoint_manager: Where checkpoints are; None if there are none.
        report: Is told what the actions do to the run.

    Raises:
        ConfigError: If the task asks for pruning, which is not possible.
    """
    actions: list[Action] = []
    if model_dir and cluster.is_chief(trainer.strategy):
        actions.append(RecordTraining(trainer, history.TrainingLog(model_dir)))
    if getattr(params.task, "pruning", None):
        PruningAction(model_dir or "", trainer.model, trainer.optimizer)
    if params.trainer.recovery_max_trials >= 0:
        from quintain.run.events import recovery  # noqa: PLC0415 - only trainings do

        actions.append(
            recovery.LossRecovery(trainer, params.trainer, checkpoint_manager, report=report)
        )
    resolver = trainer.strategy.cluster_resolver
    if (
        params.trainer.preemption_on_demand_checkpoint
        and resolver is not None
        and isinstance(checkpoint_manager, tf.train.CheckpointManager)
    ):
        # For a manager of TensorFlow's. With ours the cluster's notices request an interruption.
        actions.append(
            orbit.actions.SaveCheckpointIfPreempted(
                resolver, checkpoint_manager, trainer.global_step, keep_running_after_save=True
            )
        )
    offered = {
        "params": params,
        "trainer": trainer,
        "model_dir": model_dir,
        "checkpoint_manager": checkpoint_manager,
    }
    return [*actions, *_build_configured(params, "train", offered)]


@gin_io.configurable
def get_eval_actions(
    params: cfg.ExperimentConfig,
    trainer: stateful_trainer.StatefulTrainer,
    model_dir: str | None = None,
    log: evaluation_log.EvaluationLog | None = None,
    is_training: bool = True,
) -> list[Action]:
    """Returns the actions that `params` asks for after every evaluation.

    Args:
        params: The experiment.
        trainer: Whose evaluations they follow.
        model_dir: Directory of the run; None keeps nothing.
        log: Record of the evaluations, or None.
        is_training: Whether the run trains; then its checkpoints may hold averaged weights, too.
    """
    actions: list[Action] = []
    if log is not None:
        actions.append(RecordEvaluation(trainer, log, drop_later=is_training))
    average = optimizer_wrapper.find_wrapper(trainer.optimizer, ema.ExponentialMovingAverage)
    if average is not None and model_dir and is_training:
        actions.append(
            EMACheckpointing(
                model_dir, trainer.optimizer, trainer.checkpoint, params.trainer.max_to_keep
            )
        )
    offered = {"params": params, "trainer": trainer, "model_dir": model_dir}
    return [*actions, *_build_configured(params, "eval", offered)]


def _build_configured(
    params: cfg.ExperimentConfig, when: Literal["train", "eval"], offered: Mapping[str, Any]
) -> list[Any]:
    """Builds the actions that `trainer.actions` names.

    Each is a mapping: `type` is `module:Class`, `when` says whether it is called with the output of
    each training loop (`train`, the default) or of each evaluation (`eval`), and all else are
    arguments of the class.

    Args:
        params: The experiment.
        when: Which of them.
        offered: Arguments that a class gets if it has parameters of these names.

    Raises:
        ConfigError: If there is no such class, or it does not take these arguments.
    """
    if not params.trainer.actions:
        return []
    from quintain.loggers import metric_logger  # noqa: PLC0415 - few runs name actions

    built = []
    for index, config in enumerate(params.trainer.actions):
        path = f"trainer.actions[{index}]"
        chosen = config.get(_WHEN, "train")
        if chosen not in ("train", "eval"):
            raise errors.ConfigError(
                f"{path}.{_WHEN}: got {errors.show(chosen)}, expected 'train' or 'eval'."
            )
        if chosen != when:
            continue
        arguments = {name: value for name, value in config.items() if name != _WHEN}
        action = metric_logger.build_named(arguments, path, {}, offered)
        if not callable(action):
            raise errors.ConfigError(
                f"{path}.{metric_logger.TYPE}: {config[metric_logger.TYPE]!r} can't be called with "
                "the output of a loop; an action has a method __call__(self, output)."
            )
        built.append(action)
    return built
