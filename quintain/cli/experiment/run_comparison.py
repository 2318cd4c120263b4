"""Comparison of runs of `quintain train`, each with those that differ from it in seeds only."""

import dataclasses
import math
import pathlib
import zlib
from typing import Any

import click

from quintain.cli import output
from quintain.records.rows import training_run
from quintain.records.views import seeds
from quintain.server.runs import run_index, run_reader


@dataclasses.dataclass(frozen=True)
class _Setting:
    """A run with its further seeds."""

    path: str
    settings_id: str
    values: dict[int, float]
    """Metrics of the last evaluation by seed."""

    def describe(self, metric: str) -> str:
        mean = seeds.Mean.of(list(self.values.values()))
        interval = "" if math.isnan(mean.low) else f" (95 %: {mean.low:.4g} to {mean.high:.4g})"
        count = len(self.values)
        return f"{metric} {mean.mean:.4g}{interval} of {count} seed{'' if count == 1 else 's'}"

    def to_plain(self, metric: str) -> dict[str, Any]:
        mean = seeds.Mean.of(list(self.values.values()))
        values = {str(seed): value for seed, value in sorted(self.values.items())}
        return {"path": self.path, "metric": metric, "seeds": values, **dataclasses.asdict(mean)}


def compare(first: str, second: str, metric: str | None, *, as_json: bool) -> None:
    """Prints which of two runs is better at its last evaluation, and whether by chance.

    Args:
        first: Directory of a run.
        second: That of the other one.
        metric: Name and direction, such as `accuracy:max`. None takes what the first run chooses
            its best checkpoint by.
        as_json: Whether to print JSON.

    Raises:
        ClickException: If they can't be compared.
    """
    reader = run_reader.RunReader()
    name, _, direction = (metric or _find_metric(reader, first)).rpartition(":")
    if not name or direction not in ("min", "max"):
        raise click.UsageError(f"--metric: got {metric!r}, expected NAME:min or NAME:max.")
    ours, theirs = (_read(reader, path, name) for path in (first, second))
    if ours.settings_id == theirs.settings_id:
        raise click.ClickException(
            f"{first} and {second} differ in nothing but seeds. Compare different settings."
        )
    gap = seeds.compare(ours.values, theirs.values, smaller_is_better=direction == "min")
    if as_json:
        lead = {**dataclasses.asdict(gap), "is_tie": not gap.is_clear}
        output.print_json([{**ours.to_plain(name), "lead": lead}, theirs.to_plain(name)])
        return
    told = {one.path: one.describe(name) for one in (ours, theirs)}
    output.print_fields({**told, "the first is": gap.describe(lambda value: f"{value:.4g}")})


def _find(path: str) -> run_index.FoundRun:
    directory = pathlib.Path(path).resolve()
    if not run_index.is_run(directory):
        raise click.UsageError(
            f"got {path!r}, expected the number of an experiment, or a directory that has "
            f"{run_index.PARAMS_FILE}, as `quintain train` writes it."
        )
    return run_index.FoundRun("", directory.name, directory)


def _find_metric(reader: run_reader.RunReader, path: str) -> str:
    trainer = reader.describe(_find(path)).params.get("trainer") or {}
    name = trainer.get("best_checkpoint_eval_metric")
    if not name:
        raise click.UsageError(
            f"{path}: trainer.best_checkpoint_eval_metric is empty. Name a metric, as by "
            "--metric=validation_loss:min."
        )
    is_higher = trainer.get("best_checkpoint_metric_comp", "higher") == "higher"
    return f"{name}:{'max' if is_higher else 'min'}"


def _read(reader: run_reader.RunReader, path: str, metric: str) -> _Setting:
    """Reads a run, and those of the same folder, settings and step."""
    named = _find(path)
    run = reader.summarize(named)
    values: dict[int, float] = {}
    for found in run_index.list_beside(named.path):
        other = reader.summarize(found)
        if (other.settings_id, other.step) != (run.settings_id, run.step):
            continue
        if metric in other.metrics:
            values[_find_seed(reader.describe(found))] = other.metrics[metric]
    if metric not in run.metrics:
        known = ", ".join(sorted(run.metrics)) or "none"
        raise click.ClickException(f"{path} has no metric {metric!r}; it has {known}.")
    return _Setting(path, run.settings_id, values)


def _find_seed(details: training_run.RunDetails) -> int:
    """Returns `runtime.seed`, or a number that no other run has where there is none."""
    seed = (details.params.get("runtime") or {}).get("seed")
    return seed if isinstance(seed, int) else -zlib.crc32(details.run.path.encode())
