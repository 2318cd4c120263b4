"""Base class of metric loggers, and their construction from a config."""

import abc
import dataclasses
import importlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from quintain import errors
from quintain.config import field_types
from quintain.process import user_errors

Ending = Literal["completed", "failed", "stopped"]

KINDS: Final[dict[str, str]] = {
    "csv": "quintain.loggers.csv_logger:CsvLogger",
    "mlflow": "quintain.loggers.mlflow_logger:MlflowLogger",
    "tensorboard": "quintain.loggers.tensorboard_logger:TensorBoardLogger",
    "trackio": "quintain.loggers.service_loggers:TrackioLogger",
    "wandb": "quintain.loggers.service_loggers:WandbLogger",
}
"""The loggers that come with the package."""

TYPE: Final = "type"


@dataclasses.dataclass(frozen=True)
class Point:
    """Metrics of one moment."""

    group: str
    """What they were measured on: `training` or `validation`."""

    step: int
    """Steps that were trained."""

    time: float
    """Seconds since the epoch, when they were measured."""

    metrics: Mapping[str, float]
    """Finite numbers by name."""

    @property
    def by_full_name(self) -> dict[str, float]:
        """The metrics, their names with the group: `validation/accuracy`."""
        return {f"{self.group}/{name}": value for name, value in self.metrics.items()}


@dataclasses.dataclass(frozen=True)
class LoggedRun:
    """A training or a trial whose metrics are sent."""

    name: str
    """Its name, as people are to see it."""

    project: str
    """Name of what it belongs to: the registered experiment, or the search."""

    params: Mapping[str, Any]
    """Its settings, nested."""

    directory: str
    """Where its own files are."""


class MetricLogger(abc.ABC):
    """Sends metrics of one run to where they are looked at.

    What it raises is told to the user, and tried again later: it ends no training.
    """

    @abc.abstractmethod
    def open(self, run: LoggedRun, run_id: str) -> str:
        """Begins, or goes on after an earlier process.

        Args:
            run: The run.
            run_id: What this returned for the run before, or an empty text.

        Returns:
            What the run is to be recognised by next time.
        """

    @abc.abstractmethod
    def log(self, points: Sequence[Point]) -> None:
        """Sends points that were not sent before, by rising step.

        After a crash, the newest ones may come a second time, with the same values and times.
        """

    def close(self, ending: Ending) -> None:
        """Called at the end of the process; `stopped` if the run will go on later."""
        del ending


def build(config: Mapping[str, Any], path: str) -> MetricLogger:
    """Builds a logger.

    Args:
        config: Its `type`, one of `KINDS` or `module:Class`, and the arguments of its class.
        path: Where it is in the config, for messages.

    Raises:
        ConfigError: If there is no such logger, or it does not take these arguments.
    """
    built = build_named(config, path, KINDS)
    if not isinstance(built, MetricLogger):
        raise errors.ConfigError(
            f"{path}.{TYPE}: {config[TYPE]!r} is no quintain.loggers.metric_logger.MetricLogger."
        )
    return built


def build_named(
    config: Mapping[str, Any],
    path: str,
    kinds: Mapping[str, str],
    offered: Mapping[str, Any] | None = None,
) -> Any:
    """Builds an object of a class that a config names.

    Args:
        config: The `type`, one of `kinds` or `module:Class`, and the arguments of the class.
        path: Where it is in the config, for messages.
        kinds: `module:Class` by short name; the arguments of these are held to their types.
        offered: Arguments that the class gets if it has parameters of these names.

    Raises:
        ConfigError: If there is no such class, or it does not take these arguments.
    """
    name = config.get(TYPE)
    expected = ", ".join([*map(repr, kinds), "or " * bool(kinds) + "module:Class"])
    if not isinstance(name, str) or (name not in kinds and ":" not in name):
        near = errors.suggest(name, kinds) if isinstance(name, str) else ""
        raise errors.ConfigError(
            f"{path}.{TYPE}: got {errors.show(name)}, expected {expected}.{near}"
        )
    build_one = _find(kinds.get(name, name), f"{path}.{TYPE}")
    arguments = {key: value for key, value in config.items() if key != TYPE}
    parameters = inspect.signature(build_one).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    for key in arguments:
        if key not in parameters and not takes_all:
            raise errors.ConfigError(
                f"{path}.{key}: unknown; {name!r} takes {', '.join(parameters) or 'nothing'}."
                f"{errors.suggest(key, parameters)}"
            )
    if name in kinds:
        _check_types(build_one, arguments, path)
    arguments |= {key: one for key, one in (offered or {}).items() if key in parameters}
    missing = [
        key
        for key, one in parameters.items()
        if one.default is one.empty
        and one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
        and key not in arguments
    ]
    if missing:
        raise errors.ConfigError(f"{path}.{missing[0]}: missing; {name!r} needs it.")
    try:
        return build_one(**arguments)
    except errors.QuintainError:
        raise
    except Exception as error:
        place = user_errors.explain(error).place
        where = f"\n  {place}" if place else ""
        raise errors.ConfigError(f"{path}: {name!r} can't be built: {error!r}{where}") from error


def _check_types(build_one: Any, arguments: Mapping[str, Any], path: str) -> None:
    """Raises ConfigError for arguments that are not of the types of their parameters."""
    parameters = inspect.signature(build_one, eval_str=True).parameters
    problems: list[errors.Problem] = []
    for key, value in arguments.items():
        if key in parameters:
            field_types.convert(parameters[key].annotation, value, f"{path}.{key}", problems)
    if problems:
        raise errors.ConfigError.from_problems(problems)


def _find(name: str, path: str) -> Any:
    """Returns what `module:Class` names."""
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        place = user_errors.explain(error).place
        where = f"\n  {place}" if place else ""
        raise errors.ConfigError(f"{path}: got {name!r}: {error}.{where}") from error
    except AttributeError as error:
        known = vars(importlib.import_module(module))
        raise errors.ConfigError(
            f"{path}: got {name!r}, but {module} has no {attribute!r}."
            f"{errors.suggest(attribute, known)}"
        ) from error


def import_service(package: str, kind: str) -> Any:
    """Returns a package of an extra.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise errors.ConfigError(
            f"The logger {kind!r} needs {package}: `pip install 'quintain[{kind}]'`. ({error})"
        ) from error
