"""Base classes of all kinds of trials: trial and controller."""

import abc
import contextlib
import dataclasses
import inspect
import pathlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, Final

from quintain.trials import trial_context

InvalidHP = trial_context.InvalidHP


class Trial(abc.ABC):  # noqa: B024 - its subclasses say what is abstract
    """Base of everything that a user can let the platform train.

    A subclass may be made in three ways, told apart by the signature of its `__init__`: without
    arguments, with the hyperparameters (`__init__(self, hparams)`), or with a `TrialContext`
    (`__init__(self, context)`).
    """

    controller_module: ClassVar[str] = ""
    """Module whose `build_controller(trial_class, context)` drives this kind of trial."""

    @classmethod
    def find_missing(cls, functions: Collection[str]) -> list[str]:
        """Returns the methods that the class lacks."""
        del functions
        return sorted(getattr(cls, "__abstractmethods__", ()))

    def __init__(self, context: Any = None) -> None:
        """Stores the `TrialContext`, the hyperparameters, or nothing."""
        self.context = context


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """Result of training on some batches."""

    num_inputs: int
    batch_metrics: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Metrics of each batch; empty if only means are known."""

    metrics: dict[str, Any] | None = None
    """Means over the batches; None to compute them from `batch_metrics`."""


@dataclasses.dataclass(frozen=True)
class ValidationResult:
    """Result of one pass through the validation data."""

    metrics: dict[str, Any]
    num_inputs: int


class TrialController(abc.ABC):
    """Drives one kind of trial, as the workload loop asks.

    It is made once for each process. Its state is what `save` writes and `restore` reads: weights,
    optimizer, counters, data position and the random state of the model. Random states of Python
    and NumPy are the loop's.

    Where several processes train a trial, each has a controller, and each method is called on all
    of them at the same point.
    """

    def __init__(self, trial: Any, context: trial_context.TrialContext) -> None:
        self.trial = trial
        self.context = context

    @property
    def part_files(self) -> tuple[str, ...]:
        """Patterns of the files of a checkpoint that each of several processes has of its own.

        All others are those of the first process.
        """
        return ()

    @property
    def metric_aliases(self) -> Mapping[str, str]:
        """Other names of validation metrics that `searcher.metric` may have, and what they mean."""
        return {}

    def list_validation_metrics(self) -> list[str] | None:
        """Returns what a validation will measure, before there was one.

        It is asked before the first batch of a new trial.

        Returns:
            The names of the metrics, or None if only a validation can tell.
        """
        return None

    def file_errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged data name the file, where it is known."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def train(self, num_batches: int) -> TrainResult:
        """Trains on the next batches."""

    def count_batches(self) -> int:
        """Returns the batches trained on so far, from any number on; 0 if that is not known.

        It is called from another thread while `train` goes on.
        """
        return 0

    @abc.abstractmethod
    def validate(self) -> ValidationResult:
        """Goes through the validation data once. The position in the training data stays."""

    @abc.abstractmethod
    def save(self, directory: str) -> None:
        """Writes the state into an empty directory."""

    def measure_state(self) -> int:
        """Returns about how many bytes `save` is going to write; 0 if that is not known."""
        return 0

    @abc.abstractmethod
    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads the state that `save` wrote.

        Args:
            directory: The directory.
            is_warm_start: Whether the state is another trial's: weights and optimizer are taken
                over, counters and the data position start anew.

        Raises:
            CheckpointError: If the state does not fit the trial.
        """

    def close(self) -> None:  # noqa: B027 - most kinds have nothing to do
        """Ends everything, so that the process can end."""


def create_trial(trial_class: type[Any], context: trial_context.TrialContext) -> Any:
    """Makes the user's trial, in the way that its `__init__` wants."""
    names = [name for name in inspect.signature(trial_class).parameters if name != "self"]
    if not names:
        return trial_class()
    return trial_class(context.get_hparams() if names[0] in _HPARAMS_NAMES else context)


_HPARAMS_NAMES: Final = ("hparams", "hyperparameters", "hparam", "params", "hp")


def call_with_hparams(method: Callable[..., Any], context: trial_context.TrialContext) -> Any:
    """Calls a method of a trial with the hyperparameters if it takes an argument, else without.

    Args:
        method: A bound method such as `build_model(self)` or `build_model(self, hparams)`.
        context: What is known of the trial.
    """
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return method(context.get_hparams())
    return method()


def describe_method(trial: Any, name: str) -> str:
    """Returns a method of the user's class with its place, such as `Mine.optimizer() (a.py:7)`."""
    method = getattr(type(trial), name)
    return f"{type(trial).__name__}.{name}(){_place(method)}"


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    return f" ({pathlib.Path(code.co_filename).name}:{code.co_firstlineno})"
