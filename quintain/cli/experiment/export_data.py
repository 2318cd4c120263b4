"""`quintain experiment export-data`: all that is known of an experiment, as files."""

import json
import os
import pathlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from quintain import errors
from quintain.cli import connect, record_ids
from quintain.cli.experiment import table_files
from quintain.cli.lazy_group import FlagCommand
from quintain.client import calls as calls_lib
from quintain.config import yaml_io
from quintain.records.rows import codec, metric

_METRIC_COLUMNS: Final = {
    "trial_id": int,
    "group": str,
    "name": str,
    "total_batches": int,
    "time": float,
    "value": float,
    "text": str,
}
_CHECKPOINT_COLUMNS: Final = {
    "uuid": str,
    "trial_id": int,
    "total_batches": int,
    "state": str,
    "metric": float,
    "time": float,
    "num_bytes": int,
}
_LOG_COLUMNS: Final = {"trial_id": int, "time": float, "source": str, "text": str}
_BATCH: Final = "batch"


@click.command("export-data", cls=FlagCommand)
@record_ids.experiment_argument
@click.argument("directory", metavar="DIRECTORY", type=click.Path(path_type=pathlib.Path))
@click.option(
    "--format",
    "kind",
    type=click.Choice(sorted(table_files.KINDS)),
    default="csv",
    show_default=True,
    help="Of the tables; parquet needs quintain[parquet].",
)
@click.option("--logs/--no-logs", "with_logs", default=True, help="Also what trials wrote.")
def export_data(experiment_id: int, directory: pathlib.Path, kind: str, with_logs: bool) -> None:
    r"""Write all that is known of an experiment into a new directory.

    \b
    experiment.json  the experiment, and where it came from
    config.yaml      its config
    trials           a row for each trial: hyperparameters, metrics, state
    metrics          a row for each value that a trial reported; group "batch" is of single batches
    checkpoints      a row for each checkpoint
    logs             a row for each line that a trial wrote
    """
    taken = click.ClickException(f"{directory}: exists already; give a new directory.")
    if os.path.lexists(directory):
        raise taken
    table_files.check(kind)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (
        connect.open_calls() as calls,
        tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as staging,
    ):
        target = pathlib.Path(staging) / directory.name
        target.mkdir(mode=0o777)
        counts = _write_all(calls, experiment_id, target, kind, with_logs=with_logs)
        try:
            target.rename(directory)
        except OSError as error:
            if not os.path.lexists(directory):
                raise
            raise taken from error  # It was made meanwhile.
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    click.echo(f"Wrote {told} to {directory}.", err=True)


def _write_all(
    calls: calls_lib.Calls,
    experiment_id: int,
    target: pathlib.Path,
    kind: str,
    *,
    with_logs: bool,
) -> dict[str, int]:
    """Writes the files, and returns how many rows each of them has."""
    record = calls.get_experiment(experiment_id)
    try:
        provenance = codec.to_plain(calls.get_provenance(experiment_id))
    except errors.NotFoundError:
        provenance = None
    content = {**codec.to_plain(record), "provenance": provenance}
    (target / "experiment.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    (target / "config.yaml").write_text(yaml_io.dump(record.config), encoding="utf-8")
    table = calls.get_table(experiment_id)
    named = table.name_all()
    names = table.list_names()
    trials = ({name: named[name][row] for name in names} for row in range(table.num_trials))
    trial_ids = named["id"]
    tables: dict[str, tuple[Mapping[str, type] | None, Iterable[Mapping[str, Any]]]] = {
        "trials": (None, trials),
        "metrics": (_METRIC_COLUMNS, _list_values(calls, trial_ids)),
        "checkpoints": (_CHECKPOINT_COLUMNS, _list_checkpoints(calls, experiment_id)),
    }
    if with_logs:
        tables["logs"] = (_LOG_COLUMNS, _list_lines(calls, trial_ids))
    return {
        name: table_files.write(target / name, kind, rows, columns or names)
        for name, (columns, rows) in tables.items()
    }


def _list_values(calls: calls_lib.Calls, trial_ids: Iterable[int]) -> Iterator[dict[str, Any]]:
    for trial_id in trial_ids:
        system = calls.list_metrics(trial_id, group=metric.MetricGroup.SYSTEM)
        for row in (*calls.list_metrics(trial_id), *system):
            yield from _split(trial_id, row.group.value, row.total_batches, row.time, row.metrics)
        for batch in calls.list_batch_metrics(trial_id):
            yield from _split(trial_id, _BATCH, batch.batch, None, batch.metrics)


def _split(
    trial_id: int, group: str, batches: int, time: float | None, values: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yields a row for each of several values; what is no number is written as JSON."""
    for name, value in values.items():
        number = codec.NOT_FINITE.get(value, value) if isinstance(value, str) else value
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        yield {
            "trial_id": trial_id,
            "group": group,
            "name": name,
            "total_batches": batches,
            "time": time,
            "value": float(number) if is_number else None,
            "text": None if is_number else json.dumps(value),
        }


def _list_checkpoints(calls: calls_lib.Calls, experiment_id: int) -> Iterator[dict[str, Any]]:
    for one in calls.list_checkpoints(experiment_id=experiment_id):
        plain = codec.to_plain(one)
        yield {name: plain.get(name) for name in _CHECKPOINT_COLUMNS} | {
            "metric": one.metric,
            "num_bytes": sum(one.files.values()),
        }


def _list_lines(calls: calls_lib.Calls, trial_ids: Iterable[int]) -> Iterator[dict[str, Any]]:
    for trial_id in trial_ids:
        for line in calls.list_logs(trial_id):
            yield {
                "trial_id": trial_id,
                "time": line.time,
                "source": line.source.value,
                "text": line.text,
            }
