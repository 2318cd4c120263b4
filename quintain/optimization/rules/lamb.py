"""LAMB: Adam with a step relative to the size of each weight, for very large batches."""

from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, serializable
from quintain.optimization.configs import ranges
from quintain.optimization.rules import layer_adaptation
from quintain.reference import reference_names

__getattr__ = reference_names.refusing(__name__)


class _Hyper(NamedTuple):
    learning_rate: tf.Tensor
    mean_scale: tf.Tensor
    square_scale: tf.Tensor


@serializable.register
@parameters.declare
class LAMB(layer_adaptation.LayerAdaptiveOptimizer):
    """LAMB.

    With `t` the number of this update, counted from 1:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2
        u = (m / (1 - beta_1 ** t)) / (sqrt(v / (1 - beta_2 ** t)) + epsilon)
        u += weight_decay_rate * w
        w -= lr * norm(w) / norm(u) * u

    The ratio of the norms is 1 if one of them is 0. Which weights decay, and which have that ratio,
    is decided by regular expressions that are searched for in their paths.

    Example:
        >>> weight = keras.Variable([2.0])
        >>> optimizer = LAMB(0.25)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [1.5]

    Source:
        You et al., 2020, algorithm 2 with the identity as `phi` (https://arxiv.org/abs/1904.00962).
    """

    POSITIONAL: ClassVar = (
        "beta_1",
        "beta_2",
        "epsilon",
        "weight_decay_rate",
        "exclude_from_weight_decay",
        "exclude_from_layer_adaptation",
        "name",
    )

    beta_1: ranges.Fraction = 0.9
    beta_2: ranges.Fraction = 0.999
    epsilon: ranges.NonNegative = 1e-6
    name: str = "LAMB"

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        return [{"momentum": 0.0, "velocity": 0.0}]

    @override
    def _prepare_hyper(self) -> _Hyper:
        count = self._read_count()
        return _Hyper(
            learning_rate=self._read_learning_rate(),
            mean_scale=1.0 / (1.0 - tf.pow(self.beta_1, count)),
            square_scale=1.0 / (1.0 - tf.pow(self.beta_2, count)),
        )

    @override
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: _Hyper) -> None:
        index = self._get_variable_index(variable)
        slots = self._get_slots(variable)
        learning_rate, mean_scale, square_scale = (
            tf.cast(scalar, variable.dtype) for scalar in hyper
        )
        weight = tf.convert_to_tensor(variable)
        momentum, velocity = fused_optimizer.update_moments(
            slots, gradient, self.beta_1, self.beta_2
        )

        step = mean_scale * momentum / (tf.sqrt(square_scale * velocity) + self.epsilon)
        if self._decays[index]:
            step += self.weight_decay_rate * weight
        if self._adapts[index]:
            learning_rate *= layer_adaptation.compute_trust_ratio(weight, step)
        fused_optimizer.subtract(variable, learning_rate * step)
