"""Weight decay that is no part of the gradient."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import fused_optimizer, parameters, path_patterns
from quintain.optimization.configs import ranges


@parameters.declare
class DecoupledDecayOptimizer(fused_optimizer.FusedOptimizer):
    """Base of optimizers whose weights decay by `w -= lr * weight_decay * w` before an update.

    A weight's path decides, by regular expressions, whether it decays.

    Source:
        Loshchilov and Hutter, 2019 (https://arxiv.org/abs/1711.05101).
    """

    weight_decay: ranges.NonNegative | None = None
    """Fraction of a weight that is subtracted, times the learning rate. None or 0 for no decay."""

    include_in_weight_decay: Sequence[str] | None = None
    """Regular expressions of the only paths that decay. None for all."""

    exclude_from_weight_decay: Sequence[str] | None = None
    """Regular expressions of paths that do not decay in any case."""

    def __post_init__(self, *init_only: Any) -> None:
        self.weight_decay = self.weight_decay or 0.0
        super().__post_init__(*init_only)

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        paths = [fused_optimizer.get_path(variable) for variable in variables]
        self._is_decaying = tuple(self._do_use_weight_decay(path) for path in paths)
        for name in ("include_in_weight_decay", "exclude_from_weight_decay"):
            path_patterns.warn_if_unused(name, getattr(self, name), paths)

    def _do_use_weight_decay(self, path: str) -> bool:
        """Returns whether the weight of this path decays."""
        if path_patterns.has_match(self.exclude_from_weight_decay, path):
            return False
        included = self.include_in_weight_decay
        return not included or path_patterns.has_match(included, path)

    def _decay(self, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        """Lets a weight decay, if it is one that does."""
        decay = self._get_weight_decay(variable)
        if decay and self._is_decaying[self._get_variable_index(variable)]:
            part = learning_rate * tf.cast(decay, variable.dtype)
            fused_optimizer.subtract(variable, part * tf.convert_to_tensor(variable))

    def _get_weight_decay(self, variable: keras.Variable) -> float | None:
        """Returns the decay of a weight that decays."""
        del variable  # All have the same.
        return self.weight_decay
