"""What all kinds of trials have in common: the user's base class, its context, its controller."""

import abc
import contextlib
import dataclasses
import inspect
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from quintain import errors
from quintain.records import trial


class InvalidHP(Exception):  # noqa: N818 - the name that users' code raises
    """Raised by a trial whose hyperparameters make no sense together.

    The trial ends without being restarted, and the search method replaces it where it can.
    """


class Trial(abc.ABC):  # noqa: B024 - its subclasses say what is abstract
    """Base of everything that a user can let the platform train.

    A subclass may be made in three ways, told apart by the signature of its `__init__`: without
    arguments, with the hyperparameters (`__init__(self, hparams)`), or with a `TrialContext`
    (`__init__(self, context)`).
    """

    controller_module: ClassVar[str] = ""
    """Module whose `build_controller(trial_class, context)` drives this kind of trial."""

    def __init__(self, context: Any = None) -> None:
        """Stores the context, for subclasses that call it.

        Args:
            context: The `TrialContext`, the hyperparameters, or nothing.
        """
        self.context = context


class DistributedContext:
    """Which part of a trial this process is. A trial has one process."""

    def get_rank(self) -> int:
        """Returns the number of this process, from 0."""
        return 0

    def get_local_rank(self) -> int:
        """Returns the number of this process on its machine, from 0."""
        return 0

    def get_size(self) -> int:
        """Returns the number of processes of the trial."""
        return 1

    def get_num_agents(self) -> int:
        """Returns the number of machines."""
        return 1


