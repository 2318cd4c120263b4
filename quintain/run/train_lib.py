"""`run_experiment`: the one function that most programs call."""

import contextlib
import dataclasses
import functools
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from quintain import errors, lazy_modules, orbit
from quintain.checkpoints import run_lock
from quintain.config import gin_io
from quintain.core import base_task, base_trainer, user_modules
from quintain.core.reports import shown_metrics
from quintain.distribute import distribution, runtime_environment
from quintain.files import file_io
from quintain.orbit import cluster
from quintain.orbit.utils import summary_manager as summary_manager_lib
from quintain.run import (
    actions,
    experiment_runner,
    history,
    run_files,
    run_mode,
    run_options,
)
from quintain.settings import config_definitions as cfg

logger = logging.getLogger(__name__)

__getattr__, __dir__ = lazy_modules.attach(
    __name__,
    find_names=lambda: {
        "OrbitExperimentRunner": "quintain.run.orbit_experiment_runner",
        "maybe_create_best_ckpt_exporter": "quintain.checkpoints.best_checkpoint",
    },
)


def run_experiment(
    distribution_strategy: tf.distribute.Strategy,
    task: base_task.Task,
    mode: str,
    params: cfg.ExperimentConfig,
    model_dir: str | None,
    run_post_eval: bool = False,
    save_summary: bool = True,
    train_actions: Sequence[actions.Action] | None = None,
    eval_actions: Sequence[actions.Action] | None = None,
    trainer: base_trainer.Trainer | None = None,
    controller_cls: Callable[..., orbit.Controller] = orbit.Controller,
    summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
    eval_summary_manager: summary_manager_lib.SummaryManagerInterface | None = None,
    enable_async_checkpointing: bool = True,
    reporter: orbit.Reporter | None = None,
    interruption: orbit.Interruption | None = None,
) -> tuple[keras.Model, dict[str, Any]]:
    """Trains and evaluates a task as a config says.

    Sets the precision policy and the seed of `params.runtime`, builds model, optimizer, trainer and
    controller in the scope of the strategy, restores the newest checkpoint of `model_dir` or
    initialises the model, and runs one mode:

    - `train`: trains to `trainer.train_steps`;
    - `eval`: evaluates the newest checkpoint;
    - `train_and_eval`: trains, and evaluates every `trainer.validation_interval` steps and at the
    end;
    - `train_and_validate`: trains, and evaluates every checkpoint when it is saved, those at
      multiples of `trainer.checkpoint_interval` and the last;
    - `train_and_post_eval`: trains, then evaluates once;
    - `continuous_eval`: evaluates every checkpoint in its order, those that are there and those
      that another process adds, until the run has finished or none has come for
      `trainer.continuous_eval_timeout` seconds.

    Args:
        distribution_strategy: Strategy to train under; see `distribution.build_strategy`.
        task: The task.
        mode: Name of the mode.
        params: The experiment.
        model_dir: Directory of the run: checkpoints, summaries, evaluations. None keeps nothing.
        run_post_eval: Whether to evaluate once more at the end.
        save_summary: Whether to write TensorBoard summaries.
        train_actions: Called with the output of each training loop, after the config's own.
        eval_actions: Called with the output of each evaluation, after the config's own.
        trainer: A trainer to use instead of the one `params` describes.
        controller_cls: Class or function that builds the controller.
        summary_manager: Writes training summaries elsewhere than to files.
        eval_summary_manager: Writes evaluation summaries elsewhere than to files.
        enable_async_checkpointing: Whether checkpoints are written in the background.
        reporter: Told what happens. None shows a bar on a terminal, a table with curves in a
            notebook, and writes to the log elsewhere.
        interruption: Stops the run between two steps, with a checkpoint.

    Returns:
        The model and the metrics of the last evaluation; empty if there was none. With a model
        directory, the attribute `history` of the metrics is the `History` of the run.

    Raises:
        ConfigError: If mode and parameters can't work, or another run trains in `model_dir`,
            before a model is built.
        CheckpointError: If there is no checkpoint to evaluate, or it does not fit the model.
        Interrupted: If `interruption` was requested; the run can be resumed.
    """
    user_modules.refuse_training("run_experiment")
    is_kept = bool(model_dir) and run_mode.parse_mode(mode).is_training
    with contextlib.ExitStack() as stack:
        stack.enter_context(run_mode.run_scope(params, mode, model_dir, distribution_strategy))
        if is_kept:
            params = fix_seed(params, str(model_dir), distribution_strategy)
        if reporter is None:
            from quintain.run import live_progress  # noqa: PLC0415 - commands have their own

            labels = {**shown_metrics.LOSSES, **getattr(task, "metric_labels", {})}
            reporter = stack.enter_context(live_progress.default_reporter(labels))
        runtime_environment.set_seed(params.runtime)
        runner = experiment_runner.ExperimentRunner(
            distribution_strategy,
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
                reporter=reporter,
                interruption=interruption,
            ),
        )
        if is_kept and cluster.is_chief(distribution_strategy):
            describe = functools.partial(_describe_run, params, task, str(model_dir))
            describe()
            stack.enter_context(_directory_guarded(runner, describe))
        model, logs = runner.run()
    return model, history.Logs(logs, history.read_history(model_dir) if model_dir else None)


