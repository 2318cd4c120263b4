"""Fine-tuning every checkpoint of a pretraining, while that goes on, to see what it is worth.

Another process pretrains and saves checkpoints. For each one this process trains the model of the
fine-tuning task from it, evaluates, writes the metrics under the step of the pretraining, and
starts over with the next.
"""

import contextlib
import dataclasses
import gc
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain import errors, orbit
from quintain.checkpoints import checkpoints, evaluation_log, recovery_state, run_lock
from quintain.distribute import distribution, runtime_environment
from quintain.files import file_io, file_paths, literal_paths, whole_files
from quintain.orbit import checkpoint_watch
from quintain.run import actions, history, run_mode, run_options, runner_factory, train_lib
from quintain.settings import config_definitions as cfg

STATE_FILE: Final = "continuous_finetune.json"
SUMMARY_SUBDIR: Final = "eval"
_GLOBAL_STEP_KEY: Final = "global_step/.ATTRIBUTES/VARIABLE_VALUE"
_MODE: Final = run_mode.Mode.CONTINUOUS_TRAIN_AND_EVAL
_RUN_FILES: Final = (
    "checkpoint",
    evaluation_log.FILE_NAME,
    history.FILE_NAME,
    recovery_state.FILE_NAME,
)

logger = logging.getLogger(__name__)


def run_continuous_finetune(
    mode: str,
    params: cfg.ExperimentConfig,
    model_dir: str,
    run_post_eval: bool = False,
    pretrain_steps: int | None = None,
    *,
    reporter: orbit.Reporter | None = None,
    interruption: orbit.Interruption | None = None,
    enable_async_checkpointing: bool = True,
) -> Mapping[str, Any]:
    """Fine-tunes and evaluates the checkpoints of a directory, as they come.

    `params.task.init_checkpoint` is the directory. It is waited for, and so is every next
    checkpoint, for `trainer.continuous_eval_timeout` seconds. Checkpoints that come while one is
    fine-tuned are passed over, but for the newest. For each one

    - `model_dir/metrics-STEP.json` and summaries in `model_dir/eval` get the metrics of the last
      evaluation, under the step of the pretraining,
    - the best checkpoint, if one is kept, is in its subdirectory with `_STEP` after its name,
    - other checkpoints of the fine-tuning are deleted when it is done.

    A killed process that is started again finishes the fine-tuning that it was at, and does not
    repeat those that are done.

    Args:
        mode: `continuous_train_and_eval`.
        params: The experiment of one fine-tuning.
        model_dir: Directory of the fine-tuning.
        run_post_eval: Whether to return the metrics of the last evaluation, instead of nothing.
        pretrain_steps: Last step of the pretraining: the checkpoint with which this ends, and
            without which a time-out does not end it. None ends at the first time-out.
        reporter: Told what happens; writes to the log if None.
        interruption: Stops between two steps, with a checkpoint.
        enable_async_checkpointing: Whether checkpoints are written in the background.

    Raises:
        ConfigError: If the mode is another one, or `params` don't fit.
        CheckpointError: If a checkpoint holds no `global_step`, or does not fit the model.
        Interrupted: If `interruption` was requested.
    """
    if mode != _MODE:
        raise errors.ConfigError(f"mode: got {mode!r}, expected {_MODE.value!r}.")
    run_mode.check_run(params, _MODE, model_dir)
    _check_source(params.task.init_checkpoint)
    if not model_dir:
        raise errors.ConfigError("model_dir: missing; expected a directory for the metrics.")
    with run_lock.hold(model_dir):
        logs = _finetune_all(
            params,
            model_dir,
            pretrain_steps,
            run_options.RunOptions(
                reporter=reporter,
                interruption=interruption,
                enable_async_checkpointing=enable_async_checkpointing,
            ),
        )
    return logs if run_post_eval else {}


