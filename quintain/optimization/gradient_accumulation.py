"""Gradient accumulation: one update from the gradients of several batches."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain import errors
from quintain.optimization import dense_gradients, optimizer_wrapper, serializable


@serializable.register
class GradientAccumulation(optimizer_wrapper.OptimizerWrapper):
    """Adds up the gradients of `num_batches` batches and then updates the weights once.

    Each replica adds up its own gradients; the update divides them by `num_batches`. Sum over the
    replicas, check for overflow, clipping and weight decay happen once for all batches: for a loss
    that is a mean over examples, this is the update of one batch `num_batches` times as large. A
    step consists of `num_batches - 1` calls of `apply` inside of `accumulating()` and one outside.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = GradientAccumulation(keras.optimizers.SGD(1.0), num_batches=2)
        >>> with optimizer.accumulation_only():
        ...     _ = optimizer.apply_gradients([(tf.constant([0.5]), weight)])
        >>> weight.numpy().tolist()
        [1.0]
        >>> _ = optimizer.apply_gradients([(tf.constant([1.5]), weight)])
        >>> weight.numpy().tolist()
        [0.0]
    """

    def __init__(
        self,
        inner_optimizer: keras.optimizers.Optimizer,
        num_batches: int,
        name: str = "GradientAccumulation",
    ) -> None:
        """Wraps the optimizer that updates the weights, once for `num_batches`, at least 1.

        Raises:
            TypeError: If `inner_optimizer` is not a Keras optimizer.
            ConfigError: If `num_batches` is not positive, or under a parameter-server strategy,
                whose workers would add to one sum.
        """
        if num_batches < 1:
            raise errors.ConfigError(f"num_batches: got {num_batches!r}, expected at least 1.")
        super().__init__(inner_optimizer, name=name)
        if isinstance(
            self._distribution_strategy, tf.distribute.experimental.ParameterServerStrategy
        ):
            raise errors.ConfigError(
                f"trainer.optimizer_config.gradient_accumulation_steps: got {num_batches!r}, but "
                "workers of 'parameter_server' update the weights each by itself; leave it at 1."
            )
        self.num_batches = int(num_batches)
        self._is_accumulating = False
        self._sums = _Sums()

    @property
    def is_accumulating(self) -> bool:
        """True if `apply` only adds to the sums at present."""
        return self._is_accumulating

    @override
    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the sums, one for each variable and replica."""
        super().build(variables)
        with self._distribution_strategy.scope():
            self._sums.create(variables)

    def accumulate(self, take_batch: Callable[[], None], *, is_unrolled: bool = False) -> None:
        """Takes all batches of a step but the last one, whose `apply` updates the weights.

        Args:
            take_batch: Takes one, and applies its gradients.
            is_unrolled: Whether a graph holds it once for each batch, in place of a loop.
        """

        def take(num_taken: Any) -> list[Any]:
            take_batch()
            return [num_taken + 1]

        num_before = self.num_batches - 1
        with self.accumulation_only():
            if is_unrolled:
                for _ in range(num_before):
                    take_batch()
            else:  # Written out, so that AutoGraph need not convert it.
                tf.while_loop(lambda num_taken: num_taken < num_before, take, [0])

    @contextlib.contextmanager
    def accumulation_only(self) -> Iterator[None]:
        """Calls of `apply` inside only add to the sums. A traced step keeps what it was traced in.

        The sums are zero before the first batch of a step and after its update; a checkpoint
        between two steps need not hold them.
        """
        self._is_accumulating = True
        try:
            yield
        finally:
            self._is_accumulating = False

    @override
    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Adds gradients to the sums and, outside of `accumulation_only`, updates the weights.

        Args:
            grads: This replica's gradients; one may be None if it always is.
            trainable_variables: The variables; all that the optimizer was built for by default.

        Raises:
            ValueError: In a cross-replica context.
        """
        if tf.distribute.in_cross_replica_context():
            raise ValueError("`apply` must be called in the context of a replica.")
        if self._is_accumulating:
            self._sums.add(self._find_indices(trainable_variables), grads)
            return
        total = self.take(grads, trainable_variables)
        if self.num_batches > 1:
            total = [None if part is None else part / self.num_batches for part in total]
        self.inner_optimizer.apply(total, trainable_variables)

    def take(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> list[Any]:
        """Returns the sums with gradients of the last batch added, and empties them.

        For an optimizer around this one that looks at the gradients of all batches before `apply`.
        """
        if self.num_batches == 1:
            return list(grads)
        return self._sums.take(self._find_indices(trainable_variables), grads)

    def _find_indices(self, variables: Sequence[keras.Variable] | None) -> list[int]:
        if variables is None:
            variables = self._trainable_variables
        elif not self.built:
            self.build(list(variables))
        return [self._get_variable_index(variable) for variable in variables]

    @override
    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_batches": self.num_batches}


class _Sums:
    """Sums of gradients, each replica its own. Not trackable: no part of a checkpoint."""

    def __init__(self) -> None:
        self._variables: list[tf.Variable] = []

    def create(self, weights: Sequence[keras.Variable]) -> None:
        self._variables = [
            tf.Variable(
                tf.zeros(weight.shape, weight.dtype),
                trainable=False,
                name="gradient_sum",
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=tf.VariableAggregation.SUM,
            )
            for weight in weights
        ]

    def add(self, indices: Sequence[int], gradients: Sequence[Any]) -> None:
        """Adds gradients, dense or sparse, to the sums at `indices`."""
        for index, gradient in zip(indices, gradients, strict=True):
            if gradient is not None:
                total = self._variables[index]
                total.assign_add(dense_gradients.densify(gradient, total))

    def take(self, indices: Sequence[int], gradients: Sequence[Any]) -> list[Any]:
        """Returns the sums with `gradients` added, and sets the sums to 0."""
        totals: list[tf.Tensor | None] = []
        for index, gradient in zip(indices, gradients, strict=True):
            if gradient is None:
                totals.append(None)
                continue
            variable = self._variables[index]
            dense = dense_gradients.densify(gradient, variable)
            totals.append(variable.read_value() + dense)
            variable.assign(tf.zeros_like(dense))
        return totals
