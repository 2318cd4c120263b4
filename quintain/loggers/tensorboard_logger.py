"""Metrics as TensorBoard event files, written without TensorFlow."""

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer import record_writer
from typing_extensions import override

from quintain import errors
from quintain.files import file_io, file_paths
from quintain.loggers import metric_logger


class TensorBoardLogger(metric_logger.MetricLogger):
    """Writes a file of events: `training/loss`, `validation/accuracy`, ... by step.

    A process that goes on after another one adds a file of its own; rows that are sent a second
    time stand in both, with the same values.
    """

    def __init__(self, directory: str = "") -> None:
        """Stores where the files are.

        Args:
            directory: Their directory, on this machine; that of the run if empty.
        """
        self._directory = directory
        self._path = ""

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        del run_id
        directory = self._directory or run.directory
        if not file_paths.is_local(directory):
            raise errors.ConfigError(f"directory: got {directory!r}, expected one of this machine.")
        file_io.makedirs(directory)
        name = f"events.out.tfevents.{int(time.time())}.{os.getpid()}.metrics"
        self._path = file_paths.join(directory, name)
        self._write([event_pb2.Event(file_version="brain.Event:2", wall_time=time.time())])
        return directory

    @override
    def log(self, points: Sequence[metric_logger.Point]) -> None:
        self._write(
            event_pb2.Event(
                step=point.step,
                wall_time=point.time,
                summary=summary_pb2.Summary(
                    value=[
                        summary_pb2.Summary.Value(tag=name, simple_value=value)
                        for name, value in point.by_full_name.items()
                    ]
                ),
            )
            for point in points
        )

    def _write(self, events: Iterable[Any]) -> None:
        with file_io.open(self._path, "ab") as file:
            writer = record_writer.RecordWriter(file)
            for event in events:
                writer.write(event.SerializeToString())
            writer.flush()
