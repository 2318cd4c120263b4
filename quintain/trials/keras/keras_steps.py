"""Training and test steps of a compiled Keras model, many of them in one call."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from quintain import errors
from quintain.optimization import dense_gradients
from quintain.orbit import iterators
from quintain.trials import random_state
from quintain.trials.graphs import repeatable_random
from quintain.trials.keras import keras_building, keras_data, keras_replicas

_FEW_BATCHES: Final = 8
"""So many calls of a step take less time than tracing and preparing a loop around it, once."""


class Steps:
    """The model's own training and test steps, compiled once."""

    def __init__(
        self, model: keras.Model, jit_compile: bool, replicas: keras_replicas.Replicas
    ) -> None:
        self._model = model
        self._replicas = replicas
        self._is_eager = model.run_eagerly
        self._jit_compile = jit_compile
        self.metric_names: list[str] | None = None
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False, name="random_step")
        """Counts training steps; random operations without a seed of their own depend on it."""
        self._test_number = tf.Variable(0, dtype=tf.int64, trainable=False, name="test_number")
        """Counts the batches of a validation, down from -1: no number of a training step."""
        self._train: Any = self._train_step
        self._test: Any = self._test_step
        if not self._is_eager:
            # Without AutoGraph, as in Keras: converting the code takes longer than tracing it.
            function = functools.partial(
                tf.function, autograph=False, reduce_retracing=True, jit_compile=jit_compile or None
            )
            self._train = function(self._train_step)
            self._test = function(self._test_step)
        self._loop: Any = None
        self._evaluate: Any = None
        self.graph: Any = None
        """What a training step was traced to; None before `build`."""

    def build(self, spec: Any) -> None:
        """Creates all variables, those of optimizer and metrics included; the first call does."""
        if self.metric_names is not None:
            return
        self._create_variables(spec)
        self._replicas.follow(self._model)
        # Eager models are built by tracing a step, too; that one never runs.
        traced = self._train
        if self._is_eager:
            traced = tf.function(self._train_step, autograph=False)
        concrete = traced.get_concrete_function(spec)
        self.graph, outputs = concrete.graph, concrete.structured_outputs
        self.metric_names = list(outputs)
        self._loop = tf.function(
            functools.partial(self._train_loop, outputs), autograph=False, reduce_retracing=True
        )

    def _create_variables(self, spec: Any) -> None:
        """Creates variables before the first trace, which would else be done twice.

        Models that Keras can't build without their data are built by tracing.
        """
        leaves = tf.nest.flatten(spec)
        is_plain = all(isinstance(leaf, tf.TensorSpec) for leaf in leaves)
        if is_plain and type(self._model).train_step is keras.Model.train_step:
            batch = tf.nest.map_structure(
                lambda leaf: keras.KerasTensor(leaf.shape, leaf.dtype.name), spec
            )
            # What is wrong with the model shows when it is traced, and better.
            with contextlib.suppress(Exception):
                keras_building.create_variables(self._model, batch)

    def train(self, batch: Any) -> dict[str, Any]:
        """Trains on one batch and returns its metrics."""
        logs = self._train(batch)
        return {name: value.numpy().tolist() for name, value in logs.items()}

    def train_loop(
        self, data: keras_data.TrainingData, num_batches: int
    ) -> tuple[list[dict[str, Any]], int]:
        """Trains on so many batches in one call and returns the metrics of each."""
        if self._is_eager:
            batches = [data.next_batch() for _ in range(num_batches)]
            return [self.train(batch) for batch in batches], sum(
                map(keras_data.count_inputs, batches)
            )
        stacked, num_inputs = self._loop(data.iterator, tf.constant(num_batches))
        data.position += num_batches
        columns = {name: values.numpy().tolist() for name, values in stacked.items()}
        logs = [
            {name: values[number] for name, values in columns.items()}
            for number in range(num_batches)
        ]
        return logs, int(num_inputs)

    def evaluate(
        self, data: Any, callbacks: keras.callbacks.CallbackList | None = None
    ) -> tuple[dict[str, Any], int]:
        """Goes through the data once and returns metrics and the number of examples.

        Metrics and number are those of all processes. As in Keras, the metrics are the model's,
        unless its own `test_step` returns others: then those that it returned last.
        """
        self._model.reset_metrics()
        self._test_number.assign(-1)
        last: dict[str, Any] = {}
        is_own = type(self._model).test_step is not keras.Model.test_step
        if not isinstance(data, tf.data.Dataset) or self._is_eager or is_own or callbacks:
            num_inputs, last = self._evaluate_each(self._test, data, callbacks)
        elif 0 < int(data.cardinality()) <= _FEW_BATCHES:
            if self._evaluate is None:
                self._evaluate = self._test.get_concrete_function(data.element_spec)
            num_inputs, _ = self._evaluate_each(self._evaluate, data)
        else:
            if self._evaluate is None:
                self._evaluate = tf.function(self._evaluate_loop, autograph=False)
            num_inputs = int(self._evaluate(iterators.create(data)))
        # Of several processes, this adds up what their metrics hold.
        logs = self._model.get_metrics_result()
        if is_own and last.keys() != logs.keys():
            logs = last
        logs = _to_numbers(logs)
        self._model.reset_metrics()
        return logs, self._replicas.add(num_inputs)

    def _train_step(self, batch: Any) -> dict[str, Any]:
        logs: dict[str, Any] = self._replicas.run(self._train_replica, batch)
        if not self._jit_compile:
            dense_gradients.disable_copy_on_read()
        self.step.assign_add(1)
        return logs

    def _train_replica(self, batch: Any) -> dict[str, Any]:
        seed = self.step.read_value() + self._replicas.rank * keras_replicas.SEED_DISTANCE
        with self._step_random_scope(seed):
            logs = self._model.train_step(batch)
        # The metrics of this batch alone are wanted; all exist only after the first step.
        logs = {name: tf.identity(value) for name, value in self._flatten(logs).items()}
        self._model.reset_metrics()
        return logs

    def _test_step(self, batch: Any) -> Any:
        logs = self._replicas.run(self._test_replica, batch)
        self._test_number.assign_sub(1)
        return logs

    def _test_replica(self, batch: Any) -> Any:
        seed = self._test_number.read_value() - self._replicas.rank * keras_replicas.SEED_DISTANCE
        with self._step_random_scope(seed):
            return self._model.test_step(batch)

    @contextlib.contextmanager
    def _step_random_scope(self, seed: tf.Tensor) -> Iterator[None]:
        """Makes random numbers those of a step, whenever and in whatever process it is traced."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(repeatable_random.random_ops_by_step(seed))
            if not tf.executing_eagerly():  # Seeds that Keras' backend draws become constants.
                stack.enter_context(random_state.seed_scope(0))
            yield

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
            return (number + 1, count + keras_data.count_in_graph(batch), *written)

        _, count, *arrays = tf.while_loop(
            lambda number, *rest: number < num_batches,
            body,
            (tf.constant(0), tf.constant(0), *arrays),
            maximum_iterations=num_batches,
        )
        return {name: array.stack() for name, array in zip(names, arrays, strict=True)}, count

    def _evaluate_each(
        self,
        test: Callable[[Any], Any],
        data: Any,
        callbacks: keras.callbacks.CallbackList | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Returns the number of examples, and the metrics that the last step returned."""
        num_inputs, logs = 0, {}
        for number, batch in enumerate(keras_data.iterate(data)):
            if callbacks:
                callbacks.on_test_batch_begin(number)
            logs = self._flatten(test(batch))
            if callbacks:
                callbacks.on_test_batch_end(number, _to_numbers(logs))
            num_inputs += keras_data.count_inputs(batch)
        return num_inputs, logs

    def _flatten(self, logs: Any) -> dict[str, Any]:
        """Returns the metrics of a step as one dict; those of `compile` are a dict in it."""
        if not isinstance(logs, Mapping):
            raise errors.TrialError(
                f"{type(self._model).__name__}.train_step and test_step return a dict of metrics, "
                f"but one returned {logs!r}."
            )
        flat: dict[str, Any] = {}
        for name, value in logs.items():
            flat |= self._flatten(value) if isinstance(value, Mapping) else {name: value}
        return flat

    def _evaluate_loop(self, iterator: Any) -> tf.Tensor:
        # A function in a function is traced twice; only XLA needs the step to be one.
        test = self._test if self._jit_compile else self._test_step

        def body(count: tf.Tensor, element: Any) -> tuple[tf.Tensor, Any]:
            batch = element.get_value()
            test(batch)
            return count + keras_data.count_in_graph(batch), iterator.get_next_as_optional()

        count, _ = tf.while_loop(
            lambda count, element: element.has_value(),
            body,
            (tf.constant(0), iterator.get_next_as_optional()),
        )
        return count


def _to_numbers(logs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in logs.items()}
