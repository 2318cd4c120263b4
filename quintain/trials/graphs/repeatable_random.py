"""Stateless random operations of a graph, as functions of the step.

TensorFlow 1's random operations keep their state where no checkpoint reaches it, so that a training
that goes on from a checkpoint draws other numbers than one that was not interrupted. While a graph
is built here, stateless ones take their place, whose seed is made of the operation's seed, the step
and, in loops, the numbers of the iterations.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.ops import (
    gen_candidate_sampling_ops,
    gen_image_ops,
    gen_nn_ops,
    gen_random_ops,
    stateless_random_ops,
)

from quintain.input.diagnosis import random_watch
from quintain.trials.graphs import loop_iterations, repeatable_candidates

_MODULUS: Final = 2**31 - 1

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def random_ops_by_step(step: tf.Tensor) -> Iterator[None]:
    """Replaces random operations that are added to the graph within this block.

    The few that have no counterpart stay; a warning names them, and the lines that use them.

    Args:
        step: Scalar int64 tensor of the graph: different in each step.
    """
    iterations = loop_iterations.LoopIterations()
    with contextlib.ExitStack() as stack:
        stack.callback(iterations.finish)

        def put(module: Any, name: str, replacement: Callable[..., Any]) -> None:
            stack.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, replacement)

        for (module, name), build in _REPLACEMENTS.items():

            def replacement(*args: Any, _build: Callable[..., Any] = build, **kwargs: Any) -> Any:
                seeds = kwargs.pop("seed", 0) or 0, kwargs.pop("seed2", 0) or 0
                return _build(_make_seed(seeds, step, iterations), *args, **kwargs)

            put(module, name, replacement)
        for module, name in _STATEFUL:
            put(module, name, _warn_of(getattr(module, name)))
        yield


def _make_seed(
    seeds: tuple[int, int], step: tf.Tensor, iterations: loop_iterations.LoopIterations
) -> tf.Tensor:
    """Returns the seed, `[2]` int64, of an operation at a step and, in loops, an iteration."""
    if seeds == (0, 0):  # None was given; each operation is to draw numbers of its own.
        seeds = (0, int(tf.compat.v1.get_default_graph().version))
    mixed = (seeds[0] * 1_000_003 + seeds[1]) % _MODULUS
    seed = tf.stack([tf.constant(mixed, tf.int64), step])
    for number in iterations.list_numbers():
        seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(number, tf.int64))
    return seed


def _warn_of(build: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that says what can't be repeated, and does it."""

    @functools.wraps(build)
    def warn(*args: Any, **kwargs: Any) -> Any:
        result = build(*args, **kwargs)
        operation = tf.nest.flatten(result)[0].op
        if not operation.node_def.attr["deterministic"].b:
            logger.warning(
                "%s%s keeps its state where no checkpoint reaches it: a trial that goes on in "
                "another process draws other numbers than one that was not interrupted.",
                operation.type,
                random_watch.find_line(operation),
            )
        return result

    return warn


def _uniform(seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None) -> tf.Tensor:
    return stateless_random_ops.stateless_random_uniform(shape, seed, dtype=dtype, name=name)


def _uniform_int(
    seed: tf.Tensor, shape: Any, minval: Any, maxval: Any, name: str | None = None
) -> tf.Tensor:
    minval = tf.convert_to_tensor(minval)
    return stateless_random_ops.stateless_random_uniform(
        shape, seed, minval=minval, maxval=maxval, dtype=minval.dtype, name=name
    )


def _normal(seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None) -> tf.Tensor:
    return stateless_random_ops.stateless_random_normal(shape, seed, dtype=dtype, name=name)


def _truncated_normal(
    seed: tf.Tensor, shape: Any, dtype: Any, name: str | None = None
) -> tf.Tensor:
    return stateless_random_ops.stateless_truncated_normal(shape, seed, dtype=dtype, name=name)


def _multinomial(
    seed: tf.Tensor,
    logits: Any,
    num_samples: Any,
    output_dtype: Any = tf.int64,
    name: str | None = None,
) -> tf.Tensor:
    return stateless_random_ops.stateless_multinomial(
        logits, num_samples, seed, output_dtype=output_dtype, name=name
    )


def _shuffle(seed: tf.Tensor, value: Any, name: str | None = None) -> tf.Tensor:
    return tf.random.experimental.stateless_shuffle(value, seed, name=name)


def _gamma(seed: tf.Tensor, shape: Any, alpha: Any, name: str | None = None) -> tf.Tensor:
    alpha = tf.convert_to_tensor(alpha)
    full = tf.concat([shape, tf.shape(alpha)], axis=0)
    return stateless_random_ops.stateless_random_gamma(
        full, seed, alpha, dtype=alpha.dtype, name=name
    )


def _poisson(
    seed: tf.Tensor, shape: Any, rate: Any, dtype: Any = tf.int64, name: str | None = None
) -> tf.Tensor:
    rate = tf.convert_to_tensor(rate)
    full = tf.concat([shape, tf.shape(rate)], axis=0)
    return stateless_random_ops.stateless_random_poisson(full, seed, rate, dtype, name=name)


def _parameterized_truncated_normal(
    seed: tf.Tensor, shape: Any, *limits: Any, name: str | None = None
) -> tf.Tensor:
    """Has one mean, deviation, least and largest value for all, or one each for the first axis."""
    shape = tf.convert_to_tensor(shape)
    column = tf.concat([[-1], tf.ones_like(shape[1:])], axis=0)
    full = (tf.broadcast_to(tf.reshape(limit, column), shape) for limit in limits)
    return stateless_random_ops.stateless_parameterized_truncated_normal(
        shape, seed, *full, name=name
    )


def _distorted_box(
    seed: tf.Tensor, image_size: Any, bounding_boxes: Any, *args: Any, **kwargs: Any
) -> Any:
    return tf.image.stateless_sample_distorted_bounding_box(
        image_size, bounding_boxes, seed, *args, **kwargs
    )


_REPLACEMENTS: Final[dict[tuple[Any, str], Callable[..., Any]]] = {
    (gen_random_ops, "random_uniform"): _uniform,
    (gen_random_ops, "random_uniform_int"): _uniform_int,
    (gen_random_ops, "random_standard_normal"): _normal,
    (gen_random_ops, "truncated_normal"): _truncated_normal,
    (gen_random_ops, "parameterized_truncated_normal"): _parameterized_truncated_normal,
    (gen_random_ops, "multinomial"): _multinomial,
    (gen_random_ops, "random_shuffle"): _shuffle,
    (gen_random_ops, "random_gamma"): _gamma,
    (gen_random_ops, "random_poisson_v2"): _poisson,
    (gen_image_ops, "sample_distorted_bounding_box_v2"): _distorted_box,
    **{
        (gen_candidate_sampling_ops, f"{describe.__name__}_candidate_sampler"): functools.partial(
            repeatable_candidates.sample, describe
        )
        for describe in (
            repeatable_candidates.uniform,
            repeatable_candidates.log_uniform,
            repeatable_candidates.fixed_unigram,
        )
    },
}

_STATEFUL: Final = (
    (gen_candidate_sampling_ops, "learned_unigram_candidate_sampler"),
    (gen_nn_ops, "fractional_max_pool"),
    (gen_nn_ops, "fractional_avg_pool"),
)
"""What has no counterpart without a state of its own, or whose seed can't be a tensor."""
