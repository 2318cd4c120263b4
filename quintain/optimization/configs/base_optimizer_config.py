"""Base config of all optimizers."""

import dataclasses
import re
from collections.abc import Iterator

from typing_extensions import override

from quintain import errors
from quintain.config import base_config
from quintain.optimization.configs.ranges import Positive

_PATTERN_FIELDS = (
    "include_in_weight_decay",
    "exclude_from_weight_decay",
    "exclude_from_layer_adaptation",
    "exclude_layers",
)


@dataclasses.dataclass
class BaseOptimizerConfig(base_config.Config):
    """Gradient clipping, which all optimizers share.

    Gradients are clipped after they have been summed over the replicas, so that the same batch
    gives the same update on any number of devices. `clipvalue` comes first;
    `clipnorm` and `global_clipnorm` exclude each other.
    """

    clipnorm: Positive | None = None
    """Largest L2 norm of one variable's gradient. None for no limit."""

    clipvalue: Positive | None = None
    """Largest absolute value of one number in a gradient. None for no limit."""

    global_clipnorm: Positive | None = None
    """Largest L2 norm of all gradients together. None for no limit."""

    @override
    def check(self) -> Iterator[tuple[str, str]]:
        """Yields a problem if both norms are limited, and for what is not a regular expression."""
        yield from self._check_patterns()
        if self.clipnorm is not None and self.global_clipnorm is not None:
            yield (
                "clipnorm",
                f"got {errors.show(self.clipnorm)} together with "
                f"global_clipnorm={errors.show(self.global_clipnorm)}, "
                "expected at most one of them. Leave one out.",
            )

    def _check_patterns(self) -> Iterator[tuple[str, str]]:
        for name in _PATTERN_FIELDS:
            for pattern in self.as_dict().get(name) or ():
                try:
                    re.compile(pattern)
                except re.error as error:
                    yield (
                        name,
                        (f"got {errors.show(pattern)}, expected a regular expression: {error}."),
                    )
