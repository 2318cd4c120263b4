"""Gradients of single examples, clipped and summed, for differentially private training.

The forward and the backward pass of one example are vectorised over a microbatch and compiled by
XLA. The gradient of a weight matrix is a product of two small factors, and is summed over examples
as one large product; it need not be laid out for each example, except to measure its norm.

Shapes:
    B  examples in a replica's batch
    M  examples in a microbatch
    K  microbatches, the last of which is filled up
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from quintain import errors
from quintain.checkpoints import checkpoint_state
from quintain.core.privacy import gradient_parts, vectorized_random
from quintain.core.steps import autograph

logger = logging.getLogger(__name__)

MICROBATCH_BYTES: Final = 256 * 2**20
"""Memory that the gradients of a microbatch may take, where its size is not given."""

LossFn = Callable[[Any, Any, keras.Model], tf.Tensor]
"""Computes the loss of a batch of one example from labels, model outputs and the model."""


class ClippedSum(NamedTuple):
    """Sum of the clipped gradients of a batch."""

    gradients: list[tf.Tensor | None]
    """For each trainable variable the sum of the examples' clipped gradients; None for a variable
    that the loss does not depend on."""

    losses: tf.Tensor
    """`[B]`: the loss of each example."""

    outputs: Any
    """Outputs of the model, with B as the first dimension."""


class ClippedGradients:
    """Computes the sum of clipped gradients of a batch.

    The gradient of an example over all trainable variables is scaled down to an L2 norm of at most
    `clipping_norm`. An example whose gradient is not finite adds nothing, so that no example, of
    whatever content, moves the sum by more than `clipping_norm`.
    """

    def __init__(
        self,
        model: keras.Model,
        loss_fn: LossFn,
        *,
        clipping_norm: float,
        microbatch_size: int | None = None,
        num_microbatches: int | None = None,
        loss_scale: float | None = None,
    ) -> None:
        """Stores what is computed.

        Args:
            model: The model.
            loss_fn: Computes the loss; called with batches of one example.
            clipping_norm: Largest L2 norm of one example's gradient.
            microbatch_size: Examples whose gradients are in memory at the same time. None: as many
                as fit into `MICROBATCH_BYTES`.
            num_microbatches: Parts that a batch is cut into, instead.
            loss_scale: Factor by which the loss is multiplied before the backward pass, in
                float16.

        Raises:
            ConfigError: If a layer of the model mixes examples.
        """
        _check_layers(model)
        self._model = model
        self._loss_fn = loss_fn
        self._clipping_norm = clipping_norm
        self.loss_scale = loss_scale
        self._microbatch_size = microbatch_size or _choose_microbatch_size(model)
        self._num_microbatches = num_microbatches
        self._generators = checkpoint_state.seed_generators(model)
        loops = [layer.name for layer in model._flatten_layers() if _has_loop(layer)]
        self._is_vectorized = not loops
        if loops:
            self._microbatch_size, self._num_microbatches = 1, None
            logger.warning(
                "The layers %s loop over time, which can't be vectorised: examples are taken one "
                "by one, which is slow. Give the layers `unroll=True` if sequences are short.",
                loops,
            )
        self._compiled = tf.function(
            self._sum_batch, jit_compile=self._is_vectorized, autograph=False
        )

    def compute(self, features: Any, labels: Any, is_real: tf.Tensor) -> ClippedSum:
        """Computes losses, outputs and the sum of clipped gradients.

        Args:
            features: Inputs of the model, tensors of first dimension B.
            labels: Labels, tensors of first dimension B.
            is_real: `[B]` bool. Rows where it is False add nothing.

        Raises:
            ConfigError: If the model changes other variables than the trainable ones.
        """
        seeds = [_spread_seed(generator, tf.shape(is_real)[0]) for generator in self._generators]
        with autograph.errors_unwrapped():
            sums, losses, outputs = self._compiled((features, labels, is_real, seeds))
        by_index = iter(sums)
        gradients = [next(by_index) if has_any else None for has_any in self._has_gradient]
        return ClippedSum(gradients, losses, outputs)

    def _sum_batch(self, batch: Any) -> tuple[list[tf.Tensor], tf.Tensor, Any]:
        """Sums over all microbatches. Compiled, so that every shape is a constant."""
        is_real = batch[2]
        num_rows = is_real.shape[0]
        if num_rows is None:  # Not known to Python; it is to the compiler.
            num_rows = tf.shape(is_real)[0]
            size = tf.minimum(self._microbatch_size, num_rows)
            if self._num_microbatches is not None:
                size = -(-num_rows // self._num_microbatches)
        else:
            size = min(self._microbatch_size, num_rows)
            if self._num_microbatches is not None:
                size = -(-num_rows // self._num_microbatches)
            if size == num_rows:
                return self._sum_microbatch(batch)
        num_parts = -(-num_rows // size)
        # K parts of M rows: [K, M, ...]
        parts = tf.nest.map_structure(lambda part: _split_rows(part, num_parts, size), batch)
        sum_microbatch = tf.function(self._sum_microbatch, autograph=False).get_concrete_function(
            tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape[1:], part.dtype), parts)
        )
        sums, losses, outputs = sum_microbatch.structured_outputs
        per_row = [losses, *tf.nest.flatten(outputs)]

        def add_microbatch(index: tf.Tensor, sums: Any, arrays: Any) -> Any:
            more, losses, outputs = sum_microbatch(
                tf.nest.map_structure(lambda part: part[index], parts)
            )
            flat = [losses, *tf.nest.flatten(outputs)]
            return (
                index + 1,
                [total + part for total, part in zip(sums, more, strict=True)],
                [array.write(index, part) for array, part in zip(arrays, flat, strict=True)],
            )

        start = (
            0,
            [tf.zeros(part.shape, part.dtype) for part in sums],
            [tf.TensorArray(part.dtype, num_parts, element_shape=part.shape) for part in per_row],
        )
        _, sums, arrays = tf.while_loop(
            lambda index, *_: index < num_parts, add_microbatch, start, parallel_iterations=1
        )
        losses, *flat = [_merge_rows(array.stack(), num_rows) for array in arrays]  # [B, ...]
        return sums, losses, tf.nest.pack_sequence_as(outputs, flat)

    def _sum_microbatch(self, microbatch: Any) -> tuple[list[tf.Tensor], tf.Tensor, Any]:
        is_real = microbatch[2]
        forms: list[gradient_parts.SummedGradient] = []

        def differentiate(row: Any) -> Any:
            features, labels, _, seeds = row
            features, labels = tf.nest.map_structure(
                lambda part: part[tf.newaxis], (features, labels)
            )  # [1, ...]
            loss, outputs, gradients = self._differentiate(features, labels, seeds)
            forms[:] = [
                gradient_parts.SummedGradient(gradient, variable.shape)
                for gradient, variable in zip(
                    gradients, self._model.trainable_variables, strict=True
                )
                if gradient is not None
            ]
            square = tf.add_n([form.square() for form in forms])
            return loss, outputs, [form.tensors for form in forms], square

        if self._is_vectorized:
            with vectorized_random.drawing_together():
                results = tf.vectorized_map(
                    differentiate, microbatch, fallback_to_while_loop=True, warn=False
                )
        else:
            only = tf.nest.map_structure(lambda part: part[0], microbatch)
            results = tf.nest.map_structure(lambda part: part[tf.newaxis], differentiate(only))
        losses, outputs, tensors, squares = results  # [M, ...]
        norms = tf.sqrt(squares)  # [M]
        is_used = tf.logical_and(is_real, tf.math.is_finite(norms))
        weights = tf.math.divide_no_nan(self._clipping_norm, tf.maximum(norms, self._clipping_norm))
        weights = tf.where(is_used, weights, 0.0)  # [M]
        sums = [form.sum(rows, weights, is_used) for form, rows in zip(forms, tensors, strict=True)]
        return sums, losses, tf.nest.map_structure(_drop_row_axis, outputs)

    def _differentiate(
        self, features: Any, labels: Any, seeds: Sequence[tf.Tensor]
    ) -> tuple[tf.Tensor, Any, list[Any]]:
        """Runs the model on one example, with random layers in a state of its own."""
        states = [
            (generator.state, seed) for generator, seed in zip(self._generators, seeds, strict=True)
        ]
        trainable = self._model.trainable_variables
        with tf.GradientTape() as tape:
            # Keras looks for weights to regularise in the scope only.
            states += [(part, part.value) for part in trainable if part.regularizer is not None]
            with keras.StatelessScope(states, collect_losses=True) as scope:
                outputs = self._model(features, training=True)
                loss = self._loss_fn(labels, outputs, self._model)
            scaled = loss if self.loss_scale is None else loss * self.loss_scale
        variables = [variable.value for variable in trainable]
        gradients = tape.gradient(scaled, variables)
        _check_updates(self._model, scope)
        self._has_gradient = [gradient is not None for gradient in gradients]
        if self.loss_scale is not None:
            gradients = [_divide(gradient, self.loss_scale) for gradient in gradients]
        return tf.cast(tf.reshape(loss, []), tf.float32), outputs, gradients


def _check_layers(model: keras.Model) -> None:
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            raise errors.ConfigError(
                f"task.differential_privacy_config: the model has the BatchNormalization layer "
                f"{layer.name!r}, which mixes the examples of a batch, so that no example's "
                "influence is limited. Use GroupNormalization or LayerNormalization, or freeze it."
            )


def _has_loop(layer: keras.layers.Layer) -> bool:
    return isinstance(layer, keras.layers.RNN) and not layer.unroll


def _check_updates(model: keras.Model, scope: keras.StatelessScope) -> None:
    """Checks that the forward pass changed nothing but the state of random layers."""
    changed = [
        variable.path
        for variable in model.non_trainable_variables
        if id(variable) in scope.state_mapping and variable.name != "seed_generator_state"
    ]
    if changed:
        raise errors.ConfigError(
            f"task.differential_privacy_config: the model changes {changed!r} during training, "
            "which would carry examples' content past the noise. Freeze these layers."
        )


def _choose_microbatch_size(model: keras.Model) -> int:
    num_weights = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    return max(1, MICROBATCH_BYTES // (4 * max(1, num_weights)))


def _spread_seed(generator: keras.random.SeedGenerator, num_rows: tf.Tensor) -> tf.Tensor:
    """Advances a random layer's state by one step, and derives one state for each row.

    Returns:
        `[B, 2]`, of the dtype of the state.
    """
    state = tf.cast(generator.next(), tf.int64)
    context = tf.distribute.get_replica_context()
    state += tf.stack([tf.cast(context.replica_id_in_sync_group, tf.int64) * 2**32, 0])
    drawn = tf.random.stateless_uniform(
        [num_rows, 2], state, minval=0, maxval=2**31 - 1, dtype=tf.int32, alg="philox"
    )
    return tf.cast(drawn, generator.state.dtype)


def _split_rows(part: tf.Tensor, num_parts: Any, size: Any) -> tf.Tensor:
    """Cuts `[B, ...]` into `[K, M, ...]`, filled up with zeros."""
    missing = num_parts * size - tf.shape(part)[0]
    padding = tf.concat([[[0, missing]], tf.zeros([part.shape.rank - 1, 2], tf.int32)], axis=0)
    shape = tf.concat([[num_parts, size], tf.shape(part)[1:]], axis=0)
    split = tf.reshape(tf.pad(part, padding), shape)  # [K, M, ...]
    static_size = size if isinstance(size, int) else None
    return tf.ensure_shape(split, [None, static_size, *part.shape[1:]])


def _merge_rows(part: tf.Tensor, num_rows: Any) -> tf.Tensor:
    """Joins `[K, M, ...]` to `[B, ...]`, without the filling."""
    return tf.reshape(part, tf.concat([[-1], tf.shape(part)[2:]], axis=0))[:num_rows]


def _drop_row_axis(part: tf.Tensor) -> tf.Tensor:
    """Drops the axis of size 1 that the model saw as the batch, where there is one."""
    has_axis = part.shape.rank is not None and part.shape.rank > 1 and part.shape[1] == 1
    return tf.squeeze(part, axis=1) if has_axis else part


def _divide(gradient: Any, factor: float) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / factor, gradient.indices, gradient.dense_shape)
    return None if gradient is None else gradient / factor