def _finetune_all(
    params: cfg.ExperimentConfig,
    model_dir: str,
    pretrain_steps: int | None,
    options: run_options.RunOptions,
) -> Mapping[str, Any]:
    """Does the work of `run_continuous_finetune`."""
    _check_own(model_dir)
    strategy = distribution.build_strategy(params.runtime)
    reporter, interruption = options.reporter or orbit.LogReporter(), options.interruption
    options = dataclasses.replace(
        options, run_post_eval=False, save_summary=False, reporter=reporter
    )
    wait = (interruption or orbit.Interruption()).wait
    logs: dict[str, Any] = {}
    with distribution.precision(params.runtime):
        for path, step in _iterate_pretrained(params, model_dir, pretrain_steps, reporter, wait):
            reporter.on_message(f"Fine-tuning {path} (step {step} of the pretraining).")
            logs = _finetune(strategy, params, model_dir, path, step, options)
            # What a model and its iterators hold is freed by the collector only.
            gc.collect()
    if interruption is not None and interruption.requested:
        raise orbit.Interrupted(_read_state(model_dir).get("step", 0), str(interruption.reason))
    return logs


def run_from_config(
    params: cfg.ExperimentConfig,
    model_dir: str,
    *,
    experiment: str,
    imports: Sequence[str] = (),
    pretrain_steps: int | None = None,
    allow_config_change: bool = False,
    options: run_options.RunOptions = run_options.DEFAULTS,
) -> Mapping[str, Any]:
    """Does what `run_continuous_finetune` does, with a `params.yaml`, and ends it on a signal.

    Args:
        params: The experiment of one fine-tuning.
        model_dir: Directory of the fine-tuning.
        experiment: Name of the registered experiment, for `params.yaml`.
        imports: Modules that register it, for `params.yaml` as well.
        pretrain_steps: Last step of the pretraining.
        allow_config_change: Whether a fine-tuning that was stopped may go on with other settings.
        options: How it goes about its work; its interruption is replaced by one for signals.

    Raises:
        Interrupted: On SIGTERM or Ctrl-C.
        QuintainError: If it can't start or can't go on.
    """
    run_mode.check_run(params, _MODE, model_dir)
    _check_source(params.task.init_checkpoint)
    with contextlib.ExitStack() as stack:
        train_lib.claim_model_dir(
            stack,
            params,
            model_dir,
            experiment=experiment,
            writes=True,
            allow_config_change=allow_config_change,
        )
        params = train_lib.fix_seed(params, model_dir, distribution.build_strategy(params.runtime))
        train_lib.write_config(params, model_dir, experiment=experiment, imports=imports)
        if options.on_start is not None:
            options.on_start()
        interruption = stack.enter_context(train_lib.watch_signals(params.trainer))
        options = dataclasses.replace(options, interruption=interruption)
        return _finetune_all(params, model_dir, pretrain_steps, options)


def read_global_step(path: str) -> int:
    """Returns the step at which a checkpoint was saved.

    Raises:
        CheckpointError: If it holds none.
    """
    reader = literal_paths.read(path)
    if not reader.has_tensor(_GLOBAL_STEP_KEY):
        raise errors.CheckpointError(
            f"The checkpoint {path!r} holds no `global_step`; expected one written by training."
        )
    return int(reader.get_tensor(_GLOBAL_STEP_KEY))


def _check_source(directory: str) -> None:
    if not directory:
        raise errors.ConfigError(
            "task.init_checkpoint: missing; in mode continuous_train_and_eval it is the directory "
            "of a pretraining."
        )
    if file_io.exists(f"{directory}.index"):
        raise errors.ConfigError(
            f"task.init_checkpoint: got the checkpoint {directory!r}, expected a directory whose "
            "checkpoints are fine-tuned as they come. For a single one use mode train_and_eval."
        )


def _check_own(model_dir: str) -> None:
    """Refuses a directory whose checkpoints are not a fine-tuning's, which would be deleted."""
    found = checkpoints.list_checkpoints(model_dir)
    if found and "step" not in _read_state(model_dir):
        raise errors.ConfigError(
            f"model_dir: got {model_dir!r}, whose checkpoints ({found[-1]!r}) are of a run of "
            "another kind; fine-tuning would replace them. Give a directory of its own."
        )