def _describe_run(params: cfg.ExperimentConfig, task: base_task.Task, model_dir: str) -> None:
    """Writes what the command line needs to go on with a run that a program has started."""
    from quintain.core import exp_factory  # noqa: PLC0415 - runs that are kept need it
    from quintain.run import run_environment  # noqa: PLC0415 - as above

    found = exp_factory.find_name(params)
    if found is None:
        logger.warning(
            "The command line can't go on with the run in %r by itself: register a function that "
            "returns a config of these classes (`exp_factory.register_config_factory`), and get "
            "the config from `exp_factory.get_exp_config`.",
            model_dir,
        )
    name, module = found or (None, "")
    modules = [module, user_modules.name_module(type(task).__module__)]
    own = [one for one in modules if one and one.partition(".")[0] not in ("quintain", "__main__")]
    write_config(params, model_dir, experiment=name, imports=tuple(dict.fromkeys(own)))
    run_environment.Environment().record(model_dir, {})


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """Result of a run."""

    step: int
    """Step of the model in its present state."""

    train_steps: int
    """Step at which the run is finished."""

    logs: dict[str, Any]
    """Metrics of the last evaluation; empty if there was none."""

    is_stopped_early: bool = False
    """Whether `trainer.early_stopping` ended it."""

    @property
    def is_complete(self) -> bool:
        """True if the run reached `train_steps`."""
        return self.step >= self.train_steps


def train_from_config(
    params: cfg.ExperimentConfig,
    mode: str,
    model_dir: str,
    *,
    experiment: str,
    imports: Sequence[str] = (),
    allow_config_change: bool = False,
    options: run_options.RunOptions = run_options.DEFAULTS,
) -> TrainResult:
    """Does a whole run from its config, and ends it in order on a signal.

    Args:
        params: The experiment.
        mode: Name of the mode.
        model_dir: Directory of the run; `params.yaml` is written there before the first step.
        experiment: Name of the registered experiment, recorded in `params.yaml`.
        imports: Modules that register it, recorded as well.
        allow_config_change: Whether a run that has checkpoints may go on with other settings.
        options: How the run goes about its work; its interruption is replaced by one for signals.

    Raises:
        Interrupted: On SIGTERM or Ctrl-C, after the checkpoint is saved.
        QuintainError: If the run can't start or can't go on.
    """
    from quintain.run import runner_factory  # noqa: PLC0415 - programs with their own task do without

    parsed_mode = run_mode.parse_mode(mode)
    run_mode.check_run(params, parsed_mode, model_dir)
    with contextlib.ExitStack() as stack:
        claim = functools.partial(
            claim_model_dir,
            stack,
            params,
            model_dir,
            experiment=experiment,
            writes=parsed_mode.is_training,
            allow_config_change=allow_config_change,
        )
        is_cluster = params.runtime.distribution is cfg.Distribution.MULTI_WORKER_MIRRORED
        if not is_cluster:
            options = _claim_in_turn(options, claim)
        strategy = distribution.build_strategy(params.runtime)
        if is_cluster:
            check_on_chief(strategy, claim)
        if parsed_mode.is_training:
            params = fix_seed(params, model_dir, strategy)
        if cluster.is_chief(strategy):
            stack.enter_context(run_files.undo_on_error(model_dir))
        stack.enter_context(distribution.precision(params.runtime))
        interruption = stack.enter_context(watch_signals(params.trainer))
        if strategy.cluster_resolver is not None:
            from quintain.run.events import preemption  # noqa: PLC0415 - clusters announce it

            stack.enter_context(preemption.notices_watched(strategy, interruption))
        runner: experiment_runner.ExperimentRunner | None = None
        stack.enter_context(
            runner_factory.task_errors_explained(params, lambda: runner.trainer if runner else None)
        )
        runtime_environment.set_seed(params.runtime)
        runner = runner_factory.build_runner(
            strategy,
            mode,
            params,
            model_dir,
            dataclasses.replace(options, interruption=interruption),
        )
        if parsed_mode.is_training and cluster.is_chief(strategy):

            def describe() -> None:
                write_config(params, model_dir, experiment=experiment, imports=imports)
                if options.on_start is not None:
                    options.on_start()

            describe()
            stack.enter_context(_directory_guarded(runner, describe))
        try:
            _, logs = runner.run()
        finally:
            if gin_io.is_bound() and parsed_mode.is_training and cluster.is_chief(strategy):
                run_files.save_gin_config(mode, model_dir)
    step = int(runner.trainer.global_step.numpy())
    return TrainResult(
        step=step,
        train_steps=params.trainer.train_steps,
        logs=logs,
        is_stopped_early=runner.is_stopped_early,
    )


