"""Header of a run's `params.yaml`: everything besides the config."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from quintain.config import base_config

EXPERIMENT_KEY: Final = "experiment"
IMPORTS_KEY: Final = "imports"
DIRECTORIES_KEY: Final = "import_directories"
"""Where each of the imported modules was."""

HEADER_KEYS: Final = (EXPERIMENT_KEY, IMPORTS_KEY, DIRECTORIES_KEY)


@dataclasses.dataclass
class ConfigOfRun(base_config.Config):
    """A config that is overridden by the `params.yaml` of a run, as programs do that export it."""

    @override
    def override(
        self, override_params: Mapping[str, Any] | base_config.Config, is_strict: bool = True
    ) -> None:
        """Replaces values as every config does; what a run says of its experiment is left out.

        Args:
            override_params: Plain data, maybe of a whole `params.yaml`, or another config.
            is_strict: Whether a name that no field has is an error.

        Raises:
            ConfigError: If the config is locked, or listing every unknown name and wrong value.

        Example:
            >>> ConfigOfRun().override({"experiment": "bert/local", "imports": ["my_task"]})
            >>> ConfigOfRun().override({"experimnet": "bert/local"})
            Traceback (most recent call last):
            ...
            quintain.errors.UnknownKeyError: experimnet: unknown; ConfigOfRun has no such field.
        """
        if isinstance(override_params, base_config.Config):
            override_params = override_params.as_dict()
        if isinstance(override_params, Mapping):
            override_params = without_header(override_params)
        super().override(override_params, is_strict)


def without_header(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of the settings of a run is its config."""
    return {name: value for name, value in settings.items() if name not in HEADER_KEYS}
