"""Names of TensorFlow 1 in TensorFlow's inner modules.

Optimizers, layers and cells of users are written with `from tensorflow.python.ops import ...`, as
TensorFlow's own are. Nothing that is there is replaced.
"""

import functools
import importlib
import sys
from typing import Any, Final

_ROOT: Final = "tensorflow.python"

_MODULES: Final = {"training.training_ops": "ops.gen_training_ops"}
"""Modules that went, and what has their names."""

_NAMES: Final = {
    "framework.ops": {
        "IndexedSlices": "framework.indexed_slices",
        "Tensor": "framework.tensor",
        "Session": "client.session",
    },
    "framework.tensor_shape": {"scalar": "", "vector": ""},
    "ops.array_ops": {"stack": "ops.array_ops_stack", "unstack": "ops.array_ops_stack"},
    "ops.control_flow_ops": {
        "Assert": "ops.control_flow_assert",
        "case": "ops.control_flow_case",
        "cond": "ops.cond",
        "while_loop": "ops.while_loop",
    },
    "ops.functional_ops": {"map_fn": "ops.map_fn"},
    "ops.variables": {"RefVariable": "ops.ref_variable", "VariableV1": "ops.variable_v1"},
    "util.nest": {"is_sequence": ""},
}
"""Names that went from a module, and where they are. Those without a place are made here."""


@functools.cache
def enable() -> None:
    """Adds the names to this process; they stay."""
    for former, present in _MODULES.items():
        module = _load(present)
        sys.modules.setdefault(f"{_ROOT}.{former}", module)
        parent, _, leaf = former.rpartition(".")
        vars(_load(parent)).setdefault(leaf, module)
    for former, names in _NAMES.items():
        for name, present in names.items():
            value = getattr(_load(present), name) if present else _make(name)
            vars(_load(former)).setdefault(name, value)


def _load(path: str) -> Any:
    return importlib.import_module(f"{_ROOT}.{path}")


def _make(name: str) -> Any:
    shapes = _load("framework.tensor_shape")
    return {
        "is_sequence": _load("util.nest").is_nested,
        "scalar": lambda: shapes.TensorShape([]),
        "vector": lambda length: shapes.TensorShape([length]),
    }[name]
