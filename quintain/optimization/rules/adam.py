"""Adam, and Adam with the decoupled weight decay of BERT."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf
from typing_extensions import override

from quintain.kernels import adam
from quintain.optimization import (
    fused_optimizer,
    gradient_clipping,
    parameters,
    path_patterns,
    serializable,
)
from quintain.optimization.configs import ranges
from quintain.optimization.rules import native_adam


class _Hyper(NamedTuple):
    """Scalars of one dtype that the updates of all variables share in one step."""

    learning_rate: tf.Tensor
    beta_1: tf.Tensor
    beta_2: tf.Tensor
    beta_1_power: tf.Tensor
    beta_2_power: tf.Tensor
    epsilon: tf.Tensor

    def cast(self, dtype: Any) -> "_Hyper":
        return _Hyper(*(tf.cast(scalar, dtype) for scalar in self))


@serializable.register
@parameters.declare
class Adam(fused_optimizer.FusedOptimizer):
    """Adam.

    With `t` the number of this update, counted from 1:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2
        w -= lr * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t) * m / (sqrt(v) + epsilon)

    `lr` is multiplied by the `learning_rate_factors` whose regular expressions are found in the
    path of `w`. With `amsgrad` the last line has the largest `v` so far instead of `v`. `epsilon`
    is the paper's "epsilon hat", as in Keras.

    Example:
        >>> weight = keras.Variable([1.0])
        >>> optimizer = Adam(0.5)
        >>> _ = optimizer.apply_gradients([(tf.constant([3.0]), weight)])
        >>> weight.numpy().round(4).tolist()
        [0.5]

    Source:
        Kingma and Ba, 2015, end of section 2 (https://arxiv.org/abs/1412.6980);
        Reddi et al., 2018 for `amsgrad` (https://arxiv.org/abs/1904.09237).
    """

    GRADIENT_SCALING: ClassVar = "free"

    beta_1: ranges.Fraction = 0.9
    beta_2: ranges.Fraction = 0.999
    epsilon: ranges.NonNegative = 1e-7
    amsgrad: bool = False
    learning_rate_factors: dict[str, ranges.Positive] | None = None
    name: str = "Adam"

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        paths = [fused_optimizer.get_path(variable) for variable in variables]
        for pattern in self.learning_rate_factors or ():
            path_patterns.warn_if_unused("learning_rate_factors", [pattern], paths)

    @override
    def _get_rate_factor(self, variable: keras.Variable) -> float:
        path = fused_optimizer.get_path(variable)
        own = path_patterns.multiply_matching(self.learning_rate_factors, path)
        return super()._get_rate_factor(variable) * own

    @override
    def _declare_slots(self) -> list[dict[str, float]]:
        means = {"momentum": 0.0, "velocity": 0.0}
        return [means, {"velocity_hat": 0.0}] if self.amsgrad else [means]

    @override
    def _prepare_hyper(self) -> dict[str, _Hyper]:
        count = self._read_count()
        beta_1 = tf.constant(self.beta_1, tf.float32)
        beta_2 = tf.constant(self.beta_2, tf.float32)
        hyper = _Hyper(
            learning_rate=tf.cast(self._read_learning_rate(), tf.float32),
            beta_1=beta_1,
            beta_2=beta_2,
            beta_1_power=tf.pow(beta_1, count),
            beta_2_power=tf.pow(beta_2, count),
            epsilon=tf.constant(self.epsilon, tf.float32),
        )
        dtypes = {
            keras.backend.standardize_dtype(variable.dtype)
            for variable in self._trainable_variables
        }
        return {dtype: hyper.cast(dtype) for dtype in sorted(dtypes)}

    @override
    def _clip(self, gradients: list[Any]) -> list[Any]:
        return gradient_clipping.multiply(*self._limit(gradients))

    def _limit(self, gradients: list[Any]) -> tuple[list[Any], tf.Tensor | None]:
        """Applies all limits but the last; returns what that one multiplies gradients by."""
        return self._clipping.limit(gradients)

    @override
    def _update_all(self, gradients: list[Any], variables: list[Any]) -> None:
        # What is given twice is updated twice, one after the other.
        is_plain = self.amsgrad or self.jit_compile or len({*map(id, variables)}) < len(variables)
        if is_plain or not all(map(native_adam.is_usable, variables)):
            super()._update_all(gradients, variables)
            return
        limited, scale = self._limit(gradients)
        hyper = self._prepare_hyper()["float32"]
        rate = hyper.learning_rate * tf.sqrt(1.0 - hyper.beta_2_power) / (1.0 - hyper.beta_1_power)
        groups = collections.defaultdict(list)
        for gradient, variable in zip(limited, variables, strict=True):
            groups[self._get_rate_factor(variable)].append((gradient, variable))
        for factor, pairs in groups.items():
            native_adam.update(
                pairs,
                adam.Scalars(
                    rate=rate if factor == 1.0 else rate * factor,
                    beta_1=hyper.beta_1,
                    beta_2=hyper.beta_2,
                    epsilon=hyper.epsilon,
                    scale=1.0 if scale is None else scale,
                    decay=hyper.learning_rate * self._get_weight_decay(),
                ),
                find_slots=self._get_slots,
                is_decaying=self._is_decaying,
                count=self._iterations + 1,
            )
        for variable in variables:
            fused_optimizer.constrain(variable)

    def _get_weight_decay(self) -> float:
        """Returns the part of the weights that is subtracted, before the learning rate."""
        return 0.0

    def _is_decaying(self, variable: keras.Variable) -> bool:
        """Returns whether a variable is one that decays."""
        del variable
        return False

    @override
    def _update_variable(
        self, gradient: Any, variable: keras.Variable, hyper: dict[str, _Hyper]
    ) -> None:
        scalars = hyper[keras.backend.standardize_dtype(variable.dtype)]
        rate = self._scale_rate(scalars.learning_rate, variable)
        scalars = scalars._replace(learning_rate=rate)
        slots = self._get_slots(variable)
        if self.amsgrad:
            self._update_amsgrad(gradient, variable, slots, scalars)
            return
        tf.raw_ops.ResourceApplyAdam(
            var=fused_optimizer.get_handle(variable),
            m=fused_optimizer.get_handle(slots["momentum"]),
            v=fused_optimizer.get_handle(slots["velocity"]),
            beta1_power=scalars.beta_1_power,
            beta2_power=scalars.beta_2_power,
            lr=scalars.learning_rate,
            beta1=scalars.beta_1,
            beta2=scalars.beta_2,
            epsilon=scalars.epsilon,
            grad=gradient,
        )

    def _update_amsgrad(
        self,
        gradient: tf.Tensor,
        variable: keras.Variable,
        slots: dict[str, keras.Variable],
        scalars: _Hyper,
    ) -> None:
        """Updates by plain operations: the fused kernel for amsgrad can't be compiled by XLA."""
        momentum, velocity = fused_optimizer.update_moments(
            slots, gradient, scalars.beta_1, scalars.beta_2
        )
        largest = tf.maximum(tf.convert_to_tensor(slots["velocity_hat"]), velocity)
        rate = scalars.learning_rate * tf.sqrt(1.0 - scalars.beta_2_power)
        rate /= 1.0 - scalars.beta_1_power
        change = rate * momentum / (tf.sqrt(largest) + scalars.epsilon)

        fused_optimizer.write(slots["velocity_hat"], largest)
        fused_optimizer.write(variable, tf.convert_to_tensor(variable) - change)


@serializable.register
@parameters.declare
class AdamWeightDecay(Adam):
    """Adam with decoupled weight decay, as BERT was trained with.

    `w -= lr * weight_decay_rate * w`, and then the update of Adam, whose averages never see the
    decay. Which weights decay is decided by their paths: a path that matches an included expression
    decays, else one that matches an excluded expression does not, else it decays.

    Unlike in the original code, `gradient_clip_norm` limits the gradient summed over all replicas.

    Source:
        Loshchilov and Hutter, 2019, algorithm 2 (https://arxiv.org/abs/1711.05101);
        Devlin et al., 2019, appendix A.2 (https://arxiv.org/abs/1810.04805).
    """

    POSITIONAL: ClassVar = (
        "beta_1",
        "beta_2",
        "epsilon",
        "amsgrad",
        "weight_decay_rate",
        "include_in_weight_decay",
        "exclude_from_weight_decay",
        "gradient_clip_norm",
        "name",
    )

    weight_decay_rate: ranges.NonNegative = 0.0
    include_in_weight_decay: Sequence[str] | None = None
    exclude_from_weight_decay: Sequence[str] | None = None
    gradient_clip_norm: ranges.NonNegative = 1.0
    name: str = "AdamWeightDecay"

    @override
    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        super()._prepare_rule(variables)
        paths = [fused_optimizer.get_path(variable) for variable in variables]
        self._decays = tuple(self._does_decay(path) for path in paths)
        if self.weight_decay_rate:
            excluded = self.exclude_from_weight_decay
            path_patterns.warn_if_unused("exclude_from_weight_decay", excluded, paths)

    @override
    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, keras.Variable]],
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Updates variables by their gradients, and returns the number of updates.

        Args:
            grads_and_vars: Pairs of a gradient and its variable.
            name: Not used.
            experimental_aggregate_gradients: Whether the gradients are those of this replica. False
                if they are sums over all replicas already.
        """
        del name
        if experimental_aggregate_gradients:
            return super().apply_gradients(grads_and_vars)
        with fused_optimizer.gradients_are_summed():
            return super().apply_gradients(grads_and_vars)

    def _does_decay(self, path: str) -> bool:
        if not self.weight_decay_rate:
            return False
        if path_patterns.has_match(self.include_in_weight_decay, path):
            return True
        return not path_patterns.has_match(self.exclude_from_weight_decay, path)

    @override
    def _limit(self, gradients: list[Any]) -> tuple[list[Any], tf.Tensor | None]:
        limit = self.gradient_clip_norm
        if limit and not self._clipping.is_active:
            return gradients, gradient_clipping.find_scale(gradients, limit)
        if limit:
            gradients = gradient_clipping.clip_by_global_norm(gradients, limit)
        return super()._limit(gradients)

    @override
    def _get_weight_decay(self) -> float:
        return self.weight_decay_rate

    @override
    def _is_decaying(self, variable: keras.Variable) -> bool:
        return self._decays[self._get_variable_index(variable)]

    @override
    def _update_variable(
        self, gradient: Any, variable: keras.Variable, hyper: dict[str, _Hyper]
    ) -> None:
        if self._is_decaying(variable):
            scalars = hyper[keras.backend.standardize_dtype(variable.dtype)]
            decay = scalars.learning_rate * tf.cast(self.weight_decay_rate, variable.dtype)
            tf.raw_ops.AssignSubVariableOp(
                resource=fused_optimizer.get_handle(variable),
                value=tf.convert_to_tensor(variable) * decay,
            )
        super()._update_variable(gradient, variable, hyper)


@serializable.register
@parameters.declare
class AdamW(AdamWeightDecay):
    """Adam with decoupled weight decay, as Keras has it.

    `w -= lr * weight_decay * w`, and then the update of Adam. It is the rule of `AdamWeightDecay`
    under the names of Keras, and without a limit on gradients.

    Source:
        Loshchilov and Hutter, 2019, algorithm 2 (https://arxiv.org/abs/1711.05101).
    """

    weight_decay: ranges.NonNegative = 0.004
    weight_decay_rate: float = dataclasses.field(default=0.0, init=False, repr=False)
    gradient_clip_norm: float = dataclasses.field(default=0.0, init=False, repr=False)

    name: str = "AdamW"

    def __post_init__(self, *init_only: Any) -> None:
        self.weight_decay_rate = self.weight_decay
        super().__post_init__(*init_only)
