"""Base of optimizers that do something around another optimizer."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import keras
import tensorflow as tf
from typing_extensions import override


class OptimizerWrapper(keras.optimizers.Optimizer):
    """Behaves like the optimizer inside: learning rate, count of updates and loss scale are its.

    A subclass overrides `apply`, and calls that of `inner_optimizer` in it.
    """

    def __init__(self, inner_optimizer: keras.optimizers.Optimizer, *, name: str | None) -> None:
        """Wraps the optimizer that updates the weights.

        Raises:
            TypeError: If `inner_optimizer` is not a Keras optimizer.
        """
        if not isinstance(inner_optimizer, keras.optimizers.Optimizer):
            raise TypeError(
                f"inner_optimizer: got {inner_optimizer!r}, expected a keras.optimizers.Optimizer."
            )
        super().__init__(learning_rate=0.0, name=name)
        self.inner_optimizer = inner_optimizer

    @override
    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Prepares this and the wrapped optimizer for updates of `variables`."""
        self.inner_optimizer.build(variables)
        super().build(list(variables))

    @property
    def learning_rate(self) -> Any:
        """Learning rate of the wrapped optimizer; can be set if it is a constant."""
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: Any) -> None:
        self.inner_optimizer.learning_rate = learning_rate

    @property
    def learning_rate_schedule(self) -> keras.optimizers.schedules.LearningRateSchedule | None:
        """The schedule of the wrapped optimizer; None if its learning rate is a constant."""
        return getattr(self.inner_optimizer, "learning_rate_schedule", None)

    @property
    @override
    def iterations(self) -> keras.Variable:
        """Updates done by the wrapped optimizer."""
        return self.inner_optimizer.iterations

    @property
    @override
    def variables(self) -> list[keras.Variable]:
        """Variables of this and of the wrapped optimizer."""
        return [*self._variables, *self.inner_optimizer.variables]

    @override
    def scale_loss(self, loss: tf.Tensor) -> tf.Tensor:
        """Multiplies a loss by the loss scale of the wrapped optimizer."""
        return self.inner_optimizer.scale_loss(loss)

    @override
    def finalize_variable_values(self, var_list: Sequence[keras.Variable]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    @override
    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
        }

    @override
    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        rest = dict(config)
        inner = keras.saving.deserialize_keras_object(
            rest.pop("inner_optimizer"), custom_objects=custom_objects
        )
        return cls(inner, **rest)


def list_nested(optimizer: Any) -> Iterator[Any]:
    """Yields an optimizer, and those that it wraps, from the outside in."""
    while optimizer is not None:
        yield optimizer
        optimizer = getattr(optimizer, "inner_optimizer", None)


def find_wrapper(optimizer: Any, wrapper_cls: type[Any]) -> Any | None:
    """Returns the wrapper of a class around an optimizer, at any depth, or None."""
    return next((one for one in list_nested(optimizer) if isinstance(one, wrapper_cls)), None)
