"""Tensors that end where memory ends: who reads a number too many ends the process."""

import collections
import ctypes
import mmap

import numpy as np
import tensorflow as tf

_free: dict[int, list[mmap.mmap]] = collections.defaultdict(list)
_used: list[mmap.mmap] = []
_libc = ctypes.CDLL(None, use_errno=True)


def guard(numbers: np.ndarray) -> tf.Tensor:
    """Returns a tensor of these numbers whose memory is followed by a page that can't be touched.

    It starts wherever that makes it start, which is seldom where TensorFlow's tensors do: most of
    its operations refuse such a tensor.

    Args:
        numbers: Of any type that tensors have, with at least one number.
    """
    plain = np.ascontiguousarray(numbers)
    size = -(-plain.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = _free[size].pop() if _free[size] else _map(size)
    _used.append(memory)
    is_bfloat16 = plain.dtype == tf.bfloat16.as_numpy_dtype
    dtype = np.dtype(np.uint16) if is_bfloat16 else plain.dtype
    place = np.frombuffer(memory, dtype, plain.size, size - plain.nbytes).reshape(plain.shape)
    place[...] = plain.view(dtype)
    tensor = tf.experimental.dlpack.from_dlpack(place.__dlpack__())
    return tf.bitcast(tensor, tf.bfloat16) if is_bfloat16 else tensor


def release() -> None:
    """Lets the memory of all tensors that `guard` has made be used again: TensorFlow keeps it."""
    while _used:
        memory = _used.pop()
        _free[len(memory) - mmap.PAGESIZE].append(memory)


def _map(size: int) -> mmap.mmap:
    """Returns memory of whole pages, and one behind it that can't be touched."""
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if _libc.mprotect(ctypes.c_void_p(start + size), mmap.PAGESIZE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return memory
