"""Beam search of an encoder-decoder in native code, without TensorFlow's operations.

Sentences join and leave a search between steps, and none sees another: each is translated to the
same ids, and the same scores to the bit, whatever others are beside it.

Shapes:
    D  width of the model
    I  inputs of a matrix
    O  outputs of a matrix
    V  vocabulary size
"""

import ctypes
import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from quintain.kernels import library

PRECISIONS: Final = ("float32", "bfloat16", "int8")
"""In the order of `Precision` in `csrc/linear.h`."""

ACTIVATIONS: Final = ("linear", "relu", "swiglu")
"""In the order of `Activation` there."""

_FEWEST_IDS: Final = 128


@dataclasses.dataclass(frozen=True)
class Matrix:
    """Weight matrix and bias of a product."""

    kernel: np.ndarray
    """`[I, O]` float32, or int8 with `scales`. I is a multiple of 4."""

    precision: str
    """One of `PRECISIONS`."""

    bias: np.ndarray | None = None
    """`[O]` float32."""

    scales: np.ndarray | None = None
    """`[O]` float32, what the int8 numbers of each output are multiplied by."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """A whole model."""

    source_table: np.ndarray
    """`[V, D]` float32, embeddings of the source; they are scaled by the root of D."""

    target_table: np.ndarray
    """Likewise of the target."""

    matrices: Sequence[Matrix]
    """Of each layer of the encoder: query, key and value; output; expand; contract. Of each of the
    decoder: query, key and value; output; query of the source; its key and value; its output;
    expand; contract. Last the logits."""

    norms: Sequence[tuple[np.ndarray, np.ndarray]]
    """Scales and shifts: two of each layer of the encoder and its last, three of each of the
    decoder and its last."""

    num_heads: int
    """Attention heads; each is a multiple of 8 wide."""

    num_layers: tuple[int, int]
    """Of the encoder and of the decoder, as all pairs below."""

    norm_first: tuple[bool, bool]
    """Whether a part's input is normalised, or the sum of its input and output."""

    activations: tuple[str, str]
    """Of `ACTIVATIONS`."""

    epsilons: tuple[float, float]
    """Added to the variance in normalisation."""

    position_repeats: int
    """Copies of the positions' sinusoids."""

    embed_start: bool
    """Whether a target starts with the embedding of id 0, instead of zeros."""


@dataclasses.dataclass(frozen=True)
class Found:
    """A sentence's outputs."""

    key: int
    """What `Search.add` was given."""

    ids: list[np.ndarray]
    """Of each output, the best first, its end included; fewer than wanted where there are fewer."""

    scores: list[float]
    """Their length-normalised log-probabilities."""


class _Sizes(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            *("width", "heads", "encoder_layers", "decoder_layers", "source_ids", "target_ids"),
            *("position_repeats", "encoder_norm_first", "decoder_norm_first", "embed_start"),
            *("encoder_activation", "decoder_activation"),
        )
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_int64)
            for name in (
                *("beam_size", "num_outputs", "min_length", "no_repeat_ngram_size", "num_ends"),
            )
        ),
        ("alpha", ctypes.c_float),
    ]


class Model:
    """Packed weights; searches in several threads may use them at the same time."""

    def __init__(self, weights: Weights) -> None:
        """Copies the weights.

        Raises:
            UnavailableError: If there is no native code on this machine.
        """
        self._functions = _declare(library.load().functions)
        handle = ctypes.c_void_p()
        tables = [np.ascontiguousarray(weights.source_table, np.float32)]
        tables.append(np.ascontiguousarray(weights.target_table, np.float32))
        sizes = _Sizes(
            tables[0].shape[1], weights.num_heads, *weights.num_layers, len(tables[0]),
            len(tables[1]), weights.position_repeats, *weights.norm_first, weights.embed_start,
            *map(ACTIVATIONS.index, weights.activations),
        )  # fmt: skip
        epsilons = np.array(weights.epsilons, np.float32)
        _check(
            self._functions.quintain_translation_model(
                ctypes.byref(sizes), _point(epsilons), *map(_point, tables), ctypes.byref(handle)
            )
        )
        self.handle = handle
        _free_with(self, self._functions.quintain_translation_free_model, handle)
        self.num_source_ids, self.num_target_ids = map(len, tables)
        for matrix in weights.matrices:
            self._add(matrix)
        for gamma, beta in weights.norms:
            parts = [np.ascontiguousarray(part, np.float32) for part in (gamma, beta)]
            _check(self._functions.quintain_translation_add_norm(handle, *map(_point, parts)))

    def _add(self, matrix: Matrix) -> None:
        dtype = np.int8 if matrix.precision == "int8" else np.float32
        kernel = np.ascontiguousarray(matrix.kernel, dtype)
        others = [
            None if part is None else np.ascontiguousarray(part, np.float32)
            for part in (matrix.scales, matrix.bias)
        ]
        precision = PRECISIONS.index(matrix.precision)
        _check(
            self._functions.quintain_translation_add_matrix(
                self.handle, precision, *kernel.shape, _point(kernel), *map(_point, others)
            )
        )


