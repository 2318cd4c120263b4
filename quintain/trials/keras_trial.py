"""Compiled Keras models as trials: `fit`, in pieces, resumable to the bit."""

import abc
import functools
import json
import logging
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.trials import base_trial, callback_state, data_position

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
        call = functools.partial(base_trial.call_with_hparams, context=context)
        self._model = call(trial.build_model)
        if not isinstance(self._model, keras.Model) or not self._model.compiled:
            raise errors.TrialError(
                f"{base_trial.describe_method(trial, 'build_model')} returned {self._model!r}, "
                "expected a compiled keras.Model."
            )
        self._accumulate_gradients()
        self._train_data = _TrainingData(call(trial.build_training_data_loader), context)
        self._validation_data = _as_batches(
            call(trial.build_validation_data_loader), context, "validation"
        )
        self._steps = _Steps(self._model, _resolve_jit(trial, self._model))
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
        _read_variables(str(folder / "variables"), self._list_values())
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
        self._steps.build(self._train_data.element_spec)
        searcher = self.context.get_experiment_config().get("searcher") or {}
        searched = str(searcher.get("metric") or "").removeprefix(_PREFIX)
        names = self._steps.metric_names or []
        # A test step of the user's own may measure anything.
        is_own = type(self._model).test_step is not keras.Model.test_step
        if searched and searched not in names and not is_own:
            known = [f"{_PREFIX}{name}" for name in names]
            raise errors.TrialError(
                f"searcher.metric: got {searcher['metric']!r}, which the model does not measure. "
                + base_trial.describe_names(f"{_PREFIX}{searched}", known)
            )

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
            num_inputs += _count(batch)
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


class _TrainingData:
    """Batches without end, whose position can be kept."""

    def __init__(self, data: Any, context: base_trial.TrialContext) -> None:
        self._batches = _as_batches(data, context, "training")
        self.position = 0
        """Batches read so far."""
        self.iterator: Any = None
        """The iterator of a dataset, or None where batches are made by Python."""
        self._has_exact_position = False
        if isinstance(self._batches, tf.data.Dataset):
            self._has_exact_position = data_position.is_saved_exactly(self._batches)
            cardinality = int(self._batches.cardinality())
            self.length = cardinality if cardinality > 0 else None
            if cardinality == 0:
                raise errors.TrialError("build_training_data_loader() gave no data.")
            self._restart()
        else:
            self.length = len(self._batches)

    @property
    def element_spec(self) -> Any:
        """Shapes and types of a batch."""
        if self.iterator is not None:
            return self._batches.element_spec
        batch = tf.nest.map_structure(tf.convert_to_tensor, _as_tuple(self._batches[0]))
        return tf.nest.map_structure(
            lambda part: tf.TensorSpec([None, *part.shape[1:]], part.dtype), batch
        )

    def next_batch(self) -> Any:
        """Returns the next batch."""
        if self.iterator is not None:
            batch = next(self.iterator)
        else:
            number = self.position % self.length if self.length else 0
            batch = tf.nest.map_structure(tf.convert_to_tensor, _as_tuple(self._batches[number]))
            if number + 1 == self.length:
                self._batches.on_epoch_end()
        self.position += 1
        return batch

    def save(self, folder: pathlib.Path) -> None:
        """Writes the position in a dataset."""
        if self.iterator is None or not self._has_exact_position:
            return
        try:
            tf.train.Checkpoint(iterator=self.iterator).write(str(folder / "data"))
        except (tf.errors.OpError, ValueError) as error:
            self._has_exact_position = False
            logger.warning(
                "The position in the training data can't be saved (%s); going on from a "
                "checkpoint reads past the batches that were used.",
                str(error).splitlines()[0],
            )

    def restore(self, folder: pathlib.Path, position: int) -> None:
        """Goes to where `save` was called."""
        if self.iterator is None:
            for number in range(self.position, position):
                if self.length and (number + 1) % self.length == 0:
                    self._batches.on_epoch_end()
            self.position = position
            return
        if (folder / "data.index").exists():
            tf.train.Checkpoint(iterator=self.iterator).read(str(folder / "data")).assert_consumed()
        else:
            for _ in range(position):
                next(self.iterator)
        self.position = position

    def _restart(self) -> None:
        self.iterator = iter(self._batches.repeat())