class TrialContext:
    """What a trial can ask about itself, and tell the platform.

    Attributes:
        spec: All that the process knows of its trial.
        distributed: Which part of the trial this process is.
        functions: Functions of the user's module beside the class, by name, such as
            `make_data_loaders`.
        has_trained: Whether a batch was done, by this process or before the checkpoint that it
            goes on from. Where batches are done in one graph, that is known after the first ones.
    """

    def __init__(
        self, spec: trial.TrialSpec, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        """Stores what is known.

        Args:
            spec: The trial.
            functions: Functions of the user's module.
        """
        self.spec = spec
        self.distributed = DistributedContext()
        self.functions = dict(functions or {})
        self.download_data_dir: str | None = None
        self.has_trained = False
        self._is_stop_requested = False

    def get_experiment_config(self) -> dict[str, Any]:
        """Returns the complete config of the experiment, as plain data."""
        return self.spec.experiment_config

    def get_data_config(self) -> dict[str, Any]:
        """Returns the part `data` of the experiment's config."""
        return dict(self.spec.experiment_config.get("data") or {})

    def get_experiment_id(self) -> int:
        """Returns the number of the experiment; 0 without a master."""
        return self.spec.experiment_id

    def get_trial_id(self) -> int:
        """Returns the number of the trial; 0 without a master."""
        return self.spec.trial_id

    def get_trial_seed(self) -> int:
        """Returns the seed of the trial's random numbers, below 2 ** 31."""
        return self.spec.seed

    def get_hparams(self) -> dict[str, Any]:
        """Returns the values of all hyperparameters by name; nested where the space is."""
        return self.spec.hparams

    def get_hparam(self, name: str) -> Any:
        """Returns the value of one hyperparameter.

        Args:
            name: Its name; dots lead into nested ones.

        Raises:
            ConfigError: If there is none of this name; the message has the nearest one.
        """
        value: Any = self.spec.hparams
        if name in value:
            return value[name]
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                raise errors.ConfigError(
                    f"hyperparameters.{name}: the experiment has no such hyperparameter. "
                    + describe_names(name, self.spec.hparams)
                )
            value = value[part]
        return value

    def get_global_batch_size(self) -> int:
        """Returns the hyperparameter `global_batch_size`, or `batch_size` where it is missing.

        Raises:
            ConfigError: If there is neither.
        """
        for name in _BATCH_SIZE_NAMES:
            if name in self.spec.hparams:
                return int(self.spec.hparams[name])
        raise errors.ConfigError(
            "hyperparameters.global_batch_size: the trial asked for it, but the experiment has no "
            "such hyperparameter; add `global_batch_size: 32`, say."
        )

    def get_per_slot_batch_size(self) -> int:
        """Returns the batch size of this process: the global one, as a trial has one process."""
        return self.get_global_batch_size()

    def set_stop_requested(self, stop_requested: bool = True) -> None:
        """Asks that the trial ends, as completed, after the workload it is doing."""
        self._is_stop_requested = stop_requested

    def get_stop_requested(self) -> bool:
        """Returns whether the trial asked to end."""
        return self._is_stop_requested

    def wrap_dataset(self, dataset: Any) -> Any:
        """Returns the dataset; a trial has one process, which reads all of it."""
        return dataset

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Returns the optimizer."""
        return optimizer

    def wrap_model(self, model: Any) -> Any:
        """Returns the model."""
        return model


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """What came out of training on some batches."""

    num_inputs: int
    """Examples seen."""

    batch_metrics: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Metrics of each batch; empty if only means are known."""

    metrics: dict[str, Any] | None = None
    """Means over the batches; None to compute them from `batch_metrics`."""


@dataclasses.dataclass(frozen=True)
class ValidationResult:
    """What came out of one pass through the validation data."""

    metrics: dict[str, Any]
    """Values by name."""

    num_inputs: int
    """Examples seen."""


class TrialController(abc.ABC):
    """Drives one kind of trial, as the workload loop asks.

    It is made once for each process. Its state is what `save` writes and `restore` reads: weights,
    optimizer, counters, data position and the random state of the model. Random states of Python
    and NumPy are the loop's.
    """

    def __init__(self, trial: Any, context: TrialContext) -> None:
        """Stores the trial; subclasses build their graphs here.

        Args:
            trial: The user's trial.
            context: What is known of it.
        """
        self.trial = trial
        self.context = context

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

    def naming_files(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged data name the file, where it is known."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def train(self, num_batches: int) -> TrainResult:
        """Trains on the next batches."""

    @abc.abstractmethod
    def validate(self) -> ValidationResult:
        """Goes through the validation data once. The position in the training data stays."""

    @abc.abstractmethod
    def save(self, directory: str) -> None:
        """Writes the state into an empty directory."""

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


_current: list[TrialContext] = []


def set_current_context(context: TrialContext) -> None:
    """Makes a context the one that the functions of this module tell about."""
    _current[:] = [context]


def get_current_context() -> TrialContext:
    """Returns the context of the trial that this process runs.

    Raises:
        StateError: If it runs none.
    """
    if not _current:
        raise errors.StateError("This is known in the process of a trial only.")
    return _current[0]


def get_trial_seed() -> int:
    """Returns the seed of the trial that this process runs."""
    return get_current_context().get_trial_seed()


def get_experiment_config() -> dict[str, Any]:
    """Returns the config of the experiment of the trial that this process runs."""
    return get_current_context().get_experiment_config()


def get_hyperparameters() -> dict[str, Any]:
    """Returns the hyperparameters of the trial that this process runs."""
    return get_current_context().get_hparams()


def get_download_data_dir() -> str | None:
    """Returns what the module's `download_data` returned, or None if it has none."""
    return get_current_context().download_data_dir


def wrap_dataset(dataset: Any) -> Any:
    """Returns the dataset; a trial has one process, which reads all of it."""
    return dataset


def wrap_optimizer(optimizer: Any) -> Any:
    """Returns the optimizer."""
    return optimizer


def create_trial(trial_class: type[Any], context: TrialContext) -> Any:
    """Makes the user's trial, in the way that its `__init__` wants.

    Args:
        trial_class: The user's class.
        context: What is known of the trial.
    """
    names = [name for name in inspect.signature(trial_class).parameters if name != "self"]
    if not names:
        return trial_class()
    return trial_class(context.get_hparams() if names[0] in _HPARAMS_NAMES else context)


_BATCH_SIZE_NAMES: Final = ("global_batch_size", "batch_size")

_HPARAMS_NAMES: Final = ("hparams", "hyperparameters", "hparam", "params", "hp")


def call_with_hparams(method: Callable[..., Any], context: TrialContext) -> Any:
    """Calls a method of a trial with the hyperparameters if it takes an argument, else without.

    Args:
        method: A bound method such as `build_model(self)` or `build_model(self, hparams)`.
        context: What is known of the trial.
    """
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            return method(context.get_hparams())
    return method()


def describe_names(name: str, known: Iterable[str]) -> str:
    """Returns what there is instead of a name that is not known, the nearest first.

    Example:
        >>> describe_names("los", ["loss", "accuracy"])
        "There are: accuracy, loss. Did you mean 'loss'?"
    """
    names = sorted(known)
    return f"There are: {', '.join(names) or 'none'}.{errors.suggest(name, names)}"


def describe_method(trial: Any, name: str) -> str:
    """Returns a method of the user's class with its place, such as `Mine.optimizer() (a.py:7)`."""
    method = getattr(type(trial), name)
    return f"{type(trial).__name__}.{name}(){_place(method)}"


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    return f" ({pathlib.Path(code.co_filename).name}:{code.co_firstlineno})"
