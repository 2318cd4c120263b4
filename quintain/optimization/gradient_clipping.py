"""Limits on gradients."""

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

from quintain import errors
from quintain.optimization import norms


@dataclasses.dataclass(frozen=True, kw_only=True)
class GradientClipping:
    """Limits on the numbers of a gradient, then on the norm of each one or of all together.

    Example:
        >>> clipping = GradientClipping(global_norm=1.0)
        >>> [part.numpy().tolist() for part in clipping.clip([tf.constant([0.0, 4.0])])]
        [[0.0, 1.0]]
    """

    norm: float | None = None
    """Largest L2 norm of one variable's gradient."""

    value: float | None = None
    """Largest absolute value of one number in a gradient."""

    global_norm: float | None = None
    """Largest L2 norm of all gradients together."""

    def __post_init__(self) -> None:
        limits = {
            "clipnorm": self.norm,
            "clipvalue": self.value,
            "global_clipnorm": self.global_norm,
        }
        for name, limit in limits.items():
            if limit is not None and not (limit > 0 and math.isfinite(limit)):
                raise errors.ConfigError(f"{name}: got {limit!r}, expected None or a number > 0.")
        if self.norm is not None and self.global_norm is not None:
            raise errors.ConfigError(
                f"At most one norm may be limited, but got clipnorm={self.norm!r}, "
                f"global_clipnorm={self.global_norm!r}. Leave one of them out."
            )

    @property
    def is_active(self) -> bool:
        """True if there is any limit."""
        return not (self.norm is None and self.value is None and self.global_norm is None)

    def clip(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Returns the limited gradients. Numbers that are not finite stay visible as NaN."""
        return multiply(*self.limit(gradients))

    def limit(self, gradients: Sequence[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor | None]:
        """Limits all but the norm of all together; returns what they are to be multiplied by."""
        clipped = list(gradients)
        if self.value is not None:
            clipped = [tf.clip_by_value(part, -self.value, self.value) for part in clipped]
        if self.norm is not None:
            clipped = [clip_by_global_norm([part], self.norm)[0] for part in clipped]
        return clipped, None if self.global_norm is None else find_scale(clipped, self.global_norm)


def clip_by_global_norm(gradients: Sequence[tf.Tensor], limit: float) -> list[tf.Tensor]:
    """Scales gradients down together so that their common L2 norm is at most `limit`.

    Returns:
        The scaled gradients; all NaN if the norm is not finite, so that the fault is not hidden.
    """
    return multiply(gradients, find_scale(gradients, limit))


def find_scale(gradients: Sequence[tf.Tensor], limit: float) -> tf.Tensor:
    """Returns what `clip_by_global_norm` multiplies gradients by, a `[]` float."""
    norm = norms.global_norm(gradients)
    scale = limit / tf.maximum(norm, limit)
    return tf.where(tf.math.is_finite(norm), scale, float("nan"))


def multiply(gradients: Sequence[tf.Tensor], scale: tf.Tensor | None) -> list[tf.Tensor]:
    """Multiplies gradients by a scalar; None leaves them as they are."""
    if scale is None:
        return list(gradients)
    return [part * tf.cast(scale, part.dtype) for part in gradients]
