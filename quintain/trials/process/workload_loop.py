"""Workload loop of a trial's process: train, validate, checkpoint, terminate."""

import contextlib
import dataclasses
import gc
import importlib
import logging
import pathlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

from quintain import errors
from quintain.files import changing_files, disk_errors
from quintain.process import user_errors
from quintain.records.config import experiment_spec
from quintain.records.rows import codec, exit_codes, trial, workload
from quintain.storage import retries
from quintain.trials import base_trial, random_state, trial_context, workload_metrics
from quintain.trials.process import (
    background_uploads,
    rank_files,
    shared_disk_space,
    trial_checkpoint,
    trial_loader,
    workload_source,
)

logger = logging.getLogger(__name__)

_EXIT_CODES: Final = {
    workload.ExitedReason.INVALID_HP: exit_codes.ExitCode.INVALID_HPARAMS,
    workload.ExitedReason.UNUSABLE: exit_codes.ExitCode.UNUSABLE,
}
_NOTE_SECS: Final = 5.0
_NOTE_SHARE: Final = 0.05
"""Part of a workload's time until its next note, where that is longer: a master may have a thousand
trials, and shows no more of them."""
_PROFILED_BATCHES: Final = 10
"""Batches of a profile of which no end is set."""


def run(source: workload_source.WorkloadSource) -> int:
    """Runs a trial until it is told to terminate, or ends by itself.

    Errors of the user's code are printed to the standard error with the frames of the user's own
    files, and reported to the source.

    Returns:
        The exit code of the process; see `records.rows.exit_codes.ExitCode`.

    Raises:
        GoneError: If the source does not want this run any more.
    """
    spec = source.start()
    controller: base_trial.TrialController | None = None
    try:
        spec = _find_whole(source, spec)
        with contextlib.ExitStack() as stack:
            controller = build_controller(spec, stack)
            stack.callback(controller.close)
            if spec.peers:
                _import_gang().require_common_checkpoint(controller.context.distributed, spec)
            with controller.file_errors_named():
                _Loop(spec, controller, source).run()
    except errors.GoneError:
        raise
    except base_trial.InvalidHP as error:
        message = f"The hyperparameters are not valid: {error}"
        return _fail(source, workload.ExitedReason.INVALID_HP, message)
    except (errors.TrialError, errors.ConfigError) as error:
        return _fail(source, workload.ExitedReason.UNUSABLE, str(error))
    except MemoryError:
        _fail(source, workload.ExitedReason.ERRORED, "There was no memory left.")
        return exit_codes.ExitCode.OUT_OF_MEMORY
    except SystemExit as error:
        message = f"The trial's code called sys.exit({error.code!r})."
        return _fail(source, _find_reason(error, controller), message)
    except Exception as error:  # noqa: BLE001 - whatever users' code raises ends here
        if retries.is_about_room(error) or disk_errors.is_lost(error):
            why = describe_error(error, pathlib.Path(spec.model_dir))
            _print(f"{exit_codes.DISK_FAILS}{why}")
            return exit_codes.ExitCode.NO_ROOM
        if spec.peers and _import_gang().is_lost(error):
            _print(f"Another process of this trial can't be reached any more: {error}")
            _import_gang().await_cause()
            return exit_codes.ExitCode.LOST_MEMBER
        message = describe_error(error, pathlib.Path(spec.model_dir).resolve())
        return _fail(source, _find_reason(error, controller), message)
    return exit_codes.ExitCode.DONE


def _fail(
    source: workload_source.WorkloadSource, reason: workload.ExitedReason, message: str
) -> int:
    """Tells the user and the master why a trial ends, and returns the exit code for that."""
    _print(message)
    source.report_exit(reason, message)
    return _EXIT_CODES.get(reason, exit_codes.ExitCode.ERROR)


def _find_reason(
    error: BaseException, controller: base_trial.TrialController | None
) -> workload.ExitedReason:
    """Returns the reason of an error: before the first batch it may be a mistake in the code."""
    has_trained = controller is not None and controller.context.has_trained
    # By name, as not every trial imports TensorFlow.
    is_circumstance = type(error).__name__ == "ResourceExhaustedError" or isinstance(
        error, errors.TrainingDivergedError | errors.ClusterError | errors.CheckpointError
    )
    if has_trained or is_circumstance:
        return workload.ExitedReason.ERRORED
    return workload.ExitedReason.ERRORED_AT_START


