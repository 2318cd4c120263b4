"""Keras models as trials: `fit` in pieces, resumable to the bit."""

import abc
import contextlib
import functools
import json
import logging
import pathlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from keras.src.random import seed_generator
from typing_extensions import override

from quintain import errors
from quintain.checkpoints import state_snapshot
from quintain.core.steps import keras2_code
from quintain.input.diagnosis import data_faults
from quintain.trials import base_trial, trial_context, workload_metrics
from quintain.trials.keras import (
    callback_state,
    keras_data,
    keras_declared,
    keras_loaders,
    keras_replicas,
    keras_settings,
    keras_state,
    keras_steps,
)
from quintain.trials.process import rank_files

_TRAIN_HOOKS: Final = (
    "on_batch_begin",
    "on_batch_end",
    "on_train_batch_begin",
    "on_train_batch_end",
)

_TEST_HOOKS: Final = ("on_test_batch_begin", "on_test_batch_end")


_PREFIX: Final = "val_"
_STATE_FILE: Final = "training_state.json"
_MODEL_FILE: Final = "model.keras"
_CALLBACKS_FILE: Final = "callbacks.npz"

logger = logging.getLogger(__name__)


class KerasTrial(base_trial.Trial):
    """A trial made of a Keras model and its data.

    Example:
        class DigitsTrial(KerasTrial):
            def build_model(self, hparams):
                model = keras.Sequential([keras.layers.Dense(hparams["units"]), ...])
                model.compile(optimizer="adam", loss="mse")
                return model

            def build_training_data_loader(self):
                return dataset.batch(32)

            def build_validation_data_loader(self):
                return test_dataset.batch(32)

    All methods may take the hyperparameters as an argument. Data are a batched `tf.data.Dataset`
    (not repeated), a `keras.utils.PyDataset`, a generator of batches, or a tuple of arrays `(x, y)`
    or `(x, y, weights)`, which is cut into batches of the hyperparameter `global_batch_size` or
    `batch_size` and, for training, shuffled. Instead of the two methods, the module may have a
    function `make_data_loaders(experiment_config, hparams)` that returns both.

    A model that `build_model` does not compile is compiled with what `optimizer`, `loss` and the
    methods for metrics return.
    """

    controller_module: ClassVar[str] = "quintain.trials.keras.keras_trial"

    jit_compile: ClassVar[bool | None] = None
    """Whether XLA compiles the steps. None: on accelerators as the model is compiled, on CPUs not,
    because compiling takes longer there than most trials gain."""

    @classmethod
    def find_missing(cls, functions: Collection[str]) -> list[str]:
        """Returns what the class lacks; data may be those of a function of the module."""
        loaders = ("build_training_data_loader", "build_validation_data_loader")
        own = [name for name in loaders if getattr(cls, name) is getattr(KerasTrial, name)]
        has_data = "make_data_loaders" in functions or hasattr(cls, "make_data_loaders")
        return [*super().find_missing(functions), *(() if has_data else own)]

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Returns the model."""

    def build_training_data_loader(self) -> Any:
        """Returns the training data. One pass through them is an epoch."""

    def build_validation_data_loader(self) -> Any:
        """Returns the validation data."""

    def optimizer(self) -> Any:
        """Returns the optimizer of a model that is not compiled; None where it is."""

    def loss(self) -> Any:
        """Returns the loss of a model that is not compiled, or one for each output."""

    def losses(self) -> Any:
        """Returns the losses by output, where `loss` returns nothing."""

    def loss_weights(self) -> Any:
        """Returns weights of the outputs' losses; None for equal ones."""

    def training_metrics(self) -> Any:
        """Returns metrics of the training of a model that is not compiled.

        Returns:
            A dict with functions of labels and predictions, or other metrics of Keras, by name; or
            a list of them. Of a model with several outputs, `(output, function)` by name, or such a
            dict for each output.
        """

    def validation_metrics(self) -> Any:
        """Returns metrics of validations, as `training_metrics` does.

        A pair of functions computes a value for each batch, and the metric from the list of them.
        """

    def batch_size(self) -> int | None:
        """Returns the size of the batches that arrays are cut into; None takes hyperparameters."""

    def session_config(self) -> Any:
        """Returns a `tf.ConfigProto`, of which the numbers of threads count."""

    def keras_callbacks(self) -> list[keras.callbacks.Callback]:
        """Returns callbacks of the training; none by default.

        They are called as `fit` calls them. An epoch ends after one pass through the training data;
        if a validation follows at once, its metrics are among the logs. Their state is kept in
        checkpoints: attributes that are numbers, texts, arrays and nests of them, or what
        `get_state()` returns if a callback has it, given to `set_state(state)`.
        """
        return []


