"""Muon: matrices move by orthogonal steps, all other weights by Adam."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, path_patterns, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import decoupled_decay


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor
    beta_1_power: tf.Tensor
    beta_2_power: tf.Tensor


@serializable.register
@parameters.declare
class Muon(decoupled_decay.DecoupledDecayOptimizer):
    """Muon, momentum orthogonalised by Newton-Schulz steps.

    For a matrix of `r` rows and `c` columns:

        m = momentum * m + g
        u = orthogonalize(g + momentum * m)         or, without nesterov, orthogonalize(m)
        w -= lr * u * rms_rate * sqrt(max(r, c))

    Weights that are no matrices, embeddings (by `embedding` in their path) and the weights whose
    paths match `exclude_layers` are updated by Adam with `lr * adam_lr_ratio`. The output layer
    should be among them.

    Before an update `w -= lr * weight_decay * w`; with `adam_weight_decay` for the weights of Adam.

    Example:
        >>> weight = keras.Variable([[1.0, 0.0], [0.0, 1.0]])
        >>> optimizer = Muon(0.5, weight_decay=0.0, momentum=0.0, ns_steps=20, muon_a=1.5,
        ...                  muon_b=-0.5, muon_c=0.0, rms_rate=None)
        >>> _ = optimizer.apply_gradients([(tf.constant([[3.0, 0.0], [0.0, 2.0]]), weight)])
        >>> weight.numpy().round(4).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    Source:
        Jordan et al., 2024 (https://kellerjordan.github.io/posts/muon/); Liu et al., 2025, for the
        factor of the step (https://arxiv.org/abs/2502.16982).
    """

    adam_beta_1: ranges.Fraction = 0.9
    adam_beta_2: ranges.Fraction = 0.999
    adam_weight_decay: ranges.NonNegative | None = 0.004
    """Weight decay of the weights that Adam updates. None or 0 for none."""

    adam_lr_ratio: ranges.NonNegative = 1.0
    epsilon: ranges.NonNegative = 1e-7
    weight_decay: ranges.NonNegative | None = 0.004
    """Weight decay of the matrices. None or 0 for none."""

    exclude_layers: Sequence[str] | None = None
    exclude_embeddings: bool = True
    muon_a: float = 3.4445
    muon_b: float = -4.7750
    muon_c: float = 2.0315
    momentum: ranges.Fraction = 0.95
    ns_steps: ranges.Steps = 5
    nesterov: bool = True
    rms_rate: ranges.NonNegative | None = 0.2
    """Root mean square of a step at a learning rate of 1, about 0.2 to 0.4 for Adam. None or 0 for
    steps of which every singular value is near 1."""

    name: str = "Muon"

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        self._momentums: list[keras.Variable] = []
        self._velocities: list[keras.Variable | None] = []
        for variable in variables:
            self._momentums.append(self.add_variable_from_reference(variable, name="momentum"))
            self._velocities.append(
                self.add_variable_from_reference(variable, name="velocity")
                if self._is_for_adam(variable)
                else None
            )
        paths = [fused_optimizer.get_path(variable) for variable in variables]
        path_patterns.warn_if_unused("exclude_layers", self.exclude_layers, paths)

    def _is_for_adam(self, variable: keras.Variable) -> bool:
        path = fused_optimizer.get_path(variable)
        is_embedding = self.exclude_embeddings and "embedding" in path.lower()
        is_matrix = len(variable.shape) == 2
        return not is_matrix or is_embedding or path_patterns.has_match(self.exclude_layers, path)

    @override
    def _get_weight_decay(self, variable: keras.Variable) -> float | None:
        is_for_adam = self._velocities[self._get_variable_index(variable)] is not None
        return self.adam_weight_decay if is_for_adam else self.weight_decay

    @override
    def _prepare_hyper(self) -> _Hyper:
        count = self._read_count()
        return _Hyper(
            learning_rate=self._read_learning_rate(),
            beta_1_power=tf.pow(self.adam_beta_1, count),
            beta_2_power=tf.pow(self.adam_beta_2, count),
        )

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        index = self._get_variable_index(variable)
        scalars = _Hyper(*(tf.cast(scalar, variable.dtype) for scalar in hyper))
        self._decay(variable, scalars.learning_rate)
        velocity = self._velocities[index]
        if velocity is not None:
            self._update_by_adam(gradient, variable, (self._momentums[index], velocity), scalars)
            return
        momentum = self.momentum * tf.convert_to_tensor(self._momentums[index]) + gradient
        fused_optimizer.write(self._momentums[index], momentum)
        step = orthogonalize(
            gradient + self.momentum * momentum if self.nesterov else momentum,
            factors=(self.muon_a, self.muon_b, self.muon_c),
            num_steps=self.ns_steps,
        )
        size = self.rms_rate * max(variable.shape) ** 0.5 if self.rms_rate else 1.0
        fused_optimizer.subtract(variable, scalars.learning_rate * size * step)

    def _update_by_adam(
        self,
        gradient: tf.Tensor,
        variable: keras.Variable,
        slots: tuple[keras.Variable, keras.Variable],
        scalars: _Hyper,
    ) -> None:
        momentum, velocity = slots
        tf.raw_ops.ResourceApplyAdam(
            var=fused_optimizer.get_handle(variable),
            m=fused_optimizer.get_handle(momentum),
            v=fused_optimizer.get_handle(velocity),
            beta1_power=scalars.beta_1_power,
            beta2_power=scalars.beta_2_power,
            lr=scalars.learning_rate * self.adam_lr_ratio,
            beta1=tf.cast(self.adam_beta_1, variable.dtype),
            beta2=tf.cast(self.adam_beta_2, variable.dtype),
            epsilon=tf.cast(self.epsilon, variable.dtype),
            grad=gradient,
        )


def orthogonalize(
    matrix: tf.Tensor, *, factors: tuple[float, float, float], num_steps: int
) -> tf.Tensor:
    """Moves the singular values of a matrix towards 1, and keeps its singular vectors.

    The matrix is divided by its norm, so that no singular value is above 1. Then in every step
    `x = (a + b * (x x') + c * (x x')^2) x`. As all factors are polynomials of the same `x x'`, they
    are multiplied first: `x` itself, which may be much wider than high, takes two products in all.

    Args:
        matrix: `[R, C]` float.
        factors: `a`, `b` and `c`.
        num_steps: Number of steps.

    Returns:
        `[R, C]`, of the same dtype.
    """
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = tf.transpose(matrix) if is_tall else matrix  # [R, C], R <= C from here on
    x /= tf.norm(x) + 1e-7
    first, third, fifth = factors
    identity = tf.eye(x.shape[0], dtype=x.dtype)  # [R, R], as all that follow
    square = tf.matmul(x, x, transpose_b=True)
    product = identity
    for step in range(num_steps):
        factor = first * identity + third * square + fifth * tf.matmul(square, square)
        product = factor if step == 0 else tf.matmul(factor, product)
        if step < num_steps - 1:
            square = tf.matmul(factor, tf.matmul(square, factor))
    x = tf.matmul(product, x)
    return tf.transpose(x) if is_tall else x
