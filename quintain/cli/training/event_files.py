"""Writes the metrics of trials as TensorBoard reads them, without TensorFlow.

Each trial has a directory with one file of events: its hyperparameters as the HParams plugin has
them, and a scalar for each metric and row.
"""

import json
import math
import pathlib
import time
from collections.abc import Sequence
from typing import Any, Final

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.summary.writer import record_writer

from quintain.config import provenance
from quintain.records.rows import metric, states
from quintain.records.rows import trial as trial_lib

_FILE_VERSION: Final = "brain.Event:2"
_NUMBER_TEXTS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class TrialEvents:
    """The events of one trial; what was written before is not written again."""

    def __init__(self, directory: pathlib.Path) -> None:
        """Stores where the events go.

        Args:
            directory: Directory of the trial, made by the first `write`.
        """
        self._path = directory / f"events.out.tfevents.{int(time.time())}.quintain"
        self._written: set[tuple[metric.MetricGroup, int, float]] = set()
        self._has_ended = False

    @property
    def is_complete(self) -> bool:
        """True if the end of the trial was written: nothing comes after it."""
        return self._has_ended

    def write(self, trial: trial_lib.TrialRecord, rows: Sequence[metric.MetricRow]) -> None:
        """Adds what is new of a trial.

        Args:
            trial: The trial.
            rows: All of its metrics.
        """
        is_new = not self._path.exists()
        if is_new:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            writer = record_writer.RecordWriter(file)
            if is_new:
                _write(writer, 0.0, file_version=_FILE_VERSION)
                _write(writer, 0.0, summary=_build_start(trial))
            for row in rows:
                place = (row.group, row.total_batches, row.time)
                values = _list_scalars(row)
                if place not in self._written and values:
                    summary = summary_pb2.Summary(value=values)
                    _write(writer, row.time, step=row.total_batches, summary=summary)
                self._written.add(place)
            if trial.state.is_terminal and not self._has_ended:
                _write(writer, trial.end_time or 0.0, summary=_build_end(trial))
                self._has_ended = True


def _write(writer: record_writer.RecordWriter, wall_time: float, **fields: Any) -> None:
    event = event_pb2.Event(wall_time=wall_time, **fields)
    writer.write(event.SerializeToString())


def _list_scalars(row: metric.MetricRow) -> list[summary_pb2.Summary.Value]:
    return [
        summary_pb2.Summary.Value(tag=f"{row.group.value}/{name}", simple_value=number)
        for name, value in row.metrics.items()
        if (number := _to_number(value)) is not None
    ]


def _to_number(value: object) -> float | None:
    if isinstance(value, str):
        return _NUMBER_TEXTS.get(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _build_start(trial: trial_lib.TrialRecord) -> summary_pb2.Summary:
    info = plugin_data_pb2.SessionStartInfo(
        group_name=f"trial {trial.id}", start_time_secs=trial.start_time or 0.0
    )
    for path, value in provenance.flatten(trial.hparams).items():
        _set_value(info.hparams[path], value)
    return _wrap(
        metadata.SESSION_START_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_start_info=info)
    )


def _set_value(target: Any, value: object) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float) and _is_safe(value):
        target.number_value = value
    else:
        target.string_value = value if isinstance(value, str) else json.dumps(value)


def _is_safe(value: float) -> bool:
    """True if a number is one in JSON, too, by which the plugin sends it."""
    number = _to_number(value)
    return number is not None and math.isfinite(number)


def _build_end(trial: trial_lib.TrialRecord) -> summary_pb2.Summary:
    has_failed = trial.state is states.TrialState.ERROR
    status = api_pb2.STATUS_FAILURE if has_failed else api_pb2.STATUS_SUCCESS
    info = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=trial.end_time or 0.0)
    return _wrap(
        metadata.SESSION_END_INFO_TAG, plugin_data_pb2.HParamsPluginData(session_end_info=info)
    )


def _wrap(tag: str, data: plugin_data_pb2.HParamsPluginData) -> summary_pb2.Summary:
    value = summary_pb2.Summary.Value(
        tag=tag,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return summary_pb2.Summary(value=[value])