def build_controller(
    trial_class: type[KerasTrial], context: trial_context.TrialContext
) -> "KerasTrialController":
    """Makes the trial and what drives it."""
    keras.utils.set_random_seed(context.get_trial_seed())
    if (context.get_optimization("mixed_precision") or "O0") != "O0":
        has_gpu = bool(tf.config.list_physical_devices("GPU"))
        keras.config.set_dtype_policy("mixed_float16" if has_gpu else "mixed_bfloat16")
    return KerasTrialController(base_trial.create_trial(trial_class, context), context)


class KerasTrialController(base_trial.TrialController):
    """Trains and validates a compiled model, batch by batch."""

    def __init__(self, trial: KerasTrial, context: trial_context.TrialContext) -> None:
        """Builds model, data and callbacks.

        Raises:
            TrialError: If the model is not compiled, or data are of a kind that is not known.
        """
        super().__init__(trial, context)
        call = functools.partial(base_trial.call_with_hparams, context=context)
        keras_settings.limit_threads(call(trial.session_config))
        # Made now: in a graph it would be a part of it.
        seed_generator.global_seed_generator()
        own = type(trial).build_training_data_loader
        is_own = own is not KerasTrial.build_training_data_loader
        self._loaders = keras_loaders.Loaders(trial, context, call, is_own=is_own)
        self._train_data = self._loaders.training
        self._validation_data = self._loaders.validation
        self._replicas = keras_replicas.Replicas(context)
        self._model = call(trial.build_model)
        self._names: keras_declared.Names | None = None
        is_described = type(trial).optimizer is not KerasTrial.optimizer
        if is_described and isinstance(self._model, keras.Model) and not self._model.compiled:
            self._names = keras_declared.compile_model(trial, self._model, call)
        if not isinstance(self._model, keras.Model) or not self._model.compiled:
            raise errors.TrialError(
                f"{base_trial.describe_method(trial, 'build_model')} returned {self._model!r}, "
                "expected a compiled keras.Model, or beside it a method optimizer() and loss()."
            )
        keras2_code.restore_steps(self._model)
        keras_settings.accumulate_gradients(self._model.optimizer, context)
        self._steps = keras_steps.Steps(
            self._model,
            keras_settings.resolve_jit(trial.jit_compile, self._model, self._replicas.size),
            self._replicas,
        )
        callbacks = call(trial.keras_callbacks)
        self._callbacks = keras.callbacks.CallbackList(callbacks, model=self._model)
        self._callbacks.set_params({"verbose": 0, "epochs": None, "steps": None})
        self._sees_train_batches = _have_hook(self._callbacks.callbacks, _TRAIN_HOOKS)
        self._sees_test_batches = _have_hook(self._callbacks.callbacks, _TEST_HOOKS)
        self._epoch_length = self._find_epoch_length()
        self._progress = _Progress()
        self._state = keras_state.KerasState(self._model, trial, callbacks)
        self._has_begun = False

    @property
    @override
    def part_files(self) -> tuple[str, ...]:
        """Callbacks and random state are of each process; the data, if it has its own share."""
        data = ("data.*",) if self._loaders.has_own_position else ()
        return (_STATE_FILE, _CALLBACKS_FILE, keras_replicas.SEEDS_FILE, *data)

    @property
    def metric_aliases(self) -> Mapping[str, str]:
        """Validation metrics may be called with and without `val_`."""
        names = self._steps.metric_names or []
        if self._names is not None:
            own = {f"{_PREFIX}{name}": name for name in self._names.list_validation()}
            return {**own, "loss": f"{_PREFIX}loss"}
        return {name: f"{_PREFIX}{name}" for name in names}

    def list_validation_metrics(self) -> list[str] | None:
        """Returns the model's metrics; a `test_step` of the user's own may measure anything."""
        self._build()
        if type(self._model).test_step is not keras.Model.test_step:
            return None
        if self._names is not None:
            return self._names.list_validation()
        return [f"{_PREFIX}{name}" for name in self._steps.metric_names or []]

    def file_errors_named(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged records name their file."""
        return data_faults.data_errors_explained(
            lambda: [self._train_data.batches, self._validation_data]
        )

    def train(self, num_batches: int) -> base_trial.TrainResult:
        """Trains on the next batches."""
        self._begin()
        start = self._train_data.position
        self._tell("on_train_workload_begin", start, num_batches, {})
        results: list[dict[str, Any]] = []
        num_inputs = 0
        while len(results) < num_batches:
            self._end_epoch_if_due()
            if self._progress.batch == 0:
                self._callbacks.on_epoch_begin(self._progress.epoch)
            left = num_batches - len(results)
            if self._epoch_length:
                left = min(left, self._epoch_length - self._progress.batch)
            logs, inputs = self._train_piece(left)
            num_inputs += inputs
            logs = self._replicas.average(logs)
            results += logs
            self._progress.add(logs)
            self._progress.is_due = self._progress.batch == self._epoch_length
        self._replicas.synchronize()
        if self._names is not None:
            results = [self._names.rename_training(logs) for logs in results]
        means = workload_metrics.average(results)
        self._tell("on_train_workload_end", start + num_batches, means)
        if self._model.stop_training:
            self.context.set_stop_requested()
        return base_trial.TrainResult(self._replicas.add(num_inputs), results)

    def count_batches(self) -> int:
        """Returns the step on which random numbers depend, which the graph of a loop counts."""
        return int(self._steps.step.numpy())

    def validate(self) -> base_trial.ValidationResult:
        """Goes through the validation data once."""
        self._begin()
        self._callbacks.on_test_begin()
        with state_snapshot.state_restored(self._model):
            logs, num_inputs = self._steps.evaluate(
                self._validation_data, self._callbacks if self._sees_test_batches else None
            )
            reduced = keras_declared.reduce_batches(
                self._names.reduced if self._names and num_inputs else (),
                self._model,
                self._validation_data,
                self._replicas.interleave,
            )
        if not num_inputs:
            raise errors.TrialError(
                base_trial.describe_method(self.trial, "build_validation_data_loader")
                + " gave no data."
            )
        self._callbacks.on_test_end(logs)
        metrics = {f"{_PREFIX}{name}": value for name, value in logs.items()}
        self._progress.validation = metrics
        self._end_epoch_if_due()
        if self._names is not None:
            metrics = self._names.rename_validation(logs) | reduced
        if self._model.stop_training:
            self.context.set_stop_requested()
        return base_trial.ValidationResult(metrics, num_inputs)

    def save(self, directory: str) -> None:
        """Writes weights, optimizer, callbacks, data position and random state of the model."""
        self._begin()
        self._end_epoch_if_due()
        folder = pathlib.Path(directory)
        state = {
            "progress": self._progress.to_plain(),
            "data": self._train_data.position,
            "stop_training": bool(self._model.stop_training),
            "callbacks": callback_state.save(self._callbacks.callbacks, folder / _CALLBACKS_FILE),
        }
        self._state.write(folder)
        self._train_data.save(folder)
        self._replicas.save_seeds(folder, self._state.random)
        (folder / _STATE_FILE).write_text(json.dumps(state))
        try:
            self._model.save(folder / _MODEL_FILE)
        except (TypeError, ValueError, NotImplementedError) as error:
            # The state above is complete; this file is only for those who export the model.
            (folder / _MODEL_FILE).unlink(missing_ok=True)
            logger.warning("The checkpoint has no %s: %s", _MODEL_FILE, error)
        self._tell("on_checkpoint_end", directory)

    def measure_state(self) -> int:
        """Returns the bytes of all variables, which are in the state and in the model's file."""
        self._build()
        return 2 * self._state.measure()

    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads the state that `save` wrote."""
        folder = pathlib.Path(directory)
        self._build()
        self._state.read(folder, is_warm_start=is_warm_start)
        if is_warm_start:
            self._replicas.spread_seeds()
            return
        part = rank_files.find(folder, self.context.distributed)
        self._replicas.restore_seeds(folder, self._state.random)
        state = json.loads((part / _STATE_FILE).read_text())
        self._progress = _Progress.from_plain(state["progress"])
        has_own = self._loaders.has_own_position
        self._train_data.restore(part if has_own else folder, state["data"])
        self._begin()
        callback_state.restore(
            self._callbacks.callbacks, state["callbacks"], part / _CALLBACKS_FILE
        )
        self._model.stop_training = state["stop_training"]

    def close(self) -> None:
        """Ends the training, as callbacks see it."""
        if self._has_begun:
            self._end_epoch_if_due()
            self._callbacks.on_train_end(self._progress.logs())

    def _begin(self) -> None:
        """Builds what is not built, and calls the callbacks, at the first workload."""
        if self._has_begun:
            return
        self._build()
        self._has_begun = True
        self._model.stop_training = False
        self._callbacks.on_train_begin()

    def _build(self) -> None:
        if not self._state.is_found:
            self._steps.build(self._train_data.element_spec)
            self._state.find(self._steps)

    def _tell(self, event: str, *arguments: Any) -> None:
        """Calls a method of the callbacks that have it: `quintain.trials.keras.callbacks`."""
        for callback in self._callbacks.callbacks:
            method = getattr(callback, event, None)
            if method is not None:
                method(*arguments)

    def _train_piece(self, num_batches: int) -> tuple[list[dict[str, Any]], int]:
        """Trains on batches of one epoch; at least one, at most so many."""
        if not self._sees_train_batches and self._train_data.iterator is not None:
            return self._steps.train_loop(self._train_data, num_batches)
        logs: list[dict[str, Any]] = []
        num_inputs = 0
        for _ in range(num_batches):
            number = self._progress.batch + len(logs)
            self._callbacks.on_train_batch_begin(number)
            batch = self._train_data.next_batch()
            logs.append(self._steps.train(batch))
            self.context.has_trained = True
            num_inputs += keras_data.count_inputs(batch)
            self._callbacks.on_train_batch_end(number, logs[-1])
        return logs, num_inputs

    def _end_epoch_if_due(self) -> None:
        if self._progress.is_due:
            self._callbacks.on_epoch_end(self._progress.epoch, self._progress.logs())
            self._progress.start_epoch()
            if self._model.stop_training:
                self.context.set_stop_requested()

    def _find_epoch_length(self) -> int | None:
        config = self.context.get_experiment_config()
        records = config.get("records_per_epoch") or 0
        if records:
            return max(records // self.context.get_global_batch_size(), 1)
        length: int | None = self._replicas.agree(self._train_data.length)
        return length


def _have_hook(callbacks: Iterable[keras.callbacks.Callback], names: Iterable[str]) -> bool:
    """Whether a class overrides one of these methods, or an object has it, as lambdas do."""
    return any(
        getattr(getattr(callback, name), "__func__", None)
        is not getattr(keras.callbacks.Callback, name)
        for callback in callbacks
        for name in names
    )


class _Progress:
    """Position of a training within its epoch, and the metrics of the epoch so far."""

    def __init__(self) -> None:
        self.epoch = 0
        self.batch = 0
        self.is_due = False
        """Whether the epoch is over, and its callbacks were not called yet."""
        self.sums: dict[str, float] = {}
        self.validation: dict[str, Any] = {}

    def add(self, logs: list[dict[str, Any]]) -> None:
        self.batch += len(logs)
        for batch in logs:
            for name, value in batch.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(np.mean(value))

    def logs(self) -> dict[str, Any]:
        """Returns the means of the epoch and the metrics of its last validation."""
        means = {name: total / max(self.batch, 1) for name, total in self.sums.items()}
        return {**means, **self.validation}

    def start_epoch(self) -> None:
        epoch = self.epoch + 1
        self.__init__()  # type: ignore[misc]
        self.epoch = epoch

    def to_plain(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "_Progress":
        progress = cls()
        vars(progress).update(values)
        return progress
