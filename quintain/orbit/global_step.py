"""The variable that counts train steps."""

from typing import Any

import keras
import tensorflow as tf


def create_global_step() -> tf.Variable:
    """Creates a step counter for a `Controller`.

    An optimizer's `iterations` will not do when a step updates the weights several times, or with
    several optimizers. The train step has to add 1 to this counter.

    Returns:
        `[]` int64 variable, 0, not trainable. Under a distribution strategy create it inside of the
        scope; the replicas keep equal copies, and the first one's counts.
    """
    return tf.Variable(
        0,
        dtype=tf.int64,
        name="global_step",
        trainable=False,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def to_variable(step: Any) -> tf.Variable:
    """Returns TensorFlow's variable of a step counter, such as an optimizer's `iterations`.

    Args:
        step: `[]` integer `tf.Variable` or `keras.Variable`.

    Raises:
        ValueError: If it is neither.
    """
    variable = step.value if isinstance(step, keras.Variable) else step
    if not isinstance(variable, tf.Variable):
        raise ValueError(  # noqa: TRY004 - one class for all arguments of a controller
            f"`global_step`: got {type(step)!r}, expected a `tf.Variable`: "
            "`optimizer.iterations`, or `orbit.utils.create_global_step()`."
        )
    return variable
