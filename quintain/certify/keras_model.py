"""A compiled Keras model of either version, as calls to compare it need it."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from quintain.certify import dropout_switch

SETTINGS: Final = (
    *("epsilon", "momentum", "padding", "mask_zero", "rate", "weight_decay", "reset_after"),
    *("label_smoothing", "reduction", "data_format"),
)
"""Attributes of layers, losses and optimizers in which programs differ."""

_SHIFT: Final = "learning_rate_shift"
_SUMS_ROWS: Final = "sums_rows"
_SYMMETRIC: Final = "symmetric_padding"
_BARE_VELOCITY: Final = "bare_velocity"
_TAKES_TRAINING: Final = "takes_training"
_TRAINING_ARGUMENT: Final = "_call_has_training_arg"
"""Attribute of a Keras 3 model by which its step tells `call` that it trains."""


def to_arrays(batch: Any) -> tuple[Any, Any, Any]:
    """Returns features, labels and weights of a batch as arrays; None stands for none."""
    parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    x, y, weights = (*parts, None, None, None)[:3]
    return tuple(tf.nest.map_structure(_to_array, each) for each in (x, y, weights))


def _to_array(value: Any) -> Any:
    return None if value is None else np.asarray(value)


class KerasModel:
    """A model with its optimizer; every comparison begins at the values that were set."""

    def __init__(self, build: Callable[[], Any], keras: Any, batches: Sequence[Any]) -> None:
        """Builds the model.

        Raises:
            TypeError: If the function returns something else than a compiled model.
        """
        self._build = build
        self._keras = keras
        self._batches = batches
        self._changed: list[tuple[Any, str, Any]] = []
        self._gradients: list[Any] = []
        self._sums_rows = False
        self._make(0)
        self._values = self._read()

    def describe(self) -> dict[str, Any]:
        """Returns weights, layers, optimizer and loss with their settings."""
        layers = self._list_layers()
        owners = {id(w): number for number, each in enumerate(layers) for w in each.weights}
        owners |= {
            id(w): number
            for number, each in enumerate(layers)
            for w in each.weights
            if not [one for one in each._flatten_layers(include_self=False) if one is not each]
        }
        trainable = {id(weight) for weight in self._model.trainable_weights}
        weights = [
            {
                "name": getattr(weight, "path", weight.name).removesuffix(":0"),
                "shape": tuple(weight.shape),
                "is_trainable": id(weight) in trainable,
                "layer": owners.get(id(weight), -1),
            }
            for weight in self._model.weights
        ]
        optimizer, loss = self._model.optimizer, self._model.loss
        return {
            "weights": weights,
            "layers": [{"name": each.name, **_describe(each)} for each in layers],
            "optimizer": _describe(optimizer),
            "loss": {"class": loss} if isinstance(loss, str) else _describe(loss),
            _TAKES_TRAINING: getattr(self._model, _TRAINING_ARGUMENT, True),
        }

    def get_values(self, seed: int | None = None) -> list[np.ndarray]:
        """Returns the weights; those of a new model if there is a seed."""
        if seed is not None:
            self._make(seed)
        return self._read()

    def set_values(self, values: Sequence[np.ndarray]) -> None:
        """Sets the weights at which every comparison begins."""
        self._values = list(values)

    def change(self, changes: Sequence[tuple[int | None, str, Any]]) -> None:
        """Changes settings of layers by their numbers, or of the optimizer, for a trial.

        Those that were changed before are set back.
        """
        self._sums_rows = False
        while self._changed:
            target, name, value = self._changed.pop()
            setattr(target, name, value)
        layers = self._list_layers()
        for number, name, value in changes:
            target = self._model.optimizer if number is None else layers[number]
            if name == _SHIFT:
                self._changed.append((target, "learning_rate", target._learning_rate))
                target.learning_rate = self._build_shifted(target._learning_rate, value)
                continue
            if name == _SUMS_ROWS:
                self._sums_rows = value
                continue
            if name == _TAKES_TRAINING:
                target, name = self._model, _TRAINING_ARGUMENT
            if name == _BARE_VELOCITY:
                name, value = "update_step", _build_bare_momentum(target)
            if name == _SYMMETRIC:
                self._changed.append((target, "call", target.call))
                target.call = _build_padded(target)
                name, value = "padding", "valid"
            self._changed.append((target, name, getattr(target, name)))
            setattr(target, name, value)
            if name == "mask_zero":
                self._changed.append((target, "supports_masking", target.supports_masking))
                target.supports_masking = True

    def outputs(self, batch: Any, is_training: bool) -> dict[str, Any]:
        """Returns outputs and those of each layer, and the rates of dropout, which is off."""
        self._restore()
        layers: list[tuple[str, np.ndarray, int]] = []
        with dropout_switch.dropout_off() as rates, self._recording(layers):
            found = self._model(batch[0], training=is_training)
        outputs = [("", one.numpy()) for one in tf.nest.flatten(found)]
        return {
            "outputs": outputs,
            "layers": [(name, value) for name, value, _ in layers],
            "first_parts": [first for _, _, first in layers],
            "rates": list(rates),
        }

    def steps(self, batches: Sequence[Any]) -> list[dict[str, Any]]:
        """Returns loss, penalty, gradients and weights of each step; dropout is off."""
        self._restore()
        self._model.run_eagerly = True
        self._model.train_function = None
        found = []
        with dropout_switch.dropout_off() as rates, self._gradients_kept():
            for x, y, weights in batches:
                self._model(x, training=False)
                penalty = float(sum((tf.reduce_sum(one) for one in self._model.losses), 0.0))
                self._model.reset_metrics()
                self._gradients = [None] * len(self._values)
                logs = self._model.train_on_batch(x, y, weights, return_dict=True)
                values, loss = self._read(), _find_loss(logs)
                found.append(
                    {
                        "loss": loss,
                        "penalty": penalty,
                        "gradients": self._gradients,
                        "values": values,
                        "rates": list(rates),
                    }
                )
        return found

    def train(self, batches: Sequence[Any], order: Sequence[int], seed: int) -> float:
        """Returns the mean loss of all batches after training with dropout."""
        self._restore()
        if self._model.run_eagerly:
            self._model.run_eagerly = False
            self._model.train_function = self._model.test_function = None
        self._model.jit_compile = False
        self._keras.utils.set_random_seed(seed)
        for number in order:
            self._model.train_on_batch(*batches[number])
        total, count = 0.0, 0
        for x, y, weights in batches:
            self._model.reset_metrics()
            logs = self._model.test_on_batch(x, y, weights, return_dict=True)
            rows = len(tf.nest.flatten(y)[0])
            total, count = total + _find_loss(logs) * rows, count + rows
        return total / count

    def _make(self, seed: int) -> None:
        self._keras.backend.clear_session()  # Names begin at the same numbers again.
        self._keras.utils.set_random_seed(seed)
        self._model = self._build()
        if not isinstance(self._model, self._keras.Model):
            kind = f"{type(self._model).__module__}.{type(self._model).__name__}"
            raise TypeError(f"the function returned {kind}, expected a compiled Keras model")
        if getattr(self._model, "optimizer", None) is None:
            raise TypeError("the model is not compiled; call `model.compile(optimizer, loss)`")
        for name in ("train_step", "test_step"):
            vars(self._model)[name] = functools.partial(_step_as_fit, getattr(self._model, name))
        self._model(self._batches[0][0], training=False)
        for optimizer in self._list_optimizers():
            make_slots = getattr(optimizer, "_create_all_weights", None) or optimizer.build
            make_slots(self._model.trainable_variables)
        self._slots = [one.numpy() for one in self._list_slots()]

    def _list_layers(self) -> list[Any]:
        return [one for one in self._model._flatten_layers() if one is not self._model]

    def _list_optimizers(self) -> list[Any]:
        """Returns the compiled optimizer, and others that the model's own step uses."""
        kept = [self._model.optimizer, *vars(self._model).values()]
        kind = self._keras.optimizers.Optimizer
        return list({id(one): one for one in kept if isinstance(one, kind)}.values())

    def _list_slots(self) -> list[Any]:
        found = [one.variables for one in self._list_optimizers()]
        return [slot for one in found for slot in (one() if callable(one) else one)]

    def _read(self) -> list[np.ndarray]:
        return [weight.numpy() for weight in self._model.weights]

    def _restore(self) -> None:
        for weight, value in zip(self._model.weights, self._values, strict=True):
            weight.assign(value)
        for slot, value in zip(self._list_slots(), self._slots, strict=True):
            slot.assign(value)

    @contextlib.contextmanager
    def _recording(self, records: list[tuple[str, np.ndarray, int]]) -> Iterator[None]:
        """Keeps outputs of layers in order of computing, with numbers of their first parts'."""
        layer = self._keras.layers.Layer
        former = layer.__call__
        model = self._model

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            first = len(records)
            found = former(self, *args, **kwargs)
            if self is not model:
                tensors = [one for one in tf.nest.flatten(found) if tf.is_tensor(one)]
                records.extend(
                    (self.name, one.numpy(), first)
                    for one in tensors
                    if isinstance(one, tf.Tensor) and one.dtype.is_floating
                )
            return found

        layer.__call__ = call
        try:
            yield
        finally:
            layer.__call__ = former

    @contextlib.contextmanager
    def _gradients_kept(self) -> Iterator[None]:
        """Keeps the gradients of each update, by the numbers of their weights."""
        numbers = {id(weight): number for number, weight in enumerate(self._model.weights)}

        def keep(former: Any, name: str, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            pairs = list(gradients)
            if name == "apply":
                weights = (
                    args[0] if args else kwargs.get("trainable_variables")
                ) or self._model.trainable_weights
                shown = list(zip(pairs, weights, strict=True))
            else:
                shown = pairs
            for gradient, weight in shown:
                if gradient is not None and id(weight) in numbers:
                    dense = tf.convert_to_tensor(gradient)
                    self._gradients[numbers[id(weight)]] = dense.numpy()
            if self._sums_rows:
                pairs = [None if one is None else tf.convert_to_tensor(one) for one in pairs]
            return former(pairs, *args, **kwargs)

        with contextlib.ExitStack() as stack:
            for optimizer in self._list_optimizers():
                name = "apply" if "apply" in dir(optimizer) else "apply_gradients"
                setattr(optimizer, name, functools.partial(keep, getattr(optimizer, name), name))
                stack.callback(delattr, optimizer, name)
            yield

    def _build_shifted(self, schedule: Any, steps: int) -> Any:
        class Shifted(self._keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[name-defined] # Keras' own
            def __call__(self, step: Any) -> Any:
                return schedule(tf.cast(step, tf.int64) + steps)

        return Shifted()


def _step_as_fit(step: Callable[[Any], Any], data: Any) -> Any:
    """Calls a step with what `fit` gives it: `train_on_batch` of Keras 3 adds a None."""
    return step(data[:-1] if isinstance(data, tuple) and data[-1] is None else data)


def _find_loss(logs: Mapping[str, Any]) -> float:
    if "loss" not in logs:
        raise TypeError(f"a step returned {', '.join(logs) or 'nothing'}, expected 'loss' as well")
    return float(logs["loss"])


def _build_bare_momentum(optimizer: Any) -> Callable[..., Any]:
    """Returns SGD's rule with a velocity of gradients; that of Keras holds the rates, too."""

    def update_step(gradient: Any, variable: Any, rate: Any) -> None:
        velocity = optimizer.momentums[optimizer._get_variable_index(variable)]
        velocity.assign(optimizer.momentum * velocity + gradient)
        ahead = gradient + optimizer.momentum * velocity
        variable.assign_sub(rate * (ahead if optimizer.nesterov else velocity))

    return update_step


def _build_padded(layer: Any) -> Callable[..., Any]:
    """Returns the call of a convolution or pooling with as many zeros before as behind."""
    sizes = getattr(layer, "kernel_size", None) or layer.pool_size
    widths = [[0, 0], *([(size - 1) // 2] * 2 for size in sizes), [0, 0]]
    former = layer.call
    return lambda inputs: former(tf.pad(inputs, widths))


def _describe(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"class": type(thing).__name__}
    settings: Mapping[str, Any] = {}
    with contextlib.suppress(Exception):  # Configs of users' layers may not be complete.
        settings = thing.get_config()
    for name in SETTINGS:
        value = settings.get(name, getattr(thing, name, None))
        if isinstance(value, bool | int | float | str | tuple):
            found[name] = value
    rate = getattr(thing, "_learning_rate", None)
    found["has_schedule"] = callable(rate) and not hasattr(rate, "assign")
    return found
