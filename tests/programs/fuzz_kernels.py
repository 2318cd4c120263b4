"""Calls the native operations with whatever they may be given: right, wrong, huge, nothing.

    python tests/programs/fuzz_kernels.py [--seconds 3600] [--seed 1] 2>calls.txt

Each call must give results of the right shapes, the same twice, or an error that says what was
expected. Inputs lie before memory that can't be touched. The last line of stderr is the call that
ran, for those that end the process. Writes as JSON how often each operation gave results, and
errors, and what was wrong.
"""

import argparse
import collections
import faulthandler
import json
import math
import os
import pathlib
import re
import resource
import sys
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

# oneDNN's allocator waits ten seconds for memory that there is not, and hides small overruns.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

from quintain.kernels import library, sources
from tests.kernels import guarded_memory, operation_table

SIZES = [0, 1, 1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 65, 130, 513]
HUGE = [2**31, 2**33 + 1, 2**40, 2**61, 2**62]
MEMORY = 2 << 30
FLOATS = [0.0, 0.1, 0.5, 1.0, 1e-6, -1.0, float("nan"), float("inf")]
REFUSALS = tuple(
    getattr(tf.errors, f"{kind}Error")
    for kind in ("InvalidArgument", "ResourceExhausted", "NotFound")
)
EXPECTED = ("expected", "OOM")
TYPES = {tf.float32.as_datatype_enum: "float32", tf.bfloat16.as_datatype_enum: "bfloat16"}


