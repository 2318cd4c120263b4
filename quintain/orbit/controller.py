"""Controller of the outer loop: trains, evaluates, saves and writes summaries."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from quintain import errors
from quintain.files import file_io, literal_paths
from quintain.orbit import (
    checkpoint_schedule,
    checkpoint_watch,
    finite_data,
    loop_schedule,
    runner,
    standard_runner,
    values,
)
from quintain.orbit import global_step as global_step_lib
from quintain.orbit import interruption as interruption_lib
from quintain.orbit import reporter as reporter_lib
from quintain.orbit.step_timer import StepTimer as StepTimer
from quintain.orbit.utils import summary_manager as summary_manager_lib

_logger = logging.getLogger(__name__)

Action = Callable[[Any], Any]
"""Takes the output of a train loop or of an evaluation; what it returns is ignored."""


class Controller:
    """Trains in loops of `steps_per_loop` steps and does everything else between two loops.

    After every loop it runs the train actions, reports, writes summaries, and saves a checkpoint if
    one is due. Outer loops: `train`, `evaluate`, `train_and_evaluate`, `evaluate_continuously`.

    A run that is killed and started again does what one does that never stopped: evaluations are
    at multiples of their interval, checkpoint intervals count from the restored checkpoint, and a
    loop that was cut short is finished first. Attributes have the names of the arguments.
    """

    def __init__(
        self,
        *,
        global_step: tf.Variable,
        trainer: runner.AbstractTrainer | None = None,
        evaluator: runner.AbstractEvaluator | None = None,
        strategy: tf.distribute.Strategy | None = None,
        train_actions: Iterable[Action] | None = None,
        eval_actions: Iterable[Action] | None = None,
        steps_per_loop: loop_schedule.StepsPerLoop | None = None,
        checkpoint_manager: tf.train.CheckpointManager | None = None,
        enable_async_checkpointing: bool = False,
        summary_interval: int | None = None,
        summary_dir: str | None = None,
        eval_summary_dir: str | None = None,
        summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
        eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
        reporter: reporter_lib.Reporter | None = None,
        interruption: interruption_lib.Interruption | None = None,
        loop_position: tf.Variable | None = None,
        evaluated: Callable[[int], bool] | None = None,
        stopping: Callable[[], str | None] | None = None,
        loop_boundaries: Sequence[int] = (),
    ) -> None:
        """Checks its arguments, and restores the latest checkpoint if there is one.

        Args:
            global_step: `[]` integer `tf.Variable`, as `create_global_step` makes it; or a Keras
                optimizer's `iterations`, if every step updates the weights once.
            trainer: Needed by `train` and `train_and_evaluate`.
            evaluator: Needed by all but `train`.
            strategy: None takes the strategy in whose scope the caller is.
            train_actions: Called with the output of every train loop, before it is reported.
            eval_actions: Called with the output of every evaluation.
            steps_per_loop: Steps between two returns to Python, at least 1; or a function of the
                global step. Needed with a trainer.
            checkpoint_manager: None neither saves nor restores.
            enable_async_checkpointing: Whether training goes on while a checkpoint is written. A
                `tf.train.CheckpointManager` writes at once all the same.
            summary_interval: Steps between summaries that the train step itself writes with
                `tf.summary`; a multiple of `steps_per_loop`. None writes none of these.
            summary_dir: Directory for the outputs of train loops. None writes none.
            eval_summary_dir: Directory for the outputs of evaluations; by default `summary_dir`.
            summary_manager: Takes the place of `summary_dir`.
            eval_summary_manager: Takes the place of `eval_summary_dir`.
            reporter: Is told of all events. None writes them to the log.
            interruption: An entered `Interruption`, to stop promptly when asked to. None does not.
            loop_position: `[]` integer variable: the steps that an interrupted loop had left, else
                0. Saved in the checkpoint, it makes a restarted run finish that loop, and so
                average its outputs over the same steps. None forgets.
            evaluated: Tells whether the evaluation at a global step was completed by an earlier
                run. If not, `train_and_evaluate` does it before it trains on. None takes all
                evaluations before the restored step for completed.
            stopping: Asked after every evaluation of `train_and_evaluate`, after the eval actions.
                If it returns a text, training ends there, as if its last step were reached, and the
                text is reported. None trains to the last step.
            loop_boundaries: Global steps that no train loop crosses: one ends there and the next
                begins, so that something can be done in between.

        Raises:
            ValueError: If there is neither trainer nor evaluator, or an argument is out of range.
        """
        if trainer is None and evaluator is None:
            raise ValueError("`trainer` and `evaluator`: got None for both, expected at least one.")
        if trainer is not None:
            if steps_per_loop is None:
                raise ValueError("`steps_per_loop`: got None, but it is needed with a `trainer`.")
            self._schedule = loop_schedule.LoopSchedule(
                steps_per_loop, loop_position, loop_boundaries
            )
            if summary_interval is not None:
                loop_schedule.check_summary_interval(summary_interval, steps_per_loop)
        global_step = global_step_lib.to_variable(global_step)
        self.trainer = trainer
        self.evaluator = evaluator
        self.strategy = strategy or tf.distribute.get_strategy()
        self.global_step = global_step
        self.checkpoint_manager = checkpoint_manager
        self.train_actions = tuple(train_actions or ())
        self.eval_actions = tuple(eval_actions or ())
        self.summary_interval = summary_interval
        self._reporter = reporter or reporter_lib.LogReporter()
        self._interruption = interruption
        self._evaluated = evaluated
        self._stopping = stopping
        self.summary_manager = summary_manager or summary_manager_lib.SummaryManager(
            summary_dir, global_step=global_step
        )
        self.eval_summary_manager = eval_summary_manager or self.summary_manager
        if eval_summary_manager is None and eval_summary_dir not in {None, summary_dir}:
            self.eval_summary_manager = summary_manager_lib.SummaryManager(
                eval_summary_dir, global_step=global_step
            )
        for part in (trainer, evaluator):
            if part is not None:
                part.interruption = interruption
        tf.summary.experimental.set_step(global_step)
        self._checkpoints: checkpoint_schedule.CheckpointSchedule | None = None
        if checkpoint_manager is not None:
            self._checkpoints = checkpoint_schedule.CheckpointSchedule(
                checkpoint_manager,
                enable_async=enable_async_checkpointing,
                reporter=self._reporter,
            )
            self.restore_checkpoint()

    def compile_train_loop(self) -> None:
        """Compiles the loop of a `StandardTrainer` as `train` will run it, without a step."""
        if isinstance(self.trainer, standard_runner.StandardTrainer):
            with self.strategy.scope(), self._recorded_summaries():
                self.trainer.compile_train_loop()

    def train(self, steps: int, checkpoint_at_completion: bool = True) -> None:
        """Trains until the global step is `steps`, or the training data ends.

        Args:
            steps: Global step to reach.
            checkpoint_at_completion: Whether to save a checkpoint at the end in any case.

        Raises:
            ValueError: If there is no trainer.
            DataError: If there is no training data at all.
            Interrupted: If the process was asked to stop. A checkpoint was saved.
        """
        trainer = self._require_trainer("train")
        with self._training(steps):
            has_more_data = True
            while has_more_data and self._current_step() < steps:
                has_more_data = self._train_until(trainer, steps, target_steps=steps)
            if checkpoint_at_completion:
                self._maybe_save_checkpoint(check_interval=False)
            self._sync_on_async_checkpointing()

    def evaluate(self, steps: int = -1) -> dict[str, Any]:
        """Evaluates once, at the current global step.

        Args:
            steps: Number of evaluation steps. -1 evaluates until the data ends.

        Returns:
            The evaluator's output, with NumPy values; and `steps_per_second` if `steps` is given.

        Raises:
            ValueError: If there is no evaluator, or `steps` is neither positive nor -1.
            Interrupted: If the process was asked to stop before the evaluation was complete.
        """
        evaluator = self._require_evaluator("evaluate")
        if steps < 1 and steps != -1:
            raise ValueError(
                f"`steps`: got {steps!r}, expected an integer >= 1, or -1 for all data."
            )
        self._stop_if_requested()
        step = self._current_step()
        self._reporter.on_eval_begin(step, steps)
        start_secs = time.perf_counter()
        output = self._run_evaluator(evaluator, steps)
        secs = time.perf_counter() - start_secs
        for action in self.eval_actions:
            action(output)
        output = dict(values.to_host(output))
        if steps > 0 and secs > 0:
            output["steps_per_second"] = steps / secs
        self._reporter.on_eval_end(step, output, secs)
        self.eval_summary_manager.write_summaries(output)
        self.eval_summary_manager.flush()
        return output

    def train_and_evaluate(
        self, train_steps: int, eval_steps: int = -1, eval_interval: int | None = None
    ) -> dict[str, Any] | None:
        """Trains until the global step is `train_steps`, and evaluates on the way and at the end.

        Evaluations are at the multiples of `eval_interval`, and at the end. A controller that was
        given `evaluated` saves a checkpoint before each of them (only before the last if the
        checkpoint manager has no interval); others save when the interval is over and at the end.

        Args:
            train_steps: Global step to reach.
            eval_steps: Number of evaluation steps. -1 evaluates until the data ends.
            eval_interval: Train steps between evaluations. None or 0: only at the end.

        Returns:
            The output of the last evaluation. None if there was nothing left to do.

        Raises:
            ValueError: If trainer or evaluator is missing, or `eval_interval` is negative.
            DataError: If there is no training data at all.
            Interrupted: If the process was asked to stop. A checkpoint was saved.
        """
        trainer = self._require_trainer("train_and_evaluate")
        self._require_evaluator("train_and_evaluate")
        eval_interval = loop_schedule.parse_eval_interval(eval_interval)
        with self._training(train_steps):
            step = self._current_step()
            output = None
            if self._is_evaluation_missing(step, train_steps, eval_interval):
                output = self.evaluate(eval_steps)
            is_ended = step >= train_steps or (output is not None and self._is_stopped_early())
            while not is_ended:
                start_step = step
                boundary = loop_schedule.next_evaluation_step(step, train_steps, eval_interval)
                has_more_data = self._train_until(trainer, boundary, target_steps=train_steps)
                step = self._current_step()
                if step < start_step and has_more_data:
                    continue  # an action went back to an earlier step; train on from there
                is_ended = step >= train_steps or not has_more_data
                self._save_before_evaluation(is_ended)
                was_evaluated = self._evaluated is not None and self._evaluated(step)
                if step > start_step or (output is None and not was_evaluated):
                    output = self.evaluate(eval_steps)
                    is_ended = is_ended or self._is_stopped_early()
            self._maybe_save_checkpoint(check_interval=False)
            self._sync_on_async_checkpointing()
        return output

    def evaluate_continuously(
        self,
        steps: int = -1,
        timeout: float | None = None,
        timeout_fn: Callable[[], bool] | None = None,
        *,
        every_checkpoint: bool = False,
        is_finished: Callable[[], bool] | None = None,
    ) -> dict[str, Any] | None:
        """Evaluates the checkpoints that another process writes, as they come.

        Args:
            steps: Number of evaluation steps. -1 evaluates until the data ends.
            timeout: Seconds to wait for another checkpoint. None waits without limit.
            timeout_fn: Called after every time-out; True ends the loop. None ends it at the first
                time-out.
            every_checkpoint: Whether to evaluate all checkpoints in their order, beginning with
                those that are there. Otherwise only the latest one is looked at: checkpoints may be
                skipped while an evaluation runs.
            is_finished: Called after every evaluation; True ends the loop, unless there is another
                checkpoint.

        Returns:
            The output of the last evaluation. None if there was no checkpoint.

        Raises:
            ValueError: If there is no evaluator or no checkpoint manager.
            Interrupted: If the process was asked to stop.
        """
        self._require_evaluator("evaluate_continuously")
        if self.checkpoint_manager is None:
            raise ValueError(_missing("checkpoint_manager", "evaluate_continuously"))
        output = None
        for path in checkpoint_watch.iterate_new_checkpoints(
            self.checkpoint_manager.directory,
            timeout_secs=timeout,
            timeout_fn=timeout_fn,
            wait=self._wait,
            every=every_checkpoint,
            is_finished=is_finished,
        ):
            if self._restore_if_there(path):
                output = self.evaluate(steps)
        self._stop_if_requested()
        return output

    def restore_checkpoint(self, checkpoint_path: str | None = None) -> str | None:
        """Restores a checkpoint.

        Args:
            checkpoint_path: What to restore. None takes the latest checkpoint of the manager; if
                there is none, the manager's `init_fn` is run.

        Returns:
            The path that was restored, or None.

        Raises:
            ValueError: If there is no checkpoint manager.
        """
        if self.checkpoint_manager is None or self._checkpoints is None:
            raise ValueError(_missing("checkpoint_manager", "restore_checkpoint"))
        with self.strategy.scope():
            if checkpoint_path is not None:
                self.checkpoint_manager.checkpoint.restore(
                    literal_paths.checkpoint(checkpoint_path)
                )
            else:
                checkpoint_path = self.checkpoint_manager.restore_or_initialize()
        if checkpoint_path is not None:
            self._checkpoints.restored(self._current_step(), checkpoint_path)
        return checkpoint_path

    def resume_checkpoint_interval(self, saved_step: int) -> None:
        """Lets the interval between checkpoints count from a step before the restored one.

        Args:
            saved_step: Step of the newest checkpoint, where the state is newer.
        """
        if self._checkpoints is not None:
            self._checkpoints.resume(saved_step)

    def _restore_if_there(self, path: str) -> bool:
        """Restores a checkpoint that its writer may delete at any time; returns whether it did."""
        try:
            self.restore_checkpoint(path)
        except (tf.errors.OpError, ValueError):
            if file_io.exists(f"{path}.index"):
                raise
            self._reporter.on_message(f"The checkpoint {path} was deleted before it was evaluated.")
            return False
        return True

    def save_checkpoint(self) -> bool:
        """Saves a checkpoint unless the step has one; returns whether it did.

        Raises:
            ValueError: If there is no checkpoint manager.
        """
        if self._checkpoints is None:
            raise ValueError(_missing("checkpoint_manager", "save_checkpoint"))
        return self._maybe_save_checkpoint(check_interval=False)

    def _maybe_save_checkpoint(self, check_interval: bool = True) -> bool:
        """Saves if there is a manager, and if its interval is over or does not count."""
        if self._checkpoints is None:
            return False
        save = self._checkpoints.maybe_save if check_interval else self._checkpoints.save
        return save(self._current_step())

    @property
    def steps_per_loop(self) -> int:
        """Steps of an ordinary loop that starts at the current global step (with a trainer)."""
        return self._schedule.steps_per_loop(self._current_step())

    def _train_until(
        self, trainer: runner.AbstractTrainer, steps: int, *, target_steps: int
    ) -> bool:
        """Runs loops until the global step is `steps`; returns False if the data ended before.

        It returns early when an action sets the step back to before the one at the beginning.
        """
        first_step = step = self._current_step()
        while first_step <= step < steps:
            self._stop_if_requested()
            num_steps = self._schedule.next_loop_steps(step, steps)
            self._train_n_steps(trainer, num_steps, target_steps)
            step = self._current_step()
            if trainer.train_data_exhausted:
                self._reporter.on_message(
                    f"The training data ended at step {step} of {target_steps}."
                )
                return False
            self._maybe_save_checkpoint()
        return True

    def _train_n_steps(
        self, trainer: runner.AbstractTrainer, num_steps: int, target_steps: int
    ) -> None:
        start_step = self._current_step()
        start_secs = time.perf_counter()
        with self._recorded_summaries():
            output = trainer.train(tf.constant(num_steps, dtype=tf.int32))
        step = self._current_step()
        secs = time.perf_counter() - start_secs
        num_done = step - start_step

        is_short = num_done < num_steps
        if is_short and trainer.train_data_exhausted:
            if step == 0:
                raise errors.DataError(finite_data.NO_DATA)
        elif is_short and self._is_stop_requested():
            self._schedule.set_steps_left(num_steps - num_done)
            self._stop_if_requested()
        elif num_done != num_steps:
            _logger.warning(
                "`trainer.train` was to do %d steps, but `global_step` went from %d to %d. The "
                "train step has to add 1 to the controller's `global_step`.",
                num_steps,
                start_step,
                step,
            )
        self._schedule.set_steps_left(0)
        if num_done:
            self._publish_train_output(output or {}, step, target_steps, num_done, secs)

    def _publish_train_output(
        self, output: Any, step: int, target_steps: int, num_steps: int, secs: float
    ) -> None:
        for action in self.train_actions:
            action(output)
        if self._current_step() < step:
            return  # an action went back to an earlier step; what this loop did is void
        output = dict(values.to_host(output))
        self._reporter.on_train_loop(step, target_steps, output, secs, num_steps)
        if secs > 0:
            output["steps_per_second"] = num_steps / secs
        self.summary_manager.write_summaries(output)
        self.summary_manager.flush()

    def _run_evaluator(self, evaluator: runner.AbstractEvaluator, steps: int) -> Any:
        evaluator.eval_step_listener = lambda done: self._reporter.on_eval_step(done, steps)
        try:
            with self.eval_summary_manager.summary_writer().as_default():
                return evaluator.evaluate(tf.constant(steps, dtype=tf.int32)) or {}
        except interruption_lib.EvaluationInterrupted:
            self._stop_if_requested()
            raise
        finally:
            evaluator.eval_step_listener = None

    @contextlib.contextmanager
    def _training(self, target_steps: int) -> Iterator[None]:
        step = self._current_step()
        self._reporter.on_train_begin(step, target_steps)
        if self._checkpoints is not None:
            self._checkpoints.begin(step)
        try:
            yield
        finally:
            self._reporter.on_train_end(self._current_step())

    @contextlib.contextmanager
    def _recorded_summaries(self) -> Iterator[None]:
        """Lets `tf.summary` calls in a train step write when `summary_interval` says so."""
        interval = self.summary_interval
        # False is known when the graph is built; it then has no summaries in it.
        is_due = False if interval is None else lambda: tf.equal(self.global_step % interval, 0)
        with self.summary_manager.summary_writer().as_default(), tf.summary.record_if(is_due):
            yield

    def _is_evaluation_missing(
        self, step: int, train_steps: int, eval_interval: int | None
    ) -> bool:
        """Returns True if an earlier run saved this step and stopped before its evaluation."""
        if step == 0 or self._evaluated is None or self._schedule.steps_left:
            return False
        is_due = loop_schedule.is_evaluation_step(step, train_steps, eval_interval)
        return is_due and not self._evaluated(step)

    def _is_stopped_early(self) -> bool:
        reason = None if self._stopping is None else self._stopping()
        if reason is not None:
            self._reporter.on_message(reason)
        return reason is not None

    def _save_before_evaluation(self, is_last: bool) -> None:
        has_interval = self._checkpoints is not None and self._checkpoints.has_interval
        if self._evaluated is not None and (is_last or has_interval):
            self._maybe_save_checkpoint(check_interval=False)

    def _sync_on_async_checkpointing(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.sync()

    def _is_stop_requested(self) -> bool:
        return interruption_lib.is_stop_agreed(self._interruption, self.strategy)

    def _stop_if_requested(self) -> None:
        """Leaves the outer loop by `Interrupted` if asked to, with a checkpoint of this step."""
        if self._interruption is None or not self._is_stop_requested():
            return
        if self.trainer is not None:
            self._maybe_save_checkpoint(check_interval=False)
        self._sync_on_async_checkpointing()
        raise interruption_lib.Interrupted(self._current_step(), str(self._interruption.reason))

    def _wait(self, secs: float) -> bool:
        if self._interruption is not None:
            return self._interruption.wait(secs)
        time.sleep(secs)
        return False

    def _current_step(self) -> int:
        return int(self.global_step.numpy())

    def _require_trainer(self, method: str) -> runner.AbstractTrainer:
        if self.trainer is None:
            raise ValueError(_missing("trainer", method))
        return self.trainer

    def _require_evaluator(self, method: str) -> runner.AbstractEvaluator:
        if self.evaluator is None:
            raise ValueError(_missing("evaluator", method))
        return self.evaluator


def _missing(argument: str, method: str) -> str:
    return (
        f"`Controller.{method}` needs `{argument}`: got None. Pass `{argument}=...` when the "
        "controller is created."
    )
