"""Functional-model view of models that are classes here: inputs, outputs and layers."""

import functools
from typing import Any

import keras


class FunctionalView:
    """Gives a model with `inputs` its `output` and `outputs`, for models that go on from there.

    Example:
        `keras.Model(encoder.inputs, keras.layers.Dense(2)(encoder.outputs[1]))`.
    """

    @functools.cached_property
    def output(self) -> Any:
        """Output for Keras' inputs `inputs`, in the model's own structure."""
        return self(self.inputs)  # type: ignore[attr-defined, operator]

    @property
    def outputs(self) -> list[keras.KerasTensor]:
        """The parts of `output`, those of a dictionary in the order of their names."""
        return keras.tree.flatten(self.output)
