"""Base class of the optimizers: from gradients to updates, on one replica or on many.

Keras clips the gradients of each replica before it sums them, and updates a variable by a dozen
small operations. Here the gradients are summed first, so that clipping sees the gradient of the
whole batch, and every variable is updated by one fused kernel. The order is

    sum over replicas -> transformers -> clip -> (weight decay ->) update -> count
"""

import abc
import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, Literal, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from typing_extensions import override

from quintain.optimization import dense_gradients, gradient_clipping, norms, parameters
from quintain.optimization.schedules import lr_schedule

GradientsAndVariables: TypeAlias = list[tuple[Any, Any]]
"""Pairs of a gradient (`tf.Tensor` or `tf.IndexedSlices`) and its variable."""

GradientFn: TypeAlias = Callable[[GradientsAndVariables], GradientsAndVariables]
"""Replaces gradients; returns the same variables in the same order."""

_LOGGER = logging.getLogger(__name__)


_LOCAL: Final = threading.local()  # A replica has a thread of its own.


@contextlib.contextmanager
def gradients_are_summed() -> Iterator[None]:
    """Tells optimizers that the gradients they get inside are sums over all replicas already."""
    former = getattr(_LOCAL, "are_summed", False)
    _LOCAL.are_summed = True
    try:
        yield
    finally:
        _LOCAL.are_summed = former


