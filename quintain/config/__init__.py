"""Typed configs: dataclasses that check themselves, read YAML and can be locked."""

from quintain.config.base_config import Config, bind
from quintain.config.one_of import OneOfConfig

__all__ = ["Config", "OneOfConfig", "bind"]