def _claim_in_turn(
    options: run_options.RunOptions, claim: Callable[[], None]
) -> run_options.RunOptions:
    """Claims the directory, or returns options with which a standby does so when it takes over."""
    wait = options.stand_by
    if wait is None:
        claim()
        return options

    def stand_by() -> None:
        wait()
        claim()

    return dataclasses.replace(options, stand_by=stand_by)


@contextlib.contextmanager
def _directory_guarded(
    runner: experiment_runner.ExperimentRunner, describe: Callable[[], None]
) -> Iterator[None]:
    """Saves what a run still has if its directory was removed in this block, which is an error.

    Args:
        runner: Whose run it is.
        describe: Writes `params.yaml` and what else describes the run.

    Raises:
        OutputError: If `params.yaml` is gone when the run ends, is stopped, or can't write a file.
    """
    cause: Exception | None = None
    try:
        yield
    except (errors.OutputError, errors.CheckpointError, orbit.Interrupted) as error:
        cause = error
    if file_io.exists(run_files.params_path(runner.model_dir)):
        if cause is not None:
            raise cause
        return
    describe()
    manager = runner.checkpoint_manager
    # Workers save together, and the others know nothing of this.
    if manager is not None and cluster.num_workers(runner.trainer.strategy) == 1:
        manager.save(check_interval=False)
        manager.sync()
    newest = manager and manager.latest_checkpoint
    raise errors.OutputError(
        f"model_dir: {runner.model_dir!r} was removed while the run was going on, with what it had "
        f"written there. There are {f'the checkpoint {newest!r} and ' if newest else ''}the "
        "settings again; the same command goes on with them."
    ) from cause


def claim_model_dir(
    stack: contextlib.ExitStack,
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str,
    writes: bool,
    allow_config_change: bool,
) -> None:
    """Checks that a run may use a directory, and keeps others out until the stack is closed.

    Args:
        stack: Holds the lock.
        params: The experiment.
        model_dir: Directory of the run.
        experiment: Name of the registered experiment.
        writes: Whether the run trains there.
        allow_config_change: Whether it may go on with other settings.

    Raises:
        ConfigError: If it may not, or another run is there.
    """
    run_files.check_model_dir(
        params,
        model_dir,
        experiment=experiment,
        writes=writes,
        allow_config_change=allow_config_change,
    )
    stack.enter_context(run_lock.hold(model_dir, is_needed=writes))


def write_config(
    params: cfg.ExperimentConfig, model_dir: str, *, experiment: str | None, imports: Sequence[str]
) -> None:
    """Writes what is enough to run the experiment again."""
    run_files.serialize_config(
        params,
        model_dir,
        experiment=experiment,
        imports=imports,
        is_bound=run_files.has_started(model_dir),
    )
    run_files.save_gin_bindings(model_dir)


def check_on_chief(strategy: tf.distribute.Strategy, check: Callable[[], None]) -> None:
    """Lets the chief check something, and all workers end if it is wrong, not only the chief.

    Args:
        strategy: Strategy of the cluster.
        check: Raises a `ConfigError` if something is wrong.

    Raises:
        ConfigError: On all workers, if it did on the chief.
    """
    problem: errors.ConfigError | None = None
    if cluster.is_chief(strategy):
        try:
            check()
        except errors.ConfigError as error:
            problem = error
    with cluster.exit_barrier(strategy, errors.ConfigError):
        text = cluster.from_chief(strategy, None if problem is None else str(problem))
        if text is not None:
            raise errors.ConfigError(text) from problem


def watch_signals(
    trainer: cfg.TrainerConfig,
) -> contextlib.AbstractContextManager[orbit.Interruption | None]:
    """Returns the context in which signals end the run in order, if the config wants it."""
    if trainer.preemption_on_demand_checkpoint:
        return orbit.Interruption()
    return contextlib.nullcontext()


def fix_seed(
    params: cfg.ExperimentConfig, model_dir: str, strategy: tf.distribute.Strategy
) -> cfg.ExperimentConfig:
    """Replaces a seed left open by that of the run in `model_dir`, or by a new one."""
    if params.runtime.seed is not None:
        return params
    seed = run_files.read_seed(model_dir)
    seed = cluster.from_chief(strategy, secrets.randbits(31) if seed is None else seed)
    fixed = params.replace(runtime={"seed": seed})
    fixed.lock()
    return fixed
