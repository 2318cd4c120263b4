"""Models that are described by the arguments of their constructors."""

import functools
from collections.abc import Mapping
from typing import Any, Self

import keras
from typing_extensions import override


class ConstructorConfig:
    """Gives a Keras model `get_config` and `from_config` by what its constructor was given.

    The arguments may hold layers and models: those of the config are the same objects, and saved
    models describe them.
    """

    _config: dict[str, Any]

    def _keep_config(self, **config: Any) -> None:
        """Keeps arguments, out of sight of what tracks layers and weights."""
        vars(self)["_config"] = config

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return dict(self._config)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None
    ) -> Self:
        """Builds a model from what `get_config` returned, or from what was saved of it."""
        return cls(**{name: revive(value, custom_objects) for name, value in config.items()})


class ConstructedModel(ConstructorConfig, keras.Model):
    """A model with `inputs` that is whole once it is constructed.

    It offers what Keras' functional models do, for models that go on from there.

    Example:
        `keras.Model(encoder.inputs, keras.layers.Dense(2)(encoder.outputs[1]))`.
    """

    @functools.cached_property
    def output(self) -> Any:
        """What the model gives for Keras' inputs `inputs`, in its own structure."""
        return self(self.inputs)

    @property
    def outputs(self) -> list[keras.KerasTensor]:
        """The parts of `output`, those of a dictionary in the order of their names."""
        return keras.tree.flatten(self.output)

    @override
    def build(self, input_shape: Any = None) -> None:
        """Does nothing: all weights were made by the constructor."""


def arguments(scope: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of a constructor but for `**kwargs`.

    `scope` is `locals()` of the constructor, before it sets other names.
    """
    return {name: scope[name] for name in scope if name not in ("self", "kwargs", "__class__")}


def revive(value: Any, custom_objects: Mapping[str, Any] | None = None) -> Any:
    """Returns what a config describes; what is no description as it is."""
    if isinstance(value, list):
        return [revive(one, custom_objects) for one in value]
    if isinstance(value, dict) and "class_name" in value and "config" in value:
        return keras.saving.deserialize_keras_object(value, custom_objects)
    if isinstance(value, dict):
        return {name: revive(one, custom_objects) for name, one in value.items()}
    return value
