"""Experiment runner: trainer, checkpoint manager and controller of one run."""

import contextlib
import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import keras
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import (
    auto_interval,
    checkpoints,
    cluster_checkpoints,
    evaluation_log,
    receipts,
)
from quintain.core import trainer_factory
from quintain.core.loop import stateful_trainer, trainer_setup
from quintain.core.steps import autograph
from quintain.files import file_paths
from quintain.orbit import cluster
from quintain.orbit import interruption as interruption_lib
from quintain.run import actions, run_environment, run_files, run_mode, run_options
from quintain.run.events import prepared_action
from quintain.settings import config_definitions as cfg

if TYPE_CHECKING:
    from quintain.checkpoints import best_checkpoint, memory_checkpoints
    from quintain.run.events import early_stopping, metric_sending, step_profile

logger = logging.getLogger(__name__)


class Evaluator(Protocol):
    """Evaluator of a run: its trainer, or something of its own."""

    @property
    def checkpoint_exporter(self) -> "best_checkpoint.CheckpointExporter | None":
        """Exporter of checkpoints by their evaluation, or None."""

    def evaluate(self, num_steps: tf.Tensor) -> orbit.runner.Output | None:
        """Evaluates `num_steps` batches; -1 evaluates all of the data."""

    def evaluate_one_batch(self) -> orbit.runner.Output:
        """Evaluates the first batch, to see what metrics there are."""


