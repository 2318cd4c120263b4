"""The Gaussian mechanism: noise that hides what one example adds to a sum of gradients.

A private training step sums the clipped gradients of its examples on every replica (see
`quintain.core.privacy.private_gradients`). The optimizer adds up the replicas' sums, and then, as
the first of its gradient transformers, a `GaussianMechanism` adds the noise and divides. The noise
is a function of a secret number and of the step, so every replica adds the same, and the weights of
the replicas stay equal.

Source:
    Abadi et al., 2016, algorithm 1 (https://arxiv.org/abs/1607.00133).
"""

import contextlib
import dataclasses
import secrets
import threading
from collections.abc import Callable, Iterator

import tensorflow as tf

from quintain import errors
from quintain.optimization import fused_optimizer, gradient_clipping

_SEED_BITS = 63


@dataclasses.dataclass
class _PrivateSum:
    """The sum of clipped gradients that is being applied in a thread."""

    divisor: tf.Tensor | float
    has_noise: bool = False


class _Current(threading.local):
    private_sum: _PrivateSum | None = None
    required_by: str | None = None
    """Whose gradients must come in a private sum; None if any gradients may be applied."""
    num_applied: int = 0


_CURRENT = _Current()


class GaussianMechanism(tf.Module):
    """A gradient transformer that adds Gaussian noise to a sum of clipped gradients.

    Within `private_sum_applied` the gradients are sums over examples, each of which added at most
    `clipping_norm`. Gradients that are applied outside of it count as those of a single example:
    they are clipped as a whole, noise is added, and nothing is divided.

    Example:
        >>> mechanism = GaussianMechanism(clipping_norm=1.0, noise_multiplier=0.0)
        >>> [(gradient, _)] = mechanism([(tf.constant([0.0, 4.0]), "variable")])
        >>> gradient.numpy().tolist()
        [0.0, 1.0]
    """

    def __init__(
        self, *, clipping_norm: float, noise_multiplier: float, seed: int | None = None
    ) -> None:
        """Stores the scale of the noise and draws its secret seed.

        Args:
            clipping_norm: Largest L2 norm that one example adds to the sum.
            noise_multiplier: Standard deviation of the noise, as a multiple of `clipping_norm`.
            seed: Seed of the noise. None draws a secret one. Whoever knows it can take the noise
                off again.
        """
        super().__init__(name="gaussian_mechanism")
        self._clipping_norm = clipping_norm
        self._noise_stddev = clipping_norm * noise_multiplier
        self._seed = tf.Variable(
            secrets.randbits(_SEED_BITS) if seed is None else seed,
            dtype=tf.int64,
            trainable=False,
            name="noise_seed",
        )
        self._calls = 0
        self._read_step: Callable[[], tf.Tensor] | None = None

    @property
    def noise_stddev(self) -> float:
        """Standard deviation of the noise that is added to each number of the sum."""
        return self._noise_stddev

    def follow(self, read_step: Callable[[], tf.Tensor]) -> None:
        """Makes the noise a function of a step that is counted, and saved, elsewhere.

        Args:
            read_step: Returns the step, a scalar integer, such as an optimizer's `iterations`.
        """
        self._read_step = read_step

    def __call__(
        self, pairs: fused_optimizer.GradientsAndVariables
    ) -> fused_optimizer.GradientsAndVariables:
        """Adds the noise of this step.

        Args:
            pairs: (gradient, variable), summed over the replicas; the same on each.

        Returns:
            Pairs with the noisy gradients, divided by the divisor of the private sum.
        """
        gradients = [tf.convert_to_tensor(gradient) for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        current = _CURRENT.private_sum
        if current is None:
            _refuse_if_required()
            gradients = gradient_clipping.clip_by_global_norm(gradients, self._clipping_norm)
        gradients = self._add_noise(gradients)
        if current is not None:
            current.has_noise = True
            gradients = [part / tf.cast(current.divisor, part.dtype) for part in gradients]
        return list(zip(gradients, variables, strict=True))

    def _add_noise(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        if not self._noise_stddev:
            return gradients
        if self._read_step is None:
            self._calls += 1
            step = tf.constant(self._calls, tf.int64)
        else:
            step = tf.cast(self._read_step(), tf.int64)
        seed = tf.convert_to_tensor(self._seed)
        return [
            part
            + self._noise_stddev
            * tf.random.stateless_normal(
                tf.shape(part),
                tf.stack([seed, step * len(gradients) + index]),
                dtype=part.dtype,
                alg="philox",
            )
            for index, part in enumerate(gradients)
        ]


@contextlib.contextmanager
def private_sum_applied(divisor: tf.Tensor | float) -> Iterator[None]:
    """Declares that what the optimizer is given inside is a sum of clipped gradients.

    Args:
        divisor: Scalar, the number of examples that the noisy sum is divided by; the same on every
            replica.

    Raises:
        ConfigError: If the optimizer that was used inside adds no noise.
    """
    former = _CURRENT.private_sum
    _CURRENT.private_sum = current = _PrivateSum(divisor)
    try:
        yield
    finally:
        _CURRENT.private_sum = former
    _CURRENT.num_applied += 1
    if not current.has_noise:
        raise errors.ConfigError(
            "optimizer: got one without a GaussianMechanism for a task with "
            "differential_privacy_config. Build it by Task.create_optimizer(..., "
            "dp_config=task.task_config.differential_privacy_config)."
        )


@contextlib.contextmanager
def private_sum_required(owner: str) -> Iterator[None]:
    """Makes sure that gradients applied inside are sums of clipped ones, and that some are.

    Raises:
        ConfigError: If others are applied, or none.
    """
    former, num_before = _CURRENT.required_by, _CURRENT.num_applied
    _CURRENT.required_by = owner
    try:
        yield
        if _CURRENT.num_applied == num_before:
            _refuse_if_required()
    finally:
        _CURRENT.required_by = former


def _refuse_if_required() -> None:
    if _CURRENT.required_by is not None:
        raise errors.ConfigError(
            f"task.differential_privacy_config: {_CURRENT.required_by} applies gradients in which "
            "the examples are mixed already, so that none can be limited. Let Task.train_step "
            "compute them (super().train_step), and override split_inputs, build_losses and "
            "process_metrics instead."
        )


def clip_l2_norm(
    grads_vars: fused_optimizer.GradientsAndVariables, l2_norm_clip: float
) -> fused_optimizer.GradientsAndVariables:
    """Scales gradients down together so that their common L2 norm is at most `l2_norm_clip`."""
    clipped = gradient_clipping.clip_by_global_norm(
        [tf.convert_to_tensor(gradient) for gradient, _ in grads_vars], l2_norm_clip
    )
    return list(zip(clipped, [variable for _, variable in grads_vars], strict=True))


def add_noise(
    grads_vars: fused_optimizer.GradientsAndVariables, noise_stddev: float
) -> fused_optimizer.GradientsAndVariables:
    """Adds Gaussian noise that depends on TensorFlow's global seed.

    Training does not use it: see `GaussianMechanism`, whose noise is the same on all replicas.
    """
    return [
        (
            gradient + tf.random.normal(tf.shape(gradient), stddev=noise_stddev),
            variable,
        )
        for gradient, variable in grads_vars
    ]
