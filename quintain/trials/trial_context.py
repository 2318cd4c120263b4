"""Context of a trial: its config, hyperparameters and ranks."""

import logging
import pathlib
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from quintain import errors
from quintain.records.rows import trial
from quintain.trials import distributed_context
from quintain.trials.older import pedl_context

_BATCH_SIZE_NAMES: Final = ("global_batch_size", "batch_size")

logger = logging.getLogger(__name__)


class InvalidHP(Exception):  # noqa: N818 - the name that users' code raises
    """Raised by a trial whose hyperparameters make no sense together.

    The trial ends without being restarted, and the search method replaces it where it can.
    """


MetricOp = Any
ValidOp = Any
"""Types that trials of PEDL name in annotations."""

TENSORBOARD: Final = "tensorboard"


class TrialContext:
    """Context of a trial: its config, hyperparameters and ranks, and requests to the platform.

    Attributes:
        spec: All that the process knows of its trial.
        distributed: Which part of the trial this process is.
        experimental: What later versions of PEDL had under this name.
        functions: Functions of the user's module beside the class, by name, such as
            `make_data_loaders`.
        download_data_dir: What the function `download_data` returned, or None if there is none.
        has_trained: Whether a batch was done, by this process or before the checkpoint that it
            goes on from. Where batches are done in one graph, that is known after the first ones.
        initial_batch: Batches that were done when this process started.
        validation_steps: Batches of a validation at most, as `configure_fit` says; None for all.
        optimizer_wrapper: What the optimizers of this kind of trial are wrapped by.
        has_wrapped_optimizer: Whether the trial's code asked for that.
        has_wrapped_dataset: Whether it divided its data among the processes itself.
        has_divided_batch_size: Whether it asked for the batch size of one process.
    """

    def __init__(
        self, spec: trial.TrialSpec, functions: Mapping[str, Callable[..., Any]] | None = None
    ) -> None:
        self.spec = spec
        nodes = [each.node for each in spec.peers] or [""]
        self.distributed = distributed_context.DistributedContext(
            spec.rank, nodes, key=spec.exchange_key
        )
        self.experimental = pedl_context.ExperimentalContext(self)
        self.functions = dict(functions or {})
        self.download_data_dir: str | None = None
        self.has_trained = False
        self.initial_batch = 0
        self.validation_steps: int | None = None
        self.optimizer_wrapper: Callable[[Any], Any] = lambda optimizer: optimizer
        self.has_wrapped_optimizer = False
        self.has_wrapped_dataset = False
        self.has_divided_batch_size = False
        self._is_stop_requested = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "TrialContext":
        """Returns the context of a trial that nothing runs, for a look at its methods.

        Args:
            config: The config of an experiment; each hyperparameter is a constant.
        """
        hparams = {
            name: value.get("val", value) if isinstance(value, Mapping) else value
            for name, value in (config.get("hyperparameters") or {}).items()
        }
        seed = (config.get("reproducibility") or {}).get("experiment_seed") or 0
        spec = trial.TrialSpec(
            experiment_id=0,
            trial_id=0,
            experiment_config=dict(config),
            hparams=hparams,
            seed=int(seed) % 2**31,
            model_dir=".",
            entrypoint=config.get("entrypoint"),
            checkpoint_dir=".",
            scratch_dir=".",
        )
        return cls(spec)

    def get_experiment_config(self) -> dict[str, Any]:
        """Returns the complete config of the experiment, as plain data."""
        return self.spec.experiment_config

    def get_data_config(self) -> dict[str, Any]:
        """Returns the part `data` of the experiment's config."""
        return dict(self.spec.experiment_config.get("data") or {})

    def get_optimization(self, name: str) -> Any:
        """Returns a setting of the part `optimizations` of the config; None if it is not set."""
        return (self.spec.experiment_config.get("optimizations") or {}).get(name)

    def get_experiment_id(self) -> int:
        """Returns the number of the experiment; 0 without a master."""
        return self.spec.experiment_id

    def get_trial_id(self) -> int:
        """Returns the number of the trial; 0 without a master."""
        return self.spec.trial_id

    def get_trial_seed(self) -> int:
        """Returns the seed of the trial's random numbers, below 2 ** 31."""
        return self.spec.seed

    def get_initial_batch(self) -> int:
        """Returns how many batches were done when this process started."""
        return self.initial_batch

    def get_rank(self) -> int:
        """Returns the number of this process, from 0."""
        return self.distributed.get_rank()

    def get_local_rank(self) -> int:
        """Returns the number of this process on its machine, from 0."""
        return self.distributed.get_local_rank()

    def get_size(self) -> int:
        """Returns the number of processes of the trial."""
        return self.distributed.get_size()

    def get_num_agents(self) -> int:
        """Returns the number of machines."""
        return self.distributed.get_num_agents()

    def get_tensorboard_path(self) -> pathlib.Path:
        """Returns the directory whose event files `quintain tensorboard` shows."""
        kept = self.spec.tensorboard_dir
        path = pathlib.Path(kept) if kept else pathlib.Path(self.spec.scratch_dir, TENSORBOARD)
        path.mkdir(parents=True, exist_ok=True)
        return path

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
        """Returns the batch size of this process: its share of the global one, rounded down.

        Data in batches of this size have to be this process' share: `wrap_dataset` takes it.

        Raises:
            InvalidHP: If there is less than one example for each process.
        """
        batch_size, size = self.get_global_batch_size(), self.distributed.size
        if batch_size < size:
            raise InvalidHP(
                f"global_batch_size: got {batch_size}, expected at least {size}, one example for "
                "each process of the trial."
            )
        if batch_size % size:
            logger.warning(
                "global_batch_size: %d is no multiple of the %d processes; %d examples are in a "
                "batch.", batch_size, size, batch_size // size * size,
            )  # fmt: skip
        self.has_divided_batch_size = True
        return batch_size // size

    def set_stop_requested(self, stop_requested: bool = True) -> None:
        """Asks that the trial ends, as completed, after the workload it is doing."""
        self._is_stop_requested = stop_requested

    def get_stop_requested(self) -> bool:
        """Returns whether the trial asked to end."""
        return self._is_stop_requested

    def wrap_dataset(self, dataset: Any, shard_dataset: bool = True) -> Any:
        """Returns the share of a dataset that is this process' own.

        Data that are not wrapped are read by each process of a trial, which takes its share of each
        batch: with them, batches are those of a single process.

        Args:
            dataset: A `tf.data.Dataset` of examples, before they are made batches.
            shard_dataset: Whether it is still to be divided; else it is the share already.
        """
        self.has_wrapped_dataset = True
        distributed = self.distributed
        if not shard_dataset or distributed.size == 1:
            return dataset
        return dataset.shard(distributed.size, distributed.rank)

    def wrap_optimizer(self, optimizer: Any) -> Any:
        """Returns the optimizer, or one that adds up gradients as `optimizations` says."""
        self.has_wrapped_optimizer = True
        return self.optimizer_wrapper(optimizer)

    def wrap_model(self, model: Any) -> Any:
        """Returns the model."""
        return model

    def configure_fit(
        self,
        verbose: Any = None,
        class_weight: Any = None,
        workers: int | None = None,
        use_multiprocessing: bool | None = None,
        max_queue_size: int | None = None,
        shuffle: bool | None = None,
        validation_steps: int | None = None,
    ) -> None:
        """Takes what `fit` is given elsewhere, for Keras trials.

        Args:
            verbose: Without effect; the platform shows progress.
            class_weight: Not offered.
            workers: Without effect.
            use_multiprocessing: Without effect.
            max_queue_size: Without effect.
            shuffle: Without effect; arrays are shuffled.
            validation_steps: Batches of a validation at most; None for all.

        Raises:
            TrialError: If there are weights of classes.
        """
        del verbose, workers, use_multiprocessing, max_queue_size, shuffle
        if class_weight is not None:
            raise errors.TrialError(
                f"configure_fit: got class_weight={errors.show(class_weight)}; let the training "
                "data have weights of the examples as a third part, (x, y, weights)."
            )
        self.validation_steps = validation_steps

    def make_metric(self, metric: Any, reducer: Any, numpy_dtype: Any) -> tuple[Any, Any]:
        """Returns an entry for `eval_metric_ops` of an estimator, computed by Python.

        Args:
            metric: A tensor, a list of tensors, or a dict of them.
            reducer: A function of the list of the values of all batches, or a
                `quintain.trials.estimator.MetricReducer`.
            numpy_dtype: The type of what it returns.
        """
        from quintain.trials import estimator_reducers  # noqa: PLC0415 - it needs TensorFlow.

        return estimator_reducers.build(metric, reducer, numpy_dtype)


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


