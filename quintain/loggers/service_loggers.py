"""Metrics for services that are spoken to by packages of their own."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from quintain.loggers import metric_logger


class WandbLogger(metric_logger.MetricLogger):
    """Sends metrics to Weights & Biases, by its package.

    A row that is sent a second time has a step that is on record, and is ignored there.
    """

    def __init__(self, project: str = "", name: str = "", **options: Any) -> None:
        """Stores what the run is called.

        Args:
            project: Project of Weights & Biases; that of the run if empty.
            name: Name of the run; its own if empty.
            **options: Further arguments of `wandb.init`, such as `entity`, `tags` or `mode`.
        """
        self._wandb = metric_logger.import_service("wandb", "wandb")
        self._project = project
        self._name = name
        self._options = options
        self._run: Any = None

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        self._run = self._wandb.init(
            project=self._project or run.project,
            name=self._name or run.name,
            id=run_id or None,
            resume="allow",
            config=dict(run.params),
            **{"dir": run.directory, "reinit": "create_new", **self._options},
        )
        return str(self._run.id)

    @override
    def log(self, points: Sequence[metric_logger.Point]) -> None:
        for point in points:
            self._run.log({**point.by_full_name, "time": point.time}, step=point.step)

    @override
    def close(self, ending: metric_logger.Ending) -> None:
        self._run.finish(exit_code=int(ending == "failed"))


class TrackioLogger(metric_logger.MetricLogger):
    """Sends metrics to Trackio, by its package."""

    def __init__(self, project: str = "", name: str = "", **options: Any) -> None:
        """Stores what the run is called.

        Args:
            project: Project of Trackio; that of the run if empty.
            name: Name of the run; its own if empty.
            **options: Further arguments of `trackio.init`, such as `server_url`.
        """
        self._trackio = metric_logger.import_service("trackio", "trackio")
        self._project = project
        self._name = name
        self._options = options
        self._run: Any = None

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        self._run = self._trackio.init(
            project=self._project or run.project,
            name=run_id or self._name or run.name,
            config=metric_logger.flatten(run.params),
            **{"resume": "allow", "embed": False, **self._options},
        )
        return str(self._run.name)

    @override
    def log(self, points: Sequence[metric_logger.Point]) -> None:
        for point in points:
            self._run.log(metrics=point.by_full_name, step=point.step)

    @override
    def close(self, ending: metric_logger.Ending) -> None:
        del ending
        self._run.finish()