class ExperimentRunner:
    """Runs one experiment in one mode.

    Subclasses may override the `build_*` methods to put other parts in place.
    """

    def __init__(
        self,
        distribution_strategy: tf.distribute.Strategy,
        task: Any,
        mode: str,
        params: cfg.ExperimentConfig,
        model_dir: str | None,
        options: run_options.RunOptions = run_options.DEFAULTS,
    ) -> None:
        """Builds the parts; a run that can't succeed fails here, before a model is built.

        Args:
            distribution_strategy: Strategy in whose scope model and optimizer are created.
            task: The task; of subclasses, what they build their trainer of.
            mode: A `Mode` or its name.
            params: The experiment.
            model_dir: Directory of the run. None or empty keeps nothing.
            options: How it goes about its work.

        Raises:
            ConfigError: If the mode is unknown, or the mode and the parameters don't fit together.
            CheckpointError: If mode `eval` finds no checkpoint.
        """
        self._mode = run_mode.parse_mode(mode)
        if self._mode is run_mode.Mode.CONTINUOUS_TRAIN_AND_EVAL:
            raise errors.ConfigError(
                f"mode: got {mode!r}, which is not one run but many; call "
                "quintain.nlp.continuous_finetune_lib.run_continuous_finetune."
            )
        self._params = params
        self._options = options
        self._model_dir = model_dir or ""
        self._strategy = distribution_strategy
        self._task_name = getattr(task, "name", type(task).__name__)
        self._run_post_eval = options.run_post_eval or self._mode.has_post_eval
        self._reporter = options.reporter or orbit.LogReporter()
        run_mode.check_run(params, self._mode, self._model_dir)
        self._is_chief = cluster.is_chief(distribution_strategy)
        is_alone = cluster.num_workers(distribution_strategy) == 1
        if self._mode is run_mode.Mode.CONTINUOUS_EVAL and not is_alone:
            raise errors.ConfigError(
                "mode: got 'continuous_eval' on several workers, which would each wait for "
                "checkpoints of their own; run it as one process, without TF_CONFIG."
            )
        with distribution_strategy.scope():
            self._trainer = options.trainer or self.build_trainer(task)
            self._evaluator = self.build_evaluator()
        self._summary_manager = options.summary_manager
        self._memory = self._build_memory()
        if options.stand_by is not None:
            self._stand_by(options.stand_by)
        self._evaluation_log = (
            evaluation_log.EvaluationLog(self._model_dir) if self._model_dir else None
        )
        self._receipts: receipts.ReceiptWriter | None = None
        self._checkpoint_manager = self.build_checkpoint_manager()
        self._early_stopping = self._build_early_stopping()
        self._profile = self._build_profile()
        self._is_stopped_early = False
        self._history = (
            self._evaluation_log
            if self._evaluation_log is not None and self._is_chief
            else evaluation_log.EvaluationLog(None)
        )
        self._metric_sender: metric_sending.MetricSender | None = None
        rate = self._read_constant_rate()
        self._controller = self.build_controller()
        self._note_restored_memory()
        self._take_changed_rate(rate)

    def _build_memory(self) -> "memory_checkpoints.MemoryCheckpoints | None":
        """Builds what keeps the state of a run in memory, if it has a standby."""
        if self._options.memory is None or not self._mode.is_training:
            return None
        from quintain.checkpoints import memory_checkpoints  # noqa: PLC0415 - few runs have one

        return memory_checkpoints.MemoryCheckpoints(
            self._options.memory,
            self._trainer.checkpoint,
            self._model_dir,
            self._trainer.global_step,
        )

    def _stand_by(self, wait: Callable[[], None]) -> None:
        """Compiles the training loop, and waits before anything of the run's state is read."""
        early = orbit.Controller(
            strategy=self._strategy,
            trainer=self._trainer,
            global_step=self._trainer.global_step,
            steps_per_loop=self.get_steps_per_loop(),
            interruption=self._options.interruption,
            **self._get_summary_settings(),
        )
        early.compile_train_loop()
        self._summary_manager = early.summary_manager  # The graph writes to it.
        if self._memory is not None:
            self._memory.prepare()
        wait()

    def _get_summary_settings(self) -> dict[str, Any]:
        """Returns the arguments of a controller that say where summaries go, and when."""
        settings = {
            "summary_manager": self._summary_manager,
            "eval_summary_manager": self._options.eval_summary_manager,
        }
        if not (self._model_dir and self._options.save_summary and self._is_chief):
            return settings
        config = self._params.trainer
        return {
            **settings,
            "summary_dir": file_paths.join(self._model_dir, "train"),
            "eval_summary_dir": file_paths.join(self._model_dir, config.validation_summary_subdir),
            "summary_interval": config.summary_interval,
        }

    def _build_train_actions(self) -> list[actions.Action]:
        """Returns the train actions that the config asks for, then the caller's."""
        built: list[actions.Action] = []
        if self._mode.is_training:
            built += actions.get_train_actions(
                self._params,
                self._trainer,
                self._model_dir or None,
                self._checkpoint_manager,
                report=self._reporter.on_message,
            )
        if self._profile is not None:
            built.append(self._profile)
        if self._params.trainer.loggers and self._mode.is_training and self._is_chief:
            record = next((one for one in built if isinstance(one, actions.RecordTraining)), None)
            if record is not None:
                from quintain.run.events import metric_sending  # noqa: PLC0415 - few runs do

                self._metric_sender = metric_sending.MetricSender(
                    self._params,
                    self._model_dir,
                    self._trainer,
                    record.find_time,
                    self._reporter.on_message,
                    self._task_name,
                )
                built.append(self._metric_sender)
        kept = [] if self._memory is None else [self._memory]
        return [*built, *(self._options.train_actions or ()), *kept]

    def _build_eval_actions(self) -> list[actions.Action]:
        """Returns the eval actions that the config asks for, then the caller's."""
        built = actions.get_eval_actions(
            self._params,
            self._trainer,
            self._model_dir or None,
            self._history,
            is_training=self._mode.is_training,
        )
        if self._metric_sender is not None:
            built.append(self._metric_sender.send_evaluation)
        if self._memory is not None:
            built.append(self._memory.refresh)
        return [*built, *(self._options.eval_actions or ())]

    def _build_profile(self) -> "step_profile.ProfileSteps | None":
        """Returns what profiles steps, on the chief of a training that was asked to."""
        steps = self._options.profile
        if steps is None or not (self._mode.is_training and self._is_chief):
            return None
        from quintain.run.events import step_profile  # noqa: PLC0415 - few runs do

        return step_profile.ProfileSteps(
            steps, self._trainer.global_step, self._model_dir, self._reporter.on_message
        )

    def _build_early_stopping(self) -> "early_stopping.EarlyStopping | None":
        """Returns what ends the training early, if the config asks for it."""
        config = self._params.trainer.early_stopping
        if not config.metric:
            return None
        from quintain.run.events import early_stopping  # noqa: PLC0415 - few runs do

        return early_stopping.EarlyStopping(config)

    def _find_stop_reason(self) -> str | None:
        """Returns why training should end at the present step, the same on all workers."""
        reason = None
        if self._early_stopping is not None and self._is_chief:
            history = self._history.read(int(self._trainer.global_step.numpy()))
            reason = self._early_stopping.find_reason(history)
        if self._early_stopping is not None:
            reason = cluster.from_chief(self._strategy, reason)
        self._is_stopped_early = reason is not None
        return reason

    @property
    def params(self) -> cfg.ExperimentConfig:
        """The experiment."""
        return self._params

    @property
    def is_stopped_early(self) -> bool:
        """True if the training ended because its evaluations got no better."""
        return self._is_stopped_early

    @property
    def task_name(self) -> str:
        """Name of the task."""
        return self._task_name

    @property
    def model_dir(self) -> str:
        """Directory of the run; empty if nothing is kept."""
        return self._model_dir

    @property
    def trainer(self) -> stateful_trainer.StatefulTrainer:
        """The trainer."""
        return self._trainer

    @property
    def evaluator(self) -> Evaluator | None:
        """The evaluator: the trainer itself, unless a subclass builds something else."""
        return self._evaluator

    @property
    def checkpoint_manager(self) -> checkpoints.CheckpointManager | None:
        """The manager of the run's checkpoints, if they are kept."""
        return self._checkpoint_manager

    @property
    def controller(self) -> orbit.Controller:
        """The controller."""
        return self._controller

    @property
    def _evaluates(self) -> bool:
        """True if there will be an evaluation."""
        return self._mode is not run_mode.Mode.TRAIN or self._run_post_eval

    def build_trainer(self, task: Any) -> stateful_trainer.StatefulTrainer:
        """Builds the trainer with its model and optimizer, in the scope of the strategy."""
        return trainer_factory.create_trainer(
            self._params,
            task,
            train=self._mode.is_training,
            evaluate=self._evaluates,
            checkpoint_exporter=self.build_best_checkpoint_exporter(),
        )

    def build_evaluator(self) -> Evaluator | None:
        """Builds what evaluates, in the scope of the strategy. The trainer does it by default."""
        trainer: Any = self._trainer
        if self._evaluates:
            steps = self._params.trainer.validation_steps
            trainer_setup.check_evaluation_ends(trainer.eval_dataset, steps)
        return trainer

    def build_best_checkpoint_exporter(self) -> "best_checkpoint.CheckpointExporter | None":
        """Builds the exporter of the best checkpoint, if `params` asks for one."""
        if not self._params.trainer.best_checkpoint_export_subdir:
            return None
        from quintain.checkpoints import best_checkpoint  # noqa: PLC0415 - few runs do

        return best_checkpoint.maybe_create_best_ckpt_exporter(self._params, self._model_dir)

    def build_checkpoint_manager(self) -> checkpoints.CheckpointManager | None:
        """Builds the checkpoint manager of `model_dir`."""
        if not self._model_dir:
            return None
        if self._mode.is_training and self._is_chief:
            checkpoints.remove_incomplete(self._model_dir, run_files.WRITTEN_FILES)
        from quintain.run.proof import run_facts  # noqa: PLC0415 - only runs that are kept

        starts = run_environment.read_start_times(self._model_dir)
        interval: int | auto_interval.AutoInterval
        if self._params.trainer.checkpoint_interval != "auto":
            interval = self._params.trainer.checkpoint_interval
        elif cluster.num_workers(self._strategy) == 1:
            # A standby that goes on from memory needs no file.
            secs = auto_interval.find_secs_between(starts if self._memory is None else [])
            interval = auto_interval.AutoInterval(secs)
        else:
            interval = self._params.trainer.get_checkpoint_steps("a run of several workers")
        manager = cluster_checkpoints.ClusterCheckpointManager(
            self._strategy,
            self._trainer.checkpoint,
            self._model_dir,
            self._params.trainer.max_to_keep,
            step_counter=self._trainer.global_step,
            checkpoint_interval=interval,
            init_fn=self._trainer.initialize,
            enable_async=self._options.enable_async_checkpointing,
        )
        find_facts = functools.partial(run_facts.find, self._params, self._model_dir)
        self._receipts = receipts.ReceiptWriter(self._model_dir, find_facts)
        manager.write_receipts(self._receipts)
        if self._memory is not None:
            self._memory.expect_interruptions(starts)
            manager.prefer_memory(self._memory)
        self._share_files(manager)
        return manager

    def _share_files(self, manager: checkpoints.CheckpointManager) -> None:
        """Lets the best checkpoint share files with the newest, unless it holds another state."""
        exporter = None if self._evaluator is None else self._evaluator.checkpoint_exporter
        is_alone = cluster.num_workers(self._strategy) == 1
        has_links = is_alone and file_paths.is_local(self._model_dir)
        if exporter is None or not (self._mode.is_training and has_links):
            return
        from quintain.checkpoints import best_checkpoint  # noqa: PLC0415 - few runs export one

        if (
            isinstance(exporter, best_checkpoint.BestCheckpointExporter)
            and autograph.is_own(self._evaluator)  # A user's trainer may exchange the weights.
            and self._trainer.average is None
        ):
            exporter.share_files(manager)

    def _note_restored_memory(self) -> None:
        """Lets the interval of checkpoints go on, and tells of a state that came from memory."""
        manager, step = self._checkpoint_manager, int(self._trainer.global_step.numpy())
        if self._memory is not None and self._memory.is_restored and manager is not None:
            self._controller.resume_checkpoint_interval(manager.last_step or 0)
            self._reporter.on_message(f"Going on from step {step}, which was kept in memory.")

    def _read_constant_rate(self) -> float | None:
        """Returns the learning rate if it is a variable, which checkpoints hold."""
        rate = getattr(getattr(self._trainer, "optimizer", None), "_learning_rate", None)
        is_held = self._mode.is_training and isinstance(rate, keras.Variable)
        return float(keras.ops.convert_to_numpy(rate)) if is_held else None

    def _take_changed_rate(self, rate: float | None) -> None:
        """Puts a learning rate that the config changed in place of the checkpoint's."""
        restored = self._receipts and self._receipts.followed
        if rate is None or not restored:
            return
        trainer = restored.facts["config"].get("trainer", {})
        former = (trainer.get("optimizer_config") or {}).get("learning_rate")
        if former != self._params.trainer.optimizer_config.learning_rate.as_dict():
            self._trainer.optimizer.learning_rate = rate

    def get_steps_per_loop(self) -> int | Callable[[int], int]:
        """Returns the steps of a loop, or a function of the step at which the loop starts."""
        return self._params.trainer.steps_per_loop

    def build_controller(self) -> orbit.Controller:
        """Builds the controller, which restores the newest checkpoint or initialises the model."""
        options = self._options
        profile = options.profile
        return options.controller_cls(
            strategy=self._strategy,
            trainer=self._trainer if self._mode.is_training else None,
            evaluator=self._evaluator,
            global_step=self._trainer.global_step,
            steps_per_loop=self.get_steps_per_loop(),
            checkpoint_manager=self._checkpoint_manager,
            train_actions=self._build_train_actions(),
            eval_actions=self._build_eval_actions(),
            **self._get_summary_settings(),
            reporter=self._reporter,
            interruption=options.interruption,
            loop_position=self._trainer.loop_position,
            evaluated=None if self._evaluation_log is None else self._is_evaluated,
            **({} if self._early_stopping is None else {"stopping": self._find_stop_reason}),
            # On all workers alike, although only the chief profiles.
            **({} if profile is None else {"loop_boundaries": profile.boundaries}),
        )

    def run(self) -> tuple[keras.Model, dict[str, Any]]:
        """Runs the experiment.

        Returns:
            The model and the output of the last evaluation: in mode `train` without one, empty; in
            a run that was finished before, what is on record.

        Raises:
            Interrupted: If the run was asked to stop; a checkpoint is saved.
            QuintainError: If it can't go on; see the message.
        """
        config = self._params.trainer
        logger.info("Task %r starts in mode %r.", self._task_name, self._mode.value)
        ending = cluster.exit_barrier(self._strategy, orbit.Interrupted)
        sender = self._metric_sender
        sending = contextlib.nullcontext() if sender is None else sender.closing()
        with self._strategy.scope(), ending, sending:
            if self._mode is run_mode.Mode.CONTINUOUS_EVAL:
                logs = self._controller.evaluate_continuously(
                    steps=config.validation_steps,
                    timeout=config.continuous_eval_timeout,
                    every_checkpoint=True,
                    is_finished=lambda: int(self._trainer.global_step) >= config.train_steps,
                )
            elif self._mode is run_mode.Mode.EVAL:
                logs = self._controller.evaluate(steps=config.validation_steps)
            else:
                try:
                    logs = self._train()
                finally:
                    if self._profile is not None:
                        self._profile.close()
                    # Whoever goes on in this process must not meet a checkpoint half written.
                    if isinstance(self._checkpoint_manager, checkpoints.CheckpointManager):
                        self._checkpoint_manager.join()
                from quintain.run import model_stats  # noqa: PLC0415 - for the end of a training

                model_stats.log_size(self._trainer.model)
            if self._run_post_eval and self._mode.is_training:
                logs = self._controller.evaluate(steps=config.validation_steps)
        return self._trainer.model, dict(logs or {})

    def _is_evaluated(self, step: int) -> bool:
        log = self._evaluation_log
        is_evaluated: bool = cluster.from_chief(self._strategy, log is not None and log.has(step))
        return is_evaluated

    def _train(self) -> dict[str, Any] | None:
        config = self._params.trainer
        step = int(self._trainer.global_step.numpy())
        if step >= config.train_steps:
            self._reporter.on_message(
                f"This run is finished: its newest checkpoint is at step {step}, and "
                f"trainer.train_steps is {config.train_steps}."
            )
        elif stop_reason := self._find_stop_reason():
            self._reporter.on_message(
                f"{stop_reason} To go on with this run, set trainer.early_stopping.patience higher."
            )
            return (self._evaluation_log or self._history).get(step)
        self._check_metric_names()
        for action in self._controller.train_actions:
            if isinstance(action, prepared_action.PreparedAction):
                action.begin()
        if not self._mode.has_evaluations:
            self._controller.train(steps=config.train_steps)
            return None
        interval: int | None = config.validation_interval
        if self._mode is run_mode.Mode.TRAIN_AND_VALIDATE:
            interval = config.get_checkpoint_steps("mode train_and_validate") or None
        logs = self._controller.train_and_evaluate(
            train_steps=config.train_steps,
            eval_steps=config.validation_steps,
            eval_interval=interval,
        )
        if logs is None and self._evaluation_log is not None:
            return self._evaluation_log.get(step)
        return logs

    def _check_metric_names(self) -> None:
        """Evaluates one batch before the first step, to see that the named metrics exist."""
        exporter = None if self._evaluator is None else self._evaluator.checkpoint_exporter
        if exporter is None and self._early_stopping is None:
            return
        from quintain.checkpoints import best_checkpoint  # noqa: PLC0415 - few runs name metrics

        names = {}
        if isinstance(exporter, best_checkpoint.BestCheckpointExporter):
            names["trainer.best_checkpoint_eval_metric"] = exporter.metric_name
        if self._early_stopping is not None:
            names["trainer.early_stopping.metric"] = self._early_stopping.metric_name
        if self._evaluator is None or not names or not self._evaluates:
            return
        try:
            logs = self._evaluator.evaluate_one_batch()
        except interruption_lib.EvaluationInterrupted:
            reason = self._trainer.interruption.reason if self._trainer.interruption else None
            raise orbit.Interrupted(int(self._trainer.global_step.numpy()), reason or "") from None
        for field, name in names.items():
            best_checkpoint.find_metric(logs, name, field)
