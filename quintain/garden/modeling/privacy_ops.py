"""Clipping and noise on gradients of a whole batch, for custom optimizers.

They give no guarantee: that needs the gradients of single examples, as training with
`task.differential_privacy_config` has them.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

GradientPairs = Sequence[tuple[tf.Tensor, Any]]


def clip_l2_norm(grads_vars: GradientPairs, l2_norm_clip: float) -> list[tuple[tf.Tensor, Any]]:
    """Scales gradients down so that their L2 norm, of all together, is at most `l2_norm_clip`."""
    warnings.warn("`clip_l2_norm` deprecated.", DeprecationWarning, stacklevel=2)
    gradients, variables = zip(*grads_vars, strict=True)
    clipped, _ = tf.clip_by_global_norm(gradients, l2_norm_clip)
    return list(zip(clipped, variables, strict=True))


def add_noise(grads_vars: GradientPairs, noise_stddev: float) -> list[tuple[tf.Tensor, Any]]:
    """Adds normal noise of a standard deviation to each number of the gradients."""
    warnings.warn("`add_noise` deprecated.", DeprecationWarning, stacklevel=2)
    return [
        (gradient + tf.random.normal(tf.shape(gradient), stddev=noise_stddev), variable)
        for gradient, variable in grads_vars
    ]
