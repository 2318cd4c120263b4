"""Layer adaptation of LAMB and LARS: choice of weights, and the trust ratio."""

import dataclasses
from collections.abc import Sequence

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, path_patterns
from quintain.optimization.configs import ranges
from quintain.optimization.schedules import lr_schedule


@parameters.declare
class LayerAdaptiveOptimizer(fused_optimizer.FusedOptimizer):
    """Base of the optimizers whose step has a size relative to the size of the weights.

    A weight's path decides, by regular expressions, whether it decays and whether its step is
    adapted. Weights that are excluded from the decay are excluded from the adaptation too, unless
    a list of its own says which are.
    """

    weight_decay_rate: ranges.NonNegative = 0.0
    """Fraction of a weight that is added to its update or gradient."""

    exclude_from_weight_decay: Sequence[str] | None = None
    """Regular expressions of paths that do not decay."""

    exclude_from_layer_adaptation: Sequence[str] | None = None
    """Regular expressions of paths with a trust ratio of 1. None for the paths that do not decay;
    an empty list for no path."""

    decay: ranges.NonNegative = dataclasses.field(default=0.0, repr=False)
    """Divides the learning rate of update `t` by `1 + decay * t`; part of the schedule then."""

    @override
    def _find_learning_rate(self, given: lr_schedule.LearningRate) -> lr_schedule.LearningRate:
        return lr_schedule.divide_over_time(super()._find_learning_rate(given), self.decay)

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        paths = [fused_optimizer.get_path(variable) for variable in variables]
        self._decays = tuple(self._do_use_weight_decay(path) for path in paths)
        self._adapts = tuple(self._do_layer_adaptation(path) for path in paths)
        for name in ("exclude_from_weight_decay", "exclude_from_layer_adaptation"):
            path_patterns.warn_if_unused(name, getattr(self, name), paths)

    def _do_use_weight_decay(self, path: str) -> bool:
        """Returns whether the weight of this path decays."""
        if not self.weight_decay_rate:
            return False
        return not path_patterns.has_match(self.exclude_from_weight_decay, path)

    def _do_layer_adaptation(self, path: str) -> bool:
        """Returns whether the step of the weight of this path is adapted."""
        excluded = self.exclude_from_layer_adaptation
        if excluded is None:
            excluded = self.exclude_from_weight_decay
        return not path_patterns.has_match(excluded, path)


def compute_trust_ratio(weight: tf.Tensor, step: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
    """Returns `scale * norm(weight) / norm(step)`, or 1 if one of the norms is 0.

    Args:
        weight: Weight, of any shape.
        step: Its gradient or update, of the same shape and dtype.
        scale: Factor of the ratio of the norms.

    Returns:
        `[]`, of the dtype of `weight`. Not finite, or 0, if a norm is not finite.
    """
    # `l2_loss` is half the sum of squares, in one kernel.
    weight_square, step_square = tf.nn.l2_loss(weight), tf.nn.l2_loss(step)
    is_zero = tf.logical_or(tf.equal(weight_square, 0.0), tf.equal(step_square, 0.0))
    one = tf.ones_like(step_square)
    ratio = scale * tf.sqrt(weight_square / tf.where(is_zero, one, step_square))
    return tf.where(is_zero, one, ratio)
