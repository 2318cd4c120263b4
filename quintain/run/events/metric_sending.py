"""Sending of a training's metrics to the loggers that its config names."""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from quintain import orbit
from quintain.checkpoints import evaluation_log
from quintain.core.loop import stateful_trainer
from quintain.files import file_io, file_paths, whole_files
from quintain.loggers import follower, metric_logger
from quintain.run import history
from quintain.run.events import prepared_action
from quintain.settings import config_definitions as cfg

FIELD: Final = "trainer.loggers"
DIRECTORY: Final = "loggers"
"""Directory of a run in which it is kept how far its metrics were sent."""


class MetricSender(prepared_action.PreparedAction):
    """Sends what the run's logs have on record: after each loop, and what an earlier start left.

    It is a train action; `send_evaluation` is one for evaluations. Both come after the actions that
    write the logs.
    """

    def __init__(
        self,
        params: cfg.ExperimentConfig,
        model_dir: str,
        trainer: stateful_trainer.StatefulTrainer,
        find_time: Callable[[], float],
        report: Callable[[str], None],
        project: str,
    ) -> None:
        """Builds the loggers; nothing is sent yet.

        Args:
            params: The experiment.
            model_dir: Directory of the run.
            trainer: Whose metrics are sent.
            find_time: Returns the time of the newest loop on record, in seconds since the epoch.
            report: Is told of outages.
            project: Name of what the run belongs to, where a logger's config names none.

        Raises:
            ConfigError: If there is no such logger, or it does not take these arguments.
        """
        self._model_dir = model_dir
        self._trainer = trainer
        self._find_time = find_time
        self._waiting: list[metric_logger.Point] = []
        path = file_paths.absolute(model_dir)
        run = metric_logger.LoggedRun(
            name=file_paths.basename(path), project=project, params=params.as_dict(), directory=path
        )
        self._followers = [
            self._follow(index, config, run, report)
            for index, config in enumerate(params.trainer.loggers)
        ]

    @override
    def begin(self) -> None:
        """Sends what an earlier start of the run has left."""
        self._waiting = list(self._read_points())
        self._send()

    @override
    def __call__(self, output: Mapping[str, Any]) -> None:
        self._add("training", output)

    def send_evaluation(self, output: Mapping[str, Any]) -> None:
        """Sends the output of an evaluation."""
        self._add("validation", output)

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """Closes the loggers at the end of the block, and tells them how it ended."""
        ending: metric_logger.Ending = "failed"
        try:
            yield
            ending = "completed"
        except orbit.Interrupted:
            ending = "stopped"
            raise
        finally:
            self._send(is_last=True)
            for each in self._followers:
                each.close(ending)

    def _follow(
        self,
        index: int,
        config: Mapping[str, Any],
        run: metric_logger.LoggedRun,
        report: Callable[[str], None],
    ) -> follower.Follower:
        built = metric_logger.build(config, f"{FIELD}[{index}]")
        name = str(config[metric_logger.TYPE])
        path = file_paths.join(self._model_dir, DIRECTORY, f"{index}_{name.replace(':', '.')}.json")
        text = file_io.read_text(path) if file_io.exists(path) else ""
        return follower.Follower(
            built,
            name,
            run,
            follower.Cursor.from_text(text),
            functools.partial(_write_cursor, path),
            report=report,
        )

    def _add(self, group: str, output: Mapping[str, Any]) -> None:
        step = int(self._trainer.global_step.numpy())
        # The time on record, so that a row that is sent a second time is the same.
        newest = self._find_time()
        self._waiting += _to_points(group, step, newest, evaluation_log.to_plain(output))
        self._send()

    def _send(self, *, is_last: bool = False) -> None:
        for each in self._followers:
            each.send(self._waiting, is_last=is_last)
        self._waiting = [
            point
            for point in self._waiting
            if any(point.step > each.cursor.steps.get(point.group, -1) for each in self._followers)
        ]

    def _read_points(self) -> Iterator[metric_logger.Point]:
        """Yields what is on record, by rising step; of a step its training first."""
        step = int(self._trainer.global_step.numpy())
        entries = history.TrainingLog(self._model_dir).read()
        evaluations = evaluation_log.EvaluationLog(self._model_dir).read(step)
        times = {entry["step"]: entry["time_secs"] for entry in entries}
        rows = [("training", entry["step"], entry["metrics"]) for entry in entries]
        rows += [("validation", at, metrics) for at, metrics in evaluations.items()]
        newest = 0.0
        for group, at, metrics in sorted(rows, key=lambda row: row[1:2]):
            newest = times.get(at, newest)
            yield from _to_points(group, at, newest, metrics)


def _to_points(
    group: str, step: int, time: float, metrics: Mapping[str, Any]
) -> Iterator[metric_logger.Point]:
    if numbers := follower.to_finite(metrics):
        yield metric_logger.Point(group, step, time, numbers)


def _write_cursor(path: str | os.PathLike[str], cursor: follower.Cursor) -> None:
    whole_files.write(path, cursor.to_text())
