"""Compiled Keras models as trials: `fit`, in pieces, resumable to the bit."""

import abc
import contextlib
import functools
import json
import logging
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf
from keras.src.random import seed_generator

from quintain import errors
from quintain.core.input import data_faults
from quintain.orbit import literal_paths
from quintain.trials import base_trial, callback_state, keras_data, keras_steps

_PREFIX: Final = "val_"
_STATE_FILE: Final = "training_state.json"
_MODEL_FILE: Final = "model.keras"

logger = logging.getLogger(__name__)


class KerasTrial(base_trial.Trial):
    """A trial made of a compiled Keras model and its data.

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
    (not repeated), a `keras.utils.PyDataset`, or a tuple of arrays `(x, y)` or `(x, y, weights)`,
    which is cut into batches of the hyperparameter `global_batch_size` or `batch_size` and, for
    training, shuffled.
    """

    controller_module: ClassVar[str] = "quintain.trials.keras_trial"

    jit_compile: ClassVar[bool | None] = None
    """Whether XLA compiles the steps. None: on accelerators as the model is compiled, on CPUs not,
    because compiling takes longer there than most trials gain."""

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Returns the compiled model."""

    @abc.abstractmethod
    def build_training_data_loader(self) -> Any:
        """Returns the training data. One pass through them is an epoch."""

    @abc.abstractmethod
    def build_validation_data_loader(self) -> Any:
        """Returns the validation data."""

    def keras_callbacks(self) -> list[keras.callbacks.Callback]:
        """Returns callbacks of the training; none by default.

        They are called as `fit` calls them. An epoch ends after one pass through the training data;
        if a validation follows at once, its metrics are among the logs. Their state is kept in
        checkpoints: attributes that are numbers, texts, arrays and nests of them, or what
        `get_state()` returns if a callback has it, given to `set_state(state)`.
        """
        return []


def build_controller(
    trial_class: type[KerasTrial], context: base_trial.TrialContext
) -> "KerasTrialController":
    """Makes the trial and what drives it."""
    keras.utils.set_random_seed(context.get_trial_seed())
    optimizations = context.get_experiment_config().get("optimizations") or {}
    if optimizations.get("mixed_precision", "O0") != "O0":
        has_gpu = bool(tf.config.list_physical_devices("GPU"))
        keras.config.set_dtype_policy("mixed_float16" if has_gpu else "mixed_bfloat16")
    return KerasTrialController(base_trial.create_trial(trial_class, context), context)


class KerasTrialController(base_trial.TrialController):
    """Trains and validates a compiled model, batch by batch."""

    def __init__(self, trial: KerasTrial, context: base_trial.TrialContext) -> None:
        """Builds model, data and callbacks.

        Raises:
            TrialError: If the model is not compiled, or data are of a kind that is not known.
        """
        super().__init__(trial, context)
        # Made now: in a graph it would be a part of it.
        seed_generator.global_seed_generator()
        call = functools.partial(base_trial.call_with_hparams, context=context)
        self._model = call(trial.build_model)
        if not isinstance(self._model, keras.Model) or not self._model.compiled:
            raise errors.TrialError(
                f"{base_trial.describe_method(trial, 'build_model')} returned {self._model!r}, "
                "expected a compiled keras.Model."
            )
        self._accumulate_gradients()
        self._train_data = keras_data.TrainingData(call(trial.build_training_data_loader), context)
        self._validation_data = keras_data.as_batches(
            call(trial.build_validation_data_loader), context, "validation"
        )
        self._steps = keras_steps.Steps(self._model, _resolve_jit(trial, self._model))
        callbacks = call(trial.keras_callbacks)
        self._callbacks = keras.callbacks.CallbackList(callbacks, model=self._model)
        self._callbacks.set_params({"verbose": 0, "epochs": None, "steps": None})
        self._has_batch_hooks = any(_has_batch_hooks(one) for one in self._callbacks.callbacks)
        self._epoch_length = self._find_epoch_length()
        self._progress = _Progress()
        self._has_begun = False

    @property
    def metric_aliases(self) -> Mapping[str, str]:
        """Validation metrics may be called with and without `val_`."""
        names = self._steps.metric_names or []
        return {name: f"{_PREFIX}{name}" for name in names}

    def list_validation_metrics(self) -> list[str] | None:
        """Returns the model's metrics; a `test_step` of the user's own may measure anything."""
        self._build()
        if type(self._model).test_step is not keras.Model.test_step:
            return None
        return [f"{_PREFIX}{name}" for name in self._steps.metric_names or []]

    def naming_files(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which errors about damaged records name their file."""
        return data_faults.naming(lambda: [self._train_data.batches, self._validation_data])

    def train(self, num_batches: int) -> base_trial.TrainResult:
        """Trains on the next batches."""
        self._begin()
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
            results += logs
            self._progress.add(logs)
            self._progress.is_due = self._progress.batch == self._epoch_length
        if self._model.stop_training:
            self.context.set_stop_requested()
        return base_trial.TrainResult(num_inputs, results)

    def validate(self) -> base_trial.ValidationResult:
        """Goes through the validation data once."""
        self._begin()
        self._callbacks.on_test_begin()
        logs, num_inputs = self._steps.evaluate(self._validation_data)
        if not num_inputs:
            raise errors.TrialError(
                base_trial.describe_method(self.trial, "build_validation_data_loader")
                + " gave no data."
            )
        self._callbacks.on_test_end(logs)
        metrics = {f"{_PREFIX}{name}": value for name, value in logs.items()}
        self._progress.validation = metrics
        self._end_epoch_if_due()
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
            "callbacks": callback_state.save(self._callbacks.callbacks, folder / "callbacks.npz"),
        }
        values = self._list_values()
        tf.train.Checkpoint(**values).write(str(folder / "variables"))
        self._train_data.save(folder)
        (folder / _STATE_FILE).write_text(json.dumps(state))
        try:
            self._model.save(folder / _MODEL_FILE)
        except (TypeError, ValueError, NotImplementedError) as error:
            # The state above is complete; this file is only for those who export the model.
            (folder / _MODEL_FILE).unlink(missing_ok=True)
            logger.warning("The checkpoint has no %s: %s", _MODEL_FILE, error)

    def restore(self, directory: str, *, is_warm_start: bool) -> None:
        """Reads the state that `save` wrote."""
        folder = pathlib.Path(directory)
        self._build()
        values = self._list_values()
        if is_warm_start:
            del values["random"]
        _read_variables(str(folder / "variables"), values)
        if is_warm_start:
            return
        state = json.loads((folder / _STATE_FILE).read_text())
        self._progress = _Progress.from_plain(state["progress"])
        self._train_data.restore(folder, state["data"])
        self._begin()
        callback_state.restore(
            self._callbacks.callbacks, state["callbacks"], folder / "callbacks.npz"
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
        """Creates all variables, those of optimizer and metrics included."""
        self._steps.build(self._train_data.element_spec)

    def _train_piece(self, num_batches: int) -> tuple[list[dict[str, Any]], int]:
        """Trains on batches of one epoch; at least one, at most so many."""
        if not self._has_batch_hooks and self._train_data.iterator is not None:
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
        return self._train_data.length

    def _accumulate_gradients(self) -> None:
        optimizations = self.context.get_experiment_config().get("optimizations") or {}
        steps = optimizations.get("aggregation_frequency") or 1
        if steps > 1:
            self._model.optimizer.gradient_accumulation_steps = steps

    def _list_values(self) -> dict[str, list[tf.Variable]]:
        """Returns all variables, of which the state of the model consists."""
        optimizer = self._model.optimizer
        return {
            "model": [variable.value for variable in self._model.variables],
            "optimizer": [variable.value for variable in optimizer.variables],
            "random": [self._steps.step, seed_generator.global_seed_generator().state.value],
        }


class _Progress:
    """Where in its epoch a training is, and what the epoch measured so far."""

    def __init__(self) -> None:
        self.epoch = 0
        self.batch = 0
        self.is_due = False
        """Whether the epoch is over, and its callbacks were not called yet."""
        self.sums: dict[str, float] = {}
        self.validation: dict[str, Any] = {}

    def add(self, logs: list[dict[str, Any]]) -> None:
        """Counts batches in."""
        self.batch += len(logs)
        for batch in logs:
            for name, value in batch.items():
                self.sums[name] = self.sums.get(name, 0.0) + float(np.mean(value))

    def logs(self) -> dict[str, Any]:
        """Returns the means of the epoch and the metrics of its last validation."""
        means = {name: total / max(self.batch, 1) for name, total in self.sums.items()}
        return {**means, **self.validation}

    def start_epoch(self) -> None:
        """Goes to the beginning of the next epoch."""
        epoch = self.epoch + 1
        self.__init__()  # type: ignore[misc]
        self.epoch = epoch

    def to_plain(self) -> dict[str, Any]:
        """Returns all of it as plain data."""
        return dict(vars(self))

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "_Progress":
        """Returns what `to_plain` was called on."""
        progress = cls()
        vars(progress).update(values)
        return progress


def _resolve_jit(trial: KerasTrial, model: keras.Model) -> bool:
    if trial.jit_compile is not None:
        return trial.jit_compile
    return bool(model.jit_compile and tf.config.list_physical_devices("GPU"))


def _has_batch_hooks(callback: keras.callbacks.Callback) -> bool:
    return any(
        getattr(type(callback), name) is not getattr(keras.callbacks.Callback, name)
        for name in ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
    )


def _read_variables(prefix: str, values: Mapping[str, list[tf.Variable]]) -> None:
    """Assigns what a checkpoint holds.

    Raises:
        CheckpointError: If numbers or shapes of variables differ.
    """
    if not os.path.exists(f"{prefix}.index"):
        raise errors.CheckpointError(f"{prefix}.index: there is no such file.")
    reader = tf.train.load_checkpoint(literal_paths.checkpoint(prefix))
    shapes = reader.get_variable_to_shape_map()
    for part, variables in values.items():
        stored = sorted(name for name in shapes if name.startswith(f"{part}/"))
        if len(stored) != len(variables):
            raise errors.CheckpointError(
                f"{prefix}: it has {len(stored)} variables of the {part}, the trial "
                f"{len(variables)}. Is the model another one than when it was saved?"
            )
        for number, variable in enumerate(variables):
            shape = shapes[f"{part}/{number}/.ATTRIBUTES/VARIABLE_VALUE"]
            if list(shape) != variable.shape.as_list():
                raise errors.CheckpointError(
                    f"{prefix}: variable {number} of the {part} ({variable.name}) has the shape "
                    f"{shape}, the trial's {variable.shape.as_list()}; "
                    f"{math.prod(shape)} values do not fit."
                )
    status = tf.train.Checkpoint(**values).read(literal_paths.checkpoint(prefix))
    status.assert_existing_objects_matched().expect_partial()
