"""Loop functions over a step: in Python, or as one loop inside a graph."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from quintain.orbit import cluster, finite_data

StepFn = Callable[[Any], Any]
"""Takes a nested structure of iterators, runs one step, and may return the step's outputs."""

_NUM_STEPS_ERROR = (
    "`num_steps`: got {!r}, expected a `tf.Tensor`. A Python number would retrace the "
    "`tf.function` around the loop for every new value; pass `tf.constant(num_steps)`."
)


def create_loop_fn(
    step_fn: StepFn, after_step: Callable[[int], bool] | None = None
) -> Callable[..., Any]:
    """Creates a loop that runs in Python.

    Args:
        step_fn: What to run at every step; may be a `tf.function`.
        after_step: Called with the number of steps done so far; the loop ends when it returns True.

    Returns:
        `loop_fn(iterator, num_steps, state=None, reduce_fn=None)`. It calls `step_fn(iterator)`
        `num_steps` times (-1: until the iterator ends), folds the outputs with
        `state = reduce_fn(state, outputs)` if there is a `reduce_fn`, and returns the last state.
        An iterator that ends early ends the loop, too.
    """

    def loop_fn(
        iterator: Any,
        num_steps: int | tf.Tensor,
        state: Any = None,
        reduce_fn: Callable[[Any, Any], Any] | None = None,
    ) -> Any:
        limit = int(num_steps)
        step = 0
        try:
            # Remote workers report the end of their data late; the scope waits for them.
            with tf.experimental.async_scope():
                while limit == -1 or step < limit:
                    outputs = step_fn(iterator)
                    if reduce_fn is not None:
                        state = reduce_fn(state, outputs)
                    step += 1
                    if after_step is not None and after_step(step):
                        break
        except (StopIteration, tf.errors.OutOfRangeError):
            tf.experimental.async_clear_error()
        return state

    return loop_fn


def create_tf_while_loop_fn(
    step_fn: StepFn,
    stop_flag: tf.Variable | None = None,
    *,
    data_may_end: bool = False,
    elements_per_step: int = 1,
    take: finite_data.TakeFn | None = None,
) -> Callable[..., tf.Tensor]:
    """Creates a loop that becomes a `tf.while_loop` when called inside a `tf.function`.

    Args:
        step_fn: What to run at every step. Its return value is ignored.
        stop_flag: `[]` bool. The loop ends before the next step once it is True. Without a flag
            nothing is checked.
        data_may_end: Whether the loop ends when the data does, instead of raising
            `OutOfRangeError` from within a step. Needs a single iterator; see `finite_data`.
        elements_per_step: Elements that a step needs, where the data may end.
        take: Calls what takes the elements, where the data may end, on a single replica.

    Returns:
        `loop_fn(iterator, num_steps)`, where `num_steps` is a `[]` int32 tensor. It returns the
        number of steps done, `[]` int32. It raises ValueError if `num_steps` is not a tensor.
    """
    guarded_step_fn = (
        finite_data.skip_step_without_data(step_fn, elements_per_step, take)
        if data_may_end
        else None
    )

    def loop_fn(iterator: Any, num_steps: tf.Tensor) -> tf.Tensor:
        _require_tensor(num_steps)
        if data_may_end and finite_data.needs_agreement():
            return _finite_loop_in_agreement(
                step_fn, iterator, num_steps, stop_flag, elements_per_step
            )
        if stop_flag is not None and _has_several_workers():
            return _loop_in_agreement(step_fn, iterator, num_steps, stop_flag)
        return _loop(step_fn, guarded_step_fn, iterator, num_steps, stop_flag)

    return loop_fn


def needs_autograph() -> bool:
    """Returns whether loops agree with other workers, so that AutoGraph has to convert them."""
    return finite_data.needs_agreement() or _has_several_workers()


def _has_several_workers() -> bool:
    return cluster.num_workers(tf.distribute.get_strategy()) > 1