def _find_whole(source: workload_source.WorkloadSource, spec: trial.TrialSpec) -> trial.TrialSpec:
    """Returns a trial with the newest checkpoint that is whole, if it goes on from one."""
    while spec.checkpoint:
        try:
            directory = source.fetch_checkpoint(spec)
        except errors.DamagedCheckpointError as error:
            damage = error.damage
        else:
            return dataclasses.replace(spec, latest_checkpoint=str(directory))
        _print(f"Checkpoint {spec.checkpoint} is damaged: {damage}.")
        try:
            spec = source.report_damage(spec.checkpoint, damage)
        except errors.CheckpointError as error:
            raise errors.TrialError(str(error)) from error
    return spec


def _import_gang() -> Any:
    """Returns the module for trials of several processes, which needs TensorFlow."""
    return importlib.import_module("quintain.trials.process.gang")


def build_controller(
    spec: trial.TrialSpec, stack: contextlib.ExitStack
) -> base_trial.TrialController:
    """Seeds the random numbers, loads the user's code and makes what drives it.

    Raises:
        TrialError: If there is no trial, or it can't be used.
    """
    context = trial_context.TrialContext(spec)
    is_registered = (spec.entrypoint or "").startswith(experiment_spec.REGISTERED_PREFIX)
    if spec.peers:
        gang = _import_gang()
        gang.configure(spec)
        if not is_registered:  # Those build it themselves, as their settings say.
            stack.enter_context(gang.strategy_scope(context))
    random_state.set_seed(spec.seed)
    # Code may ask for hyperparameters while it is imported.
    trial_context.set_current_context(context)
    loaded = trial_loader.load_trial(spec.model_dir, spec.entrypoint)
    if spec.peers and loaded.controller_module not in trial_loader.GANG_MODULES:
        text = trial_loader.refuse_processes(loaded, len(spec.peers))
        raise errors.TrialError(f"resources.processes_per_trial: {text}")
    context.functions.update(loaded.functions)
    trial_context.download_data(context)
    # Modules stay: looking for garbage among them takes longer than tracing a small model.
    gc.freeze()
    # Again: loading the code may have drawn random numbers, in an order that depends on its files.
    random_state.set_seed(spec.seed)
    factory: Callable[..., base_trial.TrialController] = importlib.import_module(
        loaded.controller_module
    ).build_controller
    return factory(loaded.trial_class, context)


