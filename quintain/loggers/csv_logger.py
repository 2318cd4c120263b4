"""Metrics as CSV files, a column for each."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from quintain.files import atomic_write, csv_files, file_io, file_paths
from quintain.loggers import metric_logger


class CsvLogger(metric_logger.MetricLogger):
    """Writes `training.csv` and `validation.csv`: step, time, and a column for each metric.

    A metric that comes later gets a column of its own; rows before it have nothing there.
    """

    def __init__(self, directory: str | None = None) -> None:
        """Stores where the files are.

        Args:
            directory: Their directory; None takes that of the run.
        """
        self._directory = directory

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        del run_id
        self._directory = self._directory or run.directory
        file_io.makedirs(self._directory)
        return self._directory

    @override
    def log(self, points: Sequence[metric_logger.Point]) -> None:
        for group in dict.fromkeys(point.group for point in points):
            self._write(group, [point for point in points if point.group == group])

    def _write(self, group: str, points: Sequence[metric_logger.Point]) -> None:
        path = file_paths.join(self._directory or "", f"{group}.csv")
        text = file_io.read_text(path) if file_io.exists(path) else ""
        rows: list[dict[str, Any]] = list(csv.DictReader(io.StringIO(text)))
        # A row that was written before a crash comes again, and a training may have been set back.
        rows = [row for row in rows if int(row["step"]) < points[0].step]
        for point in points:
            metrics = {csv_files.neutralize(name): value for name, value in point.metrics.items()}
            rows.append({"step": point.step, "time": point.time, **metrics})
        file = io.StringIO()
        names = list(dict.fromkeys(name for row in rows for name in row))
        csv_files.write(file, names, ([row.get(name) for name in names] for row in rows))
        if file_paths.is_local(path):
            atomic_write.write_atomically(path, file.getvalue())
        else:
            with file_io.open(path, "w") as remote:
                remote.write(file.getvalue())
