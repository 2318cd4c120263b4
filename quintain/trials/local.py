"""Runs a trial in this process, without a master: `quintain experiment create --local --test`."""

import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from quintain import errors
from quintain.records import trial, workload
from quintain.trials import (
    trial_checkpoint,
    workload_loop,
    workload_metrics,
    workload_source,
)


class LocalSource(workload_source.WorkloadSource):
    """Gives a fixed list of workloads and keeps what came out of them.

    Attributes:
        results: What was reported, in order.
        exits: What `report_exit` was given.
    """

    def __init__(self, spec: trial.TrialSpec, tasks: Iterable[tuple[str, int]]) -> None:
        """Stores the trial and its work.

        Args:
            spec: The trial.
            tasks: Kinds of workloads with numbers of batches, such as `("TRAIN", 4)`; the end
                follows by itself.
        """
        self.results: list[workload.WorkloadResult] = []
        self.exits: list[tuple[workload.ExitedReason, str]] = []
        self._spec = spec
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

    def report_exit(self, reason: workload.ExitedReason, message: str) -> None:
        """Keeps why the trial ended by itself."""
        self.exits.append((reason, message))

    def _number(self, tasks: Iterable[tuple[str, int]]) -> Iterator[workload.Workload]:
        total = 0
        if self._spec.latest_checkpoint and not self._spec.is_warm_start:
            directory = pathlib.Path(self._spec.latest_checkpoint)
            total = trial_checkpoint.read_metadata(directory).total_batches
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


def try_trial(
    experiment_config: Mapping[str, Any],
    hparams: Mapping[str, Any],
    model_dir: str,
    *,
    seed: int,
    tell: Callable[[str], None],
    num_batches: int = 1,
) -> None:
    """Tries whether a trial works: trains, validates, checkpoints, and restores it anew.

    Args:
        experiment_config: The complete config of the experiment.
        hparams: Values of the hyperparameters.
        model_dir: Directory of the user's code.
        seed: Seed of the trial.
        tell: Is given one line for each thing that was done.
        num_batches: Batches to train on.

    Raises:
        TrialError: If something fails; the message says what, with the user's file and line.
    """
    with tempfile.TemporaryDirectory(prefix="quintain-test-") as directory:
        folder = pathlib.Path(directory)
        spec = trial.TrialSpec(
            experiment_id=0,
            trial_id=0,
            experiment_config=dict(experiment_config),
            hparams=dict(hparams),
            seed=seed,
            model_dir=str(pathlib.Path(model_dir).resolve()),
            entrypoint=experiment_config.get("entrypoint"),
            checkpoint_dir=str(folder / "checkpoints"),
            scratch_dir=str(folder / "scratch"),
        )
        (folder / "scratch").mkdir()
        tell(f"Hyperparameters: {dict(hparams)}")
        first = LocalSource(spec, [("TRAIN", num_batches), ("VALIDATE", 0), ("CHECKPOINT", 0)])
        _run(first)
        train, validation, checkpoint = first.results[:3]
        tell(f"Trained on {num_batches} batch(es): {_describe(train.metrics)}")
        tell(f"Validated on {validation.num_inputs} examples: {_describe(validation.metrics)}")
        stored = checkpoint.checkpoint
        if stored is None:
            raise errors.TrialError("The checkpoint was not reported.")
        total = sum(stored.files.values())
        tell(f"Saved a checkpoint: {len(stored.files)} files, {total / 1e6:.2f} MB")
        again = dataclasses.replace(
            spec, latest_checkpoint=str(folder / "checkpoints" / stored.uuid)
        )
        second = LocalSource(again, [("VALIDATE", 0), ("TRAIN", num_batches)])
        _run(second)
        tell("Restored it, validated and trained again.")
        _require_equal(validation.metrics, second.results[0].metrics)


def _run(source: LocalSource) -> None:
    if workload_loop.run(source):
        message = source.exits[-1][1] if source.exits else "The trial ended by itself."
        raise errors.TrialError(message)


def _require_equal(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    for name, value in before.items():
        if isinstance(value, int | float) and not np.allclose(
            value, after[name], rtol=1e-4, atol=1e-6, equal_nan=True
        ):
            raise errors.TrialError(
                f"Validation metric {name!r} was {value} before the checkpoint and is "
                f"{after[name]} after restoring it: something of the trial is not in its "
                "checkpoint, or the validation is random."
            )


def _describe(metrics: Mapping[str, Any]) -> str:
    plain = workload_metrics.to_plain(metrics)
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in plain.items()
    )