def _loop(
    step_fn: StepFn,
    guarded_step_fn: StepFn | None,
    iterator: Any,
    num_steps: tf.Tensor,
    stop_flag: tf.Variable | None,
) -> tf.Tensor:
    """Loops on one worker. Written out, as AutoGraph would write it: it need not be converted."""

    def may_continue(step: tf.Tensor, has_data: tf.Tensor) -> tf.Tensor:
        return _may_continue(step, num_steps, stop_flag, has_data if guarded_step_fn else None)

    def run_step(step: tf.Tensor, has_data: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # An empty scope keeps "while/" out of the names of the step's ops.
        with tf.name_scope(""):
            if guarded_step_fn is None:
                step_fn(iterator)
                return step + 1, has_data
            has_data = guarded_step_fn(iterator)
            return step + tf.cast(has_data, step.dtype), has_data

    start = (tf.zeros([], num_steps.dtype), tf.constant(True))
    step, _ = tf.while_loop(may_continue, run_step, start)
    return step


def _loop_in_agreement(
    step_fn: StepFn, iterator: Any, num_steps: tf.Tensor, stop_flag: tf.Variable
) -> tf.Tensor:
    """Loops on several workers, which all stop before the same step."""
    step = tf.zeros([], num_steps.dtype)
    is_stopped = _is_stopped(stop_flag)
    while tf.logical_and(step < num_steps, tf.logical_not(is_stopped)):
        with tf.name_scope(""):
            step_fn(iterator)
            step += 1
            is_stopped = _is_stopped(stop_flag)
    return step


def _finite_loop_in_agreement(
    step_fn: StepFn,
    iterator: Any,
    num_steps: tf.Tensor,
    stop_flag: tf.Variable | None,
    elements_per_step: int,
) -> tf.Tensor:
    """Loops on several replicas until one of them is out of data.

    The elements are taken at the end of the step before, so that no step is inside of a condition;
    and only when they are sure to be wanted, so that none is lost between two loops.
    """
    step = tf.zeros([], num_steps.dtype)
    is_wanted = tf.logical_and(step < num_steps, tf.logical_not(_is_stopped(stop_flag)))
    optionals = finite_data.take_if(iterator, is_wanted, elements_per_step)
    has_data = finite_data.have_all(optionals)
    while has_data:
        with tf.name_scope(""):
            step_fn(finite_data.preload(iterator, optionals))
            step += 1
            is_wanted = tf.logical_and(step < num_steps, tf.logical_not(_is_stopped(stop_flag)))
            optionals = finite_data.take_if(iterator, is_wanted, elements_per_step)
            has_data = finite_data.have_all(optionals)
    return step


def _is_stopped(stop_flag: tf.Variable | None) -> tf.Tensor:
    """Returns whether any worker was asked to stop, `[]` bool."""
    if stop_flag is None:
        return tf.constant(False)
    return cluster.any_worker(tf.distribute.get_strategy(), stop_flag.read_value())


def create_tf_while_loop_fn_with_state(
    step_fn: StepFn, stop_flag: tf.Variable | None = None
) -> Callable[..., Any]:
    """Creates a loop like `create_tf_while_loop_fn` that also folds the outputs of the steps.

    Args:
        step_fn: What to run at every step.
        stop_flag: `[]` bool. The loop ends before the next step once it is True.

    Returns:
        `loop_fn(iterator, num_steps, state, reduce_fn)`, which returns the last state. The
        structure and ranks of `state` must stay the same from step to step; its sizes may change
        (tensors can grow by concatenation).
    """

    def loop_fn(
        iterator: Any,
        num_steps: tf.Tensor,
        state: Any,
        reduce_fn: Callable[[Any, Any], Any],
    ) -> Any:
        _require_tensor(num_steps)
        step = tf.zeros([], num_steps.dtype)
        while _may_continue(step, num_steps, stop_flag):
            tf.autograph.experimental.set_loop_options(
                shape_invariants=[(state, tf.nest.map_structure(_with_unknown_sizes, state))]
            )
            with tf.name_scope(""):
                outputs = step_fn(iterator)
                state = reduce_fn(state, outputs)
            step += 1
        return state

    return loop_fn


def _require_tensor(num_steps: Any) -> None:
    if not isinstance(num_steps, tf.Tensor):
        raise ValueError(_NUM_STEPS_ERROR.format(num_steps))  # noqa: TRY004 - as documented


def _may_continue(
    step: tf.Tensor,
    num_steps: tf.Tensor,
    stop_flag: tf.Variable | None,
    has_data: tf.Tensor | None = None,
) -> tf.Tensor:
    may_continue = step < num_steps
    if stop_flag is not None:
        may_continue = tf.logical_and(may_continue, tf.logical_not(stop_flag))
    if has_data is not None:
        may_continue = tf.logical_and(may_continue, has_data)
    return may_continue


def _with_unknown_sizes(tensor: Any) -> tf.TensorShape | None:
    """Returns the shape with every size unknown, so that the state may grow in the loop."""
    if not tf.is_tensor(tensor):
        return None
    if tensor.shape.rank is None:
        return tensor.shape
    return tf.TensorShape([None] * tensor.shape.rank)