@parameters.declare
class FusedOptimizer(keras.optimizers.Optimizer):
    """Base of the optimizers: a subclass declares parameters and slots, and updates a variable.

    Its fields are the arguments of its constructor, and what `get_config` describes. The config of
    each rule in `quintain.optimization.configs` says what they mean. Weights must be
    float32 or float64, as they are under a `mixed_...` precision policy too.

    Raises:
        TypeError: If `learning_rate` is neither a number nor a schedule.
        ValueError: If a parameter is out of range.
        ConfigError: If a limit is not positive, or both norms are limited.
    """

    GRADIENT_SCALING: ClassVar[Literal["free", "linear"] | None] = None
    """How updates follow the size of gradients: `free` of it as Adam's, or `linear` as those of
    SGD. None if the rule takes no `set_rate_factors`."""

    learning_rate: dataclasses.InitVar[lr_schedule.LearningRate] = dataclasses.field(
        default=0.001, kw_only=False
    )
    """A constant, which can be set later, or a schedule."""

    clipnorm: float | None = None
    """Largest L2 norm of one variable's gradient."""

    clipvalue: float | None = None
    """Largest absolute value of one number in a gradient."""

    global_clipnorm: float | None = None
    """Largest L2 norm of all gradients together."""

    gradient_aggregator: dataclasses.InitVar[GradientFn | None] = None
    """Sums the gradients over the replicas, instead of this class."""

    gradient_transformers: dataclasses.InitVar[Sequence[GradientFn]] = ()
    """Functions of the summed gradients, applied before clipping."""

    loss_scale_factor: float | None = None
    """Factor by which the loss was multiplied and gradients are divided."""

    jit_compile: bool = False
    """Whether XLA compiles the update of each variable, in a `tf.function`."""

    name: str | None = None
    """Name of the optimizer."""

    # The fields are stored, as they are given, before the constructor of Keras runs.
    _lock = False
    _self_setattr_tracking = False

    def __post_init__(
        self,
        learning_rate: lr_schedule.LearningRate,
        gradient_aggregator: GradientFn | None,
        gradient_transformers: Sequence[GradientFn],
    ) -> None:
        checked = parameters.check(self)
        clipping = gradient_clipping.GradientClipping(
            norm=self.clipnorm, value=self.clipvalue, global_norm=self.global_clipnorm
        )
        self._self_setattr_tracking = True
        super().__init__(
            learning_rate=self._find_learning_rate(learning_rate),
            loss_scale_factor=self.loss_scale_factor,
            name=self.name,
        )
        # Keras has set attributes of some of these names.
        self.__dict__.update(checked, name=self.name)
        self._clipping = clipping
        self._gradient_aggregator = gradient_aggregator
        self._gradient_transformers = tuple(gradient_transformers)
        self._norm_sums: norms.NormSums | None = None
        self._missing_paths: tuple[str, ...] = ()
        self._slots: dict[str, list[keras.Variable]] = {}
        self.set_rate_factors(())

    def _find_learning_rate(self, given: lr_schedule.LearningRate) -> lr_schedule.LearningRate:
        """Returns what Keras gets as the learning rate."""
        if isinstance(given, keras.optimizers.schedules.LearningRateSchedule):
            return given
        if not isinstance(given, int | float):
            raise TypeError(
                f"learning_rate: got {given!r}, expected a number or a "
                "keras.optimizers.schedules.LearningRateSchedule."
            )
        return float(given)

    @property
    def learning_rate_schedule(self) -> keras.optimizers.schedules.LearningRateSchedule | None:
        """The schedule, a function of `iterations`; None if the learning rate is a constant."""
        schedule = self._learning_rate
        is_schedule = isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule)
        return schedule if is_schedule else None

    def set_rate_factors(self, factors: Iterable[tuple[keras.Variable, float]]) -> None:
        """Multiplies the learning rate of variables, for `GRADIENT_SCALING` rules alone.

        Decoupled weight decay keeps the rate that all variables share. To be called before the
        first traced step; checkpoints and `get_config` do not have the factors.
        """
        pairs = ((self._var_key(variable), factor) for variable, factor in factors)
        # Past `__setattr__`, which would make the mapping a part of checkpoints.
        self.__dict__.update(_rate_factors={key: factor for key, factor in pairs if factor != 1.0})

    def _get_rate_factor(self, variable: keras.Variable) -> float:
        factor: float = self.__dict__["_rate_factors"].get(self._var_key(variable), 1.0)
        return factor

    def _scale_rate(self, rate: tf.Tensor, variable: keras.Variable) -> tf.Tensor:
        factor = self._get_rate_factor(variable)
        return rate if factor == 1.0 else rate * factor

    def track_norms(self) -> norms.NormSums:
        """Starts to sum up the norms of gradients, before clipping, and of updates.

        To be called in the scope of the strategy, before the first traced step. It costs a copy of
        the weights and some time at each update.
        """
        self._norm_sums = norms.NormSums()
        return self._norm_sums

    @override
    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Prepares for updates of `variables`; to be called before the first traced step.

        Raises:
            ValueError: If a variable is not float32 or float64.
        """
        if self.built:
            return
        for variable in variables:
            if keras.backend.standardize_dtype(variable.dtype) not in {"float32", "float64"}:
                raise ValueError(
                    f"{get_path(variable)}: got a {variable.dtype} weight, expected float32. "
                    "Use a `mixed_float16` or `mixed_bfloat16` policy, which keeps float32 weights."
                )
        super().build(list(variables))
        self._prepare_rule(list(variables))

    def _prepare_rule(self, variables: list[keras.Variable]) -> None:
        """Creates what the rule keeps for each variable: the slots that it declares."""
        for group in self._declare_slots():
            slots = self.add_optimizer_variables(
                variables, list(group), list(map(keras.initializers.Constant, group.values()))
            )
            self._slots.update(dict(zip(group, slots, strict=True)))

    def _declare_slots(self) -> Sequence[dict[str, float]]:
        """Returns the slots that every variable has: names, with the numbers they start at.

        A checkpoint holds the slots in the order of the variables; those of one group lie side by
        side, a group follows on the whole group before. What is in checkpoints must not change.
        """
        return ()

    def _get_slots(self, variable: keras.Variable) -> dict[str, keras.Variable]:
        index = self._get_variable_index(variable)
        return {name: slots[index] for name, slots in self._slots.items()}

    @override
    def apply(
        self, grads: Sequence[Any], trainable_variables: Sequence[keras.Variable] | None = None
    ) -> None:
        """Updates variables by their gradients.

        In a replica context, and without a strategy, the gradients are those of this replica. In a
        cross-replica context they have to be summed already.

        Args:
            grads: A gradient for each variable. None leaves the variable as it is, with a warning.
            trainable_variables: The variables; all that the optimizer was built for by default.

        Raises:
            ValueError: If all gradients are None, or a variable is unknown to the optimizer.
        """
        variables = self._check_variables(grads, trainable_variables)
        pairs = self._drop_missing(list(zip(grads, variables, strict=True)))
        if tf.distribute.in_cross_replica_context():
            tf.distribute.get_strategy().extended.call_for_each_replica(
                self._apply_sum, args=(pairs,)
            )
        else:
            self._apply_sum(self._sum_over_replicas(pairs))

    def _check_variables(
        self, grads: Sequence[Any], variables: Sequence[keras.Variable] | None
    ) -> Sequence[keras.Variable]:
        if variables is None:
            variables = self._trainable_variables
        elif not self.built:
            self.build(variables)
        self._check_variables_are_known(variables)
        if len(grads) != len(variables):
            raise ValueError(
                f"`len(grads) == len(variables)` must hold, but got {len(grads)=}, "
                f"{len(variables)=}."
            )
        return variables

    def _drop_missing(self, pairs: GradientsAndVariables) -> GradientsAndVariables:
        """Returns the pairs with a gradient, and warns of the others the first time."""
        missing = tuple(get_path(variable) for gradient, variable in pairs if gradient is None)
        if len(missing) == len(pairs):
            raise ValueError(
                f"grads: got None for all of {list(missing)!r}. The loss does not depend on these "
                "variables, or was computed outside of the gradient tape."
            )
        if missing and missing != self._missing_paths:
            _LOGGER.warning("No gradient for %s: the loss does not depend on them.", list(missing))
        self._missing_paths = missing
        return [pair for pair in pairs if pair[0] is not None]

    def _sum_over_replicas(self, pairs: GradientsAndVariables) -> GradientsAndVariables:
        if getattr(_LOCAL, "are_summed", False):
            return pairs
        if self._gradient_aggregator is not None:
            return _check_pairs(pairs, self._gradient_aggregator(pairs), "gradient_aggregator")
        context = tf.distribute.get_replica_context()
        if context.num_replicas_in_sync == 1:
            return pairs
        sums = context.all_reduce("SUM", [dense_gradients.densify(*pair) for pair in pairs])
        return list(zip(sums, [pair[1] for pair in pairs], strict=True))

    def _apply_sum(self, pairs: GradientsAndVariables) -> None:
        """Updates this replica's copy of the variables by summed gradients."""
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        needs_dense = self.loss_scale_factor is not None or self._norm_sums is not None
        if needs_dense or not self._is_sparse_update():
            gradients = [
                dense_gradients.densify(gradient, variable)
                for gradient, variable in zip(gradients, variables, strict=True)
            ]
        if self.loss_scale_factor is not None:
            gradients = [gradient / self.loss_scale_factor for gradient in gradients]
        gradients = self._transform(gradients, variables)
        with norms.update_norms_added(self._norm_sums, gradients, variables):
            self._update_all(gradients, variables)
        # One operation: `Variable.assign_add` of Keras reads, adds and writes, and workers that
        # train asynchronously would lose counts in between.
        tf.raw_ops.AssignAddVariableOp(
            resource=get_handle(self._iterations), value=tf.ones([], self._iterations.dtype)
        )

    def _update_all(self, gradients: list[Any], variables: list[Any]) -> None:
        hyper = self._prepare_hyper()
        for gradient, variable in zip(self._clip(gradients), variables, strict=True):
            self._run_update(gradient, variable, hyper)
            constrain(variable)

    def _transform(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        for transformer in self._gradient_transformers:
            pairs = list(zip(gradients, variables, strict=True))
            pairs = _check_pairs(pairs, transformer(pairs), "gradient_transformers")
            gradients = [gradient for gradient, _ in pairs]
        return gradients

    def _clip(self, gradients: list[Any]) -> list[Any]:
        return self._clipping.clip(gradients)

    def _is_sparse_update(self) -> bool:
        """True if `_update_variable` takes `tf.IndexedSlices` as they are, with repeated rows."""
        return False

    def _run_update(self, gradient: Any, variable: keras.Variable, hyper: Any) -> None:
        if self.jit_compile and not tf.executing_eagerly():
            update = functools.partial(self._update_variable, gradient, variable, hyper)
            tf.function(update, jit_compile=True, autograph=False)()
        else:
            self._update_variable(gradient, variable, hyper)

    def _prepare_hyper(self) -> Any:
        """Computes once for each step what the updates of all variables share."""
        return self._read_learning_rate()

    @abc.abstractmethod
    def _update_variable(self, gradient: Any, variable: keras.Variable, hyper: Any) -> None:
        """Updates one variable and its slots.

        Args:
            gradient: Summed and clipped gradient, of the variable's shape.
            variable: The variable. `get_handle` gives this replica's copy of it.
            hyper: What `_prepare_hyper` returned.
        """

    def _add_slot(
        self,
        variable: keras.Variable,
        shape: Sequence[int],
        name: str,
        *,
        dtype: Any = None,
        initializer: Any = "zeros",
    ) -> keras.Variable:
        """Adds a slot of another shape or type than its variable, on the same replicas.

        Args:
            variable: The variable that the slot belongs to.
            shape: Shape of the slot.
            name: What it is.
            dtype: Its dtype; that of the variable by default.
            initializer: How its first value is made.
        """
        value = variable.value if isinstance(variable, keras.Variable) else variable
        with self._distribution_strategy.extended.colocate_vars_with(value):
            return self.add_variable(
                shape=tuple(shape),
                initializer=initializer,
                dtype=dtype or variable.dtype,
                name=f"{get_path(variable).replace('/', '_').replace(':', '_')}_{name}",
            )

    def _read_learning_rate(self) -> tf.Tensor:
        """Returns the learning rate of this update, `[]` float32."""
        return tf.convert_to_tensor(self.learning_rate)

    def _read_count(self) -> tf.Tensor:
        """Returns the number of this update, counted from 1, `[]` float32."""
        return tf.cast(tf.convert_to_tensor(self._iterations) + 1, tf.float32)

    @override
    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, except gradient functions, which are not data."""
        rate = super().get_config()["learning_rate"]
        if isinstance(rate, float):
            rate = float(str(np.float32(rate)))  # The shortest decimal: 0.1, not 0.10000000149.
        return {"learning_rate": rate, **parameters.describe(self)}


def get_handle(variable: keras.Variable) -> tf.Tensor:
    """Returns the resource of a variable's copy on the current replica."""
    value = variable.value if isinstance(variable, keras.Variable) else variable
    return value.handle


def write(variable: keras.Variable, value: tf.Tensor) -> None:
    """Sets the current replica's copy of a variable."""
    tf.raw_ops.AssignVariableOp(resource=get_handle(variable), value=value)


def subtract(variable: keras.Variable, change: tf.Tensor) -> None:
    """Subtracts from the current replica's copy of a variable."""
    tf.raw_ops.AssignSubVariableOp(resource=get_handle(variable), value=change)


def update_moments(
    slots: dict[str, keras.Variable], gradient: tf.Tensor, beta_1: Any, beta_2: Any
) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves the mean of gradients and that of their squares, as Adam does, and returns both."""
    momentum = tf.convert_to_tensor(slots["momentum"])
    momentum += (gradient - momentum) * (1.0 - beta_1)
    velocity = tf.convert_to_tensor(slots["velocity"])
    velocity += (tf.square(gradient) - velocity) * (1.0 - beta_2)
    write(slots["momentum"], momentum)
    write(slots["velocity"], velocity)
    return momentum, velocity


def constrain(variable: keras.Variable) -> None:
    """Applies a variable's constraint, if it has one."""
    if getattr(variable, "constraint", None) is not None:
        write(variable, variable.constraint(tf.convert_to_tensor(variable)))


def get_path(variable: keras.Variable) -> str:
    """Returns the name by which a variable is known to users."""
    return str(variable.path if isinstance(variable, keras.Variable) else variable.name)


def _check_pairs(
    before: GradientsAndVariables, after: GradientsAndVariables, where: str
) -> GradientsAndVariables:
    after = list(after)
    if [id(variable) for _, variable in before] != [id(variable) for _, variable in after]:
        raise ValueError(
            f"{where}: got back {len(after)} pairs with other variables, expected (gradient, "
            f"variable) for the {len(before)} variables given, in the same order."
        )
    return after
