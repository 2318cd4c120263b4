"""Loss recovery: detects a loss that blew up, and goes back to a good checkpoint."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import checkpoints, evaluation_log, recovery_state
from quintain.core.loop import stateful_trainer
from quintain.files import literal_paths
from quintain.optimization.schedules import learning_rate_scale
from quintain.orbit import cluster
from quintain.run.events import prepared_action
from quintain.settings import config_definitions as cfg

MAX_SHOWN: Final = 8
_LOSS_NAMES: Final = ("training_loss", "total_loss")

logger = logging.getLogger(__name__)


class RecoveryCondition:
    """Holds when the mean loss of a loop is not finite, or above a bound.

    Every blow-up counts. When there were more than `recovery_max_trials`, it raises instead.

    Example:
        >>> step = tf.Variable(10, dtype=tf.int64)
        >>> condition = RecoveryCondition(step, loss_upper_bound=5.0, recovery_max_trials=1)
        >>> condition({"training_loss": 4.0}), condition({"training_loss": 6.0})
        (False, True)
    """

    def __init__(
        self,
        global_step: tf.Variable,
        loss_upper_bound: float | None = None,
        recovery_begin_steps: int = 0,
        recovery_max_trials: int = 3,
        *,
        loss_names: Sequence[str] = _LOSS_NAMES,
    ) -> None:
        """Stores what counts as a blow-up.

        Args:
            global_step: `[]` integer variable.
            loss_upper_bound: Largest mean loss of a loop that is not a blow-up. None for no bound.
            recovery_begin_steps: Step from which the bound holds. A loss that is not finite is a
                blow-up at any step.
            recovery_max_trials: Blow-ups after which the next one raises.
            loss_names: Names of the losses in the output of a loop, also below the names of tasks.
        """
        self.recover_counter = 0
        self.global_step = global_step
        self.loss_upper_bound = loss_upper_bound
        self.recovery_begin_steps = recovery_begin_steps
        self.recovery_max_trials = recovery_max_trials
        self._loss_names = tuple(loss_names)

    def __call__(self, outputs: Mapping[str, Any]) -> bool:
        """Returns whether the loss blew up, and counts it.

        Raises:
            TrainingDivergedError: If it did so more than `recovery_max_trials` times.
        """
        cause = self.find_cause(outputs)
        if cause is None:
            return False
        self.recover_counter += 1
        if self.recover_counter > self.recovery_max_trials:
            raise errors.TrainingDivergedError(
                f"{cause} by step {int(self.global_step.numpy())}. It happened "
                f"{self.recover_counter} times; at most {self.recovery_max_trials} are recovered "
                "from (trainer.recovery_max_trials)."
            )
        return True

    def find_cause(self, outputs: Mapping[str, Any]) -> str | None:
        """Returns what is wrong with the loss, for people, or None if it is good."""
        step = int(self.global_step.numpy())
        for name, value in flatten_outputs(outputs):
            if name.rpartition("|")[2] not in self._loss_names:
                continue
            text = "The training loss" + ("" if "|" not in name else f" {name!r}")
            loss = float(np.max(value))
            if not np.all(np.isfinite(value)):
                return f"{text} became {loss}"
            bound = self.loss_upper_bound
            if bound is not None and step >= self.recovery_begin_steps and loss > bound:
                return f"{text} became {loss:g}, above trainer.loss_upper_bound={bound:g},"
        return None


class RecoveryAction:
    """Goes back to the newest checkpoint.

    Together with `RecoveryCondition` in an `orbit.actions.ConditionalAction` this is the plain form
    of `LossRecovery`: it brings back what the checkpoint manager saves, and nothing else.
    """

    def __init__(self, checkpoint_manager: tf.train.CheckpointManager) -> None:
        self.checkpoint_manager = checkpoint_manager

    def __call__(self, output: Mapping[str, Any]) -> None:
        """Waits for a checkpoint that is being written, and restores the newest."""
        del output
        self.checkpoint_manager.sync()
        path = self.checkpoint_manager.restore_or_initialize()
        logger.warning("Went back to %s after a blow-up of the loss.", path or "the start")


class LossRecovery(prepared_action.PreparedAction):
    """Train action that looks at the loss of every loop and recovers when it blows up.

    A recovery restores weights, optimizer, step, random state and position in the data from the
    newest checkpoint whose values are finite. After that, the batches of the loop that blew up are
    left out, and the learning rate is lowered, as the config says. What was done is kept in the
    checkpoints and in `recovery.json`, so that a restarted run neither forgets how often it
    recovered nor uses those batches again.

    It runs before the loop's checkpoint is saved, so that a blown-up state is not saved.
    """

    def __init__(
        self,
        trainer: stateful_trainer.StatefulTrainer,
        config: cfg.TrainerConfig,
        checkpoint_manager: checkpoints.CheckpointManager | None,
        *,
        report: Callable[[str], None] = logger.warning,
    ) -> None:
        """Stores what is watched; call `begin` before the first loop.

        Args:
            trainer: Whose loss is watched.
            config: What counts as a blow-up, and how to recover.
            checkpoint_manager: Where to go back to. None can't recover: a blow-up raises.
            report: Is told of every recovery.
        """
        self._trainer = trainer
        self._config = config
        self._manager = checkpoint_manager
        self._report = report
        self._max_trials = config.recovery_max_trials if checkpoint_manager is not None else 0
        self._condition = RecoveryCondition(
            trainer.global_step,
            config.loss_upper_bound,
            config.recovery_begin_steps,
            loss_names=(*_LOSS_NAMES, trainer.train_loss.name),
        )
        self._last_good_step: int | None = None

    @override
    def begin(self) -> None:
        """Takes up the recoveries of earlier starts, and saves a checkpoint to go back to."""
        trainer, manager = self._trainer, self._manager
        state = trainer.loop_record.state
        former_factor = state.learning_rate_factor
        if manager is not None and manager.latest_checkpoint is not None:
            state.merge(recovery_state.load(manager.directory))
        elif manager is not None and cluster.is_chief(trainer.strategy):
            recovery_state.delete(manager.directory)
        if self._config.recovery_lr_factor != 1.0 or state.learning_rate_factor != 1.0:
            learning_rate_scale.prepare(trainer.optimizer)
        if state.num_trials:
            learning_rate_scale.scale(
                trainer.optimizer, factor=state.learning_rate_factor, previous=former_factor
            )
        self._skip_due_batches()
        if manager is not None and self._max_trials > 0:
            is_new = cluster.from_chief(trainer.strategy, manager.latest_checkpoint is None)
            if is_new:
                manager.save(checkpoint_number=self._step(), check_interval=False)

    @override
    def __call__(self, output: Mapping[str, Any]) -> None:
        """Looks at the loss of a loop, and recovers if need be.

        Raises:
            TrainingDivergedError: If it blew up and there are no trials left, or no good
                checkpoint.
            CheckpointError: If a checkpoint that is being written can't be.
        """
        cause = self._condition.find_cause(output)
        if cause is None:
            self._last_good_step = self._step()
            self._skip_due_batches()
            return
        diagnosis = self._diagnose(cause, output)
        if self._manager is None or self._trainer.loop_record.state.num_trials >= self._max_trials:
            raise errors.TrainingDivergedError(self._explain_end(diagnosis))
        self._recover(self._manager, cause, diagnosis)

    def _recover(self, manager: checkpoints.CheckpointManager, cause: str, diagnosis: str) -> None:
        trainer = self._trainer
        step, loop_start = self._step(), trainer.loop_record.start_step
        is_skipping = self._config.recovery_skip_batches
        skipped = trainer.loop_record.count_loop_batches() if is_skipping else {}
        known = recovery_state.RecoveryState()
        known.merge(trainer.loop_record.state)
        path = self._restore_newest_good(manager, diagnosis)
        state = trainer.loop_record.state
        former_factor = state.learning_rate_factor
        state.merge(known)
        trial = recovery_state.Attempt(step, loop_start, cause, self._step(), skipped)
        state.add(trial, self._config.recovery_lr_factor)
        learning_rate_scale.scale(
            trainer.optimizer, factor=state.learning_rate_factor, previous=former_factor
        )
        if cluster.is_chief(trainer.strategy):
            recovery_state.save(state, manager.directory)
        self._last_good_step = self._step()
        trainer.train_data_exhausted = False
        self._report(
            f"{diagnosis} Recovery {state.num_trials} of {self._max_trials}: went back to "
            f"{path}{_describe_measures(trial, state.learning_rate_factor)}."
        )
        self._skip_due_batches()

    def _restore_newest_good(self, manager: checkpoints.CheckpointManager, diagnosis: str) -> str:
        """Restores the newest checkpoint whose variables are finite, and deletes newer ones."""
        manager.sync()
        candidates = list(reversed(manager.checkpoints))
        for index, path in enumerate(candidates):
            if damage := checkpoints.find_damage(path):
                logger.warning("The checkpoint %s is damaged (%s).", path, damage)
                continue
            _restore(manager, path)
            if not find_non_finite_variables(self._trainer):
                cluster.barrier(self._trainer.strategy)
                if index and cluster.is_chief(self._trainer.strategy):
                    _discard(manager, candidates[:index])
                return path
            logger.warning("The checkpoint %s holds values that are not finite.", path)
        raise errors.TrainingDivergedError(
            f"{diagnosis} No checkpoint in {manager.directory!r} is good; there is nothing to go "
            "back to."
        )

    def _skip_due_batches(self) -> None:
        """Draws and drops the batches that made the loss blow up, if it is their turn."""
        for trial in self._trainer.loop_record.state.pop_due_skips(self._step()):
            self._trainer.loop_record.skip(trial.skipped_batches)
            logger.info(
                "Left out %d batches after step %d, with which the loss blew up before.",
                sum(trial.skipped_batches.values()),
                trial.loop_start,
            )

    def _diagnose(self, cause: str, output: Mapping[str, Any]) -> str:
        start, step = self._trainer.loop_record.start_step, self._step()
        metrics = [
            name for name, value in flatten_outputs(output) if not np.all(np.isfinite(value))
        ]
        variables = find_non_finite_variables(self._trainer)
        last_good = start if self._last_good_step is None else self._last_good_step
        return (
            f"{cause} in the steps {start + 1} to {step}; the last good step is {last_good}. "
            f"Metrics that are not finite: {_join(metrics)}. "
            f"Variables that are not finite: {_join(variables)}."
        )

    def _explain_end(self, diagnosis: str) -> str:
        """Returns the text of the error when nothing more is tried."""
        trials = self._trainer.loop_record.state.trials
        lines = [
            f"  {index}. by step {trial.step}: {trial.cause}; went back to step "
            f"{trial.restored_step}{_describe_measures(trial)}"
            for index, trial in enumerate(trials, 1)
        ]
        history = "\n".join([f"\nRecovered {len(trials)} times before:", *lines]) if trials else ""
        newest = None
        if self._manager is not None:
            self._manager.sync()
            newest = self._manager.latest_checkpoint
        kept = f"The newest checkpoint is {newest!r}, from before. " if newest else ""
        return (
            f"{diagnosis}{history}\n{kept}Lower the learning rate, clip gradients "
            "(global_clipnorm of the optimizer) or look at the data. trainer.recovery_max_trials="
            f"{self._config.recovery_max_trials} is how often a run goes back to a good checkpoint "
            "by itself; -1 switches this check off."
        )

    def _step(self) -> int:
        return int(self._trainer.global_step.numpy())


def find_non_finite_variables(trainer: stateful_trainer.StatefulTrainer) -> list[str]:
    """Returns the paths of the variables that training has spoilt.

    Weights and optimizer state must be finite. A variable that is not trained may well hold
    infinities, for example a mask, but no NaN.
    """
    optimizer = [] if trainer.optimizer is None else list(trainer.optimizer.variables)
    trained = {id(variable) for variable in [*trainer.model.trainable_variables, *optimizer]}
    found: dict[str, None] = {}
    for variable in [*trainer.model.variables, *optimizer]:
        value = tf.convert_to_tensor(variable)
        if not value.dtype.is_floating:
            continue
        is_trained = id(variable) in trained
        is_good = tf.math.is_finite(value) if is_trained else ~tf.math.is_nan(value)
        if not bool(tf.reduce_all(is_good)):
            found[variable.path] = None
    return list(found)


def flatten_outputs(outputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields `(name, array)` of all numbers in an output; `a|b` is the number `b` below `a`."""
    for name, value in evaluation_log.flatten(outputs).items():
        array = np.asarray(value)
        if array.size and np.issubdtype(array.dtype, np.number):
            yield name, array


def _restore(manager: Any, path: str) -> None:
    """Restores a checkpoint of a manager of ours or of TensorFlow's."""
    if isinstance(manager, checkpoints.CheckpointManager):
        manager.restore(path)
    else:
        manager.checkpoint.read(literal_paths.checkpoint(path)).expect_partial()


def _discard(manager: Any, paths: Sequence[str]) -> None:
    """Deletes checkpoints of a manager of ours or of TensorFlow's."""
    if isinstance(manager, checkpoints.CheckpointManager):
        manager.discard(paths)
    else:
        for path in paths:
            checkpoints.delete_checkpoint(path)


def _describe_measures(trial: recovery_state.Attempt, factor: float = 1.0) -> str:
    text = ""
    if num_skipped := sum(trial.skipped_batches.values()):
        text += f", without the {num_skipped} batches after step {trial.loop_start}"
    return text if factor == 1.0 else f"{text}, with {factor:g} of the learning rate"


def _join(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_SHOWN]) or "none"
    more = len(names) - MAX_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
