"""Best values of the Keras metrics that a trial's code names: the smallest or the largest ones.

The code is read, not run: to build a model at submission may take memory and data.
"""

import ast
import inspect
import pathlib
from typing import Final, Literal

import keras
from keras.src import metrics as keras_metrics
from keras.src.utils import naming

from quintain.records.config import source_folders

_MEANS: Final = ("Mean", "MeanMetricWrapper", "Metric", "Sum")
"""Metrics of anything, which have no best value."""

_MAX_ENDINGS: Final = (
    *("Accuracy", "AUC", "IoU", "Score", "Similarity", "Correlation", "Precision", "Recall"),
    *("Specificity", "Sensitivity", "TruePositives", "TrueNegatives"),
)
"""Ends of the names of classes whose largest values are the best."""


def find(directory: pathlib.Path) -> dict[str, Literal["min", "max"]]:
    """Returns which value of a Keras metric is the best, for those that a directory's code names.

    Args:
        directory: The user's code. A file that can't be parsed is passed over; its import fails.

    Returns:
        `min` or `max` by the names of metrics: those given as texts (`metrics=["mae"]`), and of
        the classes that are called (`keras.metrics.AUC(name="area")`).
    """
    found: dict[str, Literal["min", "max"]] = {}
    for path in source_folders.find_sources(directory):
        try:
            tree = ast.parse(path.read_bytes(), str(path))
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Constant(value=str(text)) if text.islower():
                    kind, name = text, text
                case ast.Call(func=ast.Name(id=kind) | ast.Attribute(attr=kind)):
                    name = _find_name(kind, node)
                case _:
                    continue
            metric = keras_metrics.ALL_OBJECTS_DICT.get({"acc": "accuracy"}.get(kind, kind))
            if metric is not None and name and metric.__name__ not in _MEANS:
                found[name] = "max" if metric.__name__.endswith(_MAX_ENDINGS) else "min"
    return found


def _find_name(kind: str, call: ast.Call) -> str:
    """Returns the name of the metric that a call makes, or nothing if the code computes it."""
    metric = getattr(keras.metrics, kind, None)
    if not isinstance(metric, type):
        return ""
    for keyword in call.keywords:
        if keyword.arg == "name":
            return str(keyword.value.value) if isinstance(keyword.value, ast.Constant) else ""
    default = inspect.signature(metric).parameters["name"].default
    return str(default or naming.to_snake_case(kind))
