"""Maximal update parametrization: one learning rate for a model of any width.

The same model is built at a base width. What its weights are as wide there, against here, says how
much smaller they start and at what part of the learning rate they are trained, so that features
learn as fast at every width. The model's own computation stays as it is: in checkpoints and exports
are weights like any others.

With `i` and `o` the growth of a weight's inputs and outputs since the base width:

    initial size    base * i ** -0.5 * min(1, (o / i) ** 0.5)
    Adam            rate / i
    SGD             rate * o / i

Source:
    Yang and Hu et al., 2022, table 3 (https://arxiv.org/abs/2203.03466);
    Yang et al., 2023, condition 1 (https://arxiv.org/abs/2310.17813).
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, Final

import keras
import numpy as np

from quintain import errors
from quintain.optimization import fused_optimizer, optimizer_wrapper

_FIELD: Final = "trainer.parametrization.base"

_CONVOLUTIONS: Final = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)


@dataclasses.dataclass(frozen=True)
class Growth:
    """Growth of a weight since the base width."""

    inputs: float
    """Factor of how many numbers are summed up for an output."""

    outputs: float
    """Factor of how many outputs there are."""

    exponent: float = 0.0
    """Power of the outputs' factor by which the weight is kept larger, for layers that multiply by
    its table once more than others do."""

    @property
    def initial_scale(self) -> float:
        """Factor of the size that a new weight has at the base width."""
        share = min(1.0, self.outputs / self.inputs)
        return self.inputs**-0.5 * share**0.5 * self._kept

    @property
    def adam_rate(self) -> float:
        """Factor of the learning rate of Adam."""
        return self._kept / self.inputs

    @property
    def sgd_rate(self) -> float:
        """Factor of the learning rate of SGD."""
        return self._kept**2 * self.outputs / self.inputs

    @property
    def _kept(self) -> float:
        return float(self.outputs**self.exponent)


def apply(
    model: keras.Model, base_model: keras.Model, optimizer: keras.optimizers.Optimizer
) -> None:
    """Makes a new model, and its optimizer, learn as at the base width.

    Layers that compute with a table of embeddings as outputs say so by a method
    `list_width_exponents`, which returns pairs of a variable and its `Growth.exponent`.

    Args:
        model: The model; its weights are changed.
        base_model: The same at the base width, as new. Not changed.
        optimizer: Adam, AdamW, AdamWeightDecay or SGD of this package, or a wrapper of one; its
            rates are changed.

    Raises:
        ConfigError: If the optimizer is another, or the models are not the same but for the width.

    Example:
        >>> from quintain.optimization.rules import adam
        >>> def build(width):
        ...     return keras.Sequential([
        ...         keras.Input([4]), keras.layers.Dense(width), keras.layers.Dense(2)
        ...     ])
        >>> model, optimizer = build(64), adam.Adam(0.01)
        >>> apply(model, build(16), optimizer)
    """
    found = find_rule(optimizer)
    growths = find_growths(model, base_model)
    bases = base_model.trainable_variables
    for variable, base, growth in zip(model.trainable_variables, bases, growths, strict=True):
        size, base_size = _measure(variable), _measure(base)
        if size and base_size and growth != Growth(1.0, 1.0):
            variable.assign(variable * (base_size * growth.initial_scale / size))
    is_linear = found.GRADIENT_SCALING == "linear"
    found.set_rate_factors(
        (variable, growth.sgd_rate if is_linear else growth.adam_rate)
        for variable, growth in zip(model.trainable_variables, growths, strict=True)
    )


def find_rule(optimizer: keras.optimizers.Optimizer) -> fused_optimizer.FusedOptimizer:
    """Returns the optimizer that updates the weights, inside of its wrappers.

    Raises:
        ConfigError: If its learning rates can't be set for each weight.
    """
    found = optimizer_wrapper.find_wrapper(optimizer, fused_optimizer.FusedOptimizer)
    if found is None or found.GRADIENT_SCALING is None:
        raise errors.ConfigError(
            "trainer.parametrization.type: got 'mup' with the optimizer "
            f"{type(found or optimizer).__name__}, which has no rule for it. Use Adam, AdamW, "
            "AdamWeightDecay or SGD."
        )
    return found


def find_growths(model: keras.Model, base_model: keras.Model) -> list[Growth]:
    """Returns the growth of each trainable variable of a model.

    Raises:
        ConfigError: If the models are not the same but for the width.
    """
    variables, bases = model.trainable_variables, base_model.trainable_variables
    if [len(one.shape) for one in variables] != [len(one.shape) for one in bases]:
        raise errors.ConfigError(
            f"{_FIELD}: the model there has {len(bases)} weights, and {len(variables)} here. "
            "Change widths alone, not the number of layers or what they are."
        )
    _check_heads(model, base_model)
    equations, convolutions, exponents = _read_layers(model)
    growths = []
    for variable, base in zip(variables, bases, strict=True):
        ratios = [size / small for size, small in zip(variable.shape, base.shape, strict=True)]
        if any(ratio < 1.0 for ratio in ratios):
            raise errors.ConfigError(
                f"{_FIELD}: {variable.path} is {list(base.shape)} there, which is wider than "
                f"{list(variable.shape)} here. Train at the base width or above it."
            )
        rank, key = len(ratios), id(variable)
        inputs = [rank - 2] if rank > 1 else []
        if key in equations:
            inputs = equations[key]
        elif rank > 2 and key not in convolutions and max(ratios) > 1.0:
            raise errors.ConfigError(
                f"trainer.parametrization.type: got 'mup', but it is not known which sizes of "
                f"{variable.path}, {list(variable.shape)}, are inputs. Use dense layers, ordinary "
                "convolutions and attention."
            )
        growth_in = math.prod(ratios[place] for place in inputs)
        growths.append(Growth(growth_in, math.prod(ratios) / growth_in, exponents.get(key, 0.0)))
    if all(growth.inputs == growth.outputs == 1.0 for growth in growths):
        raise errors.ConfigError(
            f"{_FIELD}: no weight is smaller there than here. Name fields of the model's width."
        )
    return growths


def _read_layers(model: keras.Model) -> tuple[dict[int, list[int]], set[int], dict[int, float]]:
    """Returns what only layers know of their variables, by id.

    These are the dimensions of inputs in weights of `EinsumDense`, kernels of convolutions, and the
    exponents that layers list.
    """
    equations, convolutions, exponents = {}, set(), {}
    for layer in model._flatten_layers():
        if isinstance(layer, keras.layers.EinsumDense):
            left, _, _ = layer.equation.partition("->")
            features, _, kernel = left.partition(",")
            places = [place for place, letter in enumerate(kernel) if letter in features]
            equations[id(layer._kernel)] = places
            equations[id(layer.bias)] = []
        elif isinstance(layer, _CONVOLUTIONS) and layer.groups == 1:
            convolutions.add(id(layer._kernel))
        if getattr(layer, "tie_weights", False):
            raise errors.ConfigError(
                f"trainer.parametrization.type: got 'mup', but {layer.path} uses its embeddings "
                "for outputs as well. Leave it out, or give the outputs weights of their own."
            )
        for variable, exponent in getattr(layer, "list_width_exponents", list)():
            exponents[id(variable)] = exponent
    return equations, convolutions, exponents


def _check_heads(model: keras.Model, base_model: keras.Model) -> None:
    """Checks that heads of attention have the same size; where not, scores would grow."""
    sizes, base_sizes = list(_list_head_sizes(model)), list(_list_head_sizes(base_model))
    if sizes != base_sizes:
        raise errors.ConfigError(
            f"{_FIELD}: heads of attention have the sizes {sorted(set(base_sizes))} there, and "
            f"{sorted(set(sizes))} here. Let the number of heads grow with the width, so that "
            "their size stays."
        )


def _list_head_sizes(model: keras.Model) -> Iterator[int]:
    for layer in model._flatten_layers():
        num_heads: Any = getattr(layer, "num_heads", None)
        if hasattr(layer, "key_dim"):
            yield layer.key_dim
        elif num_heads and hasattr(layer, "width"):
            yield layer.width // num_heads


def _measure(variable: keras.Variable) -> float:
    """Returns the root of the mean square of a variable."""
    return float(np.sqrt(np.mean(np.square(keras.ops.convert_to_numpy(variable), dtype=float))))
