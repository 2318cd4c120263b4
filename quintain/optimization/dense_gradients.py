"""Sparse gradients of embeddings (`tf.IndexedSlices`), and the updates of rows that follow."""

from typing import Any

import tensorflow as tf

from quintain.kernels import selection


def densify(gradient: Any, variable: Any) -> tf.Tensor:
    """Returns a gradient as a tensor of the variable's type; repeated rows are summed.

    Replicas sum dense gradients only: within a loop over steps, TensorFlow's collective operations
    fail where a shape, such as the number of rows, is another one than in the step before.
    """
    if isinstance(gradient, tf.IndexedSlices):
        gradient = tf.math.unsorted_segment_sum(
            gradient.values, gradient.indices, variable.shape[0]
        )
    elif selection.is_native():
        gradient = _fuse(gradient)
    return tf.cast(gradient, variable.dtype)


def multiply(gradient: Any, factor: tf.Tensor) -> Any:
    """Multiplies a gradient, dense or sparse, by a scalar."""
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)


def disable_copy_on_read() -> None:
    """Turns off copy-on-read of the variables whose rows the traced step updates.

    TensorFlow turns it on at the first sparse update: from then on every read copies the whole
    variable, and `keras.layers.Embedding` reads its whole table to look up some rows. Without it
    an update copies the variable, if what was read before is still in use. Call it in the graph of
    a step, after the updates, but not where XLA compiles it, which lacks the operation.
    """
    if tf.executing_eagerly():
        return
    updates = ("ResourceScatter", "ResourceSparseApply")
    operations = tf.compat.v1.get_default_graph().get_operations()
    handles = [one.inputs[0].ref() for one in operations if one.type.startswith(updates)]
    for handle in dict.fromkeys(handles):
        tf.raw_ops.DisableCopyOnRead(resource=handle.deref())


def _fuse(gradient: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of a tied table, `[V, D]` float32, computed in one pass.

    TensorFlow writes the gradient of what was looked up as a table of its own, mostly zeros, casts
    the other part to float32, and adds up both. The kernel reads what they were computed from: of
    a table of 30,522 words it moves about half as much. Rows that were looked up repeatedly are
    added up in their order, so that the result is the same for any number of threads.

    Args:
        gradient: Any gradient. It is returned as it is unless a graph computed it by adding the
            gradients of lookups to other ones.
    """
    if not tf.is_symbolic_tensor(gradient) or gradient.op.type != "AddN":
        return gradient
    parts = list(gradient.op.inputs)
    looked_up = [part for part in parts if _is_looked_up(part)]
    others = [part for part in parts if not _is_looked_up(part)]
    if not looked_up or not others or others[0].shape.rank != 2:
        return gradient
    from quintain.kernels import adam, library  # noqa: PLC0415 - only native steps do

    sources = [part.op.inputs for part in looked_up]
    return library.get().quintain_table_gradient(
        dense=adam.find_uncast(others[0] if len(others) == 1 else tf.add_n(others)),
        gradients=_join([values for values, *_ in sources]),
        ids=_join([tf.cast(ids, tf.int64) for _, ids, *_ in sources]),
    )


def _is_looked_up(part: tf.Tensor) -> bool:
    """Returns whether it holds sums of float32 rows `[N, D]` by ids `[N]`."""
    is_sum = part.op.type == "UnsortedSegmentSum" and part.dtype == tf.float32
    return is_sum and part.shape.rank == 2 and part.op.inputs[1].shape.rank == 1


def _join(parts: list[tf.Tensor]) -> tf.Tensor:
    return parts[0] if len(parts) == 1 else tf.concat(parts, 0)
