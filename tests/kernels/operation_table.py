"""What every operation of the native kernels takes, as the fuzzer needs to know it.

Each input is named with its shape: a letter for each size, digits for
sizes that are fixed. `W` is the width of all heads, `X` and `Y` twice and three times
that, `Z` nothing.
"""

from typing import Any, Final

import numpy as np

_ATTENTION: Final = {
    "queries": "BQW",
    "memory": "BKX",
    "bias": "B1QK",
    "key": "1",
    "counter": "2",
}

SHAPES: Final = {
    "QuintainAttention": _ATTENTION,
    "QuintainAttentionGradient": {**_ATTENTION, "upstream": "BQW"},
    "QuintainAttentionBiasGradient": {**_ATTENTION, "upstream": "BQW"},
    "QuintainActivation": {"inputs": "ND", "key": "1", "counter": "2"},
    "QuintainActivationGradient": {"slopes": "ND", "upstream": "ND"},
    "QuintainAttentionWeights": {
        "scores": "BHQK",
        "bias": "B1QK",
        "key": "1",
        "counter": "2",
    },
    "QuintainAttentionWeightsGradient": {
        "weights": "BHQK",
        "upstream": "BHQK",
        "key": "1",
        "counter": "2",
    },
    "QuintainAttentionWeightsBiasGradient": {
        "weights": "BHQK",
        "upstream": "BHQK",
        "bias": "1H1K",
        "key": "1",
        "counter": "2",
    },
    "QuintainCrossEntropyGradient": {
        "logits": "ND",
        "labels": "N",
        "maximum": "N",
        "exp_sum": "N",
        "upstream": "N",
    },
    "QuintainDropout": {"inputs": "ND", "residual": "ND", "key": "1", "counter": "2"},
    "QuintainMeasureLogits": {"logits": "ND", "labels": "N"},
    "QuintainProduct": {"left": "ND", "right": "DF", "bias": "F"},
    "QuintainResidualNorm": {
        "residual": "ND",
        "inputs": "ND",
        "gamma": "D",
        "beta": "D",
        "key": "1",
        "counter": "2",
    },
    "QuintainResidualNormGradient": {
        "total": "ND",
        "total_upstream": "ND",
        "upstream": "ND",
        "means": "N",
        "scales": "N",
        "gamma": "D",
        "key": "1",
        "counter": "2",
    },
    "QuintainSumRows": {"rows": "ND"},
    "QuintainTableGradient": {"dense": "ND", "gradients": "QD", "ids": "Q"},
}

OPTIONAL: Final = ("residual", "bias", "total_upstream")
"""Inputs that may be empty instead."""

OF_LISTS: Final = ("QuintainAdam", "QuintainHalfSquares")
"""Those that take lists of tensors: the fuzzer has a function for them."""


def find_shapes(name: str, attributes: dict[str, Any]) -> dict[str, str]:
    """Returns the shapes of an operation's inputs with these attributes."""
    shapes = dict(SHAPES[name])
    if name == "QuintainProduct":
        shapes["left"] = "DN" if attributes["transpose_left"] else "ND"
        shapes["right"] = "FD" if attributes["transpose_right"] else "DF"
    if "memory" in shapes and attributes["first_kept"] == 99:  # Sometimes all is in one tensor.
        shapes.update(queries="BQY", memory="Z", bias="B1QQ")
    return shapes


def is_allowed(name: str, attributes: dict[str, Any], sizes: dict[str, int]) -> bool:
    """Returns whether an operation must give results with these attributes and fitting inputs."""
    if name == "QuintainProduct":
        return not (attributes["transpose_right"] and attributes["sum_right"])
    if name.startswith("QuintainResidualNorm") and attributes["Total"] == "bfloat16":
        return attributes["Input"] == "bfloat16"
    return name != "QuintainCrossEntropyGradient" or sizes["N"] == 0 or sizes["D"] > 0


def find_largest(name: str, argument: str, sizes: dict[str, int]) -> int | None:
    """Returns what integers of an input have to be below; None if there is no limit."""
    limits = {"labels": "D", "ids": "N"}
    return sizes[limits[argument]] if argument in limits else None


SPECIAL: Final = np.array([np.nan, np.inf, -np.inf, 3e38, -1e30, 1e-40, -0.0, 0.0], np.float32)
"""Numbers that some tensors are sprinkled with."""
