"""Metric loggers that use a service's own package."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

from typing_extensions import override

from quintain.config import provenance
from quintain.loggers import metric_logger


class ServiceLogger(metric_logger.MetricLogger, abc.ABC):
    """Sends metrics by the package of a service."""

    PACKAGE: ClassVar[str]
    """Its name, which is that of the extra, too."""

    def __init__(self, project: str = "", name: str = "", **options: Any) -> None:
        """Stores what the run is called.

        Args:
            project: Project of the service; that of the run if empty.
            name: Name of the run; its own if empty.
            **options: Further arguments of the package's `init`.
        """
        self._package = metric_logger.import_service(self.PACKAGE, self.PACKAGE)
        self._project = project
        self._name = name
        self._options = options
        self._run: Any = None


class WandbLogger(ServiceLogger):
    """Sends metrics to Weights & Biases; `wandb.init` also takes `entity`, `tags` and `mode`.

    A row that is sent a second time has a step that is on record, and is ignored there.
    """

    PACKAGE = "wandb"

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        self._run = self._package.init(
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


class TrackioLogger(ServiceLogger):
    """Sends metrics to Trackio; `trackio.init` also takes `server_url`."""

    PACKAGE = "trackio"

    @override
    def open(self, run: metric_logger.LoggedRun, run_id: str) -> str:
        self._run = self._package.init(
            project=self._project or run.project,
            name=run_id or self._name or run.name,
            config=provenance.flatten(run.params),
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