def download_data(context: TrialContext) -> None:
    """Calls the function `download_data` of the user's module, if there is one."""
    download = context.functions.get("download_data")
    if download is not None:
        config, hparams = context.get_experiment_config(), context.get_hparams()
        context.download_data_dir = download(config, hparams)


def get_trial_seed() -> int:
    """Returns the seed of the trial that this process runs."""
    return get_current_context().get_trial_seed()


def get_trial_id() -> int:
    """Returns the number of the trial that this process runs."""
    return get_current_context().get_trial_id()


def get_experiment_id() -> int:
    """Returns the number of the experiment of the trial that this process runs."""
    return get_current_context().get_experiment_id()


def get_experiment_config() -> dict[str, Any]:
    """Returns the config of the experiment of the trial that this process runs."""
    return get_current_context().get_experiment_config()


def get_hyperparameters() -> dict[str, Any]:
    """Returns the hyperparameters of the trial that this process runs."""
    return get_current_context().get_hparams()


def get_hyperparameter(name: str) -> Any:
    """Returns a hyperparameter of the trial that this process runs; see `get_hparam`."""
    return get_current_context().get_hparam(name)


def get_download_data_dir() -> str | None:
    """Returns what the module's `download_data` returned, or None if it has none."""
    return get_current_context().download_data_dir


def is_valid_url(url: str) -> bool:
    """Returns whether a text is an address with a scheme and a host, as PEDL's programs ask.

    Example:
        >>> is_valid_url("https://data.example.org/mnist/"), is_valid_url("data/mnist")
        (True, False)
    """
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)


def wrap_dataset(dataset: Any, shard_dataset: bool = True) -> Any:
    """Returns what `TrialContext.wrap_dataset` returns; outside of trials the dataset."""
    return _current[0].wrap_dataset(dataset, shard_dataset) if _current else dataset


def wrap_optimizer(optimizer: Any) -> Any:
    """Returns what `TrialContext.wrap_optimizer` returns; outside of trials the optimizer."""
    return _current[0].wrap_optimizer(optimizer) if _current else optimizer


def wrap_model(model: Any) -> Any:
    """Returns the model."""
    return model


def describe_names(name: str, known: Iterable[str]) -> str:
    """Returns what there is instead of a name that is not known, the nearest first.

    Example:
        >>> describe_names("los", ["loss", "accuracy"])
        "There are: accuracy, loss. Did you mean 'loss'?"
    """
    names = sorted(known)
    return f"There are: {', '.join(names) or 'none'}.{errors.suggest(name, names)}"
