"""Adapter by which optimizers for TensorFlow 1's variables update resource variables.

A `tf.train.Optimizer` has each of its update rules twice: `_apply_dense` for the variables that
TensorFlow 1 made, and `_resource_apply_dense` for those of today. Optimizers of users mostly have
the first alone, and call `apply_adam` and the like, which take no resources.
"""

import functools
import inspect
from typing import Annotated, Any, Final

import tensorflow as tf
from tensorflow.python.ops import gen_training_ops, resource_variable_ops
from tensorflow.security.fuzzing.py import annotation_types

from quintain import errors

_RESOURCE: Final = Annotated[Any, annotation_types.Resource]
"""How TensorFlow marks the arguments of operations that are resources."""

_Optimizer: Final[Any] = tf.compat.v1.train.Optimizer


@functools.cache
def enable() -> None:
    """Makes subclasses of `tf.train.Optimizer` that are defined from now on work. It stays."""
    _Optimizer.__init_subclass__ = classmethod(_complete)
    _Optimizer._apply_dense = _refuse_dense
    _Optimizer._apply_sparse = _refuse_sparse
    _complete_class(_Optimizer)
    for name in dir(gen_training_ops):
        present = getattr(gen_training_ops, f"resource_{name}", None)
        if name.startswith(("apply_", "sparse_apply_")) and present is not None:
            former = getattr(gen_training_ops, name)
            setattr(gen_training_ops, name, _take_resources(former, present))


def _complete(cls: type[Any], **kwargs: Any) -> None:
    super(_Optimizer, cls).__init_subclass__(**kwargs)
    _complete_class(cls)


def _complete_class(cls: type[Any]) -> None:
    """Sets the newer methods of a class to call the older ones, where these were written later."""
    for older, newer in _NEWER.items():
        if cls is _Optimizer or _find_depth(cls, older) < _find_depth(cls, newer):
            setattr(cls, newer, _CALLS[newer])


def _find_depth(cls: type[Any], name: str) -> int:
    """Returns how many classes a method is inherited through."""
    return next(number for number, each in enumerate(cls.__mro__) if name in vars(each))


def _resource_apply_dense(self: Any, grad: tf.Tensor, handle: Any) -> Any:
    return self._apply_dense(grad, handle)


def _resource_apply_sparse(self: Any, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> Any:
    return self._apply_sparse(_slices(grad, handle, indices), handle)


def _resource_apply_sparse_duplicate_indices(
    self: Any, grad: tf.Tensor, handle: Any, indices: tf.Tensor
) -> Any:
    return self._apply_sparse_duplicate_indices(_slices(grad, handle, indices), handle)


def _slices(grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.IndexedSlices:
    return tf.IndexedSlices(grad, indices, tf.constant(handle.shape.as_list()))


_NEWER: Final = {
    "_apply_dense": "_resource_apply_dense",
    "_apply_sparse": "_resource_apply_sparse",
    "_apply_sparse_duplicate_indices": "_resource_apply_sparse_duplicate_indices",
}

_CALLS: Final = {
    "_resource_apply_dense": _resource_apply_dense,
    "_resource_apply_sparse": _resource_apply_sparse,
    "_resource_apply_sparse_duplicate_indices": _resource_apply_sparse_duplicate_indices,
}


def _refuse_dense(self: Any, grad: Any, var: Any) -> Any:
    raise _missing(self, "_apply_dense(grad, var)", var, "")


def _refuse_sparse(self: Any, grad: Any, var: Any) -> Any:
    raise _missing(self, "_apply_sparse(grad, var)", var, ", whose gradient is sparse")


def _missing(optimizer: Any, method: str, var: Any, why: str) -> errors.TrialError:
    cls = type(optimizer)
    return errors.TrialError(
        f"{cls.__module__}.{cls.__qualname__} has no method {method}; it is needed for the "
        f"variable {var.op.name}{why}."
    )


def _take_resources(former: Any, present: Any) -> Any:
    """Returns an operation on variables of TensorFlow 1 that takes those of today as well."""
    signature = inspect.signature(present)
    resources = [name for name, one in signature.parameters.items() if one.annotation == _RESOURCE]

    @functools.wraps(former)
    def apply(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        variables = [bound.arguments[name] for name in resources]
        if not all(resource_variable_ops.is_resource_variable(each) for each in variables):
            return former(*args, **kwargs)
        bound.arguments |= {
            name: each.handle for name, each in zip(resources, variables, strict=True)
        }
        with tf.control_dependencies([present(*bound.args, **bound.kwargs)]):
            return variables[0].read_value()  # TensorFlow 1's returned what they had written.

    return apply
