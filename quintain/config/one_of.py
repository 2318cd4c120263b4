"""`OneOfConfig`: several sub-configs, of which `type` chooses one."""

import dataclasses
from typing import Any

from quintain import errors
from quintain.config import base_config


@dataclasses.dataclass
class OneOfConfig(base_config.Config):
    """Several sub-configs, of which `type` chooses one; any other `type` is refused.

    Example:
        >>> @dataclasses.dataclass
        ... class Constant(base_config.Config):
        ...     value: float = 0.1
        >>> @dataclasses.dataclass
        ... class Rate(OneOfConfig):
        ...     constant: Constant = Constant()
        >>> Rate({"type": "constant"}).get().value
        0.1
    """

    type: str | None = None
    """Name of the sub-config in use; None uses none of them."""

    def choices(self) -> list[str]:
        """Returns the names that `type` may take."""
        return [field.name for field in dataclasses.fields(self) if field.name != "type"]

    def get(self, key: str = "", default: Any = None) -> Any:
        """Returns the chosen sub-config, or None if `type` is None.

        Args:
            key: A name, to read this field as `Config.get` does, instead.
            default: What to return for a name that there is not.
        """
        if key:
            return super().get(key, default)
        return None if self.type is None else getattr(self, self.type)

    def get_type(self) -> str | None:
        """Returns the name of the chosen sub-config."""
        return self.type

    def _convert(self, name: str, value: Any, path: str, problems: list[errors.Problem]) -> Any:
        converted = super()._convert(name, value, path, problems)
        choices = self.choices()
        if name == "type" and isinstance(value, str) and value not in choices:
            problems.append(
                errors.Problem(
                    path,
                    f"got {value!r}, expected one of {', '.join(choices)}."
                    f"{errors.suggest(value, choices)}",
                )
            )
        return converted

    def as_dict(self) -> dict[str, Any]:
        """Returns `type`, the chosen sub-config, and the others that differ from their defaults."""
        plain = super().as_dict()
        defaults = dict(base_config.Config.as_dict(type(self)()))
        return {
            name: value
            for name, value in plain.items()
            if name in ("type", self.type) or value != defaults.get(name)
        }
