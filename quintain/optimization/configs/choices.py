"""Choices of a `OneOfConfig`: each a name, its config, and the class that it describes.

A choice is written once, as a field. The factory, and the package's public names, follow from it.
"""

import dataclasses
import importlib
from typing import Any, Final, TypeVar

from quintain.config import base_config, one_of

C = TypeVar("C", bound=base_config.Config)

_PACKAGE: Final = "quintain.optimization"


def choice(config_cls: type[C], builder: str) -> C:
    """Returns a field of a `OneOfConfig`.

    Args:
        config_cls: The config.
        builder: What it describes: `module.Class` of `quintain.optimization`, which takes the
            config's fields. It is imported when it is used: configs don't wait for TensorFlow.
    """
    field: C = dataclasses.field(
        default_factory=config_cls, metadata={"builder": f"{_PACKAGE}.{builder}"}
    )
    return field


def find_builders(one_of_cls: type[one_of.OneOfConfig]) -> dict[str, str]:
    """Returns the dotted path of what each choice describes, by the value of `type`."""
    return {
        field.name: field.metadata["builder"]
        for field in dataclasses.fields(one_of_cls)
        if "builder" in field.metadata
    }


def load(path: str) -> Any:
    """Returns what a dotted path names."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)