def _iterate_pretrained(
    params: cfg.ExperimentConfig,
    model_dir: str,
    pretrain_steps: int | None,
    reporter: orbit.Reporter,
    wait: Callable[[float], bool],
) -> Iterator[tuple[str, int]]:
    """Yields the checkpoints that are to be fine-tuned, and their steps."""
    source, timeout_secs = params.task.init_checkpoint, params.trainer.continuous_eval_timeout
    last_step = 0

    def is_complete() -> bool:
        return pretrain_steps is not None and last_step >= pretrain_steps

    reporter.on_message(f"Waiting for checkpoints in {source}.")
    for path in checkpoint_watch.iterate_new_checkpoints(
        source,
        timeout_secs=timeout_secs,
        timeout_fn=lambda: pretrain_steps is None or is_complete(),
        is_finished=is_complete,
        wait=wait,
    ):
        last_step = read_global_step(path)
        if last_step not in _read_state(model_dir)["done"]:
            yield path, last_step
    if not last_step and not file_io.isdir(source):
        raise errors.ConfigError(
            f"task.init_checkpoint: got {source!r}, which did not become a directory within "
            f"{timeout_secs} s (trainer.continuous_eval_timeout)."
        )


def _finetune(
    strategy: tf.distribute.Strategy,
    params: cfg.ExperimentConfig,
    model_dir: str,
    path: str,
    step: int,
    options: run_options.RunOptions,
) -> dict[str, Any]:
    """Trains from the checkpoint of a step, and returns the metrics of the last evaluation."""
    state = _read_state(model_dir)
    if state.get("step") != step:
        _remove_run(model_dir)
        _write_state(model_dir, {**state, "step": step})
    runtime_environment.set_seed(params.runtime)
    runner = runner_factory.build_runner(
        strategy,
        run_mode.Mode.TRAIN_AND_EVAL,
        _start_from(params, path, step),
        model_dir,
        options,
    )
    _, logs = runner.run()
    _write_metrics(model_dir, runner.task_name, step, logs)
    _remove_run(model_dir)
    _write_state(model_dir, {"done": [*state["done"], step]})
    return logs


def _start_from(params: cfg.ExperimentConfig, path: str, step: int) -> cfg.ExperimentConfig:
    overrides: dict[str, Any] = {"task": {"init_checkpoint": path}}
    if subdir := params.trainer.best_checkpoint_export_subdir:
        overrides["trainer"] = {"best_checkpoint_export_subdir": f"{subdir}_{step}"}
    started = params.replace(**overrides)
    started.lock()
    return started


def _write_metrics(model_dir: str, task_name: str, step: int, logs: Mapping[str, Any]) -> None:
    plain = evaluation_log.to_plain(logs)
    path = file_paths.join(model_dir, f"metrics-{step}.json")
    whole_files.write(path, json.dumps(plain, indent=2))
    group = f"{file_paths.basename(file_paths.normal(model_dir))}_{task_name}"
    writer = tf.summary.create_file_writer(file_paths.join(model_dir, SUMMARY_SUBDIR))
    with writer.as_default(step=step):
        for name, value in evaluation_log.flatten(plain).items():
            if isinstance(value, int | float) and np.isfinite(value):
                tf.summary.scalar(f"{group}/{name.replace('|', '-')}", value)
    writer.close()


def _remove_run(model_dir: str) -> None:
    for path in checkpoints.list_checkpoints(model_dir):
        checkpoints.delete_checkpoint(path)
    averages = file_paths.join(model_dir, actions.EMA_DIRECTORY)
    for path in checkpoints.list_checkpoints(averages, actions.EMA_NAME):
        checkpoints.delete_checkpoint(path)
    for name in (*_RUN_FILES, file_paths.join(actions.EMA_DIRECTORY, "checkpoint")):
        if file_io.exists(file_paths.join(model_dir, name)):
            file_io.remove(file_paths.join(model_dir, name))


def _read_state(model_dir: str) -> dict[str, Any]:
    """Returns the steps that are `done` and, if there is one, the `step` being fine-tuned."""
    path = file_paths.join(model_dir, STATE_FILE)
    if not file_io.exists(path):
        return {"done": []}
    state: dict[str, Any] = whole_files.read_json(path)
    with whole_files.damage_explained(path):
        {int(step) for step in [*state["done"], state.get("step", 0)]}
    return state


def _write_state(model_dir: str, state: Mapping[str, Any]) -> None:
    whole_files.write(file_paths.join(model_dir, STATE_FILE), json.dumps(state))