class _Loop:
    """Does one workload after the other."""

    def __init__(
        self,
        spec: trial.TrialSpec,
        controller: base_trial.TrialController,
        source: workload_source.WorkloadSource,
    ) -> None:
        self._spec = spec
        self._controller = controller
        self._source = source
        self._searched = str((spec.experiment_config.get("searcher") or {}).get("metric") or "")
        self._profile = BatchProfile(controller.context)
        self._notes = StepNotes(controller, source)
        self._total_batches = 0
        self._saved_bytes = 0
        self._distributed = controller.context.distributed
        self._beside = background_uploads.BackgroundUploads(self._hand_in, self._perform)
        self._staged: background_uploads.Upload | None = None

    def run(self) -> None:
        """Does workloads until one says to terminate."""
        if self._spec.latest_checkpoint:
            self._total_batches = trial_checkpoint.restore(self._controller, self._spec)
            if self._distributed.size > 1:  # Others need not know.
                directory = pathlib.Path(self._spec.latest_checkpoint)
                self._saved_bytes = changing_files.measure_all(directory)
            self._controller.context.has_trained = self._total_batches > 0
            self._controller.context.initial_batch = self._total_batches
        elif (
            self._searched and (measured := self._controller.list_validation_metrics()) is not None
        ):
            aliases = self._controller.metric_aliases
            workload_metrics.require_searched(self._searched, measured, aliases)
        with contextlib.closing(self._beside), self._notes.told(self._spec.rank):
            task = self._take_next()
            while task.kind is not workload.WorkloadKind.TERMINATE:
                result = self._beside.take(task) or self._perform(task)
                task = self._report(result)
        start = time.time()
        self._tell(workload.WorkloadResult(task, start, start))
        if self._distributed.size > 1:
            _import_gang().await_others(self._distributed)

    def _perform(self, task: workload.Workload) -> workload.WorkloadResult:
        """Does a workload; one that saves may leave the upload to `_report`."""
        start, start_secs = time.time(), time.monotonic()
        asked = dataclasses.replace(task, following=())
        result = workload.WorkloadResult(asked, start, start, **self._do(task))
        if any(self._distributed.allgather(self._controller.context.get_stop_requested())):
            result = dataclasses.replace(result, exited_reason=workload.ExitedReason.USER_CANCELED)
        # What it took counts for forecasts, and must not change if the clock is set meanwhile.
        return dataclasses.replace(result, end_time=start + time.monotonic() - start_secs)

    def _report(self, result: workload.WorkloadResult) -> workload.Workload:
        staged, self._staged = self._staged, None
        if staged is not None:
            return self._beside.upload(result, staged)
        return self._hand_in(result)

    def _hand_in(self, result: workload.WorkloadResult) -> workload.Workload:
        self._tell(result)
        return self._take_next()

    def _tell(self, result: workload.WorkloadResult) -> None:
        """Hands in a result; of several processes the first one does."""
        if self._distributed.rank == 0:
            self._source.report(result)

    def _take_next(self) -> workload.Workload:
        """Returns what to do next; of several processes the first one asks, for all."""
        if self._distributed.size == 1:
            return self._source.next_workload()
        is_first = self._distributed.rank == 0
        own = codec.to_plain(self._source.next_workload()) if is_first else None
        return codec.from_plain(workload.Workload, self._distributed.broadcast(own))

    def _do(self, task: workload.Workload) -> dict[str, Any]:
        if task.total_batches != self._total_batches:
            # The master's database is an older copy, say: another process takes up what it knows.
            raise errors.GoneError(
                f"Workload {task.number} ({task.kind}) is for {task.total_batches} batches, but "
                f"this process has trained on {self._total_batches}."
            )
        match task.kind:
            case workload.WorkloadKind.TRAIN:
                return self._train(task)
            case workload.WorkloadKind.VALIDATE:
                return self._validate()
            case _ if self._spec.rank:
                self._await_room(self._open_scratch)
                self._saved_bytes = rank_files.send(self._controller, self._spec)
                return {}
            case _:
                return {"checkpoint": self._save(task)}

    def _await_room(self, open_place: Callable[[], pathlib.Path]) -> None:
        if self._distributed.size > 1:
            num_bytes = self._saved_bytes or self._controller.measure_state()
            shared_disk_space.wait(self._distributed, open_place, num_bytes)

    def _open_scratch(self) -> pathlib.Path:
        directory = pathlib.Path(self._spec.scratch_dir)
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def _save(self, task: workload.Workload) -> workload.StoredCheckpoint:
        storage = self._source.open_storage(self._spec)
        if not (storage.is_remote and task.following):
            self._await_room(lambda: trial_checkpoint.find_place(storage))
            saved = trial_checkpoint.save(
                self._controller, self._spec, self._total_batches, storage
            )
            self._saved_bytes = sum(saved.files.values())
            return saved
        staged = trial_checkpoint.outlast_full_disks(
            self._controller,
            lambda: trial_checkpoint.stage(
                self._controller, self._spec, self._total_batches, storage
            ),
        )
        self._staged = background_uploads.Upload(staged, storage, task.following)
        return staged.stored

    def _train(self, task: workload.Workload) -> dict[str, Any]:
        with self._notes.counted(task.number):
            result = self._profile.train(self._controller, task.total_batches, task.num_batches)
        self._controller.context.has_trained = True
        self._total_batches += task.num_batches
        batches = [workload_metrics.to_plain(metrics) for metrics in result.batch_metrics]
        if result.metrics is None:
            metrics = workload_metrics.average(batches)
        else:
            metrics = workload_metrics.to_plain(result.metrics)
            workload_metrics.require_loss(list(metrics))
        return {"metrics": metrics, "batch_metrics": batches, "num_inputs": result.num_inputs}

    def _validate(self) -> dict[str, Any]:
        result = self._controller.validate()
        metrics = workload_metrics.check_validation(
            result.metrics, self._searched, self._controller.metric_aliases
        )
        return {"metrics": metrics, "num_inputs": result.num_inputs}


