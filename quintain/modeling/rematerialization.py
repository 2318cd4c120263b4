"""Rematerialization: layers whose insides are recomputed for the gradient instead of being kept.

A layer that `recomputes` keeps its inputs and outputs only. Its backward pass first runs the layer
again, with the same random numbers, so that gradients are the same to the bit.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import keras
import tensorflow as tf

P = ParamSpec("P")
L = TypeVar("L", bound=keras.layers.Layer)


class Recomputed:
    """Counts the layers that are computed again in the gradient of what is traced."""

    def __init__(self) -> None:
        self.num_layers = 0


_recomputed: Final[contextvars.ContextVar[Recomputed | None]] = contextvars.ContextVar(
    "recomputed", default=None
)


@contextlib.contextmanager
def enabled() -> Iterator[Recomputed]:
    """Layers that `recomputes`, called inside in training, do not keep what they compute."""
    counter = Recomputed()
    with _set(counter):
        yield counter


@contextlib.contextmanager
def _set(counter: Recomputed | None) -> Iterator[None]:
    token = _recomputed.set(counter)
    try:
        yield
    finally:
        _recomputed.reset(token)


def recomputes(call: Callable[Concatenate[L, P], Any]) -> Callable[Concatenate[L, P], Any]:
    """Makes the `call` of a layer one that is run again for its gradient, inside of `enabled`.

    Arguments are tensors, nested lists of tensors, and what is no tensor; gradients flow to those
    of float types that are arguments, and to the weights. `training` must be one of the names. A
    call with a `cache`, which it changes, is as it was.
    """

    @functools.wraps(call)
    def choose(self: L, *args: P.args, **kwargs: P.kwargs) -> Any:
        counter = _recomputed.get()
        if counter is None or not kwargs.get("training") or kwargs.get("cache") is not None:
            return call(self, *args, **kwargs)
        counter.num_layers += 1
        return _Call(self, functools.partial(call, self), args, kwargs).run()

    return choose


class _Call:
    """One call of a layer, as a function of tensors alone: inputs, weights, and state before."""

    def __init__(self, layer: Any, call: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self._layer = layer
        self._call = call
        self._given = tf.nest.flatten((args, kwargs))
        self._structure = (args, kwargs)
        self._places = [
            place
            for place, value in enumerate(self._given)
            if tf.is_tensor(value) and value.dtype.is_floating
        ]
        self._weights = layer.trainable_variables
        # Counters of random numbers among them.
        self._state = layer.non_trainable_variables
        self._before = [tf.identity(_read(variable)) for variable in self._state]
        self._after: list[tuple[keras.Variable, tf.Tensor]] = []
        self._outputs: list[Any] = []
        self._output_structure: Any = None
        self._num_losses = 0

    def run(self) -> Any:
        """Returns what the layer returns, and updates its state."""
        inputs = [tf.convert_to_tensor(self._given[place]) for place in self._places]
        weights = [tf.convert_to_tensor(_read(variable)) for variable in self._weights]
        found = self._compute_with_gradient()(*inputs, *weights)
        for variable, value in self._after:
            variable.assign(value)
        losses = found[len(found) - self._num_losses :]
        for loss in losses:
            self._layer.add_loss(loss)
        tensors = iter(found)
        outputs = [next(tensors) if tf.is_tensor(one) else one for one in self._outputs]
        return tf.nest.pack_sequence_as(self._output_structure, outputs)

    def _compute_with_gradient(self) -> Callable[..., Sequence[tf.Tensor]]:
        @tf.custom_gradient
        def compute(*tensors: tf.Tensor) -> tuple[Sequence[tf.Tensor], Callable[..., Any]]:
            def backward(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
                return self._differentiate(tensors, upstream)

            return self._compute(self._call, tensors, self._before), backward

        return compute

    def _differentiate(
        self, tensors: Sequence[tf.Tensor], upstream: Sequence[tf.Tensor]
    ) -> list[tf.Tensor | None]:
        # Else all layers would be computed again at once, as soon as there are inputs.
        with tf.control_dependencies(upstream):
            tensors = [tf.identity(tensor) for tensor in tensors]
            state = [tf.identity(value) for value in self._before]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            # By Keras, which sets the precision in which the layer computes.
            outputs = self._compute(self._layer, tensors, state)
        gradients: list[tf.Tensor | None] = tape.gradient(outputs, tensors, upstream)
        return gradients

    def _compute(
        self, call: Callable[..., Any], tensors: Sequence[tf.Tensor], state: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Returns the tensors among the outputs, then the losses that the layer added."""
        given = list(self._given)
        for place, tensor in zip(self._places, tensors, strict=False):
            given[place] = tensor
        args, kwargs = tf.nest.pack_sequence_as(self._structure, given)
        scope = keras.StatelessScope(collect_losses=True, initialize_variables=False)
        values = [*tensors[len(self._places) :], *state]
        for variable, value in zip([*self._weights, *self._state], values, strict=True):
            scope.add_update((variable, value))
        with scope, _set(None):  # Layers inside of it are computed again with it.
            outputs = call(*args, **kwargs)
        if not self._outputs:  # The first time, whose state is kept.
            self._outputs = tf.nest.flatten(outputs)
            self._output_structure = outputs
            self._num_losses = len(scope.losses)
            for variable, value in zip(self._state, state, strict=True):
                new = scope.get_current_value(variable)
                if new is not value:
                    self._after.append((variable, new))
        return [one for one in tf.nest.flatten(outputs) if tf.is_tensor(one)] + scope.losses


def _read(variable: keras.Variable) -> Any:
    """Returns the variable of TensorFlow: `value` would be cast to the precision of the layer."""
    return variable._value
