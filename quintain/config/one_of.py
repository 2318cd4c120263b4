"""`OneOfConfig`: several sub-configs, of which `type` chooses one."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from quintain import errors
from quintain.config import base_config


@dataclasses.dataclass
class OneOfConfig(base_config.Config):
    """Several sub-configs, of which `type` chooses one.

    A `type` that is none of them is refused when it comes from a file or an override; one that was
    assigned, when it is used or validated.

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

    def get(self, key: str = "", value: Any = None) -> Any:
        """Returns the chosen sub-config, or None if `type` is None.

        Args:
            key: A name, to read this field as `Config.get` does, instead.
            value: What to return for a name that there is not.

        Raises:
            ConfigError: If `type` is not one of the choices.
        """
        if key:
            return super().get(key, value)
        if self.type is None:
            return None
        for name, message in self.check():
            raise errors.ConfigError(f"{name}: {message}")
        return getattr(self, self.type)

    def get_type(self) -> str | None:
        """Returns the name of the chosen sub-config."""
        return self.type

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if `type` is not one of the choices."""
        if self.type is not None and self.type not in self.choices():
            yield (
                "type",
                f"got {errors.show(self.type)}, expected one of {', '.join(self.choices())}."
                f"{errors.suggest(self.type, self.choices())}",
            )

    def as_dict(self) -> dict[str, Any]:
        """Returns `type`, the chosen sub-config, and the others that differ from their defaults."""
        plain = super().as_dict()
        defaults = dict(base_config.Config.as_dict(type(self)()))
        return {
            name: value
            for name, value in plain.items()
            if name in ("type", self.type) or value != defaults.get(name)
        }

    def _apply_one(
        self, name: str, value: Any, path: str, is_strict: bool, problems: list[errors.Problem]
    ) -> None:
        super()._apply_one(name, value, path, is_strict, problems)
        if name == "type" and isinstance(value, str):
            problems += [errors.Problem(path, message) for _, message in self.check()]