class StepNotes:
    """Tells a source now and then how many batches of a workload are done.

    A thread does it, so that training waits for nobody.
    """

    def __init__(
        self, controller: base_trial.TrialController, source: workload_source.WorkloadSource
    ) -> None:
        self._controller, self._source = controller, source
        self._begun: tuple[int, int, float] | None = None
        self._is_over = threading.Event()

    @contextlib.contextmanager
    def told(self, rank: int) -> Iterator[None]:
        """Tells them in the meantime; of several processes the first one does."""
        thread = threading.Thread(target=self._run, name="quintain-steps", daemon=True)
        if not rank:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()

    @contextlib.contextmanager
    def counted(self, number: int) -> Iterator[None]:
        """Counts the batches of a workload in the meantime."""
        self._begun = number, self._controller.count_batches(), time.monotonic()
        try:
            yield
        finally:
            self._begun = None

    def _run(self) -> None:
        told_at = 0.0
        while not self._is_over.wait(_NOTE_SECS):
            begun, now = self._begun, time.monotonic()
            if begun is not None and now - told_at >= _NOTE_SHARE * (now - begun[2]):
                self._source.note_steps(begun[0], self._controller.count_batches() - begun[1])
                told_at = now


class BatchProfile:
    """Profiles the batches that the part `profiling` of the config names.

    The files lie in `plugins/profile` of the trial's directory for TensorBoard. A trial that goes
    on after the first of these batches profiles what is left of them.
    """

    def __init__(self, context: trial_context.TrialContext) -> None:
        self._context = context
        config = context.get_experiment_config().get("profiling") or {}
        self._begin = int(config.get("begin_on_batch") or 0)
        end = config.get("end_after_batch")
        self._end = self._begin + _PROFILED_BATCHES if end is None else int(end)
        if not config.get("enabled"):
            self._end = self._begin

    def train(
        self, controller: base_trial.TrialController, start: int, num_batches: int
    ) -> base_trial.TrainResult:
        """Trains on the batches after the first `start`."""
        first = min(max(self._begin, start), start + num_batches)
        last = min(max(self._end, first), start + num_batches)
        if first == last:
            return controller.train(num_batches)
        results = []
        if first > start:
            results.append(controller.train(first - start))
        profiler: Any = importlib.import_module("tensorflow").profiler.experimental
        with profiler.Profile(str(self._context.get_tensorboard_path())):
            results.append(controller.train(last - first))
        if last < start + num_batches:
            results.append(controller.train(start + num_batches - last))
        return _join_results(results)


def _join_results(results: list[base_trial.TrainResult]) -> base_trial.TrainResult:
    num_inputs = sum(each.num_inputs for each in results)
    batches = [metrics for each in results for metrics in each.batch_metrics]
    parts = [(each.metrics, each.num_inputs) for each in results if each.metrics is not None]
    if not parts:
        return base_trial.TrainResult(num_inputs, batches)
    means = {
        name: sum(metrics[name] * count for metrics, count in parts) / max(num_inputs, 1)
        for name in parts[0][0]
    }
    return base_trial.TrainResult(num_inputs, batches, means)


def describe_error(error: BaseException, model_dir: pathlib.Path) -> str:
    """Returns the cause of an error, the line of the user's code, and then the user's frames."""
    if isinstance(error, errors.QuintainError):
        return str(error)
    found = user_errors.explain(error)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if pathlib.Path(frame.filename).is_relative_to(model_dir)
    ]
    if not frames:
        return "\n".join([*found.lines, *traceback.format_exception(error)]).rstrip()
    lines = [f"{line}\n" for line in found.lines]
    lines += ["Traceback (most recent call last, in the trial's own files):\n"]
    lines += traceback.format_list(frames)
    lines += traceback.format_exception_only(error)
    return "".join(lines).rstrip()


def _print(message: str) -> None:
    sys.stderr.write(message + "\n")
    sys.stderr.flush()