class _Steps:
    """The model's own training and test steps, compiled once."""

    def __init__(self, model: keras.Model, jit_compile: bool) -> None:
        self._model = model
        self._is_eager = model.run_eagerly
        self.metric_names: list[str] | None = None
        self._train: Any = self._train_step
        self._test: Any = model.test_step
        if not self._is_eager:
            # Without AutoGraph, as in Keras: converting the code takes longer than tracing it.
            function = functools.partial(
                tf.function, autograph=False, reduce_retracing=True, jit_compile=jit_compile or None
            )
            self._train = function(self._train_step)
            self._test = function(model.test_step)
        self._loop: Any = None
        self._evaluate: Any = None

    def build(self, spec: Any) -> None:
        """Creates all variables, those of optimizer and metrics included; the first call does."""
        if self.metric_names is not None:
            return
        # Eager models are built by tracing a step, too; that one never runs.
        traced = self._train
        if self._is_eager:
            traced = tf.function(self._train_step, autograph=False)
        outputs = traced.get_concrete_function(spec).structured_outputs
        self.metric_names = list(outputs)
        self._loop = tf.function(
            functools.partial(self._train_loop, outputs), autograph=False, reduce_retracing=True
        )

    def train(self, batch: Any) -> dict[str, Any]:
        """Trains on one batch and returns its metrics."""
        logs = self._train(batch)
        return {name: value.numpy().tolist() for name, value in logs.items()}

    def train_loop(self, data: _TrainingData, num_batches: int) -> tuple[list[dict[str, Any]], int]:
        """Trains on so many batches in one call and returns the metrics of each."""
        if self._is_eager:
            batches = [data.next_batch() for _ in range(num_batches)]
            return [self.train(batch) for batch in batches], sum(map(_count, batches))
        stacked, num_inputs = self._loop(data.iterator, tf.constant(num_batches))
        data.position += num_batches
        columns = {name: values.numpy().tolist() for name, values in stacked.items()}
        logs = [
            {name: values[number] for name, values in columns.items()}
            for number in range(num_batches)
        ]
        return logs, int(num_inputs)

    def evaluate(self, data: Any) -> tuple[dict[str, Any], int]:
        """Goes through the data once and returns metrics and the number of examples."""
        self._model.reset_metrics()
        if isinstance(data, tf.data.Dataset) and not self._is_eager:
            if self._evaluate is None:
                self._evaluate = tf.function(self._evaluate_loop, autograph=False)
            num_inputs = int(self._evaluate(iter(data)))
        else:
            num_inputs = 0
            for batch in _iterate(data):
                self._test(batch)
                num_inputs += _count(batch)
        logs = {
            name: np.asarray(value).tolist()
            for name, value in self._model.get_metrics_result().items()
        }
        self._model.reset_metrics()
        return logs, num_inputs

    def _train_step(self, batch: Any) -> dict[str, Any]:
        logs = self._model.train_step(batch)
        # The metrics of this batch alone are wanted; all exist only after the first step.
        logs = {name: tf.identity(value) for name, value in logs.items()}
        self._model.reset_metrics()
        return logs

    def _train_loop(
        self, outputs: Mapping[str, tf.TensorSpec], iterator: Any, num_batches: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        names = sorted(outputs)
        arrays = [
            tf.TensorArray(outputs[name].dtype, num_batches, element_shape=outputs[name].shape)
            for name in names
        ]

        def body(number: tf.Tensor, count: tf.Tensor, *arrays: Any) -> tuple[Any, ...]:
            batch = next(iterator)
            logs = self._train(batch)
            written = [
                array.write(number, logs[name]) for name, array in zip(names, arrays, strict=True)
            ]
            return (number + 1, count + _count_in_graph(batch), *written)

        _, count, *arrays = tf.while_loop(
            lambda number, *rest: number < num_batches,
            body,
            (tf.constant(0), tf.constant(0), *arrays),
            maximum_iterations=num_batches,
        )
        return {name: array.stack() for name, array in zip(names, arrays, strict=True)}, count

    def _evaluate_loop(self, iterator: Any) -> tf.Tensor:
        def body(count: tf.Tensor, element: Any) -> tuple[tf.Tensor, Any]:
            batch = element.get_value()
            self._test(batch)
            return count + _count_in_graph(batch), iterator.get_next_as_optional()

        count, _ = tf.while_loop(
            lambda count, element: element.has_value(),
            body,
            (tf.constant(0), iterator.get_next_as_optional()),
        )
        return count


def _resolve_jit(trial: KerasTrial, model: keras.Model) -> bool:
    if trial.jit_compile is not None:
        return trial.jit_compile
    return bool(model.jit_compile and tf.config.list_physical_devices("GPU"))


def _has_batch_hooks(callback: keras.callbacks.Callback) -> bool:
    return any(
        getattr(type(callback), name) is not getattr(keras.callbacks.Callback, name)
        for name in ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
    )


def _as_batches(data: Any, context: base_trial.TrialContext, use: str) -> Any:
    """Returns data as a dataset or a `PyDataset`.

    Raises:
        TrialError: If they are neither, nor arrays.
    """
    if isinstance(data, tf.data.Dataset):
        _require_batches(data, use)
        return data
    if isinstance(data, keras.utils.PyDataset):
        return data
    if isinstance(data, tuple | list) and all(hasattr(part, "shape") for part in data):
        size = context.get_global_batch_size()
        dataset = tf.data.Dataset.from_tensor_slices(tuple(data))
        if use == "training":
            dataset = dataset.shuffle(int(data[0].shape[0]), seed=context.get_trial_seed())
        return dataset.batch(size)
    raise errors.TrialError(
        f"build_{use}_data_loader() returned {type(data).__name__}, expected a batched "
        "tf.data.Dataset, a keras.utils.PyDataset, or a tuple of arrays (x, y)."
    )


def _require_batches(data: tf.data.Dataset, use: str) -> None:
    for part in tf.nest.flatten(data.element_spec):
        if isinstance(part, tf.TensorSpec) and part.shape.rank == 0:
            raise errors.TrialError(
                f"build_{use}_data_loader(): the dataset has elements {data.element_spec}, "
                "expected batches; call .batch(...) on it."
            )


def _as_tuple(batch: Any) -> Any:
    return tuple(batch) if isinstance(batch, list) else batch


def _iterate(data: Any) -> Iterator[Any]:
    if isinstance(data, tf.data.Dataset):
        yield from data
        return
    for number in range(len(data)):
        yield tf.nest.map_structure(tf.convert_to_tensor, _as_tuple(data[number]))
    data.on_epoch_end()


def _count(batch: Any) -> int:
    return int(tf.nest.flatten(batch)[0].shape[0])


def _count_in_graph(batch: Any) -> tf.Tensor:
    first = tf.nest.flatten(batch)[0]
    return first.nrows(tf.int32) if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]


def _read_variables(prefix: str, values: Mapping[str, list[tf.Variable]]) -> None:
    """Assigns what a checkpoint holds.

    Raises:
        CheckpointError: If numbers or shapes of variables differ.
    """
    if not os.path.exists(f"{prefix}.index"):
        raise errors.CheckpointError(f"{prefix}.index: there is no such file.")
    reader = tf.train.load_checkpoint(prefix)
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
    tf.train.Checkpoint(**values).read(prefix).assert_consumed()