class Search:
    """A beam search that sentences join and leave; for one thread at a time."""

    def __init__(
        self,
        model: Model,
        *,
        beam_size: int,
        num_outputs: int,
        alpha: float,
        end_ids: Sequence[int],
        min_length: int = 0,
        no_repeat_ngram_size: int = 0,
    ) -> None:
        self._model, self._functions = model, model._functions
        self._num_outputs = num_outputs
        ends = np.array(end_ids, np.int32)
        _check_ids("end_ids", ends, model.num_target_ids)
        options = _Options(
            beam_size, num_outputs, min_length, no_repeat_ngram_size, len(ends), alpha
        )
        self._handle = ctypes.c_void_p()
        _check(
            self._functions.quintain_translation_search(
                model.handle, ctypes.byref(options), _point(ends), ctypes.byref(self._handle)
            )
        )
        _free_with(self, self._functions.quintain_translation_free_search, self._handle)
        self._lengths = np.zeros([num_outputs], np.int64)
        self._scores = np.zeros([num_outputs], np.float32)
        self._ids = np.zeros([num_outputs, _FEWEST_IDS], np.int32)

    def add(
        self, key: int, ids: np.ndarray, *, max_length: int, prefix: np.ndarray | None = None
    ) -> None:
        """Lets a sentence join.

        Args:
            key: What to call it.
            ids: At least one, its end included.
            max_length: Longest output, its end included.
            prefix: Ids that outputs start with.

        Raises:
            ValueError: If an id is none of the model's.
        """
        source = np.ascontiguousarray(ids, np.int32)
        start = np.ascontiguousarray([] if prefix is None else prefix, np.int32)
        _check_ids("ids", source, self._model.num_source_ids)
        _check_ids("prefix", start, self._model.num_target_ids)
        _check(
            self._functions.quintain_translation_add(
                *(self._handle, key, _point(source), len(source)),
                *(max_length, _point(start), len(start)),
            )
        )

    def run(self, num_steps: int) -> list[Found]:
        """Does at most so many steps, fewer where a sentence is done; returns those that are."""
        _check(self._functions.quintain_translation_run(self._handle, num_steps))
        found = []
        while (one := self._take()) is not None:
            found.append(one)
        return found

    def _take(self) -> Found | None:
        key = ctypes.c_int64()
        while True:
            room = self._ids.shape[1]
            longest = self._functions.quintain_translation_take(
                *(self._handle, self._num_outputs, room, ctypes.byref(key)),
                *(_point(array) for array in (self._ids, self._lengths, self._scores)),
            )
            if longest <= room:
                break
            self._ids = np.zeros([self._num_outputs, longest], np.int32)
        if longest < 0:
            return None
        lengths = [int(length) for length in self._lengths if length >= 0]
        ids = [self._ids[place, :length].copy() for place, length in enumerate(lengths)]
        return Found(key.value, ids, self._scores[: len(lengths)].tolist())


def _declare(functions: Any) -> Any:
    """Returns the functions with the types of what they take and return."""
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    text = ctypes.c_char_p
    for name, result, arguments in (
        ("model", text, [pointer] * 5),
        ("add_matrix", text, [pointer, ctypes.c_int32, integer, integer, *[pointer] * 3]),
        ("add_norm", text, [pointer] * 3),
        ("free_model", None, [pointer]),
        ("search", text, [pointer] * 4),
        ("free_search", None, [pointer]),
        ("add", text, [pointer, integer, pointer, integer, integer, pointer, integer]),
        ("run", text, [pointer, integer]),
        ("take", integer, [pointer, integer, integer, *[pointer] * 4]),
    ):
        function = getattr(functions, f"quintain_translation_{name}")
        function.restype, function.argtypes = result, arguments
    return functions


def _free_with(owner: object, free: Any, handle: ctypes.c_void_p) -> None:
    """Frees memory with its owner, but not when Python ends: a thread may be searching still."""
    weakref.finalize(owner, free, handle).atexit = False


def _check_ids(name: str, ids: np.ndarray, num_ids: int) -> None:
    """Refuses ids that would be read, or written to, beyond a table's end."""
    wrong = ids[(ids < 0) | (ids >= num_ids)]
    if wrong.size:
        raise ValueError(f"{name}: got {wrong[0]}, expected integers in [0, {num_ids}).")


def _point(array: np.ndarray | None) -> Any:
    """Returns the address of an array, which has to be kept meanwhile; None for none."""
    return None if array is None else array.ctypes.data


def _check(message: bytes | None) -> None:
    if message is not None:
        raise MemoryError(message.decode(errors="replace"))
