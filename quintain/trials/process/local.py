"""Local run of a trial without a master: `quintain experiment create --local --test`."""

import dataclasses
import math
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from quintain import errors
from quintain.records import checkpoint_manifest
from quintain.records.config import experiment_spec
from quintain.records.rows import exit_codes, trial, workload
from quintain.search import base_search, search_factory
from quintain.storage import checkpoint_storage, directory_storage
from quintain.trials import workload_metrics
from quintain.trials.process import workload_loop, workload_source


class LocalSource(workload_source.WorkloadSource):
    """Gives a fixed list of workloads and keeps what came out of them.

    Args:
        spec: The trial.
        tasks: Kinds of workloads with numbers of batches, such as `("TRAIN", 4)`; the end follows
            by itself.
        tell: Is given a line about each result; None for nothing.

    Attributes:
        results: What was reported, in order.
        exits: What `report_exit` was given.
    """

    def __init__(
        self,
        spec: trial.TrialSpec,
        tasks: Iterable[tuple[str, int]],
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.results: list[workload.WorkloadResult] = []
        self.exits: list[tuple[workload.ExitedReason, str]] = []
        self._spec = spec
        self._tell = tell
        self._workloads = self._number(tasks)

    def start(self) -> trial.TrialSpec:
        """Returns the trial."""
        return self._spec

    def next_workload(self) -> workload.Workload:
        """Returns the next workload of the list."""
        return next(self._workloads)

    def report(self, result: workload.WorkloadResult) -> None:
        """Keeps a result."""
        self.results.append(result)
        if self._tell is not None and result.workload.kind in _TOLD:
            self._tell(_describe_result(result))

    def open_storage(self, spec: trial.TrialSpec) -> checkpoint_storage.TrialStorage:
        """Returns the directory of the trial's checkpoints."""
        return directory_storage.DirectoryStorage(
            pathlib.Path(spec.checkpoint_dir),
            checkpoint_storage.Writer(spec.home_id, spec.experiment_id, spec.launch_id),
        )

    def fetch_checkpoint(self, spec: trial.TrialSpec) -> pathlib.Path:
        """Returns the directory of the checkpoint, which is below that of the trial."""
        scratch = pathlib.Path(spec.scratch_dir)
        return self.open_storage(spec).fetch(spec.checkpoint or "", scratch, spec.checkpoint_files)

    def report_damage(self, checkpoint: str, damage: str) -> trial.TrialSpec:
        """Refuses to go on, for there is no other checkpoint to go on from."""
        raise errors.CheckpointError(f"{checkpoint}: this checkpoint is damaged: {damage}.")

    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Keeps why the trial ended by itself."""
        self.exits.append((reason, message))

    def _number(self, tasks: Iterable[tuple[str, int]]) -> Iterator[workload.Workload]:
        total = 0
        if self._spec.checkpoint and not self._spec.is_warm_start:
            directory = pathlib.Path(self._spec.checkpoint_dir, self._spec.checkpoint)
            total = checkpoint_manifest.read(directory).total_batches
        number = 0
        for number, (kind, num_batches) in enumerate(tasks, start=1):
            yield self._new(workload.WorkloadKind(kind), number, num_batches, total)
            total += num_batches
        yield self._new(workload.WorkloadKind.TERMINATE, number + 1, 0, total)

    def _new(
        self, kind: workload.WorkloadKind, number: int, num_batches: int, total: int
    ) -> workload.Workload:
        return workload.Workload(
            kind=kind,
            experiment_id=self._spec.experiment_id,
            trial_id=self._spec.trial_id,
            number=number,
            num_batches=num_batches,
            total_batches=total,
        )


def run_locally(
    config: experiment_spec.ExperimentSpec,
    model_dir: pathlib.Path | str | None,
    *,
    test: bool,
    tell: Callable[[str], None] | None = None,
) -> None:
    """Runs the first trial of an experiment in this process, without a master.

    Args:
        config: The config of the experiment.
        model_dir: Directory of the user's code; None for registered experiments.
        test: Whether to train on one batch, validate, checkpoint, go on, restore and do that again,
            which shows whether everything works and is restored; else the trial is trained to its
            first validation that the search asks for, or the end.
        tell: Is given one line for each thing that was done; by default it is printed.

    Raises:
        TrialError: If something fails; the message says what, with the user's file and line.
    """
    tell = tell or _write_line
    search = search_factory.build_searcher(config)
    operations = search.start()
    created = next(one for one in operations if isinstance(one, base_search.Create))
    lengths = [
        one.length
        for one in operations
        if isinstance(one, base_search.Train) and one.request_id == created.request_id
    ]
    with tempfile.TemporaryDirectory(prefix="quintain-local-") as directory:
        folder = pathlib.Path(directory)
        (folder / "scratch").mkdir()
        spec = trial.TrialSpec(
            experiment_id=0,
            trial_id=0,
            experiment_config=config.as_dict(),
            hparams=dict(created.hparams),
            seed=created.seed,
            model_dir=str(pathlib.Path(model_dir or folder).resolve()),
            entrypoint=config.entrypoint,
            checkpoint_dir=str(folder / "checkpoints"),
            scratch_dir=str(folder / "scratch"),
        )
        tell(f"Hyperparameters: {spec.hparams}")
        if test:
            _try(spec, tell)
        else:
            length = max(lengths) * config.searcher.batches_per_unit
            unit = config.scheduling_unit
            pieces = [("TRAIN", min(unit, length - start)) for start in range(0, length, unit)]
            _run(LocalSource(spec, [*pieces, ("VALIDATE", 0)], tell))


def _try(spec: trial.TrialSpec, tell: Callable[[str], None]) -> None:
    # What an optimizer has lost shows in the loss of the second batch after it, not of the first.
    begin, rest = [("TRAIN", 1), ("VALIDATE", 0), ("CHECKPOINT", 0)], [("TRAIN", 1)] * 2
    first = LocalSource(spec, [*begin, *rest], tell)
    _run(first)
    stored = first.results[2].checkpoint
    if stored is None:
        raise errors.TrialError("The checkpoint was not reported.")
    again = dataclasses.replace(spec, checkpoint=stored.uuid)
    tell("Restoring the checkpoint:")
    second = LocalSource(again, [("VALIDATE", 0), *rest], tell)
    _run(second)
    _require_equal("Validation", first.results[1].metrics, second.results[0].metrics, 1e-4)
    for before, after in zip(first.results[3:5], second.results[1:3], strict=True):
        _require_equal("Training", before.metrics, after.metrics, 1e-5)
    tell("The restored trial validates and trains as before. All is well.")


def _write_line(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _run(source: LocalSource) -> None:
    code = workload_loop.run(source)
    if code == exit_codes.ExitCode.NO_ROOM:
        raise errors.TrialError("The trial ended, as a disk is full or not there.")
    if code:
        message = source.exits[-1][1] if source.exits else "The trial ended by itself."
        raise errors.TrialError(message)


def _require_equal(
    kind: str, before: Mapping[str, Any], after: Mapping[str, Any], tolerance: float
) -> None:
    """Checks that a restored trial measures what it does without a restart."""
    for name, value in before.items():
        if isinstance(value, int | float) and not np.allclose(
            value, after.get(name, math.nan), rtol=tolerance, atol=1e-6, equal_nan=True
        ):
            raise errors.TrialError(
                f"{kind} metric {name!r} is {value} without a restart and {after.get(name)} after "
                "restoring the checkpoint: something of the trial is not in its checkpoint, or its "
                "data or metrics are random. Hold all state in variables, and seed what is random."
            )


def _describe_result(result: workload.WorkloadResult) -> str:
    metrics = _describe(result.metrics)
    secs = result.end_time - result.start_time
    match result.workload.kind:
        case workload.WorkloadKind.TRAIN:
            start = result.workload.total_batches
            stop = start + result.workload.num_batches
            return f"Trained on batches {start} to {stop} in {secs:.1f} s: {metrics}"
        case workload.WorkloadKind.VALIDATE:
            return f"Validated on {result.num_inputs} examples in {secs:.1f} s: {metrics}"
        case _:
            files = result.checkpoint.files if result.checkpoint else {}
            size = sum(files.values()) / 1e6
            return f"Saved a checkpoint of {len(files)} files, {size:.2f} MB, in {secs:.1f} s"


_TOLD: Final = (
    workload.WorkloadKind.TRAIN,
    workload.WorkloadKind.VALIDATE,
    workload.WorkloadKind.CHECKPOINT,
)


def _describe(metrics: Mapping[str, Any]) -> str:
    plain = workload_metrics.to_plain(metrics)
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in plain.items()
    )