class Fuzzer:
    """Draws calls and checks them."""

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        self._functions = library.load().functions
        self._newest = 1 + list(sources.INSTRUCTION_SETS).index(library.load().instruction_set)
        self.counts = collections.defaultdict(collections.Counter)

    def run_one(self) -> None:
        """Makes one call, of an operation drawn at random."""
        isa = int(self._random.integers(1, self._newest + 1))
        self._functions.quintain_limit_isa(isa)
        name = self._choose([*operation_table.SHAPES, *operation_table.OF_LISTS])
        if name == "QuintainAdam":
            arguments, is_right = self._draw_adam()
        elif name == "QuintainHalfSquares":
            arguments, is_right = {"tensors": self._draw_list()}, True
        else:
            try:
                arguments, is_right = self._draw_call(name)
            except REFUSALS:  # TensorFlow has no such tensor.
                return
        story = f"{name} isa={isa} right={is_right} {_describe(arguments)}"
        print(story, file=sys.stderr)
        self._check(name, arguments, is_right, story)

    def _check(self, name: str, arguments: dict[str, Any], is_right: bool, story: str) -> None:
        operation = getattr(library.get(), _find_function(name))
        try:
            results = _read(operation(**arguments))
        except REFUSALS as error:
            text = str(error)
            # There may be no kernel for types together.
            kind = "not found" if isinstance(error, tf.errors.NotFoundError) else "refused"
            is_clear = kind == "not found" or any(word in text for word in EXPECTED)
            if is_right or not is_clear:
                raise AssertionError(f"{story}: {text}") from error
            self.counts[name][kind] += 1
            return
        self.counts[name]["right" if is_right else "accepted"] += 1
        assert _read(operation(**arguments)) == results, f"{story}: not the same twice"

    def _draw_call(self, name: str) -> tuple[dict[str, Any], bool]:
        definition = op_def_registry.get(name)
        attributes = {one.name: self._draw_attribute(one) for one in definition.attr}
        shapes = operation_table.find_shapes(name, attributes)
        sizes = {letter: self._choose(SIZES) for letter in "BHNDFQK"}
        if self._random.integers(10) == 0:  # Of a size without numbers, others may be huge.
            empty = self._choose([*sizes])
            sizes.update({letter: self._choose([*HUGE, 1, 3]) for letter in sizes}, **{empty: 0})
        elif "B" in shapes.get("scores", shapes.get("weights", "")):
            sizes.update({letter: self._choose(SIZES[:7]) for letter in "BHQ"})
        is_right = operation_table.is_allowed(name, attributes, sizes)
        is_right &= max(sizes.values()) < min(HUGE)
        wrong = self._choose([*shapes, *[None] * len(shapes)])
        arguments = {}
        for one in definition.input_arg:
            shape = [
                sizes.get(size) or (int(size) if size.isdigit() else 0) for size in shapes[one.name]
            ]
            if one.name in operation_table.OPTIONAL and self._random.integers(3) == 0:
                shape = [0] * len(shape)
            elif one.name == wrong:
                shape = self._spoil(shape)
                is_right = False
            dtype = tf.as_dtype(one.type or attributes[one.type_attr])
            limit = operation_table.find_largest(name, one.name, sizes)
            is_right &= limit != 0 or 0 in shape or name == "QuintainMeasureLogits"
            arguments[one.name], is_inside = self._draw_tensor(shape, dtype, limit)
            is_right &= is_inside or name == "QuintainMeasureLogits"
        inferred = {one.type_attr for one in definition.input_arg}
        others = {key: value for key, value in attributes.items() if key not in inferred}
        return {**arguments, **others}, is_right

    def _draw_attribute(self, one: Any) -> Any:
        if one.type == "type":
            return self._choose([TYPES[number] for number in one.allowed_values.list.type])
        if one.type == "bool":
            return self._choose([False, True])
        if one.type == "float":
            return self._choose(FLOATS)
        return (
            self._choose([0, 1, 2]) if one.name == "level_bytes" else self._choose([-30000, 0, 99])
        )

    def _spoil(self, shape: list[int]) -> list[int]:
        """Returns a shape that is probably wrong; huge ones have no numbers."""
        kind = self._random.integers(7)
        place = int(self._random.integers(max(len(shape), 1)))
        if kind == 0:
            return shape[1:]
        if kind == 1:
            return [*shape, 1]
        if kind == 2:
            return [1, *shape]
        if kind == 3:
            return shape[::-1]
        changed = list(shape) or [1]
        changed[place] = max(0, changed[place] + self._choose([-1, 1])) if kind == 4 else 0
        if kind == 6:
            changed[place - 1] = self._choose(HUGE)
            changed[place] = 0
        return changed

    def _draw_tensor(
        self, shape: list[int], dtype: tf.DType, limit: int | None
    ) -> tuple[tf.Tensor, bool]:
        """Returns a tensor and, if its numbers have a limit, whether they keep to it."""
        if 0 in shape or math.prod(shape) >= min(HUGE):
            return tf.zeros(shape, dtype), True
        is_inside = True
        if dtype.is_floating:
            numbers = self._random.normal(size=shape).astype(np.float32)
            if self._random.integers(2):
                where = self._random.random(shape) < self._choose([0.01, 0.5, 1.0])
                numbers = np.where(
                    where, self._random.choice(operation_table.SPECIAL, shape), numbers
                )
        else:
            numbers = self._random.integers(0, limit or 2**31 - 1, shape)
            if limit is not None and self._random.integers(4) == 0:
                place = int(self._random.integers(numbers.size))
                numbers.reshape(-1)[place] = self._choose([limit, -1, 2**31 - 1, -(2**31)])
                is_below = numbers.reshape(-1)[place] < limit
                is_inside = bool(
                    is_below and dtype == tf.int64
                )  # Of ids, negative ones are left out.
        return guarded_memory.guard(numbers.astype(dtype.as_numpy_dtype)), is_inside

    def _draw_list(self) -> list[tf.Tensor]:
        count = int(self._random.integers(1, 5))
        dtypes = [self._choose([tf.float32, tf.bfloat16]) for _ in range(count)]
        shapes = [
            [self._choose(SIZES), self._choose(SIZES)][: self._choose([0, 1, 2])] for _ in dtypes
        ]
        return [
            self._draw_tensor(shape, dtype, None)[0]
            for shape, dtype in zip(shapes, dtypes, strict=True)
        ]

    def _draw_adam(self) -> tuple[dict[str, Any], bool]:
        gradients = self._draw_list()
        lists = {
            kind: [tf.Variable(tf.zeros(one.shape)) for one in gradients]
            for kind in ("weights", "means", "squares")
        }
        averaged = [place for place in range(len(gradients)) if self._random.integers(2)]
        averages = [tf.Variable(tf.zeros(gradients[place].shape)) for place in averaged]
        arguments = {
            **lists,
            "averages": averages,
            "gradients": gradients,
            "scalars": self._draw_tensor([7], tf.float32, None)[0],
            "decaying": [bool(self._random.integers(2)) for _ in gradients],
            "averaged": averaged,
        }
        wrong = self._choose([None, None, *range(8)])
        if wrong == 0:
            arguments["averaged"] = [self._choose([-1, 5, 2**40]) for _ in averages] or [0]
        elif wrong == 1:
            arguments["averaged"] = [*averaged, 0]
        elif wrong == 2:
            arguments["scalars"] = tf.zeros([self._choose([0, 6, 8])])
        elif wrong == 3:
            arguments["decaying"] = [True] * (len(gradients) + 1)
        elif wrong == 4:
            arguments["gradients"] = gradients[:-1] or [tf.zeros([1])] * 2
        elif wrong == 5:
            kind = self._choose(["weights", "means", "squares"])
            arguments[kind] = [
                *arguments[kind][:-1],
                tf.Variable(self._choose([[1, 2], [[1.5]] * 5])),
            ]
        keep = {key: list(value) for key, value in arguments.items() if key in (*lists, "averages")}
        handles = {key: [one.handle for one in value] for key, value in keep.items()}
        if wrong == 6:
            handles["means"] = [tf.stack([one, one]) for one in handles["means"]]
        elif wrong == 7:
            handles["squares"] = [handles["weights"][0], *handles["squares"][1:]]
        self._kept = keep
        return {**arguments, **handles}, wrong is None

    def _choose(self, choices: list[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]


def _find_function(name: str) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", name).lower()


def _read(results: Any) -> list[bytes]:
    if results is None or isinstance(results, tf.Operation):
        return []
    tensors = results if isinstance(results, tuple) else (results,)
    return [b"" if 0 in one.shape else one.numpy().tobytes() for one in tensors]


def _describe(arguments: dict[str, Any]) -> str:
    return " ".join(f"{key}={_describe_one(value)}" for key, value in arguments.items())


def _describe_one(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_describe_one, value))}]"
    if tf.is_tensor(value):
        return f"{value.dtype.name}{value.shape.as_list()}"
    return repr(value)


def main() -> None:
    """Fuzzes for a time, or a number of calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    # What is too large for memory is an error, and harms nobody else.
    used = int(pathlib.Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    fuzzer = Fuzzer(arguments.seed)
    end = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    count = 0
    while count < arguments.calls if end is None else time.monotonic() < end:
        faulthandler.dump_traceback_later(60, exit=True)  # A call that hangs is a fault as well.
        try:
            fuzzer.run_one()
        except AssertionError as error:
            fuzzer.counts["failures"][str(error)] += 1
        guarded_memory.release()
        count += 1
    print(json.dumps(fuzzer.counts))


if __name__ == "__main__":
    main()
