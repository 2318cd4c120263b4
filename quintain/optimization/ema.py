"""Moving average of the weights, which often evaluates better than the weights themselves."""

import contextlib
from collections.abc import Container, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, optimizer_wrapper, serializable
from quintain.reference import reference_names

__getattr__ = reference_names.refusing(__name__)


@serializable.register
class ExponentialMovingAverage(optimizer_wrapper.OptimizerWrapper):
    """Keeps an exponential moving average of the weights that another optimizer updates.

    After update number `t`, counted from 1:

        d = 0                                             if t < start_step
            average_decay                                 else, unless dynamic_decay
            min(average_decay, (1 + u) / (10 + u))        else, u = t - start_step
        average = d * average + (1 - d) * weight

    The average starts as a copy of the weights. `swap_weights` exchanges weights and averages,
    exactly; `averaged` does so for the time of a `with` block, whatever happens in it.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = ExponentialMovingAverage(
        ...     keras.optimizers.SGD(1.0), average_decay=0.5, dynamic_decay=False
        ... )
        >>> _ = optimizer.apply_gradients([(tf.constant([1.0]), weight)])
        >>> with optimizer.averaged():
        ...     weight.numpy().tolist()
        [0.5]
        >>> weight.numpy().tolist()
        [0.0]

    Source:
        Polyak and Juditsky, 1992 (https://doi.org/10.1137/0330046); the growing decay is that of
        `tf.train.ExponentialMovingAverage`.
    """

    def __init__(
        self,
        optimizer: keras.optimizers.Optimizer,
        trainable_weights_only: bool = True,
        average_decay: float = 0.99,
        start_step: int = 0,
        dynamic_decay: bool = True,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        """Stores the parameters of the rule.

        Args:
            optimizer: The optimizer that updates the weights.
            trainable_weights_only: Whether only trainable weights are averaged. Others, such as the
                statistics of batch normalisation, are known only after `shadow_copy(model)`.
            average_decay: Part of the average that is kept at each update, in `[0, 1)`.
            start_step: Update before which the average is a copy of the weights.
            dynamic_decay: Whether the decay grows over the first updates.
            name: Name of the optimizer.

        Raises:
            TypeError: If `optimizer` is not a Keras optimizer.
            ValueError: If a parameter is out of range.
        """
        super().__init__(optimizer, name=name)
        if not 0.0 <= average_decay < 1.0:
            raise ValueError(f"`0 <= average_decay < 1` must hold, but got {average_decay=}.")
        if start_step < 0:
            raise ValueError(f"start_step: got {start_step!r}, expected a number >= 0.")
        self.trainable_weights_only = bool(trainable_weights_only)
        self.average_decay = float(average_decay)
        self.start_step = int(start_step)
        self.dynamic_decay = bool(dynamic_decay)
        self._averaged_weights: tuple[keras.Variable, ...] = ()
        self._averages: list[keras.Variable] = []
        # A variable, so that a checkpoint says which of its values are the averages.
        self._is_swapped = self.add_variable((), "zeros", "bool", name="is_swapped")

    @property
    def has_shadow_copy(self) -> bool:
        """True if the averages exist."""
        return bool(self._averages)

    @property
    def average_weights(self) -> list[keras.Variable]:
        """The averages, in the order of the weights. While swapped, they hold the weights."""
        return list(self._averages)

    @property
    def is_swapped(self) -> bool:
        """True if the weights hold the averages at present."""
        return bool(self._is_swapped.numpy())

    def shadow_copy(self, model: keras.Model) -> None:
        """Starts the averages of a built model, or starts them anew, as copies of the weights."""
        if not self._averages:
            self._create_averages(
                model.trainable_variables if self.trainable_weights_only else model.variables
            )
        self.reset_average()

    def reset_average(self) -> None:
        """Makes the averages copies of the weights, as after weights were loaded."""
        with self._distribution_strategy.scope():
            self._is_swapped.assign(False)
            for weight, average in self._pairs():
                average.assign(weight)

    @property
    def weights(self) -> list[keras.Variable]:
        """Variables of the wrapped optimizer."""
        return list(self.inner_optimizer.variables)

    @property
    def lr(self) -> Any:
        """The learning rate, under its short name."""
        return self.learning_rate

    @lr.setter
    def lr(self, lr: Any) -> None:
        self.learning_rate = lr

    def assign_average_vars(self, var_list: Sequence[keras.Variable]) -> None:
        """Sets weights to their averages, for good.

        Args:
            var_list: Weights of the model; those that are not trainable stay as they are.

        Raises:
            ValueError: If one of them has no average.
        """
        averages = {weight.path: average for weight, average in self._pairs()}
        for weight in var_list:
            if weight.trainable:
                if weight.path not in averages:
                    raise ValueError(f"{weight.path!r} has no average; see `shadow_copy`.")
                weight.assign(averages[weight.path])

    @override
    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Updates weights and averages; `name` has no effect."""
        del name
        return super().apply_gradients(grads_and_vars)

    @override
    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the averages, as copies of `variables`, unless `shadow_copy` has done it."""
        super().build(variables)
        if not self._averages:
            self._create_averages(variables)
            self.reset_average()

    @override
    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Updates the weights by the wrapped optimizer, and then the averages."""
        if not self.built:
            self.build(list(trainable_variables or ()))
        if tf.distribute.in_cross_replica_context():
            self.inner_optimizer.apply(grads, trainable_variables)
            tf.distribute.get_strategy().extended.call_for_each_replica(self.update_average)
            return
        left = {self._var_key(weight): average for weight, average in self._pairs()}
        from quintain.optimization.rules import native_adam  # noqa: PLC0415 - few runs average

        # An optimizer around another may leave the update out.
        moved_with = isinstance(self.inner_optimizer, fused_optimizer.FusedOptimizer)
        with (
            native_adam.averages_fused(
                native_adam.Averages(left, self._var_key, self._compute_decay)
            )
            if moved_with
            else contextlib.nullcontext()
        ):
            self.inner_optimizer.apply(grads, trainable_variables)
        self._move(self.iterations, left)

    def update_average(
        self, strategy: tf.distribute.Strategy | None = None, *, step: Any = None
    ) -> None:
        """Moves the averages towards the weights, in the context of a replica.

        Args:
            strategy: Not used: it is the one that is in force.
            step: Scalar: updates done. Defaults to `iterations`.
        """
        del strategy
        step = self.iterations if step is None else step
        self._move(step, {self._var_key(weight) for weight, _ in self._pairs()})

    def _move(self, step: Any, keys: Container[Any]) -> None:
        decay = self._compute_decay(step)
        for weight, average in self._pairs():
            if self._var_key(weight) not in keys:
                continue
            old = tf.convert_to_tensor(average)
            kept = tf.cast(decay, old.dtype)
            new = tf.cast(tf.convert_to_tensor(weight), old.dtype)
            # A sum of products, so that a decay of 0 copies exactly.
            fused_optimizer.write(average, kept * old + (1 - kept) * new)

    def swap_weights(self) -> None:
        """Exchanges weights and averages, exactly. Call it twice to have the weights back."""
        with self._distribution_strategy.scope():
            for weight, average in self._pairs():
                former = tf.identity(tf.convert_to_tensor(weight))
                weight.assign(average)
                average.assign(former)
            self._is_swapped.assign(not self.is_swapped)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Swaps the averages in, if they are not, and the weights back at the end."""
        if self.is_swapped:
            yield
            return
        self.swap_weights()
        try:
            yield
        finally:
            self.swap_weights()

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "trainable_weights_only": self.trainable_weights_only,
            "average_decay": self.average_decay,
            "start_step": self.start_step,
            "dynamic_decay": self.dynamic_decay,
        }

    def _pairs(self) -> Iterator[tuple[keras.Variable, keras.Variable]]:
        return zip(self._averaged_weights, self._averages, strict=True)

    def _create_averages(self, weights: Sequence[keras.Variable]) -> None:
        # Seeds of dropout and counters are state, not weights.
        floating = [weight for weight in weights if tf.as_dtype(str(weight.dtype)).is_floating]
        self._averaged_weights = tuple(floating)
        self._averages = [
            self.add_variable_from_reference(weight, name="average") for weight in floating
        ]

    def _compute_decay(self, step: Any) -> tf.Tensor:
        """Returns the decay of this update, `[]` float32."""
        since = tf.cast(tf.convert_to_tensor(step), tf.float32) - float(self.start_step)
        decay = tf.constant(self.average_decay)
        if self.dynamic_decay:
            decay = tf.minimum(decay, (1.0 + since) / (10.0 + since))
        return tf.where(since < 0.0, 0.0, decay)
