"""Train action with a preparation before the first loop."""

import abc
from collections.abc import Mapping
from typing import Any


class PreparedAction(abc.ABC):
    """Train action that has something to do before the first loop of every start of a run."""

    @abc.abstractmethod
    def begin(self) -> None:
        """Called when the newest checkpoint is restored, before the first loop."""

    @abc.abstractmethod
    def __call__(self, output: Mapping[str, Any]) -> None:
        """Called with the output of every loop."""
